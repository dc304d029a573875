//! Definitions of schemas, and moves of relations between schemas.
//!
//! A relation is stored under its schema and name. After a move or a renaming of the schema it is
//! another entry of the catalog with the same oid. So references by oid (foreign keys, views,
//! comments) stay valid.

use crate::ddl::Definer;
use crate::rights::check_makes_schemas;
use crate::sequences::call_sequence;
use isomer_sql::catalog::{
    Catalog, Name, Namespace, Procedure, Relation, SYSTEM, TEMPORARY, Table,
};
use isomer_sql::define::plain_name;
use isomer_sql::domains::Domain;
use isomer_sql::enums::{Definition, EnumType};
use isomer_sql::rights::{Object, Owned};
use isomer_sql::sequence::Sequence;
use isomer_sql::view::View;
use isomer_sql::{SqlError, code};
use sqlparser::ast::{AlterSchema, AlterSchemaOperation, Ident, ObjectName, Owner, SchemaName};
use std::sync::Arc;

impl Definer<'_> {
    pub(crate) fn create_schema(
        &mut self,
        named: &SchemaName,
        if_not_exists: bool,
    ) -> Result<(), SqlError> {
        let (name, owner) = match named {
            SchemaName::Simple(name) => (plain_name(name)?, None),
            SchemaName::UnnamedAuthorization(owner) => (crate::alter::folded(owner), Some(owner)),
            SchemaName::NamedAuthorization(name, owner) => (plain_name(name)?, Some(owner)),
        };
        let owner = owner.map(|owner| self.new_owner(&Owner::Ident(Ident::clone(owner))));
        let owner = owner.transpose()?;
        match self.check_free_schema(&name) {
            Err(error) if if_not_exists && error.code == code::DUPLICATE_SCHEMA => {
                let message = format!("{}, skipping", error.message);
                self.notices.push(SqlError::new(error.code, message));
                return Ok(());
            }
            free => free?,
        }
        let oid = self.engine.fresh_oid();
        let schema = Arc::new(Namespace { oid, name: name.clone() });
        self.change(|catalog| {
            catalog.schemas.insert(name, schema);
            let owned = owner.map(|owner| (Object::Schema(oid), Arc::new(Owned::by(owner))));
            catalog.ownership.extend(owned);
        });
        Ok(())
    }

    fn check_free_schema(&self, name: &str) -> Result<(), SqlError> {
        if name.starts_with("pg_") {
            let message = format!("unacceptable schema name \"{name}\"");
            let detail = "The prefix \"pg_\" is reserved for system schemas.";
            return Err(SqlError::new("42939", message).detail(detail));
        }
        if self.catalog().has_schema(name) || SYSTEM.contains(&name) {
            let message = format!("schema \"{name}\" already exists");
            return Err(SqlError::new(code::DUPLICATE_SCHEMA, message));
        }
        Ok(())
    }

    /// A schema to change; system schemas are refused.
    fn schema(&self, name: &str) -> Result<Arc<Namespace>, SqlError> {
        let catalog = self.catalog();
        match catalog.schemas.get(name) {
            Some(schema) => Ok(schema.clone()),
            None if SYSTEM.contains(&name) || name == TEMPORARY => {
                let message = format!("permission denied: schema {name} is the system's");
                Err(SqlError::new(code::INSUFFICIENT_PRIVILEGE, message))
            }
            None => Err(catalog.no_schema(name)),
        }
    }

    pub(crate) fn drop_schemas(
        &mut self,
        names: &[ObjectName],
        if_exists: bool,
        cascade: bool,
    ) -> Result<(), SqlError> {
        let mut schemas = Vec::new();
        for name in names {
            match self.schema(&plain_name(name)?) {
                Err(error) if if_exists && error.code == code::INVALID_SCHEMA => {
                    let message = format!("{}, skipping", error.message);
                    self.notices.push(SqlError::new("00000", message));
                }
                found => schemas.push(found?),
            }
        }
        for schema in schemas {
            self.drop_schema(&schema, cascade)?;
        }
        Ok(())
    }

    fn drop_schema(&mut self, schema: &Namespace, cascade: bool) -> Result<(), SqlError> {
        let (catalog, name) = (self.catalog(), &schema.name);
        let inside = Inside::of(&catalog, name);
        let all = inside.words(&catalog);
        if !cascade && !all.is_empty() {
            let line = |one: &String| format!("{one} depends on schema {name}");
            let message = format!("cannot drop schema {name} because other objects depend on it");
            return Err(SqlError::new(code::DEPENDENT_OBJECTS, message)
                .detail(all.iter().map(line).collect::<Vec<_>>().join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        let told = self.notices.len();
        self.drop_views(&inside.views, true)?;
        // Tables that others in this schema reference, or that depend on them, may be dropped
        // already.
        self.drop_found_tables(&inside.tables, true)?;
        for sequence in &inside.sequences {
            if self.catalog().sequences.contains_key(&sequence.full_name()) {
                self.drop_sequence(sequence, true)?;
            }
        }
        // Tables elsewhere may use types of this schema.
        let (left, types) = (self.notices.len(), &inside.types);
        inside.domains.iter().try_for_each(|domain| self.drop_domain(domain, true))?;
        types.iter().try_for_each(|labels| self.drop_type(labels, true))?;
        let elsewhere = self.notices.split_off(left);
        self.notices.truncate(told);
        self.notices.extend(elsewhere);
        self.tell_cascade(all);
        self.change(|catalog| {
            crate::procedures::drop_inside(catalog, name);
            catalog.schemas.remove(name);
        });
        Ok(())
    }

    pub(crate) fn alter_schema(&mut self, alter: &AlterSchema) -> Result<(), SqlError> {
        let schema = match self.schema(&plain_name(&alter.name)?) {
            Err(error) if alter.if_exists && error.code == code::INVALID_SCHEMA => {
                let message = format!("{}, skipping", error.message);
                self.notices.push(SqlError::new("00000", message));
                return Ok(());
            }
            found => found?,
        };
        for operation in &alter.operations {
            match operation {
                AlterSchemaOperation::Rename { name } => {
                    let to = plain_name(name)?;
                    check_makes_schemas(&self.around.identity, &self.around.database)?;
                    self.check_free_schema(&to)?;
                    let inside = Inside::of(&self.catalog(), &schema.name);
                    for labels in inside.types {
                        let name = Name { schema: to.clone(), ..labels.of.name.clone() };
                        self.redefine_type(&labels, Definition { name, ..labels.of.clone() })?;
                    }
                    for domain in inside.domains {
                        let now = self.catalog().domain_numbered(domain.oid).cloned();
                        let now = now.unwrap_or(domain);
                        let name = Name { schema: to.clone(), ..now.name.clone() };
                        self.redefine_domain(&now, Domain { name, ..Domain::clone(&now) })?;
                    }
                    self.change(|catalog| rename_schema(catalog, &schema, to));
                }
                AlterSchemaOperation::OwnerTo { owner } => {
                    let role = self.new_owner(owner)?;
                    check_makes_schemas(&self.around.identity, &self.around.database)?;
                    self.hand_over(Object::Schema(schema.oid), role);
                }
                other => return Err(SqlError::unsupported(format!("ALTER SCHEMA .. {other}"))),
            }
        }
        Ok(())
    }

    /// SET SCHEMA of a table with its owned objects, of a view or a sequence.
    pub(crate) fn set_schema(&mut self, of: &Name, to: &str) -> Result<(), SqlError> {
        let catalog = self.catalog();
        catalog.check_schema(to)?;
        if to == TEMPORARY || of.schema == TEMPORARY {
            let message = "cannot move objects into or out of temporary schemas";
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
        }
        if of.schema == to {
            return Ok(());
        }
        match catalog.relation_at(of) {
            Some(Relation::Table(table)) => {
                self.check_free_in(to, names_of(&catalog, table))?;
                self.backend.lock_definition(table)?;
                self.change(|catalog| move_table(catalog, table, to));
                Ok(())
            }
            Some(Relation::View(view)) => {
                self.check_free_in(to, vec![view.name.clone()])?;
                self.change(|catalog| move_view(catalog, view, to));
                Ok(())
            }
            Some(Relation::Sequence(sequence)) => {
                if sequence.owner.is_some() {
                    let message = "cannot move an owned sequence into another schema";
                    let detail = "It goes with the table that it is linked to.";
                    return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message).detail(detail));
                }
                self.check_free_in(to, vec![sequence.name.clone()])?;
                let name = Name { schema: to.to_owned(), name: sequence.name.clone() };
                self.change(|catalog| call_sequence(catalog, sequence, name));
                Ok(())
            }
            _ => {
                let message = format!("\"{}\" is not a table, view, or sequence", of.name);
                Err(SqlError::new(code::WRONG_OBJECT, message))
            }
        }
    }

    fn check_free_in(&self, schema: &str, names: Vec<String>) -> Result<(), SqlError> {
        let catalog = self.catalog();
        let name = |name| Name { schema: schema.to_owned(), name };
        match names.into_iter().map(name).find(|name| catalog.has_relation(name)) {
            None => Ok(()),
            Some(taken) => {
                let message =
                    format!("relation \"{}\" already exists in schema \"{schema}\"", taken.name);
                Err(SqlError::new(code::DUPLICATE_TABLE, message))
            }
        }
    }
}

