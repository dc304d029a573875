//! SELECT.
//!
//! The sources of a query are bound first, in the order of the statement, which gives each column
//! its slot. Then conditions are collected, and the sources are put in their execution order. If
//! all joins are inner ones, the next source is always the one with the best access path for the
//! known values.

use super::group::{GroupKeys, Grouped, group_keys, has_grouping};
use super::operators::{check_equality, check_order};
use super::query::{Locking, of_values, output_place, sort_key};
use super::rows::row_of_array;
use super::sets::listed;
use super::window::in_turn;
use super::{Binder, Scope, ScopeColumn, Typed, column_name, folded};
use crate::catalog::Named;
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::expr::{Expr, conjuncts};
use crate::optimize::{Planning, arrange, sort};
use crate::plan::{Group, LockedSource, OutputColumn, Select, SetCall, SortKey, Source, Step};
use crate::refuse;
use crate::rights::{Kind, Object, Rights};
use crate::system::SystemTable;
use crate::types::SqlType;
use sqlparser::ast::{self, Distinct, GroupByExpr, JoinOperator, SelectItem, TableFactor};
use std::sync::Arc;

/// The most columns of a result.
const COLUMNS_MAX: usize = 1664;

impl Binder<'_> {
    /// Binds a SELECT without the clauses around it, except for its order. Result columns of
    /// undetermined type get the type of their target, if that is known.
    pub(super) fn select(
        &mut self,
        select: &ast::Select,
        order: &[ast::OrderByExpr],
        lock: Option<&Locking>,
        targets: &[SqlType],
    ) -> Result<Select, SqlError> {
        refuse::select(select)?;
        if let Some(expanded) = super::drivers::expanded(select) {
            return self.select(&expanded, order, lock, targets);
        }
        if select.from.iter().any(is_void) {
            return self.over_nothing(select);
        }
        let scope = Scope { aggregates: None, ..Scope::default() };
        let (mut plan, scope) =
            self.within(scope, |binder| binder.select_inside(select, order, lock, targets))?;
        for step in &mut plan.steps {
            // The sources of subqueries have slots beyond those of the statement.
            let Some(used) = scope.used.get(step.offset..step.offset + step.width) else {
                continue;
            };
            step.used = used.to_vec();
            if let Source::Query(query) = &mut step.source {
                forget_unused(Arc::make_mut(query), &step.used);
            }
        }
        Ok(plan)
    }

    fn select_inside(
        &mut self,
        select: &ast::Select,
        order: &[ast::OrderByExpr],
        lock: Option<&Locking>,
        targets: &[SqlType],
    ) -> Result<Select, SqlError> {
        let (mut steps, mut conditions) = (Vec::new(), Vec::new());
        for table in &select.from {
            self.table_with_joins(table, &mut steps, &mut conditions)?;
        }
        let before_sets = self.scope().used.len();
        self.scope().sets = Some(SetCall::default());
        self.scope().aggregates = Some(Vec::new());
        self.scope().windows = Some(self.named_windows(select)?);
        let (mut project, mut output) = self.projection(&select.projection, targets)?;
        let sets = self.scope().sets.take().expect("it was put there");
        if let Some(filter) = &select.selection {
            // The list determines the types of parameters before the condition does.
            let aggregates = self.scope().aggregates.take();
            let windows = self.scope().windows.take();
            let filter = self.condition(filter)?;
            conjuncts(filter, &mut conditions);
            (self.scope().aggregates, self.scope().windows) = (aggregates, windows);
        }
        // A parameter that is a column is a text, which no other use may contradict.
        for (expr, column) in project.iter_mut().zip(&mut output) {
            if let (Expr::Param(number), SqlType::Unknown) = (&*expr, column.ty) {
                let open = Typed { expr: Expr::Param(*number), ty: SqlType::Unknown };
                (*expr, column.ty) = (self.coerce(open, SqlType::Text)?, SqlType::Text);
            }
        }
        let has_sets = !sets.parts.is_empty();
        if has_sets {
            steps.extend(listed(sets, before_sets, &mut project));
        }
        let width = self.scope().used.len();
        let grouping = group_keys(self, &select.group_by, &project, &output)?;
        let windows = self.scope().windows.take();
        let having = select.having.as_ref().map(|having| self.condition(having)).transpose()?;
        self.scope().windows = windows;
        let mut sort_keys = Vec::new();
        for by in order {
            self.budget.tick(project.len())?;
            let (place, ty) = match output_place(&output, &project, &by.expr)? {
                Some(place) => (place, output[place].ty.plain()),
                None => {
                    let value = self.expr(&by.expr)?;
                    let place = match project.iter().position(|known| *known == value.expr) {
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
                    };
                    (place, value.ty)
                }
            };
            let place = match ty.element() {
                Some(element) if ty.is_array() && select.distinct.is_none() => {
                    check_order(element)?;
                    project.push(row_of_array(project[place].clone(), element));
                    project.len() - 1
                }
                _ => {
                    check_order(ty)?;
                    place
                }
            };
            sort_keys.push(sort_key(by, place)?);
        }
        let distinct_on = match &select.distinct {
            Some(Distinct::Distinct) => {
                output.iter().try_for_each(|column| check_equality(column.ty))?;
                Vec::new()
            }
            Some(Distinct::On(exprs)) => {
                self.distinct_on(exprs, &output, &mut project, &mut sort_keys)?
            }
            _ => Vec::new(),
        };
        let in_order: Vec<usize> = order.iter().zip(&sort_keys).map(|(_, key)| key.place).collect();
        self.check_windows()?;
        let windows = self.scope().windows.take().map_or(Vec::new(), |windows| windows.found);
        let mut windows = in_turn(windows);
        let aggregates = self.scope().aggregates.take().expect("it was put there");
        let GroupKeys { keys, sets, is_grouped } = grouping;
        let is_grouped = is_grouped
            || !aggregates.is_empty()
            || having.is_some()
            || project.iter().any(has_grouping);
        if has_sets && (is_grouped || !windows.is_empty()) {
            let what = "a function that returns rows beside grouping, aggregates or windows";
            return Err(SqlError::unsupported(what).hint("Call it in FROM, or in a query around."));
        }
        let mut group = None;
        if is_grouped {
            let mut having_parts = Vec::new();
            having.into_iter().for_each(|having| conjuncts(having, &mut having_parts));
            let mut grouped = Grouped { steps: &steps, keys: &keys, sets: &sets, aggregates };
            for expr in project.iter_mut().chain(&mut having_parts) {
                grouped.over_groups(expr, self)?;
            }
            for window in &mut windows {
                let mut done = Ok(());
                window.exprs_mut(&mut |expr| {
                    if done.is_ok() {
                        done = grouped.over_groups(expr, self);
                    }
                });
                done?;
            }
            let aggregates = grouped.aggregates;
            group = Some(Group { keys, sets, aggregates, having: having_parts, first: false });
        }
        // The values of windows follow the row's own.
        let own =
            group.as_ref().map_or(width, |group| group.first_aggregate() + group.aggregates.len());
        project.iter_mut().for_each(|expr| place_windows(expr, own));
        for column in &mut output {
            if column.ty == SqlType::Unknown {
                column.ty = SqlType::Text;
            }
        }
        let mut plan = Select {
            width,
            group,
            windows,
            project,
            output,
            distinct: matches!(select.distinct, Some(Distinct::Distinct)),
            distinct_on,
            order: sort_keys,
            ..Select::default()
        };
        if let Some(locking) = lock {
            self.lock_rows(locking, &steps, &mut plan)?;
        }
        let planning = Planning::of(self.catalog, self.budget);
        arrange(steps, conditions, &mut plan, &planning)?;
        sort(&mut plan, &planning)?;
        if !in_order.is_empty() {
            if has_sets && !plan.distinct_on.is_empty() {
                plan = self.listed_late(plan, before_sets);
            }
            put_off(&mut plan, &in_order);
        }
        Ok(plan)
    }

    /// Moves set-returning functions of the target list above DISTINCT ON, as PostgreSQL does where
    /// neither DISTINCT ON nor ORDER BY uses them. Their slots begin at `first` and end the row.
    fn listed_late(&mut self, plan: Select, first: usize) -> Select {
        let is_listed =
            |expr: &Expr| expr.has(&|it| matches!(it, Expr::Column(at) if *at >= first));
        let sorted_by = plan.order.iter().map(|key| key.place);
        let looked_at: Vec<usize> = sorted_by.chain(plan.distinct_on.iter().copied()).collect();
        if looked_at.iter().any(|place| is_listed(&plan.project[*place])) {
            return plan;
        }
        let used = self.scope().used.clone();
        let mut inside = Select { width: first, ..plan.clone() };
        let behind = |at: &usize| first + at;
        let needed =
            plan.project.iter().enumerate().map(|(at, expr)| match looked_at.contains(&at) {
                true => expr.clone(),
                false => Expr::Const(Datum::Null),
            });
        inside.project = (0..first).map(Expr::Column).chain(needed).collect();
        inside.order.iter_mut().for_each(|key| key.place += first);
        inside.distinct_on = plan.distinct_on.iter().map(behind).collect();
        let column = OutputColumn { name: String::new(), ty: SqlType::Unknown, origin: (0, 0) };
        inside.output = vec![column; first];
        let (own, listed): (Vec<Step>, Vec<Step>) =
            inside.steps.into_iter().partition(|step| step.offset < first);
        inside.steps = own;
        for step in &mut inside.steps {
            step.used = used[step.offset..step.offset + step.width].to_vec();
        }
        let source = Source::Query(Arc::new(inside));
        let mut steps = vec![Step::of(source, String::new(), 0, first)];
        steps.extend(listed);
        Select { steps, distinct_on: Vec::new(), filter: Vec::new(), sorted: true, ..plan }
    }

    /// Appends the row keys of the rows to lock to the projection.
    fn lock_rows(
        &mut self,
        locking: &Locking,
        steps: &[Step],
        plan: &mut Select,
    ) -> Result<(), SqlError> {
        if plan.group.is_some()
            || !plan.windows.is_empty()
            || plan.distinct
            || !plan.distinct_on.is_empty()
        {
            let message =
                "FOR UPDATE is not allowed with DISTINCT, GROUP BY, aggregates or windows";
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
        }
        for named in locking.named() {
            let name = folded(named);
            if !steps.iter().any(|step| step.alias == name) {
                let message =
                    format!("relation \"{name}\" in FOR UPDATE clause not found in FROM clause");
                return Err(self.at(SqlError::new(code::UNDEFINED_TABLE, message), named));
            }
        }
        for (at, step) in steps.iter().enumerate() {
            let Some(lock) = locking.lock_of(&step.alias) else { continue };
            let Source::Table(table) = &step.source else {
                return Err(SqlError::unsupported("FOR UPDATE of anything but tables")
                    .hint("Name the tables whose rows are to be locked: FOR UPDATE OF them."));
            };
            // An all-NULL row of an outer join cannot be locked.
            if step.left || steps[at + 1..].iter().any(|later| later.right) {
                let message = "FOR UPDATE cannot be applied to the nullable side of an outer join";
                return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
            }
            self.need(Object::Relation(table.oid), Kind::Table, Rights::UPDATE);
            let key_at = plan.project.len();
            for slot in table.key_slots() {
                let (scope, at) = (self.scope(), step.offset + slot);
                if !std::mem::replace(&mut scope.used[at], true) {
                    scope.unnamed.push(at);
                }
                plan.project.push(Expr::Column(step.offset + slot));
            }
            if steps.len() > 1 {
                plan.locked.push(LockedSource { table: table.clone(), key_at, lock });
            }
            plan.lock = Some(lock);
        }
        Ok(())
    }

    /// The positions of the DISTINCT ON expressions in the projection. The order begins with them,
    /// or is extended by them.
    fn distinct_on(
        &mut self,
        exprs: &[ast::Expr],
        output: &[OutputColumn],
        project: &mut Vec<Expr>,
        sort: &mut Vec<SortKey>,
    ) -> Result<Vec<usize>, SqlError> {
        let mut places: Vec<usize> = Vec::new();
        for expr in exprs {
            self.budget.tick(project.len())?;
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
        targets: &[SqlType],
    ) -> Result<(Vec<Expr>, Vec<OutputColumn>), SqlError> {
        let (mut project, mut output) = (Vec::new(), Vec::new());
        for item in items {
            let target = targets.get(output.len()).copied();
            check_columns(output.len() + 1)?;
            self.budget.charge(size_of::<OutputColumn>())?;
            match item {
                SelectItem::UnnamedExpr(expr) => {
                    let value = self.shown(expr, target)?;
                    output.push(self.output(column_name(expr), &value));
                    project.push(value.expr);
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    super::change::check_alias(self, alias)?;
                    let value = self.shown(expr, target)?;
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
        Ok((project, output))
    }

    /// An expression of the result; quoted literals get the type of their target, or become texts.
    /// Without a target, a parameter stays without a type.
    fn shown(&mut self, expr: &ast::Expr, target: Option<SqlType>) -> Result<Typed, SqlError> {
        let value = self.expr(expr)?;
        let is_open = target.is_none() && matches!(value.expr, Expr::Param(_));
        if value.ty == SqlType::Unknown && !is_open {
            let ty = target.unwrap_or(SqlType::Text);
            let expr = self.coerce(value, ty)?;
            return Ok(Typed { expr, ty });
        }
        Ok(value)
    }

    pub(super) fn output(&mut self, name: String, value: &Typed) -> OutputColumn {
        let (origin, ty) = match &value.expr {
            Expr::Column(slot) => {
                let found = self.scope().columns.iter().find(|column| column.slot == *slot);
                found.map_or(((0, 0), value.ty), |column| (column.origin, column.ty))
            }
            Expr::Cast(
                _,
                ty @ (SqlType::Rounded(..) | SqlType::Spanned(..) | SqlType::Limited(..)),
            ) => ((0, 0), *ty),
            _ => ((0, 0), value.ty),
        };
        // The type of a value includes neither the precision of seconds nor the modifier of
        // elements.
        let ty = if ty.plain() == value.ty { ty } else { value.ty };
        OutputColumn { name, ty, origin }
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
        let found = scope.columns.iter().filter(&wanted).count();
        check_columns(output.len() + found)?;
        let mut columns: Vec<ScopeColumn> = scope.columns.iter().filter(wanted).cloned().collect();
        if alias.is_some() {
            // The order of the table's columns, even if USING put some first.
            columns.sort_by_key(|column| column.slot);
        }
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
}

/// Evaluates volatile target entries after sorting: `nextval` numbers the rows in their order, and
/// rows beyond the limit take no numbers. Keys of ORDER BY and DISTINCT ON are evaluated before.
fn put_off(plan: &mut Select, in_order: &[usize]) {
    if plan.distinct || plan.lock.is_some() {
        return;
    }
    for at in 0..plan.output.len() {
        let is_needed = in_order.contains(&at) || plan.distinct_on.contains(&at);
        if is_needed || !plan.project[at].is_volatile() {
            continue;
        }
        let mut late = std::mem::replace(&mut plan.project[at], Expr::Const(Datum::Null));
        over_projected(&mut late, &mut plan.project);
        plan.late.push((at, late));
    }
}

/// Rewrites an expression over a row to one over the projected row.
fn over_projected(expr: &mut Expr, project: &mut Vec<Expr>) {
    match expr {
        Expr::Column(_) => {
            let known = project.iter().position(|known| known == expr);
            let at = known.unwrap_or_else(|| {
                project.push(expr.clone());
                project.len() - 1
            });
            *expr = Expr::Column(at);
        }
        _ => expr.children_mut(&mut |child| over_projected(child, project)),
    }
}

/// Replaces windows by the slots of their values, which begin at `first`.
fn place_windows(expr: &mut Expr, first: usize) {
    match expr {
        Expr::Window(at) => *expr = Expr::Column(first + *at),
        _ => expr.children_mut(&mut |child| place_windows(child, first)),
    }
}

/// Unused expressions are not evaluated, and so cannot fail.
fn forget_unused(query: &mut Select, used: &[bool]) {
    if query.group.is_some() || query.distinct || query.other.is_some() {
        return;
    }
    for (at, value) in query.project.iter_mut().enumerate().take(used.len()) {
        let is_seen = used[at]
            || query.order.iter().any(|key| key.place == at)
            || query.distinct_on.contains(&at);
        if !is_seen && !value.is_volatile() {
            *value = Expr::Const(Datum::Null);
        }
    }
}

fn check_columns(count: usize) -> Result<(), SqlError> {
    if count <= COLUMNS_MAX {
        return Ok(());
    }
    let message = format!("target lists can have at most {COLUMNS_MAX} entries");
    Err(SqlError::new(code::TOO_MANY_COLUMNS, message))
}

/// True if a source that every row depends on is always empty.
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

impl Binder<'_> {
    /// A query over an empty system table. It has no rows, unless it computes aggregates: their
    /// values are those over no rows. Without aggregates, errors are not reported.
    fn over_nothing(&mut self, select: &ast::Select) -> Result<Select, SqlError> {
        let is_grouped =
            !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
        let (mut columns, mut aggregates) = (Vec::new(), 0);
        let scope = || Scope { of_nothing: Some(0), ..Scope::default() };
        for item in &select.projection {
            let (name, expr) = match item {
                SelectItem::UnnamedExpr(expr) => (column_name(expr), expr),
                SelectItem::ExprWithAlias { expr, alias } => (folded(alias), expr),
                _ => {
                    match starred(select, item) {
                        Some(known) => {
                            let typed = |ty| Ok(Typed { ty, ..unknown() });
                            columns.extend(known.into_iter().map(|(name, ty)| (name, typed(ty))));
                        }
                        None => columns.push(("?column?".to_owned(), Ok(unknown()))),
                    }
                    continue;
                }
            };
            // Inside of an expression, an undetermined column type becomes the required one.
            let is_inner = !self.scopes.is_empty() || self.is_branch;
            self.scopes.push(scope());
            let value = if is_inner { self.expr(expr) } else { self.shown(expr, None) };
            aggregates += self.scopes.pop().and_then(|scope| scope.of_nothing).unwrap_or(0);
            columns.push((name, value));
        }
        if is_grouped || (aggregates == 0 && select.having.is_none()) {
            let column = |(name, value): (String, Result<Typed, SqlError>)| OutputColumn {
                name,
                ty: value.map_or(SqlType::Unknown, |value| value.ty),
                origin: (0, 0),
            };
            return Ok(of_values(Vec::new(), columns.into_iter().map(column).collect()));
        }
        let (mut row, mut output) = (Vec::new(), Vec::new());
        for (name, value) in columns {
            let value = value?;
            let ty = match value.ty {
                // The type is determined by the other branch.
                SqlType::Unknown if self.is_branch => {
                    row.push(Expr::Const(Datum::Null));
                    output.push(OutputColumn { name, ty: SqlType::Unknown, origin: (0, 0) });
                    continue;
                }
                SqlType::Unknown => SqlType::Text,
                ty => ty,
            };
            row.push(self.coerce(value, ty)?);
            output.push(OutputColumn { name, ty, origin: (0, 0) });
        }
        let mut plan = of_values(vec![row], output);
        if let Some(having) = &select.having {
            let (having, _) = self.within(scope(), |binder| binder.condition(having))?;
            plan.filter.push(having);
        }
        Ok(plan)
    }

    /// The value of an aggregate over no rows, inside [`Binder::over_nothing`].
    pub(super) fn aggregate_of_nothing(&mut self, name: &str) -> Option<Typed> {
        let count = self.scopes.last_mut()?.of_nothing.as_mut()?;
        *count += 1;
        Some(match name {
            "count" => Typed { expr: Expr::Const(Datum::Int(0)), ty: SqlType::Int8 },
            _ => unknown(),
        })
    }
}

/// The columns that `*` or `name.*` stands for, if all sources are system tables.
fn starred(select: &ast::Select, item: &SelectItem) -> Option<Vec<(String, SqlType)>> {
    let only = match item {
        SelectItem::QualifiedWildcard(
            ast::SelectItemQualifiedWildcardKind::ObjectName(name),
            _,
        ) => Some(folded(name.0.last()?.as_ident()?)),
        _ => None,
    };
    let mut columns = Vec::new();
    for from in &select.from {
        let joined = from.joins.iter().map(|join| &join.relation);
        for factor in std::iter::once(&from.relation).chain(joined) {
            let TableFactor::Table { name, alias, .. } = factor else { return None };
            let named = Named::of(name).ok()?;
            let alias = alias.as_ref().map(|alias| folded(&alias.name));
            if only.as_ref().is_some_and(|only| *only != *alias.as_ref().unwrap_or(&named.name)) {
                continue;
            }
            let system = SystemTable::find(named.schema.as_deref(), &named.name)?;
            columns.extend(system.columns().iter().map(|(name, ty)| ((*name).to_owned(), *ty)));
        }
    }
    Some(columns)
}

/// NULL, without a type.
pub(super) fn unknown() -> Typed {
    Typed { expr: Expr::Const(Datum::Null), ty: SqlType::Unknown }
}
