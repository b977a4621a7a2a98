//! What has become of each order's check: the one place that player and worker share.

use crate::book::Book;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Where an order's check stands, as far as this program knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Asked for, not yet acknowledged.
    Asked,
    /// Acknowledged: the server will fire it.
    Scheduled,
    /// Its cancel was answered "too late": it has fired, and will be (or is being) run.
    Fired,
    /// Called off.
    Cancelled,
    /// Run.
    Checked,
}

#[derive(Debug, Default)]
struct Inner {
    stages: BTreeMap<Arc<str>, Stage>,
    reported: BTreeSet<Arc<str>>,
    check_late_ms: Vec<i64>,
    already_fired: usize,
    judged_on_cancel: usize,
}

#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) book: Book,
    inner: Mutex<Inner>,
    moved: Notify,
}

/// The end of it.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) reported: BTreeSet<Arc<str>>,
    /// Sorted.
    pub(crate) check_late_ms: Vec<i64>,
    pub(crate) checked: usize,
    pub(crate) cancelled: usize,
    pub(crate) already_fired: usize,
    pub(crate) judged_on_cancel: usize,
}

impl Watch {
    pub(crate) fn new(book: Book) -> Self {
        Self { book, inner: Mutex::default(), moved: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stage is never left for an earlier one.
    fn advance(&self, inner: &mut Inner, order: &Arc<str>, stage: Stage) {
        let known = inner.stages.entry(Arc::clone(order)).or_insert(stage);
        *known = stage.max(*known);
        self.moved.notify_waiters();
    }

    pub(crate) fn asked(&self, order: &Arc<str>) {
        self.advance(&mut self.lock(), order, Stage::Asked);
    }

    pub(crate) fn scheduled(&self, order: &Arc<str>) {
        self.advance(&mut self.lock(), order, Stage::Scheduled);
    }

    /// The server has called the check off. If its time had come before what called it off (the server was away, say),
    /// nobody will run it: then the question is asked here.
    pub(crate) fn cancelled(&self, order: &Arc<str>) {
        let mut inner = self.lock();
        if self.book.is_late(order) && inner.stages.get(order) != Some(&Stage::Checked) {
            inner.judged_on_cancel += 1;
            inner.reported.insert(Arc::clone(order));
        }
        self.advance(&mut inner, order, Stage::Cancelled);
    }

    /// The recording has ended before the check's time: there is nothing to report.
    pub(crate) fn check_is_moot(&self, order: &Arc<str>) {
        self.advance(&mut self.lock(), order, Stage::Cancelled);
    }

    pub(crate) fn already_fired(&self, order: &Arc<str>) {
        let mut inner = self.lock();
        inner.already_fired += 1;
        self.advance(&mut inner, order, Stage::Fired);
    }

    /// A check runs: is the order late? May come twice for an order: checks are called at least once.
    pub(crate) fn check(&self, order: &str, late_ms: i64) -> bool {
        let Some((order, recorded)) = self.book.orders.get_key_value(order) else { return false };
        let mut inner = self.lock();
        inner.check_late_ms.push(late_ms);
        if recorded.is_late() {
            inner.reported.insert(Arc::clone(order));
        }
        self.advance(&mut inner, order, Stage::Checked);
        recorded.is_late()
    }

    /// Orders whose check is open, of those that `which` picks.
    pub(crate) fn open(&self, which: impl Fn(Stage) -> bool) -> Vec<Arc<str>> {
        let inner = self.lock();
        let open = inner.stages.iter().filter(|(_, stage)| **stage < Stage::Cancelled && which(**stage));
        open.map(|(order, _)| Arc::clone(order)).collect()
    }

    /// Waits until the order's check is at least at `stage`.
    pub(crate) async fn until(&self, order: &str, stage: Stage) {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if self.lock().stages.get(order).is_some_and(|known| *known >= stage) {
                return;
            }
            moved.await;
        }
    }

    pub(crate) fn seen(&self) -> Seen {
        let inner = self.lock();
        let count = |stage| inner.stages.values().filter(|known| **known == stage).count();
        let mut check_late_ms = inner.check_late_ms.clone();
        check_late_ms.sort_unstable();
        Seen {
            reported: inner.reported.clone(),
            check_late_ms,
            checked: count(Stage::Checked),
            cancelled: count(Stage::Cancelled),
            already_fired: inner.already_fired,
            judged_on_cancel: inner.judged_on_cancel,
        }
    }
}
