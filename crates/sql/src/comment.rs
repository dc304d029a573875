//! Comments on tables, columns, constraints, indexes, sequences, views, types, roles, and the
//! database.
//!
//! ```text
//!   comment on column staff.boss is 'who decides'        16384, 'boss' → who decides
//! ```
//!
//! A comment is stored by the object's oid and the name of the column, so renaming a table does not
//! affect it. It is dropped with its object. One on a constraint is stored by the oid of its table
//! or domain, and by its name behind a sign that begins no column's name. Roles and the database
//! have signs as well, because their oids may be those of relations too.
//!
//! The grammar has no COMMENT ON CONSTRAINT. The parser writes it as one on the collation
//! `table.constraint`, or on the extension `domain.constraint`. It refuses comments on real ones.
//!
//! Left out: comments on objects that Isomer does not have.

use crate::catalog::{Catalog, MadeType, Named, Table};
use crate::error::{SqlError, code};
use crate::system::{DATABASE, check_oid, key_oid};
use crate::view::View;
use isomer_design::SharedMap;
use sqlparser::ast::{CommentObject, ObjectName};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The subject of a comment: the object's oid, and the column; an empty name means the object
/// itself.
pub type Topic = (u32, String);

/// The beginning of the column's part in the topic of a constraint, a role, the database.
const CONSTRAINT: &str = "\u{1}";
const ROLE: &str = "\u{2}";
const WHOLE: &str = "\u{3}";

/// The subject of a comment on a role.
pub fn role_topic(oid: u32) -> Topic {
    (oid, ROLE.to_owned())
}

/// The subject of a comment on the database.
pub fn database_topic() -> Topic {
    (DATABASE as u32, WHOLE.to_owned())
}

/// The kind of a topic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CommentOf {
    /// An object by its oid, or a column.
    Object,
    /// The constraint with this oid.
    Constraint(i64),
    /// A role or the database.
    Shared,
}

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
        if let CommentObject::Collation | CommentObject::Extension = object {
            return constraint_topic(self, name, object == CommentObject::Extension);
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
        for domain in self.domains.values() {
            let of = |name: &str| (domain.oid, format!("{CONSTRAINT}{name}"));
            topics.extend(domain.checks.iter().map(|check| of(&check.name)));
        }
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

/// The subject of a comment on the constraint `relation.constraint`, or `domain.constraint`.
fn constraint_topic(
    catalog: &Catalog,
    name: &ObjectName,
    is_of_domain: bool,
) -> Result<Topic, SqlError> {
    let mut parts = name.0.clone();
    let constraint = parts.pop().and_then(|part| part.as_ident().map(crate::bind::folded));
    let (constraint, of) = (constraint.unwrap_or_default(), Named::of(&ObjectName(parts))?);
    let missing = |what: &str, of: &str| {
        let message = format!("constraint \"{constraint}\" for {what} {of} does not exist");
        SqlError::new(code::UNDEFINED_OBJECT, message)
    };
    let (oid, is_there) = match is_of_domain {
        true => match catalog.made_named(&of) {
            Some(MadeType::Domain(domain)) => {
                let is_there = domain.checks.iter().any(|check| check.name == constraint);
                if !is_there {
                    return Err(missing("domain", &domain.name.name));
                }
                (domain.oid, is_there)
            }
            Some(_) => {
                let message = format!("\"{}\" is not a domain", of.name);
                return Err(SqlError::new(code::WRONG_OBJECT, message));
            }
            None => {
                let message = format!("type \"{of}\" does not exist");
                return Err(SqlError::new(code::UNDEFINED_OBJECT, message));
            }
        },
        false => {
            let table = catalog.table(&of)?;
            let is_there = constraints(table).any(|(_, name)| name == constraint);
            (table.oid, is_there)
        }
    };
    match is_there {
        true => Ok((oid, format!("{CONSTRAINT}{constraint}"))),
        false => Err(missing("table", &format!("\"{}\"", of.name))),
    }
}

/// The comment on a constraint.
pub(crate) fn comment_of_constraint(catalog: &Catalog, oid: i64) -> Option<&str> {
    catalog.comments.iter().find_map(|(topic, said)| {
        (about(catalog, topic) == CommentOf::Constraint(oid)).then_some(&**said)
    })
}

/// The comment on a role, or the database.
pub(crate) fn comment_of_shared(catalog: &Catalog, oid: i64, is_role: bool) -> Option<&str> {
    let sign = if is_role { ROLE } else { WHOLE };
    u32::try_from(oid).ok().and_then(|oid| catalog.comment(oid, sign))
}

/// The kind of a topic.
pub(crate) fn about(catalog: &Catalog, (oid, column): &Topic) -> CommentOf {
    if let ROLE | WHOLE = column.as_str() {
        return CommentOf::Shared;
    }
    let Some(name) = column.strip_prefix(CONSTRAINT) else { return CommentOf::Object };
    let of_table = catalog
        .table_of(*oid)
        .and_then(|table| constraints(table).find(|(_, known)| *known == name).map(|(oid, _)| oid));
    let of_domain = || {
        let domain = catalog.domains.values().find(|domain| domain.oid == *oid)?;
        let at = domain.checks.iter().position(|check| check.name == name)?;
        Some(domain.check_oid(at))
    };
    of_table.or_else(of_domain).map_or(CommentOf::Object, CommentOf::Constraint)
}

/// Gives the comment on a constraint to its new name.
pub fn rename_comment(catalog: &mut Catalog, oid: u32, from: &str, to: &str) {
    let topic = |name: &str| (oid, format!("{CONSTRAINT}{name}"));
    if let Some(said) = catalog.comments.remove(&topic(from)) {
        catalog.comments.insert(topic(to), said);
    }
}

fn topics_of_table(table: &Table) -> impl Iterator<Item = Topic> {
    let columns = table.columns.iter().map(|column| (table.oid, column.name.clone()));
    let indexes = table.indexes.iter().map(|index| index.oid);
    let wholes = [table.oid, key_oid(table) as u32].into_iter().chain(indexes);
    let named = constraints(table).map(|(_, name)| (table.oid, format!("{CONSTRAINT}{name}")));
    columns.chain(wholes.map(|oid| (oid, String::new()))).chain(named)
}

/// The constraints of a table: the oid and the name of each.
fn constraints(table: &Table) -> impl Iterator<Item = (i64, &str)> {
    let key = table.has_key().then(|| (key_oid(table), table.key_name.as_str()));
    let unique = table.indexes.iter().filter(|index| index.constraint);
    let unique = unique.map(|index| (i64::from(index.oid), index.name.as_str()));
    let checks = table.checks.iter().enumerate();
    let checks = checks.map(|(at, check)| (check_oid(table, at), check.name.as_str()));
    let keys = table.foreign_keys.iter().map(|key| (i64::from(key.oid), key.name.as_str()));
    key.into_iter().chain(unique).chain(checks).chain(keys)
}

fn topics_of_view(view: &View) -> impl Iterator<Item = Topic> {
    let columns = view.columns.iter().map(|(name, _)| (view.oid, name.clone()));
    columns.chain([(view.oid, String::new())])
}
