//! Snapshots that transactions share: `pg_export_snapshot()` and SET TRANSACTION SNAPSHOT.
//!
//! ```text
//!   leader     BEGIN; pg_export_snapshot() = N ─────────────── COMMIT     N has no new users
//!                            │                                 │
//!   worker                   └─▶ BEGIN; SET TRANSACTION SNAPSHOT N; SELECT .. COMMIT
//!                                                                             the history is freed
//! ```
//!
//! `pg_dump -j` copies tables over several connections in this way, all as of one time.
//!
//! **Invariants.** A name is valid while the exporting transaction is open. The sites keep the
//! history, and definitions keep the old catalog's tables, until the exporter and all
//! importers have ended.
//!
//! **Left out.** Names are valid in this process only: a gateway that takes over does not know
//! them.

use crate::engine::{Engine, Reading};
use isomer_cluster::SharedSnapshot;
use isomer_sql::statement::Level;
use isomer_sql::{SqlError, code};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The exported snapshots of all sessions, by name.
#[derive(Default)]
pub(crate) struct Snapshots {
    open: Mutex<BTreeMap<String, Arc<Exported>>>,
    /// The number of the last transaction with an exported snapshot.
    last: AtomicU64,
}

/// A snapshot, and the modes of the transaction that exports it.
pub(crate) struct Exported {
    pub(crate) snapshot: SharedSnapshot,
    /// The use of the catalog at the time of the export.
    pub(crate) _reading: Reading,
    pub(crate) level: Level,
    pub(crate) read_only: bool,
}

/// The names of a transaction's exported snapshots. Dropping it ends them.
pub(crate) struct Exports {
    engine: Arc<Engine>,
    /// The number of the transaction among those with exported snapshots; 0 without any.
    number: u64,
    names: Vec<String>,
}

impl Snapshots {
    /// The snapshot with this name, for a transaction with these modes: its level, and whether it
    /// is read-only.
    ///
    /// # Errors
    /// 0A000 if the modes do not allow it; 22023 if there is no such snapshot.
    pub(crate) fn find(
        &self,
        name: &str,
        (level, read_only): (Level, bool),
    ) -> Result<Arc<Exported>, SqlError> {
        let refused = |message: &str| Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
        if level == Level::ReadCommitted {
            return refused(
                "a snapshot-importing transaction must have isolation level SERIALIZABLE or \
                 REPEATABLE READ",
            );
        }
        let Some(found) = self.open.lock().get(name).cloned() else {
            let message = format!("invalid snapshot identifier: \"{name}\"");
            return Err(SqlError::new(code::INVALID_PARAMETER, message));
        };
        if level == Level::Serializable {
            if found.level != Level::Serializable {
                return refused(
                    "a serializable transaction cannot import a snapshot from a \
                     non-serializable transaction",
                );
            }
            if found.read_only && !read_only {
                return refused(
                    "a non-read-only serializable transaction cannot import a snapshot from a \
                     read-only transaction",
                );
            }
        }
        Ok(found)
    }
}

impl Exports {
    pub(crate) fn new(engine: Arc<Engine>) -> Exports {
        Exports { engine, number: 0, names: Vec::new() }
    }

    /// Adds a snapshot. Returns its name, in PostgreSQL's form.
    pub(crate) fn add(&mut self, exported: Exported) -> String {
        if self.number == 0 {
            self.number = 1 + self.engine.snapshots.last.fetch_add(1, Ordering::Relaxed);
        }
        let (high, low) = (self.number >> 32, self.number & u64::from(u32::MAX));
        let name = format!("{high:08X}-{low:08X}-{}", self.names.len() + 1);
        self.engine.snapshots.open.lock().insert(name.clone(), Arc::new(exported));
        self.names.push(name.clone());
        name
    }

    /// Refuses new users of its snapshots.
    pub(crate) fn end(&mut self) {
        if self.names.is_empty() {
            return;
        }
        let mut open = self.engine.snapshots.open.lock();
        let ended: Vec<_> = self.names.drain(..).filter_map(|name| open.remove(&name)).collect();
        drop(open);
        drop(ended);
    }
}

impl Drop for Exports {
    fn drop(&mut self) {
        self.end();
    }
}
