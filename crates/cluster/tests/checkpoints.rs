//! Checkpoints that are made while the database works: logs stay short, and nothing is lost.

use isomer_cluster::{Checkpointing, Database, Options};
use isomer_design::{
    Change, Column, ColumnType, Footprint, Key, KeyRange, Schema, SiteId, TableId,
};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

const LOG_BYTES: u64 = 256 << 10;
/// A checkpoint is due at the limit. The log grows in the meantime, and is cut by whole segments.
const KEPT_MAX: u64 = 2 * LOG_BYTES;
const ROW_BYTES: usize = 4096;
const ROWS: u64 = 40;
/// The bytes that are written, as a multiple of the limit.
const TIMES: u64 = 32;

fn open(path: &Path) -> Database {
    let often = Checkpointing { log_bytes: LOG_BYTES, ..Checkpointing::default() };
    Database::open(Options::in_folder(path, 2).checkpoints(often)).expect("it opens")
}

fn create(db: &Database, placement: &[(Key, SiteId)]) -> TableId {
    let columns = vec![Column::new("id", ColumnType::Int64), Column::new("v", ColumnType::Bytes)];
    let schema = Schema::new("t", columns, &["id"]).expect("the columns fit together");
    db.create_table(schema, placement).expect("a valid table")
}

fn write(db: &Database, table: TableId, key: i64, stamp: u64) {
    let key = Key::int(key);
    let mut row = vec![7; ROW_BYTES];
    row[..8].copy_from_slice(&stamp.to_le_bytes());
    let footprint = Footprint::new().write(table, key.clone());
    db.run(&mut db.session(), &footprint, |txn| txn.put(table, &key, &row)).expect("it commits");
}

/// The stamps of all rows, in the order of keys.
fn stamps(db: &Database, table: TableId) -> Vec<u64> {
    let mut stamps = Vec::new();
    let footprint = Footprint::new().read_range(table, KeyRange::all());
    db.run(&mut db.session(), &footprint, |txn| {
        stamps.clear();
        txn.scan(table, &KeyRange::all(), |_, row| {
            stamps.push(u64::from_le_bytes(row[..8].try_into().expect("eight bytes")));
            ControlFlow::Continue(())
        })
    })
    .expect("it can be read");
    stamps
}

/// Writes the rows from `first` on over and over, and waits at intervals until all logs are short.
fn write_much(db: &Database, table: TableId, first: i64) -> Vec<u64> {
    let mut last = vec![0; ROWS as usize];
    let writes = TIMES * LOG_BYTES / ROW_BYTES as u64;
    for stamp in 1..=writes {
        let at = (stamp * 7) % ROWS;
        write(db, table, first + at as i64, stamp);
        last[at as usize] = stamp;
        if stamp % (LOG_BYTES / ROW_BYTES as u64 / 2) == 0 {
            wait_for_short_logs(db);
        }
    }
    last
}

#[allow(clippy::disallowed_methods, reason = "a generous limit of a test on real threads")]
fn wait_for_short_logs(db: &Database) {
    let begun = Instant::now();
    while db.sites().iter().any(|site| site.checkpoint.log_bytes_kept > KEPT_MAX) {
        assert!(begun.elapsed() < Duration::from_secs(60), "never cut: {:?}", db.sites());
        std::thread::yield_now();
    }
}

#[test]
fn logs_stay_short_and_a_database_that_stops_without_a_checkpoint_is_complete_again() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let db = open(folder.path());
    let table = create(&db, &[(Key::min(), SiteId(1)), (Key::int(20), SiteId(2))]);
    let last = write_much(&db, table, 0);
    let report = db.sites()[0].checkpoint;
    assert!(report.last.is_some() && report.bytes > 0, "{report:?}");
    // Without a checkpoint at the end, as after a kill: all acknowledged commits are on disk.
    drop(db);
    let db = open(folder.path());
    assert_eq!(stamps(&db, table), last);
}

#[test]
fn sites_that_follow_each_other_cut_their_logs() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let db = open(folder.path());
    let table = create(&db, &[(Key::min(), SiteId(1)), (Key::int(20), SiteId(2))]);
    for (start, site) in [(Key::min(), SiteId(2)), (Key::int(20), SiteId(1))] {
        db.change(Change::AddReplica { table, start, site }, "a test").expect("a free place");
    }
    let last = write_much(&db, table, 0);
    drop(db);
    let db = open(folder.path());
    assert_eq!(stamps(&db, table), last);
    write(&db, table, 3, 999);
    assert_eq!(stamps(&db, table)[3], 999);
}

#[test]
fn a_follower_of_an_unchanged_partition_does_not_keep_the_log() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let db = open(folder.path());
    // Site 2 has a copy of the keys below 0, and nothing else ever happens there.
    let table = create(&db, &[(Key::min(), SiteId(1)), (Key::int(0), SiteId(1))]);
    write(&db, table, -1, 5);
    let (start, site) = (Key::min(), SiteId(2));
    db.change(Change::AddReplica { table, start, site }, "a test").expect("a free place");
    let last = write_much(&db, table, 0);
    drop(db);
    let db = open(folder.path());
    assert_eq!(stamps(&db, table)[1..], last);
    write(&db, table, -1, 6);
    assert_eq!(stamps(&db, table)[0], 6);
}

#[test]
fn a_removed_site_keeps_no_log() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let db = open(folder.path());
    let table = create(&db, &[(Key::min(), SiteId(1))]);
    let (start, site) = (Key::min(), SiteId(2));
    db.change(Change::AddReplica { table, start: start.clone(), site }, "a test").expect("free");
    write(&db, table, 0, 5);
    db.change(Change::RemoveReplica { table, start, site }, "a test").expect("it is there");
    db.change(Change::RemoveSite { site }, "a test").expect("it holds nothing");
    let last = write_much(&db, table, 0);
    drop(db);
    assert_eq!(stamps(&open(folder.path()), table), last);
}
