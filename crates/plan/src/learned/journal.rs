//! The journal of decisions: alternatives, choice, reason, and effect.
//!
//! ```text
//!   decided ──▶ its changes are made, or not ──▶ their time
//!           └─▶ transactions on the changed ranges, before and after ──▶ their effect
//!           └─▶ a later decision undoes them
//!                        all decisions ──▶ how often was the promise kept? ([`Summary`])
//! ```
//!
//! Only decisions with changes are kept, the last [`Tuning::JOURNAL_MAX`] of them. The effect is
//! measured on the first [`Tuning::MANY`] measured transactions after the changes, for a few
//! decisions at a time. So memory and work are bounded.

use super::planner::Candidate;
use super::range::Range;
use super::tuning::Tuning;
use isomer_design::{Change, Design, Footprint, Key, TableId};
use isomer_strategy::Place;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;

/// The result of a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChangeResult {
    /// It is in flight, or was only recommended.
    Open,
    /// It was made, and took this number of nanoseconds.
    Made(u64),
    /// It was not made, for this reason.
    Failed(String),
}

/// Mean latencies of the transactions that touch the changed ranges, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Effect {
    /// The number of such transactions that was expected within the horizon.
    pub expected: f64,
    /// Before the changes, over the samples at that time.
    pub before_us: Option<f64>,
    /// After the changes; `None` until there are enough measurements.
    pub after_us: Option<f64>,
    /// The number of measured transactions after the changes.
    pub seen: u32,
}

impl Effect {
    /// The measured saving per transaction, in microseconds; `None` before there are enough
    /// measurements.
    pub fn measured_us(&self) -> Option<f64> {
        Some(self.before_us? - self.after_us?)
    }

    /// The predicted saving per transaction, in microseconds, if all of them together save
    /// `saves_us`; `None` if no transaction was expected.
    pub fn foretold_us(&self, saves_us: f64) -> Option<f64> {
        (self.expected > 0.0).then(|| saves_us / self.expected)
    }
}

/// The promises of decisions, and their measured effects.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Decisions that changed the design.
    pub decisions: u64,
    /// Decisions that promised a saving and whose effect was measured.
    pub measured: u64,
    /// The median relative difference between their effects and their promises.
    pub median_error: Option<f64>,
    /// The share of them that saved at least what was promised.
    pub as_promised: Option<f64>,
    /// The share of all decisions that later ones undid, in whole or in part.
    pub taken_back: Option<f64>,
}

impl Summary {
    fn of<'e>(entries: impl Iterator<Item = &'e Entry>) -> Summary {
        let is_made =
            |entry: &&Entry| entry.fates.iter().any(|f| matches!(f, ChangeResult::Made(_)));
        let made: Vec<&Entry> = entries.filter(is_made).collect();
        let brought = made.iter().filter_map(|entry| {
            let foretold_us = entry.effect.foretold_us(entry.candidates.first()?.saves_us)?;
            Some(entry.effect.measured_us()? / foretold_us).filter(|_| foretold_us > 0.0)
        });
        let mut brought: Vec<f64> = brought.collect();
        let share = |count: usize, of: usize| (of > 0).then(|| count as f64 / of as f64);
        let kept = brought.iter().filter(|share| **share >= 1.0).count();
        let undone = made.iter().filter(|entry| entry.taken_back_by.is_some()).count();
        let as_promised = share(kept, brought.len());
        brought.iter_mut().for_each(|share| *share = (*share - 1.0).abs());
        brought.sort_by(f64::total_cmp);
        Summary {
            decisions: made.len() as u64,
            measured: brought.len() as u64,
            median_error: brought.get(brought.len() / 2).copied(),
            as_promised,
            taken_back: share(undone, made.len()),
        }
    }

    /// The summary as a sentence.
    pub fn to_text(&self) -> String {
        let percent =
            |share: Option<f64>| share.map_or("?".to_owned(), |s| format!("{:.0} %", 100.0 * s));
        let [error, kept, undone] =
            [self.median_error, self.as_promised, self.taken_back].map(percent);
        let Summary { decisions, measured, .. } = self;
        format!(
            "{decisions} decisions changed the design, {undone} were taken back; of {measured} that were measured, {kept} \
             brought what was promised (median error {error})\n"
        )
    }
}

/// A decision.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// The number, counted from 1.
    pub number: u64,
    /// The time of the decision.
    pub at_ns: u64,
    /// The transaction that triggered it.
    pub trigger: Footprint,
    /// The candidate sites, the best first; the first one was chosen.
    pub candidates: Vec<Candidate>,
    /// Where the transaction ran.
    pub place: Place,
    /// True if it is executed; otherwise it is a recommendation.
    pub in_force: bool,
    /// The results of the chosen changes, in their order.
    pub fates: Vec<ChangeResult>,
    /// Their effect.
    pub effect: Effect,
    /// The later decision that undid a part of it.
    pub taken_back_by: Option<u64>,
    pub(crate) ranges: Vec<Range>,
    /// The sum of the latencies of the transactions measured since then.
    pub(crate) took_us: f64,
}

