//! The autopilot: every transaction is an opportunity to improve the design (MorphoSys, section 5).
//!
//! ```text
//!   threads of clients                          the planning thread
//!
//!   a site can run it ──▶ there; of several, sometimes the less busy one
//!   no site can ────────▶ over several sites
//!        └ sometimes ───▶ a trigger ──────────▶ planning pass: what pays off? ─▶ deferred changes
//!   measured, has run ──▶ a queue ────────────▶ workload · costs · traffic · effects of decisions
//!   loads of the sites ─▶ a queue ────────────▶ global plan: the best placement of everything
//!                                               (its changes are made by the next passes)
//!   results of changes ─▶ costs · recent · journal
//! ```
//!
//! **Cost.** The common transaction reads a few words that are rarely written: no lock, no
//! allocation. About [`Tuning::measured_per_second`] transactions per second are measured, and a
//! fifth of that while hardly anything changes. Their footprints go to a queue. Only the planning
//! thread updates and reads the model. A planning pass runs every 5 ms while it finds changes, and
//! down to every 100 ms while it finds none. Global plans ([`Strategy::plan_globally`]) are drawn
//! with the model unlocked.
//!
//! **Budget.** All work of this thread counts against a [budget](crate::learned::Budget) of
//! processor time, [`Tuning::processor_share`] of one core. While the budget is exceeded, the
//! thread takes no samples and looks for no changes. It still hands out the changes of an adopted
//! global plan. Where transactions are long, so that a sample costs much, fewer are measured.
//!
//! The modules are listed in [`crate::learned`].

use crate::learned::candidate_design::CandidateDesign;
use crate::learned::global_plan::{GlobalPlan, GlobalPlanner};
use crate::learned::journal::{ChangeResult, Effect, Entry, Journal};
use crate::learned::known::{Known, Situation};
use crate::learned::memory::{DecisionText, Memory};
use crate::learned::outlook::{masters, rows_of};
use crate::learned::regime::Signals;
use crate::learned::traffic::Seen;
use crate::learned::{Budget, Candidate, Costs, Mode, Parts, Range, Tuning, Work};
use crate::restraints::Withheld;
use isomer_design::{
    Access, Change, Design, Footprint, HotLock, Plan, Route, SITES_MAX, SiteId, SiteSet, Step, Time,
};
use isomer_strategy::coordinator;
use isomer_strategy::{
    Changed, Decision, Measured, Need, Occasion, Place, Refused, Report, Request, SiteLoad,
    Strategy, Verdict, needs, pick,
};
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// See the [module documentation](self).
pub struct Learned {
    tuning: Tuning,
    mode: AtomicU8,
    /// Tickets with none of these bits are measured.
    mask: AtomicU64,
    /// The time at which loads are wanted next.
    loads_at: AtomicU64,
    /// The time of the next planning pass: for a transaction at one site, and for a distributed
    /// one.
    plan_at: [AtomicU64; 2],
    /// The load of each site, in thousandths.
    busy: Vec<AtomicU64>,
    /// Measured transactions that are still running.
    under_way: Mutex<BTreeMap<u64, UnderWay>>,
    /// The transaction of the next planning pass.
    opportunity: Mutex<Option<Opportunity>>,
    news: Mutex<News>,
    brain: Mutex<LearnedState>,
}

/// Reports that the model has not learned from yet.
#[derive(Default)]
struct News {
    transactions: Vec<Heard>,
    loads: Option<(Time, Vec<SiteLoad>)>,
}

/// Everything that was learned.
#[derive(Debug)]
struct LearnedState {
    known: Known,
    journal: Journal,
    /// Decisions from before the database was opened.
    before: Vec<DecisionText>,
    /// The estimated effort of changes in flight.
    changing: BTreeMap<Change, crate::learned::Effort>,
    measured: u64,
    /// The number of planning passes so far.
    thoughts: u64,
    /// The current pauses between planning passes, as in [`Learned::plan_at`].
    pause_ns: [u64; 2],
    drawing: GlobalPlanner,
    /// Hot locks of the last report, until a pass has considered them.
    hot_locks: Vec<HotLock>,
    budget: Budget,
    /// The mean processor time to learn from a transaction, in nanoseconds.
    learning_ns: f64,
}

