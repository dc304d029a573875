//! Messages as bytes: what the router asks of sites, what they answer, and what they say to each other.
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
//!         64  message         body: from, to, and a Message           none
//!   96 - 111  the carrier's   bodies are its own: its greetings, say
//!        127  published       body: a Time. Comes before the answer of an execute
//!    128 + k  the answer to kind k
//!        255  not understood  body: text. Comes in place of any answer; nothing was done
//! ```
//!
//! Numbers of the head are little-endian. The **number** is the carrier's: where answers come in any order, the
//! answer to a request has its number; here it is 0. It is under the checksum, so that no answer goes to somebody
//! else's request. A body is what [postcard](https://postcard.jamesmunns.com/wire-format)
//! makes of the types of this crate by `serde`: numbers take as many bytes as they need, a variant is its number,
//! nothing has a name. Where the redo log has bytes for something already, these are sent: frames, and rows
//! ([`RowsBuffer`](crate::RowsBuffer)).
//!
//! **What comes in is not trusted.** Every message that this version does not know, that is cut off or that is
//! damaged is a [`BadMessage`] that says which. Lengths are compared with what is there before anything of that
//! length is made. Frames and rows are checked whole, as whoever works on them later relies on that.
//!
//! **How the format grows.** The number of a variant is its place in the type, so new ones are added at the end; a
//! type that is sent gets no new field. Whoever changes what a body holds gives it a new kind (others say that they
//! do not know it, and nothing is done), or the whole format a new version. A test holds the bytes of a message of
//! each variant (`wire/tests/messages`).
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`ask`] | requests and their answers |
//! | [`feed`] | feeds, in which a frame is sent once however many of its records are of interest |

mod ask;
mod feed;
#[cfg(test)]
mod tests;

use crate::execute::SeenUpTo;
use crate::message::Message;
use crate::step::Step;
use crate::two_phase::Part;
pub use ask::{Asked, ClientId, Execute, Lease, Leased, PinAt, PinId, ReadAt, Rows, Tick};
use isomer_design::{SiteId, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The version of the format.
pub const VERSION: u8 = 5;

/// How long the head is.
pub const HEAD_BYTES: usize = 18;
/// Where the number is in the head.
const NUMBER_AT: usize = 6;
/// Where the checksum is in the head.
const SUM_AT: usize = 14;

/// The kind of what one site says to another.
pub const MESSAGE: u8 = 64;
/// The kinds of what only the carrier sends and reads.
pub const CARRIER: std::ops::RangeInclusive<u8> = 96..=111;
/// The kind of word that comes before an answer.
pub const PUBLISHED: u8 = 127;
/// The least kind of an answer.
pub const ANSWER: u8 = 128;
const NOT_UNDERSTOOD: u8 = 255;

/// Bytes that are no message of this version.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadMessage {
    /// There is not even a head.
    #[error("a message has at least {HEAD_BYTES} bytes; this one has {0}")]
    Short(usize),
    /// It is of another version.
    #[error(
        "a message of version {0}; this program knows version {VERSION}, so let both be of one release"
    )]
    Version(u8),
    /// It is not as long as its head says.
    #[error("a message of {announced} bytes has {found}: it was cut off, or something follows it")]
    Length {
        /// How long it should be.
        announced: u64,
        /// How long it is.
        found: usize,
    },
    /// Some of its bytes are not those that were sent.
    #[error(
        "a message of kind {kind} is damaged: its checksum is {found:#010x} and should be {expected:#010x}"
    )]
    Damaged {
        /// Its kind, if that is not what is damaged.
        kind: u8,
        /// The sum of the bytes as they are.
        found: u32,
        /// The sum that was sent.
        expected: u32,
    },
    /// It is of a kind that is not known, or not expected here.
    #[error("a message of kind {kind}, where one of {expected} is expected")]
    Kind {
        /// Its kind.
        kind: u8,
        /// What would be right.
        expected: &'static str,
    },
    /// Its body does not hold what its kind says.
    #[error(
        "the body of a message of kind {kind} is not what it should be in version {VERSION}: {what}"
    )]
    Body {
        /// Its kind.
        kind: u8,
        /// What is wrong.
        what: String,
    },
    /// The answer of somebody who did not understand what was asked. Nothing was done.
    #[error("it was not understood: {0}")]
    NotUnderstood(String),
}

