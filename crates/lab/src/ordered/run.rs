//! Runs one experiment with one system and one seed.

use super::driver::Driver;
use super::measured::Measured;
use super::spec::{Experiment, WorkloadSpec};
use super::system::System;
use crate::costs::Costs;
use isomer_plan::generate::LoadTrace;

/// The time limit for clients to finish after they have been told to stop.
const PATIENCE_NS: u64 = 600_000_000_000;

/// Runs an experiment for one system and one seed. `load` is the load of real machines, which some
/// workloads follow. If `each_plans`, every site has its own planner, and all plans must be equal.
///
/// # Errors
/// A message if the workload's options are invalid, or if the answers to clients or the rows of the
/// sites differ from a serial execution of the order.
pub fn run(
    experiment: &Experiment,
    system: &System,
    costs: &Costs,
    load: &LoadTrace,
    seed: u64,
    each_plans: bool,
) -> Result<Measured, String> {
    let driver = Driver::start(experiment, system, costs, load, seed, each_plans)?;
    let world = driver.world.clone();
    let ns = |seconds: f64| (seconds * 1e9) as u64;
    world.run_for(ns(experiment.warm_up_s), || false);
    let before = driver.spent();
    world.run_for(ns(experiment.seconds), || false);
    let after = driver.spent();
    driver.stopping.set(true);
    world.run_for(PATIENCE_NS, || driver.is_quiet());
    let result = match world.panicked() {
        Some(said) => Err(format!("the run panicked: {said}")),
        None if !driver.is_quiet() => Err("some clients were never answered".to_owned()),
        None => driver.judge(),
    };
    let cores = f64::from(experiment.cluster.cores) * f64::from(experiment.cluster.sites);
    let spent = (after.0 - before.0, after.1 - before.1);
    let measured = result.map(|()| Measured {
        fused: driver.fused(),
        ..Measured::of(
            &driver.tally.borrow(),
            experiment.seconds,
            spent,
            cores,
            experiment.cluster.sites,
            &changes_s(experiment),
        )
    });
    world.end();
    measured
}

/// The times of changes during the measurement, and the end of the measurement.
fn changes_s(experiment: &Experiment) -> Vec<f64> {
    let until_s = experiment.warm_up_s + experiment.seconds;
    let mut times = Vec::new();
    if let WorkloadSpec::Tenants(tenants) = &experiment.workload
        && let Some(every_s) = tenants.change_s
    {
        let all = (1..).map(|number| f64::from(number) * every_s);
        times.extend(all.take_while(|at| *at < until_s).filter(|at| *at > experiment.warm_up_s));
    }
    times.extend(experiment.scale_out.as_ref().map(|scale_out| scale_out.at_s));
    times.push(until_s);
    times
}
