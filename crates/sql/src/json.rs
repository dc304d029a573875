//! JSON: values are texts, and parts of values are parts of these texts.
//!
//! ```text
//!   json     {"b":2,  "a": [1.50, "x"], "b": 3}    the original text; each access parses it
//!   jsonb    {"a": [1.50, "x"], "b": 3}            canonical: keys by length, then by bytes, each
//!                                                  once (the last); a blank after commas, colons
//! ```
//!
//! Both are kept as these texts, in memory and in the store. So a value takes the memory of its
//! text, whatever it contains. No tree is built to look into a document, and a part is a slice of
//! its text. A text becomes a value once, when it is [read]. The grammar and the nesting depth are
//! checked then, so all other functions can rely on valid texts. Numbers are strings of digits of
//! any length: they are compared as such, and never as floats.
//! [`path`] has the paths of SQL/JSON.

mod assign;
mod change;
mod order;
pub(crate) mod path;
mod read;

pub(crate) use assign::assign;
pub(crate) use change::{
    Put, concat, delete_item, delete_keys, delete_path, pretty, put, strip_nulls,
};
pub(crate) use order::{compare, contains, exists, hash};
pub(crate) use read::{canonical, check};

use crate::error::{SqlError, clipped, code};
use std::borrow::Cow;
use std::cmp::Ordering;

/// A value in a valid text.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Node<'t> {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// Its digits.
    Number(&'t str),
    /// With its quotes and escapes.
    Text(&'t str),
    /// With its brackets.
    Array(&'t str),
    /// With its braces.
    Object(&'t str),
}

impl<'t> Node<'t> {
    /// The value in a text.
    pub(crate) fn of(text: &'t str) -> Node<'t> {
        let text = trimmed(text);
        match text.as_bytes().first() {
            Some(b'{') => Node::Object(text),
            Some(b'[') => Node::Array(text),
            Some(b'"') => Node::Text(text),
            Some(b't') => Node::Bool(true),
            Some(b'f') => Node::Bool(false),
            Some(b'n') | None => Node::Null,
            Some(_) => Node::Number(text),
        }
    }

    /// The type name of `json_typeof`.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Node::Null => "null",
            Node::Bool(_) => "boolean",
            Node::Number(_) => "number",
            Node::Text(_) => "string",
            Node::Array(_) => "array",
            Node::Object(_) => "object",
        }
    }

    pub(crate) fn is_scalar(&self) -> bool {
        !matches!(self, Node::Array(_) | Node::Object(_))
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\n', '\r'])
}

/// The elements of an array in order, as texts.
pub(crate) fn items(array: &str) -> impl Iterator<Item = &str> {
    let mut walk = Walk { text: array, at: 1 };
    std::iter::from_fn(move || walk.next())
}

/// The members of an object: the key in its quotes, and the value.
pub(crate) fn members(object: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut walk = Walk { text: object, at: 1 };
    std::iter::from_fn(move || Some((walk.next()?, walk.next()?)))
}

/// An iterator over the contents between the brackets of a text.
struct Walk<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Walk<'t> {
    /// The next key or value.
    fn next(&mut self) -> Option<&'t str> {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(|b| is_blank(*b) || matches!(b, b',' | b':')) {
            self.at += 1;
        }
        let from = self.at;
        match bytes.get(from)? {
            b']' | b'}' => return None,
            b'"' => self.at = end_of_string(bytes, from),
            b'[' | b'{' => self.at = end_of_brackets(bytes, from),
            _ => {
                let is_end = |b: &u8| is_blank(*b) || matches!(b, b',' | b'}' | b']' | b':');
                let length = bytes[from..].iter().position(is_end).unwrap_or(bytes.len() - from);
                self.at = from + length;
            }
        }
        Some(&self.text[from..self.at])
    }
}

/// The position behind the closing quote of a string that begins here.
fn end_of_string(bytes: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The position behind the bracket that closes the one here.
fn end_of_brackets(bytes: &[u8], from: usize) -> usize {
    let (mut at, mut open) = (from, 0usize);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at = end_of_string(bytes, at);
                continue;
            }
            b'[' | b'{' => open += 1,
            b']' | b'}' => open -= 1,
            _ => {}
        }
        at += 1;
        if open == 0 {
            break;
        }
    }
    at
}

/// The decoded text of a string in quotes.
///
/// # Errors
/// 22P02 for an unpaired surrogate, 22P05 for the character zero, which no text may contain.
pub(crate) fn unquoted(string: &str) -> Result<Cow<'_, str>, SqlError> {
    let inside = &string[1..string.len() - 1];
    if !inside.contains('\\') {
        return Ok(Cow::Borrowed(inside));
    }
    let text: String = serde_json::from_str(string).map_err(|_| {
        let message = format!("invalid input syntax for type json: {}", clipped(string));
        SqlError::new(code::INVALID_TEXT, message)
            .detail("Unicode high surrogate must be followed by a low surrogate.")
    })?;
    if text.contains('\0') {
        return Err(SqlError::new("22P05", "unsupported Unicode escape sequence")
            .detail("\\u0000 cannot be converted to text."));
    }
    Ok(Cow::Owned(text))
}

