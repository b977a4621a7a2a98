//! Health, metrics, pages.

use crate::node::Node;
use serde_json::json;

#[tokio::test]
async fn health_and_pages_are_there() {
    let node = Node::start().await;
    assert_eq!(node.get("/healthz").await.ok(200)["status"], "ok");
    assert_eq!(node.get("/readyz").await.ok(200)["status"], "ready");
    let root = node.get("/").await;
    assert_eq!(root.status, 200);
    for link in ["/openapi.json", "/metrics", "/healthz", "/readyz", "/errors"] {
        assert!(root.text.contains(link), "{link}");
        assert_eq!(node.get(link).await.status, 200, "{link}");
    }
    assert!(node.get("/errors").await.text.contains("id=\"store_full\""));
    node.stop().await;
}

#[tokio::test]
async fn metrics_follow_a_task_through_its_life() {
    let node = Node::start().await;
    node.post("/v1/tasks", &json!({"queue": "q", "key": "k", "delay_ms": 1})).await.ok(201);
    let body = json!({"worker": "w", "wait_ms": 10_000});
    let leased = node.post("/v1/queues/q/lease", &body).await.ok(200);
    let task = &leased["tasks"][0];
    let done =
        json!({"results": [{"id": task["id"], "lease_token": task["lease_token"], "outcome": "done"}]});
    node.post("/v1/leases/settle", &done).await.ok(200);
    let text = node.get("/metrics").await.text;
    for line in [
        r#"duebook_transitions_total{from="none",to="pending",reason="scheduled"} 1"#,
        r#"duebook_transitions_total{from="pending",to="running",reason="claimed"} 1"#,
        r#"duebook_transitions_total{from="running",to="succeeded",reason="done"} 1"#,
        r#"duebook_lateness_seconds_count{queue="q"} 1"#,
        r#"duebook_stage_seconds_count{stage="created_committed"} 1"#,
        r#"duebook_stage_seconds_count{stage="due_claimed"} 1"#,
        r#"duebook_stage_seconds_count{stage="claimed_started"} 1"#,
        r#"duebook_stage_seconds_count{stage="started_finished"} 1"#,
        r#"duebook_queue_depth{queue="q",state="succeeded"} 1"#,
        r#"duebook_oldest_due_age_seconds{queue="q"} 0"#,
        "duebook_commit_seconds_bucket",
        "duebook_commit_writes_size_bucket",
        "duebook_claim_tasks_size_sum",
        "duebook_pool_workers ",
        "duebook_wheel_hints",
        "duebook_claims_held",
        "duebook_store_bytes ",
        "duebook_store_waiting_writes ",
        "duebook_http_in_flight 1",
        r#"duebook_http_requests_total{status="2xx"} "#,
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    let queue = node.get("/v1/queues/q").await.ok(200);
    assert!(queue["starts_per_second"].as_f64().unwrap() > 0.0);
    assert!(queue["lateness_ms"]["p99"].is_number());
    node.stop().await;
}
