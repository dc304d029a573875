//! FROM: sources, their names and slots, and joins.

use super::change::check_quotes;
use super::full_join::Both;
use super::inner::{looks_out, shift_levels};
use super::json_paths::argument_of;
use super::query::{joined_rows, not_locked, of_values};
use super::sets::is_set_function;
use super::view::Shape;
use super::{Binder, Scope, ScopeColumn, Typed, folded};
use crate::catalog::{self, Relation};
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::expr::{Compare, Expr, conjuncts};
use crate::functions::Func;
use crate::optimize::Planning;
use crate::parse::{NEW_TABLE, ROWS_FROM, sampled};
use crate::plan::{Named, OutputColumn, Select, SetCall, Source, Step};
use crate::refuse;
use crate::rights::{self, Object, Rights};
use crate::sequence::Sequence;
use crate::system::SystemTable;
use crate::types::SqlType;
use sqlparser::ast::{self, JoinConstraint, JoinOperator, TableFactor};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of the system column `tableoid`, as in PostgreSQL.
pub(super) const TABLE_OID: i16 = -6;

impl Binder<'_> {
    pub(crate) fn table_with_joins(
        &mut self,
        table: &ast::TableWithJoins,
        steps: &mut Vec<Step>,
        conditions: &mut Vec<Expr>,
    ) -> Result<(), SqlError> {
        let before = self.scope().columns.len();
        let is_outer = |join: &ast::Join| kind(join).is_some_and(|kind| kind.right);
        match &table.relation {
            TableFactor::NestedJoin { table_with_joins, alias: None }
                if table.joins.iter().any(is_outer) =>
            {
                self.nested(table_with_joins, steps)?;
            }
            relation => self.factor(relation, steps, conditions)?,
        }
        for (at, join) in table.joins.iter().enumerate() {
            let Some(Kind { constraint, left, right }) = kind(join) else {
                return Err(SqlError::unsupported("this kind of join"));
            };
            // A condition on rows that a later join may extend by NULLs must be applied before it.
            let decided = table.joins[at + 1..].iter().filter_map(kind).any(|later| later.right);
            if right && before > 0 {
                let what = "RIGHT and FULL JOIN behind another source";
                return Err(SqlError::unsupported(what)
                    .hint("Put the join first in FROM, or into a subquery."));
            }
            let columns_before = self.scope().columns.len();
            let count = steps.len();
            let mut inner = Vec::new();
            match &join.relation {
                TableFactor::NestedJoin { table_with_joins, alias: None }
                    if left || right || decided =>
                {
                    self.nested(table_with_joins, steps)?;
                }
                relation => self.factor(relation, steps, &mut inner)?,
            }
            let (mut on, mut common) = (Vec::new(), Vec::new());
            match constraint {
                JoinConstraint::On(condition) => {
                    let condition = self.condition(condition)?;
                    conjuncts(condition, &mut on);
                }
                JoinConstraint::Using(names) => {
                    let last = |name: &ast::ObjectName| {
                        name.0.last().and_then(|part| part.as_ident()).map(folded)
                    };
                    let names = names.iter().filter_map(last).collect();
                    (on, common) = self.united(names, [before, columns_before], (left, right))?;
                }
                JoinConstraint::Natural => {
                    let names = self.common_columns(before, columns_before);
                    (on, common) = self.united(names, [before, columns_before], (left, right))?;
                }
                JoinConstraint::None
                    if matches!(join.join_operator, JoinOperator::CrossJoin(_)) => {}
                JoinConstraint::None => {
                    let message = "JOIN needs a condition: ON or USING";
                    let error = SqlError::new(code::SYNTAX, message);
                    return Err(error.hint("CROSS JOIN combines each row with each."));
                }
            }
            if right && steps[count..].iter().any(|step| !step.source.is_ready(&|_| false)) {
                let message =
                    "invalid reference to a FROM-clause entry beside a RIGHT or FULL JOIN";
                let detail =
                    "The combining JOIN type must be INNER or LEFT for a LATERAL reference.";
                let error = SqlError::new(code::INVALID_COLUMN_REFERENCE, message);
                return Err(error.detail(detail));
            }
            if left || right || decided {
                let step = steps.last_mut().expect("it was just put there");
                (step.left, step.right) = (left, right);
                step.on = on;
            } else {
                conditions.append(&mut on);
                conditions.append(&mut inner);
            }
            if !common.is_empty() {
                super::full_join::unite(self, common, steps, conditions)?;
            }
        }
        Ok(())
    }

    /// The common column names of both sides of a join, in the order of the left side.
    fn common_columns(&mut self, left: usize, right: usize) -> Vec<String> {
        let columns = &self.scope().columns;
        let shown = |side: &[ScopeColumn]| -> Vec<String> {
            side.iter().filter(|column| column.shown).map(|column| column.name.clone()).collect()
        };
        let (left, right) = (shown(&columns[left..right]), shown(&columns[right..]));
        left.into_iter().filter(|name| right.contains(name)).collect()
    }

    /// The conditions of USING. Each pair of columns is merged: one is shown, and before all
    /// others, in the order of the names. Those of a full join are returned instead, as neither
    /// side has all of their values.
    fn united(
        &mut self,
        names: Vec<String>,
        sides: [usize; 2],
        (left, right): (bool, bool),
    ) -> Result<(Vec<Expr>, Vec<Both>), SqlError> {
        let (mut on, mut first, mut common) = (Vec::new(), Vec::new(), Vec::new());
        for name in names {
            let both = sides_of(&self.scope().columns, &name, sides)?;
            let [a, b] = both.map(|(slot, ty)| Typed { expr: Expr::Column(slot), ty });
            if left && right {
                for column in &mut self.scope().columns {
                    column.shown &= both.iter().all(|(slot, _)| column.slot != *slot);
                }
                common.push(Both { name, sides: [a.clone(), b.clone()] });
                on.push(self.compare(Compare::Eq, a, b)?.expr);
                continue;
            }
            let (shown, hidden) =
                if right { (both[1].0, both[0].0) } else { (both[0].0, both[1].0) };
            let scope = self.scope();
            for column in scope.columns.iter_mut().filter(|column| column.slot == hidden) {
                column.shown = false;
            }
            both.iter().for_each(|(slot, _)| scope.used[*slot] = true);
            first.push(shown);
            on.push(self.compare(Compare::Eq, a, b)?.expr);
        }
        let place = |column: &ScopeColumn| {
            first.iter().position(|slot| *slot == column.slot).unwrap_or(first.len())
        };
        self.scope().columns[sides[0]..].sort_by_key(place);
        Ok((on, common))
    }

    fn factor(
        &mut self,
        factor: &TableFactor,
        steps: &mut Vec<Step>,
        conditions: &mut Vec<Expr>,
    ) -> Result<(), SqlError> {
        refuse::source(factor)?;
        if let Some(sample) = sampled(factor)? {
            if let TableFactor::Table { name, .. } = factor
                && self.catalog.view(&catalog::Named::of(name)?).is_some()
            {
                let message =
                    "TABLESAMPLE clause can only be applied to tables and materialized views";
                return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
            }
            return self.factor(&sample, steps, conditions);
        }
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let parts: Vec<&ast::Ident> = name.0.iter().filter_map(|p| p.as_ident()).collect();
                let ([first, ..], [.., last]) = (&*parts, &*parts) else {
                    return Err(SqlError::new(code::INVALID_NAME, "a table has no name"));
                };
                let named = catalog::Named::of(name).map_err(|error| self.at(error, first))?;
                let (source, shape) = self.named_source(&named, (first, last))?;
                self.note_alias(last, alias.is_some());
                self.enter_as(source, shape.as_deref(), (alias.as_ref(), &named.name), steps)
            }
            TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } => {
                let (name, alias) = (name.to_string(), alias.as_ref());
                self.table_function((&name, *with_ordinality), &args.args, alias, steps)
            }
            TableFactor::Function { name, args, alias, with_ordinality, .. } => {
                let (name, alias) = (name.to_string(), alias.as_ref());
                self.table_function((&name, *with_ordinality), args, alias, steps)
            }
            TableFactor::UNNEST { alias, array_exprs, with_ordinality, .. } => {
                let arg = |array: &ast::Expr| {
                    ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(array.clone()))
                };
                let args: Vec<ast::FunctionArg> = array_exprs.iter().map(arg).collect();
                self.table_function(("unnest", *with_ordinality), &args, alias.as_ref(), steps)
            }
            TableFactor::Derived { subquery, alias, lateral: false, .. } => {
                let query = self.query_apart(subquery)?;
                self.enter(Source::Query(Arc::new(query)), alias.as_ref(), "", steps)
            }
            TableFactor::Derived { subquery, alias, lateral: true, .. } => {
                let (args, query) = self.lateral(subquery)?;
                self.enter(Source::Lateral(args, Arc::new(query)), alias.as_ref(), "", steps)
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                self.table_with_joins(table_with_joins, steps, conditions)
            }
            _ => Err(SqlError::unsupported("this kind of source in FROM")),
        }
    }

    /// A parenthesised join beside an outer join, as one source: its conditions apply to its own
    /// rows. Its columns keep their names.
    fn nested(
        &mut self,
        join: &ast::TableWithJoins,
        steps: &mut Vec<Step>,
    ) -> Result<(), SqlError> {
        self.budget.deeper()?;
        let hidden = self.scopes.pop().expect("a source is bound in a query");
        let bound = self.within(Scope::default(), |binder| {
            let (mut steps, mut conditions) = (Vec::new(), Vec::new());
            binder.table_with_joins(join, &mut steps, &mut conditions)?;
            let all = vec![true; binder.scope().used.len()];
            let planning = Planning::of(binder.catalog, binder.budget);
            joined_rows(steps, conditions, &all, &planning)
        });
        self.scopes.push(hidden);
        let (query, inside) = bound?;
        let (offset, width) = (self.scope().used.len(), query.width);
        self.budget.tick(self.scope().columns.len() * inside.columns.len())?;
        self.budget.charge(size_of::<Step>() + inside.columns.len() * size_of::<ScopeColumn>())?;
        for column in inside.columns {
            let twice = |known: &ScopeColumn| known.slot < offset && known.alias == column.alias;
            if self.scope().columns.iter().any(twice) {
                let message = format!("table name \"{}\" specified more than once", column.alias);
                return Err(SqlError::new(code::DUPLICATE_ALIAS, message));
            }
            let slot = offset + column.slot;
            self.scope().columns.push(ScopeColumn { slot, ..column });
        }
        self.scope().used.resize(offset + width, false);
        steps.push(Step::of(Source::Query(Arc::new(query)), String::new(), offset, width));
        Ok(())
    }

    /// Binds a query that does not see the other sources of the current one.
    fn query_apart(&mut self, query: &ast::Query) -> Result<Select, SqlError> {
        let hidden = self.scopes.pop().expect("a source is bound in a query");
        let bound = self.query(query);
        self.scopes.push(hidden);
        not_locked(bound?)
    }

    /// A reference to a query of WITH. The query sees the names around its definition. If it is
    /// uncorrelated, it is bound once and shared.
    pub(super) fn mentioned(&mut self, at: usize) -> Result<Source, SqlError> {
        self.named[at].is_read = true;
        if self.named[at].found.is_some() {
            return self.found(at);
        }
        if let Some(bound) = &self.named[at].bound {
            bound.mentions.fetch_add(1, Ordering::Relaxed);
            return Ok(Source::Named(bound.clone()));
        }
        // It sees the names before it, and itself only if it may recurse.
        let later = self.named.split_off(at);
        let one = later[0].clone();
        let (cte, depth) = (one.query.clone(), one.depth);
        let between = self.scopes.split_off(depth);
        let bound = match super::recursion::terms(&one) {
            Some(terms) => self.recursive(one, &terms),
            None => self.query(&cte.query).map(|query| (query, None)),
        };
        let levels = between.len().saturating_sub(1);
        self.scopes.extend(between);
        self.named.extend(later);
        let (query, recursion) = bound?;
        let mut query = not_locked(query)?;
        rename(&mut query.output, &cte)?;
        let term = recursion.as_ref().map(|(_, recursion)| &recursion.term);
        if term.is_some_and(|term| looks_out(term) || looks_out(&query)) {
            return Err(SqlError::unsupported("WITH RECURSIVE that looks at rows around it"));
        }
        if looks_out(&query) {
            if query.is_volatile() {
                let what = "a query of WITH that is volatile and looks at rows around it";
                return Err(SqlError::unsupported(what));
            }
            shift_levels(&mut query, levels);
            return Ok(Source::Query(Arc::new(query)));
        }
        let asked = matches!(cte.materialized, Some(ast::CteAsMaterialized::Materialized));
        let is_volatile = query.is_volatile() || term.is_some_and(Select::is_volatile);
        let is_fixed = asked || is_volatile;
        let (number, recursion) = match recursion {
            Some((number, recursion)) => (number, Some(recursion)),
            None => (self.number(), None),
        };
        let (name, mentions) = (folded(&cte.alias.name), AtomicUsize::new(1));
        let named = Arc::new(Named { number, name, query, recursion, is_fixed, mentions });
        self.named[at].bound = Some(named.clone());
        Ok(Source::Named(named))
    }

    fn named_source(
        &mut self,
        named: &catalog::Named,
        words: (&ast::Ident, &ast::Ident),
    ) -> Result<(Source, Shape), SqlError> {
        self.budget.tick(self.named.len())?;
        let catalog::Named { schema, name } = named;
        if schema.is_none()
            && let Some(at) = self.named.iter().rposition(|known| known.name == *name)
        {
            if let Some(written) = &self.named[at].written {
                let source = written.source(name).map_err(|error| self.at(error, words.0))?;
                return Ok((source, None));
            }
            return Ok((self.mentioned(at)?, None));
        }
        if let Some(found) = self.relation(named)? {
            self.mention(named, words);
            return Ok(found);
        }
        if let Some(Relation::Sequence(sequence)) = self.catalog.lookup(named) {
            if self.uses.is_some() {
                return Err(SqlError::unsupported("a view over a sequence"));
            }
            let object = Object::Relation(sequence.oid);
            self.need(object, rights::Kind::Sequence, Rights::SELECT);
            return Ok((of_sequence(sequence), None));
        }
        if let Some(system) = SystemTable::find(schema.as_deref(), name) {
            return Ok((Source::System(system), None));
        }
        Err(self.at(self.catalog.no_relation(named, "table"), words.0))
    }

    /// A table function. Its arguments may use the sources before it, but not outer queries. Also
    /// returns whether it has WITH ORDINALITY.
    fn table_function(
        &mut self,
        (name, numbered): (&str, bool),
        args: &[ast::FunctionArg],
        alias: Option<&ast::TableAlias>,
        steps: &mut Vec<Step>,
    ) -> Result<(), SqlError> {
        let name = name.to_lowercase();
        let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
        // A query of JDBC about indexes: the elements of an array and their numbers.
        let expands = name == "information_schema._pg_expandarray";
        let (name, numbered) = if expands { ("unnest", true) } else { (name, numbered) };
        if let Some(query) = super::json_records::as_query(self.catalog, name, args, alias)? {
            return self.factor(&query, steps, &mut Vec::new());
        }
        if name == format!("\"{ROWS_FROM}\"") {
            return rows_from(self, args, numbered, alias, steps);
        }
        if numbered && !is_set_function(name) {
            return Err(SqlError::unsupported(format!("WITH ORDINALITY of {name}")));
        }
        if let (Some(system), []) = (SystemTable::find(None, name), args) {
            return self.enter(Source::System(system), alias, name, steps);
        }
        if !is_set_function(name) {
            return self.one_value(name, args, alias, steps);
        }
        let mut bound = Vec::with_capacity(args.len());
        for arg in args {
            let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(arg)) = arg else {
                return Err(SqlError::unsupported(format!("this argument of {name}")));
            };
            bound.push(argument_of(self, name, arg)?);
        }
        let mut call = SetCall { numbered, ..SetCall::default() };
        self.set_function(name, bound, &mut call)?;
        if expands {
            call.columns[0].0 = "x".to_owned();
        }
        if numbered {
            let number = if expands { ("n", SqlType::Int4) } else { ("ordinality", SqlType::Int8) };
            call.columns.push((number.0.to_owned(), number.1));
        }
        self.enter(Source::Set(Box::new(call)), alias, name, steps)
    }

    /// A function with one result value, as a source of one row.
    fn one_value(
        &mut self,
        name: &str,
        args: &[ast::FunctionArg],
        alias: Option<&ast::TableAlias>,
        steps: &mut Vec<Step>,
    ) -> Result<(), SqlError> {
        let unsupported = || SqlError::unsupported(format!("the table function {name}"));
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(arg)) = arg else {
                return Err(unsupported());
            };
            values.push(self.expr(arg)?);
        }
        let value = self.call(name, values).map_err(|_| unsupported())?;
        if value.expr.nearest_level() == Some(0) {
            return Err(unsupported());
        }
        let shown = alias.map_or(name.to_owned(), |alias| folded(&alias.name));
        let column = OutputColumn { name: shown, ty: value.ty, origin: (0, 0) };
        let query = of_values(vec![vec![value.expr]], vec![column]);
        self.enter(Source::Query(Arc::new(query)), alias, name, steps)
    }

    /// Adds a source and its columns.
    pub(crate) fn enter(
        &mut self,
        source: Source,
        alias: Option<&ast::TableAlias>,
        name: &str,
        steps: &mut Vec<Step>,
    ) -> Result<(), SqlError> {
        self.enter_as(source, None, (alias, name), steps)
    }

    /// As [`Binder::enter`], limited to the columns of `shape`.
    fn enter_as(
        &mut self,
        source: Source,
        shape: Option<&[String]>,
        (alias, name): (Option<&ast::TableAlias>, &str),
        steps: &mut Vec<Step>,
    ) -> Result<(), SqlError> {
        let shown = alias.map_or(name.to_owned(), |alias| folded(&alias.name));
        let mut columns = source_columns(&source);
        if let Source::Set(call) = &source
            && let [(column, ..), rest @ ..] = columns.as_mut_slice()
            && rest.len() == usize::from(call.numbered)
            && column == name
        {
            column.clone_from(&shown);
        }
        let seen = shape.map_or(columns.len(), <[String]>::len);
        for (column, then) in columns.iter_mut().zip(shape.unwrap_or_default()) {
            column.0.clone_from(then);
        }
        if let Some(alias) = alias {
            check_quotes(self, &alias.name)?;
            alias.columns.iter().try_for_each(|column| check_quotes(self, &column.name))?;
            let given = alias.columns.len();
            if given > seen && shown == NEW_TABLE {
                let message = "too many column names were specified";
                return Err(SqlError::new(code::SYNTAX, message));
            }
            if given > seen {
                let message = format!(
                    "table \"{shown}\" has {seen} columns available but {given} columns specified"
                );
                return Err(SqlError::new(code::INVALID_COLUMN_REFERENCE, message));
            }
            for (column, renamed) in columns.iter_mut().zip(&alias.columns) {
                column.0 = folded(&renamed.name);
            }
        }
        self.budget.tick(self.scopes.last().map_or(0, |scope| scope.columns.len()))?;
        if !shown.is_empty() && self.scope().columns.iter().any(|column| column.alias == shown) {
            let message = format!("table name \"{shown}\" specified more than once");
            return Err(SqlError::new(code::DUPLICATE_ALIAS, message));
        }
        let offset = self.scope().used.len();
        let each = size_of::<ScopeColumn>() + size_of::<OutputColumn>() + shown.len();
        let names: usize = columns.iter().map(|(name, ..)| 2 * name.len() + each).sum();
        self.budget.charge(size_of::<Step>() + names)?;
        let hidden = match &source {
            Source::Table(table) => table.width() - table.columns.len(),
            _ => 0,
        };
        let width = columns.len() + hidden;
        for (at, (name, ty, origin)) in columns.into_iter().take(seen).enumerate() {
            // System columns are visible only by name.
            let (alias, slot, shown) = (shown.clone(), offset + at, origin.1 >= 0);
            self.scope().columns.push(ScopeColumn { alias, name, ty, slot, origin, shown });
        }
        if let (Source::Set(_), 1) = (&source, width) {
            // Its only value can also be named by the source's name.
            let column = self.scope().columns.last().filter(|column| column.name != shown);
            if let Some(column) = column.cloned() {
                let origin = (0, TABLE_OID - 1);
                let name = shown.clone();
                self.scope().columns.push(ScopeColumn { name, origin, shown: false, ..column });
            }
        }
        self.scope().used.resize(offset + width, false);
        steps.push(Step::of(source, shown, offset, width));
        Ok(())
    }
}

