//! ALTER in the forms with [statements of their own](isomer_sql::parse::AlterChange).

use super::in_one_order;
use crate::ddl::Definer;
use crate::enums::found;
use isomer_sql::catalog::{MadeType, Name, Named, Relation, Table};
use isomer_sql::define::plain_name;
use isomer_sql::parse::{AlterChange, AlterStatement};
use isomer_sql::view::View;
use isomer_sql::{SqlError, code};
use sqlparser::ast::{AlterTableOperation, RenameTableNameKind};
use std::sync::Arc;

impl Definer<'_> {
    pub(crate) fn alter_otherwise(&mut self, alter: &AlterStatement) -> Result<(), SqlError> {
        let (named, catalog) = (Named::of(&alter.name)?, self.catalog());
        match &alter.change {
            AlterChange::SetSchema("ALTER TYPE", to) => return self.set_type_schema(&named, to),
            AlterChange::TypeOwner(owner) => {
                let made = catalog.made_named(&named);
                let made = made.map_or_else(|| found(&catalog, &named).map(MadeType::Enum), Ok)?;
                return self.set_type_owner(&made, owner);
            }
            _ => {}
        }
        if alter.if_exists && catalog.lookup(&named).is_none() {
            let message = format!("relation \"{named}\" does not exist, skipping");
            self.notices.push(SqlError::new("00000", message));
            return Ok(());
        }
        match &alter.change {
            AlterChange::RenameIndex(to) => self.rename_index(&named, to.clone()),
            AlterChange::IndexParameters => match catalog.lookup(&named) {
                Some(Relation::Index(..) | Relation::Key(_)) => Ok(()),
                _ => Err(catalog.no_relation(&named, "index")),
            },
            AlterChange::RenameView(to) => self.rename_view(&named, to),
            AlterChange::RenameViewColumn(from, to) => self.rename_view_column(&named, from, to),
            AlterChange::SetSchema(_, to) => match catalog.lookup(&named) {
                Some(Relation::Table(table)) => {
                    in_one_order(table)?;
                    self.set_schema(&table.full_name(), to)
                }
                Some(Relation::View(view)) => self.set_schema(&view.full_name(), to),
                Some(Relation::Sequence(sequence)) => self.set_schema(&sequence.full_name(), to),
                _ => Err(catalog.no_relation(&named, "table")),
            },
            AlterChange::TypeOwner(_) => unreachable!("a type is no relation"),
            AlterChange::DropExpression(column, if_exists) => {
                let table = catalog.table(&named)?;
                in_one_order(table)?;
                self.drop_expression(table, column, *if_exists)
            }
            AlterChange::Constraint { name: constraint, deferrable, deferred } => {
                let table = catalog.table(&named)?;
                in_one_order(table)?;
                self.alter_constraint(table, constraint, (*deferrable, *deferred))
            }
        }
    }

    /// ALTER TABLE on a view or a sequence, which it can rename.
    pub(super) fn alter_other_relation(
        &mut self,
        named: &Named,
        operation: &AlterTableOperation,
    ) -> Result<Option<()>, SqlError> {
        let catalog = self.catalog();
        let to = match operation {
            AlterTableOperation::RenameTable {
                table_name: RenameTableNameKind::As(to) | RenameTableNameKind::To(to),
            } => plain_name(to)?,
            _ => return Ok(None),
        };
        match catalog.lookup(named) {
            Some(Relation::View(_)) => self.rename_view(named, &to).map(Some),
            Some(Relation::Sequence(sequence)) => self.rename_sequence(sequence, &to).map(Some),
            Some(Relation::Index(..) | Relation::Key(_)) => self.rename_index(named, to).map(Some),
            _ => Ok(None),
        }
    }

    fn rename_view(&mut self, named: &Named, to: &str) -> Result<(), SqlError> {
        let mut view = View::clone(self.view(named)?.as_ref());
        let from = view.full_name();
        self.check_free(&Name { name: to.to_owned(), ..from.clone() })?;
        to.clone_into(&mut view.name);
        self.change(|catalog| {
            catalog.views.remove(&from);
            catalog.views.insert(Arc::new(view));
        });
        Ok(())
    }

    fn view(&self, named: &Named) -> Result<Arc<View>, SqlError> {
        let catalog = self.catalog();
        catalog.view(named).cloned().ok_or_else(|| match catalog.lookup(named) {
            Some(_) => {
                SqlError::new(code::WRONG_OBJECT, format!("\"{}\" is not a view", named.name))
            }
            None => {
                let message = format!("relation \"{named}\" does not exist");
                SqlError::new(code::UNDEFINED_TABLE, message)
            }
        })
    }

    /// The texts of other views keep the old name of the column.
    fn rename_view_column(&mut self, named: &Named, from: &str, to: &str) -> Result<(), SqlError> {
        let mut view = View::clone(self.view(named)?.as_ref());
        if view.columns.iter().any(|(other, _)| other == to) {
            let message = format!("column \"{to}\" of relation \"{}\" already exists", view.name);
            return Err(SqlError::new(code::DUPLICATE_COLUMN, message));
        }
        let Some(column) = view.columns.iter_mut().find(|(other, _)| other == from) else {
            let message = format!("column \"{from}\" does not exist");
            return Err(SqlError::new(code::UNDEFINED_COLUMN, message));
        };
        to.clone_into(&mut column.0);
        let said = self.catalog().comments.get(&(view.oid, from.to_owned())).cloned();
        let oid = view.oid;
        self.change(|catalog| {
            catalog.views.insert(Arc::new(view));
            catalog.comments.extend(said.map(|said| ((oid, to.to_owned()), said)));
            catalog.rename_rights(oid, from, to);
        });
        Ok(())
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

    /// Sets when a foreign key is checked. An omitted option gets the default of a new key.
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
