//! One runner per queue: find → claim → hold until due → release.
//!
//! A runner is a single async task that owns everything about its queue in memory, so nothing here is locked.
//! It never reads a row or decides a state: the source suggests, the claim decides, effects tell what came
//! of it. What it holds is bounded by the queue's concurrency.
//!
//! ```text
//!  inbox ─► source ─► claim (committed) ─► timers (until due) ─► ready ─► pool lanes, or a waiting pull
//! ```

use crate::handlers::Gate;
use crate::inbox::{Claimed, Mail, Page, Pull, Withdraw};
use crate::job::Job;
use crate::queue::Queue;
use crate::shared::Core;
use crate::source::{DueSource, PageRequest, source_for};
use duebook_core::rate::RateLimiter;
use duebook_core::{Command, HandlerSpec, LeaseKey, Priority, QueueSettings, Task, TaskId};
use duebook_store::{Act, DueRow, StoreError, Unit, Urgency, Write, Written};
use duebook_wheel::{Handle, Wheel};
use futures_util::future::select;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Claims in flight at one time, so that one can be answered while the next is committed.
const CLAIMS_IN_FLIGHT_MAX: usize = 3;
/// Claims with a task due within this time do not wait for company.
const URGENT_MS: i64 = 10;
const CLAIM_RETRY_MS: i64 = 100;
/// How long claims wait for a pull before they are given back.
const UNPULLED_MS: i64 = 2_000;
/// Most claims held beyond the concurrency, where tasks are short.
const AHEAD_ITEMS_MAX: usize = 4_096;

/// A task's place in the runner's hands.
enum Slot {
    /// The claim is being committed. A withdrawal that came meanwhile waits for its answer.
    Claiming(Option<oneshot::Sender<Option<LeaseKey>>>),
    /// Claimed ahead; the timer releases it.
    Early(Arc<Job>, Handle),
    /// Due; waits for a free place or a pull.
    Ready(Arc<Job>),
    /// Given to the pool or to a pulling worker.
    Out(Arc<Job>),
    /// Taken back before it started; whoever did it writes the rest.
    Withdrawn,
}

