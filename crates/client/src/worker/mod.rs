//! The worker: leases tasks by long polls, runs a handler for each, keeps the leases alive, settles in batches.
//!
//! ```text
//!  polls ──► handlers (one spawned task each) ──► settler
//!              ▲
//!          heartbeats (connections of their own)
//! ```
//!
//! Promises:
//! - No more handlers than `concurrency`; no task is leased without a free handler.
//! - An attempt is extended from its lease until its settlement is answered, and settled at most once per worker.
//! - A handler that panics, or is dropped by the stop, is a transient failure.
//! - When the server is away, outcomes wait (as many as there is room for; then no more is leased) until it is back.

mod config;
mod context;
mod flag;
mod heartbeat;
mod outcome;
mod poll;
mod running;
mod settle;
mod shared;
mod stats;

pub use context::{CancelReason, TaskContext};
pub use outcome::Outcome;
pub use stats::{RunReport, WorkerStats};

use crate::Client;
use crate::clock::Clock;
use crate::error::Result;
use crate::model::LeasedTask;
use crate::retry::RetryPolicy;
use config::{Config, HEED_MS};
use flag::Flag;
use shared::{Ended, Shared};
use stats::{Counters, add};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Runs the tasks of one queue.
#[derive(Debug)]
#[must_use = "a worker does nothing until it is run"]
pub struct Worker {
    client: Client,
    config: Config,
    stop: Arc<Flag>,
    counters: Arc<Counters>,
}

/// Stops a worker, and tells how it stands. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct StopHandle {
    stop: Arc<Flag>,
    counters: Arc<Counters>,
}

impl StopHandle {
    /// Takes no more tasks; [`Worker::run`] returns when its handlers have ended (or the grace time has) and are settled.
    pub fn stop(&self) {
        self.stop.raise(1);
    }

    /// The counters so far.
    #[must_use]
    pub fn stats(&self) -> WorkerStats {
        self.counters.read()
    }
}

impl Worker {
    /// A worker on `queue`. It makes connections of its own; of the client it takes the settings.
    pub fn new(client: Client, queue: impl Into<String>) -> Self {
        let config = Config::new(queue.into());
        Self { client, config, stop: Arc::default(), counters: Arc::default() }
    }

