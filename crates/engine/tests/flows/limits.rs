//! How many at once, how fast, and who first.

use crate::support::{QUEUE, Start, World, done, in_process, request};
use duebook_core::pool::PoolLimits;
use duebook_core::{Priority, QueueSettings};
use duebook_engine::{EngineConfig, ScheduleRequest};

/// Most starts within any `span_ms`: with handlers that take so long, how many ran at once.
fn most_within(starts: &[Start], span_ms: i64) -> usize {
    let within = |first: &Start| {
        starts.iter().filter(|start| (0..span_ms).contains(&(start.at_ms - first.at_ms))).count()
    };
    starts.iter().map(within).max().unwrap_or(0)
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_concurrency_takes_effect_while_tasks_run() {
    let settings = |concurrency| QueueSettings { concurrency, ..in_process() };
    let world = World::new(EngineConfig::default(), settings(4)).await;
    // No multiple of the pause between two sizings of the pool: else each sizing falls on the very moment at
    // which handlers end, sees no job wait, and stops growing short of the queue's concurrency.
    world.handle(230, done);
    world.schedule_all("t", (0..200).map(|_| 0)).await;
    world.pass(2_000).await;
    let before = world.starts().len();
    assert_eq!(most_within(&world.starts(), 230), 4);
    world.engine.put_queue(QUEUE, settings(2)).await.unwrap();
    world.pass(460).await;
    let between = world.starts().len();
    world.pass(2_000).await;
    assert_eq!(most_within(&world.starts()[between..], 230), 2);
    world.engine.put_queue(QUEUE, settings(20)).await.unwrap();
    world.pass(5_000).await;
    let starts = world.starts();
    assert_eq!((starts.len(), most_within(&starts, 230)), (200, 20), "{before}, {between}");
}

#[tokio::test(start_paused = true)]
async fn the_pool_grows_to_its_ceiling_under_slow_handlers_and_shrinks_back() {
    let pool = PoolLimits { floor: 2, ceiling: 30, wait_target_us: 2_000 };
    let world = World::new(EngineConfig { pool, ..EngineConfig::default() }, in_process()).await;
    world.handle(300, done);
    world.schedule_all("t", (0..400).map(|_| 0)).await;
    world.pass(10_000).await;
    let starts = world.starts();
    assert_eq!((starts.len(), most_within(&starts, 300)), (400, 30));
    assert_eq!(world.seen.workers_max(), 30);
    world.pass(5_000).await;
    assert_eq!(world.engine.pool_sizes(), (2, 0, 0));
    world.schedule_all("u", std::iter::once(0)).await;
    world.pass(500).await;
    assert_eq!(world.starts().len(), 401);
}

#[tokio::test(start_paused = true)]
async fn in_the_pool_high_tasks_overtake_and_starve_nobody() {
    // One worker and room for all: they wait in the pool's lanes, not in the source.
    let pool = PoolLimits { floor: 1, ceiling: 1, wait_target_us: 2_000 };
    let world = World::new(EngineConfig { pool, ..EngineConfig::default() }, in_process()).await;
    world.handle(10, done);
    world.schedule_all("n", (0..100).map(|_| 0)).await;
    world.pass(55).await;
    let before = world.starts().len();
    let now_ms = world.now_ms();
    let high = (0..100)
        .map(|number| ScheduleRequest { priority: Priority::High, ..request(&format!("h{number}"), now_ms) })
        .collect();
    world.engine.schedule(high).await.unwrap();
    world.pass(5_000).await;
    let starts = world.starts();
    assert_eq!(starts.len(), 200);
    let high = starts[before..before + 50].iter().filter(|start| start.key.starts_with('h')).count();
    assert!((36..=42).contains(&high), "{high} of the next 50 were high, not four of five");
}

#[tokio::test(start_paused = true)]
async fn claimed_ahead_high_and_normal_tasks_share_by_weight() {
    // Short handlers: as many as the concurrency are claimed ahead and wait in the runner.
    let settings = QueueSettings { concurrency: 50, ..in_process() };
    let pool = PoolLimits { floor: 1, ceiling: 1, wait_target_us: 2_000 };
    let world = World::new(EngineConfig { pool, ..EngineConfig::default() }, settings).await;
    world.handle(10, done);
    let now_ms = world.now_ms();
    let both = (0..200).map(|number| match number % 2 {
        0 => request(&format!("n{number}"), now_ms),
        _ => ScheduleRequest { priority: Priority::High, ..request(&format!("h{number}"), now_ms) },
    });
    world.engine.schedule(both.collect()).await.unwrap();
    world.pass(10_000).await;
    let starts = world.starts();
    assert_eq!(starts.len(), 200);
    let first_normal = starts.iter().position(|start| start.key.starts_with('n')).unwrap();
    assert!(first_normal <= 5, "the first normal task was number {first_normal}");
    for window in starts[..100].windows(10) {
        assert!(window.iter().any(|start| start.key.starts_with('n')), "normal ones starve: {window:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_rate_is_kept_and_settings_do_not_refill_it() {
    for (rate, gap_ms) in [(0.5, 2_000), (4.0, 250)] {
        let settings = QueueSettings { rate_per_second: Some(rate), ..in_process() };
        let world = World::new(EngineConfig::default(), settings.clone()).await;
        world.handle(0, done);
        world.schedule_all("t", (0..10).map(|_| 0)).await;
        for turn in 0..50 {
            world.pass(u64::try_from(gap_ms / 5).unwrap()).await;
            let settings = QueueSettings { concurrency: 100 + turn, ..settings.clone() };
            world.engine.put_queue(QUEUE, settings).await.unwrap();
        }
        let starts = world.starts();
        assert_eq!(starts.len(), 10, "{rate} a second");
        for pair in starts.windows(2) {
            let gap = pair[1].at_ms - pair[0].at_ms;
            assert!((gap_ms - 1..=gap_ms + 20).contains(&gap), "{rate} a second: {gap} ms apart");
        }
    }
}
