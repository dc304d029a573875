//! Small runs: they repeat exactly, virtual time passes, and errors are reported.

use isomer_lab::{Costs, Experiment, Measured, Predicted, System, WorkloadSpec, calibrate, run};
use std::cell::Cell;

fn small(name: &str) -> Experiment {
    Experiment::named(name).unwrap().smoke()
}

fn measured(experiment: &Experiment, system: &str, seed: u64) -> Measured {
    run(experiment, &System::named(system).unwrap(), &Costs::standard(), seed).unwrap()
}

#[test]
fn a_seed_repeats_to_the_last_digit_whatever_runs_concurrently() {
    let mut experiment = small("memory");
    (experiment.cluster.memory_mb, experiment.seconds) = (Some(0.3), 1.0);
    let run = |seed| measured(&experiment, "on-demand", seed);
    let once = run(1);
    assert!(once.transactions > 50 && once.changes_per_1000 > 0.0, "{once:?}");
    let beside = std::thread::scope(|scope| {
        let others = [2, 3].map(|seed| scope.spawn(move || run(seed)));
        let again = run(1);
        others.map(|other| other.join().unwrap()).into_iter().for_each(|o| assert_ne!(o, again));
        again
    });
    assert_eq!(once, beside);
}

#[test]
fn every_system_answers_and_every_workload_adds_up() {
    for name in ["ycsb-write-zipf", "tpcc", "smallbank", "twitter"] {
        let mut experiment = small(name);
        (experiment.warm_up_s, experiment.seconds) = (0.1, 0.3);
        experiment.systems.push("morphosys".to_owned());
        for system in experiment.systems.clone() {
            let run = measured(&experiment, &system, 3);
            assert!(run.transactions > 0 && run.refused == 0, "{name} {system}: {run:?}");
        }
    }
}

#[test]
fn a_moving_hot_spot_and_the_predictions_of_the_autopilot_are_measured() {
    let mut experiment = small("ycsb-shift");
    let WorkloadSpec::Ycsb(ycsb) = &mut experiment.workload else { panic!("it is YCSB") };
    ycsb.shift_every_s = Some(5.5);
    experiment.seconds = 7.0;
    let run = measured(&experiment, "learned", 1);
    assert!(run.shift.is_some_and(|shift| shift.rise_percent > -50.0), "{:?}", run.shift);
    assert!(run.predicted.transactions.is_some_and(|share| share <= 1.0), "{:?}", run.predicted);
    assert!(run.router_percent > 0.0 && run.router_percent < 100.0, "{}", run.router_percent);
    assert_eq!(measured(&small("ycsb-shift"), "on-demand", 1).predicted, Predicted::default());
}

#[test]
fn slower_cores_make_slower_clusters() {
    let mut experiment = small("ycsb-write-zipf");
    // One core for all clients of a site, so that the cores are the bottleneck.
    experiment.cluster.cores = 1;
    let fast = measured(&experiment, "on-demand", 1);
    experiment.cluster.slowdown *= 4.0;
    let slow = measured(&experiment, "on-demand", 1);
    assert!(slow.throughput_per_s < 0.5 * fast.throughput_per_s, "{slow:?} {fast:?}");
    assert!(slow.busy > 0.5, "{slow:?}");
}

#[test]
fn a_calibration_measures_every_cost_and_can_be_read_again() {
    // The clock counts its readings, because the test checks only that every cost can be measured.
    let asked = Cell::new(0u64);
    let costs = calibrate(&|| asked.replace(asked.get() + 1000)).unwrap();
    let text = costs.to_text();
    assert!(text.lines().skip(1).all(|line| !line.ends_with(" 0.0")), "{text}");
    let slower = [2.0, 1.0, 5.0].map(|factor| costs.slowed(factor));
    assert!((Costs::median(&slower).receive - 2.0 * costs.receive).abs() < 1e-6);
    let again = Costs::read(&text).unwrap();
    assert!((again.receive - costs.receive).abs() < 0.1 && again.receive > 0.0, "{text}");
}

#[test]
fn unknown_names_are_listed_in_errors() {
    let error = Experiment::named("ycbs").unwrap_err();
    assert!(error.starts_with("there is no experiment `ycbs`; there are: ycsb"), "{error}");
    let error = System::named("fast").err().unwrap();
    assert!(error.starts_with("there is no system `fast`; there are: "), "{error}");
    let error = Experiment::read("name = 3").unwrap_err();
    assert!(error.contains("name"), "{error}");
    let text = include_str!("../experiments/ycsb-shift.toml").replace("zipf = 0.75\n", "");
    let error = Experiment::read(&text).unwrap_err();
    assert!(error.starts_with("`of` says how many rows a skew is of"), "{error}");
}
