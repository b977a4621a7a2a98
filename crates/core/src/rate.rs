//! A token bucket in the form of the generic cell rate algorithm (GCRA; ITU-T I.371, annex A): instead of
//! counting tokens and filling them up by a timer, it keeps one time, the *theoretical arrival time*, at which
//! the bucket would be full again.
//!
//! Promise: with a clock that does not go back, the starts granted in any span of `t` seconds are at most
//! `rate × t + burst`. When the clock goes back the bucket is at worst taken for empty, so that nothing is
//! held up for longer than one refill.
//!
//! Times are microseconds outside and picoseconds inside: at a million a second a token takes one microsecond,
//! and rates in between must not be rounded to whole ones.

/// The lowest rate, per second: one start in about a quarter of an hour.
pub const RATE_MIN: f64 = 0.001;
/// The highest rate, per second.
pub const RATE_MAX: f64 = 1_000_000.0;

const PS_PER_US: i128 = 1_000_000;
const PS_PER_S: f64 = 1e12;

/// A rate that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("rate_per_second: must be from 0.001 to 1000000")]
pub struct BadRate;

/// A token bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimiter {
    /// Time between two tokens, rounded up: never faster than asked.
    interval_ps: i128,
    /// Tokens of a full bucket.
    burst: u32,
    /// When the bucket would be full again; none before the first token was taken.
    full_at_ps: Option<i128>,
}

impl RateLimiter {
    /// A full bucket of `burst` tokens (at least 1) that refills at `rate_per_second`.
    ///
    /// # Errors
    /// When the rate is not a number from [`RATE_MIN`] to [`RATE_MAX`].
    pub fn new(rate_per_second: f64, burst: u32) -> Result<Self, BadRate> {
        if !(RATE_MIN..=RATE_MAX).contains(&rate_per_second) {
            return Err(BadRate);
        }
        let interval_ps = (PS_PER_S / rate_per_second).ceil() as i128;
        Ok(Self { interval_ps, burst: burst.max(1), full_at_ps: None })
    }

    /// A burst that suits a rate: what flows in a tenth of a second, at least one.
    #[must_use]
    pub fn burst_for(rate_per_second: f64) -> u32 {
        ((rate_per_second / 10.0).ceil() as u32).max(1)
    }

    /// Takes up to `want` tokens and answers how many it got. `now_us`: epoch microseconds.
    pub fn take(&mut self, now_us: i64, want: u32) -> u32 {
        let now_ps = i128::from(now_us) * PS_PER_US;
        let full_ps = i128::from(self.burst) * self.interval_ps;
        // Further ahead than an empty bucket takes to fill can only come from a clock that went back.
        let full_at_ps = self.full_at_ps.map_or(now_ps, |at| at.clamp(now_ps, now_ps + full_ps));
        let held = (now_ps + full_ps - full_at_ps) / self.interval_ps;
        let granted = want.min(u32::try_from(held).unwrap_or(u32::MAX));
        self.full_at_ps = Some(full_at_ps + i128::from(granted) * self.interval_ps);
        granted
    }

    /// Gives back tokens that were taken for nothing; what does not fit into the bucket is lost.
    pub fn give_back(&mut self, unused: u32) {
        if let Some(at) = &mut self.full_at_ps {
            *at -= i128::from(unused) * self.interval_ps;
        }
    }

