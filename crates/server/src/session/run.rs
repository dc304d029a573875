//! Runs a statement: dispatches on its kind, begins its transaction, and repeats it if its rows
//! have moved.

use super::cursors::Kept;
use super::plans;
use super::ship::{self, Said};
use super::{Flush, RUNS_MAX, Session, in_failed, until};
use crate::alter::folded;
use crate::backend::{Backend, explain, read_only_call};
use crate::ddl::Definer;
use crate::engine::until_seated;
use crate::limits::{self, Limited};
use crate::rights::{check_all_designs, check_design, check_lock, check_use};
use crate::tally::RolledBack;
use crate::users::check_superuser;
use crate::wire::{Formats, Out};
use isomer_cluster::{CancelReason, Isolation, LockMode, queue_again};
use isomer_sql::catalog::{Catalog, Named, Relation, TEMPORARY, Table};
use isomer_sql::datum::Datum;
use isomer_sql::parse::{DesignStatement, Maintenance, RightsStatement, RoleName, UserStatement};
use isomer_sql::plan::OutputColumn;
use isomer_sql::rights::Object;
use isomer_sql::statement::{Action, Compiled, Control, Definition, Explains};
use isomer_sql::system::{self, SystemTable};
use isomer_sql::transaction::Surroundings;
use isomer_sql::zone::Zone;
use isomer_sql::{SqlError, code};
use sqlparser::ast::{AlterTableOperation, Lock, LockTableMode, Statement};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The number of runs of a statement before the next ones wait, each twice as long.
const QUICK_RUNS: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// True for a text that begins with ALTER SYSTEM, ALTER TABLE or CHECKPOINT: it has no secrets.
fn is_about_design(text: &str) -> bool {
    let mut words = text.split_whitespace().map(str::to_ascii_lowercase);
    match (words.next().as_deref(), words.next().as_deref()) {
        (Some("alter"), Some("system" | "table")) => true,
        (Some(first), _) => first.starts_with("checkpoint"),
        _ => false,
    }
}

/// True for a definition that decides where rows are, or what roles may do.
fn is_of_operators(definition: &Definition) -> bool {
    let sets = |operation: &AlterTableOperation| {
        matches!(operation, AlterTableOperation::SetOptionsParens { .. })
    };
    match definition {
        Definition::Reshard(_) | Definition::Rights(_) => true,
        Definition::Sql(statement) => match &**statement {
            Statement::AlterTable(alter) => alter.operations.iter().any(sets),
            _ => false,
        },
        _ => false,
    }
}

/// Shapes of one transaction to which its commit is counted.
const SHAPES_MAX: usize = 16;

/// Plans a statement again, for another catalog.
pub(crate) type PlanAgain<'c> = &'c dyn Fn(&Catalog) -> Result<Arc<Compiled>, SqlError>;

/// A statement with its parameters, and the form of its result.
#[derive(Clone, Copy)]
pub(crate) struct Call<'c> {
    pub(crate) compiled: &'c Arc<Compiled>,
    /// Used if definitions have overtaken the plan.
    pub(crate) again: PlanAgain<'c>,
    pub(crate) params: &'c [Datum],
    pub(crate) formats: &'c Formats,
    /// The result is preceded by its columns, as in a simple query.
    pub(crate) describes: bool,
    /// Collects the rows instead of sending them.
    pub(crate) keeps: Option<&'c RefCell<Kept>>,
    /// The text, if the statement may run in another process.
    pub(crate) said: Option<Said<'c>>,
    /// EXPLAIN EXECUTE: shows the plan of a prepared statement.
    pub(crate) explains: Option<Explains>,
}

