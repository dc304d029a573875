//! Executes definitions: CREATE and DROP of tables. [`crate::indexes`] has those of indexes,
//! [`crate::alter`] ALTER.
//!
//! Each definition makes a new catalog, which stays pending ([`crate::draft`]) until its
//! transaction commits. It takes exclusive locks on its tables, so it waits for transactions that
//! have written to them, and later writers wait for it. The exception is CREATE INDEX outside of a
//! block, which is [built](crate::indexes) while writers continue.
//!
//! No definition can touch a table while its index is being built, because the table's row of the
//! catalog is locked.

use crate::alter::taken;
use crate::backend::{Backend, explain};
use crate::dependents::Dependent;
use crate::engine::{Engine, give_default_backups};
use crate::foreign::Rows;
use crate::indexes::{free_name, index_name};
use crate::limits;
use crate::rights::check_definition;
use crate::sequences::check_identity;
use isomer_cluster::open::own_table;
use isomer_cluster::{Isolation, LockMode, OpenError};
use isomer_design::{Schema, TableId, Time};
use isomer_sql::catalog::{Catalog, Name, Named, Relation, TEMPORARY, Table};
use isomer_sql::catalog::{needs_index, place_of, row_schema};
use isomer_sql::comment::{Topic, database_topic, role_topic};
use isomer_sql::define::{self, plain_name};
use isomer_sql::define::{NewTable, Part};
use isomer_sql::parse::{AlterChange, Like, RightsStatement, SequenceStatement};
use isomer_sql::sequence::kept;
use isomer_sql::statement::Definition;
use isomer_sql::system::{key_number, row_id_sequence};
use isomer_sql::transaction::Surroundings;
use isomer_sql::{SqlError, code};
use sqlparser::ast::{AlterIndexOperation, AlterTableOperation, CommentObject, CreateTable};
use sqlparser::ast::{ObjectName, ObjectType, OnCommit, Statement};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The context in which definitions are executed.
pub(crate) struct Definer<'a> {
    pub(crate) engine: Arc<Engine>,
    pub(crate) backend: &'a mut Backend,
    pub(crate) around: &'a Surroundings,
    pub(crate) notices: &'a mut Vec<SqlError>,
    /// True if the transaction contains more than the definition.
    pub(crate) is_in_block: bool,
}

