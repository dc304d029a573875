//! Definitions, where several processes have gateways.
//!
//! Each gateway has a catalog of its own, for which its sessions compile and run statements. A
//! gateway tells the others of each change, and waits until each of them has taken note:
//!
//! ```text
//!   ALTER TABLE t, at b                                 a, c
//!   locks t: its writers at all gateways have ended
//!   soon: t ───────────────────────────────────────────▶ whoever locks t next waits
//!   commits the rows of the catalog
//!   publishes its catalog, version 9
//!   catalog: t was redefined ──────────────────────────▶ reads the rows, publishes version 31,
//!                                                        plans of 30 and before are stale for t
//! ```
//!
//! A lock of a table is held in the conductor's lock table. So a definition waits for the writers
//! of all gateways, and a writer finds out after it has the lock whether its plan is stale. *Soon*
//! closes the gap between the commit, which releases the locks, and the news.
//!
//! **Builds.** An index or a layout is not stored before it is complete, but writers of all
//! gateways must maintain it. So the news of the catalog contain it ([`UnderConstruction`]).
//!
//! **Versions** of catalogs are each gateway's own. For a definition that waits until an old
//! catalog has no reader, each gateway reports the last news that all of its statements know
//! ([`Listener::past`]).
//!
//! **Oids.** The conductor's gateway numbers objects from the first one on. The others number
//! theirs in a part of the upper half that belongs to their seat. So temporary objects of one
//! gateway do not collide with those of the others, nor with objects that are shared.
//!
//! **Left out.** A gateway reads the whole catalog after each definition of the others.

use super::questions::{Question, Reply, ask};
use super::{Engine, begin_anew, continue_histories, damaged, entries_being_built};
use crate::backend::{database, explain};
use crate::clients::Clients;
use isomer_cluster::gateways::Listener;
use isomer_cluster::{CancelToken, ClosedTables, Database, OpenError};
use isomer_design::{TableId, Time};
use isomer_plan::learned::Mode;
use isomer_sql::SqlError;
use isomer_sql::catalog::{Catalog, FIRST_OID, Table};
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// The number of oids of a gateway's part.
const OIDS: u32 = 1 << 16;
/// The first oid of the parts of gateways without the conductor.
const UPPER: u32 = 1 << 31;
/// The pause between attempts to read the catalog.
const AGAIN: Duration = Duration::from_millis(10);
/// The longest wait of a new transaction for a seat at the conductor.
const SEAT: Duration = Duration::from_secs(30);

/// A row of the catalog, as it is sent: kind, name, table, oid, table that it is of, constraint,
/// definition.
pub(super) type ToldEntry = (String, String, TableId, u32, String, bool, String);

/// An announcement of a gateway to the others.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum Told {
    /// These tables are about to change.
    Soon(Vec<TableId>),
    /// They do not change.
    Withdrawn,
    /// The stored catalog has changed.
    Catalog {
        dropped: Vec<TableId>,
        redefined: Vec<TableId>,
        built: UnderConstruction,
    },
    /// Readers must lock what they read, until the opposite is told as often.
    Closed(bool),
    /// A store table has all of its rows at this time.
    Filled(TableId, Time),
    /// A store table was replaced by another at this time.
    Replaced(TableId, TableId, Time),
    Roles,
    Settings,
    /// A sequence was set; its state.
    Number(u32),
}

/// The indexes and layouts that are being built, in all tables, and when those that are complete
/// became readable.
#[derive(Default, Serialize, Deserialize, Debug)]
pub(crate) struct UnderConstruction {
    pub(super) entries: Vec<ToldEntry>,
    /// Indexes and layouts with other states than the usual ones, by store table.
    readable: BTreeMap<TableId, Option<Time>>,
    /// Those that writers do not add entries to yet.
    not_entered: BTreeSet<TableId>,
    /// Layouts beside the current one that are not stored.
    not_kept: BTreeSet<TableId>,
}

impl UnderConstruction {
    fn of(catalog: &Catalog) -> UnderConstruction {
        let mut all = UnderConstruction::default();
        for table in catalog.tables.values() {
            all.entries.extend(entries_being_built(table).iter().map(|entry| entry.for_others()));
            all.note(table);
            if let Some(beside) = &table.beside {
                all.note(&beside.layout);
                all.not_kept.extend((!beside.is_kept).then_some(beside.layout.id));
                all.not_entered.extend((!beside.is_entered).then_some(beside.layout.id));
            }
        }
        all
    }

