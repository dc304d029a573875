//! `isomer`: the command line of Isomer.
//!
//! | command | what it does | where |
//! | --- | --- | --- |
//! | `demo` | replays a production trace on a database that rearranges itself | `demo/` |
//! | `serve` | a database for PostgreSQL's clients | `serve.rs` |
//! | `node` | sites of a database that another process serves | `node.rs` |
//! | `cluster` | who is in a cluster; one on this machine | `cluster/` |
//! | `bench` | measures transactions, and checks that each counted | `bench/` |
//! | `sim` | random scenarios in a simulated world | `sim.rs` |
//! | `lab` | experiments on virtual clusters | `lab/` |
//! | `design` | the design of a database in a folder | `design/` |
//! | `why` | how a key came to be where it is; what the autopilot has learned | `why.rs` |
//! | `advise`, `compare`, … | plans from a recorded workload, without a database | `plan/` |
//!
//! What several of them need: `autopilot.rs` (its decisions, shown), `work/` (workloads on a database), `checks.rs`, `trace.rs`, `text.rs`,
//! `out.rs`, `progress.rs`, `stop.rs`, `kafka.rs`. `crash_child.rs` is there to be killed by a test.
//!
//! Exit codes: 0 if all is well, 1 if something failed or a check does not hold, 2 if the request
//! makes no sense. Results go to standard output, progress to standard error; with `--json` standard
//! output has nothing but lines of JSON.
//!
//! The command line is the edge of the system: `clock.rs` is where time comes in.

mod autopilot;
mod bench;
mod checks;
mod clock;
mod cluster;
mod crash_child;
mod demo;
mod design;
mod failure;
mod isolation;
mod kafka;
mod lab;
mod loads;
mod node;
mod out;
mod plan;
mod progress;
mod ratings;
mod reconfigure;
mod reshard;
mod serve;
mod sim;
mod stop;
mod text;
mod timeline;
mod trace;
mod why;
mod work;

use clap::{Parser, Subcommand};
use failure::Failure;
use std::process::ExitCode;

/// A server's threads, each with a client, allocate and free all the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
  isomer bench ycsb --skew zipf:0.99 --json
  isomer sim --seeds 1..500
  isomer design show FOLDER"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Demo(demo::DemoArgs),
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    Serve(serve::ServeArgs),
    Node(node::NodeArgs),
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    Sim(sim::SimArgs),
    #[command(subcommand)]
    Lab(lab::LabCommand),
    #[command(subcommand)]
    Design(design::DesignCommand),
    Reconfigure(reconfigure::ReconfigureArgs),
    Reshard(reshard::ReshardArgs),
    Why(why::WhyArgs),
    #[command(flatten)]
    Plan(plan::Command),
    #[command(hide = true)]
    CrashChild(crash_child::CrashChildArgs),
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Demo(args) => demo::run(&args),
        Command::Bench(command) => bench::run(&command),
        Command::Serve(args) => serve::run(&args),
        Command::Node(args) => node::run(&args),
        Command::Cluster(command) => cluster::run(&command),
        Command::Sim(args) => sim::run(&args),
        Command::Lab(command) => lab::run(&command),
        Command::Design(command) => design::run(&command),
        Command::Reconfigure(args) => reconfigure::run(&args),
        Command::Reshard(args) => reshard::run(&args),
        Command::Why(args) => why::run(&args),
        Command::Plan(command) => plan::run(command).map_err(Failure::failed),
        Command::CrashChild(args) => crash_child::run(&args),
    }
}
