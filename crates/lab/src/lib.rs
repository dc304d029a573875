//! The laboratory: runs the real router, strategies and sites on virtual machines.
//!
//! # The problem
//!
//! The effect of a strategy on sixteen sites of twelve cores cannot be measured on two cores. All
//! code of the database already runs under virtual time (`isomer-sim`), so the laboratory runs it
//! on simulated machines: cores that are occupied while code computes, links with latency and
//! bandwidth, and disks with a sync time. The cost of each step comes from a table, which
//! [`calibrate()`] can measure on this very code.
//!
//! ```text
//!   experiments/*.toml ──▶ Experiment ─┬─ cluster   Hardware: sites, cores, links, disks
//!                                      ├─ systems   strategy, initial placement
//!                                      └─ workload  clients in a closed loop
//!                                              │ run, for each system, point and seed
//!                                              ▼
//!        Measured ──▶ rows: means, 95 % confidence, the paper's numbers ──▶ lines, page, plot
//! ```
//!
//! | module | contents |
//! | --- | --- |
//! | [`experiment`](Experiment), [`system`](System) | the question, and the compared systems |
//! | [`run`](run()) | one run; `cluster` sets the database up and checks it afterwards |
//! | `client`, `transport`, `machines`, `cores` | how virtual time passes |
//! | `costs`, `calibrate` | how much time each step takes |
//! | [`changes`](Measured), [`shift`](Shift) | undone changes; the response to a moving hot spot |
//! | [`metric`](Metric), [`claim`](Claim), [`results`](rows) | results, compared with the paper |
//! | [`page`], `plot` | results for readers |
//! | [`ablation`](rules) | the effect of each rule of the autopilot |
//! | [`ordered`] | the same for transactions in a total order: the experiments of Hermes |
//!
//! # Invariants
//!
//! * A seed repeats a run to the last digit, independent of the load of the real machine.
//! * A run counts only if no transaction failed and the check of its workload passes at the end.
//! * Virtual time passes while the same locks are held as in the real code.
//!
//! # What was left out
//!
//! CPU caches, memory bandwidth and the clients' machines are not modelled. Planning by the
//! autopilot takes a constant time.

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
