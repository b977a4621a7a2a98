//! Trace ids and the `traceparent` header (W3C Trace Context, level 1).

use crate::random;
use std::fmt;
use std::str::FromStr;

/// A trace id: sixteen bytes, not all zero, written as 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(u128);

/// A text that is not a trace id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a trace id: it must be 32 hexadecimal digits, not all zero")]
pub struct NotATraceId;

impl TraceId {
    /// A new random trace id.
    #[must_use]
    pub fn random() -> Self {
        Self((u128::from(random::next()) << 64 | u128::from(random::next())).max(1))
    }

    /// The header that continues this trace, with a new random parent id, sampled.
    pub(crate) fn traceparent(self) -> String {
        format!("00-{self}-{:016x}-01", random::next().max(1))
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for TraceId {
    type Err = NotATraceId;

    fn from_str(text: &str) -> Result<Self, NotATraceId> {
        let hex = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        match u128::from_str_radix(text, 16) {
            Ok(id) if hex && id != 0 => Ok(Self(id)),
            _ => Err(NotATraceId),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_the_header_of_the_specification() {
        let id: TraceId = "0AF7651916CD43DD8448EB211C80319C".parse().unwrap();
        let header = id.traceparent();
        assert_eq!(header.len(), 55);
        assert!(header.starts_with("00-0af7651916cd43dd8448eb211c80319c-"), "{header}");
        assert!(header.ends_with("-01"));
    }

    #[test]
    fn refuses_what_is_none() {
        for bad in ["", "0", "00000000000000000000000000000000", "+af7651916cd43dd8448eb211c80319c", "xyz"] {
            assert_eq!(bad.parse::<TraceId>(), Err(NotATraceId), "{bad}");
        }
        assert_ne!(TraceId::random(), TraceId::random());
    }
}
