//! Window functions: sorting rows into partitions, and evaluating functions in each.
//!
//! ```text
//!   sum(v) over (order by v rows between 1 preceding and 1 following)
//!
//!   v        1    2    4    7       a frame is a range of the partition: while it only grows, rows
//!   frame   [1    2]                are added to the aggregate; when it moves, rows that it left
//!           [1    2    4]           are removed if that is exact; otherwise it starts over
//!                [2    4    7]
//!                     [4    7]
//! ```
//!
//! All rows are collected before the first is returned, within the budget. Left out: spilling to
//! disk.

use super::aggregate::{State, array};
use super::select::compare;
use super::{Exec, Row};
use crate::budget::Held;
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::expr::Arith;
use crate::functions::{later, moment_later};
use crate::interval::Interval;
use crate::plan::{
    Aggregate, AggregateKind, Bound, Exclusion, Frame, FrameUnits, SortKey, Window, WindowCall,
    WindowFunc,
};
use crate::types::{Family, SqlType};
use crate::zone::Zone;
use std::cmp::Ordering;
use std::ops::Range;

/// The microseconds of a day.
const DAY_US: i64 = 86_400_000_000;

impl Exec<'_> {
    /// Appends the values of windows to the rows, which stay in the order of the last window.
    pub(super) fn windowed(
        &self,
        windows: &[Window],
        mut rows: Vec<Vec<Datum>>,
        given: &[Datum],
        held: &mut Held<'_>,
    ) -> Result<Vec<Vec<Datum>>, SqlError> {
        // Errors in a frame are reported even if there are no rows.
        for (_, call) in windows.iter().flat_map(|window| &window.calls) {
            self.frames(&call.frame, rows.len(), given)?;
        }
        let Some(own) = rows.first().map(Vec::len) else { return Ok(rows) };
        let values = windows.iter().map(|window| window.calls.len()).sum::<usize>();
        let keys = |window: &Window| window.partition.len() + window.order.len();
        let most = values + windows.iter().map(keys).max().unwrap_or(0);
        held.add(rows.len() * most * size_of::<Datum>())?;
        for row in &mut rows {
            row.reserve_exact(most);
            row.resize(own + values, Datum::Null);
        }
        for window in windows {
            rows = self.one_window(window, rows, (own, own + values), given, held)?;
        }
        Ok(rows)
    }

    /// The values of one window, stored from the slot `own` on; the sort keys are kept from `keys`
    /// on meanwhile.
    fn one_window(
        &self,
        window: &Window,
        mut rows: Vec<Vec<Datum>>,
        (own, keys): (usize, usize),
        given: &[Datum],
        held: &mut Held<'_>,
    ) -> Result<Vec<Vec<Datum>>, SqlError> {
        let order = || window.order.iter().map(|(by, _)| by);
        for row in &mut rows {
            self.tick()?;
            for by in window.partition.iter().chain(order()) {
                let value = self.eval(by, Row { values: row, given })?;
                held.add(value.heap_bytes())?;
                row.push(value);
            }
        }
        let count = window.partition.len();
        let same = |place| SortKey { place, descending: false, nulls_first: false };
        let partition: Vec<SortKey> = (keys..keys + count).map(same).collect();
        let inside = window.order.iter().map(|(_, key)| *key);
        let inside: Vec<SortKey> =
            inside.map(|key| SortKey { place: keys + count + key.place, ..key }).collect();
        let all: Vec<SortKey> = partition.iter().chain(&inside).copied().collect();
        let mut rows = self.in_order(rows, &|a, b| compare(&all, a, b))?;
        let mut from = 0;
        while from < rows.len() {
            let is_in = |row: &&Vec<Datum>| compare(&partition, &rows[from], row).is_eq();
            let to = from + rows[from..].iter().take_while(is_in).count();
            let part = Partition::new(&rows[from..to], &inside);
            let mut found = Vec::with_capacity(window.calls.len());
            for (at, call) in &window.calls {
                found.push((own + at, self.call_of_window(call, &part, given, held)?));
            }
            for (place, values) in found {
                self.budget.tick(values.len())?;
                let rows = rows[from..to].iter_mut();
                rows.zip(values).for_each(|(row, value)| row[place] = value);
            }
            from = to;
        }
        rows.iter_mut().for_each(|row| row.truncate(keys));
        Ok(rows)
    }

    /// The value of a call for each row of a partition.
    fn call_of_window(
        &self,
        call: &WindowCall,
        part: &Partition<'_>,
        given: &[Datum],
        held: &mut Held<'_>,
    ) -> Result<Vec<Datum>, SqlError> {
        let count = part.rows.len();
        let row = |at: usize| Row { values: &part.rows[at], given };
        let arg = |number: usize, at: usize| match call.args.get(number) {
            Some(expr) => self.eval(expr, row(at)),
            None => Ok(Datum::Null),
        };
        if let WindowFunc::Aggregate(aggregate) = &call.func {
            return self.moving(aggregate, &call.frame, part, given, held);
        }
        let frames = match call.func {
            WindowFunc::FirstValue | WindowFunc::LastValue | WindowFunc::NthValue => {
                Some(self.frames(&call.frame, count, given)?)
            }
            _ => None,
        };
        let frame = |at: usize| match &frames {
            Some(frames) => part.pieces(frames, at),
            None => Pieces::default(),
        };
        let share = |part: usize, whole: usize| Datum::Float(part as f64 / whole as f64);
        let buckets = match call.func {
            WindowFunc::Ntile => arg(0, 0)?.as_int(),
            _ => None,
        };
        if buckets.is_some_and(|buckets| buckets <= 0) {
            return Err(SqlError::new("22014", "argument of ntile must be greater than zero"));
        }
        let mut found = Vec::with_capacity(count);
        for at in 0..count {
            self.tick()?;
            let group = part.group_of[at];
            let peers = part.group(group);
            let value = match &call.func {
                WindowFunc::RowNumber => Datum::Int(at as i64 + 1),
                WindowFunc::Rank => Datum::Int(peers.start as i64 + 1),
                WindowFunc::DenseRank => Datum::Int(group as i64 + 1),
                WindowFunc::PercentRank if count == 1 => Datum::Float(0.0),
                WindowFunc::PercentRank => share(peers.start, count - 1),
                WindowFunc::CumeDist => share(peers.end, count),
                WindowFunc::Ntile => {
                    buckets.map_or(Datum::Null, |buckets| Datum::Int(bucket(at, count, buckets)))
                }
                WindowFunc::Lag | WindowFunc::Lead => {
                    let offset = match call.args.get(1) {
                        None => Some(1),
                        Some(expr) => self.eval(expr, row(at))?.as_int(),
                    };
                    let is_lag = call.func == WindowFunc::Lag;
                    let there = |by: i64| at as i64 + if is_lag { -by } else { by };
                    match offset.map(there).map(usize::try_from) {
                        None => Datum::Null,
                        Some(Ok(other)) if other < count => arg(0, other)?,
                        Some(_) => arg(2, at)?,
                    }
                }
                WindowFunc::FirstValue => match frame(at).rows().next() {
                    Some(first) => arg(0, first)?,
                    None => Datum::Null,
                },
                WindowFunc::LastValue => match frame(at).rows().next_back() {
                    Some(last) => arg(0, last)?,
                    None => Datum::Null,
                },
                WindowFunc::NthValue => match arg(1, at)?.as_int() {
                    None => Datum::Null,
                    Some(..=0) => {
                        let message = "argument of nth_value must be greater than zero";
                        return Err(SqlError::new("22016", message));
                    }
                    Some(n) => match frame(at).nth(n) {
                        Some(nth) => arg(0, nth)?,
                        None => Datum::Null,
                    },
                },
                WindowFunc::Aggregate(_) => unreachable!("it has a way of its own"),
            };
            held.add(value.heap_bytes())?;
            found.push(value);
        }
        Ok(found)
    }

    /// An aggregate over the frame of each row.
    fn moving(
        &self,
        aggregate: &Aggregate,
        frame: &Frame,
        part: &Partition<'_>,
        given: &[Datum],
        held: &mut Held<'_>,
    ) -> Result<Vec<Datum>, SqlError> {
        let mut inputs = Vec::with_capacity(part.rows.len());
        for values in part.rows {
            self.tick()?;
            let row = Row { values, given };
            let counts = match &aggregate.filter {
                Some(filter) => self.holds(filter, row)? == Some(true),
                None => true,
            };
            let value = match &aggregate.of {
                _ if !counts => None,
                Some(expr) => Some(self.eval(expr, row)?),
                None => Some(Datum::Bool(true)),
            };
            let value = value.filter(|value| !value.is_null() || !aggregate.skips_null());
            held.add(size_of::<Datum>() + value.as_ref().map_or(0, Datum::heap_bytes))?;
            inputs.push(value);
        }
        let frames = self.frames(frame, part.rows.len(), given)?;
        if frames.excludes != Exclusion::None {
            return in_pieces(self, aggregate, &frames, part, &inputs, held);
        }
        let (state, own) = (State::default(), self.budget.held());
        let mut known = Moving { aggregate, state, held: own, rows: 0..0 };
        let mut found: Vec<Datum> = Vec::with_capacity(inputs.len());
        let mut last: Option<Range<usize>> = None;
        for at in 0..inputs.len() {
            self.tick()?;
            let frame = part.frame(&frames, at);
            let value = match found.last() {
                Some(value) if last.as_ref() == Some(&frame) => value.clone(),
                _ if aggregate.makes_array() => {
                    self.budget.tick(frame.len())?;
                    let inside: Vec<Datum> =
                        inputs[frame.clone()].iter().flatten().cloned().collect();
                    array(aggregate, &inside, held)?
                }
                _ => {
                    known.go_to(frame.clone(), &inputs, self)?;
                    known.state.clone().finish(aggregate, self.budget)?
                }
            };
            last = Some(frame);
            held.add(value.heap_bytes())?;
            found.push(value);
        }
        Ok(found)
    }

    /// The offsets of a frame's bounds, limited to the number of rows.
    fn frames(&self, frame: &Frame, rows: usize, given: &[Datum]) -> Result<Frames<'_>, SqlError> {
        let nothing = Row { values: &[], given };
        let offset = |bound: &Bound, which: &str| -> Result<Edge, SqlError> {
            let (expr, is_before) = match bound {
                Bound::Unbounded => return Ok(Edge::Unbounded),
                Bound::Current => return Ok(Edge::Current),
                Bound::Before(expr) => (expr, true),
                Bound::After(expr) => (expr, false),
            };
            let offset = self.eval(expr, nothing)?;
            if offset.is_null() {
                let message = format!("frame {which} offset must not be null");
                return Err(SqlError::new("22004", message));
            }
            let is_range = frame.units == FrameUnits::Range;
            let is_negative = match &offset {
                Datum::Float(offset) if offset.is_nan() => true,
                // A time of day moves by hours and smaller units only.
                Datum::Interval(span) if frame.by.family() == Family::Clock => span.micros < 0,
                Datum::Interval(span) => span.length() < 0,
                offset => offset.compare(&Datum::Int(0)).is_lt(),
            };
            if is_negative {
                let message = match is_range {
                    true => "invalid preceding or following size in window function".to_owned(),
                    false => format!("frame {which} offset must not be negative"),
                };
                return Err(SqlError::new(code::INVALID_FRAME, message));
            }
            Ok(match is_range {
                true => Edge::Distance { offset, is_before },
                false => {
                    let count = offset.as_int().and_then(|count| usize::try_from(count).ok());
                    let count = count.unwrap_or(usize::MAX).min(rows);
                    Edge::Count { count, is_before }
                }
            })
        };
        let from = offset(&frame.from, "starting")?;
        let to = offset(&frame.to, "ending")?;
        let zone = self.around.settings.zone();
        Ok(Frames { units: frame.units, from, to, by: frame.by, excludes: frame.excludes, zone })
    }
}

