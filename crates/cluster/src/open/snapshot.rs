//! Reading at one time, wherever the rows are.
//!
//! The time is chosen once, from the clock and the latest acknowledged commit, without asking a
//! site. Each read goes to a site that holds the row, the master first. Rows may move while a
//! transaction is open. So each read uses the current routing table, and a copy without the history
//! for the time passes the read on to the next holder.
//!
//! ```text
//!   t = max(clock, latest acknowledged commit)    open in the gateway's history
//!   get k ─▶ routing table ─▶ master s2 ─▶ read at t: its clock is raised to t first
//!                              └ got it by a copy made after t? ─▶ another holder
//!
//!   older than 1 s, or for all statements:  pinned at s1, s2, s3; closed in the gateway's history
//! ```
//!
//! The gateway's [lease](super::history) keeps the history for `t` until a site is first read. A
//! snapshot that is used for long is pinned at all sites. They can then free history between the
//! pin and the present.
//!
//! **Shared snapshots.** The pins of a snapshot may have several owners ([`SharedSnapshot`]). So
//! another transaction reads at the same time, and the history stays until the last owner ends. A
//! new pin at that time could be refused: a site accepts none before its present.
//!
//! A read does not wait for the disk. The snapshot notes the log position that it saw at each site.
//! Before a client is shown the rows, its session waits for these positions once, with
//! [`Seen::until_durable`].

use super::gateway::Gateway;
use super::near::Near;
use crate::error::Error;
use crate::transport::Transport;
use futures_util::future::join_all;
use isomer_design::{Direction, Key, KeyRange, RoutingTable, SiteId, TableId, Time};
use isomer_log::LogError;
use isomer_site::{Failure, Read, ReadSpan, SeenUpTo, VisitRow};
use isomer_store::SnapshotPin;
use smallvec::SmallVec;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The number of times that a read looks for its rows in the routing table.
pub(super) const LOOKS_MAX: usize = 64;
/// The number of attempts without a pause.
const QUICK_LOOKS: usize = 4;
/// A range is read in pieces of this number of rows, so that no piece keeps a site busy for long.
const PIECE_ROWS: usize = 4096;
/// The age in nanoseconds from which on a snapshot is pinned.
const PIN_AFTER_NS: u64 = 1_000_000_000;
/// The number of reads between two checks of the clock.
const READS_BY_CLOCK: usize = 64;

/// The pins of a snapshot, by site.
type Pins<T> = SmallVec<[(SiteId, <T as Transport>::Pin); 4]>;

/// A snapshot that several transactions can read from. The sites keep its history until it and all
/// these transactions have ended.
pub struct SharedSnapshot<T: Transport> {
    time: Time,
    pins: Arc<Pins<T>>,
}

impl<T: Transport> Clone for SharedSnapshot<T> {
    fn clone(&self) -> SharedSnapshot<T> {
        SharedSnapshot { time: self.time, pins: self.pins.clone() }
    }
}

/// A snapshot at one time. See the [module documentation](self). The owner calls
/// [`end`](Snapshot::end).
pub(super) struct Snapshot<T: Transport> {
    time: Time,
    /// Its place in the gateway's history, until it is pinned.
    open: Option<SnapshotPin>,
    /// The pins at all sites, once it is pinned.
    pins: Option<Arc<Pins<T>>>,
    /// Reads until the next check of the clock.
    reads_left: usize,
    seen: Seen,
}

/// The log positions of the sites up to which reads saw them.
#[derive(Default)]
pub(super) struct Seen {
    sites: SmallVec<[(SiteId, SeenUpTo); 4]>,
    /// All sites of reads, also those up to which nothing is to be waited for any more.
    read: SmallVec<[SiteId; 4]>,
    /// The number of rows that came from sites of other processes.
    shipped: u64,
}

impl Seen {
    /// The sites that were read.
    pub(super) fn read(&self) -> &[SiteId] {
        &self.read
    }

    /// The number of rows that came from sites of other processes.
    pub(super) fn shipped(&self) -> u64 {
        self.shipped
    }

    fn note(&mut self, site: SiteId, up_to: SeenUpTo) {
        if !self.read.contains(&site) {
            self.read.push(site);
        }
        // If the site has restarted between two reads, both positions matter.
        let same =
            |(other, seen): &&mut (SiteId, SeenUpTo)| *other == site && seen.run == up_to.run;
        match self.sites.iter_mut().find(same) {
            Some((_, seen)) => seen.position = seen.position.max(up_to.position),
            None => self.sites.push((site, up_to)),
        }
    }

