//! The errors of a database.

use crate::ids::DatabaseId;
use crate::open::CancelReason;
use isomer_design::{Change, Invalid, InvalidStep, RowError, SchemaError, SiteId, TableId};
use isomer_log::{LogError, OpenError, Position};
use isomer_site::{Abort, CheckpointError, Failure, RecoverError, Refusal};
use isomer_store::CONTEXTS_MAX;
use isomer_strategy::{Cause, Refused};
use std::path::PathBuf;

/// Why a transaction did not commit, or a change was not made. Nothing has changed, unless
/// [`Error::is_unknown`] is true.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The strategy refused the transaction.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The procedure ended without a commit.
    #[error(transparent)]
    Abort(#[from] Abort),
    /// The site could not run the transaction.
    #[error(transparent)]
    Failure(Failure),
    /// The change does not fit the design.
    #[error(transparent)]
    Invalid(#[from] Box<Invalid>),
    /// A change of a plan does not fit the design that those before it lead to.
    #[error(transparent)]
    InvalidPlan(#[from] Box<InvalidStep>),
    /// A request about a reconfiguration cannot be carried out.
    #[error("{0}")]
    Reconfiguration(String),
    /// A site refused the change.
    #[error("{change}: {refusal}")]
    Change {
        /// The change.
        change: Box<Change>,
        /// The refusal of the site.
        refusal: Refusal,
    },
    /// A site refused a step that every site must take.
    #[error(transparent)]
    Site(Refusal),
    /// The design kept changing under the transaction.
    #[error(
        "the transaction found its keys elsewhere {0} times in a row; this is a fault of the router"
    )]
    Lost(u32),
    /// A procedure would write to an ordered table, or read one that may have [fused
    /// rows](crate::fusion).
    #[error(
        "table {0} is ordered: only open transactions write to it, or read it once rows may be fused"
    )]
    Ordered(TableId),
    /// A row is said to be fused at a site, and is not there. This is a fault of the database.
    #[error(
        "a row of table {table} is not among the fused rows of site {site}, where it should be"
    )]
    StrayStub {
        /// The table.
        table: TableId,
        /// The site.
        site: SiteId,
    },
    /// The client stopped waiting.
    #[error(
        "the wait was ended{}",
        if *.may_be_written { "; the transaction may have committed, and what it wrote may not be durable" } else { "" }
    )]
    Canceled {
        /// The reason.
        why: CancelReason,
        /// True if it was on its way to its site, or its writes were waiting to become durable.
        may_be_written: bool,
    },
    /// All copies were made after the snapshot was taken.
    #[error("no site has the rows as they were when the snapshot was taken; take a new one")]
    Gone,
    /// The limit of open snapshots is reached.
    #[error("{CONTEXTS_MAX} snapshots are open, which is the limit; try again later")]
    TooManySnapshots,
    /// The gateway has no seat at the conductor, or the transaction began in an earlier one.
    #[error(
        "this process has lost the one with the conductor, and the locks of its transactions; run the transaction again"
    )]
    NoSeat,
    /// The conductor, which is in another process, has refused a request.
    #[error("{0}")]
    AtConductor(String),
    /// A process cannot join the cluster, or leave it.
    #[error("{0}")]
    Node(String),
    /// A table's columns do not fit together.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// A row does not fit its table.
    #[error(transparent)]
    Row(#[from] RowError),
    /// There is no table of this name.
    #[error("there is no table `{name}`; there are: {known}")]
    UnknownTable {
        /// The name.
        name: String,
        /// The tables there are.
        known: String,
    },
    /// A table of this name exists.
    #[error("there is a table `{0}` already")]
    TableExists(String),
    /// The folder cannot be used as a database.
    #[error(transparent)]
    Open(#[from] OpenDatabaseError),
    /// A checkpoint was not made.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}

impl Error {
    /// The kind of reason that it is for a change of the design that was not made.
    pub(crate) fn cause(&self) -> Cause {
        match self {
            Error::Invalid(_) | Error::InvalidPlan(_) | Error::Reconfiguration(_) => Cause::Unfit,
            Error::Change { .. } | Error::Site(_) | Error::Refused(_) => Cause::Site,
            _ => Cause::Failure,
        }
    }

    /// True if the transaction may have committed nevertheless: its site or log failed before it
    /// could answer.
    pub fn is_unknown(&self) -> bool {
        matches!(
            self,
            Error::Failure(Failure::Unknown(_) | Failure::Stopped(_))
                | Error::Canceled { may_be_written: true, .. }
        )
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        match failure {
            Failure::Abort(abort) => Error::Abort(abort),
            Failure::Forgotten { .. } => Error::Gone,
            Failure::SeatEnded(_) => Error::NoSeat,
            failure => Error::Failure(failure),
        }
    }
}

/// Why a folder could not be opened as a database. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenDatabaseError {
    /// The log of the order cannot be opened.
    #[error("the log of the order: {0}")]
    OrderLog(OpenError),
    /// The order does not fit the sites.
    #[error("the order of ordered tables: {0}")]
    Order(String),
    /// The folder, or a file in it, could not be read or written.
    #[error("{path}: {error}")]
    File {
        /// The path.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// The folder contains something else.
    #[error(
        "{path} is not an Isomer database: it has files but no `{expected}`; give an empty folder or a database's"
    )]
    NotADatabase {
        /// The folder.
        path: PathBuf,
        /// The file that every database has.
        expected: &'static str,
    },
    /// Other users can access the folder.
    #[error(
        "others than its owner can use the folder {path}, as its mode is {mode:04o}; see who did, and then: \
         chmod -R go= {path}"
    )]
    OpenToOthers {
        /// The folder.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The folder belongs to a node and a database was expected, or the reverse.
    #[error("{path} is the folder of {is}, and not of {wanted}; give another folder")]
    OtherKind {
        /// The folder.
        path: PathBuf,
        /// The kind of the folder.
        is: &'static str,
        /// The kind that was expected.
        wanted: &'static str,
    },
    /// A node found logs that belong to no database yet.
    #[error(
        "there is no database at {place} yet: the process with the router makes it; start that one with the same --log"
    )]
    NoDatabase {
        /// Where the logs are.
        place: String,
    },
    /// No process can join the database.
    #[error(
        "processes join clusters whose redo logs outlive their processes: with `log = \"nodes\"` in the cluster's file, \
         or logs in Kafka"
    )]
    NoCluster,
    /// Another process cannot take over, or has taken over already.
    #[error(
        "no other process can take over from the one with the router: the logs are in folders, or it was taken already"
    )]
    NotTaken,
    /// The folder of a node has other sites.
    #[error(
        "{path} has the sites {}, and was to have {}; name the sites that it has",
        named(has),
        named(wanted)
    )]
    OtherSites {
        /// The folder.
        path: PathBuf,
        /// Its sites.
        has: Vec<SiteId>,
        /// The sites that were expected.
        wanted: Vec<SiteId>,
    },
    /// No site has some rows that the database had.
    #[error(
        "no site has the rows of {tables}: the site that had them has lost its files. Bring back its folder; or go on \
         without these rows by --accept-loss, and the tables begin anew, empty"
    )]
    LostRows {
        /// The tables and the ranges of their keys.
        tables: String,
    },
    /// A site of the database is neither in its folder nor at a node.
    #[error(
        "site {site} is not in the folder {path}, and no node is said to have it; name the node that has it"
    )]
    NoSite {
        /// The folder.
        path: PathBuf,
        /// The site.
        site: SiteId,
    },
    /// A site is at another process of the folder's cluster, and the options do not say how to
    /// reach that.
    #[error(
        "{path} belongs to a cluster, and site {site} is at another of its processes: open it with the file of the \
         cluster (`serve --config FILE --name NAME`)"
    )]
    OfCluster {
        /// The folder.
        path: PathBuf,
        /// The site.
        site: SiteId,
    },
    /// A site is both in the database's folder and, by the options, at a node.
    #[error(
        "site {site} is in the folder {path}, and a node is said to have it, too; let one of them have it"
    )]
    TwoPlaces {
        /// The folder.
        path: PathBuf,
        /// The site.
        site: SiteId,
    },
    /// Another process has the database open.
    #[error("the database {path} is in use by another process; stop it first")]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The database's logs are not in files of its folder.
    #[error(
        "the redo logs of the database {path} are at {place}: only a server that is told so can open it (isomer serve \
         --log {place})"
    )]
    LogsElsewhere {
        /// The folder.
        path: PathBuf,
        /// Where its logs are.
        place: String,
    },
    /// The database's logs were expected elsewhere, and are in files of its folder.
    #[error("the database {path} has its redo logs in its folder; open it without --log")]
    LogsHere {
        /// The folder.
        path: PathBuf,
    },
    /// Checkpoints are elsewhere by the options, but the logs are not.
    #[error(
        "checkpoints at {place} are for redo logs in Kafka: a log in a folder has its checkpoints beside it; say where Kafka \
         is as well (--log), or leave them in the folder"
    )]
    OnlyCheckpointsElsewhere {
        /// The place in the options.
        place: String,
    },
    /// The store of checkpoints does not answer, or refuses.
    #[error(transparent)]
    Store(isomer_log::CheckpointError),
    /// The store is a different one than that of the process with the router.
    #[error(
        "the checkpoints of database {database} are not at {place}, where the process with the router would have left its mark: \
         mount the folder that all machines reach, or name the same place at all processes"
    )]
    NoMark {
        /// The store.
        place: String,
        /// The database.
        database: DatabaseId,
    },
    /// The logs belong to another database.
    #[error(
        "the redo logs at {place} are those of database {found}, and {path} belongs to database {expected}; name the \
         logs of that one, or an empty folder"
    )]
    OtherDatabase {
        /// Where the logs are.
        place: String,
        /// The database that they belong to.
        found: DatabaseId,
        /// The folder.
        path: PathBuf,
        /// The database that the folder belongs to.
        expected: DatabaseId,
    },
    /// The catalog's log could not be opened or written.
    #[error("the catalog: {0}")]
    CatalogLog(#[source] OpenError),
    /// The catalog cannot be read.
    #[error("{place} is damaged: {what}")]
    Catalog {
        /// The file or log.
        place: String,
        /// The damage.
        what: String,
    },
    /// A site's redo log could not be opened.
    #[error("site {site}: {error}{}", advice(error))]
    Log {
        /// The site.
        site: SiteId,
        /// The error of the log.
        error: OpenError,
    },
    /// A site's redo log is shorter than another site has read it.
    #[error(
        "site {site}: its log ends at position {end:#x}, but site {witness} has read it up to {proven:#x}: \
         commits are lost{ADVICE}"
    )]
    Lost {
        /// The site whose log lost its end.
        site: SiteId,
        /// Where the log ends.
        end: Position,
        /// The position up to which it was durable.
        proven: Position,
        /// The site that has read it.
        witness: SiteId,
    },
    /// A site could not be recovered.
    #[error("site {site}: {error}")]
    Recover {
        /// The site.
        site: SiteId,
        /// The error of the recovery.
        error: RecoverError,
    },
    /// The sites' holdings do not form a database.
    #[error("the sites' recovered partitions do not form a design: {0}")]
    Design(String),
    /// A log failed while the database was assembled.
    #[error(transparent)]
    Redo(#[from] LogError),
    /// A change that was under way when the database stopped could not be completed.
    #[error("a change that was under way could not be completed: {0}")]
    Change(#[from] Refusal),
}

fn named(sites: &[SiteId]) -> String {
    let names: Vec<String> = sites.iter().map(ToString::to_string).collect();
    names.join(" ")
}

/// The way out when commits are lost.
const ADVICE: &str = "; restore the file, or start with --accept-loss to go on without them";

fn advice(error: &OpenError) -> &'static str {
    if error.is_loss() { ADVICE } else { "" }
}
