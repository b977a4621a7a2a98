//! The write side: one connection, one transaction per batch.
//!
//! Statements are looped and cached, never built per call. Each kind of change has its own `UPDATE`, so that
//! it touches only the indexes it must.

use super::rows::{self, HeadRow, head_columns, task_columns};
use super::store_error;
use crate::committer::Backend;
use crate::roles::{KeyRow, QueueRow, RecurringRow};
use crate::unit::{Act, Effect, StoreError, Target, Unit, UnitReply, Write, Written};
use duebook_core::limits::{ERROR_BYTES_MAX, cut};
use duebook_core::{
    Command, Head, IdMaker, NewTask, OnConflict, Priority, QueueId, QueueSettings, Refusal, State, Step,
    Task, TaskId, decide,
};
use rusqlite::{Connection, OptionalExtension, params};

/// A write's result: the outer error spoils the transaction, the inner one is an answer.
type Outcome<T> = rusqlite::Result<Result<T, Refusal>>;

const INSERT_TASK: &str = "INSERT INTO tasks (id, queue, key, life, state, due_ms, priority, attempt, seq, \
     created_ms, committed_ms, retry, trace_id, payload) \
     VALUES (?1, ?2, ?3, 0, 0, ?4, ?5, 0, 1, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (queue, key, life) DO NOTHING";
const INSERT_TRAIL: &str = "INSERT INTO trail (task, seq, at_ms, from_state, to_state, reason, attempt, \
     due_ms, started_ms, actor, detail, trace_id) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
const SELECT_HEAD: &str = concat!("SELECT ", head_columns!(), " FROM tasks WHERE id = ?1");
const SELECT_TASK: &str = concat!("SELECT ", task_columns!(), " FROM tasks WHERE id = ?1");
const SELECT_LIVE_ID: &str = "SELECT id FROM tasks WHERE queue = ?1 AND key = ?2 AND life = 0";
const UPDATE_CLAIM: &str = "UPDATE tasks SET state = 1, attempt = ?2, seq = ?3, boot = ?4, token = ?5, \
     until_ms = ?6, fired_ms = ?7, started_ms = NULL WHERE id = ?1";
const UPDATE_LEASE: &str = "UPDATE tasks SET until_ms = ?2, cancel_requested = ?3, seq = ?4 WHERE id = ?1";
const UPDATE_DUE: &str = "UPDATE tasks SET due_ms = ?2, seq = ?3 WHERE id = ?1";
const UPDATE_END: &str = "UPDATE tasks SET state = ?2, life = id, seq = ?3, attempt = ?4, boot = NULL, \
     token = NULL, until_ms = NULL, cancel_requested = 0, fired_ms = ?5, started_ms = ?6, finished_ms = ?7, \
     last_error = COALESCE(?8, last_error) WHERE id = ?1";
const UPDATE_PENDING: &str = "UPDATE tasks SET state = 0, due_ms = ?2, seq = ?3, attempt = ?4, boot = NULL, \
     token = NULL, until_ms = NULL, cancel_requested = 0, fired_ms = ?5, started_ms = ?6, \
     last_error = COALESCE(?7, last_error) WHERE id = ?1";
const UPDATE_REVIVE: &str = "UPDATE tasks SET state = 0, life = 0, due_ms = ?2, seq = ?3, attempt = 0, \
     finished_ms = NULL WHERE id = ?1";
const UPDATE_REPLACE: &str = "UPDATE tasks SET due_ms = ?2, seq = ?3, attempt = 0, payload = ?4, \
     priority = ?5, retry = ?6 WHERE id = ?1";
const UPDATE_COUNT: &str = "INSERT INTO counts VALUES (?1, ?2, ?3) \
     ON CONFLICT (queue, state) DO UPDATE SET n = n + excluded.n";

pub(super) struct SqliteWriter {
    connection: Connection,
    ids: IdMaker,
}

