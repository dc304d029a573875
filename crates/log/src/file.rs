//! A log in a folder of segment files.
//!
//! # How a frame gets to the disk
//!
//! ```text
//!   append ──copy──▶ pending ──taken by sync──▶ batch ──checksums, write, fdatasync──▶ segment
//!           (short mutex)                     (seen by readers)                       files
//!
//!   begin                     durable = batch.start             pending_start              end
//!     ▼                                ▼                              ▼                     ▼
//!     ├── seg 0 ──┬── seg 0x4000000 ───┼────────── batch ─────────────┼────── pending ──────┤
//! ```
//!
//! `append` only copies bytes: checksums are made by the thread that drives the disk, once for all
//! frames that arrived while it waited for the sync before. The batch stays in memory until the
//! next one replaces it, so those who follow the log closely (replicas) read it from there.
//!
//! # Segments
//!
//! A frame lies in one segment; a segment is closed when the next frame does not fit. Its space is
//! reserved when it is created, so a full disk shows there and nowhere else: as an error of the
//! `append` that needs the next segment, which appends nothing and may be tried again. To keep the
//! wait for that out of `append`, `sync` creates a file named `spare` as soon as half of the
//! current segment is used; it gets its name with its first frame. Only when the disk is a whole
//! segment behind does `append` create a file itself. Space that is reserved but was never written
//! costs a sync dearly, so a little of what lies ahead is filled with zeros.
//!
//! A segment is synced to its end before the next one is written, whatever the durability; so the
//! sound header of a segment proves that everything before it is on disk. How recovery uses that,
//! and what else it does, is told in [`recover`]; the bytes are drawn in [`format`].
//!
//! # Locks
//!
//! In this order: `writer` (one sync at a time, held during I/O), `batch` (shared while it is
//! written, exclusive only while checksums are made), `tail` (an append's copy).

mod folder;
mod format;
mod reader;
mod recover;
mod tail;
mod writer;

pub use recover::TornTail;

use crate::marks::Marks;
use crate::{Counters, Durability, Log, LogError, OpenError, PAYLOAD_BYTES_MAX, Position};
use folder::{DiskFolder, Folder, SegmentFile};
use format::{FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES, frame_bytes, segment_name};
use parking_lot::{Mutex, RwLock};
use recover::Recovered;
use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::task::{Poll, Waker};
use tail::{Segment, Tail};
use writer::{Batch, Writer};

/// How a [`FileLog`] behaves. None of it is stored: a log may be opened with other options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Space for frames in a segment file. A frame that is larger gets a segment of its own.
    pub segment_bytes: u64,
    /// How much may wait for the disk before `append` refuses more ([`LogError::Backlog`]).
    pub backlog_bytes: u64,
    /// What a commit waits for.
    pub durability: Durability,
}

impl Default for Options {
    /// Segments of 64 MiB, a backlog of up to 256 MiB, commits wait for the disk.
    fn default() -> Options {
        Options {
            segment_bytes: 64 << 20,
            backlog_bytes: 256 << 20,
            durability: Durability::Commit,
        }
    }
}

/// What was found when a log was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenReport {
    /// The first position kept.
    pub begin: Position,
    /// The end of the log, where it goes on.
    pub end: Position,
    /// Number of segment files.
    pub segments: usize,
    /// What was cut off the end, if anything: to be told to whoever runs the site.
    pub torn: Option<TornTail>,
}

/// A log in a folder of segment files. See the head of the module.
pub struct FileLog {
    folder: Box<dyn Folder>,
    options: Options,
    marks: Marks,
    writer: Mutex<Writer>,
    batch: RwLock<Batch>,
    tail: Mutex<Tail>,
    /// Names of segments that no longer belong to the log but may still be on disk, oldest first.
    condemned: Mutex<VecDeque<String>>,
}

impl FileLog {
    /// Opens the log in a folder, which is created if it does not exist, and recovers what a crash
    /// left. The folder belongs to this log until it is dropped.
    ///
    /// # Errors
    ///
    /// See [`OpenError`]. A log with damage that is no torn tail is not opened and not touched.
    pub fn open(
        folder: impl AsRef<Path>,
        options: Options,
    ) -> Result<(FileLog, OpenReport), OpenError> {
        FileLog::open_folder(Box::new(DiskFolder::open(folder.as_ref())?), options)
    }

