//! The state that all sessions share: the gateway to the database, the catalog, sequences, compiled
//! statements.
//!
//! **The catalog** is stored in tables of the database itself ([`stored`]). Sessions work with an
//! immutable copy; a change writes the rows, then publishes a new copy.
//!
//! **Sequences** ([`sequences`]) and row ids are reserved in blocks, so that a value costs no
//! write. A crash leaves a gap of at most one block. **Compiled statements** are cached by text,
//! for all sessions, until the catalog changes.

mod backups;
mod gateways;
pub(crate) mod ordered;
pub(crate) mod questions;
mod readers;
pub(crate) mod restraints;
mod sequences;
mod stored;
mod tables;

use backups::DefaultBackups;
pub(crate) use backups::{default_backups, give_default_backups, set_default_backups};
pub use gateways::take_over;
pub(crate) use gateways::{
    Closing, Told, close_tables, keep_catalog, state, tell, tell_catalog, until_past_elsewhere,
    until_seated,
};
pub(crate) use ordered::{
    check_one_isolation, inherit_isolation, is_table_ordered, mixed, order_table, switch_isolation,
};
pub(crate) use readers::{ReaderPlace, Reading};
pub(crate) use stored::{entries_being_built, system_table};
pub(crate) use tables::values_of;

use crate::backend::{database, explain};
use crate::chronicle::Chronicle;
use crate::figures::Statements;
use crate::history_table::{self, HistoryTable};
use crate::indexes::Build;
use crate::pilot::Decider;
use crate::plan_names::FormerNames;
use crate::processes::Restarts;
use crate::remembered::Remembered;
use crate::shapes::Shapes;
use crate::shipping::Shipments;
use crate::size::Sizes;
use crate::snapshots::Snapshots;
use crate::steering::Steering;
use crate::tally::Tallies;
use crate::users::Users;
use arc_swap::ArcSwap;
use foldhash::fast::FixedState;
use gateways::{Herald, UnderConstruction};
use hashbrown::HashMap;
use isomer_cluster::{
    ChangeEvent, Database, Expect, Gateway, Isolation, LockMode, Node, OpenError, Options,
};
use isomer_design::{Backups, Direction, Key, KeyRange, Schema, SiteId, TableId, Time, Value};
use isomer_plan::learned::Mode;
use isomer_sql::budget::Budget;
use isomer_sql::catalog::{Catalog, FIRST_OID, Name, Relations, Table};
use isomer_sql::parse::Parsed;
use isomer_sql::statement::{Compiled, compile};
use isomer_sql::{SqlError, SqlType, code};
use parking_lot::Mutex;
use readers::Readers;
use restraints::{RATE, TableModes, WINDOW};
use sequences::{Numbers, values_schema};
use std::collections::{BTreeMap, BTreeSet};

use std::ops::ControlFlow;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use stored::{catalog_schema, sequences_schema};

/// The first block of row ids. Each further block doubles, so that a load waits for few
/// reservations.
const BLOCK: i64 = 1024;
const BLOCK_MAX: i64 = 1 << 16;
/// The most cached statements.
const STATEMENTS_MAX: usize = 4096;
/// Longer texts are not cached: most are used once.
const STATEMENT_BYTES_MAX: usize = 8 << 10;
/// Larger plans are not cached.
const PLAN_BYTES_MAX: usize = 1 << 20;
/// The total bytes of cached plans.
const PLANS_BYTES_MAX: usize = 64 << 20;

/// Compiled statements, by text.
#[derive(Default)]
struct Known {
    plans: HashMap<Arc<str>, Arc<Compiled>, FixedState>,
    bytes: usize,
}

impl Known {
    fn clear(&mut self) {
        self.plans.clear();
        self.bytes = 0;
    }
}

/// Store tables that definitions have changed.
#[derive(Default)]
struct Redefined {
    /// The version of the catalog from which on plans know the table; no plan knows a dropped one.
    since: BTreeMap<TableId, u64>,
    /// Tables changed by definitions whose commit is in progress.
    soon: BTreeSet<TableId>,
    is_publishing: bool,
    /// The same of definitions of gateways of other processes, by their seats.
    elsewhere: BTreeMap<u64, BTreeSet<TableId>>,
}

