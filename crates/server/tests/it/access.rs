//! Keys: scopes, queues, revocation.

use crate::node::{Node, loopback};
use duebook_engine::EngineConfig;
use duebook_server::{ServerConfig, StartError, serve};
use duebook_store::SqliteConfig;
use reqwest::Method;
use serde_json::{Value, json};

/// (method, path, scope that it needs; none is open)
pub(crate) const ROUTES: &[(&str, &str, Option<&str>)] = &[
    ("post", "/v1/tasks", Some("produce")),
    ("get", "/v1/tasks", Some("read")),
    ("post", "/v1/tasks/batch", Some("produce")),
    ("get", "/v1/tasks/{id}", Some("read")),
    ("get", "/v1/tasks/{id}/trail", Some("read")),
    ("post", "/v1/tasks/{id}/cancel", Some("produce")),
    ("post", "/v1/tasks/{id}/reschedule", Some("produce")),
    ("post", "/v1/tasks/{id}/run", Some("produce")),
    ("post", "/v1/tasks/{id}/retry", Some("produce")),
    ("post", "/v1/queues/{queue}/keys/{key}/cancel", Some("produce")),
    ("post", "/v1/queues/{queue}/keys/{key}/reschedule", Some("produce")),
    ("post", "/v1/queues/{queue}/lease", Some("work")),
    ("post", "/v1/leases/settle", Some("work")),
    ("post", "/v1/leases/extend", Some("work")),
    ("get", "/v1/queues", Some("read")),
    ("get", "/v1/queues/{queue}", Some("read")),
    ("put", "/v1/queues/{queue}", Some("admin")),
    ("post", "/v1/queues/{queue}/pause", Some("admin")),
    ("post", "/v1/queues/{queue}/resume", Some("admin")),
    ("get", "/v1/schedules", Some("read")),
    ("get", "/v1/schedules/{name}", Some("read")),
    ("put", "/v1/schedules/{name}", Some("admin")),
    ("delete", "/v1/schedules/{name}", Some("admin")),
    ("get", "/v1/dead", Some("read")),
    ("post", "/v1/dead/retry", Some("produce")),
    ("get", "/v1/keys", Some("admin")),
    ("post", "/v1/keys", Some("admin")),
    ("delete", "/v1/keys/{id}", Some("admin")),
    ("get", "/metrics", Some("read")),
    ("get", "/healthz", None),
    ("get", "/readyz", None),
    ("get", "/openapi.json", None),
    ("get", "/errors", None),
    ("get", "/", None),
];

async fn make(node: &Node, name: &str, scopes: &[&str], queues: &[&str]) -> Value {
    let body = json!({"name": name, "scopes": scopes, "queues": queues});
    node.post("/v1/keys", &body).await.ok(201)
}

async fn admin(node: &mut Node) {
    let key = make(node, "root", &["admin"], &[]).await;
    node.key = key["key"].as_str().map(str::to_owned);
}

async fn ask(node: &Node, key: Option<&str>, method: &str, path: &str, body: &str) -> crate::node::Answer {
    let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
    let mut request = node.client.request(method, node.url(path)).body(body.to_owned());
    if let Some(key) = key {
        request = request.bearer_auth(key);
    }
    Node::read(request).await
}

#[tokio::test]
async fn every_route_needs_its_scope_and_no_other() {
    let mut node = Node::start().await;
    admin(&mut node).await;
    for scope in ["produce", "work", "read", "admin"] {
        let made = make(&node, scope, &[scope], &[]).await;
        let key = made["key"].as_str().unwrap();
        for (method, path, needed) in ROUTES {
            let path = path.replace(['{', '}'], "");
            let answer = ask(&node, Some(key), method, &path, "{}").await;
            let allowed = scope == "admin" || needed.is_none_or(|needed| needed == scope);
            if allowed {
                assert!(
                    !matches!(answer.status, 401 | 403 | 405 | 500..),
                    "{scope} {method} {path}: {}",
                    answer.text
                );
            } else {
                answer.problem(403, "forbidden", None);
            }
            if needed.is_some() {
                ask(&node, None, method, &path, "{}").await.problem(401, "unauthorized", None);
                ask(&node, Some("dbk_aaaaaaaa_b"), method, &path, "{}").await.problem(
                    401,
                    "unauthorized",
                    None,
                );
            }
        }
    }
    node.stop().await;
}

