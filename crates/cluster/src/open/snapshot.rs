//! Reading at one time, wherever the rows are.
//!
//! The time is chosen once and [kept](isomer_site::Kept) at every site; then each read goes to a site
//! that holds the row, the master first. Rows move while a transaction thinks: the routing table is
//! looked at again for each read, and a copy whose history does not go back far enough passes the
//! read on to the next.
//!
//! ```text
//!   t = max(clock, what was acknowledged)     s1 keeps t    s2 keeps t    s3 keeps t
//!   get k ─▶ routing table ─▶ master s2 ─▶ read at t
//!                              └ got it by a copy made after t? ─▶ another holder
//! ```
//!
//! A row that is read alone needs to be seen together with no other: its time is kept where it is mastered
//! and nowhere else ([`Snapshot::of_row`]).
//!
//! A read does not wait for the disk. What it saw is remembered by site, and whoever tells a client
//! what was read waits for it once, with [`Snapshot::until_durable`].

use super::gateway::{Impatience, Patience};
use crate::database::Database;
use crate::error::Error;
use crate::transport::Transport;
use isomer_design::{Direction, Footprint, Key, KeyRange, SiteId, TableId, Time};
use isomer_log::Position;
use isomer_site::{Failure, Kept, Procedure, Site, Txn};
use smallvec::SmallVec;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A read that finds its rows elsewhere looks at the routing table again this often.
pub(crate) const LOOKS_MAX: usize = 64;

/// One time, kept at all sites, or at that of one row. See the [module documentation](self).
pub struct Snapshot {
    time: Time,
    kept: SmallVec<[Kept; 4]>,
    seen: Seen,
    /// Ends its waits.
    patience: Option<Arc<Patience>>,
}

/// Up to where the logs of the sites were seen.
#[derive(Default)]
pub(crate) struct Seen {
    sites: SmallVec<[(SiteId, Position); 4]>,
}

impl Seen {
    fn note(&mut self, site: SiteId, position: Position) {
        match self.sites.iter_mut().find(|(other, _)| *other == site) {
            Some((_, seen)) => *seen = position.max(*seen),
            None => self.sites.push((site, position)),
        }
    }

    /// Ends a snapshot, and remembers what was read in it.
    pub(crate) fn end(&mut self, snapshot: &mut Option<Snapshot>) {
        let Some(Snapshot { seen, .. }) = snapshot.take() else { return };
        seen.sites.into_iter().for_each(|(site, position)| self.note(site, position));
    }

    /// Waits until all of it is as durable as the logs promise. A site that has gone has been drained.
    pub(crate) fn until_durable(
        &mut self,
        database: &Database,
        patience: Option<&Patience>,
    ) -> Result<(), Error> {
        for (id, position) in self.sites.drain(..) {
            if let Some(site) = database.runtime().site(id) {
                let durable = site.until_durable(position);
                database.runtime().block_on_until(patience, durable).map_err(canceled)??;
            }
        }
        Ok(())
    }
}

impl Snapshot {
    /// Keeps the present, which is not before `at_least`.
    ///
    /// # Errors
    /// [`Error::Failure`] if a site has too much open.
    pub fn take(database: &Database, at_least: Time) -> Result<Snapshot, Error> {
        Snapshot::at(database, &database.runtime().sites(), at_least)
    }

    /// Keeps the present at the master of a row, for reads of it alone.
    ///
    /// # Errors
    /// [`Error::Gone`] if there is no such table; as [`Snapshot::take`].
    pub(crate) fn of_row(
        database: &Database,
        at_least: Time,
        table: TableId,
        key: &Key,
    ) -> Result<Snapshot, Error> {
        let routing = database.routing_table();
        let master = routing.placement(table, key).ok_or(Error::Gone)?.master;
        Snapshot::at(database, database.runtime().site(master).as_slice(), at_least)
    }

    fn at(database: &Database, sites: &[Arc<Site>], at_least: Time) -> Result<Snapshot, Error> {
        let kept = sites.iter().map(Site::keep).collect::<Result<SmallVec<_>, Failure>>()?;
        let now = database.transport().now().max(at_least);
        // The sites' clocks may be ahead of real time.
        let present = kept.iter().map(|kept: &Kept| kept.least().max(kept.latest()));
        let time = present.fold(now, Time::max);
        kept.iter().for_each(|kept| kept.from(time));
        Ok(Snapshot { time, kept, seen: Seen::default(), patience: None })
    }

    /// Its reads wait no longer than a client is willing to.
    pub(crate) fn of_client(self, patience: &Arc<Patience>) -> Snapshot {
        Snapshot { patience: Some(patience.clone()), ..self }
    }

    /// Its time.
    pub fn time(&self) -> Time {
        self.time
    }

