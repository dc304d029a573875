//! ALTER TABLE: rewrites rows into a store table that replaces the old one.
//!
//! The rows are written by separate commits, including those of the transaction itself. Other
//! sessions see the table only after that transaction has committed. A transaction whose snapshot
//! is older than the last of these commits would find the table empty. So it is refused when it
//! reads the table ([`Engine::is_filled_after`](crate::engine::Engine::is_filled_after)).
//! PostgreSQL instead lets ALTER TABLE wait for transactions that have read the table, and shows an
//! empty one to the others.

use crate::ddl::Definer;
use crate::engine::values_of;
use isomer_design::Key;
use isomer_sql::catalog::{Catalog, Table, TableColumn, needs_index, quoted, row_schema};
use isomer_sql::datum::Datum;
use isomer_sql::define::NewIndex;
use isomer_sql::system::row_id_sequence;
use isomer_sql::{SqlError, code};
use std::sync::Arc;

/// The rows per commit.
const BATCH_ROWS: usize = 20_000;

/// Computes the values of a new row from those of the old one.
type Filled<'f> = &'f dyn Fn(&[Datum]) -> Result<Vec<Datum>, SqlError>;

impl Definer<'_> {
    /// Replaces a table, which is locked, by one with the rows that `fill` makes, and with new
    /// indexes. Columns that were added to the old one become ordinary columns of the new one.
    pub(super) fn rebuild(
        &mut self,
        old: &Arc<Table>,
        mut new: Table,
        fill: Filled<'_>,
    ) -> Result<(), SqlError> {
        self.needs_present()?;
        let engine = self.engine.clone();
        new.columns.iter_mut().for_each(|column| column.missing = None);
        let place = new.key_slots();
        let (id, schema) =
            self.make(&new.name, |physical| row_schema(physical, &new.columns, &place))?;
        engine.inherit_backups(old.id, id)?;
        crate::engine::inherit_isolation(&engine, old.id, id)?;
        (new.id, new.schema) = (id, schema);
        let kept = std::mem::take(&mut new.indexes);
        self.refill(old, &new, fill)?;
        engine.set_filled(new.id)?;
        self.backend.txn.look_again();
        // Values may have changed, so they are checked again.
        self.check_domains(old, &new)?;
        self.check_rows(&new, &new.checks.clone())?;
        for index in kept {
            let place = |at: usize| new.column(&old.columns[at].name);
            index.looked_at().try_for_each(|at| place(*at).map(drop))?;
            let wanted = NewIndex::like(&index, |at| place(at).expect("it was just found"));
            let mut made = self.make_index(&new, &wanted, index.name.clone(), index.constraint)?;
            made.oid = index.oid;
            self.fill_index(&new, &made)?;
            made.readable = Some(engine.present());
            new.indexes.push(Arc::new(made));
        }
        new.primary = None;
        if needs_index(&new.key, &new.shard) {
            let mut made = self.make_key_index(&new)?;
            self.fill_index(&new, &made)?;
            made.readable = Some(engine.present());
            new.primary = Some(Arc::new(made));
        }
        self.replace(old, new);
        Ok(())
    }

    /// Refuses rows with values that violate the new domains of their columns.
    fn check_domains(&mut self, old: &Table, new: &Table) -> Result<(), SqlError> {
        let mut catalog = Catalog::clone(&self.catalog());
        catalog.tables.insert(Arc::new(new.clone()));
        for column in &new.columns {
            let Some(domain) = &column.domain else { continue };
            let is_as_before = |before: &TableColumn| {
                before.name == column.name && before.domain.as_ref() == Some(domain)
            };
            if !catalog.is_constrained(domain) || old.columns.iter().any(is_as_before) {
                continue;
            }
            let (name, from) = (quoted(&column.name), new.full_name().written());
            let domain = domain.name.written();
            let all = format!("SELECT count(*) FROM {from} WHERE ({name}::{domain}) IS NULL");
            self.values(&self.query(&all, &catalog)?, &catalog)?;
        }
        Ok(())
    }

    fn refill(&mut self, old: &Table, new: &Table, fill: Filled<'_>) -> Result<(), SqlError> {
        let mut rows: Vec<(Key, Option<Vec<u8>>)> = Vec::new();
        let mut last_id = 0;
        self.each_row(old, &mut |key, row| {
            let values = values_of(old, key, row)?;
            let mut filled = fill(&values[..old.columns.len()])?;
            if !new.has_key() {
                // The rows of a table that had a key get row ids now.
                let own = values.get(old.columns.len()).and_then(Datum::as_int);
                let id = own.unwrap_or(last_id + 1);
                filled.push(Datum::Int(id));
                last_id = id.max(last_id);
            }
            let (key, row) = isomer_sql::catalog::row_of(new, &filled)?;
            rows.push((key, Some(row)));
            Ok(())
        })?;
        if !new.has_key() {
            self.engine.set_sequence(&row_id_sequence(new.id), Some(last_id + 1))?;
        }
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        if let Some(pair) = rows.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let message = format!("could not create unique index \"{}\"", new.key_name);
            let key = new.schema.format_key(&pair[0].0);
            let detail = format!("Key {key} is duplicated.");
            return Err(SqlError::new(code::UNIQUE_VIOLATION, message).detail(detail));
        }
        rows.chunks(BATCH_ROWS).try_for_each(|batch| {
            self.check_cancel()?;
            self.engine.write(new.id, batch)
        })
    }
}
