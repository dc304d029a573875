//! Dependents of dropped objects: foreign keys on the tables they reference, views on the relations
//! they use, columns on the columns they are computed from.
//!
//! Without CASCADE an object with dependents cannot be dropped. With it, the dependents are dropped
//! too, and the client gets a notice.

use crate::alter::in_one_order;
use crate::ddl::Definer;
use isomer_sql::catalog::{Catalog, Table, TableColumn, is_of, procedures};
use isomer_sql::domains::Domain;
use isomer_sql::enums::EnumType;
use isomer_sql::foreign::ForeignKey;
use isomer_sql::view::{Used, View};
use isomer_sql::{SqlError, code};
use sqlparser::ast::Ident;
use std::fmt;
use std::sync::Arc;

/// A dependent object, and the object it depends on.
pub(crate) struct Dependent {
    what: What,
    on: String,
}

enum What {
    Key(Arc<Table>, Arc<ForeignKey>),
    View(Arc<View>),
    /// A generated column, or a column of a type.
    Column(Arc<Table>, String),
    Domain(Arc<Domain>),
    /// A procedure with an argument of a type, and its name in words.
    Procedure(u32, String),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Key(table, key) => write!(f, "constraint {} on table {}", key.name, table.name),
            What::Procedure(_, said) => f.write_str(said),
            What::View(view) => write!(f, "view {}", view.name),
            What::Domain(domain) => write!(f, "type {}", domain.name.said()),
            What::Column(table, name) => write!(f, "column {name} of table {}", table.name),
        }
    }
}

impl Dependent {
    /// The foreign keys that reference a table and for which `is_meant` is true.
    pub(crate) fn keys(
        catalog: &Catalog,
        (parent, on): (u32, &str),
        is_meant: impl Fn(&Table, &ForeignKey) -> bool,
    ) -> Vec<Dependent> {
        let keys = catalog.referring(parent).filter(|(table, key)| is_meant(table, key));
        let dependent = |(table, key): (&Arc<Table>, &Arc<ForeignKey>)| {
            let what = What::Key(table.clone(), key.clone());
            Dependent { what, on: on.to_owned() }
        };
        keys.map(dependent).collect()
    }

    /// The columns of an enum, its domains with their dependents, and the views that name it.
    pub(crate) fn of_type(catalog: &Catalog, labels: &EnumType, on: &str) -> Vec<Dependent> {
        let is_its = |column: &TableColumn| column.domain.is_none() && is_of(column.ty, labels);
        let is_over = |domain: &Domain| domain.over.is_none() && is_of(domain.ty, labels);
        let mut found = Dependent::of_made(catalog, (labels.of.oid, on), is_its, is_over);
        let procedures = procedures::with_enum(catalog, labels);
        found.extend(procedures.map(|one| {
            let what = What::Procedure(one.oid, one.described(catalog));
            Dependent { what, on: on.to_owned() }
        }));
        found
    }

    /// The same for a domain.
    pub(crate) fn of_domain(catalog: &Catalog, domain: &Domain, on: &str) -> Vec<Dependent> {
        let oid = domain.oid;
        let is_its =
            |column: &TableColumn| column.domain.as_ref().is_some_and(|own| own.oid == oid);
        Dependent::of_made(catalog, (oid, on), is_its, |other| other.over == Some(oid))
    }

    fn of_made(
        catalog: &Catalog,
        (oid, on): (u32, &str),
        is_its: impl Fn(&TableColumn) -> bool,
        is_over: impl Fn(&Domain) -> bool,
    ) -> Vec<Dependent> {
        let mut found = Vec::new();
        for table in catalog.tables.values() {
            let columns = table.columns.iter().enumerate().filter(|(_, column)| is_its(column));
            found.extend(columns.map(|(at, _)| Dependent::column(table, at, on)));
        }
        for domain in catalog.domains.values().filter(|domain| is_over(domain)) {
            let what = What::Domain(domain.clone());
            let name = what.to_string();
            found.push(Dependent { what, on: on.to_owned() });
            found.extend(Dependent::of_domain(catalog, domain, &name));
        }
        found.extend(Dependent::views(catalog, (oid, on), |_, _| true));
        found
    }

