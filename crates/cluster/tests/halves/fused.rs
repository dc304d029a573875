//! Fused rows: rows of ordered tables that move to the process that writes them, and home again.
//! Site 1 and 2 are at the conductor, 3 and 4 at two nodes; a second gateway is at site 3.

use super::channel::Cluster;
use super::ordered::{ACCOUNTS, START, Stops, accounts, load, second, sum, transfer, try_read};
use super::service::Service;
use super::succession::{options, started};
use super::{begin, read, until, write};
use isomer_cluster::{FusedRows, Gateway, Isolation, OpenError, Progress, drain_reason};
use isomer_design::{Change, Direction, Key, KeyRange, Plan, SiteId, SiteSet, Step, TableId};
use isomer_strategy::OnDemand;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// A cluster with two gateways that let rows move, and an ordered table.
struct Fusing {
    cluster: Cluster,
    a: Arc<Gateway>,
    b: Arc<Gateway>,
    table: TableId,
}

fn fusing(folder: &std::path::Path, logs: &Arc<Service>, backups: u8, limit: usize) -> Fusing {
    let cluster = started(folder, logs);
    let (a, b) = (cluster.gateway.clone(), second(&cluster));
    let table = accounts(a.database(), backups);
    let fusing = Fusing { cluster, a, b, table };
    fusing.let_move(limit);
    let is_ready = |gateway: &Arc<Gateway>| {
        let design = gateway.database().design();
        let fused = design.find_table("isomer_fused");
        fused.is_some_and(|(_, it)| it.is_ordered() && it.backups().count == backups)
    };
    until("both gateways know the fused table", || is_ready(&fusing.a) && is_ready(&fusing.b));
    fusing
}

impl Fusing {
    fn let_move(&self, limit: usize) {
        for gateway in [&self.a, &self.b] {
            FusedRows(gateway.database()).set_limit(limit);
        }
    }

    /// The fused rows: their sites and accounts.
    fn fused(&self) -> Vec<(u16, i64)> {
        let rows = FusedRows(self.a.database()).all().expect("all sites are up");
        let own = rows.into_iter().filter(|(_, table, _)| *table == self.table);
        own.map(|(site, _, key)| (site.0, key.to_ints().expect("an account")[0])).collect()
    }

    /// Sets an account at a gateway. The first attempts may meet the gateway's lack of room.
    fn set(&self, gateway: &Arc<Gateway>, id: i64, balance: i64) {
        let mut txn = begin(gateway, Isolation::ReadCommitted);
        write(&mut txn, self.table, id, balance).expect("a row that no other client writes");
        txn.commit().expect("no other client writes");
    }

    /// Sets an account until it is fused at a site, or at home (0).
    fn set_until_at(&self, gateway: &Arc<Gateway>, site: u16, id: i64, balance: i64) {
        until("the row has moved", || {
            self.set(gateway, id, balance);
            let at = self.fused().into_iter().find(|(_, other)| *other == id);
            at.map_or(0, |(site, _)| site) == site
        });
    }
}

fn all(gateway: &Arc<Gateway>, table: TableId, way: Direction) -> Vec<(i64, i64)> {
    let mut rows = Vec::new();
    let visit = |key: &[u8], row: &[u8]| {
        rows.push((Key::from_bytes(key).to_ints().expect("an id")[0], super::balance(row)));
        ControlFlow::Continue(())
    };
    let mut txn = begin(gateway, Isolation::RepeatableRead);
    txn.scan(table, &KeyRange::all(), way, visit).expect("all sites are up");
    rows
}

#[test]
fn a_row_moves_to_the_process_that_writes_it_twice_and_home_again() {
    let (logs, folder) = (Service::new(1), tempfile::tempdir().expect("a folder"));
    let all_of = fusing(folder.path(), &logs, 0, 100);
    let (a, b, table) = (&all_of.a, &all_of.b, all_of.table);
    // Written once by a process, a row stays.
    all_of.set(b, 5, 7);
    assert_eq!(all_of.fused(), []);
    all_of.set_until_at(b, 3, 5, 8);
    all_of.set_until_at(b, 3, 35, 9);
    assert_eq!(all_of.fused(), [(3, 5), (3, 35)]);
    // Every gateway finds it, by key and in a range, in both directions.
    for gateway in [a, b] {
        assert_eq!(read(&mut begin(gateway, Isolation::ReadCommitted), table, 5), Some(8));
        let expected = (0..ACCOUNTS).map(|id| match id {
            5 => (5, 8),
            35 => (35, 9),
            id => (id, START),
        });
        let expected: Vec<(i64, i64)> = expected.collect();
        assert_eq!(all(gateway, table, Direction::Forward), expected);
        let mut backward = all(gateway, table, Direction::Backward);
        backward.reverse();
        assert_eq!(backward, expected);
    }
    // A row that another process writes twice moves on, or home.
    all_of.set_until_at(a, 0, 5, 20);
    assert_eq!(all_of.fused(), [(3, 35)]);
    all_of.set_until_at(a, 1, 35, 21);
    assert_eq!(all_of.fused(), [(1, 35)]);
    assert_eq!(read(&mut begin(b, Isolation::ReadCommitted), table, 35), Some(21));
    // Deleted where it is, and inserted at home.
    let mut txn = begin(b, Isolation::ReadCommitted);
    let base = txn.get_locked(table, &Key::int(35), |_| {}).expect("a row").base;
    txn.put(table, Key::int(35), base, None).expect("it fits");
    txn.commit().expect("no other client writes");
    assert_eq!(all_of.fused(), []);
    assert_eq!(read(&mut begin(a, Isolation::ReadCommitted), table, 35), None);
    all_of.set(b, 35, 1);
    assert_eq!(read(&mut begin(a, Isolation::ReadCommitted), table, 35), Some(1));
    assert_eq!(all_of.fused(), []);
}

