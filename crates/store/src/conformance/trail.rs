//! The trail, and the effects that tell the rest of the program what was committed.

use super::kit::Kit;
use crate::roles::{EffectSink, Store};
use crate::unit::{Act, Effect, Target, Unit, Write};
use duebook_core::clock::SettableClock;
use duebook_core::{
    Command, NewTask, OnConflict, Priority, QueueId, Reason, State, Step, TaskId, TrailEntry, Verdict,
};
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Recorder(Mutex<Vec<Effect>>);

impl EffectSink for Recorder {
    fn committed(&self, effects: &[Effect]) {
        // Gives another writer the chance to overtake, if the store lets it.
        std::thread::yield_now();
        self.0.lock().unwrap().extend_from_slice(effects);
    }
}

impl Recorder {
    fn on(store: &dyn Store) -> Arc<Self> {
        let recorder = Arc::new(Self::default());
        store.set_sink(Arc::clone(&recorder) as Arc<dyn EffectSink>);
        recorder
    }

    fn take(&self) -> Vec<Effect> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    fn take_reasons(&self) -> Vec<(TaskId, Reason)> {
        self.take().iter().map(|effect| (effect.task, effect.step.reason)).collect()
    }
}

/// Each change of a long life, in order, with its time, attempt and due time.
pub async fn the_trail_tells_the_whole_story(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let t = kit.now();
    let id = kit.schedule_at("a", t + 100).await;
    let mut expected = Vec::new();
    let mut expect = |at_ms: i64, from, to, reason, attempt, due_ms: i64, started_ms| {
        let seq = expected.len() as u32 + 1;
        let step = Step { from, to, reason };
        let (actor, detail, trace_id) = (None, None, None);
        expected.push(TrailEntry { seq, at_ms, step, attempt, due_ms, started_ms, actor, detail, trace_id });
    };
    let (pending, running) = (Some(State::Pending), Some(State::Running));
    expect(t, None, State::Pending, Reason::Scheduled, 0, t + 100, None);

    kit.clock.advance_ms(10);
    let replace = NewTask { due_ms: t + 200, on_conflict: OnConflict::Replace, ..kit.new_task("a") };
    kit.write(Write::Schedule(replace)).await.unwrap();
    expect(t + 10, pending, State::Pending, Reason::Replaced, 0, t + 200, None);
    kit.acted(id, Command::Reschedule { due_ms: t + 300, unstarted: None }).await;
    expect(t + 10, pending, State::Pending, Reason::Rescheduled, 0, t + 300, None);
    kit.acted(id, Command::RunNow).await;
    expect(t + 10, pending, State::Pending, Reason::RunNow, 0, t + 10, None);
    let lease = kit.claim(id).await;
    expect(t + 10, pending, State::Running, Reason::Claimed, 1, t + 10, None);
    kit.act(id, Command::Release { lease }).await.unwrap();
    expect(t + 10, running, State::Pending, Reason::Released, 0, t + 10, None);
    let lease = kit.claim(id).await;
    expect(t + 10, pending, State::Running, Reason::Claimed, 1, t + 10, None);
    kit.clock.advance_ms(10);
    let retry = Verdict::Retry { at_ms: t + 20 };
    kit.act(id, Command::Settle { lease, verdict: retry, started_ms: t + 12 }).await.unwrap();
    expect(t + 20, running, State::Pending, Reason::Retry, 1, t + 20, Some(t + 12));
    let lease = kit.claim(id).await;
    expect(t + 20, pending, State::Running, Reason::Claimed, 2, t + 20, None);
    kit.act(id, Command::Lapse { lease, interrupted: false, verdict: Verdict::Exhausted }).await.unwrap();
    expect(t + 20, running, State::Dead, Reason::LeaseLost, 2, t + 20, None);
    kit.clock.advance_ms(10);
    kit.acted(id, Command::Revive).await;
    expect(t + 30, Some(State::Dead), State::Pending, Reason::Revived, 0, t + 30, None);
    let lease = kit.claim(id).await;
    expect(t + 30, pending, State::Running, Reason::Claimed, 1, t + 30, None);
    kit.acted(id, Command::Cancel { unstarted: None }).await;
    expect(t + 30, running, State::Running, Reason::CancelRequested, 1, t + 30, None);
    kit.act(id, Command::Settle { lease, verdict: Verdict::Done, started_ms: t + 31 }).await.unwrap();
    expect(t + 30, running, State::Succeeded, Reason::Done, 1, t + 30, Some(t + 31));
    assert_eq!(kit.trail(id).await, expected);
}

/// Who did it, what was said, and the request's trace id.
pub async fn the_trail_names_actor_words_and_trace(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let trace = |digit: &str| Some(digit.repeat(32));
    let new = NewTask { actor: Some("shop".into()), trace_id: trace("a"), ..kit.new_task("a") };
    let id = kit.schedule_new(new).await;
    let cancel = Act {
        target: Target::Id(id),
        command: Command::Cancel { unstarted: None },
        actor: Some("小李 🚚".into()),
        detail: Some("paid after all".into()),
        trace_id: trace("b"),
    };
    kit.write(Write::Act(cancel)).await.unwrap();
    let trail = kit.trail(id).await;
    let words = |entry: &TrailEntry| (entry.actor.clone(), entry.detail.clone(), entry.trace_id.clone());
    assert_eq!(words(&trail[0]), (Some("shop".into()), None, trace("a")));
    assert_eq!(words(&trail[1]), (Some("小李 🚚".into()), Some("paid after all".into()), trace("b")));
    assert_eq!(kit.task(id).await.trace_id, trace("a"), "the task keeps the trace that scheduled it");
}

