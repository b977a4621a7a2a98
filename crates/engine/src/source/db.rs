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
