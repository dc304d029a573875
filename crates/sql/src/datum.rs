//! Values at run time.
//!
//! A few shapes serve all SQL types: integers of every size have one, and a date is the number of
//! its day. The type is known from the context, so a value does not carry it. [`convert`], which
//! checks ranges and lengths, and the codecs tell types apart.
//!
//! **Order.** `compare` orders values that are not NULL, and compares numbers of all shapes by
//! value; `order` adds NULL, last. For values of one type, equality and hash agree with it, so that
//! a group does not depend on the notation of its key.

use crate::dates::TIMESTAMP_DAYS;
use crate::error::{SqlError, clipped, code};
use crate::fields::Fields;
use crate::interval::Interval;
use crate::numeric::Decimal;
use crate::row_value::RowValue;
use crate::types::{Family, SqlType};
use isomer_design::{ColumnType, DECIMAL_NAN, Value};
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// A value. Its type is known from the context.
#[derive(Clone, Debug)]
pub enum Datum {
    /// NULL.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer; a date: days since 1970; a time of day: microseconds since midnight.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A numeric.
    Numeric(Decimal),
    /// A text. One of `char(n)` has no trailing blanks.
    Text(String),
    /// A byte string.
    Bytes(Vec<u8>),
    /// A `jsonb` in its [canonical text](crate::json). A `json` is a text.
    Json(String),
    /// Microseconds since 1970; the least and the greatest value are the infinities.
    Timestamp(i64),
    /// Microseconds since midnight, and the zone's offset from UTC in seconds.
    TimeTz(i64, i32),
    /// An interval.
    Interval(Interval),
    /// A row.
    Row(Box<RowValue>),
}

/// The microseconds of a day.
const DAY_US: i64 = 86_400_000_000;

