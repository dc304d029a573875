//! The disk as the file log sees it. No other module of the file log does I/O.
//!
//! Two small traits stand between the log and the operating system. Tests implement them with a
//! disk that fails on demand, or that loses unsynced bytes in a crash.

use crate::OpenError;
use crate::error::is_out_of_handles;
use parking_lot::Mutex;
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The lock file of the folder's owner.
pub(crate) const LOCK_NAME: &str = "lock";

/// A folder of segment files.
pub(crate) trait Folder: Send + Sync {
    /// Its path, for messages.
    fn path(&self) -> &Path;
    /// The names of all its entries.
    fn list(&self) -> io::Result<Vec<OsString>>;
    /// Creates a file of zeros with `bytes` reserved for it. Leaves no file behind on error.
    fn create(&self, name: &str, bytes: u64) -> io::Result<Arc<dyn SegmentFile>>;
    /// Opens a file.
    fn open(&self, name: &str) -> io::Result<Arc<dyn SegmentFile>>;
    /// Renames a file.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes the names durable.
    fn sync(&self) -> io::Result<()>;
    /// Files were closed: refills the reserve of file descriptors.
    fn closed(&self) {}
}

/// An open segment file.
pub(crate) trait SegmentFile: Send + Sync {
    /// Its length.
    fn bytes(&self) -> io::Result<u64>;
    /// Makes the file at least `bytes` long, with zeros, and reserves the space.
    fn reserve(&self, bytes: u64) -> io::Result<()>;
    /// Fills the buffer from an offset on. Returns the number of bytes before the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all the bytes at an offset.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes the contents durable.
    fn sync(&self) -> io::Result<()>;
}

/// A folder of the file system, locked exclusively for the lifetime of this value.
///
/// **File descriptors.** Client connections may use up all descriptors of the process. So this
/// keeps [`RESERVE`] of them, as many as a log needs at a time: for the next segment, for the one
/// after it, and for a file to read. When the system refuses another descriptor, one of the reserve
/// is closed to make room. The reserve is refilled whenever that succeeds.
pub(crate) struct DiskFolder {
    path: PathBuf,
    /// The operating system releases the lock when this is closed, however the process ends.
    lock: File,
    /// Kept open, so that syncing the names needs no descriptor.
    names: File,
    reserve: Mutex<Vec<File>>,
}

/// Number of file descriptors kept in reserve.
const RESERVE: usize = 3;

impl DiskFolder {
    /// Locks the folder. Creates it if it does not exist, unless `must_exist`.
    pub(crate) fn open(path: &Path, must_exist: bool) -> Result<DiskFolder, OpenError> {
        let failed = |action, path: &Path| {
            let path = path.to_owned();
            move |source| OpenError::Io { action, path, source }
        };
        if !path.is_dir() {
            if must_exist {
                return Err(OpenError::Missing { path: path.to_owned() });
            }
            fs::create_dir_all(path).map_err(failed("create", path))?;
            // A new folder is durable only once its parent is synced.
            if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                let synced = File::open(parent).and_then(|parent| parent.sync_all());
                synced.map_err(failed("sync", parent))?;
            }
        }
        let lock_path = path.join(LOCK_NAME);
        let lock = File::options()
            .create(true)
            .write(true)
            .truncate(false)
            .open(&lock_path)
            .map_err(failed("open", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::InUse { path: lock_path }),
            Err(TryLockError::Error(source)) => return Err(failed("lock", &lock_path)(source)),
        }
        let names = File::open(path).map_err(failed("open", path))?;
        let (path, reserve) = (path.to_owned(), Mutex::default());
        let folder = DiskFolder { path, lock, names, reserve };
        folder.fill_reserve();
        Ok(folder)
    }

    /// Opens a file, if necessary with a descriptor of the reserve.
    fn with_reserve(&self, open: impl Fn() -> io::Result<File>) -> io::Result<File> {
        let mut opened = open();
        while opened.as_ref().is_err_and(is_out_of_handles) && self.reserve.lock().pop().is_some() {
            opened = open();
        }
        self.fill_reserve();
        opened
    }

    fn fill_reserve(&self) {
        let mut reserve = self.reserve.lock();
        while reserve.len() < RESERVE
            && let Ok(spare) = self.lock.try_clone()
        {
            reserve.push(spare);
        }
    }
}

impl Folder for DiskFolder {
    fn path(&self) -> &Path {
        &self.path
    }

    fn list(&self) -> io::Result<Vec<OsString>> {
        fs::read_dir(&self.path)?.map(|entry| entry.map(|entry| entry.file_name())).collect()
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Arc<dyn SegmentFile>> {
        let path = self.path.join(name);
        let file = self
            .with_reserve(|| File::options().create_new(true).read(true).write(true).open(&path))?;
        if let Err(error) = file.reserve(bytes) {
            // Frees the space reserved so far. If the removal fails too, the first error is the one
            // to report.
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        Ok(Arc::new(file))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn SegmentFile>> {
        let path = self.path.join(name);
        let file = self.with_reserve(|| File::options().read(true).write(true).open(&path))?;
        Ok(Arc::new(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        self.names.sync_all()
    }

    fn closed(&self) {
        self.fill_reserve();
    }
}

impl SegmentFile for File {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        let from = self.metadata()?.len();
        if from >= bytes {
            return Ok(());
        }
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{FallocateFlags, fallocate};
            use rustix::io::Errno;
            match fallocate(self, FallocateFlags::empty(), from, bytes - from) {
                // Some file systems cannot reserve space.
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
                other => return Ok(other?),
            }
        }
        write_zeros(self, from, bytes)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match FileExt::read_at(self, &mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Writes zeros from `from` to `to`.
pub(crate) fn write_zeros(file: &dyn SegmentFile, from: u64, to: u64) -> io::Result<()> {
    let zeros = vec![0; (1 << 20).min(to.saturating_sub(from)) as usize];
    let mut at = from;
    while at < to {
        let count = (zeros.len() as u64).min(to - at);
        file.write_at(&zeros[..count as usize], at)?;
        at += count;
    }
    Ok(())
}
