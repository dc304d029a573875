//! Sites with a memory limit: the refusals of a full one, and the work that continues.

use isomer_cluster::{Database, Error, Options, Session};
use isomer_design::{
    Change, Column, ColumnType, Footprint, Key, KeyRange, Schema, SiteId, TableId,
};
use isomer_plan::strategy::Learned;
use isomer_site::{Failure, Full, Refusal};
use isomer_strategy::{Static, TwoPhase};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const S1: SiteId = SiteId(1);
const S2: SiteId = SiteId(2);
/// The memory limit of a site in most tests.
const LIMIT: usize = 1 << 20;
const ROW: [u8; 1000] = [7; 1000];
/// Keys from here on are at s2.
const SECOND: i64 = 1_000_000;

fn schema(name: &str) -> Schema {
    let columns = vec![Column::new("id", ColumnType::Int64), Column::new("text", ColumnType::Text)];
    Schema::new(name, columns, &["id"]).expect("the columns fit together")
}

/// A table, the first half of which is at s1 and the second at s2.
fn table(db: &Database, name: &str) -> TableId {
    let placement = [(Key::min(), S1), (Key::int(SECOND), S2)];
    db.create_table(schema(name), &placement).expect("a valid table")
}

/// Inserts rows in one transaction.
fn insert(db: &Database, table: TableId, ids: &[i64]) -> Result<(), Error> {
    let add = |all: Footprint, id: &i64| all.write(table, Key::int(*id));
    let footprint = ids.iter().fold(Footprint::new(), add);
    db.run(&mut db.session(), &footprint, |txn| {
        ids.iter().try_for_each(|id| txn.put(table, &Key::int(*id), &ROW))
    })
    .map(drop)
}

/// More rows than the garbage of a site that has just become full.
fn many(first: i64) -> Vec<i64> {
    (first..first + 20).collect()
}

