//! The steps of a batch at one site: enter, install, leave.

use super::batch::BatchOutcome;
use super::decide::{Check, Sees};
use crate::backup::{Seen, Tickets};
use crate::error::Failure;
use crate::execute::{Maps, Wait, once};
use crate::failover::until_sole;
use crate::frame::{FrameKind, TxnId};
use crate::held::Held;
use crate::overlay::RowWrite;
use crate::partition::SitePartition;
use crate::record::FrameWriter;
use crate::site::{Site, woken};
use isomer_design::{Footprint, Key, SiteId, SiteSet, Span, Time};
use isomer_log::{LogError, Position};
use isomer_store::{Context, Row, pin};
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::Waker;

/// A step of a batch at a site. A repeated step gets the same answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum BatchStep {
    /// Lock the partitions of the footprint, and check what commits rely on.
    Enter {
        /// The number of the batch.
        number: u64,
        /// The keys of this site that the batch names.
        footprint: Footprint,
        /// The checks.
        checks: Vec<Check>,
    },
    /// Mark the partitions as publishing, and propose a time. All sites have entered: a batch waits
    /// for no lock while readers wait for it.
    Propose {
        /// The number of the batch.
        number: u64,
    },
    /// Write the rows of the applied commits, and release the partitions.
    Install {
        /// The batch, and earlier ones that the order may not have durably. The last one is this.
        outcomes: Vec<BatchOutcome>,
        /// The rows of this site, ordered by table and key.
        writes: Vec<RowWrite>,
        /// True if the batch may have been installed before. Partitions that have it are skipped.
        is_repeated: bool,
    },
    /// Release the partitions of a batch that is entered again.
    Leave,
    /// Make everything durable that was installed.
    Settle,
}

/// The answer of a site.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum BatchAnswer {
    /// It has entered. For each check, the number of rows; `None` if the rows have changed.
    Entered(Vec<Option<u64>>),
    /// The commit time must not be before this time.
    Proposed(Time),
    /// The step is done.
    Done,
}

/// The batch that a site has entered.
pub(crate) struct EnteredBatch {
    number: u64,
    held: Held,
    answers: Vec<Option<u64>>,
    /// The proposed time, once its partitions are marked.
    proposal: Option<Time>,
}

/// The number under which a batch holds a feed open. No site coordinates it.
pub(crate) fn batch_id(number: u64) -> TxnId {
    TxnId { coordinator: SiteId(0), incarnation: 0, number }
}

/// A site, as a part of batches.
pub struct OrderedSite<'s>(pub &'s Site);

