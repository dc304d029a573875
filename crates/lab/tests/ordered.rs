//! Small runs of the experiments of Hermes: a seed repeats exactly, and all guarantees hold.
//!
//! Results are not checked. A run fails by itself if an answer or a row differs from a serial
//! execution of its order. It also fails if two sites plan a batch differently; here each site has
//! its own planner.

use isomer_lab::Costs;
use isomer_lab::ordered::{Experiment, Measured, Metric, SYSTEMS, System, rows, run};
use isomer_plan::generate::LoadTrace;

fn small(name: &str) -> Experiment {
    let found = Experiment::all().into_iter().find(|experiment| experiment.name == name);
    found.unwrap().smoke()
}

fn measured(experiment: &Experiment, system: &str, seed: u64) -> Measured {
    let (system, load) = (System::named(system).unwrap(), LoadTrace::wandering(64).unwrap());
    run(experiment, &system, &Costs::standard(), &load, seed, true)
        .unwrap_or_else(|why| panic!("{} {} seed {seed}: {why}", experiment.name, system.name))
}

#[test]
fn every_experiment_holds_its_guarantees_at_each_point_with_each_of_its_systems() {
    for experiment in Experiment::all() {
        for (_, point) in experiment.smoke().points() {
            for system in &point.systems {
                let run = measured(&point, system, 1);
                assert!(run.transactions > 20, "{} {system}: {run:?}", point.name);
                let parts: f64 = run.parts_ms.iter().sum();
                // Latencies are recorded in microseconds.
                assert!((parts - run.latency_ms).abs() < 0.01 * parts, "{run:?}");
            }
        }
    }
}

#[test]
fn every_system_holds_its_guarantees_with_a_full_fusion_table() {
    let mut experiment = small("hermes-fusion");
    experiment.fusion = Some(0.02);
    for system in SYSTEMS {
        let run = measured(&experiment, system.name, 2);
        let most = 0.02 * 300.0 * f64::from(experiment.cluster.sites);
        assert!(run.fused as f64 <= most && run.transactions > 50, "{}: {run:?}", system.name);
    }
    assert!(measured(&experiment, "hermes", 2).moved > 0.1);
}

#[test]
fn a_seed_repeats_to_the_last_digit() {
    let experiment = small("hermes-google");
    let once = measured(&experiment, "hermes", 1);
    assert_eq!(once, measured(&experiment, "hermes", 1));
    assert_ne!(once, measured(&experiment, "hermes", 2));
}

#[test]
fn an_added_site_gets_hot_records_at_once_and_cold_ones_in_chunks() {
    let experiment = small("hermes-scale-out");
    let run = measured(&experiment, "hermes", 1);
    assert!(run.cold_end_s.is_some_and(|at| at > 0.2) && run.change.is_some(), "{run:?}");
    assert_eq!(measured(&experiment, "hermes-no-cold", 1).cold_end_s, None);
}

#[test]
fn routing_and_locks_are_slowed_with_the_cores() {
    let mut experiment = small("hermes-google");
    let fast = Metric::Scheduling.of(&measured(&experiment, "hermes", 1)).unwrap();
    experiment.cluster.slowdown *= 8.0;
    let slow = Metric::Scheduling.of(&measured(&experiment, "hermes", 1)).unwrap();
    assert!(slow > 4.0 * fast, "{slow} {fast}");
}

#[test]
fn unknown_names_are_listed_in_errors() {
    let error = System::named("fast").err().unwrap();
    assert!(
        error.starts_with("there is no system `fast` of transactions in order; there"),
        "{error}"
    );
    let error = Experiment::read("name = 3").unwrap_err();
    assert!(error.contains("name"), "{error}");
    assert!(rows(&small("hermes-google"), &[]).is_empty());
}
