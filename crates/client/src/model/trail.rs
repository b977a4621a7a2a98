//! The trail: every change of a task's state.

use super::State;
use crate::timestamp::Timestamp;
use serde::Deserialize;

/// One change of a task's state.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct TrailEntry {
    /// Its place on the trail.
    pub seq: u32,
    /// When it was committed.
    pub at: Timestamp,
    /// The state before; `None` for the first entry.
    #[serde(default)]
    pub from: Option<State>,
    /// The state after.
    pub to: State,
    /// Why, such as `claimed` or `lease_lost`.
    pub reason: String,
    /// Attempts counted so far.
    #[serde(default)]
    pub attempt: u32,
    /// When the task was (next) due after it.
    #[serde(default)]
    pub due_at: Option<Timestamp>,
    /// When the attempt's handler started.
    #[serde(default)]
    pub started_at: Option<Timestamp>,
    /// By whom: a worker, a key, a node.
    #[serde(default)]
    pub actor: Option<String>,
    /// More on the reason, such as the handler's error.
    #[serde(default)]
    pub detail: Option<String>,
    /// Trace id of the request that caused it.
    #[serde(default)]
    pub trace_id: Option<String>,
}

/// A task's trail, oldest first.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Trail {
    /// Its entries.
    pub items: Vec<TrailEntry>,
    /// Where the rest begins, if it is longer: give it to [`crate::Client::trail_after`].
    #[serde(default)]
    pub next_after_seq: Option<u32>,
}
