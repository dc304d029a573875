//! A node takes the place of the process that had the router and the conductor, after that has
//! failed. The processes are parts of this one that exchange only bytes, and their logs are in a
//! service that outlives them.

use super::channel::Cluster;
use super::service::Service;
use super::until;
use isomer_cluster::{
    CheckedWrite, CheckedWrites, Database, Error, Expect, Options, Procedures, found_database,
};
use isomer_design::{
    Backups, Change, Column, ColumnType, Footprint, Key, KeyRange, Schema, SiteId, TableId,
};
use isomer_log::Durability;
use isomer_strategy::OnDemand;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The process with the router has two sites, and there are two nodes.
const PROCESSES: &[&[u16]] = &[&[1, 2], &[3], &[4]];

pub(super) fn options(folder: &Path, logs: &Arc<Service>, at: usize) -> Options {
    let folder = folder.join(at.to_string());
    let options = Options::in_folder(folder, 0).durability(Durability::Commit);
    let sites = [1, 2, 3, 4].map(SiteId);
    options.sites(&sites).logs(logs.clone())
}

pub(super) fn started(folder: &Path, logs: &Arc<Service>) -> Cluster {
    found_database(&folder.join("0"), &**logs, None).expect("a new database");
    Cluster::open_with(PROCESSES, Procedures::default, |at| options(folder, logs, at))
}

/// A table whose rows from 0, 100, 200 and 300 on begin at sites 1 to 4.
fn create(db: &Database, name: &str) -> TableId {
    let columns = vec![Column::new("id", ColumnType::Int64)];
    let schema = Schema::new(name, columns, &["id"]).expect("a schema");
    let start = |at: u16| if at == 1 { Key::min() } else { Key::int(i64::from(at - 1) * 100) };
    let starts: Vec<(Key, SiteId)> = (1..=4).map(|at| (start(at), SiteId(at))).collect();
    db.create_table(schema, &starts).expect("a table")
}

fn write(db: &Database, table: TableId, key: i64, row: u8) -> Result<(), Error> {
    let put = CheckedWrite { expect: Expect::Anything, row: Some(vec![row]) };
    let writes = CheckedWrites::from([(table, BTreeMap::from([(Key::int(key), put)]))]);
    let footprint = Footprint::new().write(table, Key::int(key));
    db.write(&mut db.session(), &footprint, &writes).map(drop)
}

fn read(db: &Database, table: TableId, key: i64) -> Option<Vec<u8>> {
    let mut session = db.session();
    session.has_seen(db.now());
    let mut found = None;
    let span = KeyRange::new(Key::int(key), Some(Key::int(key + 1)));
    let design = db.design();
    let master = design.partition_of(table, &Key::int(key)).expect("a partition").1.master;
    db.read_at(master, &session, table, &span, |_, row| found = Some(row.to_vec()))
        .expect("a read");
    found
}

