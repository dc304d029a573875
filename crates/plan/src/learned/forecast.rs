//! Predicted throughput of a design for a given number of clients: a closed queueing network.
//!
//! ```text
//!            ┌─────────── N clients, each with one transaction at a time ─────────────────────┐
//!            ▼                                                                                │
//!   time without waiting ─▶ processors of its sites ─▶ locks of what it writes, one by one ───┘
//!                           d / (1 − used)             each held while the next is waited for
//! ```
//!
//! At a throughput X, the utilisation of sites and locks grows with X, and so do the waits for
//! them. By Little's law, X times the mean response time is N. The prediction is the X for which
//! that holds. It never exceeds the capacity of the busiest site or the most contended lock; if
//! nothing is busy, latency is the limit.
//!
//! **A lock** is held for the measured time without waits (one figure for single-site transactions,
//! one for distributed ones), and during the waits for later locks. So one slow lock slows those
//! before it. A transaction does not wait for itself: its own share is subtracted from each lock's
//! load.
//!
//! **Worked example.** Two clients in 500 write the same row at one site, held for 0.3 ms. At
//! 10,000 transactions per second the lock's utilisation is 40 × 0.0003 = 0.012: there are no
//! waits. If they write over two sites, the lock is held for 7 ms, its utilisation is 0.28, and
//! each waits for 7 · 0.28 / 0.72 = 2.7 ms.
//!
//! **Processes.** Sites that share a process share its processors. Where there are several
//! processes, the processors in the picture are theirs. Their work besides that of their sites
//! counts too ([`super::traffic`]): a part at each, wherever the masters are, and the rest at the
//! masters. The time to reach a site of another process is left out.
//!
//! Tables without writes count as present everywhere ([`Grid::holders`]).
//!
//! Predictions from the same samples are compared with each other, and with measured throughput.
//! Left out: the difference between several processors and one fast one, waits for replicas, and
//! growing queues. Under overload the actual throughput is lower than predicted.

use super::cost::{Parts, Work};
use super::grid::{Grid, Layout};
use super::known::Known;
use super::tuning::Tuning;
use isomer_design::{SiteId, SiteSet};
use std::ops::Range;

/// A transaction in the network. Times are in seconds.
struct Job {
    /// Its sites, or their processes, and the processor time it uses at each.
    sites: Vec<(SiteId, f64)>,
    /// The range of its own visits in `Network::visits`, in the order in which it takes the locks.
    visits: Range<usize>,
    /// Its time without waits for sites and locks.
    takes: f64,
    /// Its lock hold time without waits.
    holds: f64,
}

/// A design and the jobs that run on it.
pub(crate) struct Network {
    jobs: Vec<Job>,
    /// The locks of all visits.
    visits: Vec<u32>,
    /// The mean processor time of a job at each site or process, by the number of the site, or of
    /// the first site of the process.
    demand: Vec<f64>,
    locks: usize,
    /// The share of transactions that run over several sites.
    pub(crate) across: f64,
}

