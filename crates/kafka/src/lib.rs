//! Redo logs in Apache Kafka: each in a topic partition, owned by whoever has claimed it last.
//!
//! # The problem
//!
//! A log in files belongs to the machine that has the disk. MorphoSys (section 4.3) keeps its redo logs in Kafka, so that
//! a site can start anywhere, from a checkpoint and its log. Then several processes can write to one log, though one at a
//! time should; and none of them can lock it.
//!
//! ```text
//!   process A, sites 1 and 2          topic `shop`                         process B
//!   ┌───────────────┐  one record a   ┌──────────────────────────┐
//!   │ KafkaLog      │─ group commit ─▶│ partition 1   site 1     │◀─ claim ── opens the database:
//!   │ KafkaLog      │────────────────▶│ partition 2   site 2     │            A's next commit is refused
//!   │ KafkaLog      │────────────────▶│ partition 0   catalog    │
//!   └───────────────┘                 └──────────────────────────┘
//! ```
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`record`] | the bytes of a record |
//! | [`stream`] | frames cut into records, and put together |
//! | [`ownership`] | who owns a log, and which records count: a pure state machine |
//! | [`lease`] | how long an owner may show what it has |
//! | [`log`] | a log, for its owner |
//! | [`logs`] | all logs of a database |
//! | [`look`] | a log as it is, for others than its owner |
//! | [`topic`] | the settings that a topic must have |
//! | [`partition`] | the brokers' client |
//! | [`bare`] | a producer without a log, to compare with |
//! | [`address`] | `kafka://HOST:PORT/TOPIC` |
//!
//! # What was left out
//!
//! Kafka's transactions: they cost three to fifty milliseconds a commit, and some services that speak its protocol have
//! none. Consumer groups: who owns a log is in the log. Compression: this build has no library for it.

mod address;
mod bare;
pub mod lease;
mod log;
mod logs;
mod look;
pub mod ownership;
mod partition;
pub mod record;
pub mod stream;
mod topic;

pub use address::{Address, BadAddress, ClientOptions};
pub use bare::Bare;
pub use log::{KafkaLog, OpenReport, Options};
pub use logs::KafkaLogs;
pub use look::Look;
pub use partition::{Connection, Timeouts};
