//! Queries: the clauses around a SELECT, and the alternatives to a SELECT.
//!
//! ```text
//!   WITH names ( SELECT .. | VALUES .. | query UNION query ) ORDER BY .. LIMIT .. FOR UPDATE
//!                  select.rs
//! ```
//!
//! A query in the place of a table is a source like any other ([`wrap`]). So a UNION, or a
//! parenthesised query with its own order, becomes the only source of an outer query.

use super::convert::{bare, check_elements};
use super::operators::{check_equality, check_order};
use super::{Binder, NamedQuery, Scope, Typed, folded};
use crate::budget::Budget;
use crate::catalog::Table;
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::expr::Expr;
use crate::functions;
use crate::optimize::{Planning, arrange, choose, finish};
use crate::parse::keeps_keys;
use crate::plan::{Busy, Lock, Other, OutputColumn, Select, SetOperator, SortKey, Source, Step};
use crate::refuse;
use crate::transaction::LockKind;
use crate::types::{Family, SqlType};
use sqlparser::ast::{self, LimitClause, NonBlock, OrderByKind, Query, SetExpr, SetQuantifier};
use std::fmt::{self, Write};
use std::rc::Rc;
use std::sync::Arc;

impl Binder<'_> {
    /// Binds a query.
    pub(crate) fn query(&mut self, query: &Query) -> Result<Select, SqlError> {
        with_names(self, query, |binder| binder.query_body(query))
    }

    /// Binds the queries of WITH that are not referenced, to report their errors. They do not run
    /// and need no rights.
    fn unread(&mut self, from: usize) -> Result<(), SqlError> {
        for at in from..self.named.len() {
            if !self.named[at].is_read {
                let mark = self.budget.mark();
                self.needing_nothing(|binder| binder.mentioned(at).map(drop))?;
                self.budget.back_to(mark);
            }
        }
        Ok(())
    }

    fn query_body(&mut self, query: &Query) -> Result<Select, SqlError> {
        let order: &[ast::OrderByExpr] = match query.order_by.as_ref().map(|order| &order.kind) {
            None => &[],
            Some(OrderByKind::Expressions(order)) => order,
            Some(OrderByKind::All(_)) => return Err(SqlError::unsupported("ORDER BY ALL")),
        };
        let locking = Locking::of(query);
        let lock = locking.as_ref();
        let targets = std::mem::take(&mut self.targets);
        let mut plan = match &*query.body {
            SetExpr::Select(select) => self.select(select, order, lock, &targets)?,
            SetExpr::Query(inner) => {
                self.targets = targets;
                let plan = self.query(inner)?;
                if order.is_empty() && query.limit_clause.is_none() {
                    return Ok(plan);
                }
                let plan = wrap(plan);
                self.order_by_output(plan, order)?
            }
            body => {
                let plan = self.branch(body)?;
                self.order_by_output(plan, order)?
            }
        };
        if lock.is_some() && plan.lock.is_none() {
            return Err(SqlError::unsupported("FOR UPDATE of anything but one table"));
        }
        self.limits(query, &mut plan)?;
        finish(&mut plan, &Planning::of(self.catalog, self.budget))?;
        Ok(plan)
    }

    fn limits(&mut self, query: &Query, plan: &mut Select) -> Result<(), SqlError> {
        let (limit, offset) = match &query.limit_clause {
            None => (None, None),
            Some(LimitClause::LimitOffset { limit, offset, .. }) => {
                (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => (Some(limit), Some(offset)),
        };
        // FETCH FIRST ROW ONLY.
        let one = ast::Expr::value(ast::Value::Number("1".to_owned(), false));
        let fetched = query.fetch.as_ref().map(|fetch| fetch.quantity.as_ref().unwrap_or(&one));
        let limit = limit.or(fetched);
        let mut count = |expr: Option<&ast::Expr>, word: &str| -> Result<Option<Expr>, SqlError> {
            let Some(expr) = expr else { return Ok(None) };
            let (value, _) = self.within(Scope::default(), |binder| {
                let value = binder.expr(expr)?;
                if !matches!(value.ty.family(), Family::Number | Family::Unknown) {
                    let ty = bare(value.ty);
                    let message = format!("argument of {word} must be type bigint, not type {ty}");
                    return Err(SqlError::new(code::DATATYPE_MISMATCH, message));
                }
                binder.coerce(value, SqlType::Int8)
            })?;
            Ok(Some(value))
        };
        plan.limit = count(limit, "LIMIT")?;
        plan.ties = query.fetch.as_ref().is_some_and(|fetch| fetch.with_ties);
        if plan.ties && plan.order.is_empty() {
            let message = "WITH TIES cannot be specified without ORDER BY clause";
            return Err(SqlError::new(code::SYNTAX, message));
        }
        plan.offset = count(offset, "OFFSET")?;
        Ok(())
    }

    /// The body of a query: a SELECT, VALUES, a table, or a set operation.
    pub(super) fn branch(&mut self, body: &SetExpr) -> Result<Select, SqlError> {
        self.branch_for(body, &[])
    }

    /// As [`Binder::branch`], with these types for quoted literals of a SELECT.
    fn branch_for(&mut self, body: &SetExpr, targets: &[SqlType]) -> Result<Select, SqlError> {
        match body {
            SetExpr::Select(select) => {
                let mut plan = self.select(select, &[], None, targets)?;
                finish(&mut plan, &Planning::of(self.catalog, self.budget))?;
                Ok(plan)
            }
            SetExpr::Query(query) => not_locked(self.query(query)?),
            SetExpr::Values(values) => {
                let rows: Vec<&Vec<ast::Expr>> =
                    values.rows.iter().map(|row| &row.content).collect();
                self.values(&rows)
            }
            SetExpr::SetOperation { left, op, set_quantifier, right } => {
                let with = match op {
                    ast::SetOperator::Union => SetOperator::Union,
                    ast::SetOperator::Intersect => SetOperator::Intersect,
                    ast::SetOperator::Except => SetOperator::Except,
                    other => return Err(SqlError::unsupported(other)),
                };
                let all = match set_quantifier {
                    SetQuantifier::All => true,
                    SetQuantifier::Distinct | SetQuantifier::None => false,
                    other => return Err(SqlError::unsupported(format!("{op} {other}"))),
                };
                self.budget.deeper()?;
                let was_branch = std::mem::replace(&mut self.is_branch, true);
                let both = self.branches(left, right);
                self.is_branch = was_branch;
                let (left, right) = both?;
                together(left, right, with, all)
            }
            _ => Err(SqlError::unsupported("this kind of query")),
        }
    }

    /// Both sides of a set operation. A quoted literal gets the type of the other side's column.
    fn branches(&mut self, left: &SetExpr, right: &SetExpr) -> Result<(Select, Select), SqlError> {
        let (of_left, of_right) = (literals(left), literals(right));
        let is_literal = |literals: &[bool], at: usize| literals.get(at) == Some(&true);
        let types =
            |query: &Select| -> Vec<SqlType> { query.output.iter().map(|it| it.ty).collect() };
        let before = self.params.clone();
        let mut first = self.branch(left)?;
        let targets: Vec<SqlType> = types(&first);
        let is_open = |at: usize| is_literal(&of_left, at) && !is_literal(&of_right, at);
        // A parameter of the first side takes the type of the second as well.
        let mut opened: Vec<usize> = Vec::new();
        for (at, column) in first.project.iter().enumerate().filter(|(at, _)| is_open(*at)) {
            if let Expr::Param(number) = column
                && targets.get(at) == Some(&SqlType::Text)
                && before.get(*number).is_none_or(|ty| *ty == SqlType::Unknown)
            {
                self.params[*number] = SqlType::Unknown;
                opened.push(*number);
            }
        }
        let second = self.branch_for(right, &targets)?;
        let differs = |at: usize| second.output.get(at).is_some_and(|it| it.ty != targets[at]);
        if !opened.is_empty() || (0..targets.len()).any(|at| is_open(at) && differs(at)) {
            first = self.branch_for(left, &types(&second))?;
        }
        Ok((first, second))
    }

    /// Sorts by output columns, by name or number.
    fn order_by_output(
        &mut self,
        mut plan: Select,
        order: &[ast::OrderByExpr],
    ) -> Result<Select, SqlError> {
        for by in order {
            let place = output_place(&plan.output, &plan.project, &by.expr)?.ok_or_else(|| {
                SqlError::unsupported("ORDER BY of anything but a column of the result, here,")
            })?;
            check_order(plan.output[place].ty)?;
            plan.order.push(sort_key(by, place)?);
        }
        Ok(plan)
    }

    fn values(&mut self, rows: &[&Vec<ast::Expr>]) -> Result<Select, SqlError> {
        let width = rows.first().map_or(0, |row| row.len());
        if rows.iter().any(|row| row.len() != width) {
            let message = "VALUES lists must all be the same length";
            return Err(SqlError::new(code::SYNTAX, message));
        }
        let mut columns: Vec<Vec<Typed>> = vec![Vec::new(); width];
        self.within(Scope::default(), |binder| {
            for row in rows {
                for (column, value) in columns.iter_mut().zip(row.iter()) {
                    column.push(binder.expr(value)?);
                }
            }
            Ok(())
        })?;
        let (mut bound, mut output) = (vec![Vec::new(); rows.len()], Vec::new());
        for (at, column) in columns.into_iter().enumerate() {
            let (exprs, ty) = self.together(column)?;
            output.push(OutputColumn { name: format!("column{}", at + 1), ty, origin: (0, 0) });
            bound.iter_mut().zip(exprs).for_each(|(row, expr)| row.push(expr));
        }
        Ok(of_values(bound, output))
    }
}

/// Binds what stands behind the WITH of a query, if it has one.
pub(super) fn with_names<T>(
    binder: &mut Binder<'_>,
    query: &Query,
    bind: impl FnOnce(&mut Binder<'_>) -> Result<T, SqlError>,
) -> Result<T, SqlError> {
    let is_whole = std::mem::take(&mut binder.is_whole);
    binder.depth += 1;
    if binder.depth > 100 {
        return Err(SqlError::new(code::TOO_COMPLEX, "queries are nested too deeply"));
    }
    refuse::query(query)?;
    binder.budget.deeper()?;
    let names = binder.named.len();
    if let Some(with) = &query.with {
        for table in &with.cte_tables {
            binder.budget.charge(tree_bytes(&table.query))?;
            let name = folded(&table.alias.name);
            binder.budget.tick(binder.named.len() - names)?;
            if binder.named[names..].iter().any(|known| known.name == name) {
                let message = format!("WITH query name \"{name}\" specified more than once");
                let error = SqlError::new(code::DUPLICATE_ALIAS, message);
                return Err(binder.at(error, &table.alias.name));
            }
            let written = super::writing::written(binder, table, is_whole)?;
            let (query, depth) = (Rc::new(table.clone()), binder.scopes.len());
            let may_recurse = with.recursive;
            binder.named.push(NamedQuery {
                name,
                query,
                depth,
                may_recurse,
                found: None,
                is_read: written.is_some(),
                written,
                bound: None,
            });
        }
    }
    let bound = bind(binder);
    let bound = bound.and_then(|bound| binder.unread(names).map(|()| bound));
    binder.named.truncate(names);
    binder.depth -= 1;
    bound
}

/// Combines two queries after converting their columns to common types.
fn together(left: Select, right: Select, with: SetOperator, all: bool) -> Result<Select, SqlError> {
    let name = match with {
        SetOperator::Union => "UNION",
        SetOperator::Intersect => "INTERSECT",
        SetOperator::Except => "EXCEPT",
    };
    if left.output.len() != right.output.len() {
        let message = format!("each {name} query must have the same number of columns");
        return Err(SqlError::new(code::SYNTAX, message));
    }
    let mut types = Vec::with_capacity(left.output.len());
    for (at, (a, b)) in left.output.iter().zip(&right.output).enumerate() {
        types.push(match (is_null(&left, at), is_null(&right, at)) {
            (true, _) => b.ty,
            (_, true) => a.ty,
            _ if a.ty == SqlType::Unknown => b.ty,
            _ if b.ty == SqlType::Unknown => a.ty,
            _ if a.ty.family() == b.ty.family() => {
                check_elements(b.ty, a.ty)?;
                functions::common(&[a.ty, b.ty])
            }
            _ => {
                let (a, b) = (bare(a.ty), bare(b.ty));
                let message = format!("{name} types {a} and {b} cannot be matched");
                return Err(SqlError::new(code::DATATYPE_MISMATCH, message));
            }
        });
    }
    if !all {
        types.iter().try_for_each(|ty| check_equality(*ty))?;
    }
    let mut plan = of_types(left, &types);
    let query = of_types(right, &types);
    plan.other = Some(Box::new(Other { with, all, query }));
    Ok(plan)
}

/// Marks the columns of a SELECT that are quoted literals or parameters; empty if it has stars.
fn literals(body: &SetExpr) -> Vec<bool> {
    use ast::{SelectItem, Value::Placeholder, Value::SingleQuotedString};
    let SetExpr::Select(select) = body else { return Vec::new() };
    let is_literal = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            let is_open =
                |value: &ast::Value| matches!(value, SingleQuotedString(_) | Placeholder(_));
            Some(matches!(expr, ast::Expr::Value(value) if is_open(&value.value)))
        }
        _ => None,
    };
    select.projection.iter().map(is_literal).collect::<Option<_>>().unwrap_or_default()
}

