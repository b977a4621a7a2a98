//! Recurring schedules: when they are due next, and what becomes of the times that were missed.
//!
//! Promise: time never advances past an occurrence that was neither fired nor counted as skipped. The caller
//! fires what [`Every::due_occurrences`] says and stores its `next_ms` in the same transaction; if there is
//! more, it asks again from there.
//!
//! Occurrences lie within the due times that tasks may have ([`DUE_MS_MIN`] to [`DUE_MS_MAX`]).

mod cron;
#[cfg(test)]
mod tests;

pub use cron::{CRON_CHARS_MAX, CronRule, TIMEZONE_CHARS_MAX};

use crate::limits::{DUE_MS_MAX, DUE_MS_MIN};
use serde::{Deserialize, Serialize};

/// The shortest interval in milliseconds: below it, a schedule is a loop that a handler should run itself.
pub const EVERY_MS_MIN: u64 = 100;
/// The longest interval in milliseconds: 366 days.
pub const EVERY_MS_MAX: u64 = 366 * 86_400_000;
/// Occurrences that one call looks at one by one, at most. (Those of an interval are skipped by arithmetic.)
pub const STEPS_MAX: usize = 10_000;

/// A schedule that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct BadSchedule {
    /// Which field: `cron`, `timezone` or `every_ms`.
    pub field: &'static str,
    /// What it must be.
    pub why: String,
}

impl BadSchedule {
    fn new(field: &'static str, why: impl Into<String>) -> Self {
        Self { field, why: why.into() }
    }
}

/// What becomes of occurrences that were missed, because no node was up or the schedule's queue was full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatchUp {
    /// Only the latest is fired; the others are skipped.
    #[default]
    One,
    /// Each is fired.
    All,
    /// Those older than a grace time are skipped.
    Skip,
}

impl CatchUp {
    /// Every choice.
    pub const ALL: [Self; 3] = [Self::One, Self::All, Self::Skip];

    /// As requests, answers and stores write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::All => "all",
            Self::Skip => "skip",
        }
    }

    /// The choice of this name, exactly as [`Self::as_str`] writes it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|catch_up| catch_up.as_str() == text)
    }
}

/// A fixed interval: due at `anchor_ms` plus every whole multiple of `every_ms`, before the anchor as well as
/// after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntervalRule {
    every_ms: u64,
    anchor_ms: i64,
}

impl IntervalRule {
    /// The interval in milliseconds.
    #[must_use]
    pub const fn every_ms(&self) -> u64 {
        self.every_ms
    }

    /// One of the occurrences, in epoch milliseconds: it sets the phase.
    #[must_use]
    pub const fn anchor_ms(&self) -> i64 {
        self.anchor_ms
    }

    /// Whole intervals between the anchor and `at_ms`, rounded down.
    fn index(&self, at_ms: i64) -> i128 {
        (i128::from(at_ms) - i128::from(self.anchor_ms)).div_euclid(i128::from(self.every_ms))
    }

    fn at(&self, index: i128) -> Option<i64> {
        let at_ms = i128::from(self.anchor_ms) + index * i128::from(self.every_ms);
        i64::try_from(at_ms).ok().filter(|at_ms| (DUE_MS_MIN..=DUE_MS_MAX).contains(at_ms))
    }

    fn next_after(&self, after_ms: i64) -> Option<i64> {
        self.at(self.index(after_ms.max(DUE_MS_MIN - 1)) + 1)
    }

    /// How many occurrences lie after `from_ms` and before `until_ms`.
    fn count_between(&self, from_ms: i64, until_ms: i64) -> u64 {
        let first = self.index(from_ms.max(DUE_MS_MIN - 1));
        let last = self.index(until_ms.saturating_sub(1).min(DUE_MS_MAX));
        u64::try_from(last - first).unwrap_or(0)
    }
}

/// When a schedule recurs.
#[derive(Debug, Clone, PartialEq)]
pub enum Every {
    /// At the times of a calendar, in a time zone.
    Cron(Box<CronRule>),
    /// At a fixed interval.
    Interval(IntervalRule),
}

/// What is due of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The occurrences to fire, oldest first, in epoch milliseconds.
    pub fire: Vec<i64>,
    /// The occurrence after all that were fired or skipped; none if the schedule has ended.
    pub next_ms: Option<i64>,
    /// Occurrences that were passed over.
    pub skipped: u64,
    /// Whether there is more to do now: ask again with `next_ms`.
    pub more: bool,
}

impl Every {
    /// By a cron expression of five fields, or six with seconds first, read in an IANA time zone.
    ///
    /// # Errors
    /// Which of `cron` and `timezone` cannot be used, and why.
    pub fn cron(expression: &str, timezone: &str) -> Result<Self, BadSchedule> {
        CronRule::parse(expression, timezone).map(|rule| Self::Cron(Box::new(rule)))
    }

    /// By an interval of [`EVERY_MS_MIN`] to [`EVERY_MS_MAX`], in phase with `anchor_ms` (epoch milliseconds).
    ///
    /// # Errors
    /// When `every_ms` is out of bounds.
    pub fn interval(every_ms: u64, anchor_ms: i64) -> Result<Self, BadSchedule> {
        if !(EVERY_MS_MIN..=EVERY_MS_MAX).contains(&every_ms) {
            let why = format!("must be from {EVERY_MS_MIN} to {EVERY_MS_MAX} milliseconds");
            return Err(BadSchedule::new("every_ms", why));
        }
        Ok(Self::Interval(IntervalRule { every_ms, anchor_ms }))
    }

