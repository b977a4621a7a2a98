//! Queues and recurring schedules.

use crate::node::Node;
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn queues_are_put_paused_and_their_secrets_never_told() {
    let node = Node::start().await;
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let settings = json!({"handler": {"webhook": {"url": "http://127.0.0.1:9/x", "secret": secret}}, "concurrency": 5,
        "retry": "busy", "rate_per_second": 2.5, "timeout_ms": 1000, "tier": "db", "paused": true});
    let answer = node.put("/v1/queues/hooks", &settings).await;
    let queue = answer.ok(200);
    assert!(!answer.text.contains(secret));
    assert_eq!(queue["settings"]["handler"]["webhook"]["secret"], "whsec_***");
    let mut kept = queue["settings"].clone();
    kept["concurrency"] = json!(6);
    assert_eq!(node.put("/v1/queues/hooks", &kept).await.ok(200)["settings"]["concurrency"], 6);
    let stored = node.server.engine().queue_settings("hooks").unwrap();
    assert!(format!("{:?}", stored.handler).contains(secret), "the placeholder keeps the secret");
    node.put("/v1/queues/new", &kept).await.problem(422, "bad_field", Some("/handler/webhook/secret"));
    node.put("/v1/queues/a%20b", &json!({})).await.problem(422, "bad_field", None);
    node.put("/v1/queues/x", &json!({"handler": {"topic": "t"}})).await.problem(
        422,
        "bad_field",
        Some("/handler"),
    );
    node.put("/v1/queues/x", &json!({"concurency": 1})).await.problem(
        422,
        "unknown_field",
        Some("/concurency"),
    );
    node.put("/v1/queues/x", &json!({"concurrency": 0})).await.problem(
        422,
        "bad_field",
        Some("/concurrency"),
    );
    let resumed = node.send(Method::POST, "/v1/queues/hooks/resume", None).await.ok(200);
    assert_eq!(resumed["settings"]["paused"], false);
    let paused = node.send(Method::POST, "/v1/queues/hooks/pause", None).await.ok(200);
    assert_eq!(paused["settings"]["paused"], true);
    node.send(Method::POST, "/v1/queues/nothing/pause", None).await.problem(404, "not_found", None);
    node.get("/v1/queues/nothing").await.problem(404, "not_found", None);
    node.post("/v1/tasks", &json!({"queue": "hooks", "key": "k", "due_at": 1_000})).await.ok(201);
    let queue = node.until("/v1/queues/hooks", |queue| queue["depth"]["pending"] == 1).await;
    assert_eq!(queue["oldest_due"], "1970-01-01T00:00:01.000Z");
    let all = node.get("/v1/queues").await.ok(200);
    assert_eq!(all["items"].as_array().unwrap().len(), 1);
    node.stop().await;
}

#[tokio::test]
async fn recurring_schedules_are_put_shown_and_deleted() {
    let node = Node::start().await;
    let cron = json!({"queue": "reports", "cron": "0 9 * * *", "timezone": "Europe/Berlin", "payload": {"n": 1},
        "catch_up": "skip"});
    let schedule = node.put("/v1/schedules/daily", &cron).await.ok(200);
    assert_eq!(schedule["next"].as_array().unwrap().len(), 5);
    assert_eq!(node.get("/v1/schedules/daily").await.ok(200), schedule);
    let every = json!({"queue": "reports", "every_ms": 3_600_000});
    let first = node.put("/v1/schedules/hourly", &every).await.ok(200);
    let second = node.put("/v1/schedules/hourly", &every).await.ok(200);
    assert_eq!(first["next"], second["next"], "putting it again does not move it");
    assert_eq!(node.get("/v1/schedules").await.ok(200)["items"].as_array().unwrap().len(), 2);
    let bad = |field: &str, value: serde_json::Value| {
        let mut body = cron.clone();
        body[field] = value;
        body
    };
    for (body, pointer) in [
        (bad("cron", json!("61 * * * *")), "/cron"),
        (bad("timezone", json!("Mars/Olympus")), "/timezone"),
        (bad("every_ms", json!(1000)), "/every_ms"),
        (bad("queue", json!("")), "/queue"),
        (bad("catch_up", json!("some")), "/catch_up"),
    ] {
        node.put("/v1/schedules/x", &body).await.problem(422, "bad_field", Some(pointer));
    }
    assert_eq!(node.send(Method::DELETE, "/v1/schedules/hourly", None).await.status, 204);
    node.send(Method::DELETE, "/v1/schedules/hourly", None).await.problem(404, "not_found", None);
    node.get("/v1/schedules/hourly").await.problem(404, "not_found", None);
    node.stop().await;
}
