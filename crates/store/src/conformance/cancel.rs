//! Calling off, moving and hastening a task, in each state that it can be in.

use super::kit::{Kit, head_of, task_of};
use crate::roles::Store;
use duebook_core::clock::SettableClock;
use duebook_core::{Command, LeaseKey, Reason, Refusal, State, Verdict};
use std::sync::Arc;

const CANCEL: Command = Command::Cancel { unstarted: None };

/// Pending: cancelled at once, by id or by key.
pub async fn a_pending_task_is_cancelled_outright(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let id = kit.schedule_at("a", kit.now() + 60_000).await;
    kit.clock.advance_ms(3);
    let task = kit.acted(id, CANCEL).await;
    assert_eq!(task, kit.task(id).await);
    assert_eq!((task.head.state, task.head.finished_ms), (State::Cancelled, Some(kit.now())));
    let other = kit.schedule("b").await;
    let task = task_of(kit.write(kit.by_key("b", CANCEL)).await);
    assert_eq!((task.id, task.head.state), (other, State::Cancelled));
    assert_eq!(kit.reasons(other).await, [Reason::Scheduled, Reason::Cancelled]);
}

/// Running: the worker is asked; asking again adds nothing.
pub async fn a_running_task_is_asked_once(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let (id, lease) = kit.running("a").await;
    let stale = LeaseKey { token: lease.token + 1, ..lease };
    for command in [Command::Cancel { unstarted: Some(stale) }, CANCEL, CANCEL] {
        let task = kit.acted(id, command).await;
        assert_eq!((task.head.state, task.head.cancel_requested), (State::Running, true));
        assert_eq!(task.head.lease.unwrap().key, lease);
        assert_eq!(task, kit.task(id).await);
    }
    let expected = [Reason::Scheduled, Reason::Claimed, Reason::CancelRequested];
    assert_eq!(kit.reasons(id).await, expected);
}

/// Claimed ahead but not started: the claim is taken back, then the task is cancelled.
pub async fn an_unstarted_claim_is_taken_back_and_cancelled(
    store: Arc<dyn Store>,
    clock: Arc<SettableClock>,
) {
    let kit = Kit::new(store, clock).await;
    let (id, lease) = kit.running("a").await;
    let task = kit.acted(id, Command::Cancel { unstarted: Some(lease) }).await;
    assert_eq!((task.head.state, task.head.attempt), (State::Cancelled, 0));
    assert_eq!((task.head.lease, task.head.cancel_requested), (None, false));
    assert_eq!(task, kit.task(id).await);
    let expected = [Reason::Scheduled, Reason::Claimed, Reason::Released, Reason::Cancelled];
    assert_eq!(kit.reasons(id).await, expected);
    kit.schedule("a").await;
}

/// A worker that finishes although it was asked to stop has finished.
pub async fn an_asked_attempt_that_succeeds_is_done(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    for (key, verdict, state) in [
        ("a", Verdict::Done, State::Succeeded),
        ("b", Verdict::Permanent, State::Dead),
        ("c", Verdict::Exhausted, State::Dead),
    ] {
        let (id, lease) = kit.running(key).await;
        kit.acted(id, CANCEL).await;
        let answer = head_of(kit.settle(id, lease, verdict, None).await);
        assert_eq!((answer.0, answer.2), (state, false));
        assert_eq!(kit.task(id).await.head.state, state);
    }
}

/// A worker that stops or fails after it was asked: the task is cancelled, not tried again.
pub async fn an_asked_attempt_that_comes_back_is_cancelled(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let at_ms = kit.now() + 700;
    let retry = Verdict::Retry { at_ms };
    for (reason, attempt) in
        [(Reason::Retry, 1), (Reason::LeaseLost, 1), (Reason::Interrupted, 1), (Reason::Released, 0)]
    {
        let (id, lease) = kit.running(reason.as_str()).await;
        let due_ms = kit.now();
        kit.acted(id, CANCEL).await;
        let command = match reason {
            Reason::Retry => Command::Settle { lease, verdict: retry, started_ms: kit.now() },
            Reason::Released => Command::Release { lease },
            _ => Command::Lapse { lease, interrupted: reason == Reason::Interrupted, verdict: retry },
        };
        let due_ms = if reason == Reason::Released { due_ms } else { at_ms };
        assert_eq!(head_of(kit.act(id, command).await), (State::Cancelled, due_ms, false));
        let task = kit.task(id).await;
        assert_eq!(
            (task.head.state, task.head.attempt, task.head.due_ms),
            (State::Cancelled, attempt, due_ms)
        );
        let expected =
            [Reason::Scheduled, Reason::Claimed, Reason::CancelRequested, reason, Reason::Cancelled];
        assert_eq!(kit.reasons(id).await, expected);
        kit.schedule(reason.as_str()).await;
    }
}

