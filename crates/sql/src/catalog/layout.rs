//! In which order a table's rows are kept, and so where they are.
//!
//! Rows are found by their *place*: the columns of the shard key, and then the primary key's other columns, or the
//! row id. Partitions are ranges of places, so rows that have a shard key in common are together.
//!
//! ```text
//!   accounts(aid, bid, ..)     primary key aid          shard by bid
//!   place                      aid                      bid, aid
//!   by aid                     the row itself           index aid → (bid, aid), and then the row
//!   by bid                     all rows                 a range of rows, in one partition mostly
//!   aid once                   by the place             by that index
//! ```
//!
//! Where all columns of the shard key are in the primary key, whoever names the primary key names the place, and no
//! index is needed.
//!
//! **Two orders.** A table that changes from one order to the other is kept in both meanwhile ([`Beside`]): whoever
//! writes a row writes it to both, with its entries in the indexes of both, as these name rows by their places. Rows
//! are found by, and locked at, their place in the table's own order only.
//!
//! **A late primary key** is such a change too: from the order of row ids to that of the key, where rows have no row id
//! any more. Who writes a row then finds it in the order beside by the unique index that saw to the key's being one.

use super::{Index, Name, Table, TableColumn, quoted};
use isomer_design::{Schema, TableId, Time};
use std::sync::Arc;

/// A table's rows in another order. It has the same columns, conditions and indexes as the table, each index with
/// entries of its own; and the same primary key, unless that is what the table is about to get, or has just got.
#[derive(Clone, Debug)]
pub struct Beside {
    /// The table in this order.
    pub layout: Arc<Table>,
    /// True if it stays until somebody says otherwise, so that the table can go back to it at once.
    pub is_kept: bool,
    /// True if who writes adds rows to it; else they only remove what there is of a row, as of an
    /// [index](Index::is_entered).
    pub is_entered: bool,
}

/// The places in a row of what it is found by, in a table with these keys and so many columns.
pub fn place_of(key: &[usize], shard: &[usize], columns: usize) -> Vec<usize> {
    let row_id = [columns];
    let unique = if key.is_empty() { &row_id[..] } else { key };
    let others = unique.iter().filter(|at| !shard.contains(at));
    shard.iter().chain(others).copied().collect()
}

/// True if rows are not found by the primary key alone, so that it needs an index.
pub fn needs_index(key: &[usize], shard: &[usize]) -> bool {
    !key.is_empty() && !shard.iter().all(|at| key.contains(at))
}

impl Table {
    /// The tables of the store that it is made of, in the order in which they are locked: its own, then its
    /// indexes'; and then those of the other order.
    pub fn parts(&self) -> impl Iterator<Item = (TableId, &Arc<Schema>)> + Clone {
        let beside = self.beside.iter().flat_map(|beside| beside.layout.own_parts());
        self.own_parts().chain(beside)
    }

    /// As [`Table::parts`], without the other order.
    pub fn own_parts(&self) -> impl Iterator<Item = (TableId, &Arc<Schema>)> + Clone {
        let indexes = self.maintained().map(|index| (index.id, &index.schema));
        std::iter::once((self.id, &self.schema)).chain(indexes)
    }

    /// The indexes that are written with its rows: that of the primary key, if it has one, and all others.
    pub fn maintained(&self) -> impl Iterator<Item = &Arc<Index>> + Clone {
        self.primary.iter().chain(&self.indexes)
    }

    /// The name of what the store keeps under a number, if it is a part of the table.
    pub(super) fn part_name(&self, id: TableId) -> Option<&str> {
        let own = |table: &'_ Table| {
            let index = table.maintained().position(|index| index.id == id);
            (index, table.id == id)
        };
        let beside = self.beside.as_ref().map(|beside| &*beside.layout);
        std::iter::once(self).chain(beside).find_map(|table| match own(table) {
            (Some(at), _) => table.maintained().nth(at).map(|index| &*index.name),
            (None, is_it) => is_it.then_some(&*table.name),
        })
    }

    /// What the store keeps of the table under a number, by the [label](Name::label) of the table or an index.
    pub fn part_labelled(&self, label: &str) -> Option<TableId> {
        let labelled = |name: &str| Name { name: name.to_owned(), ..self.full_name() }.label();
        if labelled(&self.name) == label {
            return Some(self.id);
        }
        self.maintained().find(|index| labelled(&index.name) == label).map(|index| index.id)
    }

    /// The columns of the shard key, as a statement has them; none if rows are where the primary key puts them.
    pub fn shard_by(&self) -> Option<String> {
        let name = |&at: &usize| quoted(&self.columns[at].name);
        let names: Vec<String> = self.shard.iter().map(name).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// True if a row's place can change while its primary key stays.
    pub fn moves(&self) -> bool {
        self.primary.is_some()
    }

    /// The table in the order in which it was kept at a time, if that is another, and is still kept.
    pub(super) fn earlier(&self, time: Time) -> Option<Arc<Table>> {
        if self.readable.is_some_and(|since| since <= time) {
            return None;
        }
        let was_whole = |layout: &Table| layout.readable.is_some_and(|since| since <= time);
        self.beside.as_ref().filter(|beside| was_whole(&beside.layout))?;
        Some(Arc::new(self.switched(true)))
    }

    /// The table with its two orders in each other's place.
    ///
    /// # Panics
    /// If there is one only.
    pub fn switched(&self, is_kept: bool) -> Table {
        let mut own = self.clone();
        let other = own.beside.take().expect("a table in two orders").layout;
        // What is not of the rows may have been defined anew since the other order was made.
        let columns = own.columns.iter().zip(&other.columns);
        let column = |(own, other): (&TableColumn, &TableColumn)| {
            let (not_null, missing) = (other.not_null, other.missing.clone());
            TableColumn { not_null, missing, ..own.clone() }
        };
        Table {
            id: other.id,
            schema: other.schema.clone(),
            columns: columns.map(column).collect(),
            key: other.key.clone(),
            key_name: other.key_name.clone(),
            shard: other.shard.clone(),
            primary: other.primary.clone(),
            indexes: other.indexes.clone(),
            readable: other.readable,
            beside: Some(Beside { layout: Arc::new(own.clone()), is_kept, is_entered: true }),
            ..own
        }
    }
}
