//! Memory: what a timer costs, and that endless arming, cancelling and moving does not add to it.

use duebook_wheel::{Handle, Wheel};

/// Far beyond any tick of these tests.
const FAR_MS: u64 = 1 << 45;

fn filled(timers: u64) -> (Wheel<u64>, Vec<Handle>) {
    let mut wheel = Wheel::new(0);
    let handles = (0..timers).map(|item| wheel.insert(FAR_MS + item * 977, item)).collect();
    (wheel, handles)
}

/// Runs a churn of `rounds` and checks that memory stays below `factor` of what the timers alone take.
fn check_bounded(rounds: u64, mut churn: impl FnMut(&mut Wheel<u64>, &mut Handle, u64)) {
    let timers = 50_000;
    let (mut wheel, mut handles) = filled(timers);
    let before = wheel.memory_bytes();
    let mut half_way = 0;
    for round in 0..rounds {
        churn(&mut wheel, &mut handles[(round * 7_919 % timers) as usize], round);
        if round == rounds / 2 {
            half_way = wheel.memory_bytes();
        }
    }
    let after = wheel.memory_bytes();
    assert_eq!(wheel.len() as u64, timers);
    assert_eq!(half_way, after, "it goes on growing");
    assert!(after <= before * 7 / 4, "{before} grew to {after}");
}

#[test]
fn at_most_32_bytes_a_timer() {
    let mut wheel = Wheel::new(1_760_000_000_000);
    let timers = 1_000_000;
    for item in 0..timers {
        wheel.insert(1_760_000_000_000 + item * 2_654_435_761 % 1_800_000, item);
    }
    let bytes = wheel.memory_bytes() as f64 / timers as f64;
    assert!(bytes <= 32.0, "{bytes}");
}

#[test]
fn bounded_under_churn_of_far_timers() {
    check_bounded(3_000_000, |wheel, handle, round| {
        wheel.cancel(*handle).expect("armed");
        *handle = wheel.insert(FAR_MS + round * 31_337 % 1_000_000_007, round);
    });
}

#[test]
fn bounded_under_churn_into_one_far_slot() {
    check_bounded(3_000_000, |wheel, handle, round| {
        wheel.cancel(*handle).expect("armed");
        *handle = wheel.insert(FAR_MS, round);
    });
}

#[test]
fn bounded_under_churn_of_near_timers_without_a_tick() {
    check_bounded(3_000_000, |wheel, handle, round| {
        wheel.cancel(*handle).expect("armed");
        *handle = wheel.insert(round % 2_000, round);
    });
}

#[test]
fn bounded_under_moving_to_and_fro() {
    check_bounded(3_000_000, |wheel, handle, round| {
        assert!(wheel.reschedule(*handle, if round % 3 == 0 { FAR_MS } else { FAR_MS >> (round % 40) }));
    });
}

#[test]
fn moving_later_leaves_nothing_behind() {
    let (mut wheel, handles) = filled(10_000);
    let before = wheel.memory_bytes();
    for by_ms in 0..100 {
        for (item, handle) in (0..).zip(&handles) {
            assert!(wheel.reschedule(*handle, FAR_MS + item * 977 + by_ms * 1_000_000));
        }
    }
    assert_eq!(wheel.memory_bytes(), before);
}

#[test]
fn cancelling_nearly_all_gives_the_leftovers_back_to_later_timers() {
    let (mut wheel, handles) = filled(200_000);
    let before = wheel.memory_bytes();
    for handle in &handles[10..] {
        wheel.cancel(*handle);
    }
    for _ in 0..3 {
        let again: Vec<Handle> = (0..190_000).map(|item| wheel.insert(FAR_MS / 3 + item, item)).collect();
        again.iter().for_each(|handle| assert!(wheel.cancel(*handle).is_some()));
    }
    assert!(wheel.memory_bytes() <= before * 5 / 4, "{before} grew to {}", wheel.memory_bytes());
}
