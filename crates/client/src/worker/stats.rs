//! What a worker has done so far.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// Counters of a worker since its start.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub struct WorkerStats {
            $($(#[$doc])* pub $name: u64,)+
        }

        /// The same, while they are counted.
        #[derive(Debug, Default)]
        pub(super) struct Counters {
            $(pub(super) $name: AtomicU64,)+
        }

        impl Counters {
            pub(super) fn read(&self) -> WorkerStats {
                WorkerStats { $($name: self.$name.load(Ordering::Relaxed),)+ }
            }
        }
    };
}

counters! {
    /// Tasks taken.
    leased,
    /// Settled as done.
    done,
    /// Settled as failed, to be tried again.
    retried,
    /// Settled as failed for good.
    dead,
    /// Handlers that panicked (counted in `retried` too, once settled).
    panicked,
    /// Leases lost while the handler ran, or refused when it was settled.
    lost,
    /// Outcomes that the server refused for another reason, or that could not be delivered before the stop.
    unsettled,
    /// Contexts cancelled because somebody asked to cancel the task.
    cancelled,
    /// Lease extensions made.
    extended,
    /// Lease calls that failed.
    lease_errors,
    /// Settle calls that failed and were tried again.
    settle_errors,
    /// Extend calls that failed.
    extend_errors,
}

/// What a run of a worker came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RunReport {
    /// The counters at its end.
    pub stats: WorkerStats,
    /// Handlers that did not end within the grace time and were dropped (settled as transient failures).
    pub dropped: u64,
}

pub(super) fn add(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}
