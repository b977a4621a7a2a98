//! Retry policies: what a failed attempt means for its task.
//!
//! A failure has a class; the class, or the policy named on the task or its queue, says how long to wait
//! before the next attempt, until no attempt is left. The decision is a function of its arguments alone: the
//! same seed gives the same jitter.

use crate::limits::is_name;
use crate::random::split_mix;
use crate::task::Verdict;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Configured policies, the replaced built-in ones included.
pub const POLICIES_MAX: usize = 64;
/// Waits in one policy, that is: attempts after the first.
pub const DELAYS_MAX: usize = 100;
/// The longest wait of a policy in milliseconds: 30 days.
pub const DELAY_MS_MAX: u64 = 30 * 86_400_000;

/// What kind of failure ended an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum FailureClass {
    /// Likely to pass by itself: a time-out, a refused connection, a 5xx answer.
    #[default]
    Transient = 0,
    /// The other side asks for less: 429, 503, a full queue.
    Busy = 1,
    /// The handler's own storage failed.
    Storage = 2,
    /// No attempt can succeed: the task is dead at once.
    Permanent = 3,
}

impl FailureClass {
    /// Every class, in the order of their codes.
    pub const ALL: [Self; 4] = [Self::Transient, Self::Busy, Self::Storage, Self::Permanent];

    /// As stores keep it.
    #[must_use]
    pub const fn to_code(self) -> u8 {
        self as u8
    }

    /// The class with this code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// As requests, answers, logs and metrics write it. Also the name of the class's own policy, except for
    /// `permanent`, which has none.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Busy => "busy",
            Self::Storage => "storage",
            Self::Permanent => "permanent",
        }
    }

    /// The class of this name, exactly as [`Self::as_str`] writes it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == text)
    }
}

/// How often, and after which waits, a task is tried again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    /// The wait before each next attempt, in milliseconds; n waits allow n + 1 attempts.
    pub delays_ms: Vec<u64>,
    /// How far a wait may be moved at random, both ways, as a fraction of it: 0 (exact) to 1 (from nothing to
    /// the double). The mean stays the configured wait.
    #[serde(default)]
    pub jitter: f32,
}

impl RetryPolicy {
    fn exact(delays_ms: &[u64]) -> Self {
        Self { delays_ms: delays_ms.to_vec(), jitter: 0.0 }
    }

    /// Built in: after 1 s, 5 s and 30 s.
    #[must_use]
    pub fn transient() -> Self {
        Self::exact(&[1_000, 5_000, 30_000])
    }

    /// Built in: after 1, 2 and 4 s.
    #[must_use]
    pub fn exponential() -> Self {
        Self::exact(&[1_000, 2_000, 4_000])
    }

    /// Built in: five times after 10 s.
    #[must_use]
    pub fn busy() -> Self {
        Self::exact(&[10_000; 5])
    }

    /// Built in: after 5 s, then after 10 s.
    #[must_use]
    pub fn storage() -> Self {
        Self::exact(&[5_000, 10_000])
    }

    /// Built in: no second attempt.
    #[must_use]
    pub fn never() -> Self {
        Self::exact(&[])
    }

    /// The wait after `attempts_used` attempts (the failed one included), or `None` when none is left. Nought
    /// counts as one: whoever asks has seen an attempt fail.
    #[must_use]
    pub fn delay_ms(&self, attempts_used: u32, jitter_seed: u64) -> Option<u64> {
        let index = attempts_used.saturating_sub(1);
        let delay_ms = *self.delays_ms.get(usize::try_from(index).ok()?)?;
        let jitter = if self.jitter.is_finite() { f64::from(self.jitter.clamp(0.0, 1.0)) } else { 0.0 };
        if jitter == 0.0 {
            return Some(delay_ms);
        }
        // 53 bits fill the mantissa: uniform in [0, 1).
        let unit = (split_mix(jitter_seed ^ (u64::from(index) << 32)) >> 11) as f64 / (1_u64 << 53) as f64;
        Some((delay_ms as f64 * (1.0 + jitter * (2.0 * unit - 1.0))).round() as u64)
    }

