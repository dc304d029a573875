//! Multi-version rows: the index, the partitions, and the protocols between readers and writers.
//!
//! ```text
//!   Context ──────────── one transaction's hold on the past: snapshot, garbage, heap pool
//!      │
//!      ▼
//!   Partition  Partition  Partition     lock, version, time of the last commit
//!   [0..10)    [10..20)   [20..)
//!   ───────────────────────────────
//!   Index                               keys → newest version; one per table
//!      │
//!      ▼
//!   Row 40 → Row 30 → Row 2             versions, newest first
//!   ───────────────────────────────
//!   Heap                                size classes on huge pages
//! ```
//!
//! A **writer** locks its partitions in key order, chooses a snapshot, reads at it, marks the
//! partitions as publishing, takes a commit time from the clock, installs new versions, and clears
//! the marks. A **reader** chooses a snapshot and reads; it takes no lock. The collector frees no
//! version that either of them needs, because their contexts announce which snapshots they use.
//!
//! This crate does not know which site is master of a partition, what is logged, or what a
//! transaction is. It never blocks. A busy lock and an unavailable snapshot are return values, and
//! the caller's [`std::task::Waker`] is woken when it should retry.
//!
//! Unsafe code is confined to `heap`, `row`, `index`, `context`, `read`, `garbage` and `epoch`.
//! Every block says why it is sound, and `tests/schedules.rs` explores the races. Rows are borrowed
//! from a context, so safe code cannot access freed memory.
#![allow(unsafe_code)]

mod clock;
mod context;
mod epoch;
mod fixed;
mod garbage;
mod heap;
mod index;
mod partition;
mod read;
mod row;
mod store;
mod sync;
mod wait;

pub use clock::Clock;
pub use context::{CONTEXTS_MAX, Context};
pub use epoch::{Guard, pin};
pub use fixed::SnapshotPin;
pub use index::{Index, Spot, Spots};
pub use partition::{Feed, Partition, Stamp};
pub use row::{Row, prefetch_all, row_bytes};
pub use store::{NotYet, Store};
pub use wait::{Lock, Turn, Waiters};
