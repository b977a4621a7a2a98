//! An HTTP endpoint that answers as told and writes down what it was sent. Small enough to be made of a socket:
//! a test must be able to answer wrongly, partly or never.

use duebook_core::{Clock, SystemClock};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A call as it came.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) at_ms: i64,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Call {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// What to answer.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// This status, these header lines, this body.
    Status(u16, &'static str, String),
    /// Nothing, and keep the connection.
    Never,
}

impl Answer {
    pub(crate) fn status(status: u16) -> Self {
        Self::Status(status, "", String::new())
    }
}

/// The endpoint; it goes away with the test's runtime.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) url: String,
    calls: Arc<Mutex<Vec<Call>>>,
    answer: Arc<Mutex<Answer>>,
}

impl Endpoint {
    pub(crate) async fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let endpoint = Self { url, calls: Arc::default(), answer: Arc::new(Mutex::new(answer)) };
        let served = endpoint.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let served = served.clone();
                tokio::spawn(async move { served.serve(socket).await });
            }
        });
        endpoint
    }

    pub(crate) fn answer(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    async fn serve(&self, socket: TcpStream) -> Option<()> {
        let mut socket = BufReader::new(socket);
        let mut line = String::new();
        socket.read_line(&mut line).await.ok()?;
        let mut headers = BTreeMap::new();
        loop {
            line.clear();
            socket.read_line(&mut line).await.ok()?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
        socket.read_exact(&mut body).await.ok()?;
        let body = String::from_utf8(body).ok()?;
        self.calls.lock().unwrap().push(Call { at_ms: SystemClock.now_ms(), headers, body });
        let answer = self.answer.lock().unwrap().clone();
        let Answer::Status(status, lines, body) = answer else {
            return std::future::pending().await;
        };
        let head = format!(
            "HTTP/1.1 {status} planted\r\n{lines}content-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        socket.write_all(head.as_bytes()).await.ok()?;
        socket.write_all(body.as_bytes()).await.ok()?;
        socket.flush().await.ok()
    }
}
