//! Redo logs in partitions that several processes reach: each log belongs to the process that
//! claimed it last.
//!
//! # The problem
//!
//! A log in files belongs to the machine that has the disk. MorphoSys (section 4.3) keeps its redo
//! logs in a service instead, so that a site can start on any machine, from a checkpoint and its
//! log. Then several processes can write to one log, although only one at a time should, and none
//! of them can lock it.
//!
//! The service is a *carrier* of partitions. A partition is a durable sequence of records in one
//! order: an append is answered with an offset, and records are read from an offset on. This crate
//! makes a log with one owner of any such partition.
//!
//! ```text
//!   process A, sites 1 and 2            a carrier                          process B
//!   ┌───────────────┐  one record a   ┌──────────────────────────┐
//!   │ PartitionLog  │─ group commit ─▶│ partition 1   site 1     │◀─ claim ── opens the database:
//!   │ PartitionLog  │────────────────▶│ partition 2   site 2     │           A's next commit fails
//!   │ PartitionLog  │────────────────▶│ partition 0   catalog    │
//!   └───────────────┘                 └──────────────────────────┘
//! ```
//!
//! | carrier | crate | copies of a record |
//! | --- | --- | --- |
//! | a topic of Apache Kafka | `isomer-kafka` | the brokers' |
//! | a modelled Kafka | `isomer-sim` | none, or those of modelled brokers |
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`record`] | the bytes of a record |
//! | [`stream`] | frames cut into records, and put together |
//! | [`ownership`] | who owns a log, and which records count: a state machine |
//! | [`lease`] | how long an owner may serve reads |
//! | [`owned`] | a log, for its owner: a state machine without a carrier |
//! | [`partition`] | a carrier and its partitions: the traits |
//! | [`log`] | a log for its owner, driven by threads |
//! | [`logs`] | all logs of a database |
//! | [`look`] | the state of a log, for processes that do not own it |
//!
//! The first five use no carrier, no thread and no clock, so the simulator runs them over a
//! partition of its own.
//!
//! # What was left out
//!
//! Transactions of the carrier over several partitions: they cost 3 to 50 milliseconds per commit
//! in Kafka, and other carriers lack them. A register of owners: the log itself records its owner.

pub mod edge;
pub mod lease;
mod log;
mod logs;
mod look;
pub mod owned;
pub mod ownership;
mod partition;
pub mod record;
pub mod stream;

pub use log::PartitionLog;
pub use logs::{CarriedLogs, ORDER};
pub use look::Look;
pub use owned::{OpenReport, Options};
pub use partition::{Carrier, Newest, Partition, Refused, Timeouts, VisitWritten, Written};
