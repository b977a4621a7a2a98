//! Deletes what retention no longer wants, in slices that stall nobody, and exports it before if asked.
//!
//! It walks the ids, which are in time order, with a cursor; no index serves retention alone.

use super::{Report, Service};
use crate::export;
use crate::runtime::BoxFuture;
use crate::shared::Core;
use duebook_core::{State, TaskId};
use duebook_store::{EndedRow, StoreError, Unit, Urgency, Write, Written};
use std::sync::Arc;

/// See the module.
pub(crate) struct Janitor {
    cursor: TaskId,
}

impl Janitor {
    pub(crate) fn new() -> Self {
        Self { cursor: TaskId::from_i64(0) }
    }
}

impl Service for Janitor {
    fn name(&self) -> &'static str {
        "janitor"
    }

    fn run_once<'a>(&'a mut self, core: &'a Arc<Core>) -> BoxFuture<'a, Result<Report, StoreError>> {
        Box::pin(async move {
            let retention = &core.config.retention;
            let now_ms = core.now_ms();
            let ages = [retention.succeeded_ms, retention.cancelled_ms, retention.dead_ms];
            let Some(youngest_ms) = ages.into_iter().flatten().min() else {
                return Ok(Report { changed: 0, pause_ms: retention.walk_pause_ms });
            };
            // Nothing that was created after this can be old enough.
            let below = TaskId::floor_of_ms(now_ms - youngest_ms);
            let rows = core.store.walk(self.cursor, below, retention.slice_items).await?;
            let is_old = |row: &EndedRow| {
                let age_ms = match row.state {
                    State::Succeeded => retention.succeeded_ms,
                    State::Cancelled => retention.cancelled_ms,
                    State::Dead => retention.dead_ms,
                    State::Pending | State::Running => None,
                };
                matches!((age_ms, row.finished_ms), (Some(age), Some(at)) if at <= now_ms - age)
            };
            let old: Vec<TaskId> = rows.iter().filter(|row| is_old(row)).map(|row| row.id).collect();
            if !old.is_empty() && retention.export_dir.is_some() {
                export::export(core, &old).await?;
            }
            let mut purged = 0;
            if !old.is_empty() {
                let unit = Unit { writes: vec![Write::Purge(old)], atomic: false, urgency: Urgency::Linger };
                if let Some(Ok(Written::Count(n))) = core.store.submit(unit).await?.first() {
                    purged = *n;
                }
            }
            let (cursor, pause_ms) = match rows.last() {
                Some(last) if rows.len() == retention.slice_items => (last.id, retention.slice_pause_ms),
                _ => (TaskId::from_i64(0), retention.walk_pause_ms),
            };
            self.cursor = cursor;
            Ok(Report { changed: purged, pause_ms })
        })
    }
}
