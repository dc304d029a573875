//! `isomer`: the command line of the database.
//!
//! | command | what it does | where |
//! | --- | --- | --- |
//! | `demo` | replays a production trace on a database that rearranges itself | `demo/` |
//! | `serve` | a database for PostgreSQL's clients | `serve.rs` |
//! | `node` | sites of a database that another process serves | `node.rs`, `standby.rs` |
//! | `cluster` | members of a cluster; a cluster on this machine | `cluster/` |
//! | `design` | the design of a database in a folder | `design/` |
//! | `reconfigure`, `reshard` | changes the design of a running server | `reconfigure.rs`, … |
//! | `why` | how a key came to be where it is; what the autopilot has learned | `why.rs` |
//! | `advise`, `compare`, … | plans from a recorded workload, without a database | `plan/` |
//!
//! Benchmarks, the simulator and the laboratory are commands of a second program, `isomer-lab`, so
//! that a build of the database does not wait for them. The public modules here are those that it
//! shares; they are no interface for applications, which embed `isomer-cluster`.
//!
//! Exit codes: 0 for success, 1 for a failure or a check that does not hold, 2 for a request that
//! makes no sense. Results go to standard output, progress to standard error; with `--json`
//! standard output has only lines of JSON.
//!
//! The command line is the edge of the system: time enters in `clock.rs`. `crash_child.rs` exists
//! to be killed by a test.

#[doc(hidden)]
pub mod autopilot;
#[doc(hidden)]
pub mod checks;
#[doc(hidden)]
pub mod clock;
#[doc(hidden)]
pub mod cluster;
mod crash_child;
mod demo;
mod design;
#[doc(hidden)]
pub mod failure;
#[doc(hidden)]
pub mod isolation;
#[doc(hidden)]
pub mod kafka;
#[doc(hidden)]
pub mod loads;
mod logging;
mod memory;
mod node;
#[doc(hidden)]
pub mod out;
mod password;
#[doc(hidden)]
pub mod plan;
#[doc(hidden)]
pub mod progress;
#[doc(hidden)]
pub mod ratings;
mod reconfigure;
mod reshard;
mod screen;
mod serve;
mod standby;
#[doc(hidden)]
pub mod stop;
#[doc(hidden)]
pub mod text;
#[doc(hidden)]
pub mod timeline;
mod top;
#[doc(hidden)]
pub mod trace;
mod why;
#[doc(hidden)]
pub mod work;

use clap::{Parser, Subcommand};
use failure::Failure;
use logging::LogStyle;
use std::path::PathBuf;
use std::process::ExitCode;

/// A transactional database that rearranges its own physical design while it runs
#[derive(Parser, Debug)]
#[command(
    name = "isomer",
    version,
    propagate_version = true,
    after_help = "Examples:
  isomer demo
  isomer serve --data FOLDER
  isomer cluster up --nodes 3 --data FOLDER
  isomer design show FOLDER

Benchmarks, the simulator and the laboratory: isomer-lab --help"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Demo(demo::DemoArgs),
    Serve(serve::ServeArgs),
    Node(node::NodeArgs),
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    #[command(subcommand)]
    Design(design::DesignCommand),
    Reconfigure(reconfigure::ReconfigureArgs),
    Reshard(reshard::ReshardArgs),
    Top(top::TopArgs),
    Why(why::WhyArgs),
    #[command(flatten)]
    Plan(plan::Command),
    #[command(hide = true)]
    CrashChild(crash_child::CrashChildArgs),
}

/// Logs to standard error from now on, for programs that have commands of their own.
#[doc(hidden)]
pub fn begin_log() {
    logging::begin(LogStyle::default());
}

/// Runs the command that the arguments of the process name.
pub fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// The program `isomer`, to start further processes with: this process's own, or the one beside
/// `isomer-lab`.
///
/// # Errors
/// If there is none beside `isomer-lab`.
#[doc(hidden)]
pub fn program() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(Failure::failed)?;
    if own.file_stem().is_none_or(|name| name != "isomer-lab") {
        return Ok(own);
    }
    let beside = own.with_file_name("isomer");
    if beside.exists() {
        return Ok(beside);
    }
    let beside = beside.display();
    Err(Failure::failed(format!("{beside} is missing; build it with cargo build --package isomer")))
}

fn run(command: Command) -> Result<(), Failure> {
    logging::begin(match &command {
        Command::Serve(args) => args.log_style,
        Command::Node(args) => args.log_style,
        _ => LogStyle::default(),
    });
    match command {
        Command::Demo(args) => demo::run(&args),
        Command::Serve(args) => logged(serve::run(&args)),
        Command::Node(args) => logged(node::run(&args)),
        Command::Cluster(command) => cluster::run(&command),
        Command::Design(command) => design::run(&command),
        Command::Reconfigure(args) => reconfigure::run(&args),
        Command::Reshard(args) => reshard::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Why(args) => why::run(&args),
        Command::Plan(command) => plan::run(command).map_err(Failure::failed),
        Command::CrashChild(args) => crash_child::run(&args),
    }
}

/// The failure of a command that serves is a line of its log.
fn logged(ended: Result<(), Failure>) -> Result<(), Failure> {
    ended.map_err(|failure| match failure {
        Failure::Failed(what) => {
            tracing::error!("{what}");
            Failure::Told
        }
        failure => failure,
    })
}
