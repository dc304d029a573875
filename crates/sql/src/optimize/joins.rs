//! The order in which sources run, how each is joined, and where conditions are checked.
//!
//! ```text
//!   from line l, part p, supplier s        l: 60,000 rows, p: 2,000, s: 100
//!   where p.kind = 'x' and l.part = p.id and s.id = l.supplier
//!
//!   p   all rows, 10 of which fit                 one of the least: where constants select most
//!   l   by its index on part, for each of them    10 · 30 rows
//!   s   all rows, kept, by a hash                 100 rows are read once, instead of 300 look-ups
//! ```
//!
//! Where all joins are inner ones and there are [statistics](crate::statistics) of all tables, the
//! order is the cheapest of all orders of up to [`TABLES_MAX`] sources, by dynamic programming over
//! the sets of sources joined so far. Of more sources, the cheapest next one is taken each time.
//! Without statistics, next comes the source that can be looked up best with what is known. Outer
//! joins run in the order of the statement.
//!
//! A condition is checked as soon as all that it looks at is known; but not inside of an outer join
//! that it does not belong to, where it would decide what matches instead of what is shown; nor
//! before a right join, whose own rows have not been there yet:
//!
//! ```text
//!   a right join b on a.x = b.x where a.y is null    in rows of b without a match, a.y is NULL:
//!                                                    `a.y is null` is checked after the join
//! ```
//!
//! [Subqueries of conditions](super::pull) are sources too. A semi or anti join runs behind the
//! sources that its conditions look at. A semi join may also run before them, as an inner join of
//! different values ([`super::matching`]).
//!
//! Equalities are passed along: from `a.x = b.x` and `b.x = 5` follows `a.x = 5`, which may find
//! the rows of `a`. Conditions that all branches of an OR have in common are conditions of their
//! own.
//!
//! Left out: join trees whose right side is a join as well, and merge joins.

use super::Planning;
use super::cost;
use super::estimate::Estimate;
use super::follow::{counted_apart, with_consequences};
use super::matching::{Looks, Matching, Unique, cost_of_unique, looks, made_unique};
use super::pull::pulled_up;
use super::push::push;
use super::spans::{choose, narrowness};
use super::ways::{Route, routes};
use crate::error::SqlError;
use crate::expr::{Compare, Expr};
use crate::plan::{Access, Only, Select, Source, Step};
use std::collections::HashMap;

/// The most sources for which all orders are compared; more have too many subsets.
const TABLES_MAX: usize = 10;

