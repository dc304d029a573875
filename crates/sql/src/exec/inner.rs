//! The answers of subqueries in expressions.
//!
//! ```text
//!   values [7]  ──▶  remembered?  ──no──▶  run the query for 7, remember
//!                    │ yes
//!                    ▼                     hashed: run it once for all values, and look up;
//!                  answer                  missing values have the answer of no rows
//! ```
//!
//! The evaluation strategy of a subquery was chosen when the statement was bound ([`crate::bind`]'s
//! `inner`). Here is a table of answers for each, keyed by the correlated values. Remembered
//! answers are charged to the statement's budget. Answers that can be computed again take at most
//! [`REMEMBERED_BYTES`]: beyond that all are dropped.
//!
//! A table of all answers reads rows that may not be needed, and can fail at one of them, or for
//! lack of memory. That is not an error of the statement: the subquery then runs for single
//! answers.

use super::select::Hasher;
use super::{Exec, Row, row_bytes};
use crate::budget::Held;
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::expr::Compare;
use crate::plan::{Asks, Hashed, Inner, Select, Way};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::mem::Discriminant;
use std::ops::ControlFlow;
use std::rc::Rc;

/// The largest memory for the remembered answers of one subquery.
const REMEMBERED_BYTES: usize = 4 << 20;

/// An answer of a subquery.
#[derive(Clone)]
enum Answer {
    One(Datum),
    /// It has more than one row, where only one is allowed.
    Several,
    /// The values of IN, to search.
    Among(Rc<Members>),
}

/// The values of a subquery, to search.
#[derive(Default)]
struct Members {
    values: HashSet<Datum, Hasher>,
    /// True if a value, or one of a row, is NULL.
    has_null: bool,
    /// The rows of a subquery of several columns.
    rows: HashSet<Vec<Datum>, Hasher>,
}

/// Compares two rows. Their order is that of the first values that differ. `None`: unknown.
fn compared(a: &[Datum], compare: Compare, b: &[Datum]) -> Option<bool> {
    let is_order = !matches!(compare, Compare::Eq | Compare::Ne);
    let mut is_known = true;
    for (a, b) in a.iter().zip(b) {
        match a.is_null() || b.is_null() {
            true if is_order => return None,
            true => is_known = false,
            false if a.compare(b).is_ne() => return Some(compare.holds(a.compare(b))),
            false => {}
        }
    }
    is_known.then(|| compare.holds(Ordering::Equal))
}

impl Members {
    /// Whether a value is one of them: unknown, if it or one of them is NULL.
    fn holds(&self, value: &Datum) -> Datum {
        match value {
            _ if self.values.is_empty() && !self.has_null => Datum::Bool(false),
            Datum::Null => Datum::Null,
            value if self.values.contains(value) => Datum::Bool(true),
            _ if self.has_null => Datum::Null,
            _ => Datum::Bool(false),
        }
    }

    /// Whether a comparison of a value, or of the values of a row, with any of them is true.
    fn any(&self, values: &[Datum], compare: Compare) -> Datum {
        let has_null = values.iter().any(Datum::is_null);
        match values {
            [value] if compare == Compare::Eq => return self.holds(value),
            // Rows without a NULL are equal, or differ.
            values if compare == Compare::Eq && !has_null => {
                let is_one = self.rows.contains(values);
                if is_one || !self.has_null {
                    return Datum::Bool(is_one);
                }
            }
            _ => {}
        }
        let rows = self.rows.iter().map(Vec::as_slice);
        let ones = self.values.iter().map(std::slice::from_ref);
        let null = std::slice::from_ref(&Datum::Null);
        let null = Some(null).filter(|_| self.has_null && values.len() == 1);
        let mut found = Datum::Bool(false);
        for row in rows.chain(ones).chain(null) {
            match compared(values, compare, row) {
                Some(true) => return Datum::Bool(true),
                Some(false) => {}
                None => found = Datum::Null,
            }
        }
        found
    }

