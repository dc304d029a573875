//! A client's session: its prepared statements, its transaction, its settings.
//!
//! ```text
//!           BEGIN                    error
//!   idle ───────────▶ in a block ───────────▶ failed ──ROLLBACK──▶ idle
//!    │                    └──COMMIT, ROLLBACK──▶ idle
//!    └─ a statement outside of a block begins a transaction that ends with the message: at Sync,
//!       or at the end of the text of a simple query
//! ```
//!
//! So statements that a client sends together before a Sync commit together, as in PostgreSQL.

mod calls;
mod control;
mod cursors;
mod extended;
mod guest;
mod plans;
mod run;
mod ship;
mod sql;

pub(crate) use guest::Guest;
pub(crate) use run::{Call, PlanAgain};

use crate::activity::Activity;
use crate::backend::{Backend, Mark};
use crate::clients::{Clients, Seen};
use crate::copy::CopyIn;
use crate::engine::{Engine, ReaderPlace, until_seated};
use crate::limits::{self, Memory, Watch};
use crate::numbers::{Counts, Numbers};
use crate::options::ServerOptions;
use crate::settings::{Kept, Settings, SettingsMark};
use crate::shapes::Shape;
use crate::socket::Socket;
use crate::tally::RolledBack;
use crate::temporary::Temporaries;
use crate::wire::{Formats, Out, Reader, violation};
use cursors::Cursor;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use isomer_cluster::open::sites_read;
use isomer_cluster::{CancelReason, CancelToken, Isolation, Ran};
use isomer_design::{Key, SiteId};
use isomer_sql::budget::{Budget, Holding};
use isomer_sql::catalog::Catalog;
use isomer_sql::datum::Datum;
use isomer_sql::parse::{Parsed, read};
use isomer_sql::rights::Identity;
use isomer_sql::statement::{Compiled, Level, Modes, compile};
use isomer_sql::transaction::{CursorShown, Given, PreparedShown};
use isomer_sql::{SqlError, SqlType, code};
use isomer_strategy::Place;
use ship::Said;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most runs of a statement whose rows move away.
const RUNS_MAX: u32 = 10;

/// The interval at which a waiting COPY checks for cancellation.
const COPY_LOOK: Duration = Duration::from_millis(100);

/// Sends output to the client while a statement runs.
pub(crate) trait Flush {
    /// Sends the output if there is much of it.
    fn flush_some(&mut self, out: &mut Out) -> Result<(), SqlError>;
}

/// Keeps the output until the message has been handled.
struct Unsent;

impl Flush for Unsent {
    fn flush_some(&mut self, _: &mut Out) -> Result<(), SqlError> {
        Ok(())
    }
}

