//! Webhooks against a local endpoint, in real time.

use crate::support::{Answer, Call, Endpoint, request, until};
use duebook_core::pool::PoolLimits;
use duebook_core::queue::WebhookSpec;
use duebook_core::signature::WebhookSecret;
use duebook_core::{HandlerSpec, QueueSettings, State, SystemClock, Task, TaskId};
use duebook_engine::{Engine, EngineConfig, ScheduleRequest, Silent, SystemRuntime, TaskRef};
use duebook_store::Reader;
use duebook_store::memory::MemoryStore;
use std::sync::Arc;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// How long a breaker stays open at first, in milliseconds.
const OPEN_MS: i64 = 1_000;

struct Node {
    engine: Engine,
    store: Arc<MemoryStore>,
}

fn settings(url: &str) -> QueueSettings {
    let spec = WebhookSpec { url: url.to_owned(), secret: None };
    QueueSettings { handler: HandlerSpec::Webhook(spec), ..QueueSettings::default() }
}

/// One call at a time, and no second attempts.
fn one_by_one(url: &str) -> QueueSettings {
    QueueSettings { concurrency: 1, retry: Some("never".into()), ..settings(url) }
}

impl Node {
    async fn start(config: EngineConfig) -> Self {
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        let runtime = Arc::new(SystemRuntime::new().unwrap());
        let engine = Engine::start(Arc::clone(&store) as _, runtime, config, Arc::new(Silent)).await.unwrap();
        Self { engine, store }
    }

    async fn schedule(&self, queue: &str, key: &str, delay_ms: i64) -> TaskId {
        let request =
            ScheduleRequest { queue: queue.into(), ..request(key, self.engine.now_ms() + delay_ms) };
        self.engine.schedule(vec![request]).await.unwrap().remove(0).unwrap().id
    }

    async fn task(&self, id: TaskId) -> Task {
        self.store.task(id).await.unwrap().unwrap()
    }

    /// The task once an attempt of it has ended.
    async fn ended(&self, id: TaskId) -> Task {
        until("an attempt ended", async || {
            let head = self.task(id).await.head;
            head.attempt > 0 && head.state != State::Running
        })
        .await;
        self.task(id).await
    }

    async fn tasks(&self, queue: &str, state: State) -> u64 {
        self.engine.queue_view(queue).await.unwrap().depth[usize::from(state.code())]
    }
}

async fn calls(endpoint: &Endpoint, count: usize) -> Vec<Call> {
    until("calls came", async || endpoint.calls().len() >= count).await;
    endpoint.calls()
}

/// Fails the breaker of the endpoint open; answers when it was, by its last call.
async fn open_breaker(node: &Node, queue: &str, endpoint: &Endpoint) -> i64 {
    endpoint.answer(Answer::status(500));
    for number in 0..5 {
        node.schedule(queue, &format!("{queue}-opens-{number}"), 0).await;
    }
    until("five are dead", async || node.tasks(queue, State::Dead).await == 5).await;
    assert_eq!(endpoint.calls().len(), 5);
    endpoint.calls()[4].at_ms
}

