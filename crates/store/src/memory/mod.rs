//! A store in memory, for tests and simulations. It passes the same conformance suite as the real ones; what
//! it lacks is durability: it lives as long as the value does.

use crate::roles::{
    BoxFuture, DueRow, EffectSink, EndedRow, KeyRow, Order, QueueRow, Reader, RecurringRow, RunningRow,
    TaskFilter, Writer,
};
use crate::unit::{Act, Effect, StoreError, Target, Unit, UnitReply, Write, Written};
use duebook_core::limits::{ERROR_BYTES_MAX, cut};
use duebook_core::{
    Clock, Command, Head, IdMaker, NewTask, OnConflict, QueueId, Refusal, State, Step, Task, TaskId,
    TrailEntry, decide,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Clone, Default)]
struct Tables {
    tasks: BTreeMap<TaskId, Task>,
    live: BTreeMap<(QueueId, String), TaskId>,
    trails: BTreeMap<TaskId, Vec<TrailEntry>>,
    queues: BTreeMap<String, QueueRow>,
    recurring: BTreeMap<String, RecurringRow>,
    keys: BTreeMap<String, KeyRow>,
}

struct Inner {
    tables: Tables,
    ids: IdMaker,
    boot: u32,
    closed: bool,
    sink: Option<Arc<dyn EffectSink>>,
}

/// The in-memory store.
pub struct MemoryStore {
    /// Held from a commit until its effects are told, so that they are told in the order of the commits.
    telling: Mutex<()>,
    inner: Mutex<Inner>,
    clock: Arc<dyn Clock>,
}

impl MemoryStore {
    /// An empty store that takes its time from `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let inner = Inner {
            tables: Tables::default(),
            ids: IdMaker::new(0, None),
            boot: 1,
            closed: false,
            sink: None,
        };
        Self { telling: Mutex::new(()), inner: Mutex::new(inner), clock }
    }

    /// Closes and opens the store again, as a restarted node would: a new incarnation, no listener.
    pub fn reopen(&self) {
        let mut inner = self.lock();
        inner.boot += 1;
        inner.closed = false;
        inner.sink = None;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ready<'a, T: Send + 'a>(
        &self,
        read: impl FnOnce(&Tables) -> T,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        let inner = self.lock();
        let result = if inner.closed { Err(StoreError::Closed) } else { Ok(read(&inner.tables)) };
        Box::pin(std::future::ready(result))
    }

    /// Commits a unit at once.
    ///
    /// # Errors
    /// When closed, or when an API key's id or hash is taken.
    pub fn commit(&self, unit: &Unit) -> UnitReply {
        let _telling = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ms = self.clock.now_ms();
        let mut inner = self.lock();
        if inner.closed {
            return Err(StoreError::Closed);
        }
        let Inner { tables, ids, sink, .. } = &mut *inner;
        let taken = |new: &KeyRow| tables.keys.values().any(|row| row.id == new.id || row.hash == new.hash);
        if unit.writes.iter().any(|write| matches!(write, Write::PutKey(row) if taken(row))) {
            return Err(StoreError::Backend("the API key's id or hash is taken".into()));
        }
        let mut effects = Vec::new();
        let before = (unit.atomic && unit.writes.len() > 1).then(|| tables.clone());
        let mut results = Vec::new();
        for write in &unit.writes {
            let mut session = Session { tables, ids, now_ms, effects: &mut effects };
            let result = session.write(write);
            let refused = result.is_err();
            results.push(result);
            if refused && let Some(before) = before {
                *tables = before;
                effects.clear();
                break;
            }
        }
        let sink = sink.clone();
        drop(inner);
        if let Some(sink) = sink.filter(|_| !effects.is_empty()) {
            sink.committed(&effects);
        }
        Ok(results)
    }
}

struct Session<'a> {
    tables: &'a mut Tables,
    ids: &'a mut IdMaker,
    now_ms: i64,
    effects: &'a mut Vec<Effect>,
}

