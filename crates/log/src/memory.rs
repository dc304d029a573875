//! A log in memory.
//!
//! Frames lie back to back in segments of about a megabyte. The last segment grows under a mutex;
//! a full one never changes again, so readers share it and visit its frames in place:
//!
//! ```text
//!    sealed (shared, immutable)                 active (under the mutex)
//!   ┌───────────────┐ ┌───────────────┐        ┌──────────┬─────────────┐
//!   │f│ f │  f  │ f │ │ f │   f   │ f │        │ f │ f │ f│ not used yet│
//!   └───────────────┘ └───────────────┘        └──────────┴─────────────┘
//!   start 0           start 1 048 410          start 2 096 555
//!
//!   frame:   length u32 │ check u32 │ payload           check = low half of the position, mixed
//! ```
//!
//! The check is no checksum: memory needs none. It distinguishes the start of a frame from its
//! inside, so that a read from a position which `append` never returned fails instead of delivering
//! garbage.
//!
//! An append is a lock, a copy of the payload and an unlock. The memory of segments that truncation
//! or bounded retention drops is reused, because the first touch of fresh pages costs ten times as
//! much as the copy. A log that keeps everything pays that cost; one that drops segments does not.

use crate::marks::Marks;
use crate::{Counters, Durability, Log, LogError, PAYLOAD_BYTES_MAX, Position};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// Bytes in front of each payload.
const HEADER_BYTES: usize = 8;

/// Bytes of the growing segment that a reader copies at a time, which limits how long appends wait.
const COPY_BYTES: usize = 64 << 10;

/// Number of dropped segments whose memory is kept.
const SPARES_MAX: usize = 8;

/// How a [`MemoryLog`] behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryOptions {
    /// Size of a segment in bytes. A frame that is larger gets a segment of its own.
    pub segment_bytes: usize,
    /// If set, segments are dropped as soon as those after them hold this many bytes, even if a
    /// reader still needs them.
    pub keep_bytes: Option<u64>,
    /// The durability that a wait waits for. With [`Durability::Commit`] the owner has to call
    /// [`Log::sync`].
    pub durability: Durability,
}

impl Default for MemoryOptions {
    /// Segments of 1 MiB, everything kept, no waits.
    fn default() -> MemoryOptions {
        MemoryOptions { segment_bytes: 1 << 20, keep_bytes: None, durability: Durability::None }
    }
}

/// A log in memory. See the head of the module.
pub struct MemoryLog {
    options: MemoryOptions,
    marks: Marks,
    tail: Mutex<Tail>,
}

/// The state that an append changes.
struct Tail {
    /// Full segments, oldest first; the last one ends where the active one starts.
    sealed: VecDeque<Segment>,
    /// First position in `active`.
    active_start: Position,
    active: Vec<u8>,
    /// Memory of dropped segments, for the next ones.
    spares: Vec<Vec<u8>>,
    frames: u64,
    /// The waker of the flusher, if it sleeps.
    driver: Option<Waker>,
}

/// A full segment.
#[derive(Clone)]
struct Segment {
    start: Position,
    bytes: Arc<Vec<u8>>,
}

/// Frames for a reader: a full segment from an offset on, or a copy of some of the active one.
enum Frames {
    Sealed(Arc<Vec<u8>>, usize),
    Copied,
    End,
}

impl MemoryLog {
    /// Bytes that a frame takes in addition to its payload.
    pub const FRAME_HEADER_BYTES: usize = HEADER_BYTES;

    /// An empty log, starting at position 0.
    pub fn new(options: MemoryOptions) -> MemoryLog {
        MemoryLog::starting_at(options, 0)
    }

    /// An empty log that starts at `position`: the end of a log whose beginning is kept elsewhere.
    pub fn starting_at(options: MemoryOptions, position: Position) -> MemoryLog {
        let active = Vec::with_capacity(options.segment_bytes);
        MemoryLog::with_segments(options, VecDeque::new(), position, active)
    }

    fn with_segments(
        options: MemoryOptions,
        sealed: VecDeque<Segment>,
        active_start: Position,
        active: Vec<u8>,
    ) -> MemoryLog {
        let begin = sealed.front().map_or(active_start, |first| first.start);
        let end = active_start + active.len() as u64;
        let tail =
            Tail { sealed, active_start, active, spares: Vec::new(), frames: 0, driver: None };
        let marks = Marks::new(options.durability, begin, end);
        MemoryLog { options, marks, tail: Mutex::new(tail) }
    }

