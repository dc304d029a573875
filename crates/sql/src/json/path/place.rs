//! Where the parts of a value begin in PostgreSQL's binary form of a `jsonb`: `.keyvalue()` makes
//! the id of an object of it.
//!
//! ```text
//!   {"a": {"b": 1}}      header, 2 entries of 4 bytes each, "a"; aligned: header, 2 entries, ..
//!                        0       4                          12   16
//! ```

use crate::json::{Node, items, members, unquoted};

/// The bytes of a header, of an entry, and those to which numbers and containers are aligned.
const WORD: usize = 4;

/// The place of a part, which is a slice of the text of the whole; `None` if it is none.
pub(super) fn place(whole: &str, part: &str) -> Option<usize> {
    let mut found = None;
    lay(whole, 0, part.as_ptr(), &mut found);
    found
}

/// Lays out a value at this place, and returns the place behind it.
fn lay(value: &str, at: usize, wanted: *const u8, found: &mut Option<usize>) -> usize {
    let at = match Node::of(value) {
        Node::Null | Node::Bool(_) => return at,
        Node::Text(text) => return at + bytes(text),
        Node::Number(digits) => return at.next_multiple_of(WORD) + number(digits),
        Node::Array(_) | Node::Object(_) => at.next_multiple_of(WORD),
    };
    if value.as_ptr() == wanted {
        *found = Some(at);
    }
    match Node::of(value) {
        Node::Object(object) => {
            let count = members(object).count();
            let keys: usize = members(object).map(|(key, _)| bytes(key)).sum();
            let at = at + WORD + 2 * WORD * count + keys;
            members(object).fold(at, |at, (_, value)| lay(value, at, wanted, found))
        }
        _ => {
            let at = at + WORD + WORD * items(value).count();
            items(value).fold(at, |at, item| lay(item, at, wanted, found))
        }
    }
}

fn bytes(text: &str) -> usize {
    unquoted(text).map_or(0, |text| text.len())
}

/// The bytes of a numeric: its length, a short or a long header, and groups of four digits.
fn number(digits: &str) -> usize {
    let digits = digits.trim_start_matches('-');
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole = whole.trim_start_matches('0');
    let shown = fraction.len();
    let fraction = fraction.trim_end_matches('0');
    let zeros = fraction.len() - fraction.trim_start_matches('0').len();
    // The number of the group with the first digit, and that behind the last digit.
    let first = match (whole.len(), fraction.len()) {
        (0, 0) => return if shown > 63 { 8 } else { 6 },
        (0, _) => -(zeros as i64 / 4) - 1,
        (digits, _) => digits.div_ceil(4) as i64 - 1,
    };
    let last = match fraction.len() {
        0 => (whole.len() - whole.trim_end_matches('0').len()) as i64 / 4,
        digits => -(digits.div_ceil(4) as i64),
    };
    let header = if shown <= 63 && (-64..=63).contains(&first) { 6 } else { 8 };
    header + 2 * (first - last + 1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_where_postgresql_has_them() {
        let whole = "{\"a\": {\"b\": 1}, \"c\": [{\"x\": 1}, {\"y\": 2}]}";
        let at = |part: &str| place(whole, &whole[whole.find(part).expect("there")..]);
        assert_eq!(at("{\"a\""), Some(0));
        assert_eq!(at("{\"x\""), Some(60));
        assert_eq!(at("{\"y\""), Some(84));
        assert_eq!(place(whole, "{}"), None);
        for (digits, expected) in [("0", 6), ("1", 8), ("10000", 8), ("10001", 10), ("0.5", 8)] {
            assert_eq!(number(digits), expected, "{digits}");
        }
        assert_eq!(number("12345678.9"), 12);
        assert_eq!(number("0.00001"), 8);
    }
}
