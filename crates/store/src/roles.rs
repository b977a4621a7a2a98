//! The traits, narrow and named by role, and the rows that they read.

use crate::unit::{Effect, StoreError, Unit, UnitReply};
use duebook_core::recurring::CatchUp;
use duebook_core::{LeaseKey, Priority, QueueId, QueueSettings, State, Task, TaskId, TrailEntry};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A boxed future, so that stores can be trait objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Hears of every committed step, after it is durable and before its unit is answered. Must not block.
pub trait EffectSink: Send + Sync {
    /// The steps of one transaction, in order.
    fn committed(&self, effects: &[Effect]);
}

/// Takes units.
pub trait Writer: Send + Sync {
    /// Commits a unit and answers it.
    fn submit(&self, unit: Unit) -> BoxFuture<'static, UnitReply>;
    /// Sets the one listener to committed steps. Called once, before the first unit that matters to it.
    fn set_sink(&self, sink: Arc<dyn EffectSink>);
    /// This incarnation of the node: grows by one each time the store is opened.
    fn boot(&self) -> u32;
    /// Writes that wait to be committed.
    fn waiting(&self) -> usize;
    /// Commits what waits and stops. Later units are refused with [`StoreError::Closed`].
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// A pending task's place in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DueRow {
    /// When it is due, in epoch milliseconds.
    pub due_ms: i64,
    /// Its lane.
    pub priority: Priority,
    /// The task.
    pub id: TaskId,
}

/// A running task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningRow {
    /// The task.
    pub id: TaskId,
    /// Its queue.
    pub queue: QueueId,
    /// Who holds it.
    pub lease: LeaseKey,
    /// Until when, in epoch milliseconds.
    pub until_ms: i64,
    /// When it was due, in epoch milliseconds.
    pub due_ms: i64,
    /// Attempts counted, this one included.
    pub attempt: u32,
    /// Its own retry policy.
    pub retry: Option<String>,
}

/// A task as the janitor meets it on its walk over the ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedRow {
    /// The task.
    pub id: TaskId,
    /// Its state.
    pub state: State,
    /// When it ended; none while it lives.
    pub finished_ms: Option<i64>,
}

/// A queue.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueRow {
    /// Its number.
    pub id: QueueId,
    /// Its name.
    pub name: String,
    /// Its settings.
    pub settings: QueueSettings,
}

/// A recurring schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct RecurringRow {
    /// Its name.
    pub name: String,
    /// The queue its tasks go to.
    pub queue: QueueId,
    /// Cron expression, if it has one.
    pub cron: Option<String>,
    /// IANA time zone of the cron expression.
    pub timezone: Option<String>,
    /// Interval in milliseconds, if it has no cron expression.
    pub every_ms: Option<u64>,
    /// Where the interval is counted from, in epoch milliseconds.
    pub anchor_ms: i64,
    /// JSON text given to each task.
    pub payload: Option<String>,
    /// What to do with times missed while the node was down.
    pub catch_up: CatchUp,
    /// The next time to fire, in epoch milliseconds; none if there is none.
    pub next_ms: Option<i64>,
    /// When it was last changed, in epoch milliseconds.
    pub updated_ms: i64,
}

/// An API key. The key itself is never kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRow {
    /// Public part, by which it is listed and revoked.
    pub id: String,
    /// SHA-256 of the whole key, in hexadecimal.
    pub hash: String,
    /// What it is for.
    pub name: String,
    /// Scopes, comma-separated.
    pub scopes: String,
    /// Queues it is limited to, comma-separated; empty means all.
    pub queues: String,
    /// When it was made, in epoch milliseconds.
    pub created_ms: i64,
    /// When it was revoked, in epoch milliseconds.
    pub revoked_ms: Option<i64>,
}

/// The order of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Latest due first.
    #[default]
    NewestDueFirst,
    /// Earliest due first.
    EarliestDueFirst,
}

/// Which tasks to list, in order of (due, id).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskFilter {
    /// Of this queue only.
    pub queue: Option<QueueId>,
    /// With this key only (needs a queue).
    pub key: Option<String>,
    /// In this state only.
    pub state: Option<State>,
    /// Due before this, exclusive, in epoch milliseconds.
    pub due_before_ms: Option<i64>,
    /// Due at or after this, in epoch milliseconds.
    pub due_after_ms: Option<i64>,
    /// Continue after this (due, id).
    pub after: Option<(i64, TaskId)>,
    /// Order.
    pub order: Order,
    /// Most rows.
    pub limit: usize,
}

type Read<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Reads what is committed.
pub trait Reader: Send + Sync {
    /// A task by id.
    fn task(&self, id: TaskId) -> Read<'_, Option<Task>>;
    /// The live task with this key, or else the one that ended last.
    fn find<'a>(&'a self, queue: QueueId, key: &'a str) -> Read<'a, Option<Task>>;
    /// A page of tasks.
    fn list(&self, filter: TaskFilter) -> Read<'_, Vec<Task>>;
    /// A task's trail in order, from `after_seq` (exclusive).
    fn trail(&self, id: TaskId, after_seq: u32, limit: usize) -> Read<'_, Vec<TrailEntry>>;
    /// Pending tasks of a queue in order of (due, priority, id), after `after`, due at or before `until_ms`.
    fn due_page(
        &self,
        queue: QueueId,
        after: Option<DueRow>,
        until_ms: i64,
        limit: usize,
    ) -> Read<'_, Vec<DueRow>>;
    /// Running tasks in order of (boot, id), after `after`.
    fn running(&self, after: Option<(u32, TaskId)>, limit: usize) -> Read<'_, Vec<RunningRow>>;
    /// Tasks in order of id, after `after` and below `below`, whatever their state.
    fn walk(&self, after: TaskId, below: TaskId, limit: usize) -> Read<'_, Vec<EndedRow>>;
    /// Tasks by queue and state, from maintained counters.
    fn counts(&self) -> Read<'_, Vec<(QueueId, State, u64)>>;
    /// All queues.
    fn queues(&self) -> Read<'_, Vec<QueueRow>>;
    /// All recurring schedules, by name.
    fn recurring(&self) -> Read<'_, Vec<RecurringRow>>;
    /// All API keys, revoked ones included.
    fn keys(&self) -> Read<'_, Vec<KeyRow>>;
    /// Whether the store can be read, and its schema's version.
    fn check(&self) -> Read<'_, u32>;
    /// Bytes on disk, where there is one.
    fn size_bytes(&self) -> Read<'_, u64>;
}

/// The whole of a store.
pub trait Store: Writer + Reader + 'static {}
impl<S: Writer + Reader + 'static> Store for S {}
