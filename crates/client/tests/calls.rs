//! What goes over the wire, and how answers and refusals are read.

mod mock;

use duebook_client::*;
use futures_util::TryStreamExt;
use mock::{Answer, Mock};
use serde_json::{Value, json};
use std::time::Duration;

const QUEUE: &str = "late checks/ä";

fn task_json() -> Value {
    json!({
        "id": "7", "queue": "q", "key": "k", "state": "running", "due_at": "2026-12-01T00:00:00.000Z", "payload": null,
        "priority": "high", "attempt": 2, "retry": "busy", "created_at": "2026-11-30T00:00:00.000Z",
        "committed_at": "2026-11-30T00:00:00.001Z", "fired_at": null, "started_at": null, "finished_at": null,
        "cancel_requested": true, "last_error": "boom", "trace_id": "0af7651916cd43dd8448eb211c80319c", "new_in_2030": {},
    })
}

/// Makes a call against one scripted answer, and checks what was sent.
async fn check<T>(
    expected: &str,
    body: Value,
    answer: Value,
    call: impl AsyncFnOnce(Client) -> Result<T>,
) -> T {
    let mock = Mock::start().await;
    mock.answer("", Answer::json(200, answer));
    let client = Client::builder(mock.url()).api_key("dbk_secret").build().unwrap();
    let got = call(client).await.unwrap_or_else(|error| panic!("{expected}: {error}"));
    let seen = mock.seen("").remove(0);
    assert_eq!(seen.call, expected);
    assert_eq!(seen.body, body, "{expected}");
    assert_eq!(seen.headers["authorization"], "Bearer dbk_secret");
    if !body.is_null() {
        assert_eq!(seen.headers["content-type"], "application/json");
    }
    got
}

#[tokio::test]
async fn tasks_are_scheduled() {
    let due = Timestamp::from_ms(1_796_083_200_000);
    let mut answer = task_json();
    answer["created"] = json!(true);
    let task = NewTask::new("q", "k", due)
        .payload(json!({"order": 1}))
        .priority(Priority::High)
        .retry("busy")
        .on_conflict(OnConflict::Replace);
    let body = json!({"queue": "q", "key": "k", "due_at": 1_796_083_200_000_i64, "payload": {"order": 1}, "priority": "high",
        "retry": "busy", "on_conflict": "replace"});
    let got = check("POST /v1/tasks", body, answer, async |c| c.schedule(&task).await).await;
    assert!(got.created);
    assert_eq!((got.task.id.as_str(), got.task.state, got.task.attempt), ("7", State::Running, 2));
    assert_eq!(got.task.due_at, due);
    assert!(got.task.payload.is_null() && got.task.cancel_requested);

    let tasks = [
        NewTask::new("q", "a", Duration::from_secs(2)),
        NewTask::new("q", "b", due).payload(Payload::json(&[1, 2]).unwrap()),
    ];
    let body = json!({"tasks": [{"queue": "q", "key": "a", "delay_ms": 2000},
        {"queue": "q", "key": "b", "due_at": 1_796_083_200_000_i64, "payload": [1, 2]}]});
    let answer = json!({"results": [{"id": "1", "created": false},
        {"error": {"code": "payload_too_large", "detail": "d", "pointer": "/payload"}}]});
    let got = check("POST /v1/tasks/batch", body, answer, async |c| c.schedule_batch(&tasks).await).await;
    assert_eq!(got[0], BatchItem::Scheduled { id: "1".into(), created: false });
    let BatchItem::Refused { error } = &got[1] else { panic!("{got:?}") };
    assert_eq!((error.code.as_str(), error.pointer.as_deref()), ("payload_too_large", Some("/payload")));
}

