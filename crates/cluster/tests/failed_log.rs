//! A site's log fails while the database works. Others take over partitions of which they hold
//! complete copies, and no request hangs. After a restart all acknowledged commits are there.

#![allow(clippy::disallowed_methods, reason = "on real threads a test waits between two looks")]

use isomer_cluster::{Database, DiskFaults, Error, Options};
use isomer_design::{
    Change, Column, ColumnType, Footprint, Key, KeyRange, Schema, SiteId, TableId, Time,
};
use isomer_site::{Failure, Refusal, Txn};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

const S1: SiteId = SiteId(1);
const S2: SiteId = SiteId(2);
const S3: SiteId = SiteId(3);

/// The pause between two checks.
const LOOK: Duration = Duration::from_millis(5);
/// More checks than any wait takes.
const LOOKS_MAX: usize = 12_000;

/// Keys below 100 at s1, copied to s2 and s3; keys below 200 at s1 alone; the others at s2, copied
/// to s1.
fn partitioned(db: &Database) -> TableId {
    let columns = vec![Column::new("id", ColumnType::Int64)];
    let schema = Schema::new("t", columns, &["id"]).expect("a schema");
    let starts = [(Key::min(), S1), (Key::int(100), S1), (Key::int(200), S2)];
    let table = db.create_table(schema, &starts).expect("a table");
    for (start, site) in [(Key::min(), S2), (Key::min(), S3), (Key::int(200), S1)] {
        db.change(Change::AddReplica { table, start, site }, "a test").expect("it fits");
    }
    table
}

fn open(folder: &Path, faults: &[(SiteId, &Arc<DiskFaults>)]) -> Database {
    let options = Options::in_folder(folder, 3).strategy(isomer_strategy::TwoPhase);
    let with = |options: Options, (site, faults): &(SiteId, &Arc<DiskFaults>)| {
        options.disk_faults(*site, Arc::clone(faults))
    };
    Database::open(faults.iter().fold(options, with)).expect("it opens")
}

/// The latest time that any write of this process has seen. A new session could read an older
/// replica.
static SEEN: AtomicU64 = AtomicU64::new(0);

fn write(db: &Database, table: TableId, keys: &[i64]) -> Result<(), Error> {
    let add = |footprint: Footprint, key: &i64| footprint.write(table, Key::int(*key));
    let footprint = keys.iter().fold(Footprint::new(), add);
    let put = |txn: &mut Txn<'_>| {
        keys.iter().try_for_each(|key| txn.put(table, &Key::int(*key), b"written"))
    };
    let mut session = db.session();
    let ran = db.run(&mut session, &footprint, put);
    SEEN.fetch_max(session.seen().0, Ordering::SeqCst);
    ran.map(drop)
}

/// The keys of a range, including all earlier writes.
fn keys(db: &Database, table: TableId, from: i64, to: i64) -> Result<BTreeSet<i64>, Error> {
    let range = KeyRange::ints(from, to);
    let footprint = Footprint::new().read_range(table, range.clone());
    let mut keys = BTreeSet::new();
    let all: Vec<Key> = (from..to).map(Key::int).collect();
    let mut session = db.session();
    session.has_seen(Time(SEEN.load(Ordering::SeqCst)));
    db.run(&mut session, &footprint, |txn| {
        keys.clear();
        txn.scan(table, &range, |key, _| {
            let at = all.iter().position(|other| other.as_bytes() == key).expect("one of them");
            keys.insert(from + at as i64);
            ControlFlow::Continue(())
        })
    })?;
    Ok(keys)
}

