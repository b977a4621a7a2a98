//! Finding what is due: bounded memory, lost offers, a store that cannot be read.

use crate::support::{QUEUE, World, done, in_process};
use duebook_core::{QueueSettings, Tier};
use duebook_engine::EngineConfig;
use duebook_engine::source::SourceLimits;

const LATE_MS_MAX: i64 = 5;

fn tight() -> EngineConfig {
    let source = SourceLimits { items_max: 40, page_items: 10, horizon_ms: 2_000, ..SourceLimits::default() };
    EngineConfig { source, ..EngineConfig::default() }
}

fn assert_on_time(world: &World, count: usize, late_ms_max: i64) {
    let late_ms = world.lateness();
    assert_eq!(late_ms.len(), count);
    let worst_ms = late_ms.iter().max().unwrap();
    assert!(late_ms.iter().all(|late_ms| (0..=late_ms_max).contains(late_ms)), "{worst_ms} ms late");
}

#[tokio::test(start_paused = true)]
async fn tasks_behind_the_horizon_cost_no_memory_and_come_in_time() {
    let world = World::new(tight(), in_process()).await;
    world.handle(0, done);
    world.schedule_all("far", (0..100).map(|number| 60_000 + number * 7)).await;
    world.pass(50_000).await;
    assert_eq!(world.seen.hints_max(), 0, "nothing of it is within the horizon");
    world.pass(20_000).await;
    assert_on_time(&world, 100, LATE_MS_MAX);
    assert!(world.seen.hints_max() <= 40, "{} in memory", world.seen.hints_max());
}

#[tokio::test(start_paused = true)]
async fn when_memory_is_full_far_tasks_make_room_for_near_ones() {
    let world = World::new(tight(), in_process()).await;
    world.handle(0, done);
    world.pass(10).await;
    world.schedule_all("far", (0..200).map(|number| 1_500 + number * 2)).await;
    world.pass(50).await;
    // One by one, as they would come, and all of them before what memory is full of.
    for number in 0..60 {
        world.schedule_all(&format!("near{number}-"), std::iter::once(400 - number)).await;
        world.pass(2).await;
    }
    world.pass(5_000).await;
    assert_on_time(&world, 260, LATE_MS_MAX);
    assert!(world.seen.hints_max() <= 40, "{} in memory", world.seen.hints_max());
}

#[tokio::test(start_paused = true)]
async fn more_overdue_tasks_than_memory_allows_are_worked_off_without_the_sweep() {
    for tier in [Tier::Wheel, Tier::Db] {
        let settings = QueueSettings { tier, paused: true, ..in_process() };
        let world = World::new(tight(), settings.clone()).await;
        world.handle(0, done);
        world.schedule_all("overdue", (0..500).map(|_| 0)).await;
        world.pass(10_000).await;
        world.engine.put_queue(QUEUE, QueueSettings { paused: false, ..settings }).await.unwrap();
        world.pass(900).await;
        assert_eq!(world.starts().len(), 500, "{tier:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn offers_that_did_not_fit_into_the_inbox_are_found_by_the_source() {
    let world = World::new(EngineConfig::default(), in_process()).await;
    world.handle(0, done);
    world.pass(10).await;
    // One request, so that the runner has no turn in between: the last ones overflow.
    let far = std::iter::repeat_n(3_600_000, 100_000);
    world.schedule_all("t", far.chain([500, 600, 700])).await;
    world.pass(900).await;
    assert_on_time(&world, 3, LATE_MS_MAX);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_be_read_for_a_while_delays_no_longer_than_that() {
    for (tier, late_ms_max) in [(Tier::Wheel, 250), (Tier::Db, 1_050)] {
        let world = World::new(tight(), QueueSettings { tier, ..in_process() }).await;
        world.handle(0, done);
        world.schedule_all("t", [10_000, 20_000].into_iter()).await;
        world.pass(1_000).await;
        world.fail_reads(true);
        world.pass(12_000).await;
        assert!(world.starts().is_empty(), "{tier:?}");
        world.fail_reads(false);
        world.pass(15_000).await;
        let late_ms = world.lateness();
        assert_eq!(late_ms.len(), 2, "{tier:?}");
        assert!((3_000..=3_000 + late_ms_max).contains(&late_ms[0]), "{tier:?} {late_ms:?}");
        assert!((0..=late_ms_max).contains(&late_ms[1]), "{tier:?} {late_ms:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_resting_poll_is_woken_by_a_task_that_is_due_soon() {
    let world = World::new(EngineConfig::default(), QueueSettings { tier: Tier::Db, ..in_process() }).await;
    world.handle(0, done);
    for round in 0..20 {
        world.pass(5_000 + round * 37).await;
        world.schedule_all(&format!("{round}-"), [0, 300].into_iter()).await;
    }
    world.pass(5_000).await;
    assert_on_time(&world, 40, 20);
}
