//! What the autopilot ([`crate::strategy::Learned`]) knows, and how it decides (MorphoSys, section
//! 5).
//!
//! ```text
//!   footprints ──▶ Reservoir ──▶ Workload ─┐   how often is this range read, written, and with what?
//!   latencies ───▶ Linear ─────▶ Costs ────┤   what will a transaction, a split, a remaster take?
//!   loads ───────▶ Traffic ────────────────┤   how busy is a site, and with what?
//!                                          ▼
//!     one transaction ──▶ planner ──── outlook     what do sampled transactions gain by a change?
//!     all samples ──────▶ global plan ── forecast    how many transactions a second would it serve?
//!                             │
//!                             ▼
//!                    changes, with reasons ──▶ journal ──▶ trial: was it worth it?
//! ```
//!
//! | module | what it holds |
//! | --- | --- |
//! | **observe** | |
//! | [`reservoir`] | a bounded sample of transactions, biased towards the recent |
//! | [`workload`], `range` | access and co-access probabilities of any key range, read off the sample |
//! | [`traffic`] | load and throughput of the sites |
//! | `regime` | three signals: does the workload hold still, or has it changed? |
//! | **model** | |
//! | [`linear`], [`score`] | recursive least squares; R² of its predictions |
//! | [`cost`] | the cost functions of Table 1, and their inputs |
//! | `outlook` | what a change saves the sampled transactions: E(S) |
//! | `grid`, `forecast` | throughput of a design: samples laid over partitions, a queueing network |
//! | `known` | all of that in one value, to be copied; and what one decision is made from |
//! | **propose** | |
//! | `planner` | for one transaction: which site, and which changes it needs |
//! | `beneficial` | splits, merges, replicas that go |
//! | `candidate_design` | for all samples: a graph of co-accesses, partitioned by METIS or refined by Clay |
//! | **govern** | |
//! | [`recent`] | changes in flight, price of undoing, budget of changes |
//! | [`budget`] | processor time that learning and planning may take |
//! | `global_plan` | when a global plan is drawn, what it must promise, how it is carried out |
//! | `trial` | throughput before and after a global plan, and rollback |
//! | [`tuning`] | every number that was tuned |
//! | **remember** | |
//! | [`journal`] | decisions: what was considered, chosen and why, and its effect |
//! | [`memory`] | what is kept when the database stops |

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