/// Puts sources in their execution order, and conditions at the first step where they can be
/// checked.
///
/// # Errors
/// The statement exceeds its budget.
pub(crate) fn arrange(
    steps: Vec<Step>,
    conditions: Vec<Expr>,
    plan: &mut Select,
    planning: &Planning<'_>,
) -> Result<(), SqlError> {
    let budget = planning.budget;
    let has_outer = steps.iter().any(|step| step.left || step.right);
    // Rows that a step adds at the end have not passed the conditions before it.
    let mut added_later = steps.iter().filter(|step| step.right).count();
    let (mut rest, conditions) = pulled_up(steps, conditions, plan, planning)?;
    let ends = rest.iter().map(|step| step.offset + step.width);
    let mut known = vec![false; ends.fold(plan.width, usize::max)];
    let mut conditions = with_consequences(conditions, &rest, budget)?;
    if !has_outer {
        rest.iter_mut().try_for_each(|step| push(step, &conditions, planning))?;
    }
    let mut estimate = Estimate::of(&rest, planning);
    let order = match &estimate {
        Some(estimate) if !has_outer && rest.len() > 1 => {
            Orders::of(&rest, &conditions, estimate).best(planning)?
        }
        _ => Vec::new(),
    };
    let (mut place, mut before) = (0, 1.0);
    while !rest.is_empty() {
        let at = match order.get(place) {
            _ if has_outer => {
                let can_decide = |step: &Step| {
                    step.only.is_some()
                        && added_later == 0
                        && is_after_its_rows(step, &conditions, &known)
                };
                rest.iter().position(can_decide).unwrap_or(0)
            }
            Some(next) => rest.iter().position(|step| step.offset == *next).unwrap_or(0),
            None => best_looked_up(&rest, &conditions, &known, planning)?,
        };
        place += 1;
        let mut step = rest.remove(at);
        added_later -= usize::from(step.right);
        if step.only == Some(Only::Matched)
            && let Some(estimate) = &mut estimate
            && !is_after_its_rows(&step, &conditions, &known)
        {
            step = made_unique(step, &mut conditions, &mut known, estimate, planning)?;
        }
        let is_outer = step.left || step.right || step.only == Some(Only::Unmatched);
        let decides = !is_outer && added_later == 0;
        let mut narrowing = step.on.clone();
        narrowing.extend(conditions.iter().filter(|_| decides).cloned());
        budget.tick(known.len() / 8 + 16 * narrowing.len())?;
        step.hash = equal_pairs(&step, &narrowing, &known);
        step.kept = false;
        match &estimate {
            _ if step.right => {}
            None => step.access = access_of(&step, &narrowing, &known, planning)?,
            Some(estimate) => {
                let all: Vec<&Expr> = narrowing.iter().collect();
                let routes = routes(&step, &all, &|slot| known[slot], estimate, planning)?;
                let (join, after) = join_of(&step, &narrowing, &known, before, estimate);
                let (_, route) = cheapest(routes, &join);
                step.kept = !plan.steps.is_empty() && !route.depends;
                step.access = route.access;
                (before, step.rows) = (after, Some(after));
            }
        }
        known[step.offset..step.offset + step.width].fill(true);
        if decides {
            let ready = |condition: &Expr| {
                let mut ready = true;
                condition.columns(&mut |slot| ready &= known[slot]);
                ready
            };
            let all = std::mem::take(&mut conditions);
            let (now, later): (Vec<Expr>, Vec<Expr>) = all.into_iter().partition(ready);
            step.on.extend(now);
            conditions = later;
        }
        plan.steps.push(step);
    }
    plan.filter = conditions;
    plan.estimate = estimate.map(|estimate| before * estimate.all(&plan.filter));
    Ok(())
}

/// Chooses the ways to the sources again, for a query that ends after `few` rows in the order of
/// its first source. Looking a source up for each row before may then cost less than reading all
/// of it.
///
/// # Errors
/// The statement exceeds its budget.
pub(super) fn for_few(
    plan: &mut Select,
    few: f64,
    planning: &Planning<'_>,
) -> Result<(), SqlError> {
    let Some(all) = plan.estimate.filter(|all| few < *all) else { return Ok(()) };
    let has_right = plan.steps.iter().any(|step| step.right);
    let Some(estimate) = Estimate::of(&plan.steps, planning).filter(|_| !has_right) else {
        return Ok(());
    };
    let ends = plan.steps.iter().map(|step| step.offset + step.width);
    let mut known = vec![false; ends.fold(plan.width, usize::max)];
    let mut before = 1.0f64;
    for step in &mut plan.steps {
        if step.kept && matches!(step.source, Source::Table(_)) {
            let on: Vec<&Expr> = step.on.iter().collect();
            let routes = routes(step, &on, &|slot| known[slot], &estimate, planning)?;
            let before = (before * few / all).max(1.0);
            let (join, _) = join_of(step, &step.on, &known, before, &estimate);
            let (_, route) = cheapest(routes, &join);
            (step.kept, step.access) = (!route.depends, route.access);
        }
        known[step.offset..step.offset + step.width].fill(true);
        before = step.rows.unwrap_or(before);
    }
    Ok(())
}

