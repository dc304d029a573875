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
//! `append` only copies bytes. The flusher computes the checksums, once for all frames that arrived
//! during the sync before. The batch stays in memory until the next one replaces it, so readers
//! close to the end of the log (replicas) read it from there.
//!
//! # Segments
//!
//! A frame lies in one segment; a segment is closed when the next frame does not fit. The space of
//! a segment is reserved when it is created, so a full disk shows there: the `append` that needs
//! the next segment fails, appends nothing and may be retried. (Some file systems need more space
//! even for a write into reserved space. Such a failed write is repeated by later syncs, and
//! `append` refuses frames until one succeeds.)
//!
//! To keep the creation of a file out of `append`, `sync` creates a file named `spare` as soon as
//! half of the current segment is used. The file is renamed when its first frame is written.
//! `append` creates a file itself only if the disk is a whole segment behind. The first write to
//! reserved space makes the next sync slow, so a little of the space ahead is filled with zeros.
//!
//! A segment is synced to its end before the next one is written, whatever the durability. So the
//! sound header of a segment proves that everything before it is on disk. [`recover`] explains how
//! recovery uses that; [`format`] draws the bytes; [`watermark`] proves where the log ends.
//!
//! # Locks
//!
//! In this order: `writer` (one sync at a time, held during I/O), `batch` (shared while it is
//! written, exclusive only while checksums are made), `tail` (an append's copy).

mod faults;
mod folder;
mod format;
mod reader;
mod recover;
mod tail;
mod watermark;
mod writer;

pub use faults::DiskFaults;
pub use recover::TornTail;

use crate::error::Lack;
use crate::marks::Marks;
use crate::{Counters, Durability, Log, LogError, OpenError, PAYLOAD_BYTES_MAX, Position};
use faults::FaultyFolder;
use folder::{DiskFolder, Folder, SegmentFile};
use format::{FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES, frame_bytes, segment_name};
use parking_lot::{Mutex, RwLock};
use recover::Recovered;
use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use tail::{Segment, Tail};
use watermark::{Mark, Watermark};
use writer::{Batch, Writer};

/// How a [`FileLog`] behaves. None of it is stored: a log may be opened with other options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Space for frames in a segment file. A frame that is larger gets a segment of its own.
    pub segment_bytes: u64,
    /// Limit on the bytes that wait for the disk: beyond it `append` fails ([`LogError::Backlog`]).
    pub backlog_bytes: u64,
    /// The durability that a commit waits for.
    pub durability: Durability,
    /// The log was created earlier: if nothing of it is left, opening fails instead of creating it.
    pub must_exist: bool,
    /// If durable frames are lost ([`OpenError::is_loss`]), the log is opened all the same, up to
    /// the last position before the loss.
    pub accept_loss: bool,
}

impl Default for Options {
    /// Segments of 64 MiB, a backlog of up to 256 MiB, commits that wait for the disk, and a new
    /// log if there is none.
    fn default() -> Options {
        Options {
            segment_bytes: 64 << 20,
            backlog_bytes: 256 << 20,
            durability: Durability::Commit,
            must_exist: false,
            accept_loss: false,
        }
    }
}

impl Options {
    fn folder(&self, path: &Path) -> Result<DiskFolder, OpenError> {
        DiskFolder::open(path, self.must_exist && !self.accept_loss)
    }
}

/// The result of opening a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenReport {
    /// The first position kept.
    pub begin: Position,
    /// The end of the log, where the next frame goes.
    pub end: Position,
    /// Number of segment files.
    pub segments: usize,
    /// The torn tail that was cut off, if any. The operator of the site should see it.
    pub torn: Option<TornTail>,
    /// Durable frames that are lost, if the loss was [accepted](Options::accept_loss).
    pub lost: Option<String>,
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
    /// The disk had no room for the last batch.
    is_full: AtomicBool,
}

impl FileLog {
    /// Opens the log in a folder, which is created if it does not exist, and recovers from a crash.
    /// The log holds the folder's lock until it is dropped.
    ///
    /// # Errors
    ///
    /// See [`OpenError`]. A log with damage other than a torn tail is neither opened nor changed.
    pub fn open(
        folder: impl AsRef<Path>,
        options: Options,
    ) -> Result<(FileLog, OpenReport), OpenError> {
        FileLog::open_folder(Box::new(options.folder(folder.as_ref())?), options)
    }

