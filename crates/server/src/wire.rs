//! The messages of the PostgreSQL protocol, version 3: parsing and building.
//!
//! ```text
//!   in    tag  length  body              borrowed from the input buffer of the socket
//!   out   tag  length  body  tag ..      appended to the buffer that is written to the socket
//! ```
//!
//! The parser checks every length. A malformed message is an error 08P01 and ends the connection,
//! because the start of the next message is unknown.

use isomer_sql::datum::Datum;
use isomer_sql::plan::OutputColumn;
use isomer_sql::zone::Zone;
use isomer_sql::{SqlError, SqlType, binary, text};

/// The longest message before the client is known.
pub(crate) const STARTUP_BYTES_MAX: usize = 10_000;

/// Requests before the startup message.
pub(crate) const SSL_REQUEST: i32 = 80_877_103;
pub(crate) const GSS_REQUEST: i32 = 80_877_104;
pub(crate) const CANCEL_REQUEST: i32 = 80_877_102;
/// The message before a forwarded connection: the name of the node that forwards it.
pub(crate) const PASSED_ON: i32 = 80_877_130;

/// The error of a message that violates the protocol.
pub(crate) fn violation(what: &str) -> SqlError {
    SqlError::new("08P01", format!("invalid message: {what}"))
}

/// Parses the parts of a message.
pub(crate) struct Reader<'m> {
    rest: &'m [u8],
}

impl<'m> Reader<'m> {
    pub(crate) fn new(body: &'m [u8]) -> Reader<'m> {
        Reader { rest: body }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'m [u8], SqlError> {
        if count > self.rest.len() {
            return Err(violation("it ends too early"));
        }
        let (bytes, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(bytes)
    }

    /// The number of bytes left.
    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn rest(&mut self) -> &'m [u8] {
        std::mem::take(&mut self.rest)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, SqlError> {
        Ok(self.bytes(1)?[0])
    }

    pub(crate) fn i16(&mut self) -> Result<i16, SqlError> {
        let bytes = self.bytes(2)?;
        Ok(i16::from_be_bytes(bytes.try_into().expect("two bytes")))
    }

    pub(crate) fn i32(&mut self) -> Result<i32, SqlError> {
        let bytes = self.bytes(4)?;
        Ok(i32::from_be_bytes(bytes.try_into().expect("four bytes")))
    }

    /// A number of items that follow.
    pub(crate) fn count(&mut self) -> Result<usize, SqlError> {
        // Counts use all sixteen bits.
        Ok(usize::from(self.i16()? as u16))
    }

    /// A text terminated by a zero byte.
    pub(crate) fn text(&mut self) -> Result<&'m str, SqlError> {
        let end = self.rest.iter().position(|byte| *byte == 0);
        let end = end.ok_or_else(|| violation("a text does not end"))?;
        let bytes = self.bytes(end)?;
        self.byte()?;
        binary::utf8(bytes)
    }

    /// The end of the message.
    pub(crate) fn end(&self) -> Result<(), SqlError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(violation("there is more than there should be"))
        }
    }
}

/// Output to a client that has not been sent.
#[derive(Default)]
pub(crate) struct Out {
    pub(crate) bytes: Vec<u8>,
    /// The bytes sent before these.
    sent: u64,
    /// The end of the whole messages.
    whole: usize,
    /// Severities of notices that the client does not want.
    kept_quiet: &'static [&'static str],
}

impl Out {
    /// Called after the output was sent.
    pub(crate) fn sent(&mut self) {
        self.sent += self.bytes.len() as u64;
        self.bytes.clear();
        self.whole = 0;
    }