/// An aggregate over the frame of each row, where the frame leaves some rows out.
fn in_pieces(
    exec: &Exec<'_>,
    aggregate: &Aggregate,
    frames: &Frames<'_>,
    part: &Partition<'_>,
    inputs: &[Option<Datum>],
    held: &mut Held<'_>,
) -> Result<Vec<Datum>, SqlError> {
    let mut found = Vec::with_capacity(inputs.len());
    for at in 0..inputs.len() {
        let pieces = part.pieces(frames, at);
        let inside = || pieces.rows().filter_map(|row| inputs[row].as_ref());
        let value = match aggregate.makes_array() {
            true => {
                exec.budget.tick(inputs.len())?;
                array(aggregate, &inside().cloned().collect::<Vec<_>>(), held)?
            }
            false => {
                // The temporary memory is small compared with the values, which are charged.
                let (mut state, mut own) = (State::default(), exec.budget.held());
                for value in inside() {
                    exec.budget.tick(1)?;
                    state.add(aggregate, value.clone(), &mut own)?;
                }
                state.finish(aggregate, exec.budget)?
            }
        };
        exec.tick()?;
        held.add(value.heap_bytes())?;
        found.push(value);
    }
    Ok(found)
}

/// The bucket of a row: if the division has a remainder, the first buckets have one row more.
fn bucket(at: usize, count: usize, buckets: i64) -> i64 {
    let buckets = usize::try_from(buckets).unwrap_or(usize::MAX);
    let (size, more) = (count / buckets, count % buckets);
    let found = if at < more * (size + 1) {
        at / (size + 1)
    } else {
        more + (at - more * (size + 1)) / size
    };
    found as i64 + 1
}

