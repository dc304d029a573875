//! The shard key of a table changes repeatedly while clients use the table. No client gets an
//! error; no row is lost or duplicated, in any layout or index; and no session sees time go
//! backwards.

mod fixture;

use fixture::{End, Fixture, wait_for};
use postgres::Client;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const ACCOUNTS: i64 = 600;
const WRITERS: i64 = 3;
const START: i64 = 1000;
/// The clients' own accounts come after the shared ones.
const OWN: i64 = 1_000_000;

/// The sequence of layouts. Some changes are cancelled at a random time.
const CHANGES: [&str; 8] = [
    "shard by (bid)",
    "shard by default",
    "shard by (bid, aid) keep old",
    "shard by default keep old",
    "shard by (bid)",
    "shard by (tag, bid)",
    "shard by (bid)",
    "shard by default",
];

fn tables(client: &mut Client) {
    client
        .batch_execute(&format!(
            "create table accounts (aid bigint primary key, bid bigint, balance bigint, tag text, code bigint unique);
             create index by_balance on accounts (balance);
             create table notes (id bigint primary key, aid bigint references accounts on delete cascade);
             insert into accounts select n, n % 10, {START}, 'tag', n from generate_series(0, {ACCOUNTS} - 1) n;
             insert into accounts select {OWN} + n, n, 0, 'own', {OWN} + n from generate_series(0, {WRITERS} - 1) n;"
        ))
        .expect("tables");
    for statement in [
        "alter table accounts split at (200)",
        "alter table accounts split at (400)",
        "alter table accounts remaster at (200) to site 2",
        "alter table accounts remaster at (400) to site 3",
    ] {
        client.batch_execute(statement).expect("a design");
    }
}

/// The total balance, computed in several ways.
fn worth(client: &mut Client) -> [(i64, i64); 4] {
    [
        "aid < 1000000",
        "aid >= 0 and aid < 1000000",
        "code >= 0 and code < 1000000",
        "balance > -1000000000 and aid < 1000000",
    ]
    .map(|condition| {
        let query =
            format!("select count(*), sum(balance)::bigint from accounts where {condition}");
        let row = client.query_one(&query, &[]).expect("a row");
        (row.get(0), row.get(1))
    })
}

fn write(client: &mut Client, at: i64, done: &AtomicBool, writes: &AtomicU64) {
    let transfer = "update accounts set balance = balance + $2 where aid = $1";
    let transfer = client.prepare(transfer).expect("a statement");
    let mut chance = at as u64;
    let mut draw = |below: i64| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (chance >> 33) as i64 % below
    };
    let mut count = 0;
    while !done.load(Ordering::Relaxed) {
        count += 1;
        writes.fetch_add(1, Ordering::Relaxed);
        match count % 4 {
            0 => {
                let (a, b) = (draw(ACCOUNTS), draw(ACCOUNTS));
                let (a, b) = (a.min(b), a.max(b));
                let mut block = client.transaction().expect("a block");
                for (aid, by) in [(a, 1_i64), (b, -1)] {
                    assert_eq!(block.execute(&transfer, &[&aid, &by]).expect("a transfer"), 1);
                }
                block.commit().expect("a transfer");
            }
            1 => {
                let (aid, bid) = (draw(ACCOUNTS), draw(10));
                let moves = format!("update accounts set bid = {bid} where aid = {aid}");
                client.batch_execute(&moves).expect("a row moves");
            }
            2 => {
                // Rows that are inserted and deleted: each writer has its own.
                let aid = draw(ACCOUNTS) * WRITERS + at + 2 * OWN;
                let insert = format!(
                    "insert into accounts values ({aid}, {at}, 0, 'come', {aid})
                     on conflict (aid) do update set tag = 'again'"
                );
                client.batch_execute(&insert).expect("a row comes");
                let note = format!("insert into notes values ({count} * {WRITERS} + {at}, {aid})");
                client.batch_execute(&note).expect("a row that refers to it");
                if count % 8 == 2 {
                    let delete = format!("delete from accounts where aid = {aid}");
                    client.batch_execute(&delete).expect("a row goes");
                }
            }
            _ => {
                // A writer sees its own writes by every access path.
                let own = OWN + at;
                assert_eq!(client.execute(&transfer, &[&own, &1_i64]).expect("its own row"), 1);
                let turns = count / 4 + 1;
                for condition in [
                    format!("aid = {own}"),
                    format!("code = {own}"),
                    format!("bid = {at} and tag = 'own'"),
                ] {
                    let query = format!("select balance from accounts where {condition}");
                    let seen: Vec<i64> = client
                        .query(&query, &[])
                        .expect("a row")
                        .iter()
                        .map(|row| row.get(0))
                        .collect();
                    assert_eq!(seen, [turns], "{condition}");
                }
            }
        }
    }
}

