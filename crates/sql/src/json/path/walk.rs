//! Walking a path on a value, as PostgreSQL does: which parts are looked at in which order decides
//! which errors are seen.

use super::place::place;
use super::{Method, Path, Step};
use crate::budget::Budget;
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::expr::{Arith, Compare};
use crate::json::{Node, compare, field, items, members, quote, unquoted};
use crate::numeric::{Decimal, overflow, read_bytes};
use crate::types::SqlType;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

const MEMBER_NOT_FOUND: &str = "2203A";
const NUMBER_NOT_FOUND: &str = "2203B";
const OBJECT_NOT_FOUND: &str = "2203C";
const ARRAY_NOT_FOUND: &str = "22039";
const INVALID_SUBSCRIPT: &str = "22033";
const NOT_NUMERIC: &str = "22036";
const NOT_SINGLE: &str = "22038";
/// The factor of an object's number in the ids of `.keyvalue()`.
const ID_OF_BASE: i64 = 10_000_000_000;

/// A value that a step finds.
#[derive(Clone, Debug)]
pub(crate) enum Item<'v> {
    /// A part of the value, or of the variables.
    Part(&'v str),
    /// A part of a text that the path has made.
    Made(Rc<str>, Range<usize>),
}

impl<'v> Item<'v> {
    pub(crate) fn text(&self) -> &str {
        match self {
            Item::Part(text) => text,
            Item::Made(text, part) => &text[part.clone()],
        }
    }

    /// A part of this item, which is a slice of its text.
    fn part(&self, part: &str) -> Item<'v> {
        let from = part.as_ptr() as usize - self.text().as_ptr() as usize;
        let part = from..from + part.len();
        match self {
            Item::Part(text) => Item::Part(&text[part]),
            Item::Made(text, own) => {
                Item::Made(text.clone(), own.start + part.start..own.start + part.end)
            }
        }
    }

    fn node(&self) -> Node<'_> {
        Node::of(self.text())
    }

    fn is_array(&self) -> bool {
        matches!(self.node(), Node::Array(_))
    }
}

/// The items that a walk has found, or only whether there is one.
struct Found<'v>(Option<Vec<Item<'v>>>);

/// Why a walk ends early.
enum Fault {
    Error(SqlError),
    /// An error of the path, in a quiet walk.
    Quiet,
}

impl From<SqlError> for Fault {
    fn from(error: SqlError) -> Fault {
        Fault::Error(error)
    }
}

/// The truth of a predicate for an item of its left operand, and one of its right operand.
type Holds<'h, 'v> =
    &'h mut dyn FnMut(&Item<'v>, Option<&Item<'v>>) -> Result<Option<bool>, SqlError>;

/// True if there is an item.
type Outcome = Result<bool, Fault>;

/// A walk.
pub(crate) struct Walk<'p, 'v> {
    path: &'p Path,
    root: Item<'v>,
    vars: Option<&'v str>,
    current: Item<'v>,
    /// The length of the innermost array with a subscript.
    length: i64,
    ignores_structure: bool,
    throws: bool,
    /// The value that ids are relative to, and its number.
    base: (Item<'v>, i64),
    bases: i64,
    budget: &'p Budget,
}

impl<'p, 'v> Walk<'p, 'v> {
    /// A walk on a value. Without variables, each one is null.
    ///
    /// # Errors
    /// 22023 if the variables are no object.
    pub(crate) fn new(
        path: &'p Path,
        value: &'v str,
        vars: Option<&'v str>,
        is_quiet: bool,
        budget: &'p Budget,
    ) -> Result<Walk<'p, 'v>, SqlError> {
        if vars.is_some_and(|vars| !matches!(Node::of(vars), Node::Object(_))) {
            let message = "\"vars\" argument is not an object";
            let detail =
                "Jsonpath parameters should be encoded as key-value pairs of \"vars\" object.";
            return Err(SqlError::new(code::INVALID_PARAMETER, message).detail(detail));
        }
        Ok(Walk {
            path,
            root: Item::Part(value),
            vars,
            current: Item::Part(value),
            length: 0,
            ignores_structure: !path.is_strict,
            throws: !is_quiet,
            base: (Item::Part(value), 0),
            bases: if vars.is_some() { 2 } else { 1 },
            budget,
        })
    }

