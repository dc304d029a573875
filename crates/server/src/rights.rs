//! The rights required by definitions.
//!
//! | statement | requires |
//! | --- | --- |
//! | CREATE, a new name or schema | CREATE on the schema; for a schema, the database's owner |
//! | ALTER, COMMENT, CREATE INDEX, OR REPLACE | the owner |
//! | DROP | the owner, or the owner of the schema |
//! | a foreign key | REFERENCES on the referenced columns |
//! | LIKE | SELECT on the other table |
//! | TRUNCATE, LOCK TABLE | that right; a right to change rows |
//! | splits, merges, moves, replicas, SHARD BY, SET (autopilot) | the owner, or a member of `isomer_design` |
//! | statements about all tables | a member of `isomer_design` |
//!
//! A name with an explicit schema requires USAGE on the schema.
//!
//! A role that can act as the owner (a member, or a superuser) counts as the owner. Rights are
//! checked twice. The first check comes before a definition waits for locks, so that a role without
//! rights delays no other. The second comes after the DDL lock, because the named object may have
//! changed. A missing object is left to the definition, which reports it.

use isomer_cluster::LockMode;
use isomer_sql::catalog::{Catalog, Named, Relation, TEMPORARY};
use isomer_sql::parse::{AlterChange, DomainChange, DomainStatement, Like};
use isomer_sql::parse::{SequenceChange, SequenceStatement};
use isomer_sql::rights::check::{denied, described, not_owner, object_of};
use isomer_sql::rights::{Identity, Kind, Object, Rights};
use isomer_sql::statement::Definition;
use isomer_sql::system::DESIGN_ROLE;
use isomer_sql::{SqlError, code};
use sqlparser::ast::{AlterTableOperation, ColumnOption, CommentObject, CreateTable};
use sqlparser::ast::{Ident, ObjectName, ObjectType, SqlOption, Statement, TableConstraint};

/// Refuses a definition for lack of rights.
///
/// # Errors
/// 42501.
pub(crate) fn check_definition(
    definition: &Definition,
    catalog: &Catalog,
    (who, database): (&Identity, &str),
) -> Result<(), SqlError> {
    if who.is_superuser {
        return Ok(());
    }
    let asked = Asked { catalog, who, database };
    match definition {
        Definition::Sql(statement) => asked.statement(statement),
        Definition::Table(statement, likes) => {
            likes.iter().try_for_each(|like| asked.like(like))?;
            asked.statement(statement)
        }
        Definition::Alter(alter) => match &alter.change {
            AlterChange::TypeOwner(_) => asked.owner_of_type(&alter.name),
            AlterChange::SetSchema("ALTER TYPE", to) => {
                asked.owner_of_type(&alter.name)?;
                asked.creates(to)
            }
            AlterChange::SetSchema(_, to) => {
                asked.owner(&alter.name)?;
                asked.creates(to)
            }
            AlterChange::RenameView(_) => {
                asked.owner(&alter.name)?;
                asked.creates_beside(&Named::of(&alter.name)?)
            }
            _ => asked.owner(&alter.name),
        },
        Definition::Sequence(statement) => asked.sequence(statement),
        Definition::Domain(statement) => asked.domain(statement),
        Definition::Procedure(statement) => crate::procedures::check(statement, catalog, who),
        Definition::Reshard(reshard) => check_design(&reshard.table, catalog, who),
        // Grant options decide these.
        Definition::Rights(_) => Ok(()),
    }
}

/// The role and the catalog of a check.
struct Asked<'a> {
    catalog: &'a Catalog,
    who: &'a Identity,
    database: &'a str,
}

/// The schema of a relation.
pub(crate) fn schema_of<'c>(found: &Relation<'c>) -> &'c str {
    match *found {
        Relation::Table(table) | Relation::Index(table, _) | Relation::Key(table) => {
            &table.schema_name
        }
        Relation::View(view) => &view.schema,
        Relation::Sequence(sequence) => &sequence.schema,
    }
}

