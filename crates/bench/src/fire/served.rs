//! `fire` and `drain` over HTTP: tasks scheduled in bulk, pulled by long polls or received as webhooks in this
//! process. A task counts as started when this side has read it.

use super::{due_times, start_ms, wait_for_all};
use crate::cli::{DrainArgs, FireArgs, HandlerKind};
use crate::http::Connection;
use crate::node::{self, QUEUE, Served, number_of};
use crate::report;
use crate::schedule::schedule_all;
use crate::tally::Tally;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Long polls in flight.
const POLLS: usize = 4;
/// Connections that settle.
const SETTLERS: usize = 2;
const SETTLE_ITEMS_MAX: usize = 500;

pub(crate) async fn run(args: &FireArgs) -> anyhow::Result<(Arc<Tally>, Option<u64>)> {
    let served = Served::start(&args.common)?;
    let mut control = Connection::open(&served.url, served.key.as_deref()).await?;
    let mut workers = Workers::new(args.handler, &served, &mut control, false).await?;
    if args.pending > 0 {
        schedule_all(&served, "p", &node::pending_times(args.pending)).await?;
    }
    let due_ms = due_times(args.rate, args.secs, start_ms((args.rate * args.secs) as usize), args.due);
    let tally = Arc::new(Tally::new(due_ms.clone()));
    workers.start(&tally).await?;
    schedule_all(&served, "t", &due_ms).await?;
    wait_for_all(&tally, "fire", args.secs + 30).await;
    let rss_bytes = served.pid().and_then(|pid| report::rss_bytes(Some(pid)));
    wait_until_settled(&mut control, tally.seen()).await?;
    Ok((tally, rss_bytes))
}

pub(crate) async fn drain_served(args: &DrainArgs, tally: &Arc<Tally>) -> anyhow::Result<()> {
    let served = Served::start(&args.common)?;
    let mut control = Connection::open(&served.url, served.key.as_deref()).await?;
    let mut workers = Workers::new(args.handler, &served, &mut control, true).await?;
    schedule_all(&served, "t", &vec![node::now_us() / 1000 - 60_000; args.tasks]).await?;
    workers.start(tally).await?;
    control.call(Method::POST, &format!("/v1/queues/{QUEUE}/resume"), Bytes::new()).await?;
    wait_for_all(tally, "drain", 60).await;
    wait_until_settled(&mut control, tally.seen()).await
}

