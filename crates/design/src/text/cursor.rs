//! A cursor that reads text from left to right, and reports the position and cause of errors.

use crate::value::parse_hex;
use crate::{ColumnType, Invalid, RowError, SITES_MAX, SchemaError, SiteId, SiteSet, Value};
use thiserror::Error;

/// Why a text could not be read, with the position.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct ParseError {
    /// The line, counted from 1.
    pub line: usize,
    /// The character in the line, counted from 1.
    pub column: usize,
    /// The cause.
    pub problem: Problem,
}

/// The cause of a parse error.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Problem {
    /// Other text was expected.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// The expected text.
        expected: String,
        /// The text that is there.
        found: String,
    },
    /// A table that the design lacks.
    #[error("there is no table {table}: tables are {tables}")]
    UnknownTable {
        /// The name given.
        table: String,
        /// The tables that exist.
        tables: String,
    },
    /// Columns that are not a schema.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// Values that are not a key.
    #[error(transparent)]
    Row(#[from] RowError),
    /// Partitions that are not a design.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

/// The most characters of a text that an error quotes.
const FOUND_CHARS_MAX: usize = 24;

/// A position in a text.
#[derive(Clone)]
pub(crate) struct Cursor<'text> {
    text: &'text str,
    at: usize,
}

impl<'text> Cursor<'text> {
    pub(crate) fn new(text: &'text str) -> Cursor<'text> {
        Cursor { text, at: 0 }
    }

    pub(crate) fn rest(&self) -> &'text str {
        &self.text[self.at..]
    }

    /// Skips blanks, but not the end of a line.
    pub(crate) fn skip_blanks(&mut self) {
        self.take_while(|char| char == ' ' || char == '\t');
    }

    /// True if nothing but a comment is left of the line.
    pub(crate) fn is_line_end(&self) -> bool {
        self.rest().is_empty() || self.rest().starts_with(['\n', '\r', '#'])
    }

    /// Moves to the next line with more than a comment; false if there is none.
    pub(crate) fn next_line(&mut self) -> bool {
        self.skip_blanks();
        while self.is_line_end() {
            self.take_while(|char| char != '\n');
            if !self.eat("\n") {
                return false;
            }
            self.skip_blanks();
        }
        true
    }

    /// Reads `token` if it stands here.
    pub(crate) fn eat(&mut self, token: &str) -> bool {
        let is_here = self.rest().starts_with(token);
        self.at += if is_here { token.len() } else { 0 };
        is_here
    }

    /// Reads `word` and the blanks around it, if it stands here as a whole word.
    pub(crate) fn eat_word(&mut self, word: &str) -> bool {
        self.skip_blanks();
        let mut ahead = self.clone();
        let is_here = ahead.take_while(is_word_char) == word;
        if is_here {
            ahead.skip_blanks();
            *self = ahead;
        }
        is_here
    }

    /// Reads `token`, which must stand here.
    pub(crate) fn expect(&mut self, token: &str) -> Result<(), ParseError> {
        if self.eat(token) { Ok(()) } else { Err(self.expected(format!("`{token}`"))) }
    }

    /// Reads a keyword, which must stand here.
    pub(crate) fn expect_word(&mut self, word: &str) -> Result<(), ParseError> {
        if self.eat_word(word) { Ok(()) } else { Err(self.expected(format!("`{word}`"))) }
    }

    /// Checks that nothing but a comment is left of the line.
    pub(crate) fn expect_line_end(&mut self) -> Result<(), ParseError> {
        self.skip_blanks();
        if self.is_line_end() { Ok(()) } else { Err(self.expected("the end of the line")) }
    }

    /// Checks that nothing is left of the text.
    pub(crate) fn expect_text_end(&mut self) -> Result<(), ParseError> {
        self.expect_line_end()?;
        if self.next_line() { Err(self.expected("the end of the text")) } else { Ok(()) }
    }

