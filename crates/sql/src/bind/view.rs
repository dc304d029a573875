//! Views, where they are mentioned: their text is bound as that of a query in FROM, apart from all that is around it,
//! with the names as they were ([`crate::view`]).

use super::query::{not_locked, tree_bytes};
use super::{Binder, Scope};
use crate::catalog::Table;
use crate::error::SqlError;
use crate::plan::Source;
use crate::view::{Used, View};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The columns of a source, as they were called when what is bound was made; it may have more by now.
pub(super) type Shape = Option<Vec<String>>;

impl Binder<'_> {
    /// A table or a view, by what the text that is bound calls it.
    pub(super) fn relation(&mut self, name: &str) -> Result<Option<(Source, Shape)>, SqlError> {
        if let Some(inside) = self.view.clone() {
            let Some(used) = inside.used(name) else { return Ok(None) };
            let shape = Some(used.columns.clone());
            if let Some(table) = self.catalog.table_of(used.oid) {
                return Ok(Some((Source::Table(table.clone()), shape)));
            }
            return match self.catalog.view_of(used.oid).cloned() {
                Some(view) => Ok(Some((self.mentioned_view(&view)?, shape))),
                None => Ok(None),
            };
        }
        if let Some(table) = self.catalog.tables.get(name).cloned() {
            self.note_table(&table);
            return Ok(Some((Source::Table(table), None)));
        }
        let Some(view) = self.catalog.views.get(name).cloned() else { return Ok(None) };
        let columns = || view.columns.iter().map(|(name, _)| name.clone()).collect();
        self.note(view.oid, name, columns);
        Ok(Some((self.mentioned_view(&view)?, None)))
    }

    fn mentioned_view(&mut self, view: &Arc<View>) -> Result<Source, SqlError> {
        let query = view.parsed()?;
        self.budget.charge(tree_bytes(&query))?;
        self.budget.deeper()?;
        let outer = self.view.replace(view.clone());
        let text = std::mem::take(&mut self.text);
        let is_change = std::mem::take(&mut self.is_change);
        let (scopes, named) = (std::mem::take(&mut self.scopes), std::mem::take(&mut self.named));
        let (params, targets) =
            (std::mem::take(&mut self.params), std::mem::take(&mut self.targets));
        let bound = self.query(&query);
        (self.view, self.text, self.is_change) = (outer, text, is_change);
        (self.scopes, self.named) = (scopes, named);
        (self.params, self.targets) = (params, targets);
        // Where in its text is nothing to the client.
        let bound = bound.map_err(|error| SqlError { position: None, ..error });
        let mut bound = not_locked(bound?)?;
        for (column, (name, _)) in bound.output.iter_mut().zip(&view.columns) {
            column.name.clone_from(name);
        }
        Ok(Source::Query(Arc::new(bound)))
    }

    fn note_table(&mut self, table: &Table) {
        let columns = || table.columns.iter().map(|column| column.name.clone()).collect();
        self.note(table.oid, &table.name, columns);
    }

    /// While a view is made: its text names this.
    fn note(&mut self, oid: u32, name: &str, columns: impl FnOnce() -> Vec<String>) {
        let Some(uses) = &mut self.uses else { return };
        if uses.iter().all(|used| used.oid != oid) {
            let (columns, looked_at) = (columns(), BTreeSet::new());
            uses.push(Used { oid, name: name.to_owned(), columns, looked_at });
        }
    }

    /// While a view is made: the columns that a query in it looks at.
    pub(super) fn note_columns(&mut self, scope: &Scope) {
        let (Some(uses), None) = (&mut self.uses, &self.view) else { return };
        for column in scope.columns.iter().filter(|column| scope.used[column.slot]) {
            let used = uses.iter_mut().find(|used| used.oid == column.origin.0);
            if let (Some(used), Ok(number)) = (used, usize::try_from(column.origin.1)) {
                used.looked_at.extend(number.checked_sub(1));
            }
        }
    }
}
