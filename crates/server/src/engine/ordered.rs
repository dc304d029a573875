//! Ordered tables: `WITH (isolation = ordered)`, a property of the design
//! ([`isomer_cluster::ordered`]).
//!
//! All store tables of a table have it: its rows, its indexes, and its other layouts.
//!
//! **Fused rows** are rows of ordered tables that move to the process whose clients write them
//! (`isomer_cluster`, module `fusion`). Operators say how many may, and see which have.
//!
//! | where | what operators see |
//! | --- | --- |
//! | `isomer.fused` | each row that has moved |
//! | `isomer.partitions` | the number of such rows of each partition |
//! | EXPLAIN | those that the statement names |
//! | `isomer.order_hashes` | whether all copies have run the same batches |

use super::Engine;
use crate::backend::database;
use crate::figures::Figure;
use isomer_cluster::ordered::{AheadCounters, CopyHash};
use isomer_cluster::{FusedRows, OrderRouter, order_hashes};
use isomer_design::{Key, KeyRange, SiteId, TableId};
use isomer_plan::route::engine::{EngineRouter, LiveRouter};
use isomer_sql::catalog::{Catalog, Handle, Table};
use isomer_sql::datum::Datum;
use isomer_sql::{SqlError, code};
use isomer_strategy::batch::Route;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The name of the setting.
const FUSED_ROWS: &str = "fused_rows";
/// The name of the setting.
const ROUTER: &str = "order_router";
/// Its value without a router.
const OFF: &str = "off";
/// The most rows that a site may be told to take.
const ROWS_MAX: usize = 1_000_000;

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

/// `ALTER SYSTEM SET fused_rows`: the number of rows that may move to each site, also for later
/// starts of the server; 0: no row moves, and those that have moved go home.
///
/// # Errors
/// 22023 if it is no number of rows. 0A000 if there can be no ordered tables here.
pub(crate) fn set_fused_rows(engine: &Engine, rows: &str) -> Result<(), SqlError> {
    let number = rows.parse().ok().filter(|rows| *rows <= ROWS_MAX).ok_or_else(|| {
        let message = format!("invalid value for parameter \"{FUSED_ROWS}\": \"{rows}\"");
        let hint = format!("It is a number of rows for each site, from 0 to {ROWS_MAX}.");
        SqlError::new(code::INVALID_PARAMETER, message).hint(hint)
    })?;
    if number > 0 {
        let checked = engine.database().check_order();
        checked.map_err(|error| SqlError::unsupported(FUSED_ROWS).detail(format!("{error}.")))?;
    }
    engine.keep(FUSED_ROWS, rows.to_owned())?;
    FusedRows(engine.database()).set_limit(number);
    Ok(())
}

/// `ALTER SYSTEM SET order_router`: what chooses the sites of statements on ordered tables before
/// they run, also for later starts of the server.
///
/// # Errors
/// 22023 if there is no such router. 0A000 if there can be no ordered tables here.
pub(crate) fn set_router(engine: &Engine, name: &str) -> Result<(), SqlError> {
    let route = route(name).ok_or_else(|| {
        let message = format!("invalid value for parameter \"{ROUTER}\": \"{name}\"");
        let hint = format!("Available values: {OFF}, {}.", EngineRouter::NAMES.join(", "));
        SqlError::new(code::INVALID_PARAMETER, message).hint(hint)
    })?;
    if route.is_some() {
        let checked = engine.database().check_order();
        checked.map_err(|error| SqlError::unsupported(ROUTER).detail(format!("{error}.")))?;
    }
    engine.keep(ROUTER, name.to_owned())?;
    OrderRouter(engine.database()).set(name, route);
    Ok(())
}

/// The name of the router.
pub(crate) fn router(engine: &Engine) -> String {
    OrderRouter(engine.database()).name().unwrap_or_else(|| OFF.to_owned())
}

/// Figures of the statements that this process has routed.
pub(crate) fn figures(engine: &Engine) -> Vec<Figure> {
    let AheadCounters { batches, statements } = OrderRouter(engine.database()).counters();
    let help = "Statements on ordered tables that got their sites from a batch before they ran.";
    let of_batches = "Batches of such statements.";
    vec![
        Figure::counter("isomer_statements_routed", help, statements),
        Figure::counter("isomer_routed_batches", of_batches, batches),
    ]
}

