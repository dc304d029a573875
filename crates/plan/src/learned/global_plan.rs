//! The global plan: where everything would be if it could be placed anew.
//!
//! Local improvement around single transactions ([`super::planner`]) ends in a local optimum: from
//! masters placed by chance it stops with pieces of some ten partitions, whose borders no single
//! step improves. So once in a while all samples are partitioned together; what the paper moves along with
//! single transactions' partitions (5.3.3, piggybacking) is brought together here:
//!
//! ```text
//!   samples ─▶ candidates ─▶ the best ── large gain, worth its copies? ─▶ adopted
//!                                                                            │
//!   journal ◀── batches of 128 ◀── moves first; when all have arrived, splits ◀┘
//! ```
//!
//! An adopted plan is carried out in batches, each a decision in the journal. Partitions that no
//! sample accesses stay.
//! While a plan is on probation nothing else is replicated and only hot locks are split. After the
//! first plan, single transactions no longer move masters. A plan that only rebalances
//! ([`super::rebalance`]) restricts nothing.
//!
//! **GlobalPlanner takes 0.1 s or more**, so it runs on a thread of its own, on a copy of what is known
//! ([`super::known`]): [`GlobalPlanner::begin`], [`GlobalPlan::draw`], [`GlobalPlanner::end`].
//!
//! **Only copying counts as cost.** The rest of a change's time is mostly waiting for a lock that
//! others hold anyway. Under overload that is half a second, and at that price a plan that would
//! end the overload did not seem to pay.
//!
//! **Damping.**
//!
//! - A plan is drawn for the design with all changes in flight applied, so nothing is moved twice.
//! - After a plan that was not adopted the pause doubles. It ends at once if a hot spot has moved
//!   ([`super::regime`]).
//! - Each recent adoption raises the gain that the next plan must predict: a forecast that promises
//!   too much would do so again.
//! - If clearly less is served after a plan than before it, it is rolled back ([`super::trial`]).

use super::Range;
use super::candidate_design::{CandidateDesign, RequiredGain};
use super::known::Situation;
use super::trial::{Trial, TrialOutcome};
use super::tuning::Tuning;
use isomer_design::{Access, Change, Key, SiteId, Step, TableId};
use isomer_strategy::Need;
use std::collections::VecDeque;

/// What is still to be moved, and where to; and what is to be split after that.
#[derive(Clone, Debug, Default)]
pub(crate) struct GlobalPlan {
    moves: VecDeque<(Range, SiteId)>,
    splits: VecDeque<(TableId, Key)>,
    why: String,
    /// It only lets full sites hand something over.
    is_rebalance: bool,
    /// What each of them takes and saves, on average.
    cost_us: f64,
    benefit_us: f64,
}

/// A global plan, and where what it moves was mastered before.
pub(crate) type Drawn = (GlobalPlan, Vec<(Range, SiteId)>);

/// What it takes to copy a partition to a site that has no copy of it.
fn copying_us(situation: &Situation<'_>, need: &Need, site: SiteId) -> f64 {
    let range = Range::of(need);
    let each =
        need.changes(site).map(|c| situation.outlook.copying_us(&c, &range, &need.placement));
    each.sum()
}

/// The global plan that is carried out, and when the next one is drawn.
#[derive(Clone, Debug)]
pub(crate) struct GlobalPlanner {
    global_plan: GlobalPlan,
    trial: Option<Trial>,
    pause_ns: u64,
    last: Option<Last>,
    has_adopted: bool,
    /// How many global plans there were lately, as of the last drawing.
    lately: f64,
}

/// When one was drawn last, and what came of it.
#[derive(Clone, Copy, Debug)]
struct Last {
    drawn_ns: u64,
    /// What was served then, if that is known.
    per_second: Option<f64>,
    adopted: bool,
}

impl Default for GlobalPlanner {
    fn default() -> GlobalPlanner {
        let (global_plan, pause_ns) = (GlobalPlan::default(), Tuning::PLAN_PAUSE_NS.0);
        GlobalPlanner {
            global_plan,
            trial: None,
            pause_ns,
            last: None,
            has_adopted: false,
            lately: 0.0,
        }
    }
}