impl<'a> Definer<'a> {
    pub(crate) fn new(
        backend: &'a mut Backend,
        around: &'a Surroundings,
        notices: &'a mut Vec<SqlError>,
        is_in_block: bool,
    ) -> Definer<'a> {
        Definer { engine: backend.engine.clone(), backend, around, notices, is_in_block }
    }

    /// Executes a definition; returns its command tag.
    pub(crate) fn define(&mut self, definition: &Definition) -> Result<&'static str, SqlError> {
        let tag = tag(definition)?;
        if self.backend.read_only {
            let message = format!("cannot execute {tag} in a read-only transaction");
            return Err(SqlError::new(code::READ_ONLY, message));
        }
        self.engine.discard_retired();
        self.begin(definition)?;
        let who = (&*self.around.identity, &*self.around.database);
        check_definition(definition, &self.catalog(), who)?;
        self.backend.charge_definition()?;
        match definition {
            Definition::Domain(statement) => self.define_domain(statement)?,
            Definition::Procedure(statement) => crate::procedures::define(self, statement)?,
            Definition::Sequence(statement) => self.define_sequence(statement)?,
            Definition::Sql(statement) => self.define_table(statement)?,
            Definition::Table(statement, likes) => match &**statement {
                Statement::CreateTable(create) => self.create_table(create, likes)?,
                other => return Err(SqlError::unsupported(other)),
            },
            Definition::Alter(alter) => self.alter_otherwise(alter)?,
            Definition::Rights(statement) => self.define_rights(statement)?,
            Definition::Reshard(_) => {
                let message = "ALTER TABLE .. SHARD BY cannot run inside a transaction block";
                return Err(SqlError::new(code::ACTIVE_TRANSACTION, message));
            }
        }
        Ok(tag)
    }

    fn define_table(&mut self, statement: &Statement) -> Result<(), SqlError> {
        match statement {
            Statement::CreateTable(create) => self.create_table(create, &[])?,
            Statement::CreateIndex(create) => self.create_index(create)?,
            Statement::CreateView(create) => self.create_view(create)?,
            Statement::Comment { object_type, object_name, comment, .. } => {
                let Some(topic) = comment_topic(self, *object_type, object_name)? else {
                    return Ok(());
                };
                let said = comment.as_deref().filter(|said| !said.is_empty()).map(Arc::from);
                self.change(|catalog| match said {
                    Some(said) => drop(catalog.comments.insert(topic, said)),
                    None => drop(catalog.comments.remove(&topic)),
                });
            }
            Statement::CreateSchema { schema_name, if_not_exists, .. } => {
                self.create_schema(schema_name, *if_not_exists)?;
            }
            Statement::CreateExtension(create) => {
                let message =
                    format!("extension \"{}\" already exists, skipping", create.name.value);
                self.notices.push(SqlError::new(code::DUPLICATE_OBJECT, message));
            }
            Statement::AlterSchema(alter) => self.alter_schema(alter)?,
            Statement::CreateType { name, representation } => {
                self.create_type(name, representation.as_ref())?;
            }
            Statement::AlterType(alter) => self.alter_type(alter)?,
            Statement::Drop {
                object_type: ObjectType::Type, if_exists, names, cascade, ..
            } => {
                self.drop_types(names, *if_exists, *cascade)?;
            }
            Statement::Drop {
                object_type: ObjectType::Schema, if_exists, names, cascade, ..
            } => {
                self.drop_schemas(names, *if_exists, *cascade)?;
            }
            Statement::Drop {
                object_type: ObjectType::View, if_exists, names, cascade, ..
            } => {
                self.drop_named_views(names, *if_exists, *cascade)?;
            }
            Statement::Drop {
                object_type: ObjectType::Table, if_exists, names, cascade, ..
            } => {
                self.drop_tables(names, *if_exists, *cascade)?;
            }
            Statement::Drop { if_exists, names, cascade, .. } => {
                self.drop_indexes(names, *if_exists, *cascade)?;
            }
            Statement::AlterIndex { name, operation } => {
                let AlterIndexOperation::RenameIndex { index_name } = operation;
                self.rename_index(&Named::of(name)?, plain_name(index_name)?)?;
            }
            Statement::AlterTable(alter) if alter.if_exists && !self.has_table(&alter.name)? => {
                let message =
                    format!("relation \"{}\" does not exist, skipping", Named::of(&alter.name)?);
                self.notices.push(SqlError::new("00000", message));
            }
            Statement::AlterTable(alter)
                if let [AlterTableOperation::OwnerTo { new_owner }] = &*alter.operations =>
            {
                self.set_owner(&alter.name, new_owner)?;
            }
            Statement::AlterTable(alter) => {
                for operation in &alter.operations {
                    self.check_cancel()?;
                    self.alter(&alter.name, operation)?;
                }
            }
            other => return Err(SqlError::unsupported(other)),
        }
        Ok(())
    }

    fn has_table(&self, name: &ObjectName) -> Result<bool, SqlError> {
        let named = Named::of(name)?;
        Ok(self.catalog().lookup(&named).is_some())
    }

    /// Waits until no index of the tables is being built and no shard key changes, and takes the
    /// DDL lock.
    fn begin(&mut self, definition: &Definition) -> Result<(), SqlError> {
        loop {
            let names = concerned(definition, &self.catalog());
            // The builder of an index waits for the DDL lock, which this transaction may hold. A
            // change of the shard key waits for readers of the old layout, which this transaction
            // may be.
            let waits = self.backend.draft.is_none() && self.backend.txn.fixed_time().is_none();
            for name in &names {
                let (table, key) = self.engine.row_of("table", &name.kept())?;
                let locked = self
                    .backend
                    .resting(|backend| backend.txn.lock(table, &key, LockMode::Exclusive, waits));
                locked.map_err(|error| match error {
                    OpenError::Locked => {
                        let message = format!("could not obtain lock on relation \"{}\"", name.name);
                        SqlError::new(code::LOCK_NOT_AVAILABLE, message)
                            .hint("It is being defined by somebody else; begin with the definition of this table, which waits.")
                    }
                    error => explain(error),
                })?;
            }
            self.backend.begin_definition()?;
            // An index may have been moved to another table during the wait.
            if concerned(definition, &self.catalog()) == names {
                return Ok(());
            }
        }
    }

    /// The catalog with the definitions of the transaction.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.backend.catalog()
    }

    pub(crate) fn check_cancel(&self) -> Result<(), SqlError> {
        self.backend.cancel.over().map_or(Ok(()), |why| Err(limits::ended(why)))
    }

    /// Refuses the name of an existing relation.
    pub(crate) fn check_free(&self, name: &Name) -> Result<(), SqlError> {
        match self.catalog().has_relation(name) {
            true => Err(taken(&name.name)),
            false => Ok(()),
        }
    }

    /// Refuses a relation with the name of a type, because a relation's rows form a type of the
    /// same name.
    pub(crate) fn check_no_type(&self, name: &Name) -> Result<(), SqlError> {
        if self.catalog().made_at(name).is_none() {
            return Ok(());
        }
        let message = format!("type \"{}\" already exists", name.name);
        let hint = "A relation has an associated type of the same name, so you must use a name \
                    that doesn't conflict with any existing type.";
        Err(SqlError::new(code::DUPLICATE_OBJECT, message).hint(hint))
    }

    /// Makes a new catalog. New objects in it belong to the current role.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Catalog)) {
        let (before, maker) = (self.catalog(), self.around.identity.role);
        self.backend.draft.as_mut().expect("a definition has begun").change(|catalog| {
            change(catalog);
            catalog.own_new(&before, maker);
        });
    }

    /// Replaces a table by a changed one.
    pub(crate) fn replace(&mut self, old: &Table, new: Table) {
        self.change(|catalog| {
            catalog.tables.remove(&old.full_name());
            catalog.tables.insert(Arc::new(new));
        });
    }

    /// Creates a store table, which is dropped again unless the committed catalog uses it.
    pub(crate) fn make(
        &mut self,
        wanted: &str,
        schema: impl Fn(&str) -> Result<Schema, SqlError>,
    ) -> Result<(TableId, Arc<Schema>), SqlError> {
        let (id, schema) = self.engine.store_table(wanted, schema)?;
        self.backend.draft.as_mut().expect("a definition has begun").keep(id, &schema);
        Ok((id, schema))
    }

    /// Refuses definitions that read current rows in a transaction with an older snapshot.
    pub(crate) fn needs_present(&self) -> Result<(), SqlError> {
        if self.backend.isolation() == Isolation::ReadCommitted {
            return Ok(());
        }
        Err(of_snapshot("a definition over rows that are there"))
    }

    fn create_table(&mut self, create: &CreateTable, likes: &[Like]) -> Result<(), SqlError> {
        let full = self.catalog().made(&Named::of(&create.name)?, create.temporary)?;
        if create.on_commit.is_some() && full.schema != TEMPORARY {
            let message = "ON COMMIT can only be used on temporary tables";
            return Err(SqlError::new(code::INVALID_TABLE_DEFINITION, message));
        }
        let is_there = self.catalog().has_relation(&full);
        let message = format!("relation \"{}\" already exists", full.name);
        if is_there && create.if_not_exists {
            let message = format!("{message}, skipping");
            self.notices.push(SqlError::new(code::DUPLICATE_TABLE, message));
            return Ok(());
        }
        let mut new = define::new_table_like(create, likes, &self.catalog())?;
        if is_there {
            return Err(SqlError::new(code::DUPLICATE_TABLE, message));
        }
        self.check_no_type(&full)?;
        if self.backend.txn.fixed_time().is_some() {
            // The transaction's snapshot is older than the table.
            return Err(of_snapshot("CREATE TABLE after a query"));
        }
        let oid = self.engine.fresh_oid();
        for (at, identity) in &new.serial {
            let column = &mut new.columns[*at];
            if identity.is_some() {
                check_identity(column.ty)?;
            }
            let owner = (&full, oid);
            let made = self.make_owned(owner, (&column.name, column.ty), identity.as_ref())?;
            column.default = Some(made);
        }
        let catalog = self.catalog();
        for column in new.columns.iter_mut().filter(|column| !column.is_generated) {
            let ty = column.ty;
            column.default = column.default.take().map(|default| kept(&default, ty, &catalog));
            let default = column.default.as_ref();
            let (of, shown) = ((&*column.name, ty), catalog.column_type_shown(column));
            default.map_or(Ok(()), |default| self.check_default(default, of, &shown))?;
        }
        for &at in new.key.iter().chain(&new.shard) {
            new.columns[at].not_null = true;
        }
        if let Some(name) = new.key_name.as_ref().filter(|_| !new.key.is_empty()) {
            self.check_free(&Name { name: name.clone(), ..full.clone() })?;
        }
        let place = place_of(&new.key, &new.shard, new.columns.len());
        let (id, schema) =
            self.make(&new.name, |physical| row_schema(physical, &new.columns, &place))?;
        let free = || free_name(&catalog, &full, ("", "pkey"), |_| false).name;
        let key_name = new.key_name.clone().unwrap_or_else(free);
        let mut table = Table {
            id,
            oid,
            schema_name: full.schema.clone(),
            name: new.name.clone(),
            columns: new.columns.clone(),
            key: new.key.clone(),
            shard: new.shard.clone(),
            primary: None,
            readable: Some(Time(0)),
            beside: None,
            key_name: if new.key.is_empty() { String::new() } else { key_name },
            checks: new.checks.clone(),
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            schema,
        };
        self.check_generated(&table)?;
        self.check_conditions(&table)?;
        if !table.has_key() {
            self.engine.set_sequence(&row_id_sequence(table.id), Some(1))?;
        }
        if needs_index(&table.key, &table.shard) {
            let mut index = self.make_key_index(&table)?;
            index.readable = Some(Time(0));
            table.primary = Some(Arc::new(index));
        }
        let unique = new.unique.iter().map(|index| (index, true));
        for (wanted, is_constraint) in unique.chain(new.indexes.iter().map(|index| (index, false)))
        {
            let name = match &wanted.name {
                Some(name) => Name { name: name.clone(), ..full.clone() },
                None => {
                    let ending = if is_constraint { "key" } else { "idx" };
                    index_name(&self.catalog(), &table, wanted, ending)
                }
            };
            self.check_free(&name)?;
            let is_its = |other: &str| *other == name.name;
            if table.indexes.iter().map(|index| &*index.name).chain([&*table.key_name]).any(is_its)
            {
                return Err(taken(&name.name));
            }
            let mut index = self.make_index(&table, wanted, name.name, is_constraint)?;
            index.readable = Some(Time(0));
            table.indexes.push(Arc::new(index));
        }
        let comments = comments_of(&new, &table);
        if new.is_ordered {
            if full.schema == TEMPORARY {
                return Err(SqlError::unsupported("isolation = ordered of a temporary table"));
            }
            crate::engine::order_table(&self.engine, &table)?;
            table.parts().for_each(|(id, _)| own_table(&mut self.backend.txn, id));
        }
        let is_temporary = full.schema == TEMPORARY;
        match new.backups {
            Some(backups) => self.engine.set_backups(&table, backups)?,
            None if is_temporary => {}
            None => give_default_backups(&self.engine, &table, &self.backend.cancel)?,
        }
        if let Some(mode) = new.autopilot.as_deref().filter(|_| !is_temporary) {
            crate::restraints::set_mode(&self.engine, &table, mode)?;
        }
        if new.backups.is_some() {
            self.notices.extend(self.engine.backups_together(&table));
        }
        self.change(|catalog| {
            catalog.tables.insert(Arc::new(table));
            if matches!(create.on_commit, Some(OnCommit::Drop)) {
                catalog.to_commit.insert(oid);
            }
            if matches!(create.on_commit, Some(OnCommit::DeleteRows)) {
                catalog.emptied.insert(oid);
            }
            catalog.comments.extend(comments);
        });
        for key in &new.foreign_keys {
            self.add_foreign_key(oid, key, Rows::None)?;
        }
        Ok(())
    }

    fn drop_tables(
        &mut self,
        names: &[ObjectName],
        if_exists: bool,
        cascade: bool,
    ) -> Result<(), SqlError> {
        let catalog = self.catalog();
        let mut tables: Vec<Arc<Table>> = Vec::new();
        for name in names {
            let name = Named::of(name)?;
            match catalog.lookup(&name) {
                Some(Relation::Table(table)) => tables.push(table.clone()),
                Some(other) => {
                    let kind = other.kind();
                    let error = catalog.no_relation(&name, "table");
                    let hint = format!("Use DROP {} to remove a {kind}.", kind.to_uppercase());
                    return Err(error.hint(hint.replace("a index", "an index")));
                }
                None if if_exists => {
                    let message = format!("table \"{name}\" does not exist, skipping");
                    self.notices.push(SqlError::new("00000", message));
                }
                None => {
                    let message = format!("table \"{name}\" does not exist");
                    return Err(SqlError::new(code::UNDEFINED_TABLE, message));
                }
            }
        }
        self.drop_found_tables(&tables, cascade)
    }

    /// Drops tables and their dependents, if that is allowed.
    pub(crate) fn drop_found_tables(
        &mut self,
        tables: &[Arc<Table>],
        cascade: bool,
    ) -> Result<(), SqlError> {
        for table in tables {
            let is_left = |child: &Table| tables.iter().all(|table| table.oid != child.oid);
            let (catalog, what) = (self.catalog(), format!("table {}", table.name));
            let of = (table.oid, &*what);
            let mut dependents = Dependent::keys(&catalog, of, |child, _| is_left(child));
            dependents.extend(Dependent::views(&catalog, of, |_, _| true));
            self.drop_dependents(&what, &dependents, cascade)?;
            self.backend.lock_definition(table)?;
            self.drop_owned(table, None, cascade)?;
        }
        self.change(|catalog| {
            tables.iter().for_each(|table| drop(catalog.tables.remove(&table.full_name())))
        });
        Ok(())
    }
}

