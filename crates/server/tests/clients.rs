//! A server on a loopback port, and a third-party client, the crate `postgres`. Where the crate
//! allows too little, a bare socket.

mod fixture;

use fixture::{Fixture, code, options, wait_for};
use isomer_cluster::Options;
use isomer_design::{Change, SiteId};
use postgres::error::SqlState;
use postgres::types::private::BytesMut;
use postgres::types::{FromSql, IsNull, Kind, ToSql, Type, to_sql_checked};
use postgres::{Client, Error};
use std::io::{Read, Write};
use std::net::TcpStream;

#[test]
fn prepared_statements_infer_their_types_and_show_binary_values() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client
        .batch_execute(
            "create table accounts (id int primary key, owner text, balance numeric(12, 2),
             ratio float8, open boolean, since timestamp, code char(4), big bigint)",
        )
        .expect("a new table");
    let insert = client
        .prepare("insert into accounts (id, owner, ratio, open, code, big) values ($1, $2, $3, $4, $5, $6)")
        .expect("a statement");
    assert_eq!(insert.params().len(), 6);
    for id in 0..10i32 {
        let big = i64::from(id) << 33;
        let owner = format!("owner {id}");
        let row: [&(dyn ToSql + Sync); 6] = [&id, &owner, &0.5f64, &(id % 2 == 0), &"ab", &big];
        assert_eq!(client.execute(&insert, &row).expect("a new row"), 1);
    }
    let row = client
        .query_one("select owner, ratio, open, code, big from accounts where id = $1", &[&7i32]);
    let row = row.expect("one row");
    assert_eq!(row.get::<_, String>(0), "owner 7");
    assert!((row.get::<_, f64>(1) - 0.5).abs() < f64::EPSILON);
    assert!(!row.get::<_, bool>(2));
    assert_eq!(row.get::<_, String>(3), "ab  ");
    assert_eq!(row.get::<_, i64>(4), 7 << 33);
    let count: i64 = client
        .query_one("select count(*) from accounts where id between $1 and $2", &[&2i32, &4i32])
        .expect("one row")
        .get(0);
    assert_eq!(count, 3);
}

#[test]
fn a_driver_finds_the_labels_of_an_enum_and_a_prepared_statement_knows_those_that_come() {
    let fixture = Fixture::new();
    let (mut client, mut other) = (fixture.client(), fixture.client());
    client
        .batch_execute(
            "create schema app; create type app.mood as enum ('sad', 'happy');
             create table people (id int primary key, m app.mood, all_of app.mood[])",
        )
        .expect("a new type");
    let insert = client.prepare("insert into people values ($1, $2, $3)").expect("a statement");
    let mood = insert.params()[1].clone();
    let labels = |ty: &Type| match ty.kind() {
        Kind::Enum(labels) => labels.join(" "),
        other => panic!("{other:?}"),
    };
    assert_eq!((mood.schema(), mood.name(), &*labels(&mood)), ("app", "mood", "sad happy"));
    assert_eq!(insert.params()[2].kind(), &Kind::Array(mood.clone()));
    let given = |label: &'static str| Label(label.to_owned());
    let all = || vec![given("happy"), given("sad")];
    client.execute(&insert, &[&1i32, &given("happy"), &all()]).expect("a row");
    other.batch_execute("alter type app.mood add value 'ok' before 'happy'").expect("a label");
    client.execute(&insert, &[&2i32, &given("ok"), &vec![given("ok")]]).expect("a row");
    let refused = client.execute(&insert, &[&3i32, &given("glad"), &all()]);
    assert_eq!(code(refused), SqlState::INVALID_TEXT_REPRESENTATION);
    let rows = client
        .query("select id, m, all_of from people where m > $1 order by m desc", &[&given("sad")])
        .expect("rows");
    let shown = rows.iter().map(|row| (row.get(0), row.get::<_, Label>(1).0));
    let shown: Vec<(i32, String)> = shown.collect();
    assert_eq!(shown, [(1, "happy".to_owned()), (2, "ok".to_owned())]);
    assert_eq!(rows[0].get::<_, Vec<Label>>(2), all());
    let typed = other.prepare_typed("select $1 < 'happy'", &[mood]).expect("a statement");
    assert!(other.query_one(&typed, &[&given("ok")]).expect("a row").get::<_, bool>(0));
}

