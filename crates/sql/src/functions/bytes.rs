//! Functions of byte strings. Positions count bytes; the bits of a byte are numbered from its
//! lowest one.
//!
//! ```text
//!   substring('\x010203'::bytea from 2 for 1)      \x02
//!   get_bit('\x0104'::bytea, 10)                   1
//!   convert_from('\xe9', 'LATIN1')                 é
//! ```
//!
//! The memory of a result is reserved before it is made.

use crate::budget::Budget;
use crate::datum::Datum;
use crate::error::{SqlError, clipped, code};
use crate::types::SqlType;

/// A function of byte strings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "they are what SQL calls so")]
pub enum BytesFunc {
    Substring,
    Position,
    Overlay,
    Trim,
    LeftTrim,
    RightTrim,
    GetByte,
    SetByte,
    GetBit,
    SetBit,
    BitCount,
    /// The number of characters of a text in this encoding.
    CharCount,
    ConvertFrom,
    ConvertTo,
    Convert,
    /// The binary form of a value; another argument is the number of its type.
    Send,
    /// `pg_column_size`; other arguments are the width of the type, -1 for one without, and 1 if
    /// the value is a literal without a type, and if it is one of a column.
    Size,
}

/// An encoding of texts that can be converted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Charset {
    Utf8,
    Latin1,
}

/// The encodings of PostgreSQL that are not converted, with letters and digits only.
const OTHER_CHARSETS: &str = "sqlascii eucjp euccn euckr euctw eucjis2004 muleinternal latin2 latin3 \
    latin4 latin5 latin6 latin7 latin8 latin9 latin10 win1256 win1258 win866 win874 koi8r koi8u \
    koi8 win1251 win1252 win iso88595 iso88596 iso88597 iso88598 iso88592 iso88593 iso88594 \
    iso88599 iso885910 iso885913 iso885914 iso885915 iso885916 win1250 win1253 win1254 win1255 \
    win1257 sjis shiftjis mskanji win932 windows932 big5 windows950 win950 gbk win936 windows936 \
    uhc win949 windows949 gb18030 johab shiftjis2004 alt tcvn tcvn5712 vscii abc windows1250 \
    windows1251 windows1252 windows1253 windows1254 windows1255 windows1256 windows1257 \
    windows1258 windows866 windows874";

impl Charset {
    /// # Errors
    /// 22023 for an unknown name, 0A000 for an encoding that is not converted. `role` is `source`
    /// or `destination`.
    fn named(name: &str, role: &str) -> Result<Charset, SqlError> {
        let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        match plain.to_ascii_lowercase().as_str() {
            "utf8" | "unicode" => Ok(Charset::Utf8),
            "latin1" | "iso88591" => Ok(Charset::Latin1),
            other if OTHER_CHARSETS.split_whitespace().any(|known| known == other) => {
                Err(SqlError::unsupported(format!("the encoding \"{}\"", clipped(name)))
                    .hint("Texts are in UTF8. LATIN1 is converted."))
            }
            _ => {
                let message = format!("invalid {role}encoding name \"{}\"", clipped(name));
                Err(SqlError::new(code::INVALID_PARAMETER, message))
            }
        }
    }

    /// The text that bytes encode.
    fn read(self, bytes: &[u8], budget: &Budget) -> Result<String, SqlError> {
        budget.charge(2 * bytes.len())?;
        if let (Charset::Latin1, Some(_)) = (self, bytes.iter().position(|byte| *byte == 0)) {
            return Err(invalid("LATIN1", &[0]));
        }
        match self {
            Charset::Latin1 => Ok(bytes.iter().map(|byte| char::from(*byte)).collect()),
            Charset::Utf8 => checked(bytes).map(str::to_owned),
        }
    }

