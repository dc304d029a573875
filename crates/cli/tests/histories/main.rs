//! Histories over the wire: clients of a real server append, read and transfer under faults and
//! changes. Their observations must be free of anomalies, as `isomer_check` defines them.
//!
//! ```text
//!   3 clients   appends to lists, reads of lists       ─┐
//!   2 clients   transfers between accounts, sums        ├──▶ observations ──▶ judge
//!   trouble     changes of the design, DDL,             │
//!               kill -9 and restart, SIGSTOP, SIGCONT;  │
//!               in a cluster also of nodes and brokers, │
//!               partitions of networks, full disks     ─┘
//! ```
//!
//! The short form ends after [`ENOUGH`] commits; with `ISOMER_HISTORY_SECONDS` each test runs at
//! least that long. `ISOMER_SEED` is the seed; threads and processes add nondeterminism. A history
//! with an anomaly is written to a file, which `cargo run -p isomer-check -- FILE` judges again.

mod accounts;
#[path = "../../../kafka/tests/broker/process.rs"]
mod broker;
mod brokers;
mod chance;
mod lists;
mod machines;
mod server;
mod trouble;

use accounts::Ledger;
use chance::Chance;
use isomer_check::{Anomaly, History, Level, judge};
use lists::Recorder;
use server::Server;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Commits of the short form, and how often each trouble must have occurred.
const ENOUGH: u64 = 1200;
const OFTEN: u64 = 3;

/// Rounds within which snapshot isolation shows a write skew.
const ROUNDS_MAX: usize = 10;

/// The limit for each wait of a test: many times what a slow machine needs.
const LIMIT: Duration = Duration::from_secs(180);

/// A disturbance that runs beside the clients, and its name in the counts.
type Trouble = (&'static str, fn(&Run));

/// The state that all threads of a run share.
pub(crate) struct Run {
    pub(crate) server: Server,
    pub(crate) seed: u64,
    pub(crate) commits: AtomicU64,
    /// How often each trouble has occurred.
    happened: Mutex<BTreeMap<&'static str, u64>>,
    stop: AtomicBool,
    name: &'static str,
    /// The isolation level of all transactions on lists; `None`: drawn for each.
    pub(crate) level: Option<Level>,
    /// True if the tables are ordered: their histories are serializable at every level.
    is_ordered: bool,
}

/// Ends all threads. If one of them panics, the others may wait for the server, so it is killed.
struct End<'r>(&'r Run);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::SeqCst);
        if std::thread::panicking() {
            self.0.server.kill();
        }
    }
}

impl Run {
    fn new(name: &'static str) -> Run {
        Run::of(name, Server::start(name))
    }

