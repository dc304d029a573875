//! Steering: a strategy around the chosen one, with the parts that operators see and control.
//!
//! ```text
//!   transactions ──▶ Steering ──▶ Decider ──▶ plans ──┬─ auto: carried out
//!                        │                            ├─ approve: a proposal, which waits for an operator
//!                        └─▶ heat map, pulse, recent  └─ not permitted: dropped
//! ```
//!
//! **Restraints.** The modes of tables, the window, the budgets and the limit on disturbance say
//! which changes may begin ([`isomer_plan::restraints`]).
//!
//! **Approve.** The strategy hands out what it would change, as it does in the mode `auto`.
//! Steering keeps it as a [proposal](isomer_plan::proposals) and carries out nothing.
//!
//! **The switch.** While `design_changes` is off, no change that a strategy wants begins, and plans
//! that the conductor had queued are dropped. Takeovers and the backups that tables ask for go on:
//! they keep the database serving.
//!
//! **Heat.** One transaction in [`Steering::one_in`] is measured for the heat map, about
//! [`SAMPLED_PER_SECOND`] a second. The strategy hears only of transactions that it wants itself.
//! The [pulse](isomer_plan::pulse) of the load is measured by the same sample, and part of it is
//! kept for [advice](crate::recent).

use crate::figures::{Figure, FigureValue};
use crate::heat::Heat;
use crate::pilot::Decider;
use crate::recent::Recent;
use isomer_cluster::{Durations, follows_plans};
use isomer_design::{Change, Design, Plan, Route, TableDesign, Time};
use isomer_plan::learned::journal::Journal;
use isomer_plan::proposals::{Of, Proposals, leaves_backups, parts, possible};
use isomer_plan::pulse::Pulse;
use isomer_plan::restraints::{Restraints, Withheld};
use isomer_strategy::{
    Cause, Changed, Decision, NotMade, Occasion, Place, Refused, Report, Request, SiteLoad, Stage,
    Strategy, Verdict, coordinator, pick,
};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The prefix of the store tables that hold definitions.
pub(crate) const SYSTEM: &str = "isomer_";
/// Transactions that the heat map counts a second: at least half of this and at most twice, or all.
const SAMPLED_PER_SECOND: u64 = 1000;
/// The rarest sample: one transaction in this many.
const ONE_IN_MAX: u64 = 1 << 14;

/// Phases of a transaction at its site.
const PHASES: [&str; 4] = ["lock", "replication", "run", "commit"];

/// The ends of the buckets of [`Forecasts`]: the error as a share of the forecast.
const ERRORS: [f64; 7] = [0.1, 0.25, 0.5, 1.0, 2.0, 5.0, f64::INFINITY];

/// The errors of the forecasts of decisions that were measured.
#[derive(Default)]
struct Forecasts {
    /// The decisions that are counted already, of those that the journal has.
    counted: BTreeSet<u64>,
    counts: [u64; ERRORS.len()],
    sum: f64,
}

impl Forecasts {
    /// Counts the decisions of a journal whose effect is known by now.
    fn count(&mut self, journal: &Journal) {
        let oldest = journal.entries().last().map_or(u64::MAX, |entry| entry.number);
        self.counted = self.counted.split_off(&oldest);
        for entry in journal.entries() {
            let foretold = entry.candidates.first().map(|chosen| chosen.saves_us);
            let foretold = foretold.and_then(|saves| entry.effect.foretold_us(saves));
            let (Some(foretold), Some(measured)) = (foretold, entry.effect.measured_us()) else {
                continue;
            };
            if foretold > 0.0 && self.counted.insert(entry.number) {
                let error = (measured / foretold - 1.0).abs();
                let bucket = ERRORS.iter().position(|end| error <= *end);
                self.counts[bucket.unwrap_or(ERRORS.len() - 1)] += 1;
                self.sum += error;
            }
        }
    }

    fn figure(&self) -> Figure {
        Figure {
            name: "isomer_forecast_error_ratio",
            help: "Errors of forecasts of decisions, as shares of the forecast saving.",
            labels: Vec::new(),
            value: FigureValue::Histogram {
                sum: self.sum,
                count: self.counts.iter().sum(),
                buckets: ERRORS.into_iter().zip(self.counts).collect(),
            },
        }
    }
}

/// The outcomes of changes of one kind.
#[derive(Default)]
struct Made {
    took: Durations,
    refused: BTreeMap<Cause, u64>,
}

