//! Checkpoints in an object store: a folder that all machines reach, or S3.
//!
//! # The problem
//!
//! With its redo log in Kafka, a site can start on any machine, if its checkpoint is there as well: the log is cut where that
//! begins. In the folder of a process, the checkpoint is lost with the machine. So it goes where all machines reach it.
//! There it is written by one process after the other, and one that was replaced may not know it yet.
//!
//! ```text
//!   file:///shared/shop  (or s3://bucket/shop)
//!     3f0c…9a/                                          a database, by its number
//!       database                                        its mark
//!       site-3/
//!         00000000001f40a0-77e1…/                       a checkpoint: a position of the redo log, and who wrote it
//!           part-00000  part-00001  …  whole            `whole` comes last: it names all parts
//!         0000000000226318-c2d0…/
//!           part-00000                                  a draft
//! ```
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`checkpoints`] | the checkpoints of one site |
//! | [`manifest`] | the object `whole`: all parts, with lengths and sums |
//! | [`store`] | an object store, for threads that wait |
//! | [`place`] | `file:///FOLDER`, `s3://BUCKET/PREFIX` |
//!
//! # Invariants
//!
//! * **A checkpoint is there with its last object, or it is not.** Parts are written first, and nobody looks at them without
//!   `whole`. It is removed the other way round.
//! * **Nobody writes the same object twice.** Each attempt draws a number. So a process that has lost its site to another one
//!   replaces nothing of the other's. What it wrote is right all the same: it is written only when all that it reflects is
//!   durable in the log, whoever owns that by then.
//! * **The one with the highest position counts**, and only those below it are removed, once it is whole.
//! * Memory is bounded: a part is in memory, and no more.
//!
//! # What was left out
//!
//! What a killed process leaves at or above the position of the newest checkpoint is removed once there is one above. Objects
//! are not encrypted here: folders, and buckets, have their own means.

mod checkpoints;
mod manifest;
mod place;
mod store;

pub use object_store::ObjectStore;

use checkpoints::ObjectCheckpoints;
use isomer_cluster::{CheckpointStore, DatabaseId};
use isomer_design::SiteId;
use isomer_log::{CheckpointError, Checkpoints};
use std::sync::Arc;
use store::Store;

/// What the object says by which a database's processes know the store.
const MARK: &str = "# Checkpoints of an Isomer database, format 1\n";

fn mark(database: DatabaseId) -> String {
    format!("{database}/database")
}

/// The checkpoints of all sites, in an object store. See the [module documentation](self).
pub struct Objects {
    store: Arc<Store>,
}

impl Objects {
    /// Checkpoints at `file:///FOLDER`, which is there, or `s3://BUCKET/PREFIX`, whose settings are in the environment
    /// (`AWS_ACCESS_KEY_ID` and so on). Of S3 nothing is asked yet.
    ///
    /// # Errors
    /// In words, what is wrong with it and what would be right.
    pub fn at(url: &str) -> Result<Objects, String> {
        place::open(url).map(|store| Objects { store: Arc::new(store) })
    }

    /// Checkpoints in a store that is called `place`, for people.
    ///
    /// # Errors
    /// In words, if the system has no handles left.
    pub fn over(objects: Arc<dyn ObjectStore>, place: &str) -> Result<Objects, String> {
        Store::new(objects, place, None).map(|store| Objects { store: Arc::new(store) })
    }
}

impl CheckpointStore for Objects {
    fn place(&self) -> String {
        self.store.place().to_owned()
    }

    fn open(
        &self,
        database: DatabaseId,
        site: SiteId,
    ) -> Result<Arc<dyn Checkpoints>, CheckpointError> {
        let under = format!("{database}/site-{}", site.0);
        Ok(Arc::new(ObjectCheckpoints::open(self.store.clone(), under)?))
    }

    fn mark(&self, database: DatabaseId) -> Result<(), CheckpointError> {
        self.store.put(&mark(database), MARK.into())
    }

    fn has_mark(&self, database: DatabaseId) -> Result<bool, CheckpointError> {
        self.store.has(&mark(database))
    }

    fn try_to_write(&self, database: DatabaseId, site: SiteId) -> Result<(), CheckpointError> {
        let at = format!("{database}/site-{}/writable", site.0);
        self.store.put(&at, Vec::new())?;
        self.store.remove(vec![at])
    }
}
