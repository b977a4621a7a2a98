//! Stopping, being killed, and starting again.

use crate::support::{QUEUE, START_MS, World, done, in_process, request, until};
use duebook_core::{QueueSettings, State, SystemClock};
use duebook_engine::{Engine, EngineConfig, EngineError, LeaseRequest, Silent, SystemRuntime, TaskRef};
use duebook_store::sqlite::{SqliteConfig, SqliteStore};
use std::sync::Arc;

#[tokio::test(start_paused = true)]
async fn what_runs_is_settled_and_what_has_not_started_is_given_back() {
    let world = World::new(EngineConfig::default(), in_process()).await;
    world.handle(800, done);
    let running = world.schedule("running", 0).await;
    world.pass(200).await;
    let ahead = world.schedule("ahead", 90).await;
    world.pass(40).await;
    assert_eq!(world.task(ahead).await.head.attempt, 1, "claimed ahead");
    let stop_ms = world.now_ms();
    world.engine.stop(10_000).await;
    let took_ms = world.now_ms() - stop_ms;
    assert!((500..700).contains(&took_ms), "stopped after {took_ms} ms");
    world.store.reopen();
    assert_eq!(world.task(running).await.head.state, State::Succeeded);
    let head = world.task(ahead).await.head;
    assert_eq!((head.state, head.attempt), (State::Pending, 0));
    assert_eq!(world.starts().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn after_the_grace_time_it_stops_all_the_same_and_rests() {
    let world = World::new(EngineConfig::default(), in_process()).await;
    world.handle(3_600_000, done);
    world.schedule("hung", 0).await;
    world.pass(200).await;
    let stop_ms = world.now_ms();
    world.engine.stop(1_000).await;
    assert!((1_000..1_100).contains(&(world.now_ms() - stop_ms)));
    let turns = world.seen.turns();
    world.pass(600_000).await;
    assert!(world.seen.turns() - turns < 1_000);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_engine_answers_everybody() {
    let world = World::new(EngineConfig::default(), QueueSettings::default()).await;
    let id = world.schedule("t", 3_600_000).await;
    let pull = LeaseRequest { worker: "w".into(), max: 1, wait_ms: 60_000, lease_ms: 1_000 };
    let engine = world.engine.clone();
    let asked = pull.clone();
    let waiting = tokio::spawn(async move { engine.lease(QUEUE, asked).await });
    world.pass(1_000).await;
    let stop_ms = world.now_ms();
    let target = TaskRef::Id(id);
    let (_, cancelled) = tokio::join!(world.engine.stop(5_000), world.engine.cancel(&target, None, None));
    let _ = cancelled;
    assert!(waiting.await.unwrap().unwrap().is_empty());
    assert!(world.now_ms() - stop_ms < 1_000);
    assert_eq!(world.engine.lease(QUEUE, pull).await.err(), Some(EngineError::Stopping));
    assert!(world.engine.cancel(&TaskRef::Id(id), None, None).await.is_err());
    assert!(world.engine.schedule(vec![request("u", world.now_ms())]).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn after_a_kill_interrupted_tasks_run_at_once_and_claims_made_ahead_do_not_count() {
    let world = World::new(EngineConfig::default(), in_process()).await;
    world.handle(60_000, done);
    let interrupted = world.schedule("interrupted", 0).await;
    world.pass(200).await;
    let ahead = world.schedule("ahead", 95).await;
    let due_ms = world.now_ms() + 95 - START_MS;
    world.pass(40).await;
    assert_eq!(world.task(ahead).await.head.attempt, 1, "claimed ahead");
    let world = world.kill(EngineConfig::default(), 10).await;
    world.handle(0, done);
    let up_ms = world.now_ms() - START_MS;
    world.pass(1_000).await;
    assert_eq!(world.story(interrupted).await, ["scheduled", "claimed", "interrupted", "claimed", "done"]);
    assert_eq!(world.task(interrupted).await.head.attempt, 2);
    assert!((0..100).contains(&(world.starts_of("interrupted")[0] - up_ms)));
    assert_eq!(world.story(ahead).await, ["scheduled", "claimed", "released", "claimed", "done"]);
    assert_eq!(world.task(ahead).await.head.attempt, 1);
    assert!((0..5).contains(&(world.starts_of("ahead")[0] - due_ms)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_real_store_and_clock_a_stopped_node_leaves_it_to_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let config = SqliteConfig::new(folder.path().join("duebook.db"));
    for boot in 1..=2 {
        let store = SqliteStore::open(&config, Arc::new(SystemClock)).unwrap();
        let runtime = Arc::new(SystemRuntime::new().unwrap());
        let engine =
            Engine::start(Arc::new(store), runtime, EngineConfig::default(), Arc::new(Silent)).await.unwrap();
        assert_eq!(engine.store().boot(), boot);
        let handler = duebook_engine::FromFn(|_| async { duebook_engine::Outcome::Done });
        engine.register(QUEUE, Arc::new(handler));
        if boot == 1 {
            engine.put_queue(QUEUE, in_process()).await.unwrap();
            let soon = request("soon", engine.now_ms() + 150);
            let later = request("later", engine.now_ms() + 1_500);
            engine.schedule(vec![soon, later]).await.unwrap();
        }
        let state = usize::from(State::Succeeded.code());
        until("the tasks ran", async || {
            engine.queue_view(QUEUE).await.unwrap().depth[state] == u64::from(boot)
        })
        .await;
        engine.stop(1_000).await;
    }
}
