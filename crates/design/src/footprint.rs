//! Footprints: the keys that a transaction will read and write, declared before it runs.
//!
//! The router needs a footprint to find a site where the transaction can run. The site needs it to
//! lock the write set in key order, and to take one snapshot for the read set. Access outside the
//! footprint is an error, so a footprint may contain more than is used, never less.

use crate::{Key, KeyRange, TableId};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;

/// The access to an item of a footprint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Access {
    /// Read only.
    Read,
    /// Written, and possibly read.
    Write,
}

/// The keys of one item of a footprint. Spans are ordered by their first key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Span {
    /// One key.
    Key(Key),
    /// A range of keys.
    Range(KeyRange),
}

impl Ord for Span {
    fn cmp(&self, other: &Span) -> Ordering {
        self.start().cmp(other.start()).then_with(|| match (self, other) {
            (Span::Key(_), Span::Key(_)) => Ordering::Equal,
            (Span::Key(_), Span::Range(_)) => Ordering::Less,
            (Span::Range(_), Span::Key(_)) => Ordering::Greater,
            (Span::Range(a), Span::Range(b)) => a.end.cmp(&b.end),
        })
    }
}

impl PartialOrd for Span {
    fn partial_cmp(&self, other: &Span) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Span {
    /// The first key covered.
    pub fn start(&self) -> &Key {
        match self {
            Span::Key(key) => key,
            Span::Range(range) => &range.start,
        }
    }

    /// True if `key` is covered.
    pub fn contains(&self, key: &[u8]) -> bool {
        match self {
            Span::Key(mine) => mine.as_bytes() == key,
            Span::Range(range) => range.contains(key),
        }
    }

    /// True if every key of `range` is covered.
    pub fn covers(&self, range: &KeyRange) -> bool {
        match self {
            Span::Key(key) => *range == KeyRange::single(key.clone()),
            Span::Range(mine) => mine.covers(range),
        }
    }

    /// True if the span reaches `key` or beyond it: some covered key is not less than `key`.
    pub fn reaches(&self, key: &[u8]) -> bool {
        match self {
            Span::Key(mine) => mine.as_bytes() >= key,
            Span::Range(range) => range.is_below_end(key),
        }
    }
}

/// One item of a footprint.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Item {
    /// The table.
    pub table: TableId,
    /// The keys.
    pub span: Span,
    /// The access.
    pub access: Access,
}

/// A transaction's read and write set: items sorted by table and key.
///
/// ```
/// use isomer_design::{Footprint, Key, KeyRange, TableId};
/// let accounts = TableId(1);
/// let footprint = Footprint::new()
///     .write(accounts, Key::int(5))
///     .read_range(accounts, KeyRange::ints(10, 20));
/// assert_eq!(footprint.to_string(), "write t1[5], read t1[10..20)");
/// ```
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Footprint {
    items: Vec<Item>,
}

impl Footprint {
    /// Nothing read, nothing written.
    pub fn new() -> Footprint {
        Footprint::default()
    }

    /// Adds one key to the read set.
    pub fn read(mut self, table: TableId, key: Key) -> Footprint {
        self.add(table, Span::Key(key), Access::Read);
        self
    }

    /// Adds one key to the write set.
    pub fn write(mut self, table: TableId, key: Key) -> Footprint {
        self.add(table, Span::Key(key), Access::Write);
        self
    }

    /// Adds a range to the read set.
    pub fn read_range(mut self, table: TableId, range: KeyRange) -> Footprint {
        self.add(table, Span::Range(range), Access::Read);
        self
    }

    /// Adds a range to the write set.
    pub fn write_range(mut self, table: TableId, range: KeyRange) -> Footprint {
        self.add(table, Span::Range(range), Access::Write);
        self
    }

    /// Adds an item, keeping the order. A key named twice is kept once, with the stronger access;
    /// an empty range adds nothing.
    pub fn add(&mut self, table: TableId, span: Span, access: Access) {
        if matches!(&span, Span::Range(range) if range.is_empty()) {
            return;
        }
        let at = self.items.partition_point(|item| (item.table, &item.span) < (table, &span));
        match self.items.get_mut(at) {
            Some(item) if item.table == table && item.span == span => {
                item.access = item.access.max(access);
            }
            _ => self.items.insert(at, Item { table, span, access }),
        }
    }

    /// The same keys, all with write access, so that reads are locked, too.
    #[must_use]
    pub fn locked(mut self) -> Footprint {
        self.items.iter_mut().for_each(|item| item.access = Access::Write);
        self
    }

    /// Removes all items, and keeps the memory for the next transaction.
    pub fn clear(&mut self) {
        self.items.clear();
    }

    /// The items, sorted by table and key.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// True if nothing is written.
    pub fn is_read_only(&self) -> bool {
        self.items.iter().all(|item| item.access == Access::Read)
    }

    /// True if nothing is read or written.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// True if an item allows `access` to one key.
    pub fn allows(&self, table: TableId, key: &[u8], access: Access) -> bool {
        self.items
            .iter()
            .any(|item| item.table == table && item.access >= access && item.span.contains(key))
    }

    /// True if an item allows reading the whole of `range`.
    pub fn allows_scan(&self, table: TableId, range: &KeyRange) -> bool {
        range.is_empty()
            || self.items.iter().any(|item| item.table == table && item.span.covers(range))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Span::Key(key) => write!(f, "[{key}]"),
            Span::Range(range) => write!(f, "{range}"),
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = if self.access == Access::Write { "write" } else { "read" };
        write!(f, "{access} {}{}", self.table, self.span)
    }
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Footprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items: Vec<String> = self.items.iter().map(Item::to_string).collect();
        write!(f, "{}", items.join(", "))
    }
}

impl fmt::Debug for Footprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