impl Datum {
    /// True for NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Datum::Null)
    }

    /// A text.
    pub fn text(text: impl Into<String>) -> Datum {
        Datum::Text(text.into())
    }

    /// The integer, if it is one.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Datum::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Datum::Text(text) => Some(text),
            _ => None,
        }
    }

    /// True, false, or unknown.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Datum::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    /// True if both have the same representation. Equal values may differ in it: 1.0 and 1.00, 0
    /// and -0, 30 days and a month.
    pub(crate) fn is_identical(&self, other: &Datum) -> bool {
        match (self, other) {
            (Datum::Numeric(a), Datum::Numeric(b)) => a.scale() == b.scale() && a == b,
            (Datum::Float(a), Datum::Float(b)) => a.to_bits() == b.to_bits(),
            (Datum::Json(a), Datum::Json(b)) => a == b,
            (Datum::Interval(a), Datum::Interval(b)) => a == b,
            (Datum::Row(a), Datum::Row(b)) => a.is_identical(b),
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b) && a == b,
        }
    }

    /// Compares two values that are not NULL and of comparable types. NaN is above all numbers.
    pub fn compare(&self, other: &Datum) -> Ordering {
        match (self, other) {
            (Datum::Int(a), Datum::Int(b)) => a.cmp(b),
            (Datum::Text(a), Datum::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Datum::Bool(a), Datum::Bool(b)) => a.cmp(b),
            (Datum::Bytes(a), Datum::Bytes(b)) => a.cmp(b),
            (Datum::Json(a), Datum::Json(b)) => crate::json::compare(a, b),
            (Datum::Timestamp(a), Datum::Timestamp(b)) => a.cmp(b),
            (Datum::Interval(a), Datum::Interval(b)) => a.order(*b),
            (Datum::Row(a), Datum::Row(b)) => a.order(b),
            (Datum::TimeTz(a, a_ahead), Datum::TimeTz(b, b_ahead)) => {
                let sorted = |within: i64, ahead: i32| (in_utc(within, ahead), -ahead);
                sorted(*a, *a_ahead).cmp(&sorted(*b, *b_ahead))
            }
            (Datum::Timestamp(a), Datum::Int(days)) => a.cmp(&days.saturating_mul(DAY_US)),
            (Datum::Int(days), Datum::Timestamp(b)) => days.saturating_mul(DAY_US).cmp(b),
            (Datum::Float(_), _) | (_, Datum::Float(_)) => {
                float_order(self.to_f64(), other.to_f64())
            }
            (Datum::Numeric(a), Datum::Numeric(b)) => a.cmp(b),
            (Datum::Numeric(_), _) | (_, Datum::Numeric(_)) => {
                self.to_decimal().cmp(&other.to_decimal())
            }
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }

    /// An order of all values, NULL last.
    pub fn order(&self, other: &Datum) -> Ordering {
        match (self.is_null(), other.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.compare(other),
        }
    }

    /// Converts to a floating-point number.
    pub fn to_f64(&self) -> f64 {
        match self {
            Datum::Int(value) => *value as f64,
            Datum::Float(value) => *value,
            Datum::Numeric(value) => value.to_f64(),
            _ => f64::NAN,
        }
    }

    /// Converts to a numeric.
    pub fn to_decimal(&self) -> Decimal {
        match self {
            Datum::Int(value) => Decimal::int(*value),
            Datum::Numeric(value) => value.clone(),
            Datum::Float(value) => Decimal::from_f64(*value).unwrap_or(Decimal::int(0)),
            _ => Decimal::int(0),
        }
    }

    /// The scale of a numeric; 0 for other values.
    pub(crate) fn scale(&self) -> u16 {
        if let Datum::Numeric(number) = self { number.scale().unwrap_or(0) } else { 0 }
    }

    /// False for infinite and NaN numerics.
    pub(crate) fn is_finite(&self) -> bool {
        !matches!(self, Datum::Numeric(number) if !number.is_finite())
    }

    /// The approximate memory of the value.
    pub fn bytes(&self) -> usize {
        size_of::<Datum>() + self.heap_bytes()
    }

    /// The part of that memory on the heap.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Datum::Text(text) | Datum::Json(text) => text.len(),
            Datum::Bytes(bytes) => bytes.len(),
            Datum::Numeric(value) => value.heap_bytes(),
            Datum::Row(row) => row.heap_bytes(),
            _ => 0,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Datum::Null => 0,
            Datum::Bool(_) => 1,
            Datum::Int(_) | Datum::Float(_) | Datum::Numeric(_) => 2,
            Datum::Text(_) => 3,
            Datum::Bytes(_) => 4,
            Datum::Timestamp(_) => 5,
            Datum::Json(_) => 6,
            Datum::TimeTz(..) => 7,
            Datum::Interval(_) => 8,
            Datum::Row(_) => 9,
        }
    }

    /// The store's form in a column of a type, for a value that fits the type.
    pub fn into_value(self, ty: SqlType) -> Value {
        match self {
            Datum::Null => Value::Null,
            Datum::Bool(truth) => Value::Bool(truth),
            Datum::Int(value) => Value::Int64(value),
            Datum::Float(value) => Value::Float64(value),
            Datum::Numeric(value) => stored_number(&value, ty),
            Datum::Text(text) | Datum::Json(text) => Value::Text(text),
            Datum::Bytes(bytes) => Value::Bytes(bytes),
            Datum::Timestamp(micros) => Value::Timestamp(micros),
            Datum::TimeTz(within, ahead) => Value::Bytes(time_bytes(within, ahead)),
            Datum::Interval(span) => Value::Bytes(span.bytes().to_vec()),
            Datum::Row(row) => Value::Text(row.shown(None)),
        }
    }

    /// From the store's form in a column of a type.
    pub fn from_value(value: Value, ty: SqlType) -> Datum {
        match (value, ty.plain()) {
            (Value::Null, _) => Datum::Null,
            (Value::Bool(truth), _) => Datum::Bool(truth),
            (Value::Int64(value), _) => Datum::Int(value),
            (Value::Float64(value), _) => Datum::Float(value),
            (Value::Decimal(DECIMAL_NAN), _) => Datum::Numeric(Decimal::NAN),
            (Value::Decimal(mantissa), SqlType::Numeric(Some((_, scale)))) => {
                Datum::Numeric(Decimal::new(mantissa, u16::try_from(scale).unwrap_or(0)))
            }
            (Value::Decimal(mantissa), _) => Datum::Numeric(Decimal::new(mantissa, 0)),
            (Value::Text(text), SqlType::Numeric(_)) => {
                Decimal::parse(&text).map_or(Datum::Null, Datum::Numeric)
            }
            (Value::Text(text), SqlType::Jsonb) => Datum::Json(text),
            (Value::Text(text), _) => Datum::Text(text),
            (Value::Bytes(bytes), SqlType::TimeTz) => time_of_bytes(&bytes),
            (Value::Bytes(bytes), SqlType::Interval) => {
                Interval::of_bytes(&bytes).map_or(Datum::Null, Datum::Interval)
            }
            (Value::Bytes(bytes), _) => Datum::Bytes(bytes),
            (Value::Timestamp(micros), _) => Datum::Timestamp(micros),
        }
    }
}

