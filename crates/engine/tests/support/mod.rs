//! A node in virtual time, handlers that write down what they saw, and an endpoint for webhooks.

mod endpoint;
mod virtual_time;

use duebook_core::random::split_mix;
use duebook_core::retry::FailureClass;
use duebook_core::{Clock, HandlerSpec, OnConflict, Priority, QueueSettings, Task, TaskId};
use duebook_engine::{Engine, EngineConfig, FromFn, Job, Observer, Outcome, ScheduleRequest};
use duebook_store::faulty::{Faults, Faulty};
use duebook_store::memory::MemoryStore;
use duebook_store::{BoxFuture, Reader};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) use endpoint::{Answer, Call, Endpoint};
pub(crate) use virtual_time::START_MS;
use virtual_time::{Node, VirtualClock};

pub(crate) const QUEUE: &str = "q";

/// A start of a handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) key: String,
    pub(crate) at_ms: i64,
    pub(crate) attempt: u32,
}

/// More turns than this are a loop without a rest, in which virtual time would stand still for ever.
const TURNS_MAX: usize = 200_000;

/// What the engine told of its memory.
#[derive(Default)]
pub(crate) struct Seen {
    turns: AtomicUsize,
    hints_max: AtomicUsize,
    workers_max: AtomicUsize,
}

impl Seen {
    /// Turns of runners.
    pub(crate) fn turns(&self) -> usize {
        self.turns.load(Ordering::Relaxed)
    }

    /// Most tasks that a source held in memory.
    pub(crate) fn hints_max(&self) -> usize {
        self.hints_max.load(Ordering::Relaxed)
    }

    /// Most workers in the pool.
    pub(crate) fn workers_max(&self) -> usize {
        self.workers_max.load(Ordering::Relaxed)
    }
}

impl Observer for Seen {
    fn queue(&self, _queue: &str, hints: usize, _held: usize) {
        self.hints_max.fetch_max(hints, Ordering::Relaxed);
        assert!(self.turns.fetch_add(1, Ordering::Relaxed) < TURNS_MAX, "a runner that never rests");
    }

    fn pool(&self, workers: usize, _busy: usize, _waiting: usize) {
        self.workers_max.fetch_max(workers, Ordering::Relaxed);
    }
}

pub(crate) struct World {
    pub(crate) store: Arc<MemoryStore>,
    faulty: Arc<Faulty<MemoryStore>>,
    runtime: Arc<Node>,
    pub(crate) seen: Arc<Seen>,
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) engine: Engine,
    pub(crate) starts: Arc<Mutex<Vec<Start>>>,
}

pub(crate) fn in_process() -> QueueSettings {
    QueueSettings { handler: HandlerSpec::Inprocess, ..QueueSettings::default() }
}

pub(crate) fn request(key: &str, due_ms: i64) -> ScheduleRequest {
    ScheduleRequest {
        queue: QUEUE.into(),
        key: key.into(),
        due_ms,
        payload: None,
        priority: Priority::Normal,
        retry: None,
        on_conflict: OnConflict::Keep,
        trace_id: None,
        actor: None,
    }
}

impl World {
    pub(crate) async fn new(config: EngineConfig, settings: QueueSettings) -> Self {
        let clock = Arc::new(VirtualClock::new());
        let store = Arc::new(MemoryStore::new(Arc::clone(&clock) as _));
        let world = Self::start(clock, store, config).await;
        world.engine.put_queue(QUEUE, settings).await.unwrap();
        world
    }

