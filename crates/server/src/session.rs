//! A client's session: what it has prepared, its transaction, its settings.
//!
//! ```text
//!           BEGIN                    error
//!   idle ───────────▶ in a block ───────────▶ failed ──ROLLBACK──▶ idle
//!    │                    └──COMMIT, ROLLBACK──▶ idle
//!    └─ a statement outside of a block begins a transaction that ends with the message: at Sync,
//!       or at the end of the text of a simple query
//! ```
//!
//! So statements that a client sends in one go before a Sync commit together, as in PostgreSQL.

mod control;
mod extended;

use crate::backend::{Backend, explain};
use crate::copy::CopyIn;
use crate::engine::Engine;
use crate::settings::Settings;
use crate::wire::{Formats, Out, Reader, violation};
use isomer_cluster::{Isolation, Patience, Savepoint};
use isomer_sql::datum::Datum;
use isomer_sql::parse::{Parsed, parse};
use isomer_sql::plan::OutputColumn;
use isomer_sql::statement::{Action, Compiled, Control, Modes, Prepared};
use isomer_sql::transaction::Surroundings;
use isomer_sql::{SqlError, SqlType, code};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How output gets to the client while a statement runs.
pub(crate) trait Flush {
    /// Sends what there is, if there is much of it.
    fn flush_some(&mut self, out: &mut Out) -> Result<(), SqlError>;
}

/// See the [module documentation](self).
pub(crate) struct Session {
    pub(crate) engine: Arc<Engine>,
    pub(crate) patience: Arc<Patience>,
    pub(crate) settings: Settings,
    pub(crate) copy: Option<CopyIn>,
    txn: Option<Backend>,
    /// True between BEGIN and its end.
    in_block: bool,
    failed: bool,
    savepoints: Vec<(String, Savepoint)>,
    statements: BTreeMap<String, Statement>,
    portals: BTreeMap<String, Portal>,
    clock: fn() -> i64,
    seed: u64,
    /// After an error in the extended protocol: messages are passed over until the next Sync.
    skips: bool,
}

/// A prepared statement; without one: the empty statement.
#[derive(Clone)]
struct Statement {
    text: Arc<str>,
    parsed: Option<Arc<Parsed>>,
    given: Vec<SqlType>,
    compiled: Option<Arc<Compiled>>,
}

/// A statement with its parameters.
struct Portal {
    statement: Statement,
    params: Vec<Datum>,
    formats: Formats,
    /// Rows that were not asked for yet, as messages, and the tag for the end.
    rest: Option<(Vec<Vec<u8>>, String)>,
}

impl Session {
    pub(crate) fn new(
        engine: Arc<Engine>,
        patience: Arc<Patience>,
        settings: Settings,
        clock: fn() -> i64,
    ) -> Session {
        Session {
            engine,
            patience,
            seed: settings.process as u64,
            settings,
            copy: None,
            txn: None,
            in_block: false,
            failed: false,
            savepoints: Vec::new(),
            statements: BTreeMap::new(),
            portals: BTreeMap::new(),
            clock,
            skips: false,
        }
    }

    /// `I`, `T` or `E`, as ReadyForQuery says it.
    pub(crate) fn status(&self) -> u8 {
        match (self.in_block, self.failed) {
            (_, true) => b'E',
            (true, false) => b'T',
            (false, false) => b'I',
        }
    }

