//! Candidates for a [global plan](super::global_plan): proposed by a graph partitioner, as in
//! off-line Schism, and judged by their predicted throughput.
//!
//! ```text
//!   samples ─┬─ one half ──▶ graph   vertices: partitions, weighted by accesses
//!            │                │      edges: co-accesses; weak ones between adjacent keys
//!            │              METIS    a part for each site, few edges cut
//!            │              names    each part becomes the site where most of it is already
//!            │                │
//!            │             splits    of partitions whose lock would be held for too long
//!            │                ▼
//!            └─ other half ─▶ its transactions per second ([`super::forecast`])
//! ```
//!
//! **One half proposes, the other judges.** A partitioner cuts around every sample in its input. So
//! on these samples its result looks better than it is. The separation also prevents endless
//! changes: once new candidates are no better than the design, none is adopted. If most keys are
//! accessed rarely, in partitions of their own, a placement for one half does nothing for the
//! other. Then none is adopted either, and single transactions collect the partitions that they
//! need.
//!
//! **A candidate must beat** the measured throughput. Under overload that is less than half of the
//! forecast for the current design. The prediction must also exceed the prediction for the current
//! design, because under light load the measured throughput says nothing about capacity.
//!
//! **While a process is pressed** its processors are the limit. The waits of clients outside of
//! transactions are not measured, so the forecast may see too few clients for any gain. Then a
//! candidate counts by the demand for the processors of the busiest process, if the forecast does
//! not fall.
//!
//! **Splits belong to a candidate.** New borders cause distributed commits, which hold the locks
//! next to the borders for long. In a partition of a hundred rows these locks delay all its
//! writers; in small partitions they delay few.
//!
//! **Weak edges.** Adjacent keys count as weakly co-accessed. So few samples are enough where keys
//! are accessed by range; elsewhere a weak edge does no harm.
//!
//! **Cuts.** What lies together at a pressed process ([`super::traffic`]) may be one partition. And
//! a partition with more accesses than an even share of a site leaves the partitioner no choice:
//! two such partitions stay apart, even if each transaction needs both. So the graph has
//! finer parts in both cases: each partition with many accesses is cut between the values of the
//! first column of its key, such as tenants, or else at keys that divide its accesses evenly. Of
//! these cuts only those are made whose sides go to different sites.
//!
//! **If no candidate is good enough**, but a site is full and others are not, the candidate is a
//! refinement. Then [Clay](crate::clay) moves clumps from full sites to others. A completely new
//! placement would move half of the data, although the current one is good except for the load.
//! Vertex weights are scaled to the measured loads of their sites. A thousand samples estimate a
//! site's load only to a few percent, and the refinement of such noise would never end.
//!
//! **Left out**: tables without writes are not placed. Replicas are created elsewhere
//! ([`super::planner`]), and their relief of a busy site is not predicted. Sites count as equally
//! strong.

use super::forecast::Network;
use super::grid::{Grid, Layout};
use super::known::Situation;
use super::range::Range;
use super::tuning::Tuning;
use super::workload::Shares;
use crate::clay;
use crate::heat::HeatGraph;
use crate::partition;
use crate::problem::{Cost, Placement, Problem, Site};
use isomer_design::{Change, Design, Key, KeyRange, SiteId, TableId};
use isomer_strategy::Need;
use std::collections::BTreeMap;

/// The co-accesses of partitions, and their weights.
struct Graph<'g> {
    partitions: &'g [Need],
    weights: Vec<f64>,
    edges: BTreeMap<(u32, u32), f64>,
}

/// A candidate: moves, splits, and the resulting throughput.
pub(crate) struct CandidateDesign {
    /// Splits to make before all moves.
    pub(crate) cuts: Vec<(TableId, Key)>,
    /// Partitions and their new masters.
    pub(crate) moves: Vec<(Need, SiteId)>,
    /// Splits to make after all moves.
    pub(crate) splits: Vec<(TableId, Key)>,
    /// True if it is the current design with relief for full sites.
    pub(crate) is_rebalance: bool,
    /// Predicted transactions per second with it.
    pub(crate) serves: f64,
    /// Transactions per second now.
    pub(crate) now: f64,
    network: Network,
}

