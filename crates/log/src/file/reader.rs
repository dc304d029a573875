//! Reading frames back: from memory near the end of the log, from the segment files before that.

use super::FileLog;
use super::folder::SegmentFile;
use super::format::{
    FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES, frame_bytes, read_frame, segment_name,
};
use crate::{Log, LogError, Position};
use std::io;
use std::sync::Arc;

/// Bytes that a reader copies at a time while it holds the lock that appends need.
const COPY_BYTES: usize = 64 << 10;

/// Bytes that a reader reads from a file at a time.
const READ_BYTES: usize = 256 << 10;

/// Why frames could not be read from a file, other than I/O errors.
#[derive(Debug)]
enum Bad {
    /// No frame starts there.
    NotAFrame,
    /// Another fault, at this offset from the start of the read.
    Damaged(usize, &'static str),
}

impl FileLog {
    /// Copies some frames from `at` on into `frames`, all of them whole and sound; none at the end
    /// of the log. `first` means that `at` has not been checked to be the start of a frame.
    pub(super) fn fetch(
        &self,
        at: Position,
        first: bool,
        frames: &mut Vec<u8>,
    ) -> Result<(), LogError> {
        frames.clear();
        let batch = self.batch.read();
        let tail = self.tail.lock();
        let (begin, end) = (tail.begin(), tail.end());
        if at < begin {
            return Err(LogError::Truncated { position: at, begin });
        }
        if at > end {
            return Err(LogError::BeyondEnd { position: at, end });
        }
        if at >= tail.pending_start {
            let offset = (at - tail.pending_start) as usize;
            return copy_frames(&tail.pending[offset..], at, frames);
        }
        if at >= batch.start {
            drop(tail);
            let offset = (at - batch.start) as usize;
            return copy_frames(&batch.bytes[offset..], at, frames);
        }
        let (start, file, limit) = tail.locate(at);
        let limit = limit.min(batch.start);
        drop(tail);
        drop(batch);
        self.fetch_from_file(start, file, at..limit, first, frames)
    }

    /// Copies some frames of a range of positions from the file of the segment that starts at
    /// `start`.
    fn fetch_from_file(
        &self,
        start: Position,
        file: Option<Arc<dyn SegmentFile>>,
        range: std::ops::Range<Position>,
        first: bool,
        frames: &mut Vec<u8>,
    ) -> Result<(), LogError> {
        let at = range.start;
        let name = segment_name(start);
        let offset = SEGMENT_HEADER_BYTES + (at - start);
        let opened = file.map_or_else(|| self.folder.open(&name), Ok);
        let result = opened.and_then(|file| read_frames(&*file, offset, range, frames));
        let damaged = |after: usize, what: &str| LogError::Damaged {
            position: at + after as u64,
            what: format!(
                "{} at offset {}: {what}",
                self.folder.path().join(&name).display(),
                offset + after as u64
            )
            .into(),
        };
        match result {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Bad::NotAFrame)) if first => Err(LogError::NotAFrame { position: at }),
            Ok(Err(Bad::NotAFrame)) => Err(damaged(0, "there is no header of a frame")),
            Ok(Err(Bad::Damaged(after, what))) => Err(damaged(after, what)),
            // The segment was dropped after the locks were released.
            Err(_) if at < self.begin() => {
                Err(LogError::Truncated { position: at, begin: self.begin() })
            }
            Err(error) => Err(LogError::Read { what: self.describe(&name, &error) }),
        }
    }
}

/// Copies frames from the front of `bytes`, which are in memory: at least one, if there is one.
fn copy_frames(bytes: &[u8], at: Position, frames: &mut Vec<u8>) -> Result<(), LogError> {
    let mut cut = 0;
    while cut < bytes.len() {
        let position = at + cut as u64;
        let next =
            cut + frame_bytes(&bytes[cut..], position).ok_or(LogError::NotAFrame { position })?;
        if cut > 0 && next > COPY_BYTES {
            break;
        }
        cut = next;
    }
    frames.extend_from_slice(&bytes[..cut]);
    Ok(())
}

/// Reads and checks frames from an offset of a file on, which holds a range of positions. Returns
/// at least one frame, and only whole ones.
fn read_frames(
    file: &dyn SegmentFile,
    offset: u64,
    range: std::ops::Range<Position>,
    frames: &mut Vec<u8>,
) -> io::Result<Result<(), Bad>> {
    let available = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
    frames.resize(available.min(READ_BYTES), 0);
    let count = file.read_at(frames, offset)?;
    frames.truncate(count);
    let Some(first) = frame_bytes(frames, range.start) else { return Ok(Err(Bad::NotAFrame)) };
    if first > available {
        return Ok(Err(Bad::Damaged(0, "a frame runs over the end of the segment")));
    }
    if first > frames.len() {
        frames.resize(first, 0);
        let count = file.read_at(frames, offset)?;
        frames.truncate(count);
    }
    let mut cut = 0;
    while cut < frames.len() {
        let position = range.start + cut as u64;
        match read_frame(&frames[cut..], position) {
            Ok(frame) => cut += FRAME_HEADER_BYTES + frame.payload.len(),
            // The last frame may continue beyond the bytes read: the next call begins with it.
            Err(_) if cut > 0 && is_cut(&frames[cut..], position) && frames.len() < available => {
                break;
            }
            Err(what) => return Ok(Err(Bad::Damaged(cut, what))),
        }
    }
    frames.truncate(cut);
    Ok(Ok(()))
}

/// True if the bytes are the front of a frame that continues after them.
fn is_cut(bytes: &[u8], position: Position) -> bool {
    bytes.len() < FRAME_HEADER_BYTES
        || frame_bytes(bytes, position).is_some_and(|length| length > bytes.len())
}