/// A measured transaction that is still running.
#[derive(Clone, Debug)]
struct UnderWay {
    /// The number of transactions that it stands for; 0 if it is not a sample.
    sample_weight: f64,
    needs: Vec<Need>,
    rows: [f64; 2],
    place: Place,
}

/// A measured transaction that has run.
struct Heard {
    ticket: u64,
    footprint: Footprint,
    site: SiteId,
    now: Time,
    latency_ns: u64,
    measured: Measured,
    /// The number of transactions that it stands for. `begun.sample_weight` takes precedence.
    sample_weight: f64,
    begun: Option<UnderWay>,
}

/// A transaction that triggers a planning pass.
pub(super) struct Opportunity {
    pub(super) footprint: Footprint,
    pub(super) last_site: Option<SiteId>,
    pub(super) place: Place,
}

impl Default for Learned {
    fn default() -> Learned {
        Learned::new(Tuning::default())
    }
}

impl Learned {
    /// A strategy without any knowledge.
    ///
    /// # Panics
    /// As [`crate::learned::Reservoir::new`], for invalid constants.
    pub fn new(tuning: Tuning) -> Learned {
        let brain = LearnedState {
            known: Known::new(&tuning),
            journal: Journal::default(),
            before: Vec::new(),
            changing: BTreeMap::new(),
            measured: 0,
            thoughts: 0,
            pause_ns: [Tuning::PASS_PAUSE_NS; 2],
            drawing: GlobalPlanner::default(),
            hot_locks: Vec::new(),
            budget: Budget::new(tuning.processor_share),
            learning_ns: 0.0,
        };
        Learned {
            tuning,
            mode: AtomicU8::new(tuning.mode as u8),
            mask: AtomicU64::new(0),
            loads_at: AtomicU64::new(0),
            plan_at: Default::default(),
            busy: (0..=SITES_MAX).map(|_| AtomicU64::new(0)).collect(),
            under_way: Mutex::default(),
            opportunity: Mutex::default(),
            news: Mutex::default(),
            brain: Mutex::new(brain),
        }
    }

    /// Whether decisions are executed.
    pub fn mode(&self) -> Mode {
        Mode::of(self.mode.load(Ordering::Relaxed))
    }

    /// From now on decisions are executed, only recorded, or not made.
    pub fn set_mode(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }

    /// Limits the changes per minute that are planned; `None`: no limit. A plan for all
    /// transactions then takes its time.
    pub fn limit_changes(&self, per_minute: Option<u32>) {
        self.brain.lock().known.recent.limit(per_minute);
    }