    fn note(&mut self, table: &Table) {
        let usual = Some(Time(0));
        let mut states = vec![(table.id, table.readable)];
        states.extend(table.indexes.iter().map(|index| (index.id, index.readable)));
        self.readable.extend(states.into_iter().filter(|(_, readable)| *readable != usual));
        let not_entered = table.indexes.iter().filter(|index| !index.is_entered);
        self.not_entered.extend(not_entered.map(|index| index.id));
    }

    /// Gives a table that was read from the stored catalog the states of what is being built of it.
    pub(super) fn mark(&self, table: &mut Table) {
        self.mark_parts(table);
        if let Some(beside) = &mut table.beside {
            self.mark_parts(Arc::make_mut(&mut beside.layout));
            beside.is_kept = !self.not_kept.contains(&beside.layout.id);
            beside.is_entered = !self.not_entered.contains(&beside.layout.id);
        }
    }

    fn mark_parts(&self, table: &mut Table) {
        if let Some(readable) = self.readable.get(&table.id) {
            table.readable = *readable;
        }
        for index in &mut table.indexes {
            let (readable, is_entered) =
                (self.readable.get(&index.id).copied(), !self.not_entered.contains(&index.id));
            if readable.is_some() || !is_entered {
                let index = Arc::make_mut(index);
                index.readable = readable.unwrap_or(index.readable);
                index.is_entered = is_entered;
            }
        }
    }
}

/// Answers a question of a gateway of another process.
type Answers = fn(&Engine, &[u8]) -> Reply;
/// Replies to a question to all gateways; `None` if it is about clients.
type Replies = fn(&Engine, &[u8]) -> Option<Vec<u8>>;

/// The definitions of other gateways, as far as this one knows them.
#[derive(Default)]
pub(crate) struct Herald {
    /// The statements of this gateway wait, because its catalog is being read.
    is_away: AtomicBool,
    /// See [`Herald::moves`].
    moves: AtomicU64,
    /// The last announcement of this gateway.
    last: AtomicU64,
    /// The last announcement that was heard.
    heard: AtomicU64,
    /// Announcements of catalogs, and the versions of the catalogs with them, until no statement
    /// uses an earlier one.
    marks: Mutex<VecDeque<(u64, u64)>>,
    /// The number of [`Closing`] of this gateway.
    closes: AtomicUsize,
    /// Tables that other gateways have closed to readers, by their seats.
    closed: Mutex<BTreeMap<u64, Vec<ClosedTables>>>,
    /// Held while the catalog is read or changed, and published.
    publishing: Mutex<()>,
    /// Answers questions of gateways of other processes.
    pub(crate) answers: OnceLock<Answers>,
    /// Replies to questions to all gateways that are not about clients.
    pub(crate) replies: OnceLock<Replies>,
    /// The clients of this process, about which other gateways ask.
    pub(crate) clients: Mutex<Weak<Clients>>,
}

impl Herald {
    /// Sessions have lost what the conductor has kept for them.
    fn has_moved(&self) {
        self.moves.fetch_add(1, Ordering::SeqCst);
    }

    /// The number of times that sessions have lost what the conductor has kept for them: their
    /// advisory locks, and the rows of their temporary tables.
    pub(crate) fn moves(&self) -> u64 {
        self.moves.load(Ordering::SeqCst)
    }
}

/// The announcements that a gateway has missed when it joins, in short.
#[derive(Default, Serialize, Deserialize, Debug)]
struct State {
    built: UnderConstruction,
    soon: BTreeMap<u64, BTreeSet<TableId>>,
    closed: BTreeMap<u64, usize>,
    filled: BTreeMap<TableId, Time>,
    replaced: BTreeMap<TableId, Time>,
}

/// Tables may be closed to readers until this is dropped, at all gateways.
pub(crate) struct Closing {
    engine: Arc<Engine>,
    _here: ClosedTables,
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.engine.herald.closes.fetch_sub(1, Ordering::SeqCst);
        tell(&self.engine, &Told::Closed(false));
    }
}

/// Lets the oids of new objects be above those of a catalog.
pub(super) fn raise_oids(engine: &Engine, catalog: &Catalog) {
    let base = first_oid(engine.database());
    let own = base..base.saturating_add(OIDS);
    let next = catalog.oids().filter(|oid| own.contains(oid)).map(|oid| oid + 1);
    engine.next_oid.fetch_max(next.fold(base, u32::max), Ordering::Relaxed);
}

