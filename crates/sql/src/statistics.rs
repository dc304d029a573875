//! Statistics: how many rows tables have, and which values their columns. ANALYZE keeps them, and
//! plans are made by them.
//!
//! ```text
//!   all rows are counted; of 30,000 of them, chosen at random, each column is looked at:
//!
//!   nulls     the fraction of NULLs                              0.02
//!   distinct  how many values there are in the whole table       12,000
//!   common    the values that many rows have, with fractions     'open' 0.6, 'paid' 0.3
//!   bounds    values between which equally many rows lie         3, 17, 90, 1200      (without the common ones)
//! ```
//!
//! `distinct` is the estimator of Haas and Stokes (Duj1): `n d / (n - f + f n / N)`, with `d`
//! values among `n` rows of the sample, `f` of which are there once, and `N` rows of the table.
//!
//! Common values are chosen as in PostgreSQL's `analyze.c`: if the sample has all rows, all values
//! that occur more than once; otherwise those that are significantly more frequent than the rest.
//!
//! Statistics are kept by the number of their table, and columns by name and type: those of a
//! column that was altered do not count any more. They may be as wrong as the table has changed
//! since: then plans are slow, never wrong.

use crate::array;
use crate::datum::Datum;
use crate::expr::Compare;
use crate::text;
use crate::types::SqlType;
use isomer_design::SharedMap;
use std::sync::Arc;

/// The statistics of all tables, by their numbers for clients.
pub type Statistics = SharedMap<u32, Arc<TableStatistics>>;

/// Rows of a sample.
const SAMPLE_ROWS: usize = 30_000;
/// Common values of a column, and intervals between its bounds, up to this many.
const VALUES_MAX: usize = 100;
/// Values with more bytes than this are neither common ones nor bounds.
const VALUE_BYTES_MAX: usize = 128;

/// The number of values grows with the table if it is more than this fraction of the rows.
const GROWING: f64 = 0.1;

/// The statistics of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct TableStatistics {
    /// How many rows it has.
    pub rows: f64,
    /// When they were gathered.
    pub analyzed: Analyzed,
    /// Its columns.
    pub columns: Vec<ColumnStatistics>,
}

/// How often a table was analyzed, and when at last: microseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Analyzed {
    /// By ANALYZE of clients.
    pub asked: Times,
    /// By the server itself.
    pub own: Times,
}

/// A number of events, and the time of the last one.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Times {
    /// The number.
    pub count: u64,
    /// The time of the last one; 0 if there was none.
    pub last_us: i64,
}

impl Times {
    /// One more, at this time.
    pub fn again(&mut self, now_us: i64) {
        (self.count, self.last_us) = (self.count + 1, now_us);
    }
}

impl Analyzed {
    /// Reads the numbers of [`TableStatistics::kept`], which older versions did not keep.
    fn read<'t>(mut numbers: impl Iterator<Item = &'t str>) -> Option<Analyzed> {
        let mut times = || {
            let Some(count) = numbers.next() else { return Some(Times::default()) };
            let last_us = numbers.next()?.parse().ok()?;
            Some(Times { count: count.parse().ok()?, last_us })
        };
        Some(Analyzed { asked: times()?, own: times()? })
    }
}

/// The statistics of a column.
#[derive(Clone, PartialEq, Debug)]
pub struct ColumnStatistics {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: SqlType,
    /// The fraction of rows that have NULL.
    pub nulls: f64,
    /// The bytes of a value in a row of PostgreSQL, on average.
    pub width: f64,
    /// How many values it has.
    pub distinct: f64,
    /// The values that many rows have, each with the fraction of the rows that have it.
    pub common: Vec<(Datum, f64)>,
    /// The ends of intervals that have equally many of the other rows.
    pub bounds: Vec<Datum>,
}

/// Rows of a table, each with the same chance.
pub struct Sample {
    rows: Vec<Vec<Datum>>,
    seen: u64,
    random: u64,
}

