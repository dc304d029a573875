//! The commit of an open transaction: one procedure whose footprint is what was written.
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
//! ([`Place`](isomer_strategy::Place)); the procedure is the same.

use super::gateway::Gateway;
use super::locks::Owner;
use super::transaction::OpenError;
use super::workspace::{Expect, Workspace};
use crate::database::Database;
use crate::error::Error;
use crate::router::{Ran, Session};
use isomer_design::{Access, Footprint, Key, KeyRange, Route, Span, TableId, Time};
use isomer_site::{Abort, Procedure, Txn};
use std::collections::BTreeSet;

/// A commit at one site names its keys one by one up to this many; beyond, ranges of them.
const KEYS_MAX: usize = 24;
/// What the procedure says when a row has changed behind the row locks.
const CHANGED: &str = "a row was changed by a transaction that takes no row locks";

/// The procedure of a commit: all intents, if their rows are those that were read.
///
/// Row locks are given back when the writes can be seen, before they are durable: whoever reads them
/// waits for the same log before its own client is told, so a row that many want costs each of them its
/// statements, not a disk.
pub(super) struct Writing<'t> {
    pub(super) workspace: &'t Workspace,
    pub(super) gateway: &'t Gateway,
    pub(super) owner: Owner,
    pub(super) locked: &'t mut Vec<(TableId, Key)>,
    pub(super) is_hasty: bool,
}

impl Procedure for Writing<'_> {
    fn run(&mut self, txn: &mut Txn<'_>) -> Result<(), Abort> {
        for (table, rows) in self.workspace.tables() {
            for (key, intent) in rows {
                let newest = txn.committed(table, key)?.map(|(time, _)| time);
                if matches!(intent.base, Expect::Version(base) if base != newest) {
                    return Err(Abort::because(CHANGED));
                }
                match &intent.row {
                    Some(row) => txn.put(table, key, row)?,
                    None if newest.is_some() => {
                        txn.delete(table, key)?;
                    }
                    None => {}
                }
            }
        }
        Ok(())
    }

    fn is_hasty(&self) -> bool {
        self.is_hasty
    }

    fn published(&mut self, time: Time) {
        // In this order: who gets a lock takes a snapshot that is not before this commit.
        self.gateway.published(time);
        self.gateway.release(self.owner, &std::mem::take(self.locked));
    }
}

impl Writing<'_> {
    /// Commits wherever the strategy says.
    pub(super) fn commit(&mut self, session: &mut Session) -> Result<Ran, OpenError> {
        let database = self.gateway.database();
        let footprint = footprint(database, self.workspace);
        match database.run_procedure(session, &footprint, self) {
            Err(Error::Abort(Abort::Rolled(why))) if why == CHANGED => Err(OpenError::Changed),
            result => Ok(result?),
        }
    }
}

/// What a commit writes.
fn footprint(database: &Database, workspace: &Workspace) -> Footprint {
    let mut footprint = Footprint::new();
    for (table, rows) in workspace.tables() {
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
    workspace.tables().for_each(|(table, rows)| add_keys(&mut by_key, table, rows.keys()));
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
