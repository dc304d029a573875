//! The value of an expression over a row.
//!
//! ```text
//!   a and b   true     false    null         not null = null
//!   true      true     false    null         null = null is null
//!   false     false    false    false        a WHERE keeps a row if its condition is true
//!   null      null     false    null
//! ```
//!
//! Three-valued logic: NULL is "unknown". Conditions are evaluated by `holds`, whose results are
//! true, false and unknown; everything else by `eval`. Arithmetic that leaves its type is an error,
//! never a wrapped number. Types were determined when the statement was bound, so values are
//! converted only where the plan says so.

use super::listed_rows::is_row_listed;
use super::{Exec, Row};
use crate::array;
use crate::datum::{Datum, check_int, convert, out_of_range};
use crate::domains::DomainRule;
use crate::error::{SqlError, code};
use crate::expr::{Arith, Compare, Expr};
use crate::functions::{self, Func};
use crate::pattern;
use crate::regex;
use crate::transaction::LockKind;
use crate::types::{Family, SqlType};
use isomer_design::Key;
use std::time::Duration;

/// The longest that `pg_sleep` sleeps: a year.
const SLEEP_MAX: Duration = Duration::from_secs(365 * 86_400);

/// The least length of a list that is hashed.
pub(super) const LISTED_MIN: usize = 8;

/// The largest number of warnings for one statement.
const WARNINGS_MAX: usize = 1_000;

