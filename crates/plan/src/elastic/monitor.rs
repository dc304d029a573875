//! Coarse monitoring: the load of each site in a period, and whether one is overloaded.
//!
//! The load is the share of the processors that a site used, where sites report it, and otherwise
//! the number of accesses sent to it. A site is overloaded if its load is well above the mean and
//! the excess is significant. That is, its accesses exceed the expectation by three standard
//! deviations. A workload without skew therefore raises no alarm.

use super::{Fleet, Options};
use isomer_design::SiteId;
use std::fmt;

/// The activity of a site in a period.
#[derive(Clone, PartialEq, Debug)]
pub struct SitePeriod {
    /// The site.
    pub site: SiteId,
    /// Rows that transactions sent to it accessed.
    pub accesses: f64,
    /// The share of its processors' time that was in use; `None` if unknown.
    pub busy: Option<f64>,
}

/// The activity of all sites in a period.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Period {
    /// The length of the period.
    pub seconds: f64,
    /// The number of transactions.
    pub transactions: f64,
    /// The sites.
    pub sites: Vec<SitePeriod>,
    /// The most accesses that a reported one stands for; 1 if all were counted.
    pub each: f64,
    /// Latencies of some transactions, in microseconds, in any order.
    pub latencies_us: Vec<f64>,
}

/// The kind of an overload.
#[derive(Clone, PartialEq, Debug)]
pub enum Overload {
    /// A site has much more load than the others.
    Site {
        /// The site.
        site: SiteId,
        /// Its load in multiples of the mean.
        times: f64,
    },
    /// Transactions take too long.
    Latency {
        /// The 99th percentile of the latencies, in microseconds.
        p99_us: f64,
        /// Its limit.
        max_us: f64,
        /// The site with the most load, and its load in multiples of the mean.
        hottest: (SiteId, f64),
    },
    /// The processors of all sites are busy.
    Busy {
        /// The share of their time.
        busy: f64,
        /// Its limit.
        max: f64,
    },
}

impl Overload {
    /// True if one more site would help when no move does.
    pub fn is_of_all(&self) -> bool {
        !matches!(self, Overload::Site { .. })
    }
}

impl fmt::Display for Overload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Overload::Site { site, times } => {
                write!(f, "{site} has {times:.1} times the mean load")
            }
            Overload::Latency { p99_us, max_us, hottest: (site, times) } => write!(
                f,
                "1 of 100 transactions takes more than {:.1} ms ({:.1} are allowed); \
                 {site} has {times:.1} times the mean load",
                p99_us / 1000.0,
                max_us / 1000.0
            ),
            Overload::Busy { busy, max } => write!(
                f,
                "all sites together use {:.0} % of their processors ({:.0} are allowed)",
                busy * 100.0,
                max * 100.0
            ),
        }
    }
}

impl Period {
    /// The load of each site, in the unit that is known for all of them.
    fn loads(&self) -> Vec<(SiteId, f64)> {
        let by_time = self.sites.iter().all(|site| site.busy.is_some())
            && self.sites.iter().any(|site| site.busy > Some(0.0));
        let load = |site: &SitePeriod| match site.busy {
            Some(busy) if by_time => busy,
            _ => site.accesses,
        };
        self.sites.iter().map(|site| (site.site, load(site))).collect()
    }

    /// The site with the most load, and its load in multiples of the mean.
    pub fn hottest(&self) -> Option<(SiteId, f64)> {
        let loads = self.loads();
        let mean = loads.iter().map(|(_, load)| load).sum::<f64>() / loads.len() as f64;
        let (site, load) = loads.into_iter().rev().max_by(|a, b| a.1.total_cmp(&b.1))?;
        (mean > 0.0).then(|| (site, load / mean))
    }

    /// The share of their processors' time that all sites together use, if known.
    pub fn busy(&self) -> Option<f64> {
        let busy: f64 = self.sites.iter().map(|site| site.busy).sum::<Option<f64>>()?;
        (!self.sites.is_empty()).then_some(busy / self.sites.len() as f64)
    }

