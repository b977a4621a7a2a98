//! Scheduling tasks, looking at them, changing their course.

use crate::node::Node;
use reqwest::Method;
use serde_json::{Value, json};

fn far(key: &str) -> Value {
    json!({"queue": "orders", "key": key, "delay_ms": 3_600_000})
}

#[tokio::test]
async fn a_task_is_scheduled_once_and_found_again() {
    let node = Node::start().await;
    let body = r#"{"queue":"orders","key":"o-1","due_at":"2030-01-02T03:04:05.678+01:00","payload":{"b": 1,  "a":[1.50]},
        "priority":"high","retry":"busy"}"#;
    let answer = node.send(Method::POST, "/v1/tasks", Some(body)).await;
    let task = answer.ok(201);
    assert_eq!(task["created"], true);
    assert_eq!(task["due_at"], "2030-01-02T02:04:05.678Z");
    assert_eq!(task["state"], "pending");
    assert!(answer.text.contains(r#""payload":{"b": 1,  "a":[1.50]}"#), "as it was given: {}", answer.text);
    let again = node.send(Method::POST, "/v1/tasks", Some(body)).await.ok(200);
    assert_eq!((&again["created"], &again["id"]), (&json!(false), &task["id"]));
    let path = format!("/v1/tasks/{}", task["id"].as_str().unwrap());
    let mut found = node.get(&path).await.ok(200);
    found["created"] = json!(true);
    assert_eq!(found, task, "the answer to scheduling is what is found later");
    node.stop().await;
}

#[tokio::test]
async fn on_conflict_says_what_happens_to_a_live_task() {
    let node = Node::start().await;
    let first = node.post("/v1/tasks", &far("o-1")).await.ok(201);
    let mut other = far("o-1");
    other["payload"] = json!([1]);
    other["on_conflict"] = json!("replace");
    other["due_at"] = json!(1_900_000_000_000_u64);
    other.as_object_mut().unwrap().remove("delay_ms");
    let replaced = node.post("/v1/tasks", &other).await.ok(200);
    assert_eq!(replaced["id"], first["id"]);
    assert_eq!(replaced["due_at"], "2030-03-17T17:46:40.000Z");
    assert_eq!(replaced["payload"], json!([1]));
    other["on_conflict"] = json!("reject");
    let refused = node.post("/v1/tasks", &other).await.problem(409, "key_taken", None);
    assert!(refused["detail"].as_str().unwrap().contains(first["id"].as_str().unwrap()));
    node.stop().await;
}

#[tokio::test]
async fn items_of_a_batch_are_taken_or_refused_by_themselves() {
    let node = Node::start().await;
    let mut tasks: Vec<Value> = (0..5).map(|i| far(&format!("o-{i}"))).collect();
    tasks[1]["key"] = json!("");
    tasks[2]["colour"] = json!("red");
    tasks[3]["delay_ms"] = json!("soon");
    tasks[4]["queue"] = json!("no blanks");
    tasks.push(far("o-0"));
    tasks.push(json!({"queue": "orders", "key": "o-0", "delay_ms": 1, "on_conflict": "reject"}));
    tasks.push(json!({"queue": "orders", "delay_ms": 1}));
    let answer = node.post("/v1/tasks/batch", &json!({ "tasks": tasks })).await.ok(200);
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results.len(), 8);
    assert_eq!(results[0]["created"], true);
    assert_eq!((&results[5]["created"], &results[5]["id"]), (&json!(false), &results[0]["id"]));
    for (at, code, pointer) in [
        (1, "bad_field", Some("/tasks/1/key")),
        (2, "unknown_field", Some("/tasks/2/colour")),
        (3, "bad_field", Some("/tasks/3/delay_ms")),
        (4, "bad_field", Some("/tasks/4/queue")),
        (6, "key_taken", None),
        (7, "missing_field", Some("/tasks/7/key")),
    ] {
        let error = &results[at]["error"];
        assert_eq!(
            (error["code"].as_str(), error["pointer"].as_str()),
            (Some(code), pointer),
            "{at}: {error}"
        );
    }
    node.stop().await;
}

