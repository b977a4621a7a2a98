//! Changes of tasks: read the row, let the rules decide, write what they say.
//!
//! Statements are looped and cached, never built per call. Each kind of change has its own `UPDATE`, so that
//! it touches only the indexes it must.

use super::rows::{self, HeadRow, head_columns, task_columns};
use super::write::{Gathered, Outcome, SqliteWriter};
use crate::unit::{Act, Effect, Target, Written};
use duebook_core::limits::{ERROR_BYTES_MAX, cut};
use duebook_core::{
    Command, Head, NewTask, OnConflict, Priority, QueueId, Refusal, State, Step, Task, TaskId, decide,
};
use rusqlite::{OptionalExtension, params};

/// Heads of running tasks kept in memory.
const REMEMBERED_MAX: usize = 50_000;

const INSERT_TASK: &str = "INSERT INTO tasks (id, queue, key, state, due_ms, priority, attempt, seq, \
     created_ms, committed_ms, retry, trail_head, trace_id, payload) \
     VALUES (?1, ?2, ?3, 0, ?4, ?5, 0, 1, ?6, ?7, ?8, ?9, ?10, ?11)";
const INSERT_TRAIL: &str = "INSERT INTO trail (id, prev, task, seq, at_ms, from_state, to_state, reason, \
     attempt, due_ms, started_ms, actor, detail, trace_id) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
const SELECT_HEAD: &str = concat!("SELECT ", head_columns!(), " FROM tasks WHERE id = ?1");
const SELECT_TASK: &str = concat!("SELECT ", task_columns!(), " FROM tasks WHERE id = ?1");
const SELECT_NEWEST: &str =
    "SELECT id, state FROM tasks WHERE queue = ?1 AND key = ?2 ORDER BY id DESC LIMIT 1";
const UPDATE_CLAIM: &str = "UPDATE tasks SET state = 1, attempt = ?3, seq = ?4, boot = ?5, token = ?6, \
     until_ms = ?7, fired_ms = ?8, started_ms = NULL, trail_head = ?2 WHERE id = ?1";
const UPDATE_LEASE: &str = "UPDATE tasks SET until_ms = ?3, cancel_requested = ?4, seq = ?5, trail_head = ?2 \
     WHERE id = ?1";
const UPDATE_DUE: &str = "UPDATE tasks SET due_ms = ?3, seq = ?4, trail_head = ?2 WHERE id = ?1";
const UPDATE_END: &str = "UPDATE tasks SET state = ?3, seq = ?4, attempt = ?5, boot = NULL, token = NULL, \
     until_ms = NULL, cancel_requested = 0, fired_ms = ?6, started_ms = ?7, finished_ms = ?8, \
     last_error = COALESCE(?9, last_error), due_ms = ?10, trail_head = ?2 WHERE id = ?1";
const UPDATE_PENDING: &str = "UPDATE tasks SET state = 0, due_ms = ?3, seq = ?4, attempt = ?5, boot = NULL, \
     token = NULL, until_ms = NULL, cancel_requested = 0, fired_ms = ?6, started_ms = ?7, \
     last_error = COALESCE(?8, last_error), trail_head = ?2 WHERE id = ?1";
const UPDATE_REVIVE: &str = "UPDATE tasks SET state = 0, due_ms = ?3, seq = ?4, attempt = 0, \
     finished_ms = NULL, trail_head = ?2 WHERE id = ?1";
const UPDATE_REPLACE: &str = "UPDATE tasks SET due_ms = ?3, seq = ?4, attempt = 0, payload = ?5, \
     priority = ?6, retry = ?7, trail_head = ?2 WHERE id = ?1";

/// What the trail says besides the step.
#[derive(Clone, Copy, Default)]
struct Words<'a> {
    actor: Option<&'a str>,
    detail: Option<&'a str>,
    trace_id: Option<&'a str>,
}