fn of_snapshot(what: &str) -> SqlError {
    SqlError::unsupported(format!("{what}, in a block of REPEATABLE READ,"))
        .hint("BEGIN ISOLATION LEVEL READ COMMITTED.")
}

/// The code of a warning.
pub(crate) const UNDEFINED_DATABASE: &str = "3D000";

/// The subject of a COMMENT; `None`, with a warning, for a database that is not there.
///
/// # Errors
/// Those of [`Catalog::topic`]; 42704 for an unknown role.
fn comment_topic(
    definer: &mut Definer<'_>,
    object: CommentObject,
    name: &ObjectName,
) -> Result<Option<Topic>, SqlError> {
    let plain = || Named::of(name).map(|name| name.name);
    match object {
        CommentObject::Role => {
            let role = definer.around.identity.roles().named(&plain()?)?;
            Ok(Some(role_topic(role.oid as u32)))
        }
        CommentObject::Database => {
            let name = plain()?;
            if *name == *definer.around.database {
                return Ok(Some(database_topic()));
            }
            let message = format!("database \"{name}\" does not exist");
            definer.notices.push(SqlError::new(UNDEFINED_DATABASE, message));
            Ok(None)
        }
        _ => definer.catalog().topic(object, name).map(Some),
    }
}

/// The comments on the parts of a new table.
fn comments_of(new: &NewTable, table: &Table) -> Vec<(Topic, Arc<str>)> {
    let topic = |part: &Part| match part {
        Part::Column(name) => (table.oid, name.clone()),
        Part::Key => (key_number(table), String::new()),
        Part::Unique(at) => (table.indexes[*at].oid, String::new()),
        Part::Index(at) => (table.indexes[new.unique.len() + at].oid, String::new()),
    };
    new.comments.iter().map(|(part, said)| (topic(part), said.clone())).collect()
}

