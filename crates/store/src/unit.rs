//! What goes into a store and what comes back.

use crate::roles::{KeyRow, QueueRow, RecurringRow};
use duebook_core::{Command, NewTask, Priority, QueueId, QueueSettings, Refusal, State, Step, Task, TaskId};
use std::sync::Arc;

/// Which task a command means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// By id.
    Id(TaskId),
    /// The live task with this key.
    Key(QueueId, String),
}

/// A command to one task, with what the trail says about it.
#[derive(Debug, Clone)]
pub struct Act {
    /// Which task.
    pub target: Target,
    /// What to do.
    pub command: Command,
    /// Who wants it; none is the engine itself.
    pub actor: Option<Arc<str>>,
    /// The error's text, for a failed attempt.
    pub detail: Option<String>,
    /// Trace id of the request.
    pub trace_id: Option<String>,
}

impl Act {
    /// The engine's own command to a task.
    #[must_use]
    pub fn own(id: TaskId, command: Command) -> Self {
        Self { target: Target::Id(id), command, actor: None, detail: None, trace_id: None }
    }
}

/// One change of the store.
#[derive(Debug, Clone)]
pub enum Write {
    /// Schedule a task → [`Written::Scheduled`].
    Schedule(NewTask),
    /// A command to a task → [`Written::Head`] for settle, extend, release and lapse, else [`Written::Task`].
    Act(Act),
    /// Delete these tasks, as far as they are terminal, with their trails → [`Written::Count`].
    Purge(Vec<TaskId>),
    /// Create a queue or change its settings → [`Written::Queue`].
    PutQueue {
        /// Its name.
        name: String,
        /// Its settings.
        settings: QueueSettings,
        /// True: leave an existing queue as it is.
        keep_existing: bool,
    },
    /// Create or change a recurring schedule → [`Written::Count`].
    PutRecurring(RecurringRow),
    /// Delete a recurring schedule → [`Written::Count`] (0 or 1).
    DeleteRecurring(String),
    /// Schedule the tasks of a recurring schedule and move it on, if it still stands where the caller saw it
    /// → [`Written::Count`] of tasks created.
    FireRecurring {
        /// Its name.
        name: String,
        /// The next time that the caller saw, in epoch milliseconds.
        seen_next_ms: i64,
        /// The next time from here; none ends it.
        next_ms: Option<i64>,
        /// The tasks; one whose key is taken is left out.
        tasks: Vec<NewTask>,
    },
    /// Keep an API key → [`Written::Count`].
    PutKey(KeyRow),
    /// Revoke an API key by its id → [`Written::Count`] (0 or 1).
    RevokeKey {
        /// The key's public id.
        id: String,
        /// When.
        now_ms: i64,
    },
}

/// What a write did.
#[derive(Debug, Clone)]
pub enum Written {
    /// A task was scheduled, replaced or found.
    Scheduled {
        /// Its id.
        id: TaskId,
        /// False if a live task had the key.
        created: bool,
        /// The live task as it is now, if there was one.
        existing: Option<Box<Task>>,
        /// When its transaction began to commit.
        committed_ms: i64,
    },
    /// The whole task after the change.
    Task(Box<Task>),
    /// Where the task stands after the change.
    Head {
        /// Its state.
        state: State,
        /// Its due time.
        due_ms: i64,
        /// Whether its worker is asked to stop.
        cancel_requested: bool,
    },
    /// The queue after the change.
    Queue(QueueRow),
    /// How many rows were touched.
    Count(usize),
}

/// How long a unit may wait for company.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// Somebody waits for the answer: commit as soon as the last commit is done.
    Now,
    /// May wait a short linger for other units.
    Linger,
}

/// Writes that wait together. With `atomic` they stand or fall together, else each for itself.
#[derive(Debug, Clone)]
pub struct Unit {
    /// The writes, in order.
    pub writes: Vec<Write>,
    /// Whether a refusal of one undoes all.
    pub atomic: bool,
    /// How long it may wait.
    pub urgency: Urgency,
}

impl Unit {
    /// Independent writes for which somebody waits.
    #[must_use]
    pub fn each(writes: Vec<Write>) -> Self {
        Self { writes, atomic: false, urgency: Urgency::Now }
    }

    /// One write for which somebody waits.
    #[must_use]
    pub fn one(write: Write) -> Self {
        Self::each(vec![write])
    }

    /// Bytes that it roughly holds in memory, for the committer's limits.
    #[must_use]
    pub fn bytes(&self) -> usize {
        fn of_task(task: &NewTask) -> usize {
            160 + task.key.len() + task.payload.as_ref().map_or(0, String::len)
        }
        self.writes
            .iter()
            .map(|write| match write {
                Write::Schedule(task) => of_task(task),
                Write::FireRecurring { tasks, .. } => 160 + tasks.iter().map(of_task).sum::<usize>(),
                Write::Act(act) => 160 + act.detail.as_ref().map_or(0, String::len),
                Write::Purge(ids) => 64 + ids.len() * 8,
                Write::PutRecurring(row) => 512 + row.payload.as_ref().map_or(0, String::len),
                _ => 512,
            })
            .sum()
    }
}

/// One result per write, in order. In an atomic unit a refusal comes last and means that nothing was written.
pub type UnitReply = Result<Vec<Result<Written, Refusal>>, StoreError>;

/// A committed step of a task, as the engine, the metrics and the log see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effect {
    /// The task.
    pub task: TaskId,
    /// Its queue.
    pub queue: QueueId,
    /// What happened.
    pub step: Step,
    /// The due time after it, in epoch milliseconds.
    pub due_ms: i64,
    /// The task's lane.
    pub priority: Priority,
    /// Attempts counted.
    pub attempt: u32,
    /// When the task was created, in epoch milliseconds.
    pub created_ms: i64,
    /// When the step was decided, in epoch milliseconds.
    pub at_ms: i64,
}

/// A store could not do its work. No unit of the transaction was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// No room: on the disk, or within the configured size. Reads go on; writes work again once there is room.
    #[error("the store is full: {0}")]
    Full(String),
    /// Too much is waiting to be committed. Try again a little later.
    #[error("too many writes are waiting")]
    Busy,
    /// The store is shutting down.
    #[error("the store is closed")]
    Closed,
    /// The file is damaged.
    #[error("the store is damaged: {0}")]
    Corrupt(String),
    /// Anything else the backend said.
    #[error("the store failed: {0}")]
    Backend(String),
}
