//! Order, equality and containment of `jsonb`.
//!
//! ```text
//!   null < strings < numbers < false < true < arrays < objects
//! ```
//!
//! Of two arrays or two objects, the one with more members is greater; with equally many, the first
//! difference decides. Numbers are compared by value: `1` and `1.0` are equal, though their texts
//! differ.

use super::{Node, items, members, unquoted};
use crate::budget::Budget;
use crate::error::SqlError;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// The order of two values.
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    let (a, b) = (Node::of(a), Node::of(b));
    // PostgreSQL treats a top-level scalar as an array of one element, which is visible in
    // comparisons with an empty array.
    match (&a, &b) {
        (Node::Array(array), other) if other.is_scalar() && is_empty(array) => Ordering::Less,
        (other, Node::Array(array)) if other.is_scalar() && is_empty(array) => Ordering::Greater,
        _ => inside(a, b),
    }
}

fn is_empty(container: &str) -> bool {
    items(container).next().is_none()
}

fn inside(a: Node<'_>, b: Node<'_>) -> Ordering {
    match (a, b) {
        (Node::Bool(a), Node::Bool(b)) => a.cmp(&b),
        (Node::Number(a), Node::Number(b)) => numbers(a, b),
        (Node::Text(a), Node::Text(b)) => text(a).as_bytes().cmp(text(b).as_bytes()),
        (Node::Array(a), Node::Array(b)) => {
            let same = || items(a).zip(items(b)).map(|(a, b)| inside(Node::of(a), Node::of(b)));
            items(a).count().cmp(&items(b).count()).then_with(|| first(same()))
        }
        (Node::Object(a), Node::Object(b)) => {
            let same = || {
                let both = members(a).zip(members(b));
                both.flat_map(|((a_key, a), (b_key, b))| {
                    let keys = text(a_key).as_bytes().cmp(text(b_key).as_bytes());
                    let values = if keys.is_eq() { inside(Node::of(a), Node::of(b)) } else { keys };
                    [keys, values]
                })
            };
            members(a).count().cmp(&members(b).count()).then_with(|| first(same()))
        }
        (a, b) => rank(&a).cmp(&rank(&b)),
    }
}

fn first(mut orders: impl Iterator<Item = Ordering>) -> Ordering {
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

fn rank(node: &Node<'_>) -> u8 {
    match node {
        Node::Null => 0,
        Node::Text(_) => 1,
        Node::Number(_) => 2,
        Node::Bool(_) => 3,
        Node::Array(_) => 4,
        Node::Object(_) => 5,
    }
}

/// The text of a string of a `jsonb`; its escapes were checked when it was read.
fn text(string: &str) -> Cow<'_, str> {
    unquoted(string).unwrap_or(Cow::Borrowed(string))
}

/// A number's sign, its digits before the point and those behind it, without leading and trailing
/// zeros.
fn parts(digits: &str) -> (bool, &str, &str) {
    let unsigned = digits.strip_prefix('-');
    let (whole, fraction) =
        unsigned.unwrap_or(digits).split_once('.').unwrap_or((unsigned.unwrap_or(digits), ""));
    (unsigned.is_some(), whole.trim_start_matches('0'), fraction.trim_end_matches('0'))
}

fn numbers(a: &str, b: &str) -> Ordering {
    let ((a_below, a_whole, a_rest), (b_below, b_whole, b_rest)) = (parts(a), parts(b));
    match (a_below, b_below) {
        (false, true) => return Ordering::Greater,
        (true, false) => return Ordering::Less,
        _ => {}
    }
    let longer = a_whole.len().cmp(&b_whole.len());
    let size = longer.then_with(|| a_whole.cmp(b_whole)).then_with(|| a_rest.cmp(b_rest));
    if a_below { size.reverse() } else { size }
}

/// Equal values have equal hashes.
pub(crate) fn hash<H: Hasher>(value: &str, state: &mut H) {
    let node = Node::of(value);
    state.write_u8(rank(&node));
    match node {
        Node::Null => {}
        Node::Bool(truth) => truth.hash(state),
        Node::Number(digits) => parts(digits).hash(state),
        Node::Text(string) => text(string).hash(state),
        Node::Array(array) => items(array).for_each(|item| hash(item, state)),
        Node::Object(object) => members(object).for_each(|(key, value)| {
            text(key).hash(state);
            hash(value, state);
        }),
    }
}

