//! What the engine does, as metrics. Called several times per task: only kept handles and short locks here.

use super::{Metrics, counter, names, seconds_of_ms, seconds_of_us, state_label};
use duebook_core::{Reason, State, Step};
use duebook_engine::{Job, Observer, Outcome};
use duebook_store::Effect;
use metrics::Label;
use std::sync::PoisonError;

const STATES: usize = State::ALL.len();
const REASONS: usize = Reason::all().len();
/// Combinations of from (or none), to and reason, possible or not.
pub(super) const TRANSITIONS: usize = (STATES + 1) * STATES * REASONS;

fn index(step: Step) -> usize {
    let from = step.from.map_or(0, |state| usize::from(state.code()) + 1);
    (from * STATES + usize::from(step.to.code())) * REASONS + usize::from(step.reason.code())
}

impl Metrics {
    fn count(&self, step: Step, n: u64) {
        let Some(slot) = self.inner.transitions.get(index(step)) else { return };
        let counter = slot.get_or_init(|| {
            let labels = vec![
                Label::new("from", state_label(step.from)),
                Label::new("to", state_label(Some(step.to))),
                Label::new("reason", step.reason.as_str()),
            ];
            counter(&self.inner.recorder, names::TRANSITIONS, labels)
        });
        counter.increment(n);
    }
}

impl Observer for Metrics {
    fn committed(&self, effects: &[Effect]) {
        let now_ms = self.inner.clock.now_ms();
        let mut rest = effects;
        while let Some(first) = rest.first() {
            // Effects of one kind come in runs: a batch, a claim, a settle.
            let same = rest.iter().take_while(|effect| effect.step == first.step).count();
            self.count(first.step, same as u64);
            let (run, after) = rest.split_at(same);
            rest = after;
            match first.step.reason {
                Reason::Scheduled => {
                    for effect in run {
                        self.inner.created_committed.record(seconds_of_ms(now_ms - effect.created_ms));
                    }
                }
                Reason::Claimed => {
                    for effect in run {
                        self.inner.due_claimed.record(seconds_of_ms(effect.at_ms - effect.due_ms));
                    }
                }
                _ => {}
            }
        }
    }

    fn claimed(&self, _queue: &str, _asked: usize, got: usize, took_us: i64) {
        self.inner.claim_seconds.record(seconds_of_us(took_us));
        self.inner.claim_tasks.record(got as f64);
    }

    fn started(&self, job: &Job, now_us: i64) {
        let head = &job.task.head;
        let late_us = now_us - head.due_ms * 1000;
        let claimed_ms = head.fired_ms.unwrap_or(head.due_ms).max(head.due_ms);
        self.inner.claimed_started.record(seconds_of_us(now_us - claimed_ms * 1000));
        let queue = self.inner.queue(&job.queue);
        queue.lateness.record(seconds_of_us(late_us));
        queue.window.lock().unwrap_or_else(PoisonError::into_inner).note(now_us.div_euclid(1000), late_us);
    }

    fn finished(&self, job: &Job, outcome: &Outcome, now_us: i64) {
        let took_us = now_us - job.started_us();
        self.inner.started_finished.record(seconds_of_us(took_us));
        log(job, outcome, took_us);
    }

    fn pool(&self, workers: usize, busy: usize, waiting: usize) {
        self.inner.pool_workers.set(workers as f64);
        self.inner.pool_busy.set(busy as f64);
        self.inner.pool_waiting.set(waiting as f64);
    }

    fn queue(&self, queue: &str, hints: usize, held: usize) {
        let handles = self.inner.queue(queue);
        handles.hints.set(hints as f64);
        handles.held.set(held as f64);
    }

    fn swept(&self, service: &'static str, what: &'static str, count: usize) {
        let mut swept = self.inner.swept.lock().unwrap_or_else(PoisonError::into_inner);
        let counter = swept.entry((service, what)).or_insert_with(|| {
            let labels = vec![Label::new("service", service), Label::new("what", what)];
            counter(&self.inner.recorder, names::SWEPT, labels)
        });
        counter.increment(count as u64);
    }
}

/// One line per attempt: failures as information, successes for debugging. `RUST_LOG=duebook::task=…` says
/// which are written.
fn log(job: &Job, outcome: &Outcome, took_us: i64) {
    let (queue, key, attempt) = (&*job.queue, &*job.task.key, job.task.head.attempt);
    match outcome {
        Outcome::Done => {
            tracing::debug!(target: "duebook::task", task = %job.task.id, queue, key, attempt, took_us,
                trace_id = %job.trace_id(), "done");
        }
        Outcome::Failed { class, error, .. } => {
            tracing::info!(target: "duebook::task", task = %job.task.id, queue, key, attempt, took_us,
                trace_id = %job.trace_id(), class = class.as_str(), error = error.as_str(), "failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_a_place_of_its_own() {
        let mut seen = std::collections::BTreeSet::new();
        for from in std::iter::once(None).chain(State::ALL.map(Some)) {
            for to in State::ALL {
                for reason in Reason::all() {
                    assert!(seen.insert(index(Step { from, to, reason: *reason })));
                }
            }
        }
        assert_eq!(seen.len(), TRANSITIONS);
        assert_eq!(seen.last(), Some(&(TRANSITIONS - 1)));
    }
}
