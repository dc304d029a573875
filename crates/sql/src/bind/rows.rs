//! Rows as values.
//!
//! ```text
//!   ROW (1, t.a), (1, t.a)        Make (f1, f2; 1, t.a)
//!   t, t.*                        OfSource (id, a; t.id, t.a)     where no column is named t
//!   (t).a                         t.a                             the field is known here
//!   t IS NOT NULL                 IsFull (t)
//! ```
//!
//! The names and types of the columns are known here only, so they are the first argument of the
//! function that makes the row, as a row of NULLs. Left out: composite types of CREATE TYPE, and
//! fields of a row that a subquery returns.

use super::expr::{EXPR_BYTES, typed};
use super::{Binder, ScopeColumn, Typed, bare, folded};
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::expr::Expr;
use crate::functions::{Func, RowFunc};
use crate::row_value::RowValue;
use crate::types::SqlType;
use sqlparser::ast::{self, FunctionArg, FunctionArgExpr};

/// A row of values.
pub(super) fn row_of_values(
    binder: &mut Binder<'_>,
    values: &[ast::Expr],
) -> Result<Typed, SqlError> {
    let mut fields = Vec::with_capacity(values.len());
    for (at, value) in values.iter().enumerate() {
        let value = binder.expr(value)?;
        let value = match value.ty {
            SqlType::Unknown => typed(binder.coerce(value, SqlType::Text)?, SqlType::Text),
            _ => value,
        };
        fields.push((format!("f{}", at + 1), value));
    }
    made(binder, RowFunc::Make, fields)
}

/// The row of a source of the query or of an enclosing one; `None` if there is no such source.
pub(super) fn row_of_source(
    binder: &mut Binder<'_>,
    name: &str,
) -> Result<Option<Typed>, SqlError> {
    for levels in 0..binder.scopes.len() {
        let at = binder.scopes.len() - 1 - levels;
        let scope = &mut binder.scopes[at];
        binder.budget.tick(scope.columns.len())?;
        let is_own = |column: &&ScopeColumn| column.alias == name && column.origin.1 >= 0;
        let mut own: Vec<ScopeColumn> = scope.columns.iter().filter(is_own).cloned().collect();
        if own.is_empty() {
            continue;
        }
        own.sort_by_key(|column| column.slot);
        for column in &own {
            scope.used[column.slot] = true;
        }
        let read = |slot: usize| match levels {
            0 => Expr::Column(slot),
            levels => Expr::Outer(levels, slot),
        };
        let fields = own.into_iter().map(|it| (it.name, typed(read(it.slot), it.ty))).collect();
        return made(binder, RowFunc::OfSource, fields).map(Some);
    }
    Ok(None)
}

fn made(
    binder: &mut Binder<'_>,
    func: RowFunc,
    fields: Vec<(String, Typed)>,
) -> Result<Typed, SqlError> {
    let bytes = fields.iter().map(|(name, _)| EXPR_BYTES + 2 * name.len()).sum();
    binder.budget.charge(bytes)?;
    let (mut columns, mut args) = (Vec::new(), Vec::with_capacity(fields.len() + 1));
    for (name, value) in fields {
        // The number of an object is shown as its name, for which only a statement has the catalog.
        let value = match value.ty {
            SqlType::Reg(_) => typed(binder.as_text(value)?, SqlType::Text),
            _ => value,
        };
        columns.push((name, value.ty));
        args.push(value.expr);
    }
    args.insert(0, Expr::Const(Datum::Row(Box::new(RowValue::of_nulls(columns)))));
    Ok(typed(Expr::Call(Func::Row(func), args), SqlType::Record))
}

/// The columns of a row, if they are known here, and their values.
fn parts(row: &Typed) -> Option<(&RowValue, &[Expr])> {
    let Expr::Call(Func::Row(RowFunc::Make | RowFunc::OfSource), args) = &row.expr else {
        return None;
    };
    match args.split_first() {
        Some((Expr::Const(Datum::Row(columns)), values)) => Some((columns, values)),
        _ => None,
    }
}

/// A column of a row.
///
/// # Errors
/// 42703 if there is none of this name, or the columns are not known.
pub(super) fn field(
    binder: &Binder<'_>,
    row: &Typed,
    name: &ast::Ident,
) -> Result<Typed, SqlError> {
    let wanted = folded(name);
    let found = parts(row).and_then(|(columns, values)| {
        let at = columns.columns().iter().position(|(name, _)| *name == wanted)?;
        Some(typed(values[at].clone(), columns.columns()[at].1))
    });
    found.ok_or_else(|| {
        let message = format!("could not identify column \"{wanted}\" in record data type");
        binder.at(SqlError::new(code::UNDEFINED_COLUMN, message), name)
    })
}

/// The elements of an array as a row, which has the same place in an order.
pub(super) fn row_of_array(array: Expr, element: SqlType) -> Expr {
    let number = Expr::Const(Datum::Int(element.number()));
    Expr::Call(Func::Row(RowFunc::OfArray), vec![array, number])
}

/// `IS NULL`, or `IS NOT NULL`, of a row. They are not opposites: a row with one NULL is neither.
pub(super) fn is_null(row: Typed, is_negated: bool) -> Expr {
    let func = if is_negated { RowFunc::IsFull } else { RowFunc::IsEmpty };
    Expr::Call(Func::Row(func), vec![row.expr])
}

/// Refuses to compare rows of other columns.
///
/// # Errors
/// 42804.
pub(super) fn check_comparable(a: &Typed, b: &Typed) -> Result<(), SqlError> {
    let (Some((a, _)), Some((b, _))) = (parts(a), parts(b)) else { return Ok(()) };
    for (at, ((_, a), (_, b))) in a.columns().iter().zip(b.columns()).enumerate() {
        if a.family() != b.family() {
            let (a, b, at) = (bare(*a), bare(*b), at + 1);
            let message =
                format!("cannot compare dissimilar column types {a} and {b} at record column {at}");
            return Err(SqlError::new(code::DATATYPE_MISMATCH, message));
        }
    }
    Ok(())
}

/// `t.*` as an argument of a function: the row of a source.
pub(super) fn row_argument(arg: &FunctionArg) -> Option<ast::Expr> {
    let FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) = arg else { return None };
    let token = ast::helpers::attached_token::AttachedToken::empty();
    Some(ast::Expr::QualifiedWildcard(name.clone(), token))
}
