//! The `duebook` program: one module per command.
//!
//! Exit codes: 0 fine, 1 a finding or failure, 2 wrong usage.

mod commands;
mod exit;
mod output;
mod remote;
mod settings;

use clap::Parser;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let command = commands::Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::report(&exit::Failure::failed(error)),
    };
    match runtime.block_on(command.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => exit::report(&failure),
    }
}
