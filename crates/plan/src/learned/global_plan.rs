//! The global plan: the best placement of everything at once.
//!
//! Local improvement around single transactions ([`super::planner`]) ends in a local optimum. From
//! randomly placed masters it stops with fragments of some ten partitions, whose borders no single
//! step improves. So from time to time all samples are partitioned together. This also replaces the
//! piggybacking of the paper (5.3.3), which moves further partitions along with those of single
//! transactions:
//!
//! ```text
//!   samples ─▶ candidates ─▶ the best ── large gain, worth its copies? ─▶ adopted
//!                                                                            │
//!   journal ◀──── in batches ◀──── cuts; moves; when all have arrived, splits ◀┘
//! ```
//!
//! **When.** A plan is drawn while transactions are distributed, or a process is pressed
//! ([`super::traffic`]) and a second one is not. So a database that begins at one node spreads,
//! also if no transaction is distributed there.
//!
//! An adopted plan is executed in batches, each a decision in the journal. One that is only shown
//! or proposed is a whole ([`GlobalPlan::whole`]). Partitions that no sample accesses stay. While a
//! plan is on probation nothing else is replicated and only hot locks are split. Once a plan has
//! moved a master, single transactions move none. A plan that only rebalances
//! ([`super::candidate_design`]) restricts nothing.
//!
//! **A global plan takes 0.1 s or more to compute.** So it is drawn on a thread of its own, on a
//! copy of the knowledge ([`super::known`]): [`GlobalPlanner::begin`], [`GlobalPlan::draw`],
//! [`GlobalPlanner::end`].
//!
//! **Only copying counts as cost.** The rest of a change's time is mostly a wait for a lock that is
//! held anyway. Under overload that wait is half a second, and at that price a plan that ends the
//! overload would not seem to pay off.
//!
//! **Damping.**
//!
//! - A plan is drawn for the design with all changes in flight applied, so nothing is moved twice.
//! - After a plan that was not adopted the pause doubles. It ends at once if a hot spot has moved
//!   ([`super::regime`]).
//! - If throughput after a plan is clearly lower than before, the plan is rolled back
//!   ([`super::trial`]). The next one is drawn after the longest pause, because the same forecast
//!   would promise too much again. For a pressed process none is drawn then until the workload
//!   changes: clients may be connected there, and reach their rows over the network now.

use super::Range;
use super::candidate_design::CandidateDesign;
use super::known::{Known, Situation};
use super::trial::Trial;
use super::tuning::Tuning;
use isomer_design::{Access, Change, Key, SiteId, Step, TableId};
use isomer_strategy::Need;
use std::collections::VecDeque;

/// The remaining cuts between parts that move and parts that stay, the moves, and the splits that
/// follow them.
#[derive(Clone, Debug, Default)]
pub(crate) struct GlobalPlan {
    cuts: VecDeque<(TableId, Key)>,
    moves: VecDeque<(Range, SiteId)>,
    splits: VecDeque<(TableId, Key)>,
    why: String,
    /// True if it only relieves full sites.
    is_rebalance: bool,
    /// The cost and the saving of each change, on average.
    cost_us: f64,
    benefit_us: f64,
}

/// A global plan, and the former masters of the ranges it moves.
pub(crate) type Drawn = (GlobalPlan, Vec<(Range, SiteId)>);

/// The global plan in execution, and the schedule of the next one.
#[derive(Clone, Debug, Default)]
pub(crate) struct GlobalPlanner {
    pub(crate) global_plan: GlobalPlan,
    trial: Option<Trial>,
    pause_ns: u64,
    last: Option<Last>,
    /// True once a plan was rolled back, until the workload changes.
    was_worse: bool,
    /// True once a master has moved by an adopted global plan.
    has_moved: bool,
}

/// The time and the result of the last drawing.
#[derive(Clone, Copy, Debug)]
struct Last {
    drawn_ns: u64,
    /// Transactions per second at that time, if known.
    served: Option<f64>,
    /// `None` while it is drawn.
    adopted: Option<bool>,
}

impl GlobalPlanner {
    /// True for a while after a global plan was adopted, until its effect is known.
    pub(crate) fn in_probation(&self, now_ns: u64) -> bool {
        self.was_adopted() && self.last.is_some_and(|last| now_ns < last.drawn_ns + self.pause_ns)
    }

    /// True while no global plan has placed masters, nor is about to: single transactions may move
    /// them. A plan whose changes operators withhold has placed nothing.
    pub(crate) fn leaves_masters_free(&self, now_ns: u64) -> bool {
        !self.has_moved && self.global_plan.is_done() && !self.in_probation(now_ns)
    }

