//! What a site's transactions look like, and what they and the changes of the design cost: learned
//! while they run (MorphoSys, sections 5.1 and 5.2).
//!
//! ```text
//!   footprints ──▶ Reservoir ──▶ Workload    how often is this range read, written, and with what?
//!   latencies ───▶ Linear ─────▶ Costs       what will a transaction, a split, a remaster take?
//! ```
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`reservoir`] | a sample of the recent past that adapts |
//! | [`workload`] | access and co-access probabilities of any key range, read off the sample |
//! | [`linear`], [`score`] | a linear function that is learned one observation at a time; how well it foretells |
//! | [`memory`] | what is remembered when the database stops |
//! | [`cost`] | the cost functions of Table 1, and what each operation takes of them |
//!
//! Left out: the planner that weighs benefit against cost (section 5.3) and asks for changes.

mod beneficial;
pub(crate) mod clump;
pub mod cost;
pub mod journal;
pub mod linear;
pub mod memory;
pub mod options;
pub(crate) mod outlook;
pub(crate) mod planner;
pub mod recent;
pub mod reservoir;
pub mod score;
pub mod traffic;
pub mod workload;

pub use cost::{Costs, Effort, Parts, Work};
pub use linear::{Feature, Linear};
pub use memory::Memory;
pub use options::{Mode, Options};
pub use planner::{Answer, Candidate};
pub use reservoir::Reservoir;
pub use score::Score;
pub use workload::{Range, Workload};
