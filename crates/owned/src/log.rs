//! A log in a partition, for the process that owns it, driven by threads. The decisions are in
//! [`owned`](crate::owned).
//!
//! A **sync** executes one [`Step`] after the other, and waits for the carrier where a step says.
//! If the carrier does not answer within [`LONGEST`], it returns, and the next sync continues to
//! wait, because the flusher has other work. It ends the log if another process has claimed it
//! ([`LogError::Fenced`]), or if the carrier doubts that a record was written
//! ([`LogError::Failed`]), as Kafka's does after [`Timeouts::write`](crate::Timeouts::write).

use crate::edge::{clock, pause};
use crate::owned::{OpenReport, Opening, Options, OwnedLog, Sent, Step, VisitRecord};
use crate::partition::{Partition, Refused, Written};
use crate::record::{Offset, Term};
use isomer_cluster::ClaimNote;
use isomer_log::{Counters, Log, LogError, OpenError, Position};
use parking_lot::Mutex;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

/// How long a sync waits for the carrier before it returns to the flusher, which serves a site.
const LONGEST: Duration = Duration::from_millis(500);
/// How long closing a log waits until its release is written.
const RELEASE: Duration = Duration::from_secs(2);
/// The pause before the next attempt to read a record that is not visible yet.
const AGAIN: Duration = Duration::from_millis(20);

/// A log in a partition. See the [module documentation](self).
pub struct PartitionLog<P: Partition> {
    owned: OwnedLog,
    partition: P,
    /// One sync at a time.
    syncing: Mutex<()>,
    /// Where the claim is recorded. The note's folder stays locked while this process has the log.
    note: Option<ClaimNote>,
    is_noted: AtomicBool,
}

/// Reads the records that are there.
fn read(partition: &impl Partition, opening: &mut Opening) -> Result<(), Refused> {
    let (mut broken, next) = (None, opening.next());
    partition.read(
        next,
        &mut |Written { offset, record, .. }| match opening.take(offset, record) {
            Ok(flow) => flow,
            Err(error) => {
                broken = Some(error);
                ControlFlow::Break(())
            }
        },
    )?;
    broken.map_or(Ok(()), |error| Err(Refused(error.to_string())))
}

/// Reads up to the claim.
fn read_claim(
    partition: &impl Partition,
    opening: &mut Opening,
    timeout: Duration,
) -> Result<(), Refused> {
    let begun = clock();
    loop {
        read(partition, opening)?;
        if opening.has_read_claim() {
            return Ok(());
        }
        // A broker or member that has just become the leader may return fewer records than it has.
        if clock() - begun > timeout {
            return Err(Refused("what was written cannot be read".to_owned()));
        }
        pause(AGAIN);
    }
}

/// The newest record that this process has received, and the time at which it had it.
fn received(partition: &impl Partition) -> Option<(Offset, Duration)> {
    // Before the question, so that its duration does not count.
    let now = clock();
    let newest = partition.newest()?;
    Some((newest.offset, now.saturating_sub(newest.age)))
}

impl<P: Partition> PartitionLog<P> {
    /// Opens and claims the log in a partition. `place` names the partition in messages. `number`
    /// is the number of the log in its database, `name` the name of this process in messages of
    /// others.
    ///
    /// # Errors
    /// [`OpenError::Elsewhere`], which names the partition.
    pub fn open(
        partition: P,
        place: &Arc<str>,
        database: u128,
        number: u32,
        name: &str,
        options: Options,
    ) -> Result<(PartitionLog<P>, OpenReport), OpenError> {
        let opened = PartitionLog::claim(partition, database, number, name, options, place);
        let opened = opened.and_then(|(log, report)| {
            log.confirm(log.partition.timeouts().ask).map_err(Refused)?;
            Ok((log, report))
        });
        opened.map_err(|Refused(what)| OpenError::Elsewhere { place: place.to_string(), what })
    }

    fn claim(
        partition: P,
        database: u128,
        number: u32,
        name: &str,
        options: Options,
        place: &Arc<str>,
    ) -> Result<(PartitionLog<P>, OpenReport), Refused> {
        let ask = partition.timeouts().ask;
        let (first, end) = partition.bounds()?;
        if options.must_exist && first == end {
            return Err(Refused("it is empty, although the log was made before".to_owned()));
        }
        let mut opening = Opening::new(place.clone(), database, number, first, options);
        read(&partition, &mut opening)?;
        let drawn =
            getrandom::u64().map_err(|error| Refused(format!("no random number: {error}")))?;
        let received = received(&partition);
        let claim = opening.claim(drawn, name).map_err(Refused)?;
        match partition.send(&claim, ask) {
            Some(Sent::Written(_)) => {}
            Some(Sent::Doubtful(why)) => {
                return Err(Refused(format!("it cannot be written: {why}")));
            }
            None => {
                let why = partition.why();
                return Err(Refused(format!("it cannot be written in {} s{why}", ask.as_secs())));
            }
        }
        read_claim(&partition, &mut opening, ask)?;
        let (owned, report) = opening.own(clock(), received).map_err(Refused)?;
        partition.rest();
        Ok((
            PartitionLog {
                owned,
                partition,
                syncing: Mutex::new(()),
                note: None,
                is_noted: false.into(),
            },
            report,
        ))
    }

    /// Writes the first record of the term, which confirms the claim.
    fn confirm(&self, longest: Duration) -> Result<(), String> {
        let until = clock() + longest;
        self.drive(until).map_err(|error| error.to_string())?;
        match self.owned.next_offset() {
            Some(_) => Ok(()),
            None => Err(format!("it cannot be written{}", self.partition.why())),
        }
    }

