//! `duebook bench`: load benchmarks that a user can run, on an own throwaway node or a given server.
//!
//! Every benchmark checks every id: lost and doubled are counted, not assumed. Latencies are measured from the
//! time at which something was due or meant to be sent, so that a stall shows in full (no coordinated
//! omission), and kept in an HDR histogram.
//!
//! Standard output bears the result (a table, or one JSON object with `--json`), standard error the progress.

mod cli;
mod drain;
mod fire;
mod http;
mod node;
mod progress;
mod report;
mod schedule;
mod tally;

pub use cli::{BenchArgs, run};
