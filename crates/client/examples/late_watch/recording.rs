//! The recorded events: CloudEvents as JSON lines, gzipped, sorted by event time.

use anyhow::{Context, Result, ensure};
use duebook_client::Timestamp;
use serde::Deserialize;
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What happened to an order. Payments and shipments do not matter to a promise, but are played too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Happening {
    Created { promised: Timestamp },
    Delivered,
    Cancelled,
    Other,
}

#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) time: Timestamp,
    pub(crate) order: Arc<str>,
    pub(crate) happening: Happening,
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    subject: String,
    time: Timestamp,
    #[serde(default)]
    data: Data,
}

#[derive(Deserialize, Default)]
struct Data {
    promised: Option<Timestamp>,
}

/// Where the recording lies unless an argument says otherwise.
pub(crate) fn default_path() -> PathBuf {
    let shared = std::env::var_os("DUEBOOK_SHARED").map(PathBuf::from);
    let shared = shared.unwrap_or_else(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or_else(|| Path::new("."));
        root.join("../shared")
    });
    shared.join("data/olist.events.jsonl.gz")
}

/// Reads a recording, of the first `orders_max` orders only.
pub(crate) fn read(path: &Path, orders_max: usize) -> Result<Vec<Event>> {
    let file = std::fs::File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    parse(flate2::read::GzDecoder::new(file), orders_max)
}

fn parse(lines: impl Read, orders_max: usize) -> Result<Vec<Event>> {
    let mut orders: HashSet<Arc<str>> = HashSet::new();
    let mut left_out: HashSet<String> = HashSet::new();
    let mut events: Vec<Event> = Vec::new();
    for (number, line) in (1..).zip(BufReader::new(lines).lines()) {
        let line: Line = serde_json::from_str(&line?).with_context(|| format!("line {number}"))?;
        let order = match orders.get(line.subject.as_str()) {
            Some(order) => Arc::clone(order),
            None if orders.len() >= orders_max || left_out.contains(&line.subject) => {
                left_out.insert(line.subject);
                continue;
            }
            None => {
                let order: Arc<str> = line.subject.into();
                orders.insert(Arc::clone(&order));
                order
            }
        };
        let happening = match line.kind.as_str() {
            "order.created" => {
                let promised =
                    line.data.promised.with_context(|| format!("line {number}: no promised date"))?;
                Happening::Created { promised }
            }
            "order.delivered" => Happening::Delivered,
            "order.cancelled" => Happening::Cancelled,
            _ => Happening::Other,
        };
        let sorted = events.last().is_none_or(|last| last.time <= line.time);
        ensure!(sorted, "line {number}: events are not in event-time order");
        events.push(Event { time: line.time, order, happening });
    }
    ensure!(!events.is_empty(), "the recording is empty");
    Ok(events)
}
