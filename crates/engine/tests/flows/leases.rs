//! Pulled leases.

use crate::support::{QUEUE, World};
use duebook_core::retry::FailureClass;
use duebook_core::{LeaseKey, QueueSettings, Refusal, State};
use duebook_engine::{EngineConfig, LeaseRequest, Leased, Outcome, SettleRequest, TaskRef};

fn ask(max: usize, wait_ms: u64) -> LeaseRequest {
    LeaseRequest { worker: "w".into(), max, wait_ms, lease_ms: 1_000 }
}

fn settle(leased: &Leased, outcome: Outcome) -> Vec<SettleRequest> {
    vec![SettleRequest { id: leased.job.task.id, lease: leased.job.lease, outcome }]
}

async fn world() -> World {
    World::new(EngineConfig::default(), QueueSettings::default()).await
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_answers_at_the_due_time_and_a_settle_ends_the_task() {
    let world = world().await;
    let id = world.schedule("t", 700).await;
    let asked_ms = world.now_ms();
    let leased = world.engine.lease(QUEUE, ask(10, 30_000)).await.unwrap();
    let waited_ms = world.now_ms() - asked_ms;
    assert!((700..705).contains(&waited_ms), "answered after {waited_ms} ms");
    assert_eq!(leased.len(), 1);
    let answers = world.engine.settle(settle(&leased[0], Outcome::Done)).await.unwrap();
    assert_eq!(answers, [Ok(())]);
    assert_eq!(world.task(id).await.head.state, State::Succeeded);
    world.pass(10).await;
    let again = world.engine.settle(settle(&leased[0], Outcome::Done)).await.unwrap();
    assert_eq!(again, [Err(Refusal::LeaseLost)]);
}

#[tokio::test(start_paused = true)]
async fn a_poll_without_a_wait_answers_at_once_with_what_is_due() {
    let world = world().await;
    world.pass(100).await;
    assert!(world.engine.lease(QUEUE, ask(10, 0)).await.unwrap().is_empty());
    for number in 0..25 {
        world.schedule(&format!("t{number}"), 0).await;
    }
    world.pass(100).await;
    let asked_ms = world.now_ms();
    assert_eq!(world.engine.lease(QUEUE, ask(10, 0)).await.unwrap().len(), 10);
    assert!(world.now_ms() - asked_ms < 50);
    let (a, b) =
        tokio::join!(world.engine.lease(QUEUE, ask(10, 100)), world.engine.lease(QUEUE, ask(10, 100)));
    assert_eq!(a.unwrap().len() + b.unwrap().len(), 15);
    let asked_ms = world.now_ms();
    assert!(world.engine.lease(QUEUE, ask(10, 300)).await.unwrap().is_empty());
    assert!((300..330).contains(&(world.now_ms() - asked_ms)));
}

#[tokio::test(start_paused = true)]
async fn a_poll_that_goes_away_loses_nothing() {
    let world = world().await;
    let id = world.schedule("t", 500).await;
    {
        let gone = world.engine.lease(QUEUE, ask(10, 30_000));
        assert!(tokio::time::timeout(std::time::Duration::from_millis(450), gone).await.is_err());
    }
    world.pass(4_000).await;
    let leased = world.engine.lease(QUEUE, ask(10, 1_000)).await.unwrap();
    assert_eq!(leased.iter().map(|leased| leased.job.task.id).collect::<Vec<_>>(), [id]);
    assert_eq!(leased[0].job.task.head.attempt, 1, "the claim for the one who left does not count");
}

#[tokio::test(start_paused = true)]
async fn a_silent_worker_loses_its_lease_and_its_late_settle_is_refused() {
    let world = world().await;
    let id = world.schedule("t", 0).await;
    let first = world.engine.lease(QUEUE, ask(1, 5_000)).await.unwrap().remove(0);
    let second = world.engine.lease(QUEUE, ask(1, 10_000)).await.unwrap().remove(0);
    assert_eq!((second.job.task.id, second.job.task.head.attempt), (id, 2));
    let late = world.engine.settle(settle(&first, Outcome::Done)).await.unwrap();
    assert_eq!(late, [Err(Refusal::LeaseLost)]);
    assert_eq!(world.engine.settle(settle(&second, Outcome::Done)).await.unwrap(), [Ok(())]);
    assert_eq!(world.story(id).await, ["scheduled", "claimed", "lease_lost", "claimed", "done"]);
}

#[tokio::test(start_paused = true)]
async fn an_extended_lease_holds_and_tells_of_a_cancel() {
    let world = world().await;
    let id = world.schedule("t", 0).await;
    let leased = world.engine.lease(QUEUE, ask(1, 5_000)).await.unwrap().remove(0);
    for turn in 0..5 {
        world.pass(500).await;
        if turn == 3 {
            world.engine.cancel(&TaskRef::Id(id), None, None).await.unwrap();
        }
        let answers = world.engine.extend(vec![(id, leased.job.lease)], 1_000).await.unwrap();
        assert_eq!(answers[0].map(|extension| extension.cancel_requested), Ok(turn >= 3), "turn {turn}");
    }
    let failed = Outcome::failed(FailureClass::Transient, "stopped as asked");
    assert_eq!(world.engine.settle(settle(&leased, failed)).await.unwrap(), [Ok(())]);
    assert_eq!(world.task(id).await.head.state, State::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn each_puller_has_its_own_lease_length() {
    let world = world().await;
    let (brief, long) = (ask(1, 5_000), LeaseRequest { lease_ms: 8_000, ..ask(1, 5_000) });
    for [first, second] in [[&brief, &long], [&long, &brief]] {
        for key in ["a", "b"] {
            world.schedule(key, 300).await;
        }
        let (first, second) =
            tokio::join!(world.engine.lease(QUEUE, first.clone()), world.engine.lease(QUEUE, second.clone()));
        let leased = [first.unwrap().remove(0), second.unwrap().remove(0)];
        let now_ms = world.now_ms();
        world.pass(7_000).await;
        let mut held = 0;
        for leased in &leased {
            let settled = world.engine.settle(settle(leased, Outcome::Done)).await.unwrap();
            held += usize::from(settled == [Ok(())]);
            let asked_ms = leased.until_ms - now_ms;
            assert!(asked_ms >= 1_000, "{asked_ms}");
        }
        assert!(leased.iter().any(|leased| leased.until_ms - now_ms >= 8_000));
        assert!(held >= 1, "the longer lease was lost");
        // What the other one lost is there again.
        for leased in world.engine.lease(QUEUE, ask(10, 5_000)).await.unwrap() {
            assert_eq!(leased.job.task.head.attempt, 2);
            assert_eq!(world.engine.settle(settle(&leased, Outcome::Done)).await.unwrap(), [Ok(())]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_settle_of_a_lease_that_never_was_is_refused_and_harms_nobody() {
    let world = world().await;
    let id = world.schedule("t", 0).await;
    let leased = world.engine.lease(QUEUE, ask(1, 5_000)).await.unwrap().remove(0);
    let forged = LeaseKey { token: leased.job.lease.token + 1, ..leased.job.lease };
    let request = SettleRequest { id, lease: forged, outcome: Outcome::Done };
    let both = [vec![request], settle(&leased, Outcome::Done)].concat();
    let answers = world.engine.settle(both).await.unwrap();
    assert_eq!(answers, [Err(Refusal::LeaseLost), Ok(())]);
    let answers = world.engine.extend(vec![(id, forged)], 1_000).await.unwrap();
    assert!(matches!(answers[..], [Err(_)]), "{answers:?}");
}

#[tokio::test(start_paused = true)]
async fn handed_out_leases_count_against_the_concurrency() {
    let world =
        World::new(EngineConfig::default(), QueueSettings { concurrency: 3, ..QueueSettings::default() })
            .await;
    for number in 0..5 {
        world.schedule(&format!("t{number}"), 0).await;
    }
    let three = world.engine.lease(QUEUE, LeaseRequest { lease_ms: 60_000, ..ask(10, 1_000) }).await.unwrap();
    assert_eq!(three.len(), 3);
    assert!(world.engine.lease(QUEUE, ask(10, 1_000)).await.unwrap().is_empty());
    world.engine.settle(settle(&three[0], Outcome::Done)).await.unwrap();
    assert_eq!(world.engine.lease(QUEUE, ask(10, 1_000)).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_poll_of_a_paused_queue_is_answered_at_the_end_of_its_wait() {
    let settings = QueueSettings { paused: true, ..QueueSettings::default() };
    let world = World::new(EngineConfig::default(), settings).await;
    world.schedule("t", 0).await;
    for wait_ms in [0, 700, 20_000] {
        let asked_ms = world.now_ms();
        assert!(world.engine.lease(QUEUE, ask(1, wait_ms)).await.unwrap().is_empty());
        let waited_ms = u64::try_from(world.now_ms() - asked_ms).unwrap();
        assert!((wait_ms..wait_ms + 20).contains(&waited_ms), "{waited_ms} ms instead of {wait_ms}");
    }
    let (leased, resumed) =
        tokio::join!(world.engine.lease(QUEUE, ask(1, 5_000)), world.engine.set_paused(QUEUE, false));
    resumed.unwrap();
    assert_eq!(leased.unwrap().len(), 1);
}
