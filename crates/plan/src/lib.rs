//! Planners of the physical design, as pure functions over recorded workloads.
//!
//! ```text
//!   recording ──▶ heat graph ──▶ planner ──▶ proposal: placement, moves, reasons, rejections
//!   batch ──────────────────────▶ router ──▶ order and site of each transaction
//!   table, new shard key ───────▶ reshard ─▶ site of each new chunk, sockets, rounds
//! ```
//!
//! | module | question | paper |
//! | --- | --- | --- |
//! | [`recording`] | which keys were touched together? | Clay 6 |
//! | [`generate`] | which keys do the papers' workloads touch? | Clay 8, Hermes 5 |
//! | [`heat`] | how often, as a graph? | Clay 4, 6 |
//! | [`problem`] | what is a placement, what does it cost, what is a plan? | Clay 4 |
//! | [`clay`], [`drift`] | which clumps should move? | Clay 7 |
//! | `partition` | which keys belong at one site? METIS answers | Karypis, Kumar 1998 |
//! | [`baseline`] | what would other planners do? | Clay 8.1, DrTM+B 5 |
//! | [`elastic`] | which site is overloaded, why, what should move? | Clay 4, E-Store, DrTM+B 5 |
//! | [`evaluate`] | was it worth it, for the later workload? | Clay 8 |
//! | [`route`] | which site runs which transaction of a batch? | Hermes 3, 4.1 |
//! | [`reshard`] | where do the chunks of a new shard key go? | Morphus 3, 4 |
//! | [`drain`] | where does what a site has go? | – |
//! | [`restraints`] | which changes may begin now? | Cruise Control |
//! | [`pulse`] | what did transactions take, with changes and without? | – |
//! | [`proposals`] | which plans wait for an operator, and what came of them? | Cruise Control |
//! | [`learned`] | what do transactions and changes cost? | MorphoSys 5.1, 5.2 |
//! | [`strategy`] | what to change for a transaction that arrives now? | MorphoSys 5, Clay, ADR |
//!
//! # Invariants
//!
//! Everything here is a function of its arguments. No function reads a clock, or opens a file or
//! socket (readers of recordings get an open input). Randomness comes from seeds, and no map with
//! an order other than that of its keys reaches an output. Bad input is an error that names the
//! right form; nothing panics on it.

pub mod assign;
pub mod baseline;
#[cfg(feature = "bench")]
pub mod bench;
pub mod clay;
pub mod drain;
pub mod drift;
pub mod elastic;
pub mod evaluate;
pub mod generate;
pub mod heat;
pub mod learned;
mod partition;
pub mod problem;
pub mod proposals;
pub mod pulse;
pub mod recording;
pub mod reshard;
pub mod restraints;
pub mod route;
mod rows;
pub mod strategy;
