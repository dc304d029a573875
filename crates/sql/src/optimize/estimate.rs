//! How many rows fulfil conditions, by what is known of the columns.
//!
//! ```text
//!   kind = 'x' and day > $1 and o.customer = c.id
//!   the fraction of the value · a third · one of as many as the side with more values has
//! ```
//!
//! Conditions count as independent of each other, except for two bounds of one column. The value of
//! a parameter is unknown. For an expression without statistics, the fractions are those of
//! PostgreSQL.

use super::Planning;
use crate::datum::Datum;
use crate::expr::{Compare, Expr};
use crate::plan::{Asks, Select, Source, Step};
use crate::prefix::{Prefix, following};
use crate::statistics::{ColumnStatistics, TableStatistics};

/// Of unknown columns: rows that are equal to a value, are on one side of a bound, fit a pattern.
pub(super) const EQUAL: f64 = 0.005;
const BOUND: f64 = 1.0 / 3.0;
const PATTERN: f64 = 0.02;
/// Rows of sources that nothing is known about.
const ROWS: f64 = 1000.0;
/// Rows that a function returns, and that a query returns for each row before it.
const SET_ROWS: f64 = 100.0;

/// The statistics of the sources of a query.
pub(super) struct Estimate<'s> {
    sources: Vec<Known<'s>>,
}

struct Known<'s> {
    offset: usize,
    width: usize,
    rows: f64,
    columns: Vec<Option<&'s ColumnStatistics>>,
}

impl<'s> Estimate<'s> {
    /// Of these sources; none if a table among them has no statistics, or if there is no table.
    pub(super) fn of(steps: &[Step], planning: &Planning<'s>) -> Option<Estimate<'s>> {
        let mut sources = Vec::with_capacity(steps.len());
        let mut has_table = false;
        for step in steps {
            let (mut rows, mut columns) = (ROWS, Vec::new());
            match &step.source {
                Source::Table(table) => {
                    let known: &TableStatistics = planning.statistics.get(&table.oid)?;
                    rows = known.rows.max(1.0);
                    let column = |column: &'_ crate::catalog::TableColumn| {
                        known.column(&column.name, column.ty)
                    };
                    columns = table.columns.iter().map(column).collect();
                    has_table = true;
                }
                Source::Query(query) => rows = rows_of(query),
                Source::Named(named) if named.recursion.is_none() => {
                    rows = rows_of(&named.query);
                }
                Source::Values(values) => rows = values.len().max(1) as f64,
                Source::Set(_) | Source::Lateral(..) => rows = SET_ROWS,
                Source::System(_) | Source::Named(_) | Source::Found(..) => {}
            }
            sources.push(Known { offset: step.offset, width: step.width, rows, columns });
        }
        has_table.then_some(Estimate { sources })
    }

    /// The rows of a source.
    pub(super) fn rows(&self, offset: usize) -> f64 {
        let known = self.sources.iter().find(|known| known.offset == offset);
        known.map_or(ROWS, |known| known.rows)
    }

    /// The slots of each source.
    pub(super) fn ranges(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        self.sources.iter().map(|source| source.offset..source.offset + source.width)
    }

    /// Adds a source that nothing is known of but its rows, which differ in each of its columns.
    pub(super) fn add(&mut self, offset: usize, width: usize, rows: f64) {
        self.sources.push(Known { offset, width, rows, columns: Vec::new() });
    }

