//! Which slots hold something: a bitmap per level with a summary word, so that empty time is skipped in a few
//! instructions.

use crate::geometry::{LEVELS, RING};

const WORDS: usize = RING / 64;

#[derive(Clone, Copy)]
struct LevelBits {
    words: [u64; WORDS],
    summary: u32,
}

/// One bit per slot, one summary bit per word, one bit per level.
pub(crate) struct Occupancy {
    levels: [LevelBits; LEVELS],
    occupied: u8,
}

const _: () = assert!(WORDS <= u32::BITS as usize && LEVELS <= u8::BITS as usize);

impl Occupancy {
    pub(crate) const fn new() -> Self {
        Self { levels: [LevelBits { words: [0; WORDS], summary: 0 }; LEVELS], occupied: 0 }
    }

    #[inline]
    pub(crate) fn set(&mut self, slot: usize) {
        let (level, at) = (slot / RING, slot % RING);
        let bits = &mut self.levels[level];
        bits.words[at / 64] |= 1 << (at % 64);
        bits.summary |= 1 << (at / 64);
        self.occupied |= 1 << level;
    }

    #[inline]
    pub(crate) fn clear(&mut self, slot: usize) {
        let (level, at) = (slot / RING, slot % RING);
        let bits = &mut self.levels[level];
        bits.words[at / 64] &= !(1 << (at % 64));
        if bits.words[at / 64] == 0 {
            bits.summary &= !(1 << (at / 64));
            if bits.summary == 0 {
                self.occupied &= !(1 << level);
            }
        }
    }

    /// The levels above 0 that hold something, as a bit mask.
    #[inline]
    pub(crate) fn upper_levels(&self) -> UpperLevels {
        UpperLevels(self.occupied & !1)
    }

    /// How many slots ahead of `from` (counted round the ring, 0 = `from` itself) the first occupied one is.
    #[inline]
    pub(crate) fn distance(&self, level: usize, from: u64) -> Option<u64> {
        let bits = &self.levels[level];
        if bits.summary == 0 {
            return None;
        }
        let from = from as usize % RING;
        let (word, bit) = (from / 64, from % 64);
        let here = bits.words[word] >> bit;
        if here != 0 {
            return Some(u64::from(here.trailing_zeros()));
        }
        // The words after this one, round the ring; this word itself comes last (its bits before `from`).
        let turned = (u64::from(bits.summary) << WORDS | u64::from(bits.summary)) >> (word + 1);
        let words_on = turned.trailing_zeros() as usize + 1;
        let found = (word + words_on) % WORDS;
        let at = found * 64 + bits.words[found].trailing_zeros() as usize;
        Some(((at + RING - from) % RING) as u64)
    }

    /// The first occupied slot at or after `slot`, over all levels and round again.
    pub(crate) fn next_slot(&self, slot: usize) -> Option<usize> {
        let (first, at) = (slot / RING, slot % RING);
        for step in 0..=LEVELS {
            let level = (first + step) % LEVELS;
            let from = if step == 0 { at } else { 0 };
            if let Some(distance) = self.distance(level, from as u64) {
                let found = from + distance as usize;
                if found < RING {
                    return Some(level * RING + found);
                }
            }
        }
        None
    }
}

/// Level numbers of a mask, highest first.
pub(crate) struct UpperLevels(u8);

impl Iterator for UpperLevels {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let level = self.0.checked_ilog2()? as usize;
        self.0 &= !(1 << level);
        Some(level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_goes_round_the_ring() {
        for at in [0, 1, 63, 64, 65, 1000, 1984, 2046, 2047] {
            let mut bits = Occupancy::new();
            bits.set(RING + at);
            for from in 0..RING {
                let expected = ((at + RING - from) % RING) as u64;
                assert_eq!(bits.distance(1, from as u64), Some(expected), "{at} from {from}");
                assert_eq!(bits.distance(0, from as u64), None);
            }
            assert_eq!(bits.upper_levels().collect::<Vec<_>>(), [1]);
            bits.clear(RING + at);
            assert_eq!((bits.distance(1, 0), bits.upper_levels().next()), (None, None));
        }
    }

    #[test]
    fn next_slot_visits_all_and_comes_round() {
        let mut bits = Occupancy::new();
        let slots = [3, 70, 2047, 2048, 5000, 6 * RING + 15];
        slots.iter().for_each(|slot| bits.set(*slot));
        let mut at = 0;
        for expected in slots.iter().chain(&slots) {
            assert_eq!(bits.next_slot(at), Some(*expected));
            at = (*expected + 1) % (LEVELS * RING);
        }
        slots.iter().for_each(|slot| bits.clear(*slot));
        assert_eq!(bits.next_slot(17), None);
    }
}