/// All objects in a schema.
struct Inside {
    tables: Vec<Arc<Table>>,
    views: Vec<Arc<View>>,
    sequences: Vec<Arc<Sequence>>,
    types: Vec<Arc<EnumType>>,
    domains: Vec<Arc<Domain>>,
    procedures: Vec<Arc<Procedure>>,
}

impl Inside {
    fn of(catalog: &Catalog, schema: &str) -> Inside {
        let is_in = |name: &Name| name.schema == schema;
        let tables = catalog.tables.iter().filter(|(name, _)| is_in(name));
        let views = catalog.views.iter().filter(|(name, _)| is_in(name));
        let sequences = catalog.sequences.iter().filter(|(name, _)| is_in(name));
        let types = catalog.types.iter().filter(|(name, _)| is_in(name));
        let domains = catalog.domains.iter().filter(|(name, _)| is_in(name));
        Inside {
            procedures: crate::procedures::inside(catalog, schema),
            domains: domains.map(|(_, domain)| domain.clone()).collect(),
            types: types.map(|(_, labels)| labels.clone()).collect(),
            tables: tables.map(|(_, table)| table.clone()).collect(),
            views: views.map(|(_, view)| view.clone()).collect(),
            sequences: sequences.map(|(_, sequence)| sequence.clone()).collect(),
        }
    }

