//! Arrays of several dimensions: literals and subscripts.
//!
//! ```text
//!   array[[a, b], [c, d]]      the elements have one type; a row of them is an array
//!   x[1][2]                    an element, by its number in each dimension
//!   x[1:2][3]                  a slice: a single number is the end of a span from 1 on
//! ```

use super::Binder;
use super::expr::{Typed, typed};
use crate::array::DIMENSIONS_MAX;
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::expr::Expr;
use crate::functions::{ArrayFunc, Func};
use crate::types::SqlType;
use sqlparser::ast::{self, AccessExpr, Subscript};

/// The elements of a literal in brackets, if it is one.
fn brackets(expr: &ast::Expr) -> Option<&[ast::Expr]> {
    match expr {
        ast::Expr::Array(array) => Some(&array.elem),
        _ => None,
    }
}

/// True if one of the elements of a literal is one in brackets.
pub(super) fn has_brackets(elements: &[ast::Expr]) -> bool {
    elements.iter().any(|one| brackets(one).is_some())
}

/// Binds the elements of `ARRAY[..]` if all of them are arrays in brackets; otherwise `None`.
pub(super) fn nested_literal(
    binder: &mut Binder<'_>,
    elements: &[ast::Expr],
) -> Result<Option<Typed>, SqlError> {
    if elements.is_empty() || !elements.iter().all(|one| brackets(one).is_some()) {
        return Ok(None);
    }
    let (mut rows, mut lengths): (Vec<&ast::Expr>, Vec<usize>) =
        (elements.iter().collect(), vec![]);
    lengths.push(rows.len());
    while rows.iter().all(|row| brackets(row).is_some()) {
        let parts: Vec<&[ast::Expr]> = rows.iter().filter_map(|row| brackets(row)).collect();
        let length = parts[0].len();
        if length == 0 || parts.iter().any(|part| part.len() != length) {
            return uneven(parts.iter().all(|part| part.is_empty()));
        }
        lengths.push(length);
        if lengths.len() > DIMENSIONS_MAX {
            let message = format!(
                "number of array dimensions ({}) exceeds the maximum allowed ({DIMENSIONS_MAX})",
                lengths.len()
            );
            return Err(SqlError::new(code::PROGRAM_LIMIT, message));
        }
        rows = parts.into_iter().flatten().collect();
    }
    if rows.iter().any(|row| brackets(row).is_some()) {
        return uneven(false);
    }
    let leaves = rows.into_iter().map(|leaf| binder.expr(leaf)).collect::<Result<Vec<_>, _>>()?;
    let (values, ty) = binder.together(leaves)?;
    let (array, is_leaf) = match ty.is_array() {
        // The elements are arrays themselves, as columns are.
        true => (ty, false),
        false => {
            let what = || SqlError::unsupported(format!("an array of {ty}"));
            (ty.array().ok_or_else(what)?, true)
        }
    };
    let mut parts = Vec::with_capacity(values.len());
    for value in values {
        parts.push(if is_leaf { binder.as_element(typed(value, ty))? } else { value });
    }
    let mut func = if is_leaf { Func::ArrayOf } else { Func::Array(ArrayFunc::Nest) };
    for length in lengths.iter().rev() {
        let of = |part: &[Expr]| Expr::Call(func, part.to_vec());
        parts = parts.chunks(*length).map(of).collect();
        func = Func::Array(ArrayFunc::Nest);
    }
    Ok(parts.pop().map(|whole| typed(whole, array)))
}

fn uneven(are_empty: bool) -> Result<Option<Typed>, SqlError> {
    if are_empty {
        let message = "cannot determine type of empty array";
        let error = SqlError::new(code::INDETERMINATE_TYPE, message);
        return Err(
            error.hint("Explicitly cast to the desired type, for example ARRAY[]::integer[].")
        );
    }
    let message = "multidimensional arrays must have array expressions with matching dimensions";
    Err(SqlError::new("2202E", message))
}

/// Several subscripts of an array.
pub(super) fn of_dimensions(
    binder: &mut Binder<'_>,
    array: Typed,
    subscripts: &[AccessExpr],
) -> Result<Typed, SqlError> {
    let ty = array.ty.plain();
    let element = ty.element().unwrap_or(SqlType::Text);
    let subscripts = subscripts.iter().map(|step| match step {
        AccessExpr::Subscript(subscript) => Ok(subscript),
        AccessExpr::Dot(_) => Err(SqlError::unsupported("a field of an array")),
    });
    let subscripts = subscripts.collect::<Result<Vec<_>, _>>()?;
    let number = |binder: &mut Binder<'_>, number: &ast::Expr| {
        let number = binder.expr(number)?;
        binder.coerce(number, SqlType::Int4)
    };
    let is_slice = subscripts.iter().any(|one| matches!(one, Subscript::Slice { .. }));
    let mut args = vec![array.expr];
    for subscript in subscripts {
        match subscript {
            Subscript::Index { index } if !is_slice => args.push(number(binder, index)?),
            Subscript::Index { index } => {
                args.push(Expr::Const(Datum::Int(1)));
                args.push(number(binder, index)?);
            }
            Subscript::Slice { lower_bound, upper_bound, .. } => {
                for bound in [lower_bound, upper_bound] {
                    args.push(match bound {
                        Some(bound) => number(binder, bound)?,
                        None => Expr::Const(Datum::Null),
                    });
                }
            }
        }
    }
    if is_slice {
        return Ok(typed(Expr::Call(Func::Array(ArrayFunc::Slices), args), ty));
    }
    args.push(Expr::Const(Datum::Int(element.number())));
    Ok(typed(Expr::Call(Func::Array(ArrayFunc::At), args), element))
}
