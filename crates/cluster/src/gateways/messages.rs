//! Requests of gateways to the conductor, and its answers, as bytes.
//!
//! They travel as the body of [`isomer_site::wire::ToConductor`], whose head has the version and
//! the checksum. Values are encoded by postcard, as there.

use super::inquiries::Replied;
use crate::catalog::Missing;
use crate::error::Error;
use crate::joined::Joined;
use crate::open::{LockMode, Owner};
use crate::ordered::{Applied, NotOrdered};
use crate::reconfiguration::Control;
use isomer_design::{Backups, Change, Footprint, Key, KeyRange, SiteId, TableId, Time};
use isomer_site::wire::Execute;
use isomer_site::{CommitId, Committed, Failure, OrderedCommit};
use isomer_strategy::{Place as At, Refused};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The number of a gateway at its conductor. The gateway of the conductor's process has seat 0. The
/// high bits are the conductor's term ([`isomer_site::SEAT_BITS`]).
pub(crate) type Seat = u64;

/// A row or a table, existing or not.
pub(crate) type Place = (TableId, Key);

/// A request of a gateway.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum Ask<'a> {
    /// Give me a seat.
    Join {
        /// The name of the process.
        name: String,
    },
    /// Give me the news after a number, and here are samples of transactions. Renews the lease.
    Poll {
        seat: Seat,
        after: u64,
        past: u64,
        misses: u64,
        samples: Vec<Sample>,
        /// To questions of other gateways, by their numbers.
        replies: Vec<(u64, Vec<u8>)>,
    },
    /// Lock a place. `number` counts the lock requests of the seat.
    Lock { seat: Seat, number: u64, owner: Owner, place: Place, mode: LockMode, waits: bool },
    /// Wait until the current holders of a place have released it.
    WaitForHolders { seat: Seat, number: u64, owner: Owner, place: Place },
    /// Release locks. `number` counts these requests of the seat.
    Free { seat: Seat, number: u64, freed: Vec<Freed> },
    /// Run a transaction, with its partitions reserved.
    Run { seat: Seat, session: Time, request: Execute<'a> },
    /// Tell all gateways.
    Announce { seat: Seat, announcement: Vec<u8> },
    /// Wait until an announcement has taken effect at all other gateways.
    UntilPast { seat: Seat, number: u64 },
    /// Change the design.
    Define { seat: Seat, definition: Define },
    /// Answer a question of the layer above.
    Question { seat: Seat, question: Vec<u8> },
    /// Ask the layers above of all other gateways.
    Inquire { seat: Seat, question: Vec<u8> },
    /// Put a commit into the order, and tell its outcome.
    Order { seat: Seat, commit: OrderedCommit },
    /// Tell the outcome of a commit that was sent before.
    OutcomeOf { seat: Seat, id: CommitId },
    /// Tell where a statement on ordered tables is to run, once its turn has come. `number` counts
    /// these requests of the seat.
    Turn { seat: Seat, number: u64, footprint: Footprint },
}

/// The end of a lock, or of a wait for one.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub(crate) enum Freed {
    /// An owner releases places.
    Release(Owner, Vec<Place>),
    /// The first owner transfers places to the second.
    HandOver(Owner, Owner, Vec<Place>),
    /// The request of this number has no client any more.
    GiveUp { number: u64, owner: Owner, place: Place },
    /// The statement of this number has ended, or will not come.
    Turn(u64),
}

/// A change of the design that a gateway wants.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum Define {
    /// The text of a design with the table.
    CreateTable(String),
    DropTable(TableId),
    Backups(TableId, Backups, Missing),
    /// Whether transactions on tables are ordered.
    Ordered(Vec<TableId>, bool),
    Pins(TableId, Vec<KeyRange>),
    TurnPlans(bool),
    /// Changes, with their reasons.
    Changes(Vec<(Change, String)>),
    Reconfigure(String, Vec<(Change, String)>),
    Control(u64, Control),
    Reverse(u64),
    /// A process joins the cluster.
    AddNode(Joined),
    /// A process leaves the cluster.
    RemoveNode(String),
}

