//! The pulse of the load: how long transactions took, and how many ran at one site, second by
//! second.
//!
//! ```text
//!   sampled transactions ─▶ a histogram of each second ─┬─▶ before and after a plan: what it brought
//!   changes of the design ─▶ which seconds had one ─────┴─▶ p99 with changes less p99 without: the
//!                                                            disturbance
//! ```
//!
//! **Memory.** [`KEPT_S`] seconds of 220 bytes each: 200 kB. **Precision.** A bucket of a histogram
//! ends 19 % above its begin. Percentiles are ends of buckets, so they are up to 19 % too high.
//!
//! Seconds without a sampled transaction are not kept. Times are arguments.

use isomer_design::Time;
use std::collections::{BTreeMap, BTreeSet};

/// The seconds that are kept.
pub const KEPT_S: u64 = 900;
/// The disturbance is that of the changes of this many seconds, the last ones.
pub const DISTURBED_S: u64 = 60;
/// It is compared with the seconds without changes among this many.
pub const QUIET_S: u64 = 300;
/// Fewer transactions than this say nothing about a percentile.
pub const TRANSACTIONS_MIN: u64 = 100;

const NS: u64 = 1_000_000_000;
/// Buckets of a histogram: four for each doubling from one microsecond on.
const BUCKETS: usize = 104;

/// The transactions of one second.
#[derive(Clone, Debug)]
struct Second {
    /// Transactions at one site, and over several.
    places: [u32; 2],
    sum_us: u64,
    took: [u16; BUCKETS],
}

impl Default for Second {
    fn default() -> Second {
        Second { places: [0; 2], sum_us: 0, took: [0; BUCKETS] }
    }
}

/// The transactions of some seconds. Of a part of them the duration is known.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Measure {
    /// The transactions that were seen.
    pub transactions: u64,
    /// The share of them that ran at one site.
    pub at_one_site: Option<f64>,
    /// The transactions whose duration is known.
    pub timed: u64,
    /// The mean duration in microseconds.
    pub mean_us: Option<f64>,
    /// The 99th percentile of the durations in microseconds.
    pub p99_us: Option<f64>,
}

/// See the [module documentation](self).
#[derive(Clone, Debug, Default)]
pub struct Pulse {
    seconds: BTreeMap<u64, Second>,
    changed: BTreeSet<u64>,
}

/// The bucket of a duration in microseconds.
fn bucket(us: u64) -> usize {
    let us = us.max(1) as f64;
    ((us.log2() * 4.0).floor() as usize).min(BUCKETS - 1)
}

/// The end of a bucket in microseconds.
fn end_us(bucket: usize) -> f64 {
    ((bucket as f64 + 1.0) / 4.0).exp2()
}

impl Pulse {
    /// A transaction has run at one site, or over several.
    pub fn ran(&mut self, now: Time, is_at_one_site: bool) {
        let place = &mut self.second(now).places[usize::from(!is_at_one_site)];
        *place = place.saturating_add(1);
    }

    /// A transaction has taken this time.
    pub fn took(&mut self, now: Time, latency_ns: u64) {
        let (second, us) = (self.second(now), latency_ns / 1000);
        let count = &mut second.took[bucket(us)];
        if *count < u16::MAX {
            *count += 1;
            second.sum_us += us;
        }
    }

    /// A change of the design was made or tried from a time to another.
    pub fn changed(&mut self, from: Time, to: Time) {
        let to = to.0 / NS;
        let from = (from.0 / NS).max(to.saturating_sub(KEPT_S));
        self.changed.extend(from..=to);
        self.forget(to);
    }

    fn second(&mut self, now: Time) -> &mut Second {
        let at = now.0 / NS;
        if !self.seconds.contains_key(&at) {
            self.forget(at);
        }
        self.seconds.entry(at).or_default()
    }

    fn forget(&mut self, now_s: u64) {
        let first = now_s.saturating_sub(KEPT_S);
        self.seconds = self.seconds.split_off(&first);
        self.changed = self.changed.split_off(&first);
    }

    /// The transactions from a time up to another, in whole seconds.
    pub fn measure(&self, from: Time, to: Time) -> Measure {
        let (from, to) = (from.0 / NS, to.0 / NS);
        measured(self.seconds.range(from..to.max(from)).map(|(_, second)| second))
    }

