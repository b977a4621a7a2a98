//! A point in time in epoch milliseconds, written as RFC 3339 in UTC.
//!
//! Reading and writing are done here, because a worker reads several of them per task, and so that no date
//! library is part of the public interface. The calendar arithmetic is Howard Hinnant's
//! `days_from_civil` / `civil_from_days` (<https://howardhinnant.github.io/date_algorithms.html>).

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY_MS: i64 = 86_400_000;

/// A point in time, to the millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

/// A text that is not an RFC 3339 date and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 date and time")]
pub struct NotATimestamp;

impl Timestamp {
    /// From milliseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn from_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn as_ms(self) -> i64 {
        self.0
    }

    /// This much later.
    #[must_use]
    pub fn after(self, by: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Milliseconds from `earlier` to this, negative if it is the earlier one.
    #[must_use]
    pub const fn ms_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let ms = |d: Duration| i64::try_from(d.as_millis()).unwrap_or(i64::MAX);
        match time.duration_since(UNIX_EPOCH) {
            Ok(since) => Self(ms(since)),
            Err(before) => Self(-ms(before.duration())),
        }
    }
}

impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        let by = Duration::from_millis(time.0.unsigned_abs());
        if time.0 >= 0 { UNIX_EPOCH + by } else { UNIX_EPOCH - by }
    }
}

fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

const fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_from_days(self.0.div_euclid(DAY_MS));
        let ms = self.0.rem_euclid(DAY_MS);
        let (h, m, s, ms) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60, ms % 1_000);
        write!(f, "{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{ms:03}Z")
    }
}

/// Reads `digits` decimal digits at `at`.
fn number(text: &[u8], at: usize, digits: usize) -> Option<i64> {
    text.get(at..at + digits)?
        .iter()
        .try_fold(0, |sum, b| b.is_ascii_digit().then(|| sum * 10 + i64::from(b - b'0')))
}

fn parse(text: &[u8]) -> Option<i64> {
    let is = |at: usize, b: u8| text.get(at) == Some(&b);
    let (year, month, day) = (number(text, 0, 4)?, number(text, 5, 2)?, number(text, 8, 2)?);
    let (h, m, s) = (number(text, 11, 2)?, number(text, 14, 2)?, number(text, 17, 2)?);
    let parted = is(4, b'-') && is(7, b'-') && (is(10, b'T') || is(10, b't') || is(10, b' '));
    let bounds = (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
    if !(parted && is(13, b':') && is(16, b':') && bounds && h < 24 && m < 60 && s <= 60) {
        return None;
    }
    let mut at = 19;
    let mut ms = 0;
    if is(at, b'.') {
        let digits = text[at + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        ms = (0..3)
            .fold(0, |sum, i| sum * 10 + if i < digits { i64::from(text[at + 1 + i] - b'0') } else { 0 });
        at += 1 + digits;
    }
    let offset_min = match text.get(at)? {
        b'Z' | b'z' if text.len() == at + 1 => 0,
        sign @ (b'+' | b'-') if text.len() == at + 6 && is(at + 3, b':') => {
            let (oh, om) = (number(text, at + 1, 2)?, number(text, at + 4, 2)?);
            if oh > 23 || om > 59 {
                return None;
            }
            (oh * 60 + om) * if *sign == b'-' { -1 } else { 1 }
        }
        _ => return None,
    };
    // A leap second is read as the last second of its minute.
    let seconds = h * 3_600 + m * 60 + s.min(59) - offset_min * 60;
    Some(days_from_civil(year, month, day) * DAY_MS + seconds * 1_000 + ms)
}

impl FromStr for Timestamp {
    type Err = NotATimestamp;

    fn from_str(text: &str) -> Result<Self, NotATimestamp> {
        parse(text.as_bytes()).map(Self).ok_or(NotATimestamp)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Timestamp;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an RFC 3339 date and time or epoch milliseconds")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Timestamp, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, ms: i64) -> Result<Timestamp, E> {
                Ok(Timestamp(ms))
            }

            fn visit_u64<E: de::Error>(self, ms: u64) -> Result<Timestamp, E> {
                i64::try_from(ms).map(Timestamp).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_like_an_independent_library() {
        // Every 37 days and a few seconds from year 0 to 9999, both ways.
        let step = 37 * DAY_MS + 12_345_678;
        let mut ms = -62_167_219_200_000_i64;
        while ms < 253_402_300_799_999 {
            let theirs = jiff::Timestamp::from_millisecond(ms).ok().map(|t| format!("{t:.3}"));
            if let Some(theirs) = theirs.filter(|text| !text.starts_with('-')) {
                assert_eq!(Timestamp(ms).to_string(), theirs);
                assert_eq!(theirs.parse(), Ok(Timestamp(ms)));
            }
            ms += step;
        }
    }

    #[test]
    fn reads_offsets_and_fractions() {
        let check = |text: &str, ms: Option<i64>| assert_eq!(parse(text.as_bytes()), ms, "{text}");
        check("1970-01-01T00:00:00Z", Some(0));
        check("1970-01-01T00:00:00.5Z", Some(500));
        check("1970-01-01T00:00:00.123456789Z", Some(123));
        check("1970-01-01T02:00:00+02:00", Some(0));
        check("1969-12-31T21:30:00.001-02:30", Some(1));
        check("2016-12-31T23:59:60Z", Some(1_483_228_799_000));
        for bad in [
            "",
            "1970",
            "1970-01-01",
            "1970-13-01T00:00:00Z",
            "1970-02-29T00:00:00Z",
            "1970-01-01T24:00:00Z",
            "1970-01-01T00:00:00",
            "1970-01-01T00:00:00.Z",
            "1970-01-01T00:00:00ZZ",
            "1970-01-01T00:00:00+2:00",
            "1970-01-01T00:00:00+24:00",
            "197o-01-01T00:00:00Z",
            "1970-01-01T00:00:00é",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn json_takes_both_forms_and_writes_one() {
        let read: Vec<Timestamp> = serde_json::from_str(r#"["1970-01-01T00:00:01.000Z",1000]"#).unwrap();
        assert_eq!(read, vec![Timestamp(1000); 2]);
        assert_eq!(serde_json::to_string(&read[0]).unwrap(), r#""1970-01-01T00:00:01.000Z""#);
    }
}
