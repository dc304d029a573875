//! ALTER TABLE.
//!
//! ```text
//!   names, defaults, checks     only the catalog changes
//!   a new column                likewise: existing rows get its missing value from the catalog
//!   other columns, types, keys  a new store table is filled from the old one and replaces it
//! ```
//!
//! The columns of a table decide the layout of its rows in the store, so changing existing columns
//! means rewriting the rows. So does adding a column with a volatile default, or one that is NOT
//! NULL without a default. During the rewrite the table is locked against writers, and readers use
//! the old rows until the new store table replaces them. Adding only a primary key happens [while
//! the table is in use](crate::reshard).
//!
//! Left out: the partitions of a rewritten table are not kept; it begins as one partition.

mod columns;
mod otherwise;
mod rebuild;

use crate::ddl::Definer;
use crate::dependents::Dependent;
use crate::engine::{Engine, damaged, is_table_ordered, switch_isolation};
use crate::foreign::Rows;
use crate::indexes::{free_name, index_name, sharding};
use isomer_sql::catalog::{Catalog, Check, Name, Named, Table, TableColumn};
use isomer_sql::checks::Names;
use isomer_sql::comment::rename_comment;
use isomer_sql::datum::Datum;
use isomer_sql::define::{self, NewIndex, plain_name};
use isomer_sql::expr::Expr;
use isomer_sql::foreign::{ForeignKey, unique_over};
use isomer_sql::parameters;
use isomer_sql::parse::{parse, parse_expression};
use isomer_sql::sequence::bound;
use isomer_sql::statement::{Action, Compiled, compile};
use isomer_sql::types::SqlType;
use isomer_sql::{SqlError, code};
use sqlparser::ast::{
    AlterTableOperation, DropBehavior, Ident, ObjectName, RenameTableNameKind, SqlOption,
    TableConstraint,
};
use std::sync::Arc;

