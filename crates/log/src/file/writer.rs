//! The path of frames to the disk: the steps of one `sync`.

use super::FileLog;
use super::folder::{SegmentFile, write_zeros};
use super::format::{SEGMENT_HEADER_BYTES, seal_frames, segment_header, segment_name};
use super::recover::SPARE_NAME;
use super::tail::Part;
use super::watermark::{Mark, Watermark};
use crate::error::Lack;
use crate::marks::Woken;
use crate::{Durability, Log, LogError, Position};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes written between two syncs, even of one frame. A large frame, such as a site's copy of a
/// partition, then does not fill the queue of a disk that commits of other sites wait for.
pub(super) const PIECE_BYTES: usize = 8 << 20;
/// Bytes that are filled with zeros at a time, ahead of the frames (see [`FileLog::fill_ahead`]).
const FILLED_BYTES: u64 = 1 << 20;
const FILLED_AT_ONCE: usize = 16 << 10;
/// Buffers that a burst has made larger than this are shrunk.
const BUFFER_BYTES_KEPT: usize = 8 << 20;

/// The state of the disk as `sync` knows it. Only one sync runs at a time.
pub(super) struct Writer {
    /// Everything before this position is on disk.
    pub(super) synced: Position,
    /// The file written to after that position, and its name.
    pub(super) written: Option<(String, Arc<dyn SegmentFile>)>,
    /// A segment was begun after the last sync of the folder.
    pub(super) names_changed: bool,
    /// The current segment's file has been written up to here, if only with zeros.
    pub(super) filled: Position,
    /// The segment that was begun last.
    pub(super) begun: Option<Position>,
    /// The batch, if the disk had no room for it: later syncs retry it.
    pub(super) unwritten: Vec<Part>,
    pub(super) watermark: Watermark,
}

/// The frames that the last sync took. They stay until the next sync, for readers close to the end.
pub(super) struct Batch {
    pub(super) start: Position,
    pub(super) bytes: Vec<u8>,
}

/// A failed call to the disk, and the name of the file (empty for the folder itself).
pub(super) struct Refused {
    name: String,
    error: io::Error,
    /// True if the call had no effect, so it can be repeated.
    may_retry: bool,
}

impl Refused {
    /// A failed write. If the disk was full, it can be repeated.
    fn write(name: String, error: io::Error) -> Refused {
        let may_retry = Lack::of(&error) == Lack::Space;
        Refused { name, error, may_retry }
    }

    /// A failed sync. Its effect is unknown, so it must not be repeated.
    fn sync(name: String, error: io::Error) -> Refused {
        Refused { name, error, may_retry: false }
    }
}

impl FileLog {
    /// Writes the pending frames and makes them durable. Returns the waits that this ends; `None`
    /// if nothing was pending, or if the disk is full.
    pub(super) fn write_pending(&self, writer: &mut Writer) -> Option<Woken> {
        let mut parts = std::mem::take(&mut writer.unwritten);
        if parts.is_empty() {
            parts = self.take_batch();
        }
        let last = parts.last()?;
        if let Err(refused) = self.write_batch(writer, &parts) {
            if refused.may_retry {
                writer.unwritten = parts;
                self.is_full.store(true, Ordering::Relaxed);
                return None;
            }
            return Some(self.fail(refused));
        }
        let mark = Mark { durable: last.end(), segment: last.segment_start };
        if self.options.durability != Durability::None {
            // Before any wait ends; and synced, if the file of the last frames is new.
            writer.watermark.note(mark);
            if parts.iter().any(|part| part.start == part.segment_start) {
                writer.watermark.sync();
            }
        }
        self.is_full.store(false, Ordering::Relaxed);
        self.tail.lock().close_before(last.segment_start);
        Some(self.marks.set_durable(last.end()))
    }

    /// Moves the pending frames into the batch, and splits it by segment.
    fn take_batch(&self) -> Vec<Part> {
        let mut batch = self.batch.write();
        let mut tail = self.tail.lock();
        if tail.pending.is_empty() {
            return Vec::new();
        }
        batch.bytes.clear();
        batch.bytes.shrink_to(BUFFER_BYTES_KEPT);
        std::mem::swap(&mut batch.bytes, &mut tail.pending);
        batch.start = tail.pending_start;
        tail.pending_start += batch.bytes.len() as u64;
        tail.parts(batch.start)
    }

    fn write_batch(&self, writer: &mut Writer, parts: &[Part]) -> Result<(), Refused> {
        for part in parts {
            if part.start == part.segment_start {
                self.begin_segment(writer, part)?;
            }
            self.write_frames(writer, part)?;
        }
        match parts.last() {
            Some(last) if self.options.durability != Durability::None => {
                self.settle(writer, last.end())
            }
            _ => Ok(()),
        }
    }

