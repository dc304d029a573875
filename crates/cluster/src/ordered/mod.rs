//! Ordered tables: a total order serializes their transactions, without locks and votes.
//!
//! ```text
//!   COMMIT ──▶ queue ──▶ orderer ──▶ ORDER (a log) ──▶ executor ──▶ sites: enter, install
//!   what was read,        closes       durable            decides       one time a batch
//!   what is written       batches                           └──────────▶ answers
//! ```
//!
//! A transaction reads on an ordinary snapshot and keeps its writes in its workspace
//! ([`crate::open`]). It takes no row lock. Its COMMIT is data ([`isomer_site::OrderedCommit`]):
//! the spans that it has read, with the number of rows, and its checked writes. The order decides
//! what comes first. A commit is applied if everything that it has read is unchanged at its place.
//! Otherwise it fails, and its client runs it again.
//!
//! **A batch closes** when the orderer is free, which is at once if nothing else waits. While a
//! batch is made durable, the next one gathers, up to [`queue::Limits`]. So under load one sync of
//! the disk serves many commits, and a lone commit waits for nothing but its own sync.
//!
//! **Outcomes.** The time of a batch, and which of its commits were applied, is known once all
//! sites have entered it. A later batch reports that to the order, and the frames of the sites
//! have it until then ([`isomer_site::BatchOutcome`]). After a crash:
//!
//! ```text
//!   order    41  42  43  44           reports: the outcomes of 41 and 42 are known
//!   s1       41  42  43               its frame 43 has the outcome of 43
//!   s2       41                       ─▶ 42 and 43 are applied at their times, as they were;
//!                                        44 is decided anew: no site has rows of it
//! ```
//!
//! A client is answered once its batch is durable and installed. So an answered commit is never
//! lost, and a commit that was not answered may have been applied.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`queue`] | commits that wait, for the order and for their outcome |
//! | [`order`] | the order as a log: batches and their places |
//! | [`engine`] | the orderer and the executor |
//! | [`recent`] | the outcomes of commits whose answers were lost |
//! | [`recover`] | what a crash has cut off |
//! | [`ahead`] | statements that are routed in batches before they run |
//! | [`tables`] | which tables are ordered |
//! | [`hashes`] | hashes of all copies at one time, to compare them |
//!
//! **Invariants.** A batch is durable before a site receives it. The outcome of a batch is reported
//! by the next batch that closes after any of its rows could be read. Batches are executed in the
//! order of their numbers, each after the last one has ended. The time of a batch is later than the
//! times of all earlier batches at its partitions.
//!
//! **A switch** of a table with rows, to the order or back, is made with writers locked out, once
//! the order and the sites are settled. Transactions that began before it cannot commit to the
//! table.
//!
//! **In a cluster** the order is the conductor's, in a log that outlives its process. Gateways of
//! other processes send their commits to it, and it takes its steps at sites wherever they are.
//! Another process that becomes the conductor opens the order and continues.
//!
//! **Routing.** A row is written where it is. It may have moved there before ([`crate::fusion`]),
//! and statements may ask beforehand where to run ([`ahead`]).

pub(crate) mod ahead;
pub(crate) mod engine;
pub(crate) mod hashes;
mod order;
pub(crate) mod queue;
pub(crate) mod recent;
mod recover;
mod tables;
#[cfg(test)]
mod tests;

pub use ahead::AheadCounters;
pub use engine::Ordering;
pub use hashes::CopyHash;
pub use order::BadOrder;
pub(crate) use queue::{Applied, COMMIT_BYTES_MAX, Decided};
pub use queue::{NotOrdered, OrderCounters, OrderQueue};
pub use recover::Found;
pub use tables::OrderedTables;
