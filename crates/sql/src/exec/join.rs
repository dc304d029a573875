//! Joins: the rows of all sources, side by side.
//!
//! ```text
//!   step 1 ─▶ step 2 ─▶ step 3 ─▶ filter       each row is pushed through all later steps
//!                └ right join: the rows without a match, at the end, behind NULLs
//! ```
//!
//! A step that can look its rows up by values of the steps before does so for each of their rows.
//! Another step reads its source once, keeps the rows, and finds matches by a hash if the condition
//! is an equality. A right join keeps its rows as well, to know which have matched. A semi or anti
//! join looks for one match in the same ways, and passes the row of the steps before on as it is.

use super::counts::{Counting, NodeCounts, count};
use super::find::FIRST_PAGE_ROWS;
use super::select::{Counts, Emit, Hasher, is_new};
use super::{Exec, Row, row_bytes};
use crate::budget::Held;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::Expr;
use crate::plan::{Named, Only, Select, Source, Step};
use std::cell::Cell;
use std::collections::HashMap;
use std::ops::{ControlFlow, Range};
use std::rc::Rc;

/// The rows of a source that does not depend on the rows before it, kept while the query runs.
struct Kept<'b> {
    rows: Vec<Vec<Datum>>,
    /// Which of them have matched: a right join emits the others at the end.
    matched: Vec<Cell<bool>>,
    by_key: Option<HashMap<Vec<Datum>, Vec<usize>, Hasher>>,
    _held: Held<'b>,
}

/// The rows of a query in WITH, kept while the statement runs.
pub(super) struct Shared<'b> {
    rows: Vec<Vec<Datum>>,
    /// The recursive queries whose rows these depend on.
    reads: Vec<usize>,
    _held: Held<'b>,
}

/// The kept rows of a query's steps.
type Memory<'b> = Vec<Option<Rc<Kept<'b>>>>;

/// The kept rows that can match, by their positions.
enum Candidates<'k> {
    All(Range<usize>),
    These(std::slice::Iter<'k, usize>),
}

impl<'b> Shared<'b> {
    /// Rows that do not depend on those of a recursive query.
    pub(super) fn new(rows: Vec<Vec<Datum>>, held: Held<'b>) -> Shared<'b> {
        Shared { rows, reads: Vec::new(), _held: held }
    }
}

impl Iterator for Candidates<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        match self {
            Candidates::All(places) => places.next(),
            Candidates::These(places) => places.next().copied(),
        }
    }
}

