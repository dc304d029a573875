//! Regimes: does the workload hold still, has it changed, or may a hot spot have moved?
//!
//! Three signals are read every interval, each beside what is usual for it:
//!
//! ```text
//!                    served/s            share distributed       busiest site above the average
//!   usual             40,000                  0.04                       0.1
//!   differs by        a fifth            0.05 less, 0.1 more                            ──▶ disturbance
//!   suspicious        a drop to 0.7,                                     0.25           ──▶ have the samples
//!                     by Page's test                                                        compared
//! ```
//!
//! **A disturbance** shows that the past is no guide. So does a global plan that was adopted, a site without memory and
//! a very long queue for a lock. From the last one on the workload holds still, and the longer it does the less is
//! changed ([`Regime::steady_s`], [`super::recent`]). Where a fifth of all transactions is distributed there is no calm:
//! masters are in the wrong places, and in a large database it takes long to see what moving them gains.
//!
//! **A suspicion** is that a hot spot has moved, or that the workload has become another one. Overload looks the same,
//! and so does a quiet night, so it decides nothing: new samples are compared with old ones
//! ([`access_shares_differ`]), and if they access other sites the old ones are forgotten and a global plan is drawn at
//! once.
//!
//! **A drop must not be chance.** At rest only a hundred transactions a second are counted. So each interval adds the
//! log-likelihood ratio of its count (Poisson) under 0.7 of the usual rate and under the usual rate; the sum never falls
//! below zero, and from 8 on the drop is believed. This is Page's test (Biometrika 1954), also known as CUSUM. It takes
//! some tenths of a second where a thousand are counted a second, and some seconds where a hundred are.
//!
//! **What is usual** follows what is seen, over ten seconds. Frozen at the start of a disturbance, it would let later
//! steady growth look like a new one. Changes of the design move load, too: nothing is suspicious while masters move, nor
//! for 2 s after, nor after a lull in which nobody asked for anything.
//!
//! **Left out**: latency (with open-loop clients only the share of distributed transactions shows that a hot spot has
//! moved); hot spots that stay at their site, which need splits and no moves; gradual changes, which the reservoir
//! forgets by itself.

use super::tuning::Tuning;
use super::workload::{Sample, Workload};
use isomer_design::{Design, SiteId};
use std::collections::BTreeMap;

/// What was seen in an interval.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Signals {
    /// Transactions that came back, per second.
    pub(crate) served: f64,
    /// The share of them that ran over several sites.
    pub(crate) across: f64,
    /// By how much the busiest site is busier than the average.
    pub(crate) uneven: f64,
}

impl Signals {
    /// Comes nearer to what is seen, over so many seconds.
    fn follow(&mut self, seen: Signals, seconds: f64, over_s: f64) {
        let share = 1.0 - (-seconds / over_s.max(f64::MIN_POSITIVE)).exp();
        self.served += share * (seen.served - self.served);
        self.across += share * (seen.across - self.across);
        self.uneven += share * (seen.uneven - self.uneven);
    }
}

/// See the [module documentation](self).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Regime {
    tuning: Tuning,
    now: Signals,
    usual: Signals,
    /// How much speaks for less being served.
    drop: f64,
    /// Since when the workload holds still, and since when the design does.
    steady_ns: u64,
    settled_ns: u64,
    seen_ns: u64,
}

impl Regime {
    /// Nothing is usual yet.
    pub(crate) fn new(tuning: Tuning) -> Regime {
        let (now, usual) = (Signals::default(), Signals::default());
        Regime { tuning, now, usual, drop: 0.0, steady_ns: 0, settled_ns: 0, seen_ns: 0 }
    }

    /// Something shows that the past is no guide.
    pub(crate) fn disturb(&mut self, now_ns: u64) {
        (self.steady_ns, self.usual) = (now_ns, self.now);
    }

    /// The design changes: what is seen says nothing about the workload.
    pub(crate) fn unsettle(&mut self, now_ns: u64) {
        (self.settled_ns, self.drop) = (now_ns, 0.0);
    }

