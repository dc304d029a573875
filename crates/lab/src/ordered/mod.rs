//! Transactions in a total order on virtual machines: Hermes' experiments.
//!
//! The engine is another one than that of snapshots (`isomer-batch`), so what drives it is another as well. Cores, costs,
//! the virtual time and the form of results are those of the rest of the laboratory.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`spec`](Experiment), [`system`](System), [`workload`] | what is asked, of whom, and with which transactions |
//! | [`run`](run()), [`driver`], [`machine`] | how time passes for what is done |
//! | [`charge`], [`calibrate`] | how much of it |
//! | [`tally`], [`measured`](Measured), [`serial`] | what is counted, and whether the run counts |
//! | [`claim`](Claim), [`page`], [`plot`](draw) | what came out, beside what the paper says |
//!
//! # Invariants
//!
//! * A run counts only if what clients were told, and what the sites hold in the end, is what a serial execution of the
//!   order makes it.
//! * A seed repeats a run to the last digit.
//! * Routing and asking for locks is charged at every site, and slowed like all else.
//!
//! # What is left out
//!
//! Disks but for the order's log, replicas, checkpoints, losses and crashes (`isomer-batch` tests these by itself). Who
//! plans is charged by how many transactions, records and sites there are, not by how often Algorithm 1 goes over them.

pub(crate) mod calibrate;
mod charge;
mod claim;
mod driver;
mod machine;
mod measured;
pub mod page;
mod plot;
mod run;
mod serial;
mod spec;
mod system;
mod tally;
mod tpcc;
mod workload;

pub use claim::Claim;
pub use measured::{AroundChange, Measured, Metric, Sample};
pub use page::rows;
pub use plot::draw;
pub use run::run;
pub use serial::{Serial, add_answer};
pub use spec::{
    Cluster, Experiment, GoogleSpec, Initial, Load, ScaleOut, TenantsSpec, TpccSpec, Varied, Vary,
    WorkloadSpec,
};
pub use system::{SYSTEMS, System};
pub use tally::{PARTS, Slice};
pub use workload::{Demand, procedures};
