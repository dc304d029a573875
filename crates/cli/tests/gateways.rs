//! Three processes that all run SQL: what one of them has committed or defined holds at once at the
//! others, and clients of two stay connected while the third is killed, the conductor's as well.

#![allow(clippy::disallowed_methods, reason = "a test of processes waits for them")]

mod cluster;
#[path = "../src/cluster/ports.rs"]
mod ports;
mod run;

use cluster::up::{Ended, client_at, code, one, pid_of, three};
use cluster::wait_for;
use postgres::{Client, SimpleQueryMessage};
use run::isomer;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const ACCOUNTS: i32 = 20;
const START: i64 = 100;

fn clients(ports: &[u16]) -> Vec<Client> {
    let client = |port: &u16| {
        let mut found = None;
        wait_for("each process serves", || {
            found = client_at(*port);
            found.is_some()
        });
        found.expect("it was waited for")
    };
    ports.iter().map(client).collect()
}

/// As [`one`], again after a conflict.
fn seen(client: &mut Client, query: &str) -> String {
    for _ in 0..20 {
        match client.simple_query(query) {
            Err(error) if CONFLICTS.contains(&&*code(&error)) => {}
            Err(error) => panic!("{query}: {error:?}"),
            Ok(_) => return one(client, query),
        }
    }
    panic!("{query}: too many conflicts");
}

