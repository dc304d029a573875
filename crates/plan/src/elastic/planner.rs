//! From recorded footprints to plans: a heat graph over blocks, a planner's proposal, and the
//! changes that carry it out.
//!
//! ```text
//!   footprints ─▶ blocks ─▶ heat graph ─┬─▶ what has cooled goes home   one plan, with merges
//!   design ────▶ placement ─────────────┴─▶ Clay, E-Store or DrTM+B     a plan for each clump
//! ```

use super::away::Away;
use super::blocks::{Blocks, HOT};
use crate::baseline::{drtmb, estore, metis};
use crate::heat::HeatGraph;
use crate::problem::{
    Cost, Draft, Loads, MappedError, Placement, PlanError, Problem, Proposal, Site, plural,
};
use crate::{clay, recording::Vertex};
use isomer_design::{
    Change, Design, Footprint, Key, KeyRange, Plan, SITES_MAX, SiteId, SiteSet, Span, TableId,
};
use std::fmt;
use std::str::FromStr;

/// The cost of a co-access across sites, in accesses (Clay's paper, section 8).
const ACROSS: f64 = 50.0;

/// The ranges into which [`Aim::Together`] cuts what is accessed.
const RANGES: usize = 64;

/// The algorithm that decides the moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planner {
    /// Moves clumps of co-accessed blocks.
    Clay,
    /// Moves hot blocks, by accesses alone.
    EStore,
    /// Promotes backups to masters; the rest is copied.
    DrTmB,
}

impl Planner {
    /// All planners.
    pub const ALL: [Planner; 3] = [Planner::Clay, Planner::EStore, Planner::DrTmB];

    /// The name that selects it.
    pub fn name(self) -> &'static str {
        match self {
            Planner::Clay => "clay",
            Planner::EStore => "estore",
            Planner::DrTmB => "drtmb",
        }
    }
}

impl fmt::Display for Planner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Planner {
    type Err = String;

    fn from_str(text: &str) -> Result<Planner, String> {
        let found = Planner::ALL.into_iter().find(|planner| planner.name() == text);
        found.ok_or_else(|| format!("`{text}` is no planner; there are: clay, estore, drtmb"))
    }
}

/// Blocks that move together.
#[derive(Clone, PartialEq, Debug)]
pub struct Moves {
    /// The blocks.
    pub blocks: Vec<usize>,
    /// The destination.
    pub to: SiteId,
    /// The reason, in words.
    pub reason: String,
}

/// The aim of plans.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aim {
    /// End an overload. If no move helps and a site may be added, the plan adds one.
    Relief {
        /// True if a site may be added.
        may_add: bool,
    },
    /// Empty a site and remove it.
    Removal(SiteId),
    /// Bring together what is accessed together, with the accesses spread evenly.
    Together,
}

/// The plans for a recording.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Planned {
    /// The plans; each applies to the design that the one before it leads to.
    pub plans: Vec<Plan>,
    /// The load of the most loaded site in multiples of the mean, now and afterwards. As in Clay, a
    /// co-access across sites counts as 50 accesses.
    pub imbalance: [f64; 2],
    /// The share of co-accesses across sites, now and afterwards.
    pub across: [f64; 2],
    /// Further remarks.
    pub notes: Vec<String>,
}

/// The placement and heat of all blocks.
struct Situation<'a> {
    design: &'a Design,
    blocks: &'a Blocks,
    graph: &'a HeatGraph,
    sites: SiteSet,
}

/// Plans for the footprints recorded in `seconds` seconds. Moves and returns home are noted in
/// `away`.
pub fn plan(
    planner: Planner,
    (imbalance, aim): (f64, Aim),
    design: &Design,
    (recorded, seconds): (&[Footprint], f64),
    away: &mut Away,
) -> Planned {
    let sites: SiteSet = design.sites().iter().collect();
    if let Aim::Removal(site) = aim {
        away.forget_home(site);
    }
    let mut kept: Vec<_> = away.iter().map(|moved| (moved.table, moved.range.clone())).collect();
    if aim == Aim::Together {
        kept.extend(even_ranges(recorded));
    }
    let kept = kept.iter().map(|(table, range)| (*table, range));
    let hot = match planner {
        _ if aim == Aim::Together => HOT,
        Planner::Clay | Planner::EStore => HOT,
        // Backups are of whole partitions. Only a key that would fill a site by itself is cut out.
        Planner::DrTmB => 1.0 / sites.len() as f64,
    };
    let blocks = Blocks::of(design, recorded, hot, kept);
    let Some(graph) = blocks.heat(design, recorded, seconds) else { return Planned::default() };
    let placement = blocks.placement(design, &sites);
    let now = Situation { design, blocks: &blocks, graph: &graph, sites };
    let home = now.cooled(away);
    let mut returned = placement.clone();
    home.iter().for_each(|moves| now.place(&mut returned, moves));
    let cost = Cost::flat(ACROSS);
    let problem = Problem { graph: &graph, placement: &returned, cost, imbalance };
    let proposal = match aim {
        Aim::Relief { .. } => propose(planner, &problem, &now),
        Aim::Together => metis::plan(&problem, imbalance),
        Aim::Removal(site) => clay::evacuate(&problem, now.at(site)),
    };
    let (after, proposed, mut notes) = match proposal {
        Ok(proposal) => {
            let moves = now.moves(&returned, &proposal, aim);
            (proposal.placement, moves, proposal.notes)
        }
        Err(error) => (returned, Vec::new(), vec![error.to_string()]),
    };
    let mut sequence =
        Sequence { before: design, after: design.clone(), plans: Vec::new(), notes: &mut notes };
    home.iter().for_each(|moves| sequence.make(&now, moves, away));
    sequence.heal(away);
    proposed.iter().for_each(|moves| sequence.make(&now, moves, away));
    match aim {
        Aim::Relief { may_add: true } if sequence.plans.is_empty() => sequence.add_site(),
        Aim::Relief { .. } | Aim::Together => {}
        Aim::Removal(site) => sequence.remove_site(site),
    }
    let plans = sequence.plans;
    let share = |placement: &Placement| across(&graph, placement);
    let times = |placement: &Placement| times_mean(&Loads::of(&graph, placement, cost));
    Planned {
        plans,
        imbalance: [&placement, &after].map(times),
        across: [&placement, &after].map(share),
        notes,
    }
}