impl CandidateDesign {
    /// The moves of an even division of all samples, independent of its throughput.
    pub(crate) fn even(situation: &Situation<'_>) -> Option<Vec<(Need, SiteId)>> {
        let grid = Grid::of(situation.design, situation.known.workload.samples());
        let graph = Graph::of(&grid, situation.known.tuning.neighbours);
        Some(grid.named(&graph.divide(situation)?))
    }

    /// The candidate with the highest throughput, if it meets the required gain.
    pub(crate) fn best(situation: &Situation<'_>) -> Option<CandidateDesign> {
        let Situation { design, known, .. } = situation;
        let grid = Grid::of(design, known.workload.samples());
        let as_it_is = Network::of(known, &grid, &grid.layout());
        let is_pressed = situation.may_relieve && known.traffic.is_pressed(known.tuning.full_from);
        if as_it_is.across < Tuning::ACROSS_MIN && !is_pressed {
            return None;
        }
        let is_coarse =
            || Graph::of(&grid, known.tuning.neighbours).is_coarse(design.sites().len());
        let finer = (is_pressed || is_coarse()).then(|| finer(situation));
        let grid = finer.map_or(grid, |finer| Grid::of(&finer, known.workload.samples()));
        let predicted = as_it_is.per_second(known.traffic.clients());
        let now = known.regime.served().unwrap_or(predicted);
        let graph = Graph::of(&grid, known.tuning.neighbours);
        let Tuning { gain_min, standard_errors, .. } = known.tuning;
        let least = (gain_min * now).max(predicted);
        let divided = graph.divide(situation);
        let divided = divided.map(|moves| CandidateDesign::of(situation, &grid, &moves, now));
        let best = divided.and_then(|it| {
            let at = Tuning::NEARLY_FULL * now;
            let network = &it.network;
            if it.serves > least && network.is_significantly_faster(&as_it_is, at, standard_errors)
            {
                return Some(it);
            }
            // The processors of a pressed process are the limit, whatever the clients wait for.
            let serves = now * as_it_is.busiest() / network.busiest();
            let is_relief = serves > gain_min * now && gain_min * it.serves > predicted;
            (is_pressed && is_relief).then_some(CandidateDesign { serves, ..it })
        });
        best.or_else(|| {
            let (moves, gain) = graph.refined(situation)?;
            let refined = CandidateDesign::of(situation, &grid, &moves, now);
            let is_worse = refined.network.across > as_it_is.across + Tuning::ACROSS_MIN;
            let (is_rebalance, serves) = (true, gain * now);
            (!is_worse).then_some(CandidateDesign { is_rebalance, serves, ..refined })
        })
    }

    /// A candidate with these moves, and with splits where locks would be held for long.
    fn of(
        situation: &Situation<'_>,
        grid: &Grid<'_>,
        moves: &[(u32, SiteId)],
        now: f64,
    ) -> CandidateDesign {
        let clients = situation.known.traffic.clients();
        let mut layout = grid.layout();
        moves.iter().for_each(|(partition, site)| layout.bring(*partition, *site));
        let cuts = grid.cuts(situation.design, &layout);
        let network = Network::of(situation.known, grid, &layout);
        let serves = network.per_second(clients);
        let moves = grid.named(moves);
        let whole = CandidateDesign {
            cuts,
            moves: moves.clone(),
            splits: Vec::new(),
            is_rebalance: false,
            serves,
            now,
            network,
        };
        let mut held = whole.network.held(serves);
        let mut split = None;
        for _ in 0..Tuning::FEW {
            if !cut(situation, grid, &mut layout, &held) {
                break;
            }
            let network = Network::of(situation.known, grid, &layout);
            let serves = network.per_second(clients);
            held = network.held(serves);
            split = Some((network, serves));
        }
        let Some((network, serves)) = split.filter(|(_, serves)| *serves > whole.serves) else {
            return whole;
        };
        let cuts = grid.partitions.iter().zip(layout.cuts);
        let splits = cuts.flat_map(|(need, cuts)| cuts.into_iter().map(|at| (need.table, at)));
        CandidateDesign { splits: splits.collect(), network, serves, ..whole }
    }
}

