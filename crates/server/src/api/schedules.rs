//! Recurring schedules.

use super::schema;
use super::tasks::{check_name_in_path, check_payload, check_queue_name};
use crate::access::{Admin, Caller, Read};
use crate::answer::{Answer, PathPart, nothing, ok};
use crate::app::App;
use crate::body::JsonBody;
use crate::input;
use crate::problem::Problem;
use crate::stamp::Stamp;
use crate::wire::raw;
use axum::extract::State;
use duebook_core::recurring::{CatchUp, Every};
use duebook_engine::RecurringView;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted<'a> {
    queue: String,
    cron: Option<String>,
    timezone: Option<String>,
    every_ms: Option<u64>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    #[serde(default)]
    catch_up: Option<CatchUp>,
}

#[derive(Serialize)]
struct View<'a> {
    name: &'a str,
    queue: &'a str,
    cron: Option<&'a str>,
    timezone: Option<&'a str>,
    every_ms: Option<u64>,
    payload: Option<&'a RawValue>,
    catch_up: CatchUp,
    updated_at: Stamp,
    next: Vec<Stamp>,
}

impl<'a> View<'a> {
    fn of(schedule: &'a RecurringView) -> Self {
        let row = &schedule.row;
        Self {
            name: &row.name,
            queue: &schedule.queue,
            cron: row.cron.as_deref(),
            timezone: row.timezone.as_deref(),
            every_ms: row.every_ms,
            payload: raw(row.payload.as_deref()),
            catch_up: row.catch_up,
            updated_at: Stamp(row.updated_ms),
            next: schedule.next_ms.iter().copied().map(Stamp).collect(),
        }
    }
}

#[derive(Serialize)]
struct Items<'a> {
    items: Vec<View<'a>>,
}

async fn find(app: &App, name: &str) -> Result<Option<RecurringView>, Problem> {
    Ok(app.engine.recurring().await?.into_iter().find(|schedule| schedule.row.name == name))
}

async fn find_for(app: &App, caller: &Caller, name: &str) -> Result<RecurringView, Problem> {
    let found = find(app, name).await?.ok_or_else(|| Problem::no_such("schedule", name))?;
    caller.check_queue(&found.queue)?;
    Ok(found)
}

/// List recurring schedules
#[utoipa::path(get, path = "/v1/schedules", operation_id = "list_schedules", tag = "schedules", responses(
    (status = 200, description = "The schedules, by name", body = schema::Schedules)))]
pub(super) async fn list(State(app): State<Arc<App>>, Read(caller): Read) -> Answer {
    let schedules = app.engine.recurring().await?;
    let items = schedules.iter().filter(|schedule| caller.may(&schedule.queue)).map(View::of).collect();
    ok(&Items { items })
}

/// A recurring schedule
///
/// With its next five times.
#[utoipa::path(get, path = "/v1/schedules/{name}", operation_id = "get_schedule", tag = "schedules",
    params(("name" = String, Path, description = "The schedule")),
    responses((status = 200, description = "The schedule", body = schema::Schedule),
        (status = 404, description = "`not_found`", body = schema::Problem, content_type = "application/problem+json")))]
pub(super) async fn get(State(app): State<Arc<App>>, Read(caller): Read, PathPart(name): PathPart) -> Answer {
    ok(&View::of(&find_for(&app, &caller, &name).await?))
}

/// Put a recurring schedule
///
/// Creates or replaces it. Either `cron` (by itself in UTC, or with `timezone`) or `every_ms`.
#[utoipa::path(put, path = "/v1/schedules/{name}", operation_id = "put_schedule", tag = "schedules", request_body = schema::NewSchedule,
    params(("name" = String, Path, description = "The schedule")),
    responses((status = 200, description = "The schedule with its next five times", body = schema::Schedule)))]
pub(super) async fn put(
    State(app): State<Arc<App>>,
    Admin(caller): Admin,
    PathPart(name): PathPart,
    body: JsonBody,
) -> Answer {
    check_name_in_path(&name)?;
    let wanted: Wanted<'_> = input::read(&body.bytes)?;
    check_queue_name(&wanted.queue, "/queue")?;
    caller.check_queue(&wanted.queue)?;
    check_payload(wanted.payload)?;
    let old = find(&app, &name).await?;
    if let Some(old) = &old {
        caller.check_queue(&old.queue)?;
    }
    // The same interval again keeps its phase, so that putting a schedule twice is putting it once.
    let anchor_ms = old
        .filter(|old| old.row.every_ms.is_some() && old.row.every_ms == wanted.every_ms)
        .map_or_else(|| app.engine.now_ms(), |old| old.row.anchor_ms);
    let rule =
        Every::from_parts(wanted.cron.as_deref(), wanted.timezone.as_deref(), wanted.every_ms, anchor_ms)
            .map_err(|bad| Problem::bad(format!("/{}", bad.field), bad.why))?;
    let payload = wanted.payload.map(|payload| payload.get().to_owned());
    let catch_up = wanted.catch_up.unwrap_or_default();
    ok(&View::of(&app.engine.put_recurring(&name, &wanted.queue, &rule, payload, catch_up).await?))
}

/// Delete a recurring schedule
///
/// Tasks that it has scheduled stay.
#[utoipa::path(delete, path = "/v1/schedules/{name}", operation_id = "delete_schedule", tag = "schedules",
    params(("name" = String, Path, description = "The schedule")),
    responses((status = 204, description = "It is gone"),
        (status = 404, description = "`not_found`", body = schema::Problem, content_type = "application/problem+json")))]
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Admin(caller): Admin,
    PathPart(name): PathPart,
) -> Answer {
    find_for(&app, &caller, &name).await?;
    if app.engine.delete_recurring(&name).await? {
        nothing()
    } else {
        Err(Problem::no_such("schedule", &name))
    }
}
