//! The planner (MorphoSys, section 5.3.3). For one transaction it finds the changes that each site
//! would need to run it, further changes that would pay off, and the best site.
//!
//! ```text
//!   footprint ─▶ candidate sites ─▶ for each S:   necessary   replicas and masters that S lacks
//!                                                 beneficial  split hot, merge cold partitions,
//!                                                             drop replicas without readers
//!                                                 net(S) = λ·E(S) − C(S)
//!              ─▶ the site with the largest net(S)
//! ```
//!
//! E(S) is the saving that the [outlook](super::outlook) estimates, C(S) the learned cost of the
//! changes. The paper's λ, which weighs benefit against cost, is a time here: the benefit is the
//! saving within the horizon.
//!
//! **No change is necessary.** A transaction that no site can run alone has one alternative more
//! than in the paper. It can commit over several sites. So every change has to pay off, and a
//! one-off transaction causes none. Changes are deferred: letting the transaction wait for them was
//! faster for it and slower for all, since it holds locks that others wait for.
//!
//! **Nothing is piggybacked.** The global plan moves co-accessed partitions together, all at once
//! ([`super::global_plan`]). Moving them along with the partitions of single transactions raised
//! the throughput of no workload.
//!
//! **Masters move for single transactions only until the first global plan**
//! ([`super::global_plan`]). Later moves would break up its placement until the next plan repairs
//! it. From then on single transactions cause replicas, splits and merges. If a site is short of
//! memory, masters continue to move, because a plan may be unable to place them.
//!
//! **Chance.** A benefit counts at its lower bound (`Saved::surely_us`). So nothing moves to and
//! fro where samples are few or contradict each other, for example where two groups of keys meet.
//!
//! **Hysteresis.** A change must save more than it costs by a margin, and undoing a recent change
//! is charged more ([`Recent`]).
//!
//! The planner is pure: the same situation gives the same answer.

use super::beneficial::{self, OptionalChange, evictions, extras};
use super::known::Situation;
use super::outlook::{free_sites, rows_of};
use super::range::Range;
use super::tuning::Tuning;
use isomer_design::{Change, Design, Footprint, HotLock, Placement, SiteId, SiteSet, Step};
use isomer_strategy::{Need, Place, needs};

/// A candidate under construction, and the design with its changes.
struct Draft {
    candidate: Candidate,
    design: Design,
}

/// The changes for one site, and their benefit. Times are in microseconds.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate {
    /// The place where the transaction runs.
    pub place: Place,
    /// Changes without which the place cannot run the transaction.
    pub necessary: Vec<Step>,
    /// Further changes that pay off.
    pub beneficial: Vec<Step>,
    /// The cost of the changes: C(S).
    pub cost_us: f64,
    /// The lower bound of their saving within the horizon: E(S).
    pub benefit_us: f64,
    /// The estimate of which `benefit_us` is the lower bound.
    pub saves_us: f64,
    /// The predicted time of the transaction at the place.
    pub run_us: f64,
}