impl OrderedSite<'_> {
    /// Carries out a step of a batch. Batches come one after the other.
    ///
    /// # Errors
    /// [`Failure::NotHere`] and [`Failure::NotMaster`] if the batch has to be routed again;
    /// [`Failure::Log`] if the log refuses the frame: the step can be repeated.
    pub async fn take(&self, step: BatchStep) -> Result<BatchAnswer, Failure> {
        match step {
            BatchStep::Enter { number, footprint, checks } => {
                self.enter_batch(number, &footprint, &checks).await
            }
            BatchStep::Propose { number } => self.propose_time(number).map(BatchAnswer::Proposed),
            BatchStep::Install { outcomes, writes, is_repeated } => {
                let (seen, own) = self.install_batch(&outcomes, &writes, is_repeated)?;
                if !own.is_empty() {
                    self.0.safe(seen, &own).await.map_err(Failure::Unknown)?;
                }
                Ok(BatchAnswer::Done)
            }
            BatchStep::Leave => {
                self.leave_batch();
                Ok(BatchAnswer::Done)
            }
            BatchStep::Settle => {
                self.0.lasting_for_others(self.0.log.end()).await?;
                Ok(BatchAnswer::Done)
            }
        }
    }

    /// The outcomes in its newest frame of a batch.
    pub fn outcomes(&self) -> Vec<BatchOutcome> {
        self.0.batch_outcomes.lock().clone()
    }

    async fn enter_batch(
        &self,
        number: u64,
        footprint: &Footprint,
        checks: &[Check],
    ) -> Result<BatchAnswer, Failure> {
        if let Some(entered) = self.0.batch.lock().as_ref().filter(|it| it.number == number) {
            return Ok(BatchAnswer::Entered(entered.answers.clone()));
        }
        until_sole(self.0).await?;
        self.leave_batch();
        let (mut held, mut context) = (Held::default(), self.0.context()?);
        let answers = loop {
            let attempt = |waker: &Waker| {
                self.try_enter_batch(footprint, checks, &mut held, &mut context, waker)
            };
            match once(attempt).await? {
                Ok(answers) => break answers,
                Err(Wait) => woken().await,
            }
        };
        drop(context);
        let entered = EnteredBatch { number, held, answers: answers.clone(), proposal: None };
        *self.0.batch.lock() = Some(entered);
        Ok(BatchAnswer::Entered(answers))
    }

    fn propose_time(&self, number: u64) -> Result<Time, Failure> {
        let mut entered = self.0.batch.lock();
        let batch = entered.as_mut().filter(|it| it.number == number);
        let batch = batch.ok_or(Failure::Participant(self.0.id))?;
        Ok(*batch.proposal.get_or_insert_with(|| {
            batch.held.iter().for_each(|partition| self.0.begin_publishing(partition));
            self.0.sequencer.lock().propose(
                &self.0.store.clock,
                self.0.time.now(),
                batch_id(number),
            )
        }))
    }

    fn try_enter_batch(
        &self,
        footprint: &Footprint,
        checks: &[Check],
        held: &mut Held,
        context: &mut Context<'_>,
        waker: &Waker,
    ) -> Result<Result<Vec<Option<u64>>, Wait>, Failure> {
        let tables = self.0.tables();
        let maps = Maps::load(&tables, footprint.items().iter());
        let resolved = self.0.resolve(&maps, footprint)?;
        if self.0.lock_written(footprint, &resolved, held, waker)?.is_err() {
            return Ok(Err(Wait));
        }
        // The partitions are locked, so the newest versions are those before the batch.
        context.hold();
        let answers = checks.iter().map(|check| self.check(check, context)).collect();
        context.unpin();
        Ok(Ok(answers))
    }

    fn check(&self, check: &Check, context: &Context<'_>) -> Option<u64> {
        let table = self.0.table(check.table)?;
        let newest = |key: &Key| {
            let guard = pin();
            let mut spot = table.index.spot(key, &guard);
            let row = context.newest(&mut spot, key, &guard);
            row.filter(|row| row.value().is_some()).map(Row::time)
        };
        match (check.sees, &check.span) {
            (Sees::Version(version), Span::Key(key)) => (newest(key) == version).then_some(1),
            (Sees::Version(_), Span::Range(_)) => None,
            (Sees::Since(at), Span::Key(key)) => match newest(key) {
                Some(time) => (time <= at).then_some(1),
                None => Some(0),
            },
            (Sees::Since(at), Span::Range(range)) => {
                let (mut rows, mut is_newer) = (0, false);
                context.scan_newest(&table.index, range, |row| {
                    if row.value().is_some() {
                        rows += 1;
                        is_newer |= row.time() > at;
                    }
                    if is_newer { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
                (!is_newer).then_some(rows)
            }
        }
    }

    fn install_batch(
        &self,
        outcomes: &[BatchOutcome],
        writes: &[RowWrite],
        is_repeated: bool,
    ) -> Result<(Seen, Tickets), Failure> {
        let nothing = (Seen::default(), Tickets::new());
        let Some(BatchOutcome { number, time, .. }) = outcomes.last() else { return Ok(nothing) };
        let (number, time) = (*number, *time);
        let mut entered = self.0.batch.lock();
        let Some(batch) = entered.take_if(|it| it.number == number) else { return Ok(nothing) };
        let proposal = batch.proposal.expect("a batch is installed once its sites have proposed");
        assert!(is_repeated || proposal <= time, "a commit is not before what was proposed");
        let mut frame = FrameWriter::new(FrameKind::Batch(outcomes.to_vec()));
        let (written, rows) = written(&batch.held, writes, time, is_repeated, &mut frame);
        let (mut own, mut position) = (Tickets::new(), 0);
        if !written.is_empty() {
            let followers = written.iter().map(|partition| partition.followers());
            let appended = self.0.context().and_then(|context| {
                Ok((context, self.append(batch_id(number), frame, time, followers)?))
            });
            match appended {
                Ok((context, end)) => {
                    position = end;
                    *self.0.batch_outcomes.lock() = outcomes.to_vec();
                    own = self.install_all(context, &written, &rows, (time, position));
                }
                Err(failure) => {
                    *entered = Some(batch);
                    return Err(failure);
                }
            }
        }
        self.0.sequencer.lock().end_proposal(batch_id(number));
        // The rows that were read stay until the commit: later commits here get later times.
        self.0.store.clock.raise(time);
        for partition in batch.held.iter() {
            if !written.iter().any(|other| Arc::ptr_eq(other, partition)) {
                partition.cancel_publishing();
            }
        }
        Ok((Seen { position, ticket: 0 }, own))
    }

    fn install_all(
        &self,
        mut context: Context<'_>,
        written: &[Arc<SitePartition>],
        rows: &[&RowWrite],
        (time, position): (Time, Position),
    ) -> Tickets {
        context.hold();
        let guard = pin();
        for RowWrite { table, key, value } in rows {
            let table = self.0.table_or_new(*table);
            let mut spot = table.index.spot(key, &guard);
            context.install(&table.index, &mut spot, key, value.as_deref(), time, &guard);
        }
        drop(guard);
        let mut own = Tickets::new();
        for partition in written {
            let backups = self.0.table_or_new(partition.table).backups();
            own.extend(self.0.open_ticket(backups, partition, partition.version() + 1));
            if backups.count > 0 {
                partition.set_position(position);
            }
            partition.end_publishing(partition.version() + 1, time);
        }
        context.unpin();
        context.collect_some();
        own
    }

    fn leave_batch(&self) {
        let left = self.0.batch.lock().take().filter(|batch| batch.proposal.is_some());
        if let Some(batch) = left {
            batch.held.iter().for_each(|partition| partition.cancel_publishing());
            self.0.sequencer.lock().end_proposal(batch_id(batch.number));
        }
    }

    /// Gives a batch its position in the log; the time is that of all its sites.
    fn append(
        &self,
        batch: TxnId,
        mut frame: FrameWriter,
        time: Time,
        followers: impl Iterator<Item = SiteSet>,
    ) -> Result<Position, LogError> {
        let followers = followers.collect();
        self.0.store.clock.raise(time);
        let mut sequencer = self.0.sequencer.lock();
        let position = sequencer.enter(&*self.0.log, &mut frame, time, followers, false)?;
        sequencer.end_proposal(batch);
        Ok(position)
    }
}

/// Adds the rows to a frame, as records of their partitions. Returns the partitions and the rows
/// that are written.
fn written<'w>(
    held: &Held,
    writes: &'w [RowWrite],
    time: Time,
    is_repeated: bool,
    frame: &mut FrameWriter,
) -> (Vec<Arc<SitePartition>>, Vec<&'w RowWrite>) {
    let (mut written, mut rows): (Vec<Arc<SitePartition>>, _) = (Vec::new(), Vec::new());
    for write in writes {
        let covers = |p: &SitePartition| p.table == write.table && p.range.contains(&write.key);
        if !written.last().is_some_and(|last| covers(last)) {
            let partition = held.iter().find(|p| covers(p)).expect("what is written is locked");
            if is_repeated && partition.last() >= time {
                continue;
            }
            if !written.is_empty() {
                frame.close_write();
            }
            frame.open_write(partition.table, &partition.range.start, partition.version());
            written.push(partition.clone());
        }
        frame.row(&write.key, write.value.as_deref());
        rows.push(write);
    }
    if !written.is_empty() {
        frame.close_write();
    }
    (written, rows)
}
