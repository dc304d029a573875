//! Errors of a site. Each enum answers one question of the caller.

use crate::full::Full;
use isomer_design::{Item, KEY_BYTES_MAX, Key, SiteId, Span, TableId, Time};
use isomer_log::LogError;
use serde::{Deserialize, Serialize};

/// Why a transaction did not run, or its outcome is unknown. See [`Failure::is_stale_route`].
#[derive(Clone, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum Failure {
    /// The site holds no copy of a key of the footprint.
    #[error("site {site} holds no copy of {item}; route the transaction to a site that does")]
    NotHere {
        /// The site.
        site: SiteId,
        /// The item of the footprint.
        item: Box<Item>,
    },
    /// The site holds only a replica of a key to write.
    #[error("site {site} is not the master of {item}; route the transaction to the master")]
    NotMaster {
        /// The site.
        site: SiteId,
        /// The item of the footprint.
        item: Box<Item>,
    },
    /// The procedure ended with an error, or broke a rule of procedures; nothing was written.
    #[error(transparent)]
    Abort(#[from] Abort),
    /// The redo log refused the transaction; nothing was written.
    #[error("nothing was written, as the redo log refused the transaction: {0}")]
    Log(#[from] LogError),
    /// The commit was logged, but the log failed before the commit was known to be durable.
    #[error("the outcome is unknown, as the redo log failed while the commit was written: {0}")]
    Unknown(LogError),
    /// A participant failed or refused; nothing was written.
    #[error("site {0} did not do its part, so nothing was written anywhere; try again")]
    Participant(SiteId),
    /// Too many transactions are open at the site.
    #[error("site {site} has {limit} transactions open, which is the limit; try again later")]
    Overloaded {
        /// The site.
        site: SiteId,
        /// The limit.
        limit: usize,
    },
    /// The writes exceed the site's memory limit; nothing was written.
    #[error(transparent)]
    Full(#[from] Full),
    /// The site no longer has the versions of a time.
    #[error("site {site} no longer has what was there at {at}; take a new snapshot")]
    Forgotten {
        /// The site.
        site: SiteId,
        /// The time.
        at: Time,
    },
    /// The site has stopped.
    #[error("site {0} is not running")]
    Stopped(SiteId),
    /// The request cannot be sent to another process, or is unknown there; nothing was done.
    #[error("site {site} was not asked: {why}")]
    NotAsked {
        /// The site.
        site: SiteId,
        /// The cause, and the way out.
        why: String,
    },
    /// The site's process cannot be reached; nothing was done.
    #[error("site {site} cannot be reached, so nothing was done: {why}")]
    Unreachable {
        /// The site.
        site: SiteId,
        /// The address of its process, and the result of the attempt.
        why: String,
    },
    /// The seat of the gateway has ended ([`Admission`](crate::Admission)); nothing was written.
    #[error(
        "site {0} has refused the commit of a process that the one with the conductor has not heard of for long; \
         nothing was written"
    )]
    SeatEnded(SiteId),
    /// The site's process has no seat ([`Admission`](crate::Admission)); nothing was written.
    #[error(
        "the process of site {0} does not reach the one with the conductor, so nothing was written; try again"
    )]
    Unseated(SiteId),
}

impl Failure {
    /// True if another attempt may succeed: another route, because the design has changed or
    /// another copy has older versions; or a bit later, because the site's process has no seat.
    pub fn is_stale_route(&self) -> bool {
        use Failure::{Forgotten, NotHere, NotMaster, Unseated};
        matches!(self, NotHere { .. } | NotMaster { .. } | Forgotten { .. } | Unseated(_))
    }
}

/// Why a procedure ended without a commit. It has had no effect.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum Abort {
    /// A key or range outside the footprint was used.
    #[error("{what} is outside the transaction's footprint ({footprint}); add it to the footprint")]
    OutsideFootprint {
        /// The access.
        what: String,
        /// The declared footprint.
        footprint: String,
    },
    /// A row that was to be inserted exists.
    #[error("duplicate key: table {table} has a row with key {key} already")]
    DuplicateKey {
        /// The table.
        table: TableId,
        /// The key.
        key: Key,
    },
    /// A key is too long.
    #[error("the key is {bytes} bytes long; at most {KEY_BYTES_MAX} are allowed")]
    KeyTooLong {
        /// Its length.
        bytes: usize,
    },
    /// A row has another version than expected.
    #[error("row {key} of table {table} was changed by another transaction meanwhile")]
    Changed {
        /// The table.
        table: TableId,
        /// The key.
        key: Key,
    },
    /// A procedure of this name does not exist.
    #[error("there is no procedure `{name}`; there are: {known}")]
    UnknownProcedure {
        /// Its name.
        name: String,
        /// The names of all procedures.
        known: String,
    },
    /// The procedure chose to end without a commit.
    #[error("{0}")]
    Rolled(String),
    /// The read set of a serializable transaction has changed.
    #[error(
        "what was read of table {table} at {span} was changed by another transaction meanwhile"
    )]
    ReadChanged {
        /// The table.
        table: TableId,
        /// The changed row; if rows were deleted, the span in which they were read.
        span: Span,
    },
}

impl Abort {
    /// The procedure's own reason not to commit.
    pub fn because(reason: impl Into<String>) -> Abort {
        Abort::Rolled(reason.into())
    }
}

/// Why a site refused a step of a design change. Nothing has changed.
#[derive(Clone, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum Refusal {
    /// There is no such table at the site.
    #[error("site {site} has no table {table}")]
    NoTable {
        /// The site.
        site: SiteId,
        /// The table.
        table: TableId,
    },
    /// No partition that the site masters begins at the key.
    #[error("site {site} masters no partition of {table} that {wanted}")]
    NoPartition {
        /// The site.
        site: SiteId,
        /// The table.
        table: TableId,
        /// The required property.
        wanted: String,
    },
    /// The change does not fit the state of the partition.
    #[error("partition {table}{range} at site {site}: {why}")]
    Unfit {
        /// The site.
        site: SiteId,
        /// The table.
        table: TableId,
        /// The partition.
        range: String,
        /// The cause, and the way out.
        why: String,
    },
    /// The redo log refused the change.
    #[error("nothing was changed, as the redo log refused the change: {0}")]
    Log(#[from] LogError),
    /// The new replica exceeds the site's memory limit.
    #[error(transparent)]
    Full(#[from] Full),
    /// The site has stopped, or has too many open transactions.
    #[error("site {0} cannot take part in the change now")]
    Unavailable(SiteId),
    /// The step is unknown in the site's process; nothing was done.
    #[error("site {site} was not asked: {why}")]
    NotAsked {
        /// The site.
        site: SiteId,
        /// The cause, and the way out.
        why: String,
    },
}
