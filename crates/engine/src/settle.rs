//! The settler: collects finished attempts and commits them in batches. What the store cannot take now is
//! tried again until it can, or until the lease has passed on.
//!
//! Its memory is bounded by what runners hold: a task stays held until its settle is committed.

use crate::execute::Settled;
use crate::shared::Core;
use duebook_core::{Command, Refusal};
use duebook_store::{Act, StoreError, Unit, Urgency, Write};
use futures_util::future::select;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

const BATCH_ITEMS_MAX: usize = 1_000;
/// So many are not kept waiting for more.
const BATCH_ITEMS_ENOUGH: usize = 500;
const RETRY_US: u64 = 100_000;

#[derive(Default)]
pub(crate) struct Settler {
    finished: Mutex<Vec<Settled>>,
    work: Notify,
    /// Attempts that are finished and not yet committed.
    open: AtomicUsize,
}

impl Settler {
    pub(crate) fn push(&self, settled: Settled) {
        self.open.fetch_add(1, Ordering::AcqRel);
        let waiting = {
            let mut finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
            finished.push(settled);
            finished.len()
        };
        // The first wakes a settler that rests, a whole batch one that lingers.
        if waiting == 1 || waiting == BATCH_ITEMS_ENOUGH {
            self.work.notify_one();
        }
    }

    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    fn waiting(&self) -> usize {
        self.finished.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn take(&self) -> Vec<Settled> {
        std::mem::take(&mut *self.finished.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Runs for as long as the engine: wait for the first, linger for company, commit.
pub(crate) async fn run(core: Arc<Core>) {
    let settler = &core.settler;
    loop {
        if settler.waiting() == 0 {
            settler.work.notified().await;
            continue;
        }
        if settler.waiting() < BATCH_ITEMS_ENOUGH && core.config.settle_linger_us > 0 {
            let enough = pin!(settler.work.notified());
            let _ = select(enough, core.runtime.sleep_us(core.config.settle_linger_us)).await;
        }
        let mut finished = settler.take();
        while !finished.is_empty() {
            let rest = finished.split_off(finished.len().min(BATCH_ITEMS_MAX));
            let batch = std::mem::replace(&mut finished, rest);
            let core_of_batch = Arc::clone(&core);
            core.runtime.spawn(Box::pin(async move { commit(&core_of_batch, batch).await }));
        }
    }
}

async fn commit(core: &Arc<Core>, batch: Vec<Settled>) {
    loop {
        let writes = batch.iter().map(as_write).collect();
        let unit = Unit { writes, atomic: false, urgency: Urgency::Linger };
        match core.store.submit(unit).await {
            Ok(results) => {
                for (settled, result) in batch.iter().zip(&results) {
                    if let Err(Refusal::LeaseLost | Refusal::NotFound) = result {
                        core.observer.swept("settler", "lease_lost", 1);
                        tracing::warn!(task = %settled.job.task.id, "settle refused: the lease has passed on");
                    }
                }
                core.settler.open.fetch_sub(batch.len(), Ordering::AcqRel);
                return;
            }
            Err(StoreError::Closed) => {
                core.settler.open.fetch_sub(batch.len(), Ordering::AcqRel);
                return;
            }
            Err(error) => {
                tracing::warn!(%error, settles = batch.len(), "settles wait for the store");
                core.runtime.sleep_us(RETRY_US).await;
            }
        }
    }
}

fn as_write(settled: &Settled) -> Write {
    let command = Command::Settle {
        lease: settled.job.lease,
        verdict: settled.verdict,
        started_ms: settled.job.started_us().div_euclid(1000),
    };
    Write::Act(Act { detail: settled.error.clone(), ..Act::own(settled.job.task.id, command) })
}
