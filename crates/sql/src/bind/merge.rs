//! MERGE: as the changes that its clauses make, over one copy of the source's rows.
//!
//! ```text
//!   merge into t using s on t.k = s.k
//!   when matched and s.v is null then delete       delete from t using s
//!                                                    where t.k = s.k and s.v is null
//!   when matched then update set v = s.v           update t set v = s.v from s
//!                                                    where t.k = s.k and (s.v is null) is not true
//!   when not matched then insert values (s.k)      insert into t select s.k from s
//!                                                    where not exists (.. t.k = s.k)
//! ```
//!
//! `s` is a query of WITH that runs once. All changes see the rows of the table as they were before
//! the statement, so each row of the source takes the first clause that fits it. A clause that DOES
//! NOTHING only keeps rows from those behind it.
//!
//! Left out: a join as the source, and conditions that differ between evaluations. A row that
//! another transaction changes meanwhile is tested again for the clause that chose it only.

use super::change::is_default;
use super::{Binder, folded};
use crate::error::{SqlError, code};
use crate::expr::Expr;
use crate::parse::Overriding;
use crate::plan::{Change, Merge, Modify};
use crate::refuse;
use sqlparser::ast::{self, Ident, MergeAction, MergeClause, MergeClauseKind, Query, Statement};
use sqlparser::ast::{SelectItem, SetExpr, TableFactor, UpdateTableFromKind};

/// The name of the query of WITH that has the source's rows. No other relation has it, as it is
/// longer than names can be.
const SOURCE: &str = "the rows of the source of a MERGE, which no relation of a catalog is";

/// The statements whose parts are replaced by those of a MERGE.
const FORMS: [&str; 4] = [
    "WITH s AS MATERIALIZED (SELECT * FROM s) SELECT 1",
    "UPDATE t SET a = 1 FROM s WHERE true",
    "DELETE FROM t USING s WHERE true",
    "INSERT INTO t SELECT 1 FROM s WHERE NOT EXISTS (SELECT 1 FROM t WHERE true)",
];

/// Binds a MERGE, behind the WITH of `around` if it has one.
pub(crate) fn merge(
    binder: &mut Binder<'_>,
    around: Option<&Query>,
    merge: &ast::Merge,
) -> Result<Merge, SqlError> {
    let bind = |binder: &mut Binder<'_>| {
        binder.is_whole = false;
        let source = query(FORMS[0])?;
        let Some((with, alias)) = with_source(*source, &merge.source)? else {
            return Err(SqlError::unsupported("a join as the source of a MERGE")
                .hint("Write it as a subquery: USING (SELECT .. FROM ..) AS s."));
        };
        super::query::with_names(binder, &with, |binder| actions(binder, merge, &alias))
    };
    match around {
        Some(query) => {
            binder.is_whole = true;
            super::query::with_names(binder, query, bind)
        }
        None => bind(binder),
    }
}

/// A query of a known form.
fn query(text: &str) -> Result<Box<Query>, SqlError> {
    match form(text)? {
        Statement::Query(query) => Ok(query),
        _ => unreachable!("the form is a query"),
    }
}

fn form(text: &str) -> Result<Statement, SqlError> {
    let parsed = crate::parse::parse(text)?.pop();
    let Some(crate::parse::Parsed::Sql(statement)) = parsed else { unreachable!("it is SQL") };
    Ok(*statement)
}

/// A WITH that names the rows of the source, and their name in the conditions. None if the source
/// is a join.
fn with_source(
    mut form: Query,
    source: &TableFactor,
) -> Result<Option<(Query, ast::TableAlias)>, SqlError> {
    refuse::source(source)?;
    let alias = match source {
        TableFactor::NestedJoin { .. } => return Ok(None),
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. } => alias.clone(),
        TableFactor::Table { name, .. } | TableFactor::Function { name, .. } => {
            let last = name.0.last().and_then(|part| part.as_ident()).cloned();
            named(last.unwrap_or_else(|| Ident::new("s")))
        }
        _ => return Err(SqlError::new(code::SYNTAX, "the source of a MERGE must have an alias")),
    };
    let with = form.with.as_mut().and_then(|with| with.cte_tables.first_mut());
    let cte = with.expect("the form has one");
    cte.alias.name = Ident::with_quote('"', SOURCE);
    if let SetExpr::Select(select) = &mut *cte.query.body {
        select.from[0].relation = source.clone();
    }
    Ok(Some((form, named(alias.name))))
}

fn named(name: Ident) -> ast::TableAlias {
    ast::TableAlias { explicit: true, name, columns: Vec::new(), at: None }
}

