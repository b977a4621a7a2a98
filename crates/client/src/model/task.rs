//! Tasks: asking for one, and what the server says of it.

use super::Payload;
use crate::error::Fault;
use crate::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum State {
    /// Waits for its time.
    Pending,
    /// A worker has it.
    Running,
    /// Done.
    Succeeded,
    /// Given up; a person may retry it.
    Dead,
    /// Called off.
    Cancelled,
    /// A state that this version of the SDK does not know.
    #[serde(other)]
    Unknown,
}

/// Which lane a task takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Priority {
    /// Served first, by weight.
    High,
    /// The normal lane.
    #[default]
    #[serde(other)]
    Normal,
}

/// What scheduling does when a live task has the same queue and key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnConflict {
    /// Answer the existing task.
    #[default]
    Keep,
    /// Give the existing task the new due time and payload.
    Replace,
    /// Refuse with 409.
    Reject,
}

/// When a task is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Due {
    /// At this time. Prefer it: it stays the same if the call has to be repeated.
    #[serde(rename = "due_at", serialize_with = "epoch_ms")]
    At(Timestamp),
    /// This many milliseconds after the server has read the call.
    #[serde(rename = "delay_ms")]
    AfterMs(u64),
}

fn epoch_ms<S: serde::Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(time.as_ms())
}

impl From<Timestamp> for Due {
    fn from(time: Timestamp) -> Self {
        Self::At(time)
    }
}

impl From<Duration> for Due {
    fn from(delay: Duration) -> Self {
        Self::AfterMs(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX))
    }
}

/// A task to be scheduled.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NewTask {
    queue: String,
    key: String,
    #[serde(flatten)]
    due: Due,
    #[serde(skip_serializing_if = "Payload::is_null")]
    payload: Payload,
    #[serde(skip_serializing_if = "is_default")]
    priority: Priority,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    on_conflict: OnConflict,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl NewTask {
    /// A task in `queue` with the business key `key`, due at a [`Timestamp`] or after a [`Duration`].
    pub fn new(queue: impl Into<String>, key: impl Into<String>, due: impl Into<Due>) -> Self {
        Self {
            queue: queue.into(),
            key: key.into(),
            due: due.into(),
            payload: Payload::null(),
            priority: Priority::Normal,
            retry: None,
            on_conflict: OnConflict::Keep,
        }
    }

    /// What the handler gets: at most 64 KiB of JSON by default.
    #[must_use]
    pub fn payload(mut self, payload: impl Into<Payload>) -> Self {
        self.payload = payload.into();
        self
    }

    /// Which lane it takes.
    #[must_use]
    pub const fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Name of the retry policy that replaces the one of the failure's class.
    #[must_use]
    pub fn retry(mut self, policy: impl Into<String>) -> Self {
        self.retry = Some(policy.into());
        self
    }

    /// What happens if a live task has the same queue and key.
    #[must_use]
    pub const fn on_conflict(mut self, on_conflict: OnConflict) -> Self {
        self.on_conflict = on_conflict;
        self
    }

    /// Whether scheduling it twice leaves the same as scheduling it once.
    pub(crate) fn is_idempotent(&self) -> bool {
        self.on_conflict != OnConflict::Reject
    }
}

/// A task as the server answers it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Task {
    /// Its id.
    pub id: String,
    /// Its queue.
    pub queue: String,
    /// Its business key.
    pub key: String,
    /// Where it stands.
    pub state: State,
    /// When it is (next) due.
    pub due_at: Timestamp,
    /// What its handler gets.
    #[serde(default)]
    pub payload: Payload,
    /// Its lane.
    #[serde(default)]
    pub priority: Priority,
    /// Attempts counted so far, the running one included.
    #[serde(default)]
    pub attempt: u32,
    /// Name of its own retry policy.
    #[serde(default)]
    pub retry: Option<String>,
    /// When the request was read.
    #[serde(default)]
    pub created_at: Option<Timestamp>,
    /// When it was committed.
    #[serde(default)]
    pub committed_at: Option<Timestamp>,
    /// When its last attempt was claimed for its time.
    #[serde(default)]
    pub fired_at: Option<Timestamp>,
    /// When its last attempt's handler started.
    #[serde(default)]
    pub started_at: Option<Timestamp>,
    /// When it came to an end.
    #[serde(default)]
    pub finished_at: Option<Timestamp>,
    /// Whether the running attempt has been asked to stop.
    #[serde(default)]
    pub cancel_requested: bool,
    /// The last attempt's error.
    #[serde(default)]
    pub last_error: Option<String>,
    /// Trace id of the request that scheduled it.
    #[serde(default)]
    pub trace_id: Option<String>,
}

