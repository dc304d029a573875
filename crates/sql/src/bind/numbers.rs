//! Functions of numbers that exist for some numeric types only: their resolution, and the
//! conversion of arguments.
//!
//! ```text
//!   log(2, 64)        log(numeric, numeric)        integers become numerics
//!   gcd(int4, int8)   gcd(bigint, bigint)          an overloaded function, see the module of forms
//! ```

use super::Binder;
use super::expr::{Typed, typed};
use super::json::unknown_function;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::Expr;
use crate::functions::number_patterns::INTEGER;
use crate::functions::{Func, NumberFunc};
use crate::parse::{SAMPLE_NUMBER, SAMPLE_PERCENT};
use crate::types::{Family, SqlType};

const NUMERIC: SqlType = SqlType::Numeric(None);

impl Binder<'_> {
    /// Resolves one of these functions by its name, or returns `None`.
    pub(super) fn number_function(
        &mut self,
        name: &str,
        args: &[Typed],
    ) -> Option<Result<Typed, SqlError>> {
        use NumberFunc::*;
        let (func, types, result): (NumberFunc, &[SqlType], SqlType) = match (name, args) {
            ("log" | "log10", [of]) if of.ty == NUMERIC => (Log10, &[NUMERIC], NUMERIC),
            ("log" | "log10", [_]) => (Log10, &[SqlType::Float8], SqlType::Float8),
            ("cbrt", [_]) => (Cbrt, &[SqlType::Float8], SqlType::Float8),
            ("log", [_, _]) => (Log, &[NUMERIC, NUMERIC], NUMERIC),
            ("div", [_, _]) => (Div, &[NUMERIC, NUMERIC], NUMERIC),
            ("factorial", [_]) => (Factorial, &[SqlType::Int8], NUMERIC),
            ("scale", [_]) => (Scale, &[NUMERIC], SqlType::Int4),
            ("min_scale", [_]) => (LeastScale, &[NUMERIC], SqlType::Int4),
            ("trim_scale", [_]) => (TrimScale, &[NUMERIC], NUMERIC),
            ("gcd" | "lcm", [a, b]) => {
                let func = if name == "gcd" { Gcd } else { Lcm };
                return Some(self.of_divisors(name, func, [a.clone(), b.clone()]));
            }
            ("width_bucket", [_, array]) if array.ty.family() == Family::Array => {
                return Some(self.bucket_of_array(args.to_vec()));
            }
            ("width_bucket", [of, from, to, _]) => {
                let is_float = [of, from, to].iter().any(|value| value.ty.is_float());
                match is_float {
                    true => (Bucket, &BINARY_BUCKET, SqlType::Int4),
                    false => (Bucket, &EXACT_BUCKET, SqlType::Int4),
                }
            }
            ("to_char", [value, _]) if value.ty.family() == Family::Number => {
                return Some(self.number_shown(name, value.ty, args.to_vec()));
            }
            (SAMPLE_PERCENT, [_]) => (SamplePercent, &[SqlType::Float8], SqlType::Float8),
            (SAMPLE_NUMBER, [seed, row]) => {
                let seed = match self.coerce(seed.clone(), SqlType::Float8) {
                    Ok(seed) => seed,
                    Err(error) => return Some(Err(error)),
                };
                let call = Expr::Call(Func::Number(SampleNumber), vec![seed, row.expr.clone()]);
                return Some(Ok(typed(call, SqlType::Float8)));
            }
            ("to_number", [_, _]) => (ToNumber, &[SqlType::Text, SqlType::Text], NUMERIC),
            _ => return None,
        };
        Some(self.number_call(name, func, (types, result), args.to_vec()))
    }

    /// A call whose arguments have implicit conversions to these types.
    fn number_call(
        &mut self,
        name: &str,
        func: NumberFunc,
        (types, result): (&[SqlType], SqlType),
        args: Vec<Typed>,
    ) -> Result<Typed, SqlError> {
        self.call_of(name, Func::Number(func), (types, result), args)
    }

    /// The same for any function.
    pub(super) fn call_of(
        &mut self,
        name: &str,
        func: Func,
        (types, result): (&[SqlType], SqlType),
        args: Vec<Typed>,
    ) -> Result<Typed, SqlError> {
        if !args.iter().zip(types).all(|(arg, ty)| becomes(arg.ty, *ty)) {
            return Err(unknown_function(name, &args));
        }
        let args = args.into_iter().zip(types).map(|(arg, ty)| self.coerce(arg, *ty));
        let args = args.collect::<Result<Vec<_>, SqlError>>()?;
        let call = Expr::Call(func, args);
        // An integer result must be in the range of its type.
        let is_ranged = result.is_integer();
        Ok(typed(if is_ranged { Expr::Cast(Box::new(call), result) } else { call }, result))
    }

    fn of_divisors(
        &mut self,
        name: &str,
        func: NumberFunc,
        args: [Typed; 2],
    ) -> Result<Typed, SqlError> {
        let ty = args[0].ty;
        self.number_call(name, func, (&[ty, ty], ty), args.to_vec())
    }

    /// `width_bucket(value, thresholds)`: values compare like the array's elements.
    fn bucket_of_array(&mut self, args: Vec<Typed>) -> Result<Typed, SqlError> {
        let [value, array] = args.as_slice() else {
            return Err(unknown_function("width_bucket", &args));
        };
        let element = array.ty.element().unwrap_or(SqlType::Unknown);
        if value.ty != SqlType::Unknown && value.ty.family() != element.family() {
            return Err(unknown_function("width_bucket", &args));
        }
        let (value, array) = (self.coerce(value.clone(), element)?, array.expr.clone());
        let number = Expr::Const(Datum::Int(element.number()));
        let call = Expr::Call(Func::Number(NumberFunc::BucketOf), vec![value, array, number]);
        Ok(typed(call, SqlType::Int4))
    }

    fn number_shown(
        &mut self,
        name: &str,
        ty: SqlType,
        args: Vec<Typed>,
    ) -> Result<Typed, SqlError> {
        let func = match ty {
            SqlType::Float4 => NumberFunc::ToChar { digits: 6 },
            SqlType::Float8 => NumberFunc::ToChar { digits: 15 },
            SqlType::Int2 | SqlType::Int4 => NumberFunc::ToChar { digits: INTEGER },
            _ => NumberFunc::ToChar { digits: 0 },
        };
        let ty = if ty.is_integer() { NUMERIC } else { ty };
        self.number_call(name, func, (&[ty, SqlType::Text], SqlType::Text), args)
    }
}

const EXACT_BUCKET: [SqlType; 4] = [NUMERIC, NUMERIC, NUMERIC, SqlType::Int4];
const BINARY_BUCKET: [SqlType; 4] =
    [SqlType::Float8, SqlType::Float8, SqlType::Float8, SqlType::Int4];

/// True if a type has an implicit conversion to another.
fn becomes(from: SqlType, to: SqlType) -> bool {
    let rank = crate::functions::number_rank;
    match (from.family(), to.family()) {
        (Family::Unknown, _) => true,
        (Family::Number, Family::Number) => rank(from) <= rank(to),
        (a, b) => a == b,
    }
}
