//! The read side: a few connections, each used by one blocking call at a time, so that reads never wait for
//! the writer and are bounded in number.

use super::open::{self, OpenError};
use super::rows::{self, task_columns};
use super::{SqliteConfig, SqliteStore, store_error};
use crate::roles::{
    BoxFuture, DueRow, EndedRow, KeyRow, Order, QueueRow, Reader, RecurringRow, RunningRow, TaskFilter,
};
use crate::unit::StoreError;
use duebook_core::{LeaseKey, Priority, QueueId, State, Task, TaskId, TrailEntry};
use rusqlite::{Connection, OptionalExtension, ToSql, params};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

pub(super) struct Readers {
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn open(config: &SqliteConfig) -> Result<Self, OpenError> {
        let count = config.readers.max(1);
        let idle = (0..count).map(|_| open::open_reader(config)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { idle: Mutex::new(idle), permits: Arc::new(Semaphore::new(count)) })
    }

    /// Refuses later reads and lets the connections go, those in use as soon as they are free.
    pub(super) fn close(&self) {
        self.permits.close();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Runs a read on one moment of the store, however many statements it takes.
    async fn with<T: Send + 'static>(
        self: Arc<Self>,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| StoreError::Closed)?;
        tokio::task::spawn_blocking(move || {
            // Held until the connection is back, even if nobody waits for the answer any more.
            let _permit = permit;
            let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(connection) = idle().pop() else { return Err(StoreError::Closed) };
            let result = connection.unchecked_transaction().and_then(|transaction| read(&transaction));
            let mut idle = idle();
            if !self.permits.is_closed() {
                idle.push(connection);
            }
            result.map_err(|error| store_error(&error))
        })
        .await
        .unwrap_or(Err(StoreError::Closed))
    }
}

impl SqliteStore {
    fn read<'a, T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        Box::pin(Arc::clone(&self.readers).with(read))
    }
}

/// A page of a listing: one query per queue and state, as partial indexes serve them, merged.
fn list(connection: &Connection, filter: &TaskFilter) -> rusqlite::Result<Vec<Task>> {
    let queues: Vec<u32> = match filter.queue {
        Some(queue) => vec![queue.0],
        None => connection
            .prepare_cached("SELECT id FROM queues")?
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()?,
    };
    let mut found = Vec::new();
    for queue in queues {
        if let Some(key) = &filter.key {
            // A key's lives are few and lie together.
            found.extend(page(connection, filter, queue, "key = :key", &[(":key", key as &dyn ToSql)])?);
            continue;
        }
        for state in State::ALL.into_iter().filter(|state| filter.state.is_none_or(|only| only == *state)) {
            // The literal lets SQLite see which partial index applies.
            let clause = format!("state = {}", state.code());
            found.extend(page(connection, filter, queue, &clause, &[])?);
        }
    }
    let place = |task: &Task| (task.head.due_ms, task.id);
    match filter.order {
        Order::EarliestDueFirst => found.sort_unstable_by_key(place),
        Order::NewestDueFirst => found.sort_unstable_by_key(|task| std::cmp::Reverse(place(task))),
    }
    if let Some(state) = filter.state {
        found.retain(|task| task.head.state == state);
    }
    found.truncate(filter.limit);
    Ok(found)
}

fn page(
    connection: &Connection,
    filter: &TaskFilter,
    queue: u32,
    clause: &str,
    extra: &[(&str, &dyn ToSql)],
) -> rusqlite::Result<Vec<Task>> {
    let (compare, direction) = match filter.order {
        Order::EarliestDueFirst => (">", "ASC"),
        Order::NewestDueFirst => ("<", "DESC"),
    };
    let keyset = if filter.after.is_some() {
        format!("AND (due_ms, id) {compare} (:after_due, :after_id)")
    } else {
        String::new()
    };
    let sql = format!(
        "SELECT {} FROM tasks WHERE queue = :queue AND {clause} AND due_ms >= :from AND due_ms < :below \
         {keyset} ORDER BY due_ms {direction}, id {direction} LIMIT :limit",
        task_columns!()
    );
    let from = filter.due_after_ms.unwrap_or(i64::MIN);
    let below = filter.due_before_ms.unwrap_or(i64::MAX);
    let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
    let (after_due, after_id) = filter.after.map_or((0, 0), |(due_ms, id)| (due_ms, id.as_i64()));
    let mut values: Vec<(&str, &dyn ToSql)> =
        vec![(":queue", &queue), (":from", &from), (":below", &below), (":limit", &limit)];
    if filter.after.is_some() {
        values.push((":after_due", &after_due));
        values.push((":after_id", &after_id));
    }
    values.extend_from_slice(extra);
    connection.prepare_cached(&sql)?.query_map(values.as_slice(), rows::task)?.collect()
}