/// True if `part` is contained in `whole`: members by key, elements in any order and number.
///
/// # Errors
/// 57014 and similar if the statement was cancelled: the search of elements among elements can take
/// long.
pub(crate) fn contains(whole: &str, part: &str, budget: &Budget) -> Result<bool, SqlError> {
    match (Node::of(whole), Node::of(part)) {
        // At the top level, an array contains a scalar that is one of its elements.
        (Node::Array(array), scalar) if scalar.is_scalar() => {
            budget.tick(array.len() / 16)?;
            Ok(items(array).any(|item| inside(Node::of(item), scalar).is_eq()))
        }
        (whole, part) => holds(whole, part, budget),
    }
}

fn holds(whole: Node<'_>, part: Node<'_>, budget: &Budget) -> Result<bool, SqlError> {
    match (whole, part) {
        (Node::Array(whole), Node::Array(part)) => {
            for wanted in items(part).map(Node::of) {
                let mut found = false;
                budget.tick(whole.len() / 16)?;
                for item in items(whole).map(Node::of) {
                    found = match wanted.is_scalar() {
                        true => inside(item, wanted).is_eq(),
                        false => holds(item, wanted, budget)?,
                    };
                    if found {
                        break;
                    }
                }
                if !found {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Node::Object(whole), Node::Object(part)) => {
            for (key, wanted) in members(part) {
                budget.tick(whole.len() / 16)?;
                let Some((_, value)) = members(whole).find(|(name, _)| *name == key) else {
                    return Ok(false);
                };
                if !holds(Node::of(value), Node::of(wanted), budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (whole, part) if part.is_scalar() => Ok(inside(whole, part).is_eq()),
        _ => Ok(false),
    }
}

/// True if a text is a key of an object, a string element of an array, or the value itself.
pub(crate) fn exists(value: &str, wanted: &str) -> bool {
    let is_wanted = |string: &str| text(string) == wanted;
    let is_string = |item| matches!(Node::of(item), Node::Text(string) if is_wanted(string));
    match Node::of(value) {
        Node::Object(object) => members(object).any(|(key, _)| is_wanted(key)),
        Node::Array(array) => items(array).any(is_string),
        _ => is_string(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_one_order() {
        // PostgreSQL's order: an empty array is below all scalars.
        let rising = [
            "[]",
            "null",
            "\"\"",
            "\"a\"",
            "\"b\"",
            "-1000000000000000000000",
            "-1.5",
            "0",
            "0.001",
            "2",
            "10",
            "false",
            "true",
            "[null]",
            "[5]",
            "[1, 2]",
            "[1, 10]",
            "{}",
            "{\"b\": 1}",
            "{\"a\": 1, \"b\": 1}",
        ];
        for (at, a) in rising.iter().enumerate() {
            for (other, b) in rising.iter().enumerate() {
                assert_eq!(compare(a, b), at.cmp(&other), "{a} and {b}");
            }
        }
        assert!(compare("1.0", "1").is_eq());
        let hashed = |value| {
            let mut state = std::hash::DefaultHasher::new();
            hash(value, &mut state);
            state.finish()
        };
        assert_eq!(hashed("[1.0, {\"a\": -0.50}]"), hashed("[1, {\"a\": -0.5}]"));
    }

    #[test]
    fn a_value_contains_its_parts() {
        let budget = Budget::unlimited();
        for (whole, part, expected) in [
            ("{\"a\": 1, \"b\": [1, 2]}", "{\"b\": [2]}", true),
            ("{\"a\": 1}", "{\"a\": 1.0}", true),
            ("{\"a\": {\"x\": 1}}", "{\"a\": {}}", true),
            ("{\"a\": {\"x\": 1}}", "{\"x\": 1}", false),
            ("[1, 2, 3]", "[3, 1, 3]", true),
            ("[1, [2]]", "[2]", false),
            ("[1, [2, 3]]", "[[2]]", true),
            ("[\"a\"]", "\"a\"", true),
            ("\"a\"", "[\"a\"]", false),
            ("1", "1", true),
            ("{}", "[]", false),
        ] {
            assert_eq!(
                contains(whole, part, &budget).expect("time"),
                expected,
                "{whole} @> {part}"
            );
        }
    }
}
