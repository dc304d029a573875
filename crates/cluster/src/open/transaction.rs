//! A transaction from its first statement to its commit.
//!
//! ```text
//!   T1                                      T2
//!   read 7 at t=90: 40
//!                                           lock 7, read at t=91: 40, intent 7 = 30
//!   lock 7 … waits
//!                                           commit @95: 7 = 30, gives the lock back
//!   … has it; reads again at t=96: 30       (REPEATABLE READ: 95 is after 90: start again)
//!   intent 7 = 20, base @95
//!   commit: 7 is still that of @95: written
//! ```
//!
//! **Invariants.** What is written is locked first and read under the lock, so its base is the newest
//! version as far as other open transactions go. A commit writes all intents at one time or none. Row
//! locks are given back when the commit can be seen; nobody is told of it before it is durable.

use super::commit::{Until, commit};
use super::gateway::{Gateway, Impatience, Patience};
use super::locks::{LockMode, Owner};
use super::reads::Reads;
use super::snapshot::{LOOKS_MAX, Seen, Snapshot};
use super::workspace::Workspace;
use crate::error::Error;
use crate::router::{Ran, Session};
use isomer_design::{Direction, Key, KeyRange, Span, TableId, Time};
use isomer_site::{CheckedWrite as Intent, Expect};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The most memory that a transaction's writes may take.
const WORKSPACE_BYTES_MAX: usize = 768 << 20;

/// How much a transaction sees of others that commit while it is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isolation {
    /// Each statement sees what was committed before it.
    ReadCommitted,
    /// All statements see what was committed before the first.
    RepeatableRead,
}

/// Why a statement or a commit of an open transaction failed. The transaction's earlier writes are
/// still there, until it is rolled back; after a failed commit, nothing is.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Waiting for a row would never have ended.
    #[error("deadlock detected: transaction {} waits for itself through {}", .0[0], circle(.0))]
    Deadlock(Vec<Owner>),
    /// The wait was ended by somebody else.
    #[error("the wait was ended: {0:?}")]
    Canceled(Impatience),
    /// Somebody else holds the row.
    #[error("the row is locked by another transaction")]
    Locked,
    /// A row has changed since the transaction's snapshot.
    #[error("a row was changed by another transaction after this one took its snapshot")]
    Changed,
    /// The transaction writes more than can be kept.
    #[error(
        "the transaction's writes take more than {} MB; commit in smaller portions",
        WORKSPACE_BYTES_MAX >> 20
    )]
    TooLarge,
    /// The database.
    #[error(transparent)]
    Database(Error),
}

impl From<Error> for OpenError {
    fn from(error: Error) -> OpenError {
        match error {
            Error::Canceled { why, is_written: false } => OpenError::Canceled(why),
            error => OpenError::Database(error),
        }
    }
}

fn circle(owners: &[Owner]) -> String {
    let names: Vec<String> = owners[1..].iter().map(Owner::to_string).collect();
    names.join(", ")
}

/// An open transaction. Dropping it rolls it back.
pub struct OpenTransaction {
    gateway: Arc<Gateway>,
    owner: Owner,
    isolation: Isolation,
    patience: Arc<Patience>,
    snapshot: Option<Snapshot>,
    /// The present since the last row was locked, where rows were read one by one.
    newest: Option<Snapshot>,
    /// The statement reads one row and no more.
    reads_one_row: bool,
    /// What was read in snapshots that are no longer used.
    seen: Seen,
    workspace: Workspace,
    locked: Vec<(TableId, Key)>,
    session: Session,
    /// What it has read, if the strategy wants to know.
    noted: Option<Reads>,
    /// Its client is told without waiting for the disk.
    is_hasty: bool,
}

/// A place to go back to.
#[derive(Clone, Copy, Debug)]
pub struct Savepoint {
    workspace: usize,
    locked: usize,
}

