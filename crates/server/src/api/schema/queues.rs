//! Queues and recurring schedules.

use serde::Serialize;
use utoipa::ToSchema;

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
