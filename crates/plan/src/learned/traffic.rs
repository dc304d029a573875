//! Load and throughput of the sites: the inputs of the load function, and the signals of the
//! regime.
//!
//! Transactions are counted where they are sampled, each weighted by the number it stands for. The
//! sites report their own figures periodically. Both become running averages per second:
//!
//! ```text
//!   sampled: 1 of 8 at s1, 3 rows written  ─┐                      s1   busy 0.4
//!   sampled: 1 of 8 at s2, 600 rows read   ─┼─ every interval ──▶       900 transactions/s
//!   s1 reports: busy 0.4, 120 MB           ─┘                           0 / 2700 / 40 rows read /
//!                                                                       written / refreshed
//! ```
//!
//! **Processes.** A site shares the processors of its process with SQL and routing for the clients
//! that are connected there, and with messages and logs, which go where the masters are. The
//! process that does the least besides the work of its sites shows what stays
//! ([`Traffic::besides`]). A process is pressed while all of its work together takes nearly all of
//! its processors' time.

use super::tuning::Tuning;
use isomer_design::{SiteId, SiteSet};
use isomer_strategy::SiteLoad;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// A site's work per second: rows read, written and refreshed, transactions that run there alone,
/// and parts of distributed transactions.
pub type Rates = [f64; 5];

/// The known figures of one site.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct SiteTraffic {
    /// The share of its processors' time that it uses.
    pub busy: f64,
    /// The process with the site, by its first site, and the share of its processors' time in use;
    /// `None` while unknown.
    pub process: Option<(SiteId, f64)>,
    /// Transactions per second; a distributed one counts as a share at each of its sites.
    pub transactions: f64,
    /// Its work per second.
    pub rates: Rates,
    /// Its memory is at [`Tuning::MEMORY_FULL`] or above.
    pub is_full: bool,
    /// Its memory is at [`Tuning::NEARLY_FULL`] or above, so it should get no more copies.
    pub lacks_room: bool,
}

/// The counts since the last interval.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    transactions: f64,
    done: Rates,
    busy_us: f64,
}

/// See the [module documentation](self).
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    sites: BTreeMap<SiteId, SiteTraffic>,
    counts: BTreeMap<SiteId, Counts>,
    /// Lock hold times, of transactions at one site and of distributed ones.
    held_us: [f64; 2],
    /// The number of lock holders since the last interval, and their total hold time.
    holders: [(f64, f64); 2],
    /// The mean number of concurrent transactions, and the total latency since the last interval.
    clients: f64,
    took_us: f64,
    /// The share of distributed transactions among those that write.
    pub across: f64,
    /// Transactions per second in the last interval.
    pub served: f64,
    since_ns: u64,
    intervals: u64,
}

/// A measured transaction.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The sites where it ran: one, or those that committed together.
    pub sites: SiteSet,
    /// The number of transactions that it stands for.
    pub sample_weight: f64,
    /// Rows read and written.
    pub rows: [usize; 2],
    /// The sites that replicate what it wrote.
    pub followers: SiteSet,
    /// The processor time it used at the site, in microseconds.
    pub busy_us: f64,
    /// The time between acquiring its last lock and releasing them, in microseconds.
    pub held_us: f64,
    /// Its latency, in microseconds.
    pub took_us: f64,
}

impl Traffic {
    /// Traffic without any observation.
    pub fn new(now_ns: u64) -> Traffic {
        Traffic { held_us: Tuning::HELD_US, since_ns: now_ns, ..Traffic::default() }
    }

    /// Counts a transaction.
    pub fn count(&mut self, seen: &Seen) {
        let [reads, writes] = seen.rows.map(|rows| rows as f64 * seen.sample_weight);
        let share = 1.0 / seen.sites.len().max(1) as f64;
        let is_distributed = seen.sites.len() > 1;
        for site in seen.sites.iter() {
            let counts = self.counts.entry(site).or_default();
            counts.transactions += share * seen.sample_weight;
            counts.done[0] += share * reads;
            counts.done[1] += share * writes;
            counts.done[if is_distributed { 4 } else { 3 }] += seen.sample_weight;
            counts.busy_us += share * seen.busy_us * seen.sample_weight;
        }
        self.took_us += seen.took_us * seen.sample_weight;
        if seen.rows[1] > 0 {
            let (count, us) = &mut self.holders[usize::from(is_distributed)];
            (*count, *us) = (*count + 1.0, *us + seen.held_us);
        }
        for follower in seen.followers.iter() {
            self.counts.entry(follower).or_default().done[2] += writes;
        }
    }