async fn wait_until_settled(control: &mut Connection, tasks: usize) -> anyhow::Result<()> {
    #[derive(Deserialize)]
    struct Queue {
        depth: Depth,
    }
    #[derive(Deserialize)]
    struct Depth {
        succeeded: usize,
    }
    for _ in 0..600 {
        let answer = control.call(Method::GET, &format!("/v1/queues/{QUEUE}"), Bytes::new()).await?;
        if serde_json::from_slice::<Queue>(&answer)?.depth.succeeded >= tasks {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    anyhow::bail!("not all tasks were settled within 30 s of their start")
}

/// Whoever receives tasks. They end when this is dropped.
struct Workers {
    kind: HandlerKind,
    url: String,
    key: Option<String>,
    listener: Option<TcpListener>,
    running: JoinSet<anyhow::Result<()>>,
}

impl Workers {
    /// Sets the queue up.
    async fn new(
        kind: HandlerKind,
        served: &Served,
        control: &mut Connection,
        paused: bool,
    ) -> anyhow::Result<Self> {
        let mut listener = None;
        let handler = match kind {
            HandlerKind::Webhook => {
                let bound = TcpListener::bind("127.0.0.1:0").await?;
                let url = format!("http://{}/task", bound.local_addr()?);
                listener = Some(bound);
                json!({"webhook": {"url": url}})
            }
            _ => json!("lease"),
        };
        let settings = json!({"handler": handler, "concurrency": 2000, "paused": paused});
        let path = format!("/v1/queues/{QUEUE}");
        control.call(Method::PUT, &path, Bytes::from(settings.to_string())).await?;
        let (url, key) = (served.url.clone(), served.key.clone());
        Ok(Self { kind, url, key, listener, running: JoinSet::new() })
    }

    async fn start(&mut self, tally: &Arc<Tally>) -> anyhow::Result<()> {
        if let Some(listener) = self.listener.take() {
            let tally = Arc::clone(tally);
            self.running.spawn(receive_webhooks(listener, tally));
            return Ok(());
        }
        debug_assert_eq!(self.kind, HandlerKind::Lease);
        let (settle, mut finished) = mpsc::channel::<Leased>(50_000);
        for number in 0..POLLS {
            let connection = Connection::open(&self.url, self.key.as_deref()).await?;
            self.running.spawn(poll(connection, number, Arc::clone(tally), settle.clone()));
        }
        let mut lines = Vec::new();
        for _ in 0..SETTLERS {
            let connection = Connection::open(&self.url, self.key.as_deref()).await?;
            let (line, batches) = mpsc::channel::<Vec<Leased>>(4);
            lines.push(line);
            self.running.spawn(settle_batches(connection, batches));
        }
        self.running.spawn(async move {
            let mut turn = 0;
            loop {
                let mut batch = Vec::new();
                if finished.recv_many(&mut batch, SETTLE_ITEMS_MAX).await == 0 {
                    return Ok(());
                }
                // A few milliseconds of company make a settle call worth its cost.
                tokio::time::sleep(Duration::from_millis(3)).await;
                while batch.len() < SETTLE_ITEMS_MAX
                    && let Ok(leased) = finished.try_recv()
                {
                    batch.push(leased);
                }
                turn += 1;
                lines[turn % SETTLERS].send(batch).await?;
            }
        });
        Ok(())
    }
}

#[derive(Deserialize)]
struct Leased {
    id: String,
    key: String,
    lease_token: String,
}

async fn poll(
    mut connection: Connection,
    number: usize,
    tally: Arc<Tally>,
    settle: mpsc::Sender<Leased>,
) -> anyhow::Result<()> {
    #[derive(Deserialize)]
    struct Answer {
        tasks: Vec<Leased>,
    }
    let ask = json!({"worker": format!("bench-{number}"), "max": 250, "wait_ms": 5000, "lease_ms": 60000});
    let ask = Bytes::from(ask.to_string());
    let path = format!("/v1/queues/{QUEUE}/lease");
    loop {
        let answer = connection.call(Method::POST, &path, ask.clone()).await?;
        let answer: Answer = serde_json::from_slice(&answer)?;
        let now_us = node::now_us();
        for leased in answer.tasks {
            if let Some(number) = number_of("t", &leased.key) {
                tally.started(number, now_us);
            }
            settle.send(leased).await?;
        }
    }
}

async fn settle_batches(
    mut connection: Connection,
    mut batches: mpsc::Receiver<Vec<Leased>>,
) -> anyhow::Result<()> {
    while let Some(batch) = batches.recv().await {
        let results: Vec<_> = batch
            .iter()
            .map(|leased| json!({"id": leased.id, "lease_token": leased.lease_token, "outcome": "done"}))
            .collect();
        let body = Bytes::from(json!({"results": results}).to_string());
        connection.call(Method::POST, "/v1/leases/settle", body).await?;
    }
    Ok(())
}

async fn receive_webhooks(listener: TcpListener, tally: Arc<Tally>) -> anyhow::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let tally = Arc::clone(&tally);
        tokio::spawn(async move {
            let service = service_fn(move |request| receive(request, Arc::clone(&tally)));
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn receive(
    request: Request<Incoming>,
    tally: Arc<Tally>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    #[derive(Deserialize)]
    struct Body {
        data: Data,
    }
    #[derive(Deserialize)]
    struct Data {
        key: String,
    }
    let now_us = node::now_us();
    let mut status = StatusCode::BAD_REQUEST;
    if let Ok(body) = request.into_body().collect().await
        && let Ok(body) = serde_json::from_slice::<Body>(&body.to_bytes())
    {
        if let Some(number) = number_of("t", &body.data.key) {
            tally.started(number, now_us);
        }
        status = StatusCode::NO_CONTENT;
    }
    let mut response = Response::new(Empty::new());
    *response.status_mut() = status;
    Ok(response)
}