/// Ids are unique numbers in time order; a multiplication spreads them well enough.
#[derive(Default, Clone, Copy)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_i64(&mut self, id: i64) {
        let mixed = (id as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

pub(crate) type IdMap<V> = HashMap<TaskId, V, BuildHasherDefault<IdHasher>>;

/// The two lanes of due tasks that wait for a place.
#[derive(Default)]
struct ReadyLanes {
    high: VecDeque<Arc<Job>>,
    normal: VecDeque<Arc<Job>>,
}

impl ReadyLanes {
    fn push(&mut self, job: Arc<Job>) {
        match job.task.priority {
            Priority::High => self.high.push_back(job),
            Priority::Normal => self.normal.push_back(job),
        }
    }

    /// The next job that is still waiting to start. Withdrawn ones fall out here.
    fn pop(&mut self) -> Option<Arc<Job>> {
        while let Some(job) = self.high.pop_front().or_else(|| self.normal.pop_front()) {
            if job.is_waiting() {
                return Some(job);
            }
        }
        None
    }

    fn put_back(&mut self, job: Arc<Job>) {
        match job.task.priority {
            Priority::High => self.high.push_front(job),
            Priority::Normal => self.normal.push_front(job),
        }
    }

    fn len(&self) -> usize {
        self.high.len() + self.normal.len()
    }

    fn drain(&mut self) -> impl Iterator<Item = Arc<Job>> + '_ {
        self.high.drain(..).chain(self.normal.drain(..))
    }
}

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
    ready: ReadyLanes,
    pulls: VecDeque<Pull>,
    claims_in_flight: usize,
    page_in_flight: bool,
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
            retry: None,
            held: IdMap::default(),
            out: 0,
            timers: Wheel::new(u64::try_from(now_ms).unwrap_or(0)),
            ready: ReadyLanes::default(),
            pulls: VecDeque::new(),
            claims_in_flight: 0,
            page_in_flight: false,
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
        runner.adopt_settings();
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

    // ---- mail ----------------------------------------------------------------------------------------

    fn read(&mut self, mail: Mail, now_ms: i64) {
        for id in mail.left {
            self.let_go(id);
        }
        if let Some(settings) = mail.settings {
            self.change_settings(settings, now_ms);
        }
        self.stopping |= mail.stop;
        if mail.missed {
            self.source.missed();
        }
        if !mail.offers.is_empty() {
            self.source.offer(&mail.offers, now_ms);
        }
        for page in mail.pages {
            self.page_in_flight = false;
            self.source.page(&page.request, &page.rows, now_ms);
        }
        if let Some(swept) = mail.swept {
            self.sweep_in_flight = false;
            self.adopt_swept(swept, now_ms);
        }
        for claimed in mail.claimed {
            self.claims_in_flight -= 1;
            self.adopt_claimed(claimed, now_ms);
        }
        for withdraw in mail.withdrawals {
            self.withdraw(withdraw);
        }
        for id in mail.stop_asked {
            if let Some(Slot::Out(job)) = self.held.get(&id) {
                job.ask_to_stop();
            }
        }
        for (ids, reply) in mail.questions {
            let held = |id: &TaskId| !matches!(self.held.get(id), None | Some(Slot::Withdrawn));
            let _ = reply.send(ids.iter().map(held).collect());
        }
        self.pulls.extend(mail.pulls);
    }

    fn let_go(&mut self, id: TaskId) {
        match self.held.remove(&id) {
            Some(Slot::Out(_)) => {
                self.out -= 1;
                self.core.leases.remove(id);
            }
            Some(Slot::Early(job, timer)) => {
                // Ended by someone else, e.g. by the sweeper: it must not start any more.
                job.withdraw();
                self.timers.cancel(timer);
            }
            Some(Slot::Ready(job)) => {
                job.withdraw();
            }
            Some(Slot::Claiming(waiter)) => {
                // Claims are answered before their tasks can leave; keep the slot for the answer.
                self.held.insert(id, Slot::Claiming(waiter));
            }
            Some(Slot::Withdrawn) | None => {}
        }
    }

    fn change_settings(&mut self, settings: QueueSettings, now_ms: i64) {
        let other_source = settings.tier != self.settings.tier;
        let other_handler = settings.handler != self.settings.handler;
        let paused = settings.paused && !self.settings.paused;
        self.settings = settings;
        if other_source {
            self.source = source_for(self.settings.tier, self.core.source_limits(), now_ms);
            self.page_in_flight = false;
        }
        if other_handler {
            self.gate = self.core.handlers.gate(&self.queue.name, &self.settings);
        }
        if other_handler || paused {
            self.give_back_unstarted();
        }
        self.adopt_settings();
    }

    fn adopt_settings(&mut self) {
        self.retry = self.settings.retry.as_deref().map(Arc::from);
        self.limiter = self
            .settings
            .rate_per_second
            .and_then(|rate| RateLimiter::new(rate, RateLimiter::burst_for(rate)).ok());
    }

    fn adopt_claimed(&mut self, claimed: Claimed, now_ms: i64) {
        let asked = claimed.rows.len();
        match claimed.reply {
            Ok(results) => {
                let mut got = 0;
                for (row, result) in claimed.rows.iter().zip(results) {
                    match result {
                        Ok(Written::Task(task)) => {
                            got += 1;
                            self.hold(*task, now_ms);
                        }
                        // The hint was stale: cancelled, moved, taken, or named twice.
                        _ => self.forget_claim(row.id),
                    }
                }
                self.core.observer.claimed(&self.queue.name, asked, got, claimed.took_us);
            }
            Err(error) => {
                if error != StoreError::Closed {
                    tracing::warn!(queue = %self.queue.name, %error, asked, "claim failed; will be tried again");
                }
                for row in claimed.rows {
                    self.forget_claim(row.id);
                    self.again.push(row);
                }
                self.again_at_ms = now_ms + CLAIM_RETRY_MS;
            }
        }
    }

    fn forget_claim(&mut self, id: TaskId) {
        if let Some(Slot::Claiming(waiter)) = self.held.remove(&id)
            && let Some(waiter) = waiter
        {
            let _ = waiter.send(None);
        }
    }

    fn hold(&mut self, task: Task, now_ms: i64) {
        let Some(lease) = task.head.lease.map(|lease| lease.key) else { return };
        let (id, due_ms) = (task.id, task.head.due_ms);
        let waiter = match self.held.remove(&id) {
            Some(Slot::Claiming(waiter)) => waiter,
            _ => None,
        };
        if let Some(waiter) = waiter
            && waiter.send(Some(lease)).is_ok()
        {
            self.held.insert(id, Slot::Withdrawn);
            return;
        }
        let job = Arc::new(Job::new(
            task,
            lease,
            Arc::clone(&self.queue.name),
            self.settings.timeout_ms,
            self.retry.clone(),
            self.gate.handler(),
        ));
        if due_ms > now_ms {
            let timer = self.timers.insert(u64::try_from(due_ms).unwrap_or(0), id);
            self.held.insert(id, Slot::Early(job, timer));
        } else {
            self.held.insert(id, Slot::Ready(Arc::clone(&job)));
            self.ready.push(job);
        }
    }

    fn withdraw(&mut self, withdraw: Withdraw) {
        let Withdraw { id, reply } = withdraw;
        match self.held.get_mut(&id) {
            Some(Slot::Claiming(waiter)) => {
                // A second withdrawal of the same claim finds the first one's effect in the store.
                if let Some(earlier) = waiter.replace(reply) {
                    let _ = earlier.send(None);
                }
            }
            Some(Slot::Early(job, timer)) => {
                let (lease, timer) = (job.lease, *timer);
                job.withdraw();
                self.timers.cancel(timer);
                self.hand_back(id, lease, reply);
            }
            Some(Slot::Ready(job)) => {
                let lease = job.lease;
                job.withdraw();
                self.hand_back(id, lease, reply);
            }
            Some(Slot::Out(job)) if job.withdraw() => {
                let lease = job.lease;
                self.out -= 1;
                self.hand_back(id, lease, reply);
            }
            _ => {
                let _ = reply.send(None);
            }
        }
    }

    fn hand_back(&mut self, id: TaskId, lease: LeaseKey, reply: oneshot::Sender<Option<LeaseKey>>) {
        self.held.insert(id, Slot::Withdrawn);
        // Should nobody listen any more, the sweeper finds the claim without a holder.
        let _ = reply.send(Some(lease));
    }

    // ---- release -------------------------------------------------------------------------------------

    fn release(&mut self, now_ms: i64) {
        let (held, ready) = (&mut self.held, &mut self.ready);
        self.timers.advance(u64::try_from(now_ms).unwrap_or(0), usize::MAX, |_, id| {
            if let Some(slot) = held.get_mut(&id)
                && let Slot::Early(job, _) = slot
            {
                let job = Arc::clone(job);
                *slot = Slot::Ready(Arc::clone(&job));
                ready.push(job);
            }
        });
        if self.ready.len() == 0 || self.stopping || self.settings.paused {
            return;
        }
        if self.is_lease() {
            self.serve_pulls(now_ms);
            return;
        }
        if self.gate.is_closed(now_ms) {
            self.give_back_unstarted();
            return;
        }
        let places = (self.settings.concurrency as usize).saturating_sub(self.out);
        let mut released = Vec::with_capacity(places.min(self.ready.len()));
        while released.len() < places
            && let Some(job) = self.ready.pop()
        {
            self.held.insert(job.task.id, Slot::Out(Arc::clone(&job)));
            released.push(job);
        }
        self.out += released.len();
        self.core.pool.push(released.into_iter(), self.core.runtime.clock().now_us());
    }

    fn serve_pulls(&mut self, now_ms: i64) {
        self.pulls.retain(|pull| !pull.reply.is_closed());
        while self.ready.len() > 0
            && let Some(pull) = self.pulls.pop_front()
        {
            let places = (self.settings.concurrency as usize).saturating_sub(self.out);
            let mut jobs = Vec::new();
            while jobs.len() < pull.max.min(places)
                && let Some(job) = self.ready.pop()
            {
                jobs.push(job);
            }
            if jobs.is_empty() {
                self.pulls.push_front(pull);
                break;
            }
            self.hand_out(jobs, pull);
        }
        if self.ready.len() == 0 || !self.pulls.is_empty() {
            self.unpulled_since_ms = None;
        } else if now_ms >= *self.unpulled_since_ms.get_or_insert(now_ms) + UNPULLED_MS {
            self.unpulled_since_ms = None;
            self.give_back_unstarted();
        }
    }

    /// Answers the pulls whose wait is over with nothing; not before a claim for them has been answered.
    fn expire_pulls(&mut self, now_ms: i64) {
        let answered = self.claims_in_flight == 0 && !self.page_in_flight;
        let no_work_here = !self.is_lease() || self.stopping;
        if !(answered || no_work_here) || self.pulls.is_empty() {
            return;
        }
        for pull in std::mem::take(&mut self.pulls) {
            if no_work_here || pull.deadline_ms <= now_ms {
                let _ = pull.reply.send(Vec::new());
            } else {
                self.pulls.push_back(pull);
            }
        }
    }

    /// Gives the jobs to the puller. If it has gone away, the jobs stay ready.
    fn hand_out(&mut self, jobs: Vec<Arc<Job>>, pull: Pull) {
        if pull.reply.is_closed() {
            jobs.into_iter().rev().for_each(|job| self.ready.put_back(job));
            return;
        }
        let now_us = self.core.runtime.clock().now_us();
        for job in &jobs {
            job.start(now_us);
            self.core.observer.started(job, now_us);
            self.core.leases.insert(job, &pull.worker);
            self.held.insert(job.task.id, Slot::Out(Arc::clone(job)));
        }
        self.out += jobs.len();
        let until_ms = now_us.div_euclid(1000).saturating_add_unsigned(pull.lease_ms);
        let act = |job: &Arc<Job>, command| Write::Act(Act::own(job.task.id, command));
        // A puller may ask for a longer lease than the one that the claim was made for.
        let prolong: Vec<Write> = jobs
            .iter()
            .filter(|job| job.task.head.lease.is_some_and(|lease| lease.until_ms < until_ms))
            .map(|job| act(job, Command::Extend { lease: job.lease, until_ms }))
            .collect();
        let writes = match pull.reply.send(jobs) {
            Ok(()) => prolong,
            // Gone between the look and the send: no task has left.
            Err(jobs) => jobs.iter().map(|job| act(job, Command::Release { lease: job.lease })).collect(),
        };
        if !writes.is_empty() {
            self.core.submit_later(Unit { writes, atomic: false, urgency: Urgency::Now });
        }
    }

    /// Releases every claim whose handler has not started: back to pending, the attempt uncounted.
    fn give_back_unstarted(&mut self) {
        let mut writes = Vec::new();
        self.ready.drain().for_each(drop);
        for (id, slot) in &mut self.held {
            let job = match slot {
                Slot::Early(job, timer) => {
                    self.timers.cancel(*timer);
                    job
                }
                Slot::Ready(job) => job,
                Slot::Out(job) if job.is_waiting() => job,
                _ => continue,
            };
            if job.withdraw() {
                let release = Command::Release { lease: job.lease };
                writes.push(Write::Act(Act::own(*id, release)));
                if matches!(slot, Slot::Out(_)) {
                    self.out -= 1;
                }
                *slot = Slot::Withdrawn;
            }
        }
        if !writes.is_empty() {
            self.core.submit_later(Unit { writes, atomic: false, urgency: Urgency::Now });
        }
    }

    // ---- find and claim ------------------------------------------------------------------------------

    fn read_pages(&mut self, now_ms: i64) {
        if self.stopping || self.settings.paused {
            return;
        }
        if !self.page_in_flight
            && let Some(request) = self.source.want_page(now_ms)
        {
            self.page_in_flight = true;
            let (core, queue) = (Arc::clone(&self.core), Arc::clone(&self.queue));
            self.core.runtime.spawn(Box::pin(async move {
                let PageRequest { after, until_ms, limit } = request;
                let rows = core.store.due_page(queue.id, after, until_ms, limit).await;
                queue.inbox.put(|mail| mail.pages.push(Page { request, rows }));
            }));
        }
        if now_ms >= self.next_sweep_ms && !self.sweep_in_flight {
            self.next_sweep_ms = now_ms + self.core.config.sweep_ms;
            // What the source knows to be due need not be swept for.
            let backlog = self.source.next_due_ms().is_some_and(|due_ms| due_ms <= now_ms);
            if !backlog && !self.page_in_flight {
                self.sweep_in_flight = true;
                let until_ms = now_ms - self.core.config.sweep_grace_ms;
                let (core, queue) = (Arc::clone(&self.core), Arc::clone(&self.queue));
                self.core.runtime.spawn(Box::pin(async move {
                    let rows = core.store.due_page(queue.id, None, until_ms, 1_000).await;
                    queue.inbox.put(|mail| mail.swept = Some(rows));
                }));
            }
        }
    }

    fn adopt_swept(&mut self, swept: Result<Vec<DueRow>, StoreError>, now_ms: i64) {
        let Ok(mut rows) = swept else { return };
        rows.retain(|row| !self.held.contains_key(&row.id));
        // Without room or a worker, due tasks rightly wait in the store and in the source.
        if rows.is_empty() || self.room() == 0 {
            return;
        }
        self.core.observer.swept("sweep", "overdue", rows.len());
        self.again.append(&mut rows);
        self.again_at_ms = now_ms;
    }

    /// How many more tasks may be claimed now.
    fn room(&self) -> usize {
        let concurrency = self.settings.concurrency as usize;
        if self.is_lease() {
            let wanted: usize = self.pulls.iter().map(|pull| pull.max).sum();
            let coming = self.held.len() - self.out;
            return wanted.saturating_sub(coming).min(concurrency.saturating_sub(self.held.len()));
        }
        let ahead = if self.core.service_time_us() <= self.core.config.claim_ahead_ms * 1000 {
            concurrency.min(AHEAD_ITEMS_MAX)
        } else {
            0
        };
        (concurrency + ahead).saturating_sub(self.held.len())
    }

    fn claim(&mut self, now_ms: i64) {
        while self.claims_in_flight < CLAIMS_IN_FLIGHT_MAX {
            if self.stopping || self.settings.paused || !self.gate.has_handler() {
                return;
            }
            let room = self.room().min(self.core.config.claim_batch_max);
            if room == 0 || !self.is_time_to_claim(now_ms) {
                return;
            }
            let room = room.min(self.gate.permits(now_ms));
            let tokens = match &mut self.limiter {
                None => room,
                Some(limiter) => {
                    let want = u32::try_from(room).unwrap_or(u32::MAX);
                    limiter.take(now_ms.saturating_mul(1000), want) as usize
                }
            };
            if tokens == 0 {
                return;
            }
            let rows = self.find(tokens, now_ms);
            if let Some(limiter) = &mut self.limiter {
                limiter.give_back(u32::try_from(tokens - rows.len()).unwrap_or(0));
            }
            self.next_claim_ms = now_ms + self.core.config.claim_stride_ms;
            if rows.is_empty() {
                return;
            }
            self.submit_claim(rows, now_ms);
        }
    }

    /// With a limited rate tasks are claimed when due, so that the rate is that of the starts.
    fn ahead_ms(&self) -> i64 {
        if self.limiter.is_some() { 0 } else { self.core.config.claim_ahead_ms }
    }

    /// Up to `max` tasks that may be due, each named once and none of them held.
    fn find(&mut self, max: usize, now_ms: i64) -> Vec<DueRow> {
        let mut rows = Vec::new();
        if !self.again.is_empty() && now_ms >= self.again_at_ms {
            let keep = self.again.len().saturating_sub(max);
            rows.extend(self.again.drain(keep..));
        }
        self.source.take(now_ms + self.ahead_ms(), max - rows.len(), &mut rows);
        let held = &mut self.held;
        rows.retain(|row| match held.entry(row.id) {
            Entry::Occupied(_) => false,
            Entry::Vacant(place) => {
                place.insert(Slot::Claiming(None));
                true
            }
        });
        rows
    }

    /// Claims are made in strides, unless one is urgent: fewer, larger commits.
    fn is_time_to_claim(&self, now_ms: i64) -> bool {
        let urgent_by_ms = now_ms + URGENT_MS;
        now_ms >= self.next_claim_ms
            || self.source.next_due_ms().is_some_and(|due_ms| due_ms <= urgent_by_ms)
            || (!self.again.is_empty() && now_ms >= self.again_at_ms)
    }

    fn submit_claim(&mut self, rows: Vec<DueRow>, now_ms: i64) {
        let first_due_ms = rows.iter().map(|row| row.due_ms).min().unwrap_or(now_ms);
        let last_due_ms = rows.iter().map(|row| row.due_ms).max().unwrap_or(now_ms).max(now_ms);
        let lease_ms = match self.pulls.front() {
            Some(pull) if self.is_lease() => pull.lease_ms,
            _ => self.settings.timeout_ms.saturating_add(self.core.config.lease_slack_ms),
        };
        let command = Command::Claim {
            boot: self.core.store.boot(),
            until_ms: last_due_ms.saturating_add_unsigned(lease_ms),
            due_by_ms: now_ms + self.core.config.claim_ahead_ms,
        };
        let writes = rows.iter().map(|row| Write::Act(Act::own(row.id, command))).collect();
        let urgency = if first_due_ms <= now_ms + URGENT_MS { Urgency::Now } else { Urgency::Linger };
        self.claims_in_flight += 1;
        let (core, queue) = (Arc::clone(&self.core), Arc::clone(&self.queue));
        self.core.runtime.spawn(Box::pin(async move {
            let start_us = core.runtime.clock().now_us();
            let reply = core.store.submit(Unit { writes, atomic: false, urgency }).await;
            let took_us = core.runtime.clock().now_us() - start_us;
            queue.inbox.put(|mail| mail.claimed.push(Claimed { rows, reply, took_us }));
        }));
    }

    // ---- waiting -------------------------------------------------------------------------------------

    /// How long until there is something to do, in microseconds, unless the bell rings before.
    fn wait_us(&self) -> u64 {
        let now_us = self.core.runtime.clock().now_us();
        // The wall clock may jump: look again after a while in any case.
        let mut wake_ms = self.next_sweep_ms.min(now_us.div_euclid(1000) + self.core.config.sweep_ms);
        let mut by = |at_ms: i64| wake_ms = wake_ms.min(at_ms);
        if let Some(tick) = self.timers.next_wake_ms() {
            by(i64::try_from(tick).unwrap_or(i64::MAX));
        }
        if !self.stopping && !self.settings.paused {
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
            let settled = self.claims_in_flight == 0 && !self.page_in_flight;
            if settled && let Some(deadline_ms) = self.pulls.iter().map(|pull| pull.deadline_ms).min() {
                by(deadline_ms);
            }
            if let Some(since_ms) = self.unpulled_since_ms {
                by(since_ms + UNPULLED_MS);
            }
        }
        u64::try_from(wake_ms.saturating_mul(1000).saturating_sub(now_us)).unwrap_or(0)
    }
}
