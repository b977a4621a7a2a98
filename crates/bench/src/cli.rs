//! The options, as CONTRACT names them.

use clap::{Args, Subcommand, ValueEnum};

/// `duebook bench …`
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    which: Which,
}

#[derive(Debug, Subcommand)]
enum Which {
    /// How fast tasks are taken, durably, over HTTP.
    Schedule(ScheduleArgs),
    /// How late tasks start at a steady rate.
    Fire(FireArgs),
    /// How fast overdue tasks are worked off.
    Drain(DrainArgs),
}

/// What all benchmarks share.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Use the server at this address instead of starting an own one.
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// API key for --server.
    #[arg(long, env = "DUEBOOK_KEY", hide_env_values = true)]
    pub(crate) key: Option<String>,
    /// Folder in which the own node keeps its throwaway store [default: the system's temporary folder].
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<std::path::PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ScheduleArgs {
    /// Tasks to schedule.
    #[arg(long, default_value_t = 100_000)]
    pub(crate) tasks: usize,
    /// Requests in flight [default: 64, with --bulk 4].
    #[arg(long)]
    pub(crate) in_flight: Option<usize>,
    /// Many tasks in a request.
    #[arg(long)]
    pub(crate) bulk: bool,
    /// Tasks in a request, with --bulk.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(1..=5000))]
    pub(crate) batch: u16,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HandlerKind {
    /// In the process that runs the engine.
    Inprocess,
    /// Pulled by workers over HTTP.
    Lease,
    /// Called over HTTP.
    Webhook,
}

impl HandlerKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Inprocess => "inprocess",
            Self::Lease => "lease",
            Self::Webhook => "webhook",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Spread {
    /// At even distances, scheduled in their order, as the published figures of other systems are measured.
    Uniform,
    /// Drawn at random, scheduled in another order than they are due: the store must touch a page per task.
    Random,
    /// A second's tasks all at its first millisecond.
    Fixed,
}

impl Spread {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Random => "random",
            Self::Fixed => "fixed",
        }
    }
}

#[derive(Debug, Clone, Args)]
pub(crate) struct FireArgs {
    /// Tasks due per second.
    #[arg(long, default_value_t = 5_000)]
    pub(crate) rate: u64,
    /// Seconds over which they are due.
    #[arg(long, default_value_t = 20)]
    pub(crate) secs: u64,
    /// Who runs them.
    #[arg(long, value_enum, default_value_t = HandlerKind::Inprocess)]
    pub(crate) handler: HandlerKind,
    /// Tasks that wait in the store meanwhile, due over the day that begins in an hour.
    #[arg(long, default_value_t = 0)]
    pub(crate) pending: usize,
    /// How due times are spread.
    #[arg(long, value_enum, default_value_t = Spread::Uniform)]
    pub(crate) due: Spread,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct DrainArgs {
    /// Overdue tasks.
    #[arg(long, default_value_t = 50_000)]
    pub(crate) tasks: usize,
    /// Who runs them.
    #[arg(long, value_enum, default_value_t = HandlerKind::Inprocess)]
    pub(crate) handler: HandlerKind,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Runs a benchmark; true if nothing was lost or doubled and no request failed.
///
/// # Errors
/// When the node cannot be started or reached.
pub async fn run(args: BenchArgs) -> anyhow::Result<bool> {
    match args.which {
        // One thread makes the load, so that the server under test has the other cores.
        Which::Schedule(args) => {
            tokio::task::spawn_blocking(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(crate::schedule::run(args))
            })
            .await?
        }
        Which::Fire(args) => crate::fire::run(args).await,
        Which::Drain(args) => crate::drain::run(args).await,
    }
}
