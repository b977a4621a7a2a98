//! The slots of all levels, each a stack of references kept in a chain of blocks.
//!
//! Invariant: only the top block of a stack is open-ended (its length follows from `Slot::top`); every block below
//! it has its length in its header. No slot holds an empty block. A slot's bit is set exactly when it holds a
//! reference.

use crate::NONE;
use crate::blocks::{Blocks, CAPACITY, FIRST, LAST, Position, block_of, position, word_of};
use crate::geometry::SLOTS;
use crate::occupancy::Occupancy;
use crate::timers::Timers;

/// One slot: where its newest reference lies, and how many it holds (valid or not).
#[derive(Clone, Copy)]
struct Slot {
    top: Position,
    count: u32,
}

const EMPTY: Slot = Slot { top: NONE, count: 0 };

/// A copy of consecutive references: read first, and the timers looked up together, so that the loads overlap.
pub(crate) struct Run {
    first: Position,
    pub(crate) length: u32,
    pub(crate) indexes: [u32; CAPACITY as usize],
}

impl Run {
    pub(crate) const EMPTY: Self = Self { first: 0, length: 0, indexes: [0; CAPACITY as usize] };

    /// Which of the references are valid, as a bit mask. Free of branches on purpose: a branch on what is loaded
    /// would let one cache miss wait for the other.
    #[inline]
    pub(crate) fn valid<T: Copy>(&self, timers: &Timers<T>) -> u32 {
        let mut valid = 0;
        for (nth, index) in self.indexes[..self.length as usize].iter().enumerate() {
            valid |= u32::from(timers.at(*index).place == self.first + nth as u32) << nth;
        }
        valid
    }
}

/// Every reference of the wheel, by slot.
pub(crate) struct Buckets {
    slots: Box<[Slot]>,
    pub(crate) occupancy: Occupancy,
    blocks: Blocks,
    references: usize,
    /// Where the sweep goes on (see `sweep`): a slot, and the block of it that was compacted last.
    pub(crate) sweep_slot: usize,
    pub(crate) sweep_block: u32,
}

impl Buckets {
    pub(crate) fn new() -> Self {
        Self {
            slots: vec![EMPTY; SLOTS].into_boxed_slice(),
            occupancy: Occupancy::new(),
            blocks: Blocks::new(),
            references: 0,
            sweep_slot: 0,
            sweep_block: NONE,
        }
    }

    /// References held, valid or not.
    pub(crate) fn references(&self) -> usize {
        self.references
    }

    pub(crate) fn count(&self, slot: usize) -> u32 {
        self.slots[slot].count
    }

    /// Puts a reference to timer `index` on a slot's stack; the timer must remember the position.
    #[inline]
    pub(crate) fn push(&mut self, slot: usize, index: u32) -> Position {
        let Slot { top, count } = self.slots[slot];
        let top = if word_of(top) == LAST { self.open_block(slot, top) } else { top + 1 };
        self.blocks.set_reference(top, index);
        self.slots[slot] = Slot { top, count: count + 1 };
        self.references += 1;
        top
    }

    #[inline(never)]
    fn open_block(&mut self, slot: usize, top: Position) -> Position {
        let below = if top == NONE {
            self.occupancy.set(slot);
            NONE
        } else {
            self.blocks.set_length(block_of(top), CAPACITY);
            block_of(top)
        };
        position(self.blocks.take(below), FIRST)
    }

    /// Removes the `count` newest references of a slot, all of which lie in its top block.
    #[inline]
    pub(crate) fn pop(&mut self, slot: usize, count: u32) {
        let held = self.slots[slot];
        debug_assert!(held.top != NONE && word_of(held.top) + 1 - FIRST >= count);
        self.references -= count as usize;
        self.slots[slot] = Slot { top: held.top - count, count: held.count - count };
        if word_of(held.top) + 1 - count == FIRST {
            self.close_block(slot, block_of(held.top));
        }
    }

    /// Takes the emptied top block off a stack.
    #[inline(never)]
    fn close_block(&mut self, slot: usize, block: u32) {
        let below = self.blocks.link(block);
        self.blocks.release(block);
        if self.sweep_block == block {
            self.sweep_block = NONE;
        }
        if below == NONE {
            debug_assert_eq!(self.slots[slot].count, 0);
            self.slots[slot].top = NONE;
            self.occupancy.clear(slot);
        } else {
            self.slots[slot].top = position(below, FIRST + self.blocks.length(below) - 1);
        }
    }

    /// The newest references of a slot, as many as lie in its top block and at most `at_most`.
    #[inline]
    pub(crate) fn newest(&self, slot: usize, at_most: u32, run: &mut Run) {
        let top = self.slots[slot].top;
        if top == NONE {
            run.length = 0;
            return;
        }
        let length = (word_of(top) - FIRST + 1).min(at_most);
        self.read_run(top + 1 - length, length, run);
    }

    #[inline]
    fn read_run(&self, first: Position, length: u32, run: &mut Run) {
        run.first = first;
        run.length = length;
        let references = self.blocks.references(first, length);
        run.indexes[..references.len()].copy_from_slice(references);
    }