    /// A master has moved.
    pub(crate) fn moved(&mut self) {
        self.has_moved |= self.was_adopted();
    }

    fn was_adopted(&self) -> bool {
        self.last.is_some_and(|last| last.adopted == Some(true))
    }

    /// True until the first drawing for this workload has ended, if there are samples enough for
    /// one.
    pub(crate) fn is_expected(&self, known: &Known) -> bool {
        known.workload.len() >= known.tuning.plan_samples_min
            && self.last.is_none_or(|last| last.adopted.is_none())
    }

    /// True if a plan may relieve a pressed process. Without a throughput from before, nothing
    /// would tell whether it was worth it.
    pub(crate) fn may_relieve(&self, known: &Known) -> bool {
        !self.was_worse && known.regime.served().is_some()
    }

    /// True if the pause is over.
    fn is_time(&self, situation: &Situation<'_>) -> bool {
        self.last.is_none_or(|last| situation.now_ns >= last.drawn_ns + self.pause_ns)
    }

    /// The workload has changed: earlier attempts say nothing about it.
    pub(crate) fn regime_changed(&mut self) {
        (self.pause_ns, self.last, self.trial, self.was_worse) = (0, None, None, false);
    }

    /// Returns true if a global plan is to be drawn now, and judges the last one.
    pub(crate) fn begin(&mut self, situation: &Situation<'_>) -> bool {
        self.judge(situation);
        let Situation { now_ns, known, .. } = *situation;
        let workload = &known.workload;
        let has_enough = workload.len() >= known.tuning.plan_samples_min;
        let is_known = has_enough && workload.reservoir.renewed.is_none();
        let is_pressed =
            self.may_relieve(known) && known.traffic.is_pressed(known.tuning.full_from);
        let is_needed = is_known && (known.traffic.across > 0.0 || is_pressed);
        if !is_needed || !self.global_plan.is_done() || !self.is_time(situation) {
            return false;
        }
        let served = known.regime.served();
        self.last = Some(Last { drawn_ns: now_ns, served, adopted: None });
        true
    }

    /// Ends a drawing that was [begun](GlobalPlanner::begin), and adopts the plan if there is one.
    pub(crate) fn end(&mut self, tuning: &Tuning, drawn: Option<Drawn>) {
        let least_ns = tuning.signal_ns();
        // Unless everything was placed anew, the design differs from the old one by a few borders
        // only.
        self.pause_ns = (2 * self.pause_ns).clamp(least_ns, Tuning::PLAN_PAUSE_MAX_NS);
        let last = self.last.as_mut().expect("it was begun");
        last.adopted = Some(false);
        let Some((global_plan, masters)) = drawn else { return };
        self.trial = last.served.map(|before| Trial::new(before, masters));
        if !global_plan.is_rebalance {
            (self.pause_ns, last.adopted) = (least_ns, Some(true));
        }
        self.global_plan = global_plan;
    }

    /// Rolls back the last global plan if throughput has fallen since.
    fn judge(&mut self, situation: &Situation<'_>) {
        let Some(mut trial) = self.trial.take() else { return };
        let Situation { now_ns, known, .. } = *situation;
        if !known.traffic.full().is_empty() {
            // Throughput then depends on the evictions for lack of memory.
            return;
        }
        let is_carried_out = self.global_plan.is_done() && !known.recent.is_moving(now_ns);
        match trial.judge(now_ns, is_carried_out, known.regime.served(), &known.tuning) {
            None => self.trial = Some(trial),
            Some(after) if trial.is_worse(after, &known.tuning) => {
                (self.pause_ns, self.was_worse) = (Tuning::PLAN_PAUSE_MAX_NS, true);
                self.last =
                    self.last.map(|last| Last { drawn_ns: now_ns, adopted: Some(false), ..last });
                self.global_plan = GlobalPlan::back(trial, after);
            }
            Some(_) => {}
        }
    }
}

