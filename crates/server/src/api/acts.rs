//! What people and programs do to a task after it was scheduled.

use super::schema;
use super::tasks::{due_ms, id_in_path, queue_name};
use crate::access::{Caller, Produce};
use crate::answer::{Answer, PathPart, QueueAndKey, ok};
use crate::app::App;
use crate::body::JsonBody;
use crate::input::{self, Nothing};
use crate::problem::Problem;
use crate::stamp::DueAt;
use crate::wire::TaskView;
use axum::extract::State;
use duebook_core::{Task, TaskId};
use duebook_engine::{Cancelled, TaskRef};
use serde::Deserialize;
use std::sync::Arc;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewDue {
    due_at: Option<DueAt>,
    delay_ms: Option<u64>,
}

fn answer(app: &App, task: &Task) -> Answer {
    ok(&TaskView::of(task, &queue_name(&app.engine, task)))
}

/// The task of the path, if the caller's key is for its queue.
async fn own_task(app: &App, caller: &Caller, id: &str) -> Result<TaskId, Problem> {
    let id = id_in_path(id)?;
    caller.check_task(&app.engine, id).await?;
    Ok(id)
}

async fn cancel_task(app: &App, caller: Caller, task: &TaskRef) -> Answer {
    let cancelled = app.engine.cancel(task, Some(caller.actor()), caller.trace_id).await?;
    match cancelled {
        Cancelled::Outright(task) | Cancelled::Asked(task) => answer(app, &task),
    }
}

async fn reschedule_task(app: &App, caller: Caller, task: &TaskRef, body: &[u8]) -> Answer {
    let new: NewDue = input::read(body)?;
    let due_ms = due_ms(new.due_at, new.delay_ms, app.engine.now_ms())?;
    let task = app.engine.reschedule(task, due_ms, Some(caller.actor()), caller.trace_id).await?;
    answer(app, &task)
}

/// Cancel a task
///
/// A task whose handler has not started is cancelled outright. One that runs is asked to stop: the answer says
/// `cancel_requested`, and its worker learns of it at its next extend.
#[utoipa::path(post, path = "/v1/tasks/{id}/cancel", operation_id = "cancel_task", tag = "tasks",
    params(("id" = String, Path, description = "The task's id")),
    responses((status = 200, description = "The task", body = schema::Task),
        (status = 404, description = "`not_found`", body = schema::Problem, content_type = "application/problem+json"),
        (status = 409, description = "`illegal_transition`: it has ended", body = schema::Problem,
            content_type = "application/problem+json")))]
pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    Produce(caller): Produce,
    PathPart(id): PathPart,
    body: JsonBody,
) -> Answer {
    let _: Nothing = input::read_or_default(&body.bytes)?;
    let id = own_task(&app, &caller, &id).await?;
    cancel_task(&app, caller, &TaskRef::Id(id)).await
}

/// Reschedule a task
///
/// Gives a task whose handler has not started another due time.
#[utoipa::path(post, path = "/v1/tasks/{id}/reschedule", operation_id = "reschedule_task", tag = "tasks", request_body = schema::NewDue,
    params(("id" = String, Path, description = "The task's id")),
    responses((status = 200, description = "The task", body = schema::Task),
        (status = 404, description = "`not_found`", body = schema::Problem, content_type = "application/problem+json"),
        (status = 409, description = "`illegal_transition`: it runs or has ended", body = schema::Problem,
            content_type = "application/problem+json")))]
pub(super) async fn reschedule(
    State(app): State<Arc<App>>,
    Produce(caller): Produce,
    PathPart(id): PathPart,
    body: JsonBody,
) -> Answer {
    let id = own_task(&app, &caller, &id).await?;
    reschedule_task(&app, caller, &TaskRef::Id(id), &body.bytes).await
}

