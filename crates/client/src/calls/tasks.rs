//! Scheduling tasks, looking at them, changing their course.

use super::Pages;
use crate::model::{BatchAnswer, BatchItem, Due, ListTasks, NewTask, Page, Scheduled, Task, Trail};
use crate::{Client, Error, Result};
use serde::Serialize;

#[derive(Serialize)]
struct Batch<'a> {
    tasks: &'a [NewTask],
}

impl Client {
    /// Schedules a task; when this returns, it is on disk. Repeated by itself unless the task says
    /// [`crate::OnConflict::Reject`]. A task due after a delay that had to be repeated is due that much later.
    ///
    /// # Errors
    /// 409 `conflict` for a rejected key, 422 for a bad field, and those of every call.
    pub async fn schedule(&self, task: &NewTask) -> Result<Scheduled> {
        let call = self.post(&["v1", "tasks"])?.body(task)?;
        self.ask(if task.is_idempotent() { call } else { call.if_unheard() }).await
    }

    /// Schedules up to 5,000 tasks in one call; each is taken or refused by itself, answered in order.
    ///
    /// # Errors
    /// 413 or 422 if the batch is too large, and those of every call.
    pub async fn schedule_batch(&self, tasks: &[NewTask]) -> Result<Vec<BatchItem>> {
        let call = self.post(&["v1", "tasks", "batch"])?.body(&Batch { tasks })?;
        let name = call.name();
        let idempotent = tasks.iter().all(NewTask::is_idempotent);
        let answer: BatchAnswer = self.ask(if idempotent { call } else { call.if_unheard() }).await?;
        same_length(name, answer.results, tasks.len())
    }

    /// A task by its id.
    ///
    /// # Errors
    /// 404 if there is none, and those of every call.
    pub async fn task(&self, id: &str) -> Result<Task> {
        self.ask(self.get(&["v1", "tasks", id])?).await
    }

    /// The changes of a task's state, oldest first, up to 1,000.
    ///
    /// # Errors
    /// 404 if there is none, and those of every call.
    pub async fn trail(&self, id: &str) -> Result<Trail> {
        self.ask(self.get(&["v1", "tasks", id, "trail"])?).await
    }

    /// The changes of a task's state after the one numbered `seq` (see [`Trail::next_after_seq`]).
    ///
    /// # Errors
    /// 404 if there is none, and those of every call.
    pub async fn trail_after(&self, id: &str, seq: u32) -> Result<Trail> {
        self.ask(self.get(&["v1", "tasks", id, "trail"])?.query(&[("after_seq", seq.to_string())])).await
    }

    /// One page of tasks.
    ///
    /// # Errors
    /// Those of every call.
    pub async fn list(&self, filter: &ListTasks) -> Result<Page<Task>> {
        self.ask(self.get(&["v1", "tasks"])?.query(&filter.query)).await
    }

    /// All pages of tasks from the filter's cursor on, fetched as they are asked for.
    #[must_use]
    pub fn list_all(&self, filter: ListTasks) -> Pages<Task> {
        Pages::new(self.clone(), &["v1", "tasks"], filter)
    }

    /// Cancels a task. A running one is asked to stop: the answer says [`Task::cancel_requested`]. If an answer was
    /// lost and the call repeated, the repetition may answer 409 for what the first try did.
    ///
    /// # Errors
    /// 404 if there is none, 409 if it has come to an end, and those of every call.
    pub async fn cancel(&self, id: &str) -> Result<Task> {
        self.ask(self.post(&["v1", "tasks", id, "cancel"])?).await
    }

    /// Gives a pending task another due time.
    ///
    /// # Errors
    /// 404 if there is none, 409 if it is not pending, and those of every call.
    pub async fn reschedule(&self, id: &str, due: impl Into<Due>) -> Result<Task> {
        self.ask(self.post(&["v1", "tasks", id, "reschedule"])?.body(&due.into())?).await
    }

    /// Makes a pending task due now. Repeated by itself only if the server has not heard it.
    ///
    /// # Errors
    /// 404 if there is none, 409 if it is not pending, and those of every call.
    pub async fn run(&self, id: &str) -> Result<Task> {
        self.ask(self.post(&["v1", "tasks", id, "run"])?.if_unheard()).await
    }

    /// Gives a dead task a new life. Repeated by itself only if the server has not heard it.
    ///
    /// # Errors
    /// 404 if there is none, 409 if it is not dead, and those of every call.
    pub async fn retry(&self, id: &str) -> Result<Task> {
        self.ask(self.post(&["v1", "tasks", id, "retry"])?.if_unheard()).await
    }

    /// Cancels the live task with this key, as [`Self::cancel`] does by id.
    ///
    /// # Errors
    /// 404 if there is no live one, and those of [`Self::cancel`]; [`Error::Invalid`] for the keys `.` and `..`, which
    /// no path can hold.
    pub async fn cancel_key(&self, queue: &str, key: &str) -> Result<Task> {
        self.ask(self.post(&["v1", "queues", queue, "keys", key, "cancel"])?).await
    }

    /// Gives the live task with this key another due time, as [`Self::reschedule`] does by id.
    ///
    /// # Errors
    /// Those of [`Self::cancel_key`] and [`Self::reschedule`].
    pub async fn reschedule_key(&self, queue: &str, key: &str, due: impl Into<Due>) -> Result<Task> {
        self.ask(self.post(&["v1", "queues", queue, "keys", key, "reschedule"])?.body(&due.into())?).await
    }
}

/// Answers "in order" are only of use if there is one for each question.
pub(super) fn same_length<T>(call: String, answers: Vec<T>, asked: usize) -> Result<Vec<T>> {
    if answers.len() == asked {
        Ok(answers)
    } else {
        let source = format!("{} results for {asked} items", answers.len()).into();
        Err(Error::Decode { call, source })
    }
}
