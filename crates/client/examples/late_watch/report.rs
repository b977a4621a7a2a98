//! What is printed at the end.

use crate::player::Lag;
use crate::watch::{Seen, Watch};
use duebook_client::RunReport;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) seen: Seen,
    pub(crate) missing: Vec<Arc<str>>,
    pub(crate) extra: Vec<Arc<str>>,
    borderline: BTreeSet<Arc<str>>,
    expected: usize,
    orders: usize,
    events: usize,
    lag: Lag,
    took: Duration,
    worker: RunReport,
}

fn ms(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

impl Report {
    pub(crate) fn new(watch: &Watch, events: usize, lag: Lag, took: Duration, worker: RunReport) -> Self {
        let (seen, late, borderline) = (watch.seen(), watch.book.late(), watch.book.borderline());
        let outside = |a: &BTreeSet<Arc<str>>, b: &BTreeSet<Arc<str>>| -> Vec<Arc<str>> {
            a.difference(b).filter(|order| !borderline.contains(*order)).cloned().collect()
        };
        Self {
            missing: outside(&late, &seen.reported),
            extra: outside(&seen.reported, &late),
            expected: late.len(),
            orders: watch.book.orders.len(),
            borderline,
            seen,
            events,
            lag,
            took,
            worker,
        }
    }

    /// Whether the reported orders are those that the recording makes late, give or take the borderline ones.
    pub(crate) fn is_as_expected(&self) -> bool {
        self.missing.is_empty() && self.extra.is_empty()
    }

    /// One order a line.
    pub(crate) fn list(&self) -> String {
        self.seen.reported.iter().fold(String::new(), |mut list, order| {
            let _ = writeln!(list, "{order}");
            list
        })
    }

    fn sha256(&self) -> String {
        Sha256::digest(self.list().as_bytes()).iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }

    fn check_late(&self, quantile: f64) -> i64 {
        let sorted = &self.seen.check_late_ms;
        let at = (sorted.len().saturating_sub(1) as f64 * quantile).round() as usize;
        sorted.get(at).copied().unwrap_or(0)
    }

    fn borderline_reported(&self) -> usize {
        self.borderline.intersection(&self.seen.reported).count()
    }

    pub(crate) fn json(&self) -> Value {
        let stats = &self.worker.stats;
        json!({
            "example": "late_watch", "orders": self.orders, "events": self.events,
            "reported": self.seen.reported.len(), "expected": self.expected, "as_expected": self.is_as_expected(),
            "missing": self.missing.iter().map(|order| &**order).collect::<Vec<_>>(),
            "extra": self.extra.iter().map(|order| &**order).collect::<Vec<_>>(),
            "borderline": self.borderline.iter().map(|order| &**order).collect::<Vec<_>>(),
            "borderline_reported": self.borderline_reported(),
            "list_sha256": self.sha256(), "seconds": ms(self.took) / 1e3,
            "player_lag_ms": {"mean": ms(self.lag.mean), "max": ms(self.lag.max)},
            "check_late_ms": {"p50": self.check_late(0.5), "p99": self.check_late(0.99), "max": self.check_late(1.0)},
            "checked": self.seen.checked, "cancelled": self.seen.cancelled,
            "already_fired": self.seen.already_fired, "judged_on_cancel": self.seen.judged_on_cancel,
            "worker": {"leased": stats.leased, "done": stats.done, "lost": stats.lost, "unsettled": stats.unsettled,
                "lease_errors": stats.lease_errors, "settle_errors": stats.settle_errors},
        })
    }

    pub(crate) fn text(&self) -> String {
        let seen = &self.seen;
        format!(
            "{} of {} orders reported late ({} expected), list sha256 {}\n\
             {} borderline orders (delivered within 3 hours of the promise), {} of them reported\n\
             {} not reported but late, {} reported but not late\n\
             {} events in {:.1} s; player lag mean {} ms, max {} ms\n\
             {} checks ran ({} ms late at p50, {} at p99, {} at most), {} called off; {} cancels found the check fired, {} \
             called off after its time",
            seen.reported.len(),
            self.orders,
            self.expected,
            self.sha256(),
            self.borderline.len(),
            self.borderline_reported(),
            self.missing.len(),
            self.extra.len(),
            self.events,
            self.took.as_secs_f64(),
            ms(self.lag.mean),
            ms(self.lag.max),
            seen.checked,
            self.check_late(0.5),
            self.check_late(0.99),
            self.check_late(1.0),
            seen.cancelled,
            seen.already_fired,
            seen.judged_on_cancel,
        )
    }
}
