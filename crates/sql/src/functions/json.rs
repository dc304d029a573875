//! Functions and operators of `json` and `jsonb`.
//!
//! A part extracted from a `json` is a `json`, and one from a `jsonb` a `jsonb`. Values that are
//! built are written as `json`; where a `jsonb` is needed, a cast around the call converts them.

use super::json_paths;
use crate::array;
use crate::budget::Budget;
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::json::{self, Node, Put};
use crate::transaction::Surroundings;
use crate::types::{Family, SqlType};
use std::borrow::Cow;

/// A function of JSON.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "they are what SQL calls so")]
pub enum JsonFunc {
    /// `->`
    Get,
    /// `->>`
    GetText,
    /// `#>`
    Path,
    /// `#>>`
    PathText,
    Contains,
    Exists,
    ExistsAny,
    ExistsAll,
    Concat,
    /// `-` with a text.
    DeleteKey,
    /// `-` with an array of texts.
    DeleteKeys,
    /// `-` with a number.
    DeleteItem,
    /// `#-`
    DeletePath,
    ArrayLength,
    TypeOf,
    Set,
    /// `jsonb_set_lax`
    SetLax,
    /// Another value at a path, as assignment puts it there. The last argument is true if a missing
    /// value becomes an array.
    Assign,
    Insert,
    Pretty,
    StripNulls,
    /// A value of any type as JSON. Further arguments: the oid of its type, the type modifier, and
    /// true for line breaks.
    Of,
    /// An array of values that are JSON already; NULL is `null`.
    BuildArray,
    /// An object of keys and values that are JSON already.
    BuildObject,
    /// A member of an object that an aggregate makes.
    Member,
    /// An object of an array of keys and values, or of two arrays.
    Object,
    /// The items of a path as an array. Arguments of these functions: a value, a path, variables,
    /// and whether errors end it quietly. Without the latter two it is an operator, and quiet.
    PathQueryArray,
    PathQueryFirst,
    /// `@?`
    PathExists,
    /// `@@`
    PathMatch,
}

/// The function with a name and arguments, for functions that take their arguments unconverted.
pub(super) fn find(name: &str, args: &[SqlType]) -> Option<(super::Func, SqlType)> {
    use JsonFunc::*;
    let first = args.first().copied()?;
    let (stem, ty) = match name.strip_prefix("jsonb_") {
        Some(stem) => (stem, SqlType::Jsonb),
        None => (name.strip_prefix("json_")?, SqlType::Json),
    };
    if first != ty && first != SqlType::Unknown {
        return None;
    }
    let (func, ty) = match (stem, args.len()) {
        ("array_length", 1) => (ArrayLength, SqlType::Int4),
        ("typeof", 1) => (TypeOf, SqlType::Text),
        ("strip_nulls", 1) => (StripNulls, ty),
        ("set", 3 | 4) if ty == SqlType::Jsonb => (Set, ty),
        ("set_lax", 3..=5) if ty == SqlType::Jsonb => (SetLax, ty),
        ("insert", 3 | 4) if ty == SqlType::Jsonb => (Insert, ty),
        ("pretty", 1) if ty == SqlType::Jsonb => (Pretty, SqlType::Text),
        ("contains", 2) if ty == SqlType::Jsonb => (Contains, SqlType::Bool),
        ("exists", 2) if ty == SqlType::Jsonb => (Exists, SqlType::Bool),
        ("exists_any", 2) if ty == SqlType::Jsonb => (ExistsAny, SqlType::Bool),
        ("exists_all", 2) if ty == SqlType::Jsonb => (ExistsAll, SqlType::Bool),
        _ => return None,
    };
    Some((super::Func::Json(func), ty))
}

