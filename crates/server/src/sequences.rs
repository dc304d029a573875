//! Executes definitions of sequences and identity columns.
//!
//! The definition of a sequence belongs to the catalog and the transaction; its
//! [values](crate::engine) do not. So RESTART begins a new value state, which the catalog refers to
//! from the commit on; another increment continues from the last value. Other sessions may take
//! values meanwhile, so values taken or set after such an ALTER SEQUENCE stay if the block is
//! rolled back.

use crate::ddl::Definer;
use crate::indexes::free_name;
use isomer_sql::catalog::{Catalog, Identity, Name, Named, Table};
use isomer_sql::parse::{IdentityChange, SequenceChange, SequenceStatement};
use isomer_sql::rights::Object;
use isomer_sql::sequence::{Owner, Sequence, SequenceOptions, renamed, takes_from};
use isomer_sql::{SqlError, SqlType, code};
use std::sync::Arc;

impl Definer<'_> {
    pub(crate) fn define_sequence(
        &mut self,
        statement: &SequenceStatement,
    ) -> Result<(), SqlError> {
        match statement {
            SequenceStatement::Create { name, temporary, if_not_exists, options } => {
                let name = self.catalog().made(name, *temporary)?;
                self.create_sequence(name, *if_not_exists, options)
            }
            SequenceStatement::Alter { name, if_exists, change } => {
                let Some(sequence) = self.found_sequence(name, *if_exists, "relation")? else {
                    return Ok(());
                };
                match change {
                    SequenceChange::Options(options) => self.alter_sequence(&sequence, options),
                    SequenceChange::Rename(to) => self.rename_sequence(&sequence, to),
                }
            }
            SequenceStatement::Drop { names, if_exists, cascade } => {
                for name in names {
                    if let Some(sequence) = self.found_sequence(name, *if_exists, "sequence")? {
                        self.drop_sequence(&sequence, *cascade)?;
                    }
                }
                Ok(())
            }
            SequenceStatement::Identity { table, if_exists, column, change } => {
                let catalog = self.catalog();
                match catalog.table(table) {
                    Err(error) if *if_exists => {
                        let message = format!("{}, skipping", error.message);
                        self.notices.push(SqlError::new("00000", message));
                        Ok(())
                    }
                    found => self.alter_identity(found?, column, change),
                }
            }
        }
    }

    /// A sequence by its name; `None` if it does not exist and IF EXISTS was given.
    fn found_sequence(
        &mut self,
        name: &Named,
        if_exists: bool,
        what: &str,
    ) -> Result<Option<Arc<Sequence>>, SqlError> {
        let catalog = self.catalog();
        match catalog.sequence(name) {
            Ok(sequence) => Ok(Some(sequence.clone())),
            Err(error) if error.code == code::UNDEFINED_TABLE => {
                let message = format!("{what} \"{name}\" does not exist");
                if !if_exists {
                    return Err(SqlError::new(code::UNDEFINED_TABLE, message));
                }
                self.notices.push(SqlError::new("00000", format!("{message}, skipping")));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn create_sequence(
        &mut self,
        name: Name,
        if_not_exists: bool,
        options: &SequenceOptions,
    ) -> Result<(), SqlError> {
        match self.check_free(&name) {
            Err(error) if if_not_exists => {
                let message = format!("{}, skipping", error.message);
                self.notices.push(SqlError::new(error.code, message));
                return Ok(());
            }
            free => free?,
        }
        let owner = match &options.owned_by {
            Some(Some((table, column))) => Some(self.owner(table, column, &name)?),
            _ => None,
        };
        self.make_sequence(name, SqlType::Int8, options, owner).map(drop)
    }

    fn owner(&self, table: &Named, column: &str, of: &Name) -> Result<Owner, SqlError> {
        let catalog = self.catalog();
        let table = catalog.table(table)?;
        table.column(column)?;
        if table.schema_name != of.schema {
            let message = "sequence must be in same schema as table it is linked to";
            return Err(SqlError::new(code::NOT_READY, message));
        }
        Ok(Owner { table: table.oid, column: column.to_owned(), is_identity: false })
    }

    /// An owned sequence must have the owner of its table.
    fn check_same_owner(&self, table: u32, sequence: u32) -> Result<(), SqlError> {
        let (catalog, who) = (self.catalog(), &self.around.identity);
        let owner = |oid| who.owner_of(&catalog, Object::Relation(oid));
        match owner(table) == owner(sequence) {
            true => Ok(()),
            false => {
                let message = "sequence must have same owner as table it is linked to";
                Err(SqlError::new(code::NOT_READY, message))
            }
        }
    }

    /// Creates a sequence and its value state, which is deleted again unless the committed catalog
    /// uses it.
    pub(crate) fn make_sequence(
        &mut self,
        name: Name,
        ty: SqlType,
        options: &SequenceOptions,
        owner: Option<Owner>,
    ) -> Result<Arc<Sequence>, SqlError> {
        let numbers = (self.engine.fresh_oid(), self.engine.fresh_oid());
        let mut sequence = Sequence::new(name, numbers, ty, options)?;
        sequence.owner = owner;
        self.begin_numbers(&sequence, sequence.start, false)?;
        let sequence = Arc::new(sequence);
        let made = sequence.clone();
        self.change(|catalog| catalog.sequences.insert(made));
        Ok(sequence)
    }

    fn begin_numbers(
        &mut self,
        sequence: &Sequence,
        first: i64,
        is_called: bool,
    ) -> Result<(), SqlError> {
        let draft = self.backend.draft.as_mut().expect("a definition has begun");
        draft.keep_numbers(sequence.state);
        self.engine.set_number(sequence, first, is_called)
    }

    /// Creates the sequence of a new column; returns the column's default.
    pub(crate) fn make_owned(
        &mut self,
        table: (&Name, u32),
        (column, ty): (&str, SqlType),
        identity: Option<&SequenceOptions>,
    ) -> Result<String, SqlError> {
        let name = free_name(&self.catalog(), table.0, (column, "seq"), |_| false);
        let is_identity = identity.is_some();
        let owner = Owner { table: table.1, column: column.to_owned(), is_identity };
        let options = SequenceOptions { ty: Some(ty), ..identity.cloned().unwrap_or_default() };
        let name = match &options.name {
            Some(said) => {
                let schema = said.schema.clone().unwrap_or(name.schema);
                Name { schema, name: said.name.clone() }
            }
            None => name,
        };
        self.check_free(&name)?;
        self.make_sequence(name, ty, &options, Some(owner)).map(|sequence| sequence.default())
    }

    pub(crate) fn alter_sequence(
        &mut self,
        sequence: &Arc<Sequence>,
        options: &SequenceOptions,
    ) -> Result<(), SqlError> {
        let mut new = sequence.altered(options)?;
        if let Some(owned_by) = &options.owned_by {
            if sequence.owner.as_ref().is_some_and(|owner| owner.is_identity) {
                let message = "cannot change ownership of identity sequence";
                let detail =
                    format!("Sequence \"{}\" is linked to an identity column.", sequence.name);
                return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message).detail(detail));
            }
            new.owner = match owned_by {
                Some((table, column)) => {
                    let owner = self.owner(table, column, &sequence.full_name())?;
                    self.check_same_owner(owner.table, sequence.oid)?;
                    Some(owner)
                }
                None => None,
            };
        }
        if let Some(restart) = options.restart {
            new.state = self.engine.fresh_oid();
            self.begin_numbers(&new, restart.unwrap_or(new.start), false)?;
        } else {
            let (last, _) = self.engine.last_number(sequence)?;
            if !(new.min..=new.max).contains(&last) {
                let (what, than, bound) = match last < new.min {
                    true => ("less", "MINVALUE", new.min),
                    false => ("greater", "MAXVALUE", new.max),
                };
                let message =
                    format!("RESTART value ({last}) cannot be {what} than {than} ({bound})");
                return Err(SqlError::new(code::INVALID_PARAMETER, message));
            }
        }
        self.change(|catalog| catalog.sequences.insert(Arc::new(new)));
        Ok(())
    }

    /// Restarts the sequences of a table.
    pub(crate) fn restart(&mut self, table: u32) -> Result<(), SqlError> {
        let options = SequenceOptions { restart: Some(None), ..SequenceOptions::default() };
        self.backend.begin_definition()?;
        let catalog = self.catalog();
        let owned = catalog.owned(table);
        owned.iter().try_for_each(|sequence| self.alter_sequence(sequence, &options))
    }

    pub(crate) fn rename_sequence(
        &mut self,
        sequence: &Arc<Sequence>,
        to: &str,
    ) -> Result<(), SqlError> {
        let to = Name { name: to.to_owned(), ..sequence.full_name() };
        self.check_free(&to)?;
        self.change(|catalog| call_sequence(catalog, sequence, to));
        Ok(())
    }

    pub(crate) fn drop_sequence(
        &mut self,
        sequence: &Arc<Sequence>,
        cascade: bool,
    ) -> Result<(), SqlError> {
        let (catalog, full) = (self.catalog(), sequence.full_name());
        let name = &sequence.name;
        if let Some(owner) = sequence.owner.as_ref().filter(|owner| owner.is_identity) {
            let table = catalog.tables.numbered(owner.table);
            let table = table.map_or("", |table| &table.name);
            let column = format!("column {} of table {table}", owner.column);
            let message = format!("cannot drop sequence {name} because {column} requires it");
            let hint = format!("You can drop {column} instead.");
            return Err(SqlError::new(code::DEPENDENT_OBJECTS, message).hint(hint));
        }
        let dependents = defaults_of(&catalog, &full, None);
        if !cascade && !dependents.is_empty() {
            let message = format!("cannot drop sequence {name} because other objects depend on it");
            return Err(SqlError::new(code::DEPENDENT_OBJECTS, message)
                .detail(depends(&dependents, name))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        self.tell_cascade(dependents);
        self.change(|catalog| forget_sequence(catalog, &full));
        Ok(())
    }

    /// Reports the dependents that are dropped with an object.
    pub(crate) fn tell_cascade(&mut self, dependents: Vec<String>) {
        match dependents.as_slice() {
            [] => {}
            [one] => {
                let message = format!("drop cascades to {one}");
                self.notices.push(SqlError::new("00000", message));
            }
            all => {
                let message = format!("drop cascades to {} other objects", all.len());
                let lines: Vec<String> =
                    all.iter().map(|one| format!("drop cascades to {one}")).collect();
                self.notices.push(SqlError::new("00000", message).detail(lines.join("\n")));
            }
        }
    }

    /// Drops the sequences owned by the columns of a table, or by one column.
    pub(crate) fn drop_owned(
        &mut self,
        table: &Table,
        column: Option<&str>,
        cascade: bool,
    ) -> Result<(), SqlError> {
        for sequence in self.catalog().owned(table.oid) {
            let owner = sequence.owner.as_ref().expect("it is owned");
            if column.is_some_and(|column| column != owner.column) {
                continue;
            }
            let catalog = self.catalog();
            let others = defaults_of(&catalog, &sequence.full_name(), Some((table.oid, column)));
            if !cascade && !others.is_empty() {
                let what = match column {
                    Some(column) => format!("column {column} of table {}", table.name),
                    None => format!("table {}", table.name),
                };
                let message = format!("cannot drop {what} because other objects depend on it");
                return Err(SqlError::new(code::DEPENDENT_OBJECTS, message)
                    .detail(depends(&others, &sequence.name))
                    .hint("Use DROP ... CASCADE to drop the dependent objects too."));
            }
            self.tell_cascade(others);
            self.change(|catalog| forget_sequence(catalog, &sequence.full_name()));
        }
        Ok(())
    }

    fn alter_identity(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        change: &IdentityChange,
    ) -> Result<(), SqlError> {
        let at = table.column(name)?;
        let column = &table.columns[at];
        let is = |what: &str| {
            let message = format!("column \"{name}\" of relation \"{}\" {what}", table.name);
            SqlError::new(code::NOT_READY, message)
        };
        let mut changed = Table::clone(table);
        let own = self.catalog().sequence_of(table.oid, name).cloned();
        match (change, own.filter(|_| column.identity.is_some())) {
            (IdentityChange::Add(..), Some(_)) => return Err(is("is already an identity column")),
            (IdentityChange::Add(always, options), None) => {
                if column.default.is_some() {
                    return Err(is("already has a default value"));
                }
                if !column.not_null && !table.key.contains(&at) {
                    return Err(is("must be declared NOT NULL before identity can be added"));
                }
                check_identity(column.ty)?;
                let made = self.make_owned(
                    (&table.full_name(), table.oid),
                    (name, column.ty),
                    Some(options),
                )?;
                changed.columns[at].default = Some(made);
                changed.columns[at].identity = Some(Identity::of(*always));
            }
            (IdentityChange::Set(always, options), Some(sequence)) => {
                if let Some(always) = always {
                    changed.columns[at].identity = Some(Identity::of(*always));
                }
                if *options != SequenceOptions::default() {
                    self.alter_sequence(&sequence, options)?;
                }
            }
            (IdentityChange::Drop(_), Some(sequence)) => {
                changed.columns[at].default = None;
                changed.columns[at].identity = None;
                self.change(|catalog| drop(catalog.sequences.remove(&sequence.full_name())));
            }
            (IdentityChange::Drop(true), None) => {
                let message = format!("{}, skipping", is("is not an identity column").message);
                self.notices.push(SqlError::new("00000", message));
                return Ok(());
            }
            (_, None) => return Err(is("is not an identity column")),
        }
        self.replace(table, changed);
        Ok(())
    }
}

/// Refuses an identity column of a non-integer type.
pub(crate) fn check_identity(ty: SqlType) -> Result<(), SqlError> {
    if matches!(ty, SqlType::Int2 | SqlType::Int4 | SqlType::Int8) {
        return Ok(());
    }
    Err(isomer_sql::define::no_identity())
}

fn takes(table: &Table, sequence: &Name) -> bool {
    let mut defaults = table.columns.iter().filter_map(|column| column.default.as_ref());
    defaults.any(|default| takes_from(default, sequence))
}

/// The defaults that use a sequence, in words, except those of a table or of one of its columns.
fn defaults_of(
    catalog: &Catalog,
    sequence: &Name,
    but: Option<(u32, Option<&str>)>,
) -> Vec<String> {
    let mut found = Vec::new();
    for table in catalog.tables.values() {
        for column in &table.columns {
            let is_out = but.is_some_and(|(oid, name)| {
                oid == table.oid && name.is_none_or(|name| name == column.name)
            });
            let default = column.default.as_ref().filter(|default| takes_from(default, sequence));
            if default.is_some() && !is_out {
                found.push(format!(
                    "default value for column {} of table {}",
                    column.name, table.name
                ));
            }
        }
    }
    found
}

fn depends(dependents: &[String], sequence: &str) -> String {
    let line = |one: &String| format!("{one} depends on sequence {sequence}");
    dependents.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Renames a sequence, also in the defaults that use it.
pub(crate) fn call_sequence(catalog: &mut Catalog, sequence: &Sequence, to: Name) {
    let from = sequence.full_name();
    let Name { schema, name } = to.clone();
    let new = Sequence { schema, name, ..sequence.clone() };
    catalog.sequences.remove(&from);
    catalog.sequences.insert(Arc::new(new));
    catalog.tables.change(|table| {
        let mut table = takes(table, &from).then(|| Table::clone(table))?;
        for column in &mut table.columns {
            let default = column.default.take();
            column.default = default.map(|default| renamed(&default, &from, &to));
        }
        Some(table)
    });
}

/// Removes a sequence from a catalog, and the defaults that use it.
fn forget_sequence(catalog: &mut Catalog, name: &Name) {
    catalog.sequences.remove(name);
    catalog.tables.change(|table| {
        let mut table = takes(table, name).then(|| Table::clone(table))?;
        for column in &mut table.columns {
            column.default.take_if(|default| takes_from(default, name));
        }
        Some(table)
    });
}