/// Refuses a query that locks its rows.
pub(super) fn not_locked(query: Select) -> Result<Select, SqlError> {
    if query.lock.is_some() {
        return Err(SqlError::unsupported("FOR UPDATE in a query inside of another"));
    }
    Ok(query)
}

/// The approximate size of a copy of a query's syntax tree, by the length of its text.
pub(super) fn tree_bytes(query: &Query) -> usize {
    struct Length(usize);
    impl Write for Length {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 += text.len();
            Ok(())
        }
    }
    let mut length = Length(0);
    let _ = write!(length, "{query}");
    64 * length.0
}

/// True if a column of a query is a literal NULL, which fits any type.
fn is_null(query: &Select, at: usize) -> bool {
    query.other.is_none() && query.project.get(at) == Some(&Expr::Const(Datum::Null))
}

/// Converts the columns of a query to these types.
pub(super) fn of_types(inner: Select, types: &[SqlType]) -> Select {
    let mut plan = wrap(inner);
    for (at, ty) in types.iter().enumerate() {
        let from = std::mem::replace(&mut plan.output[at].ty, *ty);
        // Of the text types, only char(n) has a different representation.
        let is_kept_alike = ty.family() == Family::Text && !matches!(ty, SqlType::Char(_));
        if bare(from) != bare(*ty) && !is_kept_alike {
            plan.project[at] = super::retyped(Expr::Column(at), from, *ty);
        }
    }
    plan
}

