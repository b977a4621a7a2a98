//! `duebook serve`: everything in one process.

use crate::exit::{Failure, Outcome};
use crate::output;
use crate::settings::{LogFormat, Settings};
use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// `duebook serve`
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    settings: Settings,
}

pub(super) async fn run(args: Args) -> Outcome {
    let settings = args.settings.with_file()?;
    settings.check_version()?;
    start_log(settings.log_format());
    let (store, engine) = (settings.sqlite()?, settings.engine()?);
    let mut stop = StopSignals::listen()?;
    let database = store.path.clone();
    let server = duebook_server::serve(&store, engine, settings.server()).await.map_err(Failure::failed)?;
    tracing::info!(address = %server.local_addr(), store = %database.display(), "serving");
    output::line(&format!("duebook listening on http://{}", server.local_addr()));
    let name = stop.next().await;
    tracing::info!(signal = name, "stopping");
    tokio::select! {
        () = server.shutdown() => {
            tracing::info!("stopped");
            Ok(())
        }
        name = stop.next() => {
            Err(Failure::Failed(anyhow::anyhow!("stopped at once by a second {name}; running tasks run again")))
        }
    }
}

fn start_log(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
}

struct StopSignals {
    term: Signal,
    interrupt: Signal,
}

impl StopSignals {
    fn listen() -> anyhow::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate()).context("SIGTERM cannot be heard")?,
            interrupt: signal(SignalKind::interrupt()).context("SIGINT cannot be heard")?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.term.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
