//! Changes of `jsonb`: parts are added, replaced and removed.
//!
//! A change writes a new text. Unchanged parts are copied, and the members of an object stay
//! sorted, so the result is in the canonical form as well.

use super::{Node, items, members, quote, trimmed, unquoted};
use crate::budget::Budget;
use crate::error::{SqlError, clipped, code};
use std::borrow::Cow;

/// An object of members in any order; of those with the same key, the last is kept. Keys are in
/// quotes.
pub(super) fn object(mut all: Vec<(&str, Cow<'_, str>)>) -> Result<String, SqlError> {
    let mut keyed = Vec::with_capacity(all.len());
    for (key, value) in all.drain(..) {
        keyed.push((unquoted(key)?, key, value));
    }
    let order = |key: &str, other: &str| (key.len(), key).cmp(&(other.len(), other));
    keyed.sort_by(|a, b| order(&a.0, &b.0));
    let mut out = String::from("{");
    for (at, (name, key, value)) in keyed.iter().enumerate() {
        if keyed.get(at + 1).is_some_and(|(next, ..)| next == name) {
            continue;
        }
        out.push_str(if out.len() > 1 { ", " } else { "" });
        out.push_str(key);
        out.push_str(": ");
        out.push_str(value);
    }
    out.push('}');
    Ok(out)
}

pub(super) fn array<'i>(all: impl IntoIterator<Item = impl AsRef<str> + 'i>) -> String {
    let mut out = String::from("[");
    for item in all {
        out.push_str(if out.len() > 1 { ", " } else { "" });
        out.push_str(item.as_ref());
    }
    out.push(']');
    out
}

/// `||`: the members of both objects, or the elements of both arrays; any other value counts as an
/// array of one element.
pub(crate) fn concat(a: &str, b: &str) -> Result<String, SqlError> {
    if let (Node::Object(a), Node::Object(b)) = (Node::of(a), Node::of(b)) {
        let both = members(a).chain(members(b));
        return object(both.map(|(key, value)| (key, Cow::Borrowed(value))).collect());
    }
    let elements = |value| -> Vec<&str> {
        match Node::of(value) {
            Node::Array(array) => items(array).collect(),
            _ => vec![value],
        }
    };
    Ok(array(elements(a).into_iter().chain(elements(b))))
}

fn wrong(message: &str) -> SqlError {
    SqlError::new(code::INVALID_PARAMETER, message)
}

/// A value without the members with these keys, or without the strings equal to them.
pub(crate) fn delete_keys(value: &str, keys: &[String]) -> Result<String, SqlError> {
    let is_one = |string: &str| {
        let string = unquoted(string)?;
        Ok::<bool, SqlError>(keys.iter().any(|key| **key == *string))
    };
    match Node::of(value) {
        Node::Object(all) => {
            let mut left = Vec::new();
            for (key, value) in members(all) {
                if !is_one(key)? {
                    left.push((key, Cow::Borrowed(value)));
                }
            }
            object(left)
        }
        Node::Array(all) => {
            let mut left = Vec::new();
            for item in items(all) {
                if !matches!(Node::of(item), Node::Text(string) if is_one(string)?) {
                    left.push(item);
                }
            }
            Ok(array(left))
        }
        _ => Err(wrong("cannot delete from scalar")),
    }
}

/// An array without the element at an index; negative indexes count from the end.
pub(crate) fn delete_item(value: &str, number: i64) -> Result<String, SqlError> {
    match Node::of(value) {
        Node::Array(all) => {
            let count = items(all).count() as i64;
            let gone = if number < 0 { count + number } else { number };
            let left = items(all).enumerate().filter(|(at, _)| *at as i64 != gone);
            Ok(array(left.map(|(_, item)| item)))
        }
        Node::Object(_) => Err(wrong("cannot delete from object using integer index")),
        _ => Err(wrong("cannot delete from scalar")),
    }
}

/// The change at the end of a path.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Put {
    /// Replaces the value, if there is one.
    Replace,
    /// Replaces the value, or adds it if there is none.
    Create,
    /// Inserts it before an element.
    Before,
    /// Inserts it behind an element.
    After,
    /// Removes the value.
    Delete,
}

