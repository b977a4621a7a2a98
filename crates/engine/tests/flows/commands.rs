//! What people and programs do to queues and tasks while they run.

use crate::support::{QUEUE, World, done, in_process, request};
use duebook_core::retry::FailureClass;
use duebook_core::{OnConflict, QueueSettings, Refusal, State, Tier};
use duebook_engine::{
    Cancelled, EngineConfig, EngineError, FromFn, Job, LeaseRequest, Outcome, ScheduleRequest, TaskRef,
};
use std::sync::Arc;

#[tokio::test(start_paused = true)]
async fn a_paused_queue_takes_tasks_starts_none_and_rests() {
    let world = World::new(EngineConfig::default(), in_process()).await;
    world.handle(0, done);
    let ahead = world.schedule("ahead", 90).await;
    world.pass(40).await;
    assert_eq!(world.task(ahead).await.head.attempt, 1, "claimed ahead");
    world.engine.set_paused(QUEUE, true).await.unwrap();
    world.schedule("later", 1_000).await;
    let turns = world.seen.turns();
    world.pass(600_000).await;
    assert!(world.starts().is_empty());
    let head = world.task(ahead).await.head;
    assert_eq!((head.state, head.attempt), (State::Pending, 0), "given back uncounted");
    let turns = world.seen.turns() - turns;
    assert!(turns < 1_000, "{turns} turns in ten minutes");
    world.engine.set_paused(QUEUE, false).await.unwrap();
    world.pass(100).await;
    assert_eq!(world.starts().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn tiers_change_under_load_and_every_task_starts_once() {
    let settings = |tier| QueueSettings { tier, ..in_process() };
    let world = World::new(EngineConfig::default(), settings(Tier::Wheel)).await;
    world.handle(3, done);
    world.schedule_all("t", (0..1_000).map(|number| number * 10)).await;
    for turn in 0..20 {
        let tier = if turn % 2 == 0 { Tier::Db } else { Tier::Wheel };
        world.engine.put_queue(QUEUE, settings(tier)).await.unwrap();
        world.schedule_all(&format!("new{turn}-"), [0, 30, 200, 900].into_iter()).await;
        world.pass(490).await;
    }
    world.pass(5_000).await;
    let late_ms = world.lateness();
    assert_eq!(late_ms.len(), 1_080);
    let worst_ms = late_ms.iter().max().unwrap();
    assert!(late_ms.iter().all(|late_ms| (0..=50).contains(late_ms)), "{worst_ms} ms late");
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_gets_another_handler_answers_its_pulls_and_runs_there() {
    let world = World::new(EngineConfig::default(), QueueSettings::default()).await;
    world.handle(0, done);
    let pull = LeaseRequest { worker: "w".into(), max: 1, wait_ms: 60_000, lease_ms: 1_000 };
    let asked_ms = world.now_ms();
    let (leased, changed) =
        tokio::join!(world.engine.lease(QUEUE, pull.clone()), world.engine.put_queue(QUEUE, in_process()));
    changed.unwrap();
    assert!(leased.unwrap().is_empty());
    assert!(world.now_ms() - asked_ms < 100);
    world.schedule("t", 0).await;
    world.pass(100).await;
    assert_eq!(world.starts().len(), 1);
    assert!(matches!(world.engine.lease(QUEUE, pull).await, Err(EngineError::NotPulled(_))));
}

#[tokio::test(start_paused = true)]
async fn run_now_starts_pending_and_claimed_ahead_tasks_at_once() {
    let world = World::new(EngineConfig::default(), in_process()).await;
    world.handle(0, done);
    let far = world.schedule("far", 3_600_000).await;
    let ahead = world.schedule("ahead", 95).await;
    world.pass(40).await;
    assert_eq!(world.task(ahead).await.head.state, State::Running, "claimed ahead");
    for id in [far, ahead] {
        world.engine.run_now(id, None, None).await.unwrap();
    }
    world.pass(20).await;
    for (key, id) in [("far", far), ("ahead", ahead)] {
        assert_eq!(world.starts_of(key).len(), 1, "{key}");
        let head = world.task(id).await.head;
        assert_eq!((head.state, head.attempt), (State::Succeeded, 1), "{key}");
    }
    world.pass(3_700_000).await;
    assert_eq!(world.starts().len(), 2, "and not again at their old times");
    assert!(world.engine.run_now(far, None, None).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_handler_hears_that_it_is_asked_to_stop() {
    let world = World::new(EngineConfig::default(), in_process()).await;
    let handler = FromFn(|job: Arc<Job>| async move {
        job.stop_asked().await;
        Outcome::failed(FailureClass::Transient, "stopped as asked")
    });
    world.engine.register(QUEUE, Arc::new(handler));
    let id = world.schedule("t", 0).await;
    world.pass(5_000).await;
    let answer = world.engine.cancel(&TaskRef::Id(id), Some("ann".into()), None).await.unwrap();
    assert!(matches!(answer, Cancelled::Asked(_)));
    world.pass(100).await;
    assert_eq!(world.task(id).await.head.state, State::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn only_a_started_task_is_not_replaced() {
    let world = World::new(EngineConfig::default(), in_process()).await;
    world.handle(1_000, done);
    let replace = |key: &str| ScheduleRequest {
        on_conflict: OnConflict::Replace,
        payload: Some("7".into()),
        ..request(key, world.now_ms() + 500)
    };
    let started = world.schedule("started", 0).await;
    let ahead = world.schedule("ahead", 90).await;
    world.pass(40).await;
    for id in [started, ahead] {
        assert_eq!(world.task(id).await.head.state, State::Running);
    }
    let both = vec![replace("started"), replace("ahead"), replace("new")];
    let mut answers = world.engine.schedule(both).await.unwrap();
    let new = answers.pop().unwrap().unwrap();
    assert!(new.created);
    let replaced = answers.pop().unwrap().unwrap();
    assert!(!replaced.created);
    let refused = answers.pop().unwrap();
    assert_eq!(refused.unwrap_err(), EngineError::Refused(Refusal::IllegalState(State::Running)));
    world.pass(3_000).await;
    assert_eq!(world.starts_of("ahead"), [540], "at its new time only");
    assert_eq!(world.starts_of("started").len(), 1);
    assert_eq!(world.task(replaced.id).await.payload.as_deref(), Some("7"));
    assert_eq!(world.task(started).await.payload, None);
}
