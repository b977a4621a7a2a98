//! Tables and properties for recurring schedules.

use super::*;
use jiff::Timestamp;
use proptest::prelude::*;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const NOW: i64 = 1_700_000_000_000;

fn ms(text: &str) -> i64 {
    text.parse::<Timestamp>().unwrap().as_millisecond()
}

/// The occurrences after `after` must be `expected`; all written in UTC.
fn check(expression: &str, timezone: &str, after: &str, expected: &[&str]) {
    let every = Every::cron(expression, timezone).unwrap();
    let got: Vec<String> = every
        .next_n(ms(after), expected.len())
        .into_iter()
        .map(|at_ms| Timestamp::from_millisecond(at_ms).unwrap().to_string())
        .collect();
    assert_eq!(got, expected, "{expression} in {timezone} after {after}");
}

#[test]
fn five_and_six_fields_and_nicknames() {
    let after = "2024-02-28T23:59:59.999Z";
    check("* * * * *", "UTC", after, &["2024-02-29T00:00:00Z", "2024-02-29T00:01:00Z"]);
    check("*/20 * * * * *", "UTC", after, &["2024-02-29T00:00:00Z", "2024-02-29T00:00:20Z"]);
    check("0 9 * * MON-FRI", "Asia/Shanghai", after, &["2024-02-29T01:00:00Z", "2024-03-01T01:00:00Z"]);
    check("0 0 L * *", "UTC", after, &["2024-02-29T00:00:00Z", "2024-03-31T00:00:00Z"]);
    check("0 0 29 2 *", "UTC", "2024-02-29T00:00:00Z", &["2028-02-29T00:00:00Z"]);
    check("30 3 13 * FRI", "UTC", after, &["2024-03-01T03:30:00Z", "2024-03-08T03:30:00Z"]);
    check("@daily", "Asia/Kolkata", after, &["2024-02-29T18:30:00Z"]);
    check("@hourly", "Asia/Kolkata", after, &["2024-02-29T00:30:00Z"]);
}

#[test]
fn strictly_after_to_the_millisecond() {
    check("* * * * * *", "UTC", "2024-01-01T00:00:00Z", &["2024-01-01T00:00:01Z"]);
    check("* * * * * *", "UTC", "2024-01-01T00:00:00.001Z", &["2024-01-01T00:00:01Z"]);
    check("0 0 * * *", "UTC", "2024-01-01T00:00:00Z", &["2024-01-02T00:00:00Z"]);
    check("0 0 * * *", "UTC", "2023-12-31T23:59:59.999Z", &["2024-01-01T00:00:00Z"]);
}

#[test]
fn a_wall_clock_time_in_a_gap_moves_forward() {
    // New York, 2024-03-10: 02:00 EST → 03:00 EDT at 07:00Z.
    let before = "2024-03-10T05:30:00Z";
    check("30 2 * * *", "America/New_York", before, &["2024-03-10T07:00:00Z", "2024-03-11T06:30:00Z"]);
    check(
        "0,30 2,3 * * *",
        "America/New_York",
        before,
        &["2024-03-10T07:00:00Z", "2024-03-10T07:30:00Z", "2024-03-11T06:00:00Z"],
    );
    check("*/5 2 * * *", "America/New_York", before, &["2024-03-10T07:00:00Z", "2024-03-11T06:00:00Z"]);
    // Berlin, 2024-03-31: 02:00 CET → 03:00 CEST at 01:00Z.
    check(
        "0 */2 * * *",
        "Europe/Berlin",
        "2024-03-30T23:00:00Z",
        &["2024-03-31T01:00:00Z", "2024-03-31T02:00:00Z", "2024-03-31T04:00:00Z"],
    );
    // Lord Howe, 2024-10-06: half an hour, 02:00 +10:30 → 02:30 +11 at 15:30Z the day before.
    check("15 2 * * *", "Australia/Lord_Howe", "2024-10-05T12:00:00Z", &["2024-10-05T15:30:00Z"]);
    check("45 2 * * *", "Australia/Lord_Howe", "2024-10-05T12:00:00Z", &["2024-10-05T15:45:00Z"]);
    // São Paulo, 2018-11-04: midnight itself was skipped, 00:00 -03 → 01:00 -02 at 03:00Z.
    check(
        "0 0 * * *",
        "America/Sao_Paulo",
        "2018-11-03T12:00:00Z",
        &["2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"],
    );
    // Apia skipped the whole of 2011-12-30: 10:00Z is midnight before and after.
    check(
        "0 12 30 12 *",
        "Pacific/Apia",
        "2011-12-01T00:00:00Z",
        &["2011-12-30T10:00:00Z", "2012-12-29T22:00:00Z"],
    );
}

