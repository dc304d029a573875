//! References to views: the text is bound like a query in FROM, without the names around it, and
//! with the names at its creation ([`crate::view`]).

use super::query::{not_locked, tree_bytes};
use super::{Binder, Mention, Scope};
use crate::budget::Budget;
use crate::catalog::{Catalog, Named, NamedType, Relation, quoted, type_by};
use crate::error::SqlError;
use crate::plan::Source;
use crate::types::SqlType;
use crate::view::{Used, View};
use sqlparser::ast::{ArrayElemTypeDef, DataType, Ident};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The columns of a source at the creation of the view; the source may have more now.
pub(super) type Shape = Option<Vec<String>>;

impl Binder<'_> {
    /// A table or a view, by its name in the text being bound.
    pub(super) fn relation(&mut self, named: &Named) -> Result<Option<(Source, Shape)>, SqlError> {
        if let Some(inside) = self.view.clone() {
            for used in inside.uses_of(named) {
                let shape = Some(used.columns.clone());
                if let Some(table) = self.catalog.table_of(used.oid) {
                    self.need_to_read(table.oid);
                    return Ok(Some((Source::Table(table.clone()), shape)));
                }
                if let Some(view) = self.catalog.view_of(used.oid).cloned() {
                    self.need_to_read(view.oid);
                    return Ok(Some((self.mentioned_view(&view)?, shape)));
                }
            }
            return Ok(None);
        }
        self.need_schema(named);
        match self.catalog.lookup(named) {
            Some(Relation::Table(table)) => {
                let columns = || table.columns.iter().map(|column| column.name.clone()).collect();
                self.note(table.oid, named, columns);
                self.need_to_read(table.oid);
                Ok(Some((Source::Table(table.clone()), None)))
            }
            Some(Relation::View(view)) => {
                let columns = || view.columns.iter().map(|(name, _)| name.clone()).collect();
                self.note(view.oid, named, columns);
                self.need_to_read(view.oid);
                Ok(Some((self.mentioned_view(view)?, None)))
            }
            _ => Ok(None),
        }
    }

    /// As [`Binder::named_type`], where domains are not allowed.
    pub(crate) fn type_of(&mut self, ty: &DataType) -> Result<SqlType, SqlError> {
        self.named_type(ty)?.plain()
    }

    /// A type, by its name in the text being bound.
    pub(super) fn named_type(&mut self, ty: &DataType) -> Result<NamedType, SqlError> {
        let mut found = None;
        let found_type = type_by(ty, &mut |named| {
            let made = match &self.view {
                Some(view) => view.used_of(named, |oid| self.catalog.made_numbered(oid)),
                None => self.catalog.made_named(named),
            };
            found = made.as_ref().map(|made| (made.oid(), named.clone()));
            made
        })?;
        let Some((oid, named)) = found else { return Ok(found_type) };
        match &self.view {
            Some(_) => self.mention_type(ty, &named),
            None => {
                self.need_schema(&named);
                self.note(oid, &named, Vec::new);
            }
        }
        Ok(found_type)
    }

    /// Records the mention of a type, while the text of a view is rewritten with current names.
    fn mention_type(&mut self, ty: &DataType, named: &Named) {
        let name = match ty {
            DataType::Custom(name, _) => name,
            DataType::Array(ArrayElemTypeDef::SquareBracket(of, _)) => {
                return self.mention_type(of, named);
            }
            _ => return,
        };
        let parts: Vec<&Ident> = name.0.iter().filter_map(|part| part.as_ident()).collect();
        if let [first, ..] = parts[..] {
            self.mention(named, (first, parts[parts.len() - 1]));
        }
    }

    fn mentioned_view(&mut self, view: &Arc<View>) -> Result<Source, SqlError> {
        let query = view.parsed()?;
        self.budget.charge(tree_bytes(&query))?;
        self.budget.deeper()?;
        let outer = self.view.replace(view.clone());
        let (text, mentions) = (std::mem::take(&mut self.text), self.mentions.take());
        let is_change = std::mem::take(&mut self.is_change);
        let (scopes, named) = (std::mem::take(&mut self.scopes), std::mem::take(&mut self.named));
        let (params, targets) =
            (std::mem::take(&mut self.params), std::mem::take(&mut self.targets));
        let bound = self.query(&query);
        (self.view, self.text, self.is_change) = (outer, text, is_change);
        (self.scopes, self.named) = (scopes, named);
        (self.params, self.targets, self.mentions) = (params, targets, mentions);
        // Positions in the view's text mean nothing to the client.
        let bound = bound.map_err(|error| SqlError { position: None, ..error });
        let mut bound = not_locked(bound?)?;
        for (at, (column, (name, _))) in bound.output.iter_mut().zip(&view.columns).enumerate() {
            column.name.clone_from(name);
            column.origin = (view.oid, at as i16 + 1);
        }
        Ok(Source::Query(Arc::new(bound)))
    }

    /// Records the mention of a relation, while the text of a view is rewritten with current names.
    pub(super) fn mention(&mut self, named: &Named, (first, last): (&Ident, &Ident)) {
        let (Some(_), Some(view)) = (&self.mentions, &self.view) else { return };
        let catalog = self.catalog;
        let name = |oid: u32| {
            let table = catalog.table_of(oid).map(|table| table.full_name());
            table.or_else(|| Some(catalog.view_of(oid)?.full_name()))
        };
        let ty = || view.used_of(named, |oid| catalog.made_numbered(oid));
        let (name, has_alias) = match view.used_of(named, name) {
            Some(name) => (Some(name), false),
            None => (ty().map(|made| made.name().clone()), true),
        };
        let mention = |name| {
            let then = named.name.clone();
            Mention { start: first.span.start, span: last.span, name, then, has_alias }
        };
        if let Some(mentions) = &mut self.mentions {
            mentions.extend(name.map(mention));
        }
    }

    /// Records whether the relation has an alias.
    pub(super) fn note_alias(&mut self, ident: &Ident, has_alias: bool) {
        let last = self.mentions.as_mut().and_then(|mentions| mentions.last_mut());
        if let Some(last) = last.filter(|last| last.span == ident.span) {
            last.has_alias = has_alias;
        }
    }

    /// Records an object named in the text, while a view is created.
    fn note(&mut self, oid: u32, named: &Named, columns: impl FnOnce() -> Vec<String>) {
        let Some(uses) = &mut self.uses else { return };
        let Named { schema, name } = named;
        if uses.iter().all(|used| used.oid != oid || used.schema != *schema || used.name != *name) {
            let (columns, looked_at) = (columns(), BTreeSet::new());
            let (schema, name) = (schema.clone(), name.clone());
            uses.push(Used { oid, schema, name, columns, looked_at });
        }
    }

    /// Records the columns that a query uses, while a view is created.
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

