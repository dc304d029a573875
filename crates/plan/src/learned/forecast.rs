//! How many transactions a second a design would serve, for as many clients as there are: a closed network of
//! queues.
//!
//! ```text
//!            ┌───────────── so many clients, each with one transaction at a time ─────────────┐
//!            ▼                                                                                │
//!   what it takes anyhow ─▶ processors of its sites ─▶ locks of what it writes, one by one ───┘
//!                           d / (1 − used)             each held while the next is waited for
//! ```
//!
//! At a rate X, sites and locks are in use for shares of the time that grow with X, and so does what is waited
//! for them. By Little's law, X times the mean time of a transaction is the number of clients. The X for which
//! that is so is what the design serves. It is never more than its busiest site, or its most contended lock, has
//! time for; and where nothing is busy, it is what latency leaves.
//!
//! **A lock** is held for as long as transactions like this hold theirs without waiting (those at one site, and
//! those over several, which is measured), and besides, while later locks are waited for. So one slow lock makes those
//! before it slow. A transaction does not wait for itself: of each lock, its own share is taken out.
//!
//! **Worked example.** Two clients in five hundred write the same row at one site, held for 0.3 ms, and at 10 000
//! transactions a second that lock is used for 40 × 0.0003 = 0.012 of the time: nobody waits. If they write over
//! two sites, it is held for 7 ms, and used for 0.28; and each waits for 7 · 0.28 / 0.72 = 2.7 ms.
//!
//! Forecasts are compared with each other, made of the same samples. What is left out is the same for all: how the
//! work of several processors differs from that of a fast one, and the wait of replicas.

use super::cost::Work;
use super::grid::{Grid, Layout};
use super::outlook::Outlook;
use isomer_design::{Key, SiteId, SiteSet};
use std::collections::BTreeMap;

/// Times that locks are held are worked out from waits, and waits from these, so many times.
const ROUNDS: usize = 3;
/// Nearer to always in use than this is always.
const FULL: f64 = 0.99;
/// Locks at several sites are held for so many times as long as is measured, from the moment when there are all of
/// them: each site takes its own before that, and gives them back after it.
const ACROSS: f64 = 2.0;
/// While a lock is waited for, those before it are held; but part of that would have been waited there instead.
const TOGETHER: f64 = 0.5;
/// The rate is halved in so many times.
const HALVINGS: usize = 14;

/// A transaction in the network. Times are in seconds.
struct Visitor {
    /// Where it runs, and for how long it keeps the whole site.
    sites: Vec<(u32, f64)>,
    /// In the order in which they are taken.
    locks: Vec<u32>,
    /// What it takes without waiting for sites and locks.
    takes: f64,
    /// For how long it holds its locks, if it waits for none.
    holds: f64,
}

/// A design with those who visit it.
pub(crate) struct Network {
    visitors: Vec<Visitor>,
    /// What a transaction takes of each site, on average.
    demand: Vec<f64>,
    locks: usize,
}

impl Network {
    /// The network of a layout, visited by some of the samples of its grid.
    pub(crate) fn of(outlook: &Outlook<'_>, grid: &Grid<'_>, layout: &Layout) -> Network {
        let firsts = layout.first_locks();
        let holders: Vec<SiteSet> = layout.placements.iter().map(|p| p.holders()).collect();
        let judges = grid.laid.iter().filter(|laid| !laid.sample.is_odd());
        let mut sites = Sites::default();
        let mut visitors = Vec::new();
        for laid in judges {
            let master = |p: &u32| layout.placements[*p as usize].master;
            let free = laid.written.iter().map(|p| SiteSet::of(master(p)));
            let free = free.chain(laid.read.iter().map(|p| holders[*p as usize].clone()));
            let free = free.reduce(|all, these| &all & &these).unwrap_or(SiteSet::EMPTY);
            let is_across = free.is_empty();
            let all = laid.written.iter().chain(&laid.read);
            let ran = if is_across { all.map(master).collect() } else { free };
            let [reads, writes] = laid.sample.rows().map(|rows| rows as f64);
            // The router spreads what several sites can run; over several, each has as much to do.
            let share = if is_across { 1.0 } else { 1.0 / ran.len().max(1) as f64 };
            let busy = share * outlook.busy([reads, writes, 0.0]);
            let ran = ran.iter().map(|site| (sites.number(site), busy)).collect();
            let refreshed = outlook.busy([0.0, 0.0, writes / laid.written.len().max(1) as f64]);
            for written in &laid.written {
                let replicas = &layout.placements[*written as usize].replicas;
                replicas.iter().for_each(|site| sites.add(site, refreshed));
            }
            let mut locks: Vec<u32> = if laid.keys.is_empty() {
                laid.written.iter().map(|p| firsts[*p as usize]).collect()
            } else {
                let partition = |at: u32| laid.written[at as usize];
                let lock = |(at, key): &(u32, &Key)| {
                    firsts[partition(*at) as usize] + layout.part_of(partition(*at), key)
                };
                laid.keys.iter().map(lock).collect()
            };
            locks.dedup();
            let partitions = [laid.read.len(), laid.written.len()].map(|count| count as f64);
            let work = Work { rows: [reads, writes], partitions, ..Work::default() };
            let [alone_us, across_us] = outlook.traffic.bare_us();
            let holds_us = if is_across { ACROSS * across_us } else { alone_us };
            let over = if is_across { holds_us } else { 0.0 };
            let takes = (outlook.costs.transaction(&work).total() + over) / 1e6;
            visitors.push(Visitor { sites: ran, locks, takes, holds: holds_us / 1e6 });
        }
        let each = 1.0 / visitors.len().max(1) as f64;
        let mut demand = sites.refreshes;
        for (site, busy) in visitors.iter().flat_map(|visitor| &visitor.sites) {
            demand[*site as usize] += busy;
        }
        demand.iter_mut().for_each(|busy| *busy *= each);
        Network { visitors, demand, locks: layout.locks() }
    }

