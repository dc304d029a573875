//! Rows in many versions, and what keeps their readers and writers apart.
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
//! A **writer** locks its partitions in key order, chooses a snapshot, works on it, marks the
//! partitions as publishing, takes a time from the clock, installs new versions, and lets the mark
//! go. A **reader** chooses a snapshot and reads; it takes no lock. Both are safe against the
//! collector because their context says which snapshot they use.
//!
//! What this crate does not know: who is master of a partition, what is logged, what a transaction
//! is. It never blocks: a busy lock and a snapshot that cannot be had yet are answers, with a
//! [`std::task::Waker`] to be told when to try again.
//!
//! Unsafe code is confined to `heap`, `row`, `index`, `context`, `read`, `garbage` and `epoch`; every
//! block says why it holds, and `tests/schedules.rs` explores their races. What a context lends cannot
//! outlive its hold on the past, so safe code cannot look at memory that was freed.
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