/// A label as an application type.
#[derive(PartialEq, Debug)]
struct Label(String);

impl ToSql for Label {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        matches!(ty.kind(), Kind::Enum(_))
    }

    to_sql_checked!();
}

impl FromSql<'_> for Label {
    fn from_sql(_: &Type, raw: &[u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Label(String::from_utf8(raw.to_vec())?))
    }

    fn accepts(ty: &Type) -> bool {
        matches!(ty.kind(), Kind::Enum(_))
    }
}

#[test]
fn errors_carry_code_position_and_hint_and_a_failed_block_says_so() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.batch_execute("create table t (id int primary key, v int not null)").expect("a table");
    let error = client.batch_execute("select valu from t").expect_err("no such column");
    let error = error.as_db_error().expect("of the server");
    assert_eq!(error.code(), &SqlState::UNDEFINED_COLUMN);
    assert_eq!(error.position(), Some(&postgres::error::ErrorPosition::Original(8)));
    let unknown = client.batch_execute("select * from tt").expect_err("no such table");
    assert!(unknown.as_db_error().and_then(|error| error.hint()).is_some());
    assert_eq!(
        code(client.batch_execute("insert into t values (1, null)")),
        SqlState::NOT_NULL_VIOLATION
    );
    assert_eq!(code(client.batch_execute("selec")), SqlState::SYNTAX_ERROR);
    assert_eq!(code(client.batch_execute("select 1 / 0")), SqlState::DIVISION_BY_ZERO);
    assert_eq!(
        code(client.batch_execute("create type point as (x int, y int)")),
        SqlState::FEATURE_NOT_SUPPORTED
    );
    client.batch_execute("begin; insert into t values (1, 1)").expect("a block");
    assert_eq!(
        code(client.batch_execute("insert into t values (1, 2)")),
        SqlState::UNIQUE_VIOLATION
    );
    assert_eq!(code(client.batch_execute("select 1")), SqlState::IN_FAILED_SQL_TRANSACTION);
    client.batch_execute("rollback").expect("an end");
    assert!(client.query("select * from t", &[]).expect("rows").is_empty());
}

/// The rows of a statement move while it runs, to a copy that was made after its snapshot was
/// taken. The statement waits for an advisory lock between the rows that stay and those that move.
#[test]
fn a_statement_whose_snapshot_no_site_has_any_more_is_repeated() {
    let fixture = Fixture::new();
    let (mut reader, mut operator) = (fixture.client(), fixture.client());
    operator
        .batch_execute(
            "create table t (id int primary key, v int not null);
             insert into t select n, 1 from generate_series(1, 20000) n;
             alter table t split at (10001);",
        )
        .expect("a table");
    let sum =
        "select sum(case when id = 1 then (pg_advisory_lock(7) is null)::int else v end) from t";
    let mut with_moved = |to: u16, from: u16, run: &mut dyn FnMut() -> Result<i64, Error>| {
        operator.batch_execute("select pg_advisory_lock(7)").expect("the lock is free");
        std::thread::scope(|scope| {
            let operator = &mut operator;
            scope.spawn(move || {
                let waiting = "select count(*) from pg_locks where not granted";
                wait_for("the reader waits", || {
                    let waiting: i64 = operator.query_one(waiting, &[]).expect("a row").get(0);
                    (waiting > 0).then_some(())
                });
                let moved = format!(
                    "update t set v = v + 1 where id > 10000;
                     alter table t remaster at (10001) to site {to};
                     alter table t drop replica at (10001) on site {from};
                     select pg_advisory_unlock(7);"
                );
                operator.batch_execute(&moved).expect("the partition moves");
            });
            run()
        })
    };
    // A block at REPEATABLE READ has one snapshot, so it is told.
    reader
        .batch_execute("begin isolation level repeatable read; select count(*) from t where id = 5")
        .expect("a snapshot");
    let told = with_moved(2, 1, &mut || reader.query_one(sum, &[]).map(|row| row.get(0)));
    let told = told.expect_err("its snapshot is in no copy");
    let told = told.as_db_error().expect("an error of the server");
    assert_eq!(*told.code(), SqlState::T_R_SERIALIZATION_FAILURE);
    assert!(told.message().starts_with("no site has the rows as they were"), "{told}");
    reader.batch_execute("rollback; select pg_advisory_unlock_all()").expect("it ends");
    // A statement by itself takes another snapshot: that of the second run.
    let seen = with_moved(3, 2, &mut || reader.query_one(sum, &[]).map(|row| row.get(0)));
    assert_eq!(seen.expect("it is repeated"), 9_999 + 10_000 * 3);
}

