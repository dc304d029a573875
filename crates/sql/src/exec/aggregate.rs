//! Grouping and aggregates.

use super::ordered::of_sorted;
use super::select::compare;
use super::spread::Moments;
use super::{Exec, Row, row_bytes};
use crate::budget::{Budget, Held};
use crate::datum::{Datum, convert};
use crate::error::SqlError;
use crate::expr::Arith;
use crate::numeric::Decimal;
use crate::plan::{Aggregate, AggregateKind, Fit, Group, SortKey};
use crate::types::SqlType;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;

type Hasher = BuildHasherDefault<std::collections::hash_map::DefaultHasher>;

/// The groups, in the order of their first rows.
pub(crate) struct Groups<'g> {
    group: &'g Group,
    places: HashMap<Vec<Datum>, usize, Hasher>,
    groups: Vec<(Vec<Datum>, Vec<State>)>,
    held: Held<'g>,
}

/// The state of an aggregate.
#[derive(Clone, Default)]
pub(super) struct State {
    count: i64,
    value: Option<Datum>,
    moments: Option<Box<Moments>>,
    /// How many values have the same scale as their sum.
    longest: i64,
    seen: HashSet<Datum, Hasher>,
    /// If the order matters: the sort keys and the value.
    kept: Vec<Vec<Datum>>,
}

impl<'g> Groups<'g> {
    pub(crate) fn new(exec: &'g Exec<'_>, group: &'g Group) -> Groups<'g> {
        let (places, groups, held) = (HashMap::default(), Vec::new(), exec.budget.held());
        let mut groups = Groups { group, places, groups, held };
        if group.is_whole() {
            // Without GROUP BY there is one group, even of no rows.
            groups.place(Vec::new());
        }
        for (number, set) in group.sets.iter().enumerate() {
            // The same holds for a set without keys.
            if set.is_empty() {
                groups.place(of_set(&vec![Datum::Null; group.keys.len()], number, set));
            }
        }
        groups
    }

    fn place(&mut self, key: Vec<Datum>) -> usize {
        let states = self.group.aggregates.iter().map(|_| State::default()).collect();
        self.places.insert(key.clone(), self.groups.len());
        self.groups.push((key, states));
        self.groups.len() - 1
    }

    pub(crate) fn add(&mut self, exec: &Exec<'_>, row: Row<'_>) -> Result<(), SqlError> {
        let key = self.group.keys.iter().map(|expr| exec.eval(expr, row));
        let key: Vec<Datum> = key.collect::<Result<_, _>>()?;
        if self.group.sets.is_empty() {
            return self.add_to(exec, key, row);
        }
        for (number, set) in self.group.sets.iter().enumerate() {
            self.add_to(exec, of_set(&key, number, set), row)?;
        }
        Ok(())
    }

    /// Adds a row to the group with this key.
    fn add_to(&mut self, exec: &Exec<'_>, key: Vec<Datum>, row: Row<'_>) -> Result<(), SqlError> {
        let at = match self.places.get(&key) {
            _ if key.is_empty() => 0,
            Some(at) => *at,
            None => {
                // The key is stored twice.
                let states = self.group.aggregates.len() * size_of::<State>();
                self.held.add(2 * row_bytes(&key) + states)?;
                let entry = size_of::<(Vec<Datum>, usize)>();
                self.held.place(self.places.len(), self.places.capacity(), entry)?;
                self.place(key)
            }
        };
        for (aggregate, state) in self.group.aggregates.iter().zip(&mut self.groups[at].1) {
            if let Some(filter) = &aggregate.filter
                && exec.holds(filter, row)? != Some(true)
            {
                continue;
            }
            let value = match &aggregate.of {
                Some(expr) => exec.eval(expr, row)?,
                None => Datum::Bool(true),
            };
            if value.is_null() && aggregate.skips_null() {
                continue;
            }
            if aggregate.distinct {
                if state.seen.contains(&value) {
                    continue;
                }
                let seen = &mut state.seen;
                self.held.place(seen.len(), seen.capacity(), size_of::<Datum>())?;
                self.held.add(value.heap_bytes())?;
                seen.insert(value.clone());
            }
            if !aggregate.keeps_values() {
                state.add(aggregate, value, &mut self.held)?;
                continue;
            }
            let by = aggregate.order.iter().map(|(by, _)| exec.eval(by, row));
            let mut kept: Vec<Datum> = by.collect::<Result<_, _>>()?;
            kept.push(value);
            self.held.add(row_bytes(&kept))?;
            state.kept.push(kept);
        }
        Ok(())
    }

    /// The keys and aggregates of all groups, and their memory.
    pub(crate) fn finish(
        mut self,
        exec: &Exec<'_>,
    ) -> Result<(Vec<Vec<Datum>>, Held<'g>), SqlError> {
        let mut groups = Vec::with_capacity(self.groups.len());
        drop(self.places);
        if !self.group.sets.is_empty() {
            // The groups of each set stand together.
            let number = |(key, _): &(Vec<Datum>, _)| key.last().and_then(Datum::as_int);
            self.groups.sort_by_key(number);
        }
        for (mut key, states) in self.groups {
            for (aggregate, mut state) in self.group.aggregates.iter().zip(states) {
                if let AggregateKind::Ordered(kind) = aggregate.kind {
                    let value = of_sorted(aggregate, kind, state.rows(aggregate, exec)?)?;
                    self.held.add(value.heap_bytes())?;
                    key.push(value);
                    continue;
                }
                let kept = state.sorted(aggregate, exec)?;
                if aggregate.makes_array() {
                    key.push(array(aggregate, &kept, &mut self.held)?);
                    continue;
                }
                for value in kept {
                    state.add(aggregate, value, &mut self.held)?;
                }
                key.push(state.finish(aggregate, exec.budget)?);
            }
            groups.push(key);
        }
        Ok((groups, self.held))
    }
}

/// The key of a group of a grouping set: the keys of the set, NULL in place of the others, and the
/// number of the set.
fn of_set(key: &[Datum], number: usize, set: &[usize]) -> Vec<Datum> {
    let own = |(at, value): (usize, &Datum)| match set.contains(&at) {
        true => value.clone(),
        false => Datum::Null,
    };
    let number = Datum::Int(i64::try_from(number).unwrap_or(i64::MAX));
    key.iter().enumerate().map(own).chain([number]).collect()
}

impl Aggregate {
    pub(super) fn skips_null(&self) -> bool {
        !matches!(self.kind, AggregateKind::First | AggregateKind::Array | AggregateKind::Nest)
    }

