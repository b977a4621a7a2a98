//! Columns to structures and back.

use crate::roles::{KeyRow, QueueRow, RecurringRow};
use duebook_core::recurring::CatchUp;
use duebook_core::{Head, Lease, LeaseKey, Priority, QueueId, Reason, State, Step, Task, TaskId, TrailEntry};
use rusqlite::{Result, Row};

/// The head's columns, in the order that [`head_at`] reads them.
macro_rules! head_columns {
    () => {
        "id, queue, state, due_ms, priority, attempt, seq, created_ms, boot, token, until_ms, \
         cancel_requested, fired_ms, started_ms, finished_ms, trail_head"
    };
}
/// The head's columns, and then those that [`task`] reads.
macro_rules! task_columns {
    () => {
        concat!(
            $crate::sqlite::rows::head_columns!(),
            ", committed_ms, key, retry, last_error, trace_id, payload"
        )
    };
}
pub(super) use {head_columns, task_columns};

fn wrong(column: usize, what: &str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(
        column,
        rusqlite::types::Type::Integer,
        format!("{what} has an unknown code").into(),
    )
}

/// What every command needs to know of a row.
#[derive(Clone, Copy)]
pub(super) struct HeadRow {
    pub(super) id: TaskId,
    pub(super) queue: QueueId,
    pub(super) priority: Priority,
    pub(super) created_ms: i64,
    pub(super) head: Head,
    pub(super) trail_head: i64,
}

pub(super) fn state(row: &Row<'_>, column: usize) -> Result<State> {
    State::from_code(row.get(column)?).ok_or_else(|| wrong(column, "state"))
}

pub(super) fn head(row: &Row<'_>) -> Result<HeadRow> {
    let state = state(row, 2)?;
    let lease = match state {
        State::Running => {
            Some(Lease { key: LeaseKey { boot: row.get(8)?, token: row.get(9)? }, until_ms: row.get(10)? })
        }
        _ => None,
    };
    Ok(HeadRow {
        id: TaskId::from_i64(row.get(0)?),
        queue: QueueId(row.get(1)?),
        priority: Priority::from_code(row.get(4)?),
        created_ms: row.get(7)?,
        head: Head {
            state,
            due_ms: row.get(3)?,
            attempt: row.get(5)?,
            seq: row.get(6)?,
            lease,
            cancel_requested: row.get(11)?,
            fired_ms: row.get(12)?,
            started_ms: row.get(13)?,
            finished_ms: row.get(14)?,
        },
        trail_head: row.get(15)?,
    })
}

pub(super) fn task(row: &Row<'_>) -> Result<Task> {
    Ok(task_and_head(row)?.0)
}

pub(super) fn task_and_head(row: &Row<'_>) -> Result<(Task, HeadRow)> {
    let head_row = head(row)?;
    let HeadRow { id, queue, priority, created_ms, head, .. } = head_row;
    let task = Task {
        id,
        queue,
        priority,
        created_ms,
        head,
        committed_ms: row.get(16)?,
        key: row.get(17)?,
        retry: row.get(18)?,
        last_error: row.get(19)?,
        trace_id: row.get(20)?,
        payload: row.get(21)?,
    };
    Ok((task, head_row))
}

pub(super) const TRAIL_COLUMNS: &str =
    "seq, at_ms, from_state, to_state, reason, attempt, due_ms, started_ms, actor, detail, trace_id";

pub(super) fn trail(row: &Row<'_>) -> Result<TrailEntry> {
    let from = match row.get::<_, Option<u8>>(2)? {
        None => None,
        Some(code) => Some(State::from_code(code).ok_or_else(|| wrong(2, "from_state"))?),
    };
    Ok(TrailEntry {
        seq: row.get(0)?,
        at_ms: row.get(1)?,
        step: Step {
            from,
            to: state(row, 3)?,
            reason: Reason::from_code(row.get(4)?).ok_or_else(|| wrong(4, "reason"))?,
        },
        attempt: row.get(5)?,
        due_ms: row.get(6)?,
        started_ms: row.get(7)?,
        actor: row.get(8)?,
        detail: row.get(9)?,
        trace_id: row.get(10)?,
    })
}

pub(super) fn queue(row: &Row<'_>) -> Result<QueueRow> {
    let settings: String = row.get(2)?;
    let settings = serde_json::from_str(&settings).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(2, rusqlite::types::Type::Text, Box::new(error))
    })?;
    Ok(QueueRow { id: QueueId(row.get(0)?), name: row.get(1)?, settings })
}

pub(super) const RECURRING_COLUMNS: &str =
    "name, queue, cron, timezone, every_ms, anchor_ms, payload, catch_up, next_ms, updated_ms";

pub(super) fn recurring(row: &Row<'_>) -> Result<RecurringRow> {
    let catch_up: String = row.get(7)?;
    Ok(RecurringRow {
        name: row.get(0)?,
        queue: QueueId(row.get(1)?),
        cron: row.get(2)?,
        timezone: row.get(3)?,
        every_ms: row.get::<_, Option<i64>>(4)?.map(i64::unsigned_abs),
        anchor_ms: row.get(5)?,
        payload: row.get(6)?,
        catch_up: CatchUp::parse(&catch_up).unwrap_or_default(),
        next_ms: row.get(8)?,
        updated_ms: row.get(9)?,
    })
}

pub(super) fn key(row: &Row<'_>) -> Result<KeyRow> {
    Ok(KeyRow {
        id: row.get(0)?,
        hash: row.get(1)?,
        name: row.get(2)?,
        scopes: row.get(3)?,
        queues: row.get(4)?,
        created_ms: row.get(5)?,
        revoked_ms: row.get(6)?,
    })
}