/// The router of this name; `None` if there is none, and `Some(None)` without one.
#[expect(
    clippy::option_option,
    reason = "one says whether the name is known, one whether it is a router"
)]
fn route(name: &str) -> Option<Option<Arc<dyn Route>>> {
    if name == OFF {
        return Some(None);
    }
    let router: EngineRouter = name.parse().ok()?;
    Some(Some(Arc::new(LiveRouter(router))))
}

/// Follows the settings as they are stored.
///
/// # Errors
/// Errors of the database.
pub(crate) fn read_settings(engine: &Engine) -> Result<(), SqlError> {
    let rows = engine.kept(FUSED_ROWS)?.and_then(|rows| rows.parse().ok());
    FusedRows(engine.database()).set_limit(rows.unwrap_or(0));
    let name = engine.kept(ROUTER)?.unwrap_or_else(|| OFF.to_owned());
    OrderRouter(engine.database()).set(&name, route(&name).flatten());
    Ok(())
}

/// The rows of `isomer.fused`. None, if a site with fused rows cannot be asked.
pub(crate) fn fused_rows(engine: &Engine, catalog: &Catalog) -> Vec<Vec<Datum>> {
    let design = engine.database().design();
    let fused = FusedRows(engine.database()).all().unwrap_or_default();
    let row = |(site, table, key): (SiteId, TableId, Key)| {
        let relation = catalog.tables.with(Handle::Part(table)).next()?;
        let schema = design.table(table).ok()?.schema().clone();
        let (_, home) = design.partition_of(table, &key)?;
        let shown = [
            relation.full_name().label(),
            schema.format_key(&key),
            home.master.to_string(),
            SiteId::to_string(&site),
        ];
        Some(shown.map(Datum::Text).to_vec())
    };
    fused.into_iter().filter_map(row).collect()
}

/// EXPLAIN's lines about those rows of a statement that have moved, one for each site that has
/// some.
pub(crate) fn moved_of(
    engine: &Engine,
    catalog: &Catalog,
    spans: &[(TableId, KeyRange)],
) -> Vec<String> {
    let design = engine.database().design();
    let is_ordered =
        |(table, _): &(TableId, _)| design.table(*table).is_ok_and(|it| it.is_ordered());
    if !spans.iter().any(is_ordered) {
        return Vec::new();
    }
    let fused = FusedRows(engine.database()).all().unwrap_or_default();
    let is_named = |(_, table, key): &(SiteId, TableId, Key)| {
        spans.iter().any(|(of, range)| of == table && range.contains(key))
    };
    let mut moved: BTreeMap<(SiteId, TableId), Vec<Key>> = BTreeMap::new();
    for (site, table, key) in fused.into_iter().filter(is_named) {
        moved.entry((site, table)).or_default().push(key);
    }
    let line = |((site, table), keys): ((SiteId, TableId), Vec<Key>)| {
        let relation = catalog.tables.with(Handle::Part(table)).next()?.full_name().label();
        let schema = design.table(table).ok()?.schema();
        match &keys[..] {
            [key] => {
                let (_, home) = design.partition_of(table, key)?;
                let key = schema.format_key(key);
                Some(format!("row {key} of {relation}, from {} to {site}", home.master))
            }
            keys => Some(format!("{} rows of {relation}, to {site}", keys.len())),
        }
    };
    moved.into_iter().filter_map(line).collect()
}

/// The rows of `isomer.order_hashes`.
pub(crate) fn hash_rows(engine: &Engine, catalog: &Catalog) -> Vec<Vec<Datum>> {
    let design = engine.database().design();
    let row = |copy: CopyHash| {
        let table = design.table(copy.table).ok()?;
        let name = catalog.relation(copy.table).map(|name| name.label());
        let relation = name.unwrap_or_else(|| table.name().to_owned());
        let start = &copy.range.start;
        let first = if start.is_empty() { String::new() } else { table.schema().format_key(start) };
        let [rows, hash] = match copy.hashed {
            None => [Datum::Null, Datum::Null],
            Some((rows, hash)) => [Datum::Int(rows as i64), Datum::Text(format!("{hash:016x}"))],
        };
        let site = Datum::Text(copy.site.to_string());
        let [relation, first] = [relation, first].map(Datum::Text);
        Some(vec![relation, first, site, Datum::Bool(copy.is_master), rows, hash])
    };
    order_hashes(engine.database()).into_iter().filter_map(row).collect()
}
