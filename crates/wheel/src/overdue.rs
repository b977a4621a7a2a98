//! Timers that were armed for a time before the cursor: a 4-ary heap by due time that knows where each timer lies,
//! so that removing one leaves nothing behind.
//!
//! It is what keeps "never early" true when the caller's clock is set back, and the order by due time when a backlog
//! of overdue timers is loaded. Invariant: the timer at heap place `p` has `Timer::place == p | IN_HEAP`.

use crate::segments::Segments;
use crate::timers::Timers;

/// Marks a `Timer::place` that is a place in the heap.
const IN_HEAP: u32 = 1 << 31;
const ARITY: u32 = 4;

#[derive(Clone, Copy)]
struct Item {
    due_ms: u64,
    index: u32,
}

/// The heap.
pub(crate) struct Overdue {
    heap: Segments<Item, 12>,
}

impl Overdue {
    pub(crate) const fn new() -> Self {
        Self { heap: Segments::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether a timer's place is one in the heap.
    #[inline]
    pub(crate) fn holds(place: u32) -> bool {
        place & IN_HEAP != 0
    }

    /// The earliest due time and its timer.
    #[inline]
    pub(crate) fn earliest(&self) -> Option<(u64, u32)> {
        (self.heap.len() > 0).then(|| {
            let item = self.heap.get(0);
            (item.due_ms, item.index)
        })
    }

    /// Adds a timer and returns its place (also written into the timer).
    pub(crate) fn insert<T: Copy>(&mut self, timers: &mut Timers<T>, due_ms: u64, index: u32) -> u32 {
        let item = Item { due_ms, index };
        self.heap.push(item);
        self.rise(timers, self.heap.len() as u32 - 1, item) | IN_HEAP
    }

    /// Takes out the timer at `place`.
    pub(crate) fn remove<T: Copy>(&mut self, timers: &mut Timers<T>, place: u32) {
        let hole = place & !IN_HEAP;
        let Some(last) = self.heap.pop() else { return };
        if hole as usize == self.heap.len() {
            return;
        }
        if self.rise(timers, hole, last) == hole {
            self.sink(timers, hole, last);
        }
    }

    pub(crate) fn clear(&mut self) {
        while self.heap.pop().is_some() {}
    }

    fn rise<T: Copy>(&mut self, timers: &mut Timers<T>, mut hole: u32, item: Item) -> u32 {
        while hole > 0 {
            let parent = (hole - 1) / ARITY;
            let above = *self.heap.get(parent);
            if above.due_ms <= item.due_ms {
                break;
            }
            self.put(timers, hole, above);
            hole = parent;
        }
        self.put(timers, hole, item);
        hole
    }

    fn sink<T: Copy>(&mut self, timers: &mut Timers<T>, mut hole: u32, item: Item) {
        let len = self.heap.len() as u32;
        loop {
            let first = hole * ARITY + 1;
            let children = first.min(len)..(first + ARITY).min(len);
            let Some(least) = children.min_by_key(|child| self.heap.get(*child).due_ms) else { break };
            let below = *self.heap.get(least);
            if below.due_ms >= item.due_ms {
                break;
            }
            self.put(timers, hole, below);
            hole = least;
        }
        self.put(timers, hole, item);
    }

    fn put<T: Copy>(&mut self, timers: &mut Timers<T>, place: u32, item: Item) {
        *self.heap.get_mut(place) = item;
        timers.at_mut(item.index).place = place | IN_HEAP;
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.heap.memory_bytes()
    }
}
