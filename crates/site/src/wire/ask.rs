//! Requests to a site as owned values, and their answers.
//!
//! Each type of request names the type of its answer ([`Asked`]), so an answer of another type is
//! an error.
//!
//! **Publication.** An [`Execute`] has two answers: a publication once its writes are visible, and
//! the reply once they are durable. Row locks are released at the publication. If they were
//! released at the reply, a contended row could be written only once per sync of the disk. A
//! network that delivers only the reply is correct, too: then the reply has the commit time, and
//! locks are held for longer.
//!
//! **Pins** have no request to release them. The client numbers its pins. Each of its leases, sent
//! every few milliseconds, lists the pins up to its last number that it still has:
//!
//! ```text
//!   client 7                                     site
//!   pin 1 at 41, pin 2 at 47 ──────────────────▶ keeps 41, 47
//!   drops 1
//!   lease: from 52, of 1 to 2 I have 2 ────────▶ keeps 47, and all history from 52 on
//!   pin 3 at 60 ─ ─ ─ ─ late ─ ─ ─ ─ ─ ┐
//!   fails, drops 3                     │
//!   lease: from 63, of 1 to 3 I have 2 ┼───────▶
//!                                      └───────▶ keeps 60
//!   lease: from 64, of 1 to 3 I have 2 ────────▶ keeps 47, and all history from 64 on
//!        ╳                                       10 s later: keeps nothing for client 7
//! ```
//!
//! So neither lost messages nor failed clients keep history for ever.

use crate::error::{Failure, Refusal};
use crate::execute::{Read, ReadSpan, SeenUpTo};
use crate::ordered::{BatchAnswer, BatchStep};
use crate::record::RowsBuffer;
use crate::request::{Body, CheckedWrites, Reply, Request, Shares};
use crate::step::{Answer, Step};
use crate::two_phase::{Part, PartAnswer};
use crate::validate::ReadSet;
use isomer_design::{Direction, Footprint, HotLock, Span, TableId, Time};
use isomer_log::LogError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A request to a site.
pub trait Asked: Serialize {
    /// The kind of the message.
    const KIND: u8;
    /// The answer.
    type Answer: Serialize + DeserializeOwned;
}

macro_rules! asked {
    ($($kind:literal $asked:ty => $answer:ty;)*) => {$(
        impl Asked for $asked {
            const KIND: u8 = $kind;
            type Answer = $answer;
        }
    )*};
}

asked! {
    1 Execute<'_>  => Result<Reply, Failure>;
    2 ReadAt       => Result<Rows, Failure>;
    3 PinAt        => Result<(), Failure>;
    4 Lease        => Result<Leased, Failure>;
    5 SeenUpTo     => Result<(), Failure>;
    6 Step         => Result<Answer, Refusal>;
    7 Part         => Result<PartAnswer, Failure>;
    8 Tick         => ();
    9 Latest       => Time;
    10 ToConductor => Vec<u8>;
    11 ToConductorNow => Vec<u8>;
    12 Seated<'_>  => Result<Reply, Failure>;
    13 BatchStep   => Result<BatchAnswer, Failure>;
    14 ToGateway   => Vec<u8>;
}

/// A [`Request`] whose body is data.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Execute<'a> {
    footprint: Cow<'a, Footprint>,
    session: Time,
    branches: Option<Cow<'a, Shares>>,
    body: Data<'a>,
    is_asynchronous: bool,
    is_measured: bool,
}

/// An [`Execute`] of a gateway with a [seat](Request::seat).
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Seated<'a> {
    seat: u64,
    sent: Execute<'a>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
enum Data<'a> {
    Writes(Cow<'a, CheckedWrites>),
    Call {
        name: Cow<'a, str>,
        #[serde(with = "serde_bytes")]
        params: Vec<u8>,
    },
    Validated {
        reads: Cow<'a, ReadSet>,
        writes: Cow<'a, CheckedWrites>,
    },
    SerializableCall {
        name: Cow<'a, str>,
        #[serde(with = "serde_bytes")]
        params: Vec<u8>,
    },
}