    /// True for `array_agg`.
    pub(super) fn makes_array(&self) -> bool {
        matches!(self.kind, AggregateKind::Array | AggregateKind::Nest)
    }

    /// True if the values are evaluated together at the end.
    fn keeps_values(&self) -> bool {
        self.makes_array() || !self.order.is_empty()
    }
}

/// An array of these elements, which are texts or NULL; NULL if there are none.
pub(super) fn array(
    aggregate: &Aggregate,
    elements: &[Datum],
    held: &mut Held<'_>,
) -> Result<Datum, SqlError> {
    if elements.is_empty() {
        return Ok(Datum::Null);
    }
    if aggregate.kind == AggregateKind::Nest {
        return nested(elements, held);
    }
    // Each character may have to be escaped.
    let bytes = |element: &Datum| 2 * element.as_text().map_or(4, str::len) + 3;
    held.add(2 * elements.iter().map(bytes).sum::<usize>())?;
    Ok(Datum::Text(crate::array::format(elements.iter().map(Datum::as_text))))
}

/// An array of these arrays.
///
/// # Errors
/// 22004 if one is NULL, 2202E unless they have the same dimensions.
fn nested(arrays: &[Datum], held: &mut Held<'_>) -> Result<Datum, SqlError> {
    let wrong = |what: &str| SqlError::new("2202E", format!("cannot accumulate {what}"));
    let (mut parts, mut first) = (Vec::with_capacity(arrays.len()), None);
    for array in arrays {
        let Some(text) = array.as_text() else {
            return Err(SqlError::new("22004", "cannot accumulate null arrays"));
        };
        let dimensions = crate::array::shape(text)?.dimensions;
        let lengths: Vec<usize> = dimensions.iter().map(|(_, length)| *length).collect();
        if lengths.is_empty() {
            return Err(wrong("empty arrays"));
        }
        if *first.get_or_insert_with(|| lengths.clone()) != lengths {
            return Err(wrong("arrays of different dimensionality"));
        }
        held.add(2 * text.len() + 16)?;
        parts.push(Some(text));
    }
    crate::array::nested(&parts).map(Datum::Text)
}

impl State {
    /// The collected values, in order.
    fn sorted(&mut self, aggregate: &Aggregate, exec: &Exec<'_>) -> Result<Vec<Datum>, SqlError> {
        Ok(self.rows(aggregate, exec)?.into_iter().filter_map(|mut row| row.pop()).collect())
    }

