//! The names of all metrics, with what they say.

use metrics::{KeyName, Recorder as _, Unit};
use metrics_exporter_prometheus::PrometheusRecorder;

macro_rules! names {
    ($($constant:ident $name:literal $kind:ident $labels:literal $doc:literal;)*) => {
        $(pub(super) const $constant: &str = $name;)*

        /// (name, kind, labels, meaning)
        const ALL: &[(&str, Kind, &str, &str)] = &[$(($name, Kind::$kind, $labels, $doc),)*];
    };
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

names! {
    TRANSITIONS "duebook_transitions_total" Counter "from, to, reason"
        "Committed changes of state; `from` is `none` for new tasks.";
    LATENESS "duebook_lateness_seconds" Histogram "queue"
        "Handler start minus due time.";
    STAGE "duebook_stage_seconds" Histogram "stage"
        "Time between two stages of a task: `created_committed` (request read to durable), `due_claimed` (due to claimed; 0 when claimed ahead), `claimed_started` (claimed, or due if later, to handler start), `started_finished` (the handler's run).";
    COMMIT_SECONDS "duebook_commit_seconds" Histogram ""
        "Transactions of the store, from begin to durable.";
    COMMIT_WRITES "duebook_commit_writes_size" Histogram ""
        "Writes in a transaction.";
    COMMIT_UNITS "duebook_commit_units_size" Histogram ""
        "Units (requests, claims, settles) in a transaction.";
    COMMIT_FAILURES "duebook_commit_failures_total" Counter ""
        "Transactions that failed.";
    CLAIM_SECONDS "duebook_claim_seconds" Histogram ""
        "Claims, from asked to durable.";
    CLAIM_TASKS "duebook_claim_tasks_size" Histogram ""
        "Tasks got by a claim.";
    POOL_WORKERS "duebook_pool_workers" Gauge ""
        "Workers of the pool.";
    POOL_BUSY "duebook_pool_busy" Gauge ""
        "Workers that run a handler.";
    POOL_WAITING "duebook_pool_waiting" Gauge ""
        "Due tasks that wait for a worker.";
    HINTS "duebook_wheel_hints" Gauge "queue"
        "Pending tasks that the queue's due source holds in memory.";
    HELD "duebook_claims_held" Gauge "queue"
        "Claimed tasks that are not settled yet.";
    SWEPT "duebook_swept_total" Counter "service, what"
        "Work found by background services; of the sweeper, tasks that their source had not named.";
    DEPTH "duebook_queue_depth" Gauge "queue, state"
        "Tasks by state, from maintained counters.";
    OLDEST_DUE "duebook_oldest_due_age_seconds" Gauge "queue"
        "How long the earliest pending task is overdue; 0 if none is.";
    STORE_BYTES "duebook_store_bytes" Gauge ""
        "Bytes of the store on disk.";
    STORE_WAITING "duebook_store_waiting_writes" Gauge ""
        "Writes that wait to be committed.";
    HTTP_REQUESTS "duebook_http_requests_total" Counter "status"
        "Answered requests by class of status (`2xx` …).";
    HTTP_REFUSED "duebook_http_refused_total" Counter "what"
        "Connections and requests turned away because there were too many.";
    HTTP_IN_FLIGHT "duebook_http_in_flight" Gauge ""
        "Requests that are worked on, long polls not counted.";
    HTTP_CONNECTIONS "duebook_http_connections" Gauge ""
        "Open connections.";
    HTTP_BODY_BYTES "duebook_http_body_bytes" Gauge ""
        "Bytes of request bodies in memory.";
}

pub(super) fn describe(recorder: &PrometheusRecorder) {
    for (name, kind, _, doc) in ALL {
        let key = KeyName::from_const_str(name);
        let unit = name.ends_with("_seconds").then_some(Unit::Seconds);
        match kind {
            Kind::Counter => recorder.describe_counter(key, unit, (*doc).into()),
            Kind::Gauge => recorder.describe_gauge(key, unit, (*doc).into()),
            Kind::Histogram => recorder.describe_histogram(key, unit, (*doc).into()),
        }
    }
}

/// `docs/metrics.md`, whole.
#[cfg(test)]
fn markdown() -> String {
    use std::fmt::Write as _;
    let mut page = String::from(
        "# Metrics\n\n`GET /metrics` answers them in Prometheus' text format (scope `read` once there are keys). Times are in \
         seconds.\nHistograms have fixed buckets: times from 0.1 ms to 300 s, sizes in powers of two to 4096. This page is \
         made of\n`crates/server/src/metrics/names.rs`: run the tests of `duebook-server` with `DUEBOOK_BLESS=1` to write it \
         anew.\n\n| metric | kind | labels | what it says |\n|---|---|---|---|\n",
    );
    for (name, kind, labels, doc) in ALL {
        let kind = format!("{kind:?}").to_lowercase();
        let _ = writeln!(page, "| `{name}` | {kind} | {labels} | {doc} |");
    }
    page
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_document_lists_every_metric() {
        crate::bless::check("docs/metrics.md", &super::markdown());
    }
}
