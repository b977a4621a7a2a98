//! The life of a worker.

mod mock;

use duebook_client::*;
use mock::{Answer, Mock, until};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;

const QUEUE: &str = "work";

fn worker(mock: &Mock) -> Worker {
    Worker::new(Client::new(mock.url()).unwrap(), QUEUE).name("tester").wait_ms(2_000)
}

fn keys(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|nth| format!("k{nth}"))
}

fn settled(mock: &Mock, key: &str) -> Value {
    mock.engine().task(key).settled.unwrap_or_else(|| panic!("{key} is not settled"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_task_is_run_once_and_settled_in_batches() {
    let mock = Mock::start().await;
    mock.engine().fill(QUEUE, keys(2_000));
    let worker = worker(&mock).concurrency(50);
    let stop = worker.stop_handle();
    let (seen, most) =
        (Arc::new(Mutex::new(HashSet::new())), Arc::new((AtomicUsize::new(0), AtomicUsize::new(0))));
    let (seen_by, most_by) = (Arc::clone(&seen), Arc::clone(&most));
    let run = tokio::spawn(worker.run(move |task, _context| {
        let (seen, most) = (Arc::clone(&seen_by), Arc::clone(&most_by));
        async move {
            most.1.fetch_max(most.0.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            assert_eq!(task.payload.parse::<Value>().unwrap()["of"], task.key);
            assert!(seen.lock().unwrap().insert(task.key.clone()), "{} ran twice", task.key);
            tokio::task::yield_now().await;
            most.0.fetch_sub(1, Ordering::SeqCst);
        }
    }));
    until("all are settled", async || (mock.engine().count("succeeded") == 2_000).then_some(())).await;
    stop.stop();
    let report = run.await.unwrap().unwrap();
    assert_eq!((report.stats.leased, report.stats.done, report.dropped), (2_000, 2_000, 0));
    assert_eq!(seen.lock().unwrap().len(), 2_000);
    assert!(most.1.load(Ordering::SeqCst) <= 50, "concurrency passed: {}", most.1.load(Ordering::SeqCst));
    assert!(mock.seen("POST /v1/leases/settle").len() < 500, "one by one");
    let lease = &mock.seen("POST /v1/queues/work/lease")[0];
    assert_eq!((&lease.body["worker"], &lease.body["wait_ms"]), (&json!("tester"), &json!(2_000)));
    assert!(
        lease.body["max"].as_u64().unwrap() <= 13,
        "a poll takes its share of the handlers: {}",
        lease.body
    );
}

#[tokio::test]
async fn outcomes_are_settled_as_said_and_a_panic_is_transient() {
    let mock = Mock::start().await;
    mock.engine().fill(QUEUE, ["done", "busy", "dead", "panic", "error"].map(String::from));
    let report = worker(&mock)
        .run_once(|task, context| async move {
            assert!(!context.is_cancelled() && !context.is_stopping());
            match task.key.as_str() {
                "done" => Outcome::Done,
                "busy" => Outcome::busy("come back").after_ms(77),
                "dead" => Outcome::permanent("hopeless"),
                "panic" => panic!("oh {}", "no"),
                _ => Err::<(), _>("io").into(),
            }
        })
        .await
        .unwrap();
    let stats = report.stats;
    assert_eq!((stats.leased, stats.done, stats.retried, stats.dead, stats.panicked), (5, 1, 3, 1, 1));
    let check = |key: &str, outcome: &str, class: Value, error: Value, delay: Value| {
        let got = settled(&mock, key);
        assert_eq!((&got["outcome"], &got["class"]), (&json!(outcome), &class), "{key}");
        assert_eq!((&got["error"], &got["delay_ms"]), (&error, &delay), "{key}");
    };
    check("done", "done", Value::Null, Value::Null, Value::Null);
    check("busy", "retry", json!("busy"), json!("come back"), json!(77));
    check("dead", "dead", Value::Null, json!("hopeless"), Value::Null);
    check("panic", "retry", json!("transient"), json!("the handler panicked: oh no"), Value::Null);
    check("error", "retry", json!("transient"), json!("io"), Value::Null);
}

#[tokio::test]
async fn the_manual_runner_works_with_a_settable_clock() {
    let mock = Mock::start().await;
    let clock = Arc::new(SettableClock::new(Timestamp::from_ms(1_000_000)));
    let worker = worker(&mock).clock(Arc::clone(&clock));
    let handler = |_: LeasedTask, context: TaskContext| async move {
        assert_eq!(context.late_ms(), 250);
        assert_eq!(context.now(), Timestamp::from_ms(1_000_250));
    };
    assert_eq!(worker.run_once(handler).await.unwrap(), RunReport::default());
    let client = Client::new(mock.url()).unwrap();
    client.schedule(&NewTask::new(QUEUE, "k", clock.now())).await.unwrap();
    clock.advance(Duration::from_millis(250));
    assert_eq!(worker.run_once(handler).await.unwrap().stats.done, 1);
    assert_eq!(worker.run_once(handler).await.unwrap(), RunReport::default());
}

#[tokio::test]
async fn heartbeats_keep_the_lease_of_a_long_handler() {
    let mock = Mock::start().await;
    mock.engine().fill(QUEUE, keys(30));
    let enough = Arc::new(Semaphore::new(0));
    let worker = worker(&mock).lease_ms(300).concurrency(30).polls(1);
    let stop = worker.stop_handle();
    let gate = Arc::clone(&enough);
    let run = tokio::spawn(worker.run(move |_task, context| {
        let gate = Arc::clone(&gate);
        async move {
            gate.acquire().await.unwrap().forget();
            assert!(!context.is_cancelled());
        }
    }));
    // Ten extensions of 300 ms leases at a third or sooner: held for longer than any one lease.
    until("leases were extended", async || (mock.engine().task("k7").extensions >= 10).then_some(())).await;
    enough.add_permits(30);
    until("all are settled", async || (mock.engine().count("succeeded") == 30).then_some(())).await;
    stop.stop();
    let stats = run.await.unwrap().unwrap().stats;
    assert_eq!((stats.leased, stats.done, stats.lost), (30, 30, 0));
    assert_eq!(mock.engine().task("k7").attempt, 1);
    let beats = mock.seen("POST /v1/leases/extend");
    assert!(beats.len() < 60, "extended one by one: {} calls", beats.len());
    assert_eq!(beats[0].body["leases"].as_array().unwrap().len(), 30);
}

#[tokio::test]
async fn a_lost_lease_cancels_the_context_and_its_outcome_is_refused() {
    let mock = Mock::start().await;
    mock.engine().fill(QUEUE, keys(1));
    let worker = worker(&mock).lease_ms(150).polls(1);
    let stop = worker.stop_handle();
    let reasons = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&reasons);
    let run = tokio::spawn(worker.run(move |task, context| {
        let told = Arc::clone(&told);
        async move {
            if task.attempt == 1 {
                let reason = context.cancelled().await;
                told.lock().unwrap().push(reason);
            }
        }
    }));
    until("it runs", async || (stop.stats().leased == 1).then_some(())).await;
    mock.engine().void_leases();
    until("it ran again", async || (mock.engine().count("succeeded") == 1).then_some(())).await;
    until("the first heard of it", async || reasons.lock().unwrap().first().copied()).await;
    stop.stop();
    let stats = run.await.unwrap().unwrap().stats;
    assert_eq!(*reasons.lock().unwrap(), [CancelReason::LeaseLost]);
    assert_eq!((stats.leased, stats.done, stats.lost), (2, 1, 1));
}

#[tokio::test]
async fn leases_without_news_are_taken_for_lost() {
    let mut mock = Mock::start().await;
    mock.engine().fill(QUEUE, keys(1));
    let worker = worker(&mock).lease_ms(150).settle_grace_ms(0);
    let stop = worker.stop_handle();
    let (tell, mut told) = tokio::sync::mpsc::channel(1);
    let run = tokio::spawn(worker.run(move |_task, context| {
        let tell = tell.clone();
        async move { tell.send(context.cancelled().await).await.unwrap() }
    }));
    until("it runs", async || (stop.stats().leased == 1).then_some(())).await;
    mock.kill().await;
    let reason = tokio::time::timeout(Duration::from_secs(20), told.recv()).await.unwrap();
    assert_eq!(reason, Some(CancelReason::LeaseLost));
    stop.stop();
    assert_eq!(run.await.unwrap().unwrap().stats.unsettled, 1, "what could not be delivered is counted");
}

#[tokio::test]
async fn a_requested_cancel_reaches_the_handler_and_its_outcome_counts() {
    let mock = Mock::start().await;
    mock.engine().fill(QUEUE, keys(2));
    let worker = worker(&mock).lease_ms(150);
    let stop = worker.stop_handle();
    let run = tokio::spawn(worker.run(|task, context| async move {
        if task.key == "k1" {
            assert_eq!(context.cancelled().await, CancelReason::Requested);
            return Outcome::permanent("called off");
        }
        Outcome::Done
    }));
    until("k0 is done and k1 runs", async || {
        (mock.engine().count("succeeded") == 1 && mock.engine().count("running") == 1).then_some(())
    })
    .await;
    let client = Client::new(mock.url()).unwrap();
    assert!(client.cancel_key(QUEUE, "k1").await.unwrap().cancel_requested);
    until("k1 is settled", async || (mock.engine().count("dead") == 1).then_some(())).await;
    stop.stop();
    let stats = run.await.unwrap().unwrap().stats;
    assert_eq!((stats.done, stats.dead, stats.cancelled), (1, 1, 1));
}

#[tokio::test]
async fn a_stop_lets_handlers_finish_and_takes_no_more() {
    let mock = Mock::start().await;
    mock.engine().fill(QUEUE, keys(3));
    let worker = worker(&mock).wait_ms(60_000);
    let (stop, gate) = (worker.stop_handle(), Arc::new(Semaphore::new(0)));
    let held = Arc::clone(&gate);
    let run = tokio::spawn(worker.run(move |_task, context| {
        let held = Arc::clone(&held);
        async move {
            held.acquire().await.unwrap().forget();
            assert!(context.is_stopping() && !context.is_cancelled());
        }
    }));
    until("they run", async || (stop.stats().leased == 3).then_some(())).await;
    stop.stop();
    // The long polls of a minute end with the stop: what becomes due after them is left for others.
    until("polls are over", async || (mock.engine().waiting() == 0).then_some(())).await;
    mock.engine().fill(QUEUE, ["late".to_owned()]);
    gate.add_permits(5);
    let report = tokio::time::timeout(Duration::from_secs(20), run).await.unwrap().unwrap().unwrap();
    assert_eq!((report.stats.leased, report.stats.done, report.dropped), (3, 3, 0));
    assert_eq!(mock.engine().task("late").state, "pending");
}

#[tokio::test]
async fn a_handler_that_outstays_the_grace_time_is_told_then_dropped() {
    let mock = Mock::start().await;
    mock.engine().fill(QUEUE, ["deaf", "good"].map(String::from));
    let worker = worker(&mock).grace_ms(50);
    let stop = worker.stop_handle();
    let run = tokio::spawn(worker.run(|task, context| async move {
        if task.key == "deaf" {
            std::future::pending::<()>().await;
        }
        assert_eq!(context.cancelled().await, CancelReason::Stopping);
        Outcome::busy("was told to stop")
    }));
    until("they run", async || (stop.stats().leased == 2).then_some(())).await;
    stop.stop();
    let report = run.await.unwrap().unwrap();
    assert_eq!((report.stats.retried, report.dropped), (2, 1));
    assert_eq!(settled(&mock, "good")["class"], "busy");
    assert_eq!(settled(&mock, "deaf")["class"], "transient");
    assert!(settled(&mock, "deaf")["error"].as_str().unwrap().contains("stopped"));
}

#[tokio::test]
async fn outcomes_wait_for_a_server_that_went_away() {
    let mut mock = Mock::start().await;
    mock.engine().fill(QUEUE, keys(5));
    let worker = worker(&mock).concurrency(5);
    let (stop, gate) = (worker.stop_handle(), Arc::new(Semaphore::new(0)));
    let held = Arc::clone(&gate);
    let run = tokio::spawn(worker.run(move |task, _context| {
        let held = Arc::clone(&held);
        async move {
            if task.attempt == 1 && task.key != "k5" {
                held.acquire().await.unwrap().forget();
            }
        }
    }));
    until("they run", async || (stop.stats().leased == 5).then_some(())).await;
    mock.kill().await;
    gate.add_permits(5);
    until("settling has failed", async || (stop.stats().settle_errors > 0).then_some(())).await;
    // Its old leases are void: the outcomes are refused by token and all run again. Nothing is lost.
    mock.restart().await;
    mock.engine().fill(QUEUE, ["k5".to_owned()]);
    until("all are settled", async || (mock.engine().count("succeeded") == 6).then_some(())).await;
    stop.stop();
    let stats = run.await.unwrap().unwrap().stats;
    assert_eq!((stats.done, stats.lost), (6, 5));
    assert!((0..5).all(|nth| mock.engine().task(&format!("k{nth}")).attempt == 2));
}

#[tokio::test]
async fn settling_is_repeated_and_a_bad_item_does_not_spoil_its_batch() {
    let mock = Mock::start().await;
    mock.engine().fill(QUEUE, keys(4));
    mock.answer("POST /v1/leases/settle", Answer::problem(503, "store_away"));
    mock.answer("POST /v1/leases/settle", Answer::problem(413, "too_large"));
    mock.answer("POST /v1/leases/settle", Answer::problem(422, "bad_field"));
    mock.answer("POST /v1/leases/settle", Answer::problem(422, "bad_field"));
    let report = worker(&mock).run_once(|_, _| async {}).await.unwrap();
    // All four refused, then the first two, then the first: one is given up, three are settled.
    assert_eq!((report.stats.done, report.stats.unsettled, report.stats.settle_errors), (3, 1, 1));
    let sizes: Vec<_> = mock
        .seen("POST /v1/leases/settle")
        .iter()
        .map(|seen| seen.body["results"].as_array().unwrap().len())
        .collect();
    assert_eq!(sizes, [4, 4, 2, 1, 1, 2]);
}

#[tokio::test]
async fn a_server_that_answers_empty_at_once_is_not_stormed() {
    let mock = Mock::start().await;
    let worker = worker(&mock).polls(1);
    for _ in 0..100_000 {
        mock.answer("POST /v1/queues/work/lease", Answer::json(200, json!({"tasks": []})));
    }
    let done = tokio::time::sleep(Duration::from_millis(500));
    worker.run_until(|_, _| async {}, done).await.unwrap();
    let polls = mock.seen("POST /v1/queues/work/lease").len();
    assert!((2..100).contains(&polls), "{polls} polls in half a second");
}
