//! Clay at work: every ten seconds its [planner](mod@crate::clay) looks at what ran, and what it moves is
//! moved. No replicas; what no site can run commits over several.
//!
//! ```text
//!   transactions of a period ──▶ heat graph over blocks ──▶ clumps that relieve overloaded sites
//!                                                                │ a plan for each block
//!                        handed out one at a time with what runs ▼
//!                        split · add_replica · remaster · remove_replica
//! ```
//!
//! A **block** is a partition, except that a key with more than [`HOT`] of all accesses is one by itself, and
//! cuts its partition in three. (Clay's paper plans for tuples or for blocks; partitions here are small.) What is read where
//! every site has a copy binds nobody to a place, and is not in the graph: with the items of TPC-C in it, all warehouses
//! belonged together, and a plan left nine transactions in ten over several sites.

use crate::clay;
use crate::heat::{HeatBuilder, HeatGraph};
use crate::problem::{Cost, Draft, Placement, Problem};
use crate::recording::{KeyRef, KeyTable};
use isomer_design::{Access, Design, Footprint, Key, KeyRange, Plan, Span, TableId};
use isomer_strategy::{Decision, Refused, Request, Strategy, TwoPhase, Verdict};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// How often it plans: the paper's default.
const PERIOD_NS: u64 = 10_000_000_000;
/// A key with more than this share of all accesses is a block.
const HOT: f64 = 0.005;
/// More transactions than this are not recorded in a period.
const RECORDED_MAX: usize = 100_000;
/// The load a site may have above the average, and what a co-access across sites costs (the paper's).
const IMBALANCE: f64 = 0.15;
const ACROSS: f64 = 50.0;

/// See the [module documentation](self).
#[derive(Default, Debug)]
pub struct PeriodicClay(Mutex<State>);

#[derive(Default, Debug)]
struct State {
    ends_ns: Option<u64>,
    recorded: Vec<Footprint>,
    moves: VecDeque<Plan>,
}

impl Strategy for PeriodicClay {
    fn name(&self) -> &'static str {
        "clay"
    }

    fn decide(&self, request: &Request<'_>) -> Result<Verdict, Refused> {
        let Verdict::Run(decision) = TwoPhase.decide(request)? else { return Ok(Verdict::Reserve) };
        let mut state = self.0.lock();
        let now_ns = request.now.0;
        let ends_ns = *state.ends_ns.get_or_insert(now_ns + PERIOD_NS);
        if state.recorded.len() < RECORDED_MAX {
            state.recorded.push(request.footprint.clone());
        }
        if now_ns >= ends_ns {
            state.ends_ns = Some(now_ns + PERIOD_NS);
            let recorded = std::mem::take(&mut state.recorded);
            state.moves = moves(&(request.design)(), &recorded).into();
        }
        let deferred = state.moves.pop_front().unwrap_or_default();
        Ok(Verdict::Run(Decision { deferred, ..decision }))
    }

    fn memory(&self, _design: &Design) -> Option<String> {
        None
    }

    fn recall(&self, _memory: &str) -> Result<(), String> {
        Ok(())
    }
}

/// What Clay would move, a plan for each block.
fn moves(design: &Design, recorded: &[Footprint]) -> Vec<Plan> {
    let blocks = Blocks::of(design, recorded);
    let Some(graph) = blocks.heat(design, recorded) else { return Vec::new() };
    let placement = blocks.placement(design);
    let (cost, imbalance) = (Cost::flat(ACROSS), IMBALANCE);
    let problem = Problem { graph: &graph, placement: &placement, cost, imbalance };
    // It refuses to plan where there is nothing to plan for.
    let Ok(proposal) = clay::plan(&problem, &clay::Options::default()) else { return Vec::new() };
    let mut after = design.clone();
    let mut plans = Vec::new();
    for block in proposal.placement.moved_from(&placement) {
        let to = proposal.placement.site(block);
        let from = placement.site(block);
        let why = format!("clay moves it from s{} with what is accessed with it", from + 1);
        let mut draft = Draft::new(after.clone(), &why);
        if draft.move_all(vec![blocks.range(block as usize)], to, &why).is_ok() {
            let (design, plan) = draft.finish();
            plans.push(plan);
            after = design;
        }
    }
    plans
}

/// True if every site has a copy of a block.
fn is_everywhere(design: &Design, (table, start): &(TableId, Key)) -> bool {
    let found = design.partition_of(*table, start);
    found.is_some_and(|(_, placement)| placement.replicas.len() + 1 == design.sites().len())
}

