//! What statements need of a transaction: the one way down to the store.

use crate::budget::Budget;
use crate::error::SqlError;
use crate::foreign::Check;
use crate::rights::Identity;
use crate::sequence::Sequence;
use crate::system::{DesignView, SessionsView, SettingsView};
use isomer_design::{Direction, Key, KeyRange, TableId, Time};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// What is known of a row that is locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockedRow {
    /// True if it exists, as the transaction sees it.
    pub exists: bool,
    /// The commit of its newest version.
    pub base: Base,
}

/// What must be there at the commit for a write to take effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Base {
    /// The version of this commit, or no row.
    Version(Option<Time>),
    /// Whatever: the row belongs to another row, which is checked.
    Any,
}

/// How a row is locked. An `x` stands where two transactions cannot hold one row.
///
/// ```text
///                   KS  S  NK  E
///   KeyShare        .   .  .   x     the row stays, and keeps its keys: what a child needs of its parent
///   Shared          .   .  x   x     the row stays as it is
///   NoKeyUpdate     .   x  x   x     the row changes, and keeps its keys
///   Exclusive       x   x  x   x     the row changes, or goes
/// ```
///
/// So writers of a parent and writers of its children do not block each other. The order is that of
/// strength.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs, reason = "the table above says what they are")]
pub enum LockKind {
    KeyShare,
    Shared,
    NoKeyUpdate,
    Exclusive,
}

