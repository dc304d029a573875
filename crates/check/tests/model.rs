//! Checks the checker with a small correct store and with stores that have one bug each. The
//! checker must accept random histories of the correct store and find every bug.
//!
//! ```text
//!   commits, in order      1: x ◀ 1     2: y ◀ 2     3: x ◀ 3
//!   snapshot after 1            └─ sees x [1], y []; may not append to x after commit 3
//! ```

use isomer_check::{History, Level, Op, Outcome, Transaction, judge};
use std::collections::BTreeSet;

const KEYS: [&str; 3] = ["x", "y", "z"];
const SESSIONS: usize = 4;
const TRANSACTIONS: usize = 60;
const SEEDS: u64 = 100;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bug {
    None,
    /// The store does not check for writes committed since the snapshot.
    UpdatesGetLost,
    /// A snapshot may be older than commits that other clients were told of.
    OldSnapshots,
    /// Reads of one transaction come from two different snapshots.
    TornSnapshots,
    /// Uncommitted writes can be read.
    DirtyReads,
    /// An acknowledged commit is lost.
    LostCommits,
    /// A commit is applied twice.
    DoubledCommits,
    /// A failed transaction is applied.
    FailedCommits,
}

/// Returns a random number below `bound` (splitmix64).
fn below(seed: &mut u64, bound: usize) -> usize {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*seed ^ *seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ mixed >> 31) as usize % bound
}