    fn check(&self, name: &str) -> Result<(), BadPolicy> {
        let bad = |field: String, why: String| Err(BadPolicy { field, why });
        if self.delays_ms.len() > DELAYS_MAX {
            return bad(format!("{name}.delays_ms"), format!("must have at most {DELAYS_MAX} waits"));
        }
        if let Some(at) = self.delays_ms.iter().position(|&delay_ms| delay_ms > DELAY_MS_MAX) {
            return bad(
                format!("{name}.delays_ms[{at}]"),
                format!("must be at most {DELAY_MS_MAX} milliseconds (30 days)"),
            );
        }
        if !(0.0..=1.0).contains(&self.jitter) {
            return bad(format!("{name}.jitter"), "must be from 0 to 1".into());
        }
        Ok(())
    }
}

/// A configured policy that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct BadPolicy {
    /// Which field, below the table of policies: `slow.delays_ms[3]`; empty for the table itself.
    pub field: String,
    /// What it must be.
    pub why: String,
}

/// Why no attempt follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeadReason {
    /// The failure was permanent.
    Permanent,
    /// The policy allows no further attempt.
    Exhausted,
}

/// What follows a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextAttempt {
    /// Another attempt.
    After {
        /// The wait before it, in milliseconds.
        delay_ms: u64,
    },
    /// The task is dead.
    Dead(DeadReason),
}

impl NextAttempt {
    /// The same, as the life cycle takes it. `now_ms`: when the attempt ended, in epoch milliseconds.
    #[must_use]
    pub fn verdict(self, now_ms: i64) -> Verdict {
        match self {
            Self::After { delay_ms } => Verdict::Retry { at_ms: now_ms.saturating_add_unsigned(delay_ms) },
            Self::Dead(DeadReason::Permanent) => Verdict::Permanent,
            Self::Dead(DeadReason::Exhausted) => Verdict::Exhausted,
        }
    }
}

/// All policies by name: the built-in ones and those of the configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryPolicies {
    by_name: BTreeMap<String, RetryPolicy>,
}

impl Default for RetryPolicies {
    /// The built-in policies: `transient`, `exponential`, `busy`, `storage`, `never`.
    fn default() -> Self {
        let built_in = [
            ("transient", RetryPolicy::transient()),
            ("exponential", RetryPolicy::exponential()),
            ("busy", RetryPolicy::busy()),
            ("storage", RetryPolicy::storage()),
            ("never", RetryPolicy::never()),
        ];
        Self { by_name: built_in.into_iter().map(|(name, policy)| (name.to_owned(), policy)).collect() }
    }
}

impl RetryPolicies {
    /// The built-in policies and `configured` ones. A configured policy replaces the built-in one of its
    /// name, and with it what its class does; only `never` keeps its meaning.
    ///
    /// # Errors
    /// The first field that is out of bounds.
    pub fn new(configured: BTreeMap<String, RetryPolicy>) -> Result<Self, BadPolicy> {
        if configured.len() > POLICIES_MAX {
            let why = format!("must be at most {POLICIES_MAX} policies");
            return Err(BadPolicy { field: String::new(), why });
        }
        let mut all = Self::default();
        for (name, policy) in configured {
            if !is_name(&name) || name == "never" {
                let why = "must be 1 to 64 of a-z A-Z 0-9 . _ - : and not \"never\"".into();
                return Err(BadPolicy { field: name, why });
            }
            policy.check(&name)?;
            all.by_name.insert(name, policy);
        }
        Ok(all)
    }

