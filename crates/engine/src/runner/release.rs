//! Releasing what is due: to the pool's lanes, or to workers that pull; and giving back what cannot start.

use super::slots::Slot;
use super::{Runner, UNPULLED_MS};
use crate::inbox::Pull;
use crate::job::Job;
use duebook_core::Command;
use duebook_store::{Act, Unit, Urgency, Write};
use std::sync::Arc;

impl Runner {
    pub(super) fn release(&mut self, now_ms: i64) {
        let (held, ready) = (&mut self.held, &mut self.ready);
        self.timers.advance(u64::try_from(now_ms).unwrap_or(0), usize::MAX, |_, id| {
            if let Some(slot) = held.get_mut(&id)
                && let Slot::Early(job, _) = slot
            {
                let job = Arc::clone(job);
                *slot = Slot::Ready(Arc::clone(&job));
                ready.push(job.task.priority, job);
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
            && let Some(job) = self.next_ready()
        {
            self.held.insert(job.task.id, Slot::Out(Arc::clone(&job)));
            released.push(job);
        }
        self.out += released.len();
        self.core.pool.push(released.into_iter(), self.core.runtime.clock().now_us());
    }

    /// The next due job that is still waiting to start. Withdrawn ones fall out here.
    fn next_ready(&mut self) -> Option<Arc<Job>> {
        loop {
            let job = self.ready.pop()?;
            if job.is_waiting() {
                return Some(job);
            }
        }
    }

    pub(super) fn serve_pulls(&mut self, now_ms: i64) {
        while self.ready.len() > 0
            && let Some(pull) = self.pulls.pop_front()
        {
            let places = (self.settings.concurrency as usize).saturating_sub(self.out);
            let mut jobs = Vec::new();
            while jobs.len() < pull.max.min(places)
                && let Some(job) = self.next_ready()
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
    pub(super) fn expire_pulls(&mut self, now_ms: i64) {
        let answered = self.claims_in_flight == 0 && !self.page_in_flight;
        let no_work_here = !self.is_lease() || self.stopping;
        self.pulls.retain(|pull| !pull.reply.is_closed());
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
    pub(super) fn hand_out(&mut self, jobs: Vec<Arc<Job>>, pull: Pull) {
        if pull.reply.is_closed() {
            jobs.into_iter().rev().for_each(|job| self.ready.put_back(job.task.priority, job));
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
    pub(super) fn give_back_unstarted(&mut self) {
        let mut writes = Vec::new();
        self.ready.clear();
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
}
