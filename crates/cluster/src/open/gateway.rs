//! What the open transactions of a process share, and how one of them waits.
//!
//! A transaction that has to wait for a row parks its thread on a condition of its own; whoever
//! releases rows wakes exactly those that the [lock table](super::locks) names. A [`Patience`] is the
//! handle by which somebody else ends the waiting, and says why: an [`Impatience`].
//!
//! **Latest.** The time of the last commit that was made here. Snapshots are not taken before
//! it, so a client sees what any other client was told of: sessions need not carry times around.

use super::locks::{Asked, LockMode, Owner, RowLocks};
use super::transaction::{Isolation, OpenError, OpenTransaction};
use crate::database::Database;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use isomer_design::{Key, SITES_MAX, SiteId, TableId, Time};
use isomer_strategy::Place;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

/// Where open transactions meet.
pub struct Gateway {
    database: Database,
    shared: Mutex<Shared>,
    next_owner: AtomicU64,
    latest: AtomicU64,
    /// How often tables are closed to readers.
    closed: AtomicUsize,
    /// For each site: commits there, and commits over several sites that it coordinated.
    commits: Vec<[AtomicU64; 2]>,
}

#[derive(Default)]
struct Shared {
    locks: RowLocks,
    waiters: HashMap<Owner, Arc<Patience>, FixedState>,
}

/// Why a client waits no longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Impatience {
    /// It was asked to stop.
    Asked = 1,
    /// The time of its statement is over.
    StatementTime,
    /// The time of its transaction is over.
    TransactionTime,
    /// It has waited for a row as long as it wanted.
    LockTime,
    /// The database is going down.
    Shutdown,
    /// It may not be here any more.
    SentAway,
}

impl Impatience {
    /// True if the client has to go, whatever it does.
    pub fn is_final(self) -> bool {
        matches!(self, Impatience::Shutdown | Impatience::SentAway)
    }
}

/// How long a client is willing to wait: until it, or somebody for it, says that it is not.
#[derive(Default)]
pub struct Patience {
    /// Zero, or an [`Impatience`].
    over: AtomicU8,
    /// The longest wait for one row; zero: any.
    lock_ms: AtomicU64,
    condition: Condvar,
    /// Who waits for something else than a row.
    waker: Mutex<Option<Waker>>,
}

impl Patience {
    /// Why the client waits no longer, if so.
    pub fn over(&self) -> Option<Impatience> {
        use Impatience::{Asked, LockTime, SentAway, Shutdown, StatementTime, TransactionTime};
        let all = [Asked, StatementTime, TransactionTime, LockTime, Shutdown, SentAway];
        let over = self.over.load(Ordering::Relaxed);
        all.into_iter().find(|why| *why as u8 == over)
    }

    /// Ready once the client waits no longer; until then its waker is kept, and no other.
    pub(crate) fn poll_over(&self, waker: &Waker) -> Poll<Impatience> {
        if self.over().is_none() {
            *self.waker.lock() = Some(waker.clone());
        }
        self.over().map_or(Poll::Pending, Poll::Ready)
    }

    /// The client is patient again, unless it [has to go](Impatience::is_final).
    pub fn renew(&self) {
        let stays = |over| (over < Impatience::Shutdown as u8).then_some(0);
        let _ = self.over.fetch_update(Ordering::Relaxed, Ordering::Relaxed, stays);
    }

    /// The client waits for a row no longer than this, in milliseconds; zero: as long as it takes.
    pub fn set_lock_limit(&self, limit_ms: u64) {
        self.lock_ms.store(limit_ms, Ordering::Relaxed);
    }
}