/// What has ended is not cancelled.
pub async fn an_ended_task_is_not_cancelled(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let (done, lease) = kit.running("a").await;
    kit.settle(done, lease, Verdict::Done, None).await.unwrap();
    assert_eq!(kit.refused(done, CANCEL).await, Refusal::IllegalState(State::Succeeded));
    let dead = kit.dead("b").await;
    assert_eq!(kit.refused(dead, CANCEL).await, Refusal::IllegalState(State::Dead));
    let cancelled = kit.schedule("c").await;
    kit.acted(cancelled, CANCEL).await;
    assert_eq!(kit.refused(cancelled, CANCEL).await, Refusal::IllegalState(State::Cancelled));
}

/// Pending: the due time moves, either way; nothing else does.
pub async fn reschedule_moves_a_pending_task(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let id = kit.schedule("a").await;
    let mut expected = kit.task(id).await;
    for due_ms in [kit.now() + 60_000, kit.now() - 60_000] {
        let task = kit.acted(id, Command::Reschedule { due_ms, unstarted: None }).await;
        expected.head.due_ms = due_ms;
        expected.head.seq += 1;
        assert_eq!(task, expected);
        assert_eq!(kit.task(id).await, expected);
        assert_eq!(kit.store.due_page(kit.queue, None, due_ms, 9).await.unwrap()[0].due_ms, due_ms);
        assert!(kit.store.due_page(kit.queue, None, due_ms - 1, 9).await.unwrap().is_empty());
    }
    assert_eq!(kit.reasons(id).await, [Reason::Scheduled, Reason::Rescheduled, Reason::Rescheduled]);
}

/// Running: refused, unless the claim provably never started; and not after a cancel was asked for.
pub async fn reschedule_of_a_running_task_needs_an_unstarted_claim(
    store: Arc<dyn Store>,
    clock: Arc<SettableClock>,
) {
    let kit = Kit::new(store, clock).await;
    let (id, lease) = kit.running("a").await;
    let due_ms = kit.now() + 60_000;
    let stale = LeaseKey { boot: lease.boot + 1, ..lease };
    let running = Refusal::IllegalState(State::Running);
    assert_eq!(kit.refused(id, Command::Reschedule { due_ms, unstarted: None }).await, running);
    assert_eq!(kit.refused(id, Command::Reschedule { due_ms, unstarted: Some(stale) }).await, running);
    let task = kit.acted(id, Command::Reschedule { due_ms, unstarted: Some(lease) }).await;
    assert_eq!((task.head.state, task.head.due_ms, task.head.attempt), (State::Pending, due_ms, 0));
    assert_eq!(task, kit.task(id).await);
    let expected = [Reason::Scheduled, Reason::Claimed, Reason::Released, Reason::Rescheduled];
    assert_eq!(kit.reasons(id).await, expected);

    let (asked, lease) = kit.running("b").await;
    kit.acted(asked, CANCEL).await;
    assert_eq!(kit.refused(asked, Command::Reschedule { due_ms, unstarted: Some(lease) }).await, running);
}

/// A later task becomes due now; an overdue one stays as overdue as it is.
pub async fn run_now_never_delays(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let later = kit.schedule_at("a", kit.now() + 60_000).await;
    assert_eq!(kit.acted(later, Command::RunNow).await.head.due_ms, kit.now());
    let overdue = kit.schedule_at("b", kit.now() - 60_000).await;
    assert_eq!(kit.acted(overdue, Command::RunNow).await.head.due_ms, kit.now() - 60_000);
    let lease = kit.claim(later).await;
    assert_eq!(kit.refused(later, Command::RunNow).await, Refusal::IllegalState(State::Running));
    kit.settle(later, lease, Verdict::Done, None).await.unwrap();
    assert_eq!(kit.refused(later, Command::RunNow).await, Refusal::IllegalState(State::Succeeded));
    assert_eq!(kit.reasons(overdue).await, [Reason::Scheduled, Reason::RunNow]);
}
