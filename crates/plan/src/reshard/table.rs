//! From rows to new chunks: the amount of each chunk at each site.
//!
//! ```text
//!   rows by the old key    s1 a b c   s2 d e f        where each row is now
//!   rows by the new key    b d │ a f │ c e            cut into chunks, never inside a value
//! ```
//!
//! A chunk is a range of values of the new key, so that it can become a partition
//! ([`NewChunks::design`]). Chunks are as even as undivided values allow.

use super::{AssignError, Chunks, Placement};
use crate::assign::check_sites;
use crate::problem::{MappedError, encode_key, key_type};
use crate::recording::{Fault, Lines, OnFault, RecordedKey, RecordingError, parse_key, unpack};
use isomer_design::{Column, Design, Key, Placement as Sites, Schema, SiteId, TableId};
use std::io::Read;
use thiserror::Error;

/// Why a table gives no chunks.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TableError {
    /// The table cannot be read.
    #[error(transparent)]
    Read(#[from] RecordingError),
    /// A column that the table does not have.
    #[error("no column \"{name}\": the table has {known}")]
    Column {
        /// The name asked for.
        name: String,
        /// The columns there are.
        known: String,
    },
    /// More chunks than values.
    #[error(
        "{chunks} chunks of {values} different values of {column}: from 1 chunk to one for each \
         value can be made"
    )]
    Chunks {
        /// Chunks asked for.
        chunks: usize,
        /// The new key's column.
        column: String,
        /// Its different values.
        values: usize,
    },
    /// No placement exists.
    #[error(transparent)]
    Assign(#[from] AssignError),
}

/// The current sites of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowSource {
    /// The old key's sorted values, cut into as many equal ranges as there are sites.
    Ranges,
    /// Old chunks, the same number as new ones, dealt over the sites in turn.
    DealtChunks,
}

/// A change of the shard key.
#[derive(Clone, Copy, Debug)]
pub struct KeyChange<'a> {
    /// The column that decides a row's site now.
    pub old: &'a str,
    /// The column that will decide it.
    pub new: &'a str,
    /// The column with the weight of a row: its bytes, or its number of accesses. Without one every
    /// row counts 1.
    pub weight: Option<&'a str>,
    /// New chunks to make.
    pub chunks: usize,
    /// Sites there are.
    pub sites: usize,
    /// The current sites of rows.
    pub source: RowSource,
}

/// New chunks: the amount of each at each site, and the first value of each.
#[derive(Clone, Debug)]
pub struct NewChunks {
    /// The amount of each chunk at each site.
    pub chunks: Chunks,
    /// The first value of the new key in each chunk, rising.
    pub firsts: Vec<RecordedKey>,
}

/// One row: its values of the old and the new key, and its weight.
struct Row {
    old: RecordedKey,
    new: RecordedKey,
    weight: u64,
}

/// Reads a CSV table and cuts it into new chunks of about equal numbers of rows by the values of
/// the new key. The current site of a row follows from its value of the old key.
pub fn chunks_of_table(input: impl Read, change: &KeyChange<'_>) -> Result<NewChunks, TableError> {
    let mut rows = read(input, change)?;
    let KeyChange { chunks, sites, source, .. } = *change;
    check_sites(sites, chunks)?;
    rows.sort_by(|a, b| a.old.cmp(&b.old));
    let count = rows.len();
    let site_of = |rank: usize| match source {
        RowSource::Ranges => rank * sites / count,
        RowSource::DealtChunks => rank * chunks.max(1) / count % sites,
    };
    let mut placed: Vec<(Row, u32)> =
        rows.into_iter().enumerate().map(|(rank, row)| (row, site_of(rank) as u32)).collect();
    placed.sort_by(|a, b| a.0.new.cmp(&b.0.new));
    let cuts = cut(&placed, change)?;
    let mut result = NewChunks { chunks: Chunks::new(sites), firsts: Vec::new() };
    for range in cuts {
        let chunk = &placed[range];
        result.chunks.push(chunk.iter().map(|(row, site)| (*site, row.weight)))?;
        result.firsts.extend(chunk.first().map(|(row, _)| row.new.clone()));
    }
    Ok(result)
}

