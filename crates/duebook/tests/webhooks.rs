//! Webhooks through the real binary: the handlers of the README receive their tasks, and each kind of answer
//! leads where the documentation says.

#[path = "support/mod.rs"]
mod support;

use duebook_client::{Client, HandlerSpec, NewTask, QueueSettings, State, Task, WebhookSpec};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::Node;

/// A request as the receiver saw it.
#[derive(Debug, Clone)]
struct Seen {
    path: String,
    headers: Vec<(String, String)>,
    body: serde_json::Value,
    raw: Vec<u8>,
}

impl Seen {
    fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

/// A receiver that answers by path.
fn receiver() -> (String, Arc<Mutex<Vec<Seen>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let log = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let log = Arc::clone(&log);
            std::thread::spawn(move || serve(stream, &log));
        }
    });
    (url, seen)
}

fn serve(stream: TcpStream, log: &Mutex<Vec<Seen>>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split_whitespace().nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim().split_once(": ") {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.to_owned())),
            None => break,
        }
    }
    let length = headers.iter().find(|(name, _)| name == "content-length")?.1.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let raw = body;
    let body = serde_json::from_slice(&raw).ok()?;
    let calls = {
        let mut log = log.lock().ok()?;
        log.push(Seen { path: path.clone(), headers, body, raw });
        log.iter().filter(|seen| seen.path == path).count()
    };
    let answer = match path.as_str() {
        "/gone" => "410 Gone\r\n",
        "/moved" => "302 Found\r\nlocation: /ok\r\n",
        "/busy-once" if calls == 1 => "503 Service Unavailable\r\nretry-after: 2\r\n",
        "/fails-once" if calls == 1 => "500 Internal Server Error\r\n",
        _ => "204 No Content\r\n",
    };
    let mut stream = stream;
    write!(stream, "HTTP/1.1 {answer}content-length: 0\r\nconnection: close\r\n\r\n").ok()
}

fn webhook(url: String, secret: Option<&str>) -> QueueSettings {
    let secret = secret.map(str::to_owned);
    QueueSettings::new().handler(HandlerSpec::Webhook(WebhookSpec { url, secret })).timeout_ms(5_000)
}

async fn wait_for(client: &Client, id: &str, state: State) -> Task {
    for _ in 0..1_500 {
        let task = client.task(id).await.expect("the task is there");
        if task.state == state {
            return task;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{id} is not {state:?} within 30 s: {:?}", client.trail(id).await);
}

async fn run(client: &Client, queue: &str, state: State) -> Task {
    let task = client.schedule(&NewTask::new(queue, "k", Duration::ZERO)).await.expect("it is taken");
    wait_for(client, &task.task.id, state).await
}

#[tokio::test]
async fn each_answer_leads_where_the_documentation_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = Node::start(folder.path(), 0, None);
    let client = Client::new(&node.url).expect("a client");
    let (url, seen) = receiver();
    let secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    for path in ["ok", "gone", "moved", "busy-once", "fails-once"] {
        let settings = webhook(format!("{url}/{path}"), (path == "ok").then_some(secret));
        client.put_queue(path, &settings).await.expect("a queue");
    }
    let done = run(&client, "ok", State::Succeeded).await;
    assert_eq!(done.attempt, 1);
    assert!(run(&client, "gone", State::Dead).await.last_error.expect("an error").starts_with("410"));
    assert!(run(&client, "moved", State::Dead).await.last_error.expect("an error").starts_with("302"));
    assert_eq!(run(&client, "fails-once", State::Succeeded).await.attempt, 2);
    let busy = run(&client, "busy-once", State::Succeeded).await;
    let trail = client.trail(&busy.id).await.expect("a trail").items;
    let retry = trail.iter().find(|entry| entry.reason == "retry").expect("a retry");
    // The policy of the class waits 10 s, longer than the two that the receiver asked for.
    let waited_ms = retry.due_at.expect("a due time").ms_since(retry.at);
    assert!(waited_ms >= 2_000, "Retry-After was not respected: {waited_ms} ms");

    let seen = seen.lock().expect("the log").clone();
    let of = |path: &str| seen.iter().filter(|seen| seen.path == path).cloned().collect::<Vec<_>>();
    let ok = of("/ok").remove(0);
    assert_eq!(ok.header("webhook-id"), done.id);
    assert_eq!((ok.body["type"].as_str(), ok.body["data"]["key"].as_str()), (Some("task.due"), Some("k")));
    let signature = duebook_core::signature::WebhookSecret::parse(secret).expect("a secret").sign(
        ok.header("webhook-id"),
        ok.header("webhook-timestamp").parse().expect("a time"),
        &ok.raw,
    );
    assert_eq!(ok.header("webhook-signature"), signature);
    assert!(ok.header("traceparent").starts_with("00-"));
    let attempts = of("/fails-once");
    assert_eq!(attempts[0].header("webhook-id"), attempts[1].header("webhook-id"));
    assert_eq!(attempts[0].header("webhook-signature"), "", "no secret, no signature");
}

/// A handler of the README as a child process.
async fn handler_receives(program: &str, file: &str) {
    if Command::new(program).arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("skipped: {program} is not installed");
        return;
    }
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/webhook");
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let mut child = Command::new(program)
        .arg(examples.join(file))
        .env("PORT", port.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the handler starts");
    for _ in 0..500 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let node = Node::start(folder.path(), 0, None);
    let client = Client::new(&node.url).expect("a client");
    client.put_queue("mail", &webhook(format!("http://127.0.0.1:{port}/"), None)).await.expect("a queue");
    let task = client
        .schedule(&NewTask::new("mail", "order-1002", Duration::from_millis(200)))
        .await
        .expect("it is taken");
    wait_for(&client, &task.task.id, State::Succeeded).await;
    let mut said = String::new();
    BufReader::new(child.stdout.take().expect("its output")).read_line(&mut said).expect("a line");
    child.kill().expect("it can be killed");
    child.wait().expect("it has ended");
    assert_eq!(said.trim(), "order-1002 is due, attempt 1");
}

#[tokio::test]
async fn the_python_handler_of_the_readme_receives_its_task() {
    handler_receives("python3", "handler.py").await;
}

#[tokio::test]
async fn the_node_handler_of_the_readme_receives_its_task() {
    handler_receives("node", "handler.mjs").await;
}
