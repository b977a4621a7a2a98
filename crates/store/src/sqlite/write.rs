//! The write side: one connection, one transaction per batch.
//!
//! What a change of a task writes is in the sibling `change`; here are the transaction, the units, and the
//! small tables.

use super::open::{Lock, Opened};
use super::rows::{self, HeadRow};
use super::store_error;
use crate::committer::Backend;
use crate::roles::{KeyRow, QueueRow, RecurringRow};
use crate::unit::{Effect, StoreError, Unit, UnitReply, Write, Written};
use duebook_core::{IdMaker, QueueId, QueueSettings, Refusal, State, TaskId};
use rusqlite::{Connection, params};
use std::collections::HashMap;

/// A write's result: the outer error spoils the transaction, the inner one is an answer.
pub(super) type Outcome<T> = rusqlite::Result<Result<T, Refusal>>;

const UPDATE_COUNT: &str = "INSERT INTO counts VALUES (?1, ?2, ?3) \
     ON CONFLICT (queue, state) DO UPDATE SET n = n + excluded.n";

pub(super) struct SqliteWriter {
    pub(super) connection: Connection,
    pub(super) ids: IdMaker,
    /// The id of the last trail entry.
    pub(super) last_trail: i64,
    /// Heads of running tasks, as this writer has committed or is about to commit them.
    pub(super) running: HashMap<TaskId, HeadRow>,
    /// Last, so that the connection is closed before another process may open the file.
    _lock: Lock,
}

/// What a transaction has gathered so far besides its rows.
pub(super) struct Gathered<'a> {
    pub(super) now_ms: i64,
    pub(super) effects: &'a mut Vec<Effect>,
    /// Changes of the depth counters; written once, before the commit.
    counts: Vec<((QueueId, State), i64)>,
}

impl Gathered<'_> {
    pub(super) fn count(&mut self, queue: QueueId, state: State, by: i64) {
        match self.counts.iter_mut().find(|(place, _)| *place == (queue, state)) {
            Some((_, n)) => *n += by,
            None => self.counts.push(((queue, state), by)),
        }
    }
}

impl SqliteWriter {
    pub(super) fn new(opened: Opened, node: u16) -> Self {
        let Opened { connection, lock, last_id, last_trail, .. } = opened;
        let ids = IdMaker::new(node, last_id);
        Self { connection, ids, last_trail, running: HashMap::new(), _lock: lock }
    }

    fn run(&mut self, units: &[&Unit], gathered: &mut Gathered<'_>) -> rusqlite::Result<Vec<UnitReply>> {
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let mut replies = Vec::with_capacity(units.len());
        for unit in units {
            let all_or_none = unit.atomic && unit.writes.len() > 1;
            replies.push(Ok(if all_or_none {
                self.all_or_none(unit, gathered)?
            } else {
                let mut results = Vec::with_capacity(unit.writes.len());
                for write in &unit.writes {
                    results.push(self.write(write, gathered)?);
                }
                results
            }));
        }
        for ((queue, state), by) in gathered.counts.drain(..).filter(|(_, by)| *by != 0) {
            // A negative first count would be a bug; the table's CHECK refuses it.
            let mut update = self.connection.prepare_cached(UPDATE_COUNT)?;
            let known = update.execute(params![queue.0, state.code(), by.max(0)])?;
            debug_assert_eq!(known, 1);
            if by < 0 {
                self.connection
                    .prepare_cached("UPDATE counts SET n = n + ?3 WHERE queue = ?1 AND state = ?2")?
                    .execute(params![queue.0, state.code(), by])?;
            }
        }
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(replies)
    }

    fn all_or_none(
        &mut self,
        unit: &Unit,
        gathered: &mut Gathered<'_>,
    ) -> rusqlite::Result<Vec<Result<Written, Refusal>>> {
        self.connection.prepare_cached("SAVEPOINT unit")?.execute([])?;
        let (effects, counts) = (gathered.effects.len(), gathered.counts.clone());
        let mut results = Vec::with_capacity(unit.writes.len());
        for write in &unit.writes {
            let result = self.write(write, gathered)?;
            let refused = result.is_err();
            results.push(result);
            if refused {
                self.connection.prepare_cached("ROLLBACK TO unit")?.execute([])?;
                self.running.clear();
                gathered.effects.truncate(effects);
                gathered.counts = counts;
                break;
            }
        }
        self.connection.prepare_cached("RELEASE unit")?.execute([])?;
        Ok(results)
    }

