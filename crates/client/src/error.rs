//! What can go wrong with a call, sorted by what the caller can do about it.

use serde::Deserialize;
use std::time::Duration;

/// The answer to a call, or why there is none.
pub type Result<T> = std::result::Result<T, Error>;

/// How far a call had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No connection: the server has not seen the call.
    Connect,
    /// The call was under way: the server may have done it.
    Exchange,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server refused, and said why. See [`Problem::code`].
    #[error("{0}")]
    Problem(Box<Problem>),
    /// The server could not be reached, or the connection broke.
    #[error("{}: {source}", match phase { Phase::Connect => "the server cannot be reached", Phase::Exchange => "the connection broke" })]
    Transport {
        /// How far the call had come.
        phase: Phase,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No answer in time.
    #[error("no {} within {after:?}", match phase { Phase::Connect => "connection", Phase::Exchange => "answer" })]
    Timeout {
        /// How far the call had come.
        phase: Phase,
        /// The time-out.
        after: Duration,
    },
    /// The answer cannot be read: another version, or not Duebook at all.
    #[error("the answer to {call} cannot be read: {source}")]
    Decode {
        /// Method and path.
        call: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The call cannot be made as asked: a setting, a name or a payload is at fault. Nothing was sent.
    #[error("{0}")]
    Invalid(String),
}

impl Error {
    /// Whether the same call may succeed later: no connection, a lost answer, or 429, 502, 503, 504. Whether it is *safe*
    /// to repeat depends on the call; the client does that by itself where it is.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Problem(problem) => matches!(problem.status, 429 | 502 | 503 | 504),
            Self::Transport { .. } | Self::Timeout { .. } => true,
            Self::Decode { .. } | Self::Invalid(_) => false,
        }
    }

    /// Whether the server certainly did nothing: the call never reached it, or it refused.
    #[must_use]
    pub fn had_no_effect(&self) -> bool {
        match self {
            // Whoever gave up waiting does not know what became of the call behind it.
            Self::Problem(problem) => {
                !matches!(problem.status, 500 | 502 | 504) && problem.code != "timed_out"
            }
            Self::Transport { phase, .. } | Self::Timeout { phase, .. } => *phase == Phase::Connect,
            Self::Decode { .. } => false,
            Self::Invalid(_) => true,
        }
    }

    /// The problem document, if the server sent one.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem(problem) => Some(problem),
            _ => None,
        }
    }

    /// The stable code of the refusal, such as `not_found`.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        self.problem().map(|problem| problem.code.as_str())
    }

    /// The HTTP status of the refusal.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.problem().map(|problem| problem.status)
    }

    /// How long the server asked to wait.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.problem().and_then(|problem| problem.retry_after)
    }
}

/// A refusal: a problem document of RFC 9457.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, thiserror::Error)]
#[error("{status} {code}: {detail}{}", pointer.as_ref().map(|at| format!(" (at {at})")).unwrap_or_default())]
#[non_exhaustive]
pub struct Problem {
    /// HTTP status.
    #[serde(default)]
    pub status: u16,
    /// Stable code; `http_STATUS` if the answer was no problem document (a proxy's, say).
    #[serde(default)]
    pub code: String,
    /// What is wrong, for people.
    #[serde(default)]
    pub detail: String,
    /// JSON pointer of the field at fault.
    #[serde(default)]
    pub pointer: Option<String>,
    /// Every fault, if there are several.
    #[serde(default)]
    pub errors: Vec<Fault>,
    /// How long the server asked to wait.
    #[serde(skip)]
    pub retry_after: Option<Duration>,
}

/// One fault of several, or why one item of a batch was refused.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Fault {
    /// Stable code.
    pub code: String,
    /// What is wrong, for people.
    pub detail: String,
    /// JSON pointer of the field at fault.
    pub pointer: Option<String>,
}

/// Bytes of a foreign error page that are kept as the detail.
const FOREIGN_DETAIL_CHARS: usize = 200;

impl Problem {
    /// Reads a refusal; what is no problem document becomes one.
    pub(crate) fn read(status: u16, retry_after: Option<Duration>, body: &[u8]) -> Self {
        let read = serde_json::from_slice::<Self>(body).ok().filter(|problem| !problem.code.is_empty());
        let mut problem = read.unwrap_or_else(|| Self {
            code: format!("http_{status}"),
            detail: String::from_utf8_lossy(body).chars().take(FOREIGN_DETAIL_CHARS).collect(),
            ..Self::default()
        });
        problem.status = status;
        problem.retry_after = retry_after;
        problem
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_document_is_read_and_a_foreign_page_becomes_one() {
        let body = br#"{"type":"x","title":"t","status":422,"code":"bad_field","detail":"too long","pointer":"/key","more":1,
            "errors":[{"code":"bad_field","detail":"too long","pointer":"/key"}]}"#;
        let problem = Problem::read(422, None, body);
        assert_eq!((problem.code.as_str(), problem.pointer.as_deref()), ("bad_field", Some("/key")));
        assert_eq!(problem.errors.len(), 1);
        assert_eq!(problem.to_string(), "422 bad_field: too long (at /key)");
        let foreign = Problem::read(502, None, b"<html>Bad Gateway</html>");
        assert_eq!((foreign.status, foreign.code.as_str()), (502, "http_502"));
        assert!(foreign.detail.contains("Bad Gateway"));
    }

    #[test]
    fn retryable_is_what_may_pass_by_itself() {
        let problem = |status| Error::Problem(Box::new(Problem::read(status, None, b"")));
        for (status, retryable) in
            [(400, false), (404, false), (409, false), (429, true), (500, false), (503, true)]
        {
            assert_eq!(problem(status).is_retryable(), retryable, "{status}");
        }
        let coded = |code: &str| {
            Error::Problem(Box::new(Problem { status: 503, code: code.into(), ..Problem::default() }))
        };
        assert!(coded("store_full").had_no_effect() && !coded("timed_out").had_no_effect());
        let broken = |phase| Error::Transport { phase, source: "x".into() };
        assert!(broken(Phase::Connect).had_no_effect() && !broken(Phase::Exchange).had_no_effect());
        assert!(broken(Phase::Exchange).is_retryable());
    }
}
