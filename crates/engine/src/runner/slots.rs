//! What a runner holds: a slot per claimed task, and the two lanes of due ones that wait for a place.

use crate::job::Job;
use duebook_core::pool::LanePicker;
use duebook_core::{LeaseKey, Priority, TaskId};
use duebook_wheel::Handle;
use std::collections::{HashMap, VecDeque};
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

/// The two lanes of due tasks that wait for a place, served by weight.
#[derive(Default)]
pub(super) struct ReadyLanes {
    picker: LanePicker,
    high: VecDeque<Arc<Job>>,
    normal: VecDeque<Arc<Job>>,
}

impl ReadyLanes {
    pub(super) fn push(&mut self, job: Arc<Job>) {
        match job.task.priority {
            Priority::High => self.high.push_back(job),
            Priority::Normal => self.normal.push_back(job),
        }
    }

    /// The next job that is still waiting to start. Withdrawn ones fall out here.
    pub(super) fn pop(&mut self) -> Option<Arc<Job>> {
        loop {
            let job = match self.picker.pick(!self.high.is_empty(), !self.normal.is_empty())? {
                Priority::High => self.high.pop_front(),
                Priority::Normal => self.normal.pop_front(),
            }?;
            if job.is_waiting() {
                return Some(job);
            }
        }
    }

    pub(super) fn put_back(&mut self, job: Arc<Job>) {
        match job.task.priority {
            Priority::High => self.high.push_front(job),
            Priority::Normal => self.normal.push_front(job),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.high.len() + self.normal.len()
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = Arc<Job>> + '_ {
        self.high.drain(..).chain(self.normal.drain(..))
    }
}
