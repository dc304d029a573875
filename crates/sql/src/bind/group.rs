//! Grouping: the keys and sets of GROUP BY, and expressions over groups.
//!
//! ```text
//!   select w + 1, sum(v) from t group by w       rows: w at 0, v at 1
//!                                                groups: w at 0, sum(v) at 1
//!   slot 0 + 1, aggregate 0               ──▶    slot 0 + 1, slot 1
//!
//!   group by a, rollup (b, c)                    keys: a, b, c
//!                                                sets: (a, b, c), (a, b), (a)
//!   groups: a, b, c, number of the set, aggregates
//! ```
//!
//! The sets of GROUP BY are all combinations of the sets of its elements. `grouping(b, c)` is a
//! number for each set, chosen by the number of the set.

use super::convert::bare;
use super::expr::typed;
use super::operators::check_equality;
use super::query::output_place;
use super::{Binder, Typed, folded};
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::expr::{Compare, Expr};
use crate::functions::Func;
use crate::plan::{Aggregate, AggregateKind, OutputColumn, Source, Step};
use crate::types::SqlType;
use sqlparser::ast::{self, GroupByExpr};

/// The most grouping sets of a query.
const SETS_MAX: usize = 4096;
/// The most elements of a CUBE.
const CUBE_MAX: usize = 12;
/// The most arguments of GROUPING, whose result has one bit for each.
const GROUPING_MAX: usize = 31;

/// The keys of GROUP BY, and its grouping sets. Without sets, there is one of all keys.
#[derive(Default)]
pub(super) struct GroupKeys {
    pub(super) keys: Vec<Expr>,
    pub(super) sets: Vec<Vec<usize>>,
    /// True if the query has a GROUP BY.
    pub(super) is_grouped: bool,
}

/// Binds GROUP BY. Its elements may be columns of the result.
pub(super) fn group_keys(
    binder: &mut Binder<'_>,
    group_by: &GroupByExpr,
    project: &[Expr],
    output: &[OutputColumn],
) -> Result<GroupKeys, SqlError> {
    let GroupByExpr::Expressions(exprs, modifiers) = group_by else {
        return Err(SqlError::unsupported("GROUP BY ALL"));
    };
    if !modifiers.is_empty() {
        return Err(SqlError::unsupported("this kind of GROUP BY"));
    }
    let mut found = GroupKeys { is_grouped: !exprs.is_empty(), ..GroupKeys::default() };
    let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
    let mut has_sets = false;
    for expr in exprs {
        let own = {
            let mut key = |expr: &ast::Expr| key_of(binder, &mut found.keys, expr, project, output);
            element_sets(expr, &mut key)?
        };
        has_sets |= own.len() != 1;
        if sets.len() * own.len() > SETS_MAX {
            let message = format!("too many grouping sets present (maximum {SETS_MAX})");
            return Err(SqlError::new(code::TOO_COMPLEX, message));
        }
        let columns: usize = own.iter().map(Vec::len).sum();
        binder.budget.charge(sets.len() * (columns + own.len()) * size_of::<Vec<usize>>())?;
        let with = |set: &Vec<usize>, own: &Vec<usize>| {
            let mut both = set.clone();
            both.extend(own.iter().filter(|key| !set.contains(key)));
            both
        };
        sets = sets.iter().flat_map(|set| own.iter().map(move |own| with(set, own))).collect();
    }
    if has_sets {
        found.sets = sets;
    }
    Ok(found)
}

