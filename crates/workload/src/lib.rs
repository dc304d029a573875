//! Benchmarks and traces as transactions with footprints.
//!
//! # The problem
//!
//! A design can be judged only by the transactions that run on it, and throughput means little if
//! the database lost half of the updates. A workload therefore has two parts: a generator of
//! transactions, and a check of the database afterwards.
//!
//! ```text
//!                     ┌──────────── a Workload ────────────┐
//!   seed ─▶ Random ──▶│ next ──▶ Transaction ─┬─ footprint ├──▶ router, locks, snapshot
//!                     │                       └─ run ──────┼──▶ over a DataAccess ──▶ Outcome
//!                     │ load ──▶ rows                      │                       added: +3
//!                     │ audits, judge ◀────────────────────┼──── sum of `added` over all commits
//!                     └────────────────────────────────────┘
//! ```
//!
//! Workloads do not know how transactions are executed: a [`Transaction`] says its
//! [footprint](isomer_design::Footprint) before it runs, and then runs over anything that can get,
//! put and scan ([`DataAccess`]). [`Watched`] is the adapter to a site's transaction.
//!
//! # The one sum
//!
//! Every row of every workload begins with a number: a counter, or an amount in cents. A
//! transaction reports its net addition to the sum of these numbers. The executor adds up the
//! reports of all committed transactions. At the end, the sum over the database must equal the
//! loaded sum plus the reported additions. A lost update, a write applied twice, half a
//! transaction, or a write based on a stale read shows as a difference, unless two errors cancel
//! out exactly.
//!
//! # Worked example
//!
//! ```
//! use isomer_design::TableId;
//! use isomer_workload::{Model, Outcome, SmallBank, SmallBankOptions, random};
//! use isomer_workload::{Transaction, Workload};
//!
//! let options = SmallBankOptions { customers: 100, ..SmallBankOptions::default() };
//! let mut bank = SmallBank::new(options, TableId(1))?;
//! let mut data = Model::loaded(&bank);
//! let (mut rng, mut added) = (random(7), 0);
//! for _ in 0..1000 {
//!     let transaction = bank.next(&mut rng);
//!     match data.execute(&transaction)? {
//!         Outcome::Commit { added: net } => added += i128::from(net),
//!         Outcome::Rollback { .. } => {}
//!         Outcome::Inconsistent { what } => panic!("{}: {what}", transaction.name()),
//!     }
//! }
//! bank.verify(&mut data, added)??;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Contents
//!
//! * [`Ycsb`]: read-modify-writes of three keys and scans, uniform or skewed.
//! * [`SmallBank`]: six short banking procedures.
//! * [`Tpcc`]: orders, payments and deliveries of a wholesaler.
//! * [`Pps`]: products, parts, and suppliers that share parts.
//! * [`Twitter`]: tweets, and the users who follow each other.
//! * [`TraceWorkload`]: the requests of a production cache, as transactions of a few keys.
//! * [`Model`]: the simplest executor, as an example and for comparison.
//!
//! # Invariants
//!
//! * All randomness comes from the [`Random`] argument, so a seed repeats a run exactly.
//! * A transaction touches nothing outside its footprint.
//! * It may be run again until it has committed.
//!
//! # What was left out
//!
//! Think times and arrival rates: the driver of the clients decides these.

mod access;
mod chooser;
mod error;
mod model;
mod number;
mod pps;
mod smallbank;
mod tpcc;
mod trace;
mod twitter;
mod watched;
mod workload;
mod ycsb;

pub use access::DataAccess;
pub use chooser::{Chooser, Skew};
pub use error::OptionsError;
pub use model::{Model, ModelError};
pub use pps::{HotSuppliers, Pps, PpsOptions, PpsTransaction};
pub use smallbank::{Blocks, HotSpot, SmallBank, SmallBankOptions, SmallBankTransaction};
pub use tpcc::{HotWarehouses, Order, Tpcc, TpccOptions, TpccTransaction};
pub use trace::{
    Locality, Request, Trace, TraceError, TraceOptions, TraceTransaction, TraceWorkload,
};
pub use twitter::{Twitter, TwitterOptions, TwitterTransaction};
pub use watched::{Watch, Watched};
pub use workload::{Audit, Examiner, LoadRow, Mismatch, Outcome, Totals, Transaction, Workload};
pub use ycsb::{Companions, Ycsb, YcsbOptions, YcsbTransaction};

use rand_xoshiro::rand_core::SeedableRng;

/// The random number generator of all workloads.
pub type Random = rand_xoshiro::Xoshiro256PlusPlus;

/// The generator for a seed. Clients of the same workload must take different seeds.
pub fn random(seed: u64) -> Random {
    Random::seed_from_u64(seed)
}
