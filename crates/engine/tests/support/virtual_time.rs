//! A node's surroundings in virtual time: the paused clock of the runtime, with jumps, and a node whose tasks
//! die with it.

use duebook_core::Clock;
use duebook_engine::Runtime;
use duebook_store::BoxFuture;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::Instant;

pub(crate) const START_MS: i64 = 1_800_000_000_000;

/// Virtual wall-clock time: the runtime's paused time plus jumps.
pub(crate) struct VirtualClock {
    start: Instant,
    jump_us: AtomicI64,
}

impl VirtualClock {
    /// A clock that shows [`START_MS`] now.
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), jump_us: AtomicI64::new(0) }
    }

    /// Moves the wall clock, but not the waits.
    #[allow(dead_code)] // not every test program makes it jump
    pub(crate) fn jump_ms(&self, by_ms: i64) {
        self.jump_us.fetch_add(by_ms * 1000, Ordering::Relaxed);
    }
}

impl Clock for VirtualClock {
    fn now_us(&self) -> i64 {
        let passed = i64::try_from(self.start.elapsed().as_micros()).unwrap_or(i64::MAX);
        START_MS * 1000 + passed + self.jump_us.load(Ordering::Relaxed)
    }
}

/// A node's surroundings: what it spawns dies with it.
pub(crate) struct Node {
    clock: Arc<VirtualClock>,
    random: Box<dyn Fn() -> u64 + Send + Sync>,
    spawned: Mutex<Vec<AbortHandle>>,
}

impl Node {
    pub(crate) fn new(clock: Arc<VirtualClock>, random: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { clock, random: Box::new(random), spawned: Mutex::default() }
    }

    /// Ends everything that it runs, wherever it stands.
    pub(crate) fn kill(&self) {
        self.spawned.lock().unwrap().drain(..).for_each(|task| task.abort());
    }
}

impl Runtime for Node {
    fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    fn sleep_us(&self, us: u64) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(Duration::from_micros(us)))
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) {
        let mut spawned = self.spawned.lock().unwrap();
        spawned.retain(|task| !task.is_finished());
        spawned.push(tokio::spawn(future).abort_handle());
    }

    fn random(&self) -> u64 {
        (self.random)()
    }
}
