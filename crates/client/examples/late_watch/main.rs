//! Watches promises: plays recorded order events at many times their speed, schedules a check at each order's promised
//! date, calls it off when the order is delivered or cancelled, and reports the orders whose check found them late.
//!
//! ```text
//! cargo run --release -p duebook-client --example late_watch -- --expect-self
//! ```
//!
//! The server may be killed and restarted while it runs. Exit code 0: all was played (with `--expect-self`: and the
//! reported orders are the late ones); 1: not; 2: wrong usage. At 200,000 times the speed, a millisecond is 200 seconds.

mod book;
mod player;
mod recording;
mod report;
#[cfg(test)]
mod tests;
mod watch;

use anyhow::{Context, Result};
use book::Book;
use clap::Parser;
use duebook_client::{Client, LeasedTask, Outcome, TaskContext, Worker};
use player::{Desk, Mapping, play};
use recording::Event;
use report::Report;
use serde::Deserialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use watch::Watch;

/// Plays recorded order events and reports the orders that miss their promised date.
#[derive(Debug, Clone, Parser)]
#[command(name = "late_watch")]
struct Arguments {
    /// The server.
    #[arg(long, default_value = "http://127.0.0.1:7700", env = "DUEBOOK_URL")]
    server: String,
    /// API key, if the server wants one.
    #[arg(long, env = "DUEBOOK_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
    /// The recording: CloudEvents as JSON lines, gzipped [default: data/olist.events.jsonl.gz in DUEBOOK_SHARED or ../shared]
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Virtual seconds per second.
    #[arg(long, default_value_t = 200_000.0, value_parser = speed)]
    speed: f64,
    /// Play the events of the first N orders only.
    #[arg(long, value_name = "N", default_value_t = usize::MAX, hide_default_value = true)]
    limit_orders: usize,
    /// The queue of the checks.
    #[arg(long, default_value = "late-checks")]
    queue: String,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Write the reported orders to this file, one a line.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Compare with what the recording itself says.
    #[arg(long)]
    expect_self: bool,
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if speed.is_finite() && speed > 0.0 => Ok(speed),
        _ => Err("must be a positive number".into()),
    }
}

/// What a check knows.
#[derive(Debug, Deserialize)]
struct Check {
    order: String,
}

async fn check(watch: Arc<Watch>, task: LeasedTask, context: TaskContext) -> Outcome {
    match task.payload.parse::<Check>() {
        Ok(check) => {
            if watch.check(&check.order, context.late_ms()) {
                eprintln!("late: {}", check.order);
            }
            Outcome::Done
        }
        Err(why) => Outcome::permanent(why),
    }
}

async fn watch(arguments: &Arguments, events: &[Event]) -> Result<Report> {
    let mut client = Client::builder(&arguments.server);
    if let Some(key) = &arguments.api_key {
        client = client.api_key(key);
    }
    let client = client.build()?;
    let watch = Arc::new(Watch::new(Book::of(events)));
    let worker =
        Worker::new(client.clone(), &arguments.queue).name("late_watch").concurrency(64).lease_ms(10_000);
    let stop = worker.stop_handle();
    let judge = Arc::clone(&watch);
    let checks = tokio::spawn(worker.run(move |task, context| check(Arc::clone(&judge), task, context)));

    let mapping = Mapping::new(watch.book.first, arguments.speed, Duration::from_millis(300));
    let desk = Desk { client, queue: arguments.queue.clone(), mapping, watch: Arc::clone(&watch) };
    let began = Instant::now();
    let played = play(&desk, events).await;
    stop.stop();
    let worker = checks.await.context("the worker panicked")??;
    Ok(Report::new(&watch, events.len(), played?, began.elapsed(), worker))
}

async fn run(arguments: Arguments) -> Result<bool> {
    let path = arguments.events.clone().unwrap_or_else(recording::default_path);
    let events = recording::read(&path, arguments.limit_orders)?;
    let report = watch(&arguments, &events).await?;
    if arguments.json {
        println!("{}", report.json());
    } else {
        println!("{}", report.text());
    }
    if let Some(out) = &arguments.out {
        std::fs::write(out, report.list()).with_context(|| format!("cannot write {}", out.display()))?;
    }
    Ok(!arguments.expect_self || report.is_as_expected())
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("the reported orders are not the late ones");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("late_watch: {error:#}");
            ExitCode::FAILURE
        }
    }
}
