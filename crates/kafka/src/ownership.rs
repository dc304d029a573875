//! Who owns a log, and which of its records count: records in, verdicts out.
//!
//! # The problem
//!
//! A partition takes records from everybody and puts them in one order. A redo log has one writer. If that one dies, or
//! seems to, another process takes its place; and what the first had on its way may arrive after that.
//!
//! # The order decides
//!
//! ```text
//!   … │ 1 of term 7 │ 2 of term 7 │ claim of term 8 │ 3 of term 7 │ 1 of term 8 │ claim of term 8 │ 2 of term 8 │
//!       counts        counts        begins            void: late    counts        void: the second   counts
//! ```
//!
//! * **Claim.** Who wants the log reads it to the end, appends a claim one above the highest term that it has seen, and
//!   reads up to its claim. It owns the log if its claim is the first at that term, and none above it came before.
//! * **Whoever reads** skips what is not of the term that is in force: every reader comes to the same stream.
//! * **Whoever owns** need not read what it writes: it knows the offset that its next record gets unless somebody wrote
//!   in between. At any other offset, or if the broker does not say which, it reads what is there ([`Owner::read`])
//!   before it tells anybody anything. What is in between may be void, and then it goes on; or a claim, and then the log
//!   is another's, and its own record is void.
//!
//! So a fence costs a commit nothing, and needs neither an election nor a transaction of the broker's; only that what was
//! acknowledged stays where it is, which is what `acks=all` promises.
//!
//! # Positions
//!
//! A record says where in the stream its body belongs, and which of its term it is. Where a term ends, an unfinished
//! frame is void: the next one begins behind the last whole frame. A record that is there twice counts once; one that is
//! missing is [`Broken`], as its owner has waited for each before it wrote the next: the broker has lost something.
//!
//! # What was left out
//!
//! Who should claim, and when: that is somebody's decision, and no claim is wrong. How long an owner may still show what
//! it has is told in [`lease`](crate::lease).

use crate::record::{BadRecord, Head, Kind, Offset, Term};
use std::sync::Arc;
use thiserror::Error;

/// Who owns a log whose beginning was removed, with the claim.
const UNNAMED: &str = "a process whose claim was removed";

/// What a reader is to make of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The claim holds: from here on the log has another owner. What is unfinished of a frame is void.
    Begins,
    /// The body is the next piece of the stream, from this byte of it on. (Where the beginning of the log was removed,
    /// the first piece may begin within a frame.)
    Counts(u32),
    /// The owner has stood down.
    Released,
    /// It counts for nothing.
    Void(Void),
}

/// Why a record counts for nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Void {
    /// Its writer did not own the log any more.
    Late,
    /// A claim of a term that another one had claimed already, or of an earlier one.
    Outrun,
    /// It is there already.
    Repeated,
}

/// Why a log cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Broken {
    /// A record is none.
    #[error("the record at offset {offset}: {error}")]
    Bad {
        /// Its offset.
        offset: Offset,
        /// What is wrong with it.
        error: BadRecord,
    },
    /// A record belongs to another log.
    #[error(
        "the record at offset {offset} is of log {log} of database {database:032x}: two databases write to one topic"
    )]
    OtherLog {
        /// Its offset.
        offset: Offset,
        /// Whose it is.
        database: u128,
        /// Which of that one's logs.
        log: u32,
    },
    /// A record of a term whose claim is not there.
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
        /// The number that should come.
        expected: u64,
        /// Where it belongs.
        position: u64,
        /// Where the stream ends.
        end: u64,
    },
    /// A record got an offset that another one had.
    #[error(
        "a record was acknowledged at offset {offset}, and the log had reached {next}: it has lost records that were \
         acknowledged"
    )]
    WentBack {
        /// The offset.
        offset: Offset,
        /// The one that should come.
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
    /// The term in force; `None` before the first record of a log whose beginning was removed.
    term: Option<Term>,
    /// Who owns it, for people, and the offset of the claim.
    owner: (Arc<str>, Offset),
    /// How many records of the term have counted; `None` as long as none was seen and the beginning was removed.
    counted: Option<u64>,
    place: Option<Place>,
    is_released: bool,
}