impl Sample {
    /// Without rows. The same seed chooses the same ones.
    pub fn new(seed: u64) -> Sample {
        Sample { rows: Vec::new(), seen: 0, random: seed | 1 }
    }

    /// Shows it the next row.
    pub fn add(&mut self, row: &[Datum]) {
        self.seen += 1;
        if self.rows.len() < SAMPLE_ROWS {
            self.rows.push(row.to_vec());
            return;
        }
        // xorshift64
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let place = (self.random % self.seen) as usize;
        if place < SAMPLE_ROWS {
            self.rows[place] = row.to_vec();
        }
    }

    /// Summarizes the rows. `columns` has the name and type of each value of a row.
    pub fn statistics<'c>(
        &self,
        columns: impl Iterator<Item = (&'c str, SqlType)>,
    ) -> TableStatistics {
        let column = |(at, (name, ty)): (usize, (&str, SqlType))| {
            let values = self.rows.iter().map(|row| &row[at]);
            ColumnStatistics::of(name.to_owned(), ty, values, self.seen as f64)
        };
        let columns = columns.enumerate().map(column).collect();
        TableStatistics { rows: self.seen as f64, analyzed: Analyzed::default(), columns }
    }
}

impl ColumnStatistics {
    fn of<'v>(
        name: String,
        ty: SqlType,
        values: impl ExactSizeIterator<Item = &'v Datum>,
        rows: f64,
    ) -> ColumnStatistics {
        let sampled = values.len().max(1) as f64;
        let mut known: Vec<&Datum> = values.filter(|value| !value.is_null()).collect();
        let count = known.len() as f64;
        let mut column = ColumnStatistics {
            name,
            ty,
            nulls: (sampled - count) / sampled,
            width: mean_width(&known, ty),
            distinct: 0.0,
            common: Vec::new(),
            bounds: Vec::new(),
        };
        if !ty.has_order() || known.is_empty() {
            return column;
        }
        known.sort_by(|a, b| a.compare(b));
        // The places where runs of equal values begin, and how long these are.
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for (at, value) in known.iter().enumerate() {
            match runs.last_mut() {
                Some((first, length)) if known[*first].compare(value).is_eq() => *length += 1,
                _ => runs.push((at, 1)),
            }
        }
        let distinct = runs.len() as f64;
        let once = runs.iter().filter(|(_, length)| *length == 1).count() as f64;
        let all = rows * count / sampled;
        let estimate = count * distinct / (count - once + once * count / all.max(1.0));
        column.distinct = estimate.clamp(distinct, all.max(distinct));
        let is_short = |at: usize| known[at].bytes() <= VALUE_BYTES_MAX;
        let mut common: Vec<(usize, usize)> =
            runs.iter().copied().filter(|(at, length)| *length > 1 && is_short(*at)).collect();
        common.sort_by_key(|(_, length)| std::cmp::Reverse(*length));
        let is_all = common.len() == runs.len() && runs.len() <= VALUES_MAX;
        let grows = column.distinct > GROWING * rows;
        common.truncate(VALUES_MAX);
        if !is_all || grows {
            let lengths: Vec<usize> = common.iter().map(|(_, length)| *length).collect();
            common.truncate(column.worth_keeping(&lengths, sampled, rows));
        }
        column.common = common
            .iter()
            .map(|(at, length)| (known[*at].clone(), *length as f64 / sampled))
            .collect();
        let mut is_common = vec![false; known.len()];
        common.iter().for_each(|(at, length)| is_common[*at..at + length].fill(true));
        let others: Vec<&Datum> = known
            .iter()
            .enumerate()
            .filter(|(at, value)| !is_common[*at] && value.bytes() <= VALUE_BYTES_MAX)
            .map(|(_, value)| *value)
            .collect();
        if others.len() >= 2 {
            let intervals = VALUES_MAX.min(others.len() - 1);
            let bound = |at: usize| others[at * (others.len() - 1) / intervals].clone();
            column.bounds = (0..=intervals).map(bound).collect();
        }
        column
    }

    /// The number of common values to keep, of those with these numbers of rows in the sample, the
    /// most frequent first. A value is kept if it has significantly more rows than it would have as
    /// one of the values without a place in the list: by two standard deviations of the
    /// hypergeometric distribution, as the sample is drawn without replacement.
    fn worth_keeping(&self, lengths: &[usize], sampled: f64, rows: f64) -> usize {
        if sampled >= rows || rows <= 1.0 {
            return lengths.len();
        }
        let mut kept = lengths.len();
        while let Some((last, others)) = lengths[..kept].split_last() {
            let (last, others) = (*last as f64, others.iter().sum::<usize>() as f64);
            let rest = (1.0 - others / sampled - self.nulls).clamp(0.0, 1.0);
            let mean = rest / (self.distinct - (kept - 1) as f64).max(1.0);
            let all = rows * last / sampled;
            let variance =
                sampled * all * (rows - all) * (rows - sampled) / (rows * rows * (rows - 1.0));
            if last > mean * sampled + 2.0 * variance.sqrt() + 0.5 {
                break;
            }
            kept -= 1;
        }
        kept
    }

    /// The fraction of rows that have one given value.
    pub fn equal_to(&self, value: &Datum) -> f64 {
        if let Some((_, fraction)) = self.common.iter().find(|(one, _)| alike(one, value)) {
            return *fraction;
        }
        let common: f64 = self.common.iter().map(|(_, fraction)| fraction).sum();
        let others = (self.distinct - self.common.len() as f64).max(1.0);
        let rest = (1.0 - self.nulls - common).max(0.0);
        // A value that no list knows: where all values are listed, hardly any row has it.
        if self.bounds.is_empty() && !self.common.is_empty() { 0.0 } else { rest / others }
    }

    /// The fraction of rows that equal a value that is not known yet.
    pub fn equal_to_any(&self) -> f64 {
        (1.0 - self.nulls).max(0.0) / self.distinct.max(1.0)
    }

    /// The fraction of rows for which a comparison with a value holds: `<`, `<=`, `>` or `>=`.
    pub fn compared_with(&self, compare: Compare, value: &Datum) -> f64 {
        let is_below = matches!(compare, Compare::Lt | Compare::Le);
        let holds = |(one, _): &&(Datum, f64)| compare.holds(one.compare(value));
        let common: f64 = self.common.iter().filter(holds).map(|(_, fraction)| fraction).sum();
        let all_common: f64 = self.common.iter().map(|(_, fraction)| fraction).sum();
        let rest = (1.0 - self.nulls - all_common).max(0.0);
        if self.bounds.len() < 2 {
            return common;
        }
        let at = self.bounds.partition_point(|bound| bound.compare(value).is_lt());
        let intervals = (self.bounds.len() - 1) as f64;
        let below = match at {
            0 => 0.0,
            at if at == self.bounds.len() => 1.0,
            at => {
                let (low, high) = (&self.bounds[at - 1], &self.bounds[at]);
                (at as f64 - 1.0 + within(low, high, value)) / intervals
            }
        };
        common + rest * if is_below { below } else { 1.0 - below }
    }

    /// `n_distinct` as PostgreSQL shows it: negative, as a fraction of the rows, where it grows
    /// with them.
    pub fn shown_distinct(&self, rows: f64) -> f64 {
        if self.distinct > GROWING * rows {
            -(self.distinct / rows.max(1.0))
        } else {
            self.distinct
        }
    }

    /// Values as an array is written.
    pub fn shown<'v>(&self, values: impl Iterator<Item = &'v Datum>) -> String {
        let texts: Vec<String> =
            values.map(|value| text::format(value, self.ty).into_owned()).collect();
        array::format(texts.iter().map(|text| Some(text.as_str())))
    }
}

