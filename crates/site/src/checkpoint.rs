//! Checkpoints: the contents of a site, written to disk while it works, so that its log can be cut.
//!
//! A checkpoint is a log of its own, in a folder beside the redo log. It names the position of the
//! redo log from which to replay, then gives the state and the rows of each partition. Recovery
//! reads the checkpoint, and then the redo log from that position on.
//!
//! ```text
//!   redo log   ────────────┬──────────────────────────────────▶
//!                     begin│    rows are copied during commits
//!   checkpoint             └ begin │ clock │ p: state, rows … │ q: state, rows … │ end
//! ```
//!
//! A checkpoint is not of one moment. A row that changed after `begin` is in the redo log too, and
//! rows carry their times, so replay keeps the newer one. The state of a partition is read under
//! its lock (or after it was retired), so every event is either in that state or follows it in the
//! log.
//!
//! If a copy is being received ([`mod@crate::copy`]), the redo log is replayed from that copy's
//! beginning.
//!
//! Prepared writes are not in it: their partitions stay locked, so the checkpoint waits for the end
//! frame, which has the rows again. It does hold the decisions that participants may still ask for.
//!
//! Once it is whole and the redo log is durable up to its end, the checkpoint is published:
//! recovery uses it from then on, and the log can be cut ([`isomer_log::Checkpoints`]). The caller
//! decides when a checkpoint is made and how fast ([`Pace`]).

use crate::frame::{Hearing, TxnId};
use crate::held::Held;
use crate::ordered::BatchOutcome;
use crate::partition::{SitePartition, Table};
use crate::record::{BadFrame, FrameWriter, Reader, RowsBuffer, put_range, put_sites};
use crate::site::{Shape, Site};
use isomer_design::{Backups, Key, KeyRange, SiteId, SiteSet, TableId, Time, Version};
use isomer_log::{Draft, LogError, Position};
use parking_lot::Mutex;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The draft is synced after this many bytes, so that the disk's queue stays short for the redo
/// log.
const SETTLED_BYTES: u64 = 4 << 20;

/// Why a checkpoint was not made. The site keeps the older one.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// It could not be stored.
    #[error(transparent)]
    Checkpoints(#[from] isomer_log::CheckpointError),
    /// The redo log has failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The site has no storage for checkpoints.
    #[error("the site keeps nothing on disk, so there is nowhere to put a checkpoint")]
    Nowhere,
    /// Another one is being made.
    #[error("the site makes a checkpoint already")]
    Underway,
}

/// The progress of a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// This many bytes are written.
    Copied(u64),
    /// All of it is on disk, and the redo log up to its end.
    Settled,
    /// Recovery uses it from now on. The redo log is not cut yet.
    Published,
}

/// Decides how fast a checkpoint is made.
#[allow(
    async_fn_in_trait,
    reason = "callers are generic; whether futures are Send is theirs to say"
)]
pub trait Pace {
    /// Called at each stage. The checkpoint continues when this is ready.
    async fn reached(&mut self, stage: Stage);
}

/// Without any pause.
pub struct AtOnce;

impl Pace for AtOnce {
    async fn reached(&mut self, _: Stage) {}
}

/// A report on a site's checkpoints and the log that they allow the site to cut.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CheckpointReport {
    /// When the running checkpoint began, and its bytes so far.
    pub running: Option<(Time, u64)>,
    /// The last one that this run of the site has made.
    pub last: Option<Finished>,
    /// Bytes of the newest one; 0 if there is none.
    pub bytes: u64,
    /// Bytes of the log since the newest one, which a restart replays.
    pub log_bytes: u64,
    /// Bytes of the log that are kept, for a restart or for followers.
    pub log_bytes_kept: u64,
}

/// A checkpoint that was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finished {
    /// When it began.
    pub begun: Time,
    /// When the log was cut.
    pub ended: Time,
    /// Its length.
    pub bytes: u64,
}

/// The running checkpoint, and the last finished one.
#[derive(Default)]
pub(crate) struct Progress {
    running: Option<(Time, u64)>,
    last: Option<Finished>,
}

/// The right to make a checkpoint; one at a time. Dropping it ends the checkpoint.
struct Running<'s>(&'s Mutex<Progress>);

