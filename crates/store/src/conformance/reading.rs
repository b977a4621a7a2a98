//! Reads: pages without gaps or repeats, filters, counters, and what the janitor may delete.

use super::audit::counts;
use super::kit::{Kit, put_queue};
use crate::roles::{DueRow, Order, Store, TaskFilter};
use crate::unit::{Act, Unit, Write};
use duebook_core::clock::SettableClock;
use duebook_core::{Command, NewTask, Priority, State, Task, TaskId, Verdict};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Tasks with many ties in due time and lane, scheduled in an order that is not the order of due.
async fn with_ties(kit: &Kit, count: i64) -> Vec<DueRow> {
    let new = |n: i64| NewTask {
        due_ms: kit.now() + (n * 7 % 3),
        priority: if n % 2 == 0 { Priority::High } else { Priority::Normal },
        ..kit.new_task(&format!("tie {n}"))
    };
    let mut rows = Vec::new();
    for n in 0..count {
        let new = new(n);
        let (due_ms, priority) = (new.due_ms, new.priority);
        rows.push(DueRow { due_ms, priority, id: kit.schedule_new(new).await });
    }
    rows.sort_unstable();
    rows
}

/// In pages of any size, under ties: every pending task once, in order of (due, priority, id).
pub async fn due_pages_are_complete_without_repeats(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let expected = with_ties(&kit, 23).await;
    for limit in [1, 2, 3, 5, 22, 23, 24] {
        let mut paged: Vec<DueRow> = Vec::new();
        loop {
            let after = paged.last().copied();
            let page = kit.store.due_page(kit.queue, after, i64::MAX, limit).await.unwrap();
            assert!(page.len() <= limit);
            if page.is_empty() {
                break;
            }
            paged.extend(page);
        }
        assert_eq!(paged, expected, "in pages of {limit}");
    }
    // A task that leaves between two pages disturbs nobody else, even if the page ended with it.
    let first = kit.store.due_page(kit.queue, None, i64::MAX, 9).await.unwrap();
    kit.acted(first[8].id, Command::Cancel { unstarted: None }).await;
    kit.acted(first[2].id, Command::Cancel { unstarted: None }).await;
    let rest = kit.store.due_page(kit.queue, Some(first[8]), i64::MAX, 99).await.unwrap();
    assert_eq!(rest, expected[9..]);
}

/// Only pending ones, only of that queue, up to that time inclusive.
pub async fn due_pages_hold_pending_tasks_of_the_queue_up_to_a_time(
    store: Arc<dyn Store>,
    clock: Arc<SettableClock>,
) {
    let kit = Kit::new(Arc::clone(&store), clock).await;
    let other = put_queue(&*store, "other").await;
    let now = kit.now();
    let early = kit.schedule_at("early", -1).await;
    let at = kit.schedule_at("at", now).await;
    let late = kit.schedule_at("late", now + 1).await;
    kit.schedule_new(NewTask { queue: other, ..kit.new_task("at") }).await;
    kit.running("running").await;
    kit.dead("dead").await;
    let cancelled = kit.schedule("cancelled").await;
    kit.acted(cancelled, Command::Cancel { unstarted: None }).await;
    for (until_ms, expected) in
        [(-2, vec![]), (now - 1, vec![early]), (now, vec![early, at]), (now + 1, vec![early, at, late])]
    {
        let page = store.due_page(kit.queue, None, until_ms, 99).await.unwrap();
        assert_eq!(page.iter().map(|row| row.id).collect::<Vec<_>>(), expected, "until {until_ms}");
    }
    assert!(store.due_page(kit.queue, None, i64::MAX, 0).await.unwrap().is_empty());
}

