//! The engine's face: what the server, tests and embedding programs call.

mod leasing;
mod queues;
mod tasks;

use crate::config::EngineConfig;
use crate::handler::Handler;
use crate::observe::Observer;
use crate::pool::Pool;
use crate::queue::Queue;
use crate::runner::Runner;
use crate::runtime::Runtime;
use crate::services::{self, janitor::Janitor, lease_sweeper, recurring::Recurring};
use crate::settle;
use crate::shared::{Core, Router};
use duebook_core::{QueueSettings, Refusal, TaskId};
use duebook_store::{QueueRow, Store, StoreError};
use futures_util::future::{Either, select};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use tokio::sync::Mutex;

pub use leasing::{Extension, LeaseRequest, Leased, SettleRequest};
pub use queues::{QueueView, RecurringView};
pub use tasks::{Cancelled, ScheduleAnswer, ScheduleRequest, TaskRef};

/// Why the engine did not do what was asked. Nothing was changed, except where a store error leaves it open.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The task's state does not allow it, or there is no such task.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// There is no such queue.
    #[error("there is no queue called {0:?}")]
    NoQueue(String),
    /// The queue is not one that workers pull from.
    #[error("the queue {0:?} has another handler: its tasks cannot be leased")]
    NotPulled(String),
    /// A limit on how many there may be.
    #[error("there are {max} {what} already, which is the most that are allowed")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many are allowed.
        max: usize,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine is stopping.
    #[error("the node is stopping")]
    Stopping,
}

/// A running engine. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    core: Arc<Core>,
    /// Held while queues are created, so that each gets one runner.
    creating: Arc<Mutex<()>>,
}

impl Engine {
    /// Starts the engine on a store: ends the leases of earlier incarnations, then runs every queue.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn start(
        store: Arc<dyn Store>,
        runtime: Arc<dyn Runtime>,
        config: EngineConfig,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, EngineError> {
        let core = Arc::new(Core::new(store, runtime, config, observer));
        let engine = Self { core: Arc::clone(&core), creating: Arc::default() };
        let mut queues = Vec::new();
        for row in core.store.queues().await? {
            queues.push((engine.enlist(&row), row.settings));
        }
        core.store.set_sink(Arc::new(Router(Arc::clone(&core))));
        let ended = lease_sweeper::end_old_leases(&core).await?;
        if ended > 0 {
            tracing::info!(ended, "leases of an earlier run were ended; their tasks run again");
        }
        Pool::start(&core);
        core.runtime.spawn(Box::pin(settle::run(Arc::clone(&core))));
        engine.start_resizing();
        for (queue, settings) in queues {
            engine.run_queue(queue, settings);
        }
        services::start(&core, lease_sweeper::LeaseSweeper);
        services::start(&core, Janitor::new());
        services::start(&core, Recurring);
        Ok(engine)
    }

    /// Registers the in-process handler of a queue whose handler is `inprocess`.
    pub fn register(&self, queue: &str, handler: Arc<dyn Handler>) {
        self.core.handlers.register(queue, handler);
        if let Some(queue) = self.core.queue(queue) {
            queue.inbox.bell.notify_one();
        }
    }

    /// The store under it.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.core.store
    }

    /// The settings it runs with.
    #[must_use]
    pub fn config(&self) -> &EngineConfig {
        &self.core.config
    }

    /// Now, by its clock, in epoch milliseconds.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        self.core.now_ms()
    }

    /// Workers, busy ones, and jobs that wait for one.
    #[must_use]
    pub fn pool_sizes(&self) -> (usize, usize, usize) {
        self.core.pool.sizes()
    }

    /// Whether it is stopping.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.core.is_stopping()
    }

    /// Stops: no more claims, what runs may finish for `grace_ms`, the rest is given back or left to be ended
    /// at the next start; then the store is closed.
    pub async fn stop(&self, grace_ms: u64) {
        if self.core.stopping.swap(true, Ordering::AcqRel) {
            return;
        }
        let queues = self.core.all_queues();
        for queue in &queues {
            queue.inbox.put(|mail| mail.stop = true);
        }
        let all_stopped = pin!(async {
            for queue in &queues {
                queue.wait_stopped().await;
            }
        });
        let grace = self.core.runtime.sleep_us(grace_ms.saturating_mul(1000));
        if let Either::Right(_) = select(all_stopped, grace).await {
            tracing::warn!(grace_ms, "handlers still ran after the grace time; their tasks run again");
        }
        // What has finished by now is settled, even if its runner does not wait any more.
        let mut turns = 0;
        while self.core.settler.open() > 0 && turns < 500 {
            self.core.runtime.sleep_us(2_000).await;
            turns += 1;
        }
        self.core.store.close().await;
    }

    fn enlist(&self, row: &QueueRow) -> Arc<Queue> {
        let queue = Arc::new(Queue::new(row.id, &row.name, row.settings.clone()));
        let mut queues = self.core.queues.write().unwrap_or_else(PoisonError::into_inner);
        queues.by_id.insert(row.id, Arc::clone(&queue));
        queues.by_name.insert(row.name.clone(), Arc::clone(&queue));
        queue
    }

    fn run_queue(&self, queue: Arc<Queue>, settings: QueueSettings) {
        let runner = Runner::new(Arc::clone(&self.core), queue, settings);
        self.core.runtime.spawn(Box::pin(runner.run()));
    }

    fn start_resizing(&self) {
        let core = Arc::clone(&self.core);
        self.core.runtime.spawn(Box::pin(async move {
            let pause_us = u64::try_from(core.config.pool_resize_ms.max(1)).unwrap_or(1) * 1000;
            while !core.is_stopping() || core.pool.sizes().1 > 0 {
                core.runtime.sleep_us(pause_us).await;
                core.pool.resize(&core);
            }
        }));
    }
}

/// One result of a unit of one write.
fn only<T>(mut results: Vec<Result<T, Refusal>>) -> Result<T, EngineError> {
    match results.pop() {
        Some(Ok(written)) => Ok(written),
        Some(Err(refusal)) => Err(refusal.into()),
        None => Err(StoreError::Closed.into()),
    }
}

/// The store said something that does not fit the write: a bug in a backend.
fn unexpected(id: Option<TaskId>) -> EngineError {
    StoreError::Backend(format!("unexpected answer of the store about {id:?}")).into()
}