#[tokio::test]
async fn a_key_limited_to_queues_reaches_no_other() {
    let mut node = Node::start().await;
    admin(&mut node).await;
    let task = |queue: &str| json!({"queue": queue, "key": "k", "delay_ms": 3_600_000});
    let mine = node.post("/v1/tasks", &task("mine")).await.ok(201);
    let other = node.post("/v1/tasks", &task("other")).await.ok(201);
    node.put("/v1/schedules/s", &json!({"queue": "other", "every_ms": 3_600_000})).await.ok(200);
    let made = make(&node, "shop", &["produce", "work", "read"], &["mine"]).await;
    let root = node.key.replace(made["key"].as_str().unwrap().to_owned());
    let (mine, other) = (mine["id"].as_str().unwrap(), other["id"].as_str().unwrap());
    node.post("/v1/tasks", &task("mine")).await.ok(200);
    node.post("/v1/tasks", &task("other")).await.problem(403, "forbidden", Some("/queue"));
    let batch = node.post("/v1/tasks/batch", &json!({"tasks": [task("other"), task("mine")]})).await.ok(200);
    assert_eq!(batch["results"][0]["error"]["code"], "forbidden");
    assert_eq!(batch["results"][1]["created"], false);
    node.get(&format!("/v1/tasks/{mine}")).await.ok(200);
    for path in [
        format!("/v1/tasks/{other}"),
        format!("/v1/tasks/{other}/trail"),
        "/v1/tasks?queue=other".into(),
        "/v1/queues/other".into(),
        "/v1/schedules/s".into(),
        "/v1/dead?queue=other".into(),
    ] {
        node.get(&path).await.problem(403, "forbidden", None);
    }
    for act in ["cancel", "run", "retry"] {
        let path = format!("/v1/tasks/{other}/{act}");
        node.send(Method::POST, &path, None).await.problem(403, "forbidden", None);
    }
    for path in
        ["/v1/queues/other/keys/k/cancel", "/v1/queues/other/keys/k/reschedule", "/v1/queues/other/lease"]
    {
        node.send(Method::POST, path, Some("{}")).await.problem(403, "forbidden", None);
    }
    let foreign = json!({"id": other, "lease_token": "1.2"});
    let mut settle = foreign.clone();
    settle["outcome"] = json!("done");
    let settled = node.post("/v1/leases/settle", &json!({"results": [settle]})).await.ok(200);
    assert_eq!(settled["results"][0]["error"], "forbidden");
    let extended = node.post("/v1/leases/extend", &json!({"leases": [foreign]})).await.ok(200);
    assert_eq!(extended["results"][0]["error"], "forbidden");
    let listed = node.get("/v1/tasks").await.ok(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "an only queue is meant if none is named");
    assert_eq!(node.get("/v1/queues").await.ok(200)["items"].as_array().unwrap().len(), 1);
    assert_eq!(node.get("/v1/schedules").await.ok(200)["items"], json!([]));
    let trail = node.get(&format!("/v1/tasks/{mine}/trail")).await.ok(200);
    assert_eq!(trail["items"][0]["actor"], "key:root");
    node.key = root;
    node.stop().await;
}

#[tokio::test]
async fn a_revoked_key_opens_nothing_and_the_list_tells_no_secret() {
    let mut node = Node::start().await;
    admin(&mut node).await;
    let made = make(&node, "shop", &["read"], &["a", "b"]).await;
    let key = made["key"].as_str().unwrap().to_owned();
    ask(&node, Some(&key), "get", "/v1/queues", "").await.ok(200);
    let list = node.get("/v1/keys").await;
    assert_eq!(list.ok(200)["items"].as_array().unwrap().len(), 2);
    assert!(!list.text.contains(&key[13..]));
    let path = format!("/v1/keys/{}", made["id"].as_str().unwrap());
    assert_eq!(node.send(Method::DELETE, &path, None).await.status, 204);
    ask(&node, Some(&key), "get", "/v1/queues", "").await.problem(401, "unauthorized", None);
    node.send(Method::DELETE, &path, None).await.problem(404, "not_found", None);
    let answer = ask(&node, None, "get", "/v1/queues", "").await;
    answer.problem(401, "unauthorized", None);
    assert!(answer.headers.contains_key("www-authenticate"));
    node.stop().await;
}

#[tokio::test]
async fn other_addresses_need_a_key_to_start() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteConfig::new(crate::node::database(&dir));
    let public = || ServerConfig { listen: "0.0.0.0:0".parse().unwrap(), ..loopback() };
    let refused = serve(&store, EngineConfig::default(), public()).await.err().unwrap();
    assert!(matches!(refused, StartError::NoKeys(_)) && refused.to_string().contains("duebook keys create"));
    let node = Node::start_in(dir, |_, _, _| ()).await;
    make(&node, "root", &["admin"], &[]).await;
    node.stop().await;
    // The folder was dropped with the node; a fresh one with a key starts.
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start_in(dir, |_, _, _| ()).await;
    make(&node, "root", &["admin"], &[]).await;
    let dir = node.stop().await;
    let node = Node::start_in(dir, |_, _, server| server.listen = public().listen).await;
    let url = format!("http://127.0.0.1:{}/v1/queues", node.server.local_addr().port());
    Node::read(node.client.get(url)).await.problem(401, "unauthorized", None);
    node.stop().await;
}

#[tokio::test]
async fn pages_of_other_sites_are_not_answered_by_an_open_server() {
    let node = Node::start().await;
    let request = node.client.post(node.url("/v1/tasks")).header("origin", "https://evil.example").body("{}");
    Node::read(request).await.problem(403, "forbidden", None);
    let request = node.client.get(node.url("/v1/queues")).header("host", "evil.example");
    Node::read(request).await.problem(403, "forbidden", None);
    node.stop().await;
}