    /// Suppresses notices of these severities from here on.
    pub(crate) fn keep_to_itself(&mut self, severities: &'static [&'static str]) {
        self.kept_quiet = severities;
    }

    /// The position of the next message.
    pub(crate) fn mark(&self) -> u64 {
        self.sent + self.bytes.len() as u64
    }

    /// Removes the output after a mark; `false` if some of it was sent.
    pub(crate) fn back_to(&mut self, mark: u64) -> bool {
        let Some(length) = mark.checked_sub(self.sent) else { return false };
        self.bytes.truncate(length as usize);
        self.whole = self.bytes.len();
        true
    }

    /// Removes an unfinished message.
    pub(crate) fn cut(&mut self) {
        self.bytes.truncate(self.whole);
    }

    /// Appends a message.
    pub(crate) fn message(&mut self, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
        self.whole = self.bytes.len();
        self.bytes.push(tag);
        let at = self.bytes.len();
        self.bytes.extend([0; 4]);
        body(&mut self.bytes);
        let length = (self.bytes.len() - at) as i32;
        self.bytes[at..at + 4].copy_from_slice(&length.to_be_bytes());
        self.whole = self.bytes.len();
    }

    /// The command tag of the only message, which reports a completed statement.
    pub(crate) fn tag(&self) -> &str {
        let tag = self.bytes.get(5..self.bytes.len().max(6) - 1).unwrap_or_default();
        std::str::from_utf8(tag).unwrap_or_default()
    }

    /// Appends prebuilt messages.
    pub(crate) fn made(&mut self, messages: &[u8]) {
        self.bytes.extend_from_slice(messages);
        self.whole = self.bytes.len();
    }

    /// A message without a body.
    pub(crate) fn empty(&mut self, tag: u8) {
        self.message(tag, |_| {});
    }

    /// Appends a step of authentication.
    pub(crate) fn authentication(&mut self, step: i32, data: &[u8]) {
        self.message(b'R', |body| {
            body.extend(step.to_be_bytes());
            body.extend(data);
        });
    }

    pub(crate) fn ready(&mut self, status: u8) {
        self.message(b'Z', |body| body.push(status));
    }

    pub(crate) fn complete(&mut self, tag: &str) {
        self.message(b'C', |body| put_text(body, tag));
    }

    pub(crate) fn parameter(&mut self, name: &str, value: &str) {
        self.message(b'S', |body| {
            put_text(body, name);
            put_text(body, value);
        });
    }

    pub(crate) fn error(&mut self, error: &SqlError) {
        self.report(b'E', "ERROR", error);
    }

    pub(crate) fn fatal(&mut self, error: &SqlError) {
        self.report(b'E', "FATAL", error);
    }

    pub(crate) fn notice(&mut self, severity: &str, notice: &SqlError) {
        if self.kept_quiet.contains(&severity) {
            return;
        }
        self.report(b'N', severity, notice);
    }

    fn report(&mut self, tag: u8, severity: &str, error: &SqlError) {
        self.message(tag, |body| {
            let mut field = |kind: u8, text: &str| {
                body.push(kind);
                put_text(body, text);
            };
            field(b'S', severity);
            field(b'V', severity);
            field(b'C', error.code);
            field(b'M', &error.message);
            if let Some(detail) = &error.detail {
                field(b'D', detail);
            }
            if let Some(hint) = &error.hint {
                field(b'H', hint);
            }
            if let Some(about) = &error.about {
                for (tag, name) in [
                    (b's', &about.schema),
                    (b't', &about.table),
                    (b'c', &about.column),
                    (b'd', &about.datatype),
                    (b'n', &about.constraint),
                    (b'W', &about.context),
                ] {
                    if !name.is_empty() {
                        field(tag, name);
                    }
                }
            }
            if let Some(position) = error.position {
                field(b'P', &position.to_string());
            }
            body.push(0);
        });
    }

    pub(crate) fn row_description(&mut self, columns: &[OutputColumn], formats: &Formats) {
        self.message(b'T', |body| {
            body.extend((columns.len() as i16).to_be_bytes());
            for (at, column) in columns.iter().enumerate() {
                put_text(body, &column.name);
                body.extend(column.origin.0.to_be_bytes());
                body.extend(column.origin.1.to_be_bytes());
                body.extend(column.ty.oid().to_be_bytes());
                body.extend(column.ty.width().to_be_bytes());
                body.extend(column.ty.modifier().to_be_bytes());
                body.extend(i16::from(formats.is_binary(at)).to_be_bytes());
            }
        });
    }

    /// The bytes of a row's values, which the message takes once more.
    pub(crate) fn row_bytes(values: &[Datum]) -> usize {
        values.iter().filter(|value| value.heap_bytes() > 0).map(text::format_bytes).sum()
    }

    /// Reserves exactly this number of bytes, instead of doubling.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        if bytes > self.bytes.capacity() - self.bytes.len() {
            self.bytes.reserve_exact(bytes);
        }
    }

    pub(crate) fn row(
        &mut self,
        values: &[Datum],
        columns: &[OutputColumn],
        formats: &Formats,
        zone: &Zone,
    ) {
        self.message(b'D', |body| {
            body.extend((values.len() as i16).to_be_bytes());
            for (at, (value, column)) in values.iter().zip(columns).enumerate() {
                if value.is_null() {
                    body.extend((-1i32).to_be_bytes());
                    continue;
                }
                let length_at = body.len();
                body.extend([0; 4]);
                if formats.is_binary(at) {
                    binary::encode(value, column.ty, body);
                } else {
                    put_value(body, value, column.ty, zone);
                }
                let length = (body.len() - length_at - 4) as i32;
                body[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
            }
        });
    }

    pub(crate) fn parameter_description(&mut self, types: &[SqlType]) {
        self.message(b't', |body| {
            body.extend((types.len() as u16).to_be_bytes());
            types.iter().for_each(|ty| body.extend(ty.oid().to_be_bytes()));
        });
    }
}

