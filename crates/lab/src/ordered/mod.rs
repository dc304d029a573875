//! Transactions in a total order on virtual machines: the experiments of Hermes.
//!
//! The engine (`isomer-batch`) differs from that of snapshots, so it has a driver of its own.
//! Cores, costs, virtual time and the form of results are those of the rest of the laboratory.
//!
//! | module | contents |
//! | --- | --- |
//! | [`spec`](Experiment), [`system`](System), [`workload`] | question, systems, transactions |
//! | [`run`](run()), [`driver`], [`machine`] | how virtual time passes |
//! | [`charge`], [`calibrate`] | how much time each step takes |
//! | [`tally`], [`measured`](Measured), [`serial`] | counts, and the check of a run |
//! | [`claim`](Claim), [`page`], [`plot`](draw) | results, compared with the paper |
//!
//! # Invariants
//!
//! * A run counts only if the answers to clients, and the rows of all sites at the end, equal those
//!   of a serial execution of the order.
//! * A seed repeats a run to the last digit.
//! * Routing and requesting locks are charged at every site, at the speed of its cores.
//!
//! # What is left out
//!
//! Disks except for the log of the order, replicas, checkpoints, message loss and crashes; the
//! tests of `isomer-batch` cover these. The cost of planning depends on the numbers of
//! transactions, records and sites, not on the number of iterations of Algorithm 1.

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
