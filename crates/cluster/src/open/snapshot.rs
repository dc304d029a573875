//! Reading at one time, wherever the rows are.
//!
//! The time is chosen once, from the clock and the latest commit that was acknowledged. No site is asked for
//! that. Each read goes to a site that holds the row, the master first. Rows move while a transaction
//! thinks: the routing table is looked at again for each read, and a copy whose history does not go back
//! far enough passes the read on to the next.
//!
//! ```text
//!   t = max(clock, what was acknowledged)         open in the gateway's history
//!   get k ─▶ routing table ─▶ master s2 ─▶ read at t: its clock is raised to t first
//!                              └ got it by a copy made after t? ─▶ another holder
//!
//!   older than 1 s, or for all statements:  pinned at s1, s2, s3; closed in the gateway's history
//! ```
//!
//! What is there at `t` when a site is first read is kept by the gateway's [lease](super::history). A
//! snapshot that is going to be used for long is pinned at all sites, which then free what lies between
//! the pin and the present.
//!
//! A read does not wait for the disk. What it saw is remembered by site, and whoever tells a client
//! what was read waits for it once, with [`Seen::until_durable`].

use super::gateway::Gateway;
use crate::error::Error;
use crate::transport::Transport;
use futures_util::future::join_all;
use isomer_design::{Direction, Key, KeyRange, RoutingTable, SiteId, TableId, Time};
use isomer_site::{Failure, Read, ReadSpan, SeenUpTo, VisitRow};
use isomer_store::SnapshotPin;
use smallvec::SmallVec;
use std::ops::ControlFlow;

/// A read that finds its rows elsewhere looks at the routing table again this often.
pub(super) const LOOKS_MAX: usize = 64;
/// So many looks are made without a pause.
const QUICK_LOOKS: usize = 4;
/// A range is read in pieces of so many rows: none keeps a site busy for long.
const PIECE_ROWS: usize = 4096;
/// A snapshot that is used for longer than this is pinned.
const PIN_AFTER_NS: u64 = 1_000_000_000;
/// After so many reads, the clock is looked at.
const READS_BY_CLOCK: usize = 64;

/// One time. See the [module documentation](self). It has to be [ended](Snapshot::end).
pub(super) struct Snapshot<T: Transport> {
    time: Time,
    /// Its place in the gateway's history, until it is pinned.
    open: Option<SnapshotPin>,
    pins: SmallVec<[(SiteId, T::Pin); 4]>,
    /// Reads until the clock is looked at again.
    reads_left: usize,
    seen: Seen,
}

/// Up to where the logs of the sites were seen.
#[derive(Default)]
pub(super) struct Seen {
    sites: SmallVec<[(SiteId, SeenUpTo); 4]>,
}

impl Seen {
    fn note(&mut self, site: SiteId, up_to: SeenUpTo) {
        // If the site has restarted between two reads, both matter.
        let same =
            |(other, seen): &&mut (SiteId, SeenUpTo)| *other == site && seen.run == up_to.run;
        match self.sites.iter_mut().find(same) {
            Some((_, seen)) => seen.position = seen.position.max(up_to.position),
            None => self.sites.push((site, up_to)),
        }
    }

    /// Waits until all of it is as durable as the logs promise, but what `sites` says is somebody else's
    /// to see to.
    ///
    /// # Errors
    /// [`Error::Gone`] if a site has lost it; [`Error::Failure`] if a log has failed.
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
                Err(failure) => return Err(failure.into()),
            }
        }
        Ok(())
    }
}

impl<T: Transport> Snapshot<T> {
    /// Opens the present.
    ///
    /// # Errors
    /// [`Error::TooManySnapshots`].
    pub(super) async fn take(gateway: &Gateway<T>) -> Result<Snapshot<T>, Error> {
        let mut present = gateway.present();
        if !gateway.history.is_leased(present) {
            gateway.renew().await;
            present = gateway.present();
        }
        let (snapshot_pin, time) = gateway.history.open(present).ok_or(Error::TooManySnapshots)?;
        let (open, pins, seen) = (Some(snapshot_pin), SmallVec::new(), Seen::default());
        Ok(Snapshot { time, open, pins, reads_left: READS_BY_CLOCK, seen })
    }

    /// Its time.
    pub(super) fn time(&self) -> Time {
        self.time
    }

    /// True if all sites keep what is there at its time.
    pub(super) fn is_pinned(&self) -> bool {
        self.open.is_none()
    }

