//! `bench schedule`: how fast tasks are taken, durably, over HTTP. Closed loop: a number of requests in flight.

use crate::cli::ScheduleArgs;
use crate::http::Connection;
use crate::node::{self, QUEUE, Served, payload};
use crate::progress;
use crate::report::{self, Percentiles, Report, rounded, settings};
use bytes::Bytes;
use hyper::Method;
use serde_json::json;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn task_json(out: &mut String, prefix: &str, number: usize, due_ms: i64) {
    let _ = write!(
        out,
        r#"{{"queue":"{QUEUE}","key":"{prefix}{number:09}","due_at":{due_ms},"payload":{}}}"#,
        payload(number)
    );
}

fn body(first: usize, count: usize, bulk: bool, due_ms: i64) -> Bytes {
    let mut text = String::with_capacity(count * 200 + 16);
    if bulk {
        text.push_str(r#"{"tasks":["#);
    }
    for number in first..first + count {
        if number > first {
            text.push(',');
        }
        task_json(&mut text, "t", number, due_ms + number as i64 / 100);
    }
    if bulk {
        text.push_str("]}");
    }
    Bytes::from(text)
}

pub(crate) async fn run(args: ScheduleArgs) -> anyhow::Result<bool> {
    let in_flight = args.in_flight.unwrap_or(if args.bulk { 4 } else { 64 }).max(1);
    let batch = if args.bulk { usize::from(args.batch) } else { 1 };
    let path = if args.bulk { "/v1/tasks/batch" } else { "/v1/tasks" };
    let served = Arc::new(Served::start(&args.common)?);
    let due_ms = node::now_us() / 1000 + 3_600_000;
    let bytes_before = served.store_bytes();
    let (next, errors, done) =
        (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let bar = progress::bar("schedule", args.tasks);
    let mut connections = Vec::new();
    for _ in 0..in_flight {
        connections.push(Connection::open(&served.url, served.key.as_deref()).await?);
    }
    let start_us = node::now_us();
    let mut flying = tokio::task::JoinSet::new();
    for mut connection in connections {
        let (next, errors, done, bar) = (next.clone(), errors.clone(), done.clone(), bar.clone());
        let (tasks, bulk) = (args.tasks, args.bulk);
        flying.spawn(async move {
            let mut histogram = report::histogram();
            loop {
                let first = next.fetch_add(batch, Ordering::Relaxed);
                if first >= tasks {
                    return anyhow::Ok(histogram);
                }
                let count = batch.min(tasks - first);
                let body = body(first, count, bulk, due_ms);
                let sent_us = node::now_us();
                let (status, answer) = connection.send(Method::POST, path, body).await?;
                report::record(&mut histogram, node::now_us() - sent_us);
                let taken = match (status.is_success(), bulk) {
                    (false, _) => 0,
                    (true, false) => 1,
                    (true, true) => created(&answer),
                };
                errors.fetch_add(count - taken.min(count), Ordering::Relaxed);
                done.fetch_add(taken, Ordering::Relaxed);
                bar.inc(count as u64);
            }
        });
    }
    let mut histogram = report::histogram();
    while let Some(finished) = flying.join_next().await {
        histogram.add(finished??)?;
    }
    let seconds = (node::now_us() - start_us) as f64 / 1e6;
    bar.finish_and_clear();
    let (done, errors) = (done.load(Ordering::Relaxed), errors.load(Ordering::Relaxed));
    let bytes_per_task = match (bytes_before, served.store_bytes()) {
        (Some(before), Some(after)) => json!(after.saturating_sub(before) / done.max(1) as u64),
        _ => json!(null),
    };
    Report {
        bench: "schedule",
        settings: settings(vec![
            ("bulk", json!(args.bulk)),
            ("batch", json!(batch)),
            ("in_flight", json!(in_flight)),
        ]),
        seconds: rounded(seconds),
        figures: vec![
            ("tasks", json!(done)),
            ("per_second", json!((done as f64 / seconds).round())),
            ("latency_ms", json!(Percentiles::of(&histogram))),
            ("errors", json!(errors)),
            ("store_bytes_per_task", bytes_per_task),
        ],
    }
    .print(args.common.json);
    Ok(errors == 0 && done == args.tasks)
}

/// Schedules tasks numbered from 0 with these due times, in batches of 1,000, four at a time.
pub(crate) async fn schedule_all(served: &Served, prefix: &str, due_ms: &[i64]) -> anyhow::Result<()> {
    let bar = progress::bar(if prefix == "p" { "pending" } else { "schedule" }, due_ms.len());
    let batches: Arc<Vec<(usize, Vec<i64>)>> = Arc::new(
        due_ms.chunks(1_000).enumerate().map(|(batch, dues)| (batch * 1_000, dues.to_vec())).collect(),
    );
    let next = Arc::new(AtomicUsize::new(0));
    let mut flying = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let mut connection = Connection::open(&served.url, served.key.as_deref()).await?;
        let (next, batches) = (Arc::clone(&next), Arc::clone(&batches));
        let (prefix, bar) = (prefix.to_owned(), bar.clone());
        flying.spawn(async move {
            while let Some((first, dues)) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                let mut text = String::from(r#"{"tasks":["#);
                for (i, due_ms) in dues.iter().enumerate() {
                    if i > 0 {
                        text.push(',');
                    }
                    task_json(&mut text, &prefix, first + i, *due_ms);
                }
                text.push_str("]}");
                let answer = connection.call(Method::POST, "/v1/tasks/batch", Bytes::from(text)).await?;
                anyhow::ensure!(created(&answer) == dues.len(), "a batch was not taken whole");
                bar.inc(dues.len() as u64);
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = flying.join_next().await {
        done??;
    }
    bar.finish_and_clear();
    Ok(())
}

/// How many items of a batch's answer are `"created":true`.
fn created(answer: &[u8]) -> usize {
    const WORD: &[u8] = br#""created":true"#;
    answer.windows(WORD.len()).filter(|window| window == &WORD).count()
}
