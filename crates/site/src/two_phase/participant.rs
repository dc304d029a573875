//! Participants of a transaction over several sites: enter, prepare, end.
//!
//! ```text
//!   enter ──▶ holds locks, keeps history ──▶ prepare ──▶ marked, in the log ──▶ end: installed
//!                    │                                          │
//!                    └────────── outcome: leave ────────────────┴─────────────▶ end: unmarked
//! ```
//!
//! Until it is prepared, a branch is in memory only; a prepared branch survives a crash.

use super::{Entered, Part, PartAnswer};
use crate::backup::Seen;
use crate::error::Failure;
use crate::execute::{Maps, Resolved, Wait, once};
use crate::failover::until_sole;
use crate::frame::{FrameKind, TxnId};
use crate::full::Full;
use crate::held::Held;
use crate::overlay::RowWrite;
use crate::partition::SitePartition;
use crate::record::{BadFrame, FrameWriter, Record, read_any_frame};
use crate::refresh::Came;
use crate::site::{Site, woken};
use crate::source::GatheredRow;
use isomer_design::{Footprint, Key, Span, TableId, Time};
use isomer_log::{LogError, Position};
use isomer_store::{CONTEXTS_MAX, Context, SnapshotPin};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::Waker;

/// The branch of a transaction at one site.
#[derive(Default)]
pub(crate) struct Branch {
    pub(super) held: Held,
    /// Keeps the versions that unlocked reads may need, until the time of the read is fixed.
    snapshot_pin: Option<SnapshotPin>,
    /// The time of the read; never decreases.
    at: Time,
    /// The events that its reads have seen.
    pub(super) seen: Seen,
    pub(super) prepared: Option<Prepared>,
    /// When the last message from the coordinator arrived, or the last question to it was sent.
    pub(super) heard: Time,
}

/// The prepared part of a branch. Only the coordinator can end it.
pub(super) struct Prepared {
    /// The prepare frame, as logged.
    pub(super) frame: Vec<u8>,
    proposal: Time,
    position: Position,
}

/// A branch that was taken out of the transaction table for a request. Released if not put back.
struct Entering<'s> {
    site: &'s Site,
    branch: Option<Branch>,
}

impl Drop for Entering<'_> {
    fn drop(&mut self) {
        self.branch.take().into_iter().for_each(|branch| self.site.release_pin(branch));
    }
}

impl Site {
    /// Carries out a coordinator's request.
    ///
    /// # Errors
    /// [`Failure`]; the coordinator must abort then.
    pub async fn part(&self, part: Part) -> Result<PartAnswer, Failure> {
        self.confirmed().await?;
        match part {
            Part::Enter { txn, footprint, at } => {
                if !footprint.is_read_only() {
                    until_sole(self).await?;
                }
                let entered = self.enter(txn, &footprint, at).await?;
                self.confirmed().await?;
                Ok(PartAnswer::Entered(entered))
            }
            Part::Prepare { txn, at, writes } => {
                self.prepare(txn, at, &writes, false).await.map(PartAnswer::Prepared)
            }
            Part::PrepareAll { txn, at, writes } => {
                self.prepare(txn, at, &writes, true).await.map(PartAnswer::Prepared)
            }
        }
    }

    /// Locks the keys to write, and reads as of `at`, or as soon after as this site can.
    pub(super) async fn enter(
        &self,
        txn: TxnId,
        footprint: &Footprint,
        at: Time,
    ) -> Result<Entered, Failure> {
        let mut entering = Entering { site: self, branch: Some(self.take_branch(txn)?) };
        let mut context = self.context()?;
        let branch = entering.branch.as_mut().expect("it was just put there");
        let entered = loop {
            let attempt =
                |waker: &Waker| self.try_enter(footprint, at, branch, &mut context, waker);
            match once(attempt).await? {
                Ok(entered) => break entered,
                Err(Wait) => woken().await,
            }
        };
        branch.heard = self.time.now();
        let seen = branch.seen;
        if entered.is_fixed {
            branch
                .snapshot_pin
                .take()
                .into_iter()
                .for_each(|snapshot_pin| self.store.release_pin(snapshot_pin));
        }
        drop(context);
        self.transactions
            .lock()
            .branches
            .extend(entering.branch.take().map(|branch| (txn, branch)));
        if footprint.is_read_only() {
            // The last request for a read-only branch, so the wait for durability is here.
            self.safe(seen, &[]).await.map_err(Failure::Unknown)?;
        }
        Ok(entered)
    }