    fn open_folder(
        folder: Box<dyn Folder>,
        options: Options,
    ) -> Result<(FileLog, OpenReport), OpenError> {
        let found = recover::scan(&*folder)?;
        let (last_file, last_limit) = found.repair(&*folder, options.segment_bytes)?;
        let (begin, end) = (found.begin(), found.end);
        let tail = Tail {
            segments: segments(&found, last_file),
            segment_limit: last_limit,
            pending_start: end,
            pending: Vec::new(),
            spare: None,
            frames: 0,
            driver: None,
        };
        let report = OpenReport { begin, end, segments: tail.segments.len(), torn: found.torn };
        let log = FileLog {
            folder,
            options,
            marks: Marks::new(options.durability, begin, end),
            writer: Mutex::new(Writer {
                synced: end,
                written: None,
                names_changed: false,
                filled: end,
            }),
            batch: RwLock::new(Batch { start: end, bytes: Vec::new() }),
            tail: Mutex::new(tail),
            condemned: Mutex::new(VecDeque::new()),
        };
        Ok((log, report))
    }

    /// Makes room for `bytes` at the end of the log: in the next segment; or, if nothing is in the
    /// current one yet, by making that one larger.
    fn make_room(&self, tail: &mut Tail, bytes: u64) -> Result<(), LogError> {
        let room = bytes.max(self.options.segment_bytes);
        let name = segment_name(tail.end());
        let no_segment = |source| LogError::NoSegment {
            path: self.folder.path().join(&name),
            source: Arc::new(source),
        };
        if let Some(Segment { start, file: Some(file), .. }) = tail.segments.back()
            && *start == tail.end()
        {
            file.reserve(SEGMENT_HEADER_BYTES + room).map_err(no_segment)?;
            tail.segment_limit = tail.end() + room;
            return Ok(());
        }
        match tail.spare.take_if(|_| room == self.options.segment_bytes) {
            Some(spare) => tail.start_segment(spare, room, true),
            None => {
                let file = self.folder.create(&name, SEGMENT_HEADER_BYTES + room);
                tail.start_segment(file.map_err(no_segment)?, room, false);
            }
        }
        Ok(())
    }
}

/// The segments of a log just opened: the last one open, the others not.
fn segments(found: &Recovered, last_file: Arc<dyn SegmentFile>) -> VecDeque<Segment> {
    let starts = if found.segments.is_empty() { &[found.end] } else { &found.segments[..] };
    let mut segments: VecDeque<Segment> =
        starts.iter().map(|&start| Segment { start, file: None, is_spare: false }).collect();
    if let Some(last) = segments.back_mut() {
        last.file = Some(last_file);
    }
    segments
}

impl Log for FileLog {
    fn append(&self, payload: &[u8]) -> Result<Position, LogError> {
        self.marks.check()?;
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(LogError::TooLarge { bytes: payload.len(), max: PAYLOAD_BYTES_MAX });
        }
        let mut tail = self.tail.lock();
        let backlog = tail.end() - self.durable();
        if backlog >= self.options.backlog_bytes {
            return Err(LogError::Backlog { bytes: backlog, max: self.options.backlog_bytes });
        }
        if !tail.fits(payload) {
            self.make_room(&mut tail, (FRAME_HEADER_BYTES + payload.len()) as u64)?;
        }
        let end = tail.push(payload);
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

    fn sync(&self) -> Result<Position, LogError> {
        let mut writer = self.writer.lock();
        self.marks.check()?;
        let woken = self.write_pending(&mut writer);
        drop(writer);
        if let Some(woken) = woken {
            woken.wake();
            self.marks.check()?;
            self.prepare_spare();
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
        let mut frames = Vec::new();
        loop {
            self.fetch(at, at == from, &mut frames)?;
            if frames.is_empty() {
                return Ok(at);
            }
            let mut rest = &frames[..];
            while let Some(length) = frame_bytes(rest, at) {
                let flow = visit(at, &rest[FRAME_HEADER_BYTES..length]);
                rest = &rest[length..];
                at += length as u64;
                if flow.is_break() {
                    return Ok(at);
                }
            }
        }
    }

    fn truncate_before(&self, position: Position) -> Result<(), LogError> {
        let mut condemned = self.condemned.lock();
        let mut tail = self.tail.lock();
        // The header of a segment stands for everything before it, and its name for where the log
        // goes on; so the segment that is to come first has to be on disk already.
        while tail.segments.len() > 1
            && tail.segments[1].start <= position
            && tail.segments[1].start < self.durable()
        {
            condemned.extend(tail.segments.pop_front().map(|first| segment_name(first.start)));
        }
        self.marks.set_begin(tail.begin());
        drop(tail);
        while let Some(name) = condemned.front() {
            // One after the other, oldest first, so that a crash leaves no gap.
            let removed = match self.folder.remove(name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                removed => removed.and_then(|()| self.folder.sync()),
            };
            removed.map_err(|source| LogError::Remove {
                path: self.folder.path().join(name),
                source: Arc::new(source),
            })?;
            condemned.pop_front();
        }
        Ok(())
    }

    fn counters(&self) -> Counters {
        let frames = self.tail.lock().frames;
        Counters { frames, bytes: self.marks.bytes(), syncs: self.marks.syncs() }
    }
}

#[cfg(test)]
mod tests;
