//! The embedded store passes the suite, and keeps its own promises about its file.

use duebook_core::clock::SettableClock;
use duebook_core::recurring::CatchUp;
use duebook_core::{
    Clock, Command, LeaseKey, NewTask, OnConflict, Priority, QueueId, QueueSettings, Reason, State, TaskId,
};
use duebook_store::sqlite::{OpenError, SCHEMA_VERSION};
use duebook_store::{
    Act, Reader, RecurringRow, SqliteConfig, SqliteStore, Store, StoreError, Target, TaskFilter, Unit, Write,
    Writer, Written,
};
use std::sync::Arc;
use tempfile::TempDir;

async fn make_store(clock: Arc<SettableClock>) -> (Arc<dyn Store>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&SqliteConfig::new(folder.path().join("duebook.db")), clock).unwrap();
    (Arc::new(store), folder)
}

duebook_store::conformance_tests!(make_store);

// What only this backend promises: its file, its lock, its limits, and what it says when they are hurt.

const START_MS: i64 = 1_800_000_000_000;

struct Place {
    config: SqliteConfig,
    clock: Arc<SettableClock>,
    _folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = SqliteConfig::new(folder.path().join("data").join("duebook.db"));
        Self { config, clock: Arc::new(SettableClock::at_ms(START_MS)), _folder: folder }
    }

    fn open(&self) -> SqliteStore {
        self.try_open().unwrap()
    }

    fn try_open(&self) -> Result<SqliteStore, OpenError> {
        SqliteStore::open(&self.config, Arc::clone(&self.clock) as Arc<dyn Clock>)
    }

    /// The error that opening must give.
    fn open_error(&self) -> OpenError {
        match self.try_open() {
            Ok(_) => panic!("it opened"),
            Err(error) => error,
        }
    }

    fn raw(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(&self.config.path).unwrap()
    }

    fn path(&self) -> String {
        self.config.path.display().to_string()
    }
}

async fn put_queue(store: &SqliteStore) -> QueueId {
    let write =
        Write::PutQueue { name: "orders".into(), settings: QueueSettings::default(), keep_existing: true };
    match store.submit(Unit::one(write)).await.unwrap().remove(0) {
        Ok(Written::Queue(row)) => row.id,
        other => panic!("{other:?}"),
    }
}

fn new_task(queue: QueueId, key: &str, payload_bytes: usize) -> Write {
    Write::Schedule(NewTask {
        queue,
        key: key.to_owned(),
        due_ms: START_MS,
        payload: Some("x".repeat(payload_bytes)),
        priority: Priority::Normal,
        retry: None,
        on_conflict: OnConflict::Keep,
        created_ms: START_MS,
        trace_id: None,
        actor: None,
    })
}

async fn schedule(
    store: &SqliteStore,
    queue: QueueId,
    key: &str,
    bytes: usize,
) -> Result<TaskId, StoreError> {
    match store.submit(Unit::one(new_task(queue, key, bytes))).await?.remove(0) {
        Ok(Written::Scheduled { id, created: true, .. }) => Ok(id),
        other => panic!("{other:?}"),
    }
}

async fn act(store: &SqliteStore, id: TaskId, command: Command) -> Result<Written, StoreError> {
    let unit = Unit::one(Write::Act(Act::own(id, command)));
    store.submit(unit).await.map(|mut results| results.remove(0).expect("not refused"))
}

/// Schedules until the store is full, and answers how many fitted.
async fn fill(store: &SqliteStore, queue: QueueId) -> usize {
    for n in 0..10_000 {
        match schedule(store, queue, &format!("fill {n}"), 4_000).await {
            Ok(_) => {}
            Err(StoreError::Full(_)) => return n,
            Err(other) => panic!("{other:?}"),
        }
    }
    panic!("it is never full");
}