    /// Refuses requests of a fenced coordinator.
    fn check_coordinator(&self, txn: TxnId) -> Result<(), Failure> {
        let is_fenced = self.is_fenced(txn.coordinator);
        if is_fenced { Err(Failure::Participant(self.id)) } else { Ok(()) }
    }

    /// Takes the branch out of the transaction table. A prepared one cannot enter again.
    fn take_branch(&self, txn: TxnId) -> Result<Branch, Failure> {
        let mut transactions = self.transactions.lock();
        self.check_coordinator(txn)?;
        if transactions.branches.get(&txn).is_some_and(|branch| branch.prepared.is_some()) {
            return Err(Failure::Participant(self.id));
        }
        Ok(transactions.branches.remove(&txn).unwrap_or_default())
    }

    fn try_enter(
        &self,
        footprint: &Footprint,
        at: Time,
        branch: &mut Branch,
        context: &mut Context<'_>,
        waker: &Waker,
    ) -> Result<Result<Entered, Wait>, Failure> {
        let before = self.begin_read();
        let tables = self.tables();
        let maps = Maps::load(&tables, footprint.items().iter());
        let resolved = self.resolve(&maps, footprint)?;
        if self.lock_written(footprint, &resolved, &mut branch.held, waker)?.is_err() {
            return Ok(Err(Wait));
        }
        if branch.snapshot_pin.is_none() {
            let overloaded = Failure::Overloaded { site: self.id, limit: CONTEXTS_MAX };
            let snapshot_pin = self.store.keep().ok_or(overloaded)?;
            branch.at = snapshot_pin.least().max(resolved.ahead_of(self.time.now()));
            branch.snapshot_pin = Some(snapshot_pin);
        }
        branch.at = branch.at.max(at).max(resolved.earliest());
        let (at, snapshot_pin) =
            (branch.at, branch.snapshot_pin.as_ref().expect("it was just made"));
        self.store.keep_from(snapshot_pin, at);
        let partitions = resolved.partitions.iter().map(|partition| &****partition);
        if let Err(not_yet) = context.snapshot_at(partitions, at, waker) {
            self.request_close(&resolved, not_yet, waker)?;
            return Ok(Err(Wait));
        }
        let positions = resolved.partitions.iter().map(|partition| partition.position());
        let ticket = self.seen_ticket(before, resolved.tables.iter().map(|table| &***table));
        branch.seen = Seen { position: positions.max().unwrap_or(0), ticket };
        let is_fixed = resolved.written.iter().all(|written| *written);
        let rows = resolved.rows(footprint, context);
        Ok(Ok(Entered { at, is_fixed, rows }))
    }

    async fn prepare(
        &self,
        txn: TxnId,
        at: Time,
        writes: &[RowWrite],
        is_all: bool,
    ) -> Result<Time, Failure> {
        let (proposal, seen) = self.propose(txn, at, writes, is_all)?;
        self.lasting_for_others(seen.position).await.map_err(Failure::Unknown)?;
        self.safe(seen, &[]).await.map_err(Failure::Unknown)?;
        if writes.iter().any(|write| self.is_backed(write.table)) {
            self.tailed(seen.position).await.map_err(Failure::Unknown)?;
        }
        Ok(proposal)
    }

