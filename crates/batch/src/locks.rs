//! The lock manager of one site: first come, first served, in the batches' order.
//!
//! A step asks for all its locks at once, and steps ask in their order. So a step waits for earlier ones
//! only, and the first of all that are there waits for none: there is no deadlock, and nothing to detect.
//! Who reads behind a writer that waits, waits too: nobody overtakes.
//!
//! # The picture
//!
//! No queue is kept. A record knows only its last writer, and the readers that came after it; whoever comes
//! next waits for these, and through them for all before.
//!
//! ```text
//!   asked in this order     1 write   2 read   3 read   4 write   5 read
//!   waits for                  –         1        1       2 3        4
//!   the record knows           1w       1w 2r  1w 2r 3r    4w       4w 5r
//! ```
//!
//! A step counts the locks it waits for; each that is released takes one off the counts of those behind
//! it. Each wait is counted once, so a record that all want costs no more than one that few want.
//!
//! # Ranges
//!
//! A range lock keeps others from writing *any* key in it, also those without a row: no phantoms. Ranges cut
//! the keys into segments, and a segment knows its last writer and readers as a record does:
//!
//! ```text
//!   ranges           [10 ······ 30)
//!                         [20 ······· 40)
//!   segments     ····│10  │20   │30  │40····      a key looks up the one segment that it is in
//! ```
//!
//! A record's lock waits for records' locks and for ranges' locks; a range's lock for ranges' locks in its
//! segments and records' locks between its ends. Segments without locks are merged again.
//!
//! The rule, for one place that both want: a reader waits for the last writer; a writer also for the readers.

use crate::plan::StepId;
use crate::rows::{RecordId, bounds, end_of};
use isomer_design::{Access, KeyRange, Span, TableId};
use std::collections::{BTreeMap, BTreeSet};

/// One lock that a step asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lock {
    /// The table.
    pub table: TableId,
    /// The record or the range.
    pub span: Span,
    /// Shared with other readers, or not.
    pub access: Access,
}

/// Who must be waited for at one record or segment.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Place {
    writer: Option<StepId>,
    readers: BTreeSet<StepId>,
}

#[derive(Debug)]
struct Asked {
    locks: Vec<Lock>,
    /// How many locks of earlier steps it waits for.
    waits: usize,
    /// Who waits for it, once for each wait.
    behind: Vec<StepId>,
}

/// The locks of a site.
#[derive(Debug, Default)]
pub struct Locks {
    records: BTreeMap<RecordId, Place>,
    /// By their first key; each reaches to the next. The last one of a table is empty.
    segments: BTreeMap<RecordId, Place>,
    asked: BTreeMap<StepId, Asked>,
}

impl Place {
    /// Whom a newcomer waits for.
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

    /// True if nobody holds or waits for anything.
    pub fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// Asks for all locks of a step, which must come after all that asked before. True if it has them.
    pub fn acquire(&mut self, step: StepId, locks: Vec<Lock>) -> bool {
        let last = self.asked.last_key_value();
        assert!(last.is_none_or(|(&last, _)| last < step), "{step} asks for locks after {last:?}");
        let mut before = Vec::new();
        for lock in &locks {
            self.enter(step, lock, &mut before);
        }
        before.retain(|&other| other != step);
        for other in &before {
            self.asked.get_mut(other).expect("who is waited for is there").behind.push(step);
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

    /// Lets a segment begin here.
    fn cut(&mut self, at: RecordId) {
        if !self.segments.contains_key(&at) {
            let around = self.segments.range(..&at).next_back();
            let place = around.map(|(_, place)| place.clone()).unwrap_or_default();
            self.segments.insert(at, place);
        }
    }

    /// Releases all locks of a step, which had them; gives the steps that have theirs now, in order.
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
            let other = self.asked.get_mut(&behind).expect("who waits is there");
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

    /// Adds the places where segments may be merged, once the step has left all of them.
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

    /// A segment that says what the one before it says is none; nor is a free one that is the first.
    fn merge(&mut self, cut: &RecordId) {
        let before = self.segments.range(..cut).next_back().map(|(_, place)| place);
        let is_same = |place: &Place| before.map_or(place.is_free(), |before| before == place);
        if self.segments.get(cut).is_some_and(is_same) {
            self.segments.remove(cut);
        }
    }

    /// Who waits, and for how many locks; 0 is who has all.
    pub fn waits(&self) -> impl Iterator<Item = (StepId, usize)> {
        self.asked.iter().map(|(&step, asked)| (step, asked.waits))
    }

    /// How many records and segments are known of: none, when nothing is locked.
    pub fn places(&self) -> usize {
        self.records.len() + self.segments.len()
    }
}
