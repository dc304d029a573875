//! The changes of the design during a run: number, times, and the share that was soon undone.
//!
//! ```text
//!   split at 5 ─────────▶ merge at 5                   undone within 10 s: thrash
//!   remaster to s2 ─────▶ remaster to s1               likewise, if s1 was the master before
//!   add_replica s3 ──────────────── 10 s ─▶ remove     undone later: the workload has changed
//! ```

use isomer_cluster::ChangeEvent;
use isomer_design::{Change, Design, SiteId};
use parking_lot::Mutex;
use std::ops::Range;

/// A change that is undone within this time should not have been made.
const THRASH_NS: u64 = 10_000_000_000;

/// See the [module documentation](self).
pub(crate) struct Changes(Mutex<Book>);

struct Book {
    /// The design with all changes so far, from which the previous master is known.
    design: Design,
    made: Vec<Made>,
}

struct Made {
    at_ns: u64,
    change: Change,
    opposite: Change,
}

impl Changes {
    /// Starts with a design to which no changes have been made.
    pub(crate) fn new(design: Design) -> Changes {
        Changes(Mutex::new(Book { design, made: Vec::new() }))
    }

    /// Records a change that was made.
    pub(crate) fn enter(&self, event: &ChangeEvent) {
        let mut book = self.0.lock();
        let ChangeEvent { change, begun, took_ns, .. } = event;
        let place = change.table().zip(change.start());
        let found = place.and_then(|(table, start)| book.design.partition_of(table, start));
        let master = found.map_or(SiteId(1), |(_, placement)| placement.master);
        book.design.apply(change).expect("what was made can be made");
        let (at_ns, opposite) = (begun.0 + took_ns, change.opposite(master));
        book.made.push(Made { at_ns, change: change.clone(), opposite });
    }

    /// The number of changes in a time range.
    pub(crate) fn count(&self, within_ns: &Range<u64>) -> usize {
        self.0.lock().made.iter().filter(|made| within_ns.contains(&made.at_ns)).count()
    }

    /// Of the changes in a time range, the share that was soon undone; `None` if there were none.
    pub(crate) fn thrash(&self, within_ns: &Range<u64>) -> Option<f64> {
        let book = self.0.lock();
        let (mut all, mut undone) = (0, 0);
        for (at, made) in book.made.iter().enumerate() {
            if !within_ns.contains(&made.at_ns) {
                continue;
            }
            all += 1;
            let soon = |later: &&Made| later.at_ns <= made.at_ns + THRASH_NS;
            let after = book.made[at + 1..].iter().take_while(soon);
            undone += usize::from(after.map(|later| &later.change).any(|c| *c == made.opposite));
        }
        (all > 0).then(|| f64::from(undone as u32) / f64::from(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_design::{Column, ColumnType, Key, Placement, Schema, TableId, Time};

    const T: TableId = TableId(1);

    /// The picture in the module documentation.
    #[test]
    fn changes_that_are_soon_undone_are_thrash() {
        let mut design = Design::new([1, 2, 3].map(SiteId)).unwrap();
        let schema = Schema::new("rows", vec![Column::new("id", ColumnType::Int64)], &["id"]);
        let start = [(Key::min(), Placement::new(SiteId(1), [SiteId(2)]))];
        design.create_table(T, schema.unwrap(), start).unwrap();
        let changes = Changes::new(design);
        let enter = |second: u64, change: Change| {
            let (text, reason, begun) =
                (String::new(), String::new(), Time(second * 1_000_000_000));
            changes.enter(&ChangeEvent {
                change,
                text,
                reason,
                begun,
                took_ns: 1,
                rows: 0,
                bytes: 0,
            });
        };
        let at = Key::int(5);
        let remaster = |to| Change::Remaster { table: T, start: Key::min(), to: SiteId(to) };
        let (table, start, site) = (T, Key::min(), SiteId(3));
        enter(1, Change::Split { table, at: at.clone() });
        enter(2, Change::Merge { table, at });
        enter(3, Change::AddReplica { table, start: start.clone(), site });
        enter(4, remaster(2));
        enter(5, remaster(3));
        enter(6, remaster(2));
        enter(14, Change::RemoveReplica { table, start, site });
        let seconds = |from: u64, to: u64| from * 1_000_000_000..to * 1_000_000_000;
        assert_eq!(changes.count(&seconds(1, 7)), 6);
        assert_eq!(changes.thrash(&seconds(1, 2)), Some(1.0), "split and merged");
        assert_eq!(changes.thrash(&seconds(3, 5)), Some(0.0), "s3 goes after 11 s, s1 has lost it");
        assert_eq!(changes.thrash(&seconds(4, 7)), Some(1.0 / 3.0), "from s2 to s3 and back");
        assert_eq!(changes.thrash(&seconds(20, 30)), None);
    }
}
