//! The state that the open transactions of a process share, and their waits.
//!
//! A transaction that waits for a row is a future. The release of rows wakes exactly the
//! transactions that the [lock table](super::locks) names. Another thread ends a wait with the
//! client's [`CancelToken`], and gives a [`CancelReason`]. A wait that is dropped leaves no trace
//! in the lock table.

use super::history::History;
use super::locks::{Asked, LockMode, LockShown, Owner, RowLocks};
use super::near::Near;
use super::transaction::{Isolation, OpenError, OpenTransaction};
use crate::conductor::link_of;
use crate::error::Error;
use crate::gateways::link::{Link, owner, seat_of};
use crate::gateways::messages::Seat;
use crate::router::Router;
use crate::transport::Transport;
use foldhash::fast::FixedState;
use futures_util::task::AtomicWaker;
use hashbrown::HashMap;
use isomer_design::{Key, KeyRange, SITES_MAX, SiteId, TableId, Time};
use isomer_site::Durations;
use isomer_strategy::Place;
use parking_lot::Mutex;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::task::{Poll, Waker};

/// The entry point of open transactions.
pub struct Gateway<T> {
    router: Arc<Router<T>>,
    pub(super) history: History,
    shared: Mutex<Shared>,
    next_owner: AtomicU64,
    /// True once there was a commit with an unknown outcome.
    unknown: AtomicBool,
    /// For each site: commits there, and commits over several sites that it coordinated.
    commits: Vec<[AtomicU64; 2]>,
    /// How long transactions waited in the lock table of this process.
    lock_waits: Durations,
}

#[derive(Default)]
struct Shared {
    locks: RowLocks,
    waiters: HashMap<Owner, Waker, FixedState>,
}

/// Why a client's waits are canceled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum CancelReason {
    /// A cancel request.
    Asked = 1,
    /// The statement timeout.
    StatementTime,
    /// The transaction timeout.
    TransactionTime,
    /// The lock timeout.
    LockTime,
    /// The database shuts down.
    Shutdown,
    /// The client is not allowed to stay connected.
    SentAway,
    /// The client has disconnected.
    Gone,
    /// Another session has ended this one.
    Terminated,
}

impl CancelReason {
    /// True if the session has to end.
    pub fn is_final(self) -> bool {
        use CancelReason::{Gone, SentAway, Shutdown, Terminated};
        matches!(self, Shutdown | SentAway | Gone | Terminated)
    }
}

/// Cancels the waits of a client. A client has one wait at a time.
#[derive(Default)]
pub struct CancelToken {
    /// Zero, or a [`CancelReason`].
    over: AtomicU8,
    /// The lock timeout in milliseconds; 0: none.
    lock_ms: AtomicU64,
    /// The client's newest transaction.
    owner: AtomicU64,
    /// True while it waits for a lock.
    waits: AtomicBool,
    waker: AtomicWaker,
    /// The row of an ordered table that another client had written when its last commit came.
    contended: Mutex<Option<(TableId, Key)>>,
}

impl CancelToken {
    pub(super) fn set_contended(&self, place: Option<(TableId, Key)>) {
        *self.contended.lock() = place;
    }

    pub(super) fn take_contended(&self) -> Option<(TableId, Key)> {
        self.contended.lock().take()
    }

    /// The reason, if the client's waits are canceled.
    pub fn over(&self) -> Option<CancelReason> {
        use CancelReason::{
            Asked, Gone, LockTime, SentAway, Shutdown, StatementTime, Terminated, TransactionTime,
        };
        let all =
            [Asked, StatementTime, TransactionTime, LockTime, Shutdown, SentAway, Gone, Terminated];
        let over = self.over.load(Ordering::SeqCst);
        all.into_iter().find(|why| *why as u8 == over)
    }

    /// Cancels the current wait of a client, and later ones until [`renew`](CancelToken::renew).
    pub fn end(&self, why: CancelReason) {
        self.over.store(why as u8, Ordering::SeqCst);
        self.waker.wake();
    }

    /// Allows waits again, unless the reason [is final](CancelReason::is_final).
    pub fn renew(&self) {
        let stays = |over| (over < CancelReason::Shutdown as u8).then_some(0);
        let _ = self.over.fetch_update(Ordering::SeqCst, Ordering::SeqCst, stays);
    }

