//! Every planted bug is caught by a checker whose promise it breaks. If one of these tests fails, a
//! checker no longer detects anything.

use isomer_sim::{Plant, SimOptions, run};

/// A planted bug must be found within this number of seeds.
const SEEDS_MAX: u64 = 200;

/// The bugs of ordered tables.
const ORDERED: [Plant; 8] = [
    Plant::EarlyBatch,
    Plant::RepeatedBatch,
    Plant::OwnTime,
    Plant::OwnOutcome,
    Plant::UncheckedBatch,
    Plant::UnsettledBatch,
    Plant::HastySite,
    Plant::LostMove,
];

/// Runs seeds with a planted bug until one of these checkers finds it.
fn caught(plant: Plant, checkers: &[&str]) {
    let backups = plant == Plant::EarlyAck;
    let ordered = ORDERED.contains(&plant);
    let reshard = checkers.contains(&"orders_agree");
    let serializable = checkers == ["serializable"] && !ordered;
    let owners = [Plant::NoFencing, Plant::StaleOwner, Plant::EagerOwner];
    let cluster = owners.contains(&plant) || [Plant::AcksOne, Plant::WrongOffset].contains(&plant);
    // It is rare that a client writes at the moment when a layout is created.
    let times = if plant == Plant::SuddenOrder { 2 } else { 1 };
    let usual = SimOptions::default();
    let plant_it = SimOptions { plant: Some(plant), steps: times * usual.steps, ..usual };
    let options = SimOptions { backups, serializable, ordered, reshard, cluster, ..plant_it };
    let mut others = Vec::new();
    for seed in 1..=SEEDS_MAX {
        let Err(failure) = run(seed, &options) else { continue };
        if checkers.contains(&failure.checker) {
            return println!("{failure}");
        }
        others.push(failure.to_string());
    }
    panic!("{plant} was not found in {SEEDS_MAX} seeds, but this was: {others:#?}");
}

#[test]
fn a_disk_that_loses_what_it_called_durable_breaks_no_lost_write() {
    caught(Plant::LyingDisk, &["no_lost_write"]);
}

#[test]
fn a_log_that_is_cut_for_a_checkpoint_that_a_crash_loses_cannot_be_recovered() {
    caught(Plant::LostCheckpoints, &["no_panic"]);
}

#[test]
fn a_feed_that_drops_events_and_claims_to_be_closed_is_noticed() {
    caught(Plant::DroppedEvents, &["settles", "snapshot_isolation", "copies_agree"]);
}

#[test]
fn a_feed_that_closes_too_early_breaks_snapshot_isolation() {
    caught(Plant::EarlyClose, &["snapshot_isolation"]);
}

#[test]
fn a_replica_that_is_told_other_values_breaks_copies_agree() {
    caught(Plant::GarbledRows, &["copies_agree", "snapshot_isolation"]);
}

#[test]
fn a_replica_that_is_told_other_values_of_a_batch_breaks_one_order() {
    let (plant, ordered) = (Some(Plant::GarbledRows), true);
    let options = SimOptions { plant, ordered, ..SimOptions::default() };
    let mut failures = (1..=SEEDS_MAX).filter_map(|seed| run(seed, &options).err());
    let failure = failures.find(|failure| failure.checker == "one_order").expect("it is found");
    assert!(failure.what.contains("at the replica"), "{failure}");
}

#[test]
fn a_site_that_is_not_told_what_a_session_saw_breaks_session_order() {
    caught(Plant::ForgottenSession, &["session_order"]);
}

#[test]
fn a_transaction_cut_in_two_breaks_snapshot_isolation() {
    caught(Plant::TwoTransactions, &["snapshot_isolation"]);
}

#[test]
fn an_error_after_the_commit_breaks_no_phantom_write() {
    caught(Plant::ErrorAfterCommit, &["no_phantom_write"]);
}

#[test]
fn a_commit_of_nothing_breaks_no_lost_write() {
    caught(Plant::CommitAfterNothing, &["no_lost_write"]);
}

#[test]
fn a_transaction_that_runs_twice_breaks_no_phantom_write() {
    caught(Plant::RepeatedTransaction, &["no_phantom_write"]);
}

#[test]
fn a_second_master_breaks_one_master() {
    caught(Plant::SecondMaster, &["one_master"]);
}

#[test]
fn a_commit_that_its_coordinator_denies_breaks_no_lost_write() {
    caught(Plant::ForgottenDecision, &["no_lost_write"]);
}

#[test]
fn a_link_that_ignores_gaps_is_noticed() {
    caught(Plant::HiddenGaps, &["settles", "snapshot_isolation", "copies_agree"]);
}

#[test]
fn a_commit_that_ignores_which_versions_were_read_loses_updates() {
    caught(Plant::UncheckedCommit, &["open_transactions"]);
}