impl Session<'_> {
    fn write(&mut self, write: &Write) -> Result<Written, Refusal> {
        match write {
            Write::Schedule(new) => self.schedule(new),
            Write::Act(act) => self.act(act),
            Write::Purge(ids) => {
                let mut purged = 0;
                for id in ids {
                    if self.tables.tasks.get(id).is_some_and(|task| !task.head.state.is_live()) {
                        self.tables.tasks.remove(id);
                        self.tables.trails.remove(id);
                        purged += 1;
                    }
                }
                Ok(Written::Count(purged))
            }
            Write::PutQueue { name, settings, keep_existing } => {
                let next_id = QueueId(self.tables.queues.len() as u32 + 1);
                let row = self.tables.queues.entry(name.clone()).or_insert_with(|| QueueRow {
                    id: next_id,
                    name: name.clone(),
                    settings: settings.clone(),
                });
                if !keep_existing {
                    row.settings = settings.clone();
                }
                Ok(Written::Queue(row.clone()))
            }
            Write::PutRecurring(row) => {
                self.tables.recurring.insert(row.name.clone(), row.clone());
                Ok(Written::Count(1))
            }
            Write::DeleteRecurring(name) => {
                Ok(Written::Count(usize::from(self.tables.recurring.remove(name).is_some())))
            }
            Write::FireRecurring { name, seen_next_ms, next_ms, tasks } => {
                match self.tables.recurring.get_mut(name) {
                    Some(row) if row.next_ms == Some(*seen_next_ms) => row.next_ms = *next_ms,
                    _ => return Ok(Written::Count(0)),
                }
                let mut fired = 0;
                for task in tasks {
                    fired += usize::from(matches!(
                        self.schedule(task),
                        Ok(Written::Scheduled { created: true, .. })
                    ));
                }
                Ok(Written::Count(fired))
            }
            Write::PutKey(row) => {
                self.tables.keys.insert(row.id.clone(), row.clone());
                Ok(Written::Count(1))
            }
            Write::RevokeKey { id, now_ms } => match self.tables.keys.get_mut(id) {
                Some(row) if row.revoked_ms.is_none() => {
                    row.revoked_ms = Some(*now_ms);
                    Ok(Written::Count(1))
                }
                _ => Ok(Written::Count(0)),
            },
        }
    }

    fn schedule(&mut self, new: &NewTask) -> Result<Written, Refusal> {
        let place = (new.queue, new.key.clone());
        let words = (new.actor.clone(), None, new.trace_id.clone());
        let Some(&id) = self.tables.live.get(&place) else {
            let id = self.ids.make(self.now_ms);
            let (head, step) = Head::scheduled(new.due_ms);
            let task = Task {
                id,
                queue: new.queue,
                key: new.key.clone(),
                head,
                payload: new.payload.clone(),
                priority: new.priority,
                retry: new.retry.clone(),
                created_ms: new.created_ms,
                committed_ms: self.now_ms,
                last_error: None,
                trace_id: new.trace_id.clone(),
            };
            self.tables.live.insert(place, id);
            self.record(&task, 1, step, words);
            self.tables.tasks.insert(id, task);
            return Ok(Written::Scheduled { id, created: true, existing: None, committed_ms: self.now_ms });
        };
        let mut task = self.tables.tasks.get(&id).cloned().ok_or(Refusal::NotFound)?;
        match new.on_conflict {
            OnConflict::Reject => return Err(Refusal::KeyTaken(id)),
            OnConflict::Keep => {}
            OnConflict::Replace => {
                let (next, steps) = task.head.replaced(new.due_ms)?;
                task.head = next;
                task.payload.clone_from(&new.payload);
                task.priority = new.priority;
                task.retry.clone_from(&new.retry);
                for step in steps.iter() {
                    self.record(&task, next.seq, step, words.clone());
                }
                self.tables.tasks.insert(id, task.clone());
            }
        }
        let committed_ms = task.committed_ms;
        Ok(Written::Scheduled { id, created: false, existing: Some(Box::new(task)), committed_ms })
    }

    fn act(&mut self, act: &Act) -> Result<Written, Refusal> {
        let id = match &act.target {
            Target::Id(id) => *id,
            Target::Key(queue, key) => {
                *self.tables.live.get(&(*queue, key.clone())).ok_or(Refusal::NotFound)?
            }
        };
        let mut task = self.tables.tasks.get(&id).cloned().ok_or(Refusal::NotFound)?;
        let before = task.head;
        let (next, steps) = decide(before, &act.command, self.now_ms)?;
        let place = (task.queue, task.key.clone());
        match (before.state.is_live(), next.state.is_live()) {
            (true, false) => {
                self.tables.live.remove(&place);
            }
            (false, true) => {
                let newer = self
                    .tables
                    .tasks
                    .range((std::ops::Bound::Excluded(id), std::ops::Bound::Unbounded))
                    .rfind(|(_, other)| other.queue == task.queue && other.key == task.key);
                if let Some((&newest, _)) = newer {
                    return Err(Refusal::KeyTaken(newest));
                }
                self.tables.live.insert(place, id);
            }
            _ => {}
        }
        task.head = next;
        let detail = act.detail.as_deref().map(|text| cut(text, ERROR_BYTES_MAX).to_owned());
        if before.state == State::Running && next.state != State::Running && detail.is_some() {
            task.last_error.clone_from(&detail);
        }
        let words = (act.actor.as_deref().map(str::to_owned), detail, act.trace_id.clone());
        for (seq, step) in (before.seq + 1..).zip(steps.iter()) {
            self.record(&task, seq, step, words.clone());
        }
        self.tables.tasks.insert(id, task.clone());
        Ok(match act.command {
            Command::Settle { .. }
            | Command::Extend { .. }
            | Command::Release { .. }
            | Command::Lapse { .. } => Written::Head {
                state: next.state,
                due_ms: next.due_ms,
                cancel_requested: next.cancel_requested,
            },
            _ => Written::Task(Box::new(task)),
        })
    }

    fn record(
        &mut self,
        task: &Task,
        seq: u32,
        step: Step,
        (actor, detail, trace_id): (Option<String>, Option<String>, Option<String>),
    ) {
        let ends_attempt = step.from == Some(State::Running) && step.to != State::Running;
        self.tables.trails.entry(task.id).or_default().push(TrailEntry {
            seq,
            at_ms: self.now_ms,
            step,
            attempt: task.head.attempt,
            due_ms: task.head.due_ms,
            started_ms: if ends_attempt { task.head.started_ms } else { None },
            actor,
            detail,
            trace_id,
        });
        self.effects.push(Effect {
            task: task.id,
            queue: task.queue,
            step,
            due_ms: task.head.due_ms,
            priority: task.priority,
            attempt: task.head.attempt,
            created_ms: task.created_ms,
            at_ms: self.now_ms,
        });
    }
}

