//! The commit of an open transaction: checked writes, whose footprint is what was written.
//!
//! ```text
//!   intents   accounts/7, accounts/700, history/12          strategy: where?
//!   masters   s1          s2            s1
//!                                       at one site          over several
//!   footprint, few writes               their keys           their keys
//!   footprint, many writes              from .. to           their keys: a range would be gathered
//!                                                            with all that is in it
//! ```
//!
//! Whether the rows are brought together first or committed where they are is the strategy's to say
//! ([`Place`](isomer_strategy::Place)); what is asked for is the same.

use super::gateway::Patience;
use super::transaction::OpenError;
use crate::database::Database;
use crate::error::Error;
use crate::router::{Ran, Session};
use isomer_design::{Access, Footprint, Key, KeyRange, Route, Span, TableId};
use isomer_site::{Abort, Body, CheckedWrites, Published, Request};
use std::collections::BTreeSet;
use std::task::Waker;

/// A commit at one site names its keys one by one up to this many; beyond, ranges of them.
const KEYS_MAX: usize = 24;

/// Who is told that the writes can be seen, and whose patience ends the waiting.
pub(super) struct Until<'t> {
    pub(super) published: Published<'t>,
    pub(super) patience: &'t Patience,
}

/// Commits wherever the strategy says.
pub(super) fn commit(
    database: &Database,
    session: &mut Session,
    writes: &CheckedWrites,
    is_hasty: bool,
    until: Until<'_>,
) -> Result<Ran, OpenError> {
    let footprint = footprint(database, writes);
    let request = Request { is_hasty, ..Request::new(&footprint, Body::Writes(writes)) };
    let over = |waker: &Waker| until.patience.poll_over(waker);
    match database.serve_until(session, request, until.published, &over) {
        Err(Error::Abort(Abort::Changed { .. })) => Err(OpenError::Changed),
        result => Ok(result?.0),
    }
}

/// What a commit writes.
fn footprint(database: &Database, writes: &CheckedWrites) -> Footprint {
    let mut footprint = Footprint::new();
    for (&table, rows) in writes {
        if rows.len() <= KEYS_MAX {
            add_keys(&mut footprint, table, rows.keys());
        } else {
            for range in ranges(database, table, rows.keys()) {
                footprint.add(table, Span::Range(range), Access::Write);
            }
        }
    }
    if !matches!(database.routing_table().home(&footprint), Route::Nowhere { .. }) {
        return footprint;
    }
    let mut by_key = Footprint::new();
    writes.iter().for_each(|(table, rows)| add_keys(&mut by_key, *table, rows.keys()));
    by_key
}

fn add_keys<'k>(footprint: &mut Footprint, table: TableId, keys: impl Iterator<Item = &'k Key>) {
    keys.for_each(|key| footprint.add(table, Span::Key(key.clone()), Access::Write));
}

/// For each partition, the range from the first to the last of its keys: locks are the partition's
/// anyway.
fn ranges<'k>(
    database: &Database,
    table: TableId,
    keys: impl Iterator<Item = &'k Key>,
) -> Vec<KeyRange> {
    let design = database.design();
    let mut rest = keys.peekable();
    let mut ranges = BTreeSet::new();
    while let Some(first) = rest.next() {
        let partition = design.partition_of(table, first).map(|(range, _)| range);
        let inside = |key: &&Key| partition.as_ref().is_none_or(|range| range.contains(key));
        let mut last = first;
        while let Some(key) = rest.next_if(inside) {
            last = key;
        }
        ranges.insert((first.clone(), last.successor()));
    }
    ranges.into_iter().map(|(first, end)| KeyRange::new(first, Some(end))).collect()
}
