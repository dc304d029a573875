//! The histories of a server: changes of the design, failovers, plans of operators, and what
//! operators did.
//!
//! ```text
//!   change ───┐  the last of each, where the conductor is ──▶ isomer.changes, isomer.failovers
//!   failover ─┼─────┤
//!   plan ─────┘     │  isomer.reconfigurations shows them after those of this start
//!                   ▼
//!   action ───▶ unwritten ──▶ isomer_history ([`crate::histories`]) ──▶ isomer.audit
//! ```
//!
//! **Plans** have an event when they are first seen, and one when they have ended. A plan with only
//! the first was interrupted by the end of its process.
//!
//! **Numbers** of changes go on where the table ends. So changes wait for their numbers, and are
//! not shown, until the table was read ([`Chronicle::begin`]).
//!
//! **Bounds.** The last [`KEPT_MAX`] events of each kind are kept. While commits wait, twice as
//! many rows are kept unwritten, and of these at most [`DENIED_MAX`] actions that were refused.

use isomer_cluster::{ChangeEvent, FailedOver};
use isomer_design::{Key, TableId, Time};
use isomer_sql::code;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Events of each kind that are kept.
pub(crate) const KEPT_MAX: usize = 1000;
/// Of these, the most actions that were refused for lack of rights: a role without rights must not
/// push out the actions of others.
pub(crate) const DENIED_MAX: usize = 200;
/// Texts are cut to this.
const TEXT_BYTES_MAX: usize = 4096;

/// The kinds of what a history has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    Change,
    Failover,
    Plan,
    Action,
    /// The rows of `isomer.decisions` and `isomer.proposals`: see [`crate::remembered`].
    Decision,
    Proposal,
}

impl Kind {
    /// The name in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Change => "change",
            Kind::Failover => "failover",
            Kind::Plan => "plan",
            Kind::Action => "action",
            Kind::Decision => "decision",
            Kind::Proposal => "proposal",
        }
    }
}

/// An event.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Event {
    /// A change of the design took effect.
    Change {
        number: u64,
        at_us: i64,
        text: String,
        reason: String,
        took_us: f64,
        table: Option<u32>,
        key: Option<Vec<u8>>,
    },
    /// A site failed, was taken over from, or serves again.
    Failover { at_us: i64, site: String, text: String },
    /// An operator did something, or was refused.
    Action { at_us: i64, user: String, client: String, action: String, outcome: String },
    /// A plan of an operator has begun or ended.
    Plan(PlanTold),
}

/// A plan of an operator, as it was at its beginning or its end.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct PlanTold {
    pub(crate) number: u64,
    pub(crate) reason: String,
    pub(crate) state: String,
    /// The number of its changes, and of those that are in force.
    pub(crate) changes: usize,
    pub(crate) made: usize,
    /// The rows that were copied, and their bytes.
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
    pub(crate) begun_us: i64,
    pub(crate) ended_us: Option<i64>,
    pub(crate) error: Option<String>,
    /// Its changes, one in each line.
    pub(crate) plan: String,
    /// The 99th percentile of transactions in microseconds, before it and while it ran.
    pub(crate) quiet_p99_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
}

impl Event {
    /// True for an action that was refused for lack of rights.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self, Event::Action { outcome, .. } if outcome.starts_with(code::INSUFFICIENT_PRIVILEGE))
    }

    fn kind(&self) -> Kind {
        match self {
            Event::Change { .. } => Kind::Change,
            Event::Failover { .. } => Kind::Failover,
            Event::Plan(_) => Kind::Plan,
            Event::Action { .. } => Kind::Action,
        }
    }

    /// Its order among those of its kind: a number, or a time.
    fn order(&self) -> i64 {
        match self {
            Event::Change { number, .. } => *number as i64,
            Event::Plan(plan) => plan.number as i64,
            Event::Failover { at_us, .. } | Event::Action { at_us, .. } => *at_us,
        }
    }

    /// A change that was made, and waits for its number.
    fn change(event: &ChangeEvent) -> Event {
        Event::Change {
            number: 0,
            at_us: us(event.begun) + (event.took_ns / 1000) as i64,
            text: clipped(&event.text),
            reason: clipped(&event.reason),
            took_us: event.took_ns as f64 / 1000.0,
            table: event.change.table().map(|table| table.0),
            key: event.change.start().map(|key| key.as_bytes().to_vec()),
        }
    }
}

