//! The redo log of one data site: atomic frames in a row, and how long each of them lasts.
//!
//! # The problem
//!
//! A commit is a promise. Before a site gives it, the redo records of the transaction have to be
//! somewhere a crash cannot reach; and waiting for a disk costs a thousand times more than the
//! transaction itself. So a log is two things at once: a very cheap place to put bytes (`append`),
//! and a slow, shared way to make many of them last (`sync`), with a mark between them that says
//! how far the slow part has come.
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
//! A [`Position`] is a byte offset in one endless stream; a frame is named by the position of its
//! first byte. A frame is opaque (the log never knows what a record means) and atomic: recovery
//! delivers it whole or not at all.
//!
//! # Worked example: one sync for many commits
//!
//! Three transactions append, then wait; one flusher drives the disk:
//!
//! ```text
//!   T1  append → 0x4400   poll_durable(0x4400) pending ─────────┐
//!   T2  append → 0x4560        poll_durable(0x4560) pending ────┼──────────────┐
//!   T3                              append → 0x4600  pending ───┼──────────────┤
//!   flusher     poll_work ready · sync ─────────────────────────┘ sync ────────┘ poll_work pending
//!                          takes ..0x4400   (T2, T3 arrive)      takes ..0x4600
//! ```
//!
//! The second sync covers two commits; under load it covers as many as arrive while the disk turns
//! once. [`Counters`] tells how many. Nobody blocks: a wait is a [`Waker`], so the same site
//! runs on threads, and on one thread under a simulator's clock.
//!
//! # Two logs
//!
//! * [`MemoryLog`]: segments in memory. For embedded sites that trust their replicas, and for the
//!   simulator, which decides itself when a sync happens and what a crash leaves.
//! * [`FileLog`]: a folder of segment files, with recovery of a torn tail, a witness of what was durable, and a
//!   clear refusal of anything worse.
//!
//! # Checkpoints
//!
//! What stands for a log up to a position, so that it can be cut there, is kept beside it:
//! [`Checkpoints`], in a folder or in memory as well.
//!
//! # Invariants
//!
//! * `begin() <= end()` and `durable() <= end()`; none of the three goes back while a log is open.
//! * Positions have no gaps: where one frame ends, the next begins, across segments and restarts.
//! * An error of `append` means that nothing was appended.
//! * After a failed write or sync nothing more is accepted ([`LogError::Failed`]): what the disk
//!   holds is unknown until it is read again. What is `durable()` stays so.
//! * A full disk is no failure: appends are refused until there is room ([`LogError::NoRoom`]), and all else
//!   goes on.
//! * A visitor, and a waker, is called without any lock of the log held.
//!
//! # What was left out
//!
//! Compression and encryption (frames are opaque, so they fit above); recycling of old segment
//! files (saves metadata writes, costs a second naming scheme); direct I/O (the tail of the log is
//! read back by subscribers, so the page cache earns its copy).

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

/// What a commit waits for.
///
/// | | a wait ends | `sync` | a process that dies loses | a machine that dies loses |
/// | --- | --- | --- | --- | --- |
/// | `Commit` | when the disk has it | writes, syncs | nothing waited for | nothing waited for |
/// | `Interval` | at once | writes, syncs | all since the last sync | all since the last sync |
/// | `None` | at once | writes | all since the last sync | what was not yet on disk |
///
/// Whatever is lost is lost from the end: recovery finds a prefix of what was appended.
/// A [`MemoryLog`] keeps nothing when the process dies; it takes the setting for how waits end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// An acknowledged commit survives a power cut: waits end when a sync has covered the frame.
    Commit,
    /// Waits end at once; whoever drives the disk calls [`Log::sync`] once per interval, so a
    /// crash loses at most about that much time.
    Interval(Duration),
    /// Waits end at once and nothing forces the disk, except that a full segment is synced once.
    None,
}

