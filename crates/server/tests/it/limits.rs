//! Limits: what is too large, too much or too slow is refused, and the server goes on.

use crate::node::Node;
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_announced_or_not() {
    let node = Node::start_with(|_, _, server| server.body_bytes_max = 1_000).await;
    let large = json!({"queue": "q", "key": "k", "delay_ms": 1, "payload": "x".repeat(2_000)});
    node.post("/v1/tasks", &large).await.problem(413, "body_too_large", None);
    let mut stream = TcpStream::connect(node.server.local_addr()).await.unwrap();
    let head = "POST /v1/tasks HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = format!("7d0\r\n{}\r\n0\r\n\r\n", "x".repeat(2_000));
    stream.write_all(format!("{head}{chunk}").as_bytes()).await.unwrap();
    assert!(read_some(&mut stream).await.starts_with("HTTP/1.1 413"));
    node.get("/healthz").await.ok(200);
    node.stop().await;
}

async fn read_some(stream: &mut TcpStream) -> String {
    let mut buffer = vec![0; 4096];
    let read =
        tokio::time::timeout(Duration::from_secs(10), stream.read(&mut buffer)).await.unwrap().unwrap();
    String::from_utf8_lossy(&buffer[..read]).into_owned()
}

#[tokio::test]
async fn a_body_in_chunks_is_taken() {
    let node = Node::start().await;
    let mut stream = TcpStream::connect(node.server.local_addr()).await.unwrap();
    let body = json!({"queue": "q", "key": "k", "delay_ms": 3_600_000}).to_string();
    let (first, second) = body.split_at(10);
    let head = "POST /v1/tasks HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(format!("{head}{:x}\r\n{first}\r\n", first.len()).as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    stream.write_all(format!("{:x}\r\n{second}\r\n0\r\n\r\n", second.len()).as_bytes()).await.unwrap();
    assert!(read_some(&mut stream).await.starts_with("HTTP/1.1 201"));
    node.stop().await;
}

#[tokio::test]
async fn a_body_that_comes_too_slowly_is_refused() {
    let node = Node::start_with(|_, _, server| server.body_timeout_ms = 100).await;
    let mut stream = TcpStream::connect(node.server.local_addr()).await.unwrap();
    let head = "POST /v1/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{";
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = read_some(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("request_timeout"), "{answer}");
    node.stop().await;
}

#[tokio::test]
async fn too_many_requests_or_bytes_at_once_are_told_to_come_again() {
    let node = Node::start_with(|_, _, server| server.in_flight_max = 0).await;
    let answer = node.get("/v1/queues").await;
    answer.problem(429, "busy", None);
    assert_eq!(answer.headers["retry-after"], "1");
    let lease = node.post("/v1/queues/q/lease", &json!({"worker": "w"})).await;
    assert_eq!(lease.ok(200)["tasks"], json!([]), "long polls are not counted");
    node.stop().await;
    let node = Node::start_with(|_, _, server| {
        server.bodies_bytes_max = 1;
        server.body_bytes_max = 2_000;
    })
    .await;
    // One body that is being sent takes up the whole room.
    let mut stream = TcpStream::connect(node.server.local_addr()).await.unwrap();
    let head = "POST /v1/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2000\r\n\r\n";
    stream.write_all(format!("{head}{}", "x".repeat(1_999)).as_bytes()).await.unwrap();
    let mut refused = false;
    for _ in 0..500 {
        let answer = node.post("/v1/tasks", &json!({"queue": "q", "key": "k", "delay_ms": 3_600_000})).await;
        if answer.status == 429 {
            answer.problem(429, "busy", None);
            refused = true;
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(refused);
    drop(stream);
    for _ in 0..500 {
        if node.post("/v1/tasks", &json!({"queue": "q", "key": "k2", "delay_ms": 1})).await.status < 300 {
            node.stop().await;
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the share of a body that broke off was not given back");
}

#[tokio::test]
async fn connections_beyond_the_limit_are_turned_away_and_the_place_is_given_back() {
    let node = Node::start_with(|_, _, server| server.connections_max = 2).await;
    let address = node.server.local_addr();
    let mut first = TcpStream::connect(address).await.unwrap();
    first.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert!(read_some(&mut first).await.starts_with("HTTP/1.1 200"));
    let mut second = TcpStream::connect(address).await.unwrap();
    second.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert!(read_some(&mut second).await.starts_with("HTTP/1.1 200"));
    let mut third = TcpStream::connect(address).await.unwrap();
    let answer = read_some(&mut third).await;
    assert!(answer.starts_with("HTTP/1.1 429") && answer.contains("too many connections"), "{answer}");
    drop((first, second));
    for _ in 0..500 {
        let mut again = TcpStream::connect(address).await.unwrap();
        let _ = again.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
        if read_some(&mut again).await.starts_with("HTTP/1.1 200") {
            drop(again);
            node.stop().await;
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no place was given back");
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let node = Node::start_with(|_, _, server| server.idle_timeout_ms = 100).await;
    let mut stream = TcpStream::connect(node.server.local_addr()).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert!(read_some(&mut stream).await.starts_with("HTTP/1.1 200"));
    assert_eq!(read_some(&mut stream).await, "", "closed");
    let mut half = TcpStream::connect(node.server.local_addr()).await.unwrap();
    half.write_all(b"GET /healthz HT").await.unwrap();
    let end = read_some(&mut half).await;
    assert!(end.is_empty() || end.starts_with("HTTP/1.1 408"), "{end}");
    node.stop().await;
}
