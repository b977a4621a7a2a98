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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const LIMITS: SourceLimits =
        SourceLimits { horizon_ms: 1_000, items_max: 8, page_items: 2, poll_max_ms: 1_000 };
    const END_MS: i64 = 1_001;

    fn row(due_ms: i64) -> DueRow {
        DueRow { due_ms, priority: Priority::Normal, id: TaskId::from_i64(due_ms) }
    }

    fn high(due_ms: i64) -> DueRow {
        DueRow { priority: Priority::High, ..row(due_ms) }
    }

    /// A source of which everything within the horizon is loaded, which is nothing.
    fn loaded(limits: SourceLimits) -> WheelSource {
        let mut source = WheelSource::new(limits, 0);
        answer(&mut source, &[]);
        source
    }

    /// Answers the page it wants now, at time 0, from what a store would have.
    fn answer(source: &mut WheelSource, store: &[DueRow]) -> PageRequest {
        let request = source.want_page(0).expect("it wants a page");
        source.page(&request, &Ok(page_of(store, &request)), 0);
        request
    }

    fn page_of(store: &[DueRow], request: &PageRequest) -> Vec<DueRow> {
        let store: BTreeSet<DueRow> = store.iter().copied().collect();
        let after = |row: &DueRow| request.after.is_none_or(|after| *row > after);
        store
            .into_iter()
            .filter(|row| after(row) && row.due_ms <= request.until_ms)
            .take(request.limit)
            .collect()
    }

    fn take(source: &mut WheelSource, due_by_ms: i64, max: usize) -> Vec<i64> {
        let mut rows = Vec::new();
        source.take(due_by_ms, max, &mut rows);
        rows.iter().map(|row| row.due_ms).collect()
    }

    #[test]
    fn pages_follow_each_other_until_memory_is_three_quarters_full() {
        let store: Vec<DueRow> = (1..=20).map(|number| row(number * 10)).collect();
        let mut source = WheelSource::new(LIMITS, 0);
        assert_eq!(source.next_page_ms(), Some(i64::MIN.saturating_sub(500)));
        let first = answer(&mut source, &store);
        assert_eq!(first, PageRequest { after: None, until_ms: 1_000, limit: 2 });
        assert_eq!(answer(&mut source, &store).after, Some(row(20)));
        answer(&mut source, &store);
        assert_eq!((source.len(), source.want_page(0), source.next_page_ms()), (6, None, None));
        assert_eq!(take(&mut source, 25, 9), [10, 20]);
        assert_eq!(answer(&mut source, &store).after, Some(row(60)));
        assert_eq!(take(&mut source, 1_000, 9), [30, 40, 50, 60, 70, 80]);
    }

    #[test]
    fn the_next_page_is_wanted_when_half_the_horizon_is_left() {
        let mut source = loaded(LIMITS);
        assert_eq!((source.len(), source.next_page_ms()), (0, Some(END_MS - 500)));
        assert_eq!(source.want_page(END_MS - 501), None);
        let request = source.want_page(END_MS - 500).unwrap();
        assert_eq!((request.after, request.until_ms), (Some(first_at(END_MS)), END_MS + 500));
        assert_eq!(source.want_page(END_MS), None, "one at a time");
    }

    #[test]
    fn offers_within_the_loaded_part_are_kept_and_those_behind_it_are_left_to_the_store() {
        let mut source = loaded(LIMITS);
        source.offer(&[row(1_000), row(END_MS + 1), row(5_000)], 0);
        assert_eq!(source.len(), 1);
        assert_eq!(source.next_due_ms().map(|due_ms| due_ms <= 1_000), Some(true));
        assert_eq!(take(&mut source, 9_999, 9), [1_000]);
    }

    #[test]
    fn offers_that_a_page_in_flight_may_miss_are_kept() {
        let mut source = WheelSource::new(LIMITS, 0);
        let request = source.want_page(0).unwrap();
        source.offer(&[row(700), row(5_000)], 0);
        source.page(&request, &Ok(vec![row(100)]), 0);
        assert_eq!(take(&mut source, 9_999, 9), [100, 700]);
    }

    #[test]
    fn a_page_that_failed_is_wanted_again_after_a_pause() {
        let mut source = WheelSource::new(LIMITS, 0);
        let request = source.want_page(0).unwrap();
        source.page(&request, &Err(StoreError::Busy), 0);
        assert_eq!((source.want_page(199), source.next_page_ms()), (None, Some(200)));
        assert_eq!(source.want_page(200).map(|again| again.after), Some(request.after));
    }

    #[test]
    fn missed_offers_drop_everything_and_the_page_in_flight() {
        let mut source = loaded(LIMITS);
        source.offer(&[row(300)], 0);
        let request = source.want_page(600).unwrap();
        source.missed();
        assert!(source.is_empty());
        source.offer(&[row(400)], 600);
        assert!(source.is_empty(), "what comes from here on is read from the store");
        source.page(&request, &Ok(vec![row(1_500)]), 600);
        assert!(source.is_empty(), "it may lack what was missed");
        assert_eq!(source.want_page(600).map(|request| request.after), Some(None));
    }

    #[test]
    fn near_offers_take_the_room_of_far_tasks() {
        let mut store: Vec<DueRow> = (1..=8).map(|number| row(400 + number)).collect();
        let mut source = loaded(LIMITS);
        source.offer(&store, 0);
        assert_eq!(source.len(), LIMITS.items_max);
        store.push(row(50));
        source.offer(&[row(50)], 0);
        assert!(source.len() < LIMITS.items_max);
        while source.next_page_ms().is_some_and(|at_ms| at_ms <= 0) {
            answer(&mut source, &store);
        }
        assert_eq!(take(&mut source, 100, 9), [50]);
        // Nothing is lost on the way.
        let mut taken = Vec::new();
        for _ in 0..9 {
            taken.extend(take(&mut source, 9_999, 2));
            while source.next_page_ms().is_some_and(|at_ms| at_ms <= 0) {
                answer(&mut source, &store);
            }
        }
        assert_eq!(taken, (401..=408).collect::<Vec<i64>>());
    }

    #[test]
    fn a_page_that_does_not_fit_any_more_is_read_again() {
        let mut source = WheelSource::new(LIMITS, 0);
        let request = source.want_page(0).unwrap();
        let offers: Vec<DueRow> = (1..=7).map(|number| row(500 + number)).collect();
        source.offer(&offers, 0);
        source.page(&request, &Ok(vec![row(1), row(2)]), 0);
        assert!(source.len() <= LIMITS.items_max);
        let store = [vec![row(1), row(2)], offers].concat();
        answer(&mut source, &store);
        assert_eq!(take(&mut source, 10, 9), [1, 2]);
    }

    #[test]
    fn lanes_share_by_weight_and_leave_what_they_do_not_use() {
        let limits = SourceLimits { items_max: 100, ..LIMITS };
        let mut source = loaded(limits);
        let offers: Vec<DueRow> = (1..=20).flat_map(|due_ms| [row(due_ms), high(due_ms)]).collect();
        source.offer(&offers, 0);
        let mut rows = Vec::new();
        source.take(20, 10, &mut rows);
        assert_eq!(rows.iter().filter(|row| row.priority == Priority::High).count(), 8);
        // One at a time it comes to the same: four high ones for each normal one.
        let mut source = loaded(limits);
        source.offer(&offers, 0);
        let lanes: Vec<bool> = (0..10)
            .map(|_| {
                let mut one = Vec::new();
                source.take(20, 1, &mut one);
                one[0].priority == Priority::High
            })
            .collect();
        assert_eq!(lanes.iter().filter(|high| **high).count(), 8, "{lanes:?}");
        // A high lane that is not due yet leaves all to the normal one.
        let mut source = loaded(limits);
        source.offer(&[high(900), row(1), row(2)], 0);
        assert_eq!(take(&mut source, 100, 9), [1, 2]);
    }
}
