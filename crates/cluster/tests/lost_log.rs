//! Logs that lost their end, or all files: a start has every acknowledged commit, or refuses with
//! the name of the file.

use isomer_cluster::{Database, Options};
use isomer_design::{
    Change, Column, ColumnType, Footprint, Key, KeyRange, Schema, SiteId, TableId,
};
use isomer_site::Txn;
use std::fs;
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Rows, each a commit of its own, half of them at each site.
const ROWS: i64 = 60;

/// The bytes at the start of a segment that are no frame.
const HEADER_BYTES: u64 = 32;

/// A database in a folder as `kill -9` leaves it. It is copied while it is open, after every client
/// was answered, when the copy at site 1 has everything on disk.
fn killed(folder: &Path) -> (PathBuf, TableId) {
    let (open, left) = (folder.join("open"), folder.join("left"));
    let db = Database::open(Options::in_folder(&open, 2)).expect("a new database");
    let schema = Schema::new("t", vec![Column::new("id", ColumnType::Int64)], &["id"]);
    let starts = [(Key::min(), SiteId(1)), (Key::int(ROWS / 2), SiteId(2))];
    let table = db.create_table(schema.expect("a schema"), &starts).expect("a table");
    let start = Key::int(ROWS / 2);
    db.change(Change::AddReplica { table, start, site: SiteId(1) }, "a test").expect("it fits");
    let mut session = db.session();
    for id in 0..ROWS {
        let footprint = Footprint::new().write(table, Key::int(id));
        let insert = |txn: &mut Txn<'_>| txn.insert(table, &Key::int(id), &[7; 100]);
        db.run(&mut session, &footprint, insert).expect("a new row");
    }
    let copied = KeyRange::ints(ROWS / 2, ROWS);
    db.read_at(SiteId(1), &session, table, &copied, |_, _| ()).expect("it has a copy");
    copy(&open, &left);
    (left, table)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    let same_mode = |from: &Path, to: &Path| {
        let mode = fs::metadata(from).expect("it is there").permissions();
        fs::set_permissions(to, mode).expect("it can be changed");
    };
    same_mode(from, to);
    for entry in fs::read_dir(from).expect("it can be listed") {
        let path = entry.expect("it can be read").path();
        let new = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &new);
        } else {
            // Segments are long, and mostly empty.
            let mut bytes = Vec::new();
            let file = fs::File::open(&path).expect("it can be opened");
            let length = file.metadata().expect("it has a length").len();
            file.take(1 << 20).read_to_end(&mut bytes).expect("it can be read");
            let mut copy = fs::File::create(&new).expect("a new file");
            copy.write_all(&bytes).expect("it can be written");
            copy.set_len(length).expect("it can be as long");
            same_mode(&path, &new);
        }
    }
}

fn rows(db: &Database, table: TableId) -> usize {
    let all = Footprint::new().read_range(table, KeyRange::all());
    let mut count = 0;
    db.run(&mut db.session(), &all, |txn| {
        count = 0;
        txn.scan(table, &KeyRange::all(), |_, _| {
            count += 1;
            ControlFlow::Continue(())
        })
    })
    .expect("everything can be read");
    count
}

fn segment(folder: &Path, site: u16) -> PathBuf {
    folder.join(format!("site-{site}/log/0000000000000000.log"))
}

/// The end of the frames in a segment.
fn end(segment: &Path) -> u64 {
    let bytes = fs::read(segment).expect("it can be read");
    bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last as u64 + 1)
}

fn cut(segment: &Path, bytes: u64) {
    let file = fs::File::options().write(true).open(segment).expect("it can be opened");
    file.set_len(bytes).expect("it can be cut");
}

/// Damages a copy of a database with `damage`, and opens it. Returns true if all rows are there.
/// Returns false if it is refused with the path of the damaged file, and nothing was changed.
fn survives(left: &Path, table: TableId, damage: impl Fn(&Path)) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    copy(left, &path);
    damage(&path);
    let opened = Database::open(Options::in_folder(&path, 2));
    match opened {
        Ok(db) => {
            assert_eq!(rows(&db, table), ROWS as usize, "commits are lost");
            true
        }
        Err(error) => {
            let said = error.to_string();
            assert!(said.contains("--accept-loss") && said.contains("site s"), "{said}");
            assert!(said.contains("site-") && said.contains("log"), "no file is named: {said}");
            false
        }
    }
}

