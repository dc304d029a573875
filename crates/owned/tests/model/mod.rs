//! A model of a partition and of processes that claim its log. Each event is triggered by the
//! caller.
//!
//! ```text
//!   writer ──send──▶ in flight ──land──▶ the leader's log ──replicate──▶ safe ──answer──▶ writer
//!                    (may be late        (a leader change loses          (visible to
//!                     or duplicated)      records that are not safe)      readers)
//! ```
//!
//! The writers use the code of [`OwnedLog`](isomer_owned::owned): [`Reader`], [`Owner`] and
//! [`Assembly`].
//! [`Bug`]s are planted here.

#![allow(dead_code, reason = "each test uses a part")]

use isomer_owned::lease::Times;
use isomer_owned::ownership::{Acknowledged, Broken, Owner, Reader, Verdict, Void};
use isomer_owned::record::{Head, Kind, Offset, Term};
use isomer_owned::stream::{Assembly, Cut, Piece};
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::time::Duration;

pub(crate) const DATABASE: u128 = 1;
pub(crate) const LOG: u32 = 1;
/// So small that a long value takes several records.
const PIECE_BYTES: usize = 24;

/// A planted bug (a mutation).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bug {
    /// An owner treats every acknowledgement as one of a record that counts.
    NoFence,
    /// The broker acknowledges records that only the leader has.
    EarlyAnswer,
    /// A reader accepts late records as well.
    NoTerms,
    /// A process that opens the log misses its last record.
    WrongOffset,
    /// A new owner does not wait for the lease of the owner before.
    NoWait,
    /// A new owner releases the log before its wait is over.
    EarlyRelease,
    /// A new owner records its claim before its wait is over.
    EarlyNote,
}

/// A record in flight.
#[derive(Clone)]
struct Flight {
    from: String,
    head: Head,
    body: Vec<u8>,
    sent: Duration,
    /// The offset at which it was appended, until it is safe and answered.
    landed: Option<Offset>,
}

/// A process.
pub(crate) struct Writer {
    state: State,
    /// The speed of its clock, in percent.
    rate: u32,
    /// When the last record that counts was sent, by its own clock.
    confirmed: Option<Duration>,
    /// The time before which it acknowledges nothing.
    acknowledges_from: Duration,
    /// All values that it has read or committed.
    values: Vec<String>,
}

enum State {
    Claiming(Box<Claiming>),
    Owns(Box<Owning>),
    Ended(String),
}

struct Claiming {
    reader: Reader,
    assembly: Assembly,
    head: Head,
}

struct Owning {
    owner: Owner,
    /// The record in flight.
    flying: Option<Head>,
    /// The pieces to send before the value can be acknowledged.
    pieces: VecDeque<Piece>,
    value: Option<String>,
}

/// See the [module documentation](self).
pub(crate) struct World {
    pub(crate) bug: Option<Bug>,
    pub(crate) now: Duration,
    /// The records that the leader has.
    records: Vec<Vec<u8>>,
    /// The number of them that all replicas have.
    safe: usize,
    flights: Vec<Flight>,
    pub(crate) writers: BTreeMap<String, Writer>,
    /// The claims that processes have recorded in their folders. A process with the same name
    /// restarts in the same folder.
    notes: BTreeMap<String, Term>,
    drawn: u64,
    /// The acknowledged values, in order.
    pub(crate) acknowledged: Vec<String>,
    /// For each value, the number of acknowledged values when it was written.
    pub(crate) written_after: BTreeMap<String, usize>,
    pub(crate) said: Vec<String>,
    times: Times,
}

impl World {
    pub(crate) fn new(bug: Option<Bug>) -> World {
        let times = Times {
            serves: Duration::from_millis(400),
            waits: Duration::from_millis(500),
            renews: Duration::from_millis(100),
        };
        World {
            bug,
            now: Duration::ZERO,
            records: Vec::new(),
            safe: 0,
            flights: Vec::new(),
            writers: BTreeMap::new(),
            notes: BTreeMap::new(),
            drawn: 0,
            acknowledged: Vec::new(),
            written_after: BTreeMap::new(),
            said: Vec::new(),
            times,
        }
    }

