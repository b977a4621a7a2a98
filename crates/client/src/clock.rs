//! The one place that asks the machine for the wall-clock time. Everything else takes a [`Clock`], so that
//! a test can set the time.
//!
//! Waiting (time-outs, back-off, heartbeats) uses tokio's timer, which tests can pause; it never uses this clock.

use crate::Timestamp;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

/// Tells the wall-clock time.
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    fn now(&self) -> Timestamp {
        Timestamp::from(SystemTime::now())
    }
}

/// A clock that stands still until it is told otherwise, for tests of handlers.
#[derive(Debug, Default)]
pub struct SettableClock(AtomicI64);

impl SettableClock {
    /// A clock that stands at `now`.
    #[must_use]
    pub const fn new(now: Timestamp) -> Self {
        Self(AtomicI64::new(now.as_ms()))
    }

    /// Sets the time, forwards or backwards.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.as_ms(), Ordering::SeqCst);
    }

    /// Moves the time forwards.
    pub fn advance(&self, by: Duration) {
        let ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.set(Timestamp::from_ms(self.0.load(Ordering::SeqCst).saturating_add(ms)));
    }
}

impl Clock for SettableClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.0.load(Ordering::SeqCst))
    }
}

impl<C: Clock + ?Sized> Clock for std::sync::Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}
