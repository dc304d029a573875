//! Types of numbers of catalog objects: `regclass`, `regtype`, `regnamespace`, `regrole`,
//! `regproc`, `regprocedure`.
//!
//! ```text
//!   't'::regclass ─▶ 16390 ─▶ compared, joined, stored as a number
//!                      │
//!                      └─▶ output, or a cast to text: the name that the object has now
//! ```
//!
//! A value is its number ([`Datum::Int`]) everywhere inside. Only input and output know names,
//! because a name depends on the catalog and on the session's search path. Elements of arrays are
//! numbers as well.

use super::definitions::pseudo_type;
use super::{namespace_name, regclass, regnamespace, regtype, relation_name};
use crate::array;
use crate::catalog::{Catalog, Named, procedures, quoted};
use crate::datum::Datum;
use crate::error::{SqlError, clipped, code};
use crate::transaction::Surroundings;
use crate::types::{Reg, SqlType};
use std::borrow::Cow;

/// The number of an object by its name, or by its number as a text; `None` if the name can only be
/// looked up by a session: that of a role.
///
/// # Errors
/// 42P01, 42704, 3F000 if it does not exist; 42602.
pub(crate) fn known_number(
    catalog: &Catalog,
    reg: Reg,
    name: &str,
) -> Result<Option<i64>, SqlError> {
    let name = clipped(name.trim());
    if name == "-" {
        return Ok(Some(0));
    }
    if let Ok(number) = name.parse::<u32>() {
        return Ok(Some(number.into()));
    }
    let (found, code, what) = match reg {
        Reg::Class => (regclass(catalog, &name), code::UNDEFINED_TABLE, "relation"),
        Reg::Type => (regtype(catalog, &name), code::UNDEFINED_OBJECT, "type"),
        Reg::Namespace => (regnamespace(catalog, &name)?, code::INVALID_SCHEMA, "schema"),
        Reg::Role => return Ok(None),
        Reg::Procedure | Reg::Signature => {
            return procedures::read(catalog, &name).map(|found| Some(found.oid.into()));
        }
    };
    let missing = || {
        let name = if reg == Reg::Namespace { Named::read(&name).name } else { name.to_string() };
        SqlError::new(code, format!("{what} \"{name}\" does not exist"))
    };
    found.map(Some).ok_or_else(missing)
}

/// The number of an object by its name, or by its number as a text.
///
/// # Errors
/// As [`known_number`].
pub fn object_number(
    catalog: &Catalog,
    around: &Surroundings,
    reg: Reg,
    name: &str,
) -> Result<i64, SqlError> {
    match known_number(catalog, reg, name)? {
        Some(number) => Ok(number),
        None => {
            let role = Named::read(&clipped(name.trim())).name;
            around.identity.roles().named(&role).map(|role| role.oid)
        }
    }
}

/// The name of an object, with its schema if that is necessary; its number if it does not exist.
fn object_name(catalog: &Catalog, around: &Surroundings, reg: Reg, number: i64) -> String {
    if number == 0 {
        return "-".to_owned();
    }
    match reg {
        Reg::Class => relation_name(catalog, number),
        Reg::Type => {
            let oid = u32::try_from(number).ok();
            match oid.and_then(|oid| catalog.type_numbered(oid)) {
                Some(SqlType::Char(_)) => "character".to_owned(),
                Some(SqlType::Array(SqlType::Char(_))) => "character[]".to_owned(),
                _ => {
                    let name = oid.and_then(|oid| catalog.type_name(oid, None));
                    let name = name.or_else(|| pseudo_type(number).map(str::to_owned));
                    name.unwrap_or_else(|| number.to_string())
                }
            }
        }
        Reg::Namespace => namespace_name(catalog, number),
        Reg::Procedure | Reg::Signature => procedure_name(catalog, reg, number),
        Reg::Role => {
            let oid = u32::try_from(number).ok();
            let role = oid.and_then(|oid| around.identity.roles().numbered(oid));
            role.map_or_else(|| number.to_string(), |role| quoted(&role.name))
        }
    }
}

fn procedure_name(catalog: &Catalog, reg: Reg, number: i64) -> String {
    let found = u32::try_from(number).ok().and_then(|oid| catalog.procedures.get(&oid));
    match found {
        Some(procedure) if reg == Reg::Signature => procedure.signature(catalog),
        Some(procedure) => procedure.shown(catalog),
        None => number.to_string(),
    }
}

/// A value with the names of its objects instead of their numbers, as a text; `None` if its type is
/// none of these.
pub(crate) fn named(
    value: &Datum,
    ty: SqlType,
    catalog: &Catalog,
    around: &Surroundings,
) -> Option<Datum> {
    match (ty, value) {
        (SqlType::Reg(reg), Datum::Int(number)) => {
            Some(Datum::Text(object_name(catalog, around, reg, *number)))
        }
        (SqlType::Array(SqlType::Reg(reg)), Datum::Text(array)) => {
            let name = |number: String| match number.parse() {
                Ok(number) => object_name(catalog, around, *reg, number),
                Err(_) => number,
            };
            let names = array::elements(array).map(|element| Some(name(element.ok()??.into())));
            let names: Vec<Option<String>> = names.collect();
            Some(Datum::Text(array::format(names.iter().map(Option::as_deref))))
        }
        _ => None,
    }
}

/// The values of a row for a client: of columns that `is_text` accepts, with names of objects.
pub fn with_names<'v>(
    values: &'v [Datum],
    types: impl Iterator<Item = SqlType> + Clone,
    is_text: impl Fn(usize) -> bool,
    (catalog, around): (&Catalog, &Surroundings),
) -> Cow<'v, [Datum]> {
    if !types.clone().any(has_names) {
        return Cow::Borrowed(values);
    }
    let one = |(at, (value, ty)): (usize, (&Datum, SqlType))| {
        let name = is_text(at).then(|| named(value, ty, catalog, around)).flatten();
        name.unwrap_or_else(|| value.clone())
    };
    Cow::Owned(values.iter().zip(types).enumerate().map(one).collect())
}

/// True if values of a type are shown by [`named`].
pub(crate) fn has_names(ty: SqlType) -> bool {
    matches!(ty, SqlType::Reg(_) | SqlType::Array(SqlType::Reg(_)))
}
