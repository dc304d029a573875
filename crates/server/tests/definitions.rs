//! Definitions while clients work: plans that a definition overtakes are made again, without an
//! error.

mod fixture;

use fixture::{End, Fixture, code, options, wait_for};
use isomer_cluster::Options;
use postgres::Client;
use postgres::error::SqlState;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn prepared_statements_go_on_after_definitions_unless_their_result_has_changed() {
    let fixture = Fixture::new();
    let (mut client, mut other) = (fixture.client(), fixture.client());
    client.batch_execute("create table t (id int primary key, v int)").expect("a table");
    let insert = client.prepare("insert into t (id, v) values ($1, $2)").expect("a statement");
    let all = client.prepare("select * from t").expect("a statement");
    let one = client.prepare("select v from t where id = $1").expect("a statement");
    client.execute(&insert, &[&1i32, &10i32]).expect("a row");
    other.batch_execute("alter table t add column w int default 5").expect("a column");
    // A column that the statement does not name gets its default.
    client.execute(&insert, &[&2i32, &20i32]).expect("a row");
    let found: i32 = client.query_one(&one, &[&2i32]).expect("one row").get(0);
    assert_eq!(found, 20);
    let refused = client.query(&all, &[]).expect_err("another result");
    let refused = refused.as_db_error().expect("of the server");
    assert_eq!(refused.code(), &SqlState::FEATURE_NOT_SUPPORTED);
    assert_eq!(refused.message(), "cached plan must not change result type");
    let row = client.query_one("select * from t where id = 2", &[]).expect("prepared anew");
    assert_eq!((row.get::<_, i32>(0), row.get::<_, i32>(2)), (2, 5));
    // Parameters keep the types that the client knows.
    other.batch_execute("alter table t alter column v type bigint").expect("a type");
    client.execute(&insert, &[&3i32, &30i32]).expect("a row");
    assert_eq!(code(client.query(&one, &[&3i32])), SqlState::FEATURE_NOT_SUPPORTED);
    other.batch_execute("drop table t").expect("no table");
    assert_eq!(code(client.execute(&insert, &[&4i32, &40i32])), SqlState::UNDEFINED_TABLE);
}

/// Statements of all kinds, alone and in blocks, prepared and not, while their table is altered:
/// all of them succeed with the right effect.
#[test]
fn statements_succeed_while_their_table_is_altered() {
    const ROUNDS: i64 = 40;
    const CLIENTS: i64 = 3;
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.batch_execute("create table t (id bigint primary key, v bigint)").expect("a table");
    client.batch_execute("insert into t select n, 0 from generate_series(0, 99) n").expect("rows");
    let done = AtomicBool::new(false);
    let counted: i64 = std::thread::scope(|scope| {
        let (fixture, done) = (&fixture, &done);
        let work = move |at: i64| {
            let mut client = fixture.client();
            let add = client.prepare("update t set v = v + 1 where id = $1").expect("a statement");
            let see = client.prepare("select v from t where id = $1").expect("a statement");
            let mut count = 0;
            while !done.load(Ordering::Relaxed) {
                let id = (count * 7 + at) % 100;
                match count % 3 {
                    0 => assert_eq!(client.execute(&add, &[&id]).expect("alone"), 1),
                    1 => {
                        let mut block = client.transaction().expect("a block");
                        assert_eq!(block.query(&see, &[&id]).expect("in a block").len(), 1);
                        assert_eq!(block.execute(&add, &[&id]).expect("in a block"), 1);
                        block.commit().expect("an end");
                    }
                    _ => {
                        let update = format!("update t set v = v + 1 where id = {id}");
                        client.batch_execute(&update).expect("not prepared");
                    }
                }
                count += 1;
            }
            count
        };
        let workers: Vec<_> = (0..CLIENTS).map(|at| scope.spawn(move || work(at))).collect();
        let end = End(done);
        for _ in 0..ROUNDS {
            for definition in [
                "alter table t add column w int default 1",
                "create index t_v on t (v)",
                "alter table t alter column w type bigint",
                "drop index t_v",
                "alter table t drop column w",
            ] {
                client.batch_execute(definition).expect("a definition");
            }
        }
        drop(end);
        workers.into_iter().map(|worker| worker.join().expect("no fault")).sum()
    });
    let sum: i64 = client.query_one("select sum(v)::bigint from t", &[]).expect("a row").get(0);
    assert_eq!(sum, counted);
}

