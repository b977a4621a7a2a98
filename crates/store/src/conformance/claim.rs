//! The claim is a compare-and-set, and the lease fences what comes after it.

use super::kit::{Kit, LEASE_MS, head_of, lease_of};
use crate::roles::Store;
use crate::unit::{Act, Unit, Write, Written};
use duebook_core::clock::SettableClock;
use duebook_core::{Command, Lease, LeaseKey, Reason, Refusal, State, TaskId, Verdict};
use std::sync::Arc;

/// The claimed task is answered whole: running, leased to this incarnation, the attempt counted.
pub async fn a_claim_takes_a_due_task_and_counts_the_attempt(
    store: Arc<dyn Store>,
    clock: Arc<SettableClock>,
) {
    let kit = Kit::new(store, clock).await;
    let id = kit.schedule("a").await;
    kit.clock.advance_ms(25);
    let claimed = kit.acted(id, kit.claiming()).await;
    assert_eq!(claimed, kit.task(id).await);
    let head = claimed.head;
    assert_eq!((head.state, head.attempt, head.seq), (State::Running, 1, 2));
    let key = LeaseKey { boot: kit.store.boot(), token: 2 };
    assert_eq!(head.lease, Some(Lease { key, until_ms: kit.now() + LEASE_MS }));
    assert_eq!((head.fired_ms, head.started_ms, head.finished_ms), (Some(kit.now()), None, None));
    let running = kit.store.running(None, 10).await.unwrap();
    assert_eq!(running.len(), 1);
    assert_eq!((running[0].id, running[0].lease, running[0].attempt), (id, key, 1));
}

/// Two claims of one task: the first wins, in one unit or in two.
pub async fn a_task_is_claimed_once(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let id = kit.schedule("a").await;
    let claim = Write::Act(Act::own(id, kit.claiming()));
    let results = kit.submit(Unit::each(vec![claim.clone(), claim.clone()])).await;
    assert!(results[0].is_ok());
    assert_eq!(results[1].as_ref().unwrap_err(), &Refusal::IllegalState(State::Running));
    assert_eq!(kit.refused(id, kit.claiming()).await, Refusal::IllegalState(State::Running));
    assert_eq!(kit.task(id).await.head.attempt, 1);

    let other = kit.schedule("b").await;
    let units = (0..8).map(|_| kit.store.submit(Unit::one(Write::Act(Act::own(other, kit.claiming())))));
    let replies = futures_util::future::join_all(units).await;
    let won = replies.iter().filter(|reply| reply.as_ref().unwrap()[0].is_ok()).count();
    assert_eq!(won, 1);
}

/// A claim before its time is refused, except within the window that it names.
pub async fn a_claim_reaches_as_far_as_its_due_by(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let now = kit.now();
    let id = kit.schedule_at("a", now + 50).await;
    let reaching = |due_by_ms| Command::Claim { boot: kit.store.boot(), until_ms: now + 1_000, due_by_ms };
    assert_eq!(kit.refused(id, kit.claiming()).await, Refusal::NotDue);
    assert_eq!(kit.refused(id, reaching(now + 49)).await, Refusal::NotDue);
    let claimed = kit.acted(id, reaching(now + 50)).await;
    assert_eq!(
        (claimed.head.state, claimed.head.due_ms, claimed.head.fired_ms),
        (State::Running, now + 50, Some(now))
    );
}

/// An ended task is not claimed, whatever the end was.
pub async fn only_pending_tasks_are_claimed(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let ends = [
        (Verdict::Done, State::Succeeded),
        (Verdict::Exhausted, State::Dead),
        (Verdict::Permanent, State::Dead),
    ];
    for (verdict, state) in ends {
        let (id, lease) = kit.running(&format!("{verdict:?}")).await;
        kit.settle(id, lease, verdict, None).await.unwrap();
        assert_eq!(kit.refused(id, kit.claiming()).await, Refusal::IllegalState(state));
    }
    let id = kit.schedule("c").await;
    kit.acted(id, Command::Cancel { unstarted: None }).await;
    assert_eq!(kit.refused(id, kit.claiming()).await, Refusal::IllegalState(State::Cancelled));
}

