//! The embedded store: SQLite in WAL mode with `synchronous = FULL`, one writer thread, a few readers.
//!
//! What bounds it is one core and the number of distinct pages that a transaction touches, so: ids in time
//! order, keys in clear, partial indexes, ended rows updated in place and deleted in slices later, claims and
//! settles in one commit, small checkpoints.

mod change;
mod open;
mod read;
mod rows;
mod write;

use crate::committer::{CommitObserver, Committer, CommitterConfig};
use crate::roles::{BoxFuture, EffectSink, Writer};
use crate::unit::{StoreError, Unit, UnitReply};
use duebook_core::Clock;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use open::{OpenError, SCHEMA_VERSION};

/// Where the file is and how it is opened.
#[derive(Debug, Clone)]
pub struct SqliteConfig {
    /// The database file. Beside it lie `-wal`, `-shm` and `.lock`.
    pub path: PathBuf,
    /// The committer's limits.
    pub committer: CommitterConfig,
    /// Page cache of the writer in bytes.
    pub cache_bytes: u64,
    /// Page cache of each reader in bytes.
    pub reader_cache_bytes: u64,
    /// Readers, and so reads at one time.
    pub readers: usize,
    /// The file may not grow beyond this many bytes; none means the disk is the limit.
    pub size_max_bytes: Option<u64>,
    /// Node number within ids, 0 to 1023.
    pub node: u16,
}

impl SqliteConfig {
    /// The defaults for a file at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            committer: CommitterConfig::default(),
            cache_bytes: 64 * 1024 * 1024,
            reader_cache_bytes: 8 * 1024 * 1024,
            readers: 2,
            size_max_bytes: None,
            node: 0,
        }
    }
}

/// An open embedded store.
pub struct SqliteStore {
    committer: Committer,
    readers: Arc<read::Readers>,
    boot: u32,
    epoch: String,
    path: PathBuf,
}

impl SqliteStore {
    /// Opens the file, creating or migrating it, and starts the committer.
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong and what to do about it.
    pub fn open(config: &SqliteConfig, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let opened = open::open(config)?;
        let boot = opened.boot;
        let epoch = opened.epoch.clone();
        let backend = write::SqliteWriter::new(opened, config.node);
        let readers = read::Readers::open(config)?;
        let committer = Committer::start(backend, clock, config.committer.clone())
            .map_err(|error| OpenError::Io { path: config.path.clone(), error })?;
        Ok(Self { committer, readers: Arc::new(readers), boot, epoch, path: config.path.clone() })
    }

    /// Hears of every commit; only the first call counts.
    pub fn set_commit_observer(&self, observer: CommitObserver) {
        self.committer.set_observer(observer);
    }

    /// A random name that this store was given when it was created.
    #[must_use]
    pub fn epoch(&self) -> &str {
        &self.epoch
    }

    /// The database file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Writer for SqliteStore {
    fn submit(&self, unit: Unit) -> BoxFuture<'static, UnitReply> {
        self.committer.submit(unit)
    }

    fn set_sink(&self, sink: Arc<dyn EffectSink>) {
        self.committer.set_sink(sink);
    }

    fn boot(&self) -> u32 {
        self.boot
    }

    fn waiting(&self) -> usize {
        self.committer.waiting()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.readers.close();
            self.committer.close().await;
        })
    }
}

/// Sorts what SQLite says into what a caller can do about it.
fn store_error(error: &rusqlite::Error) -> StoreError {
    use rusqlite::ErrorCode;
    match error {
        rusqlite::Error::SqliteFailure(code, text) => {
            let words = text.clone().unwrap_or_else(|| code.to_string());
            match code.code {
                ErrorCode::DiskFull => StoreError::Full(words),
                ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => StoreError::Corrupt(words),
                // The shared-memory file could not grow.
                ErrorCode::SystemIoFailure if code.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE => {
                    StoreError::Full(words)
                }
                _ => StoreError::Backend(words),
            }
        }
        // What is read is what was written: a value of another kind, or a row that is not there, is damage.
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::Utf8Error(..)
        | rusqlite::Error::QueryReturnedNoRows => StoreError::Corrupt(error.to_string()),
        other => StoreError::Backend(other.to_string()),
    }
}
