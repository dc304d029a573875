//! Definitions of enums.
//!
//! Each statement makes a new [version](isomer_sql::enums) of the type, which replaces the old one
//! in all tables that use it. These tables are locked as for a definition of their own, so that no
//! plan with the old labels meets a row with a new one. No row is read or written.

use crate::alter::{folded, in_one_order};
use crate::ddl::Definer;
use crate::dependents::Dependent;
use isomer_sql::catalog::{Catalog, MadeType, Name, Named, TEMPORARY, Table};
use isomer_sql::catalog::{does_mention, does_name, is_of};
use isomer_sql::enums::{Definition, EnumType, Place};
use isomer_sql::{SqlError, SqlType, code};
use sqlparser::ast::{AlterType, AlterTypeAddValue, AlterTypeAddValuePosition, AlterTypeOperation};
use sqlparser::ast::{Ident, ObjectName, UserDefinedTypeRepresentation};
use std::sync::Arc;

/// A label, which is a text.
fn label(written: &Ident) -> Result<&str, SqlError> {
    match written.quote_style {
        Some('\'') => Ok(&written.value),
        _ => {
            let message = format!("syntax error at or near \"{written}\"");
            Err(SqlError::new(code::SYNTAX, message).hint("A label is a text in quotes."))
        }
    }
}

/// The enum that a statement names.
pub(crate) fn found(catalog: &Catalog, named: &Named) -> Result<Arc<EnumType>, SqlError> {
    if let Some(labels) = catalog.enum_named(named) {
        return Ok(labels);
    }
    match catalog.made_named(named) {
        Some(made) => {
            let message = format!("{} is not an enum", catalog.made_shown(made.name()));
            Err(SqlError::new(code::WRONG_OBJECT, message))
        }
        None => Err(no_type(named, "an enum")),
    }
}

/// The error for a name without a user-defined type.
pub(crate) fn no_type(named: &Named, wanted: &str) -> SqlError {
    match SqlType::of_name(&named.to_string()) {
        Some(ty) => SqlError::new(code::WRONG_OBJECT, format!("{ty} is not {wanted}")),
        None => {
            let message = format!("type \"{named}\" does not exist");
            SqlError::new(code::UNDEFINED_OBJECT, message)
        }
    }
}

/// The tables that use or name an enum.
fn users(catalog: &Catalog, labels: &EnumType) -> Vec<Arc<Table>> {
    catalog.tables.values().filter(|table| table.has_type(labels)).cloned().collect()
}

/// The tables that use the named types.
pub(crate) fn concerned(catalog: &Catalog, names: &[ObjectName]) -> Vec<Name> {
    let types = names.iter().filter_map(|name| catalog.made_named(&Named::of(name).ok()?));
    let tables = types.flat_map(|made| match made {
        MadeType::Enum(labels) => users(catalog, &labels),
        MadeType::Domain(domain) => catalog.tables_of_domain(&domain),
    });
    tables.map(|table| table.full_name()).collect()
}

