//! Catalogs of all formats that ever were can be read. A catalog of an unknown format is refused
//! with a message.

use isomer_cluster::{Database, Options};
use isomer_design::{Column, ColumnType, Key, Schema, SiteId};
use std::fs;
use std::path::Path;

/// The first lines of catalogs, by format.
const TITLES: [&str; 7] = [
    "# An Isomer database: its sites and tables. Where partitions are stands in the sites' logs.",
    "# An Isomer database, format 2: its sites and tables. Where partitions are stands in the sites' logs.",
    "# An Isomer database, format 3: its sites and tables. Where partitions are stands in the sites' logs.",
    "# An Isomer database, format 4: its sites and tables. Where partitions are stands in the sites' logs.",
    "# An Isomer database, format 5: its sites and tables. Where partitions are stands in the sites' logs.",
    "# An Isomer database, format 6: its sites and tables. Where partitions are stands in the sites' logs.",
    "# An Isomer database, format 7: its sites and tables. Where partitions are stands in the sites' logs.",
];

fn create_table(db: &Database, name: &str) {
    let columns = vec![Column::new("id", ColumnType::Int64)];
    let schema = Schema::new(name, columns, &["id"]).expect("a valid schema");
    db.create_table(schema, &[(Key::min(), SiteId(2))]).expect("a valid table");
}

/// Replaces the first line of a catalog.
fn entitle(folder: &Path, title: &str) -> String {
    let path = folder.join("catalog");
    let catalog = fs::read_to_string(&path).expect("it is there");
    let (_, rest) = catalog.split_once('\n').expect("it has lines");
    let changed = format!("{title}\n{rest}");
    fs::write(&path, &changed).expect("it can be written");
    changed
}

#[test]
fn catalogs_of_each_format_are_read_and_written_in_the_newest() {
    for title in TITLES {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let open = || Database::open(Options::in_folder(folder.path(), 2)).expect("it is known");
        create_table(&open(), "people");
        entitle(folder.path(), title);
        let db = open();
        assert!(db.table("people").is_ok(), "{title}");
        create_table(&db, "pets");
        drop(db);
        let catalog = fs::read_to_string(folder.path().join("catalog")).expect("it is there");
        assert!(catalog.starts_with(TITLES[TITLES.len() - 1]), "{catalog}");
        assert!(open().table("people").is_ok(), "{title}");
    }
}

#[test]
fn an_unknown_format_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    create_table(&Database::open(Options::in_folder(folder.path(), 2)).expect("opens"), "people");
    let newer =
        entitle(folder.path(), "# An Isomer database, format 8: what is in it nobody knows yet.");
    let refused = Database::open(Options::in_folder(folder.path(), 2)).err().expect("a refusal");
    let refused = refused.to_string();
    assert!(refused.contains("format 8") && refused.contains("up to 7"), "{refused}");
    let left = fs::read_to_string(folder.path().join("catalog")).expect("it is there");
    assert_eq!(left, newer, "it was left as it was");
}
