//! The leases that pulling workers hold from this incarnation of the node.

use crate::job::Job;
use crate::runner::IdMap;
use duebook_core::{LeaseKey, TaskId};
use std::sync::{Arc, Mutex, PoisonError};

struct HandedOut {
    job: Arc<Job>,
    worker: Arc<str>,
}

/// Handed-out leases by task. Bounded by the queues' concurrency.
#[derive(Default)]
pub(crate) struct Leases {
    by_task: Mutex<IdMap<HandedOut>>,
}

impl Leases {
    fn lock(&self) -> std::sync::MutexGuard<'_, IdMap<HandedOut>> {
        self.by_task.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, job: &Arc<Job>, worker: &Arc<str>) {
        let handed_out = HandedOut { job: Arc::clone(job), worker: Arc::clone(worker) };
        self.lock().insert(job.task.id, handed_out);
    }

    pub(crate) fn remove(&self, id: TaskId) {
        self.lock().remove(&id);
    }

    /// The job and its worker, if this lease is the one handed out.
    pub(crate) fn find(&self, id: TaskId, lease: LeaseKey) -> Option<(Arc<Job>, Arc<str>)> {
        let leases = self.lock();
        let found = leases.get(&id).filter(|handed_out| handed_out.job.lease == lease)?;
        Some((Arc::clone(&found.job), Arc::clone(&found.worker)))
    }

    /// The worker that holds the task.
    pub(crate) fn worker(&self, id: TaskId) -> Option<Arc<str>> {
        self.lock().get(&id).map(|handed_out| Arc::clone(&handed_out.worker))
    }
}
