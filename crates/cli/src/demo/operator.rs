//! The operator: a person, played by a thread, who looks at the heat of partitions and tidies up.
//!
//! ```text
//!   heat    ▁▁▁▁▁█▁▁▂▂▁▁▁▁▁▁        hot: split where half of the accesses lie before; give it a
//!           [     |   |    ]             replica where it has none, if it is mostly read
//!                                   quiet: join with a neighbour of the same placement; take a
//!                                          replica away that nobody uses
//! ```
//!
//! It moves no masters: that is what the strategy does, for the transactions that need it. What the
//! operator does is to make partitions the right size for it.

use super::heat::{Counts, Heat};
use crate::clock;
use isomer_cluster::Database;
use isomer_design::{Change, Design, Key, KeyRange, Placement, SiteId, Step, TableId, take_int};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);
/// Times the mean heat of a partition: above, it is hot.
const HOT: f64 = 6.0;
/// Below this share of the mean heat a partition is quiet.
const QUIET: f64 = 0.1;
/// Partitions do not grow beyond this many keys.
const KEYS_MAX: usize = 4096;
/// A partition with fewer writes than this share of its accesses is mostly read.
const MOSTLY_READ: f64 = 0.5;
/// Changes of each operator at one look.
const SPLITS: usize = 2;
const MERGES: usize = 40;
const REPLICAS: usize = 1;

/// A partition with its heat.
struct Part {
    start: Key,
    placement: Placement,
    from: usize,
    to: usize,
    heat: f64,
    writes: f64,
}

/// Looks and tidies up until `stop`.
pub(crate) fn operate(db: &Database, table: TableId, counts: &Counts, stop: &AtomicBool) {
    let mut heat = Heat::default();
    while !stop.load(Ordering::Relaxed) {
        clock::sleep(PAUSE);
        heat.take(counts);
        for step in plan(&db.design(), table, &heat) {
            // The strategy may have changed the design meanwhile, so that the step is not possible.
            let _ = db.change(step.change, &step.reason);
        }
    }
}

/// What the operator would do about a design.
fn plan(design: &Design, table: TableId, heat: &Heat) -> Vec<Step> {
    let parts = parts(design, table, heat);
    let total: f64 = parts.iter().map(|part| part.heat).sum();
    if total == 0.0 {
        return Vec::new();
    }
    let tidy = Tidy { design, table, heat, total, mean: total / parts.len() as f64 };
    let mut hottest: Vec<&Part> = parts.iter().filter(|p| p.heat > HOT * tidy.mean).collect();
    hottest.sort_by(|a, b| b.heat.total_cmp(&a.heat));
    let splits = hottest.iter().filter_map(|part| tidy.split(part)).take(SPLITS);
    let added = hottest.iter().filter_map(|part| tidy.add_replica(part)).take(REPLICAS);
    let merges = tidy.merges(&parts);
    let removed = parts.iter().rev().filter_map(|part| tidy.remove_replica(part)).take(REPLICAS);
    added.chain(splits).chain(merges).chain(removed).collect()
}

fn parts(design: &Design, table: TableId, heat: &Heat) -> Vec<Part> {
    let keys = heat.keys();
    let at = |key: &Key| {
        let number = take_int(key).and_then(|(number, _)| usize::try_from(number).ok());
        number.unwrap_or(0).min(keys)
    };
    let part = |(range, placement): (KeyRange, Placement)| {
        let (from, to) = (at(&range.start), range.end.as_ref().map_or(keys, at));
        let writes = heat.writes(from, to);
        Part { start: range.start, placement, from, to, heat: heat.all(from, to), writes }
    };
    design.partitions_in(table, &KeyRange::all()).map(part).collect()
}

/// What one look is about.
struct Tidy<'a> {
    design: &'a Design,
    table: TableId,
    heat: &'a Heat,
    total: f64,
    mean: f64,
}

impl Tidy<'_> {
    fn share(&self, heat: f64) -> String {
        format!("{:.1} %", heat / self.total * 100.0)
    }

    fn split(&self, part: &Part) -> Option<Step> {
        if part.to - part.from < 2 {
            return None;
        }
        let at = Key::int(self.heat.middle(part.from, part.to) as i64);
        let share = self.share(part.heat);
        let reason = format!("operator: busy, {share} of all accesses; half of them lie before");
        Some(Step::new(Change::Split { table: self.table, at }, reason))
    }

    fn add_replica(&self, part: &Part) -> Option<Step> {
        let without = |site: &SiteId| !part.placement.holds(*site);
        let site = self.design.sites().iter().find(without)?;
        if part.writes > MOSTLY_READ * part.heat {
            return None;
        }
        let share = self.share(part.heat - part.writes);
        let reason = format!("operator: {share} of all accesses read it, and {site} cannot");
        let (table, start) = (self.table, part.start.clone());
        Some(Step::new(Change::AddReplica { table, start, site }, reason))
    }

    fn remove_replica(&self, part: &Part) -> Option<Step> {
        let site = part.placement.replicas.iter().last()?;
        if part.heat > QUIET * self.mean {
            return None;
        }
        let reason =
            format!("operator: hardly used, a copy at {} is enough", part.placement.master);
        let (table, start) = (self.table, part.start.clone());
        Some(Step::new(Change::RemoveReplica { table, start, site }, reason))
    }

    /// Neighbours that are quiet, placed alike, and not too large together.
    fn merges(&self, parts: &[Part]) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut pairs = parts.windows(2);
        while let Some([left, right]) = pairs.next()
            && steps.len() < MERGES
        {
            let heat = left.heat + right.heat;
            let is_quiet = heat < 2.0 * QUIET * self.mean;
            let fits = right.to - left.from <= KEYS_MAX;
            if is_quiet && fits && left.placement == right.placement {
                let reason = "operator: quiet, and placed like the one before".to_owned();
                let change = Change::Merge { table: self.table, at: right.start.clone() };
                steps.push(Step::new(change, reason));
                // The right one is gone: it is nobody's left neighbour.
                pairs.next();
            }
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_design::{Column, ColumnType, Schema};

    #[test]
    fn hot_partitions_are_split_and_copied_and_quiet_ones_joined() {
        let table = TableId(1);
        let mut design = Design::new([1, 2].map(SiteId)).unwrap();
        let schema = Schema::new("cache", vec![Column::new("key", ColumnType::Int64)], &["key"]);
        let start = |i: i64| if i == 0 { Key::min() } else { Key::int(i * 10) };
        let partitions = (0..20).map(|i| (start(i), Placement::at(SiteId(1))));
        design.create_table(table, schema.unwrap(), partitions).unwrap();
        let counts = Counts::new(200);
        (0..1000).for_each(|i| counts.read(55 + i % 3));
        let mut heat = Heat::default();
        heat.take(&counts);
        let mut changes: Vec<String> = Vec::new();
        for step in plan(&design, table, &heat) {
            design.apply(&step.change).expect("what the operator wants is possible");
            changes.push(step.change.to_text(&design));
        }
        let expected = [
            "add_replica cache[50] s2",
            "split cache at 56",
            "merge cache at 10",
            "merge cache at 30",
            "merge cache at 70",
        ];
        assert_eq!(changes[..5], expected);
    }
}