#[test]
fn every_process_runs_sql_and_may_be_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (up, config, ports, mut first) = three(folder.path());
    definitions_hold_everywhere(&mut clients(&ports));
    new_tables_have_a_backup(&mut clients(&ports));
    locks_are_common(&mut clients(&ports));
    sessions_are_common(&mut clients(&ports));
    counts_are_sums(&mut clients(&ports));
    statements_are_canceled_from_everywhere(&ports);
    a_process_that_stands_still_is_named(&ports, &pid_of("node2", &config));
    first
        .batch_execute(&format!(
            "create table accounts (id int primary key, v bigint);
             insert into accounts select g, {START} from generate_series(0, {ACCOUNTS} - 1) g;
             alter table accounts split at (10); alter table accounts remaster at (10) to site 2;
             create table ordered (id int primary key, v bigint)
                 with (backups = 1, isolation = ordered);
             insert into ordered select * from accounts;
             alter table ordered split at (10); alter table ordered remaster at (10) to site 2;
             alter system set fused_rows = 20"
        ))
        .expect("rows at two processes");
    // Rows that the clients of another process write move there.
    let moved = "select count(*) from isomer.fused where relation = 'ordered' and home <> site";
    wait_for("a row moves", || {
        for id in [12, 1] {
            first
                .batch_execute(&format!("update ordered set v = v where id = {id}"))
                .expect("a row");
        }
        one(&mut first, moved) != "0"
    });
    // A process without the conductor.
    let _node2 = while_transferring(&ports[..2], || {
        let back = kill(&config, folder.path(), "node2", || {
            // Its process is down, and no other site may have room for the copy.
            let mut client = client_at(ports[1]).expect("it serves");
            client.batch_execute("create table made_meanwhile (id int)").expect("a table");
        });
        let mut client = client_at(ports[0]).expect("it serves");
        let seats = "select count(*) from isomer.gateways where not has_conductor";
        let made = "select backups from isomer.tables where name = 'made_meanwhile'";
        assert_eq!(one(&mut client, made), "1 on disk");
        wait_for("it has a seat again", || one(&mut client, seats) == "2");
        wait_for("it serves", || client_at(ports[2]).is_some());
        back
    });
    wait_for("all rows have backups", || {
        let lacking = "select value::int from isomer.metrics where name = 'isomer_backups_missing'";
        one(&mut first, lacking) == "0"
    });
    drop(first);
    let audited = actions(&mut clients(&ports[1..])[0]);
    assert!(audited >= 2, "{audited} actions, of two gateways");
    wait_for("all have all logs", || {
        let status = isomer(&["cluster", "status", "--config", &config]);
        let logs = status.out.split_once("redo logs at the nodes\n").map(|(_, logs)| logs);
        let mut rows = logs.unwrap_or_default().lines().skip(1);
        let rows = rows.by_ref().take_while(|row| !row.trim().is_empty()).collect::<Vec<_>>();
        rows.len() == 5 && rows.iter().all(|row| row.trim().ends_with("none"))
    });
    let told = "select 'changes ' || count(*) from isomer.changes where relation <> 'counted'
                union all select 'plans ' || count(*) from isomer.reconfigurations
                union all select number || ' ' || plan from isomer.proposals order by 1";
    let mut first = clients(&ports[..1]).remove(0);
    first.batch_execute("alter system propose 'split accounts at 3'").expect("a proposal");
    first.batch_execute("alter system reconfigure 'split accounts at 2'").expect("a plan");
    let ended = "select count(*) from isomer.reconfigurations where state = 'done'";
    wait_for("the plan has ended", || one(&mut first, ended) != "0");
    // Events are written a moment later.
    std::thread::sleep(Duration::from_secs(1));
    let before = first.simple_query(told).expect("views");
    drop(first);
    // The conductor's.
    let _back = while_transferring(&ports[1..], || {
        // Another process has the conductor before this one is back.
        kill(&config, folder.path(), "serve", || {
            let known = "select count(*) from isomer.gateways";
            let written = "update ordered set v = v where id = 1";
            wait_for("the others write again", || {
                let Some(mut client) = client_at(ports[2]) else { return false };
                [known, written].iter().all(|text| client.simple_query(text).is_ok())
            });
            // Another process is asked, as the first one does not answer.
            let status = isomer(&["cluster", "status", "--config", &config]);
            assert!(status.out.contains("over several"), "{}", status.err);
        })
    });
    let mut client = clients(&ports[1..2]).remove(0);
    client.batch_execute("alter system set fused_rows = 0").expect("a setting");
    let away = "select count(*) from isomer.fused";
    for mut client in clients(&ports[1..]) {
        wait_for("all rows are at home", || one(&mut client, away) == "0");
        let sum = one(&mut client, "select sum(v) from ordered where id < 1000");
        assert_eq!(sum, (i64::from(ACCOUNTS) * START).to_string());
    }
    // The histories have outlived the process that had the conductor.
    let texts = |rows: &[SimpleQueryMessage]| -> Vec<String> {
        let text = |row: &SimpleQueryMessage| match row {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        };
        rows.iter().filter_map(text).collect()
    };
    let after = clients(&ports[1..2])[0].simple_query(told).expect("views");
    for line in texts(&before) {
        let (name, count) = line.split_once(' ').expect("two words");
        let is_kept = |later: &String| match later.split_once(' ') {
            Some((kind, more)) if kind == name => {
                more == count || more.parse::<u64>().ok() >= count.parse().ok()
            }
            _ => false,
        };
        assert!(texts(&after).iter().any(is_kept), "{line}: {:?}", texts(&after));
    }
    let twice = "select coalesce(string_agg(number::text, ' '), 'none')
        from (select number from isomer.changes group by number having count(*) > 1) twice";
    let heard = "select count(*) from isomer.changes where reason = 'the conductor has made it'";
    for client in &mut clients(&ports[1..]) {
        assert!(actions(client) >= audited);
        assert_eq!(one(client, heard), "0", "who only heard of a change does not note it");
        assert_eq!(one(client, twice), "none", "each change has a number of its own");
    }
    drop(up);
}

/// The number of actions of operators that a gateway shows.
fn actions(client: &mut Client) -> u64 {
    let audited = "select count(*) from isomer.audit where action ilike '%autopilot%'";
    one(client, audited).parse().expect("a number")
}

/// Kills a process, and starts it again after some seconds.
fn kill(config: &str, folder: &Path, name: &str, meanwhile: impl FnOnce()) -> Ended {
    let killed = Command::new("kill").args(["-9", &pid_of(name, config)]).status();
    assert!(killed.expect("kill is there").success());
    meanwhile();
    std::thread::sleep(Duration::from_secs(14));
    let mut again = Command::new(env!("CARGO_BIN_EXE_isomer"));
    again.args(["serve", "--name", name, "--config", config, "--trust", "loopback", "--data"]);
    let again = again.arg(folder.join(name)).stdout(Stdio::null()).spawn();
    let ended = Ended(again.expect("the program starts"));
    wait_for("it is back", || {
        let status = isomer(&["cluster", "status", "--config", config]);
        assert!(status.code < 2, "{}", status.err);
        let line = status.out.lines().find(|line| line.starts_with(name));
        line.is_some_and(|line| line.trim().ends_with("ok"))
    });
    ended
}