impl<'a> Exec<'a> {
    /// The rows of all sources that pass the filter.
    pub(super) fn joined_rows(
        &self,
        plan: &Select,
        given: &[Datum],
        emit: Emit<'_>,
    ) -> Result<(), SqlError> {
        let ends = plan.steps.iter().map(|step| step.offset + step.width);
        let mut row = vec![Datum::Null; ends.fold(plan.width, usize::max)];
        let mut memory: Memory = vec![None; plan.steps.len()];
        if self.step(plan, 0, &mut row, &mut memory, given, emit)?.is_break() {
            return Ok(());
        }
        for at in (0..plan.steps.len()).filter(|&at| plan.steps[at].right) {
            if self.unmatched(plan, at, &mut row, &mut memory, given, emit)?.is_break() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Emits the rows of a right join's source that match nothing before it.
    fn unmatched(
        &self,
        plan: &Select,
        at: usize,
        row: &mut Vec<Datum>,
        memory: &mut Memory<'a>,
        given: &[Datum],
        emit: Emit<'_>,
    ) -> Result<ControlFlow<()>, SqlError> {
        let step = &plan.steps[at];
        let kept = self.kept(step, at, memory, given)?;
        for (values, matched) in kept.rows.iter().zip(&kept.matched) {
            if !matched.get() {
                row.fill(Datum::Null);
                row[step.offset..step.offset + step.width].clone_from_slice(values);
                if self.step(plan, at + 1, row, memory, given, emit)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn step(
        &self,
        plan: &Select,
        at: usize,
        row: &mut Vec<Datum>,
        memory: &mut Memory<'a>,
        given: &[Datum],
        emit: Emit<'_>,
    ) -> Result<ControlFlow<()>, SqlError> {
        if let Some(before) = at.checked_sub(1) {
            count(&self.counts, plan.steps[before].address(), |node| node.rows += 1);
        }
        let Some(step) = plan.steps.get(at) else {
            if !self.all_hold(&plan.filter, Row { values: row, given })? {
                return Ok(ControlFlow::Continue(()));
            }
            count(&self.counts, plan.address(), |node| node.matched += 1);
            return emit(&row[..plan.width]);
        };
        self.budget.deeper()?;
        if let Some(only) = step.only {
            let passes = has_match(self, step, at, row, memory, given)? == (only == Only::Matched);
            return match passes {
                true => self.step(plan, at + 1, row, memory, given, emit),
                false => Ok(ControlFlow::Continue(())),
            };
        }
        let places = step.offset..step.offset + step.width;
        let (mut matched, is_kept) = (false, step.is_kept(at));
        // Passes a row on to the next step; the second result says whether it matches the rows
        // before.
        let mut next = |values: &mut [Datum],
                        row: &mut Vec<Datum>,
                        memory: &mut Memory<'a>|
         -> Result<(ControlFlow<()>, bool), SqlError> {
            self.tick()?;
            row[places.clone()].swap_with_slice(values);
            let mark = self.budget.mark();
            if !self.all_hold(&step.on, Row { values: row, given })? {
                self.budget.back_to(mark);
                return Ok((ControlFlow::Continue(()), false));
            }
            matched = true;
            if !is_kept {
                count(&self.counts, step.address(), |node| node.matched += 1);
            }
            let flow = self.step(plan, at + 1, row, memory, given, emit)?;
            // The values that were made for this row are no longer needed.
            self.budget.back_to(mark);
            Ok((flow, true))
        };
        if is_kept {
            let kept = self.kept(step, at, memory, given)?;
            let mut buffer = vec![Datum::Null; step.width];
            for found in self.candidates(step, &kept, Row { values: row, given })? {
                buffer.clone_from_slice(&kept.rows[found]);
                let (flow, fits) = next(&mut buffer, row, memory)?;
                if fits {
                    kept.matched[found].set(true);
                }
                if flow.is_break() {
                    return Ok(flow);
                }
            }
        } else {
            // The access path uses the values of the steps before, if there are any.
            let before = if at == 0 { Vec::new() } else { row.clone() };
            let flow = self.source(step, Row { values: &before, given }, &mut |values| {
                Ok(next(values, row, memory)?.0)
            })?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        if step.left && !matched {
            row[places].fill(Datum::Null);
            return self.step(plan, at + 1, row, memory, given, emit);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The rows of a source, for the rows before.
    fn source(
        &self,
        step: &Step,
        row: Row<'_>,
        take: super::find::TakeRow<'_>,
    ) -> Result<ControlFlow<()>, SqlError> {
        match &self.counts {
            None => rows_of(self, step, row, take),
            Some(counts) => counted_rows(self, counts, step, row, take),
        }
    }

    /// The columns of the result of a query.
    fn query_rows(
        &self,
        query: &Select,
        width: usize,
        given: &[Datum],
        take: super::find::TakeRow<'_>,
    ) -> Result<ControlFlow<()>, SqlError> {
        let mut flow = ControlFlow::Continue(());
        let mut buffer = Vec::new();
        self.rows(query, given, &mut |values| {
            buffer.clear();
            buffer.extend_from_slice(&values[..width]);
            flow = take(&mut buffer)?;
            Ok(flow)
        })?;
        Ok(flow)
    }

    /// The rows of a query in WITH, computed once.
    fn shared(&self, named: &Named) -> Result<Rc<Shared<'a>>, SqlError> {
        if let Some(known) = self.shared.borrow().get(&named.number) {
            return Ok(known.clone());
        }
        let (mut rows, mut held) = (Vec::new(), self.budget.held());
        let mark = self.budget.mark();
        let _ = self.named_rows(named, &mut |values| {
            held.add_row(values)?;
            rows.push(values.clone());
            self.budget.back_to(mark);
            Ok(ControlFlow::Continue(()))
        })?;
        let shared = Rc::new(Shared { rows, reads: self.reads_found(&named.query), _held: held });
        self.shared.borrow_mut().insert(named.number, shared.clone());
        Ok(shared)
    }

    /// The rows of a query in WITH. If it is recursive, its term runs over the rows of the previous
    /// run, until there are no new ones.
    fn named_rows(
        &self,
        named: &Named,
        take: super::find::TakeRow<'_>,
    ) -> Result<ControlFlow<()>, SqlError> {
        let width = named.query.output.len();
        let Some(recursion) = &named.recursion else {
            return self.query_rows(&named.query, width, &[], take);
        };
        let (mut seen, mut seen_held) = (Counts::default(), self.budget.held());
        let mut query = &named.query;
        loop {
            let (mut rows, mut held) = (Vec::new(), self.budget.held());
            let mark = self.budget.mark();
            let flow = self.query_rows(query, width, &[], &mut |values| {
                if !recursion.all && !is_new(&mut seen, values, &mut seen_held)? {
                    return Ok(ControlFlow::Continue(()));
                }
                held.add_row(values)?;
                rows.push(values.clone());
                let flow = take(values)?;
                self.budget.back_to(mark);
                Ok(flow)
            })?;
            let is_over = flow.is_break() || rows.is_empty();
            let found = Rc::new(Shared::new(rows, held));
            self.found.borrow_mut().insert(named.number, found);
            // Kept rows that depend on the previous rows are no longer valid.
            self.shared.borrow_mut().retain(|_, shared| !shared.reads.contains(&named.number));
            self.forget_answers(named.number);
            if is_over {
                return Ok(flow);
            }
            self.tick()?;
            query = &recursion.term;
        }
    }

    fn kept(
        &self,
        step: &Step,
        at: usize,
        memory: &mut Memory<'a>,
        given: &[Datum],
    ) -> Result<Rc<Kept<'a>>, SqlError> {
        if let Some(kept) = &memory[at] {
            return Ok(kept.clone());
        }
        let (mut rows, mut held) = (Vec::new(), self.budget.held());
        let mark = self.budget.mark();
        let own = step.offset..step.offset + step.width;
        // A right join shows the rows that do not match as well.
        let mine: Vec<&Expr> = match step.right {
            true => Vec::new(),
            false => step.on.iter().filter(|one| is_about(one, &own)).collect(),
        };
        let mut wide = vec![Datum::Null; if mine.is_empty() { 0 } else { own.end }];
        let _ = self.source(step, Row { values: &[], given }, &mut |values| {
            self.tick()?;
            if !mine.is_empty() {
                wide[own.clone()].clone_from_slice(values);
                let row = Row { values: &wide, given };
                for condition in &mine {
                    if self.holds(condition, row)? != Some(true) {
                        self.budget.back_to(mark);
                        return Ok(ControlFlow::Continue(()));
                    }
                }
            }
            count(&self.counts, step.address(), |node| node.matched += 1);
            held.add_row(values)?;
            rows.push(values.clone());
            self.budget.back_to(mark);
            Ok(ControlFlow::Continue(()))
        })?;
        let by_key = match step.hash.is_empty() {
            true => None,
            false => Some(self.hashed(step, &rows, given, &mut held)?),
        };
        held.add(rows.len())?;
        let matched = vec![Cell::new(false); rows.len()];
        let kept = Rc::new(Kept { rows, matched, by_key, _held: held });
        memory[at] = Some(kept.clone());
        Ok(kept)
    }

    fn hashed(
        &self,
        step: &Step,
        rows: &[Vec<Datum>],
        given: &[Datum],
        held: &mut Held<'_>,
    ) -> Result<HashMap<Vec<Datum>, Vec<usize>, Hasher>, SqlError> {
        let mut by_key: HashMap<Vec<Datum>, Vec<usize>, Hasher> = HashMap::default();
        let mut wide = vec![Datum::Null; step.offset + step.width];
        for (at, values) in rows.iter().enumerate() {
            wide[step.offset..].clone_from_slice(values);
            let row = Row { values: &wide, given };
            let key = step.hash.iter().map(|(_, own)| self.eval(own, row));
            let mark = self.budget.mark();
            let key: Vec<Datum> = key.collect::<Result<_, _>>()?;
            if !key.iter().any(Datum::is_null) {
                // The positions of the rows that have it; the first few are allocated together.
                held.add(row_bytes(&key) + 2 * size_of::<Vec<usize>>())?;
                let entry = size_of::<(Vec<Datum>, Vec<usize>)>();
                held.place(by_key.len(), by_key.capacity(), entry)?;
                by_key.entry(key).or_default().push(at);
            }
            self.budget.back_to(mark);
            self.tick()?;
        }
        Ok(by_key)
    }

    fn candidates<'k>(
        &self,
        step: &Step,
        kept: &'k Kept<'_>,
        row: Row<'_>,
    ) -> Result<Candidates<'k>, SqlError> {
        let Some(by_key) = &kept.by_key else { return Ok(Candidates::All(0..kept.rows.len())) };
        let key = step.hash.iter().map(|(before, _)| self.eval(before, row));
        let key: Vec<Datum> = key.collect::<Result<_, _>>()?;
        Ok(Candidates::These(by_key.get(&key).map_or(&[][..], Vec::as_slice).iter()))
    }
}

/// A statement whose rows are counted.
pub(crate) fn counting(exec: Exec<'_>) -> Exec<'_> {
    Exec { counts: Some(Counting::default()), ..exec }
}

/// The counts of the steps and queries that have run, by their addresses.
pub(crate) fn node_counts(exec: Exec<'_>) -> HashMap<usize, NodeCounts> {
    exec.counts.map(Counting::into_nodes).unwrap_or_default()
}

/// The rows of a source, which are counted.
fn counted_rows(
    exec: &Exec<'_>,
    counts: &Counting,
    step: &Step,
    row: Row<'_>,
    take: super::find::TakeRow<'_>,
) -> Result<ControlFlow<()>, SqlError> {
    let shipped = || exec.txn.borrow().rows_shipped();
    let (before, around, mut found) = (shipped(), counts.begin(), 0);
    let flow = rows_of(exec, step, row, &mut |values| {
        found += 1;
        take(values)
    });
    counts.ran(step.address(), found, shipped() - before, around);
    flow
}

/// The rows of a source, for the rows before, without counting them.
fn rows_of(
    exec: &Exec<'_>,
    step: &Step,
    row: Row<'_>,
    take: super::find::TakeRow<'_>,
) -> Result<ControlFlow<()>, SqlError> {
    match &step.source {
        Source::Table(table) => exec.find(table, &step.access, &step.used, row, take),
        Source::System(system) => {
            let mut held = exec.budget.held();
            let rows = system.rows(exec.catalog, exec.around)?;
            rows.iter().try_for_each(|row| held.add_row(row))?;
            for mut values in rows {
                if take(&mut values)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        }
        Source::Query(query) => exec.query_rows(query, step.width, row.given, take),
        Source::Lateral(args, query) => {
            let given = args.iter().map(|arg| exec.eval(arg, row));
            let given: Vec<Datum> = given.collect::<Result<_, _>>()?;
            exec.query_rows(query, step.width, &given, take)
        }
        Source::Named(named) if named.is_shared() => {
            for values in &exec.shared(named)?.rows {
                if take(&mut values.clone())?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        }
        Source::Named(named) => exec.named_rows(named, take),
        Source::Found(number, _) => {
            let found = super::writing::rows_found(exec, *number)?;
            for values in found.iter().flat_map(|found| &found.rows) {
                if take(&mut values.clone())?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        }
        Source::Values(rows) => {
            for exprs in rows {
                let values = exprs.iter().map(|expr| exec.eval(expr, row));
                if take(&mut values.collect::<Result<_, _>>()?)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        }
        Source::Set(call) => exec.set_rows(call, row, take),
    }
}

/// True if a row of the source matches the rows before: the search ends at the first.
fn has_match<'a>(
    exec: &Exec<'a>,
    step: &Step,
    at: usize,
    row: &mut Vec<Datum>,
    memory: &mut Memory<'a>,
    given: &[Datum],
) -> Result<bool, SqlError> {
    let places = step.offset..step.offset + step.width;
    let fits = |row: &[Datum]| {
        exec.tick()?;
        let mark = exec.budget.mark();
        let fits = exec.all_hold(&step.on, Row { values: row, given })?;
        exec.budget.back_to(mark);
        Ok(fits)
    };
    if step.is_kept(at) {
        let kept = exec.kept(step, at, memory, given)?;
        for found in exec.candidates(step, &kept, Row { values: row, given })? {
            row[places.clone()].clone_from_slice(&kept.rows[found]);
            if fits(row)? {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    let before = row.clone();
    let mut found = false;
    if finds_matches_only(step) {
        exec.first_page.set(1);
    }
    let flow = exec.source(step, Row { values: &before, given }, &mut |values| {
        row[places.clone()].swap_with_slice(values);
        found = fits(row)?;
        if found {
            count(&exec.counts, step.address(), |node| node.matched += 1);
        }
        Ok(if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    });
    exec.first_page.set(FIRST_PAGE_ROWS);
    flow.map(|_| found)
}

/// True if every row that the access path finds meets the conditions, most likely: there are no
/// others than the equalities of one span.
fn finds_matches_only(step: &Step) -> bool {
    match step.access.spans.as_slice() {
        [span] => span.each.is_none() && !span.is_bounded() && step.on.len() <= span.prefix.len(),
        _ => false,
    }
}

/// True if a condition is about nothing but the row at these places, and always means the same.
fn is_about(condition: &Expr, own: &Range<usize>) -> bool {
    let (mut any, mut all) = (false, !condition.is_volatile());
    condition.columns(&mut |slot| {
        any = true;
        all &= own.contains(&slot);
    });
    any && all
}
