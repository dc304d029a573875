//! Copies: how a new replica gets its rows.
//!
//! A partition may have more rows than fit into a frame of the log, or into memory a second time.
//! So rows are sent and logged in pieces, all but the last before the replica exists:
//!
//! ```text
//!   master                             new replica's log
//!   follow: an event under the lock;   copy 0    rows a, b        no partition has them yet,
//!   then the rows of its snapshot,     copy 1    rows c, d        so no reader sees them
//!   while writers continue             install   row e            the replica exists
//! ```
//!
//! **Crashes.** The install is the event; without it, a copy is incomplete. Recovery drops its
//! rows, and the router requests the whole copy again. A copy begins with piece number 0, so a log
//! with two incomplete copies and a complete one is replayed correctly: rows that were deleted at
//! the master in between are in the first copy only. A checkpoint during a copy does not have these
//! rows, so the log is kept from the copy's beginning on.
//!
//! **Invariants.** No frame is larger than a piece and a row. A piece is durable before the next
//! one is written, so a copy does not fill the log's backlog. Concurrent copies at a site do not
//! overlap.
//!
//! **Between processes** a snapshot is one message. A partition whose rows do not fit into one is
//! refused before anything is done
//! ([`SiteOptions::copy_bytes_max`](crate::SiteOptions::copy_bytes_max)), and must be split first.
//!
//! **Left out.** A snapshot travels whole, from its master to the router and from there to the
//! copy.

use crate::backup::Ending;
use crate::error::Refusal;
use crate::frame::FrameKind;
use crate::held::Held;
use crate::partition::{Readers, SitePartition, Table};
use crate::record::{Event, FrameWriter, Install, Record, RowsBuffer};

use crate::site::{Dropped, Site, woken};
use isomer_design::{Key, KeyRange, SiteId, SiteSet, TableId, Time, Version};
use isomer_log::{LogError, Position};
use isomer_store::{Context, NotYet, Partition, Stamp};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::Poll;

/// The approximate size of a piece, in bytes.
pub const PIECE_BYTES: usize = 1 << 20;

/// The most bytes of rows in a copy to another process: a message is shorter than 4 GiB.
pub const COPY_BYTES_MAX: usize = 3 << 30;

/// The rows of a partition in one snapshot, for a new replica.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// The table.
    pub table: TableId,
    /// The keys.
    pub range: KeyRange,
    /// The partition's version in it.
    pub version: Version,
    /// Time of the last event in it.
    pub last: Time,
    /// The earliest time at which the copy can be read.
    pub since: Time,
    /// The master's site.
    pub source: SiteId,
    /// The master's incarnation.
    pub incarnation: u64,
    /// The position in the master's log from which to read on.
    pub position: Position,
    /// The rows; at least one piece.
    #[serde(deserialize_with = "at_least_one")]
    pub pieces: Vec<RowsBuffer>,
}

fn at_least_one<'de, D: Deserializer<'de>>(pieces: D) -> Result<Vec<RowsBuffer>, D::Error> {
    let pieces = Vec::deserialize(pieces)?;
    if pieces.is_empty() { Err(D::Error::custom("a snapshot has a piece")) } else { Ok(pieces) }
}

/// A copy that is being received.
#[derive(Debug)]
pub(crate) struct Underway {
    table: TableId,
    range: KeyRange,
    /// The end of the log when it began.
    from: Position,
}

/// The right to receive a copy of a range. Unless the copy completes, its rows are dropped at the
/// end.
struct Copying<'s> {
    site: &'s Site,
    table: Arc<Table>,
    range: KeyRange,
    is_whole: bool,
}

impl Drop for Copying<'_> {
    fn drop(&mut self) {
        if !self.is_whole {
            let (table, range) = (self.table.clone(), self.range.clone());
            let readers = Readers::default();
            self.site.dropped.lock().push(Dropped { table, range, readers });
        }
        let is_other = |c: &Underway| c.table != self.table.id || c.range != self.range;
        self.site.copying.lock().retain(is_other);
    }
}

impl Snapshot {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.pieces.iter().map(RowsBuffer::len).sum()
    }

    /// The number of bytes in which they are sent.
    pub fn bytes(&self) -> usize {
        self.pieces.iter().map(RowsBuffer::bytes).sum()
    }
}