/// The table and the first key of the partition that a change is about.
pub(crate) fn part_of(table: Option<u32>, key: Option<&[u8]>) -> Option<(TableId, Key)> {
    Some((TableId(table?), Key::from_bytes(key?)))
}

pub(crate) fn us(time: Time) -> i64 {
    (time.0 / 1000) as i64
}

pub(crate) fn clipped(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT_BYTES_MAX)].to_owned()
}

/// A row of the table: its kind, its order among those of the kind, and what tells apart those of
/// one order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Place(pub(crate) Kind, pub(crate) i64, pub(crate) i64);

/// A row that is to be written; without a text it is deleted.
#[derive(Clone, Debug)]
pub(crate) struct Unwritten {
    /// Counts all of them.
    pub(crate) turn: u64,
    pub(crate) place: Place,
    pub(crate) text: Option<String>,
    is_denied: bool,
}

/// The part of the present state that the histories have.
#[derive(Default)]
pub struct Noted {
    /// Sites that others have taken over from.
    pub(crate) sites: BTreeSet<String>,
    /// Plans by number, and whether they have ended.
    pub(crate) plans: BTreeMap<u64, bool>,
    /// Proposals by number, with their states.
    pub(crate) proposals: Vec<(u64, &'static str)>,
    /// The number of decisions.
    pub(crate) decisions: u64,
}

#[derive(Default)]
struct Kept {
    changes: VecDeque<Event>,
    failovers: VecDeque<Event>,
    plans: BTreeMap<u64, PlanTold>,
    /// The number of the last change, once the table was read.
    last: Option<u64>,
    /// Another process makes the changes, and notes them.
    follows: bool,
    /// Changes that wait for their numbers.
    early: VecDeque<Event>,
    unwritten: VecDeque<Unwritten>,
    /// The number of unwritten rows until now.
    turns: u64,
}

/// See the [module documentation](self).
pub(crate) struct Chronicle {
    /// Tells apart the events of different processes at one time.
    process: i32,
    kept: Mutex<Kept>,
}

impl Kept {
    /// Keeps an event where it is shown.
    fn take(&mut self, event: Event) {
        let last = match event {
            Event::Change { .. } => &mut self.changes,
            Event::Failover { .. } => &mut self.failovers,
            Event::Plan(plan) => {
                self.plans.insert(plan.number, plan);
                if self.plans.len() > KEPT_MAX {
                    self.plans.pop_first();
                }
                return;
            }
            // The table is asked for these.
            Event::Action { .. } => return,
        };
        last.push_back(event);
        if last.len() > KEPT_MAX {
            last.pop_front();
        }
    }

    fn write(&mut self, place: Place, text: Option<String>, is_denied: bool) {
        self.turns += 1;
        self.unwritten.push_back(Unwritten { turn: self.turns, place, text, is_denied });
        let denied = || self.unwritten.iter().enumerate().filter(|(_, row)| row.is_denied);
        if is_denied && denied().count() > DENIED_MAX {
            let oldest = denied().next().map(|(at, _)| at);
            oldest.and_then(|at| self.unwritten.remove(at));
        } else if self.unwritten.len() > 2 * KEPT_MAX {
            self.unwritten.pop_front();
        }
    }

    fn add(&mut self, event: Event, process: i32) {
        let kind = event.kind();
        let apart = match kind {
            // Their numbers are unique.
            Kind::Change | Kind::Plan => 0,
            _ => i64::from(process) << 32 | (self.turns & u64::from(u32::MAX)) as i64,
        };
        let text = serde_json::to_string(&event).expect("numbers and texts can be written");
        self.write(Place(kind, event.order(), apart), Some(text), event.is_denied());
        self.take(event);
    }

