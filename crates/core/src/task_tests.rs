//! The life cycle as a table, and as invariants over random histories.

use super::*;
use proptest::prelude::*;

const NOW: i64 = 1_000_000;

fn head(state: State) -> Head {
    let (mut head, _) = Head::scheduled(NOW - 1);
    head.state = state;
    if state == State::Running {
        head.attempt = 1;
        head.seq = 2;
        head.lease = Some(Lease { key: LeaseKey { boot: 7, token: 2 }, until_ms: NOW + 500 });
    } else if !state.is_live() {
        head.finished_ms = Some(NOW - 1);
    }
    head
}

const MINE: LeaseKey = LeaseKey { boot: 7, token: 2 };
const OTHERS: LeaseKey = LeaseKey { boot: 6, token: 2 };

#[test]
fn every_command_in_every_state() {
    use State::{Cancelled, Dead, Pending, Running, Succeeded};
    let claim = Command::Claim { boot: 7, until_ms: NOW + 9, due_by_ms: NOW };
    let settle = |verdict| Command::Settle { lease: MINE, verdict, started_ms: NOW };
    let retry = Verdict::Retry { at_ms: NOW + 100 };
    let check = |command: Command, per_state: [Result<State, Refusal>; 5]| {
        for (state, expect) in State::ALL.into_iter().zip(per_state) {
            let got = decide(head(state), &command, NOW).map(|(next, _)| next.state);
            assert_eq!(got, expect, "{command:?} in {state:?}");
        }
    };
    let bad = |state| Err(Refusal::IllegalState(state));
    let lost: Result<State, Refusal> = Err(Refusal::LeaseLost);
    check(claim, [Ok(Running), bad(Running), bad(Succeeded), bad(Dead), bad(Cancelled)]);
    check(settle(Verdict::Done), [lost, Ok(Succeeded), lost, lost, lost]);
    check(settle(retry), [lost, Ok(Pending), lost, lost, lost]);
    check(settle(Verdict::Exhausted), [lost, Ok(Dead), lost, lost, lost]);
    check(settle(Verdict::Permanent), [lost, Ok(Dead), lost, lost, lost]);
    check(Command::Settle { lease: OTHERS, verdict: Verdict::Done, started_ms: NOW }, [lost; 5]);
    check(Command::Extend { lease: MINE, until_ms: NOW }, [lost, Ok(Running), lost, lost, lost]);
    check(Command::Release { lease: MINE }, [lost, Ok(Pending), lost, lost, lost]);
    check(
        Command::Lapse { lease: MINE, interrupted: true, verdict: retry },
        [lost, Ok(Pending), lost, lost, lost],
    );
    check(
        Command::Cancel { unstarted: None },
        [Ok(Cancelled), Ok(Running), bad(Succeeded), bad(Dead), bad(Cancelled)],
    );
    check(
        Command::Cancel { unstarted: Some(MINE) },
        [Ok(Cancelled), Ok(Cancelled), bad(Succeeded), bad(Dead), bad(Cancelled)],
    );
    check(
        Command::Reschedule { due_ms: NOW + 5, unstarted: None },
        [Ok(Pending), bad(Running), bad(Succeeded), bad(Dead), bad(Cancelled)],
    );
    check(
        Command::Reschedule { due_ms: NOW + 5, unstarted: Some(MINE) },
        [Ok(Pending), Ok(Pending), bad(Succeeded), bad(Dead), bad(Cancelled)],
    );
    check(Command::RunNow, [Ok(Pending), bad(Running), bad(Succeeded), bad(Dead), bad(Cancelled)]);
    check(Command::Revive, [bad(Pending), bad(Running), bad(Succeeded), Ok(Pending), bad(Cancelled)]);
}

#[test]
fn a_claim_waits_for_its_time() {
    let claim = Command::Claim { boot: 1, until_ms: NOW, due_by_ms: NOW - 2 };
    assert_eq!(decide(head(State::Pending), &claim, NOW), Err(Refusal::NotDue));
}

#[test]
fn a_release_gives_the_attempt_back_and_a_lost_lease_does_not() {
    let released = decide(head(State::Running), &Command::Release { lease: MINE }, NOW).unwrap().0;
    assert_eq!(released.attempt, 0);
    let lapse = Command::Lapse { lease: MINE, interrupted: false, verdict: Verdict::Retry { at_ms: NOW } };
    assert_eq!(decide(head(State::Running), &lapse, NOW).unwrap().0.attempt, 1);
}

#[test]
fn a_task_asked_to_stop_is_cancelled_instead_of_retried() {
    let asked = decide(head(State::Running), &Command::Cancel { unstarted: None }, NOW).unwrap().0;
    assert!(asked.cancel_requested);
    let settle = Command::Settle { lease: MINE, verdict: Verdict::Retry { at_ms: NOW + 1 }, started_ms: NOW };
    let (next, steps) = decide(asked, &settle, NOW).unwrap();
    assert_eq!((next.state, steps.len()), (State::Cancelled, 2));
}

fn commands() -> impl Strategy<Value = (Command, i64)> {
    let lease = (0u32..3, 1u32..12).prop_map(|(boot, token)| LeaseKey { boot, token });
    let verdict = prop_oneof![
        Just(Verdict::Done),
        (0i64..50).prop_map(|at_ms| Verdict::Retry { at_ms }),
        Just(Verdict::Exhausted),
        Just(Verdict::Permanent),
    ];
    let command = prop_oneof![
        4 => (0u32..3, 0i64..90).prop_map(|(boot, due)| Command::Claim {
            boot, until_ms: 0, due_by_ms: due }),
        4 => (lease.clone(), verdict.clone()).prop_map(|(lease, verdict)| Command::Settle {
            lease, verdict, started_ms: 0 }),
        1 => lease.clone().prop_map(|lease| Command::Extend { lease, until_ms: 9 }),
        1 => lease.clone().prop_map(|lease| Command::Release { lease }),
        1 => (lease.clone(), any::<bool>(), 0i64..50).prop_map(|(lease, interrupted, at_ms)| {
            Command::Lapse { lease, interrupted, verdict: Verdict::Retry { at_ms } } }),
        1 => proptest::option::of(lease.clone()).prop_map(|unstarted| Command::Cancel { unstarted }),
        1 => (0i64..60, proptest::option::of(lease)).prop_map(|(due_ms, unstarted)| {
            Command::Reschedule { due_ms, unstarted } }),
        1 => Just(Command::RunNow),
        1 => Just(Command::Revive),
    ];
    (command, 0i64..100)
}

proptest! {
    #[test]
    fn any_history_keeps_the_invariants(history in proptest::collection::vec(commands(), 1..80)) {
        let (mut head, _) = Head::scheduled(10);
        let mut tokens = Vec::new();
        for (command, now) in history {
            let Ok((next, steps)) = decide(head, &command, now) else { continue };
            let mut state = head.state;
            for step in steps.iter() {
                prop_assert_eq!(step.from, Some(state));
                prop_assert!(step.reason.allows(step.from, step.to), "{:?}", step);
                state = step.to;
            }
            prop_assert_eq!(state, next.state);
            prop_assert_eq!(next.seq, head.seq + steps.len());
            prop_assert_eq!(next.lease.is_some(), next.state == State::Running);
            prop_assert_eq!(next.finished_ms.is_some(), !next.state.is_live());
            prop_assert!(!next.cancel_requested || next.state == State::Running);
            if let Command::Claim { .. } = command {
                let token = next.lease.unwrap().key.token;
                prop_assert!(tokens.last().is_none_or(|&last| token > last), "tokens grow");
                tokens.push(token);
            }
            head = next;
        }
    }
}