#[tokio::test]
async fn a_reopened_store_has_everything_and_a_new_boot() {
    let place = Place::new();
    let store = place.open();
    assert_eq!(store.boot(), 1);
    let queue = put_queue(&store).await;
    let pending = schedule(&store, queue, "pending", 10).await.unwrap();
    let running = schedule(&store, queue, "running", 10).await.unwrap();
    let claim = Command::Claim { boot: 1, until_ms: START_MS + 1, due_by_ms: START_MS };
    act(&store, running, claim).await.unwrap();
    let picture = async |store: &SqliteStore| {
        let mut all = Vec::new();
        for id in [pending, running] {
            let task = store.task(id).await.unwrap();
            all.push((task, store.trail(id, 0, 99).await.unwrap()));
        }
        (all, store.counts().await.unwrap(), store.queues().await.unwrap(), store.epoch().to_owned())
    };
    let before = picture(&store).await;
    store.close().await;
    drop(store);

    // The clock may even have gone back: ids and trail go on after what is there.
    place.clock.advance_ms(-60_000);
    let store = place.open();
    assert_eq!(store.boot(), 2);
    assert_eq!(picture(&store).await, before);
    assert_eq!(store.running(None, 9).await.unwrap()[0].lease, LeaseKey { boot: 1, token: 2 });
    let newer = schedule(&store, queue, "newer", 10).await.unwrap();
    assert!(newer > running);
    act(&store, pending, Command::Cancel { unstarted: None }).await.unwrap();
    duebook_store::conformance::audit(&store).await;
    // Dropped without a close: what was acknowledged is there all the same.
    drop(store);
    let store = place.open();
    assert_eq!(store.boot(), 3);
    assert!(store.task(newer).await.unwrap().is_some());
    duebook_store::conformance::audit(&store).await;
}

#[tokio::test]
async fn a_store_is_open_once() {
    let place = Place::new();
    let store = place.open();
    let error = place.open_error();
    assert!(matches!(error, OpenError::Locked { .. }), "{error:?}");
    let message = error.to_string();
    assert!(message.contains(&format!("{}.lock", place.path())), "{message}");
    assert!(message.contains(&format!("(pid {})", std::process::id())), "{message}");
    // Not for lack of trying is it still whole.
    let queue = put_queue(&store).await;
    schedule(&store, queue, "a", 1).await.unwrap();
    store.close().await;
    assert_eq!(place.open().boot(), 2, "the refused one did not count");
}

const OPENED_BY_ANOTHER_PROCESS: &str = "DUEBOOK_TEST_OPENED_BY_ANOTHER_PROCESS";

/// Not a test by itself: what the other process of the next test does.
#[test]
#[ignore = "started by a_store_is_open_in_one_process"]
fn open_in_another_process() {
    let path = std::env::var(OPENED_BY_ANOTHER_PROCESS).unwrap();
    match SqliteStore::open(&SqliteConfig::new(path), Arc::new(SettableClock::at_ms(START_MS))) {
        Ok(store) => println!("opened, boot {}", store.boot()),
        Err(error) => println!("refused: {error}"),
    }
}

#[tokio::test]
async fn a_store_is_open_in_one_process() {
    let place = Place::new();
    let elsewhere = || {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["open_in_another_process", "--exact", "--ignored", "--nocapture"])
            .env(OPENED_BY_ANOTHER_PROCESS, &place.config.path)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let store = place.open();
    let said = elsewhere();
    assert!(said.contains(&format!("refused: {}.lock is in use", place.path())), "{said}");
    assert!(said.contains(&format!("(pid {})", std::process::id())), "{said}");
    store.close().await;
    let said = elsewhere();
    assert!(said.contains("opened, boot 2"), "{said}");
}

#[test]
fn a_newer_schema_is_left_alone() {
    let place = Place::new();
    drop(place.open());
    place.raw().execute_batch("PRAGMA user_version = 99").unwrap();
    let error = place.open_error();
    assert!(matches!(error, OpenError::Newer { found: 99, known: SCHEMA_VERSION, .. }), "{error:?}");
    assert!(error.to_string().contains(&place.path()), "{error}");
    let boot: String =
        place.raw().query_row("SELECT value FROM meta WHERE name = 'boot'", [], |row| row.get(0)).unwrap();
    assert_eq!(boot, "1", "not even a boot was written");
    place.raw().execute_batch(&format!("PRAGMA user_version = {SCHEMA_VERSION}")).unwrap();
    assert_eq!(place.open().boot(), 2);
}

