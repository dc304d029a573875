//! Schemas, and the search path for names without a schema.
//!
//! ```text
//!   search_path = app, public       orders        app.orders, if it exists; else public.orders
//!   a temporary table orders        orders        the session's own, before all of these
//!   create table orders (..)                      in app: the first schema that exists
//! ```
//!
//! A name in a statement may have a schema; an object always has one. The binder gets a catalog
//! together with the path of the session, so a plan is valid for one path and one version.
//!
//! No objects can be created in the schemas of Isomer's own tables (`isomer`) and of the system
//! catalog (`pg_catalog`, `information_schema`). Left out: definitions inside of CREATE SCHEMA.

use super::{Catalog, Handle, Index, Table, quoted};
use crate::error::{SqlError, code, similar};
use crate::name::{Name, Named, PUBLIC};
use crate::sequence::Sequence;
use crate::system::PUBLIC as PUBLIC_OID;
use crate::system::SystemTable;
use crate::view::View;
use std::sync::Arc;

/// The schema of the system catalog. It is searched before those of the path, unless the path names
/// it.
pub const PG_CATALOG: &str = "pg_catalog";

/// The schema of temporary objects.
pub const TEMPORARY: &str = "pg_temp";
/// Schemas of the system.
pub const SYSTEM: [&str; 3] = [PG_CATALOG, "information_schema", "isomer"];

/// True for a relation of the system that is found by its unqualified name.
fn is_of_system(name: &str) -> bool {
    let is_there = || SystemTable::find(None, name).is_some() || SystemTable::is_void(None, name);
    name.starts_with("pg_") && is_there()
}

/// A schema.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Namespace {
    /// Its oid.
    pub oid: u32,
    /// Its name.
    pub name: String,
}

/// The default search path.
pub fn public_path() -> Arc<[String]> {
    Arc::new([PUBLIC.to_owned()])
}

impl Namespace {
    /// The initial schema `public`.
    pub fn public() -> Namespace {
        Namespace { oid: PUBLIC_OID as u32, name: PUBLIC.to_owned() }
    }
}

/// The full name of the relation that a name means.
fn full_name(catalog: &Catalog, named: &Named) -> Option<Name> {
    for schema in catalog.looked_in(named) {
        let name = Name { schema: schema.to_owned(), name: named.name.clone() };
        if catalog.relation_at(&name).is_some() {
            return Some(name);
        }
        // A system name is not shadowed by later schemas.
        if named.schema.is_none() && schema == PG_CATALOG && is_of_system(&named.name) {
            return None;
        }
    }
    None
}

/// The full name of the relation that a text names, in SQL's notation.
pub(crate) fn written_in_full(catalog: &Catalog, name: &str) -> Option<String> {
    full_name(catalog, &Named::read(name)).map(|name| name.written())
}

/// A relation.
#[derive(Clone, Copy, Debug)]
pub enum Relation<'c> {
    /// A table.
    Table(&'c Arc<Table>),
    /// A view.
    View(&'c Arc<View>),
    /// A sequence.
    Sequence(&'c Arc<Sequence>),
    /// An index of a table.
    Index(&'c Arc<Table>, &'c Arc<Index>),
    /// The primary key of a table.
    Key(&'c Arc<Table>),
}

impl Relation<'_> {
    /// The kind of relation, in the wording of messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Relation::Table(_) => "table",
            Relation::View(_) => "view",
            Relation::Sequence(_) => "sequence",
            Relation::Index(..) | Relation::Key(_) => "index",
        }
    }

    /// Its oid.
    pub fn oid(&self) -> u32 {
        match self {
            Relation::Table(table) => table.oid,
            Relation::View(view) => view.oid,
            Relation::Sequence(sequence) => sequence.oid,
            Relation::Index(_, index) => index.oid,
            Relation::Key(table) => crate::system::key_number(table),
        }
    }
}

impl Catalog {
    /// True if a schema of this name exists that can contain relations.
    pub fn has_schema(&self, name: &str) -> bool {
        name == TEMPORARY || self.schemas.contains_key(name)
    }