    fn say(&mut self, what: impl Into<String>) {
        self.said.push(what.into());
    }

    /// Starts a process: it reads the safe records, and sends a claim.
    pub(crate) fn open(&mut self, name: &str, rate: u32) -> Result<(), Broken> {
        let (reader, assembly, values) = self.read_up()?;
        self.drawn += 1;
        let head = Owner::claim(&reader, self.drawn, name, self.times.waits);
        self.say(format!("{name}: has read {}, claims {}", reader.next(), head.term));
        let writer = Writer {
            state: State::Claiming(Box::new(Claiming { reader, assembly, head })),
            rate,
            confirmed: None,
            acknowledges_from: Duration::ZERO,
            values,
        };
        self.writers.insert(name.to_owned(), writer);
        self.send(name, head, name.as_bytes().to_vec());
        Ok(())
    }

    fn send(&mut self, from: &str, head: Head, body: Vec<u8>) {
        let sent = self.clock(from);
        self.flights.push(Flight { from: from.to_owned(), head, body, sent, landed: None });
    }

    /// The time of a process's own clock.
    fn clock(&self, name: &str) -> Duration {
        self.now * self.writers.get(name).map_or(100, |writer| writer.rate) / 100
    }

    /// True if a process owns the log, as far as it knows, and has nothing in flight.
    pub(crate) fn is_free(&self, name: &str) -> bool {
        match self.writers.get(name).map(|writer| &writer.state) {
            Some(State::Owns(owning)) => owning.flying.is_none() && owning.value.is_none(),
            _ => false,
        }
    }

    /// True if a process owns the log or claims it.
    pub(crate) fn is_up(&self, name: &str) -> bool {
        let state = self.writers.get(name).map(|writer| &writer.state);
        matches!(state, Some(State::Owns(_) | State::Claiming(_)))
    }

    /// Has a process commit a value.
    pub(crate) fn write(&mut self, name: &str, value: &str) {
        let mut cut = Cut::new(PIECE_BYTES);
        cut.push(value.as_bytes());
        self.written_after.insert(value.to_owned(), self.acknowledged.len());
        self.put(name, cut.finish(), Some(value.to_owned()));
    }

    /// Has a process send an empty record, which renews its lease.
    pub(crate) fn renew(&mut self, name: &str) {
        self.put(name, vec![Piece { bytes: Vec::new(), first: 0, whole: 0 }], None);
    }

    fn put(&mut self, name: &str, pieces: Vec<Piece>, value: Option<String>) {
        assert!(self.is_free(name), "{name} waits, or does not own the log");
        let Some(State::Owns(owning)) = self.writers.get_mut(name).map(|w| &mut w.state) else {
            return;
        };
        (owning.pieces, owning.value) = (pieces.into(), value);
        self.send_next(name);
    }

    fn send_next(&mut self, name: &str) {
        let Some(State::Owns(owning)) = self.writers.get_mut(name).map(|w| &mut w.state) else {
            return;
        };
        if let Some(Piece { bytes, first, whole }) = owning.pieces.pop_front() {
            let head = owning.owner.head(Kind::Frames, bytes.len() as u32, first, whole);
            owning.flying = Some(head);
            self.send(name, head, bytes);
        }
    }

    /// Stops a process, which releases the log if it may.
    pub(crate) fn stop(&mut self, name: &str) {
        assert!(self.is_free(name), "{name} waits, or does not own the log");
        let may = self.clock(name) >= self.writers[name].acknowledges_from
            || self.bug == Some(Bug::EarlyRelease);
        if let Some(State::Owns(owning)) = self.writers.get(name).map(|w| &w.state)
            && may
        {
            let head = owning.owner.head(Kind::Release, 0, 0, 0);
            self.send(name, head, Vec::new());
        }
        self.crash(name);
    }

