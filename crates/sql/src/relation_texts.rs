//! Texts that name relations, in stored queries and defaults.
//!
//! ```text
//!   create view next as select nextval('ids'), 'tasks'::regclass     with search_path = work
//!   stored                     nextval('work.ids'), 'work.tasks'::regclass
//! ```
//!
//! The search path of a reader may lead to other relations, or to none. So the texts get the
//! schemas that they had when they were stored. Texts that are computed (`'tas' || 'ks'`) are left:
//! they name what the reader means.

use std::ops::Range;

/// Functions whose argument names a sequence.
const CALLS: [&str; 3] = ["nextval(", "currval(", "setval("];

/// An expression or a query in SQL, with schemas in its texts that name relations. `full` has the
/// full name for a name, if it means a relation; other texts stay as they are.
pub(crate) fn with_schemas(sql: &str, full: impl Fn(&str) -> Option<String>) -> String {
    let mut text = sql.to_owned();
    for at in named(sql).into_iter().rev() {
        if let Some(name) = full(&sql[at.clone()].replace("''", "'")) {
            text.replace_range(at, &name.replace('\'', "''"));
        }
    }
    text
}

/// The texts that name relations, without their quotes, as positions.
fn named(sql: &str) -> Vec<Range<usize>> {
    let (mut found, mut rest) = (Vec::new(), 0);
    while let Some(at) = sql[rest..].find(['\'', '"']) {
        let begin = rest + at + 1;
        let quote = &sql[begin - 1..begin];
        let end = end_of(sql, begin, quote);
        if quote == "'" && is_name(&sql[..begin - 1], sql.get(end + 1..).unwrap_or_default()) {
            found.push(begin..end);
        }
        rest = (end + 1).min(sql.len());
    }
    found
}

/// The place of the quote that ends a text. Two quotes stand for one.
fn end_of(sql: &str, begin: usize, quote: &str) -> usize {
    let mut at = begin;
    while let Some(next) = sql[at..].find(quote) {
        at += next;
        if !sql[at + 1..].starts_with(quote) {
            return at;
        }
        at += 2;
    }
    sql.len()
}

/// True if a text between these names a relation.
fn is_name(before: &str, after: &str) -> bool {
    let (before, after) = (before.to_ascii_lowercase(), after.to_ascii_lowercase());
    let is_call = |call: &str| {
        let start = before.strip_suffix(call);
        start.is_some_and(|start| !start.ends_with(|c: char| c.is_alphanumeric() || c == '_'))
    };
    let is_cast = after.starts_with("::regclass")
        || before.ends_with("cast(") && after.starts_with(" as regclass)");
    CALLS.into_iter().any(is_call) || is_cast
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_name_relations_are_found() {
        let found = |sql: &str| -> Vec<String> {
            named(sql).into_iter().map(|at| sql[at].to_owned()).collect()
        };
        assert_eq!(found("SELECT nextval('s1'), 'a b', \"nextval('x')\""), ["s1"]);
        assert_eq!(found("SELECT 'it''s'::REGCLASS, CAST('t' AS REGCLASS)"), ["it''s", "t"]);
        assert_eq!(found("mynextval('s1') || 'nextval(''s2'')'"), [""; 0]);
        assert_eq!(found("setval('s', 'nextval('::text::int)"), ["s"]);
        assert_eq!(found("'open"), [""; 0]);
    }
}
