//! A log for its owner, without a carrier: a state machine whose inputs are answers of the carrier
//! and the time, and whose outputs are steps.
//!
//! ```text
//!   append ──copy──▶ tail (in memory) ──step: one record a group commit──▶ Send ┄┄▶ partition
//!                     │  the last 64 MB are kept here            answered ◀┄┄┄┄┄┄┄┄┄┘
//!   read ◀────────────┴──────────── older frames, through a function that reads the partition
//! ```
//!
//! The tail is a [`MemoryLog`], with its positions and wakers; only the way it becomes durable is
//! different here. The stream of the tail is that of the partition ([`stream`](crate::stream)), so
//! positions are the same.
//!
//! # Steps
//!
//! | step | the driver's action | its report |
//! | --- | --- | --- |
//! | [`Send`](Step::Send) | sends the record to the carrier | |
//! | [`Await`](Step::Await) | waits for the answer, or a timeout | [`OwnedLog::answered`] |
//! | [`ReadBack`](Step::ReadBack) | reads the partition from there on | [`OwnedLog::read_back`] |
//! | [`Wait`](Step::Wait) | waits until then, as the earlier owner may serve reads | |
//! | [`Rest`](Step::Rest) | none: everything is durable | |
//!
//! One record is in flight at a time, and the next one is sent once it is known to count
//! ([`ownership`](crate::ownership)). All decisions are made here, so the simulator runs the same
//! code, with a partition and a clock of its own. [`PartitionLog`](crate::PartitionLog) drives
//! it with threads.
//!
//! An **index** with an entry every [`Options::indexed`] bytes or records gives the offset to read
//! from for a position, and the places to cut.
//!
//! **Locks**, in this order: `writing`, `index`, those of the tail. None is held during a wait.

use crate::lease::{Times, WAITS};
use crate::ownership::{Acknowledged, Broken, Owner, Reader, Verdict};
use crate::record::{FRAME_HEAD_BYTES, HEAD_BYTES, Head, Kind, Offset, Term};
use crate::stream::{Assembly, Cut, Piece};
use isomer_log::{Counters, Durability, Log, LogError, MemoryLog, MemoryOptions, Position};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

/// Bytes of the tail that are cut into records at a time, which limits the copy.
const SENT_AT_ONCE: u64 = 16 << 20;
/// Bytes that are read back from the partition at a time.
const READ_AT_ONCE: usize = 4 << 20;
/// The body of a record that only confirms the ownership.
const NOTHING: Piece = Piece { bytes: Vec::new(), first: 0, whole: 0 };
/// Room in a record for the bytes that the carrier adds to its value.
const AROUND_BYTES: usize = 512;

/// The options of a log in a partition. None of them is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// The durability that a commit waits for.
    pub durability: Durability,
    /// Limit on the bytes that wait for the carrier: beyond it `append` fails
    /// ([`LogError::Backlog`]).
    pub backlog_bytes: u64,
    /// Bytes of the end of the log that are kept in memory for followers; at least the backlog.
    pub keep_bytes: u64,
    /// The kept bytes are dropped in segments of about this length.
    pub segment_bytes: usize,
    /// The index has an entry after this many bytes of the stream, or this many records. Reads and
    /// cuts begin at entries.
    pub indexed: (u64, u64),
    /// The maximal length of a record, head included, which the carrier must accept.
    pub record_bytes_max: usize,
    /// The log was created earlier: if it is empty, opening fails instead of creating a new log.
    pub must_exist: bool,
    /// The log must begin at or before this position, up to which a checkpoint replaces it. `None`:
    /// anywhere.
    pub needed: Option<Position>,
    /// A term whose owner has provably ended and serves no reads. (That owner's own wait for the
    /// owner before it was over.)
    pub ended: Option<Term>,
    /// The intervals of the lease.
    pub times: Times,
}

