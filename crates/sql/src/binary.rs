//! Values in binary form, which clients request by format code 1.
//!
//! Numbers are big-endian; times count from the year 2000; an exact number is a list of base-10000
//! digits. Bytes that are no value of the type are an error, never a panic.

use crate::datum::{Datum, convert};
use crate::error::{SqlError, code};
use crate::interval::Interval;
use crate::numeric::Decimal;
use crate::types::SqlType;

/// The time from 1970 to 2000.
const EPOCH_US: i64 = 946_684_800_000_000;
const EPOCH_DAYS: i64 = 10_957;
/// The first byte of a binary `jsonb`: the version of its format. The text follows.
const JSONB_VERSION: u8 = 1;

/// Appends a value that is not NULL.
pub fn encode(value: &Datum, ty: SqlType, out: &mut Vec<u8>) {
    match (value, ty) {
        (Datum::Bool(truth), _) => out.push(u8::from(*truth)),
        (Datum::Int(value), SqlType::Int2) => out.extend((*value as i16).to_be_bytes()),
        (Datum::Int(value), SqlType::Int4 | SqlType::Oid | SqlType::Reg(_)) => {
            out.extend((*value as i32).to_be_bytes());
        }
        (Datum::Int(days), SqlType::Date) => {
            let days = match *days {
                i64::MIN => i32::MIN,
                i64::MAX => i32::MAX,
                days => (days - EPOCH_DAYS) as i32,
            };
            out.extend(days.to_be_bytes());
        }
        (Datum::Int(value), SqlType::Numeric(_)) => Decimal::int(*value).encode(out),
        (Datum::Int(value), _) => out.extend(value.to_be_bytes()),
        (Datum::TimeTz(within, ahead), _) => {
            out.extend(within.to_be_bytes());
            out.extend((-ahead).to_be_bytes());
        }
        (Datum::Interval(span), _) => out.extend(span.bytes()),
        (Datum::Row(row), _) => row.encode(out),
        (Datum::Timestamp(micros @ (i64::MIN | i64::MAX)), _) => out.extend(micros.to_be_bytes()),
        (Datum::Float(value), SqlType::Float4) => out.extend((*value as f32).to_be_bytes()),
        (Datum::Float(value), _) => out.extend(value.to_be_bytes()),
        (Datum::Numeric(value), _) => value.encode(out),
        (Datum::Timestamp(micros), _) => out.extend((micros - EPOCH_US).to_be_bytes()),
        (Datum::Bytes(key), SqlType::Enum(labels)) => out.extend(labels.label(key).as_bytes()),
        (Datum::Bytes(bytes), _) => out.extend(bytes),
        (Datum::Text(array), _) if ty.element().is_some() => {
            let element = ty.element().expect("an array has elements");
            crate::array::encode(array, element, out);
        }
        (Datum::Json(json), _) => {
            out.push(JSONB_VERSION);
            out.extend(json.as_bytes());
        }
        (Datum::Text(_) | Datum::Null, _) => {
            out.extend(crate::text::format(value, ty).as_bytes());
        }
    }
}

/// Parses a value.
///
/// # Errors
/// 22P03 for invalid bytes, 22021 if a text is not UTF-8.
pub fn decode(bytes: &[u8], ty: SqlType) -> Result<Datum, SqlError> {
    let wrong = || {
        let message = format!("{} bytes are no value of type {ty}", bytes.len());
        SqlError::new(code::INVALID_BINARY, message)
    };
    Ok(match ty {
        SqlType::Bool => match bytes {
            [byte] => Datum::Bool(*byte != 0),
            _ => return Err(wrong()),
        },
        SqlType::Int2 => Datum::Int(i16::from_be_bytes(fixed(bytes).ok_or_else(wrong)?).into()),
        SqlType::Int4 => Datum::Int(i32::from_be_bytes(fixed(bytes).ok_or_else(wrong)?).into()),
        SqlType::Oid | SqlType::Reg(_) => {
            Datum::Int(u32::from_be_bytes(fixed(bytes).ok_or_else(wrong)?).into())
        }
        SqlType::Int8 => Datum::Int(i64::from_be_bytes(fixed(bytes).ok_or_else(wrong)?)),
        SqlType::Float4 => Datum::Float(f32::from_be_bytes(fixed(bytes).ok_or_else(wrong)?).into()),
        SqlType::Float8 => Datum::Float(f64::from_be_bytes(fixed(bytes).ok_or_else(wrong)?)),
        SqlType::Date => Datum::Int(match i32::from_be_bytes(fixed(bytes).ok_or_else(wrong)?) {
            i32::MIN => i64::MIN,
            i32::MAX => i64::MAX,
            days => i64::from(days) + EPOCH_DAYS,
        }),
        SqlType::Time => {
            let within = i64::from_be_bytes(fixed(bytes).ok_or_else(wrong)?);
            Datum::Int(Some(within).filter(is_within_day).ok_or_else(wrong)?)
        }
        SqlType::TimeTz => {
            let (within, behind) = bytes.split_first_chunk::<8>().ok_or_else(wrong)?;
            let within = i64::from_be_bytes(*within);
            let behind = i32::from_be_bytes(fixed(behind).ok_or_else(wrong)?);
            let is_there = is_within_day(&within) && behind.unsigned_abs() < 16 * 3600;
            Datum::TimeTz(within, if is_there { -behind } else { return Err(wrong()) })
        }
        SqlType::Interval => {
            let bytes = fixed::<16>(bytes).ok_or_else(wrong)?;
            Datum::Interval(Interval::of_bytes(&bytes).ok_or_else(wrong)?)
        }
        SqlType::Timestamp | SqlType::TimestampTz => {
            let micros = i64::from_be_bytes(fixed(bytes).ok_or_else(wrong)?);
            match micros {
                i64::MIN | i64::MAX => Datum::Timestamp(micros),
                micros => Datum::Timestamp(micros.checked_add(EPOCH_US).ok_or_else(wrong)?),
            }
        }
        SqlType::Rounded(of, digits) => crate::datum::rounded(decode(bytes, *of)?, digits),
        SqlType::Spanned(fields, digits) => {
            crate::datum::spanned(decode(bytes, SqlType::Interval)?, fields, digits)
        }
        SqlType::Numeric(modifier) => {
            let number = Decimal::decode(bytes).ok_or_else(wrong)?;
            Datum::Numeric(crate::datum::fit(number, modifier)?)
        }
        SqlType::Record => {
            return Err(SqlError::unsupported("input of anonymous composite types"));
        }
        SqlType::Jsonb => match bytes.split_first() {
            Some((&JSONB_VERSION, text)) => crate::text::parse(utf8(text)?, ty)?,
            _ => return Err(wrong()),
        },
        SqlType::Json | SqlType::Enum(_) => crate::text::parse(utf8(bytes)?, ty)?,
        SqlType::Bytea => Datum::Bytes(bytes.to_vec()),
        SqlType::Uuid => Datum::Bytes(fixed::<16>(bytes).ok_or_else(wrong)?.to_vec()),
        SqlType::Limited(..) => {
            return convert(decode(bytes, ty.plain())?, ty, false);
        }
        SqlType::Array(_) | SqlType::EnumArray(_) | SqlType::Int2Vector => {
            let element = ty.element().expect("an array has elements");
            let array = crate::array::decode(bytes, element)?;
            return crate::text::parse(&array, ty);
        }
        SqlType::Text
        | SqlType::Varchar(_)
        | SqlType::Char(_)
        | SqlType::Name
        | SqlType::Letter
        | SqlType::Unknown => convert(Datum::Text(utf8(bytes)?.to_owned()), ty, false)?,
    })
}

