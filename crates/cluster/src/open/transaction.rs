//! A transaction from its first statement to its commit.
//!
//! ```text
//!   T1                                      T2
//!   read 7 at t=90: 40
//!                                           lock 7, read at t=91: 40, intent 7 = 30
//!   lock 7 … waits
//!                                           commit @95: 7 = 30, releases the lock
//!   … has it; reads again at t=96: 30       (REPEATABLE READ: 95 is after 90: restart)
//!   intent 7 = 20, base @95
//!   commit: 7 is still the version @95: written
//! ```
//!
//! **Invariants.** A row is locked before it is written, and read under the lock. Its base is
//! therefore the newest version as far as other open transactions are concerned. A commit writes
//! all intents at one time, or none. Row locks are released when the commit is visible; its client
//! is acknowledged only once it is durable.

mod moves;
mod ordered;

pub use ordered::{first_ordered_read, own_table, take_rows};
pub(crate) use ordered::{is_to_queue, lock_contended, outcome_in_order};

use super::commit::{footprint, logged_at};
use super::fused::{self, Found};
use super::gateway::{CancelReason, CancelToken, Gateway};
use super::locks::{LockMode, Owner};
use super::near::Near;
use super::outcome::{Commit, NotCommitted, only_inserts};
use super::reads::Reads;
use super::snapshot::{LOOKS_MAX, Seen, SharedSnapshot, Snapshot};
use super::workspace::{Sees, Workspace};
use crate::error::Error;
use crate::fusion::site_of;
use crate::gateways::messages::{Seat, write};
use crate::gateways::shipping::{Promise, Witness};
use crate::ordered::COMMIT_BYTES_MAX;
use crate::router::{Call, Ran, Session, unless};
use crate::transport::Transport;
use isomer_design::{Direction, Key, KeyRange, SiteId, Span, TableId, Time};
use isomer_site::{Abort, Body, Expect, Overlay, ReadSet, Request};
use isomer_strategy::Refused;
use ordered::{OrderedPart, check_switches, commit_in_order, is_to_be_ordered, keep_found};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// The number of times that a statement takes another snapshot, if it cannot read in the last one.
const SNAPSHOTS_MAX: usize = 8;
/// The most memory that a transaction's writes may take.
const WORKSPACE_BYTES_MAX: usize = 768 << 20;

/// How much a transaction sees of others that commit while it is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isolation {
    /// Each statement sees what was committed before it.
    ReadCommitted,
    /// All statements see what was committed before the first.
    RepeatableRead,
    /// As if it ran alone at the time of its commit. All statements see what was committed before
    /// the first, and it commits only if they would see the same again.
    Serializable,
}

impl Isolation {
    /// True if all statements of a transaction have one snapshot.
    pub(crate) fn is_fixed(self) -> bool {
        self != Isolation::ReadCommitted
    }
}

/// Why a statement or a commit of an open transaction failed. After a failed statement, its earlier
/// writes remain until it is rolled back. After a failed commit, nothing of it remains.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The wait for a row would have closed a cycle.
    #[error("deadlock detected: transaction {} waits for itself through {}", .0[0], circle(.0))]
    Deadlock(Vec<Owner>),
    /// The wait was canceled.
    #[error("the wait was ended: {0:?}")]
    Canceled(CancelReason),
    /// Another transaction holds the row.
    #[error("the row is locked by another transaction")]
    Locked,
    /// A row has changed since the transaction's snapshot.
    #[error("a row was changed by another transaction after this one took its snapshot")]
    Changed,
    /// A row that a serializable transaction has read was changed.
    #[error("what was read of table {table} at {span} was changed by another transaction")]
    ReadChanged {
        /// The table.
        table: TableId,
        /// The row that was changed. If rows were deleted, the span that was read with them.
        span: Span,
    },
    /// It had committed, and a failed site has lost the commit before any other site had it.
    #[error(
        "its commit was lost with a site that nobody else had heard of it from, and nothing of it remains"
    )]
    Undone,
    /// The transaction's writes exceed the memory limit.
    #[error(
        "the transaction's writes take more than {} MB; commit in smaller portions",
        WORKSPACE_BYTES_MAX >> 20
    )]
    TooLarge,
    /// It has written to ordered tables and to others.
    #[error("a transaction cannot write to ordered tables and to other tables")]
    Mixed,
    /// It is serializable, has written to ordered tables, and has read others.
    #[error("a serializable transaction that writes to ordered tables cannot read other tables")]
    MixedReads,
    /// Its writes to ordered tables exceed the limit of a commit.
    #[error(
        "the transaction's writes to ordered tables take more than {} MB; commit in smaller portions",
        COMMIT_BYTES_MAX >> 20
    )]
    TooLargeToOrder,
    /// A row of an ordered table looks like a [stub](crate::fusion).
    #[error(
        "a row of an ordered table cannot consist of these bytes, which are a mark of the store"
    )]
    LikeStub,
    /// An error of the database.
    #[error(transparent)]
    Database(Error),
}

