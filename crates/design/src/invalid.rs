//! Why a design or a change is not possible: one error for each invariant.
//!
//! Errors name the thing as a person would type it (`accounts[5]` is the partition of accounts that
//! starts at 5) and say what would be right.

use crate::{SITES_MAX, Schema, SiteId, SiteSet, TableId};
use thiserror::Error;

/// Why a design or a change is not possible.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Invalid {
    /// A table that the design lacks.
    #[error("there is no table {table}: tables are {tables}")]
    UnknownTable {
        /// The table asked for.
        table: TableId,
        /// The tables that exist.
        tables: String,
    },
    /// A table number that is taken.
    #[error("{id} is the number of table {table}: take another")]
    TableExists {
        /// The number.
        id: TableId,
        /// The table that has it.
        table: String,
    },
    /// A table name that is taken.
    #[error("there is a table named {table} already: take another name")]
    NameExists {
        /// The name.
        table: String,
    },
    /// A schema that rows may be too short for.
    #[error(
        "table {table} cannot begin with added columns: it has no rows yet that lack them, so make \
         a schema with all columns"
    )]
    AddedColumns {
        /// The table.
        table: String,
    },
    /// More backups than there are sites for.
    #[error(
        "table {table} cannot have {count} backups of each partition: the number of other sites for them is {others}"
    )]
    Backups {
        /// The table.
        table: String,
        /// The number of backups in the request.
        count: u8,
        /// The number of other sites.
        others: usize,
    },
    /// A replica that is needed as a backup.
    #[error(
        "{partition} keeps its replica at {site}: it is needed as a backup, of which the table asks for {count}; add a \
         replica elsewhere first, or ask for fewer backups"
    )]
    NeededBackup {
        /// The partition.
        partition: String,
        /// The site.
        site: SiteId,
        /// The number of backups of the table.
        count: u8,
    },
    /// Two designs with different tables.
    #[error("table {table} is not the same in both designs: changes alter partitions, not tables")]
    DifferentTables {
        /// A table that is missing in one of them, or has different columns.
        table: String,
    },

    /// A table without partitions.
    #[error("table {table} has no partitions: give at least {table}[]")]
    NoPartitions {
        /// The table.
        table: String,
    },
    /// A table whose partitions leave out its first keys.
    #[error("{partition} cannot be the first partition: the keys before it need one, {first}")]
    FirstKeysUncovered {
        /// The partition that comes first.
        partition: String,
        /// The one that should come first.
        first: String,
    },
    /// Partitions that are not given in order.
    #[error(
        "partition {partition} does not come after {previous}: list starts in order, once each"
    )]
    PartitionOrder {
        /// The partition.
        partition: String,
        /// The partition before it.
        previous: String,
    },
    /// A bound longer than any key.
    #[error("a partition of {table} cannot start at a bound of {bytes} bytes: keys are shorter")]
    BoundTooLong {
        /// The table.
        table: String,
        /// The length of the bound.
        bytes: usize,
    },
    /// No partition starts there.
    #[error("{partition} is not a partition: its key lies in {covering}")]
    NotAPartition {
        /// The partition named.
        partition: String,
        /// The partition that covers its start, and its range.
        covering: String,
    },

    /// A split where a partition starts already.
    #[error("{partition} starts there already: split inside a partition")]
    SplitAtStart {
        /// The partition.
        partition: String,
    },
    /// A merge at the start of the table.
    #[error("{partition} is the first partition: merge at the start of a later one")]
    MergeAtFirst {
        /// The partition.
        partition: String,
    },
    /// A merge of partitions in different places.
    #[error(
        "{left} has {left_placement}, {right} has {right_placement}: bring both to one placement \
         before they merge"
    )]
    MergePlacements {
        /// The partition below the key.
        left: String,
        /// Its placement.
        left_placement: String,
        /// The partition from the key on.
        right: String,
        /// Its placement.
        right_placement: String,
    },

    /// A site that the design lacks.
    #[error("there is no site {site}: sites are {sites}")]
    UnknownSite {
        /// The site asked for.
        site: SiteId,
        /// The sites that exist.
        sites: SiteSet,
    },
    /// A site number that is taken.
    #[error("there is a site {site} already: sites are {sites}")]
    SiteExists {
        /// The site.
        site: SiteId,
        /// The sites that exist.
        sites: SiteSet,
    },
    /// A site number out of range.
    #[error("{site} cannot be a site: sites are s1 to s{SITES_MAX}")]
    SiteNumber {
        /// The site.
        site: SiteId,
    },
    /// A design without sites.
    #[error("a design needs a site: give at least one")]
    NoSites,
    /// Removing the last site.
    #[error("{site} is the last site: add another before it goes")]
    LastSite {
        /// The site.
        site: SiteId,
    },
    /// Removing a site that holds something.
    #[error(
        "{site} still masters {masters} and replicates {replicas} partitions, {example} for one: \
         remaster and remove_replica them first"
    )]
    SiteInUse {
        /// The site.
        site: SiteId,
        /// How many partitions it masters.
        masters: usize,
        /// How many partitions it replicates.
        replicas: usize,
        /// One of them.
        example: String,
    },

    /// A replica where the master is.
    #[error("{site} is the master of {partition}: a replica must be at another site")]
    ReplicaAtMaster {
        /// The partition.
        partition: String,
        /// The site.
        site: SiteId,
    },
    /// A replica where one is already.
    #[error("{site} has a replica of {partition} already: {placement}")]
    ReplicaExists {
        /// The partition.
        partition: String,
        /// The site.
        site: SiteId,
        /// Where the partition is.
        placement: String,
    },
    /// Removing a replica that is the master.
    #[error("{site} is the master of {partition}, not a replica: remaster it to a replica first")]
    RemoveMaster {
        /// The partition.
        partition: String,
        /// The site.
        site: SiteId,
    },
    /// Removing a replica where none is.
    #[error("{site} has no replica of {partition}: {placement}")]
    NoReplica {
        /// The partition.
        partition: String,
        /// The site.
        site: SiteId,
        /// Where the partition is.
        placement: String,
    },
    /// Remastering to the master.
    #[error("{site} is the master of {partition} already: remaster to a replica")]
    RemasterToMaster {
        /// The partition.
        partition: String,
        /// The site.
        site: SiteId,
    },
    /// Remastering to a site that does not follow the master.
    #[error("{site} has no replica of {partition}: add_replica it before it becomes the master")]
    RemasterToStranger {
        /// The partition.
        partition: String,
        /// The site.
        site: SiteId,
    },
}

impl Schema {
    /// A partition by its start: `accounts[5]`.
    pub fn partition_name(&self, start: &[u8]) -> String {
        format!("{}[{}]", self.name(), self.format_key(start))
    }
}
