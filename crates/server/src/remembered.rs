//! Decisions and proposals over restarts: the rows of `isomer.decisions` and `isomer.proposals`.
//!
//! ```text
//!   this start       journal, proposals ──▶ rows ─┐
//!   earlier starts   isomer_history ──────▶ rows ─┴──▶ isomer.decisions
//!                         ▲      those that are new or have changed
//!                         └───────────────────────┘
//! ```
//!
//! Such a row changes for minutes: its changes are made, its effect is measured, and a later
//! decision may take it back. So the table has rows as they were shown last. New ones are written
//! at once, and news of others every ten seconds, which a crash may lose. Numbers go on where
//! earlier starts have ended. A proposal or a decision that was open at the end of its start is
//! [`INTERRUPTED`].
//!
//! Only the process with the conductor has these rows, and the next one reads the table.

use crate::cells::Cell;
use crate::chronicle::Kind;
use isomer_design::Time;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The state of a plan or a proposal that was open when its process ended.
pub(crate) const INTERRUPTED: &str = "interrupted";
/// How the outcome of a decision ends while changes of it are open.
pub(crate) const UNDER_WAY: &str = "under way";

/// The most rows of each view that are kept.
const KEPT_MAX: usize = 1000;
/// The time between two comparisons, and between two for the sake of new decisions.
const EVERY_NS: u64 = 10_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// The columns with the number, the state of a proposal, and the outcome of a decision.
const NUMBER: usize = 0;
const STATE: usize = 1;
const OUTCOME: usize = 6;

/// The views.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum View {
    Decisions,
    Proposals,
}

/// A row.
type Cells = Vec<Cell>;

impl View {
    pub(crate) const ALL: [View; 2] = [View::Decisions, View::Proposals];

    /// Its kind in the table.
    pub(crate) fn kind(self) -> Kind {
        match self {
            View::Decisions => Kind::Decision,
            View::Proposals => Kind::Proposal,
        }
    }
}

/// The rows of earlier starts, and those of this one that the table has.
#[derive(Default)]
pub(crate) struct Remembered {
    kept: Mutex<[Kept; 2]>,
    /// When the rows were compared last.
    looked: Mutex<Time>,
}

#[derive(Default)]
struct Kept {
    /// By number.
    earlier: BTreeMap<i64, Cells>,
    /// The rows of this start as they were told last.
    told: BTreeMap<i64, Cells>,
}

/// The number of a row.
fn number(row: &Cells) -> i64 {
    match row.get(NUMBER) {
        Some(Cell::Int(number)) => *number,
        _ => 0,
    }
}

/// Changes the row of what was open when its process ended.
fn interrupt(view: View, row: &mut Cells) {
    let at = match view {
        View::Decisions => OUTCOME,
        View::Proposals => STATE,
    };
    let Some(Cell::Text(state)) = row.get_mut(at) else { return };
    match view {
        View::Decisions if let Some(made) = state.strip_suffix(UNDER_WAY) => {
            *state = format!("{made}{INTERRUPTED}");
        }
        View::Proposals if ["proposed", "approved", "running"].contains(&&**state) => {
            *state = INTERRUPTED.to_owned();
        }
        _ => {}
    }
}

impl Remembered {
    /// Begins with the rows of earlier starts. Returns the largest number.
    pub(crate) fn begin(&self, view: View, rows: impl IntoIterator<Item = Cells>) -> u64 {
        let kept = &mut self.kept.lock()[view as usize];
        kept.earlier = rows.into_iter().map(|row| (number(&row), row)).collect();
        for row in kept.earlier.values_mut() {
            interrupt(view, row);
        }
        kept.earlier.keys().last().map_or(0, |last| u64::try_from(*last).unwrap_or(0))
    }

    /// True once in ten seconds; once in a second if there are new rows.
    pub(crate) fn is_due(&self, now: Time, has_news: bool) -> bool {
        let every_ns = if has_news { SECOND_NS } else { EVERY_NS };
        let mut looked = self.looked.lock();
        let is_due = now.0.saturating_sub(looked.0) >= every_ns;
        if is_due {
            *looked = now;
        }
        is_due
    }

    /// Compares the rows of this start with those that were told. Returns the new and the changed
    /// ones by number, and the numbers of those that are not kept any more.
    pub(crate) fn news(&self, view: View, here: Vec<Cells>) -> Vec<(i64, Option<Cells>)> {
        let Kept { earlier, told } = &mut self.kept.lock()[view as usize];
        let here: BTreeMap<i64, Cells> = here.into_iter().map(|row| (number(&row), row)).collect();
        let is_new = |(number, row): &(&i64, &Cells)| told.get(number) != Some(row);
        let mut news: Vec<_> =
            here.iter().filter(is_new).map(|(number, row)| (*number, Some(row.clone()))).collect();
        // The owner of the rows forgets its oldest ones.
        let gone =
            std::mem::take(told).into_iter().filter(|(number, _)| !here.contains_key(number));
        earlier.extend(gone);
        while earlier.len() + here.len() > KEPT_MAX {
            let Some((oldest, _)) = earlier.pop_first() else { break };
            news.push((oldest, None));
        }
        *told = here;
        news
    }

    /// The rows of earlier starts, and those that their owner has forgotten.
    pub(crate) fn earlier(&self, view: View) -> Vec<Cells> {
        self.kept.lock()[view as usize].earlier.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: i64, state: &str) -> Cells {
        vec![Cell::Int(number), Cell::Text(state.to_owned())]
    }

    #[test]
    fn what_was_open_at_the_end_is_interrupted() {
        let remembered = Remembered::default();
        let decision = |number, outcome: &str| {
            let mut row = row(number, "");
            row.resize(OUTCOME, Cell::Null);
            row.push(Cell::Text(outcome.to_owned()));
            row
        };
        let rows = [decision(1, "made 2 of 45; under way"), decision(2, "made in 7 us")];
        remembered.begin(View::Decisions, rows);
        let now = [decision(1, "made 2 of 45; interrupted"), decision(2, "made in 7 us")];
        assert_eq!(remembered.earlier(View::Decisions), now);
    }

    #[test]
    fn news_are_told_once_and_rows_outlive_their_owner() {
        let remembered = Remembered::default();
        assert_eq!(remembered.begin(View::Proposals, [row(1, "done"), row(2, "proposed")]), 2);
        let earlier = [row(1, "done"), row(2, INTERRUPTED)];
        assert_eq!(remembered.earlier(View::Proposals), earlier);
        let news = |here: &[Cells]| remembered.news(View::Proposals, here.to_vec());
        let told = |number, state| (number, Some(row(number, state)));
        assert_eq!(news(&[row(3, "proposed")]), [told(3, "proposed")]);
        assert_eq!(news(&[row(3, "proposed")]), []);
        let both = [row(3, "done"), row(4, "proposed")];
        assert_eq!(news(&both), [told(3, "done"), told(4, "proposed")]);
        assert_eq!(news(&both[1..]), [], "the third is forgotten");
        assert_eq!(remembered.earlier(View::Proposals).last(), Some(&row(3, "done")));
        let many: Vec<Cells> = (4..4 + KEPT_MAX as i64).map(|number| row(number, "done")).collect();
        let deleted = news(&many).into_iter().filter(|(_, row)| row.is_none());
        assert_eq!(deleted.map(|(number, _)| number).collect::<Vec<_>>(), [1, 2, 3]);
    }
}