fn look(client: &mut Client, done: &AtomicBool) {
    let all = [(ACCOUNTS, ACCOUNTS * START); 4];
    while !done.load(Ordering::Relaxed) {
        client.batch_execute("begin isolation level repeatable read").expect("a block");
        assert_eq!(worth(client), all);
        assert_eq!(worth(client), all, "a snapshot stays what it is");
        client.batch_execute("commit").expect("an end");
        assert_eq!(worth(client), all);
    }
}

#[test]
fn no_client_notices_that_the_shard_key_changes() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    tables(&mut client);
    let (done, writes) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (fixture, done, writes) = (&fixture, &done, &writes);
        let end = End(done);
        for at in 0..WRITERS {
            scope.spawn(move || {
                let _end = End(done);
                write(&mut fixture.client(), at, done, writes);
            });
        }
        scope.spawn(move || {
            let _end = End(done);
            look(&mut fixture.client(), done);
        });
        for (round, change) in CHANGES.iter().enumerate() {
            // Some are cancelled on the way, and tried again.
            let limit = format!("set statement_timeout = {}", 5 + 20 * (round % 3));
            client.batch_execute(&limit).expect("a setting");
            let statement = format!("alter table accounts {change}");
            if let Err(error) = client.batch_execute(&statement) {
                let code = error.code().map(|code| code.code().to_owned());
                assert_eq!(code.as_deref(), Some("57014"), "{change}: {error}");
            }
            client.batch_execute("set statement_timeout = 0").expect("a setting");
            let goal = writes.load(Ordering::Relaxed) + 30;
            wait_for("writers", || {
                let has_failed = done.load(Ordering::Relaxed);
                (has_failed || writes.load(Ordering::Relaxed) >= goal).then_some(())
            });
            client.batch_execute(&statement).unwrap_or_else(|error| panic!("{change}: {error:?}"));
        }
        drop(end);
    });
    let orphans = "select count(*) from notes left join accounts using (aid) where code is null";
    let orphans: i64 = client.query_one(orphans, &[]).expect("a row").get(0);
    assert_eq!(orphans, 0, "foreign keys hold");
    let left = "select count(*) from isomer.partitions where relation = 'accounts'";
    let left: i64 = client.query_one(left, &[]).expect("a row").get(0);
    assert_eq!(left, 3, "one order is left");
    let jobs: i64 =
        client.query_one("select count(*) from isomer.jobs", &[]).expect("a row").get(0);
    assert_eq!(jobs, 0);
    assert_eq!(worth(&mut client), [(ACCOUNTS, ACCOUNTS * START); 4]);
}

/// The state of the only job.
fn state(client: &mut Client) -> Option<String> {
    let row = client.query_opt("select state from isomer.jobs", &[]).expect("jobs");
    row.map(|row| row.get(0))
}

