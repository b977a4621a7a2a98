//! Finding, claiming and running tasks in this process.

use crate::support::{QUEUE, World, done, in_process, request, transient};
use duebook_core::retry::FailureClass;
use duebook_core::{OnConflict, Priority, QueueSettings, State, Tier};
use duebook_engine::source::SourceLimits;
use duebook_engine::{Cancelled, EngineConfig, EngineError, Outcome, TaskRef};

#[tokio::test(start_paused = true)]
async fn a_task_starts_at_its_time_on_both_tiers() {
    for (tier, late_ms_max) in [(Tier::Wheel, 2), (Tier::Db, 1_050)] {
        let world = World::new(EngineConfig::default(), QueueSettings { tier, ..in_process() }).await;
        world.handle(0, done);
        for delay_ms in [0, 1, 70, 130, 5_000, 400_000] {
            world.schedule(&format!("after-{delay_ms}"), delay_ms).await;
        }
        world.pass(402_000).await;
        for delay_ms in [0, 1, 70, 130, 5_000, 400_000] {
            let starts = world.starts_of(&format!("after-{delay_ms}"));
            assert_eq!(starts.len(), 1, "{tier:?} {delay_ms}");
            let late_ms = starts[0] - delay_ms;
            assert!((0..=late_ms_max).contains(&late_ms), "{tier:?} {delay_ms}: {late_ms} ms late");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn more_tasks_than_memory_allows_are_all_worked_off() {
    let source = SourceLimits { items_max: 20, page_items: 10, horizon_ms: 2_000, ..SourceLimits::default() };
    let world = World::new(EngineConfig { source, ..EngineConfig::default() }, in_process()).await;
    world.handle(5, done);
    for number in 0..300 {
        world.schedule(&format!("t{number}"), (number * 37) % 9_000).await;
    }
    world.pass(20_000).await;
    assert_eq!(world.starts().len(), 300);
}

#[tokio::test(start_paused = true)]
async fn failures_are_tried_again_by_their_class_or_the_named_policy() {
    let world = World::new(EngineConfig::default(), in_process()).await;
    world.handle(0, transient);
    let by_class = world.schedule("by-class", 0).await;
    let named = world
        .submit(duebook_engine::ScheduleRequest {
            retry: Some("exponential".into()),
            ..request("named", world.now_ms())
        })
        .await;
    world.pass(60_000).await;
    let waits = |key: &str| -> Vec<i64> {
        world.starts_of(key).windows(2).map(|pair| (pair[1] - pair[0]) / 100).collect()
    };
    assert_eq!(waits("by-class"), [10, 50, 300]);
    assert_eq!(waits("named"), [10, 20, 40]);
    for id in [by_class, named] {
        let task = world.task(id).await;
        assert_eq!((task.head.state, task.head.attempt), (State::Dead, 4));
        assert_eq!(task.last_error.as_deref(), Some("planted"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_a_panic_and_a_deadline_end_as_they_should() {
    let settings = QueueSettings { timeout_ms: 500, retry: Some("never".into()), ..in_process() };
    let world = World::new(EngineConfig::default(), settings).await;
    world.handle(0, |job| match job.task.key.as_str() {
        "panic" => panic!("planted"),
        _ => Outcome::failed(FailureClass::Permanent, "for good"),
    });
    let permanent = world.schedule("permanent", 0).await;
    let panicked = world.schedule("panic", 0).await;
    world.pass(100).await;
    world.handle(10_000, done);
    let hung = world.schedule("hung", 0).await;
    world.pass(5_000).await;
    assert_eq!(world.story(permanent).await, ["scheduled", "claimed", "permanent"]);
    for (id, words) in [(panicked, "panicked: planted"), (hung, "deadline of 500 ms")] {
        assert_eq!(world.story(id).await, ["scheduled", "claimed", "exhausted"]);
        let error = world.task(id).await.last_error.unwrap();
        assert!(error.contains(words), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn concurrency_and_rate_are_kept() {
    let settings = QueueSettings { concurrency: 3, ..in_process() };
    let world = World::new(EngineConfig::default(), settings).await;
    world.handle(100, done);
    for number in 0..30 {
        world.schedule(&format!("t{number}"), 0).await;
    }
    world.pass(5_000).await;
    let starts = world.starts();
    assert_eq!(starts.len(), 30);
    for window in starts.windows(4) {
        assert!(window[3].at_ms - window[0].at_ms >= 100, "four at once: {window:?}");
    }

    let settings = QueueSettings { rate_per_second: Some(2.0), ..in_process() };
    let world = World::new(EngineConfig::default(), settings).await;
    world.handle(0, done);
    for number in 0..10 {
        world.schedule(&format!("t{number}"), 0).await;
    }
    world.pass(10_000).await;
    let starts = world.starts();
    assert_eq!(starts.len(), 10);
    for pair in starts.windows(2) {
        assert!(pair[1].at_ms - pair[0].at_ms >= 499, "faster than two a second: {pair:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn high_tasks_overtake_a_backlog_and_starve_nobody() {
    let settings = QueueSettings { concurrency: 1, paused: true, ..in_process() };
    let world = World::new(EngineConfig::default(), settings.clone()).await;
    world.handle(10, done);
    for number in 0..100 {
        world.schedule(&format!("n{number}"), 0).await;
    }
    for number in 0..100 {
        let high = duebook_engine::ScheduleRequest {
            priority: Priority::High,
            ..request(&format!("h{number}"), world.now_ms())
        };
        world.submit(high).await;
    }
    world.engine.put_queue(QUEUE, QueueSettings { paused: false, ..settings }).await.unwrap();
    world.pass(10_000).await;
    let starts = world.starts();
    assert_eq!(starts.len(), 200);
    let high_among_first = starts[..50].iter().filter(|start| start.key.starts_with('h')).count();
    assert!((30..50).contains(&high_among_first), "{high_among_first} of the first 50 were high");
}

#[tokio::test(start_paused = true)]
async fn a_claim_made_ahead_can_be_cancelled_moved_replaced_and_paused() {
    let world = World::new(EngineConfig::default(), in_process()).await;
    world.handle(0, done);
    // Due within the claim-ahead window: claimed at once, released later.
    let cancelled = world.schedule("cancelled", 90).await;
    let moved = world.schedule("moved", 90).await;
    let replaced = world.schedule("replaced", 90).await;
    let kept = world.schedule("kept", 90).await;
    world.pass(40).await;
    for id in [cancelled, moved, replaced, kept] {
        assert_eq!(world.task(id).await.head.state, State::Running, "claimed ahead");
    }
    let answer = world.engine.cancel(&TaskRef::Id(cancelled), None, None).await.unwrap();
    assert!(matches!(answer, Cancelled::Outright(_)));
    let due_ms = world.now_ms() + 3_000;
    world.engine.reschedule(&TaskRef::Id(moved), due_ms, None, None).await.unwrap();
    let replace = duebook_engine::ScheduleRequest {
        on_conflict: OnConflict::Replace,
        payload: Some("7".into()),
        ..request("replaced", due_ms)
    };
    assert_eq!(world.submit(replace).await, replaced);
    world.engine.set_paused(QUEUE, true).await.unwrap();
    world.pass(1_000).await;
    assert!(world.starts().is_empty());
    let given_back = world.task(kept).await.head;
    assert_eq!((given_back.state, given_back.attempt), (State::Pending, 0));
    world.engine.set_paused(QUEUE, false).await.unwrap();
    world.pass(5_000).await;
    assert!(world.starts_of("cancelled").is_empty());
    assert_eq!(world.starts_of("moved").len(), 1);
    assert!(world.starts_of("moved")[0] >= 3_000);
    assert_eq!(world.task(replaced).await.payload.as_deref(), Some("7"));
    assert_eq!(world.starts_of("kept").len(), 1);
    assert_eq!(world.story(cancelled).await, ["scheduled", "claimed", "released", "cancelled"]);
}

#[tokio::test(start_paused = true)]
async fn a_started_task_is_asked_to_stop_and_then_cancelled_instead_of_retried() {
    let world = World::new(EngineConfig::default(), in_process()).await;
    world.handle(500, transient);
    let id = world.schedule("t", 0).await;
    world.pass(100).await;
    let answer = world.engine.cancel(&TaskRef::Id(id), None, None).await.unwrap();
    assert!(matches!(answer, Cancelled::Asked(_)));
    let refused = world.engine.reschedule(&TaskRef::Id(id), 0, None, None).await;
    assert!(matches!(refused, Err(EngineError::Refused(_))));
    world.pass(2_000).await;
    assert_eq!(world.story(id).await, ["scheduled", "claimed", "cancel_requested", "retry", "cancelled"]);
}

#[tokio::test(start_paused = true)]
async fn a_restart_runs_interrupted_tasks_within_a_second_and_counts_only_what_may_have_run() {
    let world = World::new(EngineConfig::default(), in_process()).await;
    world.handle(60_000, done);
    let interrupted = world.schedule("interrupted", 0).await;
    world.pass(200).await;
    assert_eq!(world.starts_of("interrupted").len(), 1);
    let world = world.restart(EngineConfig::default(), 50).await;
    world.handle(0, done);
    let up_ms = world.now_ms();
    world.pass(1_000).await;
    let starts = world.starts();
    assert_eq!((starts.len(), starts[0].attempt), (1, 2));
    assert!(starts[0].at_ms + crate::support::START_MS - up_ms < 1_000);
    let story = world.story(interrupted).await;
    assert_eq!(story, ["scheduled", "claimed", "interrupted", "claimed", "done"]);
}

#[tokio::test(start_paused = true)]
async fn dead_tasks_are_revived_with_all_attempts() {
    let world = World::new(EngineConfig::default(), in_process()).await;
    world.handle(0, |_| Outcome::failed(FailureClass::Permanent, "planted"));
    let id = world.schedule("t", 0).await;
    world.pass(100).await;
    assert_eq!(world.task(id).await.head.state, State::Dead);
    world.handle(0, done);
    world.engine.retry_dead(id, None, None).await.unwrap();
    world.pass(200).await;
    let head = world.task(id).await.head;
    assert_eq!((head.state, head.attempt), (State::Succeeded, 1));
}
