//! Which handler a queue has, and whether it can take tasks right now.

mod webhook;

use crate::config::WebhookConfig;
use crate::handler::Handler;
use crate::runtime::Runtime;
use duebook_core::breaker::{Breaker, BreakerConfig, Permit};
use duebook_core::{Clock, HandlerSpec, QueueSettings, TaskId};
use duebook_store::DueRow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

pub use webhook::WebhookClient;

/// All handlers that run inside this process.
pub(crate) struct Handlers {
    inprocess: RwLock<HashMap<String, Arc<dyn Handler>>>,
    config: WebhookConfig,
    runtime: Arc<dyn Runtime>,
    /// Made when the first webhook needs it.
    webhooks: OnceLock<Option<WebhookClient>>,
    /// One breaker per address, shared by all queues that call it.
    breakers: Mutex<HashMap<String, Arc<Mutex<Breaker>>>>,
}

impl Handlers {
    pub(crate) fn new(config: &WebhookConfig, runtime: Arc<dyn Runtime>) -> Self {
        Self {
            inprocess: RwLock::default(),
            config: config.clone(),
            runtime,
            webhooks: OnceLock::new(),
            breakers: Mutex::default(),
        }
    }

    fn webhooks(&self) -> Option<&WebhookClient> {
        let make = || {
            WebhookClient::new(&self.config)
                .map_err(|error| tracing::error!(%error, "webhooks cannot be called"))
                .ok()
        };
        self.webhooks.get_or_init(make).as_ref()
    }

    pub(crate) fn register(&self, queue: &str, handler: Arc<dyn Handler>) {
        self.inprocess.write().unwrap_or_else(PoisonError::into_inner).insert(queue.to_owned(), handler);
    }

    fn inprocess(&self, queue: &str) -> Option<Arc<dyn Handler>> {
        self.inprocess.read().unwrap_or_else(PoisonError::into_inner).get(queue).cloned()
    }

    /// The gate of a queue with these settings.
    pub(crate) fn gate(self: &Arc<Self>, queue: &str, settings: &QueueSettings) -> Gate {
        let kind = match &settings.handler {
            HandlerSpec::Lease => Kind::Lease,
            HandlerSpec::Inprocess => Kind::Inprocess { queue: queue.to_owned() },
            HandlerSpec::Webhook(spec) => {
                let breaker = Arc::clone(
                    self.breakers
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .entry(spec.url.clone())
                        .or_insert_with(|| Arc::new(Mutex::new(Breaker::new(BreakerConfig::default())))),
                );
                let handler = self
                    .webhooks()
                    .and_then(|client| client.handler(spec, Arc::clone(&breaker), Arc::clone(&self.runtime)))
                    .map(|handler| Arc::new(handler) as Arc<dyn Handler>);
                Kind::Webhook { handler, breaker }
            }
        };
        Gate { kind, handlers: Arc::clone(self), retry_at_ms: None, probe: None }
    }
}

enum Kind {
    Lease,
    Inprocess { queue: String },
    Webhook { handler: Option<Arc<dyn Handler>>, breaker: Arc<Mutex<Breaker>> },
}

/// Whether a queue's handler can take tasks.
pub(crate) struct Gate {
    kind: Kind,
    handlers: Arc<Handlers>,
    retry_at_ms: Option<i64>,
    probe: Option<Probe>,
}

/// A probe that was granted to a task of this queue, with the breaker before and after it was.
struct Probe {
    task: TaskId,
    before: Breaker,
    granted: Breaker,
}

/// While another queue probes the same address, its answer can come at any moment.
const ASK_AGAIN_MS: i64 = 250;

impl Gate {
    /// The handler for a job; none for pulled leases.
    pub(crate) fn handler(&self) -> Option<Arc<dyn Handler>> {
        match &self.kind {
            Kind::Lease => None,
            Kind::Inprocess { queue } => self.handlers.inprocess(queue),
            Kind::Webhook { handler, .. } => handler.clone(),
        }
    }

    /// Whether there is somebody to run tasks at all.
    pub(crate) fn has_handler(&self) -> bool {
        matches!(self.kind, Kind::Lease) || self.handler().is_some()
    }

    /// How many tasks may be claimed now: all, one as a probe, or none. Only a look: see [`Self::enter`].
    pub(crate) fn permits(&mut self, now_ms: i64) -> usize {
        let Kind::Webhook { breaker, .. } = &self.kind else { return usize::MAX };
        let permit = breaker.lock().unwrap_or_else(PoisonError::into_inner).clone().allow(now_ms);
        self.retry_at_ms = None;
        match permit {
            Permit::Yes => usize::MAX,
            Permit::Probe => 1,
            Permit::No { retry_at_ms } => {
                self.retry_at_ms = Some(retry_at_ms.min(now_ms + ASK_AGAIN_MS));
                0
            }
        }
    }

    /// Takes the permit for these tasks. False if there is none for them, after all: queues that call the
    /// same address share its breaker.
    pub(crate) fn enter(&mut self, now_ms: i64, rows: &[DueRow]) -> bool {
        let Kind::Webhook { breaker, .. } = &self.kind else { return true };
        let mut breaker = breaker.lock().unwrap_or_else(PoisonError::into_inner);
        let before = breaker.clone();
        match (breaker.allow(now_ms), rows) {
            (Permit::Yes, _) => true,
            (Permit::Probe, [row]) => {
                self.probe = Some(Probe { task: row.id, before, granted: breaker.clone() });
                true
            }
            (Permit::Probe, _) => {
                *breaker = before;
                false
            }
            (Permit::No { .. }, _) => false,
        }
    }

    /// The task that was let through as a probe.
    pub(crate) fn probe(&self) -> Option<TaskId> {
        self.probe.as_ref().map(|probe| probe.task)
    }

    /// The probe's task is not held any more. If its call was not made, the breaker still waits for the
    /// answer: then the permit is given back.
    pub(crate) fn end_probe(&mut self) {
        let (Some(probe), Kind::Webhook { breaker, .. }) = (self.probe.take(), &self.kind) else { return };
        let mut breaker = breaker.lock().unwrap_or_else(PoisonError::into_inner);
        if *breaker == probe.granted {
            *breaker = probe.before;
        }
    }

    /// Whether claimed tasks may go out, now that they are due.
    pub(crate) fn is_closed(&self, now_ms: i64) -> bool {
        use duebook_core::breaker::BreakerState;
        let Kind::Webhook { breaker, .. } = &self.kind else { return false };
        let state = breaker.lock().unwrap_or_else(PoisonError::into_inner).state(now_ms);
        state == BreakerState::Open
    }

    /// When to ask for permits again, after none were given.
    pub(crate) fn retry_at_ms(&self) -> Option<i64> {
        self.retry_at_ms
    }
}

/// The breaker of an endpoint, told of each call's end.
pub(crate) fn note(breaker: &Mutex<Breaker>, healthy: bool, clock: &dyn Clock) {
    let mut breaker = breaker.lock().unwrap_or_else(PoisonError::into_inner);
    if healthy { breaker.on_success() } else { breaker.on_failure(clock.now_ms()) }
}
