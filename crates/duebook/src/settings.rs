//! Settings from flags, `DUEBOOK_*` environment variables and a TOML file, which mean the same thing: flags win,
//! then the environment, then the file.

mod values;

use crate::exit::Failure;
use clap::{Args, ValueEnum};
use duebook_core::retry::{RetryPolicies, RetryPolicy};
use duebook_engine::{EngineConfig, Retention};
use duebook_server::ServerConfig;
use duebook_store::SqliteConfig;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use values::{Age, NamedPolicy};

const DATA_DEFAULT: &str = "./duebook-data";

/// How the log is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// What can be set. In the file the names are the flags' with `_` for `-`.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// TOML file with settings.
    #[arg(long, env = "DUEBOOK_CONFIG", value_name = "FILE")]
    #[serde(skip)]
    config: Option<PathBuf>,
    /// Address to listen on; port 0 takes a free one [default: 127.0.0.1:7700].
    #[arg(long, env = "DUEBOOK_LISTEN", value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Data directory [default: ./duebook-data].
    #[arg(long, env = "DUEBOOK_DATA", value_name = "DIR")]
    data: Option<PathBuf>,
    /// The store, sqlite:PATH [default: DATA/duebook.db].
    #[arg(long, env = "DUEBOOK_STORE", value_name = "STORE")]
    store: Option<String>,
    /// Not in this version.
    #[arg(long, env = "DUEBOOK_REDIS", value_name = "URL", hide = true)]
    redis: Option<String>,
    /// Not in this version, except `local`.
    #[arg(long, env = "DUEBOOK_BUS", value_name = "BUS", hide = true)]
    bus: Option<String>,
    /// Not in this version.
    #[arg(long, env = "DUEBOOK_RULES", value_name = "FILE", hide = true)]
    rules: Option<PathBuf>,
    /// Not in this version, except `all`.
    #[arg(long, env = "DUEBOOK_ROLE", value_name = "ROLES", hide = true)]
    role: Option<String>,
    /// Most bytes of the store's file; when they are used up, writes answer 503 store_full [default: the disk].
    #[arg(long, env = "DUEBOOK_STORE_SIZE_MAX_BYTES", value_name = "BYTES")]
    store_size_max_bytes: Option<u64>,
    /// How long before its due time a task may be claimed [default: 100].
    #[arg(long, env = "DUEBOOK_CLAIM_AHEAD_MS", value_name = "MS")]
    claim_ahead_ms: Option<u32>,
    /// How far ahead tasks are held in memory [default: 300000].
    #[arg(long, env = "DUEBOOK_HORIZON_MS", value_name = "MS")]
    horizon_ms: Option<u32>,
    /// Most tasks held in memory, all queues together [default: 500000].
    #[arg(long, env = "DUEBOOK_HORIZON_ITEMS_MAX", value_name = "N")]
    horizon_items_max: Option<u32>,
    /// How long running handlers may finish on SIGTERM [default: 10000].
    #[arg(long, env = "DUEBOOK_GRACE_MS", value_name = "MS")]
    grace_ms: Option<u32>,
    /// Fewest workers for webhooks and in-process handlers [default: 4].
    #[arg(long, env = "DUEBOOK_WORKERS_MIN", value_name = "N")]
    workers_min: Option<u16>,
    /// Most workers for webhooks and in-process handlers [default: 512].
    #[arg(long, env = "DUEBOOK_WORKERS_MAX", value_name = "N")]
    workers_max: Option<u16>,
    /// Age at which succeeded tasks are deleted: 7d, 12h, 30m, 45s, or forever [default: 7d].
    #[arg(long, env = "DUEBOOK_KEEP_SUCCEEDED", value_name = "AGE")]
    keep_succeeded: Option<Age>,
    /// Age at which cancelled tasks are deleted [default: 7d].
    #[arg(long, env = "DUEBOOK_KEEP_CANCELLED", value_name = "AGE")]
    keep_cancelled: Option<Age>,
    /// Age at which dead tasks are deleted [default: 90d].
    #[arg(long, env = "DUEBOOK_KEEP_DEAD", value_name = "AGE")]
    keep_dead: Option<Age>,
    /// Folder to which tasks are written as JSON lines before they are deleted.
    #[arg(long, env = "DUEBOOK_EXPORT_DIR", value_name = "DIR")]
    export_dir: Option<PathBuf>,
    /// A retry policy, NAME=MS,MS,… or NAME=MS,MS,…@JITTER; in the file a table `retry.NAME` with delays_ms and jitter.
    #[arg(long = "retry", env = "DUEBOOK_RETRY", value_name = "POLICY", value_delimiter = ';')]
    #[serde(skip)]
    retry_flags: Vec<NamedPolicy>,
    #[arg(skip)]
    retry: BTreeMap<String, RetryPolicy>,
    /// Most open connections [default: 10000].
    #[arg(long, env = "DUEBOOK_CONNECTIONS_MAX", value_name = "N")]
    connections_max: Option<u32>,
    /// Most requests worked on at once [default: 10000].
    #[arg(long, env = "DUEBOOK_IN_FLIGHT_MAX", value_name = "N")]
    in_flight_max: Option<u32>,
    /// Most bytes of a request body [default: 8388608].
    #[arg(long, env = "DUEBOOK_BODY_BYTES_MAX", value_name = "BYTES")]
    body_bytes_max: Option<u32>,
    /// How long a request may take, long polls not counted [default: 30000].
    #[arg(long, env = "DUEBOOK_REQUEST_TIMEOUT_MS", value_name = "MS")]
    request_timeout_ms: Option<u32>,
    /// How the log is written; RUST_LOG says what [default: text].
    #[arg(long, env = "DUEBOOK_LOG", value_enum, value_name = "FORMAT")]
    log: Option<LogFormat>,
}

