//! Batch routers: which site runs which transaction of a totally ordered batch, and in which order.
//!
//! ```text
//!   batch + where every key is ──router──▶ order and site of each transaction
//!                                          remote reads, migrations, load per site
//! ```
//!
//! Every scheduler of a deterministic database computes the routes by itself, so the routes must be
//! equal everywhere. Therefore all arithmetic is in integers, every tie has a rule, and no
//! unordered map is iterated.
//!
//! | router | looks at | where records go |
//! | --- | --- | --- |
//! | [`hermes`] | the whole batch, may reorder it | what is written stays at the writer (fusion) |
//! | [`leap`] | one transaction | everything it touches moves to it |
//! | [`gstore`] | one transaction | everything moves to it and back |
//! | [`tpart`] | the batch in order | pushed from writer to reader, home at the end |
//! | [`calvin`] | one transaction | nothing moves |
//!
//! Sites count from 0 here. A [`Places`] defines the keys and their sites. The command line has
//! numbers with [homes](Home) of equal width; the engine of `isomer-batch` has records, and adapts
//! these routers in [`engine`].

mod batch;
pub mod engine;
mod fusion;
mod hermes;
mod optimum;
mod single;
mod textbook;
mod tpart;

pub use batch::{Alpha, Batch, Home, Key, Places, Route, RouteError, Routed, Transaction};
pub use fusion::{Fused, FusionTable, Replacement, fuse};
pub use hermes::{Options, REORDER_MAX, Tie, hermes};
pub use optimum::optimum;
pub use single::{calvin, gstore, leap};
pub use textbook::textbook;
pub use tpart::tpart;
