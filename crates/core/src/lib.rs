//! The pure rules of Duebook: state + input + now in, new state + effects out.
//!
//! Invariant: nothing in this crate reads a clock, waits, draws randomness, touches a file or a socket.
//! (The one exception is [`clock::SystemClock`], which is the only place that may ask the machine for
//! the time, so that everything else can take it as a parameter.)

pub mod breaker;
pub mod clock;
pub mod id;
pub mod limits;
pub mod pool;
pub mod queue;
pub mod random;
pub mod rate;
pub mod recurring;
pub mod retry;
pub mod signature;
pub mod task;
pub mod trail;

pub use clock::{Clock, SystemClock};
pub use id::{IdMaker, TaskId};
pub use queue::{HandlerSpec, QueueId, QueueSettings, Tier};
pub use task::{
    Command, Head, Lease, LeaseKey, NewTask, OnConflict, Priority, Refusal, State, Task, Verdict, decide,
};
pub use trail::{Reason, Step, TrailEntry};
