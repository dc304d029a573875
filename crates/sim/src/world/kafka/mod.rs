//! Nodes: processes that own sites whose redo logs are in a modelled Kafka.
//!
//! ```text
//!   node 1: process 1 ── sites 1, 3 ──┐ (paused)                    ┌─────────────────────────┐
//!           process 4 ── sites 1, 3 ──┼── claims ─────────────────▶ │ partition of each site  │
//!   node 2: process 2 ── site 2 ──────┘                             └─────────────────────────┘
//! ```
//!
//! What decides who owns a log, what counts and what may be shown is the code of `isomer-kafka`
//! ([`OwnedLog`](isomer_kafka::owned::OwnedLog), [`Opening`](isomer_kafka::owned::Opening)), unchanged; partitions, brokers
//! and processes are models:
//!
//! | module | what it models |
//! | --- | --- |
//! | [`partition`] | records in order, what is safe, another leader, producers that repeat themselves |
//! | [`broker`] | requests that are late, lost or doubled, brokers that do not answer, slow readers |
//! | [`log`] | a log of one process |
//! | [`process`] | processes that open, take sites from each other, are killed, stopped and paused |
//!
//! **Two at once.** When a process has claimed a site, the one before may still be there, paused or cut off. For as long as
//! it is, some requests still go to it: clients may be connected to either. What sites say to each other goes to the new
//! one only, as connections between processes do.
//!
//! **Times** are shorter than in earnest: a lease is over after 40 ms, and not after 4 s.
//!
//! Left out: a router that moves, the catalog's log, logs that fail as no broker has answered for minutes, clocks that go
//! at different rates (`kafka/tests/simulation.rs` has those).

mod broker;
mod log;
mod partition;
mod process;

use super::network::Envelope;
use super::tasks::TaskId;
use broker::Waiting;
use isomer_design::SiteId;
use isomer_kafka::lease::Times;
use isomer_kafka::owned::Options;
use isomer_log::MemoryCheckpoints;
use parking_lot::Mutex;
use partition::Partition;
use process::Process;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A node: which process has its sites changes.
pub type NodeId = u16;

/// The lease of a world: so long an owner shows what it has, in nanoseconds.
pub const LEASE_NS: u64 = 40_000_000;
/// A new owner waits this long, until the lease of the process before has ended.
pub(super) const STALE_NS: u64 = 50_000_000;

/// What a world has of nodes; nothing if its logs are on disks.
#[derive(Default)]
pub(crate) struct Kafka {
    nodes: RefCell<BTreeMap<NodeId, Node>>,
    partitions: RefCell<BTreeMap<SiteId, Arc<Mutex<Partition>>>>,
    processes: RefCell<BTreeMap<u64, Process>>,
    /// Records that wait for replicas.
    waiting: RefCell<Vec<Waiting>>,
    /// How many processes there were.
    begun: Cell<u64>,
    /// How many sites were taken from a process that was there still.
    taken: Cell<u64>,
    /// Runs of sites that stand still, as their processes do.
    standing: RefCell<BTreeSet<(SiteId, u64)>>,
    /// Procedures that would have gone on meanwhile.
    held: RefCell<Vec<TaskId>>,
    /// Messages that came there meanwhile.
    stopped: RefCell<Vec<Envelope>>,
    serves_always: Arc<AtomicBool>,
}

/// A node, whichever process it is.
struct Node {
    sites: BTreeMap<SiteId, Folders>,
    /// A process is opening its sites, or has them.
    process: Option<u64>,
}

/// The checkpoints of a site, in each folder that a process of its node had.
#[derive(Default)]
struct Folders(Vec<MemoryCheckpoints>);

/// How logs behave here: all is small, so that little is kept in memory and much is cut.
fn options() -> Options {
    let ms = Duration::from_millis;
    Options {
        backlog_bytes: 16 << 10,
        keep_bytes: 16 << 10,
        segment_bytes: 1 << 10,
        indexed: (400, 8),
        record_bytes_max: 2 << 10,
        times: Times {
            serves: ms(LEASE_NS / 1_000_000),
            waits: ms(STALE_NS / 1_000_000),
            renews: ms(10),
        },
        ..Options::default()
    }
}
