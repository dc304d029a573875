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
use isomer_sql::{SqlError, SqlType, binary, code, text};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A session may have prepared so many statements, and have so many portals.
const PREPARED_MAX: usize = 10_000;

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

    fn parse(&mut self, reader: &mut Reader<'_>, out: &mut Out) -> Result<(), SqlError> {
        let (name, text) = (reader.text()?, reader.text()?);
        let mut given = Vec::new();
        for _ in 0..reader.count()? {
            let oid = reader.i32()? as u32;
            given.push(if oid == 0 { SqlType::Unknown } else { type_of(oid)? });
        }
        reader.end()?;
        if !name.is_empty() && self.statements.contains_key(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new("42P05", message));
        }
        let statement = self.prepare(text, given)?;
        self.keep(name, statement)?;
        out.empty(b'1');
        Ok(())
    }

    fn keep(&mut self, name: &str, statement: Statement) -> Result<(), SqlError> {
        if self.statements.len() >= PREPARED_MAX {
            let message = format!("a session may prepare at most {PREPARED_MAX} statements");
            return Err(SqlError::new(code::PROGRAM_LIMIT, message).hint("Close some of them."));
        }
        self.statements.insert(name.to_owned(), statement);
        Ok(())
    }

    fn prepare(&mut self, text: &str, given: Vec<SqlType>) -> Result<Statement, SqlError> {
        let text: Arc<str> = Arc::from(text);
        let mut parsed = parse(&text)?;
        if parsed.len() > 1 {
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(SqlError::new(code::SYNTAX, message));
        }
        let parsed = parsed.pop().map(Arc::new);
        let mut statement = Statement { text, parsed, given, compiled: None };
        if let Some(parsed) = &statement.parsed {
            self.check_not_failed(parsed)?;
        }
        self.compile(&mut statement)?;
        Ok(statement)
    }

    /// Compiles a prepared statement, again if the catalog has changed since.
    fn compile(&self, statement: &mut Statement) -> Result<Option<Arc<Compiled>>, SqlError> {
        let Some(parsed) = &statement.parsed else { return Ok(None) };
        let version = self.engine.catalog().version;
        if let Some(compiled) = &statement.compiled
            && compiled.version == version
        {
            return Ok(Some(compiled.clone()));
        }
        let untyped = statement.given.iter().all(|ty| *ty == SqlType::Unknown);
        let known = if untyped { self.engine.known(&statement.text) } else { None };
        let compiled = match known {
            Some(compiled) => compiled,
            None => self.engine.compiled(parsed, &statement.text, &statement.given)?,
        };
        statement.compiled = Some(compiled.clone());
        Ok(Some(compiled))
    }

    fn bind(&mut self, reader: &mut Reader<'_>, out: &mut Out) -> Result<(), SqlError> {
        let (portal, name) = (reader.text()?.to_owned(), reader.text()?);
        let mut statement = self.statement(name)?.clone();
        if let Some(parsed) = &statement.parsed {
            self.check_not_failed(parsed)?;
        }
        let compiled = self.compile(&mut statement)?;
        if let Some(kept) = self.statements.get_mut(name) {
            kept.compiled.clone_from(&compiled);
        }
        let types: &[SqlType] = compiled.as_ref().map_or(&[], |compiled| &compiled.params);
        let formats = Formats::read(reader)?;
        let count = reader.count()?;
        if count != types.len() || (formats.count() > 1 && formats.count() != count) {
            let message = format!(
                "bind message supplies {count} parameters, but prepared statement \"{name}\" requires {}",
                types.len()
            );
            return Err(SqlError::new("08P01", message));
        }
        let mut params = Vec::with_capacity(count);
        for (at, ty) in types.iter().enumerate() {
            params.push(parameter(reader, *ty, formats.is_binary(at))?);
        }
        let formats = Formats::read(reader)?;
        reader.end()?;
        if self.portals.len() >= PREPARED_MAX {
            let message = format!("a session may have at most {PREPARED_MAX} portals");
            return Err(SqlError::new(code::PROGRAM_LIMIT, message));
        }
        self.portals.insert(portal, Portal { statement, params, formats, rest: None });
        out.empty(b'2');
        Ok(())
    }

    fn statement(&self, name: &str) -> Result<&Statement, SqlError> {
        self.statements.get(name).ok_or_else(|| {
            let message = format!("prepared statement \"{name}\" does not exist");
            SqlError::new("26000", message)
        })
    }

    fn describe(&mut self, reader: &mut Reader<'_>, out: &mut Out) -> Result<(), SqlError> {
        let (kind, name) = (reader.byte()?, reader.text()?);
        reader.end()?;
        let (compiled, formats) = match kind {
            b'S' => {
                let mut statement = self.statement(name)?.clone();
                let compiled = self.compile(&mut statement)?;
                let types = compiled.as_ref().map_or(&[][..], |compiled| &compiled.params);
                out.parameter_description(types);
                (compiled, Formats::default())
            }
            b'P' => {
                let portal = self.portals.get(name).ok_or_else(|| no_portal(name))?;
                (portal.statement.compiled.clone(), portal.formats.clone())
            }
            _ => return Err(violation("neither a statement nor a portal is described")),
        };
        match compiled.as_ref().and_then(|compiled| self.output_of(compiled)) {
            Some(output) => out.row_description(&output, &formats),
            None => out.empty(b'n'),
        }
        Ok(())
    }

    /// The columns of a statement's result.
    fn output_of(&self, compiled: &Compiled) -> Option<Vec<OutputColumn>> {
        if let Action::Prepared(Prepared::Execute(name, _)) = &compiled.action {
            let inner = self.statements.get(name)?.compiled.as_ref()?;
            return inner.output.clone();
        }
        compiled.output.clone()
    }

    fn close(&mut self, reader: &mut Reader<'_>, out: &mut Out) -> Result<(), SqlError> {
        let (kind, name) = (reader.byte()?, reader.text()?);
        match kind {
            b'S' => drop(self.statements.remove(name)),
            b'P' => drop(self.portals.remove(name)),
            _ => return Err(violation("neither a statement nor a portal is closed")),
        }
        out.empty(b'3');
        Ok(())
    }

    fn execute(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<(), SqlError> {
        let (name, most) = (reader.text()?, reader.i32()?);
        reader.end()?;
        self.patience.renew();
        let mut portal = self.portals.remove(name).ok_or_else(|| no_portal(name))?;
        let Some(compiled) = self.compile(&mut portal.statement)? else {
            out.empty(b'I');
            return Ok(());
        };
        let text = portal.statement.text.clone();
        let most = usize::try_from(most).unwrap_or(0);
        if most == 0 && portal.rest.is_none() {
            let done =
                self.run(&compiled, &text, &portal.params, &portal.formats, false, out, flush);
            if !name.is_empty() || done.is_ok() {
                self.portals.insert(name.to_owned(), portal);
            }
            return done;
        }
        if portal.rest.is_none() {
            let mut all = Out::default();
            self.run(
                &compiled,
                &text,
                &portal.params,
                &portal.formats,
                false,
                &mut all,
                &mut Kept,
            )?;
            portal.rest = Some(split_rows(&all.bytes));
        }
        let (rows, tag) = portal.rest.as_mut().expect("just filled");
        let shown = if most == 0 { rows.len() } else { most.min(rows.len()) };
        rows.drain(..shown).for_each(|row| out.bytes.extend(row));
        if rows.is_empty() {
            out.complete(tag)
        } else {
            out.empty(b's')
        }
        self.portals.insert(name.to_owned(), portal);
        Ok(())
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

    fn control(&mut self, control: &Control, out: &mut Out) -> Result<&'static str, SqlError> {
        match control {
            Control::Begin(modes) => {
                if self.in_block {
                    let message = "there is already a transaction in progress";
                    out.notice("WARNING", &SqlError::new(code::ACTIVE_TRANSACTION, message));
                } else {
                    if self.txn.is_none() {
                        self.begin(*modes);
                    }
                    self.in_block = true;
                }
                Ok("BEGIN")
            }
            Control::Commit => self.end_block(true, out),
            Control::Rollback => self.end_block(false, out),
            Control::Savepoint(name) => {
                self.needs_block("SAVEPOINT")?;
                let savepoint = self.backend().savepoint();
                self.savepoints.push((name.clone(), savepoint));
                Ok("SAVEPOINT")
            }
            Control::Release(name) => {
                self.needs_block("RELEASE SAVEPOINT")?;
                let at = self.savepoint(name)?;
                self.savepoints.truncate(at);
                Ok("RELEASE")
            }
            Control::RollbackTo(name) => {
                self.needs_block("ROLLBACK TO SAVEPOINT")?;
                let at = self.savepoint(name)?;
                let savepoint = self.savepoints[at].1;
                self.savepoints.truncate(at + 1);
                self.backend().back_to(savepoint);
                self.failed = false;
                Ok("ROLLBACK")
            }
            Control::Set(modes, for_session) => {
                if *for_session {
                    self.settings.repeatable = modes.repeatable.unwrap_or(self.settings.repeatable);
                    self.settings.read_only = modes.read_only.unwrap_or(self.settings.read_only);
                } else if self.in_block {
                    self.begin(*modes);
                } else {
                    let message = "SET TRANSACTION can only be used in transaction blocks";
                    out.notice("WARNING", &SqlError::new(code::NO_ACTIVE_TRANSACTION, message));
                }
                Ok("SET")
            }
        }
    }

    fn needs_block(&self, what: &str) -> Result<(), SqlError> {
        if self.in_block {
            return Ok(());
        }
        let message = format!("{what} can only be used in transaction blocks");
        Err(SqlError::new(code::NO_ACTIVE_TRANSACTION, message))
    }

    fn savepoint(&self, name: &str) -> Result<usize, SqlError> {
        self.savepoints.iter().rposition(|(other, _)| other == name).ok_or_else(|| {
            SqlError::new(code::NO_SAVEPOINT, format!("savepoint \"{name}\" does not exist"))
        })
    }

    fn end_block(&mut self, commits: bool, out: &mut Out) -> Result<&'static str, SqlError> {
        if !self.in_block {
            let message = "there is no transaction in progress";
            out.notice("WARNING", &SqlError::new(code::NO_ACTIVE_TRANSACTION, message));
        }
        let failed = std::mem::replace(&mut self.failed, false);
        self.in_block = false;
        self.savepoints.clear();
        self.portals.retain(|name, _| name.is_empty());
        let txn = self.txn.take();
        if !commits || failed {
            return Ok("ROLLBACK");
        }
        match txn {
            Some(backend) => backend.txn.commit().map_err(explain).map(|()| "COMMIT"),
            None => Ok("COMMIT"),
        }
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

/// Keeps everything.
struct Kept;

impl Flush for Kept {
    fn flush_some(&mut self, out: &mut Out) -> Result<(), SqlError> {
        const KEPT_BYTES_MAX: usize = 256 << 20;
        if out.bytes.len() <= KEPT_BYTES_MAX {
            return Ok(());
        }
        let message = "a portal that is read in parts takes more than 256 MB";
        Err(SqlError::new(code::OUT_OF_MEMORY, message))
    }
}

/// The messages of rows, and the tag of what comes after them.
fn split_rows(mut bytes: &[u8]) -> (Vec<Vec<u8>>, String) {
    let (mut rows, mut tag) = (Vec::new(), String::new());
    while let Some(length) = bytes.get(1..5) {
        let length = i32::from_be_bytes(length.try_into().expect("four bytes")) as usize + 1;
        let (message, rest) = bytes.split_at(length);
        match message[0] {
            b'C' => tag = String::from_utf8_lossy(&message[5..length - 1]).into_owned(),
            _ => rows.push(message.to_vec()),
        }
        bytes = rest;
    }
    (rows, tag)
}

fn in_failed() -> SqlError {
    let message = "current transaction is aborted, commands ignored until end of transaction block";
    SqlError::new(code::IN_FAILED_TRANSACTION, message)
}

fn no_portal(name: &str) -> SqlError {
    SqlError::new("34000", format!("portal \"{name}\" does not exist"))
}

fn type_of(oid: u32) -> Result<SqlType, SqlError> {
    SqlType::of_oid(oid).ok_or_else(|| {
        SqlError::unsupported(format!("a parameter of the type with the number {oid}"))
    })
}

fn parameter(reader: &mut Reader<'_>, ty: SqlType, is_binary: bool) -> Result<Datum, SqlError> {
    let length = reader.i32()?;
    let Ok(length) = usize::try_from(length) else {
        return if length == -1 { Ok(Datum::Null) } else { Err(violation("a length is negative")) };
    };
    let bytes = reader.bytes(length)?;
    if is_binary { binary::decode(bytes, ty) } else { text::parse(binary::utf8(bytes)?, ty) }
}
