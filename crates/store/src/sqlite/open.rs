//! Opening: the lock, the settings, the migrations, and errors that say what to do.

use super::SqliteConfig;
use duebook_core::TaskId;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// The migrations, in order: the n-th brings the schema to version n. Never change one that was released.
const MIGRATIONS: [&str; 1] = [include_str!("sql/0001_init.sql")];

/// The schema version that this program reads and writes.
pub const SCHEMA_VERSION: u32 = MIGRATIONS.len() as u32;

const PAGE_BYTES: u64 = 4096;

/// How every SQLite file begins that is not empty.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error(
        "{path} is in use by another process{holder}: stop that process, or choose another data directory"
    )]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// " (pid N)", if the lock file says so.
        holder: String,
    },
    /// It was written by a newer program.
    #[error("{path} has schema version {found}, this program knows up to {known}: use a newer duebook")]
    Newer {
        /// The database file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest known version.
        known: u32,
    },
    /// It is not a database, or a damaged one.
    #[error(
        "{path} is damaged or not a Duebook store ({why}): restore it from a backup, or move it away to start anew"
    )]
    Corrupt {
        /// The database file.
        path: PathBuf,
        /// What SQLite said.
        why: String,
    },
    /// There is no room to open it.
    #[error("there is no room to open {path} ({why}): free some disk space")]
    Full {
        /// The database file.
        path: PathBuf,
        /// What SQLite said.
        why: String,
    },
    /// The file system refused.
    #[error("cannot open {path}: {error}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// SQLite refused.
    #[error("cannot open {path}: {why}")]
    Sqlite {
        /// The database file.
        path: PathBuf,
        /// What SQLite said.
        why: String,
    },
}

pub(super) struct Opened {
    pub(super) connection: Connection,
    pub(super) lock: Lock,
    pub(super) boot: u32,
    pub(super) epoch: String,
    pub(super) last_id: Option<TaskId>,
    pub(super) last_trail: i64,
}

pub(super) fn open(config: &SqliteConfig) -> Result<Opened, OpenError> {
    let path = &config.path;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)
            .map_err(|error| OpenError::Io { path: folder.to_path_buf(), error })?;
    }
    let lock = lock(path)?;
    check_magic(path)?;
    let explain = |error: rusqlite::Error| explain(path, &error);
    let connection = Connection::open(path).map_err(explain)?;
    // The first read of the file: a file that is no database is found here.
    let found: u32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(explain)?;
    if found > SCHEMA_VERSION {
        return Err(OpenError::Newer { path: path.clone(), found, known: SCHEMA_VERSION });
    }
    let tables: u32 =
        connection.query_row("SELECT COUNT(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(explain)?;
    if found == 0 && tables > 0 {
        let why = "it is the database of another program".to_owned();
        return Err(OpenError::Corrupt { path: path.clone(), why });
    }
    configure(&connection, config).map_err(explain)?;
    migrate(&connection, found).map_err(explain)?;
    let (boot, epoch) = begin_boot(&connection).map_err(explain)?;
    let last_id: Option<i64> =
        connection.query_row("SELECT MAX(id) FROM tasks", [], |row| row.get(0)).map_err(explain)?;
    let last_trail: Option<i64> =
        connection.query_row("SELECT MAX(id) FROM trail", [], |row| row.get(0)).map_err(explain)?;
    Ok(Opened {
        connection,
        lock,
        boot,
        epoch,
        last_id: last_id.map(TaskId::from_i64),
        last_trail: last_trail.unwrap_or(0),
    })
}

/// A reader's connection. The writer must have opened the file before.
pub(super) fn open_reader(config: &SqliteConfig) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let explain = |error: rusqlite::Error| explain(&config.path, &error);
    let connection = Connection::open_with_flags(&config.path, flags).map_err(explain)?;
    connection.set_prepared_statement_cache_capacity(64);
    stable_plans(&connection).map_err(explain)?;
    connection
        .execute_batch(&format!(
            "PRAGMA query_only = 1; PRAGMA busy_timeout = 5000; PRAGMA cache_size = -{};",
            config.reader_cache_bytes / 1024
        ))
        .map_err(explain)?;
    Ok(connection)
}

/// Keeps a statement's plan whatever is bound to it. Else SQLite, built with STAT4, parses it anew each time
/// that another value is bound, which costs more than running it.
fn stable_plans(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(|_| ())
}

/// SQLite takes a file of a few bytes for an empty database and writes over it; this does not.
fn check_magic(path: &Path) -> Result<(), OpenError> {
    let mut start = Vec::new();
    match File::open(path).and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut start)) {
        Ok(_) if start.is_empty() || start == MAGIC => Ok(()),
        Ok(_) => Err(OpenError::Corrupt { path: path.to_path_buf(), why: "it is not a database".to_owned() }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(OpenError::Io { path: path.to_path_buf(), error }),
    }
}