impl<'a> Execute<'a> {
    /// The request, unless its body is code of this process.
    pub fn of(request: &Request<'a>) -> Option<Execute<'a>> {
        let body = match &request.body {
            Body::Writes(writes) => Data::Writes(Cow::Borrowed(*writes)),
            Body::Call { name, params } => {
                let (name, params) = (Cow::Borrowed(*name), params.to_vec());
                match request.is_serializable {
                    true => Data::SerializableCall { name, params },
                    false => Data::Call { name, params },
                }
            }
            Body::Here(_) => return None,
            Body::Validated { reads, writes } => {
                Data::Validated { reads: Cow::Borrowed(*reads), writes: Cow::Borrowed(*writes) }
            }
        };
        Some(Execute {
            footprint: Cow::Borrowed(request.footprint),
            session: request.session,
            branches: request.branches.map(Cow::Borrowed),
            body,
            is_asynchronous: request.is_asynchronous,
            is_measured: request.is_measured,
        })
    }

    /// The request to run.
    pub fn request(&self) -> Request<'_> {
        Request {
            footprint: &self.footprint,
            session: self.session,
            branches: self.branches.as_deref(),
            body: match &self.body {
                Data::Writes(writes) => Body::Writes(writes),
                Data::Call { name, params } | Data::SerializableCall { name, params } => {
                    Body::Call { name, params }
                }
                Data::Validated { reads, writes } => Body::Validated { reads, writes },
            },
            is_asynchronous: self.is_asynchronous,
            is_measured: self.is_measured,
            is_serializable: matches!(
                self.body,
                Data::Validated { .. } | Data::SerializableCall { .. }
            ),
            seat: 0,
        }
    }
}

impl<'a> Seated<'a> {
    /// A request in the name of a seat.
    pub fn of(seat: u64, sent: Execute<'a>) -> Seated<'a> {
        Seated { seat, sent }
    }

    /// The request to run.
    pub fn request(&self) -> Request<'_> {
        Request { seat: self.seat, ..self.sent.request() }
    }
}

/// A [`Read`] at a time.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct ReadAt {
    table: TableId,
    span: Span,
    way: Direction,
    limit: usize,
    /// The time.
    pub at: Time,
    /// The pin that keeps the versions.
    pub pin: Option<PinId>,
}

impl ReadAt {
    /// A read as of a time.
    pub fn of(read: &Read<'_>, at: Time, pin: Option<PinId>) -> ReadAt {
        let (span, way) = match read.span {
            ReadSpan::Key(key) => (Span::Key(key.clone()), Direction::Forward),
            ReadSpan::Range(range, way) => (Span::Range(range.clone()), way),
        };
        ReadAt { table: read.table, span, way, limit: read.limit, at, pin }
    }

    /// The read.
    pub fn read(&self) -> Read<'_> {
        let span = match &self.span {
            Span::Key(key) => ReadSpan::Key(key),
            Span::Range(range) => ReadSpan::Range(range, self.way),
        };
        Read { table: self.table, span, limit: self.limit }
    }
}

/// The rows of a read.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Rows {
    /// The position of the site's log that the read has seen.
    pub seen: SeenUpTo,
    /// The rows, with the times of their commits.
    pub rows: RowsBuffer,
}

/// Identifies one run of a client among all clients.
pub type ClientId = u64;

/// Identifies a pin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Debug)]
pub struct PinId {
    /// Its client.
    pub client: ClientId,
    /// Counts the client's pins at a site.
    pub number: u64,
}

/// Keep the versions of a time, until a lease of the client no longer lists the pin.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct PinAt {
    /// The pin.
    pub id: PinId,
    /// The time.
    pub at: Time,
}

/// Keep history, and the pinned versions.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Lease {
    /// The client.
    pub client: ClientId,
    /// The time from which to keep history.
    pub from: Time,
    /// The number of its last pin at this site.
    pub last: u64,
    /// The pins up to `last` that it still has, in order.
    pub held: Vec<u64>,
}

/// The state of a site, as reported at every lease.
#[derive(Clone, Default, Serialize, Deserialize, Debug)]
pub struct Leased {
    /// The time from which history is complete.
    pub from: Time,
    /// The share of the time of its processors that the site used recently, 0 to 1; `None` if
    /// unknown.
    pub busy: Option<f64>,
    /// The same of its process: all its sites, SQL and routing.
    pub process_busy: Option<f64>,
    /// Bytes of rows and index.
    pub memory_bytes: usize,
    /// The memory limit in bytes.
    pub memory_max: Option<usize>,
    /// The locks with long queues.
    pub hot_locks: Vec<HotLock>,
    /// The failure of the site's log, if it has failed.
    pub failure: Option<LogError>,
}

/// Answer at the next tick, and nothing else.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub struct Tick;

/// Return the latest time that any site of the process has given to a commit or a read.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub struct Latest;

/// Serve a gateway of another process, if this process has the conductor. The bytes are a request
/// of the crate with the gateways, and so is the answer. The site of the request stands for its
/// process.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct ToConductor(#[serde(with = "serde_bytes")] pub Vec<u8>);

/// As [`ToConductor`], for requests that others may wait for: it gets a thread even if requests of
/// clients have taken all of theirs.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct ToConductorNow(#[serde(with = "serde_bytes")] pub Vec<u8>);

/// Run a statement of a client of another process, if this process has a gateway. The bytes are
/// those of the layer above the gateway, and so is the answer. The site of the request stands for
/// its process.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct ToGateway(#[serde(with = "serde_bytes")] pub Vec<u8>);