    /// Adds the value of a row of the subquery, or its values.
    fn add_row(&mut self, values: &[Datum], held: &mut Held<'_>) -> Result<(), SqlError> {
        if let [value] = values {
            return self.add(value, held);
        }
        self.has_null |= values.iter().any(Datum::is_null);
        if !self.rows.contains(values) {
            held.place(self.rows.len(), self.rows.capacity(), size_of::<Vec<Datum>>())?;
            held.add(row_bytes(values))?;
            self.rows.insert(values.to_vec());
        }
        Ok(())
    }

    fn add(&mut self, value: &Datum, held: &mut Held<'_>) -> Result<(), SqlError> {
        if value.is_null() {
            self.has_null = true;
        } else if !self.values.contains(value) {
            held.place(self.values.len(), self.values.capacity(), size_of::<Datum>())?;
            held.add(value.heap_bytes())?;
            self.values.insert(value.clone());
        }
        Ok(())
    }
}

/// The values of a list that is the same for all rows; `None` for a NULL array.
pub(super) struct Listed<'b> {
    members: Option<Members>,
    /// The kind of all values. Values of other kinds are compared one by one, because their hashes
    /// differ.
    kind: Option<Kind>,
    _held: Held<'b>,
}

/// Kinds of values. Equal values of one kind have the same hash.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Exact,
    Of(Discriminant<Datum>),
}

impl Kind {
    pub(super) fn of(value: &Datum) -> Kind {
        match value {
            Datum::Int(_) | Datum::Numeric(_) => Kind::Exact,
            value => Kind::Of(std::mem::discriminant(value)),
        }
    }
}

/// Passes each value of a list to the argument; false for a NULL array.
pub(super) type ListValues<'l> =
    &'l dyn Fn(&mut dyn FnMut(Datum) -> Result<(), SqlError>) -> Result<bool, SqlError>;

/// Answers by the values of equality conditions.
type Answers = HashMap<Vec<Datum>, Answer, Hasher>;

/// The correlated values of a query. Equal values of different representation are different keys,
/// because the query may show the difference.
#[derive(PartialEq, Eq, Hash)]
struct GivenValues(Vec<Exactly>);

struct Exactly(Datum);

impl PartialEq for Exactly {
    fn eq(&self, other: &Exactly) -> bool {
        self.0.is_identical(&other.0)
    }
}

impl Eq for Exactly {}

/// Identical values are equal, and equal values have the same hash.
impl Hash for Exactly {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

/// The answers and costs of one subquery.
pub(super) struct Memory<'b> {
    /// Answers by the correlated values.
    answers: HashMap<GivenValues, Answer, Hasher>,
    /// All answers, by the values of equality conditions.
    table: Answers,
    held: Held<'b>,
    bytes: usize,
    /// True if all answers but that of no rows are in the table.
    is_whole: bool,
    /// True if a table of all answers cannot be made.
    is_single: bool,
    /// The recursive queries whose rows the answers depend on.
    reads: Vec<usize>,
    cost: Cost,
}

/// The costs of a subquery in an expression.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Cost {
    /// How many answers were requested.
    pub asked: usize,
    /// How often it has run.
    pub runs: usize,
    /// How many answers are remembered.
    pub remembered: usize,
    /// Bytes of memory.
    pub bytes: usize,
}

impl<'a> Exec<'a> {
    /// The answer of a subquery for a row.
    pub(super) fn inner(&self, inner: &Inner, row: Row<'_>) -> Result<Datum, SqlError> {
        let given = inner.args.iter().map(|arg| self.eval(arg, row));
        let given: Vec<Datum> = given.collect::<Result<_, _>>()?;
        let value = inner.value.iter().map(|value| self.eval(value, row));
        let value = value.collect::<Result<Vec<Datum>, _>>()?;
        self.memory(inner, |memory| memory.cost.asked += 1);
        let answer = match &inner.inside.way {
            Way::Each => self.ask(inner, &given, &value)?,
            Way::Hashed(hashed) if self.is_table_ready(inner, hashed)? => {
                self.looked_up(inner, hashed, &given)?
            }
            _ => self.remembered(inner, given, &value)?,
        };
        match answer {
            Answer::One(value) => Ok(value),
            Answer::Among(members) => Ok(match inner.asks {
                Asks::Any(compare) => members.any(&value, compare),
                _ => Datum::Null,
            }),
            Answer::Several => {
                let message = "more than one row returned by a subquery used as an expression";
                Err(SqlError::new(code::CARDINALITY_VIOLATION, message))
            }
        }
    }

