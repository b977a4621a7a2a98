//! Finding what may be due, and claiming it.

use super::slots::Slot;
use super::{AHEAD_ITEMS_MAX, CLAIM_RETRY_MS, CLAIMS_IN_FLIGHT_MAX, Runner, URGENT_MS};
use crate::inbox::{Claimed, Page};
use crate::source::PageRequest;
use duebook_core::Command;
use duebook_store::{Act, DueRow, StoreError, Unit, Urgency, Write};
use std::collections::hash_map::Entry;
use std::sync::Arc;

impl Runner {
    pub(super) fn read_pages(&mut self, now_ms: i64) {
        if self.stopping || self.settings.paused {
            return;
        }
        if !self.page_in_flight
            && let Some(request) = self.source.want_page(now_ms)
        {
            self.page_in_flight = true;
            let (core, queue) = (Arc::clone(&self.core), Arc::clone(&self.queue));
            let source_number = self.source_number;
            self.core.runtime.spawn(Box::pin(async move {
                let PageRequest { after, until_ms, limit } = request;
                let rows = core.store.due_page(queue.id, after, until_ms, limit).await;
                queue.inbox.put(|mail| mail.pages.push(Page { request, rows, source_number }));
            }));
        }
        if now_ms >= self.next_sweep_ms && !self.sweep_in_flight {
            self.next_sweep_ms = now_ms + self.core.config.sweep_ms;
            // What is known to be due need not be swept for.
            let backlog =
                !self.again.is_empty() || self.source.next_due_ms().is_some_and(|due_ms| due_ms <= now_ms);
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

    pub(super) fn adopt_swept(&mut self, swept: Result<Vec<DueRow>, StoreError>, now_ms: i64) {
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
    pub(super) fn room(&self) -> usize {
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

    pub(super) fn claim(&mut self, now_ms: i64) {
        while self.claims_in_flight < CLAIMS_IN_FLIGHT_MAX {
            if self.stopping || self.settings.paused || !self.gate.has_handler() {
                return;
            }
            let room = self.room().min(self.core.config.claim_batch_max);
            if room == 0 || !self.is_time_to_claim(now_ms) {
                return;
            }
            self.watch_probe();
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
            if !self.gate.enter(now_ms, &rows) {
                self.put_off(rows, now_ms);
                return;
            }
            self.submit_claim(rows, now_ms);
        }
    }

    /// Rows that were found and cannot be claimed now, all the same.
    fn put_off(&mut self, rows: Vec<DueRow>, now_ms: i64) {
        if let Some(limiter) = &mut self.limiter {
            limiter.give_back(u32::try_from(rows.len()).unwrap_or(0));
        }
        for row in &rows {
            self.forget_claim(row.id);
        }
        self.again.extend(rows);
        self.again_at_ms = now_ms + CLAIM_RETRY_MS;
    }

    /// A probe whose task did not get as far as its handler tells nothing: the next task may be it.
    pub(super) fn watch_probe(&mut self) {
        let Some(id) = self.gate.probe() else { return };
        if matches!(self.held.get(&id), None | Some(Slot::Withdrawn)) {
            self.gate.end_probe();
        }
    }

    /// With a limited rate tasks are claimed when due, so that the rate is that of the starts.
    pub(super) fn ahead_ms(&self) -> i64 {
        if self.limiter.is_some() { 0 } else { self.core.config.claim_ahead_ms }
    }

    /// Up to `max` tasks that may be due, each named once and none of them held.
    pub(super) fn find(&mut self, max: usize, now_ms: i64) -> Vec<DueRow> {
        let mut rows = Vec::new();
        if !self.again.is_empty() && now_ms >= self.again_at_ms {
            let keep = self.again.len().saturating_sub(max);
            rows.extend(self.again.drain(keep..));
        }
        self.source.take(now_ms + self.ahead_ms(), max - rows.len(), &mut rows);
        let (held, again) = (&mut self.held, &mut self.again);
        let waiting = again.len();
        rows.retain(|row| match held.entry(row.id) {
            Entry::Occupied(slot) => {
                // If that claim is refused because the task was moved, this may be its new time.
                if matches!(slot.get(), Slot::Claiming(_)) {
                    again.push(*row);
                }
                false
            }
            Entry::Vacant(place) => {
                place.insert(Slot::Claiming(None));
                true
            }
        });
        if again.len() > waiting {
            self.again_at_ms = now_ms + CLAIM_RETRY_MS;
        }
        rows
    }

    /// Claims are made in strides, unless one is urgent: fewer, larger commits.
    pub(super) fn is_time_to_claim(&self, now_ms: i64) -> bool {
        let urgent_by_ms = now_ms + URGENT_MS;
        now_ms >= self.next_claim_ms
            || self.source.next_due_ms().is_some_and(|due_ms| due_ms <= urgent_by_ms)
            || (!self.again.is_empty() && now_ms >= self.again_at_ms)
    }

    pub(super) fn submit_claim(&mut self, rows: Vec<DueRow>, now_ms: i64) {
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
}
