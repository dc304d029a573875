//! A plan that an operator has requested, from its first change to its last: a state machine.
//!
//! ```text
//!              ┌── pause ──▶ paused ──┐
//!   asked ─▶ running ◀─── resume ─────┘      running, paused ── cancel ─▶ undoing ─▶ cancelled
//!              │  a change is refused ────────────────────────────────▶ undoing ─▶ failed
//!              ▼
//!             done ── reverse ──▶ a new reconfiguration, which undoes it
//! ```
//!
//! Changes are made one after the other, and each is valid by itself: whatever becomes of the rest,
//! the design is usable. For each change that was made, its inverse is recorded. After a cancel or
//! a refused change, the inverses are applied, the last change first, so the old design is in force
//! in the end.
//!
//! **It holds its tables** until it has ended: other changes of the strategy for them are dropped,
//! and a second plan for the same table is refused. Changes that a transaction needs in order to
//! run are made nevertheless.
//!
//! **Left out.** It ends with its process: changes made by then stay, and the rest is dropped.

use isomer_design::{Change, Plan, Step, TableId, Time};
use std::collections::BTreeSet;
use std::fmt;

/// The state of a reconfiguration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Its changes are being made.
    Running,
    /// No further change is made until it is resumed.
    Paused,
    /// Its changes are being undone.
    Undoing,
    /// All changes were made.
    Done,
    /// It was canceled, and its changes were undone.
    Cancelled,
    /// A change was refused.
    Failed,
}

impl Progress {
    /// True if nothing more happens.
    pub fn has_ended(self) -> bool {
        matches!(self, Progress::Done | Progress::Cancelled | Progress::Failed)
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Progress::Running => "running",
            Progress::Paused => "paused",
            Progress::Undoing => "undoing",
            Progress::Done => "done",
            Progress::Cancelled => "cancelled",
            Progress::Failed => "failed",
        })
    }
}

/// A request of an operator to a reconfiguration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum Control {
    /// Make no further change.
    Pause,
    /// Continue.
    Resume,
    /// Undo the changes, and end.
    Cancel,
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Control::Pause => "paused",
            Control::Resume => "resumed",
            Control::Cancel => "cancelled",
        })
    }
}

/// A reconfiguration. See the [module documentation](self).
#[derive(Clone, PartialEq, Debug)]
pub struct Reconfiguration {
    /// Counts from 1 since the database was opened.
    pub number: u64,
    /// The plan.
    pub plan: Plan,
    /// Its state.
    pub progress: Progress,
    /// The number of the plan's changes that are in force.
    pub made: usize,
    /// Rows that were copied.
    pub rows: usize,
    /// Their bytes.
    pub bytes: usize,
    /// When it was requested.
    pub begun: Time,
    /// When it ended.
    pub ended: Option<Time>,
    /// Why it failed, and which changes could not be undone.
    pub why: Option<String>,
    /// The reconfiguration that it reverses, if any.
    pub reverses: Option<u64>,
    /// The inverses of the changes that were made, in the order in which these were made.
    undo: Vec<Step>,
    under_way: Option<Way>,
}

/// Whether a change of the plan is being made, or undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Forward,
    Back,
}

impl Reconfiguration {
    /// A new one.
    pub fn new(number: u64, plan: Plan, now: Time) -> Reconfiguration {
        let mut new = Reconfiguration {
            number,
            plan,
            progress: Progress::Running,
            made: 0,
            rows: 0,
            bytes: 0,
            begun: now,
            ended: None,
            why: None,
            reverses: None,
            undo: Vec::new(),
            under_way: None,
        };
        // A site that is to be drained may have nothing.
        new.end_if_due(now);
        new
    }