/// The type of a literal or a parameter as this argument.
pub(crate) fn argument(func: JsonFunc, name: &str, at: usize) -> SqlType {
    use JsonFunc::*;
    match (func, at) {
        (Set | SetLax | Insert, 1) | (ExistsAny | ExistsAll, 1) => SqlType::Array(&SqlType::Text),
        (Set | SetLax | Insert, 3) => SqlType::Bool,
        (SetLax, 4) => SqlType::Text,
        (Exists, 1) => SqlType::Text,
        _ if name.starts_with("jsonb") => SqlType::Jsonb,
        _ => SqlType::Json,
    }
}

/// True if the function has a result though an argument is NULL.
pub(super) fn takes_null(func: JsonFunc) -> bool {
    use JsonFunc::*;
    matches!(func, BuildArray | BuildObject | Member | Assign | SetLax)
}

/// `jsonb_set_lax`: as `jsonb_set`, but the last argument decides about a new value that is NULL.
fn set_lax(args: &[Datum], around: &Surroundings) -> Result<Datum, SqlError> {
    if [0, 1, 3].iter().any(|at| args.get(*at).is_some_and(Datum::is_null)) {
        return Ok(Datum::Null);
    }
    let unknown = || {
        let message = "null_value_treatment must be \"delete_key\", \"return_target\", \
                       \"use_json_null\", or \"raise_exception\"";
        SqlError::new(code::INVALID_PARAMETER, message)
    };
    let treatment = match args.get(4) {
        Some(said) => said.as_text().ok_or_else(unknown)?,
        None => "use_json_null",
    };
    let given = &args[..args.len().min(4)];
    if !args[2].is_null() {
        return call(JsonFunc::Set, given, around);
    }
    match treatment {
        "raise_exception" => {
            let detail =
                "Exception was raised because null_value_treatment is \"raise_exception\".";
            let hint = "To avoid, either change the null_value_treatment argument or ensure that \
                        an SQL NULL is not passed.";
            Err(SqlError::new("22004", "JSON value must not be null").detail(detail).hint(hint))
        }
        "use_json_null" => {
            let mut given = given.to_vec();
            given[2] = Datum::Json("null".to_owned());
            call(JsonFunc::Set, &given, around)
        }
        "delete_key" => call(JsonFunc::DeletePath, &given[..2], around),
        "return_target" => {
            around.budget.charge(args[0].heap_bytes())?;
            Ok(args[0].clone())
        }
        _ => Err(unknown()),
    }
}

