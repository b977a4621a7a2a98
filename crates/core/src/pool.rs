//! How many workers a pool should have, and which of its two lanes it serves next.
//!
//! The pool grows fast and shrinks slowly: a worker too few costs lateness, one too many a little memory.

use crate::task::Priority;

/// What was seen of a pool in the window since its size was last decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolSample {
    /// Jobs that wait for a worker now.
    pub waiting: usize,
    /// The longest that a job waited for a worker, in microseconds; those still waiting count too.
    pub longest_wait_us: u64,
    /// The most workers that were busy at once.
    pub busy_peak: usize,
}

/// Between what a pool moves, and when it grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolLimits {
    /// Fewest workers. A floor above the ceiling counts as the ceiling.
    pub floor: usize,
    /// Most workers.
    pub ceiling: usize,
    /// The wait that is accepted, in microseconds.
    pub wait_target_us: u64,
}

/// The size of the pool for the next window, always within `floor..=ceiling`.
///
/// - Jobs wait, and longer than the target: half as many again (at least one more), but no more new workers
///   than there are jobs waiting.
/// - No job waits and fewer than half of the workers were ever busy at once: a tenth fewer (at least one).
/// - Otherwise it stays.
#[must_use]
pub fn next_size(current: usize, seen: &PoolSample, limits: &PoolLimits) -> usize {
    let floor = limits.floor.min(limits.ceiling);
    let current = current.clamp(floor, limits.ceiling);
    let size = if seen.waiting > 0 && seen.longest_wait_us > limits.wait_target_us {
        current.saturating_add((current / 2).max(1).min(seen.waiting))
    } else if seen.waiting == 0 && seen.busy_peak < current.div_ceil(2) {
        current - (current / 10).max(1)
    } else {
        current
    };
    size.clamp(floor, limits.ceiling)
}

/// How many turns each lane has in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneWeights {
    /// Turns of the high lane, which come first; nought counts as one.
    pub high: u32,
    /// Turns of the normal lane; nought counts as one, so that it cannot starve.
    pub normal: u32,
}

impl Default for LaneWeights {
    fn default() -> Self {
        Self { high: 4, normal: 1 }
    }
}

/// Picks the lane to serve next: weighted round robin, high first.
///
/// While both lanes wait, a round is `high` turns of the one and then `normal` turns of the other, so a normal
/// job never waits for more than `high` others, nor a high job for more than `normal` others. When one
/// lane is empty the other is served, and its turns are not counted against it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LanePicker {
    weights: LaneWeights,
    /// The lane whose turn it is, and how many turns it has left.
    turn: Priority,
    left: u32,
}

impl Default for LanePicker {
    fn default() -> Self {
        Self::new(LaneWeights::default())
    }
}

impl LanePicker {
    /// A picker at the start of a round.
    #[must_use]
    pub fn new(weights: LaneWeights) -> Self {
        let weights = LaneWeights { high: weights.high.max(1), normal: weights.normal.max(1) };
        Self { weights, turn: Priority::High, left: weights.high }
    }