#[tokio::test]
async fn tasks_are_looked_at_and_changed() {
    let at = Timestamp::from_ms(5);
    let got = check("GET /v1/tasks/7", Value::Null, task_json(), async |c| c.task("7").await).await;
    assert_eq!(got.last_error.as_deref(), Some("boom"));
    check("POST /v1/tasks/7/cancel", Value::Null, task_json(), async |c| c.cancel("7").await).await;
    check("POST /v1/tasks/7/run", Value::Null, task_json(), async |c| c.run("7").await).await;
    check("POST /v1/tasks/7/retry", Value::Null, task_json(), async |c| c.retry("7").await).await;
    let body = json!({"due_at": 5});
    check("POST /v1/tasks/7/reschedule", body, task_json(), async |c| c.reschedule("7", at).await).await;
    let path = "POST /v1/queues/late%20checks%2F%C3%A4/keys/a%2Fb%3Fc%25/cancel";
    check(path, Value::Null, task_json(), async |c| c.cancel_key(QUEUE, "a/b?c%").await).await;
    let body = json!({"delay_ms": 7});
    let wait = Duration::from_millis(7);
    check("POST /v1/queues/q/keys/k/reschedule", body, task_json(), async |c| {
        c.reschedule_key("q", "k", wait).await
    })
    .await;
    let trail = json!({"items": [
        {"seq": 0, "at": "2026-12-01T00:00:00.000Z", "from": null, "to": "pending", "reason": "scheduled", "attempt": 0,
         "due_at": "2026-12-01T00:00:00.000Z", "started_at": null, "actor": "api", "detail": null, "trace_id": null},
        {"seq": 1, "at": "2026-12-01T00:00:00.000Z", "from": "pending", "to": "frozen", "reason": "frost", "attempt": 0}]});
    let got = check("GET /v1/tasks/7/trail", Value::Null, trail, async |c| c.trail("7").await).await;
    assert_eq!((got.items[0].from, got.items[0].to), (None, State::Pending));
    assert_eq!((got.items[1].to, got.next_after_seq), (State::Unknown, None));
    let rest = json!({"items": [], "next_after_seq": 9});
    let got =
        check("GET /v1/tasks/7/trail?after_seq=8", Value::Null, rest, async |c| c.trail_after("7", 8).await)
            .await;
    assert_eq!(got.next_after_seq, Some(9));
}

#[tokio::test]
async fn leases_are_taken_extended_and_settled() {
    let mut leased = task_json();
    leased["lease_token"] = json!("3.4");
    leased["lease_until"] = json!("2026-12-01T00:00:30.000Z");
    leased["payload"] = json!({"order": 12});
    let request = LeaseRequest::new("w").max(10).wait_ms(1).lease_ms(9_000);
    let body = json!({"worker": "w", "max": 10, "wait_ms": 1, "lease_ms": 9000});
    let got = check("POST /v1/queues/q/lease", body, json!({"tasks": [leased]}), async |c| {
        c.lease("q", &request).await
    })
    .await;
    assert_eq!(got[0].key, "k");
    assert_eq!(got[0].payload.parse::<Value>().unwrap(), json!({"order": 12}));
    let token = got[0].lease_token.clone();

    let results = [
        Settlement::done("7", &token),
        Settlement::retry("8", &token, FailureClass::Busy, "full").delay_ms(5),
        Settlement::dead("9", &token, "no such order"),
    ];
    let body = json!({"results": [{"id": "7", "lease_token": "3.4", "outcome": "done"},
        {"id": "8", "lease_token": "3.4", "outcome": "retry", "class": "busy", "error": "full", "delay_ms": 5},
        {"id": "9", "lease_token": "3.4", "outcome": "dead", "error": "no such order"}]});
    let answer = json!({"results": [{"ok": true}, {"error": "lease_lost"}, {"error": {"code": "not_found", "detail": "x"}}]});
    let got = check("POST /v1/leases/settle", body, answer, async |c| c.settle(&results).await).await;
    assert_eq!(got[0], SettleAnswer::Settled);
    assert!(matches!(&got[1], SettleAnswer::Refused(fault) if fault.code == "lease_lost"));
    assert!(matches!(&got[2], SettleAnswer::Refused(fault) if fault.code == "not_found"));

    let leases = [
        LeaseRef { id: "7".into(), lease_token: token.clone() },
        LeaseRef { id: "8".into(), lease_token: token },
    ];
    let body = json!({"leases": [{"id": "7", "lease_token": "3.4"}, {"id": "8", "lease_token": "3.4"}], "lease_ms": 9000});
    let answer = json!({"results": [{"ok": true, "cancel_requested": true}, {"error": "lease_lost"}]});
    let got = check("POST /v1/leases/extend", body, answer, async |c| c.extend(&leases, 9_000).await).await;
    assert_eq!(got[0], ExtendAnswer::Extended { cancel_requested: true });
    assert!(matches!(&got[1], ExtendAnswer::Refused(fault) if fault.code == "lease_lost"));
}