/// Waits until the log of s1 has all earlier writes, and the ends of their transactions. A site
/// ends distributed transactions, and logs replicated events, after the client was answered.
/// Otherwise these would meet the fault before the test does.
fn settle(db: &Database, table: TableId) {
    let mut session = db.session();
    session.has_seen(Time(SEEN.load(Ordering::SeqCst)));
    for from in [0, 100, 200] {
        let part = KeyRange::ints(from, from + 100);
        db.read_at(S1, &session, table, &part, |_, _| {}).expect("it has a copy of all");
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let came = (0..LOOKS_MAX).any(|_| {
        is_so() || {
            sleep(LOOK);
            false
        }
    });
    assert!(came, "not within the time: {what}");
}

fn master(db: &Database, table: TableId, key: i64) -> SiteId {
    let design = db.design();
    design.partition_of(table, &Key::int(key)).expect("it is there").1.master
}

fn is_failed_log(error: &Error) -> bool {
    match error {
        Error::Failure(Failure::Log(error) | Failure::Unknown(error)) => error.is_final(),
        Error::Change { refusal: Refusal::Log(error), .. } => error.is_final(),
        _ => false,
    }
}

#[test]
fn replicas_take_over_from_a_site_whose_log_has_failed_and_a_restart_agrees() {
    let folder = tempfile::tempdir().expect("a folder");
    let faults = Arc::new(DiskFaults::default());
    let db = open(folder.path(), &[(S1, &faults)]);
    let table = partitioned(&db);
    for key in 0..20 {
        write(&db, table, &[key, 100 + key, 200 + key]).expect("all is well");
    }

    settle(&db, table);
    faults.fail_syncs(true);
    let error = write(&db, table, &[50]).expect_err("the disk refuses it");
    assert!(is_failed_log(&error), "{error}");
    until("the failover", || !db.failed_over().is_empty());
    let [done] = &db.failed_over()[..] else { panic!("one site has failed") };
    assert_eq!((done.site, done.moved, done.unavailable.len()), (S1, 1, 1), "{done}");
    assert!(done.to_string().contains("t[100]"), "{done}");
    assert!([S2, S3].contains(&master(&db, table, 0)));

    // Partitions with copies are served, with all acknowledged commits.
    write(&db, table, &[21]).expect("it has another master");
    write(&db, table, &[22, 221]).expect("so it has over several sites");
    let low: BTreeSet<i64> = keys(&db, table, 0, 100).expect("it is there");
    assert_eq!(low, (0..20).chain([21, 22]).collect());
    // Another copy follows the new master.
    let placement = db.design().partition_of(table, &Key::min()).expect("it is there").1;
    let other = placement.replicas.iter().next().expect("of three copies, two are left");
    let mut session = db.session();
    let one = Footprint::new().write(table, Key::int(23));
    db.run(&mut session, &one, |txn| txn.put(table, &Key::int(23), b"copied")).expect("it works");
    let mut copied = 0;
    let all = KeyRange::ints(0, 100);
    db.read_at(other, &session, table, &all, |_, _| copied += 1).expect("it is a copy");
    assert_eq!(copied, low.len() + 1);
    let low: BTreeSet<i64> = keys(&db, table, 0, 100).expect("it is there");
    // Partitions that only the failed site holds are refused with the reason.
    for error in [write(&db, table, &[120]), keys(&db, table, 100, 200).map(drop)] {
        let error = error.expect_err("no other site has it");
        assert!(is_failed_log(&error) && !error.is_unknown(), "{error}");
    }
    // No change targets the failed site.
    let start = Key::min();
    let back = db.change(Change::AddReplica { table, start, site: S1 }, "a test");
    assert!(is_failed_log(&back.expect_err("its log has failed")));
    let report = db.sites().into_iter().find(|report| report.site == S1).expect("it is there");
    assert!(report.failure.is_some() && db.is_lost().is_none());

    // The frame in doubt may exist or not: it was not acknowledged, and others have taken over from
    // the site.
    drop(db);
    let db = open(folder.path(), &[]);
    assert!([S2, S3].contains(&master(&db, table, 0)));
    assert_eq!(keys(&db, table, 0, 100).expect("it is there"), low);
    assert_eq!(keys(&db, table, 100, 200).expect("it is back").len(), 20);
    assert_eq!(keys(&db, table, 200, 300).expect("it is there").len(), 21);
    let start = Key::min();
    db.change(Change::AddReplica { table, start: start.clone(), site: S1 }, "a test")
        .expect("its log is sound, and no old copy is in the way");
    db.change(Change::Remaster { table, start, to: S1 }, "a test").expect("it can be the master");
    write(&db, table, &[24, 123, 223]).expect("all is well");
    drop(db);
    let db = open(folder.path(), &[]);
    assert_eq!((master(&db, table, 0), db.notes().len()), (S1, 0));
    assert_eq!(keys(&db, table, 0, 100).expect("it is there").len(), low.len() + 1);
}

/// The site's log fails with the acquire, after the mastership was released to it and before any
/// other site knew.
#[test]
fn a_mastership_returns_if_the_log_of_its_new_master_fails() {
    let folder = tempfile::tempdir().expect("a folder");
    let faults = Arc::new(DiskFaults::default());
    let db = open(folder.path(), &[(S1, &faults)]);
    let table = partitioned(&db);
    write(&db, table, &[1, 201]).expect("all is well");
    let remaster = || Change::Remaster { table, start: Key::int(200), to: S1 };

    settle(&db, table);
    faults.fail_syncs(true);
    let error = db.change(remaster(), "a test").expect_err("it cannot be acquired");
    assert!(is_failed_log(&error), "{error}");
    assert_eq!(master(&db, table, 200), S2);
    write(&db, table, &[202]).expect("it was given back");
    until("the failover", || !db.failed_over().is_empty());
    let again = db.change(remaster(), "a test").expect_err("it is passed by");
    assert!(matches!(again, Error::Change { .. } | Error::Invalid(_)), "{again}");
    write(&db, table, &[203]).expect("nothing has moved");

    drop(db);
    let db = open(folder.path(), &[]);
    assert_eq!(master(&db, table, 200), S2);
    assert_eq!(keys(&db, table, 200, 300).expect("it is there"), [201, 202, 203].into());
    write(&db, table, &[204]).expect("it has one master");
}

/// A transaction in doubt wrote to two partitions, of which only one has a replica. A restart may
/// find both writes, so neither is taken over.
#[test]
fn partitions_that_share_a_transaction_in_doubt_wait_for_the_restart_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let faults = Arc::new(DiskFaults::default());
    let db = open(folder.path(), &[(S1, &faults)]);
    let table = partitioned(&db);
    write(&db, table, &[1, 101]).expect("all is well");

    settle(&db, table);
    faults.fail_syncs(true);
    assert!(write(&db, table, &[2, 102]).expect_err("the disk refuses it").is_unknown());
    until("the failover", || !db.failed_over().is_empty());
    let [done] = &db.failed_over()[..] else { panic!("one site has failed") };
    assert_eq!((done.moved, done.unavailable.len()), (0, 2), "{done}");
    assert!(is_failed_log(&write(&db, table, &[3]).expect_err("no site has taken over")));
    write(&db, table, &[203]).expect("this was at another site");

    drop(db);
    let db = open(folder.path(), &[]);
    let both = [keys(&db, table, 0, 100), keys(&db, table, 100, 200)];
    let [low, high] = both.map(|keys| keys.expect("it is there"));
    assert_eq!(low.contains(&2), high.contains(&102), "half of a transaction");
    assert!(low.contains(&1) && high.contains(&101));
}

