//! Tables get primary keys while clients use them. The only errors of clients are violations of the
//! key; no row is lost or duplicated; and a key that fails leaves the table unchanged.

mod fixture;

use fixture::{End, Fixture, code, wait_for};
use postgres::Client;
use postgres::error::SqlState;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const ROUNDS: i64 = 6;
const WRITERS: i64 = 3;
const ACCOUNTS: i64 = 200;
const START: i64 = 1000;
/// Each writer's own rows come after the shared ones: counters first, then rows that are inserted
/// and deleted.
const OWN: i64 = 1_000_000;

fn table(client: &mut Client) {
    client
        .batch_execute(&format!(
            "drop table if exists accounts;
             create table accounts (aid bigint, bid bigint, balance bigint, tag text);
             create index by_tag on accounts (tag);
             insert into accounts select n, n % 10, {START}, 'all' from generate_series(0, {ACCOUNTS} - 1) n;
             insert into accounts select {OWN} + n, n, 0, 'own' from generate_series(0, {WRITERS} - 1) n"
        ))
        .expect("a table");
}

fn worth(client: &mut Client) -> [(i64, i64); 2] {
    ["aid < 1000000", "tag = 'all'"].map(|condition| {
        let query =
            format!("select count(*), sum(balance)::bigint from accounts where {condition}");
        let row = client.query_one(&query, &[]).expect("a row");
        (row.get(0), row.get(1))
    })
}

const ALL: [(i64, i64); 2] = [(ACCOUNTS, ACCOUNTS * START); 2];

/// Transfers, and rows that are inserted, get another key, and are deleted.
fn write(client: &mut Client, at: i64, done: &AtomicBool, writes: &AtomicU64) {
    let transfer = "update accounts set balance = balance + $2 where aid = $1";
    let transfer = client.prepare(transfer).expect("a statement");
    let mut chance = at as u64;
    let mut draw = |below: i64| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (chance >> 33) as i64 % below
    };
    let (mut count, own) = (0, OWN + at);
    while !done.load(Ordering::Relaxed) {
        count += 1;
        writes.fetch_add(1, Ordering::Relaxed);
        let (a, b) = (draw(ACCOUNTS), draw(ACCOUNTS));
        let mut block = client.transaction().expect("a block");
        for (aid, by) in [(a.min(b), 1_i64), (a.max(b), -1)] {
            assert_eq!(block.execute(&transfer, &[&aid, &by]).expect("a transfer"), 1);
        }
        block.commit().expect("a transfer");
        assert_eq!(client.execute(&transfer, &[&own, &1_i64]).expect("its own row"), 1);
        let query = "select balance from accounts where aid = $1 and tag = 'own'";
        let seen: i64 = client.query_one(query, &[&own]).expect("one row").get(0);
        assert_eq!(seen, count, "a writer sees its own writes");
        let (come, other) = (2 * OWN + at * OWN + count, 9 * OWN + at * OWN + count);
        for statement in [
            format!("insert into accounts values ({come}, {at}, 0, 'come')"),
            format!("update accounts set aid = {other} where aid = {come}"),
            format!("delete from accounts where aid = {}", other - 2),
        ] {
            client.batch_execute(&statement).expect("rows come and go");
        }
    }
}

fn look(client: &mut Client, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        client.batch_execute("begin isolation level repeatable read").expect("a block");
        assert_eq!(worth(client), ALL);
        assert_eq!(worth(client), ALL, "a snapshot stays what it is");
        client.batch_execute("commit").expect("an end");
        assert_eq!(worth(client), ALL);
    }
}

#[test]
fn no_client_notices_that_a_primary_key_comes() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    for round in 0..ROUNDS {
        table(&mut client);
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
            let beside = |more: u64| {
                let goal = writes.load(Ordering::Relaxed) + more;
                wait_for("writers", || {
                    let has_failed = done.load(Ordering::Relaxed);
                    (has_failed || writes.load(Ordering::Relaxed) >= goal).then_some(())
                });
            };
            beside(10);
            // Some are cancelled on the way, and tried again.
            let statement = "alter table accounts add primary key (aid)";
            let limit = format!("set statement_timeout = {}", 5 + 20 * round);
            client.batch_execute(&limit).expect("a setting");
            let given_up = client.batch_execute(statement);
            client.batch_execute("set statement_timeout = 0").expect("a setting");
            if let Err(error) = given_up {
                assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED), "{error}");
                beside(10);
                if !has_key(&mut client) {
                    client.batch_execute(statement).expect("a key");
                }
                client.batch_execute("alter table accounts shard by default").expect("one order");
            }
            beside(20);
            drop(end);
        });
        assert_eq!(worth(&mut client), ALL);
        assert!(has_key(&mut client));
        let twice = "insert into accounts values (5, 5, 5, 'twice')";
        assert_eq!(code(client.batch_execute(twice)), SqlState::UNIQUE_VIOLATION);
        assert_eq!(left(&mut client), 2, "the table and its index are left");
    }
}

fn has_key(client: &mut Client) -> bool {
    let query =
        "select count(*) from pg_constraint where conname = 'accounts_pkey' and contype = 'p'";
    client.query_one(query, &[]).expect("a row").get::<_, i64>(0) == 1
}

fn left(client: &mut Client) -> i64 {
    client.query_one("select count(*) from isomer.partitions", &[]).expect("a row").get(0)
}

/// One writer inserts the same key again and again, and another deletes it. So sometimes the key
/// fails, and either the statement or the writer gets the error. The result is always a consistent
/// table, with the key or without.
#[test]
fn either_a_writer_of_a_duplicate_is_refused_or_the_key() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    table(&mut client);
    let (done, writes, refused) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (fixture, done, writes, refused) = (&fixture, &done, &writes, &refused);
        let end = End(done);
        scope.spawn(move || {
            let (_end, mut client) = (End(done), fixture.client());
            while !done.load(Ordering::Relaxed) {
                for aid in [5, 50, 150] {
                    let insert = format!("insert into accounts values ({aid}, 0, 0, 'twice')");
                    if let Err(error) = client.batch_execute(&insert) {
                        assert_eq!(error.code(), Some(&SqlState::UNIQUE_VIOLATION), "{error}");
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                }
                let delete = "delete from accounts where tag = 'twice'";
                client.batch_execute(delete).expect("rows go");
                writes.fetch_add(1, Ordering::Relaxed);
            }
        });
        // Unless it succeeds by itself.
        loop {
            assert!(!done.load(Ordering::Relaxed), "the writer has failed");
            let added = client.batch_execute("alter table accounts add primary key (aid)");
            let Err(error) = added else { break };
            assert_eq!(error.code(), Some(&SqlState::UNIQUE_VIOLATION), "{error}");
            assert!(!has_key(&mut client));
        }
        let goal = writes.load(Ordering::Relaxed) + 3;
        wait_for("writers", || (writes.load(Ordering::Relaxed) >= goal).then_some(()));
        drop(end);
    });
    assert!(refused.load(Ordering::Relaxed) > 0, "there is a key, and it was written twice");
    assert_eq!(worth(&mut client), ALL);
    assert_eq!(left(&mut client), 2);
}
