//! Pulled leases.

use crate::world::{QUEUE, World};
use duebook_core::retry::FailureClass;
use duebook_core::{QueueSettings, Refusal, State};
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
