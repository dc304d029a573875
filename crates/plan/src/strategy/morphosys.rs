//! MorphoSys as printed (section 5.3), for comparison; the autopilot developed from it is
//! [`super::Learned`].
//!
//! ```text
//!   a site can run it ──▶ there; now and then with changes that pay off besides
//!   no site can ────────▶ net = E − C of the changes that each site lacks
//!                         └─▶ the best site gets them, and the transaction waits for them;
//!                             partitions written together move along (piggybacking)
//! ```
//!
//! It has the autopilot's model: samples, learned costs, and the samples' gain within the horizon,
//! which is the paper's λ. It has no global plan, no commit over several sites, and no budget of
//! changes. Until it has samples, and where a partition is changing already, it takes the site that
//! lacks least.

use super::learned::Learned;
use crate::learned::beneficial::OptionalChange;
use crate::learned::known::Situation;
use crate::learned::{Candidate, Range, Tuning};
use isomer_design::{Access, Design, Plan, Route, Time};
use isomer_strategy::{
    Changed, Decision, Need, Occasion, OnDemand, Place, Refused, Report, Request, SiteLoad,
    Strategy, Verdict, needs,
};
use std::collections::BTreeMap;

/// Two partitions move together if at least this share of the transactions that write to either
/// write to both; the paper says *high*.
const TOGETHER: f64 = 0.5;

/// See the [module documentation](self).
pub struct Morphosys {
    learned: Learned,
    necessary: OnDemand,
}

impl Default for Morphosys {
    fn default() -> Morphosys {
        let tuning = Tuning {
            plan_samples_min: usize::MAX,
            changes_per_second: f64::INFINITY,
            changes_at_rest: f64::INFINITY,
            ..Tuning::default()
        };
        Morphosys { learned: Learned::new(tuning), necessary: OnDemand::default() }
    }
}

impl Morphosys {
    /// The site with the largest net benefit, its necessary changes, and the piggybacked ones.
    fn arrange(&self, request: &Request<'_>) -> Result<Verdict, Refused> {
        let design = (request.design)();
        let needs = needs(&design, request.footprint);
        let chosen = self.learned.with_situation(request.now.0, &design, |situation| {
            let is_changing = needs.iter().any(|need| situation.is_asked(&Range::of(need)));
            let knows = situation.may_add() && !is_changing;
            knows.then(|| best(situation, request, &needs))
        });
        let Some(candidate) = chosen else { return self.necessary.decide(request) };
        let plan = |steps: &[_]| {
            let reason = request.footprint.to_text(&design);
            if steps.is_empty() { Plan::default() } else { Plan { reason, steps: steps.to_vec() } }
        };
        let (first, deferred) = (plan(&candidate.necessary), plan(&candidate.beneficial));
        let place = candidate.place;
        self.learned.decided(request, &design, candidate);
        Ok(Verdict::Run(Decision { place, first, deferred, is_occasion: false }))
    }
}

/// The candidate with the largest net benefit, including its piggybacked changes.
fn best(situation: &Situation<'_>, request: &Request<'_>, needs: &[Need]) -> Candidate {
    let sites = situation.sites(needs, &Default::default(), request.last_site);
    let candidates = sites.into_iter().map(|site| {
        let along = piggybacked(situation, needs, site);
        situation.candidate(Place::At(site), request.footprint, needs, along)
    });
    let net = |candidate: &Candidate| candidate.net_us() - candidate.run_us;
    let best = candidates.max_by(|a, b| net(a).total_cmp(&net(b)));
    best.expect("a transaction that no site can run has accesses")
}

/// Partitions that are written together with those whose masters come to a site.
fn piggybacked(
    situation: &Situation<'_>,
    needed: &[Need],
    site: isomer_design::SiteId,
) -> Vec<OptionalChange> {
    let Situation { known, design, .. } = situation;
    let mut along = BTreeMap::new();
    for need in needed.iter().filter(|need| need.lacks_master(site)) {
        let range = Range::of(need);
        let (mut writers, mut together) = (0.0, BTreeMap::<Range, (f64, Need)>::new());
        let touching = known.workload.touching_any(std::slice::from_ref(&range));
        for sample in touching.samples.into_iter().take(Tuning::MANY) {
            let mut written = needs(design, &sample.footprint);
            written.retain(|need| need.access == Access::Write);
            if written.iter().any(|other| other.range == need.range && other.table == need.table) {
                writers += 1.0;
                let count = |other: Need| {
                    together.entry(Range::of(&other)).or_insert((0.0, other)).0 += 1.0;
                };
                written.into_iter().for_each(count);
            }
        }
        let of_all = known.workload.writers(&range);
        along.extend(together.into_iter().filter_map(|(other, (both, need))| {
            let share = both / writers;
            let back = share * of_all / known.workload.writers(&other).max(f64::MIN_POSITIVE);
            let comes = share >= TOGETHER && back >= TOGETHER && need.lacks_master(site);
            comes.then_some((other, need))
        }));
    }
    needed.iter().for_each(|need| drop(along.remove(&Range::of(need))));
    let change = |(range, need): (Range, Need)| OptionalChange {
        steps: need.steps(site).collect(),
        range,
        placement: need.placement,
        upkeep_us: 0.0,
    };
    along.into_iter().map(change).collect()
}

impl Strategy for Morphosys {
    fn name(&self) -> &'static str {
        "morphosys"
    }

    fn decide(&self, request: &Request<'_>) -> Result<Verdict, Refused> {
        match &request.route {
            Route::Sites(_) | Route::UnknownTable(_) => self.learned.decide(request),
            Route::Nowhere { .. } if request.reserved => self.arrange(request),
            Route::Nowhere { .. } => Ok(Verdict::Reserve),
        }
    }

    fn wants(&self, ticket: u64) -> bool {
        self.learned.wants(ticket)
    }

    fn observe(&self, report: &Report<'_>) {
        self.learned.observe(report);
    }

    fn changed(&self, changed: &Changed<'_>) {
        self.learned.changed(changed);
    }

    fn memory(&self, design: &Design) -> Option<String> {
        self.learned.memory(design)
    }

    fn recall(&self, memory: &str) -> Result<(), String> {
        self.learned.recall(memory)
    }

    fn plan(&self, occasion: &Occasion<'_>) -> Plan {
        self.learned.plan(occasion)
    }

    fn plan_globally(&self, occasion: &Occasion<'_>) {
        self.learned.plan_globally(occasion);
    }

    fn wants_loads(&self, now: Time) -> bool {
        self.learned.wants_loads(now)
    }

    fn loads(&self, now: Time, loads: &[SiteLoad]) {
        self.learned.loads(now, loads);
    }
}
