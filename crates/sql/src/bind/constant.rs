//! Constant expressions, computed while a statement is compiled.
//!
//! ```text
//!   select case when a > 100 then 1/0 else a end from t      22012, whatever rows t has
//!   select case when false then 1/0 else a end from t        the branch is never taken: no error
//!   select coalesce(nullif(1, 2), 1/0)                       the same
//!   select case when a > 100 then 1/0 else 0 end
//!   from (values (1)) v(a)                                   the same: a is 1
//! ```
//!
//! PostgreSQL's planner computes constant expressions, so their errors come before a row is read.
//! Before that it replaces a simple query in FROM by its columns, so constant columns take part.
//! Here only the errors matter: the values are computed again when the statement runs. Branches
//! behind a condition with a parameter are left out, and so are conditions inside of other queries.

use crate::budget::{Account, Budget};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::exec::{Evaluate, Immutable};
use crate::expr::Expr;
use crate::functions::Func;
use crate::plan::{Change, Select, Source, Step};
use crate::types::{Family, SqlType};

/// The most memory for the computation of one constant.
const CONSTANT_BYTES: usize = 1 << 20;

/// Refuses a query with an error in its constants.
///
/// # Errors
/// That of the computation: 22012, 22003.
pub(crate) fn check_query(query: &Select, budget: &Budget) -> Result<(), SqlError> {
    let mut by = Constants::over(query, budget)?;
    query.steps.iter().try_for_each(|step| by.all(&step.on).map(drop))?;
    by.all(&query.filter)?;
    if let Some(group) = &query.group {
        // Behind the grouping, a row begins with the keys. With grouping sets, each may be NULL.
        let is_same = group.sets.is_empty();
        let key = |key| Ok(by.fold(key)?.filter(|_| is_same));
        let keys = group.keys.iter().map(key).collect::<Result<_, SqlError>>()?;
        by.set_row(keys);
        by.all(&group.having)?;
    }
    let mut own = query.project.iter().chain(&query.limit).chain(&query.offset);
    own.try_for_each(|expr| by.fold(expr).map(drop))?;
    query.other.as_ref().map_or(Ok(()), |other| check_query(&other.query, budget))
}

/// The same of an UPDATE or a DELETE.
///
/// # Errors
/// As [`check_query`].
pub(crate) fn check_change(change: &Change, budget: &Budget) -> Result<(), SqlError> {
    let none = Select::default();
    let by = Constants::over(change.joined.as_deref().unwrap_or(&none), budget)?;
    by.all(&change.step.on)?;
    let set = change.set.iter().flatten().map(|(_, value)| value);
    set.into_iter().try_for_each(|expr| by.fold(expr).map(drop))?;
    let Some(returning) = &change.returning else { return Ok(()) };
    let by = Constants::over(&none, budget)?;
    returning.project.iter().try_for_each(|expr| by.fold(expr).map(drop))
}

/// The value of an expression if it is constant.
///
/// # Errors
/// Those of its evaluation.
pub(crate) fn constant_value(expr: &Expr, budget: &Budget) -> Result<Option<Datum>, SqlError> {
    Constants::over(&Select::default(), budget)?.fold(expr)
}

/// The constant columns of a row, and the evaluation of constants. The budget is that of the
/// statement, whose text may nest deep.
struct Constants<'b> {
    by: Immutable,
    budget: &'b Budget,
    /// Which slots of the row have the same value in each row.
    known: Vec<bool>,
    /// The values of these slots; NULL elsewhere.
    row: Vec<Datum>,
}

