//! The knowledge of the autopilot ([`crate::strategy::Learned`]), and its decisions (MorphoSys,
//! section 5).
//!
//! ```text
//!   footprints ──▶ Reservoir ──▶ Workload ─┐   how often is a range accessed, with which?
//!   latencies ───▶ Linear ─────▶ Costs ────┤   what will a transaction, a split, a remaster cost?
//!   loads ───────▶ Traffic ────────────────┤   how busy is a site, and with which work?
//!                                          ▼
//!     one transaction ──▶ planner ──── outlook       what do samples gain by a change?
//!     all samples ──────▶ global plan ── forecast    what would its throughput be?
//!                             │
//!                             ▼
//!                    changes, with reasons ──▶ journal ──▶ trial: was it worth it?
//! ```
//!
//! | module | contents |
//! | --- | --- |
//! | **observe** | |
//! | [`reservoir`] | a bounded sample of transactions, biased towards the recent |
//! | [`workload`], `range` | access and co-access probabilities of any key range |
//! | [`traffic`] | load and throughput of the sites |
//! | `regime` | three signals: does the workload hold still, or has it changed? |
//! | **model** | |
//! | [`linear`], [`score`] | recursive least squares; R² of its predictions |
//! | [`cost`] | the cost functions of Table 1, and their inputs |
//! | `outlook` | the saving of a change for the sampled transactions: E(S) |
//! | `grid`, `forecast` | throughput of a design: samples over partitions, a queueing network |
//! | `known` | all of that in one value that can be copied; the inputs of a decision |
//! | **propose** | |
//! | `planner` | for one transaction: which site, and which changes it needs |
//! | `beneficial` | splits, merges, dropped replicas |
//! | `candidate_design` | for all samples: a co-access graph, for METIS or Clay |
//! | **govern** | |
//! | [`recent`] | changes in flight, price of undoing, budget of changes |
//! | [`budget`] | processor time for learning and planning |
//! | `global_plan` | when a global plan is drawn, what it must promise, how it is executed |
//! | `trial` | throughput before and after a global plan, and rollback |
//! | [`tuning`] | every tuned parameter |
//! | **remember** | |
//! | [`journal`] | decisions: alternatives, choice, reason, effect |
//! | [`memory`] | the state that survives a restart of the database |

pub(crate) mod beneficial;
pub mod budget;
pub(crate) mod candidate_design;
pub mod cost;
pub(crate) mod forecast;
pub(crate) mod global_plan;
pub(crate) mod grid;
pub mod journal;
pub(crate) mod known;
pub mod linear;
pub mod memory;
pub(crate) mod outlook;
pub(crate) mod planner;
pub(crate) mod range;
pub mod recent;
pub(crate) mod regime;
pub mod reservoir;
pub mod score;
pub mod traffic;
pub(crate) mod trial;
pub mod tuning;
pub mod workload;

pub use budget::Budget;
pub use cost::{Costs, Effort, Parts, Work};
pub use linear::{Feature, Linear};
pub use memory::Memory;
pub use planner::Candidate;
pub use range::Range;
pub use reservoir::Reservoir;
pub use score::Score;
pub use tuning::{Mode, Tuning};
pub use workload::Workload;
