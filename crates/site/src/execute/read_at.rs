//! Reads at a time chosen earlier, for transactions that arrive statement by statement.
//!
//! Such a transaction reads as of one time at several sites, and more than once. Its versions must
//! not be freed meanwhile. There are two ways to keep them:
//!
//! | | requested by | the site keeps |
//! | --- | --- | --- |
//! | lease | one request for all snapshots of a gateway, every few milliseconds ([`Site::lease`]) | all history from the oldest snapshot on |
//! | pin | one request for a snapshot of a long transaction ([`Site::pin`]) | the versions at its time |
//!
//! A read at a time whose versions may be freed fails with [`Failure::Forgotten`]. So a gateway may
//! rely on an expired lease, if it is ready to start again.
//!
//! Nothing here waits for the log. A read returns the position of the log that it has seen, and the
//! gateway waits for that with [`Site::until_durable`] when the transaction ends.

use super::{Maps, Wait, once};
use crate::backup::Seen;
use crate::error::Failure;
use crate::site::{Site, woken};
use isomer_design::{Direction, Footprint, Key, KeyRange, TableId, Time};
use isomer_log::Position;
use isomer_store::{CONTEXTS_MAX, Context, Row, SnapshotPin};
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::Waker;

/// A read of one table.
#[derive(Clone, Copy, Debug)]
pub struct Read<'a> {
    /// The table.
    pub table: TableId,
    /// The keys.
    pub span: ReadSpan<'a>,
    /// The most rows to visit, at least 1. A caller that wants more reads again.
    pub limit: usize,
}

/// The keys of a read.
#[derive(Clone, Copy, Debug)]
pub enum ReadSpan<'a> {
    /// One row.
    Key(&'a Key),
    /// Keys of a range, in key order or backwards.
    Range(&'a KeyRange, Direction),
}

/// Called for each row with its key, its value and the time of its commit. It may break.
pub type VisitRow<'a> = &'a mut dyn FnMut(&[u8], &[u8], Time) -> ControlFlow<()>;

/// The position of a site's log that a read has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SeenUpTo {
    /// The site's incarnation: another run may have lost a suffix of the log, and reuse its
    /// positions.
    pub run: u64,
    /// The position.
    pub position: Position,
    /// The last ticket that the read may have seen, which backups may not have acknowledged; 0:
    /// none.
    pub ticket: u64,
}

/// Keeps the versions of one time at a site. Dropping it frees them.
pub struct Pin {
    site: Arc<Site>,
    snapshot_pin: Option<SnapshotPin>,
    time: Time,
}

impl Pin {
    fn keeps(&self, site: &Site, time: Time) -> bool {
        std::ptr::eq(&*self.site, site) && self.time == time
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        if let Some(snapshot_pin) = self.snapshot_pin.take() {
            self.site.store.release_pin(snapshot_pin);
        }
    }
}

impl Site {
    /// Keeps the versions at `time`; everything that commits from now on is later.
    ///
    /// # Errors
    /// [`Failure::Forgotten`]; [`Failure::Overloaded`].
    pub fn pin(self: &Arc<Site>, time: Time) -> Result<Pin, Failure> {
        let overloaded = Failure::Overloaded { site: self.id, limit: CONTEXTS_MAX };
        let snapshot_pin = self.store.keep().ok_or(overloaded)?;
        if snapshot_pin.least() > time {
            self.store.release_pin(snapshot_pin);
            return Err(Failure::Forgotten { site: self.id, at: time });
        }
        self.store.keep_from(&snapshot_pin, time);
        Ok(Pin { site: self.clone(), snapshot_pin: Some(snapshot_pin), time })
    }

    /// Reads as of exactly `time`, which a lease or `pin` keeps.
    ///
    /// # Errors
    /// [`Failure::NotHere`] if the site holds no copy, or none that goes back to `time`;
    /// [`Failure::Forgotten`]; [`Failure::Overloaded`].
    pub async fn read_at(
        &self,
        read: Read<'_>,
        time: Time,
        pin: Option<&Pin>,
        visit: VisitRow<'_>,
    ) -> Result<SeenUpTo, Failure> {
        self.confirmed().await?;
        let footprint = match read.span {
            ReadSpan::Key(key) => Footprint::new().read(read.table, key.clone()),
            ReadSpan::Range(range, _) => Footprint::new().read_range(read.table, range.clone()),
        };
        let mut context = self.context()?;
        if !pin.is_some_and(|pin| pin.keeps(self, time)) && !context.reach(time) {
            return Err(Failure::Forgotten { site: self.id, at: time });
        }
        loop {
            let attempt =
                |waker: &Waker| self.attempt_at(&footprint, read, time, &mut context, visit, waker);
            match once(attempt).await? {
                Ok(Seen { position, ticket }) => {
                    self.confirmed().await?;
                    return Ok(SeenUpTo { run: self.incarnation, position, ticket });
                }
                Err(Wait) => woken().await,
            }
        }
    }

    /// Ready when everything that a read has seen is as durable as the log promises.
    ///
    /// # Errors
    /// [`Failure::Stopped`] if the site has restarted since the read, and may have lost what it
    /// saw; [`Failure::Log`] if the site no longer knows whether its data is current;
    /// [`Failure::Unknown`] if the log has failed.
    pub async fn until_durable(&self, seen: SeenUpTo) -> Result<(), Failure> {
        if seen.run != self.incarnation {
            return Err(Failure::Stopped(self.id));
        }
        let SeenUpTo { position, ticket, .. } = seen;
        self.safe_to_show(Seen { position, ticket }).await
    }

    fn attempt_at(
        &self,
        footprint: &Footprint,
        read: Read<'_>,
        time: Time,
        context: &mut Context<'_>,
        visit: VisitRow<'_>,
        waker: &Waker,
    ) -> Result<Result<Seen, Wait>, Failure> {
        let before = self.begin_read();
        let tables = self.tables();
        let maps = Maps::load(&tables, footprint.items().iter());
        let resolved = self.resolve(&maps, footprint)?;
        if resolved.partitions.iter().any(|partition| partition.since() > time) {
            let item = Box::new(footprint.items()[0].clone());
            return Err(Failure::NotHere { site: self.id, item });
        }
        let partitions = resolved.partitions.iter().map(|partition| &****partition);
        if let Err(not_yet) = context.snapshot_at(partitions, time, waker) {
            self.request_close(&resolved, not_yet, waker)?;
            return Ok(Err(Wait));
        }
        let index = &resolved.tables[0].index;
        let mut left = read.limit;
        let visit = |row: &Row| match row.value() {
            Some(value) => {
                left = left.saturating_sub(1);
                let flow = visit(row.key(), value, row.time());
                if left > 0 { flow } else { ControlFlow::Break(()) }
            }
            None => ControlFlow::Continue(()),
        };
        match read.span {
            ReadSpan::Key(key) => {
                let _ = context.get(index, key).map(visit);
            }
            ReadSpan::Range(range, way) => context.scan_along(index, range, way, visit),
        }
        let positions = resolved.partitions.iter().map(|partition| partition.position());
        let ticket = self.seen_ticket(before, resolved.tables.iter().map(|table| &***table));
        Ok(Ok(Seen { position: positions.max().unwrap_or(0), ticket }))
    }
}