/// A time of day with a zone, in UTC.
fn in_utc(within: i64, ahead: i32) -> i64 {
    within - i64::from(ahead) * 1_000_000
}

/// The store's form of a time of day with a zone, in the order of these times.
fn time_bytes(within: i64, ahead: i32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(12);
    bytes.extend(((in_utc(within, ahead) as u64) ^ (1 << 63)).to_be_bytes());
    bytes.extend(((-ahead) as u32 ^ (1 << 31)).to_be_bytes());
    bytes
}

fn time_of_bytes(bytes: &[u8]) -> Datum {
    let Some((utc, behind)) = bytes.split_first_chunk::<8>() else { return Datum::Null };
    let Ok(behind) = <[u8; 4]>::try_from(behind) else { return Datum::Null };
    let utc = (u64::from_be_bytes(*utc) ^ (1 << 63)) as i64;
    let ahead = -((u32::from_be_bytes(behind) ^ (1 << 31)) as i32);
    Datum::TimeTz(utc + i64::from(ahead) * 1_000_000, ahead)
}

fn float_order(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// Equal as in DISTINCT and GROUP BY: NULL is equal to NULL.
impl PartialEq for Datum {
    fn eq(&self, other: &Datum) -> bool {
        self.order(other) == Ordering::Equal
    }
}

impl Eq for Datum {}

impl Hash for Datum {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Datum::Null => state.write_u8(0),
            Datum::Bool(truth) => truth.hash(state),
            // Equal exact numbers must have one hash, whatever their shape. Floats meet floats
            // only.
            Datum::Int(value) => Decimal::int(*value).hash(state),
            Datum::Numeric(value) => value.hash(state),
            Datum::Float(value) => {
                let value = value + 0.0;
                let bits = if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() };
                state.write_u64(bits);
            }
            Datum::Text(text) => text.hash(state),
            Datum::Bytes(bytes) => bytes.hash(state),
            Datum::Json(json) => crate::json::hash(json, state),
            Datum::Timestamp(micros) => state.write_u64((*micros as f64).to_bits()),
            Datum::TimeTz(within, ahead) => {
                state.write_i64(*within);
                state.write_i32(*ahead);
            }
            Datum::Interval(span) => state.write_i128(span.length()),
            Datum::Row(row) => row.hash(state),
        }
    }
}

