//! The one seam where the engine tells what it does. The server turns it into metrics; a simulator checks
//! promises with it.

use crate::handler::Outcome;
use crate::job::Job;
use duebook_store::Effect;

/// Hears what happens. Called often: must be quick and must not block.
pub trait Observer: Send + Sync + 'static {
    /// Steps were committed.
    fn committed(&self, _effects: &[Effect]) {}
    /// A claim was answered: asked for so many, got so many, the commit took so long.
    fn claimed(&self, _queue: &str, _asked: usize, _got: usize, _took_us: i64) {}
    /// A handler is about to start; `now_us - due` is the lateness.
    fn started(&self, _job: &Job, _now_us: i64) {}
    /// A handler ended.
    fn finished(&self, _job: &Job, _outcome: &Outcome, _now_us: i64) {}
    /// The pool was sized.
    fn pool(&self, _workers: usize, _busy: usize, _waiting: usize) {}
    /// A queue's memory: hints in its due source, claims held.
    fn queue(&self, _queue: &str, _hints: usize, _held: usize) {}
    /// Something in the background found work to do: which service, what it counted.
    fn swept(&self, _service: &'static str, _what: &'static str, _count: usize) {}
}

/// Hears nothing.
pub struct Silent;

impl Observer for Silent {}