#[tokio::test]
async fn a_call_is_signed_says_what_is_due_and_keeps_its_id_over_attempts() {
    let node = Node::start(EngineConfig::default()).await;
    let endpoint = Endpoint::start(Answer::status(500)).await;
    let spec = WebhookSpec { url: endpoint.url.clone(), secret: Some(SECRET.into()) };
    let settings = QueueSettings { handler: HandlerSpec::Webhook(spec), ..QueueSettings::default() };
    node.engine.put_queue("hook", settings).await.unwrap();
    let due_ms = node.engine.now_ms();
    let request = ScheduleRequest {
        queue: "hook".into(),
        payload: Some(r#"{"order":7}"#.into()),
        trace_id: Some("0af7651916cd43dd8448eb211c80319c".into()),
        ..request("order-7", due_ms)
    };
    let id = node.engine.schedule(vec![request]).await.unwrap().remove(0).unwrap().id;
    calls(&endpoint, 1).await;
    endpoint.answer(Answer::status(204));
    let calls = calls(&endpoint, 2).await;
    until("it is done", async || node.task(id).await.head.state == State::Succeeded).await;
    let secret = WebhookSecret::parse(SECRET).unwrap();
    for (attempt, call) in (1..).zip(&calls) {
        assert_eq!(call.header("webhook-id"), id.to_string());
        assert_eq!(call.header("content-type"), "application/json");
        let timestamp_s = call.header("webhook-timestamp").parse().unwrap();
        let signature = call.header("webhook-signature");
        secret
            .verify(&id.to_string(), timestamp_s, signature, call.body.as_bytes(), call.at_ms / 1_000, 5)
            .unwrap();
        let trace = call.header("traceparent");
        assert!(trace.starts_with("00-0af7651916cd43dd8448eb211c80319c-"), "{trace}");
        let body: serde_json::Value = serde_json::from_str(&call.body).unwrap();
        assert_eq!(body["type"], "task.due");
        let data = &body["data"];
        assert_eq!((&data["id"], &data["queue"]), (&id.to_string().into(), &"hook".into()));
        assert_eq!((&data["key"], &data["attempt"]), (&"order-7".into(), &attempt.into()));
        assert_eq!(data["payload"], serde_json::json!({"order": 7}));
        assert!(data["due_at"].as_str().unwrap().ends_with('Z'));
    }
    assert_ne!(calls[0].header("traceparent"), calls[1].header("traceparent"));
}

#[tokio::test]
async fn each_answer_has_its_outcome() {
    use State::{Dead, Pending, Succeeded};
    let node = Node::start(EngineConfig::default()).await;
    let plain = |status| Answer::status(status);
    let with = |status, lines| Answer::Status(status, lines, "some words".into());
    // (answer, state, least and most wait in seconds)
    let cases = [
        (plain(200), Succeeded, 0),
        (plain(204), Succeeded, 0),
        (plain(500), Pending, 1),
        (plain(502), Pending, 1),
        (plain(408), Pending, 1),
        (plain(429), Pending, 10),
        (plain(503), Pending, 10),
        (with(503, "retry-after: 3\r\n"), Pending, 10),
        (with(503, "retry-after: 60\r\n"), Pending, 60),
        (with(429, "Retry-After: 90\r\n"), Pending, 90),
        (with(302, "location: http://127.0.0.1:1/\r\n"), Dead, 0),
        (plain(404), Dead, 0),
        (with(410, ""), Dead, 0),
        (with(422, ""), Dead, 0),
    ];
    for (number, (answer, state, wait_s)) in cases.into_iter().enumerate() {
        let endpoint = Endpoint::start(answer.clone()).await;
        let queue = format!("q{number}");
        node.engine.put_queue(&queue, settings(&endpoint.url)).await.unwrap();
        let id = node.schedule(&queue, "t", 0).await;
        let called_ms = calls(&endpoint, 1).await[0].at_ms;
        let task = node.ended(id).await;
        assert_eq!(task.head.state, state, "{answer:?}");
        if state == Pending {
            let waits_ms = task.head.due_ms - called_ms;
            assert!((wait_s * 1_000..wait_s * 1_000 + 900).contains(&waits_ms), "{answer:?}: {waits_ms} ms");
        }
        if let (Answer::Status(status, _, body), false) = (&answer, state == Succeeded) {
            let error = task.last_error.unwrap();
            assert!(error.starts_with(&status.to_string()) && error.ends_with(body.as_str()), "{error}");
        }
    }
}

#[tokio::test]
async fn no_connection_no_answer_and_too_much_of_an_answer() {
    let node = Node::start(EngineConfig::default()).await;
    let gone = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("http://{}/", listener.local_addr().unwrap())
    };
    let silent = Endpoint::start(Answer::Never).await;
    let chatty = "é".repeat(5_000_000);
    let loud = Endpoint::start(Answer::Status(500, "", chatty.clone())).await;
    let content = Endpoint::start(Answer::Status(200, "", chatty)).await;
    let cases = [
        (&gone, State::Pending, "no connection"),
        (&silent.url, State::Pending, "300 ms"),
        (&loud.url, State::Pending, "500 Internal Server Error é"),
        (&content.url, State::Succeeded, ""),
    ];
    for (number, (url, state, words)) in cases.into_iter().enumerate() {
        let queue = format!("q{number}");
        let settings =
            QueueSettings { timeout_ms: if words == "300 ms" { 300 } else { 10_000 }, ..settings(url) };
        node.engine.put_queue(&queue, settings).await.unwrap();
        let id = node.schedule(&queue, "t", 0).await;
        let task = node.ended(id).await;
        assert_eq!(task.head.state, state, "{words}");
        let error = task.last_error.unwrap_or_default();
        assert!(error.contains(words), "{words}: {error}");
        assert!(error.len() <= 2_000, "{} bytes are kept", error.len());
    }
}

