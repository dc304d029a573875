//! Comments: what people say of tables, their columns, indexes, sequences and views.
//!
//! ```text
//!   comment on column staff.boss is 'who decides'        16384, 'boss' → who decides
//! ```
//!
//! A comment is kept by the number of what it is about, and the name of the column; so another name of a table is
//! nothing to it. It goes with what it is about.
//!
//! Left out: comments on constraints, and on what Isomer does not have.

use crate::catalog::{Catalog, Table};
use crate::define::plain_name;
use crate::error::{SqlError, code};
use crate::system::{PUBLIC, key_oid};
use sqlparser::ast::{CommentObject, ObjectName};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a comment is about: its number for clients, and the column; no name: all of it.
pub type Topic = (u32, String);

/// All comments of a database.
pub type Comments = BTreeMap<Topic, Arc<str>>;

impl Catalog {
    /// What a statement says something about.
    ///
    /// # Errors
    /// 42P01, 42703, 3F000, 42809; 0A000 for what no comment is kept of.
    pub fn topic(&self, object: CommentObject, name: &ObjectName) -> Result<Topic, SqlError> {
        if object == CommentObject::Column {
            let mut parts = name.0.clone();
            let column = parts.pop().and_then(|part| part.as_ident().map(crate::bind::folded));
            let (Some(column), false) = (column, parts.is_empty()) else {
                return Err(SqlError::new(code::SYNTAX, "column name must be qualified"));
            };
            return self.column_topic(&plain_name(&ObjectName(parts))?, column);
        }
        if object == CommentObject::Schema {
            let schema = name.0.last().and_then(|part| part.as_ident()).map(crate::bind::folded);
            return match schema.as_deref() {
                Some("public") => Ok((PUBLIC as u32, String::new())),
                _ => {
                    let message = format!("schema \"{name}\" does not exist");
                    Err(SqlError::new(code::INVALID_SCHEMA, message))
                }
            };
        }
        let name = plain_name(name)?;
        let found = match object {
            CommentObject::Table => self.tables.get(&name).map(|table| table.oid),
            CommentObject::View => self.views.get(&name).map(|view| view.oid),
            CommentObject::Sequence => self.sequences.get(&name).map(|sequence| sequence.oid),
            CommentObject::Index => self.index_number(&name),
            other => return Err(SqlError::unsupported(format!("COMMENT ON {other}"))),
        };
        found.map(|oid| (oid, String::new())).ok_or_else(|| match self.has_relation(&name) {
            true => {
                let kind = object.to_string().to_lowercase();
                SqlError::new(code::WRONG_OBJECT, format!("\"{name}\" is not a {kind}"))
            }
            false => {
                let message = format!("relation \"{name}\" does not exist");
                SqlError::new(code::UNDEFINED_TABLE, message)
            }
        })
    }

    fn column_topic(&self, relation: &str, column: String) -> Result<Topic, SqlError> {
        if let Some(view) = self.views.get(relation) {
            if view.columns.iter().any(|(name, _)| *name == column) {
                return Ok((view.oid, column));
            }
            let message = format!("column \"{column}\" of relation \"{relation}\" does not exist");
            return Err(SqlError::new(code::UNDEFINED_COLUMN, message));
        }
        let table = self.table(relation)?;
        table.column(&column)?;
        Ok((table.oid, column))
    }

    fn index_number(&self, name: &str) -> Option<u32> {
        let of_key = |table: &&Arc<Table>| table.has_key() && table.key_name == name;
        let key = self.tables.values().find(of_key).map(|table| key_oid(table) as u32);
        key.or_else(|| self.index(name).map(|(_, index)| index.oid))
    }

    /// What is said of something.
    pub fn comment(&self, oid: u32, column: &str) -> Option<&str> {
        self.comments.get(&(oid, column.to_owned())).map(|said| &**said)
    }

    /// What is said of a column, by its number from 1.
    pub fn comment_of_column(&self, oid: u32, number: i64) -> Option<&str> {
        let at = usize::try_from(number - 1).ok()?;
        let name = match self.table_of(oid) {
            Some(table) => &table.columns.get(at)?.name,
            None => &self.view_of(oid)?.columns.get(at)?.0,
        };
        self.comment(oid, name)
    }

    /// The number of a column from 1; 0: the comment is about all of it.
    pub(crate) fn column_number(&self, (oid, column): &Topic) -> i64 {
        let of_table = self.table_of(*oid).and_then(|table| table.column(column).ok());
        let of_view = || {
            let view = self.view_of(*oid)?;
            view.columns.iter().position(|(name, _)| name == column)
        };
        of_table.or_else(of_view).map_or(0, |at| at as i64 + 1)
    }

    /// Forgets what was said of what has gone.
    pub fn forget_comments(&mut self) {
        if self.comments.is_empty() {
            return;
        }
        let mut known = BTreeSet::from([(PUBLIC as u32, String::new())]);
        let mut knows = |oid: u32, columns: &mut dyn Iterator<Item = &String>| {
            known.insert((oid, String::new()));
            known.extend(columns.map(|name| (oid, name.clone())));
        };
        let none = || std::iter::empty();
        for table in self.tables.values() {
            knows(table.oid, &mut table.columns.iter().map(|column| &column.name));
            knows(key_oid(table) as u32, &mut none());
            table.indexes.iter().for_each(|index| knows(index.oid, &mut none()));
        }
        for view in self.views.values() {
            knows(view.oid, &mut view.columns.iter().map(|(name, _)| name));
        }
        self.sequences.values().for_each(|sequence| knows(sequence.oid, &mut none()));
        self.comments.retain(|topic, _| known.contains(topic));
    }
}
