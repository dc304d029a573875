//! Ordered tables over several processes: commits of all gateways pass through the conductor, whose
//! order is in a log that outlives it.

use super::channel::Cluster;
use super::service::Service;
use super::succession::{options, started};
use super::{begin, read, total, until, write};
use isomer_cluster::{
    CancelToken, CheckedWrite, CheckedWrites, Database, Expect, Gateway, Isolation, OpenError,
    OpenTransaction,
};
use isomer_design::{
    Backups, Column, ColumnType, Direction, Footprint, Key, KeyRange, Placement, Schema, SiteId,
    TableId,
};
use isomer_strategy::OnDemand;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

pub(super) const ACCOUNTS: i64 = 40;
pub(super) const START: i64 = 100;

/// Ten accounts at each of four sites, in an ordered table that `db` creates.
pub(super) fn accounts(db: &Database, backups: u8) -> TableId {
    let columns = ["id", "balance"].map(|name| Column::new(name, ColumnType::Int64));
    let schema = Schema::new("accounts", columns.to_vec(), &["id"]).expect("a schema");
    let start = |at: u16| if at == 1 { Key::min() } else { Key::int(i64::from(at - 1) * 10) };
    let placed: Vec<_> = (1..=4).map(|at| (start(at), SiteId(at))).collect();
    let table = db.create_table(schema, &placed).expect("a table");
    if backups > 0 {
        db.set_backups(table, Backups { count: backups, on_disk: true }).expect("enough processes");
    }
    let put = |id| {
        let row = Some(START.to_le_bytes().to_vec());
        (Key::int(id), CheckedWrite { expect: Expect::Anything, row })
    };
    // One transaction for each site: the strategy would bring the rows of a larger one together.
    for first in (0..ACCOUNTS).step_by(10) {
        let ids = first..first + 10;
        let footprint = ids.clone().fold(Footprint::new(), |f, id| f.write(table, Key::int(id)));
        let rows: BTreeMap<_, _> = ids.map(put).collect();
        let writes = CheckedWrites::from([(table, rows)]);
        db.write(&mut db.session(), &footprint, &writes).expect("rows");
    }
    db.set_ordered(&[table], true).expect("the logs outlive their processes");
    table
}

