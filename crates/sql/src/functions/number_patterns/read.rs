//! `to_number`: reads the digits of a text at the positions of a pattern.
//!
//! ```text
//!   '-34,338,492'    '99G999G999'    -34338492    separators are skipped as the pattern says
//!   '$1,234.5 USD'   'L9,999.99'     1234.5       L, TH and signs skip other characters
//!   '12.5-'          '99.9S'         -12.5        a sign is at its position in the pattern
//! ```
//!
//! Each part of the pattern takes the characters that fit, and the next part continues behind them.
//! The unused rest of the text or the pattern is ignored. So are blanks before a digit.

use super::{Part, Pattern, SignPlace};
use crate::error::{SqlError, clipped, code};
use crate::numeric::{Decimal, Unreadable, overflow};

/// The state of reading.
struct Reader<'r> {
    pattern: &'r Pattern<'r>,
    rest: &'r str,
    sign: Option<char>,
    number: String,
    /// How many digits are before the point and behind it.
    whole: usize,
    fraction: usize,
    has_point: bool,
}

/// The number in a text by a pattern; `None` for an empty text or pattern.
pub(in crate::functions) fn read(text: &str, pattern: &str) -> Result<Option<Decimal>, SqlError> {
    if pattern.is_empty() {
        return Ok(None);
    }
    let pattern = Pattern::read(pattern)?;
    if pattern.is_roman {
        return Err(not_read("RN"));
    }
    if pattern.is_scientific {
        return Err(not_read("EEEE"));
    }
    let mut reader = Reader {
        pattern: &pattern,
        rest: text,
        sign: None,
        number: String::new(),
        whole: 0,
        fraction: 0,
        has_point: false,
    };
    for part in &pattern.parts {
        if reader.rest.is_empty() {
            break;
        }
        reader.part(*part);
    }
    reader.number(pattern.whole, pattern.shift).map(Some)
}

fn not_read(word: &str) -> SqlError {
    let message = format!("\"{word}\" not supported for input");
    SqlError::new(code::FEATURE_NOT_SUPPORTED, message)
}

impl<'r> Reader<'r> {
    /// The number that was read; it may not have more digits before the point than the pattern has
    /// positions.
    fn number(self, whole: usize, shift: usize) -> Result<Decimal, SqlError> {
        let digits = format!("{}{}", self.sign.unwrap_or(' '), self.number.trim_end_matches('.'));
        let number = Decimal::read(&digits).map_err(|why| match why {
            Unreadable::Overflow => overflow(),
            Unreadable::Syntax => {
                let shown = clipped(&digits);
                let message = format!("invalid input syntax for type numeric: \"{shown}\"");
                SqlError::new(code::INVALID_TEXT, message)
            }
        })?;
        let places = u16::try_from(whole + shift + self.fraction).map_err(|_| overflow())?;
        let scale = i16::try_from(self.fraction).map_err(|_| overflow())?;
        let number = crate::datum::fit(number, Some((places, scale)))?;
        match shift {
            0 => Ok(number),
            // PostgreSQL computes the power of ten with 16 digits behind the point.
            shift => number.times(&Decimal::int(1).over(&super::unit(shift)?)?.rescale(16)?),
        }
    }

    /// Passes over any one character.
    fn skip_one(&mut self) {
        self.skip(self.rest.chars().next().map_or(0, char::len_utf8));
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    fn takes(&mut self, wanted: &str) -> bool {
        let is_there = self.rest.starts_with(wanted);
        if is_there {
            self.skip(wanted.len());
        }
        is_there
    }

    /// Passes over characters that are not part of a number.
    fn pass(&mut self, count: usize) {
        for _ in 0..count {
            let Some(next) = self.rest.chars().next() else { return };
            if "0123456789.,+-".contains(next) {
                return;
            }
            self.skip(next.len_utf8());
        }
    }

    fn part(&mut self, part: Part<'_>) {
        match part {
            Part::Digit { .. } | Part::Point => {
                self.digit(part);
                self.skip_one();
            }
            Part::Comma if self.pattern.is_filled => {}
            Part::Comma => {
                self.takes(",");
            }
            Part::Minus => self.sign_of("-"),
            Part::Plus => self.sign_of("+"),
            Part::Either => self.sign_of("+-"),
            Part::Currency => self.pass(1),
            Part::Ordinal { .. } => self.pass(2),
            Part::Text(text) => {
                text.chars().for_each(|_| self.skip_one());
            }
            Part::Sign | Part::Brackets | Part::Shift | Part::Fill | Part::Nothing => {}
            Part::Exponent | Part::Roman { .. } => {}
        }
    }

    /// Reads the position of a digit or the point, where the text may have a sign instead. The
    /// caller passes over the character that was read.
    fn digit(&mut self, part: Part<'_>) {
        self.takes(" ");
        let is_first = self.whole + self.fraction == 0;
        if self.sign.is_none() && is_first && part != Part::Point {
            self.sign_before();
        }
        let Some(next) = self.rest.chars().next() else { return };
        let mut is_read = false;
        if next.is_ascii_digit() {
            if self.has_point && self.fraction == self.pattern.fraction {
                return;
            }
            self.number.push(next);
            *(if self.has_point { &mut self.fraction } else { &mut self.whole }) += 1;
            is_read = true;
        } else if next == '.' && self.pattern.has_point && !self.has_point {
            self.number.push('.');
            (self.has_point, is_read) = (true, true);
        }
        let behind = &self.rest[next.len_utf8()..];
        if self.sign.is_none() && self.whole + self.fraction > 0 {
            self.sign_behind(next, behind, is_read);
        }
    }

    /// Reads one of these signs, which applies to the number wherever it stands.
    fn sign_of(&mut self, signs: &str) {
        match self.rest.chars().next().filter(|next| signs.contains(*next)) {
            Some(sign) => {
                self.skip(1);
                self.sign = Some(sign);
            }
            None => self.pass(1),
        }
    }

    fn sign_before(&mut self) {
        if self.pattern.sign == Some(SignPlace::Before) {
            let found = self.rest.chars().next().filter(|next| "+-".contains(*next));
            if let Some(sign) = found {
                self.skip(1);
                self.sign = Some(sign);
            }
        } else if self.takes("-") || (self.pattern.has_brackets && self.takes("<")) {
            self.sign = Some('-');
        } else if self.takes("+") {
            self.sign = Some('+');
        }
    }

    /// A sign behind the last digit: right behind it for an `S`, else where a digit was expected.
    fn sign_behind(&mut self, next: char, behind: &'r str, is_read: bool) {
        let has_sign = self.pattern.sign.is_some();
        if has_sign && is_read {
            if let Some(sign) = behind.chars().next().filter(|sign| "+-".contains(*sign)) {
                self.sign = Some(sign);
                // The digit is passed over here, and the sign by the caller.
                self.skip(next.len_utf8());
            }
        } else if !has_sign && !is_read {
            self.sign = Some(next).filter(|sign| "+-".contains(*sign));
        }
    }
}