    /// Kills a process. Its records in flight may still arrive.
    pub(crate) fn crash(&mut self, name: &str) {
        if let Some(writer) = self.writers.get_mut(name) {
            writer.state = State::Ended("it was killed".to_owned());
        }
    }

    /// The oldest record that a process has in flight.
    pub(crate) fn oldest_of(&self, name: &str) -> Option<usize> {
        self.flights.iter().position(|flight| flight.landed.is_none() && flight.from == name)
    }

    /// The oldest record in flight.
    pub(crate) fn oldest(&self) -> Option<usize> {
        self.flights.iter().position(|flight| flight.landed.is_none())
    }

    /// The oldest record of a process that can be answered.
    pub(crate) fn answerable_of(&self, name: &str) -> Option<usize> {
        self.answerable().into_iter().find(|at| self.flights[*at].from == name)
    }

    /// Appends a record at the leader.
    pub(crate) fn land(&mut self, at: usize) {
        let offset = self.records.len() as Offset;
        let Flight { from, head, body, .. } = &self.flights[at];
        let (record, what) = (head.write(body), describe(head));
        self.say(format!("{offset}: {what} of {from}"));
        self.records.push(record);
        self.flights[at].landed = Some(offset);
    }

    /// Appends a copy of a record, which stays in flight itself.
    pub(crate) fn land_twice(&mut self, at: usize) {
        let copy = self.flights[at].clone();
        self.land(at);
        self.flights[at] = copy;
    }

    /// Gives the replicas all records of the leader.
    pub(crate) fn replicate(&mut self) {
        self.safe = self.records.len();
    }

    /// Makes another broker the leader: it lacks the records that were not safe. They are in flight
    /// again.
    pub(crate) fn change_leader(&mut self) {
        let lost = self.records.len() - self.safe;
        self.say(format!("another leader: {lost} lost"));
        self.records.truncate(self.safe);
        let safe = self.safe as Offset;
        for flight in &mut self.flights {
            flight.landed = flight.landed.filter(|offset| *offset < safe);
        }
    }

    /// The records that can be answered.
    pub(crate) fn answerable(&self) -> Vec<usize> {
        let early = self.bug == Some(Bug::EarlyAnswer);
        let is_safe = |offset: Offset| early || (offset as usize) < self.safe;
        let flights = self.flights.iter().enumerate();
        flights.filter(|(_, f)| f.landed.is_some_and(is_safe)).map(|(at, _)| at).collect()
    }

    /// Answers a record to its writer; without its offset unless `said`.
    pub(crate) fn answer(&mut self, at: usize, said: bool) -> Result<(), Broken> {
        let flight = self.flights.remove(at);
        let offset = flight.landed.filter(|_| said);
        let from = flight.from.clone();
        if !self.is_up(&from) {
            return Ok(());
        }
        if !said {
            self.say(format!("{from}: does not hear at which offset"));
        }
        match self.writers.get_mut(&from).map(|writer| &mut writer.state) {
            Some(State::Claiming(claiming)) if claiming.head == flight.head => self.claimed(&from),
            Some(State::Owns(owning)) if owning.flying == Some(flight.head) => {
                owning.flying = None;
                self.written(&from, &flight, offset)
            }
            // A duplicate of an answered record.
            _ => Ok(()),
        }
    }

