//! One task: schedule it, look at it, read its trail.

use super::schema;
use crate::access::{Caller, Produce, Read};
use crate::answer::{Answer, Params, PathPart, json, ok};
use crate::app::App;
use crate::body::JsonBody;
use crate::code::Code;
use crate::input;
use crate::problem::Problem;
use crate::stamp::{DueAt, Stamp};
use crate::wire::{ScheduledView, TaskView};
use axum::extract::State;
use duebook_core::limits::{
    DUE_MS_MAX, DUE_MS_MIN, KEY_BYTES_MAX, PAGE_ITEMS_MAX, PAYLOAD_BYTES_MAX, is_name,
};
use duebook_core::{OnConflict, Priority, State as TaskState, TaskId, TrailEntry};
use duebook_engine::{Engine, EngineError, ScheduleRequest, trace_id_of};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;

/// A task to be scheduled, borrowed from the request's body.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewTask<'a> {
    #[serde(borrow)]
    pub(super) queue: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) key: Cow<'a, str>,
    due_at: Option<DueAt>,
    delay_ms: Option<u64>,
    #[serde(borrow)]
    pub(super) payload: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) priority: Option<Priority>,
    pub(super) retry: Option<String>,
    #[serde(default)]
    on_conflict: Option<OnConflict>,
}

/// The due time of a request that gives exactly one of the two.
pub(super) fn due_ms(due_at: Option<DueAt>, delay_ms: Option<u64>, now_ms: i64) -> Result<i64, Problem> {
    match (due_at, delay_ms) {
        (Some(DueAt(due_ms)), None) => Ok(due_ms),
        (None, Some(delay_ms)) => {
            let due_ms = now_ms.saturating_add_unsigned(delay_ms);
            if (DUE_MS_MIN..=DUE_MS_MAX).contains(&due_ms) {
                return Ok(due_ms);
            }
            Err(Problem::bad("/delay_ms", "leads beyond the year 9999"))
        }
        (None, None) => Err(Problem::at(Code::MissingField, "/due_at", "due_at or delay_ms must be given")),
        (Some(_), Some(_)) => Err(Problem::bad("/delay_ms", "must not be given beside due_at")),
    }
}

pub(super) fn check_queue_name(name: &str, pointer: &str) -> Result<(), Problem> {
    if is_name(name) {
        return Ok(());
    }
    Err(Problem::bad(pointer, "must be 1 to 64 of a-z A-Z 0-9 . _ - :"))
}

/// The name of a queue or schedule in a path.
pub(super) fn check_name_in_path(name: &str) -> Result<(), Problem> {
    check_queue_name(name, "").map_err(|problem| {
        Problem::new(problem.code, format!("the name {name:?} in the path {}", problem.detail))
    })
}

pub(super) fn check_payload(payload: Option<&RawValue>) -> Result<(), Problem> {
    match payload {
        Some(payload) if payload.get().len() > PAYLOAD_BYTES_MAX => {
            let why = format!("has {} bytes, more than {PAYLOAD_BYTES_MAX}", payload.get().len());
            Err(Problem::at(Code::PayloadTooLarge, "/payload", why))
        }
        _ => Ok(()),
    }
}

impl NewTask<'_> {
    /// Checks every bound.
    pub(super) fn request(
        &self,
        engine: &Engine,
        caller: &Caller,
        now_ms: i64,
    ) -> Result<ScheduleRequest, Problem> {
        check_queue_name(&self.queue, "/queue")?;
        caller.check_queue(&self.queue).map_err(|problem| problem.below("/queue"))?;
        if self.key.is_empty() || self.key.len() > KEY_BYTES_MAX {
            return Err(Problem::bad("/key", format!("must have 1 to {KEY_BYTES_MAX} bytes")));
        }
        check_payload(self.payload)?;
        if let Some(policy) = &self.retry
            && !engine.config().policies.contains(policy)
        {
            return Err(Problem::bad("/retry", format!("no retry policy is called {policy:?}")));
        }
        Ok(ScheduleRequest {
            queue: self.queue.clone().into_owned(),
            key: self.key.clone().into_owned(),
            due_ms: due_ms(self.due_at, self.delay_ms, now_ms)?,
            payload: self.payload.map(|payload| payload.get().to_owned()),
            priority: self.priority.unwrap_or_default(),
            retry: self.retry.clone(),
            on_conflict: self.on_conflict.unwrap_or_default(),
            trace_id: caller.trace_id.clone(),
            actor: Some(caller.actor().to_string()),
        })
    }
}

/// Schedule a task
///
/// When it is answered, the task is durable. Idempotent on (queue, key) among live tasks: see `on_conflict`.
#[utoipa::path(post, path = "/v1/tasks", operation_id = "schedule_task", tag = "tasks", request_body = schema::NewTask, responses(
    (status = 201, description = "Scheduled", body = schema::ScheduledTask),
    (status = 200, description = "A live task had the key: it is answered, kept or replaced", body = schema::ScheduledTask),
    (status = 409, description = "`key_taken`, with `on_conflict: reject`", body = schema::Problem,
        content_type = "application/problem+json"),
))]
pub(super) async fn schedule(
    State(app): State<Arc<App>>,
    Produce(caller): Produce,
    body: JsonBody,
) -> Answer {
    let task: NewTask<'_> = input::read(&body.bytes)?;
    let request = task.request(&app.engine, &caller, app.engine.now_ms())?;
    let due_ms = request.due_ms;
    let answer = match app.engine.schedule(vec![request]).await?.pop() {
        Some(answer) => answer?,
        None => return Err(Problem::new(Code::Internal, "the engine gave no answer")),
    };
    if let Some(existing) = &answer.existing {
        let task = TaskView::of(existing, &task.queue);
        return ok(&ScheduledView { task, created: answer.created });
    }
    let trace_id = match &caller.trace_id {
        Some(trace_id) => Cow::Borrowed(trace_id.as_str()),
        None => Cow::Owned(format!("{:032x}", answer.id.as_i64())),
    };
    let task = TaskView {
        id: answer.id,
        queue: &task.queue,
        key: &task.key,
        state: TaskState::Pending,
        due_ms,
        payload: task.payload,
        priority: task.priority.unwrap_or_default(),
        attempt: 0,
        retry: task.retry.as_deref(),
        created_ms: answer.created_ms,
        committed_ms: answer.committed_ms,
        fired_ms: None,
        started_ms: None,
        finished_ms: None,
        cancel_requested: false,
        last_error: None,
        trace_id,
    };
    json(StatusCode::CREATED, &ScheduledView { task, created: answer.created })
}

