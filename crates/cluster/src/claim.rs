//! What a folder says of a log that is elsewhere: by which claim the process with the folder has owned it.
//!
//! # The problem
//!
//! Whoever takes a log from an owner that was killed does not know whether that one still shows what it had, and waits for
//! its lease. Most are started again where they were, and there it can be proved: a folder is [locked](crate::folder) by the
//! process that uses it, until that has ended, however it has.
//!
//! ```text
//!   process 1    locks the folder ── claims the log ── notes the claim ──▶ killed: the system gives the lock back
//!   process 2                               locks the folder ── finds that the log is owned by the claim of the note
//!                                                               ──▶ its owner was process 1, which is gone: no wait
//! ```
//!
//! If anybody has claimed the log in between, or anywhere else, its owner is not that of the note, and that proves nothing.
//!
//! **A copy of a folder** has the note, and its process a lock of its own, which says nothing of whoever uses the
//! original. So the note says which lock its writer had: that file (its device and inode, which is in use as long as a
//! process has it open) since that start of the machine. A copy, another machine or another start have another one.
//!
//! **What is noted** is a claim whose owner need not wait any more. Who finds that it has ended takes its place at once, and
//! that of the owner before it as well. Nothing waits for the disk: a note that is lost, or too old, proves nothing.
//!
//! # What was left out
//!
//! A virtual machine that is duplicated while it runs has two processes with one lock, and neither knows of the other.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const NOTE: &str = "claim";
/// Linux draws it when the machine starts. Where there is none, nothing can be proved.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// The note of a log in a folder, which stays locked as long as this lives. See the [module documentation](self).
#[derive(Clone)]
pub struct ClaimNote {
    path: PathBuf,
    lock: Arc<File>,
}

impl ClaimNote {
    /// The note in a folder that is, or is part of one that is, locked by this file.
    pub(crate) fn new(folder: &Path, lock: Arc<File>) -> ClaimNote {
        ClaimNote { path: folder.join(NOTE), lock }
    }

    /// The name of its file.
    pub(crate) const fn name() -> &'static str {
        NOTE
    }

    /// The claim of an owner that has ended for certain, if one has left such a note.
    pub fn ended(&self) -> Option<String> {
        let text = fs::read_to_string(&self.path).ok()?;
        let (claim, lock) = text.trim_end().split_once('\n')?;
        (lock == self.locked()?).then(|| claim.to_owned())
    }

    /// Notes the claim by which this process owns the log, in a line, once it waits for nobody.
    pub fn write(&self, claim: &str) {
        let Some(lock) = self.locked() else { return };
        // Without it, whoever comes next waits.
        let _ = self.try_write(&format!("{claim}\n{lock}\n"));
    }

    fn try_write(&self, text: &str) -> std::io::Result<()> {
        let new = self.path.with_extension("new");
        let mut options = File::options();
        let mut file = options.create(true).write(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&new, &self.path)
    }

    /// Which lock this process has.
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
        // As `cp -r` does, with the lock's file as well.
        let copied = note(&copy);
        fs::copy(original.join(NOTE), copy.join(NOTE)).expect("it is copied");
        assert_eq!(copied.ended(), None);
    }
}