    /// When the next token is there, in epoch microseconds; in the past if there is one now, and `i64::MIN`
    /// before the first one was taken.
    #[must_use]
    pub fn next_at(&self) -> i64 {
        let Some(full_at_ps) = self.full_at_ps else { return i64::MIN };
        let next_ps = full_at_ps - i128::from(self.burst - 1) * self.interval_ps;
        let next_us = next_ps.div_euclid(PS_PER_US) + i128::from(next_ps.rem_euclid(PS_PER_US) != 0);
        i64::try_from(next_us).unwrap_or(if next_us < 0 { i64::MIN } else { i64::MAX })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: i64 = 1_000_000;

    fn limiter(rate_per_second: f64, burst: u32) -> RateLimiter {
        RateLimiter::new(rate_per_second, burst).unwrap()
    }

    #[test]
    fn bounds_of_the_rate() {
        for good in [RATE_MIN, 0.5, 1.0, 333.333, RATE_MAX] {
            assert!(RateLimiter::new(good, 1).is_ok(), "{good}");
        }
        for bad in [0.0, -1.0, 0.000_9, 1_000_000.1, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(RateLimiter::new(bad, 1), Err(BadRate), "{bad}");
        }
        let bursts: Vec<u32> = [0.001, 9.0, 11.0, 1_000.0, f64::NAN, f64::INFINITY]
            .into_iter()
            .map(RateLimiter::burst_for)
            .collect();
        assert_eq!(bursts, [1, 1, 2, 100, 1, u32::MAX]);
    }

    #[test]
    fn a_burst_then_the_rate() {
        let mut bucket = limiter(10.0, 3);
        assert_eq!(bucket.next_at(), i64::MIN);
        assert_eq!(bucket.take(0, 5), 3);
        assert_eq!(bucket.next_at(), 100_000);
        assert_eq!(bucket.take(99_999, 1), 0);
        assert_eq!(bucket.take(100_000, 5), 1);
        assert_eq!(bucket.take(10 * S, 5), 3, "never more than a full bucket");
        assert_eq!(bucket.take(10 * S, 0), 0);
    }

    #[test]
    fn slow_and_fast_rates_flow_exactly() {
        // (rate, seconds, starts in them when the next one is asked for as soon as it is there)
        let cases = [
            (0.001, 10_000, 10),
            (0.1, 100, 10),
            (0.7, 1_000, 700),
            (3.0, 100, 300),
            (1_500.0, 10, 15_000),
            (300_000.0, 1, 300_000),
            (1_000_000.0, 1, 1_000_000),
        ];
        for (rate, seconds, expected) in cases {
            let burst = RateLimiter::burst_for(rate);
            let mut bucket = limiter(rate, burst);
            assert_eq!(bucket.take(0, u32::MAX), burst);
            let mut granted = 0_u64;
            while bucket.next_at() <= seconds * S {
                granted += u64::from(bucket.take(bucket.next_at(), 1));
            }
            assert!(granted.abs_diff(expected) <= 1, "{rate}: {granted} of {expected}");
        }
    }

    #[test]
    fn a_clock_that_goes_back_holds_up_for_one_refill_at_most() {
        for (rate, refill_us) in [(2.0, 500_000), (0.01, 100 * S), (10_000.0, 100)] {
            let mut bucket = limiter(rate, 4);
            assert_eq!(bucket.take(1_000_000 * S, 4), 4);
            assert_eq!(bucket.take(0, 1), 0, "taken for empty");
            assert_eq!(bucket.next_at(), refill_us);
            assert_eq!(bucket.take(refill_us, 4), 1);
        }
    }

    #[test]
    fn unused_tokens_go_back() {
        let mut bucket = limiter(1.0, 5);
        bucket.give_back(3);
        assert_eq!(bucket.take(0, 5), 5);
        bucket.give_back(3);
        assert_eq!(bucket.take(0, 5), 3);
        bucket.give_back(u32::MAX);
        assert_eq!(bucket.take(0, 9), 5, "no more than a full bucket");
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut bucket = limiter(RATE_MIN, u32::MAX);
        for now_us in [i64::MAX, i64::MIN, 0, i64::MIN, i64::MAX] {
            bucket.take(now_us, u32::MAX);
            bucket.give_back(u32::MAX);
            bucket.take(now_us, u32::MAX);
            let _ = bucket.next_at();
        }
    }

    proptest! {
        /// In every span, not only from the start: at most rate × t + burst.
        #[test]
        fn never_more_than_rate_and_burst(
            rate in prop_oneof![0.001_f64..1.0, 1.0_f64..1_000.0, 1_000.0_f64..1_000_000.0],
            burst in 1_u32..1_000,
            asks in prop::collection::vec((0_u64..2_000_000, 0_u32..2_000), 1..60),
        ) {
            let mut bucket = limiter(rate, burst);
            let (mut now_us, mut seen) = (0_i64, Vec::<(i64, u64)>::new());
            for (by_us, want) in asks {
                now_us += by_us as i64;
                let granted = bucket.take(now_us, want);
                prop_assert!(granted <= want);
                seen.push((now_us, u64::from(granted)));
            }
            for from in 0..seen.len() {
                let mut sum = 0;
                for &(at_us, granted) in &seen[from..] {
                    sum += granted;
                    let seconds = (at_us - seen[from].0) as f64 / 1e6;
                    prop_assert!(sum as f64 <= rate * seconds + f64::from(burst) + 1e-3);
                }
            }
        }

        /// `next_at` is exact: nothing one microsecond before, something then. Also with a jumping clock.
        #[test]
        fn next_at_is_kept(
            rate in 0.01_f64..100_000.0, burst in 1_u32..50,
            asks in prop::collection::vec((-5_000_000_i64..5_000_000, 0_u32..60), 1..60),
        ) {
            let mut bucket = limiter(rate, burst);
            let mut now_us = 0_i64;
            for (by_us, want) in asks {
                now_us += by_us;
                let granted = bucket.take(now_us, want);
                if granted < want {
                    let next_us = bucket.next_at();
                    prop_assert!(next_us > now_us);
                    prop_assert!((next_us - now_us) as f64 <= 1e6 / rate + 1.0);
                    prop_assert_eq!(bucket.clone().take(next_us - 1, 1), 0);
                    prop_assert_eq!(bucket.clone().take(next_us, 1), 1);
                }
            }
        }
    }
}
