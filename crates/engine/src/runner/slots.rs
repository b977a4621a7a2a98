//! What a runner holds: a slot per claimed task.

use crate::job::Job;
use duebook_core::{LeaseKey, TaskId};
use duebook_wheel::Handle;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use tokio::sync::oneshot;

/// A task's place in the runner's hands.
pub(super) enum Slot {
    /// The claim is being committed. A withdrawal that came meanwhile waits for its answer.
    Claiming(Option<oneshot::Sender<Option<LeaseKey>>>),
    /// Claimed ahead; the timer releases it.
    Early(Arc<Job>, Handle),
    /// Due; waits for a free place or a pull.
    Ready(Arc<Job>),
    /// Given to the pool or to a pulling worker.
    Out(Arc<Job>),
    /// Taken back before it started; whoever did it writes the rest.
    Withdrawn,
}

/// Ids are unique numbers in time order; a multiplication spreads them well enough.
#[derive(Default, Clone, Copy)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_i64(&mut self, id: i64) {
        let mixed = (id as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

pub(crate) type IdMap<V> = HashMap<TaskId, V, BuildHasherDefault<IdHasher>>;
