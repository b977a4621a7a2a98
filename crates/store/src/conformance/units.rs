//! Units: what stands or falls together, and what does not.

use super::audit::{all_tasks, counts};
use super::kit::{Kit, existing_of, task_of};
use crate::roles::{KeyRow, RecurringRow, Store};
use crate::unit::{Act, StoreError, Unit, Urgency, Write, Written};
use duebook_core::clock::SettableClock;
use duebook_core::recurring::CatchUp;
use duebook_core::{Command, NewTask, OnConflict, QueueSettings, Refusal, State, Verdict};
use futures_util::future::join_all;
use std::sync::Arc;

const CANCEL: Command = Command::Cancel { unstarted: None };

fn atomic(writes: Vec<Write>) -> Unit {
    Unit { atomic: true, ..Unit::each(writes) }
}

/// One of each kind of write, none of which is refused by itself.
async fn one_of_each(kit: &Kit) -> Vec<Write> {
    let (running, lease) = kit.running("running").await;
    let pending = kit.schedule("pending").await;
    let ended = kit.dead("ended").await;
    let other_dead = kit.dead("dead").await;
    kit.schedule("replaced").await;
    vec![
        Write::Schedule(kit.new_task("new")),
        Write::Schedule(NewTask {
            on_conflict: OnConflict::Replace,
            payload: Some("1".into()),
            ..kit.new_task("replaced")
        }),
        Write::Act(Act::own(
            running,
            Command::Settle { lease, verdict: Verdict::Done, started_ms: kit.now() },
        )),
        Write::Act(Act::own(pending, kit.claiming())),
        Write::Act(Act::own(other_dead, Command::Revive)),
        Write::Purge(vec![ended]),
        Write::PutQueue {
            name: "orders".into(),
            settings: QueueSettings { paused: true, ..QueueSettings::default() },
            keep_existing: false,
        },
        Write::PutQueue { name: "more".into(), settings: QueueSettings::default(), keep_existing: true },
        Write::PutRecurring(RecurringRow {
            name: "nightly".into(),
            queue: kit.queue,
            cron: Some("0 3 * * *".into()),
            timezone: None,
            every_ms: None,
            anchor_ms: 0,
            payload: None,
            catch_up: CatchUp::One,
            next_ms: Some(kit.now()),
            updated_ms: kit.now(),
        }),
        Write::FireRecurring {
            name: "nightly".into(),
            seen_next_ms: kit.now(),
            next_ms: None,
            tasks: vec![kit.new_task("fired")],
        },
        Write::PutKey(KeyRow {
            id: "k".into(),
            hash: "h".into(),
            name: "key".into(),
            scopes: "read".into(),
            queues: String::new(),
            created_ms: kit.now(),
            revoked_ms: None,
        }),
    ]
}

/// Everything that a store tells, as text, to compare two moments.
async fn picture(store: &dyn Store) -> Vec<String> {
    let tasks = all_tasks(store).await;
    let mut lines = Vec::new();
    for task in &tasks {
        lines.push(format!("{task:?}"));
        lines.push(format!("{:?}", store.trail(task.id, 0, usize::MAX).await.unwrap()));
    }
    lines.push(format!("{:?}", counts(store).await));
    lines.push(format!("{:?}", store.queues().await.unwrap()));
    lines.push(format!("{:?}", store.recurring().await.unwrap()));
    lines.push(format!("{:?}", store.keys().await.unwrap()));
    lines
}

