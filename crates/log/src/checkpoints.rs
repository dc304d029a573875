//! Where a site keeps its checkpoints: frames that replace a redo log up to a position.
//!
//! # The problem
//!
//! A redo log grows for ever, unless its contents up to some position are also stored elsewhere.
//! That is a checkpoint. While one is written, the log cannot be cut. If the process dies
//! meanwhile, the unfinished checkpoint must not be mistaken for a whole one. So three moments
//! matter, in this order:
//!
//! ```text
//!   begin ── append, append ──▶ settle ──────────▶ publish ────────────▶ the log may be cut
//!            unfinished         all of it is       it replaces the       (by the caller)
//!                               durable            older ones
//!      └───── a crash: no part of it is left ─────┘└─── a crash: the new one counts ───┘
//! ```
//!
//! Like a log, this module never interprets a frame. [`FileCheckpoints`] keeps checkpoints in a
//! folder, [`MemoryCheckpoints`] in memory, for a simulator that decides what a crash leaves.
//! [`MovedCheckpoints`] reads them from an old place until there is a newer one in a new place.
//!
//! # Invariants
//!
//! * [`Checkpoints::newest`] is whole, and was durable before it was published.
//! * A dropped draft leaves nothing behind. The draft of a process that died is removed when the
//!   checkpoints are opened again.
//! * Older checkpoints are removed after a newer one is published, never before.
//!
//! # What was left out
//!
//! Incremental checkpoints, which share parts with the one before (see decision record 0013).

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

/// A published checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// The position of the redo log at which recovery continues after the checkpoint.
    pub position: Position,
    /// Its approximate size in bytes.
    pub bytes: u64,
}

/// Where a site keeps its checkpoints. See the [module documentation](self).
pub trait Checkpoints: Send + Sync {
    /// The newest published checkpoint.
    fn newest(&self) -> Option<Found>;

    /// Passes the frames of the newest checkpoint to `visit`, in order, until it breaks.
    ///
    /// # Errors
    /// [`CheckpointError`] if the disk does not return what was written.
    fn read(&self, visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result<(), CheckpointError>;

    /// Begins a checkpoint that replaces the redo log before `position` and takes about `bytes`
    /// bytes. Only one draft may exist at a time.
    ///
    /// # Errors
    /// [`CheckpointError::NoRoom`], before anything is written; [`CheckpointError::Io`].
    fn begin(&self, position: Position, bytes: u64) -> Result<Box<dyn Draft>, CheckpointError>;
}

/// A checkpoint that is being written. If it is dropped before `publish`, it leaves nothing behind.
pub trait Draft: Send {
    /// Adds a frame.
    ///
    /// # Errors
    /// [`CheckpointError`]; the draft must then be dropped.
    fn append(&mut self, frame: &[u8]) -> Result<(), CheckpointError>;

    /// Makes all frames so far durable, and waits for that. Must be called at least once, before
    /// [`Draft::publish`]. Calling it after every few frames keeps the queue of the disk short.
    ///
    /// # Errors
    /// As [`Draft::append`].
    fn settle(&mut self) -> Result<(), CheckpointError>;

    /// Makes this the newest checkpoint and removes the older ones. Before the call, the redo log
    /// must be durable up to the newest change that the frames contain.
    ///
    /// # Errors
    /// [`CheckpointError`]. Then either this checkpoint or the one before is the newest, so the
    /// redo log must not be cut.
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
        /// About how many bytes it needs.
        needed: u64,
        /// The bytes that are free.
        available: u64,
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
    /// The store that keeps the checkpoints refused a request, or did not answer.
    #[error("cannot {action} {object}: {what}")]
    Store {
        /// The call that failed.
        action: &'static str,
        /// The object that it concerned.
        object: String,
        /// The store's error.
        what: String,
    },
    /// A checkpoint differs from what was written.
    #[error(
        "the checkpoint {checkpoint} is damaged: {what}; bring back what it had, or remove all of it, if the log still \
         goes back to the one before"
    )]
    Damaged {
        /// Its name.
        checkpoint: String,
        /// The fault found.
        what: String,
    },
    /// The frames' own log could not be opened.
    #[error("checkpoint: {0}")]
    Open(#[from] OpenError),
    /// The frames' own log refused.
    #[error("checkpoint: {0}")]
    Log(#[from] LogError),
}
