//! Pulled leases and dead letters.

use crate::node::Node;
use reqwest::Method;
use serde_json::{Value, json};

async fn lease(node: &Node, wait_ms: u64, max: u64) -> Vec<Value> {
    let body = json!({"worker": "w1", "max": max, "wait_ms": wait_ms, "lease_ms": 20_000});
    node.post("/v1/queues/orders/lease", &body).await.ok(200)["tasks"].as_array().unwrap().clone()
}

fn settlement(task: &Value, more: &Value) -> Value {
    let mut item = json!({"id": task["id"], "lease_token": task["lease_token"]});
    item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    item
}

#[tokio::test]
async fn a_long_poll_wakes_when_a_task_becomes_due_and_its_settle_is_final() {
    let node = Node::start().await;
    assert!(lease(&node, 0, 1).await.is_empty());
    let poll = lease(&node, 30_000, 5);
    let soon = json!({"queue": "orders", "key": "o-1", "delay_ms": 300, "payload": 7});
    let schedule = node.post("/v1/tasks", &soon);
    let (tasks, task) = tokio::join!(poll, schedule);
    assert_eq!(tasks.len(), 1);
    let leased = &tasks[0];
    assert_eq!(leased["id"], task.ok(201)["id"]);
    assert_eq!(
        (&leased["state"], &leased["attempt"], &leased["payload"]),
        (&json!("running"), &json!(1), &json!(7))
    );
    assert!(
        leased["started_at"].as_str().unwrap() >= leased["due_at"].as_str().unwrap(),
        "never early: {leased}"
    );
    let held = json!({"leases": [settlement(leased, &json!({}))], "lease_ms": 60_000});
    let extended = node.post("/v1/leases/extend", &held).await.ok(200);
    assert_eq!(extended["results"][0], json!({"ok": true, "cancel_requested": false}));
    let id = leased["id"].as_str().unwrap();
    let asked = node.send(Method::POST, &format!("/v1/tasks/{id}/cancel"), None).await.ok(200);
    assert_eq!((&asked["state"], &asked["cancel_requested"]), (&json!("running"), &json!(true)));
    let extended = node.post("/v1/leases/extend", &held).await.ok(200);
    assert_eq!(extended["results"][0]["cancel_requested"], true);
    let other = json!({"id": id, "lease_token": "9.9", "outcome": "done"});
    let results = json!({"results": [settlement(leased, &json!({"outcome": "done"})), other,
        {"id": "nonsense", "lease_token": "1.1", "outcome": "done"}]});
    let settled = node.post("/v1/leases/settle", &results).await.ok(200);
    assert_eq!(settled["results"], json!([{"ok": true}, {"error": "lease_lost"}, {"error": "not_found"}]));
    let again = node.post("/v1/leases/settle", &results).await.ok(200);
    assert_eq!(again["results"][0], json!({"error": "lease_lost"}));
    node.until(&format!("/v1/tasks/{id}"), |task| task["state"] == "succeeded").await;
    node.stop().await;
}

async fn make_dead(node: &Node, keys: &[&str]) -> Vec<String> {
    for key in keys {
        node.post("/v1/tasks", &json!({"queue": "orders", "key": key, "delay_ms": 0})).await.ok(201);
    }
    let mut ids = Vec::new();
    while ids.len() < keys.len() {
        let tasks = lease(node, 10_000, 10).await;
        let results: Vec<_> = tasks
            .iter()
            .map(|task| settlement(task, &json!({"outcome": "dead", "error": "no such address"})))
            .collect();
        let settled = node.post("/v1/leases/settle", &json!({ "results": results })).await.ok(200);
        assert!(
            settled["results"].as_array().unwrap().iter().all(|result| result["ok"] == true),
            "{settled}"
        );
        ids.extend(tasks.iter().map(|task| task["id"].as_str().unwrap().to_owned()));
    }
    ids
}

#[tokio::test]
async fn dead_letters_are_listed_and_retried() {
    let node = Node::start().await;
    let ids = make_dead(&node, &["o-1", "o-2", "o-3", "o-4"]).await;
    let page = node.get("/v1/dead?queue=orders&limit=3").await.ok(200);
    assert_eq!(page["items"].as_array().unwrap().len(), 3);
    assert_eq!(page["items"][0]["last_error"], "no such address");
    let next = format!("/v1/dead?queue=orders&cursor={}", page["next_cursor"].as_str().unwrap());
    assert_eq!(node.get(&next).await.ok(200)["items"].as_array().unwrap().len(), 1);
    let alone = node.send(Method::POST, &format!("/v1/tasks/{}/retry", ids[0]), None).await.ok(200);
    assert_eq!((&alone["state"], &alone["attempt"]), (&json!("pending"), &json!(0)));
    let retried = node.post("/v1/dead/retry", &json!({"ids": [ids[0], ids[1], "x"]})).await.ok(200);
    assert_eq!(retried["retried"], 1);
    assert_eq!(retried["results"][0]["error"]["code"], "illegal_transition");
    assert_eq!(retried["results"][1], json!({"id": ids[1], "ok": true}));
    assert_eq!(retried["results"][2]["error"]["code"], "not_found");
    let rest = node.post("/v1/dead/retry", &json!({"queue": "orders", "limit": 10})).await.ok(200);
    assert_eq!(rest["retried"], 2);
    node.until("/v1/dead", |page| page["items"] == json!([])).await;
    node.stop().await;
}

#[tokio::test]
async fn a_retry_asked_for_by_the_worker_comes_again() {
    let node = Node::start().await;
    node.post("/v1/tasks", &json!({"queue": "orders", "key": "o-1", "delay_ms": 0})).await.ok(201);
    let tasks = lease(&node, 10_000, 1).await;
    let more = json!({"outcome": "retry", "class": "busy", "error": "later", "delay_ms": 1});
    let settled =
        node.post("/v1/leases/settle", &json!({"results": [settlement(&tasks[0], &more)]})).await.ok(200);
    assert_eq!(settled["results"][0]["ok"], true);
    let id = tasks[0]["id"].as_str().unwrap();
    let task = node.until(&format!("/v1/tasks/{id}"), |task| task["state"] == "pending").await;
    assert_eq!((&task["last_error"], &task["attempt"]), (&json!("later"), &json!(1)));
    assert!(task["due_at"].as_str().unwrap() > tasks[0]["due_at"].as_str().unwrap());
    node.stop().await;
}