    /// Marks the partitions to write (`is_all`: all that are locked), and logs the prepare. Returns
    /// the earliest commit time, and the events that must be durable before the answer.
    fn propose(
        &self,
        txn: TxnId,
        at: Time,
        writes: &[RowWrite],
        is_all: bool,
    ) -> Result<(Time, Seen), Failure> {
        let mut transactions = self.transactions.lock();
        self.check_coordinator(txn)?;
        let branch = transactions.branches.get_mut(&txn).ok_or(Failure::Participant(self.id))?;
        branch.heard = self.time.now();
        let ticket = branch.seen.ticket;
        if let Some(prepared) = &branch.prepared {
            return Ok((prepared.proposal, Seen { position: prepared.position, ticket }));
        }
        if writes.is_empty() && !is_all {
            return Ok((at, branch.seen));
        }
        self.room_for_writes(writes)?;
        self.store.clock.raise(at);
        let mut frame = FrameWriter::new(FrameKind::Prepare(txn));
        let mut written = branch.write(&mut frame, writes);
        if is_all {
            branch.touch(&mut frame, &mut written);
        }
        written.iter().for_each(|partition| self.begin_publishing(partition));
        let followers = written.iter().map(|partition| partition.followers()).collect();
        let is_kept = written.iter().any(|partition| self.is_backed(partition.table));
        match self.append_prepare(txn, &mut frame, followers, is_kept) {
            Ok((proposal, position)) => {
                let frame = frame.finish(proposal).to_vec();
                branch.prepared = Some(Prepared { frame, proposal, position });
                branch.held.keep_only(&written);
                Ok((proposal, Seen { position, ticket }))
            }
            Err(error) => {
                written.iter().for_each(|partition| partition.cancel_publishing());
                Err(error.into())
            }
        }
    }

    /// Refuses before the vote if the rows exceed the memory limit.
    pub(super) fn room_for_writes(&self, writes: &[RowWrite]) -> Result<(), Full> {
        let rows = writes.iter().map(|w| (w.table, w.key.as_bytes(), w.value.as_deref()));
        let room = self.room_for(rows);
        if room.is_err()
            && let Some(mut context) = self.store.context()
        {
            context.collect();
        }
        room
    }

    /// Logs the end of a prepared branch, and applies its writes. `at` is the commit time; `None`:
    /// aborted.
    pub(super) fn end_prepared(
        &self,
        txn: TxnId,
        branch: &Branch,
        prepared: &Prepared,
        at: Option<Time>,
    ) -> Result<Position, LogError> {
        let (_, records) = read_any_frame(&prepared.frame).expect("the site wrote it");
        let partition_of = |record: &Record<'_>| {
            branch.held.find(record.table, &record.start).expect("what is prepared is locked")
        };
        let mut frame = FrameWriter::new(FrameKind::End(txn));
        let Some(time) = at else {
            let position = self.append_end(txn, frame, prepared.proposal, std::iter::empty())?;
            let partitions = records.iter().map(partition_of);
            partitions.for_each(|partition| partition.cancel_publishing());
            return Ok(position);
        };
        assert!(prepared.proposal <= time, "a commit is not before what was proposed");
        records.iter().for_each(|record| frame.record(record));
        let followers = records.iter().map(|record| partition_of(record).followers());
        let position = self.append_end(txn, frame, time, followers)?;
        let came = Came { time, from: self.id, origin: 0, position };
        for record in &records {
            let table = self.table_or_new(record.table);
            self.open_ticket(table.backups(), partition_of(record), record.version);
            self.take_effect(&table, partition_of(record), None, record, came);
        }
        Ok(position)
    }

    /// Restores a branch that was prepared when the site stopped. The frame is readable.
    ///
    /// # Errors
    /// [`BadFrame`] if a partition is not in the state that was locked.
    pub(crate) fn restore_branch(&self, txn: TxnId, frame: Vec<u8>) -> Result<(), BadFrame> {
        let (head, records) = read_any_frame(&frame)?;
        let mut branch = Branch::default();
        for record in &records {
            let partition = self.table_or_new(record.table).starting_at(&record.start);
            let partition = partition.filter(|p| p.is_master() && p.version() == record.previous);
            let what = "a prepared record of a partition as it is in the end";
            let partition = partition.ok_or(BadFrame { at: 0, what })?;
            let _ = branch.held.lock_once(&partition);
            partition.begin_publishing();
        }
        if branch.held.iter().any(|partition| !partition.followers().is_empty()) {
            self.open_proposal(txn, head.time);
        }
        branch.prepared = Some(Prepared { frame, proposal: head.time, position: 0 });
        self.transactions.lock().branches.insert(txn, branch);
        Ok(())
    }

    /// True if a durable prepare here has locked the partition that begins at `start`.
    pub(crate) fn is_prepared_on(&self, table: TableId, start: &Key) -> bool {
        let durable = self.log.durable();
        let is_prepared = |branch: &Branch| {
            branch.prepared.as_ref().is_some_and(|prepared| prepared.position <= durable)
        };
        let transactions = self.transactions.lock();
        transactions
            .branches
            .values()
            .any(|branch| is_prepared(branch) && branch.held.find(table, start).is_some())
    }

    /// Releases the resources of a branch.
    pub(super) fn release_pin(&self, mut branch: Branch) {
        branch
            .snapshot_pin
            .take()
            .into_iter()
            .for_each(|snapshot_pin| self.store.release_pin(snapshot_pin));
    }
}