/// Sees the key and the bytes of a row, until it breaks.
pub type Visit<'v> = &'v mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// A transaction, open or of one statement. Errors are those that the client is told.
pub trait Transaction {
    /// Shows a row, with the transaction's own writes; `false` if there is none.
    ///
    /// # Errors
    /// What the store has against it.
    fn get(
        &mut self,
        table: TableId,
        key: &Key,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, SqlError>;

    /// Shows the rows of a range in the order of their keys, or from the last.
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

    /// Shows the rows of a range in the order of their keys, as they are now, also to a transaction that
    /// otherwise sees what was before.
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

    /// Releases the locks of rows that the current statement took and does not need, because the
    /// rows do not exist or do not fit. Locks from before the statement stay, and so do the locks
    /// of written rows.
    fn unlock(&mut self, table: TableId, keys: &[Key]);

    /// Locks a number that means something to clients only, to the end of the transaction; `false` if it is busy and
    /// `waits` is false.
    ///
    /// # Errors
    /// As [`Transaction::lock`].
    fn lock_number(&mut self, number: &Key, kind: LockKind, waits: bool) -> Result<bool, SqlError>;

    /// As [`Transaction::lock_number`], to the end of the session, or until it is given back.
    ///
    /// # Errors
    /// As [`Transaction::lock`].
    fn lock_number_for_session(
        &mut self,
        number: &Key,
        kind: LockKind,
        waits: bool,
    ) -> Result<bool, SqlError>;

    /// Gives back a number that is locked to the end of the session; `false` if it is not.
    fn unlock_number(&mut self, number: &Key, kind: LockKind) -> bool;

    /// Gives back all numbers that are locked to the end of the session.
    fn unlock_numbers(&mut self);

    /// Waits until others who have locked a row have let go of it, without locking it.
    ///
    /// # Errors
    /// 40P01, 57014.
    fn wait_for_holders(&mut self, table: TableId, key: &Key) -> Result<(), SqlError>;

    /// Sees what was committed until now, if its isolation lets it.
    fn look_again(&mut self);

    /// Shows the newest version of a locked row.
    ///
    /// # Errors
    /// 40001.
    fn get_locked(
        &mut self,
        table: TableId,
        key: &Key,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<LockedRow, SqlError>;

    /// Writes a row; `None` deletes it.
    ///
    /// # Errors
    /// 53200 if the transaction writes too much; 25006 if it must not write.
    fn put(
        &mut self,
        table: TableId,
        key: Key,
        base: Base,
        row: Option<Vec<u8>>,
    ) -> Result<(), SqlError>;

    /// Keeps others from dropping or altering a table until the transaction ends.
    ///
    /// # Errors
    /// 40001 if it is another one already.
    fn hold(&mut self, table: TableId) -> Result<(), SqlError>;

    /// Puts a check off until the commit, if that is asked for; `false` if it is to be made now.
    ///
    /// # Errors
    /// 53200.
    fn put_off(&mut self, check: &Check) -> Result<bool, SqlError>;

    /// The next number of a sequence of the system.
    ///
    /// # Errors
    /// 42P01 if there is none of this name.
    fn next_value(&mut self, sequence: &str) -> Result<i64, SqlError>;

    /// The next number of a sequence.
    ///
    /// # Errors
    /// 2200H if there are no more; 25006.
    fn next_number(&mut self, sequence: &Sequence) -> Result<i64, SqlError>;

    /// Makes a number the last of a sequence, or the next, if it was not given.
    ///
    /// # Errors
    /// 25006.
    fn set_number(
        &mut self,
        sequence: &Sequence,
        value: i64,
        is_called: bool,
    ) -> Result<(), SqlError>;

    /// An error if the statement has been cancelled, or its time is over.
    ///
    /// # Errors
    /// 57014 and its kin.
    fn check_cancel(&self) -> Result<(), SqlError>;

    /// Waits.
    ///
    /// # Errors
    /// As [`Transaction::check_cancel`].
    fn pause(&self, time: Duration) -> Result<(), SqlError>;
}

/// Takes the rows of a result.
pub trait Sink {
    /// A row.
    ///
    /// # Errors
    /// Whatever ends the statement.
    fn row(&mut self, values: &[crate::datum::Datum]) -> Result<(), SqlError>;
}

impl<F: FnMut(&[crate::datum::Datum]) -> Result<(), SqlError>> Sink for F {
    fn row(&mut self, values: &[crate::datum::Datum]) -> Result<(), SqlError> {
        self(values)
    }
}

/// The numbers that a session was given by sequences, the last of each.
#[derive(Default, Debug)]
pub struct Given {
    numbers: RefCell<BTreeMap<u32, i64>>,
    last: Cell<Option<u32>>,
}

impl Given {
    /// It was given a number by the sequence with this number for clients.
    pub fn note(&self, sequence: u32, value: i64) {
        self.numbers.borrow_mut().insert(sequence, value);
        self.last.set(Some(sequence));
    }

    /// The last number of a sequence is another one now.
    pub fn correct(&self, sequence: u32, value: i64) {
        self.numbers.borrow_mut().insert(sequence, value);
    }

    /// The last number that a sequence has given.
    pub fn of(&self, sequence: u32) -> Option<i64> {
        self.numbers.borrow().get(&sequence).copied()
    }

    /// The last number that any of them has given, and which one.
    pub fn last(&self) -> Option<(u32, i64)> {
        self.last.get().and_then(|sequence| Some((sequence, self.of(sequence)?)))
    }

    /// Forgets all of them.
    pub fn forget(&self) {
        self.numbers.borrow_mut().clear();
        self.last.set(None);
    }
}

/// What statements can know of where they run.
#[derive(Clone)]
pub struct Surroundings {
    /// What the session has set.
    pub settings: Arc<dyn SettingsView>,
    /// When the transaction began: microseconds since 1970.
    pub begun_us: i64,
    /// When the statement began.
    pub now_us: i64,
    /// The client's user.
    pub user: Arc<str>,
    /// Whose rights it has: the user's, or those of another role that it has taken on.
    pub identity: Arc<Identity>,
    /// The client's database.
    pub database: Arc<str>,
    /// The number of the connection.
    pub process: i32,
    /// What the statement may take of memory and time.
    pub budget: Rc<Budget>,
    /// What is known about the design.
    pub design: Arc<dyn DesignView>,
    /// A number that differs from statement to statement, for random().
    pub seed: u64,
    /// Fills bytes by chance that nobody guesses, for gen_random_uuid().
    pub random: fn(&mut [u8]),
    /// Who else is connected.
    pub sessions: Arc<dyn SessionsView>,
    /// Settings that the statement sets: name, value, whether for the transaction only. They take effect when it is
    /// over.
    pub wanted: Rc<RefCell<Vec<(String, String, bool)>>>,
    /// What the client is warned of, once the statement is over.
    pub warnings: Rc<RefCell<Vec<SqlError>>>,
    /// The numbers that the session was given by sequences.
    pub given: Rc<Given>,
    /// The session's cursors, by name.
    pub cursors: Rc<RefCell<Vec<CursorShown>>>,
}

/// What `pg_cursors` says of a cursor.
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
    /// True if it goes backward too.
    pub scrolls: bool,
    /// When it was declared: microseconds since 1970.
    pub declared_us: i64,
}
