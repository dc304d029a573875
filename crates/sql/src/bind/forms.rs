//! Overload resolution for numeric functions with several signatures, by PostgreSQL's rules.
//!
//! ```text
//!   round('0.55', 1)     round(numeric, int4)      the only one with two arguments
//!   mod(int4, int8)      mod(int8, int8)           the only one to which both convert implicitly
//!   power(numeric, $1)   power(numeric, numeric)   most arguments have its types already
//!   sqrt(2)              sqrt(float8)              the preferred type among numbers
//!   mod($1, $2)          42725                     ambiguous
//! ```
//!
//! The arguments get the types of the chosen signature, so later stages see no argument without a
//! type.

use super::Binder;
use super::convert::bare;
use super::expr::{Typed, typed};
use super::json::unknown_function;
use crate::error::{SqlError, code};
use crate::types::{Family, SqlType};

const INT2: SqlType = SqlType::Int2;
const INT4: SqlType = SqlType::Int4;
const INT8: SqlType = SqlType::Int8;
const FLOAT4: SqlType = SqlType::Float4;
const FLOAT8: SqlType = SqlType::Float8;
const NUMERIC: SqlType = SqlType::Numeric(None);

/// The argument types of each signature of a function with this number of arguments.
fn forms(name: &str, count: usize) -> &'static [&'static [SqlType]] {
    match (name, count) {
        ("abs", 1) => &[&[INT2], &[INT4], &[INT8], &[FLOAT4], &[FLOAT8], &[NUMERIC]],
        (
            "round" | "trunc" | "ceil" | "ceiling" | "floor" | "sign" | "sqrt" | "exp" | "ln"
            | "log" | "log10",
            1,
        ) => &[&[FLOAT8], &[NUMERIC]],
        ("round" | "trunc", 2) => &[&[NUMERIC, INT4]],
        ("power" | "pow", 2) => &[&[FLOAT8, FLOAT8], &[NUMERIC, NUMERIC]],
        ("mod", 2) => &[&[INT2, INT2], &[INT4, INT4], &[INT8, INT8], &[NUMERIC, NUMERIC]],
        ("gcd" | "lcm", 2) => &[&[INT4, INT4], &[INT8, INT8], &[NUMERIC, NUMERIC]],
        ("to_hex", 1) => &[&[INT4], &[INT8]],
        _ => &[],
    }
}

/// True if a number has an implicit conversion to another type.
fn becomes(from: SqlType, to: SqlType) -> bool {
    let rank = crate::functions::number_rank;
    match from.family() {
        Family::Unknown => true,
        Family::Number => rank(from) <= rank(to) && from != SqlType::Oid,
        _ => false,
    }
}

impl Binder<'_> {
    /// Resolves a function's signature, and converts the arguments.
    ///
    /// # Errors
    /// 42883 if no signature fits, 42725 if several do.
    pub(super) fn in_form(&mut self, name: &str, args: Vec<Typed>) -> Result<Vec<Typed>, SqlError> {
        let forms = forms(name, args.len());
        if forms.is_empty() {
            return Ok(args);
        }
        let types: Vec<SqlType> = args.iter().map(|arg| bare(arg.ty)).collect();
        // `trunc` has a form for addresses as well.
        if let ("trunc", [SqlType::Unknown]) = (name, types.as_slice()) {
            return Err(ambiguous(name, &types));
        }
        let Some(chosen) = chosen(&types, forms) else {
            let is_some = forms.iter().any(|form| fits(&types, form));
            return Err(if is_some {
                ambiguous(name, &types)
            } else {
                unknown_function(name, &args)
            });
        };
        let args = args.into_iter().zip(chosen);
        args.map(|(arg, ty)| Ok(typed(self.coerce(arg, *ty)?, *ty))).collect()
    }
}

pub(super) fn ambiguous(name: &str, types: &[SqlType]) -> SqlError {
    let shown: Vec<String> = types.iter().map(SqlType::to_string).collect();
    let message = format!("function {name}({}) is not unique", shown.join(", "));
    SqlError::new(code::AMBIGUOUS_FUNCTION, message).hint(
        "Could not choose a best candidate function. You might need to add explicit type casts.",
    )
}

fn fits(types: &[SqlType], form: &[SqlType]) -> bool {
    types.iter().zip(form).all(|(from, to)| becomes(*from, *to))
}

/// The chosen signature; `None` if there is none or more than one.
fn chosen(types: &[SqlType], forms: &[&'static [SqlType]]) -> Option<&'static [SqlType]> {
    let mut left: Vec<_> = forms.iter().copied().filter(|form| fits(types, form)).collect();
    // The most exact matches; then the most matches or conversions to the preferred type.
    for counts in [
        (|from: SqlType, to: SqlType| from == to) as fn(SqlType, SqlType) -> bool,
        |from, to| from == to || (to == FLOAT8 && from != SqlType::Unknown),
        // Literals get the preferred type, if a signature with it is left.
        |from, to| from != SqlType::Unknown || to == FLOAT8,
    ] {
        if left.len() < 2 {
            break;
        }
        let count = |form: &[SqlType]| {
            types.iter().zip(form).filter(|(from, to)| counts(**from, **to)).count()
        };
        let most = left.iter().map(|form| count(form)).max();
        left.retain(|form| Some(count(form)) == most);
    }
    if left.len() > 1 {
        // Arguments without a type get the only type of the others.
        let mut known = types.iter().filter(|ty| **ty != SqlType::Unknown);
        let first = *known.next()?;
        if !known.all(|ty| *ty == first) {
            return None;
        }
        let together = vec![first; types.len()];
        left.retain(|form| fits(&together, form));
    }
    match left.as_slice() {
        [one] => Some(one),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_the_one_that_postgresql_chooses() {
        const OPEN: SqlType = SqlType::Unknown;
        type Case = (&'static str, &'static [SqlType], Option<&'static [SqlType]>);
        let cases: [Case; 20] = [
            ("round", &[OPEN, OPEN], Some(&[NUMERIC, INT4])),
            ("round", &[OPEN], Some(&[FLOAT8])),
            ("round", &[INT4], Some(&[FLOAT8])),
            ("round", &[NUMERIC], Some(&[NUMERIC])),
            ("round", &[FLOAT8, INT4], None),
            ("round", &[NUMERIC, INT8], None),
            ("abs", &[OPEN], Some(&[FLOAT8])),
            ("abs", &[INT2], Some(&[INT2])),
            ("power", &[NUMERIC, OPEN], Some(&[NUMERIC, NUMERIC])),
            ("power", &[INT4, OPEN], Some(&[FLOAT8, FLOAT8])),
            ("power", &[INT4, NUMERIC], Some(&[NUMERIC, NUMERIC])),
            ("power", &[OPEN, OPEN], Some(&[FLOAT8, FLOAT8])),
            ("mod", &[INT4, INT8], Some(&[INT8, INT8])),
            ("mod", &[INT2, INT4], Some(&[INT4, INT4])),
            ("mod", &[OPEN, INT4], Some(&[INT4, INT4])),
            ("mod", &[OPEN, OPEN], None),
            ("mod", &[FLOAT8, INT4], None),
            ("gcd", &[INT2, OPEN], None),
            ("to_hex", &[INT2], None),
            ("log", &[FLOAT4], Some(&[FLOAT8])),
        ];
        for (name, types, expected) in cases {
            assert_eq!(chosen(types, forms(name, types.len())), expected, "{name} {types:?}");
        }
    }
}