/// The command tag of a definition.
fn tag(definition: &Definition) -> Result<&'static str, SqlError> {
    let statement = match definition {
        Definition::Sql(statement) => statement,
        Definition::Table(..) => return Ok("CREATE TABLE"),
        Definition::Alter(alter) => {
            return Ok(match alter.change {
                AlterChange::RenameIndex(_) | AlterChange::IndexParameters => "ALTER INDEX",
                AlterChange::RenameView(_) | AlterChange::RenameViewColumn(..) => "ALTER VIEW",
                AlterChange::SetSchema(kind, _) => kind,
                AlterChange::TypeOwner(_) => "ALTER TYPE",
                _ => "ALTER TABLE",
            });
        }
        Definition::Reshard(_) => return Ok("ALTER TABLE"),
        Definition::Domain(statement) => return Ok(crate::domains::tag(statement)),
        Definition::Procedure(statement) => return Ok(crate::procedures::tag(statement)),
        Definition::Rights(statement) => {
            return Ok(match &**statement {
                RightsStatement::Rights(grant) if grant.grants => "GRANT",
                RightsStatement::Rights(_) => "REVOKE",
                RightsStatement::Roles(grant) if grant.grants => "GRANT ROLE",
                RightsStatement::Roles(_) => "REVOKE ROLE",
                RightsStatement::Reassign(..) => "REASSIGN OWNED",
                RightsStatement::DropOwned(..) => "DROP OWNED",
            });
        }
        Definition::Sequence(statement) => {
            return Ok(match **statement {
                SequenceStatement::Create { .. } => "CREATE SEQUENCE",
                SequenceStatement::Alter { .. } => "ALTER SEQUENCE",
                SequenceStatement::Drop { .. } => "DROP SEQUENCE",
                SequenceStatement::Identity { .. } => "ALTER TABLE",
            });
        }
    };
    Ok(match &**statement {
        Statement::CreateTable(_) => "CREATE TABLE",
        Statement::CreateIndex(_) => "CREATE INDEX",
        Statement::CreateView(_) => "CREATE VIEW",
        Statement::Comment { .. } => "COMMENT",
        Statement::Drop { object_type: ObjectType::Table, .. } => "DROP TABLE",
        Statement::Drop { object_type: ObjectType::View, .. } => "DROP VIEW",
        Statement::Drop { object_type: ObjectType::Schema, .. } => "DROP SCHEMA",
        Statement::Drop { object_type: ObjectType::Type, .. } => "DROP TYPE",
        Statement::CreateType { .. } => "CREATE TYPE",
        Statement::AlterType(_) => "ALTER TYPE",
        Statement::CreateSchema { .. } => "CREATE SCHEMA",
        Statement::CreateExtension(_) => "CREATE EXTENSION",
        Statement::AlterSchema(_) => "ALTER SCHEMA",
        Statement::Drop { .. } => "DROP INDEX",
        Statement::AlterTable(_) => "ALTER TABLE",
        Statement::AlterIndex { .. } => "ALTER INDEX",
        other => return Err(SqlError::unsupported(other)),
    })
}