/// From any seq on, in pages of any size.
pub async fn the_trail_is_paged_by_seq(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let id = kit.schedule("a").await;
    kit.schedule("b").await;
    for _ in 0..6 {
        kit.acted(id, Command::RunNow).await;
    }
    let whole = kit.trail(id).await;
    assert_eq!(whole.len(), 7);
    for limit in 1..=8 {
        let mut paged: Vec<TrailEntry> = Vec::new();
        loop {
            let after = paged.last().map_or(0, |entry| entry.seq);
            let page = kit.store.trail(id, after, limit).await.unwrap();
            assert!(page.len() <= limit);
            if page.is_empty() {
                break;
            }
            paged.extend(page);
        }
        assert_eq!(paged, whole, "in pages of {limit}");
    }
    assert!(kit.store.trail(id, 7, 10).await.unwrap().is_empty());
}

/// Each committed step is told once, in the order of the trail; what was refused or undone is not told.
pub async fn effects_follow_the_commits_in_order(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let recorder = Recorder::on(&*kit.store);
    let due_ms = kit.now() - 5;
    let new = NewTask { due_ms, priority: Priority::High, created_ms: kit.now() - 9, ..kit.new_task("a") };
    let id = kit.schedule_new(new.clone()).await;
    let step = Step { from: None, to: State::Pending, reason: Reason::Scheduled };
    let expected = Effect {
        task: id,
        queue: kit.queue,
        step,
        due_ms,
        priority: Priority::High,
        attempt: 0,
        created_ms: kit.now() - 9,
        at_ms: kit.now(),
    };
    assert_eq!(recorder.take(), [expected]);

    // Neither an answer nor a refusal nor an extension is a step.
    kit.write(Write::Schedule(new.clone())).await.unwrap();
    kit.write(Write::Schedule(NewTask { on_conflict: OnConflict::Reject, ..new })).await.unwrap_err();
    kit.act(id, Command::Revive).await.unwrap_err();
    assert_eq!(recorder.take(), []);
    let lease = kit.claim(id).await;
    kit.act(id, Command::Extend { lease, until_ms: kit.now() }).await.unwrap();
    let claimed = recorder.take();
    assert_eq!((claimed.len(), claimed[0].step.reason, claimed[0].attempt), (1, Reason::Claimed, 1));

    // Two steps of one command; several writes of one unit, a refused one among them.
    let other = kit.schedule("b").await;
    recorder.take();
    let unit = Unit::each(vec![
        Write::Act(Act::own(id, Command::Cancel { unstarted: Some(lease) })),
        Write::Act(Act::own(other, Command::Revive)),
        Write::Act(Act::own(other, kit.claiming())),
    ]);
    kit.submit(unit).await;
    let expected = [(id, Reason::Released), (id, Reason::Cancelled), (other, Reason::Claimed)];
    assert_eq!(recorder.take_reasons(), expected);

    // An atomic unit that is undone tells nothing.
    let undone = Unit {
        atomic: true,
        ..Unit::each(vec![
            Write::Schedule(kit.new_task("c")),
            Write::Act(Act::own(other, Command::Cancel { unstarted: None })),
            Write::Act(Act::own(id, Command::Revive)),
        ])
    };
    assert!(kit.submit(undone).await.pop().unwrap().is_err());
    assert_eq!(recorder.take(), []);
}

/// Whoever has the answer finds that the engine has been told.
pub async fn effects_are_there_before_the_reply(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let recorder = Recorder::on(&*kit.store);
    for n in 0..20 {
        let id = kit.schedule(&format!("k{n}")).await;
        assert_eq!(recorder.take_reasons(), [(id, Reason::Scheduled)]);
    }
}

/// Whatever threads the units come from, the effects tell one task's steps as its trail does.
pub async fn effects_of_many_writers_tell_each_task_in_order(
    store: Arc<dyn Store>,
    clock: Arc<SettableClock>,
) {
    let kit = Kit::new(store, clock).await;
    let id = kit.schedule("a").await;
    let recorder = Recorder::on(&*kit.store);
    let runtime = tokio::runtime::Handle::current();
    let writers = (0..4).map(|writer| {
        let (store, runtime) = (Arc::clone(&kit.store), runtime.clone());
        tokio::task::spawn_blocking(move || {
            for n in 0..25 {
                let command = Command::Reschedule { due_ms: writer * 1_000 + n, unstarted: None };
                let unit = Unit::one(Write::Act(Act::own(id, command)));
                assert!(runtime.block_on(store.submit(unit)).unwrap()[0].is_ok());
            }
        })
    });
    for done in futures_util::future::join_all(writers).await {
        done.unwrap();
    }
    let told: Vec<(QueueId, i64)> = recorder.take().iter().map(|e| (e.queue, e.due_ms)).collect();
    let trail: Vec<(QueueId, i64)> =
        kit.trail(id).await.iter().skip(1).map(|entry| (kit.queue, entry.due_ms)).collect();
    assert_eq!(told.len(), 100);
    assert_eq!(told, trail);
}