/// Notes that a store table has all of its rows at a time.
pub(super) fn note_filled(engine: &Engine, table: TableId, at: Time) {
    engine.filled.lock().insert(table, at);
    engine.last_filled.fetch_max(at.0, Ordering::SeqCst);
}

/// Notes that a store table was replaced by another at a time.
pub(super) fn note_replaced(engine: &Engine, old: TableId, new: TableId, since: Time) {
    let catalog = engine.catalog();
    engine.former.put(old, catalog.relation(old).or_else(|| catalog.relation(new)));
    let mut replaced = engine.replaced.lock();
    replaced.remove(&new);
    replaced.insert(old, since);
}

/// The first oid of a gateway's objects.
fn first_oid(database: &Database) -> u32 {
    match database.others().seat() {
        Some(seat) => UPPER | (seat.number as u32 & 0x7fff) << OIDS.ilog2(),
        None => FIRST_OID,
    }
}

/// Completes the engine of a gateway whose conductor is in another process.
pub(super) fn follow(engine: Engine) -> Result<Arc<Engine>, SqlError> {
    engine.herald.is_away.store(true, Ordering::SeqCst);
    let engine = Arc::new(engine);
    listen(&engine);
    // News that came before were missed.
    catch_up(&engine)?;
    engine.herald.is_away.store(false, Ordering::SeqCst);
    Ok(engine)
}

/// Lets an engine hear the announcements of others.
pub(super) fn listen(engine: &Arc<Engine>) {
    engine.database().others().listen(Arc::new(Ear(Arc::downgrade(engine))));
}

/// Tells all other gateways. If the conductor is lost meanwhile, they read the catalog anew.
pub(crate) fn tell(engine: &Engine, told: &Told) {
    if !engine.database().others().are_there() {
        return;
    }
    let bytes = serde_json::to_vec(told).expect("names of fields are text");
    if let Ok(number) = engine.database().others().announce(&bytes) {
        engine.herald.last.fetch_max(number, Ordering::SeqCst);
    }
}

/// Tells all other gateways that the catalog has changed.
pub(crate) fn tell_catalog(engine: &Engine, dropped: Vec<TableId>, redefined: Vec<TableId>) {
    if engine.database().others().are_there() {
        let built = UnderConstruction::of(&engine.catalog());
        tell(engine, &Told::Catalog { dropped, redefined, built });
    }
}

/// Waits until no statement of another gateway uses a catalog from before the last announcement of
/// this one.
pub(crate) fn until_past_elsewhere(engine: &Engine, cancel: &CancelToken) -> Result<(), SqlError> {
    let last = engine.herald.last.load(Ordering::SeqCst);
    let waited = engine.database().others().until_past(last, cancel);
    waited.map_err(|error| explain(OpenError::from(error)))
}

/// Announces to all gateways that tables may be closed to readers.
pub(crate) fn close_tables(engine: &Arc<Engine>) -> Closing {
    let _here = engine.gateway().close_tables();
    engine.herald.closes.fetch_add(1, Ordering::SeqCst);
    tell(engine, &Told::Closed(true));
    Closing { engine: engine.clone(), _here }
}

/// Makes this process the conductor, after the process that had it has failed. Clients stay
/// connected.
///
/// # Errors
/// If this process cannot take its place, and should end.
pub fn take_over(engine: &Arc<Engine>) -> Result<(), SqlError> {
    engine.herald.is_away.store(true, Ordering::SeqCst);
    engine.chronicle.set_following(false);
    engine.gateway().take_over(engine.steering.clone()).map_err(database)?;
    engine.herald.has_moved();
    engine.redefined.lock().elsewhere.clear();
    engine.herald.closed.lock().clear();
    engine.herald.marks.lock().clear();
    listen(engine);
    begin_anew(engine, None)?;
    continue_histories(engine)?;
    engine.herald.is_away.store(false, Ordering::SeqCst);
    Ok(())
}