/// A frame with evaluated offsets.
struct Frames<'z> {
    units: FrameUnits,
    from: Edge,
    to: Edge,
    /// The type of the sort key, if bounds are distances of it.
    by: SqlType,
    excludes: Exclusion,
    /// Where days and months are added to an instant.
    zone: &'z Zone,
}

/// The ranges of rows that a frame consists of, in order; they may be empty.
#[derive(Default)]
struct Pieces([Range<usize>; 3]);

impl Pieces {
    fn rows(&self) -> impl DoubleEndedIterator<Item = usize> {
        self.0.iter().cloned().flatten()
    }

    /// The row with this number, from 1.
    fn nth(&self, number: i64) -> Option<usize> {
        let mut before = usize::try_from(number - 1).ok()?;
        for piece in &self.0 {
            if before < piece.len() {
                return Some(piece.start + before);
            }
            before -= piece.len();
        }
        None
    }
}

enum Edge {
    Unbounded,
    Current,
    Count { count: usize, is_before: bool },
    Distance { offset: Datum, is_before: bool },
}

/// The rows of a partition in order, and their groups of peers.
struct Partition<'p> {
    rows: &'p [Vec<Datum>],
    order: &'p [SortKey],
    /// The group of each row.
    group_of: Vec<usize>,
    /// The start of each group.
    groups: Vec<usize>,
}