#[test]
fn a_log_that_lost_its_end_is_refused_by_name_wherever_it_was_cut() {
    let folder = tempfile::tempdir().expect("a folder");
    let (left, table) = killed(folder.path());
    assert!(survives(&left, table, |_| ()), "a killed process loses nothing");
    for site in [1, 2] {
        let (end, file) = (end(&segment(&left, site)), |path: &Path| segment(path, site));
        let cuts = (0..4).map(|quarter| end * quarter / 4);
        for bytes in cuts.chain([HEADER_BYTES, end - 1, end + 23]) {
            let there = survives(&left, table, |path| cut(&file(path), bytes));
            assert!(!there, "site {site} cut at {bytes} of {end}");
        }
        assert!(survives(&left, table, |path| cut(&file(path), end + 24)), "only zeros are gone");
    }
}

#[test]
fn a_log_with_a_wrong_bit_or_without_its_files_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let (left, table) = killed(folder.path());
    for site in [1, 2] {
        let end = end(&segment(&left, site));
        for at in (0..4).map(|quarter| (end - 1) * quarter / 4).chain([12]) {
            let there = survives(&left, table, |path| {
                let mut bytes = fs::read(segment(path, site)).expect("it can be read");
                bytes[at as usize] ^= 0x04;
                fs::write(segment(path, site), bytes).expect("it can be written");
            });
            assert!(!there, "site {site}, byte {at} of {end}");
        }
        // The last frame may not have been acknowledged; then nothing is lost with it.
        survives(&left, table, |path| {
            let mut bytes = fs::read(segment(path, site)).expect("it can be read");
            bytes[end as usize - 1] ^= 0x04;
            fs::write(segment(path, site), bytes).expect("it can be written");
        });
        let log = |path: &Path| segment(path, site).parent().expect("a folder").to_owned();
        let gone = [
            survives(&left, table, |path| fs::remove_file(segment(path, site)).expect("gone")),
            survives(&left, table, |path| fs::remove_dir_all(log(path)).expect("gone")),
            survives(&left, table, |path| {
                fs::remove_dir_all(log(path)).expect("gone");
                fs::create_dir(log(path)).expect("an empty one");
            }),
        ];
        assert_eq!(gone, [false; 3], "site {site}");
        let witness = |path: &Path| log(path).join("watermark");
        assert!(survives(&left, table, |path| fs::remove_file(witness(path)).expect("gone")));
    }
}

/// A log that is older than what the other site has read of it, with all files that belong to it: a
/// backup of one site alone.
#[test]
fn a_log_from_an_old_backup_is_refused_because_the_other_site_has_read_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let (left, _) = killed(folder.path());
    let log = left.join("site-2/log");
    fs::remove_file(log.join("watermark")).expect("gone");
    let path = segment(&left, 2);
    let mut bytes = fs::read(&path).expect("it can be read");
    let from = end(&path) as usize - 500;
    bytes[from..].fill(0);
    fs::write(&path, bytes).expect("it can be written");
    let said = Database::open(Options::in_folder(&left, 2)).err().expect("a loss").to_string();
    assert!(said.contains("site s2") && said.contains("site s1 has read it"), "{said}");
}

#[test]
fn an_accepted_loss_is_reported_and_the_rest_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let (left, table) = killed(folder.path());
    cut(&segment(&left, 1), end(&segment(&left, 1)) / 4);
    assert!(Database::open(Options::in_folder(&left, 2)).is_err());
    let db = Database::open(Options::in_folder(&left, 2).accept_loss(true)).expect("accepted");
    let notes = db.notes().join("\n");
    assert!(notes.contains("was cut short") && notes.contains("accepted"), "{notes}");
    let found = rows(&db, table);
    assert!(found < ROWS as usize && found >= ROWS as usize / 2, "{found} rows");
    drop(db);
    let db = Database::open(Options::in_folder(&left, 2)).expect("it has been accepted");
    assert_eq!((rows(&db, table), db.notes().len()), (found, 0));
}

#[test]
fn a_folder_of_a_cluster_is_refused_without_its_other_processes_and_nothing_is_lost() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let path = folder.path().join("serve");
    drop(Database::open(Options::in_folder(&path, 2)).expect("a new database"));
    isomer_cluster::join_cluster(&path, 7).expect("it can be written");
    drop(Database::open(Options::in_folder(&path, 2)).expect("all its sites are there"));
    fs::remove_dir_all(path.join("site-2")).expect("the site is at a node");
    for accepts in [false, true] {
        let options = Options::in_folder(&path, 2).accept_loss(accepts);
        let refused = Database::open(options).err().expect("site 2 is elsewhere").to_string();
        assert!(refused.contains("belongs to a cluster, and site s2"), "{refused}");
        assert!(!refused.contains("--accept-loss"), "{refused}");
        assert!(!path.join("site-2").exists(), "no empty site takes its place");
    }
}
