//! Cursors: the rows of a query, shown a few at a time, forward and backward.
//!
//! ```text
//!   place     0     1     2     3     4      three rows; 0 is before the first, 4 after the last
//!                   a     b     c
//!   FETCH 2         a     b                    at 2
//!   FETCH 2                     c              at 4: only one row was left
//!   FETCH PRIOR                 c              at 3
//! ```
//!
//! All rows are computed when the cursor is declared, in the memory of the session. So they are
//! consistent with that moment and can be shown in any order. A cursor ends with its transaction,
//! or with the savepoint after which it was declared. With WITH HOLD it stays until it is closed,
//! once its transaction has committed.
//!
//! The protocol describes and closes a cursor like a portal.
//!
//! Left out: WHERE CURRENT OF; FETCH from a portal of the protocol, and Execute on a cursor; lazy
//! evaluation, and so an error at the row that causes it.

use super::{Call, Flush, PlanAgain, Session};
use crate::wire::{Formats, Out};
use isomer_sql::budget::Holding;
use isomer_sql::datum::Datum;
use isomer_sql::parse::{Declare, Fetch, FetchWay};
use isomer_sql::plan::OutputColumn;
use isomer_sql::statement::{Action, Compiled, Cursor as Statement};
use isomer_sql::system::{self, SettingsView};
use isomer_sql::transaction::CursorShown;
use isomer_sql::{SqlError, code};
use std::cell::RefCell;
use std::sync::Arc;

/// The most cursors of a session.
const CURSORS_MAX: usize = 10_000;

/// See the [module documentation](self).
pub(super) struct Cursor {
    shown: CursorShown,
    output: Vec<OutputColumn>,
    rows: Vec<Vec<Datum>>,
    /// The position: 0 is before the first row.
    place: usize,
    /// The number of savepoints at its declaration; `None` once its transaction has committed.
    since: Option<usize>,
    _kept: Holding,
}

/// Collects the rows of a query.
pub(crate) struct Kept {
    pub(super) rows: Vec<Vec<Datum>>,
    held: Holding,
}

impl Kept {
    /// Begins a run, which may be a repetition.
    pub(super) fn begin(&mut self) -> Result<(), SqlError> {
        self.rows.clear();
        self.held.resize(0)
    }

    pub(super) fn add(&mut self, values: &[Datum]) -> Result<(), SqlError> {
        // A growing list has room for twice its length.
        let row = values.iter().map(Datum::bytes).sum::<usize>() + 4 * size_of::<Vec<Datum>>();
        self.held.more(row)?;
        self.rows.push(values.to_vec());
        Ok(())
    }
}

impl Session {
    pub(super) fn cursor(
        &mut self,
        statement: &Statement,
        call: Call<'_>,
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<(), SqlError> {
        match statement {
            Statement::Declare(declare, query, text) => {
                self.declare(declare, (query, text), call, flush)?;
                out.complete("DECLARE CURSOR");
            }
            Statement::Fetch(fetch) => self.fetch(fetch, call, out, flush)?,
            Statement::Close(None) => {
                self.cursors.clear();
                self.tell_cursors();
                out.complete("CLOSE CURSOR ALL");
            }
            Statement::Close(Some(name)) => {
                if !self.close_cursor(name) {
                    return Err(no_cursor(name));
                }
                out.complete("CLOSE CURSOR");
            }
        }
        Ok(())
    }

    fn declare(
        &mut self,
        declare: &Declare,
        (query, text): (&Arc<Compiled>, &Arc<str>),
        call: Call<'_>,
        flush: &mut dyn Flush,
    ) -> Result<(), SqlError> {
        if !declare.is_held && !self.is_one_of_many {
            self.needs_block("DECLARE CURSOR")?;
        }
        let name = &declare.name;
        if self.cursors.contains_key(name) || self.portals.contains_key(name) {
            return Err(SqlError::new("42P03", format!("cursor \"{name}\" already exists")));
        }
        if self.cursors.len() >= CURSORS_MAX {
            let message = format!("a session may have at most {CURSORS_MAX} cursors");
            return Err(SqlError::new(code::PROGRAM_LIMIT, message).hint("Close some of them."));
        }
        let kept = RefCell::new(Kept { rows: Vec::new(), held: self.memory.session.keep(0)? });
        let again: PlanAgain<'_> = &|catalog| match &(call.again)(catalog)?.action {
            Action::Cursor(cursor) => match &**cursor {
                Statement::Declare(_, query, _) => Ok(query.clone()),
                other => unreachable!("{other:?} was declared"),
            },
            other => unreachable!("{other:?} was a cursor"),
        };
        let formats = Formats::default();
        let inner = Call { keeps: Some(&kept), ..Call::new(query, again, call.params, &formats) };
        self.query(inner, &mut Out::default(), flush)?;
        let Kept { rows, held } = kept.into_inner();
        let scrolls = declare.scrolls.unwrap_or(!query.locks_rows());
        let shown = CursorShown {
            name: name.clone(),
            statement: text.clone(),
            is_held: declare.is_held,
            is_binary: declare.is_binary,
            scrolls,
            declared_us: (self.clock)(),
        };
        let output = query.output.clone().unwrap_or_default();
        let since = Some(self.savepoints.len());
        let cursor = Cursor { shown, output, rows, place: 0, since, _kept: held };
        self.cursors.insert(name.clone(), cursor);
        self.tell_cursors();
        Ok(())
    }

