//! UPDATE and DELETE, and the common parts of all changes: assignments, checks, RETURNING.
//!
//! ```text
//!   update a set y = b.y from b where b.x = a.x      a row of both: slots of a, then slots of b
//! ```
//!
//! Assignments become a list of columns and expressions over the old row and the rows joined with
//! it, so execution resolves no names. Checks that need no row are made here: that a column exists,
//! is named once, and accepts the type.

use super::convert::{are_times, bare};
use super::expr::typed;
use super::foreign::Event;
use super::query::{changed_step, joined_rows};
use super::row_assign::row_assigned;
use super::subscripts::target;
use super::{Binder, Scope, Typed, column_name, folded};
use crate::budget::Budget;
use crate::catalog::{Catalog, Identity, Named, Relation, Table, TableColumn};
use crate::datum::Datum;
use crate::error::{SqlError, code};
use crate::expr::{Expr, conjuncts};
use crate::optimize::Planning;
use crate::plan::{Change, OutputColumn, Returning, RowCheck, RowRules, Source, Step};
use crate::refuse;
use crate::rights::Rights;
use crate::system::SystemTable;
use crate::transaction::LockKind;
use crate::types::{Family, SqlType};
use sqlparser::ast::{
    self, Assignment, AssignmentTarget, FromTable, SelectItem, TableFactor, UpdateTableFromKind,
};
use std::sync::Arc;

