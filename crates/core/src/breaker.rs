//! A circuit breaker: stops calling what keeps failing, and finds out with one call at a time when it is back.
//!
//! ```text
//!            failures_to_open in a row            open time is over: one probe
//!   closed ────────────────────────────► open ────────────────────────────► half-open
//!     ▲                                    ▲          the probe fails           │ │
//!     │                                    └── open time doubles ───────────────┘ │
//!     └──────────────────── the probe succeeds: all counters reset ───────────────┘
//! ```
//!
//! Only answers that can tell something new are heard: while open, the late answers of calls that were let
//! through before are ignored, so that they neither close the circuit nor prolong its opening.
//!
//! The clock may go backwards. That can prolong an opening or a probe by no more than its own length.

use serde::{Deserialize, Serialize};

/// When a breaker opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BreakerConfig {
    /// Failures in a row that open it; nought counts as one.
    pub failures_to_open: u32,
    /// How long it stays open the first time, in milliseconds; at least 1.
    pub open_min_ms: u64,
    /// How long it stays open at most, in milliseconds; at least `open_min_ms`.
    pub open_max_ms: u64,
    /// How long a probe may go without an answer before another one is let through, in milliseconds; at least
    /// 1. Should exceed the deadline of a call.
    pub probe_timeout_ms: u64,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self { failures_to_open: 5, open_min_ms: 1_000, open_max_ms: 60_000, probe_timeout_ms: 60_000 }
    }
}

/// Whether a call may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permit {
    /// Yes.
    Yes,
    /// Yes; it is the one call that finds out whether the other side is back.
    Probe,
    /// No.
    No {
        /// When to ask again, in epoch milliseconds: never before that will the answer be another one, unless
        /// the probe in flight is answered first.
        retry_at_ms: i64,
    },
}

/// Where a breaker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    /// Calls pass.
    Closed,
    /// Calls are refused.
    Open,
    /// One probe may pass, or is in flight.
    HalfOpen,
}

impl BreakerState {
    /// As logs and metrics write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Closed { failures: u32 },
    Open { until_ms: i64, open_ms: u64 },
    Probing { until_ms: i64, open_ms: u64 },
}

/// A circuit breaker for one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breaker {
    config: BreakerConfig,
    phase: Phase,
}

impl Default for Breaker {
    fn default() -> Self {
        Self::new(BreakerConfig::default())
    }
}

impl Breaker {
    /// A closed breaker. Settings below their minimum are raised to it.
    #[must_use]
    pub fn new(config: BreakerConfig) -> Self {
        let open_min_ms = config.open_min_ms.max(1);
        let config = BreakerConfig {
            failures_to_open: config.failures_to_open.max(1),
            open_min_ms,
            open_max_ms: config.open_max_ms.max(open_min_ms),
            probe_timeout_ms: config.probe_timeout_ms.max(1),
        };
        Self { config, phase: Phase::Closed { failures: 0 } }
    }

    /// Whether a call may be made now. Every permit should be answered by [`Self::on_success`] or
    /// [`Self::on_failure`]; a probe that is not is given up after `probe_timeout_ms`.
    pub fn allow(&mut self, now_ms: i64) -> Permit {
        let (until_ms, open_ms) = match &mut self.phase {
            Phase::Closed { .. } => return Permit::Yes,
            Phase::Open { until_ms, open_ms } => {
                *until_ms = (*until_ms).min(now_ms.saturating_add_unsigned(*open_ms));
                (*until_ms, *open_ms)
            }
            Phase::Probing { until_ms, open_ms } => {
                *until_ms = (*until_ms).min(now_ms.saturating_add_unsigned(self.config.probe_timeout_ms));
                (*until_ms, *open_ms)
            }
        };
        if now_ms < until_ms {
            return Permit::No { retry_at_ms: until_ms };
        }
        let until_ms = now_ms.saturating_add_unsigned(self.config.probe_timeout_ms);
        self.phase = Phase::Probing { until_ms, open_ms };
        Permit::Probe
    }

    /// A call succeeded: the count of failures starts anew, and a probe closes the circuit.
    pub fn on_success(&mut self) {
        match self.phase {
            Phase::Closed { .. } | Phase::Probing { .. } => self.phase = Phase::Closed { failures: 0 },
            Phase::Open { .. } => {}
        }
    }

    /// A call failed.
    pub fn on_failure(&mut self, now_ms: i64) {
        let open_ms = match &mut self.phase {
            Phase::Closed { failures } => {
                *failures += 1;
                if *failures < self.config.failures_to_open {
                    return;
                }
                self.config.open_min_ms
            }
            Phase::Probing { open_ms, .. } => open_ms.saturating_mul(2).min(self.config.open_max_ms),
            Phase::Open { .. } => return,
        };
        self.phase = Phase::Open { until_ms: now_ms.saturating_add_unsigned(open_ms), open_ms };
    }

