//! What must hold of any store at any time: everything that is kept twice must agree with the rows.

use crate::roles::{Order, Store, TaskFilter};
use duebook_core::{QueueId, State, Task, TaskId, TrailEntry};
use std::collections::{BTreeMap, BTreeSet};

/// Audits the whole store.
///
/// # Panics
/// When a trail has a gap or an edge that the rules do not have, a counter is not the recount, a key has two
/// live tasks, or an index answers other tasks than the rows.
pub async fn audit(store: &dyn Store) {
    let tasks = all_tasks(store).await;
    let mut recount: BTreeMap<(QueueId, State), u64> = BTreeMap::new();
    let mut live = BTreeSet::new();
    for task in &tasks {
        *recount.entry((task.queue, task.head.state)).or_default() += 1;
        if task.head.state.is_live() {
            assert!(live.insert((task.queue, task.key.clone())), "two live tasks have key {:?}", task.key);
        }
        check_task(task);
        check_trail(task, &store.trail(task.id, 0, usize::MAX).await.unwrap());
    }
    let counts = counts(store).await;
    assert_eq!(counts, recount, "the counters are not the recount");

    let running: Vec<TaskId> =
        store.running(None, usize::MAX).await.unwrap().iter().map(|row| row.id).collect();
    assert_eq!(sorted(running), in_state(&tasks, None, State::Running), "the running ones");
    for queue in store.queues().await.unwrap() {
        let due = store.due_page(queue.id, None, i64::MAX, usize::MAX).await.unwrap();
        let due: Vec<TaskId> = due.iter().map(|row| row.id).collect();
        assert_eq!(sorted(due), in_state(&tasks, Some(queue.id), State::Pending), "the due ones");
        for state in State::ALL {
            let filter = TaskFilter {
                queue: Some(queue.id),
                state: Some(state),
                order: Order::EarliestDueFirst,
                limit: usize::MAX,
                ..TaskFilter::default()
            };
            let listed: Vec<TaskId> = store.list(filter).await.unwrap().iter().map(|task| task.id).collect();
            assert_eq!(sorted(listed), in_state(&tasks, Some(queue.id), state), "the {state:?} ones");
        }
    }
}

/// Every task of the store, by id.
pub(super) async fn all_tasks(store: &dyn Store) -> Vec<Task> {
    let walked = store.walk(TaskId::from_i64(0), TaskId::from_i64(i64::MAX), usize::MAX).await.unwrap();
    let mut tasks = Vec::with_capacity(walked.len());
    for row in walked {
        let task = store.task(row.id).await.unwrap().expect("a walked task exists");
        assert_eq!((row.state, row.finished_ms), (task.head.state, task.head.finished_ms));
        tasks.push(task);
    }
    tasks
}

/// The counters that are not zero.
pub(super) async fn counts(store: &dyn Store) -> BTreeMap<(QueueId, State), u64> {
    let rows = store.counts().await.unwrap();
    let counts: BTreeMap<_, _> = rows.iter().map(|(queue, state, n)| ((*queue, *state), *n)).collect();
    assert_eq!(counts.len(), rows.len(), "a counter is listed twice");
    counts.into_iter().filter(|(_, n)| *n > 0).collect()
}

fn check_task(task: &Task) {
    let head = &task.head;
    assert_eq!(head.lease.is_some(), head.state == State::Running, "{task:?}");
    assert_eq!(head.finished_ms.is_some(), !head.state.is_live(), "{task:?}");
    assert!(!head.cancel_requested || head.state == State::Running, "{task:?}");
}

fn check_trail(task: &Task, trail: &[TrailEntry]) {
    assert_eq!(trail.len(), task.head.seq as usize, "{task:?}: {trail:?}");
    let mut state = None;
    for (entry, seq) in trail.iter().zip(1..) {
        let step = entry.step;
        assert_eq!(entry.seq, seq, "a gap: {trail:?}");
        assert_eq!(step.from, state, "a break: {trail:?}");
        assert!(step.reason.allows(step.from, step.to), "no such edge: {step:?}");
        state = Some(step.to);
    }
    assert_eq!(state, Some(task.head.state), "the trail ends elsewhere: {trail:?}");
    let last = trail.last().expect("every task has a trail");
    assert_eq!((last.attempt, last.due_ms), (task.head.attempt, task.head.due_ms), "{task:?}: {last:?}");
}

fn in_state(tasks: &[Task], queue: Option<QueueId>, state: State) -> Vec<TaskId> {
    tasks
        .iter()
        .filter(|task| task.head.state == state && queue.is_none_or(|queue| task.queue == queue))
        .map(|task| task.id)
        .collect()
}

fn sorted(mut ids: Vec<TaskId>) -> Vec<TaskId> {
    ids.sort_unstable();
    ids
}