    /// The relation with this full name.
    pub fn relation_at(&self, name: &Name) -> Option<Relation<'_>> {
        if let Some(table) = self.tables.get(name) {
            return Some(Relation::Table(table));
        }
        if let Some(view) = self.views.get(name) {
            return Some(Relation::View(view));
        }
        if let Some(sequence) = self.sequences.get(name) {
            return Some(Relation::Sequence(sequence));
        }
        let mut tables = self.tables.with(Handle::Index(name.clone()));
        tables.find_map(|table| {
            let index = table.indexes.iter().find(|index| index.name == name.name);
            let key = || {
                let is_it = table.has_key() && table.key_name == name.name;
                is_it.then_some(Relation::Key(table))
            };
            index.map(|index| Relation::Index(table, index)).or_else(key)
        })
    }

    /// The schemas in which a name is searched, in order.
    pub(super) fn looked_in<'a>(&'a self, named: &'a Named) -> impl Iterator<Item = &'a str> {
        let is_implied = |schema: &&str| !self.path.iter().any(|named| named == schema);
        let implied = [TEMPORARY, PG_CATALOG].into_iter().filter(is_implied);
        let path = implied.chain(self.path.iter().map(String::as_str));
        named.schema.as_deref().into_iter().chain(path.filter(|_| named.schema.is_none()))
    }

    /// The relation that a statement names.
    pub fn lookup(&self, named: &Named) -> Option<Relation<'_>> {
        self.relation_at(&full_name(self, named)?)
    }

    /// True if the unqualified name finds the relation.
    pub fn is_visible(&self, name: &Name) -> bool {
        let own = self.relation_at(name).map(|relation| relation.oid());
        let meant = self.lookup(&Named::plain(name.name.as_str()));
        own.is_some() && meant.map(|relation| relation.oid()) == own
    }

    /// The shortest SQL notation that finds the relation.
    pub fn shown(&self, name: &Name) -> String {
        match self.is_visible(name) {
            true => quoted(&name.name),
            false => name.written(),
        }
    }

    /// The full name of a new relation.
    ///
    /// # Errors
    /// 3F000 if there is no such schema, 42501 for those of the system, 42P16.
    pub fn made(&self, named: &Named, is_temporary: bool) -> Result<Name, SqlError> {
        let name = named.name.clone();
        let schema = match &named.schema {
            Some(schema) if is_temporary && schema != TEMPORARY => {
                let message = "cannot create temporary relation in non-temporary schema";
                return Err(SqlError::new(code::INVALID_TABLE_DEFINITION, message));
            }
            Some(schema) => {
                self.check_schema(schema)?;
                schema.clone()
            }
            None if is_temporary => TEMPORARY.to_owned(),
            None => {
                let first = self.first_schema()?;
                self.check_schema(first)?;
                first.to_owned()
            }
        };
        Ok(Name { schema, name })
    }

    /// The schema in which new unqualified objects are created.
    ///
    /// # Errors
    /// 3F000.
    pub fn first_schema(&self) -> Result<&str, SqlError> {
        let is_there = |schema: &&String| self.has_schema(schema) || **schema == PG_CATALOG;
        let first = self.path.iter().find(is_there);
        first.map(String::as_str).ok_or_else(|| {
            let message = "no schema has been selected to create in";
            SqlError::new(code::INVALID_SCHEMA, message)
        })
    }

    /// Refuses a schema in which no objects can be created.
    ///
    /// # Errors
    /// 3F000, 42501.
    pub fn check_schema(&self, schema: &str) -> Result<(), SqlError> {
        if self.has_schema(schema) {
            return Ok(());
        }
        if SYSTEM.contains(&schema) {
            let message = format!("permission denied for schema {schema}");
            return Err(SqlError::new(code::INSUFFICIENT_PRIVILEGE, message));
        }
        Err(self.no_schema(schema))
    }

    /// 3F000 for a schema that does not exist.
    pub fn no_schema(&self, schema: &str) -> SqlError {
        let message = format!("schema \"{schema}\" does not exist");
        SqlError::new(code::INVALID_SCHEMA, message)
    }

    /// 42P01 for a relation that does not exist, with a similar name; 42809 if it is another kind
    /// of object.
    pub fn no_relation(&self, named: &Named, wanted: &str) -> SqlError {
        if let Some(other) = self.lookup(named) {
            let kind = other.kind();
            let article = if kind == "index" { "an" } else { "a" };
            let message = format!("\"{}\" is {article} {kind}, and not a {wanted}", named.name);
            return SqlError::new(code::WRONG_OBJECT, message);
        }
        let message = format!("relation \"{named}\" does not exist");
        let error = SqlError::new(code::UNDEFINED_TABLE, message);
        let visible =
            self.tables.keys().filter(|name| self.looked_in(named).any(|s| s == name.schema));
        match similar(&named.name, visible.map(|name| name.name.as_str())) {
            Some(other) => error.hint(format!("Perhaps you meant \"{other}\".")),
            None => error,
        }
    }
}
