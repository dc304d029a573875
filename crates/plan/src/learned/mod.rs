//! What the autopilot ([`crate::strategy::Learned`]) knows, and how it thinks (MorphoSys, section 5).
//!
//! ```text
//!   footprints ──▶ Reservoir ──▶ Workload ─┐   how often is this range read, written, and with what?
//!   latencies ───▶ Linear ─────▶ Costs ────┤   what will a transaction, a split, a remaster take?
//!   loads ───────▶ Traffic ────────────────┤   how busy is a site, and with what?
//!                                          ▼
//!                                       outlook    what does a design mean for the transactions to come?
//!                                          ▼
//!             transaction ──────────▶ planner ──▶ changes, with reasons ──▶ journal
//! ```
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`reservoir`] | a sample of the recent past that adapts |
//! | [`workload`] | access and co-access probabilities of any key range, read off the sample |
//! | `writers` | how many samples write to a partition |
//! | [`linear`], [`score`] | a linear function that is learned one observation at a time; how well it foretells |
//! | [`cost`] | the cost functions of Table 1, and what each operation takes of them |
//! | [`traffic`] | how busy the sites are |
//! | `known` | all of that in one piece |
//! | `outlook` | what the transactions to come gain or lose by a change |
//! | `planner` | which site, and what it needs |
//! | `clump` | what moves along with that |
//! | `blueprint` | where everything would be, if it were placed anew |
//! | `draft` | which designs that could be: a graph of what belongs together, divided |
//! | `even` | what full sites hand over where no such design is better |
//! | `grid`, `forecast` | how much they would serve: samples laid over partitions, a network of queues |
//! | `order`, `trial` | in which order that is carried out; and was it worth it? |
//! | `beneficial` | splits, merges, replicas that go |
//! | [`recent`] | what was changed lately: in flight, at rest, undone, within the budget |
//! | `calm` | how much may be changed besides, the less the longer nothing happens |
//! | `shift` | whether a hot spot has moved, so that old samples say nothing |
//! | [`journal`] | what was decided, why, and what came of it |
//! | [`memory`] | what is remembered when the database stops |
//! | [`options`] | the constants |

mod beneficial;
pub(crate) mod blueprint;
pub(crate) mod calm;
mod clump;
pub mod cost;
pub(crate) mod draft;
mod even;
pub(crate) mod forecast;
pub(crate) mod grid;
pub mod journal;
pub(crate) mod known;
pub mod linear;
pub mod memory;
pub mod options;
pub(crate) mod order;
pub(crate) mod outlook;
pub(crate) mod planner;
pub(crate) mod range;
pub mod recent;
pub mod reservoir;
pub mod score;
pub(crate) mod shift;
pub(crate) mod situation;
pub mod traffic;
pub(crate) mod trial;
pub mod workload;
pub(crate) mod writers;

pub use cost::{Costs, Effort, Parts, Work};
pub use linear::{Feature, Linear};
pub use memory::Memory;
pub use options::{Mode, Options};
pub use planner::{Answer, Candidate};
pub use range::Range;
pub use reservoir::Reservoir;
pub use score::Score;
pub use workload::Workload;