/// Makes a query the source of another with the same output.
pub(super) fn wrap(inner: Select) -> Select {
    let output = inner.output.clone();
    let width = output.len();
    let mut step = Step::of(Source::Query(Arc::new(inner)), String::new(), 0, width);
    step.used = vec![true; width];
    Select {
        steps: vec![step],
        width,
        project: (0..width).map(Expr::Column).collect(),
        ..empty(output)
    }
}

pub(super) fn empty(output: Vec<OutputColumn>) -> Select {
    Select { output, ..Select::default() }
}

/// A query of VALUES.
pub(crate) fn of_values(rows: Vec<Vec<Expr>>, output: Vec<OutputColumn>) -> Select {
    let width = output.len();
    let mut plan = wrap(empty(output));
    plan.steps[0].source = Source::Values(rows);
    plan.project = (0..width).map(Expr::Column).collect();
    plan
}

/// The index of the output column that ORDER BY or GROUP BY names by number or name.
pub(super) fn output_place(
    output: &[OutputColumn],
    project: &[Expr],
    expr: &ast::Expr,
) -> Result<Option<usize>, SqlError> {
    match expr {
        ast::Expr::Value(value) => {
            let ast::Value::Number(digits, _) = &value.value else {
                let message = format!("{value} is neither a column nor the number of one");
                return Err(SqlError::new(code::SYNTAX, message));
            };
            let place = digits.parse::<usize>().ok().filter(|n| (1..=output.len()).contains(n));
            place.map(|place| Some(place - 1)).ok_or_else(|| {
                let message = format!("position {digits} is not in select list");
                SqlError::new(code::INVALID_COLUMN_REFERENCE, message)
            })
        }
        ast::Expr::Identifier(name) => {
            let name = folded(name);
            let mut places = (0..output.len()).filter(|&at| output[at].name == name);
            let place = places.next();
            if let Some(first) = place
                && places.any(|other| project.get(first) != project.get(other))
            {
                let message = format!("ORDER BY \"{name}\" is ambiguous");
                return Err(SqlError::new(code::AMBIGUOUS_COLUMN, message));
            }
            Ok(place)
        }
        _ => Ok(None),
    }
}

