//! Queues, recurring schedules and API keys.

use super::kit::{Kit, head_of, put_queue};
use crate::roles::{KeyRow, RecurringRow, Store};
use crate::unit::{Act, StoreError, Unit, Write, Written};
use duebook_core::clock::SettableClock;
use duebook_core::queue::WebhookSpec;
use duebook_core::recurring::CatchUp;
use duebook_core::{Command, HandlerSpec, NewTask, OnConflict, QueueSettings, Refusal, State, Tier, Verdict};
use std::sync::Arc;

/// Settings come back as they were put; a queue keeps its number; `keep_existing` keeps.
pub async fn a_queue_is_put_and_kept(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(Arc::clone(&store), clock).await;
    let webhook =
        WebhookSpec { url: "https://example.test/订单?a=1".into(), secret: Some("whsec_c2VjcmV0".into()) };
    let settings = QueueSettings {
        tier: Tier::Db,
        handler: HandlerSpec::Webhook(webhook),
        retry: Some("busy".into()),
        concurrency: 7,
        timeout_ms: 1_234,
        rate_per_second: Some(0.1),
        paused: true,
    };
    let put = |name: &str, settings: &QueueSettings, keep_existing| Write::PutQueue {
        name: name.to_owned(),
        settings: settings.clone(),
        keep_existing,
    };
    let row = |written: Result<Written, Refusal>| match written {
        Ok(Written::Queue(row)) => row,
        other => panic!("not a queue: {other:?}"),
    };
    let made = row(kit.write(put("a.b_c-d:E", &settings, true)).await);
    assert_eq!((made.name.as_str(), &made.settings), ("a.b_c-d:E", &settings));
    assert_ne!(made.id, kit.queue);
    let kept = row(kit.write(put("a.b_c-d:E", &QueueSettings::default(), true)).await);
    assert_eq!(kept, made);
    let changed = row(kit.write(put("a.b_c-d:E", &QueueSettings::default(), false)).await);
    assert_eq!((changed.id, &changed.settings), (made.id, &QueueSettings::default()));
    let other_case = put_queue(&*store, "A.b_c-d:E").await;
    assert_ne!(other_case, made.id, "names are compared byte by byte");
    let queues = store.queues().await.unwrap();
    assert_eq!(queues.len(), 3);
    assert!(queues.contains(&changed));
}

