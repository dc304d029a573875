//! Tokens of a path. As in PostgreSQL, the longest one counts: `1.a` is a number with junk behind
//! it, and `12ab` a word.

use crate::error::{SqlError, code};

/// A token.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Token {
    /// One or two special characters.
    Sign(&'static str),
    /// A name without quotes; the second is the keyword that it is, or empty.
    Word(String, &'static str),
    /// A string in quotes.
    Text(String),
    /// A variable, without its `$`.
    Variable(String),
    /// Digits of an integer.
    Whole(String),
    /// Digits of any other number.
    Number(String),
    End,
}

const KEYWORDS: [&str; 22] = [
    "is",
    "to",
    "abs",
    "lax",
    "flag",
    "last",
    "null",
    "size",
    "true",
    "type",
    "with",
    "false",
    "floor",
    "double",
    "exists",
    "starts",
    "strict",
    "ceiling",
    "unknown",
    "datetime",
    "keyvalue",
    "like_regex",
];
/// Keywords in lower case only.
const LOWER: [&str; 3] = ["null", "true", "false"];
/// Longer ones come first.
const SIGNS: [&str; 32] = [
    "&&", "||", "**", "<=", "==", "<>", "!=", ">=", "<", ">", "!", "?", "%", "$", ".", "[", "]",
    "{", "}", "(", ")", "|", "&", "=", "@", "#", ",", "*", ":", "-", "+", "/",
];
const SPECIAL: &str = "?%$.[]{}()|&!=<>@#,*:-+/";

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}')
}

/// True for the characters of words.
fn is_other(c: char) -> bool {
    !SPECIAL.contains(c) && !is_blank(c) && !matches!(c, '\\' | '"')
}

/// How many bytes of digits there are.
fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// 42601, near a part of a path.
pub(super) fn syntax(message: &str, near: &str) -> SqlError {
    SqlError::new(
        code::SYNTAX,
        match near {
            "" => format!("{message} at end of jsonpath input"),
            near => format!("{message} at or near \"{near}\" of jsonpath input"),
        },
    )
}

/// The tokens of a text.
pub(super) struct Tokens<'t> {
    text: &'t str,
    at: usize,
    /// The characters that the last token ended with, for messages.
    pub(super) near: &'t str,
}

