//! Clay on a schedule: every ten seconds its [planner](mod@crate::clay) evaluates the recorded
//! transactions, and its moves are executed. There are no replicas; transactions that no site can
//! run alone commit over several.
//!
//! ```text
//!   transactions of a period ──▶ heat graph over blocks ──▶ clumps that relieve overloaded sites
//!                                                                │ a plan for each clump
//!                        handed out one at a time with what runs ▼
//!                        split · add_replica · remaster · remove_replica
//! ```
//!
//! The laboratory uses it as a baseline. The strategy for databases is [`super::Elastic`], which
//! monitors first.

use crate::elastic::Planner;
use crate::elastic::away::Away;
use crate::elastic::planner::{Aim, plan};
use isomer_design::{Design, Footprint, Plan};
use isomer_strategy::{Decision, Refused, Request, Strategy, TwoPhase, Verdict};
use parking_lot::Mutex;
use std::collections::VecDeque;

/// The period: the paper's default.
const PERIOD_NS: u64 = 10_000_000_000;
/// The most transactions that are recorded in a period.
const RECORDED_MAX: usize = 100_000;
/// The load a site may have above the average (the paper's).
const IMBALANCE: f64 = 0.15;

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

/// Clay's moves, one plan per clump.
fn moves(design: &Design, recorded: &[Footprint]) -> Vec<Plan> {
    let recorded = (recorded, PERIOD_NS as f64 / 1e9);
    let aim = Aim::Relief { may_add: false };
    plan(Planner::Clay, (IMBALANCE, aim), design, recorded, &mut Away::default()).plans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::grid::tests::{S1, S2, T, design};
    use isomer_design::{Change, Key};

    /// Half of the written keys are at each of two sites; the read keys are at the first, in their
    /// own partitions.
    #[test]
    fn reads_of_data_with_copies_everywhere_move_nothing() {
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