impl Definer<'_> {
    /// Executes one operation.
    pub(crate) fn alter(
        &mut self,
        name: &ObjectName,
        operation: &AlterTableOperation,
    ) -> Result<(), SqlError> {
        use AlterTableOperation as Operation;
        let named = Named::of(name)?;
        if let Some(done) = self.alter_other_relation(&named, operation)? {
            return Ok(done);
        }
        let table = self.catalog().table(&named)?.clone();
        in_one_order(&table)?;
        match operation {
            Operation::AddConstraint { constraint, not_valid } => {
                self.add_constraint(&table, constraint, *not_valid)
            }
            Operation::ValidateConstraint { name } => {
                self.validate_constraint(&table, &folded(name))
            }
            Operation::DropConstraint { name, if_exists, drop_behavior } => {
                let how = (*if_exists, *drop_behavior == Some(DropBehavior::Cascade));
                self.drop_constraint(&table, name, how)
            }
            Operation::AddColumn { column_def, if_not_exists, .. } => {
                self.add_column(&table, column_def, *if_not_exists)
            }
            Operation::DropColumn { column_names, if_exists, drop_behavior, .. } => {
                let how = (*if_exists, *drop_behavior == Some(DropBehavior::Cascade));
                column_names.iter().try_for_each(|name| self.drop_column(name, &table, how))
            }
            Operation::AlterColumn { column_name, op } => {
                self.alter_column(&table, table.column(&folded(column_name))?, op)
            }
            Operation::RenameColumn { old_column_name, new_column_name } => {
                self.rename_column(&table, &folded(old_column_name), folded(new_column_name))
            }
            Operation::RenameTable {
                table_name: RenameTableNameKind::As(to) | RenameTableNameKind::To(to),
            } => self.rename_table(&table, plain_name(to)?),
            Operation::RenameConstraint { old_name, new_name } => {
                self.rename_constraint(&table, &folded(old_name), folded(new_name))
            }
            Operation::SetOptionsParens { options }
                if !parameters::shard_by(options)?.is_empty() =>
            {
                Err(SqlError::unsupported("ALTER TABLE .. SET (shard_by)")
                    .hint("ALTER TABLE .. SHARD BY (..) does it while the table is used."))
            }
            Operation::SetOptionsParens { options }
                if is_switch(&self.engine, &table, options)? =>
            {
                if self.is_in_block {
                    let message =
                        "ALTER TABLE .. SET (isolation) cannot run inside a transaction block";
                    return Err(SqlError::new(code::ACTIVE_TRANSACTION, message));
                }
                self.backend.lock_definition(&table)?;
                let is_ordered = parameters::is_ordered(options)?.unwrap_or(false);
                switch_isolation(&self.engine, &self.catalog(), &table, is_ordered)?;
                self.alter(name, operation)
            }
            Operation::SetOptionsParens { options }
                if let Some(mode) = parameters::autopilot(options)? =>
            {
                if self.is_in_block {
                    let message =
                        "ALTER TABLE .. SET (autopilot) cannot run inside a transaction block";
                    return Err(SqlError::new(code::ACTIVE_TRANSACTION, message));
                }
                crate::restraints::set_mode(&self.engine, &table, &mode)?;
                let is_other = |option: &&SqlOption| match option {
                    SqlOption::KeyValue { key, .. } => !key.value.eq_ignore_ascii_case("autopilot"),
                    _ => true,
                };
                let options = options.iter().filter(is_other).cloned().collect();
                self.alter(name, &Operation::SetOptionsParens { options })
            }
            Operation::SetOptionsParens { options } => match parameters::backups(options)? {
                // These belong to the design, which is not transactional.
                Some(_) if self.is_in_block => {
                    let message =
                        "ALTER TABLE .. SET (backups) cannot run inside a transaction block";
                    Err(SqlError::new(code::ACTIVE_TRANSACTION, message))
                }
                Some(backups) => {
                    self.engine.set_backups(&table, backups)?;
                    self.notices.extend(self.engine.backups_together(&table));
                    Ok(())
                }
                None => Ok(()),
            },
            other => Err(SqlError::unsupported(format!("ALTER TABLE .. {other}"))),
        }
    }

    fn add_constraint(
        &mut self,
        table: &Arc<Table>,
        constraint: &TableConstraint,
        not_valid: bool,
    ) -> Result<(), SqlError> {
        define::check_constraint(constraint)?;
        if not_valid && !matches!(constraint, TableConstraint::ForeignKey(_)) {
            return Err(SqlError::unsupported("NOT VALID of anything but a foreign key"));
        }
        let columns = |columns| define::columns_of(&table.columns, &table.name, columns);
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                let name = key.name.as_ref().map(folded);
                self.set_key(table, columns(&key.columns)?, name)
            }
            TableConstraint::Unique(unique) => {
                let columns = columns(&unique.columns)?;
                self.add_unique(table, NewIndex::of_constraint(unique, columns))
            }
            TableConstraint::ForeignKey(key) => {
                let rows = if not_valid { Rows::Later } else { Rows::All };
                self.add_foreign_key(table.oid, key, rows)
            }
            TableConstraint::Check(check) => {
                self.backend.lock_definition(table)?;
                let condition = self.catalog().with_kept_types(&check.expr.to_string());
                let columns = table.columns.iter().map(|column| column.name.as_str());
                let mut names = Names::new(&table.name, columns, table.constraint_names());
                let name = check
                    .name
                    .as_ref()
                    .map(|name| free_constraint_name(table, name))
                    .transpose()?;
                let check = names.named(name, condition)?;
                self.check_conditions(&Table {
                    checks: vec![check.clone()],
                    ..Table::clone(table)
                })?;
                self.check_rows(table, std::slice::from_ref(&check))?;
                let mut changed = Table::clone(table);
                changed.checks.push(check);
                self.replace(table, changed);
                Ok(())
            }
            other => Err(SqlError::unsupported(format!("ADD {other}"))),
        }
    }

    fn add_unique(&mut self, table: &Arc<Table>, new: NewIndex) -> Result<(), SqlError> {
        let wanted = || index_name(&self.catalog(), table, &new, "key");
        let named = new.name.clone().map(|name| Name { name, ..table.full_name() });
        let name = named.unwrap_or_else(wanted);
        self.check_free(&name)?;
        check_constraint_name(table, &name.name)?;
        self.add_index(table, &new, name.name, true)
    }

    fn drop_constraint(
        &mut self,
        table: &Arc<Table>,
        name: &Ident,
        (if_exists, cascade): (bool, bool),
    ) -> Result<(), SqlError> {
        let name = folded(name);
        if table.indexes.iter().any(|index| index.name == name && index.constraint) {
            return self.drop_index(table, &name, cascade);
        }
        if table.has_key() && table.key_name == name {
            return self.drop_key(table, cascade);
        }
        if table.has_constraint(&name) {
            if table.foreign_keys.iter().any(|key| key.name == name) {
                self.backend.lock_definition(table)?;
            }
            let mut changed = Table::clone(table);
            changed.checks.retain(|check| check.name != name);
            changed.foreign_keys.retain(|key| key.name != name);
            self.replace(table, changed);
            return Ok(());
        }
        let message =
            format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name);
        if !if_exists {
            return Err(SqlError::new(code::UNDEFINED_OBJECT, message));
        }
        self.notices.push(SqlError::new("00000", format!("{message}, skipping")));
        Ok(())
    }

    fn rename_constraint(
        &mut self,
        table: &Arc<Table>,
        from: &str,
        to: String,
    ) -> Result<(), SqlError> {
        let oid = table.oid;
        self.change(|catalog| rename_comment(catalog, oid, from, &to));
        let is_unique = table.indexes.iter().any(|index| index.constraint && index.name == from);
        if is_unique || (table.has_key() && table.key_name == from) {
            let name = Name { name: from.to_owned(), ..table.full_name() };
            return self.rename_index(&Named::from(&name), to);
        }
        let mut changed = Table::clone(table);
        if let Some(key) = changed.foreign_keys.iter_mut().find(|key| key.name == from) {
            let to = free_constraint_name(table, &Ident::with_quote('"', to))?;
            Arc::make_mut(key).name = to;
            self.replace(table, changed);
            return Ok(());
        }
        let Some(check) = changed.checks.iter_mut().find(|check| check.name == from) else {
            let message =
                format!("constraint \"{from}\" for table \"{}\" does not exist", table.name);
            return Err(SqlError::new(code::UNDEFINED_OBJECT, message));
        };
        check.name = free_constraint_name(table, &Ident::with_quote('"', to))?;
        self.replace(table, changed);
        Ok(())
    }

    fn rename_table(&mut self, table: &Arc<Table>, to: String) -> Result<(), SqlError> {
        self.check_free(&Name { name: to.clone(), ..table.full_name() })?;
        let catalog = self.catalog();
        let new = define::renamed(table, None, &to, &catalog, &self.around.budget)?;
        self.replace(table, new);
        Ok(())
    }

    /// Gives a primary key to a table that was created without one.
    fn set_key(
        &mut self,
        table: &Arc<Table>,
        key: Vec<usize>,
        name: Option<String>,
    ) -> Result<(), SqlError> {
        let key_name = check_key(&self.catalog(), table, name)?;
        let mut columns: Vec<TableColumn> = table.columns.clone();
        key.iter().for_each(|&at| columns[at].not_null = true);
        let changed = Table { columns, key, key_name, ..Table::clone(table) };
        self.backend.lock_definition(table)?;
        self.rebuild(table, changed, &|old| Ok(old.to_vec()))
    }

    /// Drops the primary key of a table: its rows get row ids.
    pub(super) fn drop_key(&mut self, table: &Arc<Table>, cascade: bool) -> Result<(), SqlError> {
        let mut without = Table::clone(table);
        without.key = Vec::new();
        let needs_it = |key: &ForeignKey| unique_over(&without, &key.referenced).is_none();
        let on = format!("index {}", table.key_name);
        let keys = Dependent::keys(&self.catalog(), (table.oid, &on), |_, key| needs_it(key));
        let what = format!("constraint {} on table {}", table.key_name, table.name);
        self.drop_dependents(&what, &keys, cascade)?;
        // The table may have referred to itself.
        let table = self.catalog().table_numbered(table.oid)?.clone();
        self.backend.lock_definition(&table)?;
        let mut changed = Table::clone(&table);
        (changed.key, changed.key_name) = (Vec::new(), String::new());
        self.rebuild(&table, changed, &|old| Ok(old.to_vec()))
    }

    /// Refuses generated columns with expressions that are not immutable.
    pub(crate) fn check_generated(&self, table: &Table) -> Result<(), SqlError> {
        if table.columns.iter().all(|column| !column.is_generated) {
            return Ok(());
        }
        let (table, catalog) = (Arc::new(table.clone()), self.catalog());
        (0..table.columns.len())
            .try_for_each(|at| define::check_generated(&table, at, &catalog, &self.around.budget))
    }

    /// Refuses checks that are not valid conditions on a row.
    pub(crate) fn check_conditions(&self, table: &Table) -> Result<(), SqlError> {
        let table = Arc::new(table.clone());
        define::check_conditions(&table, &self.catalog(), &self.around.budget)
    }

    /// Refuses a default of a column, or of a domain, that cannot be assigned to its type. `shown`
    /// is the name of the type.
    pub(crate) fn check_default(
        &self,
        default: &str,
        (name, ty): (&str, SqlType),
        shown: &str,
    ) -> Result<(), SqlError> {
        let (catalog, default) = (self.catalog(), bound(default));
        let parsed = parse_expression(&default)?;
        let from = define::type_of(&parsed, None, &catalog, &self.around.budget);
        // A literal is one of the type.
        let query = match from {
            Ok(from) if from != SqlType::Unknown => format!("SELECT ({default})"),
            _ => format!("SELECT ({default})::{shown}"),
        };
        let compiled = self.query(&query, &self.catalog())?;
        let Action::Select(plan) = &compiled.action else { return Ok(()) };
        let refused =
            |code, what: &str, place: &str| Err(SqlError::new(code, format!("{what} {place}")));
        let not_allowed = "are not allowed in DEFAULT expressions";
        if plan.group.is_some() {
            return refused(code::GROUPING, "aggregate functions", not_allowed);
        }
        if !plan.windows.is_empty() {
            return refused(code::WINDOWING, "window functions", not_allowed);
        }
        if !plan.steps.is_empty() {
            let what = "set-returning functions";
            return refused(code::FEATURE_NOT_SUPPORTED, what, not_allowed);
        }
        if plan.project.iter().any(Expr::has_query) {
            let what = "cannot use subquery in";
            return refused(code::FEATURE_NOT_SUPPORTED, what, "DEFAULT expression");
        }
        let from = from?;
        if !define::is_assignable(from, ty) {
            let to = if shown == catalog.type_shown(ty) { ty.without_modifier() } else { ty };
            let (to, from) = (catalog.type_shown(to), from.without_modifier());
            let message = format!(
                "column \"{name}\" is of type {to} but default expression is of type {from}"
            );
            let hint = "You will need to rewrite or cast the expression.";
            return Err(SqlError::new(code::DATATYPE_MISMATCH, message).hint(hint));
        }
        Ok(())
    }

    /// Refuses the rows of a table, as it is about to be, that violate one of `checks`.
    fn check_rows(&mut self, table: &Table, checks: &[Check]) -> Result<(), SqlError> {
        let mut catalog = Catalog::clone(&self.catalog());
        catalog.tables.insert(Arc::new(table.clone()));
        for Check { name, condition } in checks {
            let from = table.full_name().written();
            let table = &table.name;
            let broken = format!("SELECT 1 FROM {from} WHERE NOT ({condition}) LIMIT 1");
            if !self.values(&self.query(&broken, &catalog)?, &catalog)?.is_empty() {
                let message = format!(
                    "check constraint \"{name}\" of relation \"{table}\" is violated by some row"
                );
                return Err(SqlError::new(code::CHECK_VIOLATION, message));
            }
        }
        Ok(())
    }

    pub(crate) fn query(&self, query: &str, catalog: &Catalog) -> Result<Compiled, SqlError> {
        let Some(parsed) = parse(query)?.pop() else { return Err(damaged("an empty query")) };
        compile(&parsed, query, catalog, &[], &self.around.budget)
    }

    /// The first value of each row of a query.
    pub(crate) fn values(
        &mut self,
        query: &Compiled,
        catalog: &Catalog,
    ) -> Result<Vec<Datum>, SqlError> {
        let mut found = Vec::new();
        query.run(self.backend, &[], self.around, catalog, &mut |values: &[Datum]| {
            found.extend(values.first().cloned());
            Ok(())
        })?;
        Ok(found)
    }
}

