//! The HTTP server: API, access, metrics, OpenAPI, over a running engine.
//!
//! ```text
//!  connection ─► gate (limits, time-out, panics) ─► route ─► caller (key, scope, queue) ─► body ─► engine
//! ```
//!
//! Invariants:
//! - No business rule lives here: what a command does is decided by the engine; this crate reads, checks bounds,
//!   and writes.
//! - Every refusal is a problem document with a code of the closed list [`Code`].
//! - Every queue, buffer and wait has a limit in [`ServerConfig`].
//! - An answer that acknowledges a write is sent after its commit.

mod access;
mod answer;
mod api;
mod app;
#[cfg(test)]
mod bless;
mod body;
mod code;
mod config;
mod gate;
mod input;
mod metrics;
mod problem;
mod serve;
mod stamp;
mod trace;
mod wire;

pub use access::keys;
pub use api::document;
pub use code::Code;
pub use config::ServerConfig;
pub use metrics::{Metrics, MetricsError};
pub use serve::{Server, StartError, serve};
pub use stamp::Stamp;