/// Reserved values of a sequence.
struct Block {
    next: i64,
    end: i64,
    size: i64,
}

/// The relation between a plan and the current table.
pub(crate) enum Freshness {
    /// The plan knows the current table.
    Current,
    /// A commit in progress decides.
    Soon,
    /// The plan knows an older version of the table.
    Stale,
}

/// A commit of definitions in progress; dropping it ends the state.
pub(crate) struct Publishing {
    engine: Arc<Engine>,
    /// The gateways of other processes know how it has ended.
    pub(crate) is_settled: bool,
}

impl Drop for Publishing {
    fn drop(&mut self) {
        let mut redefined = self.engine.redefined.lock();
        redefined.soon.clear();
        redefined.is_publishing = false;
        drop(redefined);
        if !self.is_settled {
            tell(&self.engine, &Told::Withdrawn);
        }
    }
}

/// See the [module documentation](self).
pub struct Engine {
    gateway: Arc<Gateway>,
    /// The current catalog: see [`Engine::catalog`].
    pub(crate) published: ArcSwap<Catalog>,
    /// The next version of the catalog, or of a pending one.
    next_version: AtomicU64,
    /// The next oid that is not in use.
    next_oid: AtomicU32,
    pub(crate) catalog_table: (TableId, Arc<Schema>),
    sequences_table: (TableId, Arc<Schema>),
    pub(crate) users: Users,
    numbers: Numbers,
    sequences: Mutex<HashMap<String, Block, FixedState>>,
    compiled: Mutex<Known>,
    redefined: Mutex<Redefined>,
    /// Store tables filled with the rows of another, with the time at which they were complete. An
    /// older snapshot sees none or some of the rows.
    filled: Mutex<BTreeMap<TableId, Time>>,
    /// The latest of these times: newer snapshots need no lookup.
    last_filled: AtomicU64,
    /// Dropped store tables to which a transaction may still have written.
    retired: Mutex<Vec<(TableId, Arc<Schema>)>>,
    /// Store tables that a new layout has replaced, with the time of the replacement. An older
    /// snapshot reads the old one while it exists, and must not write.
    replaced: Mutex<BTreeMap<TableId, Time>>,
    pub(crate) readers: Readers,
    pub(crate) snapshots: Snapshots,
    /// Builds in progress.
    pub(crate) builds: Mutex<Vec<Arc<Build>>>,
    pub(crate) chronicle: Arc<Chronicle>,
    pub(crate) remembered: Remembered,
    pub(crate) history: HistoryTable,
    pub(crate) sizes: Sizes,
    pub(crate) statements: Statements,
    pub(crate) shipments: Shipments,
    pub(crate) shapes: Shapes,
    pub(crate) tallies: Arc<Tallies>,
    pub(crate) steering: Arc<Steering>,
    /// The fewest backups of definitions.
    least_backups: OnceLock<Backups>,
    default_backups: DefaultBackups,
    pub(crate) table_modes: TableModes,
    pub(crate) former: FormerNames,
    /// How processes restart, where they do.
    pub(crate) restarts: OnceLock<Restarts>,
    pub(crate) herald: Herald,
}

/// From what an engine is opened.
pub enum Source {
    /// A database with these options.
    Options(Box<Options>),
    /// The sites of a process that takes the place of a failed one ([`Database::succeed`]).
    Node(Arc<Node>),
    /// A gateway without the conductor ([`Database::follow`]), of the process with this name. It
    /// gives up waiting for the conductor when the function returns true.
    Gateway(Arc<Node>, String, Box<dyn Fn() -> bool>),
}

impl From<Options> for Source {
    fn from(options: Options) -> Source {
        Source::Options(Box::new(options))
    }
}

impl From<Arc<Node>> for Source {
    fn from(node: Arc<Node>) -> Source {
        Source::Node(node)
    }
}

