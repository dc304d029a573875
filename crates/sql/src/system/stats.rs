//! Statistics that monitoring tools read: `pg_stat_database`, `pg_stat_user_tables`,
//! `pg_stat_user_indexes`, `pg_stat_ssl` and `pg_stat_statements`.
//!
//! Counts are sums over all gateways that answer, from their starts. A column of PostgreSQL without
//! a counterpart here, such as `blks_read`, is NULL. `pg_stat_statements` has no column `userid`,
//! because shapes of statements are not counted by user.

use super::{DATABASE, DESIGN_ROLE, SessionShown, int, text};
use crate::catalog::{Catalog, TEMPORARY, Table};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::rights::READ_ALL_STATS;
use crate::statistics::{Analyzed, Times};
use crate::transaction::Surroundings;
use isomer_design::TableId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The counts of transactions and rows for `pg_stat_database` and `pg_stat_user_tables`. Work of
/// transactions that were rolled back is included, as in PostgreSQL.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Counts {
    /// Transactions that committed.
    pub commits: u64,
    /// Transactions that were rolled back.
    pub rollbacks: u64,
    /// Statements that were refused because of a deadlock.
    pub deadlocks: u64,
    /// The store tables of tables and indexes that were used.
    pub tables: BTreeMap<TableId, RowCounts>,
}

/// The counts of a store table.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RowCounts {
    /// Reads of all of its keys.
    pub scans: u64,
    /// Rows that these visited.
    pub scanned: u64,
    /// Reads of one key, or of a range of keys.
    pub lookups: u64,
    /// Rows that these visited.
    pub fetched: u64,
    /// Rows by what was done with them, in the order of [`RowChange`].
    pub changed: [u64; 3],
}

/// A change of a row of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "they are what SQL calls so")]
pub enum RowChange {
    Inserted,
    Updated,
    Deleted,
}

impl RowCounts {
    /// Adds the counts of others.
    pub fn add(&mut self, more: &RowCounts) {
        self.scans += more.scans;
        self.scanned += more.scanned;
        self.lookups += more.lookups;
        self.fetched += more.fetched;
        self.changed.iter_mut().zip(more.changed).for_each(|(count, more)| *count += more);
    }
}

impl Counts {
    /// Adds the counts of others.
    pub fn add(&mut self, more: &Counts) {
        self.commits += more.commits;
        self.rollbacks += more.rollbacks;
        self.deadlocks += more.deadlocks;
        more.tables
            .iter()
            .for_each(|(table, more)| self.tables.entry(*table).or_default().add(more));
    }
}

fn count(count: u64) -> Datum {
    int(i64::try_from(count).unwrap_or(i64::MAX))
}

/// The row of the database.
pub(super) fn database(around: &Surroundings) -> Vec<Vec<Datum>> {
    let Counts { commits, rollbacks, deadlocks, tables } = around.design.counts();
    let mut sum = RowCounts::default();
    tables.values().for_each(|table| sum.add(table));
    let [inserted, updated, deleted] = sum.changed;
    let null = || Datum::Null;
    vec![vec![
        int(DATABASE),
        text(&around.database),
        int(around.sessions.sessions().shown.len() as i64),
        count(commits),
        count(rollbacks),
        null(),
        null(),
        count(sum.scanned + sum.fetched),
        count(sum.fetched),
        count(inserted),
        count(updated),
        count(deleted),
        null(),
        // No statement writes temporary files.
        int(0),
        int(0),
        count(deadlocks),
        null(),
        null(),
        null(),
        null(),
        null(),
        null(),
        null(),
        null(),
        null(),
        null(),
        null(),
        null(),
    ]]
}

/// A row for each table. Reads of a table and of its indexes are added up: reads of all keys as
/// sequential scans, others as index scans. The number of live rows is that of the last ANALYZE.
/// Tables are not vacuumed.
pub(super) fn tables(catalog: &Catalog, around: &Surroundings) -> Vec<Vec<Datum>> {
    let counts = around.design.counts();
    let row = |table: &Arc<Table>| {
        let mut sum = RowCounts::default();
        let parts = table.parts().filter_map(|(id, _)| counts.tables.get(&id));
        parts.for_each(|part| sum.add(part));
        let [inserted, updated, deleted] = sum.changed;
        let known = catalog.statistics.get(&table.oid);
        let mut row = vec![
            int(table.oid.into()),
            text(&table.schema_name),
            text(&table.name),
            count(sum.scans),
            count(sum.scanned),
            count(sum.lookups),
            count(sum.fetched),
            count(inserted),
            count(updated),
            count(deleted),
            Datum::Null,
            known.map_or(Datum::Null, |known| int(known.rows as i64)),
        ];
        row.resize(LAST_ANALYZE, Datum::Null);
        row.extend(analyzed(known.map(|known| known.analyzed)));
        row
    };
    let shown = catalog.tables.values().filter(|table| table.schema_name != TEMPORARY);
    shown.map(row).collect()
}

