//! The watermark: a small file beside the segments that records how far the log was durable.
//!
//! A log cannot detect that its own end is missing. If the file of its last segment is deleted, or
//! the last frames in it are damaged, the rest looks like a log that was never longer. So `sync`
//! also writes the new durable position here, before any wait ends:
//!
//! ```text
//!   sync:  frames written ─▶ fdatasync ─▶ watermark written ─▶ waits end, clients get answers
//!
//!   offset  0               8       12      16              24             32       512
//!           ├───────────────┼───────┼───────┼───────────────┼──────────────┤ ─ ─ ─ ─├── slot 2
//!           │ "isomrmrk"    │version│ check │    durable    │   segment    │
//!           └───────────────┴───────┴───────┴───────────────┴──────────────┘
//! ```
//!
//! `segment` is the start of the segment that holds the last frame: the file to name if it is
//! missing. The two slots are written alternately. Each has a sector of its own, so a write that a
//! power cut interrupts leaves the other slot intact.
//!
//! **Always true, and cheap.** A position that was durable stays durable, so the file is true
//! whenever it reaches the disk. It needs no sync of its own and costs one write of 32 bytes to the
//! page cache. After a crash of the process, recovery reads the last durable position. After a
//! power cut it reads the last or an earlier one, but none from before the last segment, because
//! the file is synced when a segment begins. It is also synced when the log is dropped.
//!
//! **Evidence only.** No frame is recovered from it. If it cannot be written, the log continues,
//! and fewer losses can be proved.

use super::folder::{Folder, SegmentFile};
use super::format::{checksum, u32_at, u64_at};
use crate::Position;
use std::io;
use std::sync::Arc;

/// Its name in the folder.
pub(crate) const WATERMARK_NAME: &str = "watermark";

const SLOT_BYTES: usize = 32;
/// Where the second slot begins, and half the length of the file.
const SLOT_STRIDE: u64 = 512;
const MAGIC: [u8; 8] = *b"isomrmrk";
const VERSION: u32 = 1;

/// The contents of a watermark.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Mark {
    /// Everything before this position was durable.
    pub(crate) durable: Position,
    /// Start of the segment that holds the last durable frame.
    pub(crate) segment: Position,
}

/// The watermark of an open log.
pub(super) struct Watermark {
    file: Arc<dyn SegmentFile>,
    writes: u64,
    is_synced: bool,
}

impl Watermark {
    /// Creates or resets the watermark of a log that has just been recovered, all of which is
    /// durable. The watermark is on disk when this returns.
    pub(super) fn begin(folder: &dyn Folder, is_there: bool, mark: Mark) -> io::Result<Watermark> {
        let file = match is_there {
            true => folder.open(WATERMARK_NAME)?,
            false => folder.create(WATERMARK_NAME, 2 * SLOT_STRIDE)?,
        };
        let mut watermark = Watermark { file, writes: 0, is_synced: true };
        // Both slots, so that neither names an end beyond the repaired log.
        watermark.write(mark)?;
        watermark.write(mark)?;
        watermark.file.sync()?;
        watermark.is_synced = true;
        folder.sync()?;
        Ok(watermark)
    }

    /// Records how far the log is durable. Ignores errors: see the head of the module.
    pub(super) fn note(&mut self, mark: Mark) {
        let _ = self.write(mark);
    }

    /// Syncs the last record, if it is not synced yet.
    pub(super) fn sync(&mut self) {
        if !self.is_synced {
            self.is_synced = self.file.sync().is_ok();
        }
    }

    fn write(&mut self, mark: Mark) -> io::Result<()> {
        let offset = (self.writes % 2) * SLOT_STRIDE;
        self.writes += 1;
        self.is_synced = false;
        self.file.write_at(&encode(mark), offset)
    }
}

/// The mark in a folder's watermark; `None` if neither slot is sound.
pub(crate) fn read(folder: &dyn Folder) -> io::Result<Option<Mark>> {
    let file = folder.open(WATERMARK_NAME)?;
    let mut marks = [None; 2];
    for (slot, mark) in (0..).zip(&mut marks) {
        let mut bytes = [0; SLOT_BYTES];
        let count = file.read_at(&mut bytes, slot * SLOT_STRIDE)?;
        *mark = decode(&bytes[..count]);
    }
    Ok(marks.into_iter().flatten().max())
}

fn encode(mark: Mark) -> [u8; SLOT_BYTES] {
    let mut bytes = [0; SLOT_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[16..24].copy_from_slice(&mark.durable.to_le_bytes());
    bytes[24..32].copy_from_slice(&mark.segment.to_le_bytes());
    let check = checksum(&[&bytes[..12], &bytes[16..]]);
    bytes[12..16].copy_from_slice(&check.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<Mark> {
    let is_whole = bytes.len() == SLOT_BYTES
        && bytes.starts_with(&MAGIC)
        && u32_at(bytes, 8) == VERSION
        && u32_at(bytes, 12) == checksum(&[&bytes[..12], &bytes[16..]]);
    is_whole.then(|| Mark { durable: u64_at(bytes, 16), segment: u64_at(bytes, 24) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_comes_back_and_no_changed_bit_goes_unnoticed() {
        let mark = Mark { durable: 0x1234, segment: 0x1000 };
        let bytes = encode(mark);
        assert_eq!(decode(&bytes), Some(mark));
        for bit in 0..8 * SLOT_BYTES {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&bad), None, "bit {bit}");
        }
        assert_eq!(decode(&bytes[..SLOT_BYTES - 1]), None);
    }
}