    fn fetch(
        &mut self,
        fetch: &Fetch,
        call: Call<'_>,
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<(), SqlError> {
        let settings = self.settings.clone();
        let (catalog, around) = (self.catalog(), self.surroundings());
        let cursor = self.cursors.get_mut(&fetch.name).ok_or_else(|| no_cursor(&fetch.name))?;
        let step = Step::of(fetch.way, cursor.place, cursor.rows.len());
        let refetches = step.place == cursor.place && !step.rows.is_empty();
        if !cursor.shown.scrolls && (step.goes_back || (refetches && !fetch.is_move)) {
            let error = SqlError::new(code::NOT_READY, "cursor can only scan forward");
            return Err(error.hint("Declare it with SCROLL option to enable backward scan."));
        }
        cursor.place = step.place;
        let tag = if fetch.is_move { "MOVE" } else { "FETCH" };
        if !fetch.is_move {
            let binary = Formats::binary();
            let formats = if cursor.shown.is_binary { &binary } else { call.formats };
            if call.describes {
                out.row_description(&cursor.output, formats);
            }
            let types = cursor.output.iter().map(|column| column.ty);
            let is_text = |at| !formats.is_binary(at);
            for &at in &step.rows {
                let (row, known) = (&cursor.rows[at - 1], (&*catalog, &around));
                let row = system::with_names(row, types.clone(), is_text, known);
                out.row(&row, &cursor.output, formats, settings.zone());
                flush.flush_some(out)?;
            }
        }
        out.complete(&format!("{tag} {}", step.rows.len()));
        Ok(())
    }

    /// Closes a cursor; false if there is none with this name.
    pub(super) fn close_cursor(&mut self, name: &str) -> bool {
        let is_there = self.cursors.remove(name).is_some();
        if is_there {
            self.tell_cursors();
        }
        is_there
    }

    /// Describes a cursor in answer to Describe of a portal, as drivers send it; false if there is
    /// none with this name.
    pub(super) fn describe_cursor(&self, name: &str, out: &mut Out) -> bool {
        let Some(cursor) = self.cursors.get(name) else { return false };
        let formats = if cursor.shown.is_binary { Formats::binary() } else { Formats::default() };
        out.row_description(&cursor.output, &formats);
        true
    }

    /// The columns of a FETCH.
    pub(super) fn fetched(&self, fetch: &Fetch) -> Option<&[OutputColumn]> {
        let cursor = self.cursors.get(&fetch.name).filter(|_| !fetch.is_move)?;
        Some(&cursor.output)
    }

    /// Closes cursors at the end of a transaction.
    pub(super) fn end_cursors(&mut self, has_committed: bool) {
        if self.cursors.is_empty() {
            return;
        }
        self.cursors.retain(|_, cursor| match cursor.since.take() {
            None => true,
            Some(_) => has_committed && cursor.shown.is_held,
        });
        self.tell_cursors();
    }

    /// Closes the cursors declared after savepoint number `before`, on a rollback to it.
    pub(super) fn cursors_back_to(&mut self, before: usize) {
        self.cursors.retain(|_, cursor| cursor.since.is_none_or(|since| since <= before));
        self.tell_cursors();
    }

    /// Assigns the cursors declared after savepoint number `before` to the enclosing level, on its
    /// release.
    pub(super) fn release_cursors(&mut self, before: usize) {
        for cursor in self.cursors.values_mut() {
            cursor.since = cursor.since.map(|since| since.min(before));
        }
    }

    pub(super) fn tell_cursors(&self) {
        let mut shown: Vec<CursorShown> =
            self.cursors.values().map(|cursor| cursor.shown.clone()).collect();
        shown.sort_by(|a, b| a.name.cmp(&b.name));
        *self.declared.borrow_mut() = shown;
    }
}

/// The effect of a FETCH: the rows to show, from 1, and the new position.
#[derive(PartialEq, Debug)]
struct Step {
    rows: Vec<usize>,
    place: usize,
    goes_back: bool,
}

impl Step {
    fn of(way: FetchWay, place: usize, count: usize) -> Step {
        let (behind, on_row) = (count + 1, (1..=count).contains(&place));
        let one = |wanted: Option<usize>, goes_back: bool| match wanted {
            Some(at) if (1..=count).contains(&at) => Step { rows: vec![at], place: at, goes_back },
            Some(at) if at > count => Step { rows: Vec::new(), place: behind, goes_back },
            _ => Step { rows: Vec::new(), place: 0, goes_back },
        };
        let size = |n: i64| usize::try_from(n.unsigned_abs()).unwrap_or(usize::MAX);
        match way {
            FetchWay::Count(0) | FetchWay::Relative(0) => {
                let rows = if on_row { vec![place] } else { Vec::new() };
                Step { rows, place, goes_back: false }
            }
            FetchWay::Count(n) if n > 0 => {
                let to = place.saturating_add(size(n));
                let rows = (place + 1..=to.min(count)).collect();
                Step { rows, place: to.min(behind), goes_back: false }
            }
            FetchWay::Count(n) => {
                let to = place.saturating_sub(size(n));
                let rows = (to.max(1)..place).rev().collect();
                Step { rows, place: to, goes_back: true }
            }
            FetchWay::All => {
                Step { rows: (place + 1..=count).collect(), place: behind, goes_back: false }
            }
            FetchWay::BackwardAll => {
                Step { rows: (1..place).rev().collect(), place: 0, goes_back: true }
            }
            FetchWay::Absolute(n) if n >= 0 => {
                let wanted = size(n);
                one(Some(wanted), wanted <= place && place > 0)
            }
            FetchWay::Absolute(n) => one(behind.checked_sub(size(n)), true),
            FetchWay::Relative(n) if n > 0 => one(Some(place.saturating_add(size(n))), false),
            FetchWay::Relative(n) => one(place.checked_sub(size(n)), true),
        }
    }
}

fn no_cursor(name: &str) -> SqlError {
    SqlError::new("34000", format!("cursor \"{name}\" does not exist"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After `3 rows, at 2`, as in PostgreSQL.
    #[test]
    fn a_cursor_goes_both_ways_and_past_its_ends() {
        let step = |way| {
            let step = Step::of(way, 2, 3);
            (step.rows, step.place)
        };
        assert_eq!(step(FetchWay::Count(1)), (vec![3], 3));
        assert_eq!(step(FetchWay::Count(2)), (vec![3], 4));
        assert_eq!(step(FetchWay::Count(-1)), (vec![1], 1));
        assert_eq!(step(FetchWay::Count(-2)), (vec![1], 0));
        assert_eq!(step(FetchWay::Count(0)), (vec![2], 2));
        assert_eq!(step(FetchWay::All), (vec![3], 4));
        assert_eq!(step(FetchWay::BackwardAll), (vec![1], 0));
        assert_eq!(step(FetchWay::Absolute(3)), (vec![3], 3));
        assert_eq!(step(FetchWay::Absolute(-3)), (vec![1], 1));
        assert_eq!(step(FetchWay::Absolute(-4)), (vec![], 0));
        assert_eq!(step(FetchWay::Absolute(0)), (vec![], 0));
        assert_eq!(step(FetchWay::Relative(-1)), (vec![1], 1));
        assert_eq!(step(FetchWay::Relative(2)), (vec![], 4));
        let most = FetchWay::Count(i64::MIN);
        assert_eq!(step(most), (vec![1], 0));
    }
}