/// The grouping sets of an element of GROUP BY, as positions of keys.
fn element_sets(
    element: &ast::Expr,
    key: &mut dyn FnMut(&ast::Expr) -> Result<usize, SqlError>,
) -> Result<Vec<Vec<usize>>, SqlError> {
    let mut keys = |exprs: &[ast::Expr]| {
        let mut found = Vec::with_capacity(exprs.len());
        for expr in exprs {
            let at = key(expr)?;
            if !found.contains(&at) {
                found.push(at);
            }
        }
        Ok::<_, SqlError>(found)
    };
    match element {
        ast::Expr::GroupingSets(sets) => {
            let mut all = Vec::with_capacity(sets.len());
            for set in sets {
                match set.as_slice() {
                    [one] => all.extend(element_sets(&as_element(one), key)?),
                    several => all.push(grouped_together(several, key)?),
                }
                if all.len() > SETS_MAX {
                    let message = format!("too many grouping sets present (maximum {SETS_MAX})");
                    return Err(SqlError::new(code::TOO_COMPLEX, message));
                }
            }
            Ok(all)
        }
        ast::Expr::Rollup(parts) => {
            let parts = parts.iter().map(|part| keys(part)).collect::<Result<Vec<_>, _>>()?;
            Ok((0..=parts.len()).rev().map(|count| united(&parts[..count])).collect())
        }
        ast::Expr::Cube(parts) => {
            let parts = parts.iter().map(|part| keys(part)).collect::<Result<Vec<_>, _>>()?;
            if parts.len() > CUBE_MAX {
                let message = format!("CUBE is limited to {CUBE_MAX} elements");
                return Err(SqlError::new(code::TOO_MANY_COLUMNS, message));
            }
            // The first element is the last to be left out.
            let has = |subset: usize, at: usize| subset >> (parts.len() - 1 - at) & 1 == 1;
            let subset = |subset: usize| {
                let parts = parts.iter().enumerate().filter(|(at, _)| has(subset, *at));
                united(&parts.map(|(_, part)| part.clone()).collect::<Vec<_>>())
            };
            Ok((0..1 << parts.len()).rev().map(subset).collect())
        }
        ast::Expr::Tuple(exprs) => Ok(vec![keys(exprs)?]),
        ast::Expr::Nested(inner) => element_sets(inner, key),
        one => Ok(vec![keys(std::slice::from_ref(one))?]),
    }
}

/// An element of GROUPING SETS with more than one expression, or none: all of them are one set.
fn grouped_together(
    exprs: &[ast::Expr],
    key: &mut dyn FnMut(&ast::Expr) -> Result<usize, SqlError>,
) -> Result<Vec<usize>, SqlError> {
    Ok(united(&element_sets(&ast::Expr::Tuple(exprs.to_vec()), key)?))
}

/// ROLLUP and CUBE inside of GROUPING SETS, which the parser reads as functions.
fn as_element(one: &ast::Expr) -> std::borrow::Cow<'_, ast::Expr> {
    use std::borrow::Cow;
    let ast::Expr::Function(call) = one else { return Cow::Borrowed(one) };
    let ast::FunctionArguments::List(list) = &call.args else { return Cow::Borrowed(one) };
    let part = |arg: &ast::FunctionArg| match arg {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Tuple(parts))) => {
            Some(parts.clone())
        }
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(part)) => Some(vec![part.clone()]),
        _ => None,
    };
    let parts = || list.args.iter().map(part).collect::<Option<Vec<_>>>();
    let name = call.name.0.first().and_then(|part| part.as_ident());
    match name.filter(|_| call.name.0.len() == 1).map(folded).as_deref() {
        Some("rollup") => {
            parts().map_or(Cow::Borrowed(one), |it| Cow::Owned(ast::Expr::Rollup(it)))
        }
        Some("cube") => parts().map_or(Cow::Borrowed(one), |it| Cow::Owned(ast::Expr::Cube(it))),
        _ => Cow::Borrowed(one),
    }
}

/// The positions in all of these sets, each once.
fn united(sets: &[Vec<usize>]) -> Vec<usize> {
    let mut all = Vec::new();
    for at in sets.iter().flatten() {
        if !all.contains(at) {
            all.push(*at);
        }
    }
    all
}