/// ROWS FROM: the rows of several functions side by side.
fn rows_from(
    binder: &mut Binder<'_>,
    functions: &[ast::FunctionArg],
    numbered: bool,
    alias: Option<&ast::TableAlias>,
    steps: &mut Vec<Step>,
) -> Result<(), SqlError> {
    let mut call = SetCall { numbered, ..SetCall::default() };
    for function in functions {
        let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Function(one))) =
            function
        else {
            return Err(SqlError::new(code::SYNTAX, "ROWS FROM has function calls only"));
        };
        let last = one.name.0.last().and_then(|part| part.as_ident());
        let name = last.map(folded).unwrap_or_default();
        let args = match &one.args {
            ast::FunctionArguments::List(list) if is_set_function(&name) => &list.args[..],
            _ => return Err(SqlError::unsupported(format!("{name} in ROWS FROM"))),
        };
        let mut bound = Vec::with_capacity(args.len());
        for arg in args {
            let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(arg)) = arg else {
                return Err(SqlError::unsupported(format!("this argument of {name}")));
            };
            bound.push(argument_of(binder, &name, arg)?);
        }
        binder.set_function(&name, bound, &mut call)?;
    }
    if numbered {
        call.columns.push(("ordinality".to_owned(), SqlType::Int8));
    }
    binder.enter(Source::Set(Box::new(call)), alias, "", steps)
}

