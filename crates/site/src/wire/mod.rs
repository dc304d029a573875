//! The encoding of messages: requests to sites, their answers, and messages between sites.
//!
//! ```text
//!   message   version u8 │ kind u8 │ length of the body u32 │ number u64 │ CRC-32 of all but itself u32 │ body
//!
//!   kind   1  execute         body: the site asked, and an Execute     answer: Reply, or Failure
//!          2  read                                      a ReadAt               Rows, or Failure
//!          3  pin                                       a PinAt                nothing, or Failure
//!          4  lease                                     a Lease                Leased, or Failure
//!          5  until durable                             a SeenUpTo             nothing, or Failure
//!          6  step                                      a Step                 Answer, or Refusal
//!          7  part                                      a Part                 PartAnswer, or Failure
//!          8  tick                                      nothing                nothing
//!          9  latest                                    nothing                Time
//!         10  to the conductor                          bytes of its gateways  bytes
//!         11  to the conductor, now                     bytes of its gateways  bytes
//!         12  execute, of a seat                        a Seated               Reply, or Failure
//!         13  batch                                     a BatchStep            BatchAnswer, or Failure
//!         14  to the gateway                        bytes of the layer above     bytes
//!         64  message         body: from, to, and a Message           none
//!   96 - 111  the carrier's   bodies of its own, such as handshakes
//!        127  published       body: a Time. Comes before the answer of an execute; of a request to
//!                             the gateway: bytes of the layer above
//!    128 + k  the answer to kind k
//!        255  not understood  body: text. Replaces any answer; nothing was done
//! ```
//!
//! Numbers of the head are little-endian. The **number** belongs to the carrier: if answers arrive
//! in any order, the answer to a request has its number; here it is 0. The checksum covers it, so a
//! damaged number cannot assign an answer to the wrong request. The body is the
//! [postcard](https://postcard.jamesmunns.com/wire-format) encoding of the types of this crate:
//! numbers have variable length, a variant is its index, and there are no names. Frames and rows
//! ([`RowsBuffer`](crate::RowsBuffer)) have the encoding of the redo log.
//!
//! **Input is not trusted.** A message that is unknown to this version, cut off or damaged is a
//! [`BadMessage`] that says which. Lengths are compared with the received bytes before any
//! allocation. Frames and rows are validated as a whole, because later code relies on that.
//!
//! **Evolution.** A variant is encoded as its index, so new ones are added at the end, and a type
//! that is sent gets no new fields. A changed body needs a new kind (which older programs refuse as
//! unknown), or the whole format a new version. A test has the bytes of a message of each variant
//! (`wire/tests/messages`).
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`ask`] | requests and their answers |
//! | [`feed`] | feeds, which send a frame once for all of its records |

mod ask;
mod feed;
#[cfg(test)]
mod tests;

