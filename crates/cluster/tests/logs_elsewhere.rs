//! Databases whose logs are not in files of their folder: opened again, from an empty folder, by
//! another process; and the refusals. The logs are in memory here, in a service that outlives the
//! databases.

#[path = "common/service.rs"]
mod service;

use isomer_cluster::{
    Database, DatabaseId, Error, LogError, Node, Options, find_database, found_database,
};
use isomer_design::{Change, Column, ColumnType, Footprint, Key, Schema, SiteId, TableId};
use isomer_log::Durability;
use isomer_site::Failure;
use service::Service;
use std::path::Path;
use std::sync::Arc;

fn open(folder: &Path, logs: &Arc<Service>) -> Result<Database, Error> {
    let options = Options::in_folder(folder, 2).durability(Durability::Commit);
    Database::open(options.logs(logs.clone()))
}

fn create(db: &Database) -> TableId {
    let columns = vec![Column::new("id", ColumnType::Int64)];
    let schema = Schema::new("t", columns, &["id"]).expect("a schema");
    let starts = [(Key::min(), SiteId(1)), (Key::int(100), SiteId(2))];
    db.create_table(schema, &starts).expect("a table")
}

fn write(db: &Database, table: TableId, key: i64) -> Result<(), Error> {
    let footprint = Footprint::new().write(table, Key::int(key));
    let put = db.run(&mut db.session(), &footprint, |txn| txn.put(table, &Key::int(key), b"row"));
    put.map(drop)
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

fn refused(opened: Result<Database, Error>) -> String {
    opened.err().expect("a refusal").to_string()
}

#[test]
fn a_database_comes_back_from_its_logs_with_its_folder_or_an_empty_one() {
    let (logs, folder) = (Service::new(1), tempfile::tempdir().expect("a folder"));
    let db = open(folder.path(), &logs).expect("a new database");
    assert!(db.is_new());
    let table = create(&db);
    [7, 107].iter().for_each(|key| write(&db, table, *key).expect("it is written"));
    drop(db);

    let db = open(folder.path(), &logs).expect("with its folder");
    assert!(!db.is_new());
    assert_eq!(db.table("t").expect("the catalog is with the logs").0, table);
    assert!(has(&db, table, 7).expect("a read") && has(&db, table, 107).expect("a read"));
    drop(db);

    let elsewhere = tempfile::tempdir().expect("a folder");
    let db = open(elsewhere.path(), &logs).expect("from its logs alone");
    assert!(has(&db, table, 7).expect("a read") && has(&db, table, 107).expect("a read"));
    write(&db, table, 8).expect("it goes on");
    drop(db);

    let db = open(folder.path(), &logs).expect("where it was at first");
    assert!(has(&db, table, 8).expect("a read"));
}

#[test]
fn from_an_empty_folder_logs_that_were_cut_are_refused() {
    let (logs, folder) = (Service::new(1), tempfile::tempdir().expect("a folder"));
    let db = open(folder.path(), &logs).expect("a new database");
    let table = create(&db);
    // A log in memory is cut by whole segments of 1 MiB.
    let row = vec![7; 1 << 19];
    for key in 0..8 {
        let footprint = Footprint::new().write(table, Key::int(key));
        let put = |txn: &mut isomer_cluster::Txn<'_>| txn.put(table, &Key::int(key), &row);
        db.run(&mut db.session(), &footprint, put).expect("it is written");
    }
    db.checkpoint().expect("a checkpoint");
    let elsewhere = tempfile::tempdir().expect("a folder");
    let said = refused(open(elsewhere.path(), &logs));
    assert!(said.contains("begins too late"), "{said}");
    // A refused open takes no log.
    write(&db, table, 9).expect("the site is still here");
    drop(db);
    let db = open(folder.path(), &logs).expect("where its checkpoints are");
    assert!(has(&db, table, 3).expect("a read"));
}

#[test]
fn a_database_is_founded_once_and_a_node_opens_its_own_sites_alone() {
    let (logs, folder) = (Service::new(1), tempfile::tempdir().expect("a folder"));
    let [of_router, of_node, elsewhere] = ["a", "b", "c"].map(|name| folder.path().join(name));
    assert_eq!(find_database(&of_node, &*logs).expect("it can be asked"), None);
    let sites = [SiteId(3), SiteId(4)];
    let node = |path: &Path| {
        let options = Options::in_folder(path, 0).durability(Durability::Commit);
        Node::open(options.sites(&sites).logs(logs.clone()))
    };
    let said = node(&of_node).err().expect("a refusal").to_string();
    assert!(said.contains("there is no database at memory:1 yet"), "{said}");
    for _ in 0..2 {
        let founded = found_database(&of_router, &*logs, None).expect("it is ours");
        assert_eq!(founded, (DatabaseId(1), Vec::new()));
    }
    assert_eq!(find_database(&of_node, &*logs).expect("it can be asked"), Some(DatabaseId(1)));

    let first = node(&of_node).expect("a node");
    // The process with the router has the catalog, and its own sites.
    let db = open(&of_router, &logs).expect("a database");
    let table = create(&db);
    write(&db, table, 7).expect("no process has taken its sites");
    assert!(first.is_lost().is_none());
    let (_, sites) = found_database(&of_router, &*logs, None).expect("it is there");
    assert_eq!(sites, [SiteId(1), SiteId(2)]);
    let second = node(&elsewhere).expect("the same sites, in an empty folder");
    let lost = first.is_lost().expect("its sites are another process's");
    assert!(lost.contains("another process has site s"), "{lost}");
    write(&db, table, 8).expect("only those two were taken");
    drop(second);

    let said = found_database(&of_router, &*Service::new(1), None).expect_err("its logs are lost");
    assert!(said.to_string().contains("its logs are lost, or elsewhere"), "{said}");
    let said = find_database(&of_node, &*Service::new(9)).expect_err("they belong to no database");
    assert!(said.to_string().contains("its logs are lost, or elsewhere"), "{said}");
}

#[test]
fn opening_the_logs_takes_the_database_from_the_previous_process() {
    let (logs, folder) = (Service::new(1), tempfile::tempdir().expect("a folder"));
    let first = open(folder.path(), &logs).expect("a new database");
    let table = create(&first);
    write(&first, table, 7).expect("it is written");

    let elsewhere = tempfile::tempdir().expect("a folder");
    let second = open(elsewhere.path(), &logs).expect("it takes over");
    let error = write(&first, table, 8).expect_err("it has another owner");
    let Error::Failure(Failure::Log(fenced) | Failure::Unknown(fenced)) = &error else {
        panic!("{error:?}")
    };
    assert!(matches!(fenced, LogError::Fenced { .. }) && fenced.is_final(), "{fenced}");
    has(&first, table, 7).expect_err("what it would show may be old");
    // It cannot create a table either: the catalog has a log of its own.
    let columns = vec![Column::new("id", ColumnType::Int64)];
    let schema = Schema::new("u", columns, &["id"]).expect("a schema");
    first.create_table(schema, &[(Key::min(), SiteId(1))]).expect_err("the catalog is another's");

    assert!(has(&second, table, 7).expect("a read"));
    assert!(!has(&second, table, 8).expect("a read"), "it was not acknowledged");
    write(&second, table, 9).expect("it goes on here");
    assert!(second.table("u").is_err());
}

#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "on real threads others get time to do what they must not"
)]
fn a_site_whose_log_another_process_has_is_not_taken_over() {
    let (logs, folder) = (Service::new(1), tempfile::tempdir().expect("a folder"));
    let db = open(folder.path(), &logs).expect("a new database");
    let table = create(&db);
    let replica = Change::AddReplica { table, start: Key::int(100), site: SiteId(1) };
    db.change(replica, "site 1 could take over").expect("it is made");
    write(&db, table, 107).expect("it is written");
    let elsewhere = tempfile::tempdir().expect("a folder");
    let options = Options::in_folder(elsewhere.path(), 0).durability(Durability::Commit);
    let taker = Node::open(options.sites(&[SiteId(2)]).logs(logs.clone())).expect("a node");
    // If site 1 took over, it would do so within a few of these.
    for key in 110..140 {
        write(&db, table, key).expect_err("what site 2 masters is at the other process");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    write(&db, table, 7).expect("no process has taken site 1");
    drop(taker);
}

#[test]
fn a_folder_and_logs_that_do_not_belong_together_are_refused_by_name() {
    let (logs, others) = (Service::new(1), Service::new(0xabc));
    let (folder, other) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("two"));
    drop(open(folder.path(), &logs).expect("a new database"));
    drop(open(other.path(), &others).expect("another"));
    let said = refused(open(folder.path(), &others));
    assert!(said.contains("memory:2748") && said.contains("database 00000"), "{said}");
    let said = refused(open(folder.path(), &Service::new(1)));
    assert!(said.contains("its logs are lost, or elsewhere"), "{said}");
    let said = refused(Database::open(Options::in_folder(folder.path(), 2)));
    assert!(said.contains("the redo logs of the database") && said.contains("memory:1"), "{said}");
    let said = isomer_cluster::look(folder.path(), "learned")
        .expect_err("the catalog is not here")
        .to_string();
    assert!(said.contains("memory:1"), "{said}");

    let with_files = tempfile::tempdir().expect("a third");
    drop(Database::open(Options::in_folder(with_files.path(), 2)).expect("an ordinary one"));
    let said = refused(open(with_files.path(), &Service::new(9)));
    assert!(said.contains("has its redo logs in its folder"), "{said}");
    assert!(open(folder.path(), &logs).is_ok());
}
