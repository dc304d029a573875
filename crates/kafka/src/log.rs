//! A log in a partition, for the process that owns it.
//!
//! ```text
//!   append ──copy──▶ tail (in memory) ──sync: one record a group commit──▶ partition
//!                     │  the last 64 MB are kept here, and read from here         │
//!   read ◀────────────┴───────────────────────── what is older, from there ◀──────┘
//! ```
//!
//! The tail is a [`MemoryLog`], with its positions and wakers; what is special here is only how it becomes durable. The
//! stream of the tail is the stream of the partition ([`stream`](crate::stream)), so positions are the same.
//!
//! A **sync** cuts what was appended into records, and sends one after the other, each once the one before is known to
//! count ([`ownership`](crate::ownership)). If no broker answers for a moment it returns, and the next one goes on
//! waiting: who drives the log has other things to do. It ends the log if another process has claimed it
//! ([`LogError::Fenced`]), or if no broker answered for too long ([`LogError::Failed`]).
//!
//! An **index** of every so many bytes says at which offset to read for a position, and where to cut.
//!
//! **Locks**, in this order: `writing` (one sync at a time, held while brokers are waited for), `index`, those of the tail.

use crate::lease::Times;
use crate::ownership::{Acknowledged, Broken, Owner, Reader, Verdict};
use crate::partition::{Connection, Partition, Refused, Sent, clock, pause};
use crate::record::{FRAME_HEAD_BYTES, HEAD_BYTES, Head, Kind, Offset, Term};
use crate::stream::{Assembly, Cut, Piece};
use isomer_log::{
    Counters, Durability, Log, LogError, MemoryLog, MemoryOptions, OpenError, Position,
};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

/// What is sent from one look at the tail, so that it need not be copied as a whole.
const SENT_AT_ONCE: u64 = 16 << 20;
/// What is read back from a partition at once.
const READ_AT_ONCE: usize = 4 << 20;
/// The index has an entry after so many bytes of the stream, or records.
const INDEXED: (u64, u64) = (64 << 10, 1000);
/// How long a sync waits for brokers: then who drives the log looks after the rest of its site.
const LONGEST: Duration = Duration::from_millis(500);
/// The body of a record that shows only who owns the log.
const NOTHING: Piece = Piece { bytes: Vec::new(), first: 0, whole: 0 };
/// How long a log that is closed waits for its release to be written.
const RELEASE: Duration = Duration::from_secs(2);
/// What a record may be longer than its value: what the broker puts around it.
const AROUND_BYTES: usize = 512;
/// The pause before something is read again that is not there yet.
const AGAIN: Duration = Duration::from_millis(20);

/// How a [`KafkaLog`] behaves. None of it is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// What a commit waits for.
    pub durability: Durability,
    /// How much may wait for the brokers before `append` refuses more ([`LogError::Backlog`]).
    pub backlog_bytes: u64,
    /// How much of the end of the log is kept in memory for those who follow it; no less than the backlog.
    pub keep_bytes: u64,
    /// The longest record, with its head: what the topic takes.
    pub record_bytes_max: usize,
    /// The log was made before: that it is empty is an error, and not a new log.
    pub must_exist: bool,
    /// Where it has to begin at the latest: so far a checkpoint stands for it. `None`: anywhere.
    pub needed: Option<Position>,
    /// The times of the lease; the same for all who open the log.
    pub times: Times,
}

impl Default for Options {
    /// A backlog of 64 MiB, as much kept, records of a megabyte; commits wait, and a new log if there is none.
    fn default() -> Options {
        Options {
            durability: Durability::Commit,
            backlog_bytes: 64 << 20,
            keep_bytes: 64 << 20,
            record_bytes_max: 1_000_000,
            must_exist: false,
            needed: None,
            times: Times::default(),
        }
    }
}

/// What was found when a log was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenReport {
    /// The term that this process owns the log in.
    pub term: Term,
    /// The owner before, if it has not released the log: commits wait until its lease is over.
    pub taken_from: Option<Arc<str>>,
}

/// A log in a partition. See the [module documentation](self).
pub struct KafkaLog {
    place: Arc<str>,
    options: Options,
    partition: Partition,
    /// Who the log is of, to be read.
    database: u128,
    number: u32,
    tail: MemoryLog,
    /// What the tail had done when it was filled from the partition.
    opened: Counters,
    begin: AtomicU64,
    writing: Mutex<Writing>,
    index: Mutex<Index>,
    /// When the record was sent that counted last, in nanoseconds of [`clock`].
    confirmed: AtomicU64,
    /// Somebody reads: the lease is to be renewed.
    is_asked: AtomicBool,
    /// Nothing is acknowledged before.
    acknowledges_from: Duration,
}