impl Reader for SqliteStore {
    fn task(&self, id: TaskId) -> BoxFuture<'_, Result<Option<Task>, StoreError>> {
        self.read(move |connection| {
            connection
                .prepare_cached(concat!("SELECT ", task_columns!(), " FROM tasks WHERE id = ?1"))?
                .query_row([id.as_i64()], rows::task)
                .optional()
        })
    }

    fn find<'a>(&'a self, queue: QueueId, key: &'a str) -> BoxFuture<'a, Result<Option<Task>, StoreError>> {
        let key = key.to_owned();
        self.read(move |connection| {
            // If one is live it is the newest.
            connection
                .prepare_cached(concat!(
                    "SELECT ",
                    task_columns!(),
                    " FROM tasks WHERE queue = ?1 AND key = ?2 ORDER BY id DESC LIMIT 1"
                ))?
                .query_row(params![queue.0, key], rows::task)
                .optional()
        })
    }

    fn list(&self, filter: TaskFilter) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        self.read(move |connection| list(connection, &filter))
    }

    fn trail(
        &self,
        id: TaskId,
        after_seq: u32,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<TrailEntry>, StoreError>> {
        self.read(move |connection| {
            // From the last entry back to the first one wanted.
            let mut next: Option<i64> = connection
                .prepare_cached("SELECT trail_head FROM tasks WHERE id = ?1")?
                .query_row([id.as_i64()], |row| row.get(0))
                .optional()?;
            let sql = format!("SELECT {}, prev FROM trail WHERE id = ?1", rows::TRAIL_COLUMNS);
            let mut select = connection.prepare_cached(&sql)?;
            let mut entries = VecDeque::new();
            while let Some(entry_id) = next {
                let (entry, prev) =
                    select.query_row([entry_id], |row| Ok((rows::trail(row)?, row.get("prev")?)))?;
                if entry.seq <= after_seq {
                    break;
                }
                entries.push_front(entry);
                // Only the first `limit` are wanted: forget the later ones.
                entries.truncate(limit);
                next = prev;
            }
            Ok(entries.into())
        })
    }

    fn due_page(
        &self,
        queue: QueueId,
        after: Option<DueRow>,
        until_ms: i64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<DueRow>, StoreError>> {
        let (due, priority, id) =
            after.map_or((i64::MIN, 0, i64::MIN), |row| (row.due_ms, row.priority as u8, row.id.as_i64()));
        self.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT due_ms, priority, id FROM tasks WHERE state = 0 AND queue = ?1 AND due_ms <= ?2 \
                     AND (due_ms, priority, id) > (?3, ?4, ?5) ORDER BY due_ms, priority, id LIMIT ?6",
                )?
                .query_map(
                    params![queue.0, until_ms, due, priority, id, i64::try_from(limit).unwrap_or(i64::MAX)],
                    |row| {
                        Ok(DueRow {
                            due_ms: row.get(0)?,
                            priority: Priority::from_code(row.get(1)?),
                            id: TaskId::from_i64(row.get(2)?),
                        })
                    },
                )?
                .collect()
        })
    }

    fn running(
        &self,
        after: Option<(u32, TaskId)>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<RunningRow>, StoreError>> {
        let (boot, id) = after.unwrap_or((0, TaskId::from_i64(i64::MIN)));
        self.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT id, queue, boot, token, until_ms, due_ms, attempt, retry FROM tasks \
                     WHERE state = 1 AND (boot, id) > (?1, ?2) ORDER BY boot, id LIMIT ?3",
                )?
                .query_map(params![boot, id.as_i64(), i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
                    Ok(RunningRow {
                        id: TaskId::from_i64(row.get(0)?),
                        queue: QueueId(row.get(1)?),
                        lease: LeaseKey { boot: row.get(2)?, token: row.get(3)? },
                        until_ms: row.get(4)?,
                        due_ms: row.get(5)?,
                        attempt: row.get(6)?,
                        retry: row.get(7)?,
                    })
                })?
                .collect()
        })
    }

    fn walk(
        &self,
        after: TaskId,
        below: TaskId,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<EndedRow>, StoreError>> {
        self.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT id, state, finished_ms FROM tasks WHERE id > ?1 AND id < ?2 ORDER BY id LIMIT ?3",
                )?
                .query_map(
                    params![after.as_i64(), below.as_i64(), i64::try_from(limit).unwrap_or(i64::MAX)],
                    |row| {
                        Ok(EndedRow {
                            id: TaskId::from_i64(row.get(0)?),
                            state: rows::state(row, 1)?,
                            finished_ms: row.get(2)?,
                        })
                    },
                )?
                .collect()
        })
    }

    fn counts(&self) -> BoxFuture<'_, Result<Vec<(QueueId, State, u64)>, StoreError>> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT queue, state, n FROM counts")?
                .query_map([], |row| {
                    Ok((QueueId(row.get(0)?), rows::state(row, 1)?, row.get::<_, i64>(2)?.unsigned_abs()))
                })?
                .collect()
        })
    }

    fn queues(&self) -> BoxFuture<'_, Result<Vec<QueueRow>, StoreError>> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT id, name, settings FROM queues ORDER BY name")?
                .query_map([], rows::queue)?
                .collect()
        })
    }

    fn recurring(&self) -> BoxFuture<'_, Result<Vec<RecurringRow>, StoreError>> {
        self.read(|connection| {
            connection
                .prepare_cached(&format!("SELECT {} FROM recurring ORDER BY name", rows::RECURRING_COLUMNS))?
                .query_map([], rows::recurring)?
                .collect()
        })
    }

    fn keys(&self) -> BoxFuture<'_, Result<Vec<KeyRow>, StoreError>> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT * FROM api_keys ORDER BY created_ms")?
                .query_map([], rows::key)?
                .collect()
        })
    }

    fn check(&self) -> BoxFuture<'_, Result<u32, StoreError>> {
        self.read(|connection| {
            connection.query_row("SELECT COUNT(*) FROM meta", [], |row| row.get::<_, i64>(0))?;
            connection.query_row("PRAGMA user_version", [], |row| row.get(0))
        })
    }

    fn size_bytes(&self) -> BoxFuture<'_, Result<u64, StoreError>> {
        let path = self.path.clone();
        Box::pin(async move {
            let of = |suffix: &str| {
                let mut name = path.as_os_str().to_owned();
                name.push(suffix);
                std::fs::metadata(name).map_or(0, |meta| meta.len())
            };
            Ok(of("") + of("-wal"))
        })
    }
}
