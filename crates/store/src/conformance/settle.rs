//! How an attempt ends, and what that means for the task.

use super::kit::{Kit, head_of};
use crate::roles::Store;
use crate::unit::{Act, Write};
use duebook_core::clock::SettableClock;
use duebook_core::limits::ERROR_BYTES_MAX;
use duebook_core::{Command, Reason, Refusal, State, Verdict};
use std::sync::Arc;

/// Done: the task succeeded, with its times.
pub async fn done_ends_the_task(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let (id, lease) = kit.running("a").await;
    let (due_ms, fired_ms) = (kit.now(), kit.now());
    kit.clock.advance_ms(40);
    let started_ms = fired_ms + 3;
    let command = Command::Settle { lease, verdict: Verdict::Done, started_ms };
    assert_eq!(head_of(kit.act(id, command).await), (State::Succeeded, due_ms, false));
    let task = kit.task(id).await;
    assert_eq!((task.head.state, task.head.attempt, task.head.lease), (State::Succeeded, 1, None));
    assert_eq!(
        (task.head.fired_ms, task.head.started_ms, task.head.finished_ms),
        (Some(fired_ms), Some(started_ms), Some(kit.now()))
    );
    assert_eq!(task.last_error, None);
    let last = kit.trail(id).await.pop().unwrap();
    assert_eq!((last.step.reason, last.started_ms), (Reason::Done, Some(started_ms)));
}

/// Retry: pending again at the time it says, the attempt counted, the error kept.
pub async fn retry_makes_it_due_again(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let id = kit.schedule("a").await;
    for attempt in 1..=3 {
        let lease = kit.claim(id).await;
        let at_ms = kit.now() + 1_000;
        let error = format!("error {attempt}");
        let answer = head_of(kit.settle(id, lease, Verdict::Retry { at_ms }, Some(&error)).await);
        assert_eq!(answer, (State::Pending, at_ms, false));
        let task = kit.task(id).await;
        assert_eq!((task.head.state, task.head.due_ms, task.head.attempt), (State::Pending, at_ms, attempt));
        assert_eq!((task.head.lease, task.head.finished_ms), (None, None));
        assert_eq!(task.last_error, Some(error.clone()));
        let last = kit.trail(id).await.pop().unwrap();
        assert_eq!((last.step.reason, last.detail), (Reason::Retry, Some(error)));
        assert_eq!(kit.refused(id, kit.claiming()).await, Refusal::NotDue);
        kit.clock.advance_ms(1_000);
    }
}

/// No attempt left, or a failure for good: dead at once.
pub async fn exhausted_and_permanent_end_it_dead(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    for (verdict, reason) in
        [(Verdict::Exhausted, Reason::Exhausted), (Verdict::Permanent, Reason::Permanent)]
    {
        let (id, lease) = kit.running(reason.as_str()).await;
        let due_ms = kit.now();
        kit.clock.advance_ms(5);
        let answer = head_of(kit.settle(id, lease, verdict, Some("boom")).await);
        assert_eq!(answer, (State::Dead, due_ms, false));
        let task = kit.task(id).await;
        assert_eq!((task.head.state, task.head.attempt), (State::Dead, 1));
        assert_eq!(task.head.finished_ms, Some(kit.now()));
        assert_eq!(task.last_error.as_deref(), Some("boom"));
        assert_eq!(kit.reasons(id).await.last(), Some(&reason));
    }
}

/// The last error outlives a later success, and a very long one is cut at a character's border.
pub async fn the_last_error_stays_and_is_cut(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let (id, lease) = kit.running("a").await;
    let error = "错".repeat(ERROR_BYTES_MAX);
    let kept = "错".repeat(ERROR_BYTES_MAX / 3);
    kit.settle(id, lease, Verdict::Retry { at_ms: kit.now() }, Some(&error)).await.unwrap();
    assert_eq!(kit.task(id).await.last_error.as_ref(), Some(&kept));
    assert_eq!(kit.trail(id).await.pop().unwrap().detail.as_ref(), Some(&kept));
    let lease = kit.claim(id).await;
    kit.settle(id, lease, Verdict::Done, None).await.unwrap();
    assert_eq!(kit.task(id).await.last_error.as_ref(), Some(&kept));
    assert_eq!(kit.trail(id).await.pop().unwrap().detail, None);

    // Words about a cancel are the trail's, not an attempt's error.
    let pending = kit.schedule("b").await;
    let cancel = Act {
        detail: Some("customer paid".into()),
        ..Act::own(pending, Command::Cancel { unstarted: None })
    };
    kit.write(Write::Act(cancel)).await.unwrap();
    assert_eq!(kit.task(pending).await.last_error, None);
    assert_eq!(kit.trail(pending).await.pop().unwrap().detail.as_deref(), Some("customer paid"));
}