/// What is on its way to the partition.
struct Writing {
    owner: Owner,
    /// Up to where the tail was cut into pieces.
    cut: Position,
    /// What is to be sent next, in order.
    pieces: VecDeque<Piece>,
    flight: Option<Flight>,
}

/// A record that was sent, and has no answer yet.
struct Flight {
    head: Head,
    sent_at: Duration,
}

/// Where some of the records are that begin with a frame, or are empty; and where the first is that counts.
#[derive(Default)]
struct Index(VecDeque<(Position, Offset)>);

impl Index {
    fn note(&mut self, head: &Head, offset: Offset) {
        let Some((position, at)) = self.0.back() else {
            self.0.push_back((head.position + u64::from(head.first), offset));
            return;
        };
        let is_due = head.position >= position + INDEXED.0 || offset >= at + INDEXED.1;
        if is_due && (head.first == 0 || head.bytes == 0) {
            self.0.push_back((head.position, offset));
        }
    }

    /// The last entry at or before a position.
    fn before(&self, position: Position) -> Option<(Position, Offset)> {
        let after = self.0.partition_point(|(at, _)| *at <= position);
        after.checked_sub(1).map(|at| self.0[at])
    }
}

/// A log that is being opened: what was read of it.
struct Opening<'p> {
    partition: &'p Partition,
    reader: Reader,
    assembly: Assembly,
    index: Index,
    tail: Option<MemoryLog>,
    memory: MemoryOptions,
}

