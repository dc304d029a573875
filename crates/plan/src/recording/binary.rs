//! The compact form: five or six bytes an access instead of thirty.
//!
//! ```text
//! "ISOTRC1\n"
//! access:  tag  [time  transaction]  [table]  key
//!
//! tag bit 0  written
//!     bit 1  same transaction as before: time and transaction are left out
//!     bit 2  key is text: length and bytes; else the difference to the table's last integer key
//!     bit 3  same table as before: table is left out
//!     bit 4  a table not seen yet: length and bytes of its name; else its number, from 0
//! ```
//!
//! Numbers are variable-length (seven bits a byte, low bits first), differences zigzag-coded. The
//! file ends after an access; a truncation anywhere else is detected and reported with its
//! position.

use super::{Access, KeyRef, RecordingError, Source};
use std::io::{self, BufReader, Read, Write};

/// The first bytes of the compact form.
pub const BINARY_MAGIC: &[u8; 8] = b"ISOTRC1\n";

const WRITTEN: u8 = 1;
const SAME_TRANSACTION: u8 = 2;
const TEXT: u8 = 4;
const SAME_TABLE: u8 = 8;
const NEW_TABLE: u8 = 16;
/// Longer names and keys are refused: no plausible recording has them.
const TEXT_BYTES_MAX: u64 = 1 << 16;

/// Reads the compact form; keeps the tables' names and one text key in memory.
pub struct BinaryReader<R> {
    input: BufReader<R>,
    at: u64,
    tables: Vec<(String, i64)>,
    table: usize,
    time_us: i64,
    transaction: u64,
    text: String,
    started: bool,
}