    /// Waits until everything seen is as durable as the logs promise, except at sites that `but`
    /// accepts.
    ///
    /// # Errors
    /// [`Error::Gone`] if a site has lost what was seen. [`Error::Failure`] if a log has failed.
    pub(super) async fn until_durable(
        &mut self,
        transport: &impl Transport,
        but: impl Fn(SiteId) -> bool,
    ) -> Result<(), Error> {
        while let Some(at) = self.sites.iter().position(|(site, _)| !but(*site)) {
            let (site, up_to) = self.sites[at];
            match transport.until_durable(site, up_to).await {
                Ok(()) => drop(self.sites.swap_remove(at)),
                Err(Failure::Stopped(_) | Failure::Unreachable { .. }) => return Err(Error::Gone),
                // The transaction has only read there, so it has no unknown outcome.
                Err(Failure::Unknown(LogError::Gone { .. })) => return Err(Error::Gone),
                Err(Failure::Unknown(error)) => return Err(Failure::Log(error).into()),
                Err(failure) => return Err(failure.into()),
            }
        }
        Ok(())
    }
}

impl<T: Transport> Snapshot<T> {
    /// Opens a snapshot of the present.
    ///
    /// # Errors
    /// [`Error::TooManySnapshots`].
    pub(super) async fn take(gateway: &Gateway<T>) -> Result<Snapshot<T>, Error> {
        Snapshot::take_near(gateway, None).await
    }

    /// Opens a snapshot of the present as far as it concerns some rows.
    ///
    /// # Errors
    /// [`Error::TooManySnapshots`].
    pub(super) async fn take_near(
        gateway: &Gateway<T>,
        near: Option<&Near>,
    ) -> Result<Snapshot<T>, Error> {
        if !gateway.history.is_leased(gateway.transport().now()) {
            gateway.renew().await;
        }
        let present = match near.and_then(|near| gateway.present_near(near)) {
            Some(present) => present,
            None => gateway.present_everywhere().await,
        };
        let (snapshot_pin, time) = gateway.history.open(present).ok_or(Error::TooManySnapshots)?;
        let (open, seen) = (Some(snapshot_pin), Seen::default());
        Ok(Snapshot { time, open, pins: None, reads_left: READS_BY_CLOCK, seen })
    }

    /// A snapshot at the time of a shared one.
    pub(super) fn of(shared: SharedSnapshot<T>) -> Snapshot<T> {
        let SharedSnapshot { time, pins } = shared;
        let (pins, seen) = (Some(pins), Seen::default());
        Snapshot { time, open: None, pins, reads_left: READS_BY_CLOCK, seen }
    }

    /// The snapshot for other transactions. `None` unless it is pinned.
    pub(super) fn shared(&self) -> Option<SharedSnapshot<T>> {
        self.pins.clone().map(|pins| SharedSnapshot { time: self.time, pins })
    }

    /// Its time.
    pub(super) fn time(&self) -> Time {
        self.time
    }

    /// True if all sites keep the history for its time.
    pub(super) fn is_pinned(&self) -> bool {
        self.open.is_none()
    }

    /// True if nothing was read in it.
    pub(super) fn is_fresh(&self) -> bool {
        self.seen.sites.is_empty()
    }

    /// The sites that were read.
    pub(super) fn read(&self) -> &[SiteId] {
        self.seen.read()
    }

    /// The number of rows that came from sites of other processes.
    pub(super) fn shipped(&self) -> u64 {
        self.seen.shipped
    }

    /// Ends it. Its read positions are added to `seen`.
    pub(super) fn end(mut self, gateway: &Gateway<T>, seen: &mut Seen) {
        self.seen.sites.drain(..).for_each(|(site, up_to)| seen.note(site, up_to));
        seen.shipped += self.seen.shipped;
        self.open.into_iter().for_each(|snapshot_pin| gateway.history.close(snapshot_pin));
    }

