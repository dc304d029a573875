//! What the engine asks of a router: the order and site of each transaction of a batch.
//!
//! ```text
//!   footprints of a batch, where every record is ──▶ order, and a site for each
//! ```
//!
//! A router decides nothing else. Who moves which records is a property of the kind of engine that it is made
//! for, its [`Movement`]; the engine (`isomer-batch`) does the rest alike for all of them.
//!
//! | engine | moved | back home | runs at |
//! | --- | --- | --- | --- |
//! | Hermes | what is written | when it leaves the fusion table | the routed site |
//! | T-Part | what is written | after the batch | the routed site |
//! | LEAP | all records | when it leaves the fusion table | the routed site |
//! | G-Store+ | all records | after the transaction | the routed site |
//! | Calvin | nothing | – | every site that holds what is written |
//!
//! Every site routes for itself, so a router must be a function of its arguments: no chance, no clock, no
//! map without an order, no floating point.

mod fusion;
mod home;

pub use fusion::{FusionTable, Replacement};
pub use home::Homes;

use isomer_design::{Footprint, Key, KeyRange, SiteId, SiteSet, TableId};
use std::ops::Bound;

/// Which record.
pub type RecordId = (TableId, Key);

/// All records of a range, as bounds of an ordered map of records. The first record of the next table ends a
/// range that is open above.
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

/// Which records go to the routed site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moved {
    /// None: sites with written records run the transaction.
    Nothing,
    /// Those that are written.
    Written,
    /// Those that are written or read. Ranges never move.
    Touched,
}

/// When records go home.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Back {
    /// When the fusion table is full.
    Evicted,
    /// After each batch.
    AfterBatch,
    /// After each transaction.
    AfterTransaction,
}

/// What happens with records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Movement {
    /// Which ones move.
    pub moved: Moved,
    /// When they move back.
    pub back: Back,
}

/// Where one transaction runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Assignment {
    /// Its place in the batch as it came.
    pub at: usize,
    /// Its site.
    pub site: SiteId,
}

/// Decides where transactions run, and in which order.
pub trait Route: Send + Sync {
    /// What happens with records.
    fn movement(&self) -> Movement;

    /// Routes a batch: each transaction once, in the order in which they are to run.
    fn route(&self, batch: &[&Footprint], places: &Places<'_>) -> Vec<Assignment>;
}

/// Where records are before a batch. Their tables exist: other transactions are refused before.
#[derive(Clone, Copy)]
pub struct Places<'a> {
    homes: &'a Homes,
    fusion: &'a FusionTable<RecordId, SiteId>,
}

impl<'a> Places<'a> {
    /// Records are at home, but for those of the fusion table.
    pub fn new(homes: &'a Homes, fusion: &'a FusionTable<RecordId, SiteId>) -> Places<'a> {
        Places { homes, fusion }
    }
}

impl Places<'_> {
    /// All sites.
    pub fn sites(&self) -> &SiteSet {
        self.homes.sites()
    }

    /// Where a record is at home.
    ///
    /// # Panics
    /// If there is no such table.
    pub fn home(&self, table: TableId, key: &Key) -> SiteId {
        self.homes.home(table, key).expect("transactions on unknown tables are refused")
    }

    /// Where a record is.
    ///
    /// # Panics
    /// If there is no such table.
    pub fn of(&self, record: &RecordId) -> SiteId {
        self.fusion.get(record).unwrap_or_else(|| self.home(record.0, &record.1))
    }

    /// Where the records of a range are at home, piece by piece.
    pub fn pieces(&self, table: TableId, range: &KeyRange) -> Vec<(KeyRange, SiteId)> {
        self.homes.pieces(table, range)
    }

    /// The records of a range that are not at home, and where they are.
    pub fn fused(
        &self,
        table: TableId,
        range: &KeyRange,
    ) -> impl Iterator<Item = (&RecordId, SiteId)> {
        self.fusion.range(bounds(table, range))
    }
}
