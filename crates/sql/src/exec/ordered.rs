//! The values of ordered-set aggregates, over the sorted rows of a group.
//!
//! ```text
//!   percentile_disc(0.5)     the first value whose cumulative share is at least 0.5
//!   percentile_cont(0.5)     between the values at both sides of that share
//!   rank(x)                  the rank that x would have among the values
//! ```

use super::select::compare;
use crate::array;
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::plan::{Aggregate, Ordered, SortKey};
use crate::types::SqlType;
use std::cmp::Ordering;

/// The value over rows of sort keys and direct arguments, in their order.
///
/// # Errors
/// 22003 for a fraction outside of 0 and 1.
pub(super) fn of_sorted(
    aggregate: &Aggregate,
    kind: Ordered,
    mut rows: Vec<Vec<Datum>>,
) -> Result<Datum, SqlError> {
    match kind {
        Ordered::Mode => {
            rows.retain(|row| !row[0].is_null());
            Ok(mode(&rows))
        }
        Ordered::Percentile { is_continuous, is_list, value } => {
            let Some(fraction) = rows.first().map(|row| row[1].clone()) else {
                return Ok(Datum::Null);
            };
            rows.retain(|row| !row[0].is_null());
            let at = |fraction: &Datum| match is_continuous {
                true => between(&rows, fraction),
                false => first_at(&rows, fraction),
            };
            if !is_list {
                return at(&fraction);
            }
            let Some(list) = fraction.as_text().filter(|_| !rows.is_empty()) else {
                return Ok(Datum::Null);
            };
            let mut found = array::Writer::default();
            for fraction in array::values(list, SqlType::Float8) {
                match at(&fraction?)? {
                    Datum::Null => found.push(None),
                    one => found.push(Some(&crate::text::format(&one, value))),
                }
            }
            Ok(Datum::Text(found.end()))
        }
        Ordered::Rank | Ordered::DenseRank | Ordered::PercentRank | Ordered::CumeDist => {
            Ok(rank(aggregate, kind, &rows))
        }
    }
}

/// The most frequent value; of several, the first in the order.
fn mode(rows: &[Vec<Datum>]) -> Datum {
    let mut best: Option<(&Datum, usize)> = None;
    for peers in rows.chunk_by(|a, b| a[0] == b[0]) {
        if best.is_none_or(|(_, count)| peers.len() > count) {
            best = Some((&peers[0][0], peers.len()));
        }
    }
    best.map_or(Datum::Null, |(value, _)| value.clone())
}

/// A fraction from 0 to 1; `None` for NULL.
fn checked(fraction: &Datum) -> Result<Option<f64>, SqlError> {
    if fraction.is_null() {
        return Ok(None);
    }
    let fraction = fraction.to_f64();
    if (0.0..=1.0).contains(&fraction) {
        return Ok(Some(fraction));
    }
    let message = format!("percentile value {fraction} is not between 0 and 1");
    Err(SqlError::new(code::OUT_OF_RANGE, message))
}

/// The first value at which the share of the values up to it is the fraction or more.
fn first_at(rows: &[Vec<Datum>], fraction: &Datum) -> Result<Datum, SqlError> {
    let Some(fraction) = checked(fraction)? else { return Ok(Datum::Null) };
    let number = (fraction * rows.len() as f64).ceil() as usize;
    Ok(rows.get(number.saturating_sub(1)).map_or(Datum::Null, |row| row[0].clone()))
}

/// The value at the fraction of the way from the first value to the last.
fn between(rows: &[Vec<Datum>], fraction: &Datum) -> Result<Datum, SqlError> {
    let Some(fraction) = checked(fraction)? else { return Ok(Datum::Null) };
    let Some(last) = rows.len().checked_sub(1) else { return Ok(Datum::Null) };
    let place = fraction * last as f64;
    let (low, high) = (&rows[place.floor() as usize][0], &rows[place.ceil() as usize][0]);
    let share = place - place.floor();
    if share == 0.0 {
        return Ok(low.clone());
    }
    Ok(match (low, high) {
        (Datum::Interval(low), Datum::Interval(high)) => {
            Datum::Interval(low.plus(high.plus(low.negated()?)?.times(share)?)?)
        }
        _ => {
            let (low, high) = (low.to_f64(), high.to_f64());
            Datum::Float(low + share * (high - low))
        }
    })
}

/// The rank that the direct arguments would have among the rows.
fn rank(aggregate: &Aggregate, kind: Ordered, rows: &[Vec<Datum>]) -> Datum {
    let count = aggregate.order.len() / 2;
    let keys: Vec<SortKey> = aggregate.order[..count].iter().map(|(_, key)| *key).collect();
    // All rows have the same arguments.
    let own = rows.first().map_or(Vec::new(), |row| row[count..2 * count].to_vec());
    let before = rows.partition_point(|row| compare(&keys, row, &own) == Ordering::Less);
    let through = rows.partition_point(|row| compare(&keys, row, &own) != Ordering::Greater);
    let number = |number: usize| Datum::Int(i64::try_from(number).unwrap_or(i64::MAX));
    match kind {
        Ordered::Rank => number(before + 1),
        Ordered::DenseRank => {
            let same = |a: &Vec<Datum>, b: &Vec<Datum>| compare(&keys, a, b) == Ordering::Equal;
            number(rows[..before].chunk_by(same).count() + 1)
        }
        Ordered::PercentRank if rows.is_empty() => Datum::Float(0.0),
        Ordered::PercentRank => Datum::Float(before as f64 / rows.len() as f64),
        _ => Datum::Float((through + 1) as f64 / (rows.len() + 1) as f64),
    }
}