    /// The collected values behind their sort keys, in order.
    fn rows(
        &mut self,
        aggregate: &Aggregate,
        exec: &Exec<'_>,
    ) -> Result<Vec<Vec<Datum>>, SqlError> {
        let kept = std::mem::take(&mut self.kept);
        if aggregate.order.is_empty() {
            return Ok(kept);
        }
        let keys: Vec<SortKey> = aggregate.order.iter().map(|(_, key)| *key).collect();
        exec.in_order(kept, &|a, b| compare(&keys, a, b))
    }

    /// Removes a value from a numeric sum or a count; false if the sum does not determine the
    /// result.
    pub(super) fn remove(
        &mut self,
        aggregate: &Aggregate,
        value: &Datum,
    ) -> Result<bool, SqlError> {
        self.count -= 1;
        if self.count == 0 {
            (self.value, self.longest) = (None, 0);
            return Ok(true);
        }
        let Some(sum) = self.value.as_ref().filter(|_| aggregate.kind != AggregateKind::Count)
        else {
            return Ok(true);
        };
        // An infinity hides the other values, and removing the last value with the sum's scale
        // reduces the scale.
        let is_hidden = [sum, value].iter().any(|number| !number.is_finite());
        let is_longest = value.scale() > 0 && value.scale() == sum.scale();
        if is_hidden || (is_longest && self.longest == 1) {
            return Ok(false);
        }
        self.longest -= i64::from(is_longest);
        self.value = Some(super::arith(Arith::Sub, sum, value)?);
        Ok(true)
    }

    pub(super) fn add(
        &mut self,
        aggregate: &Aggregate,
        value: Datum,
        held: &mut Held<'_>,
    ) -> Result<(), SqlError> {
        self.count += 1;
        if let AggregateKind::Spread(_) | AggregateKind::Fit(_) = aggregate.kind {
            let before = self.moments.take().map(|moments| *moments);
            let bytes = before.as_ref().map_or(0, Moments::heap_bytes);
            let moments = Moments::with(before, &value, self.count)?;
            held.add(moments.heap_bytes().saturating_sub(bytes))?;
            self.moments = Some(Box::new(moments));
            return Ok(());
        }
        if aggregate.kind == AggregateKind::JoinEach {
            return self.join(&value, held);
        }
        let Some(before) = self.value.take() else {
            held.add(value.heap_bytes())?;
            self.longest = i64::from(value.scale() > 0);
            self.value = Some(match aggregate.kind {
                // Sums of integers are wider than the integers.
                AggregateKind::Sum | AggregateKind::Avg if value.as_int().is_some() => {
                    Datum::Numeric(value.to_decimal())
                }
                _ => value,
            });
            return Ok(());
        };
        self.value = Some(match &aggregate.kind {
            AggregateKind::Count | AggregateKind::First => before,
            AggregateKind::Sum if aggregate.ty == SqlType::Float4 => {
                convert(super::arith(Arith::Add, &before, &value)?, SqlType::Float4, false)?
            }
            AggregateKind::Sum | AggregateKind::Avg => {
                self.longest = match value.scale().cmp(&before.scale()) {
                    Ordering::Less => self.longest,
                    Ordering::Equal => self.longest + i64::from(value.scale() > 0),
                    Ordering::Greater => 1,
                };
                let sum = super::arith(Arith::Add, &before, &value)?;
                held.add(sum.heap_bytes().saturating_sub(before.heap_bytes()))?;
                sum
            }
            AggregateKind::Min | AggregateKind::Max => {
                let order = order_of(aggregate.ty, &value, &before)?;
                // Of equal values the last, as their representation may differ: `-0`, `1.00`.
                let is_better = match aggregate.kind {
                    AggregateKind::Min => order.is_le(),
                    _ => order.is_ge(),
                };
                let (best, other) = if is_better { (value, before) } else { (before, value) };
                if is_better {
                    held.add(best.heap_bytes())?;
                    held.less(other.heap_bytes());
                }
                best
            }
            AggregateKind::All => {
                Datum::Bool(before.as_bool() == Some(true) && value.as_bool() == Some(true))
            }
            AggregateKind::Any => {
                Datum::Bool(before.as_bool() == Some(true) || value.as_bool() == Some(true))
            }
            AggregateKind::Bits(op) => super::arith(*op, &before, &value)?,
            AggregateKind::Join(between) => joined(before, between, &value, held)?,
            AggregateKind::Json([_, between, _]) => joined(before, between, &value, held)?,
            AggregateKind::Array
            | AggregateKind::Nest
            | AggregateKind::JoinEach
            | AggregateKind::Ordered(_)
            | AggregateKind::Spread(_)
            | AggregateKind::Fit(_) => {
                unreachable!("its values are kept otherwise")
            }
        });
        Ok(())
    }

