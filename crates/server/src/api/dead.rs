//! Dead letters: look at them, retry them.

use super::listing::{empty_page, page, read_cursor};
use super::schema;
use super::tasks::limit_of;
use crate::access::{Produce, Read};
use crate::answer::{Answer, Params, ok};
use crate::app::App;
use crate::body::JsonBody;
use crate::input::{self, AtMost};
use crate::problem::{Fault, Problem};
use axum::extract::State;
use duebook_core::limits::PAGE_ITEMS_MAX;
use duebook_core::{State as TaskState, TaskId};
use duebook_store::{Order, TaskFilter};
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const LIMIT_DEFAULT: usize = 100;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeadParams {
    queue: Option<String>,
    cursor: Option<String>,
    limit: Option<String>,
}

/// List dead letters
///
/// Latest due first.
#[utoipa::path(get, path = "/v1/dead", operation_id = "list_dead", tag = "dead letters", params(
        ("queue" = Option<String>, Query, description = "Only of this queue"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before"),
        ("limit" = Option<u32>, Query, description = "Most items, 1 to 1000 (default 100)")),
    responses((status = 200, description = "A page of dead tasks", body = schema::TaskPage)))]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Read(caller): Read,
    Params(params): Params<DeadParams>,
) -> Answer {
    let limit = limit_of(params.limit.as_deref(), LIMIT_DEFAULT)?;
    let after = params.cursor.as_deref().map(read_cursor).transpose()?;
    let queue = match caller.queue_of_listing(params.queue)? {
        None => None,
        Some(name) => match app.engine.queue_id(&name) {
            Some(id) => Some(id),
            None => return empty_page(),
        },
    };
    page(&app, TaskFilter { queue, state: Some(TaskState::Dead), after, limit, ..TaskFilter::default() })
        .await
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    ids: Option<AtMost<String, PAGE_ITEMS_MAX>>,
    queue: Option<String>,
    limit: Option<usize>,
}

#[derive(Serialize)]
struct Retried<'a> {
    retried: usize,
    results: Vec<ItemView<'a>>,
}

#[derive(Serialize)]
struct ItemView<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Fault<'a>>,
}

async fn of_queue(app: &App, queue: &str, limit: Option<usize>) -> Result<Vec<String>, Problem> {
    let limit = limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=PAGE_ITEMS_MAX).contains(&limit) {
        return Err(Problem::bad("/limit", format!("must be from 1 to {PAGE_ITEMS_MAX}")));
    }
    let id = app.engine.queue_id(queue).ok_or_else(|| Problem::no_such("queue", queue))?;
    let filter = TaskFilter {
        queue: Some(id),
        state: Some(TaskState::Dead),
        order: Order::EarliestDueFirst,
        limit,
        ..TaskFilter::default()
    };
    Ok(app.engine.store().list(filter).await?.into_iter().map(|task| task.id.to_string()).collect())
}

/// Retry dead letters
///
/// By their ids, or a queue's, earliest due first. Each gets a new life, due now, with all attempts.
#[utoipa::path(post, path = "/v1/dead/retry", operation_id = "retry_dead", tag = "dead letters", request_body = schema::DeadRetry, responses(
    (status = 200, description = "How many live again, and one result per task", body = schema::DeadRetried)))]
pub(super) async fn retry(State(app): State<Arc<App>>, Produce(caller): Produce, body: JsonBody) -> Answer {
    let wanted: Wanted = input::read(&body.bytes)?;
    let ids = match (wanted.ids, wanted.queue) {
        (Some(_), Some(_)) => return Err(Problem::bad("/queue", "must not be given beside ids")),
        (Some(_), None) if wanted.limit.is_some() => {
            return Err(Problem::bad("/limit", "goes with queue only"));
        }
        (Some(ids), None) => ids.0,
        (None, Some(queue)) => {
            caller.check_queue(&queue)?;
            of_queue(&app, &queue, wanted.limit).await?
        }
        (None, None) => return Err(Problem::bad("", "ids or queue must be given")),
    };
    // All at once, so that they share a transaction.
    let answers = join_all(ids.iter().map(async |text| {
        let id: TaskId = text.parse().map_err(|_| Problem::no_such("task", text))?;
        caller.check_task(&app.engine, id).await?;
        app.engine.retry_dead(id, Some(caller.actor()), caller.trace_id.clone()).await.map_err(Problem::from)
    }))
    .await;
    let results: Vec<_> = ids
        .iter()
        .zip(&answers)
        .map(|(id, answer)| ItemView {
            id,
            ok: answer.is_ok(),
            error: answer.as_ref().err().map(Problem::fault),
        })
        .collect();
    let retried = answers.iter().filter(|answer| answer.is_ok()).count();
    ok(&Retried { retried, results })
}