    /// Sets the lock timeout in milliseconds; 0: none. The runtime that has a clock enforces it.
    pub fn set_lock_limit(&self, limit_ms: u64) {
        self.lock_ms.store(limit_ms, Ordering::Relaxed);
    }

    /// The client's newest transaction; 0 if it had none.
    pub fn owner(&self) -> Owner {
        self.owner.load(Ordering::Relaxed)
    }

    /// True while the client waits for a lock.
    pub fn waits_for_lock(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }

    pub(crate) fn set_waiting(&self, waits: bool) {
        self.waits.store(waits, Ordering::Relaxed);
    }

    pub(crate) fn lock_limit_ms(&self) -> u64 {
        self.lock_ms.load(Ordering::Relaxed)
    }

    /// Ready when the client's waits are canceled.
    pub async fn ended(&self) -> CancelReason {
        poll_fn(|cx| self.poll_over(cx.waker())).await
    }

    /// Ready when the client's waits are canceled. Until then it keeps this waker, and no other.
    pub(crate) fn poll_over(&self, waker: &Waker) -> Poll<CancelReason> {
        // In this order, so that a cancel after the check finds the waker.
        self.waker.register(waker);
        self.over().map_or(Poll::Pending, Poll::Ready)
    }
}

impl<T: Transport> Gateway<T> {
    /// A gateway to the sites of a router.
    pub fn new(router: Arc<Router<T>>) -> Arc<Gateway<T>> {
        Arc::new(Gateway {
            router,
            history: History::new(),
            shared: Mutex::default(),
            next_owner: AtomicU64::new(1),
            unknown: AtomicBool::new(false),
            commits: (0..=SITES_MAX).map(|_| Default::default()).collect(),
            lock_waits: Durations::default(),
        })
    }

    /// The way to the conductor, if that is in another process.
    pub(super) fn link(&self) -> Option<&Arc<Link>> {
        link_of(self.router.conductor())
    }

    /// An error if the gateway may not serve a transaction, because its seat has ended.
    pub(super) fn check(&self, owner: Owner) -> Result<(), Error> {
        match self.link() {
            Some(link) => link.check(owner, self.transport().now()),
            // It began while the conductor was in another process, which kept its locks.
            None if seat_of(owner) != 0 => Err(Error::NoSeat),
            None => Ok(()),
        }
    }

    /// The router.
    pub fn router(&self) -> &Router<T> {
        &self.router
    }

    /// Renews the lease by which sites keep history for snapshots. The runtime of the gateway calls
    /// this every few milliseconds, as it calls [`Site::tick`](isomer_site::Site::tick).
    pub async fn renew(&self) {
        let (routing, now) = (self.router.routing_table(), self.transport().now());
        self.history.renew(self.transport(), &routing, now).await;
    }

    pub(super) fn transport(&self) -> &T {
        self.router.transport()
    }

    /// Begins a transaction. `cancel` ends its waits.
    pub fn begin(
        self: &Arc<Gateway<T>>,
        isolation: Isolation,
        cancel: Arc<CancelToken>,
    ) -> OpenTransaction<T> {
        let seat = self.seat();
        let owner = owner(seat, self.next_owner.fetch_add(1, Ordering::Relaxed));
        cancel.owner.store(owner, Ordering::Relaxed);
        OpenTransaction::new(self.clone(), (owner, seat), isolation, cancel)
    }

    /// Its seat at the conductor; 0 if that is here.
    pub(super) fn seat(&self) -> Seat {
        self.link().map_or(0, |link| link.seat())
    }

    /// The number of locked rows.
    pub fn locked_rows(&self) -> usize {
        self.shared.lock().locks.len()
    }