/// The names of the tables that a definition changes or may change.
pub(crate) fn concerned(definition: &Definition, catalog: &Catalog) -> BTreeSet<Name> {
    // The named table, or the table of the named index or key.
    let of = |name: &Named, of_index: bool| match catalog.lookup(name)? {
        Relation::Table(table) if !of_index => Some(table.full_name()),
        Relation::Index(table, _) | Relation::Key(table) if of_index => Some(table.full_name()),
        _ => None,
    };
    let named = |name: &ObjectName, of_index| of(&Named::of(name).ok()?, of_index);
    let statement = match definition {
        Definition::Sql(statement) => &**statement,
        Definition::Table(..) | Definition::Rights(_) | Definition::Procedure(_) => {
            return BTreeSet::new();
        }
        Definition::Alter(alter) => {
            if let AlterChange::SetSchema("ALTER TYPE", _) = alter.change {
                let name = std::slice::from_ref(&alter.name);
                return crate::enums::concerned(catalog, name).into_iter().collect();
            }
            let of_index =
                matches!(alter.change, AlterChange::RenameIndex(_) | AlterChange::IndexParameters);
            return named(&alter.name, of_index).into_iter().collect();
        }
        Definition::Reshard(reshard) => {
            return named(&reshard.table, false).into_iter().collect();
        }
        Definition::Domain(statement) => {
            return crate::domains::concerned(catalog, statement).into_iter().collect();
        }
        Definition::Sequence(statement) => {
            return match &**statement {
                SequenceStatement::Identity { table, .. } => of(table, false).into_iter().collect(),
                _ => BTreeSet::new(),
            };
        }
    };
    if let Statement::Drop { object_type: ObjectType::Schema, names, .. } = statement {
        let schemas: Vec<String> = names.iter().filter_map(|name| plain_name(name).ok()).collect();
        let mut inside: BTreeSet<Name> = catalog.tables.keys().cloned().collect();
        inside.retain(|name| schemas.contains(&name.schema));
        return inside;
    }
    let types = match statement {
        Statement::AlterType(alter) => std::slice::from_ref(&alter.name),
        Statement::Drop { object_type: ObjectType::Type, names, .. } => names,
        _ => &[],
    };
    if !types.is_empty() {
        return crate::enums::concerned(catalog, types).into_iter().collect();
    }
    let names = match statement {
        Statement::CreateIndex(create) => std::slice::from_ref(&create.table_name),
        Statement::AlterTable(alter) => std::slice::from_ref(&alter.name),
        Statement::Drop { names, .. } => names,
        Statement::AlterIndex { name, .. } => std::slice::from_ref(name),
        _ => &[],
    };
    let of_index = matches!(
        statement,
        Statement::Drop { object_type: ObjectType::Index, .. } | Statement::AlterIndex { .. }
    );
    let mut names: BTreeSet<Name> = names.iter().filter_map(|name| named(name, of_index)).collect();
    // Foreign keys that reference them may be dropped with them.
    let tables = names.iter().filter_map(|name| catalog.tables.get(name));
    let children: Vec<Name> = tables
        .flat_map(|table| catalog.referring(table.oid))
        .map(|(child, _)| child.full_name())
        .collect();
    names.extend(children);
    names
}