/// The bytes of a value on average: the size of the type, or that of the values as texts with a
/// header of one or four bytes.
fn mean_width(values: &[&Datum], ty: SqlType) -> f64 {
    let bytes = |value: &&Datum| {
        let length = match value {
            Datum::Text(text) | Datum::Json(text) => text.len(),
            Datum::Bytes(bytes) => bytes.len(),
            other => text::format(other, ty).len(),
        };
        length + if length <= SHORT_MAX { 1 } else { 4 }
    };
    match u16::try_from(ty.width()) {
        Ok(width) => width.into(),
        Err(_) => values.iter().map(bytes).sum::<usize>() as f64 / values.len().max(1) as f64,
    }
}

/// The longest value with a header of one byte.
const SHORT_MAX: usize = 126;

fn alike(a: &Datum, b: &Datum) -> bool {
    !b.is_null() && a.compare(b).is_eq()
}

/// Where a value lies between two others, from 0 to 1; in the middle, if they are no numbers.
fn within(low: &Datum, high: &Datum, value: &Datum) -> f64 {
    let number = |datum: &Datum| match datum {
        Datum::Int(_) | Datum::Numeric(_) | Datum::Float(_) => Some(datum.to_f64()),
        Datum::Timestamp(micros) => Some(*micros as f64),
        _ => None,
    };
    match (number(low), number(high), number(value)) {
        (Some(low), Some(high), Some(value)) if high > low => {
            ((value - low) / (high - low)).clamp(0.0, 1.0)
        }
        _ => 0.5,
    }
}