impl Default for Options {
    /// A backlog of 64 MiB, as much kept, records of a megabyte, commits that wait, and a new log
    /// if there is none.
    fn default() -> Options {
        Options {
            durability: Durability::Commit,
            backlog_bytes: 64 << 20,
            keep_bytes: 64 << 20,
            segment_bytes: MemoryOptions::default().segment_bytes,
            indexed: (64 << 10, 1000),
            record_bytes_max: 1_000_000,
            must_exist: false,
            needed: None,
            ended: None,
            times: Times::default(),
        }
    }
}

/// The result of opening a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenReport {
    /// The term in which this process owns the log.
    pub term: Term,
    /// The earlier owner, unless it has released the log or is known to have ended. Commits then
    /// wait until its lease is over.
    pub taken_from: Option<Arc<str>>,
    /// How long commits wait for that.
    pub waits: Duration,
}

/// The offsets of some records that begin with a frame or are empty, and of the first that counts.
struct Index {
    entries: VecDeque<(Position, Offset)>,
    /// See [`Options::indexed`].
    every: (u64, u64),
}

impl Index {
    fn note(&mut self, head: &Head, offset: Offset) {
        let Some((position, at)) = self.entries.back() else {
            self.entries.push_back((head.position + u64::from(head.first), offset));
            return;
        };
        let is_due = head.position >= position + self.every.0 || offset >= at + self.every.1;
        if is_due && (head.first == 0 || head.bytes == 0) {
            self.entries.push_back((head.position, offset));
        }
    }

    /// The last entry at or before a position.
    fn before(&self, position: Position) -> Option<(Position, Offset)> {
        let after = self.entries.partition_point(|(at, _)| *at <= position);
        after.checked_sub(1).map(|at| self.entries[at])
    }
}

/// The outcome of sending a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sent {
    /// The record was written; at this offset, if the carrier reports it.
    Written(Option<Offset>),
    /// The record was not written, or its outcome is unknown, for this reason.
    Doubtful(String),
}

/// The next action of the driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Send this record.
    Send(Vec<u8>),
    /// Wait for the answer to the record in flight.
    Await,
    /// Read the partition from this offset on.
    ReadBack(Offset),
    /// Wait until this time, from which records that count may be acknowledged.
    Wait(Duration),
    /// Nothing to do.
    Rest,
}

/// Visits records with their offsets, until it breaks.
pub type VisitRecord<'v> = dyn FnMut(Offset, &[u8]) -> ControlFlow<()> + 'v;

/// A log that is being opened, with the records read so far.
///
/// To open a log, a process [takes](Opening::take) the records that are there, writes the
/// [claim](Opening::claim), and takes the records up to that. Then it [owns](Opening::own) the log,
/// or the claim has failed.
pub struct Opening {
    place: Arc<str>,
    options: Options,
    database: u128,
    number: u32,
    reader: Reader,
    assembly: Assembly,
    index: Index,
    tail: Option<MemoryLog>,
    memory: MemoryOptions,
    claim: Option<Claim>,
    /// The last record that may have given the owner before this one a lease.
    last_sign: Option<Offset>,
}

/// The claim of this process.
struct Claim {
    head: Head,
    /// The name of the earlier owner.
    before: Arc<str>,
    /// The earlier owner has ended.
    has_ended: bool,
    /// The lease of the earlier owner.
    lease: Duration,
    /// Whether the log was released before the claim; `None` until the claim was read.
    was_released: Option<bool>,
}

impl Opening {
    /// A log of which no record was read yet, and whose first record has the offset `first`.
    /// `place` is its name in messages.
    pub fn new(
        place: Arc<str>,
        database: u128,
        number: u32,
        first: Offset,
        options: Options,
    ) -> Opening {
        let keep_bytes = Some(options.keep_bytes.max(options.backlog_bytes));
        let Options { segment_bytes, durability, .. } = options;
        Opening {
            place,
            options,
            database,
            number,
            reader: Reader::new(database, number, first),
            assembly: Assembly::default(),
            index: Index { entries: VecDeque::new(), every: options.indexed },
            tail: None,
            memory: MemoryOptions { segment_bytes, keep_bytes, durability },
            claim: None,
            last_sign: None,
        }
    }

