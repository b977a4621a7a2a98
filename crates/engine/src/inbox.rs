//! What other parts tell a runner. One lock, taken for a moment; the runner swaps the whole content out.
//!
//! Bounded: offers beyond the limit are dropped and remembered as missed, and the source then trusts the
//! store. Everything else is bounded by what the runner itself has asked for or holds.

use crate::job::Job;
use crate::source::PageRequest;
use duebook_core::{LeaseKey, QueueSettings, TaskId};
use duebook_store::{DueRow, StoreError, UnitReply};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, oneshot};

const OFFERS_MAX: usize = 100_000;

/// A worker that waits for tasks.
pub(crate) struct Pull {
    pub(crate) max: usize,
    pub(crate) lease_ms: u64,
    pub(crate) deadline_ms: i64,
    pub(crate) worker: Arc<str>,
    pub(crate) reply: oneshot::Sender<Vec<Arc<Job>>>,
}

/// Somebody wants an unstarted claim back.
pub(crate) struct Withdraw {
    pub(crate) id: TaskId,
    pub(crate) reply: oneshot::Sender<Option<LeaseKey>>,
}

/// A claim was answered.
pub(crate) struct Claimed {
    pub(crate) rows: Vec<DueRow>,
    pub(crate) reply: UnitReply,
    pub(crate) took_us: i64,
}

/// A page of the store was read.
pub(crate) struct Page {
    pub(crate) request: PageRequest,
    pub(crate) rows: Result<Vec<DueRow>, StoreError>,
    /// Which of the runner's sources asked for it.
    pub(crate) source_number: u64,
}

#[derive(Default)]
pub(crate) struct Mail {
    pub(crate) left: Vec<TaskId>,
    pub(crate) offers: Vec<DueRow>,
    pub(crate) missed: bool,
    pub(crate) claimed: Vec<Claimed>,
    pub(crate) pages: Vec<Page>,
    pub(crate) swept: Option<Result<Vec<DueRow>, StoreError>>,
    pub(crate) pulls: Vec<Pull>,
    pub(crate) withdrawals: Vec<Withdraw>,
    pub(crate) stop_asked: Vec<TaskId>,
    pub(crate) questions: Vec<(Vec<TaskId>, oneshot::Sender<Vec<bool>>)>,
    pub(crate) settings: Option<QueueSettings>,
    pub(crate) stop: bool,
    /// The runner has ended and reads no more.
    closed: bool,
}

#[derive(Default)]
pub(crate) struct Inbox {
    mail: Mutex<Mail>,
    pub(crate) bell: Notify,
}

impl Inbox {
    /// Puts something in and wakes the runner. Once the runner has ended it is dropped instead, so that
    /// whoever waits for an answer hears that none will come.
    pub(crate) fn put(&self, put: impl FnOnce(&mut Mail)) {
        let mut mail = self.mail.lock().unwrap_or_else(PoisonError::into_inner);
        if mail.closed {
            put(&mut Mail::default());
            return;
        }
        put(&mut mail);
        drop(mail);
        self.bell.notify_one();
    }

    /// Drops what is in it and whatever comes later.
    pub(crate) fn close(&self) {
        let closed = Mail { closed: true, ..Mail::default() };
        *self.mail.lock().unwrap_or_else(PoisonError::into_inner) = closed;
    }

    /// Offers tasks that became pending.
    pub(crate) fn offer(mail: &mut Mail, row: DueRow) {
        if mail.offers.len() < OFFERS_MAX {
            mail.offers.push(row);
        } else {
            mail.missed = true;
        }
    }

    pub(crate) fn take(&self) -> Mail {
        std::mem::take(&mut *self.mail.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