    /// The bytes of a text.
    fn written(self, text: &str, budget: &Budget) -> Result<Vec<u8>, SqlError> {
        budget.charge(text.len())?;
        if self == Charset::Utf8 {
            return Ok(text.as_bytes().to_vec());
        }
        let byte = |sign: char| {
            u8::try_from(u32::from(sign)).map_err(|_| {
                let bytes = hexadecimal(sign.encode_utf8(&mut [0; 4]).as_bytes());
                let message = format!(
                    "character with byte sequence {bytes} in encoding \"UTF8\" has no equivalent \
                     in encoding \"LATIN1\""
                );
                SqlError::new("22P05", message)
            })
        };
        text.chars().map(byte).collect()
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let all: Vec<String> = bytes.iter().map(|byte| format!("0x{byte:02x}")).collect();
    all.join(" ")
}

fn invalid(charset: &str, bytes: &[u8]) -> SqlError {
    let bytes = hexadecimal(bytes);
    let message = format!("invalid byte sequence for encoding \"{charset}\": {bytes}");
    SqlError::new("22021", message)
}

/// Bytes as a text in UTF-8.
///
/// # Errors
/// 22021, with the first wrong character.
fn checked(bytes: &[u8]) -> Result<&str, SqlError> {
    let (valid, wrong) = match std::str::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(error) => {
            let at = error.valid_up_to();
            (std::str::from_utf8(&bytes[..at]).unwrap_or_default(), Some(at))
        }
    };
    let at = match (valid.find('\0'), wrong) {
        (None, None) => return Ok(valid),
        (Some(zero), _) => zero,
        (None, Some(wrong)) => wrong,
    };
    // As many bytes as the first one announces.
    let length = match bytes[at] {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => 1,
    };
    Err(invalid("UTF8", &bytes[at..bytes.len().min(at + length)]))
}

/// Calls a function.
///
/// # Errors
/// 22011, 2202E, 22021, 22023, depending on the function.
pub(super) fn call(func: BytesFunc, args: &[Datum], budget: &Budget) -> Result<Datum, SqlError> {
    use BytesFunc::*;
    let int = |at: usize| args.get(at).and_then(Datum::as_int).unwrap_or(0);
    let text = |at: usize| args.get(at).and_then(Datum::as_text).unwrap_or("");
    let bytes = |at: usize| match args.get(at) {
        Some(Datum::Bytes(bytes)) => bytes.as_slice(),
        _ => &[],
    };
    let copied = |part: &[u8]| -> Result<Datum, SqlError> {
        budget.charge(part.len())?;
        Ok(Datum::Bytes(part.to_vec()))
    };
    let of = bytes(0);
    match func {
        Substring => copied(part(of, int(1), args.get(2).map(|_| int(2)))?),
        Position => {
            budget.tick(of.len() / 16)?;
            Ok(Datum::Int(position(of, bytes(1))))
        }
        Overlay => {
            let (new, from) = (bytes(1), int(2));
            if from < 1 {
                return Err(negative());
            }
            let length = args.get(3).map_or(new.len() as i64, |_| int(3));
            let behind = i32::try_from(from + length)
                .map_err(|_| SqlError::new(code::OUT_OF_RANGE, "integer out of range"))?;
            let (before, after) = (part(of, 1, Some(from - 1))?, part(of, behind.into(), None)?);
            budget.charge(before.len() + new.len() + after.len())?;
            Ok(Datum::Bytes([before, new, after].concat()))
        }
        Trim | LeftTrim | RightTrim => {
            budget.tick(of.len() / 16 * (1 + bytes(1).len()))?;
            let is_kept = |byte: &u8| !bytes(1).contains(byte);
            let from = of.iter().position(is_kept).filter(|_| func != RightTrim);
            let from = from.unwrap_or(if func == RightTrim { 0 } else { of.len() });
            let to = of.iter().rposition(is_kept).map_or(0, |at| at + 1);
            let to = if func == LeftTrim { of.len() } else { to };
            copied(&of[from.min(to)..to])
        }
        GetByte => Ok(Datum::Int(of[place(int(1), of.len() as i64)?].into())),
        SetByte => {
            let at = place(int(1), of.len() as i64)?;
            budget.charge(of.len())?;
            let mut changed = of.to_vec();
            changed[at] = int(2) as u8;
            Ok(Datum::Bytes(changed))
        }
        GetBit => {
            let at = place(int(1), 8 * of.len() as i64)?;
            Ok(Datum::Int((of[at / 8] >> (at % 8) & 1).into()))
        }
        SetBit => {
            let (at, bit) = (place(int(1), 8 * of.len() as i64)?, int(2));
            if !matches!(bit, 0 | 1) {
                return Err(SqlError::new(code::INVALID_PARAMETER, "new bit must be 0 or 1"));
            }
            budget.charge(of.len())?;
            let mut changed = of.to_vec();
            changed[at / 8] = changed[at / 8] & !(1 << (at % 8)) | (bit as u8) << (at % 8);
            Ok(Datum::Bytes(changed))
        }
        BitCount => Ok(Datum::Int(of.iter().map(|byte| i64::from(byte.count_ones())).sum())),
        CharCount => match Charset::named(text(1), "")? {
            Charset::Utf8 => checked(of).map(|text| Datum::Int(text.chars().count() as i64)),
            Charset::Latin1 if of.contains(&0) => Err(invalid("LATIN1", &[0])),
            Charset::Latin1 => Ok(Datum::Int(of.len() as i64)),
        },
        ConvertFrom => Charset::named(text(1), "source ")?.read(of, budget).map(Datum::Text),
        ConvertTo => {
            let charset = Charset::named(text(1), "destination ")?;
            charset.written(text(0), budget).map(Datum::Bytes)
        }
        Convert => {
            let from = Charset::named(text(1), "source ")?;
            let to = Charset::named(text(2), "destination ")?;
            to.written(&from.read(of, budget)?, budget).map(Datum::Bytes)
        }
        Size => Ok(Datum::Int(size(&args[0], int(1), int(2) == 1, int(3) == 1))),
        Send => {
            budget.charge(2 * args[0].heap_bytes() + 16)?;
            let ty = SqlType::numbered(int(1)).unwrap_or(SqlType::Text);
            let mut sent = Vec::new();
            crate::binary::encode(&args[0], ty, &mut sent);
            Ok(Datum::Bytes(sent))
        }
    }
}

