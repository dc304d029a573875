//! The routers behind the engine's interface: records and ranges instead of numbers, sites by id.
//!
//! ```text
//!   isomer-batch                   here                            routers
//!   footprints, places  ──▶  keys: records, and ranges  ──▶  order, sites  ──▶  order, SiteIds
//!                            as one key each that never      from 0
//!                            moves
//! ```
//!
//! Every key of a transaction's footprint counts as read, because written records must come to it
//! as well. A range counts as one key, at the home of its first piece.

use super::batch::{Alpha, Batch, Places, Routed, Transaction};
use super::{Options, calvin, gstore, hermes, leap, tpart};
use isomer_design::{Access, Footprint, Item, Key, KeyRange, SiteId, Span, TableId};
use isomer_strategy::batch::{Assignment, Back, Moved, Movement, Places as EnginePlaces, Route};
use std::str::FromStr;

/// The routers that the engine can use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EngineRouter {
    /// Prescient routing; written records stay where they were written.
    Hermes(Options),
    /// Load against remote reads weighted with β, in ten thousandths; records go home after the
    /// batch.
    TPart {
        /// The weight of remote reads.
        beta: u32,
    },
    /// All records move to the transaction and stay.
    Leap,
    /// All records move to the transaction and back.
    GStore,
    /// No record moves.
    Calvin,
}

/// The weight of remote reads that T-Part has by default, in ten thousandths.
const BETA: u32 = 8000;

impl EngineRouter {
    /// The names that [`EngineRouter::from_str`] reads.
    pub const NAMES: [&str; 5] = ["hermes", "tpart", "leap", "gstore", "calvin"];
}

impl FromStr for EngineRouter {
    type Err = String;

    fn from_str(name: &str) -> Result<EngineRouter, String> {
        match name {
            "hermes" => Ok(EngineRouter::Hermes(Options::default())),
            "tpart" => Ok(EngineRouter::TPart { beta: BETA }),
            "leap" => Ok(EngineRouter::Leap),
            "gstore" => Ok(EngineRouter::GStore),
            "calvin" => Ok(EngineRouter::Calvin),
            _ => Err(format!("`{name}` is no router; there are: {}", Self::NAMES.join(", "))),
        }
    }
}

/// A router for the statements of a running database, whose batches may be small.
///
/// Of a few statements, the balance says nothing about the load of a site: three writers of one row
/// would be spread over three sites, and the row would go round. So Hermes balances batches of
/// `LEAST` statements for each site, and larger ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LiveRouter(pub EngineRouter);

/// The statements for each site from which on a batch is balanced.
const LEAST: usize = 4;

impl Route for LiveRouter {
    fn movement(&self) -> Movement {
        self.0.movement()
    }

    fn route(&self, batch: &[&Footprint], places: &EnginePlaces<'_>) -> Vec<Assignment> {
        let is_small = batch.len() < LEAST * places.sites().len();
        match self.0 {
            EngineRouter::Hermes(options) if is_small => {
                let unbalanced = Options { alpha: Alpha::ANY, ..options };
                EngineRouter::Hermes(unbalanced).route(batch, places)
            }
            router => router.route(batch, places),
        }
    }
}

/// A key as the routers see it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Spot<'f> {
    Record(TableId, &'f Key),
    Range(TableId, &'f KeyRange),
}

struct Spots<'a, 'p> {
    places: &'a EnginePlaces<'p>,
    /// In order; a router's site number is an index into it.
    sites: Vec<SiteId>,
}

impl Spots<'_, '_> {
    fn number(&self, site: SiteId) -> u16 {
        self.sites.binary_search(&site).expect("records are at sites that there are") as u16
    }
}

impl Places<Spot<'_>> for Spots<'_, '_> {
    fn sites(&self) -> u16 {
        self.sites.len() as u16
    }

    fn home(&self, key: &Spot<'_>) -> u16 {
        self.number(match *key {
            Spot::Record(table, key) => self.places.home(table, key),
            Spot::Range(table, range) => self.places.home(table, &range.start),
        })
    }

    fn of(&self, key: &Spot<'_>) -> u16 {
        match *key {
            Spot::Record(table, record) => self.number(self.places.of(&(table, record.clone()))),
            Spot::Range(..) => self.home(key),
        }
    }

    fn can_move(&self, key: &Spot<'_>) -> bool {
        matches!(key, Spot::Record(..))
    }
}

fn spot(item: &Item) -> Spot<'_> {
    match &item.span {
        Span::Key(key) => Spot::Record(item.table, key),
        Span::Range(range) => Spot::Range(item.table, range),
    }
}

fn transaction<'f>(at: usize, footprint: &'f Footprint) -> Transaction<Spot<'f>> {
    let written = |item: &&Item| item.access == Access::Write && matches!(item.span, Span::Key(_));
    let items = footprint.items();
    Transaction {
        id: at as u64,
        read: items.iter().map(spot).collect(),
        write: items.iter().filter(written).map(spot).collect(),
    }
}

impl Route for EngineRouter {
    fn movement(&self) -> Movement {
        let (moved, back) = match self {
            EngineRouter::Hermes(_) => (Moved::Written, Back::Evicted),
            EngineRouter::TPart { .. } => (Moved::Written, Back::AfterBatch),
            EngineRouter::Leap => (Moved::Touched, Back::Evicted),
            EngineRouter::GStore => (Moved::Touched, Back::AfterTransaction),
            EngineRouter::Calvin => (Moved::Nothing, Back::Evicted),
        };
        Movement { moved, back }
    }

    fn route(&self, batch: &[&Footprint], places: &EnginePlaces<'_>) -> Vec<Assignment> {
        let transactions = batch.iter().enumerate();
        let transactions = transactions.map(|(at, footprint)| transaction(at, footprint)).collect();
        let batch = Batch::new(transactions).expect("places in a batch are unique");
        let spots = Spots { places, sites: places.sites().iter().collect() };
        let routed: Routed<Spot<'_>> = match *self {
            EngineRouter::Hermes(options) => hermes(&batch, &spots, options),
            EngineRouter::TPart { beta } => tpart(&batch, &spots, beta),
            EngineRouter::Leap => leap(&batch, &spots),
            EngineRouter::GStore => gstore(&batch, &spots),
            EngineRouter::Calvin => calvin(&batch, &spots),
        };
        let site = |site: u16| spots.sites[usize::from(site)];
        let routes = routed.transactions.iter();
        routes.map(|route| Assignment { at: route.id as usize, site: site(route.site) }).collect()
    }
}
