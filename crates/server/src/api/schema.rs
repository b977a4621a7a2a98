//! Bodies of requests and answers, as the OpenAPI document describes them. They are read and written by other
//! types, borrowed and checked; a test holds the two together.

#![allow(dead_code)]

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

/// Why one item of several was refused.
#[derive(Serialize, ToSchema)]
pub(crate) struct Fault {
    code: String,
    detail: String,
    /// JSON pointer of the field at fault.
    #[schema(nullable = false)]
    pointer: Option<String>,
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

/// A worker asks for due tasks.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeaseRequest {
    /// The worker's name, for the trail; at most 128 bytes.
    worker: String,
    /// Most tasks, 1 to 1000 (default 1).
    max: Option<u32>,
    /// How long to wait for one, at most 60000 (default 0).
    wait_ms: Option<u64>,
    /// How long the leases last, 100 to 43200000 (default 30000).
    lease_ms: Option<u64>,
}

/// A task and the right to run it for a while.
#[derive(Serialize, ToSchema)]
pub(crate) struct LeasedTask {
    #[serde(flatten)]
    task: Task,
    /// Settles and extends the lease; good for this attempt only.
    lease_token: String,
    /// When the lease ends.
    #[schema(format = DateTime)]
    lease_until: String,
}

/// Leased tasks.
#[derive(Serialize, ToSchema)]
pub(crate) struct LeasedTasks {
    tasks: Vec<LeasedTask>,
}

/// How an attempt ended.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Done,
    Retry,
    Dead,
}

/// Picks the retry policy.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FailureClass {
    Transient,
    Busy,
    Storage,
    Permanent,
}

/// The end of one attempt.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settlement {
    id: String,
    lease_token: String,
    outcome: Outcome,
    #[schema(required = false)]
    class: Option<FailureClass>,
    /// What a person should read; cut to 2000 bytes.
    error: Option<String>,
    /// Wait at least this long before the next attempt.
    delay_ms: Option<u64>,
}

/// The ends of attempts, each for itself.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settlements {
    #[schema(max_items = 1000)]
    results: Vec<Settlement>,
}

/// A lease.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lease {
    id: String,
    lease_token: String,
}

/// Leases to be prolonged.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Extensions {
    #[schema(max_items = 1000)]
    leases: Vec<Lease>,
    /// How long they last from now, 100 to 43200000 (default 30000).
    lease_ms: Option<u64>,
}

/// What became of one lease.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum LeaseResult {
    Settled { ok: bool },
    Extended { ok: bool, cancel_requested: bool },
    Refused { error: String },
}

/// What became of each lease, in order.
#[derive(Serialize, ToSchema)]
pub(crate) struct LeaseResults {
    results: Vec<LeaseResult>,
}

/// What finds the due tasks of a queue.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Tier {
    Wheel,
    Db,
}

/// Where and how to call a webhook.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Webhook {
    url: String,
    /// Standard Webhooks secret; answers write `whsec_***`, which a request may send back to keep it.
    secret: Option<String>,
}

/// Who runs the tasks of a queue.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Handler {
    /// Workers pull leases.
    Lease,
    /// Duebook calls this address.
    Webhook(Webhook),
    /// A handler registered in the process that embeds the engine.
    Inprocess,
}

/// The settings of a queue; what is left out takes its default.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueueSettings {
    #[schema(required = false)]
    tier: Tier,
    #[schema(required = false)]
    handler: Handler,
    /// Name of a retry policy that replaces the one of the failure's class.
    retry: Option<String>,
    /// Most tasks that run at once, 1 to 100000 (default 1000).
    #[schema(required = false)]
    concurrency: u32,
    /// Deadline of one attempt, 1 to 86400000 (default 30000).
    #[schema(required = false)]
    timeout_ms: u64,
    /// Most starts per second; null means no limit.
    rate_per_second: Option<f64>,
    /// A paused queue takes tasks but starts none.
    #[schema(required = false)]
    paused: bool,
}

/// Tasks by state.
#[derive(Serialize, ToSchema)]
pub(crate) struct Depth {
    pending: u64,
    running: u64,
    succeeded: u64,
    dead: u64,
    cancelled: u64,
}

/// Percentiles of the lateness in milliseconds, over the last minute.
#[derive(Serialize, ToSchema)]
pub(crate) struct Lateness {
    p50: f64,
    p99: f64,
    max: f64,
}

/// A queue's settings and standing.
#[derive(Serialize, ToSchema)]
pub(crate) struct Queue {
    queue: String,
    settings: QueueSettings,
    depth: Depth,
    /// Due time of the earliest pending task.
    #[schema(format = DateTime)]
    oldest_due: Option<String>,
    /// Starts per second, over the last minute.
    starts_per_second: f64,
    /// Null if nothing was started.
    lateness_ms: Option<Lateness>,
}

/// Queues.
#[derive(Serialize, ToSchema)]
pub(crate) struct Queues {
    items: Vec<Queue>,
}

/// What to do with times that were missed.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CatchUp {
    One,
    All,
    Skip,
}

/// A recurring schedule to be put: either `cron` or `every_ms`.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSchedule {
    queue: String,
    /// Five fields, or six with seconds first, or `@hourly @daily @weekly @monthly @yearly`.
    cron: Option<String>,
    /// IANA time zone of `cron` (default UTC).
    timezone: Option<String>,
    every_ms: Option<u64>,
    #[schema(value_type = Option<Object>)]
    payload: Option<serde_json::Value>,
    #[schema(required = false)]
    catch_up: Option<CatchUp>,
}

/// A recurring schedule.
#[derive(Serialize, ToSchema)]
pub(crate) struct Schedule {
    name: String,
    queue: String,
    cron: Option<String>,
    timezone: Option<String>,
    every_ms: Option<u64>,
    #[schema(value_type = Option<Object>)]
    payload: Option<serde_json::Value>,
    catch_up: CatchUp,
    #[schema(format = DateTime)]
    updated_at: String,
    /// The next five times.
    next: Vec<String>,
}

/// Recurring schedules.
#[derive(Serialize, ToSchema)]
pub(crate) struct Schedules {
    items: Vec<Schedule>,
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

/// What a key is good for.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
    Produce,
    Work,
    Read,
    Admin,
}

/// A key to be made.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewKey {
    /// What it is for; the trail shows it.
    name: String,
    scopes: Vec<Scope>,
    /// The only queues it is for; none means all.
    #[schema(max_items = 100)]
    queues: Option<Vec<String>>,
}

/// An API key, without the key itself.
#[derive(Serialize, ToSchema)]
pub(crate) struct Key {
    id: String,
    name: String,
    scopes: Vec<Scope>,
    queues: Vec<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    revoked_at: Option<String>,
}

/// An API key with the key itself.
#[derive(Serialize, ToSchema)]
pub(crate) struct MadeKey {
    #[serde(flatten)]
    row: Key,
    /// The key, shown this once.
    key: String,
}

/// API keys.
#[derive(Serialize, ToSchema)]
pub(crate) struct Keys {
    items: Vec<Key>,
}

/// It lives.
#[derive(Serialize, ToSchema)]
pub(crate) struct Status {
    status: String,
}

/// It is ready.
#[derive(Serialize, ToSchema)]
pub(crate) struct Ready {
    status: String,
    schema_version: u32,
}

/// A refusal (RFC 9457).
#[derive(Serialize, ToSchema)]
pub(crate) struct Problem {
    r#type: String,
    title: String,
    status: u16,
    /// Stable; see `docs/errors.md`.
    code: String,
    detail: String,
    /// JSON pointer of the field at fault.
    #[schema(nullable = false)]
    pointer: Option<String>,
}
