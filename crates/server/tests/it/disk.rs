//! A store without room: writes are refused with a code, reads and health go on, and room brings writes back.

use crate::node::Node;
use serde_json::json;

#[tokio::test]
async fn a_full_store_refuses_writes_reads_on_and_recovers() {
    let node = Node::start_with(|store, _, _| store.size_max_bytes = Some(600_000)).await;
    let batch = |from: usize| {
        let tasks: Vec<_> = (from..from + 20)
            .map(|i| json!({"queue": "q", "key": format!("k{i}"), "delay_ms": 3_600_000, "payload": "x".repeat(1_000)}))
            .collect();
        json!({ "tasks": tasks })
    };
    let first = node.post("/v1/tasks/batch", &batch(0)).await.ok(200);
    let mut stored = 20;
    loop {
        let answer = node.post("/v1/tasks/batch", &batch(stored)).await;
        if answer.status != 200 {
            answer.problem(503, "store_full", None);
            break;
        }
        stored += 20;
        assert!(stored < 2_000, "the limit does not hold");
    }
    let path = format!("/v1/tasks/{}", first["results"][0]["id"].as_str().unwrap());
    node.get(&path).await.ok(200);
    node.get("/healthz").await.ok(200);
    node.get("/readyz").await.ok(200);
    assert_eq!(node.get("/v1/queues/q").await.ok(200)["depth"]["pending"], stored);
    let dir = node.stop().await;
    let node = Node::start_in(dir, |_, _, _| ()).await;
    assert_eq!(
        node.get("/v1/queues/q").await.ok(200)["depth"]["pending"],
        stored,
        "nothing acknowledged is lost"
    );
    node.post("/v1/tasks/batch", &batch(stored)).await.ok(200);
    node.stop().await;
}