    /// Whether a value is in a list. The list is hashed once per statement. `None`: compare one by
    /// one.
    pub(super) fn is_listed(
        &self,
        number: usize,
        value: &Datum,
        values: ListValues<'_>,
    ) -> Result<Option<Datum>, SqlError> {
        let known = self.lists.borrow().get(&number).cloned();
        let listed = match known {
            Some(known) => known,
            None => {
                let gathered = Rc::new(self.gather(values)?);
                self.lists.borrow_mut().insert(number, gathered.clone());
                gathered
            }
        };
        let Some(members) = &listed.members else { return Ok(Some(Datum::Null)) };
        let is_of_kind =
            value.is_null() || members.values.is_empty() || listed.kind == Some(Kind::of(value));
        Ok(is_of_kind.then(|| members.holds(value)))
    }

    fn gather(&self, values: ListValues<'_>) -> Result<Listed<'a>, SqlError> {
        let (mut members, mut held) = (Members::default(), self.budget.held());
        let (mut kind, mut is_mixed) = (None, false);
        let is_there = values(&mut |value| {
            self.tick()?;
            if !value.is_null() {
                let own = Kind::of(&value);
                is_mixed |= *kind.get_or_insert(own) != own;
            }
            members.add(&value, &mut held)
        })?;
        let kind = kind.filter(|_| !is_mixed);
        Ok(Listed { members: is_there.then_some(members), kind, _held: held })
    }

    /// The values of an uncorrelated subquery of IN.
    pub(super) fn members(&self, inner: &Inner) -> Result<Vec<Datum>, SqlError> {
        match self.remembered(inner, Vec::new(), &[])? {
            Answer::Among(members) => Ok(members.values.iter().cloned().collect()),
            _ => Ok(Vec::new()),
        }
    }

    /// The costs of subqueries, by their numbers.
    pub(crate) fn costs(&self) -> Vec<(usize, Cost)> {
        let answers = self.answers.borrow();
        let cost = |(number, memory): (&usize, &Memory<'_>)| {
            let (remembered, bytes) = (memory.answers.len() + memory.table.len(), memory.bytes);
            (*number, Cost { remembered, bytes, ..memory.cost })
        };
        answers.iter().map(cost).collect()
    }

    /// Drops the answers that depend on the rows that a recursive query has found.
    pub(super) fn forget_answers(&self, recursive: usize) {
        for memory in self.answers.borrow_mut().values_mut() {
            if memory.reads.contains(&recursive) {
                memory.answers.clear();
                memory.table.clear();
                (memory.held, memory.is_whole) = (self.budget.held(), false);
                memory.bytes = 0;
            }
        }
    }

    /// The recursive queries whose newest rows a query reads; if that takes too long to determine,
    /// all that have found any.
    pub(super) fn reads_found(&self, query: &Select) -> Vec<usize> {
        let all = || self.found.borrow().keys().copied().collect();
        query.reads_found().unwrap_or_else(all)
    }

    fn memory<T>(&self, inner: &Inner, look: impl FnOnce(&mut Memory<'a>) -> T) -> T {
        let mut answers = self.answers.borrow_mut();
        look(answers.entry(inner.number).or_insert_with(|| Memory {
            answers: HashMap::default(),
            table: Answers::default(),
            held: self.budget.held(),
            bytes: 0,
            is_whole: false,
            is_single: false,
            reads: self.reads_found(&inner.inside.query),
            cost: Cost::default(),
        }))
    }

    /// The answer for these values, computed and remembered if necessary.
    fn remembered(
        &self,
        inner: &Inner,
        given: Vec<Datum>,
        value: &[Datum],
    ) -> Result<Answer, SqlError> {
        // All members are worth collecting if they are searched for more than one row.
        let is_once = inner.args.is_empty();
        let mut key = given.clone();
        if !is_once {
            key.extend_from_slice(value);
        }
        let key_bytes = row_bytes(&key);
        let key = GivenValues(key.into_iter().map(Exactly).collect());
        if let Some(known) = self.memory(inner, |memory| memory.answers.get(&key).cloned()) {
            return Ok(known);
        }
        if is_once {
            let mut held = self.budget.held();
            let answer = match inner.asks {
                Asks::Any(_) => self.all(inner, &inner.inside.query, &given, &mut held)?,
                _ => self.ask(inner, &given, value)?,
            };
            return self.memory(inner, |memory| {
                held.add(answer_bytes(&answer))?;
                memory.bytes = held.bytes();
                memory.held = held;
                memory.answers.insert(key, answer.clone());
                Ok(answer)
            });
        }
        let answer = self.ask(inner, &given, value)?;
        self.memory(inner, |memory| {
            let bytes = key_bytes + answer_bytes(&answer);
            if memory.bytes + bytes > REMEMBERED_BYTES || memory.held.add(bytes).is_err() {
                memory.answers.clear();
                memory.held = self.budget.held();
                memory.bytes = 0;
                return;
            }
            memory.bytes += bytes;
            memory.answers.insert(key, answer.clone());
        });
        Ok(answer)
    }

    /// Runs a query for one answer.
    fn ask(&self, inner: &Inner, given: &[Datum], value: &[Datum]) -> Result<Answer, SqlError> {
        self.memory(inner, |memory| memory.cost.runs += 1);
        self.answer_of(inner.asks, &inner.inside.query, given, value)
    }

    fn answer_of(
        &self,
        asks: Asks,
        query: &Select,
        given: &[Datum],
        value: &[Datum],
    ) -> Result<Answer, SqlError> {
        let (mut found, mut count) = (Datum::Null, 0);
        if let Asks::Exists | Asks::Any(_) = asks {
            found = Datum::Bool(false);
        }
        if asks == Asks::Array {
            return self.gathered(query, given).map(Answer::One);
        }
        let mut take = |values: &[Datum]| {
            count += 1;
            match asks {
                Asks::Exists => found = Datum::Bool(true),
                Asks::Any(compare) => match compared(value, compare, values) {
                    Some(true) => found = Datum::Bool(true),
                    None => found = Datum::Null,
                    Some(false) => {}
                },
                Asks::Value if count == 1 => found = self.cloned(&values[0])?,
                _ => {}
            }
            let is_known = found == Datum::Bool(true) && asks != Asks::Value;
            let is_enough = is_known || (asks == Asks::Value && count > 1);
            Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        };
        match query.lock {
            None => self.rows(query, given, &mut take)?,
            Some(lock) => self.locked_rows(query, lock, &mut take)?,
        }
        Ok(if asks == Asks::Value && count > 1 { Answer::Several } else { Answer::One(found) })
    }

    /// The values of a query as an array.
    fn gathered(&self, query: &Select, given: &[Datum]) -> Result<Datum, SqlError> {
        let (mut gathered, mut held) = (crate::array::Writer::default(), self.budget.held());
        let ty = query.output[0].ty;
        self.rows(query, given, &mut |values| {
            // The element as text, with a backslash before each character; it can grow to the same
            // size again.
            held.add(4 * crate::text::format_bytes(&values[0]) + 8)?;
            let known = (!values[0].is_null()).then(|| crate::text::format(&values[0], ty));
            gathered.push(known.as_deref());
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(Datum::Text(gathered.end()))
    }

    /// All values of a query.
    fn all(
        &self,
        inner: &Inner,
        query: &Select,
        given: &[Datum],
        held: &mut Held<'_>,
    ) -> Result<Answer, SqlError> {
        self.memory(inner, |memory| memory.cost.runs += 1);
        let mut members = Members::default();
        let mut take = |values: &[Datum]| {
            // The keys of rows to lock follow.
            members.add_row(&values[..inner.value.len()], held)?;
            Ok(ControlFlow::Continue(()))
        };
        match query.lock {
            None => self.rows(query, given, &mut take)?,
            Some(lock) => self.locked_rows(query, lock, &mut take)?,
        }
        Ok(Answer::Among(Rc::new(members)))
    }

    /// True if all answers are available, or could be computed now.
    fn is_table_ready(&self, inner: &Inner, hashed: &Hashed) -> Result<bool, SqlError> {
        let (is_whole, is_wanted) = self.memory(inner, |memory| {
            let is_worth_it = memory.cost.runs >= hashed.after;
            (memory.is_whole, is_worth_it && !memory.is_single)
        });
        if is_whole || !is_wanted {
            return Ok(is_whole);
        }
        self.memory(inner, |memory| memory.cost.runs += 1);
        let mut held = self.budget.held();
        match self.table(inner.asks, hashed, &mut held) {
            Ok(answers) => {
                self.memory(inner, |memory| {
                    memory.bytes = held.bytes();
                    memory.answers.clear();
                    (memory.table, memory.held, memory.is_whole) = (answers, held, true);
                });
                Ok(true)
            }
            Err(error) if error.code.starts_with("22") || error.code == code::OUT_OF_MEMORY => {
                self.memory(inner, |memory| memory.is_single = true);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// The answers for all correlated values.
    fn table(&self, asks: Asks, hashed: &Hashed, held: &mut Held<'_>) -> Result<Answers, SqlError> {
        let mut members: HashMap<Vec<Datum>, Members, Hasher> = HashMap::default();
        let mut answers = Answers::default();
        let width = hashed.by.len();
        self.rows(&hashed.query, &[], &mut |values| {
            let (key, shown) = values.split_at(width);
            if key.iter().any(Datum::is_null) {
                return Ok(ControlFlow::Continue(()));
            }
            let is_new = !answers.contains_key(key) && !members.contains_key(key);
            if is_new {
                held.add(row_bytes(key))?;
                match asks {
                    Asks::Any(_) => {
                        let entry = size_of::<(Vec<Datum>, Members)>();
                        held.place(members.len(), members.capacity(), entry)?;
                    }
                    _ => {
                        let entry = size_of::<(Vec<Datum>, Answer)>();
                        held.place(answers.len(), answers.capacity(), entry)?;
                    }
                }
            }
            match asks {
                Asks::Any(_) if is_new => {
                    members.entry(key.to_vec()).or_default().add_row(shown, held)?;
                }
                Asks::Any(_) => {
                    let known = members.get_mut(key).expect("just looked");
                    known.add_row(shown, held)?;
                }
                Asks::Value if !is_new => {
                    *answers.get_mut(key).expect("just looked") = Answer::Several;
                }
                Asks::Value => {
                    held.add(shown[0].heap_bytes())?;
                    answers.insert(key.to_vec(), Answer::One(shown[0].clone()));
                }
                Asks::Exists | Asks::Array if is_new => {
                    answers.insert(key.to_vec(), Answer::One(Datum::Bool(true)));
                }
                Asks::Exists | Asks::Array => {}
            }
            Ok(ControlFlow::Continue(()))
        })?;
        answers.extend(members.into_iter().map(|(key, all)| (key, Answer::Among(Rc::new(all)))));
        Ok(answers)
    }

    fn looked_up(
        &self,
        inner: &Inner,
        hashed: &Hashed,
        given: &[Datum],
    ) -> Result<Answer, SqlError> {
        let key = hashed.by.iter().map(|by| self.eval(by, Row { values: &[], given }));
        let key: Vec<Datum> = key.collect::<Result<_, _>>()?;
        if let Some(known) = self.memory(inner, |memory| memory.table.get(&key).cloned()) {
            return Ok(known);
        }
        match (&hashed.nothing, inner.asks) {
            (Some(nothing), Asks::Any(_)) => {
                let mut members = Members::default();
                let mut held = self.budget.held();
                self.rows(nothing, &[], &mut |values| {
                    members.add_row(&values[..inner.value.len()], &mut held)?;
                    Ok(ControlFlow::Continue(()))
                })?;
                Ok(Answer::Among(Rc::new(members)))
            }
            (Some(nothing), asks) => self.answer_of(asks, nothing, &[], &[]),
            (None, Asks::Any(_)) => Ok(Answer::Among(Rc::default())),
            (None, Asks::Exists) => Ok(Answer::One(Datum::Bool(false))),
            (None, Asks::Value | Asks::Array) => Ok(Answer::One(Datum::Null)),
        }
    }
}

fn answer_bytes(answer: &Answer) -> usize {
    match answer {
        Answer::One(value) => size_of::<Answer>() + value.heap_bytes(),
        Answer::Several | Answer::Among(_) => size_of::<Answer>(),
    }
}
