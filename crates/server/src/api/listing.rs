//! Pages of tasks, by keyset: the cursor is the place of the last item, so pages neither skip nor repeat what
//! stays where it is.

use super::schema;
use super::tasks::limit_of;
use crate::access::{Caller, Read};
use crate::answer::{Answer, Params, ok};
use crate::app::App;
use crate::problem::Problem;
use crate::stamp::DueAt;
use crate::wire::TaskView;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use duebook_core::limits::KEY_BYTES_MAX;
use duebook_core::{State as TaskState, Task, TaskId};
use duebook_store::{Order, TaskFilter};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const LIMIT_DEFAULT: usize = 100;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListParams {
    queue: Option<String>,
    key: Option<String>,
    state: Option<String>,
    due_before: Option<String>,
    due_after: Option<String>,
    order: Option<String>,
    cursor: Option<String>,
    limit: Option<String>,
}

#[derive(Serialize)]
struct Page<'a> {
    items: Vec<TaskView<'a>>,
    next_cursor: Option<String>,
}

pub(super) fn write_cursor(task: &Task) -> String {
    let mut bytes = [0_u8; 16];
    bytes[..8].copy_from_slice(&task.head.due_ms.to_be_bytes());
    bytes[8..].copy_from_slice(&task.id.as_i64().to_be_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(super) fn read_cursor(text: &str) -> Result<(i64, TaskId), Problem> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok();
    bytes
        .as_deref()
        .and_then(|bytes| bytes.split_first_chunk::<8>())
        .and_then(|(due, id)| Some((i64::from_be_bytes(*due), i64::from_be_bytes(id.try_into().ok()?))))
        .map(|(due_ms, id)| (due_ms, TaskId::from_i64(id)))
        .ok_or_else(|| Problem::query("cursor: is none that was answered"))
}

fn time(name: &str, text: Option<&str>) -> Result<Option<i64>, Problem> {
    let wrong =
        || Problem::query(format!("{name}: must be an RFC 3339 time with an offset, or epoch milliseconds"));
    text.map(|text| DueAt::parse_either(text).map(|due| due.0).ok_or_else(wrong)).transpose()
}

/// Answers a page of the tasks that a filter lets through; one row more is read to know whether there is more.
pub(super) async fn page(app: &App, filter: TaskFilter) -> Answer {
    let limit = filter.limit;
    let mut tasks = app.engine.store().list(TaskFilter { limit: limit + 1, ..filter }).await?;
    let more = tasks.len() > limit;
    tasks.truncate(limit);
    let next_cursor = tasks.last().filter(|_| more).map(write_cursor);
    let names: Vec<_> = tasks.iter().map(|task| super::tasks::queue_name(&app.engine, task)).collect();
    let items = tasks.iter().zip(&names).map(|(task, queue)| TaskView::of(task, queue)).collect();
    ok(&Page { items, next_cursor })
}

/// An empty page: the queue does not exist.
pub(super) fn empty_page() -> Answer {
    ok(&Page { items: Vec::new(), next_cursor: None })
}

fn filter(app: &App, caller: &Caller, params: ListParams) -> Result<Option<TaskFilter>, Problem> {
    let state = match params.state.as_deref() {
        None => None,
        Some(name) => {
            Some(TaskState::ALL.into_iter().find(|state| state.as_str() == name).ok_or_else(|| {
                Problem::query("state: must be pending, running, succeeded, dead or cancelled")
            })?)
        }
    };
    let order = match params.order.as_deref() {
        None => Order::NewestDueFirst,
        Some("due") => Order::EarliestDueFirst,
        Some(_) => return Err(Problem::query("order: must be \"due\" or left out")),
    };
    let queue = caller.queue_of_listing(params.queue)?;
    if params.key.is_some() && queue.is_none() {
        return Err(Problem::query("key: goes with queue only"));
    }
    if params.key.as_ref().is_some_and(|key| key.len() > KEY_BYTES_MAX) {
        return Err(Problem::query(format!("key: has at most {KEY_BYTES_MAX} bytes")));
    }
    let after = params.cursor.as_deref().map(read_cursor).transpose()?;
    let queue_id = queue.as_deref().map(|name| app.engine.queue_id(name));
    let filter = TaskFilter {
        queue: queue_id.flatten(),
        key: params.key,
        state,
        due_before_ms: time("due_before", params.due_before.as_deref())?,
        due_after_ms: time("due_after", params.due_after.as_deref())?,
        after,
        order,
        limit: limit_of(params.limit.as_deref(), LIMIT_DEFAULT)?,
    };
    Ok(if queue_id == Some(None) { None } else { Some(filter) })
}

/// List tasks
///
/// Latest due first, or earliest due first with `order=due`.
#[utoipa::path(get, path = "/v1/tasks", operation_id = "list_tasks", tag = "tasks", params(
        ("queue" = Option<String>, Query, description = "Only of this queue"),
        ("key" = Option<String>, Query, description = "Only with this key; needs `queue`"),
        ("state" = Option<schema::TaskState>, Query, description = "Only in this state"),
        ("due_before" = Option<String>, Query, description = "Only due before this time"),
        ("due_after" = Option<String>, Query, description = "Only due at or after this time"),
        ("order" = Option<String>, Query, description = "`due`: earliest due first"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before"),
        ("limit" = Option<u32>, Query, description = "Most items, 1 to 1000 (default 100)")),
    responses((status = 200, description = "A page of tasks", body = schema::TaskPage)))]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Read(caller): Read,
    Params(params): Params<ListParams>,
) -> Answer {
    match filter(&app, &caller, params)? {
        Some(filter) => page(&app, filter).await,
        None => empty_page(),
    }
}