#[tokio::test]
async fn a_breaker_opens_probes_and_closes_and_queues_with_one_address_share_it() {
    let node = Node::start(EngineConfig::default()).await;
    let endpoint = Endpoint::start(Answer::status(500)).await;
    for queue in ["one", "two"] {
        node.engine.put_queue(queue, one_by_one(&endpoint.url)).await.unwrap();
    }
    let opened_ms = open_breaker(&node, "one", &endpoint).await;
    for number in 0..10 {
        node.schedule("two", &format!("t{number}"), 0).await;
    }
    // The first probe fails and doubles the time; the second one closes the circuit for all.
    let probe_ms = calls(&endpoint, 6).await[5].at_ms;
    assert!(probe_ms - opened_ms >= OPEN_MS, "called again after {} ms", probe_ms - opened_ms);
    endpoint.answer(Answer::status(200));
    let second_ms = calls(&endpoint, 7).await[6].at_ms;
    assert!(second_ms - probe_ms >= 2 * OPEN_MS, "probed again after {} ms", second_ms - probe_ms);
    until("the others are done", async || node.tasks("two", State::Succeeded).await == 9).await;
    assert_eq!(node.tasks("two", State::Dead).await, 1, "only the probe's attempt was used up");
    assert_eq!(endpoint.calls().len(), 15);
}

#[tokio::test]
async fn what_waits_for_a_worker_when_the_breaker_opens_is_given_back_uncounted() {
    let pool = PoolLimits { floor: 2, ceiling: 2, wait_target_us: 2_000 };
    let node = Node::start(EngineConfig { pool, ..EngineConfig::default() }).await;
    let endpoint = Endpoint::start(Answer::status(500)).await;
    node.engine.put_queue("hook", settings(&endpoint.url)).await.unwrap();
    let mut ids = Vec::new();
    for number in 0..200 {
        ids.push(node.schedule("hook", &format!("t{number}"), 200).await);
    }
    let opened_ms = calls(&endpoint, 5).await[4].at_ms;
    until("all are given back", async || node.tasks("hook", State::Pending).await == 200).await;
    let before_probe = endpoint.calls().iter().filter(|call| call.at_ms < opened_ms + OPEN_MS).count();
    assert!(before_probe <= 6, "{before_probe} calls against a breaker that opens at 5");
    endpoint.answer(Answer::status(200));
    until("all are done", async || node.tasks("hook", State::Succeeded).await == 200).await;
    let mut attempts = 0;
    for id in ids {
        attempts += node.task(id).await.head.attempt as usize;
    }
    assert_eq!(attempts, endpoint.calls().len(), "attempts that were not calls");
}

#[tokio::test]
async fn calls_without_an_answer_open_the_breaker() {
    let node = Node::start(EngineConfig::default()).await;
    let endpoint = Endpoint::start(Answer::Never).await;
    let settings = QueueSettings { timeout_ms: 50, ..one_by_one(&endpoint.url) };
    node.engine.put_queue("hook", settings).await.unwrap();
    for number in 0..6 {
        node.schedule("hook", &format!("t{number}"), 0).await;
    }
    let calls = calls(&endpoint, 6).await;
    let waited_ms = calls[5].at_ms - calls[4].at_ms;
    assert!(waited_ms >= OPEN_MS, "called again after {waited_ms} ms");
}

#[tokio::test]
async fn a_probe_that_is_not_made_does_not_close_the_way_for_the_next() {
    let node = Node::start(EngineConfig::default()).await;
    let endpoint = Endpoint::start(Answer::status(500)).await;
    node.engine.put_queue("hook", one_by_one(&endpoint.url)).await.unwrap();
    let opened_ms = open_breaker(&node, "hook", &endpoint).await;
    endpoint.answer(Answer::status(200));
    until("the open time is over", async || node.engine.now_ms() > opened_ms + OPEN_MS + 100).await;
    // The runner looks, and nothing is due.
    node.schedule("hook", "far", 3_600_000).await;
    // The one that is claimed as the probe is cancelled before its time.
    let cancelled = node.schedule("hook", "cancelled", 95).await;
    until("it is claimed ahead", async || node.task(cancelled).await.head.state == State::Running).await;
    node.engine.cancel(&TaskRef::Id(cancelled), None, None).await.unwrap();
    let id = node.schedule("hook", "t", 0).await;
    let scheduled_ms = node.engine.now_ms();
    let call = calls(&endpoint, 6).await.remove(5);
    assert_eq!(call.header("webhook-id"), id.to_string());
    assert!(call.at_ms - scheduled_ms < 1_000, "called after {} ms", call.at_ms - scheduled_ms);
}