impl Binder<'_> {
    pub(crate) fn table_named(&mut self, name: &ast::ObjectName) -> Result<Arc<Table>, SqlError> {
        let first = name.0.iter().find_map(|part| part.as_ident());
        let Some(first) = first else {
            return Err(SqlError::new(code::INVALID_NAME, "a table has no name"));
        };
        let named = Named::of(name).map_err(|error| self.at(error, first))?;
        self.need_schema(&named);
        match self.catalog.lookup(&named) {
            Some(Relation::Table(table)) => Ok(table.clone()),
            Some(Relation::View(view)) => {
                let what = format!("changing rows through view \"{}\"", view.name);
                let error = SqlError::unsupported(what);
                Err(self.at(error.hint("Change the table that it shows."), first))
            }
            None if SystemTable::find(named.schema.as_deref(), &named.name).is_some() => {
                let message = format!("relation \"{name}\" cannot be changed: it is the system's");
                Err(self.at(SqlError::new("42809", message), first))
            }
            _ => Err(self.at(self.catalog.no_relation(&named, "table"), first)),
        }
    }

    /// A value that is assigned to a column, which may be the word DEFAULT. It is
    /// [converted](Binder::stored) once all values of the row are read, since one of them may
    /// determine the type of a parameter.
    pub(super) fn assigned(
        &mut self,
        table: &Arc<Table>,
        at: usize,
        value: &ast::Expr,
        scope: Scope,
    ) -> Result<(Typed, Scope), SqlError> {
        if is_default(value) {
            return Ok((typed(self.default_of(table, at)?, table.columns[at].ty), scope));
        }
        self.within(scope, |binder| binder.expr(value))
    }

    /// A value as one of a column: the assignment cast from its type to the column's. Lengths and
    /// ranges are checked when the row is written.
    ///
    /// # Errors
    /// 42804 if there is no such cast.
    pub(super) fn stored(&mut self, value: Typed, column: &TableColumn) -> Result<Expr, SqlError> {
        if !is_assignable(value.ty, column.ty) {
            return Err(self.not_assignable(value.ty, column));
        }
        match column.ty.family() {
            Family::Text if value.ty.family() != Family::Unknown => self.as_text(value),
            _ => self.coerce(value, column.ty),
        }
    }

    fn not_assignable(&self, from: SqlType, column: &TableColumn) -> SqlError {
        let own = match &column.domain {
            Some(domain) => domain.name.said(),
            None => bare(column.ty).to_string(),
        };
        let (name, from) = (&column.name, bare(from));
        let message =
            format!("column \"{name}\" is of type {own} but expression is of type {from}");
        let hint = "You will need to rewrite or cast the expression.";
        SqlError::new(code::DATATYPE_MISMATCH, message).hint(hint)
    }

    pub(super) fn default_of(&mut self, table: &Arc<Table>, at: usize) -> Result<Expr, SqlError> {
        let column = &table.columns[at];
        // Generated columns are computed after the others have their values.
        let default = column.default_or_domain().filter(|_| !column.is_generated);
        let Some(default) = default else { return Ok(Expr::Const(Datum::Null)) };
        self.budget.tick(default.len())?;
        let ast = crate::parse::parse_expression(&crate::sequence::bound(default))?;
        let bind = |binder: &mut Self| {
            binder.is_identity = column.identity.is_some();
            let value = binder.expr(&ast);
            binder.is_identity = false;
            binder.stored(value?, column)
        };
        self.needing_nothing(|binder| Ok(binder.within(Scope::default(), bind)?.0))
    }

    /// The computed columns and constraints for rows that are written to a table.
    pub(super) fn rules(&mut self, table: &Arc<Table>) -> Result<RowRules, SqlError> {
        self.needing_nothing(|binder| binder.rules_of(table))
    }

    fn rules_of(&mut self, table: &Arc<Table>) -> Result<RowRules, SqlError> {
        let mut rules = RowRules::default();
        for at in 0..table.columns.len() {
            if let Some(value) = self.generated(table, at)? {
                rules.computed.push((at, value));
            }
        }
        rules.domains = self.domain_rules(table)?;
        for check in &table.checks {
            let condition = crate::parse::parse_expression(&check.condition)?;
            let scope = self.table_scope(table, &[&table.name])?;
            let (condition, _) = self.within(scope, |binder| binder.condition(&condition))?;
            rules.checks.push(RowCheck { name: check.name.clone(), condition });
        }
        Ok(rules)
    }

    /// The names of a table's columns; with two aliases, of two rows side by side.
    pub(super) fn table_scope(
        &mut self,
        table: &Arc<Table>,
        aliases: &[&str],
    ) -> Result<Scope, SqlError> {
        let ((), mut scope) = self.within(Scope::default(), |binder| {
            for alias in aliases {
                binder.enter(Source::Table(table.clone()), None, alias, &mut Vec::new())?;
            }
            Ok(())
        })?;
        // An unqualified name means the existing row.
        for column in scope.columns.iter_mut().filter(|column| column.slot >= table.width()) {
            (column.shown, column.origin) = (false, (0, 0));
        }
        Ok(scope)
    }

    pub(super) fn assignments(
        &mut self,
        table: &Arc<Table>,
        assignments: &[Assignment],
        mut scope: Scope,
    ) -> Result<(Vec<(usize, Expr)>, Scope), SqlError> {
        let (mut set, mut parts): (Vec<(usize, Typed)>, Vec<usize>) = (Vec::new(), Vec::new());
        for assignment in assignments {
            let apart;
            let (names, values) = match &assignment.target {
                AssignmentTarget::ColumnName(name) => {
                    (std::slice::from_ref(name), std::slice::from_ref(&assignment.value))
                }
                AssignmentTarget::Tuple(names) => {
                    (apart, scope) = row_assigned(self, names.len(), &assignment.value, scope)?;
                    (names.as_slice(), apart.as_slice())
                }
            };
            for (name, value) in names.iter().zip(values) {
                let (Some(ident), part) = target(name)? else { continue };
                let at = table.column(&folded(ident)).map_err(|error| self.at(error, ident))?;
                let known = set.iter().position(|(other, _)| *other == at);
                if known.is_some() && !(part.is_some() && parts.contains(&at)) {
                    let message =
                        format!("multiple assignments to same column \"{}\"", folded(ident));
                    return Err(self.at(SqlError::new(code::SYNTAX, message), ident));
                }
                let column = &table.columns[at];
                let is_fixed = column.is_generated || column.identity == Some(Identity::Always);
                if is_fixed && (part.is_some() || !is_default(value)) {
                    let message =
                        format!("column \"{}\" can only be updated to DEFAULT", column.name);
                    return Err(generated_always(message, column));
                }
                if column.is_generated {
                    // It is computed whenever one of its inputs is set.
                    continue;
                }
                if let Some(part) = part {
                    scope.used[at] = true;
                    let before =
                        known.map_or(Expr::Column(at), |known| set.swap_remove(known).1.expr);
                    let bind = |binder: &mut Self| binder.with_part(column, before, part, value);
                    let (expr, after) = self.within(scope, bind)?;
                    scope = after;
                    parts.push(at);
                    set.push((at, typed(expr, column.ty)));
                    continue;
                }
                let (value, after) = self.assigned(table, at, value, scope)?;
                scope = after;
                set.push((at, value));
            }
        }
        let stored = |(at, value)| Ok((at, self.stored(value, &table.columns[at])?));
        Ok((set.into_iter().map(stored).collect::<Result<_, SqlError>>()?, scope))
    }

    pub(super) fn returning(
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
                        check_alias(binder, alias)?;
                        (binder.expr(expr)?, folded(alias))
                    }
                    SelectItem::Wildcard(_) => {
                        binder.star(None, &mut project, &mut output)?;
                        continue;
                    }
                    SelectItem::QualifiedWildcard(
                        ast::SelectItemQualifiedWildcardKind::ObjectName(name),
                        _,
                    ) => {
                        let alias = name.0.last().and_then(|part| part.as_ident()).map(folded);
                        binder.star(alias.as_deref(), &mut project, &mut output)?;
                        continue;
                    }
                    _ => return Err(SqlError::unsupported("this in RETURNING")),
                };
                output.push(OutputColumn { origin: (0, 0), ..binder.output(name, &value) });
                project.push(value.expr);
            }
            Ok(Some(Returning { project, output }))
        })
    }

    pub(crate) fn update(&mut self, update: &ast::Update) -> Result<Change, SqlError> {
        refuse::update(update)?;
        if !update.table.joins.is_empty() {
            return Err(SqlError::unsupported("UPDATE of a join"));
        }
        let (table, alias) = self.changed_table(&update.table.relation)?;
        self.need_of(&table, Rights::UPDATE, None);
        let alias = alias.as_deref().unwrap_or(&table.name);
        let from: &[ast::TableWithJoins] = match &update.from {
            None => &[],
            Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) => {
                from
            }
        };
        let (sources, scope) = self.beside(&table, alias, from)?;
        // The condition determines the type of a parameter first.
        let (condition, scope) = self.change_condition(update.selection.as_ref(), scope)?;
        let found_by = scope.used.clone();
        let (returning, scope) = self.returning(scope, update.returning.as_deref())?;
        let (set, scope) = self.assignments(&table, &update.assignments, scope)?;
        self.need_of(&table, Rights::UPDATE, set.iter().map(|(at, _)| *at));
        let mut change = self.target(&table, sources, (condition, &found_by), &scope)?;
        change.returning = returning;
        change.rules = self.rules(&table)?;
        let mut columns: Vec<usize> = set.iter().map(|(at, _)| *at).collect();
        change.rules.computed.retain(|(_, value)| looks_at(value, &columns));
        columns.extend(change.rules.computed_columns());
        change.links = self.links(&table, Event::Update(&columns))?;
        change.lock = self.lock_of(&table, &columns);
        change.set = Some(set);
        look_at(&mut change);
        Ok(change)
    }

    pub(crate) fn delete(&mut self, delete: &ast::Delete) -> Result<Change, SqlError> {
        refuse::delete(delete)?;
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        let [from] = from.as_slice() else {
            return Err(SqlError::unsupported("DELETE from several tables"));
        };
        if !from.joins.is_empty() {
            return Err(SqlError::unsupported("DELETE of a join"));
        }
        let (table, alias) = self.changed_table(&from.relation)?;
        self.need_of(&table, Rights::DELETE, None);
        let alias = alias.as_deref().unwrap_or(&table.name);
        let using = delete.using.as_deref().unwrap_or(&[]);
        let (sources, scope) = self.beside(&table, alias, using)?;
        let (condition, scope) = self.change_condition(delete.selection.as_ref(), scope)?;
        let found_by = scope.used.clone();
        let (returning, scope) = self.returning(scope, delete.returning.as_deref())?;
        let mut change = self.target(&table, sources, (condition, &found_by), &scope)?;
        change.returning = returning;
        change.links = self.links(&table, Event::Delete)?;
        look_at(&mut change);
        Ok(change)
    }

    /// The changed table and the sources joined with it, with the names of all columns.
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
        &mut self,
        factor: &TableFactor,
    ) -> Result<(Arc<Table>, Option<String>), SqlError> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else {
            return Err(SqlError::unsupported("a change of anything but a table"));
        };
        refuse::source(factor)?;
        Ok((self.table_named(name)?, alias.as_ref().map(|alias| folded(&alias.name))))
    }

    /// The condition of an UPDATE or DELETE.
    fn change_condition(
        &mut self,
        selection: Option<&ast::Expr>,
        scope: Scope,
    ) -> Result<(Option<Expr>, Scope), SqlError> {
        let Some(condition) = selection else { return Ok((None, scope)) };
        self.is_change = true;
        let (condition, scope) = self.within(scope, |binder| binder.condition(condition))?;
        self.is_change = false;
        Ok((Some(condition), scope))
    }

    /// The rows to change: those that fulfil the condition. `found_by` marks the columns that the
    /// condition reads; `all` is the scope once the whole statement is bound.
    fn target(
        &mut self,
        table: &Arc<Table>,
        sources: Sources,
        (condition, found_by): (Option<Expr>, &[bool]),
        all: &Scope,
    ) -> Result<Change, SqlError> {
        let Sources { mut steps, conditions: mut filter } = sources;
        let mut looked_at = all.used[..table.width()].to_vec();
        // Only columns of the condition are read to find rows; the others are read once the row is
        // locked.
        let mut used = all.used.clone();
        used[..table.width()].copy_from_slice(&found_by[..table.width()]);
        if let Some(condition) = condition {
            conjuncts(condition, &mut filter);
        }
        let mut joined = None;
        if steps.len() > 1 {
            table.key_slots().into_iter().for_each(|slot| used[slot] = true);
            let planning = Planning::of(self.catalog, self.budget);
            let both = joined_rows(steps.clone(), filter.clone(), &used, &planning)?;
            joined = Some(Box::new(both));
        }
        let mut step = steps.swap_remove(0);
        step.used = used[..table.width()].to_vec();
        looked_at.iter_mut().zip(&step.used).for_each(|(at, used)| *at |= used);
        let step = changed_step(table, step, filter, self.budget)?;
        let (table, rules) = (table.clone(), RowRules::default());
        Ok(Change {
            table,
            step,
            joined,
            reads_itself: false,
            looked_at,
            once: false,
            set: None,
            rules,
            links: None,
            lock: LockKind::Deletion,
            returning: None,
        })
    }
}

