//! The interface between a batch engine and its router.
//!
//! ```text
//!   footprints of a batch, places of all records ──▶ order, and a site for each transaction
//! ```
//!
//! A router decides nothing else. Which records move, and when, is given by the kind of engine for
//! which the router is made: its [`Movement`]. The engine (`isomer-batch`) treats all routers
//! alike.
//!
//! | engine | moved | back home | runs at |
//! | --- | --- | --- | --- |
//! | Hermes | written records | when evicted from the fusion table | the routed site |
//! | T-Part | written records | after the batch | the routed site |
//! | LEAP | all records | when evicted from the fusion table | the routed site |
//! | G-Store+ | all records | after the transaction | the routed site |
//! | Calvin | nothing | – | every site that holds a written record |
//!
//! Every site routes for itself, so a router must be a deterministic function of its arguments: no
//! randomness, clock, unordered map or floating point.

mod fusion;
mod home;

pub use fusion::{FusionTable, Replacement};
pub use home::Homes;

use isomer_design::{Footprint, Key, KeyRange, SiteId, SiteSet, TableId};
use std::ops::Bound;

/// Identifies a record.
pub type RecordId = (TableId, Key);

/// The bounds of a range of records in an ordered map. A range without an end is bounded by the
/// first record of the next table.
pub fn bounds(table: TableId, range: &KeyRange) -> (Bound<RecordId>, Bound<RecordId>) {
    (Bound::Included((table, range.start.clone())), Bound::Excluded(end_of(table, range)))
}

/// The first record after a range.
pub fn end_of(table: TableId, range: &KeyRange) -> RecordId {
    match &range.end {
        Some(end) => (table, end.clone()),
        None => (TableId(table.0.saturating_add(1)), Key::min()),
    }
}

/// Which records move to the routed site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moved {
    /// None: the sites that hold written records run the transaction.
    Nothing,
    /// Written records.
    Written,
    /// Written and read records. Ranges never move.
    Touched,
}

/// When moved records return home.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Back {
    /// When the fusion table is too full.
    Evicted,
    /// After each batch.
    AfterBatch,
    /// After each transaction.
    AfterTransaction,
}

/// How an engine moves records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Movement {
    /// Which records move.
    pub moved: Moved,
    /// When they return.
    pub back: Back,
}

/// The site chosen for one transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Assignment {
    /// The index of the transaction in the batch as it arrived.
    pub at: usize,
    /// The chosen site.
    pub site: SiteId,
}

/// A router: chooses the order and the sites of the transactions of a batch.
pub trait Route: Send + Sync {
    /// How the engine of this router moves records.
    fn movement(&self) -> Movement;

    /// Routes a batch: returns each transaction exactly once, in the order of execution.
    fn route(&self, batch: &[&Footprint], places: &Places<'_>) -> Vec<Assignment>;
}

/// The places of records before a batch. Methods expect existing tables, because the engine refuses
/// transactions on others before routing.
#[derive(Clone, Copy)]
pub struct Places<'a> {
    homes: &'a Homes,
    fusion: &'a FusionTable<RecordId, SiteId>,
}

impl<'a> Places<'a> {
    /// Combines homes with the exceptions in the fusion table.
    pub fn new(homes: &'a Homes, fusion: &'a FusionTable<RecordId, SiteId>) -> Places<'a> {
        Places { homes, fusion }
    }
}

impl Places<'_> {
    /// The sites to which transactions may be routed.
    pub fn sites(&self) -> &SiteSet {
        self.homes.sites()
    }

    /// The home of a record.
    ///
    /// # Panics
    /// If the table does not exist.
    pub fn home(&self, table: TableId, key: &Key) -> SiteId {
        self.homes.home(table, key).expect("transactions on unknown tables are refused")
    }

    /// The current site of a record.
    ///
    /// # Panics
    /// If the table does not exist.
    pub fn of(&self, record: &RecordId) -> SiteId {
        self.fusion.get(record).unwrap_or_else(|| self.home(record.0, &record.1))
    }

    /// The homes of a range, in pieces.
    pub fn pieces(&self, table: TableId, range: &KeyRange) -> Vec<(KeyRange, SiteId)> {
        self.homes.pieces(table, range)
    }

    /// The records of a range that are away from home, with their sites.
    pub fn fused(
        &self,
        table: TableId,
        range: &KeyRange,
    ) -> impl Iterator<Item = (&RecordId, SiteId)> {
        self.fusion.range(bounds(table, range))
    }
}