    /// A column as a dependent.
    pub(crate) fn column(table: &Arc<Table>, at: usize, on: &str) -> Dependent {
        let what = What::Column(table.clone(), table.columns[at].name.clone());
        Dependent { what, on: on.to_owned() }
    }

    /// The views whose use of a relation fulfils `is_meant`, and transitively the views that use
    /// those.
    pub(crate) fn views(
        catalog: &Catalog,
        (of, on): (u32, &str),
        is_meant: impl Fn(&View, &Used) -> bool,
    ) -> Vec<Dependent> {
        let mut found: Vec<(Arc<View>, String)> = Vec::new();
        let users = catalog.users(of).filter(|(view, used)| is_meant(view, used));
        found.extend(users.map(|(view, _)| (view.clone(), on.to_owned())));
        let mut at = 0;
        while let Some((below, _)) = found.get(at).cloned() {
            at += 1;
            for (view, _) in catalog.users(below.oid) {
                if found.iter().all(|(other, _)| other.oid != view.oid) {
                    found.push((view.clone(), format!("view {}", below.name)));
                }
            }
        }
        let dependent = |(view, on)| Dependent { what: What::View(view), on };
        found.into_iter().map(dependent).collect()
    }

    /// True if it is one of these views.
    fn is_among(&self, views: &[u32]) -> bool {
        matches!(&self.what, What::View(view) if views.contains(&view.oid))
    }
}

impl Definer<'_> {
    /// Drops the dependents of an object that is about to be dropped, or refuses if `cascade` is
    /// false.
    pub(crate) fn drop_dependents(
        &mut self,
        what: &str,
        dependents: &[Dependent],
        cascade: bool,
    ) -> Result<(), SqlError> {
        if dependents.is_empty() {
            return Ok(());
        }
        if !cascade {
            let line = |one: &Dependent| format!("{} depends on {}", one.what, one.on);
            let message = format!("cannot drop {what} because other objects depend on it");
            return Err(SqlError::new(code::DEPENDENT_OBJECTS, message)
                .detail(dependents.iter().map(line).collect::<Vec<_>>().join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        self.tell_cascade(dependents.iter().map(|one| one.what.to_string()).collect());
        let mut domains = Vec::new();
        for one in dependents {
            match &one.what {
                // After all columns of the domains.
                What::Domain(domain) => domains.push(domain),
                What::Procedure(oid, _) => {
                    self.change(|catalog| drop(catalog.procedures.remove(oid)));
                }
                What::View(view) => {
                    self.change(|catalog| drop(catalog.views.remove(&view.full_name())));
                }
                What::Column(table, name) => {
                    let name = Ident::with_quote('"', name.clone());
                    self.drop_column(&name, table, (false, true))?;
                }
                What::Key(child, key) => {
                    in_one_order(child)?;
                    self.backend.lock_definition(child)?;
                    let child = self.catalog().table_numbered(child.oid)?.clone();
                    let mut changed = Table::clone(&child);
                    changed.foreign_keys.retain(|other| other.oid != key.oid);
                    self.replace(&child, changed);
                }
            }
        }
        domains.into_iter().rev().try_for_each(|domain| self.remove_domain(domain))
    }

    /// Drops views and their dependents.
    pub(crate) fn drop_views(
        &mut self,
        views: &[Arc<View>],
        cascade: bool,
    ) -> Result<(), SqlError> {
        let all: Vec<u32> = views.iter().map(|view| view.oid).collect();
        for view in views {
            let what = format!("view {}", view.name);
            let catalog = self.catalog();
            let mut dependents = Dependent::views(&catalog, (view.oid, &what), |_, _| true);
            dependents.retain(|one| !one.is_among(&all));
            self.drop_dependents(&what, &dependents, cascade)?;
        }
        self.change(|catalog| {
            views.iter().for_each(|view| drop(catalog.views.remove(&view.full_name())));
        });
        Ok(())
    }
}