impl Branch {
    /// Adds a record without rows for each locked partition that is not in `written`. Then no other
    /// commit there gets a time before the transaction's, whichever site fails.
    fn touch(&self, frame: &mut FrameWriter, written: &mut Vec<Arc<SitePartition>>) {
        for partition in self.held.iter() {
            if !written.iter().any(|other| Arc::ptr_eq(other, partition)) {
                frame.open_write(partition.table, &partition.range.start, partition.version());
                frame.close_write();
                written.push(partition.clone());
            }
        }
    }

    /// Adds rows to a frame, as records of their partitions. Returns the partitions in that order.
    pub(super) fn write(
        &self,
        frame: &mut FrameWriter,
        writes: &[RowWrite],
    ) -> Vec<Arc<SitePartition>> {
        let mut written: Vec<Arc<SitePartition>> = Vec::new();
        for write in writes {
            let covers = |p: &SitePartition| p.table == write.table && p.range.contains(&write.key);
            if !written.last().is_some_and(|last| covers(last)) {
                if !written.is_empty() {
                    frame.close_write();
                }
                let partition =
                    self.held.iter().find(|p| covers(p)).expect("what is written is locked");
                frame.open_write(partition.table, &partition.range.start, partition.version());
                written.push(partition.clone());
            }
            frame.row(&write.key, write.value.as_deref());
        }
        if !written.is_empty() {
            frame.close_write();
        }
        written
    }
}

impl Resolved<'_> {
    /// The earliest time at which all partitions can be read, given the locks.
    fn earliest(&self) -> Time {
        let each = self.partitions.iter().zip(&self.written).map(|(partition, written)| {
            if *written { partition.since().max(partition.last()) } else { partition.since() }
        });
        each.max().unwrap_or(Time::ZERO)
    }

    /// The last commit here, if it is ahead of real time: the coordinator's time may be before it.
    fn ahead_of(&self, now: Time) -> Time {
        let masters = self.partitions.iter().filter(|partition| partition.is_master());
        let last = masters.map(|partition| partition.last()).max().unwrap_or(Time::ZERO);
        if last > now { last } else { Time::ZERO }
    }

    /// The rows that the context's snapshot sees.
    fn rows(&self, footprint: &Footprint, context: &Context<'_>) -> Vec<GatheredRow> {
        let mut rows = Vec::new();
        for (item, table) in footprint.items().iter().zip(&self.tables) {
            let mut add = |row: &isomer_store::Row| {
                if let Some(value) = row.value() {
                    let (key, time) = (Key::from_bytes(row.key()), row.time());
                    rows.push(GatheredRow { table: table.id, key, time, value: value.to_vec() });
                }
                ControlFlow::Continue(())
            };
            match &item.span {
                Span::Key(key) => {
                    if let Some(row) = context.get(&table.index, key) {
                        let _ = add(row);
                    }
                }
                Span::Range(range) => context.scan(&table.index, range, add),
            }
        }
        rows
    }
}