#[test]
fn a_file_that_is_no_database_is_called_so() {
    for garbage in [&b"x"[..], &b"not a database, but a text\n".repeat(400), &[0u8; 20_000], &[0xff; 20_000]]
    {
        let place = Place::new();
        std::fs::create_dir_all(place.config.path.parent().unwrap()).unwrap();
        std::fs::write(&place.config.path, garbage).unwrap();
        let Err(error) = place.try_open() else { panic!("{:?} opened", &garbage[..1]) };
        assert!(matches!(error, OpenError::Corrupt { .. }), "{error:?}");
        assert!(error.to_string().contains(&place.path()), "{error}");
        assert_eq!(std::fs::read(&place.config.path).unwrap(), garbage, "it is not touched");
    }
}

#[test]
fn the_database_of_another_program_is_left_alone() {
    let place = Place::new();
    std::fs::create_dir_all(place.config.path.parent().unwrap()).unwrap();
    place.raw().execute_batch("CREATE TABLE theirs (x)").unwrap();
    let error = place.open_error();
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error:?}");
    let tables: u32 =
        place.raw().query_row("SELECT COUNT(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
    assert_eq!(tables, 1);
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_an_error() {
    let mut place = Place::new();
    let file = place._folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    place.config.path = file.join("duebook.db");
    assert!(matches!(place.open_error(), OpenError::Io { .. }));
}

#[tokio::test]
async fn a_damaged_file_is_called_so() {
    const PAGE: usize = 4096;
    let mut found_while = [0; 3];
    // One page after the other, so that each table and index has its turn.
    for turn in 0..24 {
        let place = Place::new();
        let store = place.open();
        let queue = put_queue(&store).await;
        let writes = (0..60).map(|n| new_task(queue, &format!("k{n}"), 500)).collect();
        store.submit(Unit::each(writes)).await.unwrap();
        store.close().await;
        drop(store);
        // All of it is in the file, none in the log beside it.
        place.raw().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        let mut bytes = std::fs::read(&place.config.path).unwrap();
        let page = 1 + turn % (bytes.len() / PAGE - 1);
        bytes[page * PAGE..(page + 1) * PAGE].fill(0xa5);
        std::fs::write(&place.config.path, bytes).unwrap();

        let store = match place.try_open() {
            Ok(store) => store,
            Err(OpenError::Corrupt { .. }) => {
                found_while[0] += 1;
                continue;
            }
            Err(other) => panic!("page {page}: {other:?}"),
        };
        let mut check = |kind: usize, error: Option<StoreError>| match error {
            None => {}
            Some(StoreError::Corrupt(_)) => found_while[kind] += 1,
            Some(other) => panic!("page {page}: {other:?}"),
        };
        let filter = TaskFilter { queue: Some(queue), limit: 99, ..TaskFilter::default() };
        check(1, store.list(filter).await.err());
        check(1, store.due_page(queue, None, i64::MAX, 99).await.err());
        check(1, store.counts().await.err());
        check(1, store.queues().await.err());
        check(1, store.find(queue, "k3").await.err());
        for row in store.walk(TaskId::from_i64(0), TaskId::from_i64(i64::MAX), 99).await.unwrap_or_default() {
            check(1, store.task(row.id).await.err());
            check(1, store.trail(row.id, 0, 9).await.err());
        }
        check(2, schedule(&store, queue, "one more", 500).await.err());
        let cancel = |n: usize| {
            Write::Act(Act {
                target: Target::Key(queue, format!("k{n}")),
                ..Act::own(TaskId::from_i64(0), Command::Cancel { unstarted: None })
            })
        };
        check(2, store.submit(Unit::each((0..60).map(cancel).collect())).await.err());
    }
    assert!(found_while.iter().all(|found| *found > 0), "while opening, reading, writing: {found_while:?}");
}

#[tokio::test]
async fn a_full_store_refuses_writes_and_answers_reads() {
    let mut place = Place::new();
    place.config.size_max_bytes = Some(1 << 20);
    let store = place.open();
    let queue = put_queue(&store).await;
    let fitted = fill(&store, queue).await;
    assert!(fitted > 50, "{fitted}");
    for _ in 0..3 {
        let more = schedule(&store, queue, "more", 60_000).await;
        assert!(matches!(more, Err(StoreError::Full(_))), "{more:?}");
    }
    let counted = store.counts().await.unwrap();
    assert_eq!(counted, [(queue, State::Pending, fitted as u64)]);
    let size = std::fs::metadata(&place.config.path).unwrap().len();
    assert!(size <= 1 << 20, "{size}");
    duebook_store::conformance::audit(&store).await;
    store.close().await;
    drop(store);

    place.config.size_max_bytes = Some(2 << 20);
    let store = place.open();
    schedule(&store, queue, "more", 60_000).await.unwrap();
    duebook_store::conformance::audit(&store).await;
}

#[tokio::test]
async fn a_purge_makes_room_in_a_full_store() {
    let mut place = Place::new();
    place.config.size_max_bytes = Some(1 << 20);
    let store = place.open();
    let queue = put_queue(&store).await;
    let mut ended = Vec::new();
    for n in 0..20 {
        let id = schedule(&store, queue, &format!("ended {n}"), 4_000).await.unwrap();
        act(&store, id, Command::Cancel { unstarted: None }).await.unwrap();
        ended.push(id);
    }
    fill(&store, queue).await;
    // What needs no room goes on, even in the company of what needs more than there will be.
    let large = (0..5).map(|n| new_task(queue, &format!("large {n}"), 60_000)).collect();
    let (_, large, purged) = tokio::join!(
        store.submit(Unit::each(Vec::new())),
        store.submit(Unit::each(large)),
        store.submit(Unit::one(Write::Purge(ended)))
    );
    assert!(matches!(large, Err(StoreError::Full(_))), "{large:?}");
    assert!(matches!(purged.unwrap()[0], Ok(Written::Count(20))));
    for n in 0..10 {
        schedule(&store, queue, &format!("after {n}"), 4_000).await.unwrap();
    }
    duebook_store::conformance::audit(&store).await;
}

#[tokio::test]
async fn a_unit_that_breaks_a_constraint_fails_alone() {
    let place = Place::new();
    let store = place.open();
    let queue = put_queue(&store).await;
    // Neither a cron expression nor an interval: the table refuses it.
    let bad = Write::PutRecurring(RecurringRow {
        name: "never".into(),
        queue,
        cron: None,
        timezone: None,
        every_ms: None,
        anchor_ms: 0,
        payload: None,
        catch_up: CatchUp::One,
        next_ms: None,
        updated_ms: 0,
    });
    let units = (0..30).map(|n| {
        let mut writes = vec![new_task(queue, &format!("k{n}"), 10)];
        if n % 10 == 5 {
            writes.push(bad.clone());
        }
        store.submit(Unit::each(writes))
    });
    for (n, reply) in futures_util::future::join_all(units).await.into_iter().enumerate() {
        assert_eq!(reply.is_err(), n % 10 == 5, "{n}: {reply:?}");
        let found = store.find(queue, &format!("k{n}")).await.unwrap();
        assert_eq!(found.is_some(), n % 10 != 5, "{n}");
    }
    assert_eq!(store.recurring().await.unwrap(), []);
    duebook_store::conformance::audit(&store).await;
}

/// The `CHECK`s have the edges of the rules, no more and no fewer.
#[tokio::test]
async fn the_tables_refuse_illegal_transitions() {
    let place = Place::new();
    let store = place.open();
    let queue = put_queue(&store).await;
    let id = schedule(&store, queue, "a", 10).await.unwrap().as_i64();
    store.close().await;
    let raw = place.raw();
    let froms = State::ALL.map(Some).into_iter().chain([None]);
    for (from, to) in froms.flat_map(|from| State::ALL.map(|to| (from, to))) {
        let allowed = Reason::all().iter().any(|reason| reason.allows(from, to));
        let written = raw.execute(
            "UPDATE trail SET from_state = ?2, to_state = ?3 WHERE task = ?1",
            rusqlite::params![id, from.map(State::code), to.code()],
        );
        assert_eq!(written.is_ok(), allowed, "{from:?} to {to:?}: {written:?}");
    }
    for illegal in [
        "UPDATE trail SET to_state = 5, from_state = 0",
        "UPDATE trail SET prev = id",
        "UPDATE trail SET seq = 2",
        "UPDATE tasks SET state = 1",
        "UPDATE tasks SET state = 1, token = 2, until_ms = 3",
        "UPDATE tasks SET state = 2",
        "UPDATE tasks SET finished_ms = 1",
        "UPDATE tasks SET state = 5, finished_ms = 1",
        "UPDATE tasks SET state = -1",
        "UPDATE tasks SET token = 2, until_ms = 3, boot = 1",
        "UPDATE tasks SET cancel_requested = 1",
        "UPDATE tasks SET attempt = -1",
        "UPDATE tasks SET seq = 0",
        "UPDATE tasks SET state = 2, finished_ms = 1, token = 2, until_ms = 3, boot = 1",
        "UPDATE counts SET n = -1",
    ] {
        assert!(raw.execute_batch(illegal).is_err(), "{illegal}");
    }
    for legal in [
        "UPDATE tasks SET state = 1, token = 2, until_ms = 3, boot = 1",
        "UPDATE tasks SET state = 2, finished_ms = 1, token = NULL, until_ms = NULL, boot = NULL",
    ] {
        raw.execute_batch(legal).unwrap();
    }
}

/// The trail has no index by task, so what a purge forgets would stay for ever, unseen.
#[tokio::test]
async fn a_purge_leaves_no_entry_of_the_trail_behind() {
    let place = Place::new();
    let store = place.open();
    let queue = put_queue(&store).await;
    let (kept, purged) =
        (schedule(&store, queue, "a", 1).await.unwrap(), schedule(&store, queue, "b", 1).await.unwrap());
    for id in [kept, purged] {
        act(&store, id, Command::RunNow).await.unwrap();
        act(&store, id, Command::Cancel { unstarted: None }).await.unwrap();
    }
    store.submit(Unit::one(Write::Purge(vec![purged]))).await.unwrap();
    let of = "SELECT COUNT(*), COUNT(*) FILTER (WHERE task = ?1) FROM trail";
    let entries: (u32, u32) =
        place.raw().query_row(of, [kept.as_i64()], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(entries, (3, 3));
}

#[tokio::test]
async fn a_read_that_nobody_waits_for_takes_nothing_from_the_next() {
    let mut place = Place::new();
    place.config.readers = 1;
    let store = place.open();
    let queue = put_queue(&store).await;
    let writes = (0..2_000).map(|n| new_task(queue, &format!("k{n}"), 200)).collect();
    store.submit(Unit::each(writes)).await.unwrap();
    for _ in 0..20 {
        let mut long = store.list(TaskFilter { limit: usize::MAX, ..TaskFilter::default() });
        // It has begun; on a busy machine it may even have ended.
        let _ = futures_util::poll!(&mut long);
        drop(long);
        store.check().await.unwrap();
    }
}

#[tokio::test]
async fn the_observer_hears_of_commits() {
    let place = Place::new();
    let store = place.open();
    let (report_to, reports) = std::sync::mpsc::channel();
    store.set_commit_observer(Box::new(move |report| {
        let _ = report_to.send((report.units, report.writes, report.ok));
    }));
    let queue = put_queue(&store).await;
    let writes = vec![new_task(queue, "a", 1), new_task(queue, "b", 1)];
    store.submit(Unit::each(writes)).await.unwrap();
    assert_eq!(reports.try_iter().collect::<Vec<_>>(), [(1, 1, true), (1, 2, true)]);
    assert!(store.size_bytes().await.unwrap() > 0);
}
