//! Queries of WITH that write: [`crate::plan::Writing`].
//!
//! They are bound in the order in which they are written, whether or not another query reads them,
//! and only where WITH belongs to the whole statement.

use super::{Binder, folded};
use crate::error::{SqlError, code};
use crate::plan::{Modify, OutputColumn, Select, Source, Writing};
use sqlparser::ast::{self, Query, SetExpr, Statement};
use std::sync::Arc;

/// The rows that other queries see of a query of WITH that writes.
#[derive(Clone)]
pub(super) struct Written {
    number: usize,
    /// The columns that it returns.
    columns: Option<Arc<[OutputColumn]>>,
}

impl Written {
    /// The rows that it returns, where they are read by this name.
    ///
    /// # Errors
    /// 0A000 if it returns none.
    pub(super) fn source(&self, name: &str) -> Result<Source, SqlError> {
        let columns = self.columns.clone().ok_or_else(|| {
            let message = format!("WITH query \"{name}\" does not have a RETURNING clause");
            SqlError::new(code::FEATURE_NOT_SUPPORTED, message)
        })?;
        Ok(Source::Found(self.number, columns))
    }
}

/// The INSERT, UPDATE or DELETE that stands in the place of a query, behind its WITH.
pub(crate) fn changes(query: &Query) -> Option<&Statement> {
    match &*query.body {
        SetExpr::Insert(change)
        | SetExpr::Update(change)
        | SetExpr::Delete(change)
        | SetExpr::Merge(change) => Some(change),
        _ => None,
    }
}

/// Binds a whole statement that is a query.
pub(crate) fn whole_query(binder: &mut Binder<'_>, query: &Query) -> Result<Select, SqlError> {
    binder.is_whole = true;
    binder.query(query)
}

/// Binds a whole statement that is a change with WITH before it; none if it is a query.
pub(crate) fn whole_change(
    binder: &mut Binder<'_>,
    query: &Query,
) -> Result<Option<Modify>, SqlError> {
    let Some(change) = changes(query) else { return Ok(None) };
    binder.is_whole = true;
    super::query::with_names(binder, query, |binder| modify(binder, change)).map(Some)
}

/// Binds an INSERT, UPDATE or DELETE.
pub(crate) fn modify(binder: &mut Binder<'_>, statement: &Statement) -> Result<Modify, SqlError> {
    Ok(match statement {
        Statement::Insert(insert) => Modify::Insert(Box::new(binder.insert(insert)?)),
        Statement::Update(update) => Modify::Update(Box::new(binder.update(update)?)),
        Statement::Delete(delete) => Modify::Delete(Box::new(binder.delete(delete)?)),
        _ => {
            return Err(SqlError::new(
                code::FEATURE_NOT_SUPPORTED,
                "MERGE not supported in WITH query",
            ));
        }
    })
}

/// Binds a query of WITH, if it writes. `is_allowed`: WITH belongs to the whole statement.
pub(super) fn written(
    binder: &mut Binder<'_>,
    cte: &ast::Cte,
    is_allowed: bool,
) -> Result<Option<Written>, SqlError> {
    let Some(change) = changes(&cte.query) else { return Ok(None) };
    let name = &cte.alias.name;
    if !is_allowed {
        let message = "WITH clause containing a data-modifying statement must be at the top level";
        return Err(binder.at(SqlError::new(code::FEATURE_NOT_SUPPORTED, message), name));
    }
    let modify = super::query::with_names(binder, &cte.query, |binder| modify(binder, change))?;
    let columns = match modify.returning() {
        None => None,
        Some(returning) => {
            let mut columns = returning.output.clone();
            super::from::rename(&mut columns, cte).map_err(|error| binder.at(error, name))?;
            Some(Arc::from(columns))
        }
    };
    let number = binder.number();
    binder.writing.push(Writing { number, name: folded(name), modify });
    Ok(Some(Written { number, columns }))
}