/// See the [module documentation](self).
pub(crate) struct Steering {
    pub(crate) decider: Decider,
    pub(crate) proposals: Mutex<Proposals>,
    pub(crate) heat: Mutex<Heat>,
    pub(crate) restraints: Mutex<Restraints>,
    pub(crate) pulse: Mutex<Pulse>,
    pub(crate) recent: Mutex<Recent>,
    /// The statements of approved proposals that are to be run, with their numbers.
    pub(crate) approved: Mutex<Vec<(u64, String)>>,
    are_changes_off: AtomicBool,
    /// Changes of strategies that were dropped, by reason.
    withheld: Mutex<BTreeMap<Withheld, u64>>,
    changes: Mutex<BTreeMap<&'static str, Made>>,
    phases: [Durations; PHASES.len()],
    forecasts: Mutex<Forecasts>,
    /// For how long new masters kept writers waiting.
    pauses: Durations,
    /// A power of two.
    one_in: AtomicU64,
    sampled: AtomicU64,
    /// The second of the last adjustment.
    second: AtomicU64,
}

impl Steering {
    pub(crate) fn new(decider: Decider) -> Steering {
        Steering {
            decider,
            proposals: Mutex::default(),
            heat: Mutex::default(),
            restraints: Mutex::default(),
            pulse: Mutex::default(),
            recent: Mutex::default(),
            approved: Mutex::default(),
            are_changes_off: AtomicBool::new(false),
            withheld: Mutex::default(),
            changes: Mutex::default(),
            phases: Default::default(),
            forecasts: Mutex::default(),
            pauses: Durations::default(),
            one_in: AtomicU64::new(1),
            sampled: AtomicU64::new(0),
            second: AtomicU64::new(0),
        }
    }

    /// Whether no change of a strategy or an operator begins.
    pub(crate) fn are_changes_off(&self) -> bool {
        self.are_changes_off.load(Ordering::SeqCst)
    }

    pub(crate) fn turn_changes(&self, on: bool) {
        self.are_changes_off.store(!on, Ordering::SeqCst);
    }

    /// Measures the load before and after approved plans.
    pub(crate) fn weigh(&self, now: Time) {
        let pulse = self.pulse.lock();
        self.proposals.lock().weigh(now, |from, to| pulse.measure(from, to));
    }

    /// Changes by kind and outcome, proposals by state, and phases of transactions.
    pub(crate) fn figures(&self, now: Time) -> Vec<Figure> {
        let mut changes = self.changes.lock();
        for kind in Change::OPERATORS {
            changes.entry(kind).or_default();
        }
        let made = changes.iter().map(|(kind, made)| {
            let help = "Changes of the design that took effect, by kind.";
            Figure::counter("isomer_design_changes", help, made.took.count()).with("kind", kind)
        });
        let refused = changes
            .iter()
            .flat_map(|(kind, made)| made.refused.iter().map(move |refused| (kind, refused)));
        let refused = refused.map(|(kind, (cause, count))| {
            let help = "Changes of the design that were refused or failed, by kind and reason.";
            let name = "isomer_design_changes_refused";
            Figure::counter(name, help, *count).with("kind", kind).with("reason", cause.name())
        });
        let withheld = self.withheld.lock();
        let withheld = Withheld::ALL.iter().map(|why| {
            let count = withheld.get(why).copied().unwrap_or(0);
            let help = "Changes that a strategy wanted and operators do not permit, by reason.";
            let name = "isomer_design_changes_withheld";
            Figure::counter(name, help, count).with("reason", why.name())
        });
        let took = changes.iter().map(|(kind, made)| {
            let help = "Duration of changes of the design, by kind.";
            let name = "isomer_design_change_duration_seconds";
            Figure::durations(name, help, &made.took.shown()).with("kind", kind)
        });
        let phases = PHASES.iter().zip(&self.phases).map(|(phase, took)| {
            let help = "Time of sampled transactions in each phase.";
            let name = "isomer_transaction_phase_seconds";
            Figure::durations(name, help, &took.shown()).with("phase", phase)
        });
        let mut states = BTreeMap::from([("proposed", 0.0)]);
        for proposal in self.proposals.lock().all() {
            *states.entry(proposal.state.name()).or_default() += 1.0;
        }
        let proposals = states.into_iter().map(|(state, count)| {
            let help = "Proposals by state, since the process with the conductor began.";
            Figure::gauge("isomer_proposals", help, count).with("state", state)
        });
        let mut forecasts = self.forecasts.lock();
        if let Decider::Learned(learned) = &self.decider {
            learned.with_journal(|journal| forecasts.count(journal));
        }
        let help = "Time for which a change of a master kept the writers of its partition waiting, \
                    at most.";
        let pauses = Figure::durations("isomer_design_pause_seconds", help, &self.pauses.shown());
        let added = self.pulse.lock().added_p99_us(now).map(|us| {
            let help = "Rise of the 99th percentile of transactions in seconds with changes, \
                        in the last minute.";
            Figure::gauge("isomer_design_change_added_p99_seconds", help, us / 1e6)
        });
        let on = f64::from(u8::from(!self.are_changes_off()));
        let help = "1 if changes of the design may begin, else 0.";
        let switch = Figure::gauge("isomer_design_changes_allowed", help, on);
        made.chain(refused)
            .chain(withheld)
            .chain(took)
            .chain(phases)
            .chain(proposals)
            .chain([switch, pauses, forecasts.figure()])
            .chain(added)
            .collect()
    }

