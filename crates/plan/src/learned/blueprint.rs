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

use super::order::in_order;
use super::outlook::Capacity;
use super::planner::Situation;
use super::workload::Sample;
use crate::baseline::metis;
use crate::heat::HeatGraph;
use crate::problem::{Cost, Placement, Problem, Site};
use crate::strategy::{Need, needs};
use isomer_design::{Access, Change, Design, Key, KeyRange, SiteId, Step, TableId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// With fewer samples, there is nothing to divide.
const SAMPLES_MIN: usize = 500;
/// The most samples that judge.
const JUDGES_MAX: usize = 1024;
/// A sample that accesses more partitions than this (a scan of everything) ties nothing together.
const TOGETHER_MAX: usize = 32;
/// Larger designs are divided by what was sampled of them only.
const PARTITIONS_MAX: usize = 16_384;
/// How strongly neighbours belong together, in co-accesses.
const NEIGHBOURS: f64 = 0.25;
/// What nobody was seen to access counts as so many accesses.
const UNSEEN: f64 = 0.1;
/// METIS takes whole weights: one access is so much.
const UNIT: f64 = 100.0;
/// By which share a part may be heavier than the average: as even as can be, or less so.
const IMBALANCES: [f64; 2] = [0.1, 1.0];
/// The less even one has to be able to serve so many times as much.
const FAR_MORE: f64 = 1.5;

/// A blueprint is worth nothing that saves less than this share of what transactions take.
const WORTH: f64 = 0.1;
/// Partitions that move together.
const BATCH: usize = 128;

/// The pauses between two blueprints: after one that was adopted, and the longest after others.
const PAUSE_NS: (u64, u64) = (2_000_000_000, 20_000_000_000);

/// So much more of all transactions run over several sites than when the last blueprint was drawn: it is time
/// for another one.
const ASTRAY: f64 = 0.1;

/// What is still to be moved, and where to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blueprint {
    moves: VecDeque<((TableId, Key), SiteId)>,
    /// What each move takes and saves, on average.
    cost_us: f64,
    benefit_us: f64,
}

/// Partitions, how often they are accessed, and how they belong together.
#[derive(Default)]
struct Graph {
    partitions: Vec<Need>,
    numbers: BTreeMap<(TableId, Key), u32>,
    weights: Vec<f64>,
    edges: BTreeMap<(u32, u32), f64>,
}

/// A blueprint for what was sampled, if it is surely worth its cost.
fn draw(situation: &Situation<'_>) -> Option<Blueprint> {
    let samples = situation.outlook.workload.samples();
    let (propose, judge): (Vec<&Sample>, Vec<&Sample>) = samples.partition(|s| s.is_odd());
    let stride = judge.len().div_ceil(JUDGES_MAX).max(1);
    let judge: Vec<&Sample> = judge.into_iter().step_by(stride).collect();
    let judges = Judges::of(situation, judge);
    let graph = Graph::of(situation.design, &propose);
    let drafts = IMBALANCES.iter().filter_map(|&imbalance| {
        let moves = graph.divide(situation, imbalance)?;
        Draft::of(situation, &judges, moves)
    });
    // The more even one, unless the other can serve far more: a busy site is slow long before it is full.
    let better = |a: Draft, b: Draft| if b.capacity > FAR_MORE * a.capacity { b } else { a };
    adopted(situation, &judges, drafts.reduce(better)?)
}

/// Samples that judge.
struct Judges<'s> {
    samples: Vec<&'s Sample>,
    /// By what the bound of locks is too strict.
    leniency: f64,
    /// What can be served as it is.
    now: f64,
}

impl Judges<'_> {
    fn of<'s>(situation: &Situation<'_>, samples: Vec<&'s Sample>) -> Judges<'s> {
        let Capacity { sites, locks } = situation.outlook.capacity(&samples, situation.design);
        let leniency = (situation.outlook.traffic.transactions() / locks).max(1.0);
        Judges { samples, leniency, now: sites.min(leniency * locks) }
    }

    /// Transactions a second that a design can serve.
    fn capacity(&self, situation: &Situation<'_>, design: &Design) -> f64 {
        let Capacity { sites, locks } = situation.outlook.capacity(&self.samples, design);
        sites.min(self.leniency * locks)
    }

    /// What one of them took, in the mean, in microseconds.
    fn took_us(&self) -> f64 {
        self.samples.iter().map(|sample| sample.took_us()).sum::<f64>() / self.samples.len() as f64
    }
}

/// What could be moved, and the design after that.
struct Draft {
    moves: Vec<(Need, SiteId)>,
    after: Design,
    /// Transactions a second.
    capacity: f64,
}

impl Draft {
    fn of(
        situation: &Situation<'_>,
        judges: &Judges<'_>,
        moves: Vec<(Need, SiteId)>,
    ) -> Option<Draft> {
        let mut after = situation.design.clone();
        for (need, site) in &moves {
            for step in steps(need, *site, "") {
                after.apply(&step.change).ok()?;
            }
        }
        let capacity = judges.capacity(situation, &after);
        Some(Draft { moves, after, capacity })
    }
}

