//! What can go wrong, in two boundaries: opening a log, and using one.

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
    /// Too much waits to be written. Nothing was appended; it is worth trying again after a sync.
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
    /// There is no room for more of the log, for the time being. Nothing was appended; appending works again
    /// once there is what it [lacks](Lack). Everything else goes on.
    #[error("{lack}: {what}; nothing was appended, append again when that is mended")]
    NoRoom {
        /// What is lacking.
        lack: Lack,
        /// What was tried, and what the system said.
        what: Arc<str>,
    },
    /// A write or a sync failed, now or earlier. What the disk holds beyond `durable` is unknown,
    /// so nothing more is accepted.
    #[error(
        "the log failed at position {durable:#x} and takes no more: {what}; \
         what came before is safe, open the log again to go on"
    )]
    Failed {
        /// Everything before this position is durable.
        durable: Position,
        /// What failed, and what the system said.
        what: Arc<str>,
    },
    /// The position was dropped by truncation or bounded retention.
    #[error("position {position:#x} is no longer kept: the log begins at {begin:#x}")]
    Truncated {
        /// The position asked for.
        position: Position,
        /// The first position still kept.
        begin: Position,
    },
    /// The position is not reached yet.
    #[error("position {position:#x} lies beyond the end of the log at {end:#x}")]
    BeyondEnd {
        /// The position asked for.
        position: Position,
        /// The end of the log.
        end: Position,
    },
    /// The position is inside a frame.
    #[error("no frame starts at position {position:#x}: read from a position that the log gave")]
    NotAFrame {
        /// The position asked for.
        position: Position,
    },
    /// What was appended could not be read back.
    #[error("cannot read {what}")]
    Read {
        /// What was read, and what the system said.
        what: Arc<str>,
    },
    /// What is read back is not what was written.
    #[error("the log is damaged at position {position:#x}: {what}")]
    Damaged {
        /// Position of the bad frame.
        position: Position,
        /// Where that is, and what is wrong.
        what: Arc<str>,
    },
    /// What was dropped could not be removed.
    #[error("cannot remove {what}")]
    Remove {
        /// What was removed, and what the system said.
        what: Arc<str>,
    },
    /// Another process has taken the log over. What was appended after `durable` does not count, and nothing more
    /// is accepted.
    #[error(
        "the log belongs to another process from position {durable:#x} on, and takes no more from this one: {what}"
    )]
    Fenced {
        /// Everything before this position is durable.
        durable: Position,
        /// Which log, whose it is now, and since when.
        what: Arc<str>,
    },
    /// It is not known whether another process has taken the log over, and therefore not whether what its site
    /// would show is still the newest.
    #[error(
        "it is not known whether the log still belongs to this process: {what}; try again later"
    )]
    Unconfirmed {
        /// Which log, and how long its owner has heard nothing.
        what: Arc<str>,
    },
    /// The process of the log's site is gone, and others take over what they can. What the log holds is seen when it is
    /// back.
    #[error("the site's process is gone: {what}; what it alone has is there again when it is back")]
    Gone {
        /// Which process, and for how long it could not be reached.
        what: Arc<str>,
    },
}

/// What a log lacks that cannot take more for the time being.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Lack {
    /// Space on its disk.
    Space,
    /// Handles of the operating system's, such as file descriptors.
    Handles,
    /// It is not known what.
    Unknown,
}

impl Lack {
    /// What a system's error says is lacking.
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

/// True if the process, or the computer, has as many files open as it may.
pub(crate) fn is_out_of_handles(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

impl LogError {
    /// True if nothing was appended and the same append may succeed later.
    pub fn is_worth_retrying(&self) -> bool {
        matches!(self, LogError::Backlog { .. } | LogError::NoRoom { .. })
    }

    /// True if the log takes nothing more until it is opened again.
    pub fn is_final(&self) -> bool {
        matches!(self, LogError::Failed { .. } | LogError::Fenced { .. } | LogError::Gone { .. })
    }
}

/// Why a log could not be opened. Nothing on disk was changed, except for [`OpenError::Io`], which
/// may come after a torn tail was cut off; opening again is always safe.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process, or another log of this process, has the folder open.
    #[error("{path} is in use by another process: a log has one owner at a time")]
    InUse {
        /// The lock file.
        path: PathBuf,
    },
    /// The folder holds something that no log wrote.
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
    /// Frames that were durable are missing, with sound ones after them.
    #[error(
        "positions {from:#x} to {to:#x} of the log are missing, although {path} says that they \
         were durable: a segment file named {from:016x}.log is missing, or the end of the \
         segment before it was lost"
    )]
    Gap {
        /// First position missing.
        from: Position,
        /// The position at which the log goes on.
        to: Position,
        /// The segment file that goes on.
        path: PathBuf,
    },
    /// A frame that was durable is damaged. This is not a torn tail: what was written
    /// later is sound, and says that it was.
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
        /// What is wrong with it.
        what: &'static str,
        /// Position of the sound frame, or start of the sound segment, that says so.
        later: Position,
    },
    /// The last segment's file is shorter than it was made. A crash does not do that, and where it was cut
    /// there may have been frames.
    #[error(
        "{path} was cut short: it has {bytes} bytes and was made with {made}, and the log may have gone on \
         where it ends (position {position:#x})"
    )]
    Short {
        /// The segment file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// The length it had when its header was written.
        made: u64,
        /// Position of the first frame that is not wholly there.
        position: Position,
    },
    /// Frames at the end of the log that were durable are not there.
    #[error(
        "the log ends at position {end:#x} ({path}: {what}), but {witness} proves that it was durable up to \
         {proven:#x}: {lost} bytes of acknowledged commits are lost", lost = proven - end
    )]
    Lost {
        /// The segment file in which they should be.
        path: PathBuf,
        /// What is there instead.
        what: String,
        /// Where the log ends.
        end: Position,
        /// Where it has been.
        proven: Position,
        /// The file that says so.
        witness: PathBuf,
    },
    /// The log was made before, and nothing of it is there.
    #[error("{path} is missing, although the log was made before")]
    Missing {
        /// What should be there.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A log that is not in files could not be opened.
    #[error("{place}: {what}")]
    Elsewhere {
        /// Which log, as users know it.
        place: String,
        /// What is wrong, and what would be right.
        what: String,
    },
}

impl OpenError {
    /// True if something that was durable is not there any more. The log can be opened without it:
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