impl Exec<'_> {
    /// The value of an expression. Its heap memory stays charged until the caller goes back to a
    /// mark from before.
    pub(crate) fn eval(&self, expr: &Expr, row: Row<'_>) -> Result<Datum, SqlError> {
        self.budget.deeper()?;
        let mark = self.budget.mark();
        let value = self.value(expr, row)?;
        self.budget.settle(mark, value.heap_bytes())?;
        Ok(value)
    }

    fn value(&self, expr: &Expr, row: Row<'_>) -> Result<Datum, SqlError> {
        Ok(match expr {
            Expr::Const(value) => self.cloned(value)?,
            Expr::Param(number) => {
                self.params.get(*number).map_or(Ok(Datum::Null), |p| self.cloned(p))?
            }
            Expr::Column(slot) => self.cloned(&row.values[*slot])?,
            Expr::Given(at) => self.cloned(&row.given[*at])?,
            Expr::Inner(inner) => self.inner(inner, row)?,
            Expr::Outer(..) | Expr::Aggregate(_) | Expr::Window(_) | Expr::OuterAggregate(..) => {
                unreachable!("places and values given have taken their place when a statement runs")
            }
            Expr::Cast(inner, ty) => {
                let value = self.eval(inner, row)?;
                self.budget.charge(crate::datum::convert_bytes(&value, *ty))?;
                match (&value, ty) {
                    (Datum::Text(text), ty)
                        if matches!(ty.family(), Family::Time | Family::Clock) =>
                    {
                        let (style, now) = (self.around.settings.times(), self.around.begun_us);
                        crate::text::parse_at(text, *ty, style, Some(now))?
                    }
                    _ => convert(value, *ty, true)?,
                }
            }
            Expr::Domain(inner, rule) => {
                let value = self.eval(inner, row)?;
                self.check_domain(rule, &value)?;
                value
            }
            Expr::Arith(op, ty, both) => {
                let (a, b) = (self.eval(&both[0], row)?, self.eval(&both[1], row)?);
                if a.is_null() || b.is_null() {
                    return Ok(Datum::Null);
                }
                // The result of long numbers is about as long; others take no memory.
                let is_number = matches!((&a, &b), (Datum::Numeric(_), _) | (_, Datum::Numeric(_)));
                if is_number || *op == Arith::Concat {
                    self.budget.charge(a.heap_bytes() + b.heap_bytes())?;
                }
                if let (Arith::Concat, true, Datum::Text(a), Datum::Text(b)) =
                    (op, ty.is_array(), &a, &b)
                {
                    if array::is_nested(a) || array::is_nested(b) {
                        return array::concatenated(a, b).map(Datum::Text);
                    }
                    return Ok(Datum::Text(array::joined(a, b, array::first_number(a))));
                }
                if let (Arith::ShiftLeft | Arith::ShiftRight, Datum::Int(a), Datum::Int(by)) =
                    (op, &a, &b)
                {
                    return Ok(Datum::Int(shifted(*op == Arith::ShiftLeft, *a, *by, *ty)));
                }
                match (ty, &a) {
                    // The infinite dates stay.
                    (SqlType::Date, Datum::Int(i64::MIN | i64::MAX)) => a,
                    _ => ranged(arith(*op, &a, &b)?, *ty)?,
                }
            }
            Expr::Compare(..)
            | Expr::Not(_)
            | Expr::And(_)
            | Expr::Or(_)
            | Expr::In(..)
            | Expr::InRows(..) => truth(self.holds(expr, row)?),
            Expr::IsNull(inner) => Datum::Bool(self.eval(inner, row)?.is_null()),
            Expr::IsTruth(inner, wanted) => {
                Datum::Bool(self.eval(inner, row)?.as_bool() == Some(*wanted))
            }
            Expr::Same(both) => Datum::Bool(self.eval(&both[0], row)? == self.eval(&both[1], row)?),
            Expr::Like { both, folds } => {
                let budget = self.budget;
                self.matches(both, row, |text, like| pattern::like(text, like, *folds, budget))?
            }
            Expr::Matches { both, folds } => {
                let budget = self.budget;
                self.matches(both, row, |text, wanted| {
                    regex::matches(text, wanted, *folds, budget)
                })?
            }
            Expr::Case(whens, otherwise) => {
                for (when, then) in whens {
                    if self.holds(when, row)? == Some(true) {
                        return self.eval(then, row);
                    }
                }
                self.eval(otherwise, row)?
            }
            Expr::Call(func, args) => self.call(*func, args, row)?,
            Expr::Elements { compare, all, both, element, list } => {
                let value = self.eval(&both[0], row)?;
                let is_in = (*compare == Compare::Eq && !*all) || (*compare == Compare::Ne && *all);
                if is_in
                    && let Some(number) = list.number()
                    && let Some(known) = self.is_listed(number, &value, &|take| {
                        let array = self.eval(&both[1], row)?;
                        let Some(array) = array.as_text() else { return Ok(false) };
                        array::values(array, *element).try_for_each(|one| take(one?)).map(|()| true)
                    })?
                {
                    return Ok(match known {
                        Datum::Bool(is_listed) => Datum::Bool(is_listed != *all),
                        unknown => unknown,
                    });
                }
                let array = self.eval(&both[1], row)?;
                let Some(array) = array.as_text() else { return Ok(Datum::Null) };
                let mut unknown = false;
                for other in array::values(array, *element) {
                    let other = other?;
                    self.tick()?;
                    if value.is_null() || other.is_null() {
                        unknown = true;
                    } else if compare.holds(value.compare(&other)) != *all {
                        return Ok(Datum::Bool(!*all));
                    }
                }
                if unknown { Datum::Null } else { Datum::Bool(*all) }
            }
        })
    }

    /// Whether a condition holds; `None`: unknown.
    pub(crate) fn holds(&self, expr: &Expr, row: Row<'_>) -> Result<Option<bool>, SqlError> {
        match expr {
            Expr::Compare(compare, both) => {
                let (a, b) = (self.eval(&both[0], row)?, self.eval(&both[1], row)?);
                let known = !a.is_null() && !b.is_null();
                Ok(known.then(|| compare.holds(a.compare(&b))))
            }
            Expr::Not(inner) => Ok(self.holds(inner, row)?.map(|truth| !truth)),
            Expr::And(all) => {
                let mut result = Some(true);
                for one in all {
                    match self.holds(one, row)? {
                        Some(false) => return Ok(Some(false)),
                        None => result = None,
                        Some(true) => {}
                    }
                }
                Ok(result)
            }
            Expr::Or(all) => {
                let mut result = Some(false);
                for one in all {
                    match self.holds(one, row)? {
                        Some(true) => return Ok(Some(true)),
                        None => result = None,
                        Some(false) => {}
                    }
                }
                Ok(result)
            }
            Expr::InRows(any, id) => is_row_listed(self, any, id, row),
            Expr::In(value, list, id) => {
                let value = self.eval(value, row)?;
                if list.len() >= LISTED_MIN
                    && let Some(number) = id.number()
                    && let Some(known) = self.is_listed(number, &value, &|take| {
                        list.iter().try_for_each(|one| take(self.eval(one, row)?)).map(|()| true)
                    })?
                {
                    return Ok(known.as_bool());
                }
                let mut result = Some(false);
                self.budget.tick(list.len())?;
                for one in list {
                    let one = self.eval(one, row)?;
                    if one.is_null() || value.is_null() {
                        result = None;
                    } else if one.compare(&value).is_eq() {
                        return Ok(Some(true));
                    }
                }
                Ok(result)
            }
            other => Ok(self.eval(other, row)?.as_bool()),
        }
    }

    /// True if all conditions hold.
    pub(crate) fn all_hold(&self, conditions: &[Expr], row: Row<'_>) -> Result<bool, SqlError> {
        for condition in conditions {
            if self.holds(condition, row)? != Some(true) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Checks that a value is valid for a domain.
    pub(super) fn check_domain(&self, rule: &DomainRule, value: &Datum) -> Result<(), SqlError> {
        if rule.not_null && value.is_null() {
            return Err(rule.null());
        }
        let row = Row { values: std::slice::from_ref(value), given: &[] };
        for check in &rule.checks {
            let mark = self.budget.mark();
            if self.holds(&check.condition, row)? == Some(false) {
                return Err(rule.broken(&check.name));
            }
            self.budget.back_to(mark);
        }
        Ok(())
    }

    /// Warns the client, unless the limit of warnings is reached.
    fn warn(&self, warning: SqlError) {
        let mut warnings = self.around.warnings.borrow_mut();
        if warnings.len() < WARNINGS_MAX {
            warnings.push(warning);
        }
    }

    fn matches(
        &self,
        both: &[Expr; 2],
        row: Row<'_>,
        test: impl FnOnce(&str, &str) -> Result<bool, SqlError>,
    ) -> Result<Datum, SqlError> {
        let (text, pattern) = (self.eval(&both[0], row)?, self.eval(&both[1], row)?);
        match (text.as_text(), pattern.as_text()) {
            (Some(text), Some(pattern)) => test(text, pattern).map(Datum::Bool),
            _ => Ok(Datum::Null),
        }
    }

    fn call(&self, func: Func, args: &[Expr], row: Row<'_>) -> Result<Datum, SqlError> {
        if func == Func::Coalesce {
            // The arguments behind the first non-NULL one are not evaluated.
            for arg in args {
                let value = self.eval(arg, row)?;
                if !value.is_null() {
                    return Ok(value);
                }
            }
            return Ok(Datum::Null);
        }
        let values =
            args.iter().map(|arg| self.eval(arg, row)).collect::<Result<Vec<Datum>, SqlError>>()?;
        match func {
            Func::NextVal
            | Func::NextOwn
            | Func::CurrVal
            | Func::LastVal
            | Func::SetVal
            | Func::SequenceLast
            | Func::SequenceIsCalled => self.of_sequence(func, &values),
            Func::Sleep => {
                let time = Duration::try_from_secs_f64(values[0].to_f64().max(0.0));
                self.txn.borrow().pause(time.map_or(SLEEP_MAX, |time| time.min(SLEEP_MAX)))?;
                Ok(Datum::text(""))
            }
            Func::ExportSnapshot => self.txn.borrow_mut().export_snapshot().map(Datum::Text),
            Func::AdvisoryUnlockAll => {
                self.txn.borrow_mut().unlock_numbers();
                Ok(Datum::text(""))
            }
            Func::Advisory { .. } | Func::AdvisoryUnlock { .. }
                if values.iter().any(Datum::is_null) =>
            {
                Ok(Datum::Null)
            }
            Func::Advisory { shared, waits, for_session } => {
                let (number, kind, txn) = (number_of(&values), kind_of(shared), &self.txn);
                let is_free = match for_session {
                    true => txn.borrow_mut().lock_number_for_session(&number, kind, waits)?,
                    false => txn.borrow_mut().lock_number(&number, kind, waits)?,
                };
                Ok(if waits { Datum::text("") } else { Datum::Bool(is_free) })
            }
            Func::AdvisoryUnlock { shared } => {
                let (number, kind) = (number_of(&values), kind_of(shared));
                let was_held = self.txn.borrow_mut().unlock_number(&number, kind);
                if !was_held {
                    let mode = if shared { "ShareLock" } else { "ExclusiveLock" };
                    let message = format!("you don't own a lock of type {mode}");
                    self.warn(SqlError::new("01000", message));
                }
                Ok(Datum::Bool(was_held))
            }
            Func::Random => {
                self.calls.set(self.calls.get() + 1);
                let seed = self.around.seed.wrapping_add(self.calls.get());
                Ok(functions::random(seed))
            }
            func => functions::call(func, &values, self.around, self.catalog),
        }
    }
}

/// The key of an advisory lock: one number, or two; the two kinds are distinct.
fn number_of(values: &[Datum]) -> Key {
    let mut numbers = vec![values.len() as i64];
    numbers.extend(values.iter().filter_map(Datum::as_int));
    Key::ints(&numbers)
}

fn kind_of(shared: bool) -> LockKind {
    if shared { LockKind::Shared } else { LockKind::Exclusive }
}

fn truth(holds: Option<bool>) -> Datum {
    holds.map_or(Datum::Null, Datum::Bool)
}

/// A result of arithmetic, checked against the range of its type.
fn ranged(value: Datum, ty: SqlType) -> Result<Datum, SqlError> {
    match value {
        Datum::Int(value) if ty.is_integer() => check_int(value, ty).map(Datum::Int),
        Datum::Int(day) if ty == SqlType::Date && !crate::dates::DAYS.contains(&day) => {
            Err(SqlError::new(code::DATETIME_OVERFLOW, "date out of range"))
        }
        value => Ok(value),
    }
}

/// Arithmetic on two values that are not NULL.
///
/// # Errors
/// 22003, 22012.
pub(crate) fn arith(op: Arith, a: &Datum, b: &Datum) -> Result<Datum, SqlError> {
    match (a, b) {
        (Datum::Int(a), Datum::Int(b)) => int_arith(op, *a, *b).map(Datum::Int),
        (Datum::Text(a), Datum::Text(b)) => Ok(Datum::Text([a.as_str(), b].concat())),
        (Datum::Bytes(a), Datum::Bytes(b)) => Ok(Datum::Bytes([a.as_slice(), b].concat())),
        (Datum::Interval(a), Datum::Interval(b)) => {
            let b = if op == Arith::Sub { b.negated()? } else { *b };
            a.plus(b).map(Datum::Interval)
        }
        (Datum::Float(_), _) | (_, Datum::Float(_)) => {
            float_arith(op, a.to_f64(), b.to_f64()).map(Datum::Float)
        }
        _ => {
            let (a, b) = (a.to_decimal(), b.to_decimal());
            let result = match op {
                Arith::Add => a.plus(&b),
                Arith::Sub => a.minus(&b),
                Arith::Mul => a.times(&b),
                Arith::Div => a.over(&b),
                _ => a.modulo(&b),
            };
            result.map(Datum::Numeric)
        }
    }
}

/// The bits of an integer of a type, shifted within its width. As at PostgreSQL, only the low bits
/// of the distance count, and a smallint is shifted as an integer.
fn shifted(is_left: bool, value: i64, by: i64, ty: SqlType) -> i64 {
    let by = by as u32;
    let of_32 = |value: i32| if is_left { value.wrapping_shl(by) } else { value.wrapping_shr(by) };
    match ty {
        SqlType::Int2 => (of_32(value as i32) as i16).into(),
        SqlType::Int4 => of_32(value as i32).into(),
        _ if is_left => value.wrapping_shl(by),
        _ => value.wrapping_shr(by),
    }
}

fn int_arith(op: Arith, a: i64, b: i64) -> Result<i64, SqlError> {
    if b == 0 && matches!(op, Arith::Div | Arith::Rem) {
        return Err(SqlError::new(code::DIVISION_BY_ZERO, "division by zero"));
    }
    let result = match op {
        Arith::Add => a.checked_add(b),
        Arith::Sub => a.checked_sub(b),
        Arith::Mul => a.checked_mul(b),
        Arith::Div => a.checked_div(b),
        Arith::Rem => Some(a.wrapping_rem(b)),
        Arith::BitAnd => Some(a & b),
        Arith::BitOr => Some(a | b),
        Arith::BitXor => Some(a ^ b),
        // These depend on the width of the type.
        Arith::Concat | Arith::ShiftLeft | Arith::ShiftRight => None,
    };
    result.ok_or_else(|| out_of_range(SqlType::Int8))
}

fn float_arith(op: Arith, a: f64, b: f64) -> Result<f64, SqlError> {
    let result = match op {
        Arith::Add => a + b,
        Arith::Sub => a - b,
        Arith::Mul => a * b,
        Arith::Div if b == 0.0 => {
            return Err(SqlError::new(code::DIVISION_BY_ZERO, "division by zero"));
        }
        Arith::Div => a / b,
        _ => a % b,
    };
    if result.is_infinite() && a.is_finite() && b.is_finite() {
        return Err(SqlError::new(code::OUT_OF_RANGE, "value out of range: overflow"));
    }
    Ok(result)
}
