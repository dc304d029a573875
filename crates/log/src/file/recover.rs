//! Recovery: what a folder of segments holds after its last owner has ended, and how to repair it.
//!
//! Recovery has two halves. [`scan`] reads everything, changes nothing, and either finds where the
//! log ends or refuses. [`Recovered::repair`] then makes the disk agree. After a crash during the
//! repair, the next scan comes to the same verdict.
//!
//! # Where the log ends
//!
//! The scan walks the segments in order and checks every frame, until it meets bytes that are not
//! the frame that belongs there. From there on it searches, at every byte, for evidence that the
//! log was durable beyond that place: a sound frame with a higher `synced`, or the sound header of
//! a segment (see the [format](super::format)).
//!
//! | at the first bad place | evidence after it | verdict |
//! | --- | --- | --- |
//! | zeros | none | the log ends here |
//! | anything else | none | torn tail: cut off here, and reported |
//! | anything | yes | damage, or a gap between two segments: an error, nothing is changed |
//! | the end of the file | its length | the file was cut short: an error, nothing is changed |
//!
//! Two more things are evidence. The [watermark](super::watermark), beside the segments, records
//! how far the log was durable when the process died, or at some earlier time if the power failed.
//! And a segment's header records the durable length of its file before the first frame was
//! written, which no crash shortens. In a shorter file, only zeros after the last frame prove that
//! the log ended there.
//!
//! # Why a cut is made of zeros
//!
//! The bytes after the cut may hold sound frames of the write that the crash interrupted. If they
//! stayed, and the next frames written over the cut happened to end where one of them starts, a
//! later recovery would take it for the next frame. So everything after the cut is overwritten, and
//! synced, before the log is used.
//!
//! # Why the last write is written again
//!
//! A crash of the process (but not of the machine), or a failed sync, leaves frames that can be
//! read but are not on disk. Recovery accepts them, since they are sound, and from then on treats
//! them as durable. So it has to make them durable. A sync alone is not enough: after a failed one,
//! some systems believe that nothing is left to write. The last frame tells where to begin:
//! everything before its `synced` is on disk.
//!
//! # What recovery cannot tell
//!
//! After a power cut the watermark may be that of an earlier sync. If frames written after it are
//! damaged by another cause than the power cut, they look like a torn tail, because nothing proves
//! that they were ever durable.

use super::folder::{Folder, LOCK_NAME, SegmentFile, write_zeros};
use super::format::{
    FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader, VERSION, read_frame,
    read_segment_header, segment_name, segment_start,
};
use super::watermark::{self, Mark, WATERMARK_NAME};
use crate::{OpenError, Options, Position};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// The name of the file of a segment that is created before it is needed.
pub(crate) const SPARE_NAME: &str = "spare";

/// The bytes cut off the end of a log when it was opened. None of them was ever durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TornTail {
    /// The segment file.
    pub segment: PathBuf,
    /// Offset of the cut in the file.
    pub offset: u64,
    /// Position of the cut: the new end of the log.
    pub position: Position,
    /// Bytes lost, from the cut to the last byte that was not zero.
    pub bytes: u64,
    /// The fault found at the cut.
    pub what: &'static str,
}

impl fmt::Display for TornTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TornTail { segment, offset, position, bytes, what } = self;
        let segment = segment.display();
        write!(
            f,
            "cut a torn tail of {bytes} bytes off {segment} at offset {offset} (position \
             {position:#x}), after the last whole frame: {what}; no commit in it was ever acknowledged"
        )
    }
}

/// The result of a scan.
pub(crate) struct Recovered {
    /// Start positions of the segments to keep, in order. The next frame goes into the last one.
    pub(crate) segments: Vec<Position>,
    /// The end of the log.
    pub(crate) end: Position,
    /// The bytes to cut off, if any.
    pub(crate) torn: Option<TornTail>,
    /// The accepted loss, if any.
    pub(crate) lost: Option<String>,
    pub(crate) has_watermark: bool,
    /// Everything before this position was on disk before the last write.
    synced: Position,
    /// The room for frames in the last segment, if its header is written.
    room: Option<u64>,
    /// Names of files to remove.
    remove: Vec<String>,
}

/// The first place that does not hold the frame that belongs there.
struct Break {
    /// Index of the segment.
    segment: usize,
    /// Offset in its file.
    offset: u64,
    position: Position,
    /// The fault found there; `None` if zeros fill the rest of the segment.
    what: Option<&'static str>,
    /// Bytes from there to the last one that is not zero.
    bytes: u64,
}

