//! One attempt, as a pipeline of named steps: begin → run to the deadline → classify → settle.

use crate::handler::Outcome;
use crate::job::Job;
use crate::shared::Core;
use duebook_core::limits::DUE_MS_MAX;
use duebook_core::retry::{FailureClass, NextAttempt};
use duebook_core::{Command, Verdict};
use duebook_store::{Act, Unit, Urgency, Write};
use futures_util::FutureExt;
use futures_util::future::{Either, select};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

/// A finished attempt on its way to the store.
pub(crate) struct Settled {
    pub(crate) job: Arc<Job>,
    pub(crate) verdict: Verdict,
    pub(crate) error: Option<String>,
}

/// Runs one attempt to its end. Does nothing if the job was withdrawn.
pub(crate) async fn run(core: &Arc<Core>, job: Arc<Job>) {
    if job.handler.as_ref().is_some_and(|handler| !handler.is_ready()) {
        give_back(core, &job);
        return;
    }
    if !begin(core, &job) {
        return;
    }
    let outcome = run_to_deadline(core, &job).await;
    let now_us = core.runtime.clock().now_us();
    core.observer.finished(&job, &outcome, now_us);
    core.note_service_time(now_us - job.started_us());
    let (verdict, error) = classify(core, &job, outcome);
    core.settler.push(Settled { job, verdict, error });
}

/// The handler stopped taking tasks while this one waited for a worker.
fn give_back(core: &Core, job: &Job) {
    if job.withdraw() {
        let release = Write::Act(Act::own(job.task.id, Command::Release { lease: job.lease }));
        core.submit_later(Unit { writes: vec![release], atomic: false, urgency: Urgency::Linger });
    }
}

fn begin(core: &Core, job: &Job) -> bool {
    let now_us = core.runtime.clock().now_us();
    let started = job.start(now_us);
    if started {
        core.observer.started(job, now_us);
    }
    started
}

async fn run_to_deadline(core: &Core, job: &Arc<Job>) -> Outcome {
    let Some(handler) = &job.handler else {
        return Outcome::failed(FailureClass::Transient, "no handler is registered for this queue");
    };
    let attempt = AssertUnwindSafe(handler.run(job)).catch_unwind();
    // The deadline is polled second: an attempt that ends at once costs no timer.
    let deadline = core.runtime.sleep_us(job.timeout_ms.saturating_mul(1000));
    match select(attempt, deadline).await {
        Either::Left((Ok(outcome), _)) => outcome,
        Either::Left((Err(panic), _)) => {
            let words = panic
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_default();
            Outcome::failed(FailureClass::Transient, format!("the handler panicked: {words}"))
        }
        Either::Right(((), _)) => {
            job.ask_to_stop();
            Outcome::failed(
                FailureClass::Transient,
                format!("the attempt passed its deadline of {} ms", job.timeout_ms),
            )
        }
    }
}

/// What an outcome means for the task: a pure decision, by the retry policies.
pub(crate) fn classify(core: &Core, job: &Job, outcome: Outcome) -> (Verdict, Option<String>) {
    let (class, error, delay_ms) = match outcome {
        Outcome::Done => return (Verdict::Done, None),
        Outcome::Failed { class, error, delay_ms } => (class, error, delay_ms),
    };
    let attempts = job.task.head.attempt;
    let policies = &core.config.policies;
    let next = match policies.next_attempt(job.retry(), class, attempts, core.runtime.random()) {
        NextAttempt::After { delay_ms: by_policy } => {
            NextAttempt::After { delay_ms: by_policy.max(delay_ms.unwrap_or(0)) }
        }
        dead @ NextAttempt::Dead(_) => dead,
    };
    let verdict = match next.verdict(core.now_ms()) {
        Verdict::Retry { at_ms } => Verdict::Retry { at_ms: at_ms.min(DUE_MS_MAX) },
        other => other,
    };
    (verdict, Some(error))
}