impl TableStatistics {
    /// The statistics of a column, if its type is still the same.
    pub fn column(&self, name: &str, ty: SqlType) -> Option<&ColumnStatistics> {
        self.columns.iter().find(|column| column.name == name && column.ty == ty)
    }

    /// As the catalog keeps it: the rows and the times of ANALYZE, and for each column five lines.
    pub fn kept(&self) -> String {
        let Analyzed { asked, own } = self.analyzed;
        let times = [asked, own].map(|times| format!("{} {}", times.count, times.last_us));
        let mut kept = format!("{} {}", self.rows, times.join(" "));
        for column in &self.columns {
            let line = |text: &str| text.replace('\\', "\\\\").replace('\n', "\\n");
            let fractions: Vec<String> =
                column.common.iter().map(|(_, fraction)| fraction.to_string()).collect();
            let numbers = format!("{} {} {}", column.nulls, column.width, column.distinct);
            let common = column.shown(column.common.iter().map(|(value, _)| value));
            let bounds = column.shown(column.bounds.iter());
            for text in [&column.name, &numbers, &common, &fractions.join(" "), &bounds] {
                kept.push('\n');
                kept.push_str(&line(text));
            }
        }
        kept
    }

    /// Reads the text of [`TableStatistics::kept`], for the columns that the table still has.
    /// `None` if the text is no statistics.
    pub fn read<'c>(
        kept: &str,
        table: impl Iterator<Item = (&'c str, SqlType)> + Clone,
    ) -> Option<TableStatistics> {
        let mut lines = kept.split('\n');
        let mut numbers = lines.next()?.split(' ');
        let rows = numbers.next()?.parse().ok()?;
        let analyzed = Analyzed::read(numbers)?;
        let mut columns = Vec::new();
        while let Some(name) = lines.next() {
            let name = unescaped(name);
            let numbers = lines.next()?.split(' ').map(|number| number.parse().ok());
            let numbers: Vec<f64> = numbers.collect::<Option<_>>()?;
            let [nulls, width, distinct] = numbers.try_into().ok()?;
            let (common, fractions, bounds) = (lines.next()?, lines.next()?, lines.next()?);
            let mut there = table.clone();
            let Some((_, ty)) = there.find(|(column, _)| *column == name) else { continue };
            let values = |kept: &str| -> Option<Vec<Datum>> {
                array::values(&unescaped(kept), ty).collect::<Result<_, _>>().ok()
            };
            let fractions = fractions.split_whitespace().map(|one| one.parse::<f64>().ok());
            let fractions: Vec<f64> = fractions.collect::<Option<_>>()?;
            // The type may have changed.
            let (Some(common), Some(bounds)) = (values(common), values(bounds)) else { continue };
            let common = common.into_iter().zip(fractions).collect();
            columns.push(ColumnStatistics { name, ty, nulls, width, distinct, common, bounds });
        }
        Some(TableStatistics { rows, analyzed, columns })
    }
}