    /// Handles a message; `false` if the client takes its leave.
    pub(crate) fn message(
        &mut self,
        tag: u8,
        body: &[u8],
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<bool, SqlError> {
        let mut reader = Reader::new(body);
        if self.copy.is_some() && matches!(tag, b'd' | b'c' | b'f' | b'H' | b'S') {
            self.copy_message(tag, &mut reader, out);
            return Ok(true);
        }
        match tag {
            b'Q' => {
                let text = reader.text()?;
                self.copy = None;
                self.simple(text, out, flush);
            }
            b'X' => return Ok(false),
            b'S' => {
                self.skips = false;
                if let Err(error) = self.end_implicit() {
                    out.error(&error);
                }
                out.ready(self.status());
            }
            b'H' => {}
            // What is left of a COPY that failed.
            b'd' | b'c' | b'f' => {}
            b'P' | b'B' | b'D' | b'E' | b'C' if self.skips => {}
            b'P' | b'B' | b'D' | b'E' | b'C' => {
                let done = match tag {
                    b'P' => self.parse(&mut reader, out),
                    b'B' => self.bind(&mut reader, out),
                    b'D' => self.describe(&mut reader, out),
                    b'E' => self.execute(&mut reader, out, flush),
                    _ => self.close(&mut reader, out),
                };
                if let Err(error) = done {
                    self.fail();
                    self.skips = true;
                    out.error(&error);
                }
            }
            other => return Err(violation(&format!("there is no message of type {other:#x}"))),
        }
        Ok(true)
    }

    fn simple(&mut self, text: &str, out: &mut Out, flush: &mut dyn Flush) {
        self.patience.renew();
        let done = self.simple_statements(text, out, flush);
        if let Err(error) = done {
            self.fail();
            out.error(&error);
        }
        if self.copy.is_none() {
            if let Err(error) = self.end_implicit() {
                out.error(&error);
            }
            out.ready(self.status());
        }
    }

    fn simple_statements(
        &mut self,
        text: &str,
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<(), SqlError> {
        if let Some(compiled) = self.engine.known(text) {
            return self.run(&compiled, text, &[], &Formats::default(), true, out, flush);
        }
        let parsed = parse(text).map_err(|error| self.or_failed(error))?;
        if parsed.is_empty() {
            out.empty(b'I');
        }
        let is_one = parsed.len() == 1;
        let shared: Arc<str> = Arc::from(text);
        for parsed in &parsed {
            self.check_not_failed(parsed)?;
            let compiled = if is_one {
                self.engine.compiled(parsed, &shared, &[])?
            } else {
                let catalog = self.engine.catalog();
                Arc::new(isomer_sql::statement::compile(parsed, text, &catalog, &[])?)
            };
            self.run(&compiled, text, &[], &Formats::default(), true, out, flush)?;
        }
        Ok(())
    }

    /// In a failed transaction that is the error, whatever else is wrong.
    fn or_failed(&self, error: SqlError) -> SqlError {
        if self.failed && error.code != code::SYNTAX { in_failed() } else { error }
    }

    /// Runs a statement and says what came of it.
    #[allow(clippy::too_many_arguments, reason = "a statement, how to show it, and where to")]
    fn run(
        &mut self,
        compiled: &Arc<Compiled>,
        text: &str,
        params: &[Datum],
        formats: &Formats,
        describes: bool,
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<(), SqlError> {
        if self.failed
            && !matches!(
                compiled.action,
                Action::Control(Control::Commit | Control::Rollback | Control::RollbackTo(_))
            )
        {
            return Err(in_failed());
        }
        match &compiled.action {
            Action::Control(control) => {
                let tag = self.control(control, out)?;
                out.complete(tag);
                Ok(())
            }
            Action::Setting(setting) => self.setting(setting, compiled, formats, describes, out),
            Action::Prepared(prepared) => self.prepared(prepared, describes, out, flush),
            Action::Nothing(tag) => {
                out.complete(tag);
                Ok(())
            }
            Action::Define(statement) => self.define(statement, out),
            Action::Design(statement) => {
                self.engine.change_design(statement)?;
                out.complete("ALTER TABLE");
                Ok(())
            }
            Action::Explain(inner) => {
                let lines = crate::explain::explain(&self.engine, inner);
                self.show_lines(compiled, lines, formats, describes, out);
                Ok(())
            }
            Action::Copy(copy) => self.begin_copy(compiled, copy, describes, out, flush),
            _ => self.query(compiled, text, params, formats, describes, out, flush),
        }
    }

    #[allow(clippy::too_many_arguments, reason = "a statement, how to show it, and where to")]
    fn query(
        &mut self,
        compiled: &Arc<Compiled>,
        _text: &str,
        params: &[Datum],
        formats: &Formats,
        describes: bool,
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<(), SqlError> {
        self.begin_statement()?;
        let (around, catalog) = (self.surroundings(), self.engine.catalog());
        let output: &[OutputColumn] = compiled.output.as_deref().unwrap_or(&[]);
        if let (true, Some(output)) = (describes, &compiled.output) {
            out.row_description(output, formats);
        }
        let backend = self.txn.as_mut().expect("a statement has a transaction");
        let tag = compiled.run(backend, params, &around, &catalog, &mut |values: &[Datum]| {
            out.row(values, output, formats);
            flush.flush_some(out)
        })?;
        out.complete(&tag);
        Ok(())
    }

    pub(crate) fn surroundings(&mut self) -> Surroundings {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let now_us = (self.clock)();
        Surroundings {
            begun_us: self.txn.as_ref().map_or(now_us, |txn| txn.begun_us),
            now_us,
            user: self.settings.user.clone(),
            database: self.settings.database.clone(),
            process: self.settings.process,
            memory_bytes: self.settings.memory_bytes,
            design: self.engine.clone(),
            seed: self.seed ^ now_us as u64,
        }
    }

    /// The transaction of the next statement, begun if there is none.
    pub(crate) fn begin_statement(&mut self) -> Result<(), SqlError> {
        if self.txn.is_none() {
            self.begin(Modes::default());
        }
        let backend = self.txn.as_mut().expect("just begun");
        backend.txn.next_statement();
        Ok(())
    }

    pub(crate) fn backend(&mut self) -> &mut Backend {
        self.txn.as_mut().expect("a statement has a transaction")
    }

    fn begin(&mut self, modes: Modes) {
        let repeatable = modes.repeatable.unwrap_or(self.settings.repeatable);
        let isolation =
            if repeatable { Isolation::RepeatableRead } else { Isolation::ReadCommitted };
        let read_only = modes.read_only.unwrap_or(self.settings.read_only);
        let txn = self.engine.gateway().begin(isolation, self.patience.clone());
        let (engine, patience) = (self.engine.clone(), self.patience.clone());
        self.txn = Some(Backend::new(txn, engine, patience, read_only, (self.clock)()));
    }

    /// Ends the transaction of a message outside of a block.
    pub(crate) fn end_implicit(&mut self) -> Result<(), SqlError> {
        if self.in_block {
            return Ok(());
        }
        self.portals.clear();
        match self.txn.take() {
            Some(backend) => backend.txn.commit().map_err(explain),
            None => Ok(()),
        }
    }

    /// After an error: a block has failed, any other transaction is rolled back.
    pub(crate) fn fail(&mut self) {
        if self.in_block {
            self.failed = true;
        } else {
            self.txn = None;
        }
        self.copy = None;
    }

    fn prepared(
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
                let text = statement.text.clone();
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
                self.run(&compiled, &text, &params, &Formats::default(), describes, out, flush)?;
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
                self.settings.reset();
                out.complete("DISCARD ALL");
            }
        }
        Ok(())
    }

    fn define(
        &mut self,
        statement: &sqlparser::ast::Statement,
        out: &mut Out,
    ) -> Result<(), SqlError> {
        if let sqlparser::ast::Statement::Truncate(truncate) = statement {
            return self.truncate(truncate, out);
        }
        if self.in_block {
            let message = "a definition cannot run inside a transaction block";
            return Err(SqlError::new(code::ACTIVE_TRANSACTION, message)
                .hint("End the block with COMMIT first."));
        }
        // What the same message has done before takes effect first.
        self.end_implicit()?;
        let defined = self.engine.define(statement, &self.patience)?;
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
            compiled.run(self.backend(), &[], &around, &catalog, sink)?;
        }
        out.complete("TRUNCATE TABLE");
        Ok(())
    }

    /// Shows texts, one a row.
    pub(crate) fn show_lines(
        &self,
        compiled: &Compiled,
        lines: Vec<String>,
        formats: &Formats,
        describes: bool,
        out: &mut Out,
    ) {
        let output: &[OutputColumn] = compiled.output.as_deref().unwrap_or(&[]);
        if describes {
            out.row_description(output, formats);
        }
        for line in lines {
            out.row(&[Datum::Text(line)], output, formats);
        }
        out.complete(if matches!(compiled.action, Action::Explain(_)) {
            "EXPLAIN"
        } else {
            "SHOW"
        });
    }

    fn check_not_failed(&self, parsed: &Parsed) -> Result<(), SqlError> {
        use sqlparser::ast::Statement as Sql;
        let ends = matches!(
            parsed,
            Parsed::Sql(statement)
                if matches!(**statement, Sql::Commit { .. } | Sql::Rollback { .. })
        );
        if self.failed && !ends { Err(in_failed()) } else { Ok(()) }
    }
}

fn in_failed() -> SqlError {
    let message = "current transaction is aborted, commands ignored until end of transaction block";
    SqlError::new(code::IN_FAILED_TRANSACTION, message)
}
