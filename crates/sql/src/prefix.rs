//! Fixed beginnings of patterns: what every text that fits a pattern begins with.
//!
//! ```text
//!   like 'ab\_c%d'        'ab_c'      ~ '^ab+c'      'ab'       starts_with(x, 'ab%')      'ab%'
//!   like '%d'             ''          ~ '^ab?c'      'a'        ~ 'ab', ~ '^a|b'           ''
//!
//!   begins with 'ab'      from 'ab' on, below 'ac': texts compare by their bytes
//! ```
//!
//! A beginning may be shorter than it could be, never longer: an index finds the texts between its
//! bounds, and the condition is evaluated again for each of them. Letters of both cases (ILIKE,
//! `~*`) have no fixed beginning.

/// How a condition on a text says what it begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prefix {
    /// A pattern of LIKE.
    Like,
    /// A regular expression.
    Regex,
    /// The beginning itself.
    Text,
}

impl Prefix {
    /// The beginning of all texts that fit; empty if they have none in common.
    pub fn of(self, pattern: &str) -> String {
        match self {
            Prefix::Like => of_like(pattern),
            Prefix::Regex => of_regex(pattern),
            Prefix::Text => pattern.to_owned(),
        }
    }
}

fn of_like(pattern: &str) -> String {
    let (mut prefix, mut chars) = (String::new(), pattern.chars());
    while let Some(c) = chars.next() {
        match c {
            '%' | '_' => break,
            '\\' => prefix.extend(chars.next()),
            c => prefix.push(c),
        }
    }
    prefix
}

fn of_regex(pattern: &str) -> String {
    let mut prefix = String::new();
    // An alternative may begin otherwise.
    let Some(rest) = pattern.strip_prefix('^').filter(|rest| !rest.contains('|')) else {
        return prefix;
    };
    let mut chars = rest.chars();
    while let Some(c) = chars.next() {
        match c {
            '*' | '?' | '{' => {
                // The last one may be absent.
                prefix.pop();
                break;
            }
            '\\' => match chars.next().filter(char::is_ascii_punctuation) {
                Some(escaped) => prefix.push(escaped),
                None => break,
            },
            '.' | '+' | '(' | ')' | '[' | ']' | '}' | '^' | '$' => break,
            c => prefix.push(c),
        }
    }
    prefix
}

/// The least text above all that begin with this one; none if there is no such text.
pub fn following(prefix: &str) -> Option<String> {
    let mut following = prefix.to_owned();
    while let Some(last) = following.pop() {
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            last => char::from_u32(last as u32 + 1),
        };
        if let Some(next) = next {
            following.push(next);
            return Some(following);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_begin_with_what_all_their_texts_begin_with() {
        for (kind, pattern, wanted) in [
            (Prefix::Like, "abc", "abc"),
            (Prefix::Like, "ab%c", "ab"),
            (Prefix::Like, "a_b", "a"),
            (Prefix::Like, "%a", ""),
            (Prefix::Like, "a\\%b\\_c\\\\%", "a%b_c\\"),
            (Prefix::Like, "a\\", "a"),
            (Prefix::Regex, "^abc", "abc"),
            (Prefix::Regex, "abc", ""),
            (Prefix::Regex, "^ab*", "a"),
            (Prefix::Regex, "^ab?c", "a"),
            (Prefix::Regex, "^ab{0,1}c", "a"),
            (Prefix::Regex, "^ab+c", "ab"),
            (Prefix::Regex, "^a.c", "a"),
            (Prefix::Regex, "^a\\.c\\d", "a.c"),
            (Prefix::Regex, "^ab|c", ""),
            (Prefix::Regex, "^(ab|c)", ""),
            (Prefix::Regex, "^ab$", "ab"),
            (Prefix::Text, "a%b", "a%b"),
        ] {
            assert_eq!(kind.of(pattern), wanted, "{kind:?} {pattern}");
        }
    }

    #[test]
    fn what_follows_a_beginning_is_above_all_its_texts() {
        assert_eq!(following("ab").as_deref(), Some("ac"));
        assert_eq!(following("a\u{d7ff}").as_deref(), Some("a\u{e000}"));
        assert_eq!(following("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(following("\u{10ffff}"), None);
        assert_eq!(following(""), None);
    }
}
