//! INSERT, and COPY, which is an INSERT or a SELECT in another notation.
//!
//! The written row is a list over all columns of the table. A column is given by its slot in the
//! source's rows, or has its default. ON CONFLICT names the key or the index of possible conflicts.

use super::change::{generated_always, is_default};
use super::expr::typed;
use super::foreign::Event;
use super::query::{of_values, wrap};
use super::subscripts::target;
use super::{Binder, Scope, folded};
use crate::catalog::{Identity, Index, Named, Part, Table};
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::expr::{Expr, conjuncts};
use crate::optimize::is_implied;
use crate::parse::{ConflictPart, Overriding, conflict_part};
use crate::plan::{Conflict, Filled, Insert, OutputColumn, Returning, Select, Source};
use crate::refuse;
use crate::rights::Rights;
use sqlparser::ast::{self, ConflictTarget, OnConflictAction, OnInsert, SetExpr, TableObject};
use std::sync::Arc;

/// For each name of an INSERT, the index of its column in the column list, and the assigned part.
type Parts<'n> = Vec<(usize, Option<&'n [ast::AccessExpr]>)>;

/// Refuses clauses that would read rows written by the same statement.
fn check_reads(
    table: &Table,
    conflict: Option<&Conflict>,
    returning: Option<&Returning>,
) -> Result<(), SqlError> {
    let set = conflict.and_then(|conflict| conflict.set.as_ref());
    let set = set
        .into_iter()
        .flat_map(|(set, condition)| set.iter().map(|(_, value)| value).chain(condition));
    let mut all = set.chain(returning.into_iter().flat_map(|returning| &returning.project));
    let is_own = |source: &Source| matches!(source, Source::Table(of) if of.id == table.id);
    if all.any(|expr| expr.reads(&is_own)) {
        let what = "a query in ON CONFLICT or RETURNING of an INSERT that reads the same table";
        return Err(SqlError::unsupported(what).hint("Ask before, in a statement of its own."));
    }
    Ok(())
}

/// Refuses values for columns that are always generated.
fn check_given(
    table: &Table,
    columns: &[usize],
    source: Option<&ast::Query>,
    overriding: Option<Overriding>,
) -> Result<(), SqlError> {
    for (place, at) in columns.iter().enumerate() {
        let column = &table.columns[*at];
        let is_always = column.identity == Some(Identity::Always) && overriding.is_none();
        if !is_always && !column.is_generated {
            continue;
        }
        let is_default = match source.map(|query| &*query.body) {
            Some(SetExpr::Values(values)) => {
                values.rows.iter().all(|row| row.content.get(place).is_none_or(is_default))
            }
            _ => false,
        };
        if !is_default {
            let message =
                format!("cannot insert a non-DEFAULT value into column \"{}\"", column.name);
            let error = generated_always(message, column);
            return Err(match column.is_generated {
                true => error,
                false => error.hint("Use OVERRIDING SYSTEM VALUE to override."),
            });
        }
    }
    Ok(())
}

/// Refuses generated columns in a COPY.
fn check_copied(table: &Table, columns: &[usize]) -> Result<(), SqlError> {
    let mut generated = columns.iter().filter(|at| table.columns[**at].is_generated);
    let Some(&at) = generated.next() else { return Ok(()) };
    let message = format!("column \"{}\" is a generated column", table.columns[at].name);
    Err(SqlError::new(code::INVALID_COLUMN_REFERENCE, message)
        .detail("Generated columns cannot be used in COPY."))
}