/// The blueprint of a draft, if the judges find that it pays.
fn adopted(situation: &Situation<'_>, judges: &Judges<'_>, draft: Draft) -> Option<Blueprint> {
    let Draft { moves, after, capacity } = draft;
    let costs = moves.iter().map(|(need, site)| situation.necessary_us(need, *site));
    let copies = moves.iter().map(|(need, site)| copying_us(situation, need, *site));
    let (cost_us, copying_us): (f64, f64) = (costs.sum(), copies.sum());
    let saved = situation.outlook.saved_by(&judges.samples, situation.design, &after);
    // What transactions take is known better than what they will: the model says which share of it is saved.
    let seconds = situation.options.horizon_ns as f64 / 1e9;
    let all_us = seconds * situation.outlook.traffic.transactions() * judges.took_us();
    let surely_us = saved.surely_us() / saved.of_us.max(1.0) * all_us;
    let pays = surely_us > copying_us;
    let serves = capacity >= (1.0 - WORTH) * judges.now;
    if !(pays && serves) || saved.us < WORTH * saved.of_us {
        return None;
    }
    let count = moves.len() as f64;
    let moves = moves.into_iter().map(|(need, site)| ((need.table, need.range.start), site));
    let (cost_us, benefit_us) = (cost_us / count, saved.us / count);
    Some(Blueprint { moves: moves.collect(), cost_us, benefit_us })
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
        if self.blueprint.moves.is_empty() && known && self.is_time(situation) {
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
    /// The next changes, about so many. What is gone or there already is passed over.
    fn next(&mut self, situation: &Situation<'_>) -> Vec<Step> {
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

impl Graph {
    fn of(design: &Design, samples: &[&Sample]) -> Graph {
        let footprints = samples.iter().map(|sample| needs(design, sample.footprint()));
        let mut footprints: Vec<Vec<Need>> = footprints.collect();
        let written = footprints.iter().flatten().filter(|need| need.access == Access::Write);
        let written: BTreeSet<TableId> = written.map(|need| need.table).collect();
        footprints.iter_mut().for_each(|needs| needs.retain(|n| written.contains(&n.table)));
        let mut graph = Graph::default();
        if design.partition_count() <= PARTITIONS_MAX {
            let everything = KeyRange::all();
            for table in written.iter().copied() {
                for (range, placement) in design.partitions_in(table, &everything) {
                    graph.number(&Need { table, range, access: Access::Write, placement });
                }
            }
        }
        for needs in &footprints {
            let together: Vec<u32> = needs.iter().map(|need| graph.number(need)).collect();
            together.iter().for_each(|&at| graph.weights[at as usize] += 1.0);
            if together.len() <= TOGETHER_MAX {
                graph.tie(&together);
            }
        }
        graph.tie_neighbours();
        graph
    }

    /// The number of a partition; what is new gets the next one, and weighs next to nothing.
    fn number(&mut self, need: &Need) -> u32 {
        let next = self.partitions.len() as u32;
        let at = *self.numbers.entry((need.table, need.range.start.clone())).or_insert(next);
        if at == next {
            self.partitions.push(need.clone());
            self.weights.push(UNSEEN);
        }
        at
    }

    /// Everything with everything; in all one for each of them.
    fn tie(&mut self, together: &[u32]) {
        let weight = 1.0 / (together.len().max(2) - 1) as f64;
        for (at, &a) in together.iter().enumerate() {
            for &b in &together[at + 1..] {
                *self.edges.entry((a.min(b), a.max(b))).or_insert(0.0) += weight;
            }
        }
    }

    fn tie_neighbours(&mut self) {
        for ((a, &at), (b, &next)) in self.numbers.iter().zip(self.numbers.iter().skip(1)) {
            if a.0 == b.0 {
                *self.edges.entry((at.min(next), at.max(next))).or_insert(0.0) += NEIGHBOURS;
            }
        }
    }

    /// What moves where if the graph is divided among the sites; `None` if it cannot be.
    fn divide(&self, situation: &Situation<'_>, imbalance: f64) -> Option<Vec<(Need, SiteId)>> {
        let sites: Vec<SiteId> = situation.design.sites().iter().collect();
        let index = |site: SiteId| sites.iter().position(|s| *s == site).unwrap_or(0) as Site;
        let masters = self.partitions.iter().map(|need| index(need.placement.master)).collect();
        let before = Placement::new(sites.len(), masters);
        let weights: Vec<f64> = self.weights.iter().map(|weight| weight * UNIT).collect();
        let edges: Vec<(u32, u32, f64)> =
            self.edges.iter().map(|(&(a, b), &weight)| (a, b, weight * UNIT)).collect();
        let graph = HeatGraph::from_parts(&weights, &edges).ok()?;
        let (placement, cost) = (&before, Cost::flat(1.0));
        let problem = Problem { graph: &graph, placement, cost, imbalance };
        let after = metis::plan(&problem, imbalance).ok()?.placement;
        let moved = after.moved_from(&before).map(|at| (at, after.site(at)));
        let moved = moved.filter(|(at, _)| {
            situation.outlook.is_accessed(&self.partitions[*at as usize].range_of())
        });
        let ordered = in_order(&graph, moved, BATCH).into_iter();
        let named =
            |(at, to): (u32, Site)| (self.partitions[at as usize].clone(), sites[usize::from(to)]);
        Some(ordered.map(named).collect())
    }
}
