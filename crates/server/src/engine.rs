//! What all sessions share: the gateway to the database, the catalog, sequences, compiled statements.
//!
//! **The catalog** is kept in tables of the database itself ([`stored`]). Sessions work with an immutable
//! copy; a change writes the rows, then puts a new copy in its place.
//!
//! **Sequences** ([`sequences`]) are taken in blocks, so that a number costs no write; those of row ids too. A crash leaves a gap of a
//! block at most. **Compiled statements** are kept by text, for all sessions, until the catalog changes.

mod backups;
mod readers;
mod sequences;
mod stored;
mod tables;

pub(crate) use readers::{ReaderPlace, Reading};
pub(crate) use stored::system_table;
pub(crate) use tables::values_of;

use crate::backend::{database, explain};
use crate::figures::Statements;
use crate::indexes::Build;
use crate::pilot::Decider;
use crate::users::Users;
use arc_swap::ArcSwap;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use isomer_cluster::{
    ChangeEvent, Database, Expect, Gateway, Isolation, LockMode, OpenError, Options,
};
use isomer_design::{Direction, Key, KeyRange, Schema, SiteId, TableId, Time, Value};
use isomer_plan::learned::Mode;
use isomer_sql::budget::Budget;
use isomer_sql::catalog::{Catalog, FIRST_OID, Relations, Table};
use isomer_sql::parse::Parsed;
use isomer_sql::statement::{Compiled, compile};
use isomer_sql::{SqlError, SqlType, code};
use parking_lot::Mutex;
use readers::Readers;
use sequences::{Numbers, values_schema};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use stored::{catalog_schema, sequences_schema};

/// Row ids are taken so many at a time, and twice as many each time that those are used up: a load waits for few of them.
const BLOCK: i64 = 1024;
const BLOCK_MAX: i64 = 1 << 16;
/// Statements are remembered up to this many.
const STATEMENTS_MAX: usize = 4096;
/// A text longer than this is used once, most likely.
const STATEMENT_BYTES_MAX: usize = 8 << 10;
/// A plan that takes more than this is made again.
const PLAN_BYTES_MAX: usize = 1 << 20;
/// The plans of all statements that are remembered may take so much.
const PLANS_BYTES_MAX: usize = 64 << 20;
/// Changes of the design are remembered up to this many.
const CHANGES_MAX: usize = 1000;

/// Statements that were compiled, by their texts.
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

/// Tables of the store that definitions have changed.
#[derive(Default)]
struct Redefined {
    /// Since which version of the catalog. Plans that are older know nothing of it; one that was dropped has no
    /// plans any more.
    since: BTreeMap<TableId, u64>,
    /// Those that the definitions at their commit have changed.
    soon: BTreeSet<TableId>,
    is_publishing: bool,
}

/// Numbers of a sequence that were taken and are not all given yet.
struct Block {
    next: i64,
    end: i64,
    size: i64,
}

/// What a plan knows of a table.
pub(crate) enum Freshness {
    /// It as it is.
    Current,
    /// It as it was, perhaps: a commit decides.
    Soon,
    /// It as it was.
    Stale,
}

/// Definitions are at their commit.
pub(crate) struct Publishing {
    engine: Arc<Engine>,
}

impl Drop for Publishing {
    fn drop(&mut self) {
        let mut redefined = self.engine.redefined.lock();
        redefined.soon.clear();
        redefined.is_publishing = false;
    }
}

/// Changes of the design since the start: the last ones with their numbers, and counts by kind.
#[derive(Default)]
struct Changes {
    last: VecDeque<(u64, ChangeEvent)>,
    made: BTreeMap<&'static str, u64>,
}

impl Changes {
    fn add(&mut self, event: &ChangeEvent) {
        *self.made.entry(event.change.operator()).or_default() += 1;
        let number = self.made.values().sum();
        self.last.push_back((number, event.clone()));
        if self.last.len() > CHANGES_MAX {
            self.last.pop_front();
        }
    }
}