/// See the [module documentation](self).
#[derive(Clone, Debug, Default)]
pub struct Journal {
    entries: VecDeque<Entry>,
    made: u64,
    open: Vec<u64>,
    /// The last decision that asked for a change.
    asked: BTreeMap<Change, u64>,
}

impl Journal {
    /// The next decision has a number after this one.
    pub(crate) fn number_after(&mut self, number: u64) {
        self.made = self.made.max(number);
    }

    /// Enters a decision and gives it its number; `undone` are the earlier changes that it
    /// reverses. A recommendation that repeats an earlier one, or a decision under way, is not
    /// entered again.
    pub(crate) fn enter(&mut self, mut entry: Entry, undone: &[Change]) {
        let is_told = |change| {
            let of = self.entry_of(change).map(|at| &self.entries[at]);
            of.is_some_and(|of| !of.in_force || of.fates.contains(&ChangeResult::Open))
        };
        if !entry.in_force && entry.changes().all(is_told) {
            return;
        }
        self.made += 1;
        entry.number = self.made;
        for change in undone {
            if let Some(at) = self.entry_of(change) {
                self.entries[at].taken_back_by.get_or_insert(entry.number);
            }
        }
        self.asked.extend(entry.changes().map(|change| (change.clone(), entry.number)));
        if self.entries.len() == Tuning::JOURNAL_MAX
            && let Some(oldest) = self.entries.pop_front()
        {
            for change in oldest.changes() {
                if self.asked.get(change) == Some(&oldest.number) {
                    self.asked.remove(change);
                }
            }
        }
        if entry.in_force && self.open.len() < Tuning::MANY {
            self.open.push(entry.number);
        }
        self.entries.push_back(entry);
    }

    /// The decision that a plan is of: the one that asked for all of its changes, and for the
    /// fewest others; of several, the last one.
    pub(crate) fn entry_for<'c>(
        &self,
        changes: impl Iterator<Item = &'c Change>,
    ) -> Option<&Entry> {
        let wanted: BTreeSet<&Change> = changes.collect();
        let has_all = |entry: &&Entry| {
            let asked: BTreeSet<&Change> = entry.changes().collect();
            wanted.is_subset(&asked)
        };
        let all = self.entries.iter().rev().filter(|entry| entry.fates.len() >= wanted.len());
        all.filter(has_all).min_by_key(|entry| entry.fates.len()).filter(|_| !wanted.is_empty())
    }

    /// Puts a recommendation in force, from this time on. The results of its changes belong to it
    /// now, also where later decisions asked for the same. Returns false if it is not kept any
    /// more.
    pub(crate) fn take_up(&mut self, now_ns: u64, number: u64) -> bool {
        let found = self.entries.binary_search_by_key(&number, |entry| entry.number);
        let Ok(at) = found else { return false };
        let entry = &mut self.entries[at];
        (entry.in_force, entry.at_ns) = (true, now_ns);
        self.asked.extend(entry.changes().map(|change| (change.clone(), number)));
        if self.open.len() < Tuning::MANY {
            self.open.push(number);
        }
        true
    }

    /// The index of the last decision that asked for a change.
    fn entry_of(&self, change: &Change) -> Option<usize> {
        let number = self.asked.get(change)?;
        self.entries.binary_search_by_key(number, |entry| entry.number).ok()
    }

    /// Records the result of a change: its duration, or the reason of its failure.
    pub(crate) fn hear(&mut self, change: &Change, took_ns: Result<u64, &str>) {
        let fate = match took_ns {
            Ok(took) => ChangeResult::Made(took),
            Err(why) => ChangeResult::Failed(why.to_owned()),
        };
        // The result belongs to the latest decision that asked for the change.
        let Some(at) = self.entry_of(change) else { return };
        let entry = &mut self.entries[at];
        let is_open = |(asked, fate): (&Change, &_)| asked == change && *fate == ChangeResult::Open;
        let open = entry.changes().zip(&entry.fates).position(is_open);
        if let Some(open) = open {
            entry.fates[open] = fate;
        }
    }

    /// The plan of a decision has ended. Those of its changes that it did not have, or that were
    /// cancelled, are not made any more.
    pub(crate) fn close(&mut self, number: u64) {
        let found = self.entries.binary_search_by_key(&number, |entry| entry.number);
        let Ok(at) = found else { return };
        let fates = &mut self.entries[at].fates;
        for fate in fates.iter_mut().filter(|fate| **fate == ChangeResult::Open) {
            *fate = ChangeResult::Failed("the approved plan ended without it".to_owned());
        }
    }

    /// Records the latency of a transaction.
    pub(crate) fn observe(
        &mut self,
        now_ns: u64,
        footprint: &Footprint,
        took_us: f64,
        effect_ns: u64,
    ) {
        let Journal { entries, open, .. } = self;
        open.retain(|number| {
            let Ok(at) = entries.binary_search_by_key(number, |entry| entry.number) else {
                return false;
            };
            let entry = &mut entries[at];
            if now_ns.saturating_sub(entry.at_ns) > effect_ns {
                return false;
            }
            let is_made = |fate: &ChangeResult| matches!(fate, ChangeResult::Made(_));
            let has_ended = !entry.fates.contains(&ChangeResult::Open);
            if has_ended
                && entry.fates.iter().any(is_made)
                && entry.ranges.iter().any(|range| range.is_touched_by(footprint))
            {
                entry.took_us += took_us;
                let effect = &mut entry.effect;
                effect.seen += 1;
                // A few measurements say nothing: one long wait would dominate them.
                let enough = effect.seen as usize >= Tuning::MANY;
                effect.after_us = enough.then(|| entry.took_us / f64::from(effect.seen));
            }
            (entry.effect.seen as usize) < Tuning::MANY
        });
    }

    /// The number of decisions so far.
    pub fn len(&self) -> u64 {
        self.made
    }

    /// True if there was none.
    pub fn is_empty(&self) -> bool {
        self.made == 0
    }

    /// The summary of the decisions that are kept.
    pub fn summary(&self) -> Summary {
        Summary::of(self.entries.iter())
    }

    /// The last decisions, the newest first.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().rev()
    }

    /// The decisions that changed the partition of a key, the newest first.
    pub fn about<'a>(&'a self, table: TableId, key: &'a Key) -> impl Iterator<Item = &'a Entry> {
        let about = move |range: &Range| range.table == table && range.keys.contains(key);
        self.entries().filter(move |entry| entry.ranges.iter().any(about))
    }
}