    /// Locks the model, after it has learned from all reports.
    fn state(&self) -> MutexGuard<'_, LearnedState> {
        let mut brain = self.brain.lock();
        let news = std::mem::take(&mut *self.news.lock());
        brain.measured += news.transactions.len() as u64;
        news.transactions.iter().for_each(|heard| brain.learn(heard));
        if let Some((now, loads)) = news.loads {
            self.learn_loads(&mut brain, now, &loads);
        }
        brain
    }

    /// As [`Learned::state`], and charges the budget for the work.
    fn state_at(&self, occasion: &Occasion<'_>) -> MutexGuard<'_, LearnedState> {
        self.brain.lock().budget.pass(occasion.now.0);
        let (begun, heard) = ((occasion.worked_ns)(), self.news.lock().transactions.len());
        let mut brain = self.state();
        let took_ns = (occasion.worked_ns)() - begun;
        brain.budget.spend(took_ns);
        if heard > 0 && !brain.budget.is_exceeded() {
            let each = took_ns as f64 / heard as f64;
            brain.learning_ns += Tuning::HELD_PACE * (each - brain.learning_ns);
        }
        brain
    }

    /// Reads the journal.
    pub fn with_journal<T>(&self, look: impl FnOnce(&Journal) -> T) -> T {
        look(&self.state().journal)
    }

    /// The next decision has a number after this one.
    pub fn number_after(&self, number: u64) {
        self.brain.lock().journal.number_after(number);
    }

    /// The number of planning passes so far.
    pub fn thoughts(&self) -> u64 {
        self.brain.lock().thoughts
    }

    /// The processor time that the autopilot may use, and has used.
    pub fn budget(&self) -> Budget {
        self.brain.lock().budget.clone()
    }

    /// The number of transactions in the sample.
    pub fn samples(&self) -> usize {
        self.brain.lock().known.workload.len()
    }

    /// Sets the share of a core that the autopilot may use.
    pub fn set_processor_share(&self, share: f64) {
        self.brain.lock().budget.set_share(share);
    }

    /// A copy of the learned costs.
    pub fn costs(&self) -> Costs {
        self.state().known.costs.clone()
    }

    /// The placement that divides all sampled accesses evenly among the sites of a design: the
    /// first candidate of a global plan, before it is judged. It shows the co-accesses of a
    /// workload.
    pub fn divided(&self, design: &Design) -> Vec<(Range, SiteId)> {
        let known = self.state().known.clone();
        let situation = known.situation(0, design, 0);
        let moves = CandidateDesign::even(&situation).unwrap_or_default();
        moves.iter().map(|(need, site)| (Range::of(need), *site)).collect()
    }

    /// Lets the caller decide with the current knowledge of a design.
    pub(super) fn with_situation<T>(
        &self,
        now_ns: u64,
        design: &Design,
        decide: impl FnOnce(&Situation<'_>) -> T,
    ) -> T {
        decide(&self.state().known.situation(now_ns, design, usize::MAX))
    }

    /// Records a decision about a transaction that the caller carries out.
    pub(super) fn decided(&self, request: &Request<'_>, design: &Design, chosen: Candidate) {
        let place = chosen.place;
        self.set_out(request, design, place);
        let mut brain = self.state();
        brain.enter(request.now.0, request.footprint, design, vec![chosen], (place, true));
    }

    /// An operator does not permit a change that this strategy wanted. It stays in flight for a
    /// [horizon](Tuning::horizon_ns), so that it is not wanted again at once.
    pub fn withheld(&self, change: &Change, why: Withheld) {
        self.brain.lock().journal.hear(change, Err(why.why()));
    }

    /// The decision in the journal that a proposed plan is of: its number, and what its changes are
    /// expected to save and to cost, in microseconds.
    pub fn decision_of(&self, plan: &Plan) -> Option<(u64, [f64; 2])> {
        let brain = self.brain.lock();
        let entry = brain.journal.entry_for(plan.changes())?;
        let chosen = entry.candidates.first()?;
        Some((entry.number, [chosen.benefit_us, chosen.cost_us]))
    }

    /// An operator has approved a proposed plan of a decision: its effect is measured from now on.
    pub fn approved(&self, now: Time, design: &Design, plan: &Plan, decision: Option<u64>) {
        let mut brain = self.state();
        for change in plan.changes() {
            let (Some(table), Some(start)) = (change.table(), change.start()) else { continue };
            let Some((keys, placement)) = design.partition_of(table, start) else { continue };
            let effort = brain.known.effort(change, &Range { table, keys }, &placement);
            brain.changing.insert(change.clone(), effort);
        }
        if let Some(decision) = decision {
            brain.journal.take_up(now.0, decision);
        }
    }

    /// The approved plan of a decision has ended.
    pub fn is_over(&self, decision: u64) {
        self.brain.lock().journal.close(decision);
    }

    /// Remembers the effort of a transaction until it has run.
    fn set_out(&self, request: &Request<'_>, design: &Design, place: Place) {
        let sample_weight = if self.wants(request.ticket) { self.sample_weight() } else { 0.0 };
        let (needs, rows) = (needs(design, request.footprint), rows_of(request.footprint));
        let mut under_way = self.under_way.lock();
        if under_way.len() >= Tuning::UNDER_WAY_MAX {
            // Entries of transactions that never reported back.
            under_way.clear();
        }
        under_way.insert(request.ticket, UnderWay { sample_weight, needs, rows, place });
    }

    /// Chooses one of several sites: the site of the session's last transaction, unless another
    /// site is clearly idler. The other site is random: if all sessions went to the idlest, it
    /// would be the busiest before the next report of loads.
    fn choose(&self, sites: &SiteSet, request: &Request<'_>) -> SiteId {
        let chosen = pick(sites, request);
        let one_in = Tuning::SEVERAL as u64;
        if sites.len() == 1 || !request.ticket.is_multiple_of(one_in) {
            return chosen;
        }
        let busy = |site: SiteId| self.busy[usize::from(site.0)].load(Ordering::Relaxed);
        let other = sites.nth((request.ticket / one_in) as usize % sites.len()).unwrap_or(chosen);
        let much = (Tuning::REROUTE_IMBALANCE * 1000.0) as u64;
        if busy(chosen) > busy(other) + much { other } else { chosen }
    }

    /// Sends a transaction to a place, measures it with the sampling probability, and sometimes
    /// makes it the trigger of a planning pass.
    fn send(&self, request: &Request<'_>, place: Place) -> Decision {
        let mut decision = match place {
            Place::At(site) => Decision::at(site),
            Place::Distributed { coordinator } => Decision::across(coordinator),
        };
        if self.wants(request.ticket) {
            self.set_out(request, &(request.design)(), place);
        }
        if self.should_plan(request, place)
            && let Some(mut opportunity) = self.opportunity.try_lock()
        {
            let (footprint, last_site) = (request.footprint.clone(), request.last_site);
            *opportunity = Some(Opportunity { footprint, last_site, place });
            decision.is_occasion = true;
            // Holds until the pass has set its own pause, or if there was no pass.
            let pause_until = request.now.0 + Tuning::PASS_PAUSE_NS;
            self.plan_at[usize::from(is_distributed(place))].store(pause_until, Ordering::Relaxed);
        }
        decision
    }

    /// A planning pass: finds the changes that pay off for a transaction.
    fn pass(&self, occasion: &Occasion<'_>, opportunity: Opportunity) -> Plan {
        let mut brain = self.state_at(occasion);
        let begun = (occasion.worked_ns)();
        let Opportunity { footprint, place, .. } = &opportunity;
        let (now_ns, design, mode) = (occasion.now.0, occasion.design, self.mode());
        let candidates = brain.plan(now_ns, design, &opportunity, mode);
        let changes = candidates.first().map_or(0, |best| best.steps().count());
        let mut plan = Plan::default();
        if changes > 0 {
            if matches!(mode, Mode::Auto | Mode::Approve) {
                plan = plan_of(footprint, design, candidates[0].steps());
            }
            brain.enter(now_ns, footprint, design, candidates, (*place, mode == Mode::Auto));
        }
        brain.budget.spend((occasion.worked_ns)() - begun);
        self.pause(&mut brain, now_ns, *place, changes);
        plan
    }

    /// The number of transactions that a measured one stands for.
    fn sample_weight(&self) -> f64 {
        (self.mask.load(Ordering::Relaxed) + 1) as f64
    }

    /// True if it is time for a planning pass triggered by this transaction.
    fn should_plan(&self, request: &Request<'_>, place: Place) -> bool {
        let at = &self.plan_at[usize::from(is_distributed(place))];
        let may = is_distributed(place) || self.wants(request.ticket);
        may && self.mode() != Mode::Off && request.now.0 >= at.load(Ordering::Relaxed)
    }

    /// Sets the pause until the next pass for such transactions.
    fn pause(&self, brain: &mut LearnedState, now_ns: u64, place: Place, changes: usize) {
        let kind = usize::from(is_distributed(place));
        let pause_ns = &mut brain.pause_ns[kind];
        let longer_ns = (*pause_ns * 5 / 4).min(Tuning::LOADS_EVERY_NS);
        *pause_ns = if changes > 0 { Tuning::PASS_PAUSE_NS } else { longer_ns };
        let after_pause_ns = now_ns + *pause_ns;
        let is_carrying_out = !brain.drawing.global_plan.is_done();
        let at_ns = match brain.budget.is_exceeded() && !is_carrying_out {
            true => after_pause_ns.max(brain.budget.ready_ns()),
            false => after_pause_ns,
        };
        self.plan_at[kind].store(at_ns, Ordering::Relaxed);
    }
}

/// Tickets have enough random bits for masks of this size.
const MASK_BITS: u32 = 16;

fn is_distributed(place: Place) -> bool {
    matches!(place, Place::Distributed { .. })
}

/// The mask for the next interval, after one with `came` transactions, such that at least `wanted`
/// and up to twice as many are measured.
fn mask_for(came: f64, wanted: f64) -> u64 {
    let doublings = (came / wanted).max(1.0).log2() as u32;
    (1 << doublings.min(MASK_BITS)) - 1
}

/// A plan of steps, with the triggering transaction as its reason.
fn plan_of<'s>(
    footprint: &Footprint,
    design: &Design,
    steps: impl Iterator<Item = &'s Step>,
) -> Plan {
    let steps: Vec<_> = steps.cloned().collect();
    if steps.is_empty() {
        return Plan::default();
    }
    Plan { reason: footprint.to_text(design), steps }
}

