//! The writes of an open transaction, which no other transaction sees.
//!
//! Each written row is an intent. It has the new value (`None`: deleted), and the time of the
//! version that was read under the row's lock. The commit compares this time with the newest
//! version's. A rollback to a savepoint undoes from a list of what each write replaced:
//!
//! ```text
//!   put 7 = a     undo: 7 was not written        savepoint s at 1
//!   put 7 = b     undo: 7 was a
//!   put 9 = c     undo: 9 was not written        rollback to s: 9 forgotten, 7 = a
//! ```
//!
//! A statement of several parts that write must not see in one part the writes of another. From
//! [`Workspace::begin_view`] on, the first write of each row also records the intent that it
//! replaced. Reads of the [view](Sees::View) put these back, so they see the workspace as it was
//! then:
//!
//! ```text
//!   7 = a, 9 = c                  the view begins
//!   put 7 = b, delete 8           written: 7 = b, 8 deleted, 9 = c
//!                                 before:  7 = a, 8 none            viewed: 7 = a, 9 = c
//! ```

use isomer_design::{Key, KeyRange, TableId};
use isomer_site::{CheckedWrite as Intent, CheckedWrites, Expect};
use std::collections::BTreeMap;
use std::ops::Bound;

/// The intents that rows had before they were written, by table and key.
type Replaced = BTreeMap<TableId, BTreeMap<Key, Option<Intent>>>;

/// The rows that a scan sees.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sees {
    /// Those of the snapshot, with the transaction's writes as they were when the view began.
    View,
    /// Those that are committed now, with all of the transaction's writes.
    Newest,
}

/// All intents of a transaction.
#[derive(Default)]
pub(crate) struct Workspace {
    tables: CheckedWrites,
    undo: Vec<(TableId, Key, Option<Intent>)>,
    /// False before the first savepoint, because no rollback can reach further back.
    keeps_undo: bool,
    /// The intents as they were when the view began, of all rows written since.
    before: Option<Replaced>,
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

    /// As [`Workspace::get`], as it was when the view began; as it is, without a view.
    pub(crate) fn viewed(&self, table: TableId, key: &Key) -> Option<&Intent> {
        let before = self.before.as_ref().and_then(|before| before.get(&table)?.get(key));
        before.map_or_else(|| self.get(table, key), Option::as_ref)
    }

    /// The intents of a range, in the order of their keys.
    pub(crate) fn range(
        &self,
        sees: Sees,
        table: TableId,
        range: &KeyRange,
    ) -> impl DoubleEndedIterator<Item = (&Key, &Intent)> {
        let before = self.before.as_ref().filter(|_| sees == Sees::View);
        let viewed = before.filter(|before| before.contains_key(&table)).map(|before| {
            let mut viewed: BTreeMap<_, _> = part(&self.tables, table, range).collect();
            for (key, intent) in part(before, table, range) {
                match intent {
                    Some(intent) => viewed.insert(key, intent),
                    None => viewed.remove(key),
                };
            }
            viewed
        });
        let written = viewed.is_none().then(|| part(&self.tables, table, range));
        viewed.into_iter().flatten().chain(written.into_iter().flatten())
    }

    /// Reads of the view see the workspace as it is now, until the view ends.
    pub(crate) fn begin_view(&mut self) {
        self.before = Some(Replaced::new());
    }

    /// Reads of the view see the workspace as it is, again.
    pub(crate) fn end_view(&mut self) {
        self.before = None;
    }

    /// True between the two.
    pub(crate) fn has_view(&self) -> bool {
        self.before.is_some()
    }

    /// True if a row was written since the view began.
    pub(crate) fn is_written_in_view(&self, table: TableId, key: &Key) -> bool {
        let of_table = self.before.as_ref().and_then(|before| before.get(&table));
        of_table.is_some_and(|rows| rows.contains_key(key))
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
        if let Some(before) = &mut self.before {
            let before = before.entry(table).or_default();
            before.entry(key.clone()).or_insert_with(|| rows.get(&key).cloned());
        }
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

    /// Drops all writes of a table. There must be no rollback to a mark any more.
    pub(crate) fn forget(&mut self, table: TableId) {
        self.forget_marks();
        self.tables.remove(&table);
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

/// The part of a range of a table's rows.
fn part<'w, V>(
    tables: &'w BTreeMap<TableId, BTreeMap<Key, V>>,
    table: TableId,
    range: &KeyRange,
) -> impl DoubleEndedIterator<Item = (&'w Key, &'w V)> + use<'w, V> {
    let end = range.end.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
    let rows = tables.get(&table).filter(|_| !range.is_empty());
    let part = rows.map(|rows| rows.range::<Key, _>((Bound::Included(&range.start), end)));
    part.into_iter().flatten()
}