    /// The offset of the next record to read.
    pub fn next(&self) -> Offset {
        self.reader.next()
    }

    /// Takes the next record. Breaks at the process's own claim.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn take(&mut self, offset: Offset, record: &[u8]) -> Result<ControlFlow<()>, Broken> {
        let (head, body) = Head::read(record).map_err(|error| Broken::Bad { offset, error })?;
        let was_released = self.reader.is_released();
        let (was_lease, is_own) = (self.reader.lease(), self.is_claim(&head));
        let verdict = self.reader.pass(offset, &head, body)?;
        if !matches!(verdict, Verdict::Void(_)) && !is_own {
            self.last_sign = Some(offset);
        }
        match verdict {
            Verdict::Begins => self.assembly.begin(),
            Verdict::Counts(from) if self.reader.has_begun() => {
                self.index.note(&head, offset);
                let (begin, memory) = (self.reader.begin(), self.memory);
                let tail = self.tail.get_or_insert_with(|| MemoryLog::starting_at(memory, begin));
                let (position, piece) = (head.position + u64::from(from), &body[from as usize..]);
                let _ = self.assembly.push(position, piece, &mut |position, frame| {
                    assert_eq!(position, tail.end(), "frames follow each other");
                    tail.append(frame).expect("a tail in memory takes everything");
                    ControlFlow::Continue(())
                });
            }
            Verdict::Counts(_) | Verdict::Released | Verdict::Void(_) => {}
        }
        match self.claim.as_mut().filter(|claim| claim.head == head) {
            None => Ok(ControlFlow::Continue(())),
            Some(claim) => {
                claim.was_released = Some(was_released);
                claim.lease = was_lease.unwrap_or(WAITS);
                Ok(ControlFlow::Break(()))
            }
        }
    }

    fn is_claim(&self, head: &Head) -> bool {
        self.claim.as_ref().is_some_and(|claim| claim.head == *head)
    }

    /// True once the process's own claim was read.
    pub fn has_read_claim(&self) -> bool {
        self.claim.as_ref().is_some_and(|claim| claim.was_released.is_some())
    }

    /// The record with which a process claims the log, after it has read all records. `drawn` is a
    /// random number, and `name` the process's name in messages of others.
    ///
    /// # Errors
    /// A message, if the log begins after the needed position. The owner stays the same then.
    pub fn claim(&mut self, drawn: u64, name: &str) -> Result<Vec<u8>, String> {
        self.options.needed.map_or(Ok(()), |needed| check_begin(&self.reader, needed))?;
        let head = Owner::claim(&self.reader, drawn, name, self.options.times.waits);
        let before = self.reader.owner().clone();
        let has_ended = self.options.ended == Some(self.reader.term());
        let lease = WAITS;
        self.claim = Some(Claim { head, before, has_ended, lease, was_released: None });
        Ok(head.write(name.as_bytes()))
    }

    /// The log, if the claim holds. The claim must have been read. `received` has the newest record
    /// that this process had received before it wrote the claim, if that is known, and the time at
    /// which it had it.
    ///
    /// # Errors
    /// A message, if the claim does not hold, or no frames of the log are left.
    pub fn own(
        self,
        now: Duration,
        received: Option<(Offset, Duration)>,
    ) -> Result<(OwnedLog, OpenReport), String> {
        let had_all = |(offset, _): &(Offset, Duration)| self.last_sign <= Some(*offset);
        let waits_from = received.filter(had_all).map_or(now, |(_, at)| at.min(now));
        let Opening { place, options, database, number, reader, index, tail, memory, .. } = self;
        let claim = self.claim.expect("a log is claimed before it is owned");
        let is_free = claim.was_released.expect("the claim was read") || claim.has_ended;
        if !reader.has_begun() {
            return Err("its frames were removed, and only a claim is left".to_owned());
        }
        let begin = reader.begin();
        let tail = tail.unwrap_or_else(|| MemoryLog::starting_at(memory, begin));
        tail.settle(tail.end());
        let opened = tail.counters();
        let term = claim.head.term;
        let owner = Owner::new(reader, term)
            .map_err(|taken| format!("it was opened twice at the same time: {taken}"))?;
        let end = tail.end();
        assert_eq!(end, owner.whole(), "the tail has all whole frames");
        let acknowledges_from = if is_free { now } else { waits_from + claim.lease };
        let waits = acknowledges_from.saturating_sub(now);
        let report = OpenReport { term, taken_from: (!is_free).then_some(claim.before), waits };
        let log = OwnedLog {
            place,
            options,
            database,
            number,
            tail,
            opened,
            begin: AtomicU64::new(begin),
            writing: Mutex::new(Writing { owner, cut: end, pieces: VecDeque::new(), flight: None }),
            index: Mutex::new(index),
            confirmed: AtomicU64::new(0),
            // The first record of the term confirms the claim.
            is_asked: AtomicBool::new(true),
            acknowledges_from,
        };
        Ok((log, report))
    }
}

