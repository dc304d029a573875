//! `to_char` of numbers: the digits are put into the positions of a pattern. [`read`] is the
//! reverse.
//!
//! ```text
//!   pattern     1234.5          -12            positions
//!   9999.99     ' 1234.50'      '  -12.00'     a 9 is a digit, or a blank before the number
//!   0000.99     ' 1234.50'      '-0012.00'     a 0 is a digit; behind it there are no blanks
//!   FM9999.99   '1234.5'        '-12.'         no blanks, and no trailing zeros
//!   9,999PR     ' 1,235 '       '   <12>'      signs are before the number, or as the pattern says
//!   99          ' ##'           '-12'          more digits than positions are not shown
//! ```
//!
//! A pattern is parsed once into its parts and a summary of them ([`Pattern`]). Then each part
//! appends its output. The sign is written with the first digit, so the [`Writer`] tracks the
//! position it is at and the position of the first digit.
//!
//! Left out: signs and separators of other locales; those of the locale `C` are used.

mod read;

use crate::datum::{Datum, convert};
use crate::error::{SqlError, code};
use crate::numeric::Decimal;
use crate::types::SqlType;
pub(super) use read::read;

/// The width of a Roman numeral.
const ROMAN_WIDTH: usize = 15;

/// A part of a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part<'p> {
    /// `9`, or `0`.
    Digit {
        is_zero: bool,
    },
    Point,
    /// `,` and `G`
    Comma,
    Currency,
    /// `S`: as the number's own sign.
    Sign,
    /// `MI`, `PL` and `SG`: a sign of its own.
    Minus,
    Plus,
    Either,
    /// `PR`: negative numbers are in angle brackets.
    Brackets,
    Roman {
        is_small: bool,
    },
    Ordinal {
        is_small: bool,
    },
    /// `V`: the digits behind it are taken from behind the decimal point.
    Shift,
    Exponent,
    /// `FM`
    Fill,
    /// `B` and `SP`, which show nothing.
    Nothing,
    Text(&'p str),
}

/// The words of patterns; each longer word precedes its prefixes.
const WORDS: [(&str, Part<'_>); 19] = [
    ("EEEE", Part::Exponent),
    ("FM", Part::Fill),
    ("MI", Part::Minus),
    ("PL", Part::Plus),
    ("PR", Part::Brackets),
    ("RN", Part::Roman { is_small: false }),
    ("SG", Part::Either),
    ("SP", Part::Nothing),
    ("TH", Part::Ordinal { is_small: false }),
    ("S", Part::Sign),
    ("B", Part::Nothing),
    ("D", Part::Point),
    (".", Part::Point),
    ("G", Part::Comma),
    (",", Part::Comma),
    ("L", Part::Currency),
    ("V", Part::Shift),
    ("9", Part::Digit { is_zero: false }),
    ("0", Part::Digit { is_zero: true }),
];

/// Where the sign of `S` stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SignPlace {
    Before,
    Behind,
}

/// A parsed pattern.
#[derive(Default, Debug)]
struct Pattern<'p> {
    parts: Vec<Part<'p>>,
    /// Digit positions before the point, behind it, and behind a `V`.
    whole: usize,
    fraction: usize,
    shift: usize,
    /// After how many positions the first 0 is, and how many positions there are up to the last
    /// one.
    first_zero: Option<usize>,
    zeros_end: usize,
    sign: Option<SignPlace>,
    /// How many positions are before an `S`.
    before_sign: usize,
    has_point: bool,
    has_minus: bool,
    has_plus: bool,
    has_brackets: bool,
    has_shift: bool,
    is_filled: bool,
    is_roman: bool,
    is_scientific: bool,
    /// It has a part that cannot be combined with an exponent.
    is_plain: bool,
}

fn wrong(message: impl Into<String>) -> SqlError {
    SqlError::new(code::SYNTAX, message)
}