#[test]
fn a_wall_clock_time_in_an_overlap_fires_once() {
    // New York, 2024-11-03: 02:00 EDT → 01:00 EST at 06:00Z.
    check(
        "30 1 * * *",
        "America/New_York",
        "2024-11-03T04:00:00Z",
        &["2024-11-03T05:30:00Z", "2024-11-04T06:30:00Z"],
    );
    // Asked from the first half, from the change, from the second half, and at its end.
    for after in ["05:30:00", "05:59:59.999", "06:00:00", "06:30:00", "06:59:59", "07:00:00"] {
        let after = format!("2024-11-03T{after}Z");
        check("0,30 1 * * *", "America/New_York", &after, &["2024-11-04T06:00:00Z"]);
    }
    check(
        "0,30 1,2 * * *",
        "America/New_York",
        "2024-11-03T05:00:00Z",
        &["2024-11-03T05:30:00Z", "2024-11-03T07:00:00Z", "2024-11-03T07:30:00Z"],
    );
    check("0 2 * * *", "America/New_York", "2024-11-03T06:30:00Z", &["2024-11-03T07:00:00Z"]);
    // Berlin, 2024-10-27: 03:00 CEST → 02:00 CET at 01:00Z.
    check(
        "15 2 * * *",
        "Europe/Berlin",
        "2024-10-26T12:00:00Z",
        &["2024-10-27T00:15:00Z", "2024-10-28T01:15:00Z"],
    );
    // Lord Howe, 2024-04-07: half an hour, 02:00 +11 → 01:30 +10:30 at 15:00Z the day before.
    check(
        "0,30,45 1 * * *",
        "Australia/Lord_Howe",
        "2024-04-06T14:00:00Z",
        &["2024-04-06T14:30:00Z", "2024-04-06T14:45:00Z", "2024-04-07T14:30:00Z"],
    );
}

#[test]
fn an_hourly_schedule_goes_by_elapsed_time() {
    // Across the overlap no hour is left out, and none comes early.
    check(
        "30 * * * *",
        "America/New_York",
        "2024-11-03T04:30:00Z",
        &["2024-11-03T05:30:00Z", "2024-11-03T06:30:00Z", "2024-11-03T07:30:00Z"],
    );
    check(
        "30 0-23 * * *",
        "Europe/Berlin",
        "2024-10-26T23:30:00Z",
        &["2024-10-27T00:30:00Z", "2024-10-27T01:30:00Z", "2024-10-27T02:30:00Z"],
    );
    // Across the gap neither.
    check(
        "30 * * * *",
        "America/New_York",
        "2024-03-10T05:30:00Z",
        &["2024-03-10T06:30:00Z", "2024-03-10T07:30:00Z"],
    );
    let quarter = Every::cron("*/15 * * * *", "Australia/Lord_Howe").unwrap();
    for start in ["2024-04-06T00:00:00Z", "2024-10-05T00:00:00Z"] {
        let times = quarter.next_n(ms(start), 200);
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] == 15 * MINUTE), "{start}");
    }
}

#[test]
fn what_cannot_be_used_is_named() {
    let long = format!("{} * * * *", "1,".repeat(130));
    let cases = [
        ("", "UTC", "cron"),
        ("* * * *", "UTC", "cron"),
        ("* * * * * * *", "UTC", "cron"),
        ("60 * * * *", "UTC", "cron"),
        ("0 0 30 2 *", "UTC", "cron"),
        ("@reboot", "UTC", "cron"),
        ("every day", "UTC", "cron"),
        ("＊ * * * *", "UTC", "cron"),
        (&long, "UTC", "cron"),
        ("* * * * *", "", "timezone"),
        ("* * * * *", "Mars/Olympus", "timezone"),
        ("* * * * *", "../../etc/passwd", "timezone"),
        ("* * * * *", "EST5EDT,M3.2.0,M11.1.0", "timezone"),
    ];
    for (expression, timezone, field) in cases {
        let error = Every::cron(expression, timezone).expect_err(expression);
        assert_eq!(error.field, field, "{expression} {timezone}: {error}");
    }
    for every_ms in [0, EVERY_MS_MIN - 1, EVERY_MS_MAX + 1, u64::MAX] {
        assert_eq!(Every::interval(every_ms, 0).unwrap_err().field, "every_ms");
    }
}

