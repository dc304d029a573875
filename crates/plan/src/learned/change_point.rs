//! Change-point detection: has a hot spot moved?
//!
//! The samples are those of the last 10 s, or of the last minute where few transactions are
//! measured. While the workload holds still, many samples make forecasts exact. When a hot spot has
//! moved, most of them show where it was, and a global plan is drawn for two hot spots. So two
//! signals are watched:
//!
//! ```text
//!   throughput, per second      40,000 ─────────╮               drop to 0.7 of the usual, by Page's test
//!                                               ╰── 28,000
//!   busiest site,                  0.5 ─────╭────────           0.15 above its usual distance
//!   above the average              0.1 ─────╯
//! ```
//!
//! **The drop must not be chance.** At rest only a hundred transactions a second are counted. So
//! each interval adds the log-likelihood ratio of its count (Poisson) under 0.7 of the usual rate
//! and under the usual rate; the sum never falls below zero, and from 8 on the drop is believed.
//! This is Page's test (Biometrika 1954), also known as CUSUM. It takes some tenths of a second
//! where a thousand transactions a second are counted, and some seconds where a hundred are.
//!
//! **Baselines.** Changes of the design move load, too. So there is no baseline while changes are
//! in flight, nor for 2 s after, nor after a lull in which nobody asked for anything.
//!
//! **Then the samples decide.** Overload looks the same, and so does a quiet night. For a moment
//! more transactions are measured, up to all; then the new samples are compared with the old
//! ([`access_shares_differ`]). If they access other sites, the old ones are dropped, and a global plan is
//! drawn at once.
//!
//! **Left out**: hot spots that stay at their site, which need splits and no moves; accesses beyond
//! the first key of a transaction; gradual changes, which the reservoir forgets by itself.

use super::workload::{Sample, Workload};
use isomer_design::{Design, SiteId};
use std::collections::BTreeMap;

/// Time constants in seconds: of the baselines, and of the current imbalance.
const AVERAGED_S: (f64, f64) = (10.0, 0.4);
/// There is no baseline before this many seconds without changes.
const SETTLES_S: f64 = 2.0;
/// An interval of this many seconds is a lull: under overload, some transactions still come
/// through.
const LULL_S: f64 = 0.5;
/// A drop is throughput at this share of the usual.
const DROP_RATIO: f64 = 0.7;
/// A drop is believed when it is e⁸ times as likely as none: by chance, once in some minutes.
const SURELY: f64 = 8.0;
/// The load has become uneven if the busiest site is farther above the average than usual by this.
const UNEVEN: f64 = 0.15;

/// Samples that are compared at most, of the old and of the new ones.
const COMPARED_MAX: usize = 2000;
/// The two samples differ if their chi-square distance exceeds its expectation under chance by
/// this.
const DISTANCE_MIN: f64 = 0.05;

/// What was seen in an interval.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct IntervalLoad {
    /// Transactions that came back, per second.
    pub(crate) served: f64,
    /// For how many of them each stands that was counted.
    pub(crate) sample_weight: f64,
    /// By how much the busiest site is busier than the average.
    pub(crate) uneven: f64,
}

/// See the [module documentation](self).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChangePointDetector {
    /// What is usually served, and how uneven the load is then.
    served: f64,
    uneven: f64,
    uneven_now: f64,
    /// How much speaks for less being served.
    less: f64,
    since_ns: u64,
    seen_ns: u64,
}

impl ChangePointDetector {
    /// The design changes: what was usual is no more.
    pub(crate) fn reset(&mut self, now_ns: u64) {
        (self.since_ns, self.less) = (now_ns, 0.0);
    }

