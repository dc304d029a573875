//! A client's transaction: an open transaction of the database, with the additions that SQL needs.
//!
//! **Table locks** are locks on a fixed key of the table, taken before all row locks
//! ([`LockMode`]). A writer of rows holds the table [`RowExclusive`](LockMode::RowExclusive), so
//! definitions wait for it, and so does LOCK TABLE in the modes of PostgreSQL. A reader takes no
//! lock, so that reading costs nothing. Only while a transaction holds or requests the mode that
//! excludes readers does each reader take a lock as well ([`Backend::read`]). Such a lock therefore
//! does not wait for earlier readers: they continue on their snapshot, and wait when they read
//! again. The commit of a serializable transaction with writes also locks all tables that it has
//! read ([`Backend::keep_what_was_read`]).

use crate::deadlock::{Waited, deadlock};
use crate::deferred::{Deferred, DeferredMark};
use crate::draft::{Draft, DraftMark};
use crate::engine::questions::locks;
use crate::engine::{Closing, Engine, Reading, close_tables, mixed};
use crate::limits;
use crate::numbers::{NUMBERS, Numbers};
use crate::snapshots::{Exported, Exports};
use crate::tally::{RolledBack, Tally};
use crate::temporary::Temporaries;
use isomer_cluster::open::{first_ordered_read, forget_writes, reach_of};
use isomer_cluster::{
    CancelToken, Error, Expect, Failure, Isolation, Lack, LockMode, LogError, OpenDatabaseError,
    OpenError, OpenTransaction, Ran, Refusal, Savepoint, share_snapshot,
};
use isomer_design::{Direction, Key, KeyRange, Span, TableId, Time};
use isomer_sql::budget::Holding;
use isomer_sql::catalog::{Catalog, Handle, Table};
use isomer_sql::foreign::Check;
use isomer_sql::sequence::Sequence;
use isomer_sql::statement::Level;
use isomer_sql::system::{RowChange, SessionsView};
use isomer_sql::transaction::{Base, LockKind, LockedRow, Transaction, Visit};
use isomer_sql::{SqlError, code};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The version of a plan that fits any catalog.
pub(crate) const NEWEST: u64 = u64::MAX - 1;

/// A client's transaction.
pub(crate) struct Backend {
    pub(crate) txn: OpenTransaction,
    /// The pending catalog, if the transaction contains definitions.
    pub(crate) draft: Option<Draft>,
    pub(crate) temporaries: Rc<Temporaries>,
    pub(crate) engine: Arc<Engine>,
    /// All sessions, to name those of a deadlock.
    sessions: Arc<dyn SessionsView>,
    pub(crate) cancel: Arc<CancelToken>,
    /// Table locks of statements. They prevent other transactions from dropping or altering
    /// the tables.
    tables: Vec<(TableId, LockMode)>,
    /// Guards of tables that are locked against readers.
    closed: Vec<Closing>,
    /// The version of the catalog in the current statement's plan.
    pub(crate) planned_for: u64,
    /// The catalog version in use.
    reading: Reading,
    pub(crate) read_only: bool,
    /// True once a statement has run, or another transaction's snapshot was taken.
    pub(crate) is_used: bool,
    /// True while a savepoint is set.
    pub(crate) has_savepoint: bool,
    /// The snapshots that other transactions may use.
    exports: Exports,
    /// The snapshot of another transaction that it uses.
    imported: Option<Arc<Exported>>,
    /// The time of its beginning, in microseconds since 1970.
    pub(crate) begun_us: i64,
    /// Deferred checks of foreign keys.
    pub(crate) deferred: Deferred,
    /// The session's advisory locks.
    numbers: Rc<RefCell<Numbers>>,
    /// The memory of its writes and locks.
    pub(crate) written: Holding,
    /// Its counts.
    tally: Tally,
}

/// A savepoint.
#[derive(Clone)]
pub(crate) struct Mark {
    txn: Savepoint,
    draft: Option<DraftMark>,
    deferred: DeferredMark,
}

/// The memory of a definition: the part of its catalog that is not shared with the previous one.
const DEFINITION_BYTES: usize = 16 << 10;
/// The overhead of a written row, besides its key and bytes, which exist twice: as an intent, and
/// in the log's frame at commit.
const WRITTEN_BYTES: usize = 128;
/// The memory of a row lock: an entry in the lock table, which may be moving to a larger one, and
/// one in the transaction's list.
const LOCK_BYTES: usize = 384;