    fn write(&mut self, write: &Write, gathered: &mut Gathered<'_>) -> Outcome<Written> {
        let count = |n: usize| Ok(Written::Count(n));
        Ok(match write {
            Write::Schedule(task) => self.schedule(task, gathered)?,
            Write::Act(act) => self.act(act, gathered)?,
            Write::Purge(ids) => count(self.purge(ids, gathered)?),
            Write::PutQueue { name, settings, keep_existing } => {
                Ok(Written::Queue(self.put_queue(name, settings, *keep_existing)?))
            }
            Write::PutRecurring(row) => count(self.put_recurring(row)?),
            Write::DeleteRecurring(name) => count(
                self.connection.prepare_cached("DELETE FROM recurring WHERE name = ?1")?.execute([name])?,
            ),
            Write::FireRecurring { name, seen_next_ms, next_ms, tasks } => {
                let moved = self
                    .connection
                    .prepare_cached("UPDATE recurring SET next_ms = ?3 WHERE name = ?1 AND next_ms = ?2")?
                    .execute(params![name, seen_next_ms, next_ms])?;
                let mut created = 0;
                if moved == 1 {
                    for task in tasks {
                        let scheduled = self.schedule(task, gathered)?;
                        created +=
                            usize::from(matches!(scheduled, Ok(Written::Scheduled { created: true, .. })));
                    }
                }
                count(created)
            }
            Write::PutKey(row) => count(self.put_key(row)?),
            Write::RevokeKey { id, now_ms } => count(
                self.connection
                    .prepare_cached(
                        "UPDATE api_keys SET revoked_ms = ?2 WHERE id = ?1 AND revoked_ms IS NULL",
                    )?
                    .execute(params![id, now_ms])?,
            ),
        })
    }

    fn put_queue(
        &self,
        name: &str,
        settings: &QueueSettings,
        keep_existing: bool,
    ) -> rusqlite::Result<QueueRow> {
        let text = serde_json::to_string(settings)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        self.connection
            .prepare_cached(if keep_existing {
                "INSERT INTO queues (name, settings) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING"
            } else {
                "INSERT INTO queues (name, settings) VALUES (?1, ?2) \
                 ON CONFLICT (name) DO UPDATE SET settings = excluded.settings"
            })?
            .execute([name, &text])?;
        self.connection
            .prepare_cached("SELECT id, name, settings FROM queues WHERE name = ?1")?
            .query_row([name], rows::queue)
    }

    fn put_recurring(&self, row: &RecurringRow) -> rusqlite::Result<usize> {
        self.connection
            .prepare_cached(&format!(
                "INSERT OR REPLACE INTO recurring ({}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                rows::RECURRING_COLUMNS
            ))?
            .execute(params![
                row.name,
                row.queue.0,
                row.cron,
                row.timezone,
                row.every_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX)),
                row.anchor_ms,
                row.payload,
                row.catch_up.as_str(),
                row.next_ms,
                row.updated_ms,
            ])
    }

    fn put_key(&self, row: &KeyRow) -> rusqlite::Result<usize> {
        self.connection.prepare_cached("INSERT INTO api_keys VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?.execute(
            params![row.id, row.hash, row.name, row.scopes, row.queues, row.created_ms, row.revoked_ms],
        )
    }
}

impl Backend for SqliteWriter {
    fn transact(
        &mut self,
        units: &[&Unit],
        now_ms: i64,
        effects: &mut Vec<Effect>,
    ) -> Result<Vec<UnitReply>, StoreError> {
        let mut gathered = Gathered { now_ms, effects, counts: Vec::new() };
        self.run(units, &mut gathered).map_err(|error| {
            gathered.effects.clear();
            self.running.clear();
            // SQLite may have rolled back by itself; then this is refused, and that is fine.
            if !self.connection.is_autocommit() {
                let _ = self.connection.execute_batch("ROLLBACK");
            }
            store_error(&error)
        })
    }
}
