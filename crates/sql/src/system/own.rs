//! The views of the schema `isomer` as relations of the catalog, with comments on each view and
//! column.
//!
//! ```text
//!   pg_extension   isomer ◀── deptype e ── pg_namespace   isomer
//!                         ◀── deptype e ── pg_class       sites, partitions, ..
//! ```
//!
//! **Members of an extension**: `pg_dump` and tools that compare schemas leave the members of an
//! extension out. So psql finds the views, and no dump contains them. The extension is part of each
//! database, as `plpgsql` is in PostgreSQL, and cannot be dropped.
//!
//! Left out: comments on the views of `pg_catalog` and `information_schema`, and those views as
//! rows of `pg_class`.

use super::rows::{attribute, class};
use super::tables::{Definition, TABLES};
use super::{FIRST_VIEW, int, text, yes};
use crate::catalog::Name;
use crate::datum::Datum;

/// The name of the schema, and of the extension.
pub(crate) const ISOMER: &str = "isomer";
/// The oid of the schema.
pub(super) const ISOMER_OID: i64 = 11_001;
/// The oid of the extension.
const EXTENSION: i64 = 11_002;
/// The version of the extension, a number for tools that ask.
const VERSION: &str = "1.0";
/// The comment on the schema and on the extension.
const ABOUT: &str = "views of the physical design and of the server";

/// A view: its oid, its columns, and its comments.
pub(crate) struct OwnView {
    pub(super) oid: i64,
    pub(super) of: &'static Definition,
    comment: &'static str,
    columns: &'static [&'static str],
}

impl OwnView {
    /// Its full name.
    pub(super) fn name(&self) -> Name {
        Name { schema: ISOMER.to_owned(), name: self.of.name.to_owned() }
    }
}

/// All views of the schema.
pub(super) fn views() -> impl Iterator<Item = OwnView> {
    let own = TABLES.iter().enumerate().filter(|(_, table)| table.schema == ISOMER);
    own.map(|(at, of)| {
        let found = COMMENTS.iter().find(|(name, ..)| *name == of.name);
        let (_, comment, columns) = found.copied().unwrap_or((of.name, "", &[]));
        OwnView { oid: FIRST_VIEW + at as i64, of, comment, columns }
    })
}

/// The view with an oid.
pub(crate) fn numbered(oid: i64) -> Option<OwnView> {
    views().find(|view| view.oid == oid)
}

/// The comment on a view, with column 0, or on one of its columns.
pub(crate) fn comment(oid: i64, column: i64) -> Option<&'static str> {
    match (oid, column) {
        (ISOMER_OID | EXTENSION, 0) => Some(ABOUT),
        (_, 0) => Some(numbered(oid)?.comment),
        _ => numbered(oid)?.columns.get(usize::try_from(column - 1).ok()?).copied(),
    }
}

/// The rows of `pg_class`.
pub(super) fn classes() -> impl Iterator<Item = Vec<Datum>> {
    views().map(|view| {
        let mut row = class(view.oid, view.of.name, "v", 0, view.of.columns.len(), false);
        row[2] = int(ISOMER_OID);
        row
    })
}

/// The rows of `pg_attribute`.
pub(super) fn attributes() -> impl Iterator<Item = Vec<Datum>> {
    views().flat_map(|view| {
        let columns = view.of.columns.iter().enumerate();
        columns
            .map(move |(at, (name, ty))| attribute(view.oid, at + 1, name, *ty, (false, false, "")))
    })
}

/// The row of `pg_extension`.
pub(super) fn extension() -> Vec<Datum> {
    let numbers = [EXTENSION, super::OWNER, ISOMER_OID].map(int);
    let [oid, owner, schema] = numbers;
    vec![oid, text(ISOMER), owner, schema, yes(false), text(VERSION), Datum::Null, Datum::Null]
}

