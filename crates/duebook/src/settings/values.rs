//! Values with a notation of their own.

use duebook_core::retry::RetryPolicy;
use serde::{Deserialize, Deserializer};
use std::str::FromStr;

/// An age: `7d`, `12h`, `30m`, `45s`, `500ms`, or `forever`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Age {
    /// In milliseconds; none is for ever.
    pub(crate) ms: Option<i64>,
}

const UNITS: [(&str, i64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

impl FromStr for Age {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "forever" {
            return Ok(Self { ms: None });
        }
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .and_then(|(_, ms)| number.parse::<i64>().ok()?.checked_mul(*ms))
            .map(|ms| Self { ms: Some(ms) })
            .ok_or_else(|| format!("{text:?} must be an age such as 7d, 12h, 30m or 45s, or forever"))
    }
}

impl<'de> Deserialize<'de> for Age {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A retry policy on the command line: `NAME=MS,MS,…[@JITTER]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NamedPolicy {
    pub(crate) name: String,
    pub(crate) policy: RetryPolicy,
}

impl FromStr for NamedPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} must be NAME=MS,MS,…[@JITTER]");
        let (name, rest) = text.split_once('=').ok_or_else(wrong)?;
        let (delays, jitter) = rest.split_once('@').unwrap_or((rest, "0"));
        let delays_ms: Result<Vec<u64>, _> =
            delays.split(',').filter(|delay| !delay.is_empty()).map(str::parse).collect();
        let policy = RetryPolicy {
            delays_ms: delays_ms.map_err(|_| wrong())?,
            jitter: jitter.parse().map_err(|_| wrong())?,
        };
        Ok(Self { name: name.to_owned(), policy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_policies_are_read() {
        let age = |text: &str| text.parse::<Age>().map(|age| age.ms);
        assert_eq!(age("7d"), Ok(Some(604_800_000)));
        assert_eq!(age("500ms"), Ok(Some(500)));
        assert_eq!(age("forever"), Ok(None));
        for bad in ["7", "d", "7w", "-1d", "99999999999999999999d", "9223372036854775807d"] {
            assert!(age(bad).is_err(), "{bad}");
        }
        let policy: NamedPolicy = "slow=60000,120000@0.5".parse().unwrap();
        assert_eq!((policy.name.as_str(), policy.policy.delays_ms.len()), ("slow", 2));
        assert!("slow".parse::<NamedPolicy>().is_err() && "slow=x".parse::<NamedPolicy>().is_err());
        assert!("once=".parse::<NamedPolicy>().unwrap().policy.delays_ms.is_empty());
    }
}