impl SqliteWriter {
    pub(super) fn schedule(&mut self, new: &NewTask, gathered: &mut Gathered<'_>) -> Outcome<Written> {
        let committed_ms = gathered.now_ms;
        let words = Words { actor: new.actor.as_deref(), detail: None, trace_id: new.trace_id.as_deref() };
        let Some(id) = self.live_with_key(new.queue, &new.key)? else {
            let id = self.ids.make(gathered.now_ms);
            let (head, step) = Head::scheduled(new.due_ms);
            let place = Place {
                id,
                queue: new.queue,
                priority: new.priority,
                created_ms: new.created_ms,
                at_ms: gathered.now_ms,
            };
            let trail_head = self.record(&place, &head, None, 1, step, words, gathered)?;
            self.connection.prepare_cached(INSERT_TASK)?.execute(params![
                id.as_i64(),
                new.queue.0,
                new.key,
                new.due_ms,
                new.priority as u8,
                new.created_ms,
                committed_ms,
                new.retry,
                trail_head,
                new.trace_id,
                new.payload,
            ])?;
            gathered.count(new.queue, State::Pending, 1);
            return Ok(Ok(Written::Scheduled { id, created: true, existing: None, committed_ms }));
        };
        match new.on_conflict {
            OnConflict::Reject => return Ok(Err(Refusal::KeyTaken(id))),
            OnConflict::Keep => {}
            OnConflict::Replace => {
                let Some(row) = self.head_row(id)? else { return Ok(Err(Refusal::NotFound)) };
                let (next, steps) = match row.head.replaced(new.due_ms) {
                    Ok(decided) => decided,
                    Err(refusal) => return Ok(Err(refusal)),
                };
                let place = Place { priority: new.priority, ..Place::of(&row, gathered.now_ms) };
                let mut trail_head = row.trail_head;
                for step in steps.iter() {
                    trail_head =
                        self.record(&place, &next, Some(trail_head), next.seq, step, words, gathered)?;
                }
                self.connection.prepare_cached(UPDATE_REPLACE)?.execute(params![
                    id.as_i64(),
                    trail_head,
                    next.due_ms,
                    next.seq,
                    new.payload,
                    new.priority as u8,
                    new.retry,
                ])?;
            }
        }
        let task = self.task(id)?.map(Box::new);
        let committed_ms = task.as_ref().map_or(committed_ms, |task| task.committed_ms);
        Ok(Ok(Written::Scheduled { id, created: false, existing: task, committed_ms }))
    }

