//! Reading at a time that was chosen before, for transactions that arrive statement by statement.
//!
//! Such a transaction reads at one time at several sites, and more than once. What is there at that time
//! must not be forgotten meanwhile. There are two ways to see to that:
//!
//! | | by whom | what the site keeps |
//! | --- | --- | --- |
//! | lease | one request for all snapshots of a gateway, every few milliseconds ([`Site::lease`]) | everything from the oldest of them on |
//! | pin | one request for a snapshot that is used for long ([`Site::pin`]) | what is there at its time |
//!
//! A read at a time whose history may be gone is refused: [`Failure::Forgotten`]. So whoever asks need not
//! be right about the lease, only ready to begin again.
//!
//! Nothing here waits for the log: a read says up to where it has seen the log, and whoever tells a
//! client waits for that with [`Site::until_durable`] when the transaction ends.

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

/// What is to be read.
#[derive(Clone, Copy, Debug)]
pub struct Read<'a> {
    /// The table.
    pub table: TableId,
    /// Its rows that are wanted.
    pub span: ReadSpan<'a>,
    /// No more than so many of them, the first on the way, and at least 1: whoever wants more asks again.
    pub limit: usize,
}

/// ReadSpan of a table, to be read in their order.
#[derive(Clone, Copy, Debug)]
pub enum ReadSpan<'a> {
    /// One row.
    Key(&'a Key),
    /// Those of a range, from the first or from the last.
    Range(&'a KeyRange, Direction),
}

/// Is shown each row that is read: its key, its value, and the time of its commit. It may break.
pub type VisitRow<'a> = &'a mut dyn FnMut(&[u8], &[u8], Time) -> ControlFlow<()>;

/// Up to where a read has seen a site's log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SeenUpTo {
    /// The run of the site: another run may have lost what was not durable, and write something else there.
    pub run: u64,
    /// The position.
    pub position: Position,
    /// The last event that it may have seen, and that backups may not have acknowledged; 0: none.
    pub ticket: u64,
}

/// A site's promise to remember what was there at a time. It ends when this is dropped.
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
    /// Keeps what is there at `time`; everything that is committed from now on is later.
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

    /// Reads at exactly `time`, which the site still has, or that is pinned here.
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
    /// [`Failure::Stopped`] if the run has ended in which that was read: it may be lost; [`Failure::Log`] if nobody knows
    /// any more whether it is the newest; [`Failure::Unknown`] if the log has failed.
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
        let ticket = self.seen_ticket(resolved.tables.iter().map(|table| &***table));
        Ok(Ok(Seen { position: positions.max().unwrap_or(0), ticket }))
    }
}
