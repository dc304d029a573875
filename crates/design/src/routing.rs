//! The routing table: finds the sites that can run a transaction from its footprint.
//!
//! *Problem.* A transaction runs at one site, which must master all keys that it writes and hold
//! all keys that it reads. The router checks this for every transaction, in a table that is
//! replaced concurrently.
//!
//! *Solution.* Each item of a footprint has a set of sites that could serve it; the sites in the
//! intersection can run the transaction ([`SiteSet`]):
//!
//! ```text
//!   accounts   [..5) s1      [5..10) s2, replica s1      [10..) s2
//!
//!   read 3, read 7        {s1} ∩ {s1 s2}  =  {s1}      Route::Sites: any of them
//!   write 7, write 12     {s2} ∩ {s2}     =  {s2}      Route::Sites: the master
//!   write 3, write 7      {s1} ∩ {s2}     =  {}        Route::Nowhere: the design must change
//! ```
//!
//! If no site remains, [`RoutingTable::missing_at`] returns what a site lacks, which a plan for
//! that site must provide.
//!
//! *Compact.* Partitions exist for locks and versions; routing needs only their placement. So
//! neighbours with equal placements are one entry. A table with tens of thousands of single-key
//! partitions at four sites has one entry for each change of the placement along the keys.
//!
//! *Immutable.* A routing table never changes. [`RoutingTable::after`] makes the next one, with
//! work that does not depend on the number of partitions, and shares the rest ([`RangeMap`]).
//!
//! *Invariants.* The table equals [`RoutingTable::of`] the design, however it was made. In a
//! table's map, an entry differs from the previous one.

use crate::design::TableDesign;
use crate::{
    Access, Change, Design, Footprint, Item, Key, KeyRange, Placement, RangeMap, SiteId, SiteSet,
    Span, TableId,
};
use smallvec::SmallVec;

/// Where a transaction can run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Route {
    /// At any of these sites: each masters the write set and holds the read set. There is at least
    /// one; if anything is written, exactly one.
    Sites(SiteSet),
    /// At no single site, as the design is.
    Nowhere {
        /// The sites that master a part of the write set.
        masters: SiteSet,
        /// The sites that hold all of the read set, and the write set as master or replica.
        holders: SiteSet,
    },
    /// Nowhere, because there is no such table.
    UnknownTable(TableId),
}

/// A part of a footprint that a site cannot serve.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    /// The table.
    pub table: TableId,
    /// The keys of the footprint that the site cannot serve.
    pub range: KeyRange,
    /// The access: to write at a site that is not the master, or to read at one without a copy.
    pub access: Access,
    /// Their placement.
    pub placement: Placement,
}

/// An immutable, compact map from keys to placements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoutingTable {
    sites: SiteSet,
    /// In the order of the tables' numbers.
    tables: Vec<(TableId, RangeMap<Placement>)>,
}

impl RoutingTable {
    /// The routing table of a design.
    pub fn of(design: &Design) -> RoutingTable {
        let tables = design.tables().map(|(id, table)| (id, compact(table))).collect();
        RoutingTable { sites: design.sites().clone(), tables }
    }

    /// The routing table after one change. This one must be of the design before the change;
    /// `design` is the one after it.
    #[must_use]
    pub fn after(&self, design: &Design, change: &Change) -> RoutingTable {
        let mut next = self.clone();
        next.sites = design.sites().clone();
        match change {
            // Partitions change, but no key moves.
            Change::Split { .. } | Change::Merge { .. } => {}
            Change::AddSite { .. } | Change::RemoveSite { .. } => {}
            Change::AddReplica { table, start, .. }
            | Change::RemoveReplica { table, start, .. }
            | Change::Remaster { table, start, .. } => {
                let partition = design.partition_of(*table, start);
                if let (Ok(index), Some((range, placement))) = (next.find(*table), partition) {
                    assign(&mut next.tables[index].1, &range, placement);
                }
            }
        }
        next
    }

    /// The routing table with a table of the design that it does not have yet.
    #[must_use]
    pub fn with_table(&self, design: &Design, id: TableId) -> RoutingTable {
        let mut next = self.clone();
        if let (Ok(table), Err(index)) = (design.table(id), next.find(id)) {
            next.tables.insert(index, (id, compact(table)));
        }
        next
    }

    /// The routing table without a table.
    #[must_use]
    pub fn without_table(&self, id: TableId) -> RoutingTable {
        let mut next = self.clone();
        if let Ok(index) = next.find(id) {
            next.tables.remove(index);
        }
        next
    }

    /// The sites.
    pub fn sites(&self) -> &SiteSet {
        &self.sites
    }

    /// The placement of a key; `None` if there is no such table.
    #[inline]
    pub fn placement(&self, table: TableId, key: &[u8]) -> Option<&Placement> {
        self.table(table)?.get(key).map(|(_, placement)| placement)
    }

    /// The placement of a key, and the next key with another placement (`None`: there is none).
    #[inline]
    pub fn stretch(&self, table: TableId, key: &[u8]) -> Option<(&Placement, Option<&Key>)> {
        let map = self.table(table)?;
        let (_, placement) = map.get(key)?;
        Some((placement, map.after(key).map(|(end, _)| end)))
    }

    /// The placement of the last keys before `end` (`None`: of all keys), and the first of the keys
    /// with this placement.
    pub fn stretch_before(&self, table: TableId, end: Option<&Key>) -> Option<(&Placement, &Key)> {
        let map = self.table(table)?;
        let (start, placement) = end.map_or_else(|| map.last(), |end| map.before(end))?;
        Some((placement, start))
    }

