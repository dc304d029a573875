//! Statements at a gateway whose rows are at another process run there, and their clients see no
//! difference: the same answers and errors, cancel and time limits, one session in all views. The
//! process that runs them is killed, and rows move away just before.

#![allow(clippy::disallowed_methods, reason = "a test of processes waits for them")]

mod cluster;
#[path = "../src/cluster/ports.rs"]
mod ports;
#[allow(dead_code, reason = "this test reads no output")]
mod run;

use cluster::up::{client_at, code, one, pid_of, three};
use cluster::wait_for;
use postgres::{Client, NoTls, SimpleQueryMessage};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

/// All that a client is told: columns, rows and tags, or the error.
fn told(client: &mut Client, query: &str) -> String {
    match client.simple_query(query) {
        Ok(messages) => {
            let shown = |message: &SimpleQueryMessage| match message {
                SimpleQueryMessage::Row(row) => {
                    let value =
                        |at: usize| format!("{}={:?}", row.columns()[at].name(), row.get(at));
                    (0..row.len()).map(value).collect::<Vec<_>>().join(" ")
                }
                SimpleQueryMessage::CommandComplete(count) => format!("done {count}"),
                SimpleQueryMessage::RowDescription(columns) => {
                    let names = columns.iter().map(|column| column.name().to_owned());
                    format!("columns {:?}", names.collect::<Vec<_>>())
                }
                _ => String::new(),
            };
            messages.iter().map(shown).collect::<Vec<_>>().join("; ")
        }
        Err(error) => format!("{:?}", error.as_db_error()),
    }
}

/// The statements that this gateway has run elsewhere, and those that were not, by the reason.
fn shipped(client: &mut Client) -> u64 {
    count(client, "elsewhere", "rows")
}

fn count(client: &mut Client, ran: &str, why: &str) -> u64 {
    let query = format!(
        "select coalesce(sum(value), 0)::bigint from isomer.metrics
         where name = 'isomer_statements_shipped_total' and labels like '%{ran}%\"{why}\"%'"
    );
    one(client, &query).parse().expect("a number")
}

/// Runs statements at a gateway that has no rows, once with shipping and once without. The answers
/// are the same, and as many statements as said are shipped.
fn same_answers(client: &mut Client) {
    // The statement, and whether it runs at its rows.
    for (statement, is_shipped) in [
        ("select * from t where id = 3", true),
        ("select id, v, note from t where id in (1, 2, 99)", true),
        ("select count(*), max(v) from t where id between 1 and 5", true),
        ("select v from t where id = 3 for update", true),
        ("select current_user, current_database(), v from t where id = 1", true),
        ("select at::text from t where id = 2", true),
        ("update t set v = v + 1 where id = 3 returning v", true),
        ("update t set v = v - 1 where id = 3 returning *", true),
        ("update t set v = 1 where id = 1000", true),
        ("insert into t (id, v) values (50, 1)", true),
        ("insert into t (id, v) values (50, 2)", true),
        ("insert into t (id, v) values (50, 2) on conflict (id) do update set v = 9", true),
        ("update t set v = -1 where id = 50", true),
        ("insert into t (id, v, at) values (51, -5, null)", false),
        ("insert into t (id, v, at) values (52, null, null)", false),
        ("delete from t where id = 50", true),
        ("select 1 / (v - v) from t where id = 1", true),
        ("select * from t where id = 3 and note = 'x'", true),
        ("call pay(3, 1)", true),
        ("call pay(3, -1000)", true),
        ("call pay_other(3, 1)", false),
        ("select x from other where id = 1", false),
        ("select * from t where v = 3 order by id", false),
        ("select count(*) from t", false),
        ("select t.v from t, other where t.id = 1 and other.id = t.v", false),
        ("select (select x from other where id = 1), v from t where id = 1", false),
        ("select nextval('s') > 0, v from t where id = 1", false),
        ("select pg_try_advisory_lock(7), v from t where id = 1", false),
        ("select pg_advisory_unlock(7)", false),
        ("insert into ids (v) values (1)", false),
        ("select pg_backend_pid() > 0 from t where id = 1", false),
        ("select 1; select v from t where id = 1", false),
        ("select nothing from t where id = 1", false),
    ] {
        let before = shipped(client);
        let there = told(client, statement);
        let count = shipped(client) - before;
        assert_eq!(count, u64::from(is_shipped), "{statement}: {there}");
        if statement.starts_with("select") || there.contains("DbError") {
            client.batch_execute("set ship_statements = off").expect("a setting");
            assert_eq!(told(client, statement), there, "{statement}");
            client.batch_execute("reset ship_statements").expect("a setting");
        }
    }
    assert_eq!(one(client, "select lastval() > 0"), "t", "its own sequences are the session's");
}