/// See the [module documentation](self).
pub struct Engine {
    gateway: Arc<Gateway>,
    catalog: ArcSwap<Catalog>,
    /// The next version of the catalog, or of a draft of it.
    next_version: AtomicU64,
    /// Numbers for clients from here on are those of no object.
    next_oid: AtomicU32,
    pub(crate) catalog_table: (TableId, Arc<Schema>),
    sequences_table: (TableId, Arc<Schema>),
    pub(crate) users: Users,
    numbers: Numbers,
    sequences: Mutex<HashMap<String, Block, FixedState>>,
    compiled: Mutex<Known>,
    redefined: Mutex<Redefined>,
    /// Tables of the store that were filled with the rows of another: since when all of them are there. Who
    /// sees only what was before sees none, or some.
    filled: Mutex<BTreeMap<TableId, Time>>,
    /// The latest of these times: whoever sees that need not look.
    last_filled: AtomicU64,
    /// Tables of the store that nothing uses, and some transaction may have written to.
    retired: Mutex<Vec<(TableId, Arc<Schema>)>>,
    /// Tables of the store that are no more what a table's rows are found in: since when. Who sees what was before
    /// reads them, as long as they are kept, and must not write.
    replaced: Mutex<BTreeMap<TableId, Time>>,
    pub(crate) readers: Readers,
    /// What is being built.
    pub(crate) builds: Mutex<Vec<Arc<Build>>>,
    changes: Arc<Mutex<Changes>>,
    pub(crate) statements: Statements,
    autopilot: Decider,
}

impl Engine {
    /// An engine over a database that it opens, with the catalog that is in it. Who changes the design does so in this
    /// mode; without one, in that which ALTER SYSTEM has set last; off in a new database.
    ///
    /// # Errors
    /// If the database cannot be opened, or the catalog not be read or made.
    pub fn open(
        options: Options,
        autopilot: Decider,
        mode: Option<Mode>,
    ) -> Result<Arc<Engine>, SqlError> {
        let database = Database::open(options.strategy(autopilot.clone())).map_err(database)?;
        let catalog_table = system_table(&database, catalog_schema())?;
        let sequences_table = system_table(&database, sequences_schema())?;
        let numbers = Numbers::of(system_table(&database, values_schema())?);
        let users = Users::open(&database)?;
        let changes = Arc::new(Mutex::new(Changes::default()));
        let remembered = changes.clone();
        database.watch(move |event: &ChangeEvent| remembered.lock().add(event));
        let engine = Engine {
            gateway: Gateway::new(database),
            catalog: ArcSwap::default(),
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
            builds: Mutex::default(),
            changes,
            statements: Statements::default(),
            autopilot,
        };
        let mode = mode.map_or_else(|| engine.kept_autopilot(), |mode| Ok(Some(mode)))?;
        engine.autopilot.set_mode(mode.unwrap_or(Mode::Off));
        if let (Decider::Learned(learned), Some(percent)) =
            (&engine.autopilot, engine.kept_autopilot_processor()?)
        {
            learned.set_processor_share(percent / 100.0);
        }
        // Definitions go on at a full site: without them no table could be dropped there.
        engine.database().spare(engine.catalog_table.0);
        if engine.database().site_memory().is_none() {
            engine.database().set_site_memory(engine.kept_site_memory()?);
        }
        engine.read_users()?;
        engine.drop_unused()?;
        let catalog = engine.read_catalog()?;
        engine.forget_unused_numbers(&catalog)?;
        engine
            .next_oid
            .store(catalog.oids().map(|oid| oid + 1).fold(FIRST_OID, u32::max), Ordering::Relaxed);
        engine.catalog.store(Arc::new(catalog));
        Ok(Arc::new(engine))
    }

    /// The gateway.
    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// The database.
    pub fn database(&self) -> &Database {
        self.gateway.database()
    }

    /// The catalog as it is.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// The last changes of the design since the start, with their numbers.
    pub(crate) fn changes(&self) -> Vec<(u64, ChangeEvent)> {
        self.changes.lock().last.iter().cloned().collect()
    }

