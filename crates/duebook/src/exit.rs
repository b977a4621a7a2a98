//! How a command ends when it does not end well.

use std::process::ExitCode;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Exit code 2: flags, environment or file do not say what can be done.
    Usage(String),
    /// Exit code 1: it was tried and failed.
    Failed(anyhow::Error),
    /// Exit code 1: the findings are on standard output already.
    Findings,
}

impl Failure {
    pub(crate) fn failed(error: impl Into<anyhow::Error>) -> Self {
        Self::Failed(error.into())
    }

    pub(crate) fn usage(words: impl Into<String>) -> Self {
        Self::Usage(words.into())
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

/// What commands answer.
pub(crate) type Outcome = Result<(), Failure>;

/// Tells the user, and gives the exit code.
pub(crate) fn report(failure: &Failure) -> ExitCode {
    match failure {
        Failure::Usage(words) => {
            eprintln!("duebook: {words}");
            ExitCode::from(2)
        }
        Failure::Failed(error) => {
            eprintln!("duebook: {error:#}");
            ExitCode::FAILURE
        }
        Failure::Findings => ExitCode::FAILURE,
    }
}