#[test]
fn transactions_wait_for_rows_and_lose_nothing_while_the_design_changes() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 50;
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client
        .batch_execute(
            "create table a (id int primary key, v int); create table b (id int primary key, v int);
             insert into a select n, 0 from generate_series(0, 99) n;
             insert into b select n, 0 from generate_series(0, 99) n",
        )
        .expect("two tables");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let mut client = fixture.client();
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let id = ((thread + round) % 10) as i32;
                    let mut txn = client.transaction().expect("a block");
                    txn.execute("update a set v = v + 1 where id = $1", &[&id]).expect("a row");
                    txn.execute("update b set v = v + 1 where id = $1", &[&(id + 50)])
                        .expect("a row");
                    txn.commit().expect("nothing is in the way");
                }
            });
        }
        let database = fixture.engine.database();
        for round in 0..40u16 {
            for table in fixture.engine.catalog().tables.values() {
                let at =
                    table.schema.encode_key(&[isomer_design::Value::Int64(i64::from(round) * 2)]);
                let at = at.expect("a key");
                let table = table.id;
                let to = SiteId(1 + round % 3);
                let _ = database.change(Change::Split { table, at: at.clone() }, "a test");
                let start = at.clone();
                let _ = database.change(Change::AddReplica { table, start, site: to }, "a test");
                let _ = database.change(Change::Remaster { table, start: at, to }, "a test");
            }
        }
    });
    for table in ["a", "b"] {
        let sum: i64 =
            client.query_one(&format!("select sum(v) from {table}"), &[]).expect("one row").get(0);
        assert_eq!(sum, (THREADS * ROUNDS) as i64);
    }
}

#[test]
fn repeatable_read_keeps_its_snapshot_and_the_first_updater_wins() {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    one.batch_execute("create table t (id int primary key, v int); insert into t values (1, 10)")
        .expect("a table");
    one.batch_execute("begin isolation level repeatable read").expect("a block");
    let value = |client: &mut Client| -> i32 {
        client.query_one("select v from t where id = 1", &[]).expect("one row").get(0)
    };
    assert_eq!(value(&mut one), 10);
    two.batch_execute("update t set v = 20 where id = 1").expect("a row");
    assert_eq!((value(&mut one), value(&mut two)), (10, 20));
    let refused = code(one.batch_execute("update t set v = v + 1 where id = 1"));
    assert_eq!(refused, SqlState::T_R_SERIALIZATION_FAILURE);
    one.batch_execute("rollback").expect("an end");
    assert_eq!(value(&mut one), 20);
}

#[test]
fn copy_goes_both_ways_and_a_bad_line_undoes_all() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.batch_execute("create table t (id int primary key, v text)").expect("a table");
    let mut writer = client.copy_in("copy t from stdin").expect("a copy");
    writer.write_all(b"1\tone\n2\t\\N\n3\ta\\tb\n").expect("data");
    assert_eq!(writer.finish().expect("three rows"), 3);
    let mut text = String::new();
    client.copy_out("copy t to stdout").expect("a copy").read_to_string(&mut text).expect("data");
    assert_eq!(text, "1\tone\n2\t\\N\n3\ta\\tb\n");
    let mut writer = client.copy_in("copy t from stdin").expect("a copy");
    writer.write_all(b"4\tfour\nfive\tfive\n").expect("data");
    assert_eq!(code(writer.finish()), SqlState::INVALID_TEXT_REPRESENTATION);
    let count: i64 = client.query_one("select count(*) from t", &[]).expect("one row").get(0);
    assert_eq!(count, 3);
}

#[test]
fn a_cancel_request_ends_a_wait() {
    let fixture = Fixture::new();
    fixture::cancel_a_wait(fixture.client(), fixture.client());
}

