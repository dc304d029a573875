//! Finding rows: from the spans of a step to ranges of keys, and from the bytes of rows to values.
//!
//! ```text
//!   w_id in ($1, $2) and d_id = 3 and o_id > 7      spans [$1, 3, (7, ..)] [$2, 3, (7, ..)]
//!   $1 = 5, $2 = 1                                  ranges [1/3/7+ .. 1/4) [5/3/7+ .. 5/4)
//! ```
//!
//! Ranges are sorted and made disjoint, so no row is found twice, whatever the values are. A whole
//! key is looked up; ranges are scanned a page at a time, so that no iterator stays open while the
//! rows are processed.

use super::{Exec, Row, key_bytes};
use crate::budget::Held;
use crate::catalog::{Index, Part, Table};
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::expr::{Compare, Expr};
use crate::numeric::Decimal;
use crate::plan::{Access, Asks, SpanOf};
use crate::prefix::{Prefix, following};
use crate::types::SqlType;
use isomer_design::{ColumnType, DECIMAL_NAN, Direction, Key, KeyRange, Schema, Value};
use std::ops::ControlFlow;

/// How many rows of a range are read at first, without a limit.
pub(super) const FIRST_PAGE_ROWS: usize = 16;
const PAGE_ROWS_MAX: usize = 1024;
/// More rows than this are not looked up one by one for the values of a query.
const MEMBERS_MAX: usize = 1024;
/// A page ends behind the row that makes it longer than this.
const PAGE_BYTES: usize = 1 << 20;

/// The location of rows, ordered by first key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// A row's whole key.
    Row(Key),
    /// A range of keys.
    Rows(KeyRange),
}

/// Receives a row's values; breaks when no more are needed.
pub(crate) type TakeRow<'t> =
    &'t mut dyn FnMut(&mut Vec<Datum>) -> Result<ControlFlow<()>, SqlError>;

/// Receives a row's key and bytes; breaks when no more are needed.
type TakeBytes<'t> = &'t mut dyn FnMut(&Key, &[u8]) -> Result<ControlFlow<()>, SqlError>;

