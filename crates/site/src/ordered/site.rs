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
        /// Counts the attempts to enter batches. An attempt that follows another keeps its locks.
        attempt: u64,
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
    /// Write the rows of the applied commits, and release the partitions. Done once backups have
    /// the rows: an attempt that finds rows of an earlier one waits for all open tickets of the
    /// site.
    Install {
        /// The batch, and earlier ones that the order may not have durably. The last one is this.
        outcomes: Vec<BatchOutcome>,
        /// The rows of this site, ordered by table and key.
        writes: Vec<RowWrite>,
        /// True if the batch may have been installed before. Partitions that have it are skipped.
        is_repeated: bool,
    },
    /// Release the partitions of a batch that is entered again, or of a site that
    /// [waits](OrderedSite::wait_for_order) for this.
    Leave,
    /// Make everything durable that was installed, up to the batch of this number.
    Settle {
        /// The number of the last batch; 0: whichever there is.
        number: u64,
    },
    /// Tell the outcomes in the newest frame of a batch.
    Tell,
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
    /// Outcomes of batches.
    Outcomes(Vec<BatchOutcome>),
}

/// The batch of a site, if it has one.
#[derive(Default)]
pub(crate) struct BatchPlace {
    entered: Option<EnteredBatch>,
    /// Counts the requests to enter or to leave: a later one ends those that still wait.
    requests: u64,
    /// A request keeps the locks of an earlier attempt, and may wait for locks before those.
    is_out_of_order: bool,
}

impl BatchPlace {
    /// True while a batch is entered that may have to wait for a lock before those that it has:
    /// partitions may have come here since its earlier attempt, and what that has marked stays
    /// locked. A task that holds a lock and waits for more lets it go first.
    pub(crate) fn waits_out_of_order(&self) -> bool {
        self.is_out_of_order
    }

    /// Ends the hold of a partition that the site is to drop, because others have taken over from
    /// it. The order may itself wait for a takeover that waits for this drop.
    pub(crate) fn wait_no_more(&mut self, partition: &Arc<SitePartition>) {
        let waiting = self.entered.as_mut().filter(|it| it.number == 0);
        if waiting.is_some_and(|it| it.held.release_one(partition)) {
            partition.cancel_publishing();
        }
    }
}

/// The batch that a site has entered, or the partitions that it holds until it is asked to enter
/// one.
#[derive(Default)]
struct EnteredBatch {
    number: u64,
    attempt: u64,
    held: Held,
    answers: Vec<Option<u64>>,
    /// The name under which feeds are held open, once partitions are marked.
    marked_for: Option<TxnId>,
    /// The time that this attempt has proposed.
    proposed: Option<Time>,
}

/// A batch that a site is about to enter. If this is dropped, the partitions that were marked
/// before stay so.
struct Entering<'s> {
    site: &'s Site,
    batch: EnteredBatch,
    /// The partitions that are marked.
    marked: Vec<Arc<SitePartition>>,
    /// It has the locks of an earlier attempt.
    follows: bool,
}

impl Entering<'_> {
    /// Takes the place of an earlier attempt, or of a site that waits.
    fn follow(&mut self, earlier: EnteredBatch) {
        if earlier.marked_for.is_some() {
            self.marked.extend(earlier.held.iter().cloned());
            self.batch.marked_for = earlier.marked_for;
        }
        self.batch.held.absorb(earlier.held);
    }

    fn is_marked(&self, partition: &Arc<SitePartition>) -> bool {
        self.marked.iter().any(|marked| Arc::ptr_eq(marked, partition))
    }
}