/// Cuts rows, sorted by the new key, into chunks. A chunk ends with the value that fills its share,
/// or earlier if each remaining chunk needs a value.
fn cut(
    rows: &[(Row, u32)],
    change: &KeyChange<'_>,
) -> Result<Vec<std::ops::Range<usize>>, TableError> {
    let by_value = |a: &(Row, u32), b: &(Row, u32)| a.0.new == b.0.new;
    let (chunks, mut values) = (change.chunks, rows.chunk_by(by_value).count());
    if chunks == 0 || chunks > values {
        let column = change.new.to_owned();
        return Err(TableError::Chunks { chunks, column, values });
    }
    let (mut cuts, mut start, mut end) = (Vec::with_capacity(chunks), 0, 0);
    for value in rows.chunk_by(by_value) {
        end += value.len();
        values -= 1;
        let left = chunks - cuts.len() - 1;
        let is_full = end >= (cuts.len() + 1) * rows.len() / chunks;
        if values == left || (is_full && left > 0) {
            cuts.push(start..end);
            start = end;
        }
    }
    Ok(cuts)
}

impl NewChunks {
    /// The design of the table under its new key: one partition per chunk, at the site that the
    /// placement gives it. Sites are s1 to s*n* for `n` sites.
    ///
    /// # Errors
    /// [`MappedError`]: names that no table or column of a design can have, or too many sites.
    pub fn design(
        &self,
        table: &str,
        column: &str,
        placement: &Placement,
    ) -> Result<Design, MappedError> {
        let sites = self.chunks.sites();
        if sites > usize::from(isomer_design::SITES_MAX) {
            return Err(MappedError::Sites { sites });
        }
        let ty = key_type(self.firsts.iter());
        let schema = Schema::new(table, vec![Column::new(column, ty)], &[column])?;
        let mut partitions = Vec::new();
        for (first, site) in self.firsts.iter().zip(&placement.sites) {
            let start = match partitions.is_empty() {
                true => Key::min(),
                false => encode_key(&schema, first)?,
            };
            partitions.push((start, Sites::at(SiteId(*site as u16 + 1))));
        }
        let mut design = Design::new((1..=sites as u16).map(SiteId))?;
        design.create_table(TableId(1), schema, partitions)?;
        Ok(design)
    }
}

fn read(input: impl Read, change: &KeyChange<'_>) -> Result<Vec<Row>, TableError> {
    let mut lines = Lines::new(unpack(input)?, OnFault::Stop);
    if !lines.advance()? {
        return Err(RecordingError::Empty.into());
    }
    let names: Vec<String> = (0..lines.count()).map(|at| lines.field(at).to_owned()).collect();
    let find = |name: &str| {
        names
            .iter()
            .position(|other| other == name)
            .ok_or_else(|| TableError::Column { name: name.to_owned(), known: names.join(", ") })
    };
    let (old, new) = (find(change.old)?, find(change.new)?);
    let weight = change.weight.map(find).transpose()?;
    let mut rows = Vec::new();
    while lines.advance()? {
        if lines.count() != names.len() {
            let problem = format!("{} fields, the header has {}", lines.count(), names.len());
            let fault = lines.fault_in(lines.count().min(names.len()), "row", problem);
            lines.fault(fault)?;
        }
        let key = |at: usize| parse_key(lines.field(at)).into();
        let weight =
            weight.map_or(Ok(1), |at| weigh(&lines, at)).map_err(RecordingError::Malformed)?;
        rows.push(Row { old: key(old), new: key(new), weight });
    }
    if rows.is_empty() {
        return Err(RecordingError::Empty.into());
    }
    // A text column sorts its numbers as texts too, because chunks must be ranges of the design's
    // keys.
    if key_type(rows.iter().map(|row| &row.new)) == isomer_design::ColumnType::Text {
        for row in &mut rows {
            row.new = RecordedKey::Text(row.new.to_string().into());
        }
    }
    Ok(rows)
}

fn weigh(lines: &Lines<impl Read>, at: usize) -> Result<u64, Fault> {
    let text = lines.field(at);
    text.parse().map_err(|_| {
        lines.fault_in(
            at,
            "weight",
            format!("\"{text}\" is no weight: whole numbers from 0 on are"),
        )
    })
}
