//! A plain HTTP/1.1 connection for load generation: one request at a time, no pool, no retries, so that the
//! generator costs as little as it can beside the server it measures.

use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// A connection.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    authorization: Option<String>,
}

impl Connection {
    pub(crate) async fn open(url: &str, key: Option<&str>) -> anyhow::Result<Self> {
        let host = url.strip_prefix("http://").context("benchmarks speak plain http")?.to_owned();
        let stream = TcpStream::connect(&host).await.with_context(|| format!("no connection to {host}"))?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(Self { sender, host, authorization: key.map(|key| format!("Bearer {key}")) })
    }

    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.host)
            .header(CONTENT_TYPE, "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        self.sender.ready().await?;
        let response = self.sender.send_request(request.body(Full::new(body))?).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        Ok((status, body))
    }

    /// Sends and expects success.
    pub(crate) async fn call(&mut self, method: Method, path: &str, body: Bytes) -> anyhow::Result<Bytes> {
        let (status, body) = self.send(method, path, body).await?;
        if !status.is_success() {
            bail!("{path} answered {status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(body)
    }
}