    /// Reads a name and the blanks after it.
    pub(crate) fn name(&mut self, what: &str) -> Result<&'text str, ParseError> {
        let before = self.clone();
        let name = self.take_while(is_word_char);
        if name.is_empty() {
            return Err(before.expected(what));
        }
        self.skip_blanks();
        Ok(name)
    }

    /// Reads a site such as `s1`, if one stands here, and the blanks after it.
    pub(crate) fn eat_site(&mut self) -> Option<SiteId> {
        let mut ahead = self.clone();
        let word = ahead.take_while(is_word_char);
        let site = SiteId(word.strip_prefix('s')?.parse().ok()?);
        let is_site = SiteSet::can_hold(site) && site.to_string() == word;
        is_site.then(|| {
            ahead.skip_blanks();
            *self = ahead;
            site
        })
    }

    /// Reads a site, which must stand here.
    pub(crate) fn site(&mut self) -> Result<SiteId, ParseError> {
        self.skip_blanks();
        self.eat_site().ok_or_else(|| self.expected(format!("a site, s1 to s{SITES_MAX}")))
    }

    /// Reads a value of a column in a key.
    pub(crate) fn value(&mut self, ty: ColumnType) -> Result<Value, ParseError> {
        let before = self.clone();
        let literal = self.take_literal();
        ty.parse(literal).ok_or_else(|| before.expected(format!("{} ({ty})", ty.example())))
    }

    /// Reads pairs of hexadecimal digits after an `x`, if they stand here.
    pub(crate) fn eat_hex(&mut self) -> Option<Vec<u8>> {
        let mut ahead = self.clone();
        if !ahead.eat("x") {
            return None;
        }
        let bytes = parse_hex(ahead.take_while(is_word_char)).filter(|bytes| !bytes.is_empty())?;
        *self = ahead;
        Some(bytes)
    }

    /// The error that something else should stand here.
    pub(crate) fn expected(&self, expected: impl Into<String>) -> ParseError {
        let line = self.rest().lines().next().unwrap_or_default();
        let word_end = line.find([' ', '\t']).unwrap_or(line.len());
        let mut found: String = line[..word_end].chars().take(FOUND_CHARS_MAX).collect();
        if found.len() < word_end {
            found.push('…');
        }
        let found = match self.rest() {
            "" => "the end of the text".to_owned(),
            _ if line.is_empty() => "the end of the line".to_owned(),
            _ if found.is_empty() => "a blank".to_owned(),
            _ => format!("`{found}`"),
        };
        self.error(Problem::Expected { expected: expected.into(), found })
    }

    /// An error at this place.
    pub(crate) fn error(&self, problem: impl Into<Problem>) -> ParseError {
        let before = &self.text[..self.at];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        ParseError {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            problem: problem.into(),
        }
    }

    fn take_while(&mut self, mut is_wanted: impl FnMut(char) -> bool) -> &'text str {
        let rest = self.rest();
        let length = rest.find(|char| !is_wanted(char)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// Reads a literal: a quoted text, quoted bytes, or a run of the characters of numbers, times
    /// and words. A point counts only before a digit, so that a range can follow a number.
    fn take_literal(&mut self) -> &'text str {
        let rest = self.rest();
        let quote_at = rest.find('\'').filter(|&at| at == 0 || rest.starts_with("x'"));
        let length = match quote_at {
            Some(quote_at) => quoted_length(rest, quote_at),
            None => bare_length(rest),
        };
        self.at += length;
        &rest[..length]
    }
}

fn quoted_length(text: &str, quote_at: usize) -> usize {
    let mut is_escaped = false;
    for (at, char) in text.char_indices().skip_while(|&(at, _)| at <= quote_at) {
        match char {
            '\n' => return at,
            '\'' if !is_escaped => return at + 1,
            _ => is_escaped = char == '\\' && !is_escaped,
        }
    }
    text.len()
}

fn bare_length(text: &str) -> usize {
    let is_part = |at: usize, char: char| match char {
        '.' => text[at + 1..].starts_with(|next: char| next.is_ascii_digit()),
        _ => is_word_char(char) || matches!(char, '-' | ':' | '@'),
    };
    text.char_indices().find(|&(at, char)| !is_part(at, char)).map_or(text.len(), |(at, _)| at)
}

fn is_word_char(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_'
}
