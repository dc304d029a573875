//! Isomer as a library: a transactional database of several sites that changes its own physical
//! design while it runs.
//!
//! ```text
//!   your threads ──▶ Database ──▶ Router ───────▶ Site 1   Site 2   Site 3     one process
//!                                   │ strategy               ▲  │
//!                                   └─ Conductor ── changes ─┘  └─ replication between sites
//! ```
//!
//! Start with [`Database`] and its example. A transaction is a
//! [footprint](isomer_design::Footprint) (the keys that it reads and writes) and a procedure. A
//! [`Session`] keeps the time that a client has seen, so its next transaction sees no earlier
//! state, whichever site runs it.
//!
//! **Guarantees.** Strong-session snapshot isolation. A transaction works on a snapshot that
//! contains everything that its session has seen. Of two transactions that write the same row, one
//! comes after the other. Write skew is possible. Changes of the design are atomic and durable, and
//! never lose or repeat a transaction.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`router`](Router) | where a transaction runs |
//! | [`conductor`] | the one place where the design changes: definitions, changes, failed sites |
//! | [`reconfiguration`](Reconfiguration) | a plan that an operator requests, pauses, cancels and reverses |
//! | `branches` | the distribution of a transaction over several sites |
//! | [`reorder`] | online reorganization of a table: the order of its steps |
//! | [`gateways`] | gateways of other processes: seats, locks, news |
//! | [`open`] | transactions that arrive statement by statement: snapshots, row locks, intents |
//! | [`ordered`] | tables whose transactions one total order serializes |
//! | `fusion` | rows of ordered tables that move to the process that writes them |
//! | [`shell`](OpenTransaction) | the same for threads that block |
//! | `embedded` | sites of this process: threads, disks, messages, checkpoints, recovery |
//! | [`remote`](Wire) | sites in other processes: requests, answers and messages as bytes |
//! | `storage`, `folder`, `catalog` | storage of a database |
//! | `claim` | notes in a folder about logs that are elsewhere |
//! | `assemble` | the design of a database that was stopped, from its sites' holdings |
//!
//! The router and the conductor use no threads and no sockets. They run on a [`Transport`]: the
//! embedded runtime here, and a simulated network in `isomer-sim`.

mod assemble;
mod branches;
mod catalog;
mod claim;
pub mod conductor;
mod database;
mod embedded;
mod error;
mod folder;
mod fusion;
pub mod gateways;
mod ids;
mod joined;
mod node;
pub mod open;
pub mod ordered;
mod reach;
mod reconfiguration;
mod remote;
pub mod reorder;
mod router;
mod shell;
mod storage;
mod transport;

pub use catalog::Missing;
pub use claim::ClaimNote;
pub use conductor::{ChangeEvent, Conductor, FailedOver, Job, drain_reason};
pub use database::{
    Database, Explorer, FusedRows, Options, OrderRouter, Others, StatementTurn, inventory,
    is_permitted, is_spread, number_reconfigurations_from, order_hashes, reconfiguration_states,
    zone_of,
};
pub use embedded::{Checkpointing, Recovering, SiteReport};
pub use error::{Error, OpenDatabaseError};
pub use folder::{
    join_cluster, joined_file, leave_if_empty, look, look_at_memory, quorum_folder, read_cluster,
    sites_of,
};
pub use fusion::{
    FusedTable, follows_plans, is_reserved, parse as fused_row, site_of as fused_site,
};
pub use ids::DatabaseId;
pub use isomer_log::{Counters, DiskFaults, Durability, Lack, LogError};
pub use isomer_site::{
    Abort, Body, CheckedWrite, CheckedWrites, Committed, CopyReport, DURATIONS_US, Durations,
    DurationsShown, Expect, Failure, Procedure, Procedures, Published, Refusal, Reply, Request,
    Timing, Txn,
};
pub use isomer_strategy::Place;
pub use joined::{Guests, Joined};
pub use node::{Endpoint, Node};
pub use open::{
    Asked, CancelReason, CancelToken, Isolation, LockMode, LockShown, Locked, Near, OpenError,
    Owner, RowLocks, Savepoint,
};
pub use reach::Reach;
pub use reconfiguration::{Control, Progress, Reconfiguration};
pub use remote::{Early, Unanswered, Wire};
pub use router::{Ran, Router, Session};
pub use shell::{
    ClosedTables, Gateway, OpenTransaction, SharedSnapshot, queue_again, share_snapshot,
};
pub use storage::{CheckpointStore, FoundLogs, LogOf, Logs, find_database, found_database, joined};
pub use transport::{Transport, load_of};
