//! Deterministic simulation: the real site, router and strategies on one thread, under virtual time
//! and faults, and checkers of the recorded history.
//!
//! ```text
//!   scenario (a seed draws everything)      scripts (one interleaving, written down)
//!              └───────────────┬───────────────────────┘
//!                           cluster        Router, Sites, and a record of every transaction
//!                              │
//!                            world         tasks · time · network · disks · crashes     ◀── plant
//!                              │
//!                           history ──▶ checkers
//! ```
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`world`] | one thread, one agenda, one source of chance; the borders of the code under test |
//! | [`cluster`], [`statements`] | a database in a world, transactions of both kinds |
//! | `order` | the total order of ordered tables, in a world |
//! | [`SimOptions`] | the options of a run |
//! | [`scenario`] | a seeded run: draw, load, break, heal, settle, check |
//! | [`history`], [`ledger`](mod@history) | the observations of clients, the contents of logs |
//! | [`checkers`] | one promise each, checked on a history |
//! | [`plant`] | bugs at the borders, to prove that checkers can fail |
//!
//! A seed repeats exactly: the same options give the same trace, message by message.
//!
//! ```
//! let options = isomer_sim::SimOptions { steps: 40, ..Default::default() };
//! let once = isomer_sim::run(7, &options).unwrap();
//! assert_eq!(once, isomer_sim::run(7, &options).unwrap());
//! ```

pub mod checkers;
pub mod cluster;
pub mod history;
mod ledger;
mod options;
mod order;
mod outcome;
pub mod plant;
pub mod scenario;
pub mod statements;
pub mod world;

pub use options::{Faults, SimOptions};
pub use outcome::{Failure, Summary};
pub use plant::Plant;
pub use scenario::run;
