//! Samples laid over the partitions of a design: the partitions that each sample accesses, computed
//! once for all evaluations of the design and its variants.
//!
//! ```text
//!   partitions    0: t [0..10) s1     1: t [10..20) s2     2: t [20..) s2 s1
//!   sample        writes 3, 12; reads 25            ──▶   writes 0 1, reads 2
//!   layout        another place for some of them, and where they are cut:   0 ▶ s2,  1 cut at 15
//! ```
//!
//! A [`Layout`] is a variant of the design over the same partitions, with other masters and cuts. A
//! hundred variants cost lookups of small numbers instead of lookups of keys.

use super::tuning::Tuning;
use super::workload::Sample;
use isomer_design::{Access, Design, Key, KeyRange, Placement, SiteId, SiteSet, Span, TableId};
use isomer_strategy::{Need, needs};
use std::collections::{BTreeMap, BTreeSet};

/// See the [module documentation](self).
pub(crate) struct Grid<'s> {
    pub(crate) partitions: Vec<Need>,
    /// The tables that a sample writes to; if no sample writes, the tables that samples read.
    pub(crate) written: BTreeSet<TableId>,
    pub(crate) sites: SiteSet,
    numbers: BTreeMap<(TableId, Key), u32>,
    pub(crate) laid: Vec<MappedSample<'s>>,
}

/// A sample, and the numbers of the partitions that it reads and writes, in key order.
pub(crate) struct MappedSample<'s> {
    pub(crate) sample: &'s Sample,
    pub(crate) read: Vec<u32>,
    pub(crate) written: Vec<u32>,
    /// The written keys, each with the index of its partition among the written ones.
    pub(crate) keys: Vec<(u32, &'s Key)>,
}

/// The placement and the cuts of a grid's partitions.
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
        if grid.written.is_empty() {
            // Where nothing is written, reads are what there is to place.
            let read = grid.laid.iter().flat_map(|laid| &laid.read);
            grid.written = read.map(|at| grid.partitions[*at as usize].table).collect();
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

    /// The number of a partition; a new one gets the next number.
    fn number(&mut self, need: Need) -> u32 {
        let next = self.partitions.len() as u32;
        let at = *self.numbers.entry((need.table, need.range.start.clone())).or_insert(next);
        if at == next {
            // A need to write means that the site must be the master.
            self.partitions.push(Need { access: Access::Write, ..need });
        }
        at
    }

    /// Replaces the numbers in moves by partitions.
    pub(crate) fn named(&self, moves: &[(u32, SiteId)]) -> Vec<(Need, SiteId)> {
        moves.iter().map(|(at, site)| (self.partitions[*at as usize].clone(), *site)).collect()
    }

    /// The borders between partitions at different sites of a layout that a design does not have.
    pub(crate) fn cuts(&self, design: &Design, layout: &Layout) -> Vec<(TableId, Key)> {
        let in_order: Vec<((TableId, &Key), SiteId)> = self
            .numbers
            .iter()
            .map(|((table, start), number)| ((*table, start), layout.master(*number)))
            .collect();
        let borders = in_order.windows(2).filter_map(|pair| {
            let [(left, from), (right, to)] = [pair[0], pair[1]];
            (left.0 == right.0 && from != to).then_some(right)
        });
        let is_new = |(table, at): &(TableId, &Key)| {
            design.partition_of(*table, at).is_some_and(|(range, _)| range.start != **at)
        };
        borders.filter(is_new).map(|(table, at)| (table, at.clone())).collect()
    }

    /// Partitions in key order, with their numbers.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = (TableId, u32)> {
        self.numbers.iter().map(|((table, _), number)| (*table, *number))
    }

    /// The sites that can read each partition. Tables without writes count as replicated
    /// everywhere, because replicas of them soon exist wherever they are read and cost nothing to
    /// keep.
    pub(crate) fn holders(&self, layout: &Layout) -> Vec<SiteSet> {
        let partitions = self.partitions.iter().zip(&layout.placements);
        let holders =
            partitions.map(|(need, placement)| match self.written.contains(&need.table) {
                true => placement.holders(),
                false => self.sites.clone(),
            });
        holders.collect()
    }

    /// The unchanged design.
    pub(crate) fn layout(&self) -> Layout {
        let placements = self.partitions.iter().map(|need| need.placement.clone()).collect();
        Layout { placements, cuts: vec![Vec::new(); self.partitions.len()] }
    }
}

impl MappedSample<'_> {
    /// All partitions that it accesses.
    pub(crate) fn all(&self) -> impl Iterator<Item = u32> {
        self.written.iter().chain(&self.read).copied()
    }

    /// The sites that can run it alone.
    pub(crate) fn free_sites(&self, layout: &Layout, holders: &[SiteSet]) -> SiteSet {
        let masters = self.written.iter().map(|p| SiteSet::of(layout.master(*p)));
        let able = masters.chain(self.read.iter().map(|p| holders[*p as usize].clone()));
        able.reduce(|all, these| &all & &these).unwrap_or(SiteSet::EMPTY)
    }

    /// The masters of its partitions, without those that count as replicated everywhere: the sites
    /// of the transaction if it is distributed.
    pub(crate) fn masters(&self, grid: &Grid<'_>, layout: &Layout) -> SiteSet {
        let is_placed = |at: &u32| grid.written.contains(&grid.partitions[*at as usize].table);
        self.all().filter(is_placed).map(|partition| layout.master(partition)).collect()
    }

    /// The locks that it takes, in order; `firsts` are the first locks of the partitions. A writer
    /// of a range without keys takes the first lock.
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

    /// Moves a partition to another site, without leaving a replica.
    pub(crate) fn bring(&mut self, partition: u32, to: SiteId) {
        let placement = &mut self.placements[partition as usize];
        *placement = Placement { master: to, replicas: placement.replicas.without(to) };
    }

    /// The number of the first lock of each partition; a partition has one lock per part.
    pub(crate) fn first_locks(&self) -> Vec<u32> {
        let parts = self.cuts.iter().map(|cuts| cuts.len() as u32 + 1);
        let firsts = parts.scan(0, |next, parts| {
            *next += parts;
            Some(*next - parts)
        });
        firsts.collect()
    }

    /// The number of locks.
    pub(crate) fn locks(&self) -> usize {
        self.cuts.iter().map(|cuts| cuts.len() + 1).sum()
    }

    /// The part of a partition that contains a key.
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

    /// A table cut at some keys, with the first partition at the first site and the others at
    /// `others`.
    pub(crate) fn design(cuts: &[i64], others: SiteId) -> Design {
        let schema = Schema::new("t", vec![Column::new("id", ColumnType::Int64)], &["id"]).unwrap();
        let mut design = Design::new([S1, S2]).unwrap();
        let others = cuts.iter().map(|at| (Key::int(*at), Placement::at(others)));
        let parts = std::iter::once((Key::min(), Placement::at(S1))).chain(others);
        design.create_table(T, schema, parts).unwrap();
        design
    }

    /// Two thousand transactions that write the keys of `written`.
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
    fn tables_without_writes_count_as_present_everywhere() {
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
