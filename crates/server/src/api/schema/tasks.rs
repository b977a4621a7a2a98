//! Tasks, their trails, and dead letters.

use super::Fault;
use serde::Serialize;
use utoipa::ToSchema;

/// Where a task stands.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TaskState {
    Pending,
    Running,
    Succeeded,
    Dead,
    Cancelled,
}

/// Which lane a task takes.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Priority {
    Normal,
    High,
}

/// What scheduling does when a live task has the same (queue, key).
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnConflict {
    /// Answer the existing task.
    Keep,
    /// Give the existing task the new due time and payload.
    Replace,
    /// Refuse with `key_taken`.
    Reject,
}

/// An RFC 3339 time with an offset, or epoch milliseconds.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum DueAt {
    #[schema(value_type = String, format = DateTime)]
    Text(String),
    EpochMs(i64),
}

/// A task to be scheduled: exactly one of `due_at` and `delay_ms`.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTask {
    /// The queue, 1 to 64 of `a-z A-Z 0-9 . _ - :`; created with default settings if it does not exist.
    #[schema(example = "close-unpaid", pattern = "^[a-zA-Z0-9._:-]{1,64}$")]
    queue: String,
    /// The business key, at most 256 bytes; unique among the live tasks of the queue.
    #[schema(example = "order-1001", min_length = 1)]
    key: String,
    #[schema(required = false)]
    due_at: Option<DueAt>,
    /// Milliseconds from when the request is read.
    delay_ms: Option<u64>,
    /// Any JSON of at most 64 KiB, given to the handler as it is.
    #[schema(value_type = Option<Object>)]
    payload: Option<serde_json::Value>,
    #[schema(required = false)]
    priority: Option<Priority>,
    /// Name of a retry policy that replaces the one of the failure's class.
    retry: Option<String>,
    #[schema(required = false)]
    on_conflict: Option<OnConflict>,
}

/// Tasks to be scheduled, each for itself.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTasks {
    /// 1 to 5000 tasks.
    #[schema(min_items = 1, max_items = 5000)]
    tasks: Vec<NewTask>,
}

/// A task.
#[derive(Serialize, ToSchema)]
pub(crate) struct Task {
    /// 13 characters, in the order of creation.
    id: String,
    queue: String,
    key: String,
    state: TaskState,
    /// When it is (next) due.
    #[schema(format = DateTime)]
    due_at: String,
    /// JSON as it was given, or null.
    #[schema(value_type = Option<Object>)]
    payload: Option<serde_json::Value>,
    priority: Priority,
    /// Attempts counted so far, the running one included.
    attempt: u32,
    /// Name of its own retry policy.
    retry: Option<String>,
    /// When the request was read.
    #[schema(format = DateTime)]
    created_at: String,
    /// When its transaction began to commit.
    #[schema(format = DateTime)]
    committed_at: String,
    /// When the last attempt was claimed.
    #[schema(format = DateTime)]
    fired_at: Option<String>,
    /// When the last attempt's handler started.
    #[schema(format = DateTime)]
    started_at: Option<String>,
    /// When it ended.
    #[schema(format = DateTime)]
    finished_at: Option<String>,
    /// Whether the running attempt has been asked to stop.
    cancel_requested: bool,
    last_error: Option<String>,
    /// Trace id of the request that scheduled it, or one made of its id.
    trace_id: String,
}

/// A task that was scheduled, replaced or found.
#[derive(Serialize, ToSchema)]
pub(crate) struct ScheduledTask {
    #[serde(flatten)]
    task: Task,
    /// Whether this request created it.
    created: bool,
}

/// What became of one task of a batch.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum BatchResult {
    Scheduled { id: String, created: bool },
    Refused { error: Fault },
}

/// What became of each task of a batch, in order.
#[derive(Serialize, ToSchema)]
pub(crate) struct BatchResults {
    results: Vec<BatchResult>,
}

/// A page of tasks.
#[derive(Serialize, ToSchema)]
pub(crate) struct TaskPage {
    items: Vec<Task>,
    /// Where the next page begins; null on the last.
    next_cursor: Option<String>,
}

/// Another due time: exactly one of the two.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewDue {
    #[schema(required = false)]
    due_at: Option<DueAt>,
    /// Milliseconds from when the request is read.
    delay_ms: Option<u64>,
}

/// One change of a task's state.
#[derive(Serialize, ToSchema)]
pub(crate) struct TrailEntry {
    seq: u32,
    #[schema(format = DateTime)]
    at: String,
    /// Null for a new task.
    from: Option<TaskState>,
    to: TaskState,
    /// `scheduled`, `replaced`, `rescheduled`, `run_now`, `claimed`, `done`, `retry`, `exhausted`, `permanent`,
    /// `lease_lost`, `interrupted`, `released`, `cancelled`, `cancel_requested` or `revived`.
    reason: String,
    attempt: u32,
    #[schema(format = DateTime)]
    due_at: String,
    /// When the handler started, on the entry that ends an attempt.
    #[schema(format = DateTime)]
    started_at: Option<String>,
    /// `key:NAME`, `api`, a worker's name, or `engine`.
    actor: String,
    detail: Option<String>,
    trace_id: String,
}

/// A task's trail.
#[derive(Serialize, ToSchema)]
pub(crate) struct Trail {
    items: Vec<TrailEntry>,
    /// `after_seq` of the next page; null on the last.
    next_after_seq: Option<u32>,
}

/// Which dead letters to retry: `ids`, or those of a `queue`.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeadRetry {
    #[schema(max_items = 1000)]
    ids: Option<Vec<String>>,
    queue: Option<String>,
    /// With `queue`: most tasks, 1 to 1000 (default 100).
    limit: Option<u32>,
}

/// What became of one dead letter.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeadResult {
    id: String,
    #[schema(nullable = false)]
    ok: Option<bool>,
    #[schema(nullable = false)]
    error: Option<Fault>,
}

/// How many live again.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeadRetried {
    retried: u64,
    results: Vec<DeadResult>,
}
