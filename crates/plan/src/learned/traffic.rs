//! Load and throughput of the sites: the inputs of the load function, and the signals that others
//! watch.
//!
//! Transactions are counted where they are sampled, each weighted by how many it stands for; the
//! sites report their own figures from time to time. Both become running averages per second:
//!
//! ```text
//!   sampled: 1 of 8 at s1, 3 rows written   ─┐                       s1   busy 0.4
//!   sampled: 1 of 8 at s2, 600 rows read    ─┼─ every interval ──▶        900 transactions/s
//!   s1 says: busy 0.4, 120 MB               ─┘                            0 / 2700 / 40 rows read / written / refreshed
//! ```
//!
use super::tuning::Tuning;
use isomer_design::{SiteId, SiteSet};
use isomer_strategy::SiteLoad;
use std::collections::BTreeMap;

/// What a site has to do per second: rows that are read, written and refreshed there, transactions
/// that run there alone, and those over several sites that have a part there.
pub type Rates = [f64; 5];

/// One site, as far as is known.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct SiteTraffic {
    /// The share of its processors' time in use.
    pub busy: f64,
    /// Transactions per second; of one over several sites, a share.
    pub transactions: f64,
    /// What it has to do.
    pub rates: Rates,
    /// Its memory is full, or nearly so.
    pub is_full: bool,
    /// It is so near to that that nothing more should come.
    pub lacks_room: bool,
}

/// What was counted since the last interval.
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
    /// For how long locks are held, by transactions at one site, and by those over several.
    held_us: [f64; 2],
    /// How many held some since the last interval, and for how long in all.
    holders: [(f64, f64); 2],
    /// How many transactions there were at once, and what those since the last interval took.
    clients: f64,
    took_us: f64,
    /// Of transactions that write, the share that runs over several sites.
    pub across: f64,
    /// How many transactions a second were served in the last interval.
    pub served: f64,
    since_ns: u64,
    intervals: u64,
}

/// A transaction that was measured.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Where it ran: one site, or those that committed together.
    pub sites: SiteSet,
    /// How many it stands for.
    pub sample_weight: f64,
    /// Rows read and written.
    pub rows: [usize; 2],
    /// Who follows what it wrote.
    pub followers: SiteSet,
    /// For how long it kept a processor of the site, in microseconds.
    pub busy_us: f64,
    /// For how long it held all of its locks, in microseconds.
    pub held_us: f64,
    /// How long it took, in microseconds.
    pub took_us: f64,
}

impl Traffic {
    /// Nothing is known yet.
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

    /// An interval ends: what was counted becomes rates. Clocks that stand still or go back end
    /// none.
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
        // Under overload they end all together, or not at all: so over many intervals.
        let many = self.intervals.min(Tuning::MANY as u64);
        self.clients += (clients - self.clients) / many as f64;
        for (held_us, (count, us)) in self.held_us.iter_mut().zip(&mut self.holders) {
            if *count > 0.0 {
                *held_us += pace * (*us / *count - *held_us);
            }
            (*count, *us) = (0.0, 0.0);
        }
    }

    /// One site.
    pub fn site(&self, site: SiteId) -> SiteTraffic {
        self.sites.get(&site).copied().unwrap_or_default()
    }

    /// The sites whose memory is full, or nearly so.
    pub fn full(&self) -> SiteSet {
        self.sites.iter().filter(|(_, site)| site.is_full).map(|(id, _)| *id).collect()
    }

    /// The idlest of some sites that has room; `None` if none of them is known to have.
    pub fn idlest(&self, among: &SiteSet) -> Option<SiteId> {
        let known = self.sites.iter().filter(|(id, _)| among.contains(**id));
        let idle = known.filter(|(_, site)| !site.lacks_room);
        idle.min_by(|(_, a), (_, b)| a.busy.total_cmp(&b.busy)).map(|(id, _)| *id)
    }

    /// For how long a transaction that writes holds its locks once it has all, in microseconds: one that runs at one
    /// site, and one over several. Whatever was seen, that is no less than two of the former.
    pub fn held_us(&self) -> [f64; 2] {
        let [alone, across] = self.held_us;
        [alone, across.max(2.0 * alone)]
    }

    /// How many transactions there are at once, on average: as many as come back in a time, by what they took.
    pub fn clients(&self) -> f64 {
        self.clients.max(f64::MIN_POSITIVE)
    }

    /// By how much the busiest site is busier than the average.
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

    const S1: SiteId = SiteId(1);
    const S2: SiteId = SiteId(2);

    fn load(site: SiteId, busy: Option<f64>) -> SiteLoad {
        SiteLoad { site, busy, memory_bytes: 96, memory_max: Some(100), hot_locks: Vec::new() }
    }

    #[test]
    fn what_is_counted_becomes_rates_and_followers_refresh() {
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
        // Of one over both sites, each does half of the work, and has a part.
        let sites = [S1, S2].into_iter().collect();
        traffic.count(&Seen { sites, followers: SiteSet::EMPTY, ..seen });
        traffic.close(2_000_000_000, &[load(S1, None), load(S2, None)]);
        let two = traffic.site(S2);
        assert_eq!((two.transactions, two.rates), (2.0, [2.0, 6.0, 120.0, 0.0, 4.0]));
    }

    #[test]
    fn clocks_that_jump_and_loads_that_are_no_numbers_spoil_nothing() {
        let mut traffic = Traffic::new(1000);
        traffic.close(1000, &[load(S1, Some(0.5))]);
        traffic.close(500, &[load(S1, Some(0.5))]);
        assert_eq!(traffic.site(S1), SiteTraffic::default());
        traffic.close(2_000_000_000, &[load(S1, Some(f64::NAN))]);
        assert_eq!(traffic.site(S1).busy, 0.0);
    }
}