impl OpenTransaction {
    pub(crate) fn new(
        gateway: Arc<Gateway>,
        owner: Owner,
        isolation: Isolation,
        patience: Arc<Patience>,
    ) -> OpenTransaction {
        let mut session = gateway.database().session();
        let noted = Reads::begin(gateway.database(), &mut session);
        OpenTransaction {
            gateway,
            owner,
            isolation,
            patience,
            snapshot: None,
            newest: None,
            reads_one_row: false,
            seen: Seen::default(),
            workspace: Workspace::default(),
            locked: Vec::new(),
            session,
            noted,
            is_hasty: false,
        }
    }

    /// Its isolation.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// The gateway it came through.
    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// Its number, as others see it in a deadlock.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// True if it has written nothing.
    pub fn is_read_only(&self) -> bool {
        self.workspace.is_empty()
    }

    /// A statement begins. READ COMMITTED: what others have committed is seen from here on.
    pub fn next_statement(&mut self) {
        self.look_again();
        self.reads_one_row = false;
    }

    /// The statement that has begun reads one row and no more. READ COMMITTED: so no other site is asked to
    /// keep what it has at the same time.
    pub fn reads_one_row(&mut self) {
        self.reads_one_row = self.isolation == Isolation::ReadCommitted;
    }

    /// Shows a row as the transaction sees it, with its own writes; `false` if there is none.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn get(
        &mut self,
        table: TableId,
        key: &Key,
        mut visit: impl FnMut(&[u8]),
    ) -> Result<bool, OpenError> {
        if let Some(intent) = self.workspace.get(table, key) {
            intent.row.iter().for_each(|row| visit(row));
            return Ok(intent.row.is_some());
        }
        let begun = self.note_begin();
        let visit = |row: &[u8], _| visit(row);
        let exists = if self.reads_one_row {
            self.get_newest(table, key, visit)?
        } else {
            let (snapshot, gateway) = self.reads()?;
            snapshot.get(gateway.database(), table, key, visit)?
        };
        self.note(begun, table, || Span::Key(key.clone()), usize::from(exists));
        Ok(exists)
    }

    /// Shows the rows of a range as the transaction sees them, with its own writes, in the order of
    /// their keys or from the last, until `visit` breaks.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn scan(
        &mut self,
        table: TableId,
        range: &KeyRange,
        way: Direction,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), OpenError> {
        let begun = self.note_begin();
        self.reads()?;
        let snapshot = self.snapshot.as_mut().expect("just taken");
        let mut rows = 0;
        let mut own = way.through(self.workspace.range(table, range)).peekable();
        let mut flow = ControlFlow::Continue(());
        snapshot.scan(self.gateway.database(), table, range, way, |key, row, _| {
            rows += 1;
            let comes = |own: &(&Key, &Intent)| way.compare(own.0, key).is_le();
            while let Some((own_key, intent)) = own.next_if(comes) {
                if let (Some(row), true) = (&intent.row, flow.is_continue()) {
                    flow = visit(own_key, row);
                }
                if own_key.as_bytes() == key {
                    return flow;
                }
            }
            if flow.is_continue() {
                flow = visit(key, row);
            }
            flow
        })?;
        for (key, intent) in own {
            if let (Some(row), true) = (&intent.row, flow.is_continue()) {
                flow = visit(key, row);
            }
        }
        self.note(begun, table, || Span::Range(range.clone()), rows);
        Ok(())
    }

    /// Locks a row, existing or not. With `waits` false, a row that is not free is an error.
    ///
    /// # Errors
    /// [`OpenError::Deadlock`], [`OpenError::Canceled`], [`OpenError::Locked`].
    pub fn lock(
        &mut self,
        table: TableId,
        key: &Key,
        mode: LockMode,
        waits: bool,
    ) -> Result<(), OpenError> {
        let place = (table, key.clone());
        if self.gateway.lock(self.owner, place.clone(), mode, waits, &self.patience)? {
            self.locked.push(place);
            self.seen.end(&mut self.newest);
        }
        Ok(())
    }

    /// Waits until those who have locked a row have let go of it. Others may have it meanwhile.
    ///
    /// # Errors
    /// [`OpenError::Deadlock`], [`OpenError::Canceled`].
    pub fn outlive(&mut self, table: TableId, key: &Key) -> Result<(), OpenError> {
        self.gateway.outlive(self.owner, (table, key.clone()), &self.patience)
    }

    /// The time that all its statements see, from the first that has read.
    pub fn fixed_time(&self) -> Option<Time> {
        let is_fixed = self.isolation == Isolation::RepeatableRead;
        self.snapshot.as_ref().filter(|_| is_fixed).map(Snapshot::time)
    }

    /// As [`OpenTransaction::scan`], of what is committed now, whatever the transaction sees otherwise.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn scan_newest(
        &mut self,
        table: TableId,
        range: &KeyRange,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), OpenError> {
        let fixed = self.snapshot.take();
        let scanned = self.scan(table, range, Direction::Forward, visit);
        if let Some(fixed) = fixed {
            self.seen.end(&mut self.snapshot);
            self.snapshot = Some(fixed);
        }
        scanned
    }

    /// After rows were locked: sees what was committed until now. (REPEATABLE READ goes on as before,
    /// and [`OpenTransaction::get_locked`] tells.)
    pub fn look_again(&mut self) {
        self.seen.end(&mut self.newest);
        if self.isolation == Isolation::ReadCommitted {
            self.seen.end(&mut self.snapshot);
        }
    }

    /// Shows the newest version of a row that the transaction has locked, with its own writes.
    ///
    /// # Errors
    /// [`OpenError::Changed`] under REPEATABLE READ if it changed after the snapshot.
    pub fn get_locked(
        &mut self,
        table: TableId,
        key: &Key,
        mut visit: impl FnMut(&[u8]),
    ) -> Result<Locked, OpenError> {
        if let Some(intent) = self.workspace.get(table, key) {
            intent.row.iter().for_each(|row| visit(row));
            return Ok(Locked { exists: intent.row.is_some(), base: intent.expect });
        }
        let mut base = None;
        let mut newest = |row: &[u8], time| {
            base = Some(time);
            visit(row);
        };
        let is_fixed = self.isolation == Isolation::RepeatableRead;
        let seen = if is_fixed { Some(self.reads()?.0.time()) } else { None };
        self.get_newest(table, key, &mut newest)?;
        if let Some(seen) = seen {
            let (snapshot, gateway) = self.reads()?;
            let was_there = snapshot.get(gateway.database(), table, key, |_, _| {})?;
            if base.is_some_and(|base| base > seen) || was_there != base.is_some() {
                return Err(OpenError::Changed);
            }
        }
        Ok(Locked { exists: base.is_some(), base: Expect::Version(base) })
    }

    /// Writes a row (`None`: deletes it) that was locked and looked at with
    /// [`OpenTransaction::get_locked`].
    ///
    /// # Errors
    /// [`OpenError::TooLarge`].
    pub fn put(
        &mut self,
        table: TableId,
        key: Key,
        base: Expect,
        row: Option<Vec<u8>>,
    ) -> Result<(), OpenError> {
        self.workspace.put(table, key, base, row);
        if self.workspace.bytes() > WORKSPACE_BYTES_MAX {
            return Err(OpenError::TooLarge);
        }
        Ok(())
    }

    /// A place to go back to.
    pub fn savepoint(&mut self) -> Savepoint {
        Savepoint { workspace: self.workspace.mark(), locked: self.locked.len() }
    }

    /// No savepoint is gone back to any more, so nothing needs to be kept for them.
    pub fn forget_savepoints(&mut self) {
        self.workspace.forget_marks();
    }

    /// Forgets what was written, and gives back what was locked, since the savepoint.
    pub fn back_to(&mut self, savepoint: Savepoint) {
        self.workspace.back_to(savepoint.workspace);
        let since = self.locked.split_off(savepoint.locked);
        self.gateway.release(self.owner, &since);
    }

    /// From here on its client is told without waiting for the disk: of what was read, and of a commit at one site. A
    /// commit over several sites waits all the same.
    pub fn hurry(&mut self) {
        self.is_hasty = true;
    }

    /// Waits until what was read is durable, so that it can be told.
    ///
    /// # Errors
    /// If a log has failed.
    pub fn until_durable(&mut self) -> Result<(), OpenError> {
        if self.is_hasty {
            return Ok(());
        }
        let database = self.gateway.database();
        self.seen.until_durable(database, Some(&self.patience))?;
        for snapshot in [&mut self.snapshot, &mut self.newest].into_iter().flatten() {
            snapshot.until_durable(database)?;
        }
        Ok(())
    }

    /// Makes all writes visible, at one time, and durable. Says where that was, if there were any.
    ///
    /// # Errors
    /// [`OpenError::Changed`] if a row is not the one that was read any more; nothing was written then,
    /// unless the error [is unknown](Error::is_unknown).
    pub fn commit(mut self) -> Result<Option<Ran>, OpenError> {
        self.seen.end(&mut self.snapshot);
        self.seen.end(&mut self.newest);
        let gateway = self.gateway.clone();
        if let Some(reads) = self.noted.take() {
            reads.tell(gateway.database(), &self.session);
        }
        if self.workspace.is_empty() {
            return self.until_durable().map(|()| None);
        }
        self.session.has_seen(gateway.latest());
        // Row locks are released at publication, before the commit is durable: whoever reads its rows waits
        // for the same log before its own client is told, so a row that many want costs each of them its
        // statements, not a disk. In this order: whoever gets a lock takes a snapshot that is not before.
        let (owner, locked) = (self.owner, &mut self.locked);
        let mut published = |time| {
            gateway.published(time);
            gateway.release(owner, &std::mem::take(locked));
        };
        let (writes, is_hasty) = (self.workspace.writes(), self.is_hasty);
        let database = gateway.database();
        let until = Until { published: &mut published, patience: &self.patience };
        let ran = commit(database, &mut self.session, writes, is_hasty, until)?;
        gateway.count(ran.place);
        // What was read at the site of the commit is durable with it.
        self.until_durable().map(|()| Some(ran))
    }

    /// When a read begins that is to be noted.
    fn note_begin(&self) -> Option<Time> {
        self.noted.as_ref().map(|_| self.gateway.database().now())
    }

    fn note(&mut self, begun: Option<Time>, table: TableId, span: impl Fn() -> Span, rows: usize) {
        if let (Some(reads), Some(begun)) = (&mut self.noted, begun) {
            reads.note(table, span(), rows, begun, self.gateway.database().now());
            if reads.is_too_much() {
                self.noted = None;
            }
        }
    }

    /// Shows a row as it is now, or was at some time since the last row was locked, and when it was
    /// committed.
    fn get_newest(
        &mut self,
        table: TableId,
        key: &Key,
        mut visit: impl FnMut(&[u8], Time),
    ) -> Result<bool, OpenError> {
        let (database, latest) = (self.gateway.database(), self.gateway.latest());
        for _ in 0..LOOKS_MAX {
            let newest = match &mut self.newest {
                Some(newest) => newest,
                none => {
                    let snapshot = Snapshot::of_row(database, latest, table, key)?;
                    none.insert(snapshot.of_client(&self.patience))
                }
            };
            if let Some(found) = newest.get_at_master(database, table, key, &mut visit)? {
                return Ok(found);
            }
            // It is mastered elsewhere.
            self.seen.end(&mut self.newest);
        }
        Err(Error::Gone.into())
    }

    /// The snapshot to read from.
    fn reads(&mut self) -> Result<(&mut Snapshot, &Arc<Gateway>), OpenError> {
        if self.snapshot.is_none() {
            let gateway = &self.gateway;
            let snapshot = Snapshot::take(gateway.database(), gateway.latest())?;
            self.snapshot = Some(snapshot.of_client(&self.patience));
        }
        Ok((self.snapshot.as_mut().expect("just taken"), &self.gateway))
    }
}

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        self.gateway.release(self.owner, &self.locked);
    }
}

/// What is known of a row that is locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Locked {
    /// True if it exists, as the transaction sees it.
    pub exists: bool,
    /// The commit of its newest version, for [`OpenTransaction::put`].
    pub base: Expect,
}