/// A walk over the segments of a folder.
struct Scan<'a> {
    folder: &'a dyn Folder,
    starts: Vec<Position>,
    end: Position,
    synced: Position,
    broken: Option<Break>,
    /// The room in the segment that holds the end of the sound frames, if its header is sound.
    room: Option<u64>,
    /// The first evidence that something durable is lost.
    loss: Option<OpenError>,
}

/// The files of a folder.
#[derive(Default)]
struct Listed {
    /// The segments, in order.
    starts: Vec<Position>,
    spare: bool,
    watermark: bool,
}

/// Reads the whole log without changing anything.
pub(crate) fn scan(folder: &dyn Folder, options: &Options) -> Result<Recovered, OpenError> {
    let Listed { starts, spare, watermark } = list(folder)?;
    let mark = match watermark {
        true => watermark::read(folder)
            .map_err(|source| failed(folder, "read", Some(WATERMARK_NAME), source))?,
        false => None,
    };
    let begin = starts.first().copied().unwrap_or(0);
    let (broken, room, loss) = (None, None, None);
    let mut scan = Scan { folder, starts, end: begin, synced: begin, broken, room, loss };
    for index in 0..scan.starts.len() {
        scan.segment(index)?;
    }
    scan.compare(mark, options.must_exist);
    match scan.loss.take() {
        Some(loss) if !options.accept_loss => Err(loss),
        loss => Ok(scan.finish(spare, watermark, loss)),
    }
}

fn list(folder: &dyn Folder) -> Result<Listed, OpenError> {
    let mut listed = Listed::default();
    for name in folder.list().map_err(|source| failed(folder, "list", None, source))? {
        match name.to_str() {
            Some(LOCK_NAME) => {}
            Some(SPARE_NAME) => listed.spare = true,
            Some(WATERMARK_NAME) => listed.watermark = true,
            known => match known.and_then(segment_start) {
                Some(start) => listed.starts.push(start),
                None => return Err(OpenError::Foreign { path: folder.path().join(name) }),
            },
        }
    }
    listed.starts.sort_unstable();
    Ok(listed)
}

