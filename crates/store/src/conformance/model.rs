//! Random histories: what may happen, drawn by proptest, and how it is carried out on a store. Tasks are named
//! by the order in which they were created, so that a history means the same on every store.

use crate::roles::{DueRow, Order, Store, TaskFilter};
use crate::unit::{Act, Target, Unit, Write, Written};
use duebook_core::{
    Command, LeaseKey, NewTask, OnConflict, Priority, QueueId, Refusal, State, Task, TaskId, TrailEntry,
    Verdict,
};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use std::collections::BTreeMap;

/// Few keys, so that they meet.
const KEYS: u8 = 4;

/// One write of a history. A `task` is the n-th created one, counted round.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Schedule { key: u8, due_in_ms: i64, conflict: OnConflict, priority: Priority },
    Claim { task: u8, boot: u32, ahead_ms: i64 },
    Lease { task: u8, stale: bool, end: End },
    Cancel { task: u8, unstarted: bool },
    CancelKey { key: u8 },
    Reschedule { task: u8, due_in_ms: i64, unstarted: bool },
    RunNow { task: u8 },
    Revive { task: u8 },
    Purge { tasks: Vec<u8> },
}

/// What a lease's holder, or the sweeper, wants.
#[derive(Debug, Clone)]
pub(super) enum End {
    Settle(Verdict),
    Lapse(bool, Verdict),
    Extend,
    Release,
}

/// Some time, then a unit. Verdicts' times are relative to then.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub(super) advance_ms: i64,
    pub(super) atomic: bool,
    pub(super) ops: Vec<Op>,
}

fn op() -> impl Strategy<Value = Op> {
    let due = -20..60i64;
    let conflict = prop_oneof![Just(OnConflict::Keep), Just(OnConflict::Replace), Just(OnConflict::Reject)];
    let priority = prop_oneof![Just(Priority::Normal), Just(Priority::High)];
    let retry = due.clone().prop_map(|at_ms| Verdict::Retry { at_ms });
    let lapse = prop_oneof![retry.clone(), Just(Verdict::Exhausted)];
    let verdict = prop_oneof![
        2 => Just(Verdict::Done),
        4 => retry,
        3 => Just(Verdict::Exhausted),
        1 => Just(Verdict::Permanent)
    ];
    let end = prop_oneof![
        5 => verdict.prop_map(End::Settle),
        2 => (any::<bool>(), lapse).prop_map(|(interrupted, verdict)| End::Lapse(interrupted, verdict)),
        1 => Just(End::Extend),
        1 => Just(End::Release)
    ];
    let task = any::<u8>;
    prop_oneof![
        6 => (0..KEYS, due.clone(), conflict, priority).prop_map(|(key, due_in_ms, conflict, priority)| {
            Op::Schedule { key, due_in_ms, conflict, priority }
        }),
        6 => (task(), 1..3u32, 0..40i64).prop_map(|(task, boot, ahead_ms)| Op::Claim { task, boot, ahead_ms }),
        7 => (task(), proptest::bool::weighted(0.15), end)
            .prop_map(|(task, stale, end)| Op::Lease { task, stale, end }),
        2 => (task(), any::<bool>()).prop_map(|(task, unstarted)| Op::Cancel { task, unstarted }),
        1 => (0..KEYS).prop_map(|key| Op::CancelKey { key }),
        2 => (task(), due, any::<bool>())
            .prop_map(|(task, due_in_ms, unstarted)| Op::Reschedule { task, due_in_ms, unstarted }),
        1 => task().prop_map(|task| Op::RunNow { task }),
        3 => task().prop_map(|task| Op::Revive { task }),
        1 => proptest::collection::vec(task(), 1..4).prop_map(|tasks| Op::Purge { tasks }),
    ]
}

/// Histories of up to `turns_max` turns.
pub(super) fn histories(turns_max: usize) -> impl Strategy<Value = Vec<Turn>> {
    let turn = (-2..30i64, proptest::bool::weighted(0.3), proptest::collection::vec(op(), 1..5))
        .prop_map(|(advance_ms, atomic, ops)| Turn { advance_ms, atomic, ops });
    proptest::collection::vec(turn, 1..turns_max)
}