/// See the [module documentation](self).
pub(crate) struct Session {
    pub(crate) engine: Arc<Engine>,
    /// The slot with the catalog version that the session uses.
    reader: ReaderPlace,
    pub(crate) cancel: Arc<CancelToken>,
    pub(crate) settings: Arc<Settings>,
    /// The settings after the end of the block.
    pub(crate) kept_settings: Option<Kept>,
    pub(crate) copy: Option<CopyIn>,
    pub(crate) txn: Option<Backend>,
    /// Its temporary relations. They are dropped after its transaction.
    pub(crate) temporaries: Rc<Temporaries>,
    /// Its session-level advisory locks, and their counts at the beginning of the transaction.
    pub(crate) numbers: Rc<RefCell<Numbers>>,
    numbers_before: Counts,
    /// True between BEGIN and the end of the block.
    in_block: bool,
    failed: bool,
    savepoints: Vec<Savepoint>,
    statements: HashMap<String, Statement, FixedState>,
    portals: HashMap<String, Portal, FixedState>,
    /// The plans of the procedures that it has called.
    bodies: calls::Bodies,
    cursors: HashMap<String, Cursor, FixedState>,
    /// The rows of `pg_cursors`.
    declared: Rc<RefCell<Vec<CursorShown>>>,
    /// The rows of `pg_prepared_statements`.
    prepared: Rc<RefCell<BTreeMap<String, PreparedShown>>>,
    watch: Arc<Watch>,
    clients: Arc<Clients>,
    /// The other sessions, for statements that look at them.
    seen: Arc<Seen>,
    /// `None` for the statement of a client of another process.
    pub(crate) socket: Option<Arc<Socket>>,
    activity: Arc<Activity>,
    /// The beginning of the message's statement, in microseconds since 1970.
    statement_begun_us: Option<i64>,
    /// The time limits of the transaction and of the statement.
    transaction_until: Option<Instant>,
    statement_until: Option<Instant>,
    clock: fn() -> i64,
    random: fn(&mut [u8]),
    pub(crate) memory: Memory,
    /// The modes of the block, for the transaction after a definition has ended one.
    modes: Modes,
    /// During a COPY: true if ReadyForQuery follows it.
    pub(crate) copying: Option<bool>,
    /// During a COPY inside a simple query: the query, and the number of the statement after the
    /// COPY.
    pub(crate) pending: Option<(Arc<str>, usize)>,
    /// True while a simple query with more than one statement runs: they are one transaction.
    pub(crate) is_one_of_many: bool,
    /// The only portal that the transaction has run, and the position of its output.
    alone: Option<(String, u64)>,
    seed: u64,
    /// After an error in the extended protocol: messages are ignored until the next Sync.
    skips: bool,
    /// The last message to the client.
    last: Option<SqlError>,
    /// The last values of sequences in this session.
    given: Rc<Given>,
    /// The sites of its last commit with writes.
    last_commit: Option<Ran>,
    /// The shape of the statement that runs, and those of the transaction.
    shape: Option<Arc<Shape>>,
    shapes: Vec<Arc<Shape>>,
    /// The rows that the statement has returned or changed.
    rows: u64,
    /// The sites of the message's commit with writes.
    route: Option<Place>,
    /// The sites that a transaction has read from which the message has ended, if slow statements
    /// are logged.
    sites_read: Vec<SiteId>,
    /// The losses of the conductor that the session knows of.
    moves: u64,
    /// The identity, for one version of the catalog and of the roles.
    identity: RefCell<Option<(u64, u32, Arc<Identity>)>>,
    shipping: ship::Shipping,
    /// The next message, as far as it has arrived.
    pub(crate) next: Option<u8>,
    /// The beginning of its transaction, if it began in another process.
    begins_at: Option<i64>,
}

/// Tells the client of a session that it may go on. Other gateways can have the locks that it has
/// released.
fn ready(session: &mut Session, out: &mut Out) {
    ship::end_turn(session);
    session.engine.gateway().until_released(session.cancel.owner());
    out.ready(session.status());
}

/// A savepoint of a block.
struct Savepoint {
    name: String,
    mark: Mark,
    settings: SettingsMark,
}

/// A prepared statement.
#[derive(Clone)]
struct Statement {
    written: Arc<Written>,
    compiled: Option<Arc<Compiled>>,
    /// The memory of the statement and its plan.
    _kept: Option<Rc<Holding>>,
}

/// A statement as the client sent it.
struct Written {
    text: Arc<str>,
    /// `None` is the empty statement.
    parsed: Option<Parsed>,
    given: Vec<SqlType>,
}

/// A statement with its parameters.
struct Portal {
    statement: Statement,
    params: Vec<Datum>,
    formats: Formats,
    /// Rows that were not fetched yet.
    rest: Option<Rest>,
    /// The memory of the parameters.
    _kept: Holding,
}

/// Messages of rows, and the final one with their number.
struct Rest {
    messages: Vec<u8>,
    /// The position of the next message.
    at: usize,
    _kept: Holding,
}

/// The statement has ended: it is logged if it was slow.
fn log_if_slow(session: &mut Session) {
    if let Some(begun_us) = session.statement_begun_us.take() {
        let shape = session.shape.as_ref().map_or("", |shape| shape.text());
        let slow_ms = session.settings.slow_ms;
        let sites = || match &session.txn {
            Some(open) => sites_read(&open.txn),
            None => session.sites_read.clone(),
        };
        session.activity.end(begun_us, slow_ms, (shape, session.route, &sites));
    }
}

/// Counts an error that the client is told, for the statement that runs.
fn count_failure(session: &Session, error: &SqlError) {
    session.engine.statements.failed(error);
    if let Some(shape) = &session.shape {
        shape.failed();
    }
}