/// The memory of an exported snapshot.
const EXPORT_BYTES: usize = 1 << 10;

impl Backend {
    pub(crate) fn new(
        txn: OpenTransaction,
        (engine, temporaries, numbers): (Arc<Engine>, Rc<Temporaries>, Rc<RefCell<Numbers>>),
        (cancel, sessions): (Arc<CancelToken>, Arc<dyn SessionsView>),
        reading: Reading,
        read_only: bool,
        begun_us: i64,
        written: Holding,
    ) -> Backend {
        let mut txn = txn;
        let handed_over = numbers.borrow_mut().hand_over(txn.owner());
        txn.keep(handed_over);
        let exports = Exports::new(engine.clone());
        let tally = Tally::new(engine.tallies.clone());
        Backend {
            txn,
            draft: None,
            temporaries,
            engine,
            sessions,
            cancel,
            tables: Vec::new(),
            closed: Vec::new(),
            planned_for: NEWEST,
            reading,
            read_only,
            is_used: false,
            has_savepoint: false,
            exports,
            imported: None,
            begun_us,
            deferred: Deferred::default(),
            numbers,
            written,
            tally,
        }
    }

    /// Why a lock that was waited for was not had.
    fn not_locked(
        &self,
        error: OpenError,
        (table, key): (TableId, &Key),
        mode: LockMode,
    ) -> SqlError {
        match error {
            OpenError::Deadlock(circle) => {
                let locks = locks(self.engine.gateway());
                let known = (&*self.engine.catalog(), &locks[..]);
                deadlock(&circle, &Waited { table, key, mode }, known, &*self.sessions)
            }
            error => explain(error),
        }
    }

    /// Waits without using a catalog, so that definitions which wait for readers of an old catalog
    /// can proceed. A transaction with a fixed snapshot keeps its catalog.
    pub(crate) fn resting<T>(&mut self, wait: impl FnOnce(&mut Backend) -> T) -> T {
        let rests = self.txn.fixed_time().is_none();
        if rests {
            self.reading.rest();
        }
        let waited = wait(self);
        if rests {
            self.reading.renew(&self.engine.published);
        }
        waited
    }

    /// Releases advisory locks of the session at the end of the transaction.
    pub(crate) fn let_go_of(&mut self, numbers: Vec<Key>) {
        numbers.into_iter().for_each(|number| self.txn.keep_no_longer((NUMBERS, number)));
    }

    /// Begins a statement: it uses the current catalog, unless the transaction has a fixed
    /// snapshot.
    pub(crate) fn next_statement(&mut self) {
        self.is_used = true;
        self.planned_for = NEWEST;
        if self.txn.fixed_time().is_none() {
            self.reading.renew(&self.engine.published);
        }
        self.txn.next_statement();
    }

    /// Commits the writes and the pending catalog.
    pub(crate) fn commit(mut self, is_asynchronous: bool) -> Result<Option<Ran>, SqlError> {
        self.tally.ends(RolledBack::Failed);
        // Its own definitions wait for the readers of the old catalog.
        self.exports.end();
        self.keep_what_was_read()?;
        self.empty_tables();
        let ran = match self.draft.take() {
            // Store tables are dropped after the commit, so it waits for the disk.
            Some(draft) => draft.commit(self.txn)?,
            None => {
                if is_asynchronous {
                    self.txn.commit_asynchronously();
                }
                let catalog = self.temporaries.catalog();
                self.txn.commit().map_err(|error| explain_commit(error, &catalog))?
            }
        };
        self.tally.committed();
        Ok(ran)
    }

    /// Leaves out the writes of the temporary tables that a commit empties.
    fn empty_tables(&mut self) {
        if self.draft.is_none() && self.temporaries.is_empty() {
            return;
        }
        let catalog = self.catalog();
        let tables = catalog.emptied.iter().filter_map(|oid| catalog.tables.numbered(*oid));
        for (id, _) in tables.flat_map(|table| table.parts()) {
            forget_writes(&mut self.txn, id);
        }
    }

    /// Rolls the transaction back.
    pub(crate) fn end(mut self, why: RolledBack) {
        self.tally.ends(why);
    }

