//! The autopilot: every transaction is an opportunity to improve the design (MorphoSys, section 5).
//!
//! ```text
//!   a site can run it ───▶ there; of several, sometimes the less busy one
//!   no site can ─────────▶ over several sites
//!        └ sometimes ─────▶ planning pass: what would pay?     planner ───▶ deferred changes
//!   on another thread ────▶ global plan: where would all be    global plan ─▶ deferred changes, with
//!                           best?                                           the next passes
//!
//!   measured transactions ─▶ workload · costs · traffic · effects of earlier decisions
//!   changes made or not ───▶ costs · recent · journal
//! ```
//!
//! **Cost.** The common transaction reads a few words that are hardly ever written: no lock, no
//! allocation. About [`Tuning::measured_per_second`] transactions are measured, and
//! a fifth of that while hardly anything changes; these take the lock of the model,
//! unless somebody holds it. A planning pass runs every 5 ms while it finds changes, and down to
//! every 100 ms while it finds none. Global plans ([`Strategy::plan_globally`]) are drawn with the model
//! unlocked.
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
use crate::learned::{Candidate, Costs, Mode, Parts, Range, Tuning, Work};
use isomer_design::{
    Access, Change, Design, HotLock, Key, Plan, Route, SITES_MAX, SiteId, SiteSet, Step, TableId,
    Time,
};
use isomer_strategy::coordinator;
use isomer_strategy::{
    Changed, Decision, Measured, Place, Refused, Report, Request, SiteLoad, Strategy, Verdict,
    needs, pick,
};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// See the [module documentation](self).
pub struct Learned {
    tuning: Tuning,
    mode: AtomicU8,
    /// Tickets with none of these bits are measured.
    mask: AtomicU64,
    /// When it wants to hear of loads.
    loads_at: AtomicU64,
    /// When it should_plan again about a transaction that a site can run, and about one that none can.
    plan_at: [AtomicU64; 2],
    /// The load of each site, in thousandths.
    busy: Vec<AtomicU64>,
    brain: Mutex<LearnedState>,
}

/// Everything that was learned.
#[derive(Debug)]
struct LearnedState {
    known: Known,
    journal: Journal,
    /// Decisions from before the database was opened.
    before: Vec<DecisionText>,
    /// What measured transactions under way were thought to have to do.
    under_way: BTreeMap<u64, UnderWay>,
    /// What changes under way were thought to have to do.
    changing: BTreeMap<Change, crate::learned::Effort>,
    measured: u64,
    /// How often it thought about changes.
    thoughts: u64,
    /// Until it should_plan again, as in [`Learned::plan_at`].
    pause_ns: [u64; 2],
    drawing: GlobalPlanner,
    /// Where many waited for a lock when that was last heard of, and nobody has thought about it.
    hot_locks: Vec<HotLock>,
}

/// A measured transaction that has not come back yet.
#[derive(Clone, Debug)]
struct UnderWay {
    /// How many it stands for, if it is measured.
    sample_weight: f64,
    work: Work,
    /// Who follows what it writes.
    followers: SiteSet,
    /// Where it runs.
    sites: SiteSet,
    /// The partitions that it writes to, by their start.
    written: Vec<(TableId, Key)>,
}

impl Default for Learned {
    fn default() -> Learned {
        Learned::new(Tuning::default())
    }
}

impl Learned {
    /// A strategy that knows nothing yet.
    ///
    /// # Panics
    /// As [`crate::learned::Reservoir::new`], for constants that make no sense.
    pub fn new(tuning: Tuning) -> Learned {
        let brain = LearnedState {
            known: Known::new(&tuning),
            journal: Journal::default(),
            before: Vec::new(),
            under_way: BTreeMap::new(),
            changing: BTreeMap::new(),
            measured: 0,
            thoughts: 0,
            pause_ns: [Tuning::PASS_PAUSE_NS; 2],
            drawing: GlobalPlanner::default(),
            hot_locks: Vec::new(),
        };
        Learned {
            tuning,
            mode: AtomicU8::new(tuning.mode as u8),
            mask: AtomicU64::new(0),
            loads_at: AtomicU64::new(0),
            plan_at: Default::default(),
            busy: (0..=SITES_MAX).map(|_| AtomicU64::new(0)).collect(),
            brain: Mutex::new(brain),
        }
    }