macro_rules! merge {
    ($upper:ident, $lower:ident: $($field:ident)*) => { $($upper.$field = $upper.$field.or($lower.$field);)* };
}

impl Settings {
    /// With what the file says where flags and environment say nothing.
    pub(crate) fn with_file(mut self) -> Result<Self, Failure> {
        let Some(path) = &self.config else { return Ok(self) };
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
        let file: Self = toml::from_str(&text).map_err(|error| {
            Failure::usage(format!("{}: {}", path.display(), error.to_string().trim_end()))
        })?;
        merge!(self, file: listen data store redis bus rules role store_size_max_bytes claim_ahead_ms horizon_ms
            horizon_items_max grace_ms workers_min workers_max keep_succeeded keep_cancelled keep_dead export_dir
            connections_max in_flight_max body_bytes_max request_timeout_ms log);
        self.retry = file.retry;
        Ok(self)
    }

    pub(crate) fn log_format(&self) -> LogFormat {
        self.log.unwrap_or_default()
    }

    /// Refuses what this version does not have.
    pub(crate) fn check_version(&self) -> Result<(), Failure> {
        let absent = |what: &str| Err(Failure::usage(format!("{what} is not in this version")));
        match (&self.redis, &self.bus, &self.rules, &self.role) {
            (Some(_), ..) => absent("--redis"),
            (_, Some(bus), ..) if bus != "local" => absent(&format!("--bus {bus}")),
            (_, _, Some(_), _) => absent("--rules"),
            (.., Some(role)) if role != "all" => absent(&format!("--role {role}")),
            _ => Ok(()),
        }
    }

    /// The database file.
    pub(crate) fn database(&self) -> Result<PathBuf, Failure> {
        let Some(store) = &self.store else {
            return Ok(self.data.as_deref().unwrap_or(Path::new(DATA_DEFAULT)).join("duebook.db"));
        };
        match store.split_once(':') {
            Some(("sqlite", path)) if !path.is_empty() => {
                Ok(PathBuf::from(path.strip_prefix("//").unwrap_or(path)))
            }
            Some((kind @ ("postgres" | "postgresql" | "mysql" | "mariadb"), _)) => {
                Err(Failure::usage(format!("--store {kind}: is not in this version; use sqlite:PATH")))
            }
            _ => Err(Failure::usage(format!("--store {store:?}: must be sqlite:PATH"))),
        }
    }

    /// The store's settings.
    pub(crate) fn sqlite(&self) -> Result<SqliteConfig, Failure> {
        Ok(SqliteConfig { size_max_bytes: self.store_size_max_bytes, ..SqliteConfig::new(self.database()?) })
    }

