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
//! | `activity`, `visits` | sessions for `pg_stat_activity` and the log; connections in the log |
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
//! | `procedures` | definitions of procedures |
//! | `views`, `dependents` | definitions of views; dependents of dropped objects |
//! | `snapshots` | snapshots that transactions share |
//! | `design`, `autopilot`, `pilot`, `reconfigure` | the design in SQL, and its strategy |
//! | `steering`, `proposals`, `heat` | proposals for operators, the heat map |
//! | `restraints`, `system_settings` | what strategies may do; settings of the whole database |
//! | `conducted` | views and statements that the conductor's process answers |
//! | `everywhere`, `sums` | the sessions of all gateways; sums of their counts |
//! | `histories`, `history_table`, `chronicle`, `remembered`, `audit` | histories in a table of the database; the audit trail |
//! | `shapes`, `tally`, `copies` | statements by shape; counts of rows; copies of partitions |
//! | `analyze`, `autoanalyze` | statistics of tables, also by themselves |
//! | `backend` | the transaction that statements run in |
//! | `figures`, `scrape`, `loads` | metrics, for `isomer.metrics`, Prometheus and graphs |
//!
//! **Left out.** The server refuses these statements with 0A000. A test runs each of them, in a
//! database with a table `t (a int, b text)` and a view `v` of it.
//!
//! | statement | stands for |
//! | --- | --- |
//! | `CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'select 1'` | functions, DO |
//! | `CREATE PROCEDURE p(OUT a int) LANGUAGE sql AS 'select 1'` | results of procedures |
//! | `CREATE PROCEDURE p() LANGUAGE plpgsql AS 'begin end'` | languages other than SQL |
//! | `CREATE PROCEDURE p() LANGUAGE sql AS 'commit'` | definitions and transaction control in procedures |
//! | `CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()` | triggers, rules |
//! | `CREATE EXTENSION hstore` | extensions |
//! | `CREATE MATERIALIZED VIEW mv AS SELECT 1` | materialized views |
//! | `INSERT INTO v VALUES (1)` | writes to views |
//! | `CREATE TABLE c () INHERITS (t)` | inheritance |
//! | `CREATE TABLE p (a int) PARTITION BY RANGE (a)` | PostgreSQL's partitions: tables are split by the design |
//! | `CREATE POLICY po ON t USING (true)` | policies for rows |
//! | `GRANT USAGE ON TYPE int TO public` | rights on types |
//! | `CREATE DATABASE d` | several databases |
//! | `LISTEN c` | LISTEN, NOTIFY |
//! | `CREATE TYPE ty AS (a int)` | composite types |
//! | `SELECT jsonb_path_query('"1"', '$.datetime()')` | times in paths of SQL/JSON |
//! | `CREATE INDEX ON t USING gin (b)` | indexes other than B-trees |
//! | `CREATE INDEX ON t (a) INCLUDE (b)` | columns of an index that are no keys |
//! | `ALTER TABLE t ADD EXCLUDE USING gist (a WITH =)` | exclusion constraints |
//! | `ALTER TABLE t ADD CHECK (a > 0) NOT VALID` | constraints that are not validated |
//! | `CREATE COLLATION co (locale = 'C')` | collations |
//! | `ALTER TABLE t ADD UNIQUE (a) DEFERRABLE` | keys that are checked at commit |
//! | `UPDATE t SET a = 1 WHERE CURRENT OF c` | changes at a cursor |
//! | `SELECT a FROM t GROUP BY DISTINCT ROLLUP (a), ROLLUP (a)` | GROUP BY DISTINCT |
//! | `MERGE INTO t USING (t JOIN t s ON true) ON true WHEN MATCHED THEN DELETE` | MERGE of a join |
//! | `SELECT '1.1.1.1'::inet` | network types, money, geometric types, xml |
//! | `COPY t FROM '/tmp/x'` | COPY of the server's files |
//! | `REINDEX TABLE t` | REINDEX, CLUSTER |

mod activity;
mod advice;
mod alter;
mod analyze;
mod audit;
mod autoanalyze;
mod autopilot;
mod backend;
mod cells;
mod chronicle;
mod clients;
mod conducted;
mod connection;
mod copies;
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
mod everywhere;
mod explain;
mod figures;
mod foreign;
mod grants;
mod guesses;
mod guests;
mod heat;
mod histories;
mod history_table;
mod indexes;
mod limits;
mod listener;
mod liveness;
mod loads;
mod members;
mod numbers;
mod options;
mod passage;
mod pilot;
mod plan_names;
mod procedures;
mod process;
mod processes;
mod proposals;
mod recent;
mod reconfigure;
mod remembered;
mod reshard;
mod restart;
mod restraints;
mod rights;
mod running;
mod schemas;
mod scram;
mod scrape;
mod sequences;
mod server;
mod session;
mod settings;
mod shapes;
mod shipping;
mod size;
mod snapshots;
mod socket;
mod startup;
mod steering;
mod strangers;
mod stream;
mod sums;
mod system_settings;
mod tally;
mod temporary;
mod users;
mod views;
mod visits;
mod wire;

pub use chronicle::Noted;
pub use engine::{Engine, Source, take_over};
pub use figures::{Figure, FigureValue};
pub use histories::{Historian, note_events, write_history};
pub use loads::{Load, SiteLevels};
pub use options::{ServerOptions, Trust};
pub use passage::{Passage, PassageOptions, Traffic};
pub use pilot::Decider;
pub use process::{make_private_files, places, raise_limit, use_small_pages};
pub use processes::Restarts;
pub use restart::let_restart;
pub use scrape::trouble;
pub use server::Server;
pub use size::{read_site_memory, show_site_memory};
pub use stream::{Tls, check_secret};
