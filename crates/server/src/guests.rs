//! Guests: statements of clients of other processes, which run here because their rows are here.
//!
//! ```text
//!   process b: session 7                       process a
//!   statement 12 ── text, settings ──────────▶ Guests ─▶ a session for this statement alone
//!                                                          │ runs, commits, repeats after conflicts
//!   ◀── messages, error, sites of the commit ──────────────┘ is dropped
//! ```
//!
//! *Invariants.*
//! - A guest has no state before its statement, and leaves none. All that differs between sessions
//!   comes with the statement.
//! - A statement is answered with [`Answer::NotHere`] only if nothing of it remains.
//! - A client is shown once, by its own process. Guests add the transactions that they run for it,
//!   so that its locks are known.
//!
//! Plans are kept by text and types, as those of a prepared statement are. Left out: results of
//! more than [`RESULT_BYTES_MAX`], which the client's own process fetches.

use crate::activity::Activity;
use crate::clients::Clients;
use crate::engine::Engine;
use crate::limits::{Memory, Watch};
use crate::options::ServerOptions;
use crate::running::Entry;
use crate::session::{Flush, Guest, PlanAgain, Session};
use crate::settings::{Settings, sent};
use crate::shipping::{
    Answer, Answered, Asked, Early as Before, Shipped, columns, read, read_formats, read_params,
    reason, sent as sent_commit, write,
};
use crate::wire::Out;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use isomer_cluster::gateways::shipping::{Early, Runs, Witness, found};
use isomer_cluster::{CancelReason, CancelToken, Ran};
use isomer_design::Time;
use isomer_sql::budget::Account;
use isomer_sql::catalog::Catalog;
use isomer_sql::parse::read as parse;
use isomer_sql::statement::{Compiled, compile};
use isomer_sql::{SqlError, SqlType, code};
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};

/// The largest result of a guest.
const RESULT_BYTES_MAX: usize = 1 << 20;
/// The most plans, and the most settings, that are kept.
const KEPT_MAX: usize = 1024;
/// The longest text whose plan is kept.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// Plans by the text and the given types of parameters.
type Plans = HashMap<(String, Vec<u32>), Arc<Compiled>, FixedState>;

/// See the [module documentation](self).
pub(crate) struct Guests {
    engine: Arc<Engine>,
    options: ServerOptions,
    watch: Arc<Watch>,
    clients: Arc<Clients>,
    memory: Arc<Account>,
    is_closed: AtomicBool,
    plans: Mutex<Plans>,
    settings: Mutex<HashMap<Vec<u8>, Arc<Settings>, FixedState>>,
}

/// Passes requests to guests while there are some.
struct Door(Weak<Guests>);

impl Runs for Door {
    fn run(&self, request: &[u8], over: &Arc<CancelToken>, early: Early) -> Vec<u8> {
        match self.0.upgrade() {
            Some(guests) => guests.serve(request, over, early),
            None => write(&Answer::NotHere("this process runs no SQL")),
        }
    }
}

/// Ends the output of a statement that is too large.
struct Bounded;

impl Flush for Bounded {
    fn flush_some(&mut self, out: &mut Out) -> Result<(), SqlError> {
        match out.bytes.len() > RESULT_BYTES_MAX {
            true => Err(SqlError::new(TOO_LARGE, "the result is too large for a guest")),
            false => Ok(()),
        }
    }
}

/// The code of an error that no client gets.
const TOO_LARGE: &str = "53400";

impl Guests {
    pub(crate) fn new(
        engine: Arc<Engine>,
        options: ServerOptions,
        (watch, clients): (Arc<Watch>, Arc<Clients>),
        memory: Arc<Account>,
    ) -> Arc<Guests> {
        let (plans, settings) = Default::default();
        let is_closed = AtomicBool::new(false);
        let guests = Guests { engine, options, watch, clients, memory, is_closed, plans, settings };
        let guests = Arc::new(guests);
        let door = Door(Arc::downgrade(&guests));
        guests.engine.database().others().run_by(Arc::new(door));
        guests
    }

    /// Takes no more statements. Those that run go on.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    /// Ends all statements.
    pub(crate) fn end_all(&self) {
        self.close();
        self.clients.guests.end_all(self.engine.gateway());
    }

