//! Fires recurring schedules. The tasks and the schedule's next time are written in one unit, guarded by the
//! time that was seen: time is never advanced past something that was not fired, and nothing fires twice.

use super::{Report, Service};
use crate::runtime::BoxFuture;
use crate::shared::Core;
use duebook_core::recurring::Every;
use duebook_core::{NewTask, OnConflict, Priority};
use duebook_store::{RecurringRow, StoreError, Unit, Write, Written};
use std::sync::Arc;
use tokio::sync::Notify;

/// Most missed times fired in one unit.
const OCCURRENCES_MAX: usize = 200;
const PAUSE_MAX_MS: i64 = 5_000;

/// See the module.
pub(crate) struct Recurring;

/// The rule of a stored schedule; none if this program cannot read it any more.
pub(crate) fn rule_of(row: &RecurringRow) -> Option<Every> {
    let rule = match (&row.cron, row.every_ms) {
        (Some(cron), _) => Every::cron(cron, row.timezone.as_deref().unwrap_or("UTC")),
        (None, Some(every_ms)) => Every::interval(every_ms, row.anchor_ms),
        (None, None) => return None,
    };
    rule.map_err(|error| tracing::error!(schedule = row.name, %error, "schedule cannot be read")).ok()
}

impl Service for Recurring {
    fn name(&self) -> &'static str {
        "recurring"
    }

    fn bell<'a>(&self, core: &'a Core) -> Option<&'a Notify> {
        Some(&core.recurring_bell)
    }

    fn run_once<'a>(&'a mut self, core: &'a Arc<Core>) -> BoxFuture<'a, Result<Report, StoreError>> {
        Box::pin(async move {
            let now_ms = core.now_ms();
            let mut earliest_ms = now_ms + PAUSE_MAX_MS;
            let mut changed = 0;
            for row in core.store.recurring().await? {
                let Some(seen_next_ms) = row.next_ms else { continue };
                if seen_next_ms > now_ms {
                    earliest_ms = earliest_ms.min(seen_next_ms);
                    continue;
                }
                let Some(rule) = rule_of(&row) else { continue };
                let grace_ms = core.config.misfire_grace_ms;
                let due = rule.due_occurrences(seen_next_ms, now_ms, row.catch_up, grace_ms, OCCURRENCES_MAX);
                if due.skipped > 0 {
                    core.observer.swept(
                        "recurring",
                        "skipped",
                        usize::try_from(due.skipped).unwrap_or(usize::MAX),
                    );
                    tracing::info!(schedule = row.name, skipped = due.skipped, "missed times were skipped");
                }
                let tasks = due.fire.iter().map(|at_ms| task_at(&row, *at_ms, now_ms)).collect();
                let write = Write::FireRecurring {
                    name: row.name.clone(),
                    seen_next_ms,
                    next_ms: due.next_ms,
                    tasks,
                };
                if let Some(Ok(Written::Count(n))) = core.store.submit(Unit::one(write)).await?.first() {
                    changed += n;
                }
                if let Some(next_ms) = due.next_ms {
                    earliest_ms = earliest_ms.min(next_ms);
                }
            }
            Ok(Report { changed, pause_ms: earliest_ms - core.now_ms() })
        })
    }
}

/// The task of one time of a schedule. Its key names the time, so that the same time has one task.
fn task_at(row: &RecurringRow, at_ms: i64, now_ms: i64) -> NewTask {
    let at = jiff::Timestamp::from_millisecond(at_ms).map_or_else(|_| at_ms.to_string(), |at| at.to_string());
    NewTask {
        queue: row.queue,
        key: format!("{}@{at}", row.name),
        due_ms: at_ms,
        payload: row.payload.clone(),
        priority: Priority::Normal,
        retry: None,
        on_conflict: OnConflict::Keep,
        created_ms: now_ms,
        trace_id: None,
        actor: Some(format!("schedule:{}", row.name)),
    }
}