    /// How many changes may be made a second now.
    pub(crate) fn changes_per_second(&self, now_ns: u64) -> f64 {
        let Tuning { changes_per_second, halves_s, changes_at_rest, .. } = self.tuning;
        let rate = changes_per_second * 0.5f64.powf(self.steady_s(now_ns) / halves_s);
        rate.max(changes_at_rest.min(changes_per_second))
    }

    /// For how long nothing was disturbed.
    fn steady_s(&self, now_ns: u64) -> f64 {
        now_ns.saturating_sub(self.steady_ns) as f64 / 1e9
    }

    /// Looks at an interval that ends now, each of whose counted transactions stands for so many; true if something
    /// speaks for it that a hot spot has moved.
    pub(crate) fn see(&mut self, now_ns: u64, seen: Signals, sample_weight: f64) -> bool {
        let Tuning { signal_s, usual_s, drop_ratio, .. } = self.tuning;
        let seconds = now_ns.saturating_sub(self.seen_ns) as f64 / 1e9;
        self.seen_ns = now_ns;
        if seconds >= self.tuning.lull_s {
            self.unsettle(now_ns);
        }
        let is_settled =
            now_ns.saturating_sub(self.settled_ns) as f64 / 1e9 > self.tuning.settles_s;
        if is_settled {
            let counted = |per_second: f64| per_second * seconds / sample_weight.max(1.0);
            let fits = counted(seen.served) * drop_ratio.ln()
                + counted(self.usual.served) * (1.0 - drop_ratio);
            self.drop = (self.drop + fits).max(0.0);
        }
        let is_suspicious = self.drop > self.tuning.drop_surely
            || seen.uneven > self.usual.uneven + self.tuning.uneven_rise;
        self.now.follow(seen, seconds, signal_s);
        self.usual.follow(self.now, seconds, usual_s);
        if self.is_disturbed() {
            self.disturb(now_ns);
        }
        if is_settled && is_suspicious {
            self.unsettle(now_ns);
        }
        is_settled && is_suspicious
    }

    fn is_disturbed(&self) -> bool {
        let (now, usual, tuning) = (&self.now, &self.usual, &self.tuning);
        let (less, more) = tuning.across_differs;
        (now.served - usual.served).abs() > tuning.served_differs * usual.served
            || !(usual.across - less..usual.across + more).contains(&now.across)
            || now.across >= tuning.across_many
    }
}
/// True if new samples access the sites of a design in other shares than old ones do, and that is
/// no chance.
///
/// How far apart both are is the chi-square distance of the shares of samples whose first access
/// goes to a site. If a tenth of all moves from one of eight sites to another, that is 0.1 or more;
/// what chance adds to it is the number of sites by that of samples, on both sides.
pub(crate) fn access_shares_differ(
    workload: &Workload,
    design: &Design,
    distance_min: f64,
) -> bool {
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
    distance - chance > distance_min
}

