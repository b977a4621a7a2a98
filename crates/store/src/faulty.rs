//! A wrapper that makes any store fail, under a seed: refused units, units that commit but whose answer is
//! lost, slow answers. For tests of what stands on a store.

use crate::roles::{
    BoxFuture, DueRow, EffectSink, EndedRow, KeyRow, QueueRow, Reader, RecurringRow, RunningRow, Store,
    TaskFilter, Writer,
};
use crate::unit::{StoreError, Unit, UnitReply};
use duebook_core::random::{SPLIT_MIX_STEP, split_mix};
use duebook_core::{QueueId, State, Task, TaskId, TrailEntry};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often what goes wrong, each out of 1000.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// The unit is not committed and the answer is an error.
    pub refuse: u32,
    /// The unit is committed and the answer is an error all the same.
    pub lose_answer: u32,
    /// A read fails.
    pub fail_read: u32,
    /// The answer comes late, by up to `delay_ms_max`.
    pub delay: u32,
    /// See `delay`.
    pub delay_ms_max: u64,
}

/// Waits; a parameter so that simulated time can be used.
pub type Sleep = Arc<dyn Fn(u64) -> BoxFuture<'static, ()> + Send + Sync>;

/// A store that fails now and then.
pub struct Faulty<S> {
    inner: Arc<S>,
    faults: std::sync::Mutex<Faults>,
    random: AtomicU64,
    sleep: Sleep,
}

impl<S: Store> Faulty<S> {
    /// Wraps `inner`.
    pub fn new(inner: Arc<S>, seed: u64, faults: Faults, sleep: Sleep) -> Self {
        Self { inner, faults: std::sync::Mutex::new(faults), random: AtomicU64::new(seed), sleep }
    }

    /// Changes what goes wrong from here on.
    pub fn set_faults(&self, faults: Faults) {
        if let Ok(mut place) = self.faults.lock() {
            *place = faults;
        }
    }

    fn faults(&self) -> Faults {
        self.faults.lock().map(|faults| *faults).unwrap_or_default()
    }

    fn roll(&self) -> u64 {
        split_mix(self.random.fetch_add(SPLIT_MIX_STEP, Ordering::Relaxed))
    }

    fn happens(&self, per_mille: u32) -> bool {
        self.roll() % 1000 < u64::from(per_mille)
    }

    fn read<'a, T: Send + 'a>(
        &'a self,
        read: BoxFuture<'a, Result<T, StoreError>>,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        if self.happens(self.faults().fail_read) {
            return Box::pin(std::future::ready(Err(StoreError::Backend("planted read fault".into()))));
        }
        read
    }
}

impl<S: Store> Writer for Faulty<S> {
    fn submit(&self, unit: Unit) -> BoxFuture<'static, UnitReply> {
        let faults = self.faults();
        if self.happens(faults.refuse) {
            return Box::pin(std::future::ready(Err(StoreError::Backend("planted refusal".into()))));
        }
        let lost = self.happens(faults.lose_answer);
        let delay_ms = if self.happens(faults.delay) { self.roll() % (faults.delay_ms_max + 1) } else { 0 };
        let early = self.roll() & 1 == 0;
        let (inner, sleep) = (Arc::clone(&self.inner), Arc::clone(&self.sleep));
        // What is not late is sent now and not when it is first polled, as a real store does it.
        let sending = if delay_ms > 0 && early { Err(unit) } else { Ok(inner.submit(unit)) };
        Box::pin(async move {
            let reply = match sending {
                Ok(sent) => sent.await,
                Err(unit) => {
                    sleep(delay_ms).await;
                    inner.submit(unit).await
                }
            };
            if delay_ms > 0 && !early {
                sleep(delay_ms).await;
            }
            if lost { Err(StoreError::Backend("planted loss of the answer".into())) } else { reply }
        })
    }

    fn set_sink(&self, sink: Arc<dyn EffectSink>) {
        self.inner.set_sink(sink);
    }

    fn boot(&self) -> u32 {
        self.inner.boot()
    }

    fn waiting(&self) -> usize {
        self.inner.waiting()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }
}

impl<S: Store> Reader for Faulty<S> {
    fn task(&self, id: TaskId) -> BoxFuture<'_, Result<Option<Task>, StoreError>> {
        self.read(self.inner.task(id))
    }

    fn find<'a>(&'a self, queue: QueueId, key: &'a str) -> BoxFuture<'a, Result<Option<Task>, StoreError>> {
        self.read(self.inner.find(queue, key))
    }

    fn list(&self, filter: TaskFilter) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        self.read(self.inner.list(filter))
    }

    fn trail(
        &self,
        id: TaskId,
        after_seq: u32,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<TrailEntry>, StoreError>> {
        self.read(self.inner.trail(id, after_seq, limit))
    }

    fn due_page(
        &self,
        queue: QueueId,
        after: Option<DueRow>,
        until_ms: i64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<DueRow>, StoreError>> {
        self.read(self.inner.due_page(queue, after, until_ms, limit))
    }

    fn running(
        &self,
        after: Option<(u32, TaskId)>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<RunningRow>, StoreError>> {
        self.read(self.inner.running(after, limit))
    }

    fn walk(
        &self,
        after: TaskId,
        below: TaskId,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<EndedRow>, StoreError>> {
        self.read(self.inner.walk(after, below, limit))
    }

    fn counts(&self) -> BoxFuture<'_, Result<Vec<(QueueId, State, u64)>, StoreError>> {
        self.read(self.inner.counts())
    }

    fn queues(&self) -> BoxFuture<'_, Result<Vec<QueueRow>, StoreError>> {
        self.read(self.inner.queues())
    }

    fn recurring(&self) -> BoxFuture<'_, Result<Vec<RecurringRow>, StoreError>> {
        self.read(self.inner.recurring())
    }

    fn keys(&self) -> BoxFuture<'_, Result<Vec<KeyRow>, StoreError>> {
        self.read(self.inner.keys())
    }

    fn check(&self) -> BoxFuture<'_, Result<u32, StoreError>> {
        self.read(self.inner.check())
    }

    fn size_bytes(&self) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.read(self.inner.size_bytes())
    }
}