/// Converts a value to a type. `explicit`: an explicit cast, which may truncate a text; otherwise a
/// value that does not fit is an error.
///
/// # Errors
/// 22003, 22001, 22P02 and others, depending on the fault.
pub fn convert(value: Datum, to: SqlType, explicit: bool) -> Result<Datum, SqlError> {
    if let SqlType::Rounded(of, digits) = to {
        return Ok(rounded(convert(value, *of, explicit)?, digits));
    }
    if let SqlType::Spanned(fields, digits) = to {
        return Ok(match value {
            Datum::Text(text) => crate::text::parse(&text, to)?,
            value => spanned(convert(value, SqlType::Interval, explicit)?, fields, digits),
        });
    }
    if let SqlType::Limited(..) = to {
        return limited(convert(value, to.plain(), explicit)?, to, explicit);
    }
    match (value, to) {
        (Datum::Null, _) => Ok(Datum::Null),
        (value, SqlType::Unknown) => Ok(value),
        (Datum::Text(text), to) => text_to(text, to, explicit),
        (Datum::Json(json), SqlType::Jsonb) => Ok(Datum::Json(json)),
        (Datum::Json(json), SqlType::Json) => Ok(Datum::Text(json)),
        (value, to) if to.family() == Family::Text => {
            // The value's own type determines its text.
            let text = crate::text::format(&value, natural_type(&value)).into_owned();
            text_to(text, to, explicit)
        }
        (Datum::Json(json), to) => json_to(&json, to),
        (Datum::Int(within), SqlType::Time) => Ok(Datum::Int(within)),
        (Datum::Int(within), SqlType::Interval) => Ok(Datum::Interval(Interval::micros(within))),
        (value @ (Datum::Int(_) | Datum::Float(_) | Datum::Numeric(_)), to) => number_to(value, to),
        (Datum::TimeTz(within, ahead), SqlType::TimeTz) => Ok(Datum::TimeTz(within, ahead)),
        (Datum::TimeTz(within, _), SqlType::Time) => Ok(Datum::Int(within)),
        (Datum::Interval(span), SqlType::Interval) => Ok(Datum::Interval(span)),
        (Datum::Row(row), SqlType::Record) => Ok(Datum::Row(row)),
        (Datum::Interval(span), SqlType::Time) => Ok(Datum::Int(span.micros.rem_euclid(DAY_US))),
        (Datum::Timestamp(micros), SqlType::Time) => Ok(Datum::Int(micros.rem_euclid(DAY_US))),
        (Datum::Timestamp(micros @ (i64::MIN | i64::MAX)), SqlType::Date) => Ok(Datum::Int(micros)),
        (Datum::Bool(truth), SqlType::Bool) => Ok(Datum::Bool(truth)),
        (Datum::Bool(truth), SqlType::Int4 | SqlType::Int8) if explicit => {
            Ok(Datum::Int(i64::from(truth)))
        }
        (Datum::Timestamp(micros), SqlType::Timestamp | SqlType::TimestampTz) => {
            Ok(Datum::Timestamp(micros))
        }
        (Datum::Timestamp(micros), SqlType::Date) => Ok(Datum::Int(micros.div_euclid(DAY_US))),
        (Datum::Bytes(bytes), SqlType::Bytea | SqlType::Uuid | SqlType::Enum(_)) => {
            Ok(Datum::Bytes(bytes))
        }
        (value, to) => {
            let message = format!("cannot cast type {} to {to}", natural_type(&value));
            Err(SqlError::new(code::CANNOT_COERCE, message))
        }
    }
}

/// Converts the elements of an array to the modifier of the array's type; an explicit cast
/// truncates texts.
fn limited(value: Datum, to: SqlType, explicit: bool) -> Result<Datum, SqlError> {
    let (Datum::Text(array), Some(element)) = (&value, to.element()) else { return Ok(value) };
    let mut written = crate::array::Writer::like(array);
    for value in crate::array::values(array, crate::bind::bare(element)) {
        let value = convert(value?, element, explicit)?;
        let text = (!value.is_null()).then(|| crate::text::format(&value, element));
        written.push(text.as_deref());
    }
    Ok(Datum::Text(written.end()))
}

/// An interval without the parts below its fields, rounded to its digits of seconds.
pub(crate) fn spanned(value: Datum, fields: Fields, digits: Option<u8>) -> Datum {
    let value = match value {
        Datum::Interval(span) => Datum::Interval(span.within(fields)),
        other => other,
    };
    digits.map_or(value.clone(), |digits| rounded(value, digits))
}