    /// Has a process read up to its claim.
    fn claimed(&mut self, name: &str) -> Result<(), Broken> {
        let mut writer = self.writers.remove(name).expect("it waits");
        let State::Claiming(claiming) = writer.state else { unreachable!("it claims") };
        let Claiming { mut reader, mut assembly, head } = *claiming;
        let has_ended = self.notes.get(name) == Some(&reader.term());
        let mut was_released = reader.is_released();
        for (offset, record) in self.visible(reader.next()) {
            let before = reader.is_released();
            let verdict =
                self.take(&mut reader, offset, &record, &mut assembly, &mut writer.values)?;
            let (read, _) = parse(&record);
            if read == head {
                was_released = before && verdict == Verdict::Begins;
                break;
            }
        }
        let now = self.now * writer.rate / 100;
        let is_free = was_released || has_ended;
        if !is_free && self.bug != Some(Bug::NoWait) {
            writer.acknowledges_from = now + self.times.waits;
        }
        writer.state = match Owner::new(reader, head.term) {
            Ok(owner) => {
                let waits = match () {
                    () if was_released => "",
                    () if has_ended => ", whose owner before has ended",
                    () => ", and waits for the lease before",
                };
                self.say(format!("{name}: owns the log{waits}"));
                let owning = Owning { owner, flying: None, pieces: VecDeque::new(), value: None };
                State::Owns(Box::new(owning))
            }
            Err(taken) => {
                self.say(format!("{name}: {taken}"));
                State::Ended(taken.to_string())
            }
        };
        self.writers.insert(name.to_owned(), writer);
        self.note(name);
        Ok(())
    }

    /// Has an owner record its claim, once its wait is over.
    fn note(&mut self, name: &str) {
        let Some(writer) = self.writers.get(name) else { return };
        let has_waited = self.clock(name) >= writer.acknowledges_from;
        if let State::Owns(owning) = &writer.state
            && (has_waited || self.bug == Some(Bug::EarlyNote))
        {
            self.notes.insert(name.to_owned(), owning.owner.me());
        }
    }

    /// Handles the answer to an owner's record.
    fn written(
        &mut self,
        name: &str,
        flight: &Flight,
        offset: Option<Offset>,
    ) -> Result<(), Broken> {
        let mut writer = self.writers.remove(name).expect("it waits");
        let State::Owns(mut owning) = writer.state else { unreachable!("it owns the log") };
        let head = &flight.head;
        let next = owning.owner.next();
        let heard = if self.bug == Some(Bug::NoFence) {
            owning.owner.acknowledged(Some(next), head)?
        } else {
            owning.owner.acknowledged(offset, head)?
        };
        if heard == Acknowledged::ReadBack {
            self.say(format!("{name}: reads back from {next}"));
            for (offset, record) in self.visible(next) {
                let (read, body) = parse(&record);
                owning.owner.read(offset, &read, &body)?;
                if owning.owner.standing().is_err() || owning.owner.has(head) {
                    break;
                }
            }
        }
        writer.state = match owning.owner.standing() {
            Ok(()) => {
                assert!(owning.owner.has(head), "it is safe, so it was read");
                writer.confirmed = Some(flight.sent);
                State::Owns(owning)
            }
            Err(taken) => {
                self.say(format!("{name}: fenced, {taken}"));
                State::Ended(taken.to_string())
            }
        };
        self.writers.insert(name.to_owned(), writer);
        self.send_next(name);
        self.acknowledge(name);
        Ok(())
    }

    /// Has an owner acknowledge its value, once all of it counts and its wait is over.
    pub(crate) fn acknowledge(&mut self, name: &str) {
        let now = self.clock(name);
        self.note(name);
        let Some(writer) = self.writers.get_mut(name) else { return };
        let State::Owns(owning) = &mut writer.state else { return };
        if owning.flying.is_none()
            && owning.pieces.is_empty()
            && now >= writer.acknowledges_from
            && let Some(value) = owning.value.take()
        {
            writer.values.push(value.clone());
            self.acknowledged.push(value.clone());
            self.say(format!("{name}: {value} is acknowledged"));
        }
    }

