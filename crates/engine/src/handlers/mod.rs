//! Which handler a queue has, and whether it can take tasks right now.

mod webhook;

use crate::config::WebhookConfig;
use crate::handler::Handler;
use duebook_core::breaker::{Breaker, BreakerConfig, Permit};
use duebook_core::{Clock, HandlerSpec, QueueSettings};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

pub use webhook::WebhookClient;

/// All handlers that run inside this process.
pub(crate) struct Handlers {
    inprocess: RwLock<HashMap<String, Arc<dyn Handler>>>,
    config: WebhookConfig,
    /// Made when the first webhook needs it.
    webhooks: OnceLock<Option<WebhookClient>>,
    /// One breaker per address, shared by all queues that call it.
    breakers: Mutex<HashMap<String, Arc<Mutex<Breaker>>>>,
}

impl Handlers {
    pub(crate) fn new(config: &WebhookConfig) -> Self {
        Self {
            inprocess: RwLock::default(),
            config: config.clone(),
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
                    .and_then(|client| client.handler(spec, Arc::clone(&breaker)))
                    .map(|handler| Arc::new(handler) as Arc<dyn Handler>);
                Kind::Webhook { handler, breaker }
            }
        };
        Gate { kind, handlers: Arc::clone(self), retry_at_ms: None }
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
}

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

    /// How many tasks may be claimed now: all, one as a probe, or none.
    pub(crate) fn permits(&mut self, now_ms: i64) -> usize {
        let Kind::Webhook { breaker, .. } = &self.kind else { return usize::MAX };
        let permit = breaker.lock().unwrap_or_else(PoisonError::into_inner).allow(now_ms);
        self.retry_at_ms = None;
        match permit {
            Permit::Yes => usize::MAX,
            Permit::Probe => 1,
            Permit::No { retry_at_ms } => {
                self.retry_at_ms = Some(retry_at_ms);
                0
            }
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