impl Site {
    /// Lets `site` follow a partition, and returns the snapshot from which it starts.
    ///
    /// The lock is held only while the follower is added. The rows are read from the snapshot while
    /// writers continue.
    ///
    /// # Errors
    /// [`Refusal`] unless the partition that begins at `start` is mastered here.
    pub async fn follow(
        &self,
        table: TableId,
        start: &Key,
        site: SiteId,
    ) -> Result<Snapshot, Refusal> {
        self.check_size(table, start).await?;
        let (table, partition, mut held) = self.lock_mastered(table, start).await?;
        let mut frame = FrameWriter::new(FrameKind::Commit);
        frame.record(&partition.next_record(Event::Follow(site)));
        // The follower receives all events after this one.
        let (last, position) = self.publish(&[&partition], frame, |_| {})?;
        self.begin_learning(&partition, site);
        partition.set_followers(partition.followers().with(site));
        self.expect_followers(&SiteSet::of(site), position);
        self.begin_keeping(&partition);
        self.expect_copies(&partition, &SiteSet::of(site), position);
        let version = partition.version();
        let mut context = self.store.context().ok_or(Refusal::Unavailable(self.id))?;
        let pinned = latest(&mut context, &partition).await;
        // The loaded map keeps the rows from being freed, even if the partition leaves this site
        // meanwhile.
        let _map = table.partitions.load_full();
        held.release();
        self.lasting(position).await?;
        let mut pieces = vec![RowsBuffer::default()];
        context.scan(&table.index, &partition.range, |row| {
            if let Some(value) = row.value() {
                let full = pieces.last().map(RowsBuffer::bytes);
                if let Some(bytes) = full.filter(|bytes| *bytes >= self.piece_bytes) {
                    pieces.push(RowsBuffer::with_capacity(bytes + bytes / 8));
                }
                let piece = pieces.last_mut().expect("there is one from the beginning");
                piece.push(row.key(), value, row.time());
            }
            ControlFlow::Continue(())
        });
        Ok(Snapshot {
            table: table.id,
            range: partition.range.clone(),
            version,
            last,
            since: pinned,
            source: self.id,
            incarnation: self.incarnation,
            position,
            pieces,
        })
    }

