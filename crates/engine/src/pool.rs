//! The worker pool: two lanes, and workers that take the next job, run it to its end and come back.
//!
//! The pool never buffers for a queue: runners release to it only what their concurrency allows. Its size
//! follows measured waits, by the rule in [`duebook_core::pool`].

use crate::execute;
use crate::job::Job;
use crate::lanes::Lanes;
use crate::shared::Core;
use duebook_core::pool::{PoolLimits, PoolSample, next_size};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

struct Waiting {
    job: Arc<Job>,
    since_us: i64,
}

#[derive(Default)]
struct Queued {
    lanes: Lanes<Waiting>,
    longest_wait_us: i64,
}

impl Queued {
    fn next(&mut self, now_us: i64) -> Option<Arc<Job>> {
        let waiting = self.lanes.pop()?;
        self.longest_wait_us = self.longest_wait_us.max(now_us - waiting.since_us);
        Some(waiting.job)
    }

    fn len(&self) -> usize {
        self.lanes.len()
    }
}

/// The pool.
pub(crate) struct Pool {
    queued: Mutex<Queued>,
    work: Notify,
    idle: AtomicUsize,
    workers: AtomicUsize,
    wanted: AtomicUsize,
    busy_peak: AtomicUsize,
    limits: PoolLimits,
}

impl Pool {
    pub(crate) fn new(limits: PoolLimits) -> Self {
        let wanted = AtomicUsize::new(limits.floor);
        Self {
            queued: Mutex::default(),
            work: Notify::new(),
            idle: AtomicUsize::new(0),
            workers: AtomicUsize::new(0),
            wanted,
            busy_peak: AtomicUsize::new(0),
            limits,
        }
    }

    fn queued(&self) -> std::sync::MutexGuard<'_, Queued> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases jobs to the lanes.
    pub(crate) fn push(&self, jobs: impl Iterator<Item = Arc<Job>>, now_us: i64) {
        let mut pushed = 0;
        {
            let mut queued = self.queued();
            for job in jobs {
                queued.lanes.push(job.task.priority, Waiting { job, since_us: now_us });
                pushed += 1;
            }
        }
        for _ in 0..pushed.min(self.idle.load(Ordering::Acquire)) {
            self.work.notify_one();
        }
    }

    /// Workers, busy ones, and jobs that wait for one.
    pub(crate) fn sizes(&self) -> (usize, usize, usize) {
        let workers = self.workers.load(Ordering::Relaxed);
        let busy = workers.saturating_sub(self.idle.load(Ordering::Relaxed));
        (workers, busy, self.queued().len())
    }

    /// Starts the floor of workers.
    pub(crate) fn start(core: &Arc<Core>) {
        core.pool.grow(core);
    }

    fn grow(&self, core: &Arc<Core>) {
        while self.workers.load(Ordering::Acquire) < self.wanted.load(Ordering::Acquire) {
            self.workers.fetch_add(1, Ordering::AcqRel);
            let core_of_worker = Arc::clone(core);
            core.runtime.spawn(Box::pin(async move { work(core_of_worker).await }));
        }
    }

    /// Measures, and grows or shrinks.
    pub(crate) fn resize(&self, core: &Arc<Core>) {
        let now_us = core.runtime.clock().now_us();
        let sample = {
            let mut queued = self.queued();
            let waits_us = queued.lanes.fronts().map(|waiting| now_us - waiting.since_us);
            let oldest_us = waits_us.max().unwrap_or(0);
            PoolSample {
                waiting: queued.len(),
                longest_wait_us: u64::try_from(std::mem::take(&mut queued.longest_wait_us).max(oldest_us))
                    .unwrap_or(0),
                busy_peak: self.busy_peak.swap(0, Ordering::AcqRel),
            }
        };
        let size = next_size(self.wanted.load(Ordering::Acquire), &sample, &self.limits);
        self.wanted.store(size, Ordering::Release);
        self.grow(core);
        // Idle workers that are not wanted any more leave; and if a job waits beside an idle worker, their
        // meeting was missed.
        let unwanted = self.workers.load(Ordering::Acquire).saturating_sub(size);
        for _ in 0..unwanted.max(sample.waiting).min(self.idle.load(Ordering::Acquire)) {
            self.work.notify_one();
        }
        let (workers, busy, waiting) = self.sizes();
        core.observer.pool(workers, busy, waiting);
    }

    /// Leaves the pool, if it is larger than wanted.
    fn leave(&self) -> bool {
        self.workers
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |workers| {
                (workers > self.wanted.load(Ordering::Acquire)).then(|| workers - 1)
            })
            .is_ok()
    }
}

async fn work(core: Arc<Core>) {
    let pool = &core.pool;
    loop {
        let next = {
            let mut queued = pool.queued();
            queued.next(core.runtime.clock().now_us())
        };
        if let Some(job) = next {
            let busy = pool.workers.load(Ordering::Relaxed).saturating_sub(pool.idle.load(Ordering::Relaxed));
            pool.busy_peak.fetch_max(busy, Ordering::Relaxed);
            execute::run(&core, job).await;
            continue;
        }
        if pool.leave() {
            return;
        }
        pool.idle.fetch_add(1, Ordering::AcqRel);
        // Between the look and the wait something may have come: a permit is kept for one who is not yet
        // waiting, and a push sees this worker as idle from here on.
        if pool.queued().len() == 0 {
            pool.work.notified().await;
        }
        pool.idle.fetch_sub(1, Ordering::AcqRel);
    }
}
