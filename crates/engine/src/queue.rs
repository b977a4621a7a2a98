//! A queue as the rest of the engine sees it: its name, its settings, and the inbox of its runner.

use crate::inbox::Inbox;
use duebook_core::{QueueId, QueueSettings};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::Notify;

/// A queue.
pub(crate) struct Queue {
    pub(crate) id: QueueId,
    pub(crate) name: Arc<str>,
    pub(crate) inbox: Inbox,
    settings: RwLock<QueueSettings>,
    stopped: AtomicBool,
    stopped_bell: Notify,
}

impl Queue {
    pub(crate) fn new(id: QueueId, name: &str, settings: QueueSettings) -> Self {
        Self {
            id,
            name: Arc::from(name),
            inbox: Inbox::default(),
            settings: RwLock::new(settings),
            stopped: AtomicBool::new(false),
            stopped_bell: Notify::new(),
        }
    }

    pub(crate) fn settings(&self) -> QueueSettings {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps the settings and tells the runner. Call only with what is committed.
    pub(crate) fn change_settings(&self, settings: QueueSettings) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = settings.clone();
        self.inbox.put(|mail| mail.settings = Some(settings));
    }

    pub(crate) fn note_stopped(&self) {
        self.stopped.store(true, Ordering::Release);
        self.stopped_bell.notify_waiters();
    }

    pub(crate) async fn wait_stopped(&self) {
        let bell = self.stopped_bell.notified();
        if !self.stopped.load(Ordering::Acquire) {
            bell.await;
        }
    }
}
