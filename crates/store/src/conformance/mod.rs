//! One suite that every backend passes: what a store promises, one function per promise.
//!
//! A backend's test file gives [`conformance_tests!`](crate::conformance_tests) a function that makes an empty
//! store on a settable clock; the macro makes one test per case. After each case the whole store is audited:
//! trails, counters and indexes must agree with the rows, whatever the case did.
//!
//! ```text
//! async fn make_store(clock: Arc<SettableClock>) -> (Arc<dyn Store>, TempDir) { … }
//! duebook_store::conformance_tests!(make_store);
//! ```

pub mod admin;
mod audit;
pub mod cancel;
pub mod claim;
pub mod history;
mod kit;
mod model;
pub mod reading;
pub mod schedule;
pub mod settle;
pub mod trail;
pub mod units;

pub use audit::audit;

use crate::roles::Store;
use crate::unit::{StoreError, Unit};
use duebook_core::clock::SettableClock;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// When every case begins: 2027-01-15T08:00:00Z, in epoch milliseconds.
pub const START_MS: i64 = 1_800_000_000_000;
/// A case that takes longer than this hangs.
const CASE_LIMIT: Duration = Duration::from_secs(60);

/// Runs one case on a fresh store and then audits what it left. `make` also answers whatever must outlive the
/// store, such as its folder.
pub async fn run<M, Made, Guard, C, Done>(make: M, case: C)
where
    M: FnOnce(Arc<SettableClock>) -> Made,
    Made: Future<Output = (Arc<dyn Store>, Guard)>,
    C: FnOnce(Arc<dyn Store>, Arc<SettableClock>) -> Done,
    Done: Future<Output = ()>,
{
    let clock = Arc::new(SettableClock::at_ms(START_MS));
    let (store, _guard) = make(Arc::clone(&clock)).await;
    let whole = async {
        case(Arc::clone(&store), clock).await;
        let closed = matches!(store.submit(Unit::each(Vec::new())).await, Err(StoreError::Closed));
        if !closed {
            audit(&*store).await;
            store.close().await;
        }
    };
    tokio::time::timeout(CASE_LIMIT, whole).await.expect("the case hangs");
}

/// Makes one `#[tokio::test]` per case of the suite for the backend that `$make_store` makes.
#[macro_export]
macro_rules! conformance_tests {
    ($make_store:ident) => {
        $crate::conformance_tests! { @cases $make_store;
            schedule {
                a_new_task_is_kept_whole
                keep_answers_the_live_task
                replace_changes_a_pending_task
                replace_of_a_running_task_is_refused
                reject_names_the_task_that_has_the_key
                a_key_is_free_again_after_the_end
                keys_are_compared_byte_by_byte
                one_key_twice_in_one_unit_is_one_task
                payloads_come_back_byte_by_byte
                ids_grow_in_the_order_of_scheduling
            }
            claim {
                a_claim_takes_a_due_task_and_counts_the_attempt
                a_task_is_claimed_once
                a_claim_reaches_as_far_as_its_due_by
                only_pending_tasks_are_claimed
                only_the_current_lease_settles
                a_lease_is_void_once_the_task_is_claimed_again
                extend_moves_the_end_of_the_lease_only
                nobody_commands_a_task_that_does_not_exist
            }
            settle {
                done_ends_the_task
                retry_makes_it_due_again
                exhausted_and_permanent_end_it_dead
                the_last_error_stays_and_is_cut
                a_lapse_counts_the_attempt
                a_release_does_not_count_the_attempt
                revive_begins_a_new_life
                only_a_dead_task_is_revived
                revive_is_refused_when_the_key_went_on
            }
            cancel {
                a_pending_task_is_cancelled_outright
                a_running_task_is_asked_once
                an_unstarted_claim_is_taken_back_and_cancelled
                an_asked_attempt_that_succeeds_is_done
                an_asked_attempt_that_comes_back_is_cancelled
                an_ended_task_is_not_cancelled
                reschedule_moves_a_pending_task
                reschedule_of_a_running_task_needs_an_unstarted_claim
                run_now_never_delays
            }
            trail {
                the_trail_tells_the_whole_story
                the_trail_names_actor_words_and_trace
                the_trail_is_paged_by_seq
                effects_follow_the_commits_in_order
                effects_are_there_before_the_reply
                effects_of_many_writers_tell_each_task_in_order
            }
            units {
                an_atomic_unit_is_undone_whole
                an_atomic_unit_is_done_whole
                an_atomic_unit_sees_its_own_writes
                neighbours_of_a_refused_unit_commit
                independent_writes_fail_alone
                an_empty_unit_is_answered
                lingering_units_are_answered
                close_answers_what_was_sent_and_refuses_the_rest
            }
            reading {
                due_pages_are_complete_without_repeats
                due_pages_hold_pending_tasks_of_the_queue_up_to_a_time
                running_is_paged_by_boot_and_id
                list_filters
                list_pages_in_both_orders
                find_answers_the_live_task_or_the_last
                walk_meets_every_task_in_order_of_id
                only_ended_tasks_are_purged
                counts_follow_every_change
                a_page_never_mixes_two_moments
                the_store_says_that_it_is_well
            }
            admin {
                a_queue_is_put_and_kept
                a_recurring_schedule_is_put_and_deleted
                a_recurring_schedule_fires_once_per_time
                a_fired_task_whose_key_is_taken_is_left_out
                an_api_key_is_put_and_revoked
                an_api_key_is_never_replaced
            }
            history {
                random_histories_agree_with_the_model
            }
        }
    };
    (@cases $make_store:ident; $($room:ident { $($case:ident)* })*) => {
        $(mod $room {
            $(#[::tokio::test]
            async fn $case() {
                $crate::conformance::run(super::$make_store, $crate::conformance::$room::$case).await;
            })*
        })*
    };
}

#[cfg(test)]
mod tests {
    /// A case that the macro does not name would never run.
    #[test]
    fn every_case_is_named() {
        let macro_text = include_str!("mod.rs");
        let rooms = [
            include_str!("admin.rs"),
            include_str!("cancel.rs"),
            include_str!("claim.rs"),
            include_str!("history.rs"),
            include_str!("reading.rs"),
            include_str!("schedule.rs"),
            include_str!("settle.rs"),
            include_str!("trail.rs"),
            include_str!("units.rs"),
        ];
        for line in rooms.iter().flat_map(|text| text.lines()) {
            let Some(rest) = line.strip_prefix("pub async fn ") else { continue };
            let name = rest.split('(').next().unwrap_or_default();
            assert!(
                macro_text.lines().any(|line| line.trim() == name),
                "{name} is not in conformance_tests!"
            );
        }
    }
}
