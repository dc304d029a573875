//! What should move together: the clump of partitions around a transaction.
//!
//! Bringing one partition to where others are may save nothing: as long as a third one is missing,
//! transactions over all of them still run over several sites. So the planner does not weigh
//! partitions one by one; it lets a clump grow, ring by ring, by what is accessed most with what is
//! in it, and takes it as large as it is worth most:
//!
//! ```text
//!   the transaction needs   [20)  [30)              at s1: [20)
//!   accessed with these     [10) 9, [40) 8, [90) 1 times
//!
//!   clump    [30)      + [10) [40)    + [00) [50) [60)    …
//!   net      −2 ms     +31 ms         +30 ms                    taken: [30) [10) [40)
//! ```
//!
//! That is the clump of Clay (section 4), with the learned costs as its measure, for one
//! transaction at a time. MorphoSys (section 5.3.3) brings along what is co-accessed with the first
//! partition only; from masters placed by chance, that comes to rest in small pieces.
//!
//! A master that has gone to the site leaves a replica behind. If it is written more often than
//! read, it is not worth following, and goes at once.
//!
//! **The work** is bounded: each ring at most doubles the clump, there are so many rings, and
//! samples to judge a ring are as few as to judge a partition.

use super::outlook::Saved;
use super::range::Range;
use super::situation::Situation;
use isomer_design::{Access, Change, Design, Key, SiteId, Step, TableId};
use isomer_strategy::{Need, needs};
use std::collections::{BTreeMap, BTreeSet};

/// The most partitions of a clump.
const PARTITIONS_MAX: usize = 128;
/// A clump stops growing after this many rings in a row that gained nothing.
const IN_VAIN_MAX: usize = 2;
/// Samples of a partition that are asked what else they access.
const ASKED_MAX: usize = 16;
/// Partitions that were accessed with the clump less often than this are not part of it.
const TOGETHER_MIN: usize = 2;

/// Changes beyond what a transaction needs that pay as a whole.
pub(crate) struct Clump {
    pub(crate) steps: Vec<Step>,
    /// The design after them.
    pub(crate) design: Design,
    pub(crate) saved: Saved,
    pub(crate) cost_us: f64,
}

impl Clump {
    fn net_us(&self) -> f64 {
        self.saved.lower_bound_us() - self.cost_us
    }
}

type Place = (TableId, Key);

/// A clump that grows.
struct Growth<'s> {
    situation: &'s Situation<'s>,
    site: SiteId,
    now: Clump,
    /// Partitions that are in it, or were looked at.
    seen: BTreeSet<Place>,
    /// Samples that were asked.
    asked: BTreeSet<u64>,
    /// What is accessed with it and not at the site: how often, and how.
    around: BTreeMap<Place, (usize, Access)>,
}

/// The clump around what a transaction needs, under a design in which `site` has all that; `saved`
/// and `cost_us` are what that saves and costs. It makes at most so many changes.
pub(crate) fn grow(
    situation: &Situation<'_>,
    site: SiteId,
    design: Design,
    needs: &[Need],
    (saved, cost_us): (Saved, f64),
    changes_max: usize,
) -> Clump {
    let now = Clump { steps: Vec::new(), design: design.clone(), saved, cost_us };
    let mut best = Clump { steps: Vec::new(), design, saved, cost_us };
    let (seen, asked, around) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
    let mut growth = Growth { situation, site, now, seen, asked, around };
    needs.iter().for_each(|need| growth.look_around(need));
    let (mut size, mut in_vain) = (needs.len(), 0);
    while in_vain < IN_VAIN_MAX {
        let ring = growth.next_ring(size.min(PARTITIONS_MAX.saturating_sub(size)));
        if ring.is_empty() {
            break;
        }
        size += ring.len();
        growth.add(&ring);
        if growth.now.steps.len() > changes_max {
            break;
        }
        ring.iter().for_each(|need| growth.look_around(need));
        in_vain += 1;
        if growth.now.net_us() > best.net_us() {
            in_vain = 0;
            let Clump { design, saved, cost_us, .. } = &growth.now;
            let more = growth.now.steps[best.steps.len()..].iter().cloned();
            best.steps.extend(more);
            (best.design, best.saved, best.cost_us) = (design.clone(), *saved, *cost_us);
        }
    }
    best
}