fn definitions_hold_everywhere(all: &mut [Client]) {
    let [a, b, c] = all else { panic!("three") };
    a.batch_execute("create table t (id serial primary key, v text)").expect("a table");
    b.batch_execute("insert into t (v) select 'b' from generate_series(1, 100)").expect("rows");
    c.batch_execute("insert into t (v) select 'c' from generate_series(1, 100)").expect("rows");
    assert_eq!(one(a, "select count(distinct id) from t"), "200", "no number was given twice");
    c.batch_execute("create index by_v on t (v); alter table t add column w int default 7")
        .expect("definitions");
    b.batch_execute("insert into t (v) values ('d'); update t set v = 'e' where id = 1")
        .expect("the index is kept by all");
    assert_eq!(one(a, "select string_agg(v || w, ' ' order by v) from t where v >= 'd'"), "d7 e7");
    // While rows come at two gateways, a third one builds an index.
    let ports_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in [a, b] {
            scope.spawn(|| {
                let mut round = 0;
                while !ports_done.load(Ordering::SeqCst) {
                    round += 1;
                    let text = format!("insert into t (v, w) values ('x', {round})");
                    if let Err(error) = writer.batch_execute(&text) {
                        assert_eq!(code(&error), "40001", "{error:?}");
                    }
                }
            });
        }
        for round in 0..3 {
            c.batch_execute(&format!("create index by_w{round} on t (w)")).expect("an index");
            std::thread::sleep(Duration::from_millis(100));
        }
        ports_done.store(true, Ordering::SeqCst);
    });
    let [a, b, c] = all else { panic!("three") };
    let by_index = one(b, "select count(*) from t where w between 0 and 1000000");
    assert_eq!(by_index, one(a, "select count(*) from t where w + 0 between 0 and 1000000"));
    c.batch_execute("create temporary table own (x int); insert into own values (1)").expect("one");
    assert_eq!(one(c, "select x from own"), "1");
    assert!(a.simple_query("select x from own").is_err(), "it is c's");
    b.batch_execute("create role joe login").expect("a role");
    assert_eq!(one(c, "select count(*) from pg_roles where rolname = 'joe'"), "1");
    // A procedure is called, replaced and dropped anywhere.
    let procedure = |body: &str| {
        format!("create or replace procedure p(x int) language sql as 'update t set v = {body}'")
    };
    a.batch_execute(&procedure("x where id = 3")).expect("a procedure");
    c.batch_execute("call p(1)").expect("a call");
    b.batch_execute(&procedure("v || $1 where id = 3")).expect("another body");
    c.batch_execute("call p(2)").expect("a call");
    assert_eq!(one(a, "select v from t where id = 3"), "12");
    c.batch_execute("drop procedure p").expect("it is there");
    assert_eq!(code(&a.batch_execute("call p(3)").expect_err("it was dropped")), "42883");
    c.batch_execute("drop role joe; drop table t").expect("they are there");
    let gone = a.simple_query("select * from t").expect_err("it was dropped");
    assert_eq!(code(&gone), "42P01");
    c.batch_execute("alter system set autopilot = off").expect("a setting");
    assert_eq!(one(a, "select mode from isomer.autopilot"), "off");
    assert_eq!(one(b, "select mode from isomer.autopilot"), "off");
    // The trail of each gateway has the actions of operators at all.
    let before = actions(a);
    b.batch_execute("alter system set autopilot = off").expect("a setting");
    for client in [&mut *a, &mut *b, &mut *c] {
        assert_eq!(actions(client), before + 1);
    }
}

