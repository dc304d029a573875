//! Invariants of a table with two layouts, checked at each commit. Every row is once in each
//! complete layout, with the same value in both, and each index has exactly the entries of its
//! layout's rows.
//!
//! Uses the logs only: the other checkers compare them with the answers to clients.

use super::super::Run;
use super::{Order, id_of};
use crate::history::{History, Value};
use isomer_design::{Key, TableId};
use std::collections::{BTreeMap, BTreeSet};

type Tables = BTreeMap<TableId, BTreeMap<Key, Value>>;

/// See the [module documentation](self).
///
/// # Errors
/// A sentence with the time and the violation.
pub(crate) fn check(run: &Run, history: &History) -> Result<(), String> {
    let Some(orders) = run.orders.get() else { return Ok(()) };
    let agreements = orders.agreements.borrow();
    let last = orders.plan().own;
    let (mut tables, mut commits) = (Tables::new(), history.commits.iter().peekable());
    while let Some(commit) = commits.next() {
        for written in &commit.writes {
            let rows = tables.entry(written.table).or_default();
            match written.value {
                Some(value) => rows.insert(written.key.clone(), value),
                None => rows.remove(&written.key),
            };
        }
        // Several commits may have the same time.
        if commits.peek().is_some_and(|next| next.time == commit.time) {
            continue;
        }
        let at = |what: String| format!("{what}, {}", commit.time);
        for agreement in agreements.iter() {
            let is_over = agreement.until.is_some_and(|until| until <= commit.time);
            if agreement.from > commit.time || is_over {
                continue;
            }
            agree(&tables, &agreement.orders).map_err(at)?;
        }
    }
    rows(&tables, &last).map(drop).map_err(|what| format!("{what}, in the end"))
}

fn agree(tables: &Tables, orders: &[Order; 2]) -> Result<(), String> {
    let [one, two] = [rows(tables, &orders[0])?, rows(tables, &orders[1])?];
    let ids: BTreeSet<i64> = one.keys().chain(two.keys()).copied().collect();
    for id in ids {
        let (here, there) = (one.get(&id), two.get(&id));
        if here != there {
            let [a, b] = orders.map(|order| order.rows);
            return Err(format!("row {id} is {here:?} in {a} and {there:?} in {b}"));
        }
    }
    Ok(())
}

/// The rows of a layout by their ids. Fails unless each is there once, at its place, with its
/// entries.
fn rows(tables: &Tables, order: &Order) -> Result<BTreeMap<i64, Value>, String> {
    let none = BTreeMap::new();
    let of = |table: TableId| tables.get(&table).unwrap_or(&none);
    let (mut rows, mut entries) = (BTreeMap::new(), BTreeSet::new());
    for (place, value) in of(order.rows) {
        let id = id_of(place);
        if rows.insert(id, *value).is_some() {
            return Err(format!("row {id} is in two places of {}", order.rows));
        }
        entries.extend(order.entries(id, *value).into_iter().map(|(table, key, _)| (table, key)));
    }
    let found = order.parts().flat_map(|id| of(id).keys().map(move |key| (id, key.clone())));
    let found: BTreeSet<(TableId, Key)> = found.collect();
    match found.symmetric_difference(&entries).next() {
        None => Ok(rows),
        Some((table, key)) if found.contains(&(*table, key.clone())) => {
            Err(format!("{table}[{key}] is an entry of no row"))
        }
        Some((table, key)) => Err(format!("{table}[{key}] is missing")),
    }
}
