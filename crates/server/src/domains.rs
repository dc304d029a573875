//! Definitions of domains.
//!
//! Each statement makes a new version of the [domain](isomer_sql::domains), which replaces the old
//! one in all tables that use it. These tables are locked as for a definition of their own, so no
//! row is written under the old version. An added condition is checked on all existing rows; no row
//! is rewritten.

use crate::alter::in_one_order;
use crate::ddl::Definer;
use crate::dependents::Dependent;
use isomer_sql::catalog::{Catalog, MadeType, Name, Named, Table, does_name, quoted};
use isomer_sql::define::{self, check_domain};
use isomer_sql::domains::{Domain, with_value};
use isomer_sql::parse::{DomainChange, DomainOption, DomainStatement};
use isomer_sql::sequence::kept;
use isomer_sql::{SqlError, code};
use sqlparser::ast::{DataType, Expr, ObjectName, Value};
use std::sync::Arc;

/// The domain that an ALTER names.
fn altered(catalog: &Catalog, named: &Named) -> Result<Arc<Domain>, SqlError> {
    found(catalog, named).map_err(|error| match catalog.made_named(named) {
        Some(made) => {
            let message = format!("{} is not a domain", catalog.made_shown(made.name()));
            SqlError::new(code::WRONG_OBJECT, message)
        }
        None => error,
    })
}

/// The domain that a statement names.
fn found(catalog: &Catalog, named: &Named) -> Result<Arc<Domain>, SqlError> {
    match catalog.made_named(named) {
        Some(MadeType::Domain(domain)) => Ok(domain),
        Some(MadeType::Enum(_)) => {
            let message = format!("\"{}\" is not a domain", named.name);
            Err(SqlError::new(code::WRONG_OBJECT, message))
        }
        None => Err(crate::enums::no_type(named, "a domain")),
    }
}

/// The tables that use the named domains.
pub(crate) fn concerned(catalog: &Catalog, statement: &DomainStatement) -> Vec<Name> {
    let names = match statement {
        DomainStatement::Create { .. } => return Vec::new(),
        DomainStatement::Alter { name, .. } => std::slice::from_ref(name),
        DomainStatement::Drop { names, .. } => names,
    };
    crate::enums::concerned(catalog, names)
}

/// The command tag.
pub(crate) fn tag(statement: &DomainStatement) -> &'static str {
    match statement {
        DomainStatement::Create { .. } => "CREATE DOMAIN",
        DomainStatement::Alter { .. } => "ALTER DOMAIN",
        DomainStatement::Drop { .. } => "DROP DOMAIN",
    }
}