impl GlobalPlanner {
    /// True for a while after a global plan was adopted, as nobody knows yet what it brings.
    pub(crate) fn in_probation(&self, now_ns: u64) -> bool {
        self.last.is_some_and(|last| last.adopted && now_ns < last.drawn_ns + self.pause_ns)
    }

    /// True while there is something left to carry out.
    pub(crate) fn is_carried_out(&self) -> bool {
        !self.global_plan.is_done()
    }

    /// True once a global plan was adopted.
    pub(crate) fn has_adopted(&self) -> bool {
        self.has_adopted
    }

    /// The pause is over, or the workload has changed so that it should be.
    fn is_time(&self, situation: &Situation<'_>) -> bool {
        self.last.is_none_or(|last| situation.now_ns >= last.drawn_ns + self.pause_ns)
    }

    /// The workload has become another one: what was tried before says nothing about it.
    pub(crate) fn regime_changed(&mut self) {
        (self.pause_ns, self.lately) = (Tuning::PLAN_PAUSE_NS.0, 0.0);
        (self.last, self.trial) = (None, None);
    }

    /// If a global plan is to be drawn now: what it has to promise.
    pub(crate) fn begin(&mut self, situation: &Situation<'_>) -> Option<RequiredGain> {
        let (now_ns, traffic) = (situation.now_ns, situation.outlook.traffic);
        self.judge(situation);
        let workload = situation.outlook.workload;
        let is_known =
            workload.len() >= situation.tuning.plan_samples_min && !workload.is_comparing();
        // Where nobody runs over several sites, nothing is gained.
        let is_needed = is_known && traffic.across() > 0.0;
        if !is_needed || !self.global_plan.is_done() || !self.is_time(situation) {
            return None;
        }
        let since_ns = self.last.map_or(0, |last| now_ns.saturating_sub(last.drawn_ns));
        self.lately *= 0.5f64.powf(since_ns as f64 / Tuning::ADOPTION_HALF_LIFE_NS as f64);
        let per_second = traffic.lately().map(|[last, _]| last);
        self.last = Some(Last { drawn_ns: now_ns, per_second, adopted: false });
        // The longer the design was left as it is, the more it takes to touch it.
        let relief_ratio =
            1.0 + Tuning::RELIEF_MIN * self.pause_ns as f64 / Tuning::PLAN_PAUSE_NS.0 as f64;
        Some(RequiredGain {
            serves: situation.tuning.gain_min * situation.tuning.gain_raised.powf(self.lately),
            relief_ratio,
        })
    }

    /// What was [begun](GlobalPlanner::begin) is drawn, and adopted if there is something.
    pub(crate) fn end(&mut self, drawn: Option<Drawn>) {
        let Some(drawn) = drawn else {
            self.pause_ns = (self.pause_ns * 2).min(Tuning::PLAN_PAUSE_NS.1);
            return;
        };
        let (global_plan, masters) = drawn;
        let last = self.last.as_mut().expect("it was begun");
        self.trial = last.per_second.map(|before| Trial::new(before, masters));
        if global_plan.is_rebalance {
            // The design is the one it was, but for a few borders.
            self.pause_ns = (self.pause_ns * 2).min(Tuning::PLAN_PAUSE_NS.1);
        } else {
            self.pause_ns = Tuning::PLAN_PAUSE_NS.0;
            self.lately += 1.0;
            self.has_adopted = true;
            last.adopted = true;
        }
        self.global_plan = global_plan;
    }

    /// Takes the last global plan back, if less is served since then.
    fn judge(&mut self, situation: &Situation<'_>) {
        let Some(mut trial) = self.trial.take() else { return };
        let now_ns = situation.now_ns;
        if !situation.outlook.traffic.full().is_empty() {
            // What is served then depends on what has to go for want of memory.
            return;
        }
        let is_carried_out = self.global_plan.is_done() && !situation.recent.is_moving(now_ns);
        match trial.judge(
            now_ns,
            is_carried_out,
            situation.outlook.traffic.lately(),
            situation.tuning.rollback_ratio,
        ) {
            None => self.trial = Some(trial),
            Some(TrialOutcome::Keep) => {}
            Some(TrialOutcome::RollBack(after)) => {
                self.lately += Tuning::ROLLBACK_WEIGHT;
                self.last.iter_mut().for_each(|last| last.drawn_ns = now_ns);
                self.global_plan = GlobalPlan::back(trial, after);
            }
        }
    }