/// The rows of `pg_depend`: the schema and the views are members of the extension. The arguments
/// are the oids of `pg_class`, `pg_namespace` and `pg_extension`.
pub(super) fn dependencies([class, namespace, extension]: [i64; 3]) -> Vec<Vec<Datum>> {
    let row = |(of, oid): (i64, i64)| {
        let [of, oid, zero, to, member] = [of, oid, 0, extension, EXTENSION].map(int);
        vec![of, oid, zero.clone(), to, member, zero, text("e")]
    };
    let members = views().map(|view| (class, view.oid));
    std::iter::once((namespace, ISOMER_OID)).chain(members).map(row).collect()
}

/// The rows of `pg_description`, with the same arguments.
pub(super) fn descriptions([class, namespace, extension]: [i64; 3]) -> Vec<Vec<Datum>> {
    let row = |oid, of, column, comment| vec![int(oid), int(of), int(column), Datum::text(comment)];
    let mut rows = vec![row(ISOMER_OID, namespace, 0, ABOUT), row(EXTENSION, extension, 0, ABOUT)];
    for view in views() {
        rows.push(row(view.oid, class, 0, view.comment));
        let columns = view.columns.iter().zip(1..);
        rows.extend(columns.map(|(comment, number)| row(view.oid, class, number, comment)));
    }
    rows
}

