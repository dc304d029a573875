//! The interface from statements to transactions, which is their only access to the store.

use crate::budget::Budget;
use crate::error::SqlError;
use crate::foreign::Check;
use crate::rights::Identity;
use crate::sequence::Sequence;
use crate::system::{DesignView, RowChange, SessionsView, SettingsView};
use crate::types::SqlType;
use isomer_design::{Direction, Key, KeyRange, TableId, Time};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The state of a locked row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockedRow {
    /// True if it exists, as the transaction sees it.
    pub exists: bool,
    /// The commit of its newest version.
    pub base: Base,
}

/// The condition at commit for a write to take effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Base {
    /// The version of this commit, or no row.
    Version(Option<Time>),
    /// No condition: the row belongs to another row, which is checked.
    Any,
}

/// How a row is locked. An `x` marks a pair of locks that two transactions cannot hold on the same
/// row.
///
/// ```text
///                   P  KS S  NK U  D
///   Present         .  .  .  .  .  x     the row is not being deleted: ON CONFLICT DO NOTHING
///   KeyShare        .  .  .  .  x  x     the row stays, and keeps its keys: required by child rows
///   Shared          .  .  .  x  x  x     the row stays unchanged
///   NoKeyUpdate     .  .  x  x  x  x     the row changes, and keeps its keys
///   Exclusive       .  x  x  x  x  x     no other transaction locks it: FOR UPDATE, a new row
///   Deletion        x  x  x  x  x  x     the row is deleted, or its keys change
/// ```
///
/// So writers of a parent and writers of its children do not block each other, and an INSERT that
/// meets an existing row waits for its deletion only. The order is that of strength.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs, reason = "the table above says what they are")]
pub enum LockKind {
    Present,
    KeyShare,
    Shared,
    NoKeyUpdate,
    Exclusive,
    Deletion,
}

/// Sees the key and the bytes of a row, until it breaks.
pub type Visit<'v> = &'v mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// A transaction, explicit or of a single statement. Errors are those that the client gets.
pub trait Transaction {
    /// Calls `visit` with a row, including the transaction's own writes; `false` if there is none.
    ///
    /// # Errors
    /// An error of the store.
    fn get(
        &mut self,
        table: TableId,
        key: &Key,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, SqlError>;

    /// Visits the rows of a range in the order of their keys, or in reverse.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    fn scan(
        &mut self,
        table: TableId,
        range: &KeyRange,
        way: Direction,
        visit: Visit<'_>,
    ) -> Result<(), SqlError>;

