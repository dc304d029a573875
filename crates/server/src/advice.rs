//! Advice in SQL: plans and shard keys for what ran lately, which operators may propose.
//!
//! ```text
//!   recent footprints ─┬─ planners ─▶ isomer.advice ─────▶ ALTER SYSTEM PROPOSE 'plan'
//!                      └─ the rows of these keys, read now ─ the advisor for shard keys
//!                                  └─▶ isomer.shard_keys ─▶ ALTER SYSTEM PROPOSE SHARD KEY OF t (a)
//! ```
//!
//! A query computes the rows of the views anew, at the process with the conductor. It has the
//! [footprints](crate::recent) of a sample of the transactions of all gateways.
//!
//! A footprint has keys only, so the advisor for shard keys reads the other columns of up to
//! [`ROWS_MAX`] rows at the time of the query. Rows that were deleted since are not in its figures.
//! Left out: shard keys of several columns; tables of which only ranges were read.

use crate::engine::Engine;
use crate::engine::questions::Question;
use crate::plan_names::{stored_names, with_name};
use crate::proposals::{at_conductor, proposed, shard_statement};
use isomer_cluster::{Isolation, follows_plans};
use isomer_design::{Footprint, Item, Key, Plan, Schema, Span, TableId, Value};
use isomer_plan::elastic::advice::{Advice, FOOTPRINTS_MIN, advise};
use isomer_plan::proposals::{Parts, parts};
use isomer_plan::recording::RecordedKey;
use isomer_plan::reshard::advise::{Candidate, Rows, rank};
use isomer_sql::catalog::{Catalog, Named, TEMPORARY, Table};
use isomer_sql::datum::Datum;
use isomer_sql::define::shard_columns;
use isomer_sql::{SqlError, code};
use sqlparser::ast::ObjectName;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// Rows of a table that the advisor for shard keys reads.
const ROWS_MAX: usize = 2000;
/// Tables that it looks at, those with the most accesses.
const TABLES_MAX: usize = 16;
/// The most bytes of a text that is a candidate.
const VALUE_BYTES_MAX: usize = 256;

/// The rows of `isomer.advice`: a plan each, the best first.
pub(crate) fn advice_rows(engine: &Engine) -> Vec<Vec<Datum>> {
    let (design, catalog) = (engine.database().design(), engine.catalog());
    let is_asked = |item: &Item| {
        let follows = design.table(item.table).is_ok_and(follows_plans);
        follows && catalog.relation(item.table).is_some()
    };
    let recorded = engine.steering.recent.lock().recorded(is_asked);
    let count = recorded.footprints.len();
    let row = |advice: Advice| {
        let (mut plan, mut told) = (String::new(), "");
        for step in &advice.plan.steps {
            let named = |text: String| match step.change.table() {
                Some(table) => with_name(engine.relation(table), &design, table, text),
                None => text,
            };
            plan += &named(step.change.to_text(&design));
            if step.reason != told {
                let reason = named(step.reason.replace(['\n', '\r'], " "));
                let _ = write!(plan, "   # {reason}");
                told = &step.reason;
            }
            plan.push('\n');
        }
        let [before, then] = advice.judged;
        vec![
            Datum::text(advice.planner),
            Datum::Int(count as i64),
            Datum::Float(recorded.span_seconds),
            Datum::Float(100.0 * before.across),
            Datum::Float(100.0 * then.across),
            Datum::Float(before.imbalance),
            Datum::Float(then.imbalance),
            Datum::Int(advice.plan.steps.len() as i64),
            Datum::text(plan.trim_end()),
            Datum::Text(advice.notes.join("; ")),
        ]
    };
    advise(&design, &recorded.footprints, recorded.seconds).into_iter().map(row).collect()
}

