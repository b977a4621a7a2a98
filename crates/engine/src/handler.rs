//! Handlers: what runs a task, and what it answers.

use crate::job::Job;
use crate::runtime::BoxFuture;
use duebook_core::retry::FailureClass;
use std::sync::Arc;

/// What an attempt came to. A closed set: everything that runs a task ends in one of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded.
    Done,
    /// It failed.
    Failed {
        /// Picks the retry policy, unless the task or queue names one.
        class: FailureClass,
        /// What a person should read; cut to 2000 bytes.
        error: String,
        /// Wait at least this long before the next attempt, in milliseconds, whatever the policy says.
        delay_ms: Option<u64>,
    },
}

impl Outcome {
    /// A failure of this class.
    pub fn failed(class: FailureClass, error: impl Into<String>) -> Self {
        Self::Failed { class, error: error.into(), delay_ms: None }
    }
}

/// Runs tasks of a queue. Called at least once per task: `job.task.id` is the idempotency key.
pub trait Handler: Send + Sync + 'static {
    /// Runs one attempt. The future is dropped at the attempt's deadline.
    fn run<'a>(&'a self, job: &'a Arc<Job>) -> BoxFuture<'a, Outcome>;
    /// Whether it can run a task right now. If not, the task is given back and the attempt does not count.
    fn is_ready(&self) -> bool {
        true
    }
}

/// A handler from an async function.
pub struct FromFn<F>(pub F);

impl<F, R> Handler for FromFn<F>
where
    F: Fn(Arc<Job>) -> R + Send + Sync + 'static,
    R: Future<Output = Outcome> + Send + 'static,
{
    fn run<'a>(&'a self, job: &'a Arc<Job>) -> BoxFuture<'a, Outcome> {
        Box::pin((self.0)(Arc::clone(job)))
    }
}