fn put_text(body: &mut Vec<u8>, text: &str) {
    // A zero byte would end the text early.
    text.split('\0').for_each(|part| body.extend_from_slice(part.as_bytes()));
    body.push(0);
}

/// Appends a value as text; integers take a fast path.
fn put_value(body: &mut Vec<u8>, value: &Datum, ty: SqlType, zone: &Zone) {
    match (value, ty) {
        (Datum::Int(number), ty) if ty.is_integer() => {
            use std::io::Write;
            write!(body, "{number}").expect("a vector takes what it is given");
        }
        (Datum::Bytes(bytes), SqlType::Bytea) => {
            body.extend(b"\\x");
            let digit = |half: u8| if half < 10 { b'0' + half } else { b'a' + half - 10 };
            body.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
        }
        _ => body.extend(text::format_in(value, ty, zone).as_bytes()),
    }
}

/// The formats of a result's columns. No format means text for all; one applies to all; otherwise
/// there is one per column.
#[derive(Clone, Default, Debug)]
pub(crate) struct Formats {
    count: usize,
    /// The common format, unless they differ.
    binary: bool,
    /// The format of each column, if they differ.
    each: Vec<bool>,
}

impl Formats {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Formats, SqlError> {
        let mut formats = Formats { count: reader.count()?, ..Formats::default() };
        for at in 0..formats.count {
            let binary = match reader.i16()? {
                0 => false,
                1 => true,
                _ => return Err(violation("a format is neither 0 (text) nor 1 (binary)")),
            };
            if at == 0 {
                formats.binary = binary;
            } else if formats.each.is_empty() && binary != formats.binary {
                formats.each = vec![formats.binary; at];
            }
            if !formats.each.is_empty() {
                formats.each.push(binary);
            }
        }
        Ok(formats)
    }

    /// The binary format for all columns.
    pub(crate) fn binary() -> Formats {
        Formats { count: 1, binary: true, each: Vec::new() }
    }

    pub(crate) fn is_binary(&self, at: usize) -> bool {
        match self.each.get(at) {
            Some(binary) => *binary,
            // Columns beyond several given formats are text.
            None => self.binary && (self.count == 1 || at < self.count),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_its_length() {
        let mut out = Out::default();
        out.complete("SELECT 1");
        assert_eq!(out.bytes, b"C\0\0\0\x0dSELECT 1\0");
        out.bytes.clear();
        out.ready(b'I');
        assert_eq!(out.bytes, b"Z\0\0\0\x05I");
    }

    #[test]
    fn formats_are_for_all_or_one_each() {
        let read = |codes: &[i16]| {
            let mut body = (codes.len() as i16).to_be_bytes().to_vec();
            codes.iter().for_each(|code| body.extend(code.to_be_bytes()));
            Formats::read(&mut Reader::new(&body)).map(|formats| {
                assert_eq!(formats.count(), codes.len());
                (0..4).map(|at| formats.is_binary(at)).collect::<Vec<bool>>()
            })
        };
        assert_eq!(read(&[]).unwrap(), [false; 4]);
        assert_eq!(read(&[0]).unwrap(), [false; 4]);
        assert_eq!(read(&[1]).unwrap(), [true; 4]);
        assert_eq!(read(&[1, 1, 1]).unwrap(), [true, true, true, false]);
        assert_eq!(read(&[0, 0, 1]).unwrap(), [false, false, true, false]);
        assert_eq!(read(&[1, 1, 0, 1]).unwrap(), [true, true, false, true]);
        assert_eq!(read(&[1, 2]).unwrap_err().code, "08P01");
    }

    #[test]
    fn truncated_messages_are_refused_wherever_they_are_cut() {
        let mut body = b"name\0select $1\0".to_vec();
        body.extend(1i16.to_be_bytes());
        body.extend(23i32.to_be_bytes());
        let read = |body: &[u8]| -> Result<(), SqlError> {
            let mut reader = Reader::new(body);
            reader.text()?;
            reader.text()?;
            for _ in 0..reader.count()? {
                reader.i32()?;
            }
            reader.end()
        };
        assert!(read(&body).is_ok());
        for length in 0..body.len() {
            assert_eq!(read(&body[..length]).unwrap_err().code, "08P01", "{length}");
        }
    }
}