impl<'b> Constants<'b> {
    /// For expressions over a row of all sources of a query.
    fn over(query: &Select, budget: &'b Budget) -> Result<Constants<'b>, SqlError> {
        budget.deeper()?;
        let account = Account::new("a constant", "memory", CONSTANT_BYTES, None);
        let own = Budget::new(account, usize::MAX, Box::new(|| Ok(())));
        let by = Immutable::new(own);
        let mut constants = Constants { by, budget, known: Vec::new(), row: Vec::new() };
        let mut row = vec![None; query.width];
        for step in &query.steps {
            if step.right {
                row.fill(None);
            }
            if step.left || row.len() < step.offset + step.width {
                continue;
            }
            let columns = constants.columns(step)?.into_iter().take(step.width);
            row[step.offset..].iter_mut().zip(columns).for_each(|(slot, value)| *slot = value);
        }
        constants.set_row(row);
        Ok(constants)
    }

    fn set_row(&mut self, row: Vec<Option<Datum>>) {
        self.known = row.iter().map(Option::is_some).collect();
        self.row = row.into_iter().map(|value| value.unwrap_or(Datum::Null)).collect();
    }

    /// The constant columns of a source whose query PostgreSQL replaces by its columns.
    fn columns(&self, step: &Step) -> Result<Vec<Option<Datum>>, SqlError> {
        let query = match &step.source {
            Source::Query(query) | Source::Lateral(_, query) => query,
            Source::Named(named) if !named.is_shared() && named.recursion.is_none() => &named.query,
            Source::Values(rows) => {
                return match rows.as_slice() {
                    [row] => row.iter().map(|value| self.fold(value)).collect(),
                    _ => Ok(Vec::new()),
                };
            }
            _ => return Ok(Vec::new()),
        };
        if !is_simple(query) {
            return Ok(Vec::new());
        }
        let inside = Constants::over(query, self.budget)?;
        // An error in a column that no expression reads is none.
        Ok(query.project.iter().map(|column| inside.fold(column).unwrap_or(None)).collect())
    }

    /// The value of an expression that is constant; its constant parts are computed in any case.
    fn fold(&self, expr: &Expr) -> Result<Option<Datum>, SqlError> {
        self.budget.deeper()?;
        match expr {
            Expr::Const(value) => Ok(Some(value.clone())),
            Expr::Column(slot) => {
                let is_known = self.known.get(*slot).copied().unwrap_or(false);
                Ok(is_known.then(|| self.row[*slot].clone()))
            }
            Expr::Case(branches, otherwise) => {
                let mut is_decided = true;
                for (condition, value) in branches {
                    match self.fold(condition)? {
                        Some(Datum::Bool(true)) => {
                            return Ok(self.fold(value)?.filter(|_| is_decided));
                        }
                        Some(_) => {}
                        None if waits(condition) => return Ok(None),
                        None => {
                            self.fold(value)?;
                            is_decided = false;
                        }
                    }
                }
                Ok(self.fold(otherwise)?.filter(|_| is_decided))
            }
            Expr::And(all) => self.all(all),
            Expr::Or(any) => self.until(any, true),
            Expr::InRows(any, _) => self.fold(any),
            Expr::Call(Func::Coalesce, args) => {
                let mut is_decided = true;
                for arg in args {
                    match self.fold(arg)? {
                        Some(Datum::Null) => {}
                        Some(value) => return Ok(Some(value).filter(|_| is_decided)),
                        None if waits(arg) => return Ok(None),
                        None => is_decided = false,
                    }
                }
                Ok(Some(Datum::Null).filter(|_| is_decided))
            }
            _ => {
                let mut parts = Ok(true);
                expr.children(&mut |child| {
                    if let Ok(is_constant) = &mut parts {
                        match self.fold(child) {
                            Ok(value) => *is_constant &= value.is_some(),
                            Err(error) => parts = Err(error),
                        }
                    }
                });
                if parts? && is_computed(expr) { self.value(expr) } else { Ok(None) }
            }
        }
    }

    /// The conjunction of conditions, if it is constant.
    fn all(&self, all: &[Expr]) -> Result<Option<Datum>, SqlError> {
        self.until(all, false)
    }

    /// Computes conditions up to a constant that decides all of them.
    fn until(&self, all: &[Expr], decides: bool) -> Result<Option<Datum>, SqlError> {
        let mut result = Some(Datum::Bool(!decides));
        for expr in all {
            match self.fold(expr)? {
                Some(Datum::Bool(value)) if value == decides => {
                    return Ok(Some(Datum::Bool(decides)));
                }
                Some(Datum::Bool(_)) => {}
                Some(_) => result = result.map(|_| Datum::Null),
                None if waits(expr) => return Ok(None),
                None => result = None,
            }
        }
        Ok(result)
    }

    /// The value of an expression all of whose parts are constant. One that needs more than its
    /// parts, or much memory, is no constant.
    fn value(&self, expr: &Expr) -> Result<Option<Datum>, SqlError> {
        match self.by.value(expr, &self.row) {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.code.starts_with("22") => Err(error),
            Err(_) => Ok(None),
        }
    }
}

/// True if an expression is constant once the statement has parameters: PostgreSQL plans with them.
fn waits(expr: &Expr) -> bool {
    expr.has(&|part| matches!(part, Expr::Param(_)))
}

/// True if PostgreSQL replaces this query in FROM by its columns.
fn is_simple(query: &Select) -> bool {
    query.is_plain() && query.group.is_none() && query.windows.is_empty() && query.lock.is_none()
}

/// True if the value of an expression depends on its parts only.
fn is_computed(expr: &Expr) -> bool {
    match expr {
        Expr::Arith(..)
        | Expr::Compare(..)
        | Expr::Not(_)
        | Expr::IsNull(_)
        | Expr::IsTruth(..)
        | Expr::Same(_)
        | Expr::In(..)
        | Expr::Like { .. }
        | Expr::Matches { .. } => true,
        // Times are read as the session writes them, names and enums as the catalog has them.
        Expr::Elements { element: ty, .. } | Expr::Cast(_, ty) => {
            let is_plain = matches!(ty.family(), Family::Bool | Family::Number | Family::Text);
            is_plain && !matches!(ty, SqlType::Reg(_))
        }
        Expr::Call(..) => !expr.is_mutable(),
        _ => false,
    }
}
