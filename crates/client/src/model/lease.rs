//! Leases: taking tasks, extending the right to them, settling them.

use super::{Payload, Priority, State, Task};
use crate::error::Fault;
use crate::timestamp::Timestamp;
use serde::{Deserialize, Serialize};

/// The fencing token of a lease: opaque, and good for one attempt only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseToken(String);

impl LeaseToken {
    /// A token as the server wrote it.
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    /// As the server wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A request for due tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeaseRequest {
    worker: String,
    max: u32,
    pub(crate) wait_ms: u64,
    lease_ms: u64,
}

impl LeaseRequest {
    /// One task for the worker of this name, for 30 s, without waiting.
    pub fn new(worker: impl Into<String>) -> Self {
        Self { worker: worker.into(), max: 1, wait_ms: 0, lease_ms: 30_000 }
    }

    /// At most this many tasks.
    #[must_use]
    pub const fn max(mut self, tasks: u32) -> Self {
        self.max = tasks;
        self
    }

    /// How long the server waits for the first due task, in milliseconds.
    #[must_use]
    pub const fn wait_ms(mut self, ms: u64) -> Self {
        self.wait_ms = ms;
        self
    }

    /// How long the leases last unless extended, in milliseconds.
    #[must_use]
    pub const fn lease_ms(mut self, ms: u64) -> Self {
        self.lease_ms = ms;
        self
    }
}

/// A task, and the right to run it for a while. Its fields are those of [`Task`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LeasedTask {
    /// The task.
    pub task: Task,
    /// What settles and extends it.
    pub lease_token: LeaseToken,
    /// When the lease ends unless it is extended, by the server's clock.
    pub lease_until: Option<Timestamp>,
}

impl std::ops::Deref for LeasedTask {
    type Target = Task;

    fn deref(&self) -> &Task {
        &self.task
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct LeasedTasks {
    pub(crate) tasks: Vec<LeasedTask>,
}

/// Reads a task with more fields beside its own. (`#[serde(flatten)]` would copy every field into a buffer
/// and cannot keep the payload as text.)
#[derive(Deserialize)]
struct WideTask {
    id: String,
    queue: String,
    key: String,
    state: State,
    due_at: Timestamp,
    #[serde(default)]
    payload: Payload,
    #[serde(default)]
    priority: Priority,
    #[serde(default)]
    attempt: u32,
    retry: Option<String>,
    created_at: Option<Timestamp>,
    committed_at: Option<Timestamp>,
    fired_at: Option<Timestamp>,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    #[serde(default)]
    cancel_requested: bool,
    last_error: Option<String>,
    trace_id: Option<String>,
    created: Option<bool>,
    lease_token: Option<LeaseToken>,
    lease_until: Option<Timestamp>,
}

impl WideTask {
    fn split(self) -> (Task, Option<bool>, Option<LeaseToken>, Option<Timestamp>) {
        let task = Task {
            id: self.id,
            queue: self.queue,
            key: self.key,
            state: self.state,
            due_at: self.due_at,
            payload: self.payload,
            priority: self.priority,
            attempt: self.attempt,
            retry: self.retry,
            created_at: self.created_at,
            committed_at: self.committed_at,
            fired_at: self.fired_at,
            started_at: self.started_at,
            finished_at: self.finished_at,
            cancel_requested: self.cancel_requested,
            last_error: self.last_error,
            trace_id: self.trace_id,
        };
        (task, self.created, self.lease_token, self.lease_until)
    }
}

impl<'de> Deserialize<'de> for LeasedTask {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (task, _, token, lease_until) = WideTask::deserialize(deserializer)?.split();
        let lease_token = token.ok_or_else(|| serde::de::Error::missing_field("lease_token"))?;
        Ok(Self { task, lease_token, lease_until })
    }
}

impl<'de> Deserialize<'de> for super::Scheduled {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (task, created, ..) = WideTask::deserialize(deserializer)?.split();
        Ok(Self { task, created: created.ok_or_else(|| serde::de::Error::missing_field("created"))? })
    }
}

