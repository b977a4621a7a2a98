//! Results: percentiles, a table for people, one JSON object for programs.

use hdrhistogram::Histogram;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Percentiles in milliseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

/// An HDR histogram of microseconds, three significant digits, up to an hour.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(3_600_000_000, 3)
        .unwrap_or_else(|_| Histogram::new(3).expect("3 digits are valid"))
}

pub(crate) fn record(histogram: &mut Histogram<u64>, us: i64) {
    histogram.saturating_record(u64::try_from(us).unwrap_or(0));
}

impl Percentiles {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        let ms = |quantile| histogram.value_at_quantile(quantile) as f64 / 1000.0;
        Self {
            p50: ms(0.5),
            p90: ms(0.9),
            p99: ms(0.99),
            p999: ms(0.999),
            max: histogram.max() as f64 / 1000.0,
        }
    }
}

/// A result: its name, its settings, its figures in the order in which they are printed.
pub(crate) struct Report {
    pub(crate) bench: &'static str,
    pub(crate) settings: Value,
    pub(crate) seconds: f64,
    pub(crate) figures: Vec<(&'static str, Value)>,
}

impl Report {
    pub(crate) fn print(&self, as_json: bool) {
        if as_json {
            println!("{}", self.to_json());
        } else {
            print!("{}", self.to_table());
        }
    }

    fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("bench".into(), json!(self.bench));
        object.insert("version".into(), json!(env!("CARGO_PKG_VERSION")));
        object.insert("settings".into(), self.settings.clone());
        object.insert("seconds".into(), json!(rounded(self.seconds)));
        for (name, value) in &self.figures {
            object.insert((*name).into(), value.clone());
        }
        Value::Object(object)
    }

    fn to_table(&self) -> String {
        let mut text = format!("duebook bench {}  ({:.2} s)\n", self.bench, self.seconds);
        if let Value::Object(settings) = &self.settings {
            let pairs: Vec<String> =
                settings.iter().map(|(name, value)| format!("{name}={}", plain(value))).collect();
            text += &format!("  settings  {}\n", pairs.join(" "));
        }
        for (name, value) in &self.figures {
            text += &format!("  {name:<22} {}\n", plain(value));
        }
        text
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let pairs: Vec<String> =
                fields.iter().map(|(name, value)| format!("{name} {}", plain(value))).collect();
            pairs.join("  ")
        }
        other => other.to_string(),
    }
}

/// To three decimals, which is more than the measurement is worth.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// Settings that every benchmark prints.
pub(crate) fn machine() -> Vec<(&'static str, Value)> {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    vec![("store", json!("sqlite")), ("fsync", json!(true)), ("cores", json!(cores))]
}

/// Settings as one object.
pub(crate) fn settings(own: Vec<(&'static str, Value)>) -> Value {
    Value::Object(own.into_iter().chain(machine()).map(|(name, value)| (name.to_owned(), value)).collect())
}

/// Resident memory of a process in bytes, where the system tells (Linux).
pub(crate) fn rss_bytes(pid: Option<u32>) -> Option<u64> {
    let who = pid.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
    let status = std::fs::read_to_string(format!("/proc/{who}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}
