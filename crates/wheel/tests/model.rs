//! The wheel against a `BTreeMap` over long random histories.

use std::collections::BTreeMap;

use duebook_wheel::{Handle, Wheel};
use proptest::prelude::*;

/// One step of a history. Times are given relative to what matters: the present, or a border of a level.
#[derive(Clone, Debug)]
enum Step {
    Insert { due: Time },
    Cancel { nth: usize },
    Reschedule { nth: usize, due: Time },
    UseStale { nth: usize, due: Time },
    Advance { now: Time, max: usize },
    AdvanceToWake { max: usize },
    Clear,
}

#[derive(Clone, Debug)]
enum Time {
    Ahead(u64),
    Behind(u64),
    /// A power of two (every border of a level is one) times a small number, and a nudge.
    Border {
        shift: u32,
        times: u64,
        nudge: i64,
    },
    Least,
    Most,
}

impl Time {
    fn from(&self, now_ms: u64) -> u64 {
        match *self {
            Time::Ahead(by_ms) => now_ms.saturating_add(by_ms),
            Time::Behind(by_ms) => now_ms.saturating_sub(by_ms),
            Time::Border { shift, times, nudge } => ((now_ms >> shift).saturating_add(times))
                .saturating_mul(1 << shift)
                .saturating_add_signed(nudge),
            Time::Least => 0,
            Time::Most => u64::MAX,
        }
    }
}

fn due() -> impl Strategy<Value = Time> {
    prop_oneof![
        6 => (0u64..3000).prop_map(Time::Ahead),
        6 => (0u64..3_000_000).prop_map(Time::Ahead),
        2 => (0u32..64).prop_flat_map(|bits| (0..=u64::MAX >> bits).prop_map(Time::Ahead)),
        2 => (0u64..3000).prop_map(Time::Behind),
        4 => (0u32..63, 0u64..4, -1i64..=1).prop_map(|(shift, times, nudge)| Time::Border { shift, times, nudge }),
        1 => Just(Time::Least),
        1 => Just(Time::Most),
    ]
}

fn now() -> impl Strategy<Value = Time> {
    prop_oneof![
        8 => (0u64..3).prop_map(Time::Ahead),
        4 => (0u64..2000).prop_map(Time::Ahead),
        3 => (0u64..2_000_000).prop_map(Time::Ahead),
        2 => (0u64..2000).prop_map(Time::Behind),
        1 => (0u64..u64::MAX >> 10).prop_map(Time::Behind),
        2 => (0u32..40, 0u64..3, -1i64..=1).prop_map(|(shift, times, nudge)| Time::Border { shift, times, nudge }),
        1 => (0u64..u64::MAX >> 16).prop_map(Time::Ahead),
    ]
}

fn max() -> impl Strategy<Value = usize> {
    prop_oneof![3 => Just(usize::MAX), 1 => 0usize..4]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        60 => due().prop_map(|due| Step::Insert { due }),
        15 => any::<usize>().prop_map(|nth| Step::Cancel { nth }),
        20 => (any::<usize>(), due()).prop_map(|(nth, due)| Step::Reschedule { nth, due }),
        10 => (any::<usize>(), due()).prop_map(|(nth, due)| Step::UseStale { nth, due }),
        30 => (now(), max()).prop_map(|(now, max)| Step::Advance { now, max }),
        20 => max().prop_map(|max| Step::AdvanceToWake { max }),
        1 => Just(Step::Clear),
    ]
}

/// The wheel, and what it should hold.
struct Pair {
    wheel: Wheel<u64>,
    /// By due time and item.
    model: BTreeMap<(u64, u64), Handle>,
    stale: Vec<Handle>,
    now_ms: u64,
    items: u64,
}

impl Pair {
    fn new(now_ms: u64) -> Self {
        Self { wheel: Wheel::new(now_ms), model: BTreeMap::new(), stale: Vec::new(), now_ms, items: 0 }
    }

