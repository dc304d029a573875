//! Reading: a text is checked and becomes a JSON value.
//!
//! The grammar is `serde_json`'s, which checks a text without building a tree. The stored form of a
//! `jsonb` is then written in one pass. Values are copied in their order, and the members of an
//! object are sorted at its closing brace.

use super::{end_of_string, is_blank, key_order, quote, trimmed, unquoted};
use crate::error::{SqlError, clipped, code};
use serde::de::IgnoredAny;

/// How deep a value may be nested: functions that descend into it are recursive.
const LEVELS_MAX: usize = 1_000;
/// How many digits a number may have before the point, as PostgreSQL's `numeric`; it also bounds
/// the digits behind it.
const WHOLE_DIGITS_MAX: i64 = 131_072;
const FRACTION_DIGITS_MAX: i64 = 16_383;
/// How many zeros the exponents of a value may expand to, all together.
const ZEROS_MAX: usize = 1 << 20;

/// Checks that a text is JSON.
///
/// # Errors
/// 22P02 if it is not, 54001 if it is nested too deeply.
pub(crate) fn check(text: &str) -> Result<(), SqlError> {
    if levels(text) > LEVELS_MAX {
        let message = format!("JSON nests too deeply: {LEVELS_MAX} levels are possible");
        return Err(SqlError::new(code::TOO_COMPLEX, message));
    }
    serde_json::from_str::<IgnoredAny>(text).map(drop).map_err(|wrong| {
        let message = "invalid input syntax for type json";
        SqlError::new(code::INVALID_TEXT, message).detail(format!("{wrong}: {}", clipped(text)))
    })
}

/// The largest number of open brackets, outside of strings.
fn levels(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut open, mut most) = (0, 0usize, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at = end_of_string(bytes, at);
                continue;
            }
            b'[' | b'{' => open += 1,
            b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
        at += 1;
    }
    most
}

/// Converts a text into the canonical form of `jsonb`. That takes less than eight times the text,
/// plus [`ZEROS_MAX`].
///
/// # Errors
/// As [`check`]; 22P02 and 22P05 for strings that cannot be decoded, 22003 for a number with too
/// many digits, 54000 for exponents that expand to too many zeros.
pub(crate) fn canonical(text: &str) -> Result<String, SqlError> {
    check(text)?;
    let text = trimmed(text);
    let mut writer = Writer { text, at: 0, out: String::with_capacity(text.len()), zeros: 0 };
    writer.value()?;
    Ok(writer.out)
}

struct Writer<'t> {
    text: &'t str,
    at: usize,
    out: String,
    /// How many zeros exponents have expanded to.
    zeros: usize,
}

impl<'t> Writer<'t> {
    /// The next character that is not a blank.
    fn sign(&mut self) -> u8 {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(|byte| is_blank(*byte)) {
            self.at += 1;
        }
        bytes.get(self.at).copied().unwrap_or(0)
    }

    /// Passes over this character if it is next; true if it was.
    fn skips(&mut self, sign: u8) -> bool {
        let is_next = self.sign() == sign;
        self.at += usize::from(is_next);
        is_next
    }

    fn value(&mut self) -> Result<(), SqlError> {
        match self.sign() {
            b'{' => self.object(),
            b'[' => self.array(),
            b'"' => {
                let string = self.string();
                quote(&unquoted(string)?, &mut self.out);
                Ok(())
            }
            _ => {
                let from = self.at;
                let is_end = |byte: u8| is_blank(byte) || matches!(byte, b',' | b'}' | b']');
                let length = self.text.as_bytes()[from..].iter().position(|byte| is_end(*byte));
                self.at = length.map_or(self.text.len(), |length| from + length);
                match &self.text[from..self.at] {
                    word @ ("true" | "false" | "null") => {
                        self.out.push_str(word);
                        Ok(())
                    }
                    digits => self.number(digits),
                }
            }
        }
    }