impl Network {
    /// The network of a layout, with every other sample of its grid as a job: those that did not
    /// propose it.
    pub(crate) fn of(known: &Known, grid: &Grid<'_>, layout: &Layout) -> Network {
        let (firsts, holders) = (layout.first_locks(), grid.holders(layout));
        let judges = grid.laid.iter().filter(|laid| !laid.sample.is_odd());
        let (mut jobs, mut visits, mut across) = (Vec::new(), Vec::new(), 0.0);
        let last = grid.sites.iter().last().expect("a design has sites");
        let processes = known.traffic.processes();
        let at = |site: SiteId| processes.get(&site).copied().unwrap_or(site);
        // Besides the work of sites, for each transaction.
        let per_second = known.traffic.transactions();
        let [stays, moves] = match processes.is_empty() || per_second <= 0.0 {
            true => [0.0; 2],
            false => known.traffic.besides().map(|share| share / per_second),
        };
        let mut demand = vec![0.0; usize::from(last.0) + 1];
        for laid in judges {
            let free = laid.free_sites(layout, &holders);
            let is_distributed = free.is_empty();
            across += if is_distributed { 1.0 } else { 0.0 };
            let masters = laid.masters(grid, layout);
            let at_masters = &masters & &free;
            let ran = match (is_distributed, processes.is_empty() || at_masters.is_empty()) {
                (true, _) => masters,
                // Gateways ask masters, not the copies of other processes.
                (false, false) => at_masters,
                (false, true) => free,
            };
            let [reads, writes] = laid.sample.rows.map(|rows| rows as f64);
            // The router spreads transactions that several sites can run; of a distributed one,
            // each site does a part.
            let busy = if is_distributed {
                known.busy_across([reads, writes], ran.len())
            } else {
                known.busy_alone([reads, writes]) / ran.len().max(1) as f64
            };
            let busy = busy + moves / ran.len().max(1) as f64;
            let ran = ran.iter().map(|site| (at(site), busy)).collect();
            let each = writes / laid.written.len().max(1) as f64;
            let refreshed = known.busy_following(each);
            for written in &laid.written {
                let replicas = &layout.placements[*written as usize].replicas;
                replicas.iter().for_each(|site| demand[usize::from(at(site).0)] += refreshed);
            }
            let [alone_us, across_us] = known.traffic.held_us();
            let holds_us = if is_distributed { Tuning::HELD_ACROSS * across_us } else { alone_us };
            let over_us = if is_distributed { holds_us } else { 0.0 };
            let partitions = [laid.read.len(), laid.written.len()].map(|count| count as f64);
            let work = Work { rows: [reads, writes], partitions, ..Work::default() };
            // Lock waits are computed below; the learned ones include the last congestion.
            let own = Parts { lock: 0.0, ..known.costs.transaction(&work) };
            let takes = (own.total() + over_us) / 1e6;
            let first = visits.len();
            visits.extend(laid.locks(layout, &firsts));
            let (holds, visits) = (holds_us / 1e6, first..visits.len());
            jobs.push(Job { sites: ran, visits, takes, holds });
        }
        let each = 1.0 / jobs.len().max(1) as f64;
        for (site, busy) in jobs.iter().flat_map(|visitor| &visitor.sites) {
            demand[usize::from(site.0)] += busy;
        }
        demand.iter_mut().for_each(|busy| *busy *= each);
        for process in processes.values().copied().collect::<SiteSet>().iter() {
            demand[usize::from(process.0)] += stays;
        }
        Network { jobs, visits, demand, locks: layout.locks(), across: across * each }
    }

    /// Transactions per second with this number of clients.
    ///
    /// # Panics
    /// If there are no jobs.
    pub(crate) fn per_second(&self, clients: f64) -> f64 {
        assert!(!self.jobs.is_empty(), "a network has jobs");
        let count = self.jobs.len() as f64;
        let takes = self.jobs.iter().map(|visitor| visitor.takes).sum::<f64>() / count;
        let (mut low, mut high) = (0.0, (clients / takes).min(1.0 / self.busiest()));
        for _ in 0..Tuning::BISECTIONS {
            let middle = (low + high) / 2.0;
            let fits = self.takes(middle).is_some_and(|takes| middle * takes <= clients);
            if fits { low = middle } else { high = middle }
        }
        low
    }

    /// The mean processor time of a job at the site or process that is the limit, in seconds.
    pub(crate) fn busiest(&self) -> f64 {
        self.demand.iter().copied().fold(f64::MIN_POSITIVE, f64::max)
    }

    /// True if at a rate the same jobs take significantly less time than in another design: the
    /// difference exceeds this number of standard errors.
    pub(crate) fn is_significantly_faster(
        &self,
        other: &Network,
        per_second: f64,
        standard_errors: f64,
    ) -> bool {
        let (Some(ours), Some(theirs)) = (self.times(per_second), other.times(per_second)) else {
            return self.takes(per_second).is_some();
        };
        let saved: Vec<f64> = ours.zip(theirs).map(|(ours, theirs)| theirs - ours).collect();
        let (sum, count) = (saved.iter().sum::<f64>(), saved.len().max(1) as f64);
        let squares: f64 = saved.iter().map(|saved| saved * saved).sum();
        sum > standard_errors * (squares - sum * sum / count).max(0.0).sqrt()
    }

    /// The mean time of a job at a rate, in seconds; `None` if the rate is beyond the capacity.
    fn takes(&self, per_second: f64) -> Option<f64> {
        Some(self.times(per_second)?.sum::<f64>() / self.jobs.len().max(1) as f64)
    }

    /// The time of each job.
    fn times(&self, per_second: f64) -> Option<impl Iterator<Item = f64>> {
        let used: Vec<f64> = self.demand.iter().map(|busy| busy * per_second).collect();
        if used.iter().any(|used| *used >= Tuning::SATURATED) {
            return None;
        }
        let waits = self.waits(per_second)?;
        Some(self.jobs.iter().zip(waits).map(move |(visitor, wait)| {
            let at_sites =
                visitor.sites.iter().map(|(at, busy)| busy / (1.0 - used[usize::from(at.0)]));
            visitor.takes + wait + at_sites.sum::<f64>()
        }))
    }

