//! The benchmarks without the binary, for work on the engine: `cargo run --release -p duebook-bench --example local -- fire …`

use clap::Parser;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    bench: duebook_bench::BenchArgs,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let fine = duebook_bench::run(Cli::parse().bench).await?;
    std::process::exit(i32::from(!fine));
}