impl<'p> Partition<'p> {
    fn new(rows: &'p [Vec<Datum>], order: &'p [SortKey]) -> Partition<'p> {
        let (mut group_of, mut groups) = (Vec::with_capacity(rows.len()), Vec::new());
        for (at, row) in rows.iter().enumerate() {
            if at == 0 || compare(order, &rows[at - 1], row).is_ne() {
                groups.push(at);
            }
            group_of.push(groups.len() - 1);
        }
        Partition { rows, order, group_of, groups }
    }

    /// The rows of a group.
    fn group(&self, group: usize) -> Range<usize> {
        let end = self.groups.get(group + 1).copied().unwrap_or(self.rows.len());
        self.groups[group]..end
    }

    /// The frame of a row, from its first row to its last.
    fn frame(&self, frames: &Frames<'_>, at: usize) -> Range<usize> {
        let from = self.edge(frames, &frames.from, at, true);
        from..self.edge(frames, &frames.to, at, false).max(from)
    }

    /// The frame of a row without the rows that it leaves out.
    fn pieces(&self, frames: &Frames<'_>, at: usize) -> Pieces {
        let whole = self.frame(frames, at);
        let (gone, own) = match frames.excludes {
            Exclusion::None => (whole.start..whole.start, 0..0),
            Exclusion::Row => (at..at + 1, 0..0),
            Exclusion::Group => (self.group(self.group_of[at]), 0..0),
            Exclusion::Ties => (self.group(self.group_of[at]), at..at + 1),
        };
        let inside = |from: usize, to: usize| {
            let from = from.clamp(whole.start, whole.end);
            from..to.clamp(from, whole.end)
        };
        Pieces([
            inside(whole.start, gone.start),
            inside(own.start, own.end),
            inside(gone.end, whole.end),
        ])
    }

    /// The bound of a frame: the first row that is in it, or the first that is no longer.
    fn edge(&self, frames: &Frames<'_>, edge: &Edge, at: usize, begins: bool) -> usize {
        let units = frames.units;
        let (count, peers) = (self.rows.len(), self.group(self.group_of[at]));
        let edge_of = |group: Range<usize>| if begins { group.start } else { group.end };
        match (edge, units) {
            (Edge::Unbounded, _) => edge_of(0..count),
            (Edge::Current, FrameUnits::Rows) => at + usize::from(!begins),
            (Edge::Current, _) => edge_of(peers),
            (Edge::Count { count: by, is_before: true }, FrameUnits::Rows) => {
                (at + usize::from(!begins)).saturating_sub(*by)
            }
            (Edge::Count { count: by, is_before: false }, FrameUnits::Rows) => {
                (at + by + usize::from(!begins)).min(count)
            }
            (Edge::Count { count: by, is_before }, _) => {
                let own = self.group_of[at];
                match (is_before, own.checked_sub(*by)) {
                    (true, Some(group)) => edge_of(self.group(group)),
                    (true, None) => 0,
                    (false, _) if own + by < self.groups.len() => edge_of(self.group(own + by)),
                    (false, _) => count,
                }
            }
            (Edge::Distance { offset, is_before }, _) => {
                let key = self.order[0];
                let own = &self.rows[at][key.place];
                if own.is_null() {
                    return edge_of(peers);
                }
                let known = |row: &Vec<Datum>| !row[key.place].is_null();
                let nulls = self.rows.iter().take_while(|row| !known(row)).count();
                let known = nulls..nulls + self.rows[nulls..].partition_point(known);
                // In descending order, preceding values are greater.
                let way = if *is_before == key.descending { Arith::Add } else { Arith::Sub };
                let is_outside = |row: &Vec<Datum>| {
                    let order = match offset {
                        Datum::Interval(span) => {
                            Some(against_later(&row[key.place], own, *span, way, frames))
                        }
                        offset => against(&row[key.place], own, offset, way),
                    };
                    let order =
                        order.map(|order| if key.descending { order.reverse() } else { order });
                    match order {
                        None => !begins,
                        Some(order) if begins => order.is_lt(),
                        Some(order) => order.is_le(),
                    }
                };
                known.start + self.rows[known].partition_point(is_outside)
            }
        }
    }
}

