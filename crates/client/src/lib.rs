//! The Rust SDK of Duebook: a [`Client`] for every call that concerns tasks, and a [`Worker`] that runs them.
//!
//! ```no_run
//! use duebook_client::{Client, LeasedTask, NewTask, Outcome, TaskContext, Worker};
//! use std::time::Duration;
//!
//! # async fn example() -> Result<(), duebook_client::Error> {
//! let client = Client::builder("http://127.0.0.1:7700").api_key("dbk_...").build()?;
//! let timeout = NewTask::new("order-timeout", "order-1001", Duration::from_secs(30 * 60))
//!     .payload(serde_json::json!({ "order": 1001 }));
//! client.schedule(&timeout).await?; // durable from here on
//!
//! let worker = Worker::new(client, "order-timeout").concurrency(64);
//! worker
//!     .run(async |task: LeasedTask, _context: TaskContext| {
//!         println!("{} is due", task.key);
//!         Outcome::Done
//!     })
//!     .await?;
//! # Ok(()) }
//! ```
//!
//! The types are the SDK's own and match the HTTP interface; answers ignore fields they do not know. Everything
//! that waits or queues has a limit. Nothing here is global, except that the `ring` provider of `rustls` is
//! installed for the process unless there is one.

mod calls;
mod client;
mod clock;
mod error;
mod model;
mod random;
mod retry;
mod timestamp;
mod trace;
mod transport;
mod worker;

pub use calls::Pages;
pub use client::{Client, ClientBuilder};
pub use clock::{Clock, SettableClock, SystemClock};
pub use error::{Error, Fault, Phase, Problem, Result};
pub use model::*;
pub use retry::RetryPolicy;
pub use timestamp::{NotATimestamp, Timestamp};
pub use trace::{NotATraceId, TraceId};
pub use worker::{CancelReason, Outcome, RunReport, StopHandle, TaskContext, Worker, WorkerStats};
