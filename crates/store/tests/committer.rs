//! The committer on a backend that the test holds by the hand: it says when each transaction may end, and how.

use duebook_core::clock::SettableClock;
use duebook_core::{Clock, Command, LeaseKey, Priority, QueueId, Reason, State, Step, TaskId};
use duebook_store::committer::{Backend, CommitReport, Committer, CommitterConfig};
use duebook_store::{
    Act, BoxFuture, Effect, EffectSink, StoreError, Unit, UnitReply, Urgency, Write, Written,
};
use futures_util::future::join_all;
use futures_util::{FutureExt, poll};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Whatever takes longer does not come at all.
const LIMIT: Duration = Duration::from_secs(10);
/// A linger that no test waits out.
const FOREVER: Duration = Duration::from_secs(600);

/// Says which units are in each transaction, by their names, and waits for its end.
struct Held {
    begun: Sender<Vec<String>>,
    end: Receiver<Result<(), StoreError>>,
    clock: Arc<SettableClock>,
}

fn name_of(unit: &Unit) -> String {
    match &unit.writes[0] {
        Write::DeleteRecurring(name) => name.clone(),
        other => panic!("not a named unit: {other:?}"),
    }
}

impl Backend for Held {
    fn transact(
        &mut self,
        units: &[&Unit],
        _now_ms: i64,
        effects: &mut Vec<Effect>,
    ) -> Result<Vec<UnitReply>, StoreError> {
        let _ = self.begun.send(units.iter().map(|unit| name_of(unit)).collect());
        effects.extend(units.iter().map(|unit| effect(&name_of(unit))));
        // A test that is over lets everything through.
        self.end.recv_timeout(LIMIT).unwrap_or(Ok(()))?;
        self.clock.advance_ms(5);
        Ok(units.iter().map(|unit| Ok(unit.writes.iter().map(|_| Ok(Written::Count(1))).collect())).collect())
    }
}

/// The effect of a named unit; the name is kept in the attempt.
fn effect(name: &str) -> Effect {
    let step = Step { from: None, to: State::Pending, reason: Reason::Scheduled };
    Effect {
        task: TaskId::from_i64(1),
        queue: QueueId(1),
        step,
        due_ms: 0,
        priority: Priority::Normal,
        attempt: u32::from(name.as_bytes()[0]),
        created_ms: 0,
        at_ms: 0,
    }
}

struct Rig {
    committer: Committer,
    begun: Receiver<Vec<String>>,
    end: Sender<Result<(), StoreError>>,
}

impl Rig {
    fn new(config: CommitterConfig) -> Self {
        let (begun_to, begun) = channel();
        let (end, end_from) = channel();
        let clock = Arc::new(SettableClock::at_ms(1_000));
        let backend = Held { begun: begun_to, end: end_from, clock: Arc::clone(&clock) };
        let committer = Committer::start(backend, clock as Arc<dyn Clock>, config).unwrap();
        Self { committer, begun, end }
    }

    /// The units of the next transaction, once it has begun.
    fn begun(&self) -> Vec<String> {
        self.begun.recv_timeout(LIMIT).expect("a transaction begins")
    }

    fn end(&self, result: Result<(), StoreError>) {
        self.end.send(result).unwrap();
    }

    fn submit(&self, name: &str, writes: usize) -> BoxFuture<'static, UnitReply> {
        self.committer.submit(unit(name, writes))
    }

    /// A transaction with these units begins and ends well.
    fn commits(&self, expected: &[&str]) {
        assert_eq!(self.begun(), expected);
        self.end(Ok(()));
    }
}

fn unit(name: &str, writes: usize) -> Unit {
    Unit::each((0..writes).map(|_| Write::DeleteRecurring(name.to_owned())).collect())
}

fn lingering(name: &str) -> Unit {
    Unit { urgency: Urgency::Linger, ..unit(name, 1) }
}

async fn within_limit<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.expect("it hangs")
}