/// The position of a key among the keys of GROUP BY, to which it is added if it is new.
fn key_of(
    binder: &mut Binder<'_>,
    keys: &mut Vec<Expr>,
    expr: &ast::Expr,
    project: &[Expr],
    output: &[OutputColumn],
) -> Result<usize, SqlError> {
    binder.budget.tick(output.len() + binder.scope().columns.len() + keys.len())?;
    let is_number = match expr {
        ast::Expr::Value(value) => !matches!(value.value, ast::Value::Placeholder(_)),
        _ => false,
    };
    let is_column = match expr {
        ast::Expr::Identifier(name) => {
            let name = folded(name);
            binder.scope().columns.iter().any(|column| column.name == name)
        }
        _ => false,
    };
    let is_param = matches!(expr, ast::Expr::Value(_)) && !is_number;
    let place = if is_number || !(is_column || is_param) {
        output_place(output, project, expr)?
    } else {
        None
    };
    let key = match place {
        Some(place) => {
            check_equality(output[place].ty)?;
            binder.budget.charge(size_of::<Expr>() * project[place].size())?;
            project[place].clone()
        }
        None => {
            let key = binder.expr(expr)?;
            check_equality(key.ty)?;
            key.expr
        }
    };
    if key.has(&|expr| matches!(expr, Expr::Window(_))) {
        let message = "window functions are not allowed in GROUP BY";
        return Err(SqlError::new(code::WINDOWING, message));
    }
    if has_grouping(&key) {
        let message = "grouping operations are not allowed in GROUP BY";
        return Err(SqlError::new(code::GROUPING, message));
    }
    if key.has_aggregate() {
        let message = "aggregate functions are not allowed in GROUP BY";
        return Err(SqlError::new(code::GROUPING, message));
    }
    Ok(keys.iter().position(|known| *known == key).unwrap_or_else(|| {
        keys.push(key);
        keys.len() - 1
    }))
}

/// `GROUPING(..)`: which of these keys are not in the group's set, one bit for each. It is
/// replaced when the sets are known.
pub(super) fn grouping(binder: &mut Binder<'_>, args: &[&ast::Expr]) -> Result<Typed, SqlError> {
    if args.len() > GROUPING_MAX {
        let message = format!("GROUPING must have fewer than {} arguments", GROUPING_MAX + 1);
        return Err(SqlError::new("54023", message));
    }
    if binder.scope().aggregates.is_none() {
        let message = "grouping operations are not allowed here";
        return Err(SqlError::new(code::GROUPING, message));
    }
    let args = args.iter().map(|arg| Ok(binder.expr(arg)?.expr));
    let args = args.collect::<Result<Vec<_>, SqlError>>()?;
    Ok(typed(Expr::Call(Func::Grouping, args), SqlType::Int4))
}

/// True if an expression contains `GROUPING(..)`.
pub(super) fn has_grouping(expr: &Expr) -> bool {
    expr.has(&|part| matches!(part, Expr::Call(Func::Grouping, _)))
}

/// Rewrites expressions over rows to expressions over groups.
pub(crate) struct Grouped<'g> {
    pub(crate) steps: &'g [Step],
    pub(crate) keys: &'g [Expr],
    pub(crate) sets: &'g [Vec<usize>],
    pub(crate) aggregates: Vec<Aggregate>,
}

