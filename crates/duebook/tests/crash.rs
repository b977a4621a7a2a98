//! The crash test: the real binary under a load of schedules, cancels, reschedules and retries, killed with
//! `kill -9` at random moments and started again. At the end a checker holds the client's own log against every
//! task and its trail.
//!
//! `DUEBOOK_CRASH_KILLS=N` sets the number of kills (30), `DUEBOOK_SEED=N` the seed.

#[path = "support/mod.rs"]
mod support;

use duebook_client::{
    Client, Error, LeasedTask, NewTask, Outcome, QueueSettings, RetryPolicy, State, TrailEntry, Worker,
};
use duebook_core::random::{SPLIT_MIX_STEP, split_mix};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use support::Node;

const QUEUE: &str = "crash";
/// Every failure of this test's handlers is retried soon, and interruptions do not bury a task.
const CONFIG: &str = "[retry.soon]\ndelays_ms = [20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, \
     20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20]\n";

#[allow(clippy::disallowed_methods)] // the client's own clock
fn now_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis())
        .expect("fits")
}

struct Dice(AtomicU64);

impl Dice {
    fn roll(&self, below: u64) -> u64 {
        split_mix(self.0.fetch_add(SPLIT_MIX_STEP, Ordering::Relaxed)) % below
    }
}

/// What the client knows: only what it was told, and what its handlers saw.
#[derive(Default)]
struct Log {
    /// Acknowledged schedules: id → key.
    scheduled: HashMap<String, String>,
    /// Acknowledged outright cancels: id → when the answer came.
    cancelled: HashMap<String, i64>,
    /// Acknowledged reschedules: (id, due).
    rescheduled: Vec<(String, i64)>,
    /// Handler starts: (id, attempt, when).
    starts: Vec<(String, u32, i64)>,
    /// Permanent failures that handlers answered.
    permanent: HashMap<String, ()>,
    unknown: usize,
}

struct World {
    client: Client,
    dice: Dice,
    log: Mutex<Log>,
    done: AtomicBool,
    next: AtomicU64,
}

impl World {
    fn log(&self) -> std::sync::MutexGuard<'_, Log> {
        self.log.lock().expect("no checker panics while it holds the log")
    }

    /// One operation; an error without an answer leaves open what happened.
    async fn operate(&self) {
        let known = {
            let log = self.log();
            let count = log.scheduled.len() as u64;
            let pick = if count == 0 { 0 } else { self.dice.roll(count) };
            log.scheduled.keys().nth(usize::try_from(pick).expect("fits")).cloned()
        };
        match (self.dice.roll(10), known) {
            (0, Some(id)) => match self.client.cancel(&id).await {
                Ok(task) if task.state == State::Cancelled => {
                    self.log().cancelled.entry(id).or_insert_with(now_ms);
                }
                Ok(_) | Err(Error::Problem(_)) => {}
                Err(_) => self.log().unknown += 1,
            },
            (1, Some(id)) => {
                let due_ms = now_ms() + i64::try_from(self.dice.roll(800)).expect("fits");
                let due = duebook_client::Timestamp::from_ms(due_ms);
                match self.client.reschedule(&id, due).await {
                    Ok(_) => self.log().rescheduled.push((id, due_ms)),
                    Err(Error::Problem(_)) => {}
                    Err(_) => self.log().unknown += 1,
                }
            }
            _ => {
                let keys: Vec<String> = (0..1 + self.dice.roll(20))
                    .map(|_| format!("order-{}", self.next.fetch_add(1, Ordering::Relaxed)))
                    .collect();
                let batch: Vec<NewTask> = keys
                    .iter()
                    .map(|key| {
                        let delay = Duration::from_millis(self.dice.roll(1_500));
                        NewTask::new(QUEUE, key.clone(), delay).retry("soon")
                    })
                    .collect();
                match self.client.schedule_batch(&batch).await {
                    Ok(items) => {
                        let mut log = self.log();
                        for (item, key) in items.into_iter().zip(&keys) {
                            let (id, created) = item_id(item);
                            assert!(created, "every key is new");
                            log.scheduled.insert(id, key.clone());
                        }
                    }
                    Err(Error::Problem(problem)) if problem.status < 500 && problem.status != 429 => {
                        panic!("a good batch was refused: {problem:?}");
                    }
                    Err(_) => self.log().unknown += 1,
                }
            }
        }
    }
}