impl LearnedState {
    fn plan(
        &mut self,
        now_ns: u64,
        design: &Design,
        opportunity: &Opportunity,
        mode: Mode,
    ) -> Vec<Candidate> {
        self.thoughts += 1;
        let Opportunity { footprint, last_site, place } = opportunity;
        let place = *place;
        let LearnedState { known, drawing, hot_locks, budget: processor, .. } = self;
        let rate = known.regime.changes_per_second(now_ns);
        // A proposal is a whole: it is not cut to what may be changed in an instant.
        let budget = match mode {
            Mode::Approve => usize::MAX,
            _ => known.recent.budget(now_ns, rate).max(0.0) as usize,
        };
        let in_probation = drawing.in_probation(now_ns);
        // One global plan is easier to approve than a proposal for each transaction.
        let waits_for_plan = mode == Mode::Approve && drawing.is_expected(known);
        let may_move = drawing.leaves_masters_free(now_ns) && !waits_for_plan
            || !known.traffic.full().is_empty();
        let next = |drawing: &mut GlobalPlanner, situation: &Situation<'_>| match mode {
            Mode::Auto => drawing.global_plan.next(situation),
            _ => drawing.global_plan.whole(situation),
        };
        let situation = known.situation(now_ns, design, budget);
        let situation = Situation { in_probation, may_move, ..situation };
        if processor.is_exceeded() {
            // Only the adopted global plan proceeds.
            let steps = match situation.may_add() {
                true => next(drawing, &situation),
                false => Vec::new(),
            };
            return vec![Candidate::of_steps(place, steps)];
        }
        if situation.may_add() {
            if let Some(relief) = situation.relief(place) {
                return vec![relief];
            }
            let hot_locks = std::mem::take(hot_locks);
            if let Some(splits) = situation.split_hot_locks(&hot_locks, place) {
                return vec![splits];
            }
            let beneficial = next(drawing, &situation);
            if !beneficial.is_empty() {
                return vec![Candidate::of_steps(place, beneficial)];
            }
        }
        let coordinator = match place {
            Place::Distributed { coordinator } => Some(coordinator),
            Place::At(_) => None,
        };
        situation.plan(footprint, *last_site, coordinator)
    }

    /// A copy of the knowledge for a global plan, if it is time to draw one, and whether the plan
    /// may relieve a pressed process.
    fn begin_global_plan(&mut self, now_ns: u64, design: &Design) -> Option<(Known, bool)> {
        if self.budget.is_exceeded() {
            return None;
        }
        if self.known.end_renewal(now_ns, design) {
            self.drawing.regime_changed();
        }
        let situation = self.known.situation(now_ns, design, usize::MAX);
        let may_relieve = self.drawing.may_relieve(&self.known);
        self.drawing.begin(&situation).then(|| (self.known.clone(), may_relieve))
    }

    /// Evaluates the signals of an interval: does the workload hold still?
    fn watch(&mut self, tuning: &Tuning, now_ns: u64) {
        let LearnedState { known, drawing, hot_locks, .. } = self;
        let is_moving = known.recent.is_moving(now_ns);
        let (traffic, regime) = (&known.traffic, &mut known.regime);
        if is_moving || drawing.in_probation(now_ns) || known.workload.reservoir.renewed.is_some() {
            regime.unsettle(now_ns);
        }
        let is_long = |hot_lock: &HotLock| hot_lock.waiting as f64 >= 2.0 * tuning.queue_max;
        let waits = hot_locks.iter().any(is_long);
        if waits || !drawing.global_plan.is_done() || !traffic.full().is_empty() {
            regime.disturb(now_ns);
        }
        let (served, across, uneven) = (traffic.served, traffic.across, traffic.uneven());
        if regime.see(now_ns, Signals { served, across, uneven }) {
            known.workload.reservoir.renew(now_ns);
        }
    }

    /// Enters a decision into the journal, and its changes into the changes in flight.
    fn enter(
        &mut self,
        now_ns: u64,
        trigger: &Footprint,
        design: &Design,
        candidates: Vec<Candidate>,
        (place, in_force): (Place, bool),
    ) {
        let steps: Vec<Change> = candidates[0].steps().map(|s| s.change.clone()).collect();
        self.known.recent.spend(steps.len());
        let (mut ranges, mut undone) = (BTreeSet::new(), Vec::new());
        for change in &steps {
            let (Some(table), Some(start)) = (change.table(), change.start()) else { continue };
            let Some((keys, placement)) = design.partition_of(table, start) else { continue };
            let range = Range { table, keys };
            if in_force {
                undone.push(change.opposite(placement.master));
                let effort = self.known.effort(change, &range, &placement);
                self.changing.insert(change.clone(), effort);
                self.known.recent.ask(now_ns, change);
            }
            ranges.insert(range);
        }
        let ranges: Vec<Range> = ranges.into_iter().collect();
        let touching = self.known.workload.touching_any(&ranges);
        let took_us = touching.samples.iter().map(|sample| sample.took_us).sum::<f64>();
        let (looked_at, count) = (touching.samples.len() as f64, touching.count());
        let share = count / self.known.workload.len().max(1) as f64;
        let seconds = self.known.tuning.horizon_ns as f64 / 1e9;
        let expected = share * seconds * self.known.traffic.transactions();
        let before_us = (looked_at > 0.0).then(|| took_us / looked_at);
        let effect = Effect { before_us, expected, ..Effect::default() };
        let entry = Entry {
            number: 0,
            at_ns: now_ns,
            trigger: trigger.clone(),
            candidates,
            place,
            in_force,
            fates: vec![ChangeResult::Open; steps.len()],
            effect,
            taken_back_by: None,
            ranges,
            took_us: 0.0,
        };
        self.journal.enter(entry, &undone);
    }

    /// Learns from a measured transaction that has run.
    fn learn(&mut self, heard: &Heard) {
        let us = |ns: u64| ns as f64 / 1e3;
        let Heard { footprint, measured, .. } = heard;
        let (now_ns, took_us) = (heard.now.0, us(heard.latency_ns));
        self.journal.observe(now_ns, footprint, took_us, self.known.tuning.horizon_ns);
        let begun = heard.begun.as_ref();
        // The sampling rate may have changed since the transaction began.
        let sample_weight = begun.map_or(heard.sample_weight, |it| it.sample_weight);
        let sites = match begun {
            Some(UnderWay { needs, place: Place::Distributed { .. }, .. }) => masters(needs),
            Some(UnderWay { place, .. }) => SiteSet::of(place.site()),
            None => SiteSet::of(heard.site),
        };
        let written = || {
            let needs = begun.into_iter().flat_map(|it| &it.needs);
            needs.filter(|need| need.access == Access::Write)
        };
        let followers = written().fold(SiteSet::EMPTY, |all, need| &all | &need.placement.replicas);
        let count = sites.len();
        self.known.traffic.count(&Seen {
            sites,
            sample_weight,
            rows: measured.rows,
            followers,
            busy_us: us(measured.run_ns),
            held_us: us(measured.held_ns),
            took_us,
        });
        if self.budget.is_exceeded() {
            return;
        }
        let chances = chances(heard.ticket);
        self.known.workload.offer(now_ns, footprint, measured.rows, took_us, chances);
        // Over several sites, a transaction holds its first lock while it waits for the others.
        let waiting_ns = if count > 1 { measured.lock_ns } else { 0 };
        let held_us = us(measured.held_ns + waiting_ns);
        let places: Vec<_> = written().map(|need| (need.table, need.range.start.clone())).collect();
        places.into_iter().for_each(|place| self.known.workload.hold(place, held_us));
        // The needs of this transaction were not recorded: there is nothing to learn from.
        let Some(UnderWay { needs, rows, place, .. }) = begun else { return };
        let work = self.known.work(needs, *rows, place.site());
        if count > 1 {
            return self.known.costs.learn_across(&work, count, took_us);
        }
        let parts = Parts {
            service: us(measured.service_ns),
            wait: us(measured.wait_ns),
            lock: us(measured.lock_ns),
            read_write: us(measured.run_ns),
            commit: us(measured.commit_ns),
        };
        let rows = measured.rows.map(|rows| rows as f64);
        self.known.costs.learn_transaction(&Work { rows, ..work }, &parts);
    }
}

