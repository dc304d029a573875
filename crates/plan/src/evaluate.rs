//! One evaluation for all planners: the quality of a placement on a recording.
//!
//! ```text
//!   recording ──hold out──▶ earlier part ──planner──▶ placement ──┐
//!                     └───▶ later part ───────────────────────────┴──▶ evaluation
//! ```
//!
//! A plan that fits the past perfectly may be worthless afterwards. Every figure can therefore be
//! computed for the recording that the plan was made from and for a later part that was held out.
//!
//! A transaction is *distributed* if its keys are on more than one site. Load is Equation 2 of Clay
//! in rates per second. Accesses are counted too, because E-Store and METIS balance those.

use crate::heat::{GraphError, HeatGraph, Sampling};
use crate::problem::{Cost, Loads, Placement, Site};
use crate::recording::Recording;

/// The quality of a placement on one recording.
#[derive(Clone, PartialEq, Debug)]
pub struct Evaluation {
    /// Load per site by Equation 2, per second.
    pub loads: Vec<f64>,
    /// Accesses per site and second.
    pub accesses: Vec<f64>,
    /// Highest load over the mean, by Equation 2.
    pub imbalance: f64,
    /// Highest number of accesses over the mean.
    pub access_imbalance: f64,
    /// The share of distributed transactions.
    pub distributed: f64,
    /// Per table, by name: the distributed share of the transactions that touch it.
    pub distributed_by_table: Vec<(String, f64)>,
}

/// The cost of reaching a placement and of keeping it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Upkeep {
    /// Recorded keys whose site changes.
    pub keys_moved: usize,
    /// Entries of the routing table.
    pub routing_entries: usize,
    /// Bytes of the routing table.
    pub routing_bytes: usize,
    /// Sites that hold at least one key.
    pub sites_used: usize,
}

/// Evaluates placements on one recording; the recording's heat graph is built once.
pub struct Evaluator<'a> {
    recording: &'a Recording,
    graph: HeatGraph,
    cost: Cost,
}

impl<'a> Evaluator<'a> {
    /// For a recording, or a part of it.
    pub fn new(recording: &'a Recording, cost: Cost) -> Result<Evaluator<'a>, GraphError> {
        Ok(Evaluator { recording, graph: HeatGraph::of(recording, Sampling::ALL)?, cost })
    }

    /// For a recording whose graph is known.
    pub fn with_graph(recording: &'a Recording, graph: HeatGraph, cost: Cost) -> Evaluator<'a> {
        Evaluator { recording, graph, cost }
    }

    /// The heat graph of the recording.
    pub fn graph(&self) -> &HeatGraph {
        &self.graph
    }

    /// Evaluates a placement.
    pub fn evaluate(&self, placement: &Placement) -> Evaluation {
        let loads = Loads::of(&self.graph, placement, self.cost);
        let accesses = Loads::by_accesses(&self.graph, placement);
        let seconds = self.graph.seconds();
        let rates = |loads: &Loads| loads.0.iter().map(|load| load / seconds).collect();
        let (distributed, distributed_by_table) = self.distributed(placement);
        Evaluation {
            imbalance: loads.imbalance(),
            access_imbalance: accesses.imbalance(),
            loads: rates(&loads),
            accesses: rates(&accesses),
            distributed,
            distributed_by_table,
        }
    }

    fn distributed(&self, placement: &Placement) -> (f64, Vec<(String, f64)>) {
        let keys = self.recording.keys();
        // Transactions and distributed transactions, in all and by table.
        let mut counts = vec![(0u64, 0u64); keys.tables().len()];
        let (mut all, mut tables) = ((0u64, 0u64), Vec::new());
        for transaction in self.recording.transactions() {
            tables.clear();
            let mut first: Option<Site> = None;
            let mut spread = false;
            for (vertex, _) in transaction.accesses() {
                let site = placement.site(vertex);
                spread |= *first.get_or_insert(site) != site;
                let table = keys.table_of(vertex);
                if !tables.contains(&table) {
                    tables.push(table);
                }
            }
            let count = |count: &mut (u64, u64)| {
                count.0 += 1;
                count.1 += u64::from(spread);
            };
            count(&mut all);
            tables.iter().for_each(|&table| count(&mut counts[usize::from(table)]));
        }
        let share = |(all, spread): (u64, u64)| spread as f64 / all.max(1) as f64;
        let by_table =
            keys.tables().zip(counts).map(|(name, count)| (name.to_owned(), share(count)));
        (share(all), by_table.collect())
    }
}

impl Upkeep {
    /// The upkeep of `after`, reached from `before`.
    pub fn of(graph: &HeatGraph, before: &Placement, after: &Placement) -> Upkeep {
        let mut used = vec![false; after.sites()];
        after.site_of().iter().for_each(|&site| used[usize::from(site)] = true);
        Upkeep {
            keys_moved: after.moved_from(before).count(),
            routing_entries: after.routing_entries(graph),
            routing_bytes: after.routing_bytes(graph),
            sites_used: used.into_iter().filter(|&used| used).count(),
        }
    }
}
