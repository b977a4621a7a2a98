//! Every documented error code, provoked once. (`internal`, `timed_out` and `store_failed` are in the tests of
//! `gate`, `store_full` in `disk`, `stopping` and `not_ready` in `stopping`, `store_corrupt` in `problem`.)

use crate::node::Node;
use duebook_server::Code;
use duebook_store::{KeyRow, Unit, Write};
use reqwest::Method;
use serde_json::{Value, json};

fn task() -> Value {
    json!({"queue": "q", "key": "k", "delay_ms": 3_600_000})
}

fn with(field: &str, value: Value) -> Value {
    let mut body = task();
    body[field] = value;
    body
}

#[tokio::test]
async fn bad_input_is_refused_with_the_pointer_of_the_fault() {
    let node = Node::start().await;
    let post = Method::POST;
    for (body, status, code, pointer) in [
        ("{".to_owned(), 400, "bad_json", None),
        (String::new(), 400, "bad_json", None),
        (format!("{} trailing", task()), 400, "bad_json", None),
        ("[1, 2]".to_owned(), 422, "bad_field", Some("/0")),
        ("7".to_owned(), 422, "bad_field", Some("")),
        (with("kye", json!(1)).to_string(), 422, "unknown_field", Some("/kye")),
        (json!({"queue": "q", "delay_ms": 1}).to_string(), 422, "missing_field", Some("/key")),
        (json!({"queue": "q", "key": "k"}).to_string(), 422, "missing_field", Some("/due_at")),
        (with("due_at", json!(5)).to_string(), 422, "bad_field", Some("/delay_ms")),
        (with("queue", json!("")).to_string(), 422, "bad_field", Some("/queue")),
        (with("queue", json!("x".repeat(65))).to_string(), 422, "bad_field", Some("/queue")),
        (with("key", json!("")).to_string(), 422, "bad_field", Some("/key")),
        (with("key", json!("ü".repeat(129))).to_string(), 422, "bad_field", Some("/key")),
        (with("key", json!(7)).to_string(), 422, "bad_field", Some("/key")),
        (with("delay_ms", json!(-1)).to_string(), 422, "bad_field", Some("/delay_ms")),
        (with("delay_ms", json!(u64::MAX)).to_string(), 422, "bad_field", Some("/delay_ms")),
        (with("priority", json!("urgent")).to_string(), 422, "bad_field", Some("/priority")),
        (with("retry", json!("sometimes")).to_string(), 422, "bad_field", Some("/retry")),
        (with("on_conflict", json!("merge")).to_string(), 422, "bad_field", Some("/on_conflict")),
        (with("payload", json!("x".repeat(65_536))).to_string(), 413, "payload_too_large", Some("/payload")),
    ] {
        node.send(post.clone(), "/v1/tasks", Some(&body)).await.problem(status, code, pointer);
    }
    for due_at in [json!("tomorrow"), json!("2030-01-01T00:00:00"), json!(-1), json!(true), json!(1e18)] {
        let body = json!({"queue": "q", "key": "k", "due_at": due_at});
        node.post("/v1/tasks", &body).await.problem(422, "bad_field", Some("/due_at"));
    }
    node.post("/v1/tasks/batch", &json!({"tasks": []})).await.problem(422, "bad_field", Some("/tasks"));
    let many: Vec<_> = (0..5_001).map(|_| json!({"queue": "q", "key": "k", "delay_ms": 1})).collect();
    node.post("/v1/tasks/batch", &json!({ "tasks": many })).await.problem(422, "bad_field", Some("/tasks"));
    node.post("/v1/tasks/batch", &json!({"task": []})).await.problem(422, "unknown_field", Some("/task"));
    node.stop().await;
}

