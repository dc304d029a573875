//! Invalid requests: a clear error that names the object, and no change.

use isomer_cluster::{Database, Error, Options};
use isomer_design::{
    Change, Column, ColumnType, Footprint, KEY_BYTES_MAX, Key, KeyRange, Schema, SiteId, TableId,
    Value,
};
use isomer_site::Txn;
use std::fs;
use std::ops::ControlFlow;

fn schema() -> Schema {
    let columns = vec![Column::new("id", ColumnType::Int64), Column::new("name", ColumnType::Text)];
    Schema::new("people", columns, &["id"]).expect("the columns fit together")
}

/// Three sites, `people` below 10 at s1 with a replica at s2, the others at s2; persons 1 and 11.
fn people() -> (Database, TableId) {
    let db = Database::open(Options::in_memory(3)).expect("a database in memory");
    let starts = [(Key::min(), SiteId(1)), (Key::int(10), SiteId(2))];
    let table = db.create_table(schema(), &starts).expect("a valid table");
    for id in [1, 11] {
        let footprint = Footprint::new().write(table, Key::int(id));
        let insert = |txn: &mut Txn<'_>| txn.insert(table, &Key::int(id), b"somebody");
        db.run(&mut db.session(), &footprint, insert).expect("a new person");
    }
    let start = Key::min();
    db.change(Change::AddReplica { table, start, site: SiteId(2) }, "a test").expect("it fits");
    (db, table)
}

/// Design and rows, as one text.
fn state(db: &Database, table: TableId) -> String {
    let mut text = db.design().to_text();
    let all = Footprint::new().read_range(table, KeyRange::all());
    db.run(&mut db.session(), &all, |txn| {
        txn.scan(table, &KeyRange::all(), |key, value| {
            text += &format!("{key:?} {value:?}\n");
            ControlFlow::Continue(())
        })
    })
    .expect("everything can be read");
    text
}