    /// Limits the changes per minute of the strategy; `None`: no limit.
    pub(crate) fn limit_changes(&self, per_minute: Option<u32>) {
        self.restraints.lock().per_minute = per_minute;
        if let Decider::Learned(learned) = &self.decider {
            learned.limit_changes(per_minute);
        }
    }

    /// The part of a strategy's plan that is carried out. Changes that a transaction needs do not
    /// come here.
    fn passed(&self, now: Time, plan: Plan, design: impl FnOnce() -> Design) -> Plan {
        if plan.is_empty() {
            return plan;
        }
        if self.are_changes_off() {
            plan.changes().for_each(|change| self.withhold(now, change, Withheld::Switch));
            return Plan::default();
        }
        let decision = match &self.decider {
            Decider::Learned(learned) => learned.decision_of(&plan),
            Decider::Elastic(_) => None,
        };
        let wanted = plan.steps.len();
        let has_limit = self.restraints.lock().added_p99_us.is_some();
        let added_us = has_limit.then(|| self.pulse.lock().added_p99_us(now)).flatten();
        let sifted = self.restraints.lock().sift(now, self.decider.mode(), added_us, plan);
        sifted.withheld.iter().for_each(|(change, why)| self.withhold(now, change, *why));
        if !sifted.proposed.is_empty() {
            let (design, mut plan) = (design(), sifted.proposed);
            // The tables of definitions are near the conductor, which uses them.
            let is_own = |table: &TableDesign| table.name().starts_with(SYSTEM);
            let follows = |id| design.table(id).is_ok_and(|it| follows_plans(it) && !is_own(it));
            plan.steps.retain(|step| step.change.table().is_some_and(follows));
            let plan = possible(plan, &design, leaves_backups);
            let parts = parts(&plan, &design);
            let is_whole = plan.steps.len() == wanted;
            let of = decision.map(|(decision, forecast)| Of {
                decision,
                forecast: is_whole.then_some(forecast),
            });
            self.proposals.lock().offer(now, plan, of, parts);
        }
        sifted.carried
    }

    /// Drops a change, and tells the strategy so.
    fn withhold(&self, now: Time, change: &Change, why: Withheld) {
        *self.withheld.lock().entry(why).or_default() += 1;
        match &self.decider {
            Decider::Learned(learned) => learned.withheld(change, why),
            Decider::Elastic(elastic) => {
                let took_ns = Err(NotMade { cause: Cause::Withheld, why: why.why().to_owned() });
                elastic.changed(&Changed { change, rows: 0, bytes: 0, took_ns, now });
            }
        }
    }

    fn is_sampled(&self, ticket: u64) -> bool {
        // The lowest bits are used for other decisions.
        (ticket >> 8).is_multiple_of(self.one_in.load(Ordering::Relaxed))
    }

