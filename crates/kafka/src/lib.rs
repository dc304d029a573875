//! Redo logs in Apache Kafka: one topic partition per log, owned by the process that claimed it
//! last.
//!
//! # The problem
//!
//! A log in files belongs to the machine that has the disk. MorphoSys (section 4.3) keeps its redo
//! logs in Kafka, so that a site can start on any machine, from a checkpoint and its log. Then
//! several processes can write to one log, although only one at a time should, and none of them can
//! lock it.
//!
//! ```text
//!   process A, sites 1 and 2          topic `shop`                         process B
//!   ┌───────────────┐  one record a   ┌──────────────────────────┐
//!   │ KafkaLog      │─ group commit ─▶│ partition 1   site 1     │◀─ claim ── opens the database:
//!   │ KafkaLog      │────────────────▶│ partition 2   site 2     │           A's next commit fails
//!   │ KafkaLog      │────────────────▶│ partition 0   catalog    │
//!   └───────────────┘                 └──────────────────────────┘
//! ```
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`record`] | the bytes of a record |
//! | [`stream`] | frames cut into records, and put together |
//! | [`ownership`] | who owns a log, and which records count: a state machine |
//! | [`lease`] | how long an owner may serve reads |
//! | [`owned`] | a log, for its owner: a state machine without brokers |
//! | [`log`] | the same, driven by threads |
//! | [`logs`] | all logs of a database |
//! | [`look`] | the state of a log, for processes that do not own it |
//! | [`topic`] | the settings that a topic must have |
//! | [`partition`] | the brokers' client |
//! | [`bare`] | a producer without a log, for comparison |
//! | [`address`] | `kafka://HOST:PORT/TOPIC` |
//!
//! The first five use no broker, no thread and no clock, so the simulator runs them over a
//! partition of its own. The others need the feature `client`, without which Kafka's client is not
//! compiled.
//!
//! # What was left out
//!
//! Kafka's transactions: they cost 3 to 50 milliseconds per commit, and some services that
//! implement Kafka's protocol lack them. Consumer groups: the log itself records its owner.
//! Compression: this build has no library for it.

#[cfg(feature = "client")]
mod address;
#[cfg(feature = "client")]
mod bare;
pub mod lease;
#[cfg(feature = "client")]
mod log;
#[cfg(feature = "client")]
mod logs;
#[cfg(feature = "client")]
mod look;
pub mod owned;
pub mod ownership;
#[cfg(feature = "client")]
mod partition;
pub mod record;
pub mod stream;
#[cfg(feature = "client")]
mod topic;

#[cfg(feature = "client")]
pub use address::{Address, BadAddress, ClientOptions};
#[cfg(feature = "client")]
pub use bare::Bare;
#[cfg(feature = "client")]
pub use log::KafkaLog;
#[cfg(feature = "client")]
pub use logs::KafkaLogs;
#[cfg(feature = "client")]
pub use look::Look;
pub use owned::{OpenReport, Options};
#[cfg(feature = "client")]
pub use partition::{Connection, Timeouts};
