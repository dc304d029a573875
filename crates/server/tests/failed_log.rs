//! Failed and full logs from the clients' view: an error with its own code, and never an endless
//! wait.

mod fixture;

use fixture::{Fixture, code, options};
use isomer_cluster::{DiskFaults, Options};
use isomer_design::{Change, Key, SiteId};
use postgres::error::SqlState;
use postgres::{Client, NoTls};
use std::path::Path;
use std::sync::Arc;

const S1: SiteId = SiteId(1);
const S2: SiteId = SiteId(2);

/// Two sites in a folder, with disks that can fail. Tables begin at the first; `moved` is at the
/// second alone, `copied` is at the second with a replica at the first.
fn faulty(folder: &Path) -> (Fixture, [Arc<DiskFaults>; 2]) {
    let faults = [Arc::default(), Arc::<DiskFaults>::default()];
    let database = Options::in_folder(folder, 2)
        .disk_faults(S1, Arc::clone(&faults[0]))
        .disk_faults(S2, Arc::clone(&faults[1]));
    let fixture = Fixture::serve(database, options());
    let mut client = fixture.client();
    client
        .batch_execute(
            "create table moved (id int primary key); create table copied (id int primary key);
             insert into moved values (1); insert into copied values (1)",
        )
        .expect("tables");
    let database = fixture.engine.database();
    let start = Key::min;
    for name in ["moved", "copied"] {
        let (table, _) = database.table(name).expect("it is there");
        let mut changes = vec![
            Change::AddReplica { table, start: start(), site: S2 },
            Change::Remaster { table, start: start(), to: S2 },
        ];
        if name == "moved" {
            changes.push(Change::RemoveReplica { table, start: start(), site: S1 });
        }
        for change in changes {
            database.change(change, "a test").expect("it fits");
        }
    }
    (fixture, faults)
}

fn count(client: &mut Client, query: &str) -> i64 {
    client.query_one(query, &[]).expect("one row").get(0)
}

#[test]
fn a_failed_log_is_an_error_of_its_own_and_copies_take_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let (fixture, faults) = faulty(folder.path());
    let mut client = fixture.client();
    faults[1].fail_syncs(true);
    // The commit was written, up to an unknown point. The site that takes over shows the outcome.
    client.batch_execute("insert into copied values (2)").expect("found out, or run again");
    while fixture.engine.database().failed_over().is_empty() {
        std::thread::yield_now();
    }
    client.batch_execute("insert into copied values (3)").expect("the copy is the master now");
    assert_eq!(count(&mut client, "select count(*) from copied"), 3);
    for statement in ["insert into moved values (2)", "select * from moved"] {
        assert_eq!(code(client.batch_execute(statement)), SqlState::IO_ERROR, "{statement}");
    }
    let health = "select site || ' ' || health from isomer.sites order by site";
    let rows = client.query(health, &[]).expect("rows");
    let health: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(health[0], "s1 ok");
    assert!(health[1].starts_with("s2 failed: the log failed at position"), "{}", health[1]);
}

#[test]
fn on_a_full_disk_writes_are_refused_and_waits_end_by_time_out_and_by_cancel() {
    let folder = tempfile::tempdir().expect("a folder");
    let (fixture, faults) = faulty(folder.path());
    let (mut client, mut patient) = (fixture.client(), fixture.client());
    faults[1].fill_up(true);
    // The first commit is in the log's memory when the disk turns out to be full, so it waits until
    // the time-out.
    client.batch_execute("set statement_timeout = '100ms'").expect("a setting");
    let waited = code(client.batch_execute("insert into moved values (2)"));
    assert_eq!(waited, SqlState::from_code("08007"), "it may be there when there is room");
    assert_eq!(code(client.batch_execute("insert into moved values (3)")), SqlState::DISK_FULL);
    assert_eq!(count(&mut client, "select count(*) from copied"), 1);
    // A reader of a commit that is not durable waits too, until it is cancelled.
    let token = patient.cancel_token();
    std::thread::scope(|scope| {
        let waits = scope.spawn(move || code(patient.batch_execute("select * from moved")));
        while !waits.is_finished() {
            token.cancel_query(NoTls).expect("the server answers");
            std::thread::yield_now();
        }
        assert_eq!(waits.join().expect("no panic"), SqlState::QUERY_CANCELED);
    });
    faults[1].fill_up(false);
    client.batch_execute("reset statement_timeout").expect("a setting");
    while client.batch_execute("insert into moved values (4)").is_err() {}
    assert_eq!(count(&mut client, "select count(*) from moved where id <> 3"), 3);
}
