//! The redo log of one data site: a sequence of atomic frames, and how durable each of them is.
//!
//! # The problem
//!
//! A site may acknowledge a commit only after the redo records of the transaction are where a crash
//! cannot destroy them. Waiting for a disk costs a thousand times more than the transaction itself.
//! So a log has two halves: a very cheap place to put bytes (`append`), and a slow, shared way to
//! make many of them durable (`sync`). A watermark, `durable()`, tells how far the slow half has
//! come.
//!
//! ```text
//!   begin()                          durable()                     end()
//!      │ kept                           │ appended, may be lost       │
//!      ▼                                ▼                             ▼
//!  ░░░░┌────────┬──────────────┬────────┬──────────┬────┬─────────────┐
//!  ░░░░│ frame  │    frame     │ frame  │  frame   │    │    frame    │  next append
//!  ░░░░└────────┴──────────────┴────────┴──────────┴────┴─────────────┘
//!      0x4000   0x4118         0x42c0   0x4330     0x4400             0x4560      positions
//! ```
//!
//! A [`Position`] is a byte offset in one endless stream. A frame is named by the position of its
//! first byte. A frame is opaque (the log never interprets a record) and atomic: recovery delivers
//! it whole or not at all.
//!
//! # Worked example: one sync for many commits
//!
//! Three transactions append, then wait. One thread or task, the *flusher*, calls `sync`:
//!
//! ```text
//!   T1  append → 0x4400   poll_durable(0x4400) pending ─────────┐
//!   T2  append → 0x4560        poll_durable(0x4560) pending ────┼──────────────┐
//!   T3                              append → 0x4600  pending ───┼──────────────┤
//!   flusher     poll_work ready · sync ─────────────────────────┘ sync ────────┘ poll_work pending
//!                          takes ..0x4400   (T2, T3 arrive)      takes ..0x4600
//! ```
//!
//! The second sync covers two commits. Under load, one sync covers all commits that arrive while
//! the sync before it runs. [`Counters`] tells how many that are. No call blocks a thread until a
//! frame is durable: a wait is a [`Waker`], so a site runs on threads, or on one thread under a
//! simulator's clock.
//!
//! # Two logs
//!
//! * [`MemoryLog`]: segments in memory. For embedded sites that rely on their replicas, and for the
//!   simulator, which decides itself when a sync happens and what a crash leaves.
//! * [`FileLog`]: a folder of segment files. Recovery cuts off a torn tail, a second file proves
//!   what was durable, and any worse damage is refused with the name of the file.
//!
//! # Checkpoints
//!
//! A checkpoint replaces the log up to a position, so that the log can be cut there.
//! [`Checkpoints`] are kept beside the log, in a folder or in memory as well.
//!
//! # Invariants
//!
//! * `begin() <= end()` and `durable() <= end()`. None of the three moves back while a log is open.
//! * Positions have no gaps: where one frame ends, the next begins, across segments and restarts.
//! * An error of `append` means that nothing was appended.
//! * After a failed write or sync the log accepts nothing more ([`LogError::Failed`]), because the
//!   contents of the disk are unknown until they are read again. Durable frames stay durable.
//! * A full disk is no failure: appends are refused until there is room ([`LogError::NoRoom`]), and
//!   all other calls still work.
//! * Visitors and wakers are called without any lock of the log held.
//!
//! # What was left out
//!
//! Compression and encryption (frames are opaque, so both fit above the log). Recycling of old
//! segment files (it saves metadata writes, but costs a second naming scheme). Direct I/O
//! (subscribers read the end of the log back, so the page cache is worth its copy).

mod checkpoints;
mod error;
mod file;
mod marks;
mod memory;

pub use checkpoints::{
    CheckpointError, Checkpoints, Draft, FileCheckpoints, Found, MemoryCheckpoints,
    MovedCheckpoints,
};
pub use error::{Lack, LogError, OpenError};
pub use file::{DiskFaults, FileLog, OpenReport, Options, TornTail};
pub use memory::{MemoryLog, MemoryOptions};

use std::ops::ControlFlow;
use std::task::{Poll, Waker};
use std::time::Duration;

/// A byte offset in a log's endless stream. A frame is named by the position of its first byte.
pub type Position = u64;

/// The longest payload of a frame.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 30;

/// Selects what a commit waits for.
///
/// | | a wait ends | `sync` | a process that dies loses | a machine that dies loses |
/// | --- | --- | --- | --- | --- |
/// | `Commit` | when the disk has it | writes, syncs | nothing waited for | nothing waited for |
/// | `Interval` | at once | writes, syncs | all since the last sync | all since the last sync |
/// | `None` | at once | writes | all since the last sync | what was not yet on disk |
///
/// A crash loses only a suffix: recovery finds a prefix of what was appended. A [`MemoryLog`] keeps
/// nothing when the process dies; for it, the setting only decides when waits end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// An acknowledged commit survives a power cut: waits end when a sync has covered the frame.
    Commit,
    /// Waits end at once. The flusher calls [`Log::sync`] once per interval, so a crash loses about
    /// one interval of commits.
    Interval(Duration),
    /// Waits end at once and nothing forces data to disk, except that a full segment is synced
    /// once.
    None,
}