/// A store under a history: which task is the n-th, and which lease each was last claimed under.
pub(super) struct Player<'a> {
    store: &'a dyn Store,
    queue: QueueId,
    created: Vec<TaskId>,
    leases: BTreeMap<TaskId, LeaseKey>,
}

impl<'a> Player<'a> {
    pub(super) fn new(store: &'a dyn Store, queue: QueueId) -> Self {
        Self { store, queue, created: Vec::new(), leases: BTreeMap::new() }
    }

    fn target(&self, task: u8) -> TaskId {
        match self.created.len() {
            0 => TaskId::from_i64(7),
            n => self.created[usize::from(task) % n],
        }
    }

    fn lease(&self, task: TaskId) -> LeaseKey {
        self.leases.get(&task).copied().unwrap_or(LeaseKey { boot: 1, token: 1 })
    }

    fn write(&self, op: &Op, now_ms: i64) -> Write {
        let act = |id, command| Write::Act(Act::own(id, command));
        let unstarted = |id, yes: bool| yes.then(|| self.lease(id));
        let at = |verdict| match verdict {
            Verdict::Retry { at_ms } => Verdict::Retry { at_ms: now_ms + at_ms },
            other => other,
        };
        match *op {
            Op::Schedule { key, due_in_ms, conflict, priority } => Write::Schedule(NewTask {
                queue: self.queue,
                key: format!("k{key}"),
                due_ms: now_ms + due_in_ms,
                payload: Some(due_in_ms.to_string()),
                priority,
                retry: (due_in_ms % 3 == 0).then(|| "busy".to_owned()),
                on_conflict: conflict,
                created_ms: now_ms - 1,
                trace_id: None,
                actor: Some("proptest".into()),
            }),
            Op::Claim { task, boot, ahead_ms } => {
                let due_by_ms = now_ms + ahead_ms;
                act(self.target(task), Command::Claim { boot, until_ms: now_ms + 500, due_by_ms })
            }
            Op::Lease { task, stale, ref end } => {
                let id = self.target(task);
                let current = self.lease(id);
                let lease = LeaseKey { token: current.token - u32::from(stale), ..current };
                let (command, detail) = match *end {
                    End::Settle(verdict) => {
                        let command = Command::Settle { lease, verdict: at(verdict), started_ms: now_ms - 1 };
                        (command, (verdict != Verdict::Done).then(|| format!("error at {now_ms}")))
                    }
                    End::Lapse(interrupted, verdict) => {
                        (Command::Lapse { lease, interrupted, verdict: at(verdict) }, Some("silent".into()))
                    }
                    End::Extend => (Command::Extend { lease, until_ms: now_ms + 900 }, None),
                    End::Release => (Command::Release { lease }, None),
                };
                Write::Act(Act { detail, ..Act::own(id, command) })
            }
            Op::Cancel { task, unstarted: yes } => {
                let id = self.target(task);
                let command = Command::Cancel { unstarted: unstarted(id, yes) };
                Write::Act(Act { detail: Some("called off".into()), ..Act::own(id, command) })
            }
            Op::CancelKey { key } => Write::Act(Act {
                target: Target::Key(self.queue, format!("k{key}")),
                command: Command::Cancel { unstarted: None },
                actor: Some("clerk".into()),
                detail: None,
                trace_id: None,
            }),
            Op::Reschedule { task, due_in_ms, unstarted: yes } => {
                let id = self.target(task);
                act(id, Command::Reschedule { due_ms: now_ms + due_in_ms, unstarted: unstarted(id, yes) })
            }
            Op::RunNow { task } => act(self.target(task), Command::RunNow),
            Op::Revive { task } => act(self.target(task), Command::Revive),
            Op::Purge { ref tasks } => Write::Purge(tasks.iter().map(|task| self.target(*task)).collect()),
        }
    }

