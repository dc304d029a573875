//! Changes that no transaction needs but that may pay off: proposed here, judged by the
//! [planner](super::planner).
//!
//! | proposal | when |
//! | --- | --- |
//! | split | its lock is held for half of the time, or it has a large share of all accesses |
//! | | its lock is hot, as its site reports |
//! | merge | it and a neighbour have fewer accesses than the average, and equal placements |
//! | remove a replica | of a partition that is written here: it may cost more than it saves |
//! | | at a site that is nearly out of memory: the least useful one |
//! | move a master | from such a site without replicas, while nothing else moves |
//!
//! The thresholds of splitting and merging differ, so that a split is not followed by the merge
//! that undoes it. During a global plan only hot locks are split: other locks are held for long
//! because partitions are moving. A distributed transaction may trigger a split, too, because locks
//! at borders between sites are held the longest.

use super::known::Situation;
use super::range::Range;
use super::tuning::Tuning;
use super::workload::even_cuts;
use isomer_design::{Access, Change, Design, HotLock, Key, KeyRange, Placement, SiteId, Step};
use isomer_strategy::Need;
use std::collections::BTreeMap;

/// Related steps about one partition.
pub(crate) struct OptionalChange {
    pub(crate) steps: Vec<Step>,
    /// The range that they touch, and its placement.
    pub(crate) range: Range,
    pub(crate) placement: Placement,
    /// Further savings by them, in microseconds.
    pub(crate) upkeep_us: f64,
}

/// Optional changes that may pay off, under a design in which `site` can run a transaction with
/// these needs. Without a site, for a distributed transaction, only splits.
pub(crate) fn extras(
    situation: &Situation<'_>,
    site: Option<SiteId>,
    design: &Design,
    needs: &[Need],
) -> Vec<OptionalChange> {
    let average = 1.0 / design.partition_count().max(Tuning::MANY) as f64;
    let mut busiest: Vec<(f64, &Need)> =
        needs.iter().map(|need| (accesses(situation, &Range::of(need)), need)).collect();
    busiest.sort_by(|a, b| b.0.total_cmp(&a.0));
    busiest.truncate(Tuning::FEW);
    let mut extras = Vec::new();
    for (share, before) in busiest {
        // Its partition under `design`.
        let Some((range, placement)) = design.partition_of(before.table, &before.range.start)
        else {
            continue;
        };
        let need = Need { range, placement, ..before.clone() };
        let range = Range::of(&need);
        if situation.is_asked(&range) || site.is_some_and(|site| before.is_lacked_by(site)) {
            continue;
        }
        let held = situation.known.held(&range);
        let heat = (held / situation.known.tuning.hot).max(share * Tuning::MANY as f64);
        if heat >= 1.0 {
            let may_split = !situation.in_probation;
            let why = || format!("{:.1} % of all accesses go to what it is part of", 100.0 * share);
            let cuts = || situation.known.workload.cuts(&range, parts(heat));
            extras.extend(may_split.then(|| split(&need, cuts(), why())).flatten());
        } else if site.is_some()
            && share <= situation.known.tuning.cold * average
            && heat < situation.known.tuning.cold
        {
            extras.extend(merge(situation, design, &need, average));
        }
        if site.is_some() && need.access == Access::Write {
            let upkeep_us = situation.known.tuning.upkeep_us;
            let replicas = need.placement.replicas.iter();
            extras.extend(replicas.map(|replica| unreplicate(&need, replica, upkeep_us)));
        }
    }
    extras
}

/// Splits a hot lock between the keys that its waiters want, into more parts the more wait. The
/// learned costs come from completed transactions, so they reflect the longest waits last.
pub(crate) fn split_hot_lock(
    situation: &Situation<'_>,
    hot_lock: &HotLock,
) -> Option<OptionalChange> {
    let Situation { known, design, .. } = situation;
    let HotLock { table, start, waiting, keys: wanted } = hot_lock;
    let (range, placement) = design.partition_of(*table, start)?;
    let need = Need { table: *table, range, access: Access::Write, placement };
    let (range, waiting, tuning) = (Range::of(&need), *waiting as f64, &known.tuning);
    if range.keys.start != *start || situation.is_asked(&range) {
        return None;
    }
    let heat = (known.held(&range) / tuning.hot).max(waiting / tuning.queue_max);
    let mut counts: BTreeMap<&Key, u64> = BTreeMap::new();
    // The partition may have been cut since they queued.
    let wanted = wanted.iter().filter(|key| range.keys.contains(key));
    wanted.for_each(|key| *counts.entry(key).or_default() += 1);
    let cuts = even_cuts(counts.iter().map(|(key, count)| (*key, *count)), parts(heat));
    let extra = split(&need, cuts, format!("{waiting} transactions wait for its lock"))?;
    // The number of waiters is assumed to stay. One part of `parts` of them still waits afterwards.
    let parts = extra.steps.len() as f64 + 1.0;
    let waited_us = waiting * tuning.horizon_ns as f64 / 1e3 * (1.0 - 1.0 / parts);
    Some(OptionalChange { upkeep_us: waited_us, ..extra })
}

fn accesses(situation: &Situation<'_>, range: &Range) -> f64 {
    let shares = situation.known.workload.shares(range);
    shares.read + shares.written
}

fn extra(need: &Need, steps: Vec<Step>) -> OptionalChange {
    let (range, placement) = (Range::of(need), need.placement.clone());
    OptionalChange { steps, range, placement, upkeep_us: 0.0 }
}

/// The number of parts such that none of them is hot.
fn parts(heat: f64) -> usize {
    (heat.ceil() as usize).clamp(2, Tuning::SEVERAL)
}