/// The query of a view with current names: columns have their names, and relations their current
/// ones, with a schema if necessary.
///
/// # Errors
/// XX000 if the view has no query.
pub(crate) fn written(
    view: &Arc<View>,
    catalog: &Catalog,
    budget: &Budget,
) -> Result<String, SqlError> {
    let query = view.parsed()?;
    let mut binder = Binder::new(catalog, "", &[], budget);
    (binder.view, binder.mentions) = (Some(view.clone()), Some(Vec::new()));
    let bound = binder.query(&query)?;
    let mut text = view.query.clone();
    let mut mentions = binder.mentions.take().unwrap_or_default();
    // From the last on, so that earlier positions stay valid; a part of a text may be bound twice.
    mentions.sort_by_key(|mention| std::cmp::Reverse(mention.start));
    mentions.dedup_by_key(|mention| mention.start);
    for mention in mentions {
        // A relation, or a type.
        let now = match catalog.made_at(&mention.name) {
            Some(made) => catalog.made_shown(made.name()),
            None => catalog.shown(&mention.name),
        };
        rename(&mut text, &mention, &now);
    }
    let names = bound.output.iter().map(|column| &column.name);
    if names.eq(view.columns.iter().map(|(name, _)| name)) {
        return Ok(text);
    }
    let names: Vec<String> = view.columns.iter().map(|(name, _)| quoted(name)).collect();
    Ok(format!("SELECT * FROM ({text}) AS {} ({})", quoted(&view.name), names.join(", ")))
}

/// Replaces the name of a relation by its current one; the old name becomes an alias if it was
/// different.
fn rename(text: &mut String, mention: &Mention, now: &str) {
    let place = |line, column| {
        let number = crate::parse::position(text, line, column)?;
        Some(text.char_indices().nth(number - 1).map_or(text.len(), |(at, _)| at))
    };
    let (start, end) = (mention.start, mention.span.end);
    let (Some(from), Some(to)) = (place(start.line, start.column), place(end.line, end.column))
    else {
        return;
    };
    if text.get(from..to).is_none_or(|then| then == now) {
        return;
    }
    let is_same = mention.then == mention.name.name || mention.has_alias;
    let alias = if is_same { String::new() } else { format!(" AS {}", quoted(&mention.then)) };
    text.replace_range(from..to, &format!("{now}{alias}"));
}