impl From<Error> for OpenError {
    fn from(error: Error) -> OpenError {
        match error {
            Error::Canceled { why, may_be_written: false } => OpenError::Canceled(why),
            error => OpenError::Database(error),
        }
    }
}

fn circle(owners: &[Owner]) -> String {
    let names: Vec<String> = owners[1..].iter().map(Owner::to_string).collect();
    names.join(", ")
}

/// An open transaction. Dropping it rolls it back.
pub struct OpenTransaction<T: Transport> {
    gateway: Arc<Gateway<T>>,
    owner: Owner,
    /// The seat of the gateway at its begin.
    seat: Seat,
    isolation: Isolation,
    cancel: Arc<CancelToken>,
    snapshot: Option<Snapshot<T>>,
    /// The snapshot for current reads since the last row was locked, if rows were read one by one.
    newest: Option<Snapshot<T>>,
    /// Read positions of snapshots that have ended.
    seen: Seen,
    workspace: Workspace,
    /// The rows that it has read, if it is serializable. A rollback to a savepoint keeps them.
    reads: ReadSet,
    /// Its work on ordered tables.
    ordered: OrderedPart,
    /// Its reads must be valid at its commit, though it is not serializable.
    checks_reads: bool,
    read_bytes: usize,
    locked: Vec<(TableId, Key)>,
    /// The number of these that are from before the current statement.
    locked_before: usize,
    /// The places whose locks it keeps when it has ended, in `locked` or not.
    kept: BTreeSet<(TableId, Key)>,
    session: Session,
    /// The reads to report to the strategy.
    noted: Reads,
    /// Its client is acknowledged before the log is synced.
    is_asynchronous: bool,
    /// The rows of its statement, if it reads no others: see [`super::near`]. To be set at the
    /// beginning of each statement under READ COMMITTED.
    pub near: Option<Near>,
    /// Sees the commit, if the client is at another process.
    pub witness: Option<Arc<dyn Witness>>,
}

/// A savepoint, for [`OpenTransaction::back_to`].
#[derive(Clone, Copy, Debug)]
pub struct Savepoint {
    workspace: usize,
    locked: usize,
}

/// Drops the transaction's writes of a table, just before its commit.
pub fn forget_writes<T: Transport>(txn: &mut OpenTransaction<T>, table: TableId) {
    txn.workspace.forget(table);
}

/// The sites that a transaction has read from so far, in their order.
pub fn sites_read<T: Transport>(txn: &OpenTransaction<T>) -> Vec<SiteId> {
    let open = txn.snapshot.iter().chain(&txn.newest).flat_map(Snapshot::read);
    let all: BTreeSet<SiteId> = txn.seen.read().iter().chain(open).copied().collect();
    all.into_iter().collect()
}

/// The number of sites that a transaction has read from so far, and the number of rows that came
/// from sites of other processes.
pub fn reach_of<T: Transport>(txn: &OpenTransaction<T>) -> (u64, u64) {
    let open = || txn.snapshot.iter().chain(&txn.newest);
    let mut sites: SmallVec<[SiteId; 8]> =
        txn.seen.read().iter().chain(open().flat_map(Snapshot::read)).copied().collect();
    sites.sort_unstable();
    sites.dedup();
    let shipped = txn.seen.shipped() + open().map(Snapshot::shipped).sum::<u64>();
    (sites.len() as u64, shipped)
}

/// The first row that a transaction has written at each master site, by the routing table; none if
/// all are at one site. Looks at up to `most` rows.
pub fn spread<T: Transport>(txn: &OpenTransaction<T>, most: usize) -> Vec<(TableId, Key, SiteId)> {
    let routing = txn.gateway.router().routing_table();
    let keys = txn
        .workspace
        .writes()
        .iter()
        .flat_map(|(table, rows)| rows.keys().map(|key| (*table, key)));
    let mut first: BTreeMap<SiteId, (TableId, Key)> = BTreeMap::new();
    for (table, key) in keys.take(most) {
        if let Some(placement) = routing.placement(table, key.as_bytes()) {
            first.entry(placement.master).or_insert_with(|| (table, key.clone()));
        }
    }
    match first.len() {
        0 | 1 => Vec::new(),
        _ => first.into_iter().map(|(site, (table, key))| (table, key, site)).collect(),
    }
}

