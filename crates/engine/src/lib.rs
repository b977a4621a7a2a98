//! The engine: every deadline fires.
//!
//! ```text
//!  effects of commits ─► runner (one per queue): source ─► claim ─► timers ─► pool or pull
//!                                                                       handler ─► settler ─► store
//! ```
//!
//! Invariants:
//! - A handler starts only after its task's step to running is committed, and never before its due time.
//! - The claim alone decides; a source is a hint, and the sweep behind it finds what a hint left out.
//! - Time, waiting, spawning, randomness and the store are parameters ([`runtime::Runtime`],
//!   [`duebook_store::Store`]).
//! - No business rule lives here: what an outcome means, how a pool grows, when a breaker opens is decided by
//!   pure functions of `duebook_core`.

pub mod config;
mod engine;
mod execute;
mod export;
pub mod handler;
mod handlers;
mod inbox;
pub mod job;
mod lanes;
mod leases;
pub mod observe;
mod pool;
mod queue;
mod runner;
pub mod runtime;
mod services;
mod settle;
mod shared;
pub mod source;

pub use config::{EngineConfig, Retention, WebhookConfig};
pub use engine::{
    Cancelled, Engine, EngineError, Extension, LeaseRequest, Leased, QueueView, RecurringView,
    ScheduleAnswer, ScheduleRequest, SettleRequest, TaskRef,
};
pub use handler::{FromFn, Handler, Outcome};
pub use handlers::WebhookClient;
pub use job::{Job, trace_id_of};
pub use observe::{Observer, Silent};
pub use runtime::{Runtime, SystemRuntime};
