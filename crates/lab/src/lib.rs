//! The laboratory: the real router, strategies and sites on virtual machines.
//!
//! # The problem
//!
//! What a strategy does to sixteen sites of twelve cores cannot be measured on two cores. But all of
//! the database's code runs under virtual time already (`isomer-sim`). So here that code runs on
//! machines that do not exist: cores that are held while it computes, wires with a latency and a
//! bandwidth, disks that take their time. What each step costs comes from a table that can be measured on
//! this very code ([`calibrate()`]).
//!
//! ```text
//!   experiments/*.toml ──▶ Experiment ─┬─ cluster   Hardware: sites, cores, wires, disks
//!                                      ├─ systems   strategy, first placement
//!                                      └─ workload  clients in a closed loop
//!                                              │ run, for each system, point and seed
//!                                              ▼
//!        Measured ──▶ rows: means, 95 % confidence, the paper's numbers ──▶ lines, page, plot
//! ```
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`experiment`](Experiment), [`system`](System) | what is asked, and of whom |
//! | [`run`](run()) | one run; `cluster` sets the database up and examines it afterwards |
//! | `client`, `transport`, `machines`, `cores` | how time passes for what is done |
//! | `costs`, `calibrate` | how much of it |
//! | [`changes`](Measured), [`shift`](Shift) | what is not counted per transaction: changes taken back, hot spots that move |
//! | [`metric`](Metric), [`claim`](Claim), [`results`](rows) | what came out, beside what the paper says |
//! | [`page`], `plot` | the same for people |
//! | [`ablation`](rules) | what each rule of the autopilot is worth |
//! | [`ordered`] | the same questions asked of transactions in a total order: Hermes' experiments |
//!
//! # Invariants
//!
//! * A seed repeats a run to the last digit, whatever else the process does meanwhile.
//! * A run counts only if no transaction failed and its workload's own check holds at the end.
//! * Time passes with the locks held that the code holds.
//!
//! # What was left out
//!
//! Caches, memory bandwidth and the
//! clients' own machines are not modelled. A thought of the autopilot takes a constant time.

mod ablation;
mod calibrate;
mod changes;
mod claim;
mod claims;
mod client;
mod cluster;
mod cores;
mod costs;
mod drive;
mod experiment;
mod machines;
mod measured;
mod metric;
pub mod ordered;
pub mod page;
mod plot;
mod results;
mod run;
mod sample;
mod shift;
mod stopwatch;
mod system;
mod tally;
mod think;
mod transport;
mod watched;

pub use ablation::{Rule, ablation_experiments, ablation_page, rules};
pub use calibrate::calibrate;
pub use claim::{Claim, Relation};
pub use claims::{claims_experiments, claims_page};
pub use costs::Costs;
pub use experiment::{
    Experiment, SmallBankSpec, TpccSpec, TwitterSpec, Varied, Vary, WorkloadSpec, YcsbSpec,
};
pub use machines::Hardware;
pub use measured::{Measured, Predicted};
pub use metric::Metric;
pub use plot::draw;
pub use results::{Row, rows};
pub use run::run;
pub use sample::{Mean, Sample};
pub use shift::Shift;
pub use stopwatch::Stopwatch;
pub use system::{Decider, Masters, SYSTEMS, System};
pub use think::think;
pub use watched::{Watch, Watched};
