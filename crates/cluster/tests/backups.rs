//! Tables with backups: acknowledged commits outlive the loss of a site with all its files.

#![allow(clippy::disallowed_methods, reason = "on real threads a test waits between two looks")]

use isomer_cluster::{Database, DiskFaults, Error, Options};
use isomer_design::{
    Backups, Change, Column, ColumnType, Domains, Footprint, Invalid, Key, KeyRange, Schema,
    SiteId, TableId,
};
use isomer_site::Txn;
use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const SITES: [SiteId; 3] = [SiteId(1), SiteId(2), SiteId(3)];
const ON_DISK: Backups = Backups { count: 1, on_disk: true };
/// Keys of each partition; each site masters one.
const KEYS: i64 = 100;
const WRITERS: i64 = 4;
/// The pause between two checks, and more checks than any wait takes.
const LOOK: Duration = Duration::from_millis(5);
const LOOKS_MAX: usize = 12_000;

fn open(folder: &Path, faults: Option<(SiteId, &Arc<DiskFaults>)>) -> Result<Database, Error> {
    let options = Options::in_folder(folder, 3).strategy(isomer_strategy::TwoPhase);
    Database::open(match faults {
        Some((site, faults)) => options.disk_faults(site, faults.clone()),
        None => options.accept_loss(true),
    })
}

fn table(db: &Database, backups: Backups) -> TableId {
    let columns = vec![Column::new("id", ColumnType::Int64)];
    let schema = Schema::new("t", columns, &["id"]).expect("a schema");
    let start = |at: i64| if at == 0 { Key::min() } else { Key::int(at * KEYS) };
    let starts: Vec<(Key, SiteId)> = (0..).zip(SITES).map(|(at, site)| (start(at), site)).collect();
    let table = db.create_table(schema, &starts).expect("a table");
    db.set_backups(table, backups).expect("there are sites for them");
    table
}

/// Writes rows, half of them in pairs over two sites.
fn write_all(db: &Database, table: TableId) {
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let mut session = db.session();
                for key in (0..KEYS).filter(|key| key % WRITERS == writer) {
                    let keys = match key % 2 {
                        0 => vec![key, key + KEYS],
                        _ => vec![key + 2 * KEYS],
                    };
                    let add =
                        |footprint: Footprint, key: &i64| footprint.write(table, Key::int(*key));
                    let footprint = keys.iter().fold(Footprint::new(), add);
                    db.run(&mut session, &footprint, |txn: &mut Txn<'_>| {
                        keys.iter().try_for_each(|key| txn.put(table, &Key::int(*key), b"here"))
                    })
                    .expect("it is written");
                }
            });
        }
    });
}

fn written() -> BTreeSet<i64> {
    let pair = |key: i64| if key % 2 == 0 { vec![key, key + KEYS] } else { vec![key + 2 * KEYS] };
    (0..KEYS).flat_map(pair).collect()
}

fn keys(db: &Database, table: TableId) -> BTreeSet<i64> {
    // At the masters: a copy may show an earlier state.
    let footprint = Footprint::new().write_range(table, KeyRange::all());
    let all: Vec<Key> = (0..3 * KEYS).map(Key::int).collect();
    let mut keys = BTreeSet::new();
    db.run(&mut db.session(), &footprint, |txn| {
        keys.clear();
        txn.scan(table, &KeyRange::all(), |key, _| {
            keys.insert(
                all.iter().position(|other| other.as_bytes() == key).expect("one of them") as i64
            );
            ControlFlow::Continue(())
        })
    })
    .expect("all of it can be read");
    keys
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    fs::set_permissions(to, fs::metadata(from).expect("it is there").permissions()).expect("ours");
    for entry in fs::read_dir(from).expect("it can be listed") {
        let path = entry.expect("it can be read").path();
        let new = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &new);
        } else {
            fs::copy(&path, &new).expect("a copy");
        }
    }
}

#[test]
fn acknowledged_commits_outlive_the_loss_of_any_site_with_all_its_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let (open_here, backed) = (folder.path().join("open"), ON_DISK);
    let db = open(&open_here, None).expect("a new database");
    let table = table(&db, backed);
    write_all(&db, table);
    assert_eq!(keys(&db, table), written());
    for site in SITES {
        // As `kill -9` leaves it, and then the disk of a site is lost.
        let left = folder.path().join(format!("without-{site}"));
        copy(&open_here, &left);
        fs::remove_dir_all(left.join(format!("site-{}", site.0))).expect("it was there");
        let db = open(&left, None).expect("it opens without that site's files");
        assert_eq!(keys(&db, table), written(), "without {site}");
        until("each partition has a backup again", || {
            db.design().lacking(&Domains::default(), |_| true).is_empty()
        });
    }
}

#[test]
fn a_lost_backup_is_replaced_and_a_needed_one_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Arc::new(DiskFaults::default());
    let db = open(folder.path(), Some((SITES[0], &disk))).expect("a new database");
    let table = table(&db, ON_DISK);
    write_all(&db, table);

    let (range, placement) = db.design().partition_of(table, &Key::int(0)).expect("it is there");
    let site = placement.replicas.iter().next().expect("it has a backup");
    let removed = Change::RemoveReplica { table, start: range.start, site };
    let refused = db.change(removed, "it is needed").expect_err("it is the only one");
    assert!(
        matches!(&refused, Error::Invalid(i) if matches!(**i, Invalid::NeededBackup { .. })),
        "{refused}"
    );
    let too_many =
        db.set_backups(table, Backups { count: 3, on_disk: true }).expect_err("two others");
    assert!(
        matches!(&too_many, Error::Invalid(i) if matches!(**i, Invalid::Backups { others: 2, .. })),
        "{too_many}"
    );

    disk.fail_syncs(true);
    let first = Footprint::new().write(table, Key::int(0));
    let unsure = db.run(&mut db.session(), &first, |txn| txn.put(table, &Key::int(0), b"here"));
    assert!(unsure.is_err(), "its log has failed");
    until("others take over from the failed site", || !db.failed_over().is_empty());
    until("each partition has a backup elsewhere", || {
        db.design().tables().all(|(id, found)| {
            db.design().partitions_in(id, &KeyRange::all()).all(|(_, placement)| {
                !placement.holds(SITES[0])
                    && placement.replicas.len() == usize::from(found.backups().count)
            })
        })
    });
    assert_eq!(keys(&db, table), written());
}

#[test]
fn without_backups_a_lost_site_loses_its_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let (open_here, left) = (folder.path().join("open"), folder.path().join("left"));
    let db = open(&open_here, None).expect("a new database");
    let table = table(&db, Backups::NONE);
    write_all(&db, table);
    copy(&open_here, &left);
    fs::remove_dir_all(left.join("site-3")).expect("it was there");
    let db = open(&left, None).expect("that was accepted");
    assert!(keys(&db, table).iter().all(|key| *key < 2 * KEYS));
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let came = (0..LOOKS_MAX).any(|_| {
        is_so() || {
            thread::sleep(LOOK);
            false
        }
    });
    assert!(came, "not within the time: {what}");
}
