//! The settings of a worker.

use crate::clock::{Clock, SystemClock};
use std::sync::Arc;

/// Settlements in one call, at most.
pub(super) const SETTLE_ITEMS_MAX: usize = 500;
/// Settle calls under way at once, at most.
pub(super) const SETTLE_CALLS_MAX: usize = 4;
/// Leases in one extension, at most.
pub(super) const EXTEND_ITEMS_MAX: usize = 500;
/// Extensions under way at once, at most.
pub(super) const EXTEND_CALLS_MAX: usize = 4;
/// The shortest lease that the server gives, in milliseconds.
pub(super) const LEASE_MS_MIN: u64 = 100;
/// Milliseconds that an answer already on its way has to arrive when the worker stops.
pub(super) const STOP_DRAIN_MS: u64 = 100;
/// Milliseconds that a handler has to heed its cancelled context before it is dropped.
pub(super) const HEED_MS: u64 = 500;
/// The longest wait in milliseconds before an absent server is asked again.
pub(super) const AWAY_WAIT_MS: u64 = 1_000;

#[derive(Clone)]
pub(super) struct Config {
    pub(super) queue: String,
    pub(super) name: String,
    pub(super) concurrency: usize,
    pub(super) polls: usize,
    pub(super) lease_max: usize,
    pub(super) lease_ms: u64,
    pub(super) wait_ms: u64,
    pub(super) settle_linger_ms: u64,
    pub(super) grace_ms: u64,
    pub(super) settle_grace_ms: u64,
    pub(super) clock: Arc<dyn Clock>,
}

impl Config {
    pub(super) fn new(queue: String) -> Self {
        Self {
            queue,
            name: format!("worker-{}", std::process::id()),
            concurrency: 256,
            polls: 4,
            lease_max: 100,
            lease_ms: 30_000,
            wait_ms: 5_000,
            settle_linger_ms: 5,
            grace_ms: 10_000,
            settle_grace_ms: 10_000,
            clock: Arc::new(SystemClock),
        }
    }

    /// Every limit at least one, and no more polls than handlers.
    pub(super) fn clamped(mut self) -> Self {
        self.concurrency = self.concurrency.clamp(1, 100_000);
        self.polls = self.polls.clamp(1, self.concurrency.min(64));
        self.lease_max = self.lease_max.clamp(1, 1_000);
        self.lease_ms = self.lease_ms.max(LEASE_MS_MIN);
        self
    }

    /// Most tasks that one lease call asks for: so many that the polls share the handlers.
    pub(super) fn share(&self) -> usize {
        self.lease_max.min(self.concurrency.div_ceil(self.polls))
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("queue", &self.queue)
            .field("name", &self.name)
            .field("concurrency", &self.concurrency)
            .field("polls", &self.polls)
            .field("lease_max", &self.lease_max)
            .field("lease_ms", &self.lease_ms)
            .field("wait_ms", &self.wait_ms)
            .finish_non_exhaustive()
    }
}