    /// The next changes of the global plan that was adopted.
    pub(crate) fn next(&mut self, situation: &Situation<'_>) -> Vec<Step> {
        self.global_plan.next(situation)
    }
}

impl GlobalPlan {
    /// The best draft as a global plan, if what it saves within the horizon is more than what copying
    /// takes, and it promises as much as it has to. It takes its time.
    pub(crate) fn draw(situation: &Situation<'_>, required_gain: RequiredGain) -> Option<Drawn> {
        let design = situation.recent.with_in_flight(situation.now_ns, situation.design);
        let situation = &Situation { design: &design, ..*situation };
        let CandidateDesign { moves, splits, is_rebalance, serves, now } =
            CandidateDesign::best(situation, required_gain)?;
        let costs = moves.iter().map(|(need, site)| situation.necessary_us(need, *site));
        let copies = moves.iter().map(|(need, site)| copying_us(situation, need, *site));
        let (cost_us, copying_us): (f64, f64) = (costs.sum(), copies.sum());
        // What all clients take in this time, and by which share of it they will be sooner.
        let seconds = situation.tuning.horizon_ns as f64 / 1e9;
        let all_us = 1e6 * seconds * situation.outlook.traffic.clients();
        let saved_us = (1.0 - now / serves) * all_us;
        if saved_us <= copying_us {
            return None;
        }
        let count = (moves.len() + splits.len()).max(1) as f64;
        let masters =
            moves.iter().rev().map(|(need, _)| (Range::of(need), need.placement.master)).collect();
        let moves = moves.into_iter().map(|(need, site)| (Range::of(&need), site)).collect();
        let (cost_us, benefit_us) = (cost_us / count, saved_us / count);
        let why = match is_rebalance {
            true => "its site is full, and that one has time for it",
            false => "it belongs with what is there, by a global plan for all that is accessed",
        };
        let (why, splits) = (why.to_owned(), splits.into());
        Some((GlobalPlan { moves, splits, why, is_rebalance, cost_us, benefit_us }, masters))
    }

    /// Everything where it was before another one.
    fn back(trial: Trial, after: f64) -> GlobalPlan {
        let (moves, before) = (trial.masters.into(), trial.before);
        let why = format!(
            "it was better where it was: {before:.0} transactions a second before a global plan, {after:.0} since"
        );
        GlobalPlan { moves, why, ..GlobalPlan::default() }
    }

    fn is_done(&self) -> bool {
        self.moves.is_empty() && self.splits.is_empty()
    }

    /// The next changes, about so many. What is gone or there already is passed over, and what
    /// should go where there is no memory for it.
    fn next(&mut self, situation: &Situation<'_>) -> Vec<Step> {
        if !self.moves.is_empty() {
            return self.next_moves(situation);
        }
        // What is split on its way leaves half of it behind.
        if situation.recent.is_moving(situation.now_ns) {
            return Vec::new();
        }
        let count = self.splits.len().min(Tuning::BATCH).min(situation.budget);
        let why = "its lock would be held for too long, by a global plan for all that is accessed";
        let split = |(table, at)| Step::new(Change::Split { table, at }, why);
        let steps = self.splits.drain(..count).map(split);
        steps.map(|step| step.predicted(self.cost_us, self.benefit_us)).collect()
    }

    fn next_moves(&mut self, situation: &Situation<'_>) -> Vec<Step> {
        let mut batch = Vec::new();
        let why = self.why.clone();
        for _ in 0..Tuning::BATCH {
            if batch.len() >= situation.budget {
                break;
            }
            let Some((Range { table, keys }, site)) = self.moves.pop_front() else { break };
            if situation.outlook.traffic.site(site).is_full {
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