/// The design with cuts in each partition that has many accesses.
fn finer(situation: &Situation<'_>) -> Design {
    let Situation { design, known, .. } = situation;
    let mut finer = (*design).clone();
    let parts = Tuning::SEVERAL * design.sites().len();
    for (table, found) in design.tables() {
        for (keys, _) in found.partitions_in(&KeyRange::all()) {
            let range = Range { table, keys };
            let shares = known.workload.shares(&range);
            if (shares.read + shares.written) * (Tuning::MANY as f64) < 1.0 {
                continue;
            }
            let cuts = known.workload.firsts(&range, found.schema(), Tuning::CUTS_MAX);
            let cuts = cuts.unwrap_or_else(|| known.workload.cuts(&range, parts));
            for at in cuts.into_iter().filter(|at| *at > range.keys.start) {
                // A key that begins a partition already needs no cut.
                let _ = finer.apply(&Change::Split { table, at });
            }
        }
    }
    finer
}

/// Cuts the parts of partitions whose locks are held for too long; true if there are any.
fn cut(situation: &Situation<'_>, grid: &Grid<'_>, layout: &mut Layout, held: &[f64]) -> bool {
    let mut lock = 0;
    let mut any = false;
    for (need, cuts) in grid.partitions.iter().zip(&mut layout.cuts) {
        let ends: Vec<Option<Key>> =
            cuts.iter().cloned().map(Some).chain([need.range.end.clone()]).collect();
        let mut start = need.range.start.clone();
        let mut more = Vec::new();
        for end in ends {
            let parts = (held[lock] / situation.known.tuning.held_max).ceil();
            lock += 1;
            if parts > 1.0 {
                let keys = KeyRange::new(start.clone(), end.clone());
                let range = Range { table: need.table, keys };
                let parts = (parts as usize).min(Tuning::SEVERAL);
                let found = situation.known.workload.cuts(&range, parts).into_iter();
                more.extend(found.filter(|at| *at != start));
            }
            start = end.unwrap_or(start);
        }
        any |= !more.is_empty();
        cuts.extend(more);
        cuts.sort();
    }
    any
}

