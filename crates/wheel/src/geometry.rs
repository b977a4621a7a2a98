//! Where a time belongs: pure arithmetic on levels, units and slots.

/// Bits of time that one level resolves.
pub(crate) const LEVEL_BITS: u32 = 10;
/// Levels needed for 64 bits of milliseconds.
pub(crate) const LEVELS: usize = 7;
/// Slots of a level: two turns, so that the next slot of the level above can come down beside the present one.
pub(crate) const RING: usize = 2 << LEVEL_BITS;
/// Slots of all levels; the topmost resolves the last four bits only.
pub(crate) const SLOTS: usize = (LEVELS - 1) * RING + (1 << (64 - (LEVELS as u32 - 1) * LEVEL_BITS));

/// The unit of `level` that contains `time_ms`.
#[inline]
pub(crate) fn unit(level: usize, time_ms: u64) -> u64 {
    time_ms >> (LEVEL_BITS * level as u32)
}

/// The first millisecond of a unit; `None` past the end of time.
#[inline]
pub(crate) fn unit_start_ms(level: usize, unit: u64) -> Option<u64> {
    let shift = LEVEL_BITS * level as u32;
    let start_ms = unit << shift;
    (start_ms >> shift == unit).then_some(start_ms)
}

/// The index, over all levels, of the slot that stands for `unit` of `level`.
#[inline]
pub(crate) fn slot(level: usize, unit: u64) -> usize {
    level * RING + unit as usize % RING
}

/// The level for a timer due at or after the cursor: the lowest whose upper neighbour is at most one unit ahead.
#[inline]
pub(crate) fn level_for(cursor_ms: u64, due_ms: u64) -> usize {
    debug_assert!(due_ms >= cursor_ms);
    let mut level = 0;
    while level + 1 < LEVELS && unit(level + 1, due_ms) - unit(level + 1, cursor_ms) > 1 {
        level += 1;
    }
    level
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_at_their_borders() {
        let check = |cursor, due, level| assert_eq!(level_for(cursor, due), level, "{cursor} {due}");
        check(0, 0, 0);
        check(0, 2047, 0);
        check(0, 2048, 1);
        check(1023, 2047, 0);
        check(1024, 3071, 0);
        check(1024, 3072, 1);
        check(0, (2 << 20) - 1, 1);
        check(0, 2 << 20, 2);
        check((1 << 20) - 1, 1 << 20, 0);
        check(0, u64::MAX, 6);
        check(u64::MAX, u64::MAX, 0);
        check(u64::MAX - 1, u64::MAX, 0);
    }

    #[test]
    fn a_level_never_takes_its_current_or_next_unit_and_never_wraps() {
        for shift in 0..64 {
            for cursor in [0, 1, 1023, 1024, (1 << 20) - 1, 1 << 20, (1 << 30) + 77, u64::MAX >> 1] {
                for nudge in [-1i64, 0, 1] {
                    let due = cursor.saturating_add((1u64 << shift).saturating_add_signed(nudge));
                    let level = level_for(cursor, due);
                    let ahead = unit(level, due) - unit(level, cursor);
                    assert!(ahead < RING as u64);
                    assert!(level == 0 || ahead >= 2);
                    assert!(slot(level, unit(level, due)) < SLOTS);
                }
            }
        }
    }

    #[test]
    fn the_last_unit_has_no_successor() {
        for level in 1..LEVELS {
            let last = unit(level, u64::MAX);
            assert!(unit_start_ms(level, last).is_some());
            assert_eq!(unit_start_ms(level, last + 1), None);
        }
    }
}