    /// Ends an interval: counts become rates. A clock that stands still or jumps back ends none.
    pub fn close(&mut self, now_ns: u64, loads: &[SiteLoad]) {
        let seconds = now_ns.saturating_sub(self.since_ns) as f64 / 1e9;
        if seconds <= 0.0 {
            return;
        }
        self.since_ns = now_ns;
        self.intervals += 1;
        let pace = Tuning::TRAFFIC_PACE.max(1.0 / self.intervals as f64);
        self.served = self.counts.values().map(|counts| counts.transactions).sum::<f64>() / seconds;
        let told: SiteSet = loads.iter().map(|load| load.site).collect();
        self.sites.retain(|site, _| told.contains(*site));
        for load in loads {
            let counts = self.counts.remove(&load.site).unwrap_or_default();
            let site = self.sites.entry(load.site).or_default();
            let step = |average: &mut f64, now: f64| *average += pace * (now - *average);
            let busy = load.busy.filter(|busy| busy.is_finite());
            step(&mut site.busy, busy.unwrap_or(counts.busy_us / seconds / 1e6));
            site.process = load.process.filter(|process| process.busy.is_finite()).map(|process| {
                let mut busy = site.process.map_or(process.busy, |(_, busy)| busy);
                step(&mut busy, process.busy);
                (process.first, busy)
            });
            step(&mut site.transactions, counts.transactions / seconds);
            site.rates.iter_mut().zip(counts.done).for_each(|(rate, n)| step(rate, n / seconds));
            let filled = load.memory_max.map_or(0.0, |max| load.memory_bytes as f64 / max as f64);
            (site.is_full, site.lacks_room) =
                (filled >= Tuning::MEMORY_FULL, filled >= Tuning::NEARLY_FULL);
        }
        self.counts.clear();
        let [alone, across] = self.holders.map(|(count, _)| count);
        if alone + across > 0.0 {
            self.across += pace * (across / (alone + across) - self.across);
        }
        let clients = std::mem::take(&mut self.took_us) / 1e6 / seconds;
        // Under overload transactions end all together or not at all, so the average covers many
        // intervals.
        let many = self.intervals.min(Tuning::MANY as u64);
        self.clients += (clients - self.clients) / many as f64;
        for (held_us, (count, us)) in self.held_us.iter_mut().zip(&mut self.holders) {
            if *count > 0.0 {
                *held_us += pace * (*us / *count - *held_us);
            }
            (*count, *us) = (0.0, 0.0);
        }
    }

    /// The figures of one site.
    pub fn site(&self, site: SiteId) -> SiteTraffic {
        self.sites.get(&site).copied().unwrap_or_default()
    }

    /// The sites whose memory is full.
    pub fn full(&self) -> SiteSet {
        self.sites.iter().filter(|(_, site)| site.is_full).map(|(id, _)| *id).collect()
    }

    /// The idlest site with room among `among`; `None` if none is known to have room.
    pub fn idlest(&self, among: &SiteSet) -> Option<SiteId> {
        let known = self.sites.iter().filter(|(id, _)| among.contains(**id));
        let idle = known.filter(|(_, site)| !site.lacks_room);
        let busy = |site: &SiteTraffic| site.process.map_or(site.busy, |(_, busy)| busy);
        let order = |site: &SiteTraffic| (busy(site), site.busy);
        idle.min_by(|(_, a), (_, b)| order(a).partial_cmp(&order(b)).unwrap_or(Ordering::Equal))
            .map(|(id, _)| *id)
    }

    /// The process of each site, by its first site. Empty if all sites are in one process, or that
    /// is not known.
    pub fn processes(&self) -> BTreeMap<SiteId, SiteId> {
        let processes = self.sites.iter().filter_map(|(id, site)| Some((*id, site.process?.0)));
        let processes: BTreeMap<SiteId, SiteId> = processes.collect();
        let first = processes.values().next();
        let is_one = processes.values().all(|process| Some(process) == first);
        if is_one { BTreeMap::new() } else { processes }
    }

    /// The work of processes outside of their sites, as shares of a process's processors: what each
    /// does whatever it masters, and the rest, which all of them together do where masters are.
    pub fn besides(&self) -> [f64; 2] {
        let mut besides: BTreeMap<SiteId, f64> = BTreeMap::new();
        for site in self.sites.values() {
            if let Some((process, busy)) = site.process {
                *besides.entry(process).or_insert(busy) -= site.busy;
            }
        }
        let least = besides.values().copied().reduce(f64::min).unwrap_or(0.0).max(0.0);
        [least, besides.values().map(|besides| (besides - least).max(0.0)).sum()]
    }