    /// Shows a row and the time of its commit to `visit`; `false` if there is no such row.
    ///
    /// # Errors
    /// [`Error::Gone`] if no site has what was there at the time.
    pub fn get(
        &mut self,
        database: &Database,
        table: TableId,
        key: &Key,
        mut visit: impl FnMut(&[u8], Time),
    ) -> Result<bool, Error> {
        for look in 0..LOOKS_MAX {
            if let Some(found) = self.look(database, table, key, look, &mut visit)? {
                return Ok(found);
            }
        }
        Err(Error::Gone)
    }

    /// As [`Snapshot::get`], at the row's master; `None` if that is not where the time is kept, or no more.
    pub(crate) fn get_at_master(
        &mut self,
        database: &Database,
        table: TableId,
        key: &Key,
        mut visit: impl FnMut(&[u8], Time),
    ) -> Result<Option<bool>, Error> {
        self.look(database, table, key, 0, &mut visit)
    }

    fn look(
        &mut self,
        database: &Database,
        table: TableId,
        key: &Key,
        look: usize,
        visit: &mut dyn FnMut(&[u8], Time),
    ) -> Result<Option<bool>, Error> {
        let footprint = Footprint::new().read(table, key.clone());
        let mut found = false;
        let procedure = &mut |txn: &mut Txn<'_>| {
            if let Some((time, row)) = txn.committed(table, key)? {
                found = true;
                visit(row, time);
            }
            Ok(())
        };
        let is_read = self.try_read(database, table, key, look, &footprint, procedure)?;
        Ok(is_read.then_some(found))
    }

    /// Shows the rows of a range to `visit` in the order of their keys, or from the last, until it breaks.
    ///
    /// # Errors
    /// As [`Snapshot::get`]; some rows may have been shown.
    pub fn scan(
        &mut self,
        database: &Database,
        table: TableId,
        range: &KeyRange,
        way: Direction,
        mut visit: impl FnMut(&[u8], &[u8], Time) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let (mut rest, mut look) = (range.clone(), 0);
        let mut flow = ControlFlow::Continue(());
        while flow.is_continue() && !rest.is_empty() {
            let Some(part) = placed_alike(database, table, &rest, way) else { return Ok(()) };
            let footprint = Footprint::new().read_range(table, part.clone());
            let procedure = &mut |txn: &mut Txn<'_>| {
                txn.scan_committed(table, &part, way, |key, row, time| {
                    flow = visit(key, row, time);
                    flow
                })
            };
            if !self.try_read(database, table, &part.start, look, &footprint, procedure)? {
                look += 1;
                if look == LOOKS_MAX {
                    return Err(Error::Gone);
                }
                continue;
            }
            look = 0;
            match (way, part.end) {
                (Direction::Forward, Some(end)) => rest.start = end,
                (Direction::Forward, None) => break,
                (Direction::Backward, _) => rest.end = Some(part.start),
            }
        }
        Ok(())
    }

    /// Waits until all that was read is as durable as the logs promise.
    ///
    /// # Errors
    /// [`Error::Failure`] if a log has failed.
    pub fn until_durable(&mut self, database: &Database) -> Result<(), Error> {
        self.seen.until_durable(database, self.patience.as_deref())
    }

    /// Reads at the master of what begins at `key`, or at another of its holders, depending on how
    /// often it was looked for; `false` if what is to be read is not there.
    fn try_read(
        &mut self,
        database: &Database,
        table: TableId,
        key: &Key,
        look: usize,
        footprint: &Footprint,
        procedure: &mut dyn Procedure,
    ) -> Result<bool, Error> {
        let routing = database.routing_table();
        let Some(placement) = routing.placement(table, key) else { return Err(Error::Gone) };
        let others = placement.holders().without(placement.master);
        let mut holders = std::iter::once(placement.master).chain(others.iter());
        let site = holders.nth(look % (1 + others.len())).expect("there are as many");
        let Some(kept) = self.kept.iter().find(|kept| kept.site().id() == site) else {
            return Ok(false);
        };
        let read = kept.site().read_at(footprint, self.time, procedure);
        let patience = self.patience.as_deref();
        match database.runtime().block_on_until(patience, read).map_err(canceled)? {
            Ok(position) => {
                self.seen.note(site, position);
                Ok(true)
            }
            Err(failure) if failure.is_stale_route() => {
                std::thread::yield_now();
                Ok(false)
            }
            Err(failure) => Err(failure.into()),
        }
    }
}

/// A read that its client waits for no longer.
fn canceled(why: Impatience) -> Error {
    Error::Canceled { why, is_written: false }
}

/// The front of a range, or its back, as far as its keys are placed alike; `None` if there is no such
/// table.
fn placed_alike(
    database: &Database,
    table: TableId,
    range: &KeyRange,
    way: Direction,
) -> Option<KeyRange> {
    let routing = database.routing_table();
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