/// Rounds a time or an interval to a precision; halves are rounded away from the beginning of 2000,
/// or from zero.
pub(crate) fn rounded(value: Datum, digits: u8) -> Datum {
    const EPOCH_US: i64 = 946_684_800_000_000;
    let unit = 10i64.pow(6 - u32::from(digits.min(6)));
    let round = |micros: i64| {
        let magnitude = micros.unsigned_abs().saturating_add(unit as u64 / 2);
        match i64::try_from(magnitude - magnitude % unit as u64) {
            Ok(whole) => {
                if micros < 0 {
                    -whole
                } else {
                    whole
                }
            }
            Err(_) => micros,
        }
    };
    match value {
        Datum::Timestamp(i64::MIN | i64::MAX) => value,
        Datum::Timestamp(micros) => {
            Datum::Timestamp(round(micros.saturating_sub(EPOCH_US)).saturating_add(EPOCH_US))
        }
        Datum::Int(within) => Datum::Int(round(within)),
        Datum::TimeTz(within, ahead) => Datum::TimeTz(round(within), ahead),
        Datum::Interval(span) => Datum::Interval(Interval { micros: round(span.micros), ..span }),
        other => other,
    }
}

/// The memory of a client's value, in addition to twice its bytes.
pub fn read_bytes(bytes: &[u8], ty: SqlType, is_binary: bool) -> usize {
    match ty {
        SqlType::Numeric(_) if is_binary => Decimal::encoded_bytes(bytes),
        SqlType::Numeric(_) => std::str::from_utf8(bytes).map_or(0, crate::numeric::read_bytes),
        _ => 0,
    }
}

/// The memory of a conversion, including its result unless that is the value itself.
pub(crate) fn convert_bytes(value: &Datum, to: SqlType) -> usize {
    match (value, to) {
        (
            Datum::Text(_),
            SqlType::Text
            | SqlType::Varchar(_)
            | SqlType::Char(_)
            | SqlType::Name
            | SqlType::Unknown,
        ) => 0,
        (Datum::Text(text), SqlType::Jsonb) => 8 * text.len(),
        (Datum::Text(text), SqlType::Numeric(_)) => crate::numeric::read_bytes(text),
        (Datum::Numeric(value), _) => 4 * value.heap_bytes(),
        (Datum::Text(text), SqlType::Limited(..)) => 4 * text.len(),
        (Datum::Text(text), _) => 2 * text.len(),
        (Datum::Bytes(bytes), to) if to != SqlType::Bytea => 2 * bytes.len() + 2,
        _ => 0,
    }
}

fn natural_type(value: &Datum) -> SqlType {
    match value {
        Datum::Null => SqlType::Unknown,
        Datum::Bool(_) => SqlType::Bool,
        Datum::Int(_) => SqlType::Int8,
        Datum::Float(_) => SqlType::Float8,
        Datum::Numeric(_) => SqlType::Numeric(None),
        Datum::Text(_) => SqlType::Text,
        Datum::Bytes(_) => SqlType::Bytea,
        Datum::Timestamp(_) => SqlType::Timestamp,
        Datum::Json(_) => SqlType::Jsonb,
        Datum::TimeTz(..) => SqlType::TimeTz,
        Datum::Interval(_) => SqlType::Interval,
        Datum::Row(_) => SqlType::Record,
    }
}

fn text_to(text: String, to: SqlType, explicit: bool) -> Result<Datum, SqlError> {
    match to {
        SqlType::Text | SqlType::Varchar(None) => Ok(Datum::Text(text)),
        SqlType::Name => {
            let mut text = text;
            text.truncate(text.floor_char_boundary(crate::parse::NAME_BYTES_MAX));
            Ok(Datum::Text(text))
        }
        SqlType::Letter => {
            let mut text = text;
            text.truncate(text.chars().next().map_or(0, char::len_utf8));
            Ok(Datum::Text(text))
        }
        SqlType::Char(None) => Ok(Datum::Text(trim_blanks(text))),
        SqlType::Varchar(Some(length)) => cut(text, length as usize, to, explicit).map(Datum::Text),
        SqlType::Char(Some(length)) => {
            let text = cut(trim_blanks(text), length as usize, to, explicit)?;
            Ok(Datum::Text(trim_blanks(text)))
        }
        to => crate::text::parse(&text, to),
    }
}