impl Definer<'_> {
    pub(crate) fn create_type(
        &mut self,
        name: &ObjectName,
        of: Option<&UserDefinedTypeRepresentation>,
    ) -> Result<(), SqlError> {
        let labels = match of {
            Some(UserDefinedTypeRepresentation::Enum { labels }) => labels,
            Some(UserDefinedTypeRepresentation::Composite { .. }) => {
                return Err(SqlError::unsupported("a composite type"));
            }
            Some(UserDefinedTypeRepresentation::Range { .. }) => {
                return Err(SqlError::unsupported("a range type"));
            }
            _ => return Err(SqlError::unsupported("a base type")),
        };
        let labels = labels.iter().map(|one| Ok(label(one)?.to_owned()));
        let labels = labels.collect::<Result<Vec<String>, SqlError>>()?;
        let name = self.catalog().made(&Named::of(name)?, false)?;
        self.check_free_type(&name)?;
        let oids = (self.engine.fresh_oid(), self.engine.fresh_oid());
        let made = EnumType::new(Definition::new(oids, name, &labels)?);
        self.change(|catalog| catalog.put_type(None, made));
        Ok(())
    }

    /// Refuses the name of an existing type, or of a relation, whose rows form a type of the same
    /// name.
    pub(crate) fn check_free_type(&self, name: &Name) -> Result<(), SqlError> {
        if name.schema == TEMPORARY {
            return Err(SqlError::unsupported("a temporary type"));
        }
        let catalog = self.catalog();
        if catalog.made_at(name).is_none() && !catalog.has_relation(name) {
            return Ok(());
        }
        let message = format!("type \"{}\" already exists", name.name);
        Err(SqlError::new(code::DUPLICATE_OBJECT, message))
    }

    pub(crate) fn alter_type(&mut self, alter: &AlterType) -> Result<(), SqlError> {
        let named = Named::of(&alter.name)?;
        if let (AlterTypeOperation::Rename(rename), Some(MadeType::Domain(domain))) =
            (&alter.operation, self.catalog().made_named(&named))
        {
            return self.rename_domain(&domain, &folded(&rename.new_name));
        }
        let now = found(&self.catalog(), &named)?;
        let new = match &alter.operation {
            AlterTypeOperation::Rename(rename) => {
                let name = Name { name: folded(&rename.new_name), ..now.of.name.clone() };
                self.check_free_type(&name)?;
                Definition { name, ..now.of.clone() }
            }
            AlterTypeOperation::AddValue(add) => match self.with_value(&now, add)? {
                Some(new) => new,
                None => return Ok(()),
            },
            AlterTypeOperation::RenameValue(rename) => {
                let new = now.of.with_renamed(label(&rename.from)?, label(&rename.to)?)?;
                self.check_no_arrays(&now)?;
                self.redefine_type(&now, new)?;
                return self.rename_in_defaults(&now, label(&rename.from)?, label(&rename.to)?);
            }
        };
        self.redefine_type(&now, new)
    }

    fn with_value(
        &mut self,
        now: &EnumType,
        add: &AlterTypeAddValue,
    ) -> Result<Option<Definition>, SqlError> {
        let place = match &add.position {
            None => Place::Last,
            Some(AlterTypeAddValuePosition::Before(other)) => Place::Before(label(other)?),
            Some(AlterTypeAddValuePosition::After(other)) => Place::After(label(other)?),
        };
        match now.of.with_label(label(&add.value)?, place) {
            Err(error) if add.if_not_exists && error.code == code::DUPLICATE_OBJECT => {
                let message = format!("{}, skipping", error.message);
                self.notices.push(SqlError::new(error.code, message));
                Ok(None)
            }
            new => new.map(Some),
        }
    }

    /// Arrays store a value as its label.
    fn check_no_arrays(&self, labels: &EnumType) -> Result<(), SqlError> {
        let catalog = self.catalog();
        let is_array = |ty: SqlType| ty == labels.array();
        for table in catalog.tables.values() {
            if let Some(column) = table.columns.iter().find(|column| is_array(column.ty)) {
                let (column, table) = (&column.name, &table.name);
                let what = format!(
                    "RENAME VALUE of an enum of which \"{column}\" of table \"{table}\" has arrays"
                );
                return Err(SqlError::unsupported(what)
                    .hint("Add a value, and write it in the place of the other one."));
            }
        }
        Ok(())
    }

    /// Renames a label in defaults that consist of the label. If it is mentioned anywhere else, the
    /// renaming is refused.
    fn rename_in_defaults(
        &mut self,
        labels: &EnumType,
        from: &str,
        to: &str,
    ) -> Result<(), SqlError> {
        let catalog = self.catalog();
        let refused = |what: String| {
            let what = format!("RENAME VALUE of a label that {what} mentions");
            SqlError::unsupported(what).hint("Drop what mentions it, and make it again.")
        };
        for table in users(&catalog, labels) {
            let new = table.with_label(labels, from, to);
            let what = || format!("an expression of table \"{}\"", table.name);
            self.replace(&table, new.ok_or_else(|| refused(what()))?);
        }
        let is_of_type = |oid: u32| {
            let view = || catalog.view_of(oid).map(|view| view.columns.iter().map(|(_, ty)| *ty));
            oid == labels.of.oid
                || catalog.table_of(oid).is_some_and(|table| table.has_type(labels))
                || view().is_some_and(|mut types| types.any(|ty| is_of(ty, labels)))
        };
        for domain in catalog.domains.values().filter(|domain| is_of(domain.ty, labels)) {
            if domain.texts().any(|text| does_mention(text, from)) {
                return Err(refused(format!("domain {}", domain.name.said())));
            }
        }
        for view in catalog.views.values() {
            if view.uses.iter().any(|used| is_of_type(used.oid)) && does_mention(&view.query, from)
            {
                return Err(refused(format!("view \"{}\"", view.name)));
            }
        }
        Ok(())
    }

    /// SET SCHEMA of a type.
    pub(crate) fn set_type_schema(&mut self, named: &Named, to: &str) -> Result<(), SqlError> {
        let catalog = self.catalog();
        if let Some(MadeType::Domain(domain)) = catalog.made_named(named) {
            return self.set_domain_schema(&domain, to);
        }
        let now = found(&catalog, named)?;
        catalog.check_schema(to)?;
        let name = Name { schema: to.to_owned(), ..now.of.name.clone() };
        if name == now.of.name {
            return Ok(());
        }
        self.check_free_type(&name)?;
        self.redefine_type(&now, Definition { name, ..now.of.clone() })
    }

    pub(crate) fn redefine_type(
        &mut self,
        now: &EnumType,
        new: Definition,
    ) -> Result<(), SqlError> {
        for table in users(&self.catalog(), now) {
            in_one_order(&table)?;
            self.backend.lock_definition(&table)?;
        }
        let new = EnumType::new(new);
        self.change(|catalog| catalog.put_type(Some(now), new));
        Ok(())
    }

    pub(crate) fn drop_types(
        &mut self,
        names: &[ObjectName],
        if_exists: bool,
        cascade: bool,
    ) -> Result<(), SqlError> {
        let mut types = Vec::new();
        for name in names {
            let (catalog, named) = (self.catalog(), Named::of(name)?);
            let made = catalog.made_named(&named);
            match made.map_or_else(|| found(&catalog, &named).map(MadeType::Enum), Ok) {
                Err(error) if if_exists && error.code == code::UNDEFINED_OBJECT => {
                    let message = format!("{}, skipping", error.message);
                    self.notices.push(SqlError::new("00000", message));
                }
                made => types.push(made?),
            }
        }
        types.into_iter().try_for_each(|made| match made {
            MadeType::Enum(labels) => self.drop_type(&labels, cascade),
            MadeType::Domain(domain) => self.drop_domain(&domain, cascade),
        })
    }

    pub(crate) fn drop_type(&mut self, labels: &EnumType, cascade: bool) -> Result<(), SqlError> {
        let catalog = self.catalog();
        let what = format!("type {}", catalog.type_shown(labels.ty()));
        let dependents = Dependent::of_type(&catalog, labels, &what);
        self.drop_dependents(&what, &dependents, cascade)?;
        let catalog = self.catalog();
        let mut domains = catalog.domains.values();
        let of_domain =
            domains.find(|one| one.texts().any(|text| does_name(text, &labels.of.name)));
        let user = users(&catalog, labels).first().map(|table| format!("table {}", table.name));
        let user = user.or_else(|| Some(format!("type {}", of_domain?.name.said())));
        if let Some(user) = user {
            let message = format!("cannot drop {what} because other objects depend on it");
            let detail = format!("an expression of {user} depends on {what}");
            return Err(SqlError::new(code::DEPENDENT_OBJECTS, message)
                .detail(detail)
                .hint("Drop the default or the constraint before."));
        }
        self.change(|catalog| {
            Arc::make_mut(&mut catalog.types).remove(&labels.of.name);
        });
        Ok(())
    }
}
