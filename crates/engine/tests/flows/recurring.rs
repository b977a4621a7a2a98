//! Recurring schedules.

use crate::support::{QUEUE, World, done, in_process};
use duebook_core::recurring::{CatchUp, Every};
use duebook_engine::EngineConfig;

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
async fn a_changed_rule_counts_from_the_change_and_a_restart_fires_nothing_twice() {
    let world = World::new(EngineConfig::default(), in_process()).await;
    world.handle(0, done);
    let rule = |every_ms: u64| Every::interval(every_ms, world.now_ms()).unwrap();
    world.engine.put_recurring("r", QUEUE, &rule(MINUTE_MS), None, CatchUp::All).await.unwrap();
    world.pass(2 * MINUTE_MS + 500).await;
    assert_eq!(world.starts().len(), 2);
    world.engine.put_recurring("r", QUEUE, &rule(10_000), Some("5".into()), CatchUp::All).await.unwrap();
    world.pass(30_500).await;
    let starts = world.starts();
    assert_eq!(starts.len(), 5, "{starts:?}");
    // Up and down in the middle between two times: none is missed, none is doubled.
    let mut world = world;
    for _ in 0..5 {
        world = world.restart(EngineConfig::default(), 2_000).await;
        world.handle(0, done);
        world.pass(8_000).await;
        assert_eq!(world.starts().len(), 1, "{:?}", world.starts());
    }
}

#[tokio::test(start_paused = true)]
async fn a_cron_rule_keeps_its_zone() {
    // The world begins at 2027-01-15T08:00Z, which is 17:00 in Tokyo.
    let world = World::new(EngineConfig::default(), in_process()).await;
    world.handle(0, done);
    let rule = Every::cron("30 17,18 * * *", "Asia/Tokyo").unwrap();
    world.engine.put_recurring("r", QUEUE, &rule, None, CatchUp::One).await.unwrap();
    world.pass(2 * 3_600_000).await;
    let half_an_hour_ms = 1_800_000;
    let late_ms: Vec<i64> = world
        .starts()
        .iter()
        .zip([half_an_hour_ms, half_an_hour_ms + 3_600_000])
        .map(|(start, due_ms)| start.at_ms - due_ms)
        .collect();
    assert_eq!(world.starts().len(), 2);
    assert!(late_ms.iter().all(|late_ms| (0..100).contains(late_ms)), "{late_ms:?}");
    assert!(world.starts()[0].key.starts_with("r@2027-01-15T08:30:00"), "{:?}", world.starts());
}
