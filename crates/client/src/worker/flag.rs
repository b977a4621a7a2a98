//! A flag that is raised once, with a reason, and can be waited for.

use std::sync::atomic::{AtomicU8, Ordering};
use tokio::sync::Notify;

/// Zero while lowered.
#[derive(Debug, Default)]
pub(super) struct Flag {
    raised: AtomicU8,
    waiters: Notify,
}

impl Flag {
    /// Raises the flag; the first reason stays. Says whether this was it.
    pub(super) fn raise(&self, reason: u8) -> bool {
        debug_assert_ne!(reason, 0);
        let first = self.raised.compare_exchange(0, reason, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if first {
            self.waiters.notify_waiters();
        }
        first
    }

    /// The reason, or zero.
    pub(super) fn get(&self) -> u8 {
        self.raised.load(Ordering::Acquire)
    }

    pub(super) fn is_raised(&self) -> bool {
        self.get() != 0
    }

    /// Returns once the flag is raised.
    pub(super) async fn wait(&self) {
        while !self.is_raised() {
            let raised = self.waiters.notified();
            tokio::pin!(raised);
            raised.as_mut().enable();
            if !self.is_raised() {
                raised.await;
            }
        }
    }
}
