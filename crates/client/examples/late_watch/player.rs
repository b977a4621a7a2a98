//! Plays the recording: virtual time at `speed`, from a moment from now.
//!
//! ```text
//!  events ─┬─ created ──────────────► schedules: whatever has gathered goes out as one batch
//!          └─ delivered, cancelled ─► cancels: each after its order's schedule is acknowledged
//! ```
//! Both lanes are bounded; when the server is away they fill, and the player waits (and says how far it lagged).

use crate::recording::{Event, Happening};
use crate::watch::{Stage, Watch};
use anyhow::{Context, Result, bail};
use duebook_client::{BatchItem, Client, Clock, Error, ListTasks, NewTask, State, SystemClock, Timestamp};
use futures_util::StreamExt;
use futures_util::stream;
use serde_json::json;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

const LANE_ITEMS_MAX: usize = 1_024;
const BATCH_ITEMS_MAX: usize = 500;
const SCHEDULES_IN_FLIGHT: usize = 8;
const CANCELS_IN_FLIGHT: usize = 56;
/// How long a server may be away before this gives up.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long the last checks may take to come in.
const LAST_CHECKS: Duration = Duration::from_secs(120);

/// Virtual time on the wall.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mapping {
    first: Timestamp,
    start: Timestamp,
    begin: Instant,
    speed: f64,
}

impl Mapping {
    /// `first` is played `lead` from now.
    pub(crate) fn new(first: Timestamp, speed: f64, lead: Duration) -> Self {
        Self { first, start: SystemClock.now().after(lead), begin: Instant::now() + lead, speed }
    }

    fn offset_s(&self, time: Timestamp) -> f64 {
        time.ms_since(self.first) as f64 / 1_000.0 / self.speed
    }

    /// When `time` is on the server's clock; not before it.
    fn wall(&self, time: Timestamp) -> Timestamp {
        Timestamp::from_ms(self.start.as_ms() + (self.offset_s(time) * 1_000.0).ceil() as i64)
    }

    fn instant(&self, time: Timestamp) -> Instant {
        self.begin + Duration::from_secs_f64(self.offset_s(time).max(0.0))
    }
}

/// How far behind its time an event was played.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lag {
    pub(crate) max: Duration,
    pub(crate) mean: Duration,
}

/// Where the checks go.
#[derive(Debug, Clone)]
pub(crate) struct Desk {
    pub(crate) client: Client,
    pub(crate) queue: String,
    pub(crate) mapping: Mapping,
    pub(crate) watch: Arc<Watch>,
}

/// Plays all events and waits until every check is settled or called off.
pub(crate) async fn play(desk: &Desk, events: &[Event]) -> Result<Lag> {
    let (created, schedules) = mpsc::channel(LANE_ITEMS_MAX);
    let (closed, cancels) = mpsc::channel(LANE_ITEMS_MAX);
    let walk = async {
        let lag = walk(desk, events, &created, &closed).await;
        drop((created, closed));
        Ok(lag)
    };
    let (lag, (), ()) = tokio::try_join!(walk, schedule_all(desk, schedules), cancel_all(desk, cancels))?;
    finish(desk).await?;
    Ok(lag)
}

async fn walk(
    desk: &Desk,
    events: &[Event],
    created: &mpsc::Sender<(Arc<str>, Timestamp)>,
    closed: &mpsc::Sender<Arc<str>>,
) -> Lag {
    let (mut max, mut sum) = (Duration::ZERO, Duration::ZERO);
    for event in events {
        let at = desk.mapping.instant(event.time);
        if at > Instant::now() {
            sleep_until(at).await;
        }
        let taken = match event.happening {
            Happening::Created { promised } => {
                desk.watch.asked(&event.order);
                created.send((Arc::clone(&event.order), promised)).await.is_ok()
            }
            Happening::Delivered | Happening::Cancelled => {
                closed.send(Arc::clone(&event.order)).await.is_ok()
            }
            Happening::Other => true,
        };
        if !taken {
            break; // A lane has given up, and says why.
        }
        let lag = at.elapsed();
        max = max.max(lag);
        sum += lag;
    }
    Lag { max, mean: sum / u32::try_from(events.len()).unwrap_or(u32::MAX).max(1) }
}

async fn schedule_all(desk: &Desk, created: mpsc::Receiver<(Arc<str>, Timestamp)>) -> Result<()> {
    let batches = stream::unfold(created, |mut created| async move {
        let mut batch = Vec::new();
        (created.recv_many(&mut batch, BATCH_ITEMS_MAX).await > 0).then_some((batch, created))
    });
    let calls = batches.map(|batch| schedule(desk, batch)).buffer_unordered(SCHEDULES_IN_FLIGHT);
    let mut calls = pin!(calls);
    while let Some(result) = calls.next().await {
        result?;
    }
    Ok(())
}

