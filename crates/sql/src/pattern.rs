//! Patterns of LIKE.

use crate::budget::Budget;
use crate::error::{SqlError, code};
use crate::functions::lower;
use std::borrow::Cow;

/// Whether a text matches a pattern: `%` stands for any characters, `_` for one.
///
/// # Errors
/// 22025 if the pattern ends with the escape character; an error of the budget.
pub fn like(text: &str, pattern: &str, folds: bool, budget: &Budget) -> Result<bool, SqlError> {
    let (text, pattern) = (folded(text, folds, budget)?, folded(pattern, folds, budget)?);
    // The unmatched rest of both.
    let (mut text, mut pattern): (&str, &str) = (&text, &pattern);
    // The state to resume at after the last `%`, if the rest does not match.
    let mut retry: Option<(&str, &str)> = None;
    loop {
        budget.tick(1)?;
        let (mut chars, mut wanted) = (text.chars(), pattern.chars());
        let Some(c) = chars.next() else { break };
        let first = wanted.next();
        let next = if first == Some('\\') { wanted.clone().next() } else { None };
        let fits = match (first, next) {
            (Some('\\'), Some(escaped)) => {
                wanted.next();
                escaped == c
            }
            (Some('\\'), None) => {
                let message = "LIKE pattern must not end with escape character";
                return Err(SqlError::new(code::INVALID_ESCAPE_SEQUENCE, message));
            }
            (Some('%'), _) => {
                pattern = wanted.as_str();
                if pattern.is_empty() {
                    return Ok(true);
                }
                retry = Some((text, pattern));
                continue;
            }
            (Some('_'), _) => true,
            (plain, _) => plain == Some(c),
        };
        if fits {
            (text, pattern) = (chars.as_str(), wanted.as_str());
        } else if let Some((from, after)) = retry {
            let from = &from[from.chars().next().map_or(0, char::len_utf8)..];
            retry = Some((from, after));
            (text, pattern) = (from, after);
        } else {
            return Ok(false);
        }
    }
    Ok(pattern.bytes().all(|c| c == b'%'))
}

/// A text unchanged, or in lower case.
fn folded<'t>(text: &'t str, folds: bool, budget: &Budget) -> Result<Cow<'t, str>, SqlError> {
    Ok(if folds { Cow::Owned(lower(text, budget)?) } else { Cow::Borrowed(text) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_patterns() {
        let budget = Budget::unlimited();
        for (text, pattern, expected) in [
            ("abc", "a%", true),
            ("abc", "a_c", true),
            ("abc", "%b", false),
            ("a%c", "a\\%c", true),
            ("abc", "a\\%c", false),
            ("aXbXc", "a%X_", true),
            ("", "%", true),
            ("", "%%", true),
            ("ab", "%%b", true),
            ("äöü", "ä_ü", true),
            ("aaaaab", "%a%b", true),
        ] {
            assert_eq!(like(text, pattern, false, &budget), Ok(expected), "{text} {pattern}");
        }
        assert_eq!(like("ABC", "abc", true, &budget), Ok(true));
        let refused = like("abc", "a\\", false, &budget).unwrap_err();
        assert_eq!(refused.code, code::INVALID_ESCAPE_SEQUENCE);
        assert_eq!(like("a", "a\\", false, &budget), Ok(false));
    }
}
