//! Assignment to a part of a column: `set a[1] = 7`, `insert into t (j['a']) ..`.
//!
//! ```text
//!   set a[1] = 7, a[2] = 8      a = put(put(a, 1, '7'), 2, '8')      the first change is kept
//!   set j['a']['b'] = '5'       j = assign(j, '{a,b}', '5')
//! ```
//!
//! Where the grammar allows only names, [`crate::parse`] appends the number of the part to the name
//! as a [function](ast::ObjectNamePart).

use super::expr::{Typed, typed};
use super::{Binder, bare, change::is_default, folded, is_assignable};
use crate::catalog::TableColumn;
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::expr::Expr;
use crate::functions::{ArrayFunc, Func, JsonFunc};
use crate::types::{Family, SqlType};
use sqlparser::ast::{self, AccessExpr, FunctionArg, FunctionArgExpr, ObjectNamePart, Subscript};

/// The assigned name, and the part of it, if it is not the whole column.
///
/// # Errors
/// 42703 for a name of several parts: the first would be a column, and columns have no fields.
pub(super) fn target(
    name: &ast::ObjectName,
) -> Result<(Option<&ast::Ident>, Option<&[AccessExpr]>), SqlError> {
    let mut idents = name.0.iter().filter_map(ObjectNamePart::as_ident);
    let ident = idents.next();
    if let (Some(column), Some(field)) = (ident, idents.next()) {
        let message = format!(
            "cannot assign to field \"{}\" of column \"{}\" because its type is not a composite type",
            folded(field),
            folded(column)
        );
        return Err(SqlError::new(code::UNDEFINED_COLUMN, message)
            .hint("SET target columns cannot be qualified with the relation name."));
    }
    let part = match name.0.last() {
        Some(ObjectNamePart::Function(part)) => match part.args.as_slice() {
            [
                FunctionArg::Unnamed(FunctionArgExpr::Expr(ast::Expr::CompoundFieldAccess {
                    access_chain,
                    ..
                })),
            ] => Some(access_chain.as_slice()),
            _ => None,
        },
        _ => None,
    };
    Ok((ident, part))
}

impl Binder<'_> {
    /// The value of a column after an assignment to a part of it.
    pub(super) fn with_part(
        &mut self,
        column: &TableColumn,
        before: Expr,
        chain: &[AccessExpr],
        value: &ast::Expr,
    ) -> Result<Expr, SqlError> {
        if is_default(value) {
            let what = if column.ty == SqlType::Jsonb { "a subfield" } else { "an array element" };
            let message = format!("cannot set {what} to DEFAULT");
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
        }
        let steps = chain.iter().map(|step| match step {
            AccessExpr::Subscript(subscript) => Ok(subscript),
            AccessExpr::Dot(_) => Err(SqlError::unsupported("assignment to a field")),
        });
        let steps = steps.collect::<Result<Vec<&Subscript>, _>>()?;
        let value = self.expr(value)?;
        match (column.ty.plain(), steps.as_slice()) {
            (SqlType::Jsonb, steps) => {
                let mut path = Vec::with_capacity(steps.len());
                let mut begins_array = false;
                for (at, step) in steps.iter().enumerate() {
                    let Subscript::Index { index } = step else {
                        let message = "jsonb subscript does not support slices";
                        return Err(SqlError::new(code::DATATYPE_MISMATCH, message));
                    };
                    let key = self.expr(index)?;
                    begins_array |= at == 0 && key.ty.is_integer();
                    path.push(self.as_text(key)?);
                }
                let new = self.part_of(column, value, SqlType::Jsonb)?;
                let path = Expr::Call(Func::ArrayOf, path);
                let begins_array = Expr::Const(Datum::Bool(begins_array));
                let args = vec![before, path, new, begins_array];
                Ok(Expr::Call(Func::Json(JsonFunc::Assign), args))
            }
            (ty, [Subscript::Index { index }]) if ty.is_array() => {
                let element = ty.element().expect("an array has elements");
                let index = self.expr(index)?;
                let index = self.coerce(index, SqlType::Int4)?;
                let new = self.part_of(column, value, element)?;
                let new = self.as_shown(typed(new, element))?;
                Ok(Expr::Call(Func::Array(ArrayFunc::Put), vec![before, index, new]))
            }
            (ty, [Subscript::Slice { lower_bound, upper_bound, stride: None }])
                if ty.is_array() =>
            {
                let mut args = vec![before];
                for bound in [lower_bound, upper_bound] {
                    args.push(match bound {
                        Some(bound) => {
                            let bound = self.expr(bound)?;
                            let bound = self.coerce(bound, SqlType::Int4)?;
                            Expr::Call(Func::Array(ArrayFunc::Bound), vec![bound])
                        }
                        None => Expr::Const(Datum::Null),
                    });
                }
                args.push(self.part_of(column, value, column.ty.plain())?);
                Ok(Expr::Call(Func::Array(ArrayFunc::PutSlice), args))
            }
            (ty, steps) if ty.is_array() => {
                let element = ty.element().expect("an array has elements");
                let mut numbers = Vec::with_capacity(steps.len());
                for step in steps {
                    let Subscript::Index { index } = step else {
                        let what = "assignment to a slice of several dimensions";
                        return Err(SqlError::unsupported(what)
                            .hint("Assign the elements one by one, or the whole array."));
                    };
                    let index = self.expr(index)?;
                    numbers.push(self.coerce(index, SqlType::Int4)?);
                }
                let new = self.part_of(column, value, element)?;
                let new = self.as_shown(typed(new, element))?;
                let args = [before, new].into_iter().chain(numbers).collect();
                Ok(Expr::Call(Func::Array(ArrayFunc::PutAt), args))
            }
            (ty, _) => {
                let message = format!(
                    "cannot subscript type {} because it does not support subscripting",
                    bare(ty)
                );
                Err(SqlError::new(code::DATATYPE_MISMATCH, message))
            }
        }
    }

    /// A value converted to the type of a column's part.
    fn part_of(
        &mut self,
        column: &TableColumn,
        value: Typed,
        ty: SqlType,
    ) -> Result<Expr, SqlError> {
        if !is_assignable(value.ty, ty) {
            let message = format!(
                "subscripted assignment to \"{}\" requires type {} but expression is of type {}",
                column.name,
                bare(ty),
                bare(value.ty)
            );
            let hint = "You will need to rewrite or cast the expression.";
            return Err(SqlError::new(code::DATATYPE_MISMATCH, message).hint(hint));
        }
        if ty.family() == Family::Text && value.ty != SqlType::Unknown {
            return self.as_text(value);
        }
        let differs = value.ty != SqlType::Unknown && bare(value.ty) != ty;
        let value = self.coerce(value, ty)?;
        Ok(if differs { Expr::Cast(Box::new(value), ty) } else { value })
    }
}
