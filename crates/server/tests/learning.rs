//! The autopilot learns the same from transactions that arrive statement by statement as from
//! procedures with known footprints: both draw the same global plan.
//!
//! ```text
//!   site 1   [0, 10)    [20, 30)   [40, 50)   [60, 70)
//!               │          │          │          │         a transaction uses one of each pair
//!   site 2   [10, 20)   [30, 40)   [50, 60)   [70, 80)
//! ```
//!
//! The plan brings the accounts of each pair to one site. Both sites are equally good, so the
//! partitioner is free to choose, and the server's own tables influence the choice.

mod fixture;

use fixture::options;
use isomer_cluster::Options;
use isomer_design::{Footprint, Key};
use isomer_plan::learned::{Mode, Tuning};
use isomer_plan::strategy::Learned;
use isomer_server::{Decider, Engine, Historian, Server};
use postgres::{Client, NoTls};
use std::path::Path;
use std::sync::Arc;

/// Accounts in partitions of ten, alternating between two sites.
const TABLE: &str = "create table accounts (id bigint primary key, balance bigint);
    insert into accounts select n, 100 from generate_series(0, 79) n;";

/// A transaction reads one account and writes another at a different site.
fn pair(number: i64) -> (i64, i64) {
    let first = 20 * (number % 4) + number % 7;
    (first, first + 10)
}

const TRANSACTIONS: i64 = 800;

struct Subject {
    engine: Arc<Engine>,
    learned: Arc<Learned>,
    server: Server,
}

impl Subject {
    /// An autopilot that measures every transaction and makes no changes, so each transaction finds
    /// its accounts at two sites.
    fn new() -> Subject {
        let (measured_per_second, changes_per_second) = (1e9, 0.0);
        let tuning = Tuning { measured_per_second, changes_per_second, ..Tuning::default() };
        let learned = Arc::new(Learned::new(tuning));
        let decider = Decider::Learned(learned.clone());
        let engine = Engine::open(Options::in_memory(2), decider, Some(Mode::Auto));
        let engine = engine.expect("a catalog");
        let server = Server::start(engine.clone(), options()).expect("a free port");
        let subject = Subject { engine, learned, server };
        let mut client = subject.client();
        client.batch_execute(TABLE).expect("a table");
        for at in (10..80).step_by(10) {
            let split = format!("alter table accounts split at ({at})");
            client.batch_execute(&split).expect("a partition");
        }
        for at in (10..80).step_by(20) {
            let remaster = format!("alter table accounts remaster at ({at}) to site 2");
            client.batch_execute(&remaster).expect("a move");
        }
        subject
    }

    fn client(&self) -> Client {
        let port = self.server.address().port();
        let config = format!("host=127.0.0.1 port={port} user=isomer dbname=test");
        Client::connect(&config, NoTls).expect("the server answers")
    }

    /// The number of account partitions that it would move, and the pairs that would be at one
    /// site, by their first accounts. Both variants write tables of the server too; those are
    /// ignored.
    fn divided(&self) -> (usize, Vec<i64>) {
        let design = self.engine.database().design();
        let (accounts, _) = design.find_table("accounts").expect("it was created");
        let mut moves = self.learned.divided(&design);
        moves.retain(|(range, _)| range.table == accounts);
        let site_of = |account: i64| {
            let (keys, placement) =
                design.partition_of(accounts, Key::int(account).as_bytes()).expect("one has it");
            let moved = moves.iter().find(|(range, _)| range.keys == keys);
            moved.map_or(placement.master, |(_, site)| *site)
        };
        let mut pairs: Vec<i64> = (0..80).step_by(20).collect();
        pairs.retain(|first| site_of(*first) == site_of(first + 10));
        (moves.len(), pairs)
    }
}

fn over_the_wire() -> (usize, Vec<i64>) {
    let subject = Subject::new();
    let mut client = subject.client();
    for number in 0..TRANSACTIONS {
        let (read, written) = pair(number);
        let mut txn = client.transaction().expect("it begins");
        txn.query_one("select balance from accounts where id = $1", &[&read]).expect("a row");
        let update = "update accounts set balance = balance + 1 where id = $1";
        assert_eq!(txn.execute(update, &[&written]).expect("it has the row"), 1);
        txn.commit().expect("no other client writes");
    }
    subject.divided()
}

