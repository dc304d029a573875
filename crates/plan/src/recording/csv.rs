//! The documented text form: one access a line (see the parent module for an example).

use super::lines::{Lines, parse_time};
use super::{Access, Fault, KeyRef, OnFault, RecordingError, Skipped, Source};
use std::io::{self, Read, Write};

/// The first line of a recording in text form.
pub const CSV_HEADER: &str = "time,transaction,table,key,access";

const FIELDS: [&str; 5] = ["time", "transaction", "table", "key", "access"];

/// Reads the text form, one line in memory at a time.
pub struct CsvReader<R> {
    lines: Lines<R>,
}

impl<R: Read> CsvReader<R> {
    /// Reads and checks the header.
    pub fn new(input: R, on_fault: OnFault) -> Result<CsvReader<R>, RecordingError> {
        let mut lines = Lines::new(input, on_fault);
        if !lines.advance()? {
            return Err(RecordingError::Empty);
        }
        if lines.whole() != CSV_HEADER {
            let found = lines.whole().chars().take(80).collect();
            return Err(RecordingError::Header { found, expected: format!("\"{CSV_HEADER}\"") });
        }
        Ok(CsvReader { lines })
    }
}

/// The numeric fields of a line; the others are borrowed from it.
struct Numbers {
    time_us: i64,
    transaction: u64,
    write: bool,
}

fn parse<R: Read>(lines: &Lines<R>) -> Result<Numbers, Fault> {
    if lines.count() != FIELDS.len() {
        let missing = FIELDS.get(lines.count()).copied().unwrap_or("line");
        let problem = format!("{} fields, expected 5: {CSV_HEADER}", lines.count());
        return Err(lines.fault_in(lines.count().min(FIELDS.len()), missing, problem));
    }
    let wrong = |index: usize, right: &str| {
        let problem = format!("\"{}\" is not {right}", lines.field(index));
        lines.fault_in(index, FIELDS[index], problem)
    };
    let time_us = parse_time(lines.field(0))
        .ok_or_else(|| wrong(0, "a time in seconds (12.000350) or a date and time"))?;
    let transaction = lines.field(1).parse().map_err(|_| wrong(1, "a whole number"))?;
    if lines.field(2).is_empty() {
        return Err(wrong(2, "the name of a table"));
    }
    if lines.field(3).is_empty() {
        return Err(wrong(3, "a key"));
    }
    let write = match lines.field(4) {
        "r" | "R" | "read" => false,
        "w" | "W" | "write" => true,
        _ => return Err(wrong(4, "r or w")),
    };
    Ok(Numbers { time_us, transaction, write })
}

impl<R: Read> Source for CsvReader<R> {
    fn next_access(&mut self) -> Result<Option<Access<'_>>, RecordingError> {
        let numbers = loop {
            if !self.lines.advance()? {
                return Ok(None);
            }
            match parse(&self.lines) {
                Ok(numbers) => break numbers,
                Err(fault) => self.lines.fault(fault)?,
            }
        };
        let Numbers { time_us, transaction, write } = numbers;
        let (table, key) = (self.lines.field(2), parse_key(self.lines.field(3)));
        Ok(Some(Access { time_us, transaction, table, key, write }))
    }

    fn skipped(&self) -> Skipped<'_> {
        self.lines.skipped()
    }
}

/// Integers in canonical spelling are integers; `007` and `+7` stay text.
pub(crate) fn parse_key(text: &str) -> KeyRef<'_> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let canonical = match digits.as_bytes() {
        [b'0'] => text == "0",
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    match text.parse() {
        Ok(number) if canonical => KeyRef::Int(number),
        _ => KeyRef::Text(text),
    }
}

/// Writes the text form.
pub struct CsvWriter<W: Write> {
    output: W,
}

impl<W: Write> CsvWriter<W> {
    /// Writes the header.
    pub fn new(mut output: W) -> io::Result<CsvWriter<W>> {
        writeln!(output, "{CSV_HEADER}")?;
        Ok(CsvWriter { output })
    }

    /// Writes one access.
    pub fn push(&mut self, access: &Access<'_>) -> io::Result<()> {
        let micros = access.time_us.unsigned_abs();
        let sign = if access.time_us < 0 { "-" } else { "" };
        let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
        write!(self.output, "{sign}{seconds}.{rest:06},{},", access.transaction)?;
        write_text(&mut self.output, access.table)?;
        write!(self.output, ",")?;
        write_key(&mut self.output, access.key)?;
        writeln!(self.output, ",{}", if access.write { "w" } else { "r" })
    }

    /// Returns the output, flushed.
    pub fn finish(mut self) -> io::Result<W> {
        self.output.flush()?;
        Ok(self.output)
    }
}

/// A key as a field.
pub(crate) fn write_key(output: &mut impl Write, key: KeyRef<'_>) -> io::Result<()> {
    match key {
        KeyRef::Int(key) => write!(output, "{key}"),
        KeyRef::Text(key) => write_text(output, key),
    }
}

/// A text as a field, quoted if necessary.
pub(crate) fn write_text(output: &mut impl Write, text: &str) -> io::Result<()> {
    if text.contains([',', '"']) {
        write!(output, "\"{}\"", text.replace('"', "\"\""))
    } else {
        write!(output, "{text}")
    }
}
