//! Seeded runs: every promise holds, and a seed repeats to the last letter of its trace.

use isomer_sim::{Faults, SimOptions, run};

#[test]
fn sixty_seeds_keep_every_promise() {
    for seed in 1..=60 {
        let options = SimOptions::default();
        let summary = run(seed, &options).unwrap_or_else(|failure| panic!("{failure}"));
        println!("{summary}");
        assert!(summary.committed > 0, "a run in which nothing commits says nothing");
    }
}

#[test]
fn without_faults_no_answer_is_lost() {
    for seed in 1..=10 {
        let options = SimOptions { faults: Faults::NONE, ..SimOptions::default() };
        let summary = run(seed, &options).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!((summary.unknown, summary.crashes), (0, 0), "{summary}");
    }
}

#[test]
fn a_seed_repeats_exactly_and_another_does_not() {
    let options = SimOptions::default();
    let twice = [1, 1].map(|seed| run(seed, &options).unwrap());
    assert_eq!(twice[0], twice[1]);
    assert_ne!(twice[0].trace_hash, run(2, &options).unwrap().trace_hash);
}

#[test]
fn faults_are_read_as_they_are_written() {
    for faults in [Faults::ALL, Faults::NONE, Faults { stalls: false, ..Faults::ALL }] {
        assert_eq!(faults.to_string().parse(), Ok(faults));
    }
    assert!("floods".parse::<Faults>().unwrap_err().contains("there are: crashes"));
}