    fn number(&mut self, mut event: Event) -> Option<Event> {
        let last = self.last.as_mut()?;
        if let Event::Change { number, .. } = &mut event {
            *last += 1;
            *number = *last;
        }
        Some(event)
    }
}

impl Chronicle {
    /// The chronicle of a process, which has a number of its own.
    pub(crate) fn new(process: i32) -> Chronicle {
        Chronicle { process, kept: Mutex::default() }
    }

    /// Another process makes the changes, or from now on this one.
    pub(crate) fn set_following(&self, follows: bool) {
        self.kept.lock().follows = follows;
    }

    /// Begins with the events of the table, in their order.
    pub(crate) fn begin(&self, events: impl IntoIterator<Item = Event>) {
        let mut kept = self.kept.lock();
        let mut last = 0;
        for event in events {
            if let Event::Change { number, .. } = &event {
                last = last.max(*number);
            }
            kept.take(event);
        }
        kept.last = Some(last);
        for event in std::mem::take(&mut kept.early) {
            let numbered = kept.number(event).expect("the table was read");
            kept.add(numbered, self.process);
        }
    }

    /// A change of the design took effect.
    pub(crate) fn changed(&self, event: &ChangeEvent) {
        let mut kept = self.kept.lock();
        if kept.follows {
            return;
        }
        let event = Event::change(event);
        if kept.last.is_none() {
            kept.early.push_back(event);
            if kept.early.len() > KEPT_MAX {
                kept.early.pop_front();
            }
        } else if let Some(event) = kept.number(event) {
            kept.add(event, self.process);
        }
    }

    /// Notes sites that others have taken over from since the last call, and those that serve
    /// again. `known` has the sites of the last call.
    pub(crate) fn note_failovers(
        &self,
        now: Time,
        failed: &[FailedOver],
        known: &mut BTreeSet<String>,
    ) {
        let at_us = us(now);
        for it in failed {
            let (site, text) = (it.site.to_string(), clipped(&it.to_string()));
            // The last conductor may have noted it.
            if !known.contains(&site) && self.last_of(&site).as_ref() != Some(&text) {
                self.add(Event::Failover { at_us, site, text });
            }
        }
        let sites: BTreeSet<String> = failed.iter().map(|it| it.site.to_string()).collect();
        for site in known.difference(&sites) {
            let text = format!("site {site} serves again");
            self.add(Event::Failover { at_us, site: site.clone(), text });
        }
        *known = sites;
    }

    /// The last event of a site.
    fn last_of(&self, of: &str) -> Option<String> {
        self.kept.lock().failovers.iter().rev().find_map(|event| match event {
            Event::Failover { site, text, .. } if site == of => Some(text.clone()),
            _ => None,
        })
    }

    /// Anything else happened. Returns the turn of its row.
    pub(crate) fn add(&self, event: Event) -> u64 {
        let mut kept = self.kept.lock();
        kept.add(event, self.process);
        kept.turns
    }

    /// A row of a view is new or has changed, or is to be deleted.
    pub(crate) fn put(&self, kind: Kind, number: i64, text: Option<String>) {
        self.kept.lock().write(Place(kind, number, 0), text, false);
    }

    /// The oldest rows that are not written, at most `most`.
    pub(crate) fn unwritten(&self, most: usize) -> Vec<Unwritten> {
        self.kept.lock().unwritten.iter().take(most).cloned().collect()
    }

    /// Rows were written, up to this turn.
    pub(crate) fn has_written(&self, turn: u64) {
        self.kept.lock().unwritten.retain(|row| row.turn > turn);
    }

    /// The last changes, the oldest first.
    pub(crate) fn changes(&self) -> Vec<Event> {
        self.kept.lock().changes.iter().cloned().collect()
    }

    /// The last failovers, the oldest first.
    pub(crate) fn failovers(&self) -> Vec<Event> {
        self.kept.lock().failovers.iter().cloned().collect()
    }