/// Two numbers from 0 to below 1, derived from a ticket.
fn chances(ticket: u64) -> [f64; 2] {
    let mix = |seed: u64| {
        let mixed = (ticket ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11) as f64
            / (1u64 << 53) as f64
    };
    [mix(1), mix(2)]
}

impl Strategy for Learned {
    fn name(&self) -> &'static str {
        "learned"
    }

    fn decide(&self, request: &Request<'_>) -> Result<Verdict, Refused> {
        let place = match &request.route {
            Route::Sites(sites) => Place::At(self.choose(sites, request)),
            Route::Nowhere { .. } => Place::Distributed { coordinator: coordinator(request) },
            Route::UnknownTable(table) => return Err(Refused::UnknownTable(*table)),
        };
        Ok(Verdict::Run(self.send(request, place)))
    }

    fn wants(&self, ticket: u64) -> bool {
        // The lowest bits are used for other decisions.
        (ticket >> 8) & self.mask.load(Ordering::Relaxed) == 0
    }

    fn observe(&self, report: &Report<'_>) {
        let Some(measured) = report.measured else { return };
        let &Report { ticket, footprint, site, now, latency_ns, .. } = report;
        let begun = self.under_way.lock().remove(&ticket);
        let (footprint, sample_weight) = (footprint.clone(), self.sample_weight());
        let heard =
            Heard { ticket, footprint, site, now, latency_ns, measured, sample_weight, begun };
        let mut news = self.news.lock();
        if news.transactions.len() < Tuning::UNDER_WAY_MAX {
            news.transactions.push(heard);
        }
    }

    fn changed(&self, changed: &Changed<'_>) {
        let mut brain = self.brain.lock();
        brain.known.recent.hear(changed.now.0, changed.change, changed.took_ns.is_ok());
        if changed.took_ns.is_ok() && matches!(changed.change, Change::Remaster { .. }) {
            brain.drawing.moved();
        }
        let took_ns = changed.took_ns.as_ref().map(|took| *took);
        brain.journal.hear(changed.change, took_ns.map_err(|not_made| &*not_made.why));
        let effort = brain.changing.remove(changed.change);
        if let (Some(mut effort), Ok(took_ns)) = (effort, &changed.took_ns) {
            if let (Change::AddReplica { table, .. }, rows) = (changed.change, changed.rows as f64)
            {
                let mean = brain.known.rows.entry(*table).or_insert(rows);
                *mean += Tuning::HELD_PACE * (rows - *mean);
                effort.rows = rows;
            }
            brain.known.costs.learn_change(changed.change, &effort, *took_ns as f64 / 1e3);
        }
    }

    fn memory(&self, design: &Design) -> Option<String> {
        let brain = self.state();
        let LearnedState { known, before, journal, .. } = &*brain;
        Some(Memory::of(known.costs.clone(), before, journal, design).to_text())
    }

    fn recall(&self, memory: &str) -> Result<(), String> {
        let Memory { costs, decisions, .. } = Memory::parse(memory)?;
        let mut brain = self.brain.lock();
        let last = decisions.last().map_or(0, |told| told.number);
        brain.journal.number_after(last);
        (brain.known.costs, brain.before) = (costs, decisions);
        Ok(())
    }

    fn plan(&self, occasion: &Occasion<'_>) -> Plan {
        let opportunity = self.opportunity.lock().take();
        let wanted = opportunity.filter(|_| self.mode() != Mode::Off);
        wanted.map_or_else(Plan::default, |opportunity| self.pass(occasion, opportunity))
    }

    fn plan_globally(&self, occasion: &Occasion<'_>) {
        let Occasion { now, design, worked_ns } = *occasion;
        let mut brain = self.state_at(occasion);
        if self.mode() == Mode::Off {
            return;
        }
        let begun = worked_ns();
        let known = brain.begin_global_plan(now.0, design);
        drop(brain);
        // Draws the plan without the lock, because this takes long.
        let drawn = known.as_ref().map(|(known, may_relieve)| {
            let situation = known.situation(now.0, design, usize::MAX);
            GlobalPlan::draw(&Situation { may_relieve: *may_relieve, ..situation })
        });
        let mut brain = self.brain.lock();
        if let Some(drawn) = drawn {
            if drawn.is_some() {
                brain.known.regime.disturb(now.0);
            }
            brain.drawing.end(&self.tuning, drawn);
        }
        brain.budget.spend(worked_ns() - begun);
    }

    fn wants_loads(&self, now: Time) -> bool {
        let at = self.loads_at.load(Ordering::Relaxed);
        let next = now.0 + Tuning::LOADS_EVERY_NS;
        let swap =
            |at| self.loads_at.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
        // A clock that jumped far back is accepted.
        (now.0 >= at || at - now.0 > 2 * Tuning::LOADS_EVERY_NS) && swap(at).is_ok()
    }

    fn loads(&self, now: Time, loads: &[SiteLoad]) {
        self.news.lock().loads = Some((now, loads.to_vec()));
    }
}

