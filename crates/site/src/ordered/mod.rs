//! Transactions in a total order: a batch at one site.
//!
//! *Problem.* A transaction over several sites needs a vote of each site, because any of them may
//! fail before the others know its outcome. *Solution.* The order of all transactions is durable
//! before any of them runs, and each is data: what it has read, and the rows that it writes. A
//! site that fails runs the same batch again, with the same result. There is nothing to vote on.
//!
//! ```text
//!   order      4711: commits a, b, c          durable before any site hears of it
//!
//!   s1, s2     enter:   lock its partitions; check what a, b, c have read here
//!   s1, s2     propose: mark them, read the clock    ──▶ verdicts and times, as data
//!              decide:  a and c are applied, at 93   the same at every attempt: a pure function
//!   s1, s2     install: one frame with the batch's number; rows of 93; unmark, unlock
//! ```
//!
//! A batch has **one commit time**, after the clocks of all its sites. Its partitions are marked
//! before the clocks are read and until the rows are there, as for any commit over several sites
//! ([`crate::two_phase`]). So a batch is one point in the history of all rows, and every reader of
//! snapshots works unchanged: replicas, backups, checkpoints, open transactions.
//!
//! **Checks.** A [`Check`] says what a transaction has seen of one span: the number of rows, none
//! of them newer than a time, or the version of one row. A site answers with counts, because a
//! range may lie at several sites, and the sum decides ([`Checklist::decide`]). Of two
//! transactions of a batch that conflict, the later one fails: it has not read what the earlier one
//! wrote.
//!
//! **Durability.** A site appends its frame without waiting for the disk: the order is durable
//! already. Therefore readers of these rows do not wait for the site's log either.
//!
//! **Invariant: outcomes are never behind rows.** A frame has the [outcomes](BatchOutcome) of its
//! batch and of all batches before it that the order does not have durably yet. So if any site has
//! the rows of a batch durably, its outcome is known after a crash, and the other sites only apply
//! it. If no outcome is known, no site has rows of the batch, all are in the state before it, and
//! it is decided once more, from the same rows.
//!
//! **Repetition.** The time of a partition's last event says which batches the partition has. A
//! batch that is applied again skips the partitions that have it.
//!
//! **A site that has recovered while others went on** may lack the frames of its last moments,
//! which the order has. Readers must not see its rows beside those of the other sites. So it holds
//! all partitions that it masters ([`OrderedSite::wait_for_order`]), until the executor has
//! repeated what it lacks, or has said that it lacks nothing.
//!
//! **Attempts.** A batch that meets a change of the design is entered again. An attempt that
//! follows another keeps its marks, so that readers see all of a batch or nothing.
//!
//! **Left out.** A limit of memory at the sites: it holds back other writers only. Batches that
//! overlap: a site ends one before it enters the next.

mod batch;
mod decide;
mod site;

pub use batch::{BadBatch, BatchOutcome, CommitId, OrderedBatch, OrderedCommit};
pub use decide::{Check, Checklist, Conflict, Sees, applied_writes};
pub(crate) use site::BatchPlace;
pub use site::{BatchAnswer, BatchStep, OrderedSite};