/// `#-`
pub(crate) fn delete_path(value: &str, path: &[Option<String>]) -> Result<String, SqlError> {
    match (Node::of(value), path) {
        (node, _) if node.is_scalar() => Err(wrong("cannot delete path in scalar")),
        (_, []) => Ok(value.to_owned()),
        _ => at(value, path, 0, "", Put::Delete),
    }
}

impl Put {
    fn adds(self) -> bool {
        matches!(self, Put::Create | Put::Before | Put::After)
    }
}

/// `jsonb_set` and `jsonb_insert`: another value at the end of a path.
pub(crate) fn put(
    value: &str,
    path: &[Option<String>],
    new: &str,
    how: Put,
) -> Result<String, SqlError> {
    let node = Node::of(value);
    if node.is_scalar() {
        return Err(wrong("cannot set path in scalar"));
    }
    if path.is_empty() {
        return Ok(value.to_owned());
    }
    at(value, path, 0, new, how)
}

/// The new form of a value at this level of a path.
fn at(
    value: &str,
    path: &[Option<String>],
    level: usize,
    new: &str,
    how: Put,
) -> Result<String, SqlError> {
    let Some(part) = &path[level] else {
        let message = format!("path element at position {} is null", level + 1);
        return Err(SqlError::new("22004", message));
    };
    match Node::of(value) {
        Node::Object(all) => in_object(all, part, (path, level), new, how),
        Node::Array(all) => in_array(all, part, (path, level), new, how),
        _ => Ok(value.to_owned()),
    }
}

fn in_object(
    all: &str,
    part: &str,
    (path, level): (&[Option<String>], usize),
    new: &str,
    how: Put,
) -> Result<String, SqlError> {
    let is_last = level + 1 == path.len();
    let mut key = String::new();
    quote(part, &mut key);
    let (mut changed, mut found) = (Vec::new(), false);
    for (name, value) in members(all) {
        if *unquoted(name)? != *part {
            changed.push((name, Cow::Borrowed(value)));
            continue;
        }
        found = true;
        match how {
            _ if !is_last => {
                changed.push((name, Cow::Owned(at(value, path, level + 1, new, how)?)))
            }
            Put::Before | Put::After => {
                return Err(wrong("cannot replace existing key")
                    .hint("Try using the function jsonb_set to replace key value."));
            }
            Put::Delete => {}
            Put::Replace | Put::Create => changed.push((name, Cow::Borrowed(new))),
        }
    }
    if !found && is_last && how.adds() {
        changed.push((&key, Cow::Borrowed(new)));
    }
    object(changed)
}

fn in_array(
    all: &str,
    part: &str,
    (path, level): (&[Option<String>], usize),
    new: &str,
    how: Put,
) -> Result<String, SqlError> {
    let is_last = level + 1 == path.len();
    let number: i64 = match part.trim_start().parse::<i32>() {
        Ok(number) => number.into(),
        Err(_) => {
            let (at, part) = (level + 1, clipped(part));
            let message = format!("path element at position {at} is not an integer: \"{part}\"");
            return Err(SqlError::new(code::INVALID_TEXT, message));
        }
    };
    let count = items(all).count() as i64;
    // Indexes beyond either end are moved to it.
    let number = if number < 0 { count + number } else { number.min(count) };
    let mut changed: Vec<Cow<'_, str>> = Vec::new();
    let mut done = number < 0 || count == 0;
    if done && is_last && how.adds() {
        changed.push(Cow::Borrowed(new));
    }
    for (place, item) in items(all).enumerate() {
        if place as i64 != number {
            changed.push(Cow::Borrowed(item));
            continue;
        }
        done = true;
        if !is_last {
            changed.push(Cow::Owned(at(item, path, level + 1, new, how)?));
            continue;
        }
        let (item, new) = (Cow::Borrowed(item), Cow::Borrowed(new));
        match how {
            Put::Replace | Put::Create => changed.push(new),
            Put::Before => changed.extend([new, item]),
            Put::After => changed.extend([item, new]),
            Put::Delete => {}
        }
    }
    if !done && is_last && how.adds() {
        changed.push(Cow::Borrowed(new));
    }
    Ok(array(changed))
}