    /// A string in its quotes.
    fn string(&mut self) -> &'t str {
        let from = self.at;
        self.at = end_of_string(self.text.as_bytes(), from);
        &self.text[from..self.at]
    }

    fn array(&mut self) -> Result<(), SqlError> {
        self.at += 1;
        self.out.push('[');
        let mut is_first = true;
        while !self.skips(b']') {
            if !std::mem::take(&mut is_first) {
                self.skips(b',');
                self.out.push_str(", ");
            }
            self.value()?;
        }
        self.out.push(']');
        Ok(())
    }

    fn object(&mut self) -> Result<(), SqlError> {
        self.at += 1;
        self.out.push('{');
        // Where each member begins.
        let (mut starts, mut is_sorted) = (Vec::new(), true);
        while !self.skips(b'}') {
            let before = starts.last().copied();
            if before.is_some() {
                self.skips(b',');
                self.sign();
                self.out.push_str(", ");
            }
            let key = unquoted(self.string())?;
            let at = self.out.len();
            quote(&key, &mut self.out);
            if let Some(before) = before {
                is_sorted &= key_order(&self.out[before..], &self.out[at..])?.is_lt();
            }
            self.out.push_str(": ");
            self.skips(b':');
            self.value()?;
            starts.push(at);
        }
        if !is_sorted {
            self.sort(&starts);
        }
        self.out.push('}');
        Ok(())
    }

    /// Sorts the members of an object that begin here; of those with the same key, the last stays.
    fn sort(&mut self, starts: &[usize]) {
        let end = |at: usize| starts.get(at + 1).map_or(self.out.len(), |next| next - 2);
        let mut order: Vec<usize> = (0..starts.len()).collect();
        let by_key = |a: &usize, b: &usize| {
            let order = key_order(&self.out[starts[*a]..], &self.out[starts[*b]..]);
            order.expect("keys that were written can be read")
        };
        order.sort_by(by_key);
        let mut sorted = String::with_capacity(self.out.len() - starts[0]);
        for (place, &at) in order.iter().enumerate() {
            if order.get(place + 1).is_some_and(|next| by_key(&at, next).is_eq()) {
                continue;
            }
            sorted.push_str(if sorted.is_empty() { "" } else { ", " });
            sorted.push_str(&self.out[starts[at]..end(at)]);
        }
        self.out.truncate(starts[0]);
        self.out.push_str(&sorted);
    }

    /// A number without an exponent, and with its trailing zeros behind the point.
    fn number(&mut self, written: &str) -> Result<(), SqlError> {
        let (mantissa, exponent) = match written.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => {
                // An exponent that does not fit 64 bits is out of range in any case.
                let far = if exponent.starts_with('-') { i64::MIN / 4 } else { i64::MAX / 4 };
                (mantissa, exponent.parse::<i64>().unwrap_or(far))
            }
            None => (written, 0),
        };
        let unsigned = mantissa.strip_prefix('-').unwrap_or(mantissa);
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let is_zero = !unsigned.contains(|c| ('1'..='9').contains(&c));
        let scale = (fraction.len() as i64).saturating_sub(exponent).max(0);
        // The position of the point among the digits.
        let point = if is_zero { 1 } else { (whole.len() as i64).saturating_add(exponent) };
        if scale > FRACTION_DIGITS_MAX || point > WHOLE_DIGITS_MAX {
            return Err(SqlError::new(code::OUT_OF_RANGE, "value overflows numeric format"));
        }
        if exponent == 0 {
            let shown = if is_zero { unsigned } else { mantissa };
            self.out.push_str(shown);
            return Ok(());
        }
        let digits = [whole, fraction].concat();
        let digits = if is_zero { "0" } else { &*digits };
        self.zeros += (point.max(0) + scale) as usize;
        if self.zeros > ZEROS_MAX {
            let message = format!("numbers with exponents stand for more than {ZEROS_MAX} digits");
            return Err(SqlError::new(code::PROGRAM_LIMIT, message));
        }
        let (before, behind) = digits.split_at(digits.len().min(point.max(0) as usize));
        let before = format!("{before:0<width$}", width = point.max(0) as usize);
        let before = before.trim_start_matches('0');
        let sign = if mantissa.starts_with('-') && !is_zero { "-" } else { "" };
        self.out.push_str(sign);
        self.out.push_str(if before.is_empty() { "0" } else { before });
        if scale > 0 {
            let missing = if is_zero { 0 } else { (-point).max(0) as usize };
            let behind = format!("{:0<missing$}{behind}", "");
            self.out.push('.');
            self.out.push_str(&format!("{behind:0<width$}", width = scale as usize));
        }
        Ok(())
    }
}
