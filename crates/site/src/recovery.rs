//! Recovery: a site's state from its newest checkpoint and its redo log.
//!
//! A site recovers without other sites: its log has its own commits and the refreshes of its
//! replicas. Frames are replayed in the order of the log. The checkpoint was made while the site
//! worked, so a frame may be reflected already, wholly or in part. Therefore a row is installed
//! unless a newer one is there, and an event changes a partition only if it is at the version to
//! which the event applies.
//!
//! A transaction that was prepared and has not ended is in the log only. It gets its locks and
//! marks back, and asks its coordinator once the site runs ([`crate::two_phase`]).
//!
//! A copy that had not become a replica when the log ends is incomplete: its rows are dropped.
//!
//! Recovery ignores no damage. The suffix that the log itself cuts off was never acknowledged, and
//! an unreadable frame is an error with its position.

use crate::backup::Ending;
use crate::checkpoint::{self, Decoded, PartitionState};
use crate::copy::shown_until;
use crate::frame::{FrameHead, FrameKind};
use crate::held::Held;
use crate::ordered::OrderedSite;
use crate::partition::{Readers, SitePartition, Table, Term};
use crate::record::{BadFrame, Event, Record, read_frame};
use crate::refresh::Came;
use crate::site::{Dropped, Site, SiteOptions};
use isomer_design::{KeyRange, SiteId, Time, Version};
use isomer_log::{Checkpoints, LogError, Position};
use isomer_store::{Partition, Stamp};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why a site could not be recovered. Nothing on disk was changed.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The redo log could not be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A frame of the redo log is unreadable.
    #[error("redo log, position {position:#x}: {error}")]
    Frame {
        /// The frame's position.
        position: Position,
        /// The fault.
        error: BadFrame,
    },
    /// A checkpoint could not be read.
    #[error(transparent)]
    Checkpoint(#[from] isomer_log::CheckpointError),
    /// A checkpoint's contents are damaged.
    #[error("the checkpoint of position {position:#x} is damaged: {what}")]
    Damaged {
        /// The checkpoint's position in the redo log.
        position: Position,
        /// The fault.
        what: String,
    },
    /// The redo log begins after the checkpoint ends.
    #[error(
        "the redo log begins at {begin:#x}, but it is needed from {needed:#x} on; \
         a checkpoint or a log segment is missing"
    )]
    Gap {
        /// First position kept.
        begin: Position,
        /// First position needed.
        needed: Position,
    },
}

/// The progress of a site's recovery; may be read from another thread.
#[derive(Default, Debug)]
pub struct RecoveryProgress(AtomicU64);

impl RecoveryProgress {
    /// Bytes of the checkpoint and the log that were read so far. [`SiteOptions::bytes_to_recover`]
    /// estimates the total.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl SiteOptions {
    /// Estimates the number of bytes that [`Site::open`] will read.
    pub fn bytes_to_recover(&self) -> u64 {
        let newest = self.checkpoints.as_ref().and_then(|checkpoints| checkpoints.newest());
        let (redo_from, bytes) = newest.map_or((0, 0), |newest| (newest.position, newest.bytes));
        bytes + self.log.end().saturating_sub(redo_from.max(self.log.begin()))
    }
}

impl Site {
    /// Restores a site to the state in which it stopped. The clock must not be behind the time at
    /// which it stopped.
    ///
    /// # Errors
    /// [`RecoverError`].
    pub fn open(options: SiteOptions) -> Result<Site, RecoverError> {
        let now = options.time.now();
        let progress = options.progress.clone();
        let mut site = Site::new(options, now);
        let newest = site.checkpoints.as_ref().and_then(|checkpoints| checkpoints.newest());
        let redo_from = newest.map_or(0, |newest| newest.position);
        let begin = site.log.begin();
        if begin > redo_from {
            return Err(RecoverError::Gap { begin, needed: redo_from });
        }
        if let Some(checkpoints) = &site.checkpoints {
            site.load_checkpoint(&**checkpoints, redo_from, &progress)?;
        }
        site.replay(redo_from, &progress)?;
        // Earlier runs began before all that they have logged.
        site.incarnation = site.incarnation.max(site.store.clock.last().0 + 1);
        site.finish_recovery();
        Ok(site)
    }

    /// The position up to which this site has read the log of each master that it follows. Each
    /// master's log was durable up to there.
    pub fn read_of_others(&self) -> BTreeMap<SiteId, Position> {
        let mut read = BTreeMap::new();
        for table in self.tables().iter() {
            for (_, partition) in table.partitions.load().iter() {
                if let Some(source) = partition.source() {
                    let most = read.entry(source).or_insert(0);
                    *most = partition.origin().max(*most);
                }
            }
        }
        read
    }

