//! Where everything would be if it could be placed anew: the design of all transactions together.
//!
//! What pays around one transaction ([`super::clump`]) finds what is better nearby. From masters placed by
//! chance, that comes to rest in pieces of some ten partitions, each good in itself, with borders between
//! them that no single step makes better. So once in a while all samples are looked at together, as Schism
//! does off line:
//!
//! ```text
//!   samples ─┬─ one half ──▶ graph   partitions, as heavy as they are accessed
//!            │                       edges: accessed together; a little between neighbours in key order
//!            │                │
//!            │              METIS    a part for each site, few edges cut; once with parts that are
//!            │                │      about equally heavy, and again with parts that are less so
//!            │              names    the parts become those sites where most of them is already
//!            │                │
//!            │             drafts    taken is the one that can serve most; of those alike, the most even
//!            │                ▼
//!            └─ other half ─▶ what would be saved? ── surely more than all moves cost ──▶ adopted
//! ```
//!
//! **One half proposes, the other judges**: a partitioner cuts around every sample it was shown, so on these
//! its answer looks better than it is. That is also what keeps it quiet: as soon as a new blueprint is no
//! better than the design is, none is adopted.
//!
//! **How even is best** depends on what has to stay together. If the keys after a hot spot are all accessed with
//! each other, a cut through them makes commits over several sites hold the hottest locks, and everybody waits; if
//! all stays at one site, that has no time left for anything else. Both are bounds on what a design can serve
//! ([`Outlook::capacity`](super::outlook::Outlook::capacity)), and both can be told from little: how long locks are
//! held by transactions at one site and by those over several, and what rows cost a site. What runs now is
//! possible: where the bound of locks says otherwise, it is too strict, and as much so for every draft.
//!
//! **Neighbours in key order** belong together a little, as long as nothing else is known: few samples are
//! enough where keys are accessed by ranges, and where they are not, a weak edge hinders nobody.
//!
//! An adopted blueprint is carried out in batches, each a decision in the journal; what belongs together moves
//! together ([`super::order`]). What no sample accesses stays where it is. As long as a blueprint is young, nothing
//! is split or replicated; and after the first one no transaction moves masters for its own sake any more.
//!
//! **Of its cost, only copying counts**: what grows with the rows. The rest of what a change takes is mostly its wait
//! for a lock that others hold anyhow. In a jam, where that is half a second, a design that would end the jam did
//! not seem to pay.
//!
//! **Not over and over**: a blueprint is drawn for the design as it will be when all that is on its way has
//! arrived, so that nothing that is being moved is moved elsewhere. After one that was not worth it the pause is
//! twice as long; it ends early if clearly more transactions run over several sites than when it began.
//!
//! **Left out**: tables that nobody writes are not placed; replicas of them come by themselves. Sites count
//! as equally strong.

use super::forecast::Network;
use super::grid::{Grid, Layout};
use super::order::in_order;
use super::planner::Situation;
use super::workload::Range;
use crate::baseline::metis;
use crate::heat::HeatGraph;
use crate::problem::{Cost, Placement, Problem, Site};
use crate::strategy::Need;
use isomer_design::{Access, Change, Key, KeyRange, SiteId, Step, TableId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// With fewer samples, there is nothing to divide.
const SAMPLES_MIN: usize = 500;
/// All that a sample accesses belongs together, each with each; of more than this, each with the next.
const TOGETHER_MAX: usize = 32;
/// A sample that accesses more partitions than this (a scan of everything) ties nothing together.
const CHAIN_MAX: usize = 1024;
/// How strongly neighbours belong together, in co-accesses.
const NEIGHBOURS: f64 = 0.25;
/// What nobody was seen to access counts as so many accesses.
const UNSEEN: f64 = 0.02;
/// METIS takes whole weights: one access is so much.
const UNIT: f64 = 1000.0;
/// By which share a part may be heavier than it should.
const IMBALANCE: f64 = 0.1;
/// What one site gets besides its equal share, as a share of the rest.
const BESIDES: [f64; 3] = [0.0, 0.25, 0.4];

/// What serves so many times as much is worth the trouble; between drafts, what is less even.
const CLEARLY: f64 = 1.25;
/// A lock that would be held for this share of the time is split.
const HELD_MAX: f64 = 0.1;
/// Into so many parts at once, and so often.
const PARTS_MAX: usize = 8;
const SPLIT_ROUNDS: usize = 2;
/// But not unless so many times as much is served then.
const SPLITS_PAY: f64 = 1.1;
/// Partitions that move together.
const BATCH: usize = 128;

/// The pauses between two blueprints: after one that was adopted, and the longest after others.
const PAUSE_NS: (u64, u64) = (2_000_000_000, 20_000_000_000);

/// So much more of all transactions run over several sites than when the last blueprint was drawn: it is time
/// for another one.
const ASTRAY: f64 = 0.1;

/// What is still to be moved, and where to; and what is to be split after that.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blueprint {
    moves: VecDeque<((TableId, Key), SiteId)>,
    splits: VecDeque<(TableId, Key)>,
    /// What each of them takes and saves, on average.
    cost_us: f64,
    benefit_us: f64,
}