    /// The number of commits of open transactions at a site, and of those over several sites that
    /// it coordinated.
    pub fn commits(&self, site: SiteId) -> [u64; 2] {
        self.commits[usize::from(site.0)].each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// How long transactions waited in the lock table of this process: those of all gateways at the
    /// process with the conductor, and none elsewhere.
    pub fn lock_waits(&self) -> &Durations {
        &self.lock_waits
    }

    pub(super) fn count(&self, place: Place) {
        let way = usize::from(matches!(place, Place::Distributed { .. }));
        self.commits[usize::from(place.site().0)][way].fetch_add(1, Ordering::Relaxed);
    }

    /// Notes a commit with an unknown outcome. To be called before its row locks are released.
    pub(super) fn note_unknown(&self) {
        self.unknown.store(true, Ordering::SeqCst);
    }

    /// True if a site may restart while this process keeps running.
    pub(super) fn has_sites_elsewhere(&self) -> bool {
        let design = self.router().routing_table();
        design.sites().iter().any(|site| !self.transport().drop_revokes(site))
    }

    /// True if there ever was a commit with an unknown outcome.
    pub(super) fn has_unknown(&self) -> bool {
        self.unknown.load(Ordering::SeqCst)
    }

    /// A time that includes all commits that this gateway has acknowledged until now.
    pub fn present(&self) -> Time {
        self.router.present()
    }

    /// A time that includes all commits that any gateway has acknowledged until now.
    pub(super) async fn present_everywhere(&self) -> Time {
        let conductor = self.router.conductor();
        match self.link().is_some() || conductor.news.is_read() {
            true => self.transport().latest().await.0.max(self.present()),
            false => self.present(),
        }
    }

    /// A time that includes all commits of these rows that any gateway has acknowledged until now,
    /// if their masters are all in this process: see [`super::near`].
    pub(super) fn present_near(&self, near: &Near) -> Option<Time> {
        let (routing, transport) = (self.router.routing_table(), self.transport());
        let mut present = Time::ZERO;
        for (table, range) in &*near.spans {
            let mut start = range.start.clone();
            loop {
                let (placement, next) = routing.stretch(*table, &start)?;
                let next = next.filter(|next| range.end.as_ref().is_none_or(|end| *next < end));
                let end = next.cloned().or_else(|| range.end.clone());
                let part = KeyRange::new(start, end);
                present = present.max(transport.present_of(placement.master, *table, &part)?);
                match next {
                    Some(next) => start = next.clone(),
                    None => break,
                }
            }
        }
        Some(present.max(self.present()))
    }

    /// Locks a row, and waits for it if `waits`. Returns true if the owner did not hold it before.
    pub(super) async fn lock(
        &self,
        owner: Owner,
        place: (TableId, Key),
        mode: LockMode,
        waits: bool,
        cancel: &CancelToken,
    ) -> Result<bool, OpenError> {
        self.check(owner)?;
        match self.link() {
            Some(link) => link.lock(self.transport(), (owner, place), mode, waits, cancel).await,
            None => self.lock_here(owner, place, mode, waits, cancel).await,
        }
    }

    /// [`Gateway::lock`] in the lock table of this process.
    pub(crate) async fn lock_here(
        &self,
        owner: Owner,
        place: (TableId, Key),
        mode: LockMode,
        waits: bool,
        cancel: &CancelToken,
    ) -> Result<bool, OpenError> {
        let (asked, granted) = {
            let locks = &mut self.shared.lock().locks;
            let asked = locks.ask(owner, place, mode, waits);
            let granted = matches!(asked, Asked::Waits(_)).then(|| locks.waits_anew(owner));
            (asked, granted.flatten())
        };
        match asked {
            Asked::Granted(is_new) => Ok(is_new),
            Asked::Deadlock(circle) => Err(OpenError::Deadlock(circle)),
            Asked::Waits(_) if !waits => Err(OpenError::Locked),
            Asked::Waits(_) => self.wait(owner, granted, cancel).await.map(|()| true),
        }
    }

    /// Waits until the current holders of a row's lock have released it.
    pub(super) async fn wait_for_holders(
        &self,
        owner: Owner,
        place: (TableId, Key),
        cancel: &CancelToken,
    ) -> Result<(), OpenError> {
        self.check(owner)?;
        match self.link() {
            Some(link) => link.wait_for_holders(self.transport(), owner, place, cancel).await,
            None => self.wait_for_holders_here(owner, place, cancel).await,
        }
    }

    /// [`Gateway::wait_for_holders`] in the lock table of this process.
    pub(crate) async fn wait_for_holders_here(
        &self,
        owner: Owner,
        place: (TableId, Key),
        cancel: &CancelToken,
    ) -> Result<(), OpenError> {
        let asked = self.shared.lock().locks.wait_for_holders(owner, place);
        match asked {
            Asked::Granted(_) => Ok(()),
            Asked::Deadlock(circle) => Err(OpenError::Deadlock(circle)),
            Asked::Waits(_) => self.wait(owner, None, cancel).await,
        }
    }

    /// The locks of the places that `is_wanted` accepts, and of each place with a waiting
    /// transaction.
    pub fn locks(&self, is_wanted: impl Fn(TableId, &Key) -> bool) -> Vec<LockShown> {
        self.shared.lock().locks.shown(is_wanted)
    }

    /// The transactions that block this one.
    pub fn blockers(&self, owner: Owner) -> Vec<Owner> {
        self.shared.lock().locks.blockers(owner)
    }

    /// The number of transactions that wait for others.
    pub fn waiting(&self) -> usize {
        match self.link() {
            Some(link) => link.waiting(),
            None => self.shared.lock().locks.waiting(),
        }
    }

    /// True if a transaction waits for others.
    pub fn is_waiting(&self, owner: Owner) -> bool {
        match self.link() {
            Some(link) => link.is_waiting(owner),
            None => self.shared.lock().locks.is_waiting(owner),
        }
    }

    /// The places that some owners hold in the lock table of this process.
    pub(crate) fn held_by(
        &self,
        is_wanted: impl Fn(Owner) -> bool,
    ) -> Vec<(Owner, Vec<(TableId, Key)>)> {
        self.shared.lock().locks.held_by(is_wanted)
    }

    pub(super) fn release(&self, owner: Owner, places: &[(TableId, Key)]) {
        if places.is_empty() {
            return;
        }
        if let Some(link) = self.link() {
            link.release(owner, places);
            return;
        }
        let mut shared = self.shared.lock();
        let woken = shared.locks.release(owner, places);
        shared.wake(&woken);
    }

    /// Transfers locks from one owner to another, which holds none of them.
    pub fn hand_over(&self, from: Owner, to: Owner, places: &[(TableId, Key)]) {
        match self.link() {
            Some(link) => link.hand_over(from, to, places),
            None => self.hand_over_here(from, to, places),
        }
    }

    /// [`Gateway::hand_over`] in the lock table of this process.
    pub(crate) fn hand_over_here(&self, from: Owner, to: Owner, places: &[(TableId, Key)]) {
        self.shared.lock().locks.hand_over(from, to, places);
    }

    /// Releases locks that an owner has kept beyond its transaction.
    pub fn give_back(&self, owner: Owner, places: &[(TableId, Key)]) {
        self.release(owner, places);
    }

    /// Waits for an owner that is in the lock table's queue. `granted` is the place that it will
    /// hold afterwards, and did not before.
    async fn wait(
        &self,
        owner: Owner,
        granted: Option<(TableId, Key)>,
        cancel: &CancelToken,
    ) -> Result<(), OpenError> {
        let mut waiting = Waiting { shared: &self.shared, owner, granted, cancel };
        cancel.set_waiting(true);
        let begun = self.transport().now();
        let waited = poll_fn(|cx| {
            let ended = cancel.poll_over(cx.waker());
            let mut shared = self.shared.lock();
            if !shared.locks.is_waiting(owner) {
                // From here on the owner knows of the grant.
                waiting.granted = None;
                return Poll::Ready(Ok(()));
            }
            shared.waiters.insert(owner, cx.waker().clone());
            ended.map(|why| Err(OpenError::Canceled(why)))
        })
        .await;
        let ended = self.transport().now();
        self.lock_waits.add(ended.0.saturating_sub(begun.0) / 1000);
        waited
    }
}

/// An owner that waits, until this is dropped.
struct Waiting<'g> {
    shared: &'g Mutex<Shared>,
    owner: Owner,
    cancel: &'g CancelToken,
    /// A place that the owner may have been granted without knowing. If its wait ends just then, it
    /// would hold the place for ever.
    granted: Option<(TableId, Key)>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.cancel.set_waiting(false);
        let mut shared = self.shared.lock();
        shared.waiters.remove(&self.owner);
        let woken = match self.granted.take().filter(|_| !shared.locks.is_waiting(self.owner)) {
            Some(place) => shared.locks.release(self.owner, [&place]),
            None => shared.locks.give_up(self.owner),
        };
        shared.wake(&woken);
    }
}

impl Shared {
    fn wake(&self, owners: &[Owner]) {
        owners.iter().filter_map(|owner| self.waiters.get(owner)).for_each(Waker::wake_by_ref);
    }
}