impl Opening<'_> {
    /// Reads what is there, to the end or to a record; true if that was found. Says whether nobody owned the log
    /// before that.
    fn read(&mut self, to: Option<&Head>) -> Result<Option<bool>, Refused> {
        let (mut broken, mut found) = (None, None);
        let (partition, next) = (self.partition, self.reader.next());
        partition.read(next, &mut |offset, record| {
            let was_released = self.reader.is_released();
            match self.take(offset, record) {
                Ok(head) if Some(&head) == to => {
                    found = Some(was_released);
                    ControlFlow::Break(())
                }
                Ok(_) => ControlFlow::Continue(()),
                Err(error) => {
                    broken = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        broken.map_or(Ok(found), |error| Err(Refused(error.to_string())))
    }

    /// Reads up to a record that is there.
    fn read_up_to(&mut self, record: &Head, timeout: Duration) -> Result<bool, Refused> {
        let begun = clock();
        loop {
            if let Some(was_released) = self.read(Some(record))? {
                return Ok(was_released);
            }
            // A broker that leads since a moment ago may show less than it has.
            if clock() - begun > timeout {
                return Err(Refused("what was written cannot be read".to_owned()));
            }
            pause(AGAIN);
        }
    }

    fn take(&mut self, offset: Offset, record: &[u8]) -> Result<Head, Broken> {
        let (head, body) = Head::read(record).map_err(|error| Broken::Bad { offset, error })?;
        match self.reader.pass(offset, &head, body)? {
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
        Ok(head)
    }
}

/// Refuses a log that lacks what no checkpoint stands for.
fn check_begin(reader: &Reader, needed: Position) -> Result<(), Refused> {
    let begin = reader.begin();
    if !reader.has_begun() || begin <= needed {
        return Ok(());
    }
    Err(Refused(format!(
        "it begins at position {begin:#x}, and is needed from {needed:#x} on: a checkpoint of what was removed is \
         missing here; start where its owner ({}) has made them, or with a copy of that folder",
        reader.owner()
    )))
}

impl KafkaLog {
    /// Opens the log in a partition, which belongs to this process from then on. `number` is the log's in its database,
    /// and the partition's in the topic. `name` is what others call this process.
    ///
    /// # Errors
    /// [`OpenError::Elsewhere`], which names the partition.
    pub fn open(
        connection: &Connection,
        database: u128,
        number: u32,
        name: &str,
        options: Options,
    ) -> Result<(KafkaLog, OpenReport), OpenError> {
        let place: Arc<str> = format!("{}, partition {number}", connection.address).into();
        let opened = KafkaLog::claim(connection, database, number, name, options, &place);
        let opened = opened.map_err(|Refused(what)| what).and_then(|(log, report)| {
            // The first record of the term shows where the stream goes on.
            log.renew(connection.timeouts.ask)?;
            Ok((log, report))
        });
        opened.map_err(|what| OpenError::Elsewhere { place: place.to_string(), what })
    }

    fn claim(
        connection: &Connection,
        database: u128,
        number: u32,
        name: &str,
        options: Options,
        place: &Arc<str>,
    ) -> Result<(KafkaLog, OpenReport), Refused> {
        let ask = connection.timeouts.ask;
        let partition = Partition::new(connection, number, options.record_bytes_max)?;
        let partition = partition.written_by(name);
        let (first, end) = partition.bounds()?;
        if options.must_exist && first == end {
            return Err(Refused("it is empty, although the log was made before".to_owned()));
        }
        let keep_bytes = Some(options.keep_bytes.max(options.backlog_bytes));
        let usual = MemoryOptions::default();
        let mut opening = Opening {
            partition: &partition,
            reader: Reader::new(database, number, first),
            assembly: Assembly::default(),
            index: Index::default(),
            tail: None,
            memory: MemoryOptions { keep_bytes, durability: options.durability, ..usual },
        };
        opening.read(None)?;
        if let Some(needed) = options.needed {
            // Before the claim: it stays whose it is.
            check_begin(&opening.reader, needed)?;
        }
        let drawn =
            getrandom::u64().map_err(|error| Refused(format!("no random number: {error}")))?;
        let claim = Owner::claim(&opening.reader, drawn, name);
        let before = opening.reader.owner().clone();
        match partition.send(&claim.write(name.as_bytes()), ask) {
            Some(Sent::Written(_)) => {}
            Some(Sent::Doubtful(why)) => {
                return Err(Refused(format!("it cannot be written: {why}")));
            }
            None => {
                let why = partition.why();
                return Err(Refused(format!("it cannot be written in {} s{why}", ask.as_secs())));
            }
        }
        let was_released = opening.read_up_to(&claim, ask)?;
        let Opening { reader, index, tail, memory, .. } = opening;
        if !reader.has_begun() {
            return Err(Refused("its frames were removed, and only a claim is left".to_owned()));
        }
        let begin = reader.begin();
        let tail = tail.unwrap_or_else(|| MemoryLog::starting_at(memory, begin));
        tail.settle(tail.end());
        let opened = tail.counters();
        let owner = Owner::new(reader, claim.term)
            .map_err(|taken| Refused(format!("it was opened twice at the same time: {taken}")))?;
        let end = tail.end();
        assert_eq!(end, owner.whole(), "the tail has all whole frames");
        partition.rest();
        let waits = if was_released { Duration::ZERO } else { options.times.waits };
        let report = OpenReport { term: claim.term, taken_from: (!was_released).then_some(before) };
        let log = KafkaLog {
            place: place.clone(),
            options,
            partition,
            database,
            number,
            tail,
            opened,
            begin: AtomicU64::new(begin),
            writing: Mutex::new(Writing { owner, cut: end, pieces: VecDeque::new(), flight: None }),
            index: Mutex::new(index),
            confirmed: AtomicU64::new(0),
            is_asked: AtomicBool::new(false),
            acknowledges_from: clock() + waits,
        };
        Ok((log, report))
    }

    /// In which term this process owns the log, or has owned it.
    pub fn term(&self) -> Term {
        self.writing.lock().owner.me()
    }

    /// Writes a record that shows only that this process owns the log, and waits for it.
    fn renew(&self, longest: Duration) -> Result<(), String> {
        let mut writing = self.writing.lock();
        self.launch(&mut writing, Kind::Frames, &NOTHING);
        match self.land(&mut writing, longest) {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("it cannot be written{}", self.partition.why())),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Sends a record.
    fn launch(&self, writing: &mut Writing, kind: Kind, piece: &Piece) {
        let head = writing.owner.head(kind, piece.bytes.len() as u32, piece.first, piece.whole);
        writing.flight = Some(Flight { head, sent_at: clock() });
        self.partition.start(&head.write(&piece.bytes));
    }

    /// Waits for the record on its way, if there is one, and makes sure that it counts; `false` if there is no answer yet.
    fn land(&self, writing: &mut Writing, longest: Duration) -> Result<bool, LogError> {
        let Some(Flight { head, sent_at }) = writing.flight else { return Ok(true) };
        let offset = match self.partition.wait(longest) {
            None => return Ok(false),
            Some(Sent::Written(offset)) => offset,
            Some(Sent::Doubtful(why)) => {
                return Err(self.fail(format!("a record was not acknowledged: {why}")));
            }
        };
        writing.flight = None;
        let owner = &mut writing.owner;
        let heard = owner.acknowledged(offset, &head);
        if heard.map_err(|broken| self.fail(broken.to_string()))? == Acknowledged::ReadBack {
            self.read_back(owner, &head)?;
        }
        self.index.lock().note(&head, owner.next() - 1);
        self.confirmed.store(nanos(sent_at), Ordering::Release);
        Ok(true)
    }

    /// Tells those who wait for what counts, unless the lease of the owner before is not over: whoever reads there must
    /// not miss what is acknowledged here. Waits for that until `until` at most.
    fn settle(&self, writing: &Writing, until: Duration) {
        let whole = writing.owner.whole();
        if whole == self.durable() {
            return;
        }
        if clock() < self.acknowledges_from {
            pause(self.acknowledges_from.min(until).saturating_sub(clock()));
        }
        if clock() >= self.acknowledges_from {
            self.tail.settle(whole);
        }
    }

    /// Cuts what was appended and not cut yet, up to so many bytes.
    fn cut(&self, writing: &mut Writing) -> Result<(), LogError> {
        let from = writing.cut;
        let mut cut = Cut::new(self.options.record_bytes_max - HEAD_BYTES - AROUND_BYTES);
        writing.cut = self.tail.read(from, &mut |position, frame| {
            cut.push(frame);
            let enough = position + frame.len() as u64 - from >= SENT_AT_ONCE;
            if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        writing.pieces.extend(cut.finish());
        Ok(())
    }

    /// Reads what others have written, until a record is found that was written, or that it is void.
    fn read_back(&self, owner: &mut Owner, written: &Head) -> Result<(), LogError> {
        let begun = clock();
        while !owner.has(written) {
            let mut broken = None;
            let read = self.partition.read(owner.next(), &mut |offset, record| {
                let head = Head::read(record).map_err(|error| Broken::Bad { offset, error });
                match head.and_then(|(head, body)| owner.read(offset, &head, body)) {
                    Ok(_) if owner.has(written) || owner.standing().is_err() => {
                        ControlFlow::Break(())
                    }
                    Ok(_) => ControlFlow::Continue(()),
                    Err(error) => {
                        broken = Some(error);
                        ControlFlow::Break(())
                    }
                }
            });
            if let Some(broken) = broken {
                return Err(self.fail(broken.to_string()));
            }
            if let Err(taken) = owner.standing() {
                let (durable, what) = (self.durable(), format!("{}: {taken}", self.place).into());
                return Err(self.end_with(LogError::Fenced { durable, what }));
            }
            // As with writing: what cannot be read now is read later, up to a time.
            if clock() - begun > self.partition.timeouts().write {
                let why = read.err().map_or_else(String::new, |why| format!(": {why}"));
                return Err(self.fail(format!("a record was not found again{why}")));
            }
            if !owner.has(written) {
                pause(AGAIN);
            }
        }
        self.partition.rest();
        Ok(())
    }

    fn fail(&self, what: String) -> LogError {
        let what = format!("{}: {what}", self.place).into();
        self.end_with(LogError::Failed { durable: self.durable(), what })
    }

    fn end_with(&self, error: LogError) -> LogError {
        self.tail.end_with(error.clone());
        error
    }

    /// How long ago the record was sent that counted last.
    fn since_confirmed(&self) -> Duration {
        let confirmed = Duration::from_nanos(self.confirmed.load(Ordering::Acquire));
        clock().saturating_sub(confirmed)
    }

    /// Frames from a position on that are only in the partition.
    fn fetch(&self, from: Position) -> Result<Vec<(Position, Vec<u8>)>, LogError> {
        let found = self.index.lock().before(from);
        let truncated = LogError::Truncated { position: from, begin: self.begin() };
        let (_, offset) = found.ok_or(truncated)?;
        let mut reader = Reader::new(self.database, self.number, offset);
        let (mut assembly, mut frames, mut bytes) = (Assembly::default(), Vec::new(), 0);
        let mut broken = None;
        let read = self.partition.read(offset, &mut |offset, record| {
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
}

impl Log for KafkaLog {
    fn append(&self, payload: &[u8]) -> Result<Position, LogError> {
        self.failure().map_or(Ok(()), Err)?;
        let backlog = self.end() - self.durable();
        if backlog >= self.options.backlog_bytes {
            return Err(LogError::Backlog { bytes: backlog, max: self.options.backlog_bytes });
        }
        self.tail.append(payload)
    }

    fn end(&self) -> Position {
        self.tail.end()
    }

    fn durable(&self) -> Position {
        self.tail.durable()
    }

    fn begin(&self) -> Position {
        self.begin.load(Ordering::Acquire)
    }

    fn sync(&self) -> Result<Position, LogError> {
        let mut writing = self.writing.lock();
        self.failure().map_or(Ok(()), Err)?;
        let (end, until) = (self.end(), clock() + LONGEST);
        let is_asked = self.is_asked.swap(false, Ordering::AcqRel);
        if is_asked && writing.flight.is_none() && writing.cut == end {
            writing.pieces.push_back(NOTHING);
        }
        while self.land(&mut writing, until.saturating_sub(clock()))? {
            self.settle(&writing, until);
            if writing.pieces.is_empty() && writing.cut < end {
                self.cut(&mut writing)?;
            }
            let Some(piece) = writing.pieces.pop_front() else { break };
            self.launch(&mut writing, Kind::Frames, &piece);
        }
        if writing.flight.is_some() {
            // Whoever drives the log comes again.
            self.is_asked.store(true, Ordering::Release);
        }
        Ok(self.durable())
    }

    fn poll_durable(&self, position: Position, waker: &Waker) -> Poll<Result<(), LogError>> {
        self.tail.poll_durable(position, waker)
    }

    fn poll_work(&self, waker: &Waker) -> Poll<Result<(), LogError>> {
        let polled = self.tail.poll_work(waker);
        // In this order: whoever asks later finds the waker.
        if polled.is_pending() && self.is_asked.load(Ordering::Acquire) {
            return Poll::Ready(Ok(()));
        }
        polled
    }

    fn read(
        &self,
        from: Position,
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
            for (position, frame) in self.fetch(at)? {
                at = position + (FRAME_HEAD_BYTES + frame.len()) as u64;
                if visit(position, &frame).is_break() {
                    return Ok(at);
                }
            }
        }
    }

    fn truncate_before(&self, position: Position) -> Result<(), LogError> {
        let found = self.index.lock().before(position.min(self.durable()));
        let Some((begin, offset)) = found.filter(|(at, _)| *at > self.begin()) else {
            return Ok(());
        };
        self.partition
            .remove_before(offset)
            .map_err(|why| LogError::Remove { what: format!("{}: {why}", self.place).into() })?;
        self.index.lock().0.retain(|(_, at)| *at >= offset);
        self.begin.fetch_max(begin, Ordering::AcqRel);
        self.tail.truncate_before(begin)
    }

    fn counters(&self) -> Counters {
        let (now, opened) = (self.tail.counters(), self.opened);
        Counters {
            frames: now.frames - opened.frames,
            bytes: now.bytes - opened.bytes,
            syncs: now.syncs - opened.syncs,
        }
    }

    fn look_for_others(&self) {
        // Whoever is writing finds out by that.
        let next = self.writing.try_lock().map(|writing| writing.owner.next());
        // What cannot be asked now is asked again.
        if let (Some(next), Some(end)) = (next, self.partition.end())
            && end > next
            && !self.is_asked.swap(true, Ordering::AcqRel)
        {
            self.tail.wake_driver();
        }
    }

    fn failure(&self) -> Option<LogError> {
        self.tail.failure()
    }

    fn serving(&self) -> Result<(), LogError> {
        self.failure().map_or(Ok(()), Err)?;
        let since = self.since_confirmed();
        if self.options.times.is_due(since) && !self.is_asked.swap(true, Ordering::AcqRel) {
            self.tail.wake_driver();
        }
        if self.options.times.is_serving(since) {
            return Ok(());
        }
        let what = format!("{}: nothing was confirmed for {} ms", self.place, since.as_millis());
        Err(LogError::Unconfirmed { what: what.into() })
    }
}

impl Drop for KafkaLog {
    /// Releases the log, so that the next owner need not wait. Nobody shows anything of it any more.
    fn drop(&mut self) {
        let mut writing = self.writing.lock();
        let has_landed =
            self.failure().is_none() && matches!(self.land(&mut writing, RELEASE), Ok(true));
        if has_landed && clock() >= self.acknowledges_from {
            let head = writing.owner.head(Kind::Release, 0, 0, 0);
            // If it is not written, the next owner waits.
            let _ = self.partition.send(&head.write(&[]), RELEASE);
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("no computer runs for centuries")
}