impl Candidate {
    /// A candidate of optional changes only.
    pub(crate) fn of_steps(place: Place, beneficial: Vec<Step>) -> Candidate {
        let cost_us = beneficial.iter().filter_map(|step| step.predicted_cost).sum();
        let benefit_us = beneficial.iter().filter_map(|step| step.predicted_benefit).sum();
        let (necessary, run_us, saves_us) = (Vec::new(), 0.0, benefit_us);
        Candidate { place, necessary, beneficial, cost_us, benefit_us, saves_us, run_us }
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

impl Situation<'_> {
    /// The candidates for this transaction, the best first; `coordinator` is that of a distributed
    /// one. Empty if the design has changed since it ran such that no single site can run it any
    /// more, and no copy may move now.
    pub(crate) fn plan(
        &self,
        footprint: &Footprint,
        last_site: Option<SiteId>,
        coordinator: Option<SiteId>,
    ) -> Vec<Candidate> {
        let needs = needs(self.design, footprint);
        let free = free_sites(self.design, &needs);
        // A range with a change in flight gets no further change.
        let changing = needs.iter().any(|need| self.is_asked(&Range::of(need)));
        let still = self.may_add() && !self.in_probation && !changing;
        let in_reach =
            |site: SiteId| self.may_move || !needs.iter().any(|need| need.lacks_master(site));
        // A site without room gets no more copies.
        let has_room = |site: SiteId| {
            let lacks_room = self.known.traffic.site(site).lacks_room;
            !lacks_room || !needs.iter().any(|need| need.lacks_replica(site))
        };
        let comes = |site: SiteId| still && has_room(site) && in_reach(site);
        let sites = self.sites(&needs, &free, last_site).into_iter();
        let sites = sites.filter(|site| free.contains(*site) || comes(*site)).map(Place::At);
        let across = coordinator.map(|coordinator| Place::Distributed { coordinator });
        let places = sites.chain(across);
        let mut candidates: Vec<Candidate> =
            places.map(|place| self.candidate(place, footprint, &needs, Vec::new())).collect();
        let rank = |candidate: &Candidate| candidate.net_us() - candidate.run_us;
        candidates.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
        candidates
    }

    /// The relief of a site that is nearly out of memory, which has priority over all else.
    pub(crate) fn relief(&self, place: Place) -> Option<Candidate> {
        let full = self.known.traffic.full();
        let beneficial =
            full.iter().find_map(|site| Some(evictions(self, site)).filter(|s| !s.is_empty()))?;
        Some(Candidate::of_steps(place, beneficial))
    }

    /// Splits of hot locks. The transaction that triggers them may be any.
    pub(crate) fn split_hot_locks(&self, hot_locks: &[HotLock], place: Place) -> Option<Candidate> {
        let mut draft = self.draft(place);
        let extras = hot_locks.iter().filter_map(|lock| beneficial::split_hot_lock(self, lock));
        extras.for_each(|extra| self.add(&mut draft, extra));
        Some(draft.candidate).filter(|candidate| !candidate.beneficial.is_empty())
    }

    /// The sites to consider.
    pub(crate) fn sites(
        &self,
        needs: &[Need],
        free: &SiteSet,
        last_site: Option<SiteId>,
    ) -> Vec<SiteId> {
        let holders = needs.iter().map(|need| need.placement.holders());
        let last = free & &last_site.map_or(SiteSet::EMPTY, SiteSet::of);
        let known = &holders.fold(last, |a, b| &a | &b) & self.design.sites();
        let cost = |site| needs.iter().map(|need| self.necessary_us(need, site)).sum::<f64>();
        let mut sites: Vec<(f64, SiteId)> = known.iter().map(|site| (cost(site), site)).collect();
        sites.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        sites.truncate(if needs.len() > Tuning::ITEMS_MAX { 1 } else { Tuning::FEW });
        let mut sites: Vec<SiteId> = sites.into_iter().map(|(_, site)| site).collect();
        let idlest = self.known.traffic.idlest(self.design.sites());
        let idlest = idlest.or_else(|| self.design.sites().first());
        sites.extend(idlest.filter(|site| !sites.contains(site)));
        sites
    }

    /// A candidate without changes.
    fn draft(&self, place: Place) -> Draft {
        let candidate = Candidate::of_steps(place, Vec::new());
        Draft { candidate, design: self.design.clone() }
    }

    /// A site with the changes that it needs to run the transaction, and all that pay off, from
    /// `some` and others. Alternatively a distributed transaction, without moves of masters.
    pub(crate) fn candidate(
        &self,
        place: Place,
        footprint: &Footprint,
        needs: &[Need],
        some: Vec<OptionalChange>,
    ) -> Candidate {
        let mut draft = self.draft(place);
        let site = match place {
            Place::At(site) => Some(site),
            Place::Distributed { .. } => None,
        };
        site.into_iter().for_each(|site| self.add_necessary(&mut draft, site, needs));
        if self.may_add() && needs.len() <= Tuning::ITEMS_MAX {
            let extras = extras(self, site, &draft.design, needs);
            some.into_iter().chain(extras).for_each(|extra| self.add(&mut draft, extra));
        }
        let Draft { mut candidate, design } = draft;
        candidate.run_us = match place {
            Place::At(site) => {
                let now = isomer_strategy::needs(&design, footprint);
                let work = self.known.work(&now, rows_of(footprint), site);
                self.known.costs.transaction(&work).total()
            }
            Place::Distributed { coordinator } => self.known.across_us(needs, coordinator),
        };
        candidate
    }

    /// Adds the changes that the site needs to run the transaction.
    fn add_necessary(&self, draft: &mut Draft, site: SiteId, needs: &[Need]) {
        let Draft { candidate, design } = draft;
        let lacking = needs.iter().filter(|need| need.is_lacked_by(site));
        let lacking: Vec<Range> = lacking.map(Range::of).collect();
        candidate.necessary = needs.iter().flat_map(|need| need.steps(site)).collect();
        for step in &candidate.necessary {
            let applied = design.apply(&step.change);
            applied.expect("necessary changes are valid");
        }
        candidate.cost_us = needs.iter().fold(0.0, |sum, need| sum + self.necessary_us(need, site));
        let saved = self.known.saved(self.design, design, &lacking);
        (candidate.benefit_us, candidate.saves_us) = (saved.surely_us, saved.us);
    }

    /// Adds a proposal if it is possible and pays off.
    fn add(&self, draft: &mut Draft, extra: OptionalChange) {
        let Draft { candidate, design } = draft;
        let OptionalChange { steps, range, placement, upkeep_us } = extra;
        let mut after = design.clone();
        if steps.iter().any(|step| after.apply(&step.change).is_err()) {
            return;
        }
        let costs = steps.iter().map(|step| self.change_us(&step.change, &range, &placement));
        let cost: f64 = costs.sum();
        let saved = self.known.saved(design, &after, std::slice::from_ref(&range));
        // The upkeep that is saved is certain.
        let sure = if saved.us > 0.0 { saved.surely_us } else { saved.us };
        let gain = sure + upkeep_us;
        if gain > cost {
            let share = steps.len() as f64;
            let predicted = |step: Step| step.predicted(cost / share, gain / share);
            candidate.beneficial.extend(steps.into_iter().map(predicted));
            candidate.benefit_us += gain;
            candidate.saves_us += saved.us + upkeep_us;
            candidate.cost_us += cost;
            *design = after;
        }
    }

    /// The cost of bringing to a site the copy or mastership that it lacks.
    pub(crate) fn necessary_us(&self, need: &Need, site: SiteId) -> f64 {
        let range = Range::of(need);
        need.changes(site).map(|change| self.change_us(&change, &range, &need.placement)).sum()
    }

    /// The cost of a change, raised if it undoes a recent one.
    fn change_us(&self, change: &Change, range: &Range, placement: &Placement) -> f64 {
        self.known.change_us(change, range, placement)
            * self.known.recent.charge(self.now_ns, change, placement.master)
    }
}