    fn count(&self, request: &Request<'_>) {
        let weight = self.one_in.load(Ordering::Relaxed);
        if let Some(mut pulse) = self.pulse.try_lock() {
            pulse.ran(request.now, matches!(request.route, Route::Sites(_)));
        }
        if let Some(mut recent) = self.recent.try_lock() {
            recent.offer(request.now, weight, request.footprint);
        }
        if let Some(mut heat) = self.heat.try_lock() {
            let weight = weight as u32;
            for item in request.footprint.items() {
                heat.count(request.now.0, item.table, item.span.start(), item.access, weight);
            }
        }
        self.sampled.fetch_add(1, Ordering::Relaxed);
        let (second, last) = (request.now.0 / 1_000_000_000, self.second.load(Ordering::Relaxed));
        let swap = |last| {
            self.second.compare_exchange(last, second, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        if second != last && swap(last) {
            let seconds = second.abs_diff(last).max(1);
            let sampled = self.sampled.swap(0, Ordering::Relaxed) / seconds;
            let one_in = self.one_in.load(Ordering::Relaxed);
            let next = match sampled {
                0..500 => (one_in / 2).max(1),
                sampled if sampled > 2 * SAMPLED_PER_SECOND => (one_in * 2).min(ONE_IN_MAX),
                _ => one_in,
            };
            self.one_in.store(next, Ordering::Relaxed);
        }
    }
}

/// A place for a transaction of which the strategy does not want to hear.
fn place(request: &Request<'_>) -> Result<Place, Refused> {
    match &request.route {
        Route::Sites(sites) => Ok(Place::At(pick(sites, request))),
        Route::Nowhere { .. } => Ok(Place::Distributed { coordinator: coordinator(request) }),
        Route::UnknownTable(table) => Err(Refused::UnknownTable(*table)),
    }
}

impl Strategy for Steering {
    fn name(&self) -> &'static str {
        self.decider.name()
    }

    fn decide(&self, request: &Request<'_>) -> Result<Verdict, Refused> {
        if request.stage != Stage::Commit && self.is_sampled(request.ticket) {
            self.count(request);
        }
        if request.stage == Stage::Ended && !self.decider.wants(request.ticket) {
            let decision = match place(request)? {
                Place::At(site) => Decision::at(site),
                Place::Distributed { coordinator } => Decision::across(coordinator),
            };
            return Ok(Verdict::Run(decision));
        }
        let verdict = self.decider.decide(request)?;
        Ok(match verdict {
            Verdict::Run(mut decision) => {
                decision.deferred = self.passed(request.now, decision.deferred, request.design);
                Verdict::Run(decision)
            }
            Verdict::Reserve => Verdict::Reserve,
        })
    }

    fn wants(&self, ticket: u64) -> bool {
        self.is_sampled(ticket) || self.decider.wants(ticket)
    }

    fn observe(&self, report: &Report<'_>) {
        if let Some(measured) = report.measured {
            let took_ns = [measured.lock_ns, measured.wait_ns, measured.run_ns, measured.commit_ns];
            self.phases.iter().zip(took_ns).for_each(|(phase, ns)| phase.add(ns / 1000));
            if let Some(mut pulse) = self.pulse.try_lock() {
                pulse.took(report.now, measured.service_ns + took_ns.iter().sum::<u64>());
            }
        }
        if self.decider.wants(report.ticket) {
            self.decider.observe(report);
        }
    }

    fn changed(&self, changed: &Changed<'_>) {
        {
            let mut changes = self.changes.lock();
            let made = changes.entry(changed.change.operator()).or_default();
            match &changed.took_ns {
                Ok(ns) => made.took.add(ns / 1000),
                Err(not_made) => *made.refused.entry(not_made.cause).or_default() += 1,
            }
        }
        let took_ns = *changed.took_ns.as_ref().unwrap_or(&0);
        if let (Change::Remaster { .. }, Ok(ns)) = (changed.change, &changed.took_ns) {
            self.pauses.add(ns / 1000);
        }
        let begun = Time(changed.now.0.saturating_sub(took_ns));
        self.pulse.lock().changed(begun, changed.now);
        self.restraints.lock().ended(changed.now, changed.change, changed.bytes);
        if let (Change::Split { table, at }, Ok(_)) = (changed.change, &changed.took_ns) {
            self.heat.lock().cut(*table, at);
        }
        self.decider.changed(changed);
    }

    fn plan(&self, occasion: &Occasion<'_>) -> Plan {
        let plan = self.decider.plan(occasion);
        self.passed(occasion.now, plan, || occasion.design.clone())
    }

    fn plan_globally(&self, occasion: &Occasion<'_>) {
        self.decider.plan_globally(occasion);
        if let Decider::Elastic(elastic) = &self.decider
            && let Some(plan) = elastic.take_proposed()
        {
            self.passed(occasion.now, plan, || occasion.design.clone());
        }
    }

    fn wants_loads(&self, now: Time) -> bool {
        self.decider.wants_loads(now)
    }

    fn loads(&self, now: Time, loads: &[SiteLoad]) {
        self.decider.loads(now, loads);
    }

    fn memory(&self, design: &Design) -> Option<String> {
        self.decider.memory(design)
    }

    fn recall(&self, memory: &str) -> Result<(), String> {
        self.decider.recall(memory)
    }
}