    /// The 99th percentile of the latencies, in microseconds.
    pub fn p99_us(&self) -> Option<f64> {
        let mut sorted = self.latencies_us.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get((sorted.len() * 99 / 100).min(sorted.len().saturating_sub(1))).copied()
    }

    /// The overload of the period, if there is one.
    pub fn overload(&self, options: &Options) -> Option<Overload> {
        let (site, times) = self.hottest()?;
        if self.transactions < options.rate_min * self.seconds {
            return None;
        }
        let too_slow = |max_us: f64| self.p99_us().filter(|p99_us| *p99_us > max_us);
        if let Some(max_us) = options.p99_us_max
            && let Some(p99_us) = too_slow(max_us)
        {
            return Some(Overload::Latency { p99_us, max_us, hottest: (site, times) });
        }
        if let Some(Fleet { busy_max: max, .. }) = options.fleet
            && let Some(busy) = self.busy().filter(|busy| *busy > max)
        {
            return Some(Overload::Busy { busy, max });
        }
        let all: f64 = self.sites.iter().map(|site| site.accesses).sum();
        let mean = all / self.sites.len() as f64;
        let of_hottest = self.sites.iter().find(|other| other.site == site)?.accesses;
        // Where one reported access stands for many, the variance is larger by that factor.
        let is_no_chance = of_hottest > mean + 3.0 * (mean * self.each.max(1.0)).sqrt();
        (times > 1.0 + options.overload && is_no_chance).then_some(Overload::Site { site, times })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(accesses: &[f64]) -> Period {
        let sites = (1..).zip(accesses);
        let site = |(id, accesses): (u16, &f64)| SitePeriod {
            site: SiteId(id),
            accesses: *accesses,
            busy: None,
        };
        Period {
            seconds: 1.0,
            transactions: accesses.iter().sum(),
            sites: sites.map(site).collect(),
            each: 1.0,
            latencies_us: Vec::new(),
        }
    }

    #[test]
    fn an_overload_is_more_than_the_mean_and_more_than_chance() {
        let options = Options::default();
        let overload = |accesses: &[f64]| period(accesses).overload(&options);
        assert_eq!(overload(&[]), None);
        assert_eq!(overload(&[0.0, 0.0]), None, "nothing runs");
        assert_eq!(overload(&[60.0, 30.0]), None, "hardly anything runs");
        assert_eq!(overload(&[1250.0, 1000.0, 1000.0]), None, "a little more is no overload");
        assert_eq!(overload(&[40.0, 20.0, 30.0, 30.0]), None, "that can be chance");
        let sampled = Period { each: 64.0, ..period(&[1600.0, 1000.0, 800.0, 600.0]) };
        assert_eq!(sampled.overload(&options), None, "25 of 64 each are few");
        let found = overload(&[1000.0, 2600.0, 500.0, 500.0]).expect("an overload");
        assert_eq!(found.to_string(), "s2 has 2.3 times the mean load");
    }

    #[test]
    fn reported_processor_use_overrides_accesses() {
        let mut period = period(&[1000.0, 1000.0, 700.0]);
        for (site, busy) in period.sites.iter_mut().zip([0.2, 0.6, 0.1]) {
            site.busy = Some(busy);
        }
        assert_eq!(period.hottest(), Some((SiteId(2), 0.6 / 0.3)));
    }

    #[test]
    fn a_latency_that_is_too_long_is_an_overload_of_the_hottest_site() {
        let mut period = period(&[1000.0, 1300.0]);
        period.latencies_us = (1..=200).map(|n| f64::from(n) * 100.0).collect();
        assert_eq!(period.p99_us(), Some(19_900.0));
        let options = Options { p99_us_max: Some(5000.0), ..Options::default() };
        let text = period.overload(&options).expect("it is too slow").to_string();
        assert_eq!(
            text,
            "1 of 100 transactions takes more than 19.9 ms (5.0 are allowed); s2 has 1.1 times the mean load"
        );
    }
}
