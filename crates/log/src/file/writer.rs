//! The way to the disk: everything that one `sync` does.

use super::FileLog;
use super::folder::{SegmentFile, write_zeros};
use super::format::{SEGMENT_HEADER_BYTES, seal_frames, segment_header, segment_name};
use super::recover::SPARE_NAME;
use super::tail::Part;
use crate::marks::Woken;
use crate::{Durability, Log, LogError, Position};
use std::io;
use std::sync::Arc;

/// So much goes to the disk before it is synced, even of one frame: a site's copy of a large partition then
/// does not fill the queue of a disk that other sites' commits wait for.
pub(super) const PIECE_BYTES: usize = 8 << 20;
/// So much is filled with zeros at once before frames come there (see [`FileLog::fill_ahead`]).
const FILLED_BYTES: u64 = 1 << 20;
const FILLED_AT_ONCE: usize = 16 << 10;
/// Buffers that a burst has made larger than this are given back.
const BUFFER_BYTES_KEPT: usize = 8 << 20;

/// What the one sync at a time knows about the disk.
pub(super) struct Writer {
    /// Everything before this position is on disk for certain.
    pub(super) synced: Position,
    /// The file written to since then, and its name.
    pub(super) written: Option<(String, Arc<dyn SegmentFile>)>,
    /// A segment was begun since the folder was synced.
    pub(super) names_changed: bool,
    /// Up to here the current segment's file was written to, if only with zeros.
    pub(super) filled: Position,
}

/// The frames last taken by a sync. They stay until the next sync, for readers close to the end.
pub(super) struct Batch {
    pub(super) start: Position,
    pub(super) bytes: Vec<u8>,
}

/// What the disk refused, and the name of the file (empty for the folder itself).
pub(super) type Refused = (String, io::Error);

impl FileLog {
    /// Writes what is pending and makes it durable. Gives who waited for that.
    pub(super) fn write_pending(&self, writer: &mut Writer) -> Option<Woken> {
        let parts = self.take_batch();
        let last = parts.last()?;
        if let Err(refused) = self.write_batch(writer, &parts) {
            return Some(self.fail(refused));
        }
        self.tail.lock().close_before(last.segment_start);
        Some(self.marks.set_durable(last.end()))
    }

    /// Moves what is pending into the batch, and says which part of it goes to which segment.
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

    /// Begins a segment, after making sure that everything before it is on disk: its header is
    /// going to say so.
    fn begin_segment(&self, writer: &mut Writer, part: &Part) -> Result<(), Refused> {
        self.settle(writer, part.start)?;
        let name = segment_name(part.start);
        writer.names_changed = true;
        writer.filled = part.start;
        if part.is_spare {
            let renamed = self.folder.rename(SPARE_NAME, &name);
            renamed.map_err(|error| (name.clone(), error))?;
            self.tail.lock().spare_was_named();
        }
        part.file.write_at(&segment_header(part.start), 0).map_err(|error| (name, error))
    }

    /// Completes the frames of a part and writes them. Readers wait for the first, not the second.
    fn write_frames(&self, writer: &mut Writer, part: &Part) -> Result<(), Refused> {
        seal_frames(&mut self.batch.write().bytes[part.range.clone()], writer.synced);
        let name = segment_name(part.segment_start);
        let mut offset = SEGMENT_HEADER_BYTES + (part.start - part.segment_start);
        let batch = self.batch.read();
        let mut rest = &batch.bytes[part.range.clone()];
        let mut written = Ok(());
        while written.is_ok() && !rest.is_empty() {
            let (piece, more) = rest.split_at(rest.len().min(PIECE_BYTES));
            written = part.file.write_at(piece, offset);
            if written.is_ok() && !more.is_empty() && self.options.durability != Durability::None {
                written = part.file.sync();
            }
            offset += piece.len() as u64;
            rest = more;
        }
        let written = written.and_then(|()| self.fill_ahead(writer, part, offset));
        writer.written = Some((name.clone(), part.file.clone()));
        written.map_err(|error| (name, error))
    }

    /// Writes zeros where the next frames will come. The space is reserved, but the first write to it makes the
    /// file system note that it is used, which the sync has to wait for: on ext4, a sync of blocks that have
    /// been written before takes half the time, and half the processor's.
    /// Batches so large that they save little are not followed by zeros.
    fn fill_ahead(&self, writer: &mut Writer, part: &Part, offset: u64) -> io::Result<()> {
        let is_large = part.range.len() as u64 > FILLED_BYTES / 8;
        if part.end() <= writer.filled || is_large || self.options.durability == Durability::None {
            return Ok(());
        }
        let to = part.file.bytes()?.min(offset + FILLED_BYTES);
        // In pieces of about a batch: the page cache would keep what is written at once as one folio, and look
        // through all of it at each sync.
        for at in (offset..to).step_by(FILLED_AT_ONCE) {
            write_zeros(&*part.file, at, to.min(at + FILLED_AT_ONCE as u64))?;
        }
        writer.filled = part.end() + to.saturating_sub(offset);
        Ok(())
    }

    /// Makes sure that everything before `end`, which has been written, is on disk.
    fn settle(&self, writer: &mut Writer, end: Position) -> Result<(), Refused> {
        if let Some((name, file)) = writer.written.take() {
            file.sync().map_err(|error| (name, error))?;
        }
        if std::mem::take(&mut writer.names_changed) {
            self.folder.sync().map_err(|error| (String::new(), error))?;
        }
        writer.synced = end;
        Ok(())
    }

    /// Creates the next segment ahead of time, once half of the current one is used. Not being
    /// able to is no failure: the append that needs a segment tries again, and says so. (Of two
    /// calls at a time, one finds the name taken.)
    pub(super) fn prepare_spare(&self) {
        if !self.tail.lock().wants_spare(self.options.segment_bytes) {
            return;
        }
        let bytes = SEGMENT_HEADER_BYTES + self.options.segment_bytes;
        if let Ok(file) = self.folder.create(SPARE_NAME, bytes) {
            self.tail.lock().spare = Some(file);
        }
    }

    /// Ends the log after the disk refused a write or a sync. Gives who waited.
    fn fail(&self, (name, source): Refused) -> Woken {
        let mut path = self.folder.path().to_owned();
        if !name.is_empty() {
            path.push(name);
        }
        let source = Arc::new(source);
        let woken = self.marks.fail(LogError::Failed { path, durable: self.durable(), source });
        woken.and(self.tail.lock().driver.take())
    }
}