    /// By how much the 99th percentile of seconds with changes is above that of quiet seconds, in
    /// microseconds. `None` if too few transactions ran in either.
    pub fn added_p99_us(&self, now: Time) -> Option<f64> {
        let now = now.0 / NS;
        let p99 = |since: u64, has_change: bool| {
            let all = self.seconds.range(now.saturating_sub(since)..);
            let of = all.filter(|(at, _)| self.changed.contains(at) == has_change);
            let found = measured(of.map(|(_, second)| second));
            found.p99_us.filter(|_| found.timed >= TRANSACTIONS_MIN)
        };
        Some((p99(DISTURBED_S, true)? - p99(QUIET_S, false)?).max(0.0))
    }
}

fn measured<'s>(seconds: impl Iterator<Item = &'s Second>) -> Measure {
    let (mut places, mut sum_us, mut took) = ([0u64; 2], 0u64, [0u64; BUCKETS]);
    for second in seconds {
        places.iter_mut().zip(second.places).for_each(|(sum, count)| *sum += u64::from(count));
        took.iter_mut().zip(second.took).for_each(|(sum, count)| *sum += u64::from(count));
        sum_us += second.sum_us;
    }
    let (transactions, timed) = (places[0] + places[1], took.iter().sum::<u64>());
    let share = |part: u64, all: u64| (all > 0).then(|| part as f64 / all as f64);
    let behind = timed - timed / 100;
    let mut before = 0;
    let last = took.iter().position(|count| {
        before += count;
        before >= behind.max(1)
    });
    Measure {
        transactions,
        at_one_site: share(places[0], transactions),
        timed,
        mean_us: share(sum_us, timed),
        p99_us: last.map(end_us),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(second: u64) -> Time {
        Time(second * NS)
    }

    fn run(pulse: &mut Pulse, second: u64, count: u64, us: u64) {
        for at in 0..count {
            pulse.ran(s(second), at % 4 != 0);
            pulse.took(s(second), us * 1000);
        }
    }

    #[test]
    fn a_measure_is_of_the_seconds_between_two_times() {
        let mut pulse = Pulse::default();
        run(&mut pulse, 10, 8, 100);
        run(&mut pulse, 11, 8, 300);
        run(&mut pulse, 12, 8, 10_000);
        let found = pulse.measure(s(10), s(12));
        assert_eq!((found.transactions, found.timed), (16, 16));
        assert_eq!((found.at_one_site, found.mean_us), (Some(0.75), Some(200.0)));
        let p99 = found.p99_us.expect("a percentile");
        assert!((300.0..=357.0).contains(&p99), "{p99}");
        assert_eq!(pulse.measure(s(20), s(30)), Measure::default());
        assert_eq!(pulse.measure(s(12), s(10)), Measure::default(), "no time is between them");
    }

    #[test]
    fn the_disturbance_is_that_of_seconds_with_changes() {
        let mut pulse = Pulse::default();
        (0..10).for_each(|second| run(&mut pulse, second, 50, 100));
        assert_eq!(pulse.added_p99_us(s(10)), None, "there was no change");
        pulse.changed(s(10), s(11));
        run(&mut pulse, 10, 60, 8000);
        assert_eq!(pulse.added_p99_us(s(11)), None, "60 transactions say little");
        run(&mut pulse, 11, 60, 8000);
        let added = pulse.added_p99_us(s(12)).expect("enough of both");
        assert!((7800.0..9600.0).contains(&added), "{added}");
        assert_eq!(pulse.added_p99_us(s(11 + DISTURBED_S + 1)), None, "it is over");
    }

    #[test]
    fn memory_is_bounded_by_the_seconds_that_are_kept() {
        let mut pulse = Pulse::default();
        for second in 0..5 * KEPT_S {
            run(&mut pulse, second, 1, 100);
            pulse.changed(s(second.saturating_sub(3)), s(second));
        }
        assert!(pulse.seconds.len() as u64 <= KEPT_S + 1);
        assert!(pulse.changed.len() as u64 <= KEPT_S + 1);
        // A change that has taken days marks what is kept.
        pulse.changed(s(0), s(1_000_000));
        assert!(pulse.changed.len() as u64 <= KEPT_S + 1);
    }

    #[test]
    fn each_duration_is_below_the_end_of_its_bucket() {
        for us in [0, 1, 2, 3, 100, 999, 1_000_000, 60_000_000] {
            let end = end_us(bucket(us));
            assert!(us as f64 <= end, "{us}: {end}");
            assert!(end <= us.max(1) as f64 * 1.19 + 1e-9, "{us}: {end}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }
}
