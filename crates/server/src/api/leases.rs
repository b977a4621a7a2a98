//! Pulled leases: lease, settle, extend.

use super::schema;
use super::tasks::check_name_in_path;
use crate::access::{Caller, Work};
use crate::answer::{Answer, PathPart, ok};
use crate::app::App;
use crate::body::JsonBody;
use crate::code::Code;
use crate::input::{self, AtMost};
use crate::problem::Problem;
use crate::wire::{LeasedView, TaskView};
use axum::extract::State;
use duebook_core::limits::{
    ACTOR_BYTES_MAX, ERROR_BYTES_MAX, LEASE_ITEMS_MAX, LEASE_MS_MAX, LEASE_MS_MIN, LEASE_WAIT_MAX_MS, cut,
};
use duebook_core::retry::FailureClass;
use duebook_core::{LeaseKey, TaskId};
use duebook_engine::{LeaseRequest, Outcome, SettleRequest};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;

const LEASE_MS_DEFAULT: u64 = 30_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    worker: String,
    max: Option<usize>,
    wait_ms: Option<u64>,
    lease_ms: Option<u64>,
}

fn check_lease_ms(lease_ms: Option<u64>) -> Result<u64, Problem> {
    let lease_ms = lease_ms.unwrap_or(LEASE_MS_DEFAULT);
    if (LEASE_MS_MIN..=LEASE_MS_MAX).contains(&lease_ms) {
        return Ok(lease_ms);
    }
    Err(Problem::bad("/lease_ms", format!("must be from {LEASE_MS_MIN} to {LEASE_MS_MAX} milliseconds")))
}

impl Wanted {
    fn check(self) -> Result<LeaseRequest, Problem> {
        if self.worker.is_empty() || self.worker.len() > ACTOR_BYTES_MAX {
            return Err(Problem::bad("/worker", format!("must have 1 to {ACTOR_BYTES_MAX} bytes")));
        }
        let max = self.max.unwrap_or(1);
        if !(1..=LEASE_ITEMS_MAX).contains(&max) {
            return Err(Problem::bad("/max", format!("must be from 1 to {LEASE_ITEMS_MAX}")));
        }
        let wait_ms = self.wait_ms.unwrap_or(0);
        if wait_ms > LEASE_WAIT_MAX_MS {
            return Err(Problem::bad(
                "/wait_ms",
                format!("must be at most {LEASE_WAIT_MAX_MS} milliseconds"),
            ));
        }
        Ok(LeaseRequest { worker: self.worker, max, wait_ms, lease_ms: check_lease_ms(self.lease_ms)? })
    }
}

#[derive(Serialize)]
struct Leased<'a> {
    tasks: Vec<LeasedView<'a>>,
}

/// Lease due tasks
///
/// Waits up to `wait_ms` and answers as soon as a task is due. Settle each lease before it ends, or extend it.
#[utoipa::path(post, path = "/v1/queues/{queue}/lease", operation_id = "lease_tasks", tag = "leases", request_body = schema::LeaseRequest,
    params(("queue" = String, Path, description = "The queue")),
    responses((status = 200, description = "The tasks, none if none became due", body = schema::LeasedTasks),
        (status = 409, description = "`not_pulled`: the queue's handler is another", body = schema::Problem,
            content_type = "application/problem+json")))]
pub(super) async fn lease(
    State(app): State<Arc<App>>,
    Work(caller): Work,
    PathPart(queue): PathPart,
    body: JsonBody,
) -> Answer {
    check_name_in_path(&queue)?;
    caller.check_queue(&queue)?;
    let request = input::read::<Wanted>(&body.bytes)?.check()?;
    // A long poll holds no share of the memory for bodies.
    drop(body);
    let leased = app.engine.lease(&queue, request).await?;
    let tasks = leased
        .iter()
        .map(|leased| {
            let mut task = TaskView::of(&leased.job.task, &leased.job.queue);
            task.started_ms = Some(leased.job.started_us().div_euclid(1000));
            LeasedView { task, lease: leased.job.lease, until_ms: leased.until_ms }
        })
        .collect();
    ok(&Leased { tasks })
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Ending {
    Done,
    Retry,
    Dead,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settlement<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    lease_token: Cow<'a, str>,
    outcome: Ending,
    class: Option<FailureClass>,
    error: Option<String>,
    delay_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settlements<'a> {
    #[serde(borrow)]
    results: AtMost<Settlement<'a>, LEASE_ITEMS_MAX>,
}

impl Settlement<'_> {
    fn outcome(&mut self) -> Outcome {
        let class = match self.outcome {
            Ending::Done => return Outcome::Done,
            Ending::Dead => FailureClass::Permanent,
            Ending::Retry => self.class.unwrap_or_default(),
        };
        let mut error = self.error.take().unwrap_or_default();
        error.truncate(cut(&error, ERROR_BYTES_MAX).len());
        Outcome::Failed { class, error, delay_ms: self.delay_ms }
    }
}