/// The bytes that a value takes at PostgreSQL: without the header of a stored value, those of an
/// array or a `jsonb` are those of its text.
fn size(value: &Datum, width: i64, is_literal: bool, is_column: bool) -> i64 {
    let bytes = match value {
        _ if is_literal => return value.heap_bytes() as i64 + 1,
        _ if width > 0 => return width,
        Datum::Numeric(_) => {
            // The digits behind a header of 8 bytes, which takes 2 when it is stored.
            let mut sent = Vec::new();
            crate::binary::encode(value, SqlType::Numeric(None), &mut sent);
            sent.len() as i64 - 6
        }
        value => value.heap_bytes() as i64,
    };
    // A short value of a column has a short header.
    bytes + if is_column && bytes < 127 { 1 } else { 4 }
}

fn negative() -> SqlError {
    SqlError::new("22011", "negative substring length not allowed")
}

/// The part of `length` bytes from a position on, counted from 1.
fn part(bytes: &[u8], from: i64, length: Option<i64>) -> Result<&[u8], SqlError> {
    if length.is_some_and(|length| length < 0) {
        return Err(negative());
    }
    let count = bytes.len() as i64;
    let end = length.map_or(count, |length| (from - 1).saturating_add(length).clamp(0, count));
    let start = (from - 1).clamp(0, end);
    Ok(&bytes[start as usize..end as usize])
}

/// The position of a byte string in another, from 1; 0 if it is not there.
fn position(whole: &[u8], wanted: &[u8]) -> i64 {
    if wanted.is_empty() {
        return 1;
    }
    let found = whole.windows(wanted.len()).position(|window| window == wanted);
    found.map_or(0, |at| at as i64 + 1)
}

/// The place of a byte or a bit among `count`.
fn place(at: i64, count: i64) -> Result<usize, SqlError> {
    if (0..count).contains(&at) {
        return Ok(at as usize);
    }
    let message = format!("index {at} out of valid range, 0..{}", count - 1);
    Err(SqlError::new("2202E", message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_the_bytes_that_are_there() {
        let all = [1, 2, 3];
        for (from, length, expected) in [
            (2, Some(1), &all[1..2]),
            (-1, Some(3), &all[..1]),
            (0, None, &all[..]),
            (4, Some(1), &[]),
            (3, Some(i64::MAX), &all[2..]),
            (i64::MIN + 1, Some(2), &[]),
        ] {
            assert_eq!(part(&all, from, length), Ok(expected), "{from} {length:?}");
        }
        assert!(part(&all, 1, Some(-1)).is_err());
    }

    #[test]
    fn what_is_no_text_is_named() {
        for (bytes, message) in [
            (&b"\xff"[..], "0xff"),
            (b"ab\xe4\xb8", "0xe4 0xb8"),
            (b"a\0b", "0x00"),
            (b"\xc3(", "0xc3 0x28"),
        ] {
            let error = checked(bytes).expect_err("it is no text");
            assert_eq!(
                error.message,
                format!("invalid byte sequence for encoding \"UTF8\": {message}")
            );
        }
    }
}