impl<'c> Call<'c> {
    /// A statement that runs here, and whose result has no description.
    pub(super) fn new(
        compiled: &'c Arc<Compiled>,
        again: PlanAgain<'c>,
        params: &'c [Datum],
        formats: &'c Formats,
    ) -> Call<'c> {
        let (describes, keeps, said, explains) = (false, None, None, None);
        Call { compiled, again, params, formats, describes, keeps, said, explains }
    }

    /// A statement without parameters, as in a simple query.
    ///
    /// # Errors
    /// 42P02 if it names some, unless EXPLAIN shows its plan for any values.
    pub(super) fn plain(
        compiled: &'c Arc<Compiled>,
        again: PlanAgain<'c>,
        formats: &'c Formats,
    ) -> Result<Call<'c>, SqlError> {
        let is_plan = |action: &Action| matches!(action, Action::Explain(_, it) if !it.analyzes);
        if !is_plan(&compiled.action) && !compiled.params.is_empty() {
            return Err(SqlError::new(code::UNDEFINED_PARAMETER, "there is no parameter $1"));
        }
        Ok(Call { describes: true, ..Call::new(compiled, again, &[], formats) })
    }
}

impl Session {
    /// Runs a statement within its time limits, and reports the result.
    pub(super) fn run(
        &mut self,
        call: Call<'_>,
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<(), SqlError> {
        let _limited = self.limited();
        measured(self, call, out, flush)
    }

    /// Starts the time limits of a new statement.
    pub(super) fn limited(&mut self) -> [Option<Limited>; 2] {
        self.statement_until = until(self.settings.limits.statement);
        self.watched()
    }

    /// Watches the time limits of the current statement.
    pub(crate) fn watched(&self) -> [Option<Limited>; 2] {
        let check = Duration::from_millis(self.settings.limits.check);
        let socket = self.socket.as_ref().filter(|_| !check.is_zero());
        let look = socket.map(|socket| self.watch.look(check, &self.cancel, socket));
        [self.watched_time(), look]
    }

    fn watched_time(&self) -> Option<Limited> {
        let statement = self.statement_until.map(|at| (at, CancelReason::StatementTime));
        let transaction = self.transaction_until.map(|at| (at, CancelReason::TransactionTime));
        let (at, why) = statement.into_iter().chain(transaction).min_by_key(|(at, _)| *at)?;
        Some(self.watch.set(at, &self.cancel, why))
    }

    pub(super) fn perform(
        &mut self,
        call: Call<'_>,
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<(), SqlError> {
        let action = &call.compiled.action;
        if self.failed
            && !matches!(
                action,
                Action::Control(
                    Control::Commit
                        | Control::Rollback
                        | Control::Chain(_)
                        | Control::RollbackTo(_)
                )
            )
        {
            return Err(in_failed());
        }
        if let Some(explains) = call.explains {
            return plans::show_plan(self, call, explains, out, flush);
        }
        match action {
            Action::Control(control) => {
                let tag = self.control(control, out)?;
                out.complete(tag);
                Ok(())
            }
            Action::Setting(setting) => self.setting(setting, call, out),
            Action::Prepared(prepared) => {
                self.prepared((prepared, None), call.describes, out, flush)
            }
            Action::Maintain(maintenance) => self.maintain(maintenance, out),
            Action::Nothing(tag) => {
                out.complete(tag);
                Ok(())
            }
            Action::Define(definition) => {
                let result = self.define(definition, out, flush);
                if is_of_operators(definition) {
                    audited(self, None, &result);
                }
                result
            }
            Action::Design(statement) => {
                let result = design(self, statement, out);
                if !matches!(**statement, DesignStatement::Show(..)) {
                    audited(self, None, &result);
                }
                result
            }
            Action::Cursor(cursor) => self.cursor(cursor, call, out, flush),
            Action::Lock(lock) => self.lock_tables(lock, out),
            Action::User(statement) => {
                let result = self.user(statement, out, flush);
                audited(self, None, &result);
                result
            }
            Action::Explain(inner, explains) => match &**inner {
                Action::Prepared(execute) => {
                    self.prepared((execute, Some(*explains)), call.describes, out, flush)
                }
                _ => plans::show_plan(self, call, *explains, out, flush),
            },
            Action::Copy(_) => self.begin_copy(call, out, flush),
            Action::Call(_) => match ship::ship(self, call, out) {
                Some(done) => done,
                None => super::calls::run(self, call, out),
            },
            _ => match ship::ship(self, call, out) {
                Some(done) => done,
                None => self.query(call, out, flush),
            },
        }
    }

    /// LOCK TABLE: locks the tables until the transaction ends.
    fn lock_tables(&mut self, lock: &Lock, out: &mut Out) -> Result<(), SqlError> {
        self.needs_block("LOCK TABLE")?;
        self.begin_statement()?;
        let mode = match lock.lock_mode {
            Some(LockTableMode::AccessShare) => LockMode::AccessShare,
            Some(LockTableMode::RowShare) => LockMode::RowShare,
            Some(LockTableMode::RowExclusive) => LockMode::RowExclusive,
            Some(LockTableMode::ShareUpdateExclusive) => LockMode::ShareUpdateExclusive,
            Some(LockTableMode::Share) => LockMode::Shared,
            Some(LockTableMode::ShareRowExclusive) => LockMode::ShareRowExclusive,
            Some(LockTableMode::Exclusive) => LockMode::AllButReads,
            None | Some(LockTableMode::AccessExclusive) => LockMode::Exclusive,
        };
        for target in &lock.tables {
            let catalog = self.catalog();
            let named = Named::of(&target.name)?;
            let table = catalog.table(&named)?.clone();
            check_use(&self.identity(&catalog), &catalog, &named)?;
            check_lock(&self.identity(&catalog), &catalog, table.oid, mode)?;
            let backend = self.backend();
            backend.planned_for = catalog.version;
            backend.lock_table(&table, mode, !lock.nowait)?;
        }
        out.complete("LOCK TABLE");
        Ok(())
    }

    /// VACUUM, ANALYZE: refuses relations and columns that do not exist. ANALYZE gathers
    /// statistics; VACUUM has nothing to do.
    fn maintain(&mut self, maintenance: &Maintenance, out: &mut Out) -> Result<(), SqlError> {
        let tag = maintenance.tag();
        if maintenance.vacuums && (self.in_block || self.is_one_of_many) {
            let message = format!("{tag} cannot run inside a transaction block");
            return Err(SqlError::new(code::ACTIVE_TRANSACTION, message));
        }
        let catalog = self.catalog();
        for (name, columns) in &maintenance.tables {
            let named = Named::of(name)?;
            if !columns.is_empty() && !maintenance.analyzes {
                let what = "ANALYZE option must be specified when a column list is provided";
                return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, what));
            }
            match catalog.lookup(&named) {
                Some(Relation::Table(table)) => {
                    for column in columns {
                        table.column(&folded(column))?;
                    }
                    if maintenance.analyzes {
                        self.analyze(table, out)?;
                    }
                }
                Some(_) => {
                    let verb = tag.to_lowercase();
                    let message = format!(
                        "skipping \"{}\" --- cannot {verb} non-tables or special system tables",
                        named.name
                    );
                    out.notice("WARNING", &SqlError::new("01000", message));
                }
                None if SystemTable::find(named.schema.as_deref(), &named.name).is_some() => {}
                None => return Err(catalog.no_relation(&named, "table")),
            }
        }
        if maintenance.analyzes && maintenance.tables.is_empty() {
            for table in catalog.tables.values() {
                self.analyze(table, out)?;
            }
        }
        out.complete(tag);
        Ok(())
    }

