//! Ownership of a log, and which of its records count: a state machine from records to verdicts.
//!
//! # The problem
//!
//! A partition accepts records from any process and puts them in one order. A redo log has one
//! writer. If the writer dies, or seems to, another process takes its place. Records that the first
//! writer had in flight may arrive after that.
//!
//! # The order decides
//!
//! ```text
//!   term:number  … │ 7:1    │ 7:2    │ claim 8 │ 7:3        │ 8:1    │ claim 8          │ 8:2    │
//!                    counts   counts   begins    void: late   counts   void: the second   counts
//! ```
//!
//! * **Claim.** A process that wants the log reads it to the end, appends a claim with a number one
//!   above the highest term it has seen, and reads up to its claim. It owns the log if its claim is
//!   the first with that number, and no claim with a higher number came before.
//! * **Readers** skip the records of all terms but the current one, so every reader gets the same
//!   stream.
//! * **The owner** need not read its own records: it knows the offset that its next record gets if
//!   no other process writes in between. If the carrier reports another offset, or none, the owner
//!   reads the records up to its own ([`Owner::read`]) before it acknowledges a commit. If the
//!   others are void, it continues. If one is a claim, the log has a new owner, and its own record
//!   is void.
//!
//! So the fence adds no cost to a commit, and needs neither an election nor a transaction at the
//! carrier. It only needs acknowledged records to stay at their offsets.
//!
//! # Positions
//!
//! A record contains its position in the stream and its number in the term. At the end of a term an
//! incomplete frame is void: the next term begins after the last whole frame. A repeated record
//! counts once. A missing record means that the log is [`Broken`]: an owner writes each record only
//! after the one before counts, so the carrier has lost a record.
//!
//! # What was left out
//!
//! When to claim a log, and which process should: callers decide that, and any claim is safe.
//! [`lease`](crate::lease) limits how long an old owner may serve reads.

use crate::lease::WAITS;
use crate::record::{BadRecord, Head, Kind, Offset, Term};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// The owner's name in a log whose beginning, with the claim, was removed.
const UNNAMED: &str = "a process whose claim was removed";

/// The meaning of a record for a reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The claim holds: from here on the log has a new owner. An incomplete frame is void.
    Begins,
    /// The body, from this byte on, is the next piece of the stream. (If the beginning of the log
    /// was removed, the first piece may begin within a frame.)
    Counts(u32),
    /// The owner has released the log.
    Released,
    /// The record is ignored.
    Void(Void),
}

/// Why a record is ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Void {
    /// Its writer no longer owned the log.
    Late,
    /// A claim whose number was already claimed, or is lower than the current one.
    Outrun,
    /// A repetition of an earlier record.
    Repeated,
}

/// Why a log cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Broken {
    /// A record cannot be parsed.
    #[error("the record at offset {offset}: {error}")]
    Bad {
        /// Its offset.
        offset: Offset,
        /// The fault.
        error: BadRecord,
    },
    /// A record belongs to another log.
    #[error(
        "the record at offset {offset} is of log {log} of database {database:032x}: two databases write to one place"
    )]
    OtherLog {
        /// Its offset.
        offset: Offset,
        /// The database of the record.
        database: u128,
        /// The number of the log in that database.
        log: u32,
    },
    /// The claim of a record's term is missing.
    #[error(
        "the record at offset {offset} is of {term}, whose claim is missing: the log has lost records, or somebody has \
         removed them"
    )]
    NoClaim {
        /// Its offset.
        offset: Offset,
        /// Its term.
        term: Term,
    },
    /// Records are missing before this one.
    #[error(
        "the record at offset {offset} is number {sequence} of {term} (position {position:#x}), and number {expected} \
         (position {end:#x}) should be there: the log has lost records that were acknowledged"
    )]
    Gap {
        /// Its offset.
        offset: Offset,
        /// Its term.
        term: Term,
        /// Its number in the term.
        sequence: u64,
        /// The number that was expected.
        expected: u64,
        /// Its position.
        position: u64,
        /// The end of the stream so far.
        end: u64,
    },
    /// A record was acknowledged with an offset that was in use already.
    #[error(
        "a record was acknowledged at offset {offset}, and the log had reached {next}: it has lost records that were \
         acknowledged"
    )]
    WentBack {
        /// The reported offset.
        offset: Offset,
        /// The next free offset.
        next: Offset,
    },
}