    /// Transactions a second of so many clients.
    pub(crate) fn per_second(&self, clients: f64) -> f64 {
        let count = self.visitors.len().max(1) as f64;
        let takes = self.visitors.iter().map(|visitor| visitor.takes).sum::<f64>() / count;
        let busiest = self.demand.iter().copied().fold(0.0, f64::max);
        let (mut low, mut high) = (0.0, (clients / takes).min(1.0 / busiest));
        for _ in 0..HALVINGS {
            let middle = (low + high) / 2.0;
            let fits = self.takes(middle).is_some_and(|takes| middle * takes <= clients);
            if fits { low = middle } else { high = middle }
        }
        low
    }

    /// What a transaction takes at a rate, in seconds, on average; `None` if it cannot be served.
    fn takes(&self, per_second: f64) -> Option<f64> {
        let used: Vec<f64> = self.demand.iter().map(|busy| busy * per_second).collect();
        if used.iter().any(|used| *used >= FULL) {
            return None;
        }
        let waits = self.waits(per_second)?;
        let sums = self.visitors.iter().zip(waits).map(|(visitor, wait)| {
            let at_sites = visitor.sites.iter().map(|(at, busy)| busy / (1.0 - used[*at as usize]));
            visitor.takes + wait + at_sites.sum::<f64>()
        });
        Some(sums.sum::<f64>() / self.visitors.len().max(1) as f64)
    }

    /// How long each waits for locks.
    fn waits(&self, per_second: f64) -> Option<Vec<f64>> {
        let each = per_second / self.visitors.len().max(1) as f64;
        let mut held: Vec<Vec<f64>> =
            self.visitors.iter().map(|visitor| vec![visitor.holds; visitor.locks.len()]).collect();
        let mut waits = Vec::new();
        for _ in 0..ROUNDS {
            let mut locks = vec![(0.0, 0.0); self.locks];
            for (visitor, held) in self.visitors.iter().zip(&held) {
                for (lock, held) in visitor.locks.iter().zip(held) {
                    let (used, left) = &mut locks[*lock as usize];
                    *used += each * held;
                    *left += each * held * held;
                }
            }
            waits.clear();
            for (visitor, held) in self.visitors.iter().zip(&mut held) {
                let mut wait = 0.0;
                for (lock, held) in visitor.locks.iter().zip(held).rev() {
                    let (used, left) = locks[*lock as usize];
                    let (used, left) = (used - each * *held, left - each * *held * *held);
                    if used >= FULL {
                        return None;
                    }
                    // It was held while those after it were waited for.
                    *held = visitor.holds + wait * TOGETHER;
                    wait += left / (1.0 - used);
                }
                waits.push(wait);
            }
        }
        Some(waits)
    }

    /// For which share of the time each lock is held, at a rate.
    pub(crate) fn held(&self, per_second: f64) -> Vec<f64> {
        let each = per_second / self.visitors.len().max(1) as f64;
        let mut held = vec![0.0; self.locks];
        for visitor in &self.visitors {
            visitor.locks.iter().for_each(|lock| held[*lock as usize] += each * visitor.holds);
        }
        held
    }
}

/// Sites get numbers as they come.
#[derive(Default)]
struct Sites {
    numbers: BTreeMap<SiteId, u32>,
    refreshes: Vec<f64>,
}

impl Sites {
    fn number(&mut self, site: SiteId) -> u32 {
        let next = self.refreshes.len() as u32;
        let number = *self.numbers.entry(site).or_insert(next);
        if number == next {
            self.refreshes.push(0.0);
        }
        number
    }

    fn add(&mut self, site: SiteId, busy: f64) {
        let at = self.number(site);
        self.refreshes[at as usize] += busy;
    }
}