/// Settings, roles and the state of the session mean the same there.
fn a_session_stays_what_it_is(client: &mut Client) {
    let at = "select at::text from t where id = 2";
    client.batch_execute("set timezone = 'Asia/Tokyo'").expect("a zone");
    let before = shipped(client);
    let tokyo = one(client, at);
    client.batch_execute("set timezone = 'UTC'").expect("a zone");
    assert_ne!(one(client, at), tokyo);
    client.batch_execute("set search_path = s1").expect("a path");
    assert_eq!(one(client, "select v from t where id = 1"), "77", "another table of this name");
    client.batch_execute("reset search_path; set role joe").expect("a role");
    assert_eq!(one(client, "select current_user from t where id = 1"), "joe");
    let refused = client.simple_query("update t set v = 1 where id = 1").expect_err("no right");
    assert_eq!(code(&refused), "42501");
    client.batch_execute("reset role").expect("a role");
    assert_eq!(shipped(client) - before, 5);
    client.batch_execute("set default_transaction_read_only = on").expect("a mode");
    let refused = client.simple_query("update t set v = 1 where id = 1").expect_err("read-only");
    assert_eq!(code(&refused), "25006");
    client.batch_execute("set default_transaction_read_only = off").expect("a mode");
    // A temporary table hides a table.
    let before = shipped(client);
    client.batch_execute("create temporary table t (id int primary key, v int)").expect("a table");
    client.batch_execute("insert into t values (1, 5)").expect("a row");
    assert_eq!(one(client, "select v from t where id = 1"), "5");
    client.batch_execute("drop table pg_temp.t").expect("it is there");
    client.batch_execute("begin").expect("a block");
    assert_eq!(told(client, "update t set v = v where id = 1"), "done 1");
    client.batch_execute("rollback").expect("a block");
    assert_eq!(shipped(client), before, "all of these run here");
}

/// Prepared statements, with parameters of several types.
fn prepared_statements_are_shipped(client: &mut Client) {
    let read = client.prepare("select v, note, at from t where id = $1").expect("a statement");
    let write = client.prepare("update t set note = $2, v = v + $3 where id = $1").expect("one");
    let add = client.prepare("insert into t (id, v, note) values ($1, $2, $3)").expect("one");
    let before = shipped(client);
    assert_eq!(client.execute(&add, &[&60, &1_i64, &Some("n")]).expect("a row"), 1);
    assert_eq!(client.execute(&write, &[&60, &None::<&str>, &5_i64]).expect("a row"), 1);
    let row = client.query_one(&read, &[&60]).expect("a row");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, Option<&str>>(1)), (6, None));
    assert!(row.get::<_, Option<std::time::SystemTime>>(2).is_some(), "the default: now()");
    let twice = client.execute(&add, &[&60, &1_i64, &Some("n")]).expect_err("it is there");
    let twice = twice.as_db_error().expect("an error of the server");
    assert_eq!((twice.code().code(), twice.constraint()), ("23505", Some("t_pkey")));
    assert_eq!(client.execute("delete from t where id = $1", &[&60]).expect("a row"), 1);
    assert_eq!(shipped(client) - before, 5);
    client.batch_execute("prepare p (int) as select v from t where id = $1").expect("one");
    assert_eq!(told(client, "execute p(1)"), "columns [\"v\"]; v=Some(\"1\"); done 1");
    assert_eq!(shipped(client) - before, 6);
}

