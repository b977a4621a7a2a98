//! Problem documents (RFC 9457), and what errors of the engine and the store become on the wire.

use crate::code::Code;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use duebook_core::{Refusal, State};
use duebook_engine::EngineError;
use duebook_store::StoreError;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use std::borrow::Cow;

/// A refusal on its way to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) code: Code,
    pub(crate) detail: Cow<'static, str>,
    pub(crate) pointer: Option<String>,
}

/// Seconds after which a client that was told `busy` may come again.
const RETRY_AFTER_S: &str = "1";

impl Problem {
    pub(crate) fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { code, detail: detail.into(), pointer: None }
    }

    pub(crate) fn at(code: Code, pointer: impl Into<String>, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { code, detail: detail.into(), pointer: Some(pointer.into()) }
    }

    pub(crate) fn bad(pointer: impl Into<String>, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::at(Code::BadField, pointer, detail)
    }

    pub(crate) fn query(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::BadQuery, detail)
    }

    pub(crate) fn no_such(what: &str, name: &str) -> Self {
        Self::new(Code::NotFound, format!("there is no {what} {name:?}"))
    }

    /// The same with its pointer below `prefix`.
    pub(crate) fn below(mut self, prefix: &str) -> Self {
        self.pointer = Some(format!("{prefix}{}", self.pointer.unwrap_or_default()));
        self
    }

    /// As one item of a batch writes it.
    pub(crate) fn fault(&self) -> Fault<'_> {
        Fault { code: self.code.as_str(), detail: &self.detail, pointer: self.pointer.as_deref() }
    }
}

/// Why one item of a batch was refused.
#[derive(Serialize)]
pub(crate) struct Fault<'a> {
    code: &'static str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<&'a str>,
}

#[derive(Serialize)]
struct Document<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    code: &'static str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<&'a str>,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let document = Document {
            r#type: self.code.type_uri(),
            title: self.code.title(),
            status: self.code.status(),
            code: self.code.as_str(),
            detail: &self.detail,
            pointer: self.pointer.as_deref(),
        };
        let mut response = Response::new(Body::from(serde_json::to_vec(&document).unwrap_or_default()));
        *response.status_mut() =
            StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        match self.code {
            Code::Busy | Code::Stopping => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S));
            }
            Code::Unauthorized => {
                headers
                    .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"duebook\""));
            }
            _ => {}
        }
        response
    }
}

fn illegal(state: State) -> Problem {
    Problem::new(Code::IllegalTransition, format!("the task is {}", state.as_str()))
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotFound => Self::new(Code::NotFound, "there is no such task"),
            Refusal::IllegalState(state) => illegal(state),
            Refusal::NotDue => Self::new(Code::IllegalTransition, "the task is not due yet"),
            Refusal::LeaseLost => Self::new(Code::LeaseLost, "the lease has passed on"),
            Refusal::KeyTaken(id) => Self::new(Code::KeyTaken, format!("task {id} has this key")),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::Full(_) => Code::StoreFull,
            StoreError::Busy => Code::Busy,
            StoreError::Closed => Code::Stopping,
            StoreError::Corrupt(_) => Code::StoreCorrupt,
            StoreError::Backend(_) => Code::StoreFailed,
        };
        Self::new(code, error.to_string())
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Refused(refusal) => refusal.into(),
            EngineError::NoQueue(name) => Self::no_such("queue", &name),
            EngineError::NotPulled(_) => Self::new(Code::NotPulled, error.to_string()),
            EngineError::TooMany { .. } => Self::new(Code::TooMany, error.to_string()),
            EngineError::Store(error) => error.into(),
            EngineError::Stopping => Self::new(Code::Stopping, "the server is stopping"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duebook_core::TaskId;

    #[test]
    fn every_error_of_engine_and_store_has_its_code() {
        let id = TaskId::from_i64(7);
        let cases = [
            (EngineError::Refused(Refusal::NotFound), Code::NotFound),
            (EngineError::Refused(Refusal::IllegalState(State::Dead)), Code::IllegalTransition),
            (EngineError::Refused(Refusal::NotDue), Code::IllegalTransition),
            (EngineError::Refused(Refusal::LeaseLost), Code::LeaseLost),
            (EngineError::Refused(Refusal::KeyTaken(id)), Code::KeyTaken),
            (EngineError::NoQueue("q".into()), Code::NotFound),
            (EngineError::NotPulled("q".into()), Code::NotPulled),
            (EngineError::TooMany { what: "queues", max: 1 }, Code::TooMany),
            (EngineError::Stopping, Code::Stopping),
            (EngineError::Store(StoreError::Full("x".into())), Code::StoreFull),
            (EngineError::Store(StoreError::Busy), Code::Busy),
            (EngineError::Store(StoreError::Closed), Code::Stopping),
            (EngineError::Store(StoreError::Corrupt("x".into())), Code::StoreCorrupt),
            (EngineError::Store(StoreError::Backend("x".into())), Code::StoreFailed),
        ];
        for (error, code) in cases {
            let words = error.to_string();
            let response = Problem::from(error).into_response();
            assert_eq!(response.status().as_u16(), code.status(), "{words}");
            let waits = response.headers().contains_key(header::RETRY_AFTER);
            assert_eq!(waits, matches!(code, Code::Busy | Code::Stopping), "{words}");
        }
        assert!(Problem::from(Refusal::IllegalState(State::Dead)).detail.contains("dead"));
        assert!(Problem::from(Refusal::KeyTaken(id)).detail.contains(&id.to_string()));
    }
}
