//! Checkpoints in a folder: each is a log of its own, in a folder named by its position.
//!
//! ```text
//!   site-1/
//!     checkpoint.00000000001f40a0/     the newest; its name is a position of the redo log
//!     checkpoint.unfinished/           a draft; renamed when it is published
//! ```
//!
//! Frames are checked when they are read, like those of the redo log. A rename is atomic, so there
//! is a whole checkpoint at every moment. `begin` first checks the free space of the disk: a draft
//! that cannot be finished would take the space that the redo log needs.

use super::{CheckpointError, Checkpoints, Draft, Found};
use crate::{Durability, FileLog, Log, Options, Position};
use parking_lot::Mutex;
use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PREFIX: &str = "checkpoint.";
const UNFINISHED: &str = "checkpoint.unfinished";
/// Small, because the unused end of the last segment is wasted.
const SEGMENT_BYTES: u64 = 4 << 20;

/// Returns the number of bytes that are free on the disk of a folder.
type Room = fn(&Path) -> io::Result<u64>;

/// Checkpoints in a folder. See the [module documentation](self).
pub struct FileCheckpoints {
    folder: PathBuf,
    newest: Arc<Mutex<Option<Found>>>,
    room: Room,
}

impl FileCheckpoints {
    /// Opens the checkpoints of a folder, which must exist. Removes an unfinished checkpoint.
    ///
    /// # Errors
    /// [`CheckpointError::Io`].
    pub fn open(folder: impl Into<PathBuf>) -> Result<FileCheckpoints, CheckpointError> {
        let folder = folder.into();
        remove(&folder.join(UNFINISHED))?;
        let newest = match list(&folder)?.last() {
            Some(&position) => {
                let bytes = length(&folder.join(name(position)))?;
                Some(Found { position, bytes })
            }
            None => None,
        };
        Ok(FileCheckpoints { folder, newest: Arc::new(Mutex::new(newest)), room })
    }

    /// Removes all of them. The caller has newer ones in another place.
    ///
    /// # Errors
    /// [`CheckpointError::Io`].
    pub fn remove_all(self) -> Result<(), CheckpointError> {
        list(&self.folder)?.into_iter().try_for_each(|one| remove(&self.folder.join(name(one))))
    }
}

impl Checkpoints for FileCheckpoints {
    fn newest(&self) -> Option<Found> {
        *self.newest.lock()
    }

    fn read(&self, visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result<(), CheckpointError> {
        let Some(Found { position, .. }) = self.newest() else { return Ok(()) };
        let log = open(&self.folder.join(name(position)))?;
        log.read(log.begin(), &mut |_, frame| visit(frame))?;
        Ok(())
    }

    fn begin(&self, position: Position, bytes: u64) -> Result<Box<dyn Draft>, CheckpointError> {
        let path = self.folder.join(UNFINISHED);
        remove(&path)?;
        let newest = self.newest();
        remove_before(&self.folder, newest.map_or(0, |newest| newest.position))?;
        let available = (self.room)(&self.folder).map_err(failed("look at", &self.folder))?;
        // Each file reserves its whole space when it is created, and the next one is created early.
        let needed = bytes + 2 * SEGMENT_BYTES;
        if available < needed {
            let path = self.folder.clone();
            return Err(CheckpointError::NoRoom { path, needed, available });
        }
        let mut draft = FileDraft {
            folder: self.folder.clone(),
            position,
            log: None,
            bytes: 0,
            newest: self.newest.clone(),
        };
        draft.log = Some(open(&path)?);
        Ok(Box::new(draft))
    }
}

struct FileDraft {
    folder: PathBuf,
    position: Position,
    /// `None` once the draft is published.
    log: Option<FileLog>,
    bytes: u64,
    newest: Arc<Mutex<Option<Found>>>,
}

impl FileDraft {
    fn log(&self) -> &FileLog {
        self.log.as_ref().expect("a draft has a log until it is published")
    }
}

impl Draft for FileDraft {
    fn append(&mut self, frame: &[u8]) -> Result<(), CheckpointError> {
        self.log().append(frame)?;
        self.bytes += frame.len() as u64;
        Ok(())
    }

    fn settle(&mut self) -> Result<(), CheckpointError> {
        self.log().sync()?;
        Ok(())
    }

    fn publish(mut self: Box<Self>) -> Result<(), CheckpointError> {
        assert_eq!(self.log().durable(), self.log().end(), "a draft is settled first");
        self.log = None;
        let (from, to) = (self.folder.join(UNFINISHED), self.folder.join(name(self.position)));
        sync(&from)?;
        fs::rename(&from, &to).map_err(failed("rename", &from))?;
        sync(&self.folder)?;
        *self.newest.lock() = Some(Found { position: self.position, bytes: self.bytes });
        remove_before(&self.folder, self.position)
    }
}

impl Drop for FileDraft {
    fn drop(&mut self) {
        // After publication there is no folder to remove. If the removal fails, the next `begin`
        // repeats it.
        self.log = None;
        let _ = remove(&self.folder.join(UNFINISHED));
    }
}

fn name(position: Position) -> String {
    format!("{PREFIX}{position:016x}")
}

fn open(path: &Path) -> Result<FileLog, CheckpointError> {
    let options = Options {
        segment_bytes: SEGMENT_BYTES,
        durability: Durability::Commit,
        ..Options::default()
    };
    Ok(FileLog::open(path, options)?.0)
}

/// The positions of the checkpoints of a folder, in order.
fn list(folder: &Path) -> Result<Vec<Position>, CheckpointError> {
    let failed = || failed("list", folder);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed())? {
        let file = entry.map_err(failed())?.file_name();
        let digits = file.to_str().and_then(|file| file.strip_prefix(PREFIX));
        let position = digits.and_then(|digits| Position::from_str_radix(digits, 16).ok());
        found.extend(position.filter(|position| *file == *name(*position)));
    }
    found.sort_unstable();
    Ok(found)
}

