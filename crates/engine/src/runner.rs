//! One runner per queue: find → claim → hold until due → release.
//!
//! A runner is a single async task that owns everything about its queue in memory, so nothing here is locked.
//! It never reads a row or decides a state: the source suggests, the claim decides, effects tell what came
//! of it. What it holds is bounded by the queue's concurrency.
//!
//! ```text
//!  inbox ─► source ─► claim (committed) ─► timers (until due) ─► ready ─► pool lanes, or a waiting pull
//! ```

mod claim;
mod mail;
mod release;
mod slots;

use crate::handlers::Gate;
use crate::inbox::Pull;
use crate::job::Job;
use crate::lanes::Lanes;
use crate::queue::Queue;
use crate::shared::Core;
use crate::source::{DueSource, source_for};
use duebook_core::rate::RateLimiter;
use duebook_core::{HandlerSpec, QueueSettings, TaskId};
use duebook_store::DueRow;
use duebook_wheel::Wheel;
use futures_util::future::select;
use slots::Slot;
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;

pub(crate) use slots::IdMap;

/// Claims in flight at one time, so that one can be answered while the next is committed.
const CLAIMS_IN_FLIGHT_MAX: usize = 3;
/// Claims with a task due within this time do not wait for company.
const URGENT_MS: i64 = 10;
const CLAIM_RETRY_MS: i64 = 100;
/// How long claims wait for a pull before they are given back.
const UNPULLED_MS: i64 = 2_000;
/// Most claims held beyond the concurrency, where tasks are short.
const AHEAD_ITEMS_MAX: usize = 4_096;

/// Lets the other tasks of the runtime have a turn.
async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

pub(crate) struct Runner {
    core: Arc<Core>,
    queue: Arc<Queue>,
    settings: QueueSettings,
    retry: Option<Arc<str>>,
    source: Box<dyn DueSource>,
    gate: Gate,
    limiter: Option<RateLimiter>,
    held: IdMap<Slot>,
    out: usize,
    timers: Wheel<TaskId>,
    /// Due tasks that wait for a place or a pull.
    ready: Lanes<Arc<Job>>,
    pulls: VecDeque<Pull>,
    claims_in_flight: usize,
    page_in_flight: bool,
    /// Grows with each change of the source: pages that an earlier one asked for are not for this one.
    source_number: u64,
    sweep_in_flight: bool,
    next_sweep_ms: i64,
    next_claim_ms: i64,
    /// Rows whose claim the store could not take, and when to offer them again.
    again: Vec<DueRow>,
    again_at_ms: i64,
    unpulled_since_ms: Option<i64>,
    stopping: bool,
}

impl Runner {
    pub(crate) fn new(core: Arc<Core>, queue: Arc<Queue>, settings: QueueSettings) -> Self {
        let now_ms = core.runtime.clock().now_ms();
        let source = source_for(settings.tier, core.source_limits(), now_ms);
        let gate = core.handlers.gate(&queue.name, &settings);
        let mut runner = Self {
            source,
            gate,
            limiter: None,
            retry: settings.retry.as_deref().map(Arc::from),
            held: IdMap::default(),
            out: 0,
            timers: Wheel::new(u64::try_from(now_ms).unwrap_or(0)),
            ready: Lanes::default(),
            pulls: VecDeque::new(),
            claims_in_flight: 0,
            page_in_flight: false,
            source_number: 0,
            sweep_in_flight: false,
            next_sweep_ms: now_ms + core.config.sweep_ms,
            next_claim_ms: i64::MIN,
            again: Vec::new(),
            again_at_ms: 0,
            unpulled_since_ms: None,
            stopping: false,
            core,
            queue,
            settings,
        };
        runner.adopt_rate();
        runner
    }

    /// Runs until stopped. Each turn handles the mail, releases, claims, and waits for the next thing.
    pub(crate) async fn run(mut self) {
        loop {
            let now_ms = self.core.runtime.clock().now_ms();
            let mail = self.queue.inbox.take();
            self.read(mail, now_ms);
            self.release(now_ms);
            if (self.stopping || self.settings.paused) && self.claims_in_flight == 0 {
                self.give_back_unstarted();
            }
            if self.stopping && self.claims_in_flight == 0 && (self.out == 0 || self.is_lease()) {
                self.queue.inbox.close();
                self.queue.note_stopped();
                return;
            }
            self.read_pages(now_ms);
            self.claim(now_ms);
            self.expire_pulls(now_ms);
            self.core.observer.queue(&self.queue.name, self.source.len(), self.held.len());
            match self.wait_us() {
                // Others must have their turn even if this queue never rests.
                0 => yield_now().await,
                wait_us => {
                    let bell = pin!(self.queue.inbox.bell.notified());
                    let _ = select(bell, self.core.runtime.sleep_us(wait_us)).await;
                }
            }
        }
    }

    fn is_lease(&self) -> bool {
        matches!(self.settings.handler, HandlerSpec::Lease)
    }

    /// How long until there is something to do, in microseconds, unless the bell rings before.
    fn wait_us(&self) -> u64 {
        let now_us = self.core.runtime.clock().now_us();
        // The wall clock may jump: look again after a while in any case.
        let mut wake_ms = now_us.div_euclid(1000) + self.core.config.sweep_ms;
        let mut by = |at_ms: i64| wake_ms = wake_ms.min(at_ms);
        if let Some(tick) = self.timers.next_wake_ms() {
            by(i64::try_from(tick).unwrap_or(i64::MAX));
        }
        // Pulls are answered at the end of their wait whatever the queue is allowed to do.
        let settled = self.claims_in_flight == 0 && !self.page_in_flight;
        if settled && let Some(deadline_ms) = self.pulls.iter().map(|pull| pull.deadline_ms).min() {
            by(deadline_ms);
        }
        if !self.stopping && !self.settings.paused {
            if !self.sweep_in_flight {
                by(self.next_sweep_ms);
            }
            if let Some(at_ms) = self.source.next_page_ms()
                && !self.page_in_flight
            {
                by(at_ms);
            }
            let can_claim =
                self.claims_in_flight < CLAIMS_IN_FLIGHT_MAX && self.room() > 0 && self.gate.has_handler();
            if can_claim {
                let not_before_ms = self
                    .limiter
                    .as_ref()
                    .map_or(i64::MIN, |limiter| limiter.next_at().div_euclid(1000) + 1)
                    .max(self.gate.retry_at_ms().unwrap_or(i64::MIN));
                if let Some(due_ms) = self.source.next_due_ms() {
                    let claimable_ms =
                        (due_ms - self.ahead_ms()).max(self.next_claim_ms.min(due_ms - URGENT_MS));
                    by(claimable_ms.max(not_before_ms));
                }
                if !self.again.is_empty() {
                    by(self.again_at_ms.max(not_before_ms));
                }
            }
            if let Some(since_ms) = self.unpulled_since_ms {
                by(since_ms + UNPULLED_MS);
            }
        }
        u64::try_from(wake_ms.saturating_mul(1000).saturating_sub(now_us)).unwrap_or(0)
    }
}