/// Calls a function.
///
/// # Errors
/// 22023, 22P02 and others, by the function.
pub(super) fn call(
    func: JsonFunc,
    args: &[Datum],
    around: &Surroundings,
) -> Result<Datum, SqlError> {
    use JsonFunc::*;
    let budget = &*around.budget;
    let value = args.first().map_or("", json_text);
    let node = || Node::of(value);
    let is_jsonb = matches!(args.first(), Some(Datum::Json(_)));
    let text = |at: usize| args.get(at).and_then(Datum::as_text).unwrap_or("");
    // A part of a value, of the same type.
    let part = |found: Option<&str>| -> Result<Datum, SqlError> {
        let Some(found) = found else { return Ok(Datum::Null) };
        budget.charge(found.len())?;
        Ok(like(&args[0], found.to_owned()))
    };
    let shown = |found: Option<&str>| -> Result<Datum, SqlError> {
        let Some(found) = found else { return Ok(Datum::Null) };
        budget.charge(2 * found.len())?;
        Ok(json::as_text(found)?.map_or(Datum::Null, Datum::text))
    };
    budget.tick(value.len() / 16)?;
    Ok(match func {
        PathQueryArray | PathQueryFirst | PathExists | PathMatch => {
            json_paths::call(func, args, budget)?
        }
        Get | GetText => {
            let found = match &args[1] {
                // A scalar jsonb counts as an array of one element.
                Datum::Int(0 | -1) if is_jsonb && node().is_scalar() => Some(value),
                Datum::Int(number) => json::item(node(), *number),
                key => json::field(node(), key.as_text().unwrap_or(""))?,
            };
            if func == Get { part(found)? } else { shown(found)? }
        }
        Path | PathText => {
            let path = texts(text(1), budget)?;
            let found = json::at_path(value, &path)?;
            if func == Path { part(found)? } else { shown(found)? }
        }
        Contains => Datum::Bool(json::contains(value, json_text(&args[1]), budget)?),
        Exists => Datum::Bool(json::exists(value, text(1))),
        ExistsAny | ExistsAll => {
            let wanted = texts(text(1), budget)?;
            let mut wanted = wanted.iter().flatten();
            budget.tick(value.len() / 16)?;
            Datum::Bool(match func {
                ExistsAny => wanted.any(|key| json::exists(value, key)),
                _ => wanted.all(|key| json::exists(value, key)),
            })
        }
        Concat => {
            let other = json_text(&args[1]);
            room(value.len() + other.len(), budget)?;
            Datum::Json(json::concat(value, other)?)
        }
        DeleteKey | DeleteKeys => {
            let keys = match func {
                DeleteKeys => texts(text(1), budget)?.into_iter().flatten().collect(),
                _ => vec![text(1).to_owned()],
            };
            room(value.len(), budget)?;
            budget.tick(value.len() / 16 * keys.len())?;
            Datum::Json(json::delete_keys(value, &keys)?)
        }
        DeleteItem => {
            room(value.len(), budget)?;
            Datum::Json(json::delete_item(value, args[1].as_int().unwrap_or(0))?)
        }
        DeletePath => {
            let path = texts(text(1), budget)?;
            room(value.len() * path.len().max(1), budget)?;
            Datum::Json(json::delete_path(value, &path)?)
        }
        Assign => {
            let before = (!args[0].is_null()).then_some(value);
            let (path, new) = (texts(text(1), budget)?, or_null(&args[2]));
            room((value.len() + new.len()) * path.len().max(1), budget)?;
            let begins_array = args[3].as_bool() == Some(true);
            Datum::Json(json::assign(before, &path, begins_array, new, budget)?)
        }
        SetLax => set_lax(args, around)?,
        Set | Insert => {
            let (path, new) = (texts(text(1), budget)?, json_text(&args[2]));
            room((value.len() + new.len()) * path.len().max(1), budget)?;
            let flag = args.get(3).and_then(Datum::as_bool);
            let how = match (func, flag) {
                (Set, Some(false)) => Put::Replace,
                (Set, _) => Put::Create,
                (_, Some(true)) => Put::After,
                _ => Put::Before,
            };
            Datum::Json(json::put(value, &path, new, how)?)
        }
        ArrayLength => match node() {
            Node::Array(array) => Datum::Int(json::items(array).count() as i64),
            Node::Object(_) => return Err(wrong("cannot get array length of a non-array")),
            _ => return Err(wrong("cannot get array length of a scalar")),
        },
        TypeOf => Datum::text(node().kind()),
        Pretty => {
            let mut out = String::new();
            budget.charge(2 * value.len())?;
            json::pretty(value, 0, budget, &mut out)?;
            Datum::Text(out)
        }
        StripNulls => {
            let mut out = String::new();
            budget.charge(2 * value.len())?;
            json::strip_nulls(value, is_jsonb, &mut out);
            like(&args[0], out)
        }
        Of => {
            let ty = args[1].as_int().and_then(SqlType::numbered);
            let modifier = args[2].as_int().unwrap_or(-1) as i32;
            let ty = ty.unwrap_or(SqlType::Text).with_modifier(modifier);
            let is_broken = args.get(3).and_then(Datum::as_bool) == Some(true);
            let mut out = String::new();
            write(&args[0], ty, is_broken, around, &mut out)?;
            Datum::Text(out)
        }
        BuildArray => {
            let mut out = String::from("[");
            for (at, value) in args.iter().enumerate() {
                let value = or_null(value);
                budget.charge(2 * value.len() + 4)?;
                out.push_str(if at > 0 { ", " } else { "" });
                out.push_str(value);
            }
            out.push(']');
            Datum::Text(out)
        }
        BuildObject => {
            let mut out = String::from("{");
            for (at, member) in args.chunks(2).enumerate() {
                let [key, value] = member else {
                    return Err(wrong("argument list must have even number of elements"));
                };
                let Some(key) = key.as_text() else {
                    let number = 2 * at + 1;
                    return Err(wrong(&format!("argument {number} cannot be null")));
                };
                out.push_str(if at > 0 { ", " } else { "" });
                member_of(key, or_null(value), budget, &mut out)?;
            }
            out.push('}');
            Datum::Text(out)
        }
        Member => {
            let Some(key) = args[0].as_text() else {
                return Err(wrong("field name must not be null"));
            };
            let mut out = String::new();
            member_of(key, or_null(&args[1]), budget, &mut out)?;
            Datum::Text(out)
        }
        Object => object_of_texts(text(0), args.get(1).and_then(Datum::as_text), budget)?,
    })
}