    /// Makes all sites keep the history for its time until it ends. Skips sites that cannot be
    /// reached.
    ///
    /// # Errors
    /// [`Error::Gone`] if a site has freed that history.
    pub(super) async fn pin(&mut self, gateway: &Gateway<T>) -> Result<(), Error> {
        let (routing, transport) = (gateway.router().routing_table(), gateway.transport());
        let pin = async |site| match transport.pin(site, self.time).await {
            Ok(pin) => Ok(Some((site, pin))),
            // If the site restarts, it answers reads at this time with an error, because it has
            // lost the pin.
            Err(Failure::Unreachable { .. } | Failure::Stopped(_)) => Ok(None),
            Err(failure) => Err(failure),
        };
        let pinned = join_all(routing.sites().iter().map(pin)).await;
        let pinned: Vec<_> = pinned.into_iter().collect::<Result<_, Failure>>()?;
        self.pins = Some(Arc::new(pinned.into_iter().flatten().collect()));
        self.open.take().into_iter().for_each(|snapshot_pin| gateway.history.close(snapshot_pin));
        Ok(())
    }

    /// Shows a row and the time of its commit to `visit`. Returns `false` if there is no such row.
    ///
    /// # Errors
    /// [`Error::Gone`] if no site has the history for the time.
    pub(super) async fn get(
        &mut self,
        gateway: &Gateway<T>,
        table: TableId,
        key: &Key,
        mut visit: impl FnMut(&[u8], Time),
    ) -> Result<bool, Error> {
        for look in 0..LOOKS_MAX {
            if let Some(found) = self.look(gateway, table, key, look, &mut visit).await? {
                return Ok(found);
            }
        }
        Err(Error::Gone)
    }

    /// Like [`Snapshot::get`], at the row's master alone. Once this read is durable, the backups of
    /// the table have it.
    ///
    /// # Errors
    /// [`Error::Gone`] if the master cannot answer, because it has changed or has just restarted.
    pub(super) async fn get_at_master(
        &mut self,
        gateway: &Gateway<T>,
        table: TableId,
        key: &Key,
        mut visit: impl FnMut(&[u8], Time),
    ) -> Result<bool, Error> {
        self.look(gateway, table, key, 0, &mut visit).await?.ok_or(Error::Gone)
    }

    /// Like [`Snapshot::get`], at one of the row's holders: the master for `look` 0. Returns `None`
    /// if that holder does not have the history.
    pub(super) async fn look(
        &mut self,
        gateway: &Gateway<T>,
        table: TableId,
        key: &Key,
        look: usize,
        visit: &mut impl FnMut(&[u8], Time),
    ) -> Result<Option<bool>, Error> {
        let mut found = false;
        let mut visit = |_: &[u8], row: &[u8], time: Time| {
            found = true;
            visit(row, time);
            ControlFlow::Continue(())
        };
        let routing = gateway.router().routing_table();
        let read = Read { table, span: ReadSpan::Key(key), limit: 1 };
        let is_read = self.try_read(gateway, &routing, key, look, read, &mut visit).await?;
        Ok(is_read.then_some(found))
    }

    /// Gives a row's master time to proceed after several failed looks.
    pub(super) async fn pause(&self, gateway: &Gateway<T>, table: TableId, key: &Key, look: usize) {
        let routing = gateway.router().routing_table();
        if let Some(placement) = routing.placement(table, key).filter(|_| look >= QUICK_LOOKS) {
            gateway.transport().retry(placement.master).await;
        }
    }

    /// Shows the rows of a range to `visit` until it breaks, in key order, or reversed if `way` is
    /// backward.
    ///
    /// # Errors
    /// As [`Snapshot::get`]; some rows may have been shown.
    pub(super) async fn scan(
        &mut self,
        gateway: &Gateway<T>,
        table: TableId,
        range: &KeyRange,
        way: Direction,
        mut visit: impl FnMut(&[u8], &[u8], Time) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let (mut rest, mut look) = (range.clone(), 0);
        let mut flow = ControlFlow::Continue(());
        while flow.is_continue() && !rest.is_empty() {
            let routing = gateway.router().routing_table();
            let Some(part) = placed_alike(&routing, table, &rest, way) else {
                // A table that is dropped in the midst of a scan must not look like its end.
                return if rest == *range { Ok(()) } else { Err(Error::Gone) };
            };
            let (mut rows, mut last) = (0, None);
            let mut piece = |key: &[u8], row: &[u8], time: Time| {
                rows += 1;
                flow = visit(key, row, time);
                if rows == PIECE_ROWS {
                    last = Some(Key::from_bytes(key));
                }
                flow
            };
            let read = Read { table, span: ReadSpan::Range(&part, way), limit: PIECE_ROWS };
            if !self.try_read(gateway, &routing, &part.start, look, read, &mut piece).await? {
                look += 1;
                if look == LOOKS_MAX {
                    return Err(Error::Gone);
                }
                continue;
            }
            look = 0;
            match (way, last, part.end) {
                (Direction::Forward, Some(last), _) => rest.start = last.successor(),
                (Direction::Backward, Some(last), _) => rest.end = Some(last),
                (Direction::Forward, None, Some(end)) => rest.start = end,
                (Direction::Forward, None, None) => break,
                (Direction::Backward, None, _) => rest.end = Some(part.start),
            }
        }
        Ok(())
    }

