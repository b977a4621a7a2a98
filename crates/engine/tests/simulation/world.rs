//! The simulated world: virtual time, a node that can be killed, clients, handlers, and the log of it all.

use crate::virtual_time::{Node, START_MS, VirtualClock};
use duebook_core::random::{SPLIT_MIX_STEP, split_mix};
use duebook_core::retry::FailureClass;
use duebook_core::{Clock, HandlerSpec, OnConflict, Priority, QueueSettings, State, Task, Tier, TrailEntry};
use duebook_engine::{
    Cancelled, Engine, EngineConfig, EngineError, FromFn, Job, Outcome, ScheduleRequest, Silent, TaskRef,
};
use duebook_store::faulty::{Faults, Faulty};
use duebook_store::memory::MemoryStore;
use duebook_store::{BoxFuture, Reader, TaskFilter};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const OPERATIONS: usize = 80;

#[derive(Clone)]
struct Dice(Arc<AtomicU64>);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(Arc::new(AtomicU64::new(split_mix(seed))))
    }

    fn roll(&self, below: u64) -> u64 {
        split_mix(self.0.fetch_add(SPLIT_MIX_STEP, Ordering::Relaxed)) % below
    }
}

/// A start of a handler, as the handler saw it.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    pub(crate) key: String,
    pub(crate) at_ms: i64,
    pub(crate) due_ms: i64,
    /// Whether the committed row was running under the job's own lease at that moment.
    pub(crate) committed: bool,
}

/// What a client was told.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    Scheduled {
        key: String,
    },
    /// No handler may start from here on.
    CancelledOutright {
        key: String,
        at_ms: i64,
    },
    /// No answer: it may or may not have happened.
    Unknown,
}

/// Everything that is checked at the end.
#[derive(Default)]
pub(crate) struct History {
    pub(crate) starts: Vec<Start>,
    pub(crate) told: Vec<Told>,
    pub(crate) tasks: Vec<(Task, Vec<TrailEntry>)>,
    pub(crate) counts: BTreeMap<State, u64>,
    pub(crate) kills: usize,
    pub(crate) jumps: usize,
    pub(crate) unfinished: usize,
    /// The log, for replays.
    pub(crate) lines: Vec<String>,
}

impl History {
    pub(crate) fn tail(&self) -> String {
        let from = self.lines.len().saturating_sub(60);
        self.lines[from..].join("\n")
    }
}

type Log = Arc<Mutex<History>>;

fn note(log: &Log, clock: &VirtualClock, words: String) {
    let at_ms = clock.now_ms() - START_MS;
    log.lock().unwrap().lines.push(format!("{at_ms:>8} {words}"));
}

struct World {
    clock: Arc<VirtualClock>,
    memory: Arc<MemoryStore>,
    store: Arc<Faulty<MemoryStore>>,
    dice: Dice,
    log: Log,
}

const STORMY: Faults = Faults { refuse: 20, lose_answer: 20, fail_read: 20, delay: 200, delay_ms_max: 40 };
const CALM: Faults = Faults { refuse: 0, lose_answer: 0, fail_read: 0, delay: 0, delay_ms_max: 0 };