/// Writers of all kinds while indexes are built, cancelled, and dropped. No writer gets an error,
/// and each complete index has exactly one entry for each row.
#[test]
fn indexes_agree_with_their_table_when_they_were_built_under_load() {
    const ROWS: i64 = 6000;
    const ROUNDS: usize = 8;
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client
        .batch_execute(&format!(
            "create table t (id bigint primary key, v bigint, u bigint);
             insert into t select n, n % 100, n * 1000 from generate_series(1, {ROWS}) n"
        ))
        .expect("a table");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (fixture, done) = (&fixture, &done);
        let write = move |at: i64| {
            let mut client = fixture.client();
            let mut chance = at as u64;
            for round in 0.. {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // Each writer has its own rows, so that unique values are unique.
                let id = ((chance >> 33) as i64 % ROWS) / 3 * 3 + at;
                let statement = match round % 4 {
                    0 => format!("update t set v = {round} where id = {id}"),
                    1 => format!("delete from t where id = {id}"),
                    2 => format!(
                        "begin; update t set u = u + 1 where id = {id}; update t set v = null where id = {id}; commit"
                    ),
                    _ => format!(
                        "insert into t values ({id}, {round}, {id} * 1000) on conflict (id) do update set u = t.u + 1"
                    ),
                };
                client.batch_execute(&statement).expect("a change");
            }
        };
        (0..3).for_each(|at| drop(scope.spawn(move || write(at))));
        let end = End(done);
        let mut looker = fixture.client();
        for round in 0..ROUNDS {
            // Every second build is cancelled in the middle. The limit applies to the definition
            // alone.
            let cancel = if round % 2 == 0 { 0 } else { 1 + round * 5 };
            let limit = format!("options='-c statement_timeout={cancel}'");
            for (name, definition) in [
                ("t_v", "create index t_v on t (v)"),
                ("t_u", "create unique index t_u on t (u)"),
                ("t_w", "create index t_w on t ((v % 7)) where u % 2 = 0"),
            ] {
                let mut client = fixture.client_with(&limit).expect("the server answers");
                match client.batch_execute(definition) {
                    Ok(()) => {
                        check(&mut looker, "v", "0");
                        check(&mut looker, "u", "0");
                        // Writers move rows into its predicate and out of it.
                        check(&mut looker, "v % 7", "u % 2");
                        looker.batch_execute(&format!("drop index {name}")).expect("it is there");
                    }
                    Err(error) => {
                        assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED), "{error:?}");
                        let gone = looker.batch_execute(&format!("drop index {name}"));
                        assert_eq!(code(gone), SqlState::UNDEFINED_OBJECT);
                    }
                }
            }
        }
        drop(end);
    });
    client.batch_execute("create table last (id int)").expect("a definition");
    // Only the table, without the cancelled index.
    let stored = fixture.engine.database().design().tables().count();
    let known: i64 =
        client.query_one("select count(*) from isomer.tables", &[]).expect("a row").get(0);
    assert_eq!(stored as i64, known + 5, "and the catalog's own five");
}

/// Reads rows with a value by index, where another value is zero, if there is one, and compares
/// with a scan, in one snapshot.
fn check(client: &mut Client, value: &str, zero: &str) {
    let block = client.build_transaction();
    let block = block.isolation_level(postgres::IsolationLevel::RepeatableRead);
    let mut block = block.start().expect("a block");
    let mut rows = |query: &str| -> Vec<(i64, i64)> {
        let rows = block.query(query, &[]).expect("rows");
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    };
    let shown = format!("select {value}, id from t where");
    let by_index = rows(&format!("{shown} {value} >= 0 and {zero} = 0 order by 1, 2"));
    let all = rows(&format!("{shown} {value} + 0 >= 0 and {zero} + 0 = 0 order by 1, 2"));
    assert_eq!(by_index, all, "by {value}");
}