/// A table of a cluster has one backup, unless it or the server says otherwise.
fn new_tables_have_a_backup(all: &mut [Client]) {
    let [a, b, c] = all else { panic!("three") };
    let backups = |client: &mut Client, table: &str| {
        let of = "select coalesce(backups, 'none') from isomer.tables where name = ";
        one(client, &format!("{of}'{table}'"))
    };
    let options = |client: &mut Client, table: &str| {
        let of = "select array_to_string(reloptions, ' ') from pg_class where relname = ";
        one(client, &format!("{of}'{table}'"))
    };
    assert_eq!(one(b, "show default_backups"), "1");
    b.batch_execute(
        "create table usual (id int primary key, v text); create index usual_v on usual (v);
         create table single (id int) with (backups = 0);
         create table memory (id int) with (backups = 1, backups_in = memory);
         create temporary table passing (id int)",
    )
    .expect("tables");
    assert_eq!(backups(a, "usual"), "1 on disk");
    let copies = "select count(*) from isomer.partitions where replicas <> '' and relation in ";
    assert_eq!(one(a, &format!("{copies} ('usual', 'usual_v')")), "2");
    assert_eq!(backups(c, "single"), "none");
    // A dump says what is not the default.
    assert_eq!(options(a, "usual"), "");
    assert_eq!(options(a, "single"), "backups=0");
    assert_eq!(options(a, "memory"), "backups=1 backups_in=memory");
    let lacking = "select replicas from isomer.partitions where relation = 'passing'";
    assert_eq!(one(b, lacking), "");
    c.batch_execute("alter system set default_backups = 0").expect("a number");
    for client in [&mut *a, &mut *b, &mut *c] {
        assert_eq!(one(client, "show default_backups"), "0");
    }
    a.batch_execute("create table plain (id int)").expect("a table");
    assert_eq!(backups(b, "plain"), "none");
    assert_eq!(options(b, "usual"), "backups=1");
    let wrong = a.simple_query("alter system set default_backups = 'many'");
    assert_eq!(code(&wrong.expect_err("it is no number")), "22023");
    a.batch_execute("alter system set default_backups = default").expect("a word");
    assert_eq!(one(c, "show default_backups"), "1");
    c.batch_execute("drop table usual, single, memory, plain").expect("they are there");
}

fn locks_are_common(all: &mut [Client]) {
    let [a, b, c] = all else { panic!("three") };
    a.batch_execute(
        "create table l (id int primary key, v int); insert into l values (1, 0), (2, 0)",
    )
    .expect("a table");
    a.batch_execute("begin; update l set v = 1 where id = 1").expect("it is free");
    let taken = b.simple_query("select * from l where id = 1 for update nowait");
    assert_eq!(code(&taken.expect_err("it is locked at another gateway")), "55P03");
    b.batch_execute("begin; update l set v = 2 where id = 2").expect("it is free");
    // A deadlock over two gateways: one of the two ends.
    let ended = std::thread::scope(|scope| {
        let first = &mut *a;
        let waits = scope.spawn(move || first.batch_execute("update l set v = 3 where id = 2"));
        std::thread::sleep(Duration::from_millis(200));
        let closes = b.batch_execute("update l set v = 3 where id = 1");
        b.batch_execute("rollback").expect("it is connected");
        [waits.join().expect("no panic"), closes]
    });
    a.batch_execute("rollback").expect("it is connected");
    let lost: Vec<String> = ended.iter().filter_map(|done| done.as_ref().err()).map(code).collect();
    assert_eq!(lost, ["40P01"]);
    // A table lock of one keeps writers of all out.
    c.batch_execute("begin; lock table l in exclusive mode").expect("it is free");
    b.batch_execute("set lock_timeout = 200").expect("a setting");
    let kept_out = b.simple_query("update l set v = 5 where id = 1").expect_err("c has the table");
    assert_eq!(code(&kept_out), "55P03");
    c.batch_execute("commit").expect("nothing is in the way");
    b.batch_execute("update l set v = 5 where id = 1; set lock_timeout = 0").expect("it is free");
    assert_eq!(one(c, "select pg_try_advisory_lock(7)"), "t");
    assert_eq!(one(a, "select pg_try_advisory_lock(7)"), "f");
    c.batch_execute("select pg_advisory_unlock(7)").expect("it holds the lock");
    assert_eq!(one(a, "select pg_try_advisory_lock(7), pg_advisory_unlock(7)"), "t");
}

