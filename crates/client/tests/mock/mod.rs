//! A small server in this process that speaks the task part of the HTTP interface: enough of an engine to lease,
//! extend and settle, a log of what was asked, and answers that a test can put in the way. It can be killed
//! (connections break at once) and brought back on the same port with what it had acknowledged.

#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test uses a part of it")]

mod engine;

use bytes::Bytes;
use engine::Engine;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

/// One request as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Method and path with query.
    pub call: String,
    pub headers: hyper::HeaderMap,
    pub body: Value,
    pub text: String,
}

#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
    /// Held back for so long.
    pub after: Duration,
}

impl Answer {
    pub fn json(status: u16, body: Value) -> Self {
        Self { status, headers: Vec::new(), body: body.to_string(), after: Duration::ZERO }
    }

    pub fn problem(status: u16, code: &str) -> Self {
        Self::json(
            status,
            json!({"type": "about:blank", "title": code, "status": status, "code": code, "detail": "mocked"}),
        )
    }

    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub fn after(mut self, wait: Duration) -> Self {
        self.after = wait;
        self
    }
}

#[derive(Default)]
struct State {
    engine: Engine,
    script: Mutex<Vec<(String, VecDeque<Answer>)>>,
    seen: Mutex<Vec<Seen>>,
}

pub struct Mock {
    address: SocketAddr,
    state: Arc<State>,
    server: Option<JoinHandle<()>>,
}

impl Mock {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut mock = Self { address, state: Arc::default(), server: None };
        mock.server = Some(tokio::spawn(serve(listener, Arc::clone(&mock.state))));
        mock
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Like `kill -9`: no answer that is not yet sent will be.
    pub async fn kill(&mut self) {
        if let Some(server) = self.server.take() {
            server.abort();
            let _ = server.await;
        }
    }

    /// Back on the same port; old leases are void, as an embedded node's are after a restart.
    pub async fn restart(&mut self) {
        self.kill().await;
        self.state.engine.void_leases();
        let address = self.address;
        let listener = until("the port is free again", async || TcpListener::bind(address).await.ok()).await;
        self.server = Some(tokio::spawn(serve(listener, Arc::clone(&self.state))));
    }

    /// The next request whose "METHOD path" starts with `call` is answered with this (then the next but one, …).
    pub fn answer(&self, call: &str, answer: Answer) {
        let mut script = self.state.script.lock().unwrap();
        match script.iter_mut().find(|(prefix, _)| prefix == call) {
            Some((_, answers)) => answers.push_back(answer),
            None => script.push((call.into(), VecDeque::from([answer]))),
        }
    }

    /// The requests so far whose "METHOD path" starts with `call`.
    pub fn seen(&self, call: &str) -> Vec<Seen> {
        self.state.seen.lock().unwrap().iter().filter(|seen| seen.call.starts_with(call)).cloned().collect()
    }

    pub fn engine(&self) -> &Engine {
        &self.state.engine
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.abort();
        }
    }
}

/// Waits for a condition, with a limit.
pub async fn until<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let limit = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(found) = check().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < limit, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn serve(listener: TcpListener, state: Arc<State>) {
    // Dropped with this task, and every connection with it.
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        let _ = stream.set_nodelay(true);
        let state = Arc::clone(&state);
        connections.spawn(async move {
            let service = service_fn(move |request| respond(Arc::clone(&state), request));
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn respond(state: Arc<State>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let call = format!("{} {}", request.method(), request.uri());
    let headers = request.headers().clone();
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let text = String::from_utf8_lossy(&body).into_owned();
    let body: Value = serde_json::from_str(&text).unwrap_or_default();
    state.seen.lock().unwrap().push(Seen { call: call.clone(), headers, body: body.clone(), text });
    let scripted = {
        let mut script = state.script.lock().unwrap();
        let entry =
            script.iter_mut().find(|(prefix, answers)| call.starts_with(prefix) && !answers.is_empty());
        entry.and_then(|(_, answers)| answers.pop_front())
    };
    let answer = match scripted {
        Some(answer) => answer,
        None => state.engine.respond(&call, body).await,
    };
    tokio::time::sleep(answer.after).await;
    let kind = if answer.status < 400 { "application/json" } else { "application/problem+json" };
    let mut response =
        Response::builder().status(StatusCode::from_u16(answer.status).unwrap()).header("content-type", kind);
    for (name, value) in answer.headers {
        response = response.header(name, value);
    }
    Ok(response.body(Full::new(Bytes::from(answer.body))).unwrap())
}
