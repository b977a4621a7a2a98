//! Taking tasks: each poll asks for what there are free handlers for, and starts a handler per task.

use super::config::{AWAY_WAIT_MS, STOP_DRAIN_MS};
use super::context::TaskContext;
use super::outcome::Outcome;
use super::shared::{Ended, Place, Shared};
use super::stats::add;
use crate::error::Result;
use crate::model::{LeaseRequest, LeasedTask};
use crate::retry::Backoff;
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// An empty answer that comes sooner than this, in milliseconds, is taken for a server that does not wait.
const HASTY_MS: u64 = 20;

/// Asks for tasks until the worker stops.
pub(super) async fn poll_forever<H, F>(shared: Arc<Shared>, handler: Arc<H>)
where
    H: Fn(LeasedTask, TaskContext) -> F + Send + Sync + 'static,
    F: Future<Output: Into<Outcome>> + Send + 'static,
{
    let mut backoff = Backoff::new(20, AWAY_WAIT_MS);
    while !shared.stop.is_raised() {
        let Some(free) = reserve(&shared).await else { break };
        let began = Instant::now();
        let answer = lease(&shared, free, shared.config.wait_ms).await;
        let wait = match answer {
            Some(Ok(tasks)) if tasks.is_empty() => {
                shared.handlers.add_permits(free);
                let hasty = began.elapsed() < Duration::from_millis(HASTY_MS.min(shared.config.wait_ms + 1));
                if hasty { Some(backoff.next(None)) } else { None }
            }
            Some(Ok(tasks)) => {
                backoff.reset();
                start(&shared, &handler, tasks, free);
                None
            }
            Some(Err(error)) => {
                shared.handlers.add_permits(free);
                add(&shared.counters.lease_errors, 1);
                tracing::warn!(queue = shared.config.queue, %error, "no tasks can be leased");
                Some(backoff.next(error.retry_after()))
            }
            None => {
                shared.handlers.add_permits(free);
                break;
            }
        };
        if let Some(wait) = wait {
            tokio::select! {
                () = sleep(wait) => {}
                () = shared.stop.wait() => {}
            }
        }
    }
}

/// Asks for tasks once, without waiting, and starts them.
pub(super) async fn poll_once<H, F>(shared: &Arc<Shared>, handler: &Arc<H>) -> Result<()>
where
    H: Fn(LeasedTask, TaskContext) -> F + Send + Sync + 'static,
    F: Future<Output: Into<Outcome>> + Send + 'static,
{
    let free = shared.config.lease_max.min(shared.config.concurrency);
    if let Ok(permits) = shared.handlers.acquire_many(u32::try_from(free).unwrap_or(u32::MAX)).await {
        permits.forget();
    }
    let request = LeaseRequest::new(&shared.config.name)
        .max(u32::try_from(free).unwrap_or(u32::MAX))
        .lease_ms(shared.config.lease_ms);
    let tasks = shared.work.lease(&shared.config.queue, &request).await?;
    start(shared, handler, tasks, free);
    Ok(())
}

/// Waits for a free handler and takes it and what else is free, up to this poll's share. `None`: stop.
async fn reserve(shared: &Shared) -> Option<usize> {
    tokio::select! {
        biased;
        () = shared.stop.wait() => return None,
        permit = shared.handlers.acquire() => permit.ok()?.forget(),
    }
    let mut free = 1;
    let more = shared.config.share().saturating_sub(1).min(shared.handlers.available_permits());
    if let Ok(permits) = shared.handlers.try_acquire_many(u32::try_from(more).unwrap_or(u32::MAX)) {
        free += permits.num_permits();
        permits.forget();
    }
    Some(free)
}

/// One long poll. When the worker stops, an answer that is on its way may still arrive. `None`: stop.
async fn lease(shared: &Shared, free: usize, wait_ms: u64) -> Option<Result<Vec<LeasedTask>>> {
    let request = LeaseRequest::new(&shared.config.name)
        .max(u32::try_from(free).unwrap_or(u32::MAX))
        .wait_ms(wait_ms)
        .lease_ms(shared.config.lease_ms);
    let answer = shared.work.lease(&shared.config.queue, &request);
    tokio::pin!(answer);
    tokio::select! {
        biased;
        answer = &mut answer => Some(answer),
        () = shared.stop.wait() => timeout(Duration::from_millis(STOP_DRAIN_MS), answer).await.ok(),
    }
}

/// Starts a handler for each task, and frees the places that are left over.
fn start<H, F>(shared: &Arc<Shared>, handler: &Arc<H>, tasks: Vec<LeasedTask>, free: usize)
where
    H: Fn(LeasedTask, TaskContext) -> F + Send + Sync + 'static,
    F: Future<Output: Into<Outcome>> + Send + 'static,
{
    let config = &shared.config;
    add(&shared.counters.leased, tasks.len());
    shared.handlers.add_permits(free.saturating_sub(tasks.len()));
    let attempts = shared.running.admit(&tasks);
    for (nth, (task, attempt)) in tasks.into_iter().zip(attempts).enumerate() {
        let context = TaskContext {
            attempt: Arc::clone(&attempt),
            config: Arc::clone(config),
            stopping: Arc::clone(&shared.stop),
            due_at: task.due_at,
            trace: task.trace_id.as_deref().and_then(|trace| trace.parse().ok()),
        };
        let place = Place::new(shared, usize::from(nth < free));
        let spawned = tokio::spawn(attend(Arc::clone(shared), place, Arc::clone(handler), task, context));
        let _ = attempt.handler.set(spawned.abort_handle());
    }
}

/// Runs one handler to its end, and hands the outcome on.
async fn attend<H, F>(
    shared: Arc<Shared>,
    place: Place,
    handler: Arc<H>,
    task: LeasedTask,
    context: TaskContext,
) where
    H: Fn(LeasedTask, TaskContext) -> F + Send + Sync + 'static,
    F: Future<Output: Into<Outcome>> + Send + 'static,
{
    let attempt = Arc::clone(&context.attempt);
    let run = async move { handler(task, context).await.into() };
    let outcome = AssertUnwindSafe(run).catch_unwind().await.unwrap_or_else(|panic| {
        add(&shared.counters.panicked, 1);
        Outcome::panicked(&*panic)
    });
    if attempt.end() {
        // Full when the server does not take outcomes: then this place stays taken, and no more is leased.
        if shared.ended.send(Ended { attempt, outcome }).await.is_err() {
            add(&shared.counters.unsettled, 1);
        }
    }
    drop(place);
}