    fn source(&self, slot: usize) -> Option<&Known<'s>> {
        let has = |known: &&Known<'s>| (known.offset..known.offset + known.width).contains(&slot);
        self.sources.iter().find(has)
    }

    fn column(&self, expr: &Expr) -> Option<&'s ColumnStatistics> {
        match expr {
            Expr::Column(slot) => {
                let source = self.source(*slot)?;
                *source.columns.get(slot - source.offset)?
            }
            Expr::Cast(inner, _) => self.column(inner),
            _ => None,
        }
    }

    /// How many values an expression has.
    pub(super) fn distinct(&self, expr: &Expr) -> Option<f64> {
        if let Some(column) = self.column(expr) {
            return Some(column.distinct.max(1.0));
        }
        let Expr::Column(slot) = expr else { return None };
        // The rows of a query, whose columns are not known.
        self.source(*slot).filter(|source| source.columns.is_empty()).map(|source| source.rows)
    }

    /// The fraction of rows that fulfil all of these conditions.
    pub(super) fn all<'c>(&self, conditions: impl IntoIterator<Item = &'c Expr>) -> f64 {
        let (mut fraction, mut bounds) = (1.0, Vec::<(&Expr, f64, Option<f64>)>::new());
        for condition in conditions {
            let Some((value, compare, _)) = bound(condition) else {
                fraction *= self.fraction(condition);
                continue;
            };
            let own = self.fraction(condition);
            let is_lower = matches!(compare, Compare::Gt | Compare::Ge);
            match bounds.iter_mut().find(|(known, ..)| *known == value) {
                Some((_, first, second)) if second.is_none() && (*first < 0.0) != is_lower => {
                    *second = Some(own);
                }
                Some(_) => fraction *= own,
                // The sign says on which side.
                None => bounds.push((value, if is_lower { -own } else { own }, None)),
            }
        }
        for (_, first, second) in bounds {
            let first = first.abs();
            fraction *= match second {
                // Both are guesses.
                Some(second) if first == BOUND && second == BOUND => EQUAL,
                Some(second) => (first + second - 1.0).max(0.0001),
                None => first,
            };
        }
        fraction.clamp(1e-9, 1.0)
    }

    /// The fraction of rows that have one of the values of an expression, whichever it is.
    pub(super) fn equal_to_any(&self, expr: &Expr) -> f64 {
        self.column(expr).map_or(EQUAL, ColumnStatistics::equal_to_any)
    }

    /// The fraction of rows that fulfil a condition.
    fn fraction(&self, condition: &Expr) -> f64 {
        match condition {
            Expr::And(all) => self.all(all),
            Expr::Or(any) => 1.0 - any.iter().map(|one| 1.0 - self.fraction(one)).product::<f64>(),
            Expr::InRows(any, _) => self.fraction(any),
            Expr::Not(not) => match &**not {
                Expr::IsNull(value) => self.column(value).map_or(1.0, |one| 1.0 - one.nulls),
                not => 1.0 - self.fraction(not),
            },
            Expr::IsNull(value) => self.column(value).map_or(EQUAL, |one| one.nulls),
            Expr::Const(Datum::Bool(is)) => f64::from(u8::from(*is)),
            Expr::Compare(Compare::Eq, both) => self.equal(&both[0], &both[1]),
            Expr::Compare(Compare::Ne, both) => 1.0 - self.equal(&both[0], &both[1]),
            Expr::Compare(..) => match bound(condition) {
                Some((value, compare, Expr::Const(with))) if !with.is_null() => {
                    let known = self.column(value);
                    known.map_or(BOUND, |column| column.compared_with(compare, with))
                }
                _ => BOUND,
            },
            Expr::In(value, list, _) => {
                list.iter().map(|one| self.equal(value, one)).sum::<f64>().min(1.0)
            }
            Expr::Elements { compare: Compare::Eq, all: false, both, .. } => {
                // PostgreSQL takes ten elements for an array that is not known.
                let each = self.column(&both[0]).map_or(EQUAL, ColumnStatistics::equal_to_any);
                (10.0 * each).min(1.0)
            }
            Expr::Like { both, folds: false } => self.pattern(Prefix::Like, &both[0], &both[1]),
            Expr::Matches { both, folds: false } => self.pattern(Prefix::Regex, &both[0], &both[1]),
            Expr::Like { .. } | Expr::Matches { .. } => PATTERN,
            Expr::Column(_) => {
                let known = self.column(condition);
                known.map_or(0.5, |column| column.equal_to(&Datum::Bool(true)))
            }
            Expr::Inner(inner) if matches!(inner.asks, Asks::Exists | Asks::Any(_)) => 0.5,
            _ => BOUND,
        }
    }

    fn equal(&self, a: &Expr, b: &Expr) -> f64 {
        match (self.column(a), self.column(b), a, b) {
            (Some(column), None, _, Expr::Const(value))
            | (None, Some(column), Expr::Const(value), _) => column.equal_to(value).max(1e-9),
            (None, None, ..)
            | (Some(_), Some(_), ..)
            | (Some(_), None, _, Expr::Column(_))
            | (None, Some(_), Expr::Column(_), _) => {
                let most = self.distinct(a).into_iter().chain(self.distinct(b)).reduce(f64::max);
                most.map_or(EQUAL, |most| 1.0 / most.max(1.0))
            }
            (Some(column), None, ..) | (None, Some(column), ..) => column.equal_to_any(),
        }
    }

    pub(super) fn pattern(&self, kind: Prefix, text: &Expr, pattern: &Expr) -> f64 {
        let Expr::Const(Datum::Text(pattern)) = pattern else { return EQUAL };
        let start = kind.of(pattern);
        let (false, Some(column)) = (start.is_empty(), self.column(text)) else { return PATTERN };
        let above = column.compared_with(Compare::Ge, &Datum::Text(start.clone()));
        let below = following(&start)
            .map_or(1.0, |next| column.compared_with(Compare::Lt, &Datum::Text(next)));
        (above + below + column.nulls - 1.0).max(0.0001)
    }
}

/// A value, how it is compared, and its bound.
fn bound(condition: &Expr) -> Option<(&Expr, Compare, &Expr)> {
    let Expr::Compare(compare, both) = condition else { return None };
    if matches!(compare, Compare::Eq | Compare::Ne) {
        return None;
    }
    let has_column = |expr: &Expr| expr.has(&|part| matches!(part, Expr::Column(_)));
    match (has_column(&both[0]), has_column(&both[1])) {
        (true, false) => Some((&both[0], *compare, &both[1])),
        (false, true) => Some((&both[1], compare.flipped(), &both[0])),
        _ => None,
    }
}

/// The estimated number of rows of a query, from what was estimated when it was planned itself.
/// Queries in WITH may name each other twice at each of many levels, so nothing is estimated anew.
pub(super) fn rows_of(query: &Select) -> f64 {
    let mut rows = query.estimate.unwrap_or(ROWS);
    if let Some(group) = &query.group {
        rows = if group.is_whole() { 1.0 } else { (rows / 5.0).max(1.0) };
        rows *= BOUND.powi(group.having.len().min(8) as i32);
    }
    if let Some(Expr::Const(Datum::Int(most))) = &query.limit {
        rows = rows.min(*most as f64);
    }
    rows.max(1.0)
}
