//! Moving the wheel through time: firing what is due, and bringing upper slots down before they are needed.

use crate::blocks::CAPACITY;
use crate::buckets::Run;
use crate::geometry::{slot, unit, unit_start_ms};
use crate::wheel::Wheel;

/// References of a level that one tick may bring down in any case; more only if the time left demands it.
pub const DRAIN_BATCH: u32 = 32;

impl<T: Copy> Wheel<T> {
    /// Moves the wheel to `now_ms` and calls `fire` with due time and item of at most `max` timers that are due at or
    /// before it, in ascending order of due time (order within a millisecond unspecified). Returns how many fired.
    ///
    /// What `max` left over stays due and fires at the next call, even with the same `now_ms`; fewer than `max`
    /// fired means that nothing due is left. A timer is disarmed before `fire` hears of it, so a panic in `fire`
    /// loses that one timer and leaves the wheel sound.
    ///
    /// A `now_ms` before that of an earlier call moves nothing; it fires only what was since armed for a time at or
    /// before it.
    pub fn advance(&mut self, now_ms: u64, max: usize, mut fire: impl FnMut(u64, T)) -> usize {
        self.moved_last_advance = 0;
        if self.has_many_leftovers() {
            self.sweep_step();
        }
        let mut fired = 0;
        while let Some((due_ms, index)) = self.overdue.earliest().filter(|(due_ms, _)| *due_ms <= now_ms) {
            if fired == max {
                return fired;
            }
            self.overdue.remove(&mut self.timers, 0);
            let (_, item) = self.timers.disarm(index);
            fire(due_ms, item);
            fired += 1;
        }
        if now_ms < self.cursor_ms {
            return fired;
        }
        loop {
            if self.in_slots() == 0 {
                self.buckets.clear();
                self.cursor_ms = now_ms;
                return fired;
            }
            if !self.fire_tick(max, &mut fired, &mut fire) {
                return fired;
            }
            if self.cursor_ms == now_ms {
                return fired;
            }
            self.step_to(self.next_stop_ms(now_ms));
        }
    }

    /// Fires the tick at the cursor; false if `max` left something of it.
    #[inline]
    fn fire_tick(&mut self, max: usize, fired: &mut usize, fire: &mut impl FnMut(u64, T)) -> bool {
        let tick = slot(0, self.cursor_ms);
        let mut run = Run::EMPTY;
        loop {
            self.buckets.newest(tick, CAPACITY, &mut run);
            if run.length == 0 {
                return true;
            }
            let valid = run.valid(&self.timers);
            for nth in (0..run.length).rev() {
                if valid >> nth & 1 == 0 {
                    self.moved_last_advance += 1;
                    self.buckets.pop(tick, 1);
                    continue;
                }
                if *fired == max {
                    return false;
                }
                self.buckets.pop(tick, 1);
                let (due_ms, item) = self.timers.disarm(run.indexes[nth as usize]);
                debug_assert_eq!(due_ms, self.cursor_ms);
                *fired += 1;
                fire(due_ms, item);
            }
        }
    }

    /// When to call [`advance`](Self::advance) next: at or before the earliest due time, and after the `now_ms` of
    /// the last call unless something is due already (left over, or armed since). `None` when no timer is armed.
    ///
    /// It may name a time at which nothing fires, because part of an upper slot has to come down (one call in
    /// [`DRAIN_BATCH`] timers and level; a lone timer, however far, needs one per level at most) or because
    /// cancelled timers were in that slot.
    pub fn next_wake_ms(&self) -> Option<u64> {
        let overdue = self.overdue.earliest().map(|(due_ms, _)| due_ms);
        if overdue.is_some() || self.in_slots() == 0 {
            // Whatever is overdue comes before all that the slots hold.
            return overdue;
        }
        let tick = self.buckets.occupancy.distance(0, self.cursor_ms).map(|ticks| self.cursor_ms + ticks);
        let drains = self.buckets.occupancy.upper_levels().filter_map(|level| {
            let (first, needed_ms) = self.first_occupied(level)?;
            let start_ms = self.cursor_ms.max(unit_start_ms(level, first - 1)?);
            let batches = u64::from(self.buckets.count(slot(level, first)).div_ceil(DRAIN_BATCH));
            Some((start_ms + (needed_ms - start_ms) / batches).max(self.cursor_ms + 1))
        });
        drains.chain(tick).min()
    }

    /// The first unit of an upper level that holds something, and the time by which it must be empty.
    fn first_occupied(&self, level: usize) -> Option<(u64, u64)> {
        let current = unit(level, self.cursor_ms);
        let first = current + self.buckets.occupancy.distance(level, current)?;
        debug_assert!(first > current, "the current unit of an upper level is empty");
        Some((first, unit_start_ms(level, first)?))
    }

    /// The next tick that the cursor may not skip: one that holds something, or at which an upper slot must be empty.
    #[inline]
    fn next_stop_ms(&self, now_ms: u64) -> u64 {
        let next_ms = self.cursor_ms + 1;
        if now_ms == next_ms {
            return now_ms;
        }
        let ticks = self.buckets.occupancy.distance(0, next_ms).map_or(u64::MAX, |ticks| next_ms + ticks);
        if ticks == next_ms {
            return next_ms;
        }
        let upper = self.buckets.occupancy.upper_levels();
        let needed = upper.filter_map(|level| self.first_occupied(level)).map(|(_, needed_ms)| needed_ms);
        needed.min().unwrap_or(u64::MAX).min(ticks).min(now_ms)
    }

    /// Moves the cursor to `to_ms`, and brings down of each upper level what the time passed demands.
    fn step_to(&mut self, to_ms: u64) {
        let from_ms = std::mem::replace(&mut self.cursor_ms, to_ms);
        for level in self.buckets.occupancy.upper_levels() {
            let current = unit(level, to_ms);
            if unit(level, from_ms) != current {
                // Empty already, unless time jumped.
                self.drain(slot(level, current), u32::MAX);
            }
            let bounds = unit_start_ms(level, current).zip(unit_start_ms(level, current + 1));
            let Some((started_ms, needed_ms)) = bounds else { continue };
            let next = slot(level, current + 1);
            let left = self.buckets.count(next);
            if left > 0 {
                let begun_ms = from_ms.max(started_ms);
                self.drain(next, pace(left, to_ms - begun_ms, needed_ms - begun_ms).max(DRAIN_BATCH));
            }
        }
    }

    /// Re-places up to `budget` references of an upper slot by their timers' due times.
    fn drain(&mut self, from: usize, mut budget: u32) {
        let mut run = Run::EMPTY;
        while budget > 0 {
            self.buckets.newest(from, CAPACITY.min(budget), &mut run);
            if run.length == 0 {
                return;
            }
            let valid = run.valid(&self.timers);
            self.buckets.pop(from, run.length);
            for nth in (0..run.length).filter(|nth| valid >> nth & 1 == 1) {
                let index = run.indexes[nth as usize];
                self.place(index, self.timers.at(index).due_ms);
            }
            budget -= run.length;
            self.moved_last_advance += run.length as usize;
        }
    }
}

/// The share of `left` references that belongs to `passed_ms` of the `total_ms` there are, rounded up.
#[inline]
fn pace(left: u32, passed_ms: u64, total_ms: u64) -> u32 {
    debug_assert!(passed_ms < total_ms);
    let share = match u64::from(left).checked_mul(passed_ms) {
        Some(product) => product.div_ceil(total_ms),
        None => (u128::from(left) * u128::from(passed_ms)).div_ceil(u128::from(total_ms)) as u64,
    };
    share as u32
}