fn by_procedures() -> (usize, Vec<i64>) {
    let subject = Subject::new();
    let db = subject.engine.database();
    let (table, _) = db.design().find_table("accounts").map(|(id, t)| (id, t.clone())).expect("it");
    let mut session = db.session();
    for number in 0..TRANSACTIONS {
        let (read, written) = pair(number);
        let [read, written] = [read, written].map(Key::int);
        let footprint = Footprint::new().read(table, read.clone()).write(table, written.clone());
        let ran = db.run(&mut session, &footprint, |txn| {
            txn.get(table, &read)?;
            let row = txn.get(table, &written)?.expect("it was inserted").to_vec();
            txn.put(table, &written, &row)
        });
        ran.expect("it commits");
    }
    subject.divided()
}

#[test]
fn a_global_plan_is_the_same_over_the_wire_and_from_procedures() {
    let all_with_a_move_each = (4, vec![0, 20, 40, 60]);
    assert_eq!(by_procedures(), all_with_a_move_each);
    assert_eq!(over_the_wire(), all_with_a_move_each);
}

/// A server of two sites in a folder, with its histories.
fn in_folder(folder: &Path) -> (Arc<Engine>, Server) {
    let decider = Decider::default();
    let engine = Engine::open(Options::in_folder(folder, 2), decider, Some(Mode::Auto));
    let engine = engine.expect("a catalog");
    let server = Server::start(engine.clone(), options()).expect("a free port");
    (engine, server)
}

#[test]
fn decisions_and_proposals_are_remembered_over_a_restart() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let (engine, server) = in_folder(folder.path());
    let client = |server: &Server| {
        let port = server.address().port();
        let config = format!("host=127.0.0.1 port={port} user=isomer dbname=test");
        Client::connect(&config, NoTls).expect("the server answers")
    };
    let mut first = client(&server);
    first.batch_execute(TABLE).expect("a table");
    first.batch_execute("alter table accounts split at (40)").expect("a partition");
    first.batch_execute("alter table accounts remaster at (40) to site 2").expect("a move");
    let told = "select number::text || change || at::text from isomer.decisions order by number";
    let decisions = |client: &mut Client| -> Vec<String> {
        client.query(told, &[]).expect("a view").iter().map(|row| row.get(0)).collect()
    };
    // Each transaction writes at both sites, so that there is something to decide.
    for at in 0.. {
        assert!(at < 200_000, "nothing was decided");
        let (one, other) = (at % 40, at % 40 + 40);
        let both = format!(
            "begin; update accounts set balance = 1 where id = {one}; \
             update accounts set balance = 2 where id = {other}; end"
        );
        // A conflict with a change of the design may end it.
        let _ = first.batch_execute(&both);
        if at % 100 == 0 && !decisions(&mut first).is_empty() {
            break;
        }
    }
    first.batch_execute("alter system set autopilot = off").expect("a setting");
    let propose = "alter system propose E'split accounts at 7\\nsplit accounts at 8' because 'hot'";
    first.batch_execute(propose).expect("a proposal");
    first.batch_execute("alter system reject proposal 1").expect("an open proposal");
    first.batch_execute("alter system propose 'split accounts at 9'").expect("a proposal");
    let before = decisions(&mut first);
    drop(Historian::start(&engine).expect("a thread"));
    drop((first, server, engine));
    let (engine, server) = in_folder(folder.path());
    let mut second = client(&server);
    assert_eq!(decisions(&mut second), before);
    let late = second.batch_execute("alter system approve proposal 2");
    assert!(late.is_err(), "it belongs to an earlier start");
    second.batch_execute("alter system propose 'split accounts at 9'").expect("a proposal");
    let told =
        "select string_agg(number || ' ' || state, ', ' order by number) from isomer.proposals";
    let proposals: String = second.query_one(told, &[]).expect("a view").get(0);
    assert_eq!(proposals, "1 rejected, 2 interrupted, 3 proposed");
    drop((server, engine));
}