impl Entry {
    /// The chosen changes.
    fn changes(&self) -> impl Iterator<Item = &Change> {
        self.candidates.iter().take(1).flat_map(Candidate::steps).map(|step| &step.change)
    }

    /// The decision as text; `design` gives the names.
    pub fn to_text(&self, design: &Design) -> String {
        let what = if self.in_force { "" } else { ", and would change" };
        let trigger = self.trigger.to_text(design);
        let mut text = format!("#{} {trigger} runs {}{what}\n", self.number, to_text(self.place));
        for (rank, candidate) in self.candidates.iter().enumerate() {
            text += &candidate.to_text(design, if rank == 0 { Some(&self.fates) } else { None });
        }
        let Effect { before_us, after_us, seen, .. } = self.effect;
        if let (Some(before), Some(after)) = (before_us, after_us) {
            let _ = writeln!(
                text,
                "  effect: {before:.0} µs before, {after:.0} µs after ({seen} transactions)"
            );
        }
        if let Some(number) = self.taken_back_by {
            let _ = writeln!(text, "  taken back by #{number}");
        }
        text
    }
}

impl Candidate {
    /// The candidate as text, with the results of its changes.
    pub fn to_text(&self, design: &Design, fates: Option<&Vec<ChangeResult>>) -> String {
        let Candidate { place, cost_us, benefit_us, run_us, .. } = self;
        let (place, net) = (to_text(*place), self.net_us());
        let mut text = format!(
            "  {place}: saves {benefit_us:.0}, costs {cost_us:.0}, net {net:.0}; runs in {run_us:.0} µs\n"
        );
        let steps = self.necessary.iter().map(|step| ("needs ", step));
        let steps = steps.chain(self.beneficial.iter().map(|step| ("adds  ", step)));
        for (at, (kind, step)) in steps.enumerate() {
            let fate = match fates.and_then(|fates| fates.get(at)) {
                Some(ChangeResult::Made(ns)) => format!("  [took {:.0} µs]", *ns as f64 / 1e3),
                Some(ChangeResult::Failed(why)) => format!("  [not made: {why}]"),
                Some(ChangeResult::Open) | None => String::new(),
            };
            let change = step.change.to_text(design);
            let _ = writeln!(text, "      {kind} {change}: {}{fate}", step.reason);
        }
        text
    }
}

