//! The committer: one thread that owns a blocking backend, groups the units that wait at a moment into one
//! transaction, and answers each by itself.
//!
//! Batches form by themselves while the last commit runs; only units that may linger wait for company. The
//! waiting room is bounded in writes and bytes: what does not fit is refused with [`StoreError::Busy`].

use crate::roles::{BoxFuture, EffectSink};
use crate::unit::{Effect, StoreError, Unit, UnitReply, Urgency};
use duebook_core::Clock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// A blocking backend: runs one transaction.
pub trait Backend: Send + 'static {
    /// Runs all units in one durable transaction. Refusals are part of the replies; an error means that
    /// nothing was written. Committed steps are appended to `effects`.
    ///
    /// # Errors
    /// What kept the transaction from committing.
    fn transact(
        &mut self,
        units: &[&Unit],
        now_ms: i64,
        effects: &mut Vec<Effect>,
    ) -> Result<Vec<UnitReply>, StoreError>;
}

/// Limits of the committer.
#[derive(Debug, Clone)]
pub struct CommitterConfig {
    /// Most writes in one transaction (a larger unit goes alone).
    pub batch_items_max: usize,
    /// Most bytes in one transaction (a larger unit goes alone).
    pub batch_bytes_max: usize,
    /// How long units that may linger wait for company.
    pub linger: Duration,
    /// Units in the last transaction from which on urgent units wait for each other, too.
    pub commit_siblings: usize,
    /// How long they wait at most.
    pub commit_delay: Duration,
    /// Most writes that wait.
    pub waiting_items_max: usize,
    /// Most bytes that wait.
    pub waiting_bytes_max: usize,
}

impl Default for CommitterConfig {
    fn default() -> Self {
        Self {
            batch_items_max: 2_000,
            batch_bytes_max: 8 * 1024 * 1024,
            linger: Duration::from_millis(2),
            commit_siblings: 8,
            commit_delay: Duration::from_micros(200),
            waiting_items_max: 50_000,
            waiting_bytes_max: 64 * 1024 * 1024,
        }
    }
}

/// Times and sizes of one commit, for metrics.
#[derive(Debug, Clone, Copy)]
pub struct CommitReport {
    /// Units in the transaction.
    pub units: usize,
    /// Writes in the transaction.
    pub writes: usize,
    /// From begin to durable, in microseconds.
    pub took_us: i64,
    /// Whether it committed.
    pub ok: bool,
}

/// Hears of every commit.
pub type CommitObserver = Box<dyn Fn(CommitReport) + Send + Sync>;

struct Pending {
    unit: Unit,
    bytes: usize,
    reply: oneshot::Sender<UnitReply>,
}

#[derive(Default)]
struct Room {
    items: AtomicUsize,
    bytes: AtomicUsize,
}

/// The handle to a committer thread.
pub struct Committer {
    sender: Mutex<Option<Sender<Box<Pending>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Closes when the thread has committed everything and dropped the backend.
    ended: watch::Receiver<()>,
    room: Arc<Room>,
    config: CommitterConfig,
    sink: Arc<OnceLock<Arc<dyn EffectSink>>>,
    observer: Arc<OnceLock<CommitObserver>>,
}