/// A refusal at the end undoes every kind of write before it, and is the last result.
pub async fn an_atomic_unit_is_undone_whole(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(Arc::clone(&store), clock).await;
    let mut writes = one_of_each(&kit).await;
    let fine = writes.len();
    let taken = kit.schedule("taken").await;
    writes.push(Write::Schedule(NewTask { on_conflict: OnConflict::Reject, ..kit.new_task("taken") }));
    writes.push(Write::Schedule(kit.new_task("never reached")));
    let before = picture(&*store).await;
    let mut results = kit.submit(atomic(writes)).await;
    assert_eq!(results.pop().unwrap().unwrap_err(), Refusal::KeyTaken(taken));
    assert!(results.len() <= fine && results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!(picture(&*store).await, before);
    // Nothing lingers, whatever a backend remembers besides the rows: what was undone can be done.
    for (key, state) in
        [("pending", State::Cancelled), ("running", State::Running), ("replaced", State::Cancelled)]
    {
        assert_eq!(task_of(kit.write(kit.by_key(key, CANCEL)).await).head.state, state, "{key}");
    }
    kit.schedule("new").await;
    kit.schedule("fired").await;
}

/// Without a refusal it is all there, one result per write.
pub async fn an_atomic_unit_is_done_whole(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(Arc::clone(&store), clock).await;
    let writes = one_of_each(&kit).await;
    let n = writes.len();
    let results = kit.submit(atomic(writes)).await;
    assert!(results.len() == n && results.iter().all(Result::is_ok), "{results:?}");
    let states = [
        ("new", State::Pending),
        ("replaced", State::Pending),
        ("running", State::Succeeded),
        ("pending", State::Running),
        ("dead", State::Pending),
        ("fired", State::Pending),
    ];
    for (key, state) in states {
        let task = store.find(kit.queue, key).await.unwrap().unwrap();
        assert_eq!(task.head.state, state, "{key}");
    }
    assert_eq!(store.find(kit.queue, "ended").await.unwrap(), None);
    let found = |rows: usize| assert_eq!(rows, 1);
    found(store.recurring().await.unwrap().len());
    found(store.keys().await.unwrap().len());
    assert_eq!(store.queues().await.unwrap().len(), 2);
}

/// Cancel and schedule anew under the same key, in one unit, either way round.
pub async fn an_atomic_unit_sees_its_own_writes(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let first = kit.schedule("a").await;
    let reject = Write::Schedule(NewTask { on_conflict: OnConflict::Reject, ..kit.new_task("a") });
    let results = kit.submit(atomic(vec![reject.clone(), kit.by_key("a", CANCEL)])).await;
    assert_eq!(results.last().unwrap().as_ref().unwrap_err(), &Refusal::KeyTaken(first));
    assert_eq!(kit.task(first).await.head.state, State::Pending);
    let results = kit.submit(atomic(vec![kit.by_key("a", CANCEL), reject])).await;
    let Ok(Written::Scheduled { id: second, created: true, .. }) = &results[1] else { panic!("{results:?}") };
    assert_eq!(kit.task(first).await.head.state, State::Cancelled);
    assert_eq!(kit.task(*second).await.head.state, State::Pending);
}

/// Units that were sent together, some of which are refused: each is answered for itself.
pub async fn neighbours_of_a_refused_unit_commit(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let taken = kit.schedule("taken").await;
    let sent = (0..30).map(|n| {
        let mut writes = vec![
            Write::Schedule(kit.new_task(&format!("a{n}"))),
            Write::Schedule(kit.new_task(&format!("b{n}"))),
        ];
        if n % 3 == 0 {
            let reject = NewTask { on_conflict: OnConflict::Reject, ..kit.new_task("taken") };
            writes.insert(n % 2 + 1, Write::Schedule(reject));
        }
        kit.store.submit(atomic(writes))
    });
    for (n, reply) in join_all(sent).await.into_iter().enumerate() {
        let results = reply.unwrap();
        let undone = n % 3 == 0;
        assert_eq!(results.last().unwrap().is_err(), undone, "{n}: {results:?}");
        for key in [format!("a{n}"), format!("b{n}")] {
            let found = kit.store.find(kit.queue, &key).await.unwrap();
            assert_eq!(found.is_none(), undone, "{key}");
        }
    }
    assert_eq!(kit.task(taken).await.head.seq, 1);
    assert_eq!(counts(&*kit.store).await[&(kit.queue, State::Pending)], 41);
}

/// Without `atomic` each write stands for itself, and each has its result in its place.
pub async fn independent_writes_fail_alone(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let id = kit.schedule("a").await;
    let reject = NewTask { on_conflict: OnConflict::Reject, ..kit.new_task("a") };
    let results = kit
        .submit(Unit::each(vec![
            Write::Act(Act::own(id, Command::Revive)),
            Write::Schedule(kit.new_task("b")),
            Write::Schedule(reject.clone()),
            Write::Act(Act::own(id, CANCEL)),
            Write::Schedule(reject),
            Write::Act(Act::own(id, CANCEL)),
        ]))
        .await;
    assert_eq!(results[0].as_ref().unwrap_err(), &Refusal::IllegalState(State::Pending));
    assert_eq!(results[2].as_ref().unwrap_err(), &Refusal::KeyTaken(id));
    assert_eq!(results[5].as_ref().unwrap_err(), &Refusal::IllegalState(State::Cancelled));
    for n in [1, 3, 4] {
        assert!(results[n].is_ok(), "{:?}", results[n]);
    }
    assert_eq!(results.len(), 6);
}

/// No writes, no results.
pub async fn an_empty_unit_is_answered(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    assert!(kit.submit(Unit::each(Vec::new())).await.is_empty());
    assert!(kit.submit(atomic(Vec::new())).await.is_empty());
}

/// A unit that may linger is committed all the same, alone or in company.
pub async fn lingering_units_are_answered(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let linger = |key: &str| {
        let unit = Unit::one(Write::Schedule(kit.new_task(key)));
        kit.store.submit(Unit { urgency: Urgency::Linger, ..unit })
    };
    assert!(linger("a").await.unwrap()[0].is_ok());
    let replies = join_all([linger("b"), linger("c"), linger("b")]).await;
    existing_of(replies.into_iter().next_back().unwrap().unwrap().remove(0));
    assert_eq!(kit.store.waiting(), 0);
}

/// What was sent before the close is committed; what comes after is refused. Closing again is harmless.
pub async fn close_answers_what_was_sent_and_refuses_the_rest(
    store: Arc<dyn Store>,
    clock: Arc<SettableClock>,
) {
    let kit = Kit::new(store, clock).await;
    let send = |n: usize| kit.store.submit(Unit::one(Write::Schedule(kit.new_task(&format!("k{n}")))));
    let sent: Vec<_> = (0..10).map(send).collect();
    let (replies, (), ()) = tokio::join!(join_all(sent), kit.store.close(), kit.store.close());
    for reply in replies {
        assert!(reply.unwrap()[0].is_ok());
    }
    assert_eq!(send(10).await.unwrap_err(), StoreError::Closed);
    assert_eq!(kit.store.task(duebook_core::TaskId::from_i64(1)).await.unwrap_err(), StoreError::Closed);
    kit.store.close().await;
    assert_eq!(kit.store.waiting(), 0);
}