/// Refuses a log whose beginning was removed and is not covered by a checkpoint.
fn check_begin(reader: &Reader, needed: Position) -> Result<(), String> {
    let begin = reader.begin();
    if !reader.has_begun() || begin <= needed {
        return Ok(());
    }
    Err(format!(
        "it begins at position {begin:#x}, and is needed from {needed:#x} on: a checkpoint of what was removed is \
         missing here; start where its owner ({}) has made them: with that folder, a copy of it, or the object store that it \
         was told",
        reader.owner()
    ))
}

/// A log that this process owns, as far as it knows. See the [module documentation](self).
pub struct OwnedLog {
    place: Arc<str>,
    options: Options,
    /// The database of the log, for reading its records.
    database: u128,
    number: u32,
    tail: MemoryLog,
    /// Counters of the tail after it was filled from the partition.
    opened: Counters,
    begin: AtomicU64,
    writing: Mutex<Writing>,
    index: Mutex<Index>,
    /// When the last record that counts was sent, in nanoseconds.
    confirmed: AtomicU64,
    /// A record must be sent even if no frame waits.
    is_asked: AtomicBool,
    /// The time before which nothing is acknowledged.
    acknowledges_from: Duration,
}

/// The frames between the tail and the partition.
struct Writing {
    owner: Owner,
    /// The tail is cut into pieces up to here.
    cut: Position,
    /// The next pieces to send, in order.
    pieces: VecDeque<Piece>,
    flight: Option<Flight>,
}

/// A record that was sent, and is not known to count yet.
#[derive(Clone, Copy)]
struct Flight {
    head: Head,
    sent_at: Duration,
    /// It was written, and other processes may have written before it.
    is_read_back: bool,
}

impl OwnedLog {
    /// The name of the log in messages.
    pub fn place(&self) -> &Arc<str> {
        &self.place
    }

    /// The latest term in which this process owns or owned the log.
    pub fn term(&self) -> Term {
        self.writing.lock().owner.me()
    }

    /// True once no earlier owner can serve reads: from then on this owner may acknowledge commits.
    pub fn has_waited(&self, now: Duration) -> bool {
        now >= self.acknowledges_from
    }

    /// The offset of the next record if no other process writes; `None` while one is in flight.
    pub fn next_offset(&self) -> Option<Offset> {
        let writing = self.writing.lock();
        writing.flight.is_none().then(|| writing.owner.next())
    }