/// What a transaction has gathered so far besides its rows.
struct Gathered<'a> {
    now_ms: i64,
    effects: &'a mut Vec<Effect>,
    /// Changes of the depth counters; written once, before the commit.
    counts: Vec<((QueueId, State), i64)>,
}

impl Gathered<'_> {
    fn count(&mut self, queue: QueueId, state: State, by: i64) {
        match self.counts.iter_mut().find(|(place, _)| *place == (queue, state)) {
            Some((_, n)) => *n += by,
            None => self.counts.push(((queue, state), by)),
        }
    }
}

/// What the trail says besides the step.
#[derive(Clone, Copy, Default)]
struct Words<'a> {
    actor: Option<&'a str>,
    detail: Option<&'a str>,
    trace_id: Option<&'a str>,
}

impl SqliteWriter {
    pub(super) fn new(connection: Connection, node: u16, last_id: Option<TaskId>) -> Self {
        Self { connection, ids: IdMaker::new(node, last_id) }
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
                self.connection
                    .prepare_cached("DELETE FROM recurring WHERE name = ?1")?
                    .execute([name])?,
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
                        created += usize::from(matches!(
                            scheduled,
                            Ok(Written::Scheduled { created: true, .. })
                        ));
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

    fn schedule(&mut self, new: &NewTask, gathered: &mut Gathered<'_>) -> Outcome<Written> {
        let id = self.ids.make(gathered.now_ms);
        let committed_ms = gathered.now_ms;
        let inserted = self.connection.prepare_cached(INSERT_TASK)?.execute(params![
            id.as_i64(),
            new.queue.0,
            new.key,
            new.due_ms,
            new.priority as u8,
            new.created_ms,
            committed_ms,
            new.retry,
            new.trace_id,
            new.payload,
        ])?;
        let words =
            Words { actor: new.actor.as_deref(), detail: None, trace_id: new.trace_id.as_deref() };
        if inserted == 1 {
            let (head, step) = Head::scheduled(new.due_ms);
            gathered.count(new.queue, State::Pending, 1);
            let place = Place {
                id,
                queue: new.queue,
                priority: new.priority,
                created_ms: new.created_ms,
                at_ms: gathered.now_ms,
            };
            self.record(&place, &head, 1, step, words, gathered)?;
            return Ok(Ok(Written::Scheduled { id, created: true, existing: None, committed_ms }));
        }
        let existing: i64 = self
            .connection
            .prepare_cached(SELECT_LIVE_ID)?
            .query_row(params![new.queue.0, new.key], |row| row.get(0))?;
        let id = TaskId::from_i64(existing);
        match new.on_conflict {
            OnConflict::Reject => return Ok(Err(Refusal::KeyTaken(id))),
            OnConflict::Keep => {}
            OnConflict::Replace => {
                let Some(row) = self.head_row(id)? else { return Ok(Err(Refusal::NotFound)) };
                let (next, steps) = match row.head.replaced(new.due_ms) {
                    Ok(decided) => decided,
                    Err(refusal) => return Ok(Err(refusal)),
                };
                self.connection.prepare_cached(UPDATE_REPLACE)?.execute(params![
                    existing,
                    next.due_ms,
                    next.seq,
                    new.payload,
                    new.priority as u8,
                    new.retry,
                ])?;
                let place = Place { priority: new.priority, ..Place::of(&row, gathered.now_ms) };
                for step in steps.iter() {
                    self.record(&place, &next, next.seq, step, words, gathered)?;
                }
            }
        }
        let task = self.task(id)?.map(Box::new);
        let committed_ms = task.as_ref().map_or(committed_ms, |task| task.committed_ms);
        Ok(Ok(Written::Scheduled { id, created: false, existing: task, committed_ms }))
    }

    fn act(&mut self, act: &Act, gathered: &mut Gathered<'_>) -> Outcome<Written> {
        let id = match &act.target {
            Target::Id(id) => *id,
            Target::Key(queue, key) => {
                let found: Option<i64> = self
                    .connection
                    .prepare_cached(SELECT_LIVE_ID)?
                    .query_row(params![queue.0, key], |row| row.get(0))
                    .optional()?;
                match found {
                    Some(id) => TaskId::from_i64(id),
                    None => return Ok(Err(Refusal::NotFound)),
                }
            }
        };
        let claims = matches!(act.command, Command::Claim { .. });
        // A claim hands the whole task to its handler: read it at once, the row's page is at hand.
        let (row, task) = if claims {
            match self.task(id)? {
                None => return Ok(Err(Refusal::NotFound)),
                Some(task) => (
                    HeadRow {
                        id,
                        queue: task.queue,
                        priority: task.priority,
                        created_ms: task.created_ms,
                        head: task.head,
                    },
                    Some(task),
                ),
            }
        } else {
            match self.head_row(id)? {
                None => return Ok(Err(Refusal::NotFound)),
                Some(row) => (row, None),
            }
        };
        let (next, steps) = match decide(row.head, &act.command, gathered.now_ms) {
            Ok(decided) => decided,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if let Err(refusal) = self.update(&row, &next, act)? {
            return Ok(Err(refusal));
        }
        if row.head.state != next.state {
            gathered.count(row.queue, row.head.state, -1);
            gathered.count(row.queue, next.state, 1);
        }
        let place = Place::of(&row, gathered.now_ms);
        let words = Words {
            actor: act.actor.as_deref(),
            detail: act.detail.as_deref().map(|text| cut(text, ERROR_BYTES_MAX)),
            trace_id: act.trace_id.as_deref(),
        };
        for (seq, step) in (row.head.seq + 1..).zip(steps.iter()) {
            self.record(&place, &next, seq, step, words, gathered)?;
        }
        Ok(Ok(match (act.command, task) {
            (_, Some(task)) => Written::Task(Box::new(Task { head: next, ..task })),
            (
                Command::Settle { .. }
                | Command::Extend { .. }
                | Command::Release { .. }
                | Command::Lapse { .. },
                None,
            ) => Written::Head {
                state: next.state,
                due_ms: next.due_ms,
                cancel_requested: next.cancel_requested,
            },
            (_, None) => match self.task(id)? {
                Some(task) => Written::Task(Box::new(task)),
                None => return Ok(Err(Refusal::NotFound)),
            },
        }))
    }

    /// Writes the row of `next`, with the narrowest statement that will do.
    fn update(&self, row: &HeadRow, next: &Head, act: &Act) -> Outcome<()> {
        let (id, before) = (row.id.as_i64(), &row.head);
        let error = act.detail.as_deref().map(|text| cut(text, ERROR_BYTES_MAX));
        let prepare = |sql| self.connection.prepare_cached(sql);
        let changed = match (before.state, next.state) {
            (State::Pending, State::Running) => {
                let lease = next.lease.as_ref();
                prepare(UPDATE_CLAIM)?.execute(params![
                    id,
                    next.attempt,
                    next.seq,
                    lease.map(|l| l.key.boot),
                    lease.map(|l| l.key.token),
                    lease.map(|l| l.until_ms),
                    next.fired_ms,
                ])?
            }
            (State::Running, State::Running) => prepare(UPDATE_LEASE)?.execute(params![
                id,
                next.lease.map(|l| l.until_ms),
                next.cancel_requested,
                next.seq
            ])?,
            (State::Pending, State::Pending) => {
                prepare(UPDATE_DUE)?.execute(params![id, next.due_ms, next.seq])?
            }
            (State::Dead, State::Pending) => {
                let updated = prepare(UPDATE_REVIVE)?.execute(params![id, next.due_ms, next.seq]);
                match updated {
                    Err(rusqlite::Error::SqliteFailure(failure, _))
                        if failure.extended_code == rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE =>
                    {
                        // Its key has another live task by now.
                        let key: String = prepare("SELECT key FROM tasks WHERE id = ?1")?
                            .query_row([id], |row| row.get(0))?;
                        let taken: i64 = prepare(SELECT_LIVE_ID)?
                            .query_row(params![row.queue.0, key], |row| row.get(0))?;
                        return Ok(Err(Refusal::KeyTaken(TaskId::from_i64(taken))));
                    }
                    other => other?,
                }
            }
            (_, State::Pending) => prepare(UPDATE_PENDING)?.execute(params![
                id,
                next.due_ms,
                next.seq,
                next.attempt,
                next.fired_ms,
                next.started_ms,
                error,
            ])?,
            (_, ended) => prepare(UPDATE_END)?.execute(params![
                id,
                ended.code(),
                next.seq,
                next.attempt,
                next.fired_ms,
                next.started_ms,
                next.finished_ms,
                error,
            ])?,
        };
        debug_assert_eq!(changed, 1);
        Ok(Ok(()))
    }

    fn record(
        &self,
        place: &Place,
        head: &Head,
        seq: u32,
        step: Step,
        words: Words<'_>,
        gathered: &mut Gathered<'_>,
    ) -> rusqlite::Result<()> {
        let ends_attempt = step.from == Some(State::Running) && step.to != State::Running;
        self.connection.prepare_cached(INSERT_TRAIL)?.execute(params![
            place.id.as_i64(),
            seq,
            place.at_ms,
            step.from.map(State::code),
            step.to.code(),
            step.reason.code(),
            head.attempt,
            head.due_ms,
            if ends_attempt { head.started_ms } else { None },
            words.actor,
            words.detail,
            words.trace_id,
        ])?;
        gathered.effects.push(Effect {
            task: place.id,
            queue: place.queue,
            step,
            due_ms: head.due_ms,
            priority: place.priority,
            attempt: head.attempt,
            created_ms: place.created_ms,
            at_ms: place.at_ms,
        });
        Ok(())
    }

    fn head_row(&self, id: TaskId) -> rusqlite::Result<Option<HeadRow>> {
        self.connection.prepare_cached(SELECT_HEAD)?.query_row([id.as_i64()], rows::head).optional()
    }

    fn task(&self, id: TaskId) -> rusqlite::Result<Option<Task>> {
        self.connection.prepare_cached(SELECT_TASK)?.query_row([id.as_i64()], rows::task).optional()
    }

    fn purge(&self, ids: &[TaskId], gathered: &mut Gathered<'_>) -> rusqlite::Result<usize> {
        let mut purged = 0;
        for id in ids {
            let row: Option<(u32, State)> = self
                .connection
                .prepare_cached("DELETE FROM tasks WHERE id = ?1 AND state >= 2 RETURNING queue, state")?
                .query_row([id.as_i64()], |row| Ok((row.get(0)?, rows::state(row, 1)?)))
                .optional()?;
            let Some((queue, state)) = row else { continue };
            self.connection
                .prepare_cached("DELETE FROM trail WHERE task = ?1")?
                .execute([id.as_i64()])?;
            gathered.count(QueueId(queue), state, -1);
            purged += 1;
        }
        Ok(purged)
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
                rows::catch_up_text(row.catch_up),
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

/// What the trail and the effects need to know of a task besides its head.
struct Place {
    id: TaskId,
    queue: QueueId,
    priority: Priority,
    created_ms: i64,
    at_ms: i64,
}

impl Place {
    fn of(row: &HeadRow, at_ms: i64) -> Self {
        Self { id: row.id, queue: row.queue, priority: row.priority, created_ms: row.created_ms, at_ms }
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
            // SQLite may have rolled back by itself; then this is refused, and that is fine.
            if !self.connection.is_autocommit() {
                let _ = self.connection.execute_batch("ROLLBACK");
            }
            store_error(&error)
        })
    }
}
