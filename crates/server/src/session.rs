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

use crate::backend::Backend;
use crate::copy::CopyIn;
use crate::engine::Engine;
use crate::limits::{self, Limited, Watch};
use crate::options::ServerOptions;
use crate::settings::{Kept, Settings};
use crate::wire::{Formats, Out, Reader, violation};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use isomer_cluster::{Impatience, Isolation, Patience, Ran, Savepoint};
use isomer_sql::datum::Datum;
use isomer_sql::parse::{DesignStatement, Parsed, parse};
use isomer_sql::plan::OutputColumn;
use isomer_sql::statement::{Action, Compiled, Control, Modes, Prepared};
use isomer_sql::transaction::Surroundings;
use isomer_sql::{SqlError, SqlType, code};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A statement whose rows have moved away is run so often in all.
const RUNS_MAX: u32 = 10;

/// How output gets to the client while a statement runs.
pub(crate) trait Flush {
    /// Sends what there is, if there is much of it.
    fn flush_some(&mut self, out: &mut Out) -> Result<(), SqlError>;
}

/// See the [module documentation](self).
pub(crate) struct Session {
    pub(crate) engine: Arc<Engine>,
    pub(crate) patience: Arc<Patience>,
    pub(crate) settings: Arc<Settings>,
    /// What the settings will be after the block.
    pub(crate) kept_settings: Option<Kept>,
    pub(crate) copy: Option<CopyIn>,
    txn: Option<Backend>,
    /// True between BEGIN and its end.
    in_block: bool,
    failed: bool,
    savepoints: Vec<(String, Savepoint)>,
    statements: HashMap<String, Statement, FixedState>,
    portals: HashMap<String, Portal, FixedState>,
    watch: Arc<Watch>,
    /// When the time of the transaction is over, and that of the statement.
    transaction_until: Option<Instant>,
    statement_until: Option<Instant>,
    clock: fn() -> i64,
    random: fn(&mut [u8]),
    statement_bytes_max: usize,
    seed: u64,
    /// After an error in the extended protocol: messages are passed over until the next Sync.
    skips: bool,
    /// What the client is told last.
    last: Option<SqlError>,
    /// How its last transaction that wrote has committed.
    last_commit: Option<Ran>,
}

/// A prepared statement.
#[derive(Clone)]
struct Statement {
    written: Arc<Written>,
    compiled: Option<Arc<Compiled>>,
}