#[derive(Serialize)]
struct Results {
    results: Vec<ItemView>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ItemView {
    Settled { ok: bool },
    Extended { ok: bool, cancel_requested: bool },
    Refused { error: &'static str },
}

impl ItemView {
    fn refused(problem: impl Into<Problem>) -> Self {
        Self::Refused { error: problem.into().code.as_str() }
    }
}

/// Which lease an item means, if it can mean one and the caller may.
async fn meant(app: &App, caller: &Caller, id: &str, token: &str) -> Result<(TaskId, LeaseKey), Problem> {
    let id: TaskId = id.parse().map_err(|_| Problem::no_such("task", id))?;
    let lease = token.parse().map_err(|()| Problem::new(Code::LeaseLost, "is no lease token"))?;
    caller.check_task(&app.engine, id).await?;
    Ok((id, lease))
}

/// Settle leases
///
/// Each for itself; the results come one by one in order. When it is answered, those taken are durable.
#[utoipa::path(post, path = "/v1/leases/settle", operation_id = "settle_leases", tag = "leases", request_body = schema::Settlements, responses(
    (status = 200, description = "One result per lease, in order", body = schema::LeaseResults)))]
pub(super) async fn settle(State(app): State<Arc<App>>, Work(caller): Work, body: JsonBody) -> Answer {
    let mut wanted: Settlements<'_> = input::read(&body.bytes)?;
    let mut results: Vec<Option<ItemView>> = Vec::with_capacity(wanted.results.0.len());
    let mut requests = Vec::with_capacity(wanted.results.0.len());
    for item in &mut wanted.results.0 {
        match meant(&app, &caller, &item.id, &item.lease_token).await {
            Ok((id, lease)) => {
                requests.push(SettleRequest { id, lease, outcome: item.outcome() });
                results.push(None);
            }
            Err(problem) => results.push(Some(ItemView::refused(problem))),
        }
    }
    let mut answers = app.engine.settle(requests).await?.into_iter();
    let results = results
        .into_iter()
        .filter_map(|result| {
            result.or_else(|| {
                answers.next().map(|answer| match answer {
                    Ok(()) => ItemView::Settled { ok: true },
                    Err(refusal) => ItemView::refused(refusal),
                })
            })
        })
        .collect();
    ok(&Results { results })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Held<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    lease_token: Cow<'a, str>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Extensions<'a> {
    #[serde(borrow)]
    leases: AtMost<Held<'a>, LEASE_ITEMS_MAX>,
    lease_ms: Option<u64>,
}

/// Extend leases
///
/// To `lease_ms` from now, each for itself. The answer says whether the worker is asked to stop.
#[utoipa::path(post, path = "/v1/leases/extend", operation_id = "extend_leases", tag = "leases", request_body = schema::Extensions, responses(
    (status = 200, description = "One result per lease, in order", body = schema::LeaseResults)))]
pub(super) async fn extend(State(app): State<Arc<App>>, Work(caller): Work, body: JsonBody) -> Answer {
    let wanted: Extensions<'_> = input::read(&body.bytes)?;
    let lease_ms = check_lease_ms(wanted.lease_ms)?;
    let mut results: Vec<Option<ItemView>> = Vec::with_capacity(wanted.leases.0.len());
    let mut leases = Vec::with_capacity(wanted.leases.0.len());
    for item in &wanted.leases.0 {
        match meant(&app, &caller, &item.id, &item.lease_token).await {
            Ok(lease) => {
                leases.push(lease);
                results.push(None);
            }
            Err(problem) => results.push(Some(ItemView::refused(problem))),
        }
    }
    let answers = if leases.is_empty() { Vec::new() } else { app.engine.extend(leases, lease_ms).await? };
    let mut answers = answers.into_iter();
    let results = results
        .into_iter()
        .filter_map(|result| {
            result.or_else(|| {
                answers.next().map(|answer| match answer {
                    Ok(extension) => {
                        ItemView::Extended { ok: true, cancel_requested: extension.cancel_requested }
                    }
                    Err(refusal) => ItemView::refused(refusal),
                })
            })
        })
        .collect();
    ok(&Results { results })
}
