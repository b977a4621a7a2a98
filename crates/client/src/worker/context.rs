//! What a handler knows beside its task.

use super::config::Config;
use super::flag::Flag;
use super::running::Attempt;
use crate::timestamp::Timestamp;
use crate::trace::TraceId;
use std::sync::Arc;

/// Why a handler should stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum CancelReason {
    /// Somebody asked to cancel the task. The outcome still counts.
    Requested = 1,
    /// The lease is lost: another worker may have the task. The outcome will be refused.
    LeaseLost = 2,
    /// The worker's grace time is over. The outcome still counts if it comes at once.
    Stopping = 3,
}

impl CancelReason {
    const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Requested),
            2 => Some(Self::LeaseLost),
            3 => Some(Self::Stopping),
            _ => None,
        }
    }
}

/// Given to a handler with its task. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct TaskContext {
    pub(super) attempt: Arc<Attempt>,
    pub(super) config: Arc<Config>,
    pub(super) stopping: Arc<Flag>,
    pub(super) due_at: Timestamp,
    pub(super) trace: Option<TraceId>,
}

impl TaskContext {
    /// Returns once the handler should stop, and says why.
    pub async fn cancelled(&self) -> CancelReason {
        loop {
            self.attempt.cancel.wait().await;
            if let Some(reason) = self.cancel_reason() {
                return reason;
            }
        }
    }

    /// Why the handler should stop, if it should.
    #[must_use]
    pub fn cancel_reason(&self) -> Option<CancelReason> {
        CancelReason::from_code(self.attempt.cancel.get())
    }

    /// Whether the handler should stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.attempt.cancel.is_raised()
    }

    /// Whether the worker is stopping: the handler may go on for the grace time, but had better come to an end.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.is_raised()
    }

    /// The time by the worker's clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.config.clock.now()
    }

    /// Milliseconds since the task was due, by the worker's clock; negative if the clocks differ.
    #[must_use]
    pub fn late_ms(&self) -> i64 {
        self.now().ms_since(self.due_at)
    }

    /// The trace that the task belongs to, for [`crate::Client::with_trace`].
    #[must_use]
    pub const fn trace(&self) -> Option<TraceId> {
        self.trace
    }
}
