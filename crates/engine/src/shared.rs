//! What all parts of the engine share: wiring, no rules.

use crate::config::EngineConfig;
use crate::handlers::Handlers;
use crate::inbox::{Inbox, Mail};
use crate::leases::Leases;
use crate::observe::Observer;
use crate::pool::Pool;
use crate::queue::Queue;
use crate::runtime::Runtime;
use crate::settle::Settler;
use crate::source::SourceLimits;
use duebook_core::{QueueId, Reason, State};
use duebook_store::{DueRow, Effect, EffectSink, Store, StoreError, Unit};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::Notify;

#[derive(Default)]
pub(crate) struct Queues {
    pub(crate) by_name: BTreeMap<String, Arc<Queue>>,
    pub(crate) by_id: BTreeMap<QueueId, Arc<Queue>>,
}

pub(crate) struct Core {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) config: EngineConfig,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) handlers: Arc<Handlers>,
    pub(crate) pool: Pool,
    pub(crate) settler: Settler,
    pub(crate) leases: Leases,
    pub(crate) queues: RwLock<Queues>,
    /// Rung when recurring schedules change.
    pub(crate) recurring_bell: Notify,
    pub(crate) stopping: AtomicBool,
    /// Moving average of how long handlers take, in microseconds.
    service_us: AtomicI64,
}

impl Core {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        runtime: Arc<dyn Runtime>,
        config: EngineConfig,
        observer: Arc<dyn Observer>,
    ) -> Self {
        Self {
            handlers: Arc::new(Handlers::new(&config.webhook, Arc::clone(&runtime))),
            pool: Pool::new(config.pool),
            settler: Settler::default(),
            leases: Leases::default(),
            queues: RwLock::default(),
            recurring_bell: Notify::new(),
            stopping: AtomicBool::new(false),
            service_us: AtomicI64::new(0),
            store,
            runtime,
            config,
            observer,
        }
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.runtime.clock().now_ms()
    }

    pub(crate) fn queue(&self, name: &str) -> Option<Arc<Queue>> {
        self.queues.read().unwrap_or_else(PoisonError::into_inner).by_name.get(name).cloned()
    }

    pub(crate) fn queue_by_id(&self, id: QueueId) -> Option<Arc<Queue>> {
        self.queues.read().unwrap_or_else(PoisonError::into_inner).by_id.get(&id).cloned()
    }

    pub(crate) fn all_queues(&self) -> Vec<Arc<Queue>> {
        self.queues.read().unwrap_or_else(PoisonError::into_inner).by_name.values().cloned().collect()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// The share of the memory for hints that one queue may use.
    pub(crate) fn source_limits(&self) -> SourceLimits {
        let queues = self.queues.read().unwrap_or_else(PoisonError::into_inner).by_id.len().max(1);
        let all = self.config.source;
        // At least two pages, or the source could never read one.
        SourceLimits { items_max: (all.items_max / queues).max(2 * all.page_items), ..all }
    }

    /// Commits a unit nobody waits for. If the store cannot take it now, the sweeper will find what is left.
    pub(crate) fn submit_later(&self, unit: Unit) {
        let answer = self.store.submit(unit);
        self.runtime.spawn(Box::pin(async move {
            if let Err(error) = answer.await
                && error != StoreError::Closed
            {
                tracing::warn!(%error, "left to the sweeper");
            }
        }));
    }

    /// Learns how long a handler took.
    pub(crate) fn note_service_time(&self, us: i64) {
        let seen = self.service_us.load(Ordering::Relaxed);
        self.service_us.store(seen + (us - seen) / 16, Ordering::Relaxed);
    }

    pub(crate) fn service_time_us(&self) -> i64 {
        self.service_us.load(Ordering::Relaxed)
    }
}

/// Routes committed steps to the runners: what became pending is offered, what is no longer running is let go.
pub(crate) struct Router(pub(crate) Arc<Core>);

impl EffectSink for Router {
    fn committed(&self, effects: &[Effect]) {
        self.0.observer.committed(effects);
        let mut rest = effects;
        while let Some(first) = rest.first() {
            let same = rest.iter().take_while(|effect| effect.queue == first.queue).count();
            let (run, after) = rest.split_at(same);
            rest = after;
            if run.iter().any(matters)
                && let Some(queue) = self.0.queue_by_id(first.queue)
            {
                queue.inbox.put(|mail| run.iter().for_each(|effect| deliver(mail, effect)));
            }
        }
    }
}

fn leaves(effect: &Effect) -> bool {
    effect.step.from == Some(State::Running) && effect.step.to != State::Running
}

fn matters(effect: &Effect) -> bool {
    effect.step.to == State::Pending || leaves(effect) || effect.step.reason == Reason::CancelRequested
}

fn deliver(mail: &mut Mail, effect: &Effect) {
    if leaves(effect) {
        mail.left.push(effect.task);
    }
    match effect.step.to {
        State::Pending => {
            let row = DueRow { due_ms: effect.due_ms, priority: effect.priority, id: effect.task };
            Inbox::offer(mail, row);
        }
        State::Running if effect.step.reason == Reason::CancelRequested => {
            mail.stop_asked.push(effect.task);
        }
        _ => {}
    }
}
