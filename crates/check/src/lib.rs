//! Histories of what clients saw, and whether a database that keeps its word can have shown it.
//!
//! Clients append numbers to lists and read whole lists. No number is appended twice, so a list tells
//! who wrote it, in which order, and what its reader had not seen yet (Kingsbury and Alvaro, "Elle:
//! Inferring Isolation Anomalies from Experimental Observations", PVLDB 14(3), 2020). From that, each
//! transaction gets moments at which it must have read and committed, and rules about which moment was
//! before which. If the rules form a cycle, no database with the promised isolation did this.
//!
//! ```text
//!   a: read x []; append x 1         a reads ──▶ a commits ──┐
//!   b: read x []; append x 2                         ▲       │ ww: b's 2 lies behind a's 1
//!   c: read x [1 2]                               rw │       ▼
//!                                                    └──── b reads ──▶ b commits
//!   Both read the empty list,
//!   so one update is lost.           rw: b has read x without a's 1
//! ```
//!
//! | isolation | moments of a transaction | cycles that it forbids |
//! | --- | --- | --- |
//! | [`Level::ReadCommitted`] | one for each statement, and its commit | G0, G1c |
//! | [`Level::Snapshot`] | one for all that it reads, and its commit | also G-single, lost updates, long forks |
//! | [`Level::Serializable`] | one | also write skew (G2) |
//!
//! The levels differ in nothing else; names are only how a cycle is told. What needs no cycle is
//! found by looking: values that were taken back (G1a) or were not final (G1b), values that nobody
//! wrote, that are there twice or not at all, and lists that are no beginnings of one another.
//!
//! A history also knows which transactions ended before others began. A database that lets its clients
//! talk with each other may not show the second less than the first, so these are rules as well. They
//! make a commit that was acknowledged, and is gone after a crash, a cycle like any other.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`history`] | transactions, and their text, a line each |
//! | [`verdict`] | what is wrong with a history, in words |
//! | [`bank`] | a check of another kind: transfers leave the sum as it is |
//!
//! What is left out: keys that are deleted, predicates, and values that are overwritten; lists are enough to
//! find what these would show, as their rows take the same ways.

pub mod bank;
mod cycle;
pub mod history;
mod lists;
mod moments;
mod text;
pub mod verdict;

pub use history::{History, Level, Op, Outcome, Transaction};
pub use verdict::{Anomaly, judge};
