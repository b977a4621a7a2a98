//! The timers themselves: a table of fixed places with generations, so that a handle can be checked and a freed
//! place used again.

use crate::NONE;
use crate::segments::Segments;

/// Names one armed timer. Once that timer has fired or was cancelled the handle is stale for ever: every operation
/// with it does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    index: u32,
    generation: u32,
}

/// A generation that is never given to a timer: its place is retired.
const RETIRED: u32 = u32::MAX;

/// One place of the table.
pub(crate) struct Timer<T> {
    /// When the timer is due; in a free place the next free one.
    pub(crate) due_ms: u64,
    pub(crate) item: T,
    generation: u32,
    /// Where the timer's one valid reference lies; `NONE` in a free place.
    pub(crate) place: u32,
}

impl<T> Timer<T> {
    /// Makes this place free (or retires it) and returns the new head of the free list.
    #[inline]
    fn free(&mut self, index: u32, head: u32) -> u32 {
        debug_assert!(self.place != NONE && self.generation != RETIRED);
        self.place = NONE;
        self.generation += 1;
        if self.generation == RETIRED {
            return head;
        }
        self.due_ms = u64::from(head);
        index
    }
}

/// The table of all timers.
pub(crate) struct Timers<T> {
    table: Segments<Timer<T>, 14>,
    free: u32,
    armed: usize,
}

impl<T: Copy> Timers<T> {
    pub(crate) const fn new() -> Self {
        Self { table: Segments::new(), free: NONE, armed: 0 }
    }

    pub(crate) fn armed(&self) -> usize {
        self.armed
    }

    #[inline]
    pub(crate) fn at(&self, index: u32) -> &Timer<T> {
        self.table.get(index)
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, index: u32) -> &mut Timer<T> {
        self.table.get_mut(index)
    }

    /// Takes a place for a timer; `locate` is told its index and says where the reference lies.
    #[inline]
    pub(crate) fn arm(&mut self, due_ms: u64, item: T, locate: impl FnOnce(&mut Self, u32) -> u32) -> Handle {
        self.armed += 1;
        let index = self.free;
        if index == NONE {
            let index = self.table.len() as u32;
            assert!(self.table.len() < 1 << 31, "a wheel holds at most two thousand million timers");
            self.table.push(Timer { due_ms, item, generation: 0, place: NONE });
            let place = locate(self, index);
            self.at_mut(index).place = place;
            return Handle { index, generation: 0 };
        }
        let timer = self.table.get_mut(index);
        self.free = timer.due_ms as u32;
        timer.due_ms = due_ms;
        timer.item = item;
        let generation = timer.generation;
        let place = locate(self, index);
        self.at_mut(index).place = place;
        Handle { index, generation }
    }

    /// The index and place of the timer that a handle names, unless the handle is stale.
    #[inline]
    pub(crate) fn find(&self, handle: Handle) -> Option<u32> {
        // A free place has a generation that no handle has had yet, so equal means armed.
        let timer = self.table.try_get(handle.index)?;
        (timer.generation == handle.generation).then_some(handle.index)
    }

    /// Frees the place of the timer that a handle names; returns where its reference lay and its item, or `None` if
    /// the handle is stale. One look at one cache line.
    #[inline]
    pub(crate) fn disarm_by(&mut self, handle: Handle) -> Option<(u32, T)> {
        let timer = self.table.try_get_mut(handle.index)?;
        if timer.generation != handle.generation {
            return None;
        }
        let held = (timer.place, timer.item);
        self.free = timer.free(handle.index, self.free);
        self.armed -= 1;
        Some(held)
    }

    /// Frees the place of an armed timer and returns what it held; every handle of it is stale from here on.
    #[inline]
    pub(crate) fn disarm(&mut self, index: u32) -> (u64, T) {
        let timer = self.table.get_mut(index);
        let held = (timer.due_ms, timer.item);
        self.free = timer.free(index, self.free);
        self.armed -= 1;
        held
    }

    /// Disarms every timer.
    pub(crate) fn disarm_all(&mut self) {
        for index in 0..self.table.len() as u32 {
            if self.at(index).place != NONE {
                self.disarm(index);
            }
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(timers: &mut Timers<u64>) -> Handle {
        timers.arm(5, 7, |_, _| 1)
    }

    #[test]
    fn a_place_is_used_again_under_a_new_generation() {
        let mut timers = Timers::new();
        let first = arm(&mut timers);
        assert_eq!(timers.disarm(timers.find(first).unwrap()), (5, 7));
        let second = arm(&mut timers);
        assert_eq!((second.index, second.generation), (first.index, first.generation + 1));
        assert_eq!((timers.find(first), timers.find(second)), (None, Some(0)));
    }

    #[test]
    fn a_place_with_no_generation_left_is_retired() {
        let mut timers = Timers::new();
        let first = arm(&mut timers);
        timers.at_mut(0).generation = RETIRED - 1;
        let last = Handle { generation: RETIRED - 1, ..first };
        timers.disarm(timers.find(last).unwrap());
        let next = arm(&mut timers);
        assert_eq!((next.index, next.generation), (1, 0), "the spent place is not given out");
        assert_eq!((timers.find(first), timers.find(last)), (None, None));
    }

    #[test]
    fn a_timer_of_a_u64_takes_24_bytes() {
        assert_eq!(size_of::<Timer<u64>>(), 24);
        assert_eq!(size_of::<Handle>(), 8);
    }
}
