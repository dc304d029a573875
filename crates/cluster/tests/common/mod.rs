//! A bank in one table, for tests of whole databases.

#![allow(dead_code, reason = "each test uses a part of it")]

use isomer_cluster::{Database, Error, Session};
use isomer_design::{Column, ColumnType, Footprint, Key, KeyRange, Schema, SiteId, TableId};
use std::ops::ControlFlow;

/// The number of accounts.
pub(crate) const ACCOUNTS: i64 = 64;
/// The initial balance of each account.
pub(crate) const START: i64 = 1000;

/// The table's schema.
pub(crate) fn schema() -> Schema {
    let columns =
        vec![Column::new("id", ColumnType::Int64), Column::new("balance", ColumnType::Int64)];
    Schema::new("accounts", columns, &["id"]).expect("the columns fit together")
}

/// The balance of a row.
pub(crate) fn balance(bytes: &[u8]) -> i64 {
    i64::from_le_bytes(bytes.try_into().expect("a balance is eight bytes"))
}

/// Creates the table, with a partition at each site, and the accounts.
pub(crate) fn bank(db: &Database, sites: u16) -> TableId {
    let share = ACCOUNTS / i64::from(sites);
    let placement: Vec<(Key, SiteId)> = (0..sites)
        .map(|i| (if i == 0 { Key::min() } else { Key::int(i64::from(i) * share) }, SiteId(i + 1)))
        .collect();
    let table = db.create_table(schema(), &placement).expect("a valid table");
    let mut session = db.session();
    for id in 0..ACCOUNTS {
        let footprint = Footprint::new().write(table, Key::int(id));
        db.run(&mut session, &footprint, |txn| {
            txn.insert(table, &Key::int(id), &START.to_le_bytes())
        })
        .expect("a new account");
    }
    table
}

/// Transfers money. Returns the number of changes that were made for it.
pub(crate) fn transfer(
    db: &Database,
    session: &mut Session,
    table: TableId,
    from: i64,
    to: i64,
    amount: i64,
) -> Result<usize, Error> {
    let (from, to) = (Key::int(from), Key::int(to));
    let footprint = Footprint::new().write(table, from.clone()).write(table, to.clone());
    let ran = db.run(session, &footprint, |txn| {
        let a = balance(txn.get(table, &from)?.expect("it exists")) - amount;
        let b = balance(txn.get(table, &to)?.expect("it exists")) + amount;
        txn.put(table, &from, &a.to_le_bytes())?;
        txn.put(table, &to, &b.to_le_bytes())
    })?;
    Ok(ran.changes)
}

/// The money of all accounts.
pub(crate) fn total(db: &Database, session: &mut Session, table: TableId) -> i64 {
    let all = Footprint::new().read_range(table, KeyRange::all());
    let mut total = 0;
    db.run(session, &all, |txn| {
        total = 0;
        txn.scan(table, &KeyRange::all(), |_, value| {
            total += balance(value);
            ControlFlow::Continue(())
        })
    })
    .expect("some site can read everything");
    total
}