#[tokio::test]
async fn queues_schedules_dead_letters_and_health() {
    let status = json!({"queue": "q", "settings": {"tier": "wheel", "handler": {"webhook": {"url": "http://x/"}},
        "concurrency": 5, "later": 1}, "depth": {"pending": 3}, "oldest_due": null, "rate": 2.5});
    let got =
        check("GET /v1/queues", Value::Null, json!({"items": [status]}), async |c| c.queues().await).await;
    assert_eq!((got[0].queue.as_str(), got[0].depth["pending"]), ("q", 3));
    assert_eq!(got[0].more["rate"], json!(2.5));
    check("GET /v1/queues/q", Value::Null, status.clone(), async |c| c.queue("q").await).await;
    let settings = QueueSettings::new().handler(HandlerSpec::Lease).concurrency(9).paused(true);
    let body = json!({"handler": "lease", "concurrency": 9, "paused": true});
    check("PUT /v1/queues/q", body, status, async |c| c.put_queue("q", &settings).await).await;
    check("POST /v1/queues/q/pause", Value::Null, json!({}), async |c| c.pause("q").await).await;
    check("POST /v1/queues/q/resume", Value::Null, json!({}), async |c| c.resume("q").await).await;

    let schedule = json!({"name": "n", "queue": "q", "cron": "0 3 * * *", "timezone": "Europe/Berlin", "catch_up": "skip",
        "next": ["2026-12-01T02:00:00.000Z"], "enabled": true});
    let spec = ScheduleSpec::cron("q", "0 3 * * *", "Europe/Berlin").catch_up(CatchUp::Skip);
    let body = json!({"queue": "q", "cron": "0 3 * * *", "timezone": "Europe/Berlin", "catch_up": "skip"});
    let got =
        check("PUT /v1/schedules/n", body, schedule.clone(), async |c| c.put_schedule("n", &spec).await)
            .await;
    assert_eq!(got.next.len(), 1);
    let spec = ScheduleSpec::every_ms("q", 500).payload(json!(1));
    let body = json!({"queue": "q", "every_ms": 500, "payload": 1, "catch_up": "one"});
    check("PUT /v1/schedules/n", body, schedule.clone(), async |c| c.put_schedule("n", &spec).await).await;
    check("GET /v1/schedules/n", Value::Null, schedule.clone(), async |c| c.get_schedule("n").await).await;
    check("GET /v1/schedules", Value::Null, json!([schedule]), async |c| c.schedules().await).await;
    check("DELETE /v1/schedules/n", Value::Null, Value::Null, async |c| c.delete_schedule("n").await).await;

    let page = json!({"items": [task_json()], "next_cursor": null});
    let filter = ListDead::new().queue("q").limit(3);
    check("GET /v1/dead?queue=q&limit=3", Value::Null, page, async |c| c.dead(&filter).await).await;
    let ids = DeadFilter::Ids { ids: vec!["7".into()] };
    let got = check(
        "POST /v1/dead/retry",
        json!({"ids": ["7"]}),
        json!({"retried": 1, "results": [{"ok": true}]}),
        async |c| c.dead_retry(&ids).await,
    )
    .await;
    assert_eq!(got.retried, 1);
    let all = DeadFilter::Queue { queue: "q".into(), limit: None };
    check("POST /v1/dead/retry", json!({"queue": "q"}), json!({"retried": 0}), async |c| {
        c.dead_retry(&all).await
    })
    .await;
    check("GET /healthz", Value::Null, json!({}), async |c| c.healthz().await).await;
    check("GET /readyz", Value::Null, json!({}), async |c| c.readyz().await).await;
}