impl Grouped<'_> {
    pub(crate) fn over_groups(
        &mut self,
        expr: &mut Expr,
        binder: &mut Binder<'_>,
    ) -> Result<(), SqlError> {
        binder.budget.deeper()?;
        binder.budget.tick(self.keys.len())?;
        if let Some(at) = self.keys.iter().position(|key| key == expr) {
            *expr = Expr::Column(at);
            return Ok(());
        }
        match expr {
            Expr::Aggregate(at) => {
                let at = *at;
                self.check_direct(at, binder)?;
                *expr = Expr::Column(self.first_aggregate() + at);
                return Ok(());
            }
            Expr::Call(Func::Grouping, args) => {
                *expr = self.grouping(args)?;
                return Ok(());
            }
            Expr::Column(slot) => {
                let slot = *slot;
                let known = binder.scope().columns.len();
                binder.budget.tick(self.steps.len() + known)?;
                binder.budget.charge(size_of::<Aggregate>())?;
                if !self.decided_by_keys(slot) {
                    let found = binder.scope().columns.iter().find(|column| column.slot == slot);
                    let name = found.map_or(String::new(), |c| format!("{}.{}", c.alias, c.name));
                    let message = format!(
                        "column \"{name}\" must appear in the GROUP BY clause or be used in an \
                         aggregate function"
                    );
                    return Err(SqlError::new(code::GROUPING, message));
                }
                let found = binder.scope().columns.iter().find(|column| column.slot == slot);
                let ty = found.map_or(SqlType::Text, |column| bare(column.ty));
                let of = Some(Expr::Column(slot));
                let (kind, filter) = (AggregateKind::First, None);
                self.aggregates.push(Aggregate {
                    kind,
                    of,
                    distinct: false,
                    filter,
                    order: Vec::new(),
                    ty,
                });
                *expr = Expr::Column(self.first_aggregate() + self.aggregates.len() - 1);
                return Ok(());
            }
            _ => {}
        }
        let mut result = Ok(());
        expr.children_mut(&mut |child| {
            if result.is_ok() {
                result = self.over_groups(child, binder);
            }
        });
        result
    }

    /// True if the group keys contain the whole primary key of the column's table.
    fn decided_by_keys(&self, slot: usize) -> bool {
        let step = self.steps.iter().find(|s| (s.offset..s.offset + s.width).contains(&slot));
        let Some(Step { source: Source::Table(table), offset, .. }) = step else { return false };
        // With grouping sets, a key decides only if it is in all of them.
        let is_in_all = |key: &usize| self.sets.iter().all(|set| set.contains(key));
        let has = |at: &usize| {
            let key = self.keys.iter().position(|key| *key == Expr::Column(offset + at));
            key.is_some_and(|key| is_in_all(&key))
        };
        table.has_key() && table.key.iter().all(has)
    }

    fn first_aggregate(&self) -> usize {
        self.keys.len() + usize::from(!self.sets.is_empty())
    }

    /// The value of `GROUPING(..)` for each set.
    fn grouping(&self, args: &[Expr]) -> Result<Expr, SqlError> {
        let mut places = Vec::with_capacity(args.len());
        for arg in args {
            places.push(self.keys.iter().position(|key| key == arg).ok_or_else(|| {
                let message = "arguments to GROUPING must be grouping expressions of the \
                               associated query level";
                SqlError::new(code::GROUPING, message)
            })?);
        }
        let bits = |set: &Vec<usize>| {
            let bit = |key: &usize| i64::from(!set.contains(key));
            Expr::Const(Datum::Int(places.iter().fold(0, |bits, key| bits << 1 | bit(key))))
        };
        let number = Expr::Column(self.keys.len());
        let when = |(at, set)| {
            let at = Expr::Const(Datum::Int(i64::try_from(at).unwrap_or(i64::MAX)));
            (Expr::Compare(Compare::Eq, Box::new([number.clone(), at])), bits(set))
        };
        let whens: Vec<_> = self.sets.iter().enumerate().map(when).collect();
        let none = Expr::Const(Datum::Int(0));
        Ok(if whens.is_empty() { none } else { Expr::Case(whens, Box::new(none)) })
    }

    /// Checks that the direct arguments of an ordered-set aggregate are the same for all rows of a
    /// group.
    fn check_direct(&mut self, at: usize, binder: &mut Binder<'_>) -> Result<(), SqlError> {
        let Some(aggregate) = self.aggregates.get(at) else { return Ok(()) };
        let direct: Vec<Expr> = aggregate.direct().map(|(expr, _)| expr.clone()).collect();
        for mut expr in direct {
            self.over_groups(&mut expr, binder)?;
        }
        Ok(())
    }
}
