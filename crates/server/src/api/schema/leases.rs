//! Pulled leases.

use super::Task;
use serde::Serialize;
use utoipa::ToSchema;

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