/// A row for each index. Its entries are counted where it is a table of the store. Reads by a
/// primary key that rows are sorted by are those of the table; where the table has other indexes,
/// reads by these are among them, so the counts of the primary key are not known.
pub(super) fn indexes(catalog: &Catalog, around: &Surroundings) -> Vec<Vec<Datum>> {
    let counts = around.design.counts();
    let of = |id: &TableId| counts.tables.get(id).copied().unwrap_or_default();
    let null = || Datum::Null;
    let rows = |table: &Arc<Table>| {
        let row = |oid: i64, name: &str, known: [Datum; 3]| {
            let (table_oid, schema) = (int(table.oid.into()), text(&table.schema_name));
            let mut row = vec![table_oid, int(oid), schema, text(&table.name), text(name)];
            row.extend(known);
            row
        };
        let entries = |id: &TableId| {
            let RowCounts { scans, scanned, lookups, fetched, .. } = of(id);
            [count(scans + lookups), count(scanned + fetched), null()]
        };
        let of_key = || match &table.primary {
            Some(index) => entries(&index.id),
            None if table.indexes.is_empty() => {
                let RowCounts { lookups, fetched, .. } = of(&table.id);
                [count(lookups), count(fetched), count(fetched)]
            }
            None => [null(), null(), null()],
        };
        let key = table.has_key().then(|| row(super::key_oid(table), &table.key_name, of_key()));
        let others = table.indexes.iter();
        let others = others.map(|index| row(index.oid.into(), &index.name, entries(&index.id)));
        key.into_iter().chain(others).collect::<Vec<_>>()
    };
    let shown = catalog.tables.values().filter(|table| table.schema_name != TEMPORARY);
    shown.flat_map(rows).collect()
}

/// A row for each table, for views about its blocks, which Isomer does not have.
pub(super) fn blocks(catalog: &Catalog, columns: usize) -> Vec<Vec<Datum>> {
    let row = |table: &Arc<Table>| {
        let mut row = vec![int(table.oid.into()), text(&table.schema_name), text(&table.name)];
        row.resize(columns, Datum::Null);
        row
    };
    catalog.tables.values().map(row).collect()
}

/// A row in which nothing is known.
pub(super) fn unknown(columns: usize) -> Vec<Vec<Datum>> {
    vec![vec![Datum::Null; columns]]
}

/// A row for each session: whether its connection is encrypted. How it is encrypted is not known.
pub(super) fn encryption(around: &Surroundings) -> Vec<Vec<Datum>> {
    let row = |shown: SessionShown| {
        let is_encrypted = shown.is_encrypted.map_or(Datum::Null, Datum::Bool);
        let mut row = vec![int(shown.process.into()), is_encrypted];
        row.resize(COLUMNS_OF_SSL, Datum::Null);
        row
    };
    around.sessions.sessions().shown.into_iter().map(row).collect()
}

/// The number of columns of `pg_stat_ssl`.
const COLUMNS_OF_SSL: usize = 8;

/// The column index of `last_analyze` in `pg_stat_user_tables`.
const LAST_ANALYZE: usize = 17;

/// The last six columns of `pg_stat_user_tables`. The counts are NULL for statistics from a version
/// that did not count.
fn analyzed(known: Option<Analyzed>) -> [Datum; 6] {
    let is_counted = known != Some(Analyzed::default());
    let Analyzed { asked, own } = known.unwrap_or_default();
    let last = |times: Times| match times.count {
        0 => Datum::Null,
        _ => Datum::Timestamp(times.last_us),
    };
    let number = |times: Times| if is_counted { count(times.count) } else { Datum::Null };
    [last(asked), last(own), Datum::Null, Datum::Null, number(asked), number(own)]
}

/// A row for each shape of statements. Shapes are shown to roles that may see the statements of all
/// sessions.
pub(super) fn statements(
    catalog: &Catalog,
    around: &Surroundings,
) -> Result<Vec<Vec<Datum>>, SqlError> {
    let who = &around.identity;
    if !who.acts_as(DESIGN_ROLE) && !who.acts_as(READ_ALL_STATS) {
        return Ok(Vec::new());
    }
    let row = |shape: Vec<Datum>| {
        let Ok(shape) = <[Datum; 16]>::try_from(shape) else { return Vec::new() };
        let [
            query,
            calls,
            errors,
            total,
            mean,
            longest,
            commits,
            local,
            place,
            last,
            least,
            rows,
            _,
            ended,
            sites,
            shipped,
        ] = shape;
        let number = query.as_text().map_or(0, number_of);
        let known = [int(DATABASE), int(number), query, calls, total, least, longest, mean];
        let own = [rows, errors, commits, local, place, last, ended, sites, shipped];
        known.into_iter().chain(own).collect()
    };
    let shapes = around.design.rows("all_statements", catalog, &around.budget)?;
    Ok(shapes.into_iter().map(row).collect())
}

/// The number of a shape: its text, hashed (FNV-1a), so that it is the same at all gateways and
/// after each restart.
fn number_of(text: &str) -> i64 {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash as i64
}
