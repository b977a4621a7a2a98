//! Answers in JSON, and the extractors of paths and queries whose refusals are problems.

use crate::app::App;
use crate::code::Code;
use crate::problem::Problem;
use axum::body::Body;
use axum::extract::{FromRequestParts, Query, RawPathParams};
use axum::response::Response;
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// What a handler answers.
pub(crate) type Answer = Result<Response, Problem>;

/// 200 with this.
pub(crate) fn ok(value: &impl Serialize) -> Answer {
    json(StatusCode::OK, value)
}

/// This, with this status.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    let text = serde_json::to_vec(value)
        .map_err(|error| Problem::new(Code::Internal, format!("the answer cannot be written: {error}")))?;
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// 204.
pub(crate) fn nothing() -> Answer {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

/// The variable parts of a path, decoded, in order.
async fn path_parts<const N: usize>(parts: &mut Parts, app: &Arc<App>) -> Result<[String; N], Problem> {
    let params = RawPathParams::from_request_parts(parts, app)
        .await
        .map_err(|_| Problem::new(Code::Unreadable, "the path is not percent-encoded UTF-8"))?;
    let texts: Vec<String> = params.iter().map(|(_, value)| value.to_owned()).collect();
    texts.try_into().map_err(|_| Problem::new(Code::Internal, "the path has other parts than expected"))
}

/// The one variable part of a path.
pub(crate) struct PathPart(pub(crate) String);

impl FromRequestParts<Arc<App>> for PathPart {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        path_parts(parts, app).await.map(|[part]| Self(part))
    }
}

/// The queue and key in a path.
pub(crate) struct QueueAndKey {
    pub(crate) queue: String,
    pub(crate) key: String,
}

impl FromRequestParts<Arc<App>> for QueueAndKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        path_parts(parts, app).await.map(|[queue, key]| Self { queue, key })
    }
}

/// The parameters of a query.
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Arc<App>> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _app: &Arc<App>) -> Result<Self, Problem> {
        match Query::<T>::try_from_uri(&parts.uri) {
            Ok(Query(params)) => Ok(Self(params)),
            Err(error) => {
                let why =
                    std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
                Err(Problem::query(why))
            }
        }
    }
}