/// Ranges with about the same number of accesses each, [`RANGES`] of all tables.
fn even_ranges(recorded: &[Footprint]) -> Vec<(TableId, KeyRange)> {
    let mut keys: Vec<(TableId, &Key)> = Vec::new();
    for item in recorded.iter().flat_map(Footprint::items) {
        if let Span::Key(key) = &item.span {
            keys.push((item.table, key));
        }
    }
    keys.sort_unstable();
    let step = (keys.len() / RANGES).max(1);
    let cuts: Vec<_> = keys.into_iter().step_by(step).collect();
    let range = |two: &[(TableId, &Key)]| {
        let [(table, from), (next, to)] = [two[0], two[1]];
        let is_range = table == next && from < to;
        is_range.then(|| (table, KeyRange::new(from.clone(), Some(to.clone()))))
    };
    cuts.windows(2).filter_map(range).collect()
}

fn propose(
    planner: Planner,
    problem: &Problem<'_>,
    now: &Situation<'_>,
) -> Result<Proposal, PlanError> {
    match planner {
        Planner::Clay => clay::plan(problem, &clay::Options::default()),
        // Blocks are few: all of them are tracked one by one, and cold ones move one at a time.
        Planner::EStore => estore::plan(problem, estore::Options { hot_share: 1.0, chunk_keys: 1 }),
        Planner::DrTmB => drtmb::plan_over_backups(problem, 1.0, &|block| now.backups(block)),
    }
}

impl Situation<'_> {
    fn site(&self, at: Site) -> SiteId {
        self.sites.nth(usize::from(at)).expect("a place of a site")
    }

    fn at(&self, site: SiteId) -> Site {
        let at = self.sites.iter().position(|other| other == site);
        at.expect("sites that moves name are there") as Site
    }

    /// The sites that hold a replica of a block.
    fn backups(&self, block: Vertex) -> Vec<Site> {
        let placement = self.blocks.placement_of(self.design, block as usize);
        let replicas = placement
            .into_iter()
            .flat_map(|placement| placement.replicas.iter().collect::<Vec<_>>());
        replicas.filter(|site| self.sites.contains(*site)).map(|site| self.at(site)).collect()
    }

    fn place(&self, placement: &mut Placement, moves: &Moves) {
        let to = self.at(moves.to);
        moves.blocks.iter().for_each(|block| placement.set(*block as Vertex, to));
    }

    fn accesses(&self, blocks: &[usize]) -> f64 {
        let of = |block: &usize| self.graph.accesses(*block as Vertex);
        blocks.iter().map(of).sum::<f64>() / self.graph.seconds().max(f64::MIN_POSITIVE)
    }

    /// The moved blocks that have cooled, by home.
    fn cooled(&self, away: &Away) -> Vec<Moves> {
        let all: f64 = (0..self.graph.len() as Vertex).map(|v| self.graph.accesses(v)).sum();
        let share = |block: usize| self.graph.accesses(block as Vertex) / all.max(1.0);
        let mut home: Vec<Moves> = Vec::new();
        for (block, to) in away.cooled(self.blocks, share, HOT / 2.0) {
            match home.iter_mut().find(|moves| moves.to == to) {
                Some(moves) => moves.blocks.push(block),
                None if self.sites.contains(to) => {
                    let reason = "it has cooled, and goes home".to_owned();
                    home.push(Moves { blocks: vec![block], to, reason });
                }
                None => {}
            }
        }
        home
    }

    /// The moves of a proposal.
    fn moves(&self, before: &Placement, proposal: &Proposal, aim: Aim) -> Vec<Moves> {
        let mut moves = Vec::new();
        for proposed in &proposal.moves {
            let is_last = |block: &&Vertex| proposal.placement.site(**block) == proposed.to;
            let blocks = proposed.keys.iter().filter(is_last).map(|block| *block as usize);
            let blocks: Vec<usize> =
                blocks.filter(|block| before.site(*block as Vertex) != proposed.to).collect();
            let Some(first) = blocks.first() else { continue };
            let from = self.site(before.site(*first as Vertex));
            let what = self.blocks.label(self.design, *first);
            let rate = self.accesses(&blocks);
            let reason = match (aim, blocks.len()) {
                (Aim::Removal(site), _) => {
                    format!("{site} is not needed; {rate:.0} accesses/s go elsewhere")
                }
                (Aim::Together, all) => {
                    let all = plural(all, "range");
                    format!(
                        "{all} from {what} on, with {rate:.0} accesses/s, are used with what is there"
                    )
                }
                (_, 1) => format!("{what} has {rate:.0} accesses/s, and {from} too many"),
                (_, all) => format!(
                    "{what} and {} that are accessed with it have {rate:.0} accesses/s, and {from} too many",
                    plural(all - 1, "other")
                ),
            };
            moves.push(Moves { blocks, to: self.site(proposed.to), reason });
        }
        moves
    }

    fn remember(&self, moves: &Moves, away: &mut Away) {
        for block in &moves.blocks {
            let placement = self.blocks.placement_of(self.design, *block);
            let Some(from) = placement.map(|placement| placement.master) else { continue };
            let (table, range) = self.blocks.range(*block);
            away.moved(table, &range, from, moves.to);
        }
    }
}

