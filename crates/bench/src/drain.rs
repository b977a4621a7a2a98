//! `bench drain`: how fast overdue tasks are worked off, from the first start to the last.

use crate::cli::{DrainArgs, HandlerKind};
use crate::fire;
use crate::node::{self, InProcess, QUEUE};
use crate::report::{Report, rounded, settings};
use crate::tally::Tally;
use serde_json::json;
use std::sync::Arc;

pub(crate) async fn run(args: DrainArgs) -> anyhow::Result<bool> {
    let due_ms = vec![node::now_us() / 1000 - 60_000; args.tasks];
    let tally = Arc::new(Tally::new(due_ms));
    match args.handler {
        HandlerKind::Inprocess => in_process(&args, &tally).await?,
        HandlerKind::Lease | HandlerKind::Webhook => fire::drain_served(&args, &tally).await?,
    }
    let seconds = tally.seconds();
    let (lost, doubled) = (tally.lost(), tally.doubled());
    let per_second = if seconds > 0.0 { (tally.seen() as f64 / seconds).round() } else { 0.0 };
    Report {
        bench: "drain",
        settings: settings(vec![("handler", json!(args.handler.as_str()))]),
        seconds: rounded(seconds),
        figures: vec![
            ("tasks", json!(args.tasks)),
            ("per_second", json!(per_second)),
            ("lost", json!(lost)),
            ("doubled", json!(doubled)),
        ],
    }
    .print(args.common.json);
    Ok(lost == 0 && doubled == 0)
}

async fn in_process(args: &DrainArgs, tally: &Arc<Tally>) -> anyhow::Result<()> {
    let node = InProcess::start(&args.common).await?;
    let engine = &node.engine;
    engine.register(QUEUE, fire::counting_handler(tally));
    engine.put_queue(QUEUE, fire::in_process_settings(true)).await?;
    node::load(engine, "t", &vec![node::now_us() / 1000 - 60_000; args.tasks]).await?;
    // A fresh start, as after an outage: nothing is in memory yet.
    let (node, _) = node.restart().await?;
    let engine = &node.engine;
    engine.register(QUEUE, fire::counting_handler(tally));
    engine.set_paused(QUEUE, false).await?;
    fire::wait_for_all(tally, "drain", 60).await;
    // The last settles are part of the work.
    fire::wait_until_settled(engine, args.tasks).await?;
    engine.stop(1_000).await;
    Ok(())
}
