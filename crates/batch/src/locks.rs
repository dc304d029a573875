//! The lock manager of one site. It grants locks in the order in which they were requested, which
//! is the order of the batches.
//!
//! A step requests all its locks at once, and steps request them in their order. Therefore a step
//! waits only for earlier steps, the first unfinished step waits for none, and deadlock is
//! impossible. A reader behind a waiting writer waits too, so no step overtakes it.
//!
//! # The picture
//!
//! There is no queue. A record stores only its last writer and the readers since that writer. A new
//! request waits for these, and through them for all earlier ones.
//!
//! ```text
//!   requested in this order  1 write   2 read   3 read   4 write   5 read
//!   waits for                  –         1        1       2 3        4
//!   the record stores          1w       1w 2r  1w 2r 3r    4w       4w 5r
//! ```
//!
//! A step counts its waits. The release of a lock decrements the counts of the steps behind it. A
//! writer replaces the readers that it waits for, so the number of waits at a record grows linearly
//! with its locks, even under contention.
//!
//! # Ranges
//!
//! A range lock protects *every* key of the range, with or without a row, so phantoms are
//! impossible. The ends of the locked ranges divide the keys into segments. A segment stores its
//! last writer and readers as a record does:
//!
//! ```text
//!   ranges           [10 ······ 30)
//!                         [20 ······· 40)
//!   segments     ····│10  │20   │30  │40····      a key belongs to exactly one segment
//! ```
//!
//! A record lock conflicts with record locks on its key and with the segment of its key. A range
//! lock conflicts with the segments it covers and with record locks between its ends. Segments
//! without locks are merged.
//!
//! In both cases a reader waits for the last writer, and a writer also for the readers.

use crate::plan::StepId;
use crate::rows::{RecordId, bounds, end_of};
use isomer_design::{Access, KeyRange, Span, TableId};
use std::collections::{BTreeMap, BTreeSet};

/// A lock that a step requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lock {
    /// The table.
    pub table: TableId,
    /// A single record or a range of keys.
    pub span: Span,
    /// `Read` is shared with other readers; `Write` is exclusive.
    pub access: Access,
}

/// The locks of a record or segment that a new request may have to wait for.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Place {
    writer: Option<StepId>,
    readers: BTreeSet<StepId>,
}

#[derive(Debug)]
struct Asked {
    locks: Vec<Lock>,
    /// The number of locks of earlier steps that this step still waits for.
    waits: usize,
    /// The steps that wait for this one, one entry for each wait.
    behind: Vec<StepId>,
}

/// The locks of a site.
#[derive(Debug, Default)]
pub struct Locks {
    records: BTreeMap<RecordId, Place>,
    /// By first key; each segment ends where the next one begins. The last segment of a table is
    /// free.
    segments: BTreeMap<RecordId, Place>,
    asked: BTreeMap<StepId, Asked>,
}

impl Place {
    /// Appends the steps that a new request must wait for.
    fn before(&self, access: Access, waits: &mut Vec<StepId>) {
        waits.extend(self.writer);
        if access == Access::Write {
            waits.extend(&self.readers);
        }
    }

    fn enter(&mut self, step: StepId, access: Access) {
        match access {
            Access::Read if self.writer == Some(step) => {}
            Access::Read => drop(self.readers.insert(step)),
            Access::Write => {
                self.writer = Some(step);
                self.readers.clear();
            }
        }
    }

    fn leave(&mut self, step: StepId) {
        self.readers.remove(&step);
        self.writer = self.writer.filter(|&writer| writer != step);
    }

    fn is_free(&self) -> bool {
        self.writer.is_none() && self.readers.is_empty()
    }
}

impl Locks {
    /// No locks.
    pub fn new() -> Locks {
        Locks::default()
    }