    /// Locks the tables and indexes whose reads the commit validates, so that they are not dropped.
    /// Fails if one was dropped already, because writers that do not use it leave no trace in it.
    fn keep_what_was_read(&mut self) -> Result<(), SqlError> {
        for table in self.txn.tables_looked_at_again() {
            self.txn.lock(table, &Key::min(), LockMode::AccessShare, true).map_err(explain)?;
            if !self.is_current(table, NEWEST)? {
                let span = Span::Range(KeyRange::all());
                let error = OpenError::ReadChanged { table, span };
                return Err(explain_commit(error, &self.temporaries.catalog()));
            }
        }
        Ok(())
    }

    pub(crate) fn savepoint(&mut self) -> Mark {
        let (draft, deferred) = (self.draft.as_ref().map(Draft::mark), self.deferred.mark());
        Mark { txn: self.txn.savepoint(), draft, deferred }
    }

    pub(crate) fn isolation(&self) -> Isolation {
        self.txn.isolation()
    }

    /// Reads from the snapshot that another transaction has exported.
    ///
    /// # Errors
    /// As [`Exports::find`].
    pub(crate) fn read_from(&mut self, name: &str) -> Result<(), SqlError> {
        let found = self.engine.snapshots.find(name, (self.level(), self.read_only))?;
        found.snapshot.lend(&mut self.txn);
        self.imported = Some(found);
        self.is_used = true;
        Ok(())
    }

    /// The isolation level as an SQL type.
    pub(crate) fn level(&self) -> Level {
        match self.isolation() {
            Isolation::ReadCommitted => Level::ReadCommitted,
            Isolation::RepeatableRead => Level::RepeatableRead,
            Isolation::Serializable => Level::Serializable,
        }
    }

    /// Reserves memory for the read set, which had `before` bytes.
    fn charge_reads(&mut self, before: usize) -> Result<(), SqlError> {
        self.written.more(self.txn.read_bytes() - before)
    }

    pub(crate) fn back_to(&mut self, mark: &Mark) {
        // Table locks may be newer than the savepoint, so they are requested again.
        self.tables.clear();
        self.txn.back_to(mark.txn);
        self.deferred.back_to(&mark.deferred);
        let given_up = self.draft.iter().flat_map(|draft| draft.made_since(mark.draft.as_ref()));
        given_up.for_each(|table| self.txn.forget_read(table));
        match (&mut self.draft, &mark.draft) {
            (Some(draft), Some(mark)) => draft.back_to(mark),
            _ => self.draft = None,
        }
    }

    /// Reserves memory for a definition.
    pub(crate) fn charge_definition(&mut self) -> Result<(), SqlError> {
        self.written.more(DEFINITION_BYTES)
    }