impl<R: Read> BinaryReader<R> {
    /// Reads and checks the first bytes.
    pub fn new(input: R) -> Result<BinaryReader<R>, RecordingError> {
        let mut input = BufReader::with_capacity(1 << 18, input);
        let mut magic = [0; 8];
        input.read_exact(&mut magic).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => RecordingError::Empty,
            _ => RecordingError::Io(error),
        })?;
        if magic != *BINARY_MAGIC {
            let problem = "this is no binary recording: it should begin with ISOTRC1";
            return Err(RecordingError::Binary { at: 0, problem });
        }
        Ok(BinaryReader {
            input,
            at: 8,
            tables: Vec::new(),
            table: 0,
            time_us: 0,
            transaction: 0,
            text: String::new(),
            started: false,
        })
    }

    fn wrong<T>(&self, problem: &'static str) -> Result<T, RecordingError> {
        Err(RecordingError::Binary { at: self.at, problem })
    }

    fn byte(&mut self) -> Result<Option<u8>, RecordingError> {
        let mut byte = [0];
        loop {
            match self.input.read(&mut byte) {
                Ok(0) => return Ok(None),
                Ok(_) => {
                    self.at += 1;
                    return Ok(Some(byte[0]));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn number(&mut self) -> Result<u64, RecordingError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let Some(byte) = self.byte()? else {
                return self.wrong("cut short inside an access");
            };
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        self.wrong("a number of more than ten bytes")
    }

    fn difference(&mut self) -> Result<i64, RecordingError> {
        let coded = self.number()?;
        Ok((coded >> 1) as i64 ^ -((coded & 1) as i64))
    }

    fn string(&mut self) -> Result<String, RecordingError> {
        let length = self.number()?;
        if length == 0 || length > TEXT_BYTES_MAX {
            return self.wrong("a text without a sane length (1 to 65536 bytes)");
        }
        let mut bytes = vec![0; length as usize];
        if self.input.read_exact(&mut bytes).is_err() {
            return self.wrong("cut short inside a text");
        }
        self.at += length;
        match String::from_utf8(bytes) {
            Ok(text) => Ok(text),
            Err(_) => self.wrong("a text that is not UTF-8"),
        }
    }

    fn table(&mut self, tag: u8) -> Result<(), RecordingError> {
        if tag & NEW_TABLE != 0 {
            let name = self.string()?;
            self.table = self.tables.len();
            self.tables.push((name, 0));
        } else if tag & SAME_TABLE == 0 {
            self.table = self.number()? as usize;
        }
        if self.table >= self.tables.len() {
            return self.wrong("a table that was not named");
        }
        Ok(())
    }
}

impl<R: Read> Source for BinaryReader<R> {
    fn next_access(&mut self) -> Result<Option<Access<'_>>, RecordingError> {
        let Some(tag) = self.byte()? else { return Ok(None) };
        if tag >= 32 || (!self.started && tag & SAME_TRANSACTION != 0) {
            return self.wrong("no access begins with this byte");
        }
        self.started = true;
        if tag & SAME_TRANSACTION == 0 {
            self.time_us = self.time_us.wrapping_add(self.difference()?);
            let step = self.difference()?;
            self.transaction = self.transaction.wrapping_add(step as u64);
        }
        self.table(tag)?;
        if tag & TEXT != 0 {
            self.text = self.string()?;
        } else {
            let step = self.difference()?;
            let last = &mut self.tables[self.table].1;
            *last = last.wrapping_add(step);
        }
        let (name, last) = &self.tables[self.table];
        let key = if tag & TEXT != 0 { KeyRef::Text(&self.text) } else { KeyRef::Int(*last) };
        let (time_us, transaction) = (self.time_us, self.transaction);
        Ok(Some(Access { time_us, transaction, table: name, key, write: tag & WRITTEN != 0 }))
    }
}

/// Writes the compact form.
pub struct BinaryWriter<W: Write> {
    output: W,
    tables: Vec<(String, i64)>,
    last: Option<(i64, u64, usize)>,
    line: Vec<u8>,
}

impl<W: Write> BinaryWriter<W> {
    /// Writes the first bytes.
    pub fn new(mut output: W) -> io::Result<BinaryWriter<W>> {
        output.write_all(BINARY_MAGIC)?;
        Ok(BinaryWriter { output, tables: Vec::new(), last: None, line: Vec::new() })
    }

    /// Writes one access.
    pub fn push(&mut self, access: &Access<'_>) -> io::Result<()> {
        let known = self.tables.iter().position(|(name, _)| name == access.table);
        let table = known.unwrap_or(self.tables.len());
        let same_transaction = self.last.is_some_and(|(_, id, _)| id == access.transaction);
        let mut tag = if access.write { WRITTEN } else { 0 };
        self.line.clear();
        self.line.push(0);
        if same_transaction {
            tag |= SAME_TRANSACTION;
        } else {
            let (time, id, _) = self.last.unwrap_or_default();
            difference(&mut self.line, access.time_us.wrapping_sub(time));
            difference(&mut self.line, access.transaction.wrapping_sub(id) as i64);
        }
        if known.is_none() {
            tag |= NEW_TABLE;
            text(&mut self.line, access.table);
            self.tables.push((access.table.to_owned(), 0));
        } else if self.last.is_some_and(|(_, _, last)| last == table) {
            tag |= SAME_TABLE;
        } else {
            number(&mut self.line, table as u64);
        }
        match access.key {
            KeyRef::Int(key) => {
                difference(&mut self.line, key.wrapping_sub(self.tables[table].1));
                self.tables[table].1 = key;
            }
            KeyRef::Text(key) => {
                tag |= TEXT;
                text(&mut self.line, key);
            }
        }
        self.line[0] = tag;
        let time_us = match self.last {
            Some((time, ..)) if same_transaction => time,
            _ => access.time_us,
        };
        self.last = Some((time_us, access.transaction, table));
        self.output.write_all(&self.line)
    }

    /// Returns the output, flushed.
    pub fn finish(mut self) -> io::Result<W> {
        self.output.flush()?;
        Ok(self.output)
    }
}

fn number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn difference(out: &mut Vec<u8>, value: i64) {
    number(out, ((value << 1) ^ (value >> 63)) as u64);
}

fn text(out: &mut Vec<u8>, text: &str) {
    number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}