/// Waits for locks there can be canceled and end in time; all gateways see one session.
fn waits_are_the_sessions_own(all: &mut [Client], port: u16) {
    let [a, b, c] = all else { panic!("three") };
    a.batch_execute("begin; update t set v = v where id = 4").expect("a lock");
    let holder = one(a, "select pg_backend_pid()");
    let waits = "update t set v = v where id = 4";
    let before = shipped(b);
    for (setting, expected) in [
        ("statement_timeout", "57014 canceling statement due to statement timeout"),
        ("lock_timeout", "55P03 canceling statement due to lock timeout"),
    ] {
        b.batch_execute(&format!("set {setting} = '300ms'")).expect("a setting");
        let error = b.simple_query(waits).expect_err("it waits in vain");
        let message = error.as_db_error().map(|error| error.message().to_owned());
        assert_eq!(format!("{} {}", code(&error), message.unwrap_or_default()), expected);
        b.batch_execute(&format!("reset {setting}")).expect("a setting");
    }
    let waiter = one(b, "select pg_backend_pid()");
    let cancel = b.cancel_token();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| b.simple_query(waits).expect_err("it is canceled"));
        for client in [&mut *a, &mut *c] {
            let shown = format!(
                "select count(*) || ' ' || max(state) || ' ' || max(wait_event_type)
                 from pg_stat_activity where pid = {waiter}"
            );
            wait_for("it waits", || one(client, &shown) == "1 active Lock");
            let blockers = format!("select pg_blocking_pids({waiter})::text");
            assert_eq!(one(client, &blockers), format!("{{{holder}}}"));
        }
        cancel.cancel_query(NoTls).expect("a request to cancel");
        assert_eq!(code(&waiting.join().expect("it ends")), "57014");
    });
    // And by the number of the session, at another gateway.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| b.simple_query(waits).expect_err("it is canceled"));
        let active = format!(
            "select count(*) from pg_stat_activity where pid = {waiter} and wait_event_type = 'Lock'"
        );
        wait_for("it waits", || one(c, &active) == "1");
        assert_eq!(one(c, &format!("select pg_cancel_backend({waiter})")), "t");
        assert_eq!(code(&waiting.join().expect("it ends")), "57014");
    });
    assert_eq!(shipped(b) - before, 4);
    // The wait of a client ends with its connection.
    let mut gone = client_at(port).expect("it serves");
    let pid = one(&mut gone, "select pg_backend_pid()");
    gone.batch_execute("set client_connection_check_interval = '50ms'").expect("a setting");
    std::thread::scope(|scope| {
        let ended = scope.spawn(|| gone.simple_query(waits).expect_err("its session ends"));
        let active = format!(
            "select count(*) from pg_stat_activity where pid = {pid} and wait_event_type = 'Lock'"
        );
        wait_for("it waits", || one(c, &active) == "1");
        assert_eq!(one(c, &format!("select pg_terminate_backend({pid})")), "t");
        assert_eq!(code(&ended.join().expect("it ends")), "57P01");
    });
    a.batch_execute("rollback").expect("a block");
}

/// The effects of a statement are counted once.
fn counts_are_of_one_statement(all: &mut [Client]) {
    let [a, b, _] = all else { panic!("three") };
    let updated =
        "select n_tup_upd from pg_stat_user_tables where relname = 't' and schemaname = 'public'";
    let calls = "select coalesce(sum(calls), 0) from isomer.statements where query like 'update t set v = v +%'";
    let before: Vec<i64> =
        [updated, calls].iter().map(|query| one(b, query).parse().expect("a number")).collect();
    let elsewhere = one(a, calls);
    let shipped_before = shipped(b);
    for _ in 0..7 {
        b.batch_execute("update t set v = v + 0 where id = 9").expect("a row");
    }
    assert_eq!(shipped(b) - shipped_before, 7);
    let after: Vec<i64> =
        [updated, calls].iter().map(|query| one(b, query).parse().expect("a number")).collect();
    assert_eq!((after[0] - before[0], after[1] - before[1]), (7, 7));
    assert_eq!(one(a, calls), elsewhere, "the process with the rows counts no statement");
    let explained = told(b, "explain update t set v = 1 where id = 3");
    assert!(explained.contains("Runs At: serve"), "{explained}");
    assert!(!told(a, "explain update t set v = 1 where id = 3").contains("Runs At"));
    b.batch_execute("update t set v = v + 0 where id = 9").expect("a row");
    assert_eq!(one(b, "show last_commit"), "at s1");
}

/// A statement that begins after a commit was acknowledged sees it, whatever gateways both used,
/// while the rows move.
fn real_time_order_holds(all: &mut [Client], port: u16) {
    let is_over = AtomicBool::new(false);
    let expected =
        AtomicI64::new(one(&mut all[0], "select v from t where id = 7").parse().expect("it"));
    let before: Vec<u64> = all.iter_mut().map(shipped).collect();
    std::thread::scope(|scope| {
        let mover = scope.spawn(|| {
            let mut mover = client_at(port).expect("it serves");
            for site in (0..30).map(|round| round % 3 + 1) {
                let moved =
                    mover.batch_execute(&format!("alter table t remaster at (0) to site {site}"));
                moved.expect("a change of the design");
                std::thread::sleep(Duration::from_millis(40));
            }
            is_over.store(true, Ordering::SeqCst);
        });
        let mut round = 0;
        while !is_over.load(Ordering::SeqCst) || round < 300 {
            round += 1;
            let writer = &mut all[round % 3];
            let update = "update t set v = v + 1 where id = 7";
            match writer.simple_query(update) {
                Ok(_) => drop(expected.fetch_add(1, Ordering::SeqCst)),
                Err(error) => assert_eq!(code(&error), "40001", "{error:?}"),
            }
            let seen = one(&mut all[(round / 3) % 3], "select v from t where id = 7");
            assert_eq!(seen, expected.load(Ordering::SeqCst).to_string());
        }
        mover.join().expect("it moves");
    });
    all[0].batch_execute("alter table t remaster at (0) to site 1").expect("a change");
    let after: Vec<u64> = all.iter_mut().map(shipped).collect();
    assert!(
        after.iter().zip(&before).all(|(after, before)| after > before),
        "{before:?} {after:?}"
    );
}