/// True if a subquery of a change reads the changed table.
fn reads_itself(change: &Change) -> bool {
    let is_own = |source: &Source| matches!(source, Source::Table(of) if of.id == change.table.id);
    let set = change.set.iter().flatten().map(|(_, value)| value);
    let returning = change.returning.iter().flat_map(|returning| &returning.project);
    change.step.on.iter().chain(set).chain(returning).any(|expr| expr.reads(&is_own))
}

/// Adds the columns that constraints, index entries and foreign keys need to those that a change
/// reads.
fn look_at(change: &mut Change) {
    change.reads_itself = reads_itself(change);
    let Change { table, looked_at, set, rules, links, .. } = change;
    let is_set = |at: &usize| {
        let mut all = set.iter().flatten().chain(&rules.computed);
        set.is_none() || all.any(|(to, _)| to == at)
    };
    let key = table.key_slots();
    // A second layout stores whole rows.
    if (set.is_some() && key.iter().any(is_set)) || table.beside.is_some() {
        return looked_at.fill(true);
    }
    for check in &rules.checks {
        check.condition.columns(&mut |slot| looked_at[slot] = true);
    }
    for (at, value) in &rules.computed {
        looked_at[*at] = true;
        value.columns(&mut |slot| looked_at[slot] = true);
    }
    for index in table.maintained().filter(|index| index.looked_at().any(is_set)) {
        index.looked_at().chain(&key).for_each(|&slot| looked_at[slot] = true);
    }
    let linked = links.iter().filter_map(|links| links.tables.get(&table.oid));
    for linked in linked {
        let own = linked.up.iter().flat_map(|link| &link.key.columns);
        let referenced = linked.down.iter().flat_map(|link| &link.key.referenced);
        own.chain(referenced).for_each(|&slot| looked_at[slot] = true);
    }
}