#[tokio::test]
async fn what_comes_while_a_commit_runs_is_one_transaction() {
    let rig = Rig::new(CommitterConfig::default());
    let first = rig.submit("a", 1);
    assert_eq!(rig.begun(), ["a"]);
    let rest: Vec<_> = ["b", "c", "d"].iter().map(|name| rig.submit(name, 2)).collect();
    assert_eq!(rig.committer.waiting(), 7, "what is being committed waits too");
    rig.end(Ok(()));
    rig.commits(&["b", "c", "d"]);
    assert_eq!(within_limit(first).await.unwrap().len(), 1);
    for reply in within_limit(join_all(rest)).await {
        assert_eq!(reply.unwrap().len(), 2, "each is answered by itself");
    }
    assert_eq!(rig.committer.waiting(), 0);
}

#[tokio::test]
async fn an_urgent_unit_ends_the_wait_of_lingering_ones() {
    let rig = Rig::new(CommitterConfig { linger: FOREVER, ..CommitterConfig::default() });
    let mut replies = vec![rig.committer.submit(lingering("a")), rig.committer.submit(lingering("b"))];
    // A committer that does not linger begins at once; one that does never begins by itself.
    assert!(rig.begun.recv_timeout(Duration::from_millis(20)).is_err());
    replies.push(rig.submit("c", 1));
    rig.commits(&["a", "b", "c"]);
    assert!(within_limit(join_all(replies)).await.iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_lingering_unit_waits_no_longer_than_the_linger() {
    for linger in [Duration::ZERO, Duration::from_millis(1)] {
        let rig = Rig::new(CommitterConfig { linger, ..CommitterConfig::default() });
        let reply = rig.committer.submit(lingering("a"));
        rig.commits(&["a"]);
        within_limit(reply).await.unwrap();
    }
}

#[tokio::test]
async fn a_full_batch_of_lingering_units_waits_for_nobody() {
    let config = CommitterConfig { linger: FOREVER, batch_items_max: 2, ..CommitterConfig::default() };
    let rig = Rig::new(config);
    let replies = vec![rig.committer.submit(lingering("a")), rig.committer.submit(lingering("b"))];
    rig.commits(&["a", "b"]);
    assert!(within_limit(join_all(replies)).await.iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_transaction_holds_no_more_writes_than_its_cap() {
    let rig = Rig::new(CommitterConfig { batch_items_max: 3, ..CommitterConfig::default() });
    let first = rig.submit("a", 1);
    assert_eq!(rig.begun(), ["a"]);
    let sizes = [("b", 1), ("c", 1), ("d", 1), ("e", 2), ("f", 2), ("g", 9), ("h", 1), ("i", 3)];
    let rest: Vec<_> = sizes.iter().map(|(name, writes)| rig.submit(name, *writes)).collect();
    rig.end(Ok(()));
    // What no longer fits begins the next one; a unit that is larger than the cap goes alone.
    for transaction in [&["b", "c", "d"][..], &["e"], &["f"], &["g"], &["h"], &["i"]] {
        rig.commits(transaction);
    }
    within_limit(first).await.unwrap();
    assert!(within_limit(join_all(rest)).await.iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_transaction_holds_no_more_bytes_than_its_cap() {
    let bytes_of_one = unit("a", 1).bytes();
    let config = CommitterConfig { batch_bytes_max: 2 * bytes_of_one, ..CommitterConfig::default() };
    let rig = Rig::new(config);
    let first = rig.submit("a", 1);
    assert_eq!(rig.begun(), ["a"]);
    let rest: Vec<_> = [("b", 1), ("c", 1), ("d", 1), ("e", 2), ("f", 3), ("g", 1)]
        .iter()
        .map(|(name, writes)| rig.submit(name, *writes))
        .collect();
    rig.end(Ok(()));
    for transaction in [&["b", "c"][..], &["d"], &["e"], &["f"], &["g"]] {
        rig.commits(transaction);
    }
    within_limit(first).await.unwrap();
    assert!(within_limit(join_all(rest)).await.iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_full_waiting_room_refuses_new_units_but_not_the_engines_own() {
    let one = unit("a", 1).bytes();
    let by_items = CommitterConfig { waiting_items_max: 2, ..CommitterConfig::default() };
    let by_bytes = CommitterConfig { waiting_bytes_max: 2 * one, ..CommitterConfig::default() };
    for config in [by_items, by_bytes] {
        let rig = Rig::new(config);
        // One that is larger than the room is taken while nobody else is there.
        let large = rig.submit("a", 3);
        assert_eq!(rig.begun(), ["a"]);
        let refused = rig.submit("b", 1).now_or_never().expect("an answer at once");
        assert_eq!(refused.unwrap_err(), StoreError::Busy);
        let own = rig.committer.submit(lingering("c"));
        assert_eq!(rig.committer.waiting(), 4, "what was refused does not wait");
        rig.end(Ok(()));
        rig.commits(&["c"]);
        within_limit(large).await.unwrap();
        within_limit(own).await.unwrap();
        // There is room again.
        let later = [rig.submit("d", 1), rig.submit("e", 1)];
        rig.end(Ok(()));
        rig.end(Ok(()));
        assert!(within_limit(join_all(later)).await.iter().all(Result::is_ok));
    }
}

#[derive(Default)]
struct Told(Mutex<Vec<u32>>);

impl EffectSink for Told {
    fn committed(&self, effects: &[Effect]) {
        self.0.lock().unwrap().extend(effects.iter().map(|effect| effect.attempt));
    }
}

#[tokio::test]
async fn a_unit_that_fails_the_transaction_fails_alone() {
    for error in [
        StoreError::Backend("constraint".into()),
        StoreError::Full("no pages".into()),
        StoreError::Corrupt("one row".into()),
    ] {
        let rig = Rig::new(CommitterConfig::default());
        let told = Arc::new(Told::default());
        rig.committer.set_sink(Arc::clone(&told) as Arc<dyn EffectSink>);
        let mut replies = vec![rig.submit("first", 1)];
        assert_eq!(rig.begun(), ["first"]);
        replies.extend(["x", "bad", "y"].map(|name| rig.submit(name, 1)));
        rig.end(Ok(()));
        assert_eq!(rig.begun(), ["x", "bad", "y"]);
        rig.end(Err(error.clone()));
        rig.commits(&["x"]);
        assert_eq!(rig.begun(), ["bad"]);
        rig.end(Err(error.clone()));
        rig.commits(&["y"]);
        let replies = within_limit(join_all(replies)).await;
        let failed: Vec<Option<StoreError>> = replies.into_iter().map(Result::err).collect();
        assert_eq!(failed, [None, None, Some(error), None]);
        let told: Vec<u8> = told.0.lock().unwrap().iter().map(|code| *code as u8).collect();
        assert_eq!(told, b"fxy", "nobody hears of what was not committed, nor twice of what was");
    }
}

/// A sink that does not return before the test says so.
struct Slow {
    entered: Mutex<Sender<usize>>,
    leave: Mutex<Receiver<()>>,
}

impl EffectSink for Slow {
    fn committed(&self, effects: &[Effect]) {
        let _ = self.entered.lock().unwrap().send(effects.len());
        let _ = self.leave.lock().unwrap().recv_timeout(LIMIT);
    }
}

#[tokio::test]
async fn effects_go_out_after_the_commit_and_before_the_reply() {
    let rig = Rig::new(CommitterConfig::default());
    let (entered_to, entered) = channel();
    let (leave, leave_from) = channel();
    rig.committer.set_sink(Arc::new(Slow { entered: Mutex::new(entered_to), leave: Mutex::new(leave_from) }));
    let mut reply = rig.submit("a", 1);
    assert_eq!(rig.begun(), ["a"]);
    assert!(entered.try_recv().is_err(), "nothing is told before the commit");
    rig.end(Ok(()));
    assert_eq!(entered.recv_timeout(LIMIT), Ok(1));
    assert!(poll!(&mut reply).is_pending(), "nothing is answered before it is told");
    leave.send(()).unwrap();
    assert!(within_limit(reply).await.is_ok());

    let mut failed = rig.submit("b", 1);
    assert_eq!(rig.begun(), ["b"]);
    rig.end(Err(StoreError::Backend("no".into())));
    assert!(within_limit(&mut failed).await.is_err());
    assert!(entered.try_recv().is_err(), "what failed is not told");
}

#[tokio::test]
async fn the_observer_hears_of_every_commit() {
    let rig = Rig::new(CommitterConfig::default());
    let reports: Arc<Mutex<Vec<CommitReport>>> = Arc::default();
    let observed = Arc::clone(&reports);
    rig.committer.set_observer(Box::new(move |report| observed.lock().unwrap().push(report)));
    let first = rig.submit("a", 1);
    assert_eq!(rig.begun(), ["a"]);
    let rest = [rig.submit("b", 2), rig.submit("c", 3)];
    rig.end(Ok(()));
    rig.commits(&["b", "c"]);
    within_limit(first).await.unwrap();
    within_limit(join_all(rest)).await;
    let failed = rig.submit("d", 4);
    assert_eq!(rig.begun(), ["d"]);
    rig.end(Err(StoreError::Backend("no".into())));
    within_limit(failed).await.unwrap_err();
    let reports: Vec<_> =
        reports.lock().unwrap().iter().map(|r| (r.units, r.writes, r.took_us, r.ok)).collect();
    assert_eq!(reports, [(1, 1, 5_000, true), (2, 5, 5_000, true), (1, 4, 0, false)]);
}

#[tokio::test]
async fn close_commits_what_was_sent_and_everyone_who_closes_waits_for_that() {
    let rig = Rig::new(CommitterConfig { linger: FOREVER, ..CommitterConfig::default() });
    let mut sent = vec![rig.submit("a", 1)];
    assert_eq!(rig.begun(), ["a"]);
    sent.push(rig.submit("b", 1));
    sent.push(rig.committer.submit(lingering("c")));
    let mut closing = [Box::pin(rig.committer.close()), Box::pin(rig.committer.close())];
    for closing in &mut closing {
        assert!(poll!(closing).is_pending());
    }
    assert_eq!(within_limit(rig.submit("d", 1)).await.unwrap_err(), StoreError::Closed);
    rig.end(Ok(()));
    assert_eq!(rig.begun(), ["b", "c"]);
    for closing in &mut closing {
        assert!(poll!(closing).is_pending(), "a commit still runs");
    }
    rig.end(Ok(()));
    within_limit(join_all(closing)).await;
    // By now all is answered; nothing needs to be waited for.
    assert!(sent.into_iter().all(|reply| reply.now_or_never().unwrap().is_ok()));
    within_limit(rig.committer.close()).await;
    assert_eq!(rig.committer.waiting(), 0);
}

#[tokio::test]
async fn close_ends_a_linger() {
    let rig = Rig::new(CommitterConfig { linger: FOREVER, ..CommitterConfig::default() });
    let reply = rig.committer.submit(lingering("a"));
    rig.end(Ok(()));
    within_limit(rig.committer.close()).await;
    assert!(reply.now_or_never().unwrap().is_ok());
}

#[test]
fn dropping_the_committer_waits_for_what_was_sent() {
    let Rig { committer, begun, end } = Rig::new(CommitterConfig::default());
    let replies: Vec<_> = ["a", "b"].iter().map(|name| committer.submit(unit(name, 1))).collect();
    drop(end);
    drop(committer);
    assert!(replies.into_iter().all(|reply| reply.now_or_never().unwrap().is_ok()));
    assert_eq!(begun.try_iter().flatten().collect::<Vec<_>>(), ["a", "b"]);
}

/// A unit's size grows with what it holds, or the room would not be bounded.
#[test]
fn bytes_count_what_is_held() {
    let act = |detail: &str| {
        let command = Command::Release { lease: LeaseKey { boot: 1, token: 1 } };
        let act = Act { detail: Some(detail.to_owned()), ..Act::own(TaskId::from_i64(1), command) };
        Unit::one(Write::Act(act)).bytes()
    };
    assert_eq!(act(&"x".repeat(1_000)) - act(""), 1_000);
    let purge = |n: usize| Unit::one(Write::Purge(vec![TaskId::from_i64(1); n])).bytes();
    assert!(purge(1_000) - purge(0) >= 8 * 1_000);
}