    /// Visits the newest versions of the rows of a range in the order of their keys, even if the
    /// transaction has an older snapshot.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    fn scan_newest(
        &mut self,
        table: TableId,
        range: &KeyRange,
        visit: Visit<'_>,
    ) -> Result<(), SqlError>;

    /// Locks a row, existing or not; `false` if it is busy and `waits` is false.
    ///
    /// # Errors
    /// 40P01, 55P03, 57014.
    fn lock(
        &mut self,
        table: TableId,
        key: &Key,
        kind: LockKind,
        waits: bool,
    ) -> Result<bool, SqlError>;

    /// Releases the row locks that the current statement took and does not need, because the rows
    /// do not exist or do not match. Locks from before the statement stay, and so do the locks of
    /// written rows.
    fn unlock(&mut self, table: TableId, keys: &[Key]);

    /// Locks a number whose meaning is up to clients, to the end of the transaction; `false` if it
    /// is busy and `waits` is false.
    ///
    /// # Errors
    /// As [`Transaction::lock`].
    fn lock_number(&mut self, number: &Key, kind: LockKind, waits: bool) -> Result<bool, SqlError>;

    /// As [`Transaction::lock_number`], to the end of the session, or until it is unlocked.
    ///
    /// # Errors
    /// As [`Transaction::lock`].
    fn lock_number_for_session(
        &mut self,
        number: &Key,
        kind: LockKind,
        waits: bool,
    ) -> Result<bool, SqlError>;

    /// Unlocks a number that is locked to the end of the session; `false` if it is not locked.
    fn unlock_number(&mut self, number: &Key, kind: LockKind) -> bool;

    /// Unlocks all numbers that are locked to the end of the session.
    fn unlock_numbers(&mut self);

    /// Waits until other transactions have released their locks on a row, without locking it. With
    /// `deletion`, waits only if one deletes the row or changes its keys.
    ///
    /// # Errors
    /// 40P01, 57014.
    fn wait_for_holders(
        &mut self,
        table: TableId,
        key: &Key,
        deletion: bool,
    ) -> Result<(), SqlError>;

    /// Takes a new snapshot, if the isolation level allows it.
    fn look_again(&mut self);

    /// Until the statement ends, [`Transaction::get`] and [`Transaction::scan`] show rows as they
    /// are now: without the writes of the statement, and without later commits of others.
    fn keep_view(&mut self);

    /// True if the statement has written a row since [`Transaction::keep_view`].
    fn is_written_in_view(&self, table: TableId, key: &Key) -> bool;

    /// Reads the newest version of a locked row.
    ///
    /// # Errors
    /// 40001.
    fn get_locked(
        &mut self,
        table: TableId,
        key: &Key,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<LockedRow, SqlError>;

    /// True if a row of a table without row locks was committed since the transaction first read
    /// such a table.
    ///
    /// # Errors
    /// 40001.
    fn has_come_since(&mut self, _table: TableId, _key: &Key) -> Result<bool, SqlError> {
        Ok(false)
    }

    /// Writes a row; `None` deletes it.
    ///
    /// # Errors
    /// 53200 if the transaction writes too much; 25006 if it is read-only.
    fn put(
        &mut self,
        table: TableId,
        key: Key,
        base: Base,
        row: Option<Vec<u8>>,
    ) -> Result<(), SqlError>;

    /// Counts a change of a row of a table, for the statistics of the table.
    fn count(&mut self, _table: TableId, _change: RowChange) {}

    /// The number of rows that have come from sites of other processes so far.
    fn rows_shipped(&self) -> u64 {
        0
    }

    /// Prevents others from dropping or altering a table until the transaction ends.
    ///
    /// # Errors
    /// 40001 if it has changed already.
    fn hold(&mut self, table: TableId) -> Result<(), SqlError>;

    /// Defers a check until the commit, if it is deferred; `false` if it has to be made now.
    ///
    /// # Errors
    /// 53200.
    fn put_off(&mut self, check: &Check) -> Result<bool, SqlError>;

    /// The next number of a sequence of the system.
    ///
    /// # Errors
    /// 42P01 if it does not exist.
    fn next_value(&mut self, sequence: &str) -> Result<i64, SqlError>;

    /// The next number of a sequence.
    ///
    /// # Errors
    /// 2200H if there are no more; 25006.
    fn next_number(&mut self, sequence: &Sequence) -> Result<i64, SqlError>;

    /// Sets the last number of a sequence, or the next one if `is_called` is false.
    ///
    /// # Errors
    /// 25006.
    fn set_number(
        &mut self,
        sequence: &Sequence,
        value: i64,
        is_called: bool,
    ) -> Result<(), SqlError>;

    /// Lets other transactions use the snapshot, until this one ends. Returns the name of the
    /// snapshot.
    ///
    /// # Errors
    /// 25001 behind a savepoint.
    fn export_snapshot(&mut self) -> Result<String, SqlError>;

    /// An error if the statement has been cancelled, or its time is over.
    ///
    /// # Errors
    /// 57014 and similar.
    fn check_cancel(&self) -> Result<(), SqlError>;

    /// Sleeps.
    ///
    /// # Errors
    /// As [`Transaction::check_cancel`].
    fn pause(&self, time: Duration) -> Result<(), SqlError>;
}

/// Receives the rows of a result.
pub trait Sink {
    /// A row.
    ///
    /// # Errors
    /// Any error that ends the statement.
    fn row(&mut self, values: &[crate::datum::Datum]) -> Result<(), SqlError>;
}

