//! How a task looks on the wire.

use crate::stamp::Stamp;
use duebook_core::{LeaseKey, Priority, State, Task, TaskId};
use duebook_engine::trace_id_of;
use serde::ser::{Serialize, SerializeStruct, Serializer};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Fields of a task in an answer.
pub(crate) const TASK_FIELDS: usize = 17;

/// A task, borrowed from wherever it is.
pub(crate) struct TaskView<'a> {
    pub(crate) id: TaskId,
    pub(crate) queue: &'a str,
    pub(crate) key: &'a str,
    pub(crate) state: State,
    pub(crate) due_ms: i64,
    pub(crate) payload: Option<&'a RawValue>,
    pub(crate) priority: Priority,
    pub(crate) attempt: u32,
    pub(crate) retry: Option<&'a str>,
    pub(crate) created_ms: i64,
    pub(crate) committed_ms: i64,
    pub(crate) fired_ms: Option<i64>,
    pub(crate) started_ms: Option<i64>,
    pub(crate) finished_ms: Option<i64>,
    pub(crate) cancel_requested: bool,
    pub(crate) last_error: Option<&'a str>,
    pub(crate) trace_id: Cow<'a, str>,
}

impl<'a> TaskView<'a> {
    pub(crate) fn of(task: &'a Task, queue: &'a str) -> Self {
        Self {
            id: task.id,
            queue,
            key: &task.key,
            state: task.head.state,
            due_ms: task.head.due_ms,
            payload: raw(task.payload.as_deref()),
            priority: task.priority,
            attempt: task.head.attempt,
            retry: task.retry.as_deref(),
            created_ms: task.created_ms,
            committed_ms: task.committed_ms,
            fired_ms: task.head.fired_ms,
            started_ms: task.head.started_ms,
            finished_ms: task.head.finished_ms,
            cancel_requested: task.head.cancel_requested,
            last_error: task.last_error.as_deref(),
            trace_id: match &task.trace_id {
                Some(trace_id) => Cow::Borrowed(trace_id.as_str()),
                None => Cow::Owned(trace_id_of(task)),
            },
        }
    }

    fn fields<S: SerializeStruct>(&self, to: &mut S) -> Result<(), S::Error> {
        to.serialize_field("id", &self.id)?;
        to.serialize_field("queue", self.queue)?;
        to.serialize_field("key", self.key)?;
        to.serialize_field("state", self.state.as_str())?;
        to.serialize_field("due_at", &Stamp(self.due_ms))?;
        to.serialize_field("payload", &self.payload)?;
        to.serialize_field("priority", &self.priority)?;
        to.serialize_field("attempt", &self.attempt)?;
        to.serialize_field("retry", &self.retry)?;
        to.serialize_field("created_at", &Stamp(self.created_ms))?;
        to.serialize_field("committed_at", &Stamp(self.committed_ms))?;
        to.serialize_field("fired_at", &self.fired_ms.map(Stamp))?;
        to.serialize_field("started_at", &self.started_ms.map(Stamp))?;
        to.serialize_field("finished_at", &self.finished_ms.map(Stamp))?;
        to.serialize_field("cancel_requested", &self.cancel_requested)?;
        to.serialize_field("last_error", &self.last_error)?;
        to.serialize_field("trace_id", &self.trace_id)
    }
}

impl Serialize for TaskView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut to = serializer.serialize_struct("Task", TASK_FIELDS)?;
        self.fields(&mut to)?;
        to.end()
    }
}

/// A task that was scheduled or found.
pub(crate) struct ScheduledView<'a> {
    pub(crate) task: TaskView<'a>,
    pub(crate) created: bool,
}

impl Serialize for ScheduledView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut to = serializer.serialize_struct("Scheduled", TASK_FIELDS + 1)?;
        self.task.fields(&mut to)?;
        to.serialize_field("created", &self.created)?;
        to.end()
    }
}

/// A task that was leased.
pub(crate) struct LeasedView<'a> {
    pub(crate) task: TaskView<'a>,
    pub(crate) lease: LeaseKey,
    pub(crate) until_ms: i64,
}

impl Serialize for LeasedView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut to = serializer.serialize_struct("Leased", TASK_FIELDS + 2)?;
        self.task.fields(&mut to)?;
        to.serialize_field("lease_token", &DisplayText(self.lease))?;
        to.serialize_field("lease_until", &Stamp(self.until_ms))?;
        to.end()
    }
}

/// Written as its `Display` says.
pub(crate) struct DisplayText<T>(pub(crate) T);

impl<T: std::fmt::Display> Serialize for DisplayText<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// JSON text as it was given; the store holds nothing else.
pub(crate) fn raw(text: Option<&str>) -> Option<&RawValue> {
    serde_json::from_str(text?).ok()
}
