//! Scheduling, and what people and programs do to a task afterwards.

use super::{Engine, EngineError, only, unexpected};
use crate::inbox::Withdraw;
use duebook_core::{Command, LeaseKey, NewTask, OnConflict, Priority, QueueId, Refusal, State, Task, TaskId};
use duebook_store::{Act, Target, Unit, Urgency, Write, Written};
use std::sync::Arc;
use tokio::sync::oneshot;

/// A task to schedule. The caller has checked its bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleRequest {
    /// The queue's name; created with default settings if it does not exist.
    pub queue: String,
    /// The business key.
    pub key: String,
    /// When, in epoch milliseconds.
    pub due_ms: i64,
    /// JSON text for the handler.
    pub payload: Option<String>,
    /// Its lane.
    pub priority: Priority,
    /// A retry policy of its own.
    pub retry: Option<String>,
    /// What to do when a live task has the key.
    pub on_conflict: OnConflict,
    /// Trace id of the request.
    pub trace_id: Option<String>,
    /// Who asks.
    pub actor: Option<String>,
}

/// What scheduling did.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleAnswer {
    /// The task's id.
    pub id: TaskId,
    /// False if a live task had the key.
    pub created: bool,
    /// The live task, if there was one.
    pub existing: Option<Box<Task>>,
    /// When the request was taken, in epoch milliseconds.
    pub created_ms: i64,
    /// When the transaction began to commit, in epoch milliseconds.
    pub committed_ms: i64,
}

/// Which task is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskRef {
    /// By id.
    Id(TaskId),
    /// The live task of a queue with this key.
    Key {
        /// The queue's name.
        queue: String,
        /// The business key.
        key: String,
    },
}

/// What a cancellation did.
#[derive(Debug, Clone, PartialEq)]
pub enum Cancelled {
    /// The task is cancelled; no handler will start.
    Outright(Box<Task>),
    /// Its handler runs and is asked to stop.
    Asked(Box<Task>),
}

impl Engine {
    /// Schedules tasks, each for itself; answers in order. They are durable when this returns.
    ///
    /// # Errors
    /// When the store failed for all of them. Refusals are per task.
    pub async fn schedule(
        &self,
        requests: Vec<ScheduleRequest>,
    ) -> Result<Vec<Result<ScheduleAnswer, EngineError>>, EngineError> {
        let created_ms = self.now_ms();
        let mut last: Option<(String, QueueId)> = None;
        let mut writes = Vec::with_capacity(requests.len());
        for request in requests {
            let queue = match &last {
                Some((name, id)) if *name == request.queue => *id,
                _ => {
                    let id = self.queue_or_create(&request.queue).await?.id;
                    last = Some((request.queue, id));
                    id
                }
            };
            writes.push(Write::Schedule(NewTask {
                queue,
                key: request.key,
                due_ms: request.due_ms,
                payload: request.payload,
                priority: request.priority,
                retry: request.retry,
                on_conflict: request.on_conflict,
                created_ms,
                trace_id: request.trace_id,
                actor: request.actor,
            }));
        }
        // Replacing needs a second try where the task is claimed ahead; of the others no copy is kept.
        let replacing: Vec<Option<NewTask>> = writes.iter().map(replacement).collect();
        let results = self.core.store.submit(Unit::each(writes)).await?;
        let mut answers = Vec::with_capacity(results.len());
        for (result, new) in results.into_iter().zip(replacing) {
            let result = match (result, new) {
                (Err(Refusal::IllegalState(State::Running)), Some(new)) => self.replace_claimed(new).await,
                (result, _) => result.map_err(EngineError::from),
            };
            answers.push(match result {
                Ok(Written::Scheduled { id, created, existing, committed_ms }) => {
                    Ok(ScheduleAnswer { id, created, existing, created_ms, committed_ms })
                }
                Ok(_) => Err(unexpected(None)),
                Err(error) => Err(error),
            });
        }
        Ok(answers)
    }

    /// Replaces a task that is claimed, if its handler has not started: takes the claim back first.
    async fn replace_claimed(&self, new: NewTask) -> Result<Written, EngineError> {
        let withdrawn = match self.core.store.find(new.queue, &new.key).await? {
            Some(task) => self.withdraw(task.id, task.queue).await.map(|lease| (task.id, lease)),
            None => None,
        };
        let mut writes = vec![Write::Schedule(new)];
        // If nobody holds it, it has started; or it has come back by itself, and can be replaced now.
        if let Some((id, lease)) = withdrawn {
            writes.insert(0, Write::Act(Act::own(id, Command::Release { lease })));
        }
        only(self.core.store.submit(Unit { writes, atomic: true, urgency: Urgency::Now }).await?)
    }

