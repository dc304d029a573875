//! From rows to new chunks: who has what of each.

use super::{AssignError, Chunks};
use crate::recording::{OnFault, RecordedKey, RecordingError};
use std::io::Read;
use thiserror::Error;

/// Why a table gives no chunks.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TableError {
    /// The table cannot be read.
    #[error(transparent)]
    Read(#[from] RecordingError),
    /// A column that is not there.
    #[error("no column \"{name}\": the table has {known}")]
    Column {
        /// The name asked for.
        name: String,
        /// The columns there are.
        known: String,
    },
    /// More chunks than keys.
    #[error("{chunks} chunks of {rows} rows: from 1 chunk to one for each row can be made")]
    Chunks {
        /// Chunks asked for.
        chunks: usize,
        /// Rows there are.
        rows: usize,
    },
    /// The placement cannot be had.
    #[error(transparent)]
    Assign(#[from] AssignError),
}

/// Where rows are now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowSource {
    /// The old key's sorted values, cut into as many equal ranges as there are sites.
    Ranges,
    /// Old chunks, as many as new ones, dealt over the sites in turn.
    DealtChunks,
}

/// Reads a CSV table and cuts it into `chunks` new chunks of equal size by the values of `new`;
/// rows are now where their value of `old` puts them.
pub fn chunks_of_table(
    input: impl Read,
    old: &str,
    new: &str,
    chunks: usize,
    sites: usize,
    source: RowSource,
) -> Result<Chunks, TableError> {
    let rows = read(input, old, new)?;
    if sites == 0 {
        return Err(AssignError::NoSites(chunks).into());
    }
    if chunks == 0 || chunks > rows.len() {
        return Err(TableError::Chunks { chunks, rows: rows.len() });
    }
    let mut by_old: Vec<usize> = (0..rows.len()).collect();
    by_old.sort_by(|&a, &b| rows[a].0.cmp(&rows[b].0));
    let mut site_of = vec![0u32; rows.len()];
    for (rank, &row) in by_old.iter().enumerate() {
        site_of[row] = match source {
            RowSource::Ranges => (rank * sites / rows.len()) as u32,
            RowSource::DealtChunks => (rank * chunks / rows.len() % sites) as u32,
        };
    }
    let mut by_new: Vec<usize> = (0..rows.len()).collect();
    by_new.sort_by(|&a, &b| rows[a].1.cmp(&rows[b].1));
    let mut result = Chunks::new(sites);
    for chunk in 0..chunks {
        let (from, to) = (chunk * rows.len() / chunks, (chunk + 1) * rows.len() / chunks);
        result.push(by_new[from..to].iter().map(|&row| (site_of[row], 1)))?;
    }
    Ok(result)
}

fn read(
    input: impl Read,
    old: &str,
    new: &str,
) -> Result<Vec<(RecordedKey, RecordedKey)>, TableError> {
    let input = crate::recording::unpack(input)?;
    let mut lines = crate::recording::Lines::new(input, OnFault::Stop);
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
    let (old, new) = (find(old)?, find(new)?);
    let mut rows = Vec::new();
    while lines.advance()? {
        if lines.count() != names.len() {
            let problem = format!("{} fields, the header has {}", lines.count(), names.len());
            let fault = lines.fault_in(lines.count().min(names.len()), "row", problem);
            lines.fault(fault)?;
        }
        let key = |at: usize| crate::recording::parse_key(lines.field(at)).into();
        rows.push((key(old), key(new)));
    }
    if rows.is_empty() {
        return Err(RecordingError::Empty.into());
    }
    Ok(rows)
}
