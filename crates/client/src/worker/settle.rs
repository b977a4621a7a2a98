//! Settling: outcomes are collected into batches and sent until the server answers.

use super::config::{AWAY_WAIT_MS, SETTLE_CALLS_MAX, SETTLE_ITEMS_MAX};
use super::flag::Flag;
use super::running::Attempt;
use super::shared::{Ended, Shared};
use super::stats::{Counters, add};
use crate::model::{SettleAnswer, Settlement, SettlementOutcome};
use crate::retry::Backoff;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::Receiver;
use tokio::time::sleep;

/// Settles until `closing` is raised and nothing is left.
pub(super) async fn settle_forever(shared: Arc<Shared>, mut ended: Receiver<Ended>, closing: Arc<Flag>) {
    let linger = Duration::from_millis(shared.config.settle_linger_ms);
    let mut calls = FuturesUnordered::new();
    let mut batch: Vec<Ended> = Vec::new();
    loop {
        while calls.len() >= SETTLE_CALLS_MAX {
            calls.next().await;
        }
        tokio::select! {
            biased;
            Some(()) = calls.next() => continue,
            count = ended.recv_many(&mut batch, SETTLE_ITEMS_MAX) => if count == 0 { break },
            () = closing.wait(), if !ended.is_closed() => {
                ended.close();
                continue;
            }
        }
        // The others of the same moment come along. They wait in the channel: no wake-up for each.
        let linger = sleep(linger);
        tokio::pin!(linger);
        while batch.len() < SETTLE_ITEMS_MAX {
            tokio::select! {
                biased;
                Some(()) = calls.next() => {}
                () = &mut linger => break,
                () = closing.wait() => break,
            }
        }
        while batch.len() < SETTLE_ITEMS_MAX
            && let Ok(more) = ended.try_recv()
        {
            batch.push(more);
        }
        calls.push(settle(&shared, std::mem::take(&mut batch)));
    }
    while calls.next().await.is_some() {}
}

/// Sends a batch until it is answered. What makes the server refuse a whole batch is looked for by halving it.
async fn settle(shared: &Shared, batch: Vec<Ended>) {
    let (attempts, settlements): (Vec<_>, Vec<_>) = batch
        .into_iter()
        .map(|Ended { attempt, outcome }| {
            let settlement = outcome.settlement(&attempt.id, &attempt.token);
            (attempt, settlement)
        })
        .unzip();
    let mut backoff = Backoff::new(20, AWAY_WAIT_MS);
    let whole = 0..attempts.len();
    let mut slices = Vec::from([whole]);
    while let Some(slice) = slices.pop() {
        match shared.work.settle(&settlements[slice.clone()]).await {
            Ok(answers) => {
                backoff.reset();
                for ((attempt, settlement), answer) in
                    attempts[slice.clone()].iter().zip(&settlements[slice]).zip(answers)
                {
                    count(&shared.counters, attempt, settlement, answer);
                }
            }
            Err(error) if error.is_retryable() => {
                add(&shared.counters.settle_errors, 1);
                tracing::warn!(queue = shared.config.queue, %error, tasks = slice.len(), "not settled yet");
                slices.push(slice);
                sleep(backoff.next(error.retry_after())).await;
            }
            Err(error) if slice.len() > 1 && matches!(error.status(), Some(400 | 413 | 422)) => {
                let middle = slice.start + slice.len() / 2;
                slices.extend([middle..slice.end, slice.start..middle]);
            }
            Err(error) => {
                add(&shared.counters.unsettled, slice.len());
                tracing::error!(queue = shared.config.queue, %error, tasks = slice.len(), "cannot be settled");
            }
        }
    }
    shared.running.remove(&attempts);
}

fn count(counters: &Counters, attempt: &Attempt, settlement: &Settlement, answer: SettleAnswer) {
    match answer {
        SettleAnswer::Settled => {
            let counter = match settlement.outcome {
                SettlementOutcome::Done => &counters.done,
                SettlementOutcome::Retry => &counters.retried,
                SettlementOutcome::Dead => &counters.dead,
            };
            add(counter, 1);
        }
        SettleAnswer::Refused(fault) if fault.code == "lease_lost" => {
            if attempt.lose() {
                add(&counters.lost, 1);
            }
        }
        SettleAnswer::Refused(fault) => {
            add(&counters.unsettled, 1);
            tracing::warn!(task = attempt.id, code = fault.code, detail = fault.detail, "settlement refused");
        }
    }
}
