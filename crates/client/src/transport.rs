//! One HTTP call: encode, send within the limits, read the answer, and try again where that is safe.

use crate::error::{Error, Phase, Problem, Result};
use crate::retry::RetryPolicy;
use crate::trace::TraceId;
use bytes::{Bytes, BytesMut};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Method, Url};
use serde::Serialize;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// What one transport may take up.
#[derive(Debug, Clone)]
pub(crate) struct TransportConfig {
    pub(crate) base: Url,
    pub(crate) authorization: Option<HeaderValue>,
    pub(crate) user_agent: String,
    pub(crate) connect_timeout: Duration,
    pub(crate) total_timeout: Duration,
    pub(crate) pool_idle_max: usize,
    pub(crate) pool_idle_timeout: Duration,
    pub(crate) in_flight_max: usize,
    pub(crate) answer_bytes_max: usize,
}

/// Whether a call may be repeated when its answer was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Twice leaves the same as once.
    Safe,
    /// Only if the server certainly did nothing.
    IfUnheard,
}

/// One call.
#[derive(Debug)]
pub(crate) struct Call {
    method: Method,
    url: Url,
    body: Option<Bytes>,
    repeat: Repeat,
    /// In the place of the transport's.
    timeout: Option<Duration>,
}

impl Call {
    pub(crate) fn body<T: Serialize + ?Sized>(mut self, body: &T) -> Result<Self> {
        let text = serde_json::to_vec(body)
            .map_err(|why| Error::Invalid(format!("the request cannot be written as JSON: {why}")))?;
        self.body = Some(Bytes::from(text));
        Ok(self)
    }

    pub(crate) fn query(mut self, query: &[(&'static str, String)]) -> Self {
        if !query.is_empty() {
            self.url.query_pairs_mut().extend_pairs(query);
        }
        self
    }

    pub(crate) const fn if_unheard(mut self) -> Self {
        self.repeat = Repeat::IfUnheard;
        self
    }

    pub(crate) const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.method, self.url.path())
    }
}

/// A connection pool and its limits.
#[derive(Debug)]
pub(crate) struct Transport {
    pub(crate) config: TransportConfig,
    http: reqwest::Client,
    in_flight: Semaphore,
}

impl Transport {
    pub(crate) fn new(config: TransportConfig) -> Result<Self> {
        // The process may have one already: then that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, application/problem+json"));
        if let Some(authorization) = &config.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        let mut builder = reqwest::Client::builder()
            .default_headers(headers)
            .user_agent(&config.user_agent)
            .connect_timeout(config.connect_timeout)
            .pool_max_idle_per_host(config.pool_idle_max)
            .pool_idle_timeout(config.pool_idle_timeout)
            .tcp_nodelay(true)
            .redirect(reqwest::redirect::Policy::none());
        if is_loopback(&config.base) {
            builder = builder.no_proxy();
        }
        let http = builder
            .build()
            .map_err(|why| Error::Invalid(format!("the HTTP client cannot be built: {why}")))?;
        let in_flight = Semaphore::new(config.in_flight_max);
        Ok(Self { config, http, in_flight })
    }

    /// A call to the path made of `segments`, each percent-encoded.
    pub(crate) fn call(&self, method: Method, segments: &[&str]) -> Result<Call> {
        let mut url = self.config.base.clone();
        // URL parsers take these for "here" and "up", in every spelling: they cannot be sent.
        if let Some(bad) = segments.iter().find(|s| matches!(**s, "" | "." | "..")) {
            return Err(Error::Invalid(format!("{bad:?} cannot stand in a path: use the task's id")));
        }
        match url.path_segments_mut() {
            Ok(mut path) => path.pop_if_empty().extend(segments),
            Err(()) => return Err(Error::Invalid("the server's address cannot have a path".into())),
        };
        Ok(Call { method, url, body: None, repeat: Repeat::Safe, timeout: None })
    }

    /// Sends `call`, again as `policy` allows, and answers the body.
    pub(crate) async fn send(
        &self,
        call: &Call,
        policy: RetryPolicy,
        trace: Option<TraceId>,
    ) -> Result<Bytes> {
        let deadline = Instant::now() + Duration::from_millis(policy.total_ms);
        let timeout = call.timeout.unwrap_or(self.config.total_timeout);
        let mut backoff = policy.backoff();
        let mut attempt_timeout = timeout;
        let mut before = None;
        loop {
            let error = match self.send_once(call, attempt_timeout, trace).await {
                Ok(body) => return Ok(body),
                // Cut short by the total time: what was wrong before says more.
                Err(Error::Timeout { phase, after }) if after < timeout => {
                    return Err(before.unwrap_or(Error::Timeout { phase, after }));
                }
                Err(error) => error,
            };
            let may = error.is_retryable() && (call.repeat == Repeat::Safe || error.had_no_effect());
            if !(policy.enabled && may) {
                return Err(error);
            }
            let wake = Instant::now() + backoff.next(error.retry_after());
            if wake >= deadline {
                return Err(error);
            }
            tracing::debug!(call = call.name(), %error, "trying again");
            before = Some(error);
            tokio::time::sleep_until(wake).await;
            attempt_timeout = timeout.min(deadline.saturating_duration_since(Instant::now()));
        }
    }

    async fn send_once(&self, call: &Call, timeout: Duration, trace: Option<TraceId>) -> Result<Bytes> {
        let _slot = self.in_flight.acquire().await.map_err(|why| broken(Phase::Connect, why))?;
        let mut request = self.http.request(call.method.clone(), call.url.clone()).timeout(timeout);
        if let Some(body) = &call.body {
            request =
                request.header(CONTENT_TYPE, HeaderValue::from_static("application/json")).body(body.clone());
        }
        if let Some(trace) = trace {
            request = request.header("traceparent", trace.traceparent());
        }
        let lost = |why: reqwest::Error| failure(why, timeout);
        let mut response = request.send().await.map_err(lost)?;
        let status = response.status();
        let retry_after = response.headers().get(RETRY_AFTER).and_then(read_retry_after);
        let most = self.config.answer_bytes_max;
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(lost)? {
            if body.len() + chunk.len() > most {
                let source = format!("it is longer than {most} bytes").into();
                return Err(Error::Decode { call: call.name(), source });
            }
            body.extend_from_slice(&chunk);
        }
        if status.is_success() {
            Ok(body.freeze())
        } else {
            Err(Error::Problem(Box::new(Problem::read(status.as_u16(), retry_after, &body))))
        }
    }
}

fn broken(phase: Phase, why: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Transport { phase, source: Box::new(why) }
}

fn failure(why: reqwest::Error, after: Duration) -> Error {
    let phase = if why.is_connect() { Phase::Connect } else { Phase::Exchange };
    if why.is_timeout() {
        Error::Timeout { phase, after }
    } else if why.is_builder() {
        Error::Invalid(why.to_string())
    } else {
        broken(phase, why.without_url())
    }
}

/// Seconds; the form with a date is for caches and not used by the server.
fn read_retry_after(value: &HeaderValue) -> Option<Duration> {
    let seconds = value.to_str().ok()?.trim().parse::<f64>().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}