    /// Refuses a partition that is too large to copy. It may still grow beyond the limit during the
    /// copy.
    ///
    /// # Errors
    /// [`Refusal::Unfit`], with the limit.
    async fn check_size(&self, table: TableId, start: &Key) -> Result<(), Refusal> {
        let most = self.copy_bytes_max;
        let found = self.table(table).and_then(|table| Some((table.starting_at(start)?, table)));
        let Some((partition, table)) = found.filter(|_| self.memory_bytes() > most) else {
            return Ok(());
        };
        let mut context = self.store.context().ok_or(Refusal::Unavailable(self.id))?;
        latest(&mut context, &partition).await;
        let _map = table.partitions.load_full();
        let mut bytes = 0;
        context.scan(&table.index, &partition.range, |row| {
            bytes += row.value().map_or(0, |value| row.key().len() + value.len());
            if bytes > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if bytes <= most {
            return Ok(());
        }
        let why = format!(
            "has more rows than the {} MiB that a copy to another process can have; split it first",
            most >> 20
        );
        Err(self.unfit(&partition, why))
    }

    /// Installs a replica from a master's snapshot.
    ///
    /// # Errors
    /// [`Refusal::Unfit`] if the site holds a part of the range already; [`Refusal::Full`];
    /// [`Refusal::Log`].
    pub async fn install(&self, snapshot: Snapshot) -> Result<(), Refusal> {
        let table = self.table_or_new(snapshot.table);
        let mut copying = self.begin_copy(&table, &snapshot.range).await;
        while let Some(there) = table.overlapping(&snapshot.range).first().cloned() {
            let is_of_master = there.source() == Some(snapshot.source);
            let is_as_late =
                there.range.covers(&snapshot.range) && there.version() >= snapshot.version;
            if is_of_master && is_as_late && !there.is_unfollowed() {
                copying.is_whole = true;
                return self.lasting(self.log.end()).await; // It was installed before.
            }
            if !is_of_master || !snapshot.range.covers(&there.range) {
                copying.is_whole = true;
                return Err(
                    self.unfit(&there, "is held by the site already; remove it first".into())
                );
            }
            // The master has unfollowed the older copy, and that event has not arrived here.
            let mut held = Held::default();
            if held.wait_for(&there).await {
                self.end_copy(&table, &there, Ending::Closed)?;
            }
            drop(held);
            self.purged(&table, &snapshot.range).await;
        }
        if let Err(full) = self.room_for_copy(&snapshot) {
            copying.is_whole = true; // No row was installed.
            return Err(full.into());
        }
        let (last, before) = snapshot.pieces.split_last().expect("a snapshot has a piece");
        for (number, piece) in (0..).zip(before) {
            let (range, rows) = (snapshot.range.clone(), piece.rows());
            let position = self.log_copied(&snapshot, Event::Copy { range, number, rows })?;
            // Rows without a partition are invisible.
            self.install_rows(&table, &rows, snapshot.last);
            self.lasting(position).await?;
        }
        let install = Install {
            range: snapshot.range.clone(),
            source: snapshot.source,
            incarnation: snapshot.incarnation,
            last: snapshot.last,
            since: snapshot.since,
            rows: last.rows(),
        };
        self.install_rows(&table, &install.rows, snapshot.last);
        let shaping = self.shaping.read();
        let position = self.log_copied(&snapshot, Event::Install(install.clone()))?;
        let installed = (snapshot.table, snapshot.range.clone(), position);
        self.links.installed.lock().push(installed);
        let partition =
            self.begin_replica(&table, &install, snapshot.version, snapshot.position, position);
        copying.is_whole = true;
        drop(copying);
        drop(shaping);
        // The master cuts its log once the replica subscribes, so the installation must be durable.
        self.lasting(position).await?;
        // Events that the master has sent since may have gone to an earlier run of this site.
        self.subscribe(std::slice::from_ref(&partition));
        self.apply_pending(&partition);
        Ok(())
    }

    /// Waits until no rows of earlier copies of the range are left, and no other copy of it is in
    /// progress.
    async fn begin_copy(&self, table: &Arc<Table>, range: &KeyRange) -> Copying<'_> {
        loop {
            self.purged(table, range).await;
            {
                // A checkpoint finds the copy in `copying`, or takes a log position before it.
                let _shaping = self.shaping.read();
                let mut copying = self.copying.lock();
                if !copying.iter().any(|c| c.table == table.id && c.range.overlaps(range)) {
                    let (range, from) = (range.clone(), self.log.end());
                    copying.push(Underway { table: table.id, range: range.clone(), from });
                    return Copying { site: self, table: table.clone(), range, is_whole: false };
                }
            }
            self.next_tick().await;
        }
    }

    /// The log position at which the first copy in progress begins; the log is needed from there
    /// on.
    pub(crate) fn copied_from(&self) -> Position {
        let copying = self.copying.lock();
        copying.iter().map(|copy| copy.from).min().unwrap_or(Position::MAX)
    }

    fn log_copied(&self, snapshot: &Snapshot, event: Event<'_>) -> Result<Position, LogError> {
        let (from, position) = (snapshot.source, snapshot.position);
        let mut frame = FrameWriter::new(FrameKind::Refresh { from, position });
        frame.record(&Record {
            table: snapshot.table,
            start: snapshot.range.start.clone(),
            previous: 0,
            version: snapshot.version,
            event,
        });
        self.append_refresh(frame, snapshot.last)
    }

    /// Adds a replica to the site.
    pub(crate) fn begin_replica(
        &self,
        table: &Arc<Table>,
        install: &Install<'_>,
        version: Version,
        origin: Position,
        position: Position,
    ) -> Arc<SitePartition> {
        let stamp = Stamp { version, last: install.last };
        let complete = shown_until(self, install.source, install.last);
        let core = Partition::new(table.id, install.range.clone(), stamp, complete, install.since);
        let partition = Arc::new(SitePartition::new(core, Some(install.source), SiteSet::EMPTY));
        partition.set_origin(origin);
        partition.set_position(position);
        let mut early_events = self.links.early_events.lock();
        Table::adopt(&mut early_events, std::slice::from_ref(&partition));
        self.reshape(table, &[], std::slice::from_ref(&partition));
        partition
    }
}

/// The time up to which a copy of a partition of `source`, with its last event at `last`, may be
/// read without a closed time of `source`. [`Time::ZERO`] in the master's process: the copy may
/// hold events that no backup has, and only the master knows.
pub(crate) fn shown_until(site: &Site, source: SiteId, last: Time) -> Time {
    if site.domains.fail_together(site.id, source) { Time::ZERO } else { last }
}

/// Takes a snapshot of the newest state of a partition.
async fn latest(context: &mut Context<'_>, partition: &SitePartition) -> Time {
    loop {
        let alone = std::iter::once(&**partition);
        let result =
            poll_fn(|cx| Poll::Ready(context.snapshot(alone.clone(), Time::ZERO, cx.waker())));
        match result.await {
            Ok(time) => return time,
            Err(NotYet::Publishing(_) | NotYet::Behind(..)) => woken().await,
        }
    }
}
