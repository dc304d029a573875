//! A database with remote logs and checkpoints starts in an empty folder, and a failing store stops
//! no commit.

#![allow(clippy::disallowed_methods, reason = "the test waits for background work")]

#[path = "../../cluster/tests/common/service.rs"]
mod service;
mod store;

use isomer_cluster::{Checkpointing, Database, Durability, Error, Options};
use isomer_design::{Column, ColumnType, Footprint, Key, Schema, SiteId, TableId};
use isomer_objects::Objects;
use service::Service;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use store::Trouble;

/// Logs in memory are cut by whole segments of one megabyte.
const ROW: usize = 1 << 18;

fn options(folder: &Path, logs: &Arc<Service>) -> Options {
    // The test makes the checkpoints itself.
    let never = Checkpointing { every: Duration::from_secs(1 << 20), ..Checkpointing::default() };
    let options = Options::in_folder(folder, 2).durability(Durability::Commit).checkpoints(never);
    options.logs(logs.clone())
}

fn open(folder: &Path, logs: &Arc<Service>, store: &Arc<Trouble>) -> Result<Database, Error> {
    let objects = Objects::over(store.clone(), "memory:shop").expect("a store");
    Database::open(options(folder, logs).checkpoints_in(Arc::new(objects)))
}

fn create(db: &Database) -> TableId {
    let columns = vec![Column::new("id", ColumnType::Int64)];
    let schema = Schema::new("t", columns, &["id"]).expect("a schema");
    let starts = [(Key::min(), SiteId(1)), (Key::int(100), SiteId(2))];
    db.create_table(schema, &starts).expect("a table")
}

/// Writes rows that take several segments of each log.
fn write(db: &Database, table: TableId, value: u8) {
    for key in [1, 2, 3, 4, 5, 6, 7, 8, 101, 102, 103, 104, 105, 106, 107, 108] {
        let footprint = Footprint::new().write(table, Key::int(key));
        let put = |txn: &mut isomer_cluster::Txn<'_>| txn.put(table, &Key::int(key), &[value; ROW]);
        db.run(&mut db.session(), &footprint, put).expect("it is written");
    }
}

fn has(db: &Database, table: TableId, value: u8) -> bool {
    [1, 8, 101, 108].into_iter().all(|key| {
        let (mut found, mut session) = (false, db.session());
        session.has_seen(db.now());
        let footprint = Footprint::new().read(table, Key::int(key));
        let read = db.run(&mut session, &footprint, |txn| {
            found = txn.get(table, &Key::int(key))?.is_some_and(|row| row[0] == value);
            Ok(())
        });
        read.expect("it is read");
        found
    })
}

fn kept(db: &Database) -> u64 {
    db.sites().iter().map(|site| site.checkpoint.log_bytes_kept).sum()
}

/// Waits until the logs are cut, after all sites have reported their needs.
fn until_cut(db: &Database) {
    let is_cut = || kept(db) < 6 * ROW as u64 * 2;
    let came = (0..6000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        is_cut()
    });
    assert!(came, "{} bytes are kept", kept(db));
}

#[test]
fn a_database_starts_in_an_empty_folder_from_remote_checkpoints_and_logs() {
    let (logs, store) = (Service::new(1), Arc::new(Trouble::default()));
    let folders: Vec<_> = (0..3).map(|_| tempfile::tempdir().expect("a folder")).collect();
    let db = open(folders[0].path(), &logs, &store).expect("a new database");
    let table = create(&db);
    write(&db, table, 1);
    db.checkpoint().expect("a checkpoint");
    write(&db, table, 2);
    // The first one does not know yet that it has lost its sites.
    let second = open(folders[1].path(), &logs, &store).expect("elsewhere");
    assert!(has(&second, table, 2));
    write(&second, table, 3);
    second.checkpoint().expect("a checkpoint");
    // It cannot replace the newer checkpoint.
    db.checkpoint().expect("no site is left that could make one");
    drop(db);
    let third = open(folders[2].path(), &logs, &store).expect("elsewhere again");
    assert!(has(&third, table, 3));
}

#[test]
fn a_failing_store_stops_no_commit_and_is_retried() {
    let (logs, store) = (Service::new(1), Arc::new(Trouble::default()));
    let folder = tempfile::tempdir().expect("a folder");
    let db = open(folder.path(), &logs, &store).expect("a new database");
    let table = create(&db);
    write(&db, table, 1);
    db.checkpoint().expect("a checkpoint");
    until_cut(&db);
    let before = kept(&db);
    store.fails(0, usize::MAX);
    write(&db, table, 2);
    let said = db.checkpoint().expect_err("it cannot be kept").to_string();
    assert!(said.contains("memory:shop/") && said.contains("it was told to fail"), "{said}");
    assert!(kept(&db) > before + 12 * ROW as u64, "the log is not cut");
    let elsewhere = tempfile::tempdir().expect("a folder");
    let said = open(elsewhere.path(), &logs, &store).err().expect("nothing is read").to_string();
    assert!(said.contains("memory:shop/"), "{said}");
    write(&db, table, 3);
    store.heals();
    db.checkpoint().expect("a checkpoint");
    until_cut(&db);
    drop(db);
    store.read_only(true);
    let db = open(elsewhere.path(), &logs, &store).expect("it can be read");
    assert!(has(&db, table, 3));
    let notes = db.notes().join("\n");
    assert!(notes.contains("site s1: its log grows until there can be checkpoints"), "{notes}");
    assert!(notes.contains("it is read only"), "{notes}");
}

#[test]
fn checkpoints_move_from_the_folder_to_the_store_which_is_needed_from_then_on() {
    let (logs, store) = (Service::new(1), Arc::new(Trouble::default()));
    let folder = tempfile::tempdir().expect("a folder");
    let db = Database::open(options(folder.path(), &logs)).expect("a new database");
    let table = create(&db);
    write(&db, table, 1);
    db.checkpoint().expect("a checkpoint");
    write(&db, table, 2);
    drop(db);
    let db = open(folder.path(), &logs, &store).expect("with a store");
    assert!(has(&db, table, 2));
    db.checkpoint().expect("a checkpoint");
    drop(db);
    let elsewhere = tempfile::tempdir().expect("a folder");
    let db = open(elsewhere.path(), &logs, &store).expect("from an empty folder");
    write(&db, table, 3);
    db.checkpoint().expect("a checkpoint");
    until_cut(&db);
    drop(db);
    let said = Database::open(options(folder.path(), &logs)).err().expect("a refusal").to_string();
    assert!(said.contains("begins too late"), "{said}");
    let db = open(folder.path(), &logs, &store).expect("where it was at first");
    assert!(has(&db, table, 3));
}

#[test]
fn logs_in_a_folder_require_checkpoints_in_the_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let objects =
        || Arc::new(Objects::over(Arc::new(Trouble::default()), "memory:shop").expect("it"));
    for options in [Options::in_folder(folder.path(), 1), Options::in_memory(1)] {
        let said = Database::open(options.checkpoints_in(objects())).err().expect("a refusal");
        assert!(said.to_string().contains("are for redo logs in Kafka"), "{said}");
    }
}
