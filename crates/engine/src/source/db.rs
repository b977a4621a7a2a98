//! The `db` tier: polls the store. No wait while there is work, a growing wait while there is none; an offer
//! that is due soon shortens the wait.

use super::{DueSource, PageRequest, SourceLimits};
use duebook_store::{DueRow, StoreError};
use std::collections::VecDeque;

const POLL_MIN_MS: i64 = 5;

pub(super) struct DbSource {
    ready: VecDeque<DueRow>,
    /// When to poll next; none while a page is being read.
    poll_at_ms: Option<i64>,
    wait_ms: i64,
    limits: SourceLimits,
}

impl DbSource {
    pub(super) fn new(limits: SourceLimits, now_ms: i64) -> Self {
        Self { ready: VecDeque::new(), poll_at_ms: Some(now_ms), wait_ms: POLL_MIN_MS, limits }
    }
}

impl DueSource for DbSource {
    fn offer(&mut self, rows: &[DueRow], now_ms: i64) {
        let earliest = rows.iter().map(|row| row.due_ms).min();
        if let (Some(due_ms), Some(poll_at_ms)) = (earliest, self.poll_at_ms)
            && due_ms <= now_ms + self.limits.poll_max_ms
        {
            self.wait_ms = POLL_MIN_MS;
            self.poll_at_ms = Some(poll_at_ms.min(due_ms.max(now_ms)));
        }
    }

    fn missed(&mut self) {
        self.wait_ms = POLL_MIN_MS;
        if self.poll_at_ms.is_some() {
            self.poll_at_ms = Some(i64::MIN);
        }
    }

    fn want_page(&mut self, now_ms: i64) -> Option<PageRequest> {
        if !self.ready.is_empty() || self.poll_at_ms.is_none_or(|at_ms| now_ms < at_ms) {
            return None;
        }
        self.poll_at_ms = None;
        Some(PageRequest { after: None, until_ms: now_ms, limit: self.limits.page_items.min(2_000) })
    }

    fn page(&mut self, request: &PageRequest, rows: &Result<Vec<DueRow>, StoreError>, now_ms: i64) {
        match rows {
            Ok(rows) if !rows.is_empty() => {
                self.ready.extend(rows);
                self.wait_ms = if rows.len() >= request.limit { 0 } else { POLL_MIN_MS };
            }
            _ => {
                self.wait_ms = (self.wait_ms * 2).clamp(POLL_MIN_MS, self.limits.poll_max_ms.max(POLL_MIN_MS))
            }
        }
        self.poll_at_ms = Some(now_ms + self.wait_ms);
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
        if self.ready.is_empty() { self.poll_at_ms } else { None }
    }

    fn len(&self) -> usize {
        self.ready.len()
    }
}