    /// True if no step holds or waits for a lock.
    pub fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// Requests all locks of a step, which must be later than every step that has requested locks
    /// so far. Returns true if they are granted at once.
    pub fn acquire(&mut self, step: StepId, locks: Vec<Lock>) -> bool {
        let last = self.asked.last_key_value();
        assert!(last.is_none_or(|(&last, _)| last < step), "{step} asks for locks after {last:?}");
        let mut before = Vec::new();
        for lock in &locks {
            self.enter(step, lock, &mut before);
        }
        before.retain(|&other| other != step);
        for other in &before {
            self.asked.get_mut(other).expect("a step with locks is listed").behind.push(step);
        }
        let waits = before.len();
        self.asked.insert(step, Asked { locks, waits, behind: Vec::new() });
        waits == 0
    }

    fn enter(&mut self, step: StepId, lock: &Lock, before: &mut Vec<StepId>) {
        match &lock.span {
            Span::Key(key) => {
                let record = (lock.table, key.clone());
                if let Some((_, segment)) = self.segments.range(..=&record).next_back() {
                    segment.before(lock.access, before);
                }
                let place = self.records.entry(record).or_default();
                place.before(lock.access, before);
                place.enter(step, lock.access);
            }
            Span::Range(range) => {
                for (_, place) in self.records.range(bounds(lock.table, range)) {
                    place.before(lock.access, before);
                }
                self.cut((lock.table, range.start.clone()));
                self.cut(end_of(lock.table, range));
                for (_, place) in self.segments.range_mut(bounds(lock.table, range)) {
                    place.before(lock.access, before);
                    place.enter(step, lock.access);
                }
            }
        }
    }

    /// Begins a segment at `at`, with the locks of the segment that it divides.
    fn cut(&mut self, at: RecordId) {
        if !self.segments.contains_key(&at) {
            let around = self.segments.range(..&at).next_back();
            let place = around.map(|(_, place)| place.clone()).unwrap_or_default();
            self.segments.insert(at, place);
        }
    }

    /// Releases all locks of a step, which must hold them. Returns the steps that now have all
    /// their locks, in order.
    pub fn release(&mut self, step: StepId) -> Vec<StepId> {
        let asked = self.asked.remove(&step).expect("a step that releases has asked");
        assert!(asked.waits == 0, "{step} releases locks that it waits for");
        let mut cuts = BTreeSet::new();
        for lock in &asked.locks {
            match &lock.span {
                Span::Key(key) => self.leave_record(step, (lock.table, key.clone())),
                Span::Range(range) => self.leave_range(step, lock.table, range, &mut cuts),
            }
        }
        cuts.into_iter().for_each(|cut| self.merge(&cut));
        let mut granted = Vec::new();
        for behind in asked.behind {
            let other = self.asked.get_mut(&behind).expect("a waiting step is listed");
            other.waits -= 1;
            if other.waits == 0 {
                granted.push(behind);
            }
        }
        granted.sort_unstable();
        granted
    }

    fn leave_record(&mut self, step: StepId, record: RecordId) {
        if let Some(place) = self.records.get_mut(&record) {
            place.leave(step);
            if place.is_free() {
                self.records.remove(&record);
            }
        }
    }

    /// Removes the step from the segments of a range. Adds to `cuts` the boundaries that may have
    /// become redundant, to be merged after the step has left all its segments.
    fn leave_range(
        &mut self,
        step: StepId,
        table: TableId,
        range: &KeyRange,
        cuts: &mut BTreeSet<RecordId>,
    ) {
        for (at, place) in self.segments.range_mut(bounds(table, range)) {
            place.leave(step);
            cuts.insert(at.clone());
        }
        cuts.insert(end_of(table, range));
    }

    /// Removes a boundary whose segment has the same locks as the segment before it, or is the
    /// first one and free.
    fn merge(&mut self, cut: &RecordId) {
        let before = self.segments.range(..cut).next_back().map(|(_, place)| place);
        let is_same = |place: &Place| before.map_or(place.is_free(), |before| before == place);
        if self.segments.get(cut).is_some_and(is_same) {
            self.segments.remove(cut);
        }
    }

    /// The steps that hold or wait for locks, each with the number of locks it waits for.
    pub fn waits(&self) -> impl Iterator<Item = (StepId, usize)> {
        self.asked.iter().map(|(&step, asked)| (step, asked.waits))
    }

    /// The number of records and segments with entries; 0 if nothing is locked.
    pub fn places(&self) -> usize {
        self.records.len() + self.segments.len()
    }
}
