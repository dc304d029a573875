//! A deterministic database engine: every site executes the same total order of transactions, and
//! records move to the sites where the next transactions need them.
//!
//! ```text
//!   requests ──▶ sequencer ──▶ ORDER ──▶ planner ──▶ site ──▶ rows, answers
//!                gathers       durable   assigns     locks, pushes, runs
//!                batches                 sites          ▲  │
//!                                                       └──┘ other sites: rows that are read
//! ```
//!
//! The base is Calvin (Thomson et al., SIGMOD 2012). The effects of a transaction depend only on
//! its parameters and on the rows that it reads. All sites know the order, so they reach the same
//! state without coordination: there is no two-phase commit and no deadlock, and copies of a site
//! agree.
//!
//! Hermes (Lin et al., SIGMOD 2021) adds two ideas. A batch shows the near future, so the router
//! places all transactions of a batch together. And the records that a transaction writes stay at
//! the site where it ran (*data fusion*), until the fusion table evicts them.
//!
//! # Modules
//!
//! ```text
//!   site                          planner                    the two state machines
//!    │ locks      lock manager       │ clients   client table
//!    │ message    pushed rows        │ isomer-strategy::batch   router interface, fusion table
//!    │ procedure  runs code          │
//!    └───────────────┬───────────────┘
//!                    ▼
//!                          plan                              a planned batch
//!                    ▼
//!   sequencer ──▶ request ──▶ provision ──▶ rows              contents of the order; rows
//!   order ───────────▲
//! ```
//!
//! Modules depend only on modules below them, without cycles. Each state machine depends on the
//! modules listed under it, and neither depends on the other.
//!
//! The two halves share one value, the [`Plan`]. Only batches change the [`Planner`], so the sites
//! of one process can share a planner, and it plans the next batch while the sites execute this
//! one. A [`Site`] executes plans and takes messages; it knows nothing of routing.
//!
//! A running database, whose statements are not all requests, uses the router, the fusion table and
//! the locks without the rest: see [`Turns`].
//!
//! # The life of a batch
//!
//! 1. A client's [`Request`] waits in a [`Sequencer`] until its batch is full or old enough. The
//!    [`Order`] assigns the batch its place and makes it durable.
//! 2. The [`Planner`] drops repeated requests and asks the [`Route`] for an order and for a site
//!    for each transaction. It then notes for each record and range where it is before and after
//!    each step. Records evicted from the [`FusionTable`] move home in separate steps at the end of
//!    the batch, so no client waits for them.
//! 3. Each [`Site`] requests the locks of all its steps, in order. A step with all its locks pushes
//!    the rows that this site holds to the executors, and removes the rows that move away.
//! 4. An executor with all rows runs the procedure, writes the records placed at it, and answers.
//!    The order is already durable, so the answer waits for no other write.
//!
//! # Invariants
//!
//! - At each point of the order, every record has exactly one place: its entry in the fusion table,
//!   or else its home. This holds for keys without a row, too. A site holds exactly the rows placed
//!   there.
//! - The result equals that of running the steps of the plans one after the other.
//! - Time, chance and the delivery of messages affect only when a step runs, never its result.
//!
//! # What is left out
//!
//! Files and sockets, which the embedding program provides; lock-free reads at a batch boundary;
//! batches of adaptive size. A router reorders transactions only within a batch. All requests of a
//! batch are concurrent, so reordering does not violate real-time order.

mod clients;
mod locks;
mod message;
mod order;
mod plan;
mod planner;
mod procedure;
mod provision;
mod request;
mod rows;
mod sequencer;
mod site;
mod turns;

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
pub use request::{Abort, Answer, Batch, ClientId, Request};
pub use rows::{MemoryRows, Row, Rows, Writes};
pub use sequencer::{Limits, Sequencer};
pub use site::{ASK_AFTER_NS, Checkpoint, Finished, Input, Output, Site, Task};
pub use turns::{Turn, Turns};