#[test]
fn reads_of_fused_rows_are_validated() {
    let (logs, folder) = (Service::new(1), tempfile::tempdir().expect("a folder"));
    let all_of = fusing(folder.path(), &logs, 0, 100);
    let (a, b, table) = (&all_of.a, &all_of.b, all_of.table);
    all_of.set_until_at(b, 3, 5, 8);
    // By key, by range; the other writes it where it is, moves it, or deletes it.
    let reads: [fn(&Arc<Gateway>, TableId) -> isomer_cluster::OpenTransaction; 2] = [
        |gateway, table| {
            let mut txn = begin(gateway, Isolation::RepeatableRead);
            assert!(try_read(&mut txn, table, 5).expect("a read").is_some());
            txn
        },
        |gateway, table| {
            let mut txn = begin(gateway, Isolation::RepeatableRead);
            let range = KeyRange::ints(3, 8);
            let count = &mut 0;
            let visit = |_: &[u8], _: &[u8]| {
                *count += 1;
                ControlFlow::Continue(())
            };
            txn.scan(table, &range, Direction::Forward, visit).expect("a scan");
            assert_eq!(*count, 5);
            txn
        },
    ];
    for (round, read) in reads.iter().enumerate() {
        let mut reader = read(a, table);
        write(&mut reader, table, 30, 1).expect("no row is locked");
        all_of.set(b, 5, 10 + round as i64);
        let refused = reader.commit();
        let is_refused =
            matches!(&refused, Err(OpenError::ReadChanged { table: of, .. }) if *of == table);
        assert!(is_refused, "{round}: {refused:?}");
        // Unchanged, it is no conflict.
        let mut reader = read(a, table);
        write(&mut reader, table, 30, 2).expect("no row is locked");
        reader.commit().expect("what it has read is unchanged");
    }
}

#[test]
fn rows_over_the_limit_go_home_and_before_a_table_changes_its_kind_all_do() {
    let (logs, folder) = (Service::new(1), tempfile::tempdir().expect("a folder"));
    let all_of = fusing(folder.path(), &logs, 0, 100);
    let (b, table) = (&all_of.b, all_of.table);
    for id in 0..6 {
        all_of.set_until_at(b, 3, id, id);
    }
    assert_eq!(all_of.fused().len(), 6);
    // Those that were written last stay.
    all_of.let_move(2);
    until("four rows are home", || all_of.fused() == [(3, 4), (3, 5)]);
    all_of.let_move(0);
    until("all rows are home", || all_of.fused().is_empty());
    assert_eq!(sum(b, table), (ACCOUNTS, (ACCOUNTS - 6) * START + 15));
    all_of.let_move(100);
    all_of.set_until_at(b, 3, 7, 1);
    b.database().set_ordered(&[table], false).expect("no transaction runs");
    assert_eq!(all_of.fused(), []);
    assert_eq!(read(&mut begin(&all_of.a, Isolation::ReadCommitted), table, 7), Some(1));
    b.database().set_ordered(&[table], true).expect("no transaction runs");
    until("the other gateway follows", || {
        all_of.a.database().design().table(table).is_ok_and(|table| table.is_ordered())
    });
    all_of.set_until_at(b, 3, 8, 1);
    b.database().drop_table(table).expect("no transaction runs");
    assert_eq!(FusedRows(all_of.a.database()).all().expect("all sites are up"), []);
}

