//! Layouts: the order of a table's rows, which determines their partitions and sites.
//!
//! Rows are found by their *row key*: the columns of the shard key, and then the primary key's
//! other columns, or the row id. Partitions are ranges of row keys, so rows with the same shard key
//! are adjacent.
//!
//! ```text
//!   accounts(aid, bid, ..)     primary key aid          shard by bid
//!   row key                    aid                      bid, aid
//!   by aid                     the row itself           index aid → (bid, aid), and then the row
//!   by bid                     all rows                 a range of rows, mostly in one partition
//!   uniqueness of aid          by the row key           by that index
//! ```
//!
//! If all columns of the shard key are in the primary key, the primary key determines the row key,
//! and needs no index.
//!
//! **Two layouts.** During a change of its layout a table has both ([`Beside`]). Each write goes to
//! both, with entries in the indexes of both, because entries contain row keys. Rows are found and
//! locked by their row key in the current layout only.
//!
//! **A late primary key** is such a change too: from the order of row ids to that of the key, where
//! rows have no row id. A writer finds a row in the second layout by the unique index that enforced
//! the key.

use super::{Index, Name, Table, TableColumn, quoted};
use isomer_design::{Schema, TableId, Time};
use std::sync::Arc;

/// A second layout of a table. It has the same columns, checks and indexes as the table, with
/// separate entries. It has the same primary key, except while a primary key is being added.
#[derive(Clone, Debug)]
pub struct Beside {
    /// The table in this layout.
    pub layout: Arc<Table>,
    /// True if it is kept permanently, so that the table can switch back at once.
    pub is_kept: bool,
    /// True if writers add rows to it (write-only). Otherwise they only remove rows from it
    /// (delete-only), as for an [index](Index::is_entered).
    pub is_entered: bool,
}

/// The slots of the row key, in a table with these keys and this number of columns.
pub fn place_of(key: &[usize], shard: &[usize], columns: usize) -> Vec<usize> {
    let row_id = [columns];
    let unique = if key.is_empty() { &row_id[..] } else { key };
    let others = unique.iter().filter(|at| !shard.contains(at));
    shard.iter().chain(others).copied().collect()
}

/// True if the primary key does not determine the row key, so that it needs an index.
pub fn needs_index(key: &[usize], shard: &[usize]) -> bool {
    !key.is_empty() && !shard.iter().all(|at| key.contains(at))
}

impl Table {
    /// The store tables of the table, in lock order: its rows, its indexes; then those of the
    /// second layout.
    pub fn parts(&self) -> impl Iterator<Item = (TableId, &Arc<Schema>)> + Clone {
        let beside = self.beside.iter().flat_map(|beside| beside.layout.own_parts());
        self.own_parts().chain(beside)
    }

    /// As [`Table::parts`], without the second layout.
    pub fn own_parts(&self) -> impl Iterator<Item = (TableId, &Arc<Schema>)> + Clone {
        let indexes = self.maintained().map(|index| (index.id, &index.schema));
        std::iter::once((self.id, &self.schema)).chain(indexes)
    }

    /// The indexes that are written with its rows: that of the primary key, if there is one, and
    /// all others.
    pub fn maintained(&self) -> impl Iterator<Item = &Arc<Index>> + Clone {
        self.primary.iter().chain(&self.indexes)
    }

    /// The name of the part of the table with this id in the store.
    pub(super) fn part_name(&self, id: TableId) -> Option<Name> {
        let own = |table: &'_ Table| {
            let index = table.maintained().position(|index| index.id == id);
            (index, table.id == id)
        };
        let beside = self.beside.as_ref().map(|beside| &*beside.layout);
        let name = std::iter::once(self).chain(beside).find_map(|table| match own(table) {
            (Some(at), _) => table.maintained().nth(at).map(|index| &index.name),
            (None, is_it) => is_it.then_some(&table.name),
        });
        name.map(|name| Name { name: name.clone(), ..self.full_name() })
    }

    /// The id in the store of the table or an index, by its [label](Name::label).
    pub fn part_labelled(&self, label: &str) -> Option<TableId> {
        let labelled = |name: &str| Name { name: name.to_owned(), ..self.full_name() }.label();
        if labelled(&self.name) == label {
            return Some(self.id);
        }
        self.maintained().find(|index| labelled(&index.name) == label).map(|index| index.id)
    }

    /// The columns of the shard key, in SQL notation; `None` without a shard key.
    pub fn shard_by(&self) -> Option<String> {
        let name = |&at: &usize| quoted(&self.columns[at].name);
        let names: Vec<String> = self.shard.iter().map(name).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// True if a row key can change while the primary key stays.
    pub fn moves(&self) -> bool {
        self.primary.is_some()
    }

    /// The table in its layout at a given time, if that differs and still exists.
    pub(super) fn earlier(&self, time: Time) -> Option<Arc<Table>> {
        if self.readable.is_some_and(|since| since <= time) {
            return None;
        }
        let was_whole = |layout: &Table| layout.readable.is_some_and(|since| since <= time);
        self.beside.as_ref().filter(|beside| was_whole(&beside.layout))?;
        Some(Arc::new(self.switched(true)))
    }

    /// The table with its two layouts exchanged.
    ///
    /// # Panics
    /// If there is only one layout.
    pub fn switched(&self, is_kept: bool) -> Table {
        let mut own = self.clone();
        let other = own.beside.take().expect("a table in two orders").layout;
        // Definitions that do not affect rows may have changed since the other layout was created.
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