/// A sequence as a source: its row in PostgreSQL.
fn of_sequence(sequence: &Sequence) -> Source {
    let name = || Expr::Const(Datum::Text(sequence.full_name().written()));
    let call = |func| Expr::Call(func, vec![name()]);
    let columns = [
        ("last_value", SqlType::Int8, call(Func::SequenceLast)),
        ("log_cnt", SqlType::Int8, Expr::Const(Datum::Int(0))),
        ("is_called", SqlType::Bool, call(Func::SequenceIsCalled)),
    ];
    let (mut output, mut values) = (Vec::new(), Vec::new());
    for (name, ty, value) in columns {
        output.push(OutputColumn { name: name.to_owned(), ty, origin: (0, 0) });
        values.push(value);
    }
    Source::Query(Arc::new(of_values(vec![values], output)))
}

/// The slots and types of a column on both sides of a join, whose columns begin at `left` and
/// `right`.
fn sides_of(
    columns: &[ScopeColumn],
    name: &str,
    [left, right]: [usize; 2],
) -> Result<[(usize, SqlType); 2], SqlError> {
    let find = |side: &[ScopeColumn], which: &str| {
        let mut found = side.iter().filter(|column| column.name == name && column.shown);
        let Some(first) = found.next() else {
            let message = format!(
                "column \"{name}\" specified in USING clause does not exist in {which} table"
            );
            return Err(SqlError::new(code::UNDEFINED_COLUMN, message));
        };
        if found.next().is_some() {
            let message =
                format!("common column name \"{name}\" appears more than once in {which} table");
            return Err(SqlError::new(code::AMBIGUOUS_COLUMN, message));
        }
        Ok((first.slot, first.ty))
    };
    Ok([find(&columns[left..right], "left")?, find(&columns[right..], "right")?])
}

