//! What can go wrong, in two boundaries: opening a log, and using one.

use crate::Position;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;

/// Why a log refused or failed a call.
#[derive(Clone, Debug, Error)]
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
    /// The next segment file could not be created, usually because the disk is full. Nothing was
    /// appended; appending works again once the file can be created.
    #[error("cannot create the next segment of the log, {path}: {source}; nothing was appended")]
    NoSegment {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: Arc<io::Error>,
    },
    /// A write or a sync failed, now or earlier. What the disk holds beyond `durable` is unknown,
    /// so nothing more is accepted.
    #[error(
        "the log failed at position {durable:#x} and takes no more: {path}: {source}; \
         what came before is safe, open the log again to go on"
    )]
    Failed {
        /// The file or folder that failed.
        path: PathBuf,
        /// Everything before this position is durable.
        durable: Position,
        /// What the operating system said.
        source: Arc<io::Error>,
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
    /// A segment file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: Arc<io::Error>,
    },
    /// A segment file no longer holds what was written.
    #[error("{path} is damaged at offset {offset}: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Offset of the bad frame in the file.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A segment file could not be removed.
    #[error("cannot remove {path}: {source}")]
    Remove {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: Arc<io::Error>,
    },
}

impl LogError {
    /// True if nothing was appended and the same append may succeed later.
    pub fn is_worth_retrying(&self) -> bool {
        matches!(self, LogError::Backlog { .. } | LogError::NoSegment { .. })
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
}
