//! The ends of time, the borders of levels, clocks that jump, handles that are stale.

use duebook_wheel::{Handle, Wheel};

const YEAR_MS: u64 = 31_557_600_000;

fn fire(wheel: &mut Wheel<u64>, now_ms: u64) -> Vec<(u64, u64)> {
    fire_at_most(wheel, now_ms, usize::MAX)
}

fn fire_at_most(wheel: &mut Wheel<u64>, now_ms: u64, max: usize) -> Vec<(u64, u64)> {
    let mut fired = Vec::new();
    wheel.advance(now_ms, max, |due_ms, item| fired.push((due_ms, item)));
    fired
}

/// Arms one timer, goes to the millisecond before it and to it.
fn check_exact(start_ms: u64, due_ms: u64) {
    let mut wheel = Wheel::new(start_ms);
    wheel.insert(due_ms, 1);
    if due_ms > start_ms {
        assert_eq!(fire(&mut wheel, due_ms - 1), [], "early: {start_ms} {due_ms}");
    }
    assert_eq!(fire(&mut wheel, due_ms.max(start_ms)), [(due_ms, 1)], "late: {start_ms} {due_ms}");
    assert_eq!(wheel.next_wake_ms(), None);
}

#[test]
fn exact_at_every_border_of_levels() {
    let starts = [0, 1, 1023, 1024, 1_760_000_000_000, u64::MAX - (1 << 40), u64::MAX - 2048, u64::MAX];
    for start_ms in starts {
        for shift in 0..64 {
            for nudge in -1..=1 {
                check_exact(start_ms, start_ms.saturating_add(1 << shift).saturating_add_signed(nudge));
                check_exact(start_ms, (1u64 << shift).saturating_add_signed(nudge));
                check_exact(start_ms, ((start_ms >> shift) << shift).saturating_add_signed(nudge));
            }
        }
        check_exact(start_ms, 0);
        check_exact(start_ms, u64::MAX);
    }
}

#[test]
fn exact_when_every_tick_around_a_border_is_called() {
    for border in [1 << 10, 1 << 11, 1 << 20, 1 << 21, 1 << 30, 1 << 60, (1 << 60) + (1 << 20)] {
        let start_ms = u64::saturating_sub(border, 3000);
        let mut wheel = Wheel::new(start_ms);
        for due_ms in start_ms..border + 3000 {
            wheel.insert(due_ms, due_ms);
        }
        for now_ms in start_ms..border + 3000 {
            assert_eq!(fire(&mut wheel, now_ms), [(now_ms, now_ms)]);
        }
    }
}

#[test]
fn jumps_of_hours_and_centuries_fire_all_in_order() {
    let mut wheel = Wheel::new(1_000);
    let mut expected = Vec::new();
    for nth in 0..5_000u64 {
        let due_ms = 1_000 + nth * nth * nth * 25;
        wheel.insert(due_ms, nth);
        expected.push((due_ms, nth));
    }
    let (hours, centuries): (Vec<_>, Vec<_>) = expected.iter().partition(|(due_ms, _)| *due_ms <= 7_200_000);
    assert_eq!(fire(&mut wheel, 7_200_000), hours);
    assert_eq!(fire(&mut wheel, 300 * YEAR_MS), centuries);
    // Beside the work, the jump itself is cheap: nothing was walked tick by tick.
    wheel.insert(u64::MAX, 1);
    assert_eq!(fire(&mut wheel, u64::MAX), [(u64::MAX, 1)]);
    assert!(wheel.moved_last_advance() <= 7);
}

#[test]
fn the_past_fires_at_the_next_call_in_order() {
    let mut wheel = Wheel::new(10_000);
    for due_ms in [10_000, 7, 0, 9_999, 7_000] {
        wheel.insert(due_ms, due_ms);
    }
    assert_eq!(wheel.next_wake_ms(), Some(0));
    let dues: Vec<u64> = fire(&mut wheel, 10_000).iter().map(|fired| fired.0).collect();
    assert_eq!(dues, [0, 7, 7_000, 9_999, 10_000]);
}

#[test]
fn max_leaves_the_rest_due() {
    let mut wheel = Wheel::new(0);
    for item in 0..10 {
        wheel.insert(5 + item / 5, item);
    }
    assert_eq!(fire_at_most(&mut wheel, 100, 0), []);
    assert_eq!(fire_at_most(&mut wheel, 100, 3).len(), 3);
    assert_eq!(wheel.next_wake_ms(), Some(5));
    wheel.insert(2, 77);
    assert_eq!(fire_at_most(&mut wheel, 100, 1), [(2, 77)]);
    let rest = fire_at_most(&mut wheel, 100, 100);
    assert_eq!(rest.iter().map(|fired| fired.0).collect::<Vec<_>>(), [5, 5, 6, 6, 6, 6, 6]);
}