fn to_text(place: Place) -> String {
    match place {
        Place::At(site) => format!("at {site}"),
        Place::Distributed { coordinator } => {
            format!("over several sites, coordinated by {coordinator}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_design::{SiteId, Step};

    const T: TableId = TableId(1);
    const S1: Place = Place::At(SiteId(1));

    fn split(at: i64) -> Change {
        Change::Split { table: T, at: Key::int(at) }
    }

    fn enter(journal: &mut Journal, in_force: bool, change: Change, undone: &[Change]) {
        let step = Step::new(change, "a test").predicted(10.0, 1000.0);
        let candidates = vec![Candidate::of_steps(S1, vec![step])];
        let range = Range { table: T, keys: isomer_design::KeyRange::all() };
        let effect = Effect { before_us: Some(100.0), expected: 20.0, ..Effect::default() };
        let entry = Entry {
            number: 0,
            at_ns: 1,
            trigger: Footprint::new(),
            candidates,
            place: S1,
            in_force,
            fates: vec![ChangeResult::Open],
            effect,
            taken_back_by: None,
            ranges: vec![range],
            took_us: 0.0,
        };
        journal.enter(entry, undone);
    }

    #[test]
    fn changes_that_the_approved_plan_did_not_have_are_not_made() {
        let mut journal = Journal::default();
        for at in [5, 6] {
            enter(&mut journal, false, split(at), &[]);
            assert!(journal.take_up(2, at as u64 - 4));
        }
        journal.hear(&split(5), Ok(7));
        (1..=3).for_each(|number| journal.close(number));
        let fates: Vec<_> = journal.entries().map(|entry| entry.fates[0].clone()).collect();
        assert!(matches!(fates[..], [ChangeResult::Failed(_), ChangeResult::Made(7)]), "{fates:?}");
    }

    #[test]
    fn a_plan_is_of_the_decision_that_asked_for_all_of_it() {
        let mut journal = Journal::default();
        for (keys, benefit_us) in [(5..7, 10.0), (5..9, 1000.0), (8..9, 1.0)] {
            enter(&mut journal, true, split(keys.start), &[]);
            let entry = journal.entries.back_mut().expect("it was entered");
            let steps = keys.clone().map(|at| Step::new(split(at), "a test"));
            entry.candidates = vec![Candidate::of_steps(S1, steps.collect())];
            entry.candidates[0].benefit_us = benefit_us;
            entry.fates = vec![ChangeResult::Open; keys.count()];
        }
        let of = |keys: std::ops::Range<i64>| {
            let changes: Vec<Change> = keys.map(split).collect();
            journal.entry_for(changes.iter()).map(|entry| entry.number)
        };
        assert_eq!([of(5..7), of(5..6), of(6..9), of(8..9)], [1, 1, 2, 3].map(Some));
        assert_eq!([of(4..6), of(5..5)], [None, None]);
        // Results belong to the decision that was taken up.
        assert!(journal.take_up(2, 1) && !journal.take_up(2, 7));
        journal.hear(&split(5), Ok(7));
        let made = journal.entries().map(|entry| entry.fates[0] == ChangeResult::Made(7));
        assert_eq!(made.collect::<Vec<_>>(), [false, false, true]);
    }

    #[test]
    fn promises_and_effects_are_summarised() {
        let mut journal = Journal::default();
        enter(&mut journal, true, split(5), &[]);
        assert_eq!(journal.summary(), Summary::default(), "it is on its way");
        journal.hear(&split(5), Ok(7000));
        let footprint = Footprint::new().write(T, Key::int(3));
        let ran = |journal: &mut Journal, times, us| {
            (0..times).for_each(|_| journal.observe(2, &footprint, us, 100));
        };
        ran(&mut journal, Tuning::MANY - 1, 60.0);
        assert_eq!(journal.summary().measured, 0, "few say nothing");
        ran(&mut journal, 1, 60.0);
        // A saving of 40 µs, twenty times, where 1000 µs was promised.
        let summary = journal.summary();
        assert_eq!((summary.decisions, summary.measured), (1, 1));
        assert!((summary.median_error.unwrap() - 0.2).abs() < 1e-9, "{summary:?}");
        assert_eq!((summary.as_promised, summary.taken_back), (Some(0.0), Some(0.0)));
        let effect = journal.entries().next().expect("it was entered").effect;
        assert_eq!(effect.foretold_us(1000.0), Some(50.0), "for each transaction");
        assert_eq!(effect.measured_us(), Some(40.0));
        let merge = Change::Merge { table: T, at: Key::int(5) };
        enter(&mut journal, true, merge, &[split(5)]);
        assert_eq!(journal.entries().last().unwrap().taken_back_by, Some(2));
        assert_eq!(journal.summary().taken_back, Some(1.0), "the second is on its way");
    }

    #[test]
    fn a_repeated_recommendation_gets_one_number() {
        let mut journal = Journal::default();
        (0..3).for_each(|_| enter(&mut journal, false, split(5), &[]));
        enter(&mut journal, false, split(6), &[]);
        assert_eq!(journal.entries().map(|entry| entry.number).collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut journal = Journal::default();
        for at in 0..3 * Tuning::JOURNAL_MAX as i64 {
            enter(&mut journal, true, split(at), &[]);
        }
        assert_eq!([journal.entries.len(), journal.asked.len()], [Tuning::JOURNAL_MAX; 2]);
    }
}