/// Compares a value with another plus or minus an offset; `None` if both are infinite, and each is
/// in the other's range.
fn against(value: &Datum, base: &Datum, offset: &Datum, way: Arith) -> Option<Ordering> {
    if let (Datum::Int(value), Datum::Int(base), Datum::Int(offset)) = (value, base, offset) {
        let (value, base, offset) = (i128::from(*value), i128::from(*base), i128::from(*offset));
        return Some(value.cmp(&if way == Arith::Add { base + offset } else { base - offset }));
    }
    if let (Datum::Float(base), offset) = (base, offset.to_f64()) {
        let bound = if way == Arith::Add { base + offset } else { base - offset };
        let is_undecided = bound.is_nan() && !base.is_nan();
        return (!is_undecided).then(|| value.compare(&Datum::Float(bound)));
    }
    let (base, offset) = (base.to_decimal(), offset.to_decimal());
    let bound = if way == Arith::Add { base.plus(&offset) } else { base.minus(&offset) };
    // If the sum is out of range, it is beyond all values.
    let beyond = if way == Arith::Add { Ordering::Less } else { Ordering::Greater };
    Some(bound.map_or(beyond, |bound| value.compare(&Datum::Numeric(bound))))
}

/// Compares a time, or an interval, with `base` plus or minus a span.
fn against_later(
    value: &Datum,
    base: &Datum,
    span: Interval,
    way: Arith,
    frames: &Frames<'_>,
) -> Ordering {
    let shifted = || -> Result<Datum, SqlError> {
        let moved = if way == Arith::Add { span } else { span.negated()? };
        Ok(match (frames.by, base) {
            (SqlType::Date, Datum::Int(day)) => {
                // The infinite days are the infinite times.
                Datum::Timestamp(later(day.saturating_mul(DAY_US), moved)?)
            }
            (SqlType::TimestampTz, Datum::Timestamp(moment)) => {
                Datum::Timestamp(moment_later(*moment, moved, frames.zone)?)
            }
            (_, Datum::Timestamp(wall)) => Datum::Timestamp(later(*wall, moved)?),
            // There is no day after a time of day, so it does not begin anew.
            (_, Datum::Int(within)) => Datum::Int(within.saturating_add(moved.micros)),
            (_, Datum::TimeTz(within, ahead)) => {
                Datum::TimeTz(within.saturating_add(moved.micros), *ahead)
            }
            (_, Datum::Interval(base)) => Datum::Interval(base.plus(moved)?),
            (_, base) => base.clone(),
        })
    };
    // A sum that is out of range is beyond all values.
    let beyond = if way == Arith::Add { Ordering::Less } else { Ordering::Greater };
    shifted().map_or(beyond, |bound| value.compare(&bound))
}