impl Growth<'_> {
    /// Counts what is accessed with a partition.
    fn look_around(&mut self, need: &Need) {
        self.seen.insert((need.table, need.range.start.clone()));
        let Growth { situation, site, now, seen, asked, around } = self;
        let range = Range::of(need);
        let touching = situation.outlook.workload.touching(&range);
        let used = touching.len().min(ASKED_MAX);
        let some = (0..used).map(|at| touching[at * touching.len() / used]);
        for sample in some.filter(|sample| asked.insert(sample.number())) {
            for other in needs(&now.design, sample.footprint()) {
                let place = (other.table, other.range.start.clone());
                if !seen.contains(&place) && other.is_lacked_by(*site) {
                    let (count, access) = around.entry(place).or_insert((0, other.access));
                    *count += 1;
                    *access = other.access.max(*access);
                }
            }
        }
    }

    /// What is accessed most with the clump: at least half as often as anything else.
    fn next_ring(&mut self, partitions_max: usize) -> Vec<Need> {
        let most = self.around.values().map(|(count, _)| *count).max().unwrap_or(0);
        let least = (most / 2).max(TOGETHER_MIN);
        let mut ring: Vec<(usize, Place, Access)> = self
            .around
            .iter()
            .filter(|(_, (count, _))| *count >= least)
            .map(|(place, (count, access))| (*count, place.clone(), *access))
            .collect();
        ring.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        ring.truncate(partitions_max.max(1));
        let mut needs = Vec::new();
        for (_, place, access) in ring {
            self.around.remove(&place);
            self.seen.insert(place.clone());
            let (table, start) = place;
            let found = self.now.design.partition_of(table, &start);
            let need = found.map(|(range, placement)| Need { table, range, access, placement });
            needs.extend(need.filter(|need| self.may_move(need)));
        }
        needs
    }

    fn may_move(&self, need: &Need) -> bool {
        let Situation { now_ns, recent, .. } = self.situation;
        !recent.rests(*now_ns, need.table, &need.range.start)
            && !recent.is_asked(*now_ns, need.table, &need.range)
    }

    /// Brings partitions to the site.
    fn add(&mut self, ring: &[Need]) {
        let mut after = self.now.design.clone();
        let (mut steps, mut cost_us) = (Vec::new(), 0.0);
        for need in ring {
            let what = if need.access == Access::Write { "written" } else { "read" };
            let why = format!("{what} together with what {} has", self.site);
            steps.extend(need.steps(self.site).map(|step| Step { reason: why.clone(), ..step }));
            cost_us += self.situation.necessary_us(need, self.site);
            if let Some(step) = self.leave_nothing(need) {
                cost_us += self.situation.outlook.change_us(
                    &step.change,
                    &Range::of(need),
                    &need.placement,
                );
                steps.push(step);
            }
        }
        for step in &steps {
            after.apply(&step.change).expect("what a site lacks can be brought to it");
        }
        let ranges: Vec<Range> = ring.iter().map(Range::of).collect();
        let saved = self.situation.outlook.saved(&self.now.design, &after, &ranges);
        let share = steps.len() as f64;
        let predicted = |step: Step| step.predicted(cost_us / share, saved.us / share);
        self.now.steps.extend(steps.into_iter().map(predicted));
        self.now.saved = self.now.saved + saved;
        self.now.cost_us += cost_us;
        self.now.design = after;
    }

    /// The replica that a remaster leaves behind goes if it would not pay.
    fn leave_nothing(&self, need: &Need) -> Option<Step> {
        let site = need.placement.master;
        let shares = self.situation.outlook.workload.shares(&Range::of(need));
        if !need.lacks_master(self.site) || shares.read > shares.written {
            return None;
        }
        let backups = self.now.design.table(need.table).map_or(0, |table| table.backups().count);
        let replicas = need.placement.replicas.len() + usize::from(need.lacks_replica(self.site));
        if replicas <= usize::from(backups) {
            return None; // It is needed as a backup.
        }
        let (table, start) = (need.table, need.range.start.clone());
        let why = format!("{site} hardly reads what it does not write any more");
        Some(Step::new(Change::RemoveReplica { table, start, site }, why))
    }
}