use crate::execute::SeenUpTo;
use crate::message::Message;
use crate::ordered::BatchStep;
use crate::step::Step;
use crate::two_phase::Part;
pub use ask::{
    Asked, ClientId, Execute, Latest, Lease, Leased, PinAt, PinId, ReadAt, Rows, Seated, Tick,
    ToConductor, ToConductorNow, ToGateway,
};
use isomer_design::{SiteId, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The version of the format.
pub const VERSION: u8 = 8;

/// The length of the head.
pub const HEAD_BYTES: usize = 18;
/// Offset of the number in the head.
const NUMBER_AT: usize = 6;
/// Offset of the checksum in the head.
const SUM_AT: usize = 14;

/// The kind of messages between sites.
pub const MESSAGE: u8 = 64;
/// The kinds of the carrier's own messages.
pub const CARRIER: std::ops::RangeInclusive<u8> = 96..=111;
/// The kind of a publication, which precedes an answer.
pub const PUBLISHED: u8 = 127;
/// The lowest kind of an answer.
pub const ANSWER: u8 = 128;
const NOT_UNDERSTOOD: u8 = 255;

/// Bytes that are not a message of this version.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadMessage {
    /// It is shorter than a head.
    #[error("a message has at least {HEAD_BYTES} bytes; this one has {0}")]
    Short(usize),
    /// It has another version.
    #[error(
        "a message of version {0}; this program knows version {VERSION}, so let both be of one release"
    )]
    Version(u8),
    /// Its length is not the one in its head.
    #[error("a message of {announced} bytes has {found}: it was cut off, or something follows it")]
    Length {
        /// The length in its head.
        announced: u64,
        /// Its length.
        found: usize,
    },
    /// Its checksum is wrong.
    #[error(
        "a message of kind {kind} is damaged: its checksum is {found:#010x} and should be {expected:#010x}"
    )]
    Damaged {
        /// Its kind, which may itself be damaged.
        kind: u8,
        /// The checksum of its bytes.
        found: u32,
        /// The checksum in its head.
        expected: u32,
    },
    /// Its kind is unknown, or not expected here.
    #[error("a message of kind {kind}, where one of {expected} is expected")]
    Kind {
        /// Its kind.
        kind: u8,
        /// The expected kinds.
        expected: &'static str,
    },
    /// Its body does not match its kind.
    #[error(
        "the body of a message of kind {kind} is not what it should be in version {VERSION}: {what}"
    )]
    Body {
        /// Its kind.
        kind: u8,
        /// The fault.
        what: String,
    },
    /// The receiver did not understand the request, and did nothing.
    #[error("it was not understood: {0}")]
    NotUnderstood(String),
}

