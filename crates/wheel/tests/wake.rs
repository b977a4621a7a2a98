//! `next_wake_ms`: never late, and never a reason to spin.

use duebook_wheel::Wheel;

/// Follows `next_wake_ms` until the wheel is empty; returns the wake-ups, and checks that each timer fires at its
/// millisecond.
fn follow(wheel: &mut Wheel<u64>, start_ms: u64) -> usize {
    let (mut wakes, mut now_ms) = (0, start_ms);
    while let Some(wake_ms) = wheel.next_wake_ms() {
        assert!(wake_ms > now_ms || wakes == 0);
        now_ms = wake_ms;
        wakes += 1;
        wheel.advance(now_ms, usize::MAX, |due_ms, _| assert_eq!(due_ms, now_ms));
    }
    wakes
}

#[test]
fn a_lone_far_timer_needs_at_most_one_wake_per_level() {
    for shift in 0..64 {
        for start_ms in [0, 1_760_000_000_123] {
            let mut wheel = Wheel::new(start_ms);
            wheel.insert(start_ms + (1 << shift) + 12_345 % (1 << shift), 1);
            let wakes = follow(&mut wheel, start_ms);
            assert!(wakes <= 7, "{wakes} wakes for 2^{shift} ms");
        }
    }
}

#[test]
fn followed_exactly_every_timer_fires_on_its_millisecond() {
    let mut wheel = Wheel::new(1_000);
    let count = 50_000u64;
    for item in 0..count {
        wheel.insert(1_000 + item * 2_654_435_761 % 7_200_000, item);
    }
    let wakes = follow(&mut wheel, 1_000) as u64;
    assert!(wakes <= count + 2 * count / 32 + 7_200, "{wakes} wakes for {count} timers");
}

#[test]
fn a_crowd_in_one_far_slot_comes_down_in_batches() {
    let mut wheel = Wheel::new(0);
    let due_ms = 40_000_000;
    for item in 0..100_000 {
        wheel.insert(due_ms, item);
    }
    let (mut wakes, mut most) = (0, 0);
    while let Some(wake_ms) = wheel.next_wake_ms() {
        wakes += 1;
        let fired = wheel.advance(wake_ms, usize::MAX, |_, _| ());
        assert_eq!(fired > 0, wake_ms == due_ms);
        most = most.max(wheel.moved_last_advance());
    }
    assert!(most <= 200, "{most} moved at one wake");
    assert!(wakes <= 3 * 100_000 / 32, "{wakes}");
}

#[test]
fn cancelled_timers_do_not_keep_an_owner_awake() {
    let mut wheel = Wheel::new(0);
    let keeper = wheel.insert(u64::MAX, 0);
    for item in 0..1_000 {
        let handle = wheel.insert(item * 1_000, item);
        wheel.cancel(handle);
    }
    assert!(follow_until(&mut wheel, 2_000_000) <= 1_010);
    assert!(follow_until(&mut wheel, 4_000_000) <= 7);
    wheel.cancel(keeper);
    assert_eq!(wheel.next_wake_ms(), None);
}

fn follow_until(wheel: &mut Wheel<u64>, end_ms: u64) -> usize {
    let mut wakes = 0;
    while let Some(wake_ms) = wheel.next_wake_ms().filter(|wake_ms| *wake_ms < end_ms) {
        wakes += 1;
        assert_eq!(wheel.advance(wake_ms, usize::MAX, |_, _| ()), 0);
    }
    wakes
}
