//! The changes that lead from one design to another.
//!
//! Partitions are placed one by one. So the table is split into pieces that are small enough for
//! both designs, the pieces are placed, and merged again. Pieces that are, or could be, together in
//! both designs are not split: neighbours with equal placements are merged before they are placed,
//! and pieces whose new placements are equal are placed before they are split.
//!
//! ```text
//!   from              0      5      10         s1     s1     s2
//!   to                0         7              s2        s3
//!
//!   1  add sites      +s3
//!   2  merge          5 is no start in `to`, and s1 = s1 on both sides
//!   3  split          at 7, where the placements of `to` differ       s1 | s1 | s2
//!   4  place          add replica, remaster, remove replica           s2 | s3 | s3
//!   5  merge          at 10, which `to` does not know                 s2 | s3
//!   6  split          where `to` has equal placements on both sides
//!   7  remove sites   those that hold nothing now
//! ```
//!
//! Each change is valid when its turn comes. The list is short, not shortest: more merges might
//! save placements, but a planner must find those, because it knows their costs.

use crate::design::TableDesign;
use crate::{Change, Design, Invalid, Key, Placement, RangeMap, TableId};

impl Design {
    /// The changes that turn this design into `other`, in an order in which each is valid. Both
    /// must have the same tables.
    pub fn diff(&self, other: &Design) -> Result<Vec<Change>, Invalid> {
        same_tables(self, other)?;
        let mut changes = Vec::new();
        changes.extend((&other.sites - &self.sites).iter().map(|site| Change::AddSite { site }));
        for (&id, table) in &self.tables {
            if let Some(wanted) = other.tables.get(&id).filter(|wanted| *wanted != table) {
                diff_table(id, &table.partitions, &wanted.partitions, &mut changes);
            }
        }
        changes.extend((&self.sites - &other.sites).iter().map(|site| Change::RemoveSite { site }));
        Ok(changes)
    }
}

fn same_tables(a: &Design, b: &Design) -> Result<(), Invalid> {
    let lacks = |design: &Design, id: TableId, table: &TableDesign| {
        design
            .tables
            .get(&id)
            .is_none_or(|other| other.schema != table.schema || other.backups != table.backups)
    };
    let odd_one = a.tables().find(|(id, table)| lacks(b, *id, table));
    let odd_one = odd_one.or_else(|| b.tables().find(|(id, table)| lacks(a, *id, table)));
    match odd_one {
        Some((_, table)) => Err(Invalid::DifferentTables { table: table.name().to_owned() }),
        None => Ok(()),
    }
}

fn diff_table(
    table: TableId,
    from: &RangeMap<Placement>,
    to: &RangeMap<Placement>,
    changes: &mut Vec<Change>,
) {
    let split = |at: &Key| Change::Split { table, at: at.clone() };
    let merge = |at: &Key| Change::Merge { table, at: at.clone() };
    // Starts that only one of the designs has: alike on both sides, or not.
    let (merge_early, merge_late) = starts_missing(from, to);
    let (split_late, split_early) = starts_missing(to, from);

    changes.extend(merge_early.iter().map(merge));
    changes.extend(split_early.iter().map(split));
    let mut pieces = from.clone();
    for start in &merge_early {
        pieces.unset(start);
    }
    for start in &split_early {
        if let Some((_, placement)) = pieces.get(start) {
            let placement = placement.clone();
            pieces.set(start.clone(), placement);
        }
    }
    for (start, placement) in &pieces {
        if let Some((_, wanted)) = to.get(start) {
            place(table, start, placement, wanted, changes);
        }
    }
    changes.extend(merge_late.iter().map(merge));
    changes.extend(split_late.iter().map(split));
}

/// The starts of `map` that `other` lacks: first those with equal placements on both sides in
/// `map`, then the rest.
fn starts_missing(map: &RangeMap<Placement>, other: &RangeMap<Placement>) -> (Vec<Key>, Vec<Key>) {
    let placements_before = std::iter::once(None).chain(map.iter().map(|(_, p)| Some(p)));
    let missing = map
        .iter()
        .zip(placements_before)
        .filter(|((start, _), _)| other.get_exact(start).is_none())
        .map(|((start, placement), before)| (start.clone(), before == Some(placement)));
    let (alike, unlike): (Vec<_>, Vec<_>) = missing.partition(|(_, is_alike)| *is_alike);
    let starts = |list: Vec<(Key, bool)>| list.into_iter().map(|(start, _)| start).collect();
    (starts(alike), starts(unlike))
}

/// The changes that bring one partition from one placement to another.
fn place(table: TableId, start: &Key, from: &Placement, to: &Placement, changes: &mut Vec<Change>) {
    let start = || start.clone();
    let added = &to.holders() - &from.holders();
    let removed = &from.holders() - &to.holders();
    changes.extend(added.iter().map(|site| Change::AddReplica { table, start: start(), site }));
    if from.master != to.master {
        changes.push(Change::Remaster { table, start: start(), to: to.master });
    }
    let removals = removed.iter().map(|site| Change::RemoveReplica { table, start: start(), site });
    changes.extend(removals);
}
