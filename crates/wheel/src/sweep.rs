//! Getting rid of the references that cancelled and moved timers leave behind, a little with each operation.
//!
//! A leftover costs four bytes, and goes by itself when its slot comes down. But slots may be centuries away, so
//! while leftovers outnumber valid references (and a constant), operations run into debt and pay it by compacting
//! about one block of 30 at a time: every 16th that adds a reference, every 128th that only cancels (a cancellation
//! alone does not grow anything), and every call of `advance`. A whole pass over `r` references thus ends before
//! `r / 2` more were added, so `references <= 1.5 * (2 * armed + SLACK)` and a few blocks, however long timers are
//! armed and cancelled (`tests/memory.rs` holds it to that).

use crate::blocks::CAPACITY;
use crate::wheel::Wheel;

/// Leftovers that are never worth a sweep.
const SLACK: usize = 4096;
/// The debt at which one step is paid.
const DEBT_PER_STEP: u32 = 128;
/// The debt of an operation that adds a reference.
pub(crate) const DEBT_OF_PUSH: u32 = 8;
/// The debt of an operation that only leaves one behind.
pub(crate) const DEBT_OF_CANCEL: u32 = 1;
/// Slots that one step looks at, at most, when they are nearly empty.
const SLOTS_PER_STEP: u32 = 8;

impl<T: Copy> Wheel<T> {
    /// Called by every operation that may leave something behind.
    #[inline]
    pub(crate) fn pay_sweep(&mut self, debt: u32) {
        if self.has_many_leftovers() {
            self.sweep_debt += debt;
            if self.sweep_debt >= DEBT_PER_STEP {
                self.sweep_step();
            }
        }
    }

    #[inline]
    pub(crate) fn has_many_leftovers(&self) -> bool {
        self.buckets.references() > 2 * self.in_slots() + SLACK
    }

    /// Compacts about one block's worth of references.
    #[inline(never)]
    pub(crate) fn sweep_step(&mut self) {
        self.sweep_debt = 0;
        if self.in_slots() == 0 {
            self.buckets.clear();
            return;
        }
        let Self { buckets, timers, .. } = self;
        let (mut seen, mut slots) = (0, 0);
        while seen < CAPACITY && slots < SLOTS_PER_STEP {
            let looked_at = buckets.compact_block(timers);
            seen += looked_at;
            if looked_at == 0 {
                slots += 1;
                if !buckets.sweep_next_slot() {
                    return;
                }
            }
        }
    }
}