    /// True if nothing was read in it.
    pub(super) fn is_fresh(&self) -> bool {
        self.seen.sites.is_empty()
    }

    /// Ends it; what was read in it is remembered by `seen`.
    pub(super) fn end(mut self, gateway: &Gateway<T>, seen: &mut Seen) {
        self.seen.sites.drain(..).for_each(|(site, up_to)| seen.note(site, up_to));
        self.open.into_iter().for_each(|snapshot_pin| gateway.history.close(snapshot_pin));
    }

    /// Lets all sites keep what is there at its time, for as long as it takes.
    ///
    /// # Errors
    /// [`Error::Gone`] if a site has it no more. One that cannot be reached is passed by.
    pub(super) async fn pin(&mut self, gateway: &Gateway<T>) -> Result<(), Error> {
        let (routing, transport) = (gateway.router().routing_table(), gateway.transport());
        let pin = async |site| match transport.pin(site, self.time).await {
            Ok(pin) => Ok(Some((site, pin))),
            // If it comes back, it says so itself when it is read, and has forgotten.
            Err(Failure::Unreachable { .. } | Failure::Stopped(_)) => Ok(None),
            Err(failure) => Err(failure),
        };
        let pinned = join_all(routing.sites().iter().map(pin)).await;
        let pinned: Vec<_> = pinned.into_iter().collect::<Result<_, Failure>>()?;
        self.pins = pinned.into_iter().flatten().collect();
        self.open.take().into_iter().for_each(|snapshot_pin| gateway.history.close(snapshot_pin));
        Ok(())
    }

    /// Shows a row and the time of its commit to `visit`; `false` if there is no such row.
    ///
    /// # Errors
    /// [`Error::Gone`] if no site has what was there at the time.
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

    /// As [`Snapshot::get`], at the row's master alone: once that is durable, the backups that its table asks for have it.
    ///
    /// # Errors
    /// [`Error::Gone`] if the master cannot say: it is another one by now, or has just come back.
    pub(super) async fn get_at_master(
        &mut self,
        gateway: &Gateway<T>,
        table: TableId,
        key: &Key,
        mut visit: impl FnMut(&[u8], Time),
    ) -> Result<bool, Error> {
        self.look(gateway, table, key, 0, &mut visit).await?.ok_or(Error::Gone)
    }

    /// As [`Snapshot::get`], at one of the row's holders: the master, if it has not been looked for before;
    /// `None` if that has not what was there.
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

    /// Lets a row's master go on, if it was looked for in vain before.
    pub(super) async fn pause(&self, gateway: &Gateway<T>, table: TableId, key: &Key, look: usize) {
        let routing = gateway.router().routing_table();
        if let Some(placement) = routing.placement(table, key).filter(|_| look >= QUICK_LOOKS) {
            gateway.transport().retry(placement.master).await;
        }
    }

    /// Shows the rows of a range to `visit` in the order of their keys, or from the last, until it breaks.
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
            let Some(part) = placed_alike(&routing, table, &rest, way) else { return Ok(()) };
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

    /// Waits until all that was read is as durable as the logs promise.
    ///
    /// # Errors
    /// As [`Seen::until_durable`].
    pub(super) async fn until_durable(&mut self, transport: &T) -> Result<(), Error> {
        self.seen.until_durable(transport, |_| false).await
    }

    /// Reads at the master of what begins at `key`, or at another of its holders, depending on how
    /// often it was looked for; `false` if what is to be read is not there.
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
        let pin = self.pins.iter().find(|(pinned, _)| *pinned == site).map(|(_, pin)| pin);
        let transport = gateway.transport();
        match transport.read_at(site, read, self.time, pin, visit).await {
            Ok(up_to) => {
                self.seen.note(site, up_to);
                Ok(true)
            }
            Err(failure) if failure.is_stale_route() || matches!(failure, Failure::Stopped(_)) => {
                // Where it has gone is known at once, as a rule.
                if look >= QUICK_LOOKS || !failure.is_stale_route() {
                    transport.retry(site).await;
                }
                Ok(false)
            }
            Err(Failure::Unreachable { site, why }) => match transport.returns(site).await {
                true => Ok(false),
                false => Err(Failure::Unreachable { site, why }.into()),
            },
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
            // Where that does not succeed, the site says so when it is read.
            let _ = self.pin(gateway).await;
        }
    }
}

/// The front of a range, or its back, as far as its keys are placed alike; `None` if there is no such
/// table.
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
