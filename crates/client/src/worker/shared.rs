//! What the parts of a running worker share.

use super::config::Config;
use super::flag::Flag;
use super::outcome::Outcome;
use super::running::{Attempt, Running};
use super::stats::Counters;
use crate::Client;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{Notify, Semaphore, mpsc};

/// An attempt that has come to its end, on its way to the server.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) attempt: Arc<Attempt>,
    pub(super) outcome: Outcome,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: Arc<Config>,
    /// Leases and settlements.
    pub(super) work: Client,
    /// Extensions, on connections of their own: they never wait behind work.
    pub(super) heartbeat: Client,
    pub(super) handlers: Semaphore,
    pub(super) running: Running,
    pub(super) counters: Arc<Counters>,
    pub(super) stop: Arc<Flag>,
    pub(super) ended: mpsc::Sender<Ended>,
    active: AtomicUsize,
    idle: Notify,
}

impl Shared {
    pub(super) fn new(
        config: Arc<Config>,
        work: Client,
        heartbeat: Client,
        counters: Arc<Counters>,
        stop: Arc<Flag>,
        ended: mpsc::Sender<Ended>,
    ) -> Self {
        Self {
            handlers: Semaphore::new(config.concurrency),
            config,
            work,
            heartbeat,
            running: Running::new(),
            counters,
            stop,
            ended,
            active: AtomicUsize::new(0),
            idle: Notify::new(),
        }
    }

    pub(super) fn active(&self) -> usize {
        self.active.load(Ordering::Acquire)
    }

    /// Returns once no handler runs. Only of use when no more are started.
    pub(super) async fn idle(&self) {
        loop {
            let idle = self.idle.notified();
            tokio::pin!(idle);
            idle.as_mut().enable();
            if self.active() == 0 {
                return;
            }
            idle.await;
        }
    }
}

/// A handler's place: freed when its attempt has been handed on, whatever happened to the handler.
#[derive(Debug)]
pub(super) struct Place {
    shared: Arc<Shared>,
    permits: usize,
}

impl Place {
    /// Takes over `permits` permits (one, or none if the server gave more tasks than were asked for).
    pub(super) fn new(shared: &Arc<Shared>, permits: usize) -> Self {
        shared.active.fetch_add(1, Ordering::AcqRel);
        Self { shared: Arc::clone(shared), permits }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.handlers.add_permits(self.permits);
        if self.shared.active.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.idle.notify_waiters();
        }
    }
}