/// The shares of samples by the site that they access first, and how many there are; `None` without
/// any.
fn shares<'s>(
    samples: impl Iterator<Item = &'s Sample> + Clone,
    design: &Design,
) -> Option<(BTreeMap<SiteId, f64>, f64)> {
    let step = samples.clone().count().div_ceil(Tuning::COMPARED_MAX).max(1);
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

    /// What is served, which share of it over several sites, and how uneven the load is, second by second; and for how
    /// many each counted transaction stands.
    struct Course<F>(f64, F);

    impl<F: Fn(f64) -> (f64, f64, f64)> Course<F> {
        /// The tenths of a second that are suspicious, and the changes that may be made in each ten seconds.
        fn run(&self) -> (Vec<u64>, Vec<f64>) {
            let Course(sample_weight, course) = self;
            let mut regime = Regime::new(Tuning::default());
            let (mut suspicious, mut tens) = (Vec::new(), vec![0.0; 9]);
            for tenth in 1..900 {
                let (served, across, uneven) = course(tenth as f64 / 10.0);
                let served = scattered(tenth, served, *sample_weight);
                let now_ns = tenth * TENTH_NS;
                if regime.see(now_ns, Signals { served, across, uneven }, *sample_weight) {
                    suspicious.push(tenth);
                }
                tens[tenth as usize / 100] += regime.changes_per_second(now_ns) / 10.0;
            }
            (suspicious, tens)
        }
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
    fn a_drop_is_noticed_soon_and_later_where_few_are_counted() {
        let falls = |weight| {
            Course(weight, |s| (if s < 50.0 { 40_000.0 } else { 27_000.0 }, 0.02, 0.1)).run().0
        };
        let [all, few] = [40.0, 400.0].map(falls);
        assert!((500..506).contains(&all[0]), "{all:?}");
        assert!((505..535).contains(&few[0]), "{few:?}");
    }

    #[test]
    fn chance_is_not_believed_and_what_holds_still_becomes_quiet() {
        for weight in [1.0, 40.0, 400.0] {
            let (suspicious, tens) = Course(weight, |_| (40_000.0, 0.02, 0.1)).run();
            assert_eq!(suspicious, [0; 0], "one in {weight}");
            assert!(tens[0] > 1000.0 && tens[5..].iter().all(|made| *made <= 1.0), "{tens:?}");
        }
    }

    #[test]
    fn a_site_that_becomes_much_busier_is_suspicious_and_one_that_does_so_slowly_is_not() {
        let rises =
            |uneven: fn(f64) -> f64| Course(400.0, move |s| (40_000.0, 0.02, uneven(s))).run().0;
        let soon = rises(|s| if s < 50.0 { 0.1 } else { 0.4 });
        assert!((500..506).contains(&soon[0]), "{soon:?}");
        assert_eq!(rises(|s| 0.1 + 0.002 * s), [0; 0]);
    }

    #[test]
    fn changes_go_on_while_they_bring_much_or_many_are_distributed() {
        let growing = Course(1.0, |s| (1000.0 * 1.03f64.powf(s), 0.02, 0.1)).run().1;
        assert!(growing.iter().all(|made| *made > 100.0), "{growing:?}");
        let distributed = Course(1.0, |_| (1000.0, 0.3, 0.1)).run().1;
        assert!(distributed.iter().all(|made| *made > 10_000.0), "{distributed:?}");
        let less = Course(40.0, |s| (if s < 60.0 { 10_000.0 } else { 5000.0 }, 0.02, 0.1)).run().1;
        assert!(less[5] <= 1.0 && less[6] > 1000.0, "{less:?}");
    }

    #[test]
    fn a_lull_says_nothing_nor_does_what_is_seen_while_masters_move() {
        let mut regime = Regime::new(Tuning::default());
        let load = |served| Signals { served, across: 0.0, uneven: 0.1 };
        for tenth in 1..100 {
            assert!(!regime.see(tenth * TENTH_NS, load(40_000.0), 40.0));
        }
        assert!(!regime.see(110 * TENTH_NS, load(2000.0), 40.0), "a second without anybody");
        for tenth in 111..129 {
            assert!(
                !regime.see(tenth * TENTH_NS, load(10_000.0), 40.0),
                "who comes first has it slow"
            );
        }
        for tenth in 129..300 {
            regime.unsettle(tenth * TENTH_NS);
            let served = if tenth % 20 < 10 { 40_000.0 } else { 10_000.0 };
            assert!(!regime.see(tenth * TENTH_NS, load(served), 40.0));
        }
    }

    #[test]
    fn samples_tell_whether_other_sites_are_accessed() {
        // Keys below 500 are at the first site; as many samples before and after, with so many of
        // ten at the first site.
        let design = design(&[500], S2);
        let differ = |before: i64, after: i64| {
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
            access_shares_differ(&workload, &design, Tuning::default().distance_min)
        };
        assert!(differ(5, 7) && differ(9, 3) && differ(10, 8));
        assert!(!differ(5, 5) && !differ(6, 5));
    }
}