    /// Whether decisions are carried out.
    pub fn mode(&self) -> Mode {
        Mode::of(self.mode.load(Ordering::Relaxed))
    }

    /// From now on decisions are carried out, or only recorded, or not made.
    pub fn set_mode(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }

    /// Looks at the journal.
    pub fn with_journal<T>(&self, look: impl FnOnce(&Journal) -> T) -> T {
        look(&self.brain.lock().journal)
    }

    /// How often it has thought about changes so far.
    pub fn thoughts(&self) -> u64 {
        self.brain.lock().thoughts
    }

    /// The learned costs as they are.
    pub fn costs(&self) -> Costs {
        self.brain.lock().known.costs.clone()
    }

    /// What goes where if everything that was sampled is divided evenly among the sites of a design: the first
    /// candidate of a global plan, before anybody judges it. For those who want to see what was learned of a workload.
    pub fn divided(&self, design: &Design) -> Vec<(Range, SiteId)> {
        let known = self.brain.lock().known.clone();
        let situation = known.situation(0, design, 0);
        let moves = CandidateDesign::even(&situation).unwrap_or_default();
        moves.iter().map(|(need, site)| (Range::of(need), *site)).collect()
    }

    /// Lets somebody decide with what is known of a design.
    pub(super) fn with_situation<T>(
        &self,
        now_ns: u64,
        design: &Design,
        decide: impl FnOnce(&Situation<'_>) -> T,
    ) -> T {
        decide(&self.brain.lock().known.situation(now_ns, design, usize::MAX))
    }

    /// Somebody decided so about a transaction, and has it done.
    pub(super) fn decided(&self, request: &Request<'_>, design: &Design, chosen: Candidate) {
        let mut brain = self.brain.lock();
        let place = chosen.place;
        let sample_weight = if self.wants(request.ticket) { self.sample_weight() } else { 0.0 };
        brain.begin_sample(request, design, place, sample_weight);
        brain.enter(request, design, vec![chosen], (place, true));
    }

    /// One of several sites: where the session ran last, unless another is clearly idler. Which
    /// other is a matter of chance: if all went to the idlest, that would be the busiest before
    /// anybody hears of it.
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

    /// A transaction that can run at a place: measured by chance, and now and then an opportunity.
    fn send(&self, request: &Request<'_>, place: Place) -> Decision {
        let mut decision = Decision { place, first: Plan::default(), deferred: Plan::default() };
        let should_plan = self.should_plan(request, place);
        if !should_plan && !self.wants(request.ticket) {
            return decision;
        }
        // Nobody waits for the model on this way.
        let Some(mut brain) = self.brain.try_lock() else { return decision };
        let design = (request.design)();
        let sample_weight = if self.wants(request.ticket) { self.sample_weight() } else { 0.0 };
        brain.begin_sample(request, &design, place, sample_weight);
        if !should_plan {
            return decision;
        }
        let mode = self.mode();
        let candidates = brain.plan(request, &design, place);
        let changes = candidates[0].steps().count();
        self.pause(&mut brain, request.now.0, place, changes);
        if changes > 0 {
            if mode == Mode::Auto {
                decision.deferred = plan_of(request, &design, candidates[0].steps());
            }
            brain.enter(request, &design, candidates, (place, mode == Mode::Auto));
        }
        decision
    }

    /// How many transactions a measured one stands for.
    fn sample_weight(&self) -> f64 {
        (self.mask.load(Ordering::Relaxed) + 1) as f64
    }

    /// True if it is time to see in this transaction an opportunity.
    fn should_plan(&self, request: &Request<'_>, place: Place) -> bool {
        let at = &self.plan_at[usize::from(is_distributed(place))];
        let may = is_distributed(place) || self.wants(request.ticket);
        may && self.mode() != Mode::Off && request.now.0 >= at.load(Ordering::Relaxed)
    }

    /// For how long it does not think about such transactions.
    fn pause(&self, brain: &mut LearnedState, now_ns: u64, place: Place, changes: usize) {
        let kind = usize::from(is_distributed(place));
        let pause_ns = &mut brain.pause_ns[kind];
        let longer_ns = (*pause_ns * 5 / 4).min(Tuning::LOADS_EVERY_NS);
        *pause_ns = if changes > 0 { Tuning::PASS_PAUSE_NS } else { longer_ns };
        self.plan_at[kind].store(now_ns + *pause_ns, Ordering::Relaxed);
    }
}

/// Tickets are long enough for masks of so many bits.
const MASK_BITS: u32 = 16;

fn is_distributed(place: Place) -> bool {
    matches!(place, Place::Distributed { .. })
}

/// The mask for the next interval, after one in which so many transactions came, when so many are
/// to be measured, and up to twice as many may be.
fn mask_for(came: f64, wanted: f64) -> u64 {
    let doublings = (came / wanted).max(1.0).log2() as u32;
    (1 << doublings.min(MASK_BITS)) - 1
}

/// A plan of some steps, with the transaction that gave the occasion as its reason.
fn plan_of<'s>(
    request: &Request<'_>,
    design: &Design,
    steps: impl Iterator<Item = &'s Step>,
) -> Plan {
    let steps: Vec<_> = steps.cloned().collect();
    if steps.is_empty() {
        return Plan::default();
    }
    Plan { reason: request.footprint.to_text(design), steps }
}

