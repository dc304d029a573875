//! Runs the golden scripts in `scripts/`; each fixes one interleaving. `UPDATE_GOLDENFILES=1 cargo
//! test -p isomer-sim --test scripts` rewrites the answers.
//!
//! The world is that of the seeded runs without faults: messages take one millisecond, syncs half
//! of one. After each command the world runs until only heartbeats are left. A script holds gates
//! to delay messages.
//!
//! ```text
//!   open accounts[] s1, accounts[10] s2      sites, and a table with partitions there
//!   open static-2pc accounts[] s1, …         the same, with another strategy
//!   rows accounts[0..20) = 100               rows, by an ordinary transaction for each
//!   c1: begin write accounts[5], …           a transaction, which then waits for statements
//!   c1: get accounts[5] · put accounts[5] = 7 · insert · delete · scan accounts[0..5)
//!   c1: commit · rollback                    ends it; a statement without `begin` is its own transaction
//!   c1: begin read committed · begin repeatable read · begin serializable
//!                                            an open transaction, with row locks:
//!   c1: lock accounts[5] · share accounts[5] · savepoint · back 0      besides the above
//!   c2: has seen what c1 has                 c1's client has told c2's
//!   split, merge, add_replica, …             an operator; `op: split …` names it
//!   hold, free                               a gate: messages s1 s2 · requests s1 · answers s1 · disk s1 ·
//!                                            publish s1 · cut s1: two moments of a checkpoint
//!   messages s1 s2                            the messages that a held link keeps
//!   deliver s1 s2 2                          the first two of them
//!   muddle s1 s2                             reverses and doubles them
//!   lose s1 s2                               loses the first of them
//!   crash s1 · restart s1                    keeps what is durable, and nothing else
//!   processes s1+s2 s3+s4                    before `open`: the sites of each process
//!   gone s1 s2 · returns s1 s2               their process fails, and others take over; it rejoins
//!   checkpoint s1                            makes one
//!   wait · wait 60                           100 ms pass · 6 s pass
//!   settle                                   … or why it does not
//!   show design | holdings | copies | log s1
//!   quietly …                                runs a command without output
//! ```
//!
//! Below a command are its effects: steps at sites, messages with events (`⇥`: to or from a site
//! that is down, `╳`: lost), answers to clients, and waits. After every block the checkers check
//! the history so far. After the last one all gates are opened and all sites restarted, the world
//! must settle, and all checkers run again.

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

#[test]
fn failover() {
    group("failover");
}
