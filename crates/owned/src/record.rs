//! The bytes of a record: a head of 72 bytes, and a body.
//!
//! ```text
//!   0     4       6    8        24   28    32   40    48        56       64    68    72
//!   │ISOM │version│kind│database│log │first│term│owner│sequence │position│whole│check│ body …
//!    u8×4  u16     u16  u128     u32  u32   u64  u64   u64       u64      u32   u32
//! ```
//!
//! All numbers are little-endian. `check` is the CRC-32 of everything else. The carrier's own
//! checksum does not cover the path from the memory of one process to that of another.
//!
//! A log is one stream of bytes, in which frames follow each other: `length u64 │ bytes`. The body
//! of a record of kind frames is a piece of the stream, from `position` on. A frame that does not
//! fit a record continues in the next one:
//!
//! ```text
//!   stream     │ frame │           frame           │ frame │ frame │
//!   records    ├─────────────┼───────────┼──────────────────┼───────┤
//!              first=0       first=len   first=8 ─▶│      │  first=0
//!              whole=8       whole=0           whole=16 ──▶│  whole=len
//! ```
//!
//! `first` is the offset in the body at which the first frame begins, `whole` the one at which the
//! last complete frame ends.

use std::fmt;
use thiserror::Error;

/// The length of a head.
pub(crate) const HEAD_BYTES: usize = 72;
/// Bytes before a frame in the stream, which hold its length.
pub(crate) const FRAME_HEAD_BYTES: usize = 8;
/// The version written, and the only one read.
const VERSION: u16 = 1;
const MAGIC: &[u8; 4] = b"ISOM";

/// An offset in the partition: the number that the carrier assigns to a record.
pub type Offset = u64;

/// One uninterrupted ownership of a log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Term {
    /// Increases from one owner to the next.
    pub number: u64,
    /// A random number of the claimant, because two may claim the same `number`.
    pub owner: u64,
}

impl Term {
    /// The whole term, as a line of a file.
    pub(crate) fn to_note(self) -> String {
        format!("{} {:016x}", self.number, self.owner)
    }

    /// Parses the format of [`Term::to_note`].
    pub(crate) fn parse(text: &str) -> Option<Term> {
        let (number, owner) = text.split_once(' ')?;
        let owner = u64::from_str_radix(owner, 16).ok()?;
        Some(Term { number: number.parse().ok()?, owner })
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "term {}", self.number)
    }
}

/// The kind of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A process claims the log. The body is its name, for messages.
    Claim,
    /// A piece of the stream. If it is empty, it only confirms that its writer owned the log.
    Frames,
    /// The owner releases the log and serves no more reads.
    Release,
}

/// The head of a record. See the [module documentation](self).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The kind of the record.
    pub kind: Kind,
    /// The number of the database, so that no database reads the log of another.
    pub database: u128,
    /// The number of the log in its database.
    pub log: u32,
    /// The term in which it was written.
    pub term: Term,
    /// Counts the records of a term. An owner writes a record only after the one before counts. In
    /// a claim, the lease of its process in milliseconds; 0 in claims of earlier releases.
    pub sequence: u64,
    /// The position in the stream at which the body begins.
    pub position: u64,
    /// Length of the body.
    pub bytes: u32,
    /// Where the first frame in the body begins; `bytes` if none begins there.
    pub first: u32,
    /// Where the last frame that ends in the body ends; 0 if none ends there.
    pub whole: u32,
}

/// Why bytes are no record.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum BadRecord {
    /// They are something else.
    #[error("it is no record of an Isomer log")]
    Foreign,
    /// They have another version.
    #[error("it has format {0}, and this program reads format {VERSION}")]
    Version(u16),
    /// They were changed after they were written.
    #[error("it is damaged: its check does not fit")]
    Damaged,
}

