//! What is kept of ended tasks.

use crate::support::{QUEUE, World, done, in_process, request};
use duebook_core::State;
use duebook_core::retry::FailureClass;
use duebook_engine::{EngineConfig, Outcome, Retention, TaskRef};
use duebook_store::Reader;

#[tokio::test(start_paused = true)]
async fn retention_exports_then_deletes_what_is_old_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let retention = Retention {
        succeeded_ms: Some(60_000),
        export_dir: Some(folder.path().to_path_buf()),
        walk_pause_ms: 1_000,
        ..Retention::default()
    };
    let world = World::new(EngineConfig { retention, ..EngineConfig::default() }, in_process()).await;
    world.handle(0, done);
    for number in 0..20 {
        world.schedule(&format!("old{number}"), 0).await;
    }
    let waiting = world.schedule("waiting", 3_600_000).await;
    world.pass(65_000).await;
    let young = world.schedule("young", 0).await;
    world.pass(2_000).await;
    let counts = world.store.counts().await.unwrap();
    let succeeded: u64 =
        counts.iter().filter(|(_, state, _)| *state == State::Succeeded).map(|(_, _, n)| *n).sum();
    assert_eq!(succeeded, 1);
    assert_eq!(world.task(young).await.head.state, State::Succeeded);
    assert_eq!(world.task(waiting).await.head.state, State::Pending);
    let mut lines = 0;
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        for line in std::fs::read_to_string(entry.unwrap().path()).unwrap().lines() {
            let task: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(task["state"], "succeeded");
            assert_eq!(task["trail"].as_array().unwrap().len(), 3);
            lines += 1;
        }
    }
    assert_eq!(lines, 20);
}

#[tokio::test(start_paused = true)]
async fn an_export_that_cannot_be_written_keeps_everything() {
    let retention = Retention {
        succeeded_ms: Some(1_000),
        export_dir: Some("/dev/null/not-a-folder".into()),
        walk_pause_ms: 1_000,
        ..Retention::default()
    };
    let world = World::new(EngineConfig { retention, ..EngineConfig::default() }, in_process()).await;
    world.handle(0, done);
    let id = world.schedule("t", 0).await;
    world.pass(60_000).await;
    assert_eq!(world.task(id).await.head.state, State::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn each_way_to_end_has_its_own_age() {
    let retention = Retention {
        succeeded_ms: Some(10_000),
        cancelled_ms: Some(20_000),
        dead_ms: Some(30_000),
        walk_pause_ms: 500,
        slice_items: 2,
        ..Retention::default()
    };
    let world = World::new(EngineConfig { retention, ..EngineConfig::default() }, in_process()).await;
    world.handle(0, |job| match job.task.key.as_str() {
        "dead" => Outcome::failed(FailureClass::Permanent, "planted"),
        _ => Outcome::Done,
    });
    let waiting = world.schedule("waiting", 3_600_000).await;
    let succeeded = world.schedule("succeeded", 0).await;
    let dead = world.schedule("dead", 0).await;
    let cancelled = world.submit(request("cancelled", world.now_ms() + 60_000)).await;
    world
        .engine
        .cancel(&TaskRef::Key { queue: QUEUE.into(), key: "cancelled".into() }, None, None)
        .await
        .unwrap();
    for (after_ms, kept) in [
        (9_000, [true; 3]),
        (3_000, [false, true, true]),
        (10_000, [false, false, true]),
        (10_000, [false; 3]),
    ] {
        world.pass(after_ms).await;
        let mut found = [false; 3];
        for (found, id) in found.iter_mut().zip([succeeded, cancelled, dead]) {
            *found = world.store.task(id).await.unwrap().is_some();
        }
        assert_eq!(found, kept, "at {}", world.now_ms());
    }
    assert_eq!(world.task(waiting).await.head.state, State::Pending);
    assert_eq!(world.store.trail(dead, 0, 10).await.unwrap().len(), 0, "the trail goes with its task");
}
