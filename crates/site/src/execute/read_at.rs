//! Reading at a time that was chosen before, for transactions that arrive statement by statement.
//!
//! Such a transaction reads at one time at several sites, and more than once. It keeps that time at
//! every site first ([`Site::keep`]); then any number of reads at that time are possible, wherever
//! the rows are, until what was kept is dropped.
//!
//! Nothing here waits for the log: a read says which position it has seen, and whoever tells a
//! client waits for that with [`Site::until_durable`] when the transaction ends.

use super::{Hold, Maps, Wait, once};
use crate::error::Failure;
use crate::held::Held;
use crate::request::{Body, Procedure, Progress, Request};
use crate::site::{Site, woken};
use isomer_design::{Footprint, Item, Time};
use isomer_log::Position;
use isomer_store::Keeper;
use std::sync::Arc;
use std::task::Waker;

/// A site's promise to remember what was there at a time. It ends when this is dropped.
pub struct Kept {
    site: Arc<Site>,
    keeper: Option<Keeper>,
}

impl Kept {
    /// The site.
    pub fn site(&self) -> &Arc<Site> {
        &self.site
    }

    /// The earliest time from which the site can keep history.
    pub fn least(&self) -> Time {
        self.keeper().least()
    }

    /// A time at which all is seen that was committed at the site until now.
    pub fn latest(&self) -> Time {
        self.site.store.clock.last()
    }

    /// Keeps what is there at `time`; everything that is committed from now on is later.
    ///
    /// # Panics
    /// If `time` is earlier than [`Kept::least`].
    pub fn from(&self, time: Time) {
        self.site.store.keep_from(self.keeper(), time);
    }

    fn keeper(&self) -> &Keeper {
        self.keeper.as_ref().expect("it is there until the drop")
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            self.site.store.let_go(keeper);
        }
    }
}

impl Site {
    /// Begins to keep history.
    ///
    /// # Errors
    /// [`Failure::Overloaded`].
    pub fn keep(self: &Arc<Site>) -> Result<Kept, Failure> {
        let overloaded = Failure::Overloaded { site: self.id, limit: isomer_store::CONTEXTS_MAX };
        let keeper = Some(self.store.keep().ok_or(overloaded)?);
        Ok(Kept { site: self.clone(), keeper })
    }

    /// Runs a procedure that only reads, at exactly `time`, which is [kept](Site::keep) here. Returns
    /// the position in the log up to which it has seen events.
    ///
    /// # Errors
    /// [`Failure::NotHere`] if the site holds no copy of an item, or none that goes back to `time`;
    /// [`Failure::Abort`] if the procedure ended it.
    ///
    /// # Panics
    /// If the procedure writes.
    pub async fn read_at(
        &self,
        footprint: &Footprint,
        time: Time,
        procedure: &mut dyn Procedure,
    ) -> Result<Position, Failure> {
        self.serving()?;
        let mut hold = Hold { locks: Held::default(), context: self.context()? };
        loop {
            let attempt =
                |waker: &Waker| self.attempt_at(footprint, time, procedure, &mut hold, waker);
            match once(attempt).await? {
                Ok(position) => return Ok(position),
                Err(Wait) => woken().await,
            }
        }
    }

    /// Ready when everything that a read has seen is as durable as the log promises.
    ///
    /// # Errors
    /// [`Failure::Unknown`] if the log has failed.
    pub async fn until_durable(&self, position: Position) -> Result<(), Failure> {
        self.durable(position).await.map_err(Failure::Unknown)
    }

    fn attempt_at(
        &self,
        footprint: &Footprint,
        time: Time,
        procedure: &mut dyn Procedure,
        hold: &mut Hold<'_>,
        waker: &Waker,
    ) -> Result<Result<Position, Wait>, Failure> {
        assert!(footprint.is_read_only(), "who writes must not choose the time");
        let tables = self.tables();
        let maps = Maps::load(&tables, footprint.items().iter());
        let resolved = self.resolve(&maps, footprint)?;
        if resolved.partitions.iter().any(|partition| partition.since() > time) {
            let item: Item = footprint.items()[0].clone();
            return Err(Failure::NotHere { site: self.id, item: Box::new(item) });
        }
        let partitions = resolved.partitions.iter().map(|partition| &****partition);
        if let Err(not_yet) = hold.context.snapshot_at(partitions, time, waker) {
            self.hurry(&resolved, not_yet, waker);
            return Ok(Err(Wait));
        }
        let mut request = Request::new(footprint, Body::Here(procedure));
        let mut unheard = |_| {};
        let mut progress = Progress::new(None, &mut unheard);
        let read = self.run_at(&resolved, time, &mut request, &mut progress, hold);
        read.map(|(_, position)| Ok(position))
    }
}