impl Binder<'_> {
    pub(crate) fn insert(&mut self, insert: &ast::Insert) -> Result<Insert, SqlError> {
        refuse::insert(insert)?;
        let TableObject::TableName(name) = &insert.table else {
            return Err(SqlError::unsupported("INSERT into anything but a table"));
        };
        let table = self.table_named(name)?;
        let (columns, parts) = self.insert_columns(&table, &insert.columns)?;
        self.need_of(&table, Rights::INSERT, None);
        let source = match &insert.source {
            None => of_values(vec![Vec::new()], Vec::new()),
            Some(query) => self.insert_source(&table, (&columns, &parts), query)?,
        };
        let given = source.output.len();
        if given > columns.len() || (given < columns.len() && !insert.columns.is_empty()) {
            let (more, less) = if given > columns.len() {
                ("expressions", "target columns")
            } else {
                ("target columns", "expressions")
            };
            let message = format!("INSERT has more {more} than {less}");
            return Err(SqlError::new(code::SYNTAX, message));
        }
        self.need_of(&table, Rights::INSERT, columns[..given].iter().copied());
        let overriding = self.overriding.take();
        check_given(&table, &columns[..given], insert.source.as_deref(), overriding)?;
        let mut filled = Vec::with_capacity(table.columns.len());
        for at in 0..table.columns.len() {
            let place = columns[..given].iter().position(|column| *column == at);
            let is_identity = table.columns[at].identity.is_some();
            filled.push(match place {
                Some(_) if is_identity && overriding == Some(Overriding::User) => {
                    Filled::Default(self.default_of(&table, at)?)
                }
                Some(place) => Filled::Given(place),
                None => Filled::Default(self.default_of(&table, at)?),
            });
        }
        let alias = insert.table_alias.as_ref().map(|alias| folded(&alias.alias));
        let conflict = self.conflict(&table, alias.as_deref(), insert.on.as_ref())?;
        let scope = self.table_scope(&table, &[alias.as_deref().unwrap_or(&table.name)])?;
        let (returning, _) = self.returning(scope, insert.returning.as_deref())?;
        let rules = self.rules(&table)?;
        check_reads(&table, conflict.as_ref(), returning.as_ref())?;
        let reads = source.reads(&|source| matches!(source, Source::Table(_)));
        let set = conflict.as_ref().and_then(|conflict| conflict.set.as_ref());
        let set: Option<Vec<usize>> = set.map(|(set, _)| {
            set.iter().map(|(at, _)| *at).chain(rules.computed_columns()).collect()
        });
        let links = self.links(&table, Event::Insert(set.as_deref()))?;
        Ok(Insert { table, columns: filled, source, reads, rules, conflict, links, returning })
    }

    fn insert_columns<'n>(
        &self,
        table: &Arc<Table>,
        names: &'n [ast::ObjectName],
    ) -> Result<(Vec<usize>, Parts<'n>), SqlError> {
        if names.is_empty() {
            return Ok(((0..table.columns.len()).collect(), Vec::new()));
        }
        let (mut columns, mut parts): (Vec<usize>, Parts<'n>) = (Vec::new(), Vec::new());
        for name in names {
            let (Some(ident), part) = target(name)? else { continue };
            let at = table.column(&folded(ident)).map_err(|error| self.at(error, ident))?;
            let known = columns.iter().position(|column| *column == at);
            let has_part =
                |place: usize| parts.iter().any(|(of, part)| *of == place && part.is_some());
            if let (Some(place), Some(_)) = (known, part)
                && has_part(place)
            {
                parts.push((place, part));
                continue;
            }
            parts.push((columns.len(), part));
            if known.is_some() {
                let message = format!("column \"{}\" specified more than once", folded(ident));
                return Err(self.at(SqlError::new(code::DUPLICATE_COLUMN, message), ident));
            }
            columns.push(at);
        }
        Ok((columns, parts))
    }

    fn insert_source(
        &mut self,
        table: &Arc<Table>,
        (columns, parts): (&[usize], &Parts<'_>),
        query: &ast::Query,
    ) -> Result<Select, SqlError> {
        let has_parts = parts.iter().any(|(_, part)| part.is_some());
        let SetExpr::Values(values) = &*query.body else {
            if has_parts {
                return Err(SqlError::unsupported("INSERT of a query into parts of columns"));
            }
            self.targets = columns.iter().map(|at| table.columns[*at].ty).collect();
            let mut plan = self.query(query)?;
            plan.lock = None;
            let mut stored = Vec::with_capacity(plan.output.len());
            for (place, output) in plan.output.iter().enumerate() {
                let value = typed(Expr::Column(place), output.ty);
                stored.push(match columns.get(place) {
                    Some(at) => self.stored(value, &table.columns[*at])?,
                    None => value.expr,
                });
            }
            if stored.iter().enumerate().any(|(place, value)| *value != Expr::Column(place)) {
                plan = wrap(plan);
                plan.project = stored;
            }
            return Ok(plan);
        };
        let width = values.rows.first().map_or(0, |row| row.content.len());
        let mut rows = Vec::with_capacity(values.rows.len());
        for row in &values.rows {
            if row.content.len() != width {
                let message = "VALUES lists must all be the same length";
                return Err(SqlError::new(code::SYNTAX, message));
            }
            if has_parts {
                rows.push(self.row_of_parts(table, (columns, parts), &row.content)?);
                continue;
            }
            let mut bound = Vec::with_capacity(width);
            for (place, value) in row.content.iter().enumerate() {
                let Some(&at) = columns.get(place) else {
                    let message = "INSERT has more expressions than target columns";
                    return Err(SqlError::new(code::SYNTAX, message));
                };
                bound.push(self.assigned(table, at, value, Scope::default())?.0);
            }
            let row = bound.into_iter().zip(columns);
            let row = row.map(|(value, at)| self.stored(value, &table.columns[*at]));
            rows.push(row.collect::<Result<Vec<_>, _>>()?);
        }
        let width = if has_parts { columns.len() } else { width };
        let output = (0..width)
            .map(|place| OutputColumn {
                name: table.columns[columns[place]].name.clone(),
                ty: table.columns[columns[place]].ty,
                origin: (0, 0),
            })
            .collect();
        Ok(of_values(rows, output))
    }

    /// A row of VALUES that assigns to parts of columns; a column is NULL before its first part is
    /// assigned.
    fn row_of_parts(
        &mut self,
        table: &Arc<Table>,
        (columns, parts): (&[usize], &Parts<'_>),
        values: &[ast::Expr],
    ) -> Result<Vec<Expr>, SqlError> {
        if values.len() != parts.len() {
            let (more, less) = match values.len() > parts.len() {
                true => ("expressions", "target columns"),
                false => ("target columns", "expressions"),
            };
            let message = format!("INSERT has more {more} than {less}");
            return Err(SqlError::new(code::SYNTAX, message));
        }
        let mut bound = vec![Expr::Const(Datum::Null); columns.len()];
        for ((place, part), value) in parts.iter().zip(values) {
            let at = columns[*place];
            bound[*place] = match part {
                None => {
                    let value = self.assigned(table, at, value, Scope::default())?.0;
                    self.stored(value, &table.columns[at])?
                }
                Some(part) => {
                    let before = std::mem::replace(&mut bound[*place], Expr::Const(Datum::Null));
                    let column = &table.columns[at];
                    let bind = |binder: &mut Self| binder.with_part(column, before, part, value);
                    self.within(Scope::default(), bind)?.0
                }
            };
        }
        Ok(bound)
    }

    fn conflict(
        &mut self,
        table: &Arc<Table>,
        alias: Option<&str>,
        on: Option<&OnInsert>,
    ) -> Result<Option<Conflict>, SqlError> {
        let Some(OnInsert::OnConflict(on)) = on else {
            return match on {
                None => Ok(None),
                Some(_) => Err(SqlError::unsupported("ON DUPLICATE KEY")),
            };
        };
        let (indexes, any) = match &on.conflict_target {
            None => (Vec::new(), true),
            Some(ConflictTarget::Columns(named)) => (self.conflict_indexes(table, named)?, false),
            Some(ConflictTarget::OnConstraint(name)) => {
                let name = name.0.last().and_then(|part| part.as_ident()).map(folded);
                let name = name.unwrap_or_default();
                let is_it = |index: &&Arc<Index>| index.name == name && index.is_of_all();
                let index = table.readable_indexes().find(is_it);
                if index.is_none() && (table.key_name != name || !table.has_key()) {
                    let message = format!(
                        "constraint \"{name}\" for table \"{}\" does not exist",
                        table.name
                    );
                    return Err(SqlError::new(code::UNDEFINED_OBJECT, message));
                }
                (index.or(table.primary.as_ref()).cloned().into_iter().collect(), false)
            }
        };
        let set = match &on.action {
            OnConflictAction::DoNothing => None,
            OnConflictAction::DoUpdate(_) if any => {
                let message = "ON CONFLICT DO UPDATE requires inference specification or constraint \
                               name";
                return Err(SqlError::new(code::SYNTAX, message));
            }
            OnConflictAction::DoUpdate(update) => {
                let scope = self.table_scope(table, &[alias.unwrap_or(&table.name), "excluded"])?;
                let (set, scope) = self.assignments(table, &update.assignments, scope)?;
                self.need_of(table, Rights::UPDATE, set.iter().map(|(at, _)| *at));
                let condition = match &update.selection {
                    None => None,
                    Some(condition) => {
                        Some(self.within(scope, |binder| binder.condition(condition))?.0)
                    }
                };
                Some((set, condition))
            }
        };
        Ok(Some(Conflict { indexes, any, set }))
    }

    /// The indexes that ON CONFLICT selects by columns, and by a condition that implies their
    /// predicates.
    fn conflict_indexes(
        &mut self,
        table: &Arc<Table>,
        named: &[ast::Ident],
    ) -> Result<Vec<Arc<Index>>, SqlError> {
        let (mut wanted, mut conditions) = (Vec::new(), Vec::new());
        for name in named {
            match conflict_part(name) {
                ConflictPart::Column(name) => {
                    let at = table.column(&name)?;
                    self.need_of(table, Rights::SELECT, [at]);
                    wanted.push(Expr::Column(at));
                }
                ConflictPart::Expression(text) => {
                    wanted.push(self.computed_target(text, false, table)?);
                }
                ConflictPart::Condition(text) => {
                    conjuncts(self.computed_target(text, true, table)?, &mut conditions);
                }
            }
        }
        let same = |parts: &[Part]| {
            let parts: Vec<Expr> = parts.iter().map(|part| part.expr(0)).collect();
            parts.len() == wanted.len() && wanted.iter().all(|one| parts.contains(one))
        };
        if table.has_key() && same(&table.key_parts()) {
            return Ok(table.primary.iter().cloned().collect());
        }
        let unique = || table.readable_indexes().filter(|i| i.unique && same(&i.parts));
        if let Some(index) = unique().find(|index| index.predicate.is_none()) {
            return Ok(vec![index.clone()]);
        }
        let (mut meant, conditions) = (Vec::new(), conditions.iter().collect::<Vec<_>>());
        for index in unique() {
            let Some(predicate) = &index.predicate else { continue };
            if is_implied(predicate, 0, &conditions, self.budget)? {
                meant.push(index.clone());
            }
        }
        if meant.is_empty() {
            let message = "there is no unique or exclusion constraint matching the ON CONFLICT \
                           specification";
            return Err(SqlError::new(code::INVALID_COLUMN_REFERENCE, message));
        }
        Ok(meant)
    }

    /// An INSERT with parameters as values, in the order of the columns.
    pub(crate) fn copy_in(
        &mut self,
        name: &ast::ObjectName,
        columns: &[ast::Ident],
    ) -> Result<Insert, SqlError> {
        let table = self.table_named(name)?;
        let names: Vec<ast::ObjectName> =
            columns.iter().map(|column| ast::ObjectName::from(column.clone())).collect();
        let (mut given, _) = self.insert_columns(&table, &names)?;
        match names.is_empty() {
            true => given.retain(|&at| !table.columns[at].is_generated),
            false => check_copied(&table, &given)?,
        }
        self.need_of(&table, Rights::INSERT, given.iter().copied());
        let mut filled = Vec::with_capacity(table.columns.len());
        for at in 0..table.columns.len() {
            let place = given.iter().position(|column| *column == at);
            filled.push(match place {
                Some(place) => Filled::Given(place),
                None => Filled::Default(self.default_of(&table, at)?),
            });
        }
        let output = given
            .iter()
            .map(|&at| OutputColumn {
                name: table.columns[at].name.clone(),
                ty: table.columns[at].ty,
                origin: (0, 0),
            })
            .collect();
        let source = of_values(Vec::new(), output);
        let rules = self.rules(&table)?;
        let (reads, conflict, returning) = (false, None, None);
        let links = self.links(&table, Event::Insert(None))?;
        Ok(Insert { table, columns: filled, source, reads, rules, conflict, links, returning })
    }

    /// A query of the columns of a table.
    pub(crate) fn copy_out(
        &mut self,
        name: &ast::ObjectName,
        columns: &[ast::Ident],
    ) -> Result<Select, SqlError> {
        if let Some(view) = self.catalog.view(&Named::of(name)?) {
            let message = format!("cannot copy from view \"{}\"", view.name);
            let error = SqlError::new(code::WRONG_OBJECT, message);
            return Err(error.hint("Try the COPY (SELECT ...) TO variant."));
        }
        let table = self.table_named(name)?;
        let mut shown: Vec<String> = columns.iter().map(folded).collect();
        if shown.is_empty() {
            let given = table.columns.iter().filter(|column| !column.is_generated);
            shown = given.map(|column| column.name.clone()).collect();
        }
        for name in &shown {
            check_copied(&table, &[table.column(name)?])?;
        }
        let always = |name: &String| format!("\"{}\"", name.replace('"', "\"\""));
        let shown: Vec<String> = shown.iter().map(always).collect();
        let text = format!("SELECT {} FROM {}", shown.join(", "), table.full_name().written());
        match crate::parse::parse(&text)?.pop() {
            Some(crate::parse::Parsed::Sql(statement)) => match *statement {
                ast::Statement::Query(query) => self.query(&query),
                _ => Err(SqlError::unsupported("this COPY")),
            },
            _ => Err(SqlError::unsupported("this COPY")),
        }
    }
}
