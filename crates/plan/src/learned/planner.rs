//! The planner: for one transaction, what each site would need to run it, what else would pay, and
//! which site is the best (MorphoSys, section 5.3.3).
//!
//! ```text
//!   footprint ─▶ candidate sites ─▶ for each S:   necessary   replicas and masters that S lacks
//!                                                 beneficial  split what is hot, merge what is cold,
//!                                                             drop replicas that nobody reads
//!                                                 net(S) = λ·E(S) − C(S)
//!              ─▶ the site with the largest net(S)
//! ```
//!
//! E(S) is the saving that the [outlook](super::outlook) estimates, C(S) the learned cost of the
//! changes. The paper's λ, by which a benefit outweighs a cost, is a time here: the benefit is what
//! is saved within the horizon.
//!
//! **No change is necessary.** A transaction that no site can run has one alternative more than in
//! the paper: it can commit over several sites. So every change has to pay, and a one-off
//! transaction causes none. Changes are deferred: making the transaction wait was faster for it and
//! slower for all, since it holds what others wait for.
//!
//! **Nothing is piggybacked.** What is accessed together is brought together by the global plan, once for all
//! ([`super::global_plan`]): moved along with single transactions' partitions, it was nowhere served faster.
//!
//! **Masters move for single transactions only until the first global plan**
//! ([`super::global_plan`]). Later moves would break up what that has placed, until the next one
//! mends it. From then on single transactions cause replicas, splits and merges. Where a site's
//! memory is short, masters go on to move, as a plan may be unable to place them.
//!
//! **Chance.** A benefit counts at its lower bound ([`Saved::lower_bound_us`]). So nothing moves to and
//! fro where samples are few, or contradict each other, as where two groups of keys meet.
//!
//! **Hysteresis.** A change must save more than it costs by a margin; undoing a recent change is
//! charged more ([`Recent`]).
//!
//! Pure: the same situation gives the same answer.

use super::beneficial::{self, OptionalChange, evictions, extras};
use super::known::Situation;
use super::outlook::{Saved, free_sites, rows_of};
use super::range::Range;
use super::tuning::Tuning;
use isomer_design::{Change, Design, Footprint, HotLock, SiteId, SiteSet, Step};
use isomer_strategy::{Need, Place, needs};

/// What a site needs.
struct Base {
    site: SiteId,
    necessary: Vec<Step>,
    /// The design with that.
    design: Design,
    saved: Saved,
    cost_us: f64,
}

/// Changes that no transaction needs: the design after them, what they take, and what they save.
struct OptionalChanges {
    steps: Vec<Step>,
    design: Design,
    cost_us: f64,
    benefit_us: f64,
}

impl Base {
    fn net_us(&self) -> f64 {
        self.saved.us - self.cost_us
    }
}

/// What one site would need, and bring. Times are in microseconds.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate {
    /// Where it runs.
    pub place: Place,
    /// Changes without which it cannot run the transaction.
    pub necessary: Vec<Step>,
    /// Changes that pay.
    pub beneficial: Vec<Step>,
    /// What the changes take: C(S).
    pub cost_us: f64,
    /// What they save within the horizon, surely: E(S).
    pub benefit_us: f64,
    /// What the transaction takes there.
    pub run_us: f64,
}

impl Candidate {
    /// Changes that no transaction needs, and nothing else.
    pub(crate) fn of_steps(place: Place, beneficial: Vec<Step>) -> Candidate {
        let cost_us = beneficial.iter().filter_map(|step| step.predicted_cost).sum();
        let benefit_us = beneficial.iter().filter_map(|step| step.predicted_benefit).sum();
        let (necessary, run_us) = (Vec::new(), 0.0);
        Candidate { place, necessary, beneficial, cost_us, benefit_us, run_us }
    }

    /// E(S) − C(S).
    pub fn net_us(&self) -> f64 {
        self.benefit_us - self.cost_us
    }

    /// All changes, in order.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.necessary.iter().chain(&self.beneficial)
    }
}

/// What the planner says of a transaction.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    /// What was looked at, the best first.
    pub candidates: Vec<Candidate>,
}

