//! Checks of domains, where a value becomes one: in casts, and in written rows.
//!
//! ```text
//!   create domain age as integer check (value >= 0)
//!
//!   '7'::age         the constant 7, checked by the rule over a row of one slot: slot 0 >= 0
//!   a column of it   the rule is one of the row's, and is checked when the column is written
//! ```
//!
//! The condition is bound without the names around it, like the text of a [view](super::view).

use super::expr::{EXPR_BYTES, Typed, typed};
use super::{Binder, Scope, ScopeColumn};
use crate::budget::Budget;
use crate::catalog::{Catalog, Table};
use crate::domains::{Domain, DomainRule};
use crate::error::{SqlError, code};
use crate::expr::Expr;
use crate::plan::{RowCheck, Select};
use std::sync::Arc;

/// The name of the value in a condition.
const VALUE: &str = "value";

impl Binder<'_> {
    /// Converts a value of the base type to a domain.
    pub(super) fn as_domain(
        &mut self,
        value: Typed,
        domain: Option<&Domain>,
    ) -> Result<Typed, SqlError> {
        let Some(domain) = domain else { return Ok(value) };
        self.budget.charge(EXPR_BYTES)?;
        let rule = self.domain_rule(domain)?;
        Ok(typed(Expr::Domain(Box::new(value.expr), rule), value.ty))
    }

    /// The checks of a domain and of its base domains.
    pub(super) fn domain_rule(&mut self, domain: &Domain) -> Result<Arc<DomainRule>, SqlError> {
        let name = self.catalog.made_shown(&domain.name);
        let mut rule = DomainRule {
            oid: domain.oid,
            of: domain.name.clone(),
            name,
            not_null: false,
            checks: Vec::new(),
        };
        for domain in self.catalog.domain_chain(domain) {
            rule.not_null |= domain.not_null;
            for check in &domain.checks {
                self.budget.tick(check.condition.len())?;
                let condition = self.of_value(&domain, &check.condition)?;
                rule.checks.push(RowCheck { name: check.name.clone(), condition });
            }
        }
        Ok(Arc::new(rule))
    }

    /// The checks for the columns of a table that have a domain.
    pub(super) fn domain_rules(
        &mut self,
        table: &Table,
    ) -> Result<Vec<(usize, Arc<DomainRule>)>, SqlError> {
        let mut rules = Vec::new();
        for (at, column) in table.columns.iter().enumerate() {
            if let Some(domain) = &column.domain {
                rules.push((at, self.domain_rule(domain)?));
            }
        }
        Ok(rules)
    }

    /// A condition over a row that consists of the domain's value.
    fn of_value(&mut self, domain: &Domain, condition: &str) -> Result<Expr, SqlError> {
        let ast = crate::parse::parse_expression(condition).map_err(SqlError::nowhere)?;
        let value = ScopeColumn {
            alias: String::new(),
            name: VALUE.to_owned(),
            ty: domain.ty,
            slot: 0,
            origin: (0, 0),
            shown: true,
        };
        let scope = Scope { columns: vec![value], used: vec![false], ..Scope::default() };
        let bind = |binder: &mut Self| binder.within(scope, |binder| binder.condition(&ast));
        let bound = self.needing_nothing(|binder| binder.apart(bind));
        // Positions in this text are not positions in the statement.
        Ok(bound.map_err(SqlError::nowhere)?.0)
    }

    /// The domain of an expression, if it is a column or a cast.
    pub(super) fn domain_of(&self, expr: &Expr) -> Option<u32> {
        match expr {
            Expr::Domain(_, rule) => Some(rule.oid),
            Expr::Column(slot) => {
                let mut columns = self.scopes.last()?.columns.iter();
                let (oid, number) = columns.find(|column| column.slot == *slot)?.origin;
                self.catalog.domain_at(oid, number)
            }
            _ => None,
        }
    }
}

impl Catalog {
    /// The oid of the domain of a column of a table, by its number from 1.
    fn domain_at(&self, table: u32, number: i16) -> Option<u32> {
        let at = usize::try_from(number).ok()?.checked_sub(1)?;
        Some(self.table_of(table)?.columns.get(at)?.domain.as_ref()?.oid)
    }
}

impl Select {
    /// The oids of the domains of the result's columns.
    pub fn domains<'s>(&'s self, catalog: &'s Catalog) -> impl Iterator<Item = Option<u32>> + 's {
        self.output.iter().zip(&self.project).map(|(column, expr)| match expr {
            Expr::Domain(_, rule) => Some(rule.oid),
            _ => catalog.domain_at(column.origin.0, column.origin.1),
        })
    }
}

/// Refuses a domain with invalid conditions.
///
/// # Errors
/// 0A000 for a subquery, 42P02 for a parameter, and other errors of the conditions.
pub fn check_domain(domain: &Domain, catalog: &Catalog, budget: &Budget) -> Result<(), SqlError> {
    let mut binder = Binder::new(catalog, "", &[], budget);
    for check in &binder.domain_rule(domain)?.checks {
        check_condition(&check.condition)?;
    }
    Ok(())
}

/// Refuses a condition that depends on more than one row or value.
pub(super) fn check_condition(condition: &Expr) -> Result<(), SqlError> {
    if condition.has_query() {
        let message = "cannot use subquery in check constraint";
        return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
    }
    if condition.has(&|part| matches!(part, Expr::Param(_))) {
        return Err(SqlError::new(code::UNDEFINED_PARAMETER, "there is no parameter $1"));
    }
    Ok(())
}
