//! Heartbeats: every lease is extended before a third of it has passed, in batches, until it is settled.

use super::config::{EXTEND_CALLS_MAX, EXTEND_ITEMS_MAX};
use super::context::CancelReason;
use super::running::Attempt;
use super::shared::Shared;
use super::stats::add;
use crate::model::{ExtendAnswer, LeaseRef};
use futures_util::StreamExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// Beats until it is dropped.
pub(super) async fn beat_forever(shared: Arc<Shared>) {
    // Looking twice a third, for leases that have passed half a third: none is older than a third when extended.
    let beat_ms = (shared.config.lease_ms / 6).max(1);
    let mut beats = interval(Duration::from_millis(beat_ms));
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        beats.tick().await;
        beat(&shared, beat_ms).await;
    }
}

async fn beat(shared: &Shared, age_ms: u64) {
    let aged = shared.running.older_than(age_ms);
    // One call that hangs must not use up the time of the next beats.
    let patience = Duration::from_millis((shared.config.lease_ms / 3).max(1));
    futures_util::stream::iter(aged.chunks(EXTEND_ITEMS_MAX))
        .for_each_concurrent(EXTEND_CALLS_MAX, |batch| extend(shared, batch, patience))
        .await;
    // Without news for a whole lease, it must be taken for lost: another worker may have begun.
    let now_ms = shared.running.now_ms();
    for attempt in aged.iter().filter(|a| a.lease_age_ms(now_ms) >= shared.config.lease_ms) {
        lose(shared, attempt);
    }
}

async fn extend(shared: &Shared, batch: &[Arc<Attempt>], patience: Duration) {
    let asked_ms = shared.running.now_ms();
    let leases: Vec<LeaseRef> = batch.iter().map(|attempt| attempt.lease()).collect();
    let answers = match timeout(patience, shared.heartbeat.extend(&leases, shared.config.lease_ms)).await {
        Ok(Ok(answers)) => answers,
        Ok(Err(error)) => {
            add(&shared.counters.extend_errors, 1);
            tracing::warn!(queue = shared.config.queue, %error, leases = leases.len(), "leases not extended");
            return;
        }
        Err(_) => {
            add(&shared.counters.extend_errors, 1);
            return;
        }
    };
    for (attempt, answer) in batch.iter().zip(answers) {
        match answer {
            ExtendAnswer::Extended { cancel_requested } => {
                attempt.extended_at(asked_ms);
                add(&shared.counters.extended, 1);
                if cancel_requested && attempt.cancel.raise(CancelReason::Requested as u8) {
                    add(&shared.counters.cancelled, 1);
                }
            }
            // An attempt that has ended was settled while the beat was under way, most likely.
            ExtendAnswer::Refused(_) if attempt.is_ended() => {}
            ExtendAnswer::Refused(fault) => {
                tracing::warn!(task = attempt.id, code = fault.code, "lease lost");
                lose(shared, attempt);
            }
        }
    }
}

fn lose(shared: &Shared, attempt: &Attempt) {
    if attempt.lose() {
        add(&shared.counters.lost, 1);
    }
}
