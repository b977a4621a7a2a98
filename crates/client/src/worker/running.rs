//! The attempts that this worker has a right to: from the lease until the settlement is answered.

use super::context::CancelReason;
use super::flag::Flag;
use crate::model::{LeaseRef, LeaseToken, LeasedTask};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// One attempt.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) number: u64,
    pub(super) id: String,
    pub(super) token: LeaseToken,
    pub(super) cancel: Flag,
    /// Milliseconds on the worker's own count at which the lease was last known to be given.
    leased_ms: AtomicU64,
    ended: AtomicBool,
    lost: AtomicBool,
    pub(super) handler: OnceLock<AbortHandle>,
}

impl Attempt {
    /// Whoever ends the attempt first (its handler, or the stop) speaks for it.
    pub(super) fn end(&self) -> bool {
        !self.ended.swap(true, Ordering::AcqRel)
    }

    pub(super) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(super) fn lease(&self) -> LeaseRef {
        LeaseRef { id: self.id.clone(), lease_token: self.token.clone() }
    }

    pub(super) fn extended_at(&self, ms: u64) {
        self.leased_ms.fetch_max(ms, Ordering::AcqRel);
    }

    pub(super) fn lease_age_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.leased_ms.load(Ordering::Acquire))
    }

    /// Marks the lease as lost and tells the handler. Says whether that is news.
    pub(super) fn lose(&self) -> bool {
        self.cancel.raise(CancelReason::LeaseLost as u8);
        !self.lost.swap(true, Ordering::AcqRel)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }
}

/// All attempts, by number. Locked for moments only, once per batch.
#[derive(Debug)]
pub(super) struct Running {
    attempts: Mutex<HashMap<u64, Arc<Attempt>>>,
    next: AtomicU64,
    epoch: Instant,
}

impl Running {
    pub(super) fn new() -> Self {
        Self { attempts: Mutex::default(), next: AtomicU64::new(0), epoch: Instant::now() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Attempt>>> {
        // Nothing that panics runs under this lock.
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Milliseconds since the worker's start.
    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Takes in freshly leased tasks, in order.
    pub(super) fn admit(&self, tasks: &[LeasedTask]) -> Vec<Arc<Attempt>> {
        let now_ms = self.now_ms();
        let first = self.next.fetch_add(tasks.len() as u64, Ordering::Relaxed);
        let admitted: Vec<_> = (first..)
            .zip(tasks)
            .map(|(number, task)| {
                Arc::new(Attempt {
                    number,
                    id: task.id.clone(),
                    token: task.lease_token.clone(),
                    cancel: Flag::default(),
                    leased_ms: AtomicU64::new(now_ms),
                    ended: AtomicBool::new(false),
                    lost: AtomicBool::new(false),
                    handler: OnceLock::new(),
                })
            })
            .collect();
        self.lock().extend(admitted.iter().map(|attempt| (attempt.number, Arc::clone(attempt))));
        admitted
    }

    pub(super) fn remove<'a>(&self, attempts: impl IntoIterator<Item = &'a Arc<Attempt>>) {
        let mut held = self.lock();
        for attempt in attempts {
            held.remove(&attempt.number);
        }
    }

    pub(super) fn all(&self) -> Vec<Arc<Attempt>> {
        self.lock().values().cloned().collect()
    }

    /// Those whose lease is at least `age_ms` old and not lost.
    pub(super) fn older_than(&self, age_ms: u64) -> Vec<Arc<Attempt>> {
        let now_ms = self.now_ms();
        let held = self.lock();
        held.values().filter(|a| !a.is_lost() && a.lease_age_ms(now_ms) >= age_ms).cloned().collect()
    }
}
