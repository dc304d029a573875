//! Samples laid over the partitions of a design: which of them each accesses, worked out once for
//! all that is asked about a design and its like.
//!
//! ```text
//!   partitions    0: t [0..10) s1     1: t [10..20) s2     2: t [20..) s2 s1
//!   sample        writes 3, 12; reads 25            ──▶   writes 0 1, reads 2
//!   layout        another place for some of them, and where they are cut:   0 ▶ s2,  1 cut at 15
//! ```
//!
//! A [`Layout`] is another design over the same partitions: other masters, and cuts. So a hundred
//! drafts cost what it takes to look at small numbers, not to look up keys.

use super::tuning::Tuning;
use super::workload::Sample;
use isomer_design::{Access, Design, Key, KeyRange, Placement, SiteId, SiteSet, Span, TableId};
use isomer_strategy::{Need, needs};
use std::collections::{BTreeMap, BTreeSet};

/// See the [module documentation](self).
pub(crate) struct Grid<'s> {
    pub(crate) partitions: Vec<Need>,
    /// The tables that a sample writes to.
    pub(crate) written: BTreeSet<TableId>,
    pub(crate) sites: SiteSet,
    numbers: BTreeMap<(TableId, Key), u32>,
    pub(crate) laid: Vec<MappedSample<'s>>,
}

/// A sample, and the numbers of the partitions that it reads and writes, in the order of their
/// keys.
pub(crate) struct MappedSample<'s> {
    pub(crate) sample: &'s Sample,
    pub(crate) read: Vec<u32>,
    pub(crate) written: Vec<u32>,
    /// The written keys, each with the place of its partition among the written ones.
    pub(crate) keys: Vec<(u32, &'s Key)>,
}

/// Where the partitions of a grid would be, and how they would be cut.
pub(crate) struct Layout {
    pub(crate) placements: Vec<Placement>,
    pub(crate) cuts: Vec<Vec<Key>>,
}

impl<'s> Grid<'s> {
    pub(crate) fn of(design: &Design, samples: impl Iterator<Item = &'s Sample>) -> Grid<'s> {
        let mut grid = Grid {
            partitions: Vec::new(),
            written: BTreeSet::new(),
            sites: design.sites().clone(),
            numbers: BTreeMap::new(),
            laid: Vec::new(),
        };
        if design.partition_count() <= Tuning::PARTITIONS_MAX {
            for (table, found) in design.tables() {
                for (range, placement) in found.partitions_in(&KeyRange::all()) {
                    grid.number(Need { table, range, access: Access::Read, placement });
                }
            }
        }
        for sample in samples {
            let laid = grid.lay(design, sample);
            grid.laid.push(laid);
        }
        grid
    }

    fn lay(&mut self, design: &Design, sample: &'s Sample) -> MappedSample<'s> {
        let mut laid =
            MappedSample { sample, read: Vec::new(), written: Vec::new(), keys: Vec::new() };
        for need in needs(design, &sample.footprint) {
            if need.access == Access::Read {
                laid.read.push(self.number(need));
                continue;
            }
            let items = sample.footprint.items().iter();
            let written = items.filter(|i| i.table == need.table && i.access == Access::Write);
            let keys = written.filter_map(|item| match &item.span {
                Span::Key(key) if need.range.contains(key) => Some(key),
                _ => None,
            });
            let number = laid.written.len() as u32;
            laid.keys.extend(keys.map(|key| (number, key)));
            self.written.insert(need.table);
            laid.written.push(self.number(need));
        }
        laid
    }

    /// The number of a partition; what is new gets the next one.
    fn number(&mut self, need: Need) -> u32 {
        let next = self.partitions.len() as u32;
        let at = *self.numbers.entry((need.table, need.range.start.clone())).or_insert(next);
        if at == next {
            // Who is to have it, is to be its master.
            self.partitions.push(Need { access: Access::Write, ..need });
        }
        at
    }

    /// What goes where, by its name.
    pub(crate) fn named(&self, moves: &[(u32, SiteId)]) -> Vec<(Need, SiteId)> {
        moves.iter().map(|(at, site)| (self.partitions[*at as usize].clone(), *site)).collect()
    }

    /// Partitions in the order of their keys, with their numbers.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = (TableId, u32)> {
        self.numbers.iter().map(|((table, _), number)| (*table, *number))
    }

    /// Who can read each partition. What is in a table that nobody writes to is wherever it is
    /// read, soon: that costs nothing to keep.
    pub(crate) fn holders(&self, layout: &Layout) -> Vec<SiteSet> {
        let partitions = self.partitions.iter().zip(&layout.placements);
        let holders =
            partitions.map(|(need, placement)| match self.written.contains(&need.table) {
                true => placement.holders(),
                false => self.sites.clone(),
            });
        holders.collect()
    }

    /// The design as it is.
    pub(crate) fn layout(&self) -> Layout {
        let placements = self.partitions.iter().map(|need| need.placement.clone()).collect();
        Layout { placements, cuts: vec![Vec::new(); self.partitions.len()] }
    }
}

impl MappedSample<'_> {
    /// All that it accesses.
    pub(crate) fn all(&self) -> impl Iterator<Item = u32> {
        self.written.iter().chain(&self.read).copied()
    }

