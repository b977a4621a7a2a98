//! The truth: traits by role, one folder per backend, one committer, one conformance suite.
//!
//! ```text
//!  unit ─► committer (groups what waits) ─► backend: one transaction, one fsync ─► effects ─► reply
//! ```
//!
//! Invariants:
//! - A reply is sent only after its transaction is durable; effects go out after that and before the reply.
//! - A unit that is refused or fails takes no other unit with it.
//! - A store never decides: it reads a row, asks [`duebook_core::decide`], and writes what that says.
//! - Nothing outside a backend's folder knows its SQL.

pub mod committer;
#[cfg(feature = "testing")]
pub mod conformance;
#[cfg(feature = "testing")]
pub mod faulty;
#[cfg(feature = "testing")]
pub mod memory;
pub mod roles;
pub mod sqlite;
pub mod unit;

pub use roles::{
    BoxFuture, DueRow, EffectSink, EndedRow, KeyRow, Order, QueueRow, Reader, RecurringRow, RunningRow,
    Store, TaskFilter, Writer,
};
pub use sqlite::{SqliteConfig, SqliteStore};
pub use unit::{Act, Effect, StoreError, Target, Unit, UnitReply, Urgency, Write, Written};
