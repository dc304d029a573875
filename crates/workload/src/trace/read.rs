//! Reads a trace: a CSV file with the columns `time_s,key,size`, compressed with zstd.

use super::{Request, Trace};
use csv::{ByteRecord, ReaderBuilder};
use ruzstd::decoding::StreamingDecoder;
use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use thiserror::Error;

const COLUMNS: [&str; 3] = ["time_s", "key", "size"];

/// Why a trace cannot be read.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The file cannot be opened.
    #[error("cannot open the trace {path}: {source}")]
    Open {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not a zstd file.
    #[error("the trace does not begin like a zstd file: {reason}")]
    NotZstd {
        /// The error of the decompressor.
        reason: String,
    },
    /// The file cannot be decompressed, or is not valid CSV.
    #[error("cannot read the trace: {0}")]
    Csv(#[from] csv::Error),
    /// The header names other columns.
    #[error("the columns of the trace are `{found}`: `time_s,key,size` are needed")]
    Columns {
        /// The columns of the header.
        found: String,
    },
    /// A field is not a number below 2^32.
    #[error("line {line} of the trace: {column} is `{text}`, not a number below 2^32")]
    Field {
        /// The line, from 1.
        line: u64,
        /// The column.
        column: &'static str,
        /// The text of the field.
        text: String,
    },
}

impl Trace {
    /// Reads a compressed file.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn open(path: impl AsRef<Path>) -> Result<Trace, TraceError> {
        let path = path.as_ref();
        let file = File::open(path)
            .map_err(|source| TraceError::Open { path: path.to_owned(), source })?;
        let decoder = StreamingDecoder::new(BufReader::new(file))
            .map_err(|error| TraceError::NotZstd { reason: error.to_string() })?;
        Trace::read(decoder)
    }

    /// Reads uncompressed CSV. Keys are renumbered from 0 by their first appearance.
    ///
    /// # Errors
    /// [`TraceError`].
    pub fn read(text: impl Read) -> Result<Trace, TraceError> {
        let mut reader = ReaderBuilder::new().from_reader(BufReader::new(text));
        let columns = reader.byte_headers()?;
        if *columns != COLUMNS[..] {
            let columns: Vec<_> = columns.iter().map(String::from_utf8_lossy).collect();
            return Err(TraceError::Columns { found: columns.join(",") });
        }
        let mut trace = Trace { requests: Vec::new(), key_bytes: Vec::new() };
        // The map is never iterated, so its order does not affect the result.
        let mut numbers: HashMap<u32, u32, BuildHasherDefault<DefaultHasher>> = HashMap::default();
        let mut record = ByteRecord::new();
        while reader.read_byte_record(&mut record)? {
            let [second, name, bytes] = fields(&record)?;
            let next = trace.key_bytes.len() as u32;
            let key = *numbers.entry(name).or_insert(next);
            let is_first = key == next;
            if is_first {
                trace.key_bytes.push(bytes);
            }
            trace.requests.push(Request { second, key, bytes, is_first });
        }
        Ok(trace)
    }
}

fn fields(record: &ByteRecord) -> Result<[u32; 3], TraceError> {
    let mut fields = [0; 3];
    for ((field, text), column) in fields.iter_mut().zip(record).zip(COLUMNS) {
        let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        *field = number.ok_or_else(|| TraceError::Field {
            line: record.position().map_or(0, csv::Position::line),
            column,
            text: String::from_utf8_lossy(text).into_owned(),
        })?;
    }
    Ok(fields)
}