/// The conductor's answer.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum Answer {
    /// The seat, those that have ended, the number of the last news, and the design with them.
    Joined {
        seat: Seat,
        ended: Vec<Seat>,
        after: u64,
        design: String,
    },
    /// News, each with its number; and the part of the transactions that the strategy samples
    /// ([`super::samples`]).
    News {
        news: Vec<(u64, News)>,
        wanted: u64,
    },
    /// The gateway has no seat: it must join again.
    NoSeat,
    Locked(LockAnswer),
    Ran(Box<RanThere>),
    /// Carried out. The news up to this number have the result; the second number is one of a new
    /// table, an announcement or a reconfiguration.
    Done(u64, u64),
    Refused(Wrong),
    /// The answer of the layer above.
    Told(Vec<u8>),
    /// The replies of all other gateways.
    Replies(Vec<Replied>),
    Ordered(Result<Applied, NotOrdered>),
    /// The site of a statement whose turn has come, if it does not matter.
    Turn(Option<SiteId>),
}

/// The answer to a lock request.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum LockAnswer {
    /// True if the owner did not hold the place before.
    Granted(bool),
    NotFree,
    Deadlock(Vec<Owner>),
    GivenUp,
}

/// How a transaction ran that the conductor has run for a gateway.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) struct RanThere {
    pub(crate) site: SiteId,
    pub(crate) is_distributed: bool,
    pub(crate) committed: Committed,
    pub(crate) changes: usize,
    pub(crate) output: Vec<u8>,
}

impl RanThere {
    pub(crate) fn place(&self) -> At {
        match self.is_distributed {
            true => At::Distributed { coordinator: self.site },
            false => At::At(self.site),
        }
    }
}

/// A transaction that a gateway has run: its reads and writes, and the times and rows of its phases
/// ([`isomer_strategy::Measured`]).
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub(crate) struct Sample {
    pub(crate) footprint: Footprint,
    pub(crate) ns: [u64; 6],
    pub(crate) rows: [usize; 2],
}

/// Something that all gateways learn, in one order.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub(crate) enum News {
    /// A change was made.
    Changed(Change),
    /// A table is new, or has other backups or pins: the text of a design with this table alone.
    Table(TableId, String),
    Dropped(TableId),
    /// The design was replaced as a whole.
    Design(String),
    /// Others have taken over from a site.
    TakenOver(SiteId),
    /// A gateway tells the others.
    Announced(Seat, Vec<u8>),
    /// A gateway has lost its seat.
    Left(Seat),
    /// A gateway asks the others; the number of its question.
    Asked(Seat, u64, Vec<u8>),
    /// A process has joined the cluster.
    NodeJoined,
    /// The process of this name has left the cluster.
    NodeLeft(String),
}

/// An error, as it can be sent.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum Wrong {
    Failure(Failure),
    UnknownTable(TableId),
    TableExists(String),
    Other(String),
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Wrong {
        match error {
            Error::Failure(failure) => Wrong::Failure(failure),
            Error::Abort(abort) => Wrong::Failure(Failure::Abort(abort)),
            Error::Refused(Refused::UnknownTable(table)) => Wrong::UnknownTable(table),
            Error::TableExists(name) => Wrong::TableExists(name),
            error => Wrong::Other(error.to_string()),
        }
    }
}

impl From<Wrong> for Error {
    fn from(wrong: Wrong) -> Error {
        match wrong {
            Wrong::Failure(failure) => failure.into(),
            Wrong::UnknownTable(table) => Error::Refused(Refused::UnknownTable(table)),
            Wrong::TableExists(name) => Error::TableExists(name),
            Wrong::Other(what) => Error::AtConductor(what),
        }
    }
}

pub(crate) fn write(value: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(value).expect("values without rules of their own can always be written")
}

/// Reads a request or an answer. `None` if the bytes are something else.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Some(value),
        _ => None,
    }
}