    /// The lane to serve next, of those that have a job waiting; none when both are empty.
    pub fn pick(&mut self, high_waits: bool, normal_waits: bool) -> Option<Priority> {
        match (high_waits, normal_waits) {
            (false, false) => None,
            (true, false) => Some(Priority::High),
            (false, true) => Some(Priority::Normal),
            (true, true) => {
                let lane = self.turn;
                self.left -= 1;
                if self.left == 0 {
                    (self.turn, self.left) = match lane {
                        Priority::High => (Priority::Normal, self.weights.normal),
                        Priority::Normal => (Priority::High, self.weights.high),
                    };
                }
                Some(lane)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: PoolLimits = PoolLimits { floor: 4, ceiling: 100, wait_target_us: 1_000 };

    fn sample(waiting: usize, longest_wait_us: u64, busy_peak: usize) -> PoolSample {
        PoolSample { waiting, longest_wait_us, busy_peak }
    }

    #[test]
    fn sizes() {
        // (current, what was seen, next, why)
        let cases = [
            (10, sample(50, 1_001, 10), 15, "grows by half"),
            (4, sample(50, 1_001, 4), 6, "grows by half"),
            (10, sample(2, 9_999, 10), 12, "no more than there is to do"),
            (90, sample(500, 9_999, 90), 100, "up to the ceiling"),
            (100, sample(500, 9_999, 100), 100, "not beyond"),
            (10, sample(50, 1_000, 10), 10, "the target itself is fine"),
            (10, sample(0, 9_999, 10), 10, "the wait is over"),
            (10, sample(0, 0, 5), 10, "half busy is busy"),
            (10, sample(0, 0, 4), 9, "shrinks by a tenth"),
            (50, sample(0, 0, 0), 45, "shrinks by a tenth"),
            (5, sample(0, 0, 2), 4, "by at least one"),
            (4, sample(0, 0, 0), 4, "not below the floor"),
            (50, sample(1, 0, 0), 50, "does not shrink while a job waits"),
            (1, sample(0, 0, 0), 4, "up to the floor"),
            (1_000, sample(0, 0, 1_000), 100, "down to the ceiling"),
        ];
        for (current, seen, expected, why) in cases {
            assert_eq!(next_size(current, &seen, &LIMITS), expected, "{current} {seen:?}: {why}");
        }
    }

    #[test]
    fn odd_limits_are_survived() {
        let starving = sample(usize::MAX, u64::MAX, usize::MAX);
        let limits = |floor, ceiling| PoolLimits { floor, ceiling, wait_target_us: 0 };
        assert_eq!(next_size(9, &starving, &limits(10, 2)), 2);
        assert_eq!(next_size(0, &starving, &limits(0, 0)), 0);
        assert_eq!(next_size(0, &sample(0, 0, 0), &limits(0, 5)), 0);
        assert_eq!(next_size(0, &starving, &limits(0, 5)), 1);
        assert_eq!(next_size(usize::MAX, &starving, &limits(0, usize::MAX)), usize::MAX);
    }

    #[test]
    fn reaches_the_ceiling_in_few_windows_and_the_floor_in_many() {
        let mut size = LIMITS.floor;
        let up = (0..).take_while(|_| {
            size = next_size(size, &sample(10_000, 1 << 40, size), &LIMITS);
            size < LIMITS.ceiling
        });
        assert!(up.count() < 10);
        let down = (0..).take_while(|_| {
            size = next_size(size, &sample(0, 0, 0), &LIMITS);
            size > LIMITS.floor
        });
        assert!((20..100).contains(&down.count()));
    }

    fn picks(picker: &mut LanePicker, high: bool, normal: bool, times: usize) -> String {
        (0..times)
            .map(|_| match picker.pick(high, normal) {
                Some(Priority::High) => 'h',
                Some(Priority::Normal) => 'n',
                None => '-',
            })
            .collect()
    }

    #[test]
    fn lanes_take_turns_by_weight() {
        assert_eq!(picks(&mut LanePicker::default(), true, true, 11), "hhhhnhhhhnh");
        let even = LaneWeights { high: 1, normal: 1 };
        assert_eq!(picks(&mut LanePicker::new(even), true, true, 4), "hnhn");
        let reversed = LaneWeights { high: 1, normal: 3 };
        assert_eq!(picks(&mut LanePicker::new(reversed), true, true, 8), "hnnnhnnn");
        let nought = LaneWeights { high: 0, normal: 0 };
        assert_eq!(picks(&mut LanePicker::new(nought), true, true, 4), "hnhn");
    }

    #[test]
    fn an_empty_lane_leaves_its_turns_to_the_other() {
        let mut picker = LanePicker::default();
        assert_eq!(picks(&mut picker, false, false, 3), "---");
        assert_eq!(picks(&mut picker, false, true, 9), "nnnnnnnnn");
        assert_eq!(picks(&mut picker, true, false, 9), "hhhhhhhhh");
        assert_eq!(picks(&mut picker, true, true, 5), "hhhhn", "a round is not used up by an empty lane");
    }

    proptest! {
        #[test]
        fn never_leaves_its_bounds(
            current: usize, waiting: usize, longest_wait_us: u64, busy_peak: usize,
            floor: usize, ceiling: usize, wait_target_us: u64,
        ) {
            let limits = PoolLimits { floor: floor.min(ceiling), ceiling, wait_target_us };
            let size = next_size(current, &sample(waiting, longest_wait_us, busy_peak), &limits);
            prop_assert!((limits.floor..=limits.ceiling).contains(&size));
        }

        /// A lane that keeps waiting is served within the other's weight, whatever the other does.
        #[test]
        fn no_lane_starves(
            high in 0_u32..10, normal in 0_u32..10,
            waits in prop::collection::vec((any::<bool>(), any::<bool>()), 1..300),
        ) {
            let mut picker = LanePicker::new(LaneWeights { high, normal });
            let (mut high_passed, mut normal_passed) = (0, 0);
            for (high_waits, normal_waits) in waits {
                let lane = picker.pick(high_waits, normal_waits);
                prop_assert_eq!(lane.is_some(), high_waits || normal_waits);
                prop_assert!(lane != Some(Priority::High) || high_waits);
                prop_assert!(lane != Some(Priority::Normal) || normal_waits);
                high_passed = if high_waits && lane == Some(Priority::Normal) { high_passed + 1 } else { 0 };
                normal_passed = if normal_waits && lane == Some(Priority::High) { normal_passed + 1 } else { 0 };
                prop_assert!(high_passed <= normal.max(1) && normal_passed <= high.max(1));
            }
        }
    }
}