impl Writer for MemoryStore {
    fn submit(&self, unit: Unit) -> BoxFuture<'static, UnitReply> {
        Box::pin(std::future::ready(self.commit(&unit)))
    }

    fn set_sink(&self, sink: Arc<dyn EffectSink>) {
        self.lock().sink = Some(sink);
    }

    fn boot(&self) -> u32 {
        self.lock().boot
    }

    fn waiting(&self) -> usize {
        0
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.lock().closed = true;
        Box::pin(std::future::ready(()))
    }
}

fn place(task: &Task) -> (i64, TaskId) {
    (task.head.due_ms, task.id)
}

fn due_row(task: &Task) -> DueRow {
    DueRow { due_ms: task.head.due_ms, priority: task.priority, id: task.id }
}

impl Reader for MemoryStore {
    fn task(&self, id: TaskId) -> BoxFuture<'_, Result<Option<Task>, StoreError>> {
        self.ready(|tables| tables.tasks.get(&id).cloned())
    }

    fn find<'a>(&'a self, queue: QueueId, key: &'a str) -> BoxFuture<'a, Result<Option<Task>, StoreError>> {
        self.ready(|tables| {
            tables
                .tasks
                .values()
                .filter(|task| task.queue == queue && task.key == key)
                .max_by_key(|task| (task.head.state.is_live(), task.id))
                .cloned()
        })
    }

    fn list(&self, filter: TaskFilter) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        self.ready(|tables| {
            let mut found: Vec<Task> = tables
                .tasks
                .values()
                .filter(|task| {
                    let newest_first = filter.order == Order::NewestDueFirst;
                    filter.queue.is_none_or(|queue| task.queue == queue)
                        && filter.key.as_ref().is_none_or(|key| &task.key == key)
                        && filter.state.is_none_or(|state| task.head.state == state)
                        && filter.due_before_ms.is_none_or(|ms| task.head.due_ms < ms)
                        && filter.due_after_ms.is_none_or(|ms| task.head.due_ms >= ms)
                        && filter.after.is_none_or(|after| {
                            if newest_first { place(task) < after } else { place(task) > after }
                        })
                })
                .cloned()
                .collect();
            match filter.order {
                Order::EarliestDueFirst => found.sort_by_key(place),
                Order::NewestDueFirst => found.sort_by_key(|task| std::cmp::Reverse(place(task))),
            }
            found.truncate(filter.limit);
            found
        })
    }

    fn trail(
        &self,
        id: TaskId,
        after_seq: u32,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<TrailEntry>, StoreError>> {
        self.ready(|tables| {
            let entries = tables.trails.get(&id).map_or(&[][..], Vec::as_slice);
            entries.iter().filter(|entry| entry.seq > after_seq).take(limit).cloned().collect()
        })
    }

    fn due_page(
        &self,
        queue: QueueId,
        after: Option<DueRow>,
        until_ms: i64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<DueRow>, StoreError>> {
        self.ready(|tables| {
            let mut rows: Vec<DueRow> = tables
                .tasks
                .values()
                .filter(|task| task.queue == queue && task.head.state == State::Pending)
                .map(due_row)
                .filter(|row| row.due_ms <= until_ms && after.is_none_or(|after| *row > after))
                .collect();
            rows.sort_unstable();
            rows.truncate(limit);
            rows
        })
    }

    fn running(
        &self,
        after: Option<(u32, TaskId)>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<RunningRow>, StoreError>> {
        self.ready(|tables| {
            let mut rows: Vec<RunningRow> = tables
                .tasks
                .values()
                .filter_map(|task| {
                    let lease = task.head.lease?;
                    Some(RunningRow {
                        id: task.id,
                        queue: task.queue,
                        lease: lease.key,
                        until_ms: lease.until_ms,
                        due_ms: task.head.due_ms,
                        attempt: task.head.attempt,
                        retry: task.retry.clone(),
                    })
                })
                .filter(|row| after.is_none_or(|after| (row.lease.boot, row.id) > after))
                .collect();
            rows.sort_unstable_by_key(|row| (row.lease.boot, row.id));
            rows.truncate(limit);
            rows
        })
    }

    fn walk(
        &self,
        after: TaskId,
        below: TaskId,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<EndedRow>, StoreError>> {
        self.ready(|tables| {
            tables
                .tasks
                .values()
                .filter(|task| task.id > after && task.id < below)
                .take(limit)
                .map(|task| EndedRow {
                    id: task.id,
                    state: task.head.state,
                    finished_ms: task.head.finished_ms,
                })
                .collect()
        })
    }

    fn counts(&self) -> BoxFuture<'_, Result<Vec<(QueueId, State, u64)>, StoreError>> {
        self.ready(|tables| {
            let mut counts: BTreeMap<(QueueId, State), u64> = BTreeMap::new();
            for task in tables.tasks.values() {
                *counts.entry((task.queue, task.head.state)).or_default() += 1;
            }
            counts.into_iter().map(|((queue, state), n)| (queue, state, n)).collect()
        })
    }

    fn queues(&self) -> BoxFuture<'_, Result<Vec<QueueRow>, StoreError>> {
        self.ready(|tables| tables.queues.values().cloned().collect())
    }

    fn recurring(&self) -> BoxFuture<'_, Result<Vec<RecurringRow>, StoreError>> {
        self.ready(|tables| tables.recurring.values().cloned().collect())
    }

    fn keys(&self) -> BoxFuture<'_, Result<Vec<KeyRow>, StoreError>> {
        self.ready(|tables| tables.keys.values().cloned().collect())
    }

    fn check(&self) -> BoxFuture<'_, Result<u32, StoreError>> {
        self.ready(|_| 1)
    }

    fn size_bytes(&self) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.ready(|_| 0)
    }
}
