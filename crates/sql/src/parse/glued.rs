//! Operators that touch a sign or a comment.
//!
//! ```text
//!   a>-5, a<>-b       >  -5, <>  -b     an operator ends before signs at its end,
//!   a@-b              @-                unless it has one of ~ ! @ # ^ & | ` ? %
//!   a>/*c*/b, a>--c   >                 and before a comment
//! ```
//!
//! The tokenizer of the grammar makes one operator of all these characters. So it gets a text with
//! a blank at the end of each such operator, and the places of its tokens are corrected.

use sqlparser::tokenizer::{Location, TokenWithSpan};
use std::borrow::Cow;

/// A text with the blanks, and where they are in it.
pub(super) struct Parted<'t> {
    pub(super) text: Cow<'t, str>,
    blanks: Vec<Location>,
}

/// Characters of operators, and those of them that keep a sign at the end of an operator.
const OPERATOR: &[u8] = b"~!@#^&|`?+-*/%<>=";
const KEEPS_SIGN: &[u8] = b"~!@#^&|`?%";

/// Puts a blank at the end of each operator that touches a sign or a comment.
pub(super) fn part(text: &str) -> Parted<'_> {
    let ends = ends(text.as_bytes());
    if ends.is_empty() {
        return Parted { text: Cow::Borrowed(text), blanks: Vec::new() };
    }
    let (mut parted, mut from) = (String::with_capacity(text.len() + ends.len()), 0);
    let (mut line, mut column) = (1, 1);
    let mut blanks = Vec::with_capacity(ends.len());
    for end in ends {
        for c in text[from..end].chars() {
            (line, column) = if c == '\n' { (line + 1, 1) } else { (line, column + 1) };
        }
        parted.push_str(&text[from..end]);
        parted.push(' ');
        blanks.push(Location { line, column });
        (column, from) = (column + 1, end);
    }
    parted.push_str(&text[from..]);
    Parted { text: Cow::Owned(parted), blanks }
}

impl Parted<'_> {
    /// A place in the text without the blanks.
    pub(super) fn place(&self, at: Location) -> Location {
        let order = |blank: &Location| (blank.line, blank.column);
        let before = self.blanks.partition_point(|blank| order(blank) < (at.line, at.column));
        let line = self.blanks.partition_point(|blank| blank.line < at.line);
        Location { column: at.column.saturating_sub((before - line.min(before)) as u64), ..at }
    }

    /// Gives tokens their places in the text without the blanks.
    pub(super) fn correct(&self, tokens: &mut [TokenWithSpan]) {
        if self.blanks.is_empty() {
            return;
        }
        for token in tokens {
            let span = &mut token.span;
            (span.start, span.end) = (self.place(span.start), self.place(span.end));
        }
    }
}

/// Where such operators end.
fn ends(text: &[u8]) -> Vec<usize> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < text.len() {
        let rest = &text[at..];
        at += match rest[0] {
            b'\'' => {
                let is_escaped = at > 0 && matches!(text[at - 1], b'e' | b'E');
                let is_prefix = is_escaped && (at == 1 || !is_word(text[at - 2]));
                quoted(rest, is_prefix)
            }
            b'"' => quoted(rest, false),
            b'$' => dollar_quoted(rest),
            b'-' if rest.starts_with(b"--") => line_of(rest),
            b'/' if rest.starts_with(b"/*") => comment(rest),
            byte if is_word(byte) => {
                rest.iter().take_while(|byte| is_word(**byte) || **byte == b'$').count()
            }
            byte if OPERATOR.contains(&byte) => {
                let (length, is_glued) = operator(rest);
                if is_glued {
                    found.push(at + length);
                }
                length
            }
            _ => 1,
        };
    }
    found
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The length of the operator at the beginning, and whether a sign or a comment touches it.
fn operator(text: &[u8]) -> (usize, bool) {
    let run = text.iter().take_while(|byte| OPERATOR.contains(byte)).count();
    let starts_comment = |at: &usize| matches!(&text[*at..*at + 2], b"--" | b"/*");
    let end = (1..run.saturating_sub(1)).find(starts_comment);
    let mut length = end.unwrap_or(run);
    let keeps_sign = text[..length].iter().any(|byte| KEEPS_SIGN.contains(byte));
    while !keeps_sign && length > 1 && matches!(text[length - 1], b'+' | b'-') {
        length -= 1;
    }
    (length, length < run)
}

/// The length of a text in quotes, which are doubled inside of it. Without an end it has all.
fn quoted(text: &[u8], has_escapes: bool) -> usize {
    let mut at = 1;
    while let Some(&byte) = text.get(at) {
        at += match byte {
            b'\\' if has_escapes => 2,
            byte if byte == text[0] && text.get(at + 1) == Some(&byte) => 2,
            byte if byte == text[0] => return at + 1,
            _ => 1,
        };
    }
    text.len()
}

/// The length of `$name$ .. $name$`, or of a parameter.
fn dollar_quoted(text: &[u8]) -> usize {
    let name = 1 + text[1..].iter().take_while(|byte| is_word(**byte)).count();
    if text.get(name) != Some(&b'$') || text[1].is_ascii_digit() {
        return name;
    }
    let (mark, inside) = text.split_at(name + 1);
    let end = inside.windows(mark.len()).position(|window| window == mark);
    end.map_or(text.len(), |end| end + 2 * mark.len())
}

fn line_of(text: &[u8]) -> usize {
    text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len())
}

/// The length of a comment, with those inside of it.
fn comment(text: &[u8]) -> usize {
    let (mut at, mut depth) = (2, 1);
    while at < text.len() {
        let rest = &text[at..];
        at += match rest {
            _ if rest.starts_with(b"/*") => {
                depth += 1;
                2
            }
            _ if rest.starts_with(b"*/") => {
                depth -= 1;
                2
            }
            _ => 1,
        };
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_ends_before_a_sign_and_a_comment() {
        for (text, expected) in [
            ("a>-5", "a> -5"),
            ("a>=-5 and b<>+c", "a>= -5 and b<> +c"),
            ("j->-1, j->>-1", "j-> -1, j->> -1"),
            ("5-/*c*/3", "5- /*c*/3"),
            ("3>--c\n-1", "3> --c\n-1"),
            ("a*/*x/*y*/*/b", "a* /*x/*y*/*/b"),
            ("1=-+2", "1= - +2"),
        ] {
            assert_eq!(part(text).text, expected);
        }
        for same in [
            "a>b - 5",
            "5 @- 3, 5!=-3, j#>-1",
            "'a>-5' || \"a>-5\" || $$a>-5$$ || $x$a>-5$$a>-5$x$",
            "E'\\'>-5'",
            "-- a>-5\n/* a>-5 */ a - - 5",
            "a$b$c-1, $1-1",
            "",
        ] {
            assert_eq!(part(same).text, same);
        }
    }

    #[test]
    fn places_are_those_without_the_blanks() {
        let parted = part("a>-1 and\nb>-2, c>-x");
        let place = |line, column| parted.place(Location { line, column });
        let seen = [place(1, 1), place(1, 2), place(1, 4), place(2, 4), place(2, 13)];
        let columns = seen.map(|place| (place.line, place.column));
        assert_eq!(columns, [(1, 1), (1, 2), (1, 3), (2, 3), (2, 11)]);
    }
}
