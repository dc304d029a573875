//! Regimes: does the workload hold still, or has it changed?
//!
//! Three signals are averages over a second. Each is compared with its usual value, its average
//! over ten seconds:
//!
//! ```text
//!                    served/s            share distributed       busiest site above the average
//!   usual             40,000                  0.04                       0.1
//!   differs by        a fifth                 0.05                       0.1       ──▶ disturbance
//! ```
//!
//! **A disturbance** shows that the past is no guide. An adopted global plan, a site without memory
//! and a very long queue for a lock count as disturbances too. The longer the last disturbance is
//! past, the fewer changes are made ([`Regime::changes_per_second`], [`super::recent`]). While a
//! fifth of all transactions is distributed there is no calm. Masters are in the wrong places, and
//! in a large database it takes long to measure the gain of moving them.
//!
//! **After four seconds with all signals as usual**, one that differs may mean a new workload: a
//! hot spot has moved. Overload and a quiet night look the same, so the signal alone decides
//! nothing. The samples are renewed as fast as possible ([`super::reservoir`]) and compared with
//! the older ones ([`access_shares_differ`]). If they access other sites, the older ones are
//! forgotten, and a global plan is drawn at once.
//!
//! **The usual values** follow the observations. If they were frozen at the start of a disturbance,
//! later steady growth would look like a new one. Changes of the design move load, too. So while
//! masters move, signals say nothing about the workload, nor until they have settled afterwards,
//! nor after a lull without requests.
//!
//! **Left out**: latency (with open-loop clients only the share of distributed transactions shows
//! that a hot spot has moved). Hot spots that stay at their site, which need splits and no moves.
//! Gradual changes, which the reservoir forgets by itself. A test that detects a drop before the
//! averages do.

use super::tuning::Tuning;
use super::workload::Workload;
use isomer_design::{Design, SiteId};
use std::collections::BTreeMap;

/// The observations of an interval.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Signals {
    /// Completed transactions per second.
    pub(crate) served: f64,
    /// The share of distributed transactions.
    pub(crate) across: f64,
    /// The difference between the busiest site and the average.
    pub(crate) uneven: f64,
}

impl Signals {
    /// Moves the averages towards the observations by a share.
    fn follow(&mut self, seen: Signals, share: f64) {
        self.served += share * (seen.served - self.served);
        self.across += share * (seen.across - self.across);
        self.uneven += share * (seen.uneven - self.uneven);
    }
}

/// See the [module documentation](self).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Regime {
    tuning: Tuning,
    now: Signals,
    usual: Signals,
    /// The times of the first observation, of the last disturbance, of the last disturbance by a
    /// signal, and of the last change of the design.
    begun_ns: Option<u64>,
    steady_ns: u64,
    usual_ns: u64,
    settled_ns: u64,
    seen_ns: u64,
}

impl Regime {
    /// A regime without usual values.
    pub(crate) fn new(tuning: Tuning) -> Regime {
        Regime { tuning, ..Regime::default() }
    }

    /// Records a disturbance: the past is no guide.
    pub(crate) fn disturb(&mut self, now_ns: u64) {
        (self.steady_ns, self.usual) = (now_ns, self.now);
    }

    /// Starts anew with another workload: the throughput of the old one says nothing.
    pub(crate) fn begin_anew(&mut self, now_ns: u64) {
        self.begun_ns = None;
        self.disturb(now_ns);
    }

    /// Records a change of the design: signals say nothing about the workload for a while.
    pub(crate) fn unsettle(&mut self, now_ns: u64) {
        self.settled_ns = now_ns;
    }

    /// Transactions per second; `None` before the signals are meaningful.
    pub(crate) fn served(&self) -> Option<f64> {
        let is_known = self.seen_ns.saturating_sub(self.begun_ns?) >= self.tuning.signal_ns();
        is_known.then_some(self.now.served)
    }

    /// The changes per second that are allowed now: fewer the longer the last disturbance is past.
    pub(crate) fn changes_per_second(&self, now_ns: u64) -> f64 {
        let Tuning { changes_per_second, halves_s, changes_at_rest, .. } = self.tuning;
        let steady_s = now_ns.saturating_sub(self.steady_ns) as f64 / 1e9;
        let rate = changes_per_second * 0.5f64.powf(steady_s / halves_s);
        rate.max(changes_at_rest.min(changes_per_second))
    }