impl Asked<'_> {
    fn statement(&self, statement: &Statement) -> Result<(), SqlError> {
        match statement {
            Statement::CreateTable(create) => self.table(create),
            Statement::CreateIndex(create) => {
                self.owner(&create.table_name)?;
                self.creates_beside(&Named::of(&create.table_name)?)
            }
            Statement::CreateView(create) => {
                self.makes(&Named::of(&create.name)?, create.temporary)?;
                if create.or_replace { self.owner(&create.name) } else { Ok(()) }
            }
            Statement::CreateType { name, .. } => self.makes(&Named::of(name)?, false),
            Statement::CreateSchema { .. } => check_makes_schemas(self.who, self.database),
            Statement::Comment { object_type, object_name, .. } => {
                self.comment(*object_type, object_name)
            }
            Statement::AlterSchema(alter) => self.owner_of_schema(&alter.name),
            Statement::AlterType(alter) => self.owner_of_type(&alter.name),
            Statement::Drop { object_type: ObjectType::Schema, names, .. } => {
                names.iter().try_for_each(|name| self.owner_of_schema(name))
            }
            Statement::Drop { object_type: ObjectType::Type, names, .. } => {
                names.iter().try_for_each(|name| self.drops_type(name))
            }
            Statement::Drop { names, .. } => {
                names.iter().try_for_each(|name| self.drops(&Named::of(name)?))
            }
            Statement::AlterIndex { name, .. } => self.owner(name),
            Statement::AlterTable(alter) if alter.operations.iter().all(sets_only_mode) => {
                check_design(&alter.name, self.catalog, self.who)
            }
            Statement::AlterTable(alter) => {
                self.owner(&alter.name)?;
                alter.operations.iter().try_for_each(|operation| match operation {
                    AlterTableOperation::AddConstraint { constraint, .. } => {
                        self.constraint(constraint)
                    }
                    AlterTableOperation::RenameTable { .. } => {
                        self.creates_beside(&Named::of(&alter.name)?)
                    }
                    AlterTableOperation::AddColumn { column_def, .. } => {
                        column_def.options.iter().try_for_each(|one| self.option(&one.option))
                    }
                    _ => Ok(()),
                })
            }
            _ => Ok(()),
        }
    }

    fn sequence(&self, statement: &SequenceStatement) -> Result<(), SqlError> {
        match statement {
            SequenceStatement::Create { name, temporary, options, .. } => {
                self.makes(name, *temporary)?;
                let table = options.owned_by.as_ref().and_then(Option::as_ref);
                table.map_or(Ok(()), |(table, _)| self.owner_of(table))
            }
            SequenceStatement::Alter { name, change: SequenceChange::Rename(_), .. } => {
                self.owner_of(name)?;
                self.creates_beside(name)
            }
            SequenceStatement::Alter { name, .. } => self.owner_of(name),
            SequenceStatement::Drop { names, .. } => names.iter().try_for_each(|n| self.drops(n)),
            SequenceStatement::Identity { table, .. } => self.owner_of(table),
        }
    }

    fn domain(&self, statement: &DomainStatement) -> Result<(), SqlError> {
        match statement {
            DomainStatement::Create { name, .. } => self.makes(&Named::of(name)?, false),
            DomainStatement::Alter { name, change } => {
                self.owner_of_type(name)?;
                match &**change {
                    DomainChange::Schema(to) => self.creates(to),
                    _ => Ok(()),
                }
            }
            DomainStatement::Drop { names, .. } => {
                names.iter().try_for_each(|name| self.drops_type(name))
            }
        }
    }

    fn table(&self, create: &CreateTable) -> Result<(), SqlError> {
        self.makes(&Named::of(&create.name)?, create.temporary)?;
        create.constraints.iter().try_for_each(|constraint| self.constraint(constraint))?;
        let mut options = create.columns.iter().flat_map(|column| &column.options);
        options.try_for_each(|one| self.option(&one.option))
    }

    /// Requires CREATE for a new object in its schema.
    fn makes(&self, named: &Named, is_temporary: bool) -> Result<(), SqlError> {
        // If no schema fits, the definition reports it.
        let made = self.catalog.made(named, is_temporary);
        made.map_or(Ok(()), |name| self.creates(&name.schema))
    }

    /// Requires CREATE for a new name in the schema of an existing object.
    fn creates_beside(&self, named: &Named) -> Result<(), SqlError> {
        self.catalog.lookup(named).map_or(Ok(()), |found| self.creates(schema_of(&found)))
    }

    fn creates(&self, schema: &str) -> Result<(), SqlError> {
        let schema = self.catalog.schemas.get(schema).filter(|_| schema != TEMPORARY);
        schema.map_or(Ok(()), |schema| {
            let object = (Object::Schema(schema.oid), Kind::Schema);
            self.who.check(self.catalog, object, Rights::CREATE)
        })
    }

    /// Requires USAGE on the explicit schema of a name.
    fn uses(&self, named: &Named) -> Result<(), SqlError> {
        let schema = named.schema.as_ref().and_then(|name| self.catalog.schemas.get(name));
        schema.map_or(Ok(()), |schema| {
            let object = (Object::Schema(schema.oid), Kind::Schema);
            self.who.check(self.catalog, object, Rights::USAGE)
        })
    }

    fn constraint(&self, constraint: &TableConstraint) -> Result<(), SqlError> {
        match constraint {
            TableConstraint::ForeignKey(key) => {
                self.refers(&key.foreign_table, &key.referred_columns)
            }
            _ => Ok(()),
        }
    }

    fn option(&self, option: &ColumnOption) -> Result<(), SqlError> {
        match option {
            ColumnOption::ForeignKey(key) => self.refers(&key.foreign_table, &key.referred_columns),
            _ => Ok(()),
        }
    }

    /// Requires REFERENCES for a foreign key, because it prevents deletion of the referenced rows.
    fn refers(&self, table: &ObjectName, columns: &[Ident]) -> Result<(), SqlError> {
        let named = Named::of(table)?;
        self.uses(&named)?;
        let Some(Relation::Table(table)) = self.catalog.lookup(&named) else { return Ok(()) };
        let object = Object::Relation(table.oid);
        let all = self.who.rights_to(self.catalog, object, Kind::Table);
        if all.has(Rights::REFERENCES) {
            return Ok(());
        }
        let names: Vec<String> = match columns {
            [] => table.key.iter().map(|at| table.columns[*at].name.clone()).collect(),
            columns => columns.iter().map(crate::alter::folded).collect(),
        };
        let may = |name: &String| {
            self.who.rights_to_column(self.catalog, object, name).has(Rights::REFERENCES)
        };
        match !names.is_empty() && names.iter().all(may) {
            true => Ok(()),
            false => Err(denied(&described(self.catalog, object))),
        }
    }

    fn like(&self, like: &Like) -> Result<(), SqlError> {
        let named = Named::of(&like.name)?;
        self.uses(&named)?;
        match self.catalog.lookup(&named) {
            None => Ok(()),
            Some(found) => self.who.check(self.catalog, object_of(&found), Rights::SELECT),
        }
    }

    fn comment(&self, of: CommentObject, name: &ObjectName) -> Result<(), SqlError> {
        match of {
            CommentObject::Schema => self.owner_of_schema(name),
            CommentObject::Type | CommentObject::Domain => self.owner_of_type(name),
            // A constraint of a domain: see `isomer_sql::comment`.
            CommentObject::Extension => {
                let mut parts = name.0.clone();
                parts.pop();
                self.owner_of_type(&ObjectName(parts))
            }
            CommentObject::Database if !self.who.acts_as(self.who.roles().first()) => {
                let message = format!("must be owner of database {}", self.database);
                Err(SqlError::new(code::INSUFFICIENT_PRIVILEGE, message))
            }
            CommentObject::Role if !self.who.is_superuser => {
                let message = "must have CREATEROLE privilege";
                Err(SqlError::new(code::INSUFFICIENT_PRIVILEGE, message))
            }
            CommentObject::Database | CommentObject::Role => Ok(()),
            CommentObject::Column | CommentObject::Collation => {
                let mut parts = name.0.clone();
                parts.pop();
                if parts.is_empty() { Ok(()) } else { self.owner(&ObjectName(parts)) }
            }
            _ => self.owner(name),
        }
    }

    fn owner(&self, name: &ObjectName) -> Result<(), SqlError> {
        self.owner_of(&Named::of(name)?)
    }

    fn owner_of(&self, named: &Named) -> Result<(), SqlError> {
        self.uses(named)?;
        match self.catalog.lookup(named) {
            None => Ok(()),
            Some(found) if self.who.owns(self.catalog, object_of(&found).0) => Ok(()),
            Some(found) => Err(not_owner(&format!("{} {}", found.kind(), named.name))),
        }
    }

    /// The owner of a schema may drop the objects in it.
    fn drops(&self, named: &Named) -> Result<(), SqlError> {
        let owned = self.owner_of(named);
        let found = self.catalog.lookup(named);
        match owned.is_err() && found.is_some_and(|found| self.owns_schema(schema_of(&found))) {
            true => Ok(()),
            false => owned,
        }
    }

    fn owns_schema(&self, name: &str) -> bool {
        let schema = self.catalog.schemas.get(name).filter(|_| name != TEMPORARY);
        schema.is_some_and(|schema| self.who.owns(self.catalog, Object::Schema(schema.oid)))
    }

    fn owner_of_schema(&self, name: &ObjectName) -> Result<(), SqlError> {
        let name = isomer_sql::define::plain_name(name)?;
        match self.catalog.schemas.contains_key(&name) && !self.owns_schema(&name) {
            true => Err(not_owner(&format!("schema {name}"))),
            false => Ok(()),
        }
    }

    fn owner_of_type(&self, name: &ObjectName) -> Result<(), SqlError> {
        let named = Named::of(name)?;
        self.uses(&named)?;
        match self.catalog.made_named(&named) {
            Some(made) => self.who.check_owner(self.catalog, Object::Type(made.oid())),
            None => Ok(()),
        }
    }

    fn drops_type(&self, name: &ObjectName) -> Result<(), SqlError> {
        let found = self.catalog.made_named(&Named::of(name)?);
        match found.is_some_and(|made| self.owns_schema(&made.name().schema)) {
            true => Ok(()),
            false => self.owner_of_type(name),
        }
    }
}

