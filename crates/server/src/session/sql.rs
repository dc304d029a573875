//! Statements of SQL about what a session has prepared, and definitions.

use super::{Call, Flush, PlanAgain, Session};
use crate::ddl::Definer;
use crate::settings::Settings;
use crate::wire::{Formats, Out};
use isomer_sql::datum::Datum;
use isomer_sql::parse::parse;
use isomer_sql::statement::{Definition, Level, Modes, Prepared, compile};
use isomer_sql::{SqlError, code};
use sqlparser::ast::{Statement as Sql, TruncateIdentityOption};
use std::sync::Arc;

impl Session {
    pub(super) fn prepared(
        &mut self,
        prepared: &Prepared,
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
                self.keep(name, statement)?;
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
                let typed = values.iter().zip(&compiled.params);
                let params = typed
                    .map(|(value, ty)| isomer_sql::datum::convert(value.clone(), *ty, false))
                    .collect::<Result<Vec<Datum>, SqlError>>()?;
                let (params, formats) = (&params[..], &Formats::default());
                let budget = self.memory.statement.clone();
                let again: PlanAgain<'_> = &|catalog| statement.planned_for(catalog, &budget);
                let call = Call { compiled: &compiled, again, params, formats, describes };
                self.perform(call, out, flush)?;
            }
            Prepared::Deallocate(None) => {
                self.statements.clear();
                out.complete("DEALLOCATE ALL");
            }
            Prepared::Deallocate(Some(name)) => {
                self.statement(name)?;
                self.statements.remove(name);
                out.complete("DEALLOCATE");
            }
            Prepared::DiscardSequences => {
                self.given.forget();
                out.complete("DISCARD SEQUENCES");
            }
            Prepared::DiscardAll => {
                self.statements.clear();
                self.given.forget();
                self.change_settings(false, out, Settings::reset)?;
                out.complete("DISCARD ALL");
            }
        }
        Ok(())
    }

    pub(super) fn define(
        &mut self,
        definition: &Definition,
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<(), SqlError> {
        let statement = match definition {
            Definition::Sql(statement) => Some(&**statement),
            Definition::Sequence(_) | Definition::Reshard(_) => None,
        };
        if let Some(Sql::Truncate(truncate)) = statement {
            return self.truncate(truncate, out, flush);
        }
        let is_alone = self.txn.is_none() && !self.is_one_of_many;
        let mut notices = Vec::new();
        let tag = if let (Some(Sql::CreateIndex(create)), true) = (statement, is_alone) {
            self.engine.create_index_online(create, &self.cancel, &mut notices)?;
            "CREATE INDEX"
        } else {
            self.begin_definition()?;
            let around = self.surroundings();
            Definer::new(self.backend(), &around, &mut notices, !is_alone).define(definition)?
        };
        notices.iter().for_each(|notice| out.notice("NOTICE", notice));
        out.complete(tag);
        Ok(())
    }

    /// The transaction that a definition is a part of: outside of a block, one that sees what is there now.
    fn begin_definition(&mut self) -> Result<(), SqlError> {
        if self.txn.is_none() && !self.in_block {
            self.begin(Modes { level: Some(Level::ReadCommitted), ..Modes::default() });
        }
        self.begin_statement()
    }

    /// TRUNCATE deletes all rows in the transaction, so it can be rolled back.
    fn truncate(
        &mut self,
        truncate: &sqlparser::ast::Truncate,
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<(), SqlError> {
        isomer_sql::refuse::truncate(truncate)?;
        for target in &truncate.table_names {
            let name = isomer_sql::define::plain_name(&target.name)?;
            let text = format!("DELETE FROM \"{}\"", name.replace('"', "\"\""));
            let budget = self.memory.statement.clone();
            let parsed = parse(&text)?.pop().expect("it is one statement");
            let again: PlanAgain<'_> =
                &|catalog| compile(&parsed, &text, catalog, &[], &budget).map(Arc::new);
            let compiled = again(&self.catalog())?;
            let formats = Formats::default();
            let call = Call::plain(&compiled, again, &formats);
            // How many rows that were is not told.
            self.query(call, &mut Out::default(), flush)?;
        }
        if matches!(truncate.identity, Some(TruncateIdentityOption::Restart)) {
            self.begin_definition()?;
            let (around, mut notices) = (self.surroundings(), Vec::new());
            let mut definer = Definer::new(self.backend(), &around, &mut notices, true);
            for target in &truncate.table_names {
                let name = isomer_sql::define::plain_name(&target.name)?;
                definer.restart(&name)?;
            }
        }
        out.complete("TRUNCATE TABLE");
        Ok(())
    }
}
