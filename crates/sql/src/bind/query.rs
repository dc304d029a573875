//! SELECT.
//!
//! The sources of a query are bound first, in the order of the statement, which gives each column its
//! place. Then conditions are collected, and the sources put in the order in which they run: where all
//! joins are inner ones, next comes always the source that can be looked up best with what is known.

use super::access::choose;
use super::arrange::{arrange, comes_sorted};
use super::group::Grouped;
use super::{Binder, Scope, ScopeColumn, Typed, column_name, folded};
use crate::catalog::Table;
use crate::error::{SqlError, code};
use crate::expr::{Expr, conjuncts};
use crate::plan::{Access, Busy, Group, Lock, OutputColumn, Select, SortKey, Source, Step};
use crate::system::SystemTable;
use crate::types::SqlType;
use sqlparser::ast::{
    self, Distinct, GroupByExpr, JoinOperator, LimitClause, NonBlock, OrderByKind, Query,
    SelectItem, SetExpr, SetOperator, SetQuantifier, TableFactor,
};
use std::sync::Arc;

/// The most columns of a result.
const COLUMNS_MAX: usize = 1664;

impl Binder<'_> {
    /// Binds a query inside an expression.
    pub(crate) fn inner_query(&mut self, query: &Query) -> Result<Select, SqlError> {
        self.query(query)
    }

    /// Binds a query.
    pub(crate) fn query(&mut self, query: &Query) -> Result<Select, SqlError> {
        self.depth += 1;
        if self.depth > 100 {
            return Err(SqlError::new(code::TOO_COMPLEX, "queries are nested too deeply"));
        }
        let names = self.named.clone();
        if let Some(with) = &query.with {
            if with.recursive {
                return Err(SqlError::unsupported("WITH RECURSIVE"));
            }
            for table in &with.cte_tables {
                self.named.insert(folded(&table.alias.name), (*table.query).clone());
            }
        }
        let bound = self.query_body(query);
        self.named = names;
        self.depth -= 1;
        bound
    }

    fn query_body(&mut self, query: &Query) -> Result<Select, SqlError> {
        let order: &[ast::OrderByExpr] = match query.order_by.as_ref().map(|order| &order.kind) {
            None => &[],
            Some(OrderByKind::Expressions(order)) => order,
            Some(OrderByKind::All(_)) => return Err(SqlError::unsupported("ORDER BY ALL")),
        };
        let lock = lock_of(query)?;
        let mut plan = match &*query.body {
            SetExpr::Select(select) => self.select(select, order, lock)?,
            SetExpr::Values(values) => {
                let rows: Vec<&Vec<ast::Expr>> =
                    values.rows.iter().map(|row| &row.content).collect();
                let plan = self.values(&rows)?;
                self.order_by_output(plan, order)?
            }
            SetExpr::Query(inner) => {
                let plan = self.query(inner)?;
                if order.is_empty() && query.limit_clause.is_none() {
                    return Ok(plan);
                }
                let plan = wrap(plan);
                self.order_by_output(plan, order)?
            }
            SetExpr::SetOperation { left, op: SetOperator::Union, set_quantifier, right } => {
                let plan = self.union(left, right, *set_quantifier)?;
                self.order_by_output(plan, order)?
            }
            SetExpr::SetOperation { op, .. } => return Err(SqlError::unsupported(op)),
            _ => return Err(SqlError::unsupported("this kind of query")),
        };
        if lock.is_some() && plan.lock.is_none() {
            return Err(SqlError::unsupported("FOR UPDATE of anything but one table"));
        }
        self.limits(query, &mut plan)?;
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
        let fetched = query.fetch.as_ref().and_then(|fetch| fetch.quantity.as_ref());
        let limit = limit.or(fetched);
        let mut count = |expr: Option<&ast::Expr>| -> Result<Option<Expr>, SqlError> {
            let Some(expr) = expr else { return Ok(None) };
            let (value, _) = self.within(Scope::default(), |binder| {
                let value = binder.expr(expr)?;
                binder.coerce(value, SqlType::Int8)
            })?;
            Ok(Some(value))
        };
        plan.limit = count(limit)?;
        plan.offset = count(offset)?;
        Ok(())
    }

    fn union(
        &mut self,
        left: &SetExpr,
        right: &SetExpr,
        quantifier: SetQuantifier,
    ) -> Result<Select, SqlError> {
        let mut side = |body: &SetExpr| match body {
            SetExpr::Select(select) => self.select(select, &[], None),
            SetExpr::Query(query) => self.query(query),
            SetExpr::SetOperation { left, op: SetOperator::Union, set_quantifier, right } => {
                self.union(left, right, *set_quantifier)
            }
            SetExpr::Values(values) => {
                let rows: Vec<&Vec<ast::Expr>> =
                    values.rows.iter().map(|row| &row.content).collect();
                self.values(&rows)
            }
            _ => Err(SqlError::unsupported("this kind of query")),
        };
        let (left, right) = (side(left)?, side(right)?);
        if left.output.len() != right.output.len() {
            let message = "each UNION query must have the same number of columns";
            return Err(SqlError::new(code::SYNTAX, message));
        }
        let mut plan = wrap(left);
        for (mine, other) in plan.output.iter_mut().zip(&right.output) {
            mine.ty = crate::functions::common(&[mine.ty, other.ty]);
        }
        let distinct = !matches!(quantifier, SetQuantifier::All);
        plan.union.push((right, distinct));
        Ok(plan)
    }

    /// Sorts by columns of the result, by name or number.
    fn order_by_output(
        &mut self,
        mut plan: Select,
        order: &[ast::OrderByExpr],
    ) -> Result<Select, SqlError> {
        for by in order {
            let place = output_place(&plan.output, &plan.project, &by.expr)?.ok_or_else(|| {
                SqlError::unsupported("ORDER BY of anything but a column of the result, here,")
            })?;
            plan.order.push(sort_key(by, place));
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

    /// Binds a SELECT without what stands around it, but for its order.
    fn select(
        &mut self,
        select: &ast::Select,
        order: &[ast::OrderByExpr],
        lock: Option<Lock>,
    ) -> Result<Select, SqlError> {
        check_supported(select)?;
        if select.from.iter().any(is_void) {
            return Ok(nothing(&select.projection));
        }
        let scope = Scope { aggregates: None, ..Scope::default() };
        let (mut plan, scope) =
            self.within(scope, |binder| binder.select_inside(select, order, lock))?;
        for step in &mut plan.steps {
            step.used = scope.used[step.offset..step.offset + step.width].to_vec();
        }
        Ok(plan)
    }

    fn select_inside(
        &mut self,
        select: &ast::Select,
        order: &[ast::OrderByExpr],
        lock: Option<Lock>,
    ) -> Result<Select, SqlError> {
        let (mut steps, mut conditions) = (Vec::new(), Vec::new());
        for table in &select.from {
            self.table_with_joins(table, &mut steps, &mut conditions)?;
        }
        if let Some(filter) = &select.selection {
            let filter = self.condition(filter)?;
            conjuncts(filter, &mut conditions);
        }
        let width = self.scope().used.len();
        self.scope().seen_inside = false;
        self.scope().aggregates = Some(Vec::new());
        let (mut project, mut output) = self.projection(&select.projection)?;
        let mut group_keys = self.group_keys(&select.group_by, &project, &output)?;
        let having = select.having.as_ref().map(|having| self.condition(having)).transpose()?;
        let mut sort = Vec::new();
        for by in order {
            let place = match output_place(&output, &project, &by.expr)? {
                Some(place) => place,
                None => {
                    let value = self.expr(&by.expr)?;
                    match project.iter().position(|known| *known == value.expr) {
                        Some(place) => place,
                        None if matches!(select.distinct, Some(Distinct::Distinct)) => {
                            let message = "for SELECT DISTINCT, ORDER BY expressions must appear in \
                                           select list";
                            return Err(SqlError::new(code::INVALID_COLUMN_REFERENCE, message));
                        }
                        None => {
                            project.push(value.expr);
                            project.len() - 1
                        }
                    }
                }
            };
            sort.push(sort_key(by, place));
        }
        let distinct_on = match &select.distinct {
            Some(Distinct::On(exprs)) => {
                self.distinct_on(exprs, &output, &mut project, &mut sort)?
            }
            _ => Vec::new(),
        };
        let aggregates = self.scope().aggregates.take().expect("it was put there");
        let is_grouped = !group_keys.is_empty() || !aggregates.is_empty() || having.is_some();
        let mut group = None;
        if is_grouped {
            if self.scope().seen_inside {
                return Err(SqlError::unsupported(
                    "a query inside of a grouped one that looks at it",
                ));
            }
            let mut having_parts = Vec::new();
            having.into_iter().for_each(|having| conjuncts(having, &mut having_parts));
            let mut grouped = Grouped { steps: &steps, keys: &mut group_keys, aggregates };
            for expr in project.iter_mut().chain(&mut having_parts) {
                grouped.over_groups(expr, self)?;
            }
            let aggregates = grouped.aggregates;
            group = Some(Group { keys: group_keys, aggregates, having: having_parts });
        }
        for column in &mut output {
            if column.ty == SqlType::Unknown {
                column.ty = SqlType::Text;
            }
        }
        let mut plan = Select {
            steps: Vec::new(),
            width,
            filter: Vec::new(),
            group,
            project,
            output,
            distinct: matches!(select.distinct, Some(Distinct::Distinct)),
            distinct_on,
            order: sort,
            limit: None,
            offset: None,
            lock: None,
            union: Vec::new(),
            sorted: false,
        };
        if lock.is_some() {
            let [Step { source: Source::Table(table), .. }] = steps.as_slice() else {
                return Err(SqlError::unsupported("FOR UPDATE of anything but one table"));
            };
            if plan.group.is_some() || plan.distinct || !plan.distinct_on.is_empty() {
                let message = "FOR UPDATE is not allowed with DISTINCT, GROUP BY or aggregates";
                return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
            }
            for slot in table.key_slots() {
                self.scope().used[slot] = true;
                plan.project.push(Expr::Column(slot));
            }
            plan.lock = lock;
        }
        arrange(steps, conditions, &mut plan);
        plan.sorted = comes_sorted(&plan);
        Ok(plan)
    }

    /// The places that DISTINCT ON names. The order begins with them, or is made to.
    fn distinct_on(
        &mut self,
        exprs: &[ast::Expr],
        output: &[OutputColumn],
        project: &mut Vec<Expr>,
        sort: &mut Vec<SortKey>,
    ) -> Result<Vec<usize>, SqlError> {
        let mut places: Vec<usize> = Vec::new();
        for expr in exprs {
            let place = match output_place(output, project, expr)? {
                Some(place) => place,
                None => {
                    let value = self.expr(expr)?.expr;
                    let known = project.iter().position(|known| *known == value);
                    known.unwrap_or_else(|| {
                        project.push(value);
                        project.len() - 1
                    })
                }
            };
            if !places.contains(&place) {
                places.push(place);
            }
        }
        if sort.iter().take(places.len()).any(|key| !places.contains(&key.place)) {
            let message = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
            return Err(SqlError::new(code::INVALID_COLUMN_REFERENCE, message));
        }
        for &place in &places {
            if sort.iter().all(|key| key.place != place) {
                sort.push(SortKey { place, descending: false, nulls_first: false });
            }
        }
        Ok(places)
    }

    fn projection(
        &mut self,
        items: &[SelectItem],
    ) -> Result<(Vec<Expr>, Vec<OutputColumn>), SqlError> {
        let (mut project, mut output) = (Vec::new(), Vec::new());
        for item in items {
            match item {
                SelectItem::UnnamedExpr(expr) => {
                    let value = self.shown(expr)?;
                    output.push(self.output(column_name(expr), &value));
                    project.push(value.expr);
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    let value = self.shown(expr)?;
                    output.push(self.output(folded(alias), &value));
                    project.push(value.expr);
                }
                SelectItem::Wildcard(_) => self.star(None, &mut project, &mut output)?,
                SelectItem::QualifiedWildcard(kind, _) => {
                    let ast::SelectItemQualifiedWildcardKind::ObjectName(name) = kind else {
                        return Err(SqlError::unsupported("this use of *"));
                    };
                    let alias = name.0.last().and_then(|part| part.as_ident()).map(folded);
                    self.star(alias.as_deref(), &mut project, &mut output)?;
                }
                SelectItem::ExprWithAliases { .. } => {
                    return Err(SqlError::unsupported("several aliases of one expression"));
                }
            }
        }
        if output.len() > COLUMNS_MAX {
            let message = format!("a result has at most {COLUMNS_MAX} columns");
            return Err(SqlError::new(code::TOO_MANY_COLUMNS, message));
        }
        Ok((project, output))
    }

    /// An expression of the result; literals in quotes are texts.
    fn shown(&mut self, expr: &ast::Expr) -> Result<Typed, SqlError> {
        let value = self.expr(expr)?;
        if value.ty == SqlType::Unknown {
            let expr = self.coerce(value, SqlType::Text)?;
            return Ok(Typed { expr, ty: SqlType::Text });
        }
        Ok(value)
    }

    fn output(&mut self, name: String, value: &Typed) -> OutputColumn {
        let origin = match &value.expr {
            Expr::Column(slot) => {
                let found = self.scope().columns.iter().find(|column| column.slot == *slot);
                found.map_or((0, 0), |column| column.origin)
            }
            _ => (0, 0),
        };
        OutputColumn { name, ty: value.ty, origin }
    }

    pub(crate) fn star(
        &mut self,
        alias: Option<&str>,
        project: &mut Vec<Expr>,
        output: &mut Vec<OutputColumn>,
    ) -> Result<(), SqlError> {
        let scope = self.scope();
        let wanted = |column: &&ScopeColumn| match alias {
            Some(alias) => column.alias == alias && column.origin.1 >= 0,
            None => column.shown,
        };
        let columns: Vec<ScopeColumn> = scope.columns.iter().filter(wanted).cloned().collect();
        if columns.is_empty() {
            let message = match alias {
                Some(alias) => format!("missing FROM-clause entry for table \"{alias}\""),
                None => "SELECT * with no tables specified is not valid".to_owned(),
            };
            return Err(SqlError::new(code::SYNTAX, message));
        }
        for column in columns {
            scope.used[column.slot] = true;
            project.push(Expr::Column(column.slot));
            let (name, ty, origin) = (column.name, column.ty, column.origin);
            output.push(OutputColumn { name, ty, origin });
        }
        Ok(())
    }

    fn group_keys(
        &mut self,
        group_by: &GroupByExpr,
        project: &[Expr],
        output: &[OutputColumn],
    ) -> Result<Vec<Expr>, SqlError> {
        let GroupByExpr::Expressions(exprs, modifiers) = group_by else {
            return Err(SqlError::unsupported("GROUP BY ALL"));
        };
        if !modifiers.is_empty() {
            return Err(SqlError::unsupported("this kind of GROUP BY"));
        }
        let mut keys = Vec::new();
        for expr in exprs {
            let is_number = matches!(expr, ast::Expr::Value(_));
            let is_column = match expr {
                ast::Expr::Identifier(name) => {
                    let name = folded(name);
                    self.scope().columns.iter().any(|column| column.name == name)
                }
                _ => false,
            };
            let place =
                if is_number || !is_column { output_place(output, project, expr)? } else { None };
            keys.push(match place {
                Some(place) => project[place].clone(),
                None => self.expr(expr)?.expr,
            });
        }
        Ok(keys)
    }
}

/// Makes a query the source of another that shows the same.
fn wrap(inner: Select) -> Select {
    let output = inner.output.clone();
    let width = output.len();
    let step = Step {
        source: Source::Query(Box::new(inner)),
        alias: String::new(),
        offset: 0,
        width,
        used: vec![true; width],
        access: Access { index: None, spans: Vec::new() },
        on: Vec::new(),
        left: false,
        right: false,
        hash: Vec::new(),
    };
    Select {
        steps: vec![step],
        width,
        project: (0..width).map(Expr::Column).collect(),
        ..empty(output)
    }
}

fn empty(output: Vec<OutputColumn>) -> Select {
    Select {
        steps: Vec::new(),
        width: 0,
        filter: Vec::new(),
        group: None,
        project: Vec::new(),
        output,
        distinct: false,
        distinct_on: Vec::new(),
        order: Vec::new(),
        limit: None,
        offset: None,
        lock: None,
        union: Vec::new(),
        sorted: false,
    }
}

/// True if a source that rows must come from is always empty.
fn is_void(table: &ast::TableWithJoins) -> bool {
    let void = |factor: &TableFactor| {
        let TableFactor::Table { name, .. } = factor else { return false };
        let parts: Vec<String> = name.0.iter().filter_map(|p| p.as_ident()).map(folded).collect();
        match parts.as_slice() {
            [name] => SystemTable::is_void(None, name),
            [schema, name] => SystemTable::is_void(Some(schema), name),
            _ => false,
        }
    };
    let is = |join: &ast::Join, left: bool| match join.join_operator {
        JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => left,
        JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_) => !left,
        _ => false,
    };
    if table.joins.iter().any(|join| is(join, false)) {
        return false;
    }
    void(&table.relation) || table.joins.iter().any(|join| !is(join, true) && void(&join.relation))
}