impl Gateway {
    /// A gateway to a database.
    pub fn new(database: Database) -> Arc<Gateway> {
        Arc::new(Gateway {
            database,
            shared: Mutex::default(),
            next_owner: AtomicU64::new(1),
            latest: AtomicU64::new(0),
            closed: AtomicUsize::new(0),
            commits: (0..=SITES_MAX).map(|_| Default::default()).collect(),
        })
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Begins a transaction. `patience` ends its waits.
    pub fn begin(
        self: &Arc<Gateway>,
        isolation: Isolation,
        patience: Arc<Patience>,
    ) -> OpenTransaction {
        let owner = self.next_owner.fetch_add(1, Ordering::Relaxed);
        OpenTransaction::new(self.clone(), owner, isolation, patience)
    }

    /// Ends the patience of a client, who may be waiting.
    pub fn lose_patience(&self, patience: &Patience, why: Impatience) {
        patience.over.store(why as u8, Ordering::Relaxed);
        // With the locks held, so that it is not just about to wait.
        let shared = self.shared.lock();
        patience.condition.notify_all();
        drop(shared);
        let waker = patience.waker.lock().take();
        waker.into_iter().for_each(Waker::wake);
    }

    /// Waits for nothing but time.
    ///
    /// # Errors
    /// [`OpenError::Canceled`] if the client's patience ends before.
    pub fn pause(&self, patience: &Patience, time: Duration) -> Result<(), OpenError> {
        let mut shared = self.shared.lock();
        let waits = |_: &mut Shared| patience.over().is_none();
        patience.condition.wait_while_for(&mut shared, waits, time);
        patience.over().map_or(Ok(()), |why| Err(OpenError::Canceled(why)))
    }

    /// How many rows are locked.
    pub fn locked_rows(&self) -> usize {
        self.shared.lock().locks.len()
    }

    /// How many open transactions have committed at a site, and how many over several sites, coordinated
    /// by it.
    pub fn commits(&self, site: SiteId) -> [u64; 2] {
        self.commits[usize::from(site.0)].each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    pub(super) fn count(&self, place: Place) {
        let way = usize::from(matches!(place, Place::Across { .. }));
        self.commits[usize::from(place.site().0)][way].fetch_add(1, Ordering::Relaxed);
    }

    /// A time at which all is seen that was committed until now.
    pub fn present(&self) -> Time {
        self.database.now().max(self.latest())
    }

    /// The time of the last commit that can be seen.
    pub(crate) fn latest(&self) -> Time {
        Time(self.latest.load(Ordering::SeqCst))
    }

    /// A commit can be seen: no snapshot is taken before it from now on.
    pub(crate) fn published(&self, time: Time) {
        self.latest.fetch_max(time.0, Ordering::SeqCst);
    }

    /// Locks a row, waiting for it if `waits`. True if the owner did not hold it before.
    pub(crate) fn lock(
        &self,
        owner: Owner,
        place: (TableId, Key),
        mode: LockMode,
        waits: bool,
        patience: &Arc<Patience>,
    ) -> Result<bool, OpenError> {
        let mut shared = self.shared.lock();
        match shared.locks.ask(owner, place, mode, waits) {
            Asked::Granted(is_new) => return Ok(is_new),
            Asked::Deadlock(circle) => return Err(OpenError::Deadlock(circle)),
            Asked::Waits(_) if !waits => return Err(OpenError::Locked),
            Asked::Waits(_) => {}
        }
        wait(&mut shared, owner, patience, patience.lock_ms.load(Ordering::Relaxed))?;
        Ok(true)
    }

    /// Waits until those who hold a row now have let go of it, however long that is.
    pub(crate) fn outlive(
        &self,
        owner: Owner,
        place: (TableId, Key),
        patience: &Arc<Patience>,
    ) -> Result<(), OpenError> {
        let mut shared = self.shared.lock();
        match shared.locks.outlive(owner, place) {
            Asked::Granted(_) => Ok(()),
            Asked::Deadlock(circle) => Err(OpenError::Deadlock(circle)),
            Asked::Waits(_) => wait(&mut shared, owner, patience, 0),
        }
    }

    /// Somebody closes tables to readers, until what is returned is dropped: readers lock what they
    /// read meanwhile.
    pub fn close_tables(self: &Arc<Gateway>) -> ClosedTables {
        self.closed.fetch_add(1, Ordering::SeqCst);
        ClosedTables { gateway: self.clone() }
    }

    /// True if somebody closes tables to readers, so that they have to ask.
    pub fn has_closed_tables(&self) -> bool {
        self.closed.load(Ordering::SeqCst) > 0
    }

    /// How many transactions wait for others.
    pub fn waiting(&self) -> usize {
        self.shared.lock().locks.waiting()
    }

    /// True if a transaction waits for others.
    pub fn is_waiting(&self, owner: Owner) -> bool {
        self.shared.lock().locks.is_waiting(owner)
    }

    pub(crate) fn release(&self, owner: Owner, places: &[(TableId, Key)]) {
        if places.is_empty() {
            return;
        }
        let mut shared = self.shared.lock();
        let woken = shared.locks.release(owner, places);
        shared.wake(&woken);
    }
}

/// Tables may be closed to readers until this is dropped.
pub struct ClosedTables {
    gateway: Arc<Gateway>,
}

impl Drop for ClosedTables {
    fn drop(&mut self) {
        self.gateway.closed.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Lets an owner wait as it has been told to; at most so long, if not zero.
fn wait(
    shared: &mut MutexGuard<'_, Shared>,
    owner: Owner,
    patience: &Arc<Patience>,
    limit_ms: u64,
) -> Result<(), OpenError> {
    shared.waiters.insert(owner, patience.clone());
    let waits = |shared: &mut Shared| shared.locks.is_waiting(owner) && patience.over().is_none();
    match limit_ms {
        0 => patience.condition.wait_while(shared, waits),
        limit_ms => {
            patience.condition.wait_while_for(shared, waits, Duration::from_millis(limit_ms));
        }
    }
    shared.waiters.remove(&owner);
    if !shared.locks.is_waiting(owner) {
        return Ok(());
    }
    let woken = shared.locks.give_up(owner);
    shared.wake(&woken);
    Err(OpenError::Canceled(patience.over().unwrap_or(Impatience::LockTime)))
}

impl Shared {
    fn wake(&self, owners: &[Owner]) {
        for patience in owners.iter().filter_map(|owner| self.waiters.get(owner)) {
            patience.condition.notify_all();
        }
    }
}