    fn load_checkpoint(
        &self,
        checkpoints: &dyn Checkpoints,
        position: Position,
        progress: &RecoveryProgress,
    ) -> Result<(), RecoverError> {
        let damaged = |what: String| RecoverError::Damaged { position, what };
        let (mut whole, mut bad) = (checkpoints.newest().is_none(), None);
        checkpoints.read(&mut |frame| {
            progress.add(frame.len() as u64);
            match checkpoint::decode(frame) {
                Ok(Decoded::Begin { redo_from, clock }) => {
                    if redo_from != position {
                        bad = Some(format!("it says that it is of position {redo_from:#x}"));
                    }
                    self.store.clock.raise(clock);
                }
                Ok(Decoded::State(state)) => self.restore(state),
                Ok(Decoded::Rows(id, rows)) => {
                    let table = self.table_or_new(id);
                    self.install_rows(&table, &rows, Time::ZERO);
                }
                Ok(Decoded::Backups(id, backups)) => self.table_or_new(id).set_backups(backups),
                Ok(Decoded::Hears(site, how)) => self.set_hearing(site, how),
                Ok(Decoded::Batches(outcomes)) => *self.batch_outcomes.lock() = outcomes,
                Ok(Decoded::Decided(txn, at, waiting)) => self.restore_decision(txn, at, waiting),
                Ok(Decoded::End) => whole = true,
                Err(error) => bad = Some(error.to_string()),
            }
            if bad.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        match bad {
            Some(what) => Err(damaged(what)),
            None if !whole => Err(damaged("it ends before its end mark".into())),
            None => Ok(()),
        }
    }

    fn restore(&self, state: PartitionState) {
        let table = self.table_or_new(state.table);
        let stamp = Stamp { version: state.version, last: state.last };
        let of_copy = |source| shown_until(self, source, state.last);
        let complete = state.source.map_or(Time::MAX, of_copy);
        let core = Partition::new(state.table, state.range, stamp, complete, Time::ZERO);
        let partition = SitePartition::new(core, state.source, state.followers);
        partition.set_released_to(state.released_to);
        partition.set_origin(state.origin);
        if state.unfollowed {
            partition.set_unfollowed();
        }
        self.reshape(&table, &[], &[Arc::new(partition)]);
    }

    fn replay(&self, from: Position, progress: &RecoveryProgress) -> Result<(), RecoverError> {
        let (mut bad, mut prepared, mut partial_copies) =
            (None, BTreeMap::new(), PartialCopies::default());
        let mut before = from;
        self.log.read(from, &mut |position, frame| match read_frame(frame) {
            Ok((head, records)) => {
                progress.add(position - std::mem::replace(&mut before, position));
                self.store.clock.raise(head.time);
                match &head.kind {
                    FrameKind::Prepare(txn) => {
                        drop(prepared.insert(*txn, (position, frame.to_vec())))
                    }
                    FrameKind::End(txn) => drop(prepared.remove(txn)),
                    FrameKind::Decide { txn, others } => {
                        self.restore_decision(*txn, head.time, others.clone());
                    }
                    FrameKind::Hears(site, how) => self.set_hearing(*site, *how),
                    FrameKind::Batch(outcomes) => OrderedSite(self).keep_outcomes(outcomes),
                    FrameKind::Commit | FrameKind::Refresh { .. } => {}
                }
                for record in &records {
                    self.replay_record(&head, record, position, &mut partial_copies);
                }
                ControlFlow::Continue(())
            }
            Err(error) => {
                bad = Some(RecoverError::Frame { position, error });
                ControlFlow::Break(())
            }
        })?;
        if let Some(bad) = bad {
            return Err(bad);
        }
        partial_copies.forget(self, |_, _| true);
        for (txn, (position, frame)) in prepared {
            let restored = self.restore_branch(txn, frame);
            restored.map_err(|error| RecoverError::Frame { position, error })?;
        }
        Ok(())
    }

    fn replay_record(
        &self,
        head: &FrameHead,
        record: &Record<'_>,
        position: Position,
        partial_copies: &mut PartialCopies,
    ) {
        let table = self.table_or_new(record.table);
        let (from, origin) = head.kind.origin().unwrap_or((self.id, 0));
        let came = Came { time: head.time, from, origin, position };
        match &record.event {
            Event::Create { range, followers } => {
                if table.overlapping(range).is_empty() {
                    self.restore(PartitionState {
                        table: record.table,
                        range: range.clone(),
                        source: None,
                        released_to: None,
                        followers: followers.clone(),
                        version: record.version,
                        last: head.time,
                        origin: 0,
                        unfollowed: false,
                    });
                }
            }
            // Partitions of the checkpoint over this range have seen these events, and the later
            // ones.
            Event::Install(install) if table.overlapping(&install.range).is_empty() => {
                partial_copies.end(self, &table, &install.range, record.version);
                self.install_rows(&table, &install.rows, install.last);
                self.begin_replica(&table, install, record.version, origin, position);
            }
            Event::Copy { range, number, rows } if table.overlapping(range).is_empty() => {
                if *number == 0 {
                    partial_copies.begin(self, &table, range, record.version);
                }
                self.install_rows(&table, rows, head.time);
            }
            Event::Install(_) | Event::Copy { .. } => {}
            Event::Drop => self.replay_drop(&table, record),
            Event::Backups(backups) => table.set_backups(*backups),
            Event::Forget => {
                self.end_all(&table);
                self.purge_all_dropped();
            }
            _ => self.replay_event(&table, record, came),
        }
    }

    /// Applies an event to its partition, if that is at the version to which the event applies.
    /// Otherwise the checkpoint's partition has seen the event, but its rows may not have.
    fn replay_event(&self, table: &Arc<Table>, record: &Record<'_>, came: Came) {
        let partition = table.starting_at(&record.start);
        let Some(partition) = partition.filter(|p| p.version() == record.previous) else {
            if let Event::Write(rows) = &record.event {
                self.install_rows(table, rows, came.time);
            }
            return;
        };
        let mut held = Held::default();
        let _ = held.lock_once(&partition);
        let right = match &record.event {
            Event::Merge { right, .. } => table.starting_at(right),
            _ => None,
        };
        if let Some(right) = &right {
            let _ = held.lock_once(right);
            right.begin_publishing();
        }
        partition.begin_publishing();
        let after = self.take_effect(table, &partition, right.as_ref(), record, came);
        if came.from == self.id {
            self.replay_own_role(&after, record, came);
        }
    }

    /// Applies an event of the site's own log to the partition's role and followers.
    fn replay_own_role(&self, partition: &SitePartition, record: &Record<'_>, came: Came) {
        match &record.event {
            Event::Follow(site) => partition.set_followers(partition.followers().with(*site)),
            Event::Unfollow(site) => partition.set_followers(partition.followers().without(*site)),
            Event::Release { .. } => partition.set_origin(0),
            Event::Acquire { followers } | Event::Promote { followers, .. } => {
                partition.set_source(None);
                partition.set_released_to(None);
                partition.set_followers(followers.clone());
                partition.set_origin(0);
                let first = record.previous + 1;
                partition.set_term(Term { begin: came.position, first });
                partition.become_master();
            }
            _ => {}
        }
    }

    fn replay_drop(&self, table: &Arc<Table>, record: &Record<'_>) {
        let Some(partition) = table.starting_at(&record.start) else { return };
        if partition.version() <= record.version {
            let mut held = Held::default();
            let _ = held.lock_once(&partition);
            partition.begin_publishing();
            self.end_replica(table, &partition, Ending::Closed);
            drop(held);
            self.purge_all_dropped();
        }
    }

    /// The first snapshot is at the time of recovery, because only the newest versions are here.
    fn finish_recovery(&self) {
        self.purge_all_dropped();
        let now = self.store.clock.tick(self.time.now());
        let tables = self.tables();
        for table in tables.iter() {
            for (_, partition) in table.partitions.load().iter() {
                partition.raise_since(now);
                if partition.is_master() && !partition.followers().is_empty() {
                    self.expect_followers(&partition.followers(), 0);
                    self.expect_copies(partition, &partition.followers(), 0);
                }
            }
        }
        tables.iter().for_each(|table| {
            self.expect_acks(table);
            self.expect_heard(table);
        });
        self.lose_tails();
        if self.opened_at > 0 {
            self.outlive_promises();
        }
    }
}

/// Copies that began in the log and have not become replicas by the position that was replayed
/// ([`mod@crate::copy`]).
#[derive(Default)]
struct PartialCopies(Vec<(Arc<Table>, KeyRange, Version)>);

impl PartialCopies {
    /// A copy of a range begins. Drops the rows of earlier ones.
    fn begin(&mut self, site: &Site, table: &Arc<Table>, range: &KeyRange, version: Version) {
        self.forget(site, |of, half| Arc::ptr_eq(of, table) && half.overlaps(range));
        self.0.push((table.clone(), range.clone(), version));
    }

    /// A copy becomes a replica. Drops an overlapping partial copy of another version.
    fn end(&mut self, site: &Site, table: &Arc<Table>, range: &KeyRange, version: Version) {
        let is_own = |of: &Arc<Table>, half: &KeyRange, its: Version| {
            Arc::ptr_eq(of, table) && half == range && its == version
        };
        self.0.retain(|(of, half, its)| !is_own(of, half, *its));
        self.forget(site, |of, half| Arc::ptr_eq(of, table) && half.overlaps(range));
    }

    /// Drops the rows of the partial copies for which `which` is true.
    fn forget(&mut self, site: &Site, which: impl Fn(&Arc<Table>, &KeyRange) -> bool) {
        for (table, range, _) in self.0.extract_if(.., |(of, half, _)| which(of, half)) {
            let readers = Readers::default();
            site.dropped.lock().push(Dropped { table, range, readers });
        }
        site.purge_all_dropped();
    }
}