/// An altered table is another store table; decisions of the autopilot show its SQL name.
#[test]
fn decisions_are_told_with_the_names_of_clients() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client
        .batch_execute(
            "create table shop (id int primary key, v int); alter table shop alter column v type bigint;
             insert into shop select n, 0 from generate_series(1, 100) n;
             alter table shop split at (51); alter table shop remaster at (51) to site 2;
             alter system set autopilot = auto",
        )
        .expect("a table at two sites");
    let decisions = "select trigger, change from isomer.decisions";
    let mut round = 0;
    // The autopilot plans beside its clients, from time to time, so they continue until it has.
    let told = wait_for("what is always written together is brought together", || {
        round += 1;
        let (a, b) = (1 + round % 50, 51 + round % 50);
        client
            .batch_execute(&format!("update shop set v = v + 1 where id in ({a}, {b})"))
            .expect("a change at two sites");
        client.query_opt(&format!("{decisions} limit 1"), &[]).expect("a decision, or none")
    });
    // A partition is `shop[1..50]`, a split is of `shop`; the store name of an altered table is
    // neither.
    for text in [told.get::<_, &str>(0), told.get(1)] {
        let names = text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '~');
        assert!(names.into_iter().any(|name| name == "shop"), "{text}");
    }
    // A decision has one number for all of its changes, so its figures can be added up.
    let count = "select count(*), count(distinct number) from isomer.decisions";
    let row = client.query_one(count, &[]).expect("a row");
    let [rows, numbers]: [i64; 2] = [row.get(0), row.get(1)];
    assert_eq!(rows, numbers);
    let made = wait_for("what was decided is made and summed up", || {
        let rows = client.query("select * from isomer.benefit", &[]).expect("one row");
        assert_eq!(rows.len(), 1);
        rows.into_iter().find(|row| row.get::<_, i64>("decisions") > 0)
    });
    let taken_back: f64 = made.get("taken_back_percent");
    assert!((0.0..=100.0).contains(&taken_back), "{taken_back}");
}

/// Changing a column's type rewrites the table in commits of its own. A snapshot from before them
/// gets an error instead of an empty table, whether it sees no row or a part of them.
#[test]
fn an_earlier_snapshot_does_not_find_an_altered_table_empty() {
    const ROWS: i64 = 20_000;
    let fixture = Fixture::new();
    let (mut client, mut other) = (fixture.client(), fixture.client());
    other
        .batch_execute(&format!(
            "create table t (id int primary key, v int, w int); create table u (id int primary key);
             insert into t select n from generate_series(1, {ROWS}) n"
        ))
        .expect("tables");
    let count = |client: &mut Client| -> Result<i64, postgres::Error> {
        Ok(client.query_one("select count(*) from t", &[])?.get(0))
    };
    let stored = || fixture.engine.database().design().tables().count();
    for (definition, is_being_filled) in [
        ("alter table t alter column v type bigint", false),
        ("alter table t alter column w type bigint", true),
        ("alter table t drop column v", true),
    ] {
        let before = stored();
        std::thread::scope(|scope| {
            let begin = "begin isolation level repeatable read; select * from u";
            if !is_being_filled {
                client.batch_execute(begin).expect("a snapshot");
            }
            let altering = scope.spawn(|| other.batch_execute(definition).expect("a definition"));
            if is_being_filled {
                wait_for("a table to be filled", || (stored() > before).then_some(()));
                client.batch_execute(begin).expect("a snapshot");
            }
            altering.join().expect("no panic");
        });
        // The transaction may have begun later.
        match count(&mut client) {
            Ok(found) => assert!(is_being_filled && found == ROWS, "{found} rows: {definition}"),
            Err(error) => assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE)),
        }
        client.batch_execute("rollback; begin").expect("an end");
        assert_eq!(count(&mut client).expect("rows"), ROWS, "at a time of its own");
        client.batch_execute("commit").expect("an end");
    }
}