/// Binds the clauses, where the rows of the source are named `alias`.
fn actions(
    binder: &mut Binder<'_>,
    merge: &ast::Merge,
    alias: &ast::TableAlias,
) -> Result<Merge, SqlError> {
    let TableFactor::Table { name, alias: own, .. } = &merge.table else {
        return Err(SqlError::unsupported("MERGE into anything but a table"));
    };
    if merge.output.is_some() {
        return Err(SqlError::unsupported("RETURNING of a MERGE"));
    }
    let table = binder.table_named(name)?;
    let target = own.as_ref().map_or(table.name.clone(), |alias| folded(&alias.name));
    if target == folded(&alias.name) {
        let message = format!("name \"{target}\" specified more than once");
        let error = SqlError::new(code::DUPLICATE_ALIAS, message);
        let detail = "The name is used both as MERGE target table and data source.";
        return Err(error.detail(detail));
    }
    let parts = Parts { merge, alias, overriding: binder.overriding.take() };
    let (mut actions, mut before) = (Vec::new(), [Vec::new(), Vec::new()]);
    let mut is_closed = [false, false];
    for clause in &merge.clauses {
        let kind = match clause.clause_kind {
            MergeClauseKind::Matched => 0,
            MergeClauseKind::NotMatched => 1,
            kind => {
                return Err(SqlError::unsupported(format!("WHEN {kind} in a MERGE"))
                    .hint("DELETE or UPDATE with NOT EXISTS does the same."));
            }
        };
        if is_closed[kind] {
            let message = "unreachable WHEN clause specified after unconditional WHEN clause";
            return Err(SqlError::new(code::SYNTAX, message));
        }
        is_closed[kind] = clause.predicate.is_none();
        let conditions = conditions(&before[kind], clause);
        actions.extend(parts.action(binder, clause, conditions)?);
        before[kind].extend(&clause.predicate);
    }
    binder.overriding = None;
    Ok(Merge { table, actions })
}

/// The conditions of a clause besides that of the join: its own, and that no clause before fits.
fn conditions(before: &[&ast::Expr], clause: &MergeClause) -> Vec<ast::Expr> {
    let nested = |expr: &ast::Expr| Box::new(ast::Expr::Nested(Box::new(expr.clone())));
    let not = |expr: &&ast::Expr| ast::Expr::IsNotTrue(nested(expr));
    let own = clause.predicate.iter().map(|own| ast::Expr::Nested(Box::new(own.clone())));
    before.iter().map(not).chain(own).collect()
}

fn all(first: ast::Expr, rest: Vec<ast::Expr>) -> ast::Expr {
    let and = |left, right| ast::Expr::BinaryOp {
        left: Box::new(left),
        op: ast::BinaryOperator::And,
        right: Box::new(right),
    };
    rest.into_iter().fold(first, and)
}

struct Parts<'m> {
    merge: &'m ast::Merge,
    alias: &'m ast::TableAlias,
    overriding: Option<Overriding>,
}