fn wrong(message: &str) -> SqlError {
    SqlError::new(code::INVALID_PARAMETER, message)
}

/// Reserves the memory that a change writes: it copies its result once, and keeps a list of the
/// parts that it copies.
fn room(bytes: usize, budget: &Budget) -> Result<(), SqlError> {
    budget.charge(bytes.saturating_mul(12))
}

/// The text that a `json` or a `jsonb` is.
pub(crate) fn json_text(value: &Datum) -> &str {
    match value {
        Datum::Json(text) | Datum::Text(text) => text,
        _ => "",
    }
}

fn or_null(value: &Datum) -> &str {
    if value.is_null() { "null" } else { json_text(value) }
}

/// A text of JSON as a value of the same type as `value`.
fn like(value: &Datum, text: String) -> Datum {
    if matches!(value, Datum::Json(_)) { Datum::Json(text) } else { Datum::Text(text) }
}

/// The elements of an array of texts.
fn texts(array: &str, budget: &Budget) -> Result<Vec<Option<String>>, SqlError> {
    budget.charge(array.len() + array.len() / 2 * size_of::<Option<String>>())?;
    array::elements(array).map(|element| Ok(element?.map(Cow::into_owned))).collect()
}

fn member_of(key: &str, value: &str, budget: &Budget, out: &mut String) -> Result<(), SqlError> {
    // A character may take six in an escape.
    budget.charge(2 * (6 * key.len() + value.len() + 8))?;
    json::quote(key, out);
    out.push_str(" : ");
    out.push_str(value);
    Ok(())
}

/// Appends a value of a type as JSON.
fn write(
    value: &Datum,
    ty: SqlType,
    is_broken: bool,
    around: &Surroundings,
    out: &mut String,
) -> Result<(), SqlError> {
    let zone = around.settings.zone();
    around.budget.charge(4 * crate::text::format_bytes(value))?;
    let shown = || crate::text::format_in(value, ty, zone);
    match (value, ty.family()) {
        (Datum::Null, _) => out.push_str("null"),
        (_, Family::Json) => out.push_str(json_text(value)),
        (Datum::Bool(truth), _) => out.push_str(if *truth { "true" } else { "false" }),
        (_, Family::Number) if ty != SqlType::Oid => {
            let digits = shown();
            let is_number = digits.ends_with(|c: char| c.is_ascii_digit());
            if is_number { out.push_str(&digits) } else { json::quote(&digits, out) }
        }
        (Datum::Timestamp(_), _) => json::quote(&iso(&shown()), out),
        (Datum::Text(array), Family::Array) => {
            let element = ty.element().expect("an array has elements");
            if array::is_nested(array) {
                return write_nested(array, element, is_broken, around, out);
            }
            out.push('[');
            for (at, value) in array::values(array, element).enumerate() {
                let between = if is_broken { ",\n " } else { "," };
                out.push_str(if at > 0 { between } else { "" });
                write(&value?, element, false, around, out)?;
            }
            out.push(']');
        }
        (Datum::Row(row), _) => {
            out.push('{');
            for (at, (name, ty, value)) in row.fields().enumerate() {
                let between = if is_broken { ",\n " } else { "," };
                out.push_str(if at > 0 { between } else { "" });
                json::quote(name, out);
                out.push(':');
                write(value, ty, false, around, out)?;
            }
            out.push('}');
        }
        _ => json::quote(&shown(), out),
    }
    Ok(())
}