impl<F: FnMut(&[crate::datum::Datum]) -> Result<(), SqlError>> Sink for F {
    fn row(&mut self, values: &[crate::datum::Datum]) -> Result<(), SqlError> {
        self(values)
    }
}

/// The numbers that sequences issued to a session, the last of each.
#[derive(Default, Debug)]
pub struct Given {
    numbers: RefCell<BTreeMap<u32, i64>>,
    last: Cell<Option<u32>>,
}

impl Given {
    /// Records a number that a sequence issued.
    pub fn note(&self, sequence: u32, value: i64) {
        self.numbers.borrow_mut().insert(sequence, value);
        self.last.set(Some(sequence));
    }

    /// Changes the last number of a sequence.
    pub fn correct(&self, sequence: u32, value: i64) {
        self.numbers.borrow_mut().insert(sequence, value);
    }

    /// The last number that a sequence issued.
    pub fn of(&self, sequence: u32) -> Option<i64> {
        self.numbers.borrow().get(&sequence).copied()
    }

    /// The last number that any of them issued, and the sequence.
    pub fn last(&self) -> Option<(u32, i64)> {
        self.last.get().and_then(|sequence| Some((sequence, self.of(sequence)?)))
    }

    /// Forgets all numbers.
    pub fn forget(&self) {
        self.numbers.borrow_mut().clear();
        self.last.set(None);
    }
}

/// The environment of a statement.
#[derive(Clone)]
pub struct Surroundings {
    /// The settings of the session.
    pub settings: Arc<dyn SettingsView>,
    /// When the transaction began: microseconds since 1970.
    pub begun_us: i64,
    /// When the statement began.
    pub now_us: i64,
    /// The client's user.
    pub user: Arc<str>,
    /// The user's identity, or another role that it has set.
    pub identity: Arc<Identity>,
    /// The client's database.
    pub database: Arc<str>,
    /// The number of the connection.
    pub process: i32,
    /// The statement's limits of memory and time.
    pub budget: Rc<Budget>,
    /// Information about the design.
    pub design: Arc<dyn DesignView>,
    /// A number that differs from statement to statement, for random().
    pub seed: u64,
    /// Fills bytes with unpredictable random data, for gen_random_uuid().
    pub random: fn(&mut [u8]),
    /// All connected sessions.
    pub sessions: Arc<dyn SessionsView>,
    /// Settings that the statement sets: name, value, whether for the transaction only. They take
    /// effect after the statement.
    pub wanted: Rc<RefCell<Vec<(String, String, bool)>>>,
    /// Warnings for the client, sent after the statement.
    pub warnings: Rc<RefCell<Vec<SqlError>>>,
    /// The numbers that sequences issued to the session.
    pub given: Rc<Given>,
    /// The session's cursors, by name.
    pub cursors: Rc<RefCell<Vec<CursorShown>>>,
    /// The session's prepared statements that have a name.
    pub prepared: Rc<RefCell<BTreeMap<String, PreparedShown>>>,
}

/// A row of `pg_prepared_statements`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PreparedShown {
    /// The statement, without PREPARE.
    pub statement: Arc<str>,
    /// The types that were given for its parameters.
    pub given: Vec<SqlType>,
    /// The types of its parameters.
    pub types: Vec<SqlType>,
    /// True if it was prepared by PREPARE, false if by the protocol.
    pub from_sql: bool,
    /// When it was prepared: microseconds since 1970.
    pub prepared_us: i64,
}

/// A row of `pg_cursors`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CursorShown {
    /// Its name.
    pub name: String,
    /// The statement that declared it.
    pub statement: Arc<str>,
    /// WITH HOLD.
    pub is_held: bool,
    /// BINARY.
    pub is_binary: bool,
    /// True if it can move backward.
    pub scrolls: bool,
    /// When it was declared: microseconds since 1970.
    pub declared_us: i64,
}