/// The changed table, and the sources joined with it.
#[derive(Default)]
struct Sources {
    steps: Vec<Step>,
    /// The conditions of joins among the sources.
    conditions: Vec<Expr>,
}

/// True for the word DEFAULT as a value.
pub(super) fn is_default(value: &ast::Expr) -> bool {
    matches!(value, ast::Expr::Identifier(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default"))
}

/// Refuses a name of a column that needs AS, or is written as a text.
///
/// # Errors
/// 42601.
pub(super) fn check_alias(binder: &Binder<'_>, alias: &ast::Ident) -> Result<(), SqlError> {
    check_quotes(binder, alias)?;
    if !crate::parse::needs_as(alias) {
        return Ok(());
    }
    let message = format!("syntax error at or near \"{}\"", alias.value);
    Err(binder.at(SqlError::new(code::SYNTAX, message), alias))
}

/// Refuses an alias that is written as a text.
///
/// # Errors
/// 42601.
pub(super) fn check_quotes(binder: &Binder<'_>, alias: &ast::Ident) -> Result<(), SqlError> {
    if alias.quote_style != Some('\'') {
        return Ok(());
    }
    let message = format!("syntax error at or near \"'{}'\"", alias.value);
    Err(binder.at(SqlError::new(code::SYNTAX, message), alias))
}

/// True if an expression reads one of these columns.
fn looks_at(value: &Expr, columns: &[usize]) -> bool {
    let mut found = false;
    value.columns(&mut |slot| found |= columns.contains(&slot));
    found
}

/// 428C9: clients cannot set the value of this column.
pub(super) fn generated_always(message: String, column: &TableColumn) -> SqlError {
    let kind = match column.is_generated {
        true => "a generated column",
        false => "an identity column defined as GENERATED ALWAYS",
    };
    let detail = format!("Column \"{}\" is {kind}.", column.name);
    SqlError::new(code::GENERATED_ALWAYS, message).detail(detail)
}

/// True if an assignment converts values of one type to the other, so that the statement needs no
/// cast.
pub fn is_assignable(from: SqlType, to: SqlType) -> bool {
    if let (Some(from), Some(to)) = (from.plain().element(), to.plain().element()) {
        return from == to || is_assignable(from, to);
    }
    let is_one = from.family() == to.family();
    match to {
        _ if from.family() == Family::Unknown => true,
        // Object ids are assigned from integers only.
        SqlType::Oid | SqlType::Reg(_) => from.is_integer() || matches!(from, SqlType::Reg(_)),
        SqlType::Numeric(_) | SqlType::Float4 | SqlType::Float8
            if matches!(from, SqlType::Oid | SqlType::Reg(_)) =>
        {
            false
        }
        SqlType::Letter => is_one,
        to => is_one || to.family() == Family::Text || are_times(from, to),
    }
}

/// The type of an expression, over a row of a table if one is given.
///
/// # Errors
/// The errors of the expression.
pub fn type_of(
    expr: &ast::Expr,
    over: Option<&Arc<Table>>,
    catalog: &Catalog,
    budget: &Budget,
) -> Result<SqlType, SqlError> {
    let mut binder = Binder::new(catalog, "", &[], budget);
    let scope = match over {
        Some(table) => binder.table_scope(table, &[&table.name])?,
        None => Scope::default(),
    };
    Ok(binder.within(scope, |binder| binder.expr(expr))?.0.ty)
}

impl Binder<'_> {
    /// An expression without columns.
    pub(crate) fn constant(&mut self, expr: &ast::Expr) -> Result<Typed, SqlError> {
        Ok(self.within(Scope::default(), |binder| binder.expr(expr))?.0)
    }
}
