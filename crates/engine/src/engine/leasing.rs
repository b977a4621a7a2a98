//! Pulled leases: lease, settle, extend.

use super::{Engine, EngineError};
use crate::execute::classify;
use crate::handler::Outcome;
use crate::inbox::Pull;
use crate::job::Job;
use duebook_core::{Command, HandlerSpec, LeaseKey, Refusal, TaskId};
use duebook_store::{Act, Target, Unit, Write, Written};
use std::sync::Arc;
use tokio::sync::oneshot;

/// A worker asks for tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRequest {
    /// The worker's name, for the trail.
    pub worker: String,
    /// Most tasks.
    pub max: usize,
    /// How long to wait for one, in milliseconds.
    pub wait_ms: u64,
    /// How long the lease lasts, in milliseconds.
    pub lease_ms: u64,
}

/// A leased task.
#[derive(Clone)]
pub struct Leased {
    /// The task as claimed.
    pub job: Arc<Job>,
    /// When the lease ends, in epoch milliseconds.
    pub until_ms: i64,
}

/// A worker tells how an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettleRequest {
    /// The task.
    pub id: TaskId,
    /// The lease it ran under.
    pub lease: LeaseKey,
    /// How it ended.
    pub outcome: Outcome,
}

/// A prolonged lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extension {
    /// Whether the worker is asked to stop.
    pub cancel_requested: bool,
}

impl Engine {
    /// Waits for due tasks and leases them; answers as soon as there is one, or with none after the wait.
    ///
    /// # Errors
    /// When the queue's handler is another one.
    pub async fn lease(&self, queue: &str, request: LeaseRequest) -> Result<Vec<Leased>, EngineError> {
        let found = self.queue_or_create(queue).await?;
        if found.settings().handler != HandlerSpec::Lease {
            return Err(EngineError::NotPulled(queue.to_owned()));
        }
        if self.core.is_stopping() {
            return Err(EngineError::Stopping);
        }
        let deadline_ms = self.now_ms().saturating_add_unsigned(request.wait_ms);
        let (reply, answer) = oneshot::channel();
        let pull = Pull {
            max: request.max.max(1),
            lease_ms: request.lease_ms,
            deadline_ms,
            worker: Arc::from(request.worker),
            reply,
        };
        found.inbox.put(|mail| mail.pulls.push(pull));
        let jobs = answer.await.unwrap_or_default();
        Ok(jobs
            .into_iter()
            .map(|job| {
                let claimed_until_ms = job.task.head.lease.map_or(0, |lease| lease.until_ms);
                let asked_until_ms =
                    job.started_us().div_euclid(1000).saturating_add_unsigned(request.lease_ms);
                Leased { until_ms: claimed_until_ms.max(asked_until_ms), job }
            })
            .collect())
    }

    /// Settles leases, each for itself; answers in order. They are durable when this returns.
    ///
    /// # Errors
    /// When the store failed; then all may be settled again.
    pub async fn settle(
        &self,
        requests: Vec<SettleRequest>,
    ) -> Result<Vec<Result<(), Refusal>>, EngineError> {
        let now_us = self.core.runtime.clock().now_us();
        let mut answers = Vec::with_capacity(requests.len());
        let mut writes = Vec::with_capacity(requests.len());
        for SettleRequest { id, lease, outcome } in requests {
            let Some((job, worker)) = self.core.leases.find(id, lease) else {
                answers.push(Err(Refusal::LeaseLost));
                continue;
            };
            self.core.observer.finished(&job, &outcome, now_us);
            let (verdict, error) = classify(&self.core, &job, outcome);
            let started_ms = job.started_us().div_euclid(1000);
            answers.push(Ok(()));
            writes.push(Write::Act(Act {
                target: Target::Id(id),
                command: Command::Settle { lease, verdict, started_ms },
                actor: Some(worker),
                detail: error,
                trace_id: None,
            }));
        }
        if writes.is_empty() {
            return Ok(answers);
        }
        let results = self.core.store.submit(Unit::each(writes)).await?;
        let open = answers.iter_mut().filter(|answer| answer.is_ok());
        for (answer, result) in open.zip(results) {
            *answer = result.map(|_| ());
        }
        Ok(answers)
    }

    /// Prolongs leases to `lease_ms` from now; answers in order.
    ///
    /// # Errors
    /// When the store failed.
    pub async fn extend(
        &self,
        leases: Vec<(TaskId, LeaseKey)>,
        lease_ms: u64,
    ) -> Result<Vec<Result<Extension, Refusal>>, EngineError> {
        let until_ms = self.now_ms().saturating_add_unsigned(lease_ms);
        let writes = leases
            .into_iter()
            .map(|(id, lease)| Write::Act(Act::own(id, Command::Extend { lease, until_ms })))
            .collect();
        let results = self.core.store.submit(Unit::each(writes)).await?;
        Ok(results
            .into_iter()
            .map(|result| match result? {
                Written::Head { cancel_requested, .. } => Ok(Extension { cancel_requested }),
                _ => Ok(Extension { cancel_requested: false }),
            })
            .collect())
    }
}
