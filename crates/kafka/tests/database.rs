//! A database whose logs are in a real broker: it starts from them in any folder, and the last
//! process that opens it owns it.

#![allow(clippy::disallowed_methods, reason = "a real broker is waited for")]

mod broker;

use broker::Broker;
use isomer_cluster::{Database, Error, LogError, Options};
use isomer_design::{Change, Column, ColumnType, Footprint, Key, Schema, SiteId, TableId};
use isomer_kafka::{Brokers, Connection, KafkaLogs};
use isomer_owned::lease::Times;
use isomer_site::Failure;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Short intervals, so that tests wait little.
fn logs(connection: &Connection) -> Arc<KafkaLogs> {
    let ms = Duration::from_millis;
    let times = Times { serves: ms(800), waits: ms(1000), renews: ms(200) };
    let usual = isomer_kafka::Options { times, ..isomer_kafka::Options::default() };
    Arc::new(KafkaLogs::new(Brokers::new(connection.clone())).with_options(usual))
}

fn open(folder: &Path, connection: &Connection) -> Result<Database, Error> {
    Database::open(Options::in_folder(folder, 2).logs(logs(connection)))
}

fn create(db: &Database) -> TableId {
    let columns = vec![Column::new("id", ColumnType::Int64)];
    let schema = Schema::new("t", columns, &["id"]).expect("a schema");
    let starts = [(Key::min(), SiteId(1)), (Key::int(100), SiteId(2))];
    db.create_table(schema, &starts).expect("a table")
}

fn write(db: &Database, table: TableId, key: i64, row: &[u8]) -> Result<(), Error> {
    let footprint = Footprint::new().write(table, Key::int(key));
    db.run(&mut db.session(), &footprint, |txn| txn.put(table, &Key::int(key), row)).map(drop)
}

fn has(db: &Database, table: TableId, key: i64) -> Result<bool, Error> {
    let (mut found, mut session) = (false, db.session());
    session.has_seen(db.now());
    let footprint = Footprint::new().read(table, Key::int(key));
    db.run(&mut session, &footprint, |txn| {
        found = txn.get(table, &Key::int(key))?.is_some();
        Ok(())
    })?;
    Ok(found)
}

fn all(db: &Database, table: TableId, keys: impl IntoIterator<Item = i64>) -> bool {
    keys.into_iter().all(|key| has(db, table, key).expect("a read"))
}

/// Polls until the condition holds.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let came = (0..12_000).any(|_| {
        is_so() || {
            std::thread::sleep(Duration::from_millis(5));
            false
        }
    });
    assert!(came, "{what}: not reached in a minute");
}

#[test]
fn a_database_starts_from_its_checkpoints_and_logs_or_from_its_logs_alone() {
    let Some(broker) = Broker::shared() else { return };
    let connection = broker.connection("starts");
    let folder = tempfile::tempdir().expect("a folder");
    let db = open(folder.path(), &connection).expect("a new database");
    assert!(db.is_new());
    let table = create(&db);
    [7, 107].iter().for_each(|key| write(&db, table, *key, b"row").expect("it is written"));
    db.change(Change::AddSite { site: SiteId(3) }, "a test").expect("a partition is added");
    let moved = Change::AddReplica { table, start: Key::min(), site: SiteId(3) };
    db.change(moved, "a test").expect("it follows");
    drop(db);

    let elsewhere = tempfile::tempdir().expect("a folder");
    let db = open(elsewhere.path(), &connection).expect("from its logs alone");
    assert_eq!(db.table("t").expect("the catalog is with the logs").0, table);
    assert_eq!(db.sites().len(), 3);
    assert!(all(&db, table, [7, 107]));
    // Enough bytes that the logs are cut behind the checkpoint.
    let row = vec![7; 200_000];
    (200..205).for_each(|key| write(&db, table, key, &row).expect("it is written"));
    db.checkpoint().expect("a checkpoint");
    let kept = || db.sites().iter().map(|site| site.checkpoint.log_bytes_kept).sum::<u64>();
    // Followers may need the log for a moment.
    until("the logs are cut", || kept() < 500_000);
    write(&db, table, 8, b"row").expect("it is written");
    drop(db);

    let db = open(elsewhere.path(), &connection).expect("from its checkpoint and its logs");
    assert!(all(&db, table, [7, 8, 107, 200, 204]));
    drop(db);
    // The first folder lacks the checkpoints that replace the removed part of the logs.
    let said = open(folder.path(), &connection).err().expect("a refusal").to_string();
    assert!(said.contains("a checkpoint of what was removed"), "{said}");
    // No process has acknowledged a commit in between, so the state is the same.
    let db = open(elsewhere.path(), &connection).expect("where its checkpoints are");
    assert!(all(&db, table, [7, 8, 107, 200, 204]));
}