/// Every command that names a lease is refused for another token, another incarnation, or after the end.
pub async fn only_the_current_lease_settles(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let pending = kit.schedule("pending").await;
    let (id, lease) = kit.running("a").await;
    let wrong = [
        LeaseKey { token: lease.token - 1, ..lease },
        LeaseKey { token: lease.token + 1, ..lease },
        LeaseKey { boot: lease.boot + 1, ..lease },
        LeaseKey { boot: lease.boot - 1, ..lease },
    ];
    let now = kit.now();
    let commands = |lease| {
        [
            Command::Settle { lease, verdict: Verdict::Done, started_ms: now },
            Command::Settle { lease, verdict: Verdict::Retry { at_ms: now }, started_ms: now },
            Command::Extend { lease, until_ms: now + 1 },
            Command::Release { lease },
            Command::Lapse { lease, interrupted: false, verdict: Verdict::Retry { at_ms: now } },
            Command::Lapse { lease, interrupted: true, verdict: Verdict::Exhausted },
        ]
    };
    for command in wrong.into_iter().flat_map(commands) {
        assert_eq!(kit.refused(id, command).await, Refusal::LeaseLost, "{command:?}");
    }
    for command in commands(lease) {
        assert_eq!(kit.refused(pending, command).await, Refusal::LeaseLost, "{command:?} of a pending task");
    }
    kit.settle(id, lease, Verdict::Done, None).await.unwrap();
    for command in commands(lease) {
        assert_eq!(kit.refused(id, command).await, Refusal::LeaseLost, "{command:?} of an ended task");
    }
}

/// A worker that lost its lease cannot end the attempt of the one that has it now.
pub async fn a_lease_is_void_once_the_task_is_claimed_again(
    store: Arc<dyn Store>,
    clock: Arc<SettableClock>,
) {
    let kit = Kit::new(store, clock).await;
    let (id, first) = kit.running("a").await;
    let lapse =
        Command::Lapse { lease: first, interrupted: false, verdict: Verdict::Retry { at_ms: kit.now() } };
    kit.act(id, lapse).await.unwrap();
    let late = Command::Settle { lease: first, verdict: Verdict::Done, started_ms: kit.now() };
    assert_eq!(kit.refused(id, late).await, Refusal::LeaseLost, "between two leases");
    let second = kit.claim(id).await;
    assert!(second.token > first.token, "{second} after {first}");
    assert_eq!(kit.refused(id, late).await, Refusal::LeaseLost, "under another's lease");
    kit.settle(id, second, Verdict::Done, None).await.unwrap();
    assert_eq!(kit.task(id).await.head.state, State::Succeeded);
}

/// Extending moves the lease's end and nothing else: no trail entry, no new token.
pub async fn extend_moves_the_end_of_the_lease_only(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let (id, lease) = kit.running("a").await;
    let mut expected = kit.task(id).await;
    let trail = kit.trail(id).await;
    kit.clock.advance_ms(10_000);
    for until_ms in [kit.now() + LEASE_MS, kit.now() + 1] {
        let answer = head_of(kit.act(id, Command::Extend { lease, until_ms }).await);
        assert_eq!(answer, (State::Running, expected.head.due_ms, false));
        expected.head.lease = Some(Lease { key: lease, until_ms });
        assert_eq!(kit.task(id).await, expected);
        assert_eq!(kit.store.running(None, 1).await.unwrap()[0].until_ms, until_ms);
    }
    assert_eq!(kit.trail(id).await, trail);
    kit.acted(id, Command::Cancel { unstarted: None }).await;
    let answer = head_of(kit.act(id, Command::Extend { lease, until_ms: kit.now() }).await);
    assert_eq!(answer, (State::Running, expected.head.due_ms, true), "the worker learns of the cancel");
}

/// By id or by key, a task that is not there is not found. An ended task has no key any more.
pub async fn nobody_commands_a_task_that_does_not_exist(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let id = kit.schedule("a").await;
    let absent = TaskId::from_i64(id.as_i64() + 1);
    let lease = LeaseKey { boot: 1, token: 1 };
    let commands = [
        kit.claiming(),
        Command::Settle { lease, verdict: Verdict::Done, started_ms: 0 },
        Command::Extend { lease, until_ms: 0 },
        Command::Release { lease },
        Command::Lapse { lease, interrupted: true, verdict: Verdict::Exhausted },
        Command::Cancel { unstarted: None },
        Command::Reschedule { due_ms: 0, unstarted: None },
        Command::RunNow,
        Command::Revive,
    ];
    for command in commands {
        assert_eq!(kit.act(absent, command).await.unwrap_err(), Refusal::NotFound, "{command:?}");
        let by_key = kit.write(kit.by_key("b", command)).await;
        assert_eq!(by_key.unwrap_err(), Refusal::NotFound, "{command:?}");
    }
    assert!(kit.trail(absent).await.is_empty());
    let claimed = kit.write(kit.by_key("a", kit.claiming())).await;
    let Ok(Written::Task(task)) = claimed else { panic!("{claimed:?}") };
    kit.settle(id, lease_of(&task), Verdict::Done, None).await.unwrap();
    let late = kit.write(kit.by_key("a", Command::Cancel { unstarted: None })).await;
    assert_eq!(late.unwrap_err(), Refusal::NotFound);
    assert_eq!(kit.reasons(id).await, [Reason::Scheduled, Reason::Claimed, Reason::Done]);
}