    fn nth(&self, nth: usize) -> Option<((u64, u64), Handle)> {
        let nth = nth.checked_rem(self.model.len())?;
        self.model.iter().nth(nth).map(|(key, handle)| (*key, *handle))
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Insert { due } => {
                let due_ms = due.from(self.now_ms);
                let handle = self.wheel.insert(due_ms, self.items);
                self.model.insert((due_ms, self.items), handle);
                self.items += 1;
            }
            Step::Cancel { nth } => {
                let Some((key, handle)) = self.nth(*nth) else { return };
                self.model.remove(&key);
                assert_eq!(self.wheel.cancel(handle), Some(key.1));
                self.stale.push(handle);
            }
            Step::Reschedule { nth, due } => {
                let Some((key, handle)) = self.nth(*nth) else { return };
                let due_ms = due.from(self.now_ms);
                self.model.remove(&key);
                self.model.insert((due_ms, key.1), handle);
                assert!(self.wheel.reschedule(handle, due_ms));
                assert_eq!(self.wheel.get(handle), Some((due_ms, key.1)));
            }
            Step::UseStale { nth, due } => {
                let Some(nth) = nth.checked_rem(self.stale.len()) else { return };
                let handle = self.stale[nth];
                assert_eq!(self.wheel.get(handle), None);
                assert_eq!(self.wheel.cancel(handle), None);
                assert!(!self.wheel.reschedule(handle, due.from(self.now_ms)));
            }
            Step::Advance { now, max } => self.advance(now.from(self.now_ms), *max),
            Step::AdvanceToWake { max } => {
                if let Some(wake_ms) = self.wheel.next_wake_ms() {
                    self.advance(self.now_ms.max(wake_ms), *max);
                }
            }
            Step::Clear => {
                self.wheel.clear();
                self.stale.extend(std::mem::take(&mut self.model).into_values());
            }
        }
        self.check();
    }

    fn advance(&mut self, now_ms: u64, max: usize) {
        self.now_ms = now_ms;
        let mut fired = Vec::new();
        let count = self.wheel.advance(now_ms, max, |due_ms, item| fired.push((due_ms, item)));
        assert_eq!(count, fired.len());
        assert!(fired.is_sorted_by_key(|(due_ms, _)| due_ms), "ascending by due time");
        let due = self.model.range(..=(now_ms, u64::MAX)).count();
        assert_eq!(count, due.min(max), "all that is due, up to max");
        // Within a millisecond any order may do, so compare the due times, and then that each was armed.
        let expected: Vec<u64> = self.model.keys().take(count).map(|key| key.0).collect();
        assert_eq!(fired.iter().map(|key| key.0).collect::<Vec<_>>(), expected);
        for key in fired {
            self.stale.push(self.model.remove(&key).expect("fires only what is armed, once"));
        }
        if count < max {
            let wake_ms = self.wheel.next_wake_ms();
            assert!(wake_ms.is_none_or(|wake_ms| wake_ms > now_ms), "no spinning: {wake_ms:?} at {now_ms}");
        }
    }

    fn check(&self) {
        assert_eq!(self.wheel.len(), self.model.len());
        assert_eq!(self.wheel.is_empty(), self.model.is_empty());
        let earliest = self.model.first_key_value().map(|(key, _)| key.0);
        let wake = self.wheel.next_wake_ms();
        assert_eq!(wake.is_some(), earliest.is_some());
        assert!(wake <= earliest, "wakes at {wake:?} but due at {earliest:?}");
    }

    fn finish(mut self) {
        for ((due_ms, item), handle) in &self.model {
            assert_eq!(self.wheel.get(*handle), Some((*due_ms, *item)));
        }
        self.advance(u64::MAX, usize::MAX);
        assert!(self.wheel.is_empty());
        self.check();
    }
}

fn check_history(start_ms: u64, steps: &[Step]) {
    let mut pair = Pair::new(start_ms);
    steps.iter().for_each(|step| pair.apply(step));
    pair.finish();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn behaves_like_a_sorted_map(
        start_ms in prop_oneof![
            Just(0),
            Just(1_760_000_000_000),
            0u64..5_000_000_000,
            (0u64..5_000_000).prop_map(|before| u64::MAX - before),
            (0u32..64, 0u64..3).prop_map(|(shift, before)| (1u64 << shift).saturating_sub(before)),
        ],
        steps in proptest::collection::vec(step(), 1..1200),
    ) {
        check_history(start_ms, &steps);
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// A history in which cancelled and moved timers outnumber the armed ones by far, so that the sweep is always at
/// work, also on slots that come down meanwhile.
fn check_sweeping(seed: u64, rounds: u64, tick_every: u64, ahead: impl Fn(&mut Random) -> u64) {
    let mut random = Random(seed);
    let mut pair = Pair::new(5_000);
    for round in 0..rounds {
        let due = Time::Ahead(ahead(&mut random));
        let nth = random.below(1 << 40) as usize;
        pair.apply_unchecked(&match random.below(20) {
            0..3 => Step::Insert { due },
            3..6 if pair.model.len() > 300 => Step::Cancel { nth },
            3..18 => Step::Reschedule { nth, due },
            18 => Step::UseStale { nth, due },
            _ => Step::Cancel { nth },
        });
        if round % tick_every == 0 {
            pair.apply(&Step::Advance { now: Time::Ahead(random.below(30)), max: usize::MAX });
        }
    }
    pair.finish();
}

#[test]
fn behaves_like_a_sorted_map_while_sweeping_all_levels() {
    check_sweeping(0x9E37_79B9_7F4A_7C15, 60_000, 50, |random| {
        let bits = random.below(34);
        random.below(1 << bits)
    });
}

#[test]
fn behaves_like_a_sorted_map_while_sweeping_slots_that_come_down() {
    for seed in 1..=8 {
        check_sweeping(0x9E37_79B9_7F4A_7C15u64.wrapping_mul(seed), 60_000, 200, |random| {
            random.below(5) * 1_024 + random.below(900)
        });
    }
}

impl Pair {
    /// For histories in which looking for the n-th timer would cost too much: skips nothing but the check.
    fn apply_unchecked(&mut self, step: &Step) {
        match step {
            Step::Cancel { nth } | Step::Reschedule { nth, .. } => {
                // A pseudo-random neighbour instead of the exact n-th.
                let at = (self.now_ms + (*nth as u64 >> 6) % (1 << (nth % 34)), 0);
                let key = self.model.range(at..).next().map(|(key, handle)| (*key, *handle));
                let Some((key, handle)) = key.or_else(|| self.nth(0)) else { return };
                self.model.remove(&key);
                if let Step::Reschedule { due, .. } = step {
                    let due_ms = due.from(self.now_ms);
                    self.model.insert((due_ms, key.1), handle);
                    assert!(self.wheel.reschedule(handle, due_ms));
                } else {
                    assert_eq!(self.wheel.cancel(handle), Some(key.1));
                    self.stale.push(handle);
                }
            }
            _ => self.apply(step),
        }
    }
}
