//! A server with its store in a temporary folder, and a client.

use duebook_engine::EngineConfig;
use duebook_server::{Server, ServerConfig, serve};
use duebook_store::SqliteConfig;
use reqwest::Method;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) struct Node {
    pub(crate) server: Server,
    pub(crate) client: reqwest::Client,
    pub(crate) dir: TempDir,
    pub(crate) key: Option<String>,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// Expects this status; answers the body.
    #[track_caller]
    pub(crate) fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        if self.text.is_empty() { Value::Null } else { self.json() }
    }

    /// Expects a problem document with this code and pointer.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str, pointer: Option<&str>) -> Value {
        let body = self.json();
        let found = (self.status, body["code"].as_str(), body["pointer"].as_str());
        assert_eq!(found, (status, Some(code), pointer), "{}", self.text);
        assert_eq!(self.headers["content-type"], "application/problem+json");
        assert_eq!(body["status"], status);
        assert_eq!(body["type"], format!("/errors#{code}"));
        assert!(body["title"].is_string() && body["detail"].is_string());
        body
    }
}

pub(crate) fn loopback() -> ServerConfig {
    ServerConfig { listen: "127.0.0.1:0".parse().unwrap(), grace_ms: 200, ..ServerConfig::default() }
}

pub(crate) fn database(dir: &TempDir) -> PathBuf {
    dir.path().join("duebook.db")
}

impl Node {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_, _, _| ()).await
    }

    pub(crate) async fn start_with(
        change: impl FnOnce(&mut SqliteConfig, &mut EngineConfig, &mut ServerConfig),
    ) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), change).await
    }

    pub(crate) async fn start_in(
        dir: TempDir,
        change: impl FnOnce(&mut SqliteConfig, &mut EngineConfig, &mut ServerConfig),
    ) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (mut store, mut engine, mut server) =
            (SqliteConfig::new(database(&dir)), EngineConfig::default(), loopback());
        change(&mut store, &mut engine, &mut server);
        let server = serve(&store, engine, server).await.unwrap();
        let client = reqwest::Client::builder().timeout(Duration::from_secs(30)).build().unwrap();
        Self { server, client, dir, key: None }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.local_addr())
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<&str>) -> Answer {
        let mut request = self.client.request(method, self.url(path));
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_owned());
        }
        Self::read(request).await
    }

    pub(crate) async fn read(request: reqwest::RequestBuilder) -> Answer {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Answer { status, headers, text: response.text().await.unwrap() }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, Some(&body.to_string())).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::PUT, path, Some(&body.to_string())).await
    }

    /// Asks until the answer is as wanted.
    pub(crate) async fn until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..1_000 {
            let answer = self.get(path).await.ok(200);
            if wanted(&answer) {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{path} was not as wanted within 10 s: {}", self.get(path).await.text);
    }

    /// Stops it; the folder stays for another start.
    pub(crate) async fn stop(self) -> TempDir {
        self.server.shutdown().await;
        self.dir
    }
}
