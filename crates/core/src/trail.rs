//! The trail: one closed list of everything that can happen to a task. The store writes an entry for each
//! step in the same transaction as the step itself; logs and metrics read the same list.

use crate::task::State;

/// Why a task changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reason {
    /// none → pending: acknowledged.
    Scheduled = 0,
    /// pending → pending: scheduled again with `on_conflict: replace`.
    Replaced = 1,
    /// pending → pending: another due time.
    Rescheduled = 2,
    /// pending → pending: due now, by a person.
    RunNow = 3,
    /// pending → running: leased; the attempt counts from here.
    Claimed = 4,
    /// running → succeeded.
    Done = 5,
    /// running → pending: failed, will be tried again.
    Retry = 6,
    /// running → dead: failed, no attempt left.
    Exhausted = 7,
    /// running → dead: failed for good, by the handler's own word.
    Permanent = 8,
    /// running → pending: the worker fell silent; the attempt counts.
    LeaseLost = 9,
    /// running → pending: the node that held it was restarted; the attempt counts if it had been started.
    Interrupted = 10,
    /// running → pending: given back before it was started; the attempt does not count.
    Released = 11,
    /// pending → cancelled.
    Cancelled = 12,
    /// running → running: the worker is asked to stop.
    CancelRequested = 13,
    /// dead → pending: a new life, by a person.
    Revived = 14,
}

impl Reason {
    const ALL: [Self; 15] = [
        Self::Scheduled,
        Self::Replaced,
        Self::Rescheduled,
        Self::RunNow,
        Self::Claimed,
        Self::Done,
        Self::Retry,
        Self::Exhausted,
        Self::Permanent,
        Self::LeaseLost,
        Self::Interrupted,
        Self::Released,
        Self::Cancelled,
        Self::CancelRequested,
        Self::Revived,
    ];

    /// As stores keep it.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The reason with this code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Every reason, for registering metrics.
    #[must_use]
    pub const fn all() -> &'static [Self] {
        &Self::ALL
    }

    /// As answers, logs and metrics write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Replaced => "replaced",
            Self::Rescheduled => "rescheduled",
            Self::RunNow => "run_now",
            Self::Claimed => "claimed",
            Self::Done => "done",
            Self::Retry => "retry",
            Self::Exhausted => "exhausted",
            Self::Permanent => "permanent",
            Self::LeaseLost => "lease_lost",
            Self::Interrupted => "interrupted",
            Self::Released => "released",
            Self::Cancelled => "cancelled",
            Self::CancelRequested => "cancel_requested",
            Self::Revived => "revived",
        }
    }

    /// Whether the state machine has an edge `from → to` for this reason. The one table that checkers use.
    #[must_use]
    pub fn allows(self, from: Option<State>, to: State) -> bool {
        use State::{Cancelled, Dead, Pending, Running, Succeeded};
        match self {
            Self::Scheduled => from.is_none() && to == Pending,
            Self::Replaced | Self::Rescheduled | Self::RunNow => from == Some(Pending) && to == Pending,
            Self::Claimed => from == Some(Pending) && to == Running,
            Self::Done => from == Some(Running) && to == Succeeded,
            Self::Retry | Self::LeaseLost | Self::Interrupted => {
                from == Some(Running) && matches!(to, Pending | Dead)
            }
            Self::Released => from == Some(Running) && to == Pending,
            Self::Exhausted | Self::Permanent => from == Some(Running) && to == Dead,
            Self::Cancelled => from == Some(Pending) && to == Cancelled,
            Self::CancelRequested => from == Some(Running) && to == Running,
            Self::Revived => from == Some(Dead) && to == Pending,
        }
    }
}

/// One change of state, as the rules decide it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The state before; none for a new task.
    pub from: Option<State>,
    /// The state after.
    pub to: State,
    /// Why.
    pub reason: Reason,
}

/// One line of a task's story, as stores keep it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrailEntry {
    /// 1, 2, 3 … within the task.
    pub seq: u32,
    /// When it was decided, in epoch milliseconds.
    pub at_ms: i64,
    /// What changed and why.
    pub step: Step,
    /// Attempts counted so far.
    pub attempt: u32,
    /// The task's due time after the step, in epoch milliseconds.
    pub due_ms: i64,
    /// When the handler started, on the step that ends an attempt.
    pub started_ms: Option<i64>,
    /// Who did it; none is the engine itself.
    pub actor: Option<String>,
    /// The error's text, or other words about it.
    pub detail: Option<String>,
    /// Trace id of the request that did it, 32 hexadecimal digits.
    pub trace_id: Option<String>,
}