#[test]
fn parts_of_a_request() {
    let field =
        |cron, timezone, every_ms| Every::from_parts(cron, timezone, every_ms, 0).map_err(|e| e.field);
    assert_eq!(field(Some("0 9 * * *"), None, None), Ok(Every::cron("0 9 * * *", "UTC").unwrap()));
    assert!(field(Some("0 9 * * *"), Some("Europe/Berlin"), None).is_ok());
    assert_eq!(field(None, None, Some(1_000)), Ok(Every::interval(1_000, 0).unwrap()));
    assert_eq!(field(None, None, None), Err("cron"));
    assert_eq!(field(None, Some("UTC"), None), Err("cron"));
    assert_eq!(field(Some("0 9 * * *"), None, Some(1_000)), Err("every_ms"));
    assert_eq!(field(None, Some("UTC"), Some(1_000)), Err("timezone"));
    for catch_up in CatchUp::ALL {
        assert_eq!(CatchUp::parse(catch_up.as_str()), Some(catch_up));
        assert_eq!(serde_json::to_string(&catch_up).unwrap(), format!("{:?}", catch_up.as_str()));
    }
}

#[test]
fn intervals_keep_their_phase_and_their_bounds() {
    let every = Every::interval(1_000, 250).unwrap();
    assert_eq!(every.next_n(1_250, 3), [2_250, 3_250, 4_250]);
    assert_eq!(every.next_after(1_249), Some(1_250));
    assert_eq!(every.next_after(i64::MIN), Some(250));
    assert_eq!(every.next_after(DUE_MS_MAX), None);
    assert_eq!(every.next_after(i64::MAX), None);
    let ahead = Every::interval(EVERY_MS_MAX, i64::MAX).unwrap();
    assert!(ahead.next_after(0).is_some_and(|at_ms| at_ms > 0));
    let cron = Every::cron("0 0 1 1 *", "UTC").unwrap();
    assert_eq!(cron.next_after(i64::MIN), Some(0));
    assert_eq!(cron.next_after(i64::MAX), None);
    assert_eq!(cron.next_after(DUE_MS_MAX), None);
}

#[test]
fn catching_up() {
    use CatchUp::{All, One, Skip};
    let every = Every::interval(100, 0).unwrap();
    let minutely = Every::cron("* * * * *", "UTC").unwrap();
    let due = |fire: &[i64], next_ms, skipped, more| Due {
        fire: fire.to_vec(),
        next_ms: Some(next_ms),
        skipped,
        more,
    };
    // (schedule, next, now, policy, grace, max, expected)
    let m = MINUTE;
    let cases = [
        (&every, 1_000, 999, All, 0, 9, due(&[], 1_000, 0, false)),
        (&every, 1_000, 1_000, All, 0, 9, due(&[1_000], 1_100, 0, false)),
        (&every, 1_000, 1_250, All, 0, 9, due(&[1_000, 1_100, 1_200], 1_300, 0, false)),
        (&every, 1_000, 1_250, All, 0, 2, due(&[1_000, 1_100], 1_200, 0, true)),
        (&every, 1_000, 1_250, All, 0, 0, due(&[], 1_000, 0, true)),
        (&every, 1_000, 1_000, One, 0, 9, due(&[1_000], 1_100, 0, false)),
        (&every, 1_000, 1_250, One, 0, 9, due(&[1_200], 1_300, 2, false)),
        (&every, 1_000, 1_250, One, 0, 0, due(&[], 1_200, 2, true)),
        (&every, 1_050, 1_060, One, 0, 9, due(&[1_050], 1_100, 0, false)),
        (&every, 1_050, 1_250, One, 0, 9, due(&[1_200], 1_300, 2, false)),
        (&every, 1_000, 1_250, Skip, 100, 9, due(&[1_200], 1_300, 2, false)),
        (&every, 1_000, 1_250, Skip, 150, 9, due(&[1_100, 1_200], 1_300, 1, false)),
        (&every, 1_000, 1_250, Skip, 10, 9, due(&[], 1_300, 3, false)),
        (&every, 1_000, 1_250, Skip, i64::MAX, 1, due(&[1_000], 1_100, 0, true)),
        (&every, 1_000, 1_000, Skip, -5, 9, due(&[1_000], 1_100, 0, false)),
        (&minutely, m, 4 * m, All, 0, 2, due(&[m, 2 * m], 3 * m, 0, true)),
        (&minutely, m, 4 * m + 1, One, 0, 9, due(&[4 * m], 5 * m, 3, false)),
        (&minutely, m, 4 * m, Skip, m, 9, due(&[3 * m, 4 * m], 5 * m, 2, false)),
        (&minutely, m, 4 * m + 1, Skip, 0, 9, due(&[], 5 * m, 4, false)),
    ];
    for (schedule, next_ms, now_ms, catch_up, grace_ms, max, expected) in cases {
        let got = schedule.due_occurrences(next_ms, now_ms, catch_up, grace_ms, max);
        assert_eq!(got, expected, "{schedule:?} {next_ms} {now_ms} {catch_up:?} {grace_ms} {max}");
    }
}

