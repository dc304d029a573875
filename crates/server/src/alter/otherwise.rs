//! ALTER, in the forms that have [statements of their own](isomer_sql::parse::AlterChange).

use super::in_one_order;
use crate::ddl::Definer;
use isomer_sql::catalog::Table;
use isomer_sql::define::plain_name;
use isomer_sql::parse::{AlterChange, AlterStatement};
use isomer_sql::view::View;
use isomer_sql::{SqlError, code};
use std::sync::Arc;

impl Definer<'_> {
    pub(crate) fn alter_otherwise(&mut self, alter: &AlterStatement) -> Result<(), SqlError> {
        let (name, catalog) = (plain_name(&alter.name)?, self.catalog());
        if alter.if_exists && !catalog.has_relation(&name) {
            let message = format!("relation \"{name}\" does not exist, skipping");
            self.notices.push(SqlError::new("00000", message));
            return Ok(());
        }
        match &alter.change {
            AlterChange::RenameIndex(to) => self.rename_index(&name, to.clone()),
            AlterChange::IndexParameters => self.check_index(&name),
            AlterChange::RenameView(to) => {
                let mut view = View::clone(self.view(&name)?.as_ref());
                self.check_free(to)?;
                view.name.clone_from(to);
                self.change(|catalog| {
                    catalog.views.remove(&name);
                    catalog.views.insert(view.name.clone(), Arc::new(view));
                });
                Ok(())
            }
            AlterChange::RenameViewColumn(from, to) => self.rename_view_column(&name, from, to),
            AlterChange::DropExpression(column, if_exists) => {
                let table = catalog.table(&name)?;
                in_one_order(table)?;
                self.drop_expression(table, column, *if_exists)
            }
            AlterChange::Constraint { name: constraint, deferrable, deferred } => {
                let table = catalog.table(&name)?;
                in_one_order(table)?;
                self.alter_constraint(table, constraint, (*deferrable, *deferred))
            }
        }
    }

    fn view(&self, name: &str) -> Result<Arc<View>, SqlError> {
        let catalog = self.catalog();
        catalog.views.get(name).cloned().ok_or_else(|| match catalog.has_relation(name) {
            true => SqlError::new(code::WRONG_OBJECT, format!("\"{name}\" is not a view")),
            false => {
                let message = format!("relation \"{name}\" does not exist");
                SqlError::new(code::UNDEFINED_TABLE, message)
            }
        })
    }

    /// The text of other views calls the column what it did.
    fn rename_view_column(&mut self, name: &str, from: &str, to: &str) -> Result<(), SqlError> {
        let mut view = View::clone(self.view(name)?.as_ref());
        if view.columns.iter().any(|(other, _)| other == to) {
            let message = format!("column \"{to}\" of relation \"{name}\" already exists");
            return Err(SqlError::new(code::DUPLICATE_COLUMN, message));
        }
        let Some(column) = view.columns.iter_mut().find(|(other, _)| other == from) else {
            let message = format!("column \"{from}\" does not exist");
            return Err(SqlError::new(code::UNDEFINED_COLUMN, message));
        };
        to.clone_into(&mut column.0);
        let said = self.catalog().comments.get(&(view.oid, from.to_owned())).cloned();
        let topic = (view.oid, to.to_owned());
        self.change(|catalog| {
            catalog.views.insert(view.name.clone(), Arc::new(view));
            catalog.comments.extend(said.map(|said| (topic, said)));
        });
        Ok(())
    }

    fn check_index(&self, name: &str) -> Result<(), SqlError> {
        let catalog = self.catalog();
        let is_key = catalog.tables.values().any(|table| table.has_key() && table.key_name == name);
        match is_key || catalog.index(name).is_some() {
            true => Ok(()),
            false if catalog.has_relation(name) => {
                let message = format!("\"{name}\" is not an index");
                Err(SqlError::new(code::WRONG_OBJECT, message))
            }
            false => {
                let message = format!("relation \"{name}\" does not exist");
                Err(SqlError::new(code::UNDEFINED_TABLE, message))
            }
        }
    }

    fn drop_expression(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        if_exists: bool,
    ) -> Result<(), SqlError> {
        let at = table.column(name)?;
        if !table.columns[at].is_generated {
            let message = format!(
                "column \"{name}\" of relation \"{}\" is not a stored generated column",
                table.name
            );
            if !if_exists {
                return Err(SqlError::new(code::NOT_READY, message));
            }
            self.notices.push(SqlError::new("00000", format!("{message}, skipping")));
            return Ok(());
        }
        let mut changed = Table::clone(table);
        (changed.columns[at].default, changed.columns[at].is_generated) = (None, false);
        self.replace(table, changed);
        Ok(())
    }

    /// Says when a foreign key is checked. What is not said is as if the key were made so.
    fn alter_constraint(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        (deferrable, deferred): (Option<bool>, Option<bool>),
    ) -> Result<(), SqlError> {
        if !table.has_constraint(name) {
            let message =
                format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name);
            return Err(SqlError::new(code::UNDEFINED_OBJECT, message));
        }
        let deferred = deferred.unwrap_or(false);
        if deferred && deferrable == Some(false) {
            let message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
            return Err(SqlError::new(code::SYNTAX, message));
        }
        self.backend.lock_definition(table)?;
        let mut changed = Table::clone(table);
        let Some(key) = changed.foreign_keys.iter_mut().find(|key| key.name == name) else {
            let message = format!(
                "constraint \"{name}\" of relation \"{}\" is not a foreign key constraint",
                table.name
            );
            return Err(SqlError::new(code::WRONG_OBJECT, message));
        };
        let key = Arc::make_mut(key);
        (key.deferrable, key.deferred) = (deferrable.unwrap_or(deferred), deferred);
        self.replace(table, changed);
        Ok(())
    }
}
