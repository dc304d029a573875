//! Why the database did not do what it was asked.

use crate::ids::DatabaseId;
use crate::open::CancelReason;
use isomer_design::{Change, Invalid, InvalidStep, RowError, SchemaError, SiteId};
use isomer_log::{LogError, OpenError, Position};
use isomer_site::{Abort, CheckpointError, Failure, RecoverError, Refusal};
use isomer_store::CONTEXTS_MAX;
use isomer_strategy::Refused;
use std::path::PathBuf;

/// Why a transaction did not commit, or a change was not made. Nothing has changed, except where
/// [`Error::is_unknown`] says that it is not known.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The strategy lets the transaction run nowhere.
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
    /// What was asked of a reconfiguration cannot be done.
    #[error("{0}")]
    Reconfiguration(String),
    /// A site refused the change.
    #[error("{change}: {refusal}")]
    Change {
        /// The change.
        change: Box<Change>,
        /// What the site said.
        refusal: Refusal,
    },
    /// A site refused what every site must know.
    #[error(transparent)]
    Site(Refusal),
    /// The design kept changing under the transaction.
    #[error(
        "the transaction found its keys elsewhere {0} times in a row; this is a fault of the router"
    )]
    Lost(u32),
    /// The client waits no longer.
    #[error(
        "the wait was ended{}",
        if *.may_be_written { "; the transaction may have committed, and what it wrote may not be durable" } else { "" }
    )]
    Canceled {
        /// Why.
        why: CancelReason,
        /// It was on its way to its site, or waited for what it had written to be durable.
        may_be_written: bool,
    },
    /// A snapshot was taken before the copies that are there now were made.
    #[error("no site has the rows as they were when the snapshot was taken; take a new one")]
    Gone,
    /// More snapshots are open than can be.
    #[error("{CONTEXTS_MAX} snapshots are open, which is the limit; try again later")]
    TooManySnapshots,
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
    /// True if the transaction may have committed all the same: its site or log failed before it
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
            failure => Error::Failure(failure),
        }
    }
}

/// Why a folder could not be opened as a database. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenDatabaseError {
    /// The folder, or a file in it, could not be read or written.
    #[error("{path}: {error}")]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The folder holds something else.
    #[error(
        "{path} is not an Isomer database: it has files but no `{expected}`; give an empty folder or a database's"
    )]
    NotADatabase {
        /// The folder.
        path: PathBuf,
        /// The file that every database has.
        expected: &'static str,
    },
    /// Others than its owner can use the folder.
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
    /// The folder is that of a node, and was to be a database's; or the other way round.
    #[error("{path} is the folder of {is}, and not of {wanted}; give another folder")]
    OtherKind {
        /// The folder.
        path: PathBuf,
        /// What it is.
        is: &'static str,
        /// What it was to be.
        wanted: &'static str,
    },
    /// A node came to logs that are nobody's yet.
    #[error(
        "there is no database at {place} yet: the process with the router makes it; start that one with the same --log"
    )]
    NoDatabase {
        /// Where the logs are.
        place: String,
    },
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
        /// Those that were asked for.
        wanted: Vec<SiteId>,
    },
    /// No site has rows that the database had.
    #[error(
        "no site has the rows of {tables}: the site that had them has lost its files. Bring back its folder; or go on \
         without these rows by --accept-loss, and the tables begin anew, empty"
    )]
    LostRows {
        /// Which tables, and which of their keys.
        tables: String,
    },
    /// A site that the database has is neither in its folder nor at a node.
    #[error(
        "site {site} is not in the folder {path}, and no node is said to have it; name the node that has it"
    )]
    NoSite {
        /// The folder.
        path: PathBuf,
        /// The site.
        site: SiteId,
    },
    /// A site is at another process of the folder's cluster, and nothing says how to reach that.
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
    /// A site is in the database's folder, and a node is said to have it.
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
    /// The database's logs were to be elsewhere, and are in files of its folder.
    #[error("the database {path} has its redo logs in its folder; open it without --log")]
    LogsHere {
        /// The folder.
        path: PathBuf,
    },
    /// Checkpoints were to be elsewhere, and the logs are not.
    #[error(
        "checkpoints at {place} are for redo logs in Kafka: a log in a folder has its checkpoints beside it; say where Kafka \
         is as well (--log), or leave them in the folder"
    )]
    OnlyCheckpointsElsewhere {
        /// Where they were to be.
        place: String,
    },
    /// The store of checkpoints does not answer, or refuses.
    #[error(transparent)]
    Store(isomer_log::CheckpointError),
    /// The store is not that of the process with the router.
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
    /// The logs are another database's.
    #[error(
        "the redo logs at {place} are those of database {found}, and {path} belongs to database {expected}; name the \
         logs of that one, or an empty folder"
    )]
    OtherDatabase {
        /// Where the logs are.
        place: String,
        /// Whose they are.
        found: DatabaseId,
        /// The folder.
        path: PathBuf,
        /// Whose that is.
        expected: DatabaseId,
    },
    /// The catalog's log could not be opened or written.
    #[error("the catalog: {0}")]
    CatalogLog(#[source] OpenError),
    /// The catalog cannot be read.
    #[error("{place} is damaged: {what}")]
    Catalog {
        /// Which file, or log.
        place: String,
        /// What is wrong.
        what: String,
    },
    /// A site's redo log could not be opened.
    #[error("site {site}: {error}{}", advice(error))]
    Log {
        /// The site.
        site: SiteId,
        /// What is wrong.
        error: OpenError,
    },
    /// A site's redo log is shorter than another site knows.
    #[error(
        "site {site}: its log ends at position {end:#x}, but site {witness} has read it up to {proven:#x}: \
         commits are lost{ADVICE}"
    )]
    Lost {
        /// The site whose log lacks something.
        site: SiteId,
        /// Where the log ends.
        end: Position,
        /// Up to where it was durable.
        proven: Position,
        /// The site that knows.
        witness: SiteId,
    },
    /// A site could not be recovered.
    #[error("site {site}: {error}")]
    Recover {
        /// The site.
        site: SiteId,
        /// What is wrong.
        error: RecoverError,
    },
    /// The sites do not add up to a database.
    #[error("the sites' recovered partitions do not form a design: {0}")]
    Design(String),
    /// A log failed while the database was put together.
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

/// What to do about commits that are lost.
const ADVICE: &str = "; restore the file, or start with --accept-loss to go on without them";

fn advice(error: &OpenError) -> &'static str {
    if error.is_loss() { ADVICE } else { "" }
}
