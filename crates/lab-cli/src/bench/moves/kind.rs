//! The kinds of moves. Each ends with as many copies as there were before it.
//!
//! | kind | what is done | in this database |
//! | --- | --- | --- |
//! | switch | the mastership goes to a replica that is up to date (DrTM+B, 4.3) | remaster |
//! | copy | a new copy is made beside the transactions, and gets the mastership (4.2) | add replica, remaster, remove replica |
//! | stop-and-copy | the same, while nobody may use the block | in the benchmark: a gate, and then `copy` |
//! | post-copy | the ownership goes first, the rows when they are asked for (Squall) | in the benchmark: `postcopy.rs` |

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

    /// Gets ready for a move: what is not measured.
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

    /// Makes a move, there at even turns and back at odd ones; gives the number of rows that were copied.
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
                let _nobody = bed.gate.write();
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

/// Copies one table after the other, as a reconfiguration does: changes that are made at once by one thread hold their
/// partitions' locks while that copies rows for another of them.
fn copy<W: Workload>(bed: &Bed<W>) -> Result<usize, Failure> {
    let from = bed.master();
    let to = if from == bed.home { bed.spare } else { bed.home };
    let rows = bed.change_in_turn(|table, start| Change::AddReplica { table, start, site: to })?;
    bed.change(|table, start| Change::Remaster { table, start, to })?;
    bed.change(|table, start| Change::RemoveReplica { table, start, site: from })?;
    Ok(rows)
}
