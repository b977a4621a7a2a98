//! Blocks of references: 30 indexes of timers in two cache lines, chained into the stacks of the slots.

use crate::{NONE, segments::Segments};

/// Words of a block: a link, a length, and the references.
const WORDS: u32 = 32;
const LINK: usize = 0;
const LENGTH: usize = 1;
/// The word of a block's first reference.
pub(crate) const FIRST: u32 = 2;
/// The word of a block's last reference. `NONE` points at this word too: "full" and "empty" are one test.
pub(crate) const LAST: u32 = WORDS - 1;
/// References a block holds.
pub(crate) const CAPACITY: u32 = WORDS - FIRST;
/// Positions stay below this, so that the upper half can name places in the overdue heap.
const BLOCKS_MAX: u32 = (1 << 31) / WORDS;

#[repr(align(64))]
struct Block([u32; WORDS as usize]);

/// A place in a block: `block * WORDS + word`.
pub(crate) type Position = u32;

#[inline]
pub(crate) fn block_of(position: Position) -> u32 {
    position / WORDS
}

#[inline]
pub(crate) fn word_of(position: Position) -> u32 {
    position % WORDS
}

#[inline]
pub(crate) fn position(block: u32, word: u32) -> Position {
    block * WORDS + word
}

/// All blocks, with a free list.
pub(crate) struct Blocks {
    blocks: Segments<Block, 12>,
    /// Blocks handed out so far; below `blocks.len()` only after `release_all`.
    used: u32,
    free: u32,
}

impl Blocks {
    pub(crate) const fn new() -> Self {
        Self { blocks: Segments::new(), used: 0, free: NONE }
    }

    /// A block whose link is `next`.
    pub(crate) fn take(&mut self, next: u32) -> u32 {
        let block = self.free;
        if block != NONE {
            self.free = self.link(block);
            self.set_link(block, next);
            return block;
        }
        let block = self.used;
        assert!(block < BLOCKS_MAX, "a wheel holds at most about two thousand million references");
        self.used += 1;
        if block as usize == self.blocks.len() {
            self.blocks.push(Block([0; WORDS as usize]));
        }
        self.set_link(block, next);
        block
    }

    pub(crate) fn release(&mut self, block: u32) {
        self.set_link(block, self.free);
        self.free = block;
    }

    /// Takes every block back at once.
    pub(crate) fn release_all(&mut self) {
        self.used = 0;
        self.free = NONE;
    }

    /// The `length` references from `first` on, all of one block.
    #[inline]
    pub(crate) fn references(&self, first: Position, length: u32) -> &[u32] {
        let word = word_of(first) as usize;
        &self.blocks.get(block_of(first)).0[word..word + length as usize]
    }

    #[inline]
    pub(crate) fn set_reference(&mut self, position: Position, index: u32) {
        self.blocks.get_mut(block_of(position)).0[word_of(position) as usize] = index;
    }

    pub(crate) fn link(&self, block: u32) -> u32 {
        self.blocks.get(block).0[LINK]
    }

    pub(crate) fn set_link(&mut self, block: u32, next: u32) {
        self.blocks.get_mut(block).0[LINK] = next;
    }

    /// References in a block; kept for blocks below the top of their stack only.
    pub(crate) fn length(&self, block: u32) -> u32 {
        self.blocks.get(block).0[LENGTH]
    }

    pub(crate) fn set_length(&mut self, block: u32, length: u32) {
        self.blocks.get_mut(block).0[LENGTH] = length;
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.blocks.memory_bytes()
    }
}