/// A join: its condition, and the sides whose unmatched rows are kept.
struct Kind<'j> {
    constraint: &'j JoinConstraint,
    left: bool,
    right: bool,
}

fn kind(join: &ast::Join) -> Option<Kind<'_>> {
    let (constraint, left, right) = match &join.join_operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::CrossJoin(constraint) => (constraint, false, false),
        JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => {
            (constraint, true, false)
        }
        JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
            (constraint, false, true)
        }
        JoinOperator::FullOuter(constraint) => (constraint, true, true),
        _ => return None,
    };
    Some(Kind { constraint, left, right })
}

/// Applies the column names of a WITH clause to the columns of its query.
pub(super) fn rename(output: &mut [OutputColumn], cte: &ast::Cte) -> Result<(), SqlError> {
    let (given, has) = (cte.alias.columns.len(), output.len());
    if given > has {
        let name = folded(&cte.alias.name);
        let message = format!(
            "WITH query \"{name}\" has {has} columns available but {given} columns specified"
        );
        return Err(SqlError::new(code::INVALID_COLUMN_REFERENCE, message));
    }
    for (column, renamed) in output.iter_mut().zip(&cte.alias.columns) {
        column.name = folded(&renamed.name);
    }
    Ok(())
}

fn columns_of(query: &Select) -> Vec<(String, SqlType, (u32, i16))> {
    query.output.iter().map(|column| (column.name.clone(), column.ty, (0, 0))).collect()
}

fn source_columns(source: &Source) -> Vec<(String, SqlType, (u32, i16))> {
    match source {
        Source::Table(table) => {
            let column = |(at, column): (usize, &catalog::TableColumn)| {
                (column.name.clone(), column.ty, (table.oid, at as i16 + 1))
            };
            table.columns.iter().enumerate().map(column).collect()
        }
        Source::System(system) => {
            let column = |(name, ty): &(&str, SqlType)| ((*name).to_owned(), *ty, (0, 0));
            let own = [("tableoid".to_owned(), SqlType::Oid, (0, TABLE_OID))];
            system.columns().iter().map(column).chain(own).collect()
        }
        Source::Query(query) | Source::Lateral(_, query) => columns_of(query),
        Source::Named(named) => columns_of(&named.query),
        Source::Found(_, columns) => {
            columns.iter().map(|column| (column.name.clone(), column.ty, (0, 0))).collect()
        }
        Source::Values(_) => Vec::new(),
        Source::Set(call) => {
            call.columns.iter().map(|(name, ty)| (name.clone(), *ty, (0, 0))).collect()
        }
    }
}