/// A number or a boolean from a `jsonb` that consists of it.
fn json_to(json: &str, to: SqlType) -> Result<Datum, SqlError> {
    use crate::json::Node;
    let node = Node::of(json);
    match (node, to.family()) {
        (Node::Number(digits), Family::Number) => {
            let exact = || crate::text::parse(digits, SqlType::Numeric(None));
            if to.is_float() { crate::text::parse(digits, to) } else { number_to(exact()?, to) }
        }
        (Node::Bool(truth), Family::Bool) => Ok(Datum::Bool(truth)),
        _ => {
            let message = format!("cannot cast jsonb {} to type {to}", node.kind());
            Err(SqlError::new(code::INVALID_PARAMETER, message))
        }
    }
}

/// A text without trailing blanks.
pub(crate) fn trim_blanks(mut text: String) -> String {
    text.truncate(text.trim_end_matches(' ').len());
    text
}

fn cut(mut text: String, length: usize, to: SqlType, explicit: bool) -> Result<String, SqlError> {
    // Not more bytes than characters are allowed: no need to count.
    if text.len() <= length {
        return Ok(text);
    }
    let Some((at, _)) = text.char_indices().nth(length) else { return Ok(text) };
    if !explicit && text[at..].chars().any(|rest| rest != ' ') {
        let message = format!("value too long for type {to}");
        return Err(SqlError::new(code::STRING_TOO_LONG, message));
    }
    text.truncate(at);
    Ok(text)
}

fn number_to(value: Datum, to: SqlType) -> Result<Datum, SqlError> {
    match to {
        SqlType::Int2 | SqlType::Int4 | SqlType::Int8 | SqlType::Oid | SqlType::Reg(_) => {
            let whole = match &value {
                Datum::Int(value) => Some(*value),
                Datum::Numeric(value) if !value.is_finite() => return Err(not_whole(value, to)),
                Datum::Numeric(value) => value.to_i64(),
                other => float_to_int(other.to_f64()),
            };
            let whole = whole.ok_or_else(|| out_of_range(to))?;
            check_int(whole, to).map(Datum::Int)
        }
        SqlType::Float8 => binary(&value, to).map(Datum::Float),
        SqlType::Float4 => {
            let wide = binary(&value, to)?;
            let real = wide as f32;
            let what = match () {
                () if real.is_infinite() && wide.is_finite() => "overflow",
                () if real == 0.0 && wide != 0.0 => "underflow",
                () => return Ok(Datum::Float(f64::from(real))),
            };
            Err(SqlError::new(code::OUT_OF_RANGE, format!("value out of range: {what}")))
        }
        SqlType::Numeric(modifier) => {
            let number = match value {
                Datum::Float(value) => Decimal::from_f64(value).ok_or_else(|| out_of_range(to))?,
                other => other.to_decimal(),
            };
            fit(number, modifier).map(Datum::Numeric)
        }
        SqlType::Bool => match value {
            Datum::Int(value) => Ok(Datum::Bool(value != 0)),
            _ => Err(SqlError::new(code::CANNOT_COERCE, format!("cannot cast a number to {to}"))),
        },
        SqlType::Date => match value {
            Datum::Int(days) => Ok(Datum::Int(days)),
            _ => Err(SqlError::new(code::CANNOT_COERCE, "cannot cast a number to date")),
        },
        // A date as a timestamp.
        SqlType::Timestamp | SqlType::TimestampTz => match value {
            Datum::Int(days @ (i64::MIN | i64::MAX)) => Ok(Datum::Timestamp(days)),
            Datum::Int(days) if TIMESTAMP_DAYS.contains(&days) => {
                Ok(Datum::Timestamp(days * DAY_US))
            }
            Datum::Int(_) => {
                let message = "date out of range for timestamp";
                Err(SqlError::new(code::DATETIME_OVERFLOW, message))
            }
            _ => Err(SqlError::new(code::CANNOT_COERCE, format!("cannot cast a number to {to}"))),
        },
        to => Err(SqlError::new(code::CANNOT_COERCE, format!("cannot cast a number to {to}"))),
    }
}

