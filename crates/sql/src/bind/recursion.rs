//! WITH RECURSIVE: queries that refer to themselves.
//!
//! ```text
//!   with recursive below(id) as (
//!       select 7                                                      the first rows
//!       union select s.id from staff s, below b where s.boss = b.id   the term, over the new rows
//!   ) select * from below
//!
//!   found      7    31 32    45         each group of rows results from the one before; known
//!                                       rows are dropped, except with UNION ALL; it ends when
//!                                       there are no new rows
//! ```
//!
//! Rows are returned as they are found ([`crate::exec`]'s `join`), so an outer LIMIT ends a query
//! that would find more and more. The non-recursive term decides the types. As in PostgreSQL, the
//! recursive term refers to the query once, as a source of its own or of a query in FROM.
//!
//! Left out: correlated recursive queries; SEARCH and CYCLE; mutual recursion.

use super::query::of_types;
use super::{Binder, Found, NamedQuery, bare, folded};
use crate::error::{SqlError, code};
use crate::functions;
use crate::plan::{Recursion, Select, Source};
use sqlparser::ast::{SetExpr, SetOperator, SetQuantifier};
use std::rc::Rc;
use std::sync::Arc;

/// The two terms of a recursive query.
pub(super) struct Terms {
    first: Box<SetExpr>,
    next: Box<SetExpr>,
    all: bool,
}

/// The terms of a query that may recurse, if it is a UNION of two.
pub(super) fn terms(named: &NamedQuery) -> Option<Terms> {
    let SetExpr::SetOperation { left, op: SetOperator::Union, set_quantifier, right } =
        &*named.query.query.body
    else {
        return None;
    };
    let all = *set_quantifier == SetQuantifier::All;
    named.may_recurse.then(|| Terms { first: left.clone(), next: right.clone(), all })
}

impl Binder<'_> {
    /// Binds a query that may refer to itself: its first term, and its number and recursive term,
    /// if it does.
    pub(super) fn recursive(
        &mut self,
        named: NamedQuery,
        terms: &Terms,
    ) -> Result<(Select, Option<(usize, Recursion)>), SqlError> {
        let cte = Rc::clone(&named.query);
        let names = self.named.len();
        let mut first = self.branch(&terms.first)?;
        super::from::rename(&mut first.output, &cte)?;
        let (number, columns) = (self.number(), Arc::from(first.output.as_slice()));
        let found = Found { number, columns, depth: self.scopes.len(), mentions: 0 };
        self.named.push(NamedQuery { found: Some(found), ..named });
        let next = self.branch(&terms.next);
        let mentions = self.named[names].found.as_ref().map_or(0, |found| found.mentions);
        self.named.truncate(names);
        let next = next?;
        if mentions == 0 {
            return Ok((self.query(&cte.query)?, None));
        }
        let query = &cte.query;
        for (is_so, what) in [
            (query.order_by.is_some(), "ORDER BY in a recursive query"),
            (query.limit_clause.is_some() || query.fetch.is_some(), "LIMIT in a recursive query"),
            (query.with.is_some(), "WITH in a recursive query"),
            (!query.locks.is_empty(), "FOR UPDATE in a recursive query"),
        ] {
            if is_so {
                return Err(SqlError::unsupported(what));
            }
        }
        if next.group.is_some() {
            let message =
                "aggregate functions are not allowed in a recursive query's recursive term";
            return Err(SqlError::new(code::INVALID_RECURSION, message));
        }
        let term = self.as_first(&first, next, &folded(&cte.alias.name))?;
        Ok((first, Some((number, Recursion { term, all: terms.all }))))
    }

    /// A recursive term, with its columns converted to the types of the first term.
    fn as_first(&self, first: &Select, next: Select, name: &str) -> Result<Select, SqlError> {
        if first.output.len() != next.output.len() {
            let message = "each UNION query must have the same number of columns";
            return Err(SqlError::new(code::SYNTAX, message));
        }
        let mut types = Vec::with_capacity(first.output.len());
        for (at, (a, b)) in first.output.iter().zip(&next.output).enumerate() {
            if a.ty.family() != b.ty.family() {
                let message =
                    format!("UNION types {} and {} cannot be matched", bare(a.ty), bare(b.ty));
                return Err(SqlError::new(code::DATATYPE_MISMATCH, message));
            }
            let overall = functions::common(&[a.ty, b.ty]);
            if bare(overall) != bare(a.ty) {
                let message = format!(
                    "recursive query \"{name}\" column {} has type {} in non-recursive term but type \
                     {} overall",
                    at + 1,
                    a.ty,
                    overall
                );
                let hint = "Cast the output of the non-recursive term to the correct type.";
                return Err(SqlError::new(code::DATATYPE_MISMATCH, message).hint(hint));
            }
            types.push(a.ty);
        }
        Ok(of_types(next, &types))
    }

    /// A recursive query, referenced in its own term.
    pub(super) fn found(&mut self, at: usize) -> Result<Source, SqlError> {
        let around = self.scopes.len();
        let wrong = |name: &str, why: &str| {
            let message = format!("recursive reference to query \"{name}\" must not appear {why}");
            Err(SqlError::new(code::INVALID_RECURSION, message))
        };
        let NamedQuery { name, found: Some(found), .. } = &mut self.named[at] else {
            unreachable!("its term is being bound");
        };
        found.mentions += 1;
        if found.mentions > 1 {
            return wrong(name, "more than once");
        }
        if around != found.depth + 1 {
            return wrong(name, "within a subquery");
        }
        Ok(Source::Found(found.number, found.columns.clone()))
    }
}