impl Session {
    pub(crate) fn new(
        engine: Arc<Engine>,
        cancel: Arc<CancelToken>,
        settings: Arc<Settings>,
        watch: Arc<Watch>,
        clients: Arc<Clients>,
        socket: Option<Arc<Socket>>,
        (memory, activity, options): (Memory, Arc<Activity>, &ServerOptions),
    ) -> Session {
        cancel.set_lock_limit(settings.limits.lock);
        let held = memory.session.keep(0).expect("nothing is always there");
        let numbers = Numbers::new(engine.gateway().clone(), held);
        let moves = engine.herald.moves();
        let mut session = Session {
            reader: engine.readers.enter(),
            temporaries: Rc::new(Temporaries::new(engine.clone())),
            numbers: Rc::new(RefCell::new(numbers)),
            numbers_before: Counts::default(),
            engine,
            cancel,
            seed: settings.process as u64,
            settings,
            kept_settings: None,
            copy: None,
            txn: None,
            in_block: false,
            failed: false,
            savepoints: Vec::new(),
            statements: HashMap::default(),
            portals: HashMap::default(),
            bodies: calls::Bodies::default(),
            cursors: HashMap::default(),
            declared: Rc::default(),
            prepared: Rc::default(),
            watch,
            seen: Seen::new(clients.clone()),
            clients,
            socket,
            activity,
            statement_begun_us: None,
            transaction_until: None,
            statement_until: None,
            clock: options.clock,
            random: options.random,
            memory,
            modes: Modes::default(),
            pending: None,
            copying: None,
            is_one_of_many: false,
            alone: None,
            skips: false,
            last: None,
            given: Rc::default(),
            last_commit: None,
            shape: None,
            shapes: Vec::new(),
            rows: 0,
            route: None,
            sites_read: Vec::new(),
            moves,
            identity: RefCell::default(),
            shipping: ship::Shipping::default(),
            next: None,
            begins_at: None,
        };
        session.look_in_path();
        session
    }

    /// The status `I`, `T` or `E` of ReadyForQuery.
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

    /// The isolation level of its transaction; `None` without a transaction.
    pub(crate) fn level(&self) -> Option<Level> {
        self.txn.as_ref().map(Backend::level)
    }

    /// True if its transaction is read-only; `None` without a transaction.
    pub(crate) fn is_read_only(&self) -> Option<bool> {
        self.txn.as_ref().map(|txn| txn.read_only)
    }

    /// The reason why the session has to end, if there is one.
    pub(crate) fn dismissal(&self) -> Option<SqlError> {
        self.cancel.over().filter(|why| why.is_final()).map(limits::ended)
    }

    /// The time for which the client may be idle now; `None` for no limit.
    pub(crate) fn silence(&self) -> Option<Duration> {
        let left = |at: Instant| at.saturating_duration_since(limits::now());
        if self.copy.is_some() {
            let least = self.statement_until.map_or(COPY_LOOK, |at| left(at).min(COPY_LOOK));
            return Some(least.max(Duration::from_millis(1)));
        }
        let limits = &self.settings.limits;
        let is_inside = self.in_block || self.txn.is_some();
        let idle = if is_inside { limits.idle_in_transaction } else { limits.idle };
        let until = self.transaction_until.map(left);
        let idle = (idle > 0).then(|| Duration::from_millis(idle));
        let least = until.into_iter().chain(idle).min();
        // A socket time-out cannot be zero.
        least.map(|time| time.max(Duration::from_millis(1)))
    }

    /// Called when the client was idle for that time: ends its transaction or session if a limit is
    /// exceeded.
    ///
    /// # Errors
    /// The last message to the client, if its connection ends.
    pub(crate) fn end_silence(&mut self, out: &mut Out) -> Result<(), SqlError> {
        if self.copy.is_some() {
            let is_late = self.statement_until.is_some_and(|at| at <= limits::now());
            let late = is_late.then_some(CancelReason::StatementTime);
            if let Some(why) = self.cancel.over().or(late) {
                self.end_copy(Err(limits::ended(why)), out, &mut Unsent);
            }
            return self.last.take().map_or(Ok(()), Err);
        }
        if self.transaction_until.is_some_and(|at| at <= limits::now()) {
            return Err(limits::ended(CancelReason::TransactionTime));
        }
        Err(match self.in_block || self.txn.is_some() {
            true => {
                SqlError::new("25P03", "terminating connection due to idle-in-transaction timeout")
            }
            false => SqlError::new("57P05", "terminating connection due to idle-session timeout"),
        })
    }