    /// The objects in words, without sequences that belong to tables.
    fn words(&self, catalog: &Catalog) -> Vec<String> {
        let word = |kind: &str, name: Name| format!("{kind} {}", catalog.shown(&name));
        let tables = self.tables.iter().map(|table| word("table", table.full_name()));
        let views = self.views.iter().map(|view| word("view", view.full_name()));
        let sequences = self.sequences.iter().filter(|sequence| sequence.owner.is_none());
        let sequences = sequences.map(|sequence| word("sequence", sequence.full_name()));
        let types = self.types.iter();
        let types = types.map(|labels| format!("type {}", catalog.type_shown(labels.ty())));
        let domains = self.domains.iter();
        let domains = domains.map(|domain| format!("type {}", catalog.made_shown(&domain.name)));
        let procedures = self.procedures.iter();
        let procedures = procedures.map(|one| one.described(catalog));
        let relations = tables.chain(sequences).chain(views);
        types.chain(domains).chain(relations).chain(procedures).collect()
    }
}

/// The names that a table occupies in its schema.
fn names_of(catalog: &Catalog, table: &Table) -> Vec<String> {
    let key = table.has_key().then(|| table.key_name.clone());
    let indexes = table.indexes.iter().map(|index| index.name.clone());
    let own = catalog.owned(table.oid).into_iter().map(|sequence| sequence.name.clone());
    indexes.chain(own).chain(key).chain([table.name.clone()]).collect()
}

fn move_table(catalog: &mut Catalog, table: &Table, to: &str) {
    for sequence in catalog.owned(table.oid) {
        let name = Name { schema: to.to_owned(), name: sequence.name.clone() };
        call_sequence(catalog, &sequence, name);
    }
    // Its defaults may have changed.
    if let Some(table) = catalog.tables.remove(&table.full_name()) {
        let moved = Table { schema_name: to.to_owned(), ..Arc::unwrap_or_clone(table) };
        catalog.tables.insert(Arc::new(moved));
    }
}

fn move_view(catalog: &mut Catalog, view: &View, to: &str) {
    catalog.views.remove(&view.full_name());
    let moved = View { schema: to.to_owned(), ..view.clone() };
    catalog.views.insert(Arc::new(moved));
}

fn rename_schema(catalog: &mut Catalog, schema: &Namespace, to: String) {
    let inside = Inside::of(catalog, &schema.name);
    inside.tables.iter().for_each(|table| move_table(catalog, table, &to));
    inside.views.iter().for_each(|view| move_view(catalog, view, &to));
    for sequence in &inside.sequences {
        let name = Name { schema: to.clone(), name: sequence.name.clone() };
        if catalog.sequences.contains_key(&sequence.full_name()) {
            call_sequence(catalog, sequence, name);
        }
    }
    crate::procedures::rename_schema(catalog, &schema.name, &to);
    catalog.schemas.remove(&schema.name);
    let renamed = Namespace { oid: schema.oid, name: to.clone() };
    catalog.schemas.insert(to, Arc::new(renamed));
}
