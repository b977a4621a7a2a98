//! When and how often a call is tried again: exponential back-off with full jitter, bounded in total.
//! (Full jitter: <https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/>.)

use crate::random;
use std::time::Duration;

/// How a [`crate::Client`] repeats calls that failed for a passing reason.
///
/// Repeated are: calls that were not heard (no connection) or refused for now (429, 502, 503, 504), and, if
/// the call has the same effect twice as once, those whose answer was lost. `Retry-After` is respected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    pub(crate) enabled: bool,
    pub(crate) base_ms: u64,
    pub(crate) cap_ms: u64,
    pub(crate) total_ms: u64,
}

impl Default for RetryPolicy {
    /// Waits of up to 50, 100, 200 … 2,000 ms, 30 s in total.
    fn default() -> Self {
        Self { enabled: true, base_ms: 50, cap_ms: 2_000, total_ms: 30_000 }
    }
}

impl RetryPolicy {
    /// Every call is tried once.
    #[must_use]
    pub fn off() -> Self {
        Self { enabled: false, ..Self::default() }
    }

    /// The longest first wait in milliseconds; it doubles with each try.
    #[must_use]
    pub const fn base_ms(mut self, ms: u64) -> Self {
        self.base_ms = ms;
        self
    }

    /// The longest wait of all in milliseconds.
    #[must_use]
    pub const fn cap_ms(mut self, ms: u64) -> Self {
        self.cap_ms = ms;
        self
    }

    /// Milliseconds that a call and its repetitions may take together. A wait (also one that the server asked
    /// for) that would pass it is not begun: the last error is returned at once.
    #[must_use]
    pub const fn total_ms(mut self, ms: u64) -> Self {
        self.total_ms = ms;
        self
    }

    pub(crate) const fn backoff(&self) -> Backoff {
        Backoff { base_ms: self.base_ms, cap_ms: self.cap_ms, tries: 0 }
    }
}

/// The waits between tries.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    base_ms: u64,
    cap_ms: u64,
    tries: u32,
}

impl Backoff {
    pub(crate) const fn new(base_ms: u64, cap_ms: u64) -> Self {
        Self { base_ms, cap_ms, tries: 0 }
    }

    pub(crate) const fn reset(&mut self) {
        self.tries = 0;
    }

    /// The next wait: random up to the doubled ceiling, on top of what the server asked for.
    pub(crate) fn next(&mut self, retry_after: Option<Duration>) -> Duration {
        let ceiling = self.base_ms.saturating_mul(1_u64 << self.tries.min(32)).min(self.cap_ms);
        self.tries = self.tries.saturating_add(1);
        let jitter = Duration::from_millis(random::up_to(ceiling));
        // All who were told the same second must not come back in the same millisecond.
        retry_after.map_or(jitter, |wait| wait.saturating_add(jitter.min(Duration::from_millis(250))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_cap_and_are_spread() {
        let mut backoff = RetryPolicy::default().backoff();
        for ceiling in [50, 100, 200, 400, 800, 1_600, 2_000, 2_000] {
            assert!(backoff.next(None) <= Duration::from_millis(ceiling));
        }
        let mean = (0..1_000).map(|_| backoff.next(None).as_millis()).sum::<u128>() / 1_000;
        assert!((800..1_200).contains(&mean), "mean of full jitter up to 2000 is {mean}");
        let asked = Duration::from_secs(3);
        let wait = backoff.next(Some(asked));
        assert!(wait >= asked && wait <= asked + Duration::from_millis(250));
    }
}