fn pid(client: &mut Client) -> String {
    one(client, "select pg_backend_pid()")
}

fn sessions_are_common(all: &mut [Client]) {
    let [a, b, c] = all else { panic!("three") };
    let [of_a, of_b, of_c] = [&mut *a, &mut *b, &mut *c].map(pid);
    assert!(of_a != of_b && of_b != of_c && of_a != of_c, "{of_a} {of_b} {of_c}");
    b.batch_execute("set application_name = 'of b'; begin; lock table l in exclusive mode")
        .expect("it is free");
    let state = format!(
        "select state || ': ' || application_name || ': ' || query from pg_stat_activity where pid = {of_b}"
    );
    let lock = format!(
        "select count(*) from pg_locks
         where relation = 'l'::regclass and mode = 'ExclusiveLock' and granted and pid = {of_b}"
    );
    for client in [&mut *a, &mut *c] {
        let shown = one(client, &state);
        assert!(shown.starts_with("idle in transaction: of b: set application_name"), "{shown}");
        assert_eq!(one(client, &lock), "1");
    }
    // c waits for b, and a sees that.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| c.batch_execute("update l set v = 9 where id = 1"));
        let blocked = format!("select pg_blocking_pids({of_c})");
        wait_for("c waits", || one(a, &blocked) == format!("{{{of_b}}}"));
        let event = format!(
            "select wait_event_type || ' ' || state from pg_stat_activity where pid = {of_c}"
        );
        assert_eq!(one(a, &event), "Lock active");
        // A role without rights sees that there is a session, and no more.
        a.batch_execute("create role ann; set role ann").expect("a role");
        let hidden = format!("select query from pg_stat_activity where pid = {of_c}");
        assert_eq!(one(a, &hidden), "<insufficient privilege>");
        let refused = a.simple_query(&format!("select pg_cancel_backend({of_c})"));
        assert_eq!(code(&refused.expect_err("it is a superuser's")), "42501");
        a.batch_execute("reset role; drop role ann").expect("it is there");
        assert_eq!(one(a, &format!("select pg_cancel_backend({of_c})")), "t");
        let canceled = waiting.join().expect("no panic").expect_err("it was canceled");
        assert_eq!(code(&canceled), "57014");
    });
    assert_eq!(one(c, &format!("select pg_terminate_backend({of_b})")), "t");
    wait_for("its session has ended", || b.is_closed() || b.simple_query("select 1").is_err());
    c.batch_execute("update l set v = 9 where id = 1").expect("the lock has ended with it");
    assert_eq!(one(c, &format!("select pg_terminate_backend({of_b})")), "f", "it is gone");
}

