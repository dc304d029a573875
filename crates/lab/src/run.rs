//! One run: a cluster, a system, a workload and a seed; what came of it.

use crate::client::Clients;
use crate::cluster::Cluster;
use crate::costs::Costs;
use crate::drive::Drive;
use crate::drive::Shifting;
use crate::experiment::{Experiment, WorkloadSpec};
use crate::system::System;
use crate::tally::Tally;
use isomer_design::TableId;
use isomer_sim::world::{Manners, World};
use isomer_workload::{OptionsError, SmallBank, Tpcc, Twitter, Ycsb};
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Clients that have been told to stop are waited for so long.
const PATIENCE_NS: u64 = 600_000_000_000;
/// So many plans that nobody waits for are carried out at once.
const TENDERS: usize = 8;
const FIRST_TABLE: TableId = TableId(1);

/// What came of a run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Measured {
    /// Transactions per virtual second.
    pub throughput_per_s: f64,
    /// Mean latency, in milliseconds.
    pub latency_ms: f64,
    /// Latency of the slowest percent, in milliseconds.
    pub p99_ms: f64,
    /// Mean latency of the kind of transaction the experiment asks for, in milliseconds.
    pub kind_ms: Option<f64>,
    /// Changes of the design for 1000 transactions, while it was measured.
    pub changes_per_1000: f64,
    /// The share of the sites' cores that was in use.
    pub busy: f64,
    /// Transactions measured.
    pub transactions: u64,
    /// Ended by their own procedure.
    pub rolled_back: u64,
    /// Refused by the strategy.
    pub refused: u64,
    /// All transactions that were carried out in virtual time, measured or not.
    pub simulated: u64,
    /// Second by second: transactions, and their mean latency in milliseconds.
    pub seconds: Vec<(u64, f64)>,
}

/// Runs an experiment for one system and one seed.
///
/// # Errors
/// In words, if the cluster could not be set up, a transaction failed, or the workload's check does
/// not hold.
pub fn run(
    experiment: &Experiment,
    system: &System,
    costs: &Costs,
    seed: u64,
) -> Result<Measured, String> {
    let sites = experiment.cluster.sites;
    match &experiment.workload {
        WorkloadSpec::Ycsb(spec) => {
            let options = spec.options();
            let ycsb = Ycsb::new(options.clone(), FIRST_TABLE).map_err(in_words)?;
            let shifting = Shifting::new(ycsb, &options, spec.shift_every_s);
            run_workload(experiment, system, costs, seed, &shifting)
        }
        WorkloadSpec::SmallBank(spec) => {
            let bank = SmallBank::new(spec.options(), FIRST_TABLE).map_err(in_words)?;
            run_workload(experiment, system, costs, seed, &bank)
        }
        WorkloadSpec::Tpcc(spec) => {
            let tpcc = Tpcc::new(spec.options(sites), FIRST_TABLE).map_err(in_words)?;
            run_workload(experiment, system, costs, seed, &tpcc)
        }
        WorkloadSpec::Twitter(spec) => {
            let twitter = Twitter::new(spec.options(), FIRST_TABLE).map_err(in_words)?;
            run_workload(experiment, system, costs, seed, &twitter)
        }
    }
}

fn in_words(error: OptionsError) -> String {
    error.to_string()
}

fn run_workload<W: Drive>(
    experiment: &Experiment,
    system: &System,
    costs: &Costs,
    seed: u64,
    workload: &W,
) -> Result<Measured, String> {
    let world = World::new(seed, Manners::orderly());
    let cluster = Cluster::start(
        world.clone(),
        experiment.cluster.clone(),
        costs,
        system,
        workload,
        experiment.partition_rows,
    );
    let measured = cluster.and_then(|cluster| measure(experiment, seed, workload, cluster));
    world.end();
    measured
}

fn measure<W: Drive>(
    experiment: &Experiment,
    seed: u64,
    workload: &W,
    cluster: Rc<Cluster>,
) -> Result<Measured, String> {
    let (world, machines) = (cluster.world.clone(), cluster.machines.clone());
    machines.set_charging(true);
    let begun_ns = world.now().0;
    let ns = |seconds: f64| (seconds * 1e9) as u64;
    let changes = Arc::new(AtomicU64::new(0));
    let tally = Tally::new(begun_ns, ns(experiment.warm_up_s));
    let clients = Rc::new(Clients {
        cluster: cluster.clone(),
        tally: RefCell::new(tally),
        begun_ns,
        stopping: Cell::new(false),
    });
    let count = u64::from(experiment.clients_per_site) * u64::from(machines.hardware.sites);
    for _ in 0..TENDERS {
        let cluster = cluster.clone();
        world.spawn("tender".into(), async move { cluster.router.tend().await });
    }
    cluster.router.watch({
        let changes = changes.clone();
        move |_| {
            changes.fetch_add(1, Ordering::Relaxed);
        }
    });
    let tasks = clients.start(workload, count, seed);
    world.run_for(ns(experiment.warm_up_s), || false);
    let used = || machines.hosts().map(|host| host.machine.cores.used_ns()).sum::<u64>();
    let changes_before = changes.load(Ordering::Relaxed);
    let used_before = used();
    world.run_for(ns(experiment.seconds), || false);
    let used_ns = used() - used_before;
    let changes = changes.load(Ordering::Relaxed) - changes_before;
    clients.stopping.set(true);
    world.run_for(PATIENCE_NS, || tasks.iter().all(|task| world.is_done(*task)));
    if let Some(said) = world.panicked() {
        return Err(format!("the run panicked: {said}"));
    }
    let unfinished = tasks.iter().filter(|task| !world.is_done(**task)).count();
    if unfinished > 0 {
        return Err(format!("{unfinished} clients came to no end"));
    }
    let totals = cluster.examine(workload)?;
    let tally = clients.tally.borrow();
    if tally.failed > 0 {
        return Err(format!("{} transactions failed: {}", tally.failed, tally.failures.join("; ")));
    }
    workload.judge(totals, tally.added).map_err(|mismatch| mismatch.to_string())?;
    let cores_ns = experiment.seconds * 1e9 * f64::from(machines.hardware.cores);
    let kind = experiment.kind.as_deref().and_then(|kind| tally.kind(kind));
    Ok(Measured {
        throughput_per_s: tally.measured as f64 / experiment.seconds,
        latency_ms: tally.all.mean() / 1e3,
        p99_ms: tally.all.value_at_quantile(0.99) as f64 / 1e3,
        kind_ms: kind.map(|kind| kind.mean() / 1e3),
        changes_per_1000: changes as f64 * 1e3 / tally.measured.max(1) as f64,
        busy: used_ns as f64 / cores_ns / f64::from(machines.hardware.sites),
        transactions: tally.measured,
        rolled_back: tally.rolled_back,
        refused: tally.refused,
        simulated: tally.committed,
        seconds: tally
            .seconds
            .iter()
            .map(|(count, us)| (*count, *us as f64 / 1e3 / (*count).max(1) as f64))
            .collect(),
    })
}