    /// Like [`FileLog::open`], on a disk that a test can make fail.
    ///
    /// # Errors
    ///
    /// As [`FileLog::open`].
    pub fn open_on(
        faults: &Arc<DiskFaults>,
        folder: impl AsRef<Path>,
        options: Options,
    ) -> Result<(FileLog, OpenReport), OpenError> {
        let (folder, faults) = (options.folder(folder.as_ref())?, faults.clone());
        FileLog::open_folder(Box::new(FaultyFolder { folder, faults }), options)
    }

    fn open_folder(
        folder: Box<dyn Folder>,
        options: Options,
    ) -> Result<(FileLog, OpenReport), OpenError> {
        let found = recover::scan(&*folder, &options)?;
        let (last_file, last_limit) = found.repair(&*folder, options.segment_bytes)?;
        let (begin, end) = (found.begin(), found.end);
        let mark = Mark { durable: end, segment: found.segments.last().copied().unwrap_or(end) };
        let watermark = Watermark::begin(&*folder, found.has_watermark, mark);
        let watermark = watermark.map_err(|source| OpenError::Io {
            action: "write",
            path: folder.path().join(watermark::WATERMARK_NAME),
            source,
        })?;
        let tail = Tail {
            segments: segments(&found, last_file),
            segment_limit: last_limit,
            pending_start: end,
            pending: Vec::new(),
            spare: None,
            frames: 0,
            driver: None,
        };
        let torn = found.torn.filter(|_| found.lost.is_none());
        let (segments, lost) = (tail.segments.len(), found.lost);
        let report = OpenReport { begin, end, segments, torn, lost };
        let log = FileLog {
            folder,
            options,
            marks: Marks::new(options.durability, begin, end),
            writer: Mutex::new(Writer {
                synced: end,
                written: None,
                names_changed: false,
                filled: end,
                begun: None,
                unwritten: Vec::new(),
                watermark,
            }),
            batch: RwLock::new(Batch { start: end, bytes: Vec::new() }),
            tail: Mutex::new(tail),
            condemned: Mutex::new(VecDeque::new()),
            is_full: AtomicBool::new(false),
        };
        Ok((log, report))
    }

    /// Makes room for `bytes` at the end of the log: in the next segment, or, if the current one is
    /// still empty, by enlarging it.
    fn make_room(&self, tail: &mut Tail, bytes: u64) -> Result<(), LogError> {
        let room = bytes.max(self.options.segment_bytes);
        let name = segment_name(tail.end());
        let no_segment = |error: io::Error| LogError::NoRoom {
            lack: Lack::of(&error),
            what: format!("cannot create its next segment, {}", self.describe(&name, &error))
                .into(),
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

/// The segments of a log just opened; only the last one has an open file.
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
        if self.is_full.load(Ordering::Relaxed) {
            let what = "what was appended before waits to be written".into();
            return Err(LogError::NoRoom { lack: Lack::Space, what });
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
        self.folder.closed();
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
        // While the disk is full, each sync retries; but retrying in a loop gains nothing.
        if tail.end() > self.durable() && !self.is_full.load(Ordering::Relaxed) {
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
        // The header of a segment proves that everything before it was durable, and its name tells
        // where the log continues. So the segment that becomes the first must already be on disk.
        while tail.segments.len() > 1
            && tail.segments[1].start <= position
            && tail.segments[1].start < self.durable()
        {
            condemned.extend(tail.segments.pop_front().map(|first| segment_name(first.start)));
        }
        self.marks.set_begin(tail.begin());
        drop(tail);
        while let Some(name) = condemned.front() {
            // One at a time, oldest first, so that a crash leaves no gap.
            let removed = match self.folder.remove(name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                removed => removed.and_then(|()| self.folder.sync()),
            };
            removed.map_err(|error| LogError::Remove { what: self.describe(name, &error) })?;
            condemned.pop_front();
        }
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

impl Drop for FileLog {
    fn drop(&mut self) {
        self.writer.get_mut().watermark.sync();
    }
}

#[cfg(test)]
mod tests;
