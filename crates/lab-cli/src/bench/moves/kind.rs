//! The kinds of moves. Each ends with as many copies as there were before it.
//!
//! | kind | steps | here |
//! | --- | --- | --- |
//! | switch | an up-to-date replica becomes the master (DrTM+B, 4.3) | remaster |
//! | copy | a new copy is made beside transactions, then is the master (4.2) | see below |
//! | stop-and-copy | the same, while transactions on the block wait | a gate, then copy |
//! | post-copy | the ownership moves first, rows on demand (Squall) | `postcopy.rs` |
//!
//! Copy is three changes of the database: add replica, remaster, remove replica. The last two kinds
//! exist in this benchmark only.

use super::bed::Bed;
use super::postcopy::{Cut, PostCopy};
use isomer::failure::Failure;
use isomer_design::Change;
use isomer_workload::Workload;
use serde::Serialize;
use std::sync::Arc;

/// A kind of move.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Switch,
    Copy,
    StopAndCopy,
    PostCopy,
}

impl Kind {
    pub(super) const ALL: [Kind; 4] = [Kind::Switch, Kind::Copy, Kind::StopAndCopy, Kind::PostCopy];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Switch => "switch",
            Kind::Copy => "copy",
            Kind::StopAndCopy => "stop-and-copy",
            Kind::PostCopy => "post-copy",
        }
    }

    /// Prepares a move; not part of the measurement.
    pub(super) fn prepare<W: Workload>(
        self,
        bed: &Bed<W>,
        turn: u64,
        cut: Cut,
    ) -> Result<Option<Arc<PostCopy>>, Failure> {
        if self != Kind::PostCopy {
            return Ok(None);
        }
        Ok(Some(Arc::new(PostCopy::cut(bed, turn % 2 == 1, cut)?)))
    }

    /// Makes a move, there at even turns and back at odd ones; gives the number of copied rows.
    pub(super) fn make<W: Workload>(
        self,
        bed: &Bed<W>,
        ready: Option<Arc<PostCopy>>,
        cut: Cut,
    ) -> Result<usize, Failure> {
        match (self, ready) {
            (Kind::PostCopy, Some(moved)) => {
                *bed.gate.write() = Some(moved.clone());
                moved.run(bed, cut)?;
                Ok(moved.rows)
            }
            (Kind::StopAndCopy, _) => {
                let _exclusive = bed.gate.write();
                copy(bed)
            }
            (Kind::Switch, _) => {
                let to = if bed.master() == bed.home { bed.backup } else { bed.home };
                bed.change(|table, start| Change::Remaster { table, start, to })
            }
            (Kind::Copy | Kind::PostCopy, _) => copy(bed),
        }
    }
}

/// Copies one table after the other, as a reconfiguration does. One thread that makes several
/// changes at once would hold the locks of all their partitions while it copies the rows of each.
fn copy<W: Workload>(bed: &Bed<W>) -> Result<usize, Failure> {
    let from = bed.master();
    let to = if from == bed.home { bed.spare } else { bed.home };
    let rows = bed.change_in_turn(|table, start| Change::AddReplica { table, start, site: to })?;
    bed.change(|table, start| Change::Remaster { table, start, to })?;
    bed.change(|table, start| Change::RemoveReplica { table, start, site: from })?;
    Ok(rows)
}