    fn serve(&self, request: &[u8], over: &Arc<CancelToken>, early: Early) -> Vec<u8> {
        match read(request) {
            Some(Asked::Run(shipped)) => {
                let inside = self.clients.guests.enter(shipped.number, over);
                let witness = Told { early, entry: inside.entry.clone(), result: Mutex::default() };
                let run = || self.run(&shipped, over, Arc::new(witness));
                catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
                    let message = "a fault of the server; its log says more";
                    let error = SqlError::new(code::INTERNAL, message);
                    write(&Answer::Ran(answered(&[], Some(error), 0, None)))
                })
            }
            Some(Asked::End(number, why)) => {
                let why = reason(why);
                found(self.clients.guests.end(number, why, self.engine.gateway()))
            }
            Some(Asked::Go(number)) => found(self.clients.guests.go(number)),
            None => write(&Answer::NotHere("its release is another one")),
        }
    }

    fn run(&self, shipped: &Shipped<'_>, over: &Arc<CancelToken>, witness: Arc<Told>) -> Vec<u8> {
        let not_here = |why| write(&Answer::NotHere(why));
        if self.is_closed.load(Ordering::SeqCst) {
            return not_here("it is about to restart");
        }
        if self.engine.database().others().seat().is_some_and(|seat| !seat.is_seated) {
            return not_here("it has no seat at the conductor");
        }
        let Some(settings) = self.settings(shipped.settings) else {
            return not_here("it does not know the settings");
        };
        let quiet = settings.keeps_quiet();
        let who = (&*settings.user, &*settings.database);
        let activity = Activity::new(self.options.clock, shipped.number.0, who, None, None);
        let limited = (Memory::new(&self.memory, &self.options, over), activity, &self.options);
        let shared = (self.engine.clone(), self.watch.clone(), self.clients.clone());
        let mut session =
            Session::new(shared.0, over.clone(), settings, shared.1, shared.2, None, limited);
        let mut guest = Guest::begin(&mut session, shipped.begun_us, shipped.takes_rows);
        let Ok((compiled, given)) = self.planned(&guest, shipped) else {
            return not_here("the statement has another meaning there");
        };
        let Ok(params) = read_params(shipped.params, &compiled.params) else {
            return not_here("the parameters have other types there");
        };
        let budget = guest.budget();
        let again: PlanAgain<'_> = &|catalog| {
            let parsed = parse(shipped.text, &budget, &mut Vec::new())?;
            let new = compile(&parsed[0], shipped.text, catalog, &given, &budget)?;
            match is_expected(&new, shipped) {
                true => Ok(Arc::new(new)),
                false => Err(SqlError::new(TOO_LARGE, "the statement has another meaning now")),
            }
        };
        let mut out = Out::default();
        out.keep_to_itself(quiet);
        let formats = read_formats(shipped.formats);
        let planned = (&compiled, again, &*params, &formats, shipped.describes);
        let done = guest.run(planned, &mut out, &mut Bounded, &|messages, rows| {
            *witness.result.lock() = (messages.to_owned(), rows);
            witness.clone()
        });
        let (rows, ran) = guest.end();
        match done {
            Err(error) if is_about_here(&error, over) => not_here("it cannot run the statement"),
            done => write(&Answer::Ran(answered(&out.bytes, done.err(), rows, ran))),
        }
    }

    fn settings(&self, bytes: &[u8]) -> Option<Arc<Settings>> {
        if let Some(known) = self.settings.lock().get(bytes) {
            return Some(known.clone());
        }
        let settings = Arc::new(sent::read(bytes)?);
        let mut all = self.settings.lock();
        if all.len() >= KEPT_MAX {
            all.clear();
        }
        all.insert(bytes.to_owned(), settings.clone());
        Some(settings)
    }

    /// The plan of a statement, and the given types of its parameters.
    fn planned(
        &self,
        guest: &Guest<'_>,
        shipped: &Shipped<'_>,
    ) -> Result<(Arc<Compiled>, Vec<SqlType>), SqlError> {
        let catalog = guest.catalog();
        let given = types(&shipped.given, &catalog)?;
        let key = (shipped.text.to_owned(), shipped.given.clone());
        let known = self.plans.lock().get(&key).cloned();
        if let Some(known) = known.filter(|known| known.version == catalog.version)
            && is_expected(&known, shipped)
            && types(&shipped.types, &catalog)? == known.params
        {
            return Ok((known, given));
        }
        let budget = guest.budget();
        let parsed = parse(shipped.text, &budget, &mut Vec::new())?;
        let [parsed] = &*parsed else { return Err(other()) };
        let compiled = Arc::new(compile(parsed, shipped.text, &catalog, &given, &budget)?);
        if !is_expected(&compiled, shipped) || types(&shipped.types, &catalog)? != compiled.params {
            return Err(other());
        }
        if shipped.text.len() <= TEXT_BYTES_MAX {
            let mut plans = self.plans.lock();
            if plans.len() >= KEPT_MAX {
                plans.clear();
            }
            plans.insert(key, compiled.clone());
        }
        Ok((compiled, given))
    }
}

fn other() -> SqlError {
    SqlError::new(code::FEATURE_NOT_SUPPORTED, "the statement is another one here")
}

/// True if the result has the columns that the client knows.
fn is_expected(compiled: &Compiled, shipped: &Shipped<'_>) -> bool {
    columns(compiled.output.as_deref()) == shipped.columns
}

fn types(oids: &[u32], catalog: &Catalog) -> Result<Vec<SqlType>, SqlError> {
    let of = |oid: &u32| match *oid {
        0 => Ok(SqlType::Unknown),
        oid => catalog.type_numbered(oid).ok_or_else(other),
    };
    oids.iter().map(of).collect()
}

/// True if the statement has failed, with nothing left of it, for a reason of this process.
fn is_about_here(error: &SqlError, over: &CancelToken) -> bool {
    // Its memory is less, or it stops.
    error.code.starts_with("53") || over.over() == Some(CancelReason::Shutdown)
}

fn answered(messages: &[u8], error: Option<SqlError>, rows: u64, ran: Option<Ran>) -> Answered<'_> {
    let ran = ran.as_ref().map(sent_commit);
    Answered { messages, error: error.map(|error| Box::new(error.into())), rows, ran }
}

/// Tells the client's process of the commit.
struct Told {
    early: Early,
    entry: Arc<Entry>,
    /// The messages to the client, and the number of rows.
    result: Mutex<(Vec<u8>, u64)>,
}

impl Witness for Told {
    fn promise(&self, commit: Vec<u8>) {
        self.entry.stop();
        let (messages, rows) = &*self.result.lock();
        (self.early)(write(&Before::Promise(answered(messages, None, *rows, None), &commit)));
    }

    fn poll_go(&self, waker: &Waker) -> Poll<()> {
        self.entry.poll_go(waker)
    }

    fn published(&self, time: Time) {
        (self.early)(write(&Before::Published(time.0)));
    }
}