/// A query without rows, with the names of its columns.
fn nothing(items: &[SelectItem]) -> Select {
    let name = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) => column_name(expr),
        SelectItem::ExprWithAlias { alias, .. } => folded(alias),
        _ => "?column?".to_owned(),
    };
    let column = |item| OutputColumn { name: name(item), ty: SqlType::Text, origin: (0, 0) };
    of_values(Vec::new(), items.iter().map(column).collect())
}

/// A query that shows rows as they were written.
pub(crate) fn of_values(rows: Vec<Vec<Expr>>, output: Vec<OutputColumn>) -> Select {
    let width = output.len();
    let mut plan = wrap(empty(output));
    plan.steps[0].source = Source::Values(rows);
    plan.project = (0..width).map(Expr::Column).collect();
    plan
}

/// The place of a column of the result that ORDER BY or GROUP BY names by number or name.
fn output_place(
    output: &[OutputColumn],
    project: &[Expr],
    expr: &ast::Expr,
) -> Result<Option<usize>, SqlError> {
    match expr {
        ast::Expr::Value(value) => {
            let ast::Value::Number(digits, _) = &value.value else { return Ok(None) };
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

fn sort_key(by: &ast::OrderByExpr, place: usize) -> SortKey {
    let descending = matches!(by.options.sort, Some(ast::OrderBySort::Desc));
    SortKey { place, descending, nulls_first: by.options.nulls_first.unwrap_or(descending) }
}

fn lock_of(query: &Query) -> Result<Option<Lock>, SqlError> {
    let mut lock: Option<Lock> = None;
    for clause in &query.locks {
        let shared = clause.lock_type == ast::LockType::Share;
        let busy = match clause.nonblock {
            None => Busy::Wait,
            Some(NonBlock::Nowait) => Busy::Fail,
            Some(NonBlock::SkipLocked) => Busy::Skip,
        };
        let shared = shared && lock.is_none_or(|lock| lock.shared);
        lock = Some(Lock { shared, busy });
    }
    Ok(lock)
}

fn check_supported(select: &ast::Select) -> Result<(), SqlError> {
    let unsupported = [
        (select.top.is_some(), "TOP"),
        (select.into.is_some(), "SELECT INTO"),
        (!select.lateral_views.is_empty(), "LATERAL VIEW"),
        (!select.named_window.is_empty(), "WINDOW"),
        (select.qualify.is_some(), "QUALIFY"),
    ];
    match unsupported.iter().find(|(is_used, _)| *is_used) {
        Some((_, what)) => Err(SqlError::unsupported(what)),
        None => Ok(()),
    }
}

/// The step of a table that is changed, in a scope that has been entered.
pub(crate) fn changed_step(table: &Arc<Table>, mut step: Step, filter: Vec<Expr>) -> Step {
    step.access = choose(table, 0, &filter, &|_| false);
    step.on = filter;
    step
}

/// A query of the rows of several sources, side by side.
pub(crate) fn joined_rows(mut steps: Vec<Step>, conditions: Vec<Expr>, used: &[bool]) -> Select {
    for step in &mut steps {
        step.used = used[step.offset..step.offset + step.width].to_vec();
    }
    let mut plan = Select {
        width: used.len(),
        project: (0..used.len()).map(Expr::Column).collect(),
        ..empty(Vec::new())
    };
    arrange(steps, conditions, &mut plan);
    plan
}
