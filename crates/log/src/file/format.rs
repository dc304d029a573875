//! The bytes of a segment file.
//!
//! A segment is a file named by the position of its first frame, sixteen hexadecimal digits and
//! `.log`. It starts with a header of 32 bytes; frames follow without gaps; the rest is zeros.
//! Positions count frames only, so the frame at position `p` of the segment `s` lies at the file
//! offset `32 + p - s`. All integers are little endian; checksums are CRC-32 (IEEE).
//!
//! ```text
//!  offset   0               8       12      16              24              32
//!  segment  ├───────────────┼───────┼───────┼───────────────┼───────────────┼─ frames ─ ─ ─
//!           │ "isomrlog"    │version│ check │ start position│     room      │
//!           └───────────────┴───────┴───────┴───────────────┴───────────────┘
//!              8 bytes        4: 3    4       8               8     check: over the other 28 bytes
//!
//!  offset   0       4       8               16              24          24 + length
//!  frame    ├───────┼───────┼───────────────┼───────────────┼───────────┤
//!           │ check │length │   position    │    synced     │  payload  │
//!           └───────┴───────┴───────────────┴───────────────┴───────────┘
//!              4       4       8               8               length    check: over all after it
//! ```
//!
//! `room` is the space for frames that the file durably had before the header was written. A
//! shorter file was therefore not cut by a crash.
//!
//! `position` repeats the frame's own position. It makes a frame recognizable at any byte where a
//! search starts, and rules out bytes of another file, or of another place, as a frame.
//!
//! `synced` means: when this frame was written, everything before this position was on disk. It
//! distinguishes a crash from damage. Suppose the frames B and C are written together, and the
//! power fails. Disks write in any order, so C may be there and B may not:
//!
//! ```text
//!   A, synced before       B and C written together        D written later
//!  ┌───┬────────┐         ┌───┬╌╌╌╌╌╌╌╌┬───┬────────┐      ┌───┬────────┐
//!  │ 0 │   A    │         │100│ (lost) │100│   C    │      │300│   D    │
//!  └───┴────────┘         └───┴╌╌╌╌╌╌╌╌┴───┴────────┘      └───┴────────┘
//!  0                      100          200                 300
//! ```
//!
//! If the log ends with C, no sync has made B durable: C proves only that everything
//! before 100 was. Recovery cuts the log at 100. If D is there, D proves that everything before 300
//! was on disk when D was written, yet B is missing. Then the disk lost durable bytes, and an
//! operator has to decide. A segment header proves the same about its start position.

use crate::Position;

/// Length of a segment's header.
pub(crate) const SEGMENT_HEADER_BYTES: u64 = 32;

/// Length of a frame's header.
pub(crate) const FRAME_HEADER_BYTES: usize = 24;

/// The version written and understood. It also changes when the contents of frames change, because
/// an old program would misread them.
pub(crate) const VERSION: u32 = 3;

/// Upper bound of segment starts. No log grows this far, and larger values would overflow
/// positions.
const START_MAX: Position = 1 << 62;

const MAGIC: [u8; 8] = *b"isomrlog";

/// The name of the segment that starts at `start`.
pub(crate) fn segment_name(start: Position) -> String {
    format!("{start:016x}.log")
}

/// The start of the segment with this name, if it is one that [`segment_name`] makes.
pub(crate) fn segment_start(name: &str) -> Option<Position> {
    let start = u64::from_str_radix(name.strip_suffix(".log")?, 16).ok()?;
    (start <= START_MAX && segment_name(start) == name).then_some(start)
}

/// The header of the segment that starts at `start`, in a file with `room` bytes for frames.
pub(crate) fn segment_header(start: Position, room: u64) -> [u8; SEGMENT_HEADER_BYTES as usize] {
    let mut header = [0; SEGMENT_HEADER_BYTES as usize];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[16..24].copy_from_slice(&start.to_le_bytes());
    header[24..32].copy_from_slice(&room.to_le_bytes());
    let check = checksum(&[&header[..12], &header[16..]]);
    header[12..16].copy_from_slice(&check.to_le_bytes());
    header
}

/// The meaning of the first bytes of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SegmentHeader {
    /// The header of the segment that starts there, with this many bytes of room for frames.
    Sound(u64),
    /// Only zeros, so nothing is written yet.
    Blank,
    /// A segment of another format version.
    Version(u32),
    /// Anything else.
    Bad,
}

/// Classifies the first bytes of the file of the segment that starts at `start`.
pub(crate) fn read_segment_header(file: &[u8], start: Position) -> SegmentHeader {
    let header = &file[..file.len().min(SEGMENT_HEADER_BYTES as usize)];
    if header.len() == SEGMENT_HEADER_BYTES as usize {
        let room = u64_at(header, 24);
        if *header == segment_header(start, room) {
            return SegmentHeader::Sound(room);
        }
    }
    if header.iter().all(|&byte| byte == 0) {
        return SegmentHeader::Blank;
    }
    match header.get(8..12).and_then(|bytes| bytes.first_chunk()) {
        // Version 0 is a header that did not reach the disk as a whole.
        Some(version) if header.starts_with(&MAGIC) => match u32::from_le_bytes(*version) {
            0 | VERSION => SegmentHeader::Bad,
            version => SegmentHeader::Version(version),
        },
        _ => SegmentHeader::Bad,
    }
}

