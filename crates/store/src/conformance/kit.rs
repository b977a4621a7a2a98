//! What the cases have in common: short words for units and commands, which panic where the store fails.

use crate::roles::Store;
use crate::unit::{Act, Target, Unit, Write, Written};
use duebook_core::clock::SettableClock;
use duebook_core::{
    Clock, Command, LeaseKey, NewTask, OnConflict, Priority, QueueId, QueueSettings, Reason, Refusal, Task,
    TaskId, TrailEntry, Verdict,
};
use std::sync::Arc;

/// How long a claim of these cases lasts.
pub(super) const LEASE_MS: i64 = 30_000;

pub(super) struct Kit {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<SettableClock>,
    pub(super) queue: QueueId,
}

impl Kit {
    /// With one queue, called `orders`.
    pub(super) async fn new(store: Arc<dyn Store>, clock: Arc<SettableClock>) -> Self {
        let queue = put_queue(&*store, "orders").await;
        Self { store, clock, queue }
    }

    pub(super) fn now(&self) -> i64 {
        self.clock.now_ms()
    }

    /// A plain task due now.
    pub(super) fn new_task(&self, key: &str) -> NewTask {
        NewTask {
            queue: self.queue,
            key: key.to_owned(),
            due_ms: self.now(),
            payload: None,
            priority: Priority::Normal,
            retry: None,
            on_conflict: OnConflict::Keep,
            created_ms: self.now(),
            trace_id: None,
            actor: None,
        }
    }

    pub(super) async fn submit(&self, unit: Unit) -> Vec<Result<Written, Refusal>> {
        self.store.submit(unit).await.expect("the unit commits")
    }

    pub(super) async fn write(&self, write: Write) -> Result<Written, Refusal> {
        let mut results = self.submit(Unit::one(write)).await;
        assert_eq!(results.len(), 1, "one write, one result");
        results.remove(0)
    }

    /// The count that a write answers.
    pub(super) async fn count(&self, write: Write) -> usize {
        match self.write(write).await {
            Ok(Written::Count(n)) => n,
            other => panic!("not a count: {other:?}"),
        }
    }

    pub(super) async fn schedule_new(&self, new: NewTask) -> TaskId {
        match self.write(Write::Schedule(new)).await {
            Ok(Written::Scheduled { id, created: true, existing: None, .. }) => id,
            other => panic!("not created: {other:?}"),
        }
    }

    pub(super) async fn schedule_at(&self, key: &str, due_ms: i64) -> TaskId {
        self.schedule_new(NewTask { due_ms, ..self.new_task(key) }).await
    }

    /// Schedules a task that is due now.
    pub(super) async fn schedule(&self, key: &str) -> TaskId {
        self.schedule_at(key, self.now()).await
    }

    pub(super) fn claiming(&self) -> Command {
        let now = self.now();
        Command::Claim { boot: self.store.boot(), until_ms: now + LEASE_MS, due_by_ms: now }
    }

    pub(super) async fn act(&self, id: TaskId, command: Command) -> Result<Written, Refusal> {
        self.write(Write::Act(Act::own(id, command))).await
    }

    /// A command that must be carried out and answers the whole task.
    pub(super) async fn acted(&self, id: TaskId, command: Command) -> Task {
        match self.act(id, command).await {
            Ok(Written::Task(task)) => *task,
            other => panic!("{command:?} answered {other:?}"),
        }
    }

    /// The refusal of a command that must be refused; the task and its trail must be as they were.
    pub(super) async fn refused(&self, id: TaskId, command: Command) -> Refusal {
        let before = (self.store.task(id).await.unwrap(), self.trail(id).await);
        let refusal = match self.act(id, command).await {
            Err(refusal) => refusal,
            Ok(written) => panic!("{command:?} was not refused: {written:?}"),
        };
        let after = (self.store.task(id).await.unwrap(), self.trail(id).await);
        assert_eq!(before, after, "a refused {command:?} changed the task");
        refusal
    }

    /// Schedules a task due now and claims it.
    pub(super) async fn running(&self, key: &str) -> (TaskId, LeaseKey) {
        let id = self.schedule(key).await;
        (id, self.claim(id).await)
    }

    pub(super) async fn claim(&self, id: TaskId) -> LeaseKey {
        lease_of(&self.acted(id, self.claiming()).await)
    }

    /// Ends an attempt with an error's text; the attempt started now.
    pub(super) async fn settle(
        &self,
        id: TaskId,
        lease: LeaseKey,
        verdict: Verdict,
        detail: Option<&str>,
    ) -> Result<Written, Refusal> {
        let command = Command::Settle { lease, verdict, started_ms: self.now() };
        let act = Act { detail: detail.map(str::to_owned), ..Act::own(id, command) };
        self.write(Write::Act(act)).await
    }

    /// A task that ran once and is dead.
    pub(super) async fn dead(&self, key: &str) -> TaskId {
        let (id, lease) = self.running(key).await;
        self.settle(id, lease, Verdict::Permanent, Some("no")).await.unwrap();
        id
    }

    pub(super) async fn task(&self, id: TaskId) -> Task {
        self.store.task(id).await.unwrap().expect("the task exists")
    }

    pub(super) async fn trail(&self, id: TaskId) -> Vec<TrailEntry> {
        self.store.trail(id, 0, usize::MAX).await.unwrap()
    }

    pub(super) async fn reasons(&self, id: TaskId) -> Vec<Reason> {
        self.trail(id).await.iter().map(|entry| entry.step.reason).collect()
    }

    pub(super) fn by_key(&self, key: &str, command: Command) -> Write {
        Write::Act(Act {
            target: Target::Key(self.queue, key.to_owned()),
            command,
            actor: None,
            detail: None,
            trace_id: None,
        })
    }
}

pub(super) async fn put_queue(store: &dyn Store, name: &str) -> QueueId {
    let write =
        Write::PutQueue { name: name.to_owned(), settings: QueueSettings::default(), keep_existing: true };
    match store.submit(Unit::one(write)).await.unwrap().remove(0) {
        Ok(Written::Queue(row)) => row.id,
        other => panic!("not a queue: {other:?}"),
    }
}

pub(super) fn lease_of(task: &Task) -> LeaseKey {
    task.head.lease.expect("a lease").key
}

pub(super) fn task_of(written: Result<Written, Refusal>) -> Task {
    match written {
        Ok(Written::Task(task)) => *task,
        other => panic!("not a task: {other:?}"),
    }
}

/// (state, due, cancel requested) of an answer that is a head.
pub(super) fn head_of(written: Result<Written, Refusal>) -> (duebook_core::State, i64, bool) {
    match written {
        Ok(Written::Head { state, due_ms, cancel_requested }) => (state, due_ms, cancel_requested),
        other => panic!("not a head: {other:?}"),
    }
}

/// (id, the live task) of an answer that a live task had the key.
pub(super) fn existing_of(written: Result<Written, Refusal>) -> (TaskId, Task) {
    match written {
        Ok(Written::Scheduled { id, created: false, existing: Some(task), committed_ms }) => {
            assert_eq!((task.id, task.committed_ms), (id, committed_ms));
            (id, *task)
        }
        other => panic!("no existing task: {other:?}"),
    }
}
