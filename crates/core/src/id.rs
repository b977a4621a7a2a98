//! Task ids: 63 bits in time order, so that new rows are appended to the end of every table keyed by them.
//!
//! Layout, high to low: 41 bits of milliseconds since 2025-01-01 (until 2094), 10 bits of node, 12 bits of
//! sequence. In text an id is 13 characters of Crockford's base 32 in lower case, which sorts as it counts.

use std::fmt;
use std::str::FromStr;

/// 2025-01-01T00:00:00Z in milliseconds since the Unix epoch.
pub const ID_EPOCH_MS: i64 = 1_735_689_600_000;
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Characters of an id in text.
pub const ID_TEXT_LEN: usize = 13;

/// The id of a task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(i64);

impl TaskId {
    /// The id with this number. Negative numbers are never ids.
    #[must_use]
    pub const fn from_i64(number: i64) -> Self {
        Self(number)
    }

    /// The number, as stores keep it.
    #[must_use]
    pub const fn as_i64(self) -> i64 {
        self.0
    }

    /// The smallest id that a task created at `ms` can have.
    #[must_use]
    pub fn floor_of_ms(ms: i64) -> Self {
        Self((ms - ID_EPOCH_MS).clamp(0, (1 << 41) - 1) << 22)
    }

    /// When the id was made, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn made_ms(self) -> i64 {
        (self.0 >> 22) + ID_EPOCH_MS
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0u8; ID_TEXT_LEN];
        let mut rest = self.0 as u64;
        for slot in text.iter_mut().rev() {
            *slot = ALPHABET[(rest & 31) as usize];
            rest >>= 5;
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or("?"))
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a task id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a task id is 13 characters of 0-9 and a-z without i, l, o, u")]
pub struct NotAnId;

impl FromStr for TaskId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        if text.len() != ID_TEXT_LEN {
            return Err(NotAnId);
        }
        let mut number: u128 = 0;
        for byte in text.bytes() {
            let digit = ALPHABET.iter().position(|&c| c == byte.to_ascii_lowercase()).ok_or(NotAnId)? as u128;
            number = (number << 5) | digit;
        }
        i64::try_from(number).map(Self).map_err(|_| NotAnId)
    }
}

impl serde::Serialize for TaskId {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for TaskId {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Makes ids that only grow, even while the clock stands still or jumps back.
#[derive(Debug)]
pub struct IdMaker {
    node: i64,
    last: i64,
}

impl IdMaker {
    /// A maker for `node` (0 to 1023) that continues after `last`, the greatest id already in the store.
    #[must_use]
    pub fn new(node: u16, last: Option<TaskId>) -> Self {
        Self { node: i64::from(node & 1023), last: last.map_or(0, TaskId::as_i64) }
    }

    /// The next id at `now_ms`.
    pub fn make(&mut self, now_ms: i64) -> TaskId {
        let fresh = TaskId::floor_of_ms(now_ms).0 | (self.node << 12);
        let same_node = (self.last >> 12) & 1023 == self.node;
        let next = if fresh > self.last {
            fresh
        } else if same_node && self.last & 0xfff != 0xfff {
            self.last + 1
        } else {
            // The millisecond is used up, or was another node's: borrow the next one.
            (((self.last >> 22) + 1) << 22) | (self.node << 12)
        };
        self.last = next;
        TaskId(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_grow_whatever_the_clock_does() {
        let mut maker = IdMaker::new(3, None);
        let mut last = TaskId::from_i64(0);
        for step in 0..50_000_i64 {
            let now = ID_EPOCH_MS + 1_000_000 + if step % 7 == 0 { -step } else { step / 100 };
            let id = maker.make(now);
            assert!(id > last, "{id:?} after {last:?}");
            last = id;
        }
        let mut after_restart = IdMaker::new(3, Some(last));
        assert!(after_restart.make(ID_EPOCH_MS) > last);
    }

    #[test]
    fn text_round_trips_and_sorts() {
        let mut maker = IdMaker::new(0, None);
        let a = maker.make(1_800_000_000_000);
        let b = maker.make(1_800_000_000_001);
        assert!(a.to_string() < b.to_string());
        assert_eq!(a.to_string().parse::<TaskId>(), Ok(a));
        assert_eq!(a.made_ms(), 1_800_000_000_000);
        for bad in ["", "order-1", "zzzzzzzzzzzzz", "0123456789abu"] {
            assert_eq!(bad.parse::<TaskId>(), Err(NotAnId), "{bad}");
        }
    }
}