impl<T: Transport> OpenTransaction<T> {
    pub(crate) fn new(
        gateway: Arc<Gateway<T>>,
        (owner, seat): (Owner, Seat),
        isolation: Isolation,
        cancel: Arc<CancelToken>,
    ) -> OpenTransaction<T> {
        let mut session = Session::new(owner.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let noted = Reads::begin(gateway.router(), &mut session);
        let ordered = OrderedPart::begin(gateway.router(), &cancel);
        OpenTransaction {
            gateway,
            owner,
            seat,
            isolation,
            cancel,
            snapshot: None,
            newest: None,
            seen: Seen::default(),
            workspace: Workspace::default(),
            reads: ReadSet::default(),
            ordered,
            checks_reads: false,
            read_bytes: 0,
            locked: Vec::new(),
            locked_before: 0,
            kept: BTreeSet::new(),
            session,
            noted,
            is_asynchronous: false,
            near: None,
            witness: None,
        }
    }

    /// Its isolation level.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// The gateway that began it.
    pub fn gateway(&self) -> &Arc<Gateway<T>> {
        &self.gateway
    }

    /// Its number, as other sessions see it in a deadlock.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// True if it has written nothing.
    pub fn is_read_only(&self) -> bool {
        self.workspace.is_empty()
    }

    /// Begins a statement. Under READ COMMITTED it sees all that others have committed until now.
    pub fn next_statement(&mut self) {
        self.locked_before = self.locked.len();
        self.workspace.end_view();
        self.look_again();
    }

    /// Until the next statement, [`OpenTransaction::get`] and [`OpenTransaction::scan`] show rows
    /// as they are now: without later writes of this transaction, and at one time at any isolation
    /// level. So all parts of a statement see the same. Reads of the newest rows are not affected.
    pub fn keep_view(&mut self) {
        self.workspace.begin_view();
    }

    /// True if a row was written since [`OpenTransaction::keep_view`].
    pub fn is_written_in_view(&self, table: TableId, key: &Key) -> bool {
        self.workspace.is_written_in_view(table, key)
    }

    /// Shows a row as the transaction sees it, with its own writes. Returns `false` if there is
    /// none.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn get(
        &mut self,
        table: TableId,
        key: &Key,
        mut visit: impl FnMut(&[u8]),
    ) -> Result<bool, OpenError> {
        if let Some(intent) = self.workspace.viewed(table, key) {
            intent.row.iter().for_each(|row| visit(row));
            return Ok(intent.row.is_some());
        }
        leave(self, |near| near.has_key(table, key))?;
        let begun = self.noted.begin_read(self.gateway.transport());
        let mut snapshots = 0;
        let found = loop {
            let (snapshot, gateway) = self.reads(self.isolation.is_fixed()).await?;
            match fused::get(snapshot, gateway, (table, key), |row, _| visit(row)).await {
                Err(Error::Gone) if self.takes_another(&mut snapshots) => {}
                result => break result?,
            }
        };
        self.note(begun, table, || Span::Key(key.clone()), usize::from(found.exists));
        keep_found(self, table, key, found);
        Ok(found.exists)
    }