#[test]
fn sums_hold_while_rows_move_and_sites_and_the_conductor_fail() {
    let (logs, folder) = (Service::new(1), tempfile::tempdir().expect("a folder"));
    let mut all_of = fusing(folder.path(), &logs, 1, 8);
    let (a, b, table) = (all_of.a.clone(), all_of.b.clone(), all_of.table);
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let more = |done: &AtomicU64, rows: u64| {
        let before = done.load(Ordering::SeqCst);
        until("transfers are done", || done.load(Ordering::SeqCst) > before + rows);
    };
    let has_moved = AtomicBool::new(false);
    let back = thread::scope(|scope| {
        let _stops = Stops(&stop);
        for (seed, gateway) in [(1, &a), (2, &a), (3, &b), (4, &b)] {
            let (stop, done) = (&stop, &done);
            scope.spawn(move || load(gateway, table, seed, stop, done));
        }
        for round in 0..20 {
            more(&done, 20);
            let at = if round % 2 == 0 { &a } else { &b };
            assert_eq!(sum(at, table), (ACCOUNTS, ACCOUNTS * START), "round {round}");
            has_moved.fetch_or(!all_of.fused().is_empty(), Ordering::SeqCst);
        }
        // The process of site 4 fails, and comes back.
        all_of.cluster.weather.end(&[4]);
        more(&done, 50);
        let back = all_of.cluster.restart(2, options(folder.path(), &logs, 9));
        more(&done, 50);
        assert_eq!(sum(&a, table), (ACCOUNTS, ACCOUNTS * START));
        assert_eq!(sum(&b, table), (ACCOUNTS, ACCOUNTS * START));
        back
    });
    drop(back);
    assert!(has_moved.load(Ordering::SeqCst), "no row has moved");
}

#[test]
#[allow(clippy::disallowed_methods, reason = "clients of a process that fails wait for ever")]
fn the_next_conductor_finds_rows_where_they_are() {
    let (logs, folder) = (Service::new(1), tempfile::tempdir().expect("a folder"));
    let all_of = fusing(folder.path(), &logs, 1, 8);
    let (a, table) = (all_of.a.clone(), all_of.table);
    // At site 1, whose process fails: its backup has them.
    for id in [32, 33] {
        all_of.set_until_at(&a, 1, id, START);
    }
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    for seed in 1..4 {
        let (a, stop, done) = (a.clone(), stop.clone(), done.clone());
        thread::spawn(move || load(&a, table, seed, &stop, &done));
    }
    until("transfers are done", || done.load(Ordering::SeqCst) > 50);
    all_of.cluster.weather.end(&[1, 2]);
    stop.store(true, Ordering::SeqCst);
    let heir = all_of.b;
    heir.take_over(OnDemand::default()).expect("it takes its place");
    assert_eq!(sum(&heir, table), (ACCOUNTS, ACCOUNTS * START));
    for id in 0..ACCOUNTS {
        // A row that goes home at that moment is a conflict.
        until("the transfer is done", || {
            transfer(&heir, table, id, (id + 11) % ACCOUNTS).expect("others have taken over")
        });
    }
    assert_eq!(sum(&heir, table), (ACCOUNTS, ACCOUNTS * START));
}

#[test]
fn a_drained_site_gives_its_fused_rows_away_and_can_be_removed() {
    let (logs, folder) = (Service::new(1), tempfile::tempdir().expect("a folder"));
    let all_of = fusing(folder.path(), &logs, 0, 100);
    let (a, b) = (&all_of.a, &all_of.b);
    all_of.set_until_at(b, 3, 5, 8);
    all_of.set_until_at(b, 3, 35, 9);
    // All that site 3 has goes to site 1, also its part of the fused table.
    let (db, s1, s3) = (a.database(), SiteId(1), SiteId(3));
    let mut plan = Plan::new(drain_reason(&SiteSet::of(s3)));
    for (table, _) in db.design().tables() {
        for (range, at) in db.design().partitions_in(table, &KeyRange::all()) {
            let start = || range.start.clone();
            if at.master == s3 {
                let changes = [
                    Change::AddReplica { table, start: start(), site: s1 },
                    Change::Remaster { table, start: start(), to: s1 },
                    Change::RemoveReplica { table, start: start(), site: s3 },
                ];
                plan.steps.extend(changes.map(|change| Step::new(change, "it is drained")));
            }
        }
    }
    let number = db.reconfigure(plan).expect("site 3 can be drained");
    until("site 3 is drained", || {
        let all = db.reconfigurations();
        let it = all.iter().find(|it| it.number == number).expect("it was begun");
        it.progress == Progress::Done
    });
    let check = |gateway: &Arc<Gateway>| {
        let mut txn = begin(gateway, Isolation::ReadCommitted);
        [5, 35].map(|id| read(&mut txn, all_of.table, id))
    };
    assert_eq!([check(a), check(b)], [[Some(8), Some(9)]; 2]);
    // Clients of its process let no row move there.
    for balance in 1..20 {
        all_of.set(b, 7, balance);
    }
    assert!(all_of.fused().iter().all(|(_, id)| *id != 7), "{:?}", all_of.fused());
    let has_s3 = || {
        let design = db.design();
        design.tables().any(|(table, _)| {
            design.partitions_in(table, &KeyRange::all()).any(|(_, at)| at.holds(s3))
        })
    };
    assert!(!has_s3(), "it was given something back");
    db.change(Change::RemoveSite { site: s3 }, "the test says so").expect("it has nothing");
    until("the rows of a removed site are at home", || all_of.fused().is_empty());
    assert_eq!(
        [5, 35].map(|id| read(&mut begin(a, Isolation::ReadCommitted), all_of.table, id)),
        [Some(8), Some(9)]
    );
}
