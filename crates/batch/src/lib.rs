//! Serializable by order: transactions are put in one total order, every site works it out for itself, and
//! records flow to where the next transactions need them.
//!
//! ```text
//!   requests ──▶ sequencer ──▶ ORDER ──▶ planner ──▶ site ──▶ rows, answers
//!                gathers       durable   who does    locks, pushes, runs
//!                batches                 what, where    ▲  │
//!                                                       └──┘ other sites: rows that are read
//! ```
//!
//! The base is Calvin (Thomson et al., SIGMOD 2012): if all sites know the order, and what a transaction does
//! depends on its parameters and on rows alone, then all come to the same end without asking each other. No
//! two-phase commit, no deadlock, and copies that agree without being told. What is new is Hermes (Lin et al.,
//! SIGMOD 2021): a batch is a view of the near future, so it is routed as a whole; and what a transaction
//! writes stays where it ran (*data fusion*), as long as it is hot.
//!
//! # Modules
//!
//! ```text
//!   site                          planner                    the two state machines
//!    │ locks      who waits          │ clients   what has run
//!    │ message    rows on their way  │ isomer-strategy::batch   what a router is asked, and
//!    │ procedure  running code       │                          where records are
//!    └───────────────┬───────────────┘
//!                    ▼
//!            recording ──▶ plan                              a batch, worked out; that and what was asked, kept
//!                    ▼
//!   sequencer ──▶ request ──▶ provision ──▶ rows              what is ordered; what a row is
//!   order ───────────▲
//! ```
//!
//! What stands below is depended on by what stands above; a state machine depends on what is listed under it, and
//! neither of them on the other. There are no circles.
//!
//! The two halves meet in a value, the [`Plan`]. The [`Planner`] changes by batches alone, so that sites in one
//! process may share one, and it works on the next batch while this one runs. The [`Site`] takes plans and
//! messages, and never asks why.
//!
//! # One batch, followed through
//!
//! 1. A client's [`Request`] waits in a [`Sequencer`] until its batch is full, or old enough; the [`Order`] makes
//!    the batch durable and gives it its place.
//! 2. The [`Planner`] drops requests that have run, has the [`Route`] choose order and sites, and says for
//!    each record and range where it is and will be. Records that leave the full [`FusionTable`] go home in steps
//!    of their own at the end of the batch, so no client waits for that.
//! 3. Each [`Site`] asks for the locks of all its steps, in order. Granted, it pushes what it holds to the
//!    executors and lets go of what moves away.
//! 4. An executor that has all rows runs the procedure, writes what is placed at it, and answers: the order is
//!    durable, so nothing else has to be.
//!
//! # Invariants
//!
//! - A record has one place at each point of the order, at home or by the fusion table, whether it has a row or
//!   not; a site's rows are those that are placed there.
//! - The result is that of running the plans' steps one after the other.
//! - Nothing depends on time, chance, or the way messages took, but for when things happen.
//!
//! # What is left out
//!
//! Files and sockets (whoever embeds it has them); reads of a batch boundary without locks; batches that find
//! their own size. A router reorders within a batch only: all requests of a batch are under way at once, so
//! real-time order is kept.

mod clients;
mod locks;
mod message;
mod order;
mod plan;
mod planner;
mod procedure;
mod provision;
mod recording;
mod request;
mod rows;
mod sequencer;
mod site;

pub use isomer_strategy::batch::{
    Assignment, Back, FusionTable, Homes, Moved, Movement, Places, RecordId, Replacement, Route,
};
pub use locks::{Lock, Locks};
pub use message::Message;
pub use order::{MemoryOrder, Order};
pub use plan::{Leg, Plan, Repeat, Step, StepId, Work};
pub use planner::Planner;
pub use procedure::{ATTEMPTS_MAX, Outcome, Procedure, Procedures, STEPS_MAX, Txn, run};
pub use provision::{Migration, Provision, Refusal};
pub use recording::{Decided, Move, Recorded};
pub use request::{Abort, Answer, Batch, ClientId, Request};
pub use rows::{MemoryRows, Row, Rows, Writes};
pub use sequencer::{Limits, Sequencer};
pub use site::{ASK_AFTER_NS, Checkpoint, Finished, Input, Output, Site, Task};