#[tokio::test]
async fn tasks_are_listed_in_pages_that_neither_skip_nor_repeat() {
    let node = Node::start().await;
    let tasks: Vec<Value> = (0..25)
        .map(|i| json!({"queue": if i % 5 == 0 { "b" } else { "a" }, "key": format!("k{i}"), "due_at": 1_900_000_000_000_u64 + i / 2}))
        .collect();
    node.post("/v1/tasks/batch", &json!({ "tasks": tasks })).await.ok(200);
    for (order, ascending) in [("", false), ("&order=due", true)] {
        let mut seen: Vec<(String, String)> = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = node.get(&format!("/v1/tasks?limit=4{order}{cursor}")).await.ok(200);
            for item in page["items"].as_array().unwrap() {
                seen.push((item["due_at"].as_str().unwrap().into(), item["id"].as_str().unwrap().into()));
            }
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        let mut sorted = seen.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), 25);
        if !ascending {
            sorted.reverse();
        }
        assert_eq!(seen, sorted);
    }
    let count = async |query: &str| {
        node.get(&format!("/v1/tasks?{query}")).await.ok(200)["items"].as_array().unwrap().len()
    };
    assert_eq!(count("queue=b").await, 5);
    assert_eq!(count("queue=a&key=k1").await, 1);
    assert_eq!(count("queue=nothing").await, 0);
    assert_eq!(count("state=dead").await, 0);
    assert_eq!(count("due_before=1900000000002").await, 4);
    assert_eq!(count("due_after=2030-03-17T17:46:40.012Z").await, 1);
    node.stop().await;
}

#[tokio::test]
async fn the_course_of_a_task_is_changed_by_id_and_by_key_and_the_trail_tells_it() {
    let node = Node::start().await;
    let traced = node
        .client
        .post(node.url("/v1/tasks"))
        .header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        .json(&far("a/b ü"));
    let task = Node::read(traced).await.ok(201);
    assert_eq!(task["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
    let id = task["id"].as_str().unwrap();
    let path = |act: &str| format!("/v1/tasks/{id}/{act}");
    let due = json!({"due_at": "2031-01-01T00:00:00Z"});
    let moved = node.post(&path("reschedule"), &due).await.ok(200);
    assert_eq!(moved["due_at"], "2031-01-01T00:00:00.000Z");
    let by_key = "/v1/queues/orders/keys/a%2Fb%20%C3%BC";
    let moved = node.post(&format!("{by_key}/reschedule"), &json!({"delay_ms": 7_200_000})).await.ok(200);
    assert_eq!(moved["id"], task["id"]);
    let run = node.send(Method::POST, &path("run"), None).await.ok(200);
    assert!(run["due_at"].as_str().unwrap() < task["due_at"].as_str().unwrap());
    let cancelled = node.send(Method::POST, &format!("{by_key}/cancel"), None).await.ok(200);
    assert_eq!(cancelled["state"], "cancelled");
    node.send(Method::POST, &path("cancel"), Some("{}")).await.problem(409, "illegal_transition", None);
    node.send(Method::POST, &path("retry"), None).await.problem(409, "illegal_transition", None);
    let trail = node.get(&path("trail")).await.ok(200);
    let items = trail["items"].as_array().unwrap();
    let reasons: Vec<_> = items.iter().map(|item| item["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons.first(), Some(&"scheduled"));
    assert_eq!(reasons.last(), Some(&"cancelled"));
    assert!(reasons.contains(&"rescheduled") && reasons.contains(&"run_now"), "{reasons:?}");
    assert_eq!(items[0]["trace_id"], task["trace_id"]);
    assert_eq!(items[0]["actor"], "api");
    let page = node.get(&format!("{}?limit=1&after_seq=1", path("trail"))).await.ok(200);
    assert_eq!((page["items"][0]["seq"].as_u64(), page["next_after_seq"].as_u64()), (Some(2), Some(2)));
    node.stop().await;
}
