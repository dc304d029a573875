//! Small runs: that they repeat exactly, that time costs something, that what is wrong is said.

use isomer_lab::{Costs, Experiment, Measured, System, run};

fn small(name: &str) -> Experiment {
    Experiment::named(name).unwrap().smoke()
}

fn measured(experiment: &Experiment, system: &str, seed: u64) -> Measured {
    run(experiment, &System::named(system).unwrap(), &Costs::measured(), seed).unwrap()
}

#[test]
fn a_seed_repeats_to_the_last_digit() {
    let experiment = small("ycsb-write-zipf");
    let once = measured(&experiment, "on-demand", 1);
    assert!(once.transactions > 50 && once.changes_per_1000 > 0.0, "{once:?}");
    assert_eq!(once, measured(&experiment, "on-demand", 1));
    assert_ne!(once, measured(&experiment, "on-demand", 2));
}

#[test]
fn slower_cores_make_slower_clusters() {
    let mut experiment = small("ycsb-write-zipf");
    // One core for all clients of a site, so that it is the cores they wait for.
    experiment.cluster.cores = 1;
    let fast = measured(&experiment, "on-demand", 1);
    experiment.cluster.slowdown *= 4.0;
    let slow = measured(&experiment, "on-demand", 1);
    assert!(slow.throughput_per_s < 0.5 * fast.throughput_per_s, "{slow:?} {fast:?}");
    assert!(slow.busy > 0.5, "{slow:?}");
}

#[test]
fn what_is_not_there_is_named() {
    let error = Experiment::named("ycbs").unwrap_err();
    assert!(error.starts_with("there is no experiment `ycbs`; there are: ycsb"), "{error}");
    let error = System::named("fast").err().unwrap();
    assert!(error.starts_with("there is no system `fast`; there are: "), "{error}");
    let error = Experiment::read("name = 3").unwrap_err();
    assert!(error.contains("name"), "{error}");
}