/// How partitions belong together, and how heavy they are.
struct Graph<'g> {
    partitions: &'g [Need],
    weights: Vec<f64>,
    edges: BTreeMap<(u32, u32), f64>,
}

/// What could be moved and split, and what would be served then.
struct Draft {
    moves: Vec<(u32, SiteId)>,
    splits: Vec<(TableId, Key)>,
    /// Transactions a second.
    serves: f64,
}

/// A blueprint for what was sampled, if it promises clearly more than the design as it is, and that is worth its cost.
fn draw(situation: &Situation<'_>) -> Option<Blueprint> {
    let grid = Grid::of(situation.design, situation.outlook.workload.samples());
    let clients = situation.outlook.traffic.clients();
    let now = Network::of(&situation.outlook, &grid, &grid.layout()).per_second(clients);
    let graph = Graph::of(&grid);
    let divided = BESIDES.iter().filter_map(|besides| graph.divide(situation, *besides));
    let mut best: Option<Draft> = None;
    for moves in divided {
        let draft = Draft::of(situation, &grid, moves, clients);
        let rival = best.as_ref().map_or(now, |best| best.serves);
        if draft.serves > CLEARLY * rival {
            best = Some(draft);
        }
    }
    adopted(situation, &grid, best?, now)
}

impl Draft {
    /// With these moves, and splits where locks would be held for long.
    fn of(
        situation: &Situation<'_>,
        grid: &Grid<'_>,
        moves: Vec<(u32, SiteId)>,
        clients: f64,
    ) -> Draft {
        let mut layout = grid.layout();
        moves.iter().for_each(|(partition, site)| layout.bring(*partition, *site));
        let mut network = Network::of(&situation.outlook, grid, &layout);
        let unsplit = network.per_second(clients);
        let mut serves = unsplit;
        for _ in 0..SPLIT_ROUNDS {
            if !cut(situation, grid, &mut layout, &network.held(serves)) {
                break;
            }
            network = Network::of(&situation.outlook, grid, &layout);
            serves = network.per_second(clients);
        }
        if serves < SPLITS_PAY * unsplit {
            return Draft { moves, splits: Vec::new(), serves: unsplit };
        }
        let cuts = grid.partitions.iter().zip(layout.cuts);
        let splits = cuts.flat_map(|(need, cuts)| cuts.into_iter().map(|at| (need.table, at)));
        Draft { moves, splits: splits.collect(), serves }
    }
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
            let parts = (held[lock] / HELD_MAX).ceil();
            lock += 1;
            if parts > 1.0 {
                let keys = KeyRange::new(start.clone(), end.clone());
                let range = Range { table: need.table, keys };
                let parts = (parts as usize).min(PARTS_MAX);
                let found = situation.outlook.workload.cuts(&range, parts).into_iter();
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

/// The blueprint of a draft, if what it saves within the horizon is more than what copying takes.
fn adopted(
    situation: &Situation<'_>,
    grid: &Grid<'_>,
    draft: Draft,
    now: f64,
) -> Option<Blueprint> {
    let Draft { moves, splits, serves } = draft;
    let named: Vec<(&Need, SiteId)> =
        moves.iter().map(|(at, site)| (&grid.partitions[*at as usize], *site)).collect();
    let costs = named.iter().map(|(need, site)| situation.necessary_us(need, *site));
    let copies = named.iter().map(|(need, site)| copying_us(situation, need, *site));
    let (cost_us, copying_us): (f64, f64) = (costs.sum(), copies.sum());
    // What all clients take in this time, and which share of it a transaction will be sooner.
    let seconds = situation.options.horizon_ns as f64 / 1e9;
    let all_us = 1e6 * seconds * situation.outlook.traffic.clients();
    let saved_us = (1.0 - now / serves) * all_us;
    if saved_us <= copying_us {
        return None;
    }
    let count = (moves.len() + splits.len()).max(1) as f64;
    let moves = named.into_iter().map(|(n, site)| ((n.table, n.range.start.clone()), site));
    let (cost_us, benefit_us) = (cost_us / count, saved_us / count);
    Some(Blueprint { moves: moves.collect(), splits: splits.into(), cost_us, benefit_us })
}

/// What it takes to copy a partition to a site that has no copy of it.
fn copying_us(situation: &Situation<'_>, need: &Need, site: SiteId) -> f64 {
    let range = need.range_of();
    let each =
        need.changes(site).map(|c| situation.outlook.copying_us(&c, &range, &need.placement));
    each.sum()
}

/// What takes a partition to a site, and leaves nothing behind.
fn steps(need: &Need, site: SiteId, why: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = need.steps(site).collect();
    let (table, start) = (need.table, need.range.start.clone());
    steps.push(Step::new(Change::RemoveReplica { table, start, site: need.placement.master }, ""));
    steps.into_iter().map(|step| Step { reason: why.to_owned(), ..step }).collect()
}

/// The blueprint that is carried out, and when the next one is drawn.
#[derive(Clone, Debug)]
pub(crate) struct Drawing {
    blueprint: Blueprint,
    pause_ns: u64,
    last: Option<Last>,
    has_placed: bool,
}

/// When one was drawn last, and what came of it.
#[derive(Clone, Copy, Debug)]
struct Last {
    drawn_ns: u64,
    /// The share of transactions over several sites then.
    across: f64,
    adopted: bool,
}

impl Default for Drawing {
    fn default() -> Drawing {
        let (blueprint, pause_ns) = (Blueprint::default(), PAUSE_NS.0);
        Drawing { blueprint, pause_ns, last: None, has_placed: false }
    }
}

impl Drawing {
    /// True for a while after a blueprint was adopted, as nobody knows yet what it brings.
    pub(crate) fn is_young(&self, now_ns: u64) -> bool {
        self.last.is_some_and(|last| last.adopted && now_ns < last.drawn_ns + self.pause_ns)
    }

    /// True once a blueprint was adopted.
    pub(crate) fn has_placed(&self) -> bool {
        self.has_placed
    }

    /// The pause is over, or the workload has changed so that it should be.
    fn is_time(&self, situation: &Situation<'_>) -> bool {
        self.last.is_none_or(|last| {
            let is_astray = situation.outlook.traffic.across() > last.across + ASTRAY;
            let pause_ns = if is_astray { PAUSE_NS.0 } else { self.pause_ns };
            situation.now_ns >= last.drawn_ns + pause_ns
        })
    }

    /// The next changes: of the blueprint that was adopted, or of a new one if it is time.
    pub(crate) fn next(&mut self, situation: &Situation<'_>) -> Vec<Step> {
        let now_ns = situation.now_ns;
        // Where memory is short, nothing is brought anywhere.
        if !situation.outlook.traffic.full().is_empty() {
            return Vec::new();
        }
        let known = situation.outlook.workload.len() >= SAMPLES_MIN;
        if self.blueprint.is_done() && known && self.is_time(situation) {
            let design = situation.recent.foreseen(now_ns, situation.design);
            let drawn = draw(&Situation { design: &design, ..*situation });
            let longer = (self.pause_ns * 2).min(PAUSE_NS.1);
            self.pause_ns = if drawn.is_some() { PAUSE_NS.0 } else { longer };
            let (across, adopted) = (situation.outlook.traffic.across(), drawn.is_some());
            self.last = Some(Last { drawn_ns: now_ns, across, adopted });
            self.has_placed |= adopted;
            self.blueprint = drawn.unwrap_or_default();
        }
        self.blueprint.next(situation)
    }
}

impl Blueprint {
    fn is_done(&self) -> bool {
        self.moves.is_empty() && self.splits.is_empty()
    }

    /// The next changes, about so many. What is gone or there already is passed over.
    fn next(&mut self, situation: &Situation<'_>) -> Vec<Step> {
        if !self.moves.is_empty() {
            return self.next_moves(situation);
        }
        // What is split on its way leaves half of it behind.
        if situation.recent.is_moving(situation.now_ns) {
            return Vec::new();
        }
        let count = self.splits.len().min(BATCH).min(situation.budget);
        let why = "its lock would be held for too much of the time, by a blueprint for all that is accessed";
        let split = |(table, at)| Step::new(Change::Split { table, at }, why);
        let steps = self.splits.drain(..count).map(split);
        steps.map(|step| step.predicted(self.cost_us, self.benefit_us)).collect()
    }

    fn next_moves(&mut self, situation: &Situation<'_>) -> Vec<Step> {
        let mut batch = Vec::new();
        let why = "it belongs with what is there, by a blueprint for all that is accessed";
        for _ in 0..BATCH {
            if batch.len() >= situation.budget {
                break;
            }
            let Some(((table, start), site)) = self.moves.pop_front() else { break };
            let Some((range, placement)) = situation.design.partition_of(table, &start) else {
                continue;
            };
            let need = Need { table, range, access: Access::Write, placement };
            if need.range.start != start || need.placement.master == site {
                continue;
            }
            let share = need.steps(site).count() as f64 + 1.0;
            let predicted =
                |step: Step| step.predicted(self.cost_us / share, self.benefit_us / share);
            batch.extend(steps(&need, site, why).into_iter().map(predicted));
        }
        batch
    }
}

impl<'g> Graph<'g> {
    /// Of every other sample; only what somebody writes is placed.
    fn of(grid: &'g Grid<'_>) -> Graph<'g> {
        let partitions = &grid.partitions;
        let written = grid.laid.iter().flat_map(|laid| &laid.written);
        let tables: BTreeSet<TableId> = written.map(|at| partitions[*at as usize].table).collect();
        let is_placed = |at: u32| tables.contains(&partitions[at as usize].table);
        let weights =
            (0..partitions.len() as u32).map(|at| if is_placed(at) { UNSEEN } else { 0.0 });
        let mut graph = Graph { partitions, weights: weights.collect(), edges: BTreeMap::new() };
        for laid in grid.laid.iter().filter(|laid| laid.sample.is_odd()) {
            let all = laid.written.iter().chain(&laid.read).copied();
            let mut together: Vec<u32> = all.filter(|at| is_placed(*at)).collect();
            let key = |at: &u32| {
                let need = &partitions[*at as usize];
                (need.table, &need.range.start)
            };
            together.sort_by(|a, b| key(a).cmp(&key(b)));
            graph.tie(&together);
        }
        let neighbours: Vec<(TableId, u32)> = grid.in_order().collect();
        for pair in neighbours.windows(2) {
            if pair[0].0 == pair[1].0 && tables.contains(&pair[0].0) {
                graph.add(pair[0].1, pair[1].1, NEIGHBOURS);
            }
        }
        graph
    }

    /// A transaction weighs as much as any other, and what it accesses belongs together.
    fn tie(&mut self, together: &[u32]) {
        let each = 1.0 / together.len().max(1) as f64;
        together.iter().for_each(|at| self.weights[*at as usize] += each);
        if together.len() <= TOGETHER_MAX {
            // Everything with everything; in all one for each of them.
            let weight = 1.0 / (together.len().max(2) - 1) as f64;
            for (at, &a) in together.iter().enumerate() {
                together[at + 1..].iter().for_each(|&b| self.add(a, b, weight));
            }
        } else if together.len() <= CHAIN_MAX {
            together.windows(2).for_each(|pair| self.add(pair[0], pair[1], 1.0));
        }
    }

    fn add(&mut self, a: u32, b: u32, weight: f64) {
        *self.edges.entry((a.min(b), a.max(b))).or_insert(0.0) += weight;
    }

    /// What moves where if the graph is divided among the sites, one of which gets something besides; `None` if it
    /// cannot be.
    fn divide(&self, situation: &Situation<'_>, besides: f64) -> Option<Vec<(u32, SiteId)>> {
        let sites: Vec<SiteId> = situation.design.sites().iter().collect();
        let index = |site: SiteId| sites.iter().position(|s| *s == site).unwrap_or(0) as Site;
        let masters = self.partitions.iter().map(|need| index(need.placement.master)).collect();
        let before = Placement::new(sites.len(), masters);
        let weights: Vec<f64> = self.weights.iter().map(|weight| weight * UNIT).collect();
        let edges: Vec<(u32, u32, f64)> =
            self.edges.iter().map(|(&(a, b), &weight)| (a, b, weight * UNIT)).collect();
        let graph = HeatGraph::from_parts(&weights, &edges).ok()?;
        let (placement, cost, imbalance) = (&before, Cost::flat(1.0), IMBALANCE);
        let problem = Problem { graph: &graph, placement, cost, imbalance };
        let even = 1.0 / sites.len() as f64;
        let share = even + besides * (1.0 - even);
        let after = metis::place_unevenly(&problem, IMBALANCE, share).ok()?;
        let moved = after.moved_from(&before).map(|at| (at, after.site(at)));
        let moved = moved.filter(|(at, _)| {
            situation.outlook.is_accessed(&self.partitions[*at as usize].range_of())
        });
        let ordered = in_order(&graph, moved, BATCH).into_iter();
        Some(ordered.map(|(at, to)| (at, sites[usize::from(to)])).collect())
    }
}
