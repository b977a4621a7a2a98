//! Queues: settings and standing.

use crate::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The settings of a queue. What is left `None` takes the server's default.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct QueueSettings {
    /// What finds due tasks: `wheel`, `db`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// Who runs them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler: Option<HandlerSpec>,
    /// Name of a retry policy that replaces the one of the failure's class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<String>,
    /// Most tasks that run at once (handed-out leases count).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// Deadline of one attempt in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Most starts per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_second: Option<f64>,
    /// A paused queue takes tasks but starts none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

impl QueueSettings {
    /// The server's defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What finds due tasks: `wheel`, `db`, …
    #[must_use]
    pub fn tier(mut self, tier: impl Into<String>) -> Self {
        self.tier = Some(tier.into());
        self
    }

    /// Who runs them.
    #[must_use]
    pub fn handler(mut self, handler: HandlerSpec) -> Self {
        self.handler = Some(handler);
        self
    }

    /// Name of a retry policy that replaces the one of the failure's class.
    #[must_use]
    pub fn retry(mut self, policy: impl Into<String>) -> Self {
        self.retry = Some(policy.into());
        self
    }

    /// Most tasks that run at once (handed-out leases count).
    #[must_use]
    pub const fn concurrency(mut self, tasks: u32) -> Self {
        self.concurrency = Some(tasks);
        self
    }

    /// Deadline of one attempt in milliseconds.
    #[must_use]
    pub const fn timeout_ms(mut self, ms: u64) -> Self {
        self.timeout_ms = Some(ms);
        self
    }

    /// Most starts per second.
    #[must_use]
    pub const fn rate_per_second(mut self, starts: f64) -> Self {
        self.rate_per_second = Some(starts);
        self
    }

    /// A paused queue takes tasks but starts none.
    #[must_use]
    pub const fn paused(mut self, paused: bool) -> Self {
        self.paused = Some(paused);
        self
    }
}

/// Who runs the tasks of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HandlerSpec {
    /// Workers pull leases.
    Lease,
    /// Duebook calls this address.
    Webhook(WebhookSpec),
    /// A message is published to this topic.
    Topic(String),
    /// A handler in the server's own process.
    Inprocess,
}

/// Where and how a webhook is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookSpec {
    /// `http://` or `https://` address.
    pub url: String,
    /// Standard Webhooks secret: `whsec_` and base 64. Answers may leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// A queue's settings and standing.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct QueueStatus {
    /// Its name.
    #[serde(alias = "name")]
    pub queue: String,
    /// Its settings.
    pub settings: QueueSettings,
    /// Tasks by state.
    pub depth: BTreeMap<String, u64>,
    /// When the oldest task that is due and not yet running was due.
    pub oldest_due: Option<Timestamp>,
    /// Everything else the server says: rates, lateness, …
    #[serde(flatten)]
    pub more: Map<String, Value>,
}