    /// The sites that can run a transaction with this footprint.
    pub fn home(&self, footprint: &Footprint) -> Route {
        let mut wanted: SmallVec<[(Access, &Placement); 16]> = SmallVec::new();
        for item in footprint.items() {
            let Some(table) = self.table(item.table) else {
                return Route::UnknownTable(item.table);
            };
            each_placement(table, &item.span, |_, placement| wanted.push((item.access, placement)));
        }
        let mut masters = wanted.iter().filter(|(access, _)| *access == Access::Write);
        let Some((_, Placement { master, .. })) = masters.next() else {
            let sites = self.holders(&wanted);
            let masters = SiteSet::EMPTY;
            return match sites.is_empty() {
                true => Route::Nowhere { masters, holders: sites },
                false => Route::Sites(sites),
            };
        };
        // Only the master of the written keys can run it.
        let is_home = masters.all(|(_, other)| other.master == *master)
            && wanted.iter().all(|(_, placement)| placement.holds(*master));
        if is_home {
            return Route::Sites(SiteSet::of(*master));
        }
        let masters = wanted.iter().filter(|(access, _)| *access == Access::Write);
        let masters = masters.map(|(_, placement)| placement.master).collect();
        Route::Nowhere { masters, holders: self.holders(&wanted) }
    }

    /// The sites that hold all items; all sites if there are none.
    fn holders(&self, wanted: &[(Access, &Placement)]) -> SiteSet {
        let mut wanted = wanted.iter();
        let Some((_, first)) = wanted.next() else { return self.sites.clone() };
        let mut holders = first.holders();
        wanted.for_each(|(_, placement)| placement.retain_holders(&mut holders));
        holders
    }

    /// The parts of a footprint that `site` cannot serve, in the order of the footprint; empty if
    /// it can run the transaction. Tables that do not exist lack nothing.
    pub fn missing_at(&self, footprint: &Footprint, site: SiteId) -> Vec<Missing> {
        let mut missing = Vec::new();
        for Item { table: id, span, access } in footprint.items() {
            let Some(table) = self.table(*id) else { continue };
            each_placement(table, span, |start, placement| {
                let serves = match access {
                    Access::Write => placement.master == site,
                    Access::Read => placement.holds(site),
                };
                if !serves {
                    let end = table.after(start).map(|(end, _)| end.clone());
                    let range = clip(KeyRange::new(start.clone(), end), span);
                    let (table, access, placement) = (*id, *access, placement.clone());
                    missing.push(Missing { table, range, access, placement });
                }
            });
        }
        missing
    }

    /// The number of entries of all tables.
    pub fn entries(&self) -> usize {
        self.tables.iter().map(|(_, table)| table.len()).sum()
    }

    /// The memory held, in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<RoutingTable>()
            + self.tables.capacity() * size_of::<(TableId, RangeMap<Placement>)>()
            + self.tables.iter().map(|(_, table)| table.bytes()).sum::<usize>()
    }

    #[inline]
    fn table(&self, id: TableId) -> Option<&RangeMap<Placement>> {
        Some(&self.tables[self.find(id).ok()?].1)
    }

    /// The index of a table, or the one that it would have.
    #[inline]
    fn find(&self, id: TableId) -> Result<usize, usize> {
        self.tables.binary_search_by_key(&id, |(table, _)| *table)
    }
}

/// The placements of a table, with one entry for equal neighbours.
fn compact(table: &TableDesign) -> RangeMap<Placement> {
    let mut previous = None;
    let entries = table.partitions().iter().filter(|(_, placement)| {
        let is_new = previous != Some(*placement);
        previous = Some(*placement);
        is_new
    });
    RangeMap::from_sorted(entries.map(|(start, placement)| (start.clone(), placement.clone())))
}

/// Sets the placement of one partition, and merges equal neighbours.
fn assign(map: &mut RangeMap<Placement>, range: &KeyRange, placement: Placement) {
    let next = range.end.as_ref().and_then(|end| Some((end, map.get(end)?.1.clone())));
    if let Some((end, next)) = next {
        put(map, end, next, Some(&placement));
    }
    let before = map.before(&range.start).map(|(_, before)| before.clone());
    put(map, &range.start, placement, before.as_ref());
}

/// Makes `placement` start at `start`, where `before` is the placement of the keys before it.
fn put(
    map: &mut RangeMap<Placement>,
    start: &Key,
    placement: Placement,
    before: Option<&Placement>,
) {
    if before == Some(&placement) {
        map.unset(start);
    } else {
        map.set(start.clone(), placement);
    }
}

/// Calls `visit` with the start and the placement of every entry that a span touches.
#[inline]
fn each_placement<'t>(
    table: &'t RangeMap<Placement>,
    span: &Span,
    mut visit: impl FnMut(&'t Key, &'t Placement),
) {
    match span {
        Span::Key(key) => {
            if let Some((start, placement)) = table.get(key) {
                visit(start, placement);
            }
        }
        Span::Range(range) => {
            let entries = table.iter_from(&range.start);
            for (start, placement) in entries.take_while(|(start, _)| range.is_below_end(start)) {
                visit(start, placement);
            }
        }
    }
}

/// The keys of `range` that the span covers.
fn clip(range: KeyRange, span: &Span) -> KeyRange {
    let wanted = match span {
        Span::Key(key) => return KeyRange::single(key.clone()),
        Span::Range(wanted) => wanted,
    };
    let end = match (range.end, &wanted.end) {
        (Some(end), Some(wanted_end)) => Some(end.min(wanted_end.clone())),
        (end, wanted_end) => end.or_else(|| wanted_end.clone()),
    };
    KeyRange::new(range.start.max(wanted.start.clone()), end)
}