#[test]
fn tables_indexes_and_rows_are_there_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = || Options::in_folder(folder.path(), 2);
    let fixture = Fixture::serve(database(), options());
    let mut client = fixture.client();
    client
        .batch_execute(
            "create table t (id serial primary key, name varchar(10) unique, at timestamp);
             create index on t (at); create table h (v int);
             insert into t (name) values ('a'), ('b'); insert into h values (7), (7)",
        )
        .expect("tables");
    client.batch_execute("alter system set autopilot = recommend").expect("a mode");
    drop(client);
    drop(fixture);
    let fixture = Fixture::serve(database(), options());
    let mut client = fixture.client();
    let mode: String = client.query_one("show autopilot", &[]).expect("one row").get(0);
    assert_eq!(mode, "recommend");
    let names = client.query("select name from t order by id", &[]).expect("rows");
    assert_eq!(names.len(), 2);
    assert_eq!(
        code(client.batch_execute("insert into t (name) values ('a')")),
        SqlState::UNIQUE_VIOLATION
    );
    client
        .batch_execute("insert into t (name) values ('c'); insert into h values (7)")
        .expect("rows");
    let count: i64 = client.query_one("select count(*) from h", &[]).expect("one row").get(0);
    assert_eq!(count, 3);
}

/// Bytes that violate the protocol end their connection and nothing else.
#[test]
fn damaged_messages_end_their_own_connection_only() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let start = {
        let body = b"\0\x03\0\0user\0isomer\0\0";
        let mut message = ((body.len() + 4) as i32).to_be_bytes().to_vec();
        message.extend(body);
        message
    };
    let mut seed = 7u64;
    let mut random = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as u32
    };
    for round in 0..200 {
        let mut stream = TcpStream::connect(fixture.server.address()).expect("the server listens");
        let mut bytes = if round % 4 == 0 { Vec::new() } else { start.clone() };
        for _ in 0..random() % 6 {
            let tag = b"QPBDESCHdcfX\0\xff"[random() as usize % 14];
            let body: Vec<u8> = (0..random() % 40).map(|_| random() as u8 & 0x7f).collect();
            let length = if random() % 8 == 0 { random() as i32 } else { body.len() as i32 + 4 };
            bytes.push(tag);
            bytes.extend(length.to_be_bytes());
            bytes.extend(body);
        }
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
    }
    assert_eq!(client.query("select 1", &[]).expect("it is still served").len(), 1);
}

#[test]
fn a_parameter_that_is_cast_to_a_domain_has_the_length_and_the_digits_of_its_base_type() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client
        .batch_execute(
            "create domain dv as varchar(3); create domain dc as char(3);
             create domain di as int check (value > 3)",
        )
        .expect("domains");
    let cast = client.prepare("select $1::dv, $2::dc").expect("a statement");
    let row = client.query_one(&cast, &[&"abc  ", &"a"]).expect("one row");
    assert_eq!((row.get::<_, &str>(0), row.get::<_, &str>(1)), ("abc", "a  "));
    for both in [["abcd", "a"], ["abc", "abcd"]] {
        let refused = client.query_one(&cast, &[&both[0], &both[1]]);
        assert_eq!(code(refused), SqlState::STRING_DATA_RIGHT_TRUNCATION);
    }
    // A parameter that the client gives another type is cast.
    let cast = client.prepare_typed("select $1::dv", &[Type::TEXT]).expect("a statement");
    assert_eq!(client.query_one(&cast, &[&"abcd"]).expect("one row").get::<_, &str>(0), "abc");
    let refused = client.query_one("select $1::di", &[&2i32]);
    assert_eq!(code(refused), SqlState::CHECK_VIOLATION);
}

#[test]
fn the_bounds_of_a_series_have_the_type_of_the_other_one() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let series =
        client.prepare("select count(*) from generate_series(1, $1)").expect("a statement");
    assert_eq!(series.params(), [Type::INT4]);
    let series = client.prepare("select count(*) from generate_series($1, 3::bigint)");
    assert_eq!(series.expect("a statement").params(), [Type::INT8]);
    let between = client.prepare("select 5::bigint between $1 and $1 + 10").expect("a statement");
    assert_eq!(between.params(), [Type::INT8]);
    let twice = client.prepare("select $1, $1 + 1");
    assert_eq!(code(twice), SqlState::AMBIGUOUS_PARAMETER);
}