#[tokio::test]
async fn listings_are_paged() {
    let mock = Mock::start().await;
    let page = |keys: &[&str], next: Value| {
        let task = |key: &&str| {
            let mut task = task_json();
            task["key"] = json!(key);
            task
        };
        Answer::json(200, json!({"items": keys.iter().map(task).collect::<Vec<_>>(), "next_cursor": next}))
    };
    mock.answer("GET /v1/tasks", page(&["a", "b"], json!("c+1&")));
    mock.answer("GET /v1/tasks", page(&[], json!("c2")));
    mock.answer("GET /v1/tasks", page(&["c"], Value::Null));
    let client = Client::new(mock.url()).unwrap();
    let filter = ListTasks::new()
        .queue("q")
        .state(State::Dead)
        .due_before(Timestamp::from_ms(0))
        .order(Order::Due)
        .limit(2);
    let tasks: Vec<Task> = client.list_all(filter).into_stream().try_collect().await.unwrap();
    assert_eq!(tasks.iter().map(|task| task.key.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    let calls: Vec<_> = mock.seen("").into_iter().map(|seen| seen.call).collect();
    let first = "GET /v1/tasks?queue=q&state=dead&due_before=1970-01-01T00%3A00%3A00.000Z&order=due&limit=2";
    assert_eq!(calls, [first.to_owned(), format!("{first}&cursor=c%2B1%26"), format!("{first}&cursor=c2")]);
}

#[tokio::test]
async fn refusals_say_what_to_do() {
    let mock = Mock::start().await;
    let client = Client::new(mock.url()).unwrap();
    let body = json!({"type": "t", "title": "t", "status": 422, "code": "key_too_long", "detail": "d", "pointer": "/key"});
    mock.answer("POST /v1/tasks", Answer::json(422, body));
    let error = client.schedule(&NewTask::new("q", "k", Timestamp::default())).await.unwrap_err();
    assert_eq!(
        (error.code(), error.status(), error.is_retryable()),
        (Some("key_too_long"), Some(422), false)
    );
    assert_eq!(error.problem().unwrap().pointer.as_deref(), Some("/key"));
    assert_eq!(mock.seen("").len(), 1, "a refusal is not repeated");

    mock.answer("GET /v1/tasks/1", Answer::json(200, json!({"surprise": 1})));
    let error = client.task("1").await.unwrap_err();
    assert!(matches!(&error, Error::Decode { call, .. } if call == "GET /v1/tasks/1"), "{error}");
    mock.answer("POST /v1/leases/settle", Answer::json(200, json!({"results": []})));
    let settlement = Settlement::done("1", &LeaseToken::new("1.1"));
    assert!(
        matches!(client.settle(&[settlement]).await, Err(Error::Decode { .. })),
        "a short answer is no answer"
    );

    assert!(matches!(client.cancel_key("q", "..").await, Err(Error::Invalid(_))));
    for bad in ["", "127.0.0.1:7700", "ftp://x", "http://"] {
        assert!(matches!(Client::new(bad), Err(Error::Invalid(_))), "{bad}");
    }
    assert!(Client::builder("http://x").api_key("a\nb").build().is_err());
    assert!(Client::new("https://duebook.example").is_ok(), "TLS can be set up");
}

#[tokio::test]
async fn a_path_in_the_address_and_a_trace_are_kept() {
    let mock = Mock::start().await;
    mock.answer("", Answer::json(200, task_json()));
    let trace: TraceId = "0af7651916cd43dd8448eb211c80319c".parse().unwrap();
    let client = Client::new(format!("{}/prefix/", mock.url())).unwrap();
    client.with_trace(trace).task("7").await.unwrap();
    let seen = mock.seen("").remove(0);
    assert_eq!(seen.call, "GET /prefix/v1/tasks/7");
    assert!(
        seen.headers["traceparent"].to_str().unwrap().starts_with("00-0af7651916cd43dd8448eb211c80319c-")
    );
    mock.answer("", Answer::json(200, task_json()));
    client.task("7").await.unwrap();
    assert!(!mock.seen("")[1].headers.contains_key("traceparent"));
}