    /// Where it stands now.
    #[must_use]
    pub fn state(&self, now_ms: i64) -> BreakerState {
        match self.phase {
            Phase::Closed { .. } => BreakerState::Closed,
            Phase::Open { until_ms, .. } if now_ms < until_ms => BreakerState::Open,
            Phase::Open { .. } | Phase::Probing { .. } => BreakerState::HalfOpen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn opened(now_ms: i64) -> Breaker {
        let mut breaker = Breaker::default();
        for _ in 0..5 {
            assert_eq!(breaker.allow(now_ms), Permit::Yes);
            breaker.on_failure(now_ms);
        }
        breaker
    }

    #[test]
    fn opens_after_failures_in_a_row_only() {
        let mut breaker = Breaker::default();
        for _ in 0..10 {
            for _ in 0..4 {
                breaker.on_failure(0);
            }
            breaker.on_success();
        }
        assert_eq!((breaker.state(0), breaker.allow(0)), (BreakerState::Closed, Permit::Yes));
        let mut breaker = opened(100);
        assert_eq!(breaker.state(100), BreakerState::Open);
        assert_eq!(breaker.allow(100), Permit::No { retry_at_ms: 1_100 });
        assert_eq!(breaker.allow(1_099), Permit::No { retry_at_ms: 1_100 });
    }

    #[test]
    fn one_probe_closes_it_and_resets_everything() {
        let mut breaker = opened(0);
        assert_eq!(breaker.state(1_000), BreakerState::HalfOpen);
        assert_eq!(breaker.allow(1_000), Permit::Probe);
        assert_eq!(breaker.allow(1_001), Permit::No { retry_at_ms: 61_000 });
        breaker.on_success();
        assert_eq!(breaker, Breaker::default());
        assert_eq!(opened(5_000).allow(5_000), Permit::No { retry_at_ms: 6_000 });
    }

    #[test]
    fn failed_probes_double_the_open_time_up_to_the_most() {
        let mut breaker = opened(0);
        let mut now_ms = 0;
        let mut open = vec![];
        for _ in 0..8 {
            let Permit::No { retry_at_ms } = breaker.allow(now_ms) else { panic!("not open") };
            open.push(retry_at_ms - now_ms);
            now_ms = retry_at_ms;
            assert_eq!(breaker.allow(now_ms), Permit::Probe);
            breaker.on_failure(now_ms);
        }
        assert_eq!(open, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
    }

    #[test]
    fn late_answers_do_not_move_an_open_circuit() {
        let mut breaker = opened(0);
        let before = breaker.clone();
        breaker.on_success();
        breaker.on_failure(900);
        assert_eq!(breaker, before);
    }

    #[test]
    fn a_lost_probe_is_given_up() {
        let mut breaker = opened(0);
        assert_eq!(breaker.allow(1_000), Permit::Probe);
        assert_eq!(breaker.allow(60_999), Permit::No { retry_at_ms: 61_000 });
        assert_eq!(breaker.state(61_000), BreakerState::HalfOpen);
        assert_eq!(breaker.allow(61_000), Permit::Probe);
        breaker.on_failure(61_000);
        assert_eq!(breaker.allow(61_000), Permit::No { retry_at_ms: 63_000 }, "doubled once, not twice");
    }

    #[test]
    fn a_clock_that_goes_back_delays_by_one_open_time_at_most() {
        let mut breaker = opened(1_000_000);
        assert_eq!(breaker.allow(0), Permit::No { retry_at_ms: 1_000 });
        assert_eq!(breaker.allow(1_000), Permit::Probe);
        assert_eq!(breaker.allow(-100_000), Permit::No { retry_at_ms: -40_000 });
    }

    #[test]
    fn settings_below_their_minimum_are_raised() {
        let zero = BreakerConfig { failures_to_open: 0, open_min_ms: 0, open_max_ms: 0, probe_timeout_ms: 0 };
        let mut breaker = Breaker::new(zero);
        breaker.on_failure(0);
        assert_eq!(breaker.allow(0), Permit::No { retry_at_ms: 1 });
        assert_eq!(breaker.allow(1), Permit::Probe);
        let endless = BreakerConfig { open_min_ms: u64::MAX, failures_to_open: 1, ..zero };
        let mut breaker = Breaker::new(endless);
        breaker.on_failure(i64::MAX);
        assert_eq!(breaker.allow(0), Permit::No { retry_at_ms: i64::MAX });
    }

    proptest! {
        /// Whatever is answered or left unanswered, and wherever the clock jumps: the time at which to ask again
        /// is in the future and not too far, and it is kept.
        #[test]
        fn never_wedged(steps in prop::collection::vec((0_u8..4, -100_000_i64..100_000), 1..200)) {
            let mut breaker = Breaker::default();
            let mut now_ms = 0_i64;
            for (act, by_ms) in steps {
                now_ms += by_ms;
                match act {
                    0 => breaker.on_success(),
                    1 => breaker.on_failure(now_ms),
                    _ => {
                        if let Permit::No { retry_at_ms } = breaker.allow(now_ms) {
                            prop_assert!(retry_at_ms > now_ms && retry_at_ms <= now_ms + 60_000);
                            prop_assert_eq!(breaker.clone().allow(retry_at_ms), Permit::Probe);
                        }
                    }
                }
            }
        }

        /// Between two answers no more than one probe passes per `probe_timeout_ms`.
        #[test]
        fn one_probe_at_a_time(asks in prop::collection::vec(0_i64..30_000, 1..100)) {
            let mut breaker = opened(0);
            let (mut now_ms, mut last_probe_ms) = (0, None);
            for by_ms in asks {
                now_ms += by_ms;
                if breaker.allow(now_ms) == Permit::Probe {
                    prop_assert!(last_probe_ms.is_none_or(|last| now_ms - last >= 60_000));
                    last_probe_ms = Some(now_ms);
                }
            }
        }
    }
}