    /// True if a process uses this share of its processors' time or more, and some process less.
    pub fn is_pressed(&self, from: f64) -> bool {
        let processes = self.processes();
        let busy = |site: &SiteId| self.site(*site).process.map_or(0.0, |(_, busy)| busy);
        let all = || processes.values().map(busy);
        all().any(|busy| busy >= from) && all().any(|busy| busy < from)
    }

    /// The time for which a writing transaction holds its locks once it has all, in microseconds:
    /// at one site, and distributed. The latter is at least twice the former, even if measured
    /// lower.
    pub fn held_us(&self) -> [f64; 2] {
        let [alone, across] = self.held_us;
        [alone, across.max(2.0 * alone)]
    }

    /// The mean number of concurrent transactions: completions per second times their latency.
    pub fn clients(&self) -> f64 {
        self.clients.max(f64::MIN_POSITIVE)
    }

    /// The difference between the busiest site and the average.
    pub fn uneven(&self) -> f64 {
        let busy = || self.sites.values().map(|site| site.busy);
        busy().fold(0.0, f64::max) - busy().sum::<f64>() / self.sites.len().max(1) as f64
    }

    /// Transactions per second at all sites.
    pub fn transactions(&self) -> f64 {
        self.sites.values().map(|site| site.transactions).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use isomer_strategy::ProcessLoad;

    const S1: SiteId = SiteId(1);
    const S2: SiteId = SiteId(2);

    fn load(site: SiteId, busy: Option<f64>) -> SiteLoad {
        SiteLoad {
            site,
            busy,
            memory_bytes: 96,
            memory_max: Some(100),
            hot_locks: Vec::new(),
            process: None,
        }
    }

    #[test]
    fn a_process_with_clients_is_busier_than_its_sites() {
        let load = |site, busy, first, of_process| SiteLoad {
            process: Some(ProcessLoad { first, busy: of_process }),
            ..load(site, Some(busy))
        };
        let mut traffic = Traffic::new(0);
        let s3 = SiteId(3);
        traffic.close(
            1,
            &[load(S1, 0.25, S1, 0.75), load(S2, 0.25, S1, 0.75), load(s3, 0.125, s3, 0.25)],
        );
        assert_eq!(traffic.processes(), [(S1, S1), (S2, S1), (s3, s3)].into());
        assert_eq!(traffic.besides(), [0.125, 0.125]);
        assert!(traffic.is_pressed(0.75) && !traffic.is_pressed(0.8) && !traffic.is_pressed(0.2));
        traffic.close(2, &[load(S1, 0.25, S1, 0.75), load(S2, 0.25, S1, 0.75)]);
        assert!(traffic.processes().is_empty() && !traffic.is_pressed(0.5), "there is no other");
    }

    #[test]
    fn counts_become_rates_and_replicas_refresh() {
        let mut traffic = Traffic::new(0);
        let followers = SiteSet::of(S2);
        let seen = Seen {
            sites: SiteSet::of(S1),
            sample_weight: 8.0,
            rows: [1, 3],
            followers,
            busy_us: 1000.0,
            held_us: 90.0,
            took_us: 500.0,
        };
        (0..10).for_each(|_| traffic.count(&seen));
        traffic.close(1_000_000_000, &[load(S1, None), load(S2, Some(0.7))]);
        let (one, two) = (traffic.site(S1), traffic.site(S2));
        assert_eq!((one.transactions, one.busy), (80.0, 0.08));
        assert_eq!(one.rates, [80.0, 240.0, 0.0, 80.0, 0.0]);
        assert_eq!((two.transactions, two.busy), (0.0, 0.7));
        assert_eq!(two.rates, [0.0, 0.0, 240.0, 0.0, 0.0]);
        assert!(one.is_full && traffic.transactions() == 80.0);
        assert_eq!(traffic.full(), [S1, S2].into_iter().collect());
        // Each of its two sites does half of the work, and counts one part.
        let sites = [S1, S2].into_iter().collect();
        traffic.count(&Seen { sites, followers: SiteSet::EMPTY, ..seen });
        traffic.close(2_000_000_000, &[load(S1, None), load(S2, None)]);
        let two = traffic.site(S2);
        assert_eq!((two.transactions, two.rates), (2.0, [2.0, 6.0, 120.0, 0.0, 4.0]));
    }

    #[test]
    fn clocks_that_jump_and_loads_that_are_nan_corrupt_nothing() {
        let mut traffic = Traffic::new(1000);
        traffic.close(1000, &[load(S1, Some(0.5))]);
        traffic.close(500, &[load(S1, Some(0.5))]);
        assert_eq!(traffic.site(S1), SiteTraffic::default());
        traffic.close(2_000_000_000, &[load(S1, Some(f64::NAN))]);
        assert_eq!(traffic.site(S1).busy, 0.0);
    }
}
