//! The view that a running procedure has of the database: one snapshot, and its own writes.

use crate::error::Abort;
use crate::overlay::{Overlay, RowWrite};
use crate::source::Source;
use isomer_design::{
    Access, Direction, Footprint, Item, KEY_BYTES_MAX, Key, KeyRange, TableId, Time,
};
use smallvec::SmallVec;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Initial capacity for the writes of a typical transaction, so that it allocates once.
const WRITE_BYTES: usize = 512;
/// Up to this many writes, a linear scan is as fast as a search.
const WRITES_SCANNED_MAX: usize = 12;

/// Up to this many items of a footprint, a linear scan is as fast as a search.
const ITEMS_SCANNED_MAX: usize = 8;

/// A running transaction. Reads see the snapshot and the transaction's own writes, which are
/// buffered until the commit.
pub struct Txn<'a> {
    pub(crate) footprint: &'a Footprint,
    pub(crate) source: Source<'a>,
    pub(crate) snapshot: Time,
    pub(crate) writes: Writes,
    /// The number of rows read.
    pub(crate) rows_read: Cell<usize>,
}

/// Buffered writes.
///
/// A bulk load writes in key order, so its writes are found by bisection. Once a write is out of
/// order, and there are more than [`WRITES_SCANNED_MAX`], a map gives the index of each key.
#[derive(Default)]
pub(crate) struct Writes {
    entries: SmallVec<[Write; 4]>,
    bytes: Vec<u8>,
    disordered: bool,
    by_key: BTreeMap<(TableId, Key), usize>,
}

/// One write: the positions of its key and value among the bytes.
pub(crate) struct Write {
    pub(crate) item: usize,
    key: (usize, usize),
    value: Option<(usize, usize)>,
}

impl Writes {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Write> + Clone {
        self.entries.iter()
    }

    pub(crate) fn key(&self, write: &Write) -> &[u8] {
        &self.bytes[write.key.0..write.key.1]
    }

    pub(crate) fn value(&self, write: &Write) -> Option<&[u8]> {
        write.value.map(|(from, to)| &self.bytes[from..to])
    }

    fn find(&self, items: &[Item], table: TableId, key: &[u8]) -> Option<usize> {
        let place = |write: &Write| (items[write.item].table, self.key(write));
        if self.entries.len() <= WRITES_SCANNED_MAX {
            return self.entries.iter().position(|write| place(write) == (table, key));
        }
        if self.disordered {
            return self.by_key.get(&(table, Key::from_bytes(key))).copied();
        }
        if self.entries.last().is_some_and(|last| place(last) < (table, key)) {
            return None;
        }
        self.entries.binary_search_by(|write| place(write).cmp(&(table, key))).ok()
    }

    fn push_bytes(&mut self, bytes: &[u8]) -> (usize, usize) {
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(WRITE_BYTES);
        }
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        (from, self.bytes.len())
    }

    fn set(&mut self, items: &[Item], item: usize, key: &[u8], value: Option<&[u8]>) {
        match self.find(items, items[item].table, key) {
            Some(at) => self.entries[at].value = value.map(|value| self.push_bytes(value)),
            None => {
                self.add(items, item, key, value);
            }
        }
    }

    /// Adds the first write of a key; returns its index.
    fn add(&mut self, items: &[Item], item: usize, key: &[u8], value: Option<&[u8]>) -> usize {
        let table = items[item].table;
        let place = |last: &Write| (items[last.item].table, self.key(last));
        self.disordered |= self.entries.last().is_some_and(|last| place(last) > (table, key));
        let at = self.entries.len();
        let value = value.map(|value| self.push_bytes(value));
        let key_at = self.push_bytes(key);
        self.entries.push(Write { item, key: key_at, value });
        if self.disordered && at >= WRITES_SCANNED_MAX {
            if self.by_key.is_empty() {
                self.index_all(items);
            } else {
                self.by_key.insert((table, Key::from_bytes(key)), at);
            }
        }
        at
    }

    fn index_all(&mut self, items: &[Item]) {
        let key = |write: &Write| (items[write.item].table, Key::from_bytes(self.key(write)));
        self.by_key = self.entries.iter().map(key).zip(0..).collect();
    }
}

