//! SQL statements about a session's prepared statements, and definitions.

use super::extended::close_statements;
use super::{Call, Flush, PlanAgain, Said, Session, Written};
use crate::backend::read_only_call;
use crate::ddl::{Definer, UNDEFINED_DATABASE};
use crate::indexes::Asker;
use crate::rights::{check_definition, check_use};
use crate::settings::Settings;
use crate::wire::{Formats, Out};
use isomer_cluster::{Isolation, LockMode};
use isomer_sql::catalog::{Name, Named, TEMPORARY, Table, quoted};
use isomer_sql::parse::{Parsed, Reshard, parse, parse_expression};
use isomer_sql::plan::OutputColumn;
use isomer_sql::rights::{Kind, Object, Rights};
use isomer_sql::statement::{Action, Definition, Explains, Level, Modes, Prepared, compile};
use isomer_sql::system::SettingsView;
use isomer_sql::types::SqlType;
use isomer_sql::{SqlError, code};
use sqlparser::ast::{
    AlterTableOperation, CascadeOption, CreateIndex, CreateTable, Expr, ObjectName, OnCommit,
    PrimaryKeyConstraint, Query, Statement as Sql, TableConstraint, TruncateIdentityOption,
};
use std::sync::Arc;

/// The primary key that an ALTER TABLE adds to a table, if that is its only operation.
fn late_key(statement: &Sql) -> Option<(&ObjectName, &PrimaryKeyConstraint)> {
    let Sql::AlterTable(alter) = statement else { return None };
    match (&alter.operations[..], alter.if_exists) {
        (
            [
                AlterTableOperation::AddConstraint {
                    constraint: TableConstraint::PrimaryKey(key),
                    not_valid: false,
                },
            ],
            false,
        ) => Some((&alter.name, key)),
        _ => None,
    }
}

impl Session {
    pub(super) fn prepared(
        &mut self,
        (prepared, explains): (&Prepared, Option<Explains>),
        describes: bool,
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<(), SqlError> {
        match prepared {
            Prepared::Prepare(name, types, statement) => {
                if self.statements.contains_key(name) {
                    let message = format!("prepared statement \"{name}\" already exists");
                    return Err(SqlError::new("42P05", message));
                }
                let statement = self.prepare(&statement.to_string(), types.clone(), out)?;
                self.keep(name, statement, true)?;
                out.complete("PREPARE");
            }
            Prepared::Execute(name, values) => {
                let (statement, compiled) = self.planned(name)?;
                let Some(compiled) = compiled else {
                    out.empty(b'I');
                    return Ok(());
                };
                if values.len() != compiled.params.len() {
                    let message =
                        format!("wrong number of parameters for prepared statement \"{name}\"");
                    let detail =
                        format!("Expected {} but got {}.", compiled.params.len(), values.len());
                    return Err(SqlError::new(code::SYNTAX, message).detail(detail));
                }
                let (typed, now) = (values.iter().zip(&compiled.params), self.begun_us());
                let (mut params, style) = (Vec::with_capacity(values.len()), self.settings.times());
                for (at, ((value, from), ty)) in typed.enumerate() {
                    let wrong = || {
                        let (number, from) = (at + 1, from.without_modifier());
                        let message = format!(
                            "parameter ${number} of type {from} cannot be coerced to the expected \
                             type {ty}"
                        );
                        let hint = "You will need to rewrite or cast the expression.";
                        SqlError::new(code::DATATYPE_MISMATCH, message).hint(hint)
                    };
                    let value = isomer_sql::text::assigned(value, (*from, *ty), style, now);
                    params.push(value.ok_or_else(wrong)??);
                }
                let (params, formats) = (&params[..], &Formats::default());
                let budget = self.memory.statement.clone();
                let again: PlanAgain<'_> = &|catalog| statement.planned_for(catalog, &budget);
                let Written { text, given, .. } = &*statement.written;
                // Here the text is that of the statement that was prepared.
                let said = Some(Said { text, given, is_alone: true }).filter(|_| describes);
                let new = Call::new(&compiled, again, params, formats);
                let call = Call { describes, said, explains, ..new };
                self.perform(call, out, flush)?;
            }
            Prepared::Deallocate(None) => {
                close_statements(self, None);
                out.complete("DEALLOCATE ALL");
            }
            Prepared::Deallocate(Some(name)) => {
                self.statement(name)?;
                close_statements(self, Some(name));
                out.complete("DEALLOCATE");
            }
            Prepared::DiscardSequences => {
                self.given.forget();
                out.complete("DISCARD SEQUENCES");
            }
            Prepared::DiscardTemporary => {
                self.drop_temporaries(flush)?;
                out.complete("DISCARD TEMP");
            }
            Prepared::DiscardAll => {
                self.set("session_authorization", None, false, out)?;
                self.drop_temporaries(flush)?;
                self.cursors.clear();
                self.tell_cursors();
                close_statements(self, None);
                self.given.forget();
                let numbers = self.numbers.borrow_mut().all_unlocked();
                self.let_go_of(numbers);
                self.change_settings(false, out, Settings::reset)?;
                out.complete("DISCARD ALL");
            }
        }
        Ok(())
    }

    /// Drops the session's temporary relations.
    fn drop_temporaries(&mut self, flush: &mut dyn Flush) -> Result<(), SqlError> {
        let catalog = self.catalog();
        for (kind, names) in [
            ("TABLE", catalog.tables.keys().collect::<Vec<_>>()),
            ("VIEW", catalog.views.keys().collect()),
            ("SEQUENCE", catalog.sequences.keys().collect()),
        ] {
            for name in names.into_iter().filter(|name| name.schema == TEMPORARY) {
                // An earlier one may have dropped it as a dependent.
                let drop = format!("DROP {kind} IF EXISTS {} CASCADE", name.written());
                let drop = match parse(&drop)?.pop() {
                    Some(Parsed::Sql(drop)) => Definition::Sql(drop),
                    Some(Parsed::Sequence(drop)) => Definition::Sequence(drop),
                    _ => return Err(crate::engine::damaged("a statement that drops is none")),
                };
                self.define(&drop, &mut Out::default(), flush)?;
            }
        }
        Ok(())
    }

    /// The full name of the table that a statement names.
    pub(crate) fn full_name(&self, name: &ObjectName) -> Option<Name> {
        let catalog = self.catalog();
        catalog.table(&Named::of(name).ok()?).ok().map(|table| table.full_name())
    }

    /// The table's full name, which is independent of the session's search path, if the table
    /// exists.
    pub(super) fn resolved(&self, name: &ObjectName) -> ObjectName {
        self.full_name(name).map_or_else(|| name.clone(), |name| name.object_name())
    }

    /// Replaces names of types in an expression by full names.
    fn name_types(&self, expr: &mut Expr) -> Result<(), SqlError> {
        *expr = parse_expression(&self.catalog().with_kept_types(&expr.to_string()))?;
        Ok(())
    }

    /// The requester of a build.
    fn asker(&self) -> Asker<'_> {
        (&self.cancel, &self.memory.statement)
    }