impl World {
    async fn start_node(&self) -> (Arc<Node>, Engine) {
        let dice = self.dice.clone();
        let node = Arc::new(Node::new(Arc::clone(&self.clock), move || dice.roll(u64::MAX)));
        // The start itself may meet a fault; then it is tried again, as an init system would.
        let engine = loop {
            let started = Engine::start(
                Arc::clone(&self.store) as _,
                Arc::clone(&node) as _,
                EngineConfig::default(),
                Arc::new(Silent),
            )
            .await;
            match started {
                Ok(engine) => break engine,
                Err(error) => {
                    note(&self.log, &self.clock, format!("start failed: {error}"));
                    node.kill();
                    self.memory.reopen();
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        };
        for queue in ["wheel", "db"] {
            engine.register(queue, self.handler());
        }
        (node, engine)
    }

    fn handler(&self) -> Arc<dyn duebook_engine::Handler> {
        let (clock, memory) = (Arc::clone(&self.clock), Arc::clone(&self.memory));
        let (dice, log) = (self.dice.clone(), Arc::clone(&self.log));
        Arc::new(FromFn(move |job: Arc<Job>| {
            let (clock, memory) = (Arc::clone(&clock), Arc::clone(&memory));
            let (dice, log) = (dice.clone(), Arc::clone(&log));
            async move {
                let row = memory.task(job.task.id).await.unwrap();
                let lease = row.as_ref().and_then(|task| task.head.lease).map(|lease| lease.key);
                let at_ms = clock.now_ms();
                note(&log, &clock, format!("start {} attempt {}", job.task.key, job.task.head.attempt));
                log.lock().unwrap().starts.push(Start {
                    key: job.task.key.clone(),
                    at_ms,
                    due_ms: job.task.head.due_ms,
                    committed: lease == Some(job.lease),
                });
                tokio::time::sleep(Duration::from_millis(dice.roll(150))).await;
                match dice.roll(12) {
                    0 => Outcome::failed(FailureClass::Transient, "planted failure"),
                    1 => Outcome::failed(FailureClass::Permanent, "planted permanent failure"),
                    2 => panic!("planted panic"),
                    3 => {
                        // Past the deadline.
                        tokio::time::sleep(Duration::from_secs(3_600)).await;
                        Outcome::Done
                    }
                    _ => Outcome::Done,
                }
            }
        }))
    }

    async fn operate(&self, engine: &Engine, number: usize) {
        let queue = if self.dice.roll(2) == 0 { "wheel" } else { "db" };
        let key = format!("{queue}-{}", self.dice.roll(40));
        let task = TaskRef::Key { queue: queue.into(), key: key.clone() };
        let now_ms = self.clock.now_ms();
        let delay_ms = i64::try_from(match self.dice.roll(5) {
            0 => 0,
            1 => self.dice.roll(120),
            2 => self.dice.roll(600_000),
            _ => self.dice.roll(3_000),
        })
        .unwrap();
        let told = match self.dice.roll(10) {
            0..=5 => {
                let request = ScheduleRequest {
                    queue: queue.into(),
                    key: key.clone(),
                    due_ms: now_ms + delay_ms,
                    payload: Some(format!("{{\"n\":{number}}}")),
                    priority: if self.dice.roll(4) == 0 { Priority::High } else { Priority::Normal },
                    retry: None,
                    on_conflict: if self.dice.roll(3) == 0 { OnConflict::Replace } else { OnConflict::Keep },
                    trace_id: None,
                    actor: None,
                };
                match engine.schedule(vec![request]).await.map(|mut answers| answers.pop()) {
                    Ok(Some(Ok(_))) => Told::Scheduled { key },
                    // A running task is not replaced; nothing was promised.
                    Ok(_) | Err(EngineError::Refused(_)) => return,
                    Err(_) => Told::Unknown,
                }
            }
            6..=7 => match engine.cancel(&task, None, None).await {
                Ok(Cancelled::Outright(_)) => Told::CancelledOutright { key, at_ms: self.clock.now_ms() },
                Ok(Cancelled::Asked(_)) | Err(EngineError::Refused(_) | EngineError::NoQueue(_)) => return,
                Err(_) => Told::Unknown,
            },
            _ => match engine.reschedule(&task, now_ms + delay_ms, None, None).await {
                Ok(_) | Err(EngineError::Refused(_) | EngineError::NoQueue(_)) => return,
                Err(_) => Told::Unknown,
            },
        };
        note(&self.log, &self.clock, format!("{told:?}"));
        self.log.lock().unwrap().told.push(told);
    }
}

/// Plays a seed's history to its end.
pub(crate) async fn play(seed: u64) -> History {
    let clock = Arc::new(VirtualClock::new());
    let memory = Arc::new(MemoryStore::new(Arc::clone(&clock) as _));
    let sleep =
        Arc::new(|ms| Box::pin(tokio::time::sleep(Duration::from_millis(ms))) as BoxFuture<'static, ()>);
    let store = Arc::new(Faulty::new(Arc::clone(&memory), seed, CALM, sleep));
    let world = World { clock, memory, store, dice: Dice::new(seed), log: Log::default() };

    let (mut node, mut engine) = world.start_node().await;
    for (queue, tier) in [("wheel", Tier::Wheel), ("db", Tier::Db)] {
        let settings = QueueSettings {
            tier,
            handler: HandlerSpec::Inprocess,
            timeout_ms: 2_000,
            concurrency: 1 + u32::try_from(world.dice.roll(20)).unwrap(),
            ..QueueSettings::default()
        };
        engine.put_queue(queue, settings).await.expect("a calm store takes a queue");
    }
    world.store.set_faults(STORMY);
    for number in 0..OPERATIONS {
        tokio::time::sleep(Duration::from_millis(world.dice.roll(60))).await;
        match world.dice.roll(40) {
            0 => {
                note(&world.log, &world.clock, "kill".into());
                node.kill();
                drop(engine);
                world.memory.reopen();
                world.log.lock().unwrap().kills += 1;
                (node, engine) = world.start_node().await;
            }
            1 => {
                let jump_ms = world.dice.roll(4_000) as i64 - 2_000;
                note(&world.log, &world.clock, format!("the clock jumps by {jump_ms} ms"));
                world.clock.jump_ms(jump_ms);
                world.log.lock().unwrap().jumps += 1;
            }
            _ => world.operate(&engine, number).await,
        }
    }
    world.store.set_faults(CALM);
    let unfinished = wait_for_the_end(&world).await;
    node.kill();
    finish(&world, unfinished).await
}

/// Waits until no task lives any more; answers how many still do after an hour of virtual time.
async fn wait_for_the_end(world: &World) -> usize {
    for _ in 0..3_600 {
        let counts = world.memory.counts().await.unwrap();
        let live: u64 = counts.iter().filter(|(_, state, _)| state.is_live()).map(|(_, _, n)| n).sum();
        if live == 0 {
            return 0;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let counts = world.memory.counts().await.unwrap();
    counts.iter().filter(|(_, state, _)| state.is_live()).map(|(_, _, n)| *n as usize).sum()
}

async fn finish(world: &World, unfinished: usize) -> History {
    let mut history = std::mem::take(&mut *world.log.lock().unwrap());
    let filter = TaskFilter { limit: 10_000, ..TaskFilter::default() };
    for task in world.memory.list(filter).await.unwrap() {
        let trail = world.memory.trail(task.id, 0, 10_000).await.unwrap();
        *history.counts.entry(task.head.state).or_default() += 1;
        history.lines.push(format!("end {} {:?}", task.key, task.head));
        history.tasks.push((task, trail));
    }
    history.unfinished = unfinished;
    history
}
