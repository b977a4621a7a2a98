//! The OpenAPI document: complete, and true.

use crate::access::ROUTES;
use crate::node::{Answer, Node};
use crate::schema::Schemas;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn operations(document: &Value) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        found.extend(item.as_object().unwrap().keys().map(|method| (method.clone(), path.clone())));
    }
    found
}

#[tokio::test]
async fn the_document_lists_every_route_with_its_problems() {
    let node = Node::start().await;
    let document = node.get("/openapi.json").await.ok(200);
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let listed = operations(&document);
    let expected: BTreeSet<_> =
        ROUTES.iter().map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned())).collect();
    assert_eq!(listed, expected);
    let schemas = document["components"]["schemas"].as_object().unwrap();
    assert!(schemas.contains_key("Problem") && schemas.contains_key("Fault"));
    for (method, path) in &listed {
        let operation = &document["paths"][path][method];
        assert!(operation["summary"].is_string() && operation["operationId"].is_string(), "{method} {path}");
        let statuses: Vec<_> = operation["responses"].as_object().unwrap().keys().cloned().collect();
        assert!(statuses.contains(&"500".to_owned()), "{method} {path}");
        assert!(!path.starts_with("/v1/") || statuses.contains(&"401".to_owned()), "{method} {path}");
        for (status, response) in operation["responses"].as_object().unwrap() {
            if status.as_str() >= "400" {
                let content = &response["content"]["application/problem+json"]["schema"]["$ref"];
                assert_eq!(content, "#/components/schemas/Problem", "{method} {path} {status}");
            }
        }
    }
    let ids: Vec<_> =
        listed.iter().map(|(method, path)| &document["paths"][path][method]["operationId"]).collect();
    let distinct: BTreeSet<_> = ids.iter().map(|id| id.to_string()).collect();
    assert_eq!(distinct.len(), ids.len(), "operation ids are distinct: {ids:?}");
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(document.pointer(reference).is_some(), "{reference} leads nowhere");
    }
    node.stop().await;
}

/// Asks, and holds question and answer against the document.
async fn check(
    node: &Node,
    document: &Value,
    method: &str,
    template: &str,
    path: &str,
    body: Option<Value>,
) -> Value {
    let schemas = Schemas { document };
    let operation = &document["paths"][template][method];
    if let Some(body) = &body {
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        assert!(!schema.is_null(), "{method} {template}");
        assert_eq!(schemas.fault(schema, body, ""), None, "request of {method} {template}: {body}");
    }
    let verb = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
    let text = body.map(|body| body.to_string());
    let answer: Answer = node.send(verb, path, text.as_deref()).await;
    let response = &operation["responses"][answer.status.to_string()];
    assert!(response.is_object(), "{method} {template} answers {}: {}", answer.status, answer.text);
    if answer.text.is_empty() {
        return Value::Null;
    }
    let kind = answer.headers["content-type"].to_str().unwrap();
    let schema = &response["content"][kind]["schema"];
    assert!(!schema.is_null(), "{method} {template} answers {kind}: {}", answer.text);
    let value = answer.json();
    assert_eq!(schemas.fault(schema, &value, ""), None, "answer of {method} {template}: {value}");
    value
}

