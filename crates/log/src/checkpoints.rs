//! Where a site keeps its checkpoints: frames that stand for a redo log up to a position.
//!
//! # The problem
//!
//! A redo log grows for ever, unless what it says up to some position is written down elsewhere. That
//! is a checkpoint. While one is written the log cannot be cut; if the process dies meanwhile, what was
//! written of it must not pass for a whole one. So there are three moments that count, in this order:
//!
//! ```text
//!   begin ── append, append ──▶ settle ──────────▶ publish ────────────▶ the log may be cut
//!            unfinished         all of it is on    it takes the place    (by whoever asked)
//!                               disk               of the older ones
//!      └───── a crash: nothing of it is left ─────┘└─── a crash: the new one counts ───┘
//! ```
//!
//! Like a log, this never knows what a frame means. [`FileCheckpoints`] keeps them in a folder,
//! [`MemoryCheckpoints`] in memory, for a simulator that decides what a crash leaves. [`MovedCheckpoints`] takes those of an
//! old place along to a new one.
//!
//! # Invariants
//!
//! * [`Checkpoints::newest`] is whole, and was settled before it was published.
//! * A draft that is dropped leaves nothing behind; one that dies with its process is removed when the
//!   checkpoints are opened again.
//! * Older checkpoints go once a newer one is published, not before.
//!
//! # What was left out
//!
//! Checkpoints in parts that the next one could go on using (see the record of decisions, 0013).

mod file;
mod memory;
mod moved;

pub use file::FileCheckpoints;
pub use memory::MemoryCheckpoints;
pub use moved::MovedCheckpoints;

use crate::{LogError, OpenError, Position};
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use thiserror::Error;

/// A checkpoint that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// The position of the redo log from which to read on.
    pub position: Position,
    /// About how many bytes it takes.
    pub bytes: u64,
}

/// Where a site keeps its checkpoints. See the [module documentation](self).
pub trait Checkpoints: Send + Sync {
    /// The newest whole one.
    fn newest(&self) -> Option<Found>;

    /// Hands the frames of the newest one to `visit`, in order, until it breaks.
    ///
    /// # Errors
    /// [`CheckpointError`] if the disk does not give back what was written.
    fn read(&self, visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result<(), CheckpointError>;

    /// Begins a new one, of the redo log up to `position`, which will take about `bytes` bytes. One
    /// at a time.
    ///
    /// # Errors
    /// [`CheckpointError::NoRoom`], before anything was written; [`CheckpointError::Io`].
    fn begin(&self, position: Position, bytes: u64) -> Result<Box<dyn Draft>, CheckpointError>;
}

/// A checkpoint that is being written. Dropped before it is published, it leaves nothing behind.
pub trait Draft: Send {
    /// Adds a frame.
    ///
    /// # Errors
    /// [`CheckpointError`]; the draft is of no use any more.
    fn append(&mut self, frame: &[u8]) -> Result<(), CheckpointError>;

    /// Waits until all frames so far are on disk. Called now and then, it keeps the disk's queue short;
    /// it has to be called once before [`Draft::publish`].
    ///
    /// # Errors
    /// As [`Draft::append`].
    fn settle(&mut self) -> Result<(), CheckpointError>;

    /// Lets it take the place of the older ones, which are removed. Only to be called once the redo
    /// log is durable beyond whatever the frames reflect.
    ///
    /// # Errors
    /// [`CheckpointError`]. It is the newest one then, or the one before still is; the redo log must
    /// not be cut.
    fn publish(self: Box<Self>) -> Result<(), CheckpointError>;
}

/// Why a checkpoint was not written, or could not be read.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// It would not fit. Nothing was written.
    #[error(
        "no room for a checkpoint in {path}: it needs {needed} bytes, {available} are free; \
         the log is kept until there is room"
    )]
    NoRoom {
        /// The folder.
        path: PathBuf,
        /// About what it needs.
        needed: u64,
        /// What there is.
        available: u64,
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
    /// What keeps them refused, or did not answer.
    #[error("cannot {action} {object}: {what}")]
    Store {
        /// What was tried.
        action: &'static str,
        /// With what.
        object: String,
        /// What was said.
        what: String,
    },
    /// One is not as it was written.
    #[error(
        "the checkpoint {checkpoint} is damaged: {what}; bring back what it had, or remove all of it, if the log still \
         goes back to the one before"
    )]
    Damaged {
        /// Which.
        checkpoint: String,
        /// What is wrong.
        what: String,
    },
    /// The frames' own log could not be opened.
    #[error("checkpoint: {0}")]
    Open(#[from] OpenError),
    /// The frames' own log refused.
    #[error("checkpoint: {0}")]
    Log(#[from] LogError),
}