impl Scan<'_> {
    /// Processes one segment: walks its frames, or searches for evidence if the log broke before
    /// it.
    fn segment(&mut self, index: usize) -> Result<(), OpenError> {
        let start = self.starts[index];
        let bytes = self.load(start)?;
        let header = read_segment_header(&bytes, start);
        if let SegmentHeader::Version(found) = header {
            return Err(OpenError::Version { path: self.path(start), found, expected: VERSION });
        }
        if self.broken.is_none() && start > self.end {
            // The segment before ended in zeros, and too early. (It cannot have ended too late.)
            self.broken = Some(self.break_at(index - 1, None, 0));
        }
        let header_bytes = bytes.len().min(SEGMENT_HEADER_BYTES as usize);
        let frames = &bytes[header_bytes..];
        if self.broken.is_some() {
            match header {
                SegmentHeader::Sound(_) => self.lose(|scan| scan.refuse(start, start)),
                _ => self.look_for_evidence(start, frames, 0),
            }
            return Ok(());
        }
        self.room = None;
        if let SegmentHeader::Sound(room) = header {
            self.room = Some(room);
            self.walk(index, frames);
            if self.starts.get(index + 1) != Some(&self.end) {
                self.check_length(start, bytes.len() as u64, SEGMENT_HEADER_BYTES + room);
            }
            return Ok(());
        }
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        let broken = self.break_at(index, Some("the header of the segment is wrong"), used(&bytes));
        self.broken = Some(Break { offset: 0, ..broken });
        self.look_for_evidence(start, frames, 0);
        Ok(())
    }

    /// Records a loss, unless one is recorded already.
    fn lose(&mut self, how: impl FnOnce(&Scan<'_>) -> OpenError) {
        if self.loss.is_none() {
            self.loss = Some(how(self));
        }
    }

    /// Checks whether the file of the segment in which the log ends was cut, and perhaps the log
    /// too.
    fn check_length(&mut self, start: Position, bytes: u64, made: u64) {
        let seen = bytes.saturating_sub(SEGMENT_HEADER_BYTES + self.end - start);
        let ends_before = self.broken.is_none() && seen >= FRAME_HEADER_BYTES as u64;
        if bytes < made && !ends_before {
            let (path, position) = (self.path(start), self.end);
            self.lose(|_| OpenError::Short { path, bytes, made, position });
        }
    }

    /// Compares the result of the walk with the watermark.
    fn compare(&mut self, mark: Option<Mark>, must_exist: bool) {
        let end = self.end;
        match (mark, self.starts.last()) {
            (None, None) if must_exist => {
                self.lose(|scan| OpenError::Missing { path: scan.path(0) });
            }
            (Some(mark), None) if must_exist || mark.durable > 0 => {
                self.lose(|scan| OpenError::Missing { path: scan.path(mark.segment) });
            }
            (Some(mark), Some(_)) if mark.durable > end => {
                let what = match &self.broken {
                    Some(Break { offset, what, .. }) => {
                        let what = what.unwrap_or("zeros");
                        format!("at offset {offset}, {what}")
                    }
                    None if self.starts.contains(&mark.segment) => "nothing after that".to_owned(),
                    None => "missing".to_owned(),
                };
                self.lose(|scan| OpenError::Lost {
                    path: scan.path(mark.segment),
                    what,
                    end,
                    proven: mark.durable,
                    witness: scan.folder.path().join(WATERMARK_NAME),
                });
            }
            _ => {}
        }
    }

    /// Walks the frames of a segment up to its end or the first bad one.
    fn walk(&mut self, index: usize, frames: &[u8]) {
        let start = self.starts[index];
        // A frame belongs to one segment: none runs past the start of the next.
        let limit = self.starts.get(index + 1).map_or(u64::MAX, |next| next - start);
        let frames = &frames[..frames.len().min(usize::try_from(limit).unwrap_or(usize::MAX))];
        let mut at = 0;
        while at < frames.len() {
            match read_frame(&frames[at..], start + at as u64) {
                Ok(frame) => {
                    self.synced = frame.synced;
                    at += FRAME_HEADER_BYTES + frame.payload.len();
                }
                Err(what) => {
                    let bytes = used(&frames[at..]);
                    self.end = start + at as u64;
                    if bytes > 0 {
                        self.broken = Some(self.break_at(index, Some(what), bytes));
                        self.look_for_evidence(start, frames, at + 1);
                    }
                    return;
                }
            }
        }
        self.end = start + at as u64;
    }

    /// Searches, from an offset on, for a frame that proves that the log was durable beyond its
    /// break.
    fn look_for_evidence(&mut self, start: Position, frames: &[u8], from: usize) {
        let Some(broken) = self.broken.as_ref().filter(|_| self.loss.is_none()) else { return };
        let end = broken.position;
        let proves = |at: &usize| {
            read_frame(&frames[*at..], start + *at as u64).is_ok_and(|frame| frame.synced > end)
        };
        if let Some(at) = (from..frames.len()).find(proves) {
            self.lose(|scan| scan.refuse(start + at as u64, start));
        }
    }

    /// A break in a segment, at the end of the sound frames so far.
    fn break_at(&self, segment: usize, what: Option<&'static str>, bytes: u64) -> Break {
        let offset = SEGMENT_HEADER_BYTES + (self.end - self.starts[segment]);
        Break { segment, offset, position: self.end, what, bytes }
    }

    /// The error for a broken log with evidence at the position `later`, in a segment.
    fn refuse(&self, later: Position, later_segment: Position) -> OpenError {
        match &self.broken {
            Some(Break { segment, offset, position, what: Some(what), .. }) => {
                let path = self.path(self.starts[*segment]);
                OpenError::Damaged { path, offset: *offset, position: *position, what, later }
            }
            _ => OpenError::Gap { from: self.end, to: later, path: self.path(later_segment) },
        }
    }

    /// Decides which files to keep. Call it only without evidence of a loss, or if the loss is
    /// accepted.
    fn finish(self, spare: bool, has_watermark: bool, loss: Option<OpenError>) -> Recovered {
        let torn = self.broken.as_ref().map(|broken| self.torn(broken));
        let mut segments = self.starts;
        let dropped = match &self.broken {
            Some(broken) => segments.split_off(broken.segment + 1),
            None => Vec::new(),
        };
        let mut remove: Vec<String> = dropped.into_iter().map(segment_name).collect();
        remove.extend(spare.then(|| SPARE_NAME.to_owned()));
        let (end, synced, lost) = (self.end, self.synced, loss.map(|loss| loss.to_string()));
        let room = self.room;
        Recovered { segments, end, torn, lost, has_watermark, synced, room, remove }
    }

    fn torn(&self, broken: &Break) -> TornTail {
        // Without bytes to cut, the frames before the blank segment that follows are missing.
        let next = self.starts.get(broken.segment + 1);
        let missing = next.map_or(0, |next| next - broken.position);
        let what = broken.what.unwrap_or("the frames before the next segment are missing");
        TornTail {
            segment: self.path(self.starts[broken.segment]),
            offset: broken.offset,
            position: broken.position,
            bytes: broken.bytes.max(missing),
            what,
        }
    }

    fn load(&self, start: Position) -> Result<Vec<u8>, OpenError> {
        let name = segment_name(start);
        let read = || -> io::Result<Vec<u8>> {
            let file = self.folder.open(&name)?;
            let mut bytes = Vec::new();
            let length = usize::try_from(file.bytes()?).unwrap_or(usize::MAX);
            bytes.try_reserve_exact(length)?;
            bytes.resize(length, 0);
            let count = file.read_at(&mut bytes, 0)?;
            bytes.truncate(count);
            Ok(bytes)
        };
        read().map_err(|source| failed(self.folder, "read", Some(&name), source))
    }

    fn path(&self, start: Position) -> PathBuf {
        self.folder.path().join(segment_name(start))
    }
}

