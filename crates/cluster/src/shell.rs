//! Open transactions for threads that block: the blocking form of [`crate::open`].
//!
//! A thread that waits for a row is parked and empties inboxes, like one that waits for a site.
//! Timeouts are kept here, at the edge.

use crate::database::Database;
use crate::embedded::{Embedded, Runtime};
use crate::error::Error;
use crate::open::{self, CancelReason, CancelToken, Isolation, LockMode, Locked, OpenError};
use crate::reorder::{Batch, Copied, Entries};
use crate::router::Ran;
use isomer_design::{Direction, Key, KeyRange, TableId};
use isomer_strategy::Strategy;
use std::ops::{ControlFlow, Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The entry point of open transactions: [`open::Gateway`], and the database.
pub struct Gateway {
    open: Arc<open::Gateway<Embedded>>,
    database: Database,
    /// The number of [`ClosedTables`].
    closed: AtomicUsize,
}

impl Deref for Gateway {
    type Target = open::Gateway<Embedded>;

    fn deref(&self) -> &open::Gateway<Embedded> {
        &self.open
    }
}

impl Gateway {
    /// A gateway to a database.
    pub fn new(database: Database) -> Arc<Gateway> {
        let open = open::Gateway::new(database.shared_router().clone());
        database.runtime().set_gateway(&open);
        database.others().serve(&open);
        Arc::new(Gateway { open, database, closed: AtomicUsize::new(0) })
    }

    /// Makes this process the conductor, after the process that had it has failed. Clients stay
    /// connected; transactions that began before fail.
    ///
    /// # Errors
    /// [`Error::Open`]; this process should end then.
    pub fn take_over(&self, strategy: impl Strategy + 'static) -> Result<(), Error> {
        self.database.take_over(strategy)?;
        self.database.others().serve(&self.open);
        Ok(())
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Begins a transaction. `cancel` ends its waits.
    pub fn begin(
        self: &Arc<Gateway>,
        isolation: Isolation,
        cancel: Arc<CancelToken>,
    ) -> OpenTransaction {
        let (txn, runtime) =
            (self.open.begin(isolation, cancel.clone()), self.database.runtime().clone());
        OpenTransaction { txn, runtime, cancel }
    }

    /// Waits until other gateways can have the locks that an owner has released.
    pub fn until_released(&self, owner: open::Owner) {
        let runtime = self.database.runtime();
        if let Some(link) = self.database.others().link() {
            runtime.block_on(link.until_released(owner, || self.database.now()));
        }
    }

    /// Cancels the current wait of a client.
    pub fn cancel_waits(&self, cancel: &CancelToken, why: CancelReason) {
        cancel.end(why);
    }

    /// Announces that tables may be closed to readers until the result is dropped: readers lock
    /// what they read during that time.
    pub fn close_tables(self: &Arc<Gateway>) -> ClosedTables {
        self.closed.fetch_add(1, Ordering::SeqCst);
        ClosedTables { gateway: self.clone() }
    }

    /// True if tables may be closed to readers, so that readers must take locks.
    pub fn has_closed_tables(&self) -> bool {
        self.closed.load(Ordering::SeqCst) > 0
    }

    /// Sleeps.
    ///
    /// # Errors
    /// [`OpenError::Canceled`] if it is canceled before.
    pub fn pause(&self, cancel: &CancelToken, time: Duration) -> Result<(), OpenError> {
        let ended = self.database.runtime().block_on_for(cancel.ended(), time);
        ended.map_or(Ok(()), |why| Err(OpenError::Canceled(why)))
    }
}

/// A snapshot that several transactions read from.
pub type SharedSnapshot = open::SharedSnapshot<Embedded>;

/// Tables may be closed to readers until this is dropped.
pub struct ClosedTables {
    gateway: Arc<Gateway>,
}

impl Drop for ClosedTables {
    fn drop(&mut self) {
        self.gateway.closed.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waits for a lock, up to the client's lock timeout.
fn within_limit(
    runtime: &Runtime,
    cancel: &CancelToken,
    locked: impl Future<Output = Result<(), OpenError>>,
) -> Result<(), OpenError> {
    match cancel.lock_limit_ms() {
        0 => runtime.block_on(locked),
        limit_ms => {
            let limit = Duration::from_millis(limit_ms);
            let late = OpenError::Canceled(CancelReason::LockTime);
            runtime.block_on_for(locked, limit).unwrap_or(Err(late))
        }
    }
}

/// An open transaction: [`open::OpenTransaction`], on a thread that blocks. Dropping it rolls it
/// back.
pub struct OpenTransaction {
    txn: open::OpenTransaction<Embedded>,
    runtime: Arc<Runtime>,
    cancel: Arc<CancelToken>,
}

impl Deref for OpenTransaction {
    type Target = open::OpenTransaction<Embedded>;

    fn deref(&self) -> &open::OpenTransaction<Embedded> {
        &self.txn
    }
}

impl DerefMut for OpenTransaction {
    fn deref_mut(&mut self) -> &mut open::OpenTransaction<Embedded> {
        &mut self.txn
    }
}

/// Each method does the same as the method of this name of [`open::OpenTransaction`].
impl OpenTransaction {
    /// Shows a row as the transaction sees it.
    ///
    /// # Errors
    /// [`OpenError`]; the same for the other methods.
    pub fn get(
        &mut self,
        table: TableId,
        key: &Key,
        visit: impl FnMut(&[u8]),
    ) -> Result<bool, OpenError> {
        let work = self.txn.get(table, key, visit);
        self.runtime.block_on_until(&self.cancel, work).map_err(OpenError::Canceled)?
    }

    /// Shows the rows of a range as the transaction sees them.
    pub fn scan(
        &mut self,
        table: TableId,
        range: &KeyRange,
        way: Direction,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), OpenError> {
        let work = self.txn.scan(table, range, way, visit);
        self.runtime.block_on_until(&self.cancel, work).map_err(OpenError::Canceled)?
    }

    /// Shows the rows of a range as they are committed now.
    pub fn scan_newest(
        &mut self,
        table: TableId,
        range: &KeyRange,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), OpenError> {
        let work = self.txn.scan_newest(table, range, visit);
        self.runtime.block_on_until(&self.cancel, work).map_err(OpenError::Canceled)?
    }

    /// Locks a row, existing or not, within the client's lock timeout.
    pub fn lock(
        &mut self,
        table: TableId,
        key: &Key,
        mode: LockMode,
        waits: bool,
    ) -> Result<(), OpenError> {
        let locked = self.txn.lock(table, key, mode, waits);
        within_limit(&self.runtime, &self.cancel, locked)
    }

    /// Locks a row until the caller releases it, within the client's lock timeout.
    pub fn lock_and_keep(
        &mut self,
        table: TableId,
        key: &Key,
        mode: LockMode,
        waits: bool,
    ) -> Result<(), OpenError> {
        let locked = self.txn.lock_and_keep(table, key, mode, waits);
        within_limit(&self.runtime, &self.cancel, locked)
    }

    /// Writes the entries of rows of a table, without waiting for rows that others have locked.
    pub fn copy_rows(
        &mut self,
        table: TableId,
        batch: &Batch,
        entries: impl FnMut(&[u8], &[u8]) -> Option<Entries>,
    ) -> Result<Copied, OpenError> {
        let work = self.txn.copy_rows(table, batch, entries);
        self.runtime.block_on_until(&self.cancel, work).map_err(OpenError::Canceled)?
    }

    /// The approximate number of bytes that its read set takes.
    pub fn read_bytes(&self) -> usize {
        self.txn.read_bytes()
    }

    /// Forgets the reads of a table that it has created and dropped itself.
    pub fn forget_read(&mut self, table: TableId) {
        self.txn.forget_read(table);
    }

    /// The tables whose reads its commit validates; none unless it is serializable and has written.
    pub fn tables_looked_at_again(&self) -> Vec<TableId> {
        self.txn.tables_looked_at_again()
    }

    /// The number of rows and tables that it has locked.
    pub fn locked_rows(&self) -> usize {
        self.txn.locked_rows()
    }

    /// Waits until the current holders of a row's lock have released it.
    pub fn wait_for_holders(&mut self, table: TableId, key: &Key) -> Result<(), OpenError> {
        self.runtime.block_on(self.txn.wait_for_holders(table, key))
    }

    /// Shows the newest version of a row that the transaction has locked.
    pub fn get_locked(
        &mut self,
        table: TableId,
        key: &Key,
        visit: impl FnMut(&[u8]),
    ) -> Result<Locked, OpenError> {
        let work = self.txn.get_locked(table, key, visit);
        self.runtime.block_on_until(&self.cancel, work).map_err(OpenError::Canceled)?
    }

    /// Waits until all that was read is durable, so that it can be shown to the client.
    pub fn until_durable(&mut self) -> Result<(), OpenError> {
        let work = self.txn.until_durable();
        self.runtime.block_on_until(&self.cancel, work).map_err(OpenError::Canceled)?
    }

    /// Makes all writes visible at one time, and durable.
    pub fn commit(self) -> Result<Option<Ran>, OpenError> {
        self.runtime.block_on(self.txn.commit())
    }
}

/// Queues for the row of an ordered table for which the client's last commit has failed
/// ([`crate::ordered`]). To be called before the first statement of a transaction reads or writes;
/// otherwise the transaction queues before it takes its first snapshot.
///
/// # Errors
/// [`OpenError`], if the wait ends without the row.
pub fn queue_again(txn: &mut OpenTransaction) -> Result<(), OpenError> {
    if !open::is_to_queue(&txn.txn) {
        return Ok(());
    }
    let work = open::lock_contended(&mut txn.txn);
    txn.runtime.block_on_until(&txn.cancel, work).map_err(OpenError::Canceled)?
}

/// The snapshot of a transaction's current statement, for other transactions.
///
/// # Errors
/// [`OpenError`], if it cannot be pinned.
pub fn share_snapshot(txn: &mut OpenTransaction) -> Result<SharedSnapshot, OpenError> {
    let work = SharedSnapshot::of(&mut txn.txn);
    txn.runtime.block_on_until(&txn.cancel, work).map_err(OpenError::Canceled)?
}
