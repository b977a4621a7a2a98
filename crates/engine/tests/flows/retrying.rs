//! Attempts that fail.

use crate::support::{QUEUE, World, in_process, request};
use duebook_core::retry::FailureClass::{self, Busy, Storage, Transient};
use duebook_core::{QueueSettings, State};
use duebook_engine::{EngineConfig, FromFn, Job, Outcome, ScheduleRequest};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

struct Case {
    class: FailureClass,
    task: Option<&'static str>,
    queue: Option<&'static str>,
    delay_ms: Option<u64>,
    waits_s: &'static [i64],
}

#[tokio::test(start_paused = true)]
async fn the_class_the_queue_or_the_task_names_the_policy_and_a_delay_is_its_floor() {
    let plain = Case { class: Transient, task: None, queue: None, delay_ms: None, waits_s: &[1, 5, 30] };
    let cases = [
        Case { class: Busy, waits_s: &[10, 10, 10, 10, 10], ..plain },
        Case { class: Storage, waits_s: &[5, 10], ..plain },
        Case { queue: Some("exponential"), waits_s: &[1, 2, 4], ..plain },
        Case { queue: Some("never"), task: Some("storage"), waits_s: &[5, 10], ..plain },
        Case { task: Some("never"), waits_s: &[], ..plain },
        Case { delay_ms: Some(20_000), waits_s: &[20, 20, 30], ..plain },
        plain,
    ];
    for Case { class, task, queue, delay_ms, waits_s } in cases {
        let settings = QueueSettings { retry: queue.map(str::to_owned), ..in_process() };
        let world = World::new(EngineConfig::default(), settings).await;
        world.handle(0, move |_| Outcome::Failed { class, error: "planted".into(), delay_ms });
        let id = world
            .submit(ScheduleRequest { retry: task.map(str::to_owned), ..request("t", world.now_ms()) })
            .await;
        world.pass(120_000).await;
        let starts = world.starts_of("t");
        let waits: Vec<i64> = starts.windows(2).map(|pair| (pair[1] - pair[0]) / 1_000).collect();
        let what = format!("{class:?} task {task:?} queue {queue:?} delay {delay_ms:?}");
        assert_eq!(waits, waits_s, "{what}");
        let head = world.task(id).await.head;
        assert_eq!((head.state, head.attempt as usize), (State::Dead, waits_s.len() + 1), "{what}");
        assert_eq!(world.story(id).await.last(), Some(&"exhausted"), "{what}");
    }
}

struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_counts_at_its_claim_and_is_dropped_at_its_deadline() {
    let settings = QueueSettings { timeout_ms: 800, ..in_process() };
    let world = World::new(EngineConfig::default(), settings).await;
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&dropped);
    let handler = FromFn(move |_: Arc<Job>| {
        let guard = SetOnDrop(Arc::clone(&flag));
        async move {
            let _guard = guard;
            std::future::pending().await
        }
    });
    world.engine.register(QUEUE, Arc::new(handler));
    let id = world.schedule("t", 0).await;
    world.pass(700).await;
    let head = world.task(id).await.head;
    assert_eq!((head.state, head.attempt), (State::Running, 1));
    assert!(!dropped.load(Ordering::Acquire));
    world.pass(200).await;
    assert!(dropped.load(Ordering::Acquire), "the handler's future lives on");
    let task = world.task(id).await;
    assert_eq!((task.head.state, task.head.attempt), (State::Pending, 1));
    assert!(task.last_error.unwrap().contains("deadline of 800 ms"));
}
