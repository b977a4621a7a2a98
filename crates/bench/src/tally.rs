//! Counts every task by its number: what never came is lost, what came twice is doubled.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicUsize, Ordering};

const NOT_YET: i64 = i64::MIN;

/// One place per task.
pub(crate) struct Tally {
    due_ms: Vec<i64>,
    /// First start minus due, in microseconds.
    lateness_us: Vec<AtomicI64>,
    starts: Vec<AtomicU8>,
    seen: AtomicUsize,
    first_us: AtomicI64,
    last_us: AtomicI64,
}

impl Tally {
    pub(crate) fn new(due_ms: Vec<i64>) -> Self {
        Self {
            lateness_us: due_ms.iter().map(|_| AtomicI64::new(NOT_YET)).collect(),
            starts: due_ms.iter().map(|_| AtomicU8::new(0)).collect(),
            due_ms,
            seen: AtomicUsize::new(0),
            first_us: AtomicI64::new(i64::MAX),
            last_us: AtomicI64::new(i64::MIN),
        }
    }

    /// A task's handler started at `now_us`.
    pub(crate) fn started(&self, number: usize, now_us: i64) {
        let Some(due_ms) = self.due_ms.get(number) else { return };
        self.first_us.fetch_min(now_us, Ordering::Relaxed);
        self.last_us.fetch_max(now_us, Ordering::Relaxed);
        if self.starts[number].fetch_add(1, Ordering::Relaxed) == 0 {
            self.lateness_us[number].store(now_us - due_ms * 1000, Ordering::Relaxed);
            self.seen.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn seen(&self) -> usize {
        self.seen.load(Ordering::Relaxed)
    }

    pub(crate) fn len(&self) -> usize {
        self.due_ms.len()
    }

    pub(crate) fn lost(&self) -> usize {
        self.len() - self.seen()
    }

    pub(crate) fn doubled(&self) -> usize {
        self.starts.iter().filter(|starts| starts.load(Ordering::Relaxed) > 1).count()
    }

    /// Seconds between the first and the last start.
    pub(crate) fn seconds(&self) -> f64 {
        let (first, last) = (self.first_us.load(Ordering::Relaxed), self.last_us.load(Ordering::Relaxed));
        if last <= first { 0.0 } else { (last - first) as f64 / 1e6 }
    }

    /// The lateness of every task that started, in microseconds.
    pub(crate) fn lateness_us(&self) -> impl Iterator<Item = i64> + '_ {
        self.lateness_us.iter().map(|us| us.load(Ordering::Relaxed)).filter(|us| *us != NOT_YET)
    }
}