#[test]
fn a_second_process_takes_the_database_over_and_fences_the_first() {
    let Some(broker) = Broker::shared() else { return };
    let connection = broker.connection("taken");
    let (here, there) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("two"));
    let first = open(here.path(), &connection).expect("a new database");
    let table = create(&first);
    write(&first, table, 7, b"row").expect("it is written");

    let second = open(there.path(), &connection).expect("it takes over");
    assert!(second.notes().iter().any(|note| note.contains("was not released by")));
    let error = write(&first, table, 8, b"row").expect_err("it has another owner");
    let Error::Failure(Failure::Log(fenced) | Failure::Unknown(fenced)) = &error else {
        panic!("{error:?}")
    };
    assert!(matches!(fenced, LogError::Fenced { .. }), "{fenced}");
    assert!(fenced.to_string().contains("it belongs to process"), "{fenced}");
    // Reads of another site are refused too, once its log has found the claim or its lease is over.
    until("a refusal", || has(&first, table, 107).is_err());
    write(&second, table, 9, b"row").expect("the new owner commits");
    assert!(all(&second, table, [7, 9]) && !has(&second, table, 8).expect("a read"));
}

#[test]
fn a_killed_broker_delays_commits_and_loses_none() {
    let Some(mut broker) = Broker::start() else { return };
    let connection = broker.connection("load");
    let folder = tempfile::tempdir().expect("a folder");
    let db = open(folder.path(), &connection).expect("a new database");
    let table = create(&db);
    let (stop, commits) = (AtomicBool::new(false), AtomicUsize::new(0));
    let acknowledged = Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for client in 0..4 {
            let (db, stop, commits, acknowledged) = (&db, &stop, &commits, &acknowledged);
            scope.spawn(move || {
                for number in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let key = client + 4 * number;
                    write(db, table, key, b"row").expect("it waits for the broker");
                    acknowledged.lock().expect("no panic").insert(key);
                    commits.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let go_on = |more: usize| {
            let wanted = commits.load(Ordering::SeqCst) + more;
            until("more commits", || commits.load(Ordering::SeqCst) >= wanted);
        };
        go_on(500);
        broker.kill();
        broker.restart();
        go_on(100);
        stop.store(true, Ordering::SeqCst);
    });
    // Commits of several clients share records.
    let [frames, records] = [0, 1].map(|what| {
        let of = |log: isomer_cluster::Counters| [log.frames, log.syncs][what];
        db.sites().iter().map(|site| of(site.log)).sum::<u64>()
    });
    assert!(records < frames, "{frames} frames in {records} records");
    drop(db);
    let elsewhere = tempfile::tempdir().expect("a folder");
    let db = open(elsewhere.path(), &connection).expect("from its logs alone");
    assert!(all(&db, table, acknowledged.into_inner().expect("no panic")));
}

#[test]
fn without_a_broker_reads_are_refused_after_the_lease_until_it_returns() {
    let Some(mut broker) = Broker::start() else { return };
    let connection = broker.connection("silent");
    let folder = tempfile::tempdir().expect("a folder");
    let db = open(folder.path(), &connection).expect("a new database");
    let table = create(&db);
    write(&db, table, 7, b"row").expect("it is written");
    broker.kill();
    // Until the lease is over, reads are served; then the log may have another owner.
    let mut refused = None;
    until("a refusal", || {
        refused = has(&db, table, 7).err();
        refused.is_some()
    });
    let said = refused.expect("it was refused");
    assert!(matches!(said, Error::Failure(Failure::Log(LogError::Unconfirmed { .. }))), "{said}");
    broker.restart();
    until("an answer", || has(&db, table, 7).is_ok());
    write(&db, table, 8, b"row").expect("commits continue");
}

#[test]
fn topics_that_could_lose_records_and_silent_brokers_are_refused() {
    let Some(broker) = Broker::shared() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let mut nobody = broker::connection(1, "nobody");
    nobody.timeouts.ask = Duration::from_secs(1);
    let said = open(folder.path(), &nobody).err().expect("a refusal").to_string();
    assert!(
        said.contains("no broker of 127.0.0.1:1 answers") && said.contains("refused"),
        "{said}"
    );

    let settings = [("retention.ms", "604800000")];
    let connection = broker.connection("retained");
    broker::create_topic(&connection, &settings);
    let said = open(folder.path(), &connection).err().expect("a refusal").to_string();
    assert!(said.contains("retained") && said.contains("retention.ms=604800000"), "{said}");
    let accepts = Options::in_folder(folder.path(), 2).accept_loss(true);
    let accepts = accepts.logs(logs(&broker.connection("new")));
    let said = Database::open(accepts).err().expect("a refusal").to_string();
    assert!(said.contains("only logs in files"), "{said}");
}
