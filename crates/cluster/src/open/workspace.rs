//! The writes of an open transaction, which no other transaction sees.
//!
//! Each written row is an intent. It has the new value (`None`: deleted), and the time of the
//! version that was read under the row's lock. The commit compares this time with the newest
//! version's. A rollback to a savepoint undoes from a list of what each write replaced:

use isomer_design::{Key, KeyRange, TableId};
use isomer_site::{CheckedWrite as Intent, CheckedWrites, Expect};
use std::ops::Bound;

/// All intents of a transaction.
#[derive(Default)]
pub(crate) struct Workspace {
    tables: CheckedWrites,
    undo: Vec<(TableId, Key, Option<Intent>)>,
    /// False before the first savepoint, because no rollback can reach further back.
    keeps_undo: bool,
    bytes: usize,
}

impl Workspace {
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// The approximate number of bytes that the intents take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn get(&self, table: TableId, key: &[u8]) -> Option<&Intent> {
        self.tables.get(&table)?.get(key)
    }

    /// The intents of a range, in the order of their keys.
    pub(crate) fn range(
        &self,
        table: TableId,
        range: &KeyRange,
    ) -> impl DoubleEndedIterator<Item = (&Key, &Intent)> {
        let end = range.end.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let rows = self.tables.get(&table).filter(|_| !range.is_empty());
        rows.map(|rows| rows.range::<Key, _>((Bound::Included(&range.start), end)))
            .into_iter()
            .flatten()
    }

    /// All intents, as the commit writes them.
    pub(crate) fn writes(&self) -> &CheckedWrites {
        &self.tables
    }

    /// Writes a row. The commit fails unless its newest committed version is the expected one.
    pub(crate) fn put(&mut self, table: TableId, key: Key, expect: Expect, row: Option<Vec<u8>>) {
        const ENTRY_BYTES: usize = 64;
        self.bytes += ENTRY_BYTES + key.len() + row.as_ref().map_or(0, Vec::len);
        let rows = self.tables.entry(table).or_default();
        let (undo_key, keeps_undo) = (self.keeps_undo.then(|| key.clone()), self.keeps_undo);
        // The first write decides which version is expected: later ones replace an intent, not a
        // version.
        let expect = rows.get(&key).map_or(expect, |intent| intent.expect);
        let before = rows.insert(key, Intent { expect, row });
        if let (true, Some(key)) = (keeps_undo, undo_key) {
            self.undo.push((table, key, before));
        }
    }

    /// A mark for [`Workspace::back_to`].
    pub(crate) fn mark(&mut self) -> usize {
        self.keeps_undo = true;
        self.undo.len()
    }

    /// Drops the undo list: there is no rollback to a mark any more.
    pub(crate) fn forget_marks(&mut self) {
        self.keeps_undo = false;
        self.undo = Vec::new();
    }

    /// Undoes all writes since a mark.
    pub(crate) fn back_to(&mut self, mark: usize) {
        while self.undo.len() > mark {
            let (table, key, before) = self.undo.pop().expect("it is longer than the mark");
            let rows = self.tables.entry(table).or_default();
            match before {
                Some(intent) => rows.insert(key, intent),
                None => rows.remove(&key),
            };
            if rows.is_empty() {
                self.tables.remove(&table);
            }
        }
    }
}