/// Without statistics: the first of those that can be looked up best, and need nothing that comes
/// later.
fn best_looked_up(
    rest: &[Step],
    conditions: &[Expr],
    known: &[bool],
    planning: &Planning<'_>,
) -> Result<usize, SqlError> {
    let mut best: Option<(usize, usize)> = None;
    for (at, step) in rest.iter().enumerate() {
        let is_ready = step.source.is_ready(&|slot| known[slot]);
        if is_ready && (step.only.is_none() || is_after_its_rows(step, conditions, known)) {
            let mark = planning.budget.mark();
            let rank = narrowness(&access_of(step, conditions, known, planning)?);
            planning.budget.back_to(mark);
            if best.is_none_or(|(most, _)| rank > most) {
                best = Some((rank, at));
            }
        }
    }
    Ok(best.map_or(0, |(_, at)| at))
}

/// True if the rows that a semi or anti join decides about are known.
fn is_after_its_rows(step: &Step, conditions: &[Expr], known: &[bool]) -> bool {
    let own = step.offset..step.offset + step.width;
    let joining = conditions.iter().filter(|one| looks(one, &own) == Looks::Both);
    let mut is_after = true;
    joining.chain(&step.on).for_each(|one| {
        one.columns(&mut |slot| is_after &= own.contains(&slot) || known[slot]);
    });
    is_after
}

fn access_of(
    step: &Step,
    conditions: &[Expr],
    known: &[bool],
    planning: &Planning<'_>,
) -> Result<Access, SqlError> {
    let known = &|slot: usize| known[slot];
    match &step.source {
        Source::Table(table) => choose(table, step.offset, conditions, known, planning.budget),
        _ => Ok(Access::default()),
    }
}

/// Pairs of expressions that must be equal: one over known slots, one over this source.
fn equal_pairs(step: &Step, conditions: &[Expr], known: &[bool]) -> Vec<(Expr, Expr)> {
    let own = step.offset..step.offset + step.width;
    let only = |expr: &Expr, inside: &dyn Fn(usize) -> bool| {
        let (mut holds, mut any) = (!expr.is_volatile(), false);
        expr.columns(&mut |slot| {
            holds &= inside(slot);
            any = true;
        });
        holds && any
    };
    let mut pairs = Vec::new();
    for condition in conditions {
        let Expr::Compare(Compare::Eq, both) = condition else { continue };
        let [a, b] = &**both;
        for (before, mine) in [(a, b), (b, a)] {
            if only(before, &|slot| known[slot]) && only(mine, &|slot| own.contains(&slot)) {
                pairs.push((before.clone(), mine.clone()));
                break;
            }
        }
    }
    pairs
}

/// A source that is joined: rows before it, its own that fit by themselves, and pairs of both.
struct Join {
    before: f64,
    own: f64,
    pairs: f64,
    /// The fraction of its rows that are read for a row before: a semi join ends at a match.
    seen: f64,
    /// True if equalities join it.
    is_equal: bool,
}

impl Join {
    /// A semi or anti join.
    fn that_decides(matching: &Matching, before: f64) -> Join {
        let Matching { own, seen, tried, is_equal, .. } = *matching;
        Join { before, own, pairs: before * tried, seen, is_equal }
    }

    /// The cost of finding its rows in this way.
    fn cost(&self, route: &Route) -> f64 {
        let found = route.cost();
        match (route.depends, self.is_equal) {
            (true, _) => self.before * route.cost_of(self.seen),
            _ if self.before <= 1.0 => found,
            (false, true) => found + cost::hash(self.own, self.before, self.pairs),
            (false, false) => found + cost::nested(self.own, self.before * self.seen),
        }
    }
}

/// A source that is joined to rows by these conditions, and the rows after it.
fn join_of(
    step: &Step,
    conditions: &[Expr],
    known: &[bool],
    before: f64,
    estimate: &Estimate<'_>,
) -> (Join, f64) {
    let own = own_rows(step, conditions, estimate);
    if let Some(only) = step.only {
        let matching = Matching::of(step, own, conditions, estimate);
        let after = before * matching.passes(only);
        return (Join::that_decides(&matching, before), after);
    }
    let pairs = before * joined_fraction(step, conditions, known, estimate) * own;
    let join = Join { before, own, pairs, seen: 1.0, is_equal: !step.hash.is_empty() };
    (join, if step.left { pairs.max(before) } else { pairs })
}

