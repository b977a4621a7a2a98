//! Reading the mail: what left, what changed, what was claimed, who wants something back.

use super::slots::Slot;
use super::{CLAIM_RETRY_MS, Runner};
use crate::inbox::{Claimed, Mail, Withdraw};
use crate::job::Job;
use crate::source::source_for;
use duebook_core::rate::RateLimiter;
use duebook_core::{LeaseKey, QueueSettings, Task, TaskId};
use duebook_store::{StoreError, Written};
use std::sync::Arc;
use tokio::sync::oneshot;

impl Runner {
    pub(super) fn read(&mut self, mail: Mail, now_ms: i64) {
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
        for page in mail.pages.into_iter().filter(|page| page.source_number == self.source_number) {
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
            let held = |id: &TaskId| match self.held.get(id) {
                None | Some(Slot::Withdrawn) => false,
                Some(Slot::Out(job)) => !job.is_withdrawn(),
                Some(_) => true,
            };
            let _ = reply.send(ids.iter().map(held).collect());
        }
        self.pulls.extend(mail.pulls);
    }

    pub(super) fn let_go(&mut self, id: TaskId) {
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

    pub(super) fn change_settings(&mut self, settings: QueueSettings, now_ms: i64) {
        let other_source = settings.tier != self.settings.tier;
        let other_handler = settings.handler != self.settings.handler;
        let other_rate = settings.rate_per_second != self.settings.rate_per_second;
        let paused = settings.paused && !self.settings.paused;
        self.settings = settings;
        if other_source {
            self.source = source_for(self.settings.tier, self.core.source_limits(), now_ms);
            self.source_number += 1;
            self.page_in_flight = false;
        }
        if other_handler || paused {
            self.give_back_unstarted();
        }
        if other_handler {
            self.watch_probe();
            self.gate = self.core.handlers.gate(&self.queue.name, &self.settings);
        }
        self.retry = self.settings.retry.as_deref().map(Arc::from);
        // Another setting must not fill the bucket again.
        if other_rate {
            self.adopt_rate();
        }
    }

    pub(super) fn adopt_rate(&mut self) {
        self.limiter = self
            .settings
            .rate_per_second
            .and_then(|rate| RateLimiter::new(rate, RateLimiter::burst_for(rate)).ok());
    }

    pub(super) fn adopt_claimed(&mut self, claimed: Claimed, now_ms: i64) {
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

    pub(super) fn forget_claim(&mut self, id: TaskId) {
        if let Some(Slot::Claiming(waiter)) = self.held.remove(&id)
            && let Some(waiter) = waiter
        {
            let _ = waiter.send(None);
        }
    }

    pub(super) fn hold(&mut self, task: Task, now_ms: i64) {
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
            self.ready.push(job.task.priority, job);
        }
    }

    pub(super) fn withdraw(&mut self, withdraw: Withdraw) {
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

    pub(super) fn hand_back(
        &mut self,
        id: TaskId,
        lease: LeaseKey,
        reply: oneshot::Sender<Option<LeaseKey>>,
    ) {
        self.held.insert(id, Slot::Withdrawn);
        // Should nobody listen any more, the sweeper finds the claim without a holder.
        let _ = reply.send(Some(lease));
    }
}