/// The process that runs the statements of others is killed: reads go on, and each write is either
/// made or not.
fn the_process_with_the_rows_is_killed(ports: &[u16], config: &str) {
    let mut client = client_at(ports[0]).expect("it serves");
    client
        .batch_execute(
            "create table k (id int primary key, v bigint) with (backups = 1);
             insert into k select g, 0 from generate_series(1, 8) g;
             alter table k remaster at (0) to site 3",
        )
        .expect("rows at a process without the conductor");
    wait_for("they have a backup", || {
        let lacking = "select value::int from isomer.metrics where name = 'isomer_backups_missing'";
        one(&mut client, lacking) == "0"
    });
    let is_over = AtomicBool::new(false);
    let (made, unknown, reads) = (AtomicI64::new(0), AtomicI64::new(0), AtomicI64::new(0));
    std::thread::scope(|scope| {
        for id in 1..=6 {
            let (is_over, made, unknown, reads) = (&is_over, &made, &unknown, &reads);
            let port = ports[id % 2];
            scope.spawn(move || {
                let mut client = client_at(port).expect("it serves");
                let update = format!("update k set v = v + 1 where id = {id}");
                while !is_over.load(Ordering::SeqCst) {
                    match client.simple_query(&update) {
                        Ok(_) => drop(made.fetch_add(1, Ordering::SeqCst)),
                        Err(error) if code(&error) == "40001" => {}
                        Err(error) if code(&error) == "08007" => {
                            unknown.fetch_add(1, Ordering::SeqCst);
                        }
                        Err(error) => panic!("{error:?}"),
                    }
                    let read = format!("select v from k where id = {id}");
                    match client.simple_query(&read) {
                        Ok(_) => drop(reads.fetch_add(1, Ordering::SeqCst)),
                        Err(error) => assert_eq!(code(&error), "40001", "{error:?}"),
                    }
                }
            });
        }
        let done = std::panic::catch_unwind(|| {
            std::thread::sleep(Duration::from_secs(1));
            let killed = Command::new("kill").args(["-9", &pid_of("node2", config)]).status();
            assert!(killed.expect("kill is there").success());
            let before = made.load(Ordering::SeqCst);
            wait_for("others take over", || made.load(Ordering::SeqCst) > before + 100);
        });
        is_over.store(true, Ordering::SeqCst);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    let sum: i64 = one(&mut client, "select sum(v) from k").parse().expect("a number");
    let (made, unknown) = (made.into_inner(), unknown.into_inner());
    println!("{made} updates, {unknown} of unknown outcome, {} reads", reads.into_inner());
    assert!((made..=made + unknown).contains(&sum), "{made} {unknown} {sum}");
    let ran: u64 = ports[..2].iter().map(|port| shipped(&mut client_at(*port).expect("it"))).sum();
    assert!(ran > 0);
}

#[test]
fn statements_run_where_their_rows_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let (up, config, ports, mut first) = three(folder.path());
    first
        .batch_execute(
            "alter system set autopilot = off;
             create table t (id int primary key, v bigint not null check (v >= 0),
                 note text default 'x', at timestamptz default now());
             insert into t (id, v) select g, g from generate_series(0, 40) g;
             create table other (id int primary key, x int);
             insert into other values (1, 2);
             alter table other remaster at (0) to site 2;
             create table ids (id serial primary key, v int);
             create sequence s;
             create schema s1;
             create table s1.t (id int primary key, v int);
             insert into s1.t values (1, 77);
             create procedure pay(t1 int, more int) language sql as
                 'update t set v = v + more where id = t1; update t set v = v where id = t1 + 1';
             create procedure pay_other(t1 int, more int) language sql as
                 'update t set v = v + more where id = t1; update other set x = x where id = 1';
             create role joe; grant select on t to joe",
        )
        .expect("tables");
    let mut all: Vec<Client> =
        ports.iter().map(|port| client_at(*port).expect("it serves")).collect();
    same_answers(&mut all[1]);
    a_session_stays_what_it_is(&mut all[1]);
    prepared_statements_are_shipped(&mut all[1]);
    waits_are_the_sessions_own(&mut all, ports[1]);
    counts_are_of_one_statement(&mut all);
    real_time_order_holds(&mut all, ports[0]);
    drop(all);
    the_process_with_the_rows_is_killed(&ports, &config);
    drop(up);
}