/// Counts of a log since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Frames appended.
    pub frames: u64,
    /// Bytes they took, headers included.
    pub bytes: u64,
    /// Syncs that made something durable. `frames / syncs` is the size of a group commit.
    pub syncs: u64,
}

/// A redo log. See the head of the crate for the picture.
///
/// All methods may be called from many threads. Only [`Log::sync`] regularly waits for a disk.
/// [`FileLog`] documents the one case in which `append` creates a file itself.
pub trait Log: Send + Sync {
    /// Appends one frame and returns the position just after it, which is the one to pass to
    /// [`Log::poll_durable`]. Does not wait for the disk.
    ///
    /// # Errors
    ///
    /// Nothing is appended on error. [`LogError::TooLarge`]; [`LogError::Backlog`] and
    /// [`LogError::NoRoom`], after which a later attempt may succeed; a [final
    /// error](LogError::is_final), after which every attempt fails.
    fn append(&self, payload: &[u8]) -> Result<Position, LogError>;

    /// The end of the log: where the next frame will start.
    fn end(&self) -> Position;

    /// Everything before this position survives the crashes that the [`Durability`] names.
    fn durable(&self) -> Position;

    /// The first position still kept.
    fn begin(&self) -> Position;

    /// Makes everything appended so far durable, wakes the waits that this ends, and returns the
    /// new [`Log::durable`]. The flusher calls it. Appends continue during the call and are covered
    /// by the next one.
    ///
    /// May return before everything is durable, and must then be called again: while a remote store
    /// does not answer ([`Log::poll_work`] is ready then), and while the disk is full
    /// ([`Log::poll_work`] is pending then, so the flusher retries after a pause). Call it once
    /// before a log is dropped, too, because dropping writes nothing.
    ///
    /// # Errors
    ///
    /// The [final error](LogError::is_final) of a log that has ended: from the first failed write
    /// or sync on, or after another process has taken the log over.
    fn sync(&self) -> Result<Position, LogError>;

    /// Ready once the frames before `position` (one that `append` returned) are as durable as the
    /// [`Durability`] asks: with `Commit` when `durable() >= position`, otherwise at once. If
    /// pending, `waker` is woken when the position is durable, or when the log fails.
    ///
    /// # Errors
    ///
    /// The [final error](LogError::is_final) if the log ended before it made `position` durable.
    fn poll_durable(&self, position: Position, waker: &Waker) -> Poll<Result<(), LogError>>;

    /// Ready once there is work for [`Log::sync`]. If pending, `waker` is woken by the next
    /// `append` or other work, or when the log ends. Only the flusher may call it: a second call
    /// replaces the waker of the first.
    ///
    /// # Errors
    ///
    /// The [final error](LogError::is_final) once the log has ended: no further sync can succeed.
    fn poll_work(&self, waker: &Waker) -> Poll<Result<(), LogError>>;

    /// Passes the frames from `from` on, durable or not, to `visit` in order, each with its
    /// position, until the visitor breaks or the log ends. Returns the position after the last
    /// frame visited, where the next read continues. Frames appended during the call may be
    /// included.
    ///
    /// # Errors
    ///
    /// [`LogError::Truncated`] if `from` (or, during a long read, the next frame) is no longer
    /// kept; [`LogError::BeyondEnd`]; [`LogError::NotAFrame`] if no frame starts at `from`;
    /// [`LogError::Read`] and [`LogError::Damaged`] if the disk does not return what was written.
    /// Frames visited before an error were sound.
    fn read(
        &self,
        from: Position,
        visit: &mut dyn FnMut(Position, &[u8]) -> ControlFlow<()>,
    ) -> Result<Position, LogError>;

    /// Drops whole segments that end at or before `position`. Neither recovery nor subscribers may
    /// need them any more. A segment that reaches past `position` is kept, so [`Log::begin`] may
    /// stay below it.
    ///
    /// # Errors
    ///
    /// [`LogError::Remove`] if a file cannot be removed. The log stays usable, and a later call
    /// tries again.
    fn truncate_before(&self, position: Position) -> Result<(), LogError>;

    /// Frames, bytes and syncs since the log was opened.
    fn counters(&self) -> Counters;

    /// Checks whether another process has taken the log over, for a site that is idle: without
    /// writes and reads it would not notice. May wait for the service that stores the log. After a
    /// takeover, [`Log::failure`] reports it soon afterwards. Does nothing for logs that no other
    /// process can take over.
    fn look_for_others(&self) {}

    /// The error that ended the log, if any: a [failure](LogError::Failed), or [another
    /// owner](LogError::Fenced).
    fn failure(&self) -> Option<LogError>;

    /// Fails if the site of this log could show outdated data: once the log has ended, and while it
    /// is unknown whether another process has taken the log over.
    ///
    /// # Errors
    ///
    /// [`Log::failure`], or [`LogError::Unconfirmed`].
    fn serving(&self) -> Result<(), LogError> {
        self.failure().map_or(Ok(()), Err)
    }

    /// False while an earlier owner of the log may still serve reads. Until then the site must
    /// commit nothing: a snapshot could include the commit at this owner, and lack it at the
    /// earlier one.
    fn is_sole(&self) -> bool {
        true
    }
}
