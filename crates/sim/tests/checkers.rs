//! Each checker on handwritten histories: it accepts correct ones, and names the violation in the
//! others.

use isomer_design::{Key, KeyRange, Placement, SiteId, SiteSet, TableId, Time};
use isomer_sim::checkers::{
    copies_agree, no_lost_write, no_phantom_write, one_master, session_order, snapshot_isolation,
};
use isomer_sim::history::{Commit, Copy, History, Op, Outcome, Term, Transaction, Written};

const T: TableId = TableId(1);
const S1: SiteId = SiteId(1);
const S2: SiteId = SiteId(2);

fn key(number: i64) -> Key {
    Key::int(number)
}

fn read(number: i64, value: i64) -> Op {
    Op::Read(T, key(number), Some(value))
}

fn write(number: i64, value: i64) -> Op {
    Op::Write(T, key(number), Some(value))
}

fn transaction(session: u64, snapshot: u64, commit: Option<u64>, ops: &[Op]) -> Transaction {
    let (snapshot, commit) = (Time(snapshot), commit.map(Time));
    let outcome = Outcome::Committed { site: S1, snapshot, commit };
    Transaction { session, ops: ops.to_vec(), outcome }
}

fn commit(time: u64, writes: &[(i64, i64)]) -> Commit {
    let written = |&(number, value)| Written { table: T, key: key(number), value: Some(value) };
    let writes: Vec<Written> = writes.iter().map(written).collect();
    Commit { site: S1, time: Time(time), parts: vec![(S1, writes.clone())], writes }
}

/// Keys 1 and 2 have the value 10, written at time 10; later each is written once more.
fn history(transactions: &[Transaction]) -> History {
    let commits =
        vec![commit(10, &[(1, 10), (2, 10)]), commit(20, &[(1, 20)]), commit(30, &[(2, 30)])];
    History { transactions: transactions.to_vec(), commits, ..History::default() }
}

/// Asserts that the checker's message contains these words.
#[track_caller]
fn says(result: Result<(), String>, words: &str) {
    let said = result.expect_err("this history breaks the promise");
    assert!(said.contains(words), "it says: {said}");
}

#[test]
fn snapshot_isolation_accepts_what_is_promised() {
    let fine = [
        transaction(1, 15, None, &[read(1, 10), read(2, 10)]),
        transaction(2, 25, None, &[read(1, 20), read(2, 10)]),
        transaction(3, 30, Some(40), &[read(2, 30), write(2, 40), read(2, 40)]),
    ];
    let mut history = history(&fine);
    history.commits.push(commit(40, &[(2, 40)]));
    assert_eq!(snapshot_isolation(&history), Ok(()));
}

#[test]
fn snapshot_isolation_accepts_write_skew() {
    let skewed = [
        transaction(1, 35, Some(40), &[read(1, 20), read(2, 30), write(1, 40)]),
        transaction(2, 35, Some(41), &[read(1, 20), read(2, 30), write(2, 41)]),
    ];
    let mut history = history(&skewed);
    history.commits.extend([commit(40, &[(1, 40)]), commit(41, &[(2, 41)])]);
    assert_eq!(snapshot_isolation(&history), Ok(()));
}

#[test]
fn snapshot_isolation_names_each_anomaly() {
    let judged = |transactions: &[Transaction]| snapshot_isolation(&history(transactions));
    let one = |snapshot, ops: &[Op]| judged(&[transaction(1, snapshot, None, ops)]);
    says(one(15, &[read(1, 77)]), "dirty read");
    says(one(15, &[read(1, 10), read(1, 20)]), "non-repeatable read");
    says(one(15, &[read(2, 10), read(1, 20)]), "read skew");
    says(one(25, &[read(1, 10)]), "stale read");
    says(one(15, &[write(1, 50), read(1, 10)]), "its own write");
    let fork = [
        transaction(1, 25, None, &[read(1, 20), read(2, 10)]),
        transaction(2, 35, None, &[read(1, 10), read(2, 30)]),
    ];
    says(judged(&fork), "long fork");
    let scan = |rows: &[(i64, i64)]| {
        let rows = rows.iter().map(|&(number, value)| (key(number), value)).collect();
        one(15, &[Op::Scan(T, KeyRange::ints(0, 9), rows)])
    };
    assert_eq!(scan(&[(1, 10), (2, 10)]), Ok(()));
    says(scan(&[(1, 10)]), "lacks 2 = 10");
    says(scan(&[(1, 10), (2, 10), (3, 5)]), "phantom read");
}