    /// Cancels a task: outright if its handler has not started, else the handler is asked to stop.
    ///
    /// # Errors
    /// When there is no such task, or it has ended.
    pub async fn cancel(
        &self,
        task: &TaskRef,
        actor: Option<Arc<str>>,
        trace_id: Option<String>,
    ) -> Result<Cancelled, EngineError> {
        let cancel = |unstarted| Command::Cancel { unstarted };
        // A claimed task is taken back first if it can be: asking it to stop would be second best.
        let task = self.act_unstarted(task, cancel, actor, trace_id).await?;
        Ok(if task.head.state == State::Cancelled {
            Cancelled::Outright(task)
        } else {
            Cancelled::Asked(task)
        })
    }

    /// Gives a task another due time, if its handler has not started.
    ///
    /// # Errors
    /// When there is no such task, it runs, or it has ended.
    pub async fn reschedule(
        &self,
        task: &TaskRef,
        due_ms: i64,
        actor: Option<Arc<str>>,
        trace_id: Option<String>,
    ) -> Result<Box<Task>, EngineError> {
        let reschedule = |unstarted| Command::Reschedule { due_ms, unstarted };
        self.act_unstarted(task, reschedule, actor, trace_id).await
    }

    /// Makes a pending task due now. One that was claimed ahead is rescheduled to now.
    ///
    /// # Errors
    /// When there is no such task, it runs, or it has ended.
    pub async fn run_now(
        &self,
        id: TaskId,
        actor: Option<Arc<str>>,
        trace_id: Option<String>,
    ) -> Result<Box<Task>, EngineError> {
        let act = self.act(Target::Id(id), Command::RunNow, actor.clone(), trace_id.clone());
        match self.submit_act(act).await {
            Err(EngineError::Refused(Refusal::IllegalState(State::Running))) => {
                self.reschedule(&TaskRef::Id(id), self.now_ms(), actor, trace_id).await
            }
            other => other,
        }
    }

    /// Gives a dead task a new life, due now, with all attempts.
    ///
    /// # Errors
    /// When there is no such task, it is not dead, or a live task has its key.
    pub async fn retry_dead(
        &self,
        id: TaskId,
        actor: Option<Arc<str>>,
        trace_id: Option<String>,
    ) -> Result<Box<Task>, EngineError> {
        self.submit_act(self.act(Target::Id(id), Command::Revive, actor, trace_id)).await
    }

    /// A command that goes outright to a task whose handler has not started. If the runner holds a claim of
    /// it, the claim is taken back first, so that the handler cannot start any more.
    async fn act_unstarted(
        &self,
        task: &TaskRef,
        command: impl Fn(Option<LeaseKey>) -> Command,
        actor: Option<Arc<str>>,
        trace_id: Option<String>,
    ) -> Result<Box<Task>, EngineError> {
        let (id, queue) = self.locate(task).await?;
        let unstarted = self.withdraw(id, queue).await;
        let act = self.act(Target::Id(id), command(unstarted), actor.clone(), trace_id.clone());
        let answer = self.submit_act(act).await;
        // A claim may have been committed between the question and the command: ask again.
        let running = match &answer {
            Ok(task) => task.head.state == State::Running,
            Err(EngineError::Refused(Refusal::IllegalState(state))) => *state == State::Running,
            Err(_) => false,
        };
        if running
            && unstarted.is_none()
            && let Some(lease) = self.withdraw(id, queue).await
        {
            let act = self.act(Target::Id(id), command(Some(lease)), actor, trace_id);
            return self.submit_act(act).await;
        }
        answer
    }

    async fn locate(&self, task: &TaskRef) -> Result<(TaskId, QueueId), EngineError> {
        let found = match task {
            TaskRef::Id(id) => self.core.store.task(*id).await?,
            TaskRef::Key { queue, key } => {
                let queue = self.core.queue(queue).ok_or_else(|| EngineError::NoQueue(queue.clone()))?;
                // An ended life is no answer to a question for the live task.
                self.core.store.find(queue.id, key).await?
            }
        };
        let found = found.ok_or(Refusal::NotFound)?;
        Ok((found.id, found.queue))
    }

    async fn withdraw(&self, id: TaskId, queue: QueueId) -> Option<LeaseKey> {
        let queue = self.core.queue_by_id(queue)?;
        if self.core.is_stopping() {
            return None;
        }
        let (reply, answer) = oneshot::channel();
        queue.inbox.put(|mail| mail.withdrawals.push(Withdraw { id, reply }));
        answer.await.ok().flatten()
    }

    fn act(
        &self,
        target: Target,
        command: Command,
        actor: Option<Arc<str>>,
        trace_id: Option<String>,
    ) -> Act {
        Act { target, command, actor, detail: None, trace_id }
    }

    async fn submit_act(&self, act: Act) -> Result<Box<Task>, EngineError> {
        match only(self.core.store.submit(Unit::one(Write::Act(act))).await?)? {
            Written::Task(task) => Ok(task),
            _ => Err(unexpected(None)),
        }
    }
}

/// A copy of a write that replaces.
fn replacement(write: &Write) -> Option<NewTask> {
    match write {
        Write::Schedule(new) if new.on_conflict == OnConflict::Replace => Some(new.clone()),
        _ => None,
    }
}