    /// The log as a restart would find it: everything durable, and of the rest the frames that end
    /// at or before `keep`, as if the disk had written those. Does not change this log.
    pub fn crash(&self, keep: Position) -> MemoryLog {
        let keep = keep.max(self.durable()).max(self.begin());
        let tail = self.tail.lock();
        let mut sealed = VecDeque::new();
        for segment in &tail.sealed {
            let end = segment.start + segment.bytes.len() as u64;
            if end > keep {
                let kept = whole_frames(&segment.bytes, 0, (keep - segment.start) as usize);
                return self.restarted(sealed, segment.start, &segment.bytes[..kept]);
            }
            sealed.push_back(segment.clone());
        }
        let kept = whole_frames(&tail.active, 0, (keep - tail.active_start) as usize);
        self.restarted(sealed, tail.active_start, &tail.active[..kept])
    }

    fn restarted(&self, sealed: VecDeque<Segment>, start: Position, bytes: &[u8]) -> MemoryLog {
        let mut active = Vec::with_capacity(self.options.segment_bytes.max(bytes.len()));
        active.extend_from_slice(bytes);
        MemoryLog::with_segments(self.options, sealed, start, active)
    }

    /// Makes the log fail as if its disk had failed, for simulations of broken disks.
    pub fn fail(&self, reason: &str) {
        self.end_with(LogError::Failed { durable: self.durable(), what: Arc::from(reason) });
    }

    /// Marks everything before `position` as durable and wakes the waits for it. For logs that make
    /// frames durable elsewhere and do not call [`Log::sync`].
    pub fn settle(&self, position: Position) {
        assert!(position <= self.end(), "{position:#x} was not appended yet");
        self.marks.set_durable(position).wake();
    }

    /// Wakes the flusher, as an append does.
    pub fn wake_driver(&self) {
        let driver = self.tail.lock().driver.take();
        if let Some(waker) = driver {
            waker.wake();
        }
    }

    /// Ends the log: nothing more is accepted, and all waits end with this error.
    pub fn end_with(&self, failed: LogError) {
        let woken = self.marks.fail(failed);
        let driver = self.tail.lock().driver.take();
        woken.and(driver).wake();
    }

    /// Finds the frames at `at`: shares a sealed segment, or copies some of the active one.
    fn frames(&self, at: Position, copy: &mut Vec<u8>) -> Result<Frames, LogError> {
        let tail = self.tail.lock();
        let (begin, end) = (self.begin(), tail.end());
        if at < begin {
            return Err(LogError::Truncated { position: at, begin });
        }
        if at >= tail.active_start {
            if at > end {
                return Err(LogError::BeyondEnd { position: at, end });
            }
            let offset = (at - tail.active_start) as usize;
            return Ok(copy_frames(&tail.active, offset, copy));
        }
        let after = tail.sealed.partition_point(|segment| segment.start <= at);
        let segment = &tail.sealed[after - 1];
        Ok(Frames::Sealed(segment.bytes.clone(), (at - segment.start) as usize))
    }
}

impl Tail {
    fn end(&self) -> Position {
        self.active_start + self.active.len() as u64
    }

    /// Seals the active segment and starts the next, with room for `bytes` at least.
    fn start_segment(&mut self, bytes: usize, options: &MemoryOptions) {
        let end = self.end();
        if !self.active.is_empty() {
            let full = Arc::new(std::mem::take(&mut self.active));
            self.sealed.push_back(Segment { start: self.active_start, bytes: full });
        }
        self.active_start = end;
        self.drop_old(options);
        let bytes = bytes.max(options.segment_bytes);
        self.active = match self.spares.pop() {
            Some(spare) if spare.capacity() >= bytes => spare,
            _ => Vec::with_capacity(bytes),
        };
    }

    /// Bounded retention: drops segments while those after them hold `keep_bytes`.
    fn drop_old(&mut self, options: &MemoryOptions) {
        let Some(keep) = options.keep_bytes else { return };
        while let Some(first) = self.sealed.front()
            && self.active_start - first.start - first.bytes.len() as u64 >= keep
        {
            self.drop_first(options);
        }
    }