impl Drop for Entering<'_> {
    fn drop(&mut self) {
        let mut batch = std::mem::take(&mut self.batch);
        let mut place = self.site.batch.lock();
        place.is_out_of_order &= !self.follows;
        let Some(marked_for) = batch.marked_for else { return };
        batch.held.keep_only(&self.marked);
        if place.entered.is_none() {
            place.entered = Some(batch);
            return;
        }
        // A later attempt has entered without these partitions, so the batch has no part in them.
        batch.held.iter().for_each(|partition| partition.cancel_publishing());
        self.site.sequencer.lock().end_proposal(marked_for);
    }
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
            BatchStep::Enter { number, attempt, footprint, checks } => {
                self.enter_batch((number, attempt), &footprint, &checks).await
            }
            BatchStep::Propose { number } => self.propose_time(number).map(BatchAnswer::Proposed),
            BatchStep::Install { outcomes, writes, is_repeated } => {
                let (seen, own) = self.install_batch(&outcomes, &writes, is_repeated)?;
                if !own.is_empty() || seen.ticket > 0 {
                    self.0.safe(seen, &own).await.map_err(Failure::Unknown)?;
                }
                Ok(BatchAnswer::Done)
            }
            BatchStep::Leave => {
                self.leave_batch();
                Ok(BatchAnswer::Done)
            }
            BatchStep::Settle { number } => {
                // If the site has restarted since, the batch may be lost.
                if !self.has_batch(number) {
                    return Err(Failure::Participant(self.0.id));
                }
                self.0.lasting_for_others(self.0.log.end()).await?;
                Ok(BatchAnswer::Done)
            }
            BatchStep::Tell => Ok(BatchAnswer::Outcomes(self.outcomes())),
        }
    }

    /// True if it has had a part in a batch.
    pub fn has_batches(&self) -> bool {
        !self.0.batch_outcomes.lock().is_empty()
    }

    /// Holds all partitions that the site masters, so that no reader sees them, until a batch has
    /// entered and ended, or [`BatchStep::Leave`] says that the site lacks nothing. For a site that
    /// has recovered while others went on: a crash may have taken frames that the order has.
    ///
    /// The batch that it lacks may have any time after the last one that it has. Its followers must
    /// not show a later time without that batch.
    pub fn wait_for_order(&self) {
        let mut held = Held::default();
        for table in self.0.tables().iter() {
            for (_, partition) in table.partitions.load().iter() {
                // A partition with a prepared transaction is held by that.
                if partition.is_master() && held.lock_once(partition).is_ok() {
                    self.0.begin_publishing(partition);
                }
            }
        }
        let last = self.0.batch_outcomes.lock().last().map_or(Time::ZERO, |last| last.time);
        self.0.sequencer.lock().hold_open(batch_id(0), Time(last.0 + 1));
        let marked_for = Some(batch_id(0));
        let waiting = EnteredBatch { held, marked_for, ..EnteredBatch::default() };
        self.0.batch.lock().entered = Some(waiting);
    }

    fn propose_for(&self, batch: TxnId) -> Time {
        self.0.sequencer.lock().propose(&self.0.store.clock, self.0.time.now(), batch)
    }

    /// True if the site has its part of a batch.
    fn has_batch(&self, number: u64) -> bool {
        number == 0 || self.0.batch_outcomes.lock().last().is_some_and(|it| it.number >= number)
    }

    /// Keeps the outcomes of a batch, unless those of a later one are kept. After a crash, batches
    /// are repeated from the oldest on, while the site may have rows of the newest.
    pub(crate) fn keep_outcomes(&self, outcomes: &[BatchOutcome]) {
        let number = |outcomes: &[BatchOutcome]| outcomes.last().map_or(0, |last| last.number);
        let mut kept = self.0.batch_outcomes.lock();
        if number(outcomes) >= number(&kept) {
            *kept = outcomes.to_vec();
        }
    }

    /// The outcomes of the newest batch, and of those before that the order may not have.
    fn outcomes(&self) -> Vec<BatchOutcome> {
        self.0.batch_outcomes.lock().clone()
    }

    async fn enter_batch(
        &self,
        (number, attempt): (u64, u64),
        footprint: &Footprint,
        checks: &[Check],
    ) -> Result<BatchAnswer, Failure> {
        let request = {
            let mut place = self.0.batch.lock();
            let is_this = |it: &&EnteredBatch| (it.number, it.attempt) == (number, attempt);
            if let Some(entered) = place.entered.as_ref().filter(is_this) {
                return Ok(BatchAnswer::Entered(entered.answers.clone()));
            }
            place.requests += 1;
            place.requests
        };
        until_sole(self.0).await?;
        let (batch, marked) = Default::default();
        let mut entering = Entering { site: self.0, batch, marked, follows: false };
        let mut context = self.0.context()?;
        let answers = loop {
            {
                let mut place = self.0.batch.lock();
                if place.requests != request {
                    return Err(Failure::Participant(self.0.id));
                }
                // It holds partitions that readers must not see yet.
                if let Some(earlier) = place.entered.take() {
                    entering.follow(earlier);
                    (place.is_out_of_order, entering.follows) = (true, true);
                }
            }
            let held = &mut entering.batch.held;
            let attempt =
                |waker: &Waker| self.try_enter_batch(footprint, checks, held, &mut context, waker);
            match once(attempt).await? {
                Ok(answers) => break answers,
                Err(Wait) => woken().await,
            }
        };
        drop(context);
        let mut place = self.0.batch.lock();
        if place.requests != request {
            drop(place);
            return Err(Failure::Participant(self.0.id));
        }
        let mut batch = std::mem::take(&mut entering.batch);
        if batch.marked_for.is_some() {
            let is_marked = |it: &Arc<SitePartition>| entering.is_marked(it);
            batch
                .held
                .iter()
                .filter(|it| !is_marked(it))
                .for_each(|it| self.0.begin_publishing(it));
        }
        (batch.number, batch.attempt) = (number, attempt);
        batch.answers.clone_from(&answers);
        place.entered = Some(batch);
        Ok(BatchAnswer::Entered(answers))
    }

    fn propose_time(&self, number: u64) -> Result<Time, Failure> {
        let mut place = self.0.batch.lock();
        let batch = place.entered.as_mut().filter(|it| it.number == number);
        let batch = batch.ok_or(Failure::Participant(self.0.id))?;
        if let Some(time) = batch.proposed {
            return Ok(time);
        }
        let time = match batch.marked_for {
            None => {
                batch.held.iter().for_each(|partition| self.0.begin_publishing(partition));
                batch.marked_for = Some(batch_id(number));
                self.propose_for(batch_id(number))
            }
            // Feeds are held open from an earlier time on. Partitions that this attempt has added
            // may have later events.
            Some(_) => self.0.store.clock.tick(self.0.time.now()),
        };
        batch.proposed = Some(time);
        Ok(time)
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
        let nothing = || (Seen::default(), Tickets::new());
        let Some(BatchOutcome { number, time, .. }) = outcomes.last() else { return Ok(nothing()) };
        let (number, time) = (*number, *time);
        let mut place = self.0.batch.lock();
        let Some(batch) = place.entered.take_if(|it| it.number == number) else {
            // The batch is here already, or the site has restarted since it entered.
            return match self.has_batch(number) {
                true => Ok((Seen { position: 0, ticket: self.0.last_ticket() }, Tickets::new())),
                false => Err(Failure::Participant(self.0.id)),
            };
        };
        let Some((marked_for, proposed)) = batch.marked_for.zip(batch.proposed) else {
            place.entered = Some(batch);
            return Err(Failure::Participant(self.0.id));
        };
        assert!(is_repeated || proposed <= time, "a commit is not before what was proposed");
        let mut frame = FrameWriter::new(FrameKind::Batch(outcomes.to_vec()));
        let (written, rows) = written(&batch.held, writes, time, is_repeated, &mut frame);
        let (mut own, mut position) = (Tickets::new(), 0);
        if !written.is_empty() {
            let followers = written.iter().map(|partition| partition.followers());
            let appended = self.0.context().and_then(|context| {
                Ok((context, self.append(marked_for, frame, time, followers)?))
            });
            match appended {
                Ok((context, end)) => {
                    position = end;
                    self.keep_outcomes(outcomes);
                    own = self.install_all(context, &written, &rows, (time, position));
                }
                Err(failure) => {
                    place.entered = Some(batch);
                    return Err(failure);
                }
            }
        }
        if written.is_empty() {
            self.keep_outcomes(outcomes);
        }
        self.0.sequencer.lock().end_proposal(marked_for);
        // The rows that were read stay until the commit: later commits here get later times.
        self.0.store.clock.raise(time);
        for partition in batch.held.iter() {
            if !written.iter().any(|other| Arc::ptr_eq(other, partition)) {
                partition.cancel_publishing();
            }
        }
        // An earlier attempt may have written rows here, and opened tickets for them.
        let ticket = if is_repeated { self.0.last_ticket() } else { 0 };
        Ok((Seen { position, ticket }, own))
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
        let left = {
            let mut place = self.0.batch.lock();
            place.requests += 1;
            place.entered.take()
        };
        let Some(left) = left else { return };
        if let Some(marked_for) = left.marked_for {
            left.held.iter().for_each(|partition| partition.cancel_publishing());
            self.0.sequencer.lock().end_proposal(marked_for);
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
