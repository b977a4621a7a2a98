//! When calls are repeated, and when not.

mod mock;

use duebook_client::*;
use mock::{Answer, Mock, until};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

fn fast() -> RetryPolicy {
    RetryPolicy::default().base_ms(5).cap_ms(20).total_ms(10_000)
}

fn client(mock: &Mock) -> Client {
    Client::builder(mock.url()).retry(fast()).build().unwrap()
}

fn task(key: &str) -> NewTask {
    NewTask::new("q", key, Timestamp::from_ms(9_000_000_000_000))
}

#[tokio::test]
async fn busy_servers_are_asked_again_after_what_they_said() {
    let mock = Mock::start().await;
    mock.answer("POST /v1/tasks", Answer::problem(503, "store_away"));
    mock.answer("POST /v1/tasks", Answer::problem(429, "too_many").header("retry-after", "1"));
    let began = Instant::now();
    assert!(client(&mock).schedule(&task("k")).await.unwrap().created);
    assert!(began.elapsed() >= Duration::from_secs(1), "Retry-After was not respected");
    assert_eq!(mock.seen("POST /v1/tasks").len(), 3);
}

#[tokio::test]
async fn the_total_time_is_bounded() {
    let mock = Mock::start().await;
    let client = client(&mock).with_retry(fast().total_ms(500));
    mock.answer("POST /v1/tasks", Answer::problem(429, "too_many").header("retry-after", "60"));
    let began = Instant::now();
    let error = client.schedule(&task("k")).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(60)));
    assert!(began.elapsed() < Duration::from_millis(450), "a wait that cannot help was waited for");
    for _ in 0..1_000 {
        mock.answer("GET /v1/tasks", Answer::problem(503, "store_away"));
    }
    let began = Instant::now();
    assert_eq!(client.task("1").await.unwrap_err().status(), Some(503));
    assert!(began.elapsed() < Duration::from_secs(5));
    assert!(mock.seen("GET /v1/tasks").len() > 3);
}

#[tokio::test]
async fn repeating_can_be_switched_off() {
    let mock = Mock::start().await;
    mock.answer("POST /v1/tasks", Answer::problem(503, "store_away"));
    let error = client(&mock).with_retry(RetryPolicy::off()).schedule(&task("k")).await.unwrap_err();
    assert_eq!((error.code(), error.is_retryable()), (Some("store_away"), true));
    assert_eq!(mock.seen("").len(), 1);
}

#[tokio::test]
async fn a_server_that_comes_back_gets_the_call() {
    let mut mock = Mock::start().await;
    let client = client(&mock);
    mock.kill().await;
    let error = client.with_retry(RetryPolicy::off()).schedule(&task("k")).await.unwrap_err();
    assert!(matches!(error, Error::Transport { phase: Phase::Connect, .. }), "{error:?}");
    assert!(error.is_retryable() && error.had_no_effect());
    let call = tokio::spawn(async move { client.schedule(&task("k")).await });
    mock.restart().await;
    assert!(call.await.unwrap().unwrap().created);
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_only_where_that_is_safe() {
    let mut mock = Mock::start().await;
    let client = client(&mock);
    let slow = || Answer::json(200, json!({})).after(Duration::from_secs(3_600));
    // Killed after it has heard the call and before it answers.
    mock.answer("POST /v1/tasks/1/run", slow());
    mock.answer("POST /v1/tasks", slow());
    let (run, keep) = (client.clone(), client.clone());
    let run = tokio::spawn(async move { run.run("1").await });
    until("run is heard", async || (mock.seen("POST /v1/tasks/1/run").len() == 1).then_some(())).await;
    let keep = tokio::spawn(async move { keep.schedule(&task("k")).await });
    until("schedule is heard", async || (mock.seen("POST /v1/tasks").len() == 2).then_some(())).await;
    mock.restart().await;
    let error = run.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Transport { phase: Phase::Exchange, .. }), "{error:?}");
    assert!(!error.had_no_effect());
    assert_eq!(mock.seen("POST /v1/tasks/1/run").len(), 1, "run is not safe to repeat");
    assert!(keep.await.unwrap().unwrap().created);
}

#[tokio::test]
async fn silence_is_a_timeout() {
    let mock = Mock::start().await;
    let client = Client::builder(mock.url())
        .retry(RetryPolicy::off())
        .total_timeout(Duration::from_millis(50))
        .build()
        .unwrap();
    mock.answer("GET", Answer::json(200, json!({})).after(Duration::from_secs(3_600)));
    let error = client.task("1").await.unwrap_err();
    assert!(matches!(error, Error::Timeout { phase: Phase::Exchange, .. }), "{error:?}");
}

#[tokio::test]
async fn calls_at_once_are_limited() {
    let mock = Mock::start().await;
    let client = Client::builder(mock.url()).in_flight_max(2).build().unwrap();
    for _ in 0..3 {
        mock.answer("GET /healthz", Answer::json(200, json!({})).after(Duration::from_millis(200)));
    }
    let began = Instant::now();
    let calls = (0..3).map(|_| client.healthz());
    futures_util::future::try_join_all(calls).await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(400), "three calls at once in spite of a limit of two");
}