    /// The lock waits of each job.
    fn waits(&self, per_second: f64) -> Option<Vec<f64>> {
        let each = per_second / self.jobs.len().max(1) as f64;
        let holds = self.jobs.iter().map(|visitor| (visitor.holds, visitor.visits.len()));
        let holds = holds.flat_map(|(holds, count)| std::iter::repeat_n(holds, count));
        let mut held: Vec<f64> = holds.collect();
        let mut waits = vec![0.0; self.jobs.len()];
        for _ in 0..Tuning::FEW {
            let mut locks = vec![(0.0, 0.0); self.locks];
            for (lock, held) in self.visits.iter().zip(&held) {
                let (used, left) = &mut locks[*lock as usize];
                *used += each * held;
                *left += each * held * held;
            }
            for (visitor, sum) in self.jobs.iter().zip(&mut waits) {
                let mut wait = 0.0;
                for visit in visitor.visits.clone().rev() {
                    let (used, left) = locks[self.visits[visit] as usize];
                    let held = &mut held[visit];
                    let (used, left) = (used - each * *held, left - each * *held * *held);
                    if used >= Tuning::SATURATED {
                        return None;
                    }
                    // The lock was held during the waits for the later ones.
                    *held = visitor.holds + Tuning::HELD_WHILE_WAITING * wait;
                    wait += left / (1.0 - used);
                }
                *sum = wait;
            }
        }
        Some(waits)
    }

    /// The share of the time for which each lock is held, at a rate.
    pub(crate) fn held(&self, per_second: f64) -> Vec<f64> {
        let each = per_second / self.jobs.len().max(1) as f64;
        let mut held = vec![0.0; self.locks];
        for visitor in &self.jobs {
            let visits = &self.visits[visitor.visits.clone()];
            visits.iter().for_each(|lock| held[*lock as usize] += each * visitor.holds);
        }
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::grid::tests::{S1, S2, design, workload};
    use isomer_design::Key;

    /// The network of transactions that write these keys, one after the other. Keys from 10 on are
    /// at `second`, those before at the first site; partitions are cut at `cuts`.
    fn network(written: impl Fn(i64) -> Vec<i64>, second: SiteId, cuts: &[i64]) -> Network {
        let (design, workload) = (design(&[10], second), workload(written));
        let known = Known { workload, ..Known::new(&Tuning::default()) };
        let grid = Grid::of(&design, known.workload.samples());
        let mut layout = grid.layout();
        for at in cuts {
            layout.cuts[usize::from(*at > 10)].push(Key::int(*at));
        }
        Network::of(&known, &grid, &layout)
    }

    /// Their throughput.
    fn served(
        written: impl Fn(i64) -> Vec<i64>,
        second: SiteId,
        cuts: &[i64],
        clients: f64,
    ) -> f64 {
        network(written, second, cuts).per_second(clients)
    }

    #[test]
    fn a_border_through_hot_keys_makes_all_clients_wait_for_locks() {
        let [together, apart] = [S1, S2].map(|second| served(|_| vec![9, 10], second, &[], 500.0));
        assert!(together < 2000.0, "held for half a millisecond: {together}");
        assert!(apart < 50.0, "held for twenty: {apart}");
        assert!(together > 20.0 * apart, "{together} {apart}");
    }

    #[test]
    fn without_lock_waits_a_second_site_doubles_throughput() {
        let keys = |number: i64| vec![if number % 4 < 2 { -number } else { 10 + number }];
        let cuts: Vec<i64> = (-2000..2010).collect();
        let [one, two] = [S1, S2].map(|second| served(keys, second, &cuts, 1e6));
        assert!((1.9..2.1).contains(&(two / one)), "{one} {two}");
    }

    #[test]
    fn with_few_clients_latency_is_the_limit() {
        let cuts: Vec<i64> = (-2000..0).collect();
        let served = |clients| served(|number| vec![-number], S1, &cuts, clients);
        assert!((1.9..2.1).contains(&(served(2.0) / served(1.0))));
    }

    #[test]
    fn two_hot_keys_need_two_locks() {
        let keys = |number: i64| vec![if number % 4 < 2 { 3 } else { 7 }];
        let [whole, cut] = [[].as_slice(), &[5]].map(|cuts| served(keys, S1, cuts, 500.0));
        assert!((1.8..2.2).contains(&(cut / whole)), "{whole} {cut}");
    }
    #[test]
    fn a_few_faster_transactions_may_be_chance_and_many_are_not() {
        // One transaction in `one_in` writes on both sides of 10.
        let is_sooner = |one_in: i64| {
            let keys = |number: i64| if number % one_in == 1 { vec![9, 10] } else { vec![-number] };
            let cuts: Vec<i64> = (-2000..0).collect();
            let [together, apart] = [S1, S2].map(|second| network(keys, second, &cuts));
            assert!(!apart.is_significantly_faster(&together, 1.0, 2.0));
            together.is_significantly_faster(&apart, 1.0, 2.0)
        };
        assert!(!is_sooner(700) && is_sooner(70));
    }
}
