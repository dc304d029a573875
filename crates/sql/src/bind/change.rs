//! INSERT, UPDATE, DELETE, and COPY, which is an INSERT or a SELECT without the text.
//!
//! What is written is a list over all columns of the table, each given, a default, or an expression over
//! the old row; so running a change looks at no names. Checks that need no row are made here: that a
//! column exists, is named once, and can take the type.

use super::query::{changed_step, joined_rows, of_values};
use super::{Binder, Scope, Typed, column_name, folded};
use crate::catalog::{Index, Table};
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::expr::{Expr, conjuncts};
use crate::plan::{
    Change, Conflict, Filled, Insert, OutputColumn, Returning, RowCheck, Select, Source, Step,
};
use crate::types::{Family, SqlType};
use sqlparser::ast::{
    self, Assignment, AssignmentTarget, ConflictTarget, FromTable, OnConflictAction, OnInsert,
    SelectItem, SetExpr, TableFactor, TableObject, UpdateTableFromKind,
};
use std::sync::Arc;

impl Binder<'_> {
    pub(crate) fn table_named(&self, name: &ast::ObjectName) -> Result<Arc<Table>, SqlError> {
        let parts: Vec<&ast::Ident> = name.0.iter().filter_map(|part| part.as_ident()).collect();
        let Some(last) = parts.last() else {
            return Err(SqlError::new(code::INVALID_NAME, "a table has no name"));
        };
        if parts.len() > 1 && folded(parts[parts.len() - 2]) != "public" {
            let message = format!("relation \"{name}\" cannot be changed: it is the system's");
            return Err(self.at(SqlError::new("42809", message), last));
        }
        self.catalog.table(&folded(last)).cloned().map_err(|error| self.at(error, last))
    }

    pub(crate) fn insert(&mut self, insert: &ast::Insert) -> Result<Insert, SqlError> {
        let TableObject::TableName(name) = &insert.table else {
            return Err(SqlError::unsupported("INSERT into anything but a table"));
        };
        let table = self.table_named(name)?;
        let columns = self.insert_columns(&table, &insert.columns)?;
        let source = match &insert.source {
            None => of_values(vec![Vec::new()], Vec::new()),
            Some(query) => self.insert_source(&table, &columns, query)?,
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
        let mut filled = Vec::with_capacity(table.columns.len());
        for at in 0..table.columns.len() {
            let place = columns[..given].iter().position(|column| *column == at);
            filled.push(match place {
                Some(place) => Filled::Given(place),
                None => Filled::Default(self.default_of(&table, at)?),
            });
        }
        let alias = insert.table_alias.as_ref().map(|alias| folded(&alias.alias));
        let conflict = self.conflict(&table, alias.as_deref(), insert.on.as_ref())?;
        let scope = self.table_scope(&table, &[alias.as_deref().unwrap_or(&table.name)])?;
        let (returning, _) = self.returning(scope, insert.returning.as_deref())?;
        let checks = self.checks(&table)?;
        Ok(Insert { table, columns: filled, source, checks, conflict, returning })
    }

    fn insert_columns(
        &self,
        table: &Arc<Table>,
        names: &[ast::ObjectName],
    ) -> Result<Vec<usize>, SqlError> {
        if names.is_empty() {
            return Ok((0..table.columns.len()).collect());
        }
        let mut columns: Vec<usize> = Vec::new();
        for name in names {
            let Some(ident) = name.0.last().and_then(|part| part.as_ident()) else { continue };
            let at = table.column(&folded(ident)).map_err(|error| self.at(error, ident))?;
            if columns.contains(&at) {
                let message = format!("column \"{}\" specified more than once", folded(ident));
                return Err(self.at(SqlError::new(code::DUPLICATE_COLUMN, message), ident));
            }
            columns.push(at);
        }
        Ok(columns)
    }

    fn insert_source(
        &mut self,
        table: &Arc<Table>,
        columns: &[usize],
        query: &ast::Query,
    ) -> Result<Select, SqlError> {
        let SetExpr::Values(values) = &*query.body else {
            let mut plan = self.query(query)?;
            for (at, column) in columns.iter().zip(plan.output.clone()) {
                check_assignable(&table.columns[*at], column.ty)?;
            }
            plan.lock = None;
            return Ok(plan);
        };
        let width = values.rows.first().map_or(0, |row| row.content.len());
        let mut rows = Vec::with_capacity(values.rows.len());
        for row in &values.rows {
            if row.content.len() != width {
                let message = "VALUES lists must all be the same length";
                return Err(SqlError::new(code::SYNTAX, message));
            }
            let mut bound = Vec::with_capacity(width);
            for (place, value) in row.content.iter().enumerate() {
                let Some(&at) = columns.get(place) else {
                    let message = "INSERT has more expressions than target columns";
                    return Err(SqlError::new(code::SYNTAX, message));
                };
                bound.push(self.assigned(table, at, value, Scope::default())?.0);
            }
            rows.push(bound);
        }
        let output = (0..width)
            .map(|place| OutputColumn {
                name: table.columns[columns[place]].name.clone(),
                ty: table.columns[columns[place]].ty,
                origin: (0, 0),
            })
            .collect();
        Ok(of_values(rows, output))
    }

    /// A value that becomes that of a column; the word DEFAULT is one.
    fn assigned(
        &mut self,
        table: &Arc<Table>,
        at: usize,
        value: &ast::Expr,
        scope: Scope,
    ) -> Result<(Expr, Scope), SqlError> {
        let column = &table.columns[at];
        if let ast::Expr::Identifier(word) = value
            && word.quote_style.is_none()
            && word.value.eq_ignore_ascii_case("default")
        {
            return Ok((self.default_of(table, at)?, scope));
        }
        self.within(scope, |binder| {
            let value = binder.expr(value)?;
            check_assignable(column, value.ty)?;
            if value.ty == SqlType::Unknown {
                return binder.coerce(value, column.ty);
            }
            Ok(value.expr)
        })
    }

    fn default_of(&mut self, table: &Arc<Table>, at: usize) -> Result<Expr, SqlError> {
        let column = &table.columns[at];
        let Some(default) = &column.default else { return Ok(Expr::Const(Datum::Null)) };
        let ast = crate::parse::parse_expression(default)?;
        let (expr, _) = self.within(Scope::default(), |binder| {
            let value = binder.expr(&ast)?;
            binder.coerce(value, column.ty)
        })?;
        Ok(expr)
    }

    /// What the rows of a table must fulfil.
    fn checks(&mut self, table: &Arc<Table>) -> Result<Vec<RowCheck>, SqlError> {
        let bound = table.checks.iter().map(|check| {
            let condition = crate::parse::parse_expression(&check.condition)?;
            let scope = self.table_scope(table, &[&table.name])?;
            let (condition, _) = self.within(scope, |binder| binder.condition(&condition))?;
            Ok(RowCheck { name: check.name.clone(), condition })
        });
        bound.collect()
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
        let (index, any) = match &on.conflict_target {
            None => (None, true),
            Some(ConflictTarget::Columns(names)) => {
                let names: Vec<String> = names.iter().map(folded).collect();
                (self.conflict_index(table, &names)?, false)
            }
            Some(ConflictTarget::OnConstraint(name)) => {
                let name = name.0.last().and_then(|part| part.as_ident()).map(folded);
                let name = name.unwrap_or_default();
                let index = table.indexes.iter().find(|index| index.name == name && index.unique);
                if index.is_none() && (table.key_name != name || !table.has_key()) {
                    let message = format!(
                        "constraint \"{name}\" for table \"{}\" does not exist",
                        table.name
                    );
                    return Err(SqlError::new(code::UNDEFINED_OBJECT, message));
                }
                (index.cloned(), false)
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
                let condition = match &update.selection {
                    None => None,
                    Some(condition) => {
                        Some(self.within(scope, |binder| binder.condition(condition))?.0)
                    }
                };
                Some((set, condition))
            }
        };
        Ok(Some(Conflict { index, any, set }))
    }

    fn conflict_index(
        &self,
        table: &Table,
        names: &[String],
    ) -> Result<Option<Arc<Index>>, SqlError> {
        let mut wanted = Vec::new();
        for name in names {
            wanted.push(table.column(name)?);
        }
        let same = |columns: &[usize]| {
            columns.len() == wanted.len() && wanted.iter().all(|at| columns.contains(at))
        };
        if table.has_key() && same(&table.key) {
            return Ok(None);
        }
        let index = table.indexes.iter().find(|index| index.unique && same(&index.columns));
        index.cloned().map(Some).ok_or_else(|| {
            let message = "there is no unique or exclusion constraint matching the ON CONFLICT \
                           specification";
            SqlError::new(code::INVALID_COLUMN_REFERENCE, message)
        })
    }

    /// The names of a table's row; with two aliases, of two rows side by side.
    fn table_scope(&mut self, table: &Arc<Table>, aliases: &[&str]) -> Result<Scope, SqlError> {
        let ((), mut scope) = self.within(Scope::default(), |binder| {
            for alias in aliases {
                binder.enter(Source::Table(table.clone()), None, alias, &mut Vec::new())?;
            }
            Ok(())
        })?;
        // A bare name means the row that is there.
        for column in scope.columns.iter_mut().filter(|column| column.slot >= table.width()) {
            column.shown = false;
        }
        Ok(scope)
    }

    fn assignments(
        &mut self,
        table: &Arc<Table>,
        assignments: &[Assignment],
        mut scope: Scope,
    ) -> Result<(Vec<(usize, Expr)>, Scope), SqlError> {
        let mut set: Vec<(usize, Expr)> = Vec::new();
        for assignment in assignments {
            let pairs: Vec<(&ast::ObjectName, &ast::Expr)> = match &assignment.target {
                AssignmentTarget::ColumnName(name) => vec![(name, &assignment.value)],
                AssignmentTarget::Tuple(names) => match &assignment.value {
                    ast::Expr::Tuple(values) if values.len() == names.len() => {
                        names.iter().zip(values).collect()
                    }
                    _ => {
                        return Err(SqlError::unsupported(
                            "SET (..) = of anything but as many values",
                        ));
                    }
                },
            };
            for (name, value) in pairs {
                let Some(ident) = name.0.last().and_then(|part| part.as_ident()) else { continue };
                let at = table.column(&folded(ident)).map_err(|error| self.at(error, ident))?;
                if set.iter().any(|(other, _)| *other == at) {
                    let message =
                        format!("multiple assignments to same column \"{}\"", folded(ident));
                    return Err(self.at(SqlError::new(code::SYNTAX, message), ident));
                }
                let (expr, after) = self.assigned(table, at, value, scope)?;
                scope = after;
                set.push((at, expr));
            }
        }
        Ok((set, scope))
    }

    fn returning(
        &mut self,
        scope: Scope,
        items: Option<&[SelectItem]>,
    ) -> Result<(Option<Returning>, Scope), SqlError> {
        let Some(items) = items else { return Ok((None, scope)) };
        self.within(scope, |binder| {
            let (mut project, mut output) = (Vec::new(), Vec::new());
            for item in items {
                let (value, name): (Typed, String) = match item {
                    SelectItem::UnnamedExpr(expr) => (binder.expr(expr)?, column_name(expr)),
                    SelectItem::ExprWithAlias { expr, alias } => {
                        (binder.expr(expr)?, folded(alias))
                    }
                    SelectItem::Wildcard(_) => {
                        binder.star(None, &mut project, &mut output)?;
                        continue;
                    }
                    _ => return Err(SqlError::unsupported("this in RETURNING")),
                };
                output.push(OutputColumn { name, ty: value.ty, origin: (0, 0) });
                project.push(value.expr);
            }
            Ok(Some(Returning { project, output }))
        })
    }

    pub(crate) fn update(&mut self, update: &ast::Update) -> Result<Change, SqlError> {
        if !update.table.joins.is_empty() {
            return Err(SqlError::unsupported("UPDATE of a join"));
        }
        let (table, alias) = self.changed_table(&update.table.relation)?;
        let alias = alias.as_deref().unwrap_or(&table.name);
        let from: &[ast::TableWithJoins] = match &update.from {
            None => &[],
            Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) => {
                from
            }
        };
        let (sources, scope) = self.beside(&table, alias, from)?;
        let (set, scope) = self.assignments(&table, &update.assignments, scope)?;
        let (returning, scope) = self.returning(scope, update.returning.as_deref())?;
        let mut change = self.target(&table, sources, update.selection.as_ref(), scope)?;
        change.returning = returning;
        change.checks = self.checks(&table)?;
        change.set = Some(set);
        Ok(change)
    }

    pub(crate) fn delete(&mut self, delete: &ast::Delete) -> Result<Change, SqlError> {
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        let [from] = from.as_slice() else {
            return Err(SqlError::unsupported("DELETE from several tables"));
        };
        if !from.joins.is_empty() {
            return Err(SqlError::unsupported("DELETE of a join"));
        }
        let (table, alias) = self.changed_table(&from.relation)?;
        let alias = alias.as_deref().unwrap_or(&table.name);
        let using = delete.using.as_deref().unwrap_or(&[]);
        let (sources, scope) = self.beside(&table, alias, using)?;
        let (returning, scope) = self.returning(scope, delete.returning.as_deref())?;
        let mut change = self.target(&table, sources, delete.selection.as_ref(), scope)?;
        change.returning = returning;
        Ok(change)
    }

    /// The table that is changed and the sources beside it, and the names of all.
    fn beside(
        &mut self,
        table: &Arc<Table>,
        alias: &str,
        others: &[ast::TableWithJoins],
    ) -> Result<(Sources, Scope), SqlError> {
        let mut sources = Sources::default();
        let ((), scope) = self.within(Scope::default(), |binder| {
            binder.enter(Source::Table(table.clone()), None, alias, &mut sources.steps)?;
            others.iter().try_for_each(|other| {
                binder.table_with_joins(other, &mut sources.steps, &mut sources.conditions)
            })
        })?;
        Ok((sources, scope))
    }

    fn changed_table(
        &self,
        factor: &TableFactor,
    ) -> Result<(Arc<Table>, Option<String>), SqlError> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else {
            return Err(SqlError::unsupported("a change of anything but a table"));
        };
        Ok((self.table_named(name)?, alias.as_ref().map(|alias| folded(&alias.name))))
    }

    fn target(
        &mut self,
        table: &Arc<Table>,
        sources: Sources,
        selection: Option<&ast::Expr>,
        scope: Scope,
    ) -> Result<Change, SqlError> {
        let Sources { mut steps, conditions: mut filter } = sources;
        // The row itself is read whole once it is locked; only the condition decides what is found.
        let mut used = scope.used.clone();
        used[..table.width()].fill(false);
        let scope = Scope { used, ..scope };
        let mut used = scope.used.clone();
        if let Some(condition) = selection {
            let (condition, scope) = self.within(scope, |binder| binder.condition(condition))?;
            conjuncts(condition, &mut filter);
            used = scope.used;
        }
        let joined = (steps.len() > 1).then(|| {
            table.key_slots().into_iter().for_each(|slot| used[slot] = true);
            Box::new(joined_rows(steps.clone(), filter.clone(), &used))
        });
        let mut step = steps.swap_remove(0);
        step.used = used[..table.width()].to_vec();
        let step = changed_step(table, step, filter);
        let (table, checks) = (table.clone(), Vec::new());
        Ok(Change { table, step, joined, set: None, checks, returning: None })
    }
}

