//! Workloads on a database: loading, clients, and the checks afterwards.
//!
//! ```text
//!   Workload ──load──▶ Database ◀──run── Client ──▶ Tally     one client per thread
//!                         │                           │
//!                         └──inspect──▶ Inspection    └──▶ committed writes
//!                                           └── judge ──────┘
//! ```

mod client;
mod inspect;
mod load;
mod tally;

pub use client::{Client, Memory};
pub use inspect::{Inspection, inspect, inspect_with};
pub use load::{Borders, Layout, Spread, create, fill, load};
pub use tally::{Latency, Tally};
