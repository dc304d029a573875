//! Redo logs at the nodes of a cluster themselves: partitions whose records are at a majority of
//! the nodes, by Raft.
//!
//! # The problem
//!
//! A log in files is lost with its machine, and until the machine is back it is unknown how the log
//! has ended. So a takeover from a dead node needs a log with copies. Kafka keeps such logs. A
//! cluster that has nothing but its own nodes keeps them at the nodes.
//!
//! ```text
//!        node a                       node b                      node c
//!   ┌────────────────┐          ┌────────────────┐          ┌────────────────┐
//!   │ site 1, site 2 │          │ site 3, site 4 │          │ site 5, site 6 │
//!   │ owner of their │          │                │          │                │
//!   │ logs           │          │                │          │                │
//!   ├────────────────┤          ├────────────────┤          ├────────────────┤
//!   │ group 1  leads │─ entry ─▶│ group 1 follows│          │ group 1 follows│
//!   │ group 2  leads │─ entry ──┼────────────────┼─────────▶│ group 2 follows│
//!   │ group 3 follows│◀─ entry ─│ group 3  leads │─ entry ─▶│ group 3 follows│
//!   │ …              │          │ …              │          │ …              │
//!   │ one journal    │          │ one journal    │          │ one journal    │
//!   └────────────────┘          └────────────────┘          └────────────────┘
//! ```
//!
//! There is a *group* for each log of the database: 0 for the catalog, and the site's number for
//! the log of a site. A group is a partition of `isomer-owned`, which says which process owns the
//! log in it. Raft says which records are there, and in which order; it knows nothing of owners.
//!
//! * **The state of a group is its entries.** A record's offset is the index of its entry less one.
//!   There is no state machine to make snapshots of: a member that is too far behind begins where
//!   the others do ([`store`]).
//! * **All groups of a process share a journal** ([`journal`]), so one sync serves the commits of
//!   all sites.
//! * **The leader follows the owner** ([`group`]). A commit takes one message to the followers and
//!   one back, and the disks of leader and followers work at once.
//! * **An append waits** while there is no majority. It does not fail, and is repeated by
//!   itself.
//! * **A member that has lost its folder does not vote** ([`roster`]).
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`command`] | the data of an entry |
//! | [`journal`] | what a process must remember, in one log; recovery from it |
//! | [`store`] | the entries of one group: Raft's storage |
//! | [`group`] | one group: proposals, questions, and Raft's output |
//! | [`roster`] | the members, and which folders they have |
//! | [`member`] | all groups of a process: the state machine that a caller drives |
//! | [`quorum`] | the caller: the threads that use a member, and the members' mailbox |
//! | [`requests`] | requests to a member, and those who wait for them |
//! | [`client`] | a process that keeps no copies, and asks those that do |
//! | [`way`] | a process's way to the copies: its member, or its client |
//! | [`disk`] | the journal's file, which waits for room |
//! | [`carrier`] | the group as a carrier of logs |
//!
//! Only the last six wait, and have threads and a clock. Raft itself is the library `raft`
//! ([0057](../../../docs/decisions/0057-replicated-log.md)).
//!
//! # What was left out
//!
//! Changes of the list of members: Raft has them, and the roster does not. Reads by a lease of the
//! leader: the lease of the log's owner is above, and is the same for all carriers.

mod carrier;
mod client;
mod command;
mod disk;
mod group;
pub mod journal;
mod member;
mod quorum;
mod requests;
pub mod roster;
mod store;
mod way;

pub use carrier::{NodeLog, NodeLogs, NodePartition, Nodes};
pub use client::Client;
pub use command::{Records, Ticket};
pub use group::{GroupState, Outcome};
pub use isomer_owned::ORDER;
pub use member::{Member, MemberOptions, Output};
pub use quorum::{Inlet, Quorum, QuorumOptions};
pub use requests::Mailbox;