/// Waits until this gateway has a seat at the conductor, and a catalog.
///
/// # Errors
/// 57P03 if there is no conductor for long.
pub(crate) fn until_seated(engine: &Engine, cancel: &CancelToken) -> Result<(), SqlError> {
    let no_seat = |error| match error {
        isomer_cluster::Error::NoSeat => SqlError::new(
            "57P03",
            "the process with the conductor cannot be reached, and none has taken its place",
        )
        .hint("isomer cluster status shows which processes can be reached."),
        error => explain(OpenError::from(error)),
    };
    engine.database().others().until_seated(SEAT, cancel).map_err(no_seat)?;
    while engine.herald.is_away.load(Ordering::SeqCst) {
        engine.gateway().pause(cancel, AGAIN).map_err(explain)?;
    }
    Ok(())
}

/// Reads everything, as a gateway that has just joined.
fn catch_up(engine: &Engine) -> Result<(), SqlError> {
    let Reply::State(state) = ask(engine.database(), &Question::State).map_err(database)? else {
        return Err(damaged("the conductor has answered something else"));
    };
    let state: State = serde_json::from_str(&state).map_err(damaged)?;
    engine.redefined.lock().elsewhere = state.soon;
    let mut closed = BTreeMap::new();
    for (seat, count) in state.closed {
        let guards = (0..count).map(|_| engine.gateway().close_tables()).collect();
        closed.insert(seat, guards);
    }
    *engine.herald.closed.lock() = closed;
    state.filled.into_iter().for_each(|(table, at)| note_filled(engine, table, at));
    engine.replaced.lock().extend(state.replaced);
    engine.read_users()?;
    read_settings(engine)?;
    read_and_publish(engine, &state.built).map(drop)
}

/// The state for a gateway that joins, as text.
pub(crate) fn state(engine: &Engine) -> String {
    let redefined = engine.redefined.lock();
    let mut soon = redefined.elsewhere.clone();
    if redefined.is_publishing {
        soon.insert(0, redefined.soon.clone());
    }
    drop(redefined);
    let closed = engine.herald.closed.lock();
    let mut closed: BTreeMap<u64, usize> =
        closed.iter().map(|(seat, guards)| (*seat, guards.len())).collect();
    closed.insert(0, engine.herald.closes.load(Ordering::SeqCst));
    let (filled, replaced) = (engine.filled.lock().clone(), engine.replaced.lock().clone());
    let built = UnderConstruction::of(&engine.catalog());
    let state = State { built, soon, closed, filled, replaced };
    serde_json::to_string(&state).expect("names of fields are text")
}

/// Reads the catalog and publishes it. Returns its version.
fn read_and_publish(engine: &Engine, built: &UnderConstruction) -> Result<u64, SqlError> {
    let _publishing = engine.herald.publishing.lock();
    let catalog = engine.read_catalog(built)?;
    raise_oids(engine, &catalog);
    Ok(engine.publish(catalog))
}

/// Keeps the catalog from being read until this is dropped. Held from before its rows change
/// until it is published.
pub(crate) fn keep_catalog(engine: &Engine) -> MutexGuard<'_, ()> {
    engine.herald.publishing.lock()
}

fn read_settings(engine: &Engine) -> Result<(), SqlError> {
    engine.autopilot().set_mode(engine.kept_autopilot()?.unwrap_or(Mode::Off));
    let are_on = engine.kept_design_changes()?;
    match engine.database().is_gateway_only() {
        true => engine.steering.turn_changes(are_on),
        false => crate::proposals::turn_changes(engine, are_on),
    }
    engine.database().set_site_memory(engine.kept_site_memory()?);
    super::backups::read_default(engine)?;
    super::read_restraints(engine)?;
    super::ordered::read_settings(engine)
}

/// Hears what other gateways announce.
struct Ear(Weak<Engine>);

impl Ear {
    /// Reads until that succeeds, or this gateway has lost its seat. Then it will read again.
    fn until_read<T>(engine: &Engine, read: impl Fn() -> Result<T, SqlError>) -> Option<T> {
        loop {
            match read() {
                Ok(read) => return Some(read),
                Err(_) if engine.database().others().seat().is_some_and(|seat| !seat.is_seated) => {
                    return None;
                }
                Err(_) => {
                    // A token that is never canceled only ends by time.
                    let _ = engine.gateway().pause(&CancelToken::default(), AGAIN);
                }
            }
        }
    }

    fn read_catalog(engine: &Engine, number: u64, built: &UnderConstruction) -> Option<u64> {
        let version = Ear::until_read(engine, || read_and_publish(engine, built))?;
        engine.herald.marks.lock().push_back((number, version));
        Some(version)
    }
}

