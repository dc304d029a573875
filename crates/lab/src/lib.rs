//! The laboratory: the real router, strategies and sites on virtual machines.

mod client;
mod cluster;
mod cores;
mod costs;
mod drive;
mod experiment;
mod machines;
pub mod page;
mod plot;
mod results;
mod run;
mod system;
mod tally;
mod transport;

pub use costs::Costs;
pub use experiment::{Experiment, SmallBankSpec, Varied, Vary, WorkloadSpec, YcsbSpec};
pub use machines::Hardware;
pub use plot::draw;
pub use results::{Claim, Mean, Metric, Relation, Row, Sample, rows};
pub use run::{Measured, run};
pub use system::{Masters, SYSTEMS, System};