type Append = (&'static str, i64);

/// A transaction in progress.
struct Open {
    transaction: Transaction,
    /// The number of commits that it sees.
    sees: usize,
    own: Vec<Append>,
    left: usize,
}

struct Store {
    level: Level,
    bug: Bug,
    seed: u64,
    step: u64,
    next: i64,
    commits: Vec<Vec<Append>>,
    open: [Option<Open>; SESSIONS],
    history: History,
}

impl Store {
    fn run(level: Level, bug: Bug, seed: u64) -> History {
        let (open, history) = ([const { None }; SESSIONS], History::default());
        let (seed, step, next, commits) = (seed.wrapping_mul(7919), 0, 0, Vec::new());
        let mut store = Store { level, bug, seed, step, next, commits, open, history };
        while store.history.transactions.len() < TRANSACTIONS {
            let session = below(&mut store.seed, SESSIONS);
            store.step(session);
        }
        (0..SESSIONS).for_each(|session| store.end(session, Outcome::Failed));
        store.step += 1;
        let begun = Some(store.step);
        let reads = KEYS.map(|key| Op::Read(key.to_owned(), store.list(store.commits.len(), key)));
        let (name, statements) = ("last".to_owned(), vec![reads.to_vec()]);
        let last = Transaction { name, begun, statements, level, ..Transaction::default() };
        store.history.transactions.push(last);
        store.history
    }

    /// Continues a session: begins a transaction, runs a statement, or ends the transaction.
    fn step(&mut self, session: usize) {
        self.step += 1;
        let newest = self.commits.len();
        let Some(open) = &mut self.open[session] else {
            let old = self.bug == Bug::OldSnapshots && below(&mut self.seed, 4) == 0;
            let sees = newest.saturating_sub(if old { 2 } else { 0 });
            let session_name = Some(format!("s{session}"));
            let (begun, level) = (Some(self.step), self.level);
            let transaction =
                Transaction { session: session_name, begun, level, ..Transaction::default() };
            let left = 1 + below(&mut self.seed, 4);
            self.open[session] = Some(Open { transaction, sees, own: Vec::new(), left });
            return;
        };
        if open.left == 0 {
            let fails = below(&mut self.seed, 8) == 0;
            return self.end(session, if fails { Outcome::Failed } else { Outcome::Committed });
        }
        open.left -= 1;
        if self.level == Level::ReadCommitted {
            open.sees = newest;
        }
        let key = KEYS[below(&mut self.seed, KEYS.len())];
        if below(&mut self.seed, 2) == 0 {
            self.read(session, key)
        } else {
            self.append(session, key)
        }
    }

    fn read(&mut self, session: usize, key: &'static str) {
        let open = self.open[session].as_ref().expect("a transaction is open");
        let torn = self.bug == Bug::TornSnapshots && key == "z";
        let sees = if torn { self.commits.len() } else { open.sees };
        let mut values = self.list(sees, key);
        if self.bug == Bug::DirtyReads {
            let others = self.open.iter().enumerate().filter(|(other, _)| *other != session);
            let others = others.filter_map(|(_, other)| other.as_ref());
            let dirty = others.flat_map(|other| &other.own).filter(|(of, _)| *of == key);
            values.extend(dirty.map(|(_, value)| value));
        }
        values.extend(open.own.iter().filter(|(of, _)| *of == key).map(|(_, value)| value));
        let open = self.open[session].as_mut().expect("a transaction is open");
        open.transaction.statements.push(vec![Op::Read(key.to_owned(), values)]);
    }

    fn append(&mut self, session: usize, key: &'static str) {
        let writes = |open: &Open| open.own.iter().any(|(of, _)| *of == key);
        let mut others = self.open.iter().enumerate().filter(|(other, _)| *other != session);
        if others.any(|(_, other)| other.as_ref().is_some_and(writes)) {
            return self.end(session, Outcome::Failed); // The row is locked: fail, do not wait.
        }
        let open = self.open[session].as_mut().expect("a transaction is open");
        let newer = self.commits[open.sees..].iter().flatten().any(|(of, _)| *of == key);
        if newer && self.bug != Bug::UpdatesGetLost {
            return self.end(session, Outcome::Failed);
        }
        self.next += 1;
        open.own.push((key, self.next));
        open.transaction.statements.push(vec![Op::Append(key.to_owned(), self.next)]);
    }

    fn end(&mut self, session: usize, outcome: Outcome) {
        let Some(Open { mut transaction, own, .. }) = self.open[session].take() else { return };
        self.step += 1;
        transaction.ended = Some(self.step);
        transaction.outcome = outcome;
        transaction.name = format!("T{}", self.history.transactions.len() + 1);
        let by_chance = below(&mut self.seed, 5) == 0;
        let times = match (outcome, self.bug) {
            (Outcome::Committed, Bug::LostCommits) if by_chance => 0,
            (Outcome::Committed, Bug::DoubledCommits) if by_chance => 2,
            (Outcome::Failed, Bug::FailedCommits) => 1,
            (Outcome::Committed, _) => 1,
            _ => 0,
        };
        (0..times).for_each(|_| self.commits.push(own.clone()));
        self.history.transactions.push(transaction);
    }

    fn list(&self, sees: usize, key: &str) -> Vec<i64> {
        let commits = self.commits[..sees].iter().flatten();
        commits.filter(|(of, _)| *of == key).map(|(_, value)| *value).collect()
    }
}

/// The names of the anomalies found in the histories of a store, judged at a level.
fn found(level: Level, bug: Bug, judged: Level) -> BTreeSet<String> {
    let histories = (1..=SEEDS).map(|seed| Store::run(level, bug, seed).at(judged));
    histories.flat_map(|history| judge(&history)).map(|anomaly| anomaly.name).collect()
}

#[test]
fn a_correct_store_shows_no_anomalies() {
    assert_eq!(found(Level::ReadCommitted, Bug::None, Level::ReadCommitted), BTreeSet::new());
    assert_eq!(found(Level::Snapshot, Bug::None, Level::Snapshot), BTreeSet::new());
    assert_eq!(found(Level::Snapshot, Bug::None, Level::ReadCommitted), BTreeSet::new());
}

#[test]
fn a_store_with_a_weaker_level_shows_anomalies() {
    let skewed = found(Level::ReadCommitted, Bug::None, Level::Snapshot);
    assert!(skewed.contains("G-single, read skew"), "{skewed:?}");
    let skewed = found(Level::Snapshot, Bug::None, Level::Serializable);
    let is_g2 = |name: &String| name.starts_with("G2");
    assert!(skewed.contains("G2, write skew") && skewed.iter().all(is_g2), "{skewed:?}");
}

#[test]
fn every_bug_is_found() {
    for (bug, name) in [
        (Bug::UpdatesGetLost, "lost update"),
        (Bug::OldSnapshots, "stale read"),
        (Bug::TornSnapshots, "G-single, read skew"),
        (Bug::DirtyReads, "G1a, aborted read"),
        (Bug::DirtyReads, "G1b, intermediate read"),
        (Bug::LostCommits, "lost append"),
        (Bug::DoubledCommits, "duplicate value"),
        (Bug::FailedCommits, "G1a, aborted read"),
    ] {
        let found = found(Level::Snapshot, bug, Level::Snapshot);
        assert!(found.contains(name), "{name} is not among {found:?}");
    }
}
