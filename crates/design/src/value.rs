//! Column types and the values they hold.

use crate::{numeric_code, timestamp};
use std::fmt;

/// The most digits after the point of a decimal: an `i128` has 38 digits.
pub const DECIMAL_SCALE_MAX: u8 = 38;

/// The encoding of the decimal NaN: greater than all numbers, because 38 digits cannot reach it.
pub const DECIMAL_NAN: i128 = i128::MAX;

/// The type of a column.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// Whole numbers of 64 bits with a sign.
    Int64,
    /// Binary floating point numbers of 64 bits. Keys hold neither NaN nor a negative zero, whose
    /// sign is in the row.
    Float64,
    /// Exact numbers with `scale` digits after the point.
    Decimal {
        /// Digits after the point, at most [`DECIMAL_SCALE_MAX`].
        scale: u8,
    },
    /// Exact numbers of any length, infinities and NaN. Rows keep the digits after the point as
    /// written; keys keep the number only.
    Numeric,
    /// True or false.
    Bool,
    /// Unicode text, in the order of its UTF-8 bytes.
    Text,
    /// Bytes.
    Bytes,
    /// Microseconds since the start of 1970, UTC.
    Timestamp,
    /// Days since the start of 1970: numbers that are written as dates.
    Date,
}

/// One value of a row.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// No value; never in a key.
    Null,
    /// Of a [`ColumnType::Int64`] or a [`ColumnType::Date`].
    Int64(i64),
    /// Of a [`ColumnType::Float64`].
    Float64(f64),
    /// Of a [`ColumnType::Decimal`]: the number times ten to the column's scale.
    Decimal(i128),
    /// Of a [`ColumnType::Bool`].
    Bool(bool),
    /// Of a [`ColumnType::Text`], or the digits of a [`ColumnType::Numeric`]: `12.50`, `NaN`,
    /// `-Infinity`.
    Text(String),
    /// Of a [`ColumnType::Bytes`].
    Bytes(Vec<u8>),
    /// Of a [`ColumnType::Timestamp`]: microseconds since the start of 1970, UTC.
    Timestamp(i64),
}

impl Value {
    /// The kind of the value, in a word.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Int64(_) => "int64",
            Value::Float64(_) => "float64",
            Value::Decimal(_) => "decimal",
            Value::Bool(_) => "bool",
            Value::Text(_) => "text",
            Value::Bytes(_) => "bytes",
            Value::Timestamp(_) => "timestamp",
        }
    }
}

impl ColumnType {
    /// True if a column of this type may hold `value`. False for NULL, because that depends on the
    /// column.
    pub fn accepts(self, value: &Value) -> bool {
        if let (ColumnType::Numeric, Value::Text(digits)) = (self, value) {
            return numeric_code::is_number(digits);
        }
        matches!(
            (self, value),
            (ColumnType::Int64 | ColumnType::Date, Value::Int64(_))
                | (ColumnType::Float64, Value::Float64(_))
                | (ColumnType::Decimal { .. }, Value::Decimal(_))
                | (ColumnType::Bool, Value::Bool(_))
                | (ColumnType::Text, Value::Text(_))
                | (ColumnType::Bytes, Value::Bytes(_))
                | (ColumnType::Timestamp, Value::Timestamp(_))
        )
    }