    /// Looks at an interval that ends now; true if something speaks for it that a hot spot has
    /// moved.
    pub(crate) fn see(&mut self, now_ns: u64, load: IntervalLoad) -> bool {
        let seconds = now_ns.saturating_sub(self.seen_ns) as f64 / 1e9;
        if seconds >= LULL_S {
            self.reset(now_ns);
        }
        let settled_s = now_ns.saturating_sub(self.since_ns) as f64 / 1e9;
        self.seen_ns = now_ns;
        let is_settled = settled_s > SETTLES_S;
        if is_settled {
            let counted = |per_second: f64| per_second * seconds / load.sample_weight.max(1.0);
            let fits =
                counted(load.served) * DROP_RATIO.ln() + counted(self.served) * (1.0 - DROP_RATIO);
            self.less = (self.less + fits).max(0.0);
        }
        let (usual_s, now_s) = AVERAGED_S;
        let step = |average: &mut f64, now: f64, over_s: f64| {
            *average += (seconds / over_s).min(1.0) * (now - *average);
        };
        step(&mut self.uneven_now, load.uneven, now_s);
        let over_s = settled_s.min(usual_s);
        step(&mut self.served, load.served, over_s);
        step(&mut self.uneven, load.uneven, over_s);
        let has_moved = self.less > SURELY || self.uneven_now > self.uneven + UNEVEN;
        if is_settled && has_moved {
            self.reset(now_ns);
        }
        is_settled && has_moved
    }
}

/// True if new samples access the sites of a design in other shares than old ones do, and that is
/// no chance.
///
/// How far apart both are is the chi-square distance of the shares of samples whose first access
/// goes to a site. If a tenth of all moves from one of eight sites to another, that is 0.1 or more;
/// what chance adds to it is the number of sites by that of samples, on both sides.
pub(crate) fn access_shares_differ(workload: &Workload, design: &Design) -> bool {
    let [old, new] = [false, true].map(|side| {
        let samples = workload.sides().filter(|(is_new, _)| *is_new == side);
        shares(samples.map(|(_, sample)| sample), design)
    });
    let (Some((old, olds)), Some((new, news))) = (old, new) else { return false };
    let all =
        |site: SiteId| [&old, &new].map(|shares| shares.get(&site).copied().unwrap_or_default());
    let distance: f64 = design
        .sites()
        .iter()
        .map(|site| {
            let [old, new] = all(site);
            if old + new > 0.0 { (new - old).powi(2) / ((old + new) / 2.0) } else { 0.0 }
        })
        .sum();
    let chance = (design.sites().len() as f64 - 1.0) * (1.0 / olds + 1.0 / news);
    distance - chance > DISTANCE_MIN
}