impl Learned {
    /// Learns the loads of an interval, and sets the sampling rate of the next.
    fn learn_loads(&self, brain: &mut LearnedState, now: Time, loads: &[SiteLoad]) {
        brain.known.traffic.close(now.0, loads);
        brain.hot_locks = loads.iter().flat_map(|load| load.hot_locks.iter().cloned()).collect();
        brain.watch(&self.tuning, now.0);
        for load in loads {
            let site = brain.known.traffic.site(load.site);
            brain.known.costs.learn_load(site.rates, site.busy);
            let busy = &self.busy[usize::from(load.site.0)];
            busy.store((site.busy * 1000.0) as u64, Ordering::Relaxed);
        }
        // Few changes are made before the first plan, which needs enough samples.
        let has_seen_enough = brain.known.workload.len() >= self.tuning.plan_samples_min;
        let is_quiet = has_seen_enough && brain.known.regime.is_calm(now.0);
        let is_quiet = is_quiet || self.mode() == Mode::Off;
        let per_second = self.tuning.measured_per_second * if is_quiet { 0.2 } else { 1.0 };
        // The rest of the budget is for planning.
        let per_second = match brain.budget.is_short() && brain.learning_ns > 0.0 {
            true => {
                let learning = Tuning::LEARNING_SHARE * brain.budget.share();
                per_second.min(1e9 * learning / brain.learning_ns)
            }
            false => per_second,
        };
        let wanted = per_second * Tuning::LOADS_EVERY_NS as f64 / 1e9;
        let measured = std::mem::take(&mut brain.measured) as f64;
        let mask = self.mask.load(Ordering::Relaxed);
        let came = measured * self.sample_weight();
        let mask = match measured / wanted {
            // The workload may have changed: measure enough to recognise the new one.
            _ if self.mode() != Mode::Off && brain.known.workload.reservoir.renewed.is_some() => {
                mask_for(came, self.tuning.damping.size as f64 / 2.0)
            }
            // Fast learning is worth its cost while the reservoir has room.
            share if share > 2.0 && !brain.known.workload.reservoir.is_full() => {
                (mask << 1 | 1) & ((1 << MASK_BITS) - 1)
            }
            share if share > 2.0 => mask_for(came, wanted),
            // Perhaps there were no requests for a while.
            share if share < 0.5 => mask >> 1,
            _ => mask,
        };
        self.mask.store(mask, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_measures_the_wanted_number_or_up_to_twice_that() {
        for (came, of) in [(0.0, 1), (99.0, 1), (199.0, 1), (200.0, 2), (30_000.0, 256)] {
            assert_eq!(mask_for(came, 100.0), of - 1, "of {came}");
        }
        assert_eq!(mask_for(1e12, 10.0), (1 << MASK_BITS) - 1);
    }
}