fn unescaped(line: &str) -> String {
    let (mut text, mut chars) = (String::with_capacity(line.len()), line.chars());
    while let Some(c) = chars.next() {
        match c {
            '\\' => text.extend(chars.next().map(|c| if c == 'n' { '\n' } else { c })),
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl Iterator<Item = Datum>) -> ColumnStatistics {
        let values: Vec<Datum> = values.collect();
        let rows = values.len() as f64;
        ColumnStatistics::of("x".to_owned(), SqlType::Int8, values.iter(), rows)
    }

    #[test]
    fn fractions_are_near_the_truth() {
        // Half of the rows have 7, a tenth NULL, and the others 1 to 400.
        let column = of((0..1000).map(|at| match at {
            0..500 => Datum::Int(7),
            500..600 => Datum::Null,
            at => Datum::Int(at - 599),
        }));
        assert!((column.nulls - 0.1).abs() < 1e-9);
        assert_eq!(column.distinct, 400.0);
        assert!((column.equal_to(&Datum::Int(7)) - 0.501).abs() < 1e-9);
        assert!((column.equal_to(&Datum::Int(33)) - 0.001).abs() < 1e-4);
        let below = column.compared_with(Compare::Lt, &Datum::Int(201));
        assert!((below - 0.7).abs() < 0.01, "{below}");
        let above = column.compared_with(Compare::Ge, &Datum::Int(201));
        assert!((above - 0.2).abs() < 0.01, "{above}");
        assert_eq!(column.compared_with(Compare::Gt, &Datum::Int(1000)), 0.0);
    }

    #[test]
    fn times_are_kept() {
        let mut known = Sample::new(1).statistics(std::iter::empty());
        known.analyzed.own.again(1_700_000_000_000_000);
        let read = |kept: &str| TableStatistics::read(kept, std::iter::empty());
        assert_eq!(known.kept(), "0 0 0 1 1700000000000000");
        assert_eq!(read(&known.kept()), Some(known));
        let old = read("12").expect("the form without times");
        assert_eq!((old.rows, old.analyzed), (12.0, Analyzed::default()));
        assert_eq!(read("12 1"), None);
    }

    #[test]
    fn all_repeated_values_of_a_whole_table_are_common() {
        // Values 0 to 18, three times each, and three NULLs.
        let column = of((1..=60).map(|at| match at % 20 {
            0 => Datum::Null,
            _ => Datum::Int(at % 19),
        }));
        assert_eq!((column.nulls, column.width, column.common.len()), (0.05, 8.0, 19));
        assert!(column.common.iter().all(|(_, fraction)| *fraction == 0.05));
    }

    #[test]
    fn values_of_a_sample_are_common_if_they_are_significantly_frequent() {
        // A thousand of a million rows: 7 and 8 a hundred times each, 150 others up to six times.
        let values = (0..1000).map(|at| match at {
            0..100 => Datum::Int(7),
            100..200 => Datum::Int(8),
            at => Datum::Int(1000 + (at % 150)),
        });
        let values: Vec<Datum> = values.collect();
        let column =
            ColumnStatistics::of("x".to_owned(), SqlType::Int8, values.iter(), 1_000_000.0);
        let common: Vec<&Datum> = column.common.iter().map(|(value, _)| value).collect();
        assert_eq!(common, [&Datum::Int(7), &Datum::Int(8)]);
    }

    #[test]
    fn few_values_are_all_common() {
        let column = of((0..90).map(|at| Datum::Int(at % 3)));
        assert_eq!(column.common.len(), 3);
        assert!(column.bounds.is_empty());
        assert_eq!(column.equal_to(&Datum::Int(5)), 0.0);
        assert!((column.compared_with(Compare::Le, &Datum::Int(1)) - 2.0 / 3.0).abs() < 1e-9);
    }
}
