//! The life cycle of a task, as one pure function: [`decide`].
//!
//! ```text
//!            claim              done
//!  pending ────────► running ────────► succeeded
//!   │  ▲  ▲             │ │
//!   │  │  └─────────────┘ └──────────► dead
//!   │  │  retry, lost lease, release    │
//!   │  └────────────────────────────────┘ revived by a person
//!   └────► cancelled
//! ```
//!
//! Every store calls this function between reading a row and writing it; none has a state machine of its
//! own, except for the `CHECK`s that repeat it as a last defence.

use crate::id::TaskId;
use crate::queue::QueueId;
use crate::trail::{Reason, Step};
use serde::{Deserialize, Serialize};

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum State {
    /// Waits for its time.
    Pending = 0,
    /// Leased to a worker, or claimed ahead by the engine.
    Running = 1,
    /// Done. Terminal.
    Succeeded = 2,
    /// Given up. Terminal, but a person may revive it.
    Dead = 3,
    /// Called off. Terminal.
    Cancelled = 4,
}

impl State {
    /// Every state, in the order of their codes.
    pub const ALL: [Self; 5] = [Self::Pending, Self::Running, Self::Succeeded, Self::Dead, Self::Cancelled];

    /// As stores keep it.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The state with this code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// As answers, logs and metrics write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether the task may still run: such a task owns its (queue, key).
    #[must_use]
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }
}

/// Which lane of the worker pool a task takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Priority {
    /// The normal lane.
    #[default]
    Normal = 0,
    /// Served first, by weight.
    High = 1,
}

impl Priority {
    /// The priority with this code; anything unknown is normal.
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        if code == 1 { Self::High } else { Self::Normal }
    }
}

/// What scheduling does when a live task has the same (queue, key).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnConflict {
    /// Answer the existing task.
    #[default]
    Keep,
    /// Give the existing task the new due time, payload, priority and retry policy.
    Replace,
    /// Refuse with a conflict.
    Reject,
}

/// Which incarnation of which node holds a claim, and the fencing token within the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseKey {
    /// The node's incarnation: grows by one each time a store is opened for writing.
    pub boot: u32,
    /// The task's trail length at the claim: grows with every claim of the task.
    pub token: u32,
}

impl std::fmt::Display for LeaseKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.boot, self.token)
    }
}

impl std::str::FromStr for LeaseKey {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (boot, token) = text.split_once('.').ok_or(())?;
        Ok(Self { boot: boot.parse().map_err(|_| ())?, token: token.parse().map_err(|_| ())? })
    }
}

/// A worker's time-limited right to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Whose it is.
    pub key: LeaseKey,
    /// When it ends unless it is extended, in epoch milliseconds.
    pub until_ms: i64,
}

/// What the rules read and write of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Where it stands.
    pub state: State,
    /// When it is (next) due, in epoch milliseconds.
    pub due_ms: i64,
    /// Attempts counted so far, the running one included.
    pub attempt: u32,
    /// Entries on its trail.
    pub seq: u32,
    /// The lease, while running.
    pub lease: Option<Lease>,
    /// Whether the running attempt has been asked to stop.
    pub cancel_requested: bool,
    /// When the last attempt was claimed, in epoch milliseconds.
    pub fired_ms: Option<i64>,
    /// When the last attempt's handler started, in epoch milliseconds.
    pub started_ms: Option<i64>,
    /// When the task reached a terminal state, in epoch milliseconds.
    pub finished_ms: Option<i64>,
}

/// A whole task, as stores keep it.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// Its queue.
    pub queue: QueueId,
    /// The business key, unique among the live tasks of the queue.
    pub key: String,
    /// What the rules work on.
    pub head: Head,
    /// JSON text given to the handler.
    pub payload: Option<String>,
    /// Its lane.
    pub priority: Priority,
    /// Name of the retry policy, if it has one of its own.
    pub retry: Option<String>,
    /// When the request was read, in epoch milliseconds.
    pub created_ms: i64,
    /// When its transaction began to commit, in epoch milliseconds.
    pub committed_ms: i64,
    /// The last error's text.
    pub last_error: Option<String>,
    /// Trace id of the request that scheduled it, 32 hexadecimal digits.
    pub trace_id: Option<String>,
}

/// A task to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTask {
    /// Its queue.
    pub queue: QueueId,
    /// The business key.
    pub key: String,
    /// When it is due, in epoch milliseconds.
    pub due_ms: i64,
    /// JSON text given to the handler.
    pub payload: Option<String>,
    /// Its lane.
    pub priority: Priority,
    /// Name of a retry policy of its own.
    pub retry: Option<String>,
    /// What to do when a live task has the same key.
    pub on_conflict: OnConflict,
    /// When the request was read, in epoch milliseconds.
    pub created_ms: i64,
    /// Trace id of the request, 32 hexadecimal digits.
    pub trace_id: Option<String>,
    /// Who asked; none is the engine itself.
    pub actor: Option<String>,
}