    /// Forgets every reference; for when none is valid. Costs one step per occupied slot.
    pub(crate) fn clear(&mut self) {
        while let Some(slot) = self.occupancy.next_slot(self.sweep_slot) {
            self.slots[slot] = EMPTY;
            self.occupancy.clear(slot);
            self.sweep_slot = slot;
        }
        self.blocks.release_all();
        self.references = 0;
        self.sweep_block = NONE;
    }

    /// Compacts one block of the slot under the sweep: drops its leftovers and closes the gaps they leave. Returns how
    /// many references it looked at; 0 when the slot is done.
    pub(crate) fn compact_block<T: Copy>(&mut self, timers: &mut Timers<T>) -> u32 {
        let slot = self.sweep_slot;
        let top = self.slots[slot].top;
        if top == NONE {
            return 0;
        }
        let into = self.sweep_block;
        let block = if into == NONE { block_of(top) } else { self.blocks.link(into) };
        if block == NONE {
            return 0;
        }
        let length = self.length(slot, block);
        let mut run = Run::EMPTY;
        self.read_run(position(block, FIRST), length, &mut run);
        let valid = run.valid(timers);
        let dropped = length - valid.count_ones();
        self.slots[slot].count -= dropped;
        self.references -= dropped as usize;

        let mut into_length = if into == NONE { CAPACITY } else { self.length(slot, into) };
        let mut kept = 0;
        for nth in (0..length).filter(|nth| valid >> nth & 1 == 1) {
            let index = run.indexes[nth as usize];
            let (block, length) =
                if into_length < CAPACITY { (into, &mut into_length) } else { (block, &mut kept) };
            let to = position(block, FIRST + *length);
            *length += 1;
            self.blocks.set_reference(to, index);
            timers.at_mut(index).place = to;
        }
        if into != NONE {
            self.set_length(slot, into, into_length);
        }
        if kept > 0 {
            self.set_length(slot, block, kept);
            self.sweep_block = block;
        } else if into == NONE {
            self.close_block(slot, block);
        } else {
            self.blocks.set_link(into, self.blocks.link(block));
            self.blocks.release(block);
        }
        length
    }

    /// Moves the sweep to the next slot that holds something; false if none does.
    pub(crate) fn sweep_next_slot(&mut self) -> bool {
        self.sweep_block = NONE;
        let next = self.occupancy.next_slot(self.sweep_slot + 1);
        self.sweep_slot = next.unwrap_or(0);
        next.is_some()
    }

    fn length(&self, slot: usize, block: u32) -> u32 {
        let top = self.slots[slot].top;
        if block_of(top) == block { word_of(top) - FIRST + 1 } else { self.blocks.length(block) }
    }

    fn set_length(&mut self, slot: usize, block: u32, length: u32) {
        if block_of(self.slots[slot].top) == block {
            self.slots[slot].top = position(block, FIRST + length - 1);
        } else {
            self.blocks.set_length(block, length);
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.slots.len() * size_of::<Slot>() + self.blocks.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(buckets: &mut Buckets, timers: &mut Timers<u64>, slot: usize, count: u32) {
        for _ in 0..count {
            timers.arm(0, 0, |_, index| buckets.push(slot, index));
        }
    }

    /// Empties a slot and counts its valid references.
    fn drain(buckets: &mut Buckets, timers: &Timers<u64>, slot: usize) -> u32 {
        let (mut run, mut valid) = (Run::EMPTY, 0);
        loop {
            buckets.newest(slot, CAPACITY, &mut run);
            if run.length == 0 {
                return valid;
            }
            valid += run.valid(timers).count_ones();
            buckets.pop(slot, run.length);
        }
    }

    #[test]
    fn compacting_drops_leftovers_and_keeps_the_rest() {
        let (mut buckets, mut timers) = (Buckets::new(), Timers::new());
        arm(&mut buckets, &mut timers, 5, 1_000);
        (0..1_000).filter(|index| index % 4 != 0).for_each(|index| {
            timers.disarm(index);
        });
        buckets.sweep_slot = 5;
        while buckets.compact_block(&mut timers) > 0 {}
        assert_eq!((buckets.references(), buckets.count(5)), (250, 250));
        assert_eq!(drain(&mut buckets, &timers, 5), 250);
        assert_eq!((buckets.references(), buckets.occupancy.next_slot(0)), (0, None));
    }

    #[test]
    fn the_sweep_lets_go_of_a_block_that_moves_to_another_slot() {
        let (mut buckets, mut timers) = (Buckets::new(), Timers::new());
        arm(&mut buckets, &mut timers, 5, CAPACITY + 1);
        arm(&mut buckets, &mut timers, 9, CAPACITY);
        buckets.sweep_slot = 5;
        assert_eq!(buckets.compact_block(&mut timers), 1);
        buckets.pop(5, 1);
        arm(&mut buckets, &mut timers, 9, 1);
        while buckets.compact_block(&mut timers) > 0 {}
        assert_eq!(drain(&mut buckets, &timers, 5), CAPACITY);
        assert_eq!(drain(&mut buckets, &timers, 9), CAPACITY + 1);
    }
}
