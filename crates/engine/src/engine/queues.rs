//! Queues and recurring schedules.

use super::{Engine, EngineError, only, unexpected};
use crate::queue::Queue;
use crate::services::recurring::rule_of;
use duebook_core::limits::{QUEUES_MAX, RECURRING_MAX};
use duebook_core::recurring::{CatchUp, Every};
use duebook_core::{QueueId, QueueSettings, State};
use duebook_store::{RecurringRow, Unit, Write, Written};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A queue with its figures.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueView {
    /// Its number.
    pub id: QueueId,
    /// Its name.
    pub name: String,
    /// Its settings.
    pub settings: QueueSettings,
    /// Tasks by state, in the order of [`State::ALL`].
    pub depth: [u64; 5],
    /// Due time of the earliest pending task, in epoch milliseconds.
    pub oldest_due_ms: Option<i64>,
}

/// A recurring schedule with its next times.
#[derive(Debug, Clone, PartialEq)]
pub struct RecurringView {
    /// As stored.
    pub row: RecurringRow,
    /// Its queue's name.
    pub queue: String,
    /// The next five times, in epoch milliseconds.
    pub next_ms: Vec<i64>,
}

const NEXT_TIMES: usize = 5;

impl Engine {
    /// The queue of this name, created with default settings if it does not exist.
    pub(super) async fn queue_or_create(&self, name: &str) -> Result<Arc<Queue>, EngineError> {
        if let Some(queue) = self.core.queue(name) {
            return Ok(queue);
        }
        self.put(name, QueueSettings::default(), true).await
    }

    async fn put(
        &self,
        name: &str,
        settings: QueueSettings,
        keep_existing: bool,
    ) -> Result<Arc<Queue>, EngineError> {
        if self.core.is_stopping() {
            return Err(EngineError::Stopping);
        }
        let _one_at_a_time = self.creating.lock().await;
        let known = self.core.queue(name);
        match &known {
            Some(queue) if keep_existing => return Ok(Arc::clone(queue)),
            Some(_) => {}
            None if self.core.all_queues().len() >= QUEUES_MAX => {
                return Err(EngineError::TooMany { what: "queues", max: QUEUES_MAX });
            }
            None => {}
        }
        let write = Write::PutQueue { name: name.to_owned(), settings, keep_existing };
        let Written::Queue(row) = only(self.core.store.submit(Unit::one(write)).await?)? else {
            return Err(unexpected(None));
        };
        if let Some(queue) = known {
            queue.change_settings(row.settings);
            return Ok(queue);
        }
        let queue = self.enlist(&row);
        self.run_queue(Arc::clone(&queue), row.settings);
        Ok(queue)
    }

    /// Creates a queue or changes its settings. The caller has checked their bounds.
    ///
    /// # Errors
    /// When there are too many queues, or the store failed.
    pub async fn put_queue(&self, name: &str, settings: QueueSettings) -> Result<QueueView, EngineError> {
        self.put(name, settings, false).await?;
        self.queue_view(name).await
    }

    /// Pauses or resumes a queue.
    ///
    /// # Errors
    /// When there is no such queue.
    pub async fn set_paused(&self, name: &str, paused: bool) -> Result<QueueView, EngineError> {
        let queue = self.core.queue(name).ok_or_else(|| EngineError::NoQueue(name.to_owned()))?;
        let settings = QueueSettings { paused, ..queue.settings() };
        self.put_queue(name, settings).await
    }

    /// The settings of a queue.
    #[must_use]
    pub fn queue_settings(&self, name: &str) -> Option<QueueSettings> {
        self.core.queue(name).map(|queue| queue.settings())
    }

    /// A queue's number.
    #[must_use]
    pub fn queue_id(&self, name: &str) -> Option<QueueId> {
        self.core.queue(name).map(|queue| queue.id)
    }

    /// The name of a queue.
    #[must_use]
    pub fn queue_name(&self, id: QueueId) -> Option<Arc<str>> {
        self.core.queue_by_id(id).map(|queue| Arc::clone(&queue.name))
    }

