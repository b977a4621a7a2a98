//! The checker: reads a history and says which promise it breaks.

use crate::world::{History, Told};
use duebook_core::{Reason, State};

/// What the seeds saw together.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    starts: usize,
    kills: usize,
    jumps: usize,
    unknown: usize,
    cancelled_outright: usize,
    by_reason: [usize; 15],
}

impl Totals {
    /// That every kind of thing did happen.
    pub(crate) fn assert_everything_happened(&self) {
        for reason in [
            Reason::Scheduled,
            Reason::Replaced,
            Reason::Rescheduled,
            Reason::Claimed,
            Reason::Done,
            Reason::Retry,
            Reason::Exhausted,
            Reason::Permanent,
            Reason::Interrupted,
            Reason::Released,
            Reason::Cancelled,
            Reason::CancelRequested,
        ] {
            assert!(self.by_reason[usize::from(reason.code())] > 0, "{reason:?} never happened: {self:?}");
        }
        assert!(self.kills > 100 && self.jumps > 100 && self.unknown > 100, "{self:?}");
        assert!(self.starts > 5_000 && self.cancelled_outright > 200, "{self:?}");
    }
}

/// Checks one history.
pub(crate) fn check(history: &History, totals: &mut Totals) -> Result<(), String> {
    totals.starts += history.starts.len();
    totals.kills += history.kills;
    totals.jumps += history.jumps;
    nothing_is_lost(history)?;
    trails_are_legal(history, totals)?;
    starts_follow_commits(history)?;
    what_was_told_holds(history, totals)
}

/// Promises 1 and 2: everything acknowledged came to its end.
fn nothing_is_lost(history: &History) -> Result<(), String> {
    if history.unfinished > 0 {
        let live: Vec<String> = history
            .tasks
            .iter()
            .filter(|(task, _)| task.head.state.is_live())
            .map(|(task, _)| format!("{} {:?}", task.key, task.head))
            .collect();
        return Err(format!("tasks that never came to their end: {live:#?}"));
    }
    for told in &history.told {
        if let Told::Scheduled { key } = told
            && !history.tasks.iter().any(|(task, _)| &task.key == key)
        {
            return Err(format!("{key} was acknowledged and is gone"));
        }
    }
    Ok(())
}

/// Promise 3: every step is one the state machine has; an end comes once per life.
fn trails_are_legal(history: &History, totals: &mut Totals) -> Result<(), String> {
    for (task, trail) in &history.tasks {
        let mut state = None;
        let mut attempt = 0;
        for (number, entry) in (1u32..).zip(trail) {
            let step = entry.step;
            totals.by_reason[usize::from(step.reason.code())] += 1;
            if entry.seq != number || step.from != state || !step.reason.allows(step.from, step.to) {
                return Err(format!("{}: illegal step {entry:?} after {state:?}", task.key));
            }
            if step.reason == Reason::Claimed && entry.attempt != attempt + 1 {
                return Err(format!("{}: a claim did not count its attempt: {entry:?}", task.key));
            }
            attempt = entry.attempt;
            state = Some(step.to);
        }
        if state != Some(task.head.state) || trail.len() != task.head.seq as usize {
            return Err(format!("{}: the trail does not lead to {:?}", task.key, task.head));
        }
    }
    Ok(())
}

/// Promise 4: running is committed, under the handler's own lease, before the handler starts; never early.
fn starts_follow_commits(history: &History) -> Result<(), String> {
    for start in &history.starts {
        if !start.committed {
            return Err(format!("a handler started without its claim: {start:?}"));
        }
        // A clock that goes back makes a task that was due appear early.
        if start.at_ms < start.due_ms && history.jumps == 0 {
            return Err(format!("a handler started early: {start:?}"));
        }
    }
    // A handler starts at most once per claim.
    let claims: usize = history
        .tasks
        .iter()
        .flat_map(|(_, trail)| trail)
        .filter(|entry| entry.step.reason == Reason::Claimed)
        .count();
    if history.starts.len() > claims {
        return Err(format!("{} starts for {claims} claims", history.starts.len()));
    }
    Ok(())
}

/// A task cancelled outright has no start afterwards, unless it was scheduled anew.
fn what_was_told_holds(history: &History, totals: &mut Totals) -> Result<(), String> {
    for (index, told) in history.told.iter().enumerate() {
        match told {
            Told::Unknown => totals.unknown += 1,
            Told::Scheduled { .. } => {}
            Told::CancelledOutright { key, at_ms } => {
                totals.cancelled_outright += 1;
                // An unknown answer may have been a schedule of the same key.
                let again = history.told[index + 1..].iter().any(|later| match later {
                    Told::Scheduled { key: other } => other == key,
                    Told::Unknown => true,
                    Told::CancelledOutright { .. } => false,
                });
                let started = history.starts.iter().any(|start| &start.key == key && start.at_ms > *at_ms);
                if started && !again && history.jumps == 0 {
                    return Err(format!("{key} was cancelled at {at_ms} and started afterwards"));
                }
                let cancelled = history.tasks.iter().any(|(task, trail)| {
                    &task.key == key && trail.iter().any(|entry| entry.step.to == State::Cancelled)
                });
                if !cancelled {
                    return Err(format!("{key} was told to be cancelled and is not"));
                }
            }
        }
    }
    Ok(())
}