    /// Drops the oldest segment. Its memory is kept for reuse, unless a reader still holds it, or
    /// it was allocated for one large frame.
    fn drop_first(&mut self, options: &MemoryOptions) {
        let dropped = self.sealed.pop_front().and_then(|first| Arc::into_inner(first.bytes));
        if let Some(mut memory) = dropped
            && memory.capacity() == options.segment_bytes
            && self.spares.len() < SPARES_MAX
        {
            memory.clear();
            self.spares.push(memory);
        }
    }

    fn begin(&self) -> Position {
        self.sealed.front().map_or(self.active_start, |first| first.start)
    }
}

impl Log for MemoryLog {
    fn append(&self, payload: &[u8]) -> Result<Position, LogError> {
        self.marks.check()?;
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(LogError::TooLarge { bytes: payload.len(), max: PAYLOAD_BYTES_MAX });
        }
        let bytes = HEADER_BYTES + payload.len();
        let mut tail = self.tail.lock();
        if tail.active.capacity() - tail.active.len() < bytes {
            tail.start_segment(bytes, &self.options);
            self.marks.set_begin(tail.begin());
        }
        let header = header(payload.len(), tail.end());
        tail.active.extend_from_slice(&header);
        tail.active.extend_from_slice(payload);
        tail.frames += 1;
        let end = tail.end();
        self.marks.set_end(end);
        let driver = tail.driver.take();
        drop(tail);
        if let Some(waker) = driver {
            waker.wake();
        }
        Ok(end)
    }

    fn end(&self) -> Position {
        self.marks.end()
    }

    fn durable(&self) -> Position {
        self.marks.durable()
    }

    fn begin(&self) -> Position {
        self.marks.begin()
    }

    /// Moves the durable mark to the end at once. A simulator calls it when its disk is done.
    fn sync(&self) -> Result<Position, LogError> {
        self.marks.check()?;
        if self.end() > self.durable() {
            self.marks.set_durable(self.end()).wake();
        }
        Ok(self.durable())
    }

    fn poll_durable(&self, position: Position, waker: &Waker) -> Poll<Result<(), LogError>> {
        self.marks.poll_durable(position, waker)
    }

    fn poll_work(&self, waker: &Waker) -> Poll<Result<(), LogError>> {
        let mut tail = self.tail.lock();
        if let Err(failure) = self.marks.check() {
            return Poll::Ready(Err(failure));
        }
        if tail.end() > self.durable() {
            return Poll::Ready(Ok(()));
        }
        tail.driver = Some(waker.clone());
        Poll::Pending
    }

    fn read(
        &self,
        from: Position,
        visit: &mut dyn FnMut(Position, &[u8]) -> ControlFlow<()>,
    ) -> Result<Position, LogError> {
        let mut at = from;
        let mut copy = Vec::new();
        loop {
            let sealed;
            let mut rest: &[u8] = match self.frames(at, &mut copy)? {
                Frames::End => return Ok(at),
                Frames::Copied => &copy,
                Frames::Sealed(bytes, offset) => {
                    sealed = bytes;
                    &sealed[offset..]
                }
            };
            while !rest.is_empty() {
                let payload = payload(rest, at).ok_or(LogError::NotAFrame { position: at })?;
                let next = at + (HEADER_BYTES + payload.len()) as u64;
                let flow = visit(at, payload);
                rest = &rest[HEADER_BYTES + payload.len()..];
                at = next;
                if flow.is_break() {
                    return Ok(at);
                }
            }
        }
    }

    fn truncate_before(&self, position: Position) -> Result<(), LogError> {
        let mut tail = self.tail.lock();
        while let Some(first) = tail.sealed.front()
            && first.start + first.bytes.len() as u64 <= position
        {
            tail.drop_first(&self.options);
        }
        self.marks.set_begin(tail.begin());
        Ok(())
    }

    fn counters(&self) -> Counters {
        let frames = self.tail.lock().frames;
        Counters { frames, bytes: self.marks.bytes(), syncs: self.marks.syncs() }
    }

    fn failure(&self) -> Option<LogError> {
        self.marks.failure()
    }
}

/// The bytes in front of a payload at `position`.
fn header(length: usize, position: Position) -> [u8; HEADER_BYTES] {
    let check = (position as u32) ^ 0x69_73_6f_6d;
    (u64::from(check) << 32 | length as u64).to_le_bytes()
}

