//! The commands.

mod bench;
mod doctor;
mod keys;
mod serve;
mod task;

use crate::exit::Outcome;
use clap::{Parser, Subcommand};

/// Duebook: every deadline fires.
#[derive(Debug, Parser)]
#[command(name = "duebook", version, about, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run everything in one process on the embedded store.
    Serve(serve::Args),
    /// Tell one task's whole story in order.
    Task(task::Args),
    /// Make, list and revoke API keys.
    Keys(keys::Args),
    /// Measure this machine, or a server.
    Bench(duebook_bench::BenchArgs),
    /// Check configuration, store, disk and clock, and say what to do about each finding.
    Doctor(doctor::Args),
}

impl Cli {
    pub(crate) async fn run(self) -> Outcome {
        match self.command {
            Command::Serve(args) => serve::run(args).await,
            Command::Task(args) => task::run(args).await,
            Command::Keys(args) => keys::run(args).await,
            Command::Bench(args) => bench::run(args).await,
            Command::Doctor(args) => doctor::run(args).await,
        }
    }
}
