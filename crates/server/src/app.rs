//! What all handlers share.

use crate::access::Access;
use crate::config::ServerConfig;
use crate::metrics::Metrics;
use duebook_engine::Engine;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The server's insides.
pub(crate) struct App {
    pub(crate) engine: Engine,
    pub(crate) access: Access,
    pub(crate) metrics: Metrics,
    pub(crate) config: ServerConfig,
    pub(crate) openapi: Vec<u8>,
    /// Bytes of request bodies in memory.
    pub(crate) body_bytes: Arc<Count>,
    /// Requests that are worked on.
    pub(crate) in_flight: Arc<Count>,
    /// Open connections.
    pub(crate) connections: Arc<Count>,
}

/// A bounded count.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicUsize);

/// A share of a bounded count, given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    of: Arc<Count>,
    size: usize,
}

impl Count {
    /// Takes a share, unless the count would exceed `max`.
    pub(crate) fn take(self: &Arc<Self>, size: usize, max: usize) -> Option<Share> {
        let before = self.0.fetch_add(size, Ordering::Relaxed);
        let share = Share { of: Arc::clone(self), size };
        (before.saturating_add(size) <= max).then_some(share)
    }

    /// The count now.
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Share {
    /// Takes more, unless the count would exceed `max`.
    pub(crate) fn grow(&mut self, by: usize, max: usize) -> bool {
        match self.of.take(by, max) {
            Some(mut more) => {
                self.size += std::mem::replace(&mut more.size, 0);
                true
            }
            None => false,
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.0.fetch_sub(self.size, Ordering::Relaxed);
    }
}