/// The id in a path. What cannot be one names no task.
pub(super) fn id_in_path(text: &str) -> Result<TaskId, Problem> {
    text.parse().map_err(|_| Problem::no_such("task", text))
}

/// A task that the caller may see.
pub(super) async fn find(
    engine: &Engine,
    caller: &Caller,
    text: &str,
) -> Result<duebook_core::Task, Problem> {
    let id = id_in_path(text)?;
    let task = engine.store().task(id).await?.ok_or_else(|| Problem::no_such("task", text))?;
    caller.check_queue_of(engine, &task)?;
    Ok(task)
}

/// A task
#[utoipa::path(get, path = "/v1/tasks/{id}", operation_id = "get_task", tag = "tasks", params(("id" = String, Path, description = "The task's id")),
    responses((status = 200, description = "The task", body = schema::Task),
        (status = 404, description = "`not_found`", body = schema::Problem, content_type = "application/problem+json")))]
pub(super) async fn get(State(app): State<Arc<App>>, Read(caller): Read, PathPart(id): PathPart) -> Answer {
    let task = find(&app.engine, &caller, &id).await?;
    ok(&TaskView::of(&task, &queue_name(&app.engine, &task)))
}

pub(super) fn queue_name(engine: &Engine, task: &duebook_core::Task) -> Arc<str> {
    engine.queue_name(task.queue).unwrap_or_default()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrailParams {
    limit: Option<String>,
    after_seq: Option<String>,
}

/// `limit` of a listing.
pub(super) fn limit_of(text: Option<&str>, default: usize) -> Result<usize, Problem> {
    let Some(text) = text else { return Ok(default) };
    text.parse()
        .ok()
        .filter(|limit| (1..=PAGE_ITEMS_MAX).contains(limit))
        .ok_or_else(|| Problem::query(format!("limit: must be from 1 to {PAGE_ITEMS_MAX}")))
}

#[derive(Serialize)]
struct TrailView<'a> {
    items: Vec<EntryView<'a>>,
    next_after_seq: Option<u32>,
}

#[derive(Serialize)]
struct EntryView<'a> {
    seq: u32,
    at: Stamp,
    from: Option<&'static str>,
    to: &'static str,
    reason: &'static str,
    attempt: u32,
    due_at: Stamp,
    started_at: Option<Stamp>,
    actor: &'a str,
    detail: Option<&'a str>,
    trace_id: &'a str,
}

impl<'a> EntryView<'a> {
    fn of(entry: &'a TrailEntry, task_trace_id: &'a str) -> Self {
        Self {
            seq: entry.seq,
            at: Stamp(entry.at_ms),
            from: entry.step.from.map(TaskState::as_str),
            to: entry.step.to.as_str(),
            reason: entry.step.reason.as_str(),
            attempt: entry.attempt,
            due_at: Stamp(entry.due_ms),
            started_at: entry.started_ms.map(Stamp),
            actor: entry.actor.as_deref().unwrap_or("engine"),
            detail: entry.detail.as_deref(),
            trace_id: entry.trace_id.as_deref().unwrap_or(task_trace_id),
        }
    }
}

/// A task's trail
///
/// Every change of its state, oldest first.
#[utoipa::path(get, path = "/v1/tasks/{id}/trail", operation_id = "get_trail", tag = "tasks", params(
        ("id" = String, Path, description = "The task's id"),
        ("limit" = Option<u32>, Query, description = "Most entries, 1 to 1000 (default 1000)"),
        ("after_seq" = Option<u32>, Query, description = "Only entries after this one")),
    responses((status = 200, description = "Its trail", body = schema::Trail),
        (status = 404, description = "`not_found`", body = schema::Problem, content_type = "application/problem+json")))]
pub(super) async fn trail(
    State(app): State<Arc<App>>,
    Read(caller): Read,
    PathPart(id): PathPart,
    Params(params): Params<TrailParams>,
) -> Answer {
    let limit = limit_of(params.limit.as_deref(), PAGE_ITEMS_MAX)?;
    let after_seq = match &params.after_seq {
        None => 0,
        Some(text) => text.parse().map_err(|_| Problem::query("after_seq: must be a number"))?,
    };
    let task = find(&app.engine, &caller, &id).await?;
    let entries = app.engine.store().trail(task.id, after_seq, limit).await?;
    let trace_id = trace_id_of(&task);
    let next_after_seq = entries.last().map(|last| last.seq).filter(|seq| *seq < task.head.seq);
    let items = entries.iter().map(|entry| EntryView::of(entry, &trace_id)).collect();
    ok(&TrailView { items, next_after_seq })
}

/// The refusal of one item of a batch.
pub(super) fn item_problem(error: EngineError) -> Problem {
    error.into()
}