    /// All items: of a quiet walk those before an error.
    ///
    /// # Errors
    /// 22033 to 2203C, 42704, 22012 and others, by the path.
    pub(crate) fn all(&mut self) -> Result<Vec<Item<'v>>, SqlError> {
        let mut found = Found(Some(Vec::new()));
        let (path, root) = (self.path, self.root.clone());
        match self.item(&path.steps, &root, &mut found) {
            Ok(_) | Err(Fault::Quiet) => Ok(found.0.unwrap_or_default()),
            Err(Fault::Error(error)) => Err(error),
        }
    }

    /// Whether there is an item; `None` after an error of a quiet walk. In lax mode the walk ends
    /// at the first item.
    ///
    /// # Errors
    /// As for [`Walk::all`].
    pub(crate) fn is_any(&mut self) -> Result<Option<bool>, SqlError> {
        let mut found = Found(self.path.is_strict.then(Vec::new));
        let (path, root) = (self.path, self.root.clone());
        match self.item(&path.steps, &root, &mut found) {
            Ok(is_any) => Ok(Some(found.0.map_or(is_any, |all| !all.is_empty()))),
            Err(Fault::Quiet) => Ok(None),
            Err(Fault::Error(error)) => Err(error),
        }
    }

    /// The Boolean that is the only item; `None` for null, and in a quiet walk for anything else.
    ///
    /// # Errors
    /// 22038 for any other result; as for [`Walk::all`].
    pub(crate) fn truth(&mut self) -> Result<Option<bool>, SqlError> {
        let all = self.all()?;
        match all.as_slice() {
            [only] if matches!(only.node(), Node::Bool(_)) => Ok(Some(only.text() == "true")),
            [only] if matches!(only.node(), Node::Null) => Ok(None),
            _ if !self.throws => Ok(None),
            _ => Err(SqlError::new(NOT_SINGLE, "single boolean result is expected")),
        }
    }

    /// An error of the path.
    fn fault(&self, code: &'static str, message: fmt::Arguments<'_>) -> Fault {
        match self.throws {
            true => Fault::Error(SqlError::new(code, message.to_string())),
            false => Fault::Quiet,
        }
    }

    /// An error of the structure of the value, which lax mode ignores.
    fn lacking(&self, code: &'static str, message: fmt::Arguments<'_>) -> Outcome {
        if self.ignores_structure { Ok(false) } else { Err(self.fault(code, message)) }
    }

