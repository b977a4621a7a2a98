//! Queues.

use crate::model::{Listing, QueueSettings, QueueStatus};
use crate::{Client, Result};

impl Client {
    /// Every queue.
    ///
    /// # Errors
    /// Those of every call.
    pub async fn queues(&self) -> Result<Vec<QueueStatus>> {
        self.ask::<Listing<QueueStatus>>(self.get(&["v1", "queues"])?).await.map(Listing::into_items)
    }

    /// One queue.
    ///
    /// # Errors
    /// 404 if there is none, and those of every call.
    pub async fn queue(&self, queue: &str) -> Result<QueueStatus> {
        self.ask(self.get(&["v1", "queues", queue])?).await
    }

    /// Makes a queue, or replaces its settings.
    ///
    /// # Errors
    /// 422 for a bad setting, and those of every call.
    pub async fn put_queue(&self, queue: &str, settings: &QueueSettings) -> Result<QueueStatus> {
        self.ask(self.put(&["v1", "queues", queue])?.body(settings)?).await
    }

    /// Starts no more tasks of this queue; it still takes new ones.
    ///
    /// # Errors
    /// 404 if there is none, and those of every call.
    pub async fn pause(&self, queue: &str) -> Result<QueueStatus> {
        self.ask(self.post(&["v1", "queues", queue, "pause"])?).await
    }

    /// Starts tasks of this queue again.
    ///
    /// # Errors
    /// 404 if there is none, and those of every call.
    pub async fn resume(&self, queue: &str) -> Result<QueueStatus> {
        self.ask(self.post(&["v1", "queues", queue, "resume"])?).await
    }
}