/// Runs a transaction that must fail. Its error must contain all the words.
fn refused(
    db: &Database,
    footprint: &Footprint,
    words: &[&str],
    mut procedure: impl FnMut(&mut Txn<'_>) -> Result<(), isomer_site::Abort>,
) {
    let error = db.run(&mut db.session(), footprint, |txn| procedure(txn));
    let said = error.expect_err("it is invalid").to_string();
    words.iter().for_each(|word| assert!(said.contains(word), "`{word}` is not in: {said}"));
}

#[test]
fn invalid_transactions_write_nothing() {
    let (db, table) = people();
    // The reads of the comparison gather the table at one site, so they come first.
    let before = state(&db, table);
    let (one, five) = (Key::int(1), Key::int(5));
    let write = Footprint::new().write(table, five.clone());

    let unknown = Footprint::new().write(TableId(99), one.clone());
    refused(&db, &unknown, &["no table t99"], |_| Ok(()));
    refused(&db, &write, &["footprint"], |txn| {
        txn.put(table, &five, b"somebody")?;
        txn.put(table, &one, b"somebody else")
    });
    let read = Footprint::new().read(table, one.clone());
    refused(&db, &read, &["footprint", "write"], |txn| txn.put(table, &one, b"x"));
    let exists = Footprint::new().write(table, one.clone()).write(table, five.clone());
    refused(&db, &exists, &["duplicate key", "t1", "key 1"], |txn| {
        txn.put(table, &five, b"somebody")?;
        txn.insert(table, &one, b"a second one")
    });
    let long = Key::from_bytes(&vec![b'k'; KEY_BYTES_MAX + 1]);
    let footprint = Footprint::new().write(table, long.clone());
    let limit = KEY_BYTES_MAX.to_string();
    refused(&db, &footprint, &["key", &limit], |txn| txn.put(table, &long, b"x"));
    refused(&db, &write, &["changed my mind"], |txn| {
        txn.put(table, &five, b"somebody")?;
        Err(isomer_site::Abort::because("changed my mind"))
    });
    assert_eq!(state(&db, table), before);
}

#[test]
fn changes_that_do_not_fit_leave_the_design_as_it_was() {
    let (db, table) = people();
    let before = db.design().to_text();
    let start = || Key::min();
    let cases: Vec<(Change, &[&str])> = vec![
        (Change::Split { table: TableId(99), at: Key::int(5) }, &["t99"]),
        (Change::Split { table, at: Key::int(10) }, &["people[10]", "starts there"]),
        (Change::Merge { table, at: Key::int(10) }, &["master"]),
        (Change::Merge { table, at: Key::int(7) }, &["7"]),
        (Change::AddReplica { table, start: start(), site: SiteId(9) }, &["s9"]),
        (Change::AddReplica { table, start: start(), site: SiteId(1) }, &["s1", "master"]),
        (Change::AddReplica { table, start: start(), site: SiteId(2) }, &["s2", "replica"]),
        (Change::RemoveReplica { table, start: start(), site: SiteId(3) }, &["s3", "replica"]),
        (Change::Remaster { table, start: start(), to: SiteId(3) }, &["s3", "replica"]),
        (Change::Remaster { table, start: Key::int(4), to: SiteId(2) }, &["4"]),
        (Change::RemoveSite { site: SiteId(1) }, &["s1"]),
        (Change::AddSite { site: SiteId(2) }, &["s2"]),
    ];
    for (change, words) in cases {
        let said = match db.change(change.clone(), "a test") {
            Err(error @ Error::Invalid(_)) => error.to_string(),
            other => panic!("{change} was not called invalid: {other:?}"),
        };
        words.iter().for_each(|word| assert!(said.contains(word), "`{word}` is not in: {said}"));
        assert_eq!(db.design().to_text(), before, "after {change}");
    }
}

#[test]
fn schemas_and_rows_that_do_not_fit_are_named() {
    let id = || Column::new("id", ColumnType::Int64);
    let no_key = Schema::new("people", vec![id()], &["nobody"]).unwrap_err().to_string();
    assert!(no_key.contains("nobody"), "{no_key}");
    let twice = Schema::new("people", vec![id(), id()], &["id"]).unwrap_err().to_string();
    assert!(twice.contains("id"), "{twice}");
    let wrong = schema().encode_key(&[Value::Text("seven".into())]).unwrap_err().to_string();
    assert!(wrong.contains("id") && wrong.contains("int64"), "{wrong}");

    let (db, _) = people();
    let nobody = db.table("peple").unwrap_err().to_string();
    assert!(nobody.contains("`peple`") && nobody.contains("people"), "{nobody}");
    let again = db.create_table(schema(), &[(Key::min(), SiteId(1))]).unwrap_err().to_string();
    assert!(again.contains("`people`"), "{again}");
    let nowhere = Schema::new("pets", vec![id()], &["id"]).expect("a valid schema");
    let nowhere = db.create_table(nowhere, &[(Key::min(), SiteId(7))]).unwrap_err().to_string();
    assert!(nowhere.contains("s7"), "{nowhere}");
    assert_eq!(db.design().tables().count(), 1);
}

#[test]
fn folders_that_are_damaged_or_foreign_are_refused_untouched() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let path = folder.path().join("db");
    let table = {
        let db = Database::open(Options::in_folder(&path, 2)).expect("a new database");
        let table = db.create_table(schema(), &[(Key::min(), SiteId(1))]).expect("a valid table");
        for id in 0..100 {
            let footprint = Footprint::new().write(table, Key::int(id));
            let insert = |txn: &mut Txn<'_>| txn.insert(table, &Key::int(id), &[7; 100]);
            db.run(&mut db.session(), &footprint, insert).expect("a new person");
        }
        table
    };
    let segment = fs::read_dir(path.join("site-1").join("log"))
        .expect("the site has a log")
        .map(|entry| entry.expect("it can be read").path())
        .find(|path| path.extension().is_some_and(|end| end == "log"))
        .expect("a log has a segment");
    let sound = fs::read(&segment).expect("it can be read");
    let mut damaged = sound.clone();
    damaged[4000] ^= 0x10;
    fs::write(&segment, &damaged).expect("it can be written");
    let said = Database::open(Options::in_folder(&path, 2)).err().expect("damage").to_string();
    let name = segment.file_name().expect("a file").to_string_lossy().into_owned();
    assert!(said.contains("site s1") && said.contains(&name) && said.contains("offset"), "{said}");
    assert_eq!(fs::read(&segment).expect("it can be read"), damaged, "it was left as it was");

    fs::write(&segment, &sound).expect("it can be written");
    let db = Database::open(Options::in_folder(&path, 2)).expect("it is sound again");
    assert_eq!(state(&db, table).lines().filter(|line| line.contains("[7, 7")).count(), 100);

    let foreign = folder.path().join("photos");
    fs::create_dir(&foreign).expect("a folder");
    fs::write(foreign.join("cat.jpg"), b"meow").expect("a file");
    let said = Database::open(Options::in_folder(&foreign, 2)).err().expect("foreign").to_string();
    assert!(said.contains("photos") && said.contains("not an Isomer database"), "{said}");
    assert_eq!(fs::read_dir(&foreign).expect("it is there").count(), 1);
}
