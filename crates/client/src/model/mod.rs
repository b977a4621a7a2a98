//! The shapes on the wire: requests with builders, answers that ignore what they do not know.

mod lease;
mod page;
mod payload;
mod queue;
mod schedule;
mod task;
mod trail;

pub use lease::{
    ExtendAnswer, FailureClass, LeaseRef, LeaseRequest, LeaseToken, LeasedTask, SettleAnswer, Settlement,
    SettlementOutcome,
};
pub use page::Page;
pub use payload::Payload;
pub use queue::{HandlerSpec, QueueSettings, QueueStatus, WebhookSpec};
pub use schedule::{CatchUp, Schedule, ScheduleSpec};
pub use task::{
    BatchItem, DeadFilter, DeadRetry, Due, ListDead, ListTasks, NewTask, OnConflict, Order, Priority,
    Scheduled, State, Task,
};
pub use trail::{Trail, TrailEntry};

pub(crate) use lease::{ExtendAnswers, LeasedTasks, SettleAnswers};
pub(crate) use page::Listing;
pub(crate) use task::BatchAnswer;