    /// The one of these that reverses it, or has. One that failed or was cancelled has not.
    pub fn reversed_by<'r>(&self, all: &'r [Reconfiguration]) -> Option<&'r Reconfiguration> {
        let has_not = [Progress::Cancelled, Progress::Failed];
        let mut reversals = all.iter().filter(|it| it.reverses == Some(self.number));
        reversals.find(|it| !has_not.contains(&it.progress))
    }

    /// True if it has ended.
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// The tables that it changes.
    pub fn tables(&self) -> BTreeSet<TableId> {
        self.plan.changes().filter_map(Change::table).collect()
    }

    /// The change that is under way, or comes next.
    pub fn due(&self) -> Option<&Step> {
        match self.progress {
            Progress::Running | Progress::Paused => self.plan.steps.get(self.made),
            Progress::Undoing => self.undo.last(),
            _ => None,
        }
    }

    /// The change to make now, if any. The caller reports its result before it asks for the next.
    pub fn take_next(&mut self) -> Option<Step> {
        let (way, step) = match self.progress {
            _ if self.under_way.is_some() => return None,
            Progress::Running => (Way::Forward, self.plan.steps.get(self.made)),
            Progress::Undoing => (Way::Back, self.undo.last()),
            _ => return None,
        };
        let step = step.cloned()?;
        self.under_way = Some(way);
        Some(step)
    }

    /// Reports that the change was made: its inverse, and the numbers of rows and bytes
    /// copied. The reconfiguration may have been paused or canceled in the meantime.
    pub fn changed(&mut self, opposite: Change, [rows, bytes]: [usize; 2], now: Time) {
        self.rows += rows;
        self.bytes += bytes;
        match self.under_way.take().expect("a change is under way") {
            Way::Back => self.taken_back(now),
            Way::Forward => {
                let reason = format!("takes back: {}", self.plan.reason);
                self.undo.push(Step::new(opposite, reason));
                self.made += 1;
                self.end_if_due(now);
            }
        }
    }

    fn taken_back(&mut self, now: Time) {
        self.undo.pop();
        self.made -= 1;
        self.end_if_due(now);
    }

    /// Reports that the change was refused. `is_so_already` is true if an undo has nothing left to
    /// do, because others have undone the change already. That happens when a failed site loses its
    /// replicas.
    pub fn refused(&mut self, why: String, is_so_already: bool, now: Time) {
        let is_undoing = self.under_way.take() == Some(Way::Back);
        if is_undoing && is_so_already {
            return self.taken_back(now);
        }
        let left = if is_undoing {
            format!("; {} changes were not taken back", self.made)
        } else {
            String::new()
        };
        let before = self.why.take().map_or(String::new(), |before| format!("{before}; "));
        self.why = Some(format!("{before}{why}{left}"));
        if is_undoing {
            self.end(Progress::Failed, now);
        } else {
            self.progress = Progress::Undoing;
            self.end_if_due(now);
        }
    }

    /// Carries out a request of an operator.
    ///
    /// # Errors
    /// A message, if it is impossible in this state.
    pub fn control(&mut self, control: Control, now: Time) -> Result<(), String> {
        self.progress = match (self.progress, control) {
            (Progress::Running | Progress::Paused, Control::Pause) => Progress::Paused,
            (Progress::Running | Progress::Paused, Control::Resume) => Progress::Running,
            (Progress::Running | Progress::Paused | Progress::Undoing, Control::Cancel) => {
                Progress::Undoing
            }
            (at, _) => {
                return Err(format!(
                    "reconfiguration {} is {at}, and cannot be {control}",
                    self.number
                ));
            }
        };
        self.end_if_due(now);
        Ok(())
    }

    /// The plan that undoes its changes.
    ///
    /// # Errors
    /// A message, if it has not ended, or none of its changes is in force.
    pub fn reverse(&self) -> Result<Plan, String> {
        match self.progress {
            Progress::Done => {
                let mut plan = Plan::new(format!("reconfiguration {} is reversed", self.number));
                plan.steps = self.undo.iter().rev().cloned().collect();
                Ok(plan)
            }
            at => Err(format!(
                "reconfiguration {} is {at}: only what is done can be reversed; cancel one that runs",
                self.number
            )),
        }
    }

    fn end_if_due(&mut self, now: Time) {
        match self.progress {
            _ if self.under_way.is_some() => {}
            Progress::Running if self.made == self.plan.steps.len() => {
                self.end(Progress::Done, now)
            }
            Progress::Undoing if self.undo.is_empty() => {
                let how = if self.why.is_some() { Progress::Failed } else { Progress::Cancelled };
                self.end(how, now);
            }
            _ => {}
        }
    }

    fn end(&mut self, progress: Progress, now: Time) {
        (self.progress, self.ended) = (progress, Some(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_design::{Key, SiteId};

    const T: TableId = TableId(1);

    fn add(site: u16) -> Change {
        Change::AddReplica { table: T, start: Key::min(), site: SiteId(site) }
    }

    fn plan() -> Reconfiguration {
        let mut plan = Plan::new("two copies");
        [add(2), add(3)].into_iter().for_each(|change| plan.push(Step::new(change, "why not")));
        Reconfiguration::new(7, plan, Time(1))
    }

    /// Makes the change that is due.
    fn make(it: &mut Reconfiguration) -> Change {
        let change = it.take_next().expect("a change is due").change;
        it.changed(change.opposite(SiteId(1)), [10, 1000], Time(2));
        change
    }

    #[test]
    fn changes_are_made_in_turn_and_can_be_reversed() {
        let mut it = plan();
        assert_eq!([make(&mut it), make(&mut it)], [add(2), add(3)]);
        assert_eq!(
            (it.progress, it.made, it.rows, it.ended),
            (Progress::Done, 2, 20, Some(Time(2)))
        );
        assert!(it.take_next().is_none());
        let back: Vec<Change> = it.reverse().unwrap().changes().cloned().collect();
        assert_eq!(back, [add(3).opposite(SiteId(1)), add(2).opposite(SiteId(1))]);
        let refused = it.control(Control::Cancel, Time(3)).unwrap_err();
        assert_eq!(refused, "reconfiguration 7 is done, and cannot be cancelled");
    }

    #[test]
    fn a_pause_stops_before_the_next_change() {
        let mut it = plan();
        make(&mut it);
        it.control(Control::Pause, Time(3)).unwrap();
        assert!(it.take_next().is_none());
        assert!(it.reverse().unwrap_err().contains("is paused: only what is done"));
        it.control(Control::Resume, Time(4)).unwrap();
        make(&mut it);
        assert_eq!(it.progress, Progress::Done);
    }

    #[test]
    fn one_that_is_cancelled_takes_back_what_it_has_made() {
        let mut it = plan();
        it.control(Control::Cancel, Time(3)).unwrap();
        assert_eq!(it.progress, Progress::Cancelled, "nothing was made");
        let mut it = plan();
        make(&mut it);
        it.control(Control::Cancel, Time(3)).unwrap();
        assert_eq!((it.progress, make(&mut it)), (Progress::Undoing, add(2).opposite(SiteId(1))));
        assert_eq!((it.progress, it.made), (Progress::Cancelled, 0));
    }

    #[test]
    fn a_change_that_is_made_while_it_is_cancelled_is_taken_back_as_well() {
        let mut it = plan();
        make(&mut it);
        let change = it.take_next().unwrap().change;
        assert!(it.take_next().is_none(), "one after the other");
        it.control(Control::Pause, Time(3)).unwrap();
        it.control(Control::Cancel, Time(3)).unwrap();
        it.changed(change.opposite(SiteId(1)), [0; 2], Time(4));
        assert_eq!((it.progress, it.made), (Progress::Undoing, 2));
        assert_eq!([make(&mut it), make(&mut it)], [add(3), add(2)].map(|c| c.opposite(SiteId(1))));
        assert_eq!(it.progress, Progress::Cancelled);
    }

    #[test]
    fn one_whose_change_is_refused_takes_back_the_others_and_says_why() {
        let mut it = plan();
        make(&mut it);
        it.take_next().unwrap();
        it.refused("s3 is full".to_owned(), false, Time(3));
        make(&mut it);
        assert_eq!((it.progress, it.why.as_deref()), (Progress::Failed, Some("s3 is full")));
        let mut it = plan();
        make(&mut it);
        it.take_next().unwrap();
        it.refused("s3 is full".to_owned(), false, Time(3));
        it.take_next().unwrap();
        it.refused("s2 does not answer".to_owned(), false, Time(4));
        let why = "s3 is full; s2 does not answer; 1 changes were not taken back";
        assert_eq!((it.progress, it.why.as_deref()), (Progress::Failed, Some(why)));
    }

    #[test]
    fn what_others_have_taken_back_meanwhile_is_no_obstacle() {
        let mut it = plan();
        make(&mut it);
        it.take_next().unwrap();
        it.refused("the log of s3 has failed".to_owned(), true, Time(3));
        it.take_next().unwrap();
        it.refused("accounts has no replica at s2".to_owned(), true, Time(4));
        assert_eq!((it.progress, it.made), (Progress::Failed, 0));
        assert_eq!(it.why.as_deref(), Some("the log of s3 has failed"));
    }
}
