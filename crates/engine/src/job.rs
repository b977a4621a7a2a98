//! A claimed task in memory, from its claim to its settle.

use crate::handler::Handler;
use duebook_core::{LeaseKey, Task};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering};
use tokio::sync::Notify;

const WAITING: u8 = 0;
const STARTED: u8 = 1;
const WITHDRAWN: u8 = 2;

/// A claimed task.
///
/// Invariant: exactly one of "its handler starts" and "it is withdrawn" ever happens; whoever moves the phase
/// away from waiting decides which.
pub struct Job {
    /// The task as it was claimed.
    pub task: Task,
    /// The claim.
    pub lease: LeaseKey,
    /// Its queue's name.
    pub queue: Arc<str>,
    /// Deadline of the attempt in milliseconds.
    pub timeout_ms: u64,
    /// The queue's retry policy, used if the task has none of its own.
    pub queue_retry: Option<Arc<str>>,
    pub(crate) handler: Option<Arc<dyn Handler>>,
    phase: AtomicU8,
    started_us: AtomicI64,
    stop: AtomicBool,
    stopped: Notify,
}

impl Job {
    pub(crate) fn new(
        task: Task,
        lease: LeaseKey,
        queue: Arc<str>,
        timeout_ms: u64,
        queue_retry: Option<Arc<str>>,
        handler: Option<Arc<dyn Handler>>,
    ) -> Self {
        Self {
            task,
            lease,
            queue,
            timeout_ms,
            queue_retry,
            handler,
            phase: AtomicU8::new(WAITING),
            started_us: AtomicI64::new(0),
            stop: AtomicBool::new(false),
            stopped: Notify::new(),
        }
    }

    /// Tries to start it. False if it was withdrawn.
    pub(crate) fn start(&self, now_us: i64) -> bool {
        let won = self.leave(STARTED);
        if won {
            self.started_us.store(now_us, Ordering::Release);
        }
        won
    }

    /// Tries to take it back. False if it was started (or withdrawn before).
    pub(crate) fn withdraw(&self) -> bool {
        self.leave(WITHDRAWN)
    }

    fn leave(&self, to: u8) -> bool {
        self.phase.compare_exchange(WAITING, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.phase.load(Ordering::Acquire) == WAITING
    }

    pub(crate) fn is_withdrawn(&self) -> bool {
        self.phase.load(Ordering::Acquire) == WITHDRAWN
    }

    /// When the handler started, in epoch microseconds; 0 before.
    pub fn started_us(&self) -> i64 {
        self.started_us.load(Ordering::Acquire)
    }

    /// The retry policy that applies: the task's own, else the queue's.
    pub fn retry(&self) -> Option<&str> {
        self.task.retry.as_deref().or(self.queue_retry.as_deref())
    }

    /// The trace id: the one given, or one made of the task's id.
    pub fn trace_id(&self) -> String {
        trace_id_of(&self.task)
    }

    /// Asks the handler to stop.
    pub(crate) fn ask_to_stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.stopped.notify_waiters();
    }

    /// Whether the handler is asked to stop.
    pub fn asked_to_stop(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Completes when the handler is asked to stop.
    pub async fn stop_asked(&self) {
        let asked = self.stopped.notified();
        if !self.asked_to_stop() {
            asked.await;
        }
    }
}

/// A task's trace id: the one its request gave, or one made of its id, so that every task has one and no row
/// has to keep it.
#[must_use]
pub fn trace_id_of(task: &Task) -> String {
    match &task.trace_id {
        Some(trace_id) => trace_id.clone(),
        None => format!("{:032x}", task.id.as_i64()),
    }
}

/// A time as handlers and exports see it: RFC 3339, UTC, with milliseconds. None if it cannot be written so.
pub(crate) fn rfc3339(ms: i64) -> Option<String> {
    jiff::Timestamp::from_millisecond(ms).ok().map(|at| format!("{at:.3}"))
}