fn every_minute(kit: &Kit) -> RecurringRow {
    RecurringRow {
        name: "sweep".into(),
        queue: kit.queue,
        cron: None,
        timezone: None,
        every_ms: Some(60_000),
        anchor_ms: -5,
        payload: Some(r#"{"a":"订"}"#.into()),
        catch_up: CatchUp::All,
        next_ms: Some(kit.now() + 60_000),
        updated_ms: kit.now(),
    }
}

/// Put, put again, delete; listed by name.
pub async fn a_recurring_schedule_is_put_and_deleted(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(Arc::clone(&store), clock).await;
    let interval = every_minute(&kit);
    assert_eq!(kit.count(Write::PutRecurring(interval.clone())).await, 1);
    assert_eq!(store.recurring().await.unwrap(), std::slice::from_ref(&interval));
    for catch_up in CatchUp::ALL {
        let cron = RecurringRow {
            cron: Some("*/5 0 * * 1-5".into()),
            timezone: Some("Asia/Shanghai".into()),
            every_ms: None,
            payload: None,
            catch_up,
            next_ms: None,
            ..interval.clone()
        };
        assert_eq!(kit.count(Write::PutRecurring(cron.clone())).await, 1);
        assert_eq!(store.recurring().await.unwrap(), [cron]);
    }
    let earlier = RecurringRow { name: "Alpha".into(), ..interval };
    kit.count(Write::PutRecurring(earlier)).await;
    let names: Vec<String> = store.recurring().await.unwrap().into_iter().map(|row| row.name).collect();
    assert_eq!(names, ["Alpha", "sweep"]);
    assert_eq!(kit.count(Write::DeleteRecurring("sweep".into())).await, 1);
    assert_eq!(kit.count(Write::DeleteRecurring("sweep".into())).await, 0);
    assert_eq!(store.recurring().await.unwrap().len(), 1);
}

/// Two nodes that both saw the same time fire it once; a deleted schedule does not fire.
pub async fn a_recurring_schedule_fires_once_per_time(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(Arc::clone(&store), clock).await;
    let row = every_minute(&kit);
    kit.count(Write::PutRecurring(row.clone())).await;
    let first_ms = row.next_ms.unwrap();
    let fire = |seen_next_ms: i64, next_ms| Write::FireRecurring {
        name: "sweep".into(),
        seen_next_ms,
        next_ms,
        tasks: vec![kit.new_task(&format!("sweep/{seen_next_ms}"))],
    };
    assert_eq!(kit.count(fire(first_ms - 1, Some(first_ms))).await, 0, "a time that it is not at");
    assert_eq!(kit.count(fire(first_ms, Some(first_ms + 60_000))).await, 1);
    assert_eq!(kit.count(fire(first_ms, Some(first_ms + 60_000))).await, 0, "the same time again");
    let expected = RecurringRow { next_ms: Some(first_ms + 60_000), ..row };
    assert_eq!(store.recurring().await.unwrap(), [expected]);
    assert_eq!(kit.count(fire(first_ms + 60_000, None)).await, 1);
    assert_eq!(store.recurring().await.unwrap()[0].next_ms, None);
    assert_eq!(kit.count(fire(first_ms + 120_000, None)).await, 0, "it has ended");
    kit.count(Write::DeleteRecurring("sweep".into())).await;
    assert_eq!(kit.count(fire(first_ms + 60_000, None)).await, 0, "it is gone");
    let pending = store.due_page(kit.queue, None, i64::MAX, 10).await.unwrap();
    assert_eq!(pending.len(), 2);
}

/// A key that has a live task is left out; the others are scheduled and the schedule moves on.
pub async fn a_fired_task_whose_key_is_taken_is_left_out(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(Arc::clone(&store), clock).await;
    let row = every_minute(&kit);
    kit.count(Write::PutRecurring(row.clone())).await;
    let (kept, rejected) = (kit.schedule("a").await, kit.schedule("b").await);
    let before = (kit.task(kept).await, kit.task(rejected).await);
    let fire = Write::FireRecurring {
        name: "sweep".into(),
        seen_next_ms: row.next_ms.unwrap(),
        next_ms: None,
        tasks: vec![
            NewTask { payload: Some("1".into()), ..kit.new_task("a") },
            NewTask { on_conflict: OnConflict::Reject, ..kit.new_task("b") },
            kit.new_task("c"),
            kit.new_task("c"),
        ],
    };
    assert_eq!(kit.count(fire).await, 1);
    assert_eq!((kit.task(kept).await, kit.task(rejected).await), before);
    assert!(store.find(kit.queue, "c").await.unwrap().is_some());
    assert_eq!(store.recurring().await.unwrap()[0].next_ms, None);
}

fn key_row(kit: &Kit, id: &str) -> KeyRow {
    KeyRow {
        id: id.into(),
        hash: format!("{id}-sha256"),
        name: "掌柜".into(),
        scopes: "read,write".into(),
        queues: "orders,sms".into(),
        created_ms: kit.now(),
        revoked_ms: None,
    }
}

/// A key comes back whole; it is revoked once, and stays listed.
pub async fn an_api_key_is_put_and_revoked(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(Arc::clone(&store), clock).await;
    let (a, b) = (key_row(&kit, "a"), key_row(&kit, "b"));
    assert_eq!(kit.count(Write::PutKey(a.clone())).await, 1);
    assert_eq!(kit.count(Write::PutKey(b.clone())).await, 1);
    let revoke = |id: &str, now_ms| Write::RevokeKey { id: id.into(), now_ms };
    assert_eq!(kit.count(revoke("a", kit.now() + 5)).await, 1);
    assert_eq!(kit.count(revoke("a", kit.now() + 9)).await, 0, "once");
    assert_eq!(kit.count(revoke("c", kit.now())).await, 0);
    let mut keys = store.keys().await.unwrap();
    keys.sort_by(|x, y| x.id.cmp(&y.id));
    assert_eq!(keys, [KeyRow { revoked_ms: Some(kit.now() + 5), ..a }, b]);
}

/// A second key with the same id or hash fails the unit, and the first stays as it was.
pub async fn an_api_key_is_never_replaced(store: Arc<dyn Store>, clock: Arc<SettableClock>) {
    let kit = Kit::new(Arc::clone(&store), clock).await;
    let first = key_row(&kit, "a");
    kit.count(Write::PutKey(first.clone())).await;
    let same_id = KeyRow { hash: "other".into(), scopes: "admin".into(), ..first.clone() };
    let same_hash = KeyRow { id: "b".into(), ..first.clone() };
    for second in [same_id, same_hash] {
        let waiting = kit.schedule("claimed with it").await;
        let (held, lease) = kit.running("settled with it").await;
        let before = (kit.task(waiting).await, kit.task(held).await);
        let done = Command::Settle { lease, verdict: Verdict::Done, started_ms: kit.now() };
        let unit = Unit::each(vec![
            Write::Schedule(kit.new_task("with it")),
            Write::Act(Act::own(waiting, kit.claiming())),
            Write::Act(Act::own(held, done)),
            Write::PutKey(second),
        ]);
        let neighbour = store.submit(Unit::one(Write::Schedule(kit.new_task("beside it"))));
        let (failed, neighbour) = tokio::join!(store.submit(unit), neighbour);
        assert!(matches!(failed, Err(StoreError::Backend(_))), "{failed:?}");
        assert!(neighbour.unwrap()[0].is_ok());
        assert_eq!(store.keys().await.unwrap(), std::slice::from_ref(&first));
        assert_eq!(store.find(kit.queue, "with it").await.unwrap(), None, "no write of a failed unit");
        assert_eq!((kit.task(waiting).await, kit.task(held).await), before);
        // Nor is any of it remembered: both go on from where they were.
        let cancelled = kit.acted(waiting, Command::Cancel { unstarted: None }).await;
        assert_eq!(cancelled.head.state, State::Cancelled);
        assert_eq!(head_of(kit.act(held, done).await).0, State::Succeeded);
    }
}
