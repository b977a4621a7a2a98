//! Recurring schedules.

use super::Payload;
use crate::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What becomes of the times that were missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CatchUp {
    /// Only the latest is made up for.
    #[default]
    One,
    /// Each is made up for.
    All,
    /// None is made up for.
    Skip,
}

/// When and where a recurring schedule makes tasks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScheduleSpec {
    queue: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timezone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    every_ms: Option<u64>,
    #[serde(skip_serializing_if = "Payload::is_null")]
    payload: Payload,
    catch_up: CatchUp,
}

impl ScheduleSpec {
    fn new(queue: String) -> Self {
        Self {
            queue,
            cron: None,
            timezone: None,
            every_ms: None,
            payload: Payload::null(),
            catch_up: CatchUp::One,
        }
    }

    /// By a cron expression in an IANA time zone.
    pub fn cron(queue: impl Into<String>, cron: impl Into<String>, timezone: impl Into<String>) -> Self {
        Self { cron: Some(cron.into()), timezone: Some(timezone.into()), ..Self::new(queue.into()) }
    }

    /// Every so many milliseconds.
    pub fn every_ms(queue: impl Into<String>, ms: u64) -> Self {
        Self { every_ms: Some(ms), ..Self::new(queue.into()) }
    }

    /// What each task's handler gets.
    #[must_use]
    pub fn payload(mut self, payload: impl Into<Payload>) -> Self {
        self.payload = payload.into();
        self
    }

    /// What becomes of the times that were missed.
    #[must_use]
    pub const fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.catch_up = catch_up;
        self
    }
}

/// A recurring schedule as the server answers it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Schedule {
    /// Its name.
    pub name: String,
    /// The queue that its tasks go to.
    pub queue: String,
    /// Its cron expression.
    #[serde(default)]
    pub cron: Option<String>,
    /// The time zone of its cron expression.
    #[serde(default)]
    pub timezone: Option<String>,
    /// Its interval in milliseconds.
    #[serde(default)]
    pub every_ms: Option<u64>,
    /// What becomes of the times that were missed.
    #[serde(default)]
    pub catch_up: CatchUp,
    /// The next five times.
    #[serde(default)]
    pub next: Vec<Timestamp>,
    /// Everything else the server says.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}