    /// True if the last disturbance is past for twice the time that the signals need.
    pub(crate) fn is_calm(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.steady_ns) >= 2 * self.tuning.signal_ns()
    }

    /// Takes the observations of an interval that ends now. Returns true if a signal differs after
    /// all were as usual for long enough: the workload may have changed.
    pub(crate) fn see(&mut self, now_ns: u64, seen: Signals) -> bool {
        let interval_ns = now_ns.saturating_sub(self.seen_ns);
        let seconds = interval_ns as f64 / 1e9;
        if interval_ns == 0 {
            return false;
        }
        self.seen_ns = now_ns;
        if interval_ns >= 2 * Tuning::LOADS_EVERY_NS {
            // A lull without requests.
            self.unsettle(now_ns);
        }
        let is_settled = now_ns.saturating_sub(self.settled_ns) > self.tuning.signal_ns();
        let was_usual = now_ns.saturating_sub(self.usual_ns) >= 2 * self.tuning.signal_ns();
        // At the beginning these are plain averages.
        let begun_ns = *self.begun_ns.get_or_insert(now_ns);
        let least = seconds / (now_ns.saturating_sub(begun_ns) as f64 / 1e9).max(seconds);
        let share = |over_s: f64| (1.0 - (-seconds / over_s).exp()).max(least);
        self.now.follow(seen, share(self.tuning.signal_s));
        self.usual.follow(self.now, share(self.tuning.damping.window_ns as f64 / 1e9));
        let is_disturbed = self.is_disturbed();
        if is_disturbed {
            self.disturb(now_ns);
            self.usual_ns = now_ns;
        }
        is_disturbed && was_usual && is_settled
    }

    fn is_disturbed(&self) -> bool {
        let (now, usual, share) = (&self.now, &self.usual, self.tuning.disturbed);
        (now.served - usual.served).abs() > share * usual.served
            || (now.across - usual.across).abs() > share / 4.0
            || (now.uneven - usual.uneven).abs() > share / 2.0
            || now.across >= share
    }
}