    /// The catalog as the transaction's statements see it.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        let draft = self.draft.as_ref();
        draft.map_or_else(|| self.temporaries.catalog(), |draft| draft.catalog().clone())
    }

    /// Prevents other transactions from dropping or altering a table and its indexes until this one
    /// ends.
    pub(crate) fn hold_all(&mut self, table: &Table) -> Result<(), SqlError> {
        table.parts().try_for_each(|(id, _)| self.hold_table(id, LockMode::RowExclusive))
    }

    /// Refuses to read a table whose rows were all written after the transaction's snapshot.
    fn check_filled(&self, table: TableId) -> Result<(), SqlError> {
        let is_late = |time: Time| self.engine.is_filled_after(time, table);
        if self.txn.fixed_time().is_some_and(is_late) {
            return Err(altered());
        }
        Ok(())
    }

    /// Locks a table for LOCK TABLE.
    pub(crate) fn lock_table(
        &mut self,
        table: &Table,
        mode: LockMode,
        waits: bool,
    ) -> Result<(), SqlError> {
        if mode == LockMode::Exclusive {
            self.closed.push(close_tables(&self.engine));
        }
        for (id, _) in table.parts() {
            match self.txn.lock(id, &Key::min(), mode, waits) {
                Ok(()) => self.check_current(id)?,
                Err(OpenError::Locked) => {
                    let message = format!("could not obtain lock on relation \"{}\"", table.name);
                    return Err(SqlError::new(code::LOCK_NOT_AVAILABLE, message));
                }
                Err(error) => return Err(self.not_locked(error, (id, &Key::min()), mode)),
            }
        }
        Ok(())
    }

    /// Locks a table for a statement that reads or changes it.
    fn hold_table(&mut self, table: TableId, mode: LockMode) -> Result<(), SqlError> {
        let holds = |held: &(TableId, LockMode)| {
            held.0 == table && (held.1 == mode || held.1 == LockMode::RowExclusive)
        };
        if self.tables.iter().any(holds) {
            return Ok(());
        }
        let key = Key::min();
        let locked = self.txn.lock(table, &key, mode, true);
        locked.map_err(|error| self.not_locked(error, (table, &key), mode))?;
        self.check_current(table)?;
        self.check_in_place(table)?;
        self.tables.push((table, mode));
        Ok(())
    }

    /// Refuses to write to a layout that was replaced: current writers lock the rows in the new
    /// one.
    fn check_in_place(&self, table: TableId) -> Result<(), SqlError> {
        let is_late = |time: Time| self.engine.is_replaced_after(time, table);
        if self.txn.fixed_time().is_some_and(is_late) {
            return Err(altered());
        }
        Ok(())
    }

    /// Waits before a read while another transaction keeps readers out of the table.
    #[inline]
    fn read(&mut self, table: TableId) -> Result<(), SqlError> {
        match self.engine.gateway().has_closed_tables() {
            true => self.read_closed(table),
            false => Ok(()),
        }
    }

    fn read_closed(&mut self, table: TableId) -> Result<(), SqlError> {
        if self.tables.iter().any(|(held, _)| *held == table) {
            return Ok(());
        }
        let mode = LockMode::AccessShare;
        match self.txn.lock(table, &Key::min(), mode, false) {
            Ok(()) => {}
            Err(OpenError::Locked) => {
                let key = Key::min();
                let locked = self.txn.lock(table, &key, mode, true);
                locked.map_err(|error| self.not_locked(error, (table, &key), mode))?;
                if self.isolation() == Isolation::ReadCommitted {
                    // A statement must see all writes of the other transaction or none.
                    let message = "the table was locked against readers while the statement ran";
                    return Err(SqlError::new(code::SERIALIZATION, message).hint("Run it again."));
                }
            }
            Err(error) => return Err(explain(error)),
        }
        self.tables.push((table, mode));
        Ok(())
    }
}

