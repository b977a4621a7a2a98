//! Stopping: long polls are answered, running requests end well, late ones are told.

use crate::node::Node;
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn a_stopping_engine_is_not_ready_and_takes_nothing() {
    let node = Node::start().await;
    node.server.engine().stop(0).await;
    node.get("/readyz").await.problem(503, "not_ready", None);
    node.get("/healthz").await.ok(200);
    let task = json!({"queue": "q", "key": "k", "delay_ms": 1});
    let answer = node.post("/v1/tasks", &task).await;
    answer.problem(503, "stopping", None);
    assert!(answer.headers.contains_key("retry-after"));
    node.post("/v1/queues/q/lease", &json!({"worker": "w"})).await.problem(503, "stopping", None);
    node.stop().await;
}

#[tokio::test]
async fn long_polls_are_answered_when_the_server_stops() {
    let node = Node::start().await;
    node.put("/v1/queues/q", &json!({})).await.ok(200);
    let Node { server, client, dir, .. } = node;
    let url = format!("http://{}/v1/queues/q/lease", server.local_addr());
    let poll = client.post(url).json(&json!({"worker": "w", "wait_ms": 60_000})).send();
    let poll = tokio::spawn(poll);
    // The poll is at work once its connection is there.
    let metrics = format!("http://{}/metrics", server.local_addr());
    for _ in 0..500 {
        let text = client.get(&metrics).send().await.unwrap().text().await.unwrap();
        if text.contains("duebook_http_connections 2") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::timeout(Duration::from_secs(10), server.shutdown()).await.expect("stops in time");
    let answer = poll.await.unwrap().unwrap();
    assert!(matches!(answer.status().as_u16(), 200 | 503), "{answer:?}");
    drop(dir);
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_a_stop() {
    let node = Node::start().await;
    let task = json!({"queue": "q", "key": "k", "delay_ms": 3_600_000});
    let first = node.post("/v1/tasks", &task).await.ok(201);
    let dir = node.stop().await;
    let node = Node::start_in(dir, |_, _, _| ()).await;
    assert_eq!(node.post("/v1/tasks", &task).await.ok(200)["id"], first["id"]);
    node.stop().await;
}
