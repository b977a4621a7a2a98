//! Recurring schedules, retention.

use crate::world::{QUEUE, World, done, in_process};
use duebook_core::State;
use duebook_core::recurring::{CatchUp, Every};
use duebook_engine::{EngineConfig, Retention};
use duebook_store::Reader;

const MINUTE_MS: u64 = 60_000;

#[tokio::test(start_paused = true)]
async fn each_time_fires_once_and_missed_ones_as_the_schedule_says() {
    // Down for ten minutes and a half: ten times are missed.
    for (catch_up, after_restart) in [(CatchUp::One, 1), (CatchUp::All, 10), (CatchUp::Skip, 0)] {
        let world = World::new(EngineConfig::default(), in_process()).await;
        world.handle(0, done);
        let rule = Every::interval(MINUTE_MS, world.now_ms()).unwrap();
        let view = world.engine.put_recurring("r", QUEUE, &rule, None, catch_up).await.unwrap();
        assert_eq!(view.next_ms.len(), 5);
        world.pass(3 * MINUTE_MS + 1_000).await;
        assert_eq!(world.starts().len(), 3, "{catch_up:?}");
        let world = world.restart(EngineConfig::default(), 10 * MINUTE_MS + 30_000).await;
        world.handle(0, done);
        world.pass(10_000).await;
        assert_eq!(world.starts().len(), after_restart, "{catch_up:?}: {:?}", world.starts());
        world.pass(MINUTE_MS).await;
        assert_eq!(world.starts().len(), after_restart + 1, "{catch_up:?}");
        assert!(world.engine.delete_recurring("r").await.unwrap());
        world.pass(5 * MINUTE_MS).await;
        assert_eq!(world.starts().len(), after_restart + 1, "{catch_up:?}");
    }
}

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