    /// Determines the next step.
    ///
    /// # Errors
    /// The error that ended the log.
    pub fn step(&self, now: Duration) -> Result<Step, LogError> {
        let mut writing = self.writing.lock();
        self.failure().map_or(Ok(()), Err)?;
        match writing.flight {
            Some(flight) if flight.is_read_back => return Ok(Step::ReadBack(writing.owner.next())),
            Some(_) => return Ok(Step::Await),
            None => {}
        }
        let whole = writing.owner.whole();
        if self.has_waited(now) && whole != self.durable() {
            self.tail.settle(whole);
        }
        self.cut(&mut writing)?;
        let is_asked = self.is_asked.swap(false, Ordering::AcqRel);
        if let Some(piece) = writing.pieces.pop_front() {
            return Ok(Step::Send(launch(&mut writing, now, Kind::Frames, &piece)));
        }
        if is_asked {
            return Ok(Step::Send(launch(&mut writing, now, Kind::Frames, &NOTHING)));
        }
        // Until then the earlier owner may serve reads, which must not miss an acknowledged commit.
        Ok(if whole == self.durable() { Step::Rest } else { Step::Wait(self.acknowledges_from) })
    }

    /// Reports the outcome of the record in flight.
    ///
    /// # Errors
    /// The error that ended the log.
    pub fn answered(&self, sent: Sent) -> Result<(), LogError> {
        let mut writing = self.writing.lock();
        let flight = writing.flight.expect("answers belong to a record in flight");
        let offset = match sent {
            Sent::Written(offset) => offset,
            Sent::Doubtful(why) => {
                return Err(self.fail(&format!("a record was not acknowledged: {why}")));
            }
        };
        let heard = writing.owner.acknowledged(offset, &flight.head);
        match heard.map_err(|broken| self.fail(&broken.to_string()))? {
            Acknowledged::Counts => self.land(&mut writing, flight),
            Acknowledged::ReadBack => {
                writing.flight = Some(Flight { is_read_back: true, ..flight });
            }
        }
        Ok(())
    }

    /// Takes a record that was read back. Breaks once no more are needed.
    ///
    /// # Errors
    /// The error that ended the log: another owner, or a broken log.
    pub fn read_back(&self, offset: Offset, record: &[u8]) -> Result<ControlFlow<()>, LogError> {
        let mut writing = self.writing.lock();
        let flight = writing.flight.expect("records are read back for one in flight");
        let head = Head::read(record).map_err(|error| Broken::Bad { offset, error });
        let read = head.and_then(|(head, body)| writing.owner.read(offset, &head, body));
        read.map_err(|broken| self.fail(&broken.to_string()))?;
        if let Err(taken) = writing.owner.standing() {
            let (durable, what) = (self.durable(), format!("{}: {taken}", self.place).into());
            return Err(self.end_with(LogError::Fenced { durable, what }));
        }
        if !writing.owner.has(&flight.head) {
            return Ok(ControlFlow::Continue(()));
        }
        self.land(&mut writing, flight);
        Ok(ControlFlow::Break(()))
    }

    /// Reports the first offset of the partition. If it is after the next record to read back, that
    /// record was removed. Only owners remove records, and only those they have written, so there
    /// is another owner.
    ///
    /// # Errors
    /// [`LogError::Fenced`] in that case, which ends the log.
    pub fn begins_at(&self, first: Offset) -> Result<(), LogError> {
        let next = self.writing.lock().owner.next();
        if first <= next {
            return Ok(());
        }
        let what = format!(
            "{}: another process has written from offset {next} on, and removed what is before {first}",
            self.place
        );
        Err(self.end_with(LogError::Fenced { durable: self.durable(), what: what.into() }))
    }

    /// Records that the record in flight counts.
    fn land(&self, writing: &mut Writing, flight: Flight) {
        writing.flight = None;
        self.index.lock().note(&flight.head, writing.owner.next() - 1);
        self.confirmed.store(nanos(flight.sent_at), Ordering::Release);
        // A requested record was written.
        self.is_asked.store(false, Ordering::Release);
    }

    /// The record with which the owner releases the log, so that the next one need not wait. `None`
    /// if a record is in flight, the log has ended, or an earlier owner may still serve reads.
    /// After this call the site must serve no reads of the log.
    pub fn release(&self, now: Duration) -> Option<Vec<u8>> {
        let mut writing = self.writing.lock();
        let may = writing.flight.is_none() && self.failure().is_none() && self.has_waited(now);
        may.then(|| launch(&mut writing, now, Kind::Release, &NOTHING))
    }