    /// How many changes of each kind were made since the start.
    pub(crate) fn changes_made(&self) -> BTreeMap<&'static str, u64> {
        self.changes.lock().made.clone()
    }

    /// Who changes the design, in the mode `auto`.
    pub fn autopilot(&self) -> &Decider {
        &self.autopilot
    }

    /// Puts a changed catalog in the place of the old one.
    /// Returns its version.
    pub(crate) fn replace_catalog(&self, change: impl FnOnce(&mut Relations<Table>)) -> u64 {
        let mut catalog = Catalog::clone(&self.catalog.load());
        change(&mut catalog.tables);
        self.publish(catalog)
    }

    /// Gives all sessions another catalog. Returns its version.
    pub(crate) fn publish(&self, mut catalog: Catalog) -> u64 {
        catalog.version = self.next_version();
        let version = catalog.version;
        self.catalog.store(Arc::new(catalog));
        self.compiled.lock().clear();
        version
    }

    /// A version that no catalog has, nor any draft of one; later ones are greater.
    pub(crate) fn next_version(&self) -> u64 {
        self.next_version.fetch_add(1, Ordering::Relaxed)
    }

    /// The place whose lock is the turn of definitions.
    pub(crate) fn turn(&self) -> Result<(TableId, Key), SqlError> {
        self.row_of("turn", "")
    }

    /// These tables are about to be other ones: whoever locks one waits until what is returned is dropped.
    pub(crate) fn begin_publishing(
        self: &Arc<Engine>,
        tables: impl IntoIterator<Item = TableId>,
    ) -> Publishing {
        let mut redefined = self.redefined.lock();
        redefined.soon.extend(tables);
        redefined.is_publishing = true;
        Publishing { engine: self.clone() }
    }

    /// True between the commit of definitions and the catalog that they have made.
    pub(crate) fn is_publishing(&self) -> bool {
        self.redefined.lock().is_publishing
    }

    /// A statement, compiled for the catalog as it is.
    ///
    /// # Errors
    /// Whatever is wrong with it.
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

    /// A statement that was compiled before, for the catalog as it is.
    pub(crate) fn known(&self, text: &str) -> Option<Arc<Compiled>> {
        let version = self.catalog.load().version;
        let known = self.compiled.lock().plans.get(text).cloned();
        known.filter(|compiled| compiled.version == version)
    }

    /// Whether a plan for this version of the catalog knows the table as it is now.
    pub(crate) fn freshness(&self, table: TableId, version: u64) -> Freshness {
        let redefined = self.redefined.lock();
        if redefined.soon.contains(&table) {
            return Freshness::Soon;
        }
        match redefined.since.get(&table).is_some_and(|since| version < *since) {
            true => Freshness::Stale,
            false => Freshness::Current,
        }
    }

    /// The rows of a table of the store are all there now, and its place is about to be taken.
    pub(crate) fn set_filled(&self, table: TableId) -> Result<(), SqlError> {
        let now = self.present();
        self.filled.lock().insert(table, now);
        self.last_filled.fetch_max(now.0, Ordering::SeqCst);
        Ok(())
    }

    /// A time at which all is seen that was committed until now, by whomever: sites may be ahead of real time.
    pub(crate) fn present(&self) -> Time {
        self.gateway.present()
    }

    /// True if a table of the store had not got all of its rows at this time.
    pub(crate) fn is_filled_after(&self, time: Time, table: TableId) -> bool {
        time.0 < self.last_filled.load(Ordering::SeqCst)
            && self.filled.lock().get(&table).is_some_and(|since| time < *since)
    }

    /// From this time on the rows of a table are found in one table of the store, and no more in another.
    pub(crate) fn set_replaced(&self, old: TableId, new: TableId, since: Time) {
        let mut replaced = self.replaced.lock();
        replaced.remove(&new);
        replaced.insert(old, since);
    }

    /// True if after this time the rows of a table are not found in this table of the store any more.
    pub(crate) fn is_replaced_after(&self, time: Time, table: TableId) -> bool {
        self.replaced.lock().get(&table).is_some_and(|since| time < *since)
    }

    pub(crate) fn set_dropped(&self, tables: impl IntoIterator<Item = TableId>) {
        self.redefined.lock().since.extend(tables.into_iter().map(|table| (table, u64::MAX)));
    }

    /// Plans for versions of the catalog before this one do not know the table.
    pub(crate) fn set_redefined(&self, table: TableId, version: u64) {
        self.redefined.lock().since.insert(table, version);
    }

    /// The next number of a sequence.
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

    /// Takes the next block of a sequence, whose row may be at any site; gives its first number, if there is a row.
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

    /// Makes a sequence that begins at a number, or ends one.
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

    /// Shows all rows of a table of the store, as they are now.
    pub(crate) fn each_row(
        &self,
        table: TableId,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), SqlError> {
        let mut txn = self.gateway().begin(Isolation::ReadCommitted, Arc::default());
        txn.scan(table, &KeyRange::all(), Direction::Forward, &mut visit).map_err(explain)
    }

    /// A number that no object of the catalog has, and none had since the start.
    pub(crate) fn fresh_oid(&self) -> u32 {
        self.next_oid.fetch_add(1, Ordering::Relaxed)
    }

    /// The site where tables and indexes begin: the same for all, so that a transaction over several of
    /// them is at one site until load or an operator moves a part away. One whose log has failed takes none.
    pub(crate) fn first_site(&self) -> SiteId {
        let (db, design) = (self.database(), self.database().design());
        let serves = design.sites().iter().find(|site| db.failure(*site).is_none());
        serves.or(design.sites().first()).expect("a design has a site")
    }
}

pub(crate) fn damaged(what: impl std::fmt::Display) -> SqlError {
    SqlError::new(code::INTERNAL, what.to_string())
}
