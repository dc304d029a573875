//! The journal of decisions: what was looked at, what was chosen and why, what became of it.
//!
//! ```text
//!   decided ──▶ its changes are made, or not ──▶ what they took
//!           └─▶ transactions that touch what changed, before and after ──▶ what they brought
//! ```
//!
//! Only decisions that ask for changes are kept, the last [`Tuning::JOURNAL_MAX`] of them. The effect is
//! measured on the first [`Tuning::EFFECT_OF`] measured transactions after the changes, for a few decisions
//! at a time: so memory and work are bounded.

use super::planner::Candidate;
use super::range::Range;
use super::tuning::Tuning;
use isomer_design::{Change, Design, Footprint, Key, TableId};
use isomer_strategy::Place;
use std::collections::VecDeque;
use std::fmt::Write as _;

/// What became of a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChangeResult {
    /// It is on its way, or was only recommended.
    Open,
    /// It was made, and took so many nanoseconds.
    Made(u64),
    /// It was not made, and why.
    Failed(String),
}

/// Mean latencies of the transactions that touch what changed, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Effect {
    /// Before; of the samples that there were.
    pub before_us: Option<f64>,
    /// After; `None` until there were enough.
    pub after_us: Option<f64>,
    /// How many were looked at so far.
    pub seen: u32,
}

/// A decision.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// Counted from 1.
    pub number: u64,
    /// When it was made.
    pub at_ns: u64,
    /// The transaction that gave the occasion.
    pub trigger: Footprint,
    /// The sites that were looked at, the best first: the first one was chosen.
    pub candidates: Vec<Candidate>,
    /// Where the transaction ran.
    pub place: Place,
    /// It is carried out; otherwise it is a recommendation.
    pub in_force: bool,
    /// What became of the chosen changes, in their order.
    pub fates: Vec<ChangeResult>,
    /// What they brought.
    pub effect: Effect,
    ranges: Vec<Range>,
    /// What those that were looked at since then took together.
    took_us: f64,
}

/// See the [module documentation](self).
#[derive(Clone, Debug, Default)]
pub struct Journal {
    entries: VecDeque<Entry>,
    made: u64,
    open: Vec<u64>,
}

impl Journal {
    /// Enters a decision; `before_us` is what transactions that touch the `ranges` took until now.
    pub(crate) fn enter(
        &mut self,
        at_ns: u64,
        trigger: &Footprint,
        candidates: Vec<Candidate>,
        (place, in_force): (Place, bool),
        (ranges, before_us): (Vec<Range>, Option<f64>),
    ) {
        self.made += 1;
        let steps = candidates.first().map_or(0, |chosen| chosen.steps().count());
        let entry = Entry {
            number: self.made,
            at_ns,
            trigger: trigger.clone(),
            candidates,
            place,
            in_force,
            fates: vec![ChangeResult::Open; steps],
            effect: Effect { before_us, ..Effect::default() },
            ranges,
            took_us: 0.0,
        };
        if self.entries.len() == Tuning::JOURNAL_MAX {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
        if in_force && self.open.len() < Tuning::EFFECTS_MAX {
            self.open.push(self.made);
        }
    }

    /// A change was made, or was not.
    pub(crate) fn hear(&mut self, change: &Change, took_ns: &Result<u64, String>) {
        let fate = match took_ns {
            Ok(took) => ChangeResult::Made(*took),
            Err(why) => ChangeResult::Failed(why.clone()),
        };
        // It belongs to the latest decision that waits for it; old ones wait for nothing.
        for entry in
            self.entries.iter_mut().rev().take(Tuning::JOURNAL_MAX / 10).filter(|e| e.in_force)
        {
            let Some(chosen) = entry.candidates.first() else { continue };
            let waiting = |(step, fate): (&isomer_design::Step, &ChangeResult)| {
                step.change == *change && *fate == ChangeResult::Open
            };
            if let Some(at) = chosen.steps().zip(&entry.fates).position(waiting) {
                entry.fates[at] = fate;
                return;
            }
        }
    }

    /// A transaction ran and took so long.
    pub(crate) fn observe(&mut self, now_ns: u64, footprint: &Footprint, took_us: f64) {
        let Journal { entries, open, made } = self;
        open.retain(|number| {
            let Some(back) = made.checked_sub(*number).filter(|b| (*b as usize) < entries.len())
            else {
                return false;
            };
            let at = entries.len() - 1 - back as usize;
            let entry = &mut entries[at];
            if now_ns.saturating_sub(entry.at_ns) > Tuning::EFFECT_NS {
                return false;
            }
            let is_made = !entry.fates.contains(&ChangeResult::Open);
            if is_made && entry.ranges.iter().any(|range| range.is_touched_by(footprint)) {
                entry.took_us += took_us;
                let effect = &mut entry.effect;
                effect.seen += 1;
                // Few say nothing: one that waited long is most of them.
                let enough = effect.seen >= Tuning::EFFECT_OF;
                effect.after_us = enough.then(|| entry.took_us / f64::from(effect.seen));
            }
            entry.effect.seen < Tuning::EFFECT_OF
        });
    }

    /// Decisions are counted on from this number.
    pub(crate) fn count_from(&mut self, number: u64) {
        self.made = self.made.max(number);
    }

    /// How many decisions there were.
    pub fn len(&self) -> u64 {
        self.made
    }

    /// True if there was none.
    pub fn is_empty(&self) -> bool {
        self.made == 0
    }

    /// The last decisions, the newest first.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().rev()
    }

    /// The decisions that changed the partition of a key, the newest first: how it came to be where
    /// it is.
    pub fn about<'a>(&'a self, table: TableId, key: &'a Key) -> impl Iterator<Item = &'a Entry> {
        let about = move |range: &Range| range.table == table && range.keys.contains(key);
        self.entries().filter(move |entry| entry.ranges.iter().any(about))
    }
}

impl Entry {
    /// What it changes.
    pub(crate) fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// The decision as a person reads it; `design` gives the names.
    pub fn to_text(&self, design: &Design) -> String {
        let what = if self.in_force { "" } else { ", and would change" };
        let trigger = self.trigger.to_text(design);
        let mut text = format!("#{} {trigger} runs {}{what}\n", self.number, to_text(self.place));
        for (rank, candidate) in self.candidates.iter().enumerate() {
            text += &candidate.to_text(design, if rank == 0 { Some(&self.fates) } else { None });
        }
        let Effect { before_us, after_us, seen } = self.effect;
        if let (Some(before), Some(after)) = (before_us, after_us) {
            let _ = writeln!(
                text,
                "  effect: {before:.0} µs before, {after:.0} µs after ({seen} transactions)"
            );
        }
        text
    }
}

impl Candidate {
    /// The candidate as a person reads it, with what became of its changes.
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
