//! Statements of SQL about what a session has prepared, and definitions.

use super::run::Call;
use super::{Flush, Session};
use crate::settings::Settings;
use crate::wire::{Formats, Out};
use isomer_sql::datum::Datum;
use isomer_sql::parse::parse;
use isomer_sql::statement::Prepared;
use isomer_sql::{SqlError, code};

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
                let statement = self.prepare(&statement.to_string(), types.clone())?;
                self.keep(name, statement)?;
                out.complete("PREPARE");
            }
            Prepared::Execute(name, values) => {
                let mut statement = self.statement(name)?.clone();
                let Some(compiled) = self.compile(&mut statement)? else {
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
                self.perform(Call { compiled: &compiled, params, formats, describes }, out, flush)?;
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
            Prepared::DiscardAll => {
                self.statements.clear();
                self.change_settings(false, out, Settings::reset)?;
                out.complete("DISCARD ALL");
            }
        }
        Ok(())
    }

    pub(super) fn define(
        &mut self,
        statement: &sqlparser::ast::Statement,
        out: &mut Out,
    ) -> Result<(), SqlError> {
        if let sqlparser::ast::Statement::Truncate(truncate) = statement {
            return self.truncate(truncate, out);
        }
        self.commit_before_definition(out)?;
        let around = self.surroundings();
        let defined = self.engine.define(statement, &self.patience, &around)?;
        defined.notices.iter().for_each(|notice| out.notice("NOTICE", notice));
        out.complete(defined.tag);
        Ok(())
    }

    /// TRUNCATE deletes all rows in the transaction, so it can be rolled back.
    fn truncate(
        &mut self,
        truncate: &sqlparser::ast::Truncate,
        out: &mut Out,
    ) -> Result<(), SqlError> {
        self.begin_statement()?;
        let (around, catalog) = (self.surroundings(), self.engine.catalog());
        for target in &truncate.table_names {
            let name = isomer_sql::define::plain_name(&target.name)?;
            let text = format!("DELETE FROM \"{}\"", name.replace('"', "\"\""));
            let parsed = parse(&text)?.pop().expect("it is one statement");
            let compiled = isomer_sql::statement::compile(&parsed, &text, &catalog, &[])?;
            let sink = &mut |_: &[Datum]| Ok(());
            self.backend().planned_for = compiled.version;
            compiled.run(self.backend(), &[], &around, &catalog, sink)?;
        }
        out.complete("TRUNCATE TABLE");
        Ok(())
    }
}