async fn schedule(desk: &Desk, batch: Vec<(Arc<str>, Timestamp)>) -> Result<()> {
    let tasks: Vec<NewTask> = batch
        .iter()
        .map(|(order, promised)| {
            let payload = json!({"order": &**order, "promised": promised});
            NewTask::new(&desk.queue, &**order, desk.mapping.wall(*promised)).payload(payload)
        })
        .collect();
    if let [task] = tasks.as_slice() {
        insist(async || desk.client.schedule(task).await).await.context("scheduling a check")?;
    } else {
        let items =
            insist(async || desk.client.schedule_batch(&tasks).await).await.context("scheduling checks")?;
        for (item, (order, _)) in items.iter().zip(&batch) {
            if let BatchItem::Refused { error } = item {
                bail!("the check of {order} was refused: {} {}", error.code, error.detail);
            }
        }
    }
    batch.iter().for_each(|(order, _)| desk.watch.scheduled(order));
    Ok(())
}

async fn cancel_all(desk: &Desk, closed: mpsc::Receiver<Arc<str>>) -> Result<()> {
    let orders = stream::unfold(closed, |mut closed| async move { Some((closed.recv().await?, closed)) });
    let calls = orders
        .map(|order| async move {
            timeout(PATIENCE, desk.watch.until(&order, Stage::Scheduled))
                .await
                .with_context(|| format!("the check of {order} was never acknowledged"))?;
            cancel(desk, &order).await
        })
        .buffer_unordered(CANCELS_IN_FLIGHT);
    let mut calls = pin!(calls);
    while let Some(result) = calls.next().await {
        result?;
    }
    Ok(())
}

async fn cancel(desk: &Desk, order: &Arc<str>) -> Result<()> {
    match insist(async || desk.client.cancel_key(&desk.queue, order).await).await {
        Ok(task) if task.state == State::Cancelled => desk.watch.cancelled(order),
        // It runs: the handler judges by event times, as it would have a moment later.
        Ok(_) => desk.watch.already_fired(order),
        Err(error) if matches!(error.status(), Some(404 | 409)) => desk.watch.already_fired(order),
        Err(error) => return Err(error).with_context(|| format!("cancelling the check of {order}")),
    }
    Ok(())
}

/// Repeats a call while the server is away.
async fn insist<T>(call: impl AsyncFn() -> duebook_client::Result<T>) -> duebook_client::Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match call().await {
            Err(error) if error.is_retryable() && Instant::now() < deadline => {
                sleep(Duration::from_millis(50)).await;
            }
            answer => return answer,
        }
    }
}

/// After the last event: waits for the last checks, and calls off those that are due after the recording's end.
async fn finish(desk: &Desk) -> Result<()> {
    let Desk { watch, mapping, .. } = desk;
    sleep_until(mapping.instant(watch.book.last)).await;
    for order in watch.open(|_| true) {
        if watch.book.orders.get(&order).is_some_and(|recorded| !watch.book.is_checked(recorded)) {
            cancel_after_the_end(desk, &order).await?;
        }
    }
    let deadline = Instant::now() + LAST_CHECKS;
    loop {
        let open = watch.open(|_| true);
        let Some(one) = open.first() else { return Ok(()) };
        // One that was cancelled by a call whose answer was lost will never run.
        if timeout(Duration::from_secs(1), watch.until(one, Stage::Cancelled)).await.is_err() {
            resolve(desk, one).await?;
        }
        if Instant::now() > deadline {
            bail!("{} checks neither ran nor were called off, {one} for one", open.len());
        }
    }
}

async fn cancel_after_the_end(desk: &Desk, order: &Arc<str>) -> Result<()> {
    match insist(async || desk.client.cancel_key(&desk.queue, order).await).await {
        Ok(_) => {}
        Err(Error::Problem(problem)) if matches!(problem.status, 404 | 409) => {}
        Err(error) => return Err(error.into()),
    }
    desk.watch.check_is_moot(order);
    Ok(())
}

/// Asks the server what became of a check that this program lost sight of.
async fn resolve(desk: &Desk, order: &Arc<str>) -> Result<()> {
    let filter = ListTasks::new().queue(&desk.queue).key(&**order);
    let page = insist(async || desk.client.list(&filter).await).await?;
    if !page.items.is_empty() && page.items.iter().all(|task| task.state == State::Cancelled) {
        desk.watch.cancelled(order);
    }
    Ok(())
}
