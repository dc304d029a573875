//! Opens a recording in any form: text or compact, plain or zstd.

use super::lines::Lines;
use super::{Access, BINARY_MAGIC, BinaryReader, CsvReader, OnFault, RecordingError};
use super::{Skipped, Source};
use std::io::{self, Read};

/// A reader of any form.
pub enum Reader<'a> {
    /// The text form.
    Csv(CsvReader<Box<dyn Read + 'a>>),
    /// The compact form.
    Binary(BinaryReader<Box<dyn Read + 'a>>),
}

impl Source for Reader<'_> {
    fn next_access(&mut self) -> Result<Option<Access<'_>>, RecordingError> {
        match self {
            Reader::Csv(reader) => reader.next_access(),
            Reader::Binary(reader) => reader.next_access(),
        }
    }

    fn skipped(&self) -> Skipped<'_> {
        match self {
            Reader::Csv(reader) => reader.skipped(),
            Reader::Binary(_) => Skipped::default(),
        }
    }
}

/// Opens a recording by looking at its first bytes.
pub fn open<'a>(input: impl Read + 'a, on_fault: OnFault) -> Result<Reader<'a>, RecordingError> {
    let (head, input) = peek(unpack(input)?)?;
    if head == *BINARY_MAGIC {
        return Ok(Reader::Binary(BinaryReader::new(input)?));
    }
    Ok(Reader::Csv(CsvReader::new(input, on_fault)?))
}

/// Reads a CSV file of numbers with a header, one row a line.
pub fn numbers(input: impl Read) -> Result<Vec<Vec<f64>>, RecordingError> {
    let mut lines = Lines::new(unpack(input)?, OnFault::Stop);
    if !lines.advance()? {
        return Err(RecordingError::Empty);
    }
    let mut rows = Vec::new();
    while lines.advance()? {
        let number = |at: usize| match lines.field(at).parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => {
                let problem = format!("\"{}\" is no finite number", lines.field(at));
                Err(RecordingError::Malformed(lines.fault_in(at, "number", problem)))
            }
        };
        rows.push((0..lines.count()).map(number).collect::<Result<Vec<f64>, _>>()?);
    }
    Ok(rows)
}

/// Undoes zstd compression if the first bytes are those of zstd.
pub(crate) fn unpack<'a>(input: impl Read + 'a) -> Result<Box<dyn Read + 'a>, RecordingError> {
    let (head, input) = peek(Box::new(input))?;
    if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let decoder = ruzstd::decoding::StreamingDecoder::new(input)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
        return Ok(Box::new(decoder));
    }
    Ok(input)
}

fn peek<'a>(mut input: Box<dyn Read + 'a>) -> io::Result<(Vec<u8>, Box<dyn Read + 'a>)> {
    let mut head = Vec::with_capacity(8);
    input.by_ref().take(8).read_to_end(&mut head)?;
    let again = io::Cursor::new(head.clone()).chain(input);
    Ok((head, Box::new(again)))
}