/// Leases of several incarnations, in pages of any size, each with what the sweeper needs.
pub async fn running_is_paged_by_boot_and_id(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(Arc::clone(&store), clock).await;
    let mut expected = Vec::new();
    for n in 0..11u32 {
        let new = NewTask { retry: (n % 2 == 0).then(|| "busy".into()), ..kit.new_task(&format!("k{n}")) };
        let id = kit.schedule_new(new).await;
        let boot = 1 + n % 3;
        let until_ms = kit.now() + i64::from(n);
        kit.acted(id, Command::Claim { boot, until_ms, due_by_ms: kit.now() }).await;
        expected.push((boot, id, until_ms, (n % 2 == 0).then(|| "busy".to_owned())));
    }
    kit.schedule("pending").await;
    kit.dead("dead").await;
    expected.sort();
    for limit in [1, 2, 4, 11, 12] {
        let mut paged = Vec::new();
        let mut after = None;
        loop {
            let page = store.running(after, limit).await.unwrap();
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { break };
            after = Some((last.lease.boot, last.id));
            for row in page {
                assert_eq!(
                    (row.queue, row.attempt, row.lease.token, row.due_ms),
                    (kit.queue, 1, 2, kit.now())
                );
                paged.push((row.lease.boot, row.id, row.until_ms, row.retry));
            }
        }
        assert_eq!(paged, expected, "in pages of {limit}");
    }
}

/// Tasks of two queues in every state, by (due, id).
async fn in_every_state(kit: &Kit) -> Vec<Task> {
    let other = put_queue(&*kit.store, "other").await;
    let mut tasks = Vec::new();
    for n in 0..20i64 {
        let queue = if n % 4 == 3 { other } else { kit.queue };
        let due_ms = kit.now() - n * 5 % 7;
        let new = NewTask { queue, due_ms, payload: Some(n.to_string()), ..kit.new_task(&format!("k{n}")) };
        let id = kit.schedule_new(new).await;
        if n % 5 > 0 {
            if n % 5 == 4 {
                kit.acted(id, Command::Cancel { unstarted: None }).await;
            } else {
                let lease = kit.claim(id).await;
                let verdict = if n % 5 == 2 { Verdict::Done } else { Verdict::Permanent };
                if n % 5 > 1 {
                    kit.settle(id, lease, verdict, Some("e")).await.unwrap();
                }
            }
        }
        tasks.push(kit.task(id).await);
    }
    tasks.sort_by_key(|task| (task.head.due_ms, task.id));
    tasks
}

async fn listed(kit: &Kit, filter: TaskFilter) -> Vec<Task> {
    kit.store.list(filter).await.unwrap()
}

/// Each filter by itself and all together, against the same filter over what is known to be there.
pub async fn list_filters(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let tasks = in_every_state(&kit).await;
    let now = kit.now();
    let queues = [None, Some(kit.queue), Some(tasks.iter().find(|t| t.queue != kit.queue).unwrap().queue)];
    let states = State::ALL.map(Some).into_iter().chain([None]);
    for (queue, state) in states.flat_map(|state| queues.map(|queue| (queue, state))) {
        for (after_ms, before_ms) in
            [(None, None), (Some(now - 3), None), (None, Some(now - 3)), (Some(now - 4), Some(now - 1))]
        {
            let filter = TaskFilter {
                queue,
                state,
                due_after_ms: after_ms,
                due_before_ms: before_ms,
                order: Order::EarliestDueFirst,
                limit: 99,
                ..TaskFilter::default()
            };
            let expected: Vec<Task> = tasks
                .iter()
                .filter(|task| queue.is_none_or(|queue| queue == task.queue))
                .filter(|task| state.is_none_or(|state| state == task.head.state))
                .filter(|task| after_ms.is_none_or(|ms| task.head.due_ms >= ms))
                .filter(|task| before_ms.is_none_or(|ms| task.head.due_ms < ms))
                .cloned()
                .collect();
            assert_eq!(listed(&kit, filter.clone()).await, expected, "{filter:?}");
        }
    }
    // All lives of one key.
    let again = kit.schedule_at("k4", now + 9).await;
    let by_key =
        TaskFilter { queue: Some(kit.queue), key: Some("k4".into()), limit: 99, ..TaskFilter::default() };
    let lives = listed(&kit, by_key.clone()).await;
    assert_eq!(lives.len(), 2);
    assert_eq!(lives[0].id, again, "the newest due first");
    let live = listed(&kit, TaskFilter { state: Some(State::Pending), ..by_key }).await;
    assert_eq!(live.iter().map(|task| task.id).collect::<Vec<_>>(), [again]);
}