/// The state of an aggregate over a moving range of rows.
struct Moving<'m> {
    aggregate: &'m Aggregate,
    state: State,
    /// The memory of the state.
    held: Held<'m>,
    rows: Range<usize>,
}

impl<'m> Moving<'m> {
    /// Begins anew at a row.
    fn begin(&mut self, at: usize, exec: &'m Exec<'_>) {
        (self.state, self.rows) = (State::default(), at..at);
        self.held = exec.budget.held();
    }

    /// Moves to another range.
    fn go_to(
        &mut self,
        rows: Range<usize>,
        inputs: &[Option<Datum>],
        exec: &'m Exec<'_>,
    ) -> Result<(), SqlError> {
        let goes_on = rows.start >= self.rows.start
            && rows.start <= self.rows.end
            && rows.end >= self.rows.end;
        let forgets = rows.start > self.rows.start;
        if !goes_on || (forgets && !self.aggregate.can_forget()) {
            self.begin(rows.start, exec);
        }
        let mut is_known = true;
        for gone in inputs[self.rows.start..rows.start].iter().flatten() {
            is_known = is_known && self.state.remove(self.aggregate, gone)?;
        }
        if !is_known {
            self.begin(rows.start, exec);
        }
        for value in inputs[self.rows.end..rows.end].iter().flatten() {
            exec.budget.tick(1)?;
            self.state.add(self.aggregate, value.clone(), &mut self.held)?;
        }
        self.rows = rows;
        Ok(())
    }
}

impl Aggregate {
    /// True if a row can be removed from the state, exactly.
    fn can_forget(&self) -> bool {
        match self.kind {
            AggregateKind::Count => true,
            AggregateKind::Sum | AggregateKind::Avg => !self.ty.is_float(),
            _ => false,
        }
    }
}
