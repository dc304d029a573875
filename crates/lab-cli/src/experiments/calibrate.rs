//! `isomer-lab calibrate`: measures the costs of the code on this machine. With `--check` it also
//! runs a small experiment on this machine and in the laboratory, to see how far they differ.
//!
//! The experiment has one site and one client, so that only the costs count. On this machine the
//! real database runs on one thread; in the laboratory, on one core of the same speed, without
//! wires, disks and messages.

use isomer::failure::Failure;
use isomer::work::{Client, Layout, Spread, Tally, load};
use isomer::{clock, out};
use isomer_cluster::{Database, Options};
use isomer_design::TableId;
use isomer_lab::{Costs, Experiment, System, calibrate, run as run_in_lab};
use isomer_workload::{SmallBank, SmallBankOptions, Workload, Ycsb, YcsbOptions, random};
use std::path::PathBuf;

/// Measures the cost of each step of the code on this machine
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct CalibrateArgs {
    /// File for the table, for `isomer-lab run --costs` (default: standard output)
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Measurements of each cost; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Afterwards runs a small experiment on this machine and in the laboratory
    #[arg(long)]
    check: bool,
}

const ROWS: u64 = 100_000;
const PARTITION_ROWS: u64 = 1000;
const TRANSACTIONS: u64 = 100_000;

/// Calibrates, and checks if asked to.
pub(super) fn run(args: &CalibrateArgs) -> Result<(), Failure> {
    let begun = clock::now();
    let now = || begun.elapsed().as_nanos() as u64;
    let tables: Result<Vec<Costs>, String> = (0..args.rounds).map(|_| calibrate(&now)).collect();
    let costs = Costs::median(&tables.map_err(Failure::failed)?);
    match &args.out {
        Some(file) => std::fs::write(file, costs.to_text())
            .map_err(|error| Failure::failed(format!("{}: {error}", file.display())))?,
        None => out::print(costs.to_text()),
    }
    if args.check { check(&costs) } else { Ok(()) }
}

fn check(costs: &Costs) -> Result<(), Failure> {
    let ycsb = |scan_share| {
        let options =
            YcsbOptions { keys: ROWS, value_bytes: 10, scan_share, ..YcsbOptions::default() };
        Ycsb::new(options, TableId(1))
    };
    let bank = SmallBankOptions { customers: ROWS / 2, ..SmallBankOptions::default() };
    let write_heavy = "[workload.ycsb]\nrows = 100000\nscans = 0.1";
    let read_mostly = "[workload.ycsb]\nrows = 100000\nscans = 0.5";
    compare("ycsb, 10 % scans", &ycsb(0.1)?, write_heavy, costs)?;
    compare("ycsb, 50 % scans", &ycsb(0.5)?, read_mostly, costs)?;
    let customers = "[workload.small-bank]\ncustomers = 50000";
    compare("smallbank", &SmallBank::new(bank, TableId(1))?, customers, costs)
}

fn compare(
    name: &str,
    workload: &(impl Workload + Clone),
    spec: &str,
    costs: &Costs,
) -> Result<(), Failure> {
    let real = on_this_machine(workload)?;
    let virtually = in_the_laboratory(spec, costs)?;
    let differs = (virtually / real - 1.0) * 100.0;
    out::line(format_args!(
        "{name}: {real:.0} transactions/s on this machine, {virtually:.0} in the laboratory ({differs:+.0} %)"
    ));
    Ok(())
}

/// Transactions a second of one client of a database in memory.
fn on_this_machine(workload: &(impl Workload + Clone)) -> Result<f64, Failure> {
    let db = Database::open(Options::in_memory(1).durability(isomer_cluster::Durability::None))?;
    let layout = Layout { sites: 1, rows_per_partition: PARTITION_ROWS, spread: Spread::Range };
    load(&db, workload, layout)?;
    let mut client = Client::new(&db, workload.clone(), random(1));
    let (mut warm, mut tally) = (Tally::default(), Tally::default());
    for _ in 0..TRANSACTIONS / 10 {
        let transaction = client.draw();
        client.run(&transaction, &mut warm);
    }
    let begun = clock::now();
    for _ in 0..TRANSACTIONS {
        let transaction = client.draw();
        client.run(&transaction, &mut tally);
    }
    Ok(TRANSACTIONS as f64 / begun.elapsed().as_secs_f64())
}

/// The same in the laboratory, where the client and its site share a core.
fn in_the_laboratory(spec: &str, costs: &Costs) -> Result<f64, Failure> {
    let text = format!(
        "name = \"check\"\ntitle = \"check\"\nfigure = \"none\"\nsystems = [\"static\"]\nclients_per_site = 1\n\
         warm_up_s = 0.05\nseconds = 0.2\nseeds = 1\npartition_rows = {PARTITION_ROWS}\n\
         [cluster]\nsites = 1\ncores = 1\nslowdown = 1\nlatency_us = 0\nbandwidth_mbit = 1000000000\n\
         sync_us = 0\ntick_us = 2000\n{spec}\n"
    );
    let experiment = Experiment::read(&text).map_err(Failure::failed)?;
    let costs = Costs { send: 0.0, receive: 0.0, resume: 0.0, ..costs.clone() };
    let system = System::named("static").map_err(Failure::failed)?;
    let measured = run_in_lab(&experiment, &system, &costs, 1).map_err(Failure::failed)?;
    Ok(measured.throughput_per_s)
}