impl Recovered {
    /// The first position kept.
    pub(crate) fn begin(&self) -> Position {
        self.segments.first().copied().unwrap_or(self.end)
    }

    /// Makes the disk agree with the scan, and everything found durable. Returns the file of the
    /// last segment, with room for at least `segment_bytes` of frames if it has no header yet, and
    /// the position where its room ends.
    pub(crate) fn repair(
        &self,
        folder: &dyn Folder,
        segment_bytes: u64,
    ) -> Result<(Arc<dyn SegmentFile>, Position), OpenError> {
        // Later segments are removed first: while they are there, the next scan comes to the same
        // verdict.
        for name in self.remove.iter().rev() {
            folder.remove(name).map_err(|source| failed(folder, "remove", Some(name), source))?;
        }
        let bytes = SEGMENT_HEADER_BYTES + segment_bytes;
        let Some((&last, complete)) = self.segments.split_last() else {
            return prepare(folder, self.end, |name| folder.create(name, bytes));
        };
        // The last write may have filled a segment without reaching the next one.
        let unsure = complete.iter().zip(&self.segments[1..]);
        for (&start, _) in unsure.filter(|(_, next)| **next > self.synced) {
            prepare(folder, start, |name| {
                let file = folder.open(name)?;
                self.write_again(start, &*file)?;
                Ok(file)
            })?;
        }
        prepare(folder, last, |name| {
            let file = folder.open(name)?;
            self.cut(last, &*file)?;
            self.write_again(last, &*file)?;
            // A segment with a header keeps the room recorded there.
            file.reserve(self.room.map_or(bytes, |room| SEGMENT_HEADER_BYTES + room))?;
            Ok(file)
        })
    }

    /// Overwrites everything after the end of the log, in its last segment.
    fn cut(&self, start: Position, file: &dyn SegmentFile) -> io::Result<()> {
        if self.torn.is_none() {
            return Ok(());
        }
        // A segment without frames gets a new header with its first frame.
        let from = if self.end == start { 0 } else { SEGMENT_HEADER_BYTES + self.end - start };
        write_zeros(file, from, file.bytes()?)
    }

    /// Repeats the part of the last write that went to a segment, with the header if it was part of
    /// it.
    fn write_again(&self, start: Position, file: &dyn SegmentFile) -> io::Result<()> {
        let from = match self.synced > start {
            true => SEGMENT_HEADER_BYTES + self.synced - start,
            false => 0,
        };
        let to = file.bytes()?.min(SEGMENT_HEADER_BYTES + self.end - start);
        let mut bytes = vec![0; to.saturating_sub(from) as usize];
        file.read_at(&mut bytes, from)?;
        file.write_at(&bytes, from)
    }
}

/// Makes the segment that starts at `start` ready with `open`, and durable. Returns its file, and
/// the position where its room ends.
fn prepare(
    folder: &dyn Folder,
    start: Position,
    open: impl FnOnce(&str) -> io::Result<Arc<dyn SegmentFile>>,
) -> Result<(Arc<dyn SegmentFile>, Position), OpenError> {
    let name = segment_name(start);
    let prepare = || {
        let file = open(&name)?;
        file.sync()?;
        folder.sync()?;
        let room = file.bytes()?.saturating_sub(SEGMENT_HEADER_BYTES);
        Ok((file, start + room))
    };
    prepare().map_err(|source| failed(folder, "prepare", Some(&name), source))
}

/// Length of `bytes` without the zeros at its end.
fn used(bytes: &[u8]) -> u64 {
    bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last as u64 + 1)
}

fn failed(
    folder: &dyn Folder,
    action: &'static str,
    name: Option<&str>,
    source: io::Error,
) -> OpenError {
    let path = name.map_or(folder.path().to_owned(), |name| folder.path().join(name));
    OpenError::Io { action, path, source }
}