    /// The values that a process returns to a client; `None` if its lease is over.
    pub(crate) fn show(&self, name: &str) -> Option<&[String]> {
        let writer = self.writers.get(name)?;
        let since = self.clock(name).saturating_sub(writer.confirmed?);
        let owns = matches!(writer.state, State::Owns(_));
        (owns && self.times.is_serving(since)).then_some(&writer.values[..])
    }

    fn visible(&self, from: Offset) -> Vec<(Offset, Vec<u8>)> {
        let early = self.bug == Some(Bug::EarlyAnswer);
        let end = if early { self.records.len() } else { self.safe };
        let records = self.records[..end].iter().cloned().enumerate();
        let numbered = records.map(|(offset, record)| (offset as Offset, record));
        numbered.filter(|(offset, _)| *offset >= from).collect()
    }

    /// The values that a new reader reads.
    pub(crate) fn read(&self) -> Result<Vec<String>, Broken> {
        self.read_up().map(|(_, _, values)| values)
    }

    fn read_up(&self) -> Result<(Reader, Assembly, Vec<String>), Broken> {
        let mut reader = Reader::new(DATABASE, LOG, 0);
        let (mut assembly, mut values) = (Assembly::default(), Vec::new());
        let mut records = self.visible(0);
        if self.bug == Some(Bug::WrongOffset) {
            records.pop();
        }
        for (offset, record) in records {
            self.take(&mut reader, offset, &record, &mut assembly, &mut values)?;
        }
        Ok((reader, assembly, values))
    }

    fn take(
        &self,
        reader: &mut Reader,
        offset: Offset,
        record: &[u8],
        assembly: &mut Assembly,
        values: &mut Vec<String>,
    ) -> Result<Verdict, Broken> {
        let (head, body) = parse(record);
        let mut verdict = reader.pass(offset, &head, &body)?;
        if self.bug == Some(Bug::NoTerms) && verdict == Verdict::Void(Void::Late) {
            verdict = Verdict::Counts(0);
        }
        match verdict {
            Verdict::Begins => assembly.begin(),
            Verdict::Counts(from) => {
                let mut visit = |_, frame: &[u8]| {
                    values.push(String::from_utf8_lossy(frame).into_owned());
                    ControlFlow::Continue(())
                };
                let _ = assembly.push(head.position, &body[from as usize..], &mut visit);
            }
            Verdict::Released | Verdict::Void(_) => {}
        }
        Ok(verdict)
    }

    /// The verdict on each safe record, by a new reader.
    pub(crate) fn verdicts(&self) -> Vec<String> {
        let mut reader = Reader::new(DATABASE, LOG, 0);
        let mut lines = Vec::new();
        for (offset, record) in self.visible(0) {
            let (head, body) = parse(&record);
            let verdict = match reader.pass(offset, &head, &body) {
                Ok(Verdict::Begins) => "begins".to_owned(),
                Ok(Verdict::Counts(_)) => "counts".to_owned(),
                Ok(Verdict::Released) => "released".to_owned(),
                Ok(Verdict::Void(why)) => format!("void: {why:?}").to_lowercase(),
                Err(broken) => {
                    lines.push(format!("{offset}: {broken}"));
                    return lines;
                }
            };
            lines.push(format!("{offset}: {:<28} {verdict}", describe(&head)));
        }
        lines
    }
}

fn parse(record: &[u8]) -> (Head, Vec<u8>) {
    let (head, body) = Head::read(record).expect("all records are ours");
    (head, body.to_vec())
}

fn describe(head: &Head) -> String {
    let Term { number, .. } = head.term;
    match head.kind {
        Kind::Claim => format!("claim of term {number}"),
        Kind::Frames if head.bytes == 0 => format!("{} of term {number}, empty", head.sequence),
        Kind::Frames => {
            let unfinished = if head.whole < head.bytes { ", unfinished" } else { "" };
            format!("{} of term {number}{unfinished}", head.sequence)
        }
        Kind::Release => format!("release of term {number}"),
    }
}