    /// Waits until everything that was read is as durable as the logs promise.
    ///
    /// # Errors
    /// As [`Seen::until_durable`].
    pub(super) async fn until_durable(&mut self, transport: &T) -> Result<(), Error> {
        self.seen.until_durable(transport, |_| false).await
    }

    /// Reads at the master of `key`, or at another of its holders for a higher `look`. Returns
    /// `false` if the holder cannot serve the read.
    async fn try_read(
        &mut self,
        gateway: &Gateway<T>,
        routing: &RoutingTable,
        key: &Key,
        look: usize,
        read: Read<'_>,
        visit: VisitRow<'_>,
    ) -> Result<bool, Error> {
        self.pin_if_old(gateway).await;
        let Some(placement) = routing.placement(read.table, key) else { return Err(Error::Gone) };
        let others = placement.holders().without(placement.master);
        let mut holders = std::iter::once(placement.master).chain(others.iter());
        let site = holders.nth(look % (1 + others.len())).expect("there are as many");
        let mut pins = self.pins.iter().flat_map(|pins| pins.iter());
        let pin = pins.find(|(pinned, _)| *pinned == site).map(|(_, pin)| pin);
        let transport = gateway.transport();
        let mut shipped = 0;
        let answer = match transport.is_here(site) {
            true => transport.read_at(site, read, self.time, pin, visit).await,
            false => {
                let mut counted = |key: &[u8], row: &[u8], time: Time| {
                    shipped += 1;
                    visit(key, row, time)
                };
                transport.read_at(site, read, self.time, pin, &mut counted).await
            }
        };
        self.seen.shipped += shipped;
        match answer {
            Ok(up_to) => {
                self.seen.note(site, up_to);
                Ok(true)
            }
            Err(failure) if failure.is_stale_route() || matches!(failure, Failure::Stopped(_)) => {
                // As a rule, the new location is known at once.
                if look >= QUICK_LOOKS || !failure.is_stale_route() {
                    transport.retry(site).await;
                }
                Ok(false)
            }
            Err(Failure::Unreachable { site, why }) => {
                // Others may have taken over from the site, before or during the wait for it.
                let router = gateway.router();
                let has_moved =
                    || router.routing_table().placement(read.table, key) != Some(placement);
                let is_worth = has_moved()
                    || transport.returns(site).await
                    || router.until_succeeded(site).await
                    || has_moved();
                match is_worth {
                    true => Ok(false),
                    false => Err(Failure::Unreachable { site, why }.into()),
                }
            }
            Err(failure) => Err(failure.into()),
        }
    }

    /// Pins a snapshot that is used for long, before the lease ends.
    async fn pin_if_old(&mut self, gateway: &Gateway<T>) {
        self.reads_left -= 1;
        if self.reads_left > 0 {
            return;
        }
        self.reads_left = READS_BY_CLOCK;
        let age = gateway.transport().now().0.saturating_sub(self.time.0);
        if age > PIN_AFTER_NS && !self.is_pinned() {
            // If that fails, the site reports it when it is read.
            let _ = self.pin(gateway).await;
        }
    }
}

/// The longest prefix of a range (suffix if `way` is backward) whose keys have one placement.
/// `None` if there is no such table.
fn placed_alike(
    routing: &RoutingTable,
    table: TableId,
    range: &KeyRange,
    way: Direction,
) -> Option<KeyRange> {
    let stretch = match way {
        Direction::Forward => {
            let (_, end) = routing.stretch(table, &range.start)?;
            KeyRange::new(range.start.clone(), end.cloned())
        }
        Direction::Backward => {
            let (_, start) = routing.stretch_before(table, range.end.as_ref())?;
            KeyRange::new(start.clone(), range.end.clone())
        }
    };
    Some(stretch.intersection(range))
}