    /// An example of a value of this type, for messages: `a whole number such as 7`.
    pub fn example(self) -> &'static str {
        match self {
            ColumnType::Int64 => "a whole number such as 7",
            ColumnType::Float64 => "a number such as 0.5",
            ColumnType::Decimal { .. } | ColumnType::Numeric => "a number such as 12.50",
            ColumnType::Bool => "true or false",
            ColumnType::Text => "a text such as 'abc'",
            ColumnType::Bytes => "bytes such as x'0aff'",
            ColumnType::Timestamp => "a time such as 2020-08-31T09:30:00Z",
            ColumnType::Date => "a date such as 2020-08-31",
        }
    }

    /// Writes a value of this type as [`ColumnType::parse`] reads it: `7`, `0.5`, `12.50`, `true`,
    /// `'abc'`, `x'0aff'`, `2020-08-31T09:30:00Z`, `2020-08-31`; and `null`.
    pub fn format(self, value: &Value) -> String {
        match value {
            Value::Null => "null".to_owned(),
            Value::Int64(days) if self == ColumnType::Date => timestamp::format_date(*days),
            Value::Int64(number) => number.to_string(),
            Value::Float64(number) => format!("{number:?}"),
            Value::Decimal(mantissa) => {
                let scale = if let ColumnType::Decimal { scale } = self { scale } else { 0 };
                format_decimal(*mantissa, usize::from(scale))
            }
            Value::Bool(truth) => truth.to_string(),
            Value::Text(digits) if self == ColumnType::Numeric => digits.clone(),
            Value::Text(text) => format!("'{}'", escape(text)),
            Value::Bytes(bytes) => {
                let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("x'{digits}'")
            }
            Value::Timestamp(micros) => timestamp::format(*micros),
        }
    }

    /// Reads a value of this type, if `text` is one.
    pub fn parse(self, text: &str) -> Option<Value> {
        match self {
            ColumnType::Int64 => Some(Value::Int64(text.parse().ok()?)),
            ColumnType::Float64 => Some(Value::Float64(text.parse().ok()?)),
            ColumnType::Decimal { scale } => {
                Some(Value::Decimal(parse_decimal(text, usize::from(scale))?))
            }
            ColumnType::Numeric => {
                // Older designs have numerics as quoted texts.
                let quoted = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
                let value = Value::from(quoted.unwrap_or(text));
                self.accepts(&value).then_some(value)
            }
            ColumnType::Bool => Some(Value::Bool(text.parse().ok()?)),
            ColumnType::Text => {
                Some(Value::Text(unescape(text.strip_prefix('\'')?.strip_suffix('\'')?)?))
            }
            ColumnType::Bytes => {
                Some(Value::Bytes(parse_hex(text.strip_prefix("x'")?.strip_suffix('\'')?)?))
            }
            ColumnType::Timestamp => Some(Value::Timestamp(timestamp::parse(text)?)),
            ColumnType::Date => Some(Value::Int64(timestamp::parse_date(text)?)),
        }
    }

    /// Reads the name of a type, as it prints: `int64`, `decimal(2)`.
    pub fn parse_name(name: &str) -> Option<ColumnType> {
        Some(match name {
            "int64" => ColumnType::Int64,
            "float64" => ColumnType::Float64,
            "bool" => ColumnType::Bool,
            "text" => ColumnType::Text,
            "bytes" => ColumnType::Bytes,
            "timestamp" => ColumnType::Timestamp,
            "date" => ColumnType::Date,
            "numeric" => ColumnType::Numeric,
            _ => {
                let scale = name.strip_prefix("decimal(")?.strip_suffix(')')?;
                ColumnType::Decimal { scale: scale.parse().ok()? }
            }
        })
    }
}

fn format_decimal(mantissa: i128, scale: usize) -> String {
    if mantissa == DECIMAL_NAN {
        return "NaN".to_owned();
    }
    let sign = if mantissa < 0 { "-" } else { "" };
    let digits = format!("{:0width$}", mantissa.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let point = if scale > 0 { "." } else { "" };
    format!("{sign}{whole}{point}{fraction}")
}

fn parse_decimal(text: &str, scale: usize) -> Option<i128> {
    if text == "NaN" {
        return Some(DECIMAL_NAN);
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let spare = fraction.trim_end_matches('0');
    if !is_number(whole) || !is_number(fraction) || spare.len() > scale {
        return None;
    }
    // The sign goes in front before parsing, because the least number has no positive twin.
    let sign = if digits.len() < text.len() { "-" } else { "" };
    format!("{sign}{whole}{spare:0<scale$}").parse().ok()
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\'' | '\\' => escaped.extend(['\\', char]),
            _ if char.is_control() => escaped.extend(char.escape_default()),
            _ => escaped.push(char),
        }
    }
    escaped
}

