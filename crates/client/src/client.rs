//! The client: where the server is, who asks, and what calls may take up.

use crate::error::{Error, Result};
use crate::retry::RetryPolicy;
use crate::trace::TraceId;
use crate::transport::{Call, Transport, TransportConfig};
use reqwest::header::HeaderValue;
use reqwest::{Method, Url};
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;

/// Speaks to one Duebook server. Cloning is cheap, and clones share connections and limits.
#[derive(Debug, Clone)]
pub struct Client {
    transport: Arc<Transport>,
    retry: RetryPolicy,
    trace: Option<TraceId>,
}

/// Settings of a [`Client`].
#[derive(Debug, Clone)]
#[must_use]
pub struct ClientBuilder {
    url: String,
    api_key: Option<String>,
    user_agent: String,
    connect_timeout: Duration,
    total_timeout: Duration,
    pool_idle_max: usize,
    pool_idle_timeout: Duration,
    in_flight_max: usize,
    answer_bytes_max: usize,
    retry: RetryPolicy,
}

impl ClientBuilder {
    /// Sent as `Authorization: Bearer KEY`.
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.api_key = Some(key.into());
        self
    }

    /// Sent as `User-Agent`; `duebook-client/VERSION` by default.
    pub fn user_agent(mut self, name: impl Into<String>) -> Self {
        self.user_agent = name.into();
        self
    }

    /// Longest time for a connection to be made; 2 s by default.
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Longest time of one try, from sending to the end of the answer; 10 s by default. A lease request may take
    /// its `wait_ms` longer.
    pub const fn total_timeout(mut self, timeout: Duration) -> Self {
        self.total_timeout = timeout;
        self
    }

    /// Most idle connections that are kept open; 64 by default.
    pub const fn pool_idle_max(mut self, connections: usize) -> Self {
        self.pool_idle_max = connections;
        self
    }

    /// How long an idle connection is kept open; 30 s by default.
    pub const fn pool_idle_timeout(mut self, timeout: Duration) -> Self {
        self.pool_idle_timeout = timeout;
        self
    }

    /// Most calls (and so connections) at once; 256 by default. More wait for their turn.
    pub const fn in_flight_max(mut self, calls: usize) -> Self {
        self.in_flight_max = calls;
        self
    }

    /// Longest answer that is read, in bytes; 64 MiB by default.
    pub const fn answer_bytes_max(mut self, bytes: usize) -> Self {
        self.answer_bytes_max = bytes;
        self
    }

    /// How calls are repeated; see [`RetryPolicy::off`] for not at all.
    pub const fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// The client. Nothing is sent yet.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the address, the key or a limit cannot be used.
    pub fn build(self) -> Result<Client> {
        let invalid = |what: String| Err(Error::Invalid(what));
        let base = match Url::parse(&self.url) {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => url,
            Ok(_) => return invalid(format!("{:?} is not an http:// or https:// address", self.url)),
            Err(why) => return invalid(format!("{:?} is not an address: {why}", self.url)),
        };
        if self.in_flight_max == 0 || self.in_flight_max > tokio::sync::Semaphore::MAX_PERMITS {
            return invalid("in_flight_max must be at least 1".into());
        }
        let authorization =
            match self.api_key.as_deref().map(|key| HeaderValue::try_from(format!("Bearer {key}"))) {
                None => None,
                Some(Ok(mut value)) => {
                    value.set_sensitive(true);
                    Some(value)
                }
                Some(Err(_)) => return invalid("the API key has characters that no header can carry".into()),
            };
        let config = TransportConfig {
            base,
            authorization,
            user_agent: self.user_agent,
            connect_timeout: self.connect_timeout,
            total_timeout: self.total_timeout,
            pool_idle_max: self.pool_idle_max,
            pool_idle_timeout: self.pool_idle_timeout,
            in_flight_max: self.in_flight_max,
            answer_bytes_max: self.answer_bytes_max,
        };
        Ok(Client { transport: Arc::new(Transport::new(config)?), retry: self.retry, trace: None })
    }
}

impl Client {
    /// Settings of a client of the server at `url`, such as `http://127.0.0.1:7700`.
    pub fn builder(url: impl Into<String>) -> ClientBuilder {
        ClientBuilder {
            url: url.into(),
            api_key: None,
            user_agent: concat!("duebook-client/", env!("CARGO_PKG_VERSION")).into(),
            connect_timeout: Duration::from_secs(2),
            total_timeout: Duration::from_secs(10),
            pool_idle_max: 64,
            pool_idle_timeout: Duration::from_secs(30),
            in_flight_max: 256,
            answer_bytes_max: 64 << 20,
            retry: RetryPolicy::default(),
        }
    }

    /// A client of the server at `url` with the default settings.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `url` is no address.
    pub fn new(url: impl Into<String>) -> Result<Self> {
        Self::builder(url).build()
    }

    /// The same client, whose calls belong to this trace (header `traceparent`).
    #[must_use]
    pub fn with_trace(&self, trace: TraceId) -> Self {
        Self { trace: Some(trace), ..self.clone() }
    }

    /// The same client, whose calls are repeated by another policy.
    #[must_use]
    pub fn with_retry(&self, policy: RetryPolicy) -> Self {
        Self { retry: policy, ..self.clone() }
    }

    /// A client with the same settings and connections of its own, so that neither waits for the other.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the HTTP client cannot be built.
    pub fn with_own_connections(&self) -> Result<Self> {
        Ok(Self { transport: Arc::new(Transport::new(self.transport.config.clone())?), ..self.clone() })
    }

    pub(crate) fn total_timeout(&self) -> Duration {
        self.transport.config.total_timeout
    }

    pub(crate) fn get(&self, segments: &[&str]) -> Result<Call> {
        self.transport.call(Method::GET, segments)
    }

    pub(crate) fn post(&self, segments: &[&str]) -> Result<Call> {
        self.transport.call(Method::POST, segments)
    }

    pub(crate) fn put(&self, segments: &[&str]) -> Result<Call> {
        self.transport.call(Method::PUT, segments)
    }

    pub(crate) fn delete(&self, segments: &[&str]) -> Result<Call> {
        self.transport.call(Method::DELETE, segments)
    }

    /// Sends a call whose answer is of no interest beyond its success.
    pub(crate) async fn done(&self, call: Call) -> Result<()> {
        self.transport.send(&call, self.retry, self.trace).await.map(drop)
    }

    /// Sends a call and reads its answer.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, call: Call) -> Result<T> {
        let body = self.transport.send(&call, self.retry, self.trace).await?;
        serde_json::from_slice(&body)
            .map_err(|why| Error::Decode { call: call.name(), source: Box::new(why) })
    }
}