/// A silent or restarted holder loses the task; the attempt counts, and the trail says which it was.
pub async fn a_lapse_counts_the_attempt(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    for (interrupted, reason) in [(false, Reason::LeaseLost), (true, Reason::Interrupted)] {
        let id = kit.schedule(reason.as_str()).await;
        let first = kit.claim(id).await;
        let at_ms = kit.now() + 100;
        let lapse = |lease, verdict| Act {
            detail: Some("silent".into()),
            ..Act::own(id, Command::Lapse { lease, interrupted, verdict })
        };
        let retried = kit.write(Write::Act(lapse(first, Verdict::Retry { at_ms }))).await;
        assert_eq!(head_of(retried), (State::Pending, at_ms, false));
        let task = kit.task(id).await;
        assert_eq!((task.head.attempt, task.head.lease), (1, None));
        assert_eq!(task.last_error.as_deref(), Some("silent"));
        kit.clock.advance_ms(100);
        let second = kit.claim(id).await;
        let exhausted = kit.write(Write::Act(lapse(second, Verdict::Exhausted))).await;
        assert_eq!(head_of(exhausted), (State::Dead, at_ms, false));
        assert_eq!(kit.task(id).await.head.attempt, 2);
        let expected = [Reason::Scheduled, Reason::Claimed, reason, Reason::Claimed, reason];
        assert_eq!(kit.reasons(id).await, expected);
    }
}

/// A claim that is given back leaves no mark but the trail; the next claim is the same attempt.
pub async fn a_release_does_not_count_the_attempt(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let id = kit.schedule("a").await;
    let before = kit.task(id).await;
    for claims in 1..=3u32 {
        let lease = kit.claim(id).await;
        let answer = head_of(kit.act(id, Command::Release { lease }).await);
        assert_eq!(answer, (State::Pending, before.head.due_ms, false));
        let mut expected = before.clone();
        expected.head.seq = 1 + 2 * claims;
        assert_eq!(kit.task(id).await, expected);
    }
    assert_eq!(kit.acted(id, kit.claiming()).await.head.attempt, 1);
}

/// A dead task lives again: due now, attempts anew, same trail, and its key is taken again.
pub async fn revive_begins_a_new_life(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let id = kit.dead("a").await;
    let dead = kit.task(id).await;
    kit.clock.advance_ms(5_000);
    let task = kit.acted(id, Command::Revive).await;
    assert_eq!(task, kit.task(id).await);
    assert_eq!((task.head.state, task.head.due_ms, task.head.attempt), (State::Pending, kit.now(), 0));
    assert_eq!((task.head.finished_ms, task.head.seq), (None, dead.head.seq + 1));
    assert_eq!(task.last_error, dead.last_error);
    let written = kit.write(Write::Schedule(kit.new_task("a"))).await;
    assert_eq!(super::kit::existing_of(written).0, id);
    let lease = kit.claim(id).await;
    kit.settle(id, lease, Verdict::Done, None).await.unwrap();
    let expected = [
        Reason::Scheduled,
        Reason::Claimed,
        Reason::Permanent,
        Reason::Revived,
        Reason::Claimed,
        Reason::Done,
    ];
    assert_eq!(kit.reasons(id).await, expected);
}

/// In any other state there is nothing to revive.
pub async fn only_a_dead_task_is_revived(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let id = kit.schedule("a").await;
    assert_eq!(kit.refused(id, Command::Revive).await, Refusal::IllegalState(State::Pending));
    let lease = kit.claim(id).await;
    assert_eq!(kit.refused(id, Command::Revive).await, Refusal::IllegalState(State::Running));
    kit.settle(id, lease, Verdict::Done, None).await.unwrap();
    assert_eq!(kit.refused(id, Command::Revive).await, Refusal::IllegalState(State::Succeeded));
    let other = kit.schedule("b").await;
    kit.acted(other, Command::Cancel { unstarted: None }).await;
    assert_eq!(kit.refused(other, Command::Revive).await, Refusal::IllegalState(State::Cancelled));
}

/// A key lives on in its newest task only: an older life is not revived beside it or behind it, until the newer
/// one is purged.
pub async fn revive_is_refused_when_the_key_went_on(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let old = kit.dead("a").await;
    let newer = kit.schedule("a").await;
    assert_eq!(kit.refused(old, Command::Revive).await, Refusal::KeyTaken(newer));
    let lease = kit.claim(newer).await;
    assert_eq!(kit.refused(old, Command::Revive).await, Refusal::KeyTaken(newer));
    kit.settle(newer, lease, Verdict::Done, None).await.unwrap();
    assert_eq!(kit.refused(old, Command::Revive).await, Refusal::KeyTaken(newer), "though it has ended");
    assert_eq!(kit.count(Write::Purge(vec![newer])).await, 1);
    kit.acted(old, Command::Revive).await;
    assert_eq!(kit.store.find(kit.queue, "a").await.unwrap().unwrap().id, old);
}
