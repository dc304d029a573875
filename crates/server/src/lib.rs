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
//! | module | contents |
//! | --- | --- |
//! | [`server`](Server) | a thread per client |
//! | `strangers`, `clients`, `guesses` | connections before and after login; login throttling |
//! | `listener`, `socket` | TCP addresses and Unix sockets |
//! | [`passage`](Passage) | the proxy of a process without a router |
//! | `startup`, `connection` | login; messages from a stream of bytes |
//! | `wire` | messages as bytes |
//! | `session` | prepared statements, portals, the state of the transaction |
//! | `settings`, `copy` | SET and SHOW; COPY |
//! | `size` | sizes in PostgreSQL's notation |
//! | `activity` | the activity of sessions, for `pg_stat_activity` and the log |
//! | `liveness` | detection of clients that are no longer there |
//! | `limits`, `process` | limits on time and memory; limits of the process |
//! | `stream`, `scram`, `users` | TLS, SCRAM-SHA-256, users and superusers |
//! | [`engine`](Engine) | shared state: the catalog, sequences, compiled statements |
//! | `draft` | definitions in a transaction: the pending catalog |
//! | `ddl`, `indexes`, `alter` | CREATE and DROP of tables; of indexes; ALTER |
//! | `reshard` | ALTER TABLE .. SHARD BY: another layout of a table while it is in use |
//! | `sequences` | definitions of sequences and identity columns |
//! | `numbers` | advisory locks at session level |
//! | `foreign`, `deferred` | definitions of foreign keys; deferred checks |
//! | `views`, `dependents` | definitions of views; dependents of dropped objects |
//! | `snapshots` | snapshots that transactions share |
//! | `design`, `autopilot`, `pilot`, `reconfigure` | the design in SQL, and its strategy |
//! | `steering`, `proposals`, `heat` | proposals for operators, the heat map |
//! | `chronicle`, `audit`, `shapes` | histories on disk, the audit trail, statements by shape |
//! | `backend` | the transaction that statements run in |
//! | `figures`, `scrape` | metrics, for `isomer.metrics` and Prometheus |

mod activity;
mod alter;
mod analyze;
mod audit;
mod autopilot;
mod backend;
mod chronicle;
mod clients;
mod connection;
mod copy;
mod ddl;
mod deadlock;
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
mod heat;
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
mod proposals;
mod reconfigure;
mod reshard;
mod rights;
mod schemas;
mod scram;
mod scrape;
mod sequences;
mod server;
mod session;
mod settings;
mod shapes;
mod size;
mod snapshots;
mod socket;
mod startup;
mod steering;
mod strangers;
mod stream;
mod temporary;
mod users;
mod views;
mod wire;

pub use engine::{Engine, Source};
pub use figures::{Figure, FigureValue};
pub use options::{ServerOptions, Trust};
pub use passage::{Passage, PassageOptions};
pub use pilot::Decider;
pub use process::{make_private_files, places, raise_limit, use_small_pages};
pub use server::Server;
pub use size::{read_site_memory, show_site_memory};
pub use stream::{Tls, check_secret};