pub(super) fn sort_key(by: &ast::OrderByExpr, place: usize) -> Result<SortKey, SqlError> {
    let descending = match &by.options.sort {
        None | Some(ast::OrderBySort::Asc) => false,
        Some(ast::OrderBySort::Desc) => true,
        Some(ast::OrderBySort::Using(operator)) => {
            match operator.0.last().map(ToString::to_string).as_deref() {
                Some("<") => false,
                Some(">") => true,
                _ => {
                    let message = format!("operator {operator} is not a valid ordering operator");
                    let hint = "Ordering operators are \"<\" and \">\".";
                    return Err(SqlError::new(code::WRONG_OBJECT, message).hint(hint));
                }
            }
        }
    };
    let nulls_first = by.options.nulls_first.unwrap_or(descending);
    Ok(SortKey { place, descending, nulls_first })
}

/// The FOR UPDATE and FOR SHARE clauses: the lock, and its source, or all sources.
pub(super) struct Locking(Vec<(Lock, Option<ast::Ident>)>);

impl Locking {
    fn of(query: &Query) -> Option<Locking> {
        let last = |name: &ast::ObjectName| name.0.last().and_then(|part| part.as_ident()).cloned();
        let clauses = query.locks.iter().map(|clause| {
            let of = clause.of.as_ref();
            let keeps_keys = of.is_some_and(keeps_keys);
            let kind = match (clause.lock_type, keeps_keys) {
                (ast::LockType::Share, true) => LockKind::KeyShare,
                (ast::LockType::Share, false) => LockKind::Shared,
                (ast::LockType::Update, true) => LockKind::NoKeyUpdate,
                (ast::LockType::Update, false) => LockKind::Exclusive,
            };
            let busy = match clause.nonblock {
                None => Busy::Wait,
                Some(NonBlock::Nowait) => Busy::Fail,
                Some(NonBlock::SkipLocked) => Busy::Skip,
            };
            let named = of.filter(|of| !keeps_keys || of.0.len() > 1);
            (Lock { kind, busy }, named.and_then(last))
        });
        let clauses: Vec<_> = clauses.collect();
        (!clauses.is_empty()).then_some(Locking(clauses))
    }