/// True if new samples access the sites of a design in shares that differ significantly from those
/// of old ones.
///
/// The distance is the chi-square distance of the shares of samples whose first access goes to a
/// site. If a tenth of all moves from one of eight sites to another, it is 0.1 or more. Chance adds
/// the number of sites divided by the number of samples, on both sides.
pub(super) fn access_shares_differ(
    workload: &Workload,
    design: &Design,
    distance_min: f64,
) -> bool {
    let (mut sites, mut all) = (BTreeMap::<SiteId, [f64; 2]>::new(), [0.0; 2]);
    for (is_new, sample) in workload.sides() {
        let first = sample.footprint.items().first();
        let found = first.and_then(|item| design.partition_of(item.table, item.span.start()));
        let Some((_, placement)) = found else { continue };
        sites.entry(placement.master).or_default()[usize::from(is_new)] += 1.0;
        all[usize::from(is_new)] += 1.0;
    }
    let distance = |counts: &[f64; 2]| {
        let [old, new] = [counts[0] / all[0], counts[1] / all[1]];
        (new - old).powi(2) / ((old + new) / 2.0)
    };
    let distance: f64 = sites.values().map(distance).sum();
    let chance = (design.sites().len() as f64 - 1.0) * (1.0 / all[0] + 1.0 / all[1]);
    // Without samples on one side chance is infinite.
    distance - chance > distance_min
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::grid::tests::{S2, T, design};
    use crate::learned::reservoir::Damping;
    use isomer_design::{Footprint, Key};

    const TENTH_NS: u64 = 100_000_000;

    /// Throughput, share of distributed transactions and imbalance by second; and the number of
    /// transactions that each counted one stands for.
    struct Course<F>(f64, F);

    impl<F: Fn(f64) -> (f64, f64, f64)> Course<F> {
        /// The tenths of a second in which a calm ends, and the changes allowed in each ten
        /// seconds.
        fn run(&self) -> (Vec<u64>, Vec<f64>) {
            let Course(sample_weight, course) = self;
            let mut regime = Regime::new(Tuning::default());
            let (mut ends, mut tens) = (Vec::new(), vec![0.0; 9]);
            for tenth in 1..900 {
                let (served, across, uneven) = course(tenth as f64 / 10.0);
                let served = scattered(tenth, served, *sample_weight);
                let now_ns = tenth * TENTH_NS;
                if regime.see(now_ns, Signals { served, across, uneven }) {
                    ends.push(tenth);
                }
                tens[tenth as usize / 100] += regime.changes_per_second(now_ns) / 10.0;
            }
            (ends, tens)
        }
    }

    /// Counts with random scatter, as when each stands for `sample_weight`.
    fn scattered(tenth: u64, served: f64, sample_weight: f64) -> f64 {
        let counted = served / 10.0 / sample_weight;
        // The sum of twelve numbers from 0 to 1 has a deviation of 1 around 6.
        let number = |at: u64| {
            let mixed = (tenth * 12 + at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            ((mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11) as f64
                / (1u64 << 53) as f64
        };
        let chance = (0..12).map(number).sum::<f64>() - 6.0;
        (counted + chance * counted.sqrt()).max(0.0) * 10.0 * sample_weight
    }

    #[test]
    fn a_drop_ends_a_calm_within_seconds_and_once() {
        for weight in [40.0, 200.0] {
            let served = |s| if s < 50.0 { 40_000.0 } else { 24_000.0 };
            let ends = Course(weight, |s| (served(s), 0.02, 0.1)).run().0;
            assert!(ends.len() == 1 && (500..520).contains(&ends[0]), "one in {weight}: {ends:?}");
        }
    }

    #[test]
    fn chance_is_no_disturbance_and_a_steady_workload_becomes_calm() {
        for weight in [1.0, 40.0, 200.0] {
            let (ends, tens) = Course(weight, |_| (40_000.0, 0.02, 0.1)).run();
            assert_eq!(ends, [0; 0], "one in {weight}");
            assert!(tens[0] > 1000.0 && tens[5..].iter().all(|made| *made <= 1.0), "{tens:?}");
        }
    }

    #[test]
    fn a_site_that_becomes_much_busier_ends_a_calm_and_one_that_does_so_slowly_does_not() {
        let rises =
            |uneven: fn(f64) -> f64| Course(200.0, move |s| (40_000.0, 0.02, uneven(s))).run().0;
        let soon = rises(|s| if s < 50.0 { 0.1 } else { 0.5 });
        assert!(soon.len() == 1 && (500..520).contains(&soon[0]), "{soon:?}");
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
    fn signals_of_a_lull_or_of_moving_masters_say_nothing() {
        let ends = |settles: fn(&mut Regime, u64)| {
            let mut regime = Regime::new(Tuning::default());
            let load = |served| Signals { served, across: 0.0, uneven: 0.1 };
            for tenth in 1..200 {
                assert!(!regime.see(tenth * TENTH_NS, load(40_000.0)));
            }
            settles(&mut regime, 210 * TENTH_NS);
            (211..225).any(|tenth| regime.see(tenth * TENTH_NS, load(10_000.0)))
        };
        assert!(ends(|regime, _| regime.seen_ns = 210 * TENTH_NS));
        assert!(!ends(|_, _| ()), "a second without anybody");
        assert!(!ends(|regime, now_ns| {
            regime.seen_ns = now_ns;
            regime.unsettle(now_ns);
        }));
    }

    #[test]
    fn samples_tell_whether_other_sites_are_accessed() {
        // Keys below 500 are at the first site. There are equally many samples before and after;
        // the arguments are the tenths of them at the first site.
        let design = design(&[500], S2);
        let differ = |before: i64, after: i64| {
            let mut workload = Workload::new(Damping::default(), 0);
            for number in 0..4000 {
                if number == 2000 {
                    workload.reservoir.renew(number as u64);
                }
                let first = if number < 2000 { before } else { after };
                let key = if number % 10 < first { number % 500 } else { 500 + number % 500 };
                let footprint = Footprint::new().write(T, Key::int(key));
                assert!(workload.offer(number as u64, &footprint, [1, 1], 100.0, [0.0, 0.5]));
            }
            access_shares_differ(&workload, &design, 0.05)
        };
        assert!(differ(5, 7) && differ(9, 3) && differ(10, 8));
        assert!(!differ(5, 5) && !differ(6, 5));
    }
}
