//! Nodes: processes that own sites whose redo logs are in a modelled Kafka.
//!
//! ```text
//!   node 1: process 1 ── sites 1, 3 ──┐ (paused)                    ┌─────────────────────────┐
//!           process 4 ── sites 1, 3 ──┼── claims ─────────────────▶ │ partition of each site  │
//!   node 2: process 2 ── site 2 ──────┘                             └─────────────────────────┘
//! ```
//!
//! The code of `isomer-owned` decides who owns a log, which records count and which reads are
//! allowed ([`OwnedLog`](isomer_owned::owned::OwnedLog),
//! [`Opening`](isomer_owned::owned::Opening)). It is unchanged; partitions, brokers and processes
//! are models:
//!
//! | module | model |
//! | --- | --- |
//! | [`partition`] | ordered records, safe records, changes of the leader, producers that retry |
//! | [`broker`] | requests that are delayed, lost or duplicated, brokers that do not answer, slow readers |
//! | [`log`] | the log of one process |
//! | [`process`] | processes that open sites, take them from each other, are killed, stopped and paused |
//!
//! **Two processes at once.** When a process has claimed a site, the former one may still run,
//! paused or cut off. While it does, some client requests still go to it, because clients may be
//! connected to either. Messages between sites go to the new one only, as connections between
//! processes do.
//!
//! **Times** are shorter than in production: a lease lasts 40 ms instead of 4 s, and sites promise
//! closed timestamps for 10 ms instead of 1 s.
//!
//! **Left out.** A router that moves, the catalog's log, logs that fail because no broker has
//! answered for minutes, and clocks with different rates (`kafka/tests/simulation.rs` has these).

mod broker;
mod log;
mod partition;
mod process;

use super::network::Envelope;
use super::tasks::TaskId;
use crate::plant::Plant;
use broker::Waiting;
use isomer_design::SiteId;
use isomer_log::MemoryCheckpoints;
use isomer_owned::lease::Times;
use isomer_owned::owned::Options;
use parking_lot::Mutex;
use partition::Partition;
use process::Process;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// A node: a fixed set of sites, run by one process at a time.
pub type NodeId = u16;

/// The lease of a world, in nanoseconds: how long an owner serves reads after a confirmation.
pub const LEASE_NS: u64 = 40_000_000;
/// A new owner waits this long, until the lease of the process before has ended.
pub(super) const STALE_NS: u64 = 50_000_000;

/// The nodes of a world; empty if its logs are on disks.
#[derive(Default)]
pub(crate) struct Kafka {
    nodes: RefCell<BTreeMap<NodeId, Node>>,
    partitions: RefCell<BTreeMap<SiteId, Arc<Mutex<Partition>>>>,
    processes: RefCell<BTreeMap<u64, Process>>,
    /// Records that wait for replicas.
    waiting: RefCell<Vec<Waiting>>,
    /// The number of processes that were started.
    begun: Cell<u64>,
    /// The number of sites that were taken from a process that was still running.
    taken: Cell<u64>,
    /// Runs of sites whose processes are paused.
    standing: RefCell<BTreeSet<(SiteId, u64)>>,
    /// Procedures whose continuation was due during the pause.
    held: RefCell<Vec<TaskId>>,
    /// Messages that arrived during the pause.
    stopped: RefCell<Vec<Envelope>>,
    /// A planted bug of all logs.
    plant: Arc<Mutex<Option<Plant>>>,
    /// Called when a node has started a site.
    on_return: OnceCell<OnReturn>,
}

/// A function that learns which site a node has started.
pub(super) type OnReturn = Box<dyn Fn(SiteId)>;

/// A node, in all of its processes.
struct Node {
    sites: BTreeMap<SiteId, Folders>,
    /// The process that is opening its sites, or has them.
    process: Option<u64>,
}

/// The checkpoints of a site, in the folder of each process of its node.
#[derive(Default)]
struct Folders(Vec<MemoryCheckpoints>);

/// Options with small sizes, so that little is kept in memory and much is cut.
fn options(plant: Option<Plant>) -> Options {
    // A new owner rarely commits before the end of a lease as short as the usual ones.
    let times = if plant == Some(Plant::EagerOwner) { 10 } else { 1 };
    let ms = Duration::from_millis;
    Options {
        backlog_bytes: 16 << 10,
        keep_bytes: 16 << 10,
        segment_bytes: 1 << 10,
        indexed: (400, 8),
        record_bytes_max: 2 << 10,
        times: Times {
            serves: ms(times * LEASE_NS / 1_000_000),
            waits: ms(times * STALE_NS / 1_000_000),
            renews: ms(10),
        },
        ..Options::default()
    }
}
