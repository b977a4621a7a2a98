//! The webhook handler: one signed POST per attempt, by the Standard Webhooks specification
//! (<https://www.standardwebhooks.com/>): headers `webhook-id` (the task's id, the same for every attempt, so
//! that receivers can use it as idempotency key), `webhook-timestamp`, `webhook-signature`.
//!
//! | answer | outcome |
//! |---|---|
//! | 2xx | done |
//! | 429, 503 | failed, `busy`; `Retry-After` is respected |
//! | 408, 425, other 5xx, no connection, no answer | failed, `transient` |
//! | 3xx (redirects are not followed), other 4xx | failed, `permanent` |

use super::note;
use crate::config::WebhookConfig;
use crate::handler::{Handler, Outcome};
use crate::job::{Job, rfc3339};
use crate::runtime::{BoxFuture, Runtime};
use duebook_core::breaker::{Breaker, BreakerState};
use duebook_core::queue::WebhookSpec;
use duebook_core::retry::FailureClass;
use duebook_core::signature::WebhookSecret;
use http::StatusCode;
use http::header::RETRY_AFTER;
use serde::Serialize;
use serde_json::value::RawValue;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const RETRY_AFTER_MAX_S: u64 = 86_400;

/// Calls webhooks. Cheap to clone: one connection pool.
#[derive(Clone)]
pub struct WebhookClient {
    http: reqwest::Client,
    answer_bytes_max: usize,
}

impl WebhookClient {
    /// A client with these time-outs.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn new(config: &WebhookConfig) -> Result<Self, reqwest::Error> {
        // Fails only if a provider is installed already, which then serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .connect_timeout(Duration::from_millis(config.connect_timeout_ms))
            .pool_max_idle_per_host(config.idle_per_host)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .user_agent(concat!("duebook/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Self { http, answer_bytes_max: config.answer_bytes_max })
    }

    /// The handler of a queue; none if its settings cannot be used.
    pub(super) fn handler(
        &self,
        spec: &WebhookSpec,
        breaker: Arc<Mutex<Breaker>>,
        runtime: Arc<dyn Runtime>,
    ) -> Option<WebhookHandler> {
        let url = reqwest::Url::parse(&spec.url)
            .map_err(|error| tracing::error!(url = spec.url, %error, "webhook address cannot be read"))
            .ok()?;
        let secret = match spec.secret.as_deref().map(WebhookSecret::parse) {
            None => None,
            Some(Ok(secret)) => Some(secret),
            Some(Err(error)) => {
                tracing::error!(url = spec.url, %error, "webhook secret cannot be read");
                return None;
            }
        };
        Some(WebhookHandler { client: self.clone(), url, secret, breaker, runtime })
    }
}

/// See the module.
pub(super) struct WebhookHandler {
    client: WebhookClient,
    url: reqwest::Url,
    secret: Option<WebhookSecret>,
    breaker: Arc<Mutex<Breaker>>,
    runtime: Arc<dyn Runtime>,
}

/// A call that is being made. One that is dropped at its deadline has failed.
struct Call<'a> {
    handler: &'a WebhookHandler,
    healthy: bool,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        note(&self.handler.breaker, self.healthy, self.handler.runtime.clock());
    }
}

/// The body of a call.
#[derive(Serialize)]
struct Body<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    timestamp: String,
    data: Data<'a>,
}

#[derive(Serialize)]
struct Data<'a> {
    id: String,
    queue: &'a str,
    key: &'a str,
    attempt: u32,
    due_at: String,
    payload: Option<&'a RawValue>,
    trace_id: String,
}

fn time(ms: i64) -> String {
    rfc3339(ms).unwrap_or_else(|| ms.to_string())
}