    /// The sites that can run it.
    pub(crate) fn free_sites(&self, layout: &Layout, holders: &[SiteSet]) -> SiteSet {
        let masters = self.written.iter().map(|p| SiteSet::of(layout.master(*p)));
        let able = masters.chain(self.read.iter().map(|p| holders[*p as usize].clone()));
        able.reduce(|all, these| &all & &these).unwrap_or(SiteSet::EMPTY)
    }

    /// The sites that it runs over if it runs where its partitions are, of those that are not
    /// everywhere.
    pub(crate) fn masters(&self, grid: &Grid<'_>, layout: &Layout) -> SiteSet {
        let is_placed = |at: &u32| grid.written.contains(&grid.partitions[*at as usize].table);
        self.all().filter(is_placed).map(|partition| layout.master(partition)).collect()
    }

    /// The locks that it takes, in order, where partitions have these first ones. Who writes a
    /// range without naming keys takes the first.
    pub(crate) fn locks(&self, layout: &Layout, firsts: &[u32]) -> Vec<u32> {
        let first = |partition: u32| firsts[partition as usize];
        if self.keys.is_empty() {
            return self.written.iter().map(|partition| first(*partition)).collect();
        }
        let named = self.keys.iter().map(|(at, key)| {
            let partition = self.written[*at as usize];
            first(partition) + layout.part_of(partition, key)
        });
        let mut locks: Vec<u32> = named.collect();
        locks.dedup();
        locks
    }
}

impl Layout {
    fn master(&self, partition: u32) -> SiteId {
        self.placements[partition as usize].master
    }

    /// A partition goes to another site, and leaves nothing behind.
    pub(crate) fn bring(&mut self, partition: u32, to: SiteId) {
        let placement = &mut self.placements[partition as usize];
        *placement = Placement { master: to, replicas: placement.replicas.without(to) };
    }

    /// The number of the first lock of each partition: one for each of its parts.
    pub(crate) fn first_locks(&self) -> Vec<u32> {
        let parts = self.cuts.iter().map(|cuts| cuts.len() as u32 + 1);
        let firsts = parts.scan(0, |next, parts| {
            *next += parts;
            Some(*next - parts)
        });
        firsts.collect()
    }

    /// How many locks there are.
    pub(crate) fn locks(&self) -> usize {
        self.cuts.iter().map(|cuts| cuts.len() + 1).sum()
    }

    /// The part of a partition that a key is in.
    pub(crate) fn part_of(&self, partition: u32, key: &Key) -> u32 {
        self.cuts[partition as usize].partition_point(|cut| cut <= key) as u32
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::learned::reservoir::Damping;
    use crate::learned::workload::Workload;
    use isomer_design::{Column, ColumnType, Footprint, Schema};

    pub(crate) const T: TableId = TableId(1);
    pub(crate) const S1: SiteId = SiteId(1);
    pub(crate) const S2: SiteId = SiteId(2);

    /// A table cut at some keys: the first partition at the first site, the others at another.
    pub(crate) fn design(cuts: &[i64], others: SiteId) -> Design {
        let schema = Schema::new("t", vec![Column::new("id", ColumnType::Int64)], &["id"]).unwrap();
        let mut design = Design::new([S1, S2]).unwrap();
        let others = cuts.iter().map(|at| (Key::int(*at), Placement::at(others)));
        let parts = std::iter::once((Key::min(), Placement::at(S1))).chain(others);
        design.create_table(T, schema, parts).unwrap();
        design
    }

    /// Two thousand transactions that write such keys.
    pub(crate) fn workload(written: impl Fn(i64) -> Vec<i64>) -> Workload {
        let mut workload = Workload::new(Damping::default(), 0);
        for number in 0..2000 {
            let keys = written(number);
            let write = |footprint: Footprint, key: &i64| footprint.write(T, Key::int(*key));
            let footprint = keys.iter().fold(Footprint::new(), write);
            workload.offer(1, &footprint, [keys.len(), keys.len()], 500.0, [0.0; 2]);
        }
        workload
    }

    #[test]
    fn what_nobody_writes_is_everywhere() {
        let mut design = design(&[10], S2);
        let schema = Schema::new("u", vec![Column::new("id", ColumnType::Int64)], &["id"]).unwrap();
        design.create_table(TableId(2), schema, [(Key::min(), Placement::at(S2))]).unwrap();
        let workload = workload(|_| vec![3]);
        let grid = Grid::of(&design, workload.samples());
        let holders = grid.holders(&grid.layout());
        let all: SiteSet = [S1, S2].into_iter().collect();
        assert_eq!(holders, [SiteSet::of(S1), SiteSet::of(S2), all]);
    }
}