fn cheapest(routes: Vec<Route>, join: &Join) -> (f64, Route) {
    let costed = routes.into_iter().map(|route| (join.cost(&route), route));
    let cheaper = |a: (f64, Route), b: (f64, Route)| if b.0 < a.0 { b } else { a };
    costed.reduce(cheaper).expect("a source has a way to its rows")
}

/// The rows of a source that fulfil the conditions which are about it alone.
fn own_rows(step: &Step, conditions: &[Expr], estimate: &Estimate<'_>) -> f64 {
    let own = step.offset..step.offset + step.width;
    let mine = conditions.iter().filter(|condition| {
        let (mut any, mut all) = (false, true);
        condition.columns(&mut |slot| {
            any = true;
            all &= own.contains(&slot);
        });
        any && all
    });
    estimate.rows(step.offset) * estimate.all(mine)
}

/// The fraction of pairs of rows before and own rows that fulfil the conditions about both.
fn joined_fraction(
    step: &Step,
    conditions: &[Expr],
    known: &[bool],
    estimate: &Estimate<'_>,
) -> f64 {
    let own = step.offset..step.offset + step.width;
    let both = conditions.iter().filter(|condition| {
        let (mut mine, mut others, mut ready) = (false, false, true);
        condition.columns(&mut |slot| {
            mine |= own.contains(&slot);
            others |= !own.contains(&slot);
            ready &= own.contains(&slot) || known[slot];
        });
        mine && others && ready
    });
    let both: Vec<&Expr> = both.collect();
    let apart: f64 = both.iter().map(|one| counted_apart(one, estimate)).product();
    (estimate.all(both) / apart).min(1.0)
}

/// The orders in which sources can run.
struct Orders<'o> {
    steps: &'o [Step],
    conditions: &'o [Expr],
    estimate: &'o Estimate<'o>,
    /// For each condition, the sources that it looks at.
    about: Vec<u64>,
    /// For each condition about several sources, the fraction of rows that fulfil it.
    fractions: Vec<f64>,
    /// The rows of each source that fit by themselves.
    own: Vec<f64>,
    /// Of semi and anti joins, what decides about the rows before.
    deciding: Vec<Option<Deciding>>,
    /// The ways to a source's rows, by what of its neighbours is known.
    routes: HashMap<(usize, u64), Vec<Route>>,
}

/// A semi or anti join among the sources.
struct Deciding {
    only: Only,
    /// The sources whose rows it decides about.
    after: u64,
    matching: Matching,
    /// Whether it can come before them, as an inner join.
    unique: Unique,
}

