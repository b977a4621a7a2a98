//! `fire` and `drain` over HTTP: to come with the client.

use crate::cli::{DrainArgs, FireArgs};
use crate::tally::Tally;
use std::sync::Arc;

pub(crate) async fn run(_args: &FireArgs) -> anyhow::Result<(Arc<Tally>, Option<u64>)> {
    anyhow::bail!("later in this commit series")
}

pub(crate) async fn drain_served(_args: &DrainArgs, _tally: &Arc<Tally>) -> anyhow::Result<()> {
    anyhow::bail!("later in this commit series")
}