    /// The sources named in the clauses.
    pub(super) fn named(&self) -> impl Iterator<Item = &ast::Ident> {
        self.0.iter().filter_map(|(_, of)| of.as_ref())
    }

    /// The lock of a source's rows, if any: the strongest of its clauses, with NOWAIT before SKIP
    /// LOCKED before waiting.
    pub(super) fn lock_of(&self, alias: &str) -> Option<Lock> {
        let means = |of: &Option<ast::Ident>| of.as_ref().is_none_or(|of| folded(of) == alias);
        let clauses = self.0.iter().filter(|(_, of)| means(of)).map(|(lock, _)| *lock);
        clauses.reduce(|a, b| Lock { kind: a.kind.max(b.kind), busy: a.busy.max(b.busy) })
    }
}

/// The step of the changed table, in a scope that has been entered.
pub(crate) fn changed_step(
    table: &Arc<Table>,
    mut step: Step,
    filter: Vec<Expr>,
    budget: &Budget,
) -> Result<Step, SqlError> {
    step.access = choose(table, 0, &filter, &|_| false, budget)?;
    step.on = filter;
    Ok(step)
}

/// A query of the rows of several sources, side by side.
pub(crate) fn joined_rows(
    mut steps: Vec<Step>,
    conditions: Vec<Expr>,
    used: &[bool],
    planning: &Planning<'_>,
) -> Result<Select, SqlError> {
    for step in &mut steps {
        step.used = used[step.offset..step.offset + step.width].to_vec();
    }
    let mut plan = Select {
        width: used.len(),
        project: (0..used.len()).map(Expr::Column).collect(),
        ..empty(Vec::new())
    };
    arrange(steps, conditions, &mut plan, planning)?;
    Ok(plan)
}
