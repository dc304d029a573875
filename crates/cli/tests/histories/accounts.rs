//! Accounts: transfers, each with an entry in a ledger, and reads of all balances.

use crate::Run;
use crate::chance::Chance;
use crate::server::judged;
use isomer_check::Outcome;
use isomer_check::bank::{Bank, Transfer};
use postgres::Client;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

const ACCOUNTS: i64 = 16;
const START: i64 = 100;

/// Accounts at four sites.
pub(crate) fn tables(with: &str) -> String {
    format!(
        "create table accounts (id int primary key, balance int not null) {with};
         create table ledger (number bigint primary key, src int, dst int, amount int) {with};
         insert into accounts select n, {START} from generate_series(0, {}) n;
         alter table accounts split at (4); alter table accounts remaster at (4) to site 2;
         alter table accounts split at (8); alter table accounts remaster at (8) to site 3;
         alter table accounts split at (12); alter table accounts remaster at (12) to site 4",
        ACCOUNTS - 1
    )
}

#[derive(Default)]
pub(crate) struct Ledger {
    numbers: AtomicI64,
    bank: Mutex<Bank>,
}

/// Makes transfers and reads until the run is over.
pub(crate) fn client(run: &Run, ledger: &Ledger, number: u64) {
    let mut chance = run.chance(100 + number);
    let mut client = run.server.client();
    while !run.is_over() {
        let done = match chance.below(3) {
            0 => look(&mut client, ledger, &mut chance),
            _ => transfer(&mut client, ledger, &mut chance),
        };
        match done {
            Ok(()) => drop(run.commits.fetch_add(1, Ordering::SeqCst)),
            Err(is_lost) if is_lost || client.batch_execute("rollback").is_err() => {
                client = run.server.client();
            }
            Err(_) => {}
        }
    }
}

/// Makes one transfer. An error is true if the connection has ended.
fn transfer(client: &mut Client, ledger: &Ledger, chance: &mut Chance) -> Result<(), bool> {
    let from = chance.below(ACCOUNTS);
    let to = (from + 1 + chance.below(ACCOUNTS - 1)) % ACCOUNTS;
    let (amount, number) = (1 + chance.below(9), ledger.numbers.fetch_add(1, Ordering::SeqCst));
    let mut transfer = Transfer { number, from, to, amount, outcome: Outcome::Failed };
    let done = run_transfer(client, &transfer, chance);
    let (outcome, result) = match done {
        Ok(()) => (Outcome::Committed, Ok(())),
        Err((error, was_committing)) => {
            let (outcome, is_lost) = judged(&error, was_committing);
            (outcome, Err(is_lost))
        }
    };
    transfer.outcome = outcome;
    ledger.bank.lock().expect("no client panics with it").transfers.push(transfer);
    result
}

/// Adds to both balances, or reads them first, at an isolation level that prevents lost updates.
fn run_transfer(
    client: &mut Client,
    transfer: &Transfer,
    chance: &mut Chance,
) -> Result<(), (postgres::Error, bool)> {
    let Transfer { number, from, to, amount, .. } = *transfer;
    let before = |error| (error, false);
    if chance.below(2) == 0 {
        let add = format!(
            "begin; update accounts set balance = balance - {amount} where id = {from};
             update accounts set balance = balance + {amount} where id = {to}"
        );
        client.batch_execute(&add).map_err(before)?;
    } else {
        client.batch_execute("begin isolation level repeatable read").map_err(before)?;
        for (account, change) in [(from, -amount), (to, amount)] {
            let read = format!("select balance from accounts where id = {account}");
            let balance: i32 = client.query_one(&read, &[]).map_err(before)?.get(0);
            let balance = i64::from(balance) + change;
            let write = format!("update accounts set balance = {balance} where id = {account}");
            client.batch_execute(&write).map_err(before)?;
        }
    }
    let note = format!("insert into ledger values ({number}, {from}, {to}, {amount})");
    client.batch_execute(&note).map_err(before)?;
    client.batch_execute("commit").map_err(|error| (error, true))
}

/// Reads all balances, in one statement or in two of one snapshot. An error is true if the
/// connection has ended.
fn look(client: &mut Client, ledger: &Ledger, chance: &mut Chance) -> Result<(), bool> {
    let seen = match chance.below(2) {
        0 => balances(client, "true"),
        _ => in_two(client),
    };
    let seen = seen.map_err(|error| judged(&error, false).1)?;
    let mut bank = ledger.bank.lock().expect("no client panics with it");
    let name = format!("read {}", bank.reads.len() + 1);
    bank.reads.push((name, seen));
    Ok(())
}

fn in_two(client: &mut Client) -> Result<BTreeMap<i64, i64>, postgres::Error> {
    client.batch_execute("begin isolation level repeatable read")?;
    let mut seen = balances(client, "id < 6")?;
    seen.extend(balances(client, "id >= 6")?);
    client.batch_execute("commit")?;
    Ok(seen)
}

fn balances(client: &mut Client, which: &str) -> Result<BTreeMap<i64, i64>, postgres::Error> {
    let rows = client.query(&format!("select id, balance from accounts where {which}"), &[])?;
    let balance = |row: &postgres::Row| (row.get::<_, i32>(0).into(), row.get::<_, i32>(1).into());
    Ok(rows.iter().map(balance).collect())
}

/// Reads the ledger and the balances at the end.
pub(crate) fn read_all(run: &Run, ledger: Ledger) -> Bank {
    let mut client = run.server.client();
    let rows = client.query("select number from ledger order by number", &[]).expect("it serves");
    let last = balances(&mut client, "true").expect("it serves");
    let numbers = rows.iter().map(|row| row.get::<_, i64>(0)).collect();
    let bank = ledger.bank.into_inner().expect("no client panicked with it");
    Bank { accounts: (ACCOUNTS, START), ledger: numbers, last, ..bank }
}
