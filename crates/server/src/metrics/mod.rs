//! Metrics for Prometheus: the engine's observer, the store's commits, the server's own counts.
//!
//! Handles are registered once and kept, because several are touched per task. `docs/metrics.md` explains each.

mod names;
mod observer;
mod pace;
mod scrape;

pub(crate) use pace::Pace;

use duebook_core::{Clock, State};
use duebook_engine::Observer;
use duebook_store::SqliteStore;
use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder as _};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use pace::Window;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

const METADATA: Metadata<'static> = Metadata::new("duebook", Level::INFO, None);

/// Upper bounds of histograms of times, in seconds.
const SECONDS: [f64; 20] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.008, 0.015, 0.03, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 15.0, 60.0, 300.0,
];
/// Upper bounds of histograms of sizes.
const SIZES: [f64; 13] =
    [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0, 2_048.0, 4_096.0];

/// Why the metrics could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("metrics cannot be set up: {0}")]
pub struct MetricsError(String);

/// All metrics of one node. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Arc<dyn Clock>,
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    /// By from (none first), to and reason.
    transitions: Vec<OnceLock<Counter>>,
    queues: RwLock<HashMap<Arc<str>, Arc<QueueHandles>>>,
    swept: Mutex<HashMap<(&'static str, &'static str), Counter>>,
    created_committed: Histogram,
    due_claimed: Histogram,
    claimed_started: Histogram,
    started_finished: Histogram,
    commit_seconds: Histogram,
    commit_writes: Histogram,
    commit_units: Histogram,
    commit_failures: Counter,
    claim_seconds: Histogram,
    claim_tasks: Histogram,
    pool_workers: Gauge,
    pool_busy: Gauge,
    pool_waiting: Gauge,
    http_requests: [Counter; 4],
    http_refused: [Counter; 2],
}

/// What is kept per queue.
struct QueueHandles {
    lateness: Histogram,
    hints: Gauge,
    held: Gauge,
    window: Mutex<Window>,
}

/// Why a connection or request was turned away before it was looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TurnedAway {
    Connection,
    Request,
}

impl Metrics {
    /// Metrics of a node that goes by this clock.
    ///
    /// # Errors
    /// When the recorder cannot be built.
    pub fn new(clock: Arc<dyn Clock>) -> Result<Self, MetricsError> {
        let suffix = |text: &str| Matcher::Suffix(text.to_owned());
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(suffix("_seconds"), &SECONDS)
            .and_then(|builder| builder.set_buckets_for_metric(suffix("_size"), &SIZES))
            .map_err(|error| MetricsError(error.to_string()))?
            .build_recorder();
        names::describe(&recorder);
        let stage = |name| histogram(&recorder, names::STAGE, vec![Label::new("stage", name)]);
        let plain = |name| histogram(&recorder, name, Vec::new());
        let status = |class| counter(&recorder, names::HTTP_REQUESTS, vec![Label::new("status", class)]);
        let refused = |what| counter(&recorder, names::HTTP_REFUSED, vec![Label::new("what", what)]);
        let inner = Inner {
            clock,
            handle: recorder.handle(),
            transitions: (0..observer::TRANSITIONS).map(|_| OnceLock::new()).collect(),
            queues: RwLock::default(),
            swept: Mutex::default(),
            created_committed: stage("created_committed"),
            due_claimed: stage("due_claimed"),
            claimed_started: stage("claimed_started"),
            started_finished: stage("started_finished"),
            commit_seconds: plain(names::COMMIT_SECONDS),
            commit_writes: plain(names::COMMIT_WRITES),
            commit_units: plain(names::COMMIT_UNITS),
            commit_failures: counter(&recorder, names::COMMIT_FAILURES, Vec::new()),
            claim_seconds: plain(names::CLAIM_SECONDS),
            claim_tasks: plain(names::CLAIM_TASKS),
            pool_workers: gauge(&recorder, names::POOL_WORKERS, Vec::new()),
            pool_busy: gauge(&recorder, names::POOL_BUSY, Vec::new()),
            pool_waiting: gauge(&recorder, names::POOL_WAITING, Vec::new()),
            http_requests: [status("2xx"), status("3xx"), status("4xx"), status("5xx")],
            http_refused: [refused("connection"), refused("request")],
            recorder,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The ear to give to the engine.
    #[must_use]
    pub fn observer(&self) -> Arc<dyn Observer> {
        Arc::new(self.clone())
    }

    /// Hears of a store's commits from now on.
    pub fn watch(&self, store: &SqliteStore) {
        let inner = Arc::clone(&self.inner);
        store.set_commit_observer(Box::new(move |report| {
            if report.ok {
                inner.commit_seconds.record(seconds_of_us(report.took_us));
                inner.commit_writes.record(report.writes as f64);
                inner.commit_units.record(report.units as f64);
            } else {
                inner.commit_failures.increment(1);
            }
        }));
    }

    /// A queue's starts per second and lateness over the last minute.
    pub(crate) fn pace(&self, queue: &str, now_ms: i64) -> Pace {
        let handles = self.inner.queue(queue);
        let window = handles.window.lock().unwrap_or_else(PoisonError::into_inner);
        window.pace(now_ms)
    }

    /// Counts an answered request.
    pub(crate) fn answered(&self, status: u16) {
        let class = usize::from(status / 100).clamp(2, 5) - 2;
        self.inner.http_requests[class].increment(1);
    }

    /// Counts what was turned away.
    pub(crate) fn turned_away(&self, what: TurnedAway) {
        self.inner.http_refused[what as usize].increment(1);
    }

    /// Folds what was recorded into the histograms; to be called about every second.
    pub(crate) fn upkeep(&self) {
        self.inner.handle.run_upkeep();
    }
}

impl Inner {
    fn queue(&self, name: &str) -> Arc<QueueHandles> {
        if let Some(handles) = self.queues.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            return Arc::clone(handles);
        }
        let labels = || vec![Label::new("queue", name.to_owned())];
        let mut queues = self.queues.write().unwrap_or_else(PoisonError::into_inner);
        let handles = queues.entry(Arc::from(name)).or_insert_with(|| {
            Arc::new(QueueHandles {
                lateness: histogram(&self.recorder, names::LATENESS, labels()),
                hints: gauge(&self.recorder, names::HINTS, labels()),
                held: gauge(&self.recorder, names::HELD, labels()),
                window: Mutex::new(Window::default()),
            })
        });
        Arc::clone(handles)
    }
}

fn counter(recorder: &PrometheusRecorder, name: &'static str, labels: Vec<Label>) -> Counter {
    recorder.register_counter(&Key::from_parts(name, labels), &METADATA)
}

fn gauge(recorder: &PrometheusRecorder, name: &'static str, labels: Vec<Label>) -> Gauge {
    recorder.register_gauge(&Key::from_parts(name, labels), &METADATA)
}

fn histogram(recorder: &PrometheusRecorder, name: &'static str, labels: Vec<Label>) -> Histogram {
    recorder.register_histogram(&Key::from_parts(name, labels), &METADATA)
}

/// Microseconds as seconds; what a clock that jumped back makes negative counts as nought.
fn seconds_of_us(us: i64) -> f64 {
    us.max(0) as f64 / 1e6
}

fn seconds_of_ms(ms: i64) -> f64 {
    ms.max(0) as f64 / 1e3
}

fn state_label(state: Option<State>) -> &'static str {
    state.map_or("none", State::as_str)
}