    /// ANALYZE of a table: gathers its statistics. Tables of other owners are skipped.
    fn analyze(&mut self, table: &Arc<Table>, out: &mut Out) -> Result<(), SqlError> {
        if table.schema_name == TEMPORARY || self.is_read_only() == Some(true) {
            return Ok(());
        }
        let catalog = self.catalog();
        let who = self.identity(&catalog);
        if !who.acts_as(who.owner_of(&catalog, Object::Relation(table.oid))) {
            let name = &table.name;
            let message = format!("permission denied to analyze \"{name}\", skipping it");
            out.notice("WARNING", &SqlError::new("01000", message));
            return Ok(());
        }
        self.begin_statement()?;
        let around = self.surroundings();
        let mut known = crate::analyze::statistics(table, &catalog, self.backend(), &around)?;
        let before = catalog.statistics.get(&table.oid);
        known.analyzed = before.map(|before| before.analyzed).unwrap_or_default();
        let analyzed = &mut known.analyzed;
        let is_own = self.settings.application() == crate::autoanalyze::APPLICATION;
        let times = if is_own { &mut analyzed.own } else { &mut analyzed.asked };
        times.again(around.now_us);
        let mut notices = Vec::new();
        self.backend().begin_definition()?;
        Definer::new(self.backend(), &around, &mut notices, true)
            .change(|catalog| drop(catalog.statistics.insert(table.oid, Arc::new(known))));
        Ok(())
    }