/// A request to a site.
#[derive(Debug)]
pub enum Ask {
    /// To run a transaction.
    Execute(Execute<'static>),
    /// To read at a time.
    Read(ReadAt),
    /// To remember what was there at a time.
    Pin(PinAt),
    /// To keep history.
    Lease(Lease),
    /// To wait for the log.
    UntilDurable(SeenUpTo),
    /// To take a step of a design change.
    Step(Step),
    /// To take part in a transaction over several sites.
    Part(Part),
    /// To answer at the next tick.
    Tick(Tick),
}

/// A request to a site as bytes.
pub fn ask<A: Asked>(site: SiteId, asked: &A) -> Vec<u8> {
    seal(A::KIND, &(site, asked))
}

/// Reads a request, and the site it is for.
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
        kind => Err(BadMessage::Kind { kind, expected: "1 to 8, a request" }),
    }
}

/// The answer to an `A` as bytes.
pub fn answer<A: Asked>(answer: &A::Answer) -> Vec<u8> {
    seal(ANSWER + A::KIND, answer)
}

/// The answer to what was not understood, or not meant for this process.
pub fn not_understood(why: &str) -> Vec<u8> {
    seal(NOT_UNDERSTOOD, &why)
}

/// Reads the answer to an `A`.
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

/// Word of a publication as bytes.
pub fn published(time: Time) -> Vec<u8> {
    seal(PUBLISHED, &time)
}

/// Reads word of a publication.
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

/// What one site says to another as bytes.
pub fn message(from: SiteId, to: SiteId, message: &Message) -> Vec<u8> {
    seal(MESSAGE, &(from, to, message))
}

/// Reads what one site says to another, and which they are.
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

/// A message of the [carrier's own](CARRIER) as bytes.
///
/// # Panics
/// If the kind is none of the carrier's.
pub fn carried(kind: u8, body: &impl Serialize) -> Vec<u8> {
    assert!(CARRIER.contains(&kind), "kind {kind} is not the carrier's");
    seal(kind, body)
}

/// Reads a message of the carrier's own.
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

/// What a head says, for whoever takes messages from a stream of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The kind of the message.
    pub kind: u8,
    /// The number that the carrier has given it.
    pub number: u64,
    /// How many bytes follow the head.
    pub body_bytes: usize,
}

impl Head {
    /// Reads a head whose body may still have to come; whether it is damaged is known with the body.
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

    /// Reads the head of a whole message, which is what was sent.
    ///
    /// # Errors
    /// [`BadMessage`].
    pub fn of(message: &[u8]) -> Result<Head, BadMessage> {
        let Opened { kind, body } = Opened::of(message)?;
        let number = message[NUMBER_AT..SUM_AT].try_into().expect("a number has eight bytes");
        Ok(Head { kind, number: u64::from_le_bytes(number), body_bytes: body.len() })
    }
}

/// Gives a message a number.
///
/// # Panics
/// If it has no head.
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

/// A message that is what was sent, whether or not it is known.
struct Opened<'b> {
    kind: u8,
    body: &'b [u8],
}

impl Opened<'_> {
    fn of(bytes: &[u8]) -> Result<Opened<'_>, BadMessage> {
        // The version first: another one may have another head.
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
            // What has rules of its own says only that they are broken.
            Err(postcard::Error::SerdeDeCustom) => Err(bad("a value is out of bounds".to_owned())),
            Err(error) => Err(bad(error.to_string())),
        }
    }
}
