//! The rows of an ordered commit at the places that they have, or move to ([`crate::fusion`]).
//!
//! ```text
//!   written: 7, version @80     found at           the commit has
//!   stays at home               accounts 7         accounts 7: @80 → row
//!   moves to s3                 accounts 7         accounts 7: @80 → stub s3    fused s3 7: → row
//!   stays fused                 fused s3 7         fused s3 7: @80 → row
//!   moves home                  fused s3 7         fused s3 7: @80 → none       accounts 7: → row
//!   is deleted                  fused s3 7         fused s3 7: @80 → none       accounts 7: → none
//! ```
//!
//! The version is checked where the row was found. If it is unchanged there, the row has not moved.
//! A row that is written whatever its version is looked for at the commit. Such writes repeat a
//! change in another layout of the table. So a move of that row would conflict there.
//!
//! Rows without columns beside their key stay at home, like the entries of an index.

use crate::fusion::{of_site, place, stub};
use crate::open::gateway::Gateway;
use crate::transport::Transport;
use isomer_design::{Design, Key, RoutingTable, SiteId, TableId, Time};
use isomer_site::{CheckedWrite, CheckedWrites, Expect};
use std::collections::BTreeMap;

/// The sites of fused rows, as a transaction has found them.
pub(super) type Places = BTreeMap<(TableId, Key), SiteId>;

/// Notes the rows that a commit has written, so that those that this gateway writes again can move.
pub(super) fn note<T: Transport>(gateway: &Gateway<T>, writes: &CheckedWrites, time: Time) {
    if gateway.router().ordered().fused().is_some() && gateway.has_sites_elsewhere() {
        gateway.router().conductor().mover.note(writes, time);
    }
}

/// The rows that are written whatever their versions are, and may be fused.
pub(super) fn unplaced<T: Transport>(
    gateway: &Gateway<T>,
    writes: &CheckedWrites,
) -> Vec<(TableId, Key)> {
    if gateway.router().ordered().fused().is_none() {
        return Vec::new();
    }
    let design = gateway.router().design();
    let any = |write: &CheckedWrite| write.expect == Expect::Anything;
    let tables = writes.iter().filter(|(table, _)| has_values(&design, **table));
    let rows = tables.flat_map(|(table, rows)| rows.iter().map(|(key, row)| (*table, key, row)));
    rows.filter(|(.., row)| any(row)).map(|(table, key, _)| (table, key.clone())).collect()
}

/// True if a table has columns beside its key.
fn has_values(design: &Design, table: TableId) -> bool {
    let schema = design.table(table).map(|table| table.schema());
    schema.is_ok_and(|schema| schema.columns().len() > schema.primary_key().len())
}

/// The writes of a commit, where the rows are or move to. `takes_rows`: all that can move do.
pub(super) fn placed<T: Transport>(
    gateway: &Gateway<T>,
    writes: &CheckedWrites,
    (places, takes_rows): (&Places, bool),
) -> CheckedWrites {
    let Some(fused) = gateway.router().ordered().fused() else { return writes.clone() };
    let routing = gateway.router().routing_table();
    let mut placed = CheckedWrites::new();
    for (&table, rows) in writes {
        for (key, write) in rows {
            let row = (table, key.clone());
            let from = places.get(&row).copied();
            let to = match (&write.row, write.expect) {
                (None, _) => None,
                (Some(_), Expect::Version(Some(version))) => {
                    let mover = &gateway.router().conductor().mover;
                    match takes_rows || mover.has_written(&row, version) {
                        true => destination(gateway, &routing, (fused, &row), from),
                        false => from,
                    }
                }
                (Some(_), _) => from,
            };
            put(&mut placed, fused, &row, write, (from, to));
        }
    }
    placed
}

/// The site at which a row is to be fused after a commit of this gateway; `None`: at home.
fn destination<T: Transport>(
    gateway: &Gateway<T>,
    routing: &RoutingTable,
    (fused, (table, key)): (TableId, &(TableId, Key)),
    from: Option<SiteId>,
) -> Option<SiteId> {
    let is_here = |site: SiteId| gateway.transport().drop_revokes(site);
    let Some(home) = routing.placement(*table, key) else { return from };
    if from.is_some_and(is_here) || (from.is_none() && is_here(home.master)) {
        return from;
    }
    if is_here(home.master) {
        return None;
    }
    let design = gateway.router().design();
    let backups = |table| design.table(table).map_or(0, |table| table.backups().count);
    if !has_values(&design, *table) || backups(*table) > backups(fused) {
        return from;
    }
    let is_ready =
        |site: SiteId| routing.placement(fused, &of_site(site)).is_some_and(|at| at.master == site);
    let own = routing.sites().iter().filter(|site| is_here(*site) && is_ready(*site)).min();
    let is_short = |site: SiteId| place(site, *table, key).is_some();
    match own.filter(|site| is_short(*site) && gateway.router().conductor().mover.take_room()) {
        Some(site) => Some(site),
        None => from,
    }
}

/// Adds the writes of one row.
fn put(
    placed: &mut CheckedWrites,
    fused: TableId,
    (table, key): &(TableId, Key),
    write: &CheckedWrite,
    (from, to): (Option<SiteId>, Option<SiteId>),
) {
    let at = |site: SiteId| (fused, place(site, *table, key).expect("its key is short"));
    let mut add = |(table, key): (TableId, Key), expect, row| {
        placed.entry(table).or_default().insert(key, CheckedWrite { expect, row });
    };
    let home = || (*table, key.clone());
    let (expect, row) = (write.expect, write.row.clone());
    match (from, to) {
        (None, None) => add(home(), expect, row),
        (None, Some(site)) => {
            add(home(), expect, Some(stub(site)));
            add(at(site), Expect::Anything, row);
        }
        (Some(from), Some(to)) if from == to => add(at(from), expect, row),
        (Some(from), Some(to)) => {
            add(at(from), expect, None);
            add(at(to), Expect::Anything, row);
            add(home(), Expect::Anything, Some(stub(to)));
        }
        (Some(from), None) => {
            add(at(from), expect, None);
            add(home(), Expect::Anything, row);
        }
    }
}