/// Reads what is stored, drops leftovers of a crash, and publishes the catalog, at the start of
/// the process that has the conductor.
fn begin_anew(engine: &Engine, mode: Option<Mode>) -> Result<(), SqlError> {
    let mode = mode.map_or_else(|| engine.kept_autopilot(), |mode| Ok(Some(mode)))?;
    engine.autopilot().set_mode(mode.unwrap_or(Mode::Off));
    crate::proposals::turn_changes(engine, engine.kept_design_changes()?);
    if let (Decider::Learned(learned), Some(percent)) =
        (engine.autopilot(), engine.kept_autopilot_processor()?)
    {
        learned.set_processor_share(percent / 100.0);
    }
    // Definitions must work at a full site, because tables could not be dropped there
    // otherwise.
    engine.database().spare(engine.catalog_table.0);
    if engine.database().site_memory().is_none() {
        engine.database().set_site_memory(engine.kept_site_memory()?);
    }
    ordered::read_settings(engine)?;
    backups::read_default(engine)?;
    read_restraints(engine)?;
    engine.read_users()?;
    engine.drop_unused()?;
    let catalog = engine.read_catalog(&UnderConstruction::default())?;
    engine.forget_unused_numbers(&catalog)?;
    if engine.table_modes.forget_unused(&catalog) {
        engine.keep(restraints::MODES, engine.table_modes.text())?;
    }
    gateways::raise_oids(engine, &catalog);
    engine.publish(catalog);
    Ok(())
}

/// Continues the histories of the last conductor.
fn continue_histories(engine: &Engine) -> Result<(), SqlError> {
    let kept = (&*engine.chronicle, &engine.remembered);
    history_table::begin(&engine.gateway, &engine.history, kept, &engine.steering).map_err(explain)
}

/// Follows the restraints of strategies as they are stored.
fn read_restraints(engine: &Engine) -> Result<(), SqlError> {
    let [modes, window, rate] =
        [engine.kept(restraints::MODES)?, engine.kept(WINDOW)?, engine.kept(RATE)?];
    let [bytes, added] = [engine.kept(restraints::BYTES)?, engine.kept(restraints::ADDED_P99)?];
    engine.table_modes.read(modes.as_deref());
    let parts = engine.table_modes.parts(&engine.catalog());
    let rate = rate.and_then(|kept| restraints::rate(&kept).ok()).flatten();
    engine.steering.limit_changes(rate);
    let mut now = engine.steering.restraints.lock();
    now.modes = parts;
    now.window = window.and_then(|kept| restraints::window(&kept).ok()).flatten();
    now.added_p99_us = added.and_then(|kept| restraints::added_p99(&kept).ok()).flatten();
    let bytes = bytes.and_then(|kept| restraints::bytes(&kept).ok()).flatten();
    if now.bytes_per_second != bytes {
        now.set_bytes_per_second(bytes);
    }
    Ok(())
}

