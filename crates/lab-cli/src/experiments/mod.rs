//! Experiments on virtual clusters.
//!
//! | command | effect |
//! | --- | --- |
//! | `list` | lists the experiments and systems |
//! | `calibrate` | measures the costs of the code on this machine, and checks the laboratory |
//! | `ablation` | measures the worth of each rule of the autopilot, and compares all systems |
//! | `run` | runs experiments in parallel; writes lines of JSON, plots and a page |

mod calibrate;
mod ordered;
mod run;

use isomer::failure::Failure;
use isomer::out;
use isomer_lab::{Experiment, SYSTEMS};
use std::path::PathBuf;

/// Experiments on virtual clusters, with the real router, strategies and sites
#[derive(clap::Subcommand, Debug)]
pub(crate) enum LabCommand {
    /// Lists the experiments and the systems
    List,
    Run(RunArgs),
    Ablation(AblationArgs),
    Calibrate(calibrate::CalibrateArgs),
}

/// Runs experiments: those of a file, one by its name, or all
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  isomer-lab run ycsb-write-zipf
  isomer-lab run my-experiment.toml --out results
  isomer-lab run hermes --out docs/results       transactions in a total order
  isomer-lab run all --out docs/results")]
pub(crate) struct RunArgs {
    /// A file, the name of an experiment, `all` of those on snapshots, or `hermes` for all on
    /// transactions in a total order
    what: String,
    /// Folder for lines of JSON, plots and the page (default: none are written)
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Costs of the code, a file of `isomer-lab calibrate` (default: the built-in costs)
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// Only these systems
    #[arg(long, value_delimiter = ',')]
    systems: Vec<String>,
    /// Seeds of each experiment (default: as it says)
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: Option<u64>,
    /// Runs in parallel (default: the number of cores). The results do not depend on it
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// Runs a small version of each in seconds, as a test
    #[arg(long)]
    smoke: bool,
    /// Prints lines of JSON only
    #[arg(long)]
    json: bool,
}

/// Runs the autopilot without each of its rules, and beside every other system, in short
/// experiments
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:
  isomer-lab ablation --out docs/results")]
pub(crate) struct AblationArgs {
    /// Folder for the pages `ablation.md` and `claims.md` (default: none are written)
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Seeds of each experiment
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Runs in parallel (default: the number of cores). The results do not depend on it
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// Runs a small version in seconds, as a test
    #[arg(long)]
    smoke: bool,
}

/// Runs a command of the laboratory.
pub(crate) fn run(command: &LabCommand) -> Result<(), Failure> {
    match command {
        LabCommand::List => {
            list();
            Ok(())
        }
        LabCommand::Run(args) => run::run(args),
        LabCommand::Ablation(args) => run::ablation(args),
        LabCommand::Calibrate(args) => calibrate::run(args),
    }
}

fn list() {
    let rows: Vec<Vec<String>> = Experiment::all()
        .into_iter()
        .map(|experiment| vec![experiment.name, experiment.figure, experiment.title])
        .collect();
    out::print(isomer::text::columns(&rows, 0));
    let names: Vec<&str> = SYSTEMS.iter().map(|system| system.name).collect();
    out::line(format_args!("\nsystems: {}\n", names.join(", ")));
    let rows: Vec<Vec<String>> = isomer_lab::ordered::Experiment::all()
        .into_iter()
        .map(|experiment| vec![experiment.name, experiment.figure, experiment.title])
        .collect();
    out::print(isomer::text::columns(&rows, 0));
    let names = isomer_lab::ordered::SYSTEMS.map(|system| system.name);
    out::line(format_args!("\nsystems of transactions in order: {}", names.join(", ")));
}
