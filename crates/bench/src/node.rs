//! The node under test: an engine in this process, or an own `duebook serve` beside it.

use crate::cli::Common;
use anyhow::{Context, bail};
use duebook_core::{Priority, SystemClock};
use duebook_engine::{Engine, EngineConfig, ScheduleRequest, Silent, SystemRuntime};
use duebook_store::{SqliteConfig, SqliteStore};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// The queue that all benchmarks use.
pub(crate) const QUEUE: &str = "bench";

fn folder(common: &Common) -> anyhow::Result<TempDir> {
    let made = match &common.dir {
        Some(dir) => TempDir::with_prefix_in("duebook-bench-", dir),
        None => TempDir::with_prefix("duebook-bench-"),
    };
    made.context("no folder for the throwaway store")
}

/// An engine on a throwaway store in this process.
pub(crate) struct InProcess {
    pub(crate) engine: Engine,
    path: PathBuf,
    dir: TempDir,
}

impl InProcess {
    pub(crate) async fn start(common: &Common) -> anyhow::Result<Self> {
        let dir = folder(common)?;
        let path = dir.path().join("duebook.db");
        let engine = Self::engine(&path).await?;
        Ok(Self { engine, path, dir })
    }

    async fn engine(path: &std::path::Path) -> anyhow::Result<Engine> {
        let store = SqliteStore::open(&SqliteConfig::new(path), Arc::new(SystemClock))?;
        let runtime = Arc::new(SystemRuntime::new()?);
        Ok(Engine::start(Arc::new(store), runtime, EngineConfig::default(), Arc::new(Silent)).await?)
    }

    /// Stops the engine and starts it anew on the same store; answers how long the start took.
    pub(crate) async fn restart(self) -> anyhow::Result<(Self, Duration)> {
        self.engine.stop(1_000).await;
        let Self { engine, path, dir } = self;
        drop(engine);
        let start_us = now_us();
        let engine = Self::engine(&path).await?;
        let took = Duration::from_micros(u64::try_from(now_us() - start_us).unwrap_or(0));
        Ok((Self { engine, path, dir }, took))
    }
}

/// Now in epoch microseconds.
pub(crate) fn now_us() -> i64 {
    use duebook_core::Clock;
    SystemClock.now_us()
}

/// Due times of tasks that only wait: evenly over the day that begins in an hour.
pub(crate) fn pending_times(count: usize) -> Vec<i64> {
    let start_ms = now_us() / 1000 + 3_600_000;
    (0..count).map(|number| start_ms + (number as i64 * 86_400_000) / count as i64).collect()
}

/// A task of the benchmark: its number is in its key.
pub(crate) fn request(prefix: &str, number: usize, due_ms: i64) -> ScheduleRequest {
    ScheduleRequest {
        queue: QUEUE.into(),
        key: format!("{prefix}{number:09}"),
        due_ms,
        payload: Some(payload(number)),
        priority: Priority::Normal,
        retry: None,
        on_conflict: duebook_core::OnConflict::Keep,
        trace_id: None,
        actor: None,
    }
}

/// About 100 bytes, as an order's task has.
pub(crate) fn payload(number: usize) -> String {
    format!(
        r#"{{"order":"20261201-{number:09}","user":"u{:06}","amount":129.50,"currency":"EUR","why":"unpaid"}}"#,
        number % 999_983
    )
}

/// The number in a key made by [`request`].
pub(crate) fn number_of(prefix: &str, key: &str) -> Option<usize> {
    key.strip_prefix(prefix)?.parse().ok()
}

/// Schedules `due_ms.len()` tasks through the engine, in batches, several at a time.
pub(crate) async fn load(engine: &Engine, prefix: &str, due_ms: &[i64]) -> anyhow::Result<()> {
    let bar = crate::progress::bar(if prefix == "p" { "pending" } else { "schedule" }, due_ms.len());
    let mut flying = tokio::task::JoinSet::new();
    for (batch, dues) in due_ms.chunks(1_000).enumerate() {
        let requests =
            dues.iter().enumerate().map(|(i, due)| request(prefix, batch * 1_000 + i, *due)).collect();
        let engine = engine.clone();
        if flying.len() >= 4
            && let Some(done) = flying.join_next().await
        {
            done??;
        }
        let dues = dues.len() as u64;
        let bar = bar.clone();
        flying.spawn(async move {
            for answer in engine.schedule(requests).await? {
                answer?;
            }
            bar.inc(dues);
            anyhow::Ok(())
        });
    }
    while let Some(done) = flying.join_next().await {
        done??;
    }
    bar.finish_and_clear();
    Ok(())
}

/// A server: an own one as a child process, or the given one.
pub(crate) struct Served {
    pub(crate) url: String,
    pub(crate) key: Option<String>,
    child: Option<Child>,
    dir: Option<TempDir>,
}

impl Served {
    pub(crate) fn start(common: &Common) -> anyhow::Result<Self> {
        if let Some(url) = &common.server {
            let url = url.trim_end_matches('/').to_owned();
            return Ok(Self { url, key: common.key.clone(), child: None, dir: None });
        }
        let dir = folder(common)?;
        let program = std::env::current_exe().context("own program not found")?;
        let mut child = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("own server cannot be started")?;
        let mut lines = BufReader::new(child.stdout.take().context("no output of the own server")?).lines();
        let url = loop {
            match lines.next() {
                Some(Ok(line)) => {
                    if let Some(url) = line.strip_prefix("duebook listening on ") {
                        break url.trim().to_owned();
                    }
                }
                _ => bail!("the own server ended before it listened"),
            }
        };
        // What it prints later must go somewhere, or it would block.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Self { url, key: None, child: Some(child), dir: Some(dir) })
    }

    /// The process under test, where it is an own one.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Bytes of the own store on disk.
    pub(crate) fn store_bytes(&self) -> Option<u64> {
        let dir = self.dir.as_ref()?;
        let mut bytes = 0;
        for entry in std::fs::read_dir(dir.path()).ok()?.flatten() {
            bytes += entry.metadata().map_or(0, |meta| meta.len());
        }
        Some(bytes)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