/// Removes members that are `null`, at any depth; the text has no blanks, except those of a
/// `jsonb`.
pub(crate) fn strip_nulls(value: &str, is_jsonb: bool, out: &mut String) {
    let (comma, colon) = if is_jsonb { (", ", ": ") } else { (",", ":") };
    match Node::of(value) {
        Node::Object(all) => {
            out.push('{');
            let kept = members(all).filter(|(_, value)| !matches!(Node::of(value), Node::Null));
            for (at, (key, value)) in kept.enumerate() {
                out.push_str(if at > 0 { comma } else { "" });
                out.push_str(key);
                out.push_str(colon);
                strip_nulls(value, is_jsonb, out);
            }
            out.push('}');
        }
        Node::Array(all) => {
            out.push('[');
            for (at, item) in items(all).enumerate() {
                out.push_str(if at > 0 { comma } else { "" });
                strip_nulls(item, is_jsonb, out);
            }
            out.push(']');
        }
        _ => out.push_str(trimmed(value)),
    }
}

/// A value on several lines, indented by four blanks for each level.
pub(crate) fn pretty(
    value: &str,
    level: usize,
    budget: &Budget,
    out: &mut String,
) -> Result<(), SqlError> {
    let line = |level: usize, out: &mut String| {
        budget.charge(2 * (4 * level + 1))?;
        out.push('\n');
        out.extend(std::iter::repeat_n("    ", level));
        Ok::<(), SqlError>(())
    };
    match Node::of(value) {
        Node::Object(all) => {
            out.push('{');
            for (at, (key, value)) in members(all).enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                line(level + 1, out)?;
                out.push_str(key);
                out.push_str(": ");
                pretty(value, level + 1, budget, out)?;
            }
            line(level, out)?;
            out.push('}');
        }
        Node::Array(all) => {
            out.push('[');
            for (at, item) in items(all).enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                line(level + 1, out)?;
                pretty(item, level + 1, budget, out)?;
            }
            line(level, out)?;
            out.push(']');
        }
        _ => out.push_str(value),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Vec<Option<String>> {
        text.split_whitespace().map(|part| (part != "NULL").then(|| part.to_owned())).collect()
    }

    #[test]
    fn parts_are_put_where_a_path_leads() {
        use Put::{After, Before, Create, Delete, Replace};
        for (value, way, how, expected) in [
            ("{\"a\": {\"b\": 1}}", "a b", Replace, "{\"a\": {\"b\": 9}}"),
            ("{\"a\": {\"b\": 1}}", "a c", Replace, "{\"a\": {\"b\": 1}}"),
            ("{\"bb\": 1}", "a", Create, "{\"a\": 9, \"bb\": 1}"),
            ("{\"a\": [1, 2]}", "a -1", Replace, "{\"a\": [1, 9]}"),
            ("[1, 2]", "7", Create, "[1, 2, 9]"),
            ("[1, 2]", "-7", Create, "[9, 1, 2]"),
            ("[1, 2]", "7", Replace, "[1, 2]"),
            ("[]", "0", Before, "[9]"),
            ("[1, 2]", "1", Before, "[1, 9, 2]"),
            ("[1, 2]", "1", After, "[1, 2, 9]"),
            ("{\"a\": [1, {\"b\": 2}]}", "a 1 b", Delete, "{\"a\": [1, {}]}"),
            ("[1, [2, 3]]", "1 0", Delete, "[1, [3]]"),
            ("{\"a\": 1}", "a b", Create, "{\"a\": 1}"),
        ] {
            assert_eq!(put(value, &path(way), "9", how).expect(value), expected, "{value} {way}");
        }
        for (value, way, how, expected) in [
            ("{\"a\": 1}", "a", Before, code::INVALID_PARAMETER),
            ("[1]", "x", Create, code::INVALID_TEXT),
            ("[1]", "NULL", Create, "22004"),
            ("1", "a", Create, code::INVALID_PARAMETER),
        ] {
            assert_eq!(put(value, &path(way), "9", how).unwrap_err().code, expected, "{value}");
        }
        assert_eq!(
            concat("{\"b\": 1, \"cc\": 2}", "{\"a\": 3, \"b\": 4}").expect("two"),
            "{\"a\": 3, \"b\": 4, \"cc\": 2}"
        );
        assert_eq!(concat("1", "[2]").expect("two"), "[1, 2]");
        assert_eq!(concat("{}", "[]").expect("two"), "[{}]");
    }
}
