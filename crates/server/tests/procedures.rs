//! Procedures, called by a driver: parameters, prepared statements, conflicts, bad input.

mod fixture;

use fixture::{Fixture, options};
use isomer_cluster::Options;
use postgres::error::SqlState;

#[test]
fn a_driver_calls_a_procedure_with_parameters() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let made = "create table t (a int primary key, b text, c bigint);
        create procedure p(x int, y text, z bigint default 7) language sql as $$
            insert into t values (x, y, z); update t set c = c + $3 where a = x $$";
    client.batch_execute(made).expect("a procedure");
    let call = client.prepare("call p($1, $2)").expect("a statement");
    assert_eq!(call.params(), [postgres::types::Type::INT4, postgres::types::Type::TEXT]);
    assert_eq!(call.columns().len(), 0);
    for x in 1..=3 {
        assert_eq!(client.execute(&call, &[&x, &"b"]).expect("a call"), 0);
    }
    client.execute("call p(z => $1, x => 4, y => null)", &[&1_i64]).expect("a call");
    let mut block = client.transaction().expect("a block");
    block.execute(&call, &[&5, &"b"]).expect("a call");
    block.rollback().expect("the end");
    let sum = client.query_one("select count(*), sum(c)::bigint from t", &[]).expect("a row");
    assert_eq!((sum.get::<_, i64>(0), sum.get::<_, i64>(1)), (4, 3 * 14 + 2));
    // A replaced body is used by the same statement.
    let other = "create or replace procedure p(x int, y text, z bigint default 7) language sql as
        'delete from t where a = x'";
    client.batch_execute(other).expect("another body");
    client.execute(&call, &[&1, &"b"]).expect("a call");
    let left = client.query_one("select count(*) from t", &[]).expect("a row");
    assert_eq!(left.get::<_, i64>(0), 3);
    let error = client.execute(&call, &[&"1", &"b"]).expect_err("another type");
    assert!(error.code().is_none(), "the driver refuses it: {error}");
}

#[test]
fn calls_that_conflict_are_repeated_by_the_server() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let fixture = Fixture::serve(Options::in_folder(folder.path(), 2), options());
    let made = "create table counters (id int primary key, n int) with (isolation = ordered);
        insert into counters values (1, 0), (2, 0);
        create procedure count(most int) language sql as $$
            update counters set n = n + 1 where id = 1;
            update counters set n = (select n from counters where id = 1) where id = 2 $$";
    fixture.client().batch_execute(made).expect("a procedure");
    let failed: u32 = std::thread::scope(|scope| {
        let work = |at: u32| {
            let mut client = fixture.client();
            let call = client.prepare("call count($1)").expect("a statement");
            let mut failed = 0;
            for _ in 0..20 {
                // Both protocols.
                let done = match at % 2 {
                    0 => client.execute(&call, &[&1]).map(drop),
                    _ => client.batch_execute("call count(1)"),
                };
                if let Err(error) = done {
                    assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE));
                    failed += 1;
                }
            }
            failed
        };
        let threads: Vec<_> = (0..3).map(|at| scope.spawn(move || work(at))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no fault")).sum()
    });
    let mut client = fixture.client();
    let row = client.query_one("select min(n), max(n) from counters", &[]).expect("the counters");
    let (least, most): (i32, i32) = (row.get(0), row.get(1));
    assert_eq!(least, most, "a call is one transaction");
    assert_eq!(most as u32 + failed, 60);
    assert!(failed < 30, "most calls that conflict are repeated: {failed}");
}

#[test]
fn bad_input_is_refused() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.batch_execute("create table t (a int)").expect("a table");
    // A body of a megabyte: a long text works, and plans of 42,000 statements need more memory than
    // a statement may use.
    let made = |body: &str| format!("create procedure p() language sql as $${body}$$");
    let long = format!("insert into t select length('{}')", "a".repeat(1 << 20));
    client.batch_execute(&made(&long)).expect("a long body");
    client.batch_execute("call p(); drop procedure p").expect("a long call");
    let row = client.query_one("select a from t", &[]).expect("a row");
    assert_eq!(row.get::<_, i32>(0), 1 << 20);
    let one = "insert into t values (1);\n";
    let error = client.batch_execute(&made(&one.repeat((1 << 20) / one.len())));
    let error = error.expect_err("too many statements");
    assert_eq!(error.code(), Some(&SqlState::OUT_OF_MEMORY), "{error}");
    client.batch_execute(&made(&one.repeat(1_000))).expect("a thousand statements");
    client.batch_execute("call p()").expect("a call of a thousand statements");
    let row = client.query_one("select count(*) from t", &[]).expect("a row");
    assert_eq!(row.get::<_, i64>(0), 1_001);
    let sum = |terms: usize| format!("select {}", vec!["1"; terms].join("+"));
    let arguments = |count: usize| vec!["int"; count].join(", ");
    for (statement, code) in [
        (format!("create procedure q() language sql as $${}$$", sum(10_000)), "54001"),
        (format!("create procedure q() language sql as $${}$$", sum(1 << 19)), "53200"),
        (format!("create procedure q({}) language sql as ''", arguments(1_000)), "54023"),
        ("create procedure q() language sql as $$ select 'a $$".to_owned(), "42601"),
        ("create procedure q() language sql as 'select 1".to_owned(), "42601"),
        ("create procedure q() language sql as $$ select 1".to_owned(), "42601"),
        ("create procedure q() begin atomic select 1;".to_owned(), "42601"),
        ("create procedure q(".to_owned(), "42601"),
        ("create procedure q(int int int) language sql as ''".to_owned(), "42601"),
        (format!("call nosuch({})", vec!["1"; 1_000].join(", ")), "42883"),
        ("call q(1".to_owned(), "42601"),
        ("drop procedure q(1)".to_owned(), "42601"),
        ("comment on procedure q() is 5".to_owned(), "42601"),
    ] {
        let error =
            client.batch_execute(&statement).expect_err(&statement[..60.min(statement.len())]);
        let found = error.code().map(SqlState::code);
        assert_eq!(found, Some(code), "{}: {error}", &statement[..60.min(statement.len())]);
    }
    let hundred = format!("create procedure q({}) language sql as 'select $100'", arguments(100));
    client.batch_execute(&hundred).expect("a hundred arguments");
    client.batch_execute(&format!("call q({})", vec!["1"; 100].join(", "))).expect("a call");
    // Two that call each other end too.
    let around = "create procedure a() language sql as ''; create procedure b() language sql as
        'call a()'; create or replace procedure a() language sql as 'call b()'";
    client.batch_execute(around).expect("two procedures");
    let error = client.batch_execute("call a()").expect_err("no end");
    assert_eq!(error.code().map(SqlState::code), Some("54001"));
    client.batch_execute("select 1").expect("the session goes on");
}

#[test]
fn rows_of_a_body_are_dropped_and_notices_are_not() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let made = "create table t (a int);
        insert into t select generate_series(1, 200000);
        create procedure p() language sql as $$
            select repeat('x', 100) from t; select set_config('application_name', 'of p', false);
            select count(*) from t $$";
    client.batch_execute(made).expect("a procedure");
    let shown = client.simple_query("call p()").expect("a call");
    assert!(matches!(shown[..], [postgres::SimpleQueryMessage::CommandComplete(0)]), "{shown:?}");
    let name = client.query_one("show application_name", &[]).expect("a row");
    assert_eq!(name.get::<_, String>(0), "of p");
}