#[test]
fn a_clock_set_back_fires_nothing_early_and_nothing_again() {
    let mut wheel = Wheel::new(100_000);
    wheel.insert(100_500, 1);
    wheel.insert(150_000, 2);
    assert_eq!(fire(&mut wheel, 101_000), [(100_500, 1)]);
    assert_eq!(fire(&mut wheel, 50_000), []);
    wheel.insert(50_010, 3);
    wheel.insert(100_999, 4);
    wheel.insert(101_001, 5);
    assert_eq!(wheel.next_wake_ms(), Some(50_010));
    assert_eq!(fire(&mut wheel, 50_009), []);
    assert_eq!(fire(&mut wheel, 50_010), [(50_010, 3)]);
    assert_eq!(fire(&mut wheel, 49_000), []);
    assert_eq!(fire(&mut wheel, 100_998), []);
    assert_eq!(fire(&mut wheel, 100_999), [(100_999, 4)]);
    assert_eq!(fire(&mut wheel, 150_000), [(101_001, 5), (150_000, 2)]);
    assert_eq!(fire(&mut wheel, 0), []);
    assert!(wheel.is_empty());
}

#[test]
fn a_large_backlog_of_the_past_is_cancelled_moved_and_fired_in_order() {
    let mut wheel = Wheel::new(1 << 40);
    let due_ms = |nth: u64| (nth * 7_919) % 10_007 * 100;
    let handles: Vec<Handle> = (0..10_007).map(|nth| wheel.insert(due_ms(nth), nth)).collect();
    for (nth, handle) in (0..).zip(&handles) {
        match nth % 4 {
            0 => assert_eq!(wheel.cancel(*handle), Some(nth)),
            1 => assert!(wheel.reschedule(*handle, due_ms(nth) + 50)),
            2 => assert!(wheel.reschedule(*handle, (1 << 40) + nth)),
            _ => {}
        }
    }
    let fired = fire(&mut wheel, 1 << 41);
    assert!(fired.is_sorted_by_key(|fired| fired.0));
    assert_eq!(fired.len(), handles.len() - handles.len().div_ceil(4));
    assert!(fired.iter().all(|(_, nth)| nth % 4 != 0));
}

#[test]
fn a_stale_handle_never_touches_the_timer_that_took_its_place() {
    let mut wheel = Wheel::new(0);
    let mut stale = Vec::new();
    for round in 0..1_000 {
        let handle = wheel.insert(10 + round, round);
        if round % 2 == 0 {
            assert_eq!(wheel.cancel(handle), Some(round));
        } else {
            assert_eq!(fire(&mut wheel, 10 + round), [(10 + round, round)]);
        }
        stale.push(handle);
    }
    let kept = wheel.insert(5_000, 42);
    for handle in stale {
        assert_ne!(handle, kept);
        assert_eq!((wheel.get(handle), wheel.cancel(handle)), (None, None));
        assert!(!wheel.reschedule(handle, 1));
    }
    assert_eq!(wheel.get(kept), Some((5_000, 42)));
    assert_eq!(wheel.len(), 1);
}

#[test]
fn a_handle_of_another_wheel_is_refused_or_stale_but_never_a_panic() {
    let mut other = Wheel::new(0);
    let handles: Vec<Handle> = (0..100_000).map(|item| other.insert(5, item)).collect();
    let mut wheel = Wheel::<u64>::new(0);
    assert_eq!(wheel.cancel(handles[99_999]), None);
    assert_eq!(wheel.get(handles[0]), None);
}

#[test]
fn clear_forgets_all_and_leaves_the_handles_stale() {
    let mut wheel = Wheel::new(1_000);
    let handles: Vec<Handle> =
        [5, 1_000, 2_000, 90_000_000, u64::MAX].map(|due_ms| wheel.insert(due_ms, 1)).into();
    wheel.clear();
    assert!(wheel.is_empty());
    wheel.insert(3_000, 2);
    assert!(handles.iter().all(|handle| wheel.get(*handle).is_none()));
    assert_eq!(fire(&mut wheel, u64::MAX), [(3_000, 2)]);
}

#[test]
fn a_panic_in_fire_loses_that_timer_only() {
    let mut wheel = Wheel::new(0);
    for item in 0..100 {
        wheel.insert(7, item);
    }
    let mut seen = 0;
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        wheel.advance(7, usize::MAX, |_, _| {
            seen += 1;
            assert!(seen < 50, "meant to panic");
        })
    }));
    assert!(outcome.is_err());
    assert_eq!((wheel.len(), fire(&mut wheel, 7).len()), (50, 50));
}