fn remove_before(folder: &Path, position: Position) -> Result<(), CheckpointError> {
    let mut older = list(folder)?.into_iter().filter(|other| *other < position);
    older.try_for_each(|other| remove(&folder.join(name(other))))
}

fn remove(path: &Path) -> Result<(), CheckpointError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    }
}

fn sync(folder: &Path) -> Result<(), CheckpointError> {
    File::open(folder).and_then(|file| file.sync_all()).map_err(failed("sync", folder))
}

/// The total length of the files in a folder.
fn length(folder: &Path) -> Result<u64, CheckpointError> {
    let entries = fs::read_dir(folder).map_err(failed("list", folder))?;
    let bytes = entries.map(|entry| entry.and_then(|entry| Ok(entry.metadata()?.len())));
    bytes.sum::<io::Result<u64>>().map_err(failed("list", folder))
}

fn room(folder: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(folder)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CheckpointError {
    let path = path.to_owned();
    move |source| CheckpointError::Io { action, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(checkpoints: &FileCheckpoints, position: Position, frames: &[&[u8]]) {
        let mut draft = checkpoints.begin(position, 100).unwrap();
        frames.iter().for_each(|frame| draft.append(frame).unwrap());
        draft.settle().unwrap();
        draft.publish().unwrap();
    }

    fn frames(checkpoints: &FileCheckpoints) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let read = checkpoints.read(&mut |frame| {
            frames.push(frame.to_vec());
            ControlFlow::Continue(())
        });
        read.unwrap();
        frames
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn the_newest_replaces_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = FileCheckpoints::open(folder.path()).unwrap();
        assert_eq!(checkpoints.newest(), None);
        write(&checkpoints, 0x70, &[b"one", b"two"]);
        write(&checkpoints, 0x1f0, &[b"three"]);
        assert_eq!(names(folder.path()), ["checkpoint.00000000000001f0"]);
        assert_eq!(checkpoints.newest(), Some(Found { position: 0x1f0, bytes: 5 }));
        drop(checkpoints);
        let checkpoints = FileCheckpoints::open(folder.path()).unwrap();
        assert_eq!(checkpoints.newest().unwrap().position, 0x1f0);
        assert_eq!(frames(&checkpoints), [b"three"]);
    }

    #[test]
    fn dropped_drafts_and_those_of_dead_processes_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = FileCheckpoints::open(folder.path()).unwrap();
        write(&checkpoints, 0x70, &[b"one"]);
        let mut draft = checkpoints.begin(0x90, 100).unwrap();
        draft.append(b"half").unwrap();
        draft.settle().unwrap();
        assert!(folder.path().join(UNFINISHED).exists());
        drop(draft);
        assert_eq!(names(folder.path()), ["checkpoint.0000000000000070"]);
        // The state after a crash between the rename and the removal of the older one, with a
        // draft.
        fs::create_dir(folder.path().join(UNFINISHED)).unwrap();
        fs::write(folder.path().join(UNFINISHED).join("spare"), b"half").unwrap();
        fs::rename(
            folder.path().join("checkpoint.0000000000000070"),
            folder.path().join("checkpoint.0000000000000095"),
        )
        .unwrap();
        fs::create_dir(folder.path().join("checkpoint.0000000000000070")).unwrap();
        let checkpoints = FileCheckpoints::open(folder.path()).unwrap();
        assert!(!folder.path().join(UNFINISHED).exists());
        assert_eq!(checkpoints.newest().unwrap().position, 0x95);
        assert_eq!(frames(&checkpoints), [b"one"]);
        drop(checkpoints.begin(0xa0, 100).unwrap());
        assert_eq!(names(folder.path()), ["checkpoint.0000000000000095"]);
    }

    #[test]
    fn a_full_disk_refuses_a_checkpoint_before_anything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut checkpoints = FileCheckpoints::open(folder.path()).unwrap();
        checkpoints.room = |_| Ok(2 * SEGMENT_BYTES + 999);
        let Err(refused) = checkpoints.begin(0x70, 1000) else { panic!("there is no room") };
        assert!(refused.to_string().starts_with("no room for a checkpoint in "), "{refused}");
        assert!(names(folder.path()).is_empty());
        write(&checkpoints, 0x70, &[b"smaller"]);
        assert_eq!(frames(&checkpoints), [b"smaller"]);
    }
}