impl LearnedState {
    /// A transaction sets out: what it will have to do is remembered until it has run.
    fn begin_sample(
        &mut self,
        request: &Request<'_>,
        design: &Design,
        place: Place,
        sample_weight: f64,
    ) {
        if self.under_way.len() >= Tuning::UNDER_WAY_MAX {
            // Those that never came back.
            self.under_way.clear();
        }
        let needs = needs(design, request.footprint);
        let work = self.known.work(&needs, rows_of(request.footprint), place.site());
        let written = needs.iter().filter(|need| need.access == Access::Write);
        let followers =
            written.clone().fold(SiteSet::EMPTY, |all, need| &all | &need.placement.replicas);
        let written = written.map(|need| (need.table, need.range.start.clone())).collect();
        let across = matches!(place, Place::Distributed { .. });
        let sites = if across { masters(&needs) } else { SiteSet::of(place.site()) };
        let begun = UnderWay { sample_weight, work, followers, sites, written };
        self.under_way.insert(request.ticket, begun);
    }

    fn plan(&mut self, request: &Request<'_>, design: &Design, place: Place) -> Vec<Candidate> {
        self.thoughts += 1;
        let now_ns = request.now.0;
        let LearnedState { known, drawing, hot_locks, .. } = self;
        let rate = known.regime.changes_per_second(now_ns);
        let budget = known.recent.budget(now_ns, rate).max(0.0) as usize;
        let in_probation = drawing.in_probation(now_ns);
        let may_move = !drawing.has_adopted || !known.traffic.full().is_empty();
        let situation = known.situation(now_ns, design, budget);
        let situation = Situation { in_probation, may_move, ..situation };
        if situation.may_add() {
            if let Some(relief) = situation.relief(place) {
                return vec![relief];
            }
            let hot_locks = std::mem::take(hot_locks);
            if let Some(splits) = situation.split_hot_locks(&hot_locks, place) {
                return vec![splits];
            }
            if is_distributed(place) {
                let beneficial = drawing.global_plan.next(&situation);
                if !beneficial.is_empty() {
                    return vec![Candidate::of_steps(place, beneficial)];
                }
            }
        }
        let coordinator = match place {
            Place::Distributed { coordinator } => Some(coordinator),
            Place::At(_) => None,
        };
        situation.plan(request.footprint, request.last_site, coordinator)
    }

