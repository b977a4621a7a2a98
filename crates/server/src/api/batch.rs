//! Many tasks in one request, each taken or refused by itself.

use super::schema;
use super::tasks::{NewTask, item_problem};
use crate::access::Produce;
use crate::answer::{Answer, ok};
use crate::app::App;
use crate::body::JsonBody;
use crate::input::{self, AtMost};
use crate::problem::{Fault, Problem};
use axum::extract::State;
use duebook_core::TaskId;
use duebook_core::limits::BATCH_ITEMS_MAX;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Batch<'a> {
    #[serde(borrow)]
    tasks: AtMost<NewTask<'a>, BATCH_ITEMS_MAX>,
}

/// The same, its items not looked at yet.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBatch<'a> {
    #[serde(borrow)]
    tasks: AtMost<&'a RawValue, BATCH_ITEMS_MAX>,
}

#[derive(Serialize)]
struct Results<'a> {
    results: Vec<ItemView<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ItemView<'a> {
    Scheduled { id: TaskId, created: bool },
    Refused { error: Fault<'a> },
}

/// Reads the items. If the whole cannot be read, each is read by itself, so that one wrong item fails alone.
fn read(body: &[u8]) -> Result<Vec<Result<NewTask<'_>, Problem>>, Problem> {
    if let Ok(batch) = serde_json::from_slice::<Batch<'_>>(body) {
        return Ok(batch.tasks.0.into_iter().map(Ok).collect());
    }
    let batch: RawBatch<'_> = input::read(body)?;
    Ok(batch.tasks.0.into_iter().map(|item| input::read(item.get().as_bytes())).collect())
}

/// Schedule many tasks
///
/// Each is taken or refused by itself; the results come one by one in order. When it is answered, those taken are
/// durable.
#[utoipa::path(post, path = "/v1/tasks/batch", operation_id = "schedule_tasks", tag = "tasks", request_body = schema::NewTasks, responses(
    (status = 200, description = "One result per task, in order", body = schema::BatchResults)))]
pub(super) async fn schedule_batch(
    State(app): State<Arc<App>>,
    Produce(caller): Produce,
    body: JsonBody,
) -> Answer {
    let items = read(&body.bytes)?;
    if items.is_empty() {
        return Err(Problem::bad("/tasks", format!("must have 1 to {BATCH_ITEMS_MAX} items")));
    }
    let now_ms = app.engine.now_ms();
    let mut requests = Vec::with_capacity(items.len());
    let refused: Vec<Option<Problem>> = items
        .into_iter()
        .enumerate()
        .map(|(at, item)| match item.and_then(|task| task.request(&app.engine, &caller, now_ms)) {
            Ok(request) => {
                requests.push(request);
                None
            }
            Err(problem) => Some(problem.below(&format!("/tasks/{at}"))),
        })
        .collect();
    let answers = if requests.is_empty() { Vec::new() } else { app.engine.schedule(requests).await? };
    let answers: Vec<_> = answers.into_iter().map(|answer| answer.map_err(item_problem)).collect();
    let mut answers = answers.iter();
    let results = refused
        .iter()
        .filter_map(|refused| {
            Some(match refused {
                Some(problem) => ItemView::Refused { error: problem.fault() },
                None => match answers.next()? {
                    Ok(answer) => ItemView::Scheduled { id: answer.id, created: answer.created },
                    Err(problem) => ItemView::Refused { error: problem.fault() },
                },
            })
        })
        .collect();
    ok(&Results { results })
}