    fn of(name: &'static str, server: Server) -> Run {
        let seed = std::env::var("ISOMER_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or(1);
        eprintln!("{name}: ISOMER_SEED={seed}");
        let (commits, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let happened = Mutex::default();
        Run { server, seed, commits, happened, stop, name, level: None, is_ordered: false }
    }

    /// The same run, with all transactions on lists at one level.
    fn at(self, level: Level) -> Run {
        Run { level: Some(level), ..self }
    }

    /// The same run, on ordered tables.
    fn ordered(self) -> Run {
        Run { is_ordered: true, ..self }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    pub(crate) fn chance(&self, of: u64) -> Chance {
        Chance::new(self.seed, of)
    }

    /// Counts a trouble.
    pub(crate) fn happened(&self, what: &'static str) {
        *self.happened.lock().expect("no thread panics with it").entry(what).or_default() += 1;
    }

    /// Waits until `more` further transactions have committed, or the run is over.
    pub(crate) fn wait_for_commits(&self, more: u64) {
        let goal = self.commits.load(Ordering::SeqCst) + more;
        wait_for("commits", || self.commits.load(Ordering::SeqCst) >= goal || self.is_over());
    }

    /// Lets clients work under `troubles`, and judges their observations.
    fn judge(self, troubles: &[Trouble]) -> History {
        let (recorder, ledger) = (Recorder::default(), Ledger::default());
        let with = if self.is_ordered { "with (isolation = ordered)" } else { "" };
        self.server.client().batch_execute(&lists::table(with)).expect("a table");
        self.server.client().batch_execute(&accounts::tables(with)).expect("tables");
        std::thread::scope(|scope| {
            let end = End(&self);
            let (run, recorder, ledger) = (&self, &recorder, &ledger);
            let clients = (0..3).map(|at| scope.spawn(move || lists::client(run, recorder, at)));
            let clients: Vec<_> = clients.collect();
            let tellers: Vec<_> =
                (0..2).map(|at| scope.spawn(move || accounts::client(run, ledger, at))).collect();
            let threads = troubles.iter().map(|(_, trouble)| scope.spawn(move || trouble(run)));
            let threads: Vec<_> = clients.into_iter().chain(tellers).chain(threads).collect();
            self.go_on(troubles, || threads.iter().any(|thread| thread.is_finished()));
            drop(end);
            for thread in threads {
                if let Err(fault) = thread.join() {
                    std::panic::resume_unwind(fault);
                }
            }
        });
        lists::read_all(&self, &recorder);
        let bank = accounts::read_all(&self, ledger);
        let mut history = recorder.into_history();
        if self.is_ordered {
            history = history.at(Level::Serializable);
        }
        self.says_nothing(&judge(&history), "history", || history.to_text());
        self.says_nothing(&bank.judge(), "bank", || format!("{bank:#?}"));
        let (transactions, transfers) = (history.transactions.len(), bank.transfers.len());
        let (name, happened) =
            (self.name, &*self.happened.lock().expect("no thread panicked with it"));
        eprintln!(
            "{name}: {transactions} transactions on lists, {transfers} transfers, {happened:?}; nothing lost, no anomaly"
        );
        history
    }

    /// Writes the observations to a file and panics, if there is an anomaly.
    fn says_nothing(&self, wrong: &[Anomaly], kind: &str, text: impl Fn() -> String) {
        if !wrong.is_empty() {
            let path = self.server.folder.with_extension(kind);
            std::fs::write(&path, text()).expect("a file for the analysis");
            let told: Vec<String> = wrong.iter().take(5).map(ToString::to_string).collect();
            let (count, told, path) = (wrong.len(), told.join("\n"), path.display());
            panic!("{count} anomalies; the whole {kind} is in {path}:\n{told}");
        }
    }

    /// Waits until there are enough commits and troubles, or a thread has ended early.
    #[allow(clippy::disallowed_methods, reason = "the long form ends by time")]
    fn go_on(&self, troubles: &[Trouble], has_failed: impl Fn() -> bool) {
        let seconds = std::env::var("ISOMER_HISTORY_SECONDS").ok();
        let seconds: Option<u64> = seconds.and_then(|seconds| seconds.parse().ok());
        let until = Instant::now() + Duration::from_secs(seconds.unwrap_or(0));
        wait_for("enough commits", || {
            let happened = self.happened.lock().expect("no thread panics with it");
            let often = |(name, _): &(&str, _)| happened.get(name).is_some_and(|&n| n >= OFTEN);
            let is_enough = self.commits.load(Ordering::SeqCst) >= ENOUGH;
            let is_enough = is_enough && troubles.iter().all(often);
            has_failed() || (is_enough && Instant::now() >= until)
        });
    }
}

/// Waits until a condition holds; panics after the limit.
#[track_caller]
#[allow(clippy::disallowed_methods, reason = "the limit ends a test that has failed already")]
pub(crate) fn wait_for(what: &str, is: impl Fn() -> bool) {
    let seconds = std::env::var("ISOMER_HISTORY_SECONDS").ok().and_then(|text| text.parse().ok());
    let limit = LIMIT + Duration::from_secs(seconds.unwrap_or(0));
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < limit, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

const DESIGNS: Trouble = ("designs", trouble::designs);
const RESHARDS: Trouble = ("reshards", trouble::reshards);

#[test]
fn while_the_design_and_the_definitions_change() {
    Run::new("changed").judge(&[DESIGNS, ("definitions", trouble::definitions)]);
}

#[test]
fn while_the_server_is_killed_and_starts_again() {
    Run::new("killed").judge(&[DESIGNS, ("kills", trouble::kills)]);
}

#[cfg(feature = "kafka")]
#[test]
#[ignore = "it takes minutes: make cluster"]
fn while_machines_of_a_cluster_and_its_brokers_are_killed_stand_still_and_are_cut_off() {
    let Some(server) = Server::start_cluster("cluster") else { return };
    Run::of("cluster", server).judge(&[DESIGNS, ("faults", trouble::cluster_faults)]);
}

#[test]
fn while_shard_keys_change() {
    Run::new("resharded").judge(&[DESIGNS, RESHARDS]);
}

#[test]
fn while_shard_keys_change_and_the_server_is_killed() {
    Run::new("resharded_killed").judge(&[RESHARDS, ("kills", trouble::kills)]);
}

#[test]
fn while_the_server_is_stopped_and_goes_on() {
    Run::new("stopped").judge(&[DESIGNS, ("stops", trouble::stops)]);
}

#[test]
fn serializable_while_the_design_and_the_definitions_change() {
    let run = Run::new("serializable").at(Level::Serializable);
    run.judge(&[DESIGNS, ("definitions", trouble::definitions)]);
}

#[test]
fn serializable_while_the_server_is_killed_and_starts_again() {
    let run = Run::new("serializable-killed").at(Level::Serializable);
    run.judge(&[DESIGNS, ("kills", trouble::kills)]);
}

#[test]
fn ordered_while_the_design_and_the_definitions_change() {
    Run::new("ordered").ordered().judge(&[DESIGNS, ("definitions", trouble::definitions)]);
}

#[test]
fn ordered_while_the_server_is_killed_and_starts_again() {
    Run::new("ordered-killed").ordered().judge(&[DESIGNS, ("kills", trouble::kills)]);
}

#[test]
fn ordered_while_shard_keys_change_and_the_server_is_killed() {
    Run::new("ordered-resharded").ordered().judge(&[RESHARDS, ("kills", trouble::kills)]);
}

/// A history at snapshot isolation must have a write skew that the serializable checker finds. This
/// shows that the checker would notice one.
#[test]
fn snapshots_are_not_serializable() {
    for _ in 0..ROUNDS_MAX {
        let history = Run::new("skewed").at(Level::Snapshot).judge(&[DESIGNS]);
        if let Some(anomaly) = judge(&history.at(Level::Serializable)).first() {
            return eprintln!("as it should be: {anomaly}");
        }
    }
    panic!("no write skew in {ROUNDS_MAX} rounds: does the checker look for it?");
}