    /// One queue with its figures.
    ///
    /// # Errors
    /// When there is no such queue.
    pub async fn queue_view(&self, name: &str) -> Result<QueueView, EngineError> {
        let queue = self.core.queue(name).ok_or_else(|| EngineError::NoQueue(name.to_owned()))?;
        let mut views = self.views(vec![queue]).await?;
        views.pop().ok_or_else(|| EngineError::NoQueue(name.to_owned()))
    }

    /// All queues with their figures, by name.
    ///
    /// # Errors
    /// When the store failed.
    pub async fn queue_views(&self) -> Result<Vec<QueueView>, EngineError> {
        self.views(self.core.all_queues()).await
    }

    async fn views(&self, queues: Vec<Arc<Queue>>) -> Result<Vec<QueueView>, EngineError> {
        let mut depths: BTreeMap<QueueId, [u64; 5]> = BTreeMap::new();
        for (queue, state, n) in self.core.store.counts().await? {
            depths.entry(queue).or_default()[usize::from(state.code())] = n;
        }
        let mut views = Vec::with_capacity(queues.len());
        for queue in queues {
            let depth = depths.get(&queue.id).copied().unwrap_or_default();
            let oldest = if depth[usize::from(State::Pending.code())] > 0 {
                self.core.store.due_page(queue.id, None, i64::MAX, 1).await?
            } else {
                Vec::new()
            };
            views.push(QueueView {
                id: queue.id,
                name: queue.name.to_string(),
                settings: queue.settings(),
                depth,
                oldest_due_ms: oldest.first().map(|row| row.due_ms),
            });
        }
        Ok(views)
    }

    /// Creates or changes a recurring schedule; its first time is the next one after now.
    ///
    /// # Errors
    /// When there are too many, or the store failed.
    pub async fn put_recurring(
        &self,
        name: &str,
        queue: &str,
        rule: &Every,
        payload: Option<String>,
        catch_up: CatchUp,
    ) -> Result<RecurringView, EngineError> {
        let now_ms = self.now_ms();
        let rows = self.core.store.recurring().await?;
        if rows.len() >= RECURRING_MAX && !rows.iter().any(|row| row.name == name) {
            return Err(EngineError::TooMany { what: "recurring schedules", max: RECURRING_MAX });
        }
        let queue_id = self.queue_or_create(queue).await?.id;
        let (cron, timezone, every_ms, anchor_ms) = match rule {
            Every::Cron(rule) => {
                (Some(rule.expression().to_owned()), Some(rule.timezone().to_owned()), None, 0)
            }
            Every::Interval(rule) => (None, None, Some(rule.every_ms()), rule.anchor_ms()),
        };
        let row = RecurringRow {
            name: name.to_owned(),
            queue: queue_id,
            cron,
            timezone,
            every_ms,
            anchor_ms,
            payload,
            catch_up,
            next_ms: rule.next_after(now_ms),
            updated_ms: now_ms,
        };
        self.core.store.submit(Unit::one(Write::PutRecurring(row.clone()))).await?;
        self.core.recurring_bell.notify_one();
        Ok(self.recurring_view(row))
    }

    /// Deletes a recurring schedule. False if there was none. Tasks that it has scheduled stay.
    ///
    /// # Errors
    /// When the store failed.
    pub async fn delete_recurring(&self, name: &str) -> Result<bool, EngineError> {
        let write = Write::DeleteRecurring(name.to_owned());
        let written = only(self.core.store.submit(Unit::one(write)).await?)?;
        Ok(matches!(written, Written::Count(1)))
    }

    /// All recurring schedules, by name.
    ///
    /// # Errors
    /// When the store failed.
    pub async fn recurring(&self) -> Result<Vec<RecurringView>, EngineError> {
        let rows = self.core.store.recurring().await?;
        Ok(rows.into_iter().map(|row| self.recurring_view(row)).collect())
    }

    fn recurring_view(&self, row: RecurringRow) -> RecurringView {
        let mut next_ms: Vec<i64> = row.next_ms.into_iter().collect();
        if let (Some(first), Some(rule)) = (row.next_ms, rule_of(&row)) {
            next_ms.extend(rule.next_n(first, NEXT_TIMES - 1));
        }
        let queue = self.queue_name(row.queue).map(|name| name.to_string()).unwrap_or_default();
        RecurringView { row, queue, next_ms }
    }
}