#[test]
fn a_change_is_paused_throttled_and_cancelled() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client
        .batch_execute(
            "create table held (id int primary key, grp int);
             insert into held select n, n % 100 from generate_series(1, 5000) n;",
        )
        .expect("a table");
    std::thread::scope(|scope| {
        let mut other = fixture.client();
        let change =
            scope.spawn(move || other.batch_execute("alter table held shard by (grp) budget 20"));
        // It would take minutes, so it is there to be paused.
        let slow = wait_for("a slow change", || {
            state(&mut client)
                .filter(|state| state.starts_with("copies rows, 2 of 5000 rows entered"))
        });
        assert!(slow.contains("at most 20 rows/s, about "), "{slow}");
        client.batch_execute("alter table held pause shard by").expect("a pause");
        wait_for("a pause", || state(&mut client).filter(|state| state.starts_with("paused, ")));
        client.batch_execute("update held set grp = grp + 1 where id = 5000").expect("a write");
        client.batch_execute("alter table held resume shard by budget none").expect("a resume");
        change.join().expect("no panic").expect("the change");
        let by: String = client
            .query_one("select shard_by from isomer.tables where name = 'held'", &[])
            .expect("a table")
            .get(0);
        assert_eq!(by, "grp");

        let mut other = fixture.client();
        let change =
            scope.spawn(move || other.batch_execute("alter table held shard by default budget 20"));
        wait_for("another change", || {
            state(&mut client).filter(|state| state.starts_with("copies rows, "))
        });
        client.batch_execute("alter table held cancel shard by").expect("an end");
        let ended = change.join().expect("no panic").expect_err("it was ended");
        assert_eq!(ended.code().map(|code| code.code().to_owned()).as_deref(), Some("57014"));
    });
    let left = "select count(*) from isomer.partitions where relation = 'held'";
    let left: i64 = client.query_one(left, &[]).expect("a row").get(0);
    assert_eq!(left, 1, "nothing is left of it");
    assert_eq!(state(&mut client), None);
    let rows = "select count(*), sum(grp)::bigint from held";
    let row = client.query_one(rows, &[]).expect("a row");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (5000, 5000 / 100 * 4950 + 1));
}

/// A client, and the notices that it gets.
fn noting(fixture: &Fixture) -> (Client, Arc<Mutex<Vec<String>>>) {
    let said = Arc::new(Mutex::new(Vec::new()));
    let notes = said.clone();
    let mut config = postgres::Config::new();
    config.host("127.0.0.1").port(fixture.server.address().port()).user("isomer").dbname("test");
    config.notice_callback(move |notice| {
        notes.lock().expect("no thread panics with it").push(notice.message().to_owned());
    });
    (config.connect(postgres::NoTls).expect("the server answers"), said)
}

#[test]
fn a_key_inside_of_a_partition_stands_for_the_whole_partition_and_a_notice_says_so() {
    let fixture = Fixture::new();
    let (mut client, said) = noting(&fixture);
    client
        .batch_execute(
            "create table t (a int, b int, primary key (a, b));
             alter table t split at (10); alter table t split at (20);
             alter table t remaster at (10) to site 2;",
        )
        .expect("a table");
    assert!(said.lock().expect("no thread panics with it").is_empty(), "the keys are borders");
    let inside =
        "alter table t remaster at (25, 3) to site 2; alter table t add replica at (5) on site 2;
                  alter table t drop replica at (15) on site 1; alter table t split at (25, 3);
                  alter table t remaster at (25, 3) to site 1";
    client.batch_execute(inside).expect("partitions");
    let what = "of a partition of \"t\", which is changed as a whole:";
    assert_eq!(
        *said.lock().expect("no thread panics with it"),
        [
            format!("key 25/3 is inside {what} all keys from 20"),
            format!("key 5 is inside {what} all keys below 10"),
            format!("key 15 is inside {what} all keys from 10 to below 20"),
        ]
    );
    let rows = "select first_key || ' ' || master || ' ' || replicas from isomer.partitions where relation = 't'";
    let found: Vec<String> =
        client.query(rows, &[]).expect("rows").iter().map(|row| row.get(0)).collect();
    assert_eq!(found, [" s1 s2", "10 s2 ", "20 s2 s1", "25/3 s1 s2"]);
}

#[test]
fn a_dry_run_reports_before_anything_is_written() {
    let fixture = Fixture::new();
    let (mut client, said) = noting(&fixture);
    client
        .batch_execute(
            "create table hot (id int primary key, grp int);
             insert into hot select n, case when n <= 60 then 0 else n end from generate_series(1, 100) n;",
        )
        .expect("a table");
    client.batch_execute("alter table hot shard by (grp) dry run").expect("a dry run");
    let said = said.lock().expect("no thread panics with it").clone();
    assert_eq!(
        said,
        [
            "100 rows by shard key (grp): 1 partition at s1, 0 % of the rows change their site",
            "by shard key (grp) one value is in 60 % of the rows, which stay at one site",
        ]
    );
}
