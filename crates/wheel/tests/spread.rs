//! The work of a tick is bounded: upper slots come down spread over the turn before them. Counted, not timed.

use duebook_wheel::{DRAIN_BATCH, Wheel};

const START_MS: u64 = 1_760_000_000_000;

/// Runs every tick until `end_ms` and returns the most references that one tick moved.
fn most_moved(wheel: &mut Wheel<u64>, end_ms: u64) -> usize {
    let mut most = 0;
    for now_ms in START_MS..=end_ms {
        wheel.advance(now_ms, usize::MAX, |due_ms, _| assert_eq!(due_ms, now_ms));
        most = most.max(wheel.moved_last_advance());
    }
    most
}

#[test]
fn a_million_over_half_an_hour() {
    let mut wheel = Wheel::new(START_MS);
    for item in 0..1_000_000 {
        wheel.insert(START_MS + item * 2_654_435_761 % 1_800_000, item);
    }
    let most = most_moved(&mut wheel, START_MS + 1_800_000);
    assert!(most <= 2 * DRAIN_BATCH as usize, "{most}");
    assert!(wheel.is_empty());
}

#[test]
fn a_million_within_one_second_an_hour_away() {
    let mut wheel = Wheel::new(START_MS);
    for item in 0..1_000_000 {
        wheel.insert(START_MS + 3_600_000 + item % 1_000, item);
    }
    let most = most_moved(&mut wheel, START_MS + 3_601_000);
    // Level 2 (17 minutes) brings down a million within 2^20 ticks, level 1 within 2^10.
    assert!(most <= 1_000_000 / 1_024 + 2 + DRAIN_BATCH as usize, "{most}");
    assert!(wheel.is_empty());
}

#[test]
fn a_million_cancelled_ones_cost_no_more() {
    let mut wheel = Wheel::new(START_MS);
    let handles: Vec<_> =
        (0..1_000_000).map(|item| wheel.insert(START_MS + item * 2_654_435_761 % 1_800_000, item)).collect();
    for (item, handle) in (0..).zip(&handles) {
        if item % 3 != 0 {
            assert_eq!(wheel.cancel(*handle), Some(item));
        }
    }
    let most = most_moved(&mut wheel, START_MS + 1_800_000);
    assert!(most <= 3 * DRAIN_BATCH as usize, "{most}");
    assert!(wheel.is_empty());
}