fn item_id(item: duebook_client::BatchItem) -> (String, bool) {
    match item {
        duebook_client::BatchItem::Scheduled { id, created } => (id, created),
        other => panic!("an item was refused: {other:?}"),
    }
}

async fn wait_ready(client: &Client) {
    for _ in 0..2_000 {
        if client.readyz().await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the node was not ready within 10 s");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_and_restart_keep_every_promise() {
    let number =
        |name: &str, default| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (kills, seed) = (number("DUEBOOK_CRASH_KILLS", 30), number("DUEBOOK_SEED", 1));
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let config = support::config(folder.path(), CONFIG);
    let mut node = Node::start(&data, 0, Some(&config));
    let port = node.port();
    let client = Client::builder(&node.url).retry(RetryPolicy::off()).build().expect("a client");
    wait_ready(&client).await;
    client.put_queue(QUEUE, &QueueSettings::new().concurrency(200)).await.expect("a queue");

    let world = Arc::new(World {
        client: client.clone(),
        dice: Dice(AtomicU64::new(seed)),
        log: Mutex::default(),
        done: AtomicBool::new(false),
        next: AtomicU64::new(0),
    });
    let load: Vec<_> = (0..4)
        .map(|_| {
            let world = Arc::clone(&world);
            tokio::spawn(async move {
                while !world.done.load(Ordering::Relaxed) {
                    world.operate().await;
                    tokio::time::sleep(Duration::from_millis(world.dice.roll(12))).await;
                }
            })
        })
        .collect();
    let worker = Worker::new(client.clone(), QUEUE).name("crash-worker").concurrency(64).lease_ms(5_000);
    let stop = worker.stop_handle();
    let handling = Arc::clone(&world);
    let working = tokio::spawn(worker.run(move |task: LeasedTask, _context| {
        let world = Arc::clone(&handling);
        async move {
            world.log().starts.push((task.id.clone(), task.attempt, now_ms()));
            tokio::time::sleep(Duration::from_millis(world.dice.roll(30))).await;
            match world.dice.roll(20) {
                0..=2 => Outcome::transient("planted failure"),
                3 => {
                    world.log().permanent.insert(task.id.clone(), ());
                    Outcome::permanent("planted permanent failure")
                }
                _ => Outcome::Done,
            }
        }
    }));

    for _ in 0..kills {
        tokio::time::sleep(Duration::from_millis(50 + world.dice.roll(400))).await;
        node.kill();
        node = Node::start(&data, port, Some(&config));
    }
    world.done.store(true, Ordering::Relaxed);
    for task in load {
        task.await.expect("the load runs to its end");
    }
    wait_ready(&client).await;
    wait_for_the_end(&client).await;
    stop.stop();
    working.await.expect("the worker ends").expect("without an error");
    check(&world).await;
}

async fn wait_for_the_end(client: &Client) {
    for _ in 0..1_200 {
        let status = client.queue(QUEUE).await.expect("the node answers");
        let live = status.depth["pending"] + status.depth["running"];
        if live == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("tasks still live a minute after the last kill: {:?}", client.queue(QUEUE).await);
}

/// The state machine once more, as an outsider reads it from the documentation.
fn is_edge(from: Option<State>, to: State) -> bool {
    use State::{Cancelled, Dead, Pending, Running, Succeeded};
    match from {
        None => to == Pending,
        Some(Pending) => matches!(to, Pending | Running | Cancelled),
        Some(Running) => matches!(to, Running | Pending | Succeeded | Dead),
        Some(Dead) => to == Pending,
        Some(_) => false,
    }
}

async fn check(world: &World) {
    let (scheduled, cancelled, rescheduled, starts, permanent) = {
        let mut log = world.log();
        let log = std::mem::take(&mut *log);
        println!(
            "{} schedules, {} cancels, {} reschedules acknowledged; {} unknown; {} handler starts",
            log.scheduled.len(),
            log.cancelled.len(),
            log.rescheduled.len(),
            log.unknown,
            log.starts.len()
        );
        assert!(
            log.scheduled.len() > 500 && log.cancelled.len() > 10 && log.unknown > 0,
            "too little happened"
        );
        (log.scheduled, log.cancelled, log.rescheduled, log.starts, log.permanent)
    };
    let mut states: HashMap<State, usize> = HashMap::new();
    let mut trails: HashMap<&str, Vec<TrailEntry>> = HashMap::new();
    for (id, key) in &scheduled {
        let task =
            world.client.task(id).await.unwrap_or_else(|error| panic!("{key} ({id}) is gone: {error}"));
        assert_eq!(&task.key, key);
        *states.entry(task.state).or_default() += 1;
        let trail = world.client.trail(id).await.expect("a trail").items;
        let mut state = None;
        for (seq, entry) in (1u32..).zip(&trail) {
            assert_eq!((entry.seq, entry.from), (seq, state), "{key}: the trail has a gap: {trail:#?}");
            assert!(is_edge(entry.from, entry.to), "{key}: an illegal step: {trail:#?}");
            state = Some(entry.to);
        }
        assert_eq!(state, Some(task.state), "{key}: the trail does not lead to its state");
        assert!(
            matches!(task.state, State::Succeeded | State::Dead | State::Cancelled),
            "{key} never came to its end: {task:?}"
        );
        if task.state == State::Dead {
            // The policy has more attempts than there are kills, so only the handler's word buries a task.
            assert!(permanent.contains_key(id), "{key} is dead without a permanent failure: {trail:#?}");
        }
        if task.state == State::Succeeded {
            assert!(starts.iter().any(|(started, ..)| started == id), "{key} succeeded without a handler");
        }
        trails.insert(id, trail);
    }
    for (id, at_ms) in &cancelled {
        let trail = &trails[id.as_str()];
        assert_eq!(trail.last().map(|entry| entry.to), Some(State::Cancelled), "{id}: {trail:#?}");
        let late: Vec<_> =
            starts.iter().filter(|(started, _, start_ms)| started == id && start_ms > at_ms).collect();
        assert!(
            late.is_empty(),
            "{id} was cancelled at {at_ms} and started afterwards: {late:?}\n{trail:#?}"
        );
    }
    for (id, due_ms) in &rescheduled {
        let seen = trails[id.as_str()].iter().any(|entry| {
            entry.reason == "rescheduled" && entry.due_at.is_some_and(|due| due.as_ms() == *due_ms)
        });
        assert!(seen, "{id}: the reschedule to {due_ms} was acknowledged and is not on the trail");
    }
    // Every start has its claim, and none comes before the due time that was claimed. An attempt's number may
    // come twice only if the first claim was given back unstarted.
    for (id, attempt, start_ms) in &starts {
        let Some(trail) = trails.get(id.as_str()) else { continue };
        let due_ms = trail
            .iter()
            .filter(|entry| entry.reason == "claimed" && entry.attempt == *attempt)
            .filter_map(|entry| entry.due_at.map(|due| due.as_ms()))
            .min();
        let due_ms = due_ms.unwrap_or_else(|| panic!("{id}: attempt {attempt} started without a claim"));
        assert!(start_ms >= &due_ms, "{id}: attempt {attempt} started {} ms early", due_ms - start_ms);
    }
    println!("{states:?}");
}
