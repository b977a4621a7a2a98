//! The server's life: start, accept, stop.

use crate::access::Access;
use crate::app::App;
use crate::code::Code;
use crate::config::ServerConfig;
use crate::metrics::{Metrics, TurnedAway};
use crate::{api, gate};
use axum::Router;
use duebook_engine::{Engine, EngineConfig, EngineError, Runtime, SystemRuntime};
use duebook_store::sqlite::OpenError;
use duebook_store::{SqliteConfig, SqliteStore};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store could not be opened.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The engine could not start.
    #[error("the engine cannot start: {0}")]
    Engine(#[from] EngineError),
    /// The system gave no thread.
    #[error("the engine cannot start: {0}")]
    System(#[from] std::io::Error),
    /// The metrics could not be set up.
    #[error(transparent)]
    Metrics(#[from] crate::metrics::MetricsError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {error}; choose another address with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        error: std::io::Error,
    },
    /// An address that others can reach, and no key.
    #[error(
        "{0} can be reached from other machines, and there is no API key: make one with `duebook keys create --name NAME \
         --scopes produce,work,read --data DIR`, or listen on a loopback address"
    )]
    NoKeys(SocketAddr),
}

/// A running server. Dropping it does not stop it: call [`Server::shutdown`].
pub struct Server {
    engine: Engine,
    local_addr: SocketAddr,
    stage: watch::Sender<Stage>,
    accepting: tokio::task::JoinHandle<()>,
    grace_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Serving,
    /// No new connections; open ones finish the request that they work on.
    Closing,
}

/// How long connections may take to write their last answers.
const CLOSE_MS: u64 = 2_000;
const UPKEEP_PAUSE: Duration = Duration::from_secs(1);
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(50);
const HTTP2_STREAMS_MAX: u32 = 256;
const CONNECTION_BUFFER_BYTES: usize = 128 * 1024;

/// Opens the store, starts the engine, and serves both.
///
/// # Errors
/// What kept it from starting; nothing runs then.
pub async fn serve(
    store: &SqliteConfig,
    engine: EngineConfig,
    server: ServerConfig,
) -> Result<Server, StartError> {
    let runtime = Arc::new(SystemRuntime::new()?);
    let clock: Arc<dyn duebook_core::Clock> = Arc::new(duebook_core::SystemClock);
    let metrics = Metrics::new(Arc::clone(&clock))?;
    let store = Arc::new(SqliteStore::open(store, clock)?);
    metrics.watch(&store);
    let runtime: Arc<dyn Runtime> = runtime;
    let engine = Engine::start(store, runtime, engine, metrics.observer()).await?;
    match Server::start(engine.clone(), metrics, server).await {
        Ok(server) => Ok(server),
        Err(error) => {
            engine.stop(0).await;
            Err(error)
        }
    }
}

impl Server {
    /// Serves a running engine. The metrics are those that observe it.
    ///
    /// # Errors
    /// What kept it from starting.
    pub async fn start(engine: Engine, metrics: Metrics, config: ServerConfig) -> Result<Self, StartError> {
        Self::start_with(engine, metrics, config, |router| router).await
    }

    /// The same with a router that was changed, for tests of what stands before it.
    pub(crate) async fn start_with(
        engine: Engine,
        metrics: Metrics,
        config: ServerConfig,
        change: impl FnOnce(Router) -> Router,
    ) -> Result<Self, StartError> {
        let keys = engine.store().keys().await.map_err(EngineError::from)?;
        let loopback = config.listen.ip().to_canonical().is_loopback();
        let access = Access::new(loopback, &keys);
        if !loopback && access.active() == 0 {
            return Err(StartError::NoKeys(config.listen));
        }
        let listener = TcpListener::bind(config.listen)
            .await
            .map_err(|error| StartError::Listen { address: config.listen, error })?;
        let local_addr =
            listener.local_addr().map_err(|error| StartError::Listen { address: config.listen, error })?;
        let grace_ms = config.grace_ms;
        let app = Arc::new(App {
            engine: engine.clone(),
            access,
            metrics,
            config,
            openapi: api::text(),
            body_bytes: Arc::default(),
            in_flight: Arc::default(),
            connections: Arc::default(),
        });
        let (stage, watching) = watch::channel(Stage::Serving);
        tokio::spawn(keep_up(app.metrics.clone(), watching.clone()));
        let router = change(api::router(Arc::clone(&app)));
        let accepting = tokio::spawn(accept(listener, app, router, watching));
        Ok(Self { engine, local_addr, stage, accepting, grace_ms })
    }

    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The engine that it serves.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Stops: the engine claims no more and long polls are answered; running handlers may finish during the
    /// grace time, while requests are still answered so that workers can settle; then connections are closed.
    pub async fn shutdown(self) {
        self.engine.stop(self.grace_ms).await;
        self.stage.send_replace(Stage::Closing);
        let _ = self.accepting.await;
        let closed = self.stage.closed();
        if tokio::time::timeout(Duration::from_millis(CLOSE_MS), closed).await.is_err() {
            tracing::warn!("some connections did not end in time");
        }
    }
}

async fn keep_up(metrics: Metrics, mut stage: watch::Receiver<Stage>) {
    loop {
        let closing = stage.wait_for(|stage| *stage == Stage::Closing);
        if tokio::time::timeout(UPKEEP_PAUSE, closing).await.is_ok() {
            return;
        }
        metrics.upkeep();
    }
}

async fn accept(listener: TcpListener, app: Arc<App>, router: Router, mut stage: watch::Receiver<Stage>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stage.wait_for(|stage| *stage == Stage::Closing) => return,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Mostly a lack of file descriptors, which passes when connections close.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_RETRY_PAUSE).await;
                continue;
            }
        };
        let Some(share) = app.connections.take(1, app.config.connections_max) else {
            app.metrics.turned_away(TurnedAway::Connection);
            turn_away(stream);
            continue;
        };
        let (app, router, stage) = (Arc::clone(&app), router.clone(), stage.clone());
        tokio::spawn(async move {
            serve_connection(stream, app, router, stage).await;
            drop(share);
        });
    }
}

async fn serve_connection(
    stream: TcpStream,
    app: Arc<App>,
    router: Router,
    mut stage: watch::Receiver<Stage>,
) {
    let _ = stream.set_nodelay(true);
    let idle = Duration::from_millis(app.config.idle_timeout_ms);
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(idle)
        .max_buf_size(CONNECTION_BUFFER_BYTES)
        .pipeline_flush(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(HTTP2_STREAMS_MAX)
        .keep_alive_interval(idle);
    let service = service_fn(move |request| gate::answer(Arc::clone(&app), router.clone(), request));
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        // What went wrong with a connection is the client's to know.
        _ = connection.as_mut() => return,
        _ = stage.wait_for(|stage| *stage == Stage::Closing) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(Duration::from_millis(CLOSE_MS), connection).await;
}

/// Says why, if the connection takes it at once, and closes it.
fn turn_away(mut stream: TcpStream) {
    tokio::spawn(async move {
        let code = Code::Busy;
        let body = format!(
            r#"{{"type":"{}","title":"{}","status":429,"code":"{}","detail":"too many connections are open"}}"#,
            code.type_uri(),
            code.title(),
            code.as_str()
        );
        let text = format!(
            "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\n\
             connection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let written = async {
            stream.write_all(text.as_bytes()).await?;
            stream.shutdown().await
        };
        let _ = tokio::time::timeout(Duration::from_secs(1), written).await;
    });
}