impl WebhookHandler {
    async fn call(&self, job: &Job) -> (Outcome, bool) {
        let now_ms = self.runtime.clock().now_ms();
        let id = job.task.id.to_string();
        let trace_id = job.trace_id();
        let body = Body {
            kind: "task.due",
            timestamp: time(now_ms),
            data: Data {
                id: id.clone(),
                queue: &job.queue,
                key: &job.task.key,
                attempt: job.task.head.attempt,
                due_at: time(job.task.head.due_ms),
                payload: job.task.payload.as_deref().and_then(|text| serde_json::from_str(text).ok()),
                trace_id: trace_id.clone(),
            },
        };
        let Ok(body) = serde_json::to_vec(&body) else {
            return (Outcome::failed(FailureClass::Permanent, "the task cannot be written as JSON"), true);
        };
        let timestamp_s = now_ms.div_euclid(1000);
        let mut request = self
            .client
            .http
            .post(self.url.clone())
            .timeout(Duration::from_millis(job.timeout_ms))
            .header("content-type", "application/json")
            .header("webhook-id", &id)
            .header("webhook-timestamp", timestamp_s)
            // The span id is the low half of the task's id and attempt: unique within the trace.
            .header(
                "traceparent",
                format!(
                    "00-{trace_id}-{:016x}-01",
                    (job.task.id.as_i64() as u64) ^ (u64::from(job.task.head.attempt) << 48)
                ),
            );
        if let Some(secret) = &self.secret {
            request = request.header("webhook-signature", secret.sign(&id, timestamp_s, &body));
        }
        match request.body(body).send().await {
            Ok(response) => self.classify(response).await,
            Err(error) => {
                let words = if error.is_timeout() {
                    format!("no answer within {} ms", job.timeout_ms)
                } else if error.is_connect() {
                    format!("no connection to {}: {}", self.url, root_cause(&error))
                } else {
                    format!("the call failed: {}", root_cause(&error))
                };
                (Outcome::failed(FailureClass::Transient, words), false)
            }
        }
    }

    /// The outcome, and whether the endpoint is healthy: a refusal of one task says nothing against it.
    async fn classify(&self, response: reqwest::Response) -> (Outcome, bool) {
        let status = response.status();
        if status.is_success() {
            // Read to the end, so that the connection can be used again.
            let _ = self.read_some(response).await;
            return (Outcome::Done, true);
        }
        let delay_ms = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            .and_then(|text| retry_after_ms(text, self.runtime.clock().now_ms()));
        let words = self.read_some(response).await;
        let error = format!("{} {}", status, words).trim_end().to_owned();
        let class = match status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => FailureClass::Busy,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY => FailureClass::Transient,
            status if status.is_server_error() => FailureClass::Transient,
            _ => FailureClass::Permanent,
        };
        (Outcome::Failed { class, error, delay_ms }, class == FailureClass::Permanent)
    }

    async fn read_some(&self, mut response: reqwest::Response) -> String {
        let mut read = Vec::new();
        while let Ok(Some(chunk)) = response.chunk().await {
            let room = self.client.answer_bytes_max - read.len();
            read.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if read.len() == self.client.answer_bytes_max {
                break;
            }
        }
        String::from_utf8_lossy(&read).into_owned()
    }
}

/// `Retry-After` in seconds or as an HTTP date (RFC 9110, 10.2.3), in milliseconds from now.
fn retry_after_ms(text: &str, now_ms: i64) -> Option<u64> {
    if let Ok(seconds) = text.trim().parse::<u64>() {
        return Some(seconds.min(RETRY_AFTER_MAX_S) * 1000);
    }
    let at = jiff::fmt::rfc2822::parse(text.trim()).ok()?.timestamp().as_millisecond();
    let wait_ms = u64::try_from(at - now_ms).unwrap_or(0);
    Some(wait_ms.min(RETRY_AFTER_MAX_S * 1000))
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

impl Handler for WebhookHandler {
    fn run<'a>(&'a self, job: &'a Arc<Job>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let mut call = Call { handler: self, healthy: false };
            let (outcome, healthy) = self.call(job).await;
            call.healthy = healthy;
            outcome
        })
    }

    fn is_ready(&self) -> bool {
        let breaker = self.breaker.lock().unwrap_or_else(PoisonError::into_inner);
        breaker.state(self.runtime.clock().now_ms()) != BreakerState::Open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_in_both_forms() {
        let now_ms = 1_445_412_475_000;
        assert_eq!(retry_after_ms("7", now_ms), Some(7_000));
        assert_eq!(retry_after_ms("999999999", now_ms), Some(RETRY_AFTER_MAX_S * 1000));
        assert_eq!(retry_after_ms("Wed, 21 Oct 2015 07:28:00 GMT", now_ms), Some(5_000));
        assert_eq!(retry_after_ms("Wed, 21 Oct 2015 07:27:00 GMT", now_ms), Some(0));
        assert_eq!(retry_after_ms("soon", now_ms), None);
    }
}