    fn made(&self, text: String) -> Result<Item<'v>, SqlError> {
        self.budget.charge(2 * text.len())?;
        let length = text.len();
        Ok(Item::Made(text.into(), 0..length))
    }

    fn put(&self, item: Item<'v>, found: &mut Found<'v>) -> Outcome {
        if let Some(all) = &mut found.0 {
            self.budget.charge(2 * size_of::<Item<'v>>())?;
            all.push(item);
        }
        Ok(true)
    }

    /// Walks the further steps on an item, which is a result if there are none.
    fn rest(&mut self, rest: &[Step], item: Item<'v>, found: &mut Found<'v>) -> Outcome {
        match rest {
            [] => self.put(item, found),
            rest => self.item(rest, &item, found),
        }
    }

    fn item(&mut self, steps: &[Step], item: &Item<'v>, found: &mut Found<'v>) -> Outcome {
        self.step(steps, item, found, !self.path.is_strict)
    }

    /// Walks steps on an item. An array stands for its elements if `unwraps`, and if the first step
    /// expects something else.
    fn step(
        &mut self,
        steps: &[Step],
        item: &Item<'v>,
        found: &mut Found<'v>,
        unwraps: bool,
    ) -> Outcome {
        self.budget.deeper()?;
        self.budget.tick(16)?;
        let Some((step, rest)) = steps.split_first() else { return self.put(item.clone(), found) };
        let is_lax = !self.path.is_strict;
        // A variable is looked up in any case, and missed.
        let is_variable = matches!(step, Step::Variable(_));
        let is_wanted = !rest.is_empty() || found.0.is_some() || is_variable;
        match step {
            Step::Root => {
                let root = self.root.clone();
                let base = std::mem::replace(&mut self.base, (root.clone(), 0));
                let outcome = self.rest(rest, root, found);
                self.base = base;
                outcome
            }
            Step::Current => {
                let current = self.current.clone();
                self.rest(rest, current, found)
            }
            Step::Last if is_wanted => {
                let last = self.made((self.length - 1).to_string())?;
                self.rest(rest, last, found)
            }
            Step::Null | Step::Bool(_) | Step::Number(_) | Step::Text(_) | Step::Variable(_)
                if is_wanted =>
            {
                let base = self.base.clone();
                let value = self.constant(step)?;
                let outcome = self.rest(rest, value, found);
                self.base = base;
                outcome
            }
            Step::Last
            | Step::Null
            | Step::Bool(_)
            | Step::Number(_)
            | Step::Text(_)
            | Step::Variable(_) => Ok(true),
            Step::Key(key) => {
                if let Node::Object(object) = item.node() {
                    self.budget.tick(object.len() / 16)?;
                    return match field(Node::Object(object), key)? {
                        Some(value) => self.rest(rest, item.part(value), found),
                        None => {
                            let message =
                                format_args!("JSON object does not contain key \"{key}\"");
                            self.lacking(MEMBER_NOT_FOUND, message)
                        }
                    };
                }
                if unwraps && item.is_array() {
                    return self.each(steps, item, found, false);
                }
                let message = "jsonpath member accessor can only be applied to an object";
                self.lacking(MEMBER_NOT_FOUND, format_args!("{message}"))
            }
            Step::AnyKey => {
                if let Node::Object(_) = item.node() {
                    return self.each(rest, item, found, is_lax);
                }
                if unwraps && item.is_array() {
                    return self.each(steps, item, found, false);
                }
                let message = "jsonpath wildcard member accessor can only be applied to an object";
                self.lacking(OBJECT_NOT_FOUND, format_args!("{message}"))
            }
            Step::AnyElement => {
                if item.is_array() {
                    return self.each(rest, item, found, is_lax);
                }
                if is_lax {
                    return self.rest(rest, item.clone(), found);
                }
                let message = "jsonpath wildcard array accessor can only be applied to an array";
                self.lacking(ARRAY_NOT_FOUND, format_args!("{message}"))
            }
            Step::Elements(wanted) => {
                if !item.is_array() && self.path.is_strict {
                    let message = "jsonpath array accessor can only be applied to an array";
                    return self.lacking(ARRAY_NOT_FOUND, format_args!("{message}"));
                }
                let before = self.length;
                let outcome = self.elements(wanted, rest, item, found);
                self.length = before;
                outcome
            }
            Step::Descend(first, last) => {
                if *first == 0 {
                    let before = std::mem::replace(&mut self.ignores_structure, true);
                    let outcome = self.rest(rest, item.clone(), found);
                    self.ignores_structure = before;
                    let is_any = match outcome {
                        // As in PostgreSQL, the parts of the value follow all the same.
                        Err(Fault::Quiet) if !item.node().is_scalar() => false,
                        outcome => outcome?,
                    };
                    if is_any && found.0.is_none() {
                        return Ok(true);
                    }
                }
                self.descend(rest, item, found, (1, *first, *last))
            }
            Step::Filter(_) | Step::Method(_) if unwraps && item.is_array() && unwrapped(step) => {
                self.each(steps, item, found, false)
            }
            Step::Filter(wanted) => {
                let current = std::mem::replace(&mut self.current, item.clone());
                let truth = self.predicate(wanted, item);
                self.current = current;
                match truth? {
                    Some(true) => self.rest(rest, item.clone(), found),
                    _ => Ok(false),
                }
            }
            Step::Method(Method::KeyValue) => self.key_values(rest, item, found),
            Step::Method(method) => match self.method(*method, item)? {
                Some(value) => self.rest(rest, value, found),
                None => Ok(false),
            },
            Step::Arith(op, sides) => {
                let value = self.arith(*op, &sides[0], &sides[1], item)?;
                self.rest(rest, value, found)
            }
            Step::Sign(is_minus, value) => self.signed((*is_minus, value), rest, item, found),
            Step::And(_)
            | Step::Or(_)
            | Step::Not(_)
            | Step::IsUnknown(_)
            | Step::Compare(..)
            | Step::Exists(_)
            | Step::StartsWith(_)
            | Step::Like(..) => {
                let truth = self.predicate(step, item)?;
                let shown = truth.map_or("null", |truth| if truth { "true" } else { "false" });
                self.rest(rest, Item::Part(shown), found)
            }
        }
    }

    /// The value of a literal or a variable.
    fn constant(&mut self, step: &Step) -> Result<Item<'v>, Fault> {
        Ok(match step {
            Step::Bool(true) => Item::Part("true"),
            Step::Bool(false) => Item::Part("false"),
            Step::Number(number) => self.number(number)?,
            Step::Text(text) => {
                self.budget.charge(6 * text.len() + 2)?;
                let mut quoted = String::new();
                quote(text, &mut quoted);
                self.made(quoted)?
            }
            Step::Variable(name) => {
                let Some(vars) = self.vars else { return Ok(Item::Part("null")) };
                let Some(value) = field(Node::of(vars), name)? else {
                    let message = format!("could not find jsonpath variable \"{name}\"");
                    return Err(SqlError::new(code::UNDEFINED_OBJECT, message).into());
                };
                self.base = (Item::Part(vars), 1);
                Item::Part(value)
            }
            _ => Item::Part("null"),
        })
    }

    fn number(&self, number: &Decimal) -> Result<Item<'v>, SqlError> {
        self.budget.charge(number.text_bytes())?;
        self.made(number.to_string())
    }

    /// Walks steps on the members of an object or the elements of an array.
    fn each(
        &mut self,
        steps: &[Step],
        item: &Item<'v>,
        found: &mut Found<'v>,
        unwraps: bool,
    ) -> Outcome {
        self.budget.tick(item.text().len() / 16)?;
        let mut is_any = false;
        for part in parts(item.text()) {
            is_any = match steps {
                [] => self.put(item.part(part), found)?,
                steps => self.step(steps, &item.part(part), found, unwraps)?,
            };
            if is_any && found.0.is_none() {
                break;
            }
        }
        Ok(is_any)
    }

    /// `.**` from a level on: the level of the parts, and the first and the last one of results.
    fn descend(
        &mut self,
        rest: &[Step],
        item: &Item<'v>,
        found: &mut Found<'v>,
        (level, first, last): (u32, u32, u32),
    ) -> Outcome {
        self.budget.deeper()?;
        self.budget.tick(item.text().len() / 16)?;
        let mut is_any = false;
        if level > last {
            return Ok(false);
        }
        for part in parts(item.text()) {
            let is_scalar = Node::of(part).is_scalar();
            let part = item.part(part);
            let only_leaves = first == u32::MAX && last == u32::MAX;
            if level >= first || (only_leaves && is_scalar) {
                let before = std::mem::replace(&mut self.ignores_structure, true);
                let outcome = self.rest(rest, part.clone(), found);
                self.ignores_structure = before;
                is_any = outcome?;
                if is_any && found.0.is_none() {
                    return Ok(true);
                }
            }
            if level < last && !is_scalar {
                is_any = self.descend(rest, &part, found, (level + 1, first, last))?;
                if is_any && found.0.is_none() {
                    return Ok(true);
                }
            }
        }
        Ok(is_any)
    }

    /// `[..]`, where a value that is no array counts as one of one element.
    fn elements(
        &mut self,
        wanted: &[(Vec<Step>, Option<Vec<Step>>)],
        rest: &[Step],
        item: &Item<'v>,
        found: &mut Found<'v>,
    ) -> Outcome {
        self.budget.tick(item.text().len() / 16)?;
        let is_array = item.is_array();
        self.length = if is_array { items(item.text()).count() as i64 } else { 1 };
        let length = self.length;
        let mut is_any = false;
        for (from, to) in wanted {
            let from = self.subscript(from, item)?;
            let to = match to {
                Some(to) => self.subscript(to, item)?,
                None => from,
            };
            if !self.ignores_structure && (from < 0 || from > to || to >= length) {
                let message = "jsonpath array subscript is out of bounds";
                return Err(self.fault(INVALID_SUBSCRIPT, format_args!("{message}")));
            }
            let (from, to) = (from.max(0), to.min(length - 1));
            is_any = false;
            if from > to {
                continue;
            }
            self.budget.tick(item.text().len() / 16)?;
            let (skipped, count) = (from as usize, (to - from + 1) as usize);
            let parts = is_array.then(|| items(item.text()).skip(skipped).take(count));
            let whole = (!is_array).then(|| item.text());
            for part in parts.into_iter().flatten().chain(whole) {
                is_any = self.rest(rest, item.part(part), found)?;
                if is_any && found.0.is_none() {
                    return Ok(true);
                }
            }
        }
        Ok(is_any)
    }

    fn subscript(&mut self, steps: &[Step], item: &Item<'v>) -> Result<i64, Fault> {
        let mut found = Found(Some(Vec::new()));
        self.item(steps, item, &mut found)?;
        let number = match found.0.as_deref() {
            Some([only]) => self.numeric(only)?,
            _ => None,
        };
        let Some(number) = number else {
            let message = "jsonpath array subscript is not a single numeric value";
            return Err(self.fault(INVALID_SUBSCRIPT, format_args!("{message}")));
        };
        let whole = number.truncate(0)?.to_i64().filter(|whole| i32::try_from(*whole).is_ok());
        let message = "jsonpath array subscript is out of integer range";
        whole.ok_or_else(|| self.fault(INVALID_SUBSCRIPT, format_args!("{message}")))
    }

    /// The number that an item is.
    fn numeric(&self, item: &Item<'v>) -> Result<Option<Decimal>, SqlError> {
        let Node::Number(digits) = item.node() else { return Ok(None) };
        self.budget.charge(read_bytes(digits))?;
        Decimal::parse(digits).map(Some).ok_or_else(overflow)
    }

    /// The items of an operand. In lax mode, arrays among them stand for their elements if
    /// `unwraps`.
    fn operand(
        &mut self,
        steps: &[Step],
        item: &Item<'v>,
        unwraps: bool,
    ) -> Result<Vec<Item<'v>>, Fault> {
        let mut found = Found(Some(Vec::new()));
        self.item(steps, item, &mut found)?;
        let all = found.0.unwrap_or_default();
        if !unwraps || self.path.is_strict || !all.iter().any(Item::is_array) {
            return Ok(all);
        }
        let mut unwrapped = Found(Some(Vec::with_capacity(all.len())));
        for item in all {
            match item.is_array() {
                true => self.each(&[], &item, &mut unwrapped, false)?,
                false => self.put(item, &mut unwrapped)?,
            };
        }
        Ok(unwrapped.0.unwrap_or_default())
    }

    /// As [`Walk::operand`]; `None` for an error of the path.
    fn quiet_operand(
        &mut self,
        steps: &[Step],
        item: &Item<'v>,
        unwraps: bool,
    ) -> Result<Option<Vec<Item<'v>>>, Fault> {
        let throws = std::mem::replace(&mut self.throws, false);
        let all = self.operand(steps, item, unwraps);
        self.throws = throws;
        match all {
            Ok(all) => Ok(Some(all)),
            Err(Fault::Quiet) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The truth of a predicate; `None` if it is unknown.
    fn predicate(&mut self, step: &Step, item: &Item<'v>) -> Result<Option<bool>, Fault> {
        let mark = self.budget.mark();
        let truth = self.truth_of(step, item)?;
        self.budget.back_to(mark);
        Ok(truth)
    }

    fn truth_of(&mut self, step: &Step, item: &Item<'v>) -> Result<Option<bool>, Fault> {
        self.budget.deeper()?;
        Ok(match step {
            Step::And(sides) => match self.predicate(&sides[0], item)? {
                Some(false) => Some(false),
                first => match self.predicate(&sides[1], item)? {
                    Some(true) => first,
                    second => second,
                },
            },
            Step::Or(sides) => match self.predicate(&sides[0], item)? {
                Some(true) => Some(true),
                first => match self.predicate(&sides[1], item)? {
                    Some(false) => first,
                    second => second,
                },
            },
            Step::Not(inner) => self.predicate(inner, item)?.map(|truth| !truth),
            Step::IsUnknown(inner) => Some(self.predicate(inner, item)?.is_none()),
            Step::Exists(steps) if self.path.is_strict => {
                self.quiet_operand(steps, item, false)?.map(|all| !all.is_empty())
            }
            Step::Exists(steps) => {
                let throws = std::mem::replace(&mut self.throws, false);
                let outcome = self.item(steps, item, &mut Found(None));
                self.throws = throws;
                match outcome {
                    Ok(is_any) => Some(is_any),
                    Err(Fault::Quiet) => None,
                    Err(error) => return Err(error),
                }
            }
            Step::Compare(wanted, sides) => {
                let holds = |a: &Item<'v>, b: Option<&Item<'v>>| {
                    let b = b?;
                    match (a.node(), b.node()) {
                        (Node::Null, Node::Null)
                        | (Node::Bool(_), Node::Bool(_))
                        | (Node::Number(_), Node::Number(_))
                        | (Node::Text(_), Node::Text(_)) => {
                            Some(wanted.holds(compare(a.text(), b.text())))
                        }
                        (Node::Null, _) | (_, Node::Null) => Some(*wanted == Compare::Ne),
                        _ => None,
                    }
                };
                self.some_pair((&sides[0], Some(&sides[1]), true), item, &mut |a, b| {
                    Ok(holds(a, b))
                })?
            }
            Step::StartsWith(sides) => {
                self.some_pair((&sides[0], Some(&sides[1]), false), item, &mut |a, b| {
                    let (Node::Text(whole), Some(Node::Text(start))) =
                        (a.node(), b.map(Item::node))
                    else {
                        return Ok(None);
                    };
                    Ok(Some(unquoted(whole)?.starts_with(&*unquoted(start)?)))
                })?
            }
            Step::Like(value, regex) => {
                let budget = self.budget;
                self.some_pair((value, None, false), item, &mut |a, _| {
                    let Node::Text(text) = a.node() else { return Ok(None) };
                    regex.is_in(&unquoted(text)?, budget).map(Some)
                })?
            }
            _ => None,
        })
    }

    /// Whether a predicate holds for some pair of items of two operands, or for some item of one.
    fn some_pair(
        &mut self,
        (left, right, unwraps_right): (&[Step], Option<&[Step]>, bool),
        item: &Item<'v>,
        holds: Holds<'_, 'v>,
    ) -> Result<Option<bool>, Fault> {
        let Some(left) = self.quiet_operand(left, item, true)? else { return Ok(None) };
        let right = match right {
            Some(right) => {
                let Some(right) = self.quiet_operand(right, item, unwraps_right)? else {
                    return Ok(None);
                };
                Some(right)
            }
            None => None,
        };
        let (mut is_unknown, mut is_true) = (false, false);
        for a in &left {
            let others = right.iter().flatten().map(Some).chain(right.is_none().then_some(None));
            for b in others {
                self.budget.tick(4 + a.text().len().min(b.map_or(0, |b| b.text().len())) / 16)?;
                match holds(a, b)? {
                    None if self.path.is_strict => return Ok(None),
                    None => is_unknown = true,
                    Some(true) if !self.path.is_strict => return Ok(Some(true)),
                    Some(truth) => is_true |= truth,
                }
            }
        }
        Ok(if is_true { Some(true) } else { Some(false).filter(|_| !is_unknown) })
    }

    fn arith(
        &mut self,
        op: Arith,
        left: &[Step],
        right: &[Step],
        item: &Item<'v>,
    ) -> Result<Item<'v>, Fault> {
        let (left, right) = (self.operand(left, item, true)?, self.operand(right, item, true)?);
        let sign = match op {
            Arith::Add => "+",
            Arith::Sub => "-",
            Arith::Mul => "*",
            Arith::Div => "/",
            _ => "%",
        };
        let mut numbers = Vec::with_capacity(2);
        for (side, all) in [("left", left), ("right", right)] {
            let number = match all.as_slice() {
                [only] => self.numeric(only)?,
                _ => None,
            };
            numbers.push(number.ok_or_else(|| {
                let message = "operand of jsonpath operator";
                let wanted = "is not a single numeric value";
                self.fault(NOT_SINGLE, format_args!("{side} {message} {sign} {wanted}"))
            })?);
        }
        let (a, b) = (&numbers[0], &numbers[1]);
        // A product takes the time of all pairs of digits, a quotient that of its scale as well.
        self.budget.charge(a.text_bytes() + b.text_bytes())?;
        self.budget.tick(a.text_bytes().saturating_mul(b.text_bytes()) / 256)?;
        let found = match op {
            Arith::Add => a.plus(b),
            Arith::Sub => a.minus(b),
            Arith::Mul => a.times(b),
            Arith::Div => a.over(b),
            _ => a.modulo(b),
        };
        match found {
            Ok(number) => Ok(self.number(&number)?),
            Err(error) if self.throws => Err(error.into()),
            Err(_) => Err(Fault::Quiet),
        }
    }

    fn signed(
        &mut self,
        (is_minus, value): (bool, &[Step]),
        rest: &[Step],
        item: &Item<'v>,
        found: &mut Found<'v>,
    ) -> Outcome {
        let is_wanted = !rest.is_empty() || found.0.is_some();
        let mut is_any = false;
        for value in self.operand(value, item, true)? {
            let Some(number) = self.numeric(&value)? else {
                if !is_wanted {
                    continue;
                }
                let sign = if is_minus { "-" } else { "+" };
                let message = "is not a numeric value";
                return Err(self.fault(
                    NUMBER_NOT_FOUND,
                    format_args!("operand of unary jsonpath operator {sign} {message}"),
                ));
            };
            if !is_wanted {
                return Ok(true);
            }
            let value = if is_minus { self.number(&number.negated())? } else { value };
            if self.rest(rest, value, found)? {
                if found.0.is_none() {
                    return Ok(true);
                }
                is_any = true;
            }
        }
        Ok(is_any)
    }

    /// The result of a method; `None` if lax mode ignores that there is none.
    fn method(&self, method: Method, item: &Item<'v>) -> Result<Option<Item<'v>>, Fault> {
        let name = method.name();
        let wrong = |code, wanted: &str| {
            let message =
                format_args!("jsonpath item method .{name}() can only be applied to {wanted}");
            self.fault(code, message)
        };
        let number = match method {
            Method::Type => {
                return Ok(Some(Item::Part(match item.node() {
                    Node::Null => "\"null\"",
                    Node::Bool(_) => "\"boolean\"",
                    Node::Number(_) => "\"number\"",
                    Node::Text(_) => "\"string\"",
                    Node::Array(_) => "\"array\"",
                    Node::Object(_) => "\"object\"",
                })));
            }
            Method::Size => {
                self.budget.tick(item.text().len() / 16)?;
                let size = match item.node() {
                    Node::Array(array) => items(array).count(),
                    _ if !self.path.is_strict => 1,
                    _ if self.ignores_structure => return Ok(None),
                    _ => return Err(wrong(ARRAY_NOT_FOUND, "an array")),
                };
                return Ok(Some(self.made(size.to_string())?));
            }
            Method::Double => return self.double(item).map(Some),
            _ => match self.numeric(item)? {
                Some(number) => number,
                None => return Err(wrong(NOT_NUMERIC, "a numeric value")),
            },
        };
        let number = match method {
            Method::Floor => number.floor()?,
            Method::Ceiling => number.ceil()?,
            _ => number.abs(),
        };
        Ok(Some(self.number(&number)?))
    }

    /// `.double()`: a number stays as it is if a float could hold it.
    fn double(&self, item: &Item<'v>) -> Result<Item<'v>, Fault> {
        let (kind, text) = match item.node() {
            Node::Number(digits) => ("numeric", std::borrow::Cow::Borrowed(digits)),
            Node::Text(text) => ("string", unquoted(text)?),
            _ => {
                let message = "can only be applied to a string or numeric value";
                return Err(self
                    .fault(NOT_NUMERIC, format_args!("jsonpath item method .double() {message}")));
            }
        };
        let text = text.trim_matches([' ', '\t', '\n', '\r', '\u{b}', '\u{c}']);
        let unsigned = text.trim_start_matches(['+', '-']);
        if unsigned.starts_with("0x") || unsigned.starts_with("0X") {
            return Err(SqlError::unsupported("a hexadecimal number in .double()").into());
        }
        let value = match crate::text::parse(text, SqlType::Float8) {
            Ok(Datum::Float(value)) => Some(value).filter(|value| value.is_finite()),
            _ => None,
        };
        // Below the least float.
        let mantissa = unsigned.split(['e', 'E']).next().unwrap_or("");
        let has_digits = mantissa.bytes().any(|digit| (b'1'..=b'9').contains(&digit));
        match value.filter(|value| *value != 0.0 || !has_digits) {
            Some(_) if kind == "numeric" => Ok(item.clone()),
            Some(value) => Ok(self.number(&Decimal::from_f64(value).ok_or_else(overflow)?)?),
            None if kind == "numeric" => Err(self.fault(
                NOT_NUMERIC,
                format_args!(
                    "numeric argument of jsonpath item method .double() is out of range for type \
                     double precision"
                ),
            )),
            None => Err(self.fault(
                NOT_NUMERIC,
                format_args!(
                    "string argument of jsonpath item method .double() is not a valid \
                     representation of a double precision number"
                ),
            )),
        }
    }

    /// `.keyvalue()`: an object for each member.
    fn key_values(&mut self, rest: &[Step], item: &Item<'v>, found: &mut Found<'v>) -> Outcome {
        let Node::Object(object) = item.node() else {
            let message = "can only be applied to an object";
            return Err(self.fault(
                OBJECT_NOT_FOUND,
                format_args!("jsonpath item method .keyvalue() {message}"),
            ));
        };
        if members(object).next().is_none() {
            return Ok(false);
        }
        let (base, number) = self.base.clone();
        self.budget.tick(base.text().len() / 8)?;
        let Some(place) = place(base.text(), object) else {
            let what = ".keyvalue() of an object from outside of the value that is looked at";
            return Err(SqlError::unsupported(what).into());
        };
        let id = number * ID_OF_BASE + place as i64;
        if rest.is_empty() && found.0.is_none() {
            return Ok(true);
        }
        let mut is_any = false;
        for (key, value) in members(object) {
            self.budget.charge(key.len() + value.len() + 64)?;
            let text = format!("{{\"id\": {id}, \"key\": {key}, \"value\": {value}}}");
            let made = self.made(text)?;
            let before = std::mem::replace(&mut self.base, (made.clone(), self.bases));
            self.bases += 1;
            let outcome = self.rest(rest, made, found);
            self.base = before;
            is_any = outcome?;
            if is_any && found.0.is_none() {
                return Ok(true);
            }
        }
        Ok(is_any)
    }
}

/// True for steps before which an array is unwrapped.
fn unwrapped(step: &Step) -> bool {
    !matches!(step, Step::Method(Method::Type | Method::Size))
}

/// The values in an object or an array.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let array = text.starts_with('[').then(|| items(text));
    let object = text.starts_with('{').then(|| members(text).map(|(_, value)| value));
    array.into_iter().flatten().chain(object.into_iter().flatten())
}