/// Blocks in the order of tables and keys: where each begins.
struct Blocks(Vec<(TableId, Key)>);

impl Blocks {
    fn of(design: &Design, recorded: &[Footprint]) -> Blocks {
        let mut accesses: BTreeMap<(TableId, &Key), usize> = BTreeMap::new();
        for item in recorded.iter().flat_map(Footprint::items) {
            if let Span::Key(key) = &item.span {
                *accesses.entry((item.table, key)).or_default() += 1;
            }
        }
        let all: usize = accesses.values().sum();
        let hot = accesses.iter().filter(|(_, count)| **count as f64 > HOT * all as f64);
        let around =
            hot.flat_map(|((table, key), _)| [(*table, (*key).clone()), (*table, key.successor())]);
        let mut starts: Vec<(TableId, Key)> = around.collect();
        for (table, found) in design.tables() {
            starts.extend(found.partitions().into_iter().map(|(start, _)| (table, start.clone())));
        }
        starts.sort();
        starts.dedup();
        Blocks(starts)
    }

    fn range(&self, block: usize) -> (TableId, KeyRange) {
        let (table, start) = self.0[block].clone();
        let next = self.0.get(block + 1).filter(|next| next.0 == table);
        (table, KeyRange::new(start, next.map(|next| next.1.clone())))
    }

    /// The blocks of a footprint that can be touched at their master only.
    fn touched(&self, footprint: &Footprint, everywhere: &[bool]) -> Vec<u32> {
        let mut touched = Vec::new();
        for item in footprint.items() {
            let (table, start) = (item.table, item.span.start());
            let after = self.0.partition_point(|(t, at)| (*t, at) <= (table, start));
            let reached = self.0[after..].iter();
            let reached = reached.take_while(|(t, at)| *t == table && item.span.reaches(at));
            let last = after + reached.count();
            let blocks = after.saturating_sub(1)..last;
            let bound = blocks.filter(|at| item.access == Access::Write || !everywhere[*at]);
            touched.extend(bound.map(|at| at as u32));
        }
        touched
    }

    /// Who is accessed with whom; `None` if nothing was.
    fn heat(&self, design: &Design, recorded: &[Footprint]) -> Option<HeatGraph> {
        let everywhere: Vec<bool> =
            self.0.iter().map(|block| is_everywhere(design, block)).collect();
        let mut builder = HeatBuilder::new(self.0.len());
        for footprint in recorded {
            builder.transaction(self.touched(footprint, &everywhere));
        }
        let mut keys = KeyTable::new();
        for block in 0..self.0.len() as i64 {
            keys.intern("blocks", KeyRef::Int(block)).ok()?;
        }
        keys.sort();
        builder.finish(Arc::new(keys), PERIOD_NS as f64 / 1e9, None, 1.0).ok()
    }

    fn placement(&self, design: &Design) -> Placement {
        let site = |(table, start): &(TableId, Key)| {
            let found = design.partition_of(*table, start);
            found.map_or(0, |(_, placement)| placement.master.0 - 1)
        };
        Placement::new(design.sites().len(), self.0.iter().map(site).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::grid::tests::{S1, S2, T, design};
    use isomer_design::Change;

    /// Half of what is written lies at each of two sites, and what is read at the first, in its own partitions.
    #[test]
    fn what_is_read_where_every_site_has_a_copy_moves_nothing() {
        let mut design = design(&[100, 200, 300, 400, 500, 600, 700], S2);
        let starts = [100, 200, 300, 400, 500].map(Key::int);
        for start in starts.iter().cloned() {
            let table = T;
            let copied = Change::AddReplica { table, start: start.clone(), site: S1 };
            let moved = Change::Remaster { table, start: start.clone(), to: S1 };
            let alone = Change::RemoveReplica { table, start, site: S2 };
            [copied, moved, alone].iter().for_each(|change| design.apply(change).unwrap());
        }
        let transaction = |number: i64| match number % 2 {
            0 => Footprint::new().read(T, Key::int(number / 2 % 400)),
            _ => Footprint::new().write(T, Key::int(400 + number / 2 % 400)),
        };
        let recorded: Vec<Footprint> = (0..4000).map(transaction).collect();
        assert!(!moves(&design, &recorded).is_empty(), "the first site has too much to do");
        for start in [Key::min()].into_iter().chain(starts.into_iter().take(3)) {
            design.apply(&Change::AddReplica { table: T, start, site: S2 }).unwrap();
        }
        assert!(moves(&design, &recorded).is_empty(), "each site reads its own copies");
    }
}
