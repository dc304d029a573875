//! Changes that no transaction needs, but that may pay: proposed here, judged by the
//! [planner](super::planner).
//!
//! | proposal | when |
//! | --- | --- |
//! | split | the partition is accessed more than the average; cut where its accesses are halved |
//! | merge | it and a neighbour are accessed less than the average, and are placed alike |
//! | remaster | another partition is mostly written with it, at the site that will run it |
//! | replicate | another partition is mostly read with it |
//! | remove a replica | of what is written here: it may cost more than it saves |
//! | | at a site that is nearly out of memory: what it will miss least |
//!
//! Hot and cold are apart, so that a split is not followed by the merge that takes it back.

use super::planner::Situation;
use super::workload::Range;
use crate::strategy::{Need, needs};
use isomer_design::{Access, Change, Design, KeyRange, Placement, SiteId, Step};
use std::collections::BTreeMap;

/// Partitions of a footprint that are looked at: those that are accessed most.
const PARTITIONS_MAX: usize = 4;
/// Other partitions that may come along with one that moves.
const COMPANIONS_MAX: usize = 2;
/// Of the transactions that access one, so many must access the other, and the other way round.
const TOGETHER: f64 = 0.25;
/// Transactions that are asked for their other partitions.
const ASKED_MAX: usize = 32;
/// Replicas that are looked at when a site is full, and those that go at once.
const REPLICAS_MAX: usize = 64;
const RELIEVED_MAX: usize = 8;
/// However few partitions there are: one that takes this share of all accesses is not cold.
const AVERAGE_MAX: f64 = 1.0 / 32.0;

/// Steps that make sense together, about one partition.
pub(crate) struct Extra {
    pub(crate) steps: Vec<Step>,
    /// What they touch, and where it is.
    pub(crate) range: Range,
    pub(crate) placement: Placement,
    /// What they save besides, in microseconds.
    pub(crate) upkeep_us: f64,
}

/// What may pay besides, under a design in which `site` can run a transaction with these needs.
pub(crate) fn extras(
    situation: &Situation<'_>,
    site: SiteId,
    design: &Design,
    needs: &[Need],
) -> Vec<Extra> {
    let average = (1.0 / design.partition_count().max(1) as f64).min(AVERAGE_MAX);
    let mut busiest: Vec<(f64, &Need)> =
        needs.iter().map(|need| (accesses(situation, &need.range_of()), need)).collect();
    busiest.sort_by(|a, b| b.0.total_cmp(&a.0));
    busiest.truncate(PARTITIONS_MAX);
    let mut extras = Vec::new();
    for (share, before) in busiest {
        // Where it is now, or will be.
        let Some((range, placement)) = design.partition_of(before.table, &before.range.start)
        else {
            continue;
        };
        let need = Need { range, placement, ..before.clone() };
        let Situation { recent, now_ns, .. } = situation;
        if recent.rests(*now_ns, need.table, &need.range.start)
            || recent.is_asked(*now_ns, need.table, &need.range)
        {
            continue;
        }
        if before.steps(site).next().is_some() {
            companions(situation, site, design, &need, &mut extras);
            continue;
        }
        if share >= situation.options.hot * average {
            extras.extend(split(situation, &need, share));
        } else if share <= situation.options.cold * average {
            extras.extend(merge(situation, design, &need, average));
        }
        if need.access == Access::Write {
            let upkeep_us = situation.options.upkeep_us;
            extras.extend(
                need.placement
                    .replicas
                    .iter()
                    .map(|replica| unreplicate(&need, replica, upkeep_us)),
            );
        }
    }
    extras
}

fn accesses(situation: &Situation<'_>, range: &Range) -> f64 {
    let shares = situation.outlook.workload.shares(range);
    shares.read + shares.written
}

fn extra(need: &Need, steps: Vec<Step>) -> Extra {
    Extra { steps, range: need.range_of(), placement: need.placement, upkeep_us: 0.0 }
}

fn split(situation: &Situation<'_>, need: &Need, share: f64) -> Option<Extra> {
    let at = situation.outlook.workload.middle(&need.range_of())?;
    let why = format!("{:.1} % of all accesses go to it", 100.0 * share);
    Some(extra(need, vec![Step::new(Change::Split { table: need.table, at }, why)]))
}