    /// True if a table is a temporary one of the session.
    fn is_temporary(&self, name: &ObjectName) -> bool {
        let full = self.full_name(name);
        full.is_some_and(|name| name.schema == TEMPORARY)
    }

    pub(super) fn define(
        &mut self,
        definition: &Definition,
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<(), SqlError> {
        let catalog = self.catalog();
        let who = self.identity(&catalog);
        check_definition(definition, &catalog, (&who, &self.settings.database))?;
        let statement = match definition {
            Definition::Sql(statement) => Some(&**statement),
            _ => None,
        };
        if let Some(Sql::Truncate(truncate)) = statement {
            return self.truncate(truncate, out, flush);
        }
        if let Some(Sql::CreateTable(create)) = statement
            && let Some(query) = &create.query
        {
            return self.create_table_as(create, query, out, flush);
        }
        let concerned = match (statement, definition) {
            (Some(Sql::CreateIndex(create)), _) => Some(&create.table_name),
            (Some(Sql::AlterTable(alter)), _) => Some(&alter.name),
            (_, Definition::Reshard(reshard)) => Some(&reshard.table),
            _ => None,
        };
        // No other session writes to a temporary table during a change.
        let is_own = concerned.is_some_and(|name| self.is_temporary(name));
        if is_own && matches!(definition, Definition::Reshard(_)) {
            return Err(SqlError::unsupported("SHARD BY of a temporary table"));
        }
        let is_first = self.txn.is_none() && !self.is_one_of_many;
        let is_alone = is_first && !is_own;
        let mut notices = Vec::new();
        let tag = if let (Some(Sql::CreateIndex(create)), true) = (statement, is_alone) {
            let table_name = self.resolved(&create.table_name);
            let create = CreateIndex { table_name, ..create.clone() };
            let mut create = create;
            let own = create.columns.iter_mut().map(|column| &mut column.column.expr);
            own.chain(&mut create.predicate).try_for_each(|expr| self.name_types(expr))?;
            self.engine.create_index_online(&create, self.asker(), &mut notices)?;
            "CREATE INDEX"
        } else if let (Some((table, key)), true) = (statement.and_then(late_key), is_alone) {
            self.engine.add_key(&self.resolved(table), key, self.asker())?;
            "ALTER TABLE"
        } else if let (Definition::Reshard(reshard), true) = (definition, is_alone) {
            let table = self.resolved(&reshard.table);
            let reshard = Reshard { table, ..Reshard::clone(reshard) };
            self.engine.reshard(&reshard, self.asker(), &mut notices)?;
            "ALTER TABLE"
        } else {
            self.begin_definition()?;
            let around = self.surroundings();
            Definer::new(self.backend(), &around, &mut notices, !is_first).define(definition)?
        };
        for notice in &notices {
            let is_warning = notice.code.starts_with("01")
                || matches!(notice.code, code::INVALID_GRANT | UNDEFINED_DATABASE);
            out.notice(if is_warning { "WARNING" } else { "NOTICE" }, notice);
        }
        out.complete(tag);
        Ok(())
    }

    /// Begins the transaction of a definition: outside of a block, one with a current snapshot.
    fn begin_definition(&mut self) -> Result<(), SqlError> {
        if self.txn.is_none() && !self.in_block {
            self.begin(Modes { level: Some(Level::ReadCommitted), ..Modes::default() });
        }
        self.begin_statement()
    }

    /// CREATE TABLE .. AS: a table with the columns and rows of a query.
    fn create_table_as(
        &mut self,
        create: &CreateTable,
        query: &Query,
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<(), SqlError> {
        isomer_sql::refuse::create_table_as(create)?;
        let name = self.catalog().made(&Named::of(&create.name)?, create.temporary)?;
        let text = query.to_string();
        let budget = self.memory.statement.clone();
        let parsed = parse(&text)?.pop().expect("it is one statement");
        let shown = compile(&parsed, &text, &self.catalog(), &[], &budget)?;
        if !shown.params.is_empty() {
            return Err(SqlError::new(code::UNDEFINED_PARAMETER, "there is no parameter $1"));
        }
        let columns = shown.output.iter().flatten();
        let is_row = |ty: SqlType| ty.element().unwrap_or(ty) == SqlType::Record;
        if let Some(row) = columns.clone().find(|column| is_row(column.ty)) {
            let message = format!("column \"{}\" has pseudo-type {}", row.name, row.ty);
            return Err(SqlError::new(code::INVALID_TABLE_DEFINITION, message));
        }
        let catalog = self.catalog();
        let domains = match &shown.action {
            Action::Select(plan) => plan.domains(&catalog).collect(),
            _ => Vec::new(),
        };
        let column = |(at, shown): (usize, &OutputColumn)| {
            let domain = domains.get(at).copied().flatten();
            let domain = domain.and_then(|oid| catalog.type_name(oid, None));
            let ty = domain.unwrap_or_else(|| catalog.type_shown(shown.ty));
            format!("{} {ty}", quoted(&shown.name))
        };
        let columns = columns.enumerate().map(column);
        let columns = columns.collect::<Vec<_>>().join(", ");
        let may = if create.if_not_exists { "IF NOT EXISTS " } else { "" };
        let kind = if create.temporary { "TEMPORARY " } else { "" };
        let end = match create.on_commit {
            Some(OnCommit::Drop) => " ON COMMIT DROP",
            Some(OnCommit::DeleteRows) => " ON COMMIT DELETE ROWS",
            Some(OnCommit::PreserveRows) => " ON COMMIT PRESERVE ROWS",
            _ => "",
        };
        let made = format!("CREATE {kind}TABLE {may}{} ({columns}){end}", name.written());
        let Some(Parsed::Sql(made)) = parse(&made)?.pop() else {
            return Err(crate::engine::damaged("a definition of a table is none"));
        };
        let is_there = self.catalog().has_relation(&name);
        self.define(&Definition::Sql(made), &mut Out::default(), flush)?;
        if is_there {
            let message = format!("relation \"{}\" already exists, skipping", name.name);
            out.notice("NOTICE", &SqlError::new(code::DUPLICATE_TABLE, message));
            out.complete("CREATE TABLE AS");
            return Ok(());
        }
        let text = format!("INSERT INTO {} {text}", name.written());
        let parsed = parse(&text)?.pop().expect("it is one statement");
        let again: PlanAgain<'_> =
            &|catalog| compile(&parsed, &text, catalog, &[], &budget).map(Arc::new);
        let compiled = again(&self.catalog())?;
        let (formats, mut told) = (Formats::default(), Out::default());
        self.query(Call::plain(&compiled, again, &formats)?, &mut told, flush)?;
        let rows = told.tag().rsplit(' ').next().unwrap_or_default().to_owned();
        out.complete(&format!("SELECT {rows}"));
        Ok(())
    }

    /// TRUNCATE deletes all rows in the transaction, so it can be rolled back.
    fn truncate(
        &mut self,
        truncate: &sqlparser::ast::Truncate,
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<(), SqlError> {
        isomer_sql::refuse::truncate(truncate)?;
        self.backend();
        if self.is_read_only() == Some(true) {
            return Err(read_only_call("TRUNCATE TABLE"));
        }
        let cascade = matches!(truncate.cascade, Some(CascadeOption::Cascade));
        let tables = self.truncated(truncate, cascade, out)?;
        self.close_linked(&tables)?;
        for table in &tables {
            let text = format!("DELETE FROM {}", table.full_name().written());
            let budget = self.memory.statement.clone();
            let parsed = parse(&text)?.pop().expect("it is one statement");
            // References to the rows are dropped too.
            let again: PlanAgain<'_> = &|catalog| {
                let alone = catalog.without_foreign_keys();
                let compiled = compile(&parsed, &text, &alone, &[], &budget)?;
                Ok(Arc::new(compiled.of_system()))
            };
            let compiled = again(&self.catalog())?;
            let formats = Formats::default();
            let call = Call::plain(&compiled, again, &formats)?;
            // The number of deleted rows is not reported.
            self.query(call, &mut Out::default(), flush)?;
        }
        if matches!(truncate.identity, Some(TruncateIdentityOption::Restart)) {
            self.begin_definition()?;
            let (around, mut notices) = (self.surroundings(), Vec::new());
            let mut definer = Definer::new(self.backend(), &around, &mut notices, true);
            tables.iter().try_for_each(|table| definer.restart(table.oid))?;
        }
        out.complete("TRUNCATE TABLE");
        Ok(())
    }

    /// The tables to truncate, including those that reference them if CASCADE was given.
    fn truncated(
        &self,
        truncate: &sqlparser::ast::Truncate,
        cascade: bool,
        out: &mut Out,
    ) -> Result<Vec<Arc<Table>>, SqlError> {
        let catalog = self.catalog();
        let mut tables: Vec<&Arc<Table>> = Vec::new();
        for target in &truncate.table_names {
            let named = Named::of(&target.name)?;
            check_use(&self.identity(&catalog), &catalog, &named)?;
            let table = catalog.table(&named)?;
            if tables.iter().all(|other| other.oid != table.oid) {
                tables.push(table);
            }
        }
        let mut at = 0;
        while let Some(&parent) = tables.get(at) {
            at += 1;
            for (child, _) in catalog.referring(parent.oid) {
                if tables.iter().any(|table| table.oid == child.oid) {
                    continue;
                }
                let (child_name, parent_name) = (&child.name, &parent.name);
                if !cascade {
                    let message = "cannot truncate a table referenced in a foreign key constraint";
                    let detail = format!("Table \"{child_name}\" references \"{parent_name}\".");
                    let hint = format!(
                        "Truncate table \"{child_name}\" at the same time, or use TRUNCATE ... CASCADE."
                    );
                    let error = SqlError::new(code::FEATURE_NOT_SUPPORTED, message);
                    return Err(error.detail(detail).hint(hint));
                }
                let message = format!("truncate cascades to table \"{child_name}\"");
                out.notice("NOTICE", &SqlError::new("00000", message));
                tables.push(child);
            }
        }
        let (who, kind) = (self.identity(&catalog), Kind::Table);
        for table in &tables {
            who.check(&catalog, (Object::Relation(table.oid), kind), Rights::TRUNCATE)?;
            let restarts = matches!(truncate.identity, Some(TruncateIdentityOption::Restart));
            for own in catalog.owned(table.oid).iter().filter(|_| restarts) {
                who.check_owner(&catalog, Object::Relation(own.oid))?;
            }
        }
        Ok(tables.into_iter().cloned().collect())
    }

    /// Locks tables that are about to be truncated without a check of their foreign keys.
    fn close_linked(&mut self, tables: &[Arc<Table>]) -> Result<(), SqlError> {
        let catalog = self.catalog();
        let is_linked = |table: &Arc<Table>| {
            !table.foreign_keys.is_empty() || catalog.referring(table.oid).next().is_some()
        };
        if !tables.iter().any(is_linked) {
            return Ok(());
        }
        self.begin_statement()?;
        let backend = self.backend();
        if backend.isolation() != Isolation::ReadCommitted {
            let what = "TRUNCATE of a table with foreign keys, in a block of REPEATABLE READ,";
            return Err(SqlError::unsupported(what).hint("BEGIN ISOLATION LEVEL READ COMMITTED."));
        }
        tables.iter().try_for_each(|table| backend.check_no_deferred(table))?;
        backend.planned_for = catalog.version;
        let mode = LockMode::ShareRowExclusive;
        tables.iter().try_for_each(|table| backend.lock_table(table, mode, true))
    }
}
