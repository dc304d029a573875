//! Grouping and aggregates.

use super::{Exec, Row};
use crate::datum::{Datum, convert};
use crate::error::SqlError;
use crate::expr::Arith;
use crate::numeric::Decimal;
use crate::plan::{Aggregate, AggregateKind, Group};
use crate::types::SqlType;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;

type Hasher = BuildHasherDefault<std::collections::hash_map::DefaultHasher>;

/// The groups so far, in the order in which they appeared.
pub(crate) struct Groups<'g> {
    group: &'g Group,
    places: HashMap<Vec<Datum>, usize, Hasher>,
    groups: Vec<(Vec<Datum>, Vec<State>)>,
}

/// What is known of an aggregate so far.
#[derive(Default)]
struct State {
    count: i64,
    value: Option<Datum>,
    seen: HashSet<Datum, Hasher>,
}

impl<'g> Groups<'g> {
    pub(crate) fn new(group: &'g Group) -> Groups<'g> {
        let mut groups = Groups { group, places: HashMap::default(), groups: Vec::new() };
        if group.keys.is_empty() {
            // Without GROUP BY there is one group, even of no rows.
            groups.place(Vec::new());
        }
        groups
    }

    fn place(&mut self, key: Vec<Datum>) -> usize {
        if let Some(&at) = self.places.get(&key) {
            return at;
        }
        let states = self.group.aggregates.iter().map(|_| State::default()).collect();
        self.places.insert(key.clone(), self.groups.len());
        self.groups.push((key, states));
        self.groups.len() - 1
    }

    pub(crate) fn add(&mut self, exec: &Exec<'_>, row: Row<'_>) -> Result<(), SqlError> {
        let key = self.group.keys.iter().map(|expr| exec.eval(expr, row));
        let key: Vec<Datum> = key.collect::<Result<_, _>>()?;
        let before = self.groups.len();
        let at = if key.is_empty() { 0 } else { self.place(key) };
        if self.groups.len() > before {
            exec.keep_row(&self.groups[at].0)?;
        }
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
            if value.is_null() && aggregate.kind != AggregateKind::First {
                continue;
            }
            if aggregate.distinct {
                if state.seen.contains(&value) {
                    continue;
                }
                exec.keep(value.bytes())?;
                state.seen.insert(value.clone());
            }
            state.add(aggregate, value)?;
        }
        Ok(())
    }

    /// For each group, its key and its aggregates.
    pub(crate) fn finish(self) -> Result<Vec<Vec<Datum>>, SqlError> {
        let aggregates = &self.group.aggregates;
        let finish = |(mut key, states): (Vec<Datum>, Vec<State>)| {
            for (aggregate, state) in aggregates.iter().zip(states) {
                key.push(state.finish(aggregate)?);
            }
            Ok(key)
        };
        self.groups.into_iter().map(finish).collect()
    }
}

impl State {
    fn add(&mut self, aggregate: &Aggregate, value: Datum) -> Result<(), SqlError> {
        self.count += 1;
        let Some(before) = self.value.take() else {
            self.value = Some(match aggregate.kind {
                // Sums of whole numbers are kept wider than the numbers.
                AggregateKind::Sum | AggregateKind::Avg if value.as_int().is_some() => {
                    Datum::Numeric(value.to_decimal())
                }
                _ => value,
            });
            return Ok(());
        };
        self.value = Some(match &aggregate.kind {
            AggregateKind::Count | AggregateKind::First => before,
            AggregateKind::Sum | AggregateKind::Avg => super::arith(Arith::Add, &before, &value)?,
            AggregateKind::Min => {
                if value.compare(&before).is_lt() {
                    value
                } else {
                    before
                }
            }
            AggregateKind::Max => {
                if value.compare(&before).is_gt() {
                    value
                } else {
                    before
                }
            }
            AggregateKind::All => {
                Datum::Bool(before.as_bool() == Some(true) && value.as_bool() == Some(true))
            }
            AggregateKind::Any => {
                Datum::Bool(before.as_bool() == Some(true) || value.as_bool() == Some(true))
            }
            AggregateKind::Join(between) => match (before, &value) {
                (Datum::Text(before), Datum::Text(value)) => {
                    Datum::Text([before.as_str(), between, value].concat())
                }
                (before, _) => before,
            },
        });
        Ok(())
    }

    fn finish(self, aggregate: &Aggregate) -> Result<Datum, SqlError> {
        match (&aggregate.kind, self.value) {
            (AggregateKind::Count, _) => Ok(Datum::Int(self.count)),
            (_, None) => Ok(Datum::Null),
            (AggregateKind::Avg, Some(Datum::Float(sum))) => {
                Ok(Datum::Float(sum / self.count as f64))
            }
            (AggregateKind::Avg, Some(sum)) => {
                sum.to_decimal().over(Decimal::int(self.count)).map(Datum::Numeric)
            }
            (AggregateKind::Sum, Some(sum)) if aggregate.ty == SqlType::Int8 => {
                convert(sum, SqlType::Int8, false)
            }
            (_, Some(value)) => Ok(value),
        }
    }
}
