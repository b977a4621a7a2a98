//! The `wheel` tier: a timing wheel per lane over a horizon that is paged in from the store.
//!
//! Invariant: every pending task whose (due, priority, id) lies before `loaded` is in a wheel, unless it was
//! taken. What lies behind waits in the store. So memory follows the horizon, never the number of tasks.
//!
//! Pages fill three quarters of the memory; the rest is for new tasks that are due before what is loaded. When
//! those fill it up, everything is dropped and the nearest tasks are read again: the far ones make room.

use super::{DueSource, PageRequest, SourceLimits, first_at};
use duebook_core::pool::LanePicker;
use duebook_core::{Priority, TaskId};
use duebook_store::{DueRow, StoreError};
use duebook_wheel::Wheel;

pub(super) struct WheelSource {
    high: Wheel<TaskId>,
    normal: Wheel<TaskId>,
    lanes: LanePicker,
    /// Everything before this is in the wheels.
    loaded: DueRow,
    reading: Option<Reading>,
    retry_page_at_ms: Option<i64>,
    now_ms: i64,
    limits: SourceLimits,
}

/// A page that is being read.
#[derive(Clone, Copy)]
struct Reading {
    /// Its end. Offers before it are taken, as the read may miss them.
    until_ms: i64,
    /// Offers that it may not contain were dropped: what comes is of no use.
    stale: bool,
}

/// A task due before this fraction of the horizon is missing from memory triggers the next page.
const REFILL: i64 = 2;
const RETRY_PAGE_MS: i64 = 200;

fn as_tick(ms: i64) -> u64 {
    u64::try_from(ms).unwrap_or(0)
}

impl WheelSource {
    pub(super) fn new(limits: SourceLimits, now_ms: i64) -> Self {
        Self {
            high: Wheel::new(as_tick(now_ms)),
            normal: Wheel::new(as_tick(now_ms)),
            lanes: LanePicker::default(),
            loaded: first_at(i64::MIN),
            reading: None,
            retry_page_at_ms: None,
            now_ms,
            limits,
        }
    }

    fn insert(&mut self, row: DueRow) {
        let wheel = match row.priority {
            Priority::High => &mut self.high,
            Priority::Normal => &mut self.normal,
        };
        wheel.insert(as_tick(row.due_ms), row.id);
    }

    /// When the loaded part becomes too short.
    fn refill_at_ms(&self) -> i64 {
        self.loaded.due_ms.saturating_sub(self.limits.horizon_ms / REFILL)
    }

    fn has_room(&self) -> bool {
        let paged_max = (self.limits.items_max / 4 * 3).max(self.limits.page_items);
        self.len() + self.limits.page_items <= paged_max
    }
}

impl DueSource for WheelSource {
    fn offer(&mut self, rows: &[DueRow], now_ms: i64) {
        self.now_ms = now_ms;
        for &row in rows {
            let read_may_miss_it =
                self.reading.is_some_and(|reading| !reading.stale && row.due_ms <= reading.until_ms);
            if row >= self.loaded && !read_may_miss_it {
                continue;
            }
            if self.len() < self.limits.items_max {
                self.insert(row);
            } else {
                self.missed();
            }
        }
    }

    fn missed(&mut self) {
        let tick = as_tick(self.now_ms);
        self.high = Wheel::new(tick);
        self.normal = Wheel::new(tick);
        self.loaded = first_at(i64::MIN);
        self.retry_page_at_ms = None;
        if let Some(reading) = &mut self.reading {
            reading.stale = true;
        }
    }

    fn want_page(&mut self, now_ms: i64) -> Option<PageRequest> {
        self.now_ms = now_ms;
        let ready = self.reading.is_none()
            && self.retry_page_at_ms.is_none_or(|at_ms| now_ms >= at_ms)
            && self.has_room()
            && now_ms >= self.refill_at_ms();
        if !ready {
            return None;
        }
        let until_ms = now_ms.saturating_add(self.limits.horizon_ms);
        self.reading = Some(Reading { until_ms, stale: false });
        self.retry_page_at_ms = None;
        let after = (self.loaded.due_ms > i64::MIN).then_some(self.loaded);
        Some(PageRequest { after, until_ms, limit: self.limits.page_items })
    }

    fn page(&mut self, request: &PageRequest, rows: &Result<Vec<DueRow>, StoreError>, now_ms: i64) {
        self.now_ms = now_ms;
        let stale = self.reading.take().is_none_or(|reading| reading.stale);
        let Ok(rows) = rows else {
            self.retry_page_at_ms = Some(now_ms + RETRY_PAGE_MS);
            return;
        };
        if stale {
            return;
        }
        if self.len() + rows.len() > self.limits.items_max {
            // New tasks took the room while it was read.
            self.missed();
            return;
        }
        for &row in rows {
            self.insert(row);
        }
        self.loaded = match rows.last() {
            Some(&last) if rows.len() >= request.limit => {
                // Everything up to and including `last`; the next page starts after it.
                last
            }
            _ => first_at(request.until_ms.saturating_add(1)),
        };
    }

    fn take(&mut self, due_by_ms: i64, max: usize, out: &mut Vec<DueRow>) {
        let tick = as_tick(due_by_ms);
        let before = out.len();
        let take = |wheel: &mut Wheel<TaskId>, priority, max: usize, out: &mut Vec<DueRow>| {
            wheel.advance(tick, max, |due, id| {
                out.push(DueRow { due_ms: i64::try_from(due).unwrap_or(i64::MAX), priority, id });
            })
        };
        if self.high.is_empty() {
            take(&mut self.normal, Priority::Normal, max, out);
            return;
        }
        // Shares by weight; what one lane leaves goes to the other.
        let high_share = (0..max).filter(|_| self.lanes.pick(true, true) == Some(Priority::High)).count();
        take(&mut self.high, Priority::High, high_share, out);
        take(&mut self.normal, Priority::Normal, max - (out.len() - before), out);
        take(&mut self.high, Priority::High, max - (out.len() - before), out);
    }

    fn next_due_ms(&self) -> Option<i64> {
        let as_ms = |tick: u64| i64::try_from(tick).unwrap_or(i64::MAX);
        match (self.high.next_wake_ms(), self.normal.next_wake_ms()) {
            (Some(a), Some(b)) => Some(as_ms(a.min(b))),
            (one, other) => one.or(other).map(as_ms),
        }
    }

    fn next_page_ms(&self) -> Option<i64> {
        if self.reading.is_some() || !self.has_room() {
            return None;
        }
        Some(self.refill_at_ms().max(self.retry_page_at_ms.unwrap_or(i64::MIN)))
    }

    fn len(&self) -> usize {
        self.high.len() + self.normal.len()
    }
}
