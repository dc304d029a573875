//! A server that adds and removes sites under load without losing a row, and one whose clients
//! overload a site with reads only.

mod fixture;

use fixture::{options, wait_for};
use isomer_cluster::Options;
use isomer_plan::elastic::{Fleet, Options as Elasticity};
use isomer_plan::learned::Mode;
use isomer_server::{Decider, Engine, Server};
use postgres::{Client, NoTls};
use std::path::Path;
use std::sync::Arc;

const MS: u64 = 1_000_000;

/// A loop with short waits, for a fleet with these limits.
fn loop_for(fleet: Fleet) -> Elasticity {
    Elasticity {
        period_ns: 20 * MS,
        // Enough to have seen each row a few times.
        footprints: 400,
        footprints_min: 120,
        window_ns: 50 * MS,
        rate_min: 1.0,
        settle: 1,
        patience_ns: 50 * MS,
        patience_max_ns: 200 * MS,
        fleet: Some(fleet),
        ..Elasticity::default()
    }
}

fn serve(folder: &Path, fleet: Fleet) -> (Arc<Engine>, Server) {
    let decider = Decider::named("clay", loop_for(fleet)).expect("a loop");
    let database = Options::in_folder(folder, 1);
    let engine = Engine::open(database, decider, Some(Mode::Auto)).expect("a database");
    let server = Server::start(engine.clone(), options()).expect("a free port");
    (engine, server)
}

fn client(server: &Server) -> Client {
    let port = server.address().port();
    let config = format!("host=127.0.0.1 port={port} user=isomer dbname=test");
    Client::connect(&config, NoTls).expect("the server answers")
}

/// Updates rows, in their order, until `look` finds something.
fn update_until<T>(
    client: &mut Client,
    what: &str,
    mut look: impl FnMut() -> Option<T>,
) -> (T, i64) {
    let mut updates = 0;
    let update = client.prepare("update t set v = v + 1 where id = $1").expect("a statement");
    let found = wait_for(what, || {
        let id = (updates % 40) as i32;
        assert_eq!(client.execute(&update, &[&id]).expect("no other client writes"), 1);
        updates += 1;
        look()
    });
    (found, updates)
}

#[test]
fn sites_come_when_they_are_needed_and_go_when_they_are_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let always_too_busy = Fleet { busy_max: 0.0, busy_left_max: 0.0, ..Fleet::between(1, 3) };
    let never_busy = Fleet { busy_max: 2.0, busy_left_max: 2.0, calm: 3, ..Fleet::between(1, 3) };
    let mut sum = 0;
    {
        let (engine, server) = serve(folder.path(), always_too_busy);
        let mut client = client(&server);
        client
            .batch_execute(
                "create table t (id int primary key, v bigint); insert into t select n, 0 from generate_series(0, 39) n",
            )
            .expect("a table");
        let is_at_all = || {
            let (sites, design) = (engine.database().sites().len(), engine.database().design());
            let (id, _) = design.find_table("t").expect("it was created");
            let all = isomer_design::KeyRange::all();
            let masters: std::collections::BTreeSet<_> =
                design.partitions_in(id, &all).map(|(_, placement)| placement.master).collect();
            (sites == 3 && masters.len() == 3).then_some(())
        };
        sum += update_until(&mut client, "three sites have a share of the table", is_at_all).1;
    }
    let (engine, server) = serve(folder.path(), never_busy);
    assert_eq!(engine.database().sites().len(), 3, "they are there after a restart");
    let mut client = client(&server);
    let is_alone = || (engine.database().sites().len() == 1).then_some(());
    sum += update_until(&mut client, "one site is left", is_alone).1;
    let row = client.query_one("select count(*), sum(v)::bigint from t", &[]).expect("a row");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (40, sum));
    let told =
        client.query("select change from isomer.changes where change like 'remove_site%'", &[]);
    assert_eq!(told.expect("the changes").len(), 2);
}

/// One of 64 reading transactions is reported to the strategy, and counts for all of them. While it
/// records an overload all are reported.
#[test]
fn partitions_that_overload_a_site_with_reads_are_moved() {
    let few = Elasticity { footprints: 400, footprints_min: 120, settle: 1, ..Default::default() };
    let decider = Decider::named("clay", few).expect("a loop");
    let database = Options::in_memory(4);
    let engine = Engine::open(database, decider, Some(Mode::Auto)).expect("a database");
    let server = Server::start(engine.clone(), options()).expect("a free port");
    let mut client = client(&server);
    client
        .batch_execute(
            "create table t (id int primary key, v bigint); insert into t select n, n from generate_series(0, 39) n",
        )
        .expect("a table");
    let select = client.prepare("select v from t where id = $1").expect("a statement");
    let mut reads = 0;
    wait_for("some of the rows are read at another site", || {
        for _ in 0..100 {
            reads += 1;
            let id = reads % 40;
            let row = client.query_one(&select, &[&id]).expect("a row");
            assert_eq!(row.get::<_, i64>(0), i64::from(id));
        }
        let design = engine.database().design();
        let (id, _) = design.find_table("t").expect("it was created");
        let all = isomer_design::KeyRange::all();
        let masters: std::collections::BTreeSet<_> =
            design.partitions_in(id, &all).map(|(_, placement)| placement.master).collect();
        (masters.len() > 1).then_some(())
    });
}