/// Each process answers for what all of them have counted.
fn counts_are_sums(all: &mut [Client]) {
    all[0].batch_execute("create table counted (id int primary key)").expect("a table");
    for (id, client) in all.iter_mut().enumerate() {
        client.batch_execute(&format!("insert into counted values ({id})")).expect("a row");
    }
    let count = all.len().to_string();
    for client in all.iter_mut() {
        client.batch_execute("set ship_statements = off").expect("a setting");
        client.batch_execute("select * from counted").expect("rows");
        client.batch_execute("reset ship_statements").expect("a setting");
    }
    let mut explained = Vec::new();
    for client in all.iter_mut() {
        let lines = client
            .simple_query("explain (analyze, buffers, summary off) select * from counted")
            .expect("a plan");
        let text = |line: &SimpleQueryMessage| match line {
            SimpleQueryMessage::Row(row) => row.get(0).unwrap_or_default().to_owned(),
            _ => String::new(),
        };
        let lines: Vec<String> = lines.iter().map(text).collect();
        let has = |what: &str| lines.iter().filter(|line| line.trim() == what).count();
        assert_eq!(has("Sites Read: s1"), 1, "{lines:?}");
        // Of the source, and of the statement.
        explained.push((has("Rows Shipped: 0"), has("Rows Shipped: 3")));
    }
    explained.sort_unstable();
    assert_eq!(explained, [(0, 2), (0, 2), (2, 0)]);
    // The process with the master has them already.
    let shipped = "select transactions || ' ' || rows_shipped from isomer.all_statements
                   where query = 'select * from counted'";
    assert_eq!(one(&mut all[0], shipped), "3 6");
    for client in all {
        for query in [
            "select calls from isomer.all_statements where query = 'insert into counted values (?)'",
            "select calls from pg_stat_statements where query = 'insert into counted values (?)'",
            "select n_tup_ins from pg_stat_user_tables where relname = 'counted'",
            "select count(*) from isomer.all_metrics where name = 'isomer_lock_waiters'",
            "select count(distinct coalesce(process, '')) from isomer.all_metrics",
        ] {
            assert_eq!(one(client, query), count, "{query}");
        }
        let calls =
            "select calls from isomer.statements where query = 'insert into counted values (?)'";
        assert_eq!(one(client, calls), "1");
        let masters =
            "select sum(rows) from isomer.copies where relation = 'counted' and is_master";
        assert_eq!(one(client, masters), count);
        let lags = "select count(*) > 0 and bool_and(lag_ms >= 0 and rows = 3) from isomer.copies
             where relation = 'counted' and not is_master";
        wait_for("its backups have the rows", || one(client, lags) == "t");
        assert_eq!(
            one(client, "select xact_commit > 3 and tup_inserted > 2 from pg_stat_database"),
            "t"
        );
    }
}

/// A load balancer that sends a client to the first of two processes, and its request to cancel a
/// statement to the second.
#[allow(clippy::disallowed_methods, reason = "threads of the test")]
fn balancer(to: [u16; 2]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for (client, to) in listener.incoming().zip(to) {
            let client = client.expect("a connection");
            let server = TcpStream::connect(("127.0.0.1", to)).expect("it serves");
            let ways = [(&client, &server), (&server, &client)];
            for (from, to) in ways
                .map(|(a, b)| [a, b].map(|it| it.try_clone().expect("a socket")))
                .map(|[from, to]| (from, to))
            {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut &from, &mut &to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
    port
}

fn statements_are_canceled_from_everywhere(ports: &[u16]) {
    for to in [[ports[1], ports[0]], [ports[0], ports[2]], [ports[1], ports[2]]] {
        let mut client = client_at(balancer(to)).expect("it serves");
        let cancel = client.cancel_token();
        std::thread::scope(|scope| {
            let sleeping = scope.spawn(|| client.batch_execute("select pg_sleep(600)"));
            let mut other = client_at(ports[0]).expect("it serves");
            let sleeps = "select count(*) from pg_stat_activity where query ~ 'sleep.600' and state = 'active' and pid <> pg_backend_pid()";
            wait_for("it sleeps", || one(&mut other, sleeps) == "1");
            cancel.cancel_query(postgres::NoTls).expect("a process that serves");
            let canceled = sleeping.join().expect("no panic").expect_err("it was canceled");
            assert_eq!(code(&canceled), "57014");
        });
    }
}

/// True if each thread of a process stands still: a signal reaches them one after the other.
fn is_stopped(process: &str) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).expect("the process is there");
    let is_stopped =
        |stat: &str| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'));
    threads
        .filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("stat")).ok())
        .all(|stat| is_stopped(&stat))
}

fn a_process_that_stands_still_is_named(ports: &[u16], process: &str) {
    let warnings: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = warnings.clone();
    let mut config = postgres::Config::new();
    config.host("127.0.0.1").port(ports[1]).user("isomer").dbname("isomer");
    config.notice_callback(move |notice| {
        let text = format!("{} {}", notice.message(), notice.detail().unwrap_or_default());
        told.lock().expect("no panic").push(text);
    });
    let mut client = config.connect(postgres::NoTls).expect("it serves");
    let mut still = client_at(ports[2]).expect("it serves");
    let cancel = format!("select pg_cancel_backend({})", pid(&mut still));
    let signal = |signal: &str| {
        let done = Command::new("kill").args([signal, process]).status();
        assert!(done.expect("kill is there").success());
    };
    signal("-STOP");
    wait_for("it stands still", || is_stopped(process));
    let canceled = one(&mut client, &cancel);
    signal("-CONT");
    assert_eq!(canceled, "f");
    let warnings = warnings.lock().expect("no panic").join("; ");
    assert!(warnings.contains("node \"node2\""), "{warnings}");
    wait_for("it is canceled", || one(&mut client, &cancel) == "t");
}

