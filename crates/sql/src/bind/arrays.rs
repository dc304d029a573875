//! Arrays: their functions and operators.
//!
//! ```text
//!   a || 7           Append(a, '7')                 an element is written as a text
//!   a @> b           Contains(a, b, type)           elements are compared by their type
//!   a < b            Order(a, b, type) < 0
//! ```

use super::Binder;
use super::convert::bare;
use super::expr::{Typed, boolean, typed};
use super::json::unknown_function;
use super::operators::{beside, no_operator};
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::expr::{Compare, Expr};
use crate::functions::{ArrayFunc, Func};
use crate::types::{Family, SqlType};
use sqlparser::ast::BinaryOperator;

/// 42804: no argument says which array type a function of any array has.
fn no_polymorphic() -> SqlError {
    let message = "could not determine polymorphic type because input has type unknown";
    SqlError::new(code::DATATYPE_MISMATCH, message)
}

fn call(func: ArrayFunc, args: Vec<Expr>) -> Expr {
    Expr::Call(Func::Array(func), args)
}

impl Binder<'_> {
    /// Two arrays of one type, followed by the type of their elements.
    fn both_arrays(&mut self, sign: &str, a: Typed, b: Typed) -> Result<Vec<Expr>, SqlError> {
        let ty = if a.ty == SqlType::Unknown { b.ty } else { a.ty };
        let is_one = |side: SqlType| side == SqlType::Unknown || side == ty;
        let (Some(element), true) = (ty.element(), is_one(a.ty) && is_one(b.ty)) else {
            return Err(no_operator(sign, a.ty, b.ty));
        };
        let oid = Expr::Const(Datum::Int(element.number()));
        Ok(vec![self.coerce(a, ty)?, self.coerce(b, ty)?, oid])
    }

    /// A comparison of arrays, element by element.
    pub(super) fn compare_arrays(
        &mut self,
        compare: Compare,
        a: Typed,
        b: Typed,
    ) -> Result<Typed, SqlError> {
        let args = self.both_arrays(compare.sign(), a, b)?;
        let zero = Expr::Const(Datum::Int(0));
        let order = call(ArrayFunc::Order, args);
        Ok(boolean(Expr::Compare(compare, Box::new([order, zero]))))
    }

    /// `@>`, `<@` and `&&`.
    pub(super) fn array_operator(
        &mut self,
        op: &BinaryOperator,
        a: Typed,
        b: Typed,
    ) -> Result<Typed, SqlError> {
        let (func, a, b) = match op {
            BinaryOperator::ArrowAt => (ArrayFunc::Contains, b, a),
            BinaryOperator::AtArrow => (ArrayFunc::Contains, a, b),
            _ => (ArrayFunc::Overlap, a, b),
        };
        let args = self.both_arrays(&op.to_string(), a, b)?;
        Ok(boolean(call(func, args)))
    }

    /// A function of an array and of elements, for this array type.
    pub(super) fn array_call(
        &mut self,
        func: ArrayFunc,
        ty: SqlType,
        args: Vec<Typed>,
    ) -> Result<Typed, SqlError> {
        let element = ty.element().unwrap_or(SqlType::Text);
        let mut bound = Vec::with_capacity(args.len() + 1);
        for (at, arg) in args.into_iter().enumerate() {
            if at == 0 {
                bound.push(self.coerce(arg, ty)?);
                continue;
            }
            let is_known = arg.ty != SqlType::Unknown && bare(arg.ty) != element;
            let value = self.coerce(arg, element)?;
            let value = if is_known { Expr::Cast(Box::new(value), element) } else { value };
            bound.push(self.as_element(typed(value, element))?);
        }
        bound.push(Expr::Const(Datum::Int(element.number())));
        Ok(typed(call(func, bound), ty))
    }

    /// A function of arrays by its name, or `None`.
    pub(super) fn array_function(
        &mut self,
        name: &str,
        args: &[Typed],
    ) -> Option<Result<Typed, SqlError>> {
        use ArrayFunc::*;
        let is_number = |ty: SqlType| ty.family() == Family::Number;
        let are_numbers = |array: SqlType, element: SqlType| {
            array.is_array() && array.element().is_some_and(is_number) && is_number(element)
        };
        let (func, array) = match (name, args) {
            ("array_append", [array, element]) | ("array_prepend", [element, array])
                if are_numbers(array.ty, element.ty) =>
            {
                return Some(self.concat_arrays(args[0].clone(), args[1].clone()));
            }
            ("array_append", [array, _]) => (Append, array),
            ("array_prepend", [_, array]) => (Prepend, array),
            ("array_position", [array, _] | [array, _, _]) => (Position, array),
            ("array_positions", [array, _]) => (Positions, array),
            ("array_remove", [array, _]) => (Remove, array),
            ("array_replace", [array, _, _]) => (Replace, array),
            ("array_cat", [a, b]) => return Some(self.concat_arrays(a.clone(), b.clone())),
            ("array_lower", [array, _]) => (Lower, array),
            ("array_upper", [array, _]) => (Upper, array),
            ("array_length", [array, _]) => (Count, array),
            ("array_ndims", [array]) => (Dimensions, array),
            ("array_dims", [array]) => (Shown, array),
            ("trim_array", [array, _]) => (Trim, array),
            ("cardinality" | "array_to_string", [array, ..]) if array.ty == SqlType::Unknown => {
                return Some(Err(no_polymorphic()));
            }
            ("string_to_array", [_, _] | [_, _, _]) => return Some(self.split(args)),
            ("array_fill", [_, _] | [_, _, _]) => return Some(filled(self, name, args)),
            _ => return None,
        };
        let mut args = args.to_vec();
        let mut array = array.clone();
        if let (SqlType::Unknown, Append | Prepend, [a, b]) = (array.ty, func, args.as_mut_slice())
        {
            // The other argument determines its type.
            let (side, other) = if func == Append { (a, b) } else { (b, a) };
            array.ty = beside(other.ty).array().unwrap_or(SqlType::Unknown);
            if let Expr::Const(Datum::Null) = side.expr {
                side.ty = array.ty;
            }
        }
        let args = &args[..];
        let Some(element) = array.ty.element().filter(|_| array.ty.family() == Family::Array)
        else {
            if array.ty == SqlType::Unknown {
                return Some(Err(no_polymorphic()));
            }
            return Some(Err(unknown_function(name, args)));
        };
        Some(self.array_named(name, (func, array.ty, element), args.to_vec()))
    }

    fn array_named(
        &mut self,
        name: &str,
        (func, ty, element): (ArrayFunc, SqlType, SqlType),
        mut args: Vec<Typed>,
    ) -> Result<Typed, SqlError> {
        use ArrayFunc::*;
        let result = match func {
            Position | Lower | Upper | Count | Dimensions => SqlType::Int4,
            Positions => SqlType::Array(&SqlType::Int4),
            Shown => SqlType::Text,
            _ => ty,
        };
        match func {
            Lower | Upper | Count | Dimensions | Shown | Trim => {
                let args = args.into_iter().enumerate().map(|(at, arg)| match at {
                    0 => Ok(arg.expr),
                    _ => self.coerce(arg, SqlType::Int4),
                });
                return Ok(typed(call(func, args.collect::<Result<_, _>>()?), result));
            }
            Prepend => args.reverse(),
            _ => {}
        }
        let fits = |arg: &Typed| arg.ty == SqlType::Unknown || arg.ty.family() == element.family();
        let elements = if func == Position { 2 } else { args.len() };
        if !args[1..elements].iter().all(fits) {
            return Err(unknown_function(name, &args));
        }
        // The start position precedes the type of the elements.
        let from = args.get(2).filter(|_| func == Position).cloned();
        args.truncate(elements);
        let found = self.array_call(func, ty, args)?;
        let (Some(from), Expr::Call(func, mut args)) = (from, found.expr.clone()) else {
            return Ok(typed(found.expr, result));
        };
        args.insert(2, self.coerce(from, SqlType::Int4)?);
        Ok(typed(Expr::Call(func, args), result))
    }

    pub(super) fn split(&mut self, args: &[Typed]) -> Result<Typed, SqlError> {
        let args = args.iter().cloned().map(|arg| self.as_text(arg));
        let args = args.collect::<Result<_, _>>()?;
        Ok(typed(call(ArrayFunc::Split, args), SqlType::Array(&SqlType::Text)))
    }
}

/// `array_fill`: the type of the element is that of the array's.
fn filled(binder: &mut Binder<'_>, name: &str, args: &[Typed]) -> Result<Typed, SqlError> {
    let element = args[0].clone();
    if element.ty == SqlType::Unknown {
        return Err(no_polymorphic());
    }
    let ty = beside(element.ty).array().ok_or_else(|| unknown_function(name, args))?;
    let mut bound = vec![binder.as_element(element)?];
    for numbers in &args[1..] {
        bound.push(binder.coerce(numbers.clone(), SqlType::Array(&SqlType::Int4))?);
    }
    Ok(typed(call(ArrayFunc::Fill, bound), ty))
}