/// In pages of any size, in both orders, under ties in due: every task once.
pub async fn list_pages_in_both_orders(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let mut expected = in_every_state(&kit).await;
    for order in [Order::EarliestDueFirst, Order::NewestDueFirst] {
        for limit in [1, 3, 7, 20, 21] {
            let mut paged: Vec<Task> = Vec::new();
            loop {
                let after = paged.last().map(|task| (task.head.due_ms, task.id));
                let page = listed(&kit, TaskFilter { after, order, limit, ..TaskFilter::default() }).await;
                assert!(page.len() <= limit);
                if page.is_empty() {
                    break;
                }
                paged.extend(page);
            }
            assert_eq!(paged, expected, "{order:?} in pages of {limit}");
        }
        expected.reverse();
    }
}

/// By key: the live task, else the one that ended last.
pub async fn find_answers_the_live_task_or_the_last(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(Arc::clone(&store), clock).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let id = kit.schedule("a").await;
        assert_eq!(store.find(kit.queue, "a").await.unwrap().unwrap(), kit.task(id).await);
        kit.acted(id, Command::Cancel { unstarted: None }).await;
        kit.clock.advance_ms(1);
        assert_eq!(store.find(kit.queue, "a").await.unwrap().unwrap(), kit.task(id).await);
        ids.push(id);
    }
    let (live, _) = kit.running("a").await;
    assert_eq!(store.find(kit.queue, "a").await.unwrap().unwrap().id, live);
}

/// The janitor's walk, in pages of any size, within its bounds (both exclusive).
pub async fn walk_meets_every_task_in_order_of_id(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(Arc::clone(&store), clock).await;
    let mut tasks = in_every_state(&kit).await;
    tasks.sort_by_key(|task| task.id);
    let (low, high) = (TaskId::from_i64(0), TaskId::from_i64(i64::MAX));
    for limit in [1, 6, 20, 21] {
        let mut walked = Vec::new();
        let mut after = low;
        loop {
            let page = store.walk(after, high, limit).await.unwrap();
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { break };
            after = last.id;
            walked.extend(page.iter().map(|row| (row.id, row.state, row.finished_ms)));
        }
        let expected: Vec<_> = tasks.iter().map(|t| (t.id, t.head.state, t.head.finished_ms)).collect();
        assert_eq!(walked, expected, "in pages of {limit}");
    }
    let between = store.walk(tasks[3].id, tasks[6].id, 99).await.unwrap();
    let between: Vec<TaskId> = between.iter().map(|row| row.id).collect();
    assert_eq!(between, [tasks[4].id, tasks[5].id]);
}

/// What lives is not deleted; what ended goes with its trail; ids that are gone count nothing.
pub async fn only_ended_tasks_are_purged(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(Arc::clone(&store), clock).await;
    let tasks = in_every_state(&kit).await;
    let mut ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
    ids.push(TaskId::from_i64(1));
    ids.push(tasks[0].id);
    let ended = tasks.iter().filter(|task| !task.head.state.is_live()).count();
    assert_eq!(ended, 12);
    assert_eq!(kit.count(Write::Purge(ids.clone())).await, ended);
    assert_eq!(kit.count(Write::Purge(ids)).await, 0);
    for task in tasks {
        let left = store.task(task.id).await.unwrap();
        let trail = kit.trail(task.id).await;
        if task.head.state.is_live() {
            assert_eq!((left, trail.len()), (Some(task.clone()), task.head.seq as usize));
        } else {
            assert_eq!((left, trail.len()), (None, 0));
            assert_eq!(store.find(task.queue, &task.key).await.unwrap(), None);
        }
    }
    // Nobody gets a purged task's trail.
    let id = kit.schedule("after the purge").await;
    assert_eq!(kit.trail(id).await.len(), 1);
}