/// Refuses to create or rename a schema, unless the role can act as the database's owner.
///
/// # Errors
/// 42501.
pub(crate) fn check_makes_schemas(who: &Identity, database: &str) -> Result<(), SqlError> {
    match who.acts_as(who.roles().first()) {
        true => Ok(()),
        false => Err(denied(&format!("database {database}"))),
    }
}

/// True for `SET (autopilot = ..)`, which is about the design.
fn sets_only_mode(operation: &AlterTableOperation) -> bool {
    let AlterTableOperation::SetOptionsParens { options } = operation else { return false };
    options.iter().all(|option| match option {
        SqlOption::KeyValue { key, .. } => key.value.eq_ignore_ascii_case("autopilot"),
        _ => false,
    })
}

/// Refuses to change the design of a table for lack of rights.
///
/// # Errors
/// 42501.
pub(crate) fn check_design(
    table: &ObjectName,
    catalog: &Catalog,
    who: &Identity,
) -> Result<(), SqlError> {
    if who.acts_as(DESIGN_ROLE) {
        return Ok(());
    }
    let asked = Asked { catalog, who, database: "" };
    let hint = "So may members of the role isomer_design: GRANT isomer_design TO them.";
    asked.owner(table).map_err(|error| error.hint(hint))
}

/// Refuses statements about the design of all tables for lack of rights.
///
/// # Errors
/// 42501.
pub(crate) fn check_all_designs(who: &Identity, what: &str) -> Result<(), SqlError> {
    if who.acts_as(DESIGN_ROLE) {
        return Ok(());
    }
    let message =
        format!("permission denied: only members of isomer_design, and superusers, {what}");
    Err(SqlError::new(code::INSUFFICIENT_PRIVILEGE, message))
}

/// Refuses a name in a schema without USAGE on it.
///
/// # Errors
/// 42501.
pub(crate) fn check_use(who: &Identity, catalog: &Catalog, named: &Named) -> Result<(), SqlError> {
    Asked { catalog, who, database: "" }.uses(named)
}

/// Refuses to lock a table in a mode without the right to write its rows, or, for modes that only
/// readers need, to read them.
///
/// # Errors
/// 42501.
pub(crate) fn check_lock(
    who: &Identity,
    catalog: &Catalog,
    table: u32,
    mode: LockMode,
) -> Result<(), SqlError> {
    let needed = match mode {
        LockMode::AccessShare => Rights::SELECT,
        _ => Rights::UPDATE | Rights::DELETE | Rights::TRUNCATE,
    };
    let object = Object::Relation(table);
    match who.rights_to(catalog, object, Kind::Table).has_any(needed) {
        true => Ok(()),
        false => Err(denied(&described(catalog, object))),
    }
}