impl Situation<'_> {
    /// What is best for this transaction; if it has to run over several sites, `coordinator` is
    /// one.
    ///
    /// # Panics
    /// If the design has no sites.
    pub(crate) fn plan(
        &self,
        footprint: &Footprint,
        last_site: Option<SiteId>,
        coordinator: Option<SiteId>,
    ) -> Answer {
        let needs = needs(self.design, footprint);
        let free = free_sites(self.design, &needs);
        // What is changing already is not moved to and fro.
        let changing =
            needs.iter().any(|need| self.recent.is_asked(self.now_ns, need.table, &need.range));
        let still = self.may_add && !self.in_probation && !changing;
        let in_reach =
            |site: SiteId| self.may_move || !needs.iter().any(|need| need.lacks_master(site));
        // A site without room gets no more copies.
        let has_room = |site: SiteId| {
            let lacks_room = self.outlook.traffic.site(site).lacks_room;
            !lacks_room || !needs.iter().any(|need| need.lacks_replica(site))
        };
        let comes = |site: SiteId| still && has_room(site) && in_reach(site);
        let sites = self.sites(&needs, &free, last_site).into_iter();
        let sites = sites.filter(|site| free.contains(*site) || comes(*site));
        let mut bases: Vec<Base> = sites.map(|site| self.base(site, &needs)).collect();
        bases.sort_by(|a, b| b.net_us().total_cmp(&a.net_us()));
        let bases = bases.into_iter().map(|base| self.candidate(base, footprint, &needs));
        let mut candidates: Vec<Candidate> = bases.collect();
        candidates.extend(coordinator.map(|site| self.across(site, &needs)));
        let rank = |candidate: &Candidate| candidate.net_us() - candidate.run_us;
        candidates.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
        assert!(!candidates.is_empty(), "a transaction runs somewhere");
        Answer { candidates }
    }

    /// What is to be done about a site that is nearly out of memory: it comes before all else.
    pub(crate) fn relief(&self, place: Place) -> Option<Answer> {
        let mut full = self.outlook.traffic.full().iter();
        let beneficial =
            full.find_map(|site| Some(evictions(self, *site)).filter(|s| !s.is_empty()))?;
        Some(Answer { candidates: vec![Candidate::of_steps(place, beneficial)] })
    }

    /// Splits of what many wait for, on the occasion of a transaction that may be any.
    pub(crate) fn split_hot_locks(&self, hot_locks: &[HotLock], place: Place) -> Option<Answer> {
        let design = self.design.clone();
        let mut besides =
            OptionalChanges { steps: Vec::new(), design, cost_us: 0.0, benefit_us: 0.0 };
        let extras =
            hot_locks.iter().filter_map(|hot_lock| beneficial::split_hot_lock(self, hot_lock));
        extras.for_each(|extra| self.add(&mut besides, extra));
        let candidates = vec![Candidate::of_steps(place, besides.steps)];
        (!candidates[0].beneficial.is_empty()).then_some(Answer { candidates })
    }

    /// Over several sites, with no master moved.
    fn across(&self, coordinator: SiteId, needs: &[Need]) -> Candidate {
        let run_us = self.outlook.across_us(needs, coordinator);
        let (steps, design) = (Vec::new(), self.design.clone());
        let mut besides = OptionalChanges { steps, design, cost_us: 0.0, benefit_us: 0.0 };
        self.add_extras(&mut besides, None, needs);
        let OptionalChanges { steps: beneficial, cost_us, benefit_us, .. } = besides;
        let (place, necessary) = (Place::Distributed { coordinator }, Vec::new());
        Candidate { place, necessary, beneficial, cost_us, benefit_us, run_us }
    }

    /// The sites worth a look.
    fn sites(&self, needs: &[Need], free: &SiteSet, last_site: Option<SiteId>) -> Vec<SiteId> {
        let holders = needs.iter().map(|need| need.placement.holders());
        let last = free & &last_site.map_or(SiteSet::EMPTY, SiteSet::of);
        let known = &holders.fold(last, |a, b| &a | &b) & self.design.sites();
        let mut sites: Vec<(f64, SiteId)> =
            known.iter().map(|site| (self.outlook.changes_us(needs, site), site)).collect();
        sites.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        sites.truncate(if needs.len() > Tuning::ITEMS_MAX { 1 } else { Tuning::FEW });
        let mut sites: Vec<SiteId> = sites.into_iter().map(|(_, site)| site).collect();
        let idlest = self.outlook.traffic.idlest(self.design.sites());
        let idlest = idlest.or_else(|| self.design.sites().first());
        sites.extend(idlest.filter(|site| !sites.contains(site)));
        sites
    }

    /// What the site needs to run the transaction, and no more.
    fn base(&self, site: SiteId, needs: &[Need]) -> Base {
        let necessary: Vec<Step> = needs.iter().flat_map(|need| need.steps(site)).collect();
        let mut design = self.design.clone();
        for step in &necessary {
            let applied = design.apply(&step.change);
            applied.expect("what a site lacks can be brought to it");
        }
        let cost_us = needs.iter().fold(0.0, |sum, need| sum + self.necessary_us(need, site));
        let lacking: Vec<Range> =
            needs.iter().filter(|n| n.is_lacked_by(site)).map(Range::of).collect();
        let saved = self.outlook.saved(self.design, &design, &lacking);
        Base { site, necessary, design, saved, cost_us }
    }

    /// A site with all that pays there.
    fn candidate(&self, base: Base, footprint: &Footprint, needs: &[Need]) -> Candidate {
        let Base { site, necessary, design, saved, cost_us } = base;
        let (steps, benefit_us) = (Vec::new(), saved.lower_bound_us(self.tuning));
        let mut besides = OptionalChanges { steps, design, cost_us, benefit_us };
        self.add_extras(&mut besides, Some(site), needs);
        let OptionalChanges { steps: beneficial, design, cost_us, benefit_us } = besides;
        let now = isomer_strategy::needs(&design, footprint);
        let work = self.outlook.work(&now, rows_of(footprint), site);
        let run_us = self.outlook.costs.transaction(&work).total();
        let place = Place::At(site);
        Candidate { place, necessary, beneficial, cost_us, benefit_us, run_us }
    }

    /// Adds what pays besides for a transaction that runs at a site, or over several.
    fn add_extras(&self, besides: &mut OptionalChanges, site: Option<SiteId>, needs: &[Need]) {
        if !self.may_add || needs.len() > Tuning::ITEMS_MAX {
            return;
        }
        for extra in extras(self, site, &besides.design, needs) {
            self.add(besides, extra);
        }
    }

    /// Adds a proposal, if it pays.
    fn add(&self, besides: &mut OptionalChanges, extra: OptionalChange) {
        let Some((after, gain, cost)) = self.judge(&besides.design, &extra) else { return };
        if gain > cost {
            let share = extra.steps.len() as f64;
            let predicted = |step: Step| step.predicted(cost / share, gain / share);
            besides.steps.extend(extra.steps.into_iter().map(predicted));
            besides.design = after;
            besides.benefit_us += gain;
            besides.cost_us += cost;
        }
    }

    /// What it takes to bring to a site what it lacks.
    pub(crate) fn necessary_us(&self, need: &Need, site: SiteId) -> f64 {
        let each = need.changes(site).map(|change| {
            let cost = self.outlook.change_us(&change, &Range::of(need), &need.placement);
            cost * self.charge(&change, need.placement.master)
        });
        each.sum()
    }

    /// The design after a further step, what it saves, and what it takes; `None` if it is not
    /// possible.
    fn judge(&self, design: &Design, extra: &OptionalChange) -> Option<(Design, f64, f64)> {
        let mut after = design.clone();
        let mut cost = 0.0;
        for step in &extra.steps {
            after.apply(&step.change).ok()?;
            cost += self.outlook.change_us(&step.change, &extra.range, &extra.placement)
                * self.charge(&step.change, extra.placement.master);
        }
        let saved = self.outlook.saved(design, &after, std::slice::from_ref(&extra.range));
        // What is saved by having less to keep is no guess.
        let gain = if saved.us > 0.0 { saved.lower_bound_us(self.tuning) } else { saved.us }
            + extra.upkeep_us;
        Some((after, gain, cost))
    }

    fn charge(&self, change: &Change, from: SiteId) -> f64 {
        self.recent.charge(self.now_ns, change, from)
    }
}
