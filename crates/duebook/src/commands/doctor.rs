//! `duebook doctor`: looks at everything that a server needs, and says what to do about each finding.

use crate::exit::{Failure, Outcome};
use crate::output;
use crate::settings::Settings;
use duebook_core::{Clock, SystemClock};
use duebook_server::Stamp;
use duebook_store::sqlite::{OpenError, SCHEMA_VERSION};
use duebook_store::{Reader, SqliteStore, Writer};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Commits below this many bytes of free disk are likely to fail soon.
const FREE_BYTES_MIN: u64 = 512 * 1024 * 1024;
/// An fsync that takes longer than this bounds every acknowledgement.
const FSYNC_SLOW_US: i64 = 20_000;
const FSYNC_TRIES: usize = 20;
/// 2025-01-01: no sane clock shows an earlier time.
const EARLIEST_MS: i64 = 1_735_689_600_000;
const LATEST_MS: i64 = 4_102_444_800_000;

/// `duebook doctor`
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    settings: Settings,
}

/// Prints findings, and remembers whether there were any.
#[derive(Default)]
struct Report {
    findings: usize,
}

impl Report {
    fn fine(&self, what: &str, words: &str) {
        output::line(&format!("ok       {what:<8} {words}"));
    }

    fn finding(&mut self, what: &str, words: &str) {
        self.findings += 1;
        output::line(&format!("finding  {what:<8} {words}"));
    }
}

pub(super) async fn run(args: Args) -> Outcome {
    let mut report = Report::default();
    let Some((settings, database)) = check_config(&mut report, args.settings) else {
        return Err(Failure::Findings);
    };
    let folder = match database.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    };
    if check_folder(&mut report, &folder) {
        check_space(&mut report, &folder);
        check_fsync(&mut report, &folder);
        check_store(&mut report, &settings, &database).await;
    }
    check_clock(&mut report);
    if report.findings == 0 { Ok(()) } else { Err(Failure::Findings) }
}

fn words(failure: &Failure) -> String {
    match failure {
        Failure::Usage(words) => words.replace('\n', " "),
        Failure::Failed(error) => format!("{error:#}"),
        Failure::Findings => String::new(),
    }
}

fn check_config(report: &mut Report, settings: Settings) -> Option<(Settings, PathBuf)> {
    let checked = settings.with_file().and_then(|settings| {
        settings.check_version()?;
        settings.engine()?;
        let database = settings.database()?;
        Ok((settings, database))
    });
    match checked {
        Ok((settings, database)) => {
            let listen = settings.server().listen;
            report.fine("config", &format!("listen {listen}, store {}", database.display()));
            Some((settings, database))
        }
        Err(failure) => {
            report.finding("config", &format!("{}: correct this setting", words(&failure)));
            None
        }
    }
}

fn check_folder(report: &mut Report, folder: &Path) -> bool {
    let tried = std::fs::create_dir_all(folder).and_then(|()| {
        let probe = folder.join(format!(".doctor-{}", std::process::id()));
        let written = std::fs::write(&probe, b"x");
        let _ = std::fs::remove_file(&probe);
        written
    });
    match tried {
        Ok(()) => report.fine("data", &format!("{} can be written", folder.display())),
        Err(error) => report.finding(
            "data",
            &format!(
                "{} cannot be written ({error}): give this user the right, or choose another --data",
                folder.display()
            ),
        ),
    }
    report.findings == 0
}

fn check_space(report: &mut Report, folder: &Path) {
    // `df` knows; the standard library does not.
    let output = std::process::Command::new("df").args(["-Pk"]).arg(folder).output();
    let free = output.ok().and_then(|output| {
        let text = String::from_utf8(output.stdout).ok()?;
        text.lines().nth(1)?.split_whitespace().nth(3)?.parse::<u64>().ok()
    });
    match free.map(|kib| kib * 1024) {
        Some(bytes) if bytes < FREE_BYTES_MIN => report.finding(
            "disk",
            &format!(
                "{} MB are free: free some space before writes answer 503 store_full",
                bytes / 1_000_000
            ),
        ),
        Some(bytes) => report.fine("disk", &format!("{} MB are free", bytes / 1_000_000)),
        None => report.fine("disk", "free space is not known (no df)"),
    }
}

