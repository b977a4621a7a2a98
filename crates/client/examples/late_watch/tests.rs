//! The rule against the recording, and quick runs against the mock.

#[path = "../../tests/mock/mod.rs"]
mod mock;

use super::*;
use duebook_client::Timestamp;
use mock::{Mock, until};
use recording::Happening;

const DAY_MS: i64 = 86_400_000;

fn arguments(mock: &Mock, speed: f64) -> Arguments {
    let speed = speed.to_string();
    Arguments::parse_from(["late_watch", "--server", &mock.url(), "--speed", &speed])
}

/// Orders created an hour apart and promised for day 10: every fate, also at the same moment as the promise.
fn synthetic(orders: i64) -> Vec<Event> {
    let mut events = Vec::new();
    for nth in 0..orders {
        let order: Arc<str> = format!("o{nth:04}").into();
        let created = nth * DAY_MS / 24;
        let promised = created + 10 * DAY_MS;
        let mut happens = |at, happening| {
            events.push(Event { time: Timestamp::from_ms(at), order: Arc::clone(&order), happening });
        };
        happens(created, Happening::Created { promised: Timestamp::from_ms(promised) });
        match nth % 10 {
            0 => happens(promised + 5 * DAY_MS, Happening::Delivered),
            1 => {}
            2 => happens(created, Happening::Cancelled),
            3 => happens(promised, Happening::Delivered),
            4 => {
                happens(created + DAY_MS, Happening::Cancelled);
                happens(promised + DAY_MS, Happening::Delivered);
            }
            5 => happens(promised + 1, Happening::Delivered),
            _ => happens(promised - 3 * DAY_MS, Happening::Delivered),
        }
    }
    events.sort_by_key(|event| event.time);
    events
}

#[test]
fn the_rule_finds_the_late_orders_of_the_recording() {
    let path = recording::default_path();
    if !path.exists() {
        eprintln!("skipped: {} is not there (set DUEBOOK_SHARED)", path.display());
        return;
    }
    let events = recording::read(&path, usize::MAX).unwrap();
    let book = Book::of(&events);
    assert_eq!((events.len(), book.orders.len()), (40_109, 10_031));
    assert_eq!((book.late().len(), book.borderline().len()), (781, 36));
    let some = recording::read(&path, 100).unwrap();
    assert_eq!(Book::of(&some).orders.len(), 100);
}

#[test]
fn the_rule_compares_event_times() {
    let book = Book::of(&synthetic(20));
    let late: Vec<_> = book.late().into_iter().map(|order| order.to_string()).collect();
    // Late: 0 (delivered after), 1 (never), 5 (a millisecond after); not late: exactly on time, cancelled in time.
    assert_eq!(late, ["o0000", "o0001", "o0005", "o0010", "o0011", "o0015"]);
    let end = Book::of(&synthetic(20)[..20]);
    assert!(end.late().is_empty(), "a promise after the recording's end is nobody's lateness");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quick_run_reports_exactly_the_late_ones() {
    let mock = Mock::start().await;
    let events = synthetic(600);
    let report = watch(&arguments(&mock, 1_500_000.0), &events).await.unwrap();
    assert_eq!(report.seen.reported, Book::of(&events).late(), "{}", report.text());
    assert!(report.is_as_expected());
    assert_eq!(report.seen.checked + report.seen.cancelled, 600);
    assert!(report.seen.already_fired > 0 && report.seen.cancelled > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_in_the_middle_changes_nothing() {
    let mut mock = Mock::start().await;
    let events = synthetic(600);
    let late = Book::of(&events).late();
    let arguments = arguments(&mock, 1_000_000.0);
    let run = watch(&arguments, &events);
    let killer = async {
        for checks in [20, 60] {
            until("some checks have run", async || (mock.engine().count("succeeded") > checks).then_some(()))
                .await;
            mock.kill().await;
            // Away for 400 ms, which is days of the recording: promises pass and orders are delivered meanwhile.
            tokio::time::sleep(Duration::from_millis(400)).await;
            mock.restart().await;
        }
    };
    let (report, ()) = tokio::join!(run, killer);
    let report = report.unwrap();
    assert_eq!(report.seen.reported, late, "{}", report.text());
    assert_eq!(report.seen.checked + report.seen.cancelled, 600);
    assert!(
        report.seen.judged_on_cancel > 0 || report.seen.check_late_ms.last() > Some(&100),
        "the kills were not felt"
    );
}