#[test]
fn a_snapshot_that_moves_is_noticed() {
    caught(Plant::MovingSnapshot, &["open_transactions"]);
}

#[test]
fn row_locks_that_are_released_before_publication_let_writers_meet() {
    caught(Plant::EarlyRelease, &["open_transactions"]);
}

#[test]
fn a_read_that_is_told_before_it_is_durable_is_dirty_after_a_crash() {
    caught(Plant::UnsyncedRead, &["open_transactions"]);
}

#[test]
fn a_savepoint_that_undoes_nothing_is_noticed() {
    caught(Plant::KeptWrite, &["no_lost_write", "open_transactions", "no_phantom_write"]);
}

#[test]
fn a_backup_that_acknowledges_what_it_does_not_have_is_noticed() {
    caught(Plant::EarlyAck, &["backed_up"]);
}

#[test]
fn a_commit_that_does_not_look_at_what_was_read_is_not_serializable() {
    caught(Plant::UnvalidatedReads, &["serializable"]);
}

#[test]
fn a_commit_that_looks_at_no_range_lets_phantoms_in() {
    caught(Plant::UnvalidatedRanges, &["serializable"]);
}

#[test]
fn validation_without_the_locks_of_the_commit_is_too_early() {
    caught(Plant::EarlyValidation, &["serializable"]);
}

#[test]
fn an_order_that_not_all_who_write_know_of_keeps_what_is_not_so() {
    caught(Plant::SuddenOrder, &["orders_agree"]);
}

#[test]
fn rows_that_are_copied_before_writers_of_one_order_have_ended_are_missed() {
    caught(Plant::MissedWriters, &["orders_agree"]);
}

#[test]
fn rows_that_are_copied_without_locks_overwrite_newer_ones() {
    caught(Plant::UnlockedCopy, &["orders_agree", "open_transactions"]);
}

#[test]
fn a_switch_that_does_not_wait_for_writers_lets_two_have_one_row() {
    caught(Plant::EarlySwitch, &["orders_agree", "open_transactions"]);
}

#[test]
fn an_owner_of_a_log_that_is_not_fenced_loses_commits() {
    // A checkpoint of what is not in the log is found when that is opened.
    caught(Plant::NoFencing, &["no_lost_write", "no_panic"]);
}

#[test]
fn a_commit_that_is_acknowledged_before_all_replicas_have_it_is_lost_with_a_leader() {
    // So is it by the owner itself, if it writes on.
    caught(Plant::AcksOne, &["no_lost_write", "no_panic"]);
}

#[test]
fn an_owner_that_shows_what_it_has_for_ever_shows_what_is_old() {
    caught(Plant::StaleOwner, &["snapshot_isolation", "open_transactions", "session_order"]);
}

#[test]
fn an_owner_that_commits_in_the_lease_of_the_one_before_is_missed_in_a_snapshot() {
    caught(Plant::EagerOwner, &["open_transactions", "snapshot_isolation"]);
}

#[test]
fn a_process_that_begins_to_write_before_the_end_of_a_log_breaks_it() {
    caught(Plant::WrongOffset, &["no_panic", "no_lost_write"]);
}

#[test]
fn a_batch_that_runs_before_it_is_durable_is_not_in_the_order() {
    // Or the order ends before the batches of the sites, and cannot be opened.
    caught(Plant::EarlyBatch, &["one_order", "no_panic"]);
}

#[test]
fn a_batch_that_a_site_executes_twice_is_not_in_one_order() {
    caught(Plant::RepeatedBatch, &["one_order"]);
}

#[test]
fn a_batch_at_another_time_at_one_site_is_not_in_one_order() {
    caught(Plant::OwnTime, &["one_order"]);
}

#[test]
fn a_batch_with_another_outcome_at_one_site_is_not_in_one_order() {
    caught(Plant::OwnOutcome, &["one_order"]);
}

#[test]
fn a_batch_that_is_not_checked_loses_updates() {
    caught(Plant::UncheckedBatch, &["open_transactions", "serializable"]);
}

#[test]
fn a_batch_that_is_not_settled_before_the_next_is_lost_at_a_site() {
    caught(Plant::UnsettledBatch, &["one_order", "no_panic", "no_lost_write", "open_transactions"]);
}

#[test]
fn a_site_that_does_not_wait_for_the_order_shows_half_of_a_batch() {
    caught(Plant::HastySite, &["open_transactions", "serializable"]);
}

#[test]
fn a_fused_row_that_is_lost_on_its_move_is_not_in_one_order() {
    caught(Plant::LostMove, &["one_order"]);
}

#[test]
fn plants_are_read_as_they_are_written() {
    for (name, plant) in Plant::ALL {
        assert_eq!((plant.to_string().as_str(), name.parse()), (name, Ok(plant)));
    }
    assert!("moss".parse::<Plant>().unwrap_err().contains("lying-disk"));
}