/// The name of a new primary key. Refuses a second primary key, and the name of an existing
/// relation.
pub(crate) fn check_key(
    catalog: &Catalog,
    table: &Table,
    name: Option<String>,
) -> Result<String, SqlError> {
    if table.has_key() {
        let message = format!("multiple primary keys for table \"{}\" are not allowed", table.name);
        return Err(SqlError::new(code::INVALID_TABLE_DEFINITION, message));
    }
    let free = || free_name(catalog, &table.full_name(), ("", "pkey"), |_| false).name;
    let name = name.unwrap_or_else(free);
    if catalog.has_relation(&Name { name: name.clone(), ..table.full_name() }) {
        return Err(taken(&name));
    }
    check_constraint_name(table, &name)?;
    Ok(name)
}

/// 42P07 for the name of an existing relation.
pub(crate) fn taken(name: &str) -> SqlError {
    let message = format!("relation \"{name}\" already exists");
    SqlError::new(code::DUPLICATE_TABLE, message)
}

/// Refuses a table with two layouts: a definition would have to apply to both.
pub(crate) fn in_one_order(table: &Table) -> Result<(), SqlError> {
    let Some(beside) = &table.beside else { return Ok(()) };
    let message = format!("table \"{}\" is also kept as it was before", table.name);
    let (stay, go_back) = (sharding(table), sharding(&beside.layout));
    let hint = match beside.layout.key == table.key {
        true => format!("{stay} lets go of that, {go_back} goes back to it."),
        false => format!("{stay} lets go of that."),
    };
    Err(SqlError::new("55006", message).hint(hint))
}

/// The name for a constraint, if it is free.
fn free_constraint_name(table: &Table, wanted: &Ident) -> Result<String, SqlError> {
    let name = folded(wanted);
    check_constraint_name(table, &name)?;
    Ok(name)
}

/// Refuses the name of an existing constraint of the table.
pub(crate) fn check_constraint_name(table: &Table, name: &str) -> Result<(), SqlError> {
    match table.has_constraint(name) {
        true => Err(define::constraint_taken(&table.name, name)),
        false => Ok(()),
    }
}

pub(crate) fn folded(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

/// True if the options give a table, or a part of it, another isolation.
fn is_switch(engine: &Engine, table: &Table, options: &[SqlOption]) -> Result<bool, SqlError> {
    let wanted = parameters::is_ordered(options)?;
    let differs = |is: bool| table.parts().any(|(id, _)| is_table_ordered(engine, id) != is);
    Ok(wanted.is_some_and(differs))
}