/// A frame found in the bytes of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Frame<'a> {
    /// Everything before this position was on disk when the frame was written.
    pub(crate) synced: Position,
    /// The bytes appended.
    pub(crate) payload: &'a [u8],
}

/// The header that `append` puts before a payload. [`seal_frames`] completes it when the frame is
/// written.
pub(crate) fn frame_header(length: usize, position: Position) -> [u8; FRAME_HEADER_BYTES] {
    let mut header = [0; FRAME_HEADER_BYTES];
    header[4..8].copy_from_slice(&(length as u32).to_le_bytes());
    header[8..16].copy_from_slice(&position.to_le_bytes());
    header
}

/// Length of the frame at the front of `bytes`, header included, if the header belongs at
/// `position`. Checks neither the rest of the frame nor its checksum.
pub(crate) fn frame_bytes(bytes: &[u8], position: Position) -> Option<usize> {
    let header = bytes.first_chunk::<FRAME_HEADER_BYTES>()?;
    let length = u32_at(header, 4) as usize;
    (u64_at(header, 8) == position).then_some(FRAME_HEADER_BYTES + length)
}

/// Completes the headers of the frames in `bytes`, which must consist of whole frames.
pub(crate) fn seal_frames(mut bytes: &mut [u8], synced: Position) {
    while bytes.len() >= FRAME_HEADER_BYTES {
        let length = FRAME_HEADER_BYTES + u32_at(bytes, 4) as usize;
        let (frame, rest) = bytes.split_at_mut(length);
        frame[16..24].copy_from_slice(&synced.to_le_bytes());
        let check = checksum(&[&frame[4..]]);
        frame[..4].copy_from_slice(&check.to_le_bytes());
        bytes = rest;
    }
}

/// Reads the frame at the front of `bytes`, which belongs at `position`, or says what is wrong.
pub(crate) fn read_frame(bytes: &[u8], position: Position) -> Result<Frame<'_>, &'static str> {
    let header = bytes
        .first_chunk::<FRAME_HEADER_BYTES>()
        .ok_or("the segment ends inside the header of a frame")?;
    if u64_at(header, 8) != position {
        return Err("there is no header of a frame");
    }
    let frame = bytes
        .get(..FRAME_HEADER_BYTES + u32_at(header, 4) as usize)
        .ok_or("a frame runs over the end of the segment")?;
    if checksum(&[&frame[4..]]) != u32_at(header, 0) {
        return Err("the checksum of a frame is wrong");
    }
    let synced = u64_at(header, 16);
    if synced > position {
        return Err("a frame says that it was on disk before it was written");
    }
    Ok(Frame { synced, payload: &frame[FRAME_HEADER_BYTES..] })
}

pub(super) fn checksum(parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

/// The integer at an offset of a header, which the caller knows to be long enough.
pub(super) fn u32_at(header: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| header[offset + i]))
}

/// The integer at an offset of a header, which the caller knows to be long enough.
pub(super) fn u64_at(header: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| header[offset + i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(payload: &[u8], position: Position, synced: Position) -> Vec<u8> {
        let mut bytes = frame_header(payload.len(), position).to_vec();
        bytes.extend_from_slice(payload);
        seal_frames(&mut bytes, synced);
        bytes
    }

    #[test]
    fn frames_come_back_and_no_changed_byte_goes_unnoticed() {
        let bytes = sealed(b"seven", 700, 650);
        assert_eq!(read_frame(&bytes, 700), Ok(Frame { synced: 650, payload: b"seven" }));
        assert!(read_frame(&bytes, 701).is_err());
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            assert!(read_frame(&bad, 700).is_err(), "byte {at} changed");
            assert!(read_frame(&bytes[..at], 700).is_err(), "cut at {at}");
        }
        // An empty payload is a frame; zeros are not, even at position 0.
        assert!(read_frame(&sealed(b"", 0, 0), 0).is_ok());
        assert!(read_frame(&[0; 64], 0).is_err());
    }

    #[test]
    fn segment_headers_are_sound_blank_foreign_or_bad() {
        let header = segment_header(0x40, 0x1000);
        assert_eq!(read_segment_header(&header, 0x40), SegmentHeader::Sound(0x1000));
        assert_eq!(read_segment_header(&header, 0x41), SegmentHeader::Bad);
        assert_eq!(read_segment_header(&[0; 100], 0), SegmentHeader::Blank);
        assert_eq!(read_segment_header(&[], 0), SegmentHeader::Blank);
        let mut other = header;
        other[8] = 7;
        assert_eq!(read_segment_header(&other, 0x40), SegmentHeader::Version(7));
        for cut in 1..header.len() {
            assert_eq!(read_segment_header(&header[..cut], 0x40), SegmentHeader::Bad);
        }
    }

    #[test]
    fn segment_names_have_one_spelling() {
        assert_eq!(segment_name(0x40a0), "00000000000040a0.log");
        assert_eq!(segment_start("00000000000040a0.log"), Some(0x40a0));
        for name in [
            "ffffffffffffffff.log",
            "40a0.log",
            "00000000000040A0.log",
            "00000000000040a0",
            "+0000000000040a0.log",
        ] {
            assert_eq!(segment_start(name), None, "{name}");
        }
    }
}