/// The counters after each kind of change. (That they are the recount, the audit checks after every case.)
pub async fn counts_follow_every_change(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(Arc::clone(&store), clock).await;
    let check = async |expected: [u64; 5]| {
        let counts = counts(&*store).await;
        let of = |state| counts.get(&(kit.queue, state)).copied().unwrap_or(0);
        assert_eq!(State::ALL.map(of), expected);
    };
    check([0; 5]).await;
    let id = kit.schedule("a").await;
    kit.schedule("b").await;
    check([2, 0, 0, 0, 0]).await;
    let lease = kit.claim(id).await;
    check([1, 1, 0, 0, 0]).await;
    kit.settle(id, lease, Verdict::Retry { at_ms: kit.now() }, None).await.unwrap();
    check([2, 0, 0, 0, 0]).await;
    let lease = kit.claim(id).await;
    kit.settle(id, lease, Verdict::Exhausted, None).await.unwrap();
    check([1, 0, 0, 1, 0]).await;
    kit.acted(id, Command::Revive).await;
    check([2, 0, 0, 0, 0]).await;
    kit.acted(id, Command::Cancel { unstarted: None }).await;
    check([1, 0, 0, 0, 1]).await;
    kit.count(Write::Purge(vec![id])).await;
    check([1, 0, 0, 0, 0]).await;
    // Within one unit it may go up and down again.
    let writes = vec![
        Write::Schedule(kit.new_task("c")),
        kit.by_key("c", Command::Cancel { unstarted: None }),
        kit.by_key("b", kit.claiming()),
        kit.by_key("b", Command::Cancel { unstarted: None }),
    ];
    assert!(kit.submit(Unit::each(writes)).await.iter().all(Result::is_ok));
    check([0, 1, 0, 0, 1]).await;
}

/// While tasks change state all the time, a listing holds each of them exactly once and a trail is whole.
pub async fn a_page_never_mixes_two_moments(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    const TASKS: usize = 8;
    const ROUNDS: usize = 60;
    let kit = Kit::new(Arc::clone(&store), clock).await;
    let mut ids = Vec::new();
    for n in 0..TASKS {
        ids.push(kit.schedule(&format!("k{n}")).await);
    }
    let claim = kit.claiming();
    let boot = store.boot();
    let (writer, runtime) = (Arc::clone(&store), tokio::runtime::Handle::current());
    let targets = ids.clone();
    let writing = tokio::task::spawn_blocking(move || {
        for round in 0..ROUNDS as u32 {
            for release in [false, true] {
                let command = |_| match release {
                    false => claim,
                    true => Command::Release { lease: duebook_core::LeaseKey { boot, token: 2 * round + 2 } },
                };
                let writes = targets.iter().map(|id| Write::Act(Act::own(*id, command(*id)))).collect();
                let results = runtime.block_on(writer.submit(Unit::each(writes))).unwrap();
                assert!(results.iter().all(Result::is_ok), "{results:?}");
            }
        }
    });
    while !writing.is_finished() {
        let all = TaskFilter { queue: Some(kit.queue), limit: 99, ..TaskFilter::default() };
        let listed: Vec<TaskId> = store.list(all).await.unwrap().iter().map(|task| task.id).collect();
        assert_eq!(listed.len(), TASKS, "{listed:?}");
        assert_eq!(listed.iter().collect::<BTreeSet<_>>().len(), TASKS, "{listed:?}");
        let trail = kit.trail(ids[0]).await;
        assert!(trail.iter().zip(1..).all(|(entry, seq)| entry.seq == seq), "{trail:?}");
        tokio::task::yield_now().await;
    }
    writing.await.unwrap();
}

/// Health: a schema version and a size.
pub async fn the_store_says_that_it_is_well(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(Arc::clone(&store), clock).await;
    assert!(store.check().await.unwrap() >= 1);
    assert!(store.boot() >= 1);
    store.size_bytes().await.unwrap();
    kit.schedule("a").await;
    assert_eq!(store.waiting(), 0);
}
