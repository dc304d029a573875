//! Changes that no transaction needs, but that may pay: proposed here, judged by the
//! [planner](super::planner).
//!
//! | proposal | when |
//! | --- | --- |
//! | split | its lock is held for half of the time, or it has a large share of all accesses; cut so that |
//! | | its accesses are in equal parts |
//! | merge | it and a neighbour are accessed less than the average, and are placed alike |
//! | remove a replica | of what is written here: it may cost more than it saves |
//! | | at a site that is nearly out of memory: what it will miss least |
//!
//! What moves along with what a transaction needs is the matter of [`super::clump`].
//!
//! Hot and cold are apart, so that a split is not followed by the merge that takes it back.
//!
//! While a blueprint is carried out, nothing is split: of a partition that is split on its way, half stays
//! behind; and locks that are held for long because partitions are on their way are no reason to split them.
//!
//! A transaction over several sites can be the occasion for a split as well: where the parts of a design meet,
//! locks are held for the longest time.

use super::planner::Situation;
use super::workload::Range;
use crate::strategy::Need;
use isomer_design::{Access, Change, Design, Key, KeyRange, Placement, SiteId, Step};

/// Partitions of a footprint that are looked at: those that are accessed most.
const PARTITIONS_MAX: usize = 4;
/// Into so many parts a partition is split at once.
const PARTS_MAX: usize = 8;
/// Replicas that are looked at when a site is full, and those that go at once.
const REPLICAS_MAX: usize = 64;
const RELIEVED_MAX: usize = 8;
/// A partition that takes this share of all accesses is too large to be placed well.
const SHARE_MAX: f64 = 1.0 / 32.0;
/// What is split, is split at a heat of one; two that are merged are cooler than this, each.
const COLD: f64 = 0.25;
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

/// What may pay besides, under a design in which `site` can run a transaction with these needs. Without a site,
/// as it runs over several: splits only.
pub(crate) fn extras(
    situation: &Situation<'_>,
    site: Option<SiteId>,
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
        if site.is_some_and(|site| before.is_lacked_by(site)) {
            continue;
        }
        let range = need.range_of();
        let held = situation.outlook.held(&range);
        let heat = (held / situation.options.hot).max(share / SHARE_MAX);
        if heat >= 1.0 {
            let may_split = !situation.is_young;
            extras.extend(may_split.then(|| split(situation, &need, share, heat)).flatten());
        } else if site.is_some() && share <= situation.options.cold * average && heat < COLD {
            extras.extend(merge(situation, design, &need, average));
        }
        if site.is_some() && need.access == Access::Write {
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
    Extra { steps, range: need.range_of(), placement: need.placement.clone(), upkeep_us: 0.0 }
}

/// At once into as many parts as it takes until none is hot.
fn split(situation: &Situation<'_>, need: &Need, share: f64, heat: f64) -> Option<Extra> {
    let parts = (heat.ceil() as usize).clamp(2, PARTS_MAX);
    let cuts = situation.outlook.workload.cuts(&need.range_of(), parts);
    let why = format!("{:.1} % of all accesses go to what it is part of", 100.0 * share);
    let table = need.table;
    let cuts: Vec<Key> = cuts.into_iter().filter(|at| *at != need.range.start).collect();
    let upkeep_us = situation.outlook.unlocked_us(&need.range_of(), &cuts);
    let cuts = cuts.into_iter();
    let steps: Vec<Step> =
        cuts.map(|at| Step::new(Change::Split { table, at }, why.clone())).collect();
    (!steps.is_empty()).then(|| Extra { upkeep_us, ..extra(need, steps) })
}

/// With the neighbour to the right, or else to the left.
fn merge(situation: &Situation<'_>, design: &Design, need: &Need, average: f64) -> Option<Extra> {
    let table = design.table(need.table).ok()?;
    let right = need.range.end.as_ref().and_then(|end| table.partition_of(end));
    let left = table.partitions().before(&need.range.start);
    let left = left.and_then(|(start, _)| table.partition_of(start));
    let both = [right, left].into_iter().flatten().find_map(|(other, placement)| {
        let range = Range { table: need.table, keys: other.clone() };
        let cold = accesses(situation, &range) <= situation.options.cold * average
            && situation.outlook.held(&range) < COLD * situation.options.hot;
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
    Some(Extra { steps, range, placement: need.placement.clone(), upkeep_us })
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
        let saved = situation.outlook.saved(design, &after, &[need.range_of()]).us;
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