/// The name of each view, its comment, and the comments on its columns in their order.
static COMMENTS: &[(&str, &str, &[&str])] = &[
    (
        "tables",
        "Tables, and where they are.",
        &[
            "name, with the schema if it is not public",
            "number of partitions",
            "sites that master partitions",
            "number of columns",
            "number of indexes",
            "backups that each commit waits for",
            "columns that rows are placed by, if they are not the primary key",
            "\"ordered\" if a total order serializes its transactions",
            "mode of the autopilot for it, if it has one of its own",
        ],
    ),
    (
        "partitions",
        "Partitions of tables and indexes: key ranges, and the sites that hold them.",
        &[
            "table or index",
            "first key; empty for the lowest",
            "first key behind the partition; NULL for the last partition",
            "site that takes writes",
            "sites with replicas",
            "true if strategies leave it where it is",
            "rows that have moved to other sites; NULL if transactions on it are not ordered, or a site with such rows cannot be asked",
        ],
    ),
    (
        "fused",
        "Rows of ordered tables that are at another site than their partition.",
        &["table", "key of the row", "site of its partition", "site that has the row now"],
    ),
    (
        "order_hashes",
        "Copies of ordered tables as of one time, which is the boundary of a batch. Those of a partition have the same hash. \
         A query of this view reads all their rows.",
        &[
            "table or index; isomer_fused has the rows that have moved",
            "first key; empty for the lowest",
            "site of the copy",
            "true if the site is the master",
            "number of rows",
            "hash of keys, rows and versions; NULL if the site cannot be asked",
        ],
    ),
    (
        "sites",
        "Sites, with their load, memory and logs.",
        &[
            "name",
            "partitions that it masters",
            "partitions that it replicates",
            "memory of rows and indexes",
            "limit of that memory; NULL without a limit",
            "share of a processor that work at the site takes",
            "frames appended to the redo log; NULL for a site of another process",
            "bytes appended to the redo log; NULL for a site of another process",
            "commits of this gateway at this site only",
            "commits of this gateway over several sites that this site coordinated",
            "\"ok\", or the trouble",
            "zone of its process",
        ],
    ),
    (
        "checkpoints",
        "Checkpoints of the sites of this process.",
        &[
            "site",
            "true while a checkpoint is made",
            "bytes of it that are written",
            "begin of the last checkpoint",
            "end of the last checkpoint",
            "duration of the last checkpoint",
            "size of the last checkpoint",
            "bytes of the redo log since the last checkpoint",
            "bytes of the redo log that a restart would read",
            "error of the last attempt",
        ],
    ),
    (
        "changes",
        "Changes of the design that were made, the newest last.",
        &[
            "number",
            "change",
            "reason for it",
            "duration in microseconds",
            "time of its end",
            "table or index",
            "first key of the partition",
        ],
    ),
    (
        "decisions",
        "Decisions of the autopilot, with reasons and effects.",
        &[
            "number",
            "event that led to it",
            "transactions that it was made for",
            "number of changes",
            "first change",
            "reason",
            "outcome",
            "expected saving for each transaction that uses the changed partitions, in microseconds",
            "measured saving for each of them, in microseconds",
            "their latency before, in microseconds",
            "their latency after, in microseconds",
            "one-off cost of the changes, in microseconds",
            "decision that took it back",
            "alternatives, and why they were not chosen",
            "time",
        ],
    ),
    (
        "proposals",
        "Plans that wait for an operator, and those that were decided.",
        &[
            "number, for APPROVE and REJECT",
            "\"proposed\", or what has become of it",
            "time of the proposal",
            "end of its validity",
            "reason for it",
            "number of changes",
            "changes, one in each line",
            "expected saving, in microseconds for each second",
            "expected cost, in microseconds",
            "time of the decision",
            "role that decided",
            "reason that the role gave",
            "result of the attempt to carry it out",
            "number in isomer.reconfigurations",
            "number in isomer.decisions",
            "role that proposed it; NULL for the autopilot",
            "sampled transactions of the minute before the approval",
            "share of these at one site, in percent",
            "mean of their durations, in microseconds",
            "99th percentile of their durations, in microseconds",
            "sampled transactions of the minute after the last change",
            "share of these at one site, in percent",
            "mean of their durations, in microseconds",
            "99th percentile of their durations, in microseconds",
        ],
    ),
    (
        "heat",
        "Reads and writes of key ranges over the last hour.",
        &[
            "table or index",
            "first key of the range",
            "first key behind the range",
            "first key of the partition",
            "master of the partition",
            "begin of the first interval",
            "length of an interval in seconds",
            "rows read in each interval",
            "rows written in each interval",
        ],
    ),
    (
        "statements",
        "Shapes of statements of this gateway, the most expensive first.",
        &[
            "text, with ? for literals",
            "number of executions",
            "number of errors",
            "sum of durations in milliseconds",
            "mean duration in milliseconds",
            "longest duration in milliseconds",
            "commits of transactions with such a statement",
            "share of these commits at one site, in percent",
            "site or sites of the last commit",
            "time of the last execution",
            "shortest duration in milliseconds",
            "rows returned or changed",
            "rows of a recent commit over several sites, one of each site",
            "ended transactions with such a statement",
            "mean number of sites that these have read from",
            "rows that these got from other processes",
        ],
    ),
    (
        "all_statements",
        "Shapes of statements of all gateways, the most expensive first.",
        &[
            "text, with ? for literals",
            "number of executions",
            "number of errors",
            "sum of durations in milliseconds",
            "mean duration in milliseconds",
            "longest duration in milliseconds",
            "commits of transactions with such a statement",
            "share of these commits at one site, in percent",
            "site or sites of the last commit",
            "time of the last execution",
            "shortest duration in milliseconds",
            "rows returned or changed",
            "rows of a recent commit over several sites, one of each site",
            "ended transactions with such a statement",
            "mean number of sites that these have read from",
            "rows that these got from other processes",
        ],
    ),
    (
        "copies",
        "Copies of partitions at sites. A query of this view reads all rows to count them.",
        &[
            "table or index",
            "first key; empty for the lowest",
            "first key behind the partition; NULL for the last partition",
            "site of the copy",
            "true if the site is the master",
            "number of rows",
            "bytes of keys and rows",
            "time since which a replica may lack commits, in milliseconds; NULL at the master",
            "rows read in each second of the last minute, estimated; NULL at replicas",
            "rows written in each second of the last minute, estimated; NULL at replicas",
        ],
    ),
    (
        "settings",
        "Settings of the whole database, which ALTER SYSTEM SET changes.",
        &["name", "value", "meaning"],
    ),
    (
        "gateways",
        "Processes that run SQL, as the process with the conductor sees them.",
        &[
            "process; NULL if there is only one",
            "true for the process with the conductor",
            "time since its last message, in milliseconds",
            "changes of the design that it has not acknowledged",
            "transactions that wait for locks",
            "transactions that it sent to a site without their rows",
        ],
    ),
    ("failovers", "Sites that failed, and what followed.", &["time", "site", "event"]),
    (
        "audit",
        "Actions of operators.",
        &[
            "time",
            "user",
            "address of the client",
            "statement, without secrets",
            "\"ok\", or the error",
        ],
    ),
    (
        "reconfigurations",
        "Plans that operators started.",
        &[
            "number, for PAUSE, RESUME, CANCEL and REVERSE",
            "reason",
            "state",
            "number of changes",
            "changes that are made",
            "rows copied",
            "next change",
            "begin",
            "end",
            "error that ended it",
            "changes, one in each line",
            "bytes copied",
            "expected end, by the pace so far",
            "99th percentile of transactions in the minute before, in microseconds",
            "99th percentile of transactions since the begin, in microseconds",
            "true if REVERSE RECONFIGURATION can take it back",
        ],
    ),
    (
        "jobs",
        "Changes of the design that are being made.",
        &["change", "reason", "state", "time since its begin, in microseconds"],
    ),
    (
        "benefit",
        "Accuracy of the forecasts of the autopilot.",
        &[
            "number of decisions",
            "decisions whose effect was measured",
            "median error of the forecasts, in percent",
            "share of decisions that brought what was expected, in percent",
            "share of decisions that were taken back, in percent",
        ],
    ),
    (
        "autopilot",
        "State of the autopilot.",
        &[
            "strategy",
            "\"off\", \"recommend\", \"approve\" or \"auto\"",
            "limit of its processor time, in percent of a core",
            "its processor time, in percent of a core",
            "its processor time since the start, in milliseconds",
            "planning passes",
            "transactions in its samples",
        ],
    ),
    (
        "all_metrics",
        "Metrics of all processes that run SQL.",
        &[
            "process; NULL if there is only one",
            "name",
            "labels",
            "kind: counter, gauge or histogram",
            "value",
            "meaning",
        ],
    ),
    (
        "metrics",
        "Metrics of this process, as at /metrics.",
        &["name", "labels", "kind: counter, gauge or histogram", "value", "meaning"],
    ),
    (
        "advice",
        "Plans for what ran lately, the best first. A query of this view makes them.",
        &[
            "planner",
            "recent transactions that were looked at",
            "time from the first of them to the last",
            "share of the later ones over several sites, in percent",
            "the same after the plan",
            "accesses of the site with the most, in multiples of the mean",
            "the same after the plan",
            "number of changes",
            "changes, one in each line, for ALTER SYSTEM PROPOSE",
            "remarks",
        ],
    ),
    (
        "shard_keys",
        "Columns as shard keys for what ran lately, the best first. A query of this view reads rows.",
        &[
            "table",
            "column",
            "true if the table is distributed by it now",
            "recent transactions that were looked at",
            "accesses to rows",
            "number of values",
            "share of accesses to the most frequent value, in percent",
            "0 if values come in any order, 1 if each new value is the highest",
            "share of transactions whose rows would be at one site, in percent",
            "accesses of the site with the most, in multiples of the mean",
            "share of accesses whose rows would move, in percent",
            "score, from 0 to 1",
            "statement that changes the shard key; NULL for the current one",
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_view_and_each_column_has_a_comment() {
        for view in views() {
            assert!(!view.comment.is_empty(), "isomer.{} has no comment", view.of.name);
            let (columns, name) = (view.of.columns.len(), view.of.name);
            assert_eq!(view.columns.len(), columns, "comments on the columns of isomer.{name}");
        }
        assert_eq!(COMMENTS.len(), views().count(), "each comment is of a view");
    }
}
