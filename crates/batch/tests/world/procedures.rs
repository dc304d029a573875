//! Procedures for tests: accounts with balances (table t1) and lists of numbers (table t2), all
//! stored as text.

use isomer_batch::{Abort, Answer, Procedures, Txn};
use isomer_design::{Footprint, Key, KeyRange, TableId};

pub(crate) const ACCOUNTS: TableId = TableId(1);
pub(crate) const LISTS: TableId = TableId(2);

pub(crate) fn procedures() -> Procedures {
    Procedures::new()
        .with("transfer", transfer)
        .with("show", show)
        .with("sum", sum)
        .with("open", open)
        .with("close", close)
        .with("append", append)
        .with("follow", follow)
        .with("sweep", sweep)
        .with("enter", enter)
        .with("panic", panic)
        .with("spin", spin)
        .checked()
}

/// The footprint that a client declares for a call.
pub(crate) fn footprint(procedure: &str, args: &[i64]) -> Footprint {
    let key = |at: usize| Key::int(args[at]);
    let none = Footprint::new;
    match procedure {
        "transfer" => none().write(ACCOUNTS, key(0)).write(ACCOUNTS, key(1)),
        "show" => args.iter().fold(none(), |all, &key| all.read(ACCOUNTS, Key::int(key))),
        "sum" => none().read_range(ACCOUNTS, KeyRange::ints(args[0], args[1])),
        "open" | "close" => none().write(ACCOUNTS, key(0)),
        "append" => none().write(LISTS, key(0)).read(LISTS, key(2)),
        "sweep" | "enter" => none().write_range(ACCOUNTS, KeyRange::ints(args[0], args[1])),
        "panic" => none().write(ACCOUNTS, key(0)),
        _ => none(),
    }
}

fn numbers(params: &[u8]) -> Vec<i64> {
    let text = std::str::from_utf8(params).unwrap();
    text.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

fn number(row: &[u8]) -> i64 {
    std::str::from_utf8(row).unwrap().parse().unwrap()
}

fn logic<T>(text: String) -> Result<T, Abort> {
    Err(Abort::Logic(text))
}

fn balance(txn: &mut Txn<'_>, key: i64) -> Result<i64, Abort> {
    match txn.get(ACCOUNTS, &Key::int(key))? {
        Some(row) => Ok(number(&row)),
        None => logic(format!("there is no account {key}")),
    }
}

fn set(txn: &mut Txn<'_>, key: i64, balance: i64) -> Result<(), Abort> {
    txn.put(ACCOUNTS, &Key::int(key), balance.to_string().as_bytes())
}

fn transfer(params: &[u8], txn: &mut Txn<'_>) -> Answer {
    let [from, to, amount] = numbers(params)[..] else { return logic("three numbers".into()) };
    let (mine, theirs) = (balance(txn, from)?, balance(txn, to)?);
    if mine < amount {
        return logic(format!("account {from} has only {mine}"));
    }
    if from != to {
        set(txn, from, mine - amount)?;
        set(txn, to, theirs + amount)?;
    }
    Ok(format!("{from}={} {to}={}", mine - amount, theirs + amount).into_bytes())
}

fn show(params: &[u8], txn: &mut Txn<'_>) -> Answer {
    let mut shown = Vec::new();
    for key in numbers(params) {
        let row = txn.get(ACCOUNTS, &Key::int(key))?;
        let row = row.map_or("none".to_owned(), |row| number(&row).to_string());
        shown.push(format!("{key}={row}"));
    }
    Ok(shown.join(" ").into_bytes())
}

fn sum(params: &[u8], txn: &mut Txn<'_>) -> Answer {
    let range = numbers(params);
    let rows = txn.scan(ACCOUNTS, &KeyRange::ints(range[0], range[1]))?;
    let sum: i64 = rows.iter().map(|(_, row)| number(row)).sum();
    Ok(format!("{} rows, {sum}", rows.len()).into_bytes())
}

fn open(params: &[u8], txn: &mut Txn<'_>) -> Answer {
    let args = numbers(params);
    if txn.get(ACCOUNTS, &Key::int(args[0]))?.is_some() {
        return logic(format!("account {} is there", args[0]));
    }
    set(txn, args[0], args[1])?;
    Ok(Vec::new())
}

fn close(params: &[u8], txn: &mut Txn<'_>) -> Answer {
    let key = numbers(params)[0];
    let last = balance(txn, key)?;
    txn.delete(ACCOUNTS, &Key::int(key))?;
    Ok(last.to_string().into_bytes())
}

/// Appends a number to one list, and reads another.
fn append(params: &[u8], txn: &mut Txn<'_>) -> Answer {
    let args = numbers(params);
    let read = txn.get(LISTS, &Key::int(args[2]))?;
    let mut list = txn.get(LISTS, &Key::int(args[0]))?.map_or(Vec::new(), |row| row.to_vec());
    list.extend_from_slice(format!(" {}", args[1]).as_bytes());
    txn.put(LISTS, &Key::int(args[0]), &list)?;
    Ok(read.map_or(Vec::new(), |row| row.to_vec()))
}

/// Adds one to the account that an account's balance names.
fn follow(params: &[u8], txn: &mut Txn<'_>) -> Answer {
    let next = balance(txn, numbers(params)[0])? % 30;
    let there = balance(txn, next)?;
    set(txn, next, there + 1)?;
    Ok(format!("{next}={}", there + 1).into_bytes())
}

/// Takes one from the balance of each account in a range, and deletes the accounts with nothing.
fn sweep(params: &[u8], txn: &mut Txn<'_>) -> Answer {
    let range = numbers(params);
    let rows = txn.scan(ACCOUNTS, &KeyRange::ints(range[0], range[1]))?;
    for (key, row) in &rows {
        match number(row) {
            ..=0 => txn.delete(ACCOUNTS, key)?,
            balance => txn.put(ACCOUNTS, key, (balance - 1).to_string().as_bytes())?,
        }
    }
    Ok(rows.len().to_string().into_bytes())
}

/// Opens the first account number of a range that is free.
fn enter(params: &[u8], txn: &mut Txn<'_>) -> Answer {
    let range = numbers(params);
    let rows = txn.scan(ACCOUNTS, &KeyRange::ints(range[0], range[1]))?;
    let taken = |key: &i64| rows.iter().any(|(there, _)| *there == Key::int(*key));
    let Some(free) = (range[0]..range[1]).find(|key| !taken(key)) else {
        return logic("all accounts are taken".into());
    };
    set(txn, free, range[2])?;
    Ok(free.to_string().into_bytes())
}

fn panic(params: &[u8], txn: &mut Txn<'_>) -> Answer {
    set(txn, numbers(params)[0], -1)?;
    // Panics without the hook, which would print a stack trace each time.
    std::panic::resume_unwind(Box::new("a poisoned transaction"));
}

fn spin(_: &[u8], txn: &mut Txn<'_>) -> Answer {
    loop {
        txn.scan(ACCOUNTS, &KeyRange::ints(0, 0))?;
    }
}