    /// Shows the rows of a range as the transaction sees them, with its own writes, until `visit`
    /// breaks. The rows are in key order, or reversed if `way` is backward.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn scan(
        &mut self,
        table: TableId,
        range: &KeyRange,
        way: Direction,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), OpenError> {
        self.scan_as(Sees::View, table, range, way, visit).await
    }

    async fn scan_as(
        &mut self,
        sees: Sees,
        table: TableId,
        range: &KeyRange,
        way: Direction,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), OpenError> {
        leave(self, |near| near.has_range(table, range))?;
        let begun = self.noted.begin_read(self.gateway.transport());
        let (mut snapshots, mut rows, mut last) = (0, 0, None);
        let mut used = Vec::new();
        let keeps = self.keeps_reads() || self.ordered.has(self.gateway.router(), table);
        let is_fixed = sees == Sees::View && self.isolation.is_fixed();
        loop {
            self.reads(is_fixed).await?;
            used.clear();
            let snapshot = self.snapshot.as_mut().expect("it was just taken");
            let own = way.through(self.workspace.range(sees, table, range));
            let own = own.map(|(key, intent)| (key.as_bytes(), intent.row.as_deref()));
            let mut overlay = Overlay::new(own, way, &mut visit);
            let stored = |key: &[u8], row: &[u8], _: Time| {
                rows += 1;
                let flow = overlay.stored(key, Some(row));
                if keeps && flow.is_break() {
                    last = Some(Key::from_bytes(key));
                }
                flow
            };
            let at = (table, range, way);
            let scanned = fused::scan(snapshot, &self.gateway, at, &mut used, stored).await;
            if scanned.is_ok() {
                overlay.end();
                break;
            }
            drop(overlay);
            match scanned {
                Err(Error::Gone) if self.takes_another(&mut snapshots) => {}
                result => result?,
            }
        }
        self.note(begun, table, || Span::Range(range.clone()), rows);
        self.keep_read(table, || Span::Range(up_to(range, way, last)), rows);
        for (table, span, rows) in used {
            self.keep_read(table, || span, rows);
        }
        Ok(())
    }

    /// Locks a row, existing or not. With `waits` false, a row that is not free is an error. A row
    /// of an ordered table is not locked: the order validates what was read of it.
    ///
    /// # Errors
    /// [`OpenError::Deadlock`], [`OpenError::Canceled`], [`OpenError::Locked`].
    pub async fn lock(
        &mut self,
        table: TableId,
        key: &Key,
        mode: LockMode,
        waits: bool,
    ) -> Result<(), OpenError> {
        let place = (table, key.clone());
        if self.ordered.has(self.gateway.router(), table) && !key.is_empty() {
            return Ok(());
        }
        let asked = self.gateway.lock(self.owner, place.clone(), mode, waits, &self.cancel);
        if asked.await? || self.kept.contains(&place) {
            self.locked.push(place);
            self.end_newest();
        }
        Ok(())
    }

    /// Releases the locks of rows that the current statement took and does not need. Locks from
    /// before the statement stay, and so do the locks of written rows.
    pub fn unlock(&mut self, table: TableId, keys: &[Key]) {
        let keys: BTreeSet<&Key> = keys.iter().collect();
        let workspace = &self.workspace;
        let is_free = |place: &mut (TableId, Key)| {
            place.0 == table && keys.contains(&place.1) && workspace.get(table, &place.1).is_none()
        };
        let since = self.locked_before.min(self.locked.len());
        let free = self.locked.extract_if(since.., is_free).collect();
        self.let_go(free);
    }

    /// As [`lock`](OpenTransaction::lock), and [keeps](OpenTransaction::keep) it.
    ///
    /// # Errors
    /// As [`lock`](OpenTransaction::lock).
    pub async fn lock_and_keep(
        &mut self,
        table: TableId,
        key: &Key,
        mode: LockMode,
        waits: bool,
    ) -> Result<(), OpenError> {
        let place = (table, key.clone());
        self.gateway.lock(self.owner, place.clone(), mode, waits, &self.cancel).await?;
        self.kept.insert(place);
        self.end_newest();
        Ok(())
    }

    /// Keeps its locks of these places when it ends, until the caller
    /// [releases](Gateway::give_back) them or [hands them over](Gateway::hand_over).
    pub fn keep(&mut self, places: impl IntoIterator<Item = (TableId, Key)>) {
        self.kept.extend(places);
    }

    /// Undoes [`keep`](Self::keep) for a place. Releases the lock now if the transaction itself has
    /// not asked for it.
    pub fn keep_no_longer(&mut self, place: (TableId, Key)) {
        if self.kept.remove(&place) && !self.locked.contains(&place) {
            self.gateway.release(self.owner, &[place]);
        }
    }

    /// Releases places, except for those that it keeps.
    fn let_go(&self, mut places: Vec<(TableId, Key)>) {
        places.retain(|place| !self.kept.contains(place));
        self.gateway.release(self.owner, &places);
    }

    /// The approximate number of bytes that its read set takes; 0 unless it is serializable.
    pub fn read_bytes(&self) -> usize {
        self.read_bytes
    }

    /// Forgets the reads of a table that it has created and dropped itself.
    pub fn forget_read(&mut self, table: TableId) {
        self.reads.forget(table);
        self.ordered.forget(table);
    }

    /// The tables whose reads its commit validates; none unless it is serializable and has written.
    pub fn tables_looked_at_again(&self) -> Vec<TableId> {
        let looks = !self.workspace.is_empty();
        let all = self.ordered.reads().iter().chain([&self.reads]).filter(|_| looks);
        let mut tables: BTreeSet<TableId> =
            all.flat_map(|reads| reads.tables().map(|(table, _)| table)).collect();
        // Fused rows were found by way of their tables, which are among these, or by their keys.
        self.gateway.router().ordered().fused().iter().for_each(|fused| {
            tables.remove(fused);
        });
        tables.into_iter().collect()
    }

    /// The number of rows and tables that it has locked.
    pub fn locked_rows(&self) -> usize {
        self.locked.len()
    }

    /// Waits until the current holders of a row's lock have released it. Others may lock the row
    /// during the wait.
    ///
    /// # Errors
    /// [`OpenError::Deadlock`], [`OpenError::Canceled`].
    pub async fn wait_for_holders(&mut self, table: TableId, key: &Key) -> Result<(), OpenError> {
        self.gateway.wait_for_holders(self.owner, (table, key.clone()), &self.cancel).await
    }

    /// The snapshot time of the current statement, if it has read.
    pub fn snapshot_time(&self) -> Option<Time> {
        self.snapshot.as_ref().map(Snapshot::time)
    }

    /// The snapshot time of all its statements, once one has read. `None` under READ COMMITTED.
    pub fn fixed_time(&self) -> Option<Time> {
        self.snapshot.as_ref().filter(|_| self.isolation.is_fixed()).map(Snapshot::time)
    }

    /// Like [`OpenTransaction::scan`], but shows what is committed now, whatever the isolation
    /// level.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn scan_newest(
        &mut self,
        table: TableId,
        range: &KeyRange,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), OpenError> {
        let fixed = self.snapshot.take();
        let scanned = self.scan_as(Sees::Newest, table, range, Direction::Forward, visit).await;
        if let Some(fixed) = fixed {
            self.end_snapshot();
            self.snapshot = Some(fixed);
        }
        scanned
    }

    /// To be called after rows were locked. Under READ COMMITTED, later reads see what was
    /// committed until now. Other levels keep their snapshot, and [`OpenTransaction::get_locked`]
    /// reports changes.
    pub fn look_again(&mut self) {
        self.end_newest();
        if !self.isolation.is_fixed() && !self.workspace.has_view() {
            self.end_snapshot();
        }
    }

    /// Shows the newest version of a row that the transaction has locked, with its own writes.
    ///
    /// # Errors
    /// [`OpenError::Changed`] under REPEATABLE READ if it changed after the snapshot.
    pub async fn get_locked(
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
        if self.isolation.is_fixed() {
            self.reads(true).await?;
        }
        let found = self.get_newest(table, key, &mut newest).await?;
        if self.ordered.has(self.gateway.router(), table) {
            let newest = self.newest.as_ref().map(Snapshot::time).expect("it was just read");
            let (at, span) = fused::span_of(&self.gateway, table, key, found);
            self.read_bytes += self.ordered.keep(newest, at, span, usize::from(found.exists));
            self.ordered.note_place((table, key.clone()), found);
        }
        if self.isolation.is_fixed() {
            let (snapshot, gateway) = self.reads(true).await?;
            let was = fused::get(snapshot, gateway, (table, key), |_, _| {}).await?;
            if base.is_some_and(|base| base > snapshot.time()) || was.exists != base.is_some() {
                return Err(OpenError::Changed);
            }
            keep_found(self, table, key, was);
        }
        Ok(Locked { exists: base.is_some(), base: Expect::Version(base) })
    }

    /// Writes a row (`None` deletes it) that was locked and read with
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
        if self.ordered.has(self.gateway.router(), table)
            && row.as_ref().is_some_and(|row| site_of(row).is_some())
        {
            return Err(OpenError::LikeStub);
        }
        self.workspace.put(table, key, base, row);
        if self.workspace.bytes() > WORKSPACE_BYTES_MAX {
            return Err(OpenError::TooLarge);
        }
        Ok(())
    }

    /// Sets a savepoint.
    pub fn savepoint(&mut self) -> Savepoint {
        Savepoint { workspace: self.workspace.mark(), locked: self.locked.len() }
    }

    /// Drops all savepoints with their undo lists. The caller does not roll back to one any more.
    pub fn forget_savepoints(&mut self) {
        self.workspace.forget_marks();
    }

    /// Undoes the writes since the savepoint, and releases the locks since then.
    pub fn back_to(&mut self, savepoint: Savepoint) {
        self.workspace.back_to(savepoint.workspace);
        let since = self.locked.split_off(savepoint.locked);
        self.let_go(since);
    }

    /// From here on its client is acknowledged without waiting for the disk. This holds for its
    /// reads and for a commit at one site. A commit over several sites waits nevertheless.
    pub fn commit_asynchronously(&mut self) {
        self.is_asynchronous = true;
    }

    /// Waits until all that was read is durable, so that it can be shown to the client.
    ///
    /// # Errors
    /// [`Error`], if a log has failed.
    pub async fn until_durable(&mut self) -> Result<(), OpenError> {
        if self.is_asynchronous {
            return Ok(());
        }
        let transport = self.gateway.transport();
        self.seen.until_durable(transport, |_| false).await?;
        for snapshot in [&mut self.snapshot, &mut self.newest].into_iter().flatten() {
            snapshot.until_durable(transport).await?;
        }
        Ok(())
    }

    /// Makes all writes visible at one time, and durable. Returns where it ran, or `None` if there
    /// were no writes.
    ///
    /// # Errors
    /// [`OpenError::Changed`] if a row that it writes has another version than the one that it has
    /// read. [`OpenError::ReadChanged`] if that is true of a row that a serializable transaction
    /// has only read. Nothing was written then, unless the error [is unknown](Error::is_unknown).
    pub async fn commit(mut self) -> Result<Option<Ran>, OpenError> {
        self.end_snapshot();
        self.end_newest();
        check_switches(&self)?;
        if is_to_be_ordered(&self) {
            return Box::pin(commit_in_order(self)).await;
        }
        match self.workspace.is_empty() {
            true => self.end_reading().await.map(|()| None),
            // The future of a commit has a size of kilobytes. In a box, it does not enlarge that of
            // transactions that only read.
            false => Box::pin(self.commit_writes()).await.map(Some),
        }
    }

    async fn end_reading(&mut self) -> Result<(), OpenError> {
        if let Some(heard) = self.noted.heard() {
            self.gateway.router().hear(&self.session, self.noted.ticket, heard);
        }
        let cancel = self.cancel.clone();
        let over = |waker: &Waker| cancel.poll_over(waker);
        unless(&over, self.until_durable()).await.map_err(OpenError::Canceled)?
    }

    async fn commit_writes(mut self) -> Result<Ran, OpenError> {
        let gateway = self.gateway.clone();
        let cancel = self.cancel.clone();
        let over = |waker: &Waker| cancel.poll_over(waker);
        gateway.check(self.owner)?;
        self.session.has_seen(gateway.router().latest());
        if self.keeps_reads() {
            // Its commit time is after all commits that were acknowledged until now, whatever
            // happens next to the rows that it has read.
            self.session.has_seen(gateway.present_everywhere().await);
        }
        let (reads, writes) = (&self.reads, self.workspace.writes());
        let footprint = footprint(gateway.router(), writes, reads);
        if !self.is_asynchronous {
            // A durable commit may not depend on reads that a crash could undo. Reads at a site
            // that logs the commit precede it in the same log, unless the site has restarted since
            // the reads: that is possible where it is in another process.
            let logged = logged_at(&gateway.router().routing_table(), &footprint);
            let transport = gateway.transport();
            let is_logged_after = |site| logged.contains(site) && transport.drop_revokes(site);
            let durable = self.seen.until_durable(transport, is_logged_after);
            unless(&over, durable).await.map_err(OpenError::Canceled)??;
        }
        // A client that was disconnected during the wait may have got the lock of another such
        // client. It fails as well.
        if let Some(why) = cancel.over() {
            return Err(OpenError::Canceled(why));
        }
        // Row locks are released at publication, before the commit is durable. A later reader of
        // its rows waits for the same log before its own client is acknowledged. So a contended row
        // is locked for the length of statements, not of a disk sync. In this order, so that the
        // next holder of a lock takes a snapshot that includes the commit.
        //
        // If all rows are new, their locks are kept: no other transaction wants them yet, and if
        // the answer is lost, they can show the outcome.
        let (owner, locked, keeps_rows) = (self.owner, &mut self.locked, only_inserts(writes));
        let kept = &self.kept;
        let witness = &self.witness;
        if let Some(witness) = witness {
            witness.promise(write(&Promise::of(reads, writes)));
            let gone_ahead = poll_fn(|cx| witness.poll_go(cx.waker()));
            unless(&over, gone_ahead).await.map_err(OpenError::Canceled)?;
        }
        let mut published = |time| {
            gateway.router().has_committed(time);
            witness.iter().for_each(|witness| witness.published(time));
            let is_new = |(table, key): &mut (TableId, Key)| {
                writes.get(table).is_some_and(|rows| rows.contains_key(key))
            };
            let mut released: Vec<_> = match keeps_rows {
                true => locked.extract_if(.., |place| !is_new(place)).collect(),
                false => std::mem::take(locked),
            };
            released.retain(|place| !kept.contains(place));
            gateway.release(owner, &released);
        };
        let is_asynchronous = self.is_asynchronous;
        let body = match reads.is_empty() {
            true => Body::Writes(writes),
            false => Body::Validated { reads, writes },
        };
        let seat = self.seat;
        let request = Request { is_asynchronous, seat, ..Request::new(&footprint, body) };
        // A shutdown waits for a commit that is under way, and does not cancel it.
        let over = |waker: &Waker| match cancel.poll_over(waker) {
            Poll::Ready(CancelReason::Shutdown) => Poll::Pending,
            over => over,
        };
        let session = &mut self.session;
        let Reads { ticket, is_wanted, .. } = self.noted;
        let call = Call { ticket, is_wanted, before: self.noted.heard(), over: &over };
        let commit = Commit { gateway: &gateway, session, call, writes };
        let ran = match commit.until_known(request, &mut published).await {
            Ok(ran) => ran,
            Err(NotCommitted::Undone) => return Err(OpenError::Undone),
            Err(NotCommitted::Because(error)) => {
                if error.is_unknown() {
                    gateway.note_unknown();
                }
                return Err(refused(error, reads));
            }
        };
        gateway.count(ran.place);
        // The reads at sites of this process that log the commit are durable with it.
        Ok(ran)
    }

    /// Adds locked rows, and whether they existed, to the reads that are validated at the commit,
    /// if they [may have been misread](Self::may_have_misread).
    pub(crate) fn check_locked<'k>(
        &mut self,
        table: TableId,
        rows: impl Iterator<Item = (&'k Key, bool)>,
    ) {
        if !self.may_have_misread() {
            return;
        }
        self.checks_reads = true;
        for (key, was_there) in rows {
            self.keep_read(table, || Span::Key(key.clone()), usize::from(was_there));
        }
    }

    /// True if rows may differ from what was read, though they are locked:
    /// - There was a commit with an unknown outcome. Its site may be ahead of the clock, so the
    ///   rows may have been read as they were before it. The flag is set before its locks are
    ///   released, so a transaction that gets one of them sees the flag.
    /// - A site is in another process. A restart may have lost changes that it had shown before
    ///   they were durable.
    pub(crate) fn may_have_misread(&self) -> bool {
        self.gateway.has_unknown() || self.gateway.has_sites_elsewhere()
    }

    /// When a read began, if it is to be reported to the strategy.
    fn note(&mut self, begun: Option<Time>, table: TableId, span: impl Fn() -> Span, rows: usize) {
        if let Some(begun) = begun {
            self.noted.note(table, span(), rows, begun, self.gateway.transport().now());
        }
    }

    /// True if its reads must be valid at its commit.
    fn keeps_reads(&self) -> bool {
        self.isolation == Isolation::Serializable || self.checks_reads
    }

    /// Adds a span, with the number of rows read in it, to the read set.
    fn keep_read(&mut self, table: TableId, span: impl FnOnce() -> Span, rows: usize) {
        let (keeps, is_ordered) =
            (self.keeps_reads(), self.ordered.has(self.gateway.router(), table));
        if !keeps && !is_ordered {
            return;
        }
        let (at, span) = (self.snapshot_time().expect("it has just read"), span());
        if is_ordered {
            self.read_bytes += self.ordered.keep(at, table, span.clone(), rows);
        }
        if keeps {
            self.read_bytes += self.reads.add(at, table, span, rows as u64);
        }
    }

    /// Shows a row and its commit time, as of now or of a time since the last row was locked.
    async fn get_newest(
        &mut self,
        table: TableId,
        key: &Key,
        mut visit: impl FnMut(&[u8], Time),
    ) -> Result<Found, OpenError> {
        leave(self, |near| near.has_key(table, key))?;
        for look in 0..LOOKS_MAX {
            let newest = match &mut self.newest {
                Some(newest) => newest,
                none => none.insert(Snapshot::take_near(&self.gateway, self.near.as_ref()).await?),
            };
            let at = (table, key);
            if let Some(found) = fused::look(newest, &self.gateway, at, 0, &mut visit).await? {
                return Ok(found);
            }
            // Its master has changed since, or has just restarted, and its history begins later.
            newest.pause(&self.gateway, table, key, look).await;
            self.end_newest();
        }
        Err(Error::Gone.into())
    }

    /// The snapshot to read from. A fixed one is used for long, so it is pinned first.
    async fn reads(
        &mut self,
        is_fixed: bool,
    ) -> Result<(&mut Snapshot<T>, &Gateway<T>), OpenError> {
        self.gateway.check(self.owner)?;
        lock_contended(self).await?;
        let mut snapshots = 0;
        loop {
            let snapshot = match &mut self.snapshot {
                Some(snapshot) => snapshot,
                none => none.insert(Snapshot::take_near(&self.gateway, self.near.as_ref()).await?),
            };
            if !is_fixed || snapshot.is_pinned() {
                break;
            }
            match snapshot.pin(&self.gateway).await {
                Ok(()) => break,
                Err(Error::Gone) if snapshots < SNAPSHOTS_MAX => snapshots += 1,
                Err(error) => {
                    self.end_snapshot();
                    return Err(error.into());
                }
            }
            self.end_snapshot();
        }
        Ok((self.snapshot.as_mut().expect("it was just taken"), &self.gateway))
    }

    /// Ends the snapshot if nothing was read in it yet and the statement may see another time.
    /// Returns true then.
    fn takes_another(&mut self, snapshots: &mut usize) -> bool {
        let is_fresh = self.snapshot.as_ref().is_some_and(Snapshot::is_fresh);
        let takes = is_fresh && *snapshots < SNAPSHOTS_MAX && !self.isolation.is_fixed();
        if takes {
            *snapshots += 1;
            self.end_snapshot();
        }
        takes
    }

    fn end_snapshot(&mut self) {
        let ended = self.snapshot.take();
        ended.into_iter().for_each(|snapshot| snapshot.end(&self.gateway, &mut self.seen));
    }

    fn end_newest(&mut self) {
        let ended = self.newest.take();
        ended.into_iter().for_each(|snapshot| snapshot.end(&self.gateway, &mut self.seen));
    }
}