impl Txn<'_> {
    /// The value of a row, or `None` if there is no such row.
    ///
    /// # Errors
    /// [`Abort::OutsideFootprint`].
    pub fn get(&self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, Abort> {
        let item = self.item(table, key, Access::Read)?;
        self.rows_read.set(self.rows_read.get() + 1);
        Ok(self.current(item, table, key))
    }

    /// Writes a row, whether it exists or not.
    ///
    /// # Errors
    /// [`Abort::OutsideFootprint`], [`Abort::KeyTooLong`].
    pub fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), Abort> {
        if key.len() > KEY_BYTES_MAX {
            return Err(Abort::KeyTooLong { bytes: key.len() });
        }
        let item = self.item(table, key, Access::Write)?;
        self.writes.set(self.footprint.items(), item, key, Some(value));
        Ok(())
    }

    /// Writes a row that must not exist.
    ///
    /// # Errors
    /// [`Abort::DuplicateKey`] if it does; otherwise as [`Txn::put`].
    pub fn insert(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), Abort> {
        let item = self.item(table, key, Access::Write)?;
        if self.current(item, table, key).is_some() {
            return Err(Abort::DuplicateKey { table, key: Key::from_bytes(key) });
        }
        self.put(table, key, value)
    }

    /// Changes the bytes of a row in place, keeping its length; `false` if there is no such row.
    ///
    /// # Errors
    /// [`Abort::OutsideFootprint`].
    pub fn update(
        &mut self,
        table: TableId,
        key: &[u8],
        change: impl FnOnce(&mut [u8]),
    ) -> Result<bool, Abort> {
        let item = self.item(table, key, Access::Write)?;
        let at = match self.writes.find(self.footprint.items(), table, key) {
            Some(at) => at,
            None => {
                let Some(value) = self.stored(item, table, key) else { return Ok(false) };
                self.writes.add(self.footprint.items(), item, key, Some(value))
            }
        };
        let Some((from, to)) = self.writes.entries[at].value else { return Ok(false) };
        change(&mut self.writes.bytes[from..to]);
        Ok(true)
    }

    /// Deletes a row; `false` if there is no such row.
    ///
    /// # Errors
    /// [`Abort::OutsideFootprint`].
    pub fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, Abort> {
        let item = self.item(table, key, Access::Write)?;
        let exists = self.current(item, table, key).is_some();
        if exists {
            self.writes.set(self.footprint.items(), item, key, None);
        }
        Ok(exists)
    }

    /// Visits the rows of a range in the order of their keys, until `visit` breaks.
    ///
    /// # Errors
    /// [`Abort::OutsideFootprint`] unless one item of the footprint covers the range.
    pub fn scan(
        &self,
        table: TableId,
        range: &KeyRange,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Abort> {
        if range.is_empty() {
            return Ok(());
        }
        let item = self.covering(table, range)?;
        let own = self.own_writes(table, range);
        let mut overlay = Overlay::new(own.into_iter(), Direction::Forward, &mut visit);
        let mut rows = 0;
        self.source.scan(item, table, (range, Direction::Forward), |key, row, _| {
            rows += 1;
            overlay.stored(key, row)
        });
        overlay.end();
        self.rows_read.set(self.rows_read.get() + rows);
        Ok(())
    }

    /// The numbers of rows read and written so far.
    pub fn rows(&self) -> [usize; 2] {
        [self.rows_read.get(), self.writes.entries.len()]
    }

    /// The number of partitions that it has resolved at this site; 0 if its rows were gathered.
    pub fn partitions(&self) -> usize {
        match &self.source {
            Source::Here(copies) => copies.partitions.len(),
            Source::Gathered(_) => 0,
        }
    }

    /// The time of the transaction's snapshot.
    pub fn snapshot(&self) -> Time {
        self.snapshot
    }

    /// The item of the footprint that covers a range.
    pub(crate) fn covering(&self, table: TableId, range: &KeyRange) -> Result<usize, Abort> {
        let covers = |item: &Item| item.table == table && item.span.covers(range);
        let item = self.footprint.items().iter().position(covers);
        item.ok_or_else(|| self.outside(format!("scan of {table}{range}")))
    }

    /// The item of the footprint that allows `access` to a key.
    pub(crate) fn item(&self, table: TableId, key: &[u8], access: Access) -> Result<usize, Abort> {
        let items = self.footprint.items();
        let allows =
            |item: &Item| item.table == table && item.access >= access && item.span.contains(key);
        // Of many items, most name a single key, so bisection finds it.
        let from = match items.len() {
            0..=ITEMS_SCANNED_MAX => 0,
            _ => items
                .partition_point(|item| (item.table, item.span.start().as_bytes()) < (table, key)),
        };
        // A range that covers the key begins before it: of disjoint ranges, it is the last one
        // before.
        let first = from.saturating_sub(ITEMS_SCANNED_MAX);
        let near = items[first..].iter().take(2 * ITEMS_SCANNED_MAX).position(allows);
        let found = near.map(|at| first + at).or_else(|| items.iter().position(allows));
        found.ok_or_else(|| {
            let verb = if access == Access::Write { "write" } else { "read" };
            self.outside(format!("{verb} of {table}[{}]", Key::from_bytes(key)))
        })
    }

    #[cold]
    fn outside(&self, what: String) -> Abort {
        Abort::OutsideFootprint { what, footprint: self.footprint.to_string() }
    }

    fn current(&self, item: usize, table: TableId, key: &[u8]) -> Option<&[u8]> {
        if !self.writes.is_empty()
            && let Some(at) = self.writes.find(self.footprint.items(), table, key)
        {
            return self.writes.value(&self.writes.entries[at]);
        }
        self.stored(item, table, key)
    }

    fn own_writes(&self, table: TableId, range: &KeyRange) -> Vec<(&[u8], Option<&[u8]>)> {
        let mut own: Vec<_> = self
            .writes
            .iter()
            .filter(|write| self.footprint.items()[write.item].table == table)
            .map(|write| (self.writes.key(write), self.writes.value(write)))
            .filter(|(key, _)| range.contains(key))
            .collect();
        own.sort_unstable_by_key(|(key, _)| *key);
        own
    }
}

impl<'a> Txn<'a> {
    /// All writes, ordered by table and key.
    pub(crate) fn written(&self) -> Vec<RowWrite> {
        let owned = |write: &Write| RowWrite {
            table: self.footprint.items()[write.item].table,
            key: Key::from_bytes(self.writes.key(write)),
            value: self.writes.value(write).map(<[u8]>::to_vec),
        };
        let mut written: Vec<RowWrite> = self.writes.iter().map(owned).collect();
        written.sort_unstable_by(|a, b| (a.table, &a.key).cmp(&(b.table, &b.key)));
        written
    }

    /// A transaction that has done nothing yet.
    pub(crate) fn new(footprint: &'a Footprint, source: Source<'a>, snapshot: Time) -> Txn<'a> {
        let (writes, rows_read) = (Writes::default(), Cell::new(0));
        Txn { footprint, source, snapshot, writes, rows_read }
    }

    /// The row's value in the snapshot.
    fn stored(&self, item: usize, table: TableId, key: &[u8]) -> Option<&'a [u8]> {
        self.source.row(item, table, key)?.1
    }
}
