//! Times on the wire: epoch milliseconds inside, RFC 3339 in UTC with milliseconds outside.
//!
//! Written by hand because several are written per task: the calendar arithmetic is Howard Hinnant's
//! `civil_from_days` (<https://howardhinnant.github.io/date_algorithms.html>).

use duebook_core::limits::{DUE_MS_MAX, DUE_MS_MIN};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

const DAY_MS: i64 = 86_400_000;
const TEXT_BYTES: usize = 24;

/// A time to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp(pub i64);

fn digits(slot: &mut [u8], mut number: i64) {
    for byte in slot.iter_mut().rev() {
        *byte = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

impl Stamp {
    fn text(self) -> [u8; TEXT_BYTES] {
        let ms = self.0.clamp(DUE_MS_MIN, DUE_MS_MAX);
        let (days, rest) = (ms.div_euclid(DAY_MS) + 719_468, ms.rem_euclid(DAY_MS));
        let era = days.div_euclid(146_097);
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let mut text = *b"0000-00-00T00:00:00.000Z";
        digits(&mut text[0..4], year);
        digits(&mut text[5..7], month);
        digits(&mut text[8..10], day_of_year - (153 * shifted + 2) / 5 + 1);
        digits(&mut text[11..13], rest / 3_600_000);
        digits(&mut text[14..16], rest / 60_000 % 60);
        digits(&mut text[17..19], rest / 1_000 % 60);
        digits(&mut text[20..23], rest % 1_000);
        text
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.text()).unwrap_or_default())
    }
}

impl Serialize for Stamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(std::str::from_utf8(&self.text()).unwrap_or_default())
    }
}

/// A time as requests give it: RFC 3339 with an offset, or epoch milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DueAt(pub(crate) i64);

const WANTED: &str = "an RFC 3339 time with an offset, or epoch milliseconds, from 1970 to 9999";

impl DueAt {
    /// From the text of a time; parts of a millisecond are rounded up, because early is worse than late.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let at: jiff::Timestamp = text.parse().ok()?;
        let ms = at.as_nanosecond().div_euclid(1_000_000)
            + i128::from(at.as_nanosecond().rem_euclid(1_000_000) > 0);
        i64::try_from(ms).ok().and_then(Self::checked)
    }

    /// From the text of a time or of a number.
    pub(crate) fn parse_either(text: &str) -> Option<Self> {
        match text.parse::<i64>() {
            Ok(ms) => Self::checked(ms),
            Err(_) => Self::parse(text),
        }
    }

    fn checked(ms: i64) -> Option<Self> {
        (DUE_MS_MIN..=DUE_MS_MAX).contains(&ms).then_some(Self(ms))
    }
}

impl<'de> Deserialize<'de> for DueAt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = DueAt;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(WANTED)
            }

            fn visit_i64<E: Error>(self, ms: i64) -> Result<DueAt, E> {
                DueAt::checked(ms).ok_or_else(|| E::custom(format_args!("must be {WANTED}")))
            }

            fn visit_u64<E: Error>(self, ms: u64) -> Result<DueAt, E> {
                self.visit_i64(i64::try_from(ms).unwrap_or(i64::MAX))
            }

            fn visit_f64<E: Error>(self, ms: f64) -> Result<DueAt, E> {
                self.visit_i64(ms.ceil() as i64)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<DueAt, E> {
                DueAt::parse(text).ok_or_else(|| E::custom(format_args!("must be {WANTED}")))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_jiff_writes_them() {
        let mut ms = 0_i64;
        while ms <= DUE_MS_MAX {
            let expected = format!("{:.3}", jiff::Timestamp::from_millisecond(ms).unwrap());
            assert_eq!(Stamp(ms).to_string(), expected);
            ms += 12_345_678_901 + ms % 977;
        }
        assert_eq!(Stamp(DUE_MS_MAX).to_string(), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn times_are_read_in_both_forms() {
        let read = |json: &str| serde_json::from_str::<DueAt>(json).ok().map(|due| due.0);
        let cases = [
            ("0", Some(0)),
            ("1764556800000", Some(1_764_556_800_000)),
            ("1764556800000.5", Some(1_764_556_800_001)),
            (r#""2025-12-01T02:40:00Z""#, Some(1_764_556_800_000)),
            (r#""2025-12-01T03:40:00.0001+01:00""#, Some(1_764_556_800_001)),
            (r#""2025-12-01T02:40:00""#, None),
            (r#""soon""#, None),
            ("-1", None),
            ("1e300", None),
            ("253402300800000", None),
            ("true", None),
        ];
        for (json, expected) in cases {
            assert_eq!(read(json), expected, "{json}");
        }
    }
}
