//! `isomer-lab`: the command line for measuring and research.
//!
//! | command | effect | where |
//! | --- | --- | --- |
//! | `bench` | measures transactions, and checks the result | `bench/` |
//! | `sim` | runs random scenarios in a simulated world | `sim.rs` |
//! | `run`, `ablation`, `calibrate`, `list` | experiments on virtual clusters | `experiments/` |
//!
//! Exit codes and output are those of `isomer`, whose library has the code that both programs
//! share.

mod bench;
mod experiments;
mod loads;
mod sim;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Faster than the default for the clients of a benchmark, which allocate in many threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Benchmarks, simulation and virtual clusters of Isomer
#[derive(Parser, Debug)]
#[command(
    name = "isomer-lab",
    version,
    propagate_version = true,
    after_help = "Examples:
  isomer-lab bench ycsb --skew zipf:0.99 --json
  isomer-lab sim --seeds 1..500
  isomer-lab run all --out docs/results"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    Sim(sim::SimArgs),
    #[command(flatten)]
    Lab(experiments::LabCommand),
}

fn main() -> ExitCode {
    isomer::begin_log();
    let ended = match Cli::parse().command {
        Command::Bench(command) => bench::run(&command),
        Command::Sim(args) => sim::run(&args),
        Command::Lab(command) => experiments::run(&command),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