impl Parts<'_> {
    /// The change of a clause; none if it does nothing.
    fn action(
        &self,
        binder: &mut Binder<'_>,
        clause: &MergeClause,
        conditions: Vec<ast::Expr>,
    ) -> Result<Option<Modify>, SqlError> {
        let on = ast::Expr::Nested(self.merge.on.clone());
        Ok(match &clause.action {
            MergeAction::DoNothing { .. } => None,
            MergeAction::Update(update) => {
                let ast::MergeUpdateKind::Set(assignments) = &update.kind else {
                    return Err(SqlError::new(code::SYNTAX, "syntax error at or near \"*\""));
                };
                if update.update_predicate.is_some() || update.delete_predicate.is_some() {
                    return Err(SqlError::new(code::SYNTAX, "syntax error at or near \"WHERE\""));
                }
                let Statement::Update(mut form) = form(FORMS[1])? else { unreachable!() };
                form.table.relation = self.merge.table.clone();
                form.assignments.clone_from(assignments);
                if let Some(UpdateTableFromKind::AfterSet(from)) = &mut form.from {
                    self.put_source(&mut from[0].relation);
                }
                form.selection = Some(all(on, conditions));
                Some(Modify::Update(Box::new(matched(binder.update(&form)?)?)))
            }
            MergeAction::Delete { .. } => {
                let Statement::Delete(mut form) = form(FORMS[2])? else { unreachable!() };
                if let ast::FromTable::WithFromKeyword(from) = &mut form.from {
                    from[0].relation = self.merge.table.clone();
                }
                if let Some(using) = &mut form.using {
                    self.put_source(&mut using[0].relation);
                }
                form.selection = Some(all(on, conditions));
                Some(Modify::Delete(Box::new(matched(binder.delete(&form)?)?)))
            }
            MergeAction::Insert(insert) => Some(self.insert(binder, insert, on, conditions)?),
        })
    }

    fn insert(
        &self,
        binder: &mut Binder<'_>,
        insert: &ast::MergeInsertExpr,
        on: ast::Expr,
        conditions: Vec<ast::Expr>,
    ) -> Result<Modify, SqlError> {
        let ast::MergeInsertKind::Values(values) = &insert.kind else {
            return Err(SqlError::new(code::SYNTAX, "syntax error at or near \"*\""));
        };
        let [row] = values.rows.as_slice() else {
            return Err(SqlError::new(code::SYNTAX, "a MERGE inserts one row at a time"));
        };
        if insert.insert_predicate.is_some() {
            return Err(SqlError::new(code::SYNTAX, "syntax error at or near \"WHERE\""));
        }
        let TableFactor::Table { name, .. } = &self.merge.table else { unreachable!() };
        let table = binder.table_named(name)?;
        let (mut columns, values) = (insert.columns.clone(), &row.content);
        if columns.is_empty() {
            let own = table.columns.iter().take(values.len());
            let name = |name: &String| ast::ObjectName::from(vec![Ident::with_quote('"', name)]);
            columns = own.map(|column| name(&column.name)).collect();
        }
        if columns.len() != values.len() {
            let (more, less) = match columns.len() < values.len() {
                true => ("expressions", "target columns"),
                false => ("target columns", "expressions"),
            };
            let message = format!("INSERT has more {more} than {less}");
            return Err(SqlError::new(code::SYNTAX, message));
        }
        let Statement::Insert(mut form) = form(FORMS[3])? else { unreachable!() };
        form.table = ast::TableObject::TableName(name.clone());
        // A column that is not named has its default.
        let given = columns.into_iter().zip(values).filter(|(_, value)| !is_default(value));
        let (columns, values): (Vec<_>, Vec<_>) = given.unzip();
        form.columns = columns;
        let Some(SetExpr::Select(select)) = form.source.as_mut().map(|source| &mut *source.body)
        else {
            unreachable!("the form has a SELECT")
        };
        select.projection = values.into_iter().cloned().map(SelectItem::UnnamedExpr).collect();
        self.put_source(&mut select.from[0].relation);
        let mut missing = select.selection.take().expect("the form has a condition");
        self.put_target(&mut missing, on);
        select.selection = Some(all(missing, conditions));
        binder.overriding = self.overriding;
        let plan = binder.insert(&form)?;
        let mut is_volatile = false;
        let mut source = &plan.source;
        while let [step] = source.steps.as_slice()
            && let crate::plan::Source::Query(inside) = &step.source
        {
            source = inside;
        }
        let on = source.steps.iter().flat_map(|step| &step.on);
        source.filter.iter().chain(on).for_each(|expr| is_volatile |= expr.is_volatile());
        check_fixed(is_volatile)?;
        Ok(Modify::Insert(Box::new(plan)))
    }

    /// Names the rows of the source.
    fn put_source(&self, factor: &mut TableFactor) {
        if let TableFactor::Table { name, alias, .. } = factor {
            *name = ast::ObjectName::from(vec![Ident::with_quote('"', SOURCE)]);
            *alias = Some(self.alias.clone());
        }
    }

    /// Asks for a row of the target with this condition, in the subquery of NOT EXISTS.
    fn put_target(&self, missing: &mut ast::Expr, on: ast::Expr) {
        match missing {
            ast::Expr::UnaryOp { expr, .. } => self.put_target(expr, on),
            ast::Expr::Exists { subquery, .. } => {
                if let SetExpr::Select(select) = &mut *subquery.body {
                    select.from[0].relation = self.merge.table.clone();
                    select.selection = Some(on);
                }
            }
            _ => unreachable!("the form has a subquery"),
        }
    }
}

/// A change of rows that match, each of which may match once.
fn matched(change: Change) -> Result<Change, SqlError> {
    check_fixed(change.step.on.iter().any(Expr::is_volatile))?;
    Ok(Change { once: true, ..change })
}

fn check_fixed(is_volatile: bool) -> Result<(), SqlError> {
    match is_volatile {
        true => Err(SqlError::unsupported("a condition of a MERGE that differs each time")
            .hint("Compute it in the source: USING (SELECT .., random() AS r FROM ..) AS s.")),
        false => Ok(()),
    }
}