impl Engine {
    /// Opens a database, or takes it over from a process that has failed, and reads its catalog.
    /// The autopilot starts in `mode`, or else in the mode that
    /// ALTER SYSTEM has set last; in a new database it is off.
    ///
    /// # Errors
    /// If the database cannot be opened, or its catalog cannot be read or created.
    pub fn open(
        source: impl Into<Source>,
        autopilot: Decider,
        mode: Option<Mode>,
    ) -> Result<Arc<Engine>, SqlError> {
        let steering = Arc::new(Steering::new(autopilot));
        let opened = match source.into() {
            Source::Options(options) => Database::open(options.strategy(steering.clone())),
            Source::Node(node) => Database::succeed(node, steering.clone()),
            Source::Gateway(node, name, is_over) => Database::follow(node, &name, is_over),
        };
        let database = opened.map_err(database)?;
        let catalog_table = system_table(&database, catalog_schema())?;
        let sequences_table = system_table(&database, sequences_schema())?;
        let numbers = Numbers::of(system_table(&database, values_schema())?);
        let users = Users::open(&database)?;
        let history = HistoryTable::of(system_table(&database, history_table::schema())?);
        let lowest = database.sites().iter().map(|report| i32::from(report.site.0)).min();
        let chronicle = Arc::new(Chronicle::new(lowest.unwrap_or(0)));
        chronicle.set_following(database.is_gateway_only());
        let told = chronicle.clone();
        database.watch(move |event: &ChangeEvent| told.changed(event));
        let engine = Engine {
            gateway: Gateway::new(database),
            published: ArcSwap::default(),
            next_version: AtomicU64::new(2),
            next_oid: AtomicU32::new(FIRST_OID),
            catalog_table,
            sequences_table,
            users,
            numbers,
            sequences: Mutex::default(),
            compiled: Mutex::default(),
            redefined: Mutex::default(),
            filled: Mutex::default(),
            last_filled: AtomicU64::new(0),
            retired: Mutex::default(),
            replaced: Mutex::default(),
            readers: Readers::default(),
            snapshots: Snapshots::default(),
            builds: Mutex::default(),
            chronicle,
            remembered: Remembered::default(),
            history,
            sizes: Sizes::default(),
            statements: Statements::default(),
            shipments: Shipments::default(),
            shapes: Shapes::default(),
            tallies: Arc::default(),
            steering,
            least_backups: OnceLock::new(),
            default_backups: DefaultBackups::default(),
            table_modes: TableModes::default(),
            former: FormerNames::default(),
            restarts: OnceLock::new(),
            herald: Herald::default(),
        };
        if engine.database().is_gateway_only() {
            return gateways::follow(engine);
        }
        begin_anew(&engine, mode)?;
        continue_histories(&engine)?;
        let engine = Arc::new(engine);
        gateways::listen(&engine);
        Ok(engine)
    }

    /// The gateway.
    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// The database.
    pub fn database(&self) -> &Database {
        self.gateway.database()
    }

    /// The number of definitions that wait for read-only transactions, which hold no lock.
    pub fn waiting_for_readers(&self) -> usize {
        self.readers.waiting()
    }

