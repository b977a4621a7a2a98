//! Ends leases whose holder is silent: pulled leases that ran out, and claims of this node that nobody holds
//! (their answer was lost on its way). And, once at start, all leases of earlier incarnations.

use super::{Report, Service};
use crate::runtime::BoxFuture;
use crate::shared::Core;
use duebook_core::retry::{FailureClass, NextAttempt};
use duebook_core::{Command, QueueId, TaskId, Verdict};
use duebook_store::{Act, RunningRow, StoreError, Unit, Write};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::oneshot;

const PAGE_ITEMS: usize = 1_000;

/// See the module.
pub(crate) struct LeaseSweeper;

impl Service for LeaseSweeper {
    fn name(&self) -> &'static str {
        "lease_sweeper"
    }

    fn run_once<'a>(&'a mut self, core: &'a Arc<Core>) -> BoxFuture<'a, Result<Report, StoreError>> {
        Box::pin(async move {
            let mut after = None;
            let mut changed = 0;
            loop {
                let rows = core.store.running(after, PAGE_ITEMS).await?;
                let Some(last) = rows.last() else { break };
                after = Some((last.lease.boot, last.id));
                let whole = rows.len() == PAGE_ITEMS;
                changed += sweep_page(core, rows).await?;
                if !whole {
                    break;
                }
            }
            Ok(Report { changed, pause_ms: core.config.lease_sweep_ms })
        })
    }
}

async fn sweep_page(core: &Arc<Core>, rows: Vec<RunningRow>) -> Result<usize, StoreError> {
    let now_ms = core.now_ms();
    let mut by_queue: BTreeMap<QueueId, Vec<RunningRow>> = BTreeMap::new();
    for row in rows {
        by_queue.entry(row.queue).or_default().push(row);
    }
    let mut writes = Vec::new();
    for (queue, rows) in by_queue {
        let ids: Vec<TaskId> = rows.iter().map(|row| row.id).collect();
        let held = ask_who_is_held(core, queue, ids).await;
        for (row, held) in rows.iter().zip(held) {
            let pulled = core.leases.worker(row.id).is_some();
            let expired = row.until_ms <= now_ms;
            if !held && row.lease.boot == core.store.boot() {
                // Nobody has it, so nobody has started it: as if it had not been claimed.
                writes.push(act(row, Command::Release { lease: row.lease }));
            } else if expired && (pulled || !held) {
                writes.push(act(row, lapse(core, row, false)));
            }
        }
    }
    commit(core, writes).await
}

async fn ask_who_is_held(core: &Core, queue: QueueId, ids: Vec<TaskId>) -> Vec<bool> {
    // Where nobody answers, nothing is taken from anybody.
    let assume_held = vec![true; ids.len()];
    let Some(queue) = core.queue_by_id(queue) else { return assume_held };
    let (reply, answer) = oneshot::channel();
    queue.inbox.put(|mail| mail.questions.push((ids, reply)));
    answer.await.unwrap_or(assume_held)
}

fn act(row: &RunningRow, command: Command) -> Write {
    Write::Act(Act::own(row.id, command))
}

/// The attempt counts, so that a task that kills its workers is dead in the end; but the rerun does not wait.
fn lapse(core: &Core, row: &RunningRow, interrupted: bool) -> Command {
    let queue_retry = core.queue_by_id(row.queue).and_then(|queue| queue.settings().retry);
    let policy = row.retry.as_deref().or(queue_retry.as_deref());
    let next = core.config.policies.next_attempt(policy, FailureClass::Transient, row.attempt, 0);
    let verdict = match next {
        NextAttempt::After { .. } => Verdict::Retry { at_ms: core.now_ms() },
        NextAttempt::Dead(_) => Verdict::Exhausted,
    };
    Command::Lapse { lease: row.lease, interrupted, verdict }
}

async fn commit(core: &Core, writes: Vec<Write>) -> Result<usize, StoreError> {
    if writes.is_empty() {
        return Ok(0);
    }
    let results = core.store.submit(Unit::each(writes)).await?;
    Ok(results.iter().filter(|result| result.is_ok()).count())
}

/// Ends every lease of an earlier incarnation. Claims made ahead for a time still to come were surely not
/// started, and are released; of the others nobody knows, and they count.
pub(crate) async fn end_old_leases(core: &Arc<Core>) -> Result<usize, StoreError> {
    let mut ended = 0;
    loop {
        let mut rows = core.store.running(None, PAGE_ITEMS).await?;
        rows.retain(|row| row.lease.boot != core.store.boot());
        if rows.is_empty() {
            return Ok(ended);
        }
        let now_ms = core.now_ms();
        let writes = rows
            .iter()
            .map(|row| {
                let unstarted = row.due_ms > now_ms;
                let command =
                    if unstarted { Command::Release { lease: row.lease } } else { lapse(core, row, true) };
                act(row, command)
            })
            .collect();
        ended += commit(core, writes).await?;
    }
}
