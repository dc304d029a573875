//! Kills processes and the broker while clients transfer money, then compares the clients' answers
//! with the rows at the end ([`isomer_check::bank`]).
//!
//! This is a short relative of the tests' histories (`tests/histories`): it has no lists, and the
//! design does not change.

use super::ask;
use super::gone::until_whole;
use crate::bench::wire::servers::Server;
use isomer::clock;
use isomer::cluster::{BROKER, Running};
use isomer::failure::Failure;
use isomer_check::Outcome;
use isomer_check::bank::{Bank, Transfer};
use isomer_workload::random;
use postgres::Client;
use rand::RngExt;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

const ACCOUNTS: i64 = 300;
const START: i64 = 100;
const CLIENTS: u64 = 4;
/// Transfers that commit before the next kill.
const BEFORE: i64 = 40;
/// The benchmark fails if no transfer commits for this time.
const LIMIT: Duration = Duration::from_secs(180);

/// The result of checking a history.
pub(super) struct Judged {
    pub(super) transfers: u64,
    /// Acknowledged transfers without an effect.
    pub(super) lost: u64,
    /// All anomalies, lost transfers included.
    pub(super) anomalies: u64,
}

#[derive(Default)]
struct Shared {
    bank: Mutex<Bank>,
    numbers: AtomicI64,
    committed: AtomicI64,
    is_over: AtomicBool,
}

impl Shared {
    fn bank(&self) -> MutexGuard<'_, Bank> {
        self.bank.lock().expect("no client panics with it")
    }
}

/// Kills a process or the broker, in turn, `kills` times, and checks what clients saw.
#[allow(clippy::disallowed_methods, reason = "a benchmark of clients starts threads")]
pub(super) fn killed(
    running: &mut Running,
    cluster: &Server,
    kills: u32,
) -> Result<Judged, Failure> {
    ask(cluster, &tables())?;
    let names: Vec<String> =
        running.file.processes.iter().map(|process| process.member.name.clone()).collect();
    let turn = names.iter().map(String::as_str).chain([BROKER]);
    let shared = Shared::default();
    let killed = std::thread::scope(|scope| {
        let shared = &shared;
        let clients: Vec<_> =
            (0..CLIENTS).map(|at| scope.spawn(move || transfers(cluster, shared, at))).collect();
        let killed = turn.cycle().take(kills as usize).try_for_each(|name| {
            more(shared)?;
            running.kill(name);
            running.start_again(name)
        });
        let killed = killed.and_then(|()| more(shared));
        shared.is_over.store(true, Ordering::SeqCst);
        for client in clients {
            client.join().expect("no client panics");
        }
        killed
    });
    killed?;
    until_whole(cluster)?;
    let bank = read_all(cluster, shared.bank.into_inner().expect("no client panicked"))?;
    let wrong = bank.judge();
    wrong.iter().take(5).for_each(|anomaly| eprintln!("{anomaly}"));
    let lost = wrong.iter().filter(|anomaly| anomaly.name == "lost transfer").count();
    Ok(Judged {
        transfers: bank.transfers.len() as u64,
        lost: lost as u64,
        anomalies: wrong.len() as u64,
    })
}

fn tables() -> String {
    format!(
        "create table accounts (id int primary key, balance int not null);
         create table ledger (number bigint primary key, src int, dst int, amount int);
         insert into accounts select n, {START} from generate_series(0, {}) n;
         alter table accounts split at (100); alter table accounts remaster at (100) to site 2;
         alter table accounts split at (200); alter table accounts remaster at (200) to site 3",
        ACCOUNTS - 1
    )
}

/// Waits until [`BEFORE`] more transfers have committed.
fn more(shared: &Shared) -> Result<(), Failure> {
    let (goal, begun) = (shared.committed.load(Ordering::SeqCst) + BEFORE, clock::now());
    while shared.committed.load(Ordering::SeqCst) < goal {
        if begun.elapsed() > LIMIT {
            return Err(Failure::failed(format!("nothing has committed in {} s", LIMIT.as_secs())));
        }
        clock::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Makes transfers until the run is over. Connects again when the connection has ended.
fn transfers(cluster: &Server, shared: &Shared, seed: u64) {
    let (mut rng, mut client) = (random(seed), None::<Client>);
    while !shared.is_over.load(Ordering::SeqCst) {
        let Some(connected) = client.as_mut().filter(|client| !client.is_closed()) else {
            clock::sleep(Duration::from_millis(10));
            client = cluster.connect().ok();
            continue;
        };
        let from = rng.random_range(0..ACCOUNTS);
        let to = (from + rng.random_range(1..ACCOUNTS)) % ACCOUNTS;
        let (amount, number) =
            (rng.random_range(1..10), shared.numbers.fetch_add(1, Ordering::SeqCst));
        let mut transfer = Transfer { number, from, to, amount, outcome: Outcome::Failed };
        transfer.outcome = outcome(connected, &transfer);
        if transfer.outcome == Outcome::Committed {
            shared.committed.fetch_add(1, Ordering::SeqCst);
        } else {
            let _ = connected.batch_execute("rollback");
        }
        shared.bank().transfers.push(transfer);
        if transfer.outcome == Outcome::Committed && rng.random_range(0..8) == 0 {
            let seen = balances(connected);
            let mut bank = shared.bank();
            let name = format!("read {}", bank.reads.len() + 1);
            bank.reads.extend(seen.ok().map(|seen| (name, seen)));
        }
    }
}

/// Runs a transfer. A refusal before the commit means no effect; of the refusals of a commit, only
/// some SQLSTATEs do.
fn outcome(client: &mut Client, transfer: &Transfer) -> Outcome {
    let Transfer { number, from, to, amount, .. } = *transfer;
    let work = format!(
        "begin; update accounts set balance = balance - {amount} where id = {from};
         update accounts set balance = balance + {amount} where id = {to};
         insert into ledger values ({number}, {from}, {to}, {amount})"
    );
    if client.batch_execute(&work).is_err() {
        return Outcome::Failed;
    }
    match client.batch_execute("commit") {
        Ok(()) => Outcome::Committed,
        Err(error) => match error.code().map(|code| code.code()) {
            // A serialization failure, a deadlock, or a site that is down: nothing was committed.
            Some("40001" | "40P01" | "57P03") => Outcome::Failed,
            _ => Outcome::Unknown,
        },
    }
}

fn balances(client: &mut Client) -> Result<BTreeMap<i64, i64>, postgres::Error> {
    let rows = client.query("select id, balance from accounts", &[])?;
    let balance = |row: &postgres::Row| (row.get::<_, i32>(0).into(), row.get::<_, i32>(1).into());
    Ok(rows.iter().map(balance).collect())
}

/// Reads the accounts and the ledger at the end.
fn read_all(cluster: &Server, bank: Bank) -> Result<Bank, Failure> {
    let wrong = |error| Failure::of_server("reading all", &error);
    let mut client = cluster.connect()?;
    let last = balances(&mut client).map_err(wrong)?;
    let ledger = client.query("select number from ledger", &[]).map_err(wrong)?;
    let ledger = ledger.iter().map(|row| row.get(0)).collect();
    Ok(Bank { accounts: (ACCOUNTS, START), ledger, last, ..bank })
}