/// A scheduled task, new or kept.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Scheduled {
    /// The task.
    pub task: Task,
    /// Whether this call created it. A repeated call answers `false` for what its first try created.
    pub created: bool,
}

/// What became of one task of a batch.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum BatchItem {
    /// Acknowledged: it is durable.
    Scheduled {
        /// Its id.
        id: String,
        /// Whether this call created it.
        created: bool,
    },
    /// Refused, alone.
    Refused {
        /// Why.
        error: Fault,
    },
}

#[derive(Debug, Deserialize)]
pub(crate) struct BatchAnswer {
    pub(crate) results: Vec<BatchItem>,
}

/// The order of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Order {
    /// Earliest due first.
    Due,
}

/// Which tasks to list; without filters all, latest due first.
#[derive(Debug, Clone, Default)]
pub struct ListTasks {
    pub(crate) query: Vec<(&'static str, String)>,
}

impl ListTasks {
    /// All tasks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.retain(|(other, _)| *other != name);
        self.query.push((name, value.into()));
        self
    }

    /// Only those of this queue.
    #[must_use]
    pub fn queue(self, queue: impl Into<String>) -> Self {
        self.with("queue", queue)
    }

    /// Only those with this key; goes with a queue only.
    #[must_use]
    pub fn key(self, key: impl Into<String>) -> Self {
        self.with("key", key)
    }

    /// Only those in this state.
    #[must_use]
    pub fn state(self, state: State) -> Self {
        let name = match state {
            State::Pending => "pending",
            State::Running => "running",
            State::Succeeded => "succeeded",
            State::Dead => "dead",
            State::Cancelled => "cancelled",
            State::Unknown => "unknown",
        };
        self.with("state", name)
    }

    /// Only those due before this time.
    #[must_use]
    pub fn due_before(self, time: Timestamp) -> Self {
        self.with("due_before", time.to_string())
    }

    /// Only those due after this time.
    #[must_use]
    pub fn due_after(self, time: Timestamp) -> Self {
        self.with("due_after", time.to_string())
    }

    /// In this order instead of latest due first.
    #[must_use]
    pub fn order(self, order: Order) -> Self {
        match order {
            Order::Due => self.with("order", "due"),
        }
    }

    /// At most this many a page.
    #[must_use]
    pub fn limit(self, items: u32) -> Self {
        self.with("limit", items.to_string())
    }

    /// From where an earlier page ended ([`super::Page::next_cursor`]).
    #[must_use]
    pub fn cursor(self, cursor: impl Into<String>) -> Self {
        self.with("cursor", cursor)
    }
}

/// Which dead letters to list; without filters all.
#[derive(Debug, Clone, Default)]
pub struct ListDead(pub(crate) ListTasks);

impl ListDead {
    /// All dead letters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Only those of this queue.
    #[must_use]
    pub fn queue(self, queue: impl Into<String>) -> Self {
        Self(self.0.queue(queue))
    }

    /// At most this many a page.
    #[must_use]
    pub fn limit(self, items: u32) -> Self {
        Self(self.0.limit(items))
    }

    /// From where an earlier page ended ([`super::Page::next_cursor`]).
    #[must_use]
    pub fn cursor(self, cursor: impl Into<String>) -> Self {
        Self(self.0.cursor(cursor))
    }
}

/// Which dead letters to retry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum DeadFilter {
    /// These.
    Ids {
        /// Their ids.
        ids: Vec<String>,
    },
    /// Those of a queue.
    Queue {
        /// The queue.
        queue: String,
        /// At most this many.
        #[serde(skip_serializing_if = "Option::is_none")]
        limit: Option<u32>,
    },
}

/// What became of a retry of dead letters.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct DeadRetry {
    /// How many have a new life.
    pub retried: u64,
    /// One by one, if the server says so.
    #[serde(default)]
    pub results: Vec<serde_json::Value>,
}
