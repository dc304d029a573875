//! Redo logs in Apache Kafka: one topic partition per log. `isomer-owned` makes logs of partitions,
//! and decides which process owns each; this crate is the client of the brokers.
//!
//! ```text
//!   isomer-owned              isomer-kafka                       topic `shop`
//!   ┌────────────────┐      ┌───────────────────────┐          ┌────────────────────────┐
//!   │ CarriedLogs    │─────▶│ Brokers     (Carrier) │─ admin ─▶│ partition 0   catalog  │
//!   │ PartitionLog   │─────▶│ Partition             │─ records▶│ partition 1   site 1   │
//!   └────────────────┘      └───────────────────────┘          └────────────────────────┘
//! ```
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`address`] | `kafka://HOST:PORT/TOPIC` |
//! | [`brokers`] | a topic as the carrier of a database's logs |
//! | [`topic`] | the settings that a topic must have |
//! | [`partition`] | the brokers' client |
//! | [`bare`] | a producer without a log, for comparison |
//!
//! # What was left out
//!
//! Kafka's transactions: they cost 3 to 50 milliseconds per commit, and some services that
//! implement Kafka's protocol lack them. Consumer groups: the log itself records its owner.
//! Compression: this build has no library for it.

mod address;
mod bare;
mod brokers;
mod partition;
mod topic;

pub use address::{Address, BadAddress, ClientOptions};
pub use bare::Bare;
pub use brokers::{Brokers, KafkaLog, KafkaLogs};
pub use isomer_owned::{OpenReport, Options, Timeouts};
pub use partition::{Connection, KafkaPartition};
