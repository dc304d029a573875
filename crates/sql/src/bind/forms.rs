//! Functions of one name for several types of numbers: which one is meant, by PostgreSQL's rules
//! for overloaded functions.
//!
//! ```text
//!   round('0.55', 1)     round(numeric, int4)      the only one with two arguments
//!   mod(int4, int8)      mod(int8, int8)           the only ones that both become without a cast
//!   power(numeric, $1)   power(numeric, numeric)   most arguments are of its types already
//!   sqrt(2)              sqrt(float8)              the preferred type among numbers
//!   mod($1, $2)          42725                     nothing says which
//! ```
//!
//! The arguments get the types of the chosen form, so the rest of the binder sees no argument without
//! a type.

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

/// The argument types of each form of a function, for a number of arguments.
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

/// True if a number of a type becomes one of another without a cast.
fn becomes(from: SqlType, to: SqlType) -> bool {
    let rank = crate::functions::number_rank;
    match from.family() {
        Family::Unknown => true,
        Family::Number => rank(from) <= rank(to) && from != SqlType::Oid,
        _ => false,
    }
}

impl Binder<'_> {
    /// The arguments of a function, as values of the form that they mean.
    ///
    /// # Errors
    /// 42883 if there is none, 42725 if there are several.
    pub(super) fn in_form(&mut self, name: &str, args: Vec<Typed>) -> Result<Vec<Typed>, SqlError> {
        let forms = forms(name, args.len());
        if forms.is_empty() {
            return Ok(args);
        }
        let types: Vec<SqlType> = args.iter().map(|arg| bare(arg.ty)).collect();
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

fn ambiguous(name: &str, types: &[SqlType]) -> SqlError {
    let shown: Vec<String> = types.iter().map(SqlType::to_string).collect();
    let message = format!("function {name}({}) is not unique", shown.join(", "));
    SqlError::new(code::AMBIGUOUS_FUNCTION, message).hint(
        "Could not choose a best candidate function. You might need to add explicit type casts.",
    )
}

fn fits(types: &[SqlType], form: &[SqlType]) -> bool {
    types.iter().zip(form).all(|(from, to)| becomes(*from, *to))
}

/// The form that is meant; none if there is none, or more than one.
fn chosen(types: &[SqlType], forms: &[&'static [SqlType]]) -> Option<&'static [SqlType]> {
    let mut left: Vec<_> = forms.iter().copied().filter(|form| fits(types, form)).collect();
    // The most exact matches; then the most matches or conversions to the preferred type.
    for counts in [
        (|from: SqlType, to: SqlType| from == to) as fn(SqlType, SqlType) -> bool,
        |from, to| from == to || (to == FLOAT8 && from != SqlType::Unknown),
        // Literals get the preferred type, if it is left.
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