impl<'s> Running<'s> {
    fn begin(site: &'s Site) -> Result<Running<'s>, CheckpointError> {
        let mut progress = site.checkpointing.lock();
        if progress.running.is_some() {
            return Err(CheckpointError::Underway);
        }
        progress.running = Some((site.time.now(), 0));
        Ok(Running(&site.checkpointing))
    }

    /// Counts bytes that were written. Returns their sum.
    fn add(&self, more: u64) -> u64 {
        let mut progress = self.0.lock();
        let (_, bytes) = progress.running.as_mut().expect("a checkpoint is being made");
        *bytes += more;
        *bytes
    }

    fn finish(&self, ended: Time) {
        let mut progress = self.0.lock();
        let (begun, bytes) = progress.running.expect("a checkpoint is being made");
        progress.last = Some(Finished { begun, ended, bytes });
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.lock().running = None;
    }
}

/// A checkpoint that is being written.
struct Writing<'s, P> {
    draft: Box<dyn Draft>,
    running: Running<'s>,
    unsettled: u64,
    pace: &'s mut P,
}

impl<P: Pace> Writing<'_, P> {
    async fn append(&mut self, piece: &Piece) -> Result<(), CheckpointError> {
        let bytes = encode(piece);
        self.draft.append(&bytes)?;
        self.unsettled += bytes.len() as u64;
        if self.unsettled >= SETTLED_BYTES {
            self.draft.settle()?;
            self.unsettled = 0;
        }
        let written = self.running.add(bytes.len() as u64);
        self.pace.reached(Stage::Copied(written)).await;
        Ok(())
    }
}

/// The state of a partition, without its rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PartitionState {
    pub(crate) table: TableId,
    pub(crate) range: KeyRange,
    pub(crate) source: Option<SiteId>,
    pub(crate) released_to: Option<SiteId>,
    pub(crate) followers: SiteSet,
    pub(crate) version: Version,
    pub(crate) last: Time,
    pub(crate) origin: Position,
    pub(crate) unfollowed: bool,
}

/// One frame of a checkpoint.
#[derive(Debug)]
pub(crate) enum Piece {
    Begin {
        redo_from: Position,
        clock: Time,
    },
    State(PartitionState),
    Rows(TableId, RowsBuffer),
    End,
    /// A decision that participants may still ask for, and those participants.
    Decided(TxnId, Time, SiteSet),
    /// The number of backups of a table.
    Backups(TableId, Backups),
    /// A fenced site, and whether it was taken over from.
    Hears(SiteId, Hearing),
    /// The outcomes in the newest frame of a batch of the total order.
    Batches(Vec<BatchOutcome>),
}

impl Site {
    /// Makes a checkpoint, then cuts the redo log as far as followers do not need it.
    ///
    /// # Errors
    /// [`CheckpointError`]; the checkpoint before stays in force.
    pub async fn checkpoint(&self, pace: &mut impl Pace) -> Result<(), CheckpointError> {
        let checkpoints = self.checkpoints.as_deref().ok_or(CheckpointError::Nowhere)?;
        let running = Running::begin(self)?;
        let Shape { begin, partitions, decisions, backups, hearings, batches } =
            self.frozen_shape();
        if checkpoints.newest().is_some_and(|newest| newest.position == begin) {
            return Ok(self.cut_log()?); // It holds all that this one would let the log forget.
        }
        let draft = checkpoints.begin(begin, self.checkpoint_bytes_max())?;
        let mut writing = Writing { draft, running, unsettled: 0, pace };
        let clock = self.store.clock.last();
        writing.append(&Piece::Begin { redo_from: begin, clock }).await?;
        for (table, partition) in &partitions {
            let state = self.settled_state(partition).await;
            writing.append(&Piece::State(state)).await?;
            self.copy_rows(table, &partition.range, &mut writing).await?;
        }
        for (table, backups) in backups {
            writing.append(&Piece::Backups(table, backups)).await?;
        }
        for (site, how) in hearings {
            writing.append(&Piece::Hears(site, how)).await?;
        }
        for (txn, decided) in decisions {
            writing.append(&Piece::Decided(txn, decided.at, decided.waiting)).await?;
        }
        if !batches.is_empty() {
            writing.append(&Piece::Batches(batches)).await?;
        }
        writing.append(&Piece::End).await?;
        let Writing { mut draft, running, pace, .. } = writing;
        draft.settle()?;
        // Rows that were copied may belong to commits that are not durable yet.
        self.lasting_for_others(self.log.end()).await?;
        pace.reached(Stage::Settled).await;
        draft.publish()?;
        pace.reached(Stage::Published).await;
        self.cut_log()?;
        running.finish(self.time.now());
        Ok(())
    }

