//! Background services, all of one shape: a name, a pause, and `run_once`, which does a bounded piece of work
//! and reports what it did. The loop around it is written once, here.

pub(crate) mod janitor;
pub(crate) mod lease_sweeper;
pub(crate) mod recurring;

use crate::runtime::BoxFuture;
use crate::shared::Core;
use duebook_store::StoreError;
use futures_util::future::select;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::Notify;

/// What a turn did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Report {
    /// Things it changed.
    pub(crate) changed: usize,
    /// How long until the next turn, in milliseconds.
    pub(crate) pause_ms: i64,
}

/// A background service.
pub(crate) trait Service: Send + 'static {
    /// For logs and metrics.
    fn name(&self) -> &'static str;
    /// One turn. An error is logged, and the turn is tried again after a pause.
    fn run_once<'a>(&'a mut self, core: &'a Arc<Core>) -> BoxFuture<'a, Result<Report, StoreError>>;
    /// Rung when there is something to do before the pause is over.
    fn bell<'a>(&self, _core: &'a Core) -> Option<&'a Notify> {
        None
    }
}

const PAUSE_AFTER_ERROR_MS: i64 = 500;

/// Starts a service; it ends when the engine stops.
pub(crate) fn start(core: &Arc<Core>, mut service: impl Service) {
    let core_of_service = Arc::clone(core);
    core.runtime.spawn(Box::pin(async move {
        let core = core_of_service;
        while !core.is_stopping() {
            let pause_ms = match service.run_once(&core).await {
                Ok(report) => {
                    if report.changed > 0 {
                        core.observer.swept(service.name(), "changed", report.changed);
                    }
                    report.pause_ms
                }
                Err(StoreError::Closed) => return,
                Err(error) => {
                    tracing::warn!(service = service.name(), %error, "turn failed; will be tried again");
                    PAUSE_AFTER_ERROR_MS
                }
            };
            let sleep = core.runtime.sleep_us(u64::try_from(pause_ms.max(1)).unwrap_or(1) * 1000);
            match service.bell(&core) {
                Some(bell) => {
                    let rung = pin!(bell.notified());
                    let _ = select(rung, sleep).await;
                }
                None => sleep.await,
            }
        }
    }));
}