/// What a finished attempt means for the task; worked out from the outcome by [`crate::retry`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It succeeded.
    Done,
    /// It failed and is due again at this time (epoch milliseconds).
    Retry {
        /// The next due time.
        at_ms: i64,
    },
    /// It failed and no attempt is left.
    Exhausted,
    /// It failed for good.
    Permanent,
}

/// What somebody wants of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Take it: pending and due at or before `due_by_ms` (the store's now plus the claim-ahead window).
    Claim {
        /// The claiming node's incarnation.
        boot: u32,
        /// When the lease ends.
        until_ms: i64,
        /// The latest due time that may be claimed.
        due_by_ms: i64,
    },
    /// End the attempt.
    Settle {
        /// The lease it ran under.
        lease: LeaseKey,
        /// What it means.
        verdict: Verdict,
        /// When the handler started.
        started_ms: i64,
    },
    /// Prolong the lease.
    Extend {
        /// The lease.
        lease: LeaseKey,
        /// Its new end.
        until_ms: i64,
    },
    /// Give an unstarted claim back; the attempt does not count.
    Release {
        /// The lease it was claimed under.
        lease: LeaseKey,
    },
    /// Take the task from a holder that is silent or gone; the attempt counts.
    Lapse {
        /// The lease that is meant; another holder's is left alone.
        lease: LeaseKey,
        /// True: the holder's node was restarted. False: the lease ran out.
        interrupted: bool,
        /// `Retry` or `Exhausted`.
        verdict: Verdict,
    },
    /// Call it off. With `unstarted`, a claim whose handler provably never started is taken back first.
    Cancel {
        /// The lease of an unstarted claim.
        unstarted: Option<LeaseKey>,
    },
    /// Another due time.
    Reschedule {
        /// The new due time.
        due_ms: i64,
        /// The lease of an unstarted claim.
        unstarted: Option<LeaseKey>,
    },
    /// Due now.
    RunNow,
    /// A new life for a dead task, due now.
    Revive,
}

/// Why a command was refused. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// There is no such task.
    #[error("no such task")]
    NotFound,
    /// The task's state does not allow it.
    #[error("the task is {}", .0.as_str())]
    IllegalState(State),
    /// A claim came before the task was due.
    #[error("the task is not due yet")]
    NotDue,
    /// The lease is no longer the current one.
    #[error("the lease has passed on")]
    LeaseLost,
    /// A live task has the same (queue, key); for a dead task to be revived: a newer task has it.
    #[error("another task has this key: {0}")]
    KeyTaken(TaskId),
}

/// What a command did: the steps for the trail, in order. Empty when only the lease's end moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Steps {
    list: [Option<Step>; 2],
}

impl Steps {
    fn one(step: Step) -> Self {
        Self { list: [Some(step), None] }
    }

    fn then(mut self, step: Step) -> Self {
        self.list[1] = Some(step);
        self
    }

    /// The steps in order.
    pub fn iter(&self) -> impl Iterator<Item = Step> + '_ {
        self.list.iter().flatten().copied()
    }

    /// How many steps there are.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.list.iter().flatten().count() as u32
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list[0].is_none()
    }
}

fn step(from: State, to: State, reason: Reason) -> Step {
    Step { from: Some(from), to, reason }
}

impl Head {
    /// The head of a task scheduled for `due_ms`, with its first trail step counted.
    #[must_use]
    pub fn scheduled(due_ms: i64) -> (Self, Step) {
        let head = Self {
            state: State::Pending,
            due_ms,
            attempt: 0,
            seq: 1,
            lease: None,
            cancel_requested: false,
            fired_ms: None,
            started_ms: None,
            finished_ms: None,
        };
        (head, Step { from: None, to: State::Pending, reason: Reason::Scheduled })
    }

    /// The head of a live task that is scheduled again with `on_conflict: replace`.
    ///
    /// # Errors
    /// A running task keeps running as it is.
    pub fn replaced(self, due_ms: i64) -> Result<(Self, Steps), Refusal> {
        if self.state != State::Pending {
            return Err(Refusal::IllegalState(self.state));
        }
        let steps = Steps::one(step(State::Pending, State::Pending, Reason::Replaced));
        Ok((Self { due_ms, attempt: 0, seq: self.seq + 1, ..self }, steps))
    }

    fn holds(&self, lease: LeaseKey) -> bool {
        self.state == State::Running && self.lease.is_some_and(|l| l.key == lease)
    }

    fn back_to_pending(self, due_ms: i64, now_ms: i64) -> (Self, Option<Step>) {
        let head = Self { state: State::Pending, due_ms, lease: None, ..self };
        if self.cancel_requested {
            let head =
                Self { state: State::Cancelled, cancel_requested: false, finished_ms: Some(now_ms), ..head };
            (head, Some(step(State::Pending, State::Cancelled, Reason::Cancelled)))
        } else {
            (head, None)
        }
    }

    fn ended(self, state: State, now_ms: i64) -> Self {
        Self { state, lease: None, cancel_requested: false, finished_ms: Some(now_ms), ..self }
    }
}

