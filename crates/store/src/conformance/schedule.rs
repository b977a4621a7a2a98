//! Scheduling: what is kept, and what happens when a live task has the key.

use super::kit::{Kit, existing_of};
use crate::roles::Store;
use crate::unit::{Unit, Write, Written};
use duebook_core::clock::SettableClock;
use duebook_core::limits::{KEY_BYTES_MAX, PAYLOAD_BYTES_MAX};
use duebook_core::{Command, Head, NewTask, OnConflict, Priority, Reason, Refusal, State, Task, Verdict};
use std::sync::Arc;

/// Every field comes back; what the store adds is the id and when it was committed.
pub async fn a_new_task_is_kept_whole(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let new = NewTask {
        due_ms: kit.now() + 1_800_000,
        payload: Some(r#"{"order":17}"#.into()),
        priority: Priority::High,
        retry: Some("busy".into()),
        created_ms: kit.now() - 7,
        trace_id: Some("0af7651916cd43dd8448eb211c80319c".into()),
        actor: Some("shop".into()),
        ..kit.new_task("order-17")
    };
    let written = kit.write(Write::Schedule(new.clone())).await;
    let Ok(Written::Scheduled { id, created: true, existing: None, committed_ms }) = written else {
        panic!("{written:?}")
    };
    assert_eq!(committed_ms, kit.now());
    assert_eq!(id.made_ms(), kit.now());
    let expected = Task {
        id,
        queue: kit.queue,
        key: new.key,
        head: Head::scheduled(new.due_ms).0,
        payload: new.payload,
        priority: Priority::High,
        retry: new.retry,
        created_ms: new.created_ms,
        committed_ms,
        last_error: None,
        trace_id: new.trace_id,
    };
    assert_eq!(kit.task(id).await, expected);
}

/// `keep` answers the live task, pending or running, and changes nothing.
pub async fn keep_answers_the_live_task(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let id = kit.schedule("a").await;
    let again = NewTask {
        due_ms: kit.now() + 5,
        payload: Some("2".into()),
        priority: Priority::High,
        ..kit.new_task("a")
    };
    for state in [State::Pending, State::Running] {
        let before = kit.task(id).await;
        assert_eq!(before.head.state, state);
        kit.clock.advance_ms(1);
        let (same, existing) = existing_of(kit.write(Write::Schedule(again.clone())).await);
        assert_eq!((same, &existing), (id, &before));
        assert_eq!(kit.task(id).await, before);
        if state == State::Pending {
            kit.claim(id).await;
        }
    }
    assert_eq!(kit.reasons(id).await, [Reason::Scheduled, Reason::Claimed]);
}

/// `replace` gives the pending task the new time, payload, lane and policy, and its attempts anew.
pub async fn replace_changes_a_pending_task(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let (id, lease) = kit.running("a").await;
    let later_ms = kit.now() + 1_000;
    kit.settle(id, lease, Verdict::Retry { at_ms: later_ms }, Some("first")).await.unwrap();
    let before = kit.task(id).await;
    assert_eq!(before.head.attempt, 1);
    kit.clock.advance_ms(10);
    let new = NewTask {
        due_ms: kit.now() + 9_000,
        payload: Some(r#""new""#.into()),
        priority: Priority::High,
        retry: Some("never".into()),
        on_conflict: OnConflict::Replace,
        actor: Some("clerk".into()),
        ..kit.new_task("a")
    };
    let (same, existing) = existing_of(kit.write(Write::Schedule(new.clone())).await);
    assert_eq!(same, id);
    assert_eq!(existing, kit.task(id).await, "the answer is the task as it is now");
    assert_eq!(existing.head, Head { due_ms: new.due_ms, attempt: 0, seq: 4, ..before.head });
    assert_eq!(
        (existing.payload, existing.priority, existing.retry),
        (new.payload, Priority::High, new.retry)
    );
    assert_eq!((existing.created_ms, existing.committed_ms), (before.created_ms, before.committed_ms));
    let last = kit.trail(id).await.pop().unwrap();
    assert_eq!((last.step.reason, last.actor.as_deref()), (Reason::Replaced, Some("clerk")));
}

/// A running task keeps running as it is.
pub async fn replace_of_a_running_task_is_refused(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let (id, _) = kit.running("a").await;
    let before = kit.task(id).await;
    let new = NewTask { on_conflict: OnConflict::Replace, payload: Some("1".into()), ..kit.new_task("a") };
    let refusal = kit.write(Write::Schedule(new)).await.unwrap_err();
    assert_eq!(refusal, Refusal::IllegalState(State::Running));
    assert_eq!(kit.task(id).await, before);
}

/// `reject` refuses, and says which task it is.
pub async fn reject_names_the_task_that_has_the_key(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let id = kit.schedule("a").await;
    let before = kit.task(id).await;
    let new = NewTask { on_conflict: OnConflict::Reject, ..kit.new_task("a") };
    for _ in 0..2 {
        let refusal = kit.write(Write::Schedule(new.clone())).await.unwrap_err();
        assert_eq!(refusal, Refusal::KeyTaken(id));
    }
    assert_eq!(kit.task(id).await, before);
    kit.acted(id, Command::Cancel { unstarted: None }).await;
    kit.schedule_new(new).await;
}

/// Whatever the end was, the key can be scheduled again, and the ended task stays as it was.
pub async fn a_key_is_free_again_after_the_end(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let mut ended = Vec::new();
    for verdict in [Some(Verdict::Done), Some(Verdict::Exhausted), Some(Verdict::Permanent), None] {
        let id = kit.schedule("a").await;
        match verdict {
            Some(verdict) => {
                let lease = kit.claim(id).await;
                kit.settle(id, lease, verdict, None).await.unwrap();
            }
            None => {
                kit.acted(id, Command::Cancel { unstarted: None }).await;
            }
        }
        let task = kit.task(id).await;
        assert!(!task.head.state.is_live());
        ended.push(task);
    }
    let live = kit.schedule("a").await;
    for task in &ended {
        assert_eq!(&kit.task(task.id).await, task);
    }
    assert_eq!(kit.task(live).await.head.state, State::Pending);
}

/// Case, accents, spaces and queues tell keys apart: no collation is at work.
pub async fn keys_are_compared_byte_by_byte(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(Arc::clone(&store), clock).await;
    let other = super::kit::put_queue(&*store, "other").await;
    let longest = "é".repeat(KEY_BYTES_MAX / 2);
    let one_less = "é".repeat(KEY_BYTES_MAX / 2 - 1);
    let keys = [
        "order",
        "Order",
        "order ",
        " order",
        "orde",
        "caf\u{e9}",
        "cafe\u{301}",
        "cafe",
        "ſ",
        "s",
        "ß",
        "ss",
        "订单-17",
        "订单-１７",
        "🚚",
        "🚚🚚",
        "a%b",
        "a_b",
        "a'b\"c\\d",
        "0",
        "00",
        "1e0",
        "1",
        &longest,
        &one_less,
    ];
    for key in keys {
        let id = kit.schedule(key).await;
        let in_other = kit.schedule_new(NewTask { queue: other, ..kit.new_task(key) }).await;
        assert_eq!(kit.task(id).await.key, key);
        assert_ne!(id, in_other);
        for (queue, expected) in [(kit.queue, id), (other, in_other)] {
            let found = store.find(queue, key).await.unwrap().map(|task| task.id);
            assert_eq!(found, Some(expected), "{key:?}");
        }
    }
    assert_eq!(store.find(kit.queue, "absent").await.unwrap(), None);
}

/// A later write of a unit sees the earlier ones.
pub async fn one_key_twice_in_one_unit_is_one_task(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    for (atomic, key) in [(false, "a"), (true, "b")] {
        let writes = vec![Write::Schedule(kit.new_task(key)), Write::Schedule(kit.new_task(key))];
        let mut results = kit.submit(Unit { atomic, ..Unit::each(writes) }).await;
        let (same, _) = existing_of(results.remove(1));
        let first = results.remove(0);
        assert!(matches!(first, Ok(Written::Scheduled { id, created: true, .. }) if id == same), "{first:?}");
    }
}

/// Up to the longest payload, and whatever text it is.
pub async fn payloads_come_back_byte_by_byte(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let long = format!("\"{}\"", "x".repeat(PAYLOAD_BYTES_MAX - 2));
    let wide = format!("\"{}\"", "订".repeat((PAYLOAD_BYTES_MAX - 2) / 3));
    let payloads = [
        None,
        Some(""),
        Some("{}"),
        Some("\"\\u0000\""),
        Some(" [1, 2.50, 1e3]\n"),
        Some(&long),
        Some(&wide),
    ];
    for (n, payload) in payloads.into_iter().enumerate() {
        let payload = payload.map(str::to_owned);
        let new = NewTask { payload: payload.clone(), ..kit.new_task(&format!("p{n}")) };
        let id = kit.schedule_new(new).await;
        assert_eq!(kit.task(id).await.payload, payload);
        let claimed = kit.acted(id, kit.claiming()).await;
        assert_eq!(claimed.payload, payload, "a claim hands the payload over");
    }
}

/// Ids sort in the order of scheduling, even while the clock stands still or goes back.
pub async fn ids_grow_in_the_order_of_scheduling(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(store, clock).await;
    let mut last = None;
    for n in 0..20 {
        kit.clock.advance_ms(if n % 5 == 4 { -3 } else { n % 2 });
        let id = kit.schedule(&format!("k{n}")).await;
        assert!(Some(id) > last, "{id:?} after {last:?}");
        last = Some(id);
    }
}
