//! The embedded runtime: the sites of this process, their threads, and the transport to all sites.
//!
//! ```text
//!   Database, Node ──▶ Runtime ──▶ Host ──▶ Site        this process
//!                         │
//!   Router ──▶ Embedded ──┴──────▶ Remote ──▶ wire      sites elsewhere
//! ```
//!
//! **Only this module holds sites.** Other modules reach a site through the
//! [`Transport`](crate::Transport), wherever it is. So they cannot rely on anything that does not
//! also work over a network.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`runtime`] | all sites of the process, and how a client's thread waits |
//! | [`host`] | one site, its worker thread and its disk |
//! | [`mailboxes`] | messages between sites |
//! | [`transport`] | the transport to sites, here or elsewhere |
//! | [`opening`] | recovery of sites, several at a time |
//! | [`checkpointer`] | when checkpoints are made, and how fast |
//! | [`busy`] | the processor time of each site |
//! | [`report`] | the state of a site, for operators |
//! | [`clock`], [`thread`] | the computer's clock, and its threads |

mod busy;
mod checkpointer;
mod clock;
mod host;
mod mailboxes;
mod opening;
mod report;
mod runtime;
mod thread;
mod transport;

pub(crate) use checkpointer::Checkpointer;
pub use checkpointer::Checkpointing;
pub(crate) use mailboxes::Mailboxes;
pub use opening::Recovering;
pub(crate) use opening::Told;
pub use report::SiteReport;
pub(crate) use runtime::{Runtime, drive};
pub(crate) use thread::start;
pub(crate) use transport::Embedded;
pub(crate) use transport::Here;
