//! Comments on tables, columns, indexes, sequences, views and types.
//!
//! ```text
//!   comment on column staff.boss is 'who decides'        16384, 'boss' → who decides
//! ```
//!
//! A comment is stored by the object's oid and the name of the column, so renaming a table does not
//! affect it. It is dropped with its object.
//!
//! Left out: comments on constraints, and on objects that Isomer does not have.

use crate::catalog::{Catalog, MadeType, Named, Table};
use crate::error::{SqlError, code};
use crate::system::key_oid;
use crate::view::View;
use isomer_design::SharedMap;
use sqlparser::ast::{CommentObject, ObjectName};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The subject of a comment: the object's oid, and the column; an empty name means the object
/// itself.
pub type Topic = (u32, String);

/// All comments of a database.
pub type Comments = SharedMap<Topic, Arc<str>>;

impl Catalog {
    /// The subject of a COMMENT statement.
    ///
    /// # Errors
    /// 42P01, 42703, 3F000, 42809; 0A000 for objects without comments.
    pub fn topic(&self, object: CommentObject, name: &ObjectName) -> Result<Topic, SqlError> {
        if object == CommentObject::Column {
            let mut parts = name.0.clone();
            let column = parts.pop().and_then(|part| part.as_ident().map(crate::bind::folded));
            let (Some(column), false) = (column, parts.is_empty()) else {
                return Err(SqlError::new(code::SYNTAX, "column name must be qualified"));
            };
            return self.column_topic(&Named::of(&ObjectName(parts))?, column);
        }
        if object == CommentObject::Schema {
            let schema = name.0.last().and_then(|part| part.as_ident()).map(crate::bind::folded);
            let schema = schema.unwrap_or_default();
            return match self.schemas.get(&schema) {
                Some(found) => Ok((found.oid, String::new())),
                None => Err(self.no_schema(&schema)),
            };
        }
        let name = Named::of(name)?;
        if let CommentObject::Type | CommentObject::Domain = object {
            let made = self.made_named(&name).ok_or_else(|| {
                let message = format!("type \"{name}\" does not exist");
                SqlError::new(code::UNDEFINED_OBJECT, message)
            })?;
            if let (CommentObject::Domain, MadeType::Enum(_)) = (object, &made) {
                let message = format!("\"{}\" is not a domain", name.name);
                return Err(SqlError::new(code::WRONG_OBJECT, message));
            }
            return Ok((made.oid(), String::new()));
        }
        let kind = object.to_string().to_lowercase();
        if !matches!(kind.as_str(), "table" | "view" | "sequence" | "index") {
            return Err(SqlError::unsupported(format!("COMMENT ON {object}")));
        }
        match self.lookup(&name) {
            Some(found) if found.kind() == kind => Ok((found.oid(), String::new())),
            Some(_) => {
                let message = format!("\"{}\" is not a {kind}", name.name);
                Err(SqlError::new(code::WRONG_OBJECT, message))
            }
            None => {
                let message = format!("relation \"{name}\" does not exist");
                Err(SqlError::new(code::UNDEFINED_TABLE, message))
            }
        }
    }

    fn column_topic(&self, relation: &Named, column: String) -> Result<Topic, SqlError> {
        if let Some(view) = self.view(relation) {
            if view.columns.iter().any(|(name, _)| *name == column) {
                return Ok((view.oid, column));
            }
            let message =
                format!("column \"{column}\" of relation \"{}\" does not exist", view.name);
            return Err(SqlError::new(code::UNDEFINED_COLUMN, message));
        }
        let table = self.table(relation)?;
        table.column(&column)?;
        Ok((table.oid, column))
    }

    /// The comment on an object or a column.
    pub fn comment(&self, oid: u32, column: &str) -> Option<&str> {
        self.comments.get(&(oid, column.to_owned())).map(|said| &**said)
    }

    /// The comment on a column, by its number from 1.
    pub fn comment_of_column(&self, oid: u32, number: i64) -> Option<&str> {
        let at = usize::try_from(number - 1).ok()?;
        let name = match self.table_of(oid) {
            Some(table) => &table.columns.get(at)?.name,
            None => &self.view_of(oid)?.columns.get(at)?.0,
        };
        self.comment(oid, name)
    }

    /// The number of a column from 1; 0 for a comment on the object itself.
    pub(crate) fn column_number(&self, (oid, column): &Topic) -> i64 {
        let of_table = self.table_of(*oid).and_then(|table| table.column(column).ok());
        let of_view = || {
            let view = self.view_of(*oid)?;
            view.columns.iter().position(|(name, _)| name == column)
        };
        of_table.or_else(of_view).map_or(0, |at| at as i64 + 1)
    }

    /// All possible subjects of comments.
    pub fn topics(&self) -> BTreeSet<Topic> {
        let mut topics = BTreeSet::new();
        self.tables.values().for_each(|table| topics.extend(topics_of_table(table)));
        self.views.values().for_each(|view| topics.extend(topics_of_view(view)));
        let sequences = self.sequences.values().map(|sequence| sequence.oid);
        let schemas = self.schemas.values().map(|schema| schema.oid);
        let types = self.types.values().map(|labels| labels.of.oid);
        let domains = self.domains.values().map(|domain| domain.oid);
        let procedures = self.procedures.keys().copied();
        let others = sequences.chain(schemas).chain(types).chain(domains).chain(procedures);
        topics.extend(others.map(|oid| (oid, String::new())));
        topics
    }

    /// Drops the comments on objects that were dropped since `before`.
    pub(crate) fn forget_comments_since(&mut self, before: &Catalog) {
        if self.comments.is_empty() {
            return;
        }
        let was = before.changed_part(self).topics();
        let is = self.changed_part(before).topics();
        was.difference(&is).for_each(|topic| drop(self.comments.remove(topic)));
    }

    /// The part of this catalog that another catalog lacks or has in another version.
    pub(crate) fn changed_part(&self, other: &Catalog) -> Catalog {
        let mut part = Catalog {
            schemas: self.schemas.clone(),
            types: self.types.clone(),
            domains: self.domains.clone(),
            procedures: self.procedures.clone(),
            ..Catalog::default()
        };
        part.tables.extend(self.tables.changed_to(&other.tables).0);
        part.views.extend(self.views.changed_to(&other.views).0);
        part.sequences.extend(self.sequences.changed_to(&other.sequences).0);
        part
    }
}

fn topics_of_table(table: &Table) -> impl Iterator<Item = Topic> {
    let columns = table.columns.iter().map(|column| (table.oid, column.name.clone()));
    let indexes = table.indexes.iter().map(|index| index.oid);
    let wholes = [table.oid, key_oid(table) as u32].into_iter().chain(indexes);
    columns.chain(wholes.map(|oid| (oid, String::new())))
}

fn topics_of_view(view: &View) -> impl Iterator<Item = Topic> {
    let columns = view.columns.iter().map(|(name, _)| (view.oid, name.clone()));
    columns.chain([(view.oid, String::new())])
}
