//! A disk of real files that fails on demand, for tests of code that keeps logs.

use super::folder::{DiskFolder, Folder, SegmentFile};
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The faults of a disk, which tests switch on and off while [logs are
/// open](super::FileLog::open_on) on it.
#[derive(Default, Debug)]
pub struct DiskFaults {
    syncs: AtomicBool,
    room: AtomicBool,
}

impl DiskFaults {
    /// Switches failures of file syncs on or off. Written bytes remain readable, also by a log that
    /// is opened later.
    pub fn fail_syncs(&self, fails: bool) {
        self.syncs.store(fails, Ordering::SeqCst);
    }

    /// Switches on or off that the disk is full.
    pub fn fill_up(&self, is_full: bool) {
        self.room.store(is_full, Ordering::SeqCst);
    }

    fn check_room(&self) -> io::Result<()> {
        match self.room.load(Ordering::SeqCst) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }

    fn check_sync(&self) -> io::Result<()> {
        match self.syncs.load(Ordering::SeqCst) {
            true => Err(io::Error::other("injected fault")),
            false => Ok(()),
        }
    }
}

/// A folder on a disk with faults.
pub(super) struct FaultyFolder {
    pub(super) folder: DiskFolder,
    pub(super) faults: Arc<DiskFaults>,
}

struct FaultyFile {
    file: Arc<dyn SegmentFile>,
    faults: Arc<DiskFaults>,
}

impl FaultyFolder {
    fn with_faults(&self, file: Arc<dyn SegmentFile>) -> Arc<dyn SegmentFile> {
        Arc::new(FaultyFile { file, faults: self.faults.clone() })
    }
}

impl Folder for FaultyFolder {
    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn list(&self) -> io::Result<Vec<OsString>> {
        self.folder.list()
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Arc<dyn SegmentFile>> {
        self.faults.check_room()?;
        self.folder.create(name, bytes).map(|file| self.with_faults(file))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn SegmentFile>> {
        self.folder.open(name).map(|file| self.with_faults(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.folder.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.folder.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.faults.check_sync()?;
        self.folder.sync()
    }

    fn closed(&self) {
        self.folder.closed();
    }
}

impl SegmentFile for FaultyFile {
    fn bytes(&self) -> io::Result<u64> {
        self.file.bytes()
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        self.faults.check_room()?;
        self.file.reserve(bytes)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.faults.check_room()?;
        self.file.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.faults.check_sync()?;
        self.file.sync()
    }
}
