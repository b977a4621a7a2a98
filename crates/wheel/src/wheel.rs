//! The wheel as its owner sees it: arming, moving, cancelling and looking up timers.

use crate::buckets::Buckets;
use crate::geometry::{level_for, slot, unit};
use crate::overdue::Overdue;
use crate::sweep::{DEBT_OF_CANCEL, DEBT_OF_PUSH};
use crate::timers::{Handle, Timers};

/// A hierarchical timing wheel over items of type `T`, e.g. the identifiers of tasks; see the crate's documentation.
///
/// All times are milliseconds since an epoch of the caller's choice.
pub struct Wheel<T: Copy> {
    pub(crate) timers: Timers<T>,
    pub(crate) buckets: Buckets,
    pub(crate) overdue: Overdue,
    /// The tick the wheel stands at: every earlier one has been fired completely.
    pub(crate) cursor_ms: u64,
    pub(crate) moved_last_advance: usize,
    pub(crate) sweep_debt: u32,
}

impl<T: Copy> Wheel<T> {
    /// An empty wheel that stands at `now_ms`. Reserves about 100 KB for its slots; everything else on demand.
    pub fn new(now_ms: u64) -> Self {
        Self {
            timers: Timers::new(),
            buckets: Buckets::new(),
            overdue: Overdue::new(),
            cursor_ms: now_ms,
            moved_last_advance: 0,
            sweep_debt: 0,
        }
    }

    /// Arms a timer. A `due_ms` in the past is allowed: it fires at the next [`advance`](Self::advance).
    ///
    /// # Panics
    ///
    /// With more than two thousand million timers armed.
    #[inline]
    pub fn insert(&mut self, due_ms: u64, item: T) -> Handle {
        let Self { timers, buckets, overdue, cursor_ms, .. } = self;
        let handle = timers
            .arm(due_ms, item, |timers, index| locate(timers, buckets, overdue, *cursor_ms, due_ms, index));
        self.pay_sweep(DEBT_OF_PUSH);
        handle
    }

    /// Disarms a timer and returns its item; `None` if it has fired or was cancelled before.
    #[inline]
    pub fn cancel(&mut self, handle: Handle) -> Option<T> {
        let (place, item) = self.timers.disarm_by(handle)?;
        if Overdue::holds(place) {
            self.overdue.remove(&mut self.timers, place);
        }
        self.pay_sweep(DEBT_OF_CANCEL);
        Some(item)
    }

    /// Moves a timer to another time; its handle stays valid. False if it has fired or was cancelled.
    pub fn reschedule(&mut self, handle: Handle, due_ms: u64) -> bool {
        let Some(index) = self.timers.find(handle) else { return false };
        let timer = self.timers.at_mut(index);
        let (before_ms, place) = (timer.due_ms, timer.place);
        timer.due_ms = due_ms;
        if Overdue::holds(place) {
            self.overdue.remove(&mut self.timers, place);
        } else if due_ms == before_ms || (due_ms > before_ms && level_for(self.cursor_ms, before_ms) > 0) {
            // Above level 0 the reference may stay: its slot comes down before `before_ms` and finds the new time.
            return true;
        }
        self.place(index, due_ms);
        self.pay_sweep(DEBT_OF_PUSH);
        true
    }

    /// When a timer is due, and its item; `None` if it has fired or was cancelled.
    pub fn get(&self, handle: Handle) -> Option<(u64, T)> {
        let timer = self.timers.at(self.timers.find(handle)?);
        Some((timer.due_ms, timer.item))
    }

    /// Armed timers.
    pub fn len(&self) -> usize {
        self.timers.armed()
    }

    /// Whether no timer is armed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Disarms every timer and keeps the memory. All handles given out so far are stale afterwards.
    pub fn clear(&mut self) {
        self.timers.disarm_all();
        self.overdue.clear();
        self.buckets.clear();
    }

    /// Bytes reserved by the wheel: every array at its full capacity, whether touched yet or not.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.timers.memory_bytes()
            + self.buckets.memory_bytes()
            + self.overdue.memory_bytes()
    }

    /// References that the last `advance` brought down a level or dropped: what its work is bounded by, beside the
    /// timers it fired. For tests.
    #[doc(hidden)]
    pub fn moved_last_advance(&self) -> usize {
        self.moved_last_advance
    }

    /// Timers that have a reference in a slot.
    #[inline]
    pub(crate) fn in_slots(&self) -> usize {
        self.timers.armed() - self.overdue.len()
    }

    /// Gives a timer a reference where it belongs now; one it had elsewhere becomes a leftover.
    #[inline]
    pub(crate) fn place(&mut self, index: u32, due_ms: u64) {
        let Self { timers, buckets, overdue, cursor_ms, .. } = self;
        let place = locate(timers, buckets, overdue, *cursor_ms, due_ms, index);
        timers.at_mut(index).place = place;
    }
}

#[inline]
fn locate<T: Copy>(
    timers: &mut Timers<T>,
    buckets: &mut Buckets,
    overdue: &mut Overdue,
    cursor_ms: u64,
    due_ms: u64,
    index: u32,
) -> u32 {
    if due_ms < cursor_ms {
        return overdue.insert(timers, due_ms, index);
    }
    let level = level_for(cursor_ms, due_ms);
    buckets.push(slot(level, unit(level, due_ms)), index)
}
