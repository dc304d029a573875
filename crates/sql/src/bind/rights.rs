//! The rights that a statement requires: collected during binding, [checked](crate::rights::check)
//! when it runs.
//!
//! ```text
//!   update t set a = b where c = 1      UPDATE of t (a), SELECT of t (b, c)
//!   delete from t                       DELETE of t only
//!   select count(*) from t              SELECT of t, of any column
//! ```
//!
//! Constraints, generated columns and foreign keys of a table require no rights.

use super::{Binder, Scope};
use crate::catalog::{Named, Table};
use crate::rights::{Kind, Need, Object, Rights};
use std::collections::BTreeSet;

impl Binder<'_> {
    /// Requires a right, on behalf of the view whose text is being bound.
    pub(super) fn need(&mut self, object: Object, kind: Kind, right: Rights) -> &mut Need {
        let view = self.view.as_ref().map(|view| view.oid);
        let is_it = |need: &Need| need.object == object && need.right == right && need.view == view;
        let at = self.needs.iter().position(is_it).unwrap_or_else(|| {
            self.needs.push(Need { object, kind, right, columns: BTreeSet::new(), view });
            self.needs.len() - 1
        });
        &mut self.needs[at]
    }

    /// Requires SELECT on a relation, before the columns are known.
    pub(super) fn need_to_read(&mut self, relation: u32) {
        self.need(Object::Relation(relation), Kind::Table, Rights::SELECT);
    }

    /// Requires USAGE of an explicit schema. Names in a view were resolved at its creation.
    pub(super) fn need_schema(&mut self, named: &Named) {
        let said = named.schema.as_ref().filter(|_| self.view.is_none());
        let schema = said.and_then(|schema| self.catalog.schemas.get(schema));
        if let Some(oid) = schema.map(|schema| schema.oid) {
            self.need(Object::Schema(oid), Kind::Schema, Rights::USAGE);
        }
    }

    /// Requires a right on columns of a table, by their slots.
    pub(super) fn need_of(
        &mut self,
        table: &Table,
        right: Rights,
        columns: impl IntoIterator<Item = usize>,
    ) {
        let need = self.need(Object::Relation(table.oid), Kind::Table, right);
        need.columns.extend(columns.into_iter().map(|at| at as i16 + 1));
    }

    /// Requires SELECT on the columns that a query has used.
    pub(super) fn need_columns(&mut self, scope: &Scope) {
        // After an error there are names without slots.
        let is_used = |slot: usize| scope.used.get(slot) == Some(&true);
        let is_read = |slot: usize| is_used(slot) && !scope.unnamed.contains(&slot);
        for column in scope.columns.iter().filter(|column| is_read(column.slot)) {
            let (relation, number) = column.origin;
            if relation != 0 && self.mentions_relation(relation) {
                let relation = Object::Relation(relation);
                self.need(relation, Kind::Table, Rights::SELECT).columns.insert(number);
            }
        }
    }

    /// True if the text being bound names a relation itself, and not through a view.
    fn mentions_relation(&self, relation: u32) -> bool {
        let view = self.view.as_ref().map(|view| view.oid);
        let object = Object::Relation(relation);
        self.needs.iter().any(|need| need.object == object && need.view == view)
    }

    /// Binds without collecting required rights, for the table's own expressions.
    pub(super) fn needing_nothing<T>(&mut self, bind: impl FnOnce(&mut Self) -> T) -> T {
        let needs = std::mem::take(&mut self.needs);
        let bound = bind(self);
        self.needs = needs;
        bound
    }

    /// The required rights so far.
    pub(crate) fn take_needs(&mut self) -> Vec<Need> {
        std::mem::take(&mut self.needs)
    }
}
