//! Executes definitions of foreign keys.
//!
//! A key is part of its table and must hold for all rows. So both tables are locked until it
//! exists, and later writers of either one plan with it. Dropping it needs no lock on the parent,
//! because older plans check too much rather than too little.

use crate::alter::in_one_order;
use crate::ddl::Definer;
use crate::dependents::Dependent;
use isomer_sql::catalog::{Named, Table, free_made_name, quoted};
use isomer_sql::datum::Datum;
use isomer_sql::foreign::{ForeignKey, shown, unique_over};
use isomer_sql::{SqlError, code};
use sqlparser::ast::ForeignKeyConstraint;
use std::sync::Arc;

/// The rows that are checked when a key is added.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// There are no rows yet.
    None,
    /// All existing rows.
    All,
    /// NOT VALID: only rows that are written later.
    Later,
}

impl Definer<'_> {
    /// Adds a foreign key to a table.
    pub(crate) fn add_foreign_key(
        &mut self,
        child: u32,
        asked: &ForeignKeyConstraint,
        rows: Rows,
    ) -> Result<(), SqlError> {
        let catalog = self.catalog();
        let child = catalog.table_numbered(child)?.clone();
        let parent = catalog.table(&Named::of(&asked.foreign_table)?)?.clone();
        if catalog.is_temporary(child.oid) != catalog.is_temporary(parent.oid) {
            let kind = if catalog.is_temporary(child.oid) { "temporary" } else { "permanent" };
            let message = format!("constraints on {kind} tables may reference only {kind} tables");
            return Err(SqlError::new(code::INVALID_TABLE_DEFINITION, message));
        }
        if catalog.emptied.contains(&parent.oid) && !catalog.emptied.contains(&child.oid) {
            let message = "unsupported ON COMMIT and foreign key combination";
            let detail = format!(
                "Table \"{}\" references \"{}\", but they do not have the same ON COMMIT setting.",
                child.name, parent.name
            );
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message).detail(detail));
        }
        crate::engine::check_one_isolation(&self.engine, &child, &parent)?;
        let name = key_name(&child, asked)?;
        let mut key = ForeignKey::wanted(asked, (self.engine.fresh_oid(), name), &child, &parent)?;
        for table in [&child, &parent] {
            in_one_order(table)?;
            self.backend.lock_definition(table)?;
        }
        match rows {
            Rows::None => {}
            Rows::All => self.check_references(&child, &parent, &key)?,
            Rows::Later => key.validated = false,
        }
        let mut changed = Table::clone(&child);
        changed.foreign_keys.push(Arc::new(key));
        self.replace(&child, changed);
        if parent.oid != child.oid {
            // Unchanged, except that older plans, which do not know the key, become stale.
            self.replace(&parent, Table::clone(&parent));
        }
        Ok(())
    }

    /// VALIDATE CONSTRAINT: checks the rows that are older than a key.
    pub(crate) fn validate_constraint(
        &mut self,
        table: &Arc<Table>,
        name: &str,
    ) -> Result<(), SqlError> {
        let Some(at) = table.foreign_keys.iter().position(|key| key.name == name) else {
            return match table.has_constraint(name) {
                true => Ok(()),
                false => {
                    let message = format!(
                        "constraint \"{name}\" of relation \"{}\" does not exist",
                        table.name
                    );
                    Err(SqlError::new(code::UNDEFINED_OBJECT, message))
                }
            };
        };
        let key = table.foreign_keys[at].clone();
        if key.validated {
            return Ok(());
        }
        let catalog = self.catalog();
        if let Some(parent) = catalog.table_of(key.parent) {
            self.backend.lock_definition(table)?;
            self.backend.lock_definition(parent)?;
            self.check_references(table, parent, &key)?;
        }
        let mut changed = Table::clone(table);
        Arc::make_mut(&mut changed.foreign_keys[at]).validated = true;
        self.replace(table, changed);
        Ok(())
    }

    /// Refuses a key that rows of its table violate. Both tables are locked.
    fn check_references(
        &mut self,
        child: &Table,
        parent: &Table,
        key: &ForeignKey,
    ) -> Result<(), SqlError> {
        self.needs_present()?;
        let column = |of: &str, table: &Table, at: usize| {
            format!("{of}.{}", quoted(&table.columns[at].name))
        };
        let own: Vec<String> = key.columns.iter().map(|&at| column("c", child, at)).collect();
        let all = |what: &str| {
            own.iter().map(|own| format!("{own} {what}")).collect::<Vec<_>>().join(" AND ")
        };
        let name = child.full_name().written();
        let from = format!("SELECT {} FROM {name} AS c", own.join(", "));
        let broken = |detail: String| {
            let message = format!(
                "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
                child.name, key.name
            );
            Err(SqlError::new(code::FOREIGN_KEY_VIOLATION, message).detail(detail).about(
                &child.schema_name,
                &child.name,
                &key.name,
            ))
        };
        if key.full {
            let (none, every) = (all("IS NULL"), all("IS NOT NULL"));
            let mixed = format!("{from} WHERE NOT ({none}) AND NOT ({every}) LIMIT 1");
            if self.first_row(&mixed)?.is_some() {
                return broken(
                    "MATCH FULL does not allow mixing of null and nonnull key values.".to_owned(),
                );
            }
        }
        let pairs = own.iter().zip(&key.referenced);
        let equal: Vec<String> =
            pairs.map(|(own, &at)| format!("{} = {own}", column("p", parent, at))).collect();
        let missing = format!(
            "{from} WHERE {} AND NOT EXISTS (SELECT 1 FROM {} AS p WHERE {}) LIMIT 1",
            all("IS NOT NULL"),
            parent.full_name().written(),
            equal.join(" AND ")
        );
        match self.first_row(&missing)? {
            None => Ok(()),
            Some(values) => broken(format!(
                "Key {} is not present in table \"{}\".",
                shown(child, &key.columns, &values),
                parent.name
            )),
        }
    }

    fn first_row(&mut self, query: &str) -> Result<Option<Vec<Datum>>, SqlError> {
        let catalog = self.catalog();
        let query = self.query(query, &catalog)?;
        let mut first = None;
        query.run(self.backend, &[], self.around, &catalog, &mut |values: &[Datum]| {
            first.get_or_insert_with(|| values.to_vec());
            Ok(())
        })?;
        Ok(first)
    }

    /// Refuses to drop the unique index behind foreign keys, unless the keys may be dropped with
    /// it.
    pub(crate) fn release_index(
        &mut self,
        table: &Table,
        name: &str,
        cascade: bool,
    ) -> Result<(), SqlError> {
        let mut without = table.clone();
        without.indexes.retain(|index| index.name != name);
        let needs_it = |key: &ForeignKey| unique_over(&without, &key.referenced).is_none();
        let on = format!("index {name}");
        let keys = Dependent::keys(&self.catalog(), (table.oid, &on), |_, key| needs_it(key));
        let is_constraint = table.indexes.iter().any(|i| i.name == name && i.constraint);
        let what = match is_constraint {
            true => format!("constraint {name} on table {}", table.name),
            false => on,
        };
        self.drop_dependents(&what, &keys, cascade)
    }
}

/// The name of a key: the requested one, or a free one.
fn key_name(child: &Table, asked: &ForeignKeyConstraint) -> Result<String, SqlError> {
    if let Some(name) = &asked.name {
        let name = crate::alter::folded(name);
        if !child.has_constraint(&name) {
            return Ok(name);
        }
        let message =
            format!("constraint \"{name}\" for relation \"{}\" already exists", child.name);
        return Err(SqlError::new(code::DUPLICATE_OBJECT, message));
    }
    let columns: Vec<String> = asked.columns.iter().map(crate::alter::folded).collect();
    let is_taken = |name: &str| child.has_constraint(name);
    Ok(free_made_name(&child.name, &columns.join("_"), "fkey", is_taken))
}