    /// Carries the turn out and answers its results, with tasks named by their place.
    pub(super) async fn play(&mut self, turn: &Turn, now_ms: i64) -> Vec<Result<Written, Refusal>> {
        let writes = turn.ops.iter().map(|op| self.write(op, now_ms)).collect();
        let unit = Unit { atomic: turn.atomic, ..Unit::each(writes) };
        let results = self.store.submit(unit).await.expect("the unit commits");
        let undone = turn.atomic && results.last().is_some_and(Result::is_err);
        for written in results.iter().flatten().filter(|_| !undone) {
            match written {
                Written::Scheduled { id, created: true, .. } => self.created.push(*id),
                Written::Task(task) => {
                    if let Some(lease) = task.head.lease {
                        self.leases.insert(task.id, lease.key);
                    }
                }
                _ => {}
            }
        }
        results.into_iter().map(|result| self.named(result)).collect()
    }

    fn name(&self, id: TaskId) -> TaskId {
        let place = self.created.iter().position(|created| *created == id);
        TaskId::from_i64(place.map_or(-1, |place| place as i64))
    }

    fn named_task(&self, task: Task) -> Task {
        Task { id: self.name(task.id), queue: QueueId(0), ..task }
    }

    fn named(&self, result: Result<Written, Refusal>) -> Result<Written, Refusal> {
        match result {
            Ok(Written::Scheduled { id, created, existing, committed_ms }) => {
                let existing = existing.map(|task| Box::new(self.named_task(*task)));
                Ok(Written::Scheduled { id: self.name(id), created, existing, committed_ms })
            }
            Ok(Written::Task(task)) => Ok(Written::Task(Box::new(self.named_task(*task)))),
            Err(Refusal::KeyTaken(id)) => Err(Refusal::KeyTaken(self.name(id))),
            other => other,
        }
    }

    /// All that the store tells about the queue.
    pub(super) async fn picture(&self) -> Picture {
        let store = self.store;
        let mut tasks = Vec::new();
        for id in &self.created {
            let task = store.task(*id).await.unwrap().map(|task| self.named_task(task));
            tasks.push((task, store.trail(*id, 0, usize::MAX).await.unwrap()));
        }
        let mut found = Vec::new();
        for key in 0..KEYS {
            let task = store.find(self.queue, &format!("k{key}")).await.unwrap();
            found.push(task.map(|task| self.name(task.id)));
        }
        let due = store.due_page(self.queue, None, i64::MAX, usize::MAX).await.unwrap();
        let running = store.running(None, usize::MAX).await.unwrap();
        let filter =
            |order| TaskFilter { queue: Some(self.queue), order, limit: usize::MAX, ..TaskFilter::default() };
        let mut listed = Vec::new();
        for order in [Order::EarliestDueFirst, Order::NewestDueFirst] {
            let tasks = store.list(filter(order)).await.unwrap();
            listed.push(tasks.into_iter().map(|task| self.name(task.id)).collect());
        }
        let counts = super::audit::counts(store).await;
        Picture {
            tasks,
            found,
            due: due.into_iter().map(|row| DueRow { id: self.name(row.id), ..row }).collect(),
            running: running
                .into_iter()
                .filter(|row| row.queue == self.queue)
                .map(|row| (self.name(row.id), row.lease, row.until_ms))
                .collect(),
            listed,
            counts: counts
                .into_iter()
                .filter(|((queue, _), _)| *queue == self.queue)
                .map(|((_, state), n)| (state, n))
                .collect(),
        }
    }
}

/// See [`Player::picture`].
#[derive(Debug, PartialEq)]
pub(super) struct Picture {
    tasks: Vec<(Option<Task>, Vec<TrailEntry>)>,
    found: Vec<Option<TaskId>>,
    due: Vec<DueRow>,
    running: Vec<(TaskId, LeaseKey, i64)>,
    listed: Vec<Vec<TaskId>>,
    counts: BTreeMap<State, u64>,
}
