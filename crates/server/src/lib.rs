//! Isomer as a server that PostgreSQL's clients connect to.
//!
//! ```text
//!   psql, pgbench, drivers ──socket──▶ Server ──▶ Session ──▶ isomer-sql ──▶ plan
//!                                                   │                         │
//!                                                   └──▶ Backend ◀── get, scan, lock, put
//!                                                           │
//!                                                isomer-cluster: open transactions, sites
//! ```
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`server`](Server) | a thread per client |
//! | `strangers`, `clients`, `guesses` | who may log in at a time, who has; how often a password is guessed |
//! | `listener`, `socket` | what clients connect to: TCP, or a file of this machine |
//! | [`passage`](Passage) | clients of a process without a router, passed on to the one that has it |
//! | `startup`, `connection` | who a client is; messages out of its stream |
//! | `wire` | messages as bytes |
//! | `session` | prepared statements, portals, the state of the transaction |
//! | `settings`, `copy` | SET and SHOW; COPY |
//! | `size` | sizes, as PostgreSQL writes them |
//! | `activity` | what sessions do, for `pg_stat_activity` and the log |
//! | `liveness` | whether a client that says nothing is still there |
//! | `limits`, `process` | limits on time; on clients, by what the system has for them |
//! | `stream`, `scram`, `users` | encryption (TLS), passwords (SCRAM-SHA-256), who has one, superusers |
//! | [`engine`](Engine) | what sessions share: the catalog, sequences, compiled statements |
//! | `draft` | definitions in a transaction: the catalog as it will be, if it commits |
//! | `ddl`, `indexes`, `alter` | CREATE and DROP of tables; of indexes; ALTER |
//! | `reshard` | ALTER TABLE .. SHARD BY: a table's rows in another order, while they are used |
//! | `sequences` | definitions of sequences and identity columns |
//! | `foreign`, `deferred` | definitions of foreign keys; checks that are put off until the commit |
//! | `views`, `dependents` | definitions of views; what hangs on what is dropped |
//! | `design`, `autopilot`, `pilot`, `reconfigure` | the design in SQL, and who changes it |
//! | `backend` | the transaction that statements run in |
//! | `figures` | counts and levels, for `isomer.metrics` and for Prometheus |

mod activity;
mod alter;
mod autopilot;
mod backend;
mod clients;
mod connection;
mod copy;
mod ddl;
mod deferred;
mod dependents;
mod design;
mod domains;
mod draft;
mod engine;
mod enums;
mod explain;
mod figures;
mod foreign;
mod grants;
mod guesses;
mod indexes;
mod limits;
mod listener;
mod liveness;
mod members;
mod numbers;
mod options;
mod passage;
mod pilot;
mod process;
mod reconfigure;
mod reshard;
mod rights;
mod schemas;
mod scram;
mod sequences;
mod server;
mod session;
mod settings;
mod size;
mod socket;
mod startup;
mod strangers;
mod stream;
mod temporary;
mod users;
mod views;
mod wire;

pub use engine::Engine;
pub use figures::{Figure, FigureValue};
pub use options::{ServerOptions, Trust};
pub use passage::{Passage, PassageOptions};
pub use pilot::Decider;
pub use process::{make_private_files, places, raise_limit, use_small_pages};
pub use server::Server;
pub use size::{read_site_memory, show_site_memory};
pub use stream::{Tls, check_secret};