impl<'p> Pattern<'p> {
    fn read(mut text: &'p str) -> Result<Pattern<'p>, SqlError> {
        let mut pattern = Pattern::default();
        while let Some(first) = text.chars().next() {
            let (part, length) = match part_at(text) {
                Some(found) => found,
                None if first == '"' => {
                    text = pattern.quoted(&text[1..]);
                    continue;
                }
                None if text.starts_with("\\\"") => (Part::Text("\""), 2),
                None => (Part::Text(&text[..first.len_utf8()]), first.len_utf8()),
            };
            pattern.add(part)?;
            pattern.parts.push(part);
            text = &text[length..];
        }
        Ok(pattern)
    }

    /// Takes a text in quotes, and returns the rest.
    fn quoted(&mut self, text: &'p str) -> &'p str {
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            let escape = usize::from(next == '\\' && rest.len() > 1);
            rest = &rest[escape..];
            let length = rest.chars().next().map_or(0, char::len_utf8);
            let (part, behind) = rest.split_at(length);
            rest = behind;
            if escape == 0 && part == "\"" {
                break;
            }
            self.parts.push(Part::Text(part));
        }
        rest
    }

    /// Adds a part, if it can be combined with those before.
    fn add(&mut self, part: Part<'p>) -> Result<(), SqlError> {
        if self.is_scientific && !matches!(part, Part::Text(_) | Part::Exponent) {
            return Err(wrong("\"EEEE\" must be the last pattern used"));
        }
        let has_own = self.has_minus || self.has_plus;
        match part {
            Part::Digit { is_zero } => {
                if self.has_brackets {
                    let digit = if is_zero { 0 } else { 9 };
                    return Err(wrong(format!("\"{digit}\" must be ahead of \"PR\"")));
                }
                self.add_digit(is_zero);
            }
            Part::Point if self.has_point => return Err(wrong("multiple decimal points")),
            Part::Point | Part::Shift
                if self.has_point || (self.has_shift && part == Part::Point) =>
            {
                return Err(wrong("cannot use \"V\" and decimal point together"));
            }
            Part::Point => self.has_point = true,
            Part::Shift => self.has_shift = true,
            Part::Fill => self.is_filled = true,
            Part::Sign if self.sign.is_some() => return Err(wrong("cannot use \"S\" twice")),
            Part::Sign if has_own || self.has_brackets => {
                let others = "\"PL\"/\"MI\"/\"SG\"/\"PR\"";
                return Err(wrong(format!("cannot use \"S\" and {others} together")));
            }
            Part::Sign => {
                let place = if self.has_point { SignPlace::Behind } else { SignPlace::Before };
                (self.sign, self.before_sign) = (Some(place), self.whole);
            }
            Part::Minus | Part::Plus | Part::Either if self.sign.is_some() => {
                let word = match part {
                    Part::Minus => "MI",
                    Part::Plus => "PL",
                    _ => "SG",
                };
                return Err(wrong(format!("cannot use \"S\" and \"{word}\" together")));
            }
            Part::Minus | Part::Plus | Part::Either => {
                self.has_minus |= part != Part::Plus;
                self.has_plus |= part != Part::Minus;
            }
            Part::Brackets if self.sign.is_some() || has_own => {
                let others = "\"S\"/\"PL\"/\"MI\"/\"SG\"";
                return Err(wrong(format!("cannot use \"PR\" and {others} together")));
            }
            Part::Brackets => self.has_brackets = true,
            Part::Roman { .. } => self.is_roman = true,
            Part::Exponent => return self.add_exponent(),
            Part::Nothing | Part::Comma | Part::Currency | Part::Ordinal { .. } | Part::Text(_) => {
            }
        }
        self.is_plain |= matches!(
            part,
            Part::Fill | Part::Sign | Part::Brackets | Part::Minus | Part::Plus | Part::Either
        ) || matches!(part, Part::Roman { .. } | Part::Shift);
        Ok(())
    }

    fn add_digit(&mut self, is_zero: bool) {
        if is_zero && self.first_zero.is_none() && !self.has_point {
            self.first_zero = Some(self.whole);
        }
        match (self.has_shift, self.has_point) {
            (true, _) if !is_zero => self.shift += 1,
            (_, true) => self.fraction += 1,
            _ => self.whole += 1,
        }
        if is_zero {
            self.zeros_end = self.whole + self.fraction;
        }
    }

    fn add_exponent(&mut self) -> Result<(), SqlError> {
        if self.is_scientific {
            return Err(wrong("cannot use \"EEEE\" twice"));
        }
        if self.is_plain {
            let detail =
                "\"EEEE\" may only be used together with digit and decimal point patterns.";
            return Err(wrong("\"EEEE\" is incompatible with other formats").detail(detail));
        }
        self.is_scientific = true;
        Ok(())
    }
}

/// The word that a text begins with, in upper or lower case, and its length.
fn part_at(text: &str) -> Option<(Part<'static>, usize)> {
    let is_small = |word: &str| text.starts_with(&*word.to_ascii_lowercase());
    let found = WORDS.iter().find(|(word, _)| text.starts_with(word) || is_small(word))?;
    let part = match (found.1, text.starts_with(found.0)) {
        (Part::Roman { .. }, false) => Part::Roman { is_small: true },
        (Part::Ordinal { .. }, false) => Part::Ordinal { is_small: true },
        (part, _) => part,
    };
    Some((part, found.0.len()))
}

/// Marks an integer of 32 bits, whose `EEEE` is that of the float, so halves go to the even digit.
pub(crate) const INTEGER: u8 = u8::MAX;

/// A number by a pattern. `digits` is the number of digits that a float shows at most, or
/// [`INTEGER`].
pub(super) fn show(value: &Datum, pattern: &str, digits: u8) -> Result<String, SqlError> {
    let mut pattern = Pattern::read(pattern)?;
    if pattern.is_scientific {
        let float = (digits == INTEGER).then(|| Datum::Float(value.to_f64()));
        return scientific(float.as_ref().unwrap_or(value), &pattern);
    }
    if pattern.is_roman {
        let whole = match value {
            Datum::Float(value) => value.round_ties_even() as i64,
            value => convert(value.clone(), SqlType::Int4, true)?.as_int().unwrap_or(0),
        };
        return Ok(Writer::new(&pattern, &roman(whole), false, 0).all(&pattern));
    }
    let shown = match value {
        Datum::Float(value) => binary_digits(*value, &mut pattern, digits.into()),
        value => exact_digits(&value.to_decimal(), &pattern)?,
    };
    let (is_negative, shown) = match shown.strip_prefix('-') {
        Some(shown) => (true, shown.to_owned()),
        None => (false, shown),
    };
    let places = pattern.whole + pattern.shift;
    let whole = shown.find('.').unwrap_or(shown.len());
    let fits = whole <= places;
    let shown = match fits {
        true => shown,
        false => format!("{}.{}", "#".repeat(places), "#".repeat(pattern.fraction)),
    };
    let blanks = places.saturating_sub(whole);
    Ok(Writer::new(&pattern, &shown, is_negative, blanks).all(&pattern))
}

fn exact_digits(value: &Decimal, pattern: &Pattern<'_>) -> Result<String, SqlError> {
    let shifted = match pattern.shift {
        0 => value.clone(),
        digits => value.times(&unit(digits)?)?,
    };
    Ok(shifted.rescale(pattern.fraction as i64)?.to_string())
}

/// Ten to the power of `digits`.
fn unit(digits: usize) -> Result<Decimal, SqlError> {
    Decimal::parse(&format!("1e{digits}")).ok_or_else(crate::numeric::overflow)
}

/// The digits of a float, which has `digits` significant ones: the pattern loses the positions
/// behind the point that exceed them.
fn binary_digits(value: f64, pattern: &mut Pattern<'_>, digits: usize) -> String {
    let shifted = value * 10f64.powi(pattern.shift as i32);
    let written = |value: f64, places: usize| match value.is_finite() {
        true => format!("{value:.places$}"),
        false => crate::text::format(&Datum::Float(value), SqlType::Float8).into_owned(),
    };
    let whole = written(shifted.abs(), 0).len();
    pattern.fraction = pattern.fraction.min(digits.saturating_sub(whole));
    written(shifted, pattern.fraction)
}

/// `EEEE`: one digit before the point, and an exponent.
fn scientific(value: &Datum, pattern: &Pattern<'_>) -> Result<String, SqlError> {
    let exact = value.to_decimal();
    let shown = match value {
        Datum::Float(value) if value.is_finite() => {
            let shown = format!("{value:.*e}", pattern.fraction);
            let (digits, exponent) = shown.split_once('e').unwrap_or((&shown, "0"));
            let exponent: i64 = exponent.parse().unwrap_or(0);
            with_exponent(digits, exponent)
        }
        _ if !exact.is_finite() => {
            let hidden = "#".repeat(pattern.fraction + 4);
            return Ok(format!(" {}.{hidden}", "#".repeat(pattern.whole)));
        }
        _ => {
            let (digits, exponent) = exact.scientific(pattern.fraction as i64)?;
            with_exponent(&digits.to_string(), exponent)
        }
    };
    Ok(if shown.starts_with('-') { shown } else { format!(" {shown}") })
}

fn with_exponent(digits: &str, exponent: i64) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

fn roman(number: i64) -> String {
    const LETTERS: [(i64, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    if !(1..=3999).contains(&number) {
        return "#".repeat(ROMAN_WIDTH);
    }
    let (mut shown, mut rest) = (String::new(), number);
    for (value, letters) in LETTERS {
        while rest >= value {
            shown.push_str(letters);
            rest -= value;
        }
    }
    shown
}

/// Appends the output of the parts.
struct Writer<'w> {
    pattern: &'w Pattern<'w>,
    /// The digits with the decimal point among them, without a sign, and the index of the next.
    digits: &'w [u8],
    next: usize,
    is_negative: bool,
    /// How many positions are before the first digit, and the current position.
    blanks: usize,
    place: usize,
    sign: Option<SignPlace>,
    has_brackets: bool,
    is_signed: bool,
    /// The last digit that is shown, if trailing zeros are not.
    last: Option<usize>,
    /// Whether the last position had a digit.
    is_inside: bool,
    /// There was a position without a digit for it: PostgreSQL shows nothing from there on.
    is_over: bool,
    out: String,
}

impl<'w> Writer<'w> {
    fn new(
        pattern: &'w Pattern<'w>,
        digits: &'w str,
        is_negative: bool,
        blanks: usize,
    ) -> Writer<'w> {
        let has_own = pattern.has_minus || pattern.has_plus;
        let mut writer = Writer {
            pattern,
            digits: digits.as_bytes(),
            next: 0,
            is_negative,
            blanks,
            place: 0,
            sign: pattern.sign,
            has_brackets: pattern.has_brackets,
            is_signed: false,
            last: None,
            is_inside: false,
            is_over: false,
            out: String::new(),
        };
        if has_own {
            writer.is_signed = pattern.has_minus;
        } else {
            writer.has_brackets &= is_negative || !pattern.is_filled;
            writer.is_signed = !is_negative && pattern.is_filled && pattern.sign.is_none();
            let places = pattern.whole + pattern.shift;
            if pattern.sign == Some(SignPlace::Before) && places == pattern.before_sign {
                writer.sign = Some(SignPlace::Behind);
            }
        }
        if pattern.is_filled && pattern.has_point {
            writer.last = writer.last_shown();
        }
        writer
    }

    /// The last digit behind the point that is not zero, or is at a `0` of the pattern; otherwise
    /// the point.
    fn last_shown(&self) -> Option<usize> {
        let point = self.digits.iter().position(|digit| *digit == b'.')?;
        let last = self.digits.iter().rposition(|digit| *digit != b'0').unwrap_or(0).max(point);
        let zeros_end = self.pattern.zeros_end;
        if zeros_end <= self.blanks {
            return Some(last);
        }
        Some(last.max((zeros_end - self.blanks).min(self.digits.len() - 1)))
    }

    fn all(mut self, pattern: &Pattern<'_>) -> String {
        for part in &pattern.parts {
            self.part(*part);
            if self.is_over {
                break;
            }
        }
        self.out
    }

    fn part(&mut self, part: Part<'_>) {
        let is_filled = self.pattern.is_filled;
        match part {
            Part::Digit { .. } | Part::Point if self.pattern.is_roman => {}
            Part::Digit { .. } | Part::Point => self.digit(part),
            Part::Comma if self.is_inside => self.out.push(','),
            Part::Comma if is_filled => {}
            Part::Comma | Part::Currency => self.out.push(' '),
            Part::Minus if self.is_negative => self.out.push('-'),
            Part::Plus if !self.is_negative && !self.pattern.is_roman => self.out.push('+'),
            Part::Minus | Part::Plus if is_filled => {}
            Part::Minus | Part::Plus => self.out.push(' '),
            Part::Either if self.pattern.is_roman => self.is_over = true,
            Part::Either => self.out.push(if self.is_negative { '-' } else { '+' }),
            Part::Roman { is_small } => self.roman(is_small),
            Part::Ordinal { is_small } => self.ordinal(is_small),
            Part::Text(text) => self.out.push_str(text),
            Part::Sign | Part::Brackets | Part::Shift | Part::Exponent => {}
            Part::Fill | Part::Nothing => {}
        }
    }

    fn roman(&mut self, is_small: bool) {
        let digits = String::from_utf8_lossy(self.digits);
        let shown = if is_small { digits.to_lowercase() } else { digits.into_owned() };
        let width = if self.pattern.is_filled { 0 } else { ROMAN_WIDTH };
        self.out.push_str(&format!("{shown:>width$}"));
    }

    fn ordinal(&mut self, is_small: bool) {
        let hidden = self.digits.first() == Some(&b'#') || self.pattern.has_point;
        if hidden || self.is_negative || self.pattern.is_roman {
            return;
        }
        let before = self.digits.len().checked_sub(2).map(|at| self.digits[at]);
        let shown = match self.digits.last() {
            _ if before == Some(b'1') => "th",
            Some(b'1') => "st",
            Some(b'2') => "nd",
            Some(b'3') => "rd",
            _ => "th",
        };
        self.out.push_str(&if is_small { shown.to_owned() } else { shown.to_uppercase() });
    }

    /// True at a zero before the point that the pattern does not require: `.5` for 0.5.
    fn is_hidden_zero(&self) -> bool {
        self.pattern.first_zero.is_none()
            && self.next == 0
            && self.digits.first() == Some(&b'0')
            && self.pattern.fraction > 0
    }

    /// True if no digits are left behind the point.
    fn ends_at_point(&self) -> bool {
        self.last.is_some_and(|last| self.digits[last] == b'.')
    }

    fn begins_here(&self) -> bool {
        self.place >= self.blanks || self.pattern.first_zero == Some(self.place)
    }

    fn digit(&mut self, part: Part<'_>) {
        self.is_inside = false;
        if !self.is_signed && self.begins_here() && (!self.is_hidden_zero() || self.ends_at_point())
        {
            self.own_sign();
        }
        let is_zero = self.pattern.first_zero.is_some_and(|first| first <= self.place);
        if self.place >= self.blanks {
            self.next_digit(part);
        } else if is_zero {
            self.out.push('0');
            self.is_inside = true;
        } else if !self.pattern.is_filled {
            self.out.push(' ');
        }
        if !self.is_over {
            self.closing_sign();
        }
        self.place += 1;
    }

    /// The sign of the number, where it is before it.
    fn own_sign(&mut self) {
        match (self.sign, self.has_brackets) {
            (Some(SignPlace::Behind), _) => return,
            (Some(SignPlace::Before), _) => {
                self.out.push(if self.is_negative { '-' } else { '+' });
            }
            (None, true) => self.out.push(if self.is_negative { '<' } else { ' ' }),
            (None, false) if self.is_negative => self.out.push('-'),
            (None, false) if self.pattern.is_filled => {}
            (None, false) => self.out.push(' '),
        }
        self.is_signed = true;
    }

    fn next_digit(&mut self, part: Part<'_>) {
        let Some(digit) = self.digits.get(self.next) else {
            self.is_over = true;
            return;
        };
        let is_cut = self.last.is_some_and(|last| self.next > last);
        if *digit == b'.' {
            self.out.push('.');
        } else if is_cut && part != (Part::Digit { is_zero: true }) {
            // A trailing zero.
        } else if !self.is_hidden_zero() {
            self.out.push(char::from(*digit));
            self.is_inside = true;
        } else if !self.pattern.is_filled {
            self.out.push(' ');
        } else if self.ends_at_point() {
            self.out.push('0');
        }
        self.next += 1;
    }

    /// Writes the sign or bracket behind the last digit.
    fn closing_sign(&mut self) {
        let pattern = self.pattern;
        let places = pattern.whole + pattern.shift + pattern.fraction;
        let mut end = places + usize::from(pattern.has_point);
        if self.last.is_some_and(|last| last == self.next) {
            end = self.place;
        }
        if self.place + 1 != end {
            return;
        }
        if self.has_brackets && self.is_signed {
            self.out.push(if self.is_negative { '>' } else { ' ' });
        } else if self.sign == Some(SignPlace::Behind) {
            self.out.push(if self.is_negative { '-' } else { '+' });
        }
    }
}