/// Where the stream is.
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
    /// A reader of a log, from the first record that is there. If that is not the first that ever was (offset 0), what
    /// is there before the first whole frame cannot be used.
    pub fn new(database: u128, log: u32, first: Offset) -> Reader {
        let is_whole = first == 0;
        Reader {
            database,
            log,
            next: first,
            term: is_whole.then(Term::default),
            owner: (Arc::from(if is_whole { "nobody" } else { UNNAMED }), 0),
            counted: is_whole.then_some(0),
            place: is_whole.then_some(Place { begin: 0, end: 0, whole: 0 }),
            is_released: true,
        }
    }

    /// The offset of the record to read next.
    pub fn next(&self) -> Offset {
        self.next
    }

    /// The term in force.
    pub fn term(&self) -> Term {
        self.term.unwrap_or_default()
    }

    /// The owner, as it calls itself.
    pub fn owner(&self) -> &Arc<str> {
        &self.owner.0
    }

    /// Where the first frame begins that is there.
    pub fn begin(&self) -> u64 {
        self.place.map_or(0, |place| place.begin)
    }

    /// Where the last whole frame ends.
    pub fn whole(&self) -> u64 {
        self.place.map_or(0, |place| place.whole)
    }

    /// False if the beginning was removed, and no frame begins in what is left.
    pub fn has_begun(&self) -> bool {
        self.place.is_some()
    }

    /// True if nobody owns the log: it is new, or its owner has stood down and shows nothing to anybody.
    pub fn is_released(&self) -> bool {
        self.is_released
    }

    /// Takes the next record. Offsets may be left out, where the broker keeps something of its own.
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
            Kind::Claim => self.claim(offset, head.term, body),
            Kind::Frames | Kind::Release => self.entry(offset, head)?,
        };
        self.next = offset + 1;
        Ok(verdict)
    }

    fn claim(&mut self, offset: Offset, term: Term, name: &[u8]) -> Verdict {
        if self.term.is_some_and(|now| term.number <= now.number) {
            return Verdict::Void(Void::Outrun);
        }
        self.term = Some(term);
        self.owner = (String::from_utf8_lossy(name).into(), offset);
        self.counted = Some(0);
        self.is_released = false;
        if let Some(place) = &mut self.place {
            place.end = place.whole;
        }
        Verdict::Begins
    }

    fn entry(&mut self, offset: Offset, head: &Head) -> Result<Verdict, Broken> {
        match self.term {
            // The first record of a log whose beginning was removed: it is one that counts.
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

    /// Moves on by a body, and says from which byte on it can be used.
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
            // Nothing can be used before the first frame that begins.
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

/// Another process owns the log.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("it belongs to {owner} since {term}, claimed at offset {offset}")]
pub struct Taken {
    /// The owner, as it calls itself.
    pub owner: Arc<str>,
    /// Its term.
    pub term: Term,
    /// Where it has claimed the log.
    pub offset: Offset,
}

/// Whoever owns a log, as far as it knows.
#[derive(Clone, Debug)]
pub struct Owner {
    me: Term,
    reader: Reader,
}

/// What an acknowledgement says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acknowledged {
    /// Nobody wrote in between: the record counts.
    Counts,
    /// Somebody has, or it is not known: read from [`Owner::next`] on.
    ReadBack,
}

impl Owner {
    /// The owner of a log, if its claim holds. The reader has passed that.
    ///
    /// # Errors
    /// [`Taken`] by another one.
    pub fn new(reader: Reader, me: Term) -> Result<Owner, Taken> {
        let owner = Owner { me, reader };
        owner.standing().map(|()| owner.clone())
    }

    /// The term that this owner claimed.
    pub fn me(&self) -> Term {
        self.me
    }

    /// The claim that a process makes that has read so far.
    pub fn claim(reader: &Reader, owner: u64, name: &str) -> Head {
        let bytes = u32::try_from(name.len()).expect("a name is short");
        Head {
            kind: Kind::Claim,
            database: reader.database,
            log: reader.log,
            term: Term { number: reader.term().number + 1, owner },
            sequence: 0,
            position: reader.whole(),
            bytes,
            first: bytes,
            whole: 0,
        }
    }

    /// The head of the record that comes next. One at a time: the next one once this one counts.
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

    /// The record was written; at this offset, if the broker says which.
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

    /// True if a record counts that was written.
    pub fn has(&self, head: &Head) -> bool {
        self.reader.term == Some(head.term) && self.reader.counted >= Some(head.sequence)
    }

    /// Refuses if the log is another's, as far as was read.
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

    /// The offset that the next record gets, if nobody writes in between.
    pub fn next(&self) -> Offset {
        self.reader.next
    }

    /// Where the last whole frame ends that counts.
    pub fn whole(&self) -> u64 {
        self.reader.whole()
    }
}
