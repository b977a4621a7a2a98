//! A node in virtual time, and handlers that write down what they saw.

use duebook_core::retry::FailureClass;
use duebook_core::{Clock, HandlerSpec, OnConflict, Priority, QueueSettings, Task, TaskId};
use duebook_engine::runtime::split_mix;
use duebook_engine::{Engine, EngineConfig, FromFn, Job, Outcome, Runtime, ScheduleRequest, Silent};
use duebook_store::memory::MemoryStore;
use duebook_store::{BoxFuture, Reader};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

pub(crate) const START_MS: i64 = 1_800_000_000_000;
pub(crate) const QUEUE: &str = "q";

pub(crate) struct VirtualClock(Instant);

impl Clock for VirtualClock {
    fn now_us(&self) -> i64 {
        START_MS * 1000 + i64::try_from(self.0.elapsed().as_micros()).unwrap()
    }
}

struct Virtual {
    clock: Arc<VirtualClock>,
    random: AtomicU64,
}

impl Runtime for Virtual {
    fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    fn sleep_us(&self, us: u64) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(Duration::from_micros(us)))
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) {
        tokio::spawn(future);
    }

    fn random(&self) -> u64 {
        split_mix(self.random.fetch_add(1, Ordering::Relaxed))
    }
}

/// A start of a handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) key: String,
    pub(crate) at_ms: i64,
    pub(crate) attempt: u32,
}

pub(crate) struct World {
    pub(crate) store: Arc<MemoryStore>,
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
        let clock = Arc::new(VirtualClock(Instant::now()));
        let store = Arc::new(MemoryStore::new(Arc::clone(&clock) as _));
        let world = Self::start(clock, store, config).await;
        world.engine.put_queue(QUEUE, settings).await.unwrap();
        world
    }

    async fn start(clock: Arc<VirtualClock>, store: Arc<MemoryStore>, config: EngineConfig) -> Self {
        let runtime = Arc::new(Virtual { clock: Arc::clone(&clock), random: AtomicU64::new(1) });
        let engine = Engine::start(Arc::clone(&store) as _, runtime, config, Arc::new(Silent)).await.unwrap();
        Self { store, clock, engine, starts: Arc::default() }
    }

    /// Stops the node and starts another one on the same store, `down_ms` later.
    pub(crate) async fn restart(self, config: EngineConfig, down_ms: u64) -> Self {
        self.engine.stop(0).await;
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

    /// The reasons on a task's trail.
    pub(crate) async fn story(&self, id: TaskId) -> Vec<&'static str> {
        let trail = self.store.trail(id, 0, 1_000).await.unwrap();
        trail.iter().map(|entry| entry.step.reason.as_str()).collect()
    }
}

pub(crate) fn done(_: &Job) -> Outcome {
    Outcome::Done
}

pub(crate) fn transient(_: &Job) -> Outcome {
    Outcome::failed(FailureClass::Transient, "planted")
}