impl Exec<'_> {
    /// Passes on the rows of a table that an access path finds, with the values of the used slots.
    pub(crate) fn find(
        &self,
        table: &Table,
        access: &Access,
        used: &[bool],
        row: Row<'_>,
        take: TakeRow<'_>,
    ) -> Result<ControlFlow<()>, SqlError> {
        let mut values = vec![Datum::Null; table.width()];
        if !access.any.is_empty() {
            return self.find_any(table, access, used, row, &mut values, take);
        }
        let way = access.way;
        let mut held = self.budget.held();
        let found = self.ranges(table, access, row, &mut held)?;
        let covers = access.index.as_ref().and_then(|index| {
            (!self.sees_newest.get()).then(|| Covered::of(table, index, used)).flatten()
        });
        for found in way.through(found.into_iter()) {
            let flow = match (&access.index, found) {
                (Some(index), found) => {
                    self.pages(index.id, found.into_range(), way, &mut |entry, _| {
                        if let Some(covered) = &covers {
                            covered.read(table, index, entry, &mut values)?;
                            return take(&mut values);
                        }
                        let key = row_key(table, index, entry)?;
                        self.lookup(table, &key, used, &mut values, take)
                    })?
                }
                (None, Found::Row(key)) => self.lookup(table, &key, used, &mut values, take)?,
                (None, Found::Rows(range)) => {
                    self.pages(table.id, range, way, &mut |key, bytes| {
                        decode(table, key, bytes, used, &mut values)?;
                        take(&mut values)
                    })?
                }
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Shows the rows of several ways, each row once: all keys are found before the first row is
    /// read.
    fn find_any(
        &self,
        table: &Table,
        access: &Access,
        used: &[bool],
        row: Row<'_>,
        values: &mut Vec<Datum>,
        take: TakeRow<'_>,
    ) -> Result<ControlFlow<()>, SqlError> {
        let (mut keys, mut held) = (Vec::new(), self.budget.held());
        for arm in &access.any {
            let mut ranges = self.budget.held();
            for found in self.ranges(table, arm, row, &mut ranges)? {
                let mut add = |key: Key| {
                    held.add(key_bytes(&key))?;
                    keys.push(key);
                    Ok(ControlFlow::Continue(()))
                };
                let _ = match (&arm.index, found) {
                    (Some(index), found) => {
                        let range = found.into_range();
                        self.pages(index.id, range, arm.way, &mut |entry, _| {
                            self.tick()?;
                            add(row_key(table, index, entry)?)
                        })?
                    }
                    (None, Found::Row(key)) => add(key)?,
                    (None, Found::Rows(range)) => {
                        self.pages(table.id, range, arm.way, &mut |key, _| {
                            self.tick()?;
                            add(key.clone())
                        })?
                    }
                };
            }
        }
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            if self.lookup(table, &key, used, values, take)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The ranges of the keys of a table, or of an index of it, that an access means: sorted and
    /// disjoint.
    pub(super) fn ranges(
        &self,
        table: &Table,
        access: &Access,
        row: Row<'_>,
        held: &mut Held<'_>,
    ) -> Result<Vec<Found>, SqlError> {
        if let Some(index) = &access.index {
            let ty = |at: usize| index.slot_type(table, at);
            return spans(self, &index.schema, access, &ty, row, held);
        }
        let slots = table.key_slots();
        let ty = |at: usize| slots.get(at).map(|&slot| (table.slot_type(slot), false));
        spans(self, &table.schema, access, &ty, row, held)
    }

    /// Passes on the row with a key, if it exists.
    pub(super) fn lookup(
        &self,
        table: &Table,
        key: &Key,
        used: &[bool],
        values: &mut Vec<Datum>,
        take: TakeRow<'_>,
    ) -> Result<ControlFlow<()>, SqlError> {
        let mut decoded = Ok(());
        let mut take_bytes = |bytes: &[u8]| decoded = decode(table, key, bytes, used, values);
        let exists = match self.sees_newest.get() {
            false => self.txn.borrow_mut().get(table.id, key, &mut take_bytes)?,
            true => {
                let (mut exists, range) = (false, KeyRange::single(key.clone()));
                self.txn.borrow_mut().scan_newest(table.id, &range, &mut |_, bytes| {
                    exists = true;
                    take_bytes(bytes);
                    ControlFlow::Break(())
                })?;
                exists
            }
        };
        decoded?;
        if exists { take(values) } else { Ok(ControlFlow::Continue(())) }
    }

    /// The keys that an access path names, in order; `None` if it has ranges.
    pub(super) fn named_keys(
        &self,
        table: &Table,
        access: &Access,
        held: &mut Held<'_>,
    ) -> Result<Option<Vec<Key>>, SqlError> {
        if access.index.is_some() || !access.any.is_empty() {
            return Ok(None);
        }
        let nothing = Row { values: &[], given: &[] };
        let found = self.ranges(table, access, nothing, held)?.into_iter();
        let key = |found| match found {
            Found::Row(key) => Some(key),
            Found::Rows(_) => None,
        };
        Ok(access.way.through(found).map(key).collect())
    }

    /// Passes on the rows of a range, from the first or from the last, a page at a time.
    fn pages(
        &self,
        table: isomer_design::TableId,
        mut range: KeyRange,
        way: Direction,
        visit: TakeBytes<'_>,
    ) -> Result<ControlFlow<()>, SqlError> {
        let mut most = self.first_page.replace(FIRST_PAGE_ROWS).clamp(1, PAGE_ROWS_MAX);
        let mut page: Vec<(Key, Vec<u8>)> = Vec::new();
        loop {
            page.clear();
            self.txn.borrow().check_cancel()?;
            let (mut held, mut room, mut is_full) = (self.budget.held(), Ok(()), false);
            let mut page_bytes = 0;
            let mut take = |key: &[u8], bytes: &[u8]| {
                let row_bytes = key.len() + bytes.len() + 64;
                room = held.add(row_bytes);
                if room.is_err() {
                    return ControlFlow::Break(());
                }
                page.push((Key::from_bytes(key), bytes.to_vec()));
                page_bytes += row_bytes;
                is_full = page.len() >= most || page_bytes >= PAGE_BYTES;
                if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            match self.sees_newest.get() {
                true => self.txn.borrow_mut().scan_newest(table, &range, &mut take)?,
                false => self.txn.borrow_mut().scan(table, &range, way, &mut take)?,
            }
            room?;
            for (key, bytes) in &page {
                if visit(key, bytes)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            match page.last() {
                Some((last, _)) if is_full => range = range.after(last, way),
                _ => return Ok(ControlFlow::Continue(())),
            }
            most = (most * 2).min(PAGE_ROWS_MAX);
        }
    }
}

/// The type of a key column, and whether it is the NULL mark of the column after it.
pub(crate) type KeyType<'t> = &'t dyn Fn(usize) -> Option<(SqlType, bool)>;

/// The key ranges of an access path for a row: sorted and disjoint.
///
/// # Errors
/// An error in the expressions of the spans.
fn spans(
    exec: &Exec<'_>,
    schema: &Schema,
    access: &Access,
    ty: KeyType<'_>,
    row: Row<'_>,
    held: &mut Held<'_>,
) -> Result<Vec<Found>, SqlError> {
    if access.spans.is_empty() {
        return Ok(vec![Found::Rows(KeyRange::all())]);
    }
    let mut found = Vec::with_capacity(access.spans.len());
    for span in &access.spans {
        let Some((at, element)) = span.each else {
            found.extend(range_of(exec, schema, span, ty, row)?);
            continue;
        };
        let Some(values) = elements(exec, &span.prefix[at], element, row)? else {
            return Ok(vec![Found::Rows(KeyRange::all())]);
        };
        let mut one = SpanOf { each: None, ..span.clone() };
        for value in values {
            one.prefix[at] = Expr::Const(value);
            let range = range_of(exec, schema, &one, ty, row)?;
            held.add(range.as_ref().map_or(0, |found| 2 * key_bytes(found.start())))?;
            found.extend(range);
        }
    }
    Ok(disjoint(found))
}

/// The elements of an array, or the values of a query; `None` if there are too many, so that a full
/// scan is better.
fn elements(
    exec: &Exec<'_>,
    expr: &Expr,
    ty: SqlType,
    row: Row<'_>,
) -> Result<Option<Vec<Datum>>, SqlError> {
    if let Expr::Inner(inner) = expr
        && inner.asks == Asks::Any(Compare::Eq)
    {
        let members = exec.members(inner)?;
        return Ok((members.len() <= MEMBERS_MAX).then_some(members));
    }
    let array = exec.eval(expr, row)?;
    crate::array::values(array.as_text().unwrap_or("{}"), ty).collect::<Result<_, _>>().map(Some)
}

fn disjoint(mut found: Vec<Found>) -> Vec<Found> {
    found.sort_by(|a, b| a.start().cmp(b.start()));
    found.dedup_by(|next, last| last.absorbs(next));
    found
}

impl Found {
    fn start(&self) -> &Key {
        match self {
            Found::Row(key) => key,
            Found::Rows(range) => &range.start,
        }
    }

    pub(super) fn into_range(self) -> KeyRange {
        match self {
            Found::Row(key) => KeyRange::single(key),
            Found::Rows(range) => range,
        }
    }

    /// Extends this by the next one if they overlap; `false` if they do not.
    fn absorbs(&mut self, next: &Found) -> bool {
        match (&mut *self, next) {
            (Found::Row(mine), next) if mine == next.start() => self.clone_from(next),
            (Found::Rows(mine), next) if mine.contains(next.start()) => {
                if let Found::Rows(next) = next
                    && !mine.covers(next)
                {
                    mine.end.clone_from(&next.end);
                }
            }
            _ => return false,
        }
        true
    }
}

pub(super) fn range_of(
    exec: &Exec<'_>,
    schema: &Schema,
    span: &SpanOf,
    ty: KeyType<'_>,
    row: Row<'_>,
) -> Result<Option<Found>, SqlError> {
    let mut values: Vec<Value> = Vec::new();
    let mut column = 0;
    for expr in &span.prefix {
        let Some((value, _)) =
            bound(exec.eval(expr, row)?, ty, &mut column, &mut values, Edge::Exact)
        else {
            return Ok(None);
        };
        values.push(value);
    }
    let encode = |values: &[Value]| {
        schema.encode_prefix(values).map_err(|e| SqlError::new(code::OUT_OF_RANGE, e.to_string()))
    };
    let prefix = encode(&values)?;
    let whole = column == schema.key_columns().len();
    if whole {
        return Ok(Some(Found::Row(prefix)));
    }
    let mut range = KeyRange::starting_with(prefix);
    let mut bounded = None;
    if let Some((kind, pattern)) = &span.starts {
        let Some(bounds) = bounds_of(exec.eval(pattern, row)?, *kind) else { return Ok(None) };
        bounded = Some(SpanOf { starts: None, known: true, ..bounds });
    }
    let span = bounded.as_ref().unwrap_or(span);
    if span.lower.is_none() && span.upper.is_none() && !span.known {
        return Ok(Some(Found::Rows(range)));
    }
    let after_prefix = (column, values.len());
    if let Some((expr, inclusive)) = &span.lower {
        let Some((value, is_same)) =
            bound(exec.eval(expr, row)?, ty, &mut column, &mut values, Edge::Lower)
        else {
            return Ok(None);
        };
        values.push(value);
        let key = encode(&values)?;
        range.start = if *inclusive || !is_same {
            key
        } else {
            match KeyRange::starting_with(key).end {
                Some(end) => end,
                None => return Ok(None),
            }
        };
    } else if ty(column).is_some_and(|(_, is_mark)| is_mark) {
        // Without a lower bound: from the first value that is not NULL.
        values.push(Value::Bool(false));
        range.start = encode(&values)?;
    }
    (column, _) = after_prefix;
    values.truncate(after_prefix.1);
    if let Some((expr, inclusive)) = &span.upper {
        let Some((value, is_same)) =
            bound(exec.eval(expr, row)?, ty, &mut column, &mut values, Edge::Upper)
        else {
            return Ok(None);
        };
        values.push(value);
        let key = encode(&values)?;
        range.end =
            if *inclusive || !is_same { KeyRange::starting_with(key).end } else { Some(key) };
    } else if ty(column).is_some_and(|(_, is_mark)| is_mark) {
        values.push(Value::Bool(false));
        range.end = KeyRange::starting_with(encode(&values)?).end;
    }
    Ok((!range.is_empty()).then_some(Found::Rows(range)))
}

/// The bounds of the texts with the fixed beginning of a pattern; none for NULL, which nothing
/// fits.
fn bounds_of(pattern: Datum, kind: Prefix) -> Option<SpanOf> {
    let prefix = kind.of(pattern.as_text()?);
    let upper = following(&prefix).map(|text| (Expr::Const(Datum::Text(text)), false));
    let is_some = !prefix.is_empty();
    let lower = is_some.then_some((Expr::Const(Datum::Text(prefix)), true));
    Some(SpanOf { lower, upper, ..SpanOf::default() })
}

#[derive(Clone, Copy, PartialEq)]
enum Edge {
    Exact,
    Lower,
    Upper,
}

/// The stored form of a value in the next key column, behind its NULL mark if it has one. If the
/// column cannot have the value, it is the next possible one outwards, and the second result is
/// false. `None`: no row can have it.
fn bound(
    value: Datum,
    ty: KeyType<'_>,
    column: &mut usize,
    values: &mut Vec<Value>,
    edge: Edge,
) -> Option<(Value, bool)> {
    let (mut column_type, is_mark) = ty(*column)?;
    if value.is_null() {
        return None;
    }
    if is_mark {
        values.push(Value::Bool(false));
        *column += 1;
        column_type = ty(*column)?.0;
    }
    *column += 1;
    let mut is_same = true;
    let fitted = match (value, column_type) {
        (Datum::Int(value), ty) if ty.is_integer() || ty == SqlType::Date => Datum::Int(value),
        (Datum::Timestamp(micros), SqlType::Date) => {
            let days = micros.div_euclid(86_400_000_000);
            let exact = days * 86_400_000_000 == micros;
            (exact || edge != Edge::Exact)
                .then_some(Datum::Int(days + i64::from(!exact && edge == Edge::Lower)))?
        }
        (value @ (Datum::Int(_) | Datum::Numeric(_)), ty @ SqlType::Numeric(_)) => {
            let number = value.to_decimal();
            match ty.storage() {
                ColumnType::Decimal { scale } => {
                    let (mantissa, is_same) = scaled(&number, scale.into(), edge)?;
                    return Some((Value::Decimal(mantissa), is_same));
                }
                _ => Datum::Numeric(number),
            }
        }
        (Datum::Numeric(value), ty) if ty.is_integer() => {
            let (whole, same) = scaled(&value, 0, edge)?;
            let whole = match edge {
                Edge::Exact => i64::try_from(whole).ok()?,
                Edge::Lower if whole > i64::MAX.into() => return None,
                Edge::Upper if whole < i64::MIN.into() => return None,
                _ => whole.clamp(i64::MIN.into(), i64::MAX.into()) as i64,
            };
            is_same = same && Decimal::int(whole) == value;
            Datum::Int(whole)
        }
        (value @ (Datum::Int(_) | Datum::Numeric(_)), ty) if ty.is_float() => {
            Datum::Float(value.to_f64())
        }
        (Datum::Text(text), SqlType::Char(_)) => Datum::Text(crate::datum::trim_blanks(text)),
        (value, _) => value,
    };
    let value = fitted.into_value(column_type);
    column_type.storage().accepts(&value).then_some((value, is_same))
}

/// A number with the scale of a key column, and whether it is exact. Otherwise it is rounded
/// outwards, which is sufficient because bounds are checked again on the row. NaN is stored above
/// all other numbers.
fn scaled(value: &Decimal, scale: u16, edge: Edge) -> Option<(i128, bool)> {
    const LEAST: i128 = i128::MIN + 1;
    const GREATEST: i128 = DECIMAL_NAN - 1;
    if value.is_nan() {
        return Some((DECIMAL_NAN, true));
    }
    if let Some(same) = value.mantissa(scale) {
        return Some((same, true));
    }
    let is_below = value.signum() < 0;
    let beyond = if is_below { LEAST } else { GREATEST };
    let nearest = value.rescale(scale.into()).ok().and_then(|near| near.mantissa(scale));
    match (edge, nearest) {
        (Edge::Exact, _) => None,
        (Edge::Lower, Some(nearest)) => Some((nearest.saturating_sub(1), false)),
        (Edge::Upper, Some(nearest)) => Some((nearest.saturating_add(1), false)),
        (_, None) => Some((beyond, false)),
    }
}

impl Index {
    /// The type of a column of the entries' key, and whether it is a NULL mark.
    pub(crate) fn slot_type(&self, table: &Table, at: usize) -> Option<(SqlType, bool)> {
        let mut next = 0;
        for part in &self.parts {
            if !part.is_known(table) {
                if next == at {
                    return Some((SqlType::Bool, true));
                }
                next += 1;
            }
            if next == at {
                return Some((part.ty(table), false));
            }
            next += 1;
        }
        let slot = *table.key_slots().get(at - next)?;
        Some((table.slot_type(slot), false))
    }
}

/// The key of the row that an index entry belongs to.
pub(crate) fn row_key(table: &Table, index: &Index, entry: &Key) -> Result<Key, SqlError> {
    let damaged = |e: isomer_design::RowError| SqlError::new(code::INTERNAL, e.to_string());
    let values = index.schema.decode_key(entry).map_err(damaged)?;
    let key = &values[values.len() - table.key_slots().len()..];
    table.schema.encode_key(key).map_err(damaged)
}

/// Where the entries of an index have all values of a row that a statement looks at.
struct Covered {
    /// The place in the row and in the values of an entry's key, and the place of the mark for
    /// NULL, if there is one.
    places: Vec<(usize, usize, Option<usize>)>,
}

impl Covered {
    fn of(table: &Table, index: &Index, used: &[bool]) -> Option<Covered> {
        let (mut known, mut next) = (Vec::new(), 0);
        for part in &index.parts {
            let mark = (!part.is_known(table)).then(|| (next, next += 1).0);
            if let Part::Column(slot) = part {
                known.push((*slot, next, mark));
            }
            next += 1;
        }
        known.extend(table.key_slots().into_iter().zip(next..).map(|(slot, at)| (slot, at, None)));
        let place = |slot: usize| {
            let found = known.iter().find(|(known, ..)| *known == slot).copied();
            found.filter(|_| is_whole_in_key(table.slot_type(slot)))
        };
        let wanted = (0..table.width()).filter(|&slot| used.get(slot) == Some(&true));
        Some(Covered { places: wanted.map(place).collect::<Option<_>>()? })
    }

    fn read(
        &self,
        table: &Table,
        index: &Index,
        entry: &Key,
        values: &mut Vec<Datum>,
    ) -> Result<(), SqlError> {
        values.resize(table.width(), Datum::Null);
        if self.places.is_empty() {
            return Ok(());
        }
        let stored = index.schema.decode_key(entry);
        let stored = stored.map_err(|e| SqlError::new(code::INTERNAL, e.to_string()))?;
        for (slot, at, mark) in &self.places {
            let is_null = mark.is_some_and(|mark| stored[mark] == Value::Bool(true));
            values[*slot] = match is_null {
                true => Datum::Null,
                false => Datum::from_value(stored[*at].clone(), table.slot_type(*slot)),
            };
        }
        Ok(())
    }
}

/// True if equal values of a type are identical, so that the key of an entry has them as the row
/// has.
fn is_whole_in_key(ty: SqlType) -> bool {
    ty.is_integer()
        || matches!(
            ty,
            SqlType::Bool
                | SqlType::Date
                | SqlType::Timestamp
                | SqlType::TimestampTz
                | SqlType::Uuid
                | SqlType::Text
                | SqlType::Varchar(_)
        )
}

/// The values of a row in the used slots.
pub(crate) fn decode(
    table: &Table,
    key: &[u8],
    bytes: &[u8],
    used: &[bool],
    values: &mut Vec<Datum>,
) -> Result<(), SqlError> {
    values.resize(table.width(), Datum::Null);
    for (slot, value) in values.iter_mut().enumerate() {
        if used.get(slot).copied().unwrap_or(false) {
            let stored = table.schema.read_column(key, bytes, slot);
            let stored = stored.map_err(|e| SqlError::new(code::INTERNAL, e.to_string()))?;
            *value = Datum::from_value(stored, table.slot_type(slot));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_spans_are_found_once() {
        let row = |key| Found::Row(Key::int(key));
        let rows = |from, to| Found::Rows(KeyRange::ints(from, to));
        assert_eq!(disjoint(vec![row(7), row(3), row(7)]), [row(3), row(7)]);
        assert_eq!(disjoint(vec![row(7), rows(5, 8), row(8)]), [rows(5, 8), row(8)]);
        assert_eq!(disjoint(vec![row(5), rows(5, 8), row(5)]), [rows(5, 8)]);
        assert_eq!(disjoint(vec![rows(5, 8), rows(1, 6), rows(2, 3)]), [rows(1, 8)]);
        let all = Found::Rows(KeyRange::all());
        assert_eq!(disjoint(vec![rows(5, 8), all.clone(), row(9)]), [all]);
    }
}
