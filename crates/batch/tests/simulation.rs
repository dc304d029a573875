//! Seeded simulations. Every guarantee holds for each router under delay, loss, repetition,
//! reordering and crashes. Every planted bug is found by a checker whose guarantee it breaks; if
//! such a test fails, a checker has stopped working.

mod world;

use world::plant::Plant;
use world::{Failure, Seen, World};

/// Events that all runs together must contain; otherwise the runs test less than they claim.
const SEEN: [&str; 16] = [
    "abort",
    "answer",
    "asked for a push",
    "carried home",
    "checkpoint",
    "crash",
    "fused in a range",
    "moved",
    "moved and aborted",
    "provision refused",
    "range moved",
    "repeat",
    "restart",
    "several executors",
    "site added",
    "site removed",
];

#[test]
fn all_guarantees_hold_for_each_router() {
    let mut all = Seen::new();
    for seed in 1..=200 {
        let world = World::new(seed, None);
        let router = world.router;
        match world.run() {
            Ok(seen) => {
                seen.iter().for_each(|(what, times)| *all.entry(what).or_default() += times)
            }
            Err(Failure { checker, what }) => {
                panic!("seed {seed}, {router:?}: {checker} is broken: {what}")
            }
        }
    }
    println!("{all:#?}");
    assert!(SEEN.iter().all(|what| all[what] > 20), "too little was seen: {all:#?}");
}

/// The number of seeds within which a planted bug must be found.
const SEEDS_MAX: u64 = 200;

fn found(plant: Plant, checkers: &[&str]) {
    let mut others = Vec::new();
    for seed in 1..=SEEDS_MAX {
        let Err(failure) = World::new(seed, Some(plant)).run() else { continue };
        if checkers.contains(&failure.checker) {
            return println!(
                "{plant:?}, seed {seed}: {} is broken: {}",
                failure.checker, failure.what
            );
        }
        others.push(failure.checker);
    }
    panic!("{plant:?} was not found in {SEEDS_MAX} seeds, but these were broken: {others:?}");
}

#[test]
fn a_lock_that_is_granted_out_of_order() {
    found(Plant::LockOutOfOrder, &["answers"]);
}

#[test]
fn an_evicted_record_that_does_not_go_home() {
    found(Plant::EvictionForgotten, &["answers", "rows"]);
}

#[test]
fn a_range_read_that_misses_a_fused_record() {
    found(Plant::RangeMissesFused, &["answers"]);
}

#[test]
fn a_move_that_is_forgotten_on_abort() {
    found(Plant::MoveForgottenOnAbort, &["answers", "rows"]);
}

#[test]
fn a_row_that_is_lost_on_the_way() {
    found(Plant::RowLostOnTheWay, &["answers"]);
}

#[test]
fn a_transaction_that_does_not_wait_for_a_push() {
    found(Plant::PushNotAwaited, &["answers"]);
}

#[test]
fn a_request_that_runs_twice() {
    found(Plant::RunTwice, &["histories", "answers"]);
}

#[test]
fn a_checkpoint_without_the_planners_tables() {
    found(Plant::TablesNotSaved, &["copies agree"]);
}

#[test]
fn a_range_that_moves_without_its_rows() {
    found(Plant::RangeLeftBehind, &["answers", "rows"]);
}

#[test]
fn a_range_that_moves_without_its_lock() {
    found(Plant::RangeMovesUnlocked, &["answers", "rows", "copies agree"]);
}

#[test]
fn a_row_that_is_corrupted_on_disk() {
    found(Plant::RowRots, &["copies agree"]);
}

#[test]
fn pushes_that_are_dropped_too_early() {
    found(Plant::PushesForgottenEarly, &["settles"]);
}
