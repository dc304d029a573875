//! One data site.
//!
//! ```text
//!   transactions ──▶ execute ─┐                       ┌─▶ isomer-log    frames, durable
//!   the router  ──▶ change  ─┼─▶ site: time and place ─┼─▶ isomer-store  rows, partitions
//!   other sites ──▶ link ──▶ refresh ┘   in the log   └─▶ link          to the followers
//!                              checkpoint, recovery
//! ```
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`request`] | a transaction as requested, and the answer |
//! | [`mod@execute`] | a transaction, from its footprint to its commit; reads at a time chosen elsewhere |
//! | [`txn`], [`overlay`] | the interface of a procedure to rows; own writes merged over stored rows |
//! | [`change`], [`mod@copy`] | the steps of the design operators; the rows of a new replica |
//! | [`two_phase`] | transactions over several sites: coordinator and participants |
//! | [`link`], [`refresh`] | shipping events to replicas, and applying them there |
//! | [`close_ahead`] | closed timestamps ahead of real time |
//! | [`admission`] | the gateways whose commits a site accepts |
//! | [`hot_lock`] | partition locks with long queues |
//! | [`mod@inventory`], [`durations`] | what operators see: rows of copies, lags and delays |
//! | [`room`] | how much memory rows may take, and what a full site refuses |
//! | [`record`] | the bytes of the redo log |
//! | [`wire`] | requests, answers and messages as bytes |
//! | [`checkpoint`], [`recovery`] | cutting the log, and restarting |
//!
//! The site is a set of `async` functions without a runtime. Its driver polls them, syncs the log's
//! disk, delivers [`message::Message`]s and calls [`Site::tick`]. The site starts no threads, reads
//! only the clock that it is given, and blocks on nothing but the disk of a checkpoint.
//!
//! A site does not know the design as a whole, the state of other sites, planners, SQL or schemas.
//! Keys and rows are bytes.

mod admission;
mod backup;
mod change;
mod checkpoint;
mod close_ahead;
mod copy;
mod durations;
mod error;
mod execute;
mod failover;
mod forget;
mod frame;
mod full;
mod held;
mod hot_lock;
mod inventory;
mod limits;
mod link;
mod message;
mod ordered;
mod overlay;
mod partition;
mod place;
mod record;
mod recovery;
mod refresh;
mod request;
mod room;
mod site;
mod source;
mod step;
mod tail;
mod tick;
mod two_phase;
mod txn;
mod validate;
mod versions;
pub mod wire;

pub use admission::{Admission, SEAT_BITS};
pub use change::Holding;
pub use checkpoint::{AtOnce, CheckpointError, CheckpointReport, Finished, Pace, Stage};
pub use close_ahead::CloseAhead;
pub use copy::{COPY_BYTES_MAX, PIECE_BYTES, Snapshot};
pub use durations::{DURATIONS_US, Durations, DurationsShown};
pub use error::{Abort, Failure, Refusal};
pub use execute::{Pin, Read, ReadSpan, SeenUpTo, VisitRow};
pub use failover::{Standing, term};
pub use frame::{FrameHead, FrameKind, Hearing, TxnId};
pub use full::Full;
pub use inventory::{CopyReport, apply_delays, inventory, lag_ns};
pub use link::LinkTimeouts;
pub use message::{
    Epoch, Feed, FeedItem, Message, Network, Question, Subscription, TailItem, TimeSource,
};
pub use ordered::{
    BadBatch, BatchAnswer, BatchOutcome, BatchStep, Check, Checklist, CommitId, Conflict,
    OrderedBatch, OrderedCommit, OrderedSite, Sees, applied_writes,
};
pub use overlay::Overlay;
pub use overlay::RowWrite;
pub use place::Reached;
pub use record::{
    BadFrame, Event, Install, Record, RowChange, Rows, RowsBuffer, read_any_frame, read_frame,
};
pub use recovery::{RecoverError, RecoveryProgress};
pub use request::{
    Body, CheckedWrite, CheckedWrites, Committed, Expect, Procedure, Procedures, Published, Reply,
    Request, Shares, Timing,
};
pub use room::MemoryLimit;
pub use site::{Site, SiteOptions};
pub use source::GatheredRow;
pub use step::{Answer, Step};
pub use tail::{
    Fenced, FrameBytes, Lost, Settled, TailCopy, TailFrame, TakeOver, Unended, take_over,
};
pub use tick::{Freed, HISTORY_NS_MAX, PURGED_PER_TICK, latest, present_of};
pub use two_phase::{Entered, Part, PartAnswer, Peers};
pub use txn::Txn;
pub use validate::ReadSet;