    /// A report on the site's checkpoints.
    pub fn checkpoints(&self) -> CheckpointReport {
        let newest = self.checkpoints.as_ref().and_then(|checkpoints| checkpoints.newest());
        let (end, begin) = (self.log.end(), self.log.begin());
        let redo_from = newest.map_or(begin, |newest| newest.position);
        let Progress { running, last } = *self.checkpointing.lock();
        CheckpointReport {
            running,
            last,
            bytes: newest.map_or(0, |newest| newest.bytes),
            log_bytes: end.saturating_sub(redo_from),
            log_bytes_kept: end.saturating_sub(begin),
        }
    }

    /// Cuts the log further, if followers had kept the last cut short of the checkpoint. To be
    /// called periodically.
    ///
    /// # Errors
    /// [`LogError`]; a later call tries again.
    pub fn cut_again(&self) -> Result<(), LogError> {
        if self.cut_short.swap(false, Ordering::SeqCst) { self.cut_log() } else { Ok(()) }
    }

    /// Cuts the log as far as neither a restart nor a follower needs it.
    fn cut_log(&self) -> Result<(), LogError> {
        let newest = self.checkpoints.as_ref().and_then(|checkpoints| checkpoints.newest());
        let Some(newest) = newest else { return Ok(()) };
        // Durable frames that were not sent yet are needed, too.
        self.ship();
        let needed = self.needed_by_followers();
        self.cut_short.store(needed < newest.position, Ordering::SeqCst);
        self.log.truncate_before(newest.position.min(needed))
    }

    /// An upper bound: the smaller of the rows in memory, and the last checkpoint plus the log
    /// since.
    fn checkpoint_bytes_max(&self) -> u64 {
        let CheckpointReport { bytes, log_bytes, .. } = self.checkpoints();
        (bytes + log_bytes).min(self.memory_bytes() as u64)
    }

    /// The state of a partition between two events.
    async fn settled_state(&self, partition: &Arc<SitePartition>) -> PartitionState {
        let mut held = Held::default();
        // A retired partition keeps its last state; the redo log continues from there.
        let _ = held.wait_for(partition).await;
        let state = PartitionState {
            table: partition.table,
            range: partition.range.clone(),
            source: partition.source(),
            released_to: partition.released_to(),
            followers: partition.followers(),
            version: partition.version(),
            last: partition.last(),
            origin: partition.origin(),
            unfollowed: partition.is_unfollowed(),
        };
        drop(held);
        if !partition.is_master() {
            self.apply_pending(partition);
        }
        state
    }

    /// Copies the rows of a range piece by piece, so that no snapshot is held for longer than a
    /// piece.
    async fn copy_rows(
        &self,
        table: &Table,
        range: &KeyRange,
        writing: &mut Writing<'_, impl Pace>,
    ) -> Result<(), CheckpointError> {
        let mut rest = Some(range.clone());
        while let Some(range) = rest {
            let Some((rows, left)) = self.next_rows(table, &range) else {
                // All contexts are in use.
                self.next_tick().await;
                rest = Some(range);
                continue;
            };
            if !rows.is_empty() {
                writing.append(&Piece::Rows(table.id, rows)).await?;
            }
            rest = left;
        }
        Ok(())
    }

    /// About one piece of a range's rows, and the rest of the range. `None` if all contexts are in
    /// use.
    fn next_rows(&self, table: &Table, range: &KeyRange) -> Option<(RowsBuffer, Option<KeyRange>)> {
        let mut context = self.store.context()?;
        context.hold();
        let (mut rows, mut last, mut bytes) = (RowsBuffer::default(), None, 0);
        context.scan_newest(&table.index, range, |row| {
            if let Some(value) = row.value() {
                rows.push(row.key(), value, row.time());
                bytes += row.key().len() + value.len();
            }
            if bytes < self.piece_bytes {
                return ControlFlow::Continue(());
            }
            last = Some(Key::from_bytes(row.key()));
            ControlFlow::Break(())
        });
        Some((rows, last.map(|key| KeyRange { start: key.successor(), end: range.end.clone() })))
    }
}