/// The nearest float of a numeric, if there is one.
fn binary(value: &Datum, to: SqlType) -> Result<f64, SqlError> {
    match (value.to_f64(), value) {
        (wide, Datum::Numeric(exact))
            if (wide.is_infinite() && exact.is_finite()) || (wide == 0.0 && !exact.is_zero()) =>
        {
            let digits = exact.to_string();
            let message = format!("\"{}\" is out of range for type {to}", clipped(&digits));
            Err(SqlError::new(code::OUT_OF_RANGE, message))
        }
        (wide, _) => Ok(wide),
    }
}

/// 0A000: an integer cannot be infinite or NaN.
fn not_whole(value: &Decimal, to: SqlType) -> SqlError {
    let what = if value.is_nan() { "NaN" } else { "infinity" };
    SqlError::new(code::FEATURE_NOT_SUPPORTED, format!("cannot convert {what} to {to}"))
}

/// A number in the store's form of its column's type.
fn stored_number(value: &Decimal, ty: SqlType) -> Value {
    match ty.storage() {
        ColumnType::Decimal { .. } if value.is_nan() => Value::Decimal(DECIMAL_NAN),
        // A number that does not fit the type becomes a value that the column refuses.
        ColumnType::Decimal { scale } => match value.mantissa(scale.into()) {
            Some(mantissa) => Value::Decimal(mantissa),
            None => Value::Text(value.to_string()),
        },
        _ => Value::Text(value.to_string()),
    }
}

fn float_to_int(value: f64) -> Option<i64> {
    let rounded = value.round_ties_even();
    let fits = rounded >= i64::MIN as f64 && rounded < i64::MAX as f64;
    fits.then_some(rounded as i64)
}

/// An integer, if it is in the type's range.
pub(crate) fn check_int(value: i64, ty: SqlType) -> Result<i64, SqlError> {
    let fits = match ty {
        SqlType::Int2 => i16::try_from(value).is_ok(),
        SqlType::Int4 => i32::try_from(value).is_ok(),
        SqlType::Oid | SqlType::Reg(_) => u32::try_from(value).is_ok(),
        _ => true,
    };
    if fits { Ok(value) } else { Err(out_of_range(ty)) }
}

pub(crate) fn out_of_range(ty: SqlType) -> SqlError {
    SqlError::new(code::OUT_OF_RANGE, format!("{ty} out of range"))
}

/// A numeric with the precision and scale of its type.
pub(crate) fn fit(number: Decimal, modifier: Option<(u16, i16)>) -> Result<Decimal, SqlError> {
    let Some((precision, scale)) = modifier else { return Ok(number) };
    if number.is_nan() {
        return Ok(number);
    }
    let error = |what: &str| {
        let detail = format!("A field with precision {precision}, scale {scale} {what}.");
        SqlError::new(code::OUT_OF_RANGE, "numeric field overflow").detail(detail)
    };
    if !number.is_finite() {
        return Err(error("cannot hold an infinite value"));
    }
    let number = number.rescale(scale.into())?;
    let whole_digits = i64::from(precision) - i64::from(scale);
    if number.has_whole_digits(whole_digits) {
        return Ok(number);
    }
    let most = if whole_digits == 0 { "1".to_owned() } else { format!("10^{whole_digits}") };
    Err(error(&format!("must round to an absolute value less than {most}")))
}
