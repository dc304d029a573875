//! Runs one experiment with one system and one seed.

use crate::changes::Changes;
use crate::client::Clients;
use crate::cluster::Cluster;
use crate::costs::Costs;
use crate::drive::{Drive, Shifting};
use crate::experiment::{Experiment, WorkloadSpec};
use crate::measured::{Measured, Predicted};
use crate::shift::{SLICE_NS, Shift, Slice};
use crate::system::System;
use crate::tally::Tally;
use isomer_design::TableId;
use isomer_sim::world::{Manners, TaskId, World};
use isomer_workload::{OptionsError, SmallBank, Tpcc, Twitter, Ycsb};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// The time limit for clients to finish after they have been told to stop.
const PATIENCE_NS: u64 = 600_000_000_000;
const FIRST_TABLE: TableId = TableId(1);

/// Runs an experiment for one system and one seed.
///
/// # Errors
/// A message if the cluster could not be set up, a transaction failed, or the workload's check
/// failed.
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
    let warm_up_s = experiment.warm_up_s * system.warm_ups;
    let experiment = &Experiment { warm_up_s, ..experiment.clone() };
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
    let from = begun_ns + ns(experiment.warm_up_s);
    let to = from + ns(experiment.seconds);
    let changes = Arc::new(Changes::new(cluster.conductor.design()));
    cluster.conductor.watch({
        let changes = changes.clone();
        move |event| changes.enter(event)
    });
    let clients = Rc::new(Clients {
        cluster: cluster.clone(),
        tally: RefCell::new(Tally::new(begun_ns, from..to)),
        begun_ns,
        stopping: Cell::new(false),
    });
    let (deferring, planning) = (cluster.clone(), cluster.clone());
    let deferred =
        world.spawn("tender".into(), async move { deferring.conductor.run_deferred().await });
    world.spawn("thinker".into(), async move { planning.conductor.plan().await });
    let count = u64::from(experiment.clients_per_site) * u64::from(machines.hardware.sites);
    let tasks = clients.start(workload, count, seed);
    let used = || machines.hosts().map(|host| host.machine.cores.used_ns()).sum::<u64>();
    let spent = || (used(), machines.decided_ns());
    world.run_for(ns(experiment.warm_up_s), || false);
    let before = spent();
    world.run_for(ns(experiment.seconds), || false);
    let after = spent();
    let memory = machines.hosts().map(|host| host.site.memory_bytes()).max();
    let predicted = Predicted::by(cluster.learned.as_deref());
    clients.stopping.set(true);
    world.run_for(PATIENCE_NS, || tasks.iter().all(|task| world.is_done(*task)));
    finished(&world, &tasks)?;
    // The examination below requires that no changes are in progress.
    cluster.conductor.close();
    world.run_for(PATIENCE_NS, || world.is_done(deferred));
    cluster.finished(world.is_done(deferred), "the changes under way")?;

    let totals = cluster.examine(workload)?;
    let tally = clients.tally.borrow();
    if tally.failed > 0 {
        return Err(format!("{} transactions failed: {}", tally.failed, tally.failures.join("; ")));
    }
    workload.judge(totals, tally.added).map_err(|mismatch| mismatch.to_string())?;
    let kind = experiment.kind.as_deref().and_then(|kind| tally.kind(kind));
    let cores = f64::from(machines.hardware.cores) * f64::from(machines.hardware.sites);
    let transactions = tally.measured.max(1) as f64;
    let latency_us = tally.all.mean();
    let made = |from: u64, to: u64| changes.count(&(from..to)) as f64;
    let middle = from.midpoint(to);
    let every_s = experiment.workload.shift_every_s();
    Ok(Measured {
        throughput_per_s: tally.measured as f64 / experiment.seconds,
        latency_ms: latency_us / 1e3,
        p99_ms: tally.all.value_at_quantile(0.99) as f64 / 1e3,
        across_percent: tally.across as f64 * 1e2 / transactions,
        kind_ms: kind.map(|kind| kind.mean() / 1e3),
        changes_per_1000: made(from, to) * 1e3 / transactions,
        thrash_percent: changes.thrash(&(from..to)).map(|share| share * 100.0),
        changes_in_10_s: made(middle, to) * 1e10 / (to - middle) as f64,
        router_percent: (after.1 - before.1) as f64 / (10.0 * latency_us * transactions),
        memory_mb: memory.unwrap_or_default() as f64 / f64::from(1 << 20),
        predicted,
        shift: every_s.and_then(|every_s| Shift::of(&tally.slices, every_s)),
        busy: (after.0 - before.0) as f64 / ((to - from) as f64 * cores),
        transactions: tally.measured,
        rolled_back: tally.rolled_back,
        refused: tally.refused,
        simulated: tally.committed,
        slices: tally.slices.iter().enumerate().map(slice).collect(),
    })
}

/// Converts a slice to the form of [`Measured::slices`].
fn slice((at, (count, us)): (usize, &Slice)) -> (f64, u64, f64) {
    let end_s = ((at as u64 + 1) * SLICE_NS) as f64 / 1e9;
    (end_s, *count, *us as f64 / 1e3 / (*count).max(1) as f64)
}

/// Checks that all clients have finished.
fn finished(world: &World, tasks: &[TaskId]) -> Result<(), String> {
    let unfinished = tasks.iter().filter(|task| !world.is_done(**task)).count();
    match world.panicked() {
        Some(said) => Err(format!("the run panicked: {said}")),
        None if unfinished > 0 => Err(format!("{unfinished} clients came to no end")),
        None => Ok(()),
    }
}