/// The order of two keys in quotes at the start of texts: by length first.
fn key_order(a: &str, b: &str) -> Result<Ordering, SqlError> {
    let a = unquoted(&a[..end_of_string(a.as_bytes(), 0)])?;
    let b = unquoted(&b[..end_of_string(b.as_bytes(), 0)])?;
    Ok(a.len().cmp(&b.len()).then_with(|| a.cmp(&b)))
}

/// Appends a text as a string in quotes.
pub(crate) fn quote(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c < ' ' || matches!(c, '"' | '\\')) {
        out.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            other => out.push_str(&format!("\\u{other:04x}")),
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}

/// The value of a key; if there are several, the last.
pub(crate) fn field<'t>(node: Node<'t>, key: &str) -> Result<Option<&'t str>, SqlError> {
    let Node::Object(object) = node else { return Ok(None) };
    let mut found = None;
    for (name, value) in members(object) {
        if *unquoted(name)? == *key {
            found = Some(value);
        }
    }
    Ok(found)
}

/// An element by its index, from 0; negative indexes count from the end.
pub(crate) fn item(node: Node<'_>, number: i64) -> Option<&str> {
    let Node::Array(array) = node else { return None };
    let number = match number {
        0.. => number,
        _ => items(array).count() as i64 + number,
    };
    items(array).nth(usize::try_from(number).ok()?)
}

/// The value at a path of keys and indexes.
pub(crate) fn at_path<'t>(
    text: &'t str,
    path: &[Option<String>],
) -> Result<Option<&'t str>, SqlError> {
    let mut found = trimmed(text);
    for part in path {
        let Some(part) = part else { return Ok(None) };
        let node = Node::of(found);
        let next = match node {
            Node::Array(_) => part.trim_start().parse().ok().and_then(|number| item(node, number)),
            _ => field(node, part)?,
        };
        match next {
            Some(next) => found = next,
            None => return Ok(None),
        }
    }
    Ok(Some(found))
}

/// A value as `->>` returns it: a string without its quotes, and `null` as `None`.
pub(crate) fn as_text(value: &str) -> Result<Option<Cow<'_, str>>, SqlError> {
    match Node::of(value) {
        Node::Null => Ok(None),
        Node::Text(string) => unquoted(string).map(Some),
        _ => Ok(Some(Cow::Borrowed(trimmed(value)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jsonb(text: &str) -> String {
        canonical(text).expect(text)
    }

    #[test]
    fn a_jsonb_has_a_canonical_form() {
        for (text, shown) in [
            (" 1 ", "1"),
            ("-0.0", "0.0"),
            ("1E3", "1000"),
            ("1.50e1", "15.0"),
            ("12e-4", "0.0012"),
            ("-0.5e1", "-5"),
            ("0e2", "0"),
            ("0.0e-1", "0.00"),
            ("[ ]", "[]"),
            ("{ }", "{}"),
            ("[1,\t[2 , {}],null,true]", "[1, [2, {}], null, true]"),
            (
                "{\"bb\":1,\"a\":{\"z\":1,\"y\":2},\"c\":3}",
                "{\"a\": {\"y\": 2, \"z\": 1}, \"c\": 3, \"bb\": 1}",
            ),
            ("{\"a\":1,\"b\":2,\"a\":3}", "{\"a\": 3, \"b\": 2}"),
            ("{\"\\u0061\":\"\\u00e9\\n\"}", "{\"a\": \"é\\n\"}"),
        ] {
            assert_eq!(jsonb(text), shown, "{text}");
            assert_eq!(jsonb(shown), shown, "{text}");
        }
        let digits = "9".repeat(400);
        assert_eq!(jsonb(&digits), digits);
    }

    #[test]
    fn invalid_json_is_refused() {
        for text in ["", "{", "[1,]", "{\"a\"}", "01", "'a'", "\"\\x\"", "1 2", "nul", "\"\n\""] {
            assert_eq!(check(text).unwrap_err().code, code::INVALID_TEXT, "{text}");
        }
        let deep = |levels| "[".repeat(levels) + &"]".repeat(levels);
        assert!(check(&deep(100)).is_ok());
        assert_eq!(check(&deep(100_000)).unwrap_err().code, code::TOO_COMPLEX);
        // A `json` keeps its text unchanged, even if its strings cannot be decoded.
        for (text, expected) in
            [("\"\\u0000\"", "22P05"), ("\"\\ud83d\"", "22P02"), ("1e200000", code::OUT_OF_RANGE)]
        {
            assert!(check(text).is_ok(), "{text}");
            assert_eq!(canonical(text).unwrap_err().code, expected, "{text}");
        }
    }

    #[test]
    fn values_are_found_where_they_are_written() {
        let text = "{\"a\": [10, {\"b\\n\" : \"x,]\"}], \"a\": [20, [ ] , \"}\"]}";
        let path = |path: &[&str]| {
            let path: Vec<Option<String>> = path.iter().map(|p| Some((*p).to_owned())).collect();
            at_path(text, &path).expect("it is right")
        };
        assert_eq!(path(&["a", "0"]), Some("20"));
        assert_eq!(path(&["a", "1"]), Some("[ ]"));
        assert_eq!(path(&["a", "-1"]), Some("\"}\""));
        assert_eq!(path(&["a", "3"]), None);
        assert_eq!(path(&["b"]), None);
        let first = items("[10, {\"b\\n\" : \"x,]\"}]").nth(1).expect("two");
        assert_eq!(field(Node::of(first), "b\n").expect("right"), Some("\"x,]\""));
    }
}
