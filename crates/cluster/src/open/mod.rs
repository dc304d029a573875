//! Transactions that arrive statement by statement.
//!
//! A client sends `BEGIN`, thinks, sends a statement, looks at the answer, and sends the next. Its
//! footprint is not known before the end. So such a transaction works in two parts.
//!
//! ```text
//!   while it is open                                at the commit
//!   ────────────────                                ─────────────
//!   snapshot    reads at one time, at any site      checked writes; their footprint is what was
//!   row locks   (table, key), first come first      written: at one site, or over several, as the
//!               served, deadlocks found             strategy says; checked row by row against what
//!   workspace   its writes, invisible to others     was read, written at once
//! ```
//!
//! Partition locks are held for the commit alone. A client that sleeps in mid-transaction therefore
//! blocks only transactions that want the rows it has written. It blocks no split, merge or
//! remaster.
//!
//! All of this is asynchronous, and knows of sites only what [`Transport`](crate::Transport)
//! offers. Threads that block are at the edge: [`crate::OpenTransaction`].
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`locks`] | row locks, as a state machine without threads |
//! | [`gateway`] | the shared state of all open transactions, and their waits |
//! | [`history`] | the lease by which sites keep the history that open snapshots need |
//! | [`snapshot`] | reads at one time, wherever the partitions are |
//! | [`near`] | the time of a snapshot, if the rows of a statement are known before it runs |
//! | [`fused`] | the same for ordered tables, some of whose rows may be elsewhere |
//! | [`workspace`] | the writes so far, and rollback to a savepoint |
//! | [`transaction`] | a transaction, from its first statement to its commit |
//! | [`commit`] | the footprint of a commit |
//! | [`outcome`] | the outcome of a commit whose answer was lost |
//! | [`reads`] | its reads, for a strategy that learns |
//!
//! **Isolation.** READ COMMITTED: every statement has its own snapshot, and reads a row again after
//! waiting for its lock. REPEATABLE READ: all statements have one snapshot. To write a row that
//! changed after it, a transaction must restart (first updater wins). SERIALIZABLE: like REPEATABLE
//! READ, and the commit validates that the reads have not changed. A transaction that has written
//! nothing commits without asking a site, because its snapshot is a place in the order of commits.
//! So is the commit time of one that has written
//! ([0028](../../../docs/decisions/0028-serializable-isolation.md)).
//!
//! **Embedded callers** of [`Database::run`](crate::Database::run) take no row locks. The commit of
//! an open transaction checks the time of each row's newest version. So embedded callers cannot
//! cause a lost update; the open transaction must restart instead.
//!
//! **Several gateways** lock rows in one table, that of the conductor ([`crate::gateways`]).
//!
//! **Left out.** Predicate locks: ranges are validated.

pub(crate) mod commit;
mod fused;
pub(crate) mod gateway;
mod history;
pub(crate) mod locks;
mod near;
mod outcome;
mod reads;
pub(crate) mod snapshot;
pub(crate) mod transaction;
pub(crate) mod workspace;

pub use gateway::{CancelReason, CancelToken, Gateway};
pub use locks::{Asked, LockMode, LockShown, Owner, RowLocks};
pub use near::Near;
pub(crate) use outcome::find_out;
pub use snapshot::SharedSnapshot;
pub(crate) use transaction::outcome_in_order;
pub use transaction::{
    Isolation, Locked, OpenError, OpenTransaction, Savepoint, first_ordered_read, forget_writes,
    own_table, reach_of, sites_read, spread, take_rows,
};
pub(crate) use transaction::{is_to_queue, lock_contended};
