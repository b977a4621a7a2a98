//! What a handler says of its attempt.

use crate::model::{FailureClass, LeaseToken, Settlement};
use std::any::Any;
use std::fmt::Display;

/// The end of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Done.
    Done,
    /// Failed; the class picks the policy for the next attempt.
    Retry {
        /// What kind of failure it was.
        class: FailureClass,
        /// The error, kept with the task.
        error: String,
        /// Milliseconds until the next attempt, in the place of the policy's.
        delay_ms: Option<u64>,
    },
    /// Failed for good: trying again is pointless.
    Dead {
        /// The error, kept with the task.
        error: String,
    },
}

impl Outcome {
    fn retry(class: FailureClass, error: impl Display) -> Self {
        Self::Retry { class, error: error.to_string(), delay_ms: None }
    }

    /// Something passing failed: a time-out, a lost connection.
    pub fn transient(error: impl Display) -> Self {
        Self::retry(FailureClass::Transient, error)
    }

    /// What the handler needs is busy.
    pub fn busy(error: impl Display) -> Self {
        Self::retry(FailureClass::Busy, error)
    }

    /// Storage failed.
    pub fn storage(error: impl Display) -> Self {
        Self::retry(FailureClass::Storage, error)
    }

    /// Trying again is pointless.
    pub fn permanent(error: impl Display) -> Self {
        Self::Dead { error: error.to_string() }
    }

    /// Sets when a failed attempt is tried again, in milliseconds from its settling.
    #[must_use]
    pub fn after_ms(mut self, ms: u64) -> Self {
        if let Self::Retry { delay_ms, .. } = &mut self {
            *delay_ms = Some(ms);
        }
        self
    }

    /// A panic is a transient failure: the next attempt may fare better, and the policy ends a poison task.
    pub(super) fn panicked(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self::transient(format_args!("the handler panicked: {}", text.unwrap_or("(no message)")))
    }

    pub(super) fn settlement(self, id: &str, token: &LeaseToken) -> Settlement {
        match self {
            Self::Done => Settlement::done(id, token),
            Self::Dead { error } => Settlement::dead(id, token, error),
            Self::Retry { class, error, delay_ms } => {
                let settlement = Settlement::retry(id, token, class, error);
                match delay_ms {
                    Some(ms) => settlement.delay_ms(ms),
                    None => settlement,
                }
            }
        }
    }
}

impl From<()> for Outcome {
    fn from((): ()) -> Self {
        Self::Done
    }
}

impl<E: Display> From<Result<(), E>> for Outcome {
    /// An error is a transient failure.
    fn from(result: Result<(), E>) -> Self {
        match result {
            Ok(()) => Self::Done,
            Err(error) => Self::transient(error),
        }
    }
}