    /// From the fields of a request or a row: `cron`, by itself (then in UTC) or with `timezone`, or `every_ms`.
    ///
    /// # Errors
    /// Which field cannot be used, is missing, or is one too many.
    pub fn from_parts(
        cron: Option<&str>,
        timezone: Option<&str>,
        every_ms: Option<u64>,
        anchor_ms: i64,
    ) -> Result<Self, BadSchedule> {
        match (cron, timezone, every_ms) {
            (Some(_), _, Some(_)) => Err(BadSchedule::new("every_ms", "must not be given beside cron")),
            (None, _, None) => Err(BadSchedule::new("cron", "must be given, or else every_ms")),
            (None, Some(_), Some(_)) => Err(BadSchedule::new("timezone", "goes with cron only")),
            (Some(cron), timezone, None) => Self::cron(cron, timezone.unwrap_or("UTC")),
            (None, None, Some(every_ms)) => Self::interval(every_ms, anchor_ms),
        }
    }

    /// The first occurrence strictly after `after_ms` (epoch milliseconds); none if there is none any more.
    #[must_use]
    pub fn next_after(&self, after_ms: i64) -> Option<i64> {
        match self {
            Self::Cron(rule) => rule.next_after(after_ms),
            Self::Interval(rule) => rule.next_after(after_ms),
        }
    }

    /// The first `n` (at most [`STEPS_MAX`]) occurrences strictly after `after_ms`, oldest first.
    #[must_use]
    pub fn next_n(&self, after_ms: i64, n: usize) -> Vec<i64> {
        std::iter::successors(self.next_after(after_ms), |&at_ms| self.next_after(at_ms))
            .take(n.min(STEPS_MAX))
            .collect()
    }

    /// What is due at `now_ms` of a schedule whose next occurrence, neither fired nor skipped yet, is `next_ms`.
    /// All times in epoch milliseconds.
    ///
    /// - [`CatchUp::All`] fires each, oldest first.
    /// - [`CatchUp::One`] fires the latest that is due.
    /// - [`CatchUp::Skip`] fires those that are at most `grace_ms` old. The grace must exceed the usual delay
    ///   between an occurrence and this call (a sweep's interval, a restart), or the schedule never fires.
    ///
    /// At most `max` are fired per call, and the work is bounded however long ago `next_ms` is: an interval's
    /// occurrences are skipped by arithmetic; a cron's one by one, at most [`STEPS_MAX`] per call, after which
    /// the call returns what it has skipped so far with `more` set.
    #[must_use]
    pub fn due_occurrences(
        &self,
        next_ms: i64,
        now_ms: i64,
        catch_up: CatchUp,
        grace_ms: i64,
        max: usize,
    ) -> Due {
        let mut due = Due { fire: Vec::new(), next_ms: Some(next_ms), skipped: 0, more: false };
        if next_ms > now_ms {
            return due;
        }
        let within_steps = match (catch_up, self) {
            (CatchUp::All, _) => true,
            (CatchUp::One, Self::Interval(rule)) => {
                let latest_ms = rule.at(rule.index(now_ms.min(DUE_MS_MAX)));
                rule.skip_before(latest_ms.unwrap_or(next_ms), &mut due);
                true
            }
            (CatchUp::One, Self::Cron(rule)) => {
                rule.skip_while(|_, following| following.is_some_and(|at_ms| at_ms <= now_ms), &mut due)
            }
            (CatchUp::Skip, _) => {
                let oldest_ms = now_ms.saturating_sub(grace_ms.max(0));
                match self {
                    Self::Interval(rule) => {
                        rule.skip_before(oldest_ms, &mut due);
                        true
                    }
                    Self::Cron(rule) => rule.skip_while(|at_ms, _| at_ms < oldest_ms, &mut due),
                }
            }
        };
        if within_steps {
            let max = max.min(STEPS_MAX);
            while let Some(at_ms) = due.next_ms.filter(|&at_ms| at_ms <= now_ms && due.fire.len() < max) {
                due.fire.push(at_ms);
                due.next_ms = self.next_after(at_ms);
            }
        }
        due.more = due.next_ms.is_some_and(|at_ms| at_ms <= now_ms);
        due
    }
}

impl IntervalRule {
    /// Skips the occurrences before `oldest_ms`, of which `due.next_ms` is the first whatever the phase.
    fn skip_before(&self, oldest_ms: i64, due: &mut Due) {
        if let Some(next_ms) = due.next_ms.filter(|&next_ms| next_ms < oldest_ms) {
            due.skipped = 1 + self.count_between(next_ms, oldest_ms);
            due.next_ms = self.next_after(oldest_ms.saturating_sub(1).max(next_ms));
        }
    }
}

impl CronRule {
    /// Skips occurrences for as long as `skip(it, the one after it)` says so. False when [`STEPS_MAX`] were not
    /// enough.
    fn skip_while(&self, skip: impl Fn(i64, Option<i64>) -> bool, due: &mut Due) -> bool {
        for _ in 0..STEPS_MAX {
            let Some(at_ms) = due.next_ms else { return true };
            let following = self.next_after(at_ms);
            if !skip(at_ms, following) {
                return true;
            }
            due.skipped += 1;
            due.next_ms = following;
        }
        false
    }
}