/// A rewrite can be cancelled, and leaves nothing behind.
#[test]
fn a_rewrite_of_a_table_can_be_cancelled() {
    let fixture = Fixture::new();
    let (mut client, mut other) = (fixture.client(), fixture.client());
    client
        .batch_execute(
            "create table t (id int primary key, v int);
             insert into t select n, n from generate_series(1, 100000) n",
        )
        .expect("rows");
    let stored = || fixture.engine.database().design().tables().count();
    let before = stored();
    let token = other.cancel_token();
    std::thread::scope(|scope| {
        let altering =
            scope.spawn(move || code(other.batch_execute("alter table t alter v type bigint")));
        wait_for("a table to be filled", || (stored() > before).then_some(()));
        while !altering.is_finished() {
            token.cancel_query(postgres::NoTls).expect("the server answers");
        }
        assert_eq!(altering.join().expect("no panic"), SqlState::QUERY_CANCELED);
    });
    assert_eq!(stored(), before);
    let sum: i64 = client.query_one("select sum(v)::bigint from t", &[]).expect("rows").get(0);
    assert_eq!(sum, 100_000 * 100_001 / 2);
}

/// All enums that are made here take more memory than the process may keep of them at once. A
/// process of its own runs the test, because other tests need memory as well.
#[test]
fn enums_that_are_dropped_or_changed_give_back_their_memory() {
    const NAME: &str = "enums_that_are_dropped_or_changed_give_back_their_memory";
    const ROUNDS: usize = 100;
    const LABELS: usize = 2_000;
    if std::env::var_os("ISOMER_ALONE").is_none() {
        let program = std::env::current_exe().expect("this test");
        let mut alone = std::process::Command::new(program);
        alone.args(["--exact", NAME, "--nocapture"]).env("ISOMER_ALONE", "1");
        assert!(alone.status().expect("it starts").success(), "see its output above");
        return;
    }
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let labels: Vec<String> = (0..LABELS).map(|at| format!("'{at:a>60}'")).collect();
    let mut resident = Vec::new();
    for round in 0..ROUNDS {
        let define = format!(
            "create type mood as enum ({labels}); create table t (m mood, all_of mood[]);
             insert into t select m, array[m] from unnest(enum_range(null::mood)) m limit 3",
            labels = labels.join(", "),
        );
        client.batch_execute(&define).expect("a type");
        let add = format!("alter type mood add value 'new' before {}", labels[0]);
        client.batch_execute(&add).expect("a label");
        client.batch_execute("insert into t values ('new')").expect("a row");
        let first = client.query_one("select min(m)::text from t", &[]).expect("a row");
        let first: String = first.get(0);
        assert_eq!(first, "new");
        client.batch_execute("drop table t; drop type mood").expect("dropped");
        if round % 10 == 9 {
            resident.push(resident_bytes());
        }
    }
    let (begin, end) = (resident[2], *resident.last().expect("there are rounds"));
    assert!(end < begin + (32 << 20), "resident bytes: {resident:?}");
}

/// The memory of this process.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it is there");
    let kilobytes: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kilobytes << 10
}

/// A definition writes the same number of bytes beside many tables as beside few.
#[test]
fn a_definition_costs_what_it_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let fixture = Fixture::serve(Options::in_folder(folder.path(), 2), options());
    let mut client = fixture.client();
    let written = || {
        let logs: u64 = fixture.engine.database().sites().iter().map(|site| site.log.bytes).sum();
        logs + std::fs::metadata(folder.path().join("catalog")).expect("a file").len()
    };
    let mut define = |from: u32, count: u32| {
        let before = written();
        for at in from..from + count {
            let define = format!("create table t{at} (id int primary key, v text)");
            client.batch_execute(&define).expect("a table");
        }
        written().saturating_sub(before) / u64::from(count)
    };
    let few = define(1000, 20);
    define(2000, 300);
    let many = define(3000, 20);
    assert!(many < 2 * few, "{few} bytes for each of the first tables, {many} for later ones");
}