#[test]
fn a_node_takes_the_place_of_the_failed_router_and_nothing_is_lost() {
    let (logs, folder) = (Service::new(1), tempfile::tempdir().expect("a folder"));
    let mut cluster = started(folder.path(), &logs);
    let db = cluster.gateway.database();
    let (safe, alone) = (create(db, "safe"), create(db, "alone"));
    db.set_backups(safe, Backups { count: 1, on_disk: true }).expect("there are other processes");
    for table in [safe, alone] {
        for key in [7, 107, 207, 307] {
            write(db, table, key, 1).expect("it is written");
        }
    }
    // A change that the next conductor can only find at the sites.
    let split = Change::Split { table: safe, at: Key::int(50) };
    db.change(split, "for the test").expect("a split");
    write(db, safe, 60, 2).expect("it is written");

    cluster.weather.end(&[1, 2]);
    let heir = cluster.nodes.remove(0);
    let db = Database::succeed(heir, OnDemand::default()).expect("it takes its place");
    assert_eq!(*cluster.weather.terms.lock().expect("no panic"), [1, 2]);
    for (key, row) in [(7, 1), (60, 2), (107, 1), (207, 1), (307, 1)] {
        // Until others have taken over, a write waits.
        write(&db, safe, key, row + 10).unwrap_or_else(|error| panic!("{key}: {error}"));
        assert_eq!(read(&db, safe, key), Some(vec![row + 10]), "{key}");
    }
    for (key, row) in [(207, 1), (307, 1)] {
        assert_eq!(read(&db, alone, key), Some(vec![row]), "{key}");
    }
    let masters: Vec<u16> = db
        .design()
        .table(safe)
        .expect("a table")
        .partitions()
        .iter()
        .map(|(_, placement)| placement.master.0)
        .collect();
    assert!(masters.iter().all(|site| [3, 4].contains(site)), "{masters:?}");
    let (columns, at) = (vec![Column::new("id", ColumnType::Int64)], [(Key::min(), SiteId(3))]);
    let schema = |name: &str| Schema::new(name, columns.clone(), &["id"]).expect("a schema");
    db.create_table(schema("later"), &at).expect("definitions go on");
    // The earlier conductor has lost the catalog, and nothing that it does counts.
    let before = cluster.gateway.database();
    let refused = before.create_table(schema("late"), &[(Key::min(), SiteId(1))]);
    assert!(refused.is_err() && before.is_lost().is_some());

    // The failed process comes back as a node, and with it what only its sites had. Which of them
    // has which rows, the present conductor did not know.
    // The process starts in an empty folder, because its earlier run still has the other folder.
    let _back = cluster.restart(0, options(folder.path(), &logs, 9));
    for (key, row) in [(7, 1), (107, 1)] {
        until("its rows are there again", || write(&db, alone, key, row + 20).is_ok());
        assert_eq!(read(&db, alone, key), Some(vec![row + 20]), "{key}");
    }
    let placed = db.design();
    let master =
        |key: i64| placed.partition_of(alone, &Key::int(key)).expect("it is there").1.master;
    assert_eq!([7, 107, 207, 307].map(master), [1, 2, 3, 4].map(SiteId));
    assert_eq!(read(&db, safe, 60), Some(vec![12]));
}

/// The heir cannot reach a node that it needs for the takeover, for a while: it tries again. The
/// failed process stays away.
#[test]
fn a_takeover_is_tried_again_while_a_site_that_it_needs_does_not_answer() {
    let (logs, folder) = (Service::new(1), tempfile::tempdir().expect("a folder"));
    let mut cluster = started(folder.path(), &logs);
    let db = cluster.gateway.database();
    let safe = create(db, "safe");
    db.set_backups(safe, Backups { count: 1, on_disk: true }).expect("there are other processes");
    [7, 107].into_iter().for_each(|key| write(db, safe, key, 1).expect("it is written"));
    cluster.weather.end(&[1, 2]);
    cluster.weather.fences_to_lose.store(40, Ordering::SeqCst);
    let heir = cluster.nodes.remove(0);
    let db = Database::succeed(heir, OnDemand::default()).expect("it takes its place");
    for key in [7, 107] {
        until("others have taken over", || write(&db, safe, key, 2).is_ok());
        assert_eq!(read(&db, safe, key), Some(vec![2]));
    }
    assert_eq!(cluster.weather.fences_to_lose.load(Ordering::SeqCst), 0);
    let told: Vec<String> = db.failed_over().iter().map(ToString::to_string).collect();
    assert!(told.iter().any(|told| told.contains("cannot take part")), "{told:?}");
}

/// A node was failed over from, and has restarted. Before it is readmitted, the process with the
/// conductor fails, and the node does not answer the next conductor, which does not need it.
#[test]
fn a_takeover_does_not_wait_for_a_site_that_was_replaced_and_does_not_answer() {
    let (logs, folder) = (Service::new(1), tempfile::tempdir().expect("a folder"));
    let mut cluster = started(folder.path(), &logs);
    let db = cluster.gateway.database();
    let safe = create(db, "safe");
    db.set_backups(safe, Backups { count: 1, on_disk: true }).expect("there are other processes");
    let keys = [7, 107, 207, 307];
    keys.into_iter().for_each(|key| write(db, safe, key, 1).expect("it is written"));
    cluster.weather.end(&[4]);
    until("others have taken over", || write(db, safe, 307, 2).is_ok());
    until("all rows have backups", || db.backups_missing() == 0);
    cluster.weather.begin(&[4]);
    *cluster.weather.mute.lock().expect("no panic") = Some(SiteId(4));
    cluster.weather.end(&[1, 2]);
    let heir = cluster.nodes.remove(0);
    let db = Database::succeed(heir, OnDemand::default()).expect("it takes its place");
    for key in keys {
        until("others have taken over", || write(&db, safe, key, 3).is_ok());
        assert_eq!(read(&db, safe, key), Some(vec![3]));
    }
}
