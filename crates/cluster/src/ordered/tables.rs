//! Which tables are ordered, as gateways look it up at every read and write.
//!
//! The design has the property; this is a copy of it that costs little to read. It also knows which
//! tables have changed: a transaction that began before a table was switched has kept its reads, or
//! locked its rows, for the other way, and cannot commit to that table.

use crate::error::Error;
use crate::fusion::{FUSED, is_fused};
use arc_swap::ArcSwap;
use isomer_design::{Access, Design, TableDesign, TableId};
use isomer_site::{Body, Request};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// See the [module documentation](self).
#[derive(Default)]
pub struct OrderedTables {
    tables: ArcSwap<BTreeSet<TableId>>,
    /// The tables that have changed, and the number of the last change of each.
    switched: ArcSwap<BTreeMap<TableId, u64>>,
    /// The number of changes so far.
    switches: AtomicU64,
    /// The number of the [fused table](crate::fusion); 0: there is none.
    fused: AtomicU32,
}

impl OrderedTables {
    /// True if transactions on the table are ordered.
    #[inline]
    pub fn has(&self, table: TableId) -> bool {
        self.tables.load().contains(&table)
    }

    /// The [fused table](crate::fusion), if there is one.
    #[inline]
    pub(crate) fn fused(&self) -> Option<TableId> {
        Some(TableId(self.fused.load(Ordering::SeqCst))).filter(|table| table.0 != 0)
    }

    /// Refuses a transaction that would write to an ordered table without a place in the order, or
    /// read one without following stubs.
    ///
    /// # Errors
    /// [`Error::Ordered`].
    pub(crate) fn check_unordered(&self, request: &Request<'_>) -> Result<(), Error> {
        let tables = self.tables.load();
        if tables.is_empty() {
            return Ok(());
        }
        let is_code = matches!(request.body, Body::Call { .. } | Body::Here(_));
        let has_stubs = is_code && self.fused().is_some();
        let items = request.footprint.items().iter();
        let named = items.filter(|it| it.access == Access::Write || has_stubs);
        match named.map(|item| item.table).find(|table| tables.contains(table)) {
            Some(table) => Err(Error::Ordered(table)),
            None => Ok(()),
        }
    }

    /// Follows a design that replaces the one before.
    pub(crate) fn follow_design(&self, design: &Design) {
        let ordered = design.tables().filter(|(_, table)| table.is_ordered());
        let now: BTreeSet<TableId> = ordered.map(|(table, _)| table).collect();
        let changed: Vec<TableId> =
            self.tables.load().symmetric_difference(&now).copied().collect();
        changed.iter().for_each(|table| self.switch(*table, now.contains(table)));
        let fused = design.find_table(FUSED).filter(|(_, table)| is_fused(table));
        let fused = fused.map_or(0, |(table, _)| table.0);
        self.fused.store(fused, Ordering::SeqCst);
    }

    /// Follows a change of one table.
    pub(crate) fn follow(&self, id: TableId, table: &TableDesign) {
        self.switch(id, table.is_ordered());
        if is_fused(table) {
            self.fused.store(id.0, Ordering::SeqCst);
        }
    }

    /// Follows the end of a table.
    pub(crate) fn forget(&self, table: TableId) {
        self.switch(table, false);
    }

    fn switch(&self, table: TableId, is_ordered: bool) {
        if self.has(table) == is_ordered {
            return;
        }
        let number = self.switches() + 1;
        self.switched.rcu(|switched| {
            let mut switched = BTreeMap::clone(switched);
            switched.insert(table, number);
            switched
        });
        self.tables.rcu(|tables| {
            let mut tables = BTreeSet::clone(tables);
            match is_ordered {
                true => tables.insert(table),
                false => tables.remove(&table),
            };
            tables
        });
        self.switches.fetch_max(number, Ordering::SeqCst);
    }

    /// The number of changes so far. A transaction that has begun before the change of a table
    /// cannot commit to it ([`OrderedTables::is_switched_since`]).
    pub(crate) fn switches(&self) -> u64 {
        self.switches.load(Ordering::SeqCst)
    }

    /// True if a table has changed after this number of changes.
    pub(crate) fn is_switched_since(&self, table: TableId, switches: u64) -> bool {
        self.switched.load().get(&table).is_some_and(|number| *number > switches)
    }
}