#[tokio::test]
async fn bad_lease_requests_and_queries_are_refused() {
    let node = Node::start().await;
    for (body, code, pointer) in [
        (json!({}), "missing_field", "/worker"),
        (json!({"worker": ""}), "bad_field", "/worker"),
        (json!({"worker": "w", "max": 0}), "bad_field", "/max"),
        (json!({"worker": "w", "max": 1001}), "bad_field", "/max"),
        (json!({"worker": "w", "wait_ms": 60_001}), "bad_field", "/wait_ms"),
        (json!({"worker": "w", "lease_ms": 99}), "bad_field", "/lease_ms"),
        (json!({"worker": "w", "colour": 1}), "unknown_field", "/colour"),
    ] {
        node.post("/v1/queues/q/lease", &body).await.problem(422, code, Some(pointer));
    }
    let item = json!({"id": "x", "lease_token": "1.1", "outcome": "maybe"});
    node.post("/v1/leases/settle", &json!({"results": [item]})).await.problem(
        422,
        "bad_field",
        Some("/results/0/outcome"),
    );
    for query in [
        "limit=0",
        "limit=1001",
        "limit=x",
        "state=done",
        "order=key",
        "cursor=%21",
        "cursor=AAAA",
        "due_before=soon",
        "key=k",
        "colour=red",
        "queue=a&queue=b",
    ] {
        node.get(&format!("/v1/tasks?{query}")).await.problem(422, "bad_query", None);
    }
    node.get("/v1/dead?limit=0").await.problem(422, "bad_query", None);
    for (body, pointer) in [
        (json!({}), ""),
        (json!({"ids": [], "queue": "q"}), "/queue"),
        (json!({"ids": [], "limit": 5}), "/limit"),
        (json!({"queue": "q", "limit": 0}), "/limit"),
    ] {
        node.post("/v1/dead/retry", &body).await.problem(422, "bad_field", Some(pointer));
    }
    for (body, pointer) in [
        (json!({"name": "", "scopes": ["read"]}), "/name"),
        (json!({"name": "x", "scopes": []}), "/scopes"),
        (json!({"name": "x", "scopes": ["read", "write"]}), "/scopes/1"),
        (json!({"name": "x", "scopes": ["read"], "queues": ["a b"]}), "/queues"),
    ] {
        node.post("/v1/keys", &body).await.problem(422, "bad_field", Some(pointer));
    }
    node.stop().await;
}

#[tokio::test]
async fn routes_methods_and_types_that_do_not_exist_are_problems() {
    let node = Node::start().await;
    node.get("/v1/nothing").await.problem(404, "unknown_route", None);
    node.get("/v1/tasks/").await.problem(404, "unknown_route", None);
    let refused = node.send(Method::DELETE, "/v1/tasks", None).await;
    refused.problem(405, "method_not_allowed", None);
    assert!(refused.headers.contains_key("allow"));
    node.get("/v1/tasks/0000000000000").await.problem(404, "not_found", None);
    node.get("/v1/tasks/not-an-id").await.problem(404, "not_found", None);
    node.get("/v1/queues/%ff").await.problem(400, "unreadable", None);
    let request = node.client.post(node.url("/v1/tasks")).header("content-type", "text/plain").body("{}");
    Node::read(request).await.problem(415, "unsupported_media_type", None);
    let untyped = node.client.post(node.url("/v1/tasks")).body(task().to_string());
    Node::read(untyped).await.ok(201);
    let typed = node
        .client
        .post(node.url("/v1/tasks"))
        .header("content-type", "application/vnd.shop+json; charset=utf-8")
        .body(task().to_string());
    Node::read(typed).await.ok(200);
    node.send(Method::POST, "/v1/tasks/0000000000000/cancel", Some(r#"{"why":1}"#)).await.problem(
        422,
        "unknown_field",
        Some("/why"),
    );
    node.put("/v1/queues/hooks", &json!({"handler": {"webhook": {"url": "http://127.0.0.1:9/"}}}))
        .await
        .ok(200);
    node.post("/v1/queues/hooks/lease", &json!({"worker": "w"})).await.problem(409, "not_pulled", None);
    node.send(Method::DELETE, "/v1/keys/nothing", None).await.problem(404, "not_found", None);
    node.stop().await;
}

#[tokio::test]
async fn too_many_keys_are_refused() {
    let mut node = Node::start().await;
    let made = node.post("/v1/keys", &json!({"name": "root", "scopes": ["admin"]})).await.ok(201);
    node.key = made["key"].as_str().map(str::to_owned);
    let row = |i: usize| {
        Write::PutKey(KeyRow {
            id: format!("k{i}"),
            hash: format!("{i:064x}"),
            name: "x".into(),
            scopes: "read".into(),
            queues: String::new(),
            created_ms: 0,
            revoked_ms: Some(1),
        })
    };
    let store = node.server.engine().store();
    store.submit(Unit::each((1..duebook_server::keys::KEYS_MAX).map(row).collect())).await.unwrap();
    node.post("/v1/keys", &json!({"name": "one more", "scopes": ["read"]}))
        .await
        .problem(422, "too_many", None);
    node.stop().await;
}

#[test]
fn codes_are_distinct_and_their_documents_complete() {
    let mut names: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Code::ALL.len());
    for code in Code::ALL {
        assert!((400..600).contains(&code.status()) && code.doc().ends_with('.'), "{code:?}");
    }
}