    /// Requests a record even if no frame waits, and wakes the driver.
    pub fn ask(&self) {
        if !self.is_asked.swap(true, Ordering::AcqRel) {
            self.tail.wake_driver();
        }
    }

    /// Cuts up to [`SENT_AT_ONCE`] bytes of new frames into pieces, unless earlier pieces wait.
    fn cut(&self, writing: &mut Writing) -> Result<(), LogError> {
        let from = writing.cut;
        if !writing.pieces.is_empty() || from == self.end() {
            return Ok(());
        }
        let mut cut = Cut::new(self.options.record_bytes_max - HEAD_BYTES - AROUND_BYTES);
        writing.cut = self.tail.read(from, &mut |position, frame| {
            cut.push(frame);
            let enough = position + frame.len() as u64 - from >= SENT_AT_ONCE;
            if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        writing.pieces.extend(cut.finish());
        Ok(())
    }

    /// Ends the log with [`LogError::Failed`].
    pub fn fail(&self, what: &str) -> LogError {
        let what = format!("{}: {what}", self.place).into();
        self.end_with(LogError::Failed { durable: self.durable(), what })
    }

    fn end_with(&self, error: LogError) -> LogError {
        self.tail.end_with(error.clone());
        error
    }

    /// Like [`Log::append`].
    ///
    /// # Errors
    /// As there.
    pub fn append(&self, payload: &[u8]) -> Result<Position, LogError> {
        self.failure().map_or(Ok(()), Err)?;
        let backlog = self.end() - self.durable();
        if backlog >= self.options.backlog_bytes {
            return Err(LogError::Backlog { bytes: backlog, max: self.options.backlog_bytes });
        }
        self.tail.append(payload)
    }

    /// Like [`Log::end`].
    pub fn end(&self) -> Position {
        self.tail.end()
    }

    /// Like [`Log::durable`].
    pub fn durable(&self) -> Position {
        self.tail.durable()
    }

    /// Like [`Log::begin`].
    pub fn begin(&self) -> Position {
        self.begin.load(Ordering::Acquire)
    }

    /// Like [`Log::poll_durable`].
    ///
    /// # Errors
    /// As there.
    pub fn poll_durable(&self, position: Position, waker: &Waker) -> Poll<Result<(), LogError>> {
        self.tail.poll_durable(position, waker)
    }

    /// Like [`Log::poll_work`].
    ///
    /// # Errors
    /// As there.
    pub fn poll_work(&self, waker: &Waker) -> Poll<Result<(), LogError>> {
        let polled = self.tail.poll_work(waker);
        // In this order: a request after the check finds the waker.
        if polled.is_pending() && self.is_asked.load(Ordering::Acquire) {
            return Poll::Ready(Ok(()));
        }
        polled
    }

    /// Like [`Log::read`]. `records` reads records of the partition from an offset on, and its
    /// errors are messages.
    ///
    /// # Errors
    /// As there.
    pub fn read(
        &self,
        from: Position,
        records: &dyn Fn(Offset, &mut VisitRecord<'_>) -> Result<(), String>,
        visit: &mut dyn FnMut(Position, &[u8]) -> ControlFlow<()>,
    ) -> Result<Position, LogError> {
        let mut at = from;
        loop {
            if at < self.begin() {
                return Err(LogError::Truncated { position: at, begin: self.begin() });
            }
            match self.tail.read(at, visit) {
                Err(LogError::Truncated { .. }) => {}
                read => return read,
            }
            for (position, frame) in self.fetch(at, records)? {
                at = position + (FRAME_HEAD_BYTES + frame.len()) as u64;
                if visit(position, &frame).is_break() {
                    return Ok(at);
                }
            }
        }
    }

    /// Frames from a position on that are only in the partition.
    fn fetch(
        &self,
        from: Position,
        records: &dyn Fn(Offset, &mut VisitRecord<'_>) -> Result<(), String>,
    ) -> Result<Vec<(Position, Vec<u8>)>, LogError> {
        let found = self.index.lock().before(from);
        let truncated = LogError::Truncated { position: from, begin: self.begin() };
        let (_, offset) = found.ok_or(truncated)?;
        let mut reader = Reader::new(self.database, self.number, offset);
        let (mut assembly, mut frames, mut bytes) = (Assembly::default(), Vec::new(), 0);
        let mut broken = None;
        let read = records(offset, &mut |offset, record| {
            let head = Head::read(record).map_err(|error| Broken::Bad { offset, error });
            let passed =
                head.and_then(|(head, body)| Ok((reader.pass(offset, &head, body)?, head, body)));
            match passed {
                Ok((Verdict::Begins, ..)) => assembly.begin(),
                Ok((Verdict::Counts(skip), head, body)) => {
                    let (position, piece) =
                        (head.position + u64::from(skip), &body[skip as usize..]);
                    return assembly.push(position, piece, &mut |at, frame| {
                        if at >= from {
                            bytes += frame.len();
                            frames.push((at, frame.to_vec()));
                        }
                        if bytes >= READ_AT_ONCE {
                            ControlFlow::Break(())
                        } else {
                            ControlFlow::Continue(())
                        }
                    });
                }
                Ok(_) => {}
                Err(error) => {
                    broken = Some(error);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        if let Some(broken) = broken {
            let what = format!("{}: {broken}", self.place).into();
            return Err(LogError::Damaged { position: from, what });
        }
        read.map_err(|why| LogError::Read { what: format!("{}: {why}", self.place).into() })?;
        match frames.first() {
            Some((first, _)) if *first == from => Ok(frames),
            _ => Err(LogError::NotAFrame { position: from }),
        }
    }

    /// Like [`Log::truncate_before`]. `remove` removes the records before an offset, and its errors
    /// are messages.
    ///
    /// # Errors
    /// As there.
    pub fn truncate_before(
        &self,
        position: Position,
        remove: &dyn Fn(Offset) -> Result<(), String>,
    ) -> Result<(), LogError> {
        let found = self.index.lock().before(position.min(self.durable()));
        let Some((begin, offset)) = found.filter(|(at, _)| *at > self.begin()) else {
            return Ok(());
        };
        remove(offset)
            .map_err(|why| LogError::Remove { what: format!("{}: {why}", self.place).into() })?;
        self.index.lock().entries.retain(|(_, at)| *at >= offset);
        self.begin.fetch_max(begin, Ordering::AcqRel);
        self.tail.truncate_before(begin)
    }

    /// Like [`Log::counters`].
    pub fn counters(&self) -> Counters {
        let (now, opened) = (self.tail.counters(), self.opened);
        Counters {
            frames: now.frames - opened.frames,
            bytes: now.bytes - opened.bytes,
            syncs: now.syncs - opened.syncs,
        }
    }

    /// Like [`Log::failure`].
    pub fn failure(&self) -> Option<LogError> {
        self.tail.failure()
    }

    /// Like [`Log::serving`]. Requests a record if the lease should be renewed.
    ///
    /// # Errors
    /// As there.
    pub fn serving(&self, now: Duration) -> Result<(), LogError> {
        self.failure().map_or(Ok(()), Err)?;
        let confirmed = Duration::from_nanos(self.confirmed.load(Ordering::Acquire));
        let since = now.saturating_sub(confirmed);
        if self.options.times.is_due(since) {
            self.ask();
        }
        if self.options.times.is_serving(since) {
            return Ok(());
        }
        let what = format!("{}: nothing was confirmed for {} ms", self.place, since.as_millis());
        Err(LogError::Unconfirmed { what: what.into() })
    }
}

/// Builds the next record and puts it in flight.
fn launch(writing: &mut Writing, now: Duration, kind: Kind, piece: &Piece) -> Vec<u8> {
    let head = writing.owner.head(kind, piece.bytes.len() as u32, piece.first, piece.whole);
    writing.flight = Some(Flight { head, sent_at: now, is_read_back: false });
    head.write(&piece.bytes)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("no computer runs for centuries")
}