impl Head {
    /// The bytes of the record with this head.
    ///
    /// # Panics
    /// If the length of the body differs from `bytes`.
    pub fn write(&self, body: &[u8]) -> Vec<u8> {
        assert_eq!(body.len(), self.bytes as usize, "the head says how long the body is");
        let mut record = Vec::with_capacity(HEAD_BYTES + body.len());
        record.extend_from_slice(MAGIC);
        record.extend_from_slice(&VERSION.to_le_bytes());
        record.extend_from_slice(&[self.kind as u8, 0]);
        record.extend_from_slice(&self.database.to_le_bytes());
        record.extend_from_slice(&self.log.to_le_bytes());
        record.extend_from_slice(&self.first.to_le_bytes());
        record.extend_from_slice(&self.term.number.to_le_bytes());
        record.extend_from_slice(&self.term.owner.to_le_bytes());
        record.extend_from_slice(&self.sequence.to_le_bytes());
        record.extend_from_slice(&self.position.to_le_bytes());
        record.extend_from_slice(&self.whole.to_le_bytes());
        record.extend_from_slice(&check(&record, body).to_le_bytes());
        record.extend_from_slice(body);
        record
    }

    /// Parses and checks a record. Returns its head and its body.
    ///
    /// # Errors
    /// [`BadRecord`].
    pub fn read(record: &[u8]) -> Result<(Head, &[u8]), BadRecord> {
        let (head, body) = record.split_at_checked(HEAD_BYTES).ok_or(BadRecord::Foreign)?;
        if !head.starts_with(MAGIC) {
            return Err(BadRecord::Foreign);
        }
        let version = u16::from_le_bytes(at(head, 4));
        if version != VERSION {
            return Err(BadRecord::Version(version));
        }
        if u32::from_le_bytes(at(head, 68)) != check(&head[..68], body) {
            return Err(BadRecord::Damaged);
        }
        let kind = match head[6] {
            0 => Kind::Claim,
            1 => Kind::Frames,
            2 => Kind::Release,
            _ => return Err(BadRecord::Damaged),
        };
        let number = |from| u64::from_le_bytes(at(head, from));
        let small = |from| u32::from_le_bytes(at(head, from));
        let head = Head {
            kind,
            database: u128::from_le_bytes(at(head, 8)),
            log: small(24),
            term: Term { number: number(32), owner: number(40) },
            sequence: number(48),
            position: number(56),
            bytes: body.len() as u32,
            first: small(28),
            whole: small(64),
        };
        let is_sound = head.first <= head.bytes && head.whole <= head.bytes;
        if is_sound { Ok((head, body)) } else { Err(BadRecord::Damaged) }
    }

    /// The position in the stream at which the body ends.
    pub fn end(&self) -> u64 {
        self.position + u64::from(self.bytes)
    }
}

fn at<const N: usize>(head: &[u8], from: usize) -> [u8; N] {
    *head[from..].first_chunk().expect("a head is long enough")
}

fn check(head: &[u8], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(body);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head {
            kind: Kind::Frames,
            database: 0x0123_4567_89ab_cdef_0011_2233_4455_6677,
            log: 3,
            term: Term { number: 8, owner: 0xfeed },
            sequence: 5,
            position: 0x1_0000_0001,
            bytes: 4,
            first: 1,
            whole: 3,
        }
    }

    #[test]
    fn a_record_is_read_back_and_every_change_is_detected() {
        let record = head().write(b"body");
        assert_eq!(Head::read(&record), Ok((head(), &b"body"[..])));
        for at in 0..record.len() {
            let mut damaged = record.clone();
            damaged[at] ^= 1;
            Head::read(&damaged).expect_err("a bit was changed");
            Head::read(&record[..at]).expect_err("it was cut off");
        }
    }

    /// Every later version must read the records written today.
    #[test]
    fn the_format_stays_the_same() {
        let record = head().write(b"body");
        let hex: String = record.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "49534f4d01000100\
             7766554433221100efcdab8967452301\
             0300000001000000\
             0800000000000000edfe000000000000\
             05000000000000000100000001000000\
             03000000b2e11fa6\
             626f6479"
        );
    }

    #[test]
    fn foreign_records_and_versions_are_named() {
        assert_eq!(Head::read(&[7; 100]), Err(BadRecord::Foreign));
        assert_eq!(Head::read(b"{}"), Err(BadRecord::Foreign));
        let mut newer = head().write(b"body");
        newer[4] = 2;
        assert_eq!(Head::read(&newer), Err(BadRecord::Version(2)));
    }
}