/// The shares of samples by the site that they access first, and how many there are; `None` without
/// any.
fn shares<'s>(
    samples: impl Iterator<Item = &'s Sample> + Clone,
    design: &Design,
) -> Option<(BTreeMap<SiteId, f64>, f64)> {
    let step = samples.clone().count().div_ceil(COMPARED_MAX).max(1);
    let mut counts: BTreeMap<SiteId, f64> = BTreeMap::new();
    for sample in samples.step_by(step) {
        let Some(item) = sample.footprint().items().first() else { continue };
        let Some((_, placement)) = design.partition_of(item.table, item.span.start()) else {
            continue;
        };
        *counts.entry(placement.master).or_default() += 1.0;
    }
    let count: f64 = counts.values().sum();
    counts.values_mut().for_each(|share| *share /= count);
    (count > 0.0).then_some((counts, count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::grid::tests::{S2, T, design};
    use crate::learned::reservoir::Damping;
    use isomer_design::{Footprint, Key};

    const TENTH_NS: u64 = 100_000_000;

    /// The tenths of a second in which a hot spot is thought to have moved, if this many are
    /// served, one in so many is counted, and the busiest site is so far above the average.
    fn moved(sample_weight: f64, of: impl Fn(u64) -> (f64, f64)) -> Vec<u64> {
        let mut shift = ChangePointDetector::default();
        let see = |tenth: &u64| {
            let (served, uneven) = of(*tenth);
            shift.see(tenth * TENTH_NS, IntervalLoad { served, sample_weight, uneven })
        };
        (1..=900).filter(see).collect()
    }

    /// Counts that scatter by chance, as they do where each stands for so many.
    fn scattered(tenth: u64, served: f64, sample_weight: f64) -> f64 {
        let counted = served / 10.0 / sample_weight;
        // Twelve numbers from 0 to 1 have a sum that scatters by 1 around 6.
        let number = |at: u64| {
            let mixed = (tenth * 12 + at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            ((mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11) as f64
                / (1u64 << 53) as f64
        };
        let chance = (0..12).map(number).sum::<f64>() - 6.0;
        (counted + chance * counted.sqrt()).max(0.0) * 10.0 * sample_weight
    }

    #[test]
    fn much_less_is_noticed_soon_and_later_where_few_are_counted() {
        let falls = |sample_weight: f64| {
            let served = |tenth| if tenth < 500 { 40_000.0 } else { 27_000.0 };
            moved(sample_weight, |tenth| (scattered(tenth, served(tenth), sample_weight), 0.1))
        };
        let [all, few] = [40.0, 400.0].map(falls);
        assert!(all.len() == 1 && (500..506).contains(&all[0]), "{all:?}");
        assert!(few.len() == 1 && (505..535).contains(&few[0]), "{few:?}");
    }

    #[test]
    fn chance_is_not_believed_however_few_are_counted() {
        for sample_weight in [1.0, 40.0, 400.0] {
            let moved =
                moved(sample_weight, |tenth| (scattered(tenth, 40_000.0, sample_weight), 0.1));
            assert_eq!(moved, [0; 0], "one in {sample_weight}");
        }
    }

    #[test]
    fn a_site_that_becomes_much_busier_than_the_others_is_noticed() {
        let noticed = moved(400.0, |tenth| (40_000.0, if tenth < 500 { 0.1 } else { 0.4 }));
        assert!(noticed.len() == 1 && (501..506).contains(&noticed[0]), "{noticed:?}");
        assert_eq!(moved(400.0, |tenth| (40_000.0, 0.1 + 0.0002 * tenth as f64)), [0; 0]);
    }

    #[test]
    fn samples_tell_whether_other_sites_are_accessed() {
        // Keys below 500 are at the first site; as many samples before and after, with so many of
        // ten at the first site.
        let design = design(&[500], S2);
        let access_shares_differ = |before: i64, after: i64| {
            let mut workload = Workload::new(Damping::default(), 0);
            for number in 0..4000 {
                if number == 2000 {
                    workload.regime_changed(number as u64);
                }
                let first = if number < 2000 { before } else { after };
                let key = if number % 10 < first { number % 500 } else { 500 + number % 500 };
                let footprint = Footprint::new().write(T, Key::int(key));
                assert!(workload.offer(number as u64, &footprint, [1, 1], 100.0, [0.0, 0.5]));
            }
            access_shares_differ(&workload, &design)
        };
        assert!(
            access_shares_differ(5, 7) && access_shares_differ(9, 3) && access_shares_differ(10, 8)
        );
        assert!(!access_shares_differ(5, 5) && !access_shares_differ(6, 5));
    }

    #[test]
    fn a_lull_says_nothing_and_nothing_is_usual_after_it() {
        let mut shift = ChangePointDetector::default();
        let load = |served| IntervalLoad { served, sample_weight: 40.0, uneven: 0.1 };
        for tenth in 1..100 {
            assert!(!shift.see(tenth * TENTH_NS, load(40_000.0)));
        }
        assert!(!shift.see(110 * TENTH_NS, load(2000.0)), "a second without anybody");
        for tenth in 111..150 {
            assert!(!shift.see(tenth * TENTH_NS, load(20_000.0)), "who comes first has it slow");
        }
        let noticed = (150..160).find(|tenth| shift.see(tenth * TENTH_NS, load(10_000.0)));
        assert!(noticed.is_some(), "but this is less than what became usual");
    }

    #[test]
    fn nothing_is_usual_while_the_design_changes() {
        let mut shift = ChangePointDetector::default();
        for tenth in 1..900 {
            let served = if tenth % 20 < 10 { 40_000.0 } else { 10_000.0 };
            shift.reset(tenth * TENTH_NS);
            let load = IntervalLoad { served, sample_weight: 40.0, uneven: 0.1 };
            assert!(!shift.see(tenth * TENTH_NS, load));
        }
    }
}
