//! The writes of an open transaction, which nobody else sees.
//!
//! Each written row is an intent: the new value (`None`: deleted), and the time of the version that
//! was read under the row's lock, which the commit compares with the newest. Going back to a
//! savepoint undoes from a list of what each write replaced:
//!
//! ```text
//!   put 7 = a     undo: 7 was not written        savepoint s at 1
//!   put 7 = b     undo: 7 was a
//!   put 9 = c     undo: 9 was not written        rollback to s: 9 forgotten, 7 = a
//! ```

use isomer_design::{Key, KeyRange, TableId};
use isomer_site::{CheckedWrite as Intent, CheckedWrites, Expect};
use std::ops::Bound;

/// All intents of a transaction.
#[derive(Default)]
pub(crate) struct Workspace {
    tables: CheckedWrites,
    undo: Vec<(TableId, Key, Option<Intent>)>,
    /// Nobody can go back to before the first savepoint, so nothing is kept until there is one.
    keeps_undo: bool,
    bytes: usize,
}

impl Workspace {
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// About how much memory the intents take.
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

    /// All intents, as they are to be committed.
    pub(crate) fn writes(&self) -> &CheckedWrites {
        &self.tables
    }

    /// Writes a row whose newest committed version is as expected.
    pub(crate) fn put(&mut self, table: TableId, key: Key, expect: Expect, row: Option<Vec<u8>>) {
        const ENTRY_BYTES: usize = 64;
        self.bytes += ENTRY_BYTES + key.len() + row.as_ref().map_or(0, Vec::len);
        let rows = self.tables.entry(table).or_default();
        let (undo_key, keeps_undo) = (self.keeps_undo.then(|| key.clone()), self.keeps_undo);
        // What is expected is that of the first write: later ones replace an intent, not a version.
        let expect = rows.get(&key).map_or(expect, |intent| intent.expect);
        let before = rows.insert(key, Intent { expect, row });
        if let (true, Some(key)) = (keeps_undo, undo_key) {
            self.undo.push((table, key, before));
        }
    }

    /// Where the workspace is now.
    pub(crate) fn mark(&mut self) -> usize {
        self.keeps_undo = true;
        self.undo.len()
    }

    /// Nobody goes back to a mark any more.
    pub(crate) fn forget_marks(&mut self) {
        self.keeps_undo = false;
        self.undo = Vec::new();
    }

    /// Goes back to a mark.
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