impl<'t> Tokens<'t> {
    pub(super) fn new(text: &'t str) -> Tokens<'t> {
        Tokens { text, at: 0, near: "" }
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Passes over this many bytes, which are the last ones of a token.
    fn pass(&mut self, bytes: usize) -> &'t str {
        self.near = &self.text[self.at..self.at + bytes];
        self.at += bytes;
        self.near
    }

    /// The next token.
    ///
    /// # Errors
    /// 42601, 22P02, 22P05.
    pub(super) fn next(&mut self) -> Result<Token, SqlError> {
        loop {
            let rest = self.rest();
            let Some(first) = rest.chars().next() else {
                self.near = "";
                return Ok(Token::End);
            };
            if is_blank(first) {
                self.at += 1;
            } else if rest.starts_with("/*") {
                self.comment()?;
            } else if first == '"' {
                self.pass(1);
                return self.quoted().map(Token::Text);
            } else if rest.starts_with("$\"") {
                self.pass(2);
                return self.quoted().map(Token::Variable);
            } else if first == '$' && rest[1..].starts_with(is_other) {
                let length = rest[1..].find(|c| !is_other(c)).unwrap_or(rest.len() - 1);
                return Ok(Token::Variable(self.pass(1 + length)[1..].to_owned()));
            } else if let Some(number) = self.number()? {
                return Ok(number);
            } else if SPECIAL.contains(first) {
                let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign)).unwrap_or(&"");
                self.pass(sign.len());
                return Ok(Token::Sign(sign));
            } else if let Some(word) = self.word()? {
                return Ok(word);
            }
        }
    }

    fn comment(&mut self) -> Result<(), SqlError> {
        match self.rest()[2..].find("*/") {
            Some(end) => {
                self.at += end + 4;
                Ok(())
            }
            None => Err(syntax("unexpected end of comment", "")),
        }
    }

    fn number(&mut self) -> Result<Option<Token>, SqlError> {
        let rest = self.rest();
        let whole = if rest.starts_with('0') { 1 } else { digits(rest) };
        let (mut length, mut is_whole) = (whole, true);
        if rest[whole..].starts_with('.') {
            let fraction = digits(&rest[whole + 1..]);
            if whole + fraction > 0 {
                (length, is_whole) = (whole + 1 + fraction, false);
            }
        }
        if length == 0 {
            return Ok(None);
        }
        let mut ends_in_sign = false;
        if let Some(exponent) = rest[length..].strip_prefix(['e', 'E']) {
            let sign = usize::from(exponent.starts_with(['-', '+']));
            match digits(&exponent[sign..]) {
                0 => ends_in_sign = sign > 0,
                some => (length, is_whole) = (length + 1 + sign + some, false),
            }
        }
        let run = rest.find(|c| !is_other(c)).unwrap_or(rest.len());
        let behind = rest[length..].chars().next().filter(|c| is_other(*c) && !ends_in_sign);
        let junk = behind.map_or(0, |c| length + c.len_utf8());
        let failed = if ends_in_sign { length + 2 } else { 0 };
        // Junk is one byte of the next character.
        if run > failed.max(length + usize::from(junk > 0)) {
            return Ok(None);
        }
        if ends_in_sign {
            return Err(syntax("invalid numeric literal", &rest[..failed]));
        }
        if junk > 0 {
            return Err(syntax("trailing junk after numeric literal", &rest[..junk]));
        }
        let number = self.pass(length).to_owned();
        Ok(Some(if is_whole { Token::Whole(number) } else { Token::Number(number) }))
    }

    /// A name without quotes; `None` if a comment follows it, which takes it away.
    fn word(&mut self) -> Result<Option<Token>, SqlError> {
        let mut word = String::new();
        loop {
            let rest = self.rest();
            let length = rest.find(|c| !is_other(c)).unwrap_or(rest.len());
            word.push_str(self.pass(length));
            match self.rest().chars().next() {
                Some('\\') => self.escape(&mut word)?,
                Some(c) if is_blank(c) => {
                    self.pass(1);
                    break;
                }
                Some('/') if self.rest().starts_with("/*") => {
                    self.comment()?;
                    return Ok(None);
                }
                _ => {
                    self.near = "";
                    break;
                }
            }
        }
        let lower = word.to_ascii_lowercase();
        let is_keyword = |name: &&&str| **name == lower && (word == lower || !LOWER.contains(name));
        let keyword = KEYWORDS.iter().find(is_keyword).copied().unwrap_or("");
        Ok(Some(Token::Word(word, keyword)))
    }

    /// The text up to the closing quote.
    fn quoted(&mut self) -> Result<String, SqlError> {
        let mut text = String::new();
        loop {
            let rest = self.rest();
            let Some(length) = rest.find(['"', '\\']) else {
                return Err(syntax("unexpected end of quoted string", ""));
            };
            text.push_str(self.pass(length));
            if self.rest().starts_with('"') {
                self.pass(1);
                return Ok(text);
            }
            self.escape(&mut text)?;
        }
    }

    /// Appends the characters of an escape sequence, or of several code units.
    fn escape(&mut self, text: &mut String) -> Result<(), SqlError> {
        let rest = self.rest();
        let escaped = rest[1..].chars().next().filter(|c| *c != '\n');
        let Some(escaped) = escaped else {
            return Err(syntax("unexpected end after backslash", "\\"));
        };
        text.push(match escaped {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'u' => return self.code_units(text),
            'x' => {
                let hex = rest[2..].bytes().take(2).take_while(u8::is_ascii_hexdigit).count();
                let all = self.pass(2 + hex);
                if hex < 2 {
                    return Err(syntax("invalid hex character sequence", all));
                }
                return push(u32::from_str_radix(&all[2..], 16).unwrap_or(0), text);
            }
            other => other,
        });
        self.pass(1 + escaped.len_utf8());
        Ok(())
    }

    /// `\u0041`, `\u{41}`, and pairs of surrogates.
    fn code_units(&mut self, text: &mut String) -> Result<(), SqlError> {
        let mut high = None;
        let wrong = |detail| {
            let message = "invalid input syntax for type jsonpath";
            Err(SqlError::new(code::INVALID_TEXT, message).detail(detail))
        };
        const NO_LOW: &str = "Unicode low surrogate must follow a high surrogate.";
        while self.rest().starts_with("\\u") {
            let rest = &self.rest()[2..];
            let hex = |text: &str, most: usize| {
                text.bytes().take(most).take_while(u8::is_ascii_hexdigit).count()
            };
            let (digits, length, is_whole) = match rest.strip_prefix('{') {
                Some(inner) => {
                    let count = hex(inner, 6);
                    let is_closed = inner[count..].starts_with('}');
                    (&inner[..count], 3 + count + usize::from(is_closed), is_closed && count > 0)
                }
                None => {
                    let count = hex(rest, 4);
                    (&rest[..count], 2 + count, count == 4)
                }
            };
            let all = self.pass(length);
            if !is_whole {
                return Err(syntax("invalid unicode sequence", all));
            }
            let unit = u32::from_str_radix(digits, 16).unwrap_or(0);
            match (high.take(), unit) {
                (None, 0xd800..0xdc00) => high = Some(unit),
                (Some(_), 0xd800..0xdc00) => {
                    return wrong("Unicode high surrogate must not follow a high surrogate.");
                }
                (Some(high), 0xdc00..0xe000) => {
                    push(0x10000 + ((high - 0xd800) << 10) + (unit - 0xdc00), text)?;
                }
                (None, unit) if !(0xdc00..0xe000).contains(&unit) => push(unit, text)?,
                _ => return wrong(NO_LOW),
            }
        }
        if high.is_some() { wrong(NO_LOW) } else { Ok(()) }
    }
}

/// Appends a character by its number.
fn push(number: u32, text: &mut String) -> Result<(), SqlError> {
    match char::from_u32(number) {
        Some('\0') => Err(SqlError::new("22P05", "unsupported Unicode escape sequence")
            .detail("\\u0000 cannot be converted to text.")),
        Some(c) => {
            text.push(c);
            Ok(())
        }
        None => Err(SqlError::new(code::SYNTAX, "invalid Unicode code point")),
    }
}