/// A text of a client.
///
/// # Errors
/// 22021 if it is not UTF-8.
pub fn utf8(bytes: &[u8]) -> Result<&str, SqlError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        let byte = bytes.get(at).copied().unwrap_or(0);
        let message =
            format!("invalid byte sequence for encoding \"UTF8\": 0x{byte:02x} at byte {at}");
        SqlError::new("22021", message)
    })
}

/// True if a day has this number of microseconds since midnight.
fn is_within_day(micros: &i64) -> bool {
    (0..=86_400_000_000).contains(micros)
}

fn fixed<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        let number = |text| Datum::Numeric(Decimal::parse(text).expect("a number"));
        let cases = [
            (SqlType::Int4, Datum::Int(-7)),
            (SqlType::Int8, Datum::Int(i64::MIN)),
            (SqlType::Float8, Datum::Float(0.5)),
            (SqlType::Numeric(None), number("12345.678")),
            (SqlType::Numeric(None), number("-0.0001")),
            (SqlType::Numeric(None), number("0.00")),
            (SqlType::Numeric(None), number("100000000")),
            (SqlType::Numeric(None), number("0.12345")),
            (SqlType::Numeric(None), number("-1e100")),
            (SqlType::Numeric(None), number("NaN")),
            (SqlType::Numeric(None), number("-Infinity")),
            (SqlType::Timestamp, Datum::Timestamp(1)),
            (SqlType::Date, Datum::Int(20_000)),
            (SqlType::Date, Datum::Int(i64::MAX)),
            (SqlType::Timestamp, Datum::Timestamp(i64::MIN)),
            (SqlType::Time, Datum::Int(86_400_000_000)),
            (SqlType::TimeTz, Datum::TimeTz(1, -3600)),
            (SqlType::Interval, Datum::Interval(Interval { months: -1, days: 2, micros: 3 })),
            (SqlType::Text, Datum::text("ü")),
            (SqlType::Bytea, Datum::Bytes(vec![0, 1])),
            (SqlType::Json, Datum::text("{ \"a\":1}")),
            (SqlType::Jsonb, Datum::Json("{\"a\": 1}".to_owned())),
            (SqlType::Uuid, Datum::Bytes((0..16).collect())),
            (SqlType::Array(&SqlType::Text), Datum::text("{a,NULL,\"b c\"}")),
        ];
        for (ty, value) in cases {
            let mut bytes = Vec::new();
            encode(&value, ty, &mut bytes);
            assert_eq!(decode(&bytes, ty).expect("it was written"), value, "{bytes:?}");
        }
        let mut bytes = Vec::new();
        encode(&number("12345.678"), SqlType::Numeric(None), &mut bytes);
        assert_eq!(bytes, [0, 3, 0, 1, 0, 0, 0, 3, 0, 1, 0x09, 0x29, 0x1a, 0x7c]);
    }

    #[test]
    fn any_bytes_can_be_offered() {
        for ty in crate::types::ALL {
            for length in 0..20 {
                for fill in [0, 1, 0x7f, 0xff] {
                    let _ = decode(&vec![fill; length], ty);
                }
            }
        }
    }
}
