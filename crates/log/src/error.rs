//! Errors of two boundaries: opening a log, and using one.

use crate::Position;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;

/// Why a log refused or failed a call.
#[derive(Clone, Debug, Error, Serialize, Deserialize)]
pub enum LogError {
    /// The payload does not fit a frame. Nothing was appended.
    #[error("a payload of {bytes} bytes does not fit a frame: the limit is {max} bytes")]
    TooLarge {
        /// Length of the payload.
        bytes: usize,
        /// The longest payload.
        max: usize,
    },
    /// Too many bytes wait to be written. Nothing was appended; retry after a sync.
    #[error(
        "{bytes} bytes of the log wait for the disk, which is over the limit of {max}: \
         append again after the next sync"
    )]
    Backlog {
        /// Bytes that wait to be written.
        bytes: u64,
        /// The limit (`Options::backlog_bytes`).
        max: u64,
    },
    /// The log has no room for the frame at present. Nothing was appended. Appends work again once
    /// what it [lacks](Lack) is available; all other calls still work.
    #[error("{lack}: {what}; nothing was appended, append again when that is mended")]
    NoRoom {
        /// The resource that is missing.
        lack: Lack,
        /// The call that failed, and the operating system's error.
        what: Arc<str>,
    },
    /// A write or a sync failed, now or earlier. The contents of the disk beyond `durable` are
    /// unknown, so the log accepts nothing more.
    #[error(
        "the log failed at position {durable:#x} and takes no more: {what}; \
         what came before is safe, open the log again to go on"
    )]
    Failed {
        /// Everything before this position is durable.
        durable: Position,
        /// The call that failed, and the operating system's error.
        what: Arc<str>,
    },
    /// The position was dropped by truncation or bounded retention.
    #[error("position {position:#x} is no longer kept: the log begins at {begin:#x}")]
    Truncated {
        /// The requested position.
        position: Position,
        /// The first position still kept.
        begin: Position,
    },
    /// The position is not reached yet.
    #[error("position {position:#x} lies beyond the end of the log at {end:#x}")]
    BeyondEnd {
        /// The requested position.
        position: Position,
        /// The end of the log.
        end: Position,
    },
    /// The position is inside a frame.
    #[error("no frame starts at position {position:#x}: read from a position that the log gave")]
    NotAFrame {
        /// The requested position.
        position: Position,
    },
    /// Bytes that were appended could not be read back.
    #[error("cannot read {what}")]
    Read {
        /// The file, and the operating system's error.
        what: Arc<str>,
    },
    /// The bytes on disk differ from those written.
    #[error("the log is damaged at position {position:#x}: {what}")]
    Damaged {
        /// Position of the bad frame.
        position: Position,
        /// The place, and what is wrong there.
        what: Arc<str>,
    },
    /// A dropped segment could not be removed.
    #[error("cannot remove {what}")]
    Remove {
        /// The file, and the operating system's error.
        what: Arc<str>,
    },
    /// Another process has taken the log over. Frames after `durable` do not count, and the log
    /// accepts nothing more from this process.
    #[error(
        "the log belongs to another process from position {durable:#x} on, and takes no more from this one: {what}"
    )]
    Fenced {
        /// Everything before this position is durable.
        durable: Position,
        /// Which log, which process owns it now, and since when.
        what: Arc<str>,
    },
    /// Another process may have taken the log over, so its site may no longer show the newest data.
    #[error(
        "it is not known whether the log still belongs to this process: {what}; try again later"
    )]
    Unconfirmed {
        /// Which log, and for how long its owner has received no answer.
        what: Arc<str>,
    },
    /// The process of the log's site is down, and other sites take over what they can. The log can
    /// be read again when that process has restarted.
    #[error("the site's process is gone: {what}; what it alone has is there again when it is back")]
    Gone {
        /// Which process, and for how long it could not be reached.
        what: Arc<str>,
    },
}

/// The resource without which a log accepts no frame at present.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Lack {
    /// Space on its disk.
    Space,
    /// Handles of the operating system, such as file descriptors.
    Handles,
    /// The I/O error does not name it.
    Unknown,
}

impl Lack {
    /// The resource that an I/O error names.
    pub(crate) fn of(error: &io::Error) -> Lack {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        match error.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => Lack::Space,
            _ if is_out_of_handles(error) => Lack::Handles,
            _ => Lack::Unknown,
        }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lack::Space => "the disk of the log is full",
            Lack::Handles => "the log can have no more files open",
            Lack::Unknown => "the log cannot grow",
        })
    }
}

