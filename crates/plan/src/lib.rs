//! What the physical design should be: planners as pure functions over recorded workloads.
//!
//! ```text
//!   recording ──▶ heat graph ──▶ planner ──▶ proposal: placement, moves, reasons, what lost
//!   batch ──────────────────────▶ router ──▶ order and site of each transaction
//!   table, new shard key ───────▶ reshard ─▶ site of each new chunk, sockets, rounds
//! ```
//!
//! | module | question | paper |
//! | --- | --- | --- |
//! | [`recording`] | who touched what together? | Clay 6 |
//! | [`generate`] | what would the papers' workloads touch? | Clay 8, Hermes 5 |
//! | [`heat`] | how often, as a graph? | Clay 4, 6 |
//! | [`problem`] | where is everything, what does it cost, what is a plan? | Clay 4 |
//! | [`clay`], [`drift`] | which clumps should move? | Clay 7 |
//! | `partition` | which keys belong at one site? METIS answers | Karypis, Kumar 1998 |
//! | [`baseline`] | what would others do? | Clay 8.1, DrTM+B 5 |
//! | [`elastic`] | which site is overloaded, by what, and what of it moves where? | Clay 4, E-Store, DrTM+B 5 |
//! | [`evaluate`] | was it worth it, on what came later? | Clay 8 |
//! | [`route`] | which site runs which transaction of a batch? | Hermes 3, 4.1 |
//! | [`reshard`] | where do the chunks of a new shard key go? | Morphus 3, 4 |
//! | [`learned`] | what do transactions and changes cost, and what comes together? | MorphoSys 5.1, 5.2 |
//! | [`strategy`] | what to change for a transaction that arrives now? | MorphoSys 5, Clay, ADR |
//!
//! # Invariants
//!
//! Everything here is a function of its arguments. Nothing asks for the time, nothing opens a file or
//! a socket (readers of recordings are handed something to read), chance comes from seeds, and no
//! map whose order is not that of its keys reaches an output. Bad input is an error that says what
//! would be right; nothing panics on it.

pub mod assign;
pub mod baseline;
#[cfg(feature = "bench")]
pub mod bench;
pub mod clay;
pub mod drift;
pub mod elastic;
pub mod evaluate;
pub mod generate;
pub mod heat;
pub mod learned;
mod partition;
pub mod problem;
pub mod recording;
pub mod reshard;
pub mod route;
mod rows;
pub mod strategy;