    async fn start(clock: Arc<VirtualClock>, store: Arc<MemoryStore>, config: EngineConfig) -> Self {
        let draws = AtomicU64::new(1);
        let random = move || split_mix(draws.fetch_add(1, Ordering::Relaxed));
        let runtime = Arc::new(Node::new(Arc::clone(&clock), random));
        let sleep =
            Arc::new(|ms| Box::pin(tokio::time::sleep(Duration::from_millis(ms))) as BoxFuture<'static, ()>);
        let faulty = Arc::new(Faulty::new(Arc::clone(&store), 1, Faults::default(), sleep));
        let seen = Arc::new(Seen::default());
        let engine = Engine::start(
            Arc::clone(&faulty) as _,
            Arc::clone(&runtime) as _,
            config,
            Arc::clone(&seen) as _,
        )
        .await
        .unwrap();
        Self { store, faulty, runtime, seen, clock, engine, starts: Arc::default() }
    }

    /// Makes every read of the store fail, or none.
    pub(crate) fn fail_reads(&self, fail: bool) {
        self.faulty.set_faults(Faults { fail_read: if fail { 1_000 } else { 0 }, ..Faults::default() });
    }

    /// Stops the node and starts another one on the same store, `down_ms` later.
    pub(crate) async fn restart(self, config: EngineConfig, down_ms: u64) -> Self {
        self.engine.stop(0).await;
        self.store.reopen();
        tokio::time::sleep(Duration::from_millis(down_ms)).await;
        Self::start(self.clock, self.store, config).await
    }

    /// Kills the node in the middle of what it does and starts another one on the same store.
    pub(crate) async fn kill(self, config: EngineConfig, down_ms: u64) -> Self {
        self.runtime.kill();
        tokio::task::yield_now().await;
        self.store.reopen();
        tokio::time::sleep(Duration::from_millis(down_ms)).await;
        Self::start(self.clock, self.store, config).await
    }

    /// A handler that takes `ms` and then says what `outcome` says.
    pub(crate) fn handle(&self, ms: u64, outcome: impl Fn(&Job) -> Outcome + Send + Sync + 'static) {
        let (starts, clock) = (Arc::clone(&self.starts), Arc::clone(&self.clock));
        let outcome = Arc::new(outcome);
        self.engine.register(
            QUEUE,
            Arc::new(FromFn(move |job: Arc<Job>| {
                starts.lock().unwrap().push(Start {
                    key: job.task.key.clone(),
                    at_ms: clock.now_ms() - START_MS,
                    attempt: job.task.head.attempt,
                });
                let outcome = Arc::clone(&outcome);
                async move {
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                    outcome(&job)
                }
            })),
        );
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    /// Schedules a task `delay_ms` ahead.
    pub(crate) async fn schedule(&self, key: &str, delay_ms: i64) -> TaskId {
        self.submit(request(key, self.now_ms() + delay_ms)).await
    }

    pub(crate) async fn submit(&self, request: ScheduleRequest) -> TaskId {
        self.engine.schedule(vec![request]).await.unwrap().remove(0).unwrap().id
    }

    pub(crate) async fn task(&self, id: TaskId) -> Task {
        self.store.task(id).await.unwrap().unwrap()
    }

    pub(crate) fn starts(&self) -> Vec<Start> {
        self.starts.lock().unwrap().clone()
    }

    pub(crate) fn starts_of(&self, key: &str) -> Vec<i64> {
        self.starts().iter().filter(|start| start.key == key).map(|start| start.at_ms).collect()
    }

    /// Lets virtual time pass.
    pub(crate) async fn pass(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    /// How late each start was that is written `name@due` in its task's key.
    pub(crate) fn lateness(&self) -> Vec<i64> {
        let due_ms = |key: &str| key.split_once('@').unwrap().1.parse::<i64>().unwrap();
        self.starts().iter().map(|start| start.at_ms - due_ms(&start.key)).collect()
    }

    /// Schedules tasks `name@due`, in one request.
    pub(crate) async fn schedule_all(&self, name: &str, delays_ms: impl Iterator<Item = i64>) {
        let now_ms = self.now_ms();
        let requests = delays_ms
            .enumerate()
            .map(|(number, delay_ms)| {
                let due_ms = now_ms + delay_ms;
                request(&format!("{name}{number}@{}", due_ms - START_MS), due_ms)
            })
            .collect();
        for answer in self.engine.schedule(requests).await.unwrap() {
            answer.unwrap();
        }
    }

    /// The reasons on a task's trail.
    pub(crate) async fn story(&self, id: TaskId) -> Vec<&'static str> {
        let trail = self.store.trail(id, 0, 1_000).await.unwrap();
        trail.iter().map(|entry| entry.step.reason.as_str()).collect()
    }
}

/// Waits for a condition, in real time.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..2_000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("not within ten seconds: {what}");
}

pub(crate) fn done(_: &Job) -> Outcome {
    Outcome::Done
}

pub(crate) fn transient(_: &Job) -> Outcome {
    Outcome::failed(FailureClass::Transient, "planted")
}
