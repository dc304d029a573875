//! Tables are analyzed by themselves once enough of their rows have changed.

mod fixture;

use fixture::{Fixture, options};
use isomer_cluster::Options;
use isomer_server::ServerOptions;
use postgres::{Client, NoTls};
use std::time::{Duration, Instant};

/// The longest wait.
const WAIT: Duration = Duration::from_secs(60);

/// The rows of `t` by its statistics.
fn rows(client: &mut Client) -> f64 {
    let query = "select reltuples::float8 from pg_class where relname = 't'";
    client.query_one(query, &[]).expect("a table").get(0)
}

#[allow(clippy::disallowed_methods, reason = "it waits for the server")]
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < WAIT, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "it waits whether nothing happens")]
fn tables_are_analyzed_when_a_fifth_of_their_rows_has_changed() {
    let analyze_every = Some(Duration::from_millis(50));
    let fixture =
        Fixture::serve(Options::in_memory(1), ServerOptions { analyze_every, ..options() });
    let port = fixture.server.address().port();
    let config = format!("host=127.0.0.1 port={port} user=isomer dbname=test");
    let mut client = Client::connect(&config, NoTls).expect("the server answers");
    client
        .batch_execute(
            "create table t (id int primary key, city text);
             insert into t select n, 'c' || n % 3 from generate_series(1, 1000) n",
        )
        .expect("a table");
    wait_for("the table is analyzed", || rows(&mut client) == 1000.0);
    let known =
        "select n_distinct::float8 from pg_stats where tablename = 't' and attname = 'city'";
    assert_eq!(client.query_one(known, &[]).expect("statistics").get::<_, f64>(0), 3.0);
    let times = "select analyze_count = 0 and autoanalyze_count > 0 and last_analyze is null
                 and last_autoanalyze is not null from pg_stat_user_tables where relname = 't'";
    assert!(client.query_one(times, &[]).expect("counts").get::<_, bool>(0));
    let more = |client: &mut Client, from: i32, to: i32| {
        let insert = format!("insert into t select n, 'd' from generate_series({from}, {to}) n");
        client.batch_execute(&insert).expect("rows");
    };
    // 249 rows are less than 50 and a fifth of 1000.
    more(&mut client, 1001, 1249);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(rows(&mut client), 1000.0);
    more(&mut client, 1250, 1250);
    wait_for("the table is analyzed again", || rows(&mut client) == 1250.0);
    fixture.wait_for_clients(1);
}