/// The rows of `isomer.shard_keys`: the candidates of each table, the best first.
pub(crate) fn shard_key_rows(engine: &Engine, catalog: &Catalog) -> Vec<Vec<Datum>> {
    let tables = catalog.tables.values().filter(|table| table.schema_name != TEMPORARY);
    let of: BTreeMap<TableId, &Arc<Table>> = tables.map(|table| (table.id, table)).collect();
    let is_asked = |item: &Item| matches!(item.span, Span::Key(_)) && of.contains_key(&item.table);
    let recorded = engine.steering.recent.lock().recorded(is_asked);
    if recorded.footprints.len() < FOOTPRINTS_MIN {
        return Vec::new();
    }
    let mut counts: BTreeMap<TableId, usize> = BTreeMap::new();
    let items = || recorded.footprints.iter().flat_map(Footprint::items);
    items().for_each(|item| *counts.entry(item.table).or_default() += 1);
    let mut busiest: Vec<(TableId, usize)> = counts.into_iter().collect();
    busiest.sort_by_key(|(table, count)| (std::cmp::Reverse(*count), *table));
    busiest.truncate(TABLES_MAX);
    let sites = engine.database().design().sites().len();
    busiest
        .into_iter()
        .flat_map(|(id, _)| of_table(engine, of[&id], &recorded.footprints, sites))
        .collect()
}

/// The candidates of a table.
fn of_table(
    engine: &Engine,
    table: &Table,
    footprints: &[Footprint],
    sites: usize,
) -> Vec<Vec<Datum>> {
    let columns = candidates(table);
    let names: Vec<String> = columns.iter().map(|at| table.columns[*at].name.clone()).collect();
    let mut rows =
        Rows { values: vec![Vec::new(); names.len()], columns: names, ..Rows::default() };
    let mut known: BTreeMap<&Key, Option<Vec<RecordedKey>>> = BTreeMap::new();
    let cancel = Arc::default();
    let mut reader = engine.gateway().begin(Isolation::RepeatableRead, cancel);
    // The newest transactions come first, so the limit of rows cuts off the oldest.
    for (number, footprint) in footprints.iter().enumerate().rev() {
        for item in footprint.items().iter().filter(|item| item.table == table.id) {
            let Span::Key(key) = &item.span else { continue };
            if !known.contains_key(key) {
                if known.len() >= ROWS_MAX {
                    continue;
                }
                let mut values = None;
                let found = reader.get(table.id, key, |bytes| {
                    values = values_of(&table.schema, key, bytes, &columns);
                });
                if found.is_err() {
                    return Vec::new();
                }
                known.insert(key, values);
            }
            let Some(values) = &known[key] else { continue };
            rows.transactions.push(number as u64);
            rows.values.iter_mut().zip(values).for_each(|(column, value)| {
                column.push(value.clone());
            });
        }
    }
    let current = current(table);
    let is_candidate = |name: &&str| rows.columns.iter().any(|column| column == name);
    let Ok(ranked) = rank(&rows, sites, current.filter(is_candidate)) else { return Vec::new() };
    let accesses = rows.transactions.len();
    let mut numbers = rows.transactions;
    numbers.dedup();
    let label = table.full_name().label();
    let row = |candidate: Candidate| {
        let statement = match current == Some(&*candidate.column) {
            true => Datum::Null,
            false => Datum::Text(shard_statement(table, std::slice::from_ref(&candidate.column))),
        };
        let moved = candidate.rows_moved.map(|rows| 100.0 * rows as f64 / accesses as f64);
        vec![
            Datum::text(&*label),
            Datum::text(&*candidate.column),
            Datum::Bool(current == Some(&*candidate.column)),
            Datum::Int(numbers.len() as i64),
            Datum::Int(accesses as i64),
            Datum::Int(candidate.cardinality as i64),
            Datum::Float(100.0 * candidate.hottest),
            Datum::Float(candidate.monotonicity),
            Datum::Float(100.0 * candidate.single_site),
            Datum::Float(candidate.imbalance),
            moved.map_or(Datum::Null, Datum::Float),
            Datum::Float(candidate.score),
            statement,
        ]
    };
    ranked.into_iter().map(row).collect()
}

/// The columns that a shard key may have, and whose values order rows as the advisor does.
fn candidates(table: &Table) -> Vec<usize> {
    let all = 0..table.columns.len();
    all.filter(|at| {
        let column = &table.columns[*at];
        let names = std::slice::from_ref(&column.name);
        let is_possible = shard_columns(&table.columns, &table.name, names).is_ok();
        is_possible && (column.not_null || table.is_in_key(*at))
    })
    .collect()
}