/// Keeps others from opening the database. Released by name, not by closing the file: a child process that is
/// just being started holds a copy of the open file for a moment.
pub(super) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

fn lock(database: &Path) -> Result<Lock, OpenError> {
    let mut path = database.as_os_str().to_owned();
    path.push(".lock");
    let path = PathBuf::from(path);
    let io = |error| OpenError::Io { path: path.clone(), error };
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(io)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let pid = std::fs::read_to_string(&path).unwrap_or_default();
            let holder = if pid.trim().is_empty() { String::new() } else { format!(" (pid {})", pid.trim()) };
            return Err(OpenError::Locked { path, holder });
        }
        Err(TryLockError::Error(error)) => return Err(io(error)),
    }
    // For people only; on a full disk the lock still holds without it.
    let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(Lock(file))
}

fn configure(connection: &Connection, config: &SqliteConfig) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(128);
    stable_plans(connection)?;
    let pages = config.size_max_bytes.map_or(4_294_967_294, |bytes| (bytes / PAGE_BYTES).max(64));
    connection.execute_batch(&format!(
        "PRAGMA page_size = {PAGE_BYTES};
         PRAGMA journal_mode = WAL;
         PRAGMA synchronous = FULL;
         PRAGMA busy_timeout = 5000;
         PRAGMA wal_autocheckpoint = 1000;
         PRAGMA journal_size_limit = 67108864;
         PRAGMA temp_store = MEMORY;
         PRAGMA cache_size = -{};
         PRAGMA max_page_count = {pages};",
        config.cache_bytes / 1024
    ))
}

fn migrate(connection: &Connection, found: u32) -> rusqlite::Result<()> {
    for (version, sql) in (1u32..).zip(MIGRATIONS).skip(found as usize) {
        connection
            .execute_batch(&format!("BEGIN IMMEDIATE;\n{sql}\nPRAGMA user_version = {version};\nCOMMIT;"))?;
        tracing::info!(version, "schema migrated");
    }
    Ok(())
}

/// Begins a new incarnation: every lease of an earlier one is void from here on.
fn begin_boot(connection: &Connection) -> rusqlite::Result<(u32, String)> {
    connection.execute_batch(
        "BEGIN IMMEDIATE;
         INSERT INTO meta VALUES ('boot', '1')
           ON CONFLICT (name) DO UPDATE SET value = CAST(value AS INTEGER) + 1;
         INSERT INTO meta VALUES ('epoch', lower(hex(randomblob(6)))) ON CONFLICT DO NOTHING;
         COMMIT;",
    )?;
    let read = |name: &str| {
        connection
            .query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get::<_, String>(0))
            .optional()
            .map(Option::unwrap_or_default)
    };
    Ok((read("boot")?.parse().unwrap_or(1), read("epoch")?))
}

fn explain(path: &Path, error: &rusqlite::Error) -> OpenError {
    let path = path.to_path_buf();
    match super::store_error(error) {
        crate::StoreError::Corrupt(why) => OpenError::Corrupt { path, why },
        crate::StoreError::Full(why) => OpenError::Full { path, why },
        other => OpenError::Sqlite { path, why: other.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer is sent after `COMMIT` returns, and with these settings that means after the log is on disk:
    /// `synchronous = FULL` makes SQLite sync the log at every commit. That the disk keeps what it has synced
    /// when the power fails is not tested here.
    #[test]
    fn every_commit_is_synced() {
        let folder = tempfile::tempdir().unwrap();
        let config =
            SqliteConfig { size_max_bytes: Some(1 << 20), ..SqliteConfig::new(folder.path().join("d")) };
        let opened = open(&config).unwrap();
        let setting = |connection: &Connection, name: &str| -> String {
            let value = connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0)).unwrap();
            match value {
                rusqlite::types::Value::Text(text) => text,
                rusqlite::types::Value::Integer(number) => number.to_string(),
                other => panic!("{name} is {other:?}"),
            }
        };
        for (name, value) in [
            ("journal_mode", "wal"),
            ("synchronous", "2"),
            ("page_size", "4096"),
            ("max_page_count", "256"),
            ("user_version", &SCHEMA_VERSION.to_string()),
        ] {
            assert_eq!(setting(&opened.connection, name), value, "{name}");
        }
        let reader = open_reader(&config).unwrap();
        assert_eq!(setting(&reader, "journal_mode"), "wal");
        assert_eq!(setting(&reader, "query_only"), "1");
        assert!(reader.execute_batch("DELETE FROM meta").is_err(), "a reader does not write");
    }
}
