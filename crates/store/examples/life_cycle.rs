//! What a task's life costs the embedded store: inserts, claims and settles in batches, straight through the
//! committer, in wall time and in CPU time of the committer's thread (Linux).
//!
//! `cargo run --release -p duebook-store --example life_cycle [tasks] [batch]`

use duebook_core::{
    Command, LeaseKey, NewTask, OnConflict, Priority, QueueId, QueueSettings, SystemClock, TaskId, Verdict,
};
use duebook_store::{Act, SqliteConfig, SqliteStore, Unit, Write, Writer, Written};
use std::sync::Arc;

/// User and system time of the thread called "committer" in clock ticks of 10 ms.
fn committer_ticks() -> f64 {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return 0.0 };
    for task in tasks.flatten() {
        let Ok(stat) = std::fs::read_to_string(task.path().join("stat")) else { continue };
        if stat.contains("(committer)") {
            let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
            return fields[11].parse::<f64>().unwrap_or(0.0) + fields[12].parse::<f64>().unwrap_or(0.0);
        }
    }
    0.0
}

fn new_task(queue: QueueId, number: usize) -> NewTask {
    NewTask {
        queue,
        key: format!("t{number:09}"),
        due_ms: 1_800_000_000_000 + number as i64,
        payload: Some(format!(
            r#"{{"order":"20261201-{number:09}","user":"u{:06}","amount":129.50,"currency":"EUR","why":"unpaid"}}"#,
            number % 999_983
        )),
        priority: Priority::Normal,
        retry: None,
        on_conflict: OnConflict::Keep,
        created_ms: 1_800_000_000_000,
        trace_id: None,
        actor: None,
    }
}

#[tokio::main(flavor = "current_thread")]
#[allow(clippy::disallowed_methods)] // a measurement
async fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<usize>().expect("a number"));
    let (tasks, batch) = (args.next().unwrap_or(100_000), args.next().unwrap_or(1_000));
    let dir = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(&SqliteConfig::new(dir.path().join("x.db")), Arc::new(SystemClock))
        .expect("the store opens");
    let put = Write::PutQueue { name: "q".into(), settings: QueueSettings::default(), keep_existing: true };
    let queue = match store.submit(Unit::one(put)).await.expect("a queue").pop() {
        Some(Ok(Written::Queue(row))) => row.id,
        other => panic!("{other:?}"),
    };
    let boot = store.boot();
    let mut ids: Vec<TaskId> = Vec::new();
    let mut leases: Vec<LeaseKey> = Vec::new();
    for phase in ["insert", "claim", "settle"]
        .into_iter()
        .take(std::env::var("PHASES").map_or(3, |n| n.parse().unwrap()))
    {
        let (start, ticks) = (std::time::Instant::now(), committer_ticks());
        for first in (0..tasks).step_by(batch) {
            let range = first..(first + batch).min(tasks);
            let writes = range
                .map(|number| match phase {
                    "insert" => Write::Schedule(new_task(queue, number)),
                    "claim" => {
                        let claim = Command::Claim { boot, until_ms: i64::MAX, due_by_ms: i64::MAX };
                        Write::Act(Act::own(ids[number], claim))
                    }
                    _ => {
                        let lease = leases[number];
                        let settle = Command::Settle { lease, verdict: Verdict::Done, started_ms: 1 };
                        Write::Act(Act::own(ids[number], settle))
                    }
                })
                .collect();
            for result in store.submit(Unit::each(writes)).await.expect("a commit") {
                match result.expect("a result") {
                    Written::Scheduled { id, .. } => ids.push(id),
                    Written::Task(task) => leases.push(task.head.lease.expect("a lease").key),
                    _ => {}
                }
            }
        }
        let us = start.elapsed().as_secs_f64() * 1e6 / tasks as f64;
        let cpu_us = (committer_ticks() - ticks) * 10_000.0 / tasks as f64;
        println!("{phase:<7} {us:6.2} us a task, committer {cpu_us:6.2} us of CPU");
    }
    store.close().await;
}