/// Inserts rows one by one until their site is full. Returns the refused one.
fn fill(db: &Database, table: TableId, first: i64) -> (i64, Full) {
    for id in first.. {
        match insert(db, table, &[id]) {
            Ok(()) => {}
            Err(Error::Failure(Failure::Full(full))) => return (id, full),
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("memory is limited")
}

fn delete(db: &Database, table: TableId, id: i64) -> Result<bool, Error> {
    let (key, mut existed) = (Key::int(id), false);
    let footprint = Footprint::new().write(table, key.clone());
    db.run(&mut db.session(), &footprint, |txn| {
        existed = txn.delete(table, &key)?;
        Ok(())
    })?;
    Ok(existed)
}

fn count_at(
    db: &Database,
    session: &Session,
    site: SiteId,
    table: TableId,
    keys: &KeyRange,
) -> usize {
    let mut rows = 0;
    db.read_at(site, session, table, keys, |_, _| rows += 1).expect("the site has a copy");
    rows
}

fn memory_of(db: &Database, site: SiteId) -> usize {
    db.sites().into_iter().find(|report| report.site == site).expect("there is one").memory_bytes
}

fn fixed() -> Options {
    Options::in_memory(2).strategy(Static).site_memory(LIMIT)
}

#[test]
fn a_full_site_refuses_rows_by_name_and_goes_on_once_some_are_deleted() {
    let db = Database::open(fixed()).expect("in memory");
    let rows = table(&db, "rows");
    let (refused, full) = fill(&db, rows, 0);
    assert_eq!((full.site, full.limit), (S1, LIMIT));
    assert!(full.used <= LIMIT && LIMIT - full.used < 2 * ROW.len(), "{full:?}");
    assert!(memory_of(&db, S1) <= LIMIT);
    assert!(full.to_string().starts_with("site s1 is full: its rows and index take 1"), "{full}");
    // A refused transaction has no effect; a change of an existing row is refused as well.
    let updated = insert(&db, rows, &many(0));
    assert!(matches!(updated, Err(Error::Failure(Failure::Full(_)))));
    insert(&db, rows, &[SECOND]).expect("the other site has room");
    let all = Footprint::new().read_range(rows, KeyRange::new(Key::min(), Some(Key::int(SECOND))));
    let mut found = 0;
    db.run(&mut db.session(), &all, |txn| {
        found = 0;
        txn.scan(rows, &KeyRange::new(Key::min(), Some(Key::int(SECOND))), |_, _| {
            found += 1;
            ControlFlow::Continue(())
        })
    })
    .expect("reads go on");
    assert_eq!(found, refused);
    // Changes of the design go on, too.
    db.change(Change::Split { table: rows, at: Key::int(100) }, "a test")
        .expect("it needs no room");
    for id in 0..100 {
        assert!(delete(&db, rows, id).expect("deletions go on"));
    }
    // The rows are freed when no snapshot needs them: soon, because there is none.
    while insert(&db, rows, &[0]).is_err() {
        std::thread::yield_now();
    }
    assert_eq!(memory_of(&db, S1).div_ceil(LIMIT), 1);
}

#[test]
fn a_dropped_table_makes_room_and_so_does_a_higher_limit() {
    let db = Database::open(fixed()).expect("in memory");
    let (other, rows) = (table(&db, "other"), table(&db, "rows"));
    (0..300).for_each(|id| insert(&db, other, &[id]).expect("there is room"));
    let (refused, _) = fill(&db, rows, 0);
    db.drop_table(other).expect("it is there");
    while insert(&db, rows, &[refused]).is_err() {
        std::thread::yield_now();
    }
    let (refused, _) = fill(&db, rows, refused + 1);
    db.set_site_memory(Some(2 * LIMIT));
    insert(&db, rows, &[refused]).expect("there is room again");
    // A part of the dropped table may still be in memory, but less than the old limit.
    fill(&db, rows, refused + 1);
    db.set_site_memory(Some(LIMIT));
    insert(&db, rows, &many(0)).expect_err("it has more than that already");
    db.set_site_memory(None);
    insert(&db, rows, &[refused]).expect("there is no limit");
    assert_eq!(db.site_memory(), None);
}

#[test]
fn a_transaction_that_is_larger_than_the_room_that_is_left_writes_nothing() {
    let db = Database::open(fixed()).expect("in memory");
    let rows = table(&db, "rows");
    let ids: Vec<i64> = (0..2000).collect();
    let refused = insert(&db, rows, &ids);
    let Err(Error::Failure(Failure::Full(full))) = refused else { panic!("{refused:?}") };
    assert!(full.more > LIMIT && full.used < LIMIT / 10, "{full:?}");
    assert_eq!(
        count_at(&db, &db.session(), S1, rows, &KeyRange::new(Key::min(), Some(Key::int(SECOND)))),
        0
    );
}

#[test]
fn a_full_site_gets_no_replica_and_the_old_design_is_in_force() {
    let db = Database::open(fixed()).expect("in memory");
    let rows = table(&db, "rows");
    fill(&db, rows, 0);
    insert(&db, rows, &many(SECOND)).expect("the other site has room");
    let before = db.design();
    let second = Change::AddReplica { table: rows, start: Key::int(SECOND), site: S1 };
    let refused = db.change(second.clone(), "a test");
    let Err(Error::Change { refusal: Refusal::Full(full), .. }) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(full.site, S1);
    assert_eq!(db.design(), before);
    // Its master does not count a follower: a write needs no other site.
    insert(&db, rows, &[SECOND + 20]).expect("the other site has room");
    db.set_site_memory(None);
    db.change(second, "a test").expect("there is room now");
    let session = {
        let mut session = db.session();
        let footprint = Footprint::new().read(rows, Key::int(SECOND + 20));
        db.run(&mut session, &footprint, |_| Ok(())).expect("it is there");
        session
    };
    let keys = KeyRange::new(Key::int(SECOND), None);
    assert_eq!(count_at(&db, &session, S1, rows, &keys), 21);
}

#[test]
fn replicas_at_a_full_site_go_on_applying_what_their_masters_write() {
    let db = Database::open(fixed()).expect("in memory");
    let rows = table(&db, "rows");
    let second = Change::AddReplica { table: rows, start: Key::int(SECOND), site: S1 };
    db.change(second, "a test").expect("there is room");
    fill(&db, rows, 0);
    let mut session = db.session();
    for id in SECOND..SECOND + 50 {
        let footprint = Footprint::new().write(rows, Key::int(id));
        db.run(&mut session, &footprint, |txn| txn.put(rows, &Key::int(id), &ROW))
            .expect("the master has room");
    }
    // The read waits until the replica has all that the session has written.
    assert_eq!(count_at(&db, &session, S1, rows, &KeyRange::new(Key::int(SECOND), None)), 50);
    assert!(memory_of(&db, S1) > LIMIT, "replicas may exceed the limit");
}

#[test]
fn a_full_participant_aborts_a_distributed_transaction_as_a_whole() {
    let options = Options::in_memory(2).strategy(TwoPhase).site_memory(LIMIT);
    let db = Database::open(options).expect("in memory");
    let rows = table(&db, "rows");
    let (refused, _) = fill(&db, rows, SECOND);
    let more = many(refused);
    // The site with the most writes coordinates: first s1, then the full s2.
    for at_first in [(1..100).collect(), vec![1]] {
        let both = insert(&db, rows, &[at_first, more.clone()].concat());
        let Err(Error::Failure(Failure::Full(full))) = both else { panic!("{both:?}") };
        assert_eq!(full.site, S2);
    }
    let keys = KeyRange::new(Key::min(), Some(Key::int(SECOND)));
    assert_eq!(count_at(&db, &db.session(), S1, rows, &keys), 0);
    // Nothing is locked any more, and a transaction that only deletes at the full site commits.
    insert(&db, rows, &[1]).expect("s1 has room");
    let footprint = Footprint::new().write(rows, Key::int(2)).write(rows, Key::int(SECOND));
    db.run(&mut db.session(), &footprint, |txn| {
        txn.put(rows, &Key::int(2), &ROW)?;
        txn.delete(rows, &Key::int(SECOND)).map(drop)
    })
    .expect("the one has room, the other needs none");
    assert_eq!(count_at(&db, &db.session(), S1, rows, &keys), 2);
}

#[test]
fn a_planning_strategy_drops_replicas_before_a_site_is_full() {
    let options = Options::in_memory(2).strategy(Learned::default()).site_memory(LIMIT);
    let db = Database::open(options).expect("in memory");
    let rows = table(&db, "rows");
    // s2 is half full of replicas that no transaction reads there.
    (0..500).for_each(|id| insert(&db, rows, &[id]).expect("there is room"));
    for at in [100, 200, 300, 400] {
        db.change(Change::Split { table: rows, at: Key::int(at) }, "a test").expect("a split");
    }
    for start in [Key::min(), Key::int(100), Key::int(200), Key::int(300), Key::int(400)] {
        let add = Change::AddReplica { table: rows, start, site: S2 };
        db.change(add, "a test").expect("there is room");
    }
    let release_pin = Arc::new(AtomicUsize::new(0));
    let counted = release_pin.clone();
    db.watch(move |event| {
        if matches!(event.change, Change::RemoveReplica { site: S2, .. })
            && event.reason.starts_with("s2 is nearly out of memory")
        {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    // More than s2 has room for beside the replicas. Refused rows are retried until there is room.
    for id in SECOND..SECOND + 800 {
        while let Err(error) = insert(&db, rows, &[id]) {
            assert!(matches!(error, Error::Failure(Failure::Full(_))), "{error}");
        }
    }
    assert!(release_pin.load(Ordering::SeqCst) > 0, "replicas were dropped");
    assert!(memory_of(&db, S2) < LIMIT);
}