    /// Handles a message; `false` if the client terminates.
    ///
    /// # Errors
    /// The last message to the client.
    pub(crate) fn message(
        &mut self,
        tag: u8,
        body: &[u8],
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<bool, SqlError> {
        self.memory.statement.begin();
        let done = self.handle(tag, body, out, flush);
        self.memory.statement.end();
        // A statement outside of a block ends with its commit, at Sync.
        if self.in_block || self.txn.is_none() {
            log_if_slow(self);
        }
        done
    }

    fn handle(
        &mut self,
        tag: u8,
        body: &[u8],
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<bool, SqlError> {
        let mut reader = Reader::new(body);
        match tag {
            b'X' => return Ok(false),
            tag if self.copy.is_some() => self.copy_message(tag, &mut reader, out, flush),
            b'Q' => {
                let text = reader.text()?;
                self.simple(text, out, flush);
            }
            b'S' => {
                self.skips = false;
                self.sync(out, flush);
                ready(self, out);
            }
            b'H' => {}
            // The rest of a failed COPY.
            b'd' | b'c' | b'f' => {}
            b'P' | b'B' | b'D' | b'E' | b'C' if self.skips => {}
            b'P' | b'B' | b'D' | b'E' | b'C' => {
                // A statement after its result shares its outcome.
                self.alone = None;
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

    /// Handles a message that was discarded for this reason: the statement it belongs to fails.
    ///
    /// # Errors
    /// The last message to the client.
    pub(crate) fn refused(
        &mut self,
        tag: u8,
        why: SqlError,
        out: &mut Out,
    ) -> Result<(), SqlError> {
        match tag {
            b'd' | b'c' | b'f' => self.end_copy(Err(why), out, &mut Unsent),
            b'P' | b'B' | b'D' | b'E' | b'C' if self.skips => {}
            b'P' | b'B' | b'D' | b'E' | b'C' => {
                self.skips = true;
                self.tell(why, out);
            }
            b'Q' | b'S' => {
                self.tell(why, out);
                if let Err(error) = self.end_implicit() {
                    count_failure(self, &error);
                    out.error(&error);
                }
                ready(self, out);
            }
            _ => {}
        }
        self.memory.statement.end();
        self.last.take().map_or(Ok(()), Err)
    }

    /// Reports an error, which ends the transaction and perhaps the connection.
    pub(crate) fn tell(&mut self, error: SqlError, out: &mut Out) {
        self.fail();
        count_failure(self, &error);
        if limits::is_last(&error) {
            self.last = Some(error);
        } else {
            out.error(&error);
        }
    }

    /// The sites of its last commit with writes, as `SHOW last_commit` shows them.
    pub(crate) fn last_commit(&self) -> String {
        let Some(Ran { place, changes, .. }) = self.last_commit else { return String::new() };
        let place = crate::shapes::place(place);
        match changes {
            0 => place,
            1 => format!("{place}, after a change of the design"),
            _ => format!("{place}, after {changes} changes of the design"),
        }
    }

    pub(crate) fn skip_to_sync(&mut self) {
        self.skips = true;
    }

    /// Reports the statement as the session's activity.
    fn shows(&mut self, text: &str) {
        log_if_slow(self);
        self.statement_begun_us = Some(self.activity.begin(text));
        self.route = None;
        self.sites_read.clear();
        self.shape = Some(self.engine.shapes.of(text));
    }

    /// Reports that the session waits for its client.
    pub(crate) fn rests(&self) {
        let application = self.settings.application();
        self.activity.rest(self.status(), self.txn.is_some(), application);
    }

    fn simple(&mut self, text: &str, out: &mut Out, flush: &mut dyn Flush) {
        self.cancel.renew();
        self.shows(text);
        let mark = out.mark();
        for run in 1.. {
            let done = self.simple_statements(text, out, flush);
            let is_alone = !std::mem::take(&mut self.is_one_of_many);
            let succeeds = done.is_ok();
            if let Err(error) = done {
                self.tell(error, out);
            }
            if self.copy.is_some() {
                return;
            }
            let Err(error) = self.end_implicit() else {
                self.end_settings_of_message(succeeds, out);
                break;
            };
            if !(is_alone && may_run_again(&error, run) && out.back_to(mark)) {
                self.end_settings_of_message(false, out);
                count_failure(self, &error);
                out.error(&error);
                break;
            }
        }
        ready(self, out);
    }

    /// Runs the statements of a simple query that follow its COPY.
    pub(crate) fn go_on(&mut self, text: &str, at: usize, out: &mut Out, flush: &mut dyn Flush) {
        let done = read(text, &self.memory.statement.clone(), &mut Vec::new())
            .and_then(|parsed| self.statements_from(&parsed, at, text, out, flush));
        self.is_one_of_many = false;
        let succeeds = done.is_ok();
        if let Err(error) = done {
            self.tell(error, out);
        }
        if self.copy.is_none() {
            self.end_simple(succeeds, out);
        }
    }

    /// Ends a simple query: commits an implicit transaction, and sends ReadyForQuery.
    pub(crate) fn end_simple(&mut self, succeeds: bool, out: &mut Out) {
        let ended = self.end_implicit();
        self.end_settings_of_message(succeeds && ended.is_ok(), out);
        if let Err(error) = ended {
            count_failure(self, &error);
            out.error(&error);
        }
        ready(self, out);
    }

    fn simple_statements(
        &mut self,
        text: &str,
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<(), SqlError> {
        let budget = self.memory.statement.clone();
        if let Some(compiled) = self.known(text) {
            let again: PlanAgain<'_> = &|catalog| {
                let parsed = read(text, &budget, &mut Vec::new())?;
                compile(&parsed[0], text, catalog, &[], &budget).map(Arc::new)
            };
            let said = Some(Said { text, given: &[], is_alone: true });
            let formats = Formats::default();
            let call = Call::plain(&compiled, again, &formats)?;
            return self.run(Call { said, ..call }, out, flush);
        }
        let limited = self.limited();
        let mut notices = Vec::new();
        let parsed = read(text, &budget, &mut notices).map_err(|error| self.or_failed(error))?;
        notices.iter().for_each(|notice| out.notice("NOTICE", notice));
        if parsed.is_empty() {
            out.empty(b'I');
        }
        if let ([parsed], true) = (&*parsed, notices.is_empty()) {
            self.check_not_failed(parsed)?;
            let again: PlanAgain<'_> =
                &|catalog| compile(parsed, text, catalog, &[], &budget).map(Arc::new);
            let compiled = self.compiled(parsed, &Arc::from(text), &[], &budget)?;
            let said = Some(Said { text, given: &[], is_alone: true });
            let formats = Formats::default();
            let call = Call::plain(&compiled, again, &formats)?;
            return run::measured(self, Call { said, ..call }, out, flush);
        }
        // The time limit of the first statement includes its parsing.
        let done = self.statements_from(&parsed, 0, text, out, flush);
        drop(limited);
        done
    }

    /// Runs the statements of a simple query from number `from` on; stops at a COPY FROM STDIN.
    fn statements_from(
        &mut self,
        all: &[Parsed],
        from: usize,
        text: &str,
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<(), SqlError> {
        let budget = self.memory.statement.clone();
        self.is_one_of_many = all.len() > 1;
        let mark = budget.mark();
        let mut limited = None;
        for (at, parsed) in all.iter().enumerate().skip(from) {
            if at > 0 {
                drop(limited.take());
                limited = Some(self.limited());
            }
            self.check_not_failed(parsed)?;
            let again: PlanAgain<'_> =
                &|catalog| compile(parsed, text, catalog, &[], &budget).map(Arc::new);
            let compiled = again(&self.catalog())?;
            run::measured(self, Call::plain(&compiled, again, &Formats::default())?, out, flush)?;
            budget.back_to(mark);
            if self.copy.is_some() {
                let next = at + 1;
                self.pending = (next < all.len()).then(|| (Arc::from(text), next));
                return Ok(());
            }
        }
        Ok(())
    }

    /// The catalog as the session's statements see it.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.txn.as_ref().map_or_else(|| self.temporaries.catalog(), Backend::catalog)
    }

    /// The identity whose rights the session has, under a catalog.
    pub(crate) fn identity(&self, catalog: &Catalog) -> Arc<Identity> {
        let (roles, name) = (self.engine.roles(), self.settings.current());
        let mut known = self.identity.borrow_mut();
        if let Some((of, version, identity)) = &*known
            && (*of, *version, &identity.name) == (catalog.version, roles.version, name)
        {
            return identity.clone();
        }
        let identity = match self.settings.acts_as {
            Some(role) => Identity::numbered(role, &roles, &catalog.members),
            None => Identity::of(name, &roles, &catalog.members),
        };
        let identity = Arc::new(identity);
        *known = Some((catalog.version, roles.version, identity.clone()));
        identity
    }

    /// True if its catalog differs from the published one.
    fn has_own_catalog(&self) -> bool {
        !self.temporaries.is_plain() || self.txn.as_ref().is_some_and(|txn| txn.draft.is_some())
    }

    /// A cached statement, compiled for the session's catalog.
    fn known(&self, text: &str) -> Option<Arc<Compiled>> {
        if self.has_own_catalog() { None } else { self.engine.known(text) }
    }

    /// Compiles a statement for the session's catalog.
    fn compiled(
        &self,
        parsed: &Parsed,
        text: &Arc<str>,
        params: &[SqlType],
        budget: &Budget,
    ) -> Result<Arc<Compiled>, SqlError> {
        match self.has_own_catalog() {
            true => compile(parsed, text, &self.catalog(), params, budget).map(Arc::new),
            false => self.engine.compiled(parsed, text, params, budget),
        }
    }

    /// In a failed transaction, that error takes precedence.
    fn or_failed(&self, error: SqlError) -> SqlError {
        if self.failed && error.code != code::SYNTAX { in_failed() } else { error }
    }

    fn begin(&mut self, modes: Modes) {
        let isolation = match modes.level.unwrap_or(self.settings.level) {
            Level::ReadCommitted => Isolation::ReadCommitted,
            Level::RepeatableRead => Isolation::RepeatableRead,
            Level::Serializable => Isolation::Serializable,
        };
        let read_only = modes.read_only.unwrap_or(self.settings.read_only);
        // Without a seat, each of its statements fails.
        let _ = until_seated(&self.engine, &self.cancel);
        let moves = self.engine.herald.moves();
        if std::mem::replace(&mut self.moves, moves) != moves
            && !(self.numbers.borrow().is_empty() && self.temporaries.is_empty())
        {
            // Its advisory locks and temporary tables were lost with the conductor.
            self.cancel.end(CancelReason::Terminated);
        }
        let txn = self.engine.gateway().begin(isolation, self.cancel.clone());
        let (engine, cancel) = (self.engine.clone(), self.cancel.clone());
        let own = self.temporaries.clone();
        let (numbers, sessions) = (self.numbers.clone(), self.seen.clone());
        self.numbers_before = numbers.borrow().mark();
        let written = self.memory.written.keep(0).expect("nothing is always there");
        let reading = self.reader.begin(&engine.published);
        let now_us = self.begins_at.unwrap_or_else(self.clock);
        self.activity.begin_transaction(now_us);
        let backend = Backend::new(
            txn,
            (engine, own, numbers),
            (cancel, sessions),
            reading,
            read_only,
            now_us,
            written,
        );
        self.txn = Some(backend);
        self.transaction_until = until(self.settings.limits.transaction);
    }

    /// Commits the implicit transaction of a message outside of a block.
    pub(crate) fn end_implicit(&mut self) -> Result<(), SqlError> {
        if self.in_block {
            return Ok(());
        }
        self.portals.clear();
        self.transaction_until = None;
        // The commit counts as part of the statement.
        let _limited = self.watched();
        let ended = self.txn.take().map_or(Ok(()), |backend| self.commit(backend));
        self.end_cursors(ended.is_ok());
        ended
    }

    /// Restores the advisory locks before a statement is repeated.
    fn numbers_back_to(&mut self, before: &Counts) {
        let gone = self.numbers.borrow_mut().back_to(before);
        self.let_go_of(gone);
    }

    /// Releases session-level advisory locks.
    pub(crate) fn let_go_of(&mut self, numbers: Vec<Key>) {
        match &mut self.txn {
            Some(backend) => backend.let_go_of(numbers),
            None => self.numbers.borrow().give_back(numbers),
        }
    }

    /// Called after an error: fails a block, and rolls any other transaction back.
    pub(crate) fn fail(&mut self) {
        // Rolls back to the last savepoint at once, so that the rows are unlocked.
        match (self.savepoints.last(), &mut self.txn) {
            (Some(savepoint), Some(backend)) => backend.back_to(&savepoint.mark),
            _ => self.txn.take().into_iter().for_each(|it| it.end(RolledBack::Failed)),
        }
        if self.in_block {
            self.failed = true;
        } else {
            self.end_cursors(false);
            self.transaction_until = None;
        }
        (self.copy, self.pending) = (None, None);
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

/// True if an autocommit statement may be repeated: its commit failed with a serialization error,
/// and fewer than `RUNS_MAX` attempts were made.
fn may_run_again(error: &SqlError, runs: u32) -> bool {
    error.code == code::SERIALIZATION && runs < RUNS_MAX
}

/// The time in `ms` milliseconds; `None` for 0.
fn until(ms: u64) -> Option<Instant> {
    (ms > 0).then(|| limits::now() + Duration::from_millis(ms))
}

fn in_failed() -> SqlError {
    let message = "current transaction is aborted, commands ignored until end of transaction block";
    SqlError::new(code::IN_FAILED_TRANSACTION, message)
}
