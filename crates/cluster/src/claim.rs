//! Notes in a folder about logs that are elsewhere: the claim by which the folder's process has
//! owned a log.
//!
//! # The problem
//!
//! A process that takes a log from an owner that was killed cannot know whether the old owner still
//! serves reads. So it waits for the end of the owner's lease. Most owners restart in the same
//! place, where their end can be proved: a [folder](crate::folder) stays locked by its process
//! until that has ended, however it has.
//!
//! ```text
//!   process 1   locks the folder ─▶ claims the log ─▶ notes the claim ─▶ killed: its lock ends
//!   process 2   locks the folder ─▶ finds that the log's owner has the claim of the note
//!                                ─▶ process 1 was the owner, and has ended: no wait
//! ```
//!
//! If another process has claimed the log in between, or from another folder, its owner is not that
//! of the note. The note then proves nothing.
//!
//! **A copy of a folder** contains the note, but the lock of its process says nothing about the
//! process of the original. So the note also identifies its writer's lock: the device and inode of
//! the lock's file, and the boot of the machine. The inode is not reused while a process has the
//! file open. A copy, another machine or another boot have a different lock.
//!
//! **A claim is noted** once its owner need not wait any more. A later process that finds this
//! owner ended takes over at once, because the owners before it have ended, too. The note does not
//! wait for the disk: a lost or outdated note proves nothing.
//!
//! # Left out
//!
//! A virtual machine that is duplicated while it runs has two processes with one lock, which do not
//! know of each other.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const NOTE: &str = "claim";
/// Linux draws it at random at boot. Without it nothing can be proved.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// The note of a log in a folder. The folder stays locked while this exists. See the [module
/// documentation](self).
#[derive(Clone)]
pub struct ClaimNote {
    path: PathBuf,
    lock: Arc<File>,
}

impl ClaimNote {
    /// The note in a folder that is locked by this file, or is part of one that is.
    pub(crate) fn new(folder: &Path, lock: Arc<File>) -> ClaimNote {
        ClaimNote { path: folder.join(NOTE), lock }
    }

    /// The name of its file.
    pub(crate) const fn name() -> &'static str {
        NOTE
    }

    /// The claim of an owner that has certainly ended, if it has left such a note.
    pub fn ended(&self) -> Option<String> {
        let text = fs::read_to_string(&self.path).ok()?;
        let (claim, lock) = text.trim_end().split_once('\n')?;
        (lock == self.locked()?).then(|| claim.to_owned())
    }

    /// Notes the claim by which this process owns the log, as one line, once it has nothing left to
    /// wait for.
    pub fn write(&self, claim: &str) {
        let Some(lock) = self.locked() else { return };
        // If this fails, the next process waits for the lease.
        let _ = self.try_write(&format!("{claim}\n{lock}\n"));
    }

    fn try_write(&self, text: &str) -> std::io::Result<()> {
        let new = self.path.with_extension("new");
        let mut options = File::options();
        let mut file = options.create(true).write(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&new, &self.path)
    }

    /// The identity of the lock that this process holds.
    fn locked(&self) -> Option<String> {
        let boot = fs::read_to_string(BOOT).ok()?;
        let file = self.lock.metadata().ok()?;
        Some(format!("lock {} {} {}", boot.trim(), file.dev(), file.ino()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_folder_itself_proves_that_its_owner_has_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let (original, copy) = (folder.path().join("original"), folder.path().join("copy"));
        let note = |at: &Path| {
            fs::create_dir_all(at).expect("a folder");
            let lock = File::options().create(true).append(true).open(at.join("lock"));
            ClaimNote::new(at, Arc::new(lock.expect("a file")))
        };
        let first = note(&original);
        assert_eq!(first.ended(), None);
        first.write("term 7");
        assert_eq!(note(&original).ended().as_deref(), Some("term 7"));
        // Like `cp -r`, which also copies the lock's file.
        let copied = note(&copy);
        fs::copy(original.join(NOTE), copy.join(NOTE)).expect("it is copied");
        assert_eq!(copied.ended(), None);
    }
}
