//! The in-memory store passes the suite, and so does the fault-injecting wrapper while nothing goes wrong.

use duebook_core::clock::SettableClock;
use duebook_store::Store;
use duebook_store::faulty::{Faults, Faulty};
use duebook_store::memory::MemoryStore;
use std::sync::Arc;

async fn make_store(clock: Arc<SettableClock>) -> (Arc<dyn Store>, ()) {
    (Arc::new(MemoryStore::new(clock)), ())
}

duebook_store::conformance_tests!(make_store);

mod faulty {
    use super::*;

    async fn make_store(clock: Arc<SettableClock>) -> (Arc<dyn Store>, ()) {
        let inner = Arc::new(MemoryStore::new(clock));
        let sleep =
            Arc::new(|_| -> duebook_store::BoxFuture<'static, ()> { Box::pin(std::future::ready(())) });
        (Arc::new(Faulty::new(inner, 1, Faults::default(), sleep)), ())
    }

    duebook_store::conformance_tests!(make_store);
}