#[test]
fn years_of_a_short_interval_are_skipped_at_once() {
    let every = Every::interval(100, 0).unwrap();
    let ten_years = 3_650 * DAY;
    let got = every.due_occurrences(NOW, NOW + ten_years, CatchUp::One, 0, 10);
    assert_eq!((got.fire.as_slice(), got.skipped), ([NOW + ten_years].as_slice(), (ten_years / 100) as u64));
    let got = every.due_occurrences(NOW, NOW + ten_years, CatchUp::Skip, 250, 10);
    assert_eq!((got.fire.len(), got.skipped, got.more), (3, (ten_years / 100) as u64 - 2, false));
    let got = every.due_occurrences(NOW, NOW + ten_years, CatchUp::All, 0, usize::MAX);
    assert_eq!((got.fire.len(), got.more), (STEPS_MAX, true));
}

#[test]
fn years_of_a_cron_are_skipped_in_bounded_calls_without_losing_count() {
    let every = Every::cron("* * * * *", "Europe/Berlin").unwrap();
    let days = 20;
    for (catch_up, fired) in [(CatchUp::One, 1), (CatchUp::Skip, 3)] {
        let (mut next_ms, mut skipped, mut calls) = (NOW - NOW % MINUTE, 0, 0);
        let start_ms = next_ms;
        let now_ms = start_ms + days * DAY;
        loop {
            let due = every.due_occurrences(next_ms, now_ms, catch_up, 2 * MINUTE, 10);
            (next_ms, skipped, calls) = (due.next_ms.unwrap(), skipped + due.skipped, calls + 1);
            if !due.more {
                assert_eq!(due.fire.len() as i64, fired);
                break;
            }
            assert_eq!((due.fire.len(), due.skipped), (0, STEPS_MAX as u64));
        }
        assert_eq!((calls, next_ms), (3, now_ms + MINUTE));
        assert_eq!(skipped as i64, days * 24 * 60 + 1 - fired);
    }
}

#[test]
fn a_schedule_can_end() {
    let yearly = Every::interval(EVERY_MS_MAX, DUE_MS_MAX).unwrap();
    let got = yearly.due_occurrences(DUE_MS_MAX, i64::MAX, CatchUp::All, 0, 10);
    assert_eq!(got, Due { fire: vec![DUE_MS_MAX], next_ms: None, skipped: 0, more: false });
    let got = yearly.due_occurrences(DUE_MS_MAX, i64::MAX, CatchUp::Skip, 0, 10);
    assert_eq!(got, Due { fire: vec![], next_ms: None, skipped: 1, more: false });
}

