//! A site without memory from the clients' view: an error with its own code, and ways out of it.

mod fixture;

use fixture::{Fixture, code, options, wait_for};
use isomer_cluster::Options;
use postgres::Client;
use postgres::error::{DbError, SqlState};

/// One site with three megabytes, full of rows of `t`.
fn full() -> (Fixture, Client) {
    let fixture = Fixture::serve(Options::in_memory(1), options());
    let mut client = fixture.client();
    client
        .batch_execute(
            "alter system set site_memory = '3MB';
             create table t (id int primary key, text text);
             create table other (id int primary key, text text);
             insert into other select n, repeat('x', 1000) from generate_series(1, 1000) n",
        )
        .expect("there is room");
    let error = refused(
        &mut client,
        "insert into t select n, repeat('x', 1000) from generate_series(1, 3000) n",
    );
    assert!(error.message().starts_with("site s1 is full: its rows and index take"), "{error}");
    while client.batch_execute(&insert("t", 10)).is_ok() {}
    (fixture, client)
}

/// Inserts `rows` rows after the existing ones.
fn insert(table: &str, rows: usize) -> String {
    format!(
        "insert into {table} select last + n, repeat('x', 1000)
         from (select coalesce(max(id), 0) last from {table}) l, generate_series(1, {rows}) n"
    )
}

fn refused(client: &mut Client, statement: &str) -> DbError {
    let error = client.batch_execute(statement).expect_err("there is no room");
    let error = error.as_db_error().expect("words of the server").clone();
    assert_eq!(error.code(), &SqlState::OUT_OF_MEMORY, "{statement}: {error}");
    error
}

fn count(client: &mut Client, table: &str) -> i64 {
    client.query_one(&format!("select count(*) from {table}"), &[]).expect("a row").get(0)
}

#[test]
fn a_full_site_takes_deletions_until_there_is_room_again() {
    let (_fixture, mut client) = full();
    let error = refused(&mut client, &insert("t", 100));
    assert!(error.hint().is_some_and(|hint| hint.starts_with("ALTER SYSTEM SET site_memory")));
    refused(&mut client, "update t set text = repeat('y', 1000)");
    // A refused block has no effect, and the session continues.
    let before = count(&mut client, "t");
    client.batch_execute("begin; delete from t where id = 1").expect("rows of this block only");
    client.batch_execute(&insert("t", 100)).expect("nothing is written before the commit");
    refused(&mut client, "commit");
    assert_eq!(count(&mut client, "t"), before);
    assert_eq!(client.execute("delete from t where id <= 200", &[]).expect("deletions go on"), 200);
    wait_for("room", || client.batch_execute(&insert("t", 50)).ok());
    assert_eq!(count(&mut client, "t"), before - 150);
}

#[test]
fn a_full_site_lets_tables_be_dropped_and_indexes_not_be_built() {
    let (_fixture, mut client) = full();
    refused(&mut client, "create index by_text on other (text)");
    client
        .batch_execute("alter table other add column more text default 'something'")
        .expect("it writes no row");
    assert_eq!(count(&mut client, "other"), 1000);
    client.batch_execute("drop table other").expect("it makes room");
    wait_for("room", || client.batch_execute(&insert("t", 500)).ok());
    client.batch_execute("create index by_id on t (id)").expect("there is room for it");
}

#[test]
fn the_limit_is_set_shown_and_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let serve = || Fixture::serve(Options::in_folder(folder.path(), 1), options());
    let shown = |client: &mut Client| -> (String, Option<i64>) {
        let shown = client.query_one("show site_memory", &[]).expect("a row").get(0);
        let max = "select memory_max from isomer.sites";
        (shown, client.query_one(max, &[]).expect("a row").get(0))
    };
    let fixture = serve();
    let mut client = fixture.client();
    assert_eq!(shown(&mut client), ("0".to_owned(), None));
    client.batch_execute("alter system set site_memory = '4GB'").expect("a size");
    assert_eq!(shown(&mut client), ("4GB".to_owned(), Some(4 << 30)));
    for wrong in ["'4 GiB'", "much", "4"] {
        let set = client.batch_execute(&format!("alter system set site_memory = {wrong}"));
        assert_eq!(code(set), SqlState::INVALID_PARAMETER_VALUE, "{wrong}");
    }
    drop((client, fixture));
    let fixture = serve();
    let mut client = fixture.client();
    assert_eq!(shown(&mut client), ("4GB".to_owned(), Some(4 << 30)));
    client.batch_execute("alter system set site_memory = default").expect("no limit");
    assert_eq!(shown(&mut client), ("0".to_owned(), None));
    client.batch_execute("create user plain password 'secret'").expect("a user");
    let mut plain = fixture.client_with("user=plain password=secret").expect("it has a password");
    let set = plain.batch_execute("alter system set site_memory = '1GB'");
    assert_eq!(code(set), SqlState::INSUFFICIENT_PRIVILEGE);
}

#[test]
fn another_order_of_a_table_needs_room_before_it_begins() {
    let (_fixture, mut client) = full();
    let rows = count(&mut client, "other");
    for statement in
        ["alter table other shard by (text) dry run", "alter table other shard by (text)"]
    {
        let error = refused(&mut client, statement);
        let message = error.message();
        assert!(message.starts_with("site s1 has no room for the rows of \"other\""), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.starts_with("ALTER SYSTEM SET site_memory")));
    }
    assert_eq!(count(&mut client, "other"), rows);
    client.batch_execute("alter system set site_memory = '30MB'").expect("more");
    client.batch_execute("alter table other shard by (text) force").expect("there is room now");
    assert_eq!(count(&mut client, "other"), rows);
}
