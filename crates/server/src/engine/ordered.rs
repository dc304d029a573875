//! Ordered tables: `WITH (isolation = ordered)`, a property of the design
//! ([`isomer_cluster::ordered`]).
//!
//! All store tables of a table have it: its rows, its indexes, and its other layouts.

use super::Engine;
use crate::backend::database;
use isomer_design::TableId;
use isomer_sql::catalog::{Catalog, Table};
use isomer_sql::{SqlError, code};

/// True if transactions on a store table are ordered.
pub(crate) fn is_table_ordered(engine: &Engine, table: TableId) -> bool {
    engine.database().design().table(table).is_ok_and(|table| table.is_ordered())
}

/// Orders the transactions on a new table from now on.
pub(crate) fn order_table(engine: &Engine, table: &Table) -> Result<(), SqlError> {
    check_order(engine)?;
    let parts: Vec<TableId> = table.parts().map(|(id, _)| id).collect();
    engine.database().set_ordered(&parts, true).map_err(database)
}

/// Switches a table with rows, which is locked against writers, to the order or back.
pub(crate) fn switch_isolation(
    engine: &Engine,
    catalog: &Catalog,
    table: &Table,
    is_ordered: bool,
) -> Result<(), SqlError> {
    if is_ordered {
        check_order(engine)?;
    }
    let oids = table.foreign_keys.iter().map(|key| key.parent);
    let children = catalog.referring(table.oid).map(|(child, _)| child.oid);
    if let Some(other) = oids.chain(children).find(|oid| *oid != table.oid) {
        let other = catalog.table_numbered(other)?;
        let message = format!(
            "ALTER TABLE .. SET (isolation) of a table with foreign keys to or from \"{}\"",
            other.name
        );
        return Err(SqlError::unsupported(message).hint("Drop the keys, and add them again."));
    }
    let parts: Vec<TableId> = table.parts().map(|(id, _)| id).collect();
    engine.database().set_ordered(&parts, is_ordered).map_err(database)
}

fn check_order(engine: &Engine) -> Result<(), SqlError> {
    engine
        .database()
        .check_order()
        .map_err(|error| SqlError::unsupported("isolation = ordered").detail(format!("{error}.")))
}

/// Gives a new store table the isolation of another.
pub(crate) fn inherit_isolation(
    engine: &Engine,
    from: TableId,
    to: TableId,
) -> Result<(), SqlError> {
    match is_table_ordered(engine, from) {
        true => engine.database().set_ordered(&[to], true).map_err(database),
        false => Ok(()),
    }
}

/// Refuses a foreign key between an ordered and an ordinary table: its checks would need both.
pub(crate) fn check_one_isolation(
    engine: &Engine,
    child: &Table,
    parent: &Table,
) -> Result<(), SqlError> {
    if is_table_ordered(engine, child.id) == is_table_ordered(engine, parent.id) {
        return Ok(());
    }
    let (child, parent) = (&child.name, &parent.name);
    let message =
        format!("a foreign key between \"{child}\" and \"{parent}\", of which one is ordered,");
    Err(SqlError::unsupported(message)
        .hint("Create both tables WITH (isolation = ordered), or none of them."))
}

/// 0A000: a transaction that writes to ordered tables and to others.
pub(crate) fn mixed(message: String) -> SqlError {
    SqlError::new(code::FEATURE_NOT_SUPPORTED, message)
        .detail(
            "Tables WITH (isolation = ordered) are ordered; definitions are rows of other tables.",
        )
        .hint("Write to them in separate transactions.")
}