fn unescape(escaped: &str) -> Option<String> {
    let mut text = String::with_capacity(escaped.len());
    let mut chars = escaped.chars();
    while let Some(char) = chars.next() {
        text.push(match char {
            '\'' => return None,
            '\\' => match chars.next()? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'u' => {
                    let code = chars.as_str().strip_prefix('{')?.split_once('}')?.0;
                    chars.nth(code.len() + 1)?;
                    char::from_u32(u32::from_str_radix(code, 16).ok()?)?
                }
                plain @ ('\'' | '\\') => plain,
                _ => return None,
            },
            plain => plain,
        });
    }
    Some(text)
}

/// Reads pairs of hexadecimal digits.
pub(crate) fn parse_hex(digits: &str) -> Option<Vec<u8>> {
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if !is_hex || !digits.len().is_multiple_of(2) {
        return None;
    }
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok())
        .collect()
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ColumnType::Int64 => "int64",
            ColumnType::Float64 => "float64",
            ColumnType::Decimal { scale } => return write!(f, "decimal({scale})"),
            ColumnType::Numeric => "numeric",
            ColumnType::Bool => "bool",
            ColumnType::Text => "text",
            ColumnType::Bytes => "bytes",
            ColumnType::Timestamp => "timestamp",
            ColumnType::Date => "date",
        })
    }
}

impl fmt::Debug for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Int64(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Float64(number)
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Value {
        Value::Bool(truth)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Value {
        Value::Bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_print_and_come_back() {
        let decimal = ColumnType::Decimal { scale: 2 };
        let cases = [
            (ColumnType::Int64, Value::Int64(i64::MIN), "-9223372036854775808"),
            (ColumnType::Float64, Value::Float64(1e300), "1e300"),
            (ColumnType::Float64, Value::Float64(f64::NEG_INFINITY), "-inf"),
            (decimal, Value::Decimal(-5), "-0.05"),
            (decimal, Value::Decimal(1250), "12.50"),
            (decimal, Value::Decimal(i128::MIN), "-1701411834604692317316873037158841057.28"),
            (ColumnType::Decimal { scale: 0 }, Value::Decimal(7), "7"),
            (decimal, Value::Decimal(DECIMAL_NAN), "NaN"),
            (ColumnType::Numeric, Value::from("-12.50"), "-12.50"),
            (ColumnType::Numeric, Value::from("-Infinity"), "-Infinity"),
            (ColumnType::Bool, Value::Bool(true), "true"),
            (ColumnType::Text, Value::from("it's a \\\n\u{7}ü"), r"'it\'s a \\\n\u{7}ü'"),
            (ColumnType::Bytes, Value::from(vec![0, 255]), "x'00ff'"),
            (ColumnType::Timestamp, Value::Timestamp(0), "1970-01-01T00:00:00Z"),
            (ColumnType::Date, Value::Int64(19_723), "2024-01-01"),
            (ColumnType::Date, Value::Int64(i64::MAX), "9223372036854775807"),
        ];
        for (ty, value, text) in cases {
            assert_eq!(ty.format(&value), text);
            assert_eq!(ty.parse(text), Some(value), "{text}");
            assert_eq!(ColumnType::parse_name(&ty.to_string()), Some(ty));
        }
    }

    #[test]
    fn decimals_may_leave_out_zeros_but_not_lose_digits() {
        let parse = |text| parse_decimal(text, 2);
        assert_eq!([parse("7"), parse("7.5"), parse("7.500")], [Some(700), Some(750), Some(750)]);
        let wrong = [
            "7.501",
            "",
            "-",
            ".5",
            "5.",
            "1.-1",
            "--1",
            "999999999999999999999999999999999999999",
        ];
        assert_eq!(wrong.map(parse), [None; 8]);
    }

    #[test]
    fn damaged_literals_are_refused() {
        for text in ["'", "'a", "a'", r"'\'", r"'\q'", r"'\u{'", r"'\u{d800}'", "'a'b'", ""] {
            assert_eq!(ColumnType::Text.parse(text), None, "{text}");
        }
        for text in ["x'", "x'0'", "x'0g'", "x'é'", "'00'"] {
            assert_eq!(ColumnType::Bytes.parse(text), None, "{text}");
        }
    }
}