impl Transaction for Backend {
    fn get(
        &mut self,
        table: TableId,
        key: &Key,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, SqlError> {
        self.check_filled(table)?;
        self.read(table)?;
        let before = self.txn.read_bytes();
        let exists = self.txn.get(table, key, visit).map_err(explain)?;
        self.tally.looked_up(table, exists.into());
        self.charge_reads(before)?;
        Ok(exists)
    }

    fn scan(
        &mut self,
        table: TableId,
        range: &KeyRange,
        way: Direction,
        visit: Visit<'_>,
    ) -> Result<(), SqlError> {
        self.check_filled(table)?;
        self.read(table)?;
        let before = self.txn.read_bytes();
        let mut rows = 0;
        let mut counted = |key: &[u8], row: &[u8]| {
            rows += 1;
            visit(key, row)
        };
        self.txn.scan(table, range, way, &mut counted).map_err(explain)?;
        match range.start.is_empty() && range.end.is_none() {
            true => self.tally.scanned(table, rows),
            false => self.tally.looked_up(table, rows),
        }
        self.charge_reads(before)
    }

    fn count(&mut self, table: TableId, change: RowChange) {
        self.tally.changed(table, change);
    }

    fn rows_shipped(&self) -> u64 {
        reach_of(&self.txn).1
    }

    fn scan_newest(
        &mut self,
        table: TableId,
        range: &KeyRange,
        visit: Visit<'_>,
    ) -> Result<(), SqlError> {
        let before = self.txn.read_bytes();
        self.txn.scan_newest(table, range, visit).map_err(explain)?;
        self.charge_reads(before)
    }

    fn lock(
        &mut self,
        table: TableId,
        key: &Key,
        kind: LockKind,
        waits: bool,
    ) -> Result<bool, SqlError> {
        if self.read_only {
            return Err(read_only());
        }
        let (of_table, mode) = match kind {
            // The table modes that conflict as these row modes should.
            LockKind::Present => (LockMode::RowShare, LockMode::AccessShare),
            LockKind::KeyShare => (LockMode::RowShare, LockMode::RowShare),
            LockKind::Shared => (LockMode::RowShare, LockMode::Shared),
            LockKind::NoKeyUpdate => (LockMode::RowExclusive, LockMode::ShareUpdateExclusive),
            // Most transactions that lock a row like this change it next, so one lock serves both.
            LockKind::Exclusive => (LockMode::RowExclusive, LockMode::AllButReads),
            LockKind::Deletion => (LockMode::RowExclusive, LockMode::Exclusive),
        };
        self.hold_table(table, of_table)?;
        let before = self.txn.locked_rows();
        match self.txn.lock(table, key, mode, waits) {
            Ok(()) => {
                let new = self.txn.locked_rows() - before;
                self.written.more(new * LOCK_BYTES)?;
                Ok(true)
            }
            Err(OpenError::Locked) => Ok(false),
            Err(error) => Err(self.not_locked(error, (table, key), mode)),
        }
    }

    fn unlock(&mut self, table: TableId, keys: &[Key]) {
        self.txn.unlock(table, keys);
    }

    fn wait_for_holders(
        &mut self,
        table: TableId,
        key: &Key,
        deletion: bool,
    ) -> Result<(), SqlError> {
        let (mode, before) = (LockMode::AccessShare, self.txn.locked_rows());
        let is_deleted =
            if deletion { self.txn.lock(table, key, mode, false) } else { Err(OpenError::Locked) };
        let waited = match is_deleted {
            Ok(()) if self.txn.locked_rows() > before => {
                self.txn.unlock(table, std::slice::from_ref(key));
                Ok(())
            }
            Err(OpenError::Locked) => self.txn.wait_for_holders(table, key),
            locked => locked,
        };
        waited.map_err(|error| self.not_locked(error, (table, key), mode))
    }

    fn lock_number(&mut self, number: &Key, kind: LockKind, waits: bool) -> Result<bool, SqlError> {
        let shared = kind <= LockKind::Shared;
        let mode = if shared { LockMode::Shared } else { LockMode::Exclusive };
        match self.txn.lock(NUMBERS, number, mode, waits) {
            Ok(()) => self.written.more(LOCK_BYTES).map(|()| true),
            Err(OpenError::Locked) => Ok(false),
            Err(error) => Err(self.not_locked(error, (NUMBERS, number), mode)),
        }
    }

    fn lock_number_for_session(
        &mut self,
        number: &Key,
        kind: LockKind,
        waits: bool,
    ) -> Result<bool, SqlError> {
        self.numbers.borrow_mut().charge(number)?;
        let shared = kind <= LockKind::Shared;
        let mode = if shared { LockMode::Shared } else { LockMode::Exclusive };
        match self.txn.lock_and_keep(NUMBERS, number, mode, waits) {
            Ok(()) => {
                self.numbers.borrow_mut().locked(number, shared, self.txn.owner());
                Ok(true)
            }
            Err(OpenError::Locked) => Ok(false),
            Err(error) => Err(self.not_locked(error, (NUMBERS, number), mode)),
        }
    }

    fn unlock_number(&mut self, number: &Key, kind: LockKind) -> bool {
        let shared = kind <= LockKind::Shared;
        let unlocked = self.numbers.borrow_mut().unlocked(number, shared);
        if unlocked == Some(true) {
            self.txn.keep_no_longer((NUMBERS, number.clone()));
        }
        unlocked.is_some()
    }

    fn unlock_numbers(&mut self) {
        let all = self.numbers.borrow_mut().all_unlocked();
        self.let_go_of(all);
    }

    fn look_again(&mut self) {
        self.txn.look_again();
    }

    fn keep_view(&mut self) {
        self.txn.keep_view();
    }

    fn is_written_in_view(&self, table: TableId, key: &Key) -> bool {
        self.txn.is_written_in_view(table, key)
    }

    fn get_locked(
        &mut self,
        table: TableId,
        key: &Key,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<LockedRow, SqlError> {
        let before = self.txn.read_bytes();
        let locked = self.txn.get_locked(table, key, visit).map_err(explain)?;
        self.charge_reads(before)?;
        let base = match locked.base {
            Expect::Version(time) => Base::Version(time),
            Expect::Anything => Base::Any,
        };
        Ok(LockedRow { exists: locked.exists, base })
    }

    fn has_come_since(&mut self, table: TableId, key: &Key) -> Result<bool, SqlError> {
        let Some(first) = first_ordered_read(&self.txn, table) else { return Ok(false) };
        let there = self.get_locked(table, key, &mut |_| {})?;
        Ok(matches!(there.base, Base::Version(Some(time)) if time > first))
    }

    fn put(
        &mut self,
        table: TableId,
        key: Key,
        base: Base,
        row: Option<Vec<u8>>,
    ) -> Result<(), SqlError> {
        if self.read_only {
            return Err(read_only());
        }
        self.hold_table(table, LockMode::RowExclusive)?;
        let bytes = key.as_bytes().len() + row.as_ref().map_or(0, Vec::len);
        self.written.more(WRITTEN_BYTES + 2 * bytes)?;
        let expect = match base {
            Base::Version(time) => Expect::Version(time),
            Base::Any => Expect::Anything,
        };
        self.txn.put(table, key, expect, row).map_err(explain)
    }

    fn hold(&mut self, table: TableId) -> Result<(), SqlError> {
        self.hold_table(table, LockMode::RowShare)
    }

    fn put_off(&mut self, check: &Check) -> Result<bool, SqlError> {
        self.defer(check)
    }

    fn next_value(&mut self, sequence: &str) -> Result<i64, SqlError> {
        self.engine.next_value(sequence)
    }

    fn next_number(&mut self, sequence: &Sequence) -> Result<i64, SqlError> {
        match self.read_only {
            true => Err(read_only_call("nextval()")),
            false => self.engine.next_number(sequence),
        }
    }

    fn set_number(
        &mut self,
        sequence: &Sequence,
        value: i64,
        is_called: bool,
    ) -> Result<(), SqlError> {
        match self.read_only {
            true => Err(read_only_call("setval()")),
            false => self.engine.set_number(sequence, value, is_called),
        }
    }

    fn export_snapshot(&mut self) -> Result<String, SqlError> {
        if self.has_savepoint {
            let message = "cannot export a snapshot from a subtransaction";
            return Err(SqlError::new(code::ACTIVE_TRANSACTION, message));
        }
        self.written.more(EXPORT_BYTES)?;
        let snapshot = share_snapshot(&mut self.txn).map_err(explain)?;
        let reading = self.engine.readers.enter().begin_as(&self.reading);
        let exported = Exported {
            snapshot,
            _reading: reading,
            level: self.level(),
            read_only: self.read_only,
        };
        Ok(self.exports.add(exported))
    }

    fn check_cancel(&self) -> Result<(), SqlError> {
        self.cancel.over().map_or(Ok(()), |why| Err(limits::ended(why)))
    }

    fn pause(&self, time: Duration) -> Result<(), SqlError> {
        self.engine.gateway().pause(&self.cancel, time).map_err(explain)
    }
}

fn altered() -> SqlError {
    let message = "the table was altered after what the transaction sees";
    SqlError::new(code::SERIALIZATION, message).hint("Run the transaction again.")
}

fn read_only() -> SqlError {
    read_only_call("this statement")
}

/// 25006: a write in a read-only transaction.
pub(crate) fn read_only_call(what: &str) -> SqlError {
    let message = format!("cannot execute {what} in a read-only transaction");
    SqlError::new(code::READ_ONLY, message)
}

/// An error of the database in PostgreSQL's terms.
pub(crate) fn explain(error: OpenError) -> SqlError {
    match error {
        OpenError::Deadlock(_) => {
            SqlError::new(code::DEADLOCK, "deadlock detected").detail(error.to_string())
        }
        OpenError::Canceled(why) => limits::ended(why),
        OpenError::Locked => SqlError::new(code::LOCK_NOT_AVAILABLE, error.to_string()),
        OpenError::Changed => SqlError::new(
            code::SERIALIZATION,
            "could not serialize access due to concurrent update",
        )
        .hint("Run the transaction again."),
        OpenError::ReadChanged { .. } => {
            SqlError::new(code::SERIALIZATION, UNSERIALIZABLE).hint("Run the transaction again.")
        }
        OpenError::Undone => {
            SqlError::new(code::SERIALIZATION, error.to_string()).hint("Run the transaction again.")
        }
        OpenError::TooLarge | OpenError::TooLargeToOrder => {
            SqlError::new(code::OUT_OF_MEMORY, error.to_string())
        }
        OpenError::Mixed | OpenError::MixedReads => mixed(error.to_string()),
        OpenError::LikeStub => SqlError::new(code::INVALID_PARAMETER, error.to_string()),
        OpenError::Database(error) => database(error),
    }
}

/// As [`explain`], for a commit. If a read was invalidated, the detail names it.
pub(crate) fn explain_commit(error: OpenError, catalog: &Catalog) -> SqlError {
    let OpenError::ReadChanged { table, span } = &error else { return explain(error) };
    let detail = match what_was_read(catalog, *table, span) {
        Some(read) => {
            format!("{read} was read by this transaction and changed by another one since.")
        }
        None => "A table was read by this transaction and dropped by another one since.".to_owned(),
    };
    explain(error).detail(detail)
}

/// The changed part of the read set, in SQL names; `None` if the table does not exist any more.
fn what_was_read(catalog: &Catalog, id: TableId, span: &Span) -> Option<String> {
    let table = catalog.tables.with(Handle::Part(id)).next()?;
    let (schema, name) = (&table.schema, &table.name);
    if let Some(index) = table.indexes.iter().find(|index| index.id == id) {
        return Some(format!("What index \"{}\" has of table \"{name}\"", index.name));
    }
    Some(match span {
        Span::Key(key) => format!("Key {} of table \"{name}\"", schema.format_key(key)),
        Span::Range(range) => format!("Range {} of table \"{name}\"", schema.format_range(range)),
    })
}

/// The SQLSTATE for an error of a redo log.
fn log(error: &LogError) -> &'static str {
    match error {
        LogError::Failed { .. } | LogError::Read { .. } | LogError::Damaged { .. } => "58030",
        LogError::NoRoom { lack: Lack::Space, .. } => "53100",
        // Connection pools take these for a server that shuts down, and reconnect.
        LogError::Fenced { .. } => "57P01",
        LogError::Unconfirmed { .. } | LogError::Gone { .. } => "57P03",
        _ => "53000",
    }
}

/// PostgreSQL's wording.
const UNSERIALIZABLE: &str =
    "could not serialize access due to read/write dependencies among transactions";

/// The hint for a full site.
pub(crate) const FULL: &str = "ALTER SYSTEM SET site_memory raises the limit; isomer.sites shows what sites have, and \
    isomer.partitions what is where.";

/// The hint for a node that is down.
const UNREACHABLE: &str = "Run the transaction again when the node is back. isomer.sites shows which sites cannot be \
    reached.";

/// The hint for a commit with an unknown outcome.
const UNKNOWN: &str =
    "The transaction may have committed. Look for what it has written before it is run again.";

/// An error of the database in PostgreSQL's terms.
pub(crate) fn database(error: Error) -> SqlError {
    let code = match &error {
        Error::Gone | Error::NoSeat => code::SERIALIZATION,
        Error::Failure(Failure::Log(error)) => log(error),
        Error::Change { refusal: Refusal::Log(error), .. } => log(error),
        Error::Open(OpenDatabaseError::Change(Refusal::Log(error))) => log(error),
        Error::Failure(Failure::Full(_)) | Error::Change { refusal: Refusal::Full(_), .. } => {
            return SqlError::new(code::OUT_OF_MEMORY, error.to_string()).hint(FULL);
        }
        Error::Failure(Failure::Unreachable { .. }) => {
            return SqlError::new("57P03", error.to_string()).hint(UNREACHABLE);
        }
        Error::Failure(Failure::Participant(_) | Failure::Unseated(_)) => code::SERIALIZATION,
        Error::Invalid(_) | Error::InvalidPlan(_) | Error::Change { .. } => code::INVALID_PARAMETER,
        Error::Reconfiguration(_) | Error::Node(_) | Error::AtConductor(_) => code::NOT_READY,
        Error::Failure(_) if error.is_unknown() => {
            return SqlError::new(code::UNKNOWN_OUTCOME, error.to_string()).hint(UNKNOWN);
        }
        Error::Canceled { .. } if error.is_unknown() => code::UNKNOWN_OUTCOME,
        Error::Failure(_) => "53000",
        Error::Refused(_) => code::NOT_READY,
        _ => code::INTERNAL,
    };
    SqlError::new(code, error.to_string())
}