#[tokio::test]
async fn questions_and_answers_are_as_described() {
    let node = Node::start().await;
    let document = node.get("/openapi.json").await.ok(200);
    let call = async |method: &str, template: &str, path: &str, body: Option<Value>| {
        check(&node, &document, method, template, path, body).await
    };
    let task = json!({"queue": "q", "key": "k", "due_at": 1_900_000_000_000_u64, "payload": {"a": 1}, "priority": "high",
        "retry": "busy", "on_conflict": "keep"});
    let made = call("post", "/v1/tasks", "/v1/tasks", Some(task.clone())).await;
    call("post", "/v1/tasks", "/v1/tasks", Some(task.clone())).await;
    let mut reject = task.clone();
    reject["on_conflict"] = json!("reject");
    call("post", "/v1/tasks", "/v1/tasks", Some(reject.clone())).await;
    let due = json!({"queue": "q", "key": "now", "delay_ms": 0});
    call("post", "/v1/tasks/batch", "/v1/tasks/batch", Some(json!({"tasks": [due, reject]}))).await;
    call("get", "/v1/tasks", "/v1/tasks?queue=q", None).await;
    let id = made["id"].as_str().unwrap();
    let by_id = |rest: &str| format!("/v1/tasks/{id}{rest}");
    call("get", "/v1/tasks/{id}", &by_id(""), None).await;
    call("get", "/v1/tasks/{id}", "/v1/tasks/nothing", None).await;
    call("post", "/v1/tasks/{id}/reschedule", &by_id("/reschedule"), Some(json!({"delay_ms": 3_600_000})))
        .await;
    call(
        "post",
        "/v1/queues/{queue}/keys/{key}/reschedule",
        "/v1/queues/q/keys/k/reschedule",
        Some(json!({"due_at": "2030-01-01T00:00:00Z"})),
    )
    .await;
    let wanted = json!({"worker": "w", "max": 5, "wait_ms": 10_000, "lease_ms": 30_000});
    let leased = call("post", "/v1/queues/{queue}/lease", "/v1/queues/q/lease", Some(wanted)).await;
    let held = json!({"id": leased["tasks"][0]["id"], "lease_token": leased["tasks"][0]["lease_token"]});
    let mut settle = held.clone();
    settle["outcome"] = json!("dead");
    settle["error"] = json!("no");
    let extend = json!({"leases": [held], "lease_ms": 30_000});
    call("post", "/v1/leases/extend", "/v1/leases/extend", Some(extend)).await;
    call("post", "/v1/leases/settle", "/v1/leases/settle", Some(json!({"results": [settle, settle]}))).await;
    call("get", "/v1/dead", "/v1/dead", None).await;
    let ids = json!({"ids": [leased["tasks"][0]["id"], "x"]});
    call("post", "/v1/dead/retry", "/v1/dead/retry", Some(ids)).await;
    call("post", "/v1/tasks/{id}/run", &by_id("/run"), None).await;
    call("post", "/v1/tasks/{id}/cancel", &by_id("/cancel"), None).await;
    call("post", "/v1/tasks/{id}/retry", &by_id("/retry"), None).await;
    call("post", "/v1/queues/{queue}/keys/{key}/cancel", "/v1/queues/q/keys/k/cancel", None).await;
    call("get", "/v1/tasks/{id}/trail", &by_id("/trail"), None).await;
    let settings = json!({"tier": "db", "handler": {"webhook": {"url": "http://127.0.0.1:9/",
        "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}, "retry": "busy", "concurrency": 1, "timeout_ms": 1000,
        "rate_per_second": 1.5, "paused": false});
    call("put", "/v1/queues/{queue}", "/v1/queues/h", Some(settings)).await;
    call("put", "/v1/queues/{queue}", "/v1/queues/l", Some(json!({"handler": "lease"}))).await;
    call("get", "/v1/queues/{queue}", "/v1/queues/h", None).await;
    call("get", "/v1/queues", "/v1/queues", None).await;
    call("post", "/v1/queues/{queue}/pause", "/v1/queues/h/pause", None).await;
    call("post", "/v1/queues/{queue}/resume", "/v1/queues/h/resume", None).await;
    let daily = json!({"queue": "q", "cron": "@daily", "timezone": "Asia/Tokyo", "payload": {"a": 1}, "catch_up": "all"});
    call("put", "/v1/schedules/{name}", "/v1/schedules/s", Some(daily)).await;
    call("get", "/v1/schedules/{name}", "/v1/schedules/s", None).await;
    call("get", "/v1/schedules", "/v1/schedules", None).await;
    call("delete", "/v1/schedules/{name}", "/v1/schedules/s", None).await;
    call("get", "/healthz", "/healthz", None).await;
    call("get", "/readyz", "/readyz", None).await;
    let key = json!({"name": "root", "scopes": ["admin"], "queues": []});
    let mut node = node;
    let made = check(&node, &document, "post", "/v1/keys", "/v1/keys", Some(key)).await;
    node.key = made["key"].as_str().map(str::to_owned);
    check(&node, &document, "get", "/v1/keys", "/v1/keys", None).await;
    let path = format!("/v1/keys/{}", made["id"].as_str().unwrap());
    check(&node, &document, "delete", "/v1/keys/{id}", &path, None).await;
    check(&node, &document, "get", "/v1/keys", "/v1/keys", None).await;
    node.stop().await;
}
