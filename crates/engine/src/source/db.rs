//! The `db` tier: polls the store. No wait while there is work, a growing wait while there is none; an offer
//! that is due soon shortens the wait.

use super::{DueSource, PageRequest, SourceLimits};
use duebook_store::{DueRow, StoreError};
use std::collections::VecDeque;

const POLL_MIN_MS: i64 = 5;

pub(super) struct DbSource {
    ready: VecDeque<DueRow>,
    poll_at_ms: i64,
    reading: bool,
    /// The earliest offer that came while a page was being read, which may miss it.
    offered_ms: Option<i64>,
    wait_ms: i64,
    limits: SourceLimits,
}

impl DbSource {
    pub(super) fn new(limits: SourceLimits, now_ms: i64) -> Self {
        Self {
            ready: VecDeque::new(),
            poll_at_ms: now_ms,
            reading: false,
            offered_ms: None,
            wait_ms: POLL_MIN_MS,
            limits,
        }
    }
}

impl DueSource for DbSource {
    fn offer(&mut self, rows: &[DueRow], now_ms: i64) {
        let Some(due_ms) = rows.iter().map(|row| row.due_ms).min() else { return };
        if due_ms > now_ms + self.limits.poll_max_ms {
            return;
        }
        self.wait_ms = POLL_MIN_MS;
        if self.reading {
            self.offered_ms = Some(self.offered_ms.map_or(due_ms, |earlier| earlier.min(due_ms)));
        } else {
            self.poll_at_ms = self.poll_at_ms.min(due_ms.max(now_ms));
        }
    }

    fn missed(&mut self) {
        self.wait_ms = POLL_MIN_MS;
        self.poll_at_ms = i64::MIN;
        self.offered_ms = Some(i64::MIN);
    }

    fn want_page(&mut self, now_ms: i64) -> Option<PageRequest> {
        if self.reading || !self.ready.is_empty() || now_ms < self.poll_at_ms {
            return None;
        }
        self.reading = true;
        self.offered_ms = None;
        Some(PageRequest { after: None, until_ms: now_ms, limit: self.limits.page_items.min(2_000) })
    }

    fn page(&mut self, request: &PageRequest, rows: &Result<Vec<DueRow>, StoreError>, now_ms: i64) {
        self.reading = false;
        match rows {
            Ok(rows) if !rows.is_empty() => {
                self.ready.extend(rows);
                self.wait_ms = if rows.len() >= request.limit { 0 } else { POLL_MIN_MS };
            }
            _ => {
                self.wait_ms = (self.wait_ms * 2).clamp(POLL_MIN_MS, self.limits.poll_max_ms.max(POLL_MIN_MS))
            }
        }
        self.poll_at_ms = now_ms + self.wait_ms;
        if let Some(due_ms) = self.offered_ms.take()
            && rows.is_ok()
        {
            self.poll_at_ms = self.poll_at_ms.min(due_ms.max(now_ms));
        }
    }

    fn take(&mut self, due_by_ms: i64, max: usize, out: &mut Vec<DueRow>) {
        for _ in 0..max {
            match self.ready.front() {
                Some(row) if row.due_ms <= due_by_ms => out.extend(self.ready.pop_front()),
                _ => return,
            }
        }
    }

    fn next_due_ms(&self) -> Option<i64> {
        self.ready.front().map(|row| row.due_ms)
    }

    fn next_page_ms(&self) -> Option<i64> {
        (self.ready.is_empty() && !self.reading).then_some(self.poll_at_ms)
    }

    fn len(&self) -> usize {
        self.ready.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duebook_core::{Priority, TaskId};

    const LIMITS: SourceLimits =
        SourceLimits { horizon_ms: 1_000, items_max: 100, page_items: 2, poll_max_ms: 100 };

    fn row(due_ms: i64) -> DueRow {
        DueRow { due_ms, priority: Priority::Normal, id: TaskId::from_i64(due_ms) }
    }

    fn answer(source: &mut DbSource, now_ms: i64, rows: Result<Vec<DueRow>, StoreError>) {
        let request = source.want_page(now_ms).expect("it wants a page");
        assert_eq!(request, PageRequest { after: None, until_ms: now_ms, limit: 2 });
        assert_eq!((source.want_page(now_ms), source.next_page_ms()), (None, None), "one at a time");
        source.page(&request, &rows, now_ms);
    }

    /// The waits before each of the next polls of an idle store.
    fn waits(source: &mut DbSource, mut now_ms: i64, polls: usize) -> Vec<i64> {
        let mut waits = Vec::new();
        for _ in 0..polls {
            answer(source, now_ms, Ok(vec![]));
            let next_ms = source.next_page_ms().unwrap();
            waits.push(next_ms - now_ms);
            now_ms = next_ms;
        }
        waits
    }

    fn idle() -> DbSource {
        let mut source = DbSource::new(LIMITS, 0);
        waits(&mut source, 0, 6);
        answer(&mut source, 1_000, Ok(vec![]));
        assert_eq!(source.next_page_ms(), Some(1_100));
        source
    }

    #[test]
    fn it_polls_without_a_wait_while_there_is_work_and_ever_less_while_there_is_none() {
        let mut source = DbSource::new(LIMITS, 0);
        answer(&mut source, 0, Ok(vec![row(-2), row(-1)]));
        assert_eq!((source.len(), source.want_page(0), source.next_page_ms()), (2, None, None));
        let mut taken = Vec::new();
        source.take(0, 1, &mut taken);
        source.take(0, 9, &mut taken);
        assert_eq!(taken, [row(-2), row(-1)]);
        assert_eq!(source.next_page_ms(), Some(0), "a full page: at once");
        answer(&mut source, 0, Ok(vec![row(0)]));
        source.take(0, 9, &mut taken);
        assert_eq!(source.next_page_ms(), Some(5));
        assert_eq!(waits(&mut source, 5, 7), [10, 20, 40, 80, 100, 100, 100]);
    }

    #[test]
    fn a_failed_poll_waits_as_an_empty_one() {
        let mut source = DbSource::new(LIMITS, 0);
        answer(&mut source, 0, Err(StoreError::Busy));
        assert_eq!(source.next_page_ms(), Some(10));
        answer(&mut source, 10, Err(StoreError::Busy));
        assert_eq!(source.next_page_ms(), Some(30));
    }

    #[test]
    fn an_offer_that_is_due_soon_shortens_the_wait() {
        for (due_ms, poll_at_ms) in [(500, 1_010), (1_050, 1_050), (1_100, 1_100), (9_000, 1_100)] {
            let mut source = idle();
            source.offer(&[row(9_999), row(due_ms)], 1_010);
            assert_eq!(source.next_page_ms(), Some(poll_at_ms), "due at {due_ms}");
        }
    }

    #[test]
    fn an_offer_during_a_poll_brings_the_next_one() {
        for rows in [Ok(vec![]), Ok(vec![row(900)])] {
            let mut source = idle();
            let request = source.want_page(1_100).unwrap();
            source.offer(&[row(1_103)], 1_100);
            source.page(&request, &rows, 1_101);
            source.take(1_101, 9, &mut Vec::new());
            assert_eq!(source.next_page_ms(), Some(1_103));
        }
    }

    #[test]
    fn missed_offers_bring_a_poll_at_once() {
        let mut source = idle();
        source.missed();
        assert!(source.want_page(1_010).is_some());
        source.missed();
        source.page(&PageRequest { after: None, until_ms: 1_010, limit: 2 }, &Ok(vec![]), 1_012);
        assert!(source.want_page(1_012).is_some(), "the one in flight may lack them");
    }
}