    /// The last plans of operators, the oldest first.
    pub(crate) fn plans(&self) -> Vec<PlanTold> {
        self.kept.lock().plans.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(at_us: i64, outcome: &str) -> Event {
        let [user, client, action] = ["ann", "", "checkpoint"].map(str::to_owned);
        Event::Action { at_us, user, client, action, outcome: outcome.to_owned() }
    }

    fn add_all(chronicle: &Chronicle, times: std::ops::Range<i64>, outcome: &str) {
        for at in times {
            chronicle.add(action(at, outcome));
        }
    }

    fn places(chronicle: &Chronicle) -> Vec<Place> {
        chronicle.unwritten(usize::MAX).iter().map(|row| row.place).collect()
    }

    fn change(number: u64) -> Event {
        let (text, reason) = ("split t at 5".to_owned(), String::new());
        Event::Change { number, at_us: 1, text, reason, took_us: 1.0, table: None, key: None }
    }

    #[test]
    fn changes_get_numbers_after_those_of_the_table() {
        let chronicle = Chronicle::new(1);
        chronicle.kept.lock().early.push_back(change(0));
        assert_eq!(chronicle.changes(), [], "its number is not known yet");
        chronicle.begin([change(3), change(4)]);
        assert_eq!(chronicle.changes(), [change(3), change(4), change(5)]);
        assert_eq!(places(&chronicle), [Place(Kind::Change, 5, 0)], "the others are there");
    }

    #[test]
    fn changes_of_another_process_are_not_noted() {
        let chronicle = Chronicle::new(1);
        let change = isomer_design::Change::Split { table: TableId(1), at: Key::int(5) };
        let (text, reason) = ("split t at 5".to_owned(), "the conductor has made it".to_owned());
        let (begun, took_ns, rows, bytes) = (Time(7000), 0, 0, 0);
        let event = ChangeEvent { change, text, reason, begun, took_ns, rows, bytes };
        chronicle.set_following(true);
        chronicle.changed(&event);
        chronicle.set_following(false);
        chronicle.changed(&event);
        chronicle.begin([]);
        assert_eq!(places(&chronicle), [Place(Kind::Change, 1, 0)], "its own only");
    }

    #[test]
    fn rows_are_unwritten_until_they_are_written() {
        let chronicle = Chronicle::new(1);
        add_all(&chronicle, 1..4, "ok");
        let two = chronicle.unwritten(2);
        chronicle.add(action(4, "ok"));
        chronicle.has_written(two[1].turn);
        let left: Vec<i64> = places(&chronicle).iter().map(|place| place.1).collect();
        assert_eq!(left, [3, 4]);
        let at_once = [Chronicle::new(1), Chronicle::new(2)].map(|chronicle| {
            chronicle.add(action(7, "ok"));
            chronicle.add(action(7, "ok"));
            places(&chronicle)
        });
        let apart: BTreeSet<Place> = at_once.into_iter().flatten().collect();
        assert_eq!(apart.len(), 4, "each has a place of its own");
    }

    #[test]
    fn refused_actions_push_out_each_other_only() {
        let chronicle = Chronicle::new(1);
        chronicle.add(action(1, "ok"));
        add_all(&chronicle, 2..3000, "42501 no");
        let kept = places(&chronicle);
        assert_eq!((kept.len(), kept[0].1), (1 + DENIED_MAX, 1));
        add_all(&chronicle, 0..3000, "ok");
        assert_eq!(places(&chronicle).len(), 2 * KEPT_MAX);
    }

    #[test]
    fn a_plan_is_kept_once_as_it_was_told_last() {
        let plan = |number, ended_us: Option<i64>| PlanTold {
            number,
            reason: "it grows".to_owned(),
            state: if ended_us.is_some() { "done" } else { "running" }.to_owned(),
            changes: 1,
            made: 1,
            rows: 0,
            bytes: 0,
            begun_us: 10,
            ended_us,
            error: None,
            plan: "split t at 5".to_owned(),
            quiet_p99_us: None,
            p99_us: Some(9.5),
        };
        let chronicle = Chronicle::new(1);
        for plan in [plan(1, None), plan(2, None), plan(1, Some(30))] {
            chronicle.add(Event::Plan(plan));
        }
        let told: Vec<_> = chronicle.plans().iter().map(|it| (it.number, it.ended_us)).collect();
        assert_eq!(told, [(1, Some(30)), (2, None)], "the second was interrupted");
        assert_eq!(places(&chronicle)[0], places(&chronicle)[2], "it is one row");
    }
}
