//! `duebook bench`: the benchmarks of `duebook_bench`.

use crate::exit::{Failure, Outcome};
use duebook_bench::BenchArgs;

pub(super) async fn run(args: BenchArgs) -> Outcome {
    match duebook_bench::run(args).await {
        Ok(true) => Ok(()),
        // What was lost or doubled is in its report.
        Ok(false) => Err(Failure::Findings),
        Err(error) => Err(Failure::Failed(error)),
    }
}