/// Follows a log from its beginning, record by record.
#[derive(Clone, Debug)]
pub struct Reader {
    database: u128,
    log: u32,
    /// The offset of the next record.
    next: Offset,
    /// The current term; `None` before the first record of a log whose beginning was removed.
    term: Option<Term>,
    /// The owner's name, and the offset of its claim.
    owner: (Arc<str>, Offset),
    /// The longest lease of the owners since the log was last released, in milliseconds; 0 if it is
    /// not known.
    lease_ms: u64,
    /// The number of records of the term that have counted; `None` until the first one, if the
    /// beginning was removed.
    counted: Option<u64>,
    place: Option<Place>,
    is_released: bool,
}

/// The bounds of the stream.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Where its first frame begins.
    begin: u64,
    /// Where it ends.
    end: u64,
    /// Where its last whole frame ends.
    whole: u64,
}

impl Reader {
    /// A reader of a log, from its first available record on. If that is not the first ever written
    /// (offset 0), the bytes before the first whole frame are ignored.
    pub fn new(database: u128, log: u32, first: Offset) -> Reader {
        let is_whole = first == 0;
        Reader {
            database,
            log,
            next: first,
            term: is_whole.then(Term::default),
            owner: (Arc::from(if is_whole { "nobody" } else { UNNAMED }), 0),
            lease_ms: 0,
            counted: is_whole.then_some(0),
            place: is_whole.then_some(Place { begin: 0, end: 0, whole: 0 }),
            is_released: true,
        }
    }

    /// The offset of the record to read next.
    pub fn next(&self) -> Offset {
        self.next
    }

    /// The current term.
    pub fn term(&self) -> Term {
        self.term.unwrap_or_default()
    }

    /// The owner's name.
    pub fn owner(&self) -> &Arc<str> {
        &self.owner.0
    }

    /// The longest lease that an owner may still have, if claims say so.
    pub fn lease(&self) -> Option<Duration> {
        (self.lease_ms > 0).then(|| Duration::from_millis(self.lease_ms))
    }

    /// Where the first available frame begins.
    pub fn begin(&self) -> u64 {
        self.place.map_or(0, |place| place.begin)
    }

    /// Where the last whole frame ends.
    pub fn whole(&self) -> u64 {
        self.place.map_or(0, |place| place.whole)
    }

    /// False if the beginning was removed, and no frame begins in the records read so far.
    pub fn has_begun(&self) -> bool {
        self.place.is_some()
    }

    /// True if the log has no owner: it is new, or its owner has released it and serves no reads.
    pub fn is_released(&self) -> bool {
        self.is_released
    }

    /// Takes the next record. Offsets may be skipped, because the carrier uses some itself.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn pass(&mut self, offset: Offset, head: &Head, body: &[u8]) -> Result<Verdict, Broken> {
        assert!(offset >= self.next, "offset {offset} was read already");
        if (head.database, head.log) != (self.database, self.log) {
            let (database, log) = (head.database, head.log);
            return Err(Broken::OtherLog { offset, database, log });
        }
        let verdict = match head.kind {
            Kind::Claim => self.claim(offset, head, body),
            Kind::Frames | Kind::Release => self.entry(offset, head)?,
        };
        self.next = offset + 1;
        Ok(verdict)
    }

    fn claim(&mut self, offset: Offset, head: &Head, name: &[u8]) -> Verdict {
        let term = head.term;
        if self.term.is_some_and(|now| term.number <= now.number) {
            return Verdict::Void(Void::Outrun);
        }
        self.term = Some(term);
        self.owner = (String::from_utf8_lossy(name).into(), offset);
        let lease_ms = match head.sequence {
            0 => WAITS.as_millis() as u64,
            stated => stated,
        };
        // Without a release, the wait of the owner before may not be over: its lease counts too.
        self.lease_ms = match self.lease_ms {
            _ if self.is_released => lease_ms,
            0 => lease_ms.max(WAITS.as_millis() as u64),
            before => lease_ms.max(before),
        };
        self.counted = Some(0);
        self.is_released = false;
        if let Some(place) = &mut self.place {
            place.end = place.whole;
        }
        Verdict::Begins
    }

    fn entry(&mut self, offset: Offset, head: &Head) -> Result<Verdict, Broken> {
        match self.term {
            // The first record of a log whose beginning was removed counts.
            None => self.term = Some(head.term),
            Some(now) if head.term == now => {}
            Some(now) if head.term.number <= now.number => return Ok(Verdict::Void(Void::Late)),
            Some(_) => return Err(Broken::NoClaim { offset, term: head.term }),
        }
        let expected = self.counted.map_or(head.sequence, |counted| counted + 1);
        if head.sequence < expected {
            return Ok(Verdict::Void(Void::Repeated));
        }
        let end = self.place.map_or(head.position, |place| place.end);
        if head.sequence > expected || head.position != end {
            let Head { term, sequence, position, .. } = *head;
            return Err(Broken::Gap { offset, term, sequence, expected, position, end });
        }
        self.counted = Some(expected);
        self.is_released = head.kind == Kind::Release;
        let from = self.go_on(head);
        Ok(if self.is_released { Verdict::Released } else { Verdict::Counts(from) })
    }

    /// Advances the stream by a body. Returns the offset of its first usable byte.
    fn go_on(&mut self, head: &Head) -> u32 {
        let whole = head.position + u64::from(head.whole);
        match &mut self.place {
            Some(place) => {
                place.end = head.end();
                if head.whole > 0 {
                    place.whole = whole;
                }
                0
            }
            // No byte before the first frame that begins is usable.
            None if head.bytes > 0 && head.first == head.bytes => {
                self.counted = None;
                head.bytes
            }
            None => {
                let begin = head.position + u64::from(head.first);
                self.place = Some(Place { begin, end: head.end(), whole: whole.max(begin) });
                head.first
            }
        }
    }
}

