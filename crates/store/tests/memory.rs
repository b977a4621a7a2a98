//! The in-memory store passes the suite.

use duebook_core::clock::SettableClock;
use duebook_store::Store;
use duebook_store::memory::MemoryStore;
use std::sync::Arc;

async fn make_store(clock: Arc<SettableClock>) -> (Arc<dyn Store>, ()) {
    (Arc::new(MemoryStore::new(clock)), ())
}

duebook_store::conformance_tests!(make_store);
