//! Due sources: what suggests which tasks of a queue may be due.
//!
//! A source is a hint. It may be early, late, doubled, silent or lying; the claim alone decides, and the sweep
//! finds what a silent source left. So a source does no I/O and holds no truth: it asks its runner for pages
//! of the store, is told of committed changes, and can be thrown away and built anew at any time.

mod db;
mod wheel;

use duebook_core::{TaskId, Tier};
use duebook_store::{DueRow, StoreError};

/// A page of pending tasks that a source would like to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRequest {
    /// Start after this row.
    pub after: Option<DueRow>,
    /// Up to this due time, in epoch milliseconds.
    pub until_ms: i64,
    /// Most rows.
    pub limit: usize,
}

/// Suggests tasks of one queue.
pub trait DueSource: Send {
    /// Tasks that became pending, or whose due time moved; from committed changes.
    fn offer(&mut self, rows: &[DueRow], now_ms: i64);
    /// Some offers were lost: trust the store only.
    fn missed(&mut self);
    /// The page it needs next, if any. At most one is outstanding.
    fn want_page(&mut self, now_ms: i64) -> Option<PageRequest>;
    /// The page that it wanted.
    fn page(&mut self, request: &PageRequest, rows: &Result<Vec<DueRow>, StoreError>, now_ms: i64);
    /// Moves up to `max` tasks due at or before `due_by_ms` to `out`.
    fn take(&mut self, due_by_ms: i64, max: usize, out: &mut Vec<DueRow>);
    /// When it should be asked again at the latest, in epoch milliseconds of due time; none means that only
    /// an offer can bring something.
    fn next_due_ms(&self) -> Option<i64>;
    /// When it wants a page at the latest, in epoch milliseconds.
    fn next_page_ms(&self) -> Option<i64>;
    /// Tasks that it holds in memory.
    fn len(&self) -> usize;
    /// Whether it holds none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Bounds of a source's memory and of its look into the future.
#[derive(Debug, Clone, Copy)]
pub struct SourceLimits {
    /// How far ahead of now tasks are held in memory, in milliseconds.
    pub horizon_ms: i64,
    /// Most tasks held in memory.
    pub items_max: usize,
    /// Rows in a page.
    pub page_items: usize,
    /// Longest wait between two polls of an idle queue, in milliseconds.
    pub poll_max_ms: i64,
}

impl Default for SourceLimits {
    fn default() -> Self {
        Self { horizon_ms: 300_000, items_max: 500_000, page_items: 5_000, poll_max_ms: 1_000 }
    }
}

/// The source of a tier.
#[must_use]
pub fn source_for(tier: Tier, limits: SourceLimits, now_ms: i64) -> Box<dyn DueSource> {
    match tier {
        Tier::Wheel => Box::new(wheel::WheelSource::new(limits, now_ms)),
        Tier::Db => Box::new(db::DbSource::new(limits, now_ms)),
    }
}

/// Least row with this due time: everything before it is due earlier.
fn first_at(due_ms: i64) -> DueRow {
    DueRow { due_ms, priority: duebook_core::Priority::Normal, id: TaskId::from_i64(i64::MIN) }
}