#[test]
fn without_any_replica_nothing_is_served_and_the_database_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let faults: Vec<Arc<DiskFaults>> = (0..3).map(|_| Arc::default()).collect();
    let sites: Vec<_> = [S1, S2, S3].into_iter().zip(&faults).collect();
    let db = open(folder.path(), &sites);
    let table = partitioned(&db);
    faults.iter().for_each(|faults| faults.fail_syncs(true));
    // The first write at each site finds the fault.
    for key in [1, 201] {
        assert!(is_failed_log(&write(&db, table, &[key]).expect_err("the disk refuses it")));
    }
    until("the end", || {
        let _ = write(&db, table, &[1]);
        db.is_lost().is_some()
    });
    assert!(db.is_lost().expect("just seen").contains("injected fault"));
}

/// A full disk is no failure: writes are refused until there is room, and reads continue.
#[test]
fn on_a_full_disk_writes_are_refused_until_there_is_room() {
    let folder = tempfile::tempdir().expect("a folder");
    let faults = Arc::new(DiskFaults::default());
    let db = open(folder.path(), &[(S1, &faults)]);
    let table = partitioned(&db);
    write(&db, table, &[101]).expect("all is well");

    faults.fill_up(true);
    // The first ones are in the log's memory and wait for room; the others are refused.
    let (results, mut found) = (Mutex::new(Vec::new()), Vec::new());
    std::thread::scope(|scope| {
        let _ = (0..LOOKS_MAX).any(|_| {
            scope.spawn(|| {
                let result = write(&db, table, &[102]);
                results.lock().expect("no panic").push(result);
            });
            sleep(LOOK);
            !results.lock().expect("no panic").is_empty()
        });
        found.extend(keys(&db, table, 200, 300).into_iter().flatten());
        faults.fill_up(false);
    });
    assert!(found.is_empty() && db.failed_over().is_empty(), "reads go on");
    let results = results.into_inner().expect("no panic");
    let refused = |result: &Result<(), Error>| matches!(result, Err(Error::Failure(Failure::Log(error))) if error.is_worth_retrying());
    assert!(refused(&results[0]), "{results:?}");
    assert!(results.iter().all(|result| result.is_ok() || refused(result)), "{results:?}");
    assert!(results.iter().any(Result::is_ok), "{results:?}");
    until("room", || write(&db, table, &[104]).is_ok());
    drop(db);
    let db = open(folder.path(), &[]);
    let found = keys(&db, table, 100, 200).expect("it is there");
    assert!([101, 102, 104].iter().all(|key| found.contains(key)), "{found:?}");
}
