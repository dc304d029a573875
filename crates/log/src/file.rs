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
//! reserved when it is created, so a full disk shows there: as an error of the `append` that needs the
//! next segment, which appends nothing and may be tried again. (Where a file system has to find space for what
//! is written all the same, a write that it refuses is made again by later syncs, and until one succeeds
//! `append` refuses more.) To keep the
//! wait for that out of `append`, `sync` creates a file named `spare` as soon as half of the
//! current segment is used; it gets its name with its first frame. Only when the disk is a whole
//! segment behind does `append` create a file itself. Space that is reserved but was never written
//! costs a sync dearly, so a little of what lies ahead is filled with zeros.
//!
//! A segment is synced to its end before the next one is written, whatever the durability; so the
//! sound header of a segment proves that everything before it is on disk. How recovery uses that,
//! and what else it does, is told in [`recover`]; the bytes are drawn in [`format`]; how the end of the log is
//! vouched for, in [`watermark`].
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
    /// How much may wait for the disk before `append` refuses more ([`LogError::Backlog`]).
    pub backlog_bytes: u64,
    /// What a commit waits for.
    pub durability: Durability,
    /// The log was made before: that nothing of it is there is an error, and not a new log.
    pub must_exist: bool,
    /// If something that was durable is lost ([`OpenError::is_loss`]), the log is opened all the same, up to
    /// where it is whole.
    pub accept_loss: bool,
}

impl Default for Options {
    /// Segments of 64 MiB, a backlog of up to 256 MiB, commits wait for the disk; a new log if there is none.
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
    /// What was durable and is lost, if that was [accepted](Options::accept_loss).
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
        FileLog::open_folder(Box::new(options.folder(folder.as_ref())?), options)
    }

    /// As [`FileLog::open`], on a disk that can be told to fail: for tests.
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

    /// Makes room for `bytes` at the end of the log: in the next segment; or, if nothing is in the
    /// current one yet, by making that one larger.
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
        // While the disk is full, each sync tries again; but nothing is gained by one after the other.
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