    /// The current catalog.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.published.load_full()
    }

    /// The name of the table or index with this id in the store, or its last name.
    pub(crate) fn relation(&self, id: TableId) -> Option<Name> {
        self.catalog().relation(id).or_else(|| self.former.of(id))
    }

    /// The strategy that changes the design, in the mode `auto`.
    pub fn autopilot(&self) -> &Decider {
        &self.steering.decider
    }

    /// Publishes a changed catalog. Returns its version.
    pub(crate) fn replace_catalog(&self, change: impl FnOnce(&mut Relations<Table>)) -> u64 {
        let mut catalog = Catalog::clone(&self.published.load());
        change(&mut catalog.tables);
        self.publish(catalog)
    }

    /// Publishes a catalog to all sessions. Returns its version.
    pub(crate) fn publish(&self, mut catalog: Catalog) -> u64 {
        catalog.version = self.next_version();
        let version = catalog.version;
        self.steering.restraints.lock().modes = self.table_modes.parts(&catalog);
        self.published.store(Arc::new(catalog));
        self.compiled.lock().clear();
        version
    }

    /// A version newer than all catalogs and pending ones.
    pub(crate) fn next_version(&self) -> u64 {
        self.next_version.fetch_add(1, Ordering::Relaxed)
    }

    /// The key whose lock is the DDL lock.
    pub(crate) fn turn(&self) -> Result<(TableId, Key), SqlError> {
        self.row_of("turn", "")
    }

    /// Announces that these tables are about to change: transactions that lock one of them wait
    /// until the result is dropped; those of gateways of other processes as well, if `is_for_all`.
    pub(crate) fn begin_publishing(
        self: &Arc<Engine>,
        tables: impl IntoIterator<Item = TableId>,
        is_for_all: bool,
    ) -> Publishing {
        let mut redefined = self.redefined.lock();
        redefined.soon.extend(tables);
        redefined.is_publishing = true;
        let soon = redefined.soon.iter().copied().collect();
        drop(redefined);
        if is_for_all {
            tell(self, &Told::Soon(soon));
        }
        Publishing { engine: self.clone(), is_settled: !is_for_all }
    }

    /// True between the commit of definitions and the publication of their catalog.
    pub(crate) fn is_publishing(&self) -> bool {
        let redefined = self.redefined.lock();
        redefined.is_publishing || !redefined.elsewhere.is_empty()
    }

    /// Compiles a statement for the current catalog.
    ///
    /// # Errors
    /// Errors of the statement.
    pub(crate) fn compiled(
        &self,
        parsed: &Parsed,
        text: &Arc<str>,
        params: &[SqlType],
        budget: &Budget,
    ) -> Result<Arc<Compiled>, SqlError> {
        let catalog = self.catalog();
        let compiled = Arc::new(compile(parsed, text, &catalog, params, budget)?);
        let is_typed = params.iter().any(|ty| *ty != SqlType::Unknown);
        let is_short = text.len() <= STATEMENT_BYTES_MAX && compiled.bytes <= PLAN_BYTES_MAX;
        if !is_typed && is_short {
            let mut known = self.compiled.lock();
            if known.plans.len() >= STATEMENTS_MAX || known.bytes >= PLANS_BYTES_MAX {
                known.clear();
            }
            known.bytes += compiled.bytes;
            known.plans.insert(text.clone(), compiled.clone());
        }
        Ok(compiled)
    }

    /// A cached statement, compiled for the current catalog.
    pub(crate) fn known(&self, text: &str) -> Option<Arc<Compiled>> {
        let version = self.published.load().version;
        let known = self.compiled.lock().plans.get(text).cloned();
        known.filter(|compiled| compiled.version == version)
    }

    /// Compares a plan for this version of the catalog with the current table.
    pub(crate) fn freshness(&self, table: TableId, version: u64) -> Freshness {
        let redefined = self.redefined.lock();
        let mut elsewhere = redefined.elsewhere.values();
        if redefined.soon.contains(&table) || elsewhere.any(|soon| soon.contains(&table)) {
            return Freshness::Soon;
        }
        match redefined.since.get(&table).is_some_and(|since| version < *since) {
            true => Freshness::Stale,
            false => Freshness::Current,
        }
    }

    /// Records that a store table now has all of its rows, before it takes the place of another.
    pub(crate) fn set_filled(&self, table: TableId) -> Result<(), SqlError> {
        let now = self.present();
        gateways::note_filled(self, table, now);
        tell(self, &Told::Filled(table, now));
        Ok(())
    }

    /// A time at which all commits until now are visible; sites may be ahead of real time.
    pub(crate) fn present(&self) -> Time {
        self.gateway.present()
    }

    /// True if a store table was incomplete at this time.
    pub(crate) fn is_filled_after(&self, time: Time, table: TableId) -> bool {
        time.0 < self.last_filled.load(Ordering::SeqCst)
            && self.filled.lock().get(&table).is_some_and(|since| time < *since)
    }

    /// Records that a new store table has replaced an old one at this time.
    pub(crate) fn set_replaced(&self, old: TableId, new: TableId, since: Time) {
        gateways::note_replaced(self, old, new, since);
        tell(self, &Told::Replaced(old, new, since));
    }

    /// True if the store table was replaced after this time.
    pub(crate) fn is_replaced_after(&self, time: Time, table: TableId) -> bool {
        self.replaced.lock().get(&table).is_some_and(|since| time < *since)
    }

    pub(crate) fn set_dropped(&self, tables: impl IntoIterator<Item = TableId>) {
        self.redefined.lock().since.extend(tables.into_iter().map(|table| (table, u64::MAX)));
    }

    /// Records that plans for older versions of the catalog do not know the table.
    pub(crate) fn set_redefined(&self, table: TableId, version: u64) {
        self.redefined.lock().since.insert(table, version);
    }

    /// The next value of an internal sequence.
    pub(crate) fn next_value(&self, name: &str) -> Result<i64, SqlError> {
        let mut sequences = self.sequences.lock();
        let mut known = sequences.get_mut(name);
        if let Some(block) = &mut known
            && block.next < block.end
        {
            block.next += 1;
            return Ok(block.next - 1);
        }
        let size = known.map_or(BLOCK, |block| BLOCK_MAX.min(2 * block.size));
        let (table, schema) = &self.sequences_table;
        let key = schema.encode_key(&[Value::from(name)]).map_err(damaged)?;
        let first = loop {
            match self.take_block(*table, &key, (name, size)) {
                Err(OpenError::Changed) => {}
                taken => break taken.map_err(explain)?,
            }
        };
        let first = first.ok_or_else(|| {
            SqlError::new(code::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
        })?;
        sequences.insert(name.to_owned(), Block { next: first + 1, end: first + size, size });
        Ok(first)
    }

    /// Reserves the next block of a sequence, whose row may be at any site. Returns its first
    /// value, or `None` without a row.
    fn take_block(
        &self,
        table: TableId,
        key: &Key,
        (name, size): (&str, i64),
    ) -> Result<Option<i64>, OpenError> {
        let schema = &self.sequences_table.1;
        let mut txn = self.gateway.begin(Isolation::ReadCommitted, Arc::default());
        txn.lock(table, key, LockMode::Exclusive, true)?;
        txn.look_again();
        let mut next = None;
        let locked = txn.get_locked(table, key, |row| {
            next = match schema.read_column(key, row, 1) {
                Ok(Value::Int64(next)) => Some(next),
                _ => None,
            };
        })?;
        let Some(first) = next else { return Ok(None) };
        let row = schema.encode_row(&[Value::from(name), Value::Int64(first + size)]);
        let (_, row) = row.expect("a name that was a key is one again");
        txn.put(table, key.clone(), locked.base, Some(row))?;
        txn.commit().map(|_| Some(first))
    }

    /// Creates an internal sequence that begins at a value, or deletes it.
    pub(crate) fn set_sequence(&self, name: &str, next: Option<i64>) -> Result<(), SqlError> {
        let (table, schema) = &self.sequences_table;
        let (key, row) = schema
            .encode_row(&[Value::from(name), Value::Int64(next.unwrap_or(1))])
            .map_err(damaged)?;
        self.sequences.lock().remove(name);
        self.write(*table, &[(key, next.map(|_| row))])
    }

    /// Writes rows in a transaction of their own.
    pub(crate) fn write(
        &self,
        table: TableId,
        rows: &[(Key, Option<Vec<u8>>)],
    ) -> Result<(), SqlError> {
        let mut txn = self.gateway.begin(Isolation::ReadCommitted, Arc::default());
        for (key, row) in rows {
            txn.put(table, key.clone(), Expect::Anything, row.clone()).map_err(explain)?;
        }
        txn.commit().map(drop).map_err(explain)
    }

    /// Visits all current rows of a store table.
    pub(crate) fn each_row(
        &self,
        table: TableId,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), SqlError> {
        let mut txn = self.gateway().begin(Isolation::ReadCommitted, Arc::default());
        txn.scan(table, &KeyRange::all(), Direction::Forward, &mut visit).map_err(explain)
    }

    /// An oid that no object of the catalog has had since the start.
    pub(crate) fn fresh_oid(&self) -> u32 {
        self.next_oid.fetch_add(1, Ordering::Relaxed)
    }

    /// The site where new tables and indexes begin. It is the same for all. So a transaction over
    /// several of them stays at one site until load or an operator moves a part away. A site with a
    /// failed log is skipped.
    pub(crate) fn first_site(&self) -> SiteId {
        let (db, design) = (self.database(), self.database().design());
        let serves = design.sites().iter().find(|site| db.failure(*site).is_none());
        serves.or(design.sites().first()).expect("a design has a site")
    }
}

pub(crate) fn damaged(what: impl std::fmt::Display) -> SqlError {
    SqlError::new(code::INTERNAL, what.to_string())
}
