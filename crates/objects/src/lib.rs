//! Checkpoints in an object store: a folder that all machines reach, or S3.
//!
//! # The problem
//!
//! With its redo log in Kafka, a site can start on any machine, provided that its checkpoint is
//! there too, because the log is cut at the checkpoint. A checkpoint in the folder of a process is
//! lost with the machine. So it is stored where all machines reach it. There one process after the
//! other writes it, and a process that was replaced may not know that yet.
//!
//! ```text
//!   file:///shared/shop  (or s3://bucket/shop)
//!     3f0c…9a/                                a database, by its number
//!       database                              its mark
//!       site-3/
//!         00000000001f40a0-77e1…/             a checkpoint: position of the redo log, random number
//!           part-00000  part-00001  …  whole  `whole` is written last and names all parts
//!         0000000000226318-c2d0…/
//!           part-00000                        a draft
//! ```
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`checkpoints`] | the checkpoints of one site |
//! | [`manifest`] | the object `whole`: all parts, with lengths and checksums |
//! | [`store`] | an object store with blocking calls |
//! | [`place`] | `file:///FOLDER`, `s3://BUCKET/PREFIX` |
//!
//! # Invariants
//!
//! * **A checkpoint exists if and only if its object `whole` does.** Parts are written first, and
//!   ignored without `whole`. A removal begins with `whole`.
//! * **No object is written twice.** Each attempt draws a random number. So a process that has lost
//!   its site to another process replaces no object of the new owner. Its own checkpoint is valid
//!   all the same, because it is written only once the log durably holds everything in it, whoever
//!   owns the log then.
//! * **The checkpoint with the highest position counts**, and only those below it are removed,
//!   after it is whole.
//! * Memory is bounded: at most one part is in memory.
//!
//! # What was left out
//!
//! Objects that a killed process left at or above the position of the newest checkpoint are removed
//! only after a checkpoint above them. Objects are not encrypted here: folders and buckets have
//! encryption of their own.

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

/// The contents of the mark, by which the processes of a database recognize their store.
const MARK: &str = "# Checkpoints of an Isomer database, format 1\n";

fn mark(database: DatabaseId) -> String {
    format!("{database}/database")
}

/// The checkpoints of all sites, in an object store. See the [module documentation](self).
pub struct Objects {
    store: Arc<Store>,
}

impl Objects {
    /// Checkpoints at `file:///FOLDER`, which must exist, or `s3://BUCKET/PREFIX`, whose settings
    /// are in the environment (`AWS_ACCESS_KEY_ID` and so on). Sends no request to S3 yet.
    ///
    /// # Errors
    /// A message that says what is wrong with `url` and how to mend it.
    pub fn at(url: &str) -> Result<Objects, String> {
        place::open(url).map(|store| Objects { store: Arc::new(store) })
    }

    /// Checkpoints in a store that messages call `place`.
    ///
    /// # Errors
    /// A message, if the system has no handles left.
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
