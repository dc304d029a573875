//! Steps 2 and 3: moves routes away from sites above the threshold, then polishes if asked.
//!
//! An edge joins a transaction that reads a record with the last writer of the record, or with the
//! site where the record rests. A transaction's partners are the other ends of its edges: moving it
//! saves those at the new site and loses those at the old one.

use super::{Keys, Options};

/// The current routes. A transaction is identified by its place in the new order.
pub(super) struct Balancing<'r> {
    routes: &'r mut [(usize, u16)],
    sites: usize,
    threshold: usize,
    loads: Vec<usize>,
    /// Per place: the places it exchanges records with, one entry per record.
    partners: Vec<Vec<u32>>,
    polish: bool,
    /// Per place and site: the number of partners and resting records there.
    near: Vec<u32>,
}

impl<'r> Balancing<'r> {
    pub(super) fn new(
        keys: &Keys,
        sites: u16,
        options: Options,
        routes: &'r mut [(usize, u16)],
    ) -> Balancing<'r> {
        let threshold = options.alpha.threshold(routes.len(), sites);
        let sites = usize::from(sites);
        let mut partners = vec![Vec::new(); routes.len()];
        let mut near = vec![0u32; routes.len() * sites];
        let mut loads = vec![0; sites];
        let mut writer: Vec<Option<u32>> = vec![None; keys.start.len()];
        for (place, &(at, site)) in routes.iter().enumerate() {
            loads[usize::from(site)] += 1;
            for &key in &keys.reads[at] {
                let Some(before) = writer[key as usize] else {
                    near[place * sites + usize::from(keys.start[key as usize])] += 1;
                    continue;
                };
                let there = routes[before as usize].1;
                near[place * sites + usize::from(there)] += 1;
                near[before as usize * sites + usize::from(site)] += 1;
                partners[place].push(before);
                partners[before as usize].push(place as u32);
            }
            keys.writes[at].iter().for_each(|&key| writer[key as usize] = Some(place as u32));
        }
        let polish = options.polish;
        Balancing { routes, sites, threshold, loads, partners, polish, near }
    }

    /// Moves transactions until no site is above the threshold, and polishes if asked.
    pub(super) fn run(mut self) {
        let mut delta_max = 1i64;
        while self.loads.iter().any(|&load| load > self.threshold) {
            for place in (0..self.routes.len()).rev() {
                let from = usize::from(self.routes[place].1);
                if self.loads[from] > self.threshold
                    && let Some(to) = self.new_route(place, from, delta_max)
                {
                    self.reroute(place, from, to);
                }
            }
            delta_max += 1;
        }
        while self.polish && self.improve() {}
    }

    /// One pass of single moves and exchanges that lower the number of remote edges; false if there
    /// are none.
    fn improve(&mut self) -> bool {
        let mut improved = false;
        for place in 0..self.routes.len() {
            let from = usize::from(self.routes[place].1);
            for to in (0..self.sites).filter(|&to| to != from) {
                let gain = self.gain(place, from, to);
                if gain <= 0 {
                    continue;
                }
                if self.loads[to] < self.threshold {
                    self.reroute(place, from, to);
                    improved = true;
                    break;
                }
                if let Some(other) = self.exchange(place, from, to, gain) {
                    self.reroute(place, from, to);
                    self.reroute(other, to, from);
                    improved = true;
                    break;
                }
            }
        }
        improved
    }

    fn gain(&self, place: usize, from: usize, to: usize) -> i64 {
        i64::from(self.near[place * self.sites + to])
            - i64::from(self.near[place * self.sites + from])
    }

    /// A transaction of the full site `to` to exchange for one with this gain. Their shared edges
    /// stay remote, but both gains count them as saved.
    fn exchange(&self, place: usize, from: usize, to: usize, gain: i64) -> Option<usize> {
        let shared = |other: usize| {
            self.partners[place].iter().filter(|&&partner| partner as usize == other).count() as i64
        };
        let others =
            (0..self.routes.len()).filter(|&other| usize::from(self.routes[other].1) == to);
        others
            .map(|other| (gain + self.gain(other, to, from) - 2 * shared(other), other))
            .filter(|&(total, _)| total > 0)
            .max_by_key(|&(total, other)| (total, std::cmp::Reverse(other)))
            .map(|(_, other)| other)
    }

    fn new_route(&self, place: usize, from: usize, delta_max: i64) -> Option<usize> {
        let near = &self.near[place * self.sites..(place + 1) * self.sites];
        let delta = |site: usize| i64::from(near[from]) - i64::from(near[site]);
        let under = (0..self.sites).filter(|&site| self.loads[site] < self.threshold);
        let best = under.min_by_key(|&site| (delta(site), self.loads[site], site))?;
        (delta(best) <= delta_max).then_some(best)
    }

    fn reroute(&mut self, place: usize, from: usize, to: usize) {
        self.loads[from] -= 1;
        self.loads[to] += 1;
        self.routes[place].1 = to as u16;
        for &partner in &self.partners[place] {
            self.near[partner as usize * self.sites + from] -= 1;
            self.near[partner as usize * self.sites + to] += 1;
        }
    }
}