/// Decides what `command` does to a task with this head at `now_ms`.
///
/// # Errors
/// The refusal, if the task's state, time or lease does not allow it.
pub fn decide(head: Head, command: &Command, now_ms: i64) -> Result<(Head, Steps), Refusal> {
    use State::{Cancelled, Dead, Pending, Running, Succeeded};
    let (mut next, steps) = match *command {
        Command::Claim { boot, until_ms, due_by_ms } => {
            if head.state != Pending {
                return Err(Refusal::IllegalState(head.state));
            }
            if head.due_ms > due_by_ms {
                return Err(Refusal::NotDue);
            }
            let lease = Lease { key: LeaseKey { boot, token: head.seq + 1 }, until_ms };
            let next = Head {
                state: Running,
                attempt: head.attempt + 1,
                lease: Some(lease),
                cancel_requested: false,
                fired_ms: Some(now_ms),
                started_ms: None,
                ..head
            };
            (next, Steps::one(step(Pending, Running, Reason::Claimed)))
        }
        Command::Settle { lease, verdict, started_ms } => {
            if !head.holds(lease) {
                return Err(Refusal::LeaseLost);
            }
            let head = Head { started_ms: Some(started_ms), ..head };
            end_attempt(head, verdict, Reason::Retry, Reason::Exhausted, now_ms)
        }
        Command::Lapse { lease, interrupted, verdict } => {
            if !head.holds(lease) {
                return Err(Refusal::LeaseLost);
            }
            let reason = if interrupted { Reason::Interrupted } else { Reason::LeaseLost };
            end_attempt(head, verdict, reason, reason, now_ms)
        }
        Command::Extend { lease, until_ms } => {
            if !head.holds(lease) {
                return Err(Refusal::LeaseLost);
            }
            (Head { lease: Some(Lease { key: lease, until_ms }), ..head }, Steps::default())
        }
        Command::Release { lease } => {
            if !head.holds(lease) {
                return Err(Refusal::LeaseLost);
            }
            release(head, now_ms)
        }
        Command::Cancel { unstarted } => match head.state {
            Pending => {
                (head.ended(Cancelled, now_ms), Steps::one(step(Pending, Cancelled, Reason::Cancelled)))
            }
            Running if unstarted.is_some_and(|lease| head.holds(lease)) => {
                release(Head { cancel_requested: true, ..head }, now_ms)
            }
            Running if head.cancel_requested => (head, Steps::default()),
            Running => (
                Head { cancel_requested: true, ..head },
                Steps::one(step(Running, Running, Reason::CancelRequested)),
            ),
            state @ (Succeeded | Dead | Cancelled) => return Err(Refusal::IllegalState(state)),
        },
        Command::Reschedule { due_ms, unstarted } => match head.state {
            Pending => (Head { due_ms, ..head }, Steps::one(step(Pending, Pending, Reason::Rescheduled))),
            Running if unstarted.is_some_and(|lease| head.holds(lease)) && !head.cancel_requested => {
                let (next, steps) = release(head, now_ms);
                (Head { due_ms, ..next }, steps.then(step(Pending, Pending, Reason::Rescheduled)))
            }
            state => return Err(Refusal::IllegalState(state)),
        },
        Command::RunNow => match head.state {
            Pending => (
                Head { due_ms: head.due_ms.min(now_ms), ..head },
                Steps::one(step(Pending, Pending, Reason::RunNow)),
            ),
            state => return Err(Refusal::IllegalState(state)),
        },
        Command::Revive => match head.state {
            Dead => (
                Head { state: Pending, due_ms: now_ms, attempt: 0, finished_ms: None, ..head },
                Steps::one(step(Dead, Pending, Reason::Revived)),
            ),
            state => return Err(Refusal::IllegalState(state)),
        },
    };
    next.seq += steps.len();
    Ok((next, steps))
}

fn end_attempt(head: Head, verdict: Verdict, again: Reason, exhausted: Reason, now_ms: i64) -> (Head, Steps) {
    use State::{Dead, Pending, Running, Succeeded};
    match verdict {
        Verdict::Done => (head.ended(Succeeded, now_ms), Steps::one(step(Running, Succeeded, Reason::Done))),
        Verdict::Retry { at_ms } => {
            let steps = Steps::one(step(Running, Pending, again));
            match head.back_to_pending(at_ms, now_ms) {
                (next, None) => (next, steps),
                (next, Some(cancelled)) => (next, steps.then(cancelled)),
            }
        }
        Verdict::Exhausted => (head.ended(Dead, now_ms), Steps::one(step(Running, Dead, exhausted))),
        Verdict::Permanent => (head.ended(Dead, now_ms), Steps::one(step(Running, Dead, Reason::Permanent))),
    }
}

/// Takes back a claim whose handler never started: as if it had not been.
fn release(head: Head, now_ms: i64) -> (Head, Steps) {
    let steps = Steps::one(step(State::Running, State::Pending, Reason::Released));
    let head = Head { attempt: head.attempt.saturating_sub(1), fired_ms: None, ..head };
    match head.back_to_pending(head.due_ms, now_ms) {
        (next, None) => (next, steps),
        (next, Some(cancelled)) => (next, steps.then(cancelled)),
    }
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