/// An array of several dimensions as arrays of arrays. Only those of the first are on lines of
/// their own.
fn write_nested(
    array: &str,
    element: SqlType,
    is_broken: bool,
    around: &Surroundings,
    out: &mut String,
) -> Result<(), SqlError> {
    let sides = array::shape(array)?.dimensions;
    // How many elements there are in a part of each dimension.
    let mut strides = vec![1; sides.len()];
    for at in (1..sides.len()).rev() {
        strides[at - 1] = strides[at] * sides[at].1;
    }
    for (place, value) in array::values(array, element).enumerate() {
        let ended = strides.iter().filter(|stride| place.is_multiple_of(**stride)).count();
        let is_outer = ended == sides.len();
        // The innermost dimension ends with each element, and has no bracket there.
        let brackets = if place == 0 { sides.len() } else { ended.saturating_sub(1) };
        if place > 0 {
            let brackets = brackets.min(sides.len() - 1);
            out.extend(std::iter::repeat_n(']', brackets));
            out.push_str(if is_broken && is_outer { ",\n " } else { "," });
        }
        let brackets = if place == 0 { brackets } else { brackets.min(sides.len() - 1) };
        out.extend(std::iter::repeat_n('[', brackets));
        write(&value?, element, false, around, out)?;
    }
    out.extend(std::iter::repeat_n(']', sides.len()));
    Ok(())
}

/// A time with a T before the hours, and minutes in its UTC offset.
fn iso(shown: &str) -> String {
    let shown = shown.replacen(' ', "T", 1);
    let is_short = shown.len() > 3 && matches!(shown.as_bytes()[shown.len() - 3], b'+' | b'-');
    if is_short && shown.contains('T') { format!("{shown}:00") } else { shown }
}

/// `json_object`: keys and values in turn, or in two arrays.
fn object_of_texts(keys: &str, values: Option<&str>, budget: &Budget) -> Result<Datum, SqlError> {
    let mut keys = texts(keys, budget)?;
    let values = match values {
        Some(values) => texts(values, budget)?,
        None if keys.len() % 2 > 0 => {
            return Err(SqlError::new("2202E", "array must have even number of elements"));
        }
        None => {
            let mut values = Vec::with_capacity(keys.len() / 2);
            let mut names = Vec::with_capacity(keys.len() / 2);
            for (at, text) in keys.drain(..).enumerate() {
                if at % 2 == 0 { names.push(text) } else { values.push(text) }
            }
            keys = names;
            values
        }
    };
    if keys.len() != values.len() {
        return Err(SqlError::new("2202E", "mismatched array dimensions"));
    }
    let mut out = String::from("{");
    for (at, (key, value)) in keys.iter().zip(&values).enumerate() {
        let Some(key) = key else {
            return Err(SqlError::new("22004", "null value not allowed for object key"));
        };
        let mut quoted = String::new();
        match value {
            Some(value) => {
                budget.charge(6 * value.len() + 2)?;
                json::quote(value, &mut quoted);
            }
            None => quoted.push_str("null"),
        }
        out.push_str(if at > 0 { ", " } else { "" });
        member_of(key, &quoted, budget, &mut out)?;
    }
    out.push('}');
    Ok(Datum::Text(out))
}