impl<T: Transport> SharedSnapshot<T> {
    /// The snapshot of a transaction's current statement.
    ///
    /// # Errors
    /// [`OpenError`], if it cannot be pinned.
    pub async fn of(txn: &mut OpenTransaction<T>) -> Result<SharedSnapshot<T>, OpenError> {
        let (snapshot, _) = txn.reads(true).await?;
        Ok(snapshot.shared().expect("it is pinned"))
    }

    /// All statements of a transaction read from it.
    ///
    /// # Panics
    /// If the transaction has read already, or if each of its statements has a snapshot of its own.
    pub fn lend(&self, txn: &mut OpenTransaction<T>) {
        assert!(txn.isolation.is_fixed() && txn.snapshot.is_none(), "it has its own snapshot");
        txn.snapshot = Some(Snapshot::of(self.clone()));
    }
}

impl<T: Transport> Drop for OpenTransaction<T> {
    fn drop(&mut self) {
        self.end_snapshot();
        self.end_newest();
        let locked = std::mem::take(&mut self.locked);
        self.let_go(locked);
    }
}

/// Called before a read: unless that is of rows that are near, snapshots are of all rows from now
/// on.
///
/// # Errors
/// [`Error::Gone`] if the statement has read from another snapshot.
fn leave<T: Transport>(
    txn: &mut OpenTransaction<T>,
    is_near: impl FnOnce(&Near) -> bool,
) -> Result<(), Error> {
    if txn.near.as_ref().is_none_or(is_near) {
        return Ok(());
    }
    txn.near = None;
    txn.end_newest();
    let is_used = txn.snapshot.as_ref().is_some_and(|snapshot| !snapshot.is_fresh());
    txn.end_snapshot();
    if is_used { Err(Error::Gone) } else { Ok(()) }
}

/// Why a commit was refused, as an error of its transaction.
fn refused(error: Error, reads: &ReadSet) -> OpenError {
    match error {
        Error::Abort(Abort::Changed { .. }) => OpenError::Changed,
        Error::Abort(Abort::ReadChanged { table, span }) => OpenError::ReadChanged { table, span },
        // The table was dropped since.
        Error::Refused(Refused::UnknownTable(table)) if reads.has(table) => {
            OpenError::ReadChanged { table, span: Span::Range(KeyRange::all()) }
        }
        error => error.into(),
    }
}

/// The part of a range that was read, if the scan ended with the row `last`.
fn up_to(range: &KeyRange, way: Direction, last: Option<Key>) -> KeyRange {
    match (way, last) {
        (_, None) => range.clone(),
        (Direction::Forward, Some(last)) => {
            KeyRange::new(range.start.clone(), Some(last.successor()))
        }
        (Direction::Backward, Some(last)) => KeyRange::new(last, range.end.clone()),
    }
}

/// The state of a locked row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Locked {
    /// True if it exists, as the transaction sees it.
    pub exists: bool,
    /// The commit of its newest version, for [`OpenTransaction::put`].
    pub base: Expect,
}