/// The first column of the row key, by which rows are distributed now.
fn current(table: &Table) -> Option<&str> {
    let first = *table.key_slots().first()?;
    table.columns.get(first).map(|column| &*column.name)
}

/// The values of some columns of a row; `None` if one of them is no value of a key.
fn values_of(
    schema: &Schema,
    key: &Key,
    bytes: &[u8],
    columns: &[usize],
) -> Option<Vec<RecordedKey>> {
    let value = |at: &usize| match schema.read_column(key.as_bytes(), bytes, *at).ok()? {
        Value::Null => None,
        Value::Int64(number) | Value::Timestamp(number) => Some(RecordedKey::Int(number)),
        Value::Bool(value) => Some(RecordedKey::Int(i64::from(value))),
        Value::Text(text) => {
            let end = text.floor_char_boundary(VALUE_BYTES_MAX);
            Some(RecordedKey::Text(text[..end].into()))
        }
        Value::Decimal(number) => Some(RecordedKey::Text(format!("{number:040}").into())),
        Value::Float64(number) => Some(RecordedKey::Text(number.to_string().into())),
        Value::Bytes(bytes) => {
            let bytes = &bytes[..bytes.len().min(VALUE_BYTES_MAX / 2)];
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            Some(RecordedKey::Text(hex.into()))
        }
    };
    columns.iter().map(value).collect()
}

/// Takes a plan of an operator as a proposal.
///
/// # Errors
/// 22023 if the design does not permit it; 55000 if it is proposed already, or too many wait.
pub(crate) fn propose(
    engine: &Engine,
    text: &str,
    because: Option<&str>,
    by: &str,
) -> Result<(), SqlError> {
    if engine.database().is_gateway_only() {
        let because = because.map(str::to_owned);
        return at_conductor(engine, &Question::Propose(text.to_owned(), because, by.to_owned()));
    }
    let design = engine.database().design();
    let reason = because.unwrap_or("proposed in SQL");
    let wrong = |what| SqlError::new(code::INVALID_PARAMETER, what);
    let mut plan = Plan::parse(&stored_names(&engine.catalog(), &design, text), &design, reason)
        .map_err(wrong)?;
    plan.validate(&design).map_err(|invalid| {
        wrong(format!("the design does not permit this plan: {invalid}"))
            .hint("isomer.partitions shows the design as it is.")
    })?;
    plan.reason = reason.to_owned();
    let parts = parts(&plan, &design);
    let now = engine.database().now();
    proposed(engine.steering.proposals.lock().propose(now, plan, by, parts))
}

/// Takes another shard key of a table as a proposal.
///
/// # Errors
/// If there is no such table or column, or it is distributed so already; 55000 as for plans.
pub(crate) fn propose_shard_key(
    engine: &Engine,
    name: &ObjectName,
    columns: &[String],
    by: &str,
) -> Result<(), SqlError> {
    let catalog = engine.catalog();
    let table = catalog.table(&Named::of(name)?)?.clone();
    let shard = shard_columns(&table.columns, &table.name, columns)?;
    if shard.is_empty() || table.key_slots().starts_with(&shard) {
        let message =
            format!("table \"{}\" is distributed by ({}) already", table.name, columns.join(", "));
        return Err(SqlError::new(code::INVALID_PARAMETER, message));
    }
    let asked = (table.id, shard_statement(&table, columns));
    propose_statement(engine, asked, by)
}

/// Takes a statement about a table as a proposal.
///
/// # Errors
/// 55000 as for plans.
pub(crate) fn propose_statement(
    engine: &Engine,
    (table, statement): (TableId, String),
    by: &str,
) -> Result<(), SqlError> {
    if engine.database().is_gateway_only() {
        let question = Question::ProposeStatement(table, statement, by.to_owned());
        return at_conductor(engine, &question);
    }
    let why = (&*statement, "another shard key");
    let parts = Parts::from([("shard_by", table, Key::min())]);
    let now = engine.database().now();
    proposed(engine.steering.proposals.lock().propose_statement(now, why, by, parts))
}
