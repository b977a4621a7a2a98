//! The one clock. Everything else takes the time as a parameter or asks a [`Clock`] that it was given.

use std::sync::atomic::{AtomicI64, Ordering};

/// A source of wall-clock time. Implementations must be cheap: the engine asks several times per task.
pub trait Clock: Send + Sync + 'static {
    /// Microseconds since the Unix epoch. May jump in both directions; nobody may rely on it growing.
    fn now_us(&self) -> i64;

    /// Milliseconds since the Unix epoch, rounded down, so that "due" is never seen early.
    fn now_ms(&self) -> i64 {
        self.now_us().div_euclid(1000)
    }
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)] // the one clock module
    fn now_us(&self) -> i64 {
        match std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_micros()).unwrap_or(i64::MAX),
        }
    }
}

/// A clock that stands still until it is set. For tests and simulations.
#[derive(Debug, Default)]
pub struct SettableClock(AtomicI64);

impl SettableClock {
    /// A clock that shows `now_ms`.
    #[must_use]
    pub fn at_ms(now_ms: i64) -> Self {
        Self(AtomicI64::new(now_ms * 1000))
    }

    /// Sets the time, forwards or backwards.
    pub fn set_us(&self, now_us: i64) {
        self.0.store(now_us, Ordering::SeqCst);
    }

    /// Moves the time by `by_ms`, which may be negative.
    pub fn advance_ms(&self, by_ms: i64) {
        self.0.fetch_add(by_ms * 1000, Ordering::SeqCst);
    }
}

impl Clock for SettableClock {
    fn now_us(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}