/// Splits at the cuts, if there are any besides the partition's start.
fn split(need: &Need, mut cuts: Vec<Key>, why: String) -> Option<OptionalChange> {
    let table = need.table;
    cuts.retain(|at| *at != need.range.start);
    let cuts = cuts.into_iter();
    let steps: Vec<Step> =
        cuts.map(|at| Step::new(Change::Split { table, at }, why.clone())).collect();
    (!steps.is_empty()).then(|| extra(need, steps))
}

/// Merges with the neighbour to the right, or else to the left.
fn merge(
    situation: &Situation<'_>,
    design: &Design,
    need: &Need,
    average: f64,
) -> Option<OptionalChange> {
    let table = design.table(need.table).ok()?;
    let right = need.range.end.as_ref().and_then(|end| table.partition_of(end));
    let left = table.partitions().before(&need.range.start);
    let left = left.and_then(|(start, _)| table.partition_of(start));
    let both = [right, left].into_iter().flatten().find_map(|(other, placement)| {
        let range = Range { table: need.table, keys: other.clone() };
        let Tuning { cold, hot, .. } = situation.known.tuning;
        let is_cold = accesses(situation, &range) <= cold * average
            && situation.known.held(&range) < cold * hot;
        (placement == need.placement && is_cold).then_some(other)
    })?;
    let (low, high) =
        if both.start < need.range.start { (&both, &need.range) } else { (&need.range, &both) };
    let (table, at) = (need.table, high.start.clone());
    let keys = KeyRange::new(low.start.clone(), high.end.clone());
    let why = "both are hardly accessed, and one partition is less to keep than two".to_owned();
    let upkeep_us = situation.known.tuning.upkeep_us;
    let range = Range { table, keys };
    let steps = vec![Step::new(Change::Merge { table, at }, why)];
    Some(OptionalChange { steps, range, placement: need.placement.clone(), upkeep_us })
}

fn unreplicate(need: &Need, site: SiteId, upkeep_us: f64) -> OptionalChange {
    let why = format!("{site} follows what is written there, and hardly reads it");
    let steps = vec![Step::new(need.removal(site), why)];
    OptionalChange { upkeep_us, ..extra(need, steps) }
}

/// The steps that relieve a site without room: drop replicas, the least useful first, or hand over
/// masters if there are no replicas.
pub(crate) fn evictions(situation: &Situation<'_>, site: SiteId) -> Vec<Step> {
    let replicas = some(situation, Access::Read, |at| at.replicas.contains(site));
    if replicas.is_empty() {
        hand_over(situation, site)
    } else {
        drop_some(situation, site, replicas)
    }
}

/// Partitions with such placements and without a change in flight. Of many, an even selection.
fn some(
    situation: &Situation<'_>,
    access: Access,
    placed: impl Fn(&Placement) -> bool,
) -> Vec<Need> {
    let (everything, mut all) = (KeyRange::all(), Vec::<Need>::new());
    for (table, found) in situation.design.tables() {
        let placed = found.partitions_in(&everything).filter(|(_, placement)| placed(placement));
        all.extend(placed.map(|(range, placement)| Need { table, range, access, placement }));
    }
    let stride = all.len().div_ceil(Tuning::MANY).max(1);
    let first = (situation.now_ns / 1_000_000) as usize % stride;
    let some = all.into_iter().skip(first).step_by(stride);
    some.filter(|need| !situation.is_asked(&Range::of(need))).collect()
}

/// Drops the least useful replicas of a site.
fn drop_some(situation: &Situation<'_>, site: SiteId, replicas: Vec<Need>) -> Vec<Step> {
    let judged = replicas.into_iter().filter_map(|need| {
        let (range, change) = (Range::of(&need), need.removal(site));
        let mut after = situation.design.clone();
        after.apply(&change).ok()?;
        Some((situation.known.saved(situation.design, &after, &[range]).us, change))
    });
    let mut judged: Vec<(f64, Change)> = judged.collect();
    judged.sort_by(|a, b| b.0.total_cmp(&a.0));
    let why = format!("{site} is nearly out of memory, and this is what it will miss least");
    // All that save by their removal, or else the least useful one, before the next check.
    let harmless = judged.iter().take_while(|(saved, _)| *saved >= 0.0).count();
    let steps = judged.into_iter().take(harmless.clamp(1, Tuning::SEVERAL));
    steps.map(|(saved, change)| Step::new(change, why.clone()).predicted(0.0, saved)).collect()
}

/// Hands the least accessed partitions that a site masters over to the idlest site with room. Waits
/// while moves are in flight, because they may be enough: the site's memory use is known only after
/// them.
fn hand_over(situation: &Situation<'_>, site: SiteId) -> Vec<Step> {
    if situation.known.recent.is_moving(situation.now_ns) {
        return Vec::new();
    }
    let sites = situation.design.sites();
    let Some(to) = situation.known.traffic.idlest(sites) else { return Vec::new() };
    let mut mastered = some(situation, Access::Write, |at| at.master == site);
    let share = |need: &Need| accesses(situation, &Range::of(need));
    mastered.sort_by(|a, b| share(a).total_cmp(&share(b)));
    mastered.truncate(mastered.len().div_ceil(Tuning::SEVERAL));
    let why = format!("{site} is nearly out of memory, and {to} has room");
    let steps = mastered.iter().flat_map(|need| {
        let steps = need.move_to(to, &why);
        let cost_us = situation.necessary_us(need, to) / steps.len() as f64;
        steps.into_iter().map(move |step| step.predicted(cost_us, 0.0))
    });
    steps.collect()
}
