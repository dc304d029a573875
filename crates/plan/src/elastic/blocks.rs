//! Blocks: the units of movement, and the co-accesses between them.
//!
//! A block is a partition. A key with more than a given share of all accesses ([`HOT`]) is a block
//! of its own and cuts its partition in three. (Clay's paper plans for tuples or for blocks;
//! partitions here are small.)
//!
//! ```text
//!   partitions    [ ........ k7 ........ ) [ ............ )
//!   blocks        [ ........ )k7[ ...... ) [ ............ )      k7 is hot
//! ```
//!
//! Reads of data with a copy at every site do not tie a transaction to a place, so they are not in
//! the graph. With the items of TPC-C in it, all warehouses belonged together, and a plan left nine
//! transactions in ten distributed.

use super::planner::Moves;
use crate::heat::{HeatBuilder, HeatGraph};
use crate::problem::Placement;
use crate::recording::{KeyRef, KeyTable};
use isomer_design::{Access, Design, Footprint, Key, KeyRange, SiteSet, Span, TableId};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// A key with more than this share of all accesses is worth moving by itself.
pub const HOT: f64 = 0.005;

/// Blocks in the order of tables and keys: where each begins.
#[derive(Clone, PartialEq, Debug)]
pub struct Blocks(Vec<(TableId, Key)>);

impl Blocks {
    /// The blocks of a design for the recorded footprints. A key is a block if its share of all
    /// accesses exceeds `hot`. The ranges of `kept` are blocks as well, even if cold.
    pub fn of<'r>(
        design: &Design,
        recorded: &[Footprint],
        hot: f64,
        kept: impl Iterator<Item = (TableId, &'r KeyRange)>,
    ) -> Blocks {
        let mut accesses: BTreeMap<(TableId, &Key), usize> = BTreeMap::new();
        for item in recorded.iter().flat_map(Footprint::items) {
            if let Span::Key(key) = &item.span {
                *accesses.entry((item.table, key)).or_default() += 1;
            }
        }
        let all: usize = accesses.values().sum();
        let hot = accesses.iter().filter(|(_, count)| **count as f64 > hot * all as f64);
        let around =
            hot.flat_map(|((table, key), _)| [(*table, (*key).clone()), (*table, key.successor())]);
        let mut starts: Vec<(TableId, Key)> = around.collect();
        for (table, range) in kept.filter(|(table, _)| design.table(*table).is_ok()) {
            let ends = std::iter::once(range.start.clone()).chain(range.end.clone());
            starts.extend(ends.map(|at| (table, at)));
        }
        for (table, found) in design.tables() {
            starts.extend(found.partitions().into_iter().map(|(start, _)| (table, start.clone())));
        }
        starts.sort();
        starts.dedup();
        Blocks(starts)
    }

    /// The number of blocks.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys of a block.
    pub fn range(&self, block: usize) -> (TableId, KeyRange) {
        let (table, start) = self.0[block].clone();
        let next = self.0.get(block + 1).filter(|next| next.0 == table);
        (table, KeyRange::new(start, next.map(|next| next.1.clone())))
    }

    /// The blocks that lie within a range whose ends are ends of blocks.
    pub fn within(&self, table: TableId, range: &KeyRange) -> Range<usize> {
        let first = self.0.partition_point(|(t, at)| (*t, at) < (table, &range.start));
        let is_before = |(t, at): &(TableId, Key)| {
            *t < table || (*t == table && range.end.as_ref().is_none_or(|end| at < end))
        };
        first..self.0.partition_point(is_before).max(first)
    }

    /// The placement of a block.
    pub fn placement_of(&self, design: &Design, block: usize) -> Option<isomer_design::Placement> {
        let (table, start) = &self.0[block];
        design.partition_of(*table, start).map(|(_, placement)| placement)
    }

    /// The label of a block for people.
    pub fn label(&self, design: &Design, block: usize) -> String {
        let (table, start) = &self.0[block];
        match design.table(*table) {
            Ok(found) => {
                let schema = found.schema();
                format!("{}[{}]", schema.name(), schema.format_key(start))
            }
            Err(_) => table.to_string(),
        }
    }

    /// The blocks of a footprint that only their master can serve.
    fn touched(&self, footprint: &Footprint, everywhere: &[bool]) -> Vec<u32> {
        let mut touched = Vec::new();
        for item in footprint.items() {
            let (table, start) = (item.table, item.span.start());
            let after = self.0.partition_point(|(t, at)| (*t, at) <= (table, start));
            let reached = self.0[after..].iter();
            let reached = reached.take_while(|(t, at)| *t == table && item.span.reaches(at));
            let last = after + reached.count();
            let blocks = after.saturating_sub(1)..last;
            let bound = blocks.filter(|at| item.access == Access::Write || !everywhere[*at]);
            touched.extend(bound.map(|at| at as u32));
        }
        touched
    }

    /// The co-accesses of `seconds` seconds as a heat graph; `None` without accesses. Vertices are
    /// the numbers of blocks.
    pub fn heat(&self, design: &Design, recorded: &[Footprint], seconds: f64) -> Option<HeatGraph> {
        let sites = design.sites().len();
        let is_everywhere = |block: usize| {
            let found = self.placement_of(design, block);
            found.is_some_and(|placement| placement.replicas.len() + 1 == sites)
        };
        let everywhere: Vec<bool> = (0..self.len()).map(is_everywhere).collect();
        let mut builder = HeatBuilder::new(self.0.len());
        for footprint in recorded {
            builder.transaction(self.touched(footprint, &everywhere));
        }
        let mut keys = KeyTable::new();
        for block in 0..self.0.len() as i64 {
            keys.intern("blocks", KeyRef::Int(block)).ok()?;
        }
        keys.sort();
        builder.finish(Arc::new(keys), seconds, None, 1.0).ok()
    }

    /// The master of each block; sites are indices into `sites`.
    pub fn placement(&self, design: &Design, sites: &SiteSet) -> Placement {
        let site = |block: usize| {
            let master = self.placement_of(design, block).map(|placement| placement.master);
            let at = master.and_then(|master| sites.iter().position(|site| site == master));
            at.unwrap_or(0) as u16
        };
        Placement::new(sites.len(), (0..self.len()).map(site).collect())
    }

    /// The ranges of some blocks, with neighbours joined.
    pub fn ranges(&self, blocks: &Moves) -> Vec<(TableId, KeyRange)> {
        let mut sorted: Vec<usize> = blocks.blocks.clone();
        sorted.sort_unstable();
        let mut ranges: Vec<(TableId, KeyRange)> = Vec::new();
        for (table, range) in sorted.into_iter().map(|block| self.range(block)) {
            match ranges.last_mut() {
                Some((of, last)) if *of == table && last.end.as_ref() == Some(&range.start) => {
                    last.end = range.end;
                }
                _ => ranges.push((table, range)),
            }
        }
        ranges
    }
}