/// Moves 1 from one account to another. `Ok(false)`: a conflict.
pub(super) fn transfer(
    gateway: &Arc<Gateway>,
    table: TableId,
    from: i64,
    to: i64,
) -> Result<bool, OpenError> {
    let mut txn = begin(gateway, Isolation::RepeatableRead);
    for (id, change) in [(from, -1), (to, 1)] {
        let Some(before) = try_read(&mut txn, table, id)? else { return Ok(false) };
        match write(&mut txn, table, id, before + change) {
            Err(OpenError::Changed) => return Ok(false),
            written => written?,
        }
    }
    match txn.commit() {
        Ok(_) => Ok(true),
        Err(OpenError::Changed | OpenError::ReadChanged { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

pub(super) fn try_read(
    txn: &mut OpenTransaction,
    table: TableId,
    id: i64,
) -> Result<Option<i64>, OpenError> {
    let mut found = None;
    txn.next_statement();
    txn.get(table, &Key::int(id), |row| found = Some(super::balance(row)))?;
    Ok(found)
}

/// Transfers at a gateway until told to stop. Counts those that were acknowledged. Errors are
/// passed over: their transfers happened as a whole or not at all.
pub(super) fn load(
    gateway: &Arc<Gateway>,
    table: TableId,
    seed: i64,
    stop: &AtomicBool,
    done: &AtomicU64,
) {
    let mut at = seed;
    while !stop.load(Ordering::SeqCst) {
        at = (at * 75 + 74) % 65_537;
        let (from, to) = (at % ACCOUNTS, at / ACCOUNTS % ACCOUNTS);
        if from != to && matches!(transfer(gateway, table, from, to), Ok(true)) {
            done.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Stops the load when it is dropped, also if the test fails.
pub(super) struct Stops<'s>(pub(super) &'s AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

pub(super) fn sum(gateway: &Arc<Gateway>, table: TableId) -> (i64, i64) {
    total(&mut begin(gateway, Isolation::RepeatableRead), table, Direction::Forward)
}

pub(super) fn second(cluster: &Cluster) -> Arc<Gateway> {
    let followed = Database::follow(cluster.nodes[0].clone(), "b", || false);
    Gateway::new(followed.expect("the conductor is there"))
}

#[test]
fn gateways_commit_in_one_order_over_all_processes() {
    let (logs, folder) = (Service::new(1), tempfile::tempdir().expect("a folder"));
    let cluster = started(folder.path(), &logs);
    let (a, b) = (cluster.gateway.clone(), second(&cluster));
    let table = accounts(b.database(), 0);
    until("the other gateway knows the table", || a.database().find_table("accounts").is_some());
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let _stops = Stops(&stop);
        for (seed, gateway) in [(1, &a), (2, &a), (3, &b), (4, &b)] {
            let (stop, done) = (&stop, &done);
            scope.spawn(move || load(gateway, table, seed, stop, done));
        }
        let rounds = AtomicU64::new(0);
        until("transfers of both are done", || {
            let round = rounds.fetch_add(1, Ordering::SeqCst);
            let at = if round.is_multiple_of(2) { &a } else { &b };
            assert_eq!(sum(at, table), (ACCOUNTS, ACCOUNTS * START), "round {round}");
            done.load(Ordering::SeqCst) > 200
        });
    });
    let counters = a.database().order_counters().expect("the conductor orders commits");
    assert!(counters.commits - counters.conflicts >= 200, "{counters:?}");
    assert_eq!(b.database().order_counters(), None);
    // A switch back: the same rows, with locks.
    b.database().set_ordered(&[table], false).expect("no transaction runs");
    assert!(transfer(&a, table, 3, 33).expect("both are there"));
    assert_eq!(sum(&b, table), (ACCOUNTS, ACCOUNTS * START));
}

#[test]
fn those_that_repeat_a_transaction_queue_for_the_row() {
    let (logs, folder) = (Service::new(1), tempfile::tempdir().expect("a folder"));
    let cluster = started(folder.path(), &logs);
    let (a, b) = (cluster.gateway.clone(), second(&cluster));
    let table = accounts(a.database(), 0);
    let is_ordered = |gateway: &Arc<Gateway>| {
        gateway.database().design().table(table).is_ok_and(|table| table.is_ordered())
    };
    until("the other gateway knows the table", || is_ordered(&b));
    // Three clients read the row, and one of them is first.
    let clients: Vec<Arc<CancelToken>> = (0..3).map(|_| Arc::default()).collect();
    let add = |gateway: &Arc<Gateway>, client: &Arc<CancelToken>| {
        let mut txn = gateway.begin(Isolation::RepeatableRead, client.clone());
        let before = try_read(&mut txn, table, 5).expect("a read").expect("a row");
        write(&mut txn, table, 5, before + 1).expect("no row is locked");
        txn
    };
    let [first, second, third] = [(&a, 0), (&a, 1), (&b, 2)].map(|(at, n)| add(at, &clients[n]));
    first.commit().expect("it is the first");
    for other in [second, third] {
        assert!(matches!(other.commit(), Err(OpenError::Changed | OpenError::ReadChanged { .. })));
    }
    // The others come again: one waits until the other has committed.
    let second = add(&a, &clients[1]);
    thread::scope(|scope| {
        let third = scope.spawn(|| add(&b, &clients[2]).commit());
        until("the third client waits", || b.waiting() == 1);
        second.commit().expect("no other client was first");
        third.join().expect("no panic").expect("it has read what the second has written");
    });
    assert_eq!(read(&mut begin(&b, Isolation::RepeatableRead), table, 5), Some(START + 3));
    until("the row is free", || a.locked_rows() == 0);
}

#[test]
fn a_commit_is_whole_though_sites_and_the_conductor_fail() {
    for backups in [1, 0] {
        let (logs, folder) = (Service::new(1), tempfile::tempdir().expect("a folder"));
        let mut cluster = started(folder.path(), &logs);
        let a = cluster.gateway.clone();
        let table = accounts(a.database(), backups);
        let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
        // The process of site 4 fails, and comes back with what its log has. It stays until all
        // clients have ended.
        let back = thread::scope(|scope| {
            let _stops = Stops(&stop);
            for seed in 1..4 {
                let (a, stop, done) = (&a, &stop, &done);
                scope.spawn(move || load(a, table, seed, stop, done));
            }
            until("transfers are done", || done.load(Ordering::SeqCst) > 50);
            cluster.weather.end(&[4]);
            thread::yield_now();
            let before = done.load(Ordering::SeqCst);
            if backups > 0 {
                until("they go on", || done.load(Ordering::SeqCst) > before + 50);
            }
            let back = cluster.restart(2, options(folder.path(), &logs, 9));
            let before = done.load(Ordering::SeqCst);
            until("they go on with it", || done.load(Ordering::SeqCst) > before + 50);
            assert_eq!(sum(&a, table), (ACCOUNTS, ACCOUNTS * START), "{backups} backups");
            back
        });
        drop(back);
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "clients of a process that fails wait for ever")]
fn the_next_conductor_goes_on_with_the_order() {
    let (logs, folder) = (Service::new(1), tempfile::tempdir().expect("a folder"));
    let mut cluster = started(folder.path(), &logs);
    let table = accounts(cluster.gateway.database(), 1);
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    for seed in 1..4 {
        let (a, stop, done) = (cluster.gateway.clone(), stop.clone(), done.clone());
        thread::spawn(move || load(&a, table, seed, &stop, &done));
    }
    until("transfers are done", || done.load(Ordering::SeqCst) > 50);
    // In the middle of a batch.
    cluster.weather.end(&[1, 2]);
    stop.store(true, Ordering::SeqCst);
    let heir = cluster.nodes.remove(0);
    let db = Database::succeed(heir, OnDemand::default()).expect("it takes its place");
    let heir = Gateway::new(db);
    assert_eq!(sum(&heir, table), (ACCOUNTS, ACCOUNTS * START));
    for id in 0..ACCOUNTS {
        // The heir may just execute transfers that have a place in the order.
        until("the transfer is done", || {
            transfer(&heir, table, id, (id + 11) % ACCOUNTS).expect("others have taken over")
        });
    }
    assert_eq!(sum(&heir, table), (ACCOUNTS, ACCOUNTS * START));
    assert!(read(&mut begin(&heir, Isolation::RepeatableRead), table, 0).is_some());
}

#[test]
#[allow(clippy::disallowed_methods, reason = "clients of a process that fails wait for ever")]
fn a_site_that_has_just_returned_does_not_hold_up_the_next_conductor() {
    let (logs, folder) = (Service::new(1), tempfile::tempdir().expect("a folder"));
    let mut cluster = started(folder.path(), &logs);
    let a = cluster.gateway.clone();
    let table = accounts(a.database(), 1);
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    for seed in 1..4 {
        let (a, stop, done) = (a.clone(), stop.clone(), done.clone());
        thread::spawn(move || load(&a, table, seed, &stop, &done));
    }
    until("transfers are done", || done.load(Ordering::SeqCst) > 50);
    cluster.weather.end(&[4]);
    let is_backed = |placement: &Placement| {
        placement.master != SiteId(4) && !placement.replicas.without(SiteId(4)).is_empty()
    };
    until("others have what it had", || {
        let (design, keys) = (a.database().design(), KeyRange::all());
        design.partitions_in(table, &keys).all(|(_, placement)| is_backed(&placement))
    });
    // In the middle of a batch. The site is back, with partitions that others have now, and waits
    // for the order.
    cluster.weather.end(&[1, 2]);
    stop.store(true, Ordering::SeqCst);
    let _back = cluster.restart(2, options(folder.path(), &logs, 9));
    let heir = cluster.nodes.remove(0);
    let db = Database::succeed(heir, OnDemand::default()).expect("it takes its place");
    let (design, keys) = (db.design(), KeyRange::all());
    let is_there = |(_, placement): (_, Placement)| placement.master > SiteId(2);
    assert!(design.partitions_in(table, &keys).all(is_there), "others have taken over");
    assert_eq!(sum(&Gateway::new(db), table), (ACCOUNTS, ACCOUNTS * START));
}