    /// Creates, alters or drops a role. Its memberships are definitions, which commit with it.
    fn user(
        &mut self,
        statement: &UserStatement,
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<(), SqlError> {
        if self.is_read_only() == Some(true) {
            let verb = match statement {
                UserStatement::Create { .. } => "CREATE ROLE",
                UserStatement::Alter { .. } => "ALTER ROLE",
                UserStatement::Drop { .. } => "DROP ROLE",
            };
            return Err(read_only_call(verb));
        }
        self.commit_before_user(out)?;
        let mut salt = [0; 16];
        (self.random)(&mut salt);
        let who = self.identity(&self.catalog());
        self.check_known(statement)?;
        if let UserStatement::Drop { name, .. } = statement
            && *name == *self.settings.user
            && *name != *who.name
        {
            return Err(SqlError::new(code::OBJECT_IN_USE, "session user cannot be dropped"));
        }
        let change = |session: &Session| session.engine.change_user(statement, &who.name, salt);
        let changed = match statement {
            UserStatement::Drop { name, .. } if who.is_superuser => {
                self.let_go_of_role(name)?;
                change(self)?
            }
            _ => change(self)?,
        };
        if let UserStatement::Create { name, attributes } = statement {
            for grant in attributes.grants(name) {
                let grant = RightsStatement::Roles(Box::new(grant));
                let definition = Definition::Rights(Box::new(grant));
                self.define(&definition, &mut Out::default(), flush)?;
            }
        }
        // Users are not part of a block.
        if let Some(backend) = self.txn.take() {
            self.commit(backend)?;
        }
        if let Some(dropped) = changed.dropped {
            self.clients.send_away(self.engine.gateway(), &dropped);
        }
        out.complete(changed.tag);
        Ok(())
    }

    /// Checks the roles that a new role names, before it is created.
    fn check_known(&self, statement: &UserStatement) -> Result<(), SqlError> {
        let UserStatement::Create { name, attributes } = statement else { return Ok(()) };
        let roles = self.engine.roles();
        for grant in attributes.grants(name) {
            let named = grant.members.iter().filter_map(|member| match member {
                RoleName::Named(name) => Some(name.as_str()),
                RoleName::Public => Some("public"),
                RoleName::Current | RoleName::Session => None,
            });
            let mut all = grant.roles.iter().map(String::as_str).chain(named);
            all.find(|other| *other != name.as_str() && roles.named(other).is_err())
                .map_or(Ok(()), |other| roles.named(other).map(drop))?;
        }
        Ok(())
    }

    /// Removes the memberships of a role that is about to be dropped, if it owns nothing.
    fn let_go_of_role(&mut self, name: &str) -> Result<(), SqlError> {
        let roles = self.engine.roles();
        let Ok(role) = roles.named(name) else { return Ok(()) };
        let (oid, around) = (role.oid as u32, self.surroundings());
        let mut notices = Vec::new();
        self.begin_statement()?;
        Definer::new(self.backend(), &around, &mut notices, true).forget_role(oid, name)
    }

    /// Runs a statement over rows. Repeats it if its rows have moved and no site has the snapshot
    /// any more, or if a definition has overtaken its plan. It is not repeated if the client has
    /// seen output already.
    pub(super) fn query(
        &mut self,
        call: Call<'_>,
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<(), SqlError> {
        let (mark, numbers) = (out.mark(), self.numbers.borrow().mark());
        let mut near = self.shipping.near.take();
        for run in 1..=RUNS_MAX {
            let is_alone = self.txn.is_none();
            // A transaction without reads and writes can take a new snapshot.
            let is_used = self.txn.as_ref().is_some_and(|backend| backend.is_used);
            let is_first = !is_used && self.savepoints.is_empty() && call.compiled.is_read_only();
            self.begin_statement()?;
            // Earlier work of the transaction stays.
            let savepoint = (!is_alone).then(|| self.backend().savepoint());
            let catalog = self.catalog();
            // With another level, a snapshot is of all rows, for the statements to come.
            let backend = self.backend();
            let is_of_statement = backend.isolation() == Isolation::ReadCommitted;
            backend.txn.near = near.take().filter(|_| is_of_statement);
            let done = self
                .plan(call, &catalog)
                .and_then(|compiled| self.query_once(call, &compiled, &catalog, out, flush));
            let Err(error) = done else {
                if savepoint.is_some() && self.savepoints.is_empty() {
                    self.backend().txn.forget_savepoints();
                }
                return Ok(());
            };
            // Earlier results stay valid too, because each statement of READ COMMITTED takes a new
            // snapshot.
            let sees_anew = self.backend().isolation() == Isolation::ReadCommitted;
            let is_overtaken = self.catalog().version != catalog.version;
            let may_again = is_alone || sees_anew || is_overtaken || is_first;
            if error.code != code::SERIALIZATION || !may_again || !out.back_to(mark) {
                return Err(error);
            }
            match savepoint {
                Some(savepoint) if sees_anew || !is_first => self.backend().back_to(&savepoint),
                Some(_) => self.begin_again(),
                None => self.txn.take().into_iter().for_each(|it| it.end(RolledBack::Repeated)),
            }
            self.numbers_back_to(&numbers);
            // Others may be taking over from a site. All pauses are longer than that takes.
            if let Some(more) = run.checked_sub(QUICK_RUNS).filter(|_| run < RUNS_MAX) {
                let pause = FIRST_PAUSE * 2_u32.pow(more);
                self.engine.gateway().pause(&self.cancel, pause).map_err(explain)?;
            }
        }
        let message = "the rows of the statement moved away each time it was run";
        Err(SqlError::new(code::SERIALIZATION, message).hint("Run the transaction again."))
    }

    /// Restarts the transaction of a block, which has no reads or writes yet.
    fn begin_again(&mut self) {
        let Some(mut before) = self.txn.take() else { return };
        let (begun_us, deferred) = (before.begun_us, std::mem::take(&mut before.deferred));
        before.end(RolledBack::Repeated);
        let backend = self.backend();
        (backend.begun_us, backend.deferred) = (begun_us, deferred);
    }

    /// The plan of a statement for this catalog and the transaction's snapshot, if the role may run
    /// it.
    pub(crate) fn plan(
        &self,
        call: Call<'_>,
        catalog: &Catalog,
    ) -> Result<Arc<Compiled>, SqlError> {
        let time = self.txn.as_ref().and_then(|backend| backend.txn.fixed_time());
        let compiled = match time.and_then(|time| catalog.seen_at(time)) {
            Some(earlier) => (call.again)(&earlier)?,
            None if call.compiled.version == catalog.version => call.compiled.clone(),
            None => (call.again)(catalog)?,
        };
        compiled.check(catalog, &self.identity(catalog))?;
        match compiled.refused_by_readers() {
            Some(what) if self.is_read_only() == Some(true) => Err(read_only_call(what)),
            _ => Ok(compiled),
        }
    }

    fn query_once(
        &mut self,
        call: Call<'_>,
        compiled: &Compiled,
        catalog: &Catalog,
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<(), SqlError> {
        if let Some(explains) = plans::explains_of(call, compiled) {
            return plans::show_run(self, call, (compiled, explains), catalog, out);
        }
        let around = self.surroundings();
        let output: &[OutputColumn] = compiled.output.as_deref().unwrap_or(&[]);
        if let (true, Some(output)) = (call.describes, &compiled.output) {
            out.row_description(output, call.formats);
        }
        if let Some(kept) = call.keeps {
            kept.borrow_mut().begin()?;
        }
        let budget = self.memory.statement.clone();
        let backend = self.backend();
        backend.planned_for = compiled.version;
        let types = output.iter().map(|column| column.ty);
        let is_text = |at| !call.formats.is_binary(at);
        let tag =
            compiled.run(backend, call.params, &around, catalog, &mut |values: &[Datum]| {
                if let Some(kept) = call.keeps {
                    return kept.borrow_mut().add(values);
                }
                let values =
                    &*system::with_names(values, types.clone(), is_text, (catalog, &around));
                let (mark, bytes) = (budget.mark(), Out::row_bytes(values));
                budget.charge(bytes)?;
                out.reserve(bytes);
                out.row(values, output, call.formats, around.settings.zone());
                budget.back_to(mark);
                flush.flush_some(out)
            })?;
        let rows = tag.rsplit(' ').next().and_then(|rows| rows.parse().ok());
        self.rows = rows.unwrap_or(0);
        around.warnings.take().iter().for_each(|warning| out.notice("WARNING", warning));
        for (name, value, is_local) in around.wanted.take() {
            if !is_local || self.in_block {
                self.set(&name, Some(value), is_local, out)?;
            }
        }
        out.complete(&tag);
        Ok(())
    }

    /// The beginning of the transaction, or now without one.
    pub(crate) fn begun_us(&self) -> i64 {
        self.txn.as_ref().map_or_else(|| (self.clock)(), |txn| txn.begun_us)
    }

    pub(crate) fn surroundings(&mut self) -> Surroundings {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let now_us = (self.clock)();
        let begun_us = self.txn.as_ref().map_or(now_us, |txn| txn.begun_us);
        // Outside of a block the transaction begins with the statement.
        let now_us = if self.in_block { now_us } else { begun_us };
        Surroundings {
            begun_us,
            now_us,
            user: self.settings.user.clone(),
            identity: self.identity(&self.catalog()),
            database: self.settings.database.clone(),
            process: self.settings.process,
            budget: self.memory.statement.clone(),
            design: self.engine.clone(),
            settings: self.settings.clone(),
            seed: self.seed ^ now_us as u64,
            random: self.random,
            sessions: self.seen.clone(),
            wanted: Rc::default(),
            warnings: Rc::default(),
            given: self.given.clone(),
            cursors: self.declared.clone(),
            prepared: self.prepared.clone(),
        }
    }

    /// Begins a statement, and its transaction if there is none.
    pub(crate) fn begin_statement(&mut self) -> Result<(), SqlError> {
        let has_savepoint = !self.savepoints.is_empty();
        if self.txn.is_none() {
            until_seated(&self.engine, &self.cancel)?;
        }
        let backend = self.backend();
        backend.has_savepoint = has_savepoint;
        backend.next_statement();
        queue_again(&mut backend.txn).map_err(explain)
    }

    /// The transaction, begun if there is none, because a definition ends that of its block.
    pub(crate) fn backend(&mut self) -> &mut Backend {
        if self.txn.is_none() {
            self.begin(self.modes);
            ship::settle(self);
        }
        self.txn.as_mut().expect("just begun")
    }

    /// Sends the value of a setting.
    pub(crate) fn show_value(&self, call: Call<'_>, value: String, out: &mut Out) {
        let Call { compiled, formats, describes, .. } = call;
        let output: &[OutputColumn] = compiled.output.as_deref().unwrap_or(&[]);
        if describes {
            out.row_description(output, formats);
        }
        out.row(&[Datum::Text(value)], output, formats, &Zone::utc());
        out.complete("SHOW");
    }
}

/// Runs a statement, and counts it with its duration.
pub(super) fn measured(
    session: &mut Session,
    call: Call<'_>,
    out: &mut Out,
    flush: &mut dyn Flush,
) -> Result<(), SqlError> {
    let begun = limits::now();
    let result = session.perform(call, out, flush);
    let took = limits::now().duration_since(begun);
    if let Some(process) = session.seen.signalled() {
        audited(session, Some(process), &result);
    }
    session.engine.statements.count(took);
    count_shape(session, took, matches!(call.compiled.action, Action::Control(_)));
    result
}

/// Counts the statement by its shape, and remembers the shape for the commit of its
/// transaction.
fn count_shape(session: &mut Session, took: Duration, is_control: bool) {
    let Some(shape) = session.shape.clone() else { return };
    shape.count(took, std::mem::take(&mut session.rows), session.engine.database().now());
    if session.txn.is_none() {
        session.shapes.clear();
    } else if !is_control
        && session.shapes.len() < SHAPES_MAX
        && !session.shapes.iter().any(|known| Arc::ptr_eq(known, &shape))
    {
        session.shapes.push(shape);
    }
}

/// The beginning of the application name of connections of the console.
const CONSOLE: &str = "isomer console";

/// Notes what the statement that runs has done, for the audit trail.
fn audited(session: &Session, signalled: Option<i32>, result: &Result<(), SqlError>) {
    let shown = session.activity.shown();
    let address = shown.client_address.as_deref().unwrap_or("local");
    // For its browsers, the console has connections of its own.
    let client = match shown.application.starts_with(CONSOLE) {
        true => &format!("{address}, {}", shown.application),
        false => address,
    };
    // Only texts about the design have no secrets.
    let text = match &session.shape {
        Some(shape) if !is_about_design(&shown.text) => shape.text().to_owned(),
        _ => shown.text.clone(),
    };
    let text = match signalled {
        Some(process) => format!("{text}: session {process}"),
        None => text,
    };
    crate::audit::note(&session.engine, (&shown.user, client), &text, result);
}

/// A statement about the design or the server.
fn design(
    session: &mut Session,
    statement: &DesignStatement,
    out: &mut Out,
) -> Result<(), SqlError> {
    let catalog = session.catalog();
    let who = session.identity(&catalog);
    match statement {
        DesignStatement::SiteMemory(_) | DesignStatement::DefaultBackups(_) => {
            check_superuser(&who, "set what the server does")?;
        }
        DesignStatement::FusedRows(_) | DesignStatement::OrderRouter(_) => {
            check_all_designs(&who, "let rows move")?;
        }
        DesignStatement::Checkpoint => check_superuser(&who, "make checkpoints")?,
        DesignStatement::RemoveNode(_) => check_superuser(&who, "remove nodes")?,
        DesignStatement::Restart(_) => check_superuser(&who, "restart processes")?,
        DesignStatement::Propose(..) => check_all_designs(&who, "propose plans")?,
        DesignStatement::ProposeShardKey(..) => check_all_designs(&who, "propose shard keys")?,
        DesignStatement::Autopilot(_) | DesignStatement::AutopilotProcessor(_) => {
            check_all_designs(&who, "set the autopilot")?;
        }
        DesignStatement::Restrain(..) => {
            check_all_designs(&who, "restrain changes of the design")?;
        }
        DesignStatement::DesignChanges(_) => {
            check_all_designs(&who, "turn changes of the design on and off")?;
        }
        DesignStatement::Approve(_) | DesignStatement::Reject(..) => {
            check_all_designs(&who, "decide about proposals")?;
        }
        DesignStatement::Reconfigure(_) => check_all_designs(&who, "reconfigure the database")?,
        DesignStatement::Alter { table, .. } => check_design(table, &catalog, &who)?,
        DesignStatement::Show(..) => {}
    }
    // The design is not transactional; earlier definitions outside of a block must be visible.
    session.end_implicit()?;
    let altered = match statement {
        DesignStatement::Alter { table, change } => {
            &DesignStatement::Alter { table: session.resolved(table), change: change.clone() }
        }
        DesignStatement::ProposeShardKey(table, columns) => {
            &DesignStatement::ProposeShardKey(session.resolved(table), columns.clone())
        }
        other => other,
    };
    let mut told = |notice: SqlError| out.notice("NOTICE", &notice);
    session.engine.change_design(altered, &who.name, &session.cancel, &mut told)?;
    out.complete(match statement {
        DesignStatement::Autopilot(_)
        | DesignStatement::AutopilotProcessor(_)
        | DesignStatement::SiteMemory(_)
        | DesignStatement::FusedRows(_)
        | DesignStatement::OrderRouter(_)
        | DesignStatement::DefaultBackups(_)
        | DesignStatement::DesignChanges(_)
        | DesignStatement::Restrain(..)
        | DesignStatement::Propose(..)
        | DesignStatement::ProposeShardKey(..)
        | DesignStatement::Restart(_)
        | DesignStatement::Approve(_)
        | DesignStatement::Reject(..)
        | DesignStatement::RemoveNode(_)
        | DesignStatement::Reconfigure(_) => "ALTER SYSTEM",
        DesignStatement::Checkpoint => "CHECKPOINT",
        _ => "ALTER TABLE",
    });
    Ok(())
}