    /// The engine's settings.
    pub(crate) fn engine(&self) -> Result<EngineConfig, Failure> {
        let mut engine = EngineConfig::default();
        if let Some(ms) = self.claim_ahead_ms {
            engine.claim_ahead_ms = ms.into();
        }
        if let Some(ms) = self.horizon_ms {
            engine.source.horizon_ms = i64::from(ms).max(1_000);
        }
        if let Some(items) = self.horizon_items_max {
            engine.source.items_max = items as usize;
        }
        engine.pool.floor = self.workers_min.map_or(engine.pool.floor, |n| usize::from(n.max(1)));
        engine.pool.ceiling = self.workers_max.map_or(engine.pool.ceiling, |n| usize::from(n.max(1)));
        if engine.pool.floor > engine.pool.ceiling {
            return Err(Failure::usage("--workers-min: is more than --workers-max"));
        }
        let mut policies = self.retry.clone();
        policies.extend(self.retry_flags.iter().map(|named| (named.name.clone(), named.policy.clone())));
        engine.policies =
            RetryPolicies::new(policies).map_err(|bad| Failure::usage(format!("retry policy {bad}")))?;
        let default = Retention::default();
        engine.retention = Retention {
            succeeded_ms: self.keep_succeeded.map_or(default.succeeded_ms, |age| age.ms),
            cancelled_ms: self.keep_cancelled.map_or(default.cancelled_ms, |age| age.ms),
            dead_ms: self.keep_dead.map_or(default.dead_ms, |age| age.ms),
            export_dir: self.export_dir.clone(),
            ..default
        };
        Ok(engine)
    }

    /// The server's settings.
    pub(crate) fn server(&self) -> ServerConfig {
        let default = ServerConfig::default();
        let or = |set: Option<u32>, default: usize| set.map_or(default, |n| n.max(1) as usize);
        ServerConfig {
            listen: self.listen.unwrap_or(default.listen),
            connections_max: or(self.connections_max, default.connections_max),
            in_flight_max: or(self.in_flight_max, default.in_flight_max),
            body_bytes_max: or(self.body_bytes_max, default.body_bytes_max),
            request_timeout_ms: self
                .request_timeout_ms
                .map_or(default.request_timeout_ms, |ms| ms.max(1).into()),
            grace_ms: self.grace_ms.map_or(default.grace_ms, Into::into),
            ..default
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        settings: Settings,
    }

    fn settings(flags: &[&str], file: Option<&str>) -> Result<Settings, Failure> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("duebook.toml");
        let mut line = vec!["duebook".to_owned()];
        line.extend(flags.iter().map(|flag| (*flag).to_owned()));
        if let Some(text) = file {
            std::fs::write(&path, text).unwrap();
            line.extend(["--config".to_owned(), path.display().to_string()]);
        }
        Line::parse_from(line).settings.with_file()
    }

    #[test]
    fn flags_win_over_the_file() {
        let file = "listen = \"127.0.0.1:1\"\ndata = \"/a\"\nkeep_dead = \"forever\"\ngrace_ms = 7\n\
                    [retry.slow]\ndelays_ms = [60000]\njitter = 0.5\n";
        let merged = settings(&["--listen", "127.0.0.1:2", "--retry", "fast=1,2@0.1"], Some(file)).unwrap();
        assert_eq!(merged.server().listen.port(), 2);
        assert_eq!(merged.server().grace_ms, 7);
        assert_eq!(merged.database().unwrap(), Path::new("/a/duebook.db"));
        let engine = merged.engine().unwrap();
        assert_eq!(engine.retention.dead_ms, None);
        assert_eq!(engine.retention.succeeded_ms, Some(7 * 86_400_000));
        assert!(engine.policies.contains("slow") && engine.policies.contains("fast"));
    }

    #[test]
    fn an_unknown_key_in_the_file_is_named() {
        let Err(Failure::Usage(words)) = settings(&[], Some("lisen = \"x\"\n")) else { panic!("was taken") };
        assert!(words.contains("lisen"), "{words}");
        let Err(Failure::Usage(words)) = settings(&[], Some("[retry.x]\ndelay = 1\n")) else {
            panic!("was taken")
        };
        assert!(words.contains("delay"), "{words}");
    }

    #[test]
    fn what_this_version_does_not_have_is_refused() {
        for flags in [
            ["--redis", "redis://127.0.0.1"],
            ["--bus", "kafka://127.0.0.1"],
            ["--rules", "rules.toml"],
            ["--role", "gateway"],
        ] {
            let refused = settings(&flags, None).unwrap().check_version();
            assert!(matches!(refused, Err(Failure::Usage(_))), "{flags:?}");
        }
        assert!(settings(&["--role", "all", "--bus", "local"], None).unwrap().check_version().is_ok());
        for store in ["postgres://h/d", "mysql://h/d", "redis:", "x"] {
            let refused = settings(&["--store", store], None).unwrap().database();
            assert!(matches!(refused, Err(Failure::Usage(_))), "{store}");
        }
        let path = settings(&["--store", "sqlite:/x/y.db"], None).unwrap().database().unwrap();
        assert_eq!(path, Path::new("/x/y.db"));
    }
}