impl<'o> Orders<'o> {
    fn of(steps: &'o [Step], conditions: &'o [Expr], estimate: &'o Estimate<'o>) -> Orders<'o> {
        let about: Vec<u64> = conditions.iter().map(|one| sources_of(one, steps)).collect();
        let fraction = |(one, about): (&Expr, &u64)| match about.count_ones() {
            0 | 1 => 1.0,
            _ => (estimate.all([one]) / counted_apart(one, estimate)).min(1.0),
        };
        let fractions = conditions.iter().zip(&about).map(fraction).collect();
        let own_of = |step: &Step| own_rows(step, conditions_of(step, conditions), estimate);
        let own: Vec<f64> = steps.iter().map(own_of).collect();
        let mut deciding = Vec::with_capacity(steps.len());
        for (at, step) in steps.iter().enumerate() {
            let conditions = conditions_of(step, conditions);
            let decides = |only| Deciding {
                only,
                after: after(step, conditions, steps),
                matching: Matching::of(step, own[at], conditions, estimate),
                unique: match only {
                    Only::Matched => Unique::of(step, conditions),
                    Only::Unmatched => Unique::No,
                },
            };
            deciding.push(step.only.map(decides));
        }
        let routes = HashMap::new();
        Orders { steps, conditions, estimate, about, fractions, own, deciding, routes }
    }

    /// Rows that these sources have together.
    fn rows(&self, set: u64) -> f64 {
        let decided = members(set).filter(|at| self.decides(*at, set));
        let decided: u64 = decided.map(|at| 1 << at).sum();
        let mut rows = 1.0;
        for at in members(set) {
            rows *= match &self.deciding[at] {
                Some(one) if decided >> at & 1 == 1 => one.matching.passes(one.only),
                Some(one) => one.matching.distinct,
                None => self.own[at],
            };
        }
        let inside = |(about, _): &(&u64, &f64)| **about & !set == 0 && **about & decided == 0;
        let all = self.about.iter().zip(&self.fractions).filter(inside);
        rows * all.map(|(_, fraction)| fraction).product::<f64>()
    }

    /// True of a semi or anti join, if all rows that it decides about are among these.
    fn decides(&self, at: usize, set: u64) -> bool {
        self.deciding[at].as_ref().is_some_and(|one| one.after & !set == 0)
    }

    /// Sources that share a condition with a source.
    fn neighbours(&self, at: usize) -> u64 {
        let own = 1 << at;
        let after = self.deciding[at].as_ref().map_or(0, |one| one.after);
        let shares = self.about.iter().filter(|about| **about & own != 0);
        shares.fold(after, |all, about| all | about) & !own
    }

    /// The cost of joining a source to the rows of others.
    fn cost(&mut self, set: u64, next: usize, planning: &Planning<'_>) -> Result<f64, SqlError> {
        let known = set & self.neighbours(next);
        if !self.routes.contains_key(&(next, known)) {
            let conditions = conditions_of(&self.steps[next], self.conditions);
            let all: Vec<&Expr> = conditions.iter().collect();
            let is_known =
                |slot: usize| source_of(slot, self.steps).is_some_and(|at| known >> at & 1 == 1);
            let found = routes(&self.steps[next], &all, &is_known, self.estimate, planning)?;
            self.routes.insert((next, known), found);
        }
        let before = if set == 0 { 1.0 } else { self.rows(set) };
        let routes = self.routes[&(next, known)].iter();
        if let Some(deciding) = self.deciding[next].as_ref().filter(|_| self.decides(next, set)) {
            let join = Join::that_decides(&deciding.matching, before);
            return Ok(routes.map(|route| join.cost(route)).fold(f64::INFINITY, f64::min));
        }
        let own = 1 << next;
        let joins = |(about, one): (&u64, &Expr)| {
            about & own != 0
                && about & !(set | own) == 0
                && about.count_ones() > 1
                && matches!(one, Expr::Compare(Compare::Eq, _))
        };
        let join = Join {
            before,
            own: self.own[next],
            pairs: self.rows(set | own),
            seen: 1.0,
            is_equal: self.about.iter().zip(self.conditions).any(joins),
        };
        let is_made = |one: &&Deciding| one.unique == Unique::Made;
        if let Some(deciding) = self.deciding[next].as_ref().filter(is_made) {
            let join = Join { own: deciding.matching.distinct, ..join };
            let costs = routes.filter(|route| !route.depends).map(|route| join.cost(route));
            let least = costs.fold(f64::INFINITY, f64::min);
            return Ok(least + cost_of_unique(&deciding.matching));
        }
        Ok(routes.map(|route| join.cost(route)).fold(f64::INFINITY, f64::min))
    }

    /// The sources that can come after others: those that a condition joins to them, if there are
    /// any.
    fn next(&self, set: u64) -> Vec<usize> {
        let is_known =
            |slot: usize| source_of(slot, self.steps).is_some_and(|at| set >> at & 1 == 1);
        let can_begin = |at: usize| match &self.deciding[at] {
            Some(one) => one.unique != Unique::No || self.decides(at, set),
            None => true,
        };
        let ready = |at: &usize| {
            set >> at & 1 == 0 && self.steps[*at].source.is_ready(&is_known) && can_begin(*at)
        };
        let all: Vec<usize> = (0..self.steps.len()).filter(ready).collect();
        let joined: Vec<usize> =
            all.iter().copied().filter(|at| self.neighbours(*at) & set != 0).collect();
        if joined.is_empty() { all } else { joined }
    }

    /// The places of the sources, the cheapest order first; none if there is no order.
    fn best(mut self, planning: &Planning<'_>) -> Result<Vec<usize>, SqlError> {
        let count = self.steps.len();
        if count > u64::BITS as usize {
            return Ok(Vec::new());
        }
        let order = match count <= TABLES_MAX {
            true => self.cheapest(planning)?,
            false => self.greedy(planning)?,
        };
        Ok(order.into_iter().map(|at| self.steps[at].offset).collect())
    }

    fn cheapest(&mut self, planning: &Planning<'_>) -> Result<Vec<usize>, SqlError> {
        let all = (1usize << self.steps.len()) - 1;
        // For each set of sources the least cost, and the source that comes last.
        let mut least: Vec<Option<(f64, usize)>> = vec![None; all + 1];
        least[0] = Some((0.0, 0));
        for set in 0..all {
            planning.budget.tick(8)?;
            let Some((before, _)) = least[set] else { continue };
            for next in self.next(set as u64) {
                let total = before + self.cost(set as u64, next, planning)?;
                let with = set | 1 << next;
                if least[with].is_none_or(|(known, _)| total < known) {
                    least[with] = Some((total, next));
                }
            }
        }
        let (mut order, mut set) = (Vec::new(), all);
        while set != 0 {
            let Some((_, last)) = least[set] else { return Ok(Vec::new()) };
            order.push(last);
            set &= !(1 << last);
        }
        order.reverse();
        Ok(order)
    }

    fn greedy(&mut self, planning: &Planning<'_>) -> Result<Vec<usize>, SqlError> {
        let (mut order, mut set) = (Vec::new(), 0);
        while order.len() < self.steps.len() {
            let mut best: Option<(f64, usize)> = None;
            for next in self.next(set) {
                let total = self.cost(set, next, planning)? + self.rows(set | 1 << next);
                if best.is_none_or(|(least, _)| total < least) {
                    best = Some((total, next));
                }
            }
            let Some((_, next)) = best else { return Ok(Vec::new()) };
            order.push(next);
            set |= 1 << next;
        }
        Ok(order)
    }
}