/// A request to a site.
#[derive(Debug)]
pub enum Ask {
    /// Run a transaction.
    Execute(Execute<'static>),
    /// Read at a time.
    Read(ReadAt),
    /// Keep the versions of a time.
    Pin(PinAt),
    /// Keep history.
    Lease(Lease),
    /// Wait for the log.
    UntilDurable(SeenUpTo),
    /// Carry out a step of a design change.
    Step(Step),
    /// Take part in a transaction over several sites.
    Part(Part),
    /// Answer at the next tick.
    Tick(Tick),
    /// Say the latest time of the process.
    Latest(Latest),
    /// Serve a gateway of another process.
    ToConductor(ToConductor),
    /// The same, before others.
    ToConductorNow(ToConductorNow),
    /// Run a transaction of a gateway with a seat.
    Seated(Seated<'static>),
    /// Take a step of a batch of ordered commits.
    Batch(BatchStep),
    /// Run a statement of a client of another process.
    ToGateway(ToGateway),
}

/// Encodes a request to a site.
pub fn ask<A: Asked>(site: SiteId, asked: &A) -> Vec<u8> {
    seal(A::KIND, &(site, asked))
}

/// Decodes a request, and its site.
///
/// # Errors
/// [`BadMessage`].
pub fn read_ask(bytes: &[u8]) -> Result<(SiteId, Ask), BadMessage> {
    fn of<A: DeserializeOwned>(
        opened: &Opened<'_>,
        ask: fn(A) -> Ask,
    ) -> Result<(SiteId, Ask), BadMessage> {
        let (site, asked) = opened.body()?;
        Ok((site, ask(asked)))
    }
    let opened = Opened::of(bytes)?;
    match opened.kind {
        <Execute<'_>>::KIND => of(&opened, Ask::Execute),
        ReadAt::KIND => of(&opened, Ask::Read),
        PinAt::KIND => of(&opened, Ask::Pin),
        Lease::KIND => of(&opened, Ask::Lease),
        SeenUpTo::KIND => of(&opened, Ask::UntilDurable),
        Step::KIND => of(&opened, Ask::Step),
        Part::KIND => of(&opened, Ask::Part),
        Tick::KIND => of(&opened, Ask::Tick),
        Latest::KIND => of(&opened, Ask::Latest),
        ToConductor::KIND => of(&opened, Ask::ToConductor),
        ToConductorNow::KIND => of(&opened, Ask::ToConductorNow),
        <Seated<'_>>::KIND => of(&opened, Ask::Seated),
        BatchStep::KIND => of(&opened, Ask::Batch),
        ToGateway::KIND => of(&opened, Ask::ToGateway),
        kind => Err(BadMessage::Kind { kind, expected: "1 to 14, a request" }),
    }
}

/// Encodes the answer to an `A`.
pub fn answer<A: Asked>(answer: &A::Answer) -> Vec<u8> {
    seal(ANSWER + A::KIND, answer)
}

/// Encodes the answer to a request that is unknown, or meant for another process.
pub fn not_understood(why: &str) -> Vec<u8> {
    seal(NOT_UNDERSTOOD, &why)
}

/// Decodes the answer to an `A`.
///
/// # Errors
/// [`BadMessage`].
pub fn read_answer<A: Asked>(bytes: &[u8]) -> Result<A::Answer, BadMessage> {
    let opened = Opened::of(bytes)?;
    match opened.kind {
        NOT_UNDERSTOOD => Err(BadMessage::NotUnderstood(opened.body()?)),
        kind if kind == ANSWER + A::KIND => opened.body(),
        kind => Err(BadMessage::Kind { kind, expected: "the answer to what was asked" }),
    }
}

/// Encodes a publication.
pub fn published(time: Time) -> Vec<u8> {
    seal(PUBLISHED, &time)
}

/// Decodes a publication.
///
/// # Errors
/// [`BadMessage`].
pub fn read_published(bytes: &[u8]) -> Result<Time, BadMessage> {
    let opened = Opened::of(bytes)?;
    match opened.kind {
        PUBLISHED => opened.body(),
        kind => Err(BadMessage::Kind { kind, expected: "127, word of a publication" }),
    }
}

/// Encodes bytes that come before the answer to a [`ToGateway`].
pub fn early(bytes: &[u8]) -> Vec<u8> {
    seal(PUBLISHED, &bytes)
}

/// Decodes bytes that come before the answer to a [`ToGateway`].
///
/// # Errors
/// [`BadMessage`].
pub fn read_early(message: &[u8]) -> Result<Vec<u8>, BadMessage> {
    let opened = Opened::of(message)?;
    match opened.kind {
        PUBLISHED => opened.body(),
        kind => Err(BadMessage::Kind { kind, expected: "127, what comes before an answer" }),
    }
}

/// Encodes a message between sites.
pub fn message(from: SiteId, to: SiteId, message: &Message) -> Vec<u8> {
    seal(MESSAGE, &(from, to, message))
}

/// Decodes a message between sites, with its sender and receiver.
///
/// # Errors
/// [`BadMessage`].
pub fn read_message(bytes: &[u8]) -> Result<(SiteId, SiteId, Message), BadMessage> {
    let opened = Opened::of(bytes)?;
    match opened.kind {
        MESSAGE => opened.body(),
        kind => Err(BadMessage::Kind { kind, expected: "64, a message between sites" }),
    }
}

/// Encodes a message of the [carrier](CARRIER).
///
/// # Panics
/// If the kind is not one of the carrier's.
pub fn carried(kind: u8, body: &impl Serialize) -> Vec<u8> {
    assert!(CARRIER.contains(&kind), "kind {kind} is not the carrier's");
    seal(kind, body)
}

/// Decodes a message of the carrier.
///
/// # Errors
/// [`BadMessage`].
pub fn read_carried<T: DeserializeOwned>(kind: u8, bytes: &[u8]) -> Result<T, BadMessage> {
    let opened = Opened::of(bytes)?;
    match opened.kind {
        found if found == kind => opened.body(),
        kind => Err(BadMessage::Kind { kind, expected: "96 to 111, the carrier's own" }),
    }
}

/// The head of a message, for a reader of a byte stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The kind of the message.
    pub kind: u8,
    /// The number that the carrier has given it.
    pub number: u64,
    /// The number of bytes after the head.
    pub body_bytes: usize,
}

impl Head {
    /// Decodes a head before its body has arrived. The checksum can only be checked with the body.
    ///
    /// # Errors
    /// [`BadMessage::Version`].
    pub fn read(head: &[u8; HEAD_BYTES]) -> Result<Head, BadMessage> {
        if head[0] != VERSION {
            return Err(BadMessage::Version(head[0]));
        }
        let length = head[2..NUMBER_AT].try_into().expect("a length has four bytes");
        let number = head[NUMBER_AT..SUM_AT].try_into().expect("a number has eight bytes");
        let (length, number) = (u32::from_le_bytes(length), u64::from_le_bytes(number));
        Ok(Head { kind: head[1], number, body_bytes: length as usize })
    }