    /// What is known, to draw a global plan of it, if it is time to.
    fn begin_global_plan(&mut self, now_ns: u64, design: &Design) -> Option<Known> {
        if self.known.end_renewal(now_ns, design) {
            self.drawing.regime_changed();
        }
        let situation = self.known.situation(now_ns, design, usize::MAX);
        self.drawing.begin(&situation).then(|| self.known.clone())
    }

    /// Looks at the signals of an interval: whether the workload holds still.
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

    /// Enters a decision into the journal, and what it asks for among what is on its way.
    fn enter(
        &mut self,
        request: &Request<'_>,
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
                self.known.recent.ask(request.now.0, change);
            }
            ranges.insert(range);
        }
        let ranges: Vec<Range> = ranges.into_iter().collect();
        let touching = self.known.workload.touching_any(&ranges);
        let took_us = touching.iter().map(|sample| sample.took_us).sum::<f64>();
        let count = touching.len() as f64;
        let share = count / self.known.workload.len().max(1) as f64;
        let seconds = self.known.tuning.horizon_ns as f64 / 1e9;
        let expected = share * seconds * self.known.traffic.transactions();
        let before_us = (count > 0.0).then(|| took_us / count);
        let effect = Effect { before_us, expected, ..Effect::default() };
        let entry = Entry {
            number: 0,
            at_ns: request.now.0,
            trigger: request.footprint.clone(),
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

    /// A measured transaction has run.
    fn learn(&mut self, report: &Report<'_>, measured: &Measured, stand_for_now: f64) {
        let us = |ns: u64| ns as f64 / 1e3;
        let took_us = us(report.latency_ns);
        let chances = chances(report.ticket);
        self.journal.observe(report.now.0, report.footprint, took_us, self.known.tuning.horizon_ns);
        self.measured += 1;
        let begun = self.under_way.remove(&report.ticket);
        // Since it set out, more or fewer may be measured.
        let sample_weight = begun.as_ref().map_or(stand_for_now, |it| it.sample_weight);
        // Over several sites, the first lock is held while the others are waited for.
        let sites = begun.as_ref().map_or(SiteSet::of(report.site), |it| it.sites.clone());
        let waiting_ns = if sites.len() > 1 { measured.lock_ns } else { 0 };
        let held_us = us(measured.held_ns + waiting_ns);
        self.known.workload.offer(report.now.0, report.footprint, measured.rows, took_us, chances);
        let followers = begun.as_ref().map_or(SiteSet::EMPTY, |it| it.followers.clone());
        self.known.traffic.count(&Seen {
            sites,
            sample_weight,
            rows: measured.rows,
            followers,
            busy_us: us(measured.run_ns),
            held_us: us(measured.held_ns),
            took_us,
        });
        // What it would have to do was not looked at in time: there is nothing to learn from.
        let Some(UnderWay { work, sites, written, .. }) = begun else { return };
        written.into_iter().for_each(|place| self.known.workload.hold(place, held_us));
        if sites.len() > 1 {
            return self.known.costs.learn_across(&work, sites.len(), took_us);
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

/// Two numbers from 0 to below 1 that a ticket gives.
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
        // The lowest bits decide other things as well.
        (ticket >> 8) & self.mask.load(Ordering::Relaxed) == 0
    }

    fn observe(&self, report: &Report<'_>) {
        if let Some(measured) = &report.measured
            && let Some(mut brain) = self.brain.try_lock()
        {
            brain.learn(report, measured, self.sample_weight());
        }
    }

    fn changed(&self, changed: &Changed<'_>) {
        let mut brain = self.brain.lock();
        brain.known.recent.hear(changed.now.0, changed.change, changed.took_ns.is_ok());
        brain.journal.hear(changed.change, &changed.took_ns);
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
        let brain = self.brain.lock();
        let LearnedState { known, before, journal, .. } = &*brain;
        Some(Memory::of(known.costs.clone(), before, journal, design).to_text())
    }

    fn recall(&self, memory: &str) -> Result<(), String> {
        let Memory { costs, decisions, .. } = Memory::parse(memory)?;
        let mut brain = self.brain.lock();
        let last = decisions.last().map_or(0, |told| told.number);
        brain.journal.count_from(last);
        (brain.known.costs, brain.before) = (costs, decisions);
        Ok(())
    }

    fn plan_globally(&self, now: Time, design: &Design) {
        if self.mode() == Mode::Off {
            return;
        }
        let begun = self.brain.lock().begin_global_plan(now.0, design);
        let Some(known) = begun else { return };
        // What takes long is done with nobody waiting.
        let situation = known.situation(now.0, design, usize::MAX);
        let drawn = GlobalPlan::draw(&situation);
        let mut brain = self.brain.lock();
        if drawn.is_some() {
            brain.known.regime.disturb(now.0);
        }
        brain.drawing.end(&self.tuning, drawn);
    }

    fn wants_loads(&self, now: Time) -> bool {
        let at = self.loads_at.load(Ordering::Relaxed);
        let next = now.0 + Tuning::LOADS_EVERY_NS;
        let swap =
            |at| self.loads_at.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
        // A clock that went far back is believed.
        (now.0 >= at || at - now.0 > 2 * Tuning::LOADS_EVERY_NS) && swap(at).is_ok()
    }

    fn loads(&self, now: Time, loads: &[SiteLoad]) {
        // Whoever brings the news is on its way with a transaction: the next one will bring them.
        let Some(mut brain) = self.brain.try_lock() else { return };
        brain.known.traffic.close(now.0, loads);
        brain.hot_locks = loads.iter().flat_map(|load| load.hot_locks.iter().cloned()).collect();
        brain.watch(&self.tuning, now.0);
        for load in loads {
            let site = brain.known.traffic.site(load.site);
            brain.known.costs.learn_load(site.rates, site.busy);
            let busy = &self.busy[usize::from(load.site.0)];
            busy.store((site.busy * 1000.0) as u64, Ordering::Relaxed);
        }
        // Nothing is changed much before the first plan, and that has to be seen first.
        let has_seen_enough = brain.known.workload.len() >= self.tuning.plan_samples_min;
        let is_quiet = has_seen_enough && brain.known.regime.is_calm(now.0);
        let is_quiet = is_quiet || self.mode() == Mode::Off;
        let per_second = self.tuning.measured_per_second * if is_quiet { 0.2 } else { 1.0 };
        let wanted = per_second * Tuning::LOADS_EVERY_NS as f64 / 1e9;
        let measured = std::mem::take(&mut brain.measured) as f64;
        let mask = self.mask.load(Ordering::Relaxed);
        let came = measured * self.sample_weight();
        let mask = match measured / wanted {
            // What comes now may be another workload: as many as it takes to know it.
            _ if self.mode() != Mode::Off && brain.known.workload.reservoir.renewed.is_some() => {
                mask_for(came, self.tuning.damping.size as f64 / 2.0)
            }
            // To know more soon is worth it, as long as there is room for it.
            share if share > 2.0 && !brain.known.workload.reservoir.is_full() => {
                (mask << 1 | 1) & ((1 << MASK_BITS) - 1)
            }
            share if share > 2.0 => mask_for(came, wanted),
            // Perhaps nobody asked for anything for a while.
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
    fn what_is_measured_is_as_much_as_is_wanted_or_up_to_twice() {
        for (came, of) in [(0.0, 1), (99.0, 1), (199.0, 1), (200.0, 2), (30_000.0, 256)] {
            assert_eq!(mask_for(came, 100.0), of - 1, "of {came}");
        }
        assert_eq!(mask_for(1e12, 10.0), (1 << MASK_BITS) - 1);
    }
}