#[test]
fn snapshot_isolation_names_a_lost_update() {
    let late = transaction(1, 15, Some(40), &[read(1, 10), write(1, 40)]);
    let mut history = history(&[late]);
    history.commits.push(commit(40, &[(1, 40)]));
    says(snapshot_isolation(&history), "lost update of t1[1]: 20 was written @20");
}

#[test]
fn session_order_names_an_inversion() {
    let order = |second| {
        let first = transaction(1, 15, Some(20), &[write(1, 20)]);
        session_order(&history(&[first, transaction(1, second, None, &[])]))
    };
    assert_eq!(order(20), Ok(()));
    says(order(19), "transaction inversion: session 1 committed at s1 @20");
}

#[test]
fn no_lost_write_finds_what_is_missing_or_torn() {
    let told = |time, ops: &[Op]| no_lost_write(&history(&[transaction(1, 5, Some(time), ops)]));
    assert_eq!(told(10, &[write(1, 10), write(2, 10)]), Ok(()));
    says(told(11, &[write(1, 10)]), "lost write");
    says(told(10, &[write(1, 10), write(2, 11)]), "torn write");
}

#[test]
fn no_phantom_write_wants_an_owner_for_every_commit() {
    let asked = |outcome: Outcome| {
        let ops = vec![write(1, 20)];
        let commits = vec![commit(20, &[(1, 20)])];
        let transactions = vec![Transaction { session: 7, ops, outcome }];
        no_phantom_write(&History { transactions, commits, ..History::default() })
    };
    let (snapshot, time) = (Time(10), Some(Time(20)));
    assert_eq!(asked(Outcome::Committed { site: S1, snapshot, commit: time }), Ok(()));
    assert_eq!(asked(Outcome::Unknown), Ok(()));
    says(asked(Outcome::Nothing("rolled back".into())), "told it had no effect: rolled back");
    let twice =
        History { commits: vec![commit(1, &[(1, 1)]), commit(2, &[(1, 1)])], ..one_unknown() };
    says(no_phantom_write(&twice), "asked for it only once");
    let nobody = History { commits: vec![commit(1, &[(9, 9)])], ..one_unknown() };
    says(no_phantom_write(&nobody), "nobody asked for it");
}

fn one_unknown() -> History {
    let (ops, outcome) = (vec![write(1, 1)], Outcome::Unknown);
    History { transactions: vec![Transaction { session: 1, ops, outcome }], ..History::default() }
}

#[test]
fn one_master_finds_rivals_usurpers_and_strangers() {
    let term = |site, from, until: Option<u64>| {
        let (from, until) = (Time(from), until.map(Time));
        Term { site, table: T, range: KeyRange::all(), from, until }
    };
    let judged = |terms: &[Term], master| {
        let placements = vec![(T, KeyRange::all(), Placement::at(master))];
        let commits = vec![commit(20, &[(1, 20)])];
        one_master(&History { terms: terms.to_vec(), commits, placements, ..History::default() })
    };
    let in_turn = [term(S1, 1, Some(30)), term(S2, 40, None)];
    assert_eq!(judged(&in_turn, S2), Ok(()));
    says(judged(&[term(S1, 1, Some(41)), term(S2, 40, None)], S2), "two masters at one time");
    says(judged(&[term(S1, 1, Some(15)), term(S2, 16, None)], S2), "without being its master");
    says(judged(&in_turn, S1), "the design says t1[..) master s1, the sites say: s2");
    says(judged(&in_turn[..1], S1), "the sites say: nobody");
}

#[test]
fn copies_agree_compares_rows_versions_and_places() {
    let copy = |site, source, version, rows: &[(i64, i64)]| Copy {
        site,
        table: T,
        range: KeyRange::all(),
        version,
        source,
        followers: SiteSet::EMPTY,
        rows: rows.iter().map(|&(number, value)| (key(number), value)).collect(),
    };
    let judged = |copies: &[Copy]| {
        let placements = vec![(T, KeyRange::all(), Placement::new(S1, [S2]))];
        copies_agree(&History { copies: copies.to_vec(), placements, ..history(&[]) })
    };
    let rows = [(1, 20), (2, 30)];
    let master = copy(S1, None, 4, &rows);
    assert_eq!(judged(&[master.clone(), copy(S2, Some(S1), 4, &rows)]), Ok(()));
    says(
        judged(&[master.clone(), copy(S2, Some(S1), 3, &rows)]),
        "has version 3, its master's has 4",
    );
    says(judged(&[master.clone(), copy(S2, Some(S1), 4, &rows[..1])]), "lacks 2 = 30");
    says(
        judged(&[master.clone(), copy(S2, Some(S1), 4, &[(1, 20), (2, 31)])]),
        "2 = 31, and not 30",
    );
    says(judged(&[master]), "is to have master s1 replicas s2");
}