    pub(super) fn act(&mut self, act: &Act, gathered: &mut Gathered<'_>) -> Outcome<Written> {
        let id = match &act.target {
            Target::Id(id) => *id,
            Target::Key(queue, key) => match self.live_with_key(*queue, key)? {
                Some(id) => id,
                None => return Ok(Err(Refusal::NotFound)),
            },
        };
        let claims = matches!(act.command, Command::Claim { .. });
        // A claim hands the whole task to its handler: read it at once, the row's page is at hand.
        let (row, task) = if claims {
            let found = self
                .connection
                .prepare_cached(SELECT_TASK)?
                .query_row([id.as_i64()], rows::task_and_head)
                .optional()?;
            match found {
                None => return Ok(Err(Refusal::NotFound)),
                Some((task, row)) => (row, Some(task)),
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
        if act.command == Command::Revive
            && let Some(newest) = self.newer_with_key(&row)?
        {
            return Ok(Err(Refusal::KeyTaken(newest)));
        }
        let place = Place::of(&row, gathered.now_ms);
        let words = Words {
            actor: act.actor.as_deref(),
            detail: act.detail.as_deref().map(|text| cut(text, ERROR_BYTES_MAX)),
            trace_id: act.trace_id.as_deref(),
        };
        let mut trail_head = row.trail_head;
        for (seq, step) in (row.head.seq + 1..).zip(steps.iter()) {
            trail_head = self.record(&place, &next, Some(trail_head), seq, step, words, gathered)?;
        }
        // Words about anything but an attempt are the trail's alone.
        let error = words.detail.filter(|_| row.head.state == State::Running);
        self.update(&row, &next, trail_head, error)?;
        self.remember(row, next, trail_head);
        if row.head.state != next.state {
            gathered.count(row.queue, row.head.state, -1);
            gathered.count(row.queue, next.state, 1);
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
    fn update(
        &self,
        row: &HeadRow,
        next: &Head,
        trail_head: i64,
        error: Option<&str>,
    ) -> rusqlite::Result<()> {
        let id = row.id.as_i64();
        let prepare = |sql| self.connection.prepare_cached(sql);
        let changed = match (row.head.state, next.state) {
            (State::Pending, State::Running) => {
                let lease = next.lease.as_ref();
                prepare(UPDATE_CLAIM)?.execute(params![
                    id,
                    trail_head,
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
                trail_head,
                next.lease.map(|l| l.until_ms),
                next.cancel_requested,
                next.seq
            ])?,
            (State::Pending, State::Pending) => {
                prepare(UPDATE_DUE)?.execute(params![id, trail_head, next.due_ms, next.seq])?
            }
            (State::Dead, State::Pending) => {
                prepare(UPDATE_REVIVE)?.execute(params![id, trail_head, next.due_ms, next.seq])?
            }
            (_, State::Pending) => prepare(UPDATE_PENDING)?.execute(params![
                id,
                trail_head,
                next.due_ms,
                next.seq,
                next.attempt,
                next.fired_ms,
                next.started_ms,
                error,
            ])?,
            (_, ended) => prepare(UPDATE_END)?.execute(params![
                id,
                trail_head,
                ended.code(),
                next.seq,
                next.attempt,
                next.fired_ms,
                next.started_ms,
                next.finished_ms,
                error,
                next.due_ms,
            ])?,
        };
        debug_assert_eq!(changed, 1);
        Ok(())
    }

    /// Appends an entry to the trail and answers its id, which the task's row must then bear.
    #[allow(clippy::too_many_arguments)] // the columns of one row
    fn record(
        &mut self,
        place: &Place,
        head: &Head,
        prev: Option<i64>,
        seq: u32,
        step: Step,
        words: Words<'_>,
        gathered: &mut Gathered<'_>,
    ) -> rusqlite::Result<i64> {
        let ends_attempt = step.from == Some(State::Running) && step.to != State::Running;
        self.last_trail += 1;
        self.connection.prepare_cached(INSERT_TRAIL)?.execute(params![
            self.last_trail,
            prev,
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
        Ok(self.last_trail)
    }

    /// The live task with this key. Of the tasks with one key only the newest can be live: a task is inserted
    /// only when there is no live one, and revived only while it is the newest.
    fn live_with_key(&self, queue: QueueId, key: &str) -> rusqlite::Result<Option<TaskId>> {
        let newest = self
            .connection
            .prepare_cached(SELECT_NEWEST)?
            .query_row(params![queue.0, key], |row| Ok((TaskId::from_i64(row.get(0)?), rows::state(row, 1)?)))
            .optional()?;
        Ok(newest.filter(|(_, state)| state.is_live()).map(|(id, _)| id))
    }

    /// The newest task with the same key, if it is another one.
    fn newer_with_key(&self, row: &HeadRow) -> rusqlite::Result<Option<TaskId>> {
        let newest: i64 = self
            .connection
            .prepare_cached(
                "SELECT id FROM tasks WHERE queue = ?1 AND key = (SELECT key FROM tasks WHERE id = ?2) \
                 ORDER BY id DESC LIMIT 1",
            )?
            .query_row(params![row.queue.0, row.id.as_i64()], |row| row.get(0))?;
        Ok(Some(TaskId::from_i64(newest)).filter(|newest| *newest != row.id))
    }

    fn head_row(&self, id: TaskId) -> rusqlite::Result<Option<HeadRow>> {
        // Nobody else writes: what this writer remembers of a running task is what its row says.
        if let Some(row) = self.running.get(&id) {
            return Ok(Some(*row));
        }
        self.connection.prepare_cached(SELECT_HEAD)?.query_row([id.as_i64()], rows::head).optional()
    }

    /// Remembers the heads of running tasks, so that a settle need not read what its claim has written.
    fn remember(&mut self, row: HeadRow, next: Head, trail_head: i64) {
        if next.state == State::Running {
            if self.running.len() >= REMEMBERED_MAX {
                self.running.clear();
            }
            self.running.insert(row.id, HeadRow { head: next, trail_head, ..row });
        } else {
            self.running.remove(&row.id);
        }
    }

    fn task(&self, id: TaskId) -> rusqlite::Result<Option<Task>> {
        self.connection.prepare_cached(SELECT_TASK)?.query_row([id.as_i64()], rows::task).optional()
    }

    pub(super) fn purge(&self, ids: &[TaskId], gathered: &mut Gathered<'_>) -> rusqlite::Result<usize> {
        let mut purged = 0;
        for id in ids {
            let deleted = self
                .connection
                .prepare_cached(
                    "DELETE FROM tasks WHERE id = ?1 AND state >= 2 RETURNING queue, state, trail_head",
                )?
                .query_row([id.as_i64()], |row| {
                    Ok((row.get::<_, u32>(0)?, rows::state(row, 1)?, row.get::<_, i64>(2)?))
                })
                .optional()?;
            let Some((queue, state, trail_head)) = deleted else { continue };
            let mut entry = Some(trail_head);
            while let Some(id) = entry {
                entry = self
                    .connection
                    .prepare_cached("DELETE FROM trail WHERE id = ?1 RETURNING prev")?
                    .query_row([id], |row| row.get(0))
                    .optional()?
                    .flatten();
            }
            gathered.count(QueueId(queue), state, -1);
            purged += 1;
        }
        Ok(purged)
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