/// The log has another owner.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("it belongs to {owner} since {term}, claimed at offset {offset}")]
pub struct Taken {
    /// The owner's name.
    pub owner: Arc<str>,
    /// Its term.
    pub term: Term,
    /// The offset of its claim.
    pub offset: Offset,
}

/// The owner of a log, as far as it knows.
#[derive(Clone, Debug)]
pub struct Owner {
    me: Term,
    reader: Reader,
}

/// The meaning of an acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acknowledged {
    /// No other process wrote in between: the record counts.
    Counts,
    /// Another process wrote in between, or may have: read from [`Owner::next`] on.
    ReadBack,
}

impl Owner {
    /// The owner of a log, if its claim holds. The reader must have passed the claim.
    ///
    /// # Errors
    /// [`Taken`], if another process owns the log.
    pub fn new(reader: Reader, me: Term) -> Result<Owner, Taken> {
        let owner = Owner { me, reader };
        owner.standing().map(|()| owner.clone())
    }

    /// The term that this owner claimed.
    pub fn me(&self) -> Term {
        self.me
    }

    /// The claim of a process that has read up to the reader's state, with its lease.
    pub fn claim(reader: &Reader, owner: u64, name: &str, lease: Duration) -> Head {
        let bytes = u32::try_from(name.len()).expect("a name is short");
        Head {
            kind: Kind::Claim,
            database: reader.database,
            log: reader.log,
            term: Term { number: reader.term().number + 1, owner },
            sequence: lease.as_millis() as u64,
            position: reader.whole(),
            bytes,
            first: bytes,
            whole: 0,
        }
    }

    /// The head of the next record. Only valid once the record before counts.
    pub fn head(&self, kind: Kind, bytes: u32, first: u32, whole: u32) -> Head {
        Head {
            kind,
            database: self.reader.database,
            log: self.reader.log,
            term: self.me,
            sequence: self.reader.counted.unwrap_or(0) + 1,
            position: self.reader.place.map_or(0, |place| place.end),
            bytes,
            first,
            whole,
        }
    }

    /// Reports that the record was written; at this offset, if the carrier reports it.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn acknowledged(
        &mut self,
        offset: Option<Offset>,
        head: &Head,
    ) -> Result<Acknowledged, Broken> {
        let next = self.reader.next;
        match offset {
            Some(offset) if offset == next => {
                self.reader.pass(offset, head, &[])?;
                Ok(Acknowledged::Counts)
            }
            Some(offset) if offset < next => Err(Broken::WentBack { offset, next }),
            _ => Ok(Acknowledged::ReadBack),
        }
    }

    /// Takes a record that was read back.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn read(&mut self, offset: Offset, head: &Head, body: &[u8]) -> Result<Verdict, Broken> {
        self.reader.pass(offset, head, body)
    }

    /// True if a record that was written counts.
    pub fn has(&self, head: &Head) -> bool {
        self.reader.term == Some(head.term) && self.reader.counted >= Some(head.sequence)
    }

    /// Checks that this process still owns the log, as far as the records were read.
    ///
    /// # Errors
    /// [`Taken`].
    pub fn standing(&self) -> Result<(), Taken> {
        if self.reader.term == Some(self.me) {
            return Ok(());
        }
        let (owner, offset) = self.reader.owner.clone();
        Err(Taken { owner, term: self.reader.term(), offset })
    }

    /// The offset of the next record, if no other process writes in between.
    pub fn next(&self) -> Offset {
        self.reader.next
    }

    /// Where the last whole frame that counts ends.
    pub fn whole(&self) -> u64 {
        self.reader.whole()
    }
}