/// With the neighbour to the right, or else to the left.
fn merge(situation: &Situation<'_>, design: &Design, need: &Need, average: f64) -> Option<Extra> {
    let table = design.table(need.table).ok()?;
    let right = need.range.end.as_ref().and_then(|end| table.partition_of(end));
    let left = table.partitions().before(&need.range.start);
    let left = left.and_then(|(start, _)| table.partition_of(start));
    let both = [right, left].into_iter().flatten().find_map(|(other, placement)| {
        let range = Range { table: need.table, keys: other.clone() };
        let cold = accesses(situation, &range) <= situation.options.cold * average;
        let rests = situation.recent.rests(situation.now_ns, need.table, &other.start);
        (placement == need.placement && cold && !rests).then_some(other)
    })?;
    let (low, high) =
        if both.start < need.range.start { (&both, &need.range) } else { (&need.range, &both) };
    let (table, at) = (need.table, high.start.clone());
    let keys = KeyRange::new(low.start.clone(), high.end.clone());
    let why = "both are hardly accessed, and one partition is less to keep than two".to_owned();
    let upkeep_us = situation.options.upkeep_us;
    let range = Range { table, keys };
    let steps = vec![Step::new(Change::Merge { table, at }, why)];
    Some(Extra { steps, range, placement: need.placement, upkeep_us })
}

fn unreplicate(need: &Need, site: SiteId, upkeep_us: f64) -> Extra {
    let (table, start) = (need.table, need.range.start.clone());
    let why = format!("{site} follows what is written there, and hardly reads it");
    let steps = vec![Step::new(Change::RemoveReplica { table, start, site }, why)];
    Extra { upkeep_us, ..extra(need, steps) }
}

/// Replicas at a site without room, those first that nobody will miss. Of very many, some are looked at.
pub(crate) fn relieve(situation: &Situation<'_>, site: SiteId) -> Vec<Step> {
    let design = situation.design;
    let (everything, mut replicas) = (KeyRange::all(), Vec::<Need>::new());
    for (table, found) in design.tables() {
        let here = found.partitions_in(&everything).filter(|(_, at)| at.replicas.contains(site));
        replicas.extend(here.map(|(range, placement)| Need {
            table,
            range,
            placement,
            access: Access::Read,
        }));
    }
    let stride = replicas.len().div_ceil(REPLICAS_MAX).max(1);
    let first = (situation.now_ns / 1_000_000) as usize % stride;
    let judged = replicas.iter().skip(first).step_by(stride).filter_map(|need| {
        let recent = situation.recent;
        if recent.is_asked(situation.now_ns, need.table, &need.range) {
            return None;
        }
        let (table, start) = (need.table, need.range.start.clone());
        let change = Change::RemoveReplica { table, start, site };
        let mut after = design.clone();
        after.apply(&change).ok()?;
        let saved = situation.outlook.saved(design, &after, &[need.range_of()]);
        Some((saved, change))
    });
    let mut judged: Vec<(f64, Change)> = judged.collect();
    judged.sort_by(|a, b| b.0.total_cmp(&a.0));
    let why = format!("{site} is nearly out of memory, and this is what it will miss least");
    // All that nobody misses; or else the one that is missed least, and then it is looked again.
    let harmless = judged.iter().take_while(|(saved, _)| *saved >= 0.0).count();
    let steps = judged.into_iter().take(harmless.clamp(1, RELIEVED_MAX));
    steps.map(|(saved, change)| Step::new(change, why.clone()).predicted(0.0, saved)).collect()
}

/// What is mostly accessed together with a partition that is brought to a site comes along.
fn companions(
    situation: &Situation<'_>,
    site: SiteId,
    design: &Design,
    need: &Need,
    extras: &mut Vec<Extra>,
) {
    let workload = situation.outlook.workload;
    let here = need.range_of();
    let touching = workload.touching(&here);
    let used = touching.len().min(ASKED_MAX);
    let mut counts: BTreeMap<(Range, Access), (usize, Placement)> = BTreeMap::new();
    for sample in (0..used).map(|at| touching[at * touching.len() / used]) {
        for other in needs(design, sample.footprint()) {
            let range = other.range_of();
            if range != here && other.steps(site).next().is_some() {
                counts.entry((range, other.access)).or_insert((0, other.placement)).0 += 1;
            }
        }
    }
    let mut likely: Vec<_> = counts
        .into_iter()
        .filter(|(_, (count, _))| *count as f64 >= TOGETHER * used as f64)
        .filter(|((range, access), _)| {
            let back = workload.together((range, *access), (&here, need.access));
            back.is_some_and(|share| share >= TOGETHER)
        })
        .collect();
    likely.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    for ((range, access), (count, placement)) in likely.into_iter().take(COMPANIONS_MAX) {
        let other = Need { table: range.table, range: range.keys, access, placement };
        let what = if access == Access::Write { "written" } else { "read" };
        let why = format!("{what} in {} of {used} cases together with what moves", count);
        let steps = other.steps(site).map(|step| Step::new(step.change, why.clone())).collect();
        extras.push(extra(&other, steps));
    }
}