/// What kind of failure it was; it picks the retry policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureClass {
    /// Something passing: a time-out, a lost connection.
    #[default]
    Transient,
    /// What the handler needs is busy: come back later.
    Busy,
    /// Storage failed.
    Storage,
    /// Trying again is pointless.
    Permanent,
}

/// How an attempt ended, as the server takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SettlementOutcome {
    /// Done.
    Done,
    /// Failed; try again as the policy says.
    Retry,
    /// Failed for good.
    Dead,
}

/// The end of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Settlement {
    id: String,
    lease_token: LeaseToken,
    pub(crate) outcome: SettlementOutcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<FailureClass>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
}

impl Settlement {
    fn new(id: impl Into<String>, token: &LeaseToken, outcome: SettlementOutcome) -> Self {
        Self { id: id.into(), lease_token: token.clone(), outcome, class: None, error: None, delay_ms: None }
    }

    /// The attempt succeeded.
    pub fn done(id: impl Into<String>, token: &LeaseToken) -> Self {
        Self::new(id, token, SettlementOutcome::Done)
    }

    /// The attempt failed; the class picks the policy for the next.
    pub fn retry(
        id: impl Into<String>,
        token: &LeaseToken,
        class: FailureClass,
        error: impl Into<String>,
    ) -> Self {
        let settlement = Self::new(id, token, SettlementOutcome::Retry);
        Self { class: Some(class), error: Some(error.into()), ..settlement }
    }

    /// The attempt failed for good.
    pub fn dead(id: impl Into<String>, token: &LeaseToken, error: impl Into<String>) -> Self {
        Self { error: Some(error.into()), ..Self::new(id, token, SettlementOutcome::Dead) }
    }

    /// Milliseconds until the next attempt, in the place of the policy's.
    #[must_use]
    pub const fn delay_ms(mut self, ms: u64) -> Self {
        self.delay_ms = Some(ms);
        self
    }
}

/// Names a lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeaseRef {
    /// The task's id.
    pub id: String,
    /// The lease's token.
    pub lease_token: LeaseToken,
}

/// What became of one settlement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettleAnswer {
    /// It is on disk.
    Settled,
    /// Refused: `lease_lost` if another has the task now, or none.
    Refused(Fault),
}

/// What became of one extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtendAnswer {
    /// The lease goes on.
    Extended {
        /// Somebody asked to cancel the task: stop and settle.
        cancel_requested: bool,
    },
    /// Refused: `lease_lost` if another has the task now, or none.
    Refused(Fault),
}

/// `{ok: true, …}` or `{error: code}`; a code may also come with a detail, as an object.
#[derive(Debug, Deserialize)]
pub(crate) struct LeaseAnswer {
    #[serde(default)]
    ok: bool,
    #[serde(default)]
    cancel_requested: bool,
    error: Option<LeaseError>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum LeaseError {
    Code(String),
    Fault(Fault),
}

impl LeaseAnswer {
    fn refusal(error: Option<LeaseError>) -> Fault {
        match error {
            Some(LeaseError::Fault(fault)) => fault,
            Some(LeaseError::Code(code)) => Fault { code, ..Fault::default() },
            None => Fault { code: "unknown".into(), ..Fault::default() },
        }
    }
}

impl From<LeaseAnswer> for SettleAnswer {
    fn from(answer: LeaseAnswer) -> Self {
        if answer.ok { Self::Settled } else { Self::Refused(LeaseAnswer::refusal(answer.error)) }
    }
}

impl From<LeaseAnswer> for ExtendAnswer {
    fn from(answer: LeaseAnswer) -> Self {
        if answer.ok {
            Self::Extended { cancel_requested: answer.cancel_requested }
        } else {
            Self::Refused(LeaseAnswer::refusal(answer.error))
        }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct SettleAnswers {
    pub(crate) results: Vec<LeaseAnswer>,
}

pub(crate) type ExtendAnswers = SettleAnswers;
