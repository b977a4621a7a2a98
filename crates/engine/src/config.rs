//! What of the engine can be set. Every field has a default that suits one node on an embedded store.

use crate::source::SourceLimits;
use duebook_core::pool::PoolLimits;
use duebook_core::retry::RetryPolicies;
use std::path::PathBuf;

/// The engine's settings.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// How long before its due time a task may be claimed, in milliseconds.
    pub claim_ahead_ms: i64,
    /// Shortest time between two claims of a queue, unless one is urgent, in milliseconds.
    pub claim_stride_ms: i64,
    /// Most tasks in one claim.
    pub claim_batch_max: usize,
    /// How long finished attempts wait for company, in microseconds.
    pub settle_linger_us: u64,
    /// How often each queue is swept for due tasks that its source did not name, in milliseconds.
    pub sweep_ms: i64,
    /// How long overdue a task must be for the sweep, in milliseconds.
    pub sweep_grace_ms: i64,
    /// How often expired leases are looked for, in milliseconds.
    pub lease_sweep_ms: i64,
    /// How much longer than its attempt's deadline a local claim lasts, in milliseconds.
    pub lease_slack_ms: u64,
    /// Memory and reach of the due sources.
    pub source: SourceLimits,
    /// Bounds of the worker pool.
    pub pool: PoolLimits,
    /// How often the pool is sized, in milliseconds.
    pub pool_resize_ms: i64,
    /// The retry policies.
    pub policies: RetryPolicies,
    /// What is kept of finished tasks, and for how long.
    pub retention: Retention,
    /// How late a recurring time may be fired without counting as missed, in milliseconds.
    pub misfire_grace_ms: i64,
    /// Time-outs of webhook calls.
    pub webhook: WebhookConfig,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            claim_ahead_ms: 100,
            claim_stride_ms: 20,
            claim_batch_max: 1_000,
            settle_linger_us: 5_000,
            sweep_ms: 5_000,
            sweep_grace_ms: 1_000,
            lease_sweep_ms: 1_000,
            lease_slack_ms: 30_000,
            source: SourceLimits::default(),
            pool: PoolLimits { floor: 4, ceiling: 512, wait_target_us: 2_000 },
            pool_resize_ms: 100,
            policies: RetryPolicies::default(),
            retention: Retention::default(),
            misfire_grace_ms: 5_000,
            webhook: WebhookConfig::default(),
        }
    }
}

/// How long finished tasks are kept.
#[derive(Debug, Clone)]
pub struct Retention {
    /// Age at which succeeded tasks are deleted, in milliseconds; none keeps them for ever.
    pub succeeded_ms: Option<i64>,
    /// Age at which cancelled tasks are deleted, in milliseconds.
    pub cancelled_ms: Option<i64>,
    /// Age at which dead tasks are deleted, in milliseconds.
    pub dead_ms: Option<i64>,
    /// Folder to which deleted tasks are first written, as JSON lines; none writes nothing.
    pub export_dir: Option<PathBuf>,
    /// Most tasks deleted in one transaction.
    pub slice_items: usize,
    /// Pause between two slices, in milliseconds.
    pub slice_pause_ms: i64,
    /// Pause between two walks over all tasks, in milliseconds.
    pub walk_pause_ms: i64,
}

impl Default for Retention {
    fn default() -> Self {
        const DAY_MS: i64 = 86_400_000;
        Self {
            succeeded_ms: Some(7 * DAY_MS),
            cancelled_ms: Some(7 * DAY_MS),
            dead_ms: Some(90 * DAY_MS),
            export_dir: None,
            slice_items: 500,
            slice_pause_ms: 20,
            walk_pause_ms: 60_000,
        }
    }
}

/// Time-outs of webhook calls.
#[derive(Debug, Clone)]
pub struct WebhookConfig {
    /// For the connection, in milliseconds.
    pub connect_timeout_ms: u64,
    /// Most bytes read of an answer.
    pub answer_bytes_max: usize,
    /// Idle connections kept per host.
    pub idle_per_host: usize,
}

impl Default for WebhookConfig {
    fn default() -> Self {
        Self { connect_timeout_ms: 3_000, answer_bytes_max: 4_096, idle_per_host: 64 }
    }
}