/// Transfers at some gateways while `trouble` lasts, each by clients that stay connected. After
/// each commit another gateway shows it. Nothing but conflicts may fail.
fn while_transferring<R>(ports: &[u16], trouble: impl FnOnce() -> R) -> R {
    let (is_over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let result = std::thread::scope(|scope| {
        let working: Vec<_> = (0..4)
            .map(|number: usize| {
                let (is_over, done) = (&is_over, &done);
                let [own, other] = [number, number + 1].map(|at| ports[at % ports.len()]);
                let [own, other] = [own, other].map(|port| client_at(port).expect("it serves"));
                let table = if number < 2 { "accounts" } else { "ordered" };
                scope.spawn(move || transfer(table, [own, other], number as i32, is_over, done))
            })
            .collect();
        let result = trouble();
        let so_far = done.load(Ordering::SeqCst);
        wait_for("transfers go on", || done.load(Ordering::SeqCst) > so_far + 40);
        is_over.store(true, Ordering::SeqCst);
        working.into_iter().for_each(|client| client.join().expect("no panic"));
        result
    });
    for port in ports {
        let mut client = client_at(*port).expect("it serves");
        for table in ["accounts", "ordered"] {
            let sum = one(&mut client, &format!("select sum(v) from {table} where id < 1000"));
            assert_eq!(sum, (i64::from(ACCOUNTS) * START).to_string(), "{table}");
        }
    }
    result
}

/// The errors after which a client repeats its transaction.
const CONFLICTS: &[&str] = &["40001", "40P01"];

fn transfer(
    table: &str,
    [mut own, mut other]: [Client; 2],
    number: i32,
    is_over: &AtomicBool,
    done: &AtomicU64,
) {
    // Each client has a row of its own, which only it writes.
    let mark = 1000 + number;
    let insert =
        format!("insert into {table} values ({mark}, 0) on conflict (id) do update set v = 0");
    while let Err(error) = own.batch_execute(&insert) {
        let is_unknown = code(&error) == "08007";
        assert!(is_unknown || CONFLICTS.contains(&&*code(&error)), "{error:?}");
    }
    let (mut round, mut written) = (number, 0_i64);
    while !is_over.load(Ordering::SeqCst) {
        round += 1;
        let (from, to) = ((round * 7) % ACCOUNTS, (round * 11 + 3) % ACCOUNTS);
        let (low, high) = (from.min(to), from.max(to));
        if low == high {
            continue;
        }
        let moved = own.batch_execute(&format!(
            "begin; update {table} set v = v - 1 where id = {low};
             update {table} set v = v + 1 where id = {high};
             update {table} set v = v + 1 where id = {mark}; commit"
        ));
        match moved {
            Ok(()) => {
                written += 1;
                let shown = seen(&mut other, &format!("select v from {table} where id = {mark}"));
                assert_eq!(shown, written.to_string(), "what was committed is seen elsewhere");
                done.fetch_add(1, Ordering::SeqCst);
            }
            // The locks end with the conductor. If others have written the rows since, these do not
            // show the outcome any more (decision record 0042).
            Err(error) if code(&error) == "08007" => {
                own.batch_execute("rollback").expect("it is connected");
                let shown = seen(&mut other, &format!("select v from {table} where id = {mark}"));
                let now: i64 = shown.parse().expect("a number");
                assert!((written..=written + 1).contains(&now), "{now} after {written}");
                written = now;
            }
            Err(error) => {
                assert!(CONFLICTS.contains(&&*code(&error)), "{error:?}");
                own.batch_execute("rollback").expect("it is connected");
            }
        }
    }
}