/// A table that is changed, and what stands beside it.
#[derive(Default)]
struct Sources {
    steps: Vec<Step>,
    /// What the joins among them ask for.
    conditions: Vec<Expr>,
}

fn check_assignable(column: &crate::catalog::TableColumn, ty: SqlType) -> Result<(), SqlError> {
    let (to, from) = (column.ty.family(), ty.family());
    if from == to || from == Family::Unknown || to == Family::Text {
        return Ok(());
    }
    let message = format!(
        "column \"{}\" is of type {} but expression is of type {ty}",
        column.name, column.ty
    );
    let hint = "You will need to rewrite or cast the expression.";
    Err(SqlError::new(code::DATATYPE_MISMATCH, message).hint(hint))
}

/// COPY, and other statements that take values as they are.
impl Binder<'_> {
    /// An INSERT whose values are parameters, in the order of the columns.
    pub(crate) fn copy_in(
        &mut self,
        name: &ast::ObjectName,
        columns: &[ast::Ident],
    ) -> Result<Insert, SqlError> {
        let table = self.table_named(name)?;
        let names: Vec<ast::ObjectName> =
            columns.iter().map(|column| ast::ObjectName::from(column.clone())).collect();
        let given = self.insert_columns(&table, &names)?;
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
        let checks = self.checks(&table)?;
        Ok(Insert { table, columns: filled, source, checks, conflict: None, returning: None })
    }

    /// A query of the columns of a table.
    pub(crate) fn copy_out(
        &mut self,
        name: &ast::ObjectName,
        columns: &[ast::Ident],
    ) -> Result<Select, SqlError> {
        let table = self.table_named(name)?;
        let mut shown: Vec<String> = columns.iter().map(folded).collect();
        if shown.is_empty() {
            shown = table.columns.iter().map(|column| column.name.clone()).collect();
        }
        for name in &shown {
            table.column(name)?;
        }
        let always = |name: &String| format!("\"{}\"", name.replace('"', "\"\""));
        let shown: Vec<String> = shown.iter().map(always).collect();
        let text = format!("SELECT {} FROM {}", shown.join(", "), always(&table.name));
        match crate::parse::parse(&text)?.pop() {
            Some(crate::parse::Parsed::Sql(statement)) => match *statement {
                ast::Statement::Query(query) => self.query(&query),
                _ => Err(SqlError::unsupported("this COPY")),
            },
            _ => Err(SqlError::unsupported("this COPY")),
        }
    }

    /// An expression without columns.
    pub(crate) fn constant(&mut self, expr: &ast::Expr) -> Result<Expr, SqlError> {
        let (value, _) = self.within(Scope::default(), |binder| binder.expr(expr))?;
        Ok(value.expr)
    }
}