fn encode(piece: &Piece) -> Vec<u8> {
    let mut bytes = Vec::new();
    match piece {
        Piece::Begin { redo_from, clock } => {
            bytes.push(1);
            bytes.extend_from_slice(&redo_from.to_le_bytes());
            bytes.extend_from_slice(&clock.0.to_le_bytes());
        }
        Piece::State(state) => {
            bytes.push(2);
            for number in [
                u64::from(state.table.0),
                state.source.map_or(0, |site| u64::from(site.0)),
                state.released_to.map_or(0, |site| u64::from(site.0)),
                state.version,
                state.last.0,
                state.origin,
                u64::from(state.unfollowed),
            ] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            put_sites(&mut bytes, &state.followers);
            put_range(&mut bytes, &state.range);
        }
        Piece::Rows(table, rows) => {
            bytes.push(3);
            bytes.extend_from_slice(&table.0.to_le_bytes());
            bytes.extend_from_slice(&FrameWriter::bare_rows(&rows.rows()));
        }
        Piece::End => bytes.push(4),
        Piece::Decided(txn, at, waiting) => {
            bytes.push(5);
            txn.write(&mut bytes);
            bytes.extend_from_slice(&at.0.to_le_bytes());
            put_sites(&mut bytes, waiting);
        }
        Piece::Backups(table, backups) => {
            bytes.push(6);
            bytes.extend_from_slice(&table.0.to_le_bytes());
            bytes.extend([backups.count, u8::from(backups.on_disk)]);
        }
        Piece::Hears(site, how) => {
            bytes.push(7);
            bytes.extend_from_slice(&site.0.to_le_bytes());
            bytes.push(how.code());
        }
        Piece::Batches(outcomes) => {
            bytes.push(8);
            BatchOutcome::write_all(outcomes, &mut bytes);
        }
    }
    bytes
}

/// Reads one frame of a checkpoint; rows are borrowed from it.
pub(crate) fn decode(frame: &[u8]) -> Result<Decoded<'_>, BadFrame> {
    let bad = |at, what| BadFrame { at, what };
    let (&kind, body) = frame.split_first().ok_or(bad(0, "the kind of a piece"))?;
    let mut reader = Reader::new(body);
    // 0 stands for no site.
    let site = |number: u64| Some(SiteId(number as u16)).filter(|&site| SiteSet::can_hold(site));
    match kind {
        1 => Ok(Decoded::Begin { redo_from: reader.u64()?, clock: Time(reader.u64()?) }),
        2 => Ok(Decoded::State(PartitionState {
            table: TableId(reader.u64()? as u32),
            source: site(reader.u64()?),
            released_to: site(reader.u64()?),
            version: reader.u64()?,
            last: Time(reader.u64()?),
            origin: reader.u64()?,
            unfollowed: reader.u64()? != 0,
            followers: reader.sites()?,
            range: reader.range()?,
        })),
        3 => {
            let table = body.get(..4).ok_or(bad(1, "the number of a table"))?;
            let table = u32::from_le_bytes(table.try_into().expect("four bytes"));
            Ok(Decoded::Rows(TableId(table), crate::record::read_bare_rows(&body[4..])?))
        }
        4 => Ok(Decoded::End),
        5 => {
            let txn = TxnId::read(&mut reader)?;
            Ok(Decoded::Decided(txn, Time(reader.u64()?), reader.sites()?))
        }
        6 => Ok(Decoded::Backups(TableId(reader.u32()?), reader.backups()?)),
        7 => Ok(Decoded::Hears(reader.site()?, Hearing::read(&mut reader)?)),
        8 => BatchOutcome::read_all(reader.bytes_with_length()?).map(Decoded::Batches),
        _ => Err(bad(0, "the kind of a piece, 1 to 8")),
    }
}

/// A frame of a checkpoint, as read.
pub(crate) enum Decoded<'a> {
    Begin { redo_from: Position, clock: Time },
    State(PartitionState),
    Rows(TableId, crate::record::Rows<'a>),
    End,
    Decided(TxnId, Time, SiteSet),
    Backups(TableId, Backups),
    Hears(SiteId, Hearing),
    Batches(Vec<BatchOutcome>),
}