impl Definer<'_> {
    pub(crate) fn define_domain(&mut self, statement: &DomainStatement) -> Result<(), SqlError> {
        match statement {
            DomainStatement::Create { name, ty, options } => self.create_domain(name, ty, options),
            DomainStatement::Alter { name, change } => {
                let domain = altered(&self.catalog(), &Named::of(name)?)?;
                self.alter_domain(&domain, change)
            }
            DomainStatement::Drop { names, if_exists, cascade } => {
                self.drop_domains(names, *if_exists, *cascade)
            }
        }
    }

    fn create_domain(
        &mut self,
        name: &ObjectName,
        ty: &DataType,
        options: &[DomainOption],
    ) -> Result<(), SqlError> {
        let catalog = self.catalog();
        let name = catalog.made(&Named::of(name)?, false)?;
        self.check_free_type(&name)?;
        if define::is_serial(ty) {
            let message = format!("type \"{}\" does not exist", ty.to_string().to_lowercase());
            return Err(SqlError::new(code::UNDEFINED_OBJECT, message));
        }
        let base = catalog.named_type(ty)?;
        let mut domain = Domain {
            oid: self.engine.fresh_oid(),
            name,
            ty: base.ty,
            over: base.domain.as_ref().map(|over| over.oid),
            not_null: false,
            default: base.domain.as_ref().and_then(|over| over.default.clone()),
            checks: Vec::new(),
        };
        let (mut has_default, mut nulls) = (false, None);
        let twice = |message: &str| Err(SqlError::new(code::SYNTAX, message));
        for option in options {
            match option {
                DomainOption::Default(_) if has_default => {
                    return twice("multiple default expressions");
                }
                DomainOption::Default(default) => {
                    domain.default = self.domain_default(&domain, default)?;
                    has_default = true;
                }
                DomainOption::NotNull(not_null)
                    if nulls.is_some_and(|other| other != *not_null) =>
                {
                    return twice("conflicting NULL/NOT NULL constraints");
                }
                DomainOption::NotNull(not_null) => {
                    domain.not_null = *not_null;
                    nulls = Some(*not_null);
                }
                DomainOption::Check(name, condition) => {
                    domain.add_check(name.clone(), self.kept_condition(condition))?;
                }
            }
        }
        check_domain(&domain, &catalog, &self.around.budget)?;
        self.change(|catalog| catalog.put_domain(None, domain));
        Ok(())
    }

    /// A default in its stored form; NULL is stored as none.
    fn domain_default(&self, domain: &Domain, default: &Expr) -> Result<Option<String>, SqlError> {
        if matches!(default, Expr::Value(value) if value.value == Value::Null) {
            return Ok(None);
        }
        let default = kept(&default.to_string(), domain.ty, &self.catalog());
        let shown = self.catalog().type_shown(domain.ty);
        self.check_default(&default, (&domain.name.name, domain.ty), &shown)?;
        Ok(Some(default))
    }

    fn kept_condition(&self, condition: &Expr) -> String {
        self.catalog().with_kept_types(&with_value(&condition.to_string(), "VALUE"))
    }

    fn alter_domain(&mut self, now: &Domain, change: &DomainChange) -> Result<(), SqlError> {
        let mut new = now.clone();
        match change {
            DomainChange::Default(None) => new.default = None,
            DomainChange::Default(Some(default)) => {
                new.default = self.domain_default(now, default)?;
            }
            DomainChange::NotNull(not_null) => {
                new.not_null = *not_null;
                self.lock_users(now)?;
                if *not_null && !now.not_null {
                    self.check_no_nulls(now)?;
                }
            }
            DomainChange::Add(name, condition) => {
                let condition = self.kept_condition(condition);
                new.add_check(name.clone(), condition.clone())?;
                let mut after = Catalog::clone(&self.catalog());
                after.put_domain(Some(now), new.clone());
                check_domain(&new, &after, &self.around.budget)?;
                self.lock_users(now)?;
                self.check_values(now, &condition)?;
            }
            DomainChange::Drop(name, if_exists) => {
                if new.checks.iter().all(|check| check.name != *name) {
                    return self.no_check(now, name, *if_exists);
                }
                new.checks.retain(|check| check.name != *name);
            }
            // All conditions were checked on existing rows when they were added.
            DomainChange::Validate(name) => {
                return match now.checks.iter().any(|check| check.name == *name) {
                    true => Ok(()),
                    false => self.no_check(now, name, false),
                };
            }
            DomainChange::RenameCheck(from, to) => new.rename_check(from, to.clone())?,
            DomainChange::Rename(to) => return self.rename_domain(now, to),
            DomainChange::Schema(to) => return self.set_domain_schema(now, to),
            DomainChange::Owner(owner) => {
                let made = MadeType::Domain(Arc::new(now.clone()));
                return self.set_type_owner(&made, owner);
            }
        }
        self.redefine_domain(now, new)
    }

    fn no_check(&mut self, domain: &Domain, check: &str, if_exists: bool) -> Result<(), SqlError> {
        let name = &domain.name.name;
        let message = format!("constraint \"{check}\" of domain \"{name}\" does not exist");
        if !if_exists {
            return Err(SqlError::new(code::UNDEFINED_OBJECT, message));
        }
        self.notices.push(SqlError::new("00000", format!("{message}, skipping")));
        Ok(())
    }

    pub(crate) fn rename_domain(&mut self, now: &Domain, to: &str) -> Result<(), SqlError> {
        let name = Name { name: to.to_owned(), ..now.name.clone() };
        self.check_free_type(&name)?;
        self.redefine_domain(now, Domain { name, ..now.clone() })
    }

    pub(crate) fn set_domain_schema(&mut self, now: &Domain, to: &str) -> Result<(), SqlError> {
        self.catalog().check_schema(to)?;
        let name = Name { schema: to.to_owned(), ..now.name.clone() };
        if name == now.name {
            return Ok(());
        }
        self.check_free_type(&name)?;
        self.redefine_domain(now, Domain { name, ..now.clone() })
    }

    /// Replaces a domain by a new version.
    pub(crate) fn redefine_domain(&mut self, now: &Domain, new: Domain) -> Result<(), SqlError> {
        self.lock_users(now)?;
        self.change(|catalog| catalog.put_domain(Some(now), new));
        Ok(())
    }

    fn lock_users(&mut self, domain: &Domain) -> Result<(), SqlError> {
        for table in self.catalog().tables_of_domain(domain) {
            in_one_order(&table)?;
            self.backend.lock_definition(&table)?;
        }
        Ok(())
    }

    fn check_no_nulls(&mut self, domain: &Domain) -> Result<(), SqlError> {
        let Some(column) = self.first_broken(domain, |column| format!("{column} IS NULL"))? else {
            return Ok(());
        };
        let message = format!("{column} contains null values");
        Err(SqlError::new(code::NOT_NULL_VIOLATION, message))
    }

    fn check_values(&mut self, domain: &Domain, condition: &str) -> Result<(), SqlError> {
        let broken = |column: &str| format!("NOT ({})", with_value(condition, column));
        let Some(column) = self.first_broken(domain, broken)? else { return Ok(()) };
        let message = format!("{column} contains values that violate the new constraint");
        Err(SqlError::new(code::CHECK_VIOLATION, message))
    }

    /// The first column of the domain, or of a domain over it, with values for which `holds` is
    /// true.
    fn first_broken(
        &mut self,
        domain: &Domain,
        holds: impl Fn(&str) -> String,
    ) -> Result<Option<String>, SqlError> {
        let catalog = self.catalog();
        for (table, at) in catalog.columns_of_domain(domain) {
            let column = &table.columns[at].name;
            let (from, what) = (table.full_name().written(), holds(&quoted(column)));
            let query = format!("SELECT 1 FROM {from} WHERE {what} LIMIT 1");
            if !self.values(&self.query(&query, &catalog)?, &catalog)?.is_empty() {
                return Ok(Some(format!("column \"{column}\" of table \"{}\"", table.name)));
            }
        }
        Ok(None)
    }

    fn drop_domains(
        &mut self,
        names: &[ObjectName],
        if_exists: bool,
        cascade: bool,
    ) -> Result<(), SqlError> {
        let mut domains = Vec::new();
        for name in names {
            match found(&self.catalog(), &Named::of(name)?) {
                Err(error) if if_exists && error.code == code::UNDEFINED_OBJECT => {
                    let message = format!("{}, skipping", error.message);
                    self.notices.push(SqlError::new("00000", message));
                }
                domain => domains.push(domain?),
            }
        }
        domains.iter().try_for_each(|domain| self.drop_domain(domain, cascade))
    }

    pub(crate) fn drop_domain(&mut self, domain: &Domain, cascade: bool) -> Result<(), SqlError> {
        let catalog = self.catalog();
        if catalog.domain_numbered(domain.oid).is_none() {
            // It was dropped with another domain.
            return Ok(());
        }
        let what = format!("type {}", catalog.made_shown(&domain.name));
        let dependents = Dependent::of_domain(&catalog, domain, &what);
        self.drop_dependents(&what, &dependents, cascade)?;
        self.remove_domain(domain)
    }

    /// Removes a domain that no column uses any more.
    pub(crate) fn remove_domain(&mut self, domain: &Domain) -> Result<(), SqlError> {
        let catalog = self.catalog();
        let what = format!("type {}", catalog.made_shown(&domain.name));
        let refused = |user: String| {
            let message = format!("cannot drop {what} because other objects depend on it");
            Err(SqlError::new(code::DEPENDENT_OBJECTS, message)
                .detail(format!("an expression of {user} depends on {what}"))
                .hint("Drop the default or the constraint before."))
        };
        let names_it = |table: &&Arc<Table>| table.names_type(&domain.name);
        if let Some(table) = catalog.tables.values().find(names_it) {
            return refused(format!("table {}", table.name));
        }
        let mut others = catalog.domains.values().filter(|other| other.oid != domain.oid);
        if let Some(other) =
            others.find(|other| other.texts().any(|text| does_name(text, &domain.name)))
        {
            return refused(format!("type {}", other.name.said()));
        }
        self.change(|catalog| drop(catalog.domains.remove(&domain.name)));
        Ok(())
    }
}