    /// Decodes the head of a whole message, whose checksum is checked.
    ///
    /// # Errors
    /// [`BadMessage`].
    pub fn of(message: &[u8]) -> Result<Head, BadMessage> {
        let Opened { kind, body } = Opened::of(message)?;
        let number = message[NUMBER_AT..SUM_AT].try_into().expect("a number has eight bytes");
        Ok(Head { kind, number: u64::from_le_bytes(number), body_bytes: body.len() })
    }
}

/// Sets the number of a message.
///
/// # Panics
/// If it is shorter than a head.
pub fn set_number(message: &mut [u8], number: u64) {
    message[NUMBER_AT..SUM_AT].copy_from_slice(&number.to_le_bytes());
    let sum = checksum(message).to_le_bytes();
    message[SUM_AT..HEAD_BYTES].copy_from_slice(&sum);
}

/// Puts a head before a body.
fn seal(kind: u8, body: &impl Serialize) -> Vec<u8> {
    let mut head = [0; HEAD_BYTES];
    (head[0], head[1]) = (VERSION, kind);
    let written = postcard::to_extend(body, head.to_vec());
    let mut bytes = written.expect("values without rules of their own can always be written");
    let length = bytes.len() - HEAD_BYTES;
    let length = u32::try_from(length).expect("a message is shorter than 4 GiB");
    bytes[2..NUMBER_AT].copy_from_slice(&length.to_le_bytes());
    let sum = checksum(&bytes).to_le_bytes();
    bytes[SUM_AT..HEAD_BYTES].copy_from_slice(&sum);
    bytes
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&bytes[..SUM_AT]);
    sum.update(&bytes[HEAD_BYTES..]);
    sum.finalize()
}

/// A message with a correct checksum, of any kind.
struct Opened<'b> {
    kind: u8,
    body: &'b [u8],
}

impl Opened<'_> {
    fn of(bytes: &[u8]) -> Result<Opened<'_>, BadMessage> {
        // The version first: other versions may have other heads.
        if let Some(&version) = bytes.first().filter(|version| **version != VERSION) {
            return Err(BadMessage::Version(version));
        }
        let Some((head, body)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
            return Err(BadMessage::Short(bytes.len()));
        };
        let number = |at: usize| {
            u32::from_le_bytes(head[at..at + 4].try_into().expect("a number has four bytes"))
        };
        let (kind, announced) = (head[1], number(2));
        if announced as usize != body.len() {
            let announced = u64::from(announced) + HEAD_BYTES as u64;
            return Err(BadMessage::Length { announced, found: bytes.len() });
        }
        let (found, expected) = (checksum(bytes), number(SUM_AT));
        if found != expected {
            return Err(BadMessage::Damaged { kind, found, expected });
        }
        Ok(Opened { kind, body })
    }

    fn body<T: DeserializeOwned>(&self) -> Result<T, BadMessage> {
        let bad = |what: String| BadMessage::Body { kind: self.kind, what };
        match postcard::take_from_bytes(self.body) {
            Ok((body, [])) => Ok(body),
            Ok((_, rest)) => Err(bad(format!("{} bytes follow what was expected", rest.len()))),
            // Types with checks of their own report only that a check has failed.
            Err(postcard::Error::SerdeDeCustom) => Err(bad("a value is out of bounds".to_owned())),
            Err(error) => Err(bad(error.to_string())),
        }
    }
}