impl GlobalPlan {
    /// Draws the best candidate as a global plan, if its saving within the horizon exceeds the cost
    /// of copying and it meets the required gain. Takes 0.1 s or more.
    pub(crate) fn draw(situation: &Situation<'_>) -> Option<Drawn> {
        let design = situation.known.recent.with_in_flight(situation.now_ns, situation.design);
        let situation = &Situation { design: &design, ..*situation };
        let CandidateDesign { cuts, moves, splits, is_rebalance, serves, now, .. } =
            CandidateDesign::best(situation)?;
        let costs = moves.iter().map(|(need, site)| situation.necessary_us(need, *site));
        let copies = moves.iter().map(|(need, site)| situation.known.copying_us(need, *site));
        let (cost_us, copying_us): (f64, f64) = (costs.sum(), copies.sum());
        // The time of all clients within the horizon, and the share of it that is saved.
        let seconds = situation.known.tuning.horizon_ns as f64 / 1e9;
        let all_us = 1e6 * seconds * situation.known.traffic.clients();
        let saved_us = (1.0 - now / serves) * all_us;
        if saved_us <= copying_us {
            return None;
        }
        let count = (cuts.len() + moves.len() + splits.len()).max(1) as f64;
        let masters =
            moves.iter().rev().map(|(need, _)| (Range::of(need), need.placement.master)).collect();
        let moves = moves.into_iter().map(|(need, site)| (Range::of(&need), site)).collect();
        let (cost_us, benefit_us) = (cost_us / count, saved_us / count);
        let why = match is_rebalance {
            true => "its site is full, and that one has time for it",
            false => "it belongs with what is there, by a global plan for all that is accessed",
        };
        let (why, cuts, splits) = (why.to_owned(), cuts.into(), splits.into());
        Some((GlobalPlan { cuts, moves, splits, why, is_rebalance, cost_us, benefit_us }, masters))
    }

    /// The plan that moves everything back to its former masters.
    fn back(trial: Trial, after: f64) -> GlobalPlan {
        let (moves, before) = (trial.masters.into(), trial.before);
        let why = format!(
            "it was better where it was: {before:.0} transactions a second before a global plan, {after:.0} since"
        );
        GlobalPlan { moves, why, ..GlobalPlan::default() }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.cuts.is_empty() && self.moves.is_empty() && self.splits.is_empty()
    }

    /// The next changes, about `situation.budget` of them. Moves are skipped if they are no longer
    /// possible or necessary, or if the target has no memory for them.
    pub(crate) fn next(&mut self, situation: &Situation<'_>) -> Vec<Step> {
        let GlobalPlan { cuts, moves, splits, cost_us, benefit_us, .. } = self;
        let recent = &situation.known.recent;
        let (splits, why) = if !cuts.is_empty() {
            (cuts, "its parts belong to several sites, by a global plan for all that is accessed")
        } else if !moves.is_empty() {
            // A whole partition would move in place of its part.
            let is_cut = !recent.is_splitting(situation.now_ns);
            return if is_cut { self.next_moves(situation) } else { Vec::new() };
        } else if recent.is_moving(situation.now_ns) {
            // A split during a move would leave half of the partition behind.
            return Vec::new();
        } else {
            (
                splits,
                "its lock would be held for too long, by a global plan for all that is accessed",
            )
        };
        let count = splits.len().min(situation.budget);
        let split = |(table, at)| Step::new(Change::Split { table, at }, why);
        let steps = splits.drain(..count).map(split);
        steps.map(|step| step.predicted(*cost_us, *benefit_us)).collect()
    }

    /// All changes, each as possible after those before it. Empty while an earlier change is in
    /// flight, because the plan is for the design after that.
    pub(crate) fn whole(&mut self, situation: &Situation<'_>) -> Vec<Step> {
        let Situation { now_ns, known, .. } = *situation;
        if known.recent.is_splitting(now_ns) || known.recent.is_moving(now_ns) {
            return Vec::new();
        }
        let (mut design, mut all) = (situation.design.clone(), Vec::new());
        while !self.is_done() {
            let mut steps =
                self.next(&Situation { design: &design, budget: usize::MAX, ..*situation });
            steps.retain(|step| design.apply(&step.change).is_ok());
            all.append(&mut steps);
        }
        all
    }

    fn next_moves(&mut self, situation: &Situation<'_>) -> Vec<Step> {
        let mut batch = Vec::new();
        let why = self.why.clone();
        while batch.len() < situation.budget {
            let Some((Range { table, keys }, site)) = self.moves.pop_front() else { break };
            if situation.known.traffic.site(site).is_full {
                continue;
            }
            let parts = situation.design.partitions_in(table, &keys);
            let moved = parts.filter(|(part, at)| part.start >= keys.start && at.master != site);
            for (range, placement) in moved {
                let need = Need { table, range, access: Access::Write, placement };
                let share = need.steps(site).count() as f64 + 1.0;
                let predicted =
                    |step: Step| step.predicted(self.cost_us / share, self.benefit_us / share);
                batch.extend(need.move_to(site, &why).into_iter().map(predicted));
            }
        }
        batch
    }
}