/// What a log has done since it was opened.
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
/// All methods may be called from many threads. Only [`Log::sync`] waits for a disk as a matter of
/// course; see [`FileLog`] for the one case in which `append` creates a file itself.
pub trait Log: Send + Sync {
    /// Appends one frame and gives the position just after it, which is what to wait for with
    /// [`Log::poll_durable`]. Does not wait for the disk.
    ///
    /// # Errors
    ///
    /// Nothing is appended on error. [`LogError::TooLarge`]; [`LogError::Backlog`] and
    /// [`LogError::NoRoom`], after which a later attempt may succeed; [`LogError::Failed`],
    /// after which none will.
    fn append(&self, payload: &[u8]) -> Result<Position, LogError>;

    /// The end of the log: where the next frame will start.
    fn end(&self) -> Position;

    /// Everything before this position survives the crashes that the [`Durability`] speaks of.
    fn durable(&self) -> Position;

    /// The first position still kept.
    fn begin(&self) -> Position;

    /// Makes everything appended so far durable, wakes who waits for it, and gives the new
    /// [`Log::durable`]. Called by whoever drives the disk; appends go on meanwhile, and are
    /// covered by the next call. Where nothing answers for a while, it may return before that, and is to be called
    /// again: [`Log::poll_work`] says so. Also to be called once before a log is dropped, which by itself
    /// writes nothing.
    ///
    /// # Errors
    ///
    /// [`LogError::Failed`], now and for ever after, once a write or a sync has failed.
    fn sync(&self) -> Result<Position, LogError>;

    /// Ready once the frames before `position` (one that `append` gave) are as durable as the
    /// [`Durability`] asks: with `Commit` when `durable() >= position`, otherwise at once.
    /// If not ready, `waker` is woken when it is, or when the log fails.
    ///
    /// # Errors
    ///
    /// [`LogError::Failed`] if the log failed before it made `position` durable.
    fn poll_durable(&self, position: Position, waker: &Waker) -> Poll<Result<(), LogError>>;

    /// Ready once there is something for [`Log::sync`] to do. If not, `waker` is woken by the next
    /// `append`, or when the log fails. For the one party that drives the disk: a second call
    /// replaces the waker of the first.
    ///
    /// # Errors
    ///
    /// [`LogError::Failed`] once the log has failed: there is nothing left to drive.
    fn poll_work(&self, waker: &Waker) -> Poll<Result<(), LogError>>;

    /// Hands the frames from `from` on, durable or not, to `visit` in order, each with its
    /// position, until the visitor breaks or the log ends. Gives the position after the last
    /// frame visited: where to read on. Frames appended meanwhile may or may not be included.
    ///
    /// # Errors
    ///
    /// [`LogError::Truncated`] if `from` (or, during a long read, the frame to come) is no longer
    /// kept; [`LogError::BeyondEnd`]; [`LogError::NotAFrame`] if no frame starts at `from`;
    /// [`LogError::Read`] and [`LogError::Damaged`] if the disk does not give back what was
    /// written. Frames visited before an error were sound.
    fn read(
        &self,
        from: Position,
        visit: &mut dyn FnMut(Position, &[u8]) -> ControlFlow<()>,
    ) -> Result<Position, LogError>;

    /// Drops whole segments that end at or before `position`: neither recovery nor subscribers
    /// need them any more. Keeps the rest, so [`Log::begin`] may stay below `position`.
    ///
    /// # Errors
    ///
    /// [`LogError::Remove`] if a file cannot be removed; the log goes on, and a later call tries
    /// again.
    fn truncate_before(&self, position: Position) -> Result<(), LogError>;

    /// What the log has done since it was opened.
    fn counters(&self) -> Counters;

    /// Looks whether another process has taken the log over, where nothing is written or read that would show it, and may
    /// wait for whoever keeps the log. If so, the log [says so](Log::failure) soon afterwards. Where nobody else can take
    /// it there is nothing to do.
    fn look_for_others(&self) {}

    /// What ended the log, if anything did: a [failure](LogError::Failed), or [another
    /// owner](LogError::Fenced).
    fn failure(&self) -> Option<LogError>;

    /// Refuses if what the log's site would show may not be the newest any more: once the log has ended; and, where
    /// another process could have taken it over, while nobody knows.
    ///
    /// # Errors
    ///
    /// [`Log::failure`], or [`LogError::Unconfirmed`].
    fn serving(&self) -> Result<(), LogError> {
        self.failure().map_or(Ok(()), Err)
    }
}
