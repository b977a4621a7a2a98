//! A running server, as the commands talk to it.

use crate::exit::Failure;
use anyhow::Context as _;
use reqwest::Method;
use serde_json::Value;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);

/// Where the server is.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ServerArgs {
    /// API key.
    #[arg(long, env = "DUEBOOK_KEY", hide_env_values = true)]
    key: Option<String>,
}

/// A server.
pub(crate) struct Remote {
    client: reqwest::Client,
    url: String,
    key: Option<String>,
}

/// The server's refusal, or its answer.
pub(crate) enum Answer {
    Ok(Value),
    NotFound,
}

impl Remote {
    pub(crate) fn new(url: &str, args: ServerArgs) -> Result<Self, Failure> {
        // Fails only if a provider is there already, which does as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .build()
            .context("no HTTP client")
            .map_err(Failure::Failed)?;
        Ok(Self { client, url: url.trim_end_matches('/').to_owned(), key: args.key })
    }

    /// Sends a request. The path's parts are percent-encoded.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Answer, Failure> {
        let mut url = reqwest::Url::parse(&self.url)
            .map_err(|error| Failure::usage(format!("{:?}: {error}", self.url)))?;
        url.path_segments_mut()
            .map_err(|()| Failure::usage(format!("{:?} is no http:// address", self.url)))?
            .pop_if_empty()
            .extend(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let mut request = self.client.request(method, url);
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request
            .send()
            .await
            .with_context(|| format!("no answer from {}: is `duebook serve` running there?", self.url))?;
        let status = response.status();
        let text = response.text().await.context("the answer broke off")?;
        let value: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        if status.is_success() {
            return Ok(Answer::Ok(value));
        }
        if status.as_u16() == 404 {
            return Ok(Answer::NotFound);
        }
        let code = value["code"].as_str().unwrap_or("no code");
        let detail = value["detail"].as_str().unwrap_or("");
        Err(anyhow::anyhow!("{} answered {status} {code}: {detail}", self.url).into())
    }

    pub(crate) async fn get(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Answer, Failure> {
        self.send(Method::GET, path, query, None).await
    }
}
