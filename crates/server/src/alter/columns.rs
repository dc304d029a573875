//! ALTER TABLE: adds, drops, alters and renames columns.

use super::{folded, in_one_order};
use crate::ddl::Definer;
use crate::dependents::Dependent;
use crate::engine::damaged;
use crate::foreign::Rows;
use crate::sequences::check_identity;
use isomer_sql::catalog::{Catalog, Table, quoted};
use isomer_sql::checks::mentioned;
use isomer_sql::datum::{Datum, convert};
use isomer_sql::define::{self, NewColumn, NewIndex};
use isomer_sql::foreign::ForeignKey;
use isomer_sql::parse::parse_expression;
use isomer_sql::sequence::{Owner, SequenceOptions, bound, kept};
use isomer_sql::text::assigned;
use isomer_sql::types::Family;
use isomer_sql::view::View;
use isomer_sql::{SqlError, SqlType, code};
use sqlparser::ast::{AlterColumnOperation, ColumnDef, Ident};
use std::cell::RefCell;
use std::sync::Arc;

impl Definer<'_> {
    pub(super) fn add_column(
        &mut self,
        table: &Arc<Table>,
        column: &ColumnDef,
        if_not_exists: bool,
    ) -> Result<(), SqlError> {
        let name = folded(&column.name);
        if table.columns.iter().any(|other| other.name == name) {
            let message =
                format!("column \"{name}\" of relation \"{}\" already exists", table.name);
            if !if_not_exists {
                return Err(SqlError::new(code::DUPLICATE_COLUMN, message));
            }
            self.notices
                .push(SqlError::new(code::DUPLICATE_COLUMN, format!("{message}, skipping")));
            return Ok(());
        }
        define::check_columns(table.columns.len() + 1)?;
        let mut new = define::new_column(table, column, &self.catalog())?;
        let (key, unique) = (new.key.take(), std::mem::take(&mut new.unique));
        let foreign_keys = std::mem::take(&mut new.foreign_keys);
        self.add_plain_column(table, new)?;
        if let Some(key_name) = key {
            let (table, columns) = self.table_with(table.oid, &name)?;
            self.set_key(&table, columns, key_name)?;
        }
        for constraint in unique {
            let (table, columns) = self.table_with(table.oid, &name)?;
            let new = NewIndex::unique(constraint, columns, false);
            self.add_unique(&table, new)?;
        }
        for asked in &foreign_keys {
            self.add_foreign_key(table.oid, asked, Rows::All)?;
        }
        Ok(())
    }

    /// The current table, and the index of a column.
    fn table_with(&self, table: u32, column: &str) -> Result<(Arc<Table>, Vec<usize>), SqlError> {
        let table = self.catalog().table_numbered(table)?.clone();
        let at = table.column(column)?;
        Ok((table, vec![at]))
    }

    fn add_plain_column(&mut self, table: &Arc<Table>, mut new: NewColumn) -> Result<(), SqlError> {
        let (ty, name) = (new.column.ty, new.column.name.clone());
        if let Some(identity) = new.serial.take() {
            if identity.is_some() {
                check_identity(ty)?;
            }
            let made =
                self.make_owned((&table.full_name(), table.oid), (&name, ty), identity.as_ref())?;
            new.column.default = Some(made);
        }
        if !new.column.is_generated {
            let default = new.column.default.take();
            new.column.default = default.map(|default| kept(&default, ty, &self.catalog()));
        }
        self.check_conditions(&Table { checks: new.checks.clone(), ..with_column(table, &new) })?;
        let catalog = self.catalog();
        // The value is assigned to the column, so a text that is too long is not truncated.
        let shown = catalog.type_shown(ty.without_modifier());
        let is_constrained =
            new.column.domain.as_ref().is_some_and(|domain| catalog.is_constrained(domain));
        let value = match new.column.default_or_domain() {
            None if is_constrained => {
                // If there are rows, the domain must accept NULL.
                return self.add_drawn(table, new, &format!("SELECT NULL::{shown}"));
            }
            None => Datum::Null,
            Some(expr) if new.column.is_generated => {
                self.check_generated(&with_column(table, &new))?;
                let value = format!("SELECT ({expr})::{shown}");
                return self.add_drawn(table, new, &value);
            }
            Some(default) => {
                self.check_default(default, (&new.column.name, ty), &shown)?;
                let value = format!("SELECT ({})::{shown}", bound(default));
                let query = self.query(&value, &catalog)?;
                if query.is_volatile() {
                    return self.add_drawn(table, new, &value);
                }
                let found = self.values(&query, &catalog);
                if is_constrained {
                    // A default that does not fit the base type is refused even without rows; one
                    // that the domain refuses is not.
                    match found {
                        Ok(mut found) => {
                            drop(convert(found.pop().unwrap_or(Datum::Null), ty, false)?)
                        }
                        Err(error) if is_of_domain(&error) => {}
                        Err(error) => return Err(error),
                    }
                    return self.add_drawn(table, new, &value);
                }
                found?.pop().unwrap_or(Datum::Null)
            }
        };
        let value = convert(value, ty, false)?;
        if value.is_null() && new.column.not_null {
            // Correct if there are no rows. Otherwise the error shows the first one.
            self.backend.lock_definition(table)?;
            return self.rebuild(
                table,
                with(table, new),
                &|old| Ok([old, &[Datum::Null]].concat()),
            );
        }
        self.backend.lock_definition(table)?;
        let mut changed = Table::clone(table);
        changed.add_column(new.column, value.into_value(ty))?;
        changed.checks.extend(new.checks.iter().cloned());
        self.check_rows(&changed, &new.checks)?;
        self.replace(table, changed);
        Ok(())
    }

    /// Adds a column whose value is computed for each row by a query.
    fn add_drawn(
        &mut self,
        table: &Arc<Table>,
        new: NewColumn,
        value: &str,
    ) -> Result<(), SqlError> {
        self.backend.lock_definition(table)?;
        let catalog = self.catalog();
        let query =
            self.query(&format!("{value} FROM {}", table.full_name().written()), &catalog)?;
        let values = RefCell::new(self.values(&query, &catalog)?.into_iter());
        let next = || values.borrow_mut().next().ok_or_else(|| damaged("a locked table has grown"));
        self.rebuild(table, with(table, new), &|old| Ok([old, &[next()?]].concat()))
    }

    pub(crate) fn drop_column(
        &mut self,
        name: &Ident,
        table: &Arc<Table>,
        (if_exists, cascade): (bool, bool),
    ) -> Result<(), SqlError> {
        // An earlier operation may have changed the table.
        let table = self.catalog().table_numbered(table.oid)?.clone();
        let name = folded(name);
        let at = match table.column(&name) {
            Err(error) if if_exists => {
                let message = format!("{}, skipping", error.message);
                self.notices.push(SqlError::new("00000", message));
                return Ok(());
            }
            found => found?,
        };
        if table.key.contains(&at) {
            self.drop_key(&table, cascade)?;
            return self.drop_column(&Ident::with_quote('"', name), &table, (if_exists, cascade));
        }
        if table.shard.contains(&at) {
            return Err(SqlError::unsupported("dropping a column of the shard key")
                .hint("Shard the table by another one before."));
        }
        if table.columns.len() == 1 {
            return Err(SqlError::unsupported("a table without columns"));
        }
        let catalog = self.catalog();
        catalog.referring(table.oid).try_for_each(|(child, _)| in_one_order(child))?;
        let what = format!("column {name} of table {}", table.name);
        let of = (table.oid, &*what);
        let mut dependents = Dependent::keys(&catalog, of, |child, key| {
            let goes = child.oid == table.oid && key.columns.contains(&at);
            key.referenced.contains(&at) && !goes
        });
        dependents.extend(Dependent::views(&catalog, of, |_, used| used.looked_at.contains(&at)));
        for other in define::computed_of(&table, at, &catalog, &self.around.budget)? {
            dependents.push(Dependent::column(&table, other, &what));
        }
        self.drop_dependents(&what, &dependents, cascade)?;
        self.drop_owned(&table, Some(&name), cascade)?;
        // Columns that were computed from it may have been dropped.
        let at = self.catalog().table_numbered(table.oid)?.column(&name)?;
        // Its own default may have been dropped with a sequence.
        let table = self.catalog().table_numbered(table.oid)?.clone();
        let mut changed = Table::clone(&table);
        changed.columns.remove(at);
        changed.checks.retain(|check| mentioned(&check.condition, &[&name]).is_empty());
        changed.indexes.retain(|index| index.looked_at().all(|of| *of != at));
        let keys = changed.key.iter_mut().chain(&mut changed.shard);
        keys.filter(|key| **key > at).for_each(|key| *key -= 1);
        changed.foreign_keys.retain(|key| !key.columns.contains(&at));
        let fill = |old: &[Datum]| {
            let mut values = old.to_vec();
            values.remove(at);
            Ok(values)
        };
        self.backend.lock_definition(&table)?;
        self.rebuild(&table, changed, &fill)?;
        self.change(|catalog| close_gap(catalog, table.oid, at));
        Ok(())
    }

    pub(super) fn alter_column(
        &mut self,
        table: &Arc<Table>,
        at: usize,
        operation: &AlterColumnOperation,
    ) -> Result<(), SqlError> {
        let (mut changed, mut made_by) = (Table::clone(table), None);
        let column = &mut changed.columns[at];
        let of_identity = || {
            let message = format!(
                "column \"{}\" of relation \"{}\" is an identity column",
                column.name, table.name
            );
            SqlError::new(code::SYNTAX, message)
        };
        match operation {
            AlterColumnOperation::SetDefault { .. }
            | AlterColumnOperation::DropDefault
            | AlterColumnOperation::DropNotNull
                if column.identity.is_some() =>
            {
                return Err(of_identity());
            }
            AlterColumnOperation::SetDefault { .. } | AlterColumnOperation::DropDefault
                if column.is_generated =>
            {
                let message = format!(
                    "column \"{}\" of relation \"{}\" is a generated column",
                    column.name, table.name
                );
                let error = SqlError::new(code::SYNTAX, message);
                return Err(match operation {
                    AlterColumnOperation::DropDefault => {
                        error.hint("Use ALTER TABLE ... ALTER COLUMN ... DROP EXPRESSION instead.")
                    }
                    _ => error,
                });
            }
            AlterColumnOperation::SetDefault { value } => {
                let default = kept(&value.to_string(), column.ty, &self.catalog());
                let shown = self.catalog().column_type_shown(column);
                self.check_default(&default, (&column.name, column.ty), &shown)?;
                column.default = Some(default);
                self.replace(table, changed);
                return Ok(());
            }
            AlterColumnOperation::DropDefault => {
                column.default = None;
                self.replace(table, changed);
                return Ok(());
            }
            AlterColumnOperation::SetNotNull => column.not_null = true,
            AlterColumnOperation::DropNotNull if table.key.contains(&at) => {
                let message = format!("column \"{}\" is in a primary key", column.name);
                return Err(SqlError::new(code::INVALID_TABLE_DEFINITION, message));
            }
            AlterColumnOperation::DropNotNull if table.shard.contains(&at) => {
                let message = format!("column \"{}\" is in a shard key", column.name);
                return Err(SqlError::new(code::INVALID_TABLE_DEFINITION, message));
            }
            AlterColumnOperation::DropNotNull => column.not_null = false,
            AlterColumnOperation::SetDataType { data_type, using, .. } => {
                made_by.clone_from(using);
                if let Some(expr) = column.generated() {
                    if using.is_some() {
                        let message = "cannot specify USING when altering type of generated column";
                        let detail = format!("Column \"{}\" is a generated column.", column.name);
                        return Err(SqlError::new("42611", message).detail(detail));
                    }
                    made_by = Some(parse_expression(expr)?);
                }
                let named = self.catalog().named_type(data_type)?;
                (column.ty, column.domain) = (named.ty, named.domain);
                let was = table.columns[at].ty;
                self.check_assignable((&column.name, was), column.ty, made_by.as_ref(), table)?;
                let becomes_text =
                    column.ty.family() == Family::Text && was.family() != Family::Text;
                if made_by.is_none() && (becomes_text || column.domain.is_some()) {
                    // The text of a value depends on the session's settings, and a domain may
                    // refuse it.
                    made_by = Some(parse_expression(&quoted(&column.name))?);
                }
                if let Some(default) = column.default.as_ref().filter(|_| !column.is_generated) {
                    let parsed = parse_expression(&bound(default))?;
                    let (mut ty, mut kept) = (self.type_of(&parsed, None)?, default.clone());
                    let was = table.columns[at].ty.plain();
                    // Its value is one of the type that the column had. A label is its own text.
                    let is_label =
                        matches!(was, SqlType::Enum(_)) && ty.family() == Family::Unknown;
                    let is_as_text = is_label && column.ty.family() == Family::Text;
                    let is_other =
                        ty.family() != was.family() && was.family() != column.ty.family();
                    if is_other && !is_as_text {
                        kept = format!("({default})::{}", self.catalog().type_shown(was));
                        ty = was;
                    }
                    if !define::is_assignable(ty, column.ty) {
                        let (name, to) = (&column.name, self.catalog().type_shown(column.ty));
                        let message = format!(
                            "default for column \"{name}\" cannot be cast automatically to type {to}"
                        );
                        return Err(SqlError::new(code::DATATYPE_MISMATCH, message));
                    }
                    column.default = Some(kept);
                }
                if column.ty != table.columns[at].ty {
                    self.check_not_linked(table, at)?;
                    self.check_not_looked_at(table, at)?;
                }
                self.check_not_computed_of(table, at)?;
                if column.identity.is_some() {
                    check_identity(column.ty)?;
                    if column.domain.is_some() {
                        return Err(define::no_identity());
                    }
                    let own = self.catalog().sequence_of(table.oid, &column.name).cloned();
                    if let Some(own) = own {
                        let options = SequenceOptions { ty: Some(column.ty), ..Default::default() };
                        self.alter_sequence(&own, &options)?;
                    }
                }
            }
            other => return Err(SqlError::unsupported(format!("ALTER COLUMN .. {other}"))),
        }
        let (ty, shown) = (column.ty, self.catalog().type_shown(column.ty.without_modifier()));
        self.backend.lock_definition(table)?;
        if let Some(using) = made_by {
            let (catalog, from) = (self.catalog(), table.full_name().written());
            let query = format!("SELECT ({using})::{shown} FROM {from}");
            let query = self.query(&query, &catalog)?;
            let drawn = RefCell::new(self.values(&query, &catalog)?.into_iter());
            let next =
                || drawn.borrow_mut().next().ok_or_else(|| damaged("a locked table has grown"));
            return self.rebuild(table, changed, &|old| {
                let mut values = old.to_vec();
                // The value is assigned, so a text that is too long is not truncated.
                values[at] = convert(next()?, ty, false)?;
                Ok(values)
            });
        }
        let (from, settings) = (table.columns[at].ty, self.around.settings.clone());
        // Texts are not truncated, as in assignments.
        let explicit = !matches!(ty.family(), Family::Text | Family::Array);
        let is_array = from.plain().is_array() && ty.plain().is_array();
        let begun_us = self.around.begun_us;
        let fill = |old: &[Datum]| {
            let mut values = old.to_vec();
            let value = std::mem::replace(&mut values[at], Datum::Null);
            let times = settings.times();
            let elements = is_array.then(|| assigned(&value, (from, ty), times, begun_us));
            values[at] = match elements.flatten() {
                Some(array) => array?,
                None => convert(settings.zone().retyped(value, from, ty), ty, explicit)?,
            };
            Ok(values)
        };
        self.rebuild(table, changed, &fill)
    }

    fn type_of(
        &self,
        expr: &sqlparser::ast::Expr,
        over: Option<&Arc<Table>>,
    ) -> Result<SqlType, SqlError> {
        define::type_of(expr, over, &self.catalog(), &self.around.budget)
    }

    /// Refuses a new type to which the column's values, or those of USING, have no assignment cast.
    fn check_assignable(
        &self,
        (name, was): (&str, SqlType),
        to: SqlType,
        using: Option<&sqlparser::ast::Expr>,
        table: &Arc<Table>,
    ) -> Result<(), SqlError> {
        let from = using.map_or(Ok(was), |using| self.type_of(using, Some(table)))?;
        if define::is_assignable(from, to) {
            return Ok(());
        }
        let to = self.catalog().type_shown(to);
        let (what, hint) = match using {
            None => {
                ("column", format!("You might need to specify \"USING {}::{to}\".", quoted(name)))
            }
            Some(_) => (
                "result of USING clause for column",
                "You might need to add an explicit cast.".to_owned(),
            ),
        };
        let message = format!("{what} \"{name}\" cannot be cast automatically to type {to}");
        Err(SqlError::new(code::DATATYPE_MISMATCH, message).hint(hint))
    }

    /// Refuses a new type for a column in a foreign key or referenced by one.
    fn check_not_linked(&self, table: &Table, at: usize) -> Result<(), SqlError> {
        let catalog = self.catalog();
        let own = table.foreign_keys.iter().find(|key| key.columns.contains(&at));
        let referring =
            || catalog.referring(table.oid).find(|(_, key)| key.referenced.contains(&at));
        match own.or_else(|| referring().map(|(_, key)| key)) {
            None => Ok(()),
            Some(key) => {
                let what = format!("another type of a column of foreign key \"{}\"", key.name);
                Err(SqlError::unsupported(what).hint("Drop the key before, and add it again."))
            }
        }
    }

    /// Refuses a new type for a column that generated columns depend on.
    fn check_not_computed_of(&self, table: &Arc<Table>, at: usize) -> Result<(), SqlError> {
        let others = define::computed_of(table, at, &self.catalog(), &self.around.budget)?;
        let Some(&other) = others.first() else { return Ok(()) };
        let (own, other) = (&table.columns[at].name, &table.columns[other].name);
        let message = "cannot alter type of a column used by a generated column";
        Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message)
            .detail(format!("Column \"{own}\" is used by generated column \"{other}\".")))
    }

    /// Refuses a new type for a column that a view uses.
    fn check_not_looked_at(&self, table: &Table, at: usize) -> Result<(), SqlError> {
        let catalog = self.catalog();
        let mut users = catalog.users(table.oid).filter(|(_, used)| used.looked_at.contains(&at));
        let Some((view, _)) = users.next() else { return Ok(()) };
        let message = "cannot alter type of a column used by a view or rule";
        let (view, column) = (&view.name, &table.columns[at].name);
        let detail = format!("rule _RETURN on view {view} depends on column \"{column}\"");
        Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message).detail(detail))
    }

    pub(super) fn rename_column(
        &mut self,
        table: &Arc<Table>,
        from: &str,
        to: String,
    ) -> Result<(), SqlError> {
        let at = table.column(from)?;
        if table.columns.iter().any(|column| column.name == to) {
            let message = format!("column \"{to}\" of relation \"{}\" already exists", table.name);
            return Err(SqlError::new(code::DUPLICATE_COLUMN, message));
        }
        let catalog = self.catalog();
        let changed = define::renamed(table, Some(at), &to, &catalog, &self.around.budget)?;
        self.change(|catalog| {
            let said = catalog.comments.get(&(table.oid, from.to_owned())).cloned();
            catalog.comments.extend(said.map(|said| ((table.oid, to.clone()), said)));
            catalog.rename_rights(table.oid, from, &to);
            catalog.tables.insert(Arc::new(changed));
        });
        let own = self.catalog().sequence_of(table.oid, from).cloned();
        if let Some(mut own) = own.as_deref().cloned() {
            own.owner = own.owner.map(|owner| Owner { column: to, ..owner });
            self.change(|catalog| catalog.sequences.insert(Arc::new(own)));
        }
        Ok(())
    }
}

