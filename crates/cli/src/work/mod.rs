//! Workloads on a database: loading, clients, and the checks afterwards.
//!
//! ```text
//!   Workload ──load──▶ Database ◀──run── Client ──▶ Tally     one client per thread
//!                         │                           │
//!                         └──inspect──▶ Inspection    └──▶ what was committed
//!                                           └── judge ──────┘
//! ```

mod client;
mod inspect;
mod load;
mod tally;

pub(crate) use client::{Client, Memory};
pub(crate) use inspect::{Inspection, inspect, inspect_with};
pub(crate) use load::{Borders, Layout, Spread, create, fill, load};
pub(crate) use tally::{Latency, Tally};
