//! A checker for isolation: takes a history of what clients did and saw, and finds anomalies that
//! the promised isolation levels forbid.
//!
//! Clients append numbers to lists and read whole lists. No number is appended twice to a list. A
//! list therefore shows the order of its writes, their writers, and which writes its reader had not
//! seen (Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies from Experimental
//! Observations", PVLDB 14(3), 2020). From this the checker derives *moments* at which each
//! transaction read or committed, and *rules* about the order of moments. If the rules form a
//! cycle, no database with the promised isolation produced the history.
//!
//! ```text
//!   a: read x []; append x 1         a reads ──▶ a commits ──┐
//!   b: read x []; append x 2                         ▲       │ ww: b's 2 follows a's 1
//!   c: read x [1 2]                               rw │       ▼
//!                                                    └──── b reads ──▶ b commits
//!   Both read the empty list,
//!   so one update is lost.           rw: b has read x without a's 1
//! ```
//!
//! | isolation | moments of a transaction | cycles that it forbids |
//! | --- | --- | --- |
//! | [`Level::ReadCommitted`] | one for each statement, and its commit | G0, G1c |
//! | [`Level::Snapshot`] | one for reads, and its commit | also G-single, lost update, long fork |
//! | [`Level::Serializable`] | one | also write skew (G2) |
//!
//! The levels differ in nothing else; the name of an anomaly only describes its cycle. Some
//! anomalies need no cycle: reads of aborted values (G1a) or of intermediate values (G1b), values
//! that no transaction appended, duplicate or lost values, and lists of which neither is a prefix
//! of the other.
//!
//! A history also records which transactions ended before others began. Clients may communicate, so
//! a later transaction must see at least the commits that ended before it began; these are rules as
//! well. Because of them, an acknowledged commit that a crash lost shows as a cycle.
//!
//! | module | contents |
//! | --- | --- |
//! | [`history`] | transactions, and their text format of one line each |
//! | [`verdict`] | the anomalies of a history, in words |
//! | [`bank`] | another kind of check: transfers preserve the sum of all balances |
//!
//! Left out: deleted keys, predicates, and overwritten values. Rows of lists pass through the same
//! code, so lists suffice to find the bugs that those would show.

pub mod bank;
mod cycle;
pub mod history;
mod lists;
mod moments;
mod text;
pub mod verdict;

pub use history::{History, Level, Op, Outcome, Transaction};
pub use verdict::{Anomaly, judge};