    /// Its name on trails; `worker-PID` by default.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.config.name = name.into();
        self
    }

    /// Most handlers at once; 256 by default. It also bounds what is asked for ahead: a poll takes its share of the free
    /// handlers, so few handlers at a high rate make tasks late (5,000 a second want 256 or more).
    pub const fn concurrency(mut self, handlers: usize) -> Self {
        self.config.concurrency = handlers;
        self
    }

    /// Long polls in flight; 4 by default. While one answer is being taken in, the others wait at the server.
    pub const fn polls(mut self, polls: usize) -> Self {
        self.config.polls = polls;
        self
    }

    /// Most tasks in one lease call; 100 by default. A poll also takes no more than its share of the handlers.
    pub const fn lease_max(mut self, tasks: usize) -> Self {
        self.config.lease_max = tasks;
        self
    }

    /// How long a lease lasts, in milliseconds, at least 100; 30,000 by default. Heartbeats extend it at a third of that, so this is
    /// how soon a task runs elsewhere after this process has died.
    pub const fn lease_ms(mut self, ms: u64) -> Self {
        self.config.lease_ms = ms;
        self
    }

    /// How long the server holds a poll without tasks, in milliseconds; 5,000 by default.
    pub const fn wait_ms(mut self, ms: u64) -> Self {
        self.config.wait_ms = ms;
        self
    }

    /// How long an outcome waits for others to be settled with, in milliseconds; 5 by default.
    pub const fn settle_linger_ms(mut self, ms: u64) -> Self {
        self.config.settle_linger_ms = ms;
        self
    }

    /// How long handlers may go on after a stop, in milliseconds; 10,000 by default. Then their contexts are cancelled,
    /// and half a second later they are dropped.
    pub const fn grace_ms(mut self, ms: u64) -> Self {
        self.config.grace_ms = ms;
        self
    }

    /// How long a stopping worker tries to deliver the last outcomes, in milliseconds; 10,000 by default.
    pub const fn settle_grace_ms(mut self, ms: u64) -> Self {
        self.config.settle_grace_ms = ms;
        self
    }

    /// The clock that [`TaskContext::now`] reads, for tests.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.config.clock = Arc::new(clock);
        self
    }

    /// What stops it once it runs.
    #[must_use]
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle { stop: Arc::clone(&self.stop), counters: Arc::clone(&self.counters) }
    }

    /// Runs until [`StopHandle::stop`]. The handler answers an [`Outcome`], or `()` for done, or a `Result<(), E>`
    /// whose error is a transient failure. It is called at least once per task: use the task's id as idempotency key.
    ///
    /// When the server cannot be reached, it goes on asking. Dropping the future abandons its handlers unsettled:
    /// their tasks run again elsewhere when their leases end.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if its connections cannot be set up.
    pub async fn run<H, F>(self, handler: H) -> Result<RunReport>
    where
        H: Fn(LeasedTask, TaskContext) -> F + Send + Sync + 'static,
        F: Future<Output: Into<Outcome>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let running = self.begin()?;
        let mut polls = JoinSet::new();
        for _ in 0..running.shared.config.polls {
            polls.spawn(poll::poll_forever(Arc::clone(&running.shared), Arc::clone(&handler)));
        }
        while polls.join_next().await.is_some() {}
        Ok(running.end().await)
    }

    /// [`Self::run`] until `stop` completes (a signal, say).
    ///
    /// # Errors
    /// Those of [`Self::run`].
    pub async fn run_until<H, F>(self, handler: H, stop: impl Future<Output = ()>) -> Result<RunReport>
    where
        H: Fn(LeasedTask, TaskContext) -> F + Send + Sync + 'static,
        F: Future<Output: Into<Outcome>> + Send + 'static,
    {
        let handle = self.stop_handle();
        let run = self.run(handler);
        tokio::pin!(run, stop);
        tokio::select! {
            report = &mut run => return report,
            () = stop => handle.stop(),
        }
        run.await
    }

    /// The manual runner, for tests: takes what is due now (up to `lease_max`, no waiting), runs it to the end, settles it, and
    /// reports. An empty queue is a report of zeros. It may be called again.
    ///
    /// # Errors
    /// Those of [`Client::lease`].
    pub async fn run_once<H, F>(&self, handler: H) -> Result<RunReport>
    where
        H: Fn(LeasedTask, TaskContext) -> F + Send + Sync + 'static,
        F: Future<Output: Into<Outcome>> + Send + 'static,
    {
        let config = self.config.clone();
        let once =
            Self { client: self.client.clone(), config, stop: Arc::default(), counters: Arc::default() };
        let running = once.begin()?;
        let leased = poll::poll_once(&running.shared, &Arc::new(handler)).await;
        running.shared.idle().await;
        let report = running.end().await;
        leased.map(|()| report)
    }

    fn begin(self) -> Result<Active> {
        let config = Arc::new(self.config.clamped());
        let client = self.client.with_retry(RetryPolicy::off());
        let (work, heartbeat) = (client.with_own_connections()?, client.with_own_connections()?);
        // Room for outcomes that wait while the server is away, beyond those whose handlers wait with them.
        let (ended, outcomes) = mpsc::channel(1_024.max(config.concurrency));
        let shared = Arc::new(Shared::new(config, work, heartbeat, self.counters, self.stop, ended));
        let closing = Arc::new(Flag::default());
        let (mut settler, mut heartbeat) = (JoinSet::new(), JoinSet::new());
        settler.spawn(settle::settle_forever(Arc::clone(&shared), outcomes, Arc::clone(&closing)));
        heartbeat.spawn(heartbeat::beat_forever(Arc::clone(&shared)));
        Ok(Active { shared, closing, settler, _heartbeat: heartbeat })
    }
}

/// A worker's background parts; dropping it ends them and its handlers.
#[derive(Debug)]
struct Active {
    shared: Arc<Shared>,
    closing: Arc<Flag>,
    settler: JoinSet<()>,
    _heartbeat: JoinSet<()>,
}

impl Active {
    /// Lets handlers finish, drops those that do not, and delivers what there is to settle.
    async fn end(mut self) -> RunReport {
        let shared = Arc::clone(&self.shared);
        let config = &shared.config;
        let mut dropped = 0;
        if timeout(Duration::from_millis(config.grace_ms), shared.idle()).await.is_err() {
            for attempt in shared.running.all() {
                attempt.cancel.raise(CancelReason::Stopping as u8);
            }
            let _ = timeout(Duration::from_millis(HEED_MS), shared.idle()).await;
            dropped = self.drop_handlers().await;
        }
        self.closing.raise(1);
        let delivered = async { while self.settler.join_next().await.is_some() {} };
        if timeout(Duration::from_millis(config.settle_grace_ms), delivered).await.is_err() {
            add(&shared.counters.unsettled, shared.running.all().len());
        }
        RunReport { stats: shared.counters.read(), dropped }
    }

    async fn drop_handlers(&self) -> u64 {
        let mut dropped = 0;
        for attempt in self.shared.running.all() {
            if attempt.end() {
                dropped += 1;
                if let Some(handler) = attempt.handler.get() {
                    handler.abort();
                }
                let outcome = Outcome::transient("the worker stopped before the handler had finished");
                let _ = self.shared.ended.try_send(Ended { attempt, outcome });
            }
        }
        dropped
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        for attempt in self.shared.running.all() {
            if let Some(handler) = attempt.handler.get() {
                handler.abort();
            }
        }
    }
}