impl Listener for Ear {
    fn hear(&self, number: u64, from: u64, announcement: &[u8]) -> bool {
        let Some(engine) = self.0.upgrade() else { return true };
        let Ok(told) = serde_json::from_slice(announcement) else { return false };
        match told {
            Told::Soon(tables) => {
                let tables = tables.into_iter().collect();
                engine.redefined.lock().elsewhere.insert(from, tables);
            }
            Told::Withdrawn => drop(engine.redefined.lock().elsewhere.remove(&from)),
            Told::Catalog { dropped, redefined, built } => {
                let before = engine.catalog();
                let Some(version) = Ear::read_catalog(&engine, number, &built) else {
                    return false;
                };
                engine.former.keep(&before, dropped.iter().copied());
                engine.set_dropped(dropped);
                redefined.into_iter().for_each(|table| engine.set_redefined(table, version));
                engine.redefined.lock().elsewhere.remove(&from);
            }
            Told::Closed(true) => {
                let here = engine.gateway().close_tables();
                engine.herald.closed.lock().entry(from).or_default().push(here);
            }
            Told::Closed(false) => {
                let mut closed = engine.herald.closed.lock();
                closed.get_mut(&from).map(Vec::pop);
            }
            Told::Filled(table, at) => note_filled(&engine, table, at),
            Told::Replaced(old, new, since) => note_replaced(&engine, old, new, since),
            Told::Roles if Ear::until_read(&engine, || engine.read_users()).is_none() => {
                return false;
            }
            Told::Settings if Ear::until_read(&engine, || read_settings(&engine)).is_none() => {
                return false;
            }
            Told::Roles | Told::Settings => {}
            Told::Number(state) => engine.numbers.forget_block(state),
        }
        engine.herald.heard.store(number, Ordering::SeqCst);
        true
    }

    fn left(&self, number: u64, from: u64) -> bool {
        let Some(engine) = self.0.upgrade() else { return true };
        engine.herald.closed.lock().remove(&from);
        // It may have committed a definition and not announced it any more. An index that it was
        // building stays half built, and no reader uses it.
        let built = UnderConstruction::of(&engine.catalog());
        let before = engine.catalog();
        let Some(version) = Ear::read_catalog(&engine, number, &built) else { return false };
        let all = before.tables.values().flat_map(|table| table.parts());
        all.for_each(|(table, _)| engine.set_redefined(table, version));
        engine.redefined.lock().elsewhere.remove(&from);
        engine.herald.heard.store(number, Ordering::SeqCst);
        true
    }

    fn past(&self) -> u64 {
        let Some(engine) = self.0.upgrade() else { return u64::MAX };
        let mut marks = engine.herald.marks.lock();
        while marks.front().is_some_and(|(_, version)| engine.readers.are_past(*version)) {
            marks.pop_front();
        }
        match marks.front() {
            Some((number, _)) => number - 1,
            None => engine.herald.heard.load(Ordering::SeqCst),
        }
    }

    fn leaving(&self) {
        let Some(engine) = self.0.upgrade() else { return };
        engine.herald.is_away.store(true, Ordering::SeqCst);
        engine.herald.has_moved();
    }

    fn joined(&self, number: u64) -> bool {
        let Some(engine) = self.0.upgrade() else { return true };
        engine.herald.marks.lock().clear();
        engine.herald.heard.store(number, Ordering::SeqCst);
        let is_read = Ear::until_read(&engine, || catch_up(&engine)).is_some();
        if is_read {
            engine.herald.is_away.store(false, Ordering::SeqCst);
        }
        is_read
    }

    fn answer(&self, question: &[u8]) -> Vec<u8> {
        let Some(engine) = self.0.upgrade() else { return Vec::new() };
        let answer = loop {
            match engine.herald.answers.get() {
                Some(answer) => break answer,
                // The server of this process is about to start.
                None => drop(engine.gateway().pause(&CancelToken::default(), AGAIN)),
            }
        };
        serde_json::to_vec(&answer(&engine, question)).unwrap_or_default()
    }

    fn reply(&self, question: &[u8]) -> Vec<u8> {
        let Some(engine) = self.0.upgrade() else { return Vec::new() };
        let reply = engine.herald.replies.get().and_then(|reply| reply(&engine, question));
        if let Some(reply) = reply {
            return reply;
        }
        let clients = engine.herald.clients.lock().upgrade();
        clients.map_or_else(Vec::new, |clients| clients.answer(question))
    }
}
