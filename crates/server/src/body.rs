//! Request bodies: bounded in size, in time, and all together in memory.

use crate::app::{App, Share};
use crate::code::Code;
use crate::config::ServerConfig;
use crate::problem::Problem;
use axum::body::{Body, HttpBody as _};
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderMap, header};
use http_body_util::BodyExt as _;
use hyper::body::Frame;
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
        let mut body = request.into_body();
        let max = app.config.body_bytes_max;
        let announced = body.size_hint().exact().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        if announced.is_some_and(|bytes| bytes > max) {
            return Err(too_large(max));
        }
        let share = app.body_bytes.take(0, usize::MAX).ok_or_else(no_room)?;
        let mut arriving =
            Arriving { share, announced, whole: Bytes::new(), parts: Vec::new(), config: &app.config };
        // Small bodies mostly come with the head: no timer, no copy.
        while !arriving.is_whole() {
            match body.frame().now_or_never() {
                Some(Some(frame)) => arriving.take(frame)?,
                Some(None) => return Ok(arriving.end()),
                None => return arriving.rest(body).await,
            }
        }
        Ok(arriving.end())
    }
}

/// A body that arrives. What has arrived has its share of the memory for bodies.
struct Arriving<'a> {
    share: Share,
    announced: Option<usize>,
    /// All of it, as long as it came in one piece.
    whole: Bytes,
    parts: Vec<u8>,
    config: &'a ServerConfig,
}

impl Arriving<'_> {
    fn len(&self) -> usize {
        self.whole.len() + self.parts.len()
    }

    fn is_whole(&self) -> bool {
        self.announced == Some(self.len())
    }

    fn take(&mut self, frame: Result<Frame<Bytes>, axum::Error>) -> Result<(), Problem> {
        let frame =
            frame.map_err(|error| Problem::new(Code::Unreadable, format!("the body broke off: {error}")))?;
        let Ok(data) = frame.into_data() else { return Ok(()) };
        let max = self.config.body_bytes_max;
        if self.len() + data.len() > max {
            return Err(too_large(max));
        }
        if !self.share.grow(data.len(), self.config.bodies_bytes_max.max(max)) {
            return Err(no_room());
        }
        if self.len() == 0 {
            self.whole = data;
            return Ok(());
        }
        if self.parts.is_empty() {
            self.parts.reserve(self.announced.unwrap_or(0).max(self.whole.len() + data.len()));
            self.parts.extend_from_slice(&std::mem::take(&mut self.whole));
        }
        self.parts.extend_from_slice(&data);
        Ok(())
    }

    async fn rest(mut self, mut body: Body) -> Result<JsonBody, Problem> {
        let wait = Duration::from_millis(self.config.body_timeout_ms);
        let arrived = tokio::time::timeout(wait, async {
            while !self.is_whole()
                && let Some(frame) = body.frame().await
            {
                self.take(frame)?;
            }
            Ok(())
        });
        match arrived.await {
            Ok(arrived) => arrived.map(|()| self.end()),
            Err(_) => {
                let why = format!("the body was not complete within {} ms", wait.as_millis());
                Err(Problem::new(Code::RequestTimeout, why))
            }
        }
    }

    fn end(self) -> JsonBody {
        let bytes = if self.parts.is_empty() { self.whole } else { Bytes::from(self.parts) };
        JsonBody { bytes, _share: self.share }
    }
}

fn no_room() -> Problem {
    Problem::new(Code::Busy, "too many bytes of requests are in memory")
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