/// The payload of the frame at the front of `bytes`, if that frame belongs at `position`.
fn payload(bytes: &[u8], position: Position) -> Option<&[u8]> {
    let head = bytes.first_chunk::<HEADER_BYTES>()?;
    let length = u64::from_le_bytes(*head) as u32 as usize;
    if *head != header(length, position) {
        return None;
    }
    bytes.get(HEADER_BYTES..HEADER_BYTES + length)
}

/// The end of the last frame that ends at or before `limit`, counting frames from `from`.
fn whole_frames(bytes: &[u8], from: usize, limit: usize) -> usize {
    let mut at = from;
    while let Some(head) = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
        let next = at + HEADER_BYTES + u32::from_le_bytes(*head) as usize;
        if next > limit.min(bytes.len()) {
            break;
        }
        at = next;
    }
    at
}

/// Copies frames from `offset` on: at least one, and at most [`COPY_BYTES`] unless the first is
/// longer.
fn copy_frames(active: &[u8], offset: usize, copy: &mut Vec<u8>) -> Frames {
    copy.clear();
    if offset == active.len() {
        return Frames::End;
    }
    let mut cut = whole_frames(active, offset, offset + COPY_BYTES);
    if cut == offset {
        // The first frame is longer than [`COPY_BYTES`] (or no frame, which the reader detects).
        cut = active.len();
    }
    copy.extend_from_slice(&active[offset..cut]);
    Frames::Copied
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(log: &MemoryLog) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let visited = log.read(log.begin(), &mut |_, payload| {
            frames.push(payload.to_vec());
            ControlFlow::Continue(())
        });
        assert_eq!(visited.ok(), Some(log.end()));
        frames
    }

    fn small(keep_bytes: Option<u64>) -> MemoryOptions {
        MemoryOptions { segment_bytes: 200, keep_bytes, durability: Durability::Commit }
    }

    #[test]
    fn a_crash_leaves_durable_frames_and_whole_later_ones() {
        let log = MemoryLog::new(small(None));
        let mut ends = vec![0];
        for number in 0..20u8 {
            ends.push(log.append(&vec![number; usize::from(number) * 5]).unwrap());
            if number == 7 {
                log.sync().unwrap();
            }
        }
        let all = frames(&log);
        for keep in 0..=log.end() + 5 {
            let after = log.crash(keep);
            let kept = ends.iter().rposition(|end| *end <= keep).unwrap().max(8);
            assert_eq!((after.end(), after.durable()), (ends[kept], ends[kept]), "keep {keep}");
            assert_eq!(frames(&after), all[..kept]);
            // It continues there, and the log that crashed is unchanged.
            after.append(b"more").unwrap();
            assert_eq!(frames(&after).len(), kept + 1);
        }
        assert_eq!(frames(&log), all);
    }

    #[test]
    fn bounded_retention_drops_old_segments_and_reuses_their_memory() {
        let log = MemoryLog::new(small(Some(1000)));
        for number in 0..1000u32 {
            log.append(&[number as u8; 60]).unwrap();
            let kept = log.end() - log.begin();
            assert!(kept <= 1000 + 400, "{kept} bytes kept");
            assert!(kept >= 1000 || log.begin() == 0);
        }
        assert!(frames(&log).len() >= 1000 / 68);
        log.append(&[1; 5000]).unwrap();
        log.append(&[2; 10]).unwrap();
        assert_eq!(frames(&log).len(), 2);
        let before = log.begin();
        let refused = log.read(0, &mut |_, _| ControlFlow::Break(()));
        assert!(matches!(refused, Err(LogError::Truncated { begin, .. }) if begin == before));
    }

    #[test]
    fn a_failed_log_returns_its_failure_from_every_call() {
        let log = MemoryLog::new(small(None));
        let first = log.append(b"first").unwrap();
        log.sync().unwrap();
        let second = log.append(b"second").unwrap();
        assert!(log.poll_durable(second, Waker::noop()).is_pending());
        log.fail("the disk is gone");
        let message = log.append(b"third").unwrap_err().to_string();
        assert!(message.contains("the disk is gone") && message.contains("0xd"), "{message}");
        assert!(matches!(log.poll_durable(second, Waker::noop()), Poll::Ready(Err(_))));
        assert!(matches!(log.poll_durable(first, Waker::noop()), Poll::Ready(Ok(()))));
        assert!(matches!(log.poll_work(Waker::noop()), Poll::Ready(Err(_))));
        assert!(log.sync().is_err());
        assert_eq!(frames(&log).len(), 2);
    }
}
