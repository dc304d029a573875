//! Runs the golden scripts in `scripts/`: one interleaving each, written down as a lab notebook.
//! `UPDATE_GOLDENFILES=1 cargo test -p isomer-sim --test scripts` writes the answers anew.
//!
//! The world is the one of the seeded runs, but orderly: messages take one millisecond, syncs half of
//! one, and after each command the world runs until nothing is left to do but heartbeats. What a
//! script wants late, it holds.
//!
//! ```text
//!   open accounts[] s1, accounts[10] s2      sites, and a table with partitions there
//!   open static-2pc accounts[] s1, …         the same, with another strategy
//!   rows accounts[0..20) = 100               rows, by an ordinary transaction for each
//!   c1: begin write accounts[5], …           a transaction, which then waits for statements
//!   c1: get accounts[5] · put accounts[5] = 7 · insert · delete · scan accounts[0..5)
//!   c1: commit · rollback                    ends it; statements without `begin` are one of their own
//!   c1: begin read committed · begin repeatable read · begin serializable
//!                                            one that is open, with row locks:
//!   c1: lock accounts[5] · share accounts[5] · savepoint · back 0      besides the above
//!   c2: has seen what c1 has                 it was told
//!   split, merge, add_replica, …             an operator; `op: split …` gives it a name
//!   hold, free                               messages s1 s2 · requests s1 · answers s1 · disk s1 ·
//!                                            publish s1 · cut s1: two moments of a checkpoint
//!   messages s1 s2                            what a held link keeps
//!   deliver s1 s2 2                          the first two of them
//!   muddle s1 s2                             reverses and doubles them
//!   lose s1 s2                               loses the first of them
//!   crash s1 · restart s1                    keeps what is durable, and nothing else
//!   processes s1+s2 s3+s4                    before `open`: which sites share a process
//!   gone s1 s2 · returns s1 s2               their process is lost, and others take over; it is back
//!   checkpoint s1                            makes one
//!   wait                                     100 ms pass
//!   settle                                   … or why it does not
//!   show design | holdings | copies | log s1
//!   quietly …                                does it, and says nothing
//! ```
//!
//! Below a command stands what it caused: steps at sites, messages with events (`⇥`: to or from the dead, `╳`: lost), what a
//! client was told, and who waits for what. After every block the checkers look at the history so
//! far; after the last one everything is healed and must settle, and all checkers look again.

mod script;

use std::path::{Path, PathBuf};

fn group(name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts").join(name);
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        println!("script {}", path.display());
        goldenscript::run(&mut script::Runner::default(), &path).unwrap();
    }
}

#[test]
fn figure_2_of_the_paper() {
    group("figure_2");
}

#[test]
fn anomalies_do_not_happen() {
    group("anomalies");
}

#[test]
fn operators_race_with_transactions_and_each_other() {
    group("races");
}

#[test]
fn transactions_over_several_sites_commit_everywhere_or_nowhere() {
    group("two_phase");
}

#[test]
fn open_transactions_lock_rows_and_see_one_time() {
    group("open");
}

#[test]
fn crashes_leave_one_side_of_a_change() {
    group("crashes");
}

#[test]
fn replicas_follow_through_every_change() {
    group("replication");
}

#[test]
fn commits_wait_for_their_backups() {
    group("backups");
}
