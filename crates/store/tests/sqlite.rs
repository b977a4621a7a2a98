//! The embedded store passes the suite.

use duebook_core::clock::SettableClock;
use duebook_store::{SqliteConfig, SqliteStore, Store};
use std::sync::Arc;
use tempfile::TempDir;

async fn make_store(clock: Arc<SettableClock>) -> (Arc<dyn Store>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&SqliteConfig::new(folder.path().join("duebook.db")), clock).unwrap();
    (Arc::new(store), folder)
}

duebook_store::conformance_tests!(make_store);