/// True if the process, or the computer, has reached its limit of open files.
pub(crate) fn is_out_of_handles(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

impl LogError {
    /// True if nothing was appended and the same append may succeed later.
    pub fn is_worth_retrying(&self) -> bool {
        matches!(self, LogError::Backlog { .. } | LogError::NoRoom { .. })
    }

    /// True if the log accepts nothing more until it is opened again.
    pub fn is_final(&self) -> bool {
        matches!(self, LogError::Failed { .. } | LogError::Fenced { .. } | LogError::Gone { .. })
    }
}

/// Why a log could not be opened. Nothing on disk was changed, except for [`OpenError::Io`], which
/// may come after a torn tail was cut off. Opening again is always safe.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process, or another log of this process, has the folder open.
    #[error("{path} is in use by another process: a log has one owner at a time")]
    InUse {
        /// The lock file.
        path: PathBuf,
    },
    /// The folder holds a file that no log wrote.
    #[error(
        "{path} does not belong in the folder of a log, which holds nothing but segments named \
         like 00000000000040a0.log"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A segment was written in another format.
    #[error("{path} has format version {found}, this program reads version {expected}")]
    Version {
        /// The segment file.
        path: PathBuf,
        /// The version found.
        found: u32,
        /// The version understood.
        expected: u32,
    },
    /// Durable frames are missing, and sound frames follow the gap.
    #[error(
        "positions {from:#x} to {to:#x} of the log are missing, although {path} says that they \
         were durable: a segment file named {from:016x}.log is missing, or the end of the \
         segment before it was lost"
    )]
    Gap {
        /// First position missing.
        from: Position,
        /// The position at which the log continues.
        to: Position,
        /// The segment file that continues it.
        path: PathBuf,
    },
    /// A durable frame is damaged. This is not a torn tail: a sound frame or segment, written
    /// later, proves that the frame was on disk.
    #[error(
        "{path} is damaged at offset {offset} (position {position:#x}): {what}; the log was \
         durable there, because what was written later, at position {later:#x}, says so"
    )]
    Damaged {
        /// The segment file.
        path: PathBuf,
        /// Offset of the bad frame in the file.
        offset: u64,
        /// Position of the bad frame.
        position: Position,
        /// The fault found there.
        what: &'static str,
        /// Position of the sound frame, or start of the sound segment, that proves it.
        later: Position,
    },
    /// The last segment's file is shorter than at its creation. No crash shortens a file, and the
    /// missing end may have held frames.
    #[error(
        "{path} was cut short: it has {bytes} bytes and was made with {made}, and the log may have gone on \
         where it ends (position {position:#x})"
    )]
    Short {
        /// The segment file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// The length recorded in its header.
        made: u64,
        /// Position of the first frame that is not whole.
        position: Position,
    },
    /// The end of the log is missing, although it was durable.
    #[error(
        "the log ends at position {end:#x} ({path}: {what}), but {witness} proves that it was durable up to \
         {proven:#x}: {lost} bytes of acknowledged commits are lost", lost = proven - end
    )]
    Lost {
        /// The segment file in which they should be.
        path: PathBuf,
        /// The contents found instead.
        what: String,
        /// Where the log ends.
        end: Position,
        /// How far the log was durable.
        proven: Position,
        /// The file that proves it.
        witness: PathBuf,
    },
    /// The log was created earlier, and nothing of it is left.
    #[error("{path} is missing, although the log was made before")]
    Missing {
        /// The missing file or folder.
        path: PathBuf,
    },
    /// The operating system refused a call.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// The call that failed.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A log that is not stored in files could not be opened.
    #[error("{place}: {what}")]
    Elsewhere {
        /// Which log, by the name that users know.
        place: String,
        /// The problem, and how to mend it.
        what: String,
    },
}

impl OpenError {
    /// True if something durable is lost. The log can be opened without it:
    /// [`Options::accept_loss`](crate::Options::accept_loss).
    pub fn is_loss(&self) -> bool {
        matches!(
            self,
            OpenError::Gap { .. }
                | OpenError::Damaged { .. }
                | OpenError::Short { .. }
                | OpenError::Lost { .. }
                | OpenError::Missing { .. }
        )
    }
}