    /// Whether there is a policy of this name; ask when a task or a queue names one.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// The policy of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&RetryPolicy> {
        self.by_name.get(name)
    }

    /// Every policy with its name, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RetryPolicy)> {
        self.by_name.iter().map(|(name, policy)| (name.as_str(), policy))
    }

    /// What follows an attempt that failed with `class`.
    ///
    /// A permanent failure is dead at once. Otherwise the policy `policy_override` (named on the task, else on
    /// its queue) decides, or the class's own. An override that no longer exists, because the configuration
    /// has changed since the task was scheduled, falls back to the class's own policy: losing a setting must
    /// not lose the task.
    ///
    /// `attempts_used` counts the attempts so far, the failed one included.
    #[must_use]
    pub fn next_attempt(
        &self,
        policy_override: Option<&str>,
        class: FailureClass,
        attempts_used: u32,
        jitter_seed: u64,
    ) -> NextAttempt {
        if class == FailureClass::Permanent {
            return NextAttempt::Dead(DeadReason::Permanent);
        }
        policy_override
            .and_then(|name| self.get(name))
            .or_else(|| self.get(class.as_str()))
            .and_then(|policy| policy.delay_ms(attempts_used, jitter_seed))
            .map_or(NextAttempt::Dead(DeadReason::Exhausted), |delay_ms| NextAttempt::After { delay_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EXHAUSTED: NextAttempt = NextAttempt::Dead(DeadReason::Exhausted);

    /// Every wait until the task is dead.
    fn waits(policies: &RetryPolicies, policy_override: Option<&str>, class: FailureClass) -> Vec<u64> {
        let mut waits = Vec::new();
        for attempts_used in 1.. {
            match policies.next_attempt(policy_override, class, attempts_used, 7) {
                NextAttempt::After { delay_ms } => waits.push(delay_ms),
                NextAttempt::Dead(reason) => {
                    assert_eq!(reason, DeadReason::Exhausted);
                    break;
                }
            }
        }
        waits
    }

    fn configured(name: &str, delays_ms: Vec<u64>, jitter: f32) -> Result<RetryPolicies, BadPolicy> {
        RetryPolicies::new(BTreeMap::from([(name.to_owned(), RetryPolicy { delays_ms, jitter })]))
    }

    #[test]
    fn codes_and_names_round_trip() {
        for class in FailureClass::ALL {
            assert_eq!(FailureClass::from_code(class.to_code()), Some(class));
            assert_eq!(FailureClass::parse(class.as_str()), Some(class));
            assert_eq!(serde_json::to_string(&class).unwrap(), format!("{:?}", class.as_str()));
        }
        assert_eq!(FailureClass::from_code(4), None);
        assert_eq!(FailureClass::parse("Busy"), None);
    }

    #[test]
    fn the_class_or_the_override_picks_the_policy() {
        use FailureClass::{Busy, Storage, Transient};
        let policies = RetryPolicies::default();
        let cases: &[(Option<&str>, FailureClass, &[u64])] = &[
            (None, Transient, &[1_000, 5_000, 30_000]),
            (None, Busy, &[10_000; 5]),
            (None, Storage, &[5_000, 10_000]),
            (Some("exponential"), Transient, &[1_000, 2_000, 4_000]),
            (Some("exponential"), Busy, &[1_000, 2_000, 4_000]),
            (Some("never"), Busy, &[]),
            (Some("busy"), Transient, &[10_000; 5]),
            (Some("gone"), Storage, &[5_000, 10_000]),
        ];
        for (policy_override, class, expected) in cases {
            assert_eq!(
                &waits(&policies, *policy_override, *class),
                expected,
                "{policy_override:?} {class:?}"
            );
        }
    }

    #[test]
    fn a_permanent_failure_is_dead_whatever_the_policy() {
        for policy_override in [None, Some("busy"), Some("gone")] {
            let next = RetryPolicies::default().next_attempt(policy_override, FailureClass::Permanent, 1, 0);
            assert_eq!(next, NextAttempt::Dead(DeadReason::Permanent));
        }
    }

    #[test]
    fn attempts_are_counted_from_one_and_have_no_upper_end() {
        let policies = RetryPolicies::default();
        let next = |used| policies.next_attempt(None, FailureClass::Transient, used, 0);
        assert_eq!(next(0), NextAttempt::After { delay_ms: 1_000 });
        assert_eq!(next(1), NextAttempt::After { delay_ms: 1_000 });
        assert_eq!(next(3), NextAttempt::After { delay_ms: 30_000 });
        assert_eq!(next(4), EXHAUSTED);
        assert_eq!(next(u32::MAX), EXHAUSTED);
    }

    #[test]
    fn a_configured_policy_adds_or_replaces() {
        let slow = configured("slow", vec![60_000], 0.0).unwrap();
        assert!(slow.contains("slow") && slow.contains("never") && !slow.contains("fast"));
        assert_eq!(waits(&slow, Some("slow"), FailureClass::Busy), [60_000]);
        assert_eq!(slow.iter().count(), 6);
        let replaced = configured("transient", vec![7], 0.0).unwrap();
        assert_eq!(waits(&replaced, None, FailureClass::Transient), [7]);
    }

    #[test]
    fn what_is_out_of_bounds_is_named() {
        let field = |name: &str, delays_ms, jitter| configured(name, delays_ms, jitter).unwrap_err().field;
        assert_eq!(field("p", vec![0; DELAYS_MAX + 1], 0.0), "p.delays_ms");
        assert_eq!(field("p", vec![1, DELAY_MS_MAX + 1], 0.0), "p.delays_ms[1]");
        assert_eq!(field("p", vec![], 1.1), "p.jitter");
        assert_eq!(field("p", vec![], -0.1), "p.jitter");
        assert_eq!(field("p", vec![], f32::NAN), "p.jitter");
        assert_eq!(field("no blanks", vec![], 0.0), "no blanks");
        assert_eq!(field("never", vec![1], 0.0), "never");
        assert!(configured("p", vec![DELAY_MS_MAX; DELAYS_MAX], 1.0).is_ok());
        let many = |n: usize| (0..n).map(|i| (format!("p{i}"), RetryPolicy::never())).collect();
        assert!(RetryPolicies::new(many(POLICIES_MAX)).is_ok());
        assert_eq!(RetryPolicies::new(many(POLICIES_MAX + 1)).unwrap_err().field, "");
    }

    #[test]
    fn a_policy_reads_its_configuration_strictly() {
        let policy: RetryPolicy = serde_json::from_str(r#"{"delays_ms":[5]}"#).unwrap();
        assert_eq!(policy, RetryPolicy { delays_ms: vec![5], jitter: 0.0 });
        assert!(serde_json::from_str::<RetryPolicy>(r#"{"delays_ms":[5],"max":3}"#).is_err());
    }

    #[test]
    fn verdicts() {
        assert_eq!(NextAttempt::After { delay_ms: 5 }.verdict(100), Verdict::Retry { at_ms: 105 });
        let late = NextAttempt::After { delay_ms: u64::MAX };
        assert_eq!(late.verdict(i64::MAX), Verdict::Retry { at_ms: i64::MAX });
        assert_eq!(EXHAUSTED.verdict(0), Verdict::Exhausted);
        assert_eq!(NextAttempt::Dead(DeadReason::Permanent).verdict(0), Verdict::Permanent);
    }

    #[test]
    fn jitter_spreads_around_the_configured_wait() {
        let policy = RetryPolicy { delays_ms: vec![10_000; 2], jitter: 0.5 };
        let drawn: Vec<u64> = (0..1_000).filter_map(|seed| policy.delay_ms(1, seed)).collect();
        let mean = drawn.iter().sum::<u64>() / 1_000;
        assert!((9_800..=10_200).contains(&mean), "{mean}");
        assert!(drawn.iter().any(|&d| d < 6_000) && drawn.iter().any(|&d| d > 14_000));
        assert_eq!(policy.delay_ms(1, 42), policy.delay_ms(1, 42));
        assert_ne!(policy.delay_ms(1, 42), policy.delay_ms(2, 42), "attempts of one task differ too");
    }

    proptest! {
        #[test]
        fn jitter_stays_within_its_fraction(
            delay_ms in 0..=DELAY_MS_MAX, jitter in 0.0_f32..=1.0, used in 0_u32..3, seed: u64,
        ) {
            let drawn = RetryPolicy { delays_ms: vec![delay_ms; 2], jitter }.delay_ms(used, seed).unwrap() as f64;
            let (wait, reach) = (delay_ms as f64, delay_ms as f64 * f64::from(jitter));
            prop_assert!((wait - reach - 1.0..=wait + reach + 1.0).contains(&drawn));
        }
    }
}
