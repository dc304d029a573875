//! The growing end of the log: its segments, and the frames that wait to be written.

use super::folder::SegmentFile;
use super::format::{FRAME_HEADER_BYTES, frame_header};
use crate::Position;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::task::Waker;

/// The state that an append changes.
pub(super) struct Tail {
    /// In order, never empty. Appends go to the last one.
    pub(super) segments: VecDeque<Segment>,
    /// Where the room in the last segment ends.
    pub(super) segment_limit: Position,
    /// Position of the first byte of `pending`.
    pub(super) pending_start: Position,
    /// Frames that no sync has taken yet.
    pub(super) pending: Vec<u8>,
    /// A file for the next segment, made ahead of time.
    pub(super) spare: Option<Arc<dyn SegmentFile>>,
    pub(super) frames: u64,
    /// The waker of the flusher, if it sleeps.
    pub(super) driver: Option<Waker>,
}

/// A segment of the log.
pub(super) struct Segment {
    pub(super) start: Position,
    /// Open while frames of the segment may still be written.
    pub(super) file: Option<Arc<dyn SegmentFile>>,
    /// The file still has the name of the spare one.
    pub(super) is_spare: bool,
}

/// A part of a batch that goes to one segment.
pub(super) struct Part {
    pub(super) segment_start: Position,
    pub(super) file: Arc<dyn SegmentFile>,
    pub(super) is_spare: bool,
    pub(super) start: Position,
    /// Its bytes within the batch.
    pub(super) range: Range<usize>,
}

impl Part {
    /// Position after the last frame.
    pub(super) fn end(&self) -> Position {
        self.start + self.range.len() as u64
    }
}

impl Tail {
    pub(super) fn begin(&self) -> Position {
        self.segments.front().map_or(self.pending_start, |first| first.start)
    }

    pub(super) fn end(&self) -> Position {
        self.pending_start + self.pending.len() as u64
    }

    /// True if the last segment has room for a frame with this payload.
    pub(super) fn fits(&self, payload: &[u8]) -> bool {
        self.end() + (FRAME_HEADER_BYTES + payload.len()) as u64 <= self.segment_limit
    }

    /// Adds a frame at the end and returns the new end.
    pub(super) fn push(&mut self, payload: &[u8]) -> Position {
        let header = frame_header(payload.len(), self.end());
        self.pending.extend_from_slice(&header);
        self.pending.extend_from_slice(payload);
        self.frames += 1;
        self.end()
    }

    /// Starts a new segment at the end of the log, with `room` bytes for frames.
    pub(super) fn start_segment(&mut self, file: Arc<dyn SegmentFile>, room: u64, is_spare: bool) {
        let start = self.end();
        self.segments.push_back(Segment { start, file: Some(file), is_spare });
        self.segment_limit = start + room;
    }

    /// True if it is time to create the next segment's file: half of the last segment is used, and
    /// the name of the spare file is free.
    pub(super) fn wants_spare(&self, segment_bytes: u64) -> bool {
        self.spare.is_none()
            && self.segments.iter().all(|segment| !segment.is_spare)
            && self.end() + segment_bytes / 2 > self.segment_limit
    }

    /// Records that the spare file was renamed to its segment's name.
    pub(super) fn spare_was_named(&mut self) {
        self.segments.iter_mut().for_each(|segment| segment.is_spare = false);
    }

    /// Closes the files of the segments before the one that starts at `start`: they are complete.
    pub(super) fn close_before(&mut self, start: Position) {
        let complete = self.segments.iter_mut().rev().skip_while(|segment| segment.start >= start);
        // An earlier call closed the segments before the first closed one.
        complete.map_while(|segment| segment.file.take()).for_each(drop);
    }

    /// Splits the frames from `start` up to the end, all of them written as one batch, by segment.
    pub(super) fn parts(&self, start: Position) -> Vec<Part> {
        let end = self.pending_start;
        let first = self.segments.partition_point(|segment| segment.start <= start) - 1;
        let mut parts = Vec::new();
        for (index, segment) in self.segments.iter().enumerate().skip(first) {
            let from = start.max(segment.start);
            let to = self.segments.get(index + 1).map_or(end, |next| next.start.min(end));
            if let (true, Some(file)) = (from < to, &segment.file) {
                parts.push(Part {
                    segment_start: segment.start,
                    file: file.clone(),
                    is_spare: segment.is_spare,
                    start: from,
                    range: (from - start) as usize..(to - start) as usize,
                });
            }
        }
        parts
    }

    /// The segment that holds a position of the kept log: its start, its file if open, and the end
    /// of its frames.
    pub(super) fn locate(
        &self,
        at: Position,
    ) -> (Position, Option<Arc<dyn SegmentFile>>, Position) {
        let next = self.segments.partition_point(|segment| segment.start <= at);
        let segment = &self.segments[next - 1];
        let limit = self.segments.get(next).map_or(self.end(), |next| next.start);
        (segment.start, segment.file.clone(), limit)
    }
}