fn some_schedule() -> impl Strategy<Value = Every> {
    const ZONES: &[&str] =
        &["UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Cairo", "Asia/Kolkata"];
    let field = |max: u32| {
        prop_oneof![
            Just("*".to_owned()),
            (0..=max).prop_map(|at| at.to_string()),
            (2..=max).prop_map(|step| format!("*/{step}")),
            (0..max).prop_map(move |from| format!("{from}-{max}")),
            (0..=max, 0..=max).prop_map(|(a, b)| format!("{a},{b}")),
        ]
    };
    let cron = (field(59), field(59), field(23), prop::sample::select(ZONES), any::<bool>()).prop_map(
        |(seconds, minutes, hours, zone, weekly)| {
            let day = if weekly { "SUN" } else { "*" };
            Every::cron(&format!("{seconds} {minutes} {hours} * * {day}"), zone).unwrap()
        },
    );
    let interval = (EVERY_MS_MIN..10_000_000, any::<i64>())
        .prop_map(|(every_ms, anchor_ms)| Every::interval(every_ms, anchor_ms).unwrap());
    prop_oneof![3 => cron, 1 => interval]
}

/// Times near the changes of daylight saving in the zones above, in 2024 (UTC days).
fn some_time() -> impl Strategy<Value = i64> {
    const DAYS: &[&str] =
        &["2024-03-10", "2024-11-03", "2024-03-31", "2024-10-27", "2024-04-06", "2024-10-05", "2024-04-25"];
    let near = prop::sample::select(DAYS).prop_map(|day| ms(&format!("{day}T00:00:00Z")));
    prop_oneof![(near, -HOUR..30 * HOUR).prop_map(|(day_ms, by_ms)| day_ms + by_ms), 0..4 * NOW]
}

proptest! {
    #[test]
    fn next_after_strictly_increases_and_leaves_nothing_out(every in some_schedule(), after_ms in some_time(), part in 0.0..1.0) {
        let times = every.next_n(after_ms, 20);
        prop_assert_eq!(times.len(), 20);
        prop_assert!(times[0] > after_ms);
        prop_assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
        // Asked from anywhere in between, the answer is the same.
        for pair in times.windows(2) {
            let between_ms = pair[0] + ((pair[1] - pair[0]) as f64 * part) as i64;
            prop_assert_eq!(every.next_after(between_ms.min(pair[1] - 1)), Some(pair[1]));
        }
    }

    /// Against the plain reading: list all occurrences up to now, and fire or skip each.
    #[test]
    fn catching_up_fires_or_counts_every_occurrence(
        every in some_schedule(), after_ms in some_time(), span in 0_usize..60, late_ms in 0_i64..5_000,
        grace_ms in 0_i64..10_000_000, max in 0_usize..40, choice in 0_usize..3,
    ) {
        let times = every.next_n(after_ms, span + 2);
        let now_ms = (times[span] + late_ms).min(times[span + 1] - 1);
        let due_all = &times[..=span];
        let catch_up = CatchUp::ALL[choice];
        let first_kept = match catch_up {
            CatchUp::All => 0,
            CatchUp::One => span,
            CatchUp::Skip => due_all.iter().filter(|&&at_ms| at_ms < now_ms - grace_ms).count(),
        };
        let fired = &due_all[first_kept..(first_kept + max).min(span + 1)];
        let left = first_kept + fired.len();
        let expected = Due {
            fire: fired.to_vec(),
            next_ms: Some(times[left]),
            skipped: first_kept as u64,
            more: left <= span,
        };
        prop_assert_eq!(every.due_occurrences(times[0], now_ms, catch_up, grace_ms, max), expected);
    }

    #[test]
    fn any_text_is_survived(expression in "[0-9A-Za-z*,/#?+L@ -]{0,40}|.{0,40}", timezone in "[A-Za-z/_+-]{0,20}|.{0,20}") {
        let _ = Every::cron(&expression, &timezone);
    }

    #[test]
    fn any_number_is_survived(
        every in some_schedule(), next_ms: i64, now_ms: i64, grace_ms: i64, choice in 0_usize..3,
    ) {
        let _ = every.next_after(now_ms);
        let due = every.due_occurrences(next_ms, now_ms, CatchUp::ALL[choice], grace_ms, 3);
        prop_assert!(due.fire.len() <= 3);
        prop_assert!(due.next_ms.is_none_or(|at_ms| at_ms >= next_ms));
    }
}