impl Committer {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start<B: Backend>(
        backend: B,
        clock: Arc<dyn Clock>,
        config: CommitterConfig,
    ) -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        let room = Arc::new(Room::default());
        let sink: Arc<OnceLock<Arc<dyn EffectSink>>> = Arc::default();
        let observer: Arc<OnceLock<CommitObserver>> = Arc::default();
        let (ending, ended) = watch::channel(());
        let worker = Worker {
            backend,
            clock,
            config: config.clone(),
            room: Arc::clone(&room),
            sink: Arc::clone(&sink),
            observer: Arc::clone(&observer),
            effects: Vec::new(),
            _ending: ending,
            last_units: 0,
        };
        let thread =
            std::thread::Builder::new().name("committer".into()).spawn(move || worker.run(&receiver))?;
        let (sender, thread) = (Mutex::new(Some(sender)), Mutex::new(Some(thread)));
        Ok(Self { sender, thread, ended, room, config, sink, observer })
    }

    /// See [`crate::Writer::submit`].
    pub fn submit(&self, unit: Unit) -> BoxFuture<'static, UnitReply> {
        let (items, bytes) = (unit.writes.len(), unit.bytes());
        // What may linger is the engine's own work, bounded by what it holds; refusing it would only make
        // finished tasks run twice.
        let refusable = unit.urgency == Urgency::Now;
        let waiting_items = self.room.items.fetch_add(items, Ordering::Relaxed) + items;
        let waiting_bytes = self.room.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let full = refusable
            && (waiting_items > self.config.waiting_items_max
                || waiting_bytes > self.config.waiting_bytes_max)
            && waiting_items > items;
        let (reply, answer) = oneshot::channel();
        let sent = !full
            && match self.sender.lock() {
                Ok(sender) => sender
                    .as_ref()
                    .is_some_and(|sender| sender.send(Box::new(Pending { unit, bytes, reply })).is_ok()),
                Err(_) => false,
            };
        if !sent {
            self.room.items.fetch_sub(items, Ordering::Relaxed);
            self.room.bytes.fetch_sub(bytes, Ordering::Relaxed);
            let error = if full { StoreError::Busy } else { StoreError::Closed };
            return Box::pin(std::future::ready(Err(error)));
        }
        Box::pin(async move { answer.await.unwrap_or(Err(StoreError::Closed)) })
    }

    /// Writes that wait.
    pub fn waiting(&self) -> usize {
        self.room.items.load(Ordering::Relaxed)
    }

    /// Sets the listener to committed steps; only the first call counts.
    pub fn set_sink(&self, sink: Arc<dyn EffectSink>) {
        let _ = self.sink.set(sink);
    }

    /// Sets the listener to commits; only the first call counts.
    pub fn set_observer(&self, observer: CommitObserver) {
        let _ = self.observer.set(observer);
    }

    /// Commits what waits, ends the thread and drops the backend. Whoever calls it again waits for the same.
    pub async fn close(&self) {
        self.refuse_more();
        let mut ended = self.ended.clone();
        while ended.changed().await.is_ok() {}
    }

    /// Without a sender the thread ends once it has read what was sent.
    fn refuse_more(&self) {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Drop for Committer {
    /// Waits for what was sent, so that whoever drops a store can open it again.
    fn drop(&mut self) {
        self.refuse_more();
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}

struct Worker<B> {
    backend: B,
    clock: Arc<dyn Clock>,
    config: CommitterConfig,
    room: Arc<Room>,
    sink: Arc<OnceLock<Arc<dyn EffectSink>>>,
    observer: Arc<OnceLock<CommitObserver>>,
    effects: Vec<Effect>,
    /// Units in the last transaction.
    last_units: usize,
    /// Last, so that it is dropped after the backend.
    _ending: watch::Sender<()>,
}

/// Units gathered for one transaction.
#[derive(Default)]
struct Batch {
    units: Vec<Pending>,
    items: usize,
    bytes: usize,
    urgent: bool,
}

impl Batch {
    fn add(&mut self, pending: Pending) {
        self.items += pending.unit.writes.len();
        self.bytes += pending.bytes;
        self.urgent |= pending.unit.urgency == Urgency::Now;
        self.units.push(pending);
    }

    fn is_full(&self, config: &CommitterConfig) -> bool {
        self.items >= config.batch_items_max || self.bytes >= config.batch_bytes_max
    }

    fn has_room_for(&self, pending: &Pending, config: &CommitterConfig) -> bool {
        self.items + pending.unit.writes.len() <= config.batch_items_max
            && self.bytes + pending.bytes <= config.batch_bytes_max
    }
}

impl<B: Backend> Worker<B> {
    fn run(mut self, receiver: &Receiver<Box<Pending>>) {
        let mut held = None;
        while let Some(first) = held.take().or_else(|| receiver.recv().ok()) {
            let mut batch = Batch::default();
            batch.add(*first);
            held = self.gather(receiver, &mut batch);
            self.commit(batch);
        }
    }

    /// Fills the batch with what waits, or comes within the linger. Answers the unit that no longer fitted.
    #[allow(clippy::disallowed_methods)] // a wait, not a time: nothing stored depends on it
    fn gather(&self, receiver: &Receiver<Box<Pending>>, batch: &mut Batch) -> Option<Box<Pending>> {
        let mut start = None;
        while !batch.is_full(&self.config) {
            let next = match receiver.try_recv() {
                Ok(next) => next,
                Err(_) => {
                    let wait = self.wait_for_company(batch);
                    if wait.is_zero() {
                        return None;
                    }
                    let now = std::time::Instant::now();
                    let until = *start.get_or_insert(now) + wait;
                    receiver.recv_timeout(until.saturating_duration_since(now)).ok()?
                }
            };
            if !batch.has_room_for(&next, &self.config) {
                return Some(next);
            }
            batch.add(*next);
        }
        None
    }

    /// How long after its first look a batch may wait. Urgent units wait only where many clients write at
    /// once: those who were answered by the last commit are about to write again, and one larger commit serves
    /// them all sooner than two small ones (PostgreSQL's `commit_delay` and `commit_siblings`).
    fn wait_for_company(&self, batch: &Batch) -> Duration {
        if !batch.urgent {
            return self.config.linger;
        }
        let crowd = self.last_units >= self.config.commit_siblings;
        if crowd && batch.units.len() < self.last_units { self.config.commit_delay } else { Duration::ZERO }
    }

    fn commit(&mut self, batch: Batch) {
        self.last_units = batch.units.len();
        let units: Vec<&Unit> = batch.units.iter().map(|pending| &pending.unit).collect();
        match self.transact(&units) {
            Ok(replies) => {
                debug_assert_eq!(replies.len(), batch.units.len());
                for (pending, reply) in batch.units.into_iter().zip(replies) {
                    self.answer(pending, reply);
                }
            }
            Err(error) if batch.units.len() > 1 => {
                // One unit spoils the transaction, or is too large for the room that is left: run each alone, so
                // that it fails alone.
                tracing::warn!(%error, units = batch.units.len(), "commit failed; trying each unit alone");
                for pending in batch.units {
                    let alone = self.transact(&[&pending.unit]);
                    self.answer(
                        pending,
                        alone.and_then(|mut replies| replies.pop().unwrap_or(Err(StoreError::Closed))),
                    );
                }
            }
            Err(error) => {
                tracing::error!(%error, "commit failed");
                for pending in batch.units {
                    self.answer(pending, Err(error.clone()));
                }
            }
        }
    }

    /// Makes room before the answer: whoever has it may send the next unit.
    fn answer(&self, pending: Pending, reply: UnitReply) {
        self.room.items.fetch_sub(pending.unit.writes.len(), Ordering::Relaxed);
        self.room.bytes.fetch_sub(pending.bytes, Ordering::Relaxed);
        let _ = pending.reply.send(reply);
    }

    fn transact(&mut self, units: &[&Unit]) -> Result<Vec<UnitReply>, StoreError> {
        let start_us = self.clock.now_us();
        self.effects.clear();
        let result = self.backend.transact(units, start_us.div_euclid(1000), &mut self.effects);
        if let Some(observer) = self.observer.get() {
            observer(CommitReport {
                units: units.len(),
                writes: units.iter().map(|unit| unit.writes.len()).sum(),
                took_us: self.clock.now_us() - start_us,
                ok: result.is_ok(),
            });
        }
        if result.is_ok()
            && !self.effects.is_empty()
            && let Some(sink) = self.sink.get()
        {
            sink.committed(&self.effects);
        }
        result
    }
}