    /// Begins a segment. First makes everything before it durable, and the length of its file,
    /// because its header is going to claim both.
    fn begin_segment(&self, writer: &mut Writer, part: &Part) -> Result<(), Refused> {
        let name = segment_name(part.start);
        if writer.begun != Some(part.start) {
            self.settle(writer, part.start)?;
            part.file.sync().map_err(|error| Refused::sync(name.clone(), error))?;
            writer.names_changed = true;
            writer.filled = part.start;
            if part.is_spare {
                let renamed = self.folder.rename(SPARE_NAME, &name);
                renamed.map_err(|error| Refused::sync(name.clone(), error))?;
                self.tail.lock().spare_was_named();
            }
            writer.begun = Some(part.start);
        }
        let write = || -> io::Result<()> {
            let room = part.file.bytes()?.saturating_sub(SEGMENT_HEADER_BYTES);
            part.file.write_at(&segment_header(part.start, room), 0)
        };
        write().map_err(|error| Refused::write(name, error))
    }

    /// Completes the frames of a part and writes them. Readers wait for the former only.
    fn write_frames(&self, writer: &mut Writer, part: &Part) -> Result<(), Refused> {
        seal_frames(&mut self.batch.write().bytes[part.range.clone()], writer.synced);
        let name = segment_name(part.segment_start);
        let mut offset = SEGMENT_HEADER_BYTES + (part.start - part.segment_start);
        writer.written = Some((name.clone(), part.file.clone()));
        let batch = self.batch.read();
        let mut rest = &batch.bytes[part.range.clone()];
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(rest.len().min(PIECE_BYTES));
            let written = part.file.write_at(piece, offset);
            written.map_err(|error| Refused::write(name.clone(), error))?;
            if !more.is_empty() && self.options.durability != Durability::None {
                part.file.sync().map_err(|error| Refused::sync(name.clone(), error))?;
            }
            offset += piece.len() as u64;
            rest = more;
        }
        let filled = self.fill_ahead(writer, part, offset);
        filled.map_err(|error| Refused::write(name, error))
    }

    /// Writes zeros where the next frames will go. The space is reserved, but with its first write
    /// the file system has to record that it is used, and the sync waits for that. On ext4, a sync
    /// of blocks that were written before takes half the time, and half the processor time. Large
    /// batches are not followed by zeros, because they would save little.
    fn fill_ahead(&self, writer: &mut Writer, part: &Part, offset: u64) -> io::Result<()> {
        let is_large = part.range.len() as u64 > FILLED_BYTES / 8;
        if part.end() <= writer.filled || is_large || self.options.durability == Durability::None {
            return Ok(());
        }
        let to = part.file.bytes()?.min(offset + FILLED_BYTES);
        // In pieces of about a batch: the page cache would keep one large write as one folio, and
        // search all of it at each sync.
        for at in (offset..to).step_by(FILLED_AT_ONCE) {
            write_zeros(&*part.file, at, to.min(at + FILLED_AT_ONCE as u64))?;
        }
        writer.filled = part.end() + to.saturating_sub(offset);
        Ok(())
    }

    /// Makes everything before `end`, which has been written, durable.
    fn settle(&self, writer: &mut Writer, end: Position) -> Result<(), Refused> {
        if let Some((name, file)) = writer.written.take() {
            file.sync().map_err(|error| Refused::sync(name, error))?;
        }
        if std::mem::take(&mut writer.names_changed) {
            self.folder.sync().map_err(|error| Refused::sync(String::new(), error))?;
        }
        writer.synced = end;
        Ok(())
    }

    /// Creates the next segment's file ahead of time, once half of the current one is used. Ignores
    /// errors: the append that needs the segment tries again and reports them. (Of two concurrent
    /// calls, one finds that the name is taken.)
    pub(super) fn prepare_spare(&self) {
        if !self.tail.lock().wants_spare(self.options.segment_bytes) {
            return;
        }
        let bytes = SEGMENT_HEADER_BYTES + self.options.segment_bytes;
        if let Ok(file) = self.folder.create(SPARE_NAME, bytes) {
            self.tail.lock().spare = Some(file);
        }
    }

    /// Ends the log after the disk failed a write or a sync. Returns all waits.
    fn fail(&self, Refused { name, error, .. }: Refused) -> Woken {
        let what = self.describe(&name, &error);
        let woken = self.marks.fail(LogError::Failed { durable: self.durable(), what });
        woken.and(self.tail.lock().driver.take())
    }

    /// The path of a file of the log (of the folder if `name` is empty), and the error.
    pub(super) fn describe(&self, name: &str, error: &io::Error) -> Arc<str> {
        let mut path = self.folder.path().to_owned();
        if !name.is_empty() {
            path.push(name);
        }
        format!("{}: {error}", path.display()).into()
    }
}
