//! Cron expressions in a time zone, with daylight saving told apart by what the expression asks for:
//!
//! - An expression that fires in **every hour** (its hour field is `*` or covers all 24) goes by elapsed time:
//!   a repeated hour is an hour like any other and fires again, a skipped hour did not exist.
//! - Every other expression goes by the **wall clock**: a time within a skipped hour moves forward to the first
//!   instant after it (several such times become one), a time within a repeated hour fires once, the first
//!   time that the clock shows it.
//!
//! Finding an occurrence takes croner's search over civil time, which leaps over years, months, days, hours
//! and minutes that cannot match and ends in the year 5000.

use super::BadSchedule;
use crate::limits::{DUE_MS_MAX, DUE_MS_MIN};
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::{DateTime, date};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan as _};

/// Longest cron expression in characters.
pub const CRON_CHARS_MAX: usize = 256;
/// Longest name of a time zone in characters.
pub const TIMEZONE_CHARS_MAX: usize = 64;

/// A cron expression, parsed once, and the time zone in which it is read.
#[derive(Debug, Clone, PartialEq)]
pub struct CronRule {
    expression: String,
    timezone: String,
    cron: Cron,
    zone: TimeZone,
    every_hour: bool,
}

impl CronRule {
    /// Reads an expression of five fields (minute, hour, day of month, month, day of week), or six with
    /// seconds first, or one of `@hourly @daily @weekly @monthly @yearly`; and the IANA name of a time zone,
    /// looked up in the machine's time zone database.
    ///
    /// # Errors
    /// Which of `cron` and `timezone` cannot be used, and why. An expression that never fires is an error.
    pub fn parse(expression: &str, timezone: &str) -> Result<Self, BadSchedule> {
        let bad = |why: String| BadSchedule::new("cron", why);
        if expression.len() > CRON_CHARS_MAX || !expression.is_ascii() {
            return Err(bad(format!("must be at most {CRON_CHARS_MAX} ASCII characters")));
        }
        let cron = CronParser::builder()
            .seconds(Seconds::Optional)
            .year(Year::Disallowed)
            .build()
            .parse(expression)
            .map_err(|error| bad(error.to_string()))?;
        // Whether it fires at all does not depend on the zone, so any civil time will do to find out.
        let start = date(2000, 1, 1).at(0, 0, 0, 0);
        next_civil(&cron, start, true).ok_or_else(|| bad("never fires".into()))?;
        let every_hour = (0..24).all(|hour| cron.pattern.hour_match(hour).unwrap_or(false));
        Ok(Self {
            expression: expression.to_owned(),
            timezone: timezone.to_owned(),
            cron,
            zone: zone(timezone)?,
            every_hour,
        })
    }

    /// The expression as it was given.
    #[must_use]
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// The time zone as it was given.
    #[must_use]
    pub fn timezone(&self) -> &str {
        &self.timezone
    }

    pub(super) fn next_after(&self, after_ms: i64) -> Option<i64> {
        let after_ms = after_ms.max(DUE_MS_MIN - 1);
        let after = Timestamp::from_millisecond(after_ms).ok()?;
        let next = if self.every_hour {
            let zoned = after.to_zoned(self.zone.clone());
            self.cron.find_next_occurrence(&zoned, false).ok()?.timestamp()
        } else {
            self.next_by_wall_clock(after)?
        };
        Some(next.as_millisecond()).filter(|&next_ms| next_ms > after_ms && next_ms <= DUE_MS_MAX)
    }

    /// Civil times are mapped to instants by a function that never decreases (see [`Self::instant`]), so the
    /// first civil time that matches, after the one shown at `after`, has the first instant.
    fn next_by_wall_clock(&self, after: Timestamp) -> Option<Timestamp> {
        let shown = self.zone.to_datetime(after);
        let civil = match self.zone.to_ambiguous_timestamp(shown).offset() {
            // The clock shows this hour again. All its times had their turn, so search from its end.
            AmbiguousOffset::Fold { before, after: second } if self.zone.to_offset(after) == second => {
                let change = self.zone.preceding(after.checked_add(1.nanosecond()).ok()?).next()?;
                next_civil(&self.cron, before.to_datetime(change.timestamp()), true)?
            }
            _ => next_civil(&self.cron, shown, false)?,
        };
        self.instant(civil)
    }

    /// When the clock shows `civil` for the first time; when it never does, the first instant after the gap.
    fn instant(&self, civil: DateTime) -> Option<Timestamp> {
        let ambiguous = self.zone.to_ambiguous_timestamp(civil);
        let earlier = |offset: jiff::tz::Offset| offset.to_timestamp(civil).ok();
        match ambiguous.offset() {
            AmbiguousOffset::Unambiguous { offset } => earlier(offset),
            AmbiguousOffset::Fold { before, .. } => earlier(before),
            AmbiguousOffset::Gap { after, .. } => {
                Some(self.zone.following(earlier(after)?).next()?.timestamp())
            }
        }
    }
}

/// The first civil time that matches, from `from` on (`inclusive`) or after it.
fn next_civil(cron: &Cron, from: DateTime, inclusive: bool) -> Option<DateTime> {
    let from = from.to_zoned(TimeZone::UTC).ok()?;
    Some(cron.find_next_occurrence(&from, inclusive).ok()?.datetime())
}

fn zone(name: &str) -> Result<TimeZone, BadSchedule> {
    let bad = || BadSchedule::new("timezone", "must be the IANA name of a time zone, like Europe/Berlin");
    let is_name = (1..=TIMEZONE_CHARS_MAX).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'_' | b'-' | b'+'));
    if !is_name {
        return Err(bad());
    }
    TimeZone::get(name).map_err(|_| bad())
}