/// Plans, one after the other.
struct Sequence<'n> {
    before: &'n Design,
    /// The design after the plans.
    after: Design,
    plans: Vec<Plan>,
    notes: &'n mut Vec<String>,
}

impl Sequence<'_> {
    /// Adds the plan that carries out `moves`, and records its moves and cuts in `away`.
    fn make(&mut self, now: &Situation<'_>, moves: &Moves, away: &mut Away) {
        let ranges = now.blocks.ranges(moves);
        if self
            .try_plan(&moves.reason, away, |draft| draft.move_all(ranges, moves.to, &moves.reason))
        {
            now.remember(moves, away);
        }
    }

    /// Adds a plan that merges cuts with equal sides.
    fn heal(&mut self, away: &mut Away) {
        let mut cuts = std::mem::take(away);
        let reason = "what was cut is alike on both sides";
        self.try_plan(reason, away, |draft| {
            // A table may have been dropped.
            cuts.retain_cuts(|(table, at)| !matches!(draft.heal(*table, at), Ok(true) | Err(_)));
            Ok(())
        });
        *away = cuts;
    }

    /// Adds the plan of a new, empty site.
    fn add_site(&mut self) {
        let site = (1..=SITES_MAX).map(SiteId).find(|site| !self.after.sites().contains(*site));
        let change = site.map(|site| Change::AddSite { site });
        self.change_sites(change, "no move gives relief");
    }

    /// Adds the plans that drop the copies of a site without masterships, and then the site.
    fn remove_site(&mut self, site: SiteId) {
        let reason = format!("{site} is not needed");
        let away = &mut Away::default();
        if self.try_plan(&reason, away, |draft| draft.drop_copies(site, &reason)) {
            self.change_sites(Some(Change::RemoveSite { site }), &reason);
        }
    }

    fn change_sites(&mut self, change: Option<Change>, reason: &str) {
        self.try_plan(reason, &mut Away::default(), |draft| {
            change.map_or(Ok(()), |change| draft.push(change, reason))
        });
    }

    /// Adds a plan that `make` fills, and records its cuts in `away`. False if it is impossible.
    ///
    /// The draft takes the design, which stays the only one of its kind: a copy for each of many
    /// plans would copy the list of all partitions each time.
    fn try_plan(
        &mut self,
        reason: &str,
        away: &mut Away,
        make: impl FnOnce(&mut Draft) -> Result<(), MappedError>,
    ) -> bool {
        let mut draft = Draft::new(std::mem::replace(&mut self.after, self.before.clone()), reason);
        let made = make(&mut draft);
        let (after, plan) = draft.finish();
        if let Err(error) = made {
            self.notes.push(format!("{reason}: {error}"));
            let done = self.plans.iter().flat_map(Plan::changes);
            done.for_each(|change| {
                let _ = self.after.apply(change);
            });
            return false;
        }
        self.after = after;
        for step in &plan.steps {
            if let Change::Split { table, at } = &step.change {
                away.cut(*table, at.clone());
            }
        }
        if !plan.steps.is_empty() {
            self.plans.push(plan);
        }
        true
    }
}

fn times_mean(loads: &Loads) -> f64 {
    if loads.mean() > 0.0 { loads.max() / loads.mean() } else { 1.0 }
}

/// The share of co-accesses across sites.
fn across(graph: &HeatGraph, placement: &Placement) -> f64 {
    let (mut all, mut across) = (0.0, 0.0);
    for vertex in 0..graph.len() as Vertex {
        for (other, weight) in graph.neighbours(vertex) {
            all += weight;
            if placement.site(vertex) != placement.site(other) {
                across += weight;
            }
        }
    }
    if all > 0.0 { across / all } else { 0.0 }
}