    /// Sets the note in which the claim is recorded once its wait is over. With that note, a
    /// restart in the same folder needs no wait.
    pub(crate) fn noted(mut self, note: Option<ClaimNote>) -> PartitionLog<P> {
        self.note = note;
        self.note_claim();
        self
    }

    fn note_claim(&self) {
        if let Some(note) = &self.note
            && self.owned.has_waited(clock())
            && !self.is_noted.swap(true, Ordering::AcqRel)
        {
            note.write(&self.term().to_note());
        }
    }

    /// The latest term in which this process owns or owned the log.
    pub fn term(&self) -> Term {
        self.owned.term()
    }

    /// Sends everything appended so far and waits for the answers, until `until` at the latest.
    fn drive(&self, until: Duration) -> Result<(), LogError> {
        let end = self.end();
        loop {
            match self.owned.step(clock())? {
                Step::Send(record) => self.partition.start(&record),
                Step::Await => match self.partition.wait(until.saturating_sub(clock())) {
                    Some(sent) => self.owned.answered(sent)?,
                    None => return Ok(()),
                },
                Step::ReadBack(from) => self.read_back(from)?,
                Step::Wait(moment) if moment > until => {
                    pause(until.saturating_sub(clock()));
                    return Ok(());
                }
                Step::Wait(moment) => pause(moment.saturating_sub(clock())),
                Step::Rest => return Ok(()),
            }
            // Frames appended during this sync are left to the next one.
            if self.owned.next_offset().is_some() && self.durable() >= end {
                return Ok(());
            }
        }
    }

    /// Reads back records from `from` on, until this shows whether the record in flight counts.
    fn read_back(&self, from: Offset) -> Result<(), LogError> {
        let (begun, mut from) = (clock(), from);
        loop {
            let mut ended = None;
            let read = self.partition.read(from, &mut |Written { offset, record, .. }| {
                from = offset + 1;
                let taken = self.owned.read_back(offset, record);
                let flow = taken.as_ref().map_or(ControlFlow::Break(()), |flow| *flow);
                if flow.is_break() {
                    ended = Some(taken.map(|_| ()));
                }
                flow
            });
            if let Some(ended) = ended {
                self.partition.rest();
                return ended;
            }
            if read.is_err()
                && let Ok((first, _)) = self.partition.bounds()
            {
                self.owned.begins_at(first)?;
            }
            // Like a write, a read is retried until the write timeout.
            if clock() - begun > self.partition.timeouts().write {
                let why = read.err().map_or_else(String::new, |why| format!(": {why}"));
                return Err(self.owned.fail(&format!("a record was not found again{why}")));
            }
            pause(AGAIN);
        }
    }
}

impl<P: Partition> Log for PartitionLog<P> {
    fn append(&self, payload: &[u8]) -> Result<Position, LogError> {
        self.owned.append(payload)
    }

    fn end(&self) -> Position {
        self.owned.end()
    }

    fn durable(&self) -> Position {
        self.owned.durable()
    }

    fn begin(&self) -> Position {
        self.owned.begin()
    }

    fn sync(&self) -> Result<Position, LogError> {
        let _syncing = self.syncing.lock();
        self.drive(clock() + LONGEST)?;
        if self.owned.next_offset().is_none() {
            // Makes `poll_work` ready, so that the flusher calls again.
            self.owned.ask();
        }
        Ok(self.durable())
    }

    fn poll_durable(&self, position: Position, waker: &Waker) -> Poll<Result<(), LogError>> {
        self.owned.poll_durable(position, waker)
    }

    fn poll_work(&self, waker: &Waker) -> Poll<Result<(), LogError>> {
        self.owned.poll_work(waker)
    }

    fn read(
        &self,
        from: Position,
        visit: &mut dyn FnMut(Position, &[u8]) -> ControlFlow<()>,
    ) -> Result<Position, LogError> {
        let records = |offset, visit: &mut VisitRecord<'_>| {
            let mut visit = |Written { offset, record, .. }: Written<'_>| visit(offset, record);
            self.partition.read(offset, &mut visit).map_err(|Refused(what)| what)
        };
        self.owned.read(from, &records, visit)
    }

    fn truncate_before(&self, position: Position) -> Result<(), LogError> {
        let remove = |offset| self.partition.remove_before(offset).map_err(|Refused(what)| what);
        self.owned.truncate_before(position, &remove)
    }

    fn counters(&self) -> Counters {
        self.owned.counters()
    }

    fn look_for_others(&self) {
        self.note_claim();
        // A log that is writing finds out by its writes. If the carrier does not answer, a later
        // call asks again.
        if let (Some(next), Some(end)) = (self.owned.next_offset(), self.partition.end())
            && end > next
        {
            self.owned.ask();
        }
    }

    fn failure(&self) -> Option<LogError> {
        self.owned.failure()
    }

    fn serving(&self) -> Result<(), LogError> {
        self.owned.serving(clock())
    }

    fn is_sole(&self) -> bool {
        self.owned.has_waited(clock())
    }
}

impl<P: Partition> Drop for PartitionLog<P> {
    /// Releases the log, so that the next owner need not wait. The site must serve no more reads.
    fn drop(&mut self) {
        if self.owned.next_offset().is_none() && self.owned.failure().is_none() {
            let _ = self.drive(clock() + RELEASE);
        }
        if let Some(release) = self.owned.release(clock()) {
            // If the release is not written, the next owner waits for the lease.
            let _ = self.partition.send(&release, RELEASE);
        }
    }
}