fn check_fsync(report: &mut Report, folder: &Path) {
    let path = folder.join(format!(".doctor-fsync-{}", std::process::id()));
    let measured = measure_fsync(&path);
    let _ = std::fs::remove_file(&path);
    match measured {
        Ok(median_us) if median_us > FSYNC_SLOW_US => report.finding(
            "fsync",
            &format!(
                "takes {} µs (median of {FSYNC_TRIES}): every acknowledgement waits for one; use a faster disk, and none \
                 over a network",
                median_us
            ),
        ),
        Ok(median_us) => report.fine("fsync", &format!("takes {median_us} µs (median of {FSYNC_TRIES})")),
        Err(error) => report.finding("fsync", &format!("fails ({error}): this disk cannot keep promises")),
    }
}

fn measure_fsync(path: &Path) -> std::io::Result<i64> {
    let mut file = std::fs::File::create(path)?;
    let mut took_us = Vec::with_capacity(FSYNC_TRIES);
    for _ in 0..FSYNC_TRIES {
        file.write_all(&[7; 4096])?;
        let start_us = SystemClock.now_us();
        file.sync_data()?;
        took_us.push(SystemClock.now_us() - start_us);
    }
    took_us.sort_unstable();
    Ok(took_us[FSYNC_TRIES / 2])
}

async fn check_store(report: &mut Report, settings: &Settings, database: &Path) {
    if !database.exists() {
        report.fine("store", &format!("{} does not exist yet: `duebook serve` makes it", database.display()));
        return;
    }
    let opened = settings.sqlite().map(|config| SqliteStore::open(&config, Arc::new(SystemClock)));
    let store = match opened {
        Ok(Ok(store)) => store,
        Ok(Err(OpenError::Locked { holder, .. })) => {
            report.fine("store", &format!("{} is in use{holder}: a server runs on it", database.display()));
            return;
        }
        Ok(Err(error)) => return report.finding("store", &error.to_string()),
        Err(failure) => return report.finding("store", &words(&failure)),
    };
    match (store.check().await, store.size_bytes().await) {
        (Ok(SCHEMA_VERSION), Ok(bytes)) => {
            report.fine("store", &format!("opens, schema version {SCHEMA_VERSION}, {bytes} bytes"));
        }
        (Ok(found), Ok(_)) => report.finding(
            "store",
            &format!(
                "has schema version {found}, not {SCHEMA_VERSION}: start this version's `duebook serve` once"
            ),
        ),
        (Err(error), _) | (_, Err(error)) => {
            report.finding("store", &format!("{error}: restore it from a backup if this stays"));
        }
    }
    let listen = settings.server().listen;
    match store.keys().await {
        Ok(keys) if !keys.iter().any(|key| key.revoked_ms.is_none()) && !listen.ip().is_loopback() => {
            report.finding(
                "keys",
                &format!(
                    "{listen} can be reached by others and there is no key: `duebook keys create` makes one"
                ),
            );
        }
        Ok(keys) => report.fine("keys", &format!("{} in the store", keys.len())),
        Err(error) => report.finding("keys", &error.to_string()),
    }
    store.close().await;
}

fn check_clock(report: &mut Report) {
    let now_ms = SystemClock.now_ms();
    let shown = Stamp(now_ms);
    if !(EARLIEST_MS..LATEST_MS).contains(&now_ms) {
        return report.finding("clock", &format!("shows {shown}: set it, tasks fire by it"));
    }
    let mut last_us = SystemClock.now_us();
    for _ in 0..100_000 {
        let now_us = SystemClock.now_us();
        if now_us < last_us {
            let back = last_us - now_us;
            return report
                .finding("clock", &format!("went back by {back} µs: let NTP slew it instead of stepping"));
        }
        last_us = now_us;
    }
    report.fine("clock", &format!("shows {shown} and runs forward"));
}