    /// Appends a value, of a row with its delimiter.
    fn join(&mut self, row: &Datum, held: &mut Held<'_>) -> Result<(), SqlError> {
        let Datum::Row(row) = row else { return Ok(()) };
        let mut fields = row.fields().map(|(_, _, value)| value);
        let (Some(value), Some(between)) = (fields.next(), fields.next()) else { return Ok(()) };
        held.add(2 * (value.heap_bytes() + between.heap_bytes()))?;
        match (&mut self.value, between, value) {
            (None, _, value) => self.value = Some(value.clone()),
            (Some(Datum::Text(text)), between, Datum::Text(value)) => {
                text.push_str(between.as_text().unwrap_or_default());
                text.push_str(value);
            }
            (Some(Datum::Bytes(bytes)), between, Datum::Bytes(value)) => {
                if let Datum::Bytes(between) = between {
                    bytes.extend(between);
                }
                bytes.extend(value);
            }
            _ => {}
        }
        Ok(())
    }

    /// The value of the aggregate.
    pub(super) fn finish(self, aggregate: &Aggregate, budget: &Budget) -> Result<Datum, SqlError> {
        if let Some(moments) = &self.moments {
            return match aggregate.kind {
                AggregateKind::Spread(spread) => moments.spread(spread, self.count, budget),
                AggregateKind::Fit(fit) => Ok(moments.fit(fit, self.count)),
                _ => Ok(Datum::Null),
            };
        }
        match (&aggregate.kind, self.value) {
            (AggregateKind::Count | AggregateKind::Fit(Fit::Count), _) => {
                Ok(Datum::Int(self.count))
            }
            (_, None) => Ok(Datum::Null),
            (AggregateKind::Avg, Some(Datum::Float(sum))) => {
                Ok(Datum::Float(sum / self.count as f64))
            }
            (AggregateKind::Avg, Some(Datum::Interval(sum))) => {
                sum.over(self.count as f64).map(Datum::Interval)
            }
            (AggregateKind::Avg, Some(sum)) => {
                sum.to_decimal().over(&Decimal::int(self.count)).map(Datum::Numeric)
            }
            (AggregateKind::Sum, Some(sum)) if aggregate.ty == SqlType::Int8 => {
                convert(sum, SqlType::Int8, false)
            }
            (AggregateKind::Json([open, _, close]), Some(Datum::Text(mut text))) => {
                text.insert_str(0, open);
                text.push_str(close);
                Ok(Datum::Text(text))
            }
            (_, Some(value)) => Ok(value),
        }
    }
}

/// Compares two values of a type. Arrays are texts, so their elements have to be read.
fn order_of(ty: SqlType, a: &Datum, b: &Datum) -> Result<Ordering, SqlError> {
    match (ty.element(), a, b) {
        (Some(element), Datum::Text(a), Datum::Text(b)) => {
            crate::functions::array_order(a, b, element)
        }
        _ => Ok(a.compare(b)),
    }
}

/// A text with another appended.
fn joined(
    before: Datum,
    between: &str,
    value: &Datum,
    held: &mut Held<'_>,
) -> Result<Datum, SqlError> {
    let (Datum::Text(mut text), Datum::Text(value)) = (before, value) else {
        return Ok(Datum::Null);
    };
    // A growing text reserves up to the same size again.
    held.add(2 * (between.len() + value.len()))?;
    text.push_str(between);
    text.push_str(value);
    Ok(Datum::Text(text))
}
