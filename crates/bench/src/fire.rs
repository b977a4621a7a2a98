//! `bench fire`: how late tasks start at a steady rate. All tasks are scheduled in advance, as in the figures
//! published for other systems; the load is open: a late task does not delay the next.

use crate::cli::{FireArgs, HandlerKind, Spread};
use crate::node::{self, InProcess, QUEUE, number_of};
use crate::progress;
use crate::report::{self, Percentiles, Report, rounded, settings};
use crate::tally::Tally;
use duebook_core::{HandlerSpec, QueueSettings};
use duebook_engine::{Engine, FromFn, Handler, Job, Outcome};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

mod served;

pub(crate) use served::drain_served;

pub(crate) fn in_process_settings(paused: bool) -> QueueSettings {
    QueueSettings { handler: HandlerSpec::Inprocess, concurrency: 2_000, paused, ..QueueSettings::default() }
}

/// A handler that does nothing but count.
pub(crate) fn counting_handler(tally: &Arc<Tally>) -> Arc<dyn Handler> {
    let tally = Arc::clone(tally);
    Arc::new(FromFn(move |job: Arc<Job>| {
        if let Some(number) = number_of("t", &job.task.key) {
            tally.started(number, node::now_us());
        }
        std::future::ready(Outcome::Done)
    }))
}

/// Due times over `secs` seconds from `start_ms`, in the order in which tasks are scheduled.
pub(crate) fn due_times(rate: u64, secs: u64, start_ms: i64, spread: Spread) -> Vec<i64> {
    let count = usize::try_from(rate * secs).unwrap_or(usize::MAX);
    let span_ms = secs * 1000;
    let mut random = 0x00d0_eb00_u64;
    (0..count as u64)
        .map(|number| {
            let offset_ms = match spread {
                Spread::Uniform => number * span_ms / count as u64,
                Spread::Fixed => number / rate * 1000,
                Spread::Random => {
                    random = random.wrapping_add(1);
                    duebook_core::random::split_mix(random.wrapping_mul(0x2545_f491_4f6c_dd1d)) % span_ms
                }
            };
            start_ms + offset_ms as i64
        })
        .collect()
}

/// Waits until every task has started, or `limit_s` after there was no more progress.
pub(crate) async fn wait_for_all(tally: &Tally, label: &str, limit_s: u64) {
    let bar = progress::bar(label, tally.len());
    let (mut seen, mut still) = (0, 0);
    while tally.seen() < tally.len() && still < limit_s * 20 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now_seen = tally.seen();
        still = if now_seen > seen { 0 } else { still + 1 };
        seen = now_seen;
        bar.set_position(seen as u64);
    }
    bar.finish_and_clear();
}

/// Waits until `tasks` tasks of the queue have succeeded in the store.
pub(crate) async fn wait_until_settled(engine: &Engine, tasks: usize) -> anyhow::Result<()> {
    for _ in 0..600 {
        if engine.queue_view(QUEUE).await?.depth[2] >= tasks as u64 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    anyhow::bail!("not all tasks were settled within 30 s of their start")
}

pub(crate) async fn run(args: FireArgs) -> anyhow::Result<bool> {
    let (tally, rss_bytes) = match args.handler {
        HandlerKind::Inprocess => in_process(&args).await?,
        HandlerKind::Lease | HandlerKind::Webhook => served::run(&args).await?,
    };
    let mut histogram = report::histogram();
    let mut early = 0;
    for us in tally.lateness_us() {
        early += usize::from(us < 0);
        report::record(&mut histogram, us);
    }
    let (lost, doubled) = (tally.lost(), tally.doubled());
    let seconds = tally.seconds();
    Report {
        bench: "fire",
        settings: settings(vec![
            ("rate", json!(args.rate)),
            ("secs", json!(args.secs)),
            ("handler", json!(args.handler.as_str())),
            ("pending", json!(args.pending)),
            ("due", json!(args.due.as_str())),
        ]),
        seconds: rounded(seconds),
        figures: vec![
            ("tasks", json!(tally.len())),
            ("asked_per_second", json!(args.rate)),
            ("achieved_per_second", json!((tally.seen() as f64 / seconds.max(0.001)).round())),
            ("lost", json!(lost)),
            ("doubled", json!(doubled)),
            ("early", json!(early)),
            ("lateness_ms", json!(Percentiles::of(&histogram))),
            ("rss_bytes", json!(rss_bytes)),
        ],
    }
    .print(args.common.json);
    Ok(lost == 0 && doubled == 0 && early == 0)
}

/// When the first task is due: late enough that all are scheduled by then.
fn start_ms(tasks: usize) -> i64 {
    node::now_us() / 1000 + 2_000 + tasks as i64 / 30
}

async fn in_process(args: &FireArgs) -> anyhow::Result<(Arc<Tally>, Option<u64>)> {
    let node = InProcess::start(&args.common).await?;
    let node = if args.pending > 0 {
        node.engine.put_queue(QUEUE, in_process_settings(false)).await?;
        node::load(&node.engine, "p", &node::pending_times(args.pending)).await?;
        let (node, took) = node.restart().await?;
        eprintln!("{} pending tasks: ready after {:.3} s", args.pending, took.as_secs_f64());
        node
    } else {
        node
    };
    let engine = &node.engine;
    let due_ms = due_times(args.rate, args.secs, start_ms((args.rate * args.secs) as usize), args.due);
    let tally = Arc::new(Tally::new(due_ms.clone()));
    engine.register(QUEUE, counting_handler(&tally));
    engine.put_queue(QUEUE, in_process_settings(false)).await?;
    node::load(engine, "t", &due_ms).await?;
    drop(due_ms);
    wait_for_all(&tally, "fire", args.secs + 30).await;
    let rss_bytes = report::rss_bytes(None);
    wait_until_settled(engine, tally.len()).await?;
    engine.stop(1_000).await;
    Ok((tally, rss_bytes))
}
