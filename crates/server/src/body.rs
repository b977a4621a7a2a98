//! Request bodies: bounded in size, in time, and all together in memory.

use crate::app::{App, Share};
use crate::code::Code;
use crate::problem::Problem;
use axum::body::HttpBody as _;
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderMap, header};
use http_body_util::BodyExt as _;
use std::sync::Arc;
use std::time::Duration;

/// A whole request body that says it is JSON, or does not say what it is.
pub(crate) struct JsonBody {
    /// The body.
    pub(crate) bytes: Bytes,
    /// Its share of the memory for bodies, held as long as the body is.
    _share: Share,
}

impl FromRequest<Arc<App>> for JsonBody {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        check_type(request.headers())?;
        let max = app.config.body_bytes_max;
        let announced =
            request.body().size_hint().exact().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        if announced.is_some_and(|bytes| bytes > max) {
            return Err(too_large(max));
        }
        let size = announced.unwrap_or(max);
        let share = app
            .body_bytes
            .take(size, app.config.bodies_bytes_max.max(max))
            .ok_or_else(|| Problem::new(Code::Busy, "too many bytes of requests are in memory"))?;
        if size == 0 {
            return Ok(Self { bytes: Bytes::new(), _share: share });
        }
        let mut body = request.into_body();
        // Small bodies mostly come with the head: no timer, no copy.
        let first = body.frame().now_or_never();
        if let Some(Some(Ok(frame))) = &first
            && let Some(data) = frame.data_ref()
            && announced == Some(data.len())
        {
            return Ok(Self { bytes: data.clone(), _share: share });
        }
        let wait = Duration::from_millis(app.config.body_timeout_ms);
        let collected = tokio::time::timeout(wait, async {
            let mut next = match first {
                Some(frame) => frame,
                None => body.frame().await,
            };
            let mut whole = Bytes::new();
            let mut parts: Vec<u8> = Vec::new();
            while let Some(frame) = next {
                let frame = frame.map_err(|error| {
                    Problem::new(Code::Unreadable, format!("the body broke off: {error}"))
                })?;
                if let Ok(data) = frame.into_data() {
                    if whole.len() + parts.len() + data.len() > max {
                        return Err(too_large(max));
                    }
                    if whole.is_empty() && parts.is_empty() {
                        whole = data;
                    } else {
                        if parts.is_empty() {
                            parts.reserve(announced.unwrap_or(0).max(whole.len() + data.len()));
                            parts.extend_from_slice(&std::mem::take(&mut whole));
                        }
                        parts.extend_from_slice(&data);
                    }
                    if announced == Some(whole.len() + parts.len()) {
                        break;
                    }
                }
                next = body.frame().await;
            }
            Ok(if parts.is_empty() { whole } else { Bytes::from(parts) })
        });
        match collected.await {
            Ok(bytes) => Ok(Self { bytes: bytes?, _share: share }),
            Err(_) => {
                let why = format!("the body was not complete within {} ms", wait.as_millis());
                Err(Problem::new(Code::RequestTimeout, why))
            }
        }
    }
}

fn too_large(max: usize) -> Problem {
    Problem::new(Code::BodyTooLarge, format!("the body has more than {max} bytes"))
}

fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(given) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let text = given.to_str().unwrap_or_default();
    let kind = text.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json")
        || (kind.len() > 5 && kind.as_bytes()[kind.len() - 5..].eq_ignore_ascii_case(b"+json"))
    {
        return Ok(());
    }
    Err(Problem::new(
        Code::UnsupportedMediaType,
        format!("the body is sent as {kind:?}, not as application/json (with curl: --json)"),
    ))
}
