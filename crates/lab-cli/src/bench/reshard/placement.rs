//! The share of rows that travel, by the planner that chooses the sites of the new chunks: Morphus'
//! Figure 7.

use isomer::failure::Failure;
use isomer_plan::generate::random;
use isomer_plan::reshard::{KeyChange, Placement, RowSource, chunks_of_table};
use serde::Serialize;
use std::fmt::Write;

/// Rows with related keys.
const ROWS: i64 = 100_000;
/// Chunks for each site.
const CHUNKS: usize = 16;

/// Shares of the rows that change their site.
#[derive(Serialize)]
pub(super) struct Moved {
    /// Each chunk goes to the site with most of it.
    pub(super) greedy: f64,
    /// The least that travels if each site gets the same number of chunks.
    pub(super) balanced: f64,
    /// Each chunk goes to a random site.
    pub(super) random: f64,
}

/// For rows whose new key is the old one backwards, the closest relation that keys can have.
pub(super) fn related(sites: u16) -> Result<Moved, Failure> {
    moved((0..ROWS).map(|old| (old, ROWS - old)), sites)
}

/// For rows with these old and new keys.
pub(super) fn moved(rows: impl Iterator<Item = (i64, i64)>, sites: u16) -> Result<Moved, Failure> {
    let (mut text, mut count) = ("old,new\n".to_owned(), 0);
    for (old, new) in rows {
        let _ = writeln!(text, "{old},{new}");
        count += 1;
    }
    let sites = usize::from(sites);
    let source = RowSource::Ranges;
    let change =
        KeyChange { old: "old", new: "new", weight: None, chunks: CHUNKS * sites, sites, source };
    let chunks = chunks_of_table(text.as_bytes(), &change).map_err(Failure::failed)?.chunks;
    let part = |placement: Placement| placement.transfer(&chunks) as f64 / f64::from(count);
    Ok(Moved {
        greedy: part(Placement::greedy(&chunks)),
        balanced: part(Placement::balanced(&chunks).map_err(Failure::failed)?),
        random: part(Placement::random(&chunks, &mut random(1))),
    })
}
