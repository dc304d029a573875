//! `isomer-lab`: experiments on virtual clusters.
//!
//! | command | what it does |
//! | --- | --- |
//! | `lab list` | the experiments and systems there are |
//! | `lab calibrate` | measures what the code costs on this machine, and compares a laboratory with it |
//! | `lab ablation` | measures what each rule of the autopilot is worth, and the autopilot beside every other system, and
//! | | writes a page of each |
//! | `lab run FILE, NAME or all` | runs them, as many at once as there are cores, and writes lines of JSON, plots and a page |

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

/// Runs experiments: those of a file, of a name, or all
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  isomer-lab run ycsb-write-zipf
  isomer-lab run my-experiment.toml --out results
  isomer-lab run hermes --out docs/results       transactions in a total order
  isomer-lab run all --out docs/results")]
pub(crate) struct RunArgs {
    /// A file, the name of an experiment, `all` of those about snapshots, or `hermes` for all about transactions in
    /// a total order
    what: String,
    /// Where lines of JSON, plots and the page go; nowhere if missing
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// What the code costs: a file of `isomer-lab calibrate`, if not the one that comes with it
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// Only these systems
    #[arg(long, value_delimiter = ',')]
    systems: Vec<String>,
    /// How many seeds, if not as the experiment says
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: Option<u64>,
    /// How many runs at once; as many as there are cores, if missing. What comes out does not depend on it
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// Runs a small version of each, in seconds: to see that all works
    #[arg(long)]
    smoke: bool,
    /// Prints lines of JSON only
    #[arg(long)]
    json: bool,
}

/// Runs the autopilot without each of its rules, and beside every other system, in short forms of the experiments
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:
  isomer-lab ablation --out docs/results")]
pub(crate) struct AblationArgs {
    /// Where the pages `ablation.md` and `claims.md` go; nowhere if missing
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// How many seeds
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// How many runs at once; as many as there are cores, if missing. What comes out does not depend on it
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// A small version, in seconds: to see that all works
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