/// True if a value violates a domain.
fn is_of_domain(error: &SqlError) -> bool {
    matches!(error.code, code::CHECK_VIOLATION | code::NOT_NULL_VIOLATION)
}

/// Shifts the column indices of foreign keys and views after a column was dropped.
fn close_gap(catalog: &mut Catalog, table: u32, gone: usize) {
    catalog.views.change(|view| {
        if view.uses.iter().all(|used| used.oid != table) {
            return None;
        }
        let mut view = View::clone(view);
        for used in view.uses.iter_mut().filter(|used| used.oid == table) {
            // The view does not know columns that were added later.
            if gone < used.columns.len() {
                used.columns.remove(gone);
                let place = |at: &usize| at - usize::from(*at > gone);
                used.looked_at = used.looked_at.iter().map(place).collect();
            }
        }
        Some(view)
    });
    let close = |columns: &mut [usize]| {
        columns.iter_mut().filter(|at| **at > gone).for_each(|at| *at -= 1);
    };
    catalog.tables.change(|child| {
        let concerns = |key: &Arc<ForeignKey>| child.oid == table || key.parent == table;
        if !child.foreign_keys.iter().any(concerns) {
            return None;
        }
        let is_own = child.oid == table;
        let mut child = Table::clone(child);
        for key in &mut child.foreign_keys {
            let key = Arc::make_mut(key);
            if is_own {
                close(&mut key.columns);
            }
            if key.parent == table {
                close(&mut key.referenced);
            }
        }
        Some(child)
    });
}

fn with_column(table: &Table, new: &NewColumn) -> Table {
    let mut changed = Table::clone(table);
    changed.columns.push(new.column.clone());
    changed
}

/// The table with one more column and its conditions.
fn with(table: &Table, new: NewColumn) -> Table {
    let mut changed = Table::clone(table);
    changed.columns.push(new.column);
    changed.checks.extend(new.checks);
    changed
}