/// A statement as the client wrote it.
struct Written {
    text: Arc<str>,
    /// None: the empty statement.
    parsed: Option<Parsed>,
    given: Vec<SqlType>,
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
        watch: Arc<Watch>,
        options: &ServerOptions,
    ) -> Session {
        patience.set_lock_limit(settings.limits.lock);
        Session {
            engine,
            patience,
            seed: settings.process as u64,
            settings: Arc::new(settings),
            kept_settings: None,
            copy: None,
            txn: None,
            in_block: false,
            failed: false,
            savepoints: Vec::new(),
            statements: HashMap::default(),
            portals: HashMap::default(),
            watch,
            transaction_until: None,
            statement_until: None,
            clock: options.clock,
            random: options.random,
            statement_bytes_max: options.statement_bytes_max,
            skips: false,
            last: None,
            last_commit: None,
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

    pub(crate) fn is_in_block(&self) -> bool {
        self.in_block
    }

    /// How long the client may be silent now; none: as long as it likes.
    pub(crate) fn silence(&self) -> Option<Duration> {
        let until = match self.copy {
            Some(_) => self.statement_until,
            None => self.transaction_until,
        };
        let limits = &self.settings.limits;
        let idle = match (&self.copy, &self.txn) {
            (Some(_), _) => 0,
            (None, Some(_)) => limits.idle_in_transaction,
            (None, None) => limits.idle,
        };
        let until = until.map(|at| at.saturating_duration_since(limits::now()));
        let idle = (idle > 0).then(|| Duration::from_millis(idle));
        let least = until.into_iter().chain(idle).min();
        // A socket knows no time-out of zero.
        least.map(|time| time.max(Duration::from_millis(1)))
    }

    /// The client was silent for too long: ends what it was about.
    ///
    /// # Errors
    /// What it is told last, if its connection ends.
    pub(crate) fn end_silence(&mut self, out: &mut Out) -> Result<(), SqlError> {
        if self.copy.is_some() {
            self.end_copy(Err(limits::ended(Impatience::StatementTime)), out);
            return Ok(());
        }
        if self.transaction_until.is_some_and(|at| at <= limits::now()) {
            return Err(limits::ended(Impatience::TransactionTime));
        }
        Err(match self.txn {
            Some(_) => {
                SqlError::new("25P03", "terminating connection due to idle-in-transaction timeout")
            }
            None => SqlError::new("57P05", "terminating connection due to idle-session timeout"),
        })
    }

    /// Handles a message; `false` if the client takes its leave.
    ///
    /// # Errors
    /// What the client is told last.
    pub(crate) fn message(
        &mut self,
        tag: u8,
        body: &[u8],
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<bool, SqlError> {
        let mut reader = Reader::new(body);
        match tag {
            b'X' => return Ok(false),
            tag if self.copy.is_some() => self.copy_message(tag, &mut reader, out),
            b'Q' => {
                let text = reader.text()?;
                self.simple(text, out, flush);
            }
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
                    self.skips = true;
                    self.tell(error, out);
                }
            }
            other => return Err(violation(&format!("there is no message of type {other:#x}"))),
        }
        self.last.take().map_or(Ok(true), Err)
    }

    /// Tells the client of an error, which ends its transaction and perhaps its connection.
    pub(crate) fn tell(&mut self, error: SqlError, out: &mut Out) {
        self.fail();
        if limits::is_last(&error) {
            self.last = Some(error);
        } else {
            out.error(&error);
        }
    }

    /// Where its last transaction that wrote has committed, as `SHOW last_commit` says it.
    pub(crate) fn last_commit(&self) -> String {
        let Some(Ran { place, changes, .. }) = self.last_commit else { return String::new() };
        let place = crate::autopilot::place(place);
        if changes == 0 { place } else { format!("{place}, after {changes} changes of the design") }
    }

    pub(crate) fn skip_to_sync(&mut self) {
        self.skips = true;
    }

    fn simple(&mut self, text: &str, out: &mut Out, flush: &mut dyn Flush) {
        self.patience.renew();
        let done = self.simple_statements(text, out, flush);
        if let Err(error) = done {
            self.tell(error, out);
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
            return self.run(&compiled, &[], &Formats::default(), true, out, flush);
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
            self.run(&compiled, &[], &Formats::default(), true, out, flush)?;
        }
        Ok(())
    }

    /// In a failed transaction that is the error, whatever else is wrong.
    fn or_failed(&self, error: SqlError) -> SqlError {
        if self.failed && error.code != code::SYNTAX { in_failed() } else { error }
    }

    /// Runs a statement within the limits on time, and says what came of it.
    #[allow(clippy::too_many_arguments, reason = "a statement, how to show it, and where to")]
    fn run(
        &mut self,
        compiled: &Arc<Compiled>,
        params: &[Datum],
        formats: &Formats,
        describes: bool,
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<(), SqlError> {
        let _limited = self.limited();
        self.perform(compiled, params, formats, describes, out, flush)
    }

    /// Limits the time of the statement that begins.
    fn limited(&mut self) -> Option<Limited> {
        self.statement_until = until(self.settings.limits.statement);
        self.watched()
    }

    /// Limits the time of the statement that goes on.
    pub(crate) fn watched(&self) -> Option<Limited> {
        let statement = self.statement_until.map(|at| (at, Impatience::StatementTime));
        let transaction = self.transaction_until.map(|at| (at, Impatience::TransactionTime));
        let (at, why) = statement.into_iter().chain(transaction).min_by_key(|(at, _)| *at)?;
        Some(self.watch.set(at, self.settings.process, &self.patience, why))
    }

    #[allow(clippy::too_many_arguments, reason = "a statement, how to show it, and where to")]
    fn perform(
        &mut self,
        compiled: &Arc<Compiled>,
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
                let system = matches!(**statement, DesignStatement::Autopilot(_));
                out.complete(if system { "ALTER SYSTEM" } else { "ALTER TABLE" });
                Ok(())
            }
            Action::User(statement) => {
                let mut salt = [0; 16];
                (self.random)(&mut salt);
                let tag = self.engine.change_user(statement, salt)?;
                out.complete(tag);
                Ok(())
            }
            Action::Explain(inner) => {
                let lines = crate::explain::explain(&self.engine, inner);
                self.show_lines(compiled, lines, formats, describes, out);
                Ok(())
            }
            Action::Copy(copy) => self.begin_copy(compiled, copy, describes, out, flush),
            _ => self.query(compiled, params, formats, describes, out, flush),
        }
    }

    /// Runs a statement over rows; again if the rows it read have moved so far that no site has them as
    /// they were, as long as the client has seen nothing of it.
    fn query(
        &mut self,
        compiled: &Arc<Compiled>,
        params: &[Datum],
        formats: &Formats,
        describes: bool,
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<(), SqlError> {
        let mark = out.mark();
        for _ in 0..RUNS_MAX {
            let is_alone = self.txn.is_none();
            self.begin_statement()?;
            // What was done before in the transaction stays; what was seen before stays true as well, as
            // every statement of READ COMMITTED sees anew.
            let sees_anew = self.backend().isolation() == Isolation::ReadCommitted;
            let savepoint = (!is_alone && sees_anew).then(|| self.backend().savepoint());
            let done = self.query_once(compiled, params, formats, describes, out, flush);
            let Err(error) = done else {
                if savepoint.is_some() && self.savepoints.is_empty() {
                    self.backend().txn.forget_savepoints();
                }
                return Ok(());
            };
            let may_again = is_alone || savepoint.is_some();
            if error.code != code::SERIALIZATION || !may_again || !out.back_to(mark) {
                return Err(error);
            }
            match savepoint {
                Some(savepoint) => self.backend().back_to(savepoint),
                None => self.txn = None,
            }
        }
        let message = "the rows of the statement moved away each time it was run";
        Err(SqlError::new(code::SERIALIZATION, message).hint("Run the transaction again."))
    }

    fn query_once(
        &mut self,
        compiled: &Arc<Compiled>,
        params: &[Datum],
        formats: &Formats,
        describes: bool,
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<(), SqlError> {
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
            memory_bytes: self.statement_bytes_max,
            design: self.engine.clone(),
            settings: self.settings.clone(),
            seed: self.seed ^ now_us as u64,
        }
    }

    /// The transaction of the next statement, begun if there is none.
    pub(crate) fn begin_statement(&mut self) -> Result<(), SqlError> {
        if self.txn.is_none() {
            self.begin(Modes::default());
        }
        let backend = self.txn.as_mut().expect("just begun");
        backend.is_used = true;
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
        self.transaction_until = until(self.settings.limits.transaction);
    }

    /// Ends the transaction of a message outside of a block.
    pub(crate) fn end_implicit(&mut self) -> Result<(), SqlError> {
        if self.in_block {
            return Ok(());
        }
        self.portals.clear();
        self.transaction_until = None;
        match self.txn.take() {
            Some(backend) => self.commit(backend),
            None => Ok(()),
        }
    }

    /// After an error: a block has failed, any other transaction is rolled back.
    pub(crate) fn fail(&mut self) {
        if self.in_block {
            self.failed = true;
        } else {
            self.txn = None;
            self.transaction_until = None;
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
                self.perform(&compiled, &params, &Formats::default(), describes, out, flush)?;
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

    fn define(
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

/// The end of a time that begins now; zero: none.
fn until(ms: u64) -> Option<Instant> {
    (ms > 0).then(|| limits::now() + Duration::from_millis(ms))
}

fn in_failed() -> SqlError {
    let message = "current transaction is aborted, commands ignored until end of transaction block";
    SqlError::new(code::IN_FAILED_TRANSACTION, message)
}
