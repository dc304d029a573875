//! Transactions that arrive statement by statement.
//!
//! A client sends `BEGIN`, thinks, sends a statement, looks at the answer, sends the next: nobody can
//! know the footprint before the end. So such a transaction works in two parts.
//!
//! ```text
//!   while it is open                                at the commit
//!   ────────────────                                ─────────────
//!   snapshot    reads at one time, at any site      checked writes whose footprint is what was
//!   row locks   (table, key), first come first      written: at one site, or over several, as the
//!               served, deadlocks found             strategy says; checked row by row against what
//!   workspace   its writes, seen by nobody else     was read, written at once
//! ```
//!
//! Partition locks are held for the commit alone. So a client that sleeps in mid-transaction blocks
//! nobody but those who want the very rows it has written, and no split, merge or remaster.
//!
//! All of this is asynchronous and knows of sites only what [`Transport`](crate::Transport) says. Threads
//! that block are at the edge: [`crate::OpenTransaction`].
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`locks`] | who may write which row, as a state machine without threads |
//! | [`gateway`] | what all open transactions share, and how one of them waits |
//! | [`history`] | the lease by which sites keep the history that open snapshots need |
//! | [`snapshot`] | reading at one time, wherever the rows are |
//! | [`workspace`] | the writes so far, and how to go back to a savepoint |
//! | [`transaction`] | a transaction, from its first statement to its commit |
//! | [`commit`] | what a commit writes, and where |
//! | [`outcome`] | what became of a commit whose answer was lost |
//! | [`reads`] | what it has read, for a strategy that learns |
//!
//! **Isolation.** READ COMMITTED: every statement has a snapshot of its own, and reads a row again
//! after waiting for its lock. REPEATABLE READ: one snapshot for all statements; who wants to write a
//! row that changed after it must start again (first updater wins). SERIALIZABLE: as that, and what was read has to
//! be the same at the commit. A transaction that has written nothing commits without asking anybody, as its snapshot
//! is a place in the order of commits; so is the time of one that has ([0028](../../../docs/decisions/0028-serializable-isolation.md)).
//!
//! **Embedded callers** of [`Database::run`](crate::Database::run) know nothing of row locks. The
//! commit looks at the time of each row's newest version, so they cannot make an update get lost; the
//! open transaction is told to start again instead.
//!
//! **Left out.** Row locks of several gateways: all clients come through one process. Predicate locks: ranges are
//! validated.

pub(crate) mod commit;
pub(crate) mod gateway;
mod history;
pub(crate) mod locks;
mod outcome;
mod reads;
pub(crate) mod snapshot;
pub(crate) mod transaction;
pub(crate) mod workspace;

pub use gateway::{CancelReason, CancelToken, Gateway};
pub use locks::{Asked, LockMode, LockShown, Owner, RowLocks};
pub use transaction::{Isolation, Locked, OpenError, OpenTransaction, Savepoint};