/// The conditions that join a source: those of an anti join are its own.
fn conditions_of<'c>(step: &'c Step, all: &'c [Expr]) -> &'c [Expr] {
    if step.only == Some(Only::Unmatched) { &step.on } else { all }
}

/// The sources whose rows a semi or anti join decides about.
fn after(step: &Step, conditions: &[Expr], steps: &[Step]) -> u64 {
    let own = step.offset..step.offset + step.width;
    let joining = conditions
        .iter()
        .filter(|one| step.only == Some(Only::Unmatched) || looks(one, &own) == Looks::Both);
    let own = sources_of(&Expr::Column(step.offset), steps);
    joining.fold(0, |all, one| all | sources_of(one, steps)) & !own
}

fn members(set: u64) -> impl Iterator<Item = usize> {
    (0..u64::BITS as usize).filter(move |at| set >> at & 1 == 1)
}

fn source_of(slot: usize, steps: &[Step]) -> Option<usize> {
    steps.iter().position(|step| (step.offset..step.offset + step.width).contains(&slot))
}

/// The sources that a condition looks at, as bits; of more than 64 sources, none.
fn sources_of(condition: &Expr, steps: &[Step]) -> u64 {
    let mut found = 0;
    condition.columns(&mut |slot| {
        let at = source_of(slot, steps).filter(|at| *at < u64::BITS as usize);
        found |= at.map_or(0, |at| 1 << at);
    });
    found
}