impl<'g> Graph<'g> {
    /// The graph of every other sample; only tables with writes are placed.
    fn of(grid: &'g Grid<'_>, neighbours: f64) -> Graph<'g> {
        let partitions = &grid.partitions;
        let tables = &grid.written;
        let is_placed = |at: u32| tables.contains(&partitions[at as usize].table);
        // A partition without accesses by these samples stays with its neighbours.
        let least = 1.0 / Tuning::WEIGHT_UNIT;
        let weights =
            (0..partitions.len() as u32).map(|at| if is_placed(at) { least } else { 0.0 });
        let weights = weights.collect();
        let mut graph = Graph { partitions, weights, edges: BTreeMap::new() };
        for laid in grid.laid.iter().filter(|laid| laid.sample.is_odd()) {
            let mut together: Vec<u32> = laid.all().filter(|at| is_placed(*at)).collect();
            let key = |at: &u32| {
                let need = &partitions[*at as usize];
                (need.table, &need.range.start)
            };
            together.sort_by(|a, b| key(a).cmp(&key(b)));
            graph.tie(&together);
        }
        let in_order: Vec<(TableId, u32)> = grid.in_order().collect();
        for pair in in_order.windows(2) {
            if pair[0].0 == pair[1].0 && tables.contains(&pair[0].0) {
                graph.add(pair[0].1, pair[1].1, neighbours);
            }
        }
        graph
    }

    /// Adds a transaction: all have the same weight, and the partitions of one are connected.
    fn tie(&mut self, together: &[u32]) {
        let each = 1.0 / together.len().max(1) as f64;
        together.iter().for_each(|at| self.weights[*at as usize] += each);
        if together.len() <= Tuning::MANY {
            // Each is connected with each, with a total weight of 1 per partition.
            let weight = 1.0 / (together.len().max(2) - 1) as f64;
            for (at, &a) in together.iter().enumerate() {
                together[at + 1..].iter().for_each(|&b| self.add(a, b, weight));
            }
        } else if together.len() <= Tuning::CHAIN_MAX {
            together.windows(2).for_each(|pair| self.add(pair[0], pair[1], 1.0));
        }
    }

    fn add(&mut self, a: u32, b: u32, weight: f64) {
        *self.edges.entry((a.min(b), a.max(b))).or_insert(0.0) += weight;
    }

    /// True if a partition has more accesses than an even share of a site.
    fn is_coarse(&self, sites: usize) -> bool {
        let sum: f64 = self.weights.iter().sum();
        self.weights.iter().any(|weight| weight * sites as f64 > (1.0 + Tuning::IMBALANCE) * sum)
    }

    /// The graph in METIS' units, with these weights; `None` if it is too large.
    fn heat(&self, weight: impl Fn(usize) -> f64) -> Option<HeatGraph> {
        let weights = (0..self.weights.len()).map(|at| weight(at) * Tuning::WEIGHT_UNIT);
        let weights: Vec<f64> = weights.collect();
        let edges: Vec<(u32, u32, f64)> = self
            .edges
            .iter()
            .map(|(&(a, b), &weight)| (a, b, weight * Tuning::WEIGHT_UNIT))
            .collect();
        HeatGraph::from_parts(&weights, &edges).ok()
    }

    /// The index of each partition's master in `sites`.
    fn masters(&self, sites: &[SiteId]) -> Vec<Site> {
        let number = |site: SiteId| sites.iter().position(|s| *s == site).unwrap_or(0) as Site;
        self.partitions.iter().map(|need| number(need.placement.master)).collect()
    }

    /// The moves from full sites that make all about equally busy, and the factor by which the load
    /// of the busiest falls. `None` if that is below the required gain.
    fn refined(&self, situation: &Situation<'_>) -> Option<(Vec<(u32, SiteId)>, f64)> {
        let sites: Vec<SiteId> = situation.design.sites().iter().collect();
        let traffic = &situation.known.traffic;
        let busy: Vec<f64> = sites.iter().map(|site| traffic.site(*site).busy).collect();
        let (sum, busiest) = (busy.iter().sum::<f64>(), busy.iter().copied().fold(0.0, f64::max));
        let Tuning { gain_min, full_from, .. } = situation.known.tuning;
        if busiest < full_from.max(gain_min * sum / sites.len() as f64) {
            return None;
        }
        let masters = self.masters(&sites);
        let mut of_site = vec![0.0; sites.len()];
        masters.iter().zip(&self.weights).for_each(|(site, w)| of_site[usize::from(*site)] += w);
        let each = self.weights.iter().sum::<f64>() / sum;
        // The weights of a site's partitions add up to its measured load.
        let heat = self.heat(|at| {
            let site = usize::from(masters[at]);
            self.weights[at] * each * busy[site] / of_site[site].max(f64::MIN_POSITIVE)
        })?;
        let before = Placement::new(sites.len(), masters.clone());
        let (graph, placement, cost) = (&heat, &before, Cost::flat(1.0));
        let problem = Problem { graph, placement, cost, imbalance: 0.0 };
        let after = clay::plan(&problem, &clay::Options::default()).ok()?.placement;
        let gain = problem.loads().max() / Problem { placement: &after, ..problem }.loads().max();
        let moved = after.moved_from(&before).map(|at| (at, after.site(at)));
        let moves = self.accessed(situation, moved, &sites);
        (gain >= gain_min).then_some((moves, gain))
    }

    /// The moves of partitions that have accesses.
    fn accessed(
        &self,
        situation: &Situation<'_>,
        moves: impl Iterator<Item = (u32, Site)>,
        sites: &[SiteId],
    ) -> Vec<(u32, SiteId)> {
        let shares =
            |at: u32| situation.known.workload.shares(&Range::of(&self.partitions[at as usize]));
        let moved = moves.filter(|(at, _)| shares(*at) != Shares::default());
        moved.map(|(at, to)| (at, sites[usize::from(to)])).collect()
    }

    /// The moves that divide the graph among the sites; `None` if that is impossible.
    fn divide(&self, situation: &Situation<'_>) -> Option<Vec<(u32, SiteId)>> {
        let heat = &self.heat(|at| self.weights[at])?;
        let sites: Vec<SiteId> = situation.design.sites().iter().collect();
        let before = Placement::new(sites.len(), self.masters(&sites));
        let (placement, cost, imbalance) = (&before, Cost::flat(1.0), Tuning::IMBALANCE);
        let problem = Problem { graph: heat, placement, cost, imbalance };
        let after = partition::place(&problem, Tuning::IMBALANCE).ok()?;
        let moved = after.moved_from(&before).map(|at| (at, after.site(at)));
        Some(self.accessed(situation, moved, &sites))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::regime::Signals;
    use crate::learned::reservoir::Damping;
    use crate::learned::traffic::Seen;
    use crate::learned::workload::Workload;
    use isomer_design::{Column, ColumnType, Footprint, Placement, Schema, SiteSet};
    use isomer_strategy::{ProcessLoad, SiteLoad};

    const T: TableId = TableId(1);
    const SECOND: u64 = 1_000_000_000;

    /// The best candidate for twelve tenants whose rows are read at s1, with a backup at s2. Each
    /// site has a process of its own; the arguments are their loads.
    fn best(busy: [f64; 3], may_relieve: bool) -> Option<CandidateDesign> {
        let column = |name| Column::new(name, ColumnType::Int64);
        let columns = ["tenant", "id"].map(column).to_vec();
        let schema = Schema::new("orders", columns, &["tenant", "id"]).expect("a schema");
        let sites = [1, 2, 3].map(SiteId);
        let mut design = Design::new(sites).expect("three sites");
        let placement = Placement::new(sites[0], [sites[1]]);
        design.create_table(T, schema, [(Key::min(), placement)]).expect("a table");
        let tuning = Tuning::default();
        let mut known = crate::learned::known::Known::new(&tuning);
        known.workload = Workload::new(Damping::default(), 0);
        let own = [0.2, 0.0, 0.0];
        let loads = sites.iter().zip(own).zip(busy).map(|((site, own), busy)| SiteLoad {
            site: *site,
            busy: Some(own),
            memory_bytes: 0,
            memory_max: None,
            hot_locks: Vec::new(),
            process: Some(ProcessLoad { first: *site, busy }),
        });
        let loads: Vec<SiteLoad> = loads.collect();
        for second in 1..20 {
            for number in 0..800 {
                let tenant = KeyRange::starting_with(Key::ints(&[number % 12]));
                let footprint = Footprint::new().read_range(T, tenant);
                known.workload.offer(second * SECOND, &footprint, [100, 0], 50.0, [0.3, 0.5]);
                known.traffic.count(&Seen {
                    sites: SiteSet::of(sites[0]),
                    sample_weight: 10.0,
                    rows: [100, 0],
                    followers: SiteSet::EMPTY,
                    busy_us: 20.0,
                    held_us: 0.0,
                    took_us: 50.0,
                });
            }
            known.traffic.close(second * SECOND, &loads);
            known.costs.learn_load(known.traffic.site(sites[0]).rates, own[0]);
            let seen = Signals { served: 8000.0, across: 0.0, uneven: 0.1 };
            known.regime.see(second * SECOND, seen);
        }
        let situation = known.situation(20 * SECOND, &design, usize::MAX);
        CandidateDesign::best(&Situation { may_relieve, ..situation })
    }

    #[test]
    fn tenants_at_a_pressed_process_are_cut_apart_and_move() {
        let found = best([0.9, 0.4, 0.4], true).expect("other processes have time");
        let at_tenants = (0..12).map(|tenant| (T, Key::ints(&[tenant])));
        let at_tenants: Vec<_> = at_tenants.collect();
        assert!((2..5).contains(&found.cuts.len()), "{:?}", found.cuts);
        assert!(found.cuts.iter().all(|cut| at_tenants.contains(cut)), "{:?}", found.cuts);
        assert!(found.moves.len() >= 6 && found.serves > 1.1 * found.now);
        assert!(best([0.7, 0.4, 0.4], true).is_none(), "no process is pressed");
        assert!(best([0.9, 0.9, 0.9], true).is_none(), "all are");
        assert!(best([0.9, 0.4, 0.4], false).is_none(), "a plan like that was taken back");
    }
}