/// Run a task now
///
/// Makes a pending task due now.
#[utoipa::path(post, path = "/v1/tasks/{id}/run", operation_id = "run_task", tag = "tasks",
    params(("id" = String, Path, description = "The task's id")),
    responses((status = 200, description = "The task", body = schema::Task),
        (status = 404, description = "`not_found`", body = schema::Problem, content_type = "application/problem+json"),
        (status = 409, description = "`illegal_transition`: it is not pending", body = schema::Problem,
            content_type = "application/problem+json")))]
pub(super) async fn run(
    State(app): State<Arc<App>>,
    Produce(caller): Produce,
    PathPart(id): PathPart,
    body: JsonBody,
) -> Answer {
    let _: Nothing = input::read_or_default(&body.bytes)?;
    let id = own_task(&app, &caller, &id).await?;
    let task = app.engine.run_now(id, Some(caller.actor()), caller.trace_id).await?;
    answer(&app, &task)
}

/// Retry a dead task
///
/// Gives it a new life, due now, with all attempts; its trail goes on.
#[utoipa::path(post, path = "/v1/tasks/{id}/retry", operation_id = "retry_task", tag = "tasks",
    params(("id" = String, Path, description = "The task's id")),
    responses((status = 200, description = "The task", body = schema::Task),
        (status = 404, description = "`not_found`", body = schema::Problem, content_type = "application/problem+json"),
        (status = 409, description = "`illegal_transition`: it is not dead; or `key_taken`", body = schema::Problem,
            content_type = "application/problem+json")))]
pub(super) async fn retry(
    State(app): State<Arc<App>>,
    Produce(caller): Produce,
    PathPart(id): PathPart,
    body: JsonBody,
) -> Answer {
    let _: Nothing = input::read_or_default(&body.bytes)?;
    let id = own_task(&app, &caller, &id).await?;
    let task = app.engine.retry_dead(id, Some(caller.actor()), caller.trace_id).await?;
    answer(&app, &task)
}

/// Cancel the task with a key
///
/// As by id, for the live task of the queue with this key.
#[utoipa::path(post, path = "/v1/queues/{queue}/keys/{key}/cancel", operation_id = "cancel_task_by_key", tag = "tasks",
    params(("queue" = String, Path, description = "The queue"), ("key" = String, Path, description = "The business key")),
    responses((status = 200, description = "The task", body = schema::Task),
        (status = 404, description = "`not_found`", body = schema::Problem, content_type = "application/problem+json"),
        (status = 409, description = "`illegal_transition`: the last task with this key has ended", body = schema::Problem,
            content_type = "application/problem+json")))]
pub(super) async fn cancel_key(
    State(app): State<Arc<App>>,
    Produce(caller): Produce,
    path: QueueAndKey,
    body: JsonBody,
) -> Answer {
    let _: Nothing = input::read_or_default(&body.bytes)?;
    let QueueAndKey { queue, key } = path;
    caller.check_queue(&queue)?;
    cancel_task(&app, caller, &TaskRef::Key { queue, key }).await
}

/// Reschedule the task with a key
///
/// As by id, for the live task of the queue with this key.
#[utoipa::path(post, path = "/v1/queues/{queue}/keys/{key}/reschedule", operation_id = "reschedule_task_by_key", tag = "tasks", request_body = schema::NewDue,
    params(("queue" = String, Path, description = "The queue"), ("key" = String, Path, description = "The business key")),
    responses((status = 200, description = "The task", body = schema::Task),
        (status = 404, description = "`not_found`", body = schema::Problem, content_type = "application/problem+json"),
        (status = 409, description = "`illegal_transition`: it runs or has ended", body = schema::Problem,
            content_type = "application/problem+json")))]
pub(super) async fn reschedule_key(
    State(app): State<Arc<App>>,
    Produce(caller): Produce,
    path: QueueAndKey,
    body: JsonBody,
) -> Answer {
    let QueueAndKey { queue, key } = path;
    caller.check_queue(&queue)?;
    reschedule_task(&app, caller, &TaskRef::Key { queue, key }, &body.bytes).await
}
